"""Requests in flight that leaked: when a counter is wrong, and when requests really wait."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from support.machine import block

from iowarden.rules.signals import in_flight

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.rules.signals.in_flight import Counted


class Disk:
    """A disk that is sampled each second."""

    def __init__(self, leaked: int = 0) -> None:
        """Start with so many that are shown until the next boot."""
        self.leaked = leaked
        self.second = 0
        self.writes = 0
        self.milliseconds = 0.0
        self.state: Mapping[str, Counted] = {}

    def work(self, seconds: int, *, shown: int, writes: int, mean: float) -> None:
        """Complete `writes` a second, on average `mean` in flight, of which samples see `shown`."""
        for _ in range(seconds):
            self.second += 1
            self.writes += writes
            self.milliseconds += mean * 1000
            line = block(
                "sda",
                writes=self.writes,
                in_flight=shown + self.leaked,
                write_milliseconds=round(self.milliseconds),
            )
            now = 1000.0 + self.second
            self.state = in_flight.step(self.state, now, {"sda": line}, {"sda": 60.0})

    def hang(self, seconds: int, *, shown: int) -> None:
        """Complete nothing."""
        self.work(seconds, shown=shown, writes=0, mean=0.0)

    @property
    def found(self) -> int:
        """How many have leaked, as far as it shows."""
        return self.state["sda"].leaked


@pytest.mark.parametrize(
    ("mean", "shown", "leaked"),
    [
        (0.5, 1, 1),  # a leak of one beside a half
        (0.5, 2, 2),
        (1.0, 1, 0),  # a writer that waits for each of its writes
        (0.96, 1, 0),  # the same, as short times are counted
        (31.0, 32, 0),  # a queue of constant depth
        (0.1, 3, 3),
    ],
)
def test_what_is_shown_in_flight_in_each_sample_has_leaked_if_that_is_improbable(
    mean: float, shown: int, leaked: int
) -> None:
    """For a minute each sample shows as many at least; the completed ones tell the mean."""
    disk = Disk()
    disk.work(61, shown=shown, writes=1000, mean=mean)
    assert disk.found == leaked


def shows(disk: Disk, seconds: int, in_flight: tuple[int, ...], writes: int = 100) -> None:
    """Let samples see these one after the other, which is what is in flight on average, too."""
    mean = sum(in_flight) / len(in_flight)
    for second in range(seconds):
        disk.work(1, shown=in_flight[second % len(in_flight)], writes=writes, mean=mean)


LOADS = [(1,), (1, 2), (2, 1, 1, 1), (0, 3, 1, 5), (3, 1, 4, 1, 5, 2), (1, 1, 0, 1, 1, 1, 1, 1)]
"""In flight at the samples of a load that lasts."""


@pytest.mark.parametrize("in_flight", LOADS)
@pytest.mark.parametrize("leaks", [1, 2, 3])
def test_a_leak_below_a_steady_load_is_seen_within_minutes(
    in_flight: tuple[int, ...], leaks: int
) -> None:
    """The device always has some of real load in flight; each of its leaks is found, one by one."""
    disk = Disk()
    shows(disk, 100, in_flight)
    assert disk.found == 0
    for number in range(1, leaks + 1):
        disk.leaked += 1
        shows(disk, 400, in_flight)
        assert disk.found == number
    shows(disk, 120, (2,))
    assert disk.found == leaks


@pytest.mark.parametrize("in_flight", LOADS)
@pytest.mark.parametrize("share", [0.95, 1.0, 1.2])
def test_a_steady_load_is_no_leak(in_flight: tuple[int, ...], share: float) -> None:
    """Times are rounded, and samples are not quite what is between them."""
    disk = Disk()
    mean = share * sum(in_flight) / len(in_flight)
    for second in range(2000):
        disk.work(1, shown=in_flight[second % len(in_flight)], writes=100, mean=mean)
    disk.hang(400, shown=1)
    assert disk.found == 0


def test_a_request_that_waits_for_a_minute_beside_others_has_not_leaked() -> None:
    """A drive reads one sector again and again, and answers the others; then it hangs with two."""
    disk = Disk()
    shows(disk, 300, (1, 2))
    shows(disk, 60, (2, 3))
    disk.milliseconds += 60_000 - 60 * 1000
    shows(disk, 60, (1, 2))
    disk.hang(400, shown=2)
    assert disk.found == 0


def test_never_to_see_none_in_500_samples_shows_a_leak_beside_four_fifths() -> None:
    """Of 30 samples each hundredth series of a healthy disk is like that."""
    disk = Disk()
    disk.work(31, shown=1, writes=100, mean=0.8)
    assert disk.found == 0
    disk.work(469, shown=1, writes=100, mean=0.8)
    assert disk.found == 1


def test_a_disk_that_is_hardly_used_shows_its_leak_within_minutes() -> None:
    """A request each ten seconds, one of them always in flight: none waits for five minutes."""
    disk = Disk(leaked=1)
    for _ in range(31):
        disk.work(1, shown=0, writes=1, mean=0.005)
        disk.hang(9, shown=0)
    assert disk.found == 1


@pytest.mark.parametrize("shown", [1, 2, 8, 32])
@pytest.mark.parametrize("seconds", [2, 5, 20, 29, 45])
@pytest.mark.parametrize("writes", [100, 5000])
def test_what_a_hung_disk_has_in_flight_has_not_leaked(
    shown: int, seconds: int, writes: int
) -> None:
    """It was busy until then, with requests in flight all the time; and it works again later."""
    disk = Disk()
    disk.work(seconds, shown=shown, writes=writes, mean=shown * 0.97)
    disk.hang(400, shown=shown)
    assert disk.found == 0
    disk.milliseconds += 400_000 * shown
    disk.work(90, shown=shown, writes=writes, mean=shown * 0.97)
    assert disk.found == 0


@pytest.mark.parametrize(("seconds", "leaked"), [(12, 0), (45, 0), (65, 1)])
def test_what_newer_requests_overtake_has_leaked_once_the_kernel_has_given_it_up(
    seconds: int, leaked: int
) -> None:
    """Nothing completes, and then two requests take 5 ms each: one is still shown."""
    disk = Disk(leaked=1)
    disk.work(3, shown=0, writes=1, mean=0.005)
    disk.hang(seconds, shown=0)
    assert disk.found == 0
    disk.work(1, shown=0, writes=2, mean=0.01)
    assert disk.found == leaked


@pytest.mark.parametrize("milliseconds", [12_000, 6_500])
def test_what_completes_after_it_waited_itself_overtakes_nothing(milliseconds: int) -> None:
    """The first request that returns after a pause has waited for it, and leaves one in flight."""
    disk = Disk()
    disk.work(3, shown=2, writes=50, mean=2.0)
    disk.hang(12, shown=2)
    disk.milliseconds += milliseconds
    disk.work(1, shown=1, writes=1, mean=0.0)
    assert disk.found == 0


def test_requests_that_a_reset_ends_one_after_the_other_have_not_leaked() -> None:
    """The first that returns after a hang of 40 s leaves 31 in flight."""
    disk = Disk()
    disk.work(20, shown=32, writes=5000, mean=31.0)
    disk.hang(40, shown=32)
    for shown in range(31, 0, -1):
        disk.milliseconds += 40_000
        disk.work(1, shown=shown, writes=1, mean=0.0)
        assert disk.found == 0


def test_a_leak_is_not_forgotten_while_the_disk_is_busy() -> None:
    """Six in flight on average, for ten minutes, one of seven has leaked; then it is idle."""
    disk = Disk(leaked=1)
    disk.work(61, shown=0, writes=200, mean=0.4)
    assert disk.found == 1
    disk.work(600, shown=6, writes=500, mean=6.0)
    disk.hang(60, shown=0)
    assert disk.found == 1


@pytest.mark.parametrize("seconds", [1, 120])
@pytest.mark.parametrize("mean", [0.01, 0.5])
def test_a_counter_that_leaked_leaks_again(seconds: int, mean: float) -> None:
    """A driver omits one now and then, or two in a row: each shows while the disk works on."""
    disk = Disk()
    disk.work(60, shown=0, writes=200, mean=mean)
    for _ in range(3):
        disk.leaked += 1
        disk.work(seconds, shown=0, writes=200, mean=mean)
    disk.work(150, shown=0, writes=200, mean=mean)
    assert disk.found == 3


def test_a_leak_under_a_queue_that_is_never_empty_shows_when_the_load_is_light() -> None:
    """Six in flight for ten minutes show nothing; what leaked meanwhile is told apart after it."""
    disk = Disk()
    disk.work(60, shown=1, writes=200, mean=1.0)
    disk.leaked = 2
    disk.work(600, shown=6, writes=500, mean=6.0)
    disk.work(40, shown=0, writes=200, mean=0.4)
    assert disk.found == 2


def test_what_hangs_beside_a_leak_has_not_leaked() -> None:
    """One leaked long ago; then three are in flight, and none of them completes."""
    disk = Disk(leaked=1)
    disk.work(300, shown=0, writes=200, mean=0.4)
    disk.hang(400, shown=3)
    assert disk.found == 1


def test_fewer_in_flight_than_leaked_show_that_none_has() -> None:
    """Whatever was improbable happened: three were in flight, and now it is one."""
    disk = Disk(leaked=3)
    disk.work(61, shown=0, writes=200, mean=0.4)
    assert disk.found == 3
    disk.leaked = 1
    disk.work(1, shown=0, writes=200, mean=0.4)
    assert disk.found == 1
    disk.leaked = 0
    disk.work(1, shown=0, writes=200, mean=0.4)
    assert disk.found == 0


@pytest.mark.parametrize("busy", [0, 1])
def test_a_leak_ends_with_the_counters_of_a_disk_that_was_plugged_in_again(busy: int) -> None:
    """The kernel counts from zero, with nothing in flight or already with a request."""
    disk = Disk(leaked=1)
    disk.work(61, shown=0, writes=200, mean=0.4)
    assert disk.found == 1
    disk.leaked, disk.writes, disk.milliseconds = 0, 0, 0.0
    disk.work(1, shown=busy, writes=5, mean=0.1)
    assert disk.found == 0
    disk.hang(60, shown=1)
    assert disk.found == 0


def load(disk: Disk, seconds: int, mean: float, *, waits: range = range(0)) -> None:
    """Let independent requests be in flight; one more waits through these seconds.

    Of many that come and go by themselves samples scatter as if each of 100 were there or not.
    """
    scatter = random.Random(7)
    for second in range(seconds):
        shown = sum(scatter.random() < mean / 100 for _ in range(100)) + (second in waits)
        ended = len(waits) if second == waits.stop else 0
        disk.work(1, shown=shown, writes=int(100 * mean), mean=mean + ended)


@pytest.mark.parametrize(
    ("mean", "leaked"),
    [(5.0, 1), (5.0, 2), (6.0, 1), (8.0, 1), (8.0, 3), (8.0, 8), (30.0, 4), (35.0, 6)],
)
def test_a_leak_beside_a_long_queue_shows_as_more_than_its_scatter(
    mean: float, leaked: int
) -> None:
    """The disk works for ten minutes, then it is idle."""
    disk = Disk(leaked=leaked)
    load(disk, 600, mean)
    disk.hang(60, shown=0)
    assert disk.found == leaked


@pytest.mark.parametrize("mean", [1.5, 3.0, 5.0, 8.0])
@pytest.mark.parametrize("after", [60, 100, 400])
def test_a_request_that_waits_for_70_s_beside_a_long_queue_has_not_leaked(
    mean: float, after: int
) -> None:
    """The rest goes on meanwhile and completes; then only the one that waits is there."""
    disk = Disk()
    load(disk, after + 70, mean, waits=range(after, after + 70))
    disk.hang(60, shown=1)
    assert disk.found == 0


@pytest.mark.parametrize("mean", [1.5, 5.0, 8.0])
def test_the_scatter_of_a_long_queue_is_no_leak(mean: float) -> None:
    """Nothing leaks in half an hour; a leak after it is found in ten minutes."""
    disk = Disk()
    load(disk, 1800, mean)
    assert disk.found == 0
    disk.leaked = 1
    load(disk, 600, mean)
    assert disk.found == 1
