"""Labels of every family on '/metrics': the code that emits samples does not declare them.

A test holds the table against the families and against samples of every collector and signal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_FAMILIES = """
none:
    iowarden_alerts_silenced
    iowarden_bdi_throttle_seconds
    iowarden_boot_time_seconds
    iowarden_clock_uptime_seconds
    iowarden_config_last_reload_success_timestamp_seconds
    iowarden_config_last_reload_successful
    iowarden_direct_reclaims_per_second
    iowarden_disks_none_read_seconds
    iowarden_history_lost_total
    iowarden_hung_task_detected_total
    iowarden_hung_task_timeout_seconds
    iowarden_hung_task_warnings_left
    iowarden_hung_tasks_recent
    iowarden_incidents_open
    iowarden_kernel_log_gaps_total
    iowarden_kernel_log_suppressed_total
    iowarden_leaf_io_bytes_per_second
    iowarden_leaf_io_usual_bytes_per_second
    iowarden_load1
    iowarden_load15
    iowarden_load5
    iowarden_log_lost_total
    iowarden_memory_anon_bytes
    iowarden_memory_available_bytes
    iowarden_memory_buffers_bytes
    iowarden_memory_cached_bytes
    iowarden_memory_dirty_bytes
    iowarden_memory_free_bytes
    iowarden_memory_mapped_bytes
    iowarden_memory_shared_bytes
    iowarden_memory_slab_bytes
    iowarden_memory_swap_free_bytes
    iowarden_memory_swap_total_bytes
    iowarden_memory_total_bytes
    iowarden_memory_unstable_bytes
    iowarden_memory_writeback_bytes
    iowarden_numa_nodes
    iowarden_page_cache_drops_recent
    iowarden_probe_connections_total
    iowarden_probe_open_requests
    iowarden_probe_programs_stuck
    iowarden_probe_up
    iowarden_process_cpu_seconds_total
    iowarden_process_open_descriptors
    iowarden_process_private_bytes
    iowarden_process_resident_bytes
    iowarden_process_start_time_seconds
    iowarden_process_threads
    iowarden_reclaim_stall_ratio
    iowarden_render_failures_total
    iowarden_rules
    iowarden_scsi_multi_queue
    iowarden_silences
    iowarden_state_unwritten_seconds
    iowarden_swapping_out_seconds
    iowarden_tasks_blocked
    iowarden_tasks_blocked_bystanders
    iowarden_tasks_running
    iowarden_threads
    iowarden_uevents_lost_total
    iowarden_uevents_total
    iowarden_uptime_seconds
    iowarden_vm_bdflush
    iowarden_vm_dirty_background_bytes
    iowarden_vm_dirty_background_ratio
    iowarden_vm_dirty_bytes
    iowarden_vm_dirty_expire_seconds
    iowarden_vm_dirty_ratio
    iowarden_vm_dirty_writeback_seconds
    iowarden_vm_laptop_mode
    iowarden_vm_min_free_bytes
    iowarden_vm_nr_hugepages
    iowarden_vm_overcommit_memory
    iowarden_vm_overcommit_ratio
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
    iowarden_vmstat_node_reclaims_failed_total
    iowarden_vmstat_node_reclaims_total
    iowarden_vmstat_oom_kills_total
    iowarden_vmstat_page_cache_drops_total
    iowarden_vmstat_paged_in_bytes_total
    iowarden_vmstat_paged_out_bytes_total
    iowarden_vmstat_refaulted_file_pages_total
    iowarden_vmstat_swapped_in_bytes_total
    iowarden_vmstat_swapped_out_bytes_total
    iowarden_vmstat_unstable_bytes
    iowarden_vmstat_writeback_bytes
    iowarden_vmstat_written_bytes_total
    iowarden_writeback_above_freerun_seconds
    iowarden_writeback_above_threshold_seconds
    iowarden_writeback_background_threshold_bytes
    iowarden_writeback_bandwidth_bytes_per_second
    iowarden_writeback_drain_least_seconds
    iowarden_writeback_drain_seconds
    iowarden_writeback_freerun_bytes
    iowarden_writeback_queued_bytes
    iowarden_writeback_threshold_bytes
    iowarden_writeback_threshold_fell_ratio
    iowarden_writeback_threshold_ratio
[controller] [host] reason vendor what:
    iowarden_controller_unread
[device] kind:
    iowarden_kernel_events_total
action device:
    iowarden_md_sync_action
    iowarden_md_synchronising_ratio
address array controller level name parent:
    iowarden_controller_array_info
address device host:
    iowarden_device_scsi_info
advised device scheduler:
    iowarden_device_scheduler_unsuited
alertname ...:
    iowarden_alert_recent_firings
alertname alertstate ...:
    iowarden_alerts
array controller:
    iowarden_controller_array_disk_cache_enabled
    iowarden_controller_array_done_ratio
    iowarden_controller_array_size_bytes
    iowarden_controller_array_write_cache_default_enabled
    iowarden_controller_array_write_cache_enabled
    iowarden_controller_array_write_cache_forced
    iowarden_controller_array_write_cache_turned_off
array controller firmware model serial slot usage:
    iowarden_controller_disk_info
array controller state word:
    iowarden_controller_array_state
at_least:
    iowarden_tasks_blocked_seconds
attribute disk:
    iowarden_smart_found
    iowarden_smart_growing_seconds
attribute disk [id]:
    iowarden_smart_growth
    iowarden_smart_growth_per_day
attribute disk id:
    iowarden_smart_attribute_raw
    iowarden_smart_attribute_threshold
    iowarden_smart_attribute_value
    iowarden_smart_attribute_worst
    iowarden_smart_grown_count
    iowarden_smart_value_fall
    iowarden_smart_value_low
    iowarden_smart_value_low_peer
attribute disk id meaning:
    iowarden_smart_at_threshold
battery controller:
    iowarden_controller_battery_charge_ratio
    iowarden_controller_battery_ok
    iowarden_controller_battery_temperature_celsius
battery controller state word:
    iowarden_controller_battery_state
bdi:
    iowarden_bdi_max_bytes
    iowarden_bdi_max_ratio
    iowarden_bdi_min_ratio
    iowarden_bdi_read_ahead_bytes
    iowarden_bdi_strict_limit
block device function inode line:
    iowarden_ext4_last_error_info
carried device object:
    iowarden_device_gone
chip device hwmon label sensor:
    iowarden_temperature_celsius
    iowarden_temperature_critical_celsius
    iowarden_temperature_maximum_celsius
class disk:
    iowarden_disk_events_total
clocksource:
    iowarden_clocksource_info
collector:
    iowarden_collector_age_seconds
    iowarden_collector_duration_seconds
    iowarden_collector_silent_seconds
collector outcome:
    iowarden_collector_outcome
controller:
    iowarden_controller_battery_lost
    iowarden_controller_clock_drift_seconds
    iowarden_controller_clock_offset_seconds
    iowarden_controller_memory_bytes
    iowarden_controller_missing
controller counted slot:
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
    iowarden_controller_temperature_celsius
    iowarden_controller_voltage_volts
controller sensor state word:
    iowarden_controller_sensor_state
controller serial slot:
    iowarden_controller_disk_missing
controller slot:
    iowarden_controller_disk_size_bytes
    iowarden_controller_disk_temperature_celsius
controller slot state word:
    iowarden_controller_disk_state
controller state word:
    iowarden_controller_state
cover:
    iowarden_disks
cover disk:
    iowarden_disk_cover
cover disk reason:
    iowarden_disk_not_read_info
defrag enabled:
    iowarden_thp_info
device:
    iowarden_device_alignment_offset_bytes
    iowarden_device_best_read_bytes_per_second
    iowarden_device_chunk_bytes
    iowarden_device_discard_seconds_total
    iowarden_device_discarded_bytes_total
    iowarden_device_discards_completed_total
    iowarden_device_discards_merged_total
    iowarden_device_flush_seconds_total
    iowarden_device_flushes_completed_total
    iowarden_device_in_flight
    iowarden_device_io_time_seconds_total
    iowarden_device_io_time_weighted_seconds_total
    iowarden_device_logical_block_bytes
    iowarden_device_mapper_suspended
    iowarden_device_max_hw_sectors_bytes
    iowarden_device_max_sectors_bytes
    iowarden_device_mean_in_flight
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
    iowarden_device_read_ahead_bytes
    iowarden_device_read_ahead_capped_seconds
    iowarden_device_read_ahead_recommended_bytes
    iowarden_device_read_ahead_short
    iowarden_device_read_bytes_per_second
    iowarden_device_read_bytes_total
    iowarden_device_read_only
    iowarden_device_read_seconds_total
    iowarden_device_read_write_ratio
    iowarden_device_reads_completed_total
    iowarden_device_reads_merged_total
    iowarden_device_reads_per_second
    iowarden_device_requests_above_chunk_seconds
    iowarden_device_requests_split_seconds
    iowarden_device_rotational
    iowarden_device_scsi_completions_total
    iowarden_device_scsi_errors_total
    iowarden_device_scsi_requests_total
    iowarden_device_scsi_running
    iowarden_device_scsi_timeouts_total
    iowarden_device_size_bytes
    iowarden_device_size_change_bytes
    iowarden_device_stalled_seconds
    iowarden_device_timeout_seconds
    iowarden_device_timeouts_recent
    iowarden_device_turned_read_only
    iowarden_device_utilization_ratio
    iowarden_device_waiting_tasks
    iowarden_device_write_back
    iowarden_device_write_bandwidth_bytes_per_second
    iowarden_device_write_mostly
    iowarden_device_write_seconds_total
    iowarden_device_writes_completed_total
    iowarden_device_writes_merged_total
    iowarden_device_writes_per_second
    iowarden_device_written_bytes_per_second
    iowarden_device_written_bytes_total
    iowarden_ext4_errors_total
    iowarden_ext4_first_error_timestamp_seconds
    iowarden_ext4_last_error_timestamp_seconds
    iowarden_ext4_new_errors
    iowarden_ext4_old_errors
    iowarden_ext4_warnings_total
    iowarden_md_chunk_bytes
    iowarden_md_copy_mismatches_bytes
    iowarden_md_degraded
    iowarden_md_mismatches_bytes
    iowarden_md_missing_members
    iowarden_md_parity_mismatches_bytes
    iowarden_md_raid_disks
    iowarden_md_size_bytes
    iowarden_md_sync_done_ratio
    iowarden_md_sync_speed_bytes_per_second
    iowarden_md_turned_read_only
    iowarden_md_unchecked_seconds
device enclosure slot:
    iowarden_enclosure_slot_active
    iowarden_enclosure_slot_fault
    iowarden_enclosure_slot_locate
    iowarden_enclosure_slot_ok
device enclosure slot status:
    iowarden_enclosure_slot_info
device fstype mountpoint:
    iowarden_filesystem_available_bytes
    iowarden_filesystem_files
    iowarden_filesystem_files_free
    iowarden_filesystem_free_bytes
    iowarden_filesystem_full_in_seconds
    iowarden_filesystem_held_inodes_used_ratio
    iowarden_filesystem_held_used_ratio
    iowarden_filesystem_inodes_full_in_seconds
    iowarden_filesystem_inodes_used_ratio
    iowarden_filesystem_readonly
    iowarden_filesystem_size_bytes
    iowarden_filesystem_unread
    iowarden_filesystem_used_ratio
    iowarden_mount_emergency
    iowarden_mount_forced_read_only
    iowarden_mount_read_only
    iowarden_mount_strict_access_time
    iowarden_mount_turned_read_only
    iowarden_mount_unwanted_read_only
    iowarden_mount_wanted_read_only
device host:
    iowarden_device_starved
    iowarden_device_starving
device level:
    iowarden_md_info
device map:
    iowarden_multipath_path
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
device name state:
    iowarden_multipath_paths
device partition:
    iowarden_partition_alignment_offset_bytes
    iowarden_partition_misaligned_bytes
    iowarden_partition_size_bytes
    iowarden_partition_start_bytes
device path:
    iowarden_device_path_info
device scheduler:
    iowarden_device_scheduler_info
device severity:
    iowarden_device_hang_threshold_seconds
device state:
    iowarden_device_scsi_state_info
    iowarden_md_state
    iowarden_md_stopped
devices:
    iowarden_writeback_full_drain_seconds
    iowarden_writeback_usual_bandwidth_bytes_per_second
disk:
    iowarden_disk_capacity_bytes
    iowarden_disk_lost_seconds
    iowarden_disk_never_read_seconds
    iowarden_disk_power_cycles_total
    iowarden_disk_power_on_seconds
    iowarden_disk_read_age_seconds
    iowarden_disk_rotation_rpm
    iowarden_disk_temperature_celsius
    iowarden_disk_temperature_limit_celsius
    iowarden_smart_disagreements
    iowarden_smart_enabled
    iowarden_smart_errors_logged_total
    iowarden_smart_excess_celsius
    iowarden_smart_exit_status
    iowarden_smart_failing
    iowarden_smart_hot_celsius
    iowarden_smart_nvme_available_spare_ratio
    iowarden_smart_nvme_available_spare_threshold_ratio
    iowarden_smart_nvme_controller_busy_seconds_total
    iowarden_smart_nvme_critical_temperature_seconds_total
    iowarden_smart_nvme_critical_warning
    iowarden_smart_nvme_error_log_entries_total
    iowarden_smart_nvme_media_errors_total
    iowarden_smart_nvme_percentage_used_ratio
    iowarden_smart_nvme_read_bytes_total
    iowarden_smart_nvme_unsafe_shutdowns_total
    iowarden_smart_nvme_warning_temperature_seconds_total
    iowarden_smart_nvme_written_bytes_total
    iowarden_smart_passed
    iowarden_smart_pending_sectors
    iowarden_smart_poll_duration_seconds
    iowarden_smart_poll_failures_total
    iowarden_smart_polls_total
    iowarden_smart_read_timestamp_seconds
    iowarden_smart_scsi_endurance_used_ratio
    iowarden_smart_scsi_failure_predicted
    iowarden_smart_scsi_grown_defects
    iowarden_smart_scsi_non_medium_errors_total
    iowarden_smart_scsi_pending_defects
    iowarden_smart_scsi_start_stop_cycles_total
    iowarden_smart_self_test_remaining_ratio
    iowarden_smart_solid_state
    iowarden_smart_spare_margin_ratio
    iowarden_smart_trusted
    iowarden_smart_unread_fields
    iowarden_smart_unreadable_sectors
    iowarden_smart_used_ratio
disk expected_by object:
    iowarden_disk_missing
disk kind:
    iowarden_smart_drive_warning
    iowarden_smart_self_test_age_seconds
    iowarden_smart_self_test_bad_sector
    iowarden_smart_self_test_failures
    iowarden_smart_self_test_last_passed_timestamp_seconds
    iowarden_smart_self_test_last_start_timestamp_seconds
    iowarden_smart_self_test_old_failures
    iowarden_smart_self_test_overdue_seconds
    iowarden_smart_self_test_passed
    iowarden_smart_self_test_refused
    iowarden_smart_self_test_running
disk operation:
    iowarden_smart_scsi_errors_corrected_total
    iowarden_smart_scsi_errors_uncorrected_total
    iowarden_smart_scsi_processed_bytes_total
disk reason:
    iowarden_smart_doubt
disk warning:
    iowarden_smart_nvme_warning
disk way:
    iowarden_smart_way
document reason:
    iowarden_state_unread
domainname machine nodename release sysname version:
    iowarden_uname_info
driver host:
    iowarden_scsi_host_info
driver program:
    iowarden_other_monitor_clash
event:
    iowarden_device_events_total
filesystem identifier label:
    iowarden_btrfs_device_corruption_errors_total
    iowarden_btrfs_device_flush_errors_total
    iowarden_btrfs_device_generation_errors_total
    iowarden_btrfs_device_missing
    iowarden_btrfs_device_read_errors_total
    iowarden_btrfs_device_write_errors_total
    iowarden_btrfs_new_errors
    iowarden_btrfs_old_errors
    iowarden_btrfs_recent_read_errors
host:
    iowarden_scsi_host_advised_queue_depth
    iowarden_scsi_host_busy
    iowarden_scsi_host_can_queue
    iowarden_scsi_host_commands_per_lun
    iowarden_scsi_host_disk_queue_ratio
    iowarden_scsi_host_fair
    iowarden_scsi_host_starved_seconds
kind:
    iowarden_write_lull_seconds
mode:
    iowarden_cpu_seconds_total
node:
    iowarden_numa_free_bytes
    iowarden_numa_total_bytes
outcome verb:
    iowarden_probe_requests_total
program:
    iowarden_other_monitor_running
program unit:
    iowarden_other_monitor_pid
receiver:
    iowarden_mail_oldest_unsent_seconds
    iowarden_mails_refused
    iowarden_mails_waiting
receiver result:
    iowarden_mails_total
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
    iowarden_rule_evaluation_failures_total
    iowarden_rule_failing
severity:
    iowarden_incidents_unresolved
severity source:
    iowarden_events_total
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
            found[line.strip()] = labels
    return found


def fits(name: str, labels: Collection[str]) -> bool:
    """Return whether a sample of a family may have these labels."""
    expected = LABELS[name]
    known = {each.strip("[]") for each in expected}
    required = {each for each in expected if each.isidentifier()}
    return required <= {*labels} and ("..." in known or {*labels} <= known)


LABELS: Mapping[str, tuple[str, ...]] = _parsed(_FAMILIES)
"""By family."""
