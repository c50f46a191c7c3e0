"""Excerpts of RAID controller tools' outputs, completed by the heads that a paste left out.

A user copies a table without its head, or 'grep' drops it: the parsers find no section then.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.parsed_text import SIGNS, Tool

if TYPE_CHECKING:
    from collections.abc import Mapping

STORCLI_BEGIN = lazy_pattern(
    r"^(?:CLI Version = .*\n(?:Operating system = .*\n)?)?(?:Controller = \d{1,3}\n)?"
    r"Status = \w{1,40}[ \t]*\nDescription = ",
    re.MULTILINE | re.ASCII,
)
"""Beginning of the answer of one controller."""


def completed(text: str, kind: Tool, commands: Mapping[int, str]) -> str:
    """Return a tool's text with the heads that its rows need. Errors: none.

    `commands` by the number of their line have the number of a controller or drive.
    """
    if kind is Tool.STORCLI:
        text = _with_heads(text, commands)
    if kind is not Tool.SAS2IRCU or _DISPLAY_ROW.search(text):
        text = _with_sections(text, _SECTIONS.get(kind, {}))
    if kind is Tool.MEGACLI and "Enclosure Device ID" not in text:
        text = _SLOT.sub(r"Enclosure Device ID: N/A\n\g<0>", text)
    if kind is Tool.MEGACLI and not _VIRTUAL_DRIVE.search(text):
        text = _with_drives(text, commands)
    if kind is Tool.SSACLI and SIGNS[kind].search(text) and not _SSACLI_HEAD.search(text):
        text = f"Smart Array in Slot unknown\n{text}"
    return text


def _with_heads(text: str, commands: Mapping[int, str]) -> str:
    """Return storcli's tables with the head of an answer, where a paste left that out."""
    if '"Controllers"' in text:
        return text
    lines = text.split("\n")
    begins = sorted({0, *(at for at in commands if 0 < at < len(lines))})
    parts: list[str] = []
    for begin, end in itertools.pairwise([*begins, len(lines)]):
        part = "\n".join(lines[begin:end])
        number = _CONTROLLER.search(commands.get(begin, ""))
        if _TABLE_HEAD.search(part) and not STORCLI_BEGIN.search(part):
            head = f"Controller = {number[1] if number else 0}\nStatus = Success\nDescription = -\n"
            part = f"{head}\n{part}"
        parts.append(part)
    return "\n".join(parts)


def _with_sections(text: str, sections: Mapping[str, re.Pattern[str]]) -> str:
    """Return rows of a tool with the head of their section, where a paste left that out."""
    for head, row in sections.items():
        found = row.search(text)
        if found is not None and head.strip("-\n").casefold() not in text.casefold():
            text = f"{text[: found.start()]}{head}\n{text[found.start() :]}"
    return text


_TITLE = "{0:-<72}\n{{}}\n{0:-<72}".format("")
_SECTIONS: Mapping[Tool, Mapping[str, re.Pattern[str]]] = {
    tool: {
        head: lazy_pattern(f"^[ \\t]*{row}", re.MULTILINE | re.ASCII) for head, row in rows.items()
    }
    for tool, rows in {
        Tool.ARCCONF: {
            "Logical device information": r"Logical [Dd](?:evice|rive) number \d",
            "Physical Device information": r"Device #\d{1,4}[ \t]*$",
        },
        Tool.MEGACLI: {"BBU status for Adapter: 0": r"Battery State[ \t]*:"},
        Tool.SAS2IRCU: {
            # From the bottom up: each is put in front of those that are there.
            _TITLE.format("Physical device information"): r"(?:Device is a |SAS[23]IRCU: |\Z)",
            _TITLE.format("IR Volume information"): r"(?:IR volume \d|-+\nPhysical device inf)",
            _TITLE.format("Controller information"): r"-+\nIR Volume information",
        },
    }.items()
}
"""By tool: the head of a section, and the first row below it."""
_DISPLAY_ROW = lazy_pattern(r"^[ \t]*(?:Status of volume[ \t]*:|Device is a )", re.MULTILINE)
_SLOT = lazy_pattern(r"^Slot Number: ", re.MULTILINE)
_SSACLI_HEAD = lazy_pattern(r" in (?:Chassis )?Slot \w|Another instance|^ *Error", re.MULTILINE)
_CONTROLLER = lazy_pattern(r"/c(\d{1,3})\b", re.ASCII)
_TABLE_HEAD = lazy_pattern(r"^[ \t]*(?:EID:Sl|DG/VD[ \t]|DG[ \t]+Arr[ \t])", re.MULTILINE)


def _with_drives(text: str, commands: Mapping[int, str]) -> str:
    """Return MegaCli's states and cache policies with the head of their drive, which grep left out.

    It is the drive of the command's '-L0', else they are counted.
    """
    named = next((at for each in commands.values() if (at := _OF_DRIVE.search(each))), None)
    numbers = itertools.count(int(named[1]) if named else 0)
    return _DRIVE_ROWS.sub(
        lambda rows: f"Virtual Drive: {(at := next(numbers))} (Target Id: {at})\n{rows[0]}", text
    )


_VIRTUAL_DRIVE = lazy_pattern(r"Virtual (?:Drive|Disk): \d", re.IGNORECASE)
_OF_DRIVE = lazy_pattern(r" -L(\d{1,3})\b", re.ASCII)
_DRIVE_ROWS = lazy_pattern(
    r"^State[ \t]*:.*\n(?:(?:Default|Current|Disk) Cache Policy[ \t]*:.*\n?)+", re.MULTILINE
)
