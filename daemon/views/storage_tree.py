"""The storage tree: from mount points and pools down to disks, with state, redundancy and place.

The one model of the machine's storage for people: 'iowarden storage' and the status page show it.
Its edges are those of rules/topology/stack.py, its numbers those of rules/topology/survival.py.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.block.block_devices import ZFS
from iowarden.collectors.model import SECTOR_BYTES
from iowarden.collectors.printable import name as safe_name
from iowarden.collectors.quantity import duration, percentage, size
from iowarden.collectors.sysfs import printable_name
from iowarden.collectors.zfs.pool_state import POOL
from iowarden.collectors.zfs.zpool_status import redundancy_groups
from iowarden.daemon.control.storage_document import StorageNode, StorageTree
from iowarden.daemon.views import storage_members as members
from iowarden.daemon.views.storage_bays import bays
from iowarden.daemon.views.storage_facts import CRITICAL, THIN_POOL, StorageFacts, is_hidden, worst
from iowarden.rules.conditions.condition import Condition
from iowarden.rules.severity import Severity
from iowarden.rules.topology.stack import DeviceStack, path_maps
from iowarden.rules.topology.survival import BTRFS, LVM

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iowarden.collectors.block.block_devices import Device, Topology
    from iowarden.collectors.zfs.zpool_status import PoolStatus, VirtualDevice
    from iowarden.daemon.views.answers import ViewInputs
    from iowarden.rules.alerting.alerts import Alert

MAX_NODES = 3000
MAX_POINTS = 3
"""Mount points that a row names: containers mount a file system a hundred times."""
_DM = {"LVM": "LVM", "CRYPT": "dm-crypt", "mpath": "multipath"}
_LEG = re.compile(r"_[rm]image_(\d+)$", re.ASCII)
_SOURCES = ("block", "mounts", "md", "zfs", "zfs_vdevs", "btrfs", "controllers", "scsi")
_FOLLOWED_SECONDS = 366 * 86_400.0
"""A file system that is full later than in a year is not full soon."""


def storage(known: ViewInputs) -> StorageTree:
    """Return the storage of the host, what is worst first."""
    facts = StorageFacts(known)
    builder = _Builder(facts)
    rows: list[list[StorageNode]] = []
    worst_of: dict[str, str] = {}
    """By device: what is wrong with it and below it, for where it is shown again."""
    for tree in builder.trees():
        own = _with_below(
            [
                replace(node, severity=worst_of.get(node.device, "")) if node.repeated else node
                for node in tree
            ]
        )
        for node in own:
            worst_of.setdefault(node.device, worst(node.severity, node.below))
        rows += [own] if own else []
    rows.sort(key=lambda tree: -_rank(worst(tree[0].severity, tree[0].below)))
    nodes = [node for tree in rows for node in tree]
    return StorageTree(
        now_seconds=known.realtime(known.now),
        host=known.host,
        nodes=tuple(nodes[:MAX_NODES]),
        omitted=max(len(nodes) - MAX_NODES, 0),
        bays=bays(facts, nodes),
        problems=tuple(text for name in _SOURCES if (text := facts.stale(name))),
    )


def _rank(severity: str) -> int:
    return Severity[severity.upper()] if severity else -1


class _Builder:
    """Walks down from what people use; each device is shown with what is below it once."""

    def __init__(self, facts: StorageFacts) -> None:
        self._facts = facts
        self._topology = facts.last.block
        self._arrays = facts.last.md or {}
        self._maps = {} if self._topology is None else path_maps(self._topology)
        self._shown: set[str] = set()
        self._used = facts.values("iowarden_filesystem_used_ratio", "mountpoint")
        self._sizes = facts.values("iowarden_filesystem_size_bytes", "mountpoint")
        self._full = facts.values("iowarden_filesystem_full_in_seconds", "mountpoint")

    def trees(self) -> Iterator[Iterator[StorageNode]]:
        """Yield the rows of each tree: file systems, pools, swap, then what nothing uses."""
        topology = self._topology
        if topology is None:
            return
        stack = DeviceStack(topology, self._facts.engine.devices.mounts())
        pools = sorted(stack.pools() | set(self._facts.last.zfs_vdevs or {}))
        for points, parts, kind in _tops(topology, stack):
            yield self._top(topology, points, parts, kind)
        for name in pools:
            yield self._pool(topology, stack, name)
        carrying = {slave for each in topology.devices.values() for slave in each.slaves}
        members = {
            name for pool in pools for name in self._pool_disks(topology, pool)
        } | self._shown
        for name, device in topology.devices.items():
            stacked = device.slaves and name not in carrying
            if name not in members | self._shown and (device.leaf or stacked):
                yield self._unused(topology, device)

    # --- what people use

    def _top(
        self, topology: Topology, points: Sequence[str], parts: Sequence[str], kind: str
    ) -> Iterator[StorageNode]:
        more = f" and {len(points) - MAX_POINTS} more" if points[MAX_POINTS:] else ""
        names = ", ".join(safe_name(point) for point in points[:MAX_POINTS]) + more
        alerts = self._facts.alerts(*points)
        node = self._facts.node(names, kind, 0, alerts)
        soon = min((self._full[p] for p in points if p in self._full), default=None)
        words = list(filter(None, (_worst_text(alerts),)))
        if soon is not None and soon < _FOLLOWED_SECONDS:
            words.append(f"full in about {duration(soon)}")
        node = replace(
            node,
            size_bytes=next((self._sizes[p] for p in points if p in self._sizes), None),
            used_ratio=next((self._used[p] for p in points if p in self._used), None),
            state="; ".join(words),
        )
        node = self._btrfs(topology, node, parts)
        yield node
        several = len(parts) > 1 or node.survives_disks is not None
        for part in parts:
            whole = topology.whole(part)
            if whole is not None:
                rows = list(self._device(topology, whole.name, 1, part))
                if node.survives_disks == 0:
                    rows[0] = replace(rows[0], note=members.KEEP)
                yield from self._as_members(rows) if several else rows
        if parts:
            yield from self._btrfs_missing(points, parts[0])

    def _btrfs(self, topology: Topology, node: StorageNode, parts: Sequence[str]) -> StorageNode:
        """Return the row of a btrfs with what it survives."""
        system = topology.btrfs.get(parts[0]) if parts else None
        if system is None:
            return node
        redundancy = self._facts.redundancy(BTRFS, system.uuid)
        alerts = self._facts.alerts(system.uuid)
        if alerts:
            own = self._facts.node(node.name, node.kind, 0, alerts)
            node = replace(own, size_bytes=node.size_bytes, used_ratio=node.used_ratio)
        listed = [d for d in self._facts.last.btrfs or () if d.filesystem == system.uuid]
        count = len(listed) or system.device_count or len(parts)
        if count == 1:
            return node
        lost = sum(bool(device.missing) for device in listed)
        profiles = [] if redundancy is None else [group.name for group in redundancy.groups]
        text = "redundancy unknown" if redundancy is None else redundancy.text
        text = f"{count - lost} of {count} devices: {text}"
        text += f" ({', '.join(profiles)})" if profiles else ""
        known = redundancy is not None and redundancy.survives is not None
        node = replace(node, state=text, unknown="" if known else "redundancy unknown")
        return members.of_redundancy(node, redundancy)

    def _btrfs_missing(self, points: Sequence[str], part: str) -> Iterator[StorageNode]:
        """Yield the devices of a btrfs that are missing."""
        system = None if self._topology is None else self._topology.btrfs.get(part)
        lost = [
            (key.rpartition(" ")[2] if key.startswith("disk ") else "", disk)
            for key, disk in self._facts.engine.devices.devices.gone.items()
            if {*points} & {*disk.carried}
        ]
        for device in self._facts.last.btrfs or ():
            if system is None or device.filesystem != system.uuid or not device.missing:
                continue
            node = StorageNode(
                name=f"(devid {device.identifier})",
                kind="disk",
                depth=1,
                severity=CRITICAL,
                state="MISSING",
                note=members.MISSING,
                is_member=True,
            )
            if lost:
                serial, disk = lost.pop(0)
                at = self._facts.known.moment(disk.at_seconds)
                node = replace(node, name=f"({disk.name})", serial=serial, since_seconds=at)
            yield node

    # --- pools

    def _pool(self, topology: Topology, stack: DeviceStack, name: str) -> Iterator[StorageNode]:
        facts = self._facts
        carried = stack.on(f"{POOL}{name}")
        above = [each.shown for each in carried]
        alerts = facts.alerts(name, *(each.name for each in carried))
        node = members.pool(facts.node(safe_name(name), "zpool", 0, alerts), name, facts)
        holds = ", ".join(above[:MAX_POINTS]) + (
            f" and {len(above) - MAX_POINTS} more" if above[MAX_POINTS:] else ""
        )
        yield replace(node, place=f"holds {holds}" if holds else "")
        devices = (facts.last.zfs_vdevs or {}).get(name)
        if devices is None or devices.reason:
            for part in self._pool_parts(topology, name):
                yield from self._as_members(list(self._part(topology, part, 1)))
            return
        yield from self._vdevs(topology, devices.status)

    def _vdevs(self, topology: Topology, status: PoolStatus) -> Iterator[StorageNode]:
        exhausted = {g.name for g in redundancy_groups(status) if g.is_exhausted}
        depth_of: dict[str, int] = {status.name: 0}
        headings = members.roles()
        for device in status.devices:
            if not device.parent:
                continue
            depth = depth_of.get(device.parent, 0) + 1
            depth_of[device.name] = depth
            shown = device.name.removeprefix("/dev/")
            if device.group:
                alerts = self._facts.alerts(shown)
                role = headings.get(device.role, "")
                node = self._facts.node(printable_name(shown), role or "vdev", depth, alerts)
                yield members.vdev(node, device, status)
                continue
            rows = self._vdev_leaf(topology, device, depth, headings.get(device.role, "disk"))
            if device.parent in exhausted and members.works(device):
                rows[0] = replace(rows[0], note=members.KEEP)
            yield from rows

    def _vdev_leaf(
        self, topology: Topology, device: VirtualDevice, depth: int, kind: str
    ) -> list[StorageNode]:
        """Return the row of a device of a pool, and what that device is made of."""
        shown = device.name.removeprefix("/dev/")
        whole = topology.whole(shown) if device.name.startswith("/") else None
        if whole is None:
            name = shown if members.works(device) else f"({shown})"
            node = self._facts.node(printable_name(name), kind, depth, self._facts.alerts(shown))
            rows = [self._missing(replace(node, place=device.note), shown)]
        else:
            rows = list(self._device(topology, whole.name, depth, topology.kernel_name(shown)))
            rows[0] = replace(rows[0], kind=kind)
        rows[0] = replace(members.leaf_vdev(rows[0], device), is_member=True)
        return rows

    def _missing(self, node: StorageNode, part: str) -> StorageNode:
        """Return the row of a disk that left, with what is remembered of it."""
        lost = self._facts.vanished(part)
        if lost is None:
            return node
        serial, disk = lost
        return replace(
            node,
            serial=serial,
            place=node.place or disk.shelf or disk.adapter,
            since_seconds=self._facts.known.moment(disk.at_seconds),
        )

    def _pool_parts(self, topology: Topology, pool: str) -> list[str]:
        """Return the members of a pool by their signatures."""
        return [
            part
            for part, signature in topology.signatures.items()
            if signature.kind == ZFS and signature.group == pool
        ]

    def _pool_disks(self, topology: Topology, pool: str) -> Iterator[str]:
        for part in self._pool_parts(topology, pool):
            if (whole := topology.whole(part)) is not None:
                yield whole.name

    # --- devices

    def _part(self, topology: Topology, part: str, depth: int) -> Iterator[StorageNode]:
        whole = topology.whole(part)
        if whole is not None:
            yield from self._device(topology, whole.name, depth, part)

    def _device(
        self, topology: Topology, name: str, depth: int, part: str = ""
    ) -> Iterator[StorageNode]:
        """Yield a device and what it is made of; the latter only the first time."""
        device = topology.devices.get(name)
        if device is None:
            yield StorageNode(name=printable_name(name), depth=depth, unknown="not in /sys/block")
            return
        again = name in self._shown and bool(device.slaves)
        node = replace(self._described(device, depth, part), repeated=again)
        self._shown.add(name)
        yield node
        if again:
            return
        if device.md is not None and name in self._arrays:
            yield from self._md_members(topology, name, depth + 1)
        elif name in self._maps:
            for slave in device.slaves:
                (first, *rest) = self._device(topology, slave, depth + 1)
                own = members.path(first, topology.devices[slave], name, self._facts)
                yield from (replace(own, is_member=True), *rest)
        elif name in self._facts.volumes:
            card, array = self._facts.volumes[name]
            yield from members.controller_disks(card, array, depth + 1, self._facts)
        elif legs := self._legs(device):
            yield from self._leg_rows(topology, device, legs, depth + 1)
        else:
            for slave, used in self._below(topology, name, {name}).items():
                yield from self._device(topology, slave, depth + 1, used)

    def _below(self, topology: Topology, name: str, passed: set[str]) -> dict[str, str]:
        """Return what a device is made of, with the part of each, without LVM's own volumes."""
        found: dict[str, str] = {}
        device = topology.devices.get(name)
        for slave in () if device is None else device.slaves:
            if not is_hidden(self._name_of(slave)):
                found.setdefault(slave, _used_part(topology, slave, name))
            elif slave not in passed:
                passed.add(slave)
                self._shown.add(slave)
                for lower, used in self._below(topology, slave, passed).items():
                    found.setdefault(lower, used)
        return found

    def _md_members(self, topology: Topology, name: str, depth: int) -> Iterator[StorageNode]:
        array = self._arrays[name]
        last = members.md_last_copies(array, self._facts)
        by_slot = sorted(array.members, key=lambda m: (m.slot is None, m.slot or 0, m.device))
        for member in by_slot:
            rows = list(self._part(topology, member.device, depth))
            if not rows:
                alerts = self._facts.alerts(member.device)
                rows = [self._facts.node(member.device, "", depth, alerts)]
            first = members.md_member(rows[0], member, array)
            if member.device in last:
                first = replace(first, note=members.KEEP)
            yield from self._as_members([first, *rows[1:]])
        yield from members.md_missing(array, depth, self._facts)

    @staticmethod
    def _as_members(rows: Sequence[StorageNode]) -> Iterator[StorageNode]:
        for number, row in enumerate(rows):
            yield replace(row, is_member=True) if number == 0 else row

    def _described(self, device: Device, depth: int, part: str) -> StorageNode:
        """Return the row of a device by what it is."""
        facts, name = self._facts, device.name
        disk = facts.disks.get(name) if device.leaf else None
        label = "" if disk is None else disk.disk
        shown = device.dm_name or (part if part in device.partitions else name)
        alerts = facts.alerts(name, part, label, device.dm_name or "")
        node = facts.node(printable_name(shown), _kind(device), depth, alerts)
        node = replace(node, size_bytes=device.size_bytes, disk=label, device=name)
        if device.md is not None:
            array = self._arrays.get(name)
            return (
                replace(node, unknown="its state is not known: md is not read")
                if array is None
                else members.md(node, array, facts)
            )
        if name in self._maps:
            return members.path_map(node, device, facts)
        if name in facts.volumes:
            return members.volume(replace(node, kind="volume"), *facts.volumes[name], facts)
        if self._legs(device):
            return self._lvm_raid(node, device)
        if shown.endswith(THIN_POOL):
            return self._thin_pool(node, shown, alerts)
        if not device.leaf:
            words = (self._thin_volume(shown), _worst_text(alerts))
            return replace(node, state="; ".join(filter(None, words)))
        return self._leaf(node, device, _worst_text(alerts))

    def _thin_pool(self, node: StorageNode, name: str, alerts: Sequence[Alert]) -> StorageNode:
        """Return the row of a thin pool: how full it is, and what it reports."""
        node = replace(node, name=name.removesuffix(THIN_POOL), kind="thin pool")
        for status in self._facts.last.dm_targets or ():
            if status.name == name and status.target == "thin-pool" and not status.unparsed:
                full = ", ".join(f"{u.area} {percentage(u.ratio)}" for u in status.usages)
                odd = [state for state in status.states if state != "rw"]
                soon = self._facts.values("iowarden_dm_full_in_seconds", "name").get(name)
                if soon is not None and soon < _FOLLOWED_SECONDS:
                    odd.append(f"full in about {duration(soon)}")
                # That it is nearly full is said.
                others = [a for a in alerts if a.label("condition") != Condition.SPACE_LOW]
                words = (full, ", ".join(odd), _worst_text(others))
                return replace(node, state="; ".join(filter(None, words)))
        return replace(node, state=_worst_text(alerts), unknown="how full it is is not known")

    def _thin_volume(self, name: str) -> str:
        """Return how much of its pool a thin volume takes, '' for other devices."""
        for status in self._facts.last.dm_targets or ():
            if status.name == name and status.mapped_sectors is not None:
                return f"takes {size(status.mapped_sectors * SECTOR_BYTES)} of its pool"
        return ""

    def _legs(self, device: Device) -> dict[int, str]:
        """Return the devices that hold the data of a RAID volume of LVM, by number."""
        legs = ((_LEG.search(self._name_of(slave)), slave) for slave in device.slaves)
        return {int(match[1]): slave for match, slave in legs if match}

    def _leg_rows(
        self, topology: Topology, device: Device, legs: dict[int, str], depth: int
    ) -> Iterator[StorageNode]:
        """Yield what the legs of a RAID volume of LVM are on, with the state of each."""
        name = device.dm_name or ""
        redundancy = self._facts.redundancy(LVM, name)
        exhausted = redundancy is not None and redundancy.survives == 0
        states = {
            leg.position: leg.state
            for status in self._facts.last.dm_targets or ()
            if status.name == name and status.target in {"raid", "mirror"}
            for leg in status.legs
        }
        self._shown.update(device.slaves)
        for number, slave in sorted(legs.items()):
            for below, used in self._below(topology, slave, {device.name}).items():
                rows = list(self._device(topology, below, depth, used))
                first = members.leg(rows[0], states.get(str(number), ""), exhausted=exhausted)
                yield from self._as_members([first, *rows[1:]])

    def _lvm_raid(self, node: StorageNode, device: Device) -> StorageNode:
        redundancy = self._facts.redundancy(LVM, device.dm_name or device.name)
        node = replace(node, kind="LVM RAID")
        if redundancy is None or redundancy.survives is None:
            return replace(node, unknown="redundancy unknown: 'dmsetup status' was not read")
        group = redundancy.groups[0]
        text = f"{group.working} of {group.members} legs: {redundancy.text}"
        return members.of_redundancy(replace(node, state=text), redundancy)

    def _leaf(self, node: StorageNode, device: Device, state: str) -> StorageNode:
        facts = self._facts
        host = facts.silent_hosts.get(device.host or "")
        unknown = facts.unreadable(device.name)
        if host:
            unknown = f"{host} does not answer: its volumes and disks are not known"
        serial = facts.serial(device)
        return replace(
            node,
            state=state,
            serial=serial,
            place=facts.place(device),
            unknown=unknown,
            temperature_celsius=facts.temperature(device.name),
        )

    def _name_of(self, name: str) -> str:
        device = None if self._topology is None else self._topology.devices.get(name)
        return "" if device is None else device.dm_name or ""

    def _unused(self, topology: Topology, device: Device) -> Iterator[StorageNode]:
        """Yield a device on which no use is seen, with its signatures."""
        rows = list(self._device(topology, device.name, 0))
        parts = (*device.partitions, device.name)
        found = [(p, topology.signatures[p]) for p in parts if p in topology.signatures]
        signed = [f"{p} {s.kind} {s.group}".strip() for p, s in found[:MAX_POINTS]]
        text = f"no use is seen ({', '.join(signed)})" if signed else "no use is seen"
        first = rows[0]
        yield replace(first, state="; ".join(filter(None, (first.state, text))))
        yield from rows[1:]


def _used_part(topology: Topology, name: str, holder: str) -> str:
    """Return the part of a device that a holder uses."""
    device = topology.devices.get(name)
    uses = () if device is None else device.uses
    return next((part for part, used_by in uses if used_by == holder), "")


def _worst_text(alerts: Sequence[Alert]) -> str:
    """Return what the worst alert of an object reports, from a warning on."""
    if not alerts or alerts[0].severity < Severity.WARNING:
        return ""
    return alerts[0].summary


def _with_below(nodes: Sequence[StorageNode]) -> list[StorageNode]:
    """Return the rows with the worst severity of what each is on."""
    found: list[StorageNode] = []
    worst_at: dict[int, str] = {}
    """By depth: of the rows below the current one, read from the last row up."""
    for node in reversed(nodes):
        below = worst(*(own for depth, own in worst_at.items() if depth > node.depth))
        found.append(replace(node, below=below))
        own = worst(node.severity, below, worst_at.get(node.depth, ""))
        worst_at = {depth: each for depth, each in worst_at.items() if depth < node.depth}
        worst_at[node.depth] = own
    return found[::-1]


def _tops(
    topology: Topology, stack: DeviceStack
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], str]]:
    """Yield mount points that have the same devices, those devices, and the kind; then swap."""
    below: dict[str, list[str]] = defaultdict(list)
    kinds: dict[str, str] = {}
    for name in (part for d in topology.devices.values() for part in (d.name, *d.partitions)):
        for mount in stack.mounts(name):
            below[mount.mount_point].append(name)
            kinds[mount.mount_point] = mount.kind
    same: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for point, parts in below.items():
        same[tuple(dict.fromkeys(parts))].append(point)
    for names_below, points in sorted(same.items(), key=lambda each: min(each[1])):
        yield tuple(sorted(points, key=lambda p: (len(p), p))), names_below, kinds[points[0]]
    for swap in topology.swaps:
        if swap.block:
            yield ("swap",), (topology.kernel_name(swap.path),), "swap"


def _kind(device: Device) -> str:
    if device.md is not None:
        return device.md.level or "md array"
    if device.dm_uuid or device.dm_name:
        return _DM.get((device.dm_uuid or "").partition("-")[0], "device-mapper")
    if device.backing_file:
        return "loop device"
    if not device.leaf:
        return "device"
    if device.name.startswith("nvme"):
        return "NVMe"
    return {True: "disk", False: "SSD", None: "disk"}[device.rotational]
