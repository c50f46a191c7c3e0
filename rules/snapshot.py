"""Snapshot: the current data of all data sources, the input of signals and advice."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.block.bdi import Bdi
    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.block.device_mapper import MappedDevice
    from iowarden.collectors.block.diskstats import BlockIo
    from iowarden.collectors.block.enclosure import EnclosureSlot
    from iowarden.collectors.block.hwmon import Temperature
    from iowarden.collectors.block.queue import Queue
    from iowarden.collectors.block.scsi import ScsiTopology
    from iowarden.collectors.block.udev import UdevDevice
    from iowarden.collectors.competing_monitors import Monitors
    from iowarden.collectors.device_mapper.target_status import TargetStatus
    from iowarden.collectors.filesystem.backups import DirectoryState
    from iowarden.collectors.filesystem.btrfs import BtrfsDevice
    from iowarden.collectors.filesystem.btrfs_scrub import BtrfsScrub
    from iowarden.collectors.filesystem.ext4 import Ext4
    from iowarden.collectors.filesystem.mountinfo import Mounts
    from iowarden.collectors.filesystem.statfs import Filesystems
    from iowarden.collectors.kernel.hung_task import HungTask
    from iowarden.collectors.kernel.numa import NumaNode
    from iowarden.collectors.kernel.thp import TransparentHugepage
    from iowarden.collectors.kernel.uname import Uname
    from iowarden.collectors.kmsg.kernel_log import KernelLog
    from iowarden.collectors.md.mdstat import MdArray
    from iowarden.collectors.procfs.clock import ClockReading
    from iowarden.collectors.procfs.loadavg import Loadavg
    from iowarden.collectors.procfs.meminfo import Meminfo
    from iowarden.collectors.procfs.pressure import Pressures
    from iowarden.collectors.procfs.process_io import Sweep
    from iowarden.collectors.procfs.stat import Stat
    from iowarden.collectors.procfs.sysctl_vm import VmSysctl
    from iowarden.collectors.procfs.tasks import BlockedTasks
    from iowarden.collectors.procfs.vmstat import Vmstat
    from iowarden.collectors.raid.controller import Controllers
    from iowarden.collectors.smart.drive import Disks
    from iowarden.collectors.zfs.arc import ArcStats
    from iowarden.collectors.zfs.pool_state import PoolState
    from iowarden.collectors.zfs.txgs import ZfsWrites
    from iowarden.collectors.zfs.vdevs import PoolDevices


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The value of each data source that signals or advice use, by the name of the data source.

    None: it has no data that may be used now, because it does not exist or its last data are too
    old.
    """

    meminfo: Meminfo | None = None
    vmstat: Vmstat | None = None
    pressure: Pressures | None = None
    stat: Stat | None = None
    diskstats: Mapping[str, BlockIo] | None = None
    clock: ClockReading | None = None
    vm_sysctl: VmSysctl | None = None
    numa: tuple[NumaNode, ...] | None = None
    hung_task: HungTask | None = None
    loadavg: Loadavg | None = None
    thp: TransparentHugepage | None = None
    uname: Uname | None = None
    udev: Mapping[str, UdevDevice] | None = None
    block: Topology | None = None
    dm: Mapping[str, MappedDevice] | None = None
    tasks: BlockedTasks | None = None
    io_sweep: Sweep | None = None
    monitors: Monitors | None = None
    queue: Mapping[str, Queue] | None = None
    scsi: ScsiTopology | None = None
    md: Mapping[str, MdArray] | None = None
    bdi: Mapping[str, Bdi] | None = None
    mounts: Mounts | None = None
    hwmon: tuple[Temperature, ...] | None = None
    ext4: Mapping[str, Ext4] | None = None
    btrfs: tuple[BtrfsDevice, ...] | None = None
    btrfs_scrub: Mapping[str, BtrfsScrub] | None = None
    zfs_arc: ArcStats | None = None
    zfs: Mapping[str, PoolState] | None = None
    zfs_txgs: ZfsWrites | None = None
    zfs_vdevs: Mapping[str, PoolDevices] | None = None
    dm_targets: tuple[TargetStatus, ...] | None = None
    enclosure: tuple[EnclosureSlot, ...] | None = None
    filesystem: Filesystems | None = None
    backups: tuple[DirectoryState, ...] | None = None
    smart: Disks | None = None
    kernel_log: KernelLog | None = None
    controllers: Controllers | None = None

    @property
    def available_bytes(self) -> int | None:
        """Memory that programs can get without swapping; None: not known.

        The cache of ZFS counts: the kernel's estimate, which exists since 3.14, has it as used.
        """
        if self.meminfo is None or self.meminfo.available_bytes is None:
            return None
        evictable = 0 if self.zfs_arc is None else self.zfs_arc.evictable_bytes
        return min(self.meminfo.available_bytes + evictable, self.meminfo.total_bytes)


SOURCES = frozenset(field.name for field in fields(Snapshot))
