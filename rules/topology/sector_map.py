"""Runs of sectors, and what each is to what lies above: data, parity, reserved. Pure.

Units: sectors of 512 bytes.
Only what the kernel told is used. An array that is being reshaped, or of which a number is missing,
is a LayoutError with the reason: a file is never named by a layout that was guessed.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_PIECES = 65_536
"""Of one range: 32 MiB in the smallest chunks."""
MOST_DISKS = 4096
"""Source: mdadm.h, MAX_DISKS."""


class LayoutError(ValueError):
    """It cannot be told what is where; the text says why."""


class Use(enum.StrEnum):
    """What a run of sectors is to what lies above."""

    DATA = "data"
    PARITY = "parity"
    RESERVED = "reserved"
    """Superblock, write-intent bitmap, list of bad blocks, log: what stands ahead of the data."""
    UNUSED = "unused"


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of sectors, and where it is one level up: from `above` on, for DATA alone."""

    start: int
    count: int
    use: Use
    above: int | None = None

    @property
    def end(self) -> int:
        """The first sector behind it."""
        return self.start + self.count


def overlap(start: int, count: int, first: int, sectors: int) -> tuple[int, int] | None:
    """Return where a range and another one meet, as start and count, or None."""
    low, high = max(start, first), min(start + count, first + sectors)
    return (low, high - low) if low < high else None


def gaps(start: int, count: int, covered: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the parts of a range that no (start, count) of `covered` covers."""
    found = []
    at = start
    for first, sectors in sorted(covered):
        if first > at:
            found.append((at, min(first, start + count) - at))
        at = max(at, first + sectors)
        if at >= start + count:
            return found
    found.append((at, start + count - at))
    return found


def add(pieces: list[Piece], piece: Piece) -> None:
    """Add a piece; one that goes on where the last one ended, becomes part of it."""
    last = pieces[-1] if pieces and pieces[-1].use is piece.use else None
    if last and (last.above is None or last.above + last.count == piece.above):
        pieces[-1] = replace(last, count=last.count + piece.count)
    else:
        pieces.append(piece)
