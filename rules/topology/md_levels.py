"""Maps sectors of an md array to its members and back: raid0, linear, 1, 10, 4, 5, 6. Pure.

Sources, by formula: drivers/md/raid5.c raid5_compute_sector, raid10.c __raid10_find_phys and
raid10_find_virt, raid0.c create_strip_zones and map_sector, md-linear.c; raid5.h for the numbers of
layouts. Units: sectors of 512 bytes; a member's own sector counts from where its data begin.
"""

from __future__ import annotations

from dataclasses import field

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.topology.sector_map import MAX_PIECES, LayoutError, Use


@dataclass(frozen=True, slots=True)
class Zone:
    """A part of a raid0 whose chunks alternate between the same members; `end` is of the array."""

    start: int
    end: int
    member_start: int
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ArrayLayout:
    """An array with all its parameters. `offsets` and `sizes` are the members' by slot.

    Fields: `chunk` is 1 where the level has none; `component` is the used size of each member.
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


def copies(known: ArrayLayout, sector: int) -> list[tuple[int, int]]:
    """Return slot and own sector of each copy of a sector of the array."""
    match known.level:
        case "raid1":
            return [(slot, sector) for slot in range(known.disks)]
        case "raid0" | "linear":
            return [_raid0_forward(known, sector)]
        case "raid10":
            return _raid10_forward(known, sector)
    number, inside = divmod(sector, known.chunk)
    row, data = divmod(number, data_disks(known))
    _, slots = stripe(known, row)
    return [(slots[data], row * known.chunk + inside)]


def array_sector(known: ArrayLayout, slot: int, own: int) -> int | Use:
    """Return the sector of the array for a member's own sector, or its other use."""
    match known.level:
        case "raid1":
            return own
        case "raid0" | "linear":
            return _raid0_reverse(known, slot, own)
        case "raid10":
            return _raid10_reverse(known, slot, own)
    row, inside = divmod(own, known.chunk)
    data = data_disks(known)
    if row * data * known.chunk >= known.sectors:
        return Use.UNUSED
    redundant, slots = stripe(known, row)
    if slot in redundant:
        return Use.PARITY
    return (row * data + slots.index(slot)) * known.chunk + inside


def run_length(known: ArrayLayout, slot: int, own: int) -> int:
    """Return how many sectors from here are contiguous: up to the end of chunk, copy or zone."""
    if known.level == "raid1":
        return max(known.sectors - own, 0) or MAX_PIECES * known.chunk
    if known.level == "linear":
        rest = known.zones[slot].end - known.zones[slot].start - own
        return rest if rest > 0 else MAX_PIECES
    return known.chunk - own % known.chunk


# --- raid0 and linear


def zones_of(known: ArrayLayout) -> tuple[Zone, ...]:
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
                f"{known.name}: its members differ in size, and the kernel does not report whether"
                " the layout is the one before Linux 3.14 or the one since (raid0.default_layout)"
            )
    end = zones[-1].end if zones else 0
    if end < known.sectors:
        raise LayoutError(f"{known.name}: expected {known.sectors} sectors, got members for {end}")
    return tuple(zones)


def _turn(known: ArrayLayout, zone: Zone) -> int:
    """Return which of a zone's members has its first chunk.

    Source: raid0.c, raid0_make_request: layout 1 counts chunks from the beginning of the array,
    layout 2 from that of the zone. In the first zone, which begins at 0, they are one.
    """
    return zone.start // known.chunk % len(zone.slots) if known.layout == 1 else 0


def _raid0_forward(known: ArrayLayout, sector: int) -> tuple[int, int]:
    zone = next(zone for zone in known.zones if sector < zone.end)
    if known.level == "linear":
        return zone.slots[0], sector - zone.start
    number, inside = divmod(sector - zone.start, known.chunk)
    row = number // len(zone.slots)
    slot = zone.slots[(number + _turn(known, zone)) % len(zone.slots)]
    return slot, zone.member_start + row * known.chunk + inside


def _raid0_reverse(known: ArrayLayout, slot: int, own: int) -> int | Use:
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


def data_disks(known: ArrayLayout) -> int:
    """Return how many members of a raid4, raid5 or raid6 have data in each row."""
    return known.disks - (2 if known.level == "raid6" else 1)


def stripe(known: ArrayLayout, row: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
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
            # 8 has the layout of 1, and 9 that of 0 one row later: they differ in how Q is
            # calculated.
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
    known: ArrayLayout, layout: int, disks: int, row: int
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
    """Meaning of a layout number. Units: `stride` is sectors, 0 where copies are near.

    Source: raid10.c, setup_geo and calc_sectors: the low byte are the near copies, the next the far
    ones; bit 16 stores these next to each other ('offset'), bits 17 and 18 keep them in sets of
    members.
    """

    near: int
    far: int
    offset: bool
    set_size: int
    stride: int


def far_layout(known: ArrayLayout) -> _Far:
    """Return the meaning of the layout of a raid10. Errors: LayoutError."""
    near, far = known.layout & 255, known.layout >> 8 & 255
    offset, sets = bool(known.layout >> 16 & 1), known.layout >> 17
    if not near or not far or sets > 2 or near * far > known.disks:
        raise LayoutError(f"{known.name}: layout {known.layout} of raid10 is not known")
    size = (known.disks, known.disks // far, far * near)[sets]
    chunks = known.component // known.chunk // far
    stride = known.chunk if offset else chunks * known.chunk
    return _Far(near, far, offset, size, stride)


def _far_set(known: ArrayLayout, far: _Far, slot: int) -> tuple[int, int]:
    """Return where the set of a member begins, and its size: the last one takes what is left."""
    left = known.disks % far.set_size
    last = (known.disks // far.set_size - 1) * far.set_size
    if left and slot >= last:
        return last, far.set_size + left
    return slot // far.set_size * far.set_size, far.set_size


def _raid10_forward(known: ArrayLayout, sector: int) -> list[tuple[int, int]]:
    far = far_layout(known)
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


def _next_far(known: ArrayLayout, far: _Far, slot: int) -> int:
    """Return the member with the next far copy. Source: raid10.c, __raid10_find_phys.

    What decides whether it is in the last set is the member it would be without sets.
    """
    last = (known.disks // far.set_size - 1) * far.set_size
    left = known.disks % far.set_size
    onward = slot + far.near
    if left and onward > last:
        return (onward - last) % (far.set_size + left) + last
    return onward % far.set_size + slot // far.set_size * far.set_size


def _raid10_reverse(known: ArrayLayout, slot: int, own: int) -> int | Use:
    """Source: raid10.c, raid10_find_virt."""
    far = far_layout(known)
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
