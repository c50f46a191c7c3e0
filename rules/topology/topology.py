"""The storage stack now and until lately: sysfs drops it together with the device. Pure.

What is stacked on a device, an array or an adapter is identified by the keys of incidents
(rules/topology/device_identity.py). Units: seconds of the program's clock.
"""

from __future__ import annotations

import re
from dataclasses import field, replace
from itertools import islice
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.filesystem.mountinfo import Mount
from iowarden.collectors.printable import name as safe_name
from iowarden.collectors.procfs.swaps import Swap
from iowarden.collectors.zfs.pool_state import POOL
from iowarden.rules.topology.device_changes import DeviceChangeKind
from iowarden.rules.topology.device_identity import (
    ADAPTER,
    Identity,
    file_system_key,
    identity,
)
from iowarden.rules.topology.stack import FILE_SYSTEM, DeviceStack, path_maps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.rules.topology.device_changes import DeviceChange
    from iowarden.rules.topology.stack import CarriedItem

REMEMBERED_SECONDS = 300.0
"""For so long something that ended still counts as a cause for what was stacked on it."""
_SERVED = frozenset({"cifs", "nfs", "nfs4", "smb3"})
_SERVER = re.compile(r"(?://)?(?:\[([0-9A-Fa-f:.%]+)\]|([^/:\[]+))[:/]")
"""Source of a mount: 'server:/export', '[2001:db8::1]:/export', '//server/share'."""
MAX_RETAINED = 16_384
"""Pairs stored over a restart: a thousand disks with sixteen mounts each."""


@dataclass(frozen=True, slots=True)
class Dependent:
    """Something that is stacked on an object.

    Fields: `key` is that of its incidents; `name` is the kernel's, or a mount point; `shown` is for
    users, as last read: 'md0 (raid1)', 'swap (1.5 GiB used)'; `on` is the name of what is directly
    below it: 'sda1'; `mount`: it is a mount point, or swap.
    """

    key: str
    name: str
    shown: str = field(compare=False)
    on: str
    mount: bool = False


@dataclass(frozen=True, slots=True)
class Dependents:
    """The stack now, and what was stacked `until` lately; both by the key of the lower object.

    `pools` are the imported ZFS pools, whose members may be unknown.
    """

    now: Mapping[str, tuple[Dependent, ...]] = field(default_factory=dict)
    until: Mapping[str, Mapping[Dependent, float]] = field(default_factory=dict)
    pools: frozenset[str] = frozenset()

    def above(self, now: float) -> dict[str, frozenset[str]]:
        """Return by key of each object the keys of what is stacked on it, or was until lately."""
        keys = dict.fromkeys((*self.now, *self.until))
        return {
            key: frozenset(each.key for each in dependents_of(self, key, now)) - {key}
            for key in keys
        }


@dataclass(frozen=True, slots=True)
class StoredDependents:
    """The stack as stored over a restart; adapters are derived from their disks.

    Fields: `at_seconds` is when that was, None: never; `above` are all that are stacked on
    anything, by a number that `now` and `until` use, by the key of the lower object; `until` has
    when it ended.
    """

    at_seconds: float | None = None
    above: dict[str, Dependent] = field(default_factory=dict)
    now: dict[str, tuple[str, ...]] = field(default_factory=dict)
    until: dict[str, dict[str, float]] = field(default_factory=dict)


NO_DEPENDENTS = Dependents()


def remember(
    state: Dependents, topology: Topology, mounts: Iterable[Mount], now: float
) -> Dependents:
    """Return the stack after an update, with what has ended since the last one."""
    stack = DeviceStack(topology, mounts)
    found: dict[str, dict[Dependent, None]] = {}
    known: dict[tuple[str, str], Dependent] = {}
    """By name and lower object: many disks have the same above them."""
    for device in topology.devices.values():
        own = identity(topology, device.name)
        above: dict[Dependent, None] = {}
        for each in stack.on(device.name):
            place = each.name, each.on
            if place not in known:
                known[place] = _above(topology, each)
            above[known[place]] = None
        found.setdefault(own.key, {}).update(above)
        for parent in filter(None, (own.adapter, device.shelf)):
            itself = Dependent(own.key, device.name, own.object, parent)
            found.setdefault(f"{ADAPTER}{parent}", {}).update({itself: None, **above})
    for pool in stack.pools():
        name = f"{POOL}{pool}"
        found[name] = {_above(topology, each): None for each in stack.on(name)}
    for mount in mounts:
        if server := _server(mount):
            key = f"{FILE_SYSTEM}{mount.mount_point}"
            shown = f"{safe_name(mount.mount_point)} ({mount.kind})"
            of_it = Dependent(key, mount.mount_point, shown, server, mount=True)
            images = (_above(topology, each) for each in stack.within(mount.mount_point))
            held = found.setdefault(identity(None, server).key, {})
            held |= dict.fromkeys((of_it, *images))
    there = {key: tuple(above) for key, above in found.items() if above}
    return replace(_since(state, there, now), pools=stack.pools())


def _server(mount: Mount) -> str:
    """Return the server of a network mount, as named in the kernel's log, or ''."""
    return server_of(mount.source) if mount.kind in _SERVED else ""


def server_of(export: str) -> str:
    """Return the server of a mounted export ('nas:/home'), '' if that names none."""
    server = _SERVER.match(export)
    return (server[1] or server[2]) if server else ""


def mounted_from(dependents: Dependents, export: str) -> Identity | None:
    """Return the server of an export ('nas:/home') with what is mounted from it; None without one.

    It is one object with the server that the kernel's log names: it is the server that does not
    answer, whichever of its mounts a program waits for.
    """
    server = server_of(export)
    own = identity(None, server)
    mounts = [above.shown for above in dependents.now.get(own.key, ()) if above.mount]
    if not server or not mounts:
        return None
    return Identity(own.key, f"{mounts[0]} on {server}" if len(mounts) == 1 else server)


def without_old(state: Dependents, now: float) -> Dependents:
    """Return the stack without what ended more than 300 s ago; itself if nothing did."""
    if all(_is_late(at, now) for ended in state.until.values() for at in ended.values()):
        return state
    return _since(state, state.now, now)


def _since(state: Dependents, there: Mapping[str, tuple[Dependent, ...]], now: float) -> Dependents:
    """Return `there` as the current stack, with what has ended."""
    until: dict[str, dict[Dependent, float]] = {}
    for key in dict.fromkeys((*state.until, *state.now)):
        before, own = state.now.get(key, ()), there.get(key, ())
        if before == own and key not in state.until:
            continue
        ended = {**state.until.get(key, {}), **dict.fromkeys(before, now)}
        lately = {a: at for a, at in ended.items() if a not in own and _is_late(at, now)}
        if lately:
            until[key] = lately
    return Dependents(there, until, state.pools)


def restacked(before: Dependents, after: Dependents) -> bool:
    """Whether anything but mounts and swap changed: containers mount all day."""
    return _devices(before) != _devices(after)


def _devices(state: Dependents) -> dict[str, list[Dependent]]:
    found = ((key, [a for a in above if not a.mount]) for key, above in state.now.items())
    return {key: above for key, above in found if above}


def to_stored(state: Dependents, now: float) -> StoredDependents:
    """Return what is stored over a restart, at most MAX_RETAINED pairs, what ended lately first."""
    numbers: dict[Dependent, str] = {}
    left = MAX_RETAINED
    ended: dict[str, dict[str, float]] = {}
    there: dict[str, tuple[str, ...]] = {}
    for key, lately in state.until.items():
        if not key.startswith(ADAPTER):
            own = {
                numbers.setdefault(each, str(len(numbers))): at
                for each, at in islice(lately.items(), left)
            }
            ended |= {key: own} if own else {}
            left -= len(own)
    for key, above in state.now.items():
        if not key.startswith(ADAPTER):
            names = tuple(numbers.setdefault(e, str(len(numbers))) for e in above[:left])
            there |= {key: names} if names else {}
            left -= len(names)
    return StoredDependents(now, {number: each for each, number in numbers.items()}, there, ended)


def recalled(state: Dependents, before: StoredDependents, booted: float, now: float) -> Dependents:
    """Return the stack combined with that before a restart of the program.

    What is missing now ended during the restart: it counts for 300 s from now on. The stack of an
    earlier boot is dropped, because devices were assembled again.
    """
    if before.at_seconds is None or before.at_seconds < booted:
        return state
    above = before.above
    stood = {k: tuple(above[n] for n in own if n in above) for k, own in before.now.items()}
    ended = {
        key: {above[n]: at for n, at in own.items() if n in above}
        for key, own in before.until.items()
    }
    last = Dependents(stood, ended)
    if state is NO_DEPENDENTS:  # no update since
        return last
    last = replace(last, until={**ended, **state.until}, pools=state.pools)
    return _since(last, state.now, now)


def dependents_of(state: Dependents, key: str, now: float) -> tuple[Dependent, ...]:
    """Return what is stacked on an object, and what was in the last 300 s."""
    ended = state.until.get(key, {}).items()
    return (*state.now.get(key, ()), *(above for above, at in ended if _is_late(at, now)))


def file_system(
    state: Dependents, topology: Topology | None, name: str, on: Identity, mount_point: str = ""
) -> Identity:
    """Return the file system on a device or partition: its mount point, and where it is.

    `on` is the identity of that device, `mount_point` where it was mounted when nothing shows it.
    """
    key = _file_system_key(topology, name, on.key)
    device = None if topology is None else topology.whole(name)
    kernel = name if topology is None else topology.kernel_name(name)
    where = device.dm_name if device is not None and device.dm_name else kernel
    above = (*state.now.get(on.key, ()), *state.until.get(on.key, {}))
    shown = next((each.shown for each in above if each.mount and each.key == key), mount_point)
    if not shown:
        return Identity(key, f"file system on {where if device is None else on.object}", on.adapter)
    # With the disk's model and serial number, by which it is found in its shelf.
    _, _, label = on.object.removesuffix(")").partition(" (")
    where = f"{where}, {label}" if "serial " in label else where
    point, _, kind = shown.removesuffix(")").rpartition(" (")
    text = f"{point} ({kind} on {where})" if point else f"{shown} (on {where})"
    return Identity(key, text, on.adapter)


def _file_system_key(topology: Topology | None, name: str, device_key: str) -> str:
    """Return the key of the file system on a device: a btrfs has a UUID, even on one device."""
    system = None if topology is None else topology.btrfs.get(topology.kernel_name(name))
    if system is not None:
        return f"{FILE_SYSTEM}{system.uuid}"
    return file_system_key(topology, name, device_key)


def paths(
    state: Dependents, topology: Topology | None, now: float
) -> dict[str, dict[str, frozenset[str]]]:
    """Return by key of each disk or LUN its multipath maps with their current and recent paths.

    A path that was lost in the last 300 s still counts.
    """
    if topology is None:
        return {}
    found: dict[str, dict[str, frozenset[str]]] = {}
    maps = {identity(topology, name).key: name for name in path_maps(topology)}
    one = {name for name in maps.values() if name.startswith("nvme")}  # may have only one path
    for lower in dict.fromkeys((*state.now, *state.until)) if maps else ():
        for above in dependents_of(state, lower, now):
            if above.name == maps.get(above.key):
                own = found.setdefault(lower, {})
                own[above.key] = own.get(above.key, frozenset()) | {above.on}
    return {
        lower: several
        for lower, own in found.items()
        if not lower.startswith(ADAPTER)
        and (several := {key: on for key, on in own.items() if len(on) > 1 or maps[key] not in one})
    }


def with_dependents(
    state: Dependents, before: Topology, event: DeviceChange, now: float
) -> DeviceChange:
    """Return the event of a removed or renamed disk, with the arrays and volumes that held it."""
    name = event.was if event.change is DeviceChangeKind.RENAMED else event.name
    device = before.devices.get(name)
    if event.members or device is None or event.change is DeviceChangeKind.ADDED:
        return event
    above = dependents_of(state, event.identity.key, now)
    parts, there = {name, *device.partitions}, before.devices
    return replace(
        event, members=tuple((a.on, a.name) for a in above if a.on in parts and a.name in there)
    )


def _is_late(at: float, now: float) -> bool:
    return now - at <= REMEMBERED_SECONDS


def _above(topology: Topology, each: CarriedItem) -> Dependent:
    """Return what is stacked on something, with the key that its alerts have."""
    if isinstance(each.what, Mount):
        key = _file_system_key(topology, each.on, identity(topology, each.on).key)
        if each.on.startswith(POOL):  # an alert identifies it by its dataset
            key = identity(topology, each.what.source).key
        return Dependent(key, each.name, f"{each.shown} ({each.what.kind})", each.on, mount=True)
    if isinstance(each.what, Swap):
        return Dependent(
            identity(topology, each.on).key, each.name, each.shown, each.on, mount=True
        )
    if each.name.startswith((POOL, FILE_SYSTEM)) or not each.used:
        return Dependent(each.name, each.name, each.shown, each.on)
    level = f" ({each.what.md.level})" if each.what is not None and each.what.md else ""
    return Dependent(identity(topology, each.name).key, each.name, f"{each.shown}{level}", each.on)
