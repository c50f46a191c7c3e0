"""What an expression gives now: for templates of rules, evidence of mails, and people. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iowarden.rules import scrape_labels
from iowarden.rules.alerting import alerts as life
from iowarden.rules.promql.ast import Selector
from iowarden.rules.promql.errors import EvaluationError, PromqlError
from iowarden.rules.promql.evaluator import Expression, compile_expression
from iowarden.rules.promql.parser import parse
from iowarden.rules.promql.selectors import selects
from iowarden.rules.promql.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.model import Sample
    from iowarden.rules.engine.sample_hub import SampleHub
    from iowarden.rules.engine.source_status import SourceStatus
    from iowarden.rules.promql import evaluator
    from iowarden.rules.promql.run import Budget

MOST_QUERIES = 1000


class Queries:
    """Expressions that no rule has, over what the store has for rules and what was said last."""

    def __init__(self, hub: SampleHub, sources: Mapping[str, SourceStatus[Any]]) -> None:
        """Take what is looked at; only what was compiled is kept."""
        self._hub = hub
        self._sources = sources
        self._compiled: dict[str, Expression] = {}
        self._newest: dict[str, dict[str | None, list[Sample]]] = {}
        """By selector and label 'device' what the hub shows."""
        self._newest_of = 0

    def query(self, text: str, now: float, budget: Budget | None = None) -> list[evaluator.Sample]:
        """Return what an expression gives now; used by templates and evidence.

        Errors: PromqlError, EvaluationError.
        """
        expression = self._compiled.get(text)
        if expression is None:
            if len(self._compiled) >= MOST_QUERIES:  # templates put device names into them
                self._compiled.clear()
            expression = self._compiled[text] = compile_expression(text)
        self._check_history(expression)
        hub = self._hub
        store = hub.store
        if not all(map(hub.wants, expression.names)):
            # No rule reads all of it, so the store does not have it: what was said last will do.
            store = Store()
            for name in expression.names:
                if hub.wants(name):
                    store.share(hub.store, name)
                else:
                    store.append_many(now, hub.last(name))
        results = expression.evaluate(store, now, budget=budget)
        return results if isinstance(results, list) else []

    def look(
        self, text: str, alerts: Iterable[life.Alert], now: float, budget: Budget | None = None
    ) -> list[evaluator.Sample] | float:
        """Return what an expression gives now, of all there is: what a person asks.

        Other exporters' series are among it, shown or not. Errors: PromqlError, EvaluationError.
        """
        expression = compile_expression(text)
        self._check_history(expression)
        hub = self._hub
        if expression.names <= hub.wanted and not expression.reads_any:
            return expression.evaluate(hub.store, now, budget=budget)
        store = Store()
        for chunk in hub.chunks():
            for family, samples in chunk.families if not chunk.name.startswith("node_") else ():
                if expression.reads_any or family.name in expression.names:
                    store.append_many(now, samples)
        store.append_many(now, scrape_labels.up(hub.targets))
        for status in self._sources.values():
            source = status.source
            if source.node is None or not status.samples:
                continue
            if expression.reads_any or any(
                n.startswith(source.node_prefixes) for n in expression.names
            ):
                store.append_many(
                    now, scrape_labels.labelled(source.node(status.value), hub.targets)
                )
        store.append_many(now, life.series(alerts))
        for name in hub.store.names() if expression.reads_any else expression.names:
            if hub.wants(name):
                store.share(hub.store, name)
        return expression.evaluate(store, now, budget=budget)

    def _check_history(self, expression: Expression) -> None:
        """Refuse what asks for more history than is kept, instead of an answer from less of it.

        Errors: EvaluationError.
        """
        for name, needed in expression.retention_seconds.items():
            kept = self._hub.store.retention_seconds(name)
            if needed > kept:
                raise EvaluationError(
                    f"expected {needed:.0f} s of history of '{name}', kept are {kept:.0f} s:"
                    " history is kept as long as a loaded rule asks; record or alert on this range"
                )
        if expression.any_retention_seconds > self._hub.store.retention_seconds(""):
            raise EvaluationError("expected a metric's name: history is kept by name")

    def selected(self, text: str, device: str | None) -> list[Sample]:
        """Return the newest samples of a selector, of another device none.

        A rule of a user may say anything.
        """
        if self._newest_of != self._hub.version:
            self._newest, self._newest_of = {}, self._hub.version
        found = self._newest.get(text)
        if found is None:  # a thousand disks may fail at once
            found = self._newest[text] = {}
            for sample in self._matching(text):
                found.setdefault(dict(sample[1]).get("device"), []).append(sample)
        if device is None:
            return [sample for samples in found.values() for sample in samples]
        return [*found.get(None, ()), *found.get(device, ())]

    def _matching(self, text: str) -> list[Sample]:
        try:
            selector = parse(text)
        except PromqlError:
            return []
        if not isinstance(selector, Selector):
            return []
        matches = selects(selector)
        return [sample for sample in self._hub.last(selector.name) if matches(sample[1])]
