"""Outputs of smartctl, one for each drive."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors import json_text
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError
from iowarden.collectors.parsed_text import (
    MAX_OUTPUTS,
    MORE,
    SMARTCTL_HEADINGS,
    Finding,
    Parsed,
    TextObject,
    Tool,
    UnparsedLine,
)
from iowarden.collectors.quantity import duration
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.smart import error_logs, smartctl, smartctl_refusal, smartctl_text
from iowarden.collectors.smart.drive import Drive, Protocol, ReadStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from iowarden.collectors.smart.error_logs import AtaError

# --- the others


def parse_smartctl(text: str, commands: Mapping[int, str] | None = None) -> Parsed:
    """Parse the drives in a text, and those for which smartctl had no health data.

    A drive whose serial number is not in it is named by its command or the heading above it.
    """
    drives, refusals = [], []
    objects: list[TextObject] = []
    findings: list[Finding] = []
    unread = [*_loose_rows(text)]
    ruled_out: list[tuple[str, str]] = []
    reports = _reports(text)
    places = _places(text, commands or {})
    if len(reports) > MAX_OUTPUTS:
        unread.append(MORE)
    for number, piece in enumerate(reports[:MAX_OUTPUTS]):
        try:
            told = _named(smartctl.parse(piece), places[number] if number < len(places) else "")
        except ParseError as error:
            unread.append(UnparsedLine(str(error)))
            continue
        if not isinstance(told, Drive) and told.status is ReadStatus.UNPARSED:
            whole = _whole(piece)
            if whole is not None:
                unread.append(UnparsedLine(f"smartctl: {told.reason}"))
                told = whole
        logs_alone = error_logs.parse_error_logs(piece)
        if isinstance(told, Drive):
            drives.append(told)
            findings += _of_logs(logs_alone, told, _name(told))
            findings += _of_errors(error_logs.parse_ata_errors(piece), told)
            findings += _scan_halted(told)
            findings += _worn_out(told)
            unread += _wear_unknown(told)
            findings += _failure_test(told)
            if (missing := _media_errors_missing(told)) is not None:
                name = told.serial or told.wwn or _place(told) or f"drive {len(drives)}"
                ruled_out.append(("NvmeCriticalWarning", name))
                unread.append(missing)
            damaged = [UnparsedLine(each, fault=_has_fault(each)) for each in told.read_errors]
            if not any(each.fault for each in damaged):
                name = told.serial or told.wwn or _place(told) or f"drive {len(drives)}"
                ruled_out.append(("SmartPartlyUnreadable", name))  # the paste is, not the drive
            unread += damaged
            others = (each for each in told.messages if each not in told.read_errors)
            unread += [UnparsedLine(each) for each in others if _NOT_READ.match(each)]
            # A text may be cut behind the overall health, which is the weakest of its data.
            # Its logs stand behind its attributes, and are data of their own.
            logs = told.self_tests or told.errors_logged_total is not None
            has_data = logs or told.attributes or told.read_errors or piece.startswith("{")
            if told.protocol is Protocol.ATA and not has_data:
                unread.append(UnparsedLine(_NO_ATTRIBUTES, missing=True))
            # A health status that is not understood is none that is missing on purpose.
            if told.passed is None and (not logs or _HEALTH.search(piece)):
                unread.append(UnparsedLine(_NO_HEALTH, missing=True))
            if told.exit_status & _ERRORS and told.errors_logged_total is None and not told.nvme:
                unread.append(
                    UnparsedLine("smartctl: its exit status reports entries in the error log")
                )
        elif logs_alone.counts and told.status is ReadStatus.UNPARSED:
            name = told.name or "drive"
            faults = [*_of_logs(logs_alone, told.drive, name), *_of_states(logs_alone, name)]
            findings += faults
            objects.append(_logs_object(logs_alone, name, faults))
        else:
            refusals.append(told)
            if told.status is ReadStatus.ASLEEP:
                findings.append(_asleep(told))
            if told.status not in _NOTHING_TO_READ:
                unread.append(_refused(told))
    return Parsed(
        Tool.SMARTCTL,
        drives=tuple(drives),
        refusals=tuple(refusals),
        findings=tuple(findings),
        objects=tuple(objects),
        outputs=("smartctl",) if drives or refusals or objects else (),
        unparsed=tuple(dict.fromkeys(unread)),
        ruled_out=frozenset(
            ("DiskInterfaceCrcErrorsInBaseline", each.object)  # it calls them old ones
            for each in findings
            if each.name == "DiskInterfaceCrcErrors"
        ).union(ruled_out),
    )


def _loose_rows(text: str) -> Iterator[UnparsedLine]:
    """Yield rows about an attribute that are none of smartctl's table: of a script, or retyped."""
    if text.lstrip().startswith("{"):
        return
    for number, line in enumerate(text.split("\n"), 1):
        if _LOOSE_ROW.match(line) and not smartctl_text.is_attribute(line):
            yield UnparsedLine("smartctl: no row of its table of attributes", line, number)


_LOOSE_ROW = lazy_pattern(
    r"[ \t]*(?:\d{1,3}[ \t]+)?(?:[A-Z][A-Za-z]{0,20}_){1,4}[A-Z][A-Za-z]{0,20}"
    r"[ \t]*[:=,|(]?[ \t]*(?:[a-z]{1,10}[:=])?[ \t]*\d",
    re.ASCII,
)


def _has_fault(error: str) -> bool:
    """Whether what smartctl's report contradicts, or a part that is not parsed, may be a fault.

    A note between the rows of the table is none, nor is a row that is cut or broken in its words,
    if it has no failure, and its value as far as it goes is above the threshold.
    """
    row = error.partition(_ROW_UNPARSED)[2]
    if not row or smartctl_text.label(row):
        return True
    values = _VALUES.search(row)
    is_below = values is not None and int(values["value"]) <= int(values["threshold"]) > 0
    return is_below or _FAILING.search(row) is not None


_ROW_UNPARSED = "smartctl: expected a known value, got '"
_VALUES = lazy_pattern(
    r" 0x[0-9a-f]{4}\s+(?P<value>\d{1,3})\s+\d{1,3}\s+(?P<threshold>\d{1,3})\b", re.ASCII
)
_FAILING = lazy_pattern(r"FAILING|In_the_past|\b(?:NOW|Past)\b", re.ASCII)


def _media_errors_missing(drive: Drive) -> UnparsedLine | None:
    """Return what is missing where an NVMe drive's reliability may be only that it is worn.

    Its bit 0x04 is set at 100 % used by some vendors. Whether it had media errors as well decides.
    """
    nvme = drive.nvme
    if nvme is None or nvme.critical_warning != _RELIABILITY or nvme.media_errors_total is not None:
        return None
    used, spare = nvme.endurance_used_ratio or 0.0, nvme.available_spare_ratio or 0.0
    if used < 1.0 or spare < 1.0:
        return None
    return UnparsedLine(_NO_MEDIA_ERRORS)


_RELIABILITY = 0x04
_NO_MEDIA_ERRORS = (
    "smartctl: 'Media and Data Integrity Errors' is missing in it: if that is 0, the critical"
    " warning 0x04 means only that the rated endurance is used up"
)


def _named(
    report: Drive | smartctl_refusal.SmartRefusal, place: str
) -> Drive | smartctl_refusal.SmartRefusal:
    if not isinstance(report, Drive):
        return replace(report, device=place.rpartition(" ")[2])
    if not place or report.serial or report.wwn:
        return report
    return replace(report, read_by=f"{_READ_BY}{place}")


_READ_BY = "smartctl of "


def _place(drive: Drive) -> str:
    """Return what names the drive in its command, or above its output; '': nothing."""
    return drive.read_by.removeprefix(_READ_BY) if drive.read_by.startswith(_READ_BY) else ""


def _name(drive: Drive) -> str:
    """Return the name of a drive in a summary, as that of its object where it has one."""
    return drive.serial or _place(drive) or drive.model or "drive"


def _refused(refused: smartctl_refusal.SmartRefusal) -> UnparsedLine:
    step = smartctl_refusal.next_step(refused)
    fault = refused.status is ReadStatus.UNREADABLE and refused.drive is not None
    return UnparsedLine(
        f"smartctl: {refused.reason}{'; ' * bool(step)}{step}", refused.name, None, fault
    )


def _whole(piece: str) -> Drive | None:
    """Return the drive in a truncated JSON, as far as it goes."""
    rest = json_text.closed(piece) if piece.startswith("{") else ""
    try:
        drive = smartctl.parse(rest) if rest else None
    except ParseError:
        return None
    return drive if isinstance(drive, Drive) else None


def _places(text: str, commands: Mapping[int, str]) -> list[str]:
    """Return for each output the device in its command, or the heading above it; '' without.

    A command is that of the first output below it: the next one is of a loop, or another drive.
    """
    places: list[str] = []
    lines = text.split("\n")
    begin = line = 0
    told = sorted(commands, reverse=True)
    for at in _begins(text):
        line += text.count("\n", begin, at)
        begin = at
        heading = lines[line - 1].strip(_RULERS) if line else ""
        is_marked = bool(heading) and bool(
            _MARKED.match(lines[line - 1]) or _DISK.fullmatch(heading)
        )
        is_heading = bool(heading) and (not places or is_marked or not lines[line - 2].strip())
        if line > 1 and not heading and _DISK.fullmatch(lines[line - 2].strip(_RULERS)):
            heading, is_heading = lines[line - 2].strip(_RULERS), True
        command = next((number for number in told if number <= line), None)
        device = None if command is None else _DEVICE.search(commands[command])
        told = [number for number in told if number > line]
        named = f"{device['type'] or ''} {device['path']}".strip() if device else ""
        if is_marked and device and not device["type"] and heading != device["path"]:
            named = ""  # the same path in each pass of a loop: the heading tells them apart
        places.append(named or heading[:60] * is_heading)
    return places


_RULERS = " \t=-*#:"
_MARKED = lazy_pattern(
    r"[ \t]*(?:[=*#>-]{2,}[ \t]*(?!START OF )[\w/]"
    r"|(?:/dev/[\w/-]{1,60}|(?:megaraid|cciss|3ware|areca|aacraid),\S{1,20})[ \t:]*$)",
    re.ASCII,
)
"""A heading that a loop printed: with a ruler, or only the name of a disk."""
_DEVICE = lazy_pattern(
    r"\bsmartctl\b(?:(?=[^|;&]{0,200}? -d ?(?P<type>[a-z0-9]{1,20},[^\s$]{1,20})))?"
    r"[^|;&]{0,300}? (?P<path>/dev/[^\s;|&$]{1,80})(?![^\s;|&])",
    re.ASCII,
)
_DISK = lazy_pattern(r"(?:/dev/)?(?:[shv]d[a-z]{1,4}|nvme\d{1,3}(?:n\d{1,3})?|sg\d{1,4})", re.ASCII)
"""A heading that is only the name of a disk, with an empty line below it."""


def _asleep(refused: smartctl_refusal.SmartRefusal) -> Finding:
    name = refused.name or "drive"
    text = (
        f"{name} was not checked: it sleeps, and smartctl was not to wake it; to read it, which"
        " wakes it: smartctl -x DEVICE"
    )
    return Finding("info", "DiskAsleep", name, text)


def _worn_out(drive: Drive) -> Iterator[Finding]:
    """Yield attributes of wear at their end, of a drive whose model is not in the text.

    Which of them count down is known by model only; at 1 or 0 each that does is worn out.
    """
    if drive.model or drive.family:
        return
    for each in drive.attributes:
        counts_down = _WEAR.search(each.name) and not _NO_REMAINDER.search(each.name)
        if each.value is not None and each.value <= 1 and counts_down:
            name = _name(drive)
            text = f"{name}: {each.name} (attribute {each.id}) is at its end, {each.value}"
            yield Finding("warning", "DiskEnduranceUsed", name, text, _WEAR_ADVICE)


def _wear_unknown(drive: Drive) -> Iterator[UnparsedLine]:
    """Yield attributes that may be a remaining life near its end, if no model is in the text.

    Which of them count down, and which up, is known by model and name only.
    """
    if drive.model or drive.family:
        return
    for each in drive.attributes:
        if not _WEAR.search(each.name) or _NO_REMAINDER.search(each.name):
            continue
        if each.value is not None and 1 < each.value <= _NEAR_END:
            yield UnparsedLine(
                f"smartctl: {each.name} (attribute {each.id}) is {each.value}, which is a nearly"
                " used up life on some models and a nearly new one on others, and the model is not"
                " in it; paste the whole of: smartctl -x DEVICE"
            )


_NEAR_END = 20
"""Of 100; the rule reports used endurance from 80 % on."""
_WEAR = lazy_pattern(r"(?i)wear|life|endur")
_NO_REMAINDER = lazy_pattern(
    r"(?i)delta|life(?:time)?_(?:host_|nand_)?(?:wr|wts|rds|reads?|nand|ps\d|uecc|retr|die|flash)"
)
"""What was written or read in a drive's life, and differences in wear: 0 is their best value.
Source: smartmontools, drivedb.h, the names with 'Wear', 'Life' or 'Endur'."""
_WEAR_ADVICE = "What that means depends on its model: smartctl -x DEVICE"


def _scan_halted(drive: Drive) -> tuple[Finding, ...]:
    if drive.scsi is None or not drive.scsi.scan_halted:
        return ()
    name = _name(drive)
    text = f"{name}: its background scan is {drive.scsi.scan_halted}: it finds no bad sectors now"
    return (Finding("notice", "BackgroundScanHalted", name, text, _SCAN_ADVICE),)


def _failure_test(drive: Drive) -> tuple[Finding, ...]:
    scsi = drive.scsi
    if scsi is None or (scsi.asc, scsi.ascq) != _TEST_CODE:
        return ()
    name = _name(drive)
    return (Finding("notice", "DiskFailureTest", name, f"{name}: {_TEST}", _TEST_ADVICE),)


_TEST_CODE = (0x5D, 0xFF)
_TEST = "its prediction of a failure is only a test (5D/FF): the TEST bit of its page 1Ch is set"
_TEST_ADVICE = (
    "Clear the bit, or a real prediction may stay unseen: sdparm --clear=TEST DEVICE\n"
    "Its counters show how it is: smartctl -x DEVICE"
)
_SCAN_ADVICE = (
    "Start a long self-test, which reads all sectors: smartctl -t long DEVICE\n"
    "Make sure that its data also exists elsewhere. Replace the disk if the self-test fails."
)
_ERRORS = smartctl_refusal.ExitStatus.ERRORS
_NOTHING_TO_READ = frozenset({ReadStatus.NO_SMART, ReadStatus.LUN, ReadStatus.ASLEEP})
"""A disk that sleeps was left alone on purpose: it is reported as such."""
_LOG_FAULTS = {
    "uncorrectable": ("DiskErrorsInBaseline", "warning", "uncorrectable errors"),
    "uncorrectable writes": ("DiskErrorsInBaseline", "warning", "uncorrectable write errors"),
    "pending": ("DiskPendingSectors", "warning", "sectors that could not be read (pending)"),
    "candidates": ("DiskPendingSectors", "warning", "sectors that may have to be reallocated"),
    "reallocated": ("DiskErrorsInBaseline", "notice", "reallocated sectors"),
    "failed starts": ("DiskErrorsInBaseline", "warning", "failed starts of its spindle"),
    "link errors": ("DiskInterfaceCrcErrorsInBaseline", "info", "errors of its link"),
}
_MANY_LINK_ERRORS = 1000
_OF_ATTRIBUTE = {
    "uncorrectable": 187,
    "pending": 197,
    "candidates": 197,
    "reallocated": 5,
    "link errors": 199,
}
"""Counts that a drive's attributes have as well; of others a whole report has its own rules."""


def _logs_object(logs: error_logs.ErrorLogs, name: str, faults: Sequence[Finding]) -> TextObject:
    counts = {kind: float(count) for kind, count in logs.counts.items()}
    is_ill = any(each.severity != "info" for each in faults)
    health = ComponentHealth.ATTENTION if is_ill else ComponentHealth.OK
    return TextObject("disk", name, "", health, "", {"logs": ", ".join(logs.logs)}, counts)


def _of_states(logs: error_logs.ErrorLogs, name: str) -> Iterator[Finding]:
    """Yield the wear and the heat in a log that stands alone, by the limits of the rules."""
    used = logs.counts.get("used per cent", 0)
    if used >= _USED_UP:
        text = f"{name}: {used}% of its rated endurance is used"
        yield Finding("warning", "DiskEnduranceUsed", name, text, _USED_ADVICE)
    celsius, limit = logs.counts.get("celsius"), logs.counts.get("maximum celsius")
    if celsius is not None and limit and celsius >= limit - _NEAR_LIMIT:
        severity = "critical" if celsius >= limit else "warning"
        text = f"{name}: drive temperature is {celsius} C, its limit is {limit} C"
        yield Finding(severity, "DiskTemperatureHigh", name, text, _HEAT_ADVICE)


_USED_UP = 90
"""Per cent, as in the rule DiskEnduranceUsed."""
_NEAR_LIMIT = 5
"""Degrees below the drive's own limit, as in the rule DiskTemperatureHigh."""
_USED_ADVICE = "Plan its replacement, and make sure that its data also exists elsewhere."
_HEAT_ADVICE = "Check the fans, the filters and the room, then the bay and the load of this disk."


def _of_logs(logs: error_logs.ErrorLogs, drive: Drive | None, name: str) -> Iterator[Finding]:
    """Yield what logs count that no attribute does."""
    for kind, count in logs.counts.items():
        if kind not in _LOG_FAULTS:
            continue
        attribute = drive and drive.attribute(_OF_ATTRIBUTE.get(kind, -1))
        is_pending = kind == "pending" and drive is not None and drive.pending_sectors
        if not count or attribute or is_pending:
            continue
        alert, severity, text = _LOG_FAULTS[kind]
        if kind == "link errors" and count >= _MANY_LINK_ERRORS:
            severity = "notice"
        yield Finding(severity, alert, name, f"{name}: {count} {text}", _LOG_ADVICE)


def _of_errors(errors: Sequence[AtaError], drive: Drive) -> Iterator[Finding]:
    """Yield what recent entries of the error log report; old ones are history."""
    name = _name(drive)
    hours = drive.power_on_hours
    ages = {each: each.age_hours(hours) for each in errors}
    recent = [each for each, age in ages.items() if age is None or 0 <= age <= RECENT_HOURS]
    if medium := [each for each in recent if each.is_of_medium]:
        newest = max(medium, key=lambda each: each.hours)
        sectors = dict.fromkeys(str(each.sector) for each in medium if each.sector is not None)
        place = f" (LBA {', '.join([*sectors][:MAX_SECTORS])})" if sectors else ""
        text = f"{name}: sectors could not be read{place}, {_when(newest, ages[newest])}"
        many = (drive.errors_logged_total or 0) >= _MANY_ERRORS and len(medium) == len(errors)
        severity = "notice" if ages[newest] is None and not many else "warning"
        yield Finding(severity, "DiskErrorLog", name, text, _MEDIUM_ADVICE)
    link = [each for each in recent if each.is_of_link and ages[each] is not None]
    if link:
        newest = max(link, key=lambda each: each.hours)
        text = f"{name}: checksum errors on its link, {_when(newest, ages[newest])}"
        yield Finding("warning", "DiskInterfaceCrcErrors", name, text, _LINK_ADVICE)


def _when(error: AtaError, age_hours: int | None) -> str:
    if age_hours is None:
        return f"at hour {error.hours}; how long ago is not in the text ('-A')"
    return f"at hour {error.hours}, {duration(3600.0 * age_hours)} ago"


RECENT_HOURS = 168
"""Power-on hours within which an entry of the error log is about now: a week."""
_MANY_ERRORS = 5
"""Errors from which the summary log is full: of unreadable sectors only, at any time, as many are
no single accident. Source: ATA/ATAPI Command Set, SMART summary error log: five entries."""
MAX_SECTORS = 5
_MEDIUM_ADVICE = (
    "Make sure that its data also exists elsewhere. A long self-test reads all sectors: smartctl -t"
    " long DEVICE"
)
_LINK_ADVICE = "Replace the cable, or try another port or bay, before the disk."
_LOG_ADVICE = "Compare with all of its SMART data: smartctl -x DEVICE"
_NO_HEALTH = "smartctl: the drive's health status ('-H') is missing in it"
_NO_ATTRIBUTES = "smartctl: the drive's attributes ('-A') are missing in it"
_HEALTH = lazy_pattern(r"SMART (?:overall-health|Health Status)", re.IGNORECASE)
_NOT_READ = lazy_pattern(r"smartctl: '|(?!pySMART).*\bfail", re.IGNORECASE)
"""smartctl's messages that something could not be read."""
_BEGIN = lazy_pattern(
    r'(?:^|(?<=\}))smartctl (?:version )?\d{1,2}\.\d|\{\s*"(?:json_format_version|smartctl)"\s*:',
    re.MULTILINE | re.ASCII,
)
"""Beginning of an output: its banner, or the first names of its JSON."""


_HEADING = lazy_pattern(rf"(?<=^)(?:{SMARTCTL_HEADINGS})", re.MULTILINE)


def _begins(text: str) -> list[int]:
    """Return where each output of smartctl begins: its banner, else its first heading."""
    begins = [found.start() for found in _BEGIN.finditer(text)]
    if begins and any(map(smartctl_text.is_attribute, text[: begins[0]].split("\n"))):
        return [0, *begins]  # rows that were quoted above the whole report
    if begins and any(map(smartctl_text.is_self_test, text[: begins[0]].split("\n"))):
        # A row that was quoted above the report is of its drive; of several, whose is not known.
        return [0, *begins[len(begins) == 1 :]]
    if not begins and (first := _HEADING.search(text)) is not None:
        # Without a banner the next drive begins where the first heading is repeated.
        heading = re.escape(first[0])
        begins = [at.start() for at in re.finditer(rf"^[ \t]*{heading}", text, re.MULTILINE)]
        return _with_identity(text, begins)
    return begins or _rows_repeated(text)


def _rows_repeated(text: str) -> list[int]:
    """Return where the first row of the table of attributes is repeated: one drive each.

    'smartctl -A | grep' leaves rows alone. [] if it is there once: all rows are of one drive.
    """
    rows = (line for line in text.split("\n") if smartctl_text.is_attribute(line))
    words = next(rows, "").split()[:2]
    row = r"[ \t]+".join(map(re.escape, words))
    begins = [at.start() for at in re.finditer(rf"^[ \t]*{row}[ \t]", text, re.MULTILINE)]
    return _with_identity(text, begins) if words and len(begins) > 1 else []


def _with_identity(text: str, begins: list[int]) -> list[int]:
    """Return the beginnings of outputs that were filtered, with the fields above each heading.

    'smartctl -a | grep' leaves the serial number above the health, and no banner. Which fields
    are above it the first output shows: the last lines of the one before have other labels.
    """
    above = _fields_above(text[: begins[0]])
    labels = {smartctl_text.label(line) for line in above}
    whole = [begins[0] - sum(len(line) + 1 for line in above)]
    for before, begin in itertools.pairwise(begins):
        lines = _fields_above(text[before:begin])
        own = [*itertools.takewhile(lambda line: smartctl_text.label(line) in labels, lines)]
        whole.append(begin - sum(len(line) + 1 for line in own))
    return whole


def _fields_above(text: str) -> list[str]:
    """Return the lines with fields at the end of a text, the last one first."""
    lines = text.removesuffix("\n").split("\n")
    return [*itertools.takewhile(smartctl_text.label, reversed(lines))]


def _reports(text: str) -> list[str]:
    """Split a text into the outputs of smartctl, one for each drive."""
    begins = _begins(text)
    if not _BEGIN.search(text):
        if '"smartctl"' in text:  # its names were sorted
            return json_text.split_objects(text) or [text]
        begins[:1] = [0] * bool(begins)
    pieces = [text[begin:end] for begin, end in itertools.pairwise([*begins, len(text)])]
    # What stands behind a JSON may have brackets of its own.
    return [
        json_text.split_objects(piece)[0] if piece.startswith("{") else piece for piece in pieces
    ] or [text]
