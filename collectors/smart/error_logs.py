"""Counts in smartctl's logs that are printed alone: statistics, wear, defects, FARM, links.

Source: smartmontools, ataprint.cpp (device statistics, pending defects log, SATA phy event
counters), farmprint.cpp (Seagate's Field Access Reliability Metrics), scsiprint.cpp (protocol
specific port log page, solid state media log page), in text and in JSON. Units: wear in per cent,
which may exceed 100; temperatures in degrees Celsius. Limits: a count that is not valid is None in
JSON and '-' in the text: it is no 0.

Entries of an ATA drive's error log: ataprint.cpp (PrintSmartErrorlog, PrintSmartExtErrorLog,
format_st_er_desc); ATA/ATAPI Command Set, error register: UNC, AMNF and IDNF are sectors that could
not be read or found, ICRC is a checksum of the link. An ABRT alone rejects a command, as one that
the drive does not support. Units: power-on hours; of the summary log they have 16 bits. The drive
keeps the newest 5, or some dozens, of all errors that it counts.
"""

from __future__ import annotations

import json
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.json_text import is_deep
from iowarden.collectors.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping

_SECTIONS = (
    ("device statistics", lazy_pattern(r"^Device Statistics \(|\"ata_device_statistics\"")),
    ("pending defects", lazy_pattern(r"^Pending Defects log \(|\"ata_pending_defects_log\"")),
    ("FARM", lazy_pattern(r"Reliability Metrics log \(FARM\)|\"seagate_farm_log\"")),
    ("SAS phys", lazy_pattern(r"^Protocol Specific port log page|\"scsi_sas_port_\d")),
    ("SATA phy", lazy_pattern(r"^SATA Phy Event Counters \(|\"sata_phy_event_counters\"")),
    (
        "solid state media",
        lazy_pattern(r"^Percentage used endurance indicator: |\"scsi_percentage_used_endurance_"),
    ),
)
_ROW = lazy_pattern(
    r"[ \t]*(?:0x)?[0-9a-f]{1,2}[ \t]+0x[0-9a-f]{3}[ \t]+\d[ \t]+(?P<count>\d{1,20})"
    r"(?:~|[ \t]+[-A-Z]{3,4})?[ \t]+(?P<name>[A-Z].*)"
)
"""A row of the device statistics; before smartmontools 6.5 without flags, '~': normalized."""
_PHY_ROW = lazy_pattern(r"0x[0-9a-f]{4}[ \t]+\d[ \t]+(?P<count>\d{1,20})\+?[ \t]+(?P<name>[A-Z].*)")
"""A SATA phy event counter; '+': it is at its largest value."""
_PAIR = lazy_pattern(r"[ \t]*(?P<name>[A-Z][\w .()-]{3,80}?)(?::| =)[ \t]+(?P<count>\d{1,20})")
_DEFECT = lazy_pattern(r"[ \t]*\d{1,6}[ \t]+\d{1,20}[ \t]+(?:\d{1,9}|-)[ \t]*")
_NAMES = {
    "number of reported uncorrectable errors": "uncorrectable",
    "unrecoverable read errors": "uncorrectable",
    "number of unrecoverable read errors": "uncorrectable",
    "unrecoverable write errors": "uncorrectable writes",
    "number of unrecoverable write errors": "uncorrectable writes",
    "uncorrectable errors": "uncorrectable",
    "number of reallocated logical sectors": "reallocated",
    "number of reallocated sectors": "reallocated",
    "number of realloc. candidate logical sectors": "candidates",
    "number of reallocated candidate sectors": "candidates",
    "number of mechanical start failures": "failed starts",
    "number of interface crc errors": "link errors",
    "command failed due to icrc error": "link errors",
    "invalid dword count": "link errors",
    "running disparity error count": "link errors",
    "loss of dword synchronization": "link errors",
    "loss of dword synchronization count": "link errors",
    "phy reset problem": "link errors",
    "phy reset problem count": "link errors",
    "percentage used endurance indicator": "used per cent",
    "scsi percentage used endurance indicator": "used per cent",
    "current temperature": "celsius",
    "specified maximum operating temperature": "maximum celsius",
}


@dataclass(frozen=True, slots=True)
class ErrorLogs:
    """Which of these logs a report has, and the highest count of each kind in them."""

    logs: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


def parse_error_logs(text: str) -> ErrorLogs:
    """Parse the logs in a report, as text or as JSON; none is no error. Errors: none."""
    lines = text.splitlines()
    logs = tuple(name for name, pattern in _SECTIONS if any(pattern.search(line) for line in lines))
    if not logs:
        return ErrorLogs()
    counts: dict[str, int] = {}
    pairs = _of_json(text) if text.startswith("{") else _of_lines(lines)
    for name, count in pairs:
        kind = name if name == "pending" else _NAMES.get(name.casefold().strip())
        if kind is not None:
            counts[kind] = max(count, counts.get(kind, 0))
    return ErrorLogs(logs, counts)


def _of_lines(lines: list[str]) -> Iterator[tuple[str, int]]:
    pending: int | None = None
    for line in lines:
        if line.startswith("Pending Defects log ("):
            pending = 0
        elif pending is not None and _DEFECT.fullmatch(line):
            pending += 1
        elif (row := _row(line)) is not None:
            yield row["name"], int(row["count"])
    if pending is not None:
        yield "pending", pending


def _row(line: str) -> re.Match[str] | None:
    return _ROW.match(line) or _PHY_ROW.match(line) or _PAIR.match(line)


def _of_json(text: str) -> Iterator[tuple[str, int]]:
    try:
        document = {} if is_deep(text) else json.JSONDecoder(strict=False).raw_decode(text)[0]
    except ValueError:
        return
    if not isinstance(document, dict):
        return
    log = document.get("ata_pending_defects_log")
    if isinstance(log, dict) and _is_count(log.get("count")):
        yield "pending", log["count"]
    for name, part in document.items():
        if name.startswith(_JSON_LOGS):
            yield from _walk({name: part})


_JSON_LOGS = (
    "ata_device_statistics",
    "seagate_farm_log",
    "scsi_sas_port_",
    "sata_phy_event_counters",
    "scsi_percentage_used_endurance_indicator",
)


def _walk(value: Any) -> Iterator[tuple[str, int]]:  # noqa: ANN401 - JSON
    rows = [value]
    while rows:
        row = rows.pop()
        if isinstance(row, list):
            rows += row
        elif isinstance(row, dict):
            if isinstance(row.get("name"), str) and _is_count(row.get("value")):
                yield row["name"], row["value"]
            for name, part in row.items():
                if _is_count(part):
                    yield name.replace("_", " "), part
                else:
                    rows.append(part)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


# --- entries of an ATA drive's error log

_OCCURRED = lazy_pattern(
    r"Error \d{1,10}(?: \[\d{1,5}\])? occurred at disk power-on lifetime: (?P<hours>\d{1,10}) hours"
)
_DESCRIBED = lazy_pattern(
    r"\bError: (?P<words>[A-Z]{2,4}(?:, [A-Z]{2,4}){0,7})(?:(?: \d{1,10} sectors)? at LBA ="
    r" 0x[0-9a-f]{1,16} = (?P<sector>\d{1,20}))?"
)
_MEDIUM = frozenset({"UNC", "AMNF", "IDNF"})
_LINK = "ICRC"
_LIFETIME_HOURS = 1 << 16


class AtaError(NamedTuple):
    """An entry: its power-on hour, the names of the set bits, and the sector, None without one."""

    hours: int
    words: frozenset[str]
    sector: int | None

    @property
    def is_of_medium(self) -> bool:
        """Whether a sector could not be read or found; with ICRC the link is the reason."""
        return bool(self.words & _MEDIUM) and _LINK not in self.words

    @property
    def is_of_link(self) -> bool:
        """Whether the transfer had a wrong checksum."""
        return _LINK in self.words

    def age_hours(self, power_on_hours: int | None) -> int | None:
        """Return how many power-on hours ago it was, None if that is not known."""
        if power_on_hours is None:
            return None
        age = power_on_hours - self.hours
        return age if power_on_hours < _LIFETIME_HOURS else age % _LIFETIME_HOURS


def parse_ata_errors(text: str) -> tuple[AtaError, ...]:
    """Parse the entries of the error logs in one report; none is no error. Errors: none."""
    found = _errors_of_json(text) if text.startswith("{") else _errors_of_text(text)
    return tuple(dict.fromkeys(found))


def _errors_of_text(text: str) -> Iterator[AtaError]:
    hours: int | None = None
    for line in text.split("\n"):
        if (occurred := _OCCURRED.search(line[:300])) is not None:
            hours = int(occurred["hours"])
        elif hours is not None and (described := _DESCRIBED.search(line[:300])) is not None:
            yield _error(hours, described["words"], described["sector"])
            hours = None


def _error(hours: int, words: str, sector: str | None) -> AtaError:
    return AtaError(hours, frozenset(words.split(", ")), None if sector is None else int(sector))


def _errors_of_json(text: str) -> Iterator[AtaError]:
    try:
        document = {} if is_deep(text) else json.JSONDecoder(strict=False).raw_decode(text)[0]
    except ValueError:
        return
    log = document.get("ata_smart_error_log") if isinstance(document, dict) else None
    for part in log.values() if isinstance(log, dict) else ():
        table = part.get("table") if isinstance(part, dict) else None
        for row in table if isinstance(table, list) else ():
            if isinstance(row, dict):
                yield from _errors_of_row(row)


def _errors_of_row(row: dict[str, Any]) -> Iterator[AtaError]:
    hours, text = row.get("lifetime_hours"), row.get("error_description")
    if isinstance(hours, int) and not isinstance(hours, bool) and isinstance(text, str):
        described = _DESCRIBED.search(text[:300])
        if described is not None and 0 <= hours < 1 << 32:
            yield _error(hours, described["words"], described["sector"])
