"""Self-tests in smartctl's report: the log, the running one, the kinds that a drive supports.

Source: smartmontools 7.5: ataprint.cpp, scsiprint.cpp, nvmeprint.cpp.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.smart.drive import OfflineCollection, Protocol, SelfTest
from iowarden.collectors.smart.smartctl_report import SmartctlReport, first

if TYPE_CHECKING:
    from collections.abc import Iterator


OFFLINE_STATUS = ("ata_smart_data", "offline_data_collection", "status", "value")
_OFFLINE = {
    0: OfflineCollection.NEVER_STARTED,
    2: OfflineCollection.COMPLETED,
    3: OfflineCollection.RUNNING,
    4: OfflineCollection.SUSPENDED,
    5: OfflineCollection.ABORTED,
    6: OfflineCollection.FAILED,
}


def self_tests(report: SmartctlReport, protocol: Protocol) -> tuple[SelfTest, ...]:
    """Return the self-test log, newest first: ATA's extended one before the standard one."""
    tests = tuple(_self_tests(report))
    # An NVMe drive may leave an old result in a slot before a newer one.
    if protocol is Protocol.NVME and all(test.hours is not None for test in tests):
        return tuple(sorted(tests, key=lambda test: -(test.hours or 0)))
    return tests


def _self_tests(report: SmartctlReport) -> Iterator[SelfTest]:
    logs = (
        ("ata_smart_self_test_log", "extended", "table"),
        ("ata_smart_self_test_log", "standard", "table"),
    )
    rows: list[SmartctlReport] = next(filter(None, (list(report.rows(*path)) for path in logs)), [])
    rows = rows or list(report.rows("nvme_self_test_log", "table"))
    if not rows:
        for number in range(20):
            name = f"scsi_self_test_{number}"
            if isinstance(report.at(name), dict):
                row = SmartctlReport(report.at(name))
                row.messages = report.messages
                rows.append(row)
    for row in rows or list(report.rows("self_tests")):
        kind = next(filter(None, (row.text(name, "string") for name in _KIND_NAMES)), "")
        status = next(filter(None, (row.text(name, "string") for name in _STATUS_NAMES)), "")
        hours = first(
            row.integer, ("lifetime_hours",), ("power_on_hours",), ("power_on_time", "hours")
        )
        lba = first(row.at, ("lba",), ("lba_first_failure", "value"))
        if lba == 0 and "read" not in status.lower():
            lba = None  # a servo or electrical failure has no sector
        found = _KIND.search(kind)
        word = found[0].lower() if found else kind
        yield SelfTest(
            "extended" if word == "long" else word,
            status,
            None if _UNKNOWN_KIND.match(kind) else self_test_passed(status),
            hours,
            row.as_integer(lba, "lba"),
        )


_KIND_NAMES = ("type", "self_test_code", "code")
_STATUS_NAMES = ("status", "self_test_result", "result")
_KIND = lazy_pattern(r"short|extended|long|conveyance|selective|offline", re.IGNORECASE)


_UNKNOWN_KIND = lazy_pattern(r"Unknown|Reserved", re.IGNORECASE)
"""Code without a meaning: a slot that was never written, so its result means nothing either."""


def self_test_passed(status: str) -> bool | None:
    """Return the result of a self-test from its status; None: no result.

    Source: smartmontools, ataprint.cpp, scsiprint.cpp, nvmeprint.cpp; a test that ends by a fatal
    or unknown error counts as failed there, too.
    """
    if status in {"Completed", "Completed without error"}:
        return True
    if status.startswith(("Completed", "Failed", "Fatal", "Unknown error")):
        return False
    return None


def remaining_ratio(report: SmartctlReport) -> float | None:
    """Return the remaining part of a running self-test."""
    value = report.integer("ata_smart_data", "self_test", "status", "value", maximum=255)
    if value is not None and value >> 4 == 0xF:
        # ATA command set, self-test execution status: tens of a percent in the lower four bits.
        return min(value & 0xF, 10) / 10
    remaining = report.ratio("scsi_self_test_status", "remaining_percent")
    if remaining is not None:
        return remaining
    completed = first(
        report.ratio,
        ("scsi_self_test_status", "completion_percent"),
        ("nvme_self_test_log", "current_self_test_completion_percent"),
    )
    return None if completed is None else max(0.0, 1 - completed)


def kinds(report: SmartctlReport, protocol: Protocol, lines: list[str]) -> tuple[str, ...] | None:
    """Return the self-tests that a drive supports, None if it does not report them."""
    if protocol is Protocol.NVME:
        able = report.flag("nvme_optional_admin_commands", "self_test")
    elif protocol is Protocol.SCSI:
        # Only the existence of a log for them shows it; there is no other field.
        has_log = report.starts("scsi_self_test_") or report.at("self_tests")
        none_yet = any(line.lower().startswith("no self-tests have") for line in lines)
        able = True if has_log or none_yet else None
    else:
        able = report.flag("ata_smart_data", "capabilities", "self_tests_supported")
    if able is None:
        return None
    conveyance = report.flag("ata_smart_data", "capabilities", "conveyance_self_test_supported")
    offline = report.flag("ata_smart_data", "capabilities", "exec_offline_immediate_supported")
    return (
        *(("short", "long") if able else ()),
        *(("conveyance",) if conveyance else ()),
        *(("offline",) if offline else ()),
    )


def offline_collection(report: SmartctlReport) -> OfflineCollection | None:
    """Return what became of the last off-line data collection.

    Source: ATA8-ACS, off-line data collection status: bit 7 is set if it starts automatically; the
    values as in smartmontools, ataprint.cpp.
    """
    value = report.integer(*OFFLINE_STATUS, maximum=255)
    return None if value is None else _OFFLINE.get(value & 0x7F)


def minutes_by_kind(report: SmartctlReport) -> dict[str, int]:
    """Return the duration of each kind of self-test as reported by the drive."""
    minutes = {
        kind: report.integer("ata_smart_data", "self_test", "polling_minutes", name)
        for kind, name in (("short", "short"), ("long", "extended"), ("conveyance", "conveyance"))
    }
    seconds = report.integer("scsi_extended_self_test_seconds")
    if seconds is not None:
        minutes["long"] = math.ceil(seconds / 60)
    seconds = report.integer("ata_smart_data", "offline_data_collection", "completion_seconds")
    if seconds:
        minutes["offline"] = math.ceil(seconds / 60)
    return {kind: number for kind, number in minutes.items() if number is not None}
