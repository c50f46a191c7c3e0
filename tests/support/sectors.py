"""Where a sector of an array or of a btrfs chunk lies: what the way back is held against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iowarden.rules.topology.btrfs_chunks import WHOLE, data_stripes, stripe_length
from iowarden.rules.topology.md_levels import ArrayLayout, copies, data_disks, stripe
from iowarden.rules.topology.sector_map import LayoutError

if TYPE_CHECKING:
    from iowarden.collectors.filesystem.btrfs_owner import BtrfsChunk, Stripe


@dataclass(frozen=True, slots=True)
class Position:
    """A sector of a member. Of a copy, any one of several."""

    slot: int
    sector: int


def forward(known: ArrayLayout, sector: int) -> tuple[Position, ...]:
    """Return where a sector of the array lies, each copy. Errors: LayoutError, beyond its end."""
    if not 0 <= sector < known.sectors:
        raise LayoutError(f"{known.name}: expected a sector below {known.sectors}, got {sector}")
    return tuple(Position(slot, known.offsets[slot] + own) for slot, own in copies(known, sector))


def parity(known: ArrayLayout, sector: int) -> tuple[Position, ...]:
    """Return where the parity is that covers a sector of the array: P, and Q of a raid6."""
    if known.level not in {"raid4", "raid5", "raid6"}:
        return ()
    number, inside = divmod(sector, known.chunk)
    row, _ = divmod(number, data_disks(known))
    redundant, _ = stripe(known, row)
    own = row * known.chunk + inside
    return tuple(Position(slot, known.offsets[slot] + own) for slot in redundant)


def btrfs_forward(chunk: BtrfsChunk, address: int) -> list[tuple[Stripe, int]]:
    """Return where an address of a chunk lies: the stripes that hold it, and the devices' bytes."""
    stripe_length(chunk)
    inside = address - chunk.start
    if chunk.profile in WHOLE:
        return [(each, each.offset + inside) for each in chunk.stripes]
    piece, within = divmod(inside, chunk.stripe_bytes)
    row, turn = divmod(piece, data_stripes(chunk))
    at = row * chunk.stripe_bytes + within
    count = len(chunk.stripes)
    if chunk.profile == "RAID10":
        numbers = list(range(turn * chunk.copies, (turn + 1) * chunk.copies))
    else:
        numbers = [turn if chunk.profile == "RAID0" else (row + turn) % count]
    return [(chunk.stripes[number], chunk.stripes[number].offset + at) for number in numbers]
