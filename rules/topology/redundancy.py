"""How many members an md array can lose, and which of them hold the last copy of data. Pure.

Source: kernel, drivers/md: raid1.c, raid10.c (setup_geo), raid5.c (max_degraded, has_failed);
admin-guide/md.rst (degraded, array_state).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def spared(array: mdstat.MdArray, copies: int | None) -> int | None:
    """Return how many members an array can certainly lose in total; None: not known.

    `copies` is that of a raid10.
    """
    if array.level in {"raid0", "linear"}:
        return 0
    if array.level == "raid1":
        return None if array.raid_disks is None else array.raid_disks - 1
    if array.level == "raid10":
        return copies - 1 if copies else None
    return PARITY.get(array.level or "")


def spare_redundancy(array: mdstat.MdArray, copies: int | None = None) -> int | None:
    """Return how many further members an array can certainly lose; None: not known.

    Of a raid10 that lost a member it is not checked which copies that member had.
    """
    spare = spared(array, copies)
    if array.level in {"raid0", "linear"} or spare is None:
        return spare
    return None if array.degraded is None else max(spare - array.degraded, 0)


def last_holders(array: mdstat.MdArray, geometry: Md | None) -> tuple[str, ...]:
    """Return the members, by device, whose loss would lose data of a running array.

    Of a raid10 those that share copies with an empty slot; only the 'near' layouts are supported.
    None is returned for other layouts, if the redundancy is unknown or its counts contradict each
    other, and for an array without redundancy.
    """
    copies = None if geometry is None else geometry.copies
    if not array.degraded or not runs(array) or spare_redundancy(array, copies) != 0:
        return ()
    used = {m.slot: m.device for m in array.members if in_use(m) and m.slot is not None}
    if len(used) != (array.raid_disks or 0) - array.degraded:
        return ()
    if array.level != "raid10":
        return tuple(used.values())
    disks, layout = array.raid_disks or 0, None if geometry is None else geometry.layout
    if not copies or layout is None or layout & 255 != copies:
        return ()
    groups = [
        {(first * copies + number) % disks for number in range(copies)} for first in range(disks)
    ]
    alone = [group & used.keys() for group in groups if len(group & used.keys()) == 1]
    return tuple(used[slot] for slot in sorted(set().union(*alone)))
