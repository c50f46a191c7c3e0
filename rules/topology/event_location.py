"""Location of an event: the disk, array or adapter that it concerns. Pure.

The kernel reports 'sdb', 'ata3.00', '2:0:1:0'; a controller reports 'channel 2'; people and SMART
use a serial number. All reports about one disk must become one incident, so an event is given the
identity that alerts about the same object have: that of `device_identity` for a block device, that
of `rules.topology.inventory` for a disk hidden by a controller. An event of an array member
concerns the member's disk. Locations within a controller are resolved in rules/topology/slots.py.
Limits: the host of a controller is known where there is only one of its vendor, or by a serial
number. What cannot be resolved is identified by the reported name; nothing is raised.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from iowarden.collectors.kernel import oom_kill
from iowarden.collectors.kmsg import kernel_btrfs
from iowarden.collectors.procfs.process_io import unit_of_group
from iowarden.collectors.smart.drive import AccessMethod
from iowarden.rules.smart import plausibility
from iowarden.rules.topology import alert_subject, device_identity, slots
from iowarden.rules.topology.device_identity import Identity
from iowarden.rules.topology.slot_map import (
    DeviceIndex,
    DeviceMap,
    EventPlace,
    SlotContent,
    placed,
    unique,
)
from iowarden.rules.topology.stack import FILE_SYSTEM, DeviceStack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.event import StorageEvent
    from iowarden.collectors.filesystem.mountinfo import Mount
    from iowarden.collectors.kernel.oom_kill import GroupAtLimit
    from iowarden.collectors.raid.controller import Controller


MAX_SLOTS = 4096
"""Maximum number stored; those currently reported come first."""
_PORT = re.compile(r"(ata[0-9]{1,9})(?:\.([0-9]{1,9}))?", re.ASCII)
_NVME = re.compile(r"nvme([0-9]{1,9})", re.ASCII)
_NAMESPACE = re.compile(r"nvme([0-9]{1,9})(?:c([0-9]{1,9}))?n[0-9]{1,9}", re.ASCII)
_SNAPSHOT_SPACE = "-cow"
_POD = re.compile(r"/(?:.*[/-])?pod[0-9a-f]{8}(?:[-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12}[^/]*")
"""Path of a pod's control group. Source: kubelet, cgroup_manager_linux.go: with systemd its UID has
'_' for '-' and '.slice' behind."""
_ADDRESS = re.compile(r"([0-9]{1,9}):([0-9]{1,20}):([0-9]{1,20}):[0-9]{1,20}", re.ASCII)
_MULTIPLIER = "15"
"""Of 'ata4.15'. Source: kernel, include/linux/libata.h, SATA_PMP_CTRL_PORT."""
_NUMBER = re.compile(r"(?:block )?([0-9]{1,9}:[0-9]{1,9})", re.ASCII)
_TARGET = re.compile(r"id ([0-9]{1,9}) lun ([0-9]{1,9})", re.ASCII)
_HIDES = {"areca": "arcmsr", "3ware": "3w-"}
"""Vendors whose controllers never show a disk directly, even if they call one pass-through:
drivers."""
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_HOST = re.compile(r"(?:scsi )?(?:host|scsi)([0-9]{1,9})", re.ASCII)
_NAMED_HOST = re.compile(r"\b(?:scsi|SCSI host[ :]{1,2})([0-9]{1,6})\b", re.ASCII)
"""'resetting fusion adapter scsi0.': megaraid_sas names the host after its own address."""
_REMOTE_PORT = re.compile(r"rport-([0-9]{1,9}):[0-9:-]+", re.ASCII)
_CONNECTION = re.compile(r"connection([0-9]{1,9}):[0-9]{1,9}", re.ASCII)
"""Names of scsi_transport_fc.c and scsi_transport_iscsi.c: by host, and by session."""


def remember(
    before: Mapping[str, SlotContent],
    controllers: Sequence[Controller],
    topology: Topology | None = None,
) -> Mapping[str, SlotContent]:
    """Return the last known disk in each slot; `before` itself if nothing changed.

    A failing disk may disappear from the list, and an ATA disk from its port: its identity is
    stored until another disk is there, or it appears elsewhere.
    """
    now = {
        name: slots.slotted(before.get(name), disk)
        for each in controllers
        for disk in each.disks
        if (name := f"{each.name} {disk.slot}")
    }
    for device in () if topology is None else topology.devices.values():
        if device.port_number is not None and device.serial:
            model = f"{device.vendor or ''} {device.model or ''}"
            now[f"{device.port}.{device.port_number:02}"] = SlotContent(device.serial, model)
    here = {each.serial for each in now.values()} - {""}
    kept = {key: was for key, was in before.items() if key not in now and was.serial not in here}
    after = dict(islice({**now, **kept}.items(), MAX_SLOTS))
    return before if after == before else after


def place(event: StorageEvent, known: DeviceMap) -> EventPlace:
    """Return the location of an event."""
    atlas = DeviceIndex(known)
    if event.device:
        name = event.device.removeprefix("/dev/").replace("!", "/")
        earlier = event.boot_id and known.boot_id and event.boot_id != known.boot_id
        was = _before(atlas, name) if earlier else _predecessor(atlas, name, event)
        found = was or _at_name(atlas, name)
        if kernel_btrfs.file_system(event.place):
            system = _at_btrfs(atlas, event).identity.key
            return replace(found, volumes=unique(found.volumes, [system]))
        array = event.place if event.place in known.arrays else ""
        return replace(found, around=unique(found.around, [array])) if array else found
    if kernel_btrfs.file_system(event.place):
        return _at_btrfs(atlas, event)
    if event.source not in {"kernel", "md", oom_kill.COUNTED}:
        return slots.at_controller(atlas, event.controller, event.place, event.kind)
    if event.controller:
        return _at_adapter(atlas, event)
    return _at_place(atlas, event)


def _at_place(index: DeviceIndex, event: StorageEvent) -> EventPlace:
    """Return the location of a kernel's line without a device or adapter, by what it names."""
    if event.kind == "dm_snapshot_invalid":
        return _only_snapshot(index)
    if event.kind == "pool_suspended" or (event.kind == "zfs_panic" and event.place):
        return EventPlace(alert_subject.pool(event.place))
    if not event.place:
        return EventPlace(Identity("", ""))
    if (at_limit := oom_kill.group_at_limit(event.place)) is not None:
        return _of_group(index, at_limit)
    number = _NUMBER.fullmatch(event.place)
    if number is None or index.whole(number[1]) is not None:
        return _at_name(index, number[1] if number else event.place)
    if event.place != number[1]:  # of a task: the program is what its alert is about
        return EventPlace(Identity("", ""))
    return EventPlace(Identity(f"device {number[1]}", f"{number[1]} (block device)"))


def _of_group(index: DeviceIndex, at_limit: GroupAtLimit) -> EventPlace:
    """Return what the programs of a control group wait for; itself, where they do not.

    The kill ends what they wait for: it belongs to the same incident. No disk has to do with it.
    """
    waiting, unit = index.map.waiting_groups, unit_of_group(at_limit.group)
    devices = [waiting[group] for group in waiting if group == unit or at_limit.contains(group)]
    if not devices:
        # Kubernetes starts a container that was killed again as another one of the same pod.
        pod = _POD.match(at_limit.group)
        group = at_limit.group if pod is None else pod[0]
        return EventPlace(Identity(f"control group {group}", unit_of_group(group)))
    name = min(devices)  # the host before a device: there they wait for memory
    return EventPlace(_at_name(index, name).identity if name else Identity("", ""))


def _only_snapshot(index: DeviceIndex) -> EventPlace:
    """Return the snapshot of LVM, if there is only one: the kernel's line does not name it.

    Source: kernel, dm-snap.c, __invalidate_snapshot; lvm2, lib/activate/dev_manager.c (its space is
    a device of its own, whose UUID ends in '-cow').
    """
    spaces = [each for each in index.devices if (each.dm_uuid or "").endswith(_SNAPSHOT_SPACE)]
    if len(spaces) == 1 and len(spaces[0].holders) == 1:
        return _at_device(index, spaces[0].holders[0])
    return EventPlace(Identity("", ""))


def at_controller(name: str, where: str, known: DeviceMap) -> EventPlace:
    """Return a controller's disk or array by its name there; itself if `where` is ''."""
    return slots.at_controller(DeviceIndex(known), name, where)


def carried(where: EventPlace, known: DeviceMap, mounts: Iterable[Mount]) -> tuple[str, ...]:
    """Return everything stacked on a location, up to the mount points."""
    topology = known.topology
    if topology is None:
        return where.around
    stack = DeviceStack(topology, mounts)
    above = (
        stack.shown_on(name)
        for name in topology.devices
        if name == where.device or device_identity.identity(topology, name).key in where.volumes
    )
    return unique(where.around, *above)


def smartctl_command(where: EventPlace, known: DeviceMap) -> str:
    """Return the smartctl command for a disk hidden by its controller; else ''.

    Data of the block device that such a controller shows are made up by the controller.
    """
    covered = known.disks.get(where.disk)
    target = covered.polled.target if covered and covered.polled else AccessMethod("")
    if target.behind_raid():
        return f"smartctl -x -d {target.kind} {target.path}"
    vendor = next((each.vendor for each in known.controllers if each.name == where.controller), "")
    driver = target.driver or _HIDES.get(vendor, "")
    if not where.device or not driver.startswith(tuple(_HIDES.values())):
        return ""
    return plausibility.access_hint(AccessMethod("", driver=driver))


def _before(index: DeviceIndex, name: str) -> EventPlace | None:
    """Return what had a name in an earlier boot, when it may have been another's, or None."""
    if _ADDRESS.fullmatch(name):
        return EventPlace(Identity(f"device {name}", f"{name} (SCSI device, before the last boot)"))
    names = [each for each in index.map.before if _is_of(name, each)]
    if not names:
        return None
    own = index.map.before[max(names, key=len)]
    now = next((d.name for d in index.devices if index.subject(d.name).key == own.key), None)
    return _at_device(index, now) if now is not None else EventPlace(own, index.label(own, ""))


def _predecessor(index: DeviceIndex, name: str, event: StorageEvent) -> EventPlace | None:
    """Return the disk that had a name when a line was logged, if another disk has it now.

    Only a disk that was in use can still fail after its removal: file systems and arrays write to
    it until they are unmounted or stopped.
    """
    if event.realtime_seconds is None:
        return None
    at = event.realtime_seconds - index.map.ahead_seconds
    for key, gone in index.map.devices.gone.items():
        if gone.carried and _is_of(name, gone.name) and at < (gone.taken_seconds or 0.0):
            own = Identity(key, gone.object, gone.adapter)
            return EventPlace(own, index.label(own, ""), around=gone.carried)
    return None


def _is_of(name: str, whole: str) -> bool:
    """Whether a name is that of a device or of one of its partitions: 'sda1', 'nvme0n1p1'."""
    rest = name.removeprefix(whole)
    return rest == "" or (rest != name and rest.removeprefix("p").isdecimal())


def _at_name(index: DeviceIndex, name: str) -> EventPlace:
    """Return the location of a device, a port or an address, by the kernel's name."""
    if port := _PORT.fullmatch(name):
        return _at_port(index, port[1], port[2])
    if number := _NVME.fullmatch(name):
        return _at_nvme(index, number[1])
    if address := _ADDRESS.fullmatch(name):
        device = index.addressed(name)
        if device is None:
            return _at_address(index, name, address)
        name = device.name
    return _at_device(index, name)


def _at_address(index: DeviceIndex, name: str, address: re.Match[str]) -> EventPlace:
    """Return the disk that was at a SCSI address at which none is now.

    Of an ATA port's host the port has the same disk, also if another boot's map remembers it.
    """
    if (was := _last_at(index, name)) is not None:
        return was
    host = f"host{address[1]}"
    port = index.ata_port(host)
    if port:
        return _at_port(index, port, f"{int(address[2]) + int(address[3]):02}")
    return EventPlace(Identity(f"device {name}", f"{name} (SCSI device)", host))


def _last_at(index: DeviceIndex, *addresses: str) -> EventPlace | None:
    """Return the last disk that was removed from the one of these addresses that had disks.

    None: none was, or several of the addresses had one.
    """
    gone = index.map.devices.gone
    keys = [key for key, was in gone.items() if was.address in addresses]
    if len({gone[key].address for key in keys}) != 1:
        return None
    key = max(keys, key=lambda key: gone[key].at_seconds)
    was = gone[key]
    own = Identity(key, was.object, was.adapter)
    return EventPlace(own, index.label(own, ""), around=was.carried)


def _at_device(index: DeviceIndex, name: str) -> EventPlace:
    own = index.subject(name)
    device = index.whole(name)
    array = index.map.arrays.get(name if device is None else device.name)
    level = array.level if array is not None else device.md.level if device and device.md else ""
    own = placed(own, level or "")
    if device is None:
        return EventPlace(own, index.label(own, ""), name)
    covered = index.disk_of(device.name)
    slot, label = (covered.slot, covered.disk) if covered else ("", "")
    own = placed(own, slot)
    here = EventPlace(own, label, device.name, slot=slot, around=index.above(device))
    return slots.of_device(index, device, here)


def _at_btrfs(index: DeviceIndex, event: StorageEvent) -> EventPlace:
    """Return the btrfs that a line names by one of its devices; its disk only if that is its only.

    The line does not show which of several disks is at fault, and the one that it names may hold
    the only good copy. A btrfs that is not mounted now is identified by the line's words.
    """
    known, name = index.map, kernel_btrfs.file_system(event.place)
    topology = known.topology
    earlier = event.boot_id and known.boot_id and event.boot_id != known.boot_id
    if topology is None or earlier or topology.kernel_name(name) not in topology.btrfs:
        return EventPlace(Identity(f"{FILE_SYSTEM}{event.place}", event.place))
    own = alert_subject.of_btrfs(topology, name)
    if own is None:
        return _at_device(index, name)
    everything = (above for held in known.dependents.now.values() for above in held)
    points = (each.name for each in everything if each.key == own.key and each.mount)
    return EventPlace(alert_subject.of_btrfs(topology, name, next(points, "")) or own)


def _at_port(index: DeviceIndex, port: str, number: str | None) -> EventPlace:
    """Return the disk that is or was at an ATA port; of 'ata3' the only one, if there is one.

    Where none ever was, the port: its link never came up.
    """
    name = port if number is None else f"{port}.{number}"
    there = on_port = [d for d in index.devices if d.port == port]
    if number is not None:
        there = [d for d in there if d.port_number == int(number)]
    if len(there) == 1:
        return _at_device(index, there[0].name)
    keys = [] if there else [k for k in index.map.slots if name in (k, k.partition(".")[0])]
    was = index.map.slots[keys[0]] if len(keys) == 1 else SlotContent()
    if was.serial and not index.of_serial(was.serial):
        shown = f"{was.model.strip()}, serial {was.serial}"
        own = index.last(was.serial) or Identity(f"disk {was.model} {was.serial}", shown)
        return EventPlace(placed(own, f"at {name}"), index.label(own, was.serial))
    host = next((d.host for d in on_port if d.host), index.map.hosts.get(port, ""))
    if not there and host and (last := _last_at(index, *_addresses(index, host, number))):
        return last
    is_empty = not on_port
    if is_empty and number is not None and int(number) == 0:
        name = port
    what = "port multiplier" if number == _MULTIPLIER else "ATA port"
    of_host = f" of {host}" if host else ""
    empty = " without a disk" if is_empty and host else ""
    return EventPlace(Identity(f"device {name}", f"{name} ({what}{of_host}{empty})", host))


def _addresses(index: DeviceIndex, host: str, number: str | None) -> list[str]:
    """Return the addresses at an ATA port's host from which disks were removed.

    Of 'ata4.01' that of device 1 alone: its channel and target, see `Device.port_number`.
    """
    gone = filter(
        None, (_ADDRESS.fullmatch(was.address) for was in index.map.devices.gone.values())
    )
    return [
        address[0]
        for address in gone
        if f"host{address[1]}" == host
        and (number is None or int(address[2]) + int(address[3]) == int(number))
    ]


def _at_nvme(index: DeviceIndex, number: str) -> EventPlace:
    """Return the drive of an NVMe controller, by its first namespace.

    The path by which it is polled identifies it; without that, the name does, although the number
    in 'nvme1n1' is that of a subsystem.
    """
    known = index.map
    for covered in known.disks.values():
        path = covered.polled.target.path if covered.polled else ""
        if covered.leaves and path == f"/dev/nvme{number}":
            return _at_device(index, covered.leaves[0])
    leaves = known.topology.leaves if known.topology is not None else ()
    for name in (*leaves, *sorted(known.devices.names)):
        found = _NAMESPACE.fullmatch(name)
        if found and number == (found[2] or found[1]):
            return _at_device(index, name)
    return _at_device(index, f"nvme{number}")


def _at_adapter(index: DeviceIndex, event: StorageEvent) -> EventPlace:
    """Return the location in an adapter driver's report: 'host6', 'port 3', 'id 0 lun 1'."""
    host = _host(index, event.controller) or _host_by_line(index, event)
    known, known_hosts = index.map.controllers, index.map.hosts
    cards = [card.name for card in known if host and index.host(card) == host]
    if event.controller == "arcmsr":  # an old driver does not report which
        cards = [card.name for card in known if card.vendor == "areca"]
    name = cards[0] if len(cards) == 1 else ""
    if target := _TARGET.fullmatch(event.place):
        device = index.addressed(f"{host[4:]}:0:{target[1]}:{target[2]}")
        if device is not None:
            return _at_device(index, device.name)
    elif event.place:
        return slots.at_controller(index, name or host or event.controller, event.place, event.kind)
    if name:
        return slots.itself(index, name)
    own = device_identity.adapter_identity(host or event.controller)
    if not host or _HOST.fullmatch(event.controller):
        return EventPlace(own)
    called = event.controller
    if _PCI.fullmatch(called):  # its address alone does not identify it
        names = (n for n, other in known_hosts.items() if other == host and ":" not in n)
        called = " ".join(filter(None, (next(names, ""), called)))
    return EventPlace(placed(own, called))


def _host_by_line(index: DeviceIndex, event: StorageEvent) -> str:
    """Return the SCSI host of a line with an adapter's PCI address that is not known.

    The line names it, else it is the only one of the driver that prints it; '' if unknown.
    """
    if not _PCI.fullmatch(event.controller):
        return ""
    if named := _NAMED_HOST.search(event.text):
        return f"host{named[1]}"
    hosts = index.map.hosts
    host = hosts.get(event.text.partition(" ")[0], "")
    is_another = any(other == host and _PCI.fullmatch(name) for name, other in hosts.items())
    return "" if is_another else host


def _host(index: DeviceIndex, name: str) -> str:
    """Return the SCSI host of a driver's line, by the driver's name for it; '' if unknown."""
    if number := _HOST.fullmatch(name):
        return f"host{number[1]}"
    if number := _REMOTE_PORT.fullmatch(name):
        return f"host{number[1]}"
    if number := _CONNECTION.fullmatch(name):
        name = f"session{number[1]}"
    address = _PCI.search(name)
    hosts = index.map.hosts
    return hosts.get(name) or (hosts.get(address[0], "") if address else "")
