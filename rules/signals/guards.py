"""Guards: facts of an object that explain what looks like a fault of it. Pure.

A USB stick pauses for 16 s, a virtual disk while it is migrated, any disk behind a long discard.
Each fact is determined here alone: alerts and signals about hangs, stalls, freezes and bandwidth
compare what follows from it, and none tests a device by itself. Units: seconds.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, NamedTuple

from iowarden.rules.signals.activity import leaves_below
from iowarden.rules.smart.plausibility import virtual_device

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from iowarden.collectors.block.block_devices import Device, Topology
    from iowarden.collectors.block.scsi import ScsiTopology
    from iowarden.collectors.md.mdstat import MdArray
    from iowarden.collectors.procfs.tasks import BlockedTask

HOST = ""
"""The object of a guard that holds for the whole host."""
BOOT_SECONDS = 120.0
RESUME_SECONDS = 30.0
"""After a suspend disks spin up, and links and controllers are initialized."""
LOWERED_RATIO = 0.1
"""So much less is the dirty limit than a minute ago: what is above it was written before."""


class Guard(enum.StrEnum):
    """A fact that explains what looks like a fault; in the order in which they are shown."""

    REMOVABLE = "removable"
    VIRTUAL = "virtual"
    MULTIPATH = "multipath"
    DISCARDING = "discarding"
    IN_FLIGHT_LEAKED = "in_flight_leaked"
    SPINNING_UP = "spinning_up"
    REBUILDING = "rebuilding"
    OWN_SCAN = "own_scan"
    AT_LIMIT = "at_limit"
    FROZEN = "frozen"
    TASK_PAUSED = "task_paused"
    NOT_STORAGE = "not_storage"
    WRITER_ONLY = "writer_only"
    LIMIT_LOWERED = "limit_lowered"
    LAPTOP_MODE = "laptop_mode"
    BOOTING = "booting"
    SUSPENDED_MACHINE = "suspended_machine"


class Meaning(NamedTuple):
    """Why a guard explains a stall, and how long a stall or a wait may last that it explains."""

    reason: str
    min_seconds: float = 0.0
    """A shorter one is counted, and no more; 0: the guard permits none."""


MEANINGS: Mapping[Guard, Meaning] = {
    Guard.REMOVABLE: Meaning("removable, and not in /etc/fstab: its pauses harm only its user", 30),
    Guard.VIRTUAL: Meaning("a virtual disk or a LUN: it pauses with its host or fabric", 20),
    # The requests of a path fail over when the path is given up (fast_io_fail_tmo, 5 s by default)
    # or its checker finds it failed (every 5 to 20 s), at the latest when the command times out
    # (30 s). Source: multipath-tools, libmultipath/defaults.h.
    Guard.MULTIPATH: Meaning("a multipath map: its requests fail over to another path", 45),
    # SD_WRITE_SAME_TIMEOUT is 120 s. Source: kernel, drivers/scsi/sd.h.
    Guard.DISCARDING: Meaning("its queue holds discards, which may take minutes", 120),
    Guard.IN_FLIGHT_LEAKED: Meaning("its counter of requests in flight is wrong until reboot"),
    Guard.SPINNING_UP: Meaning("it was idle and may have to spin up", 30),
    Guard.REBUILDING: Meaning("its array synchronizes, checks or rebuilds"),
    Guard.OWN_SCAN: Meaning("iowarden's surface scan reads it"),
    Guard.AT_LIMIT: Meaning("it completes as many requests or bytes a second as it is allowed"),
    # A snapshot freezes a file system, or suspends a device, for seconds on purpose.
    Guard.FROZEN: Meaning("its file system is frozen, or its device suspended", 30),
    Guard.TASK_PAUSED: Meaning("the kernel pauses programs for what they write themselves"),
    Guard.NOT_STORAGE: Meaning("tasks wait for something other than storage"),
    Guard.WRITER_ONLY: Meaning("only programs that write wait, and the disks make progress"),
    Guard.LIMIT_LOWERED: Meaning("the dirty limit was lowered within the last minute"),
    # In laptop mode a disk is spun down between its writes, and has to spin up first.
    Guard.LAPTOP_MODE: Meaning("in laptop mode disks sleep between writes", 30),
    Guard.BOOTING: Meaning("the host booted less than two minutes ago"),
    Guard.SUSPENDED_MACHINE: Meaning("the host was suspended until just now", RESUME_SECONDS),
}

_CARD = re.compile(r"mmcblk\d+")
_NETWORK_NAME = re.compile(r"(nbd|rbd)\d+")
_VIRTUAL_DRIVERS = frozenset({"scsifront", "storvsc_host", "virtio_scsi", "vmw_pvscsi"})
"""Source: proc_name in kernel 6.12, xen-scsifront.c, storvsc_drv.c, virtio_scsi.c, vmw_pvscsi.c."""
_DISCARDS = (
    "blkdev_issue_discard",  # block/blk-lib.c
    "__blkdev_issue_discard",
    "blkdev_issue_secure_erase",
    "blkdev_issue_zeroout",
    "blk_ioctl_discard",  # block/ioctl.c: blkdiscard, mkfs
    "blk_ioctl_secure_erase",
    "blk_ioctl_zeroout",
    "ext4_trim_",  # fs/ext4/mballoc.c: fstrim
    "ext4_try_to_trim_range",
    "ext4_issue_discard",  # mount option 'discard'
    "xfs_ioc_trim",  # fs/xfs/xfs_discard.c
    "xfs_trim_",
    "xfs_discard_extents",
    "btrfs_trim_fs",  # fs/btrfs/extent-tree.c
    "btrfs_issue_discard",
    "btrfs_discard_extent",
    "f2fs_trim_fs",  # fs/f2fs/segment.c
    "f2fs_issue_discard",
    "fat_trim_fs",  # fs/fat/fatent.c
)
"""A task with one of these in its stack waits for a discard."""
_DISCARD_CALLS = (
    "blk_ioctl_",
    "blkdev_fallocate",  # block/fops.c
    "ext4_trim_fs",
    "xfs_ioc_trim",
    "btrfs_trim_fs",
    "f2fs_trim_fs",
    "fat_trim_fs",
)
"""A program with one of these was started to discard; else a file system does it meanwhile."""
_SYNCED = frozenset({"resync", "recover", "check", "repair", "reshape"})
"""Values of sync_action. Source: kernel, admin-guide/md.rst."""


def is_removable(device: Device, scsi: ScsiTopology | None, topology: Topology) -> bool:
    """Whether a device can be pulled: a USB disk or stick, a disc, a card.

    A card is an SD card; built-in eMMC has boot partitions (kernel, drivers/mmc/core/mmc.c).
    """
    host = None if scsi is None else scsi.hosts.get(device.host or "")
    is_card = bool(_CARD.fullmatch(device.name)) and f"{device.name}boot0" not in topology.devices
    return bool(device.removable) or is_card or (host is not None and host.usb)


def is_virtual(device: Device, scsi: ScsiTopology | None) -> bool:
    """Whether a disk belongs to a hypervisor, or is attached by Fibre Channel, iSCSI or network."""
    if _NETWORK_NAME.fullmatch(device.name) or virtual_device(device):
        return True
    host = None if scsi is None else scsi.hosts.get(device.host or "")
    return host is not None and (host.fabric or host.driver in _VIRTUAL_DRIVERS)


def is_discard(task: BlockedTask) -> bool:
    """Whether a task waits for a discard: one that takes long completes nothing meanwhile."""
    return any(name.startswith(_DISCARDS) for name in (task.wait_channel, *task.stack))


def requests_discard(task: BlockedTask) -> bool:
    """Whether a program waits for a discard that it requested: it is the cause of what waits."""
    return is_discard(task) and any(name.startswith(_DISCARD_CALLS) for name in task.stack)


def discarding(tasks: Iterable[BlockedTask], topology: Topology) -> frozenset[str]:
    """Return the leaf devices below those for whose discards tasks wait."""
    wholes = (topology.whole(task.waits_at) for task in tasks if task.waits_at and is_discard(task))
    return frozenset(
        leaf for device in wholes if device for leaf in leaves_below(topology, device.name)
    )


def rebuilding(arrays: Mapping[str, MdArray] | None, topology: Topology) -> frozenset[str]:
    """Return the leaf devices below arrays that synchronize, check or rebuild."""
    syncing = [name for name, each in (arrays or {}).items() if each.sync_action in _SYNCED]
    return frozenset(leaf for name in syncing for leaf in leaves_below(topology, name))


def of_host(
    uptime_seconds: float, *, laptop_mode: bool, limit_drop_ratio: float, is_writer_only: bool
) -> Iterator[Guard]:
    """Yield the guards of the whole host but that of a suspend."""
    if is_writer_only:
        yield Guard.WRITER_ONLY
    if limit_drop_ratio >= LOWERED_RATIO:
        yield Guard.LIMIT_LOWERED
    if laptop_mode:
        yield Guard.LAPTOP_MODE
    if uptime_seconds < BOOT_SECONDS:
        yield Guard.BOOTING


def min_seconds(guards: Collection[Guard]) -> float:
    """Return the longest stall that guards explain, 0 without any."""
    return max((MEANINGS[guard].min_seconds for guard in guards), default=0.0)
