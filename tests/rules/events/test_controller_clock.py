"""Clocks of RAID controllers: their zone, their drift, and what is unknown."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import accumulate

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from iowarden.rules.events.controller_clock import (
    MATCH_SECONDS,
    MAX_SECONDS,
    MIN_MATCHES,
    QUARTER_SECONDS,
    UNKNOWN,
    Offset,
    OffsetMethod,
    describe,
    from_errors,
    from_power_on,
    from_query,
    moved,
    surest,
    utc,
)

HOUR = 3600.0


def at(text: str) -> float:
    """A time of 24 August 2008, as if it were UTC."""
    return datetime.fromisoformat(f"2008-08-24 {text}").replace(tzinfo=UTC).timestamp()


ERRORS = [at(f"05:{text}") for text in ("43:46", "43:54", "44:08", "44:16", "44:24")]
"""Errors of channel 2 in the log of an ARC-1210; the host's clock was at 01:43 EDT then."""
QUARTERS = st.integers(-56, 56).map(lambda number: float(number * QUARTER_SECONDS))


def test_a_controller_at_utc_whose_errors_are_the_kernels() -> None:
    """All five errors match at this offset, none at any other."""
    found = from_errors(ERRORS, ERRORS)
    assert (found.seconds, found.method, found.verified) == (0.0, OffsetMethod.ERRORS, True)
    assert (found.matches, found.reported, found.runner_up) == (5, 5, 0)
    assert describe(found) == "its clock is UTC (5 of 5 errors match the kernel log)"


def test_a_controller_four_hours_ahead_of_what_the_kernel_logs() -> None:
    """The kernel log had Eastern Daylight Time."""
    found = from_errors(ERRORS, [each - 4 * HOUR for each in ERRORS])
    assert (found.seconds, found.matches, found.runner_up) == (14_400.0, 5, 0)
    assert (
        describe(found)
        == "its clock is 4:00:00 h ahead of UTC (5 of 5 errors match the kernel log)"
    )


@pytest.mark.parametrize("noise", [(-50.0, 12.0), (100.0, 300.0), (-4000.0, 2.0)])
def test_drift_and_lines_that_belong_to_nothing(noise: tuple[float, ...]) -> None:
    """A clock 37 s fast, and two errors of the kernel that the controller never reported."""
    local = [each - 4 * HOUR for each in ERRORS]
    found = from_errors([each + 37 for each in ERRORS], [*local, *(local[0] + x for x in noise)])
    assert (found.seconds, found.drift_seconds, found.runner_up) == (14_437.0, 37.0, 0)
    assert not found.wrong


def test_the_time_of_an_error_in_utc() -> None:
    """The controller's 05:43:46 was 01:43:46 by the kernel's clock."""
    found = from_errors(ERRORS, [each - 4 * HOUR for each in ERRORS])
    assert utc(ERRORS[0], found) == at("01:43:46")
    assert utc(ERRORS[0], UNKNOWN) is None


@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_than_three_matches_are_unverified(count: int) -> None:
    """Two errors match at some offset by coincidence too often."""
    found = from_errors(ERRORS, ERRORS[:count])
    assert (found.seconds, found.verified, found.matches) == (None, False, count)
    assert "unverified" in describe(found)


def test_a_kernel_that_saw_nothing_reports_nothing_of_the_clock() -> None:
    """A controller that corrects its errors by itself is no evidence for its clock."""
    assert from_errors(ERRORS, []) == Offset(None, OffsetMethod.NONE, reported=5, reason=_few(0))
    assert from_errors([], ERRORS).reason.startswith("0 of its 0 errors match")


def _few(count: int) -> str:
    return f"{count} of its 5 errors match an error of the kernel log, too few"


def test_errors_every_quarter_of_an_hour_fit_everywhere() -> None:
    """A program that polls every 15 minutes is no clock."""
    regular = [at("05:00:00") + 900.0 * n for n in range(8)]
    found = from_errors(regular, regular)
    assert (found.seconds, found.matches, found.runner_up) == (None, 8, 7)
    assert found.reason == "8 errors match at one offset, and 7 at another"


def test_two_offsets_that_fit_as_well_are_unverified() -> None:
    """The clock was set in between: three errors before, three after."""
    before, after = ERRORS[:3], [each + 6 * HOUR for each in ERRORS[:3]]
    found = from_errors([*before, *(each - HOUR for each in after)], [*before, *after])
    assert (found.seconds, found.matches, found.runner_up) == (None, 3, 3)


def test_a_burst_of_the_kernel_is_one_match_for_one_error() -> None:
    """One error of the controller and forty kernel lines are one pair."""
    found = from_errors(ERRORS[:1], [ERRORS[0] + n / 10 for n in range(40)])
    assert (found.matches, found.verified) == (1, False)


def test_a_storm_of_the_kernel_hides_no_clock() -> None:
    """Of 50,000 lines within a few minutes one per second counts."""
    storm = [each + n / 10_000 for each in ERRORS for n in range(10_000)]
    assert from_errors(ERRORS, storm).seconds == 0.0


def test_two_storms_at_once_are_compared_too() -> None:
    """A hundred thousand errors in both logs within 90 seconds: all of them match each other."""
    storm = [ERRORS[0] + n / 1111 for n in range(100_000)]
    found = from_errors([each + 4 * HOUR for each in storm], storm)
    assert found.verified
    assert found.seconds is not None
    assert abs(found.seconds - 4 * HOUR) <= MATCH_SECONDS


@pytest.mark.parametrize(
    ("power_on", "offset"),
    [
        ("06:14:51", 0.0),  # nine minutes before the first reading
        ("10:14:51", 14_400.0),
        ("00:44:51", -19_800.0),
        ("06:25:51", None),  # after the kernel: not of this boot
        ("06:10:51", None),
    ],
)
def test_a_controller_is_switched_on_before_the_kernel_starts(
    power_on: str, offset: float | None
) -> None:
    """From ten minutes before boot to one after, at a whole quarter of an hour."""
    found = from_power_on(at(power_on), at("06:23:58"))
    assert (found.seconds, found.verified) == (offset, False)


def test_a_clock_of_the_year_2000_fits_no_start() -> None:
    """The battery was empty: only a query of the controller helps."""
    found = from_power_on(946_684_800.0, at("06:23:58"))
    assert found.seconds is None
    assert "unverified" in describe(found)


def test_a_controller_that_reports_its_time_is_believed() -> None:
    """Also if its clock is wrong by years."""
    found = from_query(at("10:24:30"), at("06:23:58"))
    assert (found.seconds, found.drift_seconds, found.verified) == (14_432.0, 32.0, True)
    assert not found.wrong
    assert from_query(946_684_800.0, at("06:23:58")).wrong
    assert from_query(at("06:25:59"), at("06:23:58")).wrong


def test_the_surest_way_wins() -> None:
    """A query of the controller, then errors, then the power-on time."""
    by_errors, by_start = from_errors(ERRORS, ERRORS), from_power_on(ERRORS[0], ERRORS[0])
    assert surest(by_start, by_errors) is by_errors
    assert surest(by_errors, from_query(0, 0), by_start).method is OffsetMethod.QUERIED
    assert surest(UNKNOWN, by_start) is by_start
    assert surest() is UNKNOWN


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (14_400.0, 14_437.0, ""),
        (14_400.0, 18_030.0, "its clock changed by one hour: daylight saving time"),
        (18_000.0, 14_400.0, "its clock changed by one hour: daylight saving time"),
        (14_400.0, 0.0, "its clock was set back by 4 h"),
        (0.0, 300.0, "its clock was set forward by 5 min"),
    ],
)
def test_a_clock_that_moves(before: float, now: float, words: str) -> None:
    """A clock of local time changes by an hour twice a year; a small drift is no change."""
    assert moved(Offset(before, OffsetMethod.ERRORS), Offset(now, OffsetMethod.QUERIED)) == words
    assert moved(Offset(before, OffsetMethod.POWER_ON), Offset(now, OffsetMethod.QUERIED)) == ""


@given(QUARTERS, st.integers(-80, 80), st.sets(st.integers(0, 600), min_size=5, max_size=12))
def test_any_zone_and_drift_are_found(zone: float, drift: int, times: set[int]) -> None:
    """Errors of one burst show both, whatever the zone."""
    shown = [each + zone + drift for each in times]
    found = from_errors(shown, map(float, times))
    assert found.verified
    assert found.seconds is not None
    # In a regular burst each error matches its neighbour's, too: the drift is less exact.
    assert abs(found.seconds - zone - drift) <= 2 * MATCH_SECONDS
    assert found.matches == len(times)


@given(
    QUARTERS,
    st.integers(-80, 80),
    st.lists(st.integers(200, 4000), min_size=8, max_size=20),
    st.lists(st.floats(1e9, 1e9 + 6e4), max_size=3),
)
def test_the_drift_of_lone_errors_is_exact(
    zone: float, drift: int, gaps: list[int], noise: list[float]
) -> None:
    """Errors of a day, and up to three unrelated kernel lines."""
    times = [1e9 + total for total in accumulate(gaps)]
    found = from_errors([each + zone + drift for each in times], [*times, *noise])
    assume(found.verified)  # errors at regular intervals match at other offsets, too
    assert (found.seconds, found.drift_seconds) == (zone + drift, drift)
    assert found.matches == len(times)


@given(st.lists(st.floats(-1e10, 1e10), max_size=30), st.lists(st.floats(-1e10, 1e10), max_size=30))
def test_any_times_give_an_offset_of_a_zone_or_none(one: list[float], two: list[float]) -> None:
    """A verified offset has enough matches, is a possible zone, and beats the runner-up."""
    found = from_errors(one, two)
    assert found.matches <= min(len(one), len(two))
    if found.verified:
        assert found.seconds is not None
        assert abs(found.seconds) <= MAX_SECONDS + MATCH_SECONDS
        assert found.matches >= max(MIN_MATCHES, 2 * found.runner_up)
    else:
        assert found.reason


@given(st.floats(-1e10, 1e10), st.floats(-1e10, 1e10))
def test_being_switched_on_never_verifies(power_on: float, boot: float) -> None:
    """For any times."""
    found = from_power_on(power_on, boot)
    assert not found.verified
    assert found.reason
