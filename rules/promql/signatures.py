"""Types of operators and functions, and the type check of expressions.

Source: Prometheus 3, 'Functions', 'Operators' and 'Feature flags' (what is experimental).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NoReturn

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.promql.ast import (
    Aggregation,
    Binary,
    Call,
    LabelMatcher,
    Negation,
    Number,
    Selector,
    Subquery,
    Text,
    begin,
    children,
)
from iowarden.rules.promql.automaton import RegexError
from iowarden.rules.promql.lexer import position_error
from iowarden.rules.promql.regex import compile_anchored

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.rules.promql.ast import Node

METRIC_NAME = "__name__"
COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
SET_OPERATORS = frozenset({"and", "or", "unless"})
MAX_DEPTH = 200
"""Nested nodes: limits the use of Python's stack during evaluation."""

Type = Literal["scalar", "string", "instant vector", "range vector"]


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """Types of a function's arguments and of its result."""

    arguments: tuple[Type, ...]
    result: Type = "instant vector"
    last: Literal["required", "optional", "repeated"] = "required"
    """How often the last argument occurs: once, at most once, any number of times."""


_OF_VECTOR = FunctionSignature(("instant vector",))
_OF_TIMES = FunctionSignature(("instant vector",), last="optional")
_OF_RANGE = FunctionSignature(("range vector",))
FUNCTIONS: Mapping[str, FunctionSignature] = {
    **dict.fromkeys(
        """abs absent acos acosh asin asinh atan atanh ceil cos cosh deg exp floor ln log10 log2 rad
        sgn sin sinh sort sort_desc sqrt tan tanh timestamp""".split(),
        _OF_VECTOR,
    ),
    **dict.fromkeys(
        """day_of_month day_of_week day_of_year days_in_month hour minute month year""".split(),
        _OF_TIMES,
    ),
    **dict.fromkeys(
        """absent_over_time avg_over_time changes count_over_time delta deriv idelta increase irate
        last_over_time max_over_time min_over_time present_over_time rate resets stddev_over_time
        stdvar_over_time sum_over_time""".split(),
        _OF_RANGE,
    ),
    "clamp": FunctionSignature(("instant vector", "scalar", "scalar")),
    "clamp_max": FunctionSignature(("instant vector", "scalar")),
    "clamp_min": FunctionSignature(("instant vector", "scalar")),
    "histogram_quantile": FunctionSignature(("scalar", "instant vector")),
    "label_join": FunctionSignature(
        ("instant vector", "string", "string", "string"), last="repeated"
    ),
    "label_replace": FunctionSignature(("instant vector", "string", "string", "string", "string")),
    "pi": FunctionSignature((), "scalar"),
    "predict_linear": FunctionSignature(("range vector", "scalar")),
    "quantile_over_time": FunctionSignature(("scalar", "range vector")),
    "round": FunctionSignature(("instant vector", "scalar"), last="optional"),
    "scalar": FunctionSignature(("instant vector",), "scalar"),
    "time": FunctionSignature((), "scalar"),
    "vector": FunctionSignature(("scalar",)),
}
EXPERIMENTAL_FUNCTIONS = frozenset(
    """double_exponential_smoothing end first_over_time histogram_quantiles holt_winters info
    integral mad_over_time max_of min_of range sort_by_label sort_by_label_desc start
    start_timestamp step ts_of_first_over_time ts_of_last_over_time ts_of_max_over_time
    ts_of_min_over_time""".split()
)
HISTOGRAM_FUNCTIONS = frozenset(
    """histogram_avg histogram_count histogram_fraction histogram_stddev histogram_stdvar
    histogram_sum""".split()
)
"""Of native histograms; histogram_quantile also takes classic ones."""
AGGREGATIONS: Mapping[str, Type | None] = {
    **dict.fromkeys("avg count group max min stddev stdvar sum".split()),
    "bottomk": "scalar",
    "count_values": "string",
    "quantile": "scalar",
    "topk": "scalar",
}
"""With the type of the parameter."""
EXPERIMENTAL_AGGREGATIONS = frozenset({"limit_ratio", "limitk"})


def result_type(node: Node) -> Type:
    """Return the type of a node's result."""
    match node:
        case Number():
            return "scalar"
        case Text():
            return "string"
        case Selector(range_seconds=None) | Aggregation():
            return "instant vector"
        case Selector() | Subquery():
            return "range vector"
        case Negation():
            return result_type(node.operand)
        case Call():
            return FUNCTIONS[node.function].result
    scalars = result_type(node.left) == result_type(node.right) == "scalar"
    return "scalar" if scalars else "instant vector"


def matches_empty(matcher: LabelMatcher) -> bool:
    """Return whether a series without the label matches."""
    match matcher.operator:
        case "=":
            return not matcher.value
        case "!=":
            return bool(matcher.value)
    return compile_anchored(matcher.value).matches("") is (matcher.operator == "=~")


def check(text: str, root: Node) -> None:
    """Check types, depth and regular expressions of a well-formed expression.

    Errors: PromqlError, the first that Prometheus would report. Limits: MAX_DEPTH.
    """
    for node, depth in _walk(root):
        if depth > MAX_DEPTH:
            message = f"more than {MAX_DEPTH} operators and calls inside each other"
            raise position_error(text, node.position, f"{message}; split it into several rules")
        if isinstance(node, Selector):
            _check_selector(text, node)
    _Check(text).node(root)


def _walk(root: Node) -> Iterator[tuple[Node, int]]:
    """Yield each node with its depth, from left to right, without recursion."""
    waiting = [(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting.extend((child, depth + 1) for child in reversed(children(node)))


def _check_selector(text: str, node: Selector) -> None:
    for matcher in node.matchers:
        if matcher.operator in {"=~", "!~"}:
            try:
                compile_anchored(matcher.value)
            except RegexError as error:
                raise position_error(text, matcher.position, str(error)) from error
    if not node.name and all(matches_empty(matcher) for matcher in node.matchers):
        message = "vector selector must contain at least one non-empty matcher"
        raise position_error(text, node.position, message)


@dataclass(frozen=True, slots=True)
class _Check:
    """Checks the types of a tree in Prometheus's order."""

    text: str

    def fail(self, position: int, message: str) -> NoReturn:
        raise position_error(self.text, position, message)

    def expect(self, node: Node, wanted: Type, where: str) -> None:
        self.node(node)
        if (got := result_type(node)) != wanted:
            self.fail(begin(node), f"expected type {wanted} in {where}, got {got}")

    def node(self, node: Node) -> None:
        match node:
            case Aggregation():
                self.expect(node.expression, "instant vector", "aggregation expression")
                wanted = AGGREGATIONS[node.operator]
                if wanted and node.parameter:
                    self.expect(node.parameter, wanted, "aggregation parameter")
            case Binary():
                self.binary(node)
            case Call():
                self.call(node)
            case Negation():
                self.node(node.operand)
                self.signed(node.position, node.operand)
            case Subquery():
                self.node(node.expression)
                if (got := result_type(node.expression)) != "instant vector":
                    message = f"subquery is only allowed on instant vector, got {got} instead"
                    self.fail(node.position, message)

    def signed(self, position: int, operand: Node) -> None:
        got = result_type(operand)
        if got not in {"scalar", "instant vector"}:
            message = (
                "unary expression only allowed on expressions of type scalar or instant vector"
            )
            self.fail(position, f'{message}, got "{got}"')

    def binary(self, node: Binary) -> None:
        operator, matching = node.operator, node.matching
        self.node(node.left)
        self.node(node.right)
        types = (result_type(node.left), result_type(node.right))
        scalars = [one == "scalar" for one in types]
        if node.returns_bool and operator not in COMPARISONS:
            self.fail(node.position, "bool modifier can only be used on comparison operators")
        if operator in COMPARISONS and all(scalars) and not node.returns_bool:
            self.fail(node.position, "comparisons between scalars must use BOOL modifier")
        for label in matching.include:
            if matching.on and label in matching.labels:
                message = f'label "{label}" must not occur in ON and GROUP clause at once'
                self.fail(node.position, message)
        for side, got in zip((node.left, node.right), types, strict=True):
            if got not in {"scalar", "instant vector"}:
                message = "binary expression must contain only scalar and instant vector types"
                self.fail(begin(side), f"{message}, got {got}")
        # `1 + on() 2` has no labels that could be lost; Prometheus also accepts an empty list.
        if any(scalars) and matching.labels:
            self.fail(node.start, "vector matching only allowed between instant vectors")
        if operator in SET_OPERATORS and matching.many and not any(scalars):
            self.fail(node.start, f'no grouping allowed for "{operator}" operation')
        if operator in SET_OPERATORS and any(scalars):
            message = f'set operator "{operator}" not allowed in binary scalar expression'
            self.fail(node.start, message)

    def call(self, node: Call) -> None:
        signature = FUNCTIONS[node.function]
        most = len(signature.arguments)
        least = most if signature.last == "required" else most - 1
        got = len(node.arguments)
        expected = ""
        if least == most != got:
            expected = f"{most}"
        elif got < least:
            expected = f"at least {least}"
        elif got > most and signature.last == "optional":
            expected = f"at most {most}"
        if expected:
            message = f'expected {expected} argument(s) in call to "{node.function}", got {got}'
            self.fail(node.position, message)
        for index, argument in enumerate(node.arguments):
            wanted = signature.arguments[min(index, most - 1)]
            self.expect(argument, wanted, f'call to function "{node.function}"')
        match node.function, node.arguments:
            case "label_replace", (*_, Text(value=pattern)):
                try:
                    compile_anchored(pattern)
                except RegexError as error:
                    self.fail(begin(node.arguments[-1]), str(error))
