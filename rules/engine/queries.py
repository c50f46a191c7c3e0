"""Current values of expressions: for templates, evidence in mails, and the query command. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iowarden.rules import scrape_labels
from iowarden.rules.alerting import alerts as life
from iowarden.rules.promql.ast import Selector
from iowarden.rules.promql.errors import EvaluationError, PromqlError
from iowarden.rules.promql.evaluator import Expression, compile_expression
from iowarden.rules.promql.parser import parse
from iowarden.rules.promql.selectors import selects
from iowarden.rules.promql.store import SeriesStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.model import Sample
    from iowarden.rules.engine.sample_hub import SampleHub
    from iowarden.rules.engine.source_status import SourceStatus
    from iowarden.rules.promql import evaluator
    from iowarden.rules.promql.run import Budget

MAX_QUERIES = 1000


class Queries:
    """Queries of expressions outside the rules, over the rules' store and the last samples."""

    def __init__(self, hub: SampleHub, sources: Mapping[str, SourceStatus[Any]]) -> None:
        """Take the data to read; only compiled expressions are stored."""
        self._hub = hub
        self._sources = sources
        self._compiled: dict[str, Expression] = {}
        self._newest: dict[str, dict[str | None, list[Sample]]] = {}
        """By selector and label 'device' the newest samples of the hub."""
        self._newest_of = 0

    def query(self, text: str, now: float, budget: Budget | None = None) -> list[evaluator.Sample]:
        """Return the current value of an expression; used by templates and evidence.

        Errors: PromqlError, EvaluationError.
        """
        expression = self._compiled.get(text)
        if expression is None:
            if len(self._compiled) >= MAX_QUERIES:  # templates insert device names
                self._compiled.clear()
            expression = self._compiled[text] = compile_expression(text)
        self._check_history(expression)
        hub = self._hub
        store = hub.store
        if not all(map(hub.wants, expression.names)):
            # No rule reads all of it, so the store does not have it: the last samples are enough.
            store = SeriesStore()
            for name in expression.names:
                if hub.wants(name):
                    store.share(hub.store, name)
                else:
                    store.append_many(now, hub.last(name))
        results = expression.evaluate(store, now, budget=budget)
        return results if isinstance(results, list) else []

    def query_all(
        self, text: str, alerts: Iterable[life.Alert], now: float, budget: Budget | None = None
    ) -> list[evaluator.Sample] | float:
        """Return the current value of an expression over all series: used by the query command.

        Includes series of other exporters, exposed or not. Errors: PromqlError, EvaluationError.
        """
        expression = compile_expression(text)
        self._check_history(expression)
        hub = self._hub
        if expression.names <= hub.wanted and not expression.reads_any:
            return expression.evaluate(hub.store, now, budget=budget)
        store = SeriesStore()
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
        """Refuse an expression that needs more history than is stored.

        Errors: EvaluationError.
        """
        for window in expression.windows:
            kept = self._hub.store.retention_seconds(window)
            if window.seconds > kept:
                raise EvaluationError(
                    f"expected {window.seconds:.0f} s of history of '{window.selector}', got"
                    f" {kept:.0f} s: history is stored only as long as a loaded rule needs it; add"
                    " a rule with this range"
                )

    def selected(self, text: str, device: str | None) -> list[Sample]:
        """Return the newest samples of a selector, without those of other devices.

        The selector may be any text, because users write rules.
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
