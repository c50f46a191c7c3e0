"""Every name that was ever changed: old and new, oldest first. Read by rules/renames.py.

A line is never removed: versions may be skipped. A new name may be renamed again later, below; it
must never have had another meaning before.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.model import Labels


class NameKind(enum.StrEnum):
    """What a word names."""

    METRIC = "metric"
    LABEL = "label"
    VALUE = "label value"
    ALERT = "alert"
    GROUP = "group"
    CONDITION = "condition"
    EVENT = "event class"
    ATTRIBUTE = "attribute"
    """A number that a drive reports, as `iowarden disk history` takes it."""
    COMMAND = "command"
    CHOICE = "option value"
    """Narrowed to command and option: 'explain --as'."""
    KEY = "setting"
    """A key of iowarden.yaml with its section: 'smart.interval'."""
    FIELD = "JSON field"
    """Of what a command prints with --json; only documented: nothing that is stored has it."""
    REASON = "reason of a mail"
    CHANGE = "change of an incident"
    """State of an incident in a file for `replay --expect`."""


@dataclass(frozen=True, slots=True)
class Rename:
    """A word that was replaced.

    `of` narrows it: a label to one metric or alert, by its new name; a value to its label, by that
    one's new name, which must be given; '' is all of them. `series` narrows a value further, to one
    metric or alert, by its new name. `labels` are what a metric got in addition: several old
    metrics may become one that has a label more.
    """

    kind: NameKind
    old: str
    new: str
    of: str = ""
    series: str = ""
    labels: Labels = ()


_METRICS = """
iowarden_bdi_max_ratio iowarden_bdi_max_ratio_percent
iowarden_bdi_min_ratio iowarden_bdi_min_ratio_percent
iowarden_boot_time_seconds iowarden_boot_timestamp_seconds
iowarden_btrfs_new_errors iowarden_btrfs_device_errors_since_baseline
iowarden_btrfs_old_errors iowarden_btrfs_device_baseline_errors
iowarden_btrfs_recent_read_errors iowarden_btrfs_device_recent_read_errors
iowarden_clocksource_info iowarden_clocksource
iowarden_collector_silent_seconds iowarden_collector_stale_seconds
iowarden_controller_array_done_ratio iowarden_controller_array_progress_ratio
iowarden_controller_array_write_cache_default_enabled iowarden_controller_array_write_cache_configured_enabled
iowarden_controller_array_write_cache_turned_off iowarden_controller_array_write_cache_became_disabled
iowarden_controller_unread iowarden_controller_unreadable
iowarden_device_best_read_bytes_per_second iowarden_device_max_read_bytes_per_second
iowarden_device_gone iowarden_device_removed
iowarden_device_in_flight iowarden_device_requests_in_flight
iowarden_device_mean_in_flight iowarden_device_mean_requests_in_flight
iowarden_device_read_ahead_short iowarden_device_read_ahead_below_stripe
iowarden_device_scheduler_info iowarden_device_scheduler
iowarden_device_scheduler_unsuited iowarden_device_scheduler_unsuitable
iowarden_device_scsi_state_info iowarden_device_scsi_state
iowarden_device_stall_critical_seconds iowarden_device_hang_threshold_seconds severity=critical
iowarden_device_stall_notice_seconds iowarden_device_hang_threshold_seconds severity=notice
iowarden_device_stall_warning_seconds iowarden_device_hang_threshold_seconds severity=warning
iowarden_device_stalled_seconds iowarden_device_hang_seconds
iowarden_device_starving iowarden_device_queue_dominant
iowarden_device_timeouts_recent iowarden_device_recent_timeouts
iowarden_device_turned_read_only iowarden_device_became_read_only
iowarden_device_waiting_tasks iowarden_device_blocked_tasks
iowarden_device_write_back iowarden_device_write_cache_enabled
iowarden_disk_cover iowarden_disk_monitoring_state
iowarden_disk_lost_seconds iowarden_disk_not_monitored_seconds
iowarden_disk_never_read_seconds iowarden_disk_never_monitored_seconds
iowarden_disk_not_read_info iowarden_disk_not_monitored
iowarden_disk_read_age_seconds iowarden_disk_last_poll_age_seconds
iowarden_disks_none_read_seconds iowarden_disks_none_monitored_seconds
iowarden_enclosure_slot_info iowarden_enclosure_slot_state
iowarden_enclosure_slot_locate iowarden_enclosure_slot_locate_on
iowarden_ext4_last_error_info iowarden_ext4_last_error
iowarden_ext4_new_errors iowarden_ext4_errors_since_baseline
iowarden_ext4_old_errors iowarden_ext4_baseline_errors
iowarden_filesystem_held_inodes_used_ratio iowarden_filesystem_sustained_inodes_used_ratio
iowarden_filesystem_held_used_ratio iowarden_filesystem_sustained_used_ratio
iowarden_filesystem_unread iowarden_filesystem_device_error
iowarden_history_lost_total iowarden_history_records_lost_total
iowarden_hung_task_warnings_left iowarden_hung_task_warnings
iowarden_hung_tasks_recent iowarden_recent_hung_tasks
iowarden_kernel_log_suppressed_total iowarden_kernel_log_suppressed_messages_total
iowarden_leaf_io_bytes_per_second iowarden_host_io_bytes_per_second
iowarden_leaf_io_usual_bytes_per_second iowarden_host_io_median_bytes_per_second
iowarden_log_lost_total iowarden_log_messages_lost_total
iowarden_mail_oldest_unsent_seconds iowarden_notifications_oldest_unsent_seconds receiver=mail
iowarden_mails_refused iowarden_notifications_refused receiver=mail
iowarden_mails_total iowarden_notifications_total receiver=mail
iowarden_mails_waiting iowarden_notifications_waiting receiver=mail
iowarden_md_stopped iowarden_md_not_running
iowarden_md_sync_done_ratio iowarden_md_sync_completed_ratio
iowarden_md_synchronising_ratio iowarden_md_sync_running_ratio
iowarden_md_turned_read_only iowarden_md_became_read_only
iowarden_md_unchecked_seconds iowarden_md_last_check_age_seconds
iowarden_memory_shared_bytes iowarden_memory_shmem_bytes
iowarden_mount_strict_access_time iowarden_mount_strictatime
iowarden_mount_turned_read_only iowarden_mount_became_read_only
iowarden_mount_unwanted_read_only iowarden_mount_unexpected_read_only
iowarden_mount_wanted_read_only iowarden_mount_fstab_read_only
iowarden_other_monitor_clash iowarden_competing_monitor_conflict
iowarden_other_monitor_pid iowarden_competing_monitor_pid
iowarden_other_monitor_running iowarden_competing_monitor_running
iowarden_page_cache_drops_recent iowarden_recent_page_cache_drops
iowarden_process_open_descriptors iowarden_process_open_fds
iowarden_process_private_bytes iowarden_process_private_memory_bytes
iowarden_process_resident_bytes iowarden_process_resident_memory_bytes
iowarden_rule_failing iowarden_rule_evaluation_failing
iowarden_scsi_host_advised_queue_depth iowarden_scsi_host_queue_depth_recommended
iowarden_scsi_host_commands_per_lun iowarden_scsi_host_cmd_per_lun
iowarden_scsi_host_disk_queue_ratio iowarden_scsi_host_queue_depth_ratio
iowarden_scsi_host_fair iowarden_scsi_host_fair_queueing
iowarden_scsi_multi_queue iowarden_scsi_blk_mq
iowarden_smart_at_threshold iowarden_smart_attribute_failed_value
iowarden_smart_disagreements iowarden_smart_pysmart_disagreements
iowarden_smart_doubt iowarden_smart_implausible
iowarden_smart_drive_warning iowarden_smart_scsi_warning_sense_code
iowarden_smart_excess_celsius iowarden_smart_temperature_excess_celsius
iowarden_smart_found iowarden_smart_baseline
iowarden_smart_growing_seconds iowarden_smart_increasing_seconds
iowarden_smart_grown_count iowarden_smart_increase_since_baseline
iowarden_smart_growth iowarden_smart_increase
iowarden_smart_growth_per_day iowarden_smart_increase_per_day
iowarden_smart_hot_celsius iowarden_smart_high_temperature_celsius
iowarden_smart_nvme_percentage_used_ratio iowarden_smart_nvme_endurance_used_ratio
iowarden_smart_nvme_warning iowarden_smart_nvme_critical_warning_reason
iowarden_smart_read_timestamp_seconds iowarden_smart_last_poll_timestamp_seconds
iowarden_smart_self_test_bad_sector iowarden_smart_self_test_first_error_lba
iowarden_smart_self_test_old_failures iowarden_smart_self_test_failures_before_last_year
iowarden_smart_spare_margin_ratio iowarden_smart_nvme_available_spare_margin_ratio
iowarden_smart_trusted iowarden_smart_plausible
iowarden_smart_unread_fields iowarden_smart_unreadable_fields
iowarden_smart_unreadable_sectors iowarden_smart_confirmed_pending_sectors
iowarden_smart_used_ratio iowarden_smart_endurance_used_ratio
iowarden_smart_value_fall iowarden_smart_normalized_drop
iowarden_smart_value_low iowarden_smart_normalized_low_at_baseline
iowarden_smart_value_low_peer iowarden_smart_normalized_low_at_baseline_peer_ok
iowarden_smart_way iowarden_smart_access_method_info
iowarden_state_unread iowarden_state_unreadable
iowarden_tasks_blocked_bystanders iowarden_tasks_blocked_not_writing
iowarden_temperature_maximum_celsius iowarden_temperature_max_celsius
iowarden_thp_info iowarden_thp_setting
iowarden_uptime_seconds iowarden_clock_monotonic_seconds
iowarden_vm_dirty_background_ratio iowarden_vm_dirty_background_ratio_percent
iowarden_vm_dirty_ratio iowarden_vm_dirty_ratio_percent
iowarden_vm_overcommit_ratio iowarden_vm_overcommit_ratio_percent
iowarden_vmstat_node_reclaims_failed_total iowarden_vmstat_zone_reclaims_failed_total
iowarden_vmstat_node_reclaims_total iowarden_vmstat_zone_reclaims_total
iowarden_vmstat_paged_in_bytes_total iowarden_vmstat_pgpgin_bytes_total
iowarden_vmstat_paged_out_bytes_total iowarden_vmstat_pgpgout_bytes_total
iowarden_write_lull_seconds iowarden_writeback_no_progress_seconds
iowarden_writeback_drain_least_seconds iowarden_writeback_drain_min_seconds
iowarden_writeback_threshold_fell_ratio iowarden_writeback_threshold_drop_ratio
iowarden_writeback_threshold_ratio iowarden_writeback_queued_ratio
iowarden_writeback_usual_bandwidth_bytes_per_second iowarden_writeback_median_bandwidth_bytes_per_second
"""
"""Behind it the labels that it got."""
_LABELS = """
advised recommended
at_least min_tasks
carried used_by
counted counter
cover state
filesystem fsid
identifier devid
kind cause iowarden_writeback_no_progress_seconds
kind cause WriteStall
kind cause WritebackNoProgress
kind origin iowarden_smart_scsi_warning_sense_code
kind origin ScsiDiskWarning
meaning failure
way access_method
what scope
word vendor_state
"""
"""Behind it the metric or alert, by its new name, if only its label was renamed."""
_VALUES = """
read monitored state iowarden_disk_monitoring_state
read monitored state iowarden_disk_not_monitored
read monitored state iowarden_disks
stuck hung state iowarden_disk_monitoring_state
stuck hung state iowarden_disk_not_monitored
stuck hung state iowarden_disks
untrusted implausible state iowarden_disk_monitoring_state
untrusted implausible state iowarden_disk_not_monitored
untrusted implausible state iowarden_disks
failed unreadable state iowarden_disk_monitoring_state
failed unreadable state iowarden_disk_not_monitored
failed unreadable state iowarden_disks
not_yet not_polled_yet state iowarden_disk_monitoring_state
not_yet not_polled_yet state iowarden_disk_not_monitored
not_yet not_polled_yet state iowarden_disks
use usage failure
memory history expected_by
unreadable pending attribute
"""
"""Behind it the label, and the metric if only its values were renamed, by their new names."""
_ALERTS = """
ControllerArrayAttention ControllerArrayNeedsAttention
ControllerArrayRebuilds ControllerArrayRebuilding
ControllerDiskAttention ControllerDiskNeedsAttention
ControllerDiskRebuilds ControllerDiskRebuilding
ControllerDiskErrorsFound ControllerDiskErrorsInBaseline
ControllerDiskCacheOn ControllerDiskCacheEnabled
ControllerWriteCacheOff ControllerWriteCacheDisabled
ControllerBatteryBad ControllerBatteryFault
ControllerSensorBad ControllerSensorFault
ControllerNotRead ControllerUnreadable
ControllerPartNotRead ControllerPartlyUnreadable
NoDiskRead NoDiskMonitored
DiskNotCovered DiskNotMonitored
DiskNeverCovered DiskNeverMonitored
DeviceStall DeviceHang
DeviceGone DeviceRemoved
FileSystemFull FilesystemFull
FileSystemFills FilesystemFillingUp
FileSystemInodesFull FilesystemInodesFull
FileSystemInodesFill FilesystemInodesFillingUp
FileSystemErrors FilesystemErrors
FileSystemHadErrors FilesystemErrorsInBaseline
FileSystemReadOnly FilesystemReadOnly
FileSystemMountedReadOnly FilesystemUnexpectedReadOnly
FileSystemTurnedReadOnly FilesystemBecameReadOnly
BtrfsHadErrors BtrfsErrorsInBaseline
AccessTimesWritten MountStrictAtime
CollectorSilent CollectorStale
StateUnread StateUnreadable
MailUnsent NotificationUnsent
RuleFails RuleEvaluationFailing
LogLost LogMessagesLost
DropCaches PageCacheDropped
HungTaskLogSilent HungTaskWarningsExhausted
DirtyRatioLarge DirtyRatioTooLarge
ZoneReclaim ZoneReclaimEnabled
Bdflush BdflushPresent
HugepageDefrag ThpDefragAlways
OtherMonitor CompetingMonitor
OtherMonitorAreca CompetingMonitorAreca
OtherMonitorThreeware CompetingMonitorThreeware
ReadAheadShort ReadAheadBelowStripe
QueueDepthShared QueueDepthTooLarge
AdapterStarvesDisks DiskQueueStarvation
SchedulerUnsuited SchedulerUnsuitable
ArrayDegraded MdDegraded
ArrayDegradedFurther MdDegradedFurther
ArrayBroken MdBroken
ArrayStopped MdInactive
ArrayReadOnly MdReadOnly
ArrayMemberFaulty MdMemberFaulty
ArrayMemberFailing MdMemberWantReplacement
ArrayMemberErrors MdMemberReadErrors
ArrayMemberBadBlocks MdMemberBadBlocks
ArrayMismatches MdMismatches
ArraySynchronises MdSyncRunning
ArrayUnchecked MdCheckOverdue
DiskSizeChanged DiskSizeDecreased
DiskGrew DiskSizeIncreased
DiskAttributeHadFailed DiskAttributeFailedInPast
DiskErrorsGrow DiskErrorsIncreased
DiskSectorsUnreadable DiskPendingSectors
DiskSectorsReallocated DiskReallocatedSectorsIncreased
DiskSectorsManyReallocated DiskReallocatedSectorsHigh
DiskErrorLogGrows DiskErrorLogIncreased
DiskErrorsFound DiskErrorsInBaseline
DiskCableErrors DiskInterfaceCrcErrors
DiskCableErrorsFound DiskInterfaceCrcErrorsInBaseline
DiskValueFell DiskNormalizedValueDropped
DiskValueLow DiskNormalizedValueLow
DiskTooHot DiskTemperatureHigh
DiskDefectsGrow DiskGrownDefectsIncreased
DiskWarns ScsiDiskWarning
NvmeWarns NvmeCriticalWarning
NvmeMediaErrorsGrow NvmeMediaErrorsIncreased
DiskSpareLow NvmeSpareLow
DiskWorn DiskEnduranceUsed
SmartUntrusted SmartImplausible
WriteLull WritebackNoProgress
"""
"""Names of alerts."""
_GROUPS = """
lull no_progress
disk_cover disk_monitoring
coverage monitoring
memory-settings memory_settings
monitors competing_monitors
raid md
"""
"""Rule groups, and groups of signals in stored state."""
_CONDITIONS = """
A1 write_stall
A2 dirty_limit_too_large
A3 bdi_throttle
B1 device_hang
B2 writeback_no_progress
B4 hung_task
B5 command_timeout
B6 probe_program_stuck
C1 reclaim_stall
C2 direct_reclaim
C3 page_cache_dropped
D1 read_ahead_too_small
D2 read_ahead_below_stripe
E1 misalignment
E2 requests_above_chunk
E3 requests_split
F1 queue_depth_too_large
F2 queue_starvation
G1 phantom_reads
H1 disk_failing
H2 smart_errors
H3 interface_crc_errors
H4 normalized_drop
H4b normalized_low_at_baseline
H5 self_test
H6 disk_temperature
H7 scsi_health
H8 nvme_health
H9 health_data_unavailable
I smart_implausible
J1 controller_event
J5 controller_clock_changed
K io_error
L1 dirty_ratio_too_large
L2 zone_reclaim_enabled
L3 scheduler_unsuitable
L4 strictatime
L5 swap
L6 bdflush
L7 space_low
L9 memory_setting
L11 controller_write_cache
L12 multipath_path_lost
L14 competing_monitor
M1 filesystem_error
M2 filesystem_read_only
M3 filesystem_shutdown
M4 btrfs_error
M5 raid_array
M6 md_check_overdue
M7 device_unavailable
S1 collector_stale
S2 state_storage
S3 notification_unsent
S4 rule_evaluation_failing
S5 config_reload_failed
S6 log_messages_lost
S7 uevents_lost
S8 probe_down
S9 no_disk_monitored
"""
"""Conditions."""
_EVENTS = """
ata_gone ata_disabled
nvme_down nvme_controller_down
nvme_dead nvme_controller_dead
fs_writable fs_remounted_writable
md_array_whole md_array_recovered
md_array_gone md_array_disappeared
megaraid_foreign_found megaraid_foreign_detected
megaraid_spare_made megaraid_spare_created
megaraid_spare_useless megaraid_spare_unusable
megaraid_pd_locked_up megaraid_pd_hung
megaraid_pd_hot megaraid_pd_temperature_warning
megaraid_pd_too_hot megaraid_pd_temperature_critical
megaraid_pd_told megaraid_pd_information
megaraid_cache_discarded_by_hand megaraid_cache_discarded_by_user
megaraid_battery_hot megaraid_battery_temperature_warning
megaraid_battery_told megaraid_battery_information
megaraid_enclosure_temperature megaraid_enclosure_temperature_warning
megaraid_enclosure_told megaraid_enclosure_information
megaraid_enclosure_unfit megaraid_enclosure_unsupported
megaraid_controller_told megaraid_controller_information
megaraid_memory_short megaraid_memory_insufficient
megaraid_controller_hot megaraid_controller_temperature_warning
megaraid_controller_too_hot megaraid_controller_temperature_critical
"""
"""Event classes."""
_ATTRIBUTES = """
percentage_used_ratio endurance_used_ratio
"""
"""Attributes of `iowarden disk history`."""
_COMMANDS = """
coverage monitoring
"""
"""Commands."""
_CHOICES = """
cciss cciss_vol_status explain_--as
"""
"""Behind it command and option."""
_KEYS = """
mail.arrival mail.initial_report
mail.unsent_critical mail.unsent_critical_after
smart.period smart.interval
smart.raid_period smart.raid_interval
http.channel_timeout http.connection_timeout
periods.meminfo intervals.meminfo
periods.vmstat intervals.vmstat
periods.stat intervals.stat
periods.pressure intervals.pressure
periods.diskstats intervals.diskstats
periods.clock intervals.clock
periods.vm_sysctl intervals.vm_sysctl
periods.numa intervals.numa
periods.hung_task intervals.hung_task
periods.loadavg intervals.loadavg
periods.thp intervals.thp
periods.uname intervals.uname
periods.udev intervals.udev
periods.block intervals.block
periods.dm intervals.dm
periods.tasks intervals.tasks
periods.enclosure intervals.enclosure
periods.hwmon intervals.hwmon
periods.bdi intervals.bdi
periods.scsi intervals.scsi
periods.queue intervals.queue
periods.md intervals.md
periods.mounts intervals.mounts
periods.ext4 intervals.ext4
periods.btrfs intervals.btrfs
periods.filesystem intervals.filesystem
rule_interval evaluation_interval
warning_grouping warning_group_wait
all_clear_after resolve_after
"""
"""Keys of iowarden.yaml."""
_FIELDS = """
mails notifications incident
mailed_seconds notified_seconds incident
last_reason last_notification_reason incident
over_seconds cleared_seconds incident
happened timeline incident
sources collectors status
sources_ok collectors_ok status
mail notifications status
destination receiver status
refused_reload failed_reload status
troubles problems status
cover monitoring_state disk
cure remedy disk
how access_method disk
read_seconds polled_seconds disk
not_read unavailable disk
failed when_failed disk
ways other_access_methods disk
carries used_by disk
verdict status monitoring
found_seconds discovered_seconds monitoring
begun_seconds started_seconds selftest
due_seconds pending_since_seconds selftest
of parent explain
word vendor_state explain
unread unparsed explain
"""
"""Fields of JSON, with the command that prints them."""
_REASONS = """
worse: escalated
unreadable: data unavailable
all clear: resolved
again: reopened
still: reminder
arrival: initial report
"""
"""Reasons of a mail."""
_CHANGES = """
worse: escalated
folded: merged
again: reopened
no longer acknowledged: acknowledgement expired
"""
"""Changes of an incident."""


def _rows(kind: NameKind, text: str) -> Iterator[Rename]:
    """Yield the lines of a block: two names, then what narrows them, or labels."""
    for line in text.strip().splitlines():
        if ": " in line:
            old, new = line.split(": ")
            yield Rename(kind, old, new)
            continue
        old, new, *more = line.split()
        added = tuple(
            (each.partition("=")[0], each.partition("=")[2]) for each in more if "=" in each
        )
        of, series = (*(each.replace("_--", " --") for each in more if "=" not in each), "", "")[:2]
        yield Rename(kind, old, new, of, series, added)


RENAMES: tuple[Rename, ...] = (
    *_rows(NameKind.METRIC, _METRICS),
    *_rows(NameKind.LABEL, _LABELS),
    *_rows(NameKind.VALUE, _VALUES),
    *_rows(NameKind.ALERT, _ALERTS),
    *_rows(NameKind.GROUP, _GROUPS),
    *_rows(NameKind.CONDITION, _CONDITIONS),
    *_rows(NameKind.EVENT, _EVENTS),
    *_rows(NameKind.ATTRIBUTE, _ATTRIBUTES),
    *_rows(NameKind.COMMAND, _COMMANDS),
    *_rows(NameKind.CHOICE, _CHOICES),
    *_rows(NameKind.KEY, _KEYS),
    *_rows(NameKind.FIELD, _FIELDS),
    *_rows(NameKind.REASON, _REASONS),
    *_rows(NameKind.CHANGE, _CHANGES),
)
"""All of them."""
