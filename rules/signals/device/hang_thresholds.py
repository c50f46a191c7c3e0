"""Stall thresholds: from when a device without a completion hangs, by the kind of device.

A spinning disk may be asleep, a virtual disk or a LUN pauses with its host or fabric, a path fails
over to another: a delay that is an alarm for one kind is normal for another. Units: seconds.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.block.block_devices import NVME_PATH, Device
from iowarden.collectors.filesystem.mountinfo import Mount
from iowarden.rules.signals import guards
from iowarden.rules.signals.guards import MEANINGS, NO_GUARD, Guard
from iowarden.rules.topology.stack import DeviceStack

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.block.scsi import ScsiTopology
    from iowarden.collectors.filesystem.mountinfo import Mounts

WARNING_SECONDS = 10.0
CRITICAL_SECONDS = (30.0, 180.0)
"""30 s is the default command timeout of SCSI and NVMe; a longer one is respected up to 180 s."""
_ROOT = "/"
_SYSTEM = frozenset(
    {_ROOT, "/usr", "/var", "/home", "/boot", "/efi", "/boot/efi", "/boot/firmware"}
)
"""Mount points of the running system: the kernel's command line, an initramfs or
systemd-gpt-auto-generator(8) mounts them without a line in '/etc/fstab'."""
_UNIONS = frozenset({"aufs", "overlay", "overlayfs", "unionfs"})
"""File systems that consist of directories of others: of a live system, or of a read-only one."""
_LAYERS = re.compile(r"(?:lowerdir|upperdir|datadir)\+?=(/.*)")
"""Options of a mount. Source: kernel, filesystems/overlayfs.rst."""
_BETWEEN = re.compile(r"(?<!\\)::?")
_OF_USERS = ("/media", "/mnt", "/run/media")
"""Below these users and udisks mount what they plug in."""
_FOR_NOW = (*_OF_USERS, "/home", "/root", "/run", "/tmp")  # noqa: S108 - is compared
"""What is mounted below these is a user's, or for a task. Elsewhere a unit of systemd, autofs,
an init script or a service has mounted it, which programs of the host rely on."""
_VOLUME = "LVM-"
"""Begins 'dm/uuid' of a volume. Source: lvm2, lib/activate/dev_manager.c (UUID_PREFIX)."""


class HangThresholds(NamedTuple):
    """Seconds from which a stall of one device is reported; None: never with that severity."""

    warning_seconds: float | None
    critical_seconds: float | None
    notice_seconds: float | None = None
    spins: bool = False
    """Whether it may have to spin up first."""
    guards: frozenset[Guard] = NO_GUARD
    """What it is, as far as it permits stalls."""


class WatchedKinds(NamedTuple):
    """Devices monitored for stalls: every leaf device, and every multipath map."""

    limits: Mapping[str, HangThresholds]
    maps: Mapping[str, tuple[str, ...]]
    """Multipath map -> its paths."""
    keys: Mapping[str, str]
    """Device -> key that distinguishes it from another device of the same name."""
    given_up_seconds: dict[str, float]
    """Device -> how old a request can be that the kernel has not given up; inf: it never does."""


NOTHING = WatchedKinds({}, {}, {}, {})


def kinds(
    topology: Topology,
    scsi: ScsiTopology | None = None,
    mounts: Mounts | None = None,
) -> WatchedKinds:
    """Return the limits of all leaf devices and maps; an unknown kind is an ordinary disk."""
    maps = _maps(topology)
    paths = {path for own in maps.values() for path in own}
    limits: dict[str, HangThresholds] = {}
    given_up: dict[str, float] = {}
    hosts = guards.host_kinds(scsi)
    stack = None if mounts is None else DeviceStack(topology, mounts.mounts)
    system = frozenset() if mounts is None else _of_system(mounts)
    for name in topology.leaves:
        device = topology.devices[name]
        critical = _critical(device)
        if name in paths:
            limits[name] = HangThresholds(None, None, WARNING_SECONDS)
        elif guards.is_removable(device, hosts, topology) and not _is_needed(
            device, stack, mounts, system
        ):
            spins = device.rotational is not False
            limits[name] = _guarded(Guard.REMOVABLE, None, spins=spins)
        elif guards.is_virtual(device, hosts):
            virtual = _guarded(Guard.VIRTUAL, critical)
            limits[name] = virtual._replace(notice_seconds=WARNING_SECONDS)
        else:
            spins = device.rotational is not False and not name.startswith("nvme")
            limits[name] = HangThresholds(WARNING_SECONDS, critical, spins=spins)
        given_up[name] = guards.given_up_seconds(device, hosts)
    for name, own in maps.items():
        longest = max(_critical(topology.devices[path]) for path in own)
        limits[name] = _guarded(Guard.MULTIPATH, MEANINGS[Guard.MULTIPATH].min_seconds + longest)
        given_up[name] = max(given_up[path] for path in own)
    keys = {name: _key(topology.devices[name]) for name in limits}
    return WatchedKinds(limits, maps, keys, given_up)


def given_up_seconds(kinds: WatchedKinds, awaited: Collection[str]) -> Mapping[str, float]:
    """Return for each device how old a request can be, inf: as old as it is shown.

    `awaited`: devices whose requests tasks wait for, however old these are.
    """
    return kinds.given_up_seconds | dict.fromkeys(kinds.limits.keys() & awaited, math.inf)


def _guarded(
    guard: Guard, critical_seconds: float | None, *, spins: bool = False
) -> HangThresholds:
    least = MEANINGS[guard].min_seconds
    return HangThresholds(least, critical_seconds, spins=spins, guards=frozenset({guard}))


def _critical(device: Device) -> float:
    low, high = CRITICAL_SECONDS
    return min(max(device.timeout_seconds or low, low), high)


def _maps(topology: Topology) -> dict[str, tuple[str, ...]]:
    """Return the maps of device-mapper's and of NVMe's multipath that have paths.

    Source: multipath-tools, libmultipath/devmapper.h (UUID_PREFIX); kernel,
    drivers/nvme/host/multipath.c. An NVMe drive with a single path cannot fail over.
    """
    found = {}
    for name, device in topology.devices.items():
        paths = tuple(path for path in device.slaves if path in topology.leaves)
        is_map = (device.dm_uuid or "").startswith("mpath-")
        if paths and (is_map or (len(paths) > 1 and all(map(NVME_PATH.fullmatch, paths)))):
            found[name] = paths
    return found


def _is_needed(
    device: Device, stack: DeviceStack | None, mounts: Mounts | None, system: Collection[str]
) -> bool:
    """Whether the host uses something on a device, and not only who plugged it in; True if unknown.

    It swaps there, runs an array, pool or cluster with it, or has mounted it: by '/etc/fstab', as
    part of the running system, or where users mount nothing. A line with 'noauto' is for a user.
    A volume is what is mounted of it; with nothing mounted a guest or a database uses it.
    """
    if stack is None or mounts is None or mounts.wanted is None:
        return True
    carried = stack.on(device.name)
    points = [each.name for each in carried if isinstance(each.what, Mount)]
    if any(_is_of_host(point, mounts, system) for point in points):
        return True
    return any(
        each.what.md is not None or (not points and (each.what.dm_uuid or "").startswith(_VOLUME))
        if isinstance(each.what, Device)
        else each.used and each.name not in points
        for each in carried
    )


def _is_of_host(point: str, mounts: Mounts, system: Collection[str]) -> bool:
    """Whether something is mounted for the host, by where it is mounted."""
    if point in system or mounts.is_mounted_at_boot(point):
        return True
    is_for_now = f"{point}/".startswith(tuple(f"{at}/" for at in _FOR_NOW))
    return not is_for_now and point not in (mounts.wanted or {})


def _of_system(mounts: Mounts) -> frozenset[str]:
    """Return the mount points of the running system, with those of the layers of a union."""
    system = _SYSTEM - (mounts.wanted or {}).keys() | {_ROOT}
    unions = [each for each in mounts.mounts if each.kind in _UNIONS and each.mount_point in system]
    return system.union(*(_below_union(each, mounts) for each in unions))


def _below_union(union: Mount, mounts: Mounts) -> frozenset[str]:
    """Return the mount points of what a union consists of.

    An initramfs mounts the layers, and may move them afterwards: the options name them by where
    they were. A layer that is not there may be anything that no user has mounted.
    """
    points = {each.mount_point for each in mounts.mounts} - {_ROOT, union.mount_point}
    layers = [
        layer.replace("\\:", ":")
        for option in union.super_options
        if (named := _LAYERS.fullmatch(option)) is not None
        for layer in _BETWEEN.split(named[1])
    ]
    found = {next((each for each in _upwards(layer) if each in points), "") for layer in layers}
    if layers and "" not in found:
        return frozenset(found)
    return frozenset(
        point for point in points if not f"{point}/".startswith(tuple(f"{at}/" for at in _OF_USERS))
    ).union(found)


def _upwards(path: str) -> Iterator[str]:
    """Yield a path and the directories above it."""
    while len(path) > 1:
        yield path
        path = path.rpartition("/")[0]


def _key(device: Device) -> str:
    # Without serial number and WWN, diskseq recognizes at least a replacement within this boot.
    own = device.serial or device.wwn or device.diskseq or ""
    return f"{device.name} {device.model or ''} {own}"
