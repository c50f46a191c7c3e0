"""Programs that wait until their own data are written, and where that is not why they wait."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.blocked import SP_PC, Blocked, Counters, task

from iowarden.rules.notices.who_waits import because_text

if TYPE_CHECKING:
    from iowarden.collectors.procfs.tasks import BlockedTask

MB = 1_000_000
CLOSE = f"3 0x5 0x0 0x0 0x0 0x0 0x0 {SP_PC}"
WRITES_BACK = ("folio_wait_writeback", "__filemap_fdatawait_range", "filemap_write_and_wait_range")
COMMITS = ("wait_on_commit", "__nfs_commit_inode")
CLOSES = ("nfs_wb_all", "nfs4_file_flush", "filp_close", "__x64_sys_close")


def closes(*inner: str) -> BlockedTask:
    """Return a copy that closes its file on a server, where close waits for all of its data."""
    return task(
        1,
        "rsync",
        stack=(*inner, *CLOSES),
        wait_channel=inner[0],
        system_call=CLOSE,
        waits_at="filer:/backup",
        mount="/backup",
        file="/backup/image",
    )


def copied(host: Blocked, *, seconds: int = 20) -> Blocked:
    """Let a copy fill the page cache; the system disk writes a log all the time."""
    host.pass_seconds(70, sda=MB)
    for second in range(seconds):
        host.writers[901] = ("rsync", 110 * MB * (second + 1))
        host.queued = min(110 * MB * (second + 1), 800 * MB)
        host.pass_seconds(1, sda=MB)
    return host


@pytest.mark.parametrize("inner", [WRITES_BACK, COMMITS], ids=["data", "commit"])
def test_a_copy_to_a_server_that_closes_its_file_for_77_s_harms_nobody(
    inner: tuple[str, ...],
) -> None:
    """800 MB at 10 MB/s: the server takes what is queued, and all of it is the copy's own."""
    host = copied(Blocked())
    for _ in range(77):
        host.queued -= 10 * MB
        host.pass_seconds(1, [closes(*inner)], sda=MB)
    assert host.mails() == []


def test_a_copy_whose_server_takes_nothing_is_mailed_though_the_local_disk_writes() -> None:
    """What the system disk writes meanwhile is not what the copy waits for."""
    host = copied(Blocked())
    for _ in range(35):
        host.pass_seconds(1, [closes(*WRITES_BACK)], sda=MB)
    assert [severity for _, severity in host.mails()] == ["warning"]
    assert host.cause("filer:/backup") == "server"


def test_who_closes_a_small_file_behind_the_copy_of_another_waits_for_the_server() -> None:
    """Ten kilobytes of its own explain no half minute: it is harmed, and the copy is why."""
    host = copied(Blocked())
    host.writers[902] = ("mutt", 10_000)
    for _ in range(35):
        host.queued -= 10 * MB
        copy = closes(*WRITES_BACK)
        host.pass_seconds(1, [copy, replace(copy, pid=902, command="mutt")], sda=MB)
    assert [severity for _, severity in host.mails()] == ["warning"]


def test_an_encryption_that_passes_nothing_on_is_the_cause_and_its_disk_is_not() -> None:
    """Its threads get no processor: requests stand in dm-0, and sda has nothing to do."""
    host = Blocked()
    base = "/sys/block/dm-0"
    host.machine.memory.write(
        {
            f"{base}/dev": "253:0\n",
            f"{base}/size": "1953525168\n",
            f"{base}/dm/name": "luks-home\n",
            f"{base}/dm/uuid": "CRYPT-LUKS2-1-luks-home\n",
            f"{base}/dm/suspended": "0\n",
            f"{base}/slaves/sda": None,
            "/sys/block/sda/holders/dm-0": None,
        }
    )
    host.disks["dm-0"] = Counters()
    host.pass_seconds(70, sda=MB)
    host.disks["dm-0"].in_flight = 32
    host.pass_seconds(20, [task(number, waits_at="253:0", mount="/home") for number in (1, 2)])
    ((second, severity),) = host.mails()
    assert (second - 70 <= 20.0, severity) == (True, "warning")
    assert host.cause("dm-0") == "not passed on"
    assert "it passes no requests on to its disks" in host.summary("Freeze")


def erased(*disks: str) -> tuple[Blocked, list[BlockedTask]]:
    """Return a host whose new disks are written by one dd each, without the page cache.

    Each of its writes takes 4 to 6 s.
    """
    host = Blocked()
    for name in disks:
        host.add_disk(name)
    stack = ("io_schedule", "__blkdev_direct_IO_simple", "generic_file_direct_write", "vfs_write")
    writers = [
        task(
            *(number, "dd"),
            stack=stack,
            wait_channel=stack[0],
            system_call=f"1 0x1 0x7f10 0x4000000 0x0 0x0 0x0 {SP_PC}",
            waits_at=f"/dev/{name}",
            file=f"/dev/{name}",
            mount="",
        )
        for number, name in enumerate(disks, 1)
    ]
    host.pass_seconds(70, sda=MB)
    return host, writers


def test_four_disks_erased_by_one_program_each_harm_nobody() -> None:
    """Each dd writes as much as any disk completes: each disk has its own, and no victim."""
    disks = ("sdb", "sdc", "sdd", "sde")
    host, writers = erased(*disks)
    for second in range(420):
        for number in range(len(disks)):
            host.writers[901 + number] = ("dd", 150 * MB * second)
        turn = 64 * MB * (second // 5)
        tasks = [replace(each, counters=(0, turn, 0, turn, 0, turn)) for each in writers]
        host.pass_seconds(1, tasks, **dict.fromkeys(disks, 150 * MB))
    assert host.mails() == []


def test_who_is_blocked_by_one_of_four_writers_is_blocked_by_that_of_its_own_disk() -> None:
    """All four write at the same speed; blkid reads the disk of the last one."""
    disks = ("sdb", "sdc", "sdd", "sde")
    host, writers = erased(*disks)
    victim = task(9, "blkid", waits_at="/dev/sde", file="/dev/sde", mount="")
    for second in range(40):
        for number in range(len(disks)):
            host.writers[901 + number] = ("dd", 150 * MB * second)
        turn = 64 * MB * (second // 5)
        tasks = [replace(each, counters=(0, turn, 0, turn, 0, turn)) for each in writers]
        tasks += [victim] if second >= 5 else []
        host.pass_seconds(1, tasks, **dict.fromkeys(disks, 150 * MB))
    assert host.machine.host.engine is not None
    harm = host.machine.host.engine.signals.harm().harms["sde"]
    assert [each.wait.task.command for each in harm.victims] == ["blkid"]
    assert because_text(harm).startswith("dd (dd.service, pid 904), which wrote ")
    assert ";" not in because_text(harm)
