"""PromQL functions of a range vector: the samples of one series in a window in, one number out.

Source: Prometheus 3, 'Functions' and its engine: a window is open on the left; counters are
extrapolated to its edges unless more than 1.1 times the mean spacing is missing there. Units:
seconds. None: no result for the window. Limits: sums are exact before they are rounded, where
Prometheus carries one correction along.
"""

from __future__ import annotations

import math
from itertools import pairwise
from operator import gt, mul, ne
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.promql.aggregations import (
    deviation,
    largest,
    mean,
    smallest,
    total,
    variance,
)

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Mapping, Sequence

    Function = Callable[[array[float], array[float], float, float], float | None]

_EXTRAPOLATION_THRESHOLD = 1.1
"""Maximum distance of a window's edge to the next sample, in mean spacings."""


# --- counters and gauges ---


def _extrapolated(
    timestamps: array[float],
    values: array[float],
    end: float,
    range_seconds: float,
    *,
    counter: bool,
) -> float | None:
    """Return the increase over the whole window, as if there were samples at its edges."""
    if len(values) < 2:
        return None
    growth = values[-1] - values[0]
    if counter:
        for previous, value in pairwise(values) if _falls(values) else ():
            if value < previous:
                growth += previous
    sampled = timestamps[-1] - timestamps[0]
    spacing = sampled / (len(values) - 1)
    to_start = range_seconds - (end - timestamps[0])
    to_end = end - timestamps[-1]
    if to_start >= spacing * _EXTRAPOLATION_THRESHOLD:
        to_start = spacing / 2
    if counter and growth > 0 and values[0] >= 0:  # A counter was never below zero.
        to_start = min(to_start, sampled * (values[0] / growth))
    if to_end >= spacing * _EXTRAPOLATION_THRESHOLD:
        to_end = spacing / 2
    return growth * ((sampled + to_start + to_end) / sampled)


def _falls(values: array[float]) -> bool:
    """Whether a value may be less than the one before it; without NaN sorted ones never are."""
    numbers = values.tolist()
    return sorted(numbers) != numbers or math.isnan(sum(numbers))


def _increase(
    timestamps: array[float], values: array[float], end: float, range_seconds: float
) -> float | None:
    return _extrapolated(timestamps, values, end, range_seconds, counter=True)


def _rate(
    timestamps: array[float], values: array[float], end: float, range_seconds: float
) -> float | None:
    growth = _extrapolated(timestamps, values, end, range_seconds, counter=True)
    return None if growth is None else growth / range_seconds


def _delta(
    timestamps: array[float], values: array[float], end: float, range_seconds: float
) -> float | None:
    return _extrapolated(timestamps, values, end, range_seconds, counter=False)


def _irate(
    timestamps: array[float], values: array[float], _end: float, _range_seconds: float
) -> float | None:
    if len(values) < 2:
        return None
    previous, value = values[-2:]
    growth = value if value < previous else value - previous
    return growth / (timestamps[-1] - timestamps[-2])


def _idelta(
    _timestamps: array[float], values: array[float], _end: float, _range_seconds: float
) -> float | None:
    return values[-1] - values[-2] if len(values) > 1 else None


# --- a straight line through the samples ---


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums over the timestamps for a regression, which many series share."""

    offsets: Sequence[float]
    """The timestamps, as seconds from an origin near them."""
    sum: float
    sum_of_squares: float


def moments(timestamps: array[float], origin: float) -> Moments:
    """Return the moments of timestamps around an origin."""
    offsets = [timestamp - origin for timestamp in timestamps]
    return Moments(offsets, _sum(offsets), _sum(list(map(mul, offsets, offsets))))


def line(values: array[float], times: Moments) -> tuple[float, float]:
    """Return slope and value at the origin of the least squares line.

    Limits: at least two samples.
    """
    first = values[0]
    if values[-1] == first and values.count(first) == len(values):
        return (math.nan, math.nan) if math.isinf(first) else (0.0, first)
    count, sum_of_values = len(values), _sum(values)
    covariance = _sum(list(map(mul, times.offsets, values))) - times.sum * sum_of_values / count
    variance = times.sum_of_squares - times.sum * times.sum / count
    # Timestamps that differ by less than the resolution of a float have no line.
    slope = covariance / variance if variance else math.nan
    return slope, sum_of_values / count - slope * times.sum / count


# --- statistics ---


def _sum(values: Sequence[float]) -> float:
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):  # intermediate overflow, or infinities of both signs
        return total(values)


def _average(values: array[float]) -> float:
    try:
        return math.fsum(values) / len(values)
    except (OverflowError, ValueError):
        return mean(values)


def _largest(values: array[float]) -> float:
    found = max(values)
    return largest(values) if math.isnan(found) else found  # NaN only if it comes first


def _smallest(values: array[float]) -> float:
    found = min(values)
    return smallest(values) if math.isnan(found) else found


def _changes(values: array[float]) -> float:
    changed = sum(map(ne, values, values[1:]))
    if changed and any(map(math.isnan, values)):  # NaN differs from itself, but is not a change
        changed -= sum(
            math.isnan(previous) and math.isnan(value) for previous, value in pairwise(values)
        )
    return float(changed)


def _of_values(function: Callable[[array[float]], float]) -> Function:
    """Return a function of at least one value that does not use the timestamps."""

    def of_values(
        _timestamps: array[float], values: array[float], _end: float, _range_seconds: float
    ) -> float | None:
        return function(values) if values else None

    return of_values


FUNCTIONS: Mapping[str, Function] = {
    "avg_over_time": _of_values(_average),
    "changes": _of_values(_changes),
    "count_over_time": _of_values(lambda values: float(len(values))),
    "delta": _delta,
    "idelta": _idelta,
    "increase": _increase,
    "irate": _irate,
    "last_over_time": _of_values(lambda values: values[-1]),
    "max_over_time": _of_values(_largest),
    "min_over_time": _of_values(_smallest),
    "present_over_time": _of_values(lambda _values: 1.0),
    "rate": _rate,
    "resets": _of_values(lambda values: float(sum(map(gt, values, values[1:])))),
    "stddev_over_time": _of_values(deviation),
    "stdvar_over_time": _of_values(variance),
    "sum_over_time": _of_values(_sum),
}
"""Functions of timestamps, values, the window's end and its length."""
