"""Selectors: which series of a store match, and their newest samples at a time.

Source: Prometheus 3, 'Querying basics': instant vector selectors, offset and @ modifiers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from iowarden.rules.promql.automaton import RegexError, Steps
from iowarden.rules.promql.format import quoted
from iowarden.rules.promql.regex import compile_anchored
from iowarden.rules.promql.run import (
    SERIES_COST,
    EvaluationRun,
    NamedSeries,
    ScalarFunction,
    SeriesFunction,
    Vector,
    VectorFunction,
)
from iowarden.rules.promql.signatures import METRIC_NAME, matches_empty
from iowarden.rules.promql.store import LOOKBACK_SECONDS, Labels, Window

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.rules.promql.ast import LabelMatcher, Selector, Subquery

MAX_STATES = 200
"""Largest automaton of a regular expression that decides which series have a history."""
MAX_WINDOW_STEPS = 100_000
"""Of all such decisions of a selector, about 0.1 s: of further series the history is stored."""


_Test = Callable[[Labels, Steps | None], bool]
"""Whether labels match; what a regular expression takes is taken from the steps, if any."""


def _test_of(matcher: LabelMatcher) -> tuple[_Test, int]:
    """Return the test of one matcher, and how many states its automaton has, if it needs one.

    A missing label counts as empty.
    """
    pair = (matcher.label, matcher.value)
    name, empty = matcher.label, matches_empty(matcher)
    match matcher.operator:
        case "=" if matcher.value:
            return (lambda labels, _: pair in labels), 0
        case "!=" if matcher.value:
            return (lambda labels, _: pair not in labels), 0
        case "=":
            return (lambda labels, _: all(key != name or not value for key, value in labels)), 0
        case "!=":
            return (lambda labels, _: any(key == name and bool(value) for key, value in labels)), 0
    pattern = compile_anchored(matcher.value)
    value_matches = pattern.matches
    positive = matcher.operator == "=~"

    def test(labels: Labels, steps: Steps | None) -> bool:
        for key, value in labels:
            if key == name:
                return value_matches(value, steps) is positive
        return empty

    return test, pattern.states


def selects(node: Selector) -> Callable[[Labels], bool]:
    """Return the test whether labels match a selector; the name is not tested."""
    tests = [_test_of(one)[0] for one in node.matchers]
    return lambda labels: all(test(labels, None) for test in tests)


def window_of(node: Selector, seconds: float) -> Window:
    """Return the history that a selector needs.

    Limits: an expensive regular expression is left out: it would be matched with every series.
    """
    used = sorted(
        (one for one in node.matchers if _test_of(one)[1] <= MAX_STATES),
        key=lambda one: (one.label, one.operator, one.value),
    )
    if not used:
        return Window(node.name, node.name, seconds)
    pairs = ",".join(f"{one.label}{one.operator}{quoted(one.value)}" for one in used)
    of_name = [_test_of(one)[0] for one in used if one.label == METRIC_NAME]
    of_labels = [_test_of(one)[0] for one in used if one.label != METRIC_NAME]
    steps = Steps(MAX_WINDOW_STEPS)

    def matches(name: str, labels: Labels) -> bool:
        own = ((METRIC_NAME, name),)
        try:
            return all(test(own, steps) for test in of_name) and all(
                test(labels, steps) for test in of_labels
            )
        except RegexError:
            return True

    return Window(f"{node.name}{{{pairs}}}", node.name, seconds, matches)


def series_of(node: Selector) -> SeriesFunction:
    """Return the function that finds a selector's series, with their names."""
    named = [_test_of(one) for one in node.matchers if one.label == METRIC_NAME]
    tested = [_test_of(one) for one in node.matchers if one.label != METRIC_NAME]
    tests = [test for test, _ in tested]
    counted = any(states for _, states in (*named, *tested))
    matches: _Test | None
    match tests:
        case []:
            matches = None
        case [only]:
            matches = only
        case _:

            def matches(labels: Labels, steps: Steps | None) -> bool:
                return all(test(labels, steps) for test in tests)

    def name_matches(name: str, steps: Steps | None = None) -> bool:
        return all(test(((METRIC_NAME, name),), steps) for test, _ in named)

    if node.name:
        fixed = (node.name,) if name_matches(node.name) else ()

    def search(run: EvaluationRun, steps: Steps | None) -> NamedSeries:
        store = run.store
        names: Iterable[str]
        if node.name:
            names = fixed
        else:
            known = sorted(store.names())
            run.spend(len(known) * SERIES_COST)
            names = (name for name in known if name_matches(name, steps))
        found = []
        for name in names:
            run.spend(store.count(name) * SERIES_COST)
            found += [(name, series) for series in store.series(name, matches, steps)]
        return found

    def find(run: EvaluationRun) -> NamedSeries:
        found = run.selected.get(id(node))
        if found is not None:
            run.spend(len(found) * SERIES_COST)
            return found
        found = run.searched(lambda steps: search(run, steps)) if counted else search(run, None)
        run.selected[id(node)] = found
        return found

    return find


def before(at: float, seconds: float) -> float:
    """Return an earlier time, to the microsecond: 4 s - 2003 ms is a float next to 1.997."""
    return round(at - seconds, 6) if seconds else at


def moment_of(node: Selector | Subquery) -> ScalarFunction:
    """Return the time that `offset` and `@` specify."""
    offset, fixed = node.offset_seconds, node.at
    match fixed:
        case None if not offset:
            return lambda _run, at: at
        case None:
            return lambda _run, at: before(at, offset)
        case "start":
            return lambda run, _at: before(run.start, offset)
        case "end":
            return lambda run, _at: before(run.end, offset)
    moment = before(fixed, offset)
    return lambda _run, _at: moment


def newest(node: Selector) -> VectorFunction:
    """Return the function that finds the newest samples of a selector's series."""
    find, moment = series_of(node), moment_of(node)

    def select(run: EvaluationRun, at: float) -> Vector:
        at = moment(run, at)
        oldest = at - LOOKBACK_SECONDS
        items: Vector = []
        for name, series in find(run):
            # Nearly every rule reads only the newest sample: no function call for it.
            if oldest < series.timestamp_seconds <= at:
                if not series.stale:
                    items.append((name, series.labels, series.value))
            elif sample := series.sample(at):
                items.append((name, series.labels, sample[1]))
        return items

    return select
