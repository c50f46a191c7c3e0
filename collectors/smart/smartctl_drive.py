"""A drive from smartctl's report: identity, health status, ATA attributes, common data.

Source: smartmontools 7.5: ataprint.cpp, scsiprint.cpp, nvmeprint.cpp.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.smart.drive import Attribute, Drive, NvmeHealth, Protocol
from iowarden.collectors.smart.smartctl_logs import (
    HEALTH_LOG,
    USED_PERCENT,
    device_statistics,
    nvme_of,
    scsi_of,
    transferred_sectors,
)
from iowarden.collectors.smart.smartctl_refusal import ExitStatus, exit_findings
from iowarden.collectors.smart.smartctl_report import MAX_UINT128, SmartctlReport, clean, first
from iowarden.collectors.smart.smartctl_selftests import (
    kinds,
    minutes_by_kind,
    offline_collection,
    remaining_ratio,
    self_test_passed,
    self_tests,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_MESSAGES = 40
_NO_LIMIT_CELSIUS = frozenset({0, 25})
"""Trip temperature of a SCSI drive that has none, or whose controller made it up."""


def drive_of(report: SmartctlReport, lines: list[str], kind: str) -> Drive:
    """Return all data in the report, however few."""
    protocol = _protocol(report, kind)
    vendor = report.text("scsi_vendor") or report.text("vendor")
    product = report.text("scsi_product") or report.text("product")
    attributes = tuple(_attributes(report))
    trip = first(report.celsius, ("temperature", "drive_trip"), ("scsi_temperature", "drive_trip"))
    scsi = scsi_of(report) if protocol is Protocol.SCSI else None
    nvme = nvme_of(report) if protocol is Protocol.NVME else None
    enabled = report.flag("smart_support", "enabled")
    enabled = True if enabled is None and nvme is not None else enabled
    available = report.flag("smart_support", "available")
    available = True if available is None and enabled else available
    capacity = report.integer("user_capacity", "bytes")
    if capacity is None:
        capacity = report.integer("nvme_total_capacity", maximum=MAX_UINT128) or None
    errors = first(
        report.integer,
        ("ata_smart_error_log", "extended", "count"),
        ("ata_smart_error_log", "summary", "count"),
    )
    pending = report.integer("ata_pending_defects_log", "count")
    statistics = device_statistics(report)
    used_percent = statistics.get(USED_PERCENT)
    spoilt = report.strings("read_errors")
    drive = Drive(
        protocol=protocol,
        model=report.text("model_name")
        or report.text("scsi_model_name")
        or f"{vendor} {product}".strip(),
        vendor=vendor,
        family=report.text("model_family"),
        serial=report.text("serial_number"),
        firmware=report.text("firmware_version")
        or report.text("scsi_revision")
        or report.text("revision"),
        wwn=_wwn(report),
        capacity_bytes=capacity,
        logical_block_bytes=report.integer("logical_block_size"),
        physical_block_bytes=report.integer("physical_block_size"),
        rotation_rpm=_rotation(report, protocol, lines),
        transport=report.text("scsi_transport_protocol", "name"),
        smart_available=available,
        smart_enabled=enabled,
        passed=_passed(report, nvme),
        exit_status=report.integer("smartctl", "exit_status", maximum=255) or 0,
        temperature_celsius=_temperature(report, protocol, attributes),
        temperature_limit_celsius=_limit(report, protocol, trip),
        critical_temperature_celsius=_critical_temperature(report),
        reported_trip_celsius=trip,
        power_on_hours=_power_on_hours(report, attributes),
        power_cycles=_power_cycles(report, attributes),
        attributes=attributes,
        errors_logged_total=errors,
        self_tests=self_tests(report, protocol),
        self_test_remaining_ratio=remaining_ratio(report),
        self_test_kinds=kinds(report, protocol, lines),
        self_test_minutes=minutes_by_kind(report),
        read_recovery_seconds=_read_recovery(report),
        offline_collection=offline_collection(report),
        pending_sectors=scsi.pending_defects if scsi else pending,
        endurance_used_ratio=None if used_percent is None else used_percent / 100,
        transferred_sectors_total=transferred_sectors(statistics),
        scsi=scsi,
        nvme=nvme,
        refused=tuple(clean(line) for line in lines if _UNSUPPORTED.search(line))[:MAX_MESSAGES],
        smartctl_version=_version(report),
    )
    messages = [row.text("string") for row in report.rows("smartctl", "messages")]
    messages += [clean(line) for line in lines if _COMPLAINT.search(line)]
    messages += report.messages
    unread = [*report.messages, *_contradictions(drive)]
    unread += [f"smartctl: expected a known value, got '{clean(line)}'" for line in spoilt]
    return dataclasses.replace(
        drive,
        messages=tuple(dict.fromkeys(filter(None, (*messages, *unread))))[:MAX_MESSAGES],
        read_errors=tuple(dict.fromkeys(unread))[:MAX_MESSAGES],
    )


def _contradictions(drive: Drive) -> Iterator[str]:
    """Yield what smartctl's exit status, or a value, shows that the rest of its report does not.

    Source: smartctl(8), EXIT STATUS, and smartmontools 7.5, ataprint.cpp: a temperature counts
    there, too, and failed self-tests before a passed one do not.
    """
    rows = drive.attributes
    now = any(_at_threshold(each, each.value) for each in rows)
    past = now or any(_at_threshold(each, each.worst) or each.failed for each in rows)
    tested = any(self_test_passed(test.status) is False for test in drive.self_tests)
    for bit, told in (
        (ExitStatus.FAILING, drive.passed is not True),
        (ExitStatus.PREFAIL, now),
        (ExitStatus.PAST, past),
        (ExitStatus.SELF_TEST, tested),
    ):
        if drive.exit_status & bit and not told:
            yield (
                "smartctl: its exit status reports what its output does not show:"
                f" {exit_findings(bit)[0]}"
            )
    for each in rows:
        counted = each.counted() is not None or _OF_SO_MANY.fullmatch(each.raw_text)
        if each.id in _ERRORS and each.raw_text and not counted:
            yield f"smartctl: attribute {each.id}: expected a count, got '{each.raw_text[:60]}'"
    for test in drive.self_tests:
        if test.passed:
            break  # what is older is settled
        unknown = bool(test.status) and self_test_passed(test.status) is None
        if unknown and not _UNFINISHED.match(test.status):
            yield f"smartctl: a self-test: expected a known result, got '{test.status}'"


def _at_threshold(attribute: Attribute, value: int | None) -> bool:
    return bool(value is not None and attribute.threshold and value <= attribute.threshold)


_ERRORS = frozenset({5, 10, 187, 188, 196, 197, 198, 199})
"""Attributes that count errors (conditions smart_errors and interface_crc_errors)."""
_OF_SO_MANY = lazy_pattern(r"\d{1,9}/\d{1,12}", re.ASCII)
_UNFINISHED = lazy_pattern(
    r"(?i)aborted|interrupted|(?:.{0,12}self[- ]test|test).{0,20} in progress|in progress|reserved"
)
"""Status of a self-test without a result for the drive. Source: as for `self_test_passed`."""


_UNSUPPORTED = lazy_pattern(r"not supported|does not support|[Uu]nsupported|not implemented")
_COMPLAINT = lazy_pattern(
    r"^Warning[!:]|[Ff]ailed(?:: | \[|$)|NOT READY|NO MEDIUM|Terminate command"
)


def _protocol(report: SmartctlReport, kind: str) -> Protocol:
    said = report.text("device", "protocol")
    if said in set(Protocol):
        return Protocol(said)
    if report.starts("nvme_") or "nvme" in kind or kind.startswith("snt"):
        return Protocol.NVME
    if report.starts("scsi_") or kind == "scsi":
        return Protocol.SCSI
    return Protocol.ATA


def _version(report: SmartctlReport) -> str:
    version = report.at("smartctl", "version")
    if isinstance(version, list) and all(isinstance(part, int) for part in version[:2]):
        return ".".join(map(str, version[:2]))
    return ""


def _wwn(report: SmartctlReport) -> str:
    """Return NAA, OUI and identifier of an ATA drive, the designator of SCSI, EUI-64 of NVMe."""
    if report.at("wwn") is not None:
        naa = report.integer("wwn", "naa", maximum=2**4 - 1)
        oui = report.integer("wwn", "oui", maximum=2**24 - 1)
        identifier = report.integer("wwn", "id", maximum=2**36 - 1)
        if naa is not None and oui is not None and identifier is not None:
            return f"{naa:x}{oui:06x}{identifier:09x}"
    for row in report.rows("nvme_namespaces"):
        if row.at("eui64") is not None:
            oui = row.integer("eui64", "oui", maximum=2**24 - 1)
            extension = row.integer("eui64", "ext_id", maximum=2**40 - 1)
            if oui is not None and extension is not None and (oui or extension):
                return f"{oui:06x}{extension:010x}"
    found = _DESIGNATOR.match(report.text("logical_unit_id").lower())
    return found[1] if found and int(found[1], 16) else ""


_DESIGNATOR = lazy_pattern(r"(?:0x)?([0-9a-f]{32}|[0-9a-f]{16})")


def _rotation(report: SmartctlReport, protocol: Protocol, lines: list[str]) -> int | None:
    """Return the rotation rate, 0 for a solid-state drive.

    For a SCSI drive that does not report one, smartctl's JSON has 0 as well; its text has no line.
    """
    rate = report.integer("rotation_rate", maximum=0xFFFE)
    told = not lines or any(line.startswith("Rotation Rate:") for line in lines)
    return None if rate == 0 and protocol is Protocol.SCSI and not told else rate


def _passed(report: SmartctlReport, nvme: NvmeHealth | None) -> bool | None:
    passed = report.flag("smart_status", "passed")
    if passed is None and nvme is not None and nvme.critical_warning is not None:
        return nvme.critical_warning == 0
    return passed


def _temperature(
    report: SmartctlReport, protocol: Protocol, attributes: tuple[Attribute, ...]
) -> float | None:
    """Return the temperature; ATA and SCSI devices without a sensor report 0."""
    for path in (
        ("temperature", "current"),
        ("scsi_environmental_reports", "temperature_1", "current"),
    ):
        current = report.celsius(*path)
        if current is not None and (current != 0 or protocol is Protocol.NVME):
            return current
    for number in (194, 190):
        found = next((each for each in attributes if each.id == number), None)
        # Vendors pack minimum and maximum into the bytes above the lowest.
        low = None if found is None or found.counted() is None else (found.counted() or 0) & 0xFF
        if low is not None and 0 < low < 128:
            return float(low)
    return None


def _limit(report: SmartctlReport, protocol: Protocol, trip: float | None) -> float | None:
    """Return the temperature limit that the drive itself reports."""
    if protocol is Protocol.SCSI:
        return None if trip in _NO_LIMIT_CELSIUS else trip
    for path in (
        ("nvme_composite_temperature_threshold", "warning"),
        ("temperature", "op_limit_max"),
        ("ata_sct_status", "temperature", "op_limit_max"),
        ("ata_sct_temperature_history", "temperature", "op_limit_max"),
    ):
        if (limit := report.celsius(*path)) is not None and limit > 0:
            return limit
    return None


def _critical_temperature(report: SmartctlReport) -> float | None:
    """Return the critical composite temperature threshold of an NVMe drive.

    Source: smartmontools, nvmeprint.cpp; the JSON has it from 7.4 or 7.5 on, the text always.
    """
    limit = first(
        report.celsius,
        ("nvme_composite_temperature_threshold", "critical"),
        ("temperature", "critical_limit_max"),
    )
    return limit if limit is not None and limit > 0 else None


def _read_recovery(report: SmartctlReport) -> float | None:
    """Return the limit of SCT error recovery control. Source: ataprint.cpp, ataPrintSCTErrorRecov.

    0 deciseconds mean that it is disabled.
    """
    tenths = report.integer("ata_sct_erc", "read", "deciseconds", maximum=0xFFFF)
    enabled = report.flag("ata_sct_erc", "read", "enabled")
    return tenths / 10 if tenths and enabled is not False else None


def _power_on_hours(report: SmartctlReport, attributes: tuple[Attribute, ...]) -> int | None:
    hours = first(report.integer, ("power_on_time", "hours"), (HEALTH_LOG, "power_on_hours"))
    if hours is None:
        # A vendor's format may follow it: '12345 (188 21 0)' or '12345h+17m+03.123s'.
        found = next((each for each in attributes if each.id == 9), None)
        digits = re.match(r"(\d{1,9})(?:h|\s|$)", found.raw_text) if found else None
        hours = int(digits[1]) if digits else None
    return hours


def _power_cycles(report: SmartctlReport, attributes: tuple[Attribute, ...]) -> int | None:
    cycles = first(report.integer, ("power_cycle_count",), (HEALTH_LOG, "power_cycles"))
    if cycles is None:
        found = next((each for each in attributes if each.id == 12), None)
        cycles = found.counted() if found else None
    return cycles


def _attributes(report: SmartctlReport) -> Iterator[Attribute]:
    """Yield the attributes, each number once, because the number identifies an attribute."""
    known: set[int] = set()
    for row in report.rows("ata_smart_attributes", "table"):
        number = row.integer("id", maximum=255)
        if not number or number in known:
            report.messages.append(
                f"smartctl: attribute {number}: expected a unique number; the first one is used"
            )
            continue
        known.add(number)
        failed = row.text("when_failed").lower()
        yield Attribute(
            number,
            row.text("name"),
            row.integer("value", maximum=255),
            row.integer("worst", maximum=255),
            row.integer("thresh", maximum=255),
            row.integer("raw", "value"),
            row.text("raw", "string"),
            row.flag("flags", "prefailure") or False,
            "now" if "now" in failed else "past" if "past" in failed else "",
        )
