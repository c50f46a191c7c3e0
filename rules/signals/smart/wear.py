"""Wear forecast of solid-state drives: when 100 % of the rated endurance will be used.

Pure. The pace is that of the longest of three windows in which the used share rose by enough whole
points: a drive reports whole per cent, so a rise of n points is known to 1/n of itself. Where it
did not rise so far, what was written so far for a per cent gives the rated amount, and the pace is
that of writing. Units: seconds of the program's clock, per cent, bytes.
Source: NVM Express Base Specification, SMART / Health Information: Percentage Used is the vendor's
estimate, in whole per cent, and may exceed 100; Data Units Written is what the host wrote.
Limits: past load is no promise; write amplification is assumed to stay as it was. SATA and SAS
drives have no amount written with a common unit: for them only the used share counts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.model import Family, Labels, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.rules.signals.signal import Pairs

DAY = 86_400.0
WINDOWS_SECONDS = (365 * DAY, 90 * DAY, 30 * DAY)
MIN_POINTS = 3
"""Fewer points leave an error of more than a third."""
FULL_PERCENT = 100.0
_STEP_SECONDS = 30 * DAY
"""Amounts written are stored at this interval: thirteen a year, for hundreds of drives."""
_LONGEST_SECONDS = WINDOWS_SECONDS[0] + _STEP_SECONDS

FAMILIES = (
    Family(
        "iowarden_disk_endurance_exhausted_timestamp_seconds",
        "gauge",
        "When 100 % of a solid-state drive's rated endurance will be used at its present pace,"
        " as Unix time.",
    ),
    Family(
        "iowarden_disk_endurance_exhausted_earliest_timestamp_seconds",
        "gauge",
        "The earliest time of that, within the error of the used share, as Unix time.",
    ),
    Family(
        "iowarden_disk_endurance_exhausted_latest_timestamp_seconds",
        "gauge",
        "The latest time of that, within the error of the used share, as Unix time.",
    ),
    Family(
        "iowarden_disk_endurance_pace_window_seconds",
        "gauge",
        "The past time over which the pace of that was measured.",
    ),
)


class Forecast(NamedTuple):
    """When the rated endurance is used up, likely and within which bounds."""

    exhausted_seconds: float
    earliest_seconds: float
    latest_seconds: float
    window_seconds: float


def samples(found: Forecast | None, own: Labels) -> Iterator[Sample]:
    """Yield the samples of a forecast; `own` is the label of its disk."""
    if found is not None:
        yield from ((family.name, own, at) for family, at in zip(FAMILIES, found, strict=True))


def used_percent(ratio: float) -> float:
    """Return a used share in the whole per cent that a drive reports."""
    return float(round(100 * ratio))


def with_used(history: Pairs | None, percent: float, now: float) -> Pairs:
    """Return the times at which a used share was first seen, from a year ago on.

    A share that decreased (a firmware update) was never reached.
    """
    known = tuple(pair for pair in history or () if pair[1] <= percent)
    if known and known[-1][1] == percent:
        return known
    return _recent((*known, (now, percent)), now)


def with_written(history: Pairs | None, written_bytes: float, now: float) -> Pairs:
    """Return the amounts written, one a month; an amount that decreased starts a new history."""
    known = history or ()
    if known and written_bytes < known[-1][1]:
        known = ()
    if known and now - known[-1][0] < _STEP_SECONDS:
        return known
    return _recent((*known, (now, written_bytes)), now)


def forecast(used: Pairs, written: Pairs, written_bytes: float, now: float) -> Forecast | None:
    """Return the forecast of a drive; None if its history is too short, or 100 % are used."""
    percent = used[-1][1]
    left = FULL_PERCENT - percent
    if left <= 0:
        return None
    for window in WINDOWS_SECONDS:
        before = _at(used, now - window)
        points = 0.0 if before is None else percent - before[1]
        if points >= MIN_POINTS:
            return _within(now, window * left / points, points, window)
    for window in WINDOWS_SECONDS:
        before = _at(written, now - window)
        grown = 0.0 if before is None else written_bytes - before[1]
        if before is not None and grown > 0 and percent >= MIN_POINTS:
            left_bytes = written_bytes * left / percent
            lasted = now - before[0]
            return _within(now, lasted * left_bytes / grown, percent, lasted)
    return None


def _within(now: float, seconds: float, points: float, window: float) -> Forecast:
    error = 1 / points
    return Forecast(now + seconds, now + seconds / (1 + error), now + seconds / (1 - error), window)


def _at(history: Pairs, at: float) -> tuple[float, float] | None:
    """Return the last pair at or before a time; None if the history begins later."""
    return next((pair for pair in reversed(history) if pair[0] <= at), None)


def _recent(history: Pairs, now: float) -> Pairs:
    """Return a history without what is older than the longest window, except its beginning."""
    start = _at(history, now - _LONGEST_SECONDS)
    since = -math.inf if start is None else start[0]
    return tuple(pair for pair in history if pair[0] >= since)
