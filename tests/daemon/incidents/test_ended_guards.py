"""Guards that end in the second in which what they explain ends, and the waits that began before.

Each story is played from files of the kernel to the mails that are due, beside a twin in which it
lasts longer than the guard permits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.blocked import SP_PC, Blocked, Counters, task

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.collectors.procfs.tasks import BlockedTask

READ = {
    "wait_channel": "folio_wait_bit_common",
    "stack": ("folio_wait_bit_common", "filemap_read", "ext4_file_read_iter", "ksys_read"),
    "system_call": f"0 0x5 0x7f00 0x1000 0x0 0x0 0x0 {SP_PC}",
}
COMMIT = ("jbd2_log_wait_commit", "ext4_sync_file", "do_fsync", "__x64_sys_fsync")


def readers(**changes: object) -> list[BlockedTask]:
    """Return three programs, each in a read of its own."""
    return [task(number, **{**READ, **changes}) for number in range(3)]


def asleep(phase: int) -> Blocked:
    """Return a host whose disk has had no request for half a minute, and spins up for the next."""
    host = Blocked()
    host.pass_seconds(60, [], sda=8_000_000)
    host.pass_seconds(30 + phase, [])
    return host


def wakes(host: Blocked, seconds: int) -> None:
    """Let the disk answer after so many seconds, its programs being polled before they read on."""
    disk = host.disks["sda"]
    disk.in_flight = 3
    host.pass_seconds(seconds, readers())
    disk.reads += 3
    disk.milliseconds += 3_000 * seconds
    disk.busy_milliseconds += 1_000 * seconds
    disk.in_flight = 0
    host.pass_second(readers())
    host.pass_second(readers())
    host.pass_seconds(20, [], sda=8_000_000)


@pytest.mark.parametrize("phase", [0, 1])
@pytest.mark.parametrize("seconds", [13, 14, 17, 25])
def test_a_disk_that_spins_up_is_silent_also_when_it_answers(seconds: int, phase: int) -> None:
    """Three programs waited for it; the poll in the second of its first answer still sees them."""
    host = asleep(phase)
    wakes(host, seconds)
    assert host.mails() == []


@pytest.mark.parametrize("phase", [0, 1])
def test_a_disk_that_does_not_spin_up_in_30_s_is_mailed(phase: int) -> None:
    """The guard ends after 30 s, while nothing is answered."""
    host = asleep(phase)
    began = host.second
    wakes(host, 40)
    assert 28 <= host.mails()[0][0] - began <= 36


@pytest.mark.parametrize("phase", [0, 1])
def test_who_waits_after_a_disk_has_spun_up_is_mailed_as_on_any_other(phase: int) -> None:
    """Its first answer ends the guard for all waits that begin later."""
    host = asleep(phase)
    wakes(host, 14)
    began = host.second
    host.disks["sda"].in_flight = 2
    later = [task(number, **{**READ, "counters": (1, 1, 11, 10, 4096, 0)}) for number in range(2)]
    host.pass_seconds(20, later)
    assert host.mails()[0][0] - began <= 16


def test_without_a_probe_a_disk_that_spun_up_for_its_writes_is_no_write_stall() -> None:
    """A read is the first request that it answers; what is queued is written after it."""
    host = asleep(0)
    host.has_probe = False
    host.queued = 600_000_000
    wakes(host, 14)
    assert not {"WriteStall", "Freeze"} & {*host.machine.host.names("warning")}
    assert host.mails() == []


def frozen(host: Blocked, seconds: int) -> None:
    """Freeze the file system, and write what has queued up meanwhile when it is thawed."""
    stack = ("percpu_rwsem_wait", "__percpu_down_read", "vfs_write", "ksys_write")
    host.pass_seconds(seconds, _commits(stack))
    host.disks["sda"].in_flight = 32
    host.queued = 400_000_000
    host.pass_seconds(4, _commits(COMMIT), sda=8_000_000)


def suspended(host: Blocked, seconds: int) -> None:
    """Suspend the volume, and write what has queued up meanwhile when it is resumed."""
    flag = "/sys/block/dm-0/dm/suspended"
    host.machine.memory.write({flag: "1\n"})
    host.pass_seconds(seconds, _commits(COMMIT, waits_at="253:0"))
    host.machine.memory.write({flag: "0\n"})
    host.disks["sda"].in_flight = 32
    host.queued = 400_000_000
    host.pass_seconds(4, _commits(COMMIT, waits_at="253:0"), sda=8_000_000)


def paused(host: Blocked, seconds: int) -> None:
    """Let a disk complete nothing, and then what was queued."""
    host.disks["sdb"].in_flight = 4
    waiting = _commits(COMMIT, waits_at="8:16")
    host.pass_seconds(seconds, waiting)
    host.disks["sdb"].writes += 4
    host.disks["sdb"].in_flight = 0
    host.pass_seconds(2, waiting)


def _commits(stack: tuple[str, ...], **changes: object) -> list[BlockedTask]:
    more = {"stack": stack, "wait_channel": stack[0], **changes}
    return [task(number, **more) for number in range(2)]  # type: ignore[arg-type]


def with_disk(**files: str) -> Blocked:
    """Return a host with a second disk that works."""
    host = Blocked()
    host.add_disk("sdb", **files)
    host.machine.memory.write({"/proc/1/mountinfo": "30 1 8:16 / /media/u rw - ext4 /dev/sdb rw\n"})
    host.machine.memory.write({"/etc/fstab": ""})
    return host


def with_volume() -> Blocked:
    """Return a host with a volume of device-mapper on its disk."""
    host, base = Blocked(), "/sys/block/dm-0"
    files = {f"{base}/dev": "253:0\n", f"{base}/dm/uuid": "LVM-x\n", f"{base}/dm/suspended": "0\n"}
    files |= {f"{base}/dm/name": "vg-srv\n", f"{base}/size": "1953525168\n"}
    links = {f"{base}/slaves/sda": None, "/sys/block/sda/holders/dm-0": None}
    host.machine.memory.write({**files, **links})
    host.disks["dm-0"] = Counters()
    return host


GUARDED: dict[str, tuple[Callable[[], Blocked], Callable[[Blocked, int], None], int]] = {
    "frozen for a snapshot": (Blocked, frozen, 22),
    "suspended for a snapshot": (with_volume, suspended, 22),
    "removable": (lambda: with_disk(removable="1"), paused, 22),
    "virtual": (lambda: with_disk(device_vendor="QEMU", device_model="QEMU HARDDISK"), paused, 15),
}


@pytest.mark.parametrize("phase", [0, 1])
@pytest.mark.parametrize("name", GUARDED)
def test_what_a_guard_permits_is_silent_also_in_the_second_in_which_it_ends(
    name: str, phase: int
) -> None:
    """Two databases wait for it; what has queued up is written while they still wait."""
    make, plays, seconds = GUARDED[name]
    host = make()
    host.pass_seconds(60 + phase, [], **dict.fromkeys(("sda", *{"sdb"} & {*host.disks}), 8_000_000))
    plays(host, seconds)
    host.pass_seconds(20, [], sda=8_000_000)
    assert host.mails() == []


@pytest.mark.parametrize("name", GUARDED)
def test_what_lasts_longer_than_its_guard_permits_is_mailed(name: str) -> None:
    """The same for 45 s."""
    make, plays, _ = GUARDED[name]
    host = make()
    host.pass_seconds(60, [], **dict.fromkeys(("sda", *{"sdb"} & {*host.disks}), 8_000_000))
    began = host.second
    plays(host, 45)
    assert 18 <= host.mails()[0][0] - began <= 40


OPEN = {
    "waits_at": "",
    "file": "",
    "mount": "",
    "counters": (),
    "wait_channel": "folio_wait_bit_common",
    "stack": ("folio_wait_bit_common", "ext4_bread", "ext4_lookup", "path_openat"),
    "system_call": f"257 0xffffff9c 0x7f11 0x0 0x0 0x0 0x0 {SP_PC}",
}


@pytest.mark.parametrize("laptop_mode", [0, 5])
@pytest.mark.parametrize("every", [0, 5])
@pytest.mark.parametrize(("seconds", "is_mailed"), [(25, False), (45, True)])
def test_who_opens_files_while_a_disk_spins_up_may_wait_for_that(
    seconds: int, every: int, laptop_mode: int, *, is_mailed: bool
) -> None:
    """No call shows the disk; another one has nothing to do, or writes a line now and then."""
    host = Blocked(laptop_mode=laptop_mode)
    host.add_disk("sdb", queue_rotational="0")
    host.pass_seconds(60, [], sda=8_000_000)
    host.pass_seconds(30)
    began, host.disks["sda"].in_flight = host.second, 2
    for second in range(seconds):
        work = {"sdb": 4096} if every and second % every == 0 else {}
        host.pass_seconds(1, [task(number, **OPEN) for number in range(2)], **work)  # type: ignore[arg-type]
    host.disks["sda"].in_flight = 0
    host.pass_seconds(20, [], sda=8_000_000)
    assert bool(host.mails()) is is_mailed
    assert all(28 <= second - began <= 40 for second, _ in host.mails()[:1])


@pytest.mark.parametrize(("other", "queued"), [("works", 8), ("answers", 0), ("hangs", 8)])
def test_who_opens_files_while_a_disk_spins_up_and_another_has_requests_is_mailed(
    other: str, queued: int
) -> None:
    """It may as well be that one: it is behind with its queue, answers, or completes nothing."""
    host = Blocked()
    host.add_disk("sdb", queue_rotational="0")
    host.pass_seconds(60, [], sda=8_000_000, sdb=8_000_000)
    host.pass_seconds(30, [], sdb=8_000_000)
    began, host.disks["sda"].in_flight = host.second, 2
    host.disks["sdb"].in_flight = queued
    waiting = [task(number, **OPEN) for number in range(2)]  # type: ignore[arg-type]
    host.pass_seconds(25, waiting, sdb=0 if other == "hangs" else 8_000_000)
    assert host.mails()[0][0] - began <= 20


def closed_lids(before: int, *closed_for: float) -> Blocked:
    """Return a laptop with an SSD that two programs have waited for since before it was closed.

    Between two closings it is open for 10 s, in which the disk answers nothing.
    """
    host = Blocked()
    host.machine.memory.write({"/sys/block/sda/queue/rotational": "0\n"})
    host.pass_seconds(30, [], sda=8_000_000)
    host.disks["sda"].in_flight = 3
    host.pass_seconds(before, [task(1), task(2)])
    for each in closed_for:
        host.asleep += each
        host.pass_seconds(10, [task(1), task(2)])
    return host


LIDS = [(4, (28_800.0,)), (9, (28_800.0,)), (4, (28_800.0, 7_200.0)), (9, (60.0, 60.0, 60.0))]


@pytest.mark.parametrize(("before", "closed_for"), LIDS)
def test_a_wait_of_before_a_suspend_is_permitted_what_one_after_it_is(
    before: int, closed_for: tuple[float, ...]
) -> None:
    """The disk answers 24 s after the resume: links and controllers are initialized anew."""
    host = closed_lids(before, *closed_for)
    host.pass_seconds(14, [task(1), task(2)])
    host.disks["sda"].in_flight = 0
    host.pass_seconds(30, [], sda=8_000_000)
    assert host.mails() == []


@pytest.mark.parametrize(("before", "closed_for"), LIDS)
def test_a_disk_that_does_not_answer_after_a_suspend_is_mailed(
    before: int, closed_for: tuple[float, ...]
) -> None:
    """Programs have waited for half a minute since the last resume."""
    host = closed_lids(before, *closed_for)
    resumed = host.second - 10
    host.pass_seconds(35, [task(1), task(2)])
    assert 28 <= host.mails()[0][0] - resumed <= 40
