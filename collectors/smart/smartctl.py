"""Parser of one smartctl output: a drive, or the reason why there is no data.

Source: smartctl(8) 7.0 to 7.5, '--json=co -x -f old'; the text that '--json=o' adds, or that was
printed alone, completes the JSON; pySMART parses that text as well, as a second opinion.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

from iowarden.collectors.json_text import is_deep
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError
from iowarden.collectors.smart import smartctl_exporter
from iowarden.collectors.smart.drive import Drive, Protocol, ReadStatus
from iowarden.collectors.smart.smartctl_drive import MAX_MESSAGES, drive_of
from iowarden.collectors.smart.smartctl_refusal import (
    ASLEEP,
    SmartRefusal,
    identity,
    of_no_disk,
    refusal,
)
from iowarden.collectors.smart.smartctl_report import SmartctlReport, clean
from iowarden.collectors.smart.smartctl_text import read_lines

if TYPE_CHECKING:
    from iowarden.collectors.smart.smartctl_text import Document

MAX_CHARACTERS = 4 * 1024 * 1024
"""Real outputs have 1 to 60 thousand."""
_MAX_LINES = 10_000


def parse(text: str, *, kind: str = "") -> Drive | SmartRefusal:
    """Parse an output of smartctl: a drive, or the reason why it has no health data.

    `kind` is the '-d' of the query. An invalid field is None, and reported in `messages`. Limits: 4
    MiB. Errors: ParseError: this is no output of smartctl.
    """
    if len(text) > MAX_CHARACTERS:
        raise ParseError(
            f"smartctl: expected at most {MAX_CHARACTERS} characters, got {len(text)};"
            " run it by hand on this drive"
        )
    if not text.strip():
        return SmartRefusal(ReadStatus.UNPARSED, "smartctl printed nothing")
    # smartmontools before 7.3 may print '  Pending defect count:' before the JSON.
    if begin := _OBJECT.search(text):
        document = _document(text[begin.start() :])
        if isinstance(document, SmartRefusal):
            return document
        lines = _output(document)
        document = _merged(document, read_lines(lines)) if lines else document
    else:
        lines = text.splitlines()[:_MAX_LINES]
        document = read_lines(lines)
        if not document:
            raise ParseError(
                f"smartctl: expected JSON, or text that begins with its version, got"
                f" {text.strip()[:80]!r}; run it by hand on this drive"
            )
    if begin:
        # JSON has its values, whatever the locale does to its text.
        document.pop("read_errors", None)
    judged = _classified(document, lines, kind)
    return _compared(judged, lines) if isinstance(judged, Drive) and lines else judged


def _compared(drive: Drive, lines: list[str]) -> Drive:
    """Return a drive with the number of values that pySMART parses differently."""
    # Imported only if there are drives: it is not worth its memory otherwise.
    from iowarden.collectors.smart import pysmart  # noqa: PLC0415

    disagreements = 0
    messages = list(drive.messages)
    try:
        for difference in pysmart.differences(lines, drive):
            disagreements += 1
            messages.append(clean(difference))
    except Exception as error:  # noqa: BLE001 - whatever pySMART raises
        messages.append(clean(f"pySMART: {type(error).__name__}: {error}"))
    if len(messages) == len(drive.messages):
        return drive
    return dataclasses.replace(
        drive, disagreements=disagreements, messages=tuple(messages[:MAX_MESSAGES])
    )


def _document(text: str) -> Document | SmartRefusal:
    """Return the JSON object that begins a text. Errors: ParseError if it is not smartctl's."""
    if is_deep(text):
        return SmartRefusal(
            ReadStatus.UNPARSED,
            f"its JSON of {len(text)} characters is truncated, or nested too deep",
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
        return SmartRefusal(
            ReadStatus.UNPARSED, f"its JSON is truncated or invalid {where}: {error.msg}"
        )
    if not isinstance(document.get("smartctl"), dict) or "devices" in document:
        raise ParseError(
            f"smartctl: expected its JSON of one drive, got an object of"
            f" {', '.join(map(repr, list(document)[:5]))[:200]}"
        )
    return document


_OBJECT = lazy_pattern(r'\{\s*"')


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
    return [line for line in lines[:_MAX_LINES] if isinstance(line, str)]


def _merged(document: Document, text: Document) -> Document:
    """Return the drive from JSON, with fields from the text where JSON has none."""
    merged = text | {name: value for name, value in document.items() if value is not None}
    for name, value in merged.items():
        other = text.get(name)
        if isinstance(value, dict) and isinstance(other, dict) and value is not other:
            merged[name] = _merged(value, other)
    return merged


def _classified(document: Document, lines: list[str], kind: str) -> Drive | SmartRefusal:
    report = SmartctlReport(document)
    drive = drive_of(report, lines, kind)
    told = "\n".join((*drive.messages, *lines))
    if found := ASLEEP.search(told):
        return SmartRefusal(ReadStatus.ASLEEP, found[0], identity(drive))
    bad = drive.passed is False or any(each.failed == "now" for each in drive.attributes)
    # Others count errors even so; a passed status is an old one then.
    disabled = drive.protocol is Protocol.ATA and drive.smart_enabled is False and not bad
    little = _is_redundant(drive) and of_no_disk(drive, kind)
    if _has_health(drive) and not little and not disabled:
        return dataclasses.replace(drive, exported=smartctl_exporter.pack(document))
    return refusal(drive, told, kind)


def _has_health(drive: Drive) -> bool:
    return (
        drive.passed is not None
        or drive.errors_logged_total is not None
        or drive.self_test_minutes != {}
        or not _is_redundant(drive)
    )


def _is_redundant(drive: Drive) -> bool:
    """Whether its data are not more than what a controller or an array reports as well."""
    return not (
        drive.attributes
        or drive.nvme
        or drive.self_tests
        or drive.power_on_hours is not None
        or drive.temperature_celsius is not None
        or (drive.scsi and (drive.scsi.error_counters or drive.scsi.grown_defects is not None))
    )
