"""The program's clock against the wall clock."""

from __future__ import annotations

import time

import pytest

from iowarden.daemon.clock import PlayedClock, SystemClock


def test_the_programs_time_is_the_wall_clock_at_start_and_then_what_passed() -> None:
    """On a machine whose clock is not set meanwhile, both are the same."""
    clock = SystemClock()
    assert clock.now() == pytest.approx(time.time(), abs=5.0)
    assert clock.realtime(clock.now() - 60.0) == pytest.approx(time.time() - 60.0, abs=5.0)
    assert clock.uptime() == pytest.approx(time.monotonic(), abs=5.0)


def test_a_step_of_the_wall_clock_moves_dates_and_no_times() -> None:
    """A minute passes, and the clock is set an hour back: the start shown is an hour earlier."""
    clock = PlayedClock()
    clock.set(100.0, 1_800_000_000.0)
    began = clock.now()
    clock.set(160.0, 1_800_000_060.0 - 3600.0)
    assert clock.now() - began == 60.0
    assert clock.realtime(clock.now()) == 1_800_000_060.0 - 3600.0
    assert clock.realtime(began) == 1_800_000_000.0 - 3600.0
    assert clock.uptime() == 160.0
