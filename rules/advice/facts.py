"""Facts for advice: the kind of an alert's device, what it is built on, and its arrays.

Pure. Only this module decides whether a member may be removed from its array: not if the array
does not run, if its redundancy is not known or not sufficient, or if several members have faults
at the same time.
Sources: kernel, admin-guide/md.rst (degraded, dev-XXX/state); ABI/testing/sysfs-block-dm (uuid);
lvm2, libdm, dm_build_dm_name and the prefixes 'LVM-', 'CRYPT-', 'mpath-' of its callers.
"""

from __future__ import annotations

import enum
import re
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.block.block_devices import NVME_PATH, Topology
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.filesystem.mountinfo import Mount
from iowarden.collectors.redundancy import survives
from iowarden.collectors.smart.drive import ReadStatus
from iowarden.rules.advice.dirty_limits import NO_BACKLOG
from iowarden.rules.faults import Fault, Layer
from iowarden.rules.incidents import causes
from iowarden.rules.incidents.common_parents import TOGETHER_DISKS
from iowarden.rules.severity import Severity
from iowarden.rules.signals import guards
from iowarden.rules.topology import device_identity
from iowarden.rules.topology.device_identity import ADAPTER, is_part
from iowarden.rules.topology.redundancy import in_use, last_holders, md_groups, runs
from iowarden.rules.topology.slot_map import DeviceIndex, DeviceMap
from iowarden.rules.topology.stack import DeviceStack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.block.block_devices import Device, Md
    from iowarden.collectors.md import mdstat
    from iowarden.collectors.model import Chunk
    from iowarden.rules.advice.dirty_limits import Backlog
    from iowarden.rules.alerting.alerts import Alert

_NO_TROUBLE = frozenset((Fault.PRESSURE, Fault.SETTING, Fault.UNREADABLE, Fault.ITSELF, Fault.FULL))
"""Faults that do not count against a member: settings, speed, unreadable data."""
SLOWER = 2.0
"""A disk is slow if another one writes so many times as fast."""
_OUTSIDE = frozenset(
    (
        *("DiskInterfaceCrcErrors", "DiskInterfaceCrcErrorsInBaseline"),
        *("DiskTemperatureHigh", "DiskTemperatureAboveLimit"),
    )
)
"""Alerts of cables and heat, which do not count against a member either."""
_FULL_POOLS = frozenset(("dm_pool_full", "ThinPoolOutOfSpace"))
"""Alerts of thin pools without space whose fault is what follows from it."""
_SNAPSHOTS = frozenset(("SnapshotFull", "SnapshotInvalid", "dm_snapshot_invalid"))
"""Alerts of snapshots that are full, or lost because they were."""
_SD_NAME = re.compile(r"sd[a-z]+")
_NVME = re.compile(r"nvme(\d+)n\d+", re.ASCII)


class DeviceKind(enum.StrEnum):
    """What a block device is."""

    ATA = "SATA disk"
    SCSI = "SAS disk"
    NVME = "NVMe drive"
    VOLUME = "volume of a RAID controller"
    LUN = "LUN of a storage array"
    VIRTUAL = "virtual disk"
    PATH = "path"
    MAP = "multipath map"
    LV = "logical volume"
    CRYPT = "encrypted volume"
    MAPPED = "mapped device"
    MD = "md array"
    LOOP = "loop device"
    OTHER = "block device"


DISKS = frozenset({DeviceKind.ATA, DeviceKind.SCSI, DeviceKind.NVME})
"""Kinds that are one physical disk each."""
MAPPED = frozenset({DeviceKind.MAP, DeviceKind.LV, DeviceKind.CRYPT, DeviceKind.MAPPED})


UNREADABLE = frozenset(
    "DiskFailing DiskAttributeFailed DiskErrorsIncreased DiskPendingSectors DiskUncorrectedErrors"
    " NvmeMediaErrorsIncreased MdMemberReadErrors MdMemberWantReplacement MdMemberBadBlocks"
    " block_medium_error scsi_medium_error ata_medium_error nvme_medium_error"
    " md_read_uncorrectable scan_bad_range scan_gave_up".split()
)
"""Alerts and events of a disk that loses its data, or will."""


@dataclass(frozen=True, slots=True)
class AdviceInputs:
    """The input of advice.

    Fields: `in_trouble` are the disks, paths and volumes that alerts are about now, `adapters`
    the SCSI hosts that are faulty as a whole, `slow` the disks that a backlog of writes waits
    for, `paths` the number of paths of each multipath map by state, `full` the mapped devices
    without free space, `snapshots` those of LVM that are full or lost, `unfit` the disks that
    are offline, failed or unreadable, `backlog` the unwritten data that programs wait for.
    """

    map: DeviceMap = field(default_factory=DeviceMap)
    mounts: tuple[Mount, ...] = ()
    in_trouble: frozenset[str] = frozenset()
    adapters: frozenset[str] = frozenset()
    slow: tuple[str, ...] = ()
    paths: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    full: frozenset[str] = frozenset()
    snapshots: frozenset[str] = frozenset()
    unfit: frozenset[str] = frozenset()
    backlog: Backlog = NO_BACKLOG


@dataclass(frozen=True, slots=True)
class PathCounts:
    """The paths of a multipath map: all, those that are known to work, and those known not to.

    Fields: `good` are the names of the paths without a known fault, () if they are not determined.
    """

    every: int
    working: int
    failed: int
    good: tuple[str, ...] = ()

    @property
    def unknown(self) -> int:
        """The number of paths of which it is not known whether they work."""
        return self.every - self.working - self.failed


@dataclass(frozen=True, slots=True)
class Membership:
    """A device as a member of an array.

    Fields: `spare_redundancy`: the number of further members that the array can lose for certain,
    None: not known; `troubled` are the members in sync that have faults, including this one;
    `refusal` is why this one must not be removed, '' if it may be; `last`: it holds data that no
    other member has.
    """

    array: mdstat.MdArray
    member: mdstat.ArrayMember
    spare_redundancy: int | None
    troubled: tuple[str, ...]
    refusal: str
    last: bool = False

    @property
    def faulty(self) -> bool:
        """Whether the array no longer uses it."""
        return "faulty" in self.member.states

    @property
    def used(self) -> bool:
        """Whether the array uses it."""
        return in_use(self.member)


def advice_inputs(
    where: DeviceMap,
    mounts: Iterable[Mount],
    alerts: Iterable[Alert],
    slow: Iterable[str] = (),
    paths: Mapping[str, Mapping[str, int]] | None = None,
    unwritten: Backlog = NO_BACKLOG,
) -> AdviceInputs:
    """Return the input of advice, with the devices that these alerts are about."""
    facts = Facts(AdviceInputs(where))
    troubled: set[str] = set()
    unfit: set[str] = set()
    adapters: set[str] = set()
    full: set[str] = set()
    snapshots: set[str] = set()
    for alert in alerts:
        if not alert.active or alert.severity < Severity.WARNING:
            continue
        if alert.subject.startswith(ADAPTER):
            adapters.add(alert.subject.removeprefix(ADAPTER))
        meaning = causes.meaning(alert)
        if alert.name in _SNAPSHOTS:
            snapshots.add(alert.label("device"))
        elif meaning.layer is Layer.MAPPED and (
            meaning.fault is Fault.FULL or alert.name in _FULL_POOLS
        ):
            full.add(alert.label("device"))
        if meaning.fault in _NO_TROUBLE or alert.name in _OUTSIDE:
            continue
        if meaning.layer >= Layer.FILE_SYSTEM:
            continue  # a file system may fail on a healthy disk
        covered = where.disks.get(alert.label("disk"))
        names = (
            alert.label("member") or alert.label("device"),
            *(covered.leaves if covered else ()),
        )
        for name in filter(None, names):
            device = facts.device(name)
            if device is None or device.leaf:
                troubled.add(name if device is None else device.name)
                if alert.name in UNREADABLE or meaning.fault in {Fault.FAILED, Fault.READ_ONLY}:
                    unfit.add(name if device is None else device.name)
    hosts: dict[str, list[str]] = {}
    for device in facts.index.devices:
        if device.leaf:
            hosts.setdefault(device.host or "", []).append(device.name)
    for host, leaves in hosts.items():
        bad = sum(leaf in troubled for leaf in leaves)
        if host and len(leaves) > 1 and bad >= min(TOGETHER_DISKS, len(leaves)):
            adapters.add(host)
    return AdviceInputs(
        where,
        tuple(mounts),
        frozenset(troubled),
        frozenset(adapters),
        tuple(slow),
        paths or {},
        frozenset(full),
        frozenset(snapshots),
        frozenset(unfit),
        unwritten,
    )


def slow(chunks: Iterable[Chunk]) -> list[str]:
    """Return the disks that a backlog of writes waits for, from the last samples.

    Of several that write, those that are half as fast as the fastest, or slower.
    """
    speeds = {
        dict(labels)["device"]: value
        for chunk in chunks
        for _, samples in chunk.of(("iowarden_device_write_bandwidth_bytes_per_second",))
        for _, labels, value in samples
        if value > 0
    }
    fastest = max(speeds.values(), default=0.0)
    return [name for name, speed in speeds.items() if len(speeds) == 1 or speed <= fastest / SLOWER]


def multipath(chunks: Iterable[Chunk]) -> dict[str, dict[str, int]]:
    """Return by multipath map how many paths it has by state, from the last samples."""
    found: dict[str, dict[str, int]] = {}
    for chunk in chunks:
        for _, samples in chunk.of(("iowarden_multipath_paths",)):
            for _, labels, value in samples:
                own = dict(labels)
                found.setdefault(own["device"], {})[own["state"]] = int(value)
    return found


class Facts:
    """Facts by the names that are used in labels."""

    def __init__(self, of: AdviceInputs) -> None:
        """Index the facts; they do not change meanwhile."""
        self.of = of
        self.index = DeviceIndex(of.map)
        self._stack = DeviceStack(of.map.topology or Topology({}), of.mounts)
        self._disks = {leaf: each for each in of.map.disks.values() for leaf in each.leaves}

    # names

    def device(self, name: str) -> Device | None:
        """Return a device by any of its names; of a partition its disk."""
        return self.index.whole(name)

    def node(self, name: str) -> str:
        """Return the '/dev/...' of a device or partition, by its common name."""
        device = self.device(name)
        plain = name.removeprefix("/dev/")
        if device is not None and device.dm_name and plain not in device.partitions:
            return f"/dev/mapper/{device.dm_name}"
        return f"/dev/{plain}"

    def leaves(self, device: Device) -> tuple[Device, ...]:
        """Return the leaf devices (disks, volumes, paths) below a device; itself if it is one."""
        return tuple(each for each in self.below(device) if not each.slaves)

    def below(self, device: Device) -> tuple[Device, ...]:
        """Return a device and all that it is built on, from top to bottom."""
        found = {device.name: device}
        todo = [device]
        while todo:
            for name in todo.pop(0).slaves:
                below = self.index.whole(name)
                if below is not None and below.name not in found:
                    found[below.name] = below
                    todo.append(below)
        return tuple(found.values())

    def mounted_on(self, device: Device) -> list[Device]:
        """Return the devices that the file systems on a device are mounted from.

        Not of btrfs and ZFS, whose writes are counted by the file system and not by its devices,
        nor of a file in a file system: its writes reach the disk through that file system.
        """
        mounted = (
            each.on
            for each in self._stack.on(device.name)
            if isinstance(each.what, Mount) and not each.what.anonymous
        )
        tops = (self.index.whole(name) for name in mounted)
        found = {each.name: each for each in tops if each and not each.name.startswith("loop")}
        return list(found.values())

    def mounts_of(self, name: str) -> list[Mount]:
        """Return the mounts of a device or partition, by any of its names."""
        return self._stack.mounts(name)

    def shown(self, device: Device) -> str:
        """Return a disk's name, model, serial number and slot, to find it in the host."""
        own = device_identity.identity(self.of.map.topology, device.name).object
        covered = self._disks.get(device.name)
        return f"{own} in {covered.slot}" if covered and covered.slot else own

    def disk(self, device: Device) -> str:
        """Return the label 'disk' of a device, if its SMART data is polled, else ''."""
        covered = self._disks.get(device.name)
        return "" if covered is None else covered.disk

    # what it is

    def kind(self, device: Device) -> DeviceKind:
        """Return the kind of a device."""
        if device.md is not None or device.name in self.of.map.arrays:
            return DeviceKind.MD
        if device.dm_name is not None or device.name.startswith("dm-"):
            return self._mapped_kind(device)
        if device.name.startswith("loop"):
            return DeviceKind.LOOP
        if self.map_of(device) is not None or NVME_PATH.fullmatch(device.name):
            return DeviceKind.PATH
        if device.name.startswith("nvme"):
            return DeviceKind.NVME
        covered = self._disks.get(device.name)
        remote = device.host in self.of.map.fabrics
        if remote or (covered is not None and covered.status is ReadStatus.LUN):
            return DeviceKind.LUN
        unasked = covered is not None and covered.status is ReadStatus.NO_SMART
        if unasked or guards.is_of_hypervisor(device):
            return DeviceKind.VIRTUAL
        if not device.address and not _SD_NAME.fullmatch(device.name):
            return DeviceKind.OTHER
        if self.controller_of(device):
            return DeviceKind.VOLUME
        return DeviceKind.ATA if device.vendor == "ATA" or device.port else DeviceKind.SCSI

    def _mapped_kind(self, device: Device) -> DeviceKind:
        if self._is_map(device):
            return DeviceKind.MAP
        for prefix, kind in (("LVM-", DeviceKind.LV), ("CRYPT-", DeviceKind.CRYPT)):
            if (device.dm_uuid or "").startswith(prefix):
                return kind
        return DeviceKind.MAPPED

    def _is_map(self, device: Device) -> bool:
        """Whether a device is a multipath map; without its UUID, whether all below is one disk."""
        if device.dm_uuid is not None or not device.dm_name:
            return (device.dm_uuid or "").startswith("mpath-")
        below = {self.index.subject(name).key for name in device.slaves}
        return len(device.slaves) > 1 and len(below) == 1

    def map_of(self, device: Device) -> Device | None:
        """Return the multipath map that a device is a path of."""
        for name in device.holders:
            holder = self.index.whole(name)
            if holder is not None and self._is_map(holder):
                return holder
        return None

    def controller_of(self, device: Device) -> str:
        """Return the name of the RAID controller that presents a device as a volume, or ''."""
        for card in self.of.map.controllers:
            if device.host and self.index.host(card) == device.host:
                passed = any(d.serial and d.serial == device.serial for d in card.disks)
                return "" if passed else card.name
        hidden = (
            each.polled.target.controller
            for each in self.of.map.disks.values()
            if each.polled is not None and each.polled.target.behind_raid()
        )
        return device.host or "" if device.host and device.host in hidden else ""

    def nvme_controllers(self, device: Device) -> tuple[str, ...]:
        """Return the controllers of a namespace or of a path to one: 'nvme0'."""
        own = NVME_PATH.fullmatch(device.name)
        if own:
            return (f"nvme{own[2]}",)
        paths = [found for name in device.slaves if (found := NVME_PATH.fullmatch(name))]
        plain = _NVME.fullmatch(device.name)
        return tuple(f"nvme{p[2]}" for p in paths) or ((f"nvme{plain[1]}",) if plain else ())

    # arrays

    def paths(self, of_map: Device) -> PathCounts:
        """Return how many paths of a map are known to work, and how many not to.

        Where device-mapper or NVMe shows which have failed, the others work: the paths of a LUN
        have one serial number, so that a fault of one is found at all of them.
        """
        good = [n for n in of_map.slaves if n not in self.of.in_trouble]
        states = self.of.paths.get(of_map.name, {})
        every = max(sum(states.values()), len(of_map.slaves))
        broken = sum(states.get(each, 0) for each in ("lost", "failed", "waiting"))
        failed = broken if broken and states.get("working") else max(every - len(good), broken)
        working = min(states.get("working", 0), every - failed)
        return PathCounts(
            every, working, failed, tuple(good if every - failed == len(good) else ())
        )

    def geometry(self, array: mdstat.MdArray) -> Md | None:
        """Return the geometry of an array, if it is known."""
        holder = self.index.whole(array.name)
        return None if holder is None else holder.md

    def spare_redundancy(self, array: mdstat.MdArray) -> int | None:
        """Return how many further members an array can lose for certain; None: not known."""
        return survives(md_groups(array, self.geometry(array)))

    def last_copies_in_trouble(self, array: mdstat.MdArray) -> bool:
        """Return whether a disk is in trouble that holds what no other one of an array has."""
        return any(map(self._is_troubled, last_holders(array, self.geometry(array))))

    def is_unfit(self, name: str) -> bool:
        """Return whether a disk below a device is offline, failed, or cannot read."""
        device = self.device(name)
        return device is not None and any(d.name in self.of.unfit for d in self.leaves(device))

    def memberships(self, name: str) -> list[Membership]:
        """Return what a device, its partitions or what is mapped on it are members of."""
        device = self.device(name)
        found = []
        for array in self.of.map.arrays.values():
            for member in array.members:
                below = self.device(member.device)
                if below is None:
                    mine = is_part(member.device, name.removeprefix("/dev/"))
                else:
                    own = (below, *self.leaves(below))
                    mine = device is not None and device.name in {each.name for each in own}
                if mine:
                    found.append(self._membership(array, member))
        return found

    def _membership(self, array: mdstat.MdArray, member: mdstat.ArrayMember) -> Membership:
        left = self.spare_redundancy(array)
        used = [m for m in array.members if in_use(m)]
        troubled = tuple(m.device for m in used if m is member or self._is_troubled(m.device))
        refusal = self._refusal(array, member, left, troubled)
        last = member.device in last_holders(array, self.geometry(array))
        return Membership(array, member, left, troubled, refusal, last)

    def _refusal(
        self,
        array: mdstat.MdArray,
        member: mdstat.ArrayMember,
        left: int | None,
        troubled: tuple[str, ...],
    ) -> str:
        if not runs(array):
            return f"{array.name} does not run"
        if not in_use(member):
            return ""  # the array does not use it
        if left is None:
            return f"it is not known how many members {array.name} can lose"
        below = self.device(member.device)
        hosts = () if below is None else dict.fromkeys(d.host for d in self.leaves(below))
        for host in hosts:
            if host in self.of.adapters:
                return f"its adapter ({host}) is faulty, which affects all of its disks"
        if left == 0:
            return f"{array.name} ({array.level}) has no redundancy left"
        if len(troubled) > 1:
            return (
                f"{len(troubled)} members of {array.name} ({array.level}) have faults"
                f" ({', '.join(troubled)}), mostly of one common cause; the array can lose {left}"
            )
        return ""

    def _is_troubled(self, name: str) -> bool:
        device = self.device(name)
        if device is None:
            return True  # it is no longer there
        leaves = self.leaves(device)
        if self.kind(device) is DeviceKind.MAP:  # of several paths one that works is enough
            counts = self.paths(device)
            return counts.failed > 0 and counts.working == 0
        return any(leaf.name in self.of.in_trouble for leaf in leaves)
