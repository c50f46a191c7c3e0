"""Discards that take many minutes: while only who discards waits, nobody is mailed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.blocked import IOCTL, Blocked, task

if TYPE_CHECKING:
    from iowarden.collectors.procfs.tasks import BlockedTask

SECURE_ERASE = {
    "command": "blkdiscard",
    "stack": ("submit_bio_wait", "blkdev_issue_secure_erase", "blkdev_ioctl"),
    "system_call": IOCTL.replace("0x1277", "0x127d"),
    "file": "/dev/sda3",
    "mount": "",
}
FSTRIM = {
    "command": "fstrim",
    "stack": ("submit_bio_wait", "blkdev_issue_discard", "ext4_trim_fs", "ext4_ioctl"),
    "system_call": IOCTL.replace("0x1277", "0xc0185879"),
    "file": "/srv",
}
THREAD = {"kernel": True, "system_call": "", "file": "", "mount": "", "counters": ()}
OF_BTRFS = {
    **THREAD,
    "command": "btrfs-transacti",
    "stack": ("submit_bio_wait", "blkdev_issue_discard", "btrfs_issue_discard", "kthread"),
}
JOURNAL = {**THREAD, "command": "jbd2/sda1-8", "stack": ("bit_wait_io", "jbd2_journal_commit")}
COMMIT_THAT_DISCARDS = {
    "command": "mysqld",
    "stack": ("submit_bio_wait", "f2fs_issue_discard", "f2fs_write_checkpoint", "f2fs_sync_fs"),
}


def waits(**who: object) -> BlockedTask:
    """Return a task that waits at the second disk, sda without another one."""
    return task(9, **who)  # type: ignore[arg-type]


def with_disk(name: str) -> tuple[Blocked, str]:
    """Return a host that has worked on a disk, which is discarded since now; where tasks wait."""
    host = Blocked()
    if name != "sda":
        host.add_disk(name)
    if name == "mmcblk0":
        host.add_disk("mmcblk0boot0")
    host.pass_seconds(60, [], **{name: 4_000_000})
    host.disks[name].in_flight = 1
    return host, "8:0" if name == "sda" else "8:16"


@pytest.mark.parametrize(
    ("disk", "who", "seconds"),
    [
        ("sda", SECURE_ERASE, 600),
        ("mmcblk0", SECURE_ERASE, 240),
        ("vda", FSTRIM, 200),
        ("sda", OF_BTRFS, 240),
    ],
)
def test_a_discard_that_takes_minutes_is_not_mailed_while_only_who_discards_waits(
    disk: str, who: dict[str, object], seconds: int
) -> None:
    """One request is in flight all the while, and none completes; the journal names the discard."""
    host, place = with_disk(disk)
    host.pass_seconds(seconds, [waits(**{**who, "waits_at": place})])
    assert host.mails() == []
    assert "discarding" in host.guards(disk)
    assert host.machine.host.names("notice") == {"DeviceHang"}
    assert "discard" in host.summary("DeviceHang")


@pytest.mark.parametrize("victim", [{}, JOURNAL, COMMIT_THAT_DISCARDS])
def test_who_waits_behind_a_discard_of_minutes_makes_it_a_hang(victim: dict[str, object]) -> None:
    """A commit, the journal of the file system, or a commit that discards what it freed."""
    host, _ = with_disk("sda")
    host.pass_seconds(200, [waits(**FSTRIM), task(1, **victim)])  # type: ignore[arg-type]
    assert "DeviceHang" in host.machine.host.names("critical")


def test_a_commit_that_comes_late_behind_a_discard_is_seen_with_the_next_poll() -> None:
    """For four minutes only fstrim waits; then a database commits."""
    host, _ = with_disk("sda")
    host.pass_seconds(240, [waits(**FSTRIM)])
    assert host.mails() == []
    host.pass_seconds(10, [waits(**FSTRIM), task(1)])
    assert host.mails() != []


def test_a_probe_that_no_longer_answers_leaves_a_discard_a_hang() -> None:
    """Whether still only fstrim waits is not known then."""
    host, _ = with_disk("sda")
    host.pass_seconds(150, [waits(**FSTRIM)])
    host.has_probe = False
    host.pass_seconds(90, [])
    assert "DeviceHang" in host.machine.host.names("critical")


def test_requests_that_come_behind_a_discard_are_of_programs_that_no_poll_shows() -> None:
    """A database with asynchronous I/O waits in state S: 32 of its requests join the discard."""
    host, place = with_disk("vda")
    host.pass_seconds(10, [waits(**{**FSTRIM, "waits_at": place})])
    host.disks["vda"].in_flight = 33
    host.pass_seconds(190, [waits(**{**FSTRIM, "waits_at": place})])
    assert "DeviceHang" in host.machine.host.names("critical")


def test_a_discard_on_a_disk_that_is_only_likely_leaves_a_hang_of_it() -> None:
    """The thread of btrfs has no device in its name; sda may hang for another reason."""
    host, _ = with_disk("sda")
    host.pass_seconds(200, [waits(**{**OF_BTRFS, "waits_at": ""})])
    assert host.mails()


def test_a_disk_that_died_under_a_discard_is_a_warning_after_an_hour() -> None:
    """A virtio disk has no time-out: nothing else would ever report it."""
    host, place = with_disk("vda")
    host.pass_seconds(10, [waits(**{**FSTRIM, "waits_at": place})])
    thresholds = host.machine.host.signals({"iowarden_device_hang_threshold_seconds"})
    assert {
        series.partition('severity="')[2].removesuffix('"}'): seconds
        for series, seconds in thresholds.items()
        if 'device="vda"' in series
    } == {"notice": 10.0, "warning": 3600.0}
