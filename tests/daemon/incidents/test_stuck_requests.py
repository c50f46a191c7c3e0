"""Requests that a device never answers while it answers others: they are no counter that leaked.

A request leaves only when it is answered, or when the kernel gives it up: until then somebody waits
for it, whether a poll shows who (a program in its call) or not (asynchronous I/O). Each story has a
twin whose counter is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.blocked import IOCTL, Blocked, task

from iowarden.rules.notices.who_waits import sentences

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.procfs.tasks import BlockedTask

OF_SDB = "/sys/block/sdb/device"


def adapter(driver: str) -> dict[str, str | None]:
    """Return the files of a SCSI host adapter with this driver, and of sdb at it."""
    host, disk = "/sys/class/scsi_host/host6", "/sys/class/scsi_device/6:0:0:0/device"
    return {
        f"{host}/proc_name": f"{driver}\n",
        f"{host}/can_queue": "256\n",
        f"{disk}/state": "running\n",
        f"{disk}/type": "0\n",
        f"{disk}/block/sdb": None,
        f"{OF_SDB}/scsi_device/6:0:0:0": None,
    }


def with_disk(files: Mapping[str, str | None] = {}, *, has_timeout: bool = True) -> Blocked:
    """Return a host with a second disk, which has worked for a minute."""
    host = Blocked()
    host.add_disk("sdb", queue_rotational="0")
    host.machine.memory.write(dict(files))
    if not has_timeout:
        host.machine.memory.remove(f"{OF_SDB}/timeout")
    host.pass_seconds(60, [], sdb=4_000_000)
    return host


def reads_each(host: Blocked, every: int, seconds: int, *tasks: BlockedTask) -> None:
    """Let sdb answer one read in 2 ms each so many seconds, and nothing else."""
    for second in range(1, seconds):
        if second % every == 0:
            host.disks["sdb"].reads, host.disks["sdb"].milliseconds = (
                host.disks["sdb"].reads + 1,
                host.disks["sdb"].milliseconds + 2,
            )
        host.pass_second(tasks)


def works(host: Blocked, seconds: int, *tasks: BlockedTask) -> None:
    """Let sdb answer 200 writes a second in 1 ms each."""
    for _ in range(seconds):
        host.disks["sdb"].writes += 200
        host.disks["sdb"].milliseconds += 200
        host.pass_second(tasks)


def endings(host: Blocked) -> list[str]:
    """Return why each mail was due."""
    return [mail.due.reason.value for mail in host.machine.host.mails]


@pytest.mark.parametrize("every", [2, 12, 25])
def test_what_a_program_waits_for_has_not_leaked_however_many_overtake_it(every: int) -> None:
    """A failing disk answers a read now and then; eight requests stay, and a commit with them."""
    host = with_disk()
    host.disks["sdb"].in_flight = 8
    reads_each(host, every, 100, task(1, waits_at="8:16"))
    assert "in_flight_leaked" not in host.guards("sdb")
    assert "Freeze" in host.machine.host.names("critical")
    assert "resolved" not in endings(host)


def test_a_counter_that_leaked_is_known_after_a_minute_in_which_programs_wait_for_moments() -> None:
    """The twin: each poll sees a program in another call, and a read each 2 s is answered."""
    host = with_disk()
    host.disks["sdb"].leaked = 8
    for second in range(75):
        commit = task(1, waits_at="8:16", voluntary_switches=second, counters=(second,) * 6)
        reads_each(host, 1, 2, commit)
    assert "in_flight_leaked" in host.guards("sdb")
    host.pass_seconds(60)
    assert host.mails() == []


def test_a_hang_is_not_over_because_one_read_overtook_it() -> None:
    """Nobody is seen to wait for the eight; the kernel has not given them up within a minute."""
    host = with_disk()
    host.disks["sdb"].in_flight = 8
    reads_each(host, 12, 200)
    assert [severity for _, severity in host.mails()] == ["warning"]
    assert endings(host) == ["opened"]


PATIENT = {
    "virtio-blk": ({}, False),
    "virtio-scsi": (adapter("virtio_scsi"), True),
    "Hyper-V": (adapter("storvsc_host"), True),
}


@pytest.mark.parametrize("driver", PATIENT)
def test_what_a_driver_without_a_time_out_has_in_flight_is_a_request(driver: str) -> None:
    """A queue of the hypervisor lost six, of asynchronous I/O; all others go on, then it is idle.

    The kernel waits for them for ever, and nobody is seen to do so.
    """
    files, has_timeout = PATIENT[driver]
    host = with_disk(files, has_timeout=has_timeout)
    host.disks["sdb"].in_flight = 6
    works(host, 200)
    assert host.mails() == []
    began = host.second
    host.pass_seconds(45)
    assert host.mails()[0][0] - began <= 25
    assert "DeviceHang" in host.machine.host.names("critical")


def test_what_a_driver_with_a_time_out_shows_for_minutes_has_leaked() -> None:
    """The twin: at AHCI the kernel has given up each of them by then."""
    host = with_disk(adapter("ahci"))
    host.disks["sdb"].leaked = 6
    works(host, 200)
    host.pass_seconds(45)
    assert "in_flight_leaked" in host.guards("sdb")
    assert host.mails() == []


@pytest.mark.parametrize("seconds", [30, 180])
def test_a_disk_whose_time_out_is_long_may_have_requests_that_old(seconds: int) -> None:
    """With 180 s, as some set it for virtual disks, six may wait for 150 s."""
    host = with_disk({f"{OF_SDB}/timeout": f"{seconds}\n"})
    host.disks["sdb"].in_flight = 6
    works(host, 150)
    assert ("in_flight_leaked" in host.guards("sdb")) is (seconds == 30)


FSTRIM = {
    "command": "fstrim",
    "stack": ("submit_bio_wait", "blkdev_issue_discard", "ext4_trim_fs", "ext4_ioctl"),
    "system_call": IOCTL.replace("0x1277", "0xc0185879"),
    "waits_at": "8:16",
    "file": "/srv",
}


def discards_each(host: Blocked, every: int, seconds: int, *tasks: BlockedTask) -> None:
    """Let sdb complete a discard each so many seconds, one after the other."""
    disk = host.disks["sdb"]
    for second in range(1, seconds + 1):
        if second % every == 0:
            disk.discards += 1
            disk.discard_milliseconds += 1000 * every
        trim = task(9, **FSTRIM, counters=(0, 0, second, second, 0, 0))  # type: ignore[arg-type]
        host.pass_second([trim, *tasks])


def test_a_write_that_a_hundred_discards_overtake_does_not_wait_for_one() -> None:
    """An SSD answers fstrim each 3 s, and one write of a database never."""
    host = with_disk()
    host.disks["sdb"].in_flight = 2
    discards_each(host, 3, 75, task(1, waits_at="8:16"))
    assert host.cause("sdb") == "stuck requests"
    assert "critical" in {severity for _, severity in host.mails()}
    assert "discard" not in host.summary("Freeze")
    assert "the discard end" not in host.machine.host.mails[-1].advice
    assert host.machine.host.engine is not None
    said = sentences(host.machine.host.engine.signals.harm().last_harms["sdb"][1], 0.0)
    assert "discards" not in " ".join(said)


@pytest.mark.parametrize("every", [10, 25])
def test_a_commit_behind_discards_that_take_long_waits_for_them(every: int) -> None:
    """The twin: each of its few requests has its turn behind one more of them."""
    host = with_disk()
    host.disks["sdb"].in_flight = 2
    discards_each(host, every, 40, task(1, waits_at="8:16"), task(2, waits_at="8:16"))
    assert host.cause("sdb") == "discarding"
    assert "fstrim discards" in host.summary("Freeze")
