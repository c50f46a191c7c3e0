"""Entries of a log that have a line for each field, as one line each: parsers of logs read those.

'journalctl --output=json-pretty', '--output=verbose' and '--output=export', and 'dmesg --json'.
Source: systemd, src/shared/logs-show.c, output_verbose, output_export, output_json; util-linux,
sys-utils/dmesg.c, print_record. The lines keep their numbers: an entry stands in its first one, the
others are empty.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from iowarden.collectors import json_text
from iowarden.collectors.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_OPEN = lazy_pattern(r"\x1e?[ \t]*(?:\[[ \t]*)?\{[ \t]*")
_CLOSED = lazy_pattern(r"[ \t]*\},?[ \t]*(?:\][ \t]*)?")
_MESSAGE = lazy_pattern(r"[ \t]*\"(?:MESSAGE|msg)\" ?: ?")
_AROUND = lazy_pattern(r"[ \t]*(?:\"dmesg\" ?: ?\[|[\]}],?|\[)[ \t]*")
"""Lines around the records of 'dmesg --json'."""
_VERBOSE = lazy_pattern(
    r"\w{2,6}\.? \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S* \S{1,8} \[s=[0-9a-f]{1,32};.*"
)
_EXPORT = lazy_pattern(r"__CURSOR=s=[0-9a-f]{1,32};.*")
_FIELD = lazy_pattern(r"[ \t]*(?P<name>_{0,2}[A-Z][A-Z0-9_]{0,63})=(?P<value>.*)")
_LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")


def one_line_entries(text: str) -> str:
    """Return a text in which each entry of a log is one line; a text without such as it is.

    Linear in the length of the text. An entry that is cut becomes one line that is no valid JSON:
    the parser of the log reports it.
    """
    lines = text.split("\n")
    if any(_MESSAGE.match(line) for line in lines):
        return "\n".join(_objects(lines))
    if any(_VERBOSE.fullmatch(line) or _EXPORT.fullmatch(line) for line in lines):
        return "\n".join(_fields(lines))
    return text


def _objects(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines with each object that has a message in its first line."""
    begin: int | None = None
    rows = list(lines)
    for at, line in enumerate(lines):
        if _OPEN.fullmatch(line):
            if begin is not None:
                _take(rows, lines, begin, at)
            begin = at
        elif begin is not None and _CLOSED.fullmatch(line):
            _take(rows, lines, begin, at + 1)
            begin = None
    if begin is not None:
        _take(rows, lines, begin, len(lines))
    return iter("" if _AROUND.fullmatch(line) else line for line in rows)


def _take(rows: list[str], lines: Sequence[str], begin: int, end: int) -> None:
    """Put the object in these lines into the first of them."""
    block = lines[begin:end]
    if any(_MESSAGE.match(line) for line in block):
        rows[begin:end] = [_entry("".join(block)), *[""] * (end - begin - 1)]
    elif '"dmesg"' in "".join(block):
        rows[begin:end] = [""] * (end - begin)


def _entry(block: str) -> str:
    piece = block.strip("\x1e \t,[]")
    try:
        entry = {} if json_text.is_deep(piece) else json.loads(piece)
    except (ValueError, RecursionError):
        return '{"MESSAGE" : ' + piece
    if "msg" not in entry:
        return json.dumps(entry)
    level = str(entry.get("pri", ""))
    number = (
        _LEVELS.index(level) if level in _LEVELS else int(level) & 7 if level.isdecimal() else ""
    )
    lead = "" if number == "" else f"<{number}>"
    return f"{lead}[{entry.get('time', 0.0)}] {entry['msg']}"


def _fields(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines with each entry of 'KEY=value' lines as JSON in its first one."""
    entry: dict[str, str] | None = None
    rows = list(lines)
    begin = 0
    for at, line in enumerate([*lines, "__CURSOR=s=0;"]):
        if _VERBOSE.fullmatch(line) or _EXPORT.fullmatch(line):
            if entry is not None:
                rows[begin:at] = [json.dumps(entry), *[""] * (at - begin - 1)]
            entry, begin = {}, at
        elif entry is not None and (field := _FIELD.fullmatch(line)):
            entry.setdefault(field["name"], field["value"].rstrip())
    return iter(rows)
