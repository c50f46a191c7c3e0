"""Discards: by which call or function of the kernel they are known, and on which disk they are."""

from __future__ import annotations

import pytest
from support.machine import disk, topology

from iowarden.collectors.procfs.tasks import BlockedTask
from iowarden.rules.signals.discards import (
    Discarder,
    candidate,
    discarder,
    discarding,
    is_discard,
    placed,
    requests_discard,
)

DISCARDS = ("submit_bio_wait", "blkdev_issue_discard", "btrfs_issue_discard", "btrfs_finish_extent")
COMMITS = ("jbd2_log_wait_commit", "ext4_sync_file", "do_fsync")
REST = "0x0 0x0 0x0 0x0 0x7ffc1e30 0x7f0ac5b0"


def blocked(
    command: str,
    stack: tuple[str, ...] = (),
    device: str = "",
    *,
    kernel: bool = False,
    call: str = "",
    file: str = "",
) -> BlockedTask:
    """Return a task that waits for a device, '': which one is not known."""
    return BlockedTask(
        len(command),
        1,
        command,
        stack[0] if stack else "",
        stack,
        0,
        0,
        kernel=kernel,
        waits_at=device,
        system_call=f"{call} {REST}" if call else "",
        file=file,
    )


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("blk_ioctl_discard", Discarder.DEVICE),
        ("blk_ioctl_zeroout", Discarder.DEVICE),
        ("blkdev_fallocate", Discarder.DEVICE),
        ("blkdev_cmd_discard", Discarder.DEVICE),
        ("ext4_trim_fs", Discarder.FSTRIM),
        ("xfs_ioc_trim", Discarder.FSTRIM),
        ("btrfs_trim_fs", Discarder.FSTRIM),
        ("f2fs_trim_fs", Discarder.FSTRIM),
        ("fat_trim_fs", Discarder.FSTRIM),
        ("exfat_trim_fs", Discarder.FSTRIM),
        ("gfs2_fitrim", Discarder.FSTRIM),
        ("jfs_ioc_trim", Discarder.FSTRIM),
        ("nilfs_sufile_trim_fs", Discarder.FSTRIM),
        ("ntfs_trim_fs", Discarder.FSTRIM),
        ("ocfs2_trim_fs", Discarder.FSTRIM),
        ("__do_sys_swapon", Discarder.SWAPON),
        ("__arm64_sys_swapon", Discarder.SWAPON),
        ("SyS_swapon", Discarder.SWAPON),
        ("discard_swap", Discarder.SWAPON),
        ("discard_swap_cluster", Discarder.SWAP),
        ("swap_do_scheduled_discard", Discarder.SWAP),
        ("btrfs_issue_discard", Discarder.BTRFS),
        ("btrfs_discard_workfn", Discarder.BTRFS),
        ("ext4_issue_discard", Discarder.EXT4),
        ("ext4_try_to_trim_range.isra.0", Discarder.EXT4),
        ("xlog_discard_busy_extents", Discarder.XFS),
        ("xfs_discard_extents", Discarder.XFS),
        ("f2fs_wait_discard_bios", Discarder.F2FS),
        ("gfs2_rgrp_send_discards", Discarder.FILE_SYSTEM),
        ("fat_free_clusters", Discarder.FILE_SYSTEM),
        ("iblock_execute_unmap", Discarder.UNKNOWN),
    ],
)
def test_what_discards_is_known_by_the_functions_above_the_discard(
    function: str, expected: Discarder
) -> None:
    """Linux 2.6.32 to 6.12, each with the block layer's function below it."""
    task = blocked("any", ("submit_bio_wait", "blkdev_issue_discard", function))
    assert discarder(task) is expected
    is_requested = expected in {Discarder.DEVICE, Discarder.FSTRIM, Discarder.SWAPON}
    assert requests_discard(task) is is_requested
    assert is_discard(task)


@pytest.mark.parametrize(
    ("call", "command", "file", "expected"),
    [
        ("16 0x3 0x1277", "mkfs.ext4", "", Discarder.DEVICE),
        ("29 0x3 0x127d", "blkdiscard", "", Discarder.DEVICE),
        ("54 0x3 0x2000127f", "blkdiscard", "", Discarder.DEVICE),
        ("16 0x3 0xc0185879", "fstrim", "", Discarder.FSTRIM),
        ("54 0x3 0xc0185879", "fstrim", "", Discarder.FSTRIM),
        ("16 0x3 0xc0045877", "fsfreeze", "", None),
        ("285 0x3 0x3", "qemu-img", "/dev/sda3", Discarder.DEVICE),
        ("47 0x3 0x11", "qemu-img", "/dev/vg/volume", Discarder.DEVICE),
        ("324 0x3 0x3", "qemu-img", "/dev/sda3", Discarder.DEVICE),
        ("352 0x3 0x3", "qemu-img", "/dev/sda3", Discarder.DEVICE),
        ("309 0x3 0x3", "qemu-img", "/dev/sda3", Discarder.DEVICE),
        ("314 0x3 0x80", "qemu-img", "/dev/sda3", Discarder.DEVICE),
        ("285 0x3 0x3", "postgres", "/srv/data/1", None),
        ("285 0x3 0x0", "fallocate", "/dev/sda3", None),
        ("285 0x3 0x7f001000", "any", "/dev/sda3", None),
        ("167 0x55d1 0x10000", "swapon", "", Discarder.SWAPON),
        ("224 0x55d1 0x3ffff", "(mount)", "", Discarder.SWAPON),
        ("87 0x55d1 0x70000", "swapon", "", Discarder.SWAPON),
        ("87 0x55d1 0x10000", "rm", "", None),
        ("167 0x55d1 0x50000", "swapon", "", None),
        ("167 0x55d1 0x8000", "swapon", "", None),
        ("167 0x55d1 0x7f0000010000", "any", "", None),
        ("74 0x3 0x1277", "postgres", "/srv/data/1", None),
    ],
)
def test_what_discards_is_known_by_its_call_where_no_stack_is_readable(
    call: str, command: str, file: str, expected: Discarder | None
) -> None:
    """ioctl, fallocate of a block device, swapon of its whole area; 87 is unlink on x86_64."""
    assert discarder(blocked(command, call=call, file=file)) is expected


def test_a_task_that_waits_for_no_discard_has_none() -> None:
    """A commit, a page fault, and a task of which nothing is known."""
    fault = blocked("java", call="")
    assert discarder(blocked("postgres", COMMITS, "sda")) is None
    assert discarder(fault) is None
    in_zeroout = ("blkdev_issue_zeroout", "ext4_issue_zeroout", "ext4_map_blocks", "do_fsync")
    assert discarder(blocked("postgres", in_zeroout, "sda")) is None


@pytest.mark.parametrize(
    ("sentence", "discards_on", "only", "expected"),
    [
        ("the journal's thread has its device in its name", "sda", "sdb", {"sda"}),
        ("another has not, and one disk completes nothing", "", "sda", {"sda"}),
        ("it may be either of two", "", "", set()),
        ("its file is on no device of its own", "0:33", "sda", {"sda"}),
    ],
)
@pytest.mark.parametrize("kernel", [True, False])
def test_a_task_discards_on_the_one_disk_on_which_it_may(
    sentence: str, discards_on: str, only: str, expected: set[str], *, kernel: bool
) -> None:
    """Mounted with '-o discard', file systems discard in threads, work queues and any program."""
    disks = topology(disk("sda"), disk("sdb"))
    tasks = [blocked("btrfs-transaction", DISCARDS, discards_on, kernel=kernel)]
    tasks += [blocked("influxd", COMMITS, name) for name in ("sda", "sda")]
    assert set(discarding(placed(tasks, disks, only), disks)) == expected, sentence


@pytest.mark.parametrize(
    ("discarded", "stalled", "from_before", "expected"),
    [
        ("", "sda", "", "sda"),
        ("sdb", "sda", "", "sdb"),
        ("sda", "sda", "", "sda"),
        ("", "sda sdb", "sdb", "sda"),
        ("", "sdb", "sdb", "sdb"),
        ("", "sda sdc", "", ""),
        ("", "sda sdb", "", "md0"),
        ("", "", "", ""),
    ],
)
def test_where_it_may_be_is_the_disk_that_discards_else_the_one_that_stands(
    discarded: str, stalled: str, from_before: str, expected: str
) -> None:
    """sdb shows a request since before the start; sda and sdb together are a mirror."""
    disks = topology(
        disk("sda"), disk("sdb"), disk("sdc"), disk("md0", leaf=False, slaves=("sda", "sdb"))
    )
    names = (frozenset(text.split()) for text in (discarded, stalled, from_before))
    assert candidate(*names, disks) == expected
