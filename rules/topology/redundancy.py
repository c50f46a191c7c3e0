"""How many members an md array can lose, and which of them hold the last copy of data. Pure.

Source: kernel, drivers/md: raid1.c, raid10.c (setup_geo), raid5.c (max_degraded, has_failed);
admin-guide/md.rst (degraded, array_state).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.block.block_devices import copies
from iowarden.collectors.redundancy import RedundancyGroup

if TYPE_CHECKING:
    from iowarden.collectors.block.block_devices import Md
    from iowarden.collectors.md import mdstat

PARITY = {"raid4": 1, "raid5": 1, "raid6": 2}
"""Number of members that may be missing: beyond it the kernel fails reads and writes, and reports
the array as broken only from 5.18 on (clean before)."""
BUILDING = frozenset({"recover", "reshape", "resync"})
"""Values of sync_action that rebuild or reshape an array."""
_RUNNING = frozenset({"clean", "active", "active-idle", "write-pending", "readonly", "read-auto"})
"""Values of array_state."""


def runs(array: mdstat.MdArray) -> bool:
    """Return whether an array takes reads."""
    return array.state in _RUNNING


def in_use(member: mdstat.ArrayMember) -> bool:
    """Return whether an array uses a member; an old kernel reports no state for one in use."""
    return "in_sync" in member.states or (not member.states and member.slot is not None)


def md_groups(array: mdstat.MdArray, geometry: Md | None = None) -> tuple[RedundancyGroup, ...]:
    """Return the groups of an array; none: its level is not known to have redundancy or to lack it.

    A member that is being rebuilt is missing, as the kernel counts it. Of a raid10 that lost a
    member it is known for the 'near' layouts which copies that member had; of other layouts it
    counts against every block.
    """
    disks, missing = array.raid_disks, array.degraded
    if array.level in {"raid0", "linear"}:
        count = disks or len(array.members)
        return (RedundancyGroup("", count, count, count - (missing or 0)),)
    if array.level in PARITY:
        parity = PARITY[array.level]
        count = disks or parity + 1
        working = None if missing is None else count - missing
        return (RedundancyGroup("", count, count - parity, working),)
    layout = array.layout if geometry is None or geometry.layout is None else geometry.layout
    number = copies(array.level, disks, layout)
    if not number or not disks:
        return ()
    if array.level == "raid10" and (used := _slots_in_use(array)) is not None:
        near = _near_sets(disks, number, layout)
        if near:
            present = (len(group & used.keys()) for group in near)
            return tuple(RedundancyGroup("", number, 1, working) for working in present)
    working = None if missing is None else number - missing
    return (RedundancyGroup("", number, 1, working),)


def _slots_in_use(array: mdstat.MdArray) -> dict[int, str] | None:
    """Return the members in use by slot; None: their number contradicts the kernel's count."""
    used = {m.slot: m.device for m in array.members if in_use(m) and m.slot is not None}
    complete = array.degraded is not None and len(used) == (array.raid_disks or 0) - array.degraded
    return used if complete else None


def _near_sets(disks: int, number: int, layout: int | None) -> list[set[int]]:
    """Return the slots that hold the same blocks; none for 'far' layouts."""
    if layout is None or layout & 255 != number:
        return []
    return [{(first * number + each) % disks for each in range(number)} for first in range(disks)]


def last_holders(array: mdstat.MdArray, geometry: Md | None) -> tuple[str, ...]:
    """Return the members, by device, whose loss would lose data of a running array.

    Of a raid10 those that share copies with an empty slot; only the 'near' layouts are supported.
    None is returned for other layouts, if the redundancy is unknown or its counts contradict each
    other, and for an array without redundancy.
    """
    groups = md_groups(array, geometry)
    if not array.degraded or not runs(array) or not any(group.is_exhausted for group in groups):
        return ()
    used = _slots_in_use(array)
    if used is None:
        return ()
    if array.level != "raid10":
        return tuple(used.values())
    layout = array.layout if geometry is None or geometry.layout is None else geometry.layout
    disks = array.raid_disks or 0
    near = _near_sets(disks, copies(array.level, disks, layout) or 0, layout)
    alone = [group & used.keys() for group in near if len(group & used.keys()) == 1]
    return tuple(used[slot] for slot in sorted(set().union(*alone)))
