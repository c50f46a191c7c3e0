"""histogram_quantile of classic histograms: buckets that are series with the label 'le'. Pure.

Source: Prometheus 3, 'histogram_quantile', and promql/quantile.go (BucketQuantile). *Limits:* no
native histograms; a bucket without a number as its 'le' is left out, where Prometheus warns.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iowarden.rules.promql.store import Labels, VectorItem

BOUND = "le"
"""The label with the upper bound of a bucket, which contains all values up to it."""
TOLERANCE = 1e-12
"""Counts that differ by less, relatively, are equal: their difference comes from rounding."""
_LEAST_NORMAL, _LARGEST = 2.0**-1022, (2 - 2.0**-52) * 2.0**1023
"""Of float64."""
_NUMBER = re.compile(r"[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|inf(inity)?)", re.ASCII | re.IGNORECASE)


def histogram_quantile(rank: float, items: list[VectorItem]) -> list[VectorItem]:
    """Return the quantile of each histogram, without the metric's name.

    Two histograms that differ in their name only have equal labels afterwards.
    """
    found: dict[tuple[str, Labels], dict[float, float]] = {}
    for name, labels, count in items:
        bound = next((value for label, value in labels if label == BOUND), "")
        if not _NUMBER.fullmatch(bound):
            continue
        group = name, tuple([pair for pair in labels if pair[0] != BOUND])
        buckets = found.setdefault(group, {})
        upper = float(bound)
        buckets[upper] = buckets.get(upper, 0.0) + count
    return [("", labels, _quantile(rank, buckets)) for (_, labels), buckets in found.items()]


def _quantile(rank: float, buckets: dict[float, float]) -> float:
    """Return a quantile, values being spread evenly over each bucket; the first begins at 0."""
    if math.isnan(rank):
        return math.nan
    if not 0.0 <= rank <= 1.0:
        return math.copysign(math.inf, rank)
    bounds = sorted(buckets)
    if bounds[-1] != math.inf or len(bounds) < 2:
        return math.nan
    counts = _rising([buckets[bound] for bound in bounds])
    if counts[-1] == 0:
        return math.nan
    wanted = rank * counts[-1]
    # As sort.Search, which also decides where NaN leads.
    first, last = 0, len(bounds) - 1
    while first < last:
        middle = (first + last) // 2
        if counts[middle] >= wanted:
            last = middle
        else:
            first = middle + 1
    if first == len(bounds) - 1:
        return bounds[-2]
    if first == 0:
        if bounds[0] <= 0:
            return bounds[0]
        return bounds[0] * _ratio(wanted, counts[0])
    start, below = bounds[first - 1], counts[first - 1]
    return start + (bounds[first] - start) * _ratio(wanted - below, counts[first] - below)


def _ratio(part: float, whole: float) -> float:
    """Divide as Go's float64."""
    return part / whole if whole else math.nan


def _rising(counts: list[float]) -> list[float]:
    """Return counts of which none is less than the one before: buckets are not read at once."""
    before = counts[0]
    for index, count in enumerate(counts):
        if count < before or _almost_equal(before, count):
            counts[index] = before
        else:
            before = count
    return counts


def _almost_equal(left: float, right: float) -> bool:
    """Source: Prometheus, util/almost."""
    if left == right:
        return True
    total, apart = abs(left) + abs(right), abs(left - right)
    if left == 0 or right == 0 or total < _LEAST_NORMAL:
        return apart < TOLERANCE * _LEAST_NORMAL
    return apart / min(total, _LARGEST) < TOLERANCE
