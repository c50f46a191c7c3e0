"""SCSI log pages, the NVMe health log and ATA's device statistics in smartctl's report.

Source: smartmontools 7.5, scsiprint.cpp, nvmeprint.cpp, ataprint.cpp; NVM Express Base
Specification, SMART / Health Information; ACS-3, Device Statistics log.
"""

from __future__ import annotations

import itertools

from iowarden.collectors.smart.drive import ErrorCounter, NvmeHealth, ScsiHealth
from iowarden.collectors.smart.smartctl_report import MAX_UINT128, SmartctlReport, first

_DATA_UNIT_BYTES = 512_000
"""Source: NVM Express Base Specification, 'Data Units Read': thousands of 512 bytes."""


def scsi_of(report: SmartctlReport) -> ScsiHealth:
    """Return the counts of the SCSI log pages."""
    counters = {
        name: ErrorCounter(
            report.integer(_COUNTER_LOG, name, "total_errors_corrected"),
            report.integer(_COUNTER_LOG, name, "total_uncorrected_errors"),
            report.gigabytes(_COUNTER_LOG, name, "gigabytes_processed"),
        )
        for name in ("read", "write", "verify")
        if report.at(_COUNTER_LOG, name) is not None
    }
    endurance = first(
        report.ratio,
        ("scsi_percentage_used_endurance_indicator",),
        ("endurance_used", "current_percent"),
    )
    return ScsiHealth(
        error_counters=counters,
        grown_defects=report.integer("scsi_grown_defect_list"),
        non_medium_errors_total=report.integer("scsi_non_medium_error_count"),
        pending_defects=report.integer("scsi_pending_defects", "count"),
        manufactured_year=report.text(_START_STOP, "year_of_manufacture") or None,
        manufactured_week=report.text(_START_STOP, "week_of_manufacture") or None,
        specified_start_stop_cycles=report.integer(
            _START_STOP, "specified_cycle_count_over_device_lifetime"
        ),
        start_stop_cycles=report.integer(_START_STOP, "accumulated_start_stop_cycles"),
        asc=report.integer("smart_status", "scsi", "asc", maximum=255),
        ascq=report.integer("smart_status", "scsi", "ascq", maximum=255),
        endurance_used_ratio=endurance,
        unreassigned_sectors=_unreassigned_sectors(report),
        scan_halted=_halted(report),
    )


def _halted(report: SmartctlReport) -> str:
    """Return why the background scan is halted; '': it is not, or for a temperature only.

    Source: SBC, background scan results log page; smartmontools 7.5, scsiprint.cpp, bms_status. A
    drive continues once its temperature is within range again.
    """
    words = report.text(_SCAN, "status", "string")
    return words if words.startswith("halted") and "temperature" not in words else ""


def _unreassigned_sectors(report: SmartctlReport) -> int | None:
    """Return the sectors whose newest entry of the background scan is not settled.

    Source: SBC, background scan results log page; smartmontools 7.5, scsiprint.cpp.
    """
    log = report.at(_SCAN)
    # smartctl also puts the power-on time of a report without this log there.
    if not isinstance(log, dict) or not log.keys() - {"hours", "minutes"}:
        return None
    newest: dict[int | None, tuple[int, bool]] = {}
    for name in itertools.islice(log, _MAX_SCAN_ENTRIES):
        if not name.startswith("result_"):
            continue
        minutes = report.integer(_SCAN, name, "accumulated_power_on", "minutes")
        status = report.integer(_SCAN, name, "reassign_status", "value")
        if status is not None:
            entry = (minutes or 0, status in _UNREASSIGNED)
            sector = report.integer(_SCAN, name, "lba")
            newest[sector] = max(newest.get(sector, entry), entry)
    return sum(is_open for _, is_open in newest.values())


_SCAN = "scsi_background_scan"
_MAX_SCAN_ENTRIES = 4096
"""The log page has 2048 at most."""
_UNREASSIGNED = frozenset({1, 4, 8})
"""The sector has to be rewritten or reassigned; the drive, or a program, tried that in vain."""


_COUNTER_LOG = "scsi_error_counter_log"
_START_STOP = "scsi_start_stop_cycle_counter"
HEALTH_LOG = "nvme_smart_health_information_log"


def nvme_of(report: SmartctlReport) -> NvmeHealth | None:
    """Return the health log; counters have 128 bits there, times are minutes."""
    if report.at(HEALTH_LOG) is None:
        return None

    def scaled(name: str, unit: int) -> float | None:
        number = report.integer(HEALTH_LOG, name, maximum=MAX_UINT128)
        return None if number is None else float(number) * unit

    return NvmeHealth(
        critical_warning=report.integer(HEALTH_LOG, "critical_warning", maximum=255),
        available_spare_ratio=report.ratio(HEALTH_LOG, "available_spare"),
        available_spare_threshold_ratio=report.ratio(HEALTH_LOG, "available_spare_threshold"),
        endurance_used_ratio=report.ratio(HEALTH_LOG, "percentage_used"),
        media_errors_total=report.integer(HEALTH_LOG, "media_errors", maximum=MAX_UINT128),
        error_log_entries_total=report.integer(
            HEALTH_LOG, "num_err_log_entries", maximum=MAX_UINT128
        ),
        unsafe_shutdowns_total=report.integer(HEALTH_LOG, "unsafe_shutdowns", maximum=MAX_UINT128),
        read_bytes_total=scaled("data_units_read", _DATA_UNIT_BYTES),
        written_bytes_total=scaled("data_units_written", _DATA_UNIT_BYTES),
        controller_busy_seconds_total=scaled("controller_busy_time", 60),
        warning_temperature_seconds_total=scaled("warning_temp_time", 60),
        critical_temperature_seconds_total=scaled("critical_comp_time", 60),
    )


USED_PERCENT = (7, 0x08)
"""Page and offset of the Percentage Used Endurance Indicator, which may be more than 100."""
_TRANSFERRED = ((1, 0x18), (1, 0x28))
"""Logical sectors written and read."""


def device_statistics(report: SmartctlReport) -> dict[tuple[int, int], int]:
    """Return the valid numbers of ATA's device statistics, by page and offset."""
    numbers: dict[tuple[int, int], int] = {}
    for page in report.rows("ata_device_statistics", "pages"):
        number = page.at("number")
        for row in page.rows("table"):
            offset, value = row.at("offset"), row.at("value")
            if row.flag("flags", "valid") and all(
                isinstance(each, int) and not isinstance(each, bool) and each >= 0
                for each in (number, offset, value)
            ):
                numbers.setdefault((number, offset), value)
    return numbers


def transferred_sectors(numbers: dict[tuple[int, int], int]) -> int | None:
    """Return the logical sectors that hosts wrote and read; None: not reported."""
    counts = [numbers[place] for place in _TRANSFERRED if place in numbers]
    return sum(counts) if counts else None
