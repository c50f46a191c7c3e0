"""From slow windows to an alert: points with decay, slow minutes, slow days. Units: seconds.

A ratio alone is a nuisance: of a large fleet of disks 0.2 % of the hours were twice as slow as
their RAID peers (Hao and others, FAST 2016, abstract). Only what lasts is reported.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from iowarden.rules.signals.device.slow_windows import Comparison
    from iowarden.rules.signals.signal import Pairs

NOTICE_POINTS, WARNING_POINTS, MAX_POINTS = 12, 30, 60
SLOW_RATIO = 3.0
MAX_WINDOW_POINTS = 5
"""Of one window."""
WINDOWS_A_MINUTE, SLOW_IN_A_MINUTE = 6, 3
MINUTES, SLOW_MINUTES = 180, 60
DAYS, SLOW_DAYS = 7, 3
SEVERE_OF, SEVERE = 4, 3
SIBLING_OF, SIBLING_WINDOWS = 36, 30
ITSELF_WINDOWS = 180
ABSOLUTE_WINDOWS = 6
UNCOMPARED_WINDOWS = 360
"""After an hour without a comparison the points are halved."""
DAY_SECONDS = 86_400.0
_CHUNK = 45
"""Bits of the slow minutes in one stored number: a float has 53."""
_POINTS_BASE = 100
"""Both numbers of points in one, as decimals."""
PAIRS = 2 + -(-MINUTES // _CHUNK)
"""Number of stored pairs."""


@dataclass(frozen=True, slots=True)
class Slowness:
    """The evidence against one disk; masks have one bit for each window, the latest lowest."""

    since_seconds: float | None = None
    """When it became slow; None: it is not slow now."""
    points: int = 0
    proven: int = 0
    """Points without those of a mirror's two disks, which blame each other, without a witness."""
    severe: int = 0
    siblings: int = 0
    itself: int = 0
    """Windows in a row in which it was slow against its own history."""
    absolute: int = 0
    """Windows in a row in which it was busy and completed hardly anything."""
    uncompared: int = 0
    minute: tuple[int, int] = (0, 0)
    """Windows of the current minute, and how many of them were slow."""
    minutes: int = 0
    day: int = 0
    days: int = 0
    slow_at_seconds: float | None = None
    """The end of the last window in which it was slow; None: none since a restart."""

    def slow_seconds(self, now: float) -> float:
        """Return for how long it was slow: what makes sure that it is well is not counted."""
        began = now if self.since_seconds is None else self.since_seconds
        ended = now if self.slow_at_seconds is None else self.slow_at_seconds
        return max(ended - began, 0.0)

    @property
    def slow_minutes(self) -> int:
        """Slow minutes of the last three hours."""
        return self.minutes.bit_count()

    @property
    def slow_days(self) -> int:
        """Days of the last seven with a notice."""
        return self.days.bit_count()

    @property
    def against_itself(self) -> bool:
        """Whether it has been slow against its own history for five minutes: a second witness."""
        return self.itself >= SIBLING_WINDOWS

    def severities(self) -> dict[str, str]:
        """Return by what it was compared with how bad that is; nothing for a disk that is well."""
        found: dict[str, str] = {}
        often = self.slow_minutes >= SLOW_MINUTES
        noticed = self.points >= NOTICE_POINTS
        if self.proven >= WARNING_POINTS or often or (noticed and self.slow_days >= SLOW_DAYS):
            found["array"] = "warning"
        elif noticed:
            found["array"] = "notice"
        hardly = self.absolute >= ABSOLUTE_WINDOWS
        if self.siblings.bit_count() >= SIBLING_WINDOWS:
            found["siblings"] = "warning" if hardly or self.against_itself else "notice"
        if self.itself >= ITSELF_WINDOWS:
            found["itself"] = "notice"
        if hardly:
            found["absolute"] = "warning"
        return found


CALM = Slowness()


class Verdict(NamedTuple):
    """One window of a disk.

    Fields: `array` is the comparison that counts, `slow` and `severe` what it shows; `proven`: no
    mirror's pair without a witness; `siblings`, `itself`: whether it was slow against these;
    `absolute`: busy, and completing hardly anything; `idle`: nothing completed. None: not compared.
    """

    array: Comparison | None = None
    slow: bool = False
    severe: bool = False
    proven: bool = True
    siblings: bool = False
    itself: bool | None = None
    absolute: bool = False
    idle: bool = False


NOT_COMPARED, IDLE = Verdict(), Verdict(idle=True)


def points_of(ratio: float) -> int:
    """Return the points of a slow window: 1 from three times on, 5 from 48 times on."""
    return min(MAX_WINDOW_POINTS, max(1, math.floor(math.log2(ratio / SLOW_RATIO)) + 1))


def step(before: Slowness, verdict: Verdict, now: float) -> Slowness:
    """Return the state after a window."""
    points, proven, uncompared = before.points, before.proven, before.uncompared
    severe = (before.severe << 1 | verdict.severe) & (1 << SEVERE_OF) - 1
    siblings = (before.siblings << 1 | verdict.siblings) & (1 << SIBLING_OF) - 1
    itself, absolute = before.itself, before.absolute + 1 if verdict.absolute else 0
    if verdict.itself is not None:
        itself = itself + 1 if verdict.itself else 0
    if verdict.idle:  # whether it hangs is not decided here
        severe = siblings = itself = 0
    if verdict.array is None:
        uncompared += 1
        if uncompared >= UNCOMPARED_WINDOWS:
            points, proven, uncompared = points // 2, proven // 2, 0
    elif verdict.slow:
        more, uncompared = points_of(verdict.array.ratio), 0
        points = min(points + more, MAX_POINTS)
        proven = min(proven + more, MAX_POINTS) if verdict.proven else proven
    else:
        points, proven, uncompared = max(points - 1, 0), max(proven - 1, 0), 0
    if severe.bit_count() >= SEVERE:
        points, proven = max(points, WARNING_POINTS), max(proven, WARNING_POINTS)
    counted, slow = before.minute
    counted, slow = counted + 1, slow + (verdict.slow and verdict.proven)
    minutes = before.minutes
    if counted >= WINDOWS_A_MINUTE:
        minutes = (minutes << 1 | (slow >= SLOW_IN_A_MINUTE)) & (1 << MINUTES) - 1
        counted = slow = 0
    day, days = int(now // DAY_SECONDS), before.days
    if day != before.day:
        days = days << min(max(day - before.day, 0), DAYS) & (1 << DAYS) - 1
    if proven >= NOTICE_POINTS:
        days |= 1
    is_slow = bool(points or siblings or itself or absolute)
    since = before.since_seconds if before.since_seconds is not None else now
    if not (is_slow or slow or minutes or days):
        return CALM
    return Slowness(
        since if is_slow else None,
        points,
        proven,
        severe,
        siblings,
        itself,
        absolute,
        uncompared,
        (counted, slow),
        minutes,
        day,
        days,
        now if _is_slow(verdict) else before.slow_at_seconds,
    )


def _is_slow(verdict: Verdict) -> bool:
    """Whether a window showed that it is slow, whatever it was compared with."""
    return verdict.slow or verdict.siblings or bool(verdict.itself) or verdict.absolute


def remembered(state: Slowness) -> Pairs:
    """Return what is stored over a restart."""
    masks = (float(state.minutes >> at & (1 << _CHUNK) - 1) for at in range(0, MINUTES, _CHUNK))
    return (
        (
            state.slow_at_seconds or 0.0,
            float(state.points * _POINTS_BASE + state.proven),
        ),
        (state.since_seconds or 0.0, float(state.day * (1 << DAYS) + state.days)),
        *((0.0, mask) for mask in masks),
    )


def recalled(pairs: Pairs) -> Slowness:
    """Return the stored state; CALM for one that is not understood."""
    if len(pairs) < PAIRS:
        return CALM
    (slow_at, both), (since, days), *masks = pairs[:PAIRS]
    points, proven = divmod(int(both), _POINTS_BASE)
    minutes = sum(int(mask) << at * _CHUNK for at, (_, mask) in enumerate(masks))
    return replace(
        CALM,
        since_seconds=since or None,
        slow_at_seconds=slow_at or None,
        points=points,
        proven=proven,
        minutes=minutes,
        day=int(days) >> DAYS,
        days=int(days) & (1 << DAYS) - 1,
    )
