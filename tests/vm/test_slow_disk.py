"""A member of a RAID 5 of a real kernel becomes slow: it completes everything, but late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from vm.harness import MEBIBYTE, Disk, wait_for
from vm.watched import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vm.watched import Watched

KIBIBYTE = 1024
SECONDS = 240.0
"""Far above anything measured, for a busy building machine; one that is slow has 60 s."""
MEMBERS = tuple(Disk(f"member-{number}", 256 * MEBIBYTE) for number in range(4))
SLOW = MEMBERS[2].name
POINTS = "iowarden_device_slow_points"


@pytest.fixture(scope="module")
def busy(watched: Watched) -> Iterator[str]:
    """Give the device of a member of a RAID 5 that works until iowarden compares its members."""
    vm = watched.vm
    for disk in MEMBERS:
        vm.plug(disk)
    devices = [vm.device(disk.name) for disk in MEMBERS]
    vm.run(
        "mdadm --create /dev/md0 --quiet --run --assume-clean --bitmap=none --metadata=1.2"
        f" --level=5 --chunk=16 --raid-devices={len(devices)}"
        f" {' '.join(f'/dev/{each}' for each in devices)}"
    )
    vm.run("touch /run/writing")
    for part in range(3):
        where = f"bs=16k count=8000 oflag=direct seek={part * 12000}"
        vm.start(f"while [ -e /run/writing ]; do dd if=/dev/zero of=/dev/md0 {where} || exit; done")
    wait_for(
        lambda: watched.metric(POINTS, device=devices[0]) is not None,
        "iowarden to compare the members",
        SECONDS,
    )
    vm.run("sleep 60")  # a disk is not judged in its first 30 s
    yield vm.device(SLOW)
    vm.throttle(SLOW)
    vm.run("rm -f /run/writing")
    vm.run("while pgrep -x dd; do sleep 1; done; mdadm --quiet --stop /dev/md0")
    for disk in MEMBERS:
        vm.unplug(disk.name)


def test_the_throttled_member_is_named_and_no_other(watched: Watched, busy: str) -> None:
    """Its requests wait for 64 ms each, behind each other; the mail has both latencies."""
    assert watched.metric(POINTS, device=busy) == 0
    watched.vm.throttle(SLOW, total=256 * KIBIBYTE)
    wait_for(lambda: watched.mail.naming("DiskSlow"), "a mail of the slow disk", SECONDS)
    mail = watched.mail.naming("DiskSlow")[0]
    assert f": {busy}: slow for" in mail["Subject"]
    text = " ".join(text_of(mail).split())
    assert SLOW in text
    assert "at the other disks of its array" in text
    named = {each["X-Iowarden-Incident"] for each in watched.mail.naming("DiskSlow")}
    assert len(named) == 1
