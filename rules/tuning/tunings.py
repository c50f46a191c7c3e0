"""Conditions that a setting of the kernel may cause or end: which setting, which signal. Pure.

Texts, commands and trade-offs are those of the rules with these conditions.
Sources: kernel, admin-guide/sysctl/vm.rst, block/queue-sysfs.rst, admin-guide/mm/transhuge.rst.
"""

from __future__ import annotations

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.conditions.condition import Condition


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting: its metric, its name for people; of an info metric the label with its value."""

    metric: str
    name: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Tuning:
    """The settings that a condition depends on, and the signals in which it shows; 0 is best."""

    settings: tuple[Setting, ...] = ()
    signals: tuple[str, ...] = ()


_DIRTY = tuple(
    Setting(f"iowarden_vm_dirty_{name}", f"vm.dirty_{shown}")
    for name, shown in (
        ("ratio_percent", "ratio"),
        ("background_ratio_percent", "background_ratio"),
        ("bytes", "bytes"),
        ("background_bytes", "background_bytes"),
    )
)
_EXPIRE = (
    Setting("iowarden_vm_dirty_expire_seconds", "vm.dirty_expire_centisecs, in seconds"),
    Setting("iowarden_vm_dirty_writeback_seconds", "vm.dirty_writeback_centisecs, in seconds"),
)
_ZONE = Setting("iowarden_vm_zone_reclaim_mode", "vm.zone_reclaim_mode")
_SWAPPINESS = Setting("iowarden_vm_swappiness", "vm.swappiness")
_THP = Setting("iowarden_thp_setting", "transparent_hugepage/defrag", "defrag")
_RECLAIM = (_ZONE, Setting("iowarden_vm_min_free_bytes", "vm.min_free_kbytes, in bytes"), _THP)
_AHEAD = (Setting("iowarden_device_read_ahead_bytes", "queue/read_ahead_kb, in bytes"),)
_SIZE = (Setting("iowarden_device_max_sectors_bytes", "queue/max_sectors_kb, in bytes"),)
_DEPTH = (
    Setting("iowarden_device_queue_depth", "device/queue_depth"),
    Setting("iowarden_device_queue_requests", "queue/nr_requests"),
)
_DIRECT = "iowarden_direct_reclaims_per_second"
_FULL_DRAIN = "iowarden_writeback_full_drain_seconds"

TUNINGS = {
    Condition.DIRTY_LIMIT_TOO_LARGE: Tuning(_DIRTY, (_FULL_DRAIN,)),
    Condition.DIRTY_RATIO_TOO_LARGE: Tuning(_DIRTY, (_FULL_DRAIN,)),
    Condition.RECLAIM_STALL: Tuning(_RECLAIM, ("iowarden_reclaim_stall_ratio",)),
    Condition.DIRECT_RECLAIM: Tuning(_RECLAIM, (_DIRECT,)),
    Condition.PAGE_CACHE_DROPPED: Tuning((), ("iowarden_recent_page_cache_drops",)),
    Condition.ZONE_RECLAIM_ENABLED: Tuning((_ZONE,), ("iowarden_reclaim_stall_ratio", _DIRECT)),
    Condition.SWAP: Tuning((_SWAPPINESS,), ("iowarden_swapping_out_seconds",)),
    Condition.MEMORY_SETTING: Tuning((_SWAPPINESS, _THP), (_DIRECT,)),
    Condition.BDFLUSH: Tuning(),
    Condition.DIRTY_EXPIRE: Tuning(_EXPIRE),
    Condition.READ_AHEAD_TOO_SMALL: Tuning(_AHEAD, ("iowarden_device_read_ahead_capped_seconds",)),
    Condition.READ_AHEAD_BELOW_STRIPE: Tuning(_AHEAD, ("iowarden_device_read_ahead_below_stripe",)),
    Condition.PHANTOM_READS: Tuning(_AHEAD, ("iowarden_device_phantom_reads_seconds",)),
    Condition.REQUESTS_ABOVE_CHUNK: Tuning(
        _SIZE, ("iowarden_device_requests_above_chunk_seconds",)
    ),
    Condition.REQUESTS_SPLIT: Tuning(_SIZE, ("iowarden_device_requests_split_seconds",)),
    Condition.MISALIGNMENT: Tuning(),
    Condition.QUEUE_DEPTH_TOO_LARGE: Tuning(_DEPTH, ("iowarden_scsi_host_queue_depth_ratio",)),
    Condition.QUEUE_STARVATION: Tuning(_DEPTH, ("iowarden_scsi_host_starved_seconds",)),
    Condition.SCHEDULER_UNSUITABLE: Tuning(
        (Setting("iowarden_device_scheduler", "queue/scheduler", "scheduler"),),
        ("iowarden_device_scheduler_unsuitable",),
    ),
    Condition.STRICTATIME: Tuning(),
    Condition.CONTROLLER_WRITE_CACHE: Tuning(),
}
"""All conditions about tuning; without settings or signals nothing is compared before and after."""
SETTINGS = {setting.metric: setting for tuning in TUNINGS.values() for setting in tuning.settings}
SIGNALS = {
    signal: frozenset(
        setting
        for tuning in TUNINGS.values()
        if signal in tuning.signals
        for setting in tuning.settings
    )
    for signal in dict.fromkeys(name for tuning in TUNINGS.values() for name in tuning.signals)
}
"""By signal, the settings that it depends on."""
