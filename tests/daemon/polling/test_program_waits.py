"""A program in many short waits, from the polls that see them to how bad that is."""

from __future__ import annotations

import itertools

import pytest
from support.blocked import task

from iowarden.daemon.polling.task_polls import TaskPolls
from iowarden.rules.signals.waits.freezes import (
    NO_FREEZES,
    PROGRAM_WINDOW_SECONDS,
    REPEATED_SECONDS,
    Level,
    next_freezes,
)
from iowarden.rules.signals.waits.harm import NO_LOAD, harm
from iowarden.rules.signals.waits.uncounted import NO_CHANGES
from iowarden.rules.signals.waits.waits import NO_POLLS, about_storage, next_polls

POLL_SECONDS = 2.0


def reached_seconds(wait: float, pause: float, phase: float, until: int) -> dict[Level, float]:
    """Return when each level was reached: a journal thread waits, pauses, and waits again.

    `phase`: how much of its first wait is over when '/proc/stat' is first read.
    """
    decides, polls, freezes = TaskPolls(), NO_POLLS, NO_FREEZES
    reached: dict[Level, float] = {}
    for second in range(until):
        turn, into = divmod(second + phase, wait + pause)
        is_waiting, now = into < wait, float(second)
        is_followed = any(each.min_seconds > 0.0 for each in about_storage(polls))
        if not decides.is_due(
            int(is_waiting), now, changes=NO_CHANGES, is_followed=is_followed, is_suspected=False
        ):
            continue
        counters = (0, int(turn), 10, 10, 0, 65_536)
        seen = [task(1, "mongod", counters=counters)] if is_waiting else []
        previous = now if polls.last_seconds is None else polls.last_seconds
        polls, _ = next_polls(polls, seen, now, trigger_seconds=now, legacy_queued_ratio=None)
        harmed = harm(about_storage(polls), NO_LOAD, 0.0, 0.0)
        freezes = next_freezes(freezes, harmed, now, previous_poll_seconds=previous)
        if freezes.series is not None:
            reached.setdefault(freezes.series.level, now)
    return reached


@pytest.mark.parametrize("phase", [0.0, 0.5, 1.0, 1.5])
@pytest.mark.parametrize(("wait", "pause"), [*itertools.product(range(4, 11), range(1, 5))])
def test_a_program_that_waits_half_of_five_minutes_is_warned_of_whatever_its_period(
    wait: int, pause: int, phase: float
) -> None:
    """Also where its period is a multiple of that of the polls; and it is not critical at once."""
    into = [(second + phase) % (wait + pause) < wait for second in range(480)]
    half = next(s for s in range(480) if sum(into[:s]) >= PROGRAM_WINDOW_SECONDS / 2)
    reached = reached_seconds(wait, pause, phase, 480)
    warned = reached[Level.WARNING]
    assert warned <= max(half + 30, 330)
    if wait + POLL_SECONDS < REPEATED_SECONDS:  # else three of 10 s may be a warning before
        assert warned >= 140
        assert Level.CRITICAL not in reached
    assert warned < reached.get(Level.CRITICAL, 480.0)


@pytest.mark.parametrize("phase", [0.0, 0.5, 1.0, 1.5])
@pytest.mark.parametrize(("wait", "pause"), [(4, 26), (5, 35), (7, 43), (2, 8), (1, 1)])
def test_a_program_that_waits_a_sixth_of_the_time_is_counted_at_most(
    wait: int, pause: int, phase: float
) -> None:
    """The commits of a database beside the flushes of its host; and a reader of a busy disk."""
    assert set(reached_seconds(wait, pause, phase, 900)) <= {Level.COUNTED}
