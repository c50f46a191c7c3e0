"""What stands on what now: arrays, volumes, loop devices, and where they are mounted. Pure.

A mount is on the device of its number, whatever name it was given: '/dev/mapper/vg-data', 'dm-0',
'/dev/root' and '/dev/disk/by-uuid/...' are one. btrfs has a number of its own, and is on all of its
devices. *Limits:* zfs names no device; swap space is no mount.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iowarden.collectors.block import Device, Topology
    from iowarden.collectors.mounts import Mount


class Carried(NamedTuple):
    """What stands on a device, by its name and for people; `on` is what it stands on directly.

    None: a device that sysfs names and does not list.
    """

    name: str
    shown: str
    on: str
    what: Device | Mount | None


class Stack:
    """All block devices with what is mounted; neither changes meanwhile."""

    def __init__(self, topology: Topology, mounts: Iterable[Mount] = ()) -> None:
        """Sort the mounts by their devices, and loop devices by the mount that has their file."""
        self._topology = topology
        self._mounts: dict[str, list[Mount]] = {}
        self._loops: dict[str, list[str]] = {}
        points = set()
        for mount in mounts:
            known = mount.device_number in topology.names
            name = topology.kernel_name(mount.device_number if known else mount.source)
            for each in topology.btrfs.get(name, (name,)):
                self._mounts.setdefault(each, []).append(mount)
            points.add(mount.mount_point)
        for device in topology.devices.values():
            if device.backing_file:
                point = next((each for each in _parents(device.backing_file) if each in points), "")
                self._loops.setdefault(point, []).append(device.name)

    def on(self, device: Device) -> list[Carried]:
        """Return what stands on a device: arrays and volumes, then where it or they are mounted."""
        found: dict[str, Carried] = {}
        points: dict[str, Carried] = {}
        todo = [(device.name, "")]
        while todo:
            name, below = todo.pop(0)
            if name in found:
                continue
            own = self._topology.devices.get(name)
            shown = own.dm_name or name if own is not None else name
            found[name] = Carried(name, shown, below, own)
            for part in (name, *(own.partitions if own is not None else ())):
                for mount in self._mounts.get(part, ()):
                    point = mount.mount_point
                    points.setdefault(point, Carried(point, point, part, mount))
                    todo += ((loop, point) for loop in self._loops.get(point, ()))
            if own is not None:
                parts = {holder: part for part, holder in own.uses}
                todo += ((holder, parts.get(holder, name)) for holder in own.holders)
        del found[device.name]
        return [*found.values(), *points.values()]

    def shown_on(self, name: str) -> tuple[str, ...]:
        """Return the same, of a device by its name, in words."""
        device = self._topology.devices.get(name)
        return () if device is None else tuple(each.shown for each in self.on(device))


def _parents(path: str) -> Iterator[str]:
    """Yield the directories of a path, the nearest first."""
    while path := path.rpartition("/")[0]:
        yield path
    yield "/"
