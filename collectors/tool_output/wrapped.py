"""Lines that a mail program broke at its width: joined again, before anything parses them.

A program breaks a line before the first word that does not fit. So a line and the first word of
the next are together longer than the widest line of the text; and that next line is not indented.
Limits: only lines whose beginning is known as one that goes on: of a log, of smartd's mails, rows
of ssacli, tw_cli and zpool. The lines keep their numbers: where one was taken away, an empty one
is left.
"""

from __future__ import annotations

import re

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.tool_output.parsed import SIGNS, Tool

MAX_WIDTH = 80
"""A text with a longer line was not broken. Source: RFC 5322, 2.1.1."""
MAX_RESTS = 8
"""Maximum of lines that one was broken into, less the first."""
_MIN_LENGTH = 40
_BEGIN = lazy_pattern(
    r"(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d |\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d"
    r"|\[ {0,5}\d{1,10}\.\d{1,6}\] )|Device: /dev/|[ \t]+(?:physicaldrive|logicaldrive) "
    r"|Unit +UnitType +Status |[ \t]+\S{1,99} +(?:FAULTED|UNAVAIL|REMOVED|DEGRADED|ONLINE) ",
    re.ASCII,
)
_NEXT = lazy_pattern(
    r"[^\n]{0,80}[#$%>\u276f➜](?: |$)|-{5,}|={3,}|Personalities|unused devices|md\S{1,30} : "
)
"""A line that begins something else: a prompt, a rule, an array."""


def rejoined(text: str) -> str:
    """Return a text with its broken lines joined; each other line as it is."""
    lines = text.split("\n")
    width = max(map(len, lines))
    if width > MAX_WIDTH:
        return text
    at = 0
    while at + 1 < len(lines):
        begin = at
        at += 1
        if not _BEGIN.match(lines[begin]):
            continue
        last = lines[begin]
        end = min(at + MAX_RESTS, len(lines))
        while at < end and _goes_on(last, lines[at], width):
            last = lines[at]
            lines[begin] += f" {last}"
            lines[at] = ""
            at += 1
    return "\n".join(lines)


def _goes_on(line: str, below: str, width: int) -> bool:
    """Whether the line below is the rest of a line that was too long for the text's width."""
    if len(line) < _MIN_LENGTH or not below or below[0].isspace():
        return False
    if len(line) + 1 + len(below.split(maxsplit=1)[0]) <= width:
        return False
    if _BEGIN.match(below) or _NEXT.match(below):
        return False
    return not any(
        sign.match(below) for tool, sign in SIGNS.items() if tool is not Tool.DUMPE2FS
    )
