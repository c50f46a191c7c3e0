"""Disks that pause under the program that fills them: who else waits makes the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.blocked import Blocked, task

if TYPE_CHECKING:
    from iowarden.collectors.procfs.tasks import BlockedTask


def with_copy(bytes_per_second: int = 8_000_000) -> Blocked:
    """Return a host on whose sdb cp has written 480 MB in a minute, and was never paused.

    Half of it is still queued, below the dirty limit.
    """
    host = Blocked()
    host.add_disk("sdb", queue_rotational="1")
    for second in range(60):
        host.writers[400] = "cp", second * bytes_per_second
        host.queued = 600_000_000
        host.disks["sdb"].in_flight = 4
        host.pass_seconds(1, [], sdb=8_000_000)
    return host


def in_fsync(written_bytes: int = 472_000_000) -> BlockedTask:
    """Return cp in its fsync at the end."""
    return task(0, "cp", pid=400, start_ticks=1_000, waits_at="8:16", write_bytes=written_bytes)


def test_a_disk_that_pauses_for_16_s_below_the_fsync_of_a_copy_is_silent() -> None:
    """The sweeps of all bytes show that cp wrote nearly all, and nobody else waits."""
    host = with_copy()
    host.pass_seconds(16, [in_fsync()])
    assert "writer_only" in host.guards("sdb")
    host.pass_seconds(40, [], sdb=8_000_000)
    assert host.mails() == []


def test_a_disk_that_stays_away_below_the_fsync_of_a_copy_is_a_hang() -> None:
    """The kernel gives its requests up after 30 s."""
    host = with_copy()
    began = host.second
    host.pass_seconds(60, [in_fsync()])
    assert 28 <= host.mails()[0][0] - began <= 45


def test_who_wrote_little_waits_for_a_disk_that_pauses_as_anybody() -> None:
    """In the same fsync is a program that wrote 2 MB, of a disk that others filled."""
    host = with_copy(30_000)
    began = host.second
    host.pass_seconds(24, [in_fsync(1_800_000)])
    assert host.mails()[0][0] - began <= 20
    assert "writer_only" not in host.guards("sdb")


def test_a_database_beside_the_copy_is_harmed_by_the_pause() -> None:
    """It commits in the first second of it."""
    host = with_copy()
    began = host.second
    host.pass_seconds(24, [in_fsync(), task(1, waits_at="8:16")])
    assert host.mails()[0][0] - began <= 20
    assert "writer_only" not in host.guards("sdb")


def test_an_internal_disk_that_pauses_under_its_writer_each_two_minutes_is_in_the_digest() -> None:
    """25 s without a completion, three times: no mail, and each is counted as a notice."""
    host = with_copy()
    for turn in range(3):
        host.pass_seconds(25, [in_fsync()])
        for second in range(95):
            host.writers[400] = "cp", (60 + 95 * turn + second) * 8_000_000
            host.pass_seconds(1, [], sdb=8_000_000)
    assert host.mails() == []
    assert {"DeviceHang"} <= host.machine.host.names("notice")
    notices = [at for at, name, severity in host.machine.host.fired if name == "DeviceHang"]
    assert len(notices) == 3


def test_a_stick_that_pauses_under_its_writer_is_not_in_the_digest() -> None:
    """Its pauses of 16 s are what sticks do."""
    host = Blocked()
    host.add_disk("sdb", removable="1")
    mounted = {
        "/proc/1/mountinfo": "30 1 8:16 / /media/u rw - vfat /dev/sdb rw\n",
        "/etc/fstab": "",
    }
    host.machine.memory.write(dict(mounted))
    for second in range(60):
        host.writers[400] = "cp", second * 8_000_000
        host.queued = 600_000_000
        host.disks["sdb"].in_flight = 4
        host.pass_seconds(1, [], sdb=8_000_000)
    host.pass_seconds(16, [in_fsync()])
    host.pass_seconds(60, [], sdb=8_000_000)
    assert "DeviceHang" not in host.machine.host.names()
