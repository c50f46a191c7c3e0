"""Metrics in words, for mails: what a value is called, its unit, its threshold. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.quantity import quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX = "iowarden_"
_TITLES: Mapping[str, str] = {
    "backup_age_seconds": "age of the newest backup",
    "backup_bytes": "size of the backups",
    "backup_files": "files of the backup",
    "backup_readable": "directory readable",
    "bdi_strict_limit": "strict limit",
    "btrfs_device_missing": "device missing",
    "config_last_reload_successful": "last reload of the configuration successful",
    "controller_array_disk_cache_enabled": "caches of its disks enabled",
    "controller_array_write_cache_configured_enabled": "write cache configured",
    "controller_array_write_cache_enabled": "write cache enabled",
    "controller_battery_ok": "battery in order",
    "controller_missing": "controller missing",
    "controller_state": "controller state",
    "device_became_read_only": "became read-only",
    "device_hang_seconds": "no request completed for",
    "device_not_running_seconds": "not in state 'running' for",
    "device_offline": "offline",
    "device_queue_dominant": "fills the queue of its adapter",
    "device_read_bytes_per_second": "reads",
    "device_read_latency_seconds": "mean time of a read",
    "device_read_only": "read-only",
    "device_reads_completed_total": "reads completed since boot",
    "device_read_write_ratio": "read, as a share of what was written",
    "device_reads_per_second": "read requests",
    "device_removed": "removed",
    "device_slow_latency_seconds": "mean time of a request",
    "device_slow_points": "score of slow 10 s intervals, 1 to 5 each (warning from 30)",
    "device_starved": "starved",
    "device_timeout_seconds": "timeout of a request",
    "device_unrequested_reads_ratio": "reads that no program requested",
    "device_utilization_ratio": "busy",
    "device_write_bandwidth_bytes_per_second": "write speed",
    "device_write_latency_seconds": "mean time of a write",
    "device_writes_completed_total": "writes completed since boot",
    "device_written_bytes_per_second": "writes",
    "direct_reclaims_per_second": "direct reclaims of memory",
    "disk_last_poll_age_seconds": "SMART data last read, ago",
    "disk_not_monitored": "not monitored",
    "disk_temperature_celsius": "temperature",
    "disks": "disks",
    "dm_full_in_seconds": "full in",
    "dm_leg_state": "leg",
    "dm_mismatches": "mismatches",
    "dm_path_group_changes": "changes of the group of paths within an hour",
    "dm_state": "state",
    "dm_thin_increase_bytes": "increase of the thin volume within 6 h",
    "dm_thin_mapped_bytes": "used by the thin volume",
    "dm_used_ratio": "used",
    "ext4_baseline_errors": "errors when first seen (baseline)",
    "ext4_errors_since_baseline": "new errors",
    "ext4_errors_total": "errors in the superblock",
    "filesystem_available_bytes": "available",
    "filesystem_files": "inodes",
    "filesystem_files_free": "inodes free",
    "freeze_queued_bytes": "most unwritten data since programs are blocked",
    "freeze_seconds": "programs blocked for at least",
    "freeze_victims": "tasks blocked that are not the cause",
    "filesystem_full_in_seconds": "full in",
    "filesystem_inodes_used_ratio": "inodes used",
    "filesystem_size_bytes": "size",
    "filesystem_used_ratio": "used",
    "host_io_bytes_per_second": "all disks read and write",
    "host_io_median_bytes_per_second": "all disks usually read and write",
    "load1": "load average (1 min)",
    "md_became_read_only": "array became read-only",
    "md_degraded": "array members missing, as md counts",
    "md_member_errors_total": "corrected read errors",
    "md_member_state": "state",
    "md_missing_members": "members missing",
    "md_not_running": "array stopped",
    "md_raid_disks": "members of the complete array",
    "md_state": "array state",
    "md_sync_running_ratio": "rebuild or check done",
    "md_sync_speed_bytes_per_second": "speed of the rebuild or check",
    "memory_available_bytes": "memory available",
    "memory_cached_bytes": "memory used as page cache",
    "memory_free_bytes": "memory free",
    "memory_swap_free_bytes": "swap free",
    "mount_became_read_only": "became read-only",
    "mount_forced_read_only": "made read-only by the kernel",
    "mount_unexpected_read_only": "read-only, but writable in /etc/fstab",
    "multipath_paths": "paths",
    "notifications_oldest_unsent_seconds": "oldest unsent notification waits for",
    "smart_attribute_raw": "raw value",
    "smart_attribute_value": "normalized value",
    "smart_increase": "recent increase",
    "smart_last_increase_timestamp_seconds": "last increase",
    "smart_nvme_available_spare_ratio": "spare blocks left",
    "smart_nvme_critical_warning": "critical warning",
    "smart_nvme_critical_warning_reason": "critical warning",
    "smart_passed": "SMART health self-assessment passed",
    "smart_self_test_failures": "failed self-tests",
    "smart_self_test_first_error_lba": "first sector with an error",
    "smart_temperature_excess_celsius": "above its limit by",
    "smart_weekly_increase": "increase within a week",
    "swapping_out_seconds": "swapping out for",
    "tasks_blocked": "tasks blocked",
    "tasks_running": "tasks running",
    "vmstat_swapped_in_bytes_total": "swapped in since boot",
    "vmstat_swapped_out_bytes_total": "swapped out since boot",
    "writeback_drain_seconds": "time needed to write it",
    "writeback_freerun_bytes": "writers are throttled from",
    "writeback_no_progress_seconds": "no progress for",
    "writeback_queued_bytes": "unwritten data queued",
    "zfs_arc_size_bytes": "memory used as cache by ZFS (ARC)",
    "zfs_pool_fragmentation_ratio": "fragmentation of the free space",
    "zfs_pool_full_in_seconds": "full in",
    "zfs_pool_last_scrub_age_seconds": "last scrub, ago",
    "zfs_pool_last_txg_dirty_bytes": "data of the transaction group before",
    "zfs_pool_last_txg_sync_seconds": "time to write the transaction group before",
    "zfs_pool_txg_sync_seconds": "present transaction group is being written for",
    "zfs_pool_used_ratio": "used",
    "zfs_vdev_slow_requests_total": "requests that took longer than 30 s",
}
"""Where the metric's name without its unit does not read well."""

THRESHOLDS: Mapping[str, tuple[str, str]] = {
    "iowarden_backup_age_seconds": ("iowarden_backup_age_limit_seconds", ", at most {} expected"),
    "iowarden_device_hang_seconds": (
        "iowarden_device_hang_threshold_seconds",
        ", threshold {}",
    ),
    "iowarden_device_slow_latency_seconds": (
        "iowarden_device_reference_latency_seconds",
        ", {} usual",
    ),
    "iowarden_disk_temperature_celsius": (
        "iowarden_disk_temperature_limit_celsius",
        ", limit {}",
    ),
    "iowarden_host_io_bytes_per_second": (
        "iowarden_host_io_median_bytes_per_second",
        ", {} usual",
    ),
    "iowarden_md_missing_members": ("iowarden_md_raid_disks", " of {}"),
    "iowarden_smart_attribute_value": ("iowarden_smart_attribute_threshold", ", threshold {}"),
    "iowarden_smart_nvme_available_spare_ratio": (
        "iowarden_smart_nvme_available_spare_threshold_ratio",
        ", threshold {}",
    ),
    "iowarden_filesystem_available_bytes": ("iowarden_filesystem_size_bytes", " of {}"),
    "iowarden_writeback_queued_bytes": (
        "iowarden_writeback_threshold_bytes",
        " of {} allowed",
    ),
}
"""By metric the metric of its threshold, and the text for it."""
NO_COURSE_THRESHOLD = frozenset({"iowarden_md_missing_members"})

COURSES = frozenset(
    _PREFIX + name
    for name in """
    device_hang_seconds device_requests_in_flight device_slow_latency_seconds
    device_utilization_ratio device_write_bandwidth_bytes_per_second direct_reclaims_per_second
    disk_temperature_celsius filesystem_available_bytes filesystem_used_ratio
    host_io_bytes_per_second memory_available_bytes memory_swap_free_bytes
    md_sync_speed_bytes_per_second notifications_oldest_unsent_seconds swapping_out_seconds
    tasks_blocked writeback_drain_seconds writeback_no_progress_seconds writeback_queued_bytes
    """.split()
)
"""Metrics whose last 15 minutes a mail shows: few per device, each changes within minutes."""

_DOMAINS = {
    "controller_": "",
    "device_": "",
    "disk_": "",
    "md_": "",
    "smart_nvme_": "NVMe ",
    "smart_scsi_": "SCSI ",
    "smart_": "SMART ",
}
"""Beginnings of names, and what a title has in their place."""
_YES_OR_NO = frozenset(
    _PREFIX + name
    for name in """
    backup_readable bdi_strict_limit btrfs_device_missing btrfs_scrub_complete
    competing_monitor_conflict competing_monitor_running config_last_reload_successful
    controller_array_disk_cache_enabled controller_array_write_cache_became_disabled
    controller_array_write_cache_configured_enabled controller_array_write_cache_enabled
    controller_array_write_cache_forced controller_battery_lost controller_battery_ok
    controller_sensor_zero
    controller_disk_missing controller_missing device_became_read_only device_mapper_suspended
    device_misaligned device_offline device_queue_dominant device_read_ahead_below_stripe
    device_read_only device_removed device_rotational device_scheduler_unsuitable
    device_scsi_running device_starved device_write_cache_enabled device_write_mostly
    disk_missing disk_not_monitored enclosure_slot_active enclosure_slot_fault
    enclosure_slot_locate_on enclosure_slot_ok filesystem_device_error filesystem_readonly
    md_became_read_only md_not_running mount_became_read_only mount_emergency
    mount_forced_read_only mount_fstab_read_only mount_read_only
    mount_read_only_by_command mount_strictatime
    dm_queue_if_no_path dm_raid_failed multipath_nonoptimized_only
    mount_unexpected_read_only multipath_path probe_up rule_evaluation_failing scan_running
    scsi_blk_mq scsi_host_fair_queueing smart_counters_implausible smart_enabled smart_failing
    smart_implausible
    smart_normalized_low_at_baseline_peer_ok smart_nvme_critical_warning_reason
    smart_nvme_only_worn smart_passed
    smart_plausible smart_scsi_failure_predicted smart_self_test_refused smart_self_test_running
    storage_waits_seen
    vm_bdflush vm_swap_on_disk
    guard_active
    """.split()
)
REDUNDANT = frozenset({"iowarden_device_removed", "iowarden_md_degraded"})
"""Not shown: the summary includes it, or another metric does."""
_UNITS = re.compile(
    r"_(?:bytes_per_second|per_second|timestamp_seconds|seconds|bytes|ratio|celsius|percent|volts|"
    r"rpm)?(?:_total)?$"
)
_THREE_DIGITS = 100
_ENDINGS = {"_celsius": " °C", "_percent": " %", "_volts": " V", "_rpm": " rpm"}


def title(metric: str) -> str:
    """Return what a metric measures; another exporter's metric keeps its name."""
    name = metric.removeprefix(_PREFIX)
    if name == metric:
        return metric
    known = _TITLES.get(name)
    if known is not None:
        return known
    name = _UNITS.sub("", name).removesuffix("_total")
    for prefix, shown in _DOMAINS.items():
        if name.startswith(prefix):
            name = shown + name.removeprefix(prefix)
            break
    return name.replace("_", " ")


def yes_or_no(metric: str, text: str) -> str:
    """Return a stored value in words, if the metric is 1 or 0 for yes or no."""
    return {"1": "yes", "0": "no"}.get(text, text) if metric in _YES_OR_NO else text


REASONS = ("reason", "warning")
"""Labels with the reason of a metric that is 1 for each: it is the value in words."""


def value_text(metric: str, value: float) -> str:
    """Return a value with its unit, in at most three digits where they are rounded anyway."""
    if metric in _YES_OR_NO and value in {0.0, 1.0}:
        return "yes" if value else "no"
    for ending, unit in _ENDINGS.items():
        if metric.endswith(ending):
            return f"{value:.4g}{unit}"
    if metric.endswith("_per_second") and not metric.endswith("_bytes_per_second"):
        return f"{value:.0f}/s" if abs(value) >= _THREE_DIGITS else f"{value:.3g}/s"
    return quantity(metric, value)
