"""Binary operators: between numbers, and between vectors with label matching.

Source: Prometheus 3, 'Operators' and 'Vector matching'; arithmetic as Go's float64, which never
raises. Errors: EvaluationError, with Prometheus's message, if a match is ambiguous.
"""

from __future__ import annotations

import math
import operator as operators
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from iowarden.rules.promql.errors import EvaluationError
from iowarden.rules.promql.format import quoted
from iowarden.rules.promql.signatures import COMPARISONS, METRIC_NAME, SET_OPERATORS
from iowarden.rules.promql.store import Labels, VectorItem

if TYPE_CHECKING:
    from iowarden.rules.promql.ast import Binary, Matching

Vector = list[VectorItem]
Join = Callable[[Vector, Vector], Vector]
_Key = Callable[[VectorItem], Labels]

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
    except ValueError:  # Python's result for an infinite left or a zero right operand.
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
    "+": operators.add,
    "-": operators.sub,
    "*": operators.mul,
    "/": _divide,
    "%": _modulo,
    "^": _power,
    "atan2": math.atan2,
}
TESTS: Mapping[str, Callable[[float, float], bool]] = {
    "==": operators.eq,
    "!=": operators.ne,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}
"""The tests of comparison operators."""


def computation(operator: str) -> Callable[[float, float], float]:
    """Return the function of an operator on two numbers; a comparison returns 1 or 0."""
    test = TESTS.get(operator)
    return _ARITHMETIC[operator] if test is None else lambda left, right: float(test(left, right))


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


def vector_matcher(node: Binary) -> Join:
    """Return the function that joins the two vectors of an operator."""
    return _set_operation(node) if node.operator in SET_OPERATORS else _matched(node)


def _set_operation(node: Binary) -> Join:
    key = _key(node.matching)
    if node.operator == "or":

        def union(first: Vector, second: Vector) -> Vector:
            if not first or not second:
                return first or second
            keys = {key(item) for item in first}
            return first + [item for item in second if key(item) not in keys]

        return union
    wanted = node.operator == "and"

    def filtered(first: Vector, second: Vector) -> Vector:
        if not first or not second:
            return [] if wanted else first
        keys = {key(item) for item in second}
        return [item for item in first if (key(item) in keys) is wanted]

    return filtered


def _matched(node: Binary) -> Join:
    """Return arithmetic and comparison between two vectors."""
    key = _key(node.matching)
    grouped, swapped = bool(node.matching.many), node.matching.many == "right"
    relabelled = bool(node.matching.include)
    result = _combination(node)
    combined = _result_labels(node)
    side = "left" if swapped else "right"

    def matched(many: Vector, one: Vector) -> Vector:
        if not many or not one:  # Prometheus does not check for duplicates in this case either.
            return []
        if swapped:
            many, one = one, many
        partners: dict[Labels, VectorItem] = {}
        for item in one:
            group = key(item)
            if group in partners:
                pair = sorted((_shown(*partners[group][:2]), _shown(*item[:2])))
                raise EvaluationError(
                    f"found duplicate series for the match group {_shown('', group)} on the {side}"
                    f" hand-side of the operation: [{', '.join(pair)}];many-to-many matching not"
                    " allowed: matching labels must be unique on one side"
                )
            partners[group] = item
        # What must be unique: a group, or with group_left and group_right a result.
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
            if value is None and not relabelled:
                continue
            name, labels = combined(item, partner, group)
            if grouped:  # Before the comparison, too, where labels can become equal.
                if (name, labels) in taken:
                    raise EvaluationError(_NOT_UNIQUE)
                taken.add((name, labels))
            if value is not None:
                found.append((name, labels, value))
        return found

    return matched


_MANY_TO_ONE = (
    "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
)
_NOT_UNIQUE = "multiple matches for labels: grouping labels must ensure unique matches"


def _combination(node: Binary) -> Callable[[float, float], float | None]:
    """Return the value of a matched pair, or None where a comparison filters it out."""
    if node.operator not in COMPARISONS or node.returns_bool:
        return computation(node.operator)
    test = TESTS[node.operator]
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
    # Prometheus drops the name first; an included name is added after that.
    drops_name = node.returns_bool or (drops_name and METRIC_NAME not in include)

    def many_to_one(item: VectorItem, partner: VectorItem, _: Labels) -> tuple[str, Labels]:
        name = partner[0] if METRIC_NAME in include else item[0]
        labels = item[1]
        if include:
            taken = [pair for pair in partner[1] if pair[0] in include]
            labels = tuple(sorted([*(p for p in labels if p[0] not in include), *taken]))
        return "" if drops_name else name, labels

    return many_to_one


def _shown(name: str, labels: Labels) -> str:
    """Return a series as in Prometheus's messages."""
    pairs = ((METRIC_NAME, name), *labels) if name else labels
    return "{" + ", ".join(f"{key}={quoted(value)}" for key, value in pairs) + "}"
