"""What each alert is about: kind of fault and layer, for folding, timing and order. Pure.

A table by the exact name of a shipped alert, or the exact kind of an event; labels of a user's rule
mean nothing here. A user's alert is Fault.OTHER: an incident of its own object, explained by
nothing and explaining nothing. So is one about a backup job, whose directory is on no known disk.
"""

from __future__ import annotations

import enum
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.conditions.condition import Condition

if TYPE_CHECKING:
    from collections.abc import Mapping


class Layer(enum.IntEnum):
    """Where a fault is, deepest first: a deeper fault explains those above it."""

    POWER = 0
    ADAPTER = 1
    PATH = 2
    DISK = 3
    VOLUME = 4
    """Of a controller, or a multipath map."""
    ARRAY = 5
    MAPPED = 6
    """LV, crypt, loop and other device-mapper devices."""
    FILE_SYSTEM = 7
    NETWORK = 8
    HOST = 9


class Fault(enum.StrEnum):
    """Kind of fault. With its object it is what a mail reports once."""

    GONE = "gone"
    FAILED = "failed"
    HANGS = "hangs"
    SLOW = "slow"
    STOPPED = "stopped"
    EXHAUSTED = "no redundancy left"
    DEGRADED = "degraded"
    LOST = "data lost"
    READ_ONLY = "read-only"
    FULL = "full"
    SUSPENDED = "suspended"
    ERRORS = "errors"
    """Errors that were reported of it, or signs that it fails."""
    MARKED_FAULTY = "marked faulty"
    """An array gave it up, for an error or by command: a spare may have its place since, and the
    array lists it until it is removed."""
    WORN = "worn"
    HOT = "hot"
    UNPROTECTED = "unprotected"
    """A write cache without a battery, or one that is off because of that."""
    STALL = "write stall"
    """Also stall without progress, and of memory reclaim."""
    HUNG = "hung tasks"
    PRESSURE = "pressure"
    RESETS = "resets and retries"
    SUPERBLOCK = "superblock not written"
    UNREADABLE = "not readable"
    """SMART data, what a collector reads, or a line of the kernel's log that is not recognized."""
    KILLED = "programs killed"
    """By the kernel, for lack of memory: no fault of storage, and no symptom of one."""
    SETTING = "setting"
    ITSELF = "fault of iowarden"
    OTHER = "other"


NONE_LEFT, LEFT = "none", "left"
"""Of the redundancy of what an alert is about: whether something holds the data a second time."""
SYMPTOMS = frozenset(
    (
        Fault.STALL,
        Fault.HUNG,
        Fault.PRESSURE,
        Fault.RESETS,
        Fault.SUPERBLOCK,
        Fault.UNREADABLE,
    )
)
"""No cause of anything; in an incident that has a cause, no reason for a mail."""
CAUSES = frozenset(Fault) - SYMPTOMS - {Fault.KILLED, Fault.SETTING, Fault.ITSELF, Fault.OTHER}
THREATS = frozenset((Fault.STOPPED, Fault.EXHAUSTED))
"""Data are at risk now, and what was advised before may destroy them. See `Meaning.threatens`."""
TOO_FEW_MEMBERS = frozenset((Fault.DEGRADED, Fault.EXHAUSTED, Fault.STOPPED))
"""Of an array, or of what else has several copies: members are missing."""
GONE_OR_FAILED = frozenset((Fault.GONE, Fault.FAILED))
"""One disk can make the others of its adapter hang; it does not make them disappear or fail."""
LOST_TO_ARRAY = GONE_OR_FAILED | {Fault.MARKED_FAULTY}
"""A disk with one of these is no longer a member of its array."""
BLOCKS_PROGRAMS = frozenset(
    (Fault.HANGS, Fault.SUSPENDED, Fault.GONE, Fault.FAILED, Fault.STOPPED, Fault.READ_ONLY)
)
"""What makes programs of the host wait, see `Meaning.blocks_programs`."""
RETRIED = frozenset({"connection_error"})
"""Events that are harmless where it works again soon, which no line reports of iSCSI and Ceph."""
FAILOVERS = frozenset({"MultipathPathLost"})
"""Alerts that are no news once they ended before a mail was due: requests went over other paths."""
HARMS = frozenset({"Freeze"})
"""Alerts that programs are blocked which did not cause the load."""
WAITED_FOR = frozenset({"DeviceSuspended"})
"""Alerts whose summary shows, where they are urgent, how many tasks wait for their device."""
UNWRITTEN = frozenset({"WriteStall"})
"""Alerts about unwritten data that all disks of the host share."""
ERRORS_OF_DEVICES: Mapping[str, str] = MappingProxyType(
    {"BtrfsErrors": "fs_device_errors", "BtrfsReadErrors": "fs_device_errors"}
)
"""By alert about a counter of a file system's device, the event whose line names that device: sysfs
has its number alone. Source: kernel, fs/btrfs/volumes.c, btrfs_dev_stat_inc_and_print."""
UNREADABLE_SECTORS = frozenset(
    "block_medium_error scsi_medium_error ata_medium_error nvme_medium_error".split()
)
"""Events of sectors that stay unreadable when the disk answers again."""
WRONG_CONTENT = frozenset(
    "fs_checksum_error fs_checksum_corrected fs_corruption fs_errors_remembered"
    " dm_checksum_error".split()
)
"""Events of content that was wrong on a medium: a copy that was right does not repair the medium.
A file system remembers its errors until it is checked."""
WINDOWED = frozenset((Fault.HUNG, Fault.RESETS))
"""Alerts of these count what happened in a window: it lasts longer than the fault."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an alert of a name is.

    Fields: `layer` is the least deep that it can be: that of its object may be less deep;
    `lasting`: it may have been so for years when iowarden first sees it.
    """

    fault: Fault
    layer: Layer = Layer.HOST
    lasting: bool = False

    @property
    def symptom(self) -> bool:
        """Whether it is no cause of anything."""
        return self.fault in SYMPTOMS

    @property
    def of_file_system(self) -> bool:
        """Whether a file system failed: it is the matter of the device it is on."""
        return self.layer is Layer.FILE_SYSTEM and self.fault is not Fault.FULL

    @property
    def lasts(self) -> bool:
        """Whether it blocks programs, or slows them down, for as long as it lasts."""
        return self.fault in {Fault.HANGS, Fault.SUSPENDED, Fault.SLOW}

    @property
    def blocks_programs(self) -> bool:
        """Whether it makes programs of the host wait: it explains its stalls and hung tasks.

        The kernel logs once that a server does not respond: its mounts hang until it does.
        """
        away = self.layer is Layer.NETWORK and self.fault is Fault.ERRORS
        return away or self.fault in BLOCKS_PROGRAMS

    @property
    def ends_by_line(self) -> bool:
        """Whether only a line reports its end: a server that does not respond."""
        return self.layer is Layer.NETWORK and self.blocks_programs

    @property
    def of_itself(self) -> bool:
        """Whether it is about iowarden and not about the machine."""
        unread = self.fault is Fault.UNREADABLE and self.layer is Layer.HOST
        return self.fault is Fault.ITSELF or unread

    @property
    def threatens(self) -> bool:
        """Whether data are at risk now: reported at once, also in an open incident."""
        broken = self.fault in {Fault.FAILED, Fault.READ_ONLY}
        return self.fault in THREATS or (broken and self.layer is Layer.FILE_SYSTEM)

    @property
    def urgent(self) -> bool:
        """Whether programs are blocked now, or data are at risk: the mail is not delayed."""
        return self.threatens or self.fault in {Fault.HANGS, Fault.SUSPENDED, Fault.GONE}


OTHER = Meaning(Fault.OTHER)
_A, _D, _V, _R, _M, _F = (
    Layer.ADAPTER,
    Layer.DISK,
    Layer.VOLUME,
    Layer.ARRAY,
    Layer.MAPPED,
    Layer.FILE_SYSTEM,
)


def _all(
    names: str, fault: Fault, layer: Layer = Layer.HOST, *, lasting: bool = False
) -> dict[str, Meaning]:
    return dict.fromkeys(names.split(), Meaning(fault, layer, lasting))


def _table(*parts: dict[str, Meaning]) -> dict[str, Meaning]:
    return {name: each for part in parts for name, each in part.items()}


RULES = _table(
    # programs wait
    _all("DeviceHang", Fault.HANGS, _D),
    _all("DeviceSuspended", Fault.SUSPENDED, _M),
    _all("DiskSlow", Fault.SLOW, _D),
    _all(
        "Freeze WriteStall ReclaimStall",
        Fault.STALL,
    ),
    _all("HungTask HungTaskWarningsExhausted", Fault.HUNG),
    _all("WriteThrottle DirectReclaim PageCacheDropped", Fault.PRESSURE),
    _all("ReadAheadTooSmall DiskQueueStarvation PhantomReads", Fault.PRESSURE, _D),
    _all("ScsiTimeouts", Fault.RESETS, _D),
    # disks
    _all("DeviceRemoved", Fault.GONE, _D, lasting=True),
    _all("DiskMissing ControllerDiskMissing", Fault.GONE, _D),
    _all("DiskOffline", Fault.FAILED, _D, lasting=True),
    _all("DiskReadOnly", Fault.READ_ONLY, _D, lasting=True),
    _all("DiskSizeDecreased DiskSizeIncreased", Fault.ERRORS, _D, lasting=True),
    _all("ControllerDiskFailed", Fault.FAILED, _D),
    _all(
        "ControllerDiskFailing ControllerDiskNeedsAttention ControllerDiskErrors DiskFailing"
        " DiskAttributeFailed DiskAttributeFailedInPast DiskErrorsIncreased DiskPendingSectors"
        " DiskReallocatedSectorsIncreased DiskReallocatedSectorsHigh DiskCommandTimeouts"
        " DiskReallocationEvents DiskErrorLogIncreased DiskErrorsInBaseline"
        " ControllerDiskErrorsInBaseline DiskInterfaceCrcErrors"
        " DiskInterfaceCrcErrorsInBaseline DiskNormalizedValueDropped DiskNormalizedValueLow"
        " DiskSelfTestFailed DiskSelfTestOverdue DiskSelfTestRefused"
        " DiskUnscanned DiskOfflineCollectionNeverStarted"
        " DiskGrownDefectsIncreased DiskUncorrectedErrors ScsiDiskWarning NvmeCriticalWarning"
        " NvmeMediaErrorsIncreased NvmePowerLost DiskHeliumLow DiskBackgroundScanErrors",
        Fault.ERRORS,
        _D,
    ),
    _all("NvmeSpareLow DiskEnduranceUsed DiskWearingOut DiskLoadCyclesHigh", Fault.WORN, _D),
    _all("DiskTemperatureHigh DiskTemperatureAboveLimit NvmeOverheated", Fault.HOT, _D),
    _all(
        "DiskNotMonitored DiskNeverMonitored ControllerUnreadable ControllerPartlyUnreadable"
        " SmartImplausible SmartCountersImplausible SmartPartlyUnreadable",
        Fault.UNREADABLE,
        _D,
    ),
    _all("ProbeProgramStuck", Fault.UNREADABLE, _A),
    # controllers
    _all("ControllerMissing", Fault.GONE, _A, lasting=True),
    _all("ControllerImpaired", Fault.FAILED, _A, lasting=True),
    _all("ControllerSensorFault", Fault.ERRORS, _A),
    _all(
        "ControllerCacheUnprotected ControllerCacheNeverProtected ControllerDiskCacheEnabled"
        " ControllerWriteCacheDisabled ControllerCacheWithoutBattery ControllerBatteryFault"
        " ControllerBatteryBusy",
        Fault.UNPROTECTED,
        _A,
        lasting=True,
    ),
    # volumes and arrays
    _all("MultipathAllPathsLost", Fault.STOPPED, _V, lasting=True),
    _all("MultipathPathLost", Fault.DEGRADED, _V, lasting=True),
    _all("ControllerArrayFailed", Fault.STOPPED, _V, lasting=True),
    _all("ControllerArrayDegraded", Fault.DEGRADED, _V, lasting=True),
    _all("ControllerArrayFailing ControllerArrayNeedsAttention", Fault.ERRORS, _V, lasting=True),
    _all("ControllerArrayRebuilding ControllerDiskRebuilding", Fault.SETTING, _V, lasting=True),
    _all("MdInactive MdBroken", Fault.STOPPED, _R, lasting=True),
    _all("MdDegraded MdDegradedFurther", Fault.DEGRADED, _R, lasting=True),
    _all("MdMemberFaulty", Fault.MARKED_FAULTY, _D, lasting=True),
    _all("MdReadOnly", Fault.READ_ONLY, _R, lasting=True),
    _all("MdMemberBadBlocks", Fault.LOST, _R, lasting=True),
    _all(
        "MdMemberErrors MdMemberWantReplacement MdMemberReadErrors MdMismatches",
        Fault.ERRORS,
        _R,
        lasting=True,
    ),
    _all("MdSyncRunning MdCheckOverdue ZfsScrubOverdue", Fault.SETTING, _R, lasting=True),
    _all("ZfsPoolSuspended", Fault.SUSPENDED, _R, lasting=True),
    _all("ZfsPoolFailed", Fault.STOPPED, _R, lasting=True),
    _all("ZfsPoolDegraded ZfsVdevFailed ZfsVdevOffline", Fault.DEGRADED, _R, lasting=True),
    _all("ZfsPoolNoRedundancy", Fault.EXHAUSTED, _R, lasting=True),
    _all("ZfsVdevErrors", Fault.ERRORS, _R, lasting=True),
    _all("ZfsTxgSyncLong", Fault.STALL, _R),
    _all("ZfsDataErrors", Fault.LOST, _R, lasting=True),
    _all("ZfsPoolFull ZfsPoolFillingUp", Fault.FULL, _R, lasting=True),
    # device-mapper
    # Writers wait; what was advised while it filled up is still right.
    _all("ThinPoolOutOfSpace", Fault.SUSPENDED, _M, lasting=True),
    _all("ThinPoolFailed DmRaidFailed", Fault.STOPPED, _M, lasting=True),
    _all("SnapshotMergeFailed MappedTargetFailed", Fault.FAILED, _M, lasting=True),
    _all("SnapshotInvalid", Fault.LOST, _M, lasting=True),
    _all("DmRaidDegraded", Fault.DEGRADED, _M, lasting=True),
    _all("DmMismatches DmStripeErrors", Fault.ERRORS, _M, lasting=True),
    _all(
        "ThinPoolFull ThinPoolFillingUp SnapshotFull MappedTargetFull",
        Fault.FULL,
        _M,
        lasting=True,
    ),
    _all("MultipathGroupChanges", Fault.RESETS, _V),
    _all("MultipathNonOptimized", Fault.SLOW, _V),
    # file systems
    _all(
        "FilesystemFull FilesystemFillingUp FilesystemInodesFull FilesystemInodesFillingUp",
        Fault.FULL,
        _F,
        lasting=True,
    ),
    _all("FilesystemErrors", Fault.FAILED, _F, lasting=True),
    _all("FilesystemReadOnly", Fault.READ_ONLY, _F, lasting=True),
    _all("FilesystemUnexpectedReadOnly FilesystemBecameReadOnly", Fault.ERRORS, _F, lasting=True),
    _all(
        "FilesystemErrorsInBaseline FilesystemBadBlocks BtrfsErrors BtrfsReadErrors"
        " BtrfsErrorsInBaseline",
        Fault.ERRORS,
        _F,
        lasting=True,
    ),
    _all("BtrfsDeviceMissing", Fault.DEGRADED, _F, lasting=True),
    # backups and archived logs
    _all("BackupOld", Fault.OTHER, _F, lasting=True),
    _all("BackupLimitUnknown BackupSlow BackupShrunk RetentionShort", Fault.OTHER, _F),
    _all("BackupUnreadable", Fault.UNREADABLE, _F),
    # settings
    _all(
        "MountStrictAtime Swapping DirtyRatioTooLarge ZoneReclaimEnabled NoSwap"
        " BdflushPresent DirtyWritebackDisabled DirtyExpireTooLong ThpDefragAlways SwappinessZero"
        " CompetingMonitor CompetingMonitorAreca"
        " CompetingMonitorThreeware SchedulerUnsuitable PartitionMisaligned DeviceMisaligned"
        " RequestsAboveChunk RequestsSplit QueueDepthTooLarge ReadAheadBelowStripe",
        Fault.SETTING,
        lasting=True,
    ),
    _all("DirtyLimitTooLarge", Fault.SETTING),
    # iowarden
    _all("CollectorStale", Fault.UNREADABLE),
    _all(
        "NoDiskMonitored StateNotDurable StateUnreadable NotificationUnsent"
        " NotificationRefused RuleEvaluationFailing RuleEvaluationLate ConfigReloadFailed"
        " HttpCertificateExpires RuleFileRefused LogMessagesLost UeventsLost ProbeDown",
        Fault.ITSELF,
    ),
)
"""By name of the alert; all that come with iowarden."""

CLASSES: Mapping[str, Meaning] = {
    Condition.HUNG_TASK: Meaning(Fault.HUNG),
    # Beside the freeze that it ends it is news.
    Condition.OOM_KILL: Meaning(Fault.KILLED),
    Condition.COMMAND_TIMEOUT: Meaning(Fault.RESETS, _D),
    Condition.DISK_FAILING: Meaning(Fault.ERRORS, _D),
    Condition.CONTROLLER_EVENT: Meaning(Fault.ERRORS, _A),
    Condition.IO_ERROR: Meaning(Fault.ERRORS, _D),
    # It explains nothing, and joins what a line that is recognized reports of its object.
    Condition.KERNEL_LINE_UNRECOGNIZED: Meaning(Fault.UNREADABLE),
    Condition.SURFACE_ERROR: Meaning(Fault.ERRORS, _D),
    Condition.SPACE_LOW: Meaning(Fault.FULL, _M),
    Condition.CONTROLLER_WRITE_CACHE: Meaning(Fault.UNPROTECTED, _A),
    Condition.FILESYSTEM_ERROR: Meaning(Fault.FAILED, _F),
    Condition.FILESYSTEM_READ_ONLY: Meaning(Fault.READ_ONLY, _F),
    Condition.FILESYSTEM_SHUTDOWN: Meaning(Fault.FAILED, _F),
    Condition.BTRFS_ERROR: Meaning(Fault.ERRORS, _F),
    Condition.RAID_ARRAY: Meaning(Fault.DEGRADED, _V),
    Condition.ZFS_POOL: Meaning(Fault.SUSPENDED, _R),
    Condition.DEVICE_UNAVAILABLE: Meaning(Fault.GONE, _D),
}
"""Of a kind of event without an own entry, by the condition of its row; all that a row may have."""

LOST_A_DISK = Meaning(Fault.GONE, _D)
"""An adapter reports the loss of one of its disks, without the name."""
EVENTS = _table(
    _all(
        "scsi_offlined nvme_controller_down nvme_controller_dead areca_device_failed",
        Fault.FAILED,
        _D,
    ),
    _all("megaraid_pd_failed megaraid_pd_offline megaraid_pd_hung", Fault.FAILED, _D),
    _all("md_disk_failure", Fault.MARKED_FAULTY, _D),
    _all("hba_dead megaraid_firmware_crashed", Fault.FAILED, _A),
    {"hba_device_removed": LOST_A_DISK, "hba_disk_lost": LOST_A_DISK},
    _all("megaraid_controller_reset 3ware_controller_reset_occurred", Fault.RESETS, _A),
    # what follows an error of the device: requests that were refused, pages that were not written
    _all("lost_write", Fault.LOST, _F),
    _all("fs_no_space fs_stopped_full", Fault.FULL, _F),
    _all("fs_device_missing", Fault.GONE, _F),
    _all("pool_suspended zfs_panic", Fault.SUSPENDED, _R),
    _all("swap_read_error", Fault.FAILED, _F),
    _all("swap_write_error", Fault.ERRORS, _F),
    _all("buffer_io_error fs_device_errors fs_errors_remembered", Fault.ERRORS, _F),
    _all("block_offline scsi_rejected", Fault.RESETS, _D),
    _all("fs_checksum_error fs_checksum_corrected fs_corruption", Fault.ERRORS, _F),
    _all("block_beyond_end 3ware_drive_inserted", Fault.ERRORS, _D),
    _all("md_super_error", Fault.SUPERBLOCK, _R),
    _all("md_failed", Fault.STOPPED, _R),
    _all("md_read_uncorrectable", Fault.LOST, _R),
    _all("md_read_corrected md_mismatch", Fault.ERRORS, _R),
    _all("dm_pool_full", Fault.SUSPENDED, _M),
    _all("dm_snapshot_invalid", Fault.LOST, _M),
    _all("dm_checksum_error", Fault.ERRORS, _M),
    _all("dm_metadata_error", Fault.FAILED, _M),
    # adapters' lines, and storage over a network
    _all("driver_message pcie_error pcie_corrected", Fault.ERRORS, _A),
    _all("pcie_not_recovered", Fault.FAILED, _A),
    _all("hba_link_down connection_lost", Fault.GONE, Layer.PATH),
    _all("connection_error dm_path_failed", Fault.RESETS, Layer.PATH),
    _all("network_block_failed", Fault.FAILED, _D),
    _all("nfs_not_responding", Fault.HANGS, Layer.NETWORK),
    _all(
        "nfs_timed_out nfs_responding nfs_error smb_not_responding",
        Fault.ERRORS,
        Layer.NETWORK,
    ),
    _all("fs_warning fs_not_unmounted", Fault.ERRORS, _F),
    _all(
        "areca_raidset_failed areca_volume_failed areca_incomplete_raid_discovered"
        " 3ware_unit_inoperable megaraid_vd_offline",
        Fault.STOPPED,
        _V,
    ),
    _all(
        "megaraid_cache_lost megaraid_punctured megaraid_medium_error_uncorrectable"
        " megaraid_double_medium_errors 3ware_cache_synchronization_failed_some_data_lost"
        " areca_lost_rebuilding_migration_lba",
        Fault.LOST,
        _V,
    ),
)
"""By kind of event, where the condition of its row is not specific enough."""


SUMS_UP = frozenset({"ControllerImpaired"})
"""Shipped alerts that unless critical only summarise that a component is not ok; other alerts name
it."""
SHORT = frozenset(
    "MdDegraded MdDegradedFurther ControllerArrayDegraded DmRaidDegraded ZfsPoolDegraded".split()
)
"""Shipped alerts about missing members of an array, a RAID volume or a pool."""
TIMED = frozenset({"DeviceHang", "DeviceSuspended", "DiskSlow", "ProbeProgramStuck"})
"""Shipped alerts whose value is for how many seconds it has been so."""


def meaning(
    name: str, condition: str = "", *, event: bool = False, redundancy: str = ""
) -> Meaning:
    """Return what an alert of a rule is, by its name; of an event by its kind, then `condition`.

    `redundancy` is NONE_LEFT if the object has none left: the fault is then EXHAUSTED.
    """
    found = RULES.get(name, OTHER)
    if event:
        found = EVENTS.get(name) or CLASSES.get(condition, OTHER)
    if redundancy == NONE_LEFT and found is not OTHER:
        return replace(found, fault=Fault.EXHAUSTED)
    return found
