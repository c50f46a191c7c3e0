"""Swap areas, from '/proc/swaps'."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import KIB, ParseError

if TYPE_CHECKING:
    from iowarden.collectors.machine import Machine

PATH = "/proc/swaps"
_AREA = lazy_pattern(r"(\S+)\s+(partition|file)\s+(\d{1,15})\s+(\d{1,15})\s+-?\d{1,10}", re.ASCII)
_ESCAPE = lazy_pattern(r"\\([0-7]{3})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Swap:
    """One swap area: a block device ('/dev/sda2'), or a file ('/swapfile').

    Source: proc_swaps(5); kernel, mm/swapfile.c, swap_show: sizes are in KiB, names without blanks,
    which are octal escapes; 'partition' is any block device.
    """

    path: str
    block: bool
    size_bytes: int
    used_bytes: int


def parse_swaps(text: str) -> tuple[Swap, ...]:
    """Parse the swap areas, in the order of the text; none without swap."""
    heading, *lines = text.split("\n")
    if not heading.startswith("Filename"):
        raise ParseError(f"'{PATH}': expected 'Filename ...', got {text[:80]!r}")
    areas = []
    for line in filter(str.strip, lines):
        row = _AREA.fullmatch(line.strip())
        if row is None:
            raise ParseError(
                f"'{PATH}': expected '<name> partition|file <size> <used> <priority>',"
                f" got {line[:80]!r}"
            )
        path = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), row[1])
        areas.append(Swap(path, row[2] == "partition", int(row[3]) * KIB, int(row[4]) * KIB))
    return tuple(areas)


def read_swaps(root: Machine) -> tuple[Swap, ...]:
    """Read the swap areas. Errors: AbsentError (no swap), ReadError, ParseError."""
    return parse_swaps(root.read(PATH))
