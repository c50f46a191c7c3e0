"""What one run of smartctl says of a drive, or why it says nothing.

Source: smartctl(8) 7.0 to 7.5, '--json=co -x -f old'; the text that '--json=o' adds, or that came
alone, fills what the JSON lacks; pySMART reads that text as well, and is asked for its opinion.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iowarden.collectors.json_text import is_deep
from iowarden.collectors.model import ParseError
from iowarden.collectors.smart import smartctl_exporter
from iowarden.collectors.smart.drive import (
    Attribute,
    Cover,
    Drive,
    ErrorCounter,
    Nvme,
    Protocol,
    Scsi,
    SelfTest,
)
from iowarden.collectors.smart.smartctl_text import read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.smart.smartctl_text import Document

MOST_CHARACTERS = 4 * 1024 * 1024
"""Real ones have 1 to 60 thousand."""
_MOST_LINES = 10_000
_MOST_MESSAGES = 40
_MOST_WORDS = 200
"""Characters of a message; of an identity, too."""
_MOST_64 = 2**64 - 1
_MOST_128 = 2**128 - 1
_DATA_UNIT_BYTES = 512_000
"""Source: NVM Express Base Specification, 'Data Units Read': thousands of 512 bytes."""
_GIGABYTE = 10**9
_NO_LIMIT_CELSIUS = frozenset({0, 25})
"""As the trip temperature of a SCSI drive: it has none, or a controller made it up."""


class ExitStatus(enum.IntFlag):
    """The bits of smartctl's exit status. Source: smartctl(8), EXIT STATUS.

    The first three are about reading, the others about the drive, and then there is a report.
    With '-n standby,3' a drive that sleeps is 3 as well: what smartctl says decides.
    """

    COMMAND_LINE = 1 << 0
    OPEN = 1 << 1
    COMMAND = 1 << 2
    FAILING = 1 << 3
    PREFAIL = 1 << 4
    PAST = 1 << 5
    ERRORS = 1 << 6
    SELF_TEST = 1 << 7


_FINDINGS = {
    ExitStatus.COMMAND_LINE: "smartctl did not understand how it was called",
    ExitStatus.OPEN: "the device was not opened, did not identify itself, or sleeps",
    ExitStatus.COMMAND: "a command to the drive failed, or a checksum in its answer is wrong",
    ExitStatus.FAILING: "the drive says that it is failing",
    ExitStatus.PREFAIL: "a pre-fail attribute is at or below its threshold",
    ExitStatus.PAST: "an attribute is or was at or below its threshold, the drive passes",
    ExitStatus.ERRORS: "its error log has entries",
    ExitStatus.SELF_TEST: "its self-test log has failures",
}


def exit_findings(status: int) -> tuple[str, ...]:
    """Return what each bit of smartctl's exit status means, lowest first."""
    return tuple(text for bit, text in _FINDINGS.items() if status & bit)


@dataclass(frozen=True, slots=True)
class Refused:
    """smartctl ran, and read no health of a drive.

    Fields: `cover` is the kind of reason, `reason` is for people, in smartctl's words where it has
    any; `drive` is what was said of its identity nevertheless (model, serial number), if anything.
    """

    cover: Cover
    reason: str
    drive: Drive | None = None


def parse(text: str, *, kind: str = "") -> Drive | Refused:
    """Return what smartctl printed: a drive, or that there is none to speak of.

    `kind` is the '-d' it was asked with. A field that is not what it should be is None, and one of
    `messages` says so. Limits: 4 MiB. Errors: ParseError: this is not what smartctl prints.
    """
    if len(text) > MOST_CHARACTERS:
        message = (
            f"smartctl: expected at most {MOST_CHARACTERS} characters, got {len(text)};"
            " run it by hand on this drive"
        )
        raise ParseError(message)
    if not text.strip():
        return Refused(Cover.UNPARSED, "smartctl printed nothing")
    # smartmontools before 7.3 may print '  Pending defect count:' ahead of the JSON.
    if begin := _OBJECT.search(text):
        document = _document(text[begin.start() :])
        if isinstance(document, Refused):
            return document
        lines = _output(document)
        document = _merged(document, read_lines(lines)) if lines else document
    else:
        lines = text.splitlines()[:_MOST_LINES]
        document = read_lines(lines)
        if not document:
            message = (
                f"smartctl: expected JSON, or text that begins with its version, got"
                f" {text.strip()[:80]!r}; run it by hand on this drive"
            )
            raise ParseError(message)
    if begin:
        document.pop("unread", None)  # JSON has its values, whatever the locale makes of its text
    judged = _judged(document, lines, kind)
    return _compared(judged, lines) if isinstance(judged, Drive) and lines else judged


def _compared(drive: Drive, lines: list[str]) -> Drive:
    """Return a drive with what pySMART makes of the same lines counted."""
    # Only where there are drives: it is not worth its memory elsewhere.
    from iowarden.collectors.smart import pysmart  # noqa: PLC0415

    disagreements = 0
    messages = list(drive.messages)
    try:
        for difference in pysmart.differences(lines, drive):
            disagreements += 1
            messages.append(_clean(difference))
    except Exception as error:  # noqa: BLE001 - it raises what it stumbles over; ours is read
        messages.append(_clean(f"pySMART: {type(error).__name__}: {error}"))
    if len(messages) == len(drive.messages):
        return drive
    return dataclasses.replace(
        drive, disagreements=disagreements, messages=tuple(messages[:_MOST_MESSAGES])
    )


def _document(text: str) -> Document | Refused:
    """Return the JSON object that a text begins with. Errors: ParseError, not smartctl's."""
    if is_deep(text):
        return Refused(
            Cover.UNPARSED, f"its JSON of {len(text)} characters is cut off, or too deep"
        )
    document: Document
    try:
        try:
            document = _DECODER.raw_decode(text)[0]
        except json.JSONDecodeError:
            raise
        except ValueError:  # a number of thousands of digits
            document = _SLOW_DECODER.raw_decode(text)[0]
    except json.JSONDecodeError as error:
        where = f"at character {error.pos} of {len(text)}"
        return Refused(Cover.UNPARSED, f"its JSON is cut off or broken {where}: {error.msg}")
    if not isinstance(document.get("smartctl"), dict) or "devices" in document:
        message = (
            f"smartctl: expected its JSON of one drive, got an object of"
            f" {', '.join(map(repr, list(document)[:5]))[:200]}"
        )
        raise ParseError(message)
    return document


_OBJECT = re.compile(r'\{\s*"')


def _short_integer(text: str) -> int | None:
    return int(text) if len(text) <= 60 else None


_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda _: None)
_SLOW_DECODER = json.JSONDecoder(
    strict=False, parse_constant=lambda _: None, parse_int=_short_integer
)


def _output(document: Document) -> list[str]:
    """Return the lines that '--json=o' adds."""
    lines = document["smartctl"].get("output")
    if not isinstance(lines, list):
        return []
    return [line for line in lines[:_MOST_LINES] if isinstance(line, str)]


def _merged(said: Document, text: Document) -> Document:
    """Return what JSON says, and where it says nothing, what the text does."""
    merged = text | {name: value for name, value in said.items() if value is not None}
    for name, value in merged.items():
        other = text.get(name)
        if isinstance(value, dict) and isinstance(other, dict) and value is not other:
            merged[name] = _merged(value, other)
    return merged


class _Report:
    """What smartctl said, field by field; of one that cannot be so, `messages` tells."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.messages: list[str] = []

    def at(self, *path: str) -> Any:  # noqa: ANN401 - whatever smartctl said
        """Return what is there, None if nothing is."""
        value: Any = self._document
        for depth, name in enumerate(path):
            if not isinstance(value, dict):
                if value is not None:
                    self._wrong(path[:depth], "an object", value)
                return None
            value = value.get(name)
        return value

    def integer(self, *path: str, most: int = _MOST_64) -> int | None:
        """Return a count."""
        return self.as_integer(self.at(*path), *path, most=most)

    def as_integer(self, value: object, *path: str, most: int = _MOST_64) -> int | None:
        """Return a value as a count; some versions print one as text."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        elif isinstance(value, str) and len(value) <= 40 and _DIGITS.fullmatch(value):
            value = int(_SEPARATOR.sub("", value))
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most:
            return value
        if value is not None:
            self._wrong(path, f"a count up to {most}", value)
        return None

    def ratio(self, *path: str) -> float | None:
        """Return a percentage as a ratio of 1."""
        percent = self.integer(*path, most=255)
        return None if percent is None else percent / 100

    def celsius(self, *path: str) -> float | None:
        """Return a temperature."""
        value = self.at(*path)
        if isinstance(value, int | float) and not isinstance(value, bool) and -100 < value < 250:
            return float(value)
        if value is not None:
            self._wrong(path, "a temperature", value)
        return None

    def gigabytes(self, *path: str) -> float | None:
        """Return bytes of '409777.659' or '10311,154': thousands of millions."""
        value = self.at(*path)
        if isinstance(value, str) and re.fullmatch(r"\d{1,20}[.,]\d{1,9}", value):
            return float(value.replace(",", ".")) * _GIGABYTE
        number = self.as_integer(value, *path)
        return None if number is None else float(number) * _GIGABYTE

    def flag(self, *path: str) -> bool | None:
        """Return a truth value."""
        value = self.at(*path)
        if value is None or isinstance(value, bool):
            return value
        self._wrong(path, "true or false", value)
        return None

    def text(self, *path: str) -> str:
        """Return a text on one line: what a drive says of itself may be anything."""
        value = self.at(*path)
        if isinstance(value, str):
            return _clean(value)
        if value is not None:
            self._wrong(path, "a text", value)
        return ""

    def rows(self, *path: str) -> Iterator[_Report]:
        """Yield the rows of a table. A row may be null: smartctl skips what was never used."""
        value = self.at(*path)
        if value is None:
            return
        if not isinstance(value, list):
            self._wrong(path, "a list", value)
            return
        for row in value[:_MOST_ROWS]:
            if isinstance(row, dict):
                report = _Report(row)
                report.messages = self.messages
                yield report

    def strings(self, name: str) -> list[str]:
        """Return the texts of a list."""
        value = self.at(name)
        return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []

    def starts(self, prefix: str) -> bool:
        """Whether there is a field of such a name."""
        return any(name.startswith(prefix) for name in self._document)

    def _wrong(self, path: tuple[str, ...], expected: str, got: object) -> None:
        shown = _clean(repr(got)[:60])
        self.messages.append(f"smartctl: '{'.'.join(path)}': expected {expected}, got {shown}")


_MOST_ROWS = 512
_DIGITS = re.compile(r"\d{1,3}(?:[,.' \u2019\u00a0\u2009\u202f]\d{3})+|\d+", re.ASCII)
_SEPARATOR = re.compile(r"\D")


def _clean(text: str) -> str:
    """Return a text without what is not to be printed, in one line of limited length."""
    if text.isascii() and text.isprintable():
        return text.strip()[:_MOST_WORDS]
    shown = "".join(letter if letter.isprintable() else "?" for letter in text.strip())
    return shown[:_MOST_WORDS]


def _judged(document: Document, lines: list[str], kind: str) -> Drive | Refused:
    report = _Report(document)
    drive = _drive(report, lines, kind)
    told = "\n".join((*drive.messages, *lines))
    if found := _ASLEEP.search(told):
        return Refused(Cover.ASLEEP, found[0], _identity(drive))
    bad = drive.passed is False or any(each.failed == "now" for each in drive.attributes)
    # Others count errors all the same; a verdict that is good is an old one then.
    disabled = drive.protocol is Protocol.ATA and drive.smart_enabled is False and not bad
    little = _says_little(drive) and _of_no_disk(drive, kind)
    if _says_health(drive) and not little and not disabled:
        return dataclasses.replace(drive, exported=smartctl_exporter.pack(document))
    cover, reason = (
        _first(_HINTS, told)
        or _of_no_disk(drive, kind)
        or _first(_FAILURES, told)
        or _by_status(drive)
    )
    if cover is Cover.FAILED and _VIRTUAL.search(drive.model):
        cover = Cover.NO_SMART
    return Refused(cover, reason, _identity(drive))


def _identity(drive: Drive) -> Drive | None:
    return drive if drive.model or drive.serial or drive.wwn else None


def _says_health(drive: Drive) -> bool:
    return (
        drive.passed is not None
        or drive.errors_logged_total is not None
        or drive.self_test_minutes != {}
        or not _says_little(drive)
    )


def _says_little(drive: Drive) -> bool:
    """Whether there is nothing of it that a controller or an array does not say as well."""
    return not (
        drive.attributes
        or drive.nvme
        or drive.self_tests
        or drive.power_on_hours is not None
        or drive.temperature_celsius is not None
        or (drive.scsi and (drive.scsi.error_counters or drive.scsi.grown_defects is not None))
    )


_Reason = tuple[Cover, str]

_ASLEEP = re.compile(r"Device is in .{1,40} mode, exit\(\d+\)")
_HINTS = (
    (Cover.NO_SMARTCTL, re.compile(r"UNRECOGNIZED OPTION: j(?:son)?\b|INVALID ARGUMENT TO -json")),
    (Cover.PERMISSION, re.compile(r"Permission denied|Operation not permitted")),
    (
        Cover.NO_PASS_THROUGH,
        re.compile(r"please try adding '-d |(?:Unknown|Unsupported) USB bridge"),
    ),
    (Cover.NO_PASS_THROUGH, re.compile(r"Probable ATA device behind a SAT layer")),
    (
        Cover.NO_PASS_THROUGH,
        re.compile(r"Read Device Identity failed: .*(?:badly formed|[Uu]nsupported|[Ii]nvalid)"),
    ),
)
_DISABLED = re.compile(r"SMART Disabled|SMART support is: +Disabled")
_FAILURES = (
    (Cover.NO_SMART, re.compile(r"NO MEDIUM present")),
    (Cover.FAILED, re.compile(r"lacks SMART capability|Unable to detect device type")),
    (Cover.FAILED, re.compile(r"bad response to IEC mode page")),
    (Cover.FAILED, _DISABLED),
    (Cover.UNPARSED, re.compile(r"Unknown device type|INVALID ARGUMENT|UNRECOGNIZED OPTION")),
    (Cover.FAILED, re.compile(r"Test Unit Ready +\[|NOT READY|becoming ready|No such device")),
    (Cover.FAILED, re.compile(r"(?<!SMART command )[Ff]ailed(?:: | \[)")),
)
"""What smartctl prints where it could read nothing. Source: its smartctl.cpp, os_linux.cpp,
ataprint.cpp and scsiprint.cpp."""
_LUN = re.compile(
    r"NETAPP|DGC|EMC|SYMMETRIX|OPEN-|3PARdata|PURE|HUAWEI|COMPELNT|Nimble|LIO-ORG|IET|SCST|Tegile"
    r"|XtremIO|IBM 21|IBM 2810XIV|NUTANIX|HP HSV|MSA|DELL MD|DELL ME|SYNOLOGY|FreeNAS|TrueNAS"
)
_VOLUME = re.compile(
    r"PERC|MegaRAID|\bMR[ 9]|AVAGO|BROADCOM|LOGICAL VOLUME|Logical (?:Drive|Disk|Volume)|RAID|Raid"
    r"|Areca|ARC-\d|Adaptec|ASR|AMCC|3ware|Intel RS|SmartIOC|VIRTUAL DISK|Virtual Drive|BOSS VD"
)
_VIRTUAL = re.compile(
    r"QEMU|VMware|VBOX|Msft|Virtual|[Vv]irt[Ii][Oo]|XENSRC|Google|Amazon|PersistentDisk"
    r"|BHYVE|Parallels|BlockVol|(?:DO|HC|Linode) Volume|Alibaba Cloud"
)


def _first(reasons: tuple[tuple[Cover, re.Pattern[str]], ...], told: str) -> _Reason | None:
    for cover, pattern in reasons:
        if found := pattern.search(told):
            begin = told.rfind("\n", 0, found.start()) + 1
            end = told.find("\n", found.end())
            return cover, _clean(told[begin : end if end >= 0 else None])
    return None


def _of_no_disk(drive: Drive, kind: str) -> _Reason | None:
    """Say what a SCSI device without any health of its own is, by how it calls itself."""
    if drive.protocol is not Protocol.SCSI or "," in kind:
        return None
    name = drive.model
    if drive.transport.startswith(("Fibre channel", "iSCSI")) or _LUN.match(name):
        over = f" over {drive.transport}" if drive.transport else ""
        return Cover.LUN, f"'{name}'{over} is a logical unit of a storage array"
    if _VIRTUAL.search(name):
        return Cover.NO_SMART, f"'{name}' is a virtual disk"
    if _VOLUME.search(name):
        return Cover.NO_PASS_THROUGH, f"'{name}' is a volume of a RAID controller"
    return None


def _by_status(drive: Drive) -> _Reason:
    status = drive.exit_status
    said = "; ".join(exit_findings(status))
    if drive.smart_available is False:
        return Cover.FAILED, f"'{drive.model}' lacks SMART capability"
    if drive.smart_enabled is False:
        return Cover.FAILED, f"'{drive.model}': SMART is disabled"
    if status & ExitStatus.COMMAND_LINE:
        return Cover.UNPARSED, said
    if status & ExitStatus.COMMAND and drive.model:
        return Cover.FAILED, f"'{drive.model}' tells its name, nothing of its health: {said}"
    if status & (ExitStatus.OPEN | ExitStatus.COMMAND):
        return Cover.FAILED, said
    return Cover.UNPARSED, "smartctl's report has nothing of its health; it needs '-x' or '-a'"


def _drive(report: _Report, lines: list[str], kind: str) -> Drive:
    """Return all that is there, be it little."""
    protocol = _protocol(report, kind)
    vendor = report.text("scsi_vendor") or report.text("vendor")
    product = report.text("scsi_product") or report.text("product")
    attributes = tuple(_attributes(report))
    trip = report.celsius("temperature", "drive_trip")
    if trip is None:
        trip = report.celsius("scsi_temperature", "drive_trip")
    scsi = _scsi(report) if protocol is Protocol.SCSI else None
    nvme = _nvme(report) if protocol is Protocol.NVME else None
    enabled = report.flag("smart_support", "enabled")
    enabled = True if enabled is None and nvme is not None else enabled
    available = report.flag("smart_support", "available")
    available = True if available is None and enabled else available
    capacity = report.integer("user_capacity", "bytes")
    if capacity is None:
        capacity = report.integer("nvme_total_capacity", most=_MOST_128) or None
    errors = report.integer("ata_smart_error_log", "extended", "count")
    if errors is None:
        errors = report.integer("ata_smart_error_log", "summary", "count")
    pending = report.integer("ata_pending_defects_log", "count")
    spoilt = report.strings("unread")
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
        exit_status=report.integer("smartctl", "exit_status", most=255) or 0,
        temperature_celsius=_temperature(report, protocol, attributes),
        temperature_limit_celsius=_limit(report, protocol, trip),
        reported_trip_celsius=trip,
        power_on_hours=_power_on_hours(report, attributes),
        power_cycles=_power_cycles(report, attributes),
        attributes=attributes,
        errors_logged_total=errors,
        self_tests=tuple(_self_tests(report)),
        self_test_remaining_ratio=_remaining(report),
        self_test_kinds=_self_test_kinds(report, protocol, lines),
        self_test_minutes=_self_test_minutes(report),
        pending_sectors=scsi.pending_defects if scsi else pending,
        scsi=scsi,
        nvme=nvme,
        refused=tuple(_clean(line) for line in lines if _UNSUPPORTED.search(line))[:_MOST_MESSAGES],
        smartctl_version=_version(report),
    )
    messages = [row.text("string") for row in report.rows("smartctl", "messages")]
    messages += [_clean(line) for line in lines if _COMPLAINT.search(line)]
    messages += report.messages
    unread = [*report.messages, *_contradictions(drive)]
    unread += [f"smartctl: expected a value that is known, got '{_clean(line)}'" for line in spoilt]
    return dataclasses.replace(
        drive,
        messages=tuple(dict.fromkeys(filter(None, (*messages, *unread))))[:_MOST_MESSAGES],
        unread=tuple(dict.fromkeys(unread))[:_MOST_MESSAGES],
    )


def _contradictions(drive: Drive) -> Iterator[str]:
    """Yield what smartctl's exit status, or a value, tells that the rest of its report does not.

    Source: smartctl(8), EXIT STATUS, and smartmontools 7.5, ataprint.cpp: a temperature counts
    there, too, and self-tests that failed ahead of one that passed do not.
    """
    rows = drive.attributes
    now = any(_at_threshold(each, each.value) for each in rows)
    past = now or any(_at_threshold(each, each.worst) or each.failed for each in rows)
    tested = any(test.passed is False for test in drive.self_tests)
    for bit, told in (
        (ExitStatus.FAILING, drive.passed is not True),
        (ExitStatus.PREFAIL, now),
        (ExitStatus.PAST, past),
        (ExitStatus.SELF_TEST, tested),
    ):
        if drive.exit_status & bit and not told:
            yield f"smartctl: its exit status says what the rest does not: {_FINDINGS[bit]}"
    for each in rows:
        counted = each.counted() is not None or _OF_SO_MANY.fullmatch(each.raw_text)
        if each.id in _ERRORS and each.raw_text and not counted:
            yield f"smartctl: attribute {each.id}: expected a count, got '{each.raw_text[:60]}'"
    for test in drive.self_tests:
        if test.passed is None and test.status and not _UNFINISHED.match(test.status):
            yield f"smartctl: a self-test: expected a result that is known, got '{test.status}'"


def _at_threshold(attribute: Attribute, value: int | None) -> bool:
    return bool(value is not None and attribute.threshold and value <= attribute.threshold)


_ERRORS = frozenset({5, 10, 187, 188, 196, 197, 198, 199})
"""Attributes that count errors. Source: domain condition H2, H3."""
_OF_SO_MANY = re.compile(r"\d{1,9}/\d{1,12}", re.ASCII)
_UNFINISHED = re.compile(
    r"(?i)aborted|interrupted|(?:.{0,12}self[- ]test|test).{0,20} in progress|in progress|reserved"
)
"""A self-test that says nothing of the drive. Source: as of `_test_passed`."""


_UNSUPPORTED = re.compile(r"not supported|does not support|[Uu]nsupported|not implemented")
_COMPLAINT = re.compile(r"^Warning[!:]|[Ff]ailed(?:: | \[|$)|NOT READY|NO MEDIUM|Terminate command")


def _protocol(report: _Report, kind: str) -> Protocol:
    said = report.text("device", "protocol")
    if said in set(Protocol):
        return Protocol(said)
    if report.starts("nvme_") or "nvme" in kind or kind.startswith("snt"):
        return Protocol.NVME
    if report.starts("scsi_") or kind == "scsi":
        return Protocol.SCSI
    return Protocol.ATA


def _version(report: _Report) -> str:
    version = report.at("smartctl", "version")
    if isinstance(version, list) and all(isinstance(part, int) for part in version[:2]):
        return ".".join(map(str, version[:2]))
    return ""


def _wwn(report: _Report) -> str:
    """Return NAA, OUI and identifier of an ATA drive, the designator of SCSI, EUI-64 of NVMe."""
    if report.at("wwn") is not None:
        naa = report.integer("wwn", "naa", most=2**4 - 1)
        oui = report.integer("wwn", "oui", most=2**24 - 1)
        identifier = report.integer("wwn", "id", most=2**36 - 1)
        if naa is not None and oui is not None and identifier is not None:
            return f"{naa:x}{oui:06x}{identifier:09x}"
    for row in report.rows("nvme_namespaces"):
        if row.at("eui64") is not None:
            oui = row.integer("eui64", "oui", most=2**24 - 1)
            extension = row.integer("eui64", "ext_id", most=2**40 - 1)
            if oui is not None and extension is not None and (oui or extension):
                return f"{oui:06x}{extension:010x}"
    found = _DESIGNATOR.match(report.text("logical_unit_id").lower())
    return found[1] if found and int(found[1], 16) else ""


_DESIGNATOR = re.compile(r"(?:0x)?([0-9a-f]{32}|[0-9a-f]{16})")


def _rotation(report: _Report, protocol: Protocol, lines: list[str]) -> int | None:
    """Return the rotation rate, 0 of a solid-state drive.

    Of a SCSI drive that does not report one, smartctl's JSON has 0 as well; its text has no line.
    """
    rate = report.integer("rotation_rate", most=0xFFFE)
    told = not lines or any(line.startswith("Rotation Rate:") for line in lines)
    return None if rate == 0 and protocol is Protocol.SCSI and not told else rate


def _passed(report: _Report, nvme: Nvme | None) -> bool | None:
    passed = report.flag("smart_status", "passed")
    if passed is None and nvme is not None and nvme.critical_warning is not None:
        return nvme.critical_warning == 0
    return passed


def _temperature(
    report: _Report, protocol: Protocol, attributes: tuple[Attribute, ...]
) -> float | None:
    """Return the temperature; 0 is what ATA and SCSI devices say that have no sensor."""
    for path in (
        ("temperature", "current"),
        ("scsi_environmental_reports", "temperature_1", "current"),
    ):
        current = report.celsius(*path)
        if current is not None and (current != 0 or protocol is Protocol.NVME):
            return current
    for number in (194, 190):
        found = next((each for each in attributes if each.id == number), None)
        # Makers pack minimum and maximum into the bytes above the lowest.
        low = None if found is None or found.counted() is None else (found.counted() or 0) & 0xFF
        if low is not None and 0 < low < 128:
            return float(low)
    return None


def _limit(report: _Report, protocol: Protocol, trip: float | None) -> float | None:
    """Return the temperature that the drive itself calls its limit."""
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


def _power_on_hours(report: _Report, attributes: tuple[Attribute, ...]) -> int | None:
    hours = report.integer("power_on_time", "hours")
    if hours is None:
        hours = report.integer(_HEALTH_LOG, "power_on_hours")
    if hours is None:
        # A maker's format may follow it: '12345 (188 21 0)' or '12345h+17m+03.123s'.
        found = next((each for each in attributes if each.id == 9), None)
        digits = re.match(r"(\d{1,9})(?:h|\s|$)", found.raw_text) if found else None
        hours = int(digits[1]) if digits else None
    return hours


def _power_cycles(report: _Report, attributes: tuple[Attribute, ...]) -> int | None:
    cycles = report.integer("power_cycle_count")
    if cycles is None:
        cycles = report.integer(_HEALTH_LOG, "power_cycles")
    if cycles is None:
        found = next((each for each in attributes if each.id == 12), None)
        cycles = found.counted() if found else None
    return cycles


def _attributes(report: _Report) -> Iterator[Attribute]:
    """Yield the attributes, each number once: it is what tells them apart."""
    known: set[int] = set()
    for row in report.rows("ata_smart_attributes", "table"):
        number = row.integer("id", most=255)
        if not number or number in known:
            report.messages.append(
                f"smartctl: attribute {number}: expected a number of its own; the first is kept"
            )
            continue
        known.add(number)
        failed = row.text("when_failed").lower()
        yield Attribute(
            number,
            row.text("name"),
            row.integer("value", most=255),
            row.integer("worst", most=255),
            row.integer("thresh", most=255),
            row.integer("raw", "value"),
            row.text("raw", "string"),
            row.flag("flags", "prefailure") or False,
            "now" if "now" in failed else "past" if "past" in failed else "",
        )


def _self_tests(report: _Report) -> Iterator[SelfTest]:
    """Yield the log of self-tests, newest first: ATA's extended one before the standard one."""
    logs = (
        ("ata_smart_self_test_log", "extended", "table"),
        ("ata_smart_self_test_log", "standard", "table"),
    )
    rows: list[_Report] = next(filter(None, (list(report.rows(*path)) for path in logs)), [])
    rows = rows or list(report.rows("nvme_self_test_log", "table"))
    if not rows:
        for number in range(20):
            name = f"scsi_self_test_{number}"
            if isinstance(report.at(name), dict):
                row = _Report(report.at(name))
                row.messages = report.messages
                rows.append(row)
    for row in rows or list(report.rows("self_tests")):
        kind = next(filter(None, (row.text(name, "string") for name in _KIND_NAMES)), "")
        status = next(filter(None, (row.text(name, "string") for name in _STATUS_NAMES)), "")
        hours = row.integer("lifetime_hours")
        if hours is None:
            hours = row.integer("power_on_hours")
        if hours is None:
            hours = row.integer("power_on_time", "hours")
        lba = row.at("lba")
        if lba is None:
            lba = row.at("lba_first_failure", "value")
        found = _KIND.search(kind)
        word = found[0].lower() if found else kind
        yield SelfTest(
            "extended" if word == "long" else word,
            status,
            _test_passed(status),
            hours,
            row.as_integer(lba, "lba"),
        )


_KIND_NAMES = ("type", "self_test_code", "code")
_STATUS_NAMES = ("status", "self_test_result", "result")
_KIND = re.compile(r"short|extended|long|conveyance|selective|offline", re.IGNORECASE)


def _test_passed(status: str) -> bool | None:
    """Return what the status of a self-test says of the drive.

    Source: smartmontools, ataprint.cpp, scsiprint.cpp, nvmeprint.cpp; it counts as failed what ends
    by a fatal or unknown error, too.
    """
    if status in {"Completed", "Completed without error"}:
        return True
    if status.startswith(("Completed", "Failed", "Fatal", "Unknown error")):
        return False
    return None


def _remaining(report: _Report) -> float | None:
    """Return how much of a running self-test is left."""
    value = report.integer("ata_smart_data", "self_test", "status", "value", most=255)
    if value is not None and value >> 4 == 0xF:
        # ATA command set, self-test execution status: tens of a percent in the lower four bits.
        return min(value & 0xF, 10) / 10
    remaining = report.ratio("scsi_self_test_status", "remaining_percent")
    if remaining is not None:
        return remaining
    completed = report.ratio("scsi_self_test_status", "completion_percent")
    if completed is None:
        completed = report.ratio("nvme_self_test_log", "current_self_test_completion_percent")
    return None if completed is None else max(0.0, 1 - completed)


def _self_test_kinds(
    report: _Report, protocol: Protocol, lines: list[str]
) -> tuple[str, ...] | None:
    if protocol is Protocol.NVME:
        able = report.flag("nvme_optional_admin_commands", "self_test")
    elif protocol is Protocol.SCSI:
        # It tells by having a log for them; there is no other word of it.
        able = True if report.starts("scsi_self_test_") or report.at("self_tests") else None
        if able is None and any(line.lower().startswith("no self-tests have") for line in lines):
            able = True
    else:
        able = report.flag("ata_smart_data", "capabilities", "self_tests_supported")
    if able is None:
        return None
    conveyance = report.flag("ata_smart_data", "capabilities", "conveyance_self_test_supported")
    return (*(("short", "long") if able else ()), *(("conveyance",) if conveyance else ()))


def _self_test_minutes(report: _Report) -> dict[str, int]:
    minutes = {
        kind: report.integer("ata_smart_data", "self_test", "polling_minutes", name)
        for kind, name in (("short", "short"), ("long", "extended"), ("conveyance", "conveyance"))
    }
    seconds = report.integer("scsi_extended_self_test_seconds")
    if seconds is not None:
        minutes["long"] = math.ceil(seconds / 60)
    return {kind: number for kind, number in minutes.items() if number is not None}


def _scsi(report: _Report) -> Scsi:
    counters = {
        name: ErrorCounter(
            report.integer(_COUNTER_LOG, name, "total_errors_corrected"),
            report.integer(_COUNTER_LOG, name, "total_uncorrected_errors"),
            report.gigabytes(_COUNTER_LOG, name, "gigabytes_processed"),
        )
        for name in ("read", "write", "verify")
        if report.at(_COUNTER_LOG, name) is not None
    }
    endurance = report.ratio("scsi_percentage_used_endurance_indicator")
    if endurance is None:
        endurance = report.ratio("endurance_used", "current_percent")
    return Scsi(
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
        asc=report.integer("smart_status", "scsi", "asc", most=255),
        ascq=report.integer("smart_status", "scsi", "ascq", most=255),
        endurance_used_ratio=endurance,
    )


_COUNTER_LOG = "scsi_error_counter_log"
_START_STOP = "scsi_start_stop_cycle_counter"
_HEALTH_LOG = "nvme_smart_health_information_log"


def _nvme(report: _Report) -> Nvme | None:
    """Return the health log; counters have 128 bits there, times are minutes."""
    if report.at(_HEALTH_LOG) is None:
        return None

    def scaled(name: str, unit: int) -> float | None:
        number = report.integer(_HEALTH_LOG, name, most=_MOST_128)
        return None if number is None else float(number) * unit

    return Nvme(
        critical_warning=report.integer(_HEALTH_LOG, "critical_warning", most=255),
        available_spare_ratio=report.ratio(_HEALTH_LOG, "available_spare"),
        available_spare_threshold_ratio=report.ratio(_HEALTH_LOG, "available_spare_threshold"),
        percentage_used_ratio=report.ratio(_HEALTH_LOG, "percentage_used"),
        media_errors_total=report.integer(_HEALTH_LOG, "media_errors", most=_MOST_128),
        error_log_entries_total=report.integer(_HEALTH_LOG, "num_err_log_entries", most=_MOST_128),
        unsafe_shutdowns_total=report.integer(_HEALTH_LOG, "unsafe_shutdowns", most=_MOST_128),
        read_bytes_total=scaled("data_units_read", _DATA_UNIT_BYTES),
        written_bytes_total=scaled("data_units_written", _DATA_UNIT_BYTES),
        controller_busy_seconds_total=scaled("controller_busy_time", 60),
        warning_temperature_seconds_total=scaled("warning_temp_time", 60),
        critical_temperature_seconds_total=scaled("critical_comp_time", 60),
    )
