"""A RAID controller's clock against UTC: its events carry a local time without a zone. Pure.

Offset: what the controller's clock shows, read as if it were UTC, less UTC. Units: seconds.
Ways, the surest first: the controller tells its time; its errors fit the kernel's at one offset and
at no other; it was switched on just before the kernel started, which fits by chance as well, so
that an offset found so is not verified.
Source: zones are whole quarters of an hour from UTC (tz database), -12 to +14 h.
Limits: a clock more than 14 h off is known only if the controller tells its time, and one that is
more than `MATCH_SECONDS` beside a quarter of an hour is not found by its errors. Over a change of
the clock some errors fit the offset before and some the one after: give those of one day.
"""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

QUARTER_SECONDS = 900
MOST_SECONDS = 14 * 3600
MATCH_SECONDS = 90.0
"""An error is told by both sides within that, at the right offset."""
LEAST_MATCHES = 3
CLEARLY = 2
"""So many times the matches of the second best offset."""
POWER_ON_SECONDS = (-600.0, 60.0)
"""When the controller was switched on, less when the kernel started."""
ERROR_SECONDS = 60.0
"""A clock that is further beside a quarter of an hour is wrong, and worth a note (J5)."""
HOUR_SECONDS = 3600
MOST_TIMES = 400
"""Of each side, the newest: each is compared with the other's at 113 offsets."""
_SAME_SECONDS = 2.0
"""Pairs of one and the same drift are that near: both sides tell whole seconds."""


class Way(enum.StrEnum):
    """How an offset was found."""

    ASKED = "asked"
    ERRORS = "errors"
    POWER_ON = "power-on"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Offset:
    """A controller's clock less UTC.

    Fields: `seconds` is the zone and the drift, None where it is not known; `drift_seconds` is how
    far the clock is beside a quarter of an hour; `matches` of `told` errors of the controller fit
    one of the kernel's, `runner_up` at the next best offset; `reason` says why it is not verified.
    """

    seconds: float | None
    way: Way
    drift_seconds: float = 0.0
    matches: int = 0
    told: int = 0
    runner_up: int = 0
    reason: str = ""

    @property
    def verified(self) -> bool:
        """Whether times may be compared by it; what is not is told as unverified."""
        return self.seconds is not None and self.way in {Way.ASKED, Way.ERRORS}

    @property
    def wrong(self) -> bool:
        """Whether the clock is wrong, whatever its zone (J5)."""
        far = self.seconds is not None and abs(self.seconds) > MOST_SECONDS + ERROR_SECONDS
        return far or abs(self.drift_seconds) > ERROR_SECONDS


UNKNOWN = Offset(None, Way.NONE, reason="nothing tells what its clock shows")


@dataclass(frozen=True, slots=True)
class Clock:
    """What is known of a controller's clock.

    Fields: `serial` is the controller's; `errors` are the times of its latest errors, by its clock,
    `power_on` of its latest start; `way` to `reason` are those of the offset that is in force.
    """

    serial: str = ""
    errors: tuple[float, ...] = ()
    power_on: float | None = None
    offset: float | None = None
    way: Way = Way.NONE
    drift: float = 0.0
    matches: int = 0
    told: int = 0
    reason: str = ""

    def known(self) -> Offset:
        """Return the offset in force."""
        return Offset(
            self.offset, self.way, self.drift, self.matches, self.told, reason=self.reason
        )


def asked(controller_seconds: float, utc_seconds: float) -> Offset:
    """Return the offset of a controller that told its time, which was asked for at `utc_seconds`.

    Limits: an answer that takes long counts as drift.
    """
    seconds = controller_seconds - utc_seconds
    drift = seconds - QUARTER_SECONDS * round(seconds / QUARTER_SECONDS)
    return Offset(seconds, Way.ASKED, drift)


def from_power_on(power_on_seconds: float, boot_utc_seconds: float) -> Offset:
    """Return the offset by which the controller was switched on just before the kernel started.

    `power_on_seconds` is its last event of being switched on, `boot_utc_seconds` is the kernel's
    btime ('/proc/stat'). One in four fits by chance, and a kernel that is started again does not
    switch the controller on: the offset is not verified.
    """
    gap = power_on_seconds - boot_utc_seconds
    earliest, latest = POWER_ON_SECONDS
    # The range is less than a quarter: at most one offset fits.
    step = QUARTER_SECONDS * round((gap - (earliest + latest) / 2) / QUARTER_SECONDS)
    if abs(step) <= MOST_SECONDS and earliest <= gap - step <= latest:
        reason = "only its being switched on fits, and that may be chance"
        return Offset(float(step), Way.POWER_ON, reason=reason)
    return Offset(None, Way.NONE, reason="it was not switched on just before the kernel started")


def from_errors(controller_seconds: Iterable[float], kernel_seconds: Iterable[float]) -> Offset:
    """Return the offset at which most errors of the controller fit one of the kernel each.

    Give medium errors and time-outs only, of the controller's disks, those of the kernel in UTC.
    Not verified: fewer than `LEAST_MATCHES`, or not `CLEARLY` more than at any other offset.
    """
    told, kernel = _newest(controller_seconds), _newest(kernel_seconds)
    counts = {
        step: _matches(told, kernel, step)
        for step in range(-MOST_SECONDS, MOST_SECONDS + 1, QUARTER_SECONDS)
    }
    best = max(counts, key=lambda step: (counts[step], -abs(step), step))
    matches = counts.pop(best)
    runner_up = max(counts.values())
    reason = ""
    if matches < LEAST_MATCHES:
        reason = f"{matches} of its {len(told)} errors fit one of the kernel's, too few to tell"
    elif matches < CLEARLY * runner_up or matches == runner_up:
        reason = f"{matches} errors fit at one offset, and {runner_up} at another"
    if reason:
        return Offset(None, Way.NONE, 0.0, matches, len(told), runner_up, reason)
    drift = _drift(told, kernel, best)
    return Offset(best + drift, Way.ERRORS, drift, matches, len(told), runner_up)


def surest(*offsets: Offset) -> Offset:
    """Return the one that is known best: asked, then errors, then power-on; UNKNOWN for none."""
    order = (Way.ASKED, Way.ERRORS, Way.POWER_ON, Way.NONE)
    return min(offsets, key=lambda each: order.index(each.way), default=UNKNOWN)


def utc(controller_seconds: float, offset: Offset) -> float | None:
    """Return a time of the controller as UTC, None where its offset is not known."""
    return None if offset.seconds is None else controller_seconds - offset.seconds


def moved(before: Offset, now: Offset) -> str:
    """Return what became of a clock between two estimates, '' for nothing or only some drift.

    An hour is daylight saving: a clock that is set to local time moves by it, also when a person
    sets it late. Both must be verified.
    """
    if not (before.verified and now.verified):
        return ""
    change = (now.seconds or 0.0) - (before.seconds or 0.0)
    if abs(change) <= MATCH_SECONDS:
        return ""
    if abs(abs(change) - HOUR_SECONDS) <= MATCH_SECONDS:
        return "its clock moved by an hour: daylight saving"
    way = "forward" if change > 0 else "back"
    return f"its clock was set {way} by {abs(change):.0f} s"


def told(offset: Offset) -> str:
    """Return an offset in words, for a person who compares times."""
    if offset.seconds is None:
        return f"its clock is unverified: {offset.reason}"
    drift = offset.drift_seconds  # less than it can be told by is none
    ahead_seconds = offset.seconds - (drift if abs(drift) <= _SAME_SECONDS else 0.0)
    minutes, seconds = divmod(round(abs(ahead_seconds)), 60)
    ahead = "ahead of" if ahead_seconds > 0 else "behind"
    size = f"{minutes // 60}:{minutes % 60:02}:{seconds:02} h {ahead} UTC"
    shown = size if minutes or seconds else "UTC"
    if not offset.verified:
        return f"its clock is perhaps {shown}, unverified: {offset.reason}"
    fit = f" ({offset.matches} of {offset.told} errors fit)" if offset.way is Way.ERRORS else ""
    return f"its clock is {shown}{fit}"


def _newest(times: Iterable[float]) -> list[float]:
    """Return the newest times in order; of more than can be compared, one of each second."""
    ordered = sorted(times)
    if len(ordered) > MOST_TIMES:
        ordered = sorted({float(int(each)) for each in ordered})
    return ordered[-MOST_TIMES:]


def _matches(told: Sequence[float], kernel: Sequence[float], offset: float) -> int:
    """Return how many pairs there are, each time in one at most; both are sorted.

    Taking the earliest that fits is the most that can be had, as all reach equally far.
    """
    count = at = 0
    for each in told:
        wanted = each - offset
        at = bisect_left(kernel, wanted - MATCH_SECONDS, at)
        if at == len(kernel):
            break
        if kernel[at] - wanted <= MATCH_SECONDS:
            count += 1
            at += 1
    return count


def _drift(told: Sequence[float], kernel: Sequence[float], offset: float) -> float:
    """Return the median of what most pairs are beside the offset by.

    Not of the pairs that _matches takes: of errors some seconds apart, one line of the kernel that
    belongs to none would shift all that follow. Of two drifts that are as frequent, the less.
    """
    beside: list[float] = []
    for each in told:
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


def known(clocks: Mapping[str, Clock], controller: str) -> Offset:
    """Return the offset in force of a controller's clock."""
    clock = clocks.get(controller)
    return UNKNOWN if clock is None else clock.known()


def estimated(
    clock: Clock,
    kernel_errors: Sequence[float],
    booted: float | None,
    ahead_seconds: float | None = None,
) -> Clock:
    """Return a controller's clock with the offset that is known best now.

    `booted` is when the kernel started; a controller that told its time is `ahead_seconds`.
    """
    found = [from_errors(clock.errors, kernel_errors)]
    if ahead_seconds is not None:
        found.append(asked(ahead_seconds, 0.0))
    if clock.power_on is not None and booted is not None:
        found.append(from_power_on(clock.power_on, booted))
    best = surest(*found)
    if best.seconds is None and clock.offset is not None:
        return clock  # it was known before, and nothing says otherwise
    if not best.verified and clock.known().verified:
        return clock
    return replace(
        clock,
        offset=best.seconds,
        way=best.way,
        drift=best.drift_seconds,
        matches=best.matches,
        told=best.told,
        reason=best.reason,
    )
