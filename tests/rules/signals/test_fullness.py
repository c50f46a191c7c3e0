"""When a file system will be full: what counts as filling, and above all what does not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from iowarden.collectors.filesystem.statfs import Filesystems, Usage
from iowarden.rules.signals.filesystem import fullness
from iowarden.rules.signals.filesystem.fullness import FullnessState, Track, follow, full_in_seconds
from iowarden.rules.signals.signal import Inputs, View
from iowarden.rules.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

HOUR = 3600.0
DAY = 24 * HOUR
GB = 1e9
SIZE = 1000 * GB
START = 1_800_000_000.0


def watched(
    used: Callable[[float], float], seconds: float, *, size: float = SIZE, every: float = 300.0
) -> tuple[Track, list[float | None]]:
    """Return the track of a file system that is used so over time, and every forecast."""
    track: Track | None = None
    forecasts: list[float | None] = []
    for number in range(int(seconds / every) + 1):
        now = number * every
        taken = min(used(now), size)
        track = follow(track, taken, size - taken, START + now)
        forecasts.append(full_in_seconds(track, size - taken))
    assert track is not None
    return track, forecasts


def test_a_file_system_that_fills_in_ten_hours_is_forecast_after_six() -> None:
    """100 GB an hour: observed for six hours, then four are left, and that is reported."""
    _, forecasts = watched(lambda t: 100 * GB * t / HOUR, 9 * HOUR)
    first = next(n for n, seconds in enumerate(forecasts) if seconds is not None)
    assert first * 300 == 6 * HOUR
    assert forecasts[first] == 4 * HOUR
    assert forecasts[-1] == 1 * HOUR


@settings(max_examples=examples(30))
@given(days=st.floats(3.5, 50), began=st.floats(0.0, 0.5))
def test_steady_growth_is_forecast_to_the_hour(days: float, began: float) -> None:
    """Whatever the rate: after four days the forecast is exact."""
    rate = (1 - began) * SIZE / ((days + 4) * DAY)
    _, forecasts = watched(lambda t: began * SIZE + rate * t, 4 * DAY, every=1800.0)
    last = forecasts[-1]
    assert last is not None
    assert math.isclose(last, days * DAY, rel_tol=0.02)


def test_a_few_hours_do_not_report_the_next_week() -> None:
    """48 GB a day: full in 20 days. That takes three days of history, not six hours."""
    _, forecasts = watched(lambda t: 48 * GB * t / DAY, 4 * DAY, every=1800.0)
    first = next(n for n, seconds in enumerate(forecasts) if seconds is not None)
    assert first * 1800.0 == 3 * DAY


def test_one_copy_of_two_hours_is_no_filling() -> None:
    """A restore at 100 MB/s into a file system that did not change before."""
    began = 8 * HOUR

    def used(now: float) -> float:
        return 100 * GB + 0.1 * GB * min(max(now - began, 0.0), 2 * HOUR)

    _, forecasts = watched(used, 30 * HOUR)
    assert set(forecasts) == {None}


def test_a_log_that_is_rotated_every_day_is_no_filling() -> None:
    """It grows to 95 % by midnight and is rotated then, day after day."""
    _, forecasts = watched(lambda t: 350 * GB + 600 * GB * (t % DAY) / DAY, 9 * DAY, every=900.0)
    learnt = forecasts[int(1.5 * DAY / 900) :]
    assert set(learnt) == {None}


def test_a_weekly_clean_up_is_no_filling_the_second_time() -> None:
    """Every Sunday a job deletes 600 GB: a sawtooth that never reaches the top."""
    _, forecasts = watched(
        lambda t: 350 * GB + 600 * GB * (t % (7 * DAY)) / (7 * DAY), 21 * DAY, every=3600.0
    )
    assert set(forecasts[8 * 24 :]) == {None}


def test_a_deletion_does_not_hide_that_it_goes_on_filling() -> None:
    """50 GB are freed in the sixth hour; beyond the earlier level it is reported again."""

    def used(now: float) -> float:
        return 100 * GB * now / HOUR - (50 * GB if now >= 6.2 * HOUR else 0.0)

    _, forecasts = watched(used, 9 * HOUR)
    assert forecasts[-1] is not None
    assert math.isclose(forecasts[-1], 1.5 * HOUR, rel_tol=0.01)


def test_growth_that_is_over_is_forgotten_within_hours() -> None:
    """It grew for 20 hours and has not changed since: it is not filling."""
    _, forecasts = watched(lambda t: min(30 * GB * t / HOUR, 600 * GB), 40 * HOUR)
    assert forecasts[int(19 * HOUR / 300)] is not None
    assert forecasts[-1] is None


def test_a_file_system_that_was_enlarged_is_learnt_anew() -> None:
    """The growth before, which predicted a full file system at the old size."""
    before, _ = watched(lambda t: 100 * GB * t / HOUR, 8 * HOUR)
    after = follow(before, 800 * GB, 1200 * GB, START + 8.1 * HOUR)
    assert full_in_seconds(after, 1200 * GB) is None
    assert after.sustained_ratio == 0.4


def test_a_share_at_the_threshold_does_not_flap() -> None:
    """It breathes by a per cent around 80.0: once above, it stays above until it is below 78."""
    track: Track | None = None
    held = []
    for number, per_mille in enumerate([790, 801, 795, 805, 785, 799, 781, 779, 790]):
        track = follow(track, per_mille * GB, (1000 - per_mille) * GB, START + 15 * number)
        held.append(track.sustained_ratio > 0.8)
    assert held == [False, True, True, True, True, True, True, False, False]


def test_what_is_known_of_a_file_system_is_bounded() -> None:
    """A month of samples leaves a few dozen numbers."""
    track, _ = watched(lambda t: 100 * GB + 10 * GB * t / DAY, 30 * DAY, every=1800.0)
    assert [len(past.points) for past in track.horizons] == [13, 13, 16]


def usage(used: float, left: float, *, read_only: bool = False, files: int = 0) -> Usage:
    """Return a file system on '/srv'."""
    size = int(used + left)
    return Usage(
        mount_point="/srv",
        device="/dev/sda1",
        kind="ext4",
        size_bytes=size,
        free_bytes=int(left),
        available_bytes=int(left),
        files=files,
        files_free=files // 4,
        read_only=read_only,
    )


def told(state: FullnessState, now: float, own: Usage) -> tuple[FullnessState, dict[str, float]]:
    """Return the state and the series after a sample of one file system."""
    inputs = Inputs(now, 1000.0, Snapshot(filesystem=Filesystems({"/srv": own}, {})))
    state, samples = fullness.step(state, View(inputs, None))
    assert samples is not None
    return state, {name: value for name, _, value in samples}


def test_a_restart_keeps_what_was_learnt() -> None:
    """A day of growth was observed, the program restarts: the forecast is available at once."""
    state = FullnessState()
    for number in range(int(8 * HOUR / 300) + 1):
        used = 100 * GB * number * 300 / HOUR
        state, before = told(state, START + number * 300, usage(used, SIZE - used))
    again = fullness.recall(FullnessState(), fullness.remember(state))
    again, after = told(again, START + 8 * HOUR + 15, usage(800 * GB, 200 * GB))
    assert before["iowarden_filesystem_full_in_seconds"] == 2 * HOUR
    assert after["iowarden_filesystem_full_in_seconds"] == 2 * HOUR


def test_a_clock_that_was_set_back_starts_anew() -> None:
    """Points in the future are not history."""
    state = FullnessState()
    for number in range(int(8 * HOUR / 300) + 1):
        used = 100 * GB * number * 300 / HOUR
        state, _ = told(state, START + number * 300, usage(used, SIZE - used))
    again = fullness.recall(FullnessState(), fullness.remember(state))
    again, after = told(again, START - DAY, usage(800 * GB, 200 * GB))
    assert "iowarden_filesystem_full_in_seconds" not in after
    assert all(len(past.points) == 1 for past in again.tracks["bytes /dev/sda1 /srv"].horizons)


def test_what_cannot_be_written_cannot_fill() -> None:
    """An image mounted read-only is always full: its used share is reported, no forecast."""
    _, series = told(FullnessState(), START, usage(SIZE, 0.0, read_only=True, files=1000))
    assert series == {
        "iowarden_filesystem_used_ratio": 1.0,
        "iowarden_filesystem_inodes_used_ratio": 0.75,
    }
