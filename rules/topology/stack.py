"""What stands on what now: arrays, volumes, pools, swap, and where they are mounted. Pure.

A mount is on the device of its number, whatever name it was given: '/dev/mapper/vg-data', 'dm-0',
'/dev/root' and '/dev/disk/by-uuid/...' are one. btrfs has a number of its own, and is on all of its
devices; bcachefs names all of its devices, XFS those of its log and of its real-time part. A pool
of ZFS is on what udev knows as its members; so is what no device shows to be in use: a volume group
without an active volume, a locked LUKS volume, the backing device of DRBD.
*Limits:* whether udev's word is of today is not known: it looks when a device is closed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.block.block_devices import ZFS
from iowarden.rules.quantity import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iowarden.collectors.block.block_devices import Device, Topology
    from iowarden.collectors.block.udev import Signature
    from iowarden.collectors.filesystem.mountinfo import Mount
    from iowarden.collectors.procfs.swaps import Swap

POOL = "pool "
"""Begins the name of a pool of ZFS, which is the key of its incidents as well."""
FILE_SYSTEM = "file system "
"""Begins that of a file system by its UUID."""
_ZFS = frozenset({"zfs", "fuse.zfs"})
_OTHER_DEVICE = re.compile(r"(?:log|rt)dev=(/.+)")
"""Of a mount's options. Source: kernel, fs/xfs/xfs_super.c, xfs_fs_show_options."""
_UNUSED = {
    "LVM2_member": "{} (volume group without an active volume)",
    "LVM1_member": "{} (volume group of LVM 1)",
    "bcache": "{} (bcache, not running)",
    "ceph_bluestore": "{} (Ceph OSD)",
    "crypto_LUKS": "{} (LUKS volume, not open)",
    "ddf_raid_member": "{} (firmware RAID, not assembled)",
    "drbd": "{} (DRBD)",
    "drbdmanage_control_volume": "{} (DRBD)",
    "isw_raid_member": "{} (firmware RAID, not assembled)",
    "linux_raid_member": "{} (md array, which does not use it)",
    "oracleasm": "{} (Oracle ASM disk)",
    "stratis": "{} (Stratis pool, not started)",
}
"""What udev knows on a device that nothing holds. Source: util-linux, libblkid, superblocks. A file
system is none of these: it is in use where it is mounted."""


_NVME_PATH = re.compile(r"nvme\d+c\d+n\d+", re.ASCII)


class Carried(NamedTuple):
    """What stands on a device, by its name and for people; `on` is what it stands on directly.

    Fields: `what` is None of a device that sysfs names and does not list, and of a pool; `used`:
    it is in use, as far as is known: a pool that is not imported and a closed volume are not.
    """

    name: str
    shown: str
    on: str
    what: Device | Mount | Swap | None
    used: bool = True


class Stack:
    """All block devices with what is mounted; neither changes meanwhile."""

    def __init__(self, topology: Topology, mounts: Iterable[Mount] = ()) -> None:
        """Sort the mounts by their devices, and loop devices by the mount that has their file."""
        self._topology = topology
        self._mounts: dict[str, list[Mount]] = {}
        self._loops: dict[str, list[str]] = {}
        points = set()
        for mount in mounts:
            for each in _below(topology, mount):
                self._mounts.setdefault(each, []).append(mount)
            points.add(mount.mount_point)
        for device in topology.devices.values():
            if device.backing_file and not device.slaves:
                point = next((each for each in _parents(device.backing_file) if each in points), "")
                self._loops.setdefault(point, []).append(device.name)
        for name, volume in topology.zvols.items():
            self._loops.setdefault(_pool(volume), []).append(name)
        self._swaps: dict[str, list[Swap]] = {}
        for swap in topology.swaps:
            point = next((each for each in _parents(swap.path) if each in points), "")
            below = topology.kernel_name(swap.path) if swap.block else point
            self._swaps.setdefault(below, []).append(swap)

    def on(self, device: Device) -> list[Carried]:
        """Return what stands on a device: arrays and volumes, then where it or they are mounted.

        Swap comes last.
        """
        found: dict[str, Carried] = {}
        points: dict[str, Carried] = {}
        swaps: dict[str, Carried] = {}
        todo = [(device.name, "")]
        while todo:
            name, below = todo.pop(0)
            if name in found:
                continue
            own = self._topology.devices.get(name)
            shown = own.dm_name or name if own is not None else self._shown(name)
            used = not name.startswith(POOL) or self._is_imported(name)
            found[name] = Carried(name, shown, below, own, used)
            for part in (name, *(own.partitions if own is not None else ())):
                for mount in self._mounts.get(part, ()):
                    point = mount.mount_point
                    points.setdefault(point, Carried(point, point, part, mount))
                    todo += ((loop, point) for loop in self._loops.get(point, ()))
                    swaps |= self._swapped(point)
                swaps |= self._swapped(part)
                signature = self._topology.signatures.get(part)
                if signature is not None and signature.kind == ZFS:
                    todo.append((_pool(signature.group), part))
                elif signature is not None and (unused := _unused(signature, part)):
                    found[unused] = Carried(unused, unused, part, None, used=False)
                elif part in self._topology.btrfs and part not in self._mounts:
                    uuid = self._topology.btrfs[part].uuid
                    system = f"{FILE_SYSTEM}{uuid}"
                    found[system] = Carried(system, f"btrfs {uuid}", part, None)
            if name.startswith(POOL):
                todo += ((volume, name) for volume in self._loops.get(name, ()))
            if own is not None:
                parts = {holder: part for part, holder in own.uses}
                todo += ((holder, parts.get(holder, name)) for holder in own.holders)
        del found[device.name]
        return [*found.values(), *points.values(), *swaps.values()]

    def within(self, point: str) -> list[Carried]:
        """Return what lies in files of a mount: loop devices with what stands on them, and swap."""
        found: dict[str, Carried] = {}
        for name in self._loops.get(point, ()):
            own = self._topology.devices[name]
            found[name] = Carried(name, name, point, own)
            found |= {each.name: each for each in self.on(own)}
        return [*found.values(), *self._swapped(point).values()]

    def mounts(self, name: str) -> list[Mount]:
        """Return what a device or partition is mounted as, by any of its names."""
        return self._mounts.get(self._topology.kernel_name(name), [])

    def shown_on(self, name: str) -> tuple[str, ...]:
        """Return the same, of a device by its name, in words."""
        device = self._topology.devices.get(name)
        return () if device is None else tuple(each.shown for each in self.on(device))

    def used_on(self, name: str) -> tuple[str, ...]:
        """Return what of that is in use: with the device, programs lose it."""
        device = self._topology.devices.get(name)
        return () if device is None else tuple(e.shown for e in self.on(device) if e.used)

    def _swapped(self, below: str) -> dict[str, Carried]:
        """Return the swap areas on a device, or in a file system."""
        return {
            f"swap {each.path}": Carried(
                each.path, f"swap ({quantity('_bytes', each.used_bytes)} used)", below, each
            )
            for each in self._swaps.get(below, ())
        }

    def _is_imported(self, pool: str) -> bool:
        known = self._topology.pools
        return pool in self._mounts or pool in self._loops or pool.removeprefix(POOL) in known

    def _shown(self, name: str) -> str:
        """Return what a device that sysfs does not list, or a pool, is for people."""
        if not name.startswith(POOL):
            return name
        if name == POOL:
            return "a pool of ZFS (a cache, log or spare device of it)"
        if not self._is_imported(name):
            return f"{name} (ZFS, not imported)"
        state = self._topology.pools.get(name.removeprefix(POOL))
        well = state in {None, "", "ONLINE"}
        return f"{name} (ZFS)" if well else f"{name} (ZFS, {state})"


def _below(topology: Topology, mount: Mount) -> Iterable[str]:
    """Return what a mount is on."""
    if mount.kind in _ZFS:
        return (_pool(mount.source),)
    paths: tuple[str, ...]
    if mount.device_number in topology.names:
        other = (_OTHER_DEVICE.fullmatch(option) for option in mount.super_options)
        paths = (mount.device_number, *(each[1] for each in other if each))
    elif mount.kind == "bcachefs":
        paths = tuple(re.split(":(?=/)", mount.source))
    else:
        paths = (mount.source,)
    names = dict.fromkeys(topology.kernel_name(path) for path in paths)
    system = topology.btrfs.get(next(iter(names)))
    return names if system is None else system.devices


def _pool(dataset: str) -> str:
    """Return the pool of a dataset or snapshot of ZFS: 'pool tank' of 'tank/home@monday'."""
    return POOL + re.split("[/@#]", dataset, maxsplit=1)[0]


def _unused(signature: Signature, part: str) -> str:
    """Return what is on a device that nothing holds, for people; '' where that is not known."""
    words = _UNUSED.get(signature.kind, "")
    return words.format(signature.group or f"data of {part}") if words else ""


def path_maps(topology: Topology) -> dict[str, tuple[str, ...]]:
    """Return the maps of device-mapper's and of NVMe's multipath with the paths that they have now.

    Source: multipath-tools, libmultipath/devmapper.h (UUID_PREFIX); kernel,
    drivers/nvme/host/multipath.c: an NVMe drive that might have more than one path has one, too.
    """
    return {
        name: device.slaves
        for name, device in topology.devices.items()
        if (device.dm_uuid or "").startswith("mpath-")
        or (device.slaves and all(map(_NVME_PATH.fullmatch, device.slaves)))
    }


def _parents(path: str) -> Iterator[str]:
    """Yield the directories of a path, the nearest first."""
    while path := path.rpartition("/")[0]:
        yield path
    yield "/"
