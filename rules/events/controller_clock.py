"""Offset of a RAID controller's clock from UTC: its events have a local time without zone. Pure.

Offset: the time that the controller's clock shows, read as if it were UTC, minus UTC. Units:
seconds.
Methods, the most reliable first: the controller reports its time; its errors match errors of the
kernel log at one offset and at no other; it was powered on just before the kernel booted. The last
one may be a coincidence: an offset found by it is not verified.
Source: zones are whole quarters of an hour from UTC (tz database), -12 to +14 h.
Limits: an offset of more than 14 h is found only if the controller reports its time. An offset that
deviates by more than `MATCH_SECONDS` from a quarter of an hour is not found by errors. When the
clock was changed, some errors match the offset before and some the one after: pass errors of one
day.
"""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.quantity import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

QUARTER_SECONDS = 900
MAX_SECONDS = 14 * 3600
MATCH_SECONDS = 90.0
"""At the right offset both logs have the same error within this time."""
MIN_MATCHES = 3
CLEARLY = 2
"""The best offset must have this many times the matches of the second best."""
POWER_ON_SECONDS = (-600.0, 60.0)
"""Power-on time of the controller minus boot time of the kernel."""
ERROR_SECONDS = 60.0
"""A clock that deviates by more from a quarter of an hour is wrong."""
HOUR_SECONDS = 3600
MAX_TIMES = 400
"""Of each log, the newest errors: all pairs are compared at 113 offsets."""
_SAME_SECONDS = 2.0
"""Pairs with the same drift differ by at most this: both logs have whole seconds."""


class OffsetMethod(enum.StrEnum):
    """How an offset was found."""

    QUERIED = "asked"
    ERRORS = "errors"
    POWER_ON = "power-on"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Offset:
    """Offset of a controller's clock: its time minus UTC.

    Fields: `seconds` is time zone plus drift, None if unknown; `drift_seconds` is the deviation
    from a quarter of an hour; `matches` of the `reported` errors of the controller match an error
    of the kernel log, `runner_up` at the second best offset; `reason`: why it is not verified.
    """

    seconds: float | None
    method: OffsetMethod
    drift_seconds: float = 0.0
    matches: int = 0
    reported: int = 0
    runner_up: int = 0
    reason: str = ""

    @property
    def verified(self) -> bool:
        """Whether times may be compared by it; other times are reported as unverified."""
        return self.seconds is not None and self.method in {
            OffsetMethod.QUERIED,
            OffsetMethod.ERRORS,
        }

    @property
    def wrong(self) -> bool:
        """Whether the clock is wrong, whatever its time zone."""
        far = self.seconds is not None and abs(self.seconds) > MAX_SECONDS + ERROR_SECONDS
        return far or abs(self.drift_seconds) > ERROR_SECONDS


UNKNOWN = Offset(None, OffsetMethod.NONE, reason="no data show its time")


@dataclass(frozen=True, slots=True)
class ControllerClock:
    """State of a controller's clock.

    Fields: `serial` is the controller's; `errors` are the times of its latest errors by its clock,
    `power_on` that of its latest power-on; `offset` to `reason` are those of the current offset.
    """

    serial: str = ""
    errors: tuple[float, ...] = ()
    power_on: float | None = None
    offset: float | None = None
    method: OffsetMethod = OffsetMethod.NONE
    drift: float = 0.0
    matches: int = 0
    reported: int = 0
    reason: str = ""

    def current(self) -> Offset:
        """Return the current offset."""
        return Offset(
            self.offset, self.method, self.drift, self.matches, self.reported, reason=self.reason
        )


def from_query(controller_seconds: float, utc_seconds: float) -> Offset:
    """Return the offset of a controller that reported its time when queried at `utc_seconds`.

    Limits: a slow reply counts as drift.
    """
    seconds = controller_seconds - utc_seconds
    drift = seconds - QUARTER_SECONDS * round(seconds / QUARTER_SECONDS)
    return Offset(seconds, OffsetMethod.QUERIED, drift)


def from_power_on(power_on_seconds: float, boot_utc_seconds: float) -> Offset:
    """Return the offset at which the controller was powered on just before the kernel booted.

    `power_on_seconds` is the time of its last power-on event, `boot_utc_seconds` is the kernel's
    btime ('/proc/stat'). One in four matches is a coincidence, and a reboot does not power the
    controller on: the offset is not verified.
    """
    gap = power_on_seconds - boot_utc_seconds
    earliest, latest = POWER_ON_SECONDS
    # The range is less than a quarter: at most one offset fits.
    step = QUARTER_SECONDS * round((gap - (earliest + latest) / 2) / QUARTER_SECONDS)
    if abs(step) <= MAX_SECONDS and earliest <= gap - step <= latest:
        reason = "only its power-on time matches, which may be a coincidence"
        return Offset(float(step), OffsetMethod.POWER_ON, reason=reason)
    return Offset(
        None, OffsetMethod.NONE, reason="it was not powered on just before the kernel booted"
    )


def from_errors(controller_seconds: Iterable[float], kernel_seconds: Iterable[float]) -> Offset:
    """Return the offset at which most errors of the controller match an error of the kernel log.

    Pass only medium errors and timeouts of the controller's disks; those of the kernel in UTC.
    Not verified: fewer than `MIN_MATCHES`, or not `CLEARLY` more than at any other offset.
    """
    told, kernel = _newest(controller_seconds), _newest(kernel_seconds)
    counts = {
        step: _matches(told, kernel, step)
        for step in range(-MAX_SECONDS, MAX_SECONDS + 1, QUARTER_SECONDS)
    }
    best = max(counts, key=lambda step: (counts[step], -abs(step), step))
    matches = counts.pop(best)
    runner_up = max(counts.values())
    reason = ""
    if matches < MIN_MATCHES:
        reason = f"{matches} of its {len(told)} errors match an error of the kernel log, too few"
    elif matches < CLEARLY * runner_up or matches == runner_up:
        reason = f"{matches} errors match at one offset, and {runner_up} at another"
    if reason:
        return Offset(None, OffsetMethod.NONE, 0.0, matches, len(told), runner_up, reason)
    drift = _drift(told, kernel, best)
    return Offset(best + drift, OffsetMethod.ERRORS, drift, matches, len(told), runner_up)


def surest(*offsets: Offset) -> Offset:
    """Return the most reliable: queried, then errors, then power-on; UNKNOWN for none."""
    order = (OffsetMethod.QUERIED, OffsetMethod.ERRORS, OffsetMethod.POWER_ON, OffsetMethod.NONE)
    return min(offsets, key=lambda each: order.index(each.method), default=UNKNOWN)


def utc(controller_seconds: float, offset: Offset) -> float | None:
    """Return a time of the controller as UTC, None if its offset is unknown."""
    return None if offset.seconds is None else controller_seconds - offset.seconds


def moved(before: Offset, now: Offset) -> str:
    """Return how a clock changed between two estimates, '' if it did not or only drifted.

    A change of one hour is daylight saving time, also if a person sets the clock late. Both
    estimates must be verified.
    """
    if not (before.verified and now.verified):
        return ""
    change = (now.seconds or 0.0) - (before.seconds or 0.0)
    if abs(change) <= MATCH_SECONDS:
        return ""
    if abs(abs(change) - HOUR_SECONDS) <= MATCH_SECONDS:
        return "its clock changed by one hour: daylight saving time"
    way = "forward" if change > 0 else "back"
    return f"its clock was set {way} by {duration(abs(change))}"


def describe(offset: Offset, clock: str = "its clock") -> str:
    """Return an offset as a text, for a person who compares times."""
    if offset.seconds is None:
        return f"{clock} is unverified: {offset.reason}"
    drift = offset.drift_seconds  # below the resolution of the logs it is none
    ahead_seconds = offset.seconds - (drift if abs(drift) <= _SAME_SECONDS else 0.0)
    minutes, seconds = divmod(round(abs(ahead_seconds)), 60)
    ahead = "ahead of" if ahead_seconds > 0 else "behind"
    size = f"{minutes // 60}:{minutes % 60:02}:{seconds:02} h {ahead} UTC"
    shown = size if minutes or seconds else "UTC"
    if not offset.verified:
        return f"{clock} is perhaps {shown}, unverified: {offset.reason}"
    matches = f" ({offset.matches} of {offset.reported} errors match the kernel log)"
    fit = matches if offset.method is OffsetMethod.ERRORS else ""
    return f"{clock} is {shown}{fit}"


def _newest(times: Iterable[float]) -> list[float]:
    """Return the newest times in order; if there are too many to compare, one of each second."""
    ordered = sorted(times)
    if len(ordered) > MAX_TIMES:
        ordered = sorted({float(int(each)) for each in ordered})
    return ordered[-MAX_TIMES:]


def _matches(reported: Sequence[float], kernel: Sequence[float], offset: float) -> int:
    """Return the number of matching pairs, each time in one at most; both lists are sorted.

    Taking the earliest match gives the maximum, because all matches have the same tolerance.
    """
    count = at = 0
    for each in reported:
        wanted = each - offset
        at = bisect_left(kernel, wanted - MATCH_SECONDS, at)
        if at == len(kernel):
            break
        if kernel[at] - wanted <= MATCH_SECONDS:
            count += 1
            at += 1
    return count


def _drift(reported: Sequence[float], kernel: Sequence[float], offset: float) -> float:
    """Return the drift: the median deviation from the offset of the most frequent pairs.

    All pairs count, not only those of _matches: for errors some seconds apart, one unrelated kernel
    line would shift all pairs after it. Of two equally frequent drifts the smaller one is taken.
    """
    beside: list[float] = []
    for each in reported:
        wanted = each - offset
        for at in range(bisect_left(kernel, wanted - MATCH_SECONDS), len(kernel)):
            if kernel[at] - wanted > MATCH_SECONDS:
                break
            beside.append(wanted - kernel[at])
    beside.sort()

    def near(drift: float) -> tuple[int, int]:
        low, high = drift - _SAME_SECONDS, drift + _SAME_SECONDS
        return bisect_left(beside, low), bisect_right(beside, high)

    def weight(drift: float) -> tuple[int, float]:
        begin, end = near(drift)
        return end - begin, -abs(drift)

    begin, end = near(max(dict.fromkeys(beside), key=weight))
    return median(beside[begin:end])


def current_offset(clocks: Mapping[str, ControllerClock], controller: str) -> Offset:
    """Return the current offset of a controller's clock."""
    clock = clocks.get(controller)
    return UNKNOWN if clock is None else clock.current()


def estimated(
    clock: ControllerClock,
    kernel_errors: Sequence[float],
    booted: float | None,
    ahead_seconds: float | None = None,
) -> ControllerClock:
    """Return a controller's clock with its best estimate of the offset.

    `booted` is the boot time of the kernel; `ahead_seconds` is the offset that the controller
    itself reported, if it did.
    """
    found = [from_errors(clock.errors, kernel_errors)]
    if ahead_seconds is not None:
        found.append(from_query(ahead_seconds, 0.0))
    if clock.power_on is not None and booted is not None:
        found.append(from_power_on(clock.power_on, booted))
    best = surest(*found)
    if best.seconds is None and clock.offset is not None:
        return clock  # the offset was known before, and no newer data contradict it
    if not best.verified and clock.current().verified:
        return clock
    return replace(
        clock,
        offset=best.seconds,
        method=best.method,
        drift=best.drift_seconds,
        matches=best.matches,
        reported=best.reported,
        reason=best.reason,
    )
