"""Current values of expressions: for templates, evidence in mails, and the query command. Pure."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from iowarden.collectors.quantity import duration
from iowarden.rules import scrape_labels
from iowarden.rules.alerting import alerts as life
from iowarden.rules.engine import query_notes
from iowarden.rules.engine.sample_hub import REQUESTED_SECONDS
from iowarden.rules.promql.ast import Selector
from iowarden.rules.promql.errors import EvaluationError, PromqlError, TooExpensiveError
from iowarden.rules.promql.evaluator import Expression, compile_expression
from iowarden.rules.promql.parser import parse
from iowarden.rules.promql.selectors import selects
from iowarden.rules.promql.store import LOOKBACK_SECONDS, SeriesStore
from iowarden.rules.rulefile.unmatched_selectors import OF_ALERTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from iowarden.collectors.model import Labels, Sample
    from iowarden.rules.engine.sample_hub import SampleHub
    from iowarden.rules.engine.source_status import SourceStatus
    from iowarden.rules.promql import evaluator
    from iowarden.rules.promql.run import Budget
    from iowarden.rules.promql.store import Window

MAX_QUERIES = 1000
QUERY_COST, COPY_COST = 200, 40
"""For a query of a template at all, and for each series that is copied for it, in units of cost."""


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
        self._copied, self._copied_names = SeriesStore(), set[str]()
        """The last samples of metrics that no rule reads."""
        self._copied_of = 0, 0.0

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
        if budget is not None:
            budget.left -= QUERY_COST
        store = self._store_of(expression, now, budget)
        if budget is not None and budget.left < 0:
            raise TooExpensiveError("too expensive: its queries together; query less")
        results = expression.evaluate(store, now, budget=budget)
        return results if isinstance(results, list) else []

    def _store_of(self, expression: Expression, now: float, budget: Budget | None) -> SeriesStore:
        """Return the store with what an expression reads.

        Where no rule reads a metric, the store of the rules does not have it: the last samples are
        enough, copied once for all alerts.
        """
        hub = self._hub
        if all(map(hub.wants, expression.names)):
            return hub.store
        if self._copied_of != (hub.version, now):
            self._copied, self._copied_names = SeriesStore(), set[str]()
            self._copied_of = hub.version, now
        store = SeriesStore()
        for name in expression.names:
            if hub.wants(name):
                store.share(hub.store, name)
                continue
            if name not in self._copied_names:
                self._copied_names.add(name)
                self._copied.append_many(now, hub.last(name))
                if budget is not None:
                    budget.left -= COPY_COST * self._copied.count(name)
            store.share(self._copied, name)
        return store

    def query_all(
        self, text: str, alerts: Iterable[life.Alert], now: float, budget: Budget | None = None
    ) -> list[evaluator.Sample] | float:
        """Return the current value of an expression over all series: used by the query command.

        Includes series of other exporters, exposed or not. Errors: PromqlError, EvaluationError.
        """
        expression = compile_expression(text)
        self._request_history(expression, now)
        return expression.evaluate(self._every_store(expression, alerts, now), now, budget=budget)

    def _every_store(
        self, expression: Expression, alerts: Iterable[life.Alert], now: float
    ) -> SeriesStore:
        """Return a store with what an expression reads, whatever it is from."""
        hub = self._hub
        if expression.names <= hub.wanted and not expression.reads_any:
            return hub.store
        store = SeriesStore()
        for chunk in hub.chunks():
            if chunk.name.startswith("node_"):
                continue
            groups = chunk.families if expression.reads_any else chunk.of(expression.names)
            for _, samples in groups:
                store.append_many(now, samples)
        store.append_many(now, scrape_labels.up(hub.targets))
        for status in self._sources.values():
            source = status.source
            if source.node is None or status.shown is None:
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
        return store

    def _check_history(self, expression: Expression) -> None:
        """Refuse an expression that needs more history than is stored.

        Errors: EvaluationError.
        """
        for window in self._missing(expression):
            kept = self._hub.store.retention_seconds(window)
            raise EvaluationError(
                f"expected {duration(window.seconds)} of history of '{window.selector}', got"
                f" {duration(kept)}: history is stored only as long as a loaded rule needs it; add"
                " a rule with this range"
            )

    def _request_history(self, expression: Expression, now: float) -> None:
        """Record from now on what an expression needs and no rule does.

        Errors: EvaluationError, the first time.
        """
        missing = self._missing(expression)
        if not missing:
            return
        if any(not window.name for window in missing):
            raise EvaluationError(
                f"no history of '{missing[0].selector}': expected a metric name before the braces;"
                " without one, history is recorded only for rules"
            )
        self._hub.request(missing, now)
        if self._missing(expression):
            self._check_history(expression)  # there is too much already
        names = ", ".join(f"'{window.selector}'" for window in missing)
        raise EvaluationError(
            f"no history of {names} yet: no rule reads it. It is recorded from now on, for"
            f" {duration(max(REQUESTED_SECONDS, 2 * missing[0].seconds))}; repeat the query"
            " later, or add a rule with this range"
        )

    def _missing(self, expression: Expression) -> list[Window]:
        kept = self._hub.store.retention_seconds
        return [window for window in expression.windows if window.seconds > kept(window)]

    def incomplete(self, text: str, now: float) -> str:
        """Return since when history is recorded that an expression reads, '' if long enough."""
        parts = []
        for window in compile_expression(text).windows:
            needed = window.seconds - LOOKBACK_SECONDS
            since = max(window.known(self._hub.watched().since), default=now)
            if now - since < needed:
                parts.append(f"'{window.selector}' is recorded for {duration(now - since)}")
        return "" if not parts else f"incomplete: {', '.join(parts)}, less than the range"

    def near(self, text: str, known: Collection[str]) -> str:
        """Return a hint at names like those of an expression that nothing has, '' if none."""
        there = {*known, *self._hub.store.names(), *OF_ALERTS, scrape_labels.UP}
        parts = []
        for name in sorted(compile_expression(text).names - there):
            like = difflib.get_close_matches(name, there, 3, 0.75)
            parts.append(
                f"no metric is named '{name}'" + (f"; near: {', '.join(like)}" if like else "")
            )
        return "; ".join(parts)

    def unmatched(
        self, text: str, alerts: Iterable[life.Alert], now: float, known: Collection[str]
    ) -> str:
        """Return which labels of an expression, and values of them, no series has; '' if none."""
        expression = compile_expression(text)
        store = self._every_store(expression, alerts, now)

        def series_of(name: str) -> list[Labels]:
            every = map(store.series, [name] if name else store.names())
            return [one.labels for of in every for one in of if one.sample(now) is not None]

        return "; ".join(dict.fromkeys(query_notes.unmatched(parse(text), series_of, known)))

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
