"""What survives how many more disks: arrays, file systems, pools, volumes and maps. Pure.

Each technology is described in the groups of collectors/redundancy.py; its number is computed
there, and nowhere else. An object whose redundancy nothing describes is left out.
Sources: btrfs: kernel, fs/btrfs/volumes.c, btrfs_raid_array (tolerated_failures); controllers: the
vendors' terms.
*Limits:* of a controller's volume with more redundancy than one disk only what its state and the
list of its disks prove; which half of a RAID 10 lost a disk is not known.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.device_mapper import target_status
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.redundancy import (
    RedundancyGroup,
    redundancy_text,
    survives,
    survives_complete,
)
from iowarden.collectors.zfs.zpool_status import redundancy_groups
from iowarden.rules.topology.redundancy import md_groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.device_mapper.target_status import TargetStatus
    from iowarden.collectors.filesystem.btrfs import BtrfsDevice
    from iowarden.collectors.md.mdstat import MdArray
    from iowarden.collectors.raid.controller import Controller, ControllerArray, Controllers
    from iowarden.collectors.zfs.vdevs import PoolDevices

MD, BTRFS, LVM, CONTROLLER, MULTIPATH = "md", "btrfs", "lvm", "controller", "multipath"
ZFS, ZFS_VDEV = "zfs", "zfs_vdev"
"""A pool, which is lost with any of its top-level vdevs; one of these, as 'tank mirror-0'."""
_NO_ARRAY = frozenset({None, "clear", "inactive"})
"""States of an md array that is not assembled: nothing shows what it would survive."""
_BTRFS_FAILURES = {
    **dict.fromkeys(("single", "dup", "raid0"), 0),
    **dict.fromkeys(("raid1", "raid10", "raid5"), 1),
    **dict.fromkeys(("raid1c3", "raid6"), 2),
    "raid1c4": 3,
}
_NO_LEVEL = re.compile(r"raid|[\s_-]")
_CONTROLLER_FAILURES = {
    **dict.fromkeys(("0", "jbod", "single", "singledisk", "simplevolume"), 0),
    **dict.fromkeys(("1", "1e", "1+0", "10", "3", "30", "4", "5", "5+0", "50", "5ee"), 1),
    **dict.fromkeys(
        ("6", "6+0", "60", "6(adg)", "1adm", "1(adm)", "1+0adm", "1+0(adm)", "10adm"), 2
    ),
}
"""How many disks may fail for certain, by the vendors' words without 'RAID' and blanks."""
_PARTIAL = frozenset({"pdgd", "partially degraded"})
"""Of MegaRAID: a volume with two disks to spare lost one of them, in any of its spans."""
_WHOLE = frozenset({ComponentHealth.OK, ComponentHealth.BUSY, ComponentHealth.FAILING})
_SHORT = frozenset({ComponentHealth.DEGRADED, ComponentHealth.REBUILDING})


@dataclass(frozen=True, slots=True)
class Redundancy:
    """The groups of one object, and its number. `object`: 'md0', 'tank', 'c0 u0', a btrfs' UUID."""

    object: str
    technology: str
    groups: tuple[RedundancyGroup, ...]

    @property
    def survives(self) -> int | None:
        """How many more disks (paths of a map) may fail; None: unknown."""
        return survives(self.groups)

    @property
    def complete(self) -> int | None:
        """How many may fail while it is complete."""
        return survives_complete(self.groups)

    @property
    def text(self) -> str:
        """Return the number in words."""
        unit = "path" if self.technology == MULTIPATH else "disk"
        return redundancy_text(self.survives, self.complete, unit)


def of_md(arrays: Mapping[str, MdArray] | None, topology: Topology | None) -> Iterator[Redundancy]:
    """Yield the md arrays that are assembled."""
    for array in (arrays or {}).values():
        if array.is_container or array.state in _NO_ARRAY:
            continue
        device = None if topology is None else topology.devices.get(array.name)
        groups = md_groups(array, None if device is None else device.md)
        yield Redundancy(array.name, MD, groups)


def of_btrfs(devices: Iterable[BtrfsDevice] | None) -> Iterator[Redundancy]:
    """Yield the btrfs file systems, by the profile of each kind of block group."""
    systems: dict[str, list[BtrfsDevice]] = {}
    for device in devices or ():
        systems.setdefault(device.filesystem, []).append(device)
    for uuid, members in systems.items():
        states = [member.missing for member in members]
        missing = None if None in states else states.count(True)
        groups = tuple(
            _tolerant(profile, _BTRFS_FAILURES[profile.rpartition(" ")[2]], missing)
            for profile in members[0].profiles
            if profile.rpartition(" ")[2] in _BTRFS_FAILURES
        )
        if len(groups) == len(members[0].profiles):  # one of a later kernel is not known
            yield Redundancy(uuid, BTRFS, groups)


def of_zfs(pools: Mapping[str, PoolDevices] | None) -> Iterator[Redundancy]:
    """Yield the pools whose devices could be read, each followed by its top-level vdevs."""
    for name, pool in (pools or {}).items():
        groups = () if pool.reason else redundancy_groups(pool.status)
        yield Redundancy(name, ZFS, groups)
        for group in groups:
            yield Redundancy(f"{name} {group.name.removeprefix('/dev/')}", ZFS_VDEV, (group,))


def of_controllers(found: Controllers | None) -> Iterator[Redundancy]:
    """Yield the volumes of RAID controllers, without spares."""
    for card in () if found is None else found.controllers:
        for array in card.arrays:
            if array.level:
                groups = controller_groups(card, array)
                yield Redundancy(f"{card.name} {array.name}", CONTROLLER, groups)


def controller_groups(card: Controller, array: ControllerArray) -> tuple[RedundancyGroup, ...]:
    """Return a controller's volume as one group; none: its level is not known."""
    tolerated = _CONTROLLER_FAILURES.get(_NO_LEVEL.sub("", array.level.casefold()))
    if tolerated is None:
        return ()
    return (_tolerant(array.level, tolerated, _lost(card, array, tolerated)),)


def _lost(card: Controller, array: ControllerArray, tolerated: int) -> int | None:
    """Return how many disks a volume lost, as far as its state proves it."""
    health = array.state.health
    if health in _WHOLE:
        return 0
    if health is ComponentHealth.FAILED:
        return tolerated + 1
    if health not in _SHORT or not tolerated:
        return None
    if tolerated == 1 or array.state.word.casefold() in _PARTIAL:
        return 1
    bad = {ComponentHealth.FAILED, ComponentHealth.REBUILDING}
    listed = sum(disk.array == array.name and disk.state.health in bad for disk in card.disks)
    # A disk that is missing may not be listed: the number that is left is not proved.
    return listed if listed >= tolerated else None


def of_targets(statuses: Iterable[TargetStatus] | None) -> Iterator[Redundancy]:
    """Yield the RAID volumes and mirrors of LVM."""
    for status in statuses or ():
        if status.target in {"raid", "mirror"}:
            yield Redundancy(status.name, LVM, target_status.redundancy_groups(status))


def of_map(name: str, paths: Mapping[str, float]) -> Redundancy:
    """Return a multipath map by the number of its paths in each state of signals/device/multipath.

    The number is unknown while nothing shows whether a path works.
    """
    total = int(sum(paths.values()))
    working = None if paths.get("unknown") else int(paths.get("working", 0))
    groups = (RedundancyGroup("", total, 1, working),) if total else ()
    return Redundancy(name, MULTIPATH, groups)


def _tolerant(name: str, tolerated: int, lost: int | None) -> RedundancyGroup:
    """Return a group by how many of its disks may fail: those above that are not counted."""
    members = tolerated + 1
    return RedundancyGroup(name, members, 1, None if lost is None else max(members - lost, 0))
