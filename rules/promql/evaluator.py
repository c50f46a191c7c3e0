"""Expressions, compiled once into closures and evaluated on a store.

Source: Prometheus 3, 'Operators' and 'Functions'; arithmetic as Go's float64, which never raises.
Units: times are seconds of the store's clock.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iowarden.rules.promql.ast import Binary, Call, Negation, Number, Selector
from iowarden.rules.promql.lexer import PromqlError
from iowarden.rules.promql.parser import (
    COMPARISONS,
    METRIC_NAME,
    SET_OPERATORS,
    matches_empty,
    parse,
    result_type,
)
from iowarden.rules.promql.regex import compile_anchored
from iowarden.rules.promql.store import Labels, Store, VectorItem

if TYPE_CHECKING:
    from iowarden.rules.promql.ast import Matcher, Matching, Node

__all__ = ["EvaluationError", "Expression", "PromqlError", "Sample", "compile_expression"]

Vector = list[VectorItem]
_VectorFunction = Callable[[Store, float], Vector]
_ScalarFunction = Callable[[Store, float], float]
_Key = Callable[[VectorItem], Labels]


class EvaluationError(Exception):
    """An expression that these samples give no answer to, such as an ambiguous match."""


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
    """History needed for each name; 0 where the newest sample is enough."""
    _function: _VectorFunction | _ScalarFunction = field(repr=False, compare=False)

    def evaluate(self, store: Store, at: float) -> list[Sample] | float:
        """Return the vector or the scalar at this time.

        Errors: EvaluationError.
        """
        result = self._function(store, at)
        return [Sample(*item) for item in result] if isinstance(result, list) else result


def compile_expression(text: str) -> Expression:
    """Compile an expression.

    Errors: PromqlError, with line and column.
    """
    node = parse(text)
    selectors = list(_selectors(node))
    names = frozenset(selector.name for selector in selectors if selector.name)
    scalar = result_type(node) == "scalar"
    return Expression(
        text=text,
        names=names,
        reads_any=any(not selector.name for selector in selectors),
        retention_seconds=dict.fromkeys(sorted(names), 0.0),
        _function=_scalar(node) if scalar else _vector(node),
    )


def _selectors(node: Node) -> list[Selector]:
    match node:
        case Selector():
            return [node]
        case Negation():
            return _selectors(node.operand)
        case Binary():
            return _selectors(node.left) + _selectors(node.right)
        case Call():
            return [one for argument in node.arguments for one in _selectors(argument)]
    return []


# --- arithmetic as Go's ---


def _divide(left: float, right: float) -> float:
    if right:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _modulo(left: float, right: float) -> float:
    try:
        return math.fmod(left, right)
    except ValueError:  # Python's answer to an infinite left or a zero right.
        return math.nan


def _power(left: float, right: float) -> float:
    odd = math.isfinite(right) and math.fmod(right, 2.0) in {1.0, -1.0}
    try:
        return math.pow(left, right)
    except OverflowError:
        return -math.inf if left < 0 and odd else math.inf
    except ValueError:
        if left == 0:
            return math.copysign(math.inf, left) if odd else math.inf
        return math.nan


_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%": _modulo,
    "^": _power,
    "atan2": math.atan2,
}
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _clamp(value: float, low: float, high: float) -> float:
    if math.isnan(value) or math.isnan(low) or math.isnan(high):
        return math.nan
    return max(low, min(high, value))


# --- scalars ---


def _scalar(node: Node) -> _ScalarFunction:
    match node:
        case Number():
            constant = node.value
            return lambda _store, _at: constant
        case Negation():
            operand = _scalar(node.operand)
            return lambda store, at: -operand(store, at)
        case Binary():
            left, right = _scalar(node.left), _scalar(node.right)
            test = _COMPARISONS.get(node.operator)
            compute = _ARITHMETIC[node.operator] if test is None else _as_number(test)
            return lambda store, at: compute(left(store, at), right(store, at))
        case Call(function="time"):
            return lambda _store, at: at
        case Call(function="scalar"):
            vector = _vector(node.arguments[0])

            def only(store: Store, at: float) -> float:
                items = vector(store, at)
                return items[0][2] if len(items) == 1 else math.nan

            return only
    message = f"not a scalar: {node!r}"
    raise TypeError(message)


# --- vectors ---


def _vector(node: Node) -> _VectorFunction:
    match node:
        case Selector():
            return _selector(node)
        case Negation():
            return _mapped(node.operand, operator.neg)
        case Call():
            return _call(node)
        case Binary():
            scalar_left = result_type(node.left) == "scalar"
            scalar_right = result_type(node.right) == "scalar"
            if scalar_left or scalar_right:
                return _with_scalar(node, scalar_left=scalar_left)
            if node.operator in SET_OPERATORS:
                return _set_operation(node)
            return _joined(node)
    message = f"not a vector: {node!r}"
    raise TypeError(message)


def _matches(matcher: Matcher) -> Callable[[Labels], bool]:
    """Return the test of one matcher; a label that is missing is one that is empty."""
    pair = (matcher.label, matcher.value)
    name, empty = matcher.label, matches_empty(matcher)
    match matcher.operator:
        case "=" if matcher.value:
            return lambda labels: pair in labels
        case "!=" if matcher.value:
            return lambda labels: pair not in labels
        case "=":
            return lambda labels: all(key != name or not value for key, value in labels)
        case "!=":
            return lambda labels: any(key == name and bool(value) for key, value in labels)
    fullmatch = compile_anchored(matcher.value).fullmatch
    positive = matcher.operator == "=~"

    def test(labels: Labels) -> bool:
        for key, value in labels:
            if key == name:
                return (fullmatch(value) is not None) is positive
        return empty

    return test


def _selector(node: Selector) -> _VectorFunction:
    named = [_matches(one) for one in node.matchers if one.label == METRIC_NAME]
    tests = [_matches(one) for one in node.matchers if one.label != METRIC_NAME]
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
        return all(test(((METRIC_NAME, name),)) for test in named)

    if node.name and name_matches(node.name):
        fixed = node.name
        return lambda store, at: store.select(fixed, at, matches)
    if node.name:
        return lambda _store, _at: []

    def select(store: Store, at: float) -> Vector:
        names = filter(name_matches, sorted(store.names()))
        return [item for name in names for item in store.select(name, at, matches)]

    return select


def _mixes_names(node: Node) -> bool:
    """Return whether a vector may hold series that differ in nothing but their name."""
    match node:
        case Selector():
            return not node.name
        case Negation():
            return _mixes_names(node.operand)
        case Call():
            return any(_mixes_names(argument) for argument in node.arguments)
        case Binary():
            either = _mixes_names(node.left) or _mixes_names(node.right)
            return node.operator == "or" or either
    return False


def _mapped(argument: Node, function: Callable[[float], float]) -> _VectorFunction:
    """Return the vector's values after a function of one number; names are dropped."""
    vector, mixed = _vector(argument), _mixes_names(argument)

    def mapped(store: Store, at: float) -> Vector:
        result = [("", labels, function(value)) for _, labels, value in vector(store, at)]
        return _distinct(result) if mixed else result

    return mapped


def _distinct(vector: Vector) -> Vector:
    if len({(name, labels) for name, labels, _ in vector}) < len(vector):
        message = "vector cannot contain metrics with the same labelset"
        raise EvaluationError(message)
    return vector


def _with_scalar(node: Binary, *, scalar_left: bool) -> _VectorFunction:
    vector = _vector(node.right if scalar_left else node.left)
    scalar = _scalar(node.left if scalar_left else node.right)
    test = _COMPARISONS.get(node.operator)
    if test is not None and not node.returns_bool:
        return _filtered(vector, scalar, test, scalar_left=scalar_left)
    compute = _ARITHMETIC[node.operator] if test is None else _as_number(test)
    mixed = _mixes_names(node)

    def computed(store: Store, at: float) -> Vector:
        constant, items = scalar(store, at), vector(store, at)
        if scalar_left:
            result = [("", labels, compute(constant, value)) for _, labels, value in items]
        else:
            result = [("", labels, compute(value, constant)) for _, labels, value in items]
        return _distinct(result) if mixed else result

    return computed


def _filtered(
    vector: _VectorFunction,
    scalar: _ScalarFunction,
    test: Callable[[float, float], bool],
    *,
    scalar_left: bool,
) -> _VectorFunction:
    """Return the elements that compare well with a scalar, on whichever side that stands."""

    def above(store: Store, at: float) -> Vector:
        limit = scalar(store, at)
        return [item for item in vector(store, at) if test(limit, item[2])]

    def below(store: Store, at: float) -> Vector:
        limit = scalar(store, at)
        return [item for item in vector(store, at) if test(item[2], limit)]

    return above if scalar_left else below


def _as_number(test: Callable[[float, float], bool]) -> Callable[[float, float], float]:
    return lambda left, right: float(test(left, right))


def _call(node: Call) -> _VectorFunction:
    match node.function, node.arguments:
        case "abs", (argument,):
            return _mapped(argument, abs)
        case "absent", (argument,):
            return _absent(argument)
        case "vector", (argument,):
            scalar = _scalar(argument)
            return lambda store, at: [("", (), scalar(store, at))]
    low: _ScalarFunction = lambda _store, _at: -math.inf  # noqa: E731 - typed
    high: _ScalarFunction = lambda _store, _at: math.inf  # noqa: E731 - typed
    match node.function, node.arguments:
        case "clamp", (_, first, second):
            low, high = _scalar(first), _scalar(second)
        case "clamp_min", (_, first):
            low = _scalar(first)
        case "clamp_max", (_, first):
            high = _scalar(first)
        case _:
            message = f"no such function: {node.function}"
            raise TypeError(message)
    vector, mixed = _vector(node.arguments[0]), _mixes_names(node.arguments[0])

    def clamped(store: Store, at: float) -> Vector:
        bottom, top = low(store, at), high(store, at)
        if bottom > top:
            return []
        result = [
            ("", labels, _clamp(value, bottom, top)) for _, labels, value in vector(store, at)
        ]
        return _distinct(result) if mixed else result

    return clamped


def _absent(argument: Node) -> _VectorFunction:
    """Return 1 where a vector is empty, with the labels that the selector's = matchers say."""
    vector = _vector(argument)
    said: dict[str, str] = {}
    if isinstance(argument, Selector):
        contradicted: set[str] = set()
        for matcher in argument.matchers:
            if matcher.operator == "=" and matcher.label not in said:
                said[matcher.label] = matcher.value
            else:
                contradicted.add(matcher.label)
        for label in (METRIC_NAME, *contradicted):
            said.pop(label, None)
    labels = tuple(sorted((name, value) for name, value in said.items() if value))
    return lambda store, at: [] if vector(store, at) else [("", labels, 1.0)]


# --- two vectors ---


def _key(matching: Matching) -> _Key:
    """Return what two elements must have in common; for one-to-one also the result's labels."""
    wanted, with_name = matching.labels - {METRIC_NAME}, METRIC_NAME in matching.labels
    if not matching.on:
        if not wanted:
            return lambda item: item[1]
        return lambda item: tuple([pair for pair in item[1] if pair[0] not in wanted])
    if with_name:
        return lambda item: (
            (METRIC_NAME, item[0]),
            *[pair for pair in item[1] if pair[0] in wanted],
        )
    if not wanted:
        return lambda _item: ()
    return lambda item: tuple([pair for pair in item[1] if pair[0] in wanted])


def _set_operation(node: Binary) -> _VectorFunction:
    left, right, key = _vector(node.left), _vector(node.right), _key(node.matching)
    if node.operator == "or":

        def union(store: Store, at: float) -> Vector:
            first, second = left(store, at), right(store, at)
            if not first or not second:
                return first or second
            keys = {key(item) for item in first}
            return first + [item for item in second if key(item) not in keys]

        return union
    wanted = node.operator == "and"

    def filtered(store: Store, at: float) -> Vector:
        first, second = left(store, at), right(store, at)
        if not first or not second:
            return [] if wanted else first
        keys = {key(item) for item in second}
        return [item for item in first if (key(item) in keys) is wanted]

    return filtered


def _joined(node: Binary) -> _VectorFunction:
    """Return arithmetic and comparison between two vectors."""
    left, right, key = _vector(node.left), _vector(node.right), _key(node.matching)
    grouped, swapped = bool(node.matching.many), node.matching.many == "right"
    result = _combination(node)
    combined = _result_labels(node)
    side = "left" if swapped else "right"

    def joined(store: Store, at: float) -> Vector:
        many, one = left(store, at), right(store, at)
        if not many or not one:  # Prometheus does not look for duplicates then, either.
            return []
        if swapped:
            many, one = one, many
        partners: dict[Labels, VectorItem] = {}
        for item in one:
            group = key(item)
            if group in partners:
                message = (
                    f"found duplicate series for the match group {_shown('', group)} on the {side}"
                    f" hand-side of the operation: [{_shown(*partners[group][:2])},"
                    f" {_shown(*item[:2])}]; many-to-many matching not allowed: matching labels"
                    " must be unique on one side"
                )
                raise EvaluationError(message)
            partners[group] = item
        # What must not occur twice: a group, or with group_left and group_right a result.
        taken: set[object] = set()
        found: Vector = []
        for item in many:
            group = key(item)
            partner = partners.get(group)
            if partner is None:
                continue
            if not grouped:  # Before the comparison: Prometheus 3 refuses what it would drop, too.
                if group in taken:
                    raise EvaluationError(_MANY_TO_ONE)
                taken.add(group)
            value = result(partner[2], item[2]) if swapped else result(item[2], partner[2])
            if value is None:
                continue
            name, labels = combined(item, partner, group)
            if grouped:
                if (name, labels) in taken:
                    raise EvaluationError(_NOT_UNIQUE)
                taken.add((name, labels))
            found.append((name, labels, value))
        return found

    return joined


_MANY_TO_ONE = (
    "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
)
_NOT_UNIQUE = "multiple matches for labels: grouping labels must ensure unique matches"


def _combination(node: Binary) -> Callable[[float, float], float | None]:
    """Return the value of a matched pair, or None where a comparison filters it out."""
    test = _COMPARISONS.get(node.operator)
    if test is None:
        return _ARITHMETIC[node.operator]
    if node.returns_bool:
        return _as_number(test)
    return lambda left, right: left if test(left, right) else None


def _result_labels(
    node: Binary,
) -> Callable[[VectorItem, VectorItem, Labels], tuple[str, Labels]]:
    """Return name and labels of a matched pair's result."""
    matching = node.matching
    drops_name = node.operator not in COMPARISONS or node.returns_bool
    names_result = METRIC_NAME in matching.labels
    if not matching.many:
        keeps_name = not drops_name and names_result is matching.on

        def one_to_one(item: VectorItem, _: VectorItem, group: Labels) -> tuple[str, Labels]:
            labels = group[1:] if matching.on and names_result else group
            return item[0] if keeps_name else "", labels

        return one_to_one
    include = frozenset(matching.include)

    def many_to_one(item: VectorItem, partner: VectorItem, _: Labels) -> tuple[str, Labels]:
        name = partner[0] if METRIC_NAME in include else item[0]
        labels = item[1]
        if include:
            taken = [pair for pair in partner[1] if pair[0] in include]
            labels = tuple(sorted([*(p for p in labels if p[0] not in include), *taken]))
        return "" if drops_name else name, labels

    return many_to_one


def _shown(name: str, labels: Labels) -> str:
    return name + "{" + ", ".join(f'{key}="{value}"' for key, value in labels) + "}"
