"""Parse a line of the kernel log: from '/dev/kmsg', from the journal, or from a text file."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError

if TYPE_CHECKING:
    from iowarden.collectors.kmsg.kernel_journal import Message

TEXT_CHARACTERS = 2048
"""A record holds at most about 1000 bytes of text (kernel/printk, LOG_LINE_MAX)."""
_RECORD = lazy_pattern(
    rb"(?P<priority>[0-9]{1,5}),(?P<sequence>[0-9]{1,20}),(?P<microseconds>[0-9]{1,20})"
    rb"(?:,[^;\n]*)?;(?P<text>[^\n]*)(?P<pairs>(?:\n [^\n]*)*)\n*"
)
_ESCAPE = lazy_pattern(rb"\\x([0-9a-fA-F]{2})")
_USER = 1
"""A facility other than the kernel's. Source: syslog(3)."""
_PROGRAM = lazy_pattern(
    r"(?:\S{1,100} +[0-9]{1,2} [0-9:.]{8,15}|[0-9]{4}-[0-9]{2}-[0-9]{2}T\S+"
    r"|(?:\w{3} )?[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]{8,15}(?: [A-Z]{2,5})?|[0-9]{9,11}\.[0-9]+)"
    r" +[^\s:]+ +(?!kernel(?:\[[^\]\s]*\])?:|\[)[\w./@-]+(?:\[[0-9]+\])?: ",
    re.ASCII,
)
"""Format of a program's line in syslog: 'Jan  1 00:00:00 host name[123]: ...'."""
_PREFIXES = tuple(
    lazy_pattern(pattern, re.ASCII)
    for pattern in (
        r"[\w./-]{1,200}[:-](?=\[ *[0-9]+\.|<[0-9])",  # grep --with-filename, --line-number
        r"<(?P<priority>[0-9]{1,3})>",
        r"1 \S+ \S+ kernel \S+ \S+ (?:-|\[[^\]\n]{0,200}\])[ \ufeff]",  # RFC 5424
        (  # netconsole, extended; /dev/kmsg
            r"(?:[0-9]+\.[\w.+-]{1,64},)?(?P<priority>[0-9]{1,5}),[0-9]{1,20},"
            r"(?P<microseconds>[0-9]{1,20})(?:,[^;\n]{0,200})?;"
        ),
        r"(?P<facility>\w+) *:(?P<level>\w+) *: +(?=\[)",  # dmesg --decode
        r"(?:[\w.:-]{1,80}: )?kern: +(?P<level>\w+): +\[[0-9T:.Z-]{16,40}\]:",  # talosctl dmesg
        r"(?:\S+[ \t]+){0,6}?kernel(?:\[[^\]\s]{1,20}\])?:(?: :)?\s",  # syslog, journalctl
        r"<(?P<priority>[0-9]{1,3})>",  # sysklogd leaves it there
        r"(?:\S+[ \t]+){1,5}kern kernel\s",
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T\s][0-9:.,+Z-]{8,}\s+(?:\S+ !\s+\w+ \| )?",
        r"\[ *(?P<seconds>[0-9]{1,12}\.[0-9]{1,9})(?: <[ 0-9.]{1,24}>)?\]",  # also --show-delta
        (  # dmesg --ctime, --reltime; not the PCI address of qedf and qedi
            r"\[(?![0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\])"
            r"[^\]\n]{0,40}[0-9]:[0-9]{2}[^\]\n]{0,20}\]"
        ),
        r"\[ *\+[0-9]{1,12}\.[0-9]{1,9}\]",
        r"\[ *[TC][0-9]{1,10}\]",  # CONFIG_PRINTK_CALLER
    )
)


_LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
"""Source: dmesg(1), --decode."""
_COLOUR = lazy_pattern(r"\x1b\[[0-9;]{0,20}[mK]", re.ASCII)
ENTRY = lazy_pattern(r'\x1e?\{ ?(?:"[^\n]*)?"MESSAGE" ?:')
"""A line of 'journalctl --output=json' or '--output=json-seq'."""
_KERNEL = "kernel"
_DIGITS = lazy_pattern(r"[0-9]{1,18}", re.ASCII)
_FIELD = lazy_pattern(r" (?:SUBSYSTEM|DEVICE)=", re.ASCII)
"""Continuation of the record above, in '/dev/kmsg'."""
_QUOTED = lazy_pattern(r"[\s>`\ufeff]+")
"""Prefixes that a mail or a forum adds to a line."""


@dataclass(frozen=True, slots=True)
class KernelLine:
    """One record of the kernel's log. The same record of '/dev/kmsg' and the journal has one time.

    Source: kernel, ABI/testing/dev-kmsg. `facility` 0 is the kernel; anything else was written to
    '/dev/kmsg' by a program. `priority` is 0 (emergency) to 7 (debug), None if not known. `device`
    is 'b8:0' (a block device), '+scsi:0:0:0:0' (subsystem and name), '' without one. `sequence` is
    the record's number since boot, in a text file the line's; not in the journal: 0.
    """

    text: str
    priority: int | None = None
    facility: int = 0
    monotonic_seconds: float | None = None
    boot_id: str = ""
    realtime_seconds: float | None = None
    device: str = ""
    subsystem: str = ""
    sequence: int = 0


def parse_record(
    record: bytes, boot_id: str = "", realtime_seconds: float | None = None
) -> KernelLine:
    r"""Parse one record of '/dev/kmsg': '6,1234,567890,-;text\n SUBSYSTEM=scsi\n ...'.

    Source: kernel, ABI/testing/dev-kmsg: priority and facility, number, microseconds, flags, then
    fields to be ignored; unprintable bytes are escaped as '\xNN'. Errors: ParseError.
    """
    found = _RECORD.fullmatch(record)
    if found is None:
        raise ParseError(
            f"'/dev/kmsg': expected '<priority>,<number>,<microseconds>,<flags>;<text>',"
            f" got {record[:80]!r}"
        )
    pairs = dict(each.partition("=")[::2] for each in _plain(found["pairs"]).split("\n "))
    priority = int(found["priority"])
    return KernelLine(
        _plain(found["text"])[:TEXT_CHARACTERS],
        priority & 7,
        priority >> 3,
        int(found["microseconds"]) / 1e6,
        boot_id,
        realtime_seconds,
        pairs.get("DEVICE", ""),
        pairs.get("SUBSYSTEM", ""),
        int(found["sequence"]),
    )


def from_message(message: Message) -> KernelLine:
    """Convert a message of the journal; the probe queries only the kernel's own."""
    return KernelLine(
        message.message[:TEXT_CHARACTERS],
        message.priority,
        0,
        message.monotonic_seconds,
        message.boot_id,
        message.realtime_seconds,
        message.device or "",
        message.subsystem or "",
    )


def parse_text(text: str) -> tuple[KernelLine, ...]:
    """Parse the lines of a text file: dmesg in any format, syslog in any language, the journal.

    Dates are not parsed: they have no time zone, often no year. `sequence` is the line's number.
    """
    lines: list[KernelLine] = []
    for number, whole in enumerate(text.split("\n"), start=1):
        if _FIELD.match(whole):
            continue
        if ENTRY.match(whole) and (entry := _entry(whole, number)) is not None:
            lines.append(entry)
            continue
        rest = whole[:TEXT_CHARACTERS].rstrip()
        if "\x1b" in rest:
            rest = _COLOUR.sub("", rest)
        told: dict[str, str] = {}
        quoted = _QUOTED.match(rest)
        start = begin = quoted.end() if quoted else 0
        for prefix in _PREFIXES:
            found = prefix.match(rest, start)
            if found is not None:
                told |= {name: value for name, value in found.groupdict().items() if value}
                start = found.end()
                while rest[start : start + 1] == " ":
                    start += 1
        if rest[start:].strip():
            priority = int(told["priority"]) if "priority" in told else None
            level = told.get("level", "").removesuffix("ing")  # 'warning'
            if level in _LEVELS:
                priority = _LEVELS.index(level)
            facility = 0 if priority is None else priority >> 3
            seconds = float(told["seconds"]) if "seconds" in told else None
            if recorded := "microseconds" in told:
                seconds = int(told["microseconds"]) / 1e6
            if told.get("facility", "kern") != "kern" or _PROGRAM.match(rest, begin):
                facility = facility or _USER
            lines.append(
                KernelLine(
                    _plain(rest[start:].encode(errors="replace"))
                    if recorded
                    else rest[start:].strip(),
                    None if priority is None else priority & 7,
                    facility,
                    seconds,
                    sequence=number,
                )
            )
    return tuple(lines)


def _entry(line: str, number: int) -> KernelLine | None:
    """Parse a line of 'journalctl --output=json'; None: it is none of these.

    A text that is not UTF-8 is a list of bytes there; of a repeated field the last value counts.
    Source: systemd, journal-export-formats; systemd.journal-fields(7).
    """
    try:
        entry = json.loads(line.strip("\x1e"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or entry.get("MESSAGE") is None:
        return None

    def word(name: str) -> str:
        value = entry.get(name)
        if isinstance(value, list) and value and not isinstance(value[0], int):
            value = value[-1]
        if isinstance(value, list):
            value = bytes(byte & 0xFF for byte in value if isinstance(byte, int)).decode(
                errors="replace"
            )
        return value if isinstance(value, str) else ""

    def count(name: str) -> int | None:
        digits = word(name)
        return int(digits) if _DIGITS.fullmatch(digits) else None

    priority, kernel_time, wall_time = (
        count(name) for name in ("PRIORITY", "_SOURCE_MONOTONIC_TIMESTAMP", "__REALTIME_TIMESTAMP")
    )
    return KernelLine(
        word("MESSAGE")[:TEXT_CHARACTERS],
        priority if priority is not None and priority < len(_LEVELS) else None,
        0 if (word("_TRANSPORT") or word("SYSLOG_IDENTIFIER") or _KERNEL) == _KERNEL else _USER,
        None if kernel_time is None else kernel_time / 1e6,
        word("_BOOT_ID"),
        None if wall_time is None else wall_time / 1e6,
        word("_KERNEL_DEVICE"),
        word("_KERNEL_SUBSYSTEM"),
        sequence=number,
    )


def _plain(escaped: bytes) -> str:
    r"""Return text without its escapes: those by '\' and other unprintable characters."""
    if b"\\" in escaped:
        escaped = _ESCAPE.sub(lambda found: bytes((int(found[1], 16),)), escaped)
    return escaped.decode(errors="replace")
