"""Parser of smartctl's text output, into the fields of its JSON. Pure.

Source: smartctl(8), 5.36 to 7.5; names and nesting are those of '--json' of 7.5. The JSON of older
versions lacks some of it, and all of it where only text was saved. Only what is used is parsed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from iowarden.collectors.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Document = dict[str, Any]

_BANNER = lazy_pattern(r"smartctl (?:version )?(\d+)\.(\d+)")
_GROUPED = lazy_pattern(
    r"(?:\d{1,3}(?:[,.' \u2019\u00a0\u2009\u202f\ufffd\udc92\udca0]\d{3})+|\d+)"
    r"(?=$|[\s%\[]|[.,]\d{1,2}(?!\d))"
)
"""A number; smartctl groups its digits by the locale, and not always in UTF-8."""
_ATTRIBUTE = lazy_pattern(
    r"\s*(\d+)\s+(\S+)\s+(?:0x([0-9a-f]{4})|([P-])[O-][S-][R-][C-][K-]\S*)"
    r"\s+(\d+|---)\s+(\d+|---)\s+(\d+|---)\s+(?:(?:Pre-fail|Old_age)\s+\S+\s+)?"
    r"(-|FAILING_NOW|In_the_past|NOW|Past)\s+(\S.*)"
)
"""A line of '-f old', or of '-f brief', which '-x' implies."""
_ATTRIBUTE_BEGIN = lazy_pattern(
    r" {0,2}[0-9]{1,3} [A-Za-z][\w-]{0,60} +(?:0x[0-9a-f]{4}|[P-][O-])", re.ASCII
)
_TABLE_END = lazy_pattern(r"\s*(?:\||$)")
"""End of the attribute table: a blank line, or the legend of its flags."""
_BELOW_TABLE = lazy_pattern(
    r"SMART |General (?:Purpose|SMART)|SCT |Device Statistics|Pending Defects|SATA Phy|=== START"
)
"""Headings below the table: of a text whose blank lines were taken out."""
_TESTS = (
    lazy_pattern(
        r"# ?\d+ ((?:Short|Extended|Conveyance|Selective) (?:off-?line|captive)|Off-?line"
        r"|Abort off-?line test|(?:Vendor|Reserved) \(0x\w+\)) (\S.*?) \d+% (\d+) (\S+)$"
    ),
    lazy_pattern(
        r"# ?\d+ (Default|(?:Back|Fore)ground (?:short|long)|Abort background|Reserved ?\(\d\))"
        r" (\S.*?)(?: -->)? (?:-|\d+) (NOW|\d+) (\S+) \["
    ),
    lazy_pattern(
        r"\d+ (Short|Extended|Vendor specific|Unknown \(0x\w+\)) (\S.*?) (\d+) (\S+)(?: \S+){4}$"
    ),
)
"""Rows of a self-test log, ATA's, SCSI's and NVMe's, with one blank between words: mails and forums
squeeze blanks and expand tabs. Source: smartmontools 7.5, ataprint.cpp, scsiprint.cpp,
nvmeprint.cpp.
"""
_OF_TESTS = frozenset({"self-tests", ""})
"""Sections with such rows; '': above all headings, where a user quotes the row that matters."""
_BLANKS = lazy_pattern(r"\s+")
_STATISTIC = lazy_pattern(
    r"\s*(?:0x0?)?([17])\s+0x0([012]8)\s+\d\s+(\d+)(?:~|\s+[N-][D-][C-][R-]?)?\s+[A-Z]", re.ASCII
)
"""A line of ATA's device statistics that is used: page, offset, value; before 6.5 without flags."""
_DEFECT = lazy_pattern(r"\s*\d{1,10}\s+\d{1,20}\s+(?:\d{1,10}|-)\s*$", re.ASCII)
"""A row of the log of pending defects: index, LBA, power-on hours. Source: smartmontools 7.5,
ataprint.cpp, PrintPendingDefectsLog.
"""
_SCAN = lazy_pattern(r"(\d+) (\d+):(\d\d) ([0-9a-f]{16}) \[[0-9a-f]+,[0-9a-f]+,[0-9a-f]+\] (\S.*)$")
"""A row of the background scan's log, with one blank between words: number, power-on time, LBA."""
_REASSIGN_STATUS = (
    "Reserved [0x0]",
    "Require Write or Reassign Blocks command",
    "Successfully reassigned",
    "Reserved [0x3]",
    "Reassignment by disk failed",
    "Recovered via rewrite in-place",
    "Reassigned by app, has valid data",
    "Reassigned by app, has no valid data",
    "Unsuccessfully reassigned by app",
)
"""By code. Source: smartmontools 7.5, scsiprint.cpp."""
_COUNTERS = lazy_pattern(r"\d+\s+\d+\s+\d+\s+(\d+)\s+\d+\s+(\d+[.,]\d+)\s+(\d+)$")
_MAX_DIGITS = 60
_LONG_NUMBER = lazy_pattern(rf"\d{{{_MAX_DIGITS + 1},}}")
"""No number of a drive has so many digits, and Python refuses to convert thousands."""
_MANUFACTURED = lazy_pattern(r"Manufactured in week +(\S+) of year +(\S+)")
_ROUTINE = lazy_pattern(r"(Short|Extended|Conveyance) self-test routine")


def read_lines(lines: Iterable[str]) -> Document:
    """Parse the lines of smartctl; an unknown line is ignored.

    If a field occurs twice, the first is used; of two self-test logs, the first that has any, as
    'self_tests'. A health line whose value cannot be parsed is added to 'read_errors'. An empty
    document: it is no output of smartctl.
    """
    text = _TextReport()
    for line in lines:
        text.read(_LONG_NUMBER.sub("?", line) if len(line) > _MAX_DIGITS else line)
    document = text.document
    if text.attributes:
        document["ata_smart_attributes"] = {"table": text.attributes}
    if text.statistics:
        document["ata_device_statistics"] = {"pages": text.statistics}
    if tests := next(filter(None, text.logs), None):
        document["self_tests"] = tests
    if text.read_errors and document:
        document["read_errors"] = text.read_errors
    return document


class _TextReport:
    """What was parsed so far, and the current section."""

    def __init__(self) -> None:
        self.document: Document = {}
        self.attributes: list[Document] = []
        self.logs: list[list[Document]] = []
        self.statistics: list[Document] = []
        self.read_errors: list[str] = []
        self._in_table = False
        self._section = ""
        self._routine = ""

    def read(self, line: str) -> None:
        self._in_table = self._in_table and not _BELOW_TABLE.match(line)
        label, colon, rest = line.partition(":" if ":" in line else "=")
        if colon and (fields := _FIELDS.get(" ".join(label.split()))) is not None:
            values = [(path, reader(rest.strip())) for reader, *path in fields]
            for path, value in values:
                if value is not None:
                    _put(self.document, path, value)
            known = any(value is not None for _, value in values)
            if not known and rest.strip() and " ".join(label.split()) in _OF_HEALTH:
                self.read_errors.append(line)
        elif found := _ATTRIBUTE.match(line):
            self.attributes.append(_attribute(found))
        elif line.startswith("ID#"):
            self._in_table = True
        elif _ATTRIBUTE_BEGIN.match(line) or (self._in_table and not _TABLE_END.match(line)):
            self.read_errors.append(line)
        elif self._in_table:
            self._in_table = False
        elif self._section in _OF_TESTS and (test := _self_test(line)):
            self.logs = self.logs or [[]]
            self.logs[-1].append(test)
        elif self._section == "pending defects" and _DEFECT.match(line):
            log = self.document.setdefault("ata_pending_defects_log", {})
            log["count"] = log.get("count", 0) + 1
        elif found := _STATISTIC.match(line):
            self.statistics.append(_statistic(found))
        elif "[" in line and (found := _SCAN.match(_BLANKS.sub(" ", line.strip()))):
            self._read_scan(found)
        elif line[:1].isalpha():
            self._read_heading(line, rest)
        elif said := _LINES.get(line.strip()):
            _put(self.document, said[1:], said[0])

    def _read_scan(self, found: re.Match[str]) -> None:
        number, hours, minutes, sector, status = found.groups()
        result = {
            "accumulated_power_on": {"minutes": int(hours) * 60 + int(minutes)},
            "lba": int(sector, 16),
        }
        if status in _REASSIGN_STATUS:
            result["reassign_status"] = {"value": _REASSIGN_STATUS.index(status)}
        _put(self.document, ("scsi_background_scan", f"result_{number}"), result)

    def _read_heading(self, line: str, rest: str) -> None:
        if found := _ROUTINE.match(line):
            self._routine = found[1].lower()
        elif line.startswith("recommended polling time"):
            minutes = re.search(r"\( *(\d+)\)", rest)
            if minutes and self._routine:
                path = (*_SELF_TEST, "polling_minutes", self._routine)
                _put(self.document, path, int(minutes[1]))
        elif line.startswith("Optional Admin Commands"):
            _put(self.document, ("nvme_optional_admin_commands", "self_test"), "Self_Test" in rest)
        elif found := _BANNER.match(line):
            _put(self.document, ("smartctl", "version"), [int(found[1]), int(found[2])])
        elif found := _MANUFACTURED.match(line):
            _put(self.document, (_START_STOP, "week_of_manufacture"), found[1])
            _put(self.document, (_START_STOP, "year_of_manufacture"), found[2])
        elif said := _LINES.get(line.strip()):
            _put(self.document, said[1:], said[0])
        elif line.startswith(("No Errors Logged", "No Defects Logged")):
            if self._section in _EMPTY:
                _put(self.document, _EMPTY[self._section], 0)
        else:
            if line.startswith("Background scan results log"):
                _put(self.document, ("scsi_background_scan", "status"), {})
            begun = next((name for begin, name in _SECTIONS if line.startswith(begin)), "")
            self._section = begun or self._section
            if begun == "self-tests":
                self.logs.append([])


def is_self_test(line: str) -> bool:
    """Whether a line is a row of a self-test log; marks of a quotation may precede it."""
    return _self_test(line) is not None


def label(line: str) -> str:
    """Return the label of a line with a field that is used, as smartctl prints it; '': none."""
    name = " ".join(line.partition(":" if ":" in line else "=")[0].split())
    return name if name in _FIELDS else ""


def is_attribute(line: str) -> bool:
    """Return whether a line is a row of the table of attributes, also one that is cut."""
    return (_ATTRIBUTE.match(line) or _ATTRIBUTE_BEGIN.match(line)) is not None


def _put(document: Document, path: list[str] | tuple[str, ...], value: object) -> None:
    for name in path[:-1]:
        document = document.setdefault(name, {})
    document.setdefault(path[-1], value)


def _attribute(found: re.Match[str]) -> Document:
    number, name, flags, prefail, value, worst, threshold, failed, raw = found.groups()
    raw = raw.strip()
    return {
        "id": int(number),
        "name": name,
        "value": None if value == "---" else int(value),
        "worst": None if worst == "---" else int(worst),
        "thresh": None if threshold == "---" else int(threshold),
        "when_failed": {"FAILING_NOW": "now", "NOW": "now", "-": ""}.get(failed, "past"),
        "flags": {"prefailure": bool(int(flags, 16) & 1) if flags else prefail == "P"},
        # Of a raw value that the drive database splits, the text has only a part.
        "raw": {"value": int(raw) if raw.isascii() and raw.isdigit() else None, "string": raw},
    }


def _statistic(found: re.Match[str]) -> Document:
    page, offset, value = found.groups()
    row = {"offset": int(offset, 16), "value": int(value), "flags": {"valid": True}}
    return {"number": int(page), "table": [row]}


def _self_test(line: str) -> Document | None:
    row = _BLANKS.sub(" ", line.strip("> \t\n"))
    found = next(filter(None, (pattern.match(row) for pattern in _TESTS)), None)
    if found is None:
        return None
    kind, status, hours, lba = found.groups()
    return {
        "type": {"string": kind},
        "status": {"string": status},
        "lifetime_hours": None if hours == "NOW" else int(hours),
        "lba": int(lba, 0) if re.fullmatch(r"0x[0-9a-f]+|0|[1-9]\d*", lba) else None,
    }


def _number(text: str) -> int | None:
    found = _GROUPED.match(text)
    return int(re.sub(r"\D", "", found[0])) if found else None


def _reader(pattern: str, base: int = 10) -> Callable[[str], int | None]:
    """Return a function that parses the number found by a pattern."""
    compiled = re.compile(pattern)

    def read(text: str) -> int | None:
        found = compiled.search(text)
        return int(found[1], base) if found else None

    return read


def _text(text: str) -> str | None:
    return text or None


def _halted(text: str) -> str | None:
    return text if text.startswith("halted") else None


def _hexadecimal(text: str) -> str | None:
    """Parse '5 0014ee 25ff8a7a6'."""
    return text.replace(" ", "") or None


def _rotation(text: str) -> int | None:
    return 0 if text.startswith("Solid State") else _number(text)


def _physical(text: str) -> int | None:
    """Parse '512 bytes logical, 4096 bytes physical' and '512 bytes logical/physical'."""
    return _number(text.rpartition(", ")[2])


def _passed(text: str) -> bool | None:
    """Parse 'PASSED', 'FAILED!', 'OK' and 'FAILURE PREDICTION ...'; 'UNKNOWN!' is neither."""
    return text in {"PASSED", "OK"} if text and not text.startswith("UNKNOWN") else None


def _executes_offline(text: str) -> bool | None:
    """Parse the first line of '(0x7b) SMART execute Offline immediate.'."""
    return True if text.endswith(") SMART execute Offline immediate.") else None


def _available(text: str) -> bool | None:
    return text.startswith("Available") if "vailable" in text[:11] else None


def _enabled(text: str) -> bool | None:
    return {"Enabled": True, "Disabled": False}.get(text)


def _counters(text: str) -> Document | None:
    found = _COUNTERS.match(text)
    if found is None:
        return None
    return {
        "total_errors_corrected": int(found[1]),
        "gigabytes_processed": found[2].replace(",", "."),
        "total_uncorrected_errors": int(found[3]),
    }


def _device(text: str) -> str | None:
    """Parse 'WDC WD1600AAJS-00WAA Version: R001', before 5.40."""
    model, found, _ = text.partition(" Version:")
    return model.strip() if found else None


_NVME = "nvme_smart_health_information_log"
_START_STOP = "scsi_start_stop_cycle_counter"
_SELF_TEST = ("ata_smart_data", "self_test")
_OFFLINE = ("ata_smart_data", "offline_data_collection")
_CAPABILITIES = ("ata_smart_data", "capabilities")
_BYTES = ("user_capacity", "bytes")
_SPECIFIED = (_START_STOP, "specified_cycle_count_over_device_lifetime")
_ACCUMULATED = (_START_STOP, "accumulated_start_stop_cycles")
_FIELDS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "Device Model": ((_text, "model_name"),),
    "Model Number": ((_text, "model_name"),),
    "Model Family": ((_text, "model_family"),),
    "Device": ((_device, "model_name"),),
    "Vendor": ((_text, "scsi_vendor"),),
    "Product": ((_text, "scsi_product"),),
    "Revision": ((_text, "scsi_revision"),),
    "Serial Number": ((_text, "serial_number"),),
    "Serial number": ((_text, "serial_number"),),
    "Firmware Version": ((_text, "firmware_version"),),
    "LU WWN Device Id": ((_hexadecimal, "logical_unit_id"),),
    "Logical Unit id": ((_text, "logical_unit_id"),),
    "Namespace 1 IEEE EUI-64": ((_hexadecimal, "logical_unit_id"),),
    "Transport protocol": ((_text, "scsi_transport_protocol", "name"),),
    "User Capacity": ((_number, *_BYTES),),
    "Namespace 1 Size/Capacity": ((_number, *_BYTES),),
    "Total NVM Capacity": ((_number, "nvme_total_capacity"),),
    "Sector Size": ((_number, "logical_block_size"), (_physical, "physical_block_size")),
    "Sector Sizes": ((_number, "logical_block_size"), (_physical, "physical_block_size")),
    "Logical block size": ((_number, "logical_block_size"),),
    "Physical block size": ((_number, "physical_block_size"),),
    "Namespace 1 Formatted LBA Size": ((_number, "logical_block_size"),),
    "Rotation Rate": ((_rotation, "rotation_rate"),),
    "SMART support is": (
        (_available, "smart_support", "available"),
        (_enabled, "smart_support", "enabled"),
    ),
    "SMART overall-health self-assessment test result": ((_passed, "smart_status", "passed"),),
    "SMART Health Status": (
        (_passed, "smart_status", "passed"),
        (_reader(r"\[asc=([0-9a-f]+)", 16), "smart_status", "scsi", "asc"),
        (_reader(r"ascq=([0-9a-f]+)\]", 16), "smart_status", "scsi", "ascq"),
    ),
    "Self-test execution status": (
        (_reader(r"^\( *(\d+)\)"), *_SELF_TEST, "status", "value"),
        (_reader(r"^(\d+)% of test remaining"), "scsi_self_test_status", "remaining_percent"),
    ),
    "Offline data collection status": (
        (_reader(r"^\(0x([0-9a-f]{1,2})\)", 16), *_OFFLINE, "status", "value"),
    ),
    "data collection": ((_reader(r"^\( *(\d+)\) seconds"), *_OFFLINE, "completion_seconds"),),
    "capabilities": ((_executes_offline, *_CAPABILITIES, "exec_offline_immediate_supported"),),
    "Self-test status": (
        (
            _reader(r"\((\d+)% completed\)$"),
            *("nvme_self_test_log", "current_self_test_completion_percent"),
        ),
    ),
    "Long (extended) Self-test duration": ((_number, "scsi_extended_self_test_seconds"),),
    "ATA Error Count": ((_number, "ata_smart_error_log", "summary", "count"),),
    "Device Error Count": ((_number, "ata_smart_error_log", "extended", "count"),),
    "Current Temperature": ((_number, "temperature", "current"),),
    "Current Drive Temperature": ((_number, "temperature", "current"),),
    "Current temperature": ((_number, "temperature", "current"),),
    "Temperature": ((_reader(r"^(-?\d+) Celsius"), "temperature", "current"),),
    "Min/Max recommended Temperature": (
        (_reader(r"^-?\d+/ *(-?\d+) Celsius"), "temperature", "op_limit_max"),
    ),
    "Warning Comp. Temp. Threshold": ((_number, "temperature", "op_limit_max"),),
    "Critical Comp. Temp. Threshold": ((_number, "temperature", "critical_limit_max"),),
    "Drive Trip Temperature": ((_number, "temperature", "drive_trip"),),
    "Elements in grown defect list": ((_number, "scsi_grown_defect_list"),),
    "read": ((_counters, "scsi_error_counter_log", "read"),),
    "write": ((_counters, "scsi_error_counter_log", "write"),),
    "verify": ((_counters, "scsi_error_counter_log", "verify"),),
    "Non-medium error count": ((_number, "scsi_non_medium_error_count"),),
    "Pending defect count": ((_number, "scsi_pending_defects", "count"),),
    "Percentage used endurance indicator": ((_number, "endurance_used", "current_percent"),),
    "Specified cycle count over device lifetime": ((_number, *_SPECIFIED),),
    "Recommended maximum start stop count": ((_number, *_SPECIFIED),),
    "Accumulated start-stop cycles": ((_number, *_ACCUMULATED),),
    "Current start stop count": ((_number, *_ACCUMULATED),),
    "number of hours powered up": ((_number, "power_on_time", "hours"),),
    "Accumulated power on time, hours": (
        (_reader(r"minutes (\d+):"), "power_on_time", "hours"),
        (_reader(r"minutes (\d+):"), "scsi_background_scan", "hours"),
    ),
    "Status": ((_halted, "scsi_background_scan", "status", "string"),),
    "Critical Warning": ((_reader(r"^0x([0-9a-f]+)$", 16), _NVME, "critical_warning"),),
    "Available Spare": ((_number, _NVME, "available_spare"),),
    "Available Spare Threshold": ((_number, _NVME, "available_spare_threshold"),),
    "Percentage Used": ((_number, _NVME, "percentage_used"),),
    "Data Units Read": ((_number, _NVME, "data_units_read"),),
    "Data Units Written": ((_number, _NVME, "data_units_written"),),
    "Controller Busy Time": ((_number, _NVME, "controller_busy_time"),),
    "Power Cycles": ((_number, _NVME, "power_cycles"),),
    "Power On Hours": ((_number, _NVME, "power_on_hours"),),
    "Unsafe Shutdowns": ((_number, _NVME, "unsafe_shutdowns"),),
    "Media and Data Integrity Errors": ((_number, _NVME, "media_errors"),),
    "Error Information Log Entries": ((_number, _NVME, "num_err_log_entries"),),
    "Warning Comp. Temperature Time": ((_number, _NVME, "warning_temp_time"),),
    "Critical Comp. Temperature Time": ((_number, _NVME, "critical_comp_time"),),
}
"""By label: its parser, and its place in smartctl's JSON."""
_OF_HEALTH = frozenset(
    {
        *("Critical Warning", "Available Spare", "Available Spare Threshold", "Percentage Used"),
        *("Media and Data Integrity Errors", "Elements in grown defect list", "read", "write"),
        *("verify", "Pending defect count", "Percentage used endurance indicator"),
        *("ATA Error Count", "Device Error Count", "SMART support is"),
    }
)
"""Labels of health lines, whose unparsable values must be reported."""
_LINES: dict[str, tuple[Any, ...]] = {
    "Device supports SMART and is Enabled": (True, "smart_support", "enabled"),
    "Device supports SMART and is Disabled": (False, "smart_support", "enabled"),
    "Self-test supported.": (True, *_CAPABILITIES, "self_tests_supported"),
    "No Self-test supported.": (False, *_CAPABILITIES, "self_tests_supported"),
    "Conveyance Self-test supported.": (True, *_CAPABILITIES, "conveyance_self_test_supported"),
    "No Conveyance Self-test supported.": (
        *(False, *_CAPABILITIES, "conveyance_self_test_supported"),
    ),
}
"""Whole lines, and the meaning of each."""
_SECTIONS = (
    ("SMART Extended Comprehensive Error Log", "extended errors"),
    ("SMART Error Log", "errors"),
    ("Error Information (NVMe", "other errors"),
    ("SMART Extended Self-test Log", "self-tests"),
    ("SMART Self-test log", "self-tests"),
    ("Self-test Log (NVMe", "self-tests"),
    ("Pending Defects log", "pending defects"),
)
"""Beginnings of sections."""
_EMPTY = {
    "extended errors": ("ata_smart_error_log", "extended", "count"),
    "errors": ("ata_smart_error_log", "summary", "count"),
    "pending defects": ("ata_pending_defects_log", "count"),
}
"""The count that is 0 if a section states that nothing was logged."""
