"""State between lines of the kernel log: what earlier lines mean for the next; one-line messages.

Some messages span several lines: the sense of a SCSI command, the registers of an ATA one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.kernel.oom_kill import OomReport
from iowarden.collectors.kmsg.kernel_line import KernelLine
from iowarden.collectors.kmsg.kernel_patterns import KindAndFields, shape
from iowarden.collectors.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from iowarden.collectors.event import StorageEvent

NO_DEVICE = lazy_pattern(r"(?:fd|sr|scd|ram)[0-9]", re.ASCII)
MAX_PORTS = 256
TEXT_CHARACTERS = 1024
"""Maximum characters of a line that are parsed, and stored in its event."""
_NEXT_OF_FULL = "This should not happen!!"
"""Begins the line after that of an error code. Source: fs/ext4/inode.c, mpage_map_and_submit_extent
(Linux 3.11 to 6.12).
"""
SAME_PRINT_SECONDS = 1.0
"""Lines of one message are printed within microseconds, over a serial line within a second."""


class ScsiCommand(NamedTuple):
    """Data of a failed command from the last lines."""

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
    """State from lines already parsed; begin with Classifier().

    A named tuple: a storm replaces it with each line, which takes a dataclass 5 times as long.
    """

    scsi: ScsiCommand = ScsiCommand()
    ata_device: str = ""
    ata_troubled: frozenset[str] = frozenset()
    """Ports under error handling."""
    ata_down: frozenset[str] = frozenset()
    """Links that are down, after an error."""
    removed: frozenset[str] = frozenset()
    """Devices that are being detached."""
    pending_sense: tuple[StorageEvent, ...] = ()
    """The sense of a command, until its last line identifies the command."""
    pending_command: tuple[str, str] = ("", "")
    """Device and tag of that command."""
    moment: float | None = None
    seen: tuple[tuple[str, int], ...] = ()
    """Events with the current time stamp, to number equal ones."""
    host_drivers: frozenset[str] = frozenset()
    """Names of the drivers of this machine's SCSI hosts (storage_drivers.host_drivers)."""
    storage_addresses: Mapping[str, str] = MappingProxyType({})
    """What is at or behind each PCI address (kernel_pci.storage_addresses)."""
    full: tuple[str, float | None] = ("", None)
    """The file system that last reported that it has no space, and when."""
    lack_of_memory: OomReport = OomReport()


Taken = tuple[Classifier, KindAndFields | None]
"""The state after a line, and the event in it: EXEMPT, if it is none on purpose; None: no pattern
took the line."""
LineReader = Callable[[Classifier, KernelLine, str], Taken]
"""Parser of the lines of one subsystem."""


def continues(scsi: ScsiCommand, line: KernelLine) -> bool:
    """Whether a line can belong to the lines before it."""
    if scsi.monotonic_seconds is None or line.monotonic_seconds is None:
        return True
    return abs(line.monotonic_seconds - scsi.monotonic_seconds) <= SAME_PRINT_SECONDS


def added(names: frozenset[str], name: str) -> frozenset[str]:
    """Return names with one added; if there are too many, the new one alone."""
    return names | {name} if len(names) < MAX_PORTS else frozenset({name})


def shaped(state: Classifier, line: KernelLine, text: str) -> Taken:
    """Parse a one-line message; and whether a write was lost for lack of space."""
    found = shape(text)
    if found is None:
        return state, None
    kind, fields = found
    drive = state.storage_addresses.get(fields.get("controller", ""), "")
    if drive.startswith("nvme"):  # 'nvme 0000:01:00.0: ...'
        fields = {name: value for name, value in fields.items() if name != "controller"}
        found = kind, fields | {"device": drive}
    device, moment = fields.get("device", ""), line.monotonic_seconds
    if kind == "fs_no_space":
        return state._replace(full=(device, moment)), found
    if kind == "lost_write" and _NEXT_OF_FULL in text and state.full[0] == device != "":
        last = state.full[1]
        if last is None or moment is None or moment - last <= SAME_PRINT_SECONDS:
            return state, ("fs_no_space", fields)
    return state, found
