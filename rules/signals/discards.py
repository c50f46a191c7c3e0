"""Discards that blocked tasks wait for: what requested them, and of which disks. Pure.

A program was started to discard (fstrim, blkdiscard, mkfs, swapon), or a file system or the swap
does so by itself, in its own threads or in whatever program commits. A discard may take minutes, in
which a disk completes nothing else. Units: none.
"""

from __future__ import annotations

import enum
import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.rules.signals.activity import leaves_below
from iowarden.rules.signals.guards import ioctl_request

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.procfs.tasks import BlockedTask


class Discarder(enum.StrEnum):
    """What discards, as summaries show it."""

    FSTRIM = "fstrim discards"
    DEVICE = "a program discards the device (blkdiscard, mkfs)"
    SWAPON = "swapon discards the swap area"
    SWAP = "the kernel discards free swap"
    BTRFS = "btrfs discards what it freed"
    EXT4 = "ext4 discards what it freed"
    F2FS = "F2FS discards what it freed"
    XFS = "XFS discards what it freed"
    FILE_SYSTEM = "a file system discards what it freed"
    UNKNOWN = "discards are queued"


REQUESTED = frozenset({Discarder.FSTRIM, Discarder.DEVICE, Discarder.SWAPON})
"""By a program that was started for it: it is the cause of what waits, and not harmed."""
MAX_STACKS = 128
"""Tasks wait in few different stacks: what these show is remembered."""
_DISCARDS = (
    "blkdev_issue_discard",  # block/blk-lib.c
    "__blkdev_issue_discard",
    "blkdev_issue_secure_erase",
    "blk_ioctl_discard",  # block/ioctl.c: blkdiscard, mkfs
    "blk_ioctl_secure_erase",
    "blk_ioctl_zeroout",  # not blkdev_issue_zeroout: ext4 zeroes a few blocks so for any writer
    "blkdev_cmd_discard",  # the same by io_uring, 6.12
    "blkdev_fallocate",  # block/fops.c
    "ext4_trim_",  # fs/ext4/mballoc.c: fstrim
    "ext4_try_to_trim_range",
    "ext4_issue_discard",  # mount option 'discard'
    "xfs_ioc_trim",  # fs/xfs/xfs_discard.c
    "xfs_trim_",
    "xfs_discard_extents",
    "xlog_discard_busy_extents",  # before 6.7, fs/xfs/xfs_log_cil.c
    "btrfs_trim_",  # fs/btrfs/extent-tree.c, free-space-cache.c
    "btrfs_issue_discard",
    "btrfs_discard_extent",
    "f2fs_trim_fs",  # fs/f2fs/segment.c
    "f2fs_issue_discard",
    "f2fs_wait_discard_bio",
    "__submit_discard_cmd",
    "__wait_discard_cmd_range",
    "f2fs_sec_trim_file",  # fs/f2fs/file.c
    "fat_trim_fs",  # fs/fat/fatent.c
    "exfat_trim_fs",  # fs/exfat/balloc.c
    "gfs2_fitrim",  # fs/gfs2/rgrp.c
    "gfs2_rgrp_send_discards",
    "jfs_ioc_trim",  # fs/jfs/jfs_discard.c
    "jfs_issue_discard",
    "nilfs_sufile_trim_fs",  # fs/nilfs2/sufile.c
    "ntfs_trim_fs",  # fs/ntfs3/bitmap.c
    "ntfs_discard",
    "ocfs2_trim_",  # fs/ocfs2/alloc.c
    "discard_swap",  # mm/swapfile.c; also discard_swap_cluster
    "swap_do_scheduled_discard",
)
"""A task with one of these in its stack waits for a discard."""
_REQUESTS: Mapping[str, Discarder] = {
    "blk_ioctl_": Discarder.DEVICE,
    "blkdev_ioctl": Discarder.DEVICE,  # where the compiler inlines that into it, like the next
    "blkdev_common_ioctl": Discarder.DEVICE,
    "blkdev_fallocate": Discarder.DEVICE,
    "blkdev_cmd_discard": Discarder.DEVICE,
    "ext4_trim_fs": Discarder.FSTRIM,
    "xfs_ioc_trim": Discarder.FSTRIM,
    "btrfs_trim_fs": Discarder.FSTRIM,
    "f2fs_trim_fs": Discarder.FSTRIM,
    "f2fs_sec_trim_file": Discarder.FSTRIM,
    "fat_trim_fs": Discarder.FSTRIM,
    "exfat_trim_fs": Discarder.FSTRIM,
    "gfs2_fitrim": Discarder.FSTRIM,
    "jfs_ioc_trim": Discarder.FSTRIM,
    "nilfs_sufile_trim_fs": Discarder.FSTRIM,
    "ntfs_trim_fs": Discarder.FSTRIM,
    "ocfs2_trim_fs": Discarder.FSTRIM,
}
"""A program with one of these was started to discard; else a file system does it meanwhile."""
_SWAPON = ("sys_swapon", "SyS_swapon")
"""What its function ends with: '__do_sys_swapon', '__x64_sys_swapon', '__arm64_sys_swapon'."""
_BY_ITSELF: Mapping[str, Discarder] = {
    "discard_swap_cluster": Discarder.SWAP,
    "swap_do_scheduled_discard": Discarder.SWAP,
    "discard_swap": Discarder.SWAPON,
    "btrfs_": Discarder.BTRFS,
    "ext4_": Discarder.EXT4,
    "jbd2_": Discarder.EXT4,
    "f2fs_": Discarder.F2FS,
    "xfs_": Discarder.XFS,
    "xlog_": Discarder.XFS,
    **dict.fromkeys(
        ("bch2_", "exfat_", "fat_", "gfs2_", "jfs_", "nilfs_", "ntfs_", "ocfs2_"),
        Discarder.FILE_SYSTEM,
    ),
}
_FITRIM = 0x5879
_DEVICE_REQUESTS = frozenset({0x1277, 0x127D, 0x127F})
"""Type and number of FITRIM; of BLKDISCARD, BLKSECDISCARD, BLKZEROOUT. Source: uapi/linux/fs.h."""
_FALLOCATE_CALLS = frozenset({"285", "47", "324", "352", "309", "314"})
"""Its number on x86_64; arm64 and riscv; i386; arm; powerpc; s390."""
_FALLOCATE_MODES = 0x02 | 0x10 | 0x80
"""FALLOC_FL_PUNCH_HOLE, ZERO_RANGE, WRITE_ZEROES. Source: uapi/linux/falloc.h."""
_SWAPON_CALLS = frozenset({"167", "224"})
"""Its number on x86_64; arm64 and riscv."""
_SWAPON_CALL_OF_OTHERS = "87"
"""Its number on 32-bit, powerpc and s390; on x86_64 that is unlink."""
_SWAP_DISCARD, _SWAP_DISCARD_ONCE, _SWAP_DISCARD_PAGES = 0x10000, 0x20000, 0x40000
_SWAP_FLAGS = 0x7FFFF
"""SWAP_FLAGS_VALID. Source: kernel, include/linux/swap.h. With pages alone the area is not
discarded at once: mm/swapfile.c, swapon."""


def discarder(task: BlockedTask) -> Discarder | None:
    """Return what discards while a task waits for that; None: it waits for no discard.

    Its call shows it where its functions do not: inlined, or the stack not readable.
    """
    return _of_call(task) or _of_functions(task.wait_channel, task.stack)


def is_discard(task: BlockedTask) -> bool:
    """Whether a task waits for a discard: one that takes long completes nothing meanwhile."""
    return discarder(task) is not None


def requests_discard(task: BlockedTask) -> bool:
    """Whether a program waits for a discard that it requested: it is the cause of what waits."""
    return discarder(task) in REQUESTED


def _of_call(task: BlockedTask) -> Discarder | None:
    number, *arguments = task.system_call.split() or ("",)
    if len(arguments) < 2:
        return None
    second = int(arguments[1], 16)
    if (request := ioctl_request(task)) is not None:
        of_device = Discarder.DEVICE if request in _DEVICE_REQUESTS else None
        return Discarder.FSTRIM if request == _FITRIM else of_device
    if number in _FALLOCATE_CALLS:
        is_of_device = task.file.startswith("/dev/") and 0 < second <= 0xFF
        return Discarder.DEVICE if is_of_device and second & _FALLOCATE_MODES else None
    if number in _SWAPON_CALLS or (number, task.command) == (_SWAPON_CALL_OF_OTHERS, "swapon"):
        of_area = second & (_SWAP_DISCARD_ONCE | _SWAP_DISCARD_PAGES) != _SWAP_DISCARD_PAGES
        is_valid = second & _SWAP_DISCARD and second <= _SWAP_FLAGS
        return Discarder.SWAPON if is_valid and of_area else None
    return None


@functools.lru_cache(maxsize=MAX_STACKS)
def _of_functions(wait_channel: str, stack: tuple[str, ...]) -> Discarder | None:
    functions = (wait_channel, *stack)
    if not any(name.startswith(_DISCARDS) for name in functions):
        return None
    if any(name.endswith(_SWAPON) for name in functions):
        return Discarder.SWAPON
    for table in (_REQUESTS, _BY_ITSELF):
        for prefix, of_prefix in table.items():
            if any(name.startswith(prefix) for name in functions):
                return of_prefix
    return Discarder.UNKNOWN


def candidate(
    discarded: frozenset[str],
    stalled: frozenset[str],
    from_before: frozenset[str],
    topology: Topology,
) -> str:
    """Return the only device on which a task may discard of which it is not known; '': not only.

    That is one that has completed discards lately, else one that completes nothing. One whose
    requests in flight are all `from_before` the start may have a counter that leaked: it is meant
    if there is no other. An array discards on all of its members at once.
    """
    disks = discarded - stalled or stalled - from_before or stalled
    if len(disks) <= 1:
        return next(iter(disks), "")
    stacked = (name for name in topology.devices if {*leaves_below(topology, name)} == disks)
    return next(stacked, "")


def placed(tasks: Iterable[BlockedTask], topology: Topology, only: str) -> list[BlockedTask]:
    """Return tasks with the device for which they wait, also those who discard without one.

    Kernel threads of btrfs and of work queues do not have a device in their name, and neither
    swapon(2) nor a file of btrfs has one: these discard on the `only` one that may.
    """
    return [
        replace(task, waits_at=only)
        if only and is_discard(task) and not is_placed(task, topology)
        else task
        for task in tasks
    ]


def is_placed(task: BlockedTask, topology: Topology) -> bool:
    """Whether it is known for which device a task waits."""
    return bool(task.waits_at) and topology.whole(task.waits_at) is not None


def discarding(tasks: Iterable[BlockedTask], topology: Topology) -> dict[str, Discarder]:
    """Return the devices for whose discards tasks wait, and their leaves, with what discards."""
    found: dict[str, Discarder] = {}
    for task in tasks:
        of_task, device = discarder(task), topology.whole(task.waits_at) if task.waits_at else None
        if of_task is not None and device is not None:
            below = {device.name, *leaves_below(topology, device.name)}
            found |= dict.fromkeys(sorted(below), of_task)
    return found
