"""Freezes: programs that are not the cause are blocked, by one device, in a rhythm. Pure.

A freeze begins with the first victim's wait and ends with the last one's. Freezes of one device
that follow each other closely are one series, which stays open between them: a server that is
blocked for 20 s of each minute has one problem and not sixty. How bad a series is follows from
ages, number of victims and share of time; thresholds compare the upper bound of an age, of one
victim alone the lower bound and one poll, and texts show the lower one. Units: seconds of the
program's clock.
"""

from __future__ import annotations

import enum
import itertools
import math
import statistics
from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.signals.waits.waits import LATE_POLL_SECONDS, likely_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.rules.signals.waits.harm import Harm, Victim
    from iowarden.rules.signals.waits.waits import Wait

COUNTED_SECONDS = 4.0
"""Two polls 2 s apart can prove a wait of this age."""
SEVERAL_SECONDS, SEVERAL_VICTIMS = 12.0, 2
LONG_SECONDS = 30.0
"""One victim of 10 to 30 s is each backup night of a host with disks that rotate."""
REPEATED_SECONDS, REPEATED_TIMES, REPEATED_WITHIN_SECONDS = 10.0, 3, 3600.0
PROGRAM_RATIO, PROGRAM_WINDOW_SECONDS = 0.5, 300.0
CRITICAL_SECONDS = 60.0
CRITICAL_RATIO, CRITICAL_TIMES, CRITICAL_WINDOW_SECONDS = 0.25, 5, 600.0
OPEN_SECONDS, OPEN_PERIODS = 600.0, 3
"""A series ends after this time without a freeze, or after this many of its periods."""
REPORTED_TIMES = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
"""A series is news again when it has so many freezes."""
RHYTHM_TIMES, RHYTHM_SECONDS = 3, 600.0
"""From then on its rhythm is reported: that it goes on is no news of the next minutes."""
RESUMED_SECONDS = 180.0
"""A freeze goes on where nothing was polled for so long at most: a restart, a probe that failed."""
MAX_REMEMBERED, MAX_STORED = 64, 16


class Level(enum.IntEnum):
    """How bad a series of freezes is."""

    NONE = 0
    COUNTED = 1
    """For the histogram, `iowarden top` and the digest."""
    WARNING = 2
    CRITICAL = 3


@dataclass(frozen=True, slots=True)
class Freeze:
    """One freeze of a device.

    `began_seconds` is that of the upper bound; `seconds` is the lower bound of its longest wait.
    """

    began_seconds: float
    last_seconds: float
    seconds: float
    victims: int
    level: Level = Level.COUNTED
    """How bad it was by itself, not as one of many; NONE: guards permit it."""
    known_seconds: float = -math.inf
    """When its first victim was first known to wait, by a poll or the load average."""

    @property
    def max_seconds(self) -> float:
        """How long it may have lasted."""
        return self.last_seconds - self.began_seconds

    @property
    def age_seconds(self) -> float:
        """How long it has lasted, as thresholds compare it."""
        if self.victims >= SEVERAL_VICTIMS:
            return self.max_seconds
        return likely_seconds(self.last_seconds - self.known_seconds, self.max_seconds)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How a series repeats.

    `period_seconds` is the median time between two beginnings, `length_seconds` the median length,
    `ratio` the share of the time since `since_seconds` in which programs were blocked.
    """

    times: int
    since_seconds: float
    period_seconds: float
    length_seconds: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Series:
    """The freezes of one device that belong together; the last one may go on."""

    freezes: tuple[Freeze, ...]
    """The newest `MAX_REMEMBERED`, oldest first."""
    times: int
    """Also those that are no longer in `freezes`."""
    since_seconds: float
    is_frozen: bool
    level: Level
    """The worst since it began."""
    reported_times: int = 1
    """The largest number of freezes that is news."""
    reported_seconds: float = 0.0
    """When it had so many."""
    earlier_seconds: float = 0.0
    """How long the freezes lasted that are no longer in `freezes`."""

    @property
    def blocked_seconds(self) -> float:
        """Return for how long programs were blocked since the series began."""
        return self.earlier_seconds + sum(freeze.max_seconds for freeze in self.freezes)

    def with_level(self, level: Level) -> Series:
        """Return the series whose freeze that goes on has been so bad by itself."""
        *earlier, last = self.freezes
        if not self.is_frozen or level <= last.level:
            return self
        return replace(self, freezes=(*earlier, replace(last, level=level)))

    def with_another(self, freeze: Freeze) -> Series:
        """Return the series with one more freeze, which goes on."""
        freezes, times = (*self.freezes, freeze), self.times + 1
        dropped = sum(each.max_seconds for each in freezes[:-MAX_REMEMBERED])
        step, now = _reported(times), freeze.last_seconds
        is_soon = step > RHYTHM_TIMES and now - self.reported_seconds < RHYTHM_SECONDS
        if is_soon or step <= self.reported_times:
            step, now = self.reported_times, self.reported_seconds
        return replace(
            self,
            freezes=freezes[-MAX_REMEMBERED:],
            times=times,
            is_frozen=True,
            earlier_seconds=self.earlier_seconds + dropped,
            reported_times=step,
            reported_seconds=now,
        )


def _reported(times: int) -> int:
    """Return the largest number of freezes that is news, up to a number of them."""
    return max((step for step in REPORTED_TIMES if step <= times), default=0)


@dataclass(frozen=True, slots=True)
class ProgramTime:
    """When a program was in waits: pairs of beginning and end within the window."""

    spans: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Permit:
    """The longest wait that guards permitted, and when a poll last found them."""

    seconds: float = 0.0
    until_seconds: float = -math.inf

    def holds_for(self, wait: Wait) -> bool:
        """Whether a wait began under the guards: they hold for it until it ends.

        A disk that had to spin up is no longer doing so when it answers the first of the waits.
        """
        return wait.not_before_seconds < self.until_seconds


NO_PERMIT = Permit()


@dataclass(frozen=True, slots=True)
class DeviceFreezes:
    """What is remembered of one device."""

    series: Series | None = None
    programs: Mapping[str, ProgramTime] = field(default_factory=dict)
    """By program and unit."""


NO_FREEZES = DeviceFreezes()


def stored(series: Series) -> tuple[tuple[float, float], ...]:
    """Return a series as pairs that begin with a time, to be stored over a restart.

    Of each freeze the age that thresholds compare: afterwards it is compared as it is.
    """
    kept = series.freezes[-MAX_STORED:]
    earlier_seconds = series.blocked_seconds - sum(freeze.age_seconds for freeze in kept)
    return (
        (series.since_seconds, float(series.times)),
        (series.since_seconds, float(series.level)),
        (series.since_seconds, float(series.is_frozen)),
        (series.since_seconds, earlier_seconds),
        *((freeze.last_seconds - freeze.age_seconds, freeze.age_seconds) for freeze in kept),
    )


def restored(pairs: tuple[tuple[float, float], ...]) -> Series | None:
    """Return the series of `stored`, whose last freeze may go on; None for other pairs."""
    if len(pairs) < 5:
        return None
    (since, times), (_, level), (_, is_frozen), (_, earlier_seconds), *freezes = pairs
    return Series(
        tuple(_restored_freeze(began, length) for began, length in freezes),
        int(times),
        since,
        is_frozen=bool(is_frozen),
        level=Level(int(level)),
        reported_times=_reported(int(times)),
        reported_seconds=sum(freezes[-1]),
        earlier_seconds=earlier_seconds,
    )


def _restored_freeze(began_seconds: float, length_seconds: float) -> Freeze:
    is_long = length_seconds >= REPEATED_SECONDS
    level = Level.WARNING if is_long else Level.COUNTED
    return Freeze(began_seconds, began_seconds + length_seconds, length_seconds, 1, level)


def next_freezes(
    state: DeviceFreezes,
    harm: Harm,
    now: float,
    *,
    previous_poll_seconds: float,
    min_seconds: float = 0.0,
    earlier: Permit = NO_PERMIT,
    sustained_seconds: float = 0.0,
) -> DeviceFreezes:
    """Return the state after a poll at `now`.

    `sustained_seconds`: for how long programs have been blocked at nearly each poll, none for long
    in one call (a device at its limit, a swap storm), once that is long enough for a mail; else 0.
    `min_seconds` is the threshold of a guard of this device (a virtual disk, a removable one): a
    shorter wait is counted and no more. `earlier`: that of guards which end with what they explain.
    """
    programs = next_programs(state.programs, harm, now, previous_poll_seconds)
    counted = list(harm.victims) if sustained_seconds else counted_victims(programs, harm, now)
    is_alone = len(counted) < SEVERAL_VICTIMS
    harmful_ages = [
        age_seconds
        for victim in counted
        if (age_seconds := victim.age_seconds(is_alone=is_alone))
        >= _permitted_seconds(victim, earlier, min_seconds)
    ]
    is_permitted = not harmful_ages and (bool(counted) or min_seconds > 0.0)
    level = Level.NONE if is_permitted else Level.COUNTED
    series = _next_series(state.series, counted, now, sustained_seconds, level)
    if series is None:
        return DeviceFreezes(None, programs)
    if not is_permitted:
        level = _own_level(series, max(harmful_ages, default=0.0), len(counted), now)
    if sustained_seconds:
        level = max(level, Level.WARNING)
    series = series.with_level(level)
    if not is_permitted:
        level = max(level, _level_of_many(series, programs, now))
    return DeviceFreezes(replace(series, level=max(series.level, level, Level.COUNTED)), programs)


def counted_victims(programs: Mapping[str, ProgramTime], harm: Harm, now: float) -> list[Victim]:
    """Return whose waits are a freeze: of 4 s, or of a program that was in waits half of the time.

    What one poll alone saw may be another call each time: a reader of a busy disk.
    """
    often = _often_waiting(programs, now)
    # Causes that wait longer than their own bytes explain count beside a victim.
    return [
        victim
        for victim in ((*harm.victims, *harm.evidence) if harm.victims else ())
        if victim.wait.min_seconds > 0.0
        and (victim.max_seconds >= COUNTED_SECONDS or _program(victim) in often)
    ]


def _permitted_seconds(victim: Victim, earlier: Permit, min_seconds: float) -> float:
    """Return from which length a wait harms, by the guards of now and those that it began under."""
    return max(min_seconds, earlier.seconds if earlier.holds_for(victim.wait) else 0.0)


def _next_series(
    series: Series | None,
    counted: list[Victim],
    now: float,
    sustained_seconds: float,
    level: Level,
) -> Series | None:
    """Return the series with the present victims: it goes on, a new one begins, or it has ended."""
    if not counted and not sustained_seconds:
        if series is None or is_over(series, now):
            return None
        return replace(series, is_frozen=False)
    longest = max(counted, key=lambda victim: victim.max_seconds, default=None)
    present = Freeze(
        began_seconds=now - sustained_seconds
        if sustained_seconds
        else min(victim.wait.not_before_seconds for victim in counted),
        last_seconds=now,
        seconds=0.0 if longest is None else longest.min_seconds,
        victims=len(counted),
        level=level,
        known_seconds=now - sustained_seconds
        if sustained_seconds
        else min(victim.wait.known_seconds for victim in counted),
    )
    if series is None or is_over(series, now):
        began = present.began_seconds
        return Series(
            (present,), 1, began, is_frozen=True, level=Level.COUNTED, reported_seconds=now
        )
    gap_seconds = now - series.freezes[-1].last_seconds
    if not series.is_frozen or gap_seconds > RESUMED_SECONDS:
        return series.with_another(present)
    last = series.freezes[-1]
    merged = Freeze(
        min(last.began_seconds, present.began_seconds),
        now,
        max(last.seconds, present.seconds),
        max(last.victims, present.victims),
        max(last.level, level) if last.level >= Level.WARNING else level,
        min(last.known_seconds, present.known_seconds),
    )
    return replace(series, freezes=(*series.freezes[:-1], merged))


def is_over(series: Series, now: float) -> bool:
    """Whether no freeze has followed for so long that the series has ended."""
    if series.is_frozen:
        return False
    period = rhythm(series, now).period_seconds
    if series.level < Level.WARNING:  # nothing is open: it is remembered for the third one
        return now - series.freezes[-1].last_seconds > REPEATED_WITHIN_SECONDS
    return now - series.freezes[-1].last_seconds > max(OPEN_SECONDS, OPEN_PERIODS * period)


def rhythm(series: Series, now: float) -> Rhythm:
    """Return how a series repeats; the period is 0 for a single freeze."""
    begins = [freeze.began_seconds for freeze in series.freezes]
    gaps = [later - earlier for earlier, later in itertools.pairwise(begins)]
    lengths = [freeze.max_seconds for freeze in series.freezes]
    observed_since = begins[0]
    return Rhythm(
        times=series.times,
        since_seconds=series.since_seconds,
        period_seconds=statistics.median(gaps) if gaps else 0.0,
        length_seconds=statistics.median(lengths),
        ratio=min(sum(lengths) / max(now - observed_since, 1.0), 1.0),
    )


def _own_level(series: Series, longest: float, victims: int, now: float) -> Level:
    """Return how bad the present freeze is by itself.

    `longest`: the age of its longest wait that guards do not permit, 0 without one.
    """
    if longest >= CRITICAL_SECONDS:
        return Level.CRITICAL
    several = longest >= SEVERAL_SECONDS and victims >= SEVERAL_VICTIMS
    if several or longest >= LONG_SECONDS or _repeats(series, longest, now):
        return Level.WARNING
    return Level.COUNTED


def _level_of_many(series: Series, programs: Mapping[str, ProgramTime], now: float) -> Level:
    """Return how bad the freezes of a series are together.

    Only such as are a warning by themselves are critical together.
    """
    if series.is_frozen and _is_frozen_often(series, Level.WARNING, now):
        return Level.CRITICAL
    if _often_waiting(programs, now) or (
        series.is_frozen and _is_frozen_often(series, Level.COUNTED, now)
    ):
        return Level.WARNING
    return Level.COUNTED


def _repeats(series: Series, longest: float, now: float) -> bool:
    """Whether this is the third long wait within an hour."""
    recent = [
        freeze
        for freeze in series.freezes
        if freeze.level > Level.NONE
        and freeze.age_seconds >= REPEATED_SECONDS
        and now - freeze.last_seconds <= REPEATED_WITHIN_SECONDS
    ]
    return longest >= REPEATED_SECONDS and len(recent) >= REPEATED_TIMES


def _is_frozen_often(series: Series, level: Level, now: float) -> bool:
    """Whether a quarter of the last ten minutes passed in five or more freezes of this level."""
    began = now - CRITICAL_WINDOW_SECONDS
    recent = [
        freeze for freeze in series.freezes if freeze.last_seconds > began and freeze.level >= level
    ]
    frozen = sum(min(freeze.age_seconds, freeze.last_seconds - began) for freeze in recent)
    return len(recent) >= CRITICAL_TIMES and frozen >= CRITICAL_RATIO * CRITICAL_WINDOW_SECONDS


def next_programs(
    programs: Mapping[str, ProgramTime], harm: Harm, now: float, previous_poll_seconds: float
) -> dict[str, ProgramTime]:
    """Return when programs were in waits, with the time since the poll before added.

    Only of a wait that both polls saw: a task that reads a busy disk is in another one each time.
    Its true beginning is between its first poll and the one before, its end between the last one
    and the next: half of that time is added to it. Where the next wait has begun at that poll, that
    begins with the half, and what is between them is not added.
    """
    began = now - PROGRAM_WINDOW_SECONDS
    spans: dict[str, list[tuple[float, float]]] = {}
    for name, program in programs.items():
        recent = [span for span in program.spans if span[1] > began]
        if recent:
            spans[name] = recent
    waiting = {_program(victim) for victim in harm.victims}
    if now - previous_poll_seconds <= LATE_POLL_SECONDS:
        ended = (previous_poll_seconds + now) / 2
        for name in spans.keys() - waiting:
            start, end = spans[name][-1]
            if end == previous_poll_seconds:
                spans[name][-1] = start, ended
    for victim in harm.victims:
        wait = victim.wait
        if wait.min_seconds <= 0.0:
            continue
        start = previous_poll_seconds
        if wait.first_seconds >= previous_poll_seconds:
            start = (wait.first_seconds + wait.not_before_seconds) / 2
        _add_span(spans.setdefault(_program(victim), []), (start, now))
    return {name: ProgramTime(tuple(kept)) for name, kept in spans.items()}


def _add_span(spans: list[tuple[float, float]], span: tuple[float, float]) -> None:
    """Add a span to those of a program; what overlaps or touches the last one is one with it."""
    if spans and span[0] <= spans[-1][1]:
        spans[-1] = min(spans[-1][0], span[0]), max(spans[-1][1], span[1])
    else:
        spans.append(span)


def _program(victim: Victim) -> str:
    return f"{victim.wait.task.command} {victim.wait.task.unit}".rstrip()


def _often_waiting(programs: Mapping[str, ProgramTime], now: float) -> set[str]:
    """Return the programs that were in waits half of the last five minutes."""
    return {
        name for name, program in programs.items() if program_ratio(program, now) >= PROGRAM_RATIO
    }


def program_ratio(program: ProgramTime, now: float) -> float:
    """Return the share of the last five minutes in which a program was in waits."""
    began = now - PROGRAM_WINDOW_SECONDS
    inside: Iterable[float] = (end - max(start, began) for start, end in program.spans)
    return sum(span for span in inside if span > 0) / PROGRAM_WINDOW_SECONDS
