"""A mirror of a real kernel loses a member and gets another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from vm.harness import MEBIBYTE, Disk, wait_for
from vm.watched import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vm.watched import Watched

SECONDS = 120.0
"""Far above anything measured, for a busy building machine."""
SETTINGS = "resolve_after: 10s\nintervals: {md: 6s}\n"
DISKS = (Disk("left", 256 * MEBIBYTE), Disk("right", 256 * MEBIBYTE))


@pytest.fixture(scope="module")
def degraded(watched: Watched) -> Iterator[str]:
    """Make a mirror, let a member fail, return the member's device."""
    vm = watched.vm
    for disk in DISKS:
        vm.plug(disk)
    left, right = (f"/dev/{vm.device(disk.name)}" for disk in DISKS)
    vm.run(
        "mdadm --create /dev/md0 --quiet --run --assume-clean --bitmap=none --metadata=1.2"
        f" --level=1 --raid-devices=2 {left} {right}"
    )
    wait_for(
        lambda: watched.metric("iowarden_md_degraded", device="md0") == 0,
        "iowarden to see the array well",
        SECONDS,
    )
    vm.run(f"mdadm --quiet /dev/md0 --fail {left}")
    yield left
    vm.run("mdadm --quiet --stop /dev/md0")
    for disk in DISKS:
        vm.unplug(disk.name)


def test_a_mirror_that_loses_a_member_is_critical_at_once(watched: Watched, degraded: str) -> None:
    """The mail says which array and which disk, and how to look and to replace."""
    wait_for(lambda: watched.mail.naming("MdDegraded"), "a mail of the array", SECONDS)
    mail = watched.mail.naming("MdDegraded")[0]
    assert mail["Subject"].startswith("[CRITICAL]")
    assert "md0" in text_of(mail)
    # It was switched on minutes before, and may have failed by itself.
    assert "by command" not in text_of(mail)
    assert degraded.removeprefix("/dev/") in text_of(mail)
    assert "mdadm" in text_of(mail)


def test_a_member_that_is_rebuilt_is_resolved(watched: Watched, degraded: str) -> None:
    """The same disk comes back, the mirror is rebuilt: one incident that ends."""
    vm = watched.vm
    vm.run(f"mdadm --quiet /dev/md0 --remove {degraded}")
    vm.run(f"mdadm --quiet --zero-superblock {degraded}; mdadm --quiet /dev/md0 --add {degraded}")
    wait_for(lambda: watched.mail.saying("[OK]"), "the all-clear", 2 * SECONDS)
    assert watched.metric("iowarden_md_degraded", device="md0") == 0
    assert len(watched.mail.incidents()) == 1
