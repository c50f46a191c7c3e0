"""PromQL evaluator: compiles expressions into closures and evaluates them on a store.

Source: Prometheus 3, 'Operators' and 'Functions'; arithmetic as Go's float64, which never raises.
Units: times are seconds of the store's clock.
"""

from __future__ import annotations

import math
import operator
from array import array
from dataclasses import field
from typing import TYPE_CHECKING, NoReturn

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.quantity import duration
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
from iowarden.rules.promql.errors import EvaluationError
from iowarden.rules.promql.functions import (
    ELEMENTWISE,
    clamp,
    distinct,
    label_join,
    label_replacer,
    round_to,
    sort,
)
from iowarden.rules.promql.histogram import histogram_quantile
from iowarden.rules.promql.lexer import position_error
from iowarden.rules.promql.operators import TESTS, computation, vector_matcher
from iowarden.rules.promql.parser import parse
from iowarden.rules.promql.run import (
    ELEMENT_COST,
    GROUPED_COST,
    RELABELLED_COST,
    ROW_COST,
    STEP_COST,
    Budget,
    EvaluationRun,
    Row,
    RowsFunction,
    ScalarFunction,
    Vector,
    VectorFunction,
)
from iowarden.rules.promql.selectors import before, moment_of, newest, series_of, window_of
from iowarden.rules.promql.signatures import COMPARISONS, METRIC_NAME, result_type
from iowarden.rules.promql.store import LOOKBACK_SECONDS, MAX_SAMPLES, Labels, SeriesStore, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iowarden.rules.promql.ast import Node

SUBQUERY_STEP_SECONDS = 60.0
"""Default step of a subquery, if the caller has none. Source: Prometheus's default."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One element of a vector; `name` is '' where an operation dropped it."""

    name: str
    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression."""

    text: str
    names: frozenset[str]
    """Metrics that its selectors select by name."""
    reads_any: bool
    """Whether some selector has no fixed name."""
    windows: tuple[Window, ...]
    """The history that each selector needs, if it needs more than the newest sample.

    Limits: the history for an `@` with a fixed time depends on the time of evaluation, and is not
    included.
    """
    is_steady: bool
    """Whether the result stays the same while the newest samples of `names` do."""
    _function: VectorFunction | ScalarFunction = field(repr=False, compare=False)

    def evaluate(
        self,
        store: SeriesStore,
        at: float,
        *,
        step_seconds: float = SUBQUERY_STEP_SECONDS,
        start: float | None = None,
        end: float | None = None,
        budget: Budget | None = None,
    ) -> list[Sample] | float:
        """Return the vector or the scalar at this time.

        `step_seconds` is for subqueries without a step; start and end are those of a range query,
        otherwise this time. The cost is taken from the budget. Errors: EvaluationError.
        """
        first, last = at if start is None else start, at if end is None else end
        run = EvaluationRun(store, first, last, step_seconds, budget or Budget())
        return self._evaluated(run, at, budget)

    def explained(
        self, store: SeriesStore, at: float, *, step_seconds: float, budget: Budget
    ) -> tuple[list[Sample] | float, frozenset[str]]:
        """Return the result at this time and, if it is empty, metrics from which that follows.

        'a > 1 and b' is empty, whatever 'b' is, for as long as no value of 'a' is another one.
        """
        run = EvaluationRun(store, at, at, step_seconds, budget)
        result = self._evaluated(run, at, budget)
        names: set[str] = set()
        for node in () if result else run.empty_by:
            _retain(node, 0.0, {}, names)
        return result, frozenset(names)

    def _evaluated(
        self, run: EvaluationRun, at: float, budget: Budget | None
    ) -> list[Sample] | float:
        if run.store.overfull:
            self._check_history(run.store)
        try:
            result = self._function(run, at)
        finally:
            if budget is not None:
                budget.left -= run.budget_units - run.left
        return [Sample(*item) for item in result] if isinstance(result, list) else result

    def _check_history(self, store: SeriesStore) -> None:
        for window in self.windows:
            if window.seconds > store.retention_seconds(window):
                raise EvaluationError(
                    f"no history of '{window.selector}' over {duration(window.seconds)}: the"
                    f" history that all rules need exceeds {MAX_SAMPLES:,} changes and timestamps,"
                    " and the longest windows go first; select fewer series or shorten the range,"
                    " and reload"
                )


def compile_expression(text: str) -> Expression:
    """Compile an expression.

    Errors: PromqlError, with line and column.
    """
    return compile_node(parse(text), text)


def compile_node(node: Node, text: str) -> Expression:
    """Compile an expression, or a part of it; `text` is the whole.

    Errors: PromqlError, with line and column.
    """
    selected: dict[str, Window] = {}
    names: set[str] = set()
    _retain(node, 0.0, selected, names)
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
        names=frozenset(names - {""}),
        reads_any="" in names,
        windows=tuple(window for _, window in sorted(selected.items())),
        is_steady="" not in names and _is_steady(node),
        _function=function,
    )


class _Refused(Exception):  # noqa: N818 - becomes a PromqlError, which has the text
    """An expression that is well-formed, but cannot be evaluated."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position


def _refuse(node: Node, message: str) -> NoReturn:
    raise _Refused(node.position, message)


def _retain(node: Node, earlier: float, selected: dict[str, Window], names: set[str]) -> None:
    """Record the history that the selectors of a node need; `earlier`: how far back it is read."""
    if isinstance(node, Selector | Subquery):
        if node.at is not None:  # It does not move with the steps of the enclosing subquery.
            earlier = 0.0
        earlier = max(0.0, earlier + node.offset_seconds + (node.range_seconds or 0.0))
    if isinstance(node, Selector):
        names.add(node.name)
        if earlier:
            window = window_of(node, earlier + LOOKBACK_SECONDS)
            known = selected.get(window.selector)
            if known is None or known.seconds < window.seconds:
                selected[window.selector] = window
    for part in children(node):
        _retain(part, earlier, selected, names)


def _is_steady(node: Node) -> bool:
    """Whether a node reads neither the time nor any sample but the newest ones."""
    if isinstance(node, Subquery) or (
        isinstance(node, Call) and node.function in {"time", "timestamp"}
    ):
        return False
    if isinstance(node, Selector) and (
        node.range_seconds is not None or node.offset_seconds or node.at is not None
    ):
        return False
    return all(_is_steady(part) for part in children(node))


def _size(node: Node) -> int:
    return 1 + sum(_size(part) for part in children(node))


# --- scalars ---


def _scalar(node: Node) -> ScalarFunction:
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

            def only(run: EvaluationRun, at: float) -> float:
                items = vector(run, at)
                return items[0][2] if len(items) == 1 else math.nan

            return only
    _refuse(node, f"expected a scalar, got {_describe(node)}")


def _describe(node: Node) -> str:
    return f"the function '{node.function}'" if isinstance(node, Call) else result_type(node)


# --- vectors ---


def _vector(node: Node) -> VectorFunction:
    """Return the function of a node that returns a vector; its elements are counted as cost."""
    evaluate, own = _operation(node), (node,)
    is_binary = isinstance(node, Binary)

    def counted(run: EvaluationRun, at: float) -> Vector:
        items = evaluate(run, at)
        if items:
            run.empty_by = ()
            run.spend(len(items) * ELEMENT_COST)
        elif not (is_binary and run.empty_by):  # else its operands are the reason
            run.empty_by = own
        return items

    return counted


def _operation(node: Node) -> VectorFunction:
    match node:
        case Selector(range_seconds=None):
            return newest(node)
        case Aggregation():
            return _aggregation(node)
        case Negation():
            return _mapped(node.operand, lambda _run, _at: operator.neg)
        case Call():
            return _call(node)
        case Binary():
            scalar_left = result_type(node.left) == "scalar"
            scalar_right = result_type(node.right) == "scalar"
            if scalar_left or scalar_right:
                return _with_scalar(node, scalar_left=scalar_left)
            return _joined(node)
    _refuse(node, f"expected an instant vector, got {_describe(node)}")


def _joined(node: Binary) -> VectorFunction:
    """Return the function of an operator between two vectors."""
    left, right, join = _vector(node.left), _vector(node.right), vector_matcher(node)
    is_or = node.operator == "or"

    def joined(run: EvaluationRun, at: float) -> Vector:
        first = left(run, at)
        empty_by = run.empty_by
        second = right(run, at)
        if is_or:
            run.empty_by = empty_by + run.empty_by
        elif empty_by:
            run.empty_by = empty_by
        return join(first, second)

    return joined


def _timestamp(argument: Node) -> VectorFunction:
    """Return the timestamps of a selector's samples, else the time of evaluation."""
    if not isinstance(argument, Selector):
        return _mapped(argument, lambda _run, at: lambda _value: at)
    find, moment = series_of(argument), moment_of(argument)

    def timestamps(run: EvaluationRun, at: float) -> Vector:
        at = moment(run, at)
        found = [(series.labels, series.sample(at)) for _, series in find(run)]
        result = [("", labels, sample[0]) for labels, sample in found if sample]
        return result if argument.name else distinct(result)

    return timestamps


# --- ranges ---


def _rows(node: Node) -> RowsFunction:
    """Return the function that finds the samples of each series in the window before a time."""
    match node:
        case Selector(range_seconds=float(range_seconds)):
            find = series_of(node)

            def select(run: EvaluationRun, end: float) -> Iterator[Row]:
                begin = before(end, range_seconds)
                for name, series in find(run):
                    history = series.history  # of nearly every one: no function call between
                    own = series if history is None else history
                    timestamps, values = own.window(begin, end)
                    if values:
                        run.spend(len(values))
                        yield name, series.labels, timestamps, values

            return select
        case Subquery():
            return _subquery(node)
    _refuse(node, f"expected a range vector, got {_describe(node)}")


def _subquery(node: Subquery) -> RowsFunction:
    """Return the expression's values at each step in the window.

    Source: Prometheus: steps are whole multiples of their length since 1970, in milliseconds.
    """
    vector, cost = _vector(node.expression), _size(node.expression) * STEP_COST

    def evaluate(run: EvaluationRun, end: float) -> Iterator[Row]:
        step = max(1, _milliseconds(node.step_seconds or run.step_seconds))
        first = _milliseconds(before(end, node.range_seconds)) // step + 1
        last = _milliseconds(end) // step
        run.spend(max(0, last - first + 1) * cost)
        rows: dict[tuple[str, Labels], Row] = {}
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
    """Return whole milliseconds; what a float of current Unix time cannot resolve is rounded up."""
    return math.floor(seconds * 1000 + 0.001)


def _over_range(
    argument: Node,
    function_at: Callable[[EvaluationRun, float], ranges.Function],
    *,
    keeps_name: bool = False,
) -> VectorFunction:
    """Apply a function, built for the time of the query, to each series' window."""
    rows, (moment, range_seconds) = _rows(argument), _window(argument)
    mixed = not keeps_name and _mixes_names(argument)

    def computed(run: EvaluationRun, at: float) -> Vector:
        function, end = function_at(run, at), moment(run, at)
        result: Vector = []
        for metric, labels, timestamps, values in rows(run, end):
            value = function(timestamps, values, end, range_seconds)
            if value is not None:
                result.append((metric if keeps_name else "", labels, value))
        return distinct(result) if mixed else result

    return computed


def _window(node: Node) -> tuple[ScalarFunction, float]:
    """Return the end of a range, and its length."""
    if not isinstance(node, Selector | Subquery) or node.range_seconds is None:
        _refuse(node, f"expected a range vector, got {_describe(node)}")
    return moment_of(node), node.range_seconds


def _line(argument: Node, ahead: ScalarFunction | None) -> VectorFunction:
    """Return the slope of the regression line of each series, or its value so many seconds ahead.

    Source: Prometheus: ahead of the time of the query, whatever `offset` and `@` are.
    """

    def line_at(run: EvaluationRun, at: float) -> ranges.Function:
        seconds = 0.0 if ahead is None else ahead(run, at)
        known: dict[bytes, ranges.Moments] = {}  # series of one source have the same timestamps
        latest: bytes = b""
        times: ranges.Moments | None = None

        def line(
            timestamps: array[float], values: array[float], _end: float, _range: float
        ) -> float | None:
            nonlocal latest, times
            if len(values) < 2:
                return None
            key = timestamps.tobytes()
            if times is None or key != latest:  # quicker than to hash it
                latest, times = key, known.get(key)
            if times is None:
                origin = timestamps[0] if ahead is None else at
                times = known[key] = ranges.moments(timestamps, origin)
            slope, level = ranges.line(values, times)
            return slope if ahead is None else slope * seconds + level

        return line

    return _over_range(argument, line_at)


def _quantile_over_time(rank: ScalarFunction, argument: Node) -> VectorFunction:
    def quantile_at(run: EvaluationRun, at: float) -> ranges.Function:
        number = rank(run, at)
        return lambda _timestamps, values, _end, _range: quantile(number, values)

    return _over_range(argument, quantile_at)


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


def _mapped(
    argument: Node, function_at: Callable[[EvaluationRun, float], Callable[[float], float]]
) -> VectorFunction:
    """Return the vector with a function of a time applied to the values; names are dropped."""
    vector, mixed = _vector(argument), _mixes_names(argument)

    def mapped(run: EvaluationRun, at: float) -> Vector:
        function = function_at(run, at)
        result = [("", labels, function(value)) for _, labels, value in vector(run, at)]
        return distinct(result) if mixed else result

    return mapped


def _with_scalar(node: Binary, *, scalar_left: bool) -> VectorFunction:
    vector = _vector(node.right if scalar_left else node.left)
    scalar = _scalar(node.left if scalar_left else node.right)
    if node.operator in COMPARISONS and not node.returns_bool:
        return _filtered(vector, scalar, TESTS[node.operator], scalar_left=scalar_left)
    compute = computation(node.operator)
    mixed = _mixes_names(node)

    def computed(run: EvaluationRun, at: float) -> Vector:
        constant, items = scalar(run, at), vector(run, at)
        if scalar_left:
            result = [("", labels, compute(constant, value)) for _, labels, value in items]
        else:
            result = [("", labels, compute(value, constant)) for _, labels, value in items]
        return distinct(result) if mixed else result

    return computed


def _filtered(
    vector: VectorFunction,
    scalar: ScalarFunction,
    test: Callable[[float, float], bool],
    *,
    scalar_left: bool,
) -> VectorFunction:
    """Return the elements for which the comparison with a scalar on either side is true."""

    # The scalar first, as in all operations: `empty_by` names what was empty last.
    def above(run: EvaluationRun, at: float) -> Vector:
        limit = scalar(run, at)
        return [item for item in vector(run, at) if test(limit, item[2])]

    def below(run: EvaluationRun, at: float) -> Vector:
        limit = scalar(run, at)
        return [item for item in vector(run, at) if test(item[2], limit)]

    return above if scalar_left else below


def _call(node: Call) -> VectorFunction:
    match node.function, node.arguments:
        case name, (argument,) if name in ELEMENTWISE:
            elementwise = ELEMENTWISE[name]
            return _mapped(argument, lambda _run, _at: elementwise)
        case name, (argument,) if name in ranges.FUNCTIONS:
            function = ranges.FUNCTIONS[name]
            keeps_name = name == "last_over_time"
            return _over_range(argument, lambda _run, _at: function, keeps_name=keeps_name)
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


def _call_with_more(node: Call) -> VectorFunction:
    match node.function:
        case "round":
            return _rounded(node.arguments[0], _scalar(node.arguments[1]))
        case "clamp" | "clamp_min" | "clamp_max":
            return _clamped(node)
        case "label_replace" | "label_join":
            return _labelled(node)
        case "histogram_quantile":
            return _quantile_of_histograms(node)
    _refuse(node, f"expected an instant vector, got {_describe(node)}")


def _sorted(argument: Node, *, descending: bool) -> VectorFunction:
    vector = _vector(argument)
    return lambda run, at: sort(vector(run, at), descending=descending)


def _rounded(argument: Node, nearest: ScalarFunction) -> VectorFunction:
    def rounded(run: EvaluationRun, at: float) -> Callable[[float], float]:
        to = nearest(run, at)
        return lambda value: round_to(value, to)

    return _mapped(argument, rounded)


def _clamped(node: Call) -> VectorFunction:
    low: ScalarFunction = lambda _run, _at: -math.inf  # noqa: E731 - typed
    high: ScalarFunction = lambda _run, _at: math.inf  # noqa: E731 - typed
    match node.function, node.arguments:
        case "clamp", (_, first, second):
            low, high = _scalar(first), _scalar(second)
        case "clamp_min", (_, first):
            low = _scalar(first)
        case "clamp_max", (_, first):
            high = _scalar(first)
    vector, mixed = _vector(node.arguments[0]), _mixes_names(node.arguments[0])

    def clamped(run: EvaluationRun, at: float) -> Vector:
        bottom, top, items = low(run, at), high(run, at), vector(run, at)
        if bottom > top:  # every error of the vector is reported as well
            return []
        result = [("", labels, clamp(value, bottom, top)) for _, labels, value in items]
        return distinct(result) if mixed else result

    return clamped


def _labelled(node: Call) -> VectorFunction:
    texts = [argument.value for argument in node.arguments if isinstance(argument, Text)]
    vector = _vector(node.arguments[0])
    match node.function, texts:
        case "label_replace", (destination, replacement, source, pattern):
            try:
                replace = label_replacer(destination, replacement, source, pattern)
            except EvaluationError as error:
                _refuse(node, str(error))

            def replaced(run: EvaluationRun, at: float) -> Vector:
                items = vector(run, at)
                return run.searched(lambda steps: replace(items, run.relabel, steps))

            return replaced
        case "label_join", (destination, separator, *sources):
            return lambda run, at: label_join(
                vector(run, at), destination, separator, sources, run.relabel
            )
    _refuse(node, f"expected an instant vector, got {_describe(node)}")


def _quantile_of_histograms(node: Call) -> VectorFunction:
    rank, vector = _scalar(node.arguments[0]), _vector(node.arguments[1])

    def quantiles(run: EvaluationRun, at: float) -> Vector:
        items = vector(run, at)
        run.spend(len(items) * (RELABELLED_COST + GROUPED_COST))
        return distinct(histogram_quantile(rank(run, at), items))

    return quantiles


def _aggregation(node: Aggregation) -> VectorFunction:
    vector = _vector(node.expression)
    name, labels, without = node.operator, node.labels, node.without
    cost = RELABELLED_COST if name == "count_values" else 0
    cost += GROUPED_COST if labels or without else 0

    def elements(run: EvaluationRun, at: float) -> Vector:
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


def _absent(argument: Node) -> VectorFunction:
    """Return 1 if there is nothing, with the labels of the selector's = matchers."""
    said: dict[str, str] = {}
    if isinstance(argument, Selector):
        # As in Prometheus: the first = of a label counts, another one removes the label.
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
