"""Maps a byte of a device to a btrfs logical address, and back, through the chunks. Pure.

Source: kernel, fs/btrfs/volumes.c (btrfs_map_block and what it calls), volumes.h (BTRFS_STRIPE_LEN,
BTRFS_DEVICE_RANGE_RESERVED), disk-io.h (btrfs_sb_offset). Units: bytes. A chunk is a range of
addresses that lies on one or more devices in stripes. Of n stripes single, DUP, RAID1, RAID1C3,
RAID1C4: each holds all of it; RAID0: they alternate by `BtrfsChunk.stripe_bytes`; RAID10: groups of
`BtrfsChunk.copies` do, equal within a group; RAID5, RAID6: in row r the d-th piece of data is in
stripe (r + d) mod n, parity in those after it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.topology.sector_map import LayoutError, Use, gaps, overlap

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from iowarden.collectors.filesystem.btrfs_owner import BtrfsChunk

RESERVED_BYTES = 1 << 20
"""No chunk lies in this range at the start of each device."""
SUPERBLOCKS = (1 << 16, 1 << 26, 1 << 38)
SUPERBLOCK_BYTES = 4096
MAX_BYTES = 1 << 63
"""Size of a device if it is not known."""
MAX_PIECES = 65_536

_PARITY = {"RAID5": 1, "RAID6": 2}
WHOLE = frozenset({"single", "DUP", "RAID1", "RAID1C3", "RAID1C4"})


@dataclass(frozen=True, slots=True)
class BtrfsPiece:
    """Bytes of a device in one stripe of a chunk; `address` is None for parity."""

    start: int
    count: int
    chunk: BtrfsChunk
    stripe: int
    address: int | None


def fixed(start: int, count: int, size: int) -> list[tuple[int, int, Use, str]]:
    """Return which bytes of a device of `size` never belong to a chunk, and why.

    Without those in between. DATA: metadata, a superblock.
    """
    found = []
    for which, at in zip(("first", "second", "third"), SUPERBLOCKS, strict=True):
        met = overlap(start, count, at, SUPERBLOCK_BYTES)
        if met and at + SUPERBLOCK_BYTES < size:
            found.append((*met, Use.DATA, f"the {which} superblock of btrfs"))
    if met := overlap(start, count, 0, min(RESERVED_BYTES, size)):
        text = "the first MiB of a btrfs device, which is reserved for boot loaders"
        covered = [(first, length) for first, length, _, _ in found]
        found += [(*gap, Use.RESERVED, text) for gap in gaps(*met, covered) if gap[1]]
    if start + count > size:
        first = max(start, size)
        text = "after the end of the file system"
        found.append((first, start + count - first, Use.UNUSED, text))
    return sorted(found, key=lambda each: each[0])


def reverse(chunks: Iterable[BtrfsChunk], device: int, start: int, count: int) -> list[BtrfsPiece]:
    """Return how bytes of a device map to chunks, in its order; the rest is not allocated.

    Errors: LayoutError.
    """
    found: list[BtrfsPiece] = []
    for chunk in chunks:
        here = [number for number, each in enumerate(chunk.stripes) if each.device == device]
        if not here:
            continue
        length = stripe_length(chunk)
        for number in here:
            offset = chunk.stripes[number].offset
            if met := overlap(start, count, offset, length):
                found += _pieces(chunk, number, *met)
        if len(found) > MAX_PIECES:
            raise LayoutError(f"more than {MAX_PIECES} pieces; choose fewer sectors")
    found.sort(key=lambda piece: piece.start)
    for one, other in pairwise(found):
        if one.start + one.count > other.start:
            raise LayoutError(f"two chunks lie at byte {other.start} of the device: a damaged tree")
    return found


def _pieces(chunk: BtrfsChunk, number: int, start: int, count: int) -> Iterator[BtrfsPiece]:
    offset = chunk.stripes[number].offset
    if chunk.profile in WHOLE:
        yield BtrfsPiece(start, count, chunk, number, chunk.start + start - offset)
        return
    at = start
    while at < start + count:
        row, within = divmod(at - offset, chunk.stripe_bytes)
        size = min(chunk.stripe_bytes - within, start + count - at)
        turn = _turn(chunk, number, row)
        address = None
        if turn is not None:
            address = chunk.start + (row * data_stripes(chunk) + turn) * chunk.stripe_bytes + within
        yield BtrfsPiece(at, size, chunk, number, address)
        at += size


def _turn(chunk: BtrfsChunk, number: int, row: int) -> int | None:
    """Return the number of the data piece of a row in a stripe; None: parity."""
    if chunk.profile == "RAID10":
        return number // chunk.copies
    if chunk.profile == "RAID0":
        return number
    turn = (number - row) % len(chunk.stripes)
    return turn if turn < data_stripes(chunk) else None


def data_stripes(chunk: BtrfsChunk) -> int:
    """Return the number of data pieces in a row."""
    if chunk.profile in WHOLE:
        return 1
    count = len(chunk.stripes)
    return (
        count // chunk.copies
        if chunk.profile == "RAID10"
        else count - _PARITY.get(chunk.profile, 0)
    )


def stripe_length(chunk: BtrfsChunk) -> int:
    """Return the bytes of a device in one stripe of a chunk. Errors: LayoutError."""
    profile, count = chunk.profile, len(chunk.stripes)
    copies = {"single": 1, "DUP": 2, "RAID1": 2, "RAID1C3": 3, "RAID1C4": 4}
    good = count == copies.get(profile, count)
    if profile == "RAID10":
        good = chunk.copies > 0 and count % chunk.copies == 0
    elif profile in _PARITY:
        good = count > _PARITY[profile]
    if good and profile not in WHOLE:
        row = data_stripes(chunk) * chunk.stripe_bytes
        good = row > 0 and chunk.length % row == 0
    if not good:
        raise LayoutError(
            f"the chunk of btrfs at address {chunk.start}, {profile} of {chunk.length} bytes,"
            f" cannot be spread over {count} stripes by {chunk.stripe_bytes} bytes: a damaged tree"
        )
    return chunk.length // data_stripes(chunk)


def redundant(chunk: BtrfsChunk, number: int, present: Collection[int]) -> bool:
    """Whether the contents of one stripe can be reconstructed from others, on present devices."""
    count = len(chunk.stripes)
    others = [other for other in range(count) if other != number]
    there = [other for other in others if chunk.stripes[other].device in present]
    if chunk.profile in _PARITY:
        return len(others) - len(there) < _PARITY[chunk.profile]
    if chunk.profile == "RAID10":
        return any(other // chunk.copies == number // chunk.copies for other in there)
    return chunk.profile in WHOLE and bool(there)
