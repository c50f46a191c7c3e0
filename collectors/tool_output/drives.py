"""Outputs of smartctl, one for each drive."""

from __future__ import annotations

import itertools
import re

from iowarden.collectors import json_text
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError
from iowarden.collectors.smart import smartctl, smartctl_refusal
from iowarden.collectors.smart.drive import Drive, Protocol, ReadStatus
from iowarden.collectors.tool_output.parsed import (
    MAX_OUTPUTS,
    MORE,
    Finding,
    Parsed,
    Tool,
    UnparsedLine,
)

# --- the others


def parse_smartctl(text: str) -> Parsed:
    """Parse the drives in a text, and those for which smartctl had no health data."""
    drives, refusals = [], []
    findings: list[Finding] = []
    unread: list[UnparsedLine] = []
    reports = _reports(text)
    if len(reports) > MAX_OUTPUTS:
        unread.append(MORE)
    for piece in reports[:MAX_OUTPUTS]:
        try:
            told = smartctl.parse(piece)
        except ParseError as error:
            unread.append(UnparsedLine(str(error)))
            continue
        if isinstance(told, Drive):
            drives.append(told)
            findings += _scan_halted(told)
            unread += [UnparsedLine(each, fault=True) for each in told.read_errors]
            others = (each for each in told.messages if each not in told.read_errors)
            unread += [UnparsedLine(each) for each in others if _NOT_READ.match(each)]
            # A text may be cut behind the overall health, which is the weakest of its data.
            # Its logs stand behind its attributes, and are data of their own.
            logs = told.self_tests or told.errors_logged_total is not None
            has_data = logs or told.attributes or told.read_errors or piece.startswith("{")
            if told.protocol is Protocol.ATA and not has_data:
                unread.append(UnparsedLine(_NO_ATTRIBUTES))
            # A health status that is not understood is none that is missing on purpose.
            if told.passed is None and (not logs or _HEALTH.search(piece)):
                unread.append(
                    UnparsedLine("smartctl: the drive's health status ('-H') is missing in it")
                )
            if told.exit_status & _ERRORS and told.errors_logged_total is None and not told.nvme:
                unread.append(
                    UnparsedLine("smartctl: its exit status reports entries in the error log")
                )
        else:
            refusals.append(told)
            if told.status not in _NOTHING_TO_READ:
                fault = told.status is ReadStatus.UNREADABLE and told.drive is not None
                unread.append(UnparsedLine(f"smartctl: {told.reason}", fault=fault))
    return Parsed(
        Tool.SMARTCTL,
        drives=tuple(drives),
        refusals=tuple(refusals),
        findings=tuple(findings),
        outputs=("smartctl",) if drives or refusals else (),
        unparsed=tuple(unread),
    )


def _scan_halted(drive: Drive) -> tuple[Finding, ...]:
    if drive.scsi is None or not drive.scsi.scan_halted:
        return ()
    name = drive.serial or drive.model or "drive"
    text = f"{name}: its background scan is {drive.scsi.scan_halted}: it finds no bad sectors now"
    return (Finding("notice", "BackgroundScanHalted", name, text, _SCAN_ADVICE),)


_SCAN_ADVICE = (
    "Start a long self-test, which reads all sectors: smartctl -t long DEVICE\n"
    "Make sure that its data also exists elsewhere. Replace the disk if the self-test fails."
)
_ERRORS = smartctl_refusal.ExitStatus.ERRORS
_NOTHING_TO_READ = frozenset({ReadStatus.NO_SMART, ReadStatus.LUN})
_NO_ATTRIBUTES = "smartctl: the drive's attributes ('-A') are missing in it"
_HEALTH = lazy_pattern(r"SMART (?:overall-health|Health Status)", re.IGNORECASE)
_NOT_READ = lazy_pattern(r"smartctl: '|(?!pySMART).*\bfail", re.IGNORECASE)
"""smartctl's messages that something could not be read."""
_BEGIN = lazy_pattern(
    r'(?:^|(?<=\}))smartctl (?:version )?\d{1,2}\.\d|\{\s*"(?:json_format_version|smartctl)"\s*:',
    re.MULTILINE | re.ASCII,
)
"""Beginning of an output: its banner, or the first names of its JSON."""


def _reports(text: str) -> list[str]:
    """Split a text into the outputs of smartctl, one for each drive."""
    begins = [found.start() for found in _BEGIN.finditer(text)]
    if not begins and '"smartctl"' in text:  # its names were sorted
        return json_text.split_objects(text) or [text]
    pieces = [text[begin:end] for begin, end in itertools.pairwise([*begins, len(text)])]
    # What stands behind a JSON may have brackets of its own.
    return [
        json_text.split_objects(piece)[0] if piece.startswith("{") else piece for piece in pieces
    ] or [text]
