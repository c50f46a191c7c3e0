"""The current storage stack: arrays, volumes, pools, swap, and their mount points. Pure.

A mount belongs to the device of its number, whatever name was used: '/dev/mapper/vg-data', 'dm-0',
'/dev/root' and '/dev/disk/by-uuid/...' are the same. btrfs has a number of its own and is on all of
its devices; bcachefs names all of its devices, XFS those of its log and of its real-time part. The
members of a ZFS pool come from udev; so do devices that are not in use otherwise: a volume group
without an active volume, a locked LUKS volume, the backing device of DRBD. *Limits:* udev's data
may be outdated: it reads a device when that is closed after writing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.block.block_devices import ZFS
from iowarden.collectors.printable import name as safe_name
from iowarden.collectors.quantity import quantity
from iowarden.collectors.zfs.pool_state import POOL, pool_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iowarden.collectors.block.block_devices import Device, Topology
    from iowarden.collectors.block.udev import BlockSignature
    from iowarden.collectors.filesystem.mountinfo import Mount
    from iowarden.collectors.procfs.swaps import Swap

FILE_SYSTEM = "file system "
"""Prefix of the name of a file system by its UUID."""
_ZFS = frozenset({"zfs", "fuse.zfs"})
_OTHER_DEVICE = re.compile(r"(?:log|rt)dev=(/.+)")
"""Mount options. Source: kernel, fs/xfs/xfs_super.c, xfs_fs_show_options."""
_UNUSED = {
    "LVM2_member": "{} (volume group without an active volume)",
    "LVM1_member": "{} (volume group of LVM 1)",
    "bcache": "{} (bcache, not running)",
    "crypto_LUKS": "{} (LUKS volume, not open)",
    "ddf_raid_member": "{} (firmware RAID, not assembled)",
    "isw_raid_member": "{} (firmware RAID, not assembled)",
    "linux_raid_member": "{} (md array, which does not use it)",
    "stratis": "{} (Stratis pool, not started)",
}
"""Signatures that udev found on a device that nothing holds. Source: util-linux, libblkid,
superblocks. File systems are not among these: a file system is in use where it is mounted."""
_UNLISTED = {
    "ceph_bluestore": "{} (Ceph OSD)",
    "drbd": "{} (DRBD)",
    "drbdmanage_control_volume": "{} (DRBD)",
    "jbd": "{} (journal of an ext4 file system)",
    "oracleasm": "{} (Oracle ASM disk)",
}
"""Signatures of what uses a device without a holder in sysfs, or a mount of that device."""


_NVME_PATH = re.compile(r"nvme\d+c\d+n\d+", re.ASCII)


class CarriedItem(NamedTuple):
    """Something stacked on a device, with its name and description; `on`: what is below it.

    Fields: `what` is None for a pool and for a device that sysfs names without listing it; `used`:
    it is in use, as far as is known: a pool that is not imported and a closed volume are not.
    """

    name: str
    shown: str
    on: str
    what: Device | Mount | Swap | None
    used: bool = True


class DeviceStack:
    """All block devices with the mounts; neither changes meanwhile."""

    def __init__(self, topology: Topology, mounts: Iterable[Mount] = ()) -> None:
        """Sort the mounts by device, and loop devices by the mount that holds their file."""
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
            self._loops.setdefault(pool_of(volume), []).append(name)
        self._swaps: dict[str, list[Swap]] = {}
        for swap in topology.swaps:
            point = next((each for each in _parents(swap.path) if each in points), "")
            below = topology.kernel_name(swap.path) if swap.block else point
            self._swaps.setdefault(below, []).append(swap)

    def on(self, device: str) -> list[CarriedItem]:
        """Return what is stacked on a device or pool: arrays and volumes, then their mount points.

        Swap comes last.
        """
        found: dict[str, CarriedItem] = {}
        points: dict[str, CarriedItem] = {}
        swaps: dict[str, CarriedItem] = {}
        todo = [(device, "")]
        while todo:
            name, below = todo.pop(0)
            if name in found:
                continue
            own = self._topology.devices.get(name)
            shown = own.dm_name or name if own is not None else self._shown(name)
            if name in self._topology.zvols:
                shown = f"{safe_name(self._topology.zvols[name])} ({name})"
            used = not name.startswith(POOL) or self._is_imported(name)
            found[name] = CarriedItem(name, shown, below, own, used)
            for part in (name, *(own.partitions if own is not None else ())):
                for mount in self._mounts.get(part, ()):
                    point = mount.mount_point
                    points.setdefault(point, CarriedItem(point, safe_name(point), part, mount))
                    todo += ((loop, point) for loop in self._loops.get(point, ()))
                    swaps |= self._swapped(point)
                swaps |= self._swapped(part)
                signature = self._topology.signatures.get(part)
                if signature is not None and signature.kind == ZFS:
                    todo.append((pool_of(signature.group), part))
                elif signature is not None and (signed := _signed(signature, part)):
                    used = signature.kind in _UNLISTED
                    found[signed] = CarriedItem(signed, signed, part, None, used=used)
                elif part in self._topology.btrfs and part not in self._mounts:
                    uuid = self._topology.btrfs[part].uuid
                    system = f"{FILE_SYSTEM}{uuid}"
                    found[system] = CarriedItem(system, f"btrfs {uuid}", part, None)
            if name.startswith(POOL):
                todo += ((volume, name) for volume in self._loops.get(name, ()))
            if own is not None:
                parts = {holder: part for part, holder in own.uses}
                todo += ((holder, parts.get(holder, name)) for holder in own.holders)
        del found[device]
        return [*found.values(), *points.values(), *swaps.values()]

    def within(self, point: str) -> list[CarriedItem]:
        """Return what is stored in files of a mount: loop devices with what is on them, swap."""
        found: dict[str, CarriedItem] = {}
        for name in self._loops.get(point, ()):
            own = self._topology.devices[name]
            found[name] = CarriedItem(name, name, point, own)
            found |= {each.name: each for each in self.on(own.name)}
        return [*found.values(), *self._swapped(point).values()]

    def mounts(self, name: str) -> list[Mount]:
        """Return the mounts of a device or partition, by any of its names."""
        return self._mounts.get(self._topology.kernel_name(name), [])

    def shown_on(self, name: str) -> tuple[str, ...]:
        """Return what is stacked on a device, given by name, as texts."""
        device = self._topology.devices.get(name)
        return () if device is None else tuple(each.shown for each in self.on(name))

    def used_on(self, name: str) -> tuple[str, ...]:
        """Return what on a device is in use: programs lose it with the device."""
        device = self._topology.devices.get(name)
        return () if device is None else tuple(e.shown for e in self.on(name) if e.used)

    def pools(self) -> frozenset[str]:
        """Return the names of the imported ZFS pools: by the kernel, mounts, volumes."""
        known = (name for name in (*self._mounts, *self._loops) if name.startswith(POOL))
        return frozenset({*self._topology.pools, *(name.removeprefix(POOL) for name in known)})

    def _swapped(self, below: str) -> dict[str, CarriedItem]:
        """Return the swap areas on a device, or in a file system."""
        return {
            f"swap {each.path}": CarriedItem(
                each.path, f"swap ({quantity('_bytes', each.used_bytes)} used)", below, each
            )
            for each in self._swaps.get(below, ())
        }

    def _is_imported(self, pool: str) -> bool:
        return pool.removeprefix(POOL) in self.pools()

    def _shown(self, name: str) -> str:
        """Return the text for a device that sysfs does not list, or for a pool."""
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
    """Return the devices below a mount."""
    if mount.kind in _ZFS:
        return (pool_of(mount.source),)
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


def _signed(signature: BlockSignature, part: str) -> str:
    """Return the text for what is on a device that nothing holds; '' if unknown."""
    words = _UNLISTED.get(signature.kind) or _UNUSED.get(signature.kind, "")
    return words.format(signature.group or f"data of {part}") if words else ""


def unseen_uses(topology: Topology, name: str, pools: Iterable[str]) -> Iterator[str]:
    """Yield sentences about a device on which no use is seen: never that nothing uses it.

    `pools` are the imported ZFS pools. Limits: neither sysfs nor the mount table shows a program or
    a virtual machine that opened the device, a network target, or the members of a pool.
    """
    device = topology.devices.get(name)
    for part in () if device is None else (*device.partitions, name):
        signature = topology.signatures.get(part)
        if signature is not None:
            label = f" '{signature.group}'" if signature.group else ""
            yield f"{part} carries {signature.kind}{label}, which is not seen to be in use."
    if listed := ", ".join(sorted(pools)):
        yield (
            f"It may be a member of a ZFS pool: the kernel does not list the members of {listed};"
            " 'zpool status -LP POOL' does."
        )
    yield (
        "Nothing that iowarden reads shows a use of it. Programs, virtual machines and network"
        " targets may use it all the same: check that before you remove it or write to it."
    )


def path_maps(topology: Topology) -> dict[str, tuple[str, ...]]:
    """Return the multipath maps of device-mapper and NVMe with their current paths.

    Source: multipath-tools, libmultipath/devmapper.h (UUID_PREFIX); kernel,
    drivers/nvme/host/multipath.c: an NVMe drive that supports several paths has a map even with
    one.
    """
    return {
        name: device.slaves
        for name, device in topology.devices.items()
        if (device.dm_uuid or "").startswith("mpath-") or has_nvme_paths(device)
    }


def has_nvme_paths(device: Device) -> bool:
    """Whether a device is an NVMe drive that supports several paths, even if it has one."""
    return bool(device.slaves) and all(map(_NVME_PATH.fullmatch, device.slaves))


def _parents(path: str) -> Iterator[str]:
    """Yield the parent directories of a path, the nearest first."""
    while path := path.rpartition("/")[0]:
        yield path
    yield "/"
