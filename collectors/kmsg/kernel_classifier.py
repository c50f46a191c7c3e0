"""What lines of the kernel's log already read mean for the next ones; lines that need no more.

One message is printed over several lines: the sense of a SCSI command, the registers of an ATA one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.kmsg.kernel_line import Line
from iowarden.collectors.kmsg.kernel_patterns import Found, shape

if TYPE_CHECKING:
    from iowarden.collectors.event import Event

NO_DEVICE = re.compile(r"(?:fd|sr|scd|ram)[0-9]", re.ASCII)
MOST_PORTS = 256
TEXT_CHARACTERS = 1024
"""Of a line that are read, and kept in its event."""
_NEXT_OF_FULL = "This should not happen!!"
"""Begins the line after that of an error code. Source: fs/ext4/inode.c, mpage_map_and_submit_extent
(Linux 3.11 to 6.12)."""
SAME_PRINT_SECONDS = 1.0
"""Lines of one message are printed within microseconds, over a serial line within a second."""


class ScsiCommand(NamedTuple):
    """What the last lines said of a command that failed."""

    device: str = ""
    place: str = ""
    tag: str = ""
    monotonic_seconds: float | None = None
    spinning_up: bool = False
    sense_key: int | None = None
    asc: int | None = None
    ascq: int | None = None
    block: int | None = None
    command: tuple[int, int] | None = None
    dump: bytes | None = None


class Classifier(NamedTuple):
    """What lines already read mean for the next ones; begin with Classifier().

    A named tuple: a storm replaces it with each line, which takes a dataclass 5 times as long.
    """

    scsi: ScsiCommand = ScsiCommand()
    ata_device: str = ""
    ata_troubled: frozenset[str] = frozenset()
    """Ports under error handling."""
    ata_down: frozenset[str] = frozenset()
    """Links that are down, after an error."""
    removed: frozenset[str] = frozenset()
    """Devices that the kernel is told to let go."""
    held: tuple[Event, ...] = ()
    """The sense of a command, until its last line tells which command it was."""
    held_of: tuple[str, str] = ("", "")
    """Device and tag of that command."""
    moment: float | None = None
    seen: tuple[tuple[str, int], ...] = ()
    """Events of this moment, so that equal ones are told apart."""
    full: tuple[str, float | None] = ("", None)
    """The file system that told last that it has no space, and when."""


Taken = tuple[Classifier, Found | None]
"""What is known after a line, and the event it tells."""
Taker = Callable[[Classifier, Line, str], Taken]
"""What reads the lines of one subsystem."""


def together(scsi: ScsiCommand, line: Line) -> bool:
    """Whether a line can belong to what was printed before."""
    if scsi.monotonic_seconds is None or line.monotonic_seconds is None:
        return True
    return abs(line.monotonic_seconds - scsi.monotonic_seconds) <= SAME_PRINT_SECONDS


def added(names: frozenset[str], name: str) -> frozenset[str]:
    """Return names with a further one; where they are too many, that alone."""
    return names | {name} if len(names) < MOST_PORTS else frozenset({name})


def shaped(state: Classifier, line: Line, text: str) -> Taken:
    """Read a line that tells all by itself; and whether a write was lost for want of space."""
    found = shape(text)
    if found is None:
        return state, None
    kind, fields = found
    device, moment = fields.get("device", ""), line.monotonic_seconds
    if kind == "fs_no_space":
        return state._replace(full=(device, moment)), found
    if kind == "lost_write" and _NEXT_OF_FULL in text and state.full[0] == device != "":
        last = state.full[1]
        if last is None or moment is None or moment - last <= SAME_PRINT_SECONDS:
            return state, ("fs_no_space", fields)
    return state, found
