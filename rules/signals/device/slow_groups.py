"""Which disks can be compared with each other: members of an array, and siblings. Pure.

Coupled disks get the same load: members of one array with redundancy. Siblings only share an
adapter or an enclosure. Only disks of one class are compared: rotating or not, zones, transport,
and size within 10 %.

*Limits:* which disks of a ZFS pool are in one vdev is not known from udev, so they count as
siblings only. The level of a dm-raid volume is not known either: with two images it is a mirror,
with more only its writes are compared.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.block.block_devices import NVME_PATH
from iowarden.collectors.dataclass import dataclass
from iowarden.rules.signals import guards
from iowarden.rules.signals.queue import volume
from iowarden.rules.topology import device_identity
from iowarden.rules.topology.redundancy import PARITY
from iowarden.rules.topology.stack import path_maps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from iowarden.collectors.block.block_devices import Device, Topology
    from iowarden.collectors.block.enclosure import EnclosureSlot
    from iowarden.collectors.block.queue import Queue
    from iowarden.collectors.block.scsi import ScsiTopology
    from iowarden.collectors.md.mdstat import MdArray
    from iowarden.collectors.model import Labels
    from iowarden.collectors.smart.drive import Disks

AGAINST = ("array", "siblings", "itself")
"""What a disk is compared with."""
SIZE_RATIO = 1.1
MIN_MEMBERS = 3
_COPIES = frozenset({"raid1", "raid10"})
_IMAGE, _METADATA = re.compile(r".*_rimage_\d+"), re.compile(r".*_rmeta_\d+")
"""Parts of a dm-raid volume. Source: lvm2, lib/metadata/raid_manip.c (_generate_raid_name)."""
_SYNCED = frozenset({"resync", "reshape"})
"""While these run, any member may be the one that is written."""


DiskClass = tuple[bool, str]
"""Whether it rotates, and its transport: 'nvme', 'ATA', 'SCSI'."""


class Kind(NamedTuple):
    """What is slow for a kind of disk. Units: seconds; `mirror_excess`: copies, no parity."""

    floor: float
    excess: float
    severe: float
    mirror_excess: float


HDD = Kind(0.001, 0.020, 0.100, 0.050)
SSD = Kind(0.0002, 0.002, 0.020, 0.005)
NVME = Kind(0.00005, 0.0005, 0.005, 0.001)
JIFFY_SECONDS = 0.010
"""Least floor of kernels that count times in jiffies: before 5.0. (Requests have their start in
nanoseconds from commit 522a777566f5 on, 4.18; that 5.0 is the first to count all times so was not
checked.)"""


class Group(NamedTuple):
    """Coupled disks of one class. `mirror`: only writes, and one peer is enough."""

    members: tuple[str, ...]
    mirror: bool
    reads: bool


class Facts(NamedTuple):
    """What the groups follow from."""

    topology: Topology
    hosts: guards.Hosts
    zoned: frozenset[str]
    slots: Mapping[str, str]
    """Disk -> its enclosure."""


class SampleLabels(NamedTuple):
    """The labels of a disk's samples, made once: there are thousands of samples."""

    device: Labels
    short: Labels
    """Of a mean over one window."""
    against: Mapping[str, Labels]


@dataclass(frozen=True, slots=True)
class Groups:
    """All disks of a host that can be judged."""

    of: Facts
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    """Every disk that is judged at all."""
    coupled: tuple[Group, ...] = ()
    grouped: frozenset[str] = frozenset()
    """The disks in `coupled`."""
    siblings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By adapter or enclosure with the class; only disks with an identity of their own."""
    home: Mapping[str, str] = field(default_factory=dict)
    """Disk without peers in an array, but for a mirror's -> its key in `siblings`."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Disk -> its serial number or what else distinguishes it."""
    physical: frozenset[str] = frozenset()
    """Without virtual disks, LUNs, RAID volumes and paths of multipath devices."""
    places: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """Disk -> its adapter and enclosure, as labels."""
    labels: Mapping[str, SampleLabels] = field(default_factory=dict)
    leaves: Mapping[str, str] = field(default_factory=dict)
    """Disk -> the device whose counters are its own: of an NVMe drive with one path, that path."""


def facts(
    topology: Topology,
    scsi: ScsiTopology | None,
    queues: Mapping[str, Queue] | None,
    enclosures: Iterable[EnclosureSlot] | None,
) -> Facts:
    """Return the part of the data sources that the groups depend on, and that hardly changes."""
    return Facts(
        topology,
        guards.host_kinds(scsi),
        frozenset(n for n, own in (queues or {}).items() if own.zoned not in {None, "none"}),
        {each.device: each.enclosure for each in enclosures or () if each.device},
    )


def groups(of: Facts) -> Groups:
    """Return the disks that can be compared."""
    topology = of.topology
    drivers = {name: host.driver for name, host in of.hosts.items() if host.driver is not None}
    kinds: dict[str, Kind] = {}
    classes: dict[str, DiskClass] = {}
    paths = {path for each in path_maps(topology).values() for path in each}
    physical: set[str] = set()
    leaves: dict[str, str] = {}
    for leaf in topology.leaves:
        name = _head(topology, leaf)
        device = topology.devices[name]
        is_other = guards.is_remote(device) or guards.is_flash_card(device)
        is_other = is_other or guards.is_removable(device, of.hosts, topology)
        if is_other or NVME_PATH.fullmatch(name) or name in of.zoned:
            continue
        kinds[name], leaves[name] = _kind(device), leaf
        transport = "ATA" if device.vendor == "ATA" else "SCSI"
        transport = "nvme" if name.startswith("nvme") else transport
        classes[name] = (device.rotational is not False, transport)
        hidden = guards.is_virtual(device, of.hosts) or name in paths
        hidden = hidden or volume.is_raid_volume(device, drivers)
        if (device.serial or device.wwn) and not hidden:
            physical.add(name)
    coupled = tuple(_coupled(topology, classes, {leaf: name for name, leaf in leaves.items()}))
    places = {n: tuple(_places(topology.devices[n], of.slots.get(n))) for n in kinds}
    peered = {name for group in coupled if not group.mirror for name in group.members}
    siblings: dict[str, tuple[str, ...]] = {}
    home: dict[str, str] = {}
    for place in sorted({each for n in physical for each in places[n]}, key=_last_enclosure):
        own = [name for name in physical if place in places[name]]
        for number, members in enumerate(_of_one_class(topology, classes, own)):
            if len(members) >= MIN_MEMBERS:
                group = f"{place[0]} {place[1]} {number}"
                siblings[group] = members
                home |= dict.fromkeys((n for n in members if n not in peered), group)
    return Groups(
        of,
        kinds,
        coupled,
        frozenset(name for group in coupled for name in group.members),
        siblings,
        home,
        _keys(topology, kinds),
        frozenset(physical),
        places,
        {name: _labels(name) for name in kinds},
        leaves,
    )


def testing(disks: Disks | None) -> frozenset[str]:
    """Return the disks that run a self-test, as of their last poll."""
    polled = () if disks is None else disks.by_key.values()
    return frozenset(
        each.device
        for each in polled
        if each.polled.drive is not None
        and each.polled.drive.self_test_remaining_ratio is not None  # 0: the last tenth
    )


def treated_differently(topology: Topology, arrays: Mapping[str, MdArray] | None) -> set[str]:
    """Return the disks that an array treats differently now.

    They are being rebuilt or resynchronized, are written only in the background (write-mostly), or
    are not in use.
    """
    found: set[str] = set()
    for array in (arrays or {}).values():
        synced = array.sync_action in _SYNCED
        for member in array.members:
            states = member.states
            if synced or "write_mostly" in states or (states and "in_sync" not in states):
                own = topology.whole(member.device)
                if own is not None:
                    found.add(own.name)
    return found


def _labels(name: str) -> SampleLabels:
    device = ("device", name)
    against = {each: (("against", each), device) for each in AGAINST}
    return SampleLabels((device,), (device, ("window", "10s")), against)


def _kind(device: Device) -> Kind:
    if device.name.startswith("nvme"):
        return NVME
    return SSD if device.rotational is False else HDD


def _keys(topology: Topology, names: Iterable[str]) -> dict[str, str]:
    taken: set[str] = set()
    keys: dict[str, str] = {}
    for name in sorted(names):
        key = device_identity.identity(topology, name).key
        if not key.startswith("disk "):
            key = f"{key} {topology.devices[name].diskseq or ''}"
        keys[name] = f"{key} {name}" if key in taken else key
        taken.add(keys[name])
    return keys


def _places(device: Device, enclosure: str | None) -> Iterator[tuple[str, str]]:
    """Yield what a disk shares with others; all ATA ports are one adapter, and all NVMe drives."""
    if device.name.startswith("nvme"):
        yield "adapter", "nvme"
    elif device.port is not None:
        yield "adapter", "ata"
    elif device.host is not None:
        yield "host", device.host
    if enclosure is not None:
        yield "enclosure", enclosure


def _last_enclosure(place: tuple[str, str]) -> tuple[bool, tuple[str, str]]:
    # The siblings of a disk are those in its enclosure, if there are enough, else at its adapter.
    return place[0] == "enclosure", place


def _head(topology: Topology, leaf: str) -> str:
    """Return the NVMe drive that a device is the only path of, else the device itself.

    Drives with several controllers have such a path even if one is connected. Older kernels count
    at the path only.
    """
    for head in topology.devices[leaf].holders if NVME_PATH.fullmatch(leaf) else ():
        if topology.devices[head].slaves == (leaf,):
            return head
    return leaf


def _coupled(
    topology: Topology, classes: Mapping[str, DiskClass], disks: Mapping[str, str]
) -> Iterator[Group]:
    """Yield the groups. `disks`: by leaf."""
    for device in topology.devices.values():
        level = None if device.md is None else device.md.level
        images = _images(topology, device)
        if level in PARITY or level in _COPIES:
            members, mirror, reads = device.slaves, level == "raid1", True
        elif images:
            members, mirror, reads = images, len(images) == 2, False
        else:
            continue
        below = [disks[leaf] for name in members if (leaf := _only_leaf(topology, name)) in disks]
        for own in _of_one_class(topology, classes, below):
            if len(own) >= MIN_MEMBERS and not mirror:
                yield Group(own, mirror=False, reads=reads)
            elif len(own) > 1 and (mirror or level in _COPIES):
                yield Group(own, mirror=True, reads=False)


def _images(topology: Topology, device: Device) -> tuple[str, ...]:
    """Return the images of a dm-raid volume with metadata; one without (raid0) has no copies."""
    below = (topology.devices[each] for each in device.slaves if each in topology.devices)
    names = {each.name: each.dm_name or "" for each in below}
    if not any(map(_METADATA.fullmatch, names.values())):
        return ()
    return tuple(each for each, name in names.items() if _IMAGE.fullmatch(name))


def _only_leaf(topology: Topology, name: str) -> str:
    """Return the leaf on which a member stands; '' if these are several."""
    for _ in range(len(topology.devices)):
        device = topology.devices.get(name)
        if device is None or len(device.slaves) > 1:
            return ""
        if not device.slaves:
            return name if device.leaf else ""
        name = device.slaves[0]
    return ""


def _of_one_class(
    topology: Topology, classes: Mapping[str, DiskClass], names: Iterable[str]
) -> Iterator[tuple[str, ...]]:
    """Yield the disks by class, in order of size: each class begins with its smallest disk."""
    ordered = sorted(
        {name for name in names if name in classes},
        key=lambda name: (classes[name], topology.devices[name].size_bytes or 0, name),
    )
    own: list[str] = []
    for name in ordered:
        size = topology.devices[name].size_bytes or 0
        if own and (
            classes[name] != classes[own[0]]
            or size > SIZE_RATIO * (topology.devices[own[0]].size_bytes or 0)
        ):
            yield tuple(own)
            own = []
        own.append(name)
    if own:
        yield tuple(own)
