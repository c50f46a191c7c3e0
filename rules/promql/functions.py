"""PromQL functions of an instant vector: of single values, of labels, and sorting.

Source: Prometheus 3, 'Functions'; arithmetic as Go's package math, which never raises. Errors:
EvaluationError.
"""

from __future__ import annotations

import math
import re
from calendar import monthrange
from datetime import date
from typing import TYPE_CHECKING

from iowarden.rules.promql.aggregations import sorted_by_value, with_label
from iowarden.rules.promql.automaton import RegexError, Steps
from iowarden.rules.promql.errors import EvaluationError
from iowarden.rules.promql.regex import compile_anchored

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iowarden.rules.promql.store import Labels, VectorItem

    Count = Callable[[Labels, int], object]

Vector = list["VectorItem"]

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_WHOLE = 2.0**52
"""From here on every float64 is an integer."""
_SECONDS_LIMIT = 2.0**63
_DAY_SECONDS = 86_400
_ERA_DAYS = 146_097
"""In 400 years of the Gregorian calendar."""
_EPOCH_DAY = date(1970, 1, 1).toordinal() - 1


# --- one value ---


def floor(value: float) -> float:
    """Return the largest integer not above the value."""
    return value if not abs(value) < _WHOLE else math.copysign(float(math.floor(value)), value)


def ceil(value: float) -> float:
    """Return the smallest integer not below the value; of -0.3 that is -0."""
    return value if not abs(value) < _WHOLE else math.copysign(float(math.ceil(value)), value)


def round_to(value: float, nearest: float = 1.0) -> float:
    """Return the nearest multiple, ties up; of 0 there is none: NaN."""
    inverse = 1.0 / nearest if nearest else math.copysign(math.inf, nearest)
    rounded = floor(value * inverse + 0.5)
    if inverse:
        return rounded / inverse
    if rounded == 0 or math.isnan(rounded):
        return math.nan
    return math.copysign(math.inf, rounded) * math.copysign(1.0, inverse)


def clamp(value: float, low: float, high: float) -> float:
    """Return the value limited to two bounds."""
    if value and low <= value <= high:  # Fast path for the usual case.
        return value
    return _maximum(low, _minimum(high, value))


def _minimum(left: float, right: float) -> float:
    """Return Go's math.Min: -Inf wins over NaN, and -0 is less than 0."""
    if -math.inf in {left, right}:
        return -math.inf
    if math.isnan(left) or math.isnan(right):
        return math.nan
    if left == right:
        return left if math.copysign(1.0, left) < 0 else right
    return min(left, right)


def _maximum(left: float, right: float) -> float:
    """Return Go's math.Max: +Inf wins over NaN, and 0 is more than -0."""
    return -_minimum(-left, -right)


def sign(value: float) -> float:
    """Return -1, 0 or 1; zeros keep their sign, and NaN stays."""
    return math.copysign(1.0, value) if value and not math.isnan(value) else value


def _tamed(
    function: Callable[[float], float], *, poles: Mapping[float, float] | None = None
) -> Callable[[float], float]:
    """Return a function of Python's math with the results of Go's where Python raises.

    `poles` are the places where it tends to an infinity; elsewhere outside its domain it is NaN. An
    overflow has the sign of its argument, or is positive.
    """
    at_poles = poles or {}

    def tamed(value: float) -> float:
        try:
            return function(value)
        except ValueError:
            return at_poles.get(value, math.nan)
        except OverflowError:
            return math.copysign(math.inf, value) if function is math.sinh else math.inf

    return tamed


_AT_ZERO = {0.0: -math.inf}


# --- parts of a date, in UTC ---


def _of_date(part: Callable[[date, int], int]) -> Callable[[float], float]:
    """Return a function of a Unix time, from one of its date and of the years to add to that.

    Limits: in Go the results for NaN and numbers beyond 63 bits depend on the processor; here they
    are NaN.
    """

    def of_time(value: float) -> float:
        if not abs(value) < _SECONDS_LIMIT:
            return math.nan
        # The calendar, with weekdays, repeats after 400 years; `date` ends in 9999.
        eras, day = divmod(int(value) // _DAY_SECONDS + _EPOCH_DAY, _ERA_DAYS)
        return float(part(date.fromordinal(day + 1), eras * 400))

    return of_time


def _of_clock(unit_seconds: int, count: int) -> Callable[[float], float]:
    def of_time(value: float) -> float:
        if not abs(value) < _SECONDS_LIMIT:
            return math.nan
        return float(int(value) // unit_seconds % count)

    return of_time


ELEMENTWISE: Mapping[str, Callable[[float], float]] = {
    "abs": abs,
    "acos": _tamed(math.acos),
    "acosh": _tamed(math.acosh),
    "asin": _tamed(math.asin),
    "asinh": math.asinh,
    "atan": math.atan,
    "atanh": _tamed(math.atanh, poles={1.0: math.inf, -1.0: -math.inf}),
    "ceil": ceil,
    "cos": _tamed(math.cos),
    "cosh": _tamed(math.cosh),
    "day_of_month": _of_date(lambda day, _: day.day),
    "day_of_week": _of_date(lambda day, _: day.isoweekday() % 7),  # Sunday is 0
    "day_of_year": _of_date(lambda day, _: day.timetuple().tm_yday),
    "days_in_month": _of_date(lambda day, _: monthrange(day.year, day.month)[1]),
    "deg": lambda value: value * 180 / math.pi,
    "exp": _tamed(math.exp),
    "floor": floor,
    "hour": _of_clock(3600, 24),
    "ln": _tamed(math.log, poles=_AT_ZERO),
    "log10": _tamed(math.log10, poles=_AT_ZERO),
    "log2": _tamed(math.log2, poles=_AT_ZERO),
    "minute": _of_clock(60, 60),
    "month": _of_date(lambda day, _: day.month),
    "rad": lambda value: value * math.pi / 180,
    "sgn": sign,
    "sin": _tamed(math.sin),
    "sinh": _tamed(math.sinh),
    "sqrt": _tamed(math.sqrt),
    "tan": _tamed(math.tan),
    "tanh": math.tanh,
    "year": _of_date(lambda day, years: day.year + years),
}
"""Functions of each value alone; date functions take seconds since 1970."""


# --- labels and order ---


def label_replacer(
    destination: str, replacement: str, source: str, pattern: str
) -> Callable[[Vector, Count, Steps | None], Vector]:
    """Return label_replace with its arguments parsed once; raises for those Prometheus refuses.

    `count` is called for each label before it is made: with the labels next to it, and with its
    maximum number of characters. It may raise EvaluationError. What the regular expression takes is
    taken from `steps`, if any; it may raise RegexError.
    """
    if not _LABEL_NAME.fullmatch(destination):
        raise EvaluationError(
            f"invalid destination label name in label_replace(): {destination!r};"
            " expected letters, digits and underscores"
        )
    try:
        regex = compile_anchored(pattern)
    except RegexError as error:
        raise EvaluationError(
            f"invalid regular expression in label_replace(): {pattern!r}; {error}"
        ) from error

    references = replacement.count("$")

    def replaced(items: Vector, count: Count, steps: Steps | None) -> Vector:
        result: Vector = []
        for item in items:
            own = _label(item, source)
            count(item[1], len(replacement) + references * len(own))
            match = regex.fullmatch(own, steps)
            if match is not None:
                text = match.expanded(replacement)
                item = (*with_label(item, destination, text), item[2])  # noqa: PLW2901 - same one
            result.append(item)
        return distinct(result)

    return replaced


def label_replace(
    items: Vector, destination: str, replacement: str, source: str, pattern: str
) -> Vector:
    """Return elements with a label set from another's text if the pattern matches all of it."""
    return label_replacer(destination, replacement, source, pattern)(items, _uncounted, None)


def _uncounted(_labels: Labels, _characters: int) -> None:
    pass


def label_join(
    items: Vector,
    destination: str,
    separator: str,
    sources: Sequence[str],
    count: Count = _uncounted,
) -> Vector:
    """Return elements with a label set to the texts of others, joined."""
    for kind, label in (("destination", destination), *(("source", one) for one in sources)):
        if not _LABEL_NAME.fullmatch(label):
            raise EvaluationError(
                f"invalid {kind} label name in label_join(): {label!r};"
                " expected letters, digits and underscores"
            )
    result: Vector = []
    for item in items:
        texts = [_label(item, one) for one in sources]
        count(item[1], sum(map(len, texts)) + len(separator) * len(texts))
        result.append((*with_label(item, destination, separator.join(texts)), item[2]))
    return distinct(result)


def sort(items: Vector, *, descending: bool) -> Vector:
    """Return elements by value, NaN last in either direction."""
    return sorted_by_value(items, descending=descending)


def distinct(items: Vector) -> Vector:
    """Return the vector unchanged, unless two elements have the same name and labels."""
    if len({(name, labels) for name, labels, _ in items}) < len(items):
        raise EvaluationError("vector cannot contain metrics with the same labelset")
    return items


def _label(item: VectorItem, label: str) -> str:
    if label == "__name__":
        return item[0]
    for name, value in item[1]:
        if name == label:
            return value
    return ""
