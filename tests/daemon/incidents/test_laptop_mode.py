"""Laptop mode: the kernel gathers writes so that a disk can sleep between them (vm.laptop_mode).

What it permits is the spin-up of a disk that was idle: nothing where the disk works all the time.
"""

from __future__ import annotations

import pytest
from support.blocked import Blocked, task


def laptop(*, has_probe: bool = True, rotational: str = "1") -> Blocked:
    """Return a laptop on which a program has worked for a minute."""
    host = Blocked(laptop_mode=5)
    host.has_probe = has_probe
    host.machine.memory.write({"/sys/block/sda/queue/rotational": f"{rotational}\n"})
    host.pass_seconds(60, [], sda=8_000_000)
    return host


def asleep(*, has_probe: bool = True) -> Blocked:
    """Return a laptop whose disk was idle for five minutes, in which writes were gathered."""
    host = laptop(has_probe=has_probe)
    host.pass_seconds(300)
    host.queued = 990_000_000
    return host


def test_programs_that_wait_until_a_sleeping_disk_has_spun_up_are_not_mailed() -> None:
    """It takes 25 s for that, and a second for their commits."""
    host = asleep()
    host.disks["sda"].in_flight = 8
    host.pass_seconds(25, [task(number) for number in range(3)])
    assert {"spinning_up", "laptop_mode"} <= {*host.guards("sda")}
    host.pass_second([task(number) for number in range(3)])
    host.queued = host.disks["sda"].in_flight = 0
    host.pass_seconds(60, [], sda=8_000_000)
    assert host.mails() == []
    assert host.guards("sda") == []


def test_programs_that_wait_for_a_sleeping_disk_for_longer_than_that_are_mailed() -> None:
    """The same disk, which does not spin up."""
    host = asleep()
    began, host.disks["sda"].in_flight = host.second, 8
    host.pass_seconds(45, [task(number) for number in range(3)])
    assert 28 <= host.mails()[0][0] - began <= 36


@pytest.mark.parametrize("rotational", ["0", "1"])
@pytest.mark.parametrize("seconds", [25, 40])
def test_programs_that_wait_for_a_disk_that_works_are_mailed_as_on_any_host(
    seconds: int, rotational: str
) -> None:
    """800 MB are queued at 8 MB/s: the disk completes requests in each second."""
    host = laptop(rotational=rotational)
    began, host.queued, host.disks["sda"].in_flight = host.second, 800_000_000, 8
    host.pass_seconds(seconds, [task(1), task(2)], sda=8_000_000)
    assert host.mails()[0][0] - began <= 20
    assert host.cause() == "backlog"
    assert host.guards("sda") == []


def test_28_s_of_each_minute_in_which_a_disk_works_are_mailed_at_the_first() -> None:
    """And again with the rhythm, at the third."""
    host = laptop()
    began = host.second
    for turn in range(4):
        host.queued, host.disks["sda"].in_flight = 800_000_000, 8
        host.pass_seconds(28, [task(10 * turn + n) for n in range(2)], sda=8_000_000)
        host.queued = host.disks["sda"].in_flight = 0
        host.pass_seconds(32, [], sda=1_000_000)
    assert host.mails()[0][0] - began <= 20
    assert len(host.mails()) >= 2


@pytest.mark.parametrize("seconds", [28, 45])
def test_without_a_probe_the_dirty_limit_counts_from_when_the_disk_has_spun_up(
    seconds: int,
) -> None:
    """A writer is at the limit for 20 s of spin-up, and then while its data are written."""
    host = asleep(has_probe=False)
    host.queued = host.threshold
    host.disks["sda"].in_flight = 8
    host.pass_seconds(20, [task(1)])
    host.pass_seconds(seconds, [task(1)], sda=80_000_000)
    assert ("WriteStall" in host.machine.host.names("warning")) is (seconds > 30)
