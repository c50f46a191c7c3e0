"""Conditions: what alerts and events are about, one word each. Label `condition`.

Each is defined in definitions.yaml: meaning, computation, thresholds, sources, action, limits.
"""

from __future__ import annotations

import enum


class Condition(enum.StrEnum):
    """Value of the label `condition` of shipped rules' alerts and of events.

    Code compares members and never a part of the word. In a user's own rules the label is free
    text: nothing follows from it, whether it is one of these words or not.
    """

    WRITE_STALL = "write_stall"
    DIRTY_LIMIT_TOO_LARGE = "dirty_limit_too_large"
    BDI_THROTTLE = "bdi_throttle"
    DEVICE_HANG = "device_hang"
    WRITEBACK_NO_PROGRESS = "writeback_no_progress"
    HUNG_TASK = "hung_task"
    COMMAND_TIMEOUT = "command_timeout"
    PROBE_PROGRAM_STUCK = "probe_program_stuck"
    RECLAIM_STALL = "reclaim_stall"
    DIRECT_RECLAIM = "direct_reclaim"
    PAGE_CACHE_DROPPED = "page_cache_dropped"
    READ_AHEAD_TOO_SMALL = "read_ahead_too_small"
    READ_AHEAD_BELOW_STRIPE = "read_ahead_below_stripe"
    MISALIGNMENT = "misalignment"
    REQUESTS_ABOVE_CHUNK = "requests_above_chunk"
    REQUESTS_SPLIT = "requests_split"
    QUEUE_DEPTH_TOO_LARGE = "queue_depth_too_large"
    QUEUE_STARVATION = "queue_starvation"
    PHANTOM_READS = "phantom_reads"
    DISK_FAILING = "disk_failing"
    SMART_ERRORS = "smart_errors"
    INTERFACE_CRC_ERRORS = "interface_crc_errors"
    NORMALIZED_DROP = "normalized_drop"
    NORMALIZED_LOW_AT_BASELINE = "normalized_low_at_baseline"
    SELF_TEST = "self_test"
    DISK_TEMPERATURE = "disk_temperature"
    SCSI_HEALTH = "scsi_health"
    NVME_HEALTH = "nvme_health"
    HEALTH_DATA_UNAVAILABLE = "health_data_unavailable"
    SMART_IMPLAUSIBLE = "smart_implausible"
    CONTROLLER_EVENT = "controller_event"
    CONTROLLER_CLOCK_CHANGED = "controller_clock_changed"
    IO_ERROR = "io_error"
    DIRTY_RATIO_TOO_LARGE = "dirty_ratio_too_large"
    ZONE_RECLAIM_ENABLED = "zone_reclaim_enabled"
    SCHEDULER_UNSUITABLE = "scheduler_unsuitable"
    STRICTATIME = "strictatime"
    SWAP = "swap"
    BDFLUSH = "bdflush"
    SPACE_LOW = "space_low"
    MEMORY_SETTING = "memory_setting"
    CONTROLLER_WRITE_CACHE = "controller_write_cache"
    MULTIPATH_PATH_LOST = "multipath_path_lost"
    COMPETING_MONITOR = "competing_monitor"
    FILESYSTEM_ERROR = "filesystem_error"
    FILESYSTEM_READ_ONLY = "filesystem_read_only"
    FILESYSTEM_SHUTDOWN = "filesystem_shutdown"
    BTRFS_ERROR = "btrfs_error"
    RAID_ARRAY = "raid_array"
    MD_CHECK_OVERDUE = "md_check_overdue"
    DEVICE_UNAVAILABLE = "device_unavailable"
    COLLECTOR_STALE = "collector_stale"
    STATE_STORAGE = "state_storage"
    NOTIFICATION_UNSENT = "notification_unsent"
    RULE_EVALUATION_FAILING = "rule_evaluation_failing"
    CONFIG_RELOAD_FAILED = "config_reload_failed"
    LOG_MESSAGES_LOST = "log_messages_lost"
    UEVENTS_LOST = "uevents_lost"
    PROBE_DOWN = "probe_down"
    NO_DISK_MONITORED = "no_disk_monitored"
