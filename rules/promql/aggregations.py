"""Aggregations: many elements of a vector in, one for each group of labels out.

Source: Prometheus 3, 'Aggregation operators'; floats are added and compared as its engine does.
Errors: EvaluationError. Overflow gives an infinity, never an exception.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING

from iowarden.rules.promql.errors import EvaluationError
from iowarden.rules.promql.format import shortest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iowarden.rules.promql.store import Labels, VectorItem

Vector = list["VectorItem"]

_NAME = "__name__"
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_INTEGER_LIMIT = 2.0**63


def aggregate(
    operator: str,
    items: Vector,
    parameter: float | str | None,
    labels: tuple[str, ...],
    *,
    without: bool,
) -> Vector:
    """Return the result of `operator by (labels) (parameter, items)` or `without (labels)`.

    The parameter is the number of topk, bottomk and quantile, and the label of count_values. Groups
    are in the order of their first elements; topk and bottomk sort within each.
    """
    if operator == "count_values":
        return _count_values(items, str(parameter), labels, without=without)
    if operator in {"topk", "bottomk"}:
        return _extremes(items, _number(parameter), labels, operator=operator, without=without)
    groups: dict[tuple[str, Labels], list[float]] = {}
    for (name, group), members in _grouped(items, labels, without=without).items():
        groups[name, group] = [value for _, _, value in members]
    if operator == "quantile":
        rank = _number(parameter)
        return [(*group, quantile(rank, values)) for group, values in groups.items()]
    reduce = _REDUCTIONS[operator]
    return [(*group, reduce(values)) for group, values in groups.items()]


def sorted_by_value(items: Vector, *, descending: bool) -> Vector:
    """Return elements by value, NaN last in either direction, ties in their old order."""
    numbers = [item for item in items if not math.isnan(item[2])]
    numbers.sort(key=lambda item: item[2], reverse=descending)
    return numbers + [item for item in items if math.isnan(item[2])]


# --- values of one group; never empty ---


def total(values: Sequence[float]) -> float:
    """Return the sum with compensation of rounding errors (Kahan-Babuska-Neumaier)."""
    result, correction = 0.0, 0.0
    for value in values:
        result, correction = _added(value, result, correction)
    return result + correction


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean; it does not overflow where the sum would."""
    result, correction = values[0], 0.0
    incremental = False
    for count, value in enumerate(values[1:], 2):
        if not incremental:
            added = _added(value, result, correction)
            if not math.isinf(added[0]):
                result, correction = added
                continue
            incremental = True
            result, correction = result / (count - 1), correction / (count - 1)
        share = (count - 1) / count
        result, correction = _added(value / count, share * result, share * correction)
    return result + correction if incremental else result / len(values) + correction / len(values)


def quantile(rank: float, values: Sequence[float]) -> float:
    """Return the value at a rank from 0 to 1, interpolated; NaN counts as the smallest value.

    A rank below 0 returns -Inf, above 1 +Inf, and NaN returns NaN.
    """
    if math.isnan(rank) or not values:
        return math.nan
    if not 0 <= rank <= 1:
        return math.copysign(math.inf, rank)
    ordered = [value for value in values if math.isnan(value)]
    ordered += sorted(value for value in values if not math.isnan(value))
    place = rank * (len(ordered) - 1)
    lower = math.floor(place)
    weight = place - lower
    return ordered[lower] * (1 - weight) + ordered[min(lower + 1, len(ordered) - 1)] * weight


def smallest(values: Sequence[float]) -> float:
    """Return the smallest value; NaN only if all are NaN."""
    return min((value for value in values if not math.isnan(value)), default=math.nan)


def largest(values: Sequence[float]) -> float:
    """Return the largest value; NaN only if all are NaN."""
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def variance(values: Sequence[float]) -> float:
    """Return the population variance, after Welford."""
    average, squares = values[0], 0.0 if math.isfinite(values[0]) else math.nan
    for count, value in enumerate(values[1:], 2):
        difference = value - average
        average += difference / count
        squares += difference * (value - average)
    return squares / len(values)


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation; NaN, as Go's math.Sqrt, where a square overflowed to -Inf."""
    squares = variance(values)
    return math.nan if squares < 0 else math.sqrt(squares)


def _added(value: float, result: float, correction: float) -> tuple[float, float]:
    """Return sum and correction after one more value. Source: Neumaier 1974, Prometheus 3."""
    added = result + value
    if math.isinf(added):
        return added, 0.0
    if abs(result) >= abs(value):
        return added, correction + ((result - added) + value)
    return added, correction + ((value - added) + result)


_REDUCTIONS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "sum": total,
    "avg": mean,
    "min": smallest,
    "max": largest,
    "count": lambda values: float(len(values)),
    "group": lambda _values: 1.0,
    "stddev": deviation,
    "stdvar": variance,
}


# --- groups ---


def _grouped(
    items: Vector, labels: tuple[str, ...], *, without: bool
) -> dict[tuple[str, Labels], Vector]:
    """Return the elements by name and labels of their group's result."""
    groups: dict[tuple[str, Labels], Vector] = {}
    if not labels and not without:
        return {("", ()): items} if items else {}
    wanted, named = frozenset(labels), not without and _NAME in labels
    for item in items:
        group = tuple([pair for pair in item[1] if (pair[0] in wanted) is not without])
        groups.setdefault((item[0] if named else "", group), []).append(item)
    return groups


def _number(parameter: float | str | None) -> float:
    if isinstance(parameter, float | int):
        return parameter
    raise TypeError(f"expected a number as parameter of an aggregation, got {parameter!r}")


def _extremes(
    items: Vector, count: float, labels: tuple[str, ...], *, operator: str, without: bool
) -> Vector:
    """Return the largest or smallest elements of each group, unchanged."""
    if count < 1:
        return []
    if math.isnan(count):
        raise EvaluationError("Parameter value is NaN")
    if count >= _INTEGER_LIMIT:
        raise EvaluationError(f"Scalar value {shortest(count)} overflows int64")
    found: Vector = []
    for members in _grouped(items, labels, without=without).values():
        ordered = sorted_by_value(members, descending=operator == "topk")
        found += ordered[: min(int(count), len(ordered))]
    return found


def _count_values(items: Vector, label: str, labels: tuple[str, ...], *, without: bool) -> Vector:
    """Return how many elements of each group have the same value, which becomes a label's."""
    if not _LABEL_NAME.fullmatch(label):
        raise EvaluationError(f'invalid label name "{label}"')
    relabelled = [(*with_label(item, label, decimal(item[2])), 1.0) for item in items]
    kept = labels if without else (*labels, label)
    groups = _grouped(relabelled, kept, without=without)
    return [(*group, float(len(members))) for group, members in groups.items()]


def with_label(item: VectorItem, label: str, value: str) -> tuple[str, Labels]:
    """Return an element's name and labels with one label set, or removed if empty."""
    name, labels, _ = item
    if label == _NAME:
        return value, labels
    others = [pair for pair in labels if pair[0] != label]
    return name, tuple(sorted([*others, (label, value)])) if value else tuple(others)


def decimal(value: float) -> str:
    """Return a number in the fewest digits that convert back to it, without an exponent."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    return (format(Decimal(text), "f") if "e" in text else text).removesuffix(".0")
