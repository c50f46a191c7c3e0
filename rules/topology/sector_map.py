"""Maps ranges of sectors to the level above: data, parity, reserved. Pure.

Units: sectors of 512 bytes. Only data reported by the kernel are used. An array that is being
reshaped, or with a value missing, is a LayoutError with the reason: a file is never named by a
guessed layout.
"""

from __future__ import annotations

import enum
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_PIECES = 65_536
"""Of one range: 32 MiB in the smallest chunks."""
MAX_DISKS = 4096
"""Source: mdadm.h, MAX_DISKS."""


class LayoutError(ValueError):
    """The layout cannot be determined; the text has the reason."""


class Use(enum.StrEnum):
    """Use of a range of sectors at the level above."""

    DATA = "data"
    PARITY = "parity"
    RESERVED = "reserved"
    """Superblock, write-intent bitmap, bad block list, log: what precedes the data."""
    UNUSED = "unused"


@dataclass(frozen=True, slots=True)
class SectorRun:
    """A range of sectors and its position one level up: from `above` on, for DATA only."""

    start: int
    count: int
    use: Use
    above: int | None = None

    @property
    def end(self) -> int:
        """The first sector after it."""
        return self.start + self.count


def overlap(start: int, count: int, first: int, sectors: int) -> tuple[int, int] | None:
    """Return the intersection of two ranges as start and count, or None."""
    low, high = max(start, first), min(start + count, first + sectors)
    return (low, high - low) if low < high else None


def gaps(start: int, count: int, parts: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the parts of a range that no (start, count) of `parts` contains."""
    found = []
    at = start
    for first, sectors in sorted(parts):
        if first > at:
            found.append((at, min(first, start + count) - at))
        at = max(at, first + sectors)
        if at >= start + count:
            return found
    found.append((at, start + count - at))
    return found


def add(pieces: list[SectorRun], piece: SectorRun) -> None:
    """Add a piece; merge it with the last one if it continues that."""
    last = pieces[-1] if pieces and pieces[-1].use is piece.use else None
    if last and (last.above is None or last.above + last.count == piece.above):
        pieces[-1] = replace(last, count=last.count + piece.count)
    else:
        pieces.append(piece)
