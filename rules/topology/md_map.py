"""Maps a sector of an md member to the sector of its array, and back. Pure.

Units: sectors of 512 bytes; a member's sector counts from the start of the member, including what
precedes the data. Only data reported by the kernel are used. An array that is being reshaped, or
with a value missing, is a LayoutError with the reason: a file is never named by a guessed layout.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.rules.topology.md_levels import (
    ArrayLayout,
    array_sector,
    copies,
    far_layout,
    run_length,
    stripe,
    zones_of,
)
from iowarden.rules.topology.sector_map import (
    MAX_DISKS,
    MAX_PIECES,
    LayoutError,
    SectorRun,
    Use,
    add,
)

if TYPE_CHECKING:
    from iowarden.collectors.md.md_layout import Geometry, MemberPlace

_RUNNING = frozenset({"clean", "active", "active-idle", "write-pending", "readonly", "read-auto"})
"""Values of array_state. Source: kernel, admin-guide/md.rst."""
_REDUNDANT_LEVELS = frozenset({"raid1", "raid10", "raid4", "raid5", "raid6"})
_LEVELS = _REDUNDANT_LEVELS | {"raid0", "linear"}
_OWN_METADATA = re.compile(r"0\.9\d|1\.[0-2]", re.ASCII)


def array(geometry: Geometry) -> ArrayLayout:
    """Return an array for calculations. Errors: LayoutError."""
    name, level = geometry.name, geometry.level
    if geometry.read_error:
        raise LayoutError(f"{name}: {geometry.read_error}")
    if level not in _LEVELS:
        raise LayoutError(f"{name}: the layout of level '{level}' is not supported")
    if geometry.state not in _RUNNING:
        raise LayoutError(f"{name} is '{geometry.state or 'in an unknown state'}': not running")
    if geometry.reshaping:
        raise LayoutError(
            f"{name} is being reshaped and has two layouts; try again when it is done"
        )
    if not _OWN_METADATA.fullmatch(geometry.metadata):
        raise LayoutError(
            f"{name} has metadata '{geometry.metadata or 'unknown'}', which md does not manage"
        )
    disks = geometry.raid_disks
    if disks is None or not 0 < disks <= MAX_DISKS:
        raise LayoutError(f"{name}: expected 1 to {MAX_DISKS} members, got {disks}")
    if not geometry.sectors:
        raise LayoutError(f"{name}: the kernel does not report its size")
    chunk = geometry.chunk_sectors or 0
    if level not in {"raid1", "linear"} and chunk < 1:
        raise LayoutError(f"{name}: the kernel does not report its chunk size")
    if level not in {"raid1", "linear", "raid4", "raid0"} and geometry.layout is None:
        raise LayoutError(f"{name}: the kernel does not report its layout")
    if level == "raid10" and not geometry.component_sectors:
        raise LayoutError(f"{name}: the kernel does not report how much of its members is used")
    offsets, sizes = _members(geometry, disks)
    known = ArrayLayout(
        name=name,
        level=level,
        disks=disks,
        chunk=chunk or 1,
        layout=geometry.layout or 0,
        sectors=geometry.sectors,
        component=geometry.component_sectors or 0,
        offsets=offsets,
        sizes=sizes,
    )
    if level in {"raid5", "raid6"}:
        stripe(known, 0)
    if level in {"raid4", "raid5", "raid6"} and disks < (4 if level == "raid6" else 2):
        raise LayoutError(f"{name}: the layout of {level} of {disks} members is not supported")
    if level == "raid10":
        far_layout(known)
    return replace(known, zones=zones_of(known)) if level in {"raid0", "linear"} else known


def redundant(geometry: Geometry) -> bool | None:
    """Whether an array can still reconstruct an unreadable sector; None: this level never can.

    Limits: of a raid10 that lost a member it is not checked whether that member had the copy.
    """
    if geometry.level not in _REDUNDANT_LEVELS:
        return None
    lost = geometry.degraded
    if lost is None or geometry.raid_disks is None:
        return False
    if geometry.level == "raid1":
        return geometry.raid_disks - lost >= 2
    return lost <= (1 if geometry.level == "raid6" else 0)


def reverse(known: ArrayLayout, slot: int, start: int, count: int) -> list[SectorRun]:
    """Return how sectors of a member map to its array, in order and without a gap.

    Errors: LayoutError.
    """
    if not 0 <= slot < known.disks:
        raise LayoutError(f"{known.name}: expected a slot below {known.disks}, got {slot}")
    pieces: list[SectorRun] = []
    at, end = start, start + count
    while at < end:
        own = at - known.offsets[slot]
        if own < 0:
            piece = SectorRun(at, min(end, known.offsets[slot]) - at, Use.RESERVED)
        else:
            run = min(end - at, run_length(known, slot, own))
            piece = _piece(known, slot, at, own, run)
        add(pieces, piece)
        at = piece.end
        if len(pieces) > MAX_PIECES:
            raise LayoutError(f"{known.name}: the range has more than {MAX_PIECES} pieces")
    return pieces


def _members(geometry: Geometry, disks: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return offset and size by slot; 0 and 0 for a slot without a member. Errors: LayoutError.

    A member and its replacement share a slot and have an offset each: the member's is used here.
    """
    offsets, sizes, seen = [0] * disks, [0] * disks, [False] * disks
    for member in sorted(geometry.members, key=_replaces):
        slot = member.slot
        if slot is None:
            continue
        if slot >= disks:
            raise LayoutError(f"{geometry.name}: {member.device} is in slot {slot} of {disks}")
        if seen[slot] and not _replaces(member):
            raise LayoutError(f"{geometry.name}: two members are in slot {slot}")
        offset, size = _extent(geometry, member)
        if not seen[slot]:
            offsets[slot], sizes[slot], seen[slot] = offset, size, True
    missing = [slot for slot in range(disks) if not seen[slot]]
    if missing and geometry.level in {"raid0", "linear"}:
        raise LayoutError(
            f"{geometry.name}: slot {missing[0]} has no member; its size is not known"
        )
    return tuple(offsets), tuple(sizes)


def of_member(geometry: Geometry, device: str) -> tuple[ArrayLayout, int]:
    """Return the array as seen by one member, and the member's slot. Errors: LayoutError."""
    member = next((each for each in geometry.members if each.device == device), None)
    if member is None:
        raise LayoutError(f"{geometry.name} does not list {device} among its members")
    if member.slot is None:
        raise LayoutError(
            f"{device} is no part of the data of {geometry.name}: its slot is"
            f" '{member.role or 'not reported'}'"
        )
    known = array(geometry)
    offsets, sizes = list(known.offsets), list(known.sizes)
    offsets[member.slot], sizes[member.slot] = _extent(geometry, member)
    return replace(known, offsets=tuple(offsets), sizes=tuple(sizes)), member.slot


def _replaces(member: MemberPlace) -> bool:
    return "replacement" in member.states


def _extent(geometry: Geometry, member: MemberPlace) -> tuple[int, int]:
    """Return where the data on a member begin, and how many sectors. Errors: LayoutError."""
    if member.offset_sectors is None or member.size_sectors is None:
        raise LayoutError(
            f"{geometry.name}: the kernel does not report where the data on {member.device} begin"
        )
    if member.new_offset_sectors not in {None, member.offset_sectors}:
        raise LayoutError(
            f"{geometry.name}: the data of {member.device} are being moved; try again when it is"
            " done"
        )
    return member.offset_sectors, member.size_sectors


def _piece(known: ArrayLayout, slot: int, at: int, own: int, run: int) -> SectorRun:
    above = array_sector(known, slot, own)
    if isinstance(above, Use):
        return SectorRun(at, run, above)
    if above >= known.sectors:
        return SectorRun(at, run, Use.UNUSED)
    # As in the kernel's compute_blocknr: a result that does not map back is rejected.
    if (slot, own) not in copies(known, above):
        raise LayoutError(
            f"{known.name}: sector {own} of slot {slot} and sector {above} of the array do not"
            " lead to each other; the layout is not understood"
        )
    return SectorRun(at, min(run, known.sectors - above), Use.DATA, above)
