"""The outputs of 'cli64' in a text: of one command, or of a session with banner, menu and prompts.

Source: published sessions of the tool, versions of 2004 to 2020. Old ones end an output with a rule
of '=' alone; newer ones with 'GuiErrMsg<0x00>: Success.' below it.
Limits: an output is recognized by its heading, or by rows that no other output has: an event begins
with a date, an attribute ends with its state.
"""

from __future__ import annotations

import enum
import re
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

SUCCESS = "GuiErrMsg<0x00>: Success."


class Command(enum.StrEnum):
    """What an output answers."""

    RAID_SETS = "rsf info"
    VOLUMES = "vsf info"
    DISKS = "disk info"
    DETAIL = "disk info drv=N"
    SMART = "disk smart drv=N"
    HARDWARE = "hw info"
    SYSTEM = "sys info"
    EVENTS = "event info"
    MENU = ""
    """Banner, list of controllers, list of commands."""


HEADINGS = {
    Command.RAID_SETS: r"(?:#|Num)\s+Name\s+Disks\b.*",
    Command.VOLUMES: r"#\s+Name\s+Raid(?: ?Name|#).*",
    Command.DISKS: r"(?:Ch|#(?:\s+Ch#|\s+Enc#\s+Slot#)?)\s+ModelName\b.*",
    Command.DETAIL: r"(?:Drive|Disk|Device) Information\b.*|(?:IDE Channel|Model Name)\s*:.*",
    Command.SMART: r"S\.?M\.?A\.?R\.?T\.? Information For Drive.*|#\s+Attribute\s+Items\b.*",
    Command.HARDWARE: r"(?:The )?Hardware Monitor Information\b.*",
    Command.SYSTEM: r"(?:The )?System Information\b.*|Main Processor\s*:.*",
    Command.EVENTS: r"(?:Date-Time|Time)\s+Device\s+Event\b.*"
    r"|\d{4}-\d{1,2}-\d{1,2}\s{1,9}\d{1,2}:\d{1,2}:\d{1,2}(?:\s.*)?",
    Command.MENU: r"Copyright \(c\).*Areca.*|Areca CLI, Version.*|Controllers List"
    r"|(?:CMD|Sub-?Command|Function)\s+Description",
}
_HEADING = lazy_pattern(
    "|".join(f"(?P<{command.name}>{pattern})" for command, pattern in HEADINGS.items()),
    re.IGNORECASE | re.ASCII,
)
SMART_ROW = (
    r"\d{1,3} [^:]{1,80} (?:0x[0-9a-fA-F]{1,4} \d{1,3} \d{1,3}|\d{1,3} \d{1,3} \d{1,3} \d{1,20})"
    r" [A-Za-z]{2,10}"
)
"""A row of 'disk smart', its blanks squeezed."""
_SMART_ROW = lazy_pattern(SMART_ROW, re.ASCII)
_PROMPT = lazy_pattern(
    r"(?:CLI>\s?)+(?P<typed>.*)"
    r"|[^\s:]{0,80}[#$>%] ?(?:sudo )?(?:[\w./-]{0,80}/)?(?:cli(?:32|64)|areca(?:-cli)?)"
    r"(?P<run>\b.*)",
    re.IGNORECASE | re.ASCII,
)
_END = lazy_pattern(r".*(?:GuiErrMsg<0x|ErrMsg:).*", re.IGNORECASE)
_RULE = lazy_pattern(r"[=-]{10,}")
_CONTROLLER = lazy_pattern(r"\b(?:cur)?ctrl=\s?(\d{1,2})\b", re.IGNORECASE | re.ASCII)
_CURRENT = lazy_pattern(r"Current Controller\s?: Controller#0*(\d{1,2}).*", re.ASCII)


@dataclass(slots=True)
class Output:
    """An output, or lines of none.

    Fields: `command` is None for lines that belong to no output; `lines` are as printed, the first
    of them is number `first` of the text, from 1; `controller` is the selected one, from 1;
    `complete`: the program printed its end, or went on to something else; `is_cut`: the text ends
    within its last line, or may do so.
    """

    command: Command | None
    first: int
    controller: int
    lines: list[str] = field(default_factory=list)
    complete: bool = False
    rules: int = 0
    is_cut: bool = False

    @property
    def text(self) -> str:
        """Return its lines."""
        return "".join(f"{line}\n" for line in self.lines)


def outputs(text: str) -> Iterator[Output]:
    """Yield the outputs in a text, in order; prompts and rules alone are none. Errors: none."""
    current: Output | None = None
    controller = 1
    for number, line in enumerate(text.split("\n"), start=1):
        squeezed = " ".join(line.split())
        if chosen := _CURRENT.fullmatch(squeezed):
            controller = int(chosen[1])
        if prompt := _PROMPT.fullmatch(squeezed):
            if current is not None:
                current.complete = True
                yield current
            current = None
            if chosen := _CONTROLLER.search(prompt["typed"] or prompt["run"] or ""):
                controller = int(chosen[1])
            continue
        command = _begins(line.strip(), squeezed, current)
        if command is not None:
            if current is not None:
                current.complete = True
                yield current
            current = Output(command, number, controller)
        elif squeezed and (current is None or _is_over(current, squeezed)):
            if current is not None:
                yield current
            if _RULE.fullmatch(squeezed):
                current = None
                continue
            current = Output(None, number, controller)
        if current is None:
            continue
        current.lines.append(line)
        current.rules += _RULE.fullmatch(squeezed) is not None
        if _END.fullmatch(squeezed):
            current.complete = True
            yield current
            current = None
        elif _is_closed(current):
            current.complete = True
    if current is not None:
        current.is_cut = not text.endswith("\n")
        yield current


def _begins(line: str, squeezed: str, current: Output | None) -> Command | None:
    """Return the command whose output begins with a line; None: none begins there."""
    open_command = None if current is None else current.command
    if heading := _HEADING.fullmatch(line):
        command = Command[str(heading.lastgroup)]
        # A title and the header below it, and rows that begin like a heading, are one output.
        is_new = command is not open_command or (current is not None and _is_closed(current))
        repeated = command in {Command.DETAIL, Command.SYSTEM, Command.EVENTS, Command.MENU}
        return command if is_new and not (repeated and command is open_command) else None
    if open_command is None and _SMART_ROW.fullmatch(squeezed):
        return Command.SMART
    return None


_TWO_RULES = frozenset(
    {
        *(Command.RAID_SETS, Command.VOLUMES, Command.DISKS, Command.SMART, Command.HARDWARE),
        *(Command.SYSTEM, Command.DETAIL, Command.EVENTS),
    }
)
"""Outputs with a rule below their heading and one below their last row."""


def _is_closed(output: Output) -> bool:
    """Return whether the rule below the last row was printed."""
    titled = _HEADING.fullmatch(output.lines[0].strip()) is not None
    return output.command in _TWO_RULES and output.rules >= (2 if titled else 1)


def _is_over(output: Output, squeezed: str) -> bool:
    """Return whether a line no longer belongs to an output that its rule ended."""
    return _is_closed(output) and _END.fullmatch(squeezed) is None
