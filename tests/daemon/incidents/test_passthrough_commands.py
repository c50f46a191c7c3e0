"""Commands that a program sends to a drive itself (SG_IO): they are not what a disk hangs in.

Kernels before 5.19 count them among the requests in flight.
"""

from __future__ import annotations

import pytest
from support.blocked import SP_PC, Blocked, task

REST = f"0x7ffd 0x0 0x0 0x0 {SP_PC}"
ERASE = {
    "command": "hdparm",
    "file": "/dev/sda",
    "mount": "",
    "waits_at": "/dev/sda",
    "wait_channel": "blk_execute_rq",
    "stack": ("blk_execute_rq", "sg_io", "scsi_ioctl", "sd_ioctl", "blkdev_ioctl"),
    "system_call": f"16 0x3 0x2285 {REST}",
}
FORMS = {
    "stack": ERASE,
    "no stack": {**ERASE, "stack": ()},
    "no call": {**ERASE, "system_call": ""},
    "HDIO_DRIVE_CMD": {**ERASE, "stack": (), "system_call": f"16 0x3 0x31f {REST}"},
    "arm64": {**ERASE, "stack": (), "system_call": f"29 0x3 0x2285 {REST}"},
}


def with_kernel(release: str) -> Blocked:
    """Return a host that has run this kernel for a while."""
    host = Blocked()
    host.machine.memory.write({"/proc/sys/kernel/osrelease": f"{release}\n"})
    host.pass_seconds(60, [], sda=8_000_000)
    return host


@pytest.mark.parametrize("form", FORMS)
def test_a_drive_that_erases_itself_does_not_hang(form: str) -> None:
    """'hdparm --security-erase' waits for its one command, as Debian 11 counts it in flight."""
    host = with_kernel("5.10.0-28-amd64")
    host.disks["sda"].in_flight = 1
    host.pass_seconds(200, [task(9, **FORMS[form])])  # type: ignore[arg-type]
    assert host.mails() == []


def test_who_waits_behind_a_drive_that_erases_itself_is_mailed() -> None:
    """Two backends commit on another partition of it: they stand still."""
    host = with_kernel("5.10.0-28-amd64")
    host.disks["sda"].in_flight = 3
    host.pass_seconds(30, [task(9, **ERASE), task(1), task(2)])  # type: ignore[arg-type]
    assert host.mails()[0][0] - 60 <= 20


@pytest.mark.parametrize(("release", "in_flight"), [("5.10.0-28-amd64", 2), ("6.1.0-28-amd64", 1)])
def test_a_disk_that_hangs_while_smartd_polls_it_is_mailed(release: str, in_flight: int) -> None:
    """More is in flight than its command; later kernels do not count that at all."""
    host = with_kernel(release)
    host.disks["sda"].in_flight = in_flight
    host.pass_seconds(40, [task(9, **{**ERASE, "command": "smartd"})])  # type: ignore[arg-type]
    assert "DeviceHang" in host.machine.host.names("critical")


def test_a_command_on_a_kernel_that_does_not_count_it_is_no_freeze() -> None:
    """The program waits for what it requested itself: that harms nobody."""
    host = with_kernel("6.1.0-28-amd64")
    host.pass_seconds(200, [task(9, **ERASE)])  # type: ignore[arg-type]
    assert host.mails() == []
