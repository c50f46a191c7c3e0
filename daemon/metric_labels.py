"""Labels of every family on '/metrics': the code that emits samples does not declare them.

A test holds the table against the families and against samples of every collector and signal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_FAMILIES = """
none:
    iowarden_alerts_dropped
    iowarden_alerts_silenced
    iowarden_boot_timestamp_seconds
    iowarden_clock_monotonic_seconds
    iowarden_clock_uptime_seconds
    iowarden_config_last_reload_success_timestamp_seconds
    iowarden_config_last_reload_successful
    iowarden_direct_reclaims_per_second
    iowarden_disks_none_monitored_seconds
    iowarden_history_records_lost_total
    iowarden_host_io_bytes_per_second
    iowarden_host_io_median_bytes_per_second
    iowarden_http_certificate_expiry_timestamp_seconds
    iowarden_http_certificate_start_timestamp_seconds
    iowarden_hung_task_detected_total
    iowarden_hung_task_timeout_seconds
    iowarden_hung_task_warnings
    iowarden_incidents_open
    iowarden_incidents_unnotified
    iowarden_io_sweep_processes
    iowarden_kernel_log_gaps_total
    iowarden_kernel_log_suppressed_messages_total
    iowarden_load1
    iowarden_load15
    iowarden_load5
    iowarden_log_messages_lost_total
    iowarden_memory_anon_bytes
    iowarden_memory_available_bytes
    iowarden_memory_buffers_bytes
    iowarden_memory_cached_bytes
    iowarden_memory_dirty_bytes
    iowarden_memory_free_bytes
    iowarden_memory_mapped_bytes
    iowarden_memory_shmem_bytes
    iowarden_memory_slab_bytes
    iowarden_memory_swap_free_bytes
    iowarden_memory_swap_total_bytes
    iowarden_memory_total_bytes
    iowarden_memory_unstable_bytes
    iowarden_memory_writeback_bytes
    iowarden_numa_nodes
    iowarden_probe_connections_total
    iowarden_probe_open_requests
    iowarden_probe_programs_stuck
    iowarden_probe_up
    iowarden_process_cpu_seconds_total
    iowarden_process_open_fds
    iowarden_process_private_memory_bytes
    iowarden_process_resident_memory_bytes
    iowarden_process_start_time_seconds
    iowarden_process_threads
    iowarden_processes_read_bytes_per_second
    iowarden_processes_written_bytes_per_second
    iowarden_recent_hung_tasks
    iowarden_recent_page_cache_drops
    iowarden_reclaim_stall_ratio
    iowarden_render_failures_total
    iowarden_rules
    iowarden_scsi_blk_mq
    iowarden_silences
    iowarden_state_blocked_seconds
    iowarden_state_unwritten_seconds
    iowarden_swapping_out_seconds
    iowarden_tasks_blocked
    iowarden_storage_waits_seen
    iowarden_tasks_blocked_not_writing
    iowarden_tasks_running
    iowarden_threads
    iowarden_uevents_lost_total
    iowarden_uevents_total
    iowarden_vm_bdflush
    iowarden_vm_dirty_background_bytes
    iowarden_vm_dirty_background_ratio_percent
    iowarden_vm_dirty_bytes
    iowarden_vm_dirty_expire_seconds
    iowarden_vm_dirty_ratio_percent
    iowarden_vm_dirty_writeback_seconds
    iowarden_vm_laptop_mode
    iowarden_vm_min_free_bytes
    iowarden_vm_nr_hugepages
    iowarden_vm_overcommit_memory
    iowarden_vm_overcommit_ratio_percent
    iowarden_vm_swap_on_disk
    iowarden_vm_swappiness
    iowarden_vm_zone_reclaim_mode
    iowarden_vmstat_ballooned_pages_total
    iowarden_vmstat_compaction_stalls_total
    iowarden_vmstat_direct_reclaims_total
    iowarden_vmstat_direct_scanned_pages_total
    iowarden_vmstat_dirtied_bytes_total
    iowarden_vmstat_dirty_background_threshold_bytes
    iowarden_vmstat_dirty_bytes
    iowarden_vmstat_dirty_threshold_bytes
    iowarden_vmstat_major_faults_total
    iowarden_vmstat_oom_kills_total
    iowarden_zfs_arc_evictable_bytes iowarden_zfs_arc_max_bytes
    iowarden_zfs_arc_memory_throttles_total iowarden_zfs_arc_min_bytes
    iowarden_zfs_arc_size_bytes iowarden_zfs_arc_target_bytes
    iowarden_zfs_writes_blocked_total iowarden_zfs_writes_delayed_total
    iowarden_vmstat_page_cache_drops_total
    iowarden_vmstat_pgpgin_bytes_total
    iowarden_vmstat_pgpgout_bytes_total
    iowarden_vmstat_refaulted_file_pages_total
    iowarden_vmstat_swapped_in_bytes_total
    iowarden_vmstat_swapped_out_bytes_total
    iowarden_vmstat_unstable_bytes
    iowarden_vmstat_writeback_bytes
    iowarden_vmstat_written_bytes_total
    iowarden_vmstat_zone_reclaims_failed_total
    iowarden_vmstat_zone_reclaims_total
    iowarden_writeback_above_freerun_seconds
    iowarden_writeback_above_threshold_seconds
    iowarden_writeback_background_threshold_bytes
    iowarden_writeback_bandwidth_bytes_per_second
    iowarden_writeback_drain_min_seconds
    iowarden_writeback_drain_seconds
    iowarden_writeback_freerun_bytes
    iowarden_writeback_queued_bytes
    iowarden_writeback_queued_ratio
    iowarden_writeback_threshold_bytes
    iowarden_writeback_no_progress_threshold_seconds
    iowarden_writeback_threshold_drop_ratio
[controller] [host] reason scope vendor:
    iowarden_controller_unreadable
[device] kind:
    iowarden_kernel_events_total
access_method disk:
    iowarden_smart_access_method_info
action device:
    iowarden_md_sync_action
    iowarden_md_sync_running_ratio
device reason:
    iowarden_md_sync_waiting
against device:
    iowarden_device_slowdown_ratio
against device operation:
    iowarden_device_reference_latency_seconds
    iowarden_device_slow_latency_seconds
against device severity:
    iowarden_device_slow_seconds
address array controller level name parent:
    iowarden_controller_array_info
address device host:
    iowarden_device_scsi_info
alertname incident summary ...:
    iowarden_alert_info
alertname ...:
    iowarden_alert_recent_firings
alertname alertstate ...:
    iowarden_alerts
array controller:
    iowarden_controller_array_disk_cache_enabled
    iowarden_controller_array_progress_ratio
    iowarden_controller_array_size_bytes
    iowarden_controller_array_write_cache_became_disabled
    iowarden_controller_array_write_cache_configured_enabled
    iowarden_controller_array_write_cache_enabled
    iowarden_controller_array_write_cache_forced
array controller firmware model serial slot usage:
    iowarden_controller_disk_info
array controller state vendor_state:
    iowarden_controller_array_state
attribute disk [id]:
    iowarden_smart_baseline
    iowarden_smart_increasing_seconds
    iowarden_smart_increase
    iowarden_smart_increase_per_day
    iowarden_smart_increase_since_baseline
    iowarden_smart_last_increase_timestamp_seconds
    iowarden_smart_weekly_increase
attribute disk failure id:
    iowarden_smart_attribute_failed_value
attribute disk id:
    iowarden_smart_attribute_raw
    iowarden_smart_attribute_threshold
    iowarden_smart_attribute_value
    iowarden_smart_attribute_worst
    iowarden_smart_helium_lost_ratio
    iowarden_smart_normalized_drop
    iowarden_smart_normalized_low_at_baseline
    iowarden_smart_normalized_low_at_baseline_peer_ok
battery controller:
    iowarden_controller_battery_charge_ratio
    iowarden_controller_battery_ok
    iowarden_controller_battery_temperature_celsius
battery controller state vendor_state:
    iowarden_controller_battery_state
bdi:
    iowarden_bdi_max_bytes
    iowarden_bdi_max_ratio_percent
    iowarden_bdi_min_ratio_percent
    iowarden_bdi_read_ahead_bytes
    iowarden_bdi_strict_limit
bit disk warning:
    iowarden_smart_nvme_critical_warning_reason
block device function inode line:
    iowarden_ext4_last_error
by disk:
    iowarden_disk_last_full_read_timestamp_seconds
cause device [disk] [unit]:
    iowarden_freeze_cause
device guard reason:
    iowarden_guard_active
cause:
    iowarden_writeback_no_progress_seconds
chip device hwmon label sensor:
    iowarden_temperature_celsius
    iowarden_temperature_critical_celsius
    iowarden_temperature_max_celsius
class disk:
    iowarden_disk_events_total
clocksource:
    iowarden_clocksource
collector:
    iowarden_collector_age_seconds
    iowarden_collector_duration_seconds
    iowarden_collector_stale_seconds
collector outcome:
    iowarden_collector_outcome
controller:
    iowarden_controller_battery_lost
    iowarden_controller_clock_drift_seconds
    iowarden_controller_clock_offset_seconds
    iowarden_controller_memory_bytes
    iowarden_controller_missing
controller counter slot:
    iowarden_controller_disk_baseline_errors
    iowarden_controller_disk_errors_total
    iowarden_controller_disk_recent_errors
controller device disk firmware model path protocol serial slot type wwn:
    iowarden_disk_info
controller device pid program:
    iowarden_probe_program_stuck_seconds
controller firmware host model program serial vendor:
    iowarden_controller_info
controller sensor:
    iowarden_controller_fan_rpm
    iowarden_controller_sensor_zero
    iowarden_controller_temperature_celsius
    iowarden_controller_voltage_volts
controller sensor state vendor_state:
    iowarden_controller_sensor_state
controller serial slot:
    iowarden_controller_disk_missing
controller slot:
    iowarden_controller_disk_size_bytes
    iowarden_controller_disk_temperature_celsius
controller slot state vendor_state:
    iowarden_controller_disk_state
controller state vendor_state:
    iowarden_controller_state
defrag enabled:
    iowarden_thp_setting
device:
    iowarden_device_alignment_offset_bytes
    iowarden_device_became_read_only
    iowarden_device_blocked_tasks
    iowarden_device_chunk_bytes
    iowarden_device_discard_seconds_total
    iowarden_device_discarded_bytes_total
    iowarden_device_discards_completed_total
    iowarden_device_discards_merged_total
    iowarden_device_flush_seconds_total
    iowarden_device_flushes_completed_total
    iowarden_device_at_limit_bytes_per_second
    iowarden_device_at_limit_requests_per_second
    iowarden_device_hang_seconds
    iowarden_freeze_level
    iowarden_freeze_max_seconds
    iowarden_freeze_queued_bytes
    iowarden_freeze_reported_times
    iowarden_freeze_seconds
    iowarden_freeze_blocked_seconds
    iowarden_freeze_quiet_seconds
    iowarden_freeze_series_seconds
    iowarden_freeze_victims
    iowarden_freeze_write_bytes_per_second
    iowarden_device_io_time_seconds_total
    iowarden_device_io_time_weighted_seconds_total
    iowarden_device_logical_block_bytes
    iowarden_device_mapper_suspended
    iowarden_device_max_hw_sectors_bytes
    iowarden_device_max_read_bytes_per_second
    iowarden_device_max_sectors_bytes
    iowarden_device_mean_requests_in_flight
    iowarden_device_minimum_io_bytes
    iowarden_device_misaligned
    iowarden_device_not_running_seconds
    iowarden_device_offline
    iowarden_device_optimal_io_bytes
    iowarden_device_phantom_reads_seconds
    iowarden_device_physical_block_bytes
    iowarden_device_queue_depth
    iowarden_device_queue_requests
    iowarden_device_raid_chunk_bytes
    iowarden_device_read_ahead_below_stripe
    iowarden_device_read_ahead_bytes
    iowarden_device_read_ahead_capped_seconds
    iowarden_device_read_ahead_recommended_bytes
    iowarden_device_read_bytes_per_second
    iowarden_device_read_bytes_total
    iowarden_device_read_only
    iowarden_device_read_seconds_total
    iowarden_device_read_write_ratio
    iowarden_device_reads_completed_total
    iowarden_device_reads_merged_total
    iowarden_device_reads_per_second
    iowarden_device_recent_timeouts
    iowarden_device_requests_above_chunk_seconds
    iowarden_device_requests_in_flight
    iowarden_device_requests_split_seconds
    iowarden_device_rotational
    iowarden_device_scsi_completions_total
    iowarden_device_scsi_errors_total
    iowarden_device_scsi_requests_total
    iowarden_device_scsi_running
    iowarden_device_scsi_timeouts_total
    iowarden_device_size_bytes
    iowarden_device_size_change_bytes
    iowarden_device_slow_disks
    iowarden_device_slow_points
    iowarden_device_timeout_seconds
    iowarden_device_unrequested_reads_ratio
    iowarden_device_utilization_ratio
    iowarden_device_write_bandwidth_bytes_per_second
    iowarden_device_write_cache_enabled
    iowarden_device_write_mostly
    iowarden_device_write_seconds_total
    iowarden_device_writes_completed_total
    iowarden_device_writes_merged_total
    iowarden_device_writes_per_second
    iowarden_device_written_bytes_per_second
    iowarden_device_written_bytes_total
    iowarden_ext4_bad_blocks
    iowarden_ext4_baseline_errors
    iowarden_ext4_errors_since_baseline
    iowarden_ext4_errors_total
    iowarden_ext4_first_error_timestamp_seconds
    iowarden_ext4_last_error_timestamp_seconds
    iowarden_ext4_warnings_total
    iowarden_md_became_read_only
    iowarden_md_chunk_bytes
    iowarden_md_copy_mismatches_bytes
    iowarden_md_degraded
    iowarden_md_last_check_age_seconds
    iowarden_md_mismatches_bytes
    iowarden_md_missing_members
    iowarden_md_parity_mismatches_bytes
    iowarden_md_raid_disks
    iowarden_md_size_bytes
    iowarden_md_sync_completed_ratio
    iowarden_md_sync_speed_bytes_per_second
device enclosure slot:
    iowarden_enclosure_slot_active
    iowarden_enclosure_slot_fault
    iowarden_enclosure_slot_locate_on
    iowarden_enclosure_slot_ok
device enclosure slot status:
    iowarden_enclosure_slot_state
device fstype mountpoint:
    iowarden_filesystem_available_bytes
    iowarden_filesystem_device_error
    iowarden_filesystem_files
    iowarden_filesystem_files_free
    iowarden_filesystem_free_bytes
    iowarden_filesystem_full_in_seconds
    iowarden_filesystem_inodes_full_in_seconds
    iowarden_filesystem_inodes_used_ratio
    iowarden_filesystem_readonly
    iowarden_filesystem_size_bytes
    iowarden_filesystem_sustained_inodes_used_ratio
    iowarden_filesystem_sustained_used_ratio
    iowarden_filesystem_used_ratio
    iowarden_mount_became_read_only
    iowarden_mount_emergency
    iowarden_mount_forced_read_only
    iowarden_mount_fstab_read_only
    iowarden_mount_read_only
    iowarden_mount_read_only_by_command
    iowarden_mount_strictatime
    iowarden_mount_unexpected_read_only
device host:
    iowarden_device_queue_dominant
    iowarden_device_starved
device level:
    iowarden_md_info
device map:
    iowarden_multipath_path
directory glob:
    iowarden_backup_age_critical_seconds
    iowarden_backup_age_limit_seconds
    iowarden_backup_age_seconds
    iowarden_backup_bytes
    iowarden_backup_duration_seconds
    iowarden_backup_files
    iowarden_backup_learning_seconds
    iowarden_backup_oldest_age_seconds
    iowarden_backup_readable
    iowarden_backup_retention_seconds
    iowarden_backup_size_bytes
    iowarden_backup_unchanged_seconds
    iowarden_backup_usual_duration_seconds
    iowarden_backup_usual_size_bytes
device member:
    iowarden_md_member_bad_blocks
    iowarden_md_member_errors_total
    iowarden_md_member_recent_errors
    iowarden_md_member_slot
    iowarden_md_member_unacknowledged_bad_blocks
device member state:
    iowarden_md_member_state
device model serial wwn:
    iowarden_device_info
device name:
    iowarden_device_mapper_suspended_seconds
    iowarden_dm_path_group_changes iowarden_dm_queue_if_no_path
    iowarden_multipath_nonoptimized_only
device name pool:
    iowarden_dm_thin_increase_bytes iowarden_dm_thin_mapped_bytes
device name target:
    iowarden_dm_mismatches iowarden_dm_raid_failed
device name state target:
    iowarden_dm_state
device leg name path state target:
    iowarden_dm_leg_state
area device name target:
    iowarden_dm_full_in_seconds iowarden_dm_sustained_used_ratio iowarden_dm_used_ratio
device name state:
    iowarden_multipath_paths
device object used_by:
    iowarden_device_removed
device partition:
    iowarden_partition_alignment_offset_bytes
    iowarden_partition_misaligned_bytes
    iowarden_partition_size_bytes
    iowarden_partition_start_bytes
device path:
    iowarden_device_path_info
device recommended scheduler:
    iowarden_device_scheduler_unsuitable
device scheduler:
    iowarden_device_scheduler
device severity:
    iowarden_device_hang_threshold_seconds
device state:
    iowarden_device_scsi_state
    iowarden_md_not_running
    iowarden_md_state
device window:
    iowarden_device_read_latency_seconds
    iowarden_device_write_latency_seconds
devices:
    iowarden_writeback_full_drain_seconds
    iowarden_writeback_median_bandwidth_bytes_per_second
devid fsid label:
    iowarden_btrfs_device_baseline_errors
    iowarden_btrfs_device_corruption_errors_total
    iowarden_btrfs_device_errors_since_baseline
    iowarden_btrfs_device_flush_errors_total
    iowarden_btrfs_device_generation_errors_total
    iowarden_btrfs_device_missing
    iowarden_btrfs_device_read_errors_total
    iowarden_btrfs_device_recent_read_errors
    iowarden_btrfs_device_write_errors_since_baseline
    iowarden_btrfs_device_write_errors_total
disk:
    iowarden_disk_capacity_bytes
    iowarden_disk_critical_temperature_celsius
    iowarden_disk_endurance_exhausted_earliest_timestamp_seconds
    iowarden_disk_endurance_exhausted_latest_timestamp_seconds
    iowarden_disk_endurance_exhausted_timestamp_seconds
    iowarden_disk_endurance_pace_window_seconds
    iowarden_disk_full_read_age_seconds
    iowarden_disk_last_poll_age_seconds
    iowarden_disk_never_monitored_seconds
    iowarden_disk_not_monitored_seconds
    iowarden_disk_power_cycles_total
    iowarden_disk_power_on_seconds
    iowarden_disk_rotation_rpm
    iowarden_disk_temperature_celsius
    iowarden_disk_temperature_limit_celsius
    iowarden_scan_bad_ranges
    iowarden_scan_bytes_total
    iowarden_scan_progress_ratio
    iowarden_scan_running
    iowarden_scan_slower_zones
    iowarden_smart_ata_endurance_used_ratio
    iowarden_smart_background_scan_unreassigned_sectors
    iowarden_smart_confirmed_pending_sectors
    iowarden_smart_enabled
    iowarden_smart_endurance_used_ratio
    iowarden_smart_errors_logged_total
    iowarden_smart_exit_status
    iowarden_smart_failing
    iowarden_smart_high_temperature_celsius
    iowarden_smart_last_poll_timestamp_seconds
    iowarden_smart_nvme_available_spare_margin_ratio
    iowarden_smart_nvme_available_spare_ratio
    iowarden_smart_nvme_available_spare_threshold_ratio
    iowarden_smart_nvme_controller_busy_seconds_total
    iowarden_smart_nvme_critical_temperature_excess_celsius
    iowarden_smart_nvme_critical_temperature_seconds_total
    iowarden_smart_nvme_critical_warning
    iowarden_smart_nvme_endurance_used_ratio
    iowarden_smart_nvme_error_log_entries_total
    iowarden_smart_nvme_media_errors_total
    iowarden_smart_nvme_only_worn
    iowarden_smart_nvme_read_bytes_total
    iowarden_smart_nvme_unsafe_shutdowns_total
    iowarden_smart_nvme_warning_temperature_seconds_total
    iowarden_smart_nvme_written_bytes_total
    iowarden_smart_offline_collection_started
    iowarden_smart_passed
    iowarden_smart_pending_sectors
    iowarden_smart_plausible
    iowarden_smart_poll_duration_seconds
    iowarden_smart_poll_failures_total
    iowarden_smart_polls_total
    iowarden_smart_pysmart_disagreements
    iowarden_smart_scsi_endurance_used_ratio
    iowarden_smart_scsi_failure_predicted
    iowarden_smart_scsi_grown_defects
    iowarden_smart_scsi_non_medium_errors_total
    iowarden_smart_scsi_pending_defects
    iowarden_smart_scsi_start_stop_cycles_total
    iowarden_smart_self_test_remaining_ratio
    iowarden_smart_solid_state
    iowarden_smart_temperature_excess_celsius
    iowarden_smart_unreadable_fields
disk expected_by object:
    iowarden_disk_missing
disk kind:
    iowarden_smart_self_test_age_seconds
    iowarden_smart_self_test_failures
    iowarden_smart_self_test_failures_before_last_year
    iowarden_smart_self_test_first_error_lba
    iowarden_smart_self_test_last_passed_timestamp_seconds
    iowarden_smart_self_test_last_start_timestamp_seconds
    iowarden_smart_self_test_overdue_seconds
    iowarden_smart_self_test_passed
    iowarden_smart_self_test_refused
    iowarden_smart_self_test_running
disk operation:
    iowarden_smart_scsi_errors_corrected_total
    iowarden_smart_scsi_errors_uncorrected_total
    iowarden_smart_scsi_processed_bytes_total
disk origin:
    iowarden_smart_scsi_warning_sense_code
disk reason:
    iowarden_smart_counters_implausible
    iowarden_smart_implausible
disk reason state:
    iowarden_disk_not_monitored
disk state:
    iowarden_disk_monitoring_state
document reason:
    iowarden_state_unreadable
domainname machine nodename release sysname version:
    iowarden_uname_info
driver host:
    iowarden_scsi_host_info
driver level:
    iowarden_kernel_lines_unrecognized_total
driver program:
    iowarden_competing_monitor_conflict
duty:
    iowarden_loop_duty_seconds_total
enclosure:
    iowarden_enclosure_slow_disks
event:
    iowarden_device_events_total
file:
    iowarden_rule_evaluation_delay_seconds
    iowarden_rule_file_problems
host:
    iowarden_scsi_host_busy
    iowarden_scsi_host_can_queue
    iowarden_scsi_host_cmd_per_lun
    iowarden_scsi_host_fair_queueing
    iowarden_scsi_host_queue_depth_ratio
    iowarden_scsi_host_queue_depth_recommended
    iowarden_scsi_host_slow_disks
    iowarden_scsi_host_starved_seconds
[le]:
    iowarden_storage_wait_seconds
    iowarden_loop_lateness_seconds
min_tasks:
    iowarden_tasks_blocked_seconds
mode:
    iowarden_cpu_seconds_total
mountpoint:
    iowarden_btrfs_scrub_complete
node:
    iowarden_numa_free_bytes
    iowarden_numa_total_bytes
object technology:
    iowarden_redundancy_complete_survives_disks
    iowarden_redundancy_survives_disks
outcome verb:
    iowarden_probe_requests_total
action pool:
    iowarden_zfs_pool_scan_ratio
action pool state:
    iowarden_zfs_pool_scan_state
group kind pool role vdev:
    iowarden_zfs_vdev_errors_total
group pool role vdev:
    iowarden_zfs_vdev_slow_requests_total
group pool role state vdev:
    iowarden_zfs_vdev_state
pool:
    iowarden_zfs_pool_data_errors iowarden_zfs_pool_fragmentation_ratio
    iowarden_zfs_pool_free_bytes iowarden_zfs_pool_full_in_seconds
    iowarden_zfs_pool_last_scrub_age_seconds
    iowarden_zfs_pool_last_txg_dirty_bytes iowarden_zfs_pool_last_txg_sync_seconds
    iowarden_zfs_pool_size_bytes iowarden_zfs_pool_sustained_used_ratio
    iowarden_zfs_pool_txg_sync_seconds iowarden_zfs_pool_used_ratio
pool state:
    iowarden_zfs_pool_state
program:
    iowarden_competing_monitor_running
program unit:
    iowarden_competing_monitor_pid
receiver:
    iowarden_notifications_discarded_total
    iowarden_notifications_last_delivered_age_seconds
    iowarden_notifications_oldest_unsent_seconds
    iowarden_notifications_refused
    iowarden_notifications_waiting
receiver result:
    iowarden_notifications_total
resource:
    iowarden_pressure_full_avg10_ratio
    iowarden_pressure_full_avg300_ratio
    iowarden_pressure_full_avg60_ratio
    iowarden_pressure_full_seconds_total
    iowarden_pressure_some_avg10_ratio
    iowarden_pressure_some_avg300_ratio
    iowarden_pressure_some_avg60_ratio
    iowarden_pressure_some_seconds_total
rule:
    iowarden_rule_evaluation_failing
    iowarden_rule_evaluation_failures_total
severity:
    iowarden_incidents_unresolved
severity source:
    iowarden_events_total
silence:
    iowarden_silence_remaining_seconds
state:
    iowarden_disks
verb:
    iowarden_probe_request_seconds_total
wait_channel:
    iowarden_tasks_waiting
"""
"""Labels, then the families that have exactly these.

A label in brackets is on some samples only; '...' stands for the labels of the alert.
"""


def _parsed(text: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    labels: tuple[str, ...] = ()
    for line in text.strip().splitlines():
        if line.endswith(":"):
            words = line.removesuffix(":")
            labels = () if words == "none" else tuple(words.split())
        else:
            found |= dict.fromkeys(line.split(), labels)
    return found


def fits(name: str, labels: Collection[str]) -> bool:
    """Return whether a sample of a family may have these labels."""
    expected = LABELS[name]
    known = {each.strip("[]") for each in expected}
    required = {each for each in expected if each.isidentifier()}
    return required <= {*labels} and ("..." in known or {*labels} <= known)


LABELS: Mapping[str, tuple[str, ...]] = _parsed(_FAMILIES)
"""By family."""
