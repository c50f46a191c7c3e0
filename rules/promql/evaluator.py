"""Expressions, compiled once into closures and evaluated on a store.

Source: Prometheus 3, 'Operators' and 'Functions'; arithmetic as Go's float64, which never raises.
Units: times are seconds of the store's clock.
"""

from __future__ import annotations

import math
import operator
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from iowarden.rules.promql import ranges
from iowarden.rules.promql.aggregations import aggregate, quantile
from iowarden.rules.promql.ast import (
    Aggregation,
    Binary,
    Call,
    Negation,
    Number,
    Selector,
    Subquery,
    Text,
    children,
)
from iowarden.rules.promql.errors import EvaluationError, TooExpensiveError
from iowarden.rules.promql.functions import (
    ELEMENTWISE,
    clamp,
    distinct,
    label_join,
    label_replacer,
    round_to,
    sort,
)
from iowarden.rules.promql.lexer import PromqlError, position_error
from iowarden.rules.promql.operators import TESTS, computation, joined
from iowarden.rules.promql.parser import (
    COMPARISONS,
    METRIC_NAME,
    matches_empty,
    parse,
    result_type,
)
from iowarden.rules.promql.regex import compile_anchored
from iowarden.rules.promql.store import (
    LOOKBACK_SECONDS,
    MOST_SAMPLES,
    Labels,
    Series,
    Store,
    VectorItem,
)

if TYPE_CHECKING:
    from iowarden.rules.promql.ast import Matcher, Node

__all__ = ["EvaluationError", "Expression", "PromqlError", "Sample", "compile_expression"]

SUBQUERY_STEP_SECONDS = 60.0
"""Of a subquery that says none, where nobody says otherwise. Source: Prometheus's default."""
MOST_WORK = 10_000_000
"""What one evaluation may cost; a unit is about 0.1 microseconds of a slow core, so it ends in 2 s.

The loop waits for it. A unit is a sample of a window; the others are measured in that:
"""
SERIES_COST, ELEMENT_COST, STEP_COST = 15, 5, 3
"""Of finding a series, of an element in an operation, of a node in a step of a subquery."""
GROUPED_COST, RELABELLED_COST, ROW_COST = 10, 25, 50
"""Beside that of an element: to group it, to give it other labels, to begin a subquery's series."""
STATE_COST = 8
"""Of a state of a regular expression's automaton, for each value that it may match."""


class Budget:
    """What some evaluations may cost together, because the same loop waits for all of them."""

    __slots__ = ("left",)

    def __init__(self, most: int = MOST_WORK) -> None:
        """Begin with nothing spent."""
        self.left = most


class _Run:
    """One evaluation: where it reads, the times that `@` names, and what it may still cost."""

    __slots__ = ("end", "found", "left", "most", "start", "step_seconds", "store")

    def __init__(
        self, store: Store, start: float, end: float, step_seconds: float, most: int
    ) -> None:
        self.store = store
        self.start = start
        self.end = end
        self.step_seconds = step_seconds
        self.most = self.left = most
        self.found: dict[int, _Found] = {}
        """Series by selector, found once for all the steps of a subquery."""

    def spend(self, cost: int) -> None:
        """Count work, before it is done where that is known.

        Errors: EvaluationError where it is too much.
        """
        self.left -= cost
        if self.left < 0:
            beside = "" if self.most >= MOST_WORK else " beside what else is asked now"
            raise TooExpensiveError(
                f"too expensive: one evaluation may read{beside} "
                f"{self.most:,} samples, or find {self.most // SERIES_COST:,} series;"
                " shorten its ranges, lengthen its steps or select less"
            )

    def relabel(self, labels: Labels, characters: int) -> None:
        """Count a label of so many characters beside others, before it is made.

        Errors: EvaluationError where it is too much: each `$1$1` doubles a text.
        """
        self.spend(RELABELLED_COST + len(labels) + characters)


_Found = list[tuple[str, Series]]
Vector = list[VectorItem]
_Row = tuple[str, Labels, "array[float]", "array[float]"]
_VectorFunction = Callable[[_Run, float], Vector]
_ScalarFunction = Callable[[_Run, float], float]
_SeriesFunction = Callable[[_Run], _Found]
_RowsFunction = Callable[[_Run, float], Iterator[_Row]]


@dataclass(frozen=True, slots=True)
class Sample:
    """One element of a vector; `name` is '' where an operation dropped it."""

    name: str
    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression ready to be evaluated."""

    text: str
    names: frozenset[str]
    """Metrics that its selectors read by name."""
    reads_any: bool
    """Whether some selector has no fixed name."""
    retention_seconds: Mapping[str, float]
    """History needed for each name; 0 where the newest sample is enough.

    Limits: what `@` with a fixed time asks for depends on when it is evaluated, and is not in it.
    """
    any_retention_seconds: float
    """History needed for each metric that a selector without a fixed name may find."""
    _function: _VectorFunction | _ScalarFunction = field(repr=False, compare=False)

    def evaluate(
        self,
        store: Store,
        at: float,
        *,
        step_seconds: float = SUBQUERY_STEP_SECONDS,
        start: float | None = None,
        end: float | None = None,
        budget: Budget | None = None,
    ) -> list[Sample] | float:
        """Return the vector or the scalar at this time.

        `step_seconds` is of subqueries that say none; start and end are those of a query of many
        times, else this one. What it costs is taken from the budget.
        Errors: EvaluationError.
        """
        if store.overfull:
            self._check_history(store)
        budget = budget or Budget()
        first, last = at if start is None else start, at if end is None else end
        run = _Run(store, first, last, step_seconds, min(MOST_WORK, max(0, budget.left)))
        try:
            result = self._function(run, at)
        finally:
            budget.left -= run.most - run.left
        return [Sample(*item) for item in result] if isinstance(result, list) else result

    def _check_history(self, store: Store) -> None:
        asked = {name for name, seconds in self.retention_seconds.items() if seconds}
        lost = store.overfull if self.any_retention_seconds else store.overfull & asked
        if lost:
            raise EvaluationError(
                f"no history of '{min(lost)}': all history that rules ask for is more than"
                f" {MOST_SAMPLES:,} samples; shorten the longest ranges and reload"
            )


def compile_expression(text: str) -> Expression:
    """Compile an expression.

    Errors: PromqlError, with line and column.
    """
    node = parse(text)
    retention: dict[str, float] = {}
    _retain(node, 0.0, retention)
    any_seconds = retention.pop("", None)
    try:
        kind = result_type(node)
        if kind not in {"scalar", "instant vector"}:
            _refuse(
                node,
                f"a {kind} as result is not supported: expected an instant vector or a scalar,"
                " such as a function of it gives",
            )
        function = _scalar(node) if kind == "scalar" else _vector(node)
    except _Refused as refused:
        raise position_error(text, refused.position, str(refused)) from None
    return Expression(
        text=text,
        names=frozenset(retention),
        reads_any=any_seconds is not None,
        retention_seconds=dict(sorted(retention.items())),
        any_retention_seconds=any_seconds or 0.0,
        _function=function,
    )


class _Refused(Exception):  # noqa: N818 - becomes a PromqlError, which knows the text
    """An expression that is well-formed, but cannot be evaluated."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position


def _refuse(node: Node, message: str) -> NoReturn:
    raise _Refused(node.position, message)


def _retain(node: Node, earlier: float, retention: dict[str, float]) -> None:
    """Note the history that the selectors of a node need; `earlier` is for how long it is asked."""
    if isinstance(node, Selector | Subquery):
        if node.at is not None:  # It does not move with the steps of the subquery around it.
            earlier = 0.0
        earlier = max(0.0, earlier + node.offset_seconds + (node.range_seconds or 0.0))
    if isinstance(node, Selector):
        needed = earlier + LOOKBACK_SECONDS if earlier else 0.0
        retention[node.name] = max(needed, retention.get(node.name, 0.0))
    for part in children(node):
        _retain(part, earlier, retention)


def _size(node: Node) -> int:
    return 1 + sum(_size(part) for part in children(node))


# --- scalars ---


def _scalar(node: Node) -> _ScalarFunction:
    match node:
        case Number():
            constant = node.value
            return lambda _run, _at: constant
        case Negation():
            operand = _scalar(node.operand)
            return lambda run, at: -operand(run, at)
        case Binary():
            left, right = _scalar(node.left), _scalar(node.right)
            compute = computation(node.operator)
            return lambda run, at: compute(left(run, at), right(run, at))
        case Call(function="time"):
            return lambda _run, at: at
        case Call(function="pi"):
            return lambda _run, _at: math.pi
        case Call(function="scalar"):
            vector = _vector(node.arguments[0])

            def only(run: _Run, at: float) -> float:
                items = vector(run, at)
                return items[0][2] if len(items) == 1 else math.nan

            return only
    _refuse(node, f"expected a scalar, got {_told(node)}")


def _told(node: Node) -> str:
    return f"the function '{node.function}'" if isinstance(node, Call) else result_type(node)


# --- vectors ---


def _vector(node: Node) -> _VectorFunction:
    """Return the function of a node that gives a vector; what it gives is counted as work."""
    evaluate = _operation(node)

    def counted(run: _Run, at: float) -> Vector:
        items = evaluate(run, at)
        run.spend(len(items) * ELEMENT_COST)
        return items

    return counted


def _operation(node: Node) -> _VectorFunction:
    match node:
        case Selector(range_seconds=None):
            return _selector(node)
        case Aggregation():
            return _aggregation(node)
        case Negation():
            return _mapped(node.operand, operator.neg)
        case Call():
            return _call(node)
        case Binary():
            scalar_left = result_type(node.left) == "scalar"
            scalar_right = result_type(node.right) == "scalar"
            if scalar_left or scalar_right:
                return _with_scalar(node, scalar_left=scalar_left)
            left, right, join = _vector(node.left), _vector(node.right), joined(node)
            return lambda run, at: join(left(run, at), right(run, at))
    _refuse(node, f"expected an instant vector, got {_told(node)}")


def _matches(matcher: Matcher) -> tuple[Callable[[Labels], bool], int]:
    """Return the test of one matcher, and what it costs where that is much.

    A label that is missing is one that is empty.
    """
    pair = (matcher.label, matcher.value)
    name, empty = matcher.label, matches_empty(matcher)
    match matcher.operator:
        case "=" if matcher.value:
            return (lambda labels: pair in labels), 0
        case "!=" if matcher.value:
            return (lambda labels: pair not in labels), 0
        case "=":
            return (lambda labels: all(key != name or not value for key, value in labels)), 0
        case "!=":
            return (lambda labels: any(key == name and bool(value) for key, value in labels)), 0
    pattern = compile_anchored(matcher.value)
    value_matches = pattern.matches
    positive = matcher.operator == "=~"

    def test(labels: Labels) -> bool:
        for key, value in labels:
            if key == name:
                return value_matches(value) is positive
        return empty

    return test, pattern.states * STATE_COST


def selects(node: Selector) -> Callable[[Labels], bool]:
    """Return the test whether a series with these labels is among a selector's; not of its name."""
    tests = [_matches(one)[0] for one in node.matchers]
    return lambda labels: all(test(labels) for test in tests)


def _series(node: Selector) -> _SeriesFunction:
    """Return the function that finds a selector's series, with their names."""
    named = [_matches(one) for one in node.matchers if one.label == METRIC_NAME]
    tested = [_matches(one) for one in node.matchers if one.label != METRIC_NAME]
    tests = [test for test, _ in tested]
    cost = SERIES_COST + sum(own for _, own in tested)
    name_cost = SERIES_COST + sum(own for _, own in named)
    matches: Callable[[Labels], bool] | None
    match tests:
        case []:
            matches = None
        case [only]:
            matches = only
        case _:

            def matches(labels: Labels) -> bool:
                return all(test(labels) for test in tests)

    def name_matches(name: str) -> bool:
        return all(test(((METRIC_NAME, name),)) for test, _ in named)

    if node.name:
        fixed = (node.name,) if name_matches(node.name) else ()

    def find(run: _Run) -> _Found:
        found = run.found.get(id(node))
        if found is not None:
            run.spend(len(found) * SERIES_COST)
            return found
        store = run.store
        names: Iterable[str]
        if node.name:
            names = fixed
        else:
            known = sorted(store.names())
            run.spend(len(known) * name_cost)
            names = filter(name_matches, known)
        found = []
        for name in names:
            run.spend(store.count(name) * cost)
            found += [(name, series) for series in store.series(name, matches)]
        run.found[id(node)] = found
        return found

    return find


def _before(at: float, seconds: float) -> float:
    """Return an earlier time, to the microsecond: 4 s - 2003 ms is a float next to 1.997."""
    return round(at - seconds, 6) if seconds else at


def _moment(node: Selector | Subquery) -> _ScalarFunction:
    """Return the time that `offset` and `@` say."""
    offset, fixed = node.offset_seconds, node.at
    match fixed:
        case None if not offset:
            return lambda _run, at: at
        case None:
            return lambda _run, at: _before(at, offset)
        case "start":
            return lambda run, _at: _before(run.start, offset)
        case "end":
            return lambda run, _at: _before(run.end, offset)
    moment = _before(fixed, offset)
    return lambda _run, _at: moment


def _selector(node: Selector) -> _VectorFunction:
    find, moment = _series(node), _moment(node)

    def select(run: _Run, at: float) -> Vector:
        at = moment(run, at)
        oldest = at - LOOKBACK_SECONDS
        items: Vector = []
        for name, series in find(run):
            # The newest sample is what nearly every rule wants: no call for it.
            if oldest < series.timestamp_seconds <= at:
                if not series.stale:
                    items.append((name, series.labels, series.value))
            elif sample := series.sample(at):
                items.append((name, series.labels, sample[1]))
        return items

    return select


def _timestamp(argument: Node) -> _VectorFunction:
    """Return when the samples of a selector were taken, or for anything else the time it is."""
    if not isinstance(argument, Selector):
        vector, mixed = _vector(argument), _mixes_names(argument)

        def same(run: _Run, at: float) -> Vector:
            result = [("", labels, at) for _, labels, _ in vector(run, at)]
            return distinct(result) if mixed else result

        return same
    find, moment = _series(argument), _moment(argument)

    def timestamps(run: _Run, at: float) -> Vector:
        at = moment(run, at)
        found = [(series.labels, series.sample(at)) for _, series in find(run)]
        result = [("", labels, sample[0]) for labels, sample in found if sample]
        return result if argument.name else distinct(result)

    return timestamps


# --- ranges ---


def _rows(node: Node) -> _RowsFunction:
    """Return the function that finds the samples of each series in the window before a time."""
    match node:
        case Selector(range_seconds=float(range_seconds)):
            find = _series(node)

            def select(run: _Run, end: float) -> Iterator[_Row]:
                begin = _before(end, range_seconds)
                for name, series in find(run):
                    timestamps, values = series.window(begin, end)
                    if values:
                        run.spend(len(values))
                        yield name, series.labels, timestamps, values

            return select
        case Subquery():
            return _subquery(node)
    _refuse(node, f"expected a range vector, got {_told(node)}")


def _subquery(node: Subquery) -> _RowsFunction:
    """Return the expression's values at each step in the window.

    Source: Prometheus: steps are whole multiples of their length since 1970, in milliseconds.
    """
    vector, cost = _vector(node.expression), _size(node.expression) * STEP_COST

    def evaluate(run: _Run, end: float) -> Iterator[_Row]:
        step = max(1, _milliseconds(node.step_seconds or run.step_seconds))
        first = _milliseconds(_before(end, node.range_seconds)) // step + 1
        last = _milliseconds(end) // step
        run.spend(max(0, last - first + 1) * cost)
        rows: dict[tuple[str, Labels], _Row] = {}
        for number in range(first, last + 1):
            at = number * step / 1000
            for name, labels, value in vector(run, at):
                row = rows.get((name, labels))
                if row is None:
                    run.spend(ROW_COST)
                    row = rows[name, labels] = (name, labels, array("d"), array("d"))
                row[2].append(at)
                row[3].append(value)
        yield from rows.values()

    return evaluate


def _milliseconds(seconds: float) -> int:
    """Return whole milliseconds; what a float of today's Unix time cannot tell is rounded up."""
    return math.floor(seconds * 1000 + 0.001)


def _over_range(name: str, argument: Node) -> _VectorFunction:
    function, keeps_name = ranges.FUNCTIONS[name], name == "last_over_time"
    rows, moment, range_seconds = _rows(argument), *_window(argument)
    mixed = not keeps_name and _mixes_names(argument)

    def computed(run: _Run, at: float) -> Vector:
        end = moment(run, at)
        result: Vector = []
        for metric, labels, timestamps, values in rows(run, end):
            value = function(timestamps, values, end, range_seconds)
            if value is not None:
                result.append((metric if keeps_name else "", labels, value))
        return distinct(result) if mixed else result

    return computed


def _window(node: Node) -> tuple[_ScalarFunction, float]:
    """Return when a range ends, and how long it is."""
    if not isinstance(node, Selector | Subquery) or node.range_seconds is None:
        _refuse(node, f"expected a range vector, got {_told(node)}")
    return _moment(node), node.range_seconds


def _line(argument: Node, ahead: _ScalarFunction | None) -> _VectorFunction:
    """Return the slope of the line through each series, or where it will be so many seconds ahead.

    Source: Prometheus: ahead of the time of the query, whatever `offset` and `@` say.
    """
    rows, (moment, _), mixed = _rows(argument), _window(argument), _mixes_names(argument)

    def computed(run: _Run, at: float) -> Vector:
        seconds = 0.0 if ahead is None else ahead(run, at)
        known: dict[bytes, ranges.Moments] = {}  # series of one source have the same timestamps
        result: Vector = []
        for _, labels, timestamps, values in rows(run, moment(run, at)):
            if len(values) < 2:
                continue
            key = timestamps.tobytes()
            times = known.get(key)
            if times is None:
                origin = timestamps[0] if ahead is None else at
                times = known[key] = ranges.moments(timestamps, origin)
            slope, level = ranges.line(values, times)
            result.append(("", labels, slope if ahead is None else slope * seconds + level))
        return distinct(result) if mixed else result

    return computed


def _quantile_over_time(rank: _ScalarFunction, argument: Node) -> _VectorFunction:
    rows, (moment, _), mixed = _rows(argument), _window(argument), _mixes_names(argument)

    def computed(run: _Run, at: float) -> Vector:
        number = rank(run, at)
        found = rows(run, moment(run, at))
        result = [("", labels, quantile(number, values)) for _, labels, _, values in found]
        return distinct(result) if mixed else result

    return computed


# --- functions and aggregations of a vector ---


def _mixes_names(node: Node) -> bool:
    """Return whether a vector may hold series that differ in nothing but their name."""
    match node:
        case Selector():
            return not node.name
        case Binary(operator="or") | Call(function="label_replace" | "label_join"):
            return True
        case Aggregation():
            named = not node.without and METRIC_NAME in node.labels
            keeps = named or node.operator in {"topk", "bottomk"}
            return keeps and _mixes_names(node.expression)
    return any(_mixes_names(part) for part in children(node))


def _mapped(argument: Node, function: Callable[[float], float]) -> _VectorFunction:
    """Return the vector's values after a function of one number; names are dropped."""
    vector, mixed = _vector(argument), _mixes_names(argument)

    def mapped(run: _Run, at: float) -> Vector:
        result = [("", labels, function(value)) for _, labels, value in vector(run, at)]
        return distinct(result) if mixed else result

    return mapped


def _with_scalar(node: Binary, *, scalar_left: bool) -> _VectorFunction:
    vector = _vector(node.right if scalar_left else node.left)
    scalar = _scalar(node.left if scalar_left else node.right)
    if node.operator in COMPARISONS and not node.returns_bool:
        return _filtered(vector, scalar, TESTS[node.operator], scalar_left=scalar_left)
    compute = computation(node.operator)
    mixed = _mixes_names(node)

    def computed(run: _Run, at: float) -> Vector:
        constant, items = scalar(run, at), vector(run, at)
        if scalar_left:
            result = [("", labels, compute(constant, value)) for _, labels, value in items]
        else:
            result = [("", labels, compute(value, constant)) for _, labels, value in items]
        return distinct(result) if mixed else result

    return computed


def _filtered(
    vector: _VectorFunction,
    scalar: _ScalarFunction,
    test: Callable[[float, float], bool],
    *,
    scalar_left: bool,
) -> _VectorFunction:
    """Return the elements that compare well with a scalar, on whichever side that stands."""

    def above(run: _Run, at: float) -> Vector:
        limit = scalar(run, at)
        return [item for item in vector(run, at) if test(limit, item[2])]

    def below(run: _Run, at: float) -> Vector:
        limit = scalar(run, at)
        return [item for item in vector(run, at) if test(item[2], limit)]

    return above if scalar_left else below


def _call(node: Call) -> _VectorFunction:
    match node.function, node.arguments:
        case name, (argument,) if name in ELEMENTWISE:
            return _mapped(argument, ELEMENTWISE[name])
        case name, (argument,) if name in ranges.FUNCTIONS:
            return _over_range(name, argument)
        case "deriv", (argument,):
            return _line(argument, None)
        case "predict_linear", (argument, ahead):
            return _line(argument, _scalar(ahead))
        case "quantile_over_time", (rank, argument):
            return _quantile_over_time(_scalar(rank), argument)
        case (("absent" | "absent_over_time"), (argument,)):
            return _absent(argument)
        case "timestamp", (argument,):
            return _timestamp(argument)
        case "vector", (argument,):
            scalar = _scalar(argument)
            return lambda run, at: [("", (), scalar(run, at))]
        case ("sort" | "sort_desc") as name, (argument,):
            return _sorted(argument, descending=name == "sort_desc")
    return _call_with_more(node)


def _call_with_more(node: Call) -> _VectorFunction:
    match node.function:
        case "round":
            return _rounded(node.arguments[0], _scalar(node.arguments[1]))
        case "clamp" | "clamp_min" | "clamp_max":
            return _clamped(node)
        case "label_replace" | "label_join":
            return _labelled(node)
    _refuse(node, f"expected an instant vector, got {_told(node)}")


def _sorted(argument: Node, *, descending: bool) -> _VectorFunction:
    vector = _vector(argument)
    return lambda run, at: sort(vector(run, at), descending=descending)


def _rounded(argument: Node, nearest: _ScalarFunction) -> _VectorFunction:
    vector, mixed = _vector(argument), _mixes_names(argument)

    def rounded(run: _Run, at: float) -> Vector:
        to = nearest(run, at)
        result = [("", labels, round_to(value, to)) for _, labels, value in vector(run, at)]
        return distinct(result) if mixed else result

    return rounded


def _clamped(node: Call) -> _VectorFunction:
    low: _ScalarFunction = lambda _run, _at: -math.inf  # noqa: E731 - typed
    high: _ScalarFunction = lambda _run, _at: math.inf  # noqa: E731 - typed
    match node.function, node.arguments:
        case "clamp", (_, first, second):
            low, high = _scalar(first), _scalar(second)
        case "clamp_min", (_, first):
            low = _scalar(first)
        case "clamp_max", (_, first):
            high = _scalar(first)
    vector, mixed = _vector(node.arguments[0]), _mixes_names(node.arguments[0])

    def clamped(run: _Run, at: float) -> Vector:
        bottom, top, items = low(run, at), high(run, at), vector(run, at)
        if bottom > top:  # whatever is wrong with the vector is told all the same
            return []
        result = [("", labels, clamp(value, bottom, top)) for _, labels, value in items]
        return distinct(result) if mixed else result

    return clamped


def _labelled(node: Call) -> _VectorFunction:
    texts = [argument.value for argument in node.arguments if isinstance(argument, Text)]
    vector = _vector(node.arguments[0])
    match node.function, texts:
        case "label_replace", (destination, replacement, source, pattern):
            try:
                replace = label_replacer(destination, replacement, source, pattern)
            except EvaluationError as error:
                _refuse(node, str(error))
            return lambda run, at: replace(vector(run, at), run.relabel)
        case "label_join", (destination, separator, *sources):
            return lambda run, at: label_join(
                vector(run, at), destination, separator, sources, run.relabel
            )
    _refuse(node, f"expected an instant vector, got {_told(node)}")


def _aggregation(node: Aggregation) -> _VectorFunction:
    vector = _vector(node.expression)
    name, labels, without = node.operator, node.labels, node.without
    cost = RELABELLED_COST if name == "count_values" else 0
    cost += GROUPED_COST if labels or without else 0

    def elements(run: _Run, at: float) -> Vector:
        items = vector(run, at)
        run.spend(len(items) * cost)
        return items

    match node.parameter:
        case None:
            return lambda run, at: aggregate(name, elements(run, at), None, labels, without=without)
        case Text(value=text):
            return lambda run, at: aggregate(name, elements(run, at), text, labels, without=without)
    number = _scalar(node.parameter)
    return lambda run, at: aggregate(
        name, elements(run, at), number(run, at), labels, without=without
    )


def _absent(argument: Node) -> _VectorFunction:
    """Return 1 where there is nothing, with the labels that the selector's = matchers say."""
    said: dict[str, str] = {}
    if isinstance(argument, Selector):
        # As Prometheus: the first = of a label counts, what follows it takes the label away.
        equal: set[str] = set()
        for matcher in argument.matchers:
            if matcher.operator == "=" and matcher.label not in equal:
                equal.add(matcher.label)
                said[matcher.label] = matcher.value
            else:
                said.pop(matcher.label, None)
        said.pop(METRIC_NAME, None)
    labels = tuple(sorted((name, value) for name, value in said.items() if value))
    nothing: Vector = [("", labels, 1.0)]
    if result_type(argument) == "range vector":
        rows, (moment, _) = _rows(argument), _window(argument)
        return lambda run, at: [] if any(rows(run, moment(run, at))) else nothing[:]
    vector = _vector(argument)
    return lambda run, at: [] if vector(run, at) else nothing[:]
