"""From a sector of a disk to the sector of what is made of it, and back: partitions, md, dm. Pure.

Sources, by formula: drivers/md/raid5.c raid5_compute_sector, raid10.c __raid10_find_phys and
raid10_find_virt, raid0.c create_strip_zones and map_sector, md-linear.c, dm-stripe.c
stripe_map_sector, dm-linear.c, dm-crypt.c, dm-mpath.c; raid5.h for the numbers of layouts.
Units: sectors of 512 bytes; a member's sector counts from the member's first one, with whatever
stands ahead of the data.

Only what the kernel told is used. An array that is being reshaped, or of which a number is missing,
is a LayoutError with the reason: a file is never named by a layout that was guessed.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iowarden.collectors.block.dm_table import Target
    from iowarden.collectors.md.md_layout import Geometry, Place

MOST_PIECES = 65_536
"""Of one range: 32 MiB in the smallest chunks."""
MOST_DISKS = 4096
"""Source: mdadm.h, MAX_DISKS."""

_RUNNING = frozenset({"clean", "active", "active-idle", "write-pending", "readonly", "read-auto"})
"""Of array_state. Source: kernel, admin-guide/md.rst."""
_KEEPS_COPIES = frozenset({"raid1", "raid10", "raid4", "raid5", "raid6"})
_LEVELS = _KEEPS_COPIES | {"raid0", "linear"}
_OWN_METADATA = re.compile(r"0\.9\d|1\.[0-2]", re.ASCII)


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


@dataclass(frozen=True, slots=True)
class Position:
    """A sector of a member. Of a copy, any one of several."""

    slot: int
    sector: int


@dataclass(frozen=True, slots=True)
class Zone:
    """A part of a raid0 whose chunks go round the same members. Units: `end` is of the array."""

    start: int
    end: int
    member_start: int
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """An array of which everything is known. `offsets` and `sizes` are the members' by slot.

    Fields: `chunk` is 1 where the level has none; `component` is what is used of each member.
    """

    name: str
    level: str
    disks: int
    chunk: int
    layout: int
    sectors: int
    component: int
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    zones: tuple[Zone, ...] = field(default=(), repr=False)


def array(geometry: Geometry) -> Array:
    """Return an array to calculate with. Errors: LayoutError."""
    name, level = geometry.name, geometry.level
    if geometry.unread:
        raise LayoutError(f"{name}: {geometry.unread}")
    if level not in _LEVELS:
        raise LayoutError(f"{name}: level '{level}' is none whose layout is known")
    if geometry.state not in _RUNNING:
        raise LayoutError(f"{name} is '{geometry.state or 'in an unknown state'}': not running")
    if geometry.reshaping:
        raise LayoutError(
            f"{name} is being reshaped: two layouts hold at once; ask when it is done"
        )
    if not _OWN_METADATA.fullmatch(geometry.metadata):
        raise LayoutError(
            f"{name} has metadata '{geometry.metadata or 'unknown'}', which md does not keep"
        )
    disks = geometry.raid_disks
    if disks is None or not 0 < disks <= MOST_DISKS:
        raise LayoutError(f"{name}: expected 1 to {MOST_DISKS} members, got {disks}")
    if not geometry.sectors:
        raise LayoutError(f"{name}: the kernel does not tell its size")
    chunk = geometry.chunk_sectors or 0
    if level not in {"raid1", "linear"} and chunk < 1:
        raise LayoutError(f"{name}: the kernel does not tell its chunk size")
    if level not in {"raid1", "linear", "raid4", "raid0"} and geometry.layout is None:
        raise LayoutError(f"{name}: the kernel does not tell its layout")
    if level == "raid10" and not geometry.component_sectors:
        raise LayoutError(f"{name}: the kernel does not tell how much of its members is used")
    offsets, sizes = _members(geometry, disks)
    known = Array(
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
        _stripe(known, 0)
    if level in {"raid4", "raid5", "raid6"} and disks < (4 if level == "raid6" else 2):
        raise LayoutError(f"{name}: {level} of {disks} members is none whose layout is known")
    if level == "raid10":
        _far(known)
    return replace(known, zones=_zones(known)) if level in {"raid0", "linear"} else known


def redundant(geometry: Geometry) -> bool | None:
    """Whether an array can still tell what one unreadable sector held; None: it never can.

    Limits: of a raid10 that lost a member it is not asked whose copy that was.
    """
    if geometry.level not in _KEEPS_COPIES:
        return None
    lost = geometry.degraded
    if lost is None or geometry.raid_disks is None:
        return False
    if geometry.level == "raid1":
        return geometry.raid_disks - lost >= 2
    return lost <= (1 if geometry.level == "raid6" else 0)


def forward(known: Array, sector: int) -> tuple[Position, ...]:
    """Return where a sector of the array lies, each copy. Errors: LayoutError, beyond its end."""
    if not 0 <= sector < known.sectors:
        raise LayoutError(f"{known.name}: expected a sector below {known.sectors}, got {sector}")
    return tuple(Position(slot, known.offsets[slot] + own) for slot, own in _forward(known, sector))


def parity(known: Array, sector: int) -> tuple[Position, ...]:
    """Return where the parity is that covers a sector of the array: P, and Q of a raid6."""
    if known.level not in {"raid4", "raid5", "raid6"}:
        return ()
    number, inside = divmod(sector, known.chunk)
    row, _ = divmod(number, _data_disks(known))
    redundant, _ = _stripe(known, row)
    own = row * known.chunk + inside
    return tuple(Position(slot, known.offsets[slot] + own) for slot in redundant)


def reverse(known: Array, slot: int, start: int, count: int) -> list[Piece]:
    """Return what so many sectors of a member are to its array, in order and without a gap.

    Errors: LayoutError.
    """
    if not 0 <= slot < known.disks:
        raise LayoutError(f"{known.name}: expected a slot below {known.disks}, got {slot}")
    pieces: list[Piece] = []
    at, end = start, start + count
    while at < end:
        own = at - known.offsets[slot]
        if own < 0:
            piece = Piece(at, min(end, known.offsets[slot]) - at, Use.RESERVED)
        else:
            run = min(end - at, _run(known, slot, own))
            piece = _piece(known, slot, at, own, run)
        _add(pieces, piece)
        at = piece.end
        if len(pieces) > MOST_PIECES:
            raise LayoutError(f"{known.name}: the range has more than {MOST_PIECES} pieces")
    return pieces


def through_table(
    targets: Iterable[Target], number: str, start: int, count: int
) -> tuple[list[Piece], list[str]]:
    """Return what sectors of the device `number` ('8:17') are to a device-mapper device.

    Only pieces that it maps, in the order of its table; and the kinds of targets that use the
    device in a way that is not known here ('thin-pool', 'raid', 'cache' ...).
    Errors: LayoutError, for a target that contradicts itself.
    """
    pieces: list[Piece] = []
    unknown: list[str] = []
    for target in targets:
        if number not in target.devices:
            continue
        read = _TARGETS.get(target.kind)
        if read is None:
            unknown.append(target.kind)
            continue
        pieces += read(target, number, start, start + count)
        if len(pieces) > MOST_PIECES:
            raise LayoutError(f"the range has more than {MOST_PIECES} pieces")
    return pieces, list(dict.fromkeys(unknown))


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


def _members(geometry: Geometry, disks: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return offset and size by slot; 0 and 0 for a slot whose member is gone. Errors: LayoutError.

    A member and its replacement share a slot, and have an offset each: here the member's counts.
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


def of_member(geometry: Geometry, device: str) -> tuple[Array, int]:
    """Return the array as a member of it sees it, and the member's slot. Errors: LayoutError."""
    member = next((each for each in geometry.members if each.device == device), None)
    if member is None:
        raise LayoutError(f"{geometry.name} does not list {device} among its members")
    if member.slot is None:
        raise LayoutError(
            f"{device} is no part of the data of {geometry.name}: its slot is"
            f" '{member.role or 'not told'}'"
        )
    known = array(geometry)
    offsets, sizes = list(known.offsets), list(known.sizes)
    offsets[member.slot], sizes[member.slot] = _extent(geometry, member)
    return replace(known, offsets=tuple(offsets), sizes=tuple(sizes)), member.slot


def _replaces(member: Place) -> bool:
    return "replacement" in member.states


def _extent(geometry: Geometry, member: Place) -> tuple[int, int]:
    """Return where the data on a member begin, and how many. Errors: LayoutError."""
    if member.offset_sectors is None or member.size_sectors is None:
        raise LayoutError(
            f"{geometry.name}: the kernel does not tell where the data on {member.device} begin"
        )
    if member.new_offset_sectors not in {None, member.offset_sectors}:
        raise LayoutError(
            f"{geometry.name}: the data of {member.device} are being moved; ask when it is done"
        )
    return member.offset_sectors, member.size_sectors


def _piece(known: Array, slot: int, at: int, own: int, run: int) -> Piece:
    above = _reverse(known, slot, own)
    if isinstance(above, Use):
        return Piece(at, run, above)
    if above >= known.sectors:
        return Piece(at, run, Use.UNUSED)
    # As the kernel's compute_blocknr does: what does not lead back again is no answer.
    if (slot, own) not in _forward(known, above):
        raise LayoutError(
            f"{known.name}: sector {own} of slot {slot} and sector {above} of the array do not"
            " lead to each other; the layout is not understood"
        )
    return Piece(at, min(run, known.sectors - above), Use.DATA, above)


def _add(pieces: list[Piece], piece: Piece) -> None:
    """Add a piece; one that goes on where the last one ended, becomes part of it."""
    if pieces and pieces[-1].use is piece.use:
        last = pieces[-1]
        goes_on = last.above is None or last.above + last.count == piece.above
        if goes_on:
            pieces[-1] = replace(last, count=last.count + piece.count)
            return
    pieces.append(piece)


# --- one sector; `own` is a member's sector, counted from where its data begin


def _forward(known: Array, sector: int) -> list[tuple[int, int]]:
    match known.level:
        case "raid1":
            return [(slot, sector) for slot in range(known.disks)]
        case "raid0" | "linear":
            return [_raid0_forward(known, sector)]
        case "raid10":
            return _raid10_forward(known, sector)
    number, inside = divmod(sector, known.chunk)
    row, data = divmod(number, _data_disks(known))
    _, slots = _stripe(known, row)
    return [(slots[data], row * known.chunk + inside)]


def _reverse(known: Array, slot: int, own: int) -> int | Use:
    match known.level:
        case "raid1":
            return own
        case "raid0" | "linear":
            return _raid0_reverse(known, slot, own)
        case "raid10":
            return _raid10_reverse(known, slot, own)
    row, inside = divmod(own, known.chunk)
    data = _data_disks(known)
    if row * data * known.chunk >= known.sectors:
        return Use.UNUSED
    redundant, slots = _stripe(known, row)
    if slot in redundant:
        return Use.PARITY
    return (row * data + slots.index(slot)) * known.chunk + inside


def _run(known: Array, slot: int, own: int) -> int:
    """Return how many sectors from here on are one run: at most to the end of chunk, copy, zone."""
    if known.level == "raid1":
        return max(known.sectors - own, 0) or MOST_PIECES * known.chunk
    if known.level == "linear":
        rest = known.zones[slot].end - known.zones[slot].start - own
        return rest if rest > 0 else MOST_PIECES
    return known.chunk - own % known.chunk


# --- raid0 and linear


def _zones(known: Array) -> tuple[Zone, ...]:
    """Return the zones: of a linear array one for each member. Errors: LayoutError.

    Source: raid0.c, create_strip_zones: members are taken in whole chunks; each zone ends where its
    smallest member does, and the next goes on without it. md-linear.c: the same, one after another.
    """
    sizes = [size // known.chunk * known.chunk for size in known.sizes]
    zones: list[Zone] = []
    start = 0
    if known.level == "linear":
        for slot, size in enumerate(sizes):
            zones.append(Zone(start, start + size, 0, (slot,)))
            start += size
    else:
        member_start = 0
        for member_end in sorted(set(sizes)):
            slots = tuple(slot for slot in range(known.disks) if sizes[slot] > member_start)
            end = start + (member_end - member_start) * len(slots)
            if end > start:
                zones.append(Zone(start, end, member_start, slots))
            start, member_start = end, member_end
        if len(zones) > 1 and known.layout not in {1, 2}:
            raise LayoutError(
                f"{known.name}: its members differ in size, and the kernel does not tell whether it"
                " lays them out as before Linux 3.14 or as since (raid0.default_layout)"
            )
    end = zones[-1].end if zones else 0
    if end < known.sectors:
        raise LayoutError(f"{known.name}: expected {known.sectors} sectors, got members for {end}")
    return tuple(zones)


def _turn(known: Array, zone: Zone) -> int:
    """Return which of a zone's members has its first chunk.

    Source: raid0.c, raid0_make_request: layout 1 counts chunks from the beginning of the array,
    layout 2 from that of the zone. In the first zone, which begins at 0, they are one.
    """
    return zone.start // known.chunk % len(zone.slots) if known.layout == 1 else 0


def _raid0_forward(known: Array, sector: int) -> tuple[int, int]:
    zone = next(zone for zone in known.zones if sector < zone.end)
    if known.level == "linear":
        return zone.slots[0], sector - zone.start
    number, inside = divmod(sector - zone.start, known.chunk)
    row = number // len(zone.slots)
    slot = zone.slots[(number + _turn(known, zone)) % len(zone.slots)]
    return slot, zone.member_start + row * known.chunk + inside


def _raid0_reverse(known: Array, slot: int, own: int) -> int | Use:
    for zone in known.zones:
        width = (zone.end - zone.start) // len(zone.slots)
        if slot not in zone.slots or not 0 <= own - zone.member_start < width:
            continue
        if known.level == "linear":
            return zone.start + own
        row, inside = divmod(own - zone.member_start, known.chunk)
        place = (zone.slots.index(slot) - _turn(known, zone)) % len(zone.slots)
        return zone.start + (row * len(zone.slots) + place) * known.chunk + inside
    return Use.UNUSED


# --- raid4, raid5, raid6


def _data_disks(known: Array) -> int:
    return known.disks - (2 if known.level == "raid6" else 1)


def _stripe(known: Array, row: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the slots of parity, P ahead of Q, and those of data in the order of the array.

    Source: raid5.c, raid5_compute_sector; the numbers: raid5.h, ALGORITHM_*. Errors: LayoutError.
    """
    disks, layout = known.disks, known.layout
    if known.level == "raid4":
        return (disks - 1,), tuple(range(disks - 1))
    if known.level == "raid5":
        return _raid5_stripe(known, layout, disks, row)
    last = disks - 1
    match layout:
        case 0 | 8 | 1 | 9:
            # 8 is laid out as 1, and 9 as 0 one row later: they differ in how Q is calculated.
            turn = (row + (layout == 9)) % disks
            p = turn if layout in {1, 8} else last - turn
            q = 0 if p == last else p + 1
            return (p, q), _others(disks, p, q)
        case 2 | 3:
            p = row % disks if layout == 3 else last - row % disks
            return (p, (p + 1) % disks), _round(p + 2, disks, disks - 2)
        case 4:
            return (0, 1), tuple(range(2, disks))
        case 5:
            return (disks - 2, disks - 1), tuple(range(disks - 2))
        case 10:
            p = last - row % disks
            return (p, (p - 1) % disks), _round(p + 1, disks, disks - 2)
        case 16 | 17 | 18 | 19 | 20:
            # A raid5 of all members but the last one, which has Q.
            (p,), slots = _raid5_stripe(known, layout - 16, disks - 1, row)
            return (p, last), slots
    raise LayoutError(f"{known.name}: layout {layout} of raid6 is not known")


def _raid5_stripe(
    known: Array, layout: int, disks: int, row: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    turn = row % disks
    match layout:
        case 0 | 1:
            p = turn if layout == 1 else disks - 1 - turn
            return (p,), _others(disks, p)
        case 2 | 3:
            p = turn if layout == 3 else disks - 1 - turn
            return (p,), _round(p + 1, disks, disks - 1)
        case 4:
            return (0,), tuple(range(1, disks))
        case 5:
            return (disks - 1,), tuple(range(disks - 1))
    raise LayoutError(f"{known.name}: layout {known.layout} of {known.level} is not known")


def _others(disks: int, *without: int) -> tuple[int, ...]:
    return tuple(slot for slot in range(disks) if slot not in without)


def _round(first: int, disks: int, count: int) -> tuple[int, ...]:
    return tuple((first + step) % disks for step in range(count))


# --- raid10


@dataclass(frozen=True, slots=True)
class _Far:
    """What the number of a layout means. Units: `stride` is sectors, 0 where copies are near.

    Source: raid10.c, setup_geo and calc_sectors: the low byte are the near copies, the next the far
    ones; bit 16 puts these side by side ('offset'), bits 17 and 18 keep them in sets of members.
    """

    near: int
    far: int
    offset: bool
    set_size: int
    stride: int


def _far(known: Array) -> _Far:
    near, far = known.layout & 255, known.layout >> 8 & 255
    offset, sets = bool(known.layout >> 16 & 1), known.layout >> 17
    if not near or not far or sets > 2 or near * far > known.disks:
        raise LayoutError(f"{known.name}: layout {known.layout} of raid10 is not known")
    size = (known.disks, known.disks // far, far * near)[sets]
    chunks = known.component // known.chunk // far
    stride = known.chunk if offset else chunks * known.chunk
    return _Far(near, far, offset, size, stride)


def _far_set(known: Array, far: _Far, slot: int) -> tuple[int, int]:
    """Return where the set of a member begins, and its size: the last one takes what is left."""
    left = known.disks % far.set_size
    last = (known.disks // far.set_size - 1) * far.set_size
    if left and slot >= last:
        return last, far.set_size + left
    return slot // far.set_size * far.set_size, far.set_size


def _raid10_forward(known: Array, sector: int) -> list[tuple[int, int]]:
    far = _far(known)
    number, inside = divmod(sector, known.chunk)
    row, slot = divmod(number * far.near, known.disks)
    own = row * (far.far if far.offset else 1) * known.chunk + inside
    copies = []
    for _ in range(far.near):
        there, at = slot, own
        copies.append((there, at))
        for _ in range(far.far - 1):
            there, at = _next_far(known, far, there), at + far.stride
            copies.append((there, at))
        slot += 1
        if slot == known.disks:
            slot, own = 0, own + known.chunk
    return copies


def _next_far(known: Array, far: _Far, slot: int) -> int:
    """Return the member with the next far copy. Source: raid10.c, __raid10_find_phys.

    What decides whether it is in the last set is the member it would be without sets.
    """
    last = (known.disks // far.set_size - 1) * far.set_size
    left = known.disks % far.set_size
    onward = slot + far.near
    if left and onward > last:
        return (onward - last) % (far.set_size + left) + last
    return onward % far.set_size + slot // far.set_size * far.set_size


def _raid10_reverse(known: Array, slot: int, own: int) -> int | Use:
    """Source: raid10.c, raid10_find_virt."""
    far = _far(known)
    begin, size = _far_set(known, far, slot)
    row, inside = divmod(own, known.chunk)
    if far.offset:
        row, copy = divmod(row, far.far)
    else:
        if not far.stride:
            return Use.UNUSED
        copy, rest = divmod(own, far.stride)
        row = rest // known.chunk
    if copy >= far.far:
        return Use.UNUSED
    first = (slot - begin - copy * far.near) % size + begin
    return (row * known.disks + first) // far.near * known.chunk + inside


# --- device-mapper


def _linear(target: Target, number: str, start: int, end: int) -> list[Piece]:
    """Words: device, start. Source: admin-guide/device-mapper/linear.rst."""
    device, begin = _words(target, 2)
    return _mapped(target, device, begin, number, start, end)


def _crypt(target: Target, number: str, start: int, end: int) -> list[Piece]:
    """Words: cipher, key, offset of the IV, device, start, options; same length as what is below.

    Source: admin-guide/device-mapper/dm-crypt.rst.
    """
    device, begin = _words(target, 5)[3:5]
    return _mapped(target, device, begin, number, start, end)


def _striped(target: Target, number: str, start: int, end: int) -> list[Piece]:
    """Words: stripes, chunk, and of each stripe device and start.

    Source: admin-guide/device-mapper/striped.rst; dm-stripe.c, stripe_map_sector.
    """
    stripes, chunk = (_number(target, word) for word in _words(target, 2))
    words = target.words[2:]
    if not 0 < stripes <= MOST_DISKS or len(words) < 2 * stripes or not chunk:
        raise _odd(target)
    width, left = divmod(target.sectors, stripes)
    if left or width % chunk:
        raise _odd(target)
    pieces: list[Piece] = []
    for stripe in range(stripes):
        begin = _number(target, words[2 * stripe + 1])
        met = overlap(start, end - start, begin, width)
        if words[2 * stripe] != number or met is None:
            continue
        at, stop = met[0], met[0] + met[1]
        while at < stop:
            row, inside = divmod(at - begin, chunk)
            run = min(chunk - inside, stop - at)
            above = target.start_sectors + (row * stripes + stripe) * chunk + inside
            _add(pieces, Piece(at, run, Use.DATA, above))
            at += run
            if len(pieces) > MOST_PIECES:
                raise LayoutError(f"the range has more than {MOST_PIECES} pieces")
    return pieces


def _multipath(target: Target, number: str, start: int, end: int) -> list[Piece]:
    """Words: counts, and the paths among them: each is the whole of it, sector by sector.

    Source: dm-mpath.c, __multipath_map_bio: only the device is another. multipathd makes one target
    for all of a device.
    """
    if target.start_sectors:
        raise _odd(target)
    met = overlap(start, end - start, 0, target.sectors)
    if number not in target.devices or met is None:
        return []
    return [Piece(met[0], met[1], Use.DATA, met[0])]


_TARGETS: dict[str, Callable[[Target, str, int, int], list[Piece]]] = {
    "linear": _linear,
    "multipath": _multipath,
    "crypt": _crypt,
    "striped": _striped,
}


def _mapped(
    target: Target, device: str, begin: str, number: str, start: int, end: int
) -> list[Piece]:
    first = _number(target, begin)
    met = overlap(start, end - start, first, target.sectors)
    if device != number or met is None:
        return []
    return [Piece(met[0], met[1], Use.DATA, target.start_sectors + met[0] - first)]


def _words(target: Target, least: int) -> Sequence[str]:
    if len(target.words) < least:
        raise _odd(target)
    return target.words[:least]


def _number(target: Target, word: str) -> int:
    if not re.fullmatch(r"\d{1,18}", word, re.ASCII):
        raise _odd(target)
    return int(word)


def _odd(target: Target) -> LayoutError:
    return LayoutError(
        f"device-mapper target '{target.kind}' at {target.start_sectors}: its {len(target.words)}"
        " words are not those that the kernel documents"
    )
