"""Each guard on '/metrics' with its reason, on a host where it holds, and none on an ordinary one.

What each of them permits is tested where programs wait: test_guards.py, test_ended_guards.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.blocked import SP_PC, Blocked, task

from iowarden.rules.signals.discards import Discarder
from iowarden.rules.signals.guards import HOST, MEANINGS, Guard

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.collectors.procfs.tasks import BlockedTask

MOUNTED = "30 1 8:0 / /srv rw - ext4 /dev/sda rw\n"


def paused(call: int) -> BlockedTask:
    """Return restic, which the kernel pauses for what it writes."""
    return task(
        0,
        "restic",
        pid=400,
        start_ticks=1_000,
        wait_channel="balance_dirty_pages",
        stack=("balance_dirty_pages", "generic_perform_write", "vfs_write", "ksys_write"),
        system_call=f"1 0xb 0x7f2a 0x400000 {call:#x} 0x0 0x0 {SP_PC}",
        write_bytes=480_000_000 + call,
    )


def stick() -> Blocked:
    """Return a host with a stick that is not in /etc/fstab."""
    host = Blocked()
    host.machine.memory.write({"/etc/fstab": "", "/proc/1/mountinfo": MOUNTED})
    host.add_disk("sdb", removable="1")
    host.pass_seconds(3)
    return host


def virtual_disk() -> Blocked:
    """Return a guest of a hypervisor."""
    host = Blocked()
    host.add_disk("vda")
    host.pass_seconds(3)
    return host


def paths() -> Blocked:
    """Return a host with a LUN that has two paths."""
    host = Blocked()
    host.add_disk("sdb")
    host.add_map("sda", "sdb")
    host.pass_seconds(3)
    return host


def trimmed() -> Blocked:
    """Return a host whose disk works on the discard of fstrim."""
    host = Blocked()
    host.pass_seconds(3, [], sda=1_000_000)
    host.disks["sda"].in_flight = 1
    stack = ("submit_bio_wait", "blkdev_issue_discard", "ext4_trim_fs", "ext4_ioctl")
    host.pass_seconds(5, [task(9, "fstrim", stack=stack)])
    return host


def with_leak() -> Blocked:
    """Return a host whose disk shows one request more than it has."""
    host = Blocked()
    disk = host.disks["sda"]
    disk.leaked = 1
    for second in range(70):
        disk.writes, disk.milliseconds = disk.writes + second % 2, disk.milliseconds + 5
        host.pass_second()
    return host


def asleep() -> Blocked:
    """Return a host whose disk was idle for half a minute, and has a request now."""
    host = Blocked()
    host.add_disk("sdb", queue_rotational="1")
    host.pass_seconds(3, [], sdb=1_000_000)
    host.pass_seconds(30)
    host.disks["sdb"].in_flight = 1
    host.pass_seconds(3)
    return host


def rebuilt() -> Blocked:
    """Return a host whose mirror is rebuilt."""
    host = Blocked()
    host.add_disk("sdb")
    host.machine.add_array("md0", "raid1", "sda", "sdb")
    text = (
        "Personalities : [raid1]\nmd0 : active raid1 sdb[2] sda[0]\n"
        "      976630464 blocks super 1.2 [2/1] [U_]\n"
        "      [=>...................]  recovery =  8.5% (83013632/976630464)"
        " finish=95.4min speed=156077K/sec\n      \nunused devices: <none>\n"
    )
    host.machine.memory.write(
        {
            "/proc/mdstat": text,
            "/sys/block/md0/dev": "9:0\n",
            "/sys/block/md0/md/sync_action": "recover\n",
        }
    )
    host.pass_seconds(12)
    return host


def scanned() -> Blocked:
    """Return a host whose disk iowarden scans."""
    host = Blocked()
    host.pass_second()
    assert host.machine.host.engine is not None
    host.machine.host.engine.signals.scanned = frozenset({"sda"})
    host.pass_seconds(3)
    return host


def at_cap() -> Blocked:
    """Return a host whose volume completes 150 requests a second, and no more."""
    host = Blocked()
    host.add_disk("vda")
    disk = host.disks["vda"]
    for second in range(190):
        is_calm = second < 70
        number = 30 + second % 40 if is_calm else 150
        disk.reads, disk.in_flight = disk.reads + number, 0 if is_calm else 14
        disk.milliseconds += number * (4 if is_calm else 410)
        host.pass_second()
    return host


def frozen() -> Blocked:
    """Return a host on which a snapshot was forgotten: a writer waits for the thaw."""
    host = Blocked()
    stack = ("percpu_rwsem_wait", "__percpu_down_read", "vfs_write")
    host.pass_seconds(14, [task(1, stack=stack, wait_channel=stack[0])])
    return host


def container() -> Blocked:
    """Return a host with a container that was paused."""
    host = Blocked()
    stack = ("__refrigerator", "get_signal", "arch_do_signal_or_restart")
    host.pass_seconds(6, [task(1, stack=stack, wait_channel=stack[0], waits_at="", file="")])
    return host


def copying() -> Blocked:
    """Return a host on which a program fills the disk."""
    host = Blocked()
    host.queued = 1_400_000_000
    for second in range(12):
        host.writers[400] = "restic", second * 8_000_000
        host.pass_seconds(1, [paused(second)], sda=8_000_000)
    return host


def stalled() -> Blocked:
    """Return a host whose disk completes nothing, and only the program waits that filled it."""
    host = copying()
    host.disks["sda"].in_flight = 32
    host.pass_seconds(5, [paused(100)])
    return host


def lowered() -> Blocked:
    """Return a host whose dirty limit was halved."""
    host = Blocked()
    host.pass_seconds(10)
    host.threshold //= 2
    host.pass_seconds(3)
    return host


def resumed() -> Blocked:
    """Return a laptop that was just opened."""
    host = Blocked()
    host.pass_seconds(3)
    host.asleep = 3600.0
    host.pass_seconds(3)
    return host


def laptop() -> Blocked:
    """Return a laptop whose disk was asleep, and has a request now."""
    host = Blocked(laptop_mode=5)
    host.pass_seconds(3, [], sda=1_000_000)
    host.pass_seconds(30)
    host.disks["sda"].in_flight = 1
    host.pass_seconds(3)
    return host


def booted() -> Blocked:
    """Return a host 20 s after it was switched on."""
    host = Blocked(uptime=20.0)
    host.pass_seconds(3)
    return host


STORIES: dict[Guard, tuple[Callable[[], Blocked], str]] = {
    Guard.REMOVABLE: (stick, "sdb"),
    Guard.VIRTUAL: (virtual_disk, "vda"),
    Guard.MULTIPATH: (paths, "dm-0"),
    Guard.DISCARDING: (trimmed, "sda"),
    Guard.IN_FLIGHT_LEAKED: (with_leak, "sda"),
    Guard.SPINNING_UP: (asleep, "sdb"),
    Guard.REBUILDING: (rebuilt, "sda"),
    Guard.OWN_SCAN: (scanned, "sda"),
    Guard.AT_LIMIT: (at_cap, "vda"),
    Guard.FROZEN: (frozen, "sda"),
    Guard.TASK_PAUSED: (copying, "sda"),
    Guard.NOT_STORAGE: (container, HOST),
    Guard.WRITER_ONLY: (stalled, "sda"),
    Guard.LIMIT_LOWERED: (lowered, HOST),
    Guard.LAPTOP_MODE: (laptop, "sda"),
    Guard.BOOTING: (booted, HOST),
    Guard.SUSPENDED_MACHINE: (resumed, HOST),
}


def test_every_guard_has_a_story() -> None:
    """None is listed that nothing ever sets."""
    assert set(STORIES) == set(Guard)


@pytest.mark.parametrize("guard", list(Guard))
def test_a_guard_is_shown_where_it_holds_with_one_of_few_reasons(guard: Guard) -> None:
    """On an ordinary host none is; the reason is that of the guard, or says what discards."""
    play, device = STORIES[guard]
    host = play()
    assert guard.value in host.guards(device)
    reasons = {meaning.reason for meaning in MEANINGS.values()} | set(Discarder)
    assert {*host.reasons(device)} <= reasons
    if guard is not Guard.DISCARDING:
        assert MEANINGS[guard].reason in host.reasons(device)


@pytest.mark.parametrize("laptop_mode", [0, 5])
def test_an_ordinary_host_has_no_guard(laptop_mode: int) -> None:
    """Its disk works, and a database commits; in laptop mode as well, as it does not sleep."""
    host = Blocked(laptop_mode=laptop_mode)
    host.pass_seconds(10, [task(1)], sda=1_000_000)
    assert host.guards("sda") == host.guards(HOST) == []


def test_a_disk_that_was_asleep_is_not_in_laptop_mode_where_that_is_not_set() -> None:
    """The programs of the drive let it sleep (hdparm -S)."""
    assert asleep().guards("sdb") == ["spinning_up"]


def test_a_suspended_volume_has_its_guard_before_anybody_waits_for_it() -> None:
    """A snapshot was interrupted at night; the first program comes in the morning."""
    host = Blocked()
    host.add_disk("sdb")
    host.add_map("sda", "sdb")
    host.pass_seconds(30)
    assert "frozen" not in host.guards("dm-0")
    host.machine.memory.write({"/sys/block/dm-0/dm/suspended": "1\n"})
    host.pass_seconds(30)
    assert "frozen" in host.guards("dm-0")
    assert MEANINGS[Guard.FROZEN].reason in host.reasons("dm-0")
    host.machine.memory.write({"/sys/block/dm-0/dm/suspended": "0\n"})
    host.pass_seconds(30)
    assert "frozen" not in host.guards("dm-0")
