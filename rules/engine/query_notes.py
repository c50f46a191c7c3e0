"""What an expression of the query command selects that no series has: mostly a typing error. Pure.

Limits: only single matchers are judged; those that no series fits together may be meant so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.near import did_you_mean
from iowarden.rules.promql.ast import Aggregation, Binary, Call, Selector, children
from iowarden.rules.promql.format import quoted
from iowarden.rules.promql.signatures import METRIC_NAME, matches_empty
from iowarden.rules.rulefile.unmatched_selectors import fits, selectors

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence

    from iowarden.collectors.model import Labels
    from iowarden.rules.promql.ast import LabelMatcher, Node

    SeriesOf = Callable[[str], Sequence[Labels]]
    """The labels of all series that a metric has now; of every metric if the name is ''."""

MAX_VALUES = 8
"""Values of a label that are listed; then the number of the others."""
_TARGET_LABELS = frozenset({"instance", "job"})
"""Of a scrape: rules name them, and only series of other exporters have them here."""
_RELABELLING = frozenset({"label_replace", "label_join"})


def unmatched(expression: Node, series_of: SeriesOf, known: Container[str]) -> Iterator[str]:
    """Yield which labels of an expression, and which of their values, no series has.

    Also which of the `known` metrics has no series.
    """
    for selector in selectors(expression):
        series = series_of(selector.name)
        if series:
            yield from _of_selector(selector, series)
        elif selector.name in known:
            yield f"'{selector.name}' has no series now; why: iowarden metrics {selector.name}"
    yield from _of_grouping(expression, series_of)


def _of_selector(selector: Selector, series: Sequence[Labels]) -> Iterator[str]:
    of = f"series of '{selector.name}'" if selector.name else "series"
    for matcher in selector.matchers:
        if matches_empty(matcher) or matcher.label == METRIC_NAME:
            continue
        values = {value for labels in series for name, value in labels if name == matcher.label}
        if not values:
            yield f"no {of} has the label '{matcher.label}'{_others(matcher.label, series)}"
        elif not any(fits(matcher, {matcher.label: value}) for value in values):
            yield f"no {of} has {_written(matcher)}; they have: {_listed(values)}"


def _of_grouping(node: Node, series_of: SeriesOf) -> Iterator[str]:
    """Yield the labels of 'by' and 'on' that no series below them has, and so match as empty."""
    named: Iterable[str] = ()
    word = "by"
    if isinstance(node, Aggregation) and not node.without:
        named = node.labels
    elif isinstance(node, Binary) and node.matching.on:
        named, word = sorted(node.matching.labels), "on"
    if named and not _makes_labels(node):
        series = [labels for each in selectors(node) for labels in series_of(each.name)]
        there = {name for labels in series for name, _ in labels} | _TARGET_LABELS
        for label in named:
            if series and label not in there:
                yield f"no series has the label '{label}' of '{word}'{_others(label, series)}"
    for child in children(node):
        yield from _of_grouping(child, series_of)


def _makes_labels(node: Node) -> bool:
    """Whether an expression may make labels that no series has."""
    if isinstance(node, Call) and node.function in _RELABELLING:
        return True
    if isinstance(node, Aggregation) and node.operator == "count_values":
        return True
    return any(map(_makes_labels, children(node)))


def _others(label: str, series: Iterable[Labels]) -> str:
    """Return which labels of series may have been meant, or all."""
    there = {name for labels in series for name, _ in labels} - {METRIC_NAME}
    return did_you_mean(label, sorted(there)) or f"; they have: {_listed(there)}"


def _listed(words: Iterable[str]) -> str:
    every = sorted(words)
    more = f" and {len(every) - MAX_VALUES} more" if len(every) > MAX_VALUES else ""
    return (", ".join(every[:MAX_VALUES]) or "none") + more


def _written(matcher: LabelMatcher) -> str:
    return f"{matcher.label}{matcher.operator}{quoted(matcher.value)}"
