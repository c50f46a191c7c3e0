"""When a solid-state drive's rated endurance will be used, and within which error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iowarden.rules.signals.smart import wear

if TYPE_CHECKING:
    from iowarden.rules.signals.signal import Pairs

DAY = 86_400.0
MONTH = 365.25 / 12
START = 1_790_000_000.0


def used(*percents: float, every: float = 1.0) -> Pairs:
    """Return the stored history of a drive that is polled every so many days, oldest first."""
    history: Pairs = ()
    for number, percent in enumerate(percents):
        history = wear.with_used(history, percent, START + number * every * DAY)
    return history


def written(*terabytes: float) -> Pairs:
    """Return the stored amounts that a drive has written, polled every 15 days."""
    history: Pairs = ()
    for number, amount in enumerate(terabytes):
        history = wear.with_written(history, amount * 1e12, START + number * 15 * DAY)
    return history


def days(found: wear.Forecast | None, now: float) -> list[int]:
    """Return the days left: likely, at least, at most; and those in which the pace was measured."""
    assert found is not None
    return [*(round((at - now) / DAY) for at in found[:3]), round(found.window_seconds / DAY)]


def test_four_points_in_90_days_leave_14_months_between_11_and_19() -> None:
    """The drive shows whole per cent: 4 points may be 3 or 5."""
    now = START + 90 * DAY
    found = wear.forecast(used(77, 78, 79, 80, 81, every=22.5), (), 0.0, now)
    *left, window = days(found, now)
    assert [round(each / MONTH) for each in left] == [14, 11, 19]
    assert window == 90


@pytest.mark.parametrize(
    ("rises", "window", "left"),
    [
        ({0: 50, 300: 53, 350: 58, 364: 60}, 365, 1460),
        ({290: 50, 300: 53, 350: 58, 364: 60}, 30, 171),
        ({0: 50, 100: 53}, 365, 5718),
    ],
)
def test_the_pace_is_that_of_the_longest_window_that_was_observed(
    rises: dict[int, int], window: int, left: int
) -> None:
    """A busy month of a quiet year is not the pace; before a year has passed it may be."""
    now, history = START + 365 * DAY, ()
    for day, percent in rises.items():
        history = wear.with_used(history, percent, START + day * DAY)
    assert days(wear.forecast(history, (), 0.0, now), now)[::3] == [left, window]


@pytest.mark.parametrize(
    "history",
    [used(40), used(40, 41, 42, every=45), used(97, 99, 100, every=45), used(255)],
    ids=["first poll", "two points", "used up", "far beyond"],
)
def test_no_date_is_given_that_could_not_be_honest(history: Pairs) -> None:
    """A history of one reading, an error of more than a third, or nothing left to use up."""
    assert wear.forecast(history, (), 0.0, START + 90 * DAY) is None


def test_what_was_written_for_a_per_cent_gives_the_rated_amount() -> None:
    """50 TB were 10 % of it, 3 TB of them in 45 days: 450 TB more are 6750 days, a tenth off."""
    now, past = START + 45 * DAY, written(47, 48, 49)
    assert days(wear.forecast(used(10), past, 50e12, now), now) == [6750, 6136, 7500, 45]
    assert wear.forecast(used(10), past, 47e12, now) is None, "it is idle"
    assert wear.forecast(used(2), past, 50e12, now) is None, "2 % may be 1 % or 3 %"
    assert wear.forecast(used(10), past, 50e12, START + 29 * DAY) is None, "less than a month"


def test_a_share_that_decreases_was_never_reached() -> None:
    """After a firmware update it starts again; the pace is measured from what is still true."""
    history = used(50, 51, 58, 52, every=10)
    assert [percent for _, percent in history] == [50, 51, 52]
    assert wear.with_written(written(5, 6), 1e12, START + 30 * DAY) == ((START + 30 * DAY, 1e12),)


def test_a_history_is_a_year_and_its_beginning() -> None:
    """A drive that wears fast and is polled for ten years stores no more than one of a year."""
    history = used(*range(250), every=20)
    assert len(history) == 21
    assert history[-1][0] - history[0][0] >= 365 * DAY
    assert len(written(*range(520))) == 15
    assert used(*[7.0] * 500) == ((START, 7.0),)
