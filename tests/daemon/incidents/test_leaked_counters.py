"""Counters of requests in flight that leaked before iowarden started, beside disks that hang since.

Both show the same: requests in flight, and none completed. Who waits tells them apart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.blocked import SP_PC, Blocked, task

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.collectors.procfs.tasks import BlockedTask

NO_FILE: dict[str, object] = {"waits_at": "", "file": "", "mount": "", "counters": ()}
THREAD = {**NO_FILE, "kernel": True, "system_call": ""}
FROZEN = ("__refrigerator", "get_signal", "arch_do_signal_or_restart")
OPEN = {
    **NO_FILE,
    "stack": ("folio_wait_bit_common", "ext4_bread", "ext4_lookup", "path_openat"),
    "wait_channel": "folio_wait_bit_common",
    "system_call": f"257 0xffffff9c 0x7f11 0x0 0x0 0x0 0x0 {SP_PC}",
}


def waiting(command: str, *stack: str, **changes: object) -> BlockedTask:
    """Return a task that waits in these functions, and it is not known for which device."""
    own = {**NO_FILE, "stack": stack, "wait_channel": stack[0], **changes}
    return task(1, command, **own)


def opening(second: int) -> BlockedTask:
    """Return find(1), which is in another open(2) at each poll."""
    return task(1, "find", **{**OPEN, "voluntary_switches": 700 + 50 * second})


WITHOUT_DEVICE: dict[str, Callable[[int], BlockedTask]] = {
    "sync of all disks": lambda _: waiting(
        "sync", "wb_wait_for_completion", "sync_inodes_sb", "iterate_supers", "ksys_sync"
    ),
    "opens, one after the other": opening,
    "a commit behind what is queued": lambda _: waiting(
        "mariadbd", "folio_wait_writeback", "file_write_and_wait_range", "do_fsync"
    ),
    "a flusher": lambda _: waiting(
        "kworker/u8:2", "blk_mq_get_tag", "wb_workfn", "process_one_work", **THREAD
    ),
    "the thread of a card reader": lambda _: waiting(
        "rtsx_usb_ms_1", "msleep", "rtsx_usb_detect_ms_card", "kthread", **THREAD
    ),
    "a thread without a stack": lambda _: replace(waiting("kworker/0:3", "", **THREAD), stack=()),
    "a frozen container": lambda _: waiting("java", *FROZEN),
    "a parent of vfork": lambda _: waiting("sh", "wait_for_vfork_done", "kernel_clone"),
    "a graphics driver": lambda _: waiting(
        "Xorg", "dma_fence_wait_timeout", "i915_gem_wait_ioctl", "drm_ioctl"
    ),
    "a read from a server": lambda _: waiting(
        "rsync", "rpc_wait_bit_killable", "nfs4_proc_getattr", "nfs_getattr", waits_at="0:52"
    ),
    "a file of sshfs": lambda _: waiting("cp", "request_wait_answer", "fuse_file_read_iter"),
}
NOT_FOR_A_DISK = [*WITHOUT_DEVICE][4:]
"""These wait for no disk of the host, also while all of them are idle."""


def with_leak(*, rotational: str = "0") -> Blocked:
    """Return a host that works on sda; the counter of the idle sdb leaked before the start."""
    host = Blocked()
    host.add_disk("sdb", queue_rotational=rotational)
    host.disks["sdb"].leaked = 1
    host.pass_seconds(30, [], sda=8_000_000)
    return host


@pytest.mark.parametrize("who", WITHOUT_DEVICE)
def test_a_task_of_which_no_disk_is_known_is_no_sign_that_an_idle_disk_hangs(who: str) -> None:
    """It is blocked for minutes while another disk works: a freeze, if it is harmed; no hang."""
    host = with_leak()
    for second in range(100):
        host.pass_seconds(1, [WITHOUT_DEVICE[who](second)], sda=8_000_000)
    assert "DeviceHang" not in host.machine.host.names()


@pytest.mark.parametrize("who", NOT_FOR_A_DISK)
def test_who_waits_for_no_disk_is_no_sign_that_one_hangs_though_all_are_idle(who: str) -> None:
    """Nothing works, and nothing has to: the graphics driver is stuck, or the server is away."""
    host = with_leak()
    host.pass_seconds(100, [WITHOUT_DEVICE[who](0)])
    assert "DeviceHang" not in host.machine.host.names()


@pytest.mark.parametrize("seconds", [1, 3, 10])
@pytest.mark.parametrize("rotational", ["0", "1"])
def test_a_wait_of_some_seconds_is_no_sign_of_a_hang_once_it_is_over(
    seconds: int, rotational: str
) -> None:
    """A name is looked up on an idle host; then the host works, or is idle, for three minutes."""
    for work in ({"sda": 8_000_000}, {}):
        host = with_leak(rotational=rotational)
        host.pass_seconds(seconds, [task(1, "find", **OPEN)], **work)
        host.pass_seconds(180, [], **work)
        assert host.mails() == []


@pytest.mark.parametrize("who", ["opens, one after the other", "a flusher"])
def test_a_leak_of_before_is_silent_also_when_iowarden_is_restarted(who: str) -> None:
    """What is stored says nothing of it: it was not known whether it had leaked."""
    host = with_leak()
    for second in range(40):
        host.pass_seconds(1, [WITHOUT_DEVICE[who](second)], sda=8_000_000)
    host.restart()
    for second in range(100):
        host.pass_seconds(1, [WITHOUT_DEVICE[who](second)], sda=8_000_000)
    assert "DeviceHang" not in host.machine.host.names()


HUNG: dict[str, dict[str, object]] = {
    "in a read of it": {},
    "in a commit of which no device is known": NO_FILE,
    "in an open": OPEN,
    "in a call without a readable stack": {**NO_FILE, "stack": (), "wait_channel": ""},
    "a thread of the file system": {
        **THREAD,
        "stack": ("blk_mq_get_tag", "xfs_buf_submit", "xfs_log_worker", "kthread"),
        "wait_channel": "blk_mq_get_tag",
    },
}


@pytest.mark.parametrize("how", HUNG)
@pytest.mark.parametrize("every", [0, 5])
def test_a_disk_that_hangs_since_before_the_start_is_a_hang_with_one_that_waits(
    how: str, every: int
) -> None:
    """Nothing but sdb explains the wait: sda is idle, or writes a line of a log now and then."""
    host = Blocked()
    host.add_disk("sdb", queue_rotational="0")
    host.disks["sdb"].in_flight = 1
    for second in range(45):
        if every and second % every == 0:
            host.disks["sda"].writes, host.disks["sda"].milliseconds = second, second
        host.pass_second([task(1, **{"waits_at": "8:16", **HUNG[how]})])
    assert "DeviceHang" in host.machine.host.names("critical")
    assert host.mails()[0][0] <= 20


def test_a_map_that_hangs_since_before_the_start_is_a_hang_with_one_that_waits() -> None:
    """Who reads a file on a map waits for the map; its paths are not named in the call."""
    host = Blocked()
    host.add_disk("sdb")
    host.add_map("sda", "sdb")
    host.disks["sda"].in_flight = host.disks["dm-0"].in_flight = 1
    host.pass_seconds(100, [task(1, waits_at="253:0")])
    assert "DeviceHang" in host.machine.host.names("warning")


@pytest.mark.parametrize("seconds", [2, 20, 50])
def test_a_disk_that_works_for_some_seconds_after_the_start_and_hangs_is_one(seconds: int) -> None:
    """Two requests are in flight all the time, also in the first sample; nobody is seen to wait."""
    host = Blocked()
    disk = host.disks["sda"]
    disk.in_flight = 2
    for _ in range(seconds):
        disk.writes, disk.milliseconds = disk.writes + 200, disk.milliseconds + 1950
        host.pass_second()
    began = host.second
    host.pass_seconds(60)
    host.restart()
    host.pass_seconds(60)
    assert [severity for _, severity in host.mails()] == ["warning", "critical"]
    assert host.mails()[0][0] - began <= 15
    shown = host.machine.host.signals({"iowarden_device_hang_seconds"})
    assert shown['iowarden_device_hang_seconds{device="sda"}'] >= 115, "also after a restart"


def test_only_the_writer_of_a_disk_waits_though_a_graphics_driver_is_stuck_as_well() -> None:
    """Who waits for no disk is not harmed by one that reorganizes for 24 s."""
    host = Blocked()
    host.queued = 1_400_000_000
    writer = {
        "pid": 400,
        "start_ticks": 1_000,
        "stack": ("balance_dirty_pages", "generic_perform_write", "vfs_write", "ksys_write"),
        "wait_channel": "balance_dirty_pages",
    }
    for second in range(60):
        host.writers[400] = "restic", second * 8_000_000
        call = f"1 0xb 0x7f2a 0x400000 {second:#x} 0x0 0x0 {SP_PC}"
        host.disks["sda"].in_flight = 4
        host.pass_seconds(1, [task(0, "restic", system_call=call, **writer)], sda=8_000_000)
    stuck = WITHOUT_DEVICE["a graphics driver"](0)
    host.pass_seconds(24, [task(0, "restic", system_call=call, **writer), stuck])
    assert "writer_only" in host.guards("sda")
    assert host.mails() == []


@pytest.mark.parametrize("in_flight", [(1, 2), (0, 3, 1, 5), (2,)])
@pytest.mark.parametrize("is_harmed", [True, False])
def test_a_leak_below_a_steady_load_is_silent_once_the_disk_is_idle(
    in_flight: tuple[int, ...], *, is_harmed: bool
) -> None:
    """The driver forgets one while the disk works; twin: two more hang, with two programs."""
    host = Blocked()
    host.add_disk("sdb", queue_rotational="0")
    disk = host.disks["sdb"]
    for second in range(400):
        disk.leaked = int(second >= 100)
        disk.in_flight = in_flight[second % len(in_flight)]
        disk.writes += 100
        disk.milliseconds += 1000 * sum(in_flight) // len(in_flight)
        host.pass_seconds(1, [], sda=8_000_000)
    assert "in_flight_leaked" in host.guards("sdb")
    disk.in_flight = 2 * is_harmed
    tasks = [task(number, waits_at="8:16") for number in range(2 * is_harmed)]
    host.pass_seconds(60, tasks, sda=8_000_000)
    assert bool(host.mails()) is is_harmed
