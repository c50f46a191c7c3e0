"""Lines of services in syslog or the journal: smartd, multipathd, mdadm --monitor, ZED and others.

Also the text of a mail of smartd or mdadm. Lines of other programs are none of these, and are only
counted. A later line may end what an earlier one reported; in a log with the newest line first the
lines are taken from the end.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.kmsg import kernel_drivers
from iowarden.collectors.kmsg.kernel_line import ENTRY
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.parsed_text import Finding, Parsed, TextObject, Tool, UnparsedLine
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.services import service_messages, smartd_messages
from iowarden.collectors.services.service_message import ENDS, OLDEST, ServiceMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PROGRAMS = "smartd|multipathd|multipath|mdadm|zed|dmeventd|lvm|iscsid|systemd-fsck|fsck|systemd"
_TAGGED = lazy_pattern(
    rf"(?P<stamp>.{{0,80}}?)(?:^|[\s/])(?P<program>{_PROGRAMS})(?:\[\d{{1,10}}\])?: +(?P<text>\S.*)"
)
_BARE = lazy_pattern(
    r"[ \t]*(?P<text>(?:Device|TEST EMAIL from smartd for device): /dev/\S.*"
    r"|An? \w+ event ha[ds] been detected on md device \S+"
    r"|(?:mdadm: )?\w+ event detected on md device \S.*)"
)
"""A message without its program: from a mail, or a line that was cut out."""
_STATUS = lazy_pattern(r"\[ ?(?:TIME|FAILED|DEPEND)[ ]?\] (?P<text>\S.*)")
"""systemd on the console."""
_CLOCK = lazy_pattern(
    r"(?:^|\D)(?P<date>\d{4}-\d\d-\d\d|[A-Z][a-z]{2} [ \d]\d)[ T](?P<time>\d\d:\d\d:\d\d)"
)
_TROUBLE = lazy_pattern(rf"{kernel_drivers.FAULT}|(?i:\b(?:lost|down|unavail\w*|offlin\w*|dead)\b)")
_HEALTH = {
    "critical": ComponentHealth.FAILED,
    "warning": ComponentHealth.ATTENTION,
    "notice": ComponentHealth.ATTENTION,
}
_MAX_UNPARSED = 200


def service_message(line: str) -> tuple[str, str] | None:
    """Return program and text of a line of one of these services; None: it is of none."""
    if ENTRY.match(line):
        return _of_entry(line)
    found = _TAGGED.match(line)
    if found is not None:
        return found["program"], found["text"].rstrip()
    if (status := _STATUS.match(line)) is not None:
        return "systemd", status["text"].rstrip()
    if (bare := _BARE.fullmatch(line)) is not None:
        return ("smartd" if bare["text"].startswith(("Device:", "TEST EMAIL")) else "mdadm"), bare[
            "text"
        ].rstrip()
    return None


def _of_entry(line: str) -> tuple[str, str] | None:
    try:
        entry = json.loads(line.strip("\x1e"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    program, text = entry.get("SYSLOG_IDENTIFIER"), entry.get("MESSAGE")
    if not isinstance(text, str) or not isinstance(program, str):
        return None
    return (program, text) if re.fullmatch(_PROGRAMS, program) else None


def parse_service_log(text: str) -> Parsed:
    """Parse the lines of services.

    What is not known is noted if smartd reports it of a device, or if it has a word of trouble.
    """
    lines = [(at, line) for at, line in enumerate(text.split("\n"), 1) if line.strip()]
    if _is_reversed([line for _, line in lines]):
        lines.reverse()
    faults = _Faults()
    unparsed: list[UnparsedLine] = []
    others = count = 0
    for at, line in lines:
        tagged = service_message(line)
        if tagged is None:
            others += 1
            continue
        program, message = tagged
        count += 1
        reports = (
            smartd_messages.messages(message)
            if program == "smartd"
            else service_messages.messages(program, message)
        )
        for each in reports or ():
            faults.take(each)
        # All messages of smartd about a device are known; of others only those about trouble.
        is_of_disk = program == "smartd" and smartd_messages.is_of_device(message)
        is_trouble = program != "systemd" and _TROUBLE.search(message) is not None
        is_unknown = reports is None and (is_of_disk or is_trouble)
        others += not (reports or is_unknown)  # no event, as 'Device: /dev/sda, opened'
        if is_unknown:
            unparsed.append(UnparsedLine(f"not recognized, from {program}", line, at))
    if not count:
        unparsed = [UnparsedLine(_EXPECTED)]
    return Parsed(
        Tool.SERVICES,
        objects=tuple(faults.objects()),
        findings=tuple(faults.findings()),
        outputs=("log of services",) if count else (),
        unparsed=tuple(unparsed[:_MAX_UNPARSED]),
        lines=len(lines),
        others=others,
    )


_EXPECTED = "expected a line of smartd, multipathd, mdadm, zed, dmeventd or iscsid, got none"


def _is_reversed(lines: Sequence[str]) -> bool:
    """Return whether the newest line is first, as by 'journalctl --reverse'.

    Only dates that are written alike can be compared: those of one month, or with their year.
    """
    clocks = [clock for line in lines if (clock := _CLOCK.search(line)) is not None]
    if len(clocks) < 2:
        return False
    first, last = clocks[0], clocks[-1]
    if first["date"][:3] != last["date"][:3]:
        return False
    return (first["date"], first["time"]) > (last["date"], last["time"])


class _Faults:
    """What the lines so far report, by object, fault and part; the last line of each counts."""

    def __init__(self) -> None:
        self._messages: dict[tuple[str, str, str], ServiceMessage] = {}
        self._over: dict[tuple[str, str, str], ServiceMessage] = {}

    def take(self, message: ServiceMessage) -> None:
        """Take a message: a fault, or the end of some."""
        key = message.object, message.fault, message.part
        if message.severity == ENDS:
            self._end(key)
            return
        for name, fault, part in [*self._messages]:
            # Not all messages about a path name its map.
            if (fault, part) == key[1:] and part and "" in {name, message.object}:
                message = replace(message, object=message.object or name)
                del self._messages[name, fault, part]
        self._messages[message.object, message.fault, message.part] = message

    def _end(self, end: tuple[str, str, str]) -> None:
        is_one = end[2] == OLDEST
        ended = [each for each in self._messages if _is_ended(each, end)]
        for each in ended[:1] if is_one else ended:
            self._over[each] = self._messages.pop(each)

    def findings(self) -> Iterator[Finding]:
        """Yield the faults, and as information those that ended."""
        for each in self._messages.values():
            yield _finding(each)
        for key, each in self._over.items():
            if key not in self._messages:
                ended = replace(each, severity="info", text=f"{each.text}; a later line ends it")
                yield _finding(replace(ended, advice=""))

    def objects(self) -> Iterator[TextObject]:
        """Yield the objects that have a fault."""
        worst: dict[str, ServiceMessage] = {}
        ranks = [*_HEALTH]
        for each in self._messages.values():
            if each.severity not in _HEALTH:
                continue
            name = _place(each)
            before = worst.get(name)
            if before is None or ranks.index(each.severity) < ranks.index(before.severity):
                worst[name] = each
        for name, each in worst.items():
            yield TextObject("object", name, "", _HEALTH[each.severity], each.text)


def _is_ended(fault: tuple[str, str, str], end: tuple[str, str, str]) -> bool:
    """Return whether a message ends a fault; '' in it is any object, fault or part."""
    object_name, name, part = end
    return (
        (not name or fault[1] == name)
        and (part in {"", OLDEST} or fault[2] == part)
        # A path's messages do not all name its map.
        and (fault[0] == object_name or "" in {object_name, fault[0]})
    )


def _place(message: ServiceMessage) -> str:
    return message.object or message.part or "host"


def _finding(message: ServiceMessage) -> Finding:
    place = _place(message)
    return Finding(
        message.severity, message.fault, place, f"{place}: {message.text}", message.advice
    )
