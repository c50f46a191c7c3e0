"""The map from a controller's slot to a disk, its block device, and what is stacked on it. Pure.

Its data come from readings of different ages: a failed disk is missing in some and listed in
others. So any part may be absent: None or ''.
"""

from __future__ import annotations

import re
from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.raid import controller
from iowarden.rules.topology import alert_subject
from iowarden.rules.topology.device_changes import Devices
from iowarden.rules.topology.device_identity import Identity
from iowarden.rules.topology.stack import DeviceStack
from iowarden.rules.topology.topology import NO_DEPENDENTS, Dependents

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iowarden.collectors.block.block_devices import Device, Topology
    from iowarden.collectors.md import mdstat
    from iowarden.collectors.raid.controller import Controller, ControllerArray
    from iowarden.rules.topology.inventory import InventoryDisk
    from iowarden.rules.topology.survival import Redundancy

_ATA_PORT = re.compile(r"ata[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class SlotContent:
    """The last known contents of a slot. `array` is the name of its array there."""

    serial: str = ""
    model: str = ""
    array: str = ""


@dataclass(frozen=True, slots=True)
class DeviceMap:
    """All data about locations.

    Fields: `disks` is by the label 'disk'; `slots` by controller and slot, 'areca 1 channel 2',
    and by ATA port, 'ata3.00'; `arrays` are those of software RAID by name. `boot_id` is this
    boot's, '' unknown; `before` has the owner of each name when iowarden last ran; `ahead_seconds`
    is by how much Unix time is ahead of the program's clock; `hosts` are the SCSI hosts by their
    names in the kernel's log: 'mpt3sas_cm0', '0000:03:00.0', 'ata3'; `fabrics` those of Fibre
    Channel and iSCSI; `dependents` is the storage stack now and until lately; `redundancies` is by
    technology and object what survives how many more disks; `waiting_groups` are the control
    groups and units of the programs in open freezes, with the device that they wait for ('' the
    host).
    """

    topology: Topology | None = None
    devices: Devices = field(default_factory=Devices)
    disks: Mapping[str, InventoryDisk] = field(default_factory=dict)
    controllers: tuple[Controller, ...] = ()
    slots: Mapping[str, SlotContent] = field(default_factory=dict)
    arrays: Mapping[str, mdstat.MdArray] = field(default_factory=dict)
    boot_id: str = ""
    before: Mapping[str, Identity] = field(default_factory=dict)
    ahead_seconds: float = 0.0
    hosts: Mapping[str, str] = field(default_factory=dict)
    fabrics: frozenset[str] = frozenset()
    dependents: Dependents = NO_DEPENDENTS
    redundancies: Mapping[tuple[str, str], Redundancy] = field(default_factory=dict)
    waiting_groups: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EventPlace:
    """Location of an event.

    Fields: `identity` is that of its incident, its key '' the host's; `disk` is the label of the
    disk's series; `device` is its block device (or partition), or the one made of this disk alone,
    else ''; `controller` and `slot` are 'areca 1' and 'channel 2'; `volumes` are the keys of what
    the controller makes of this disk or array, block devices and arrays, and of the btrfs that the
    event names; `around` describes what is
    stacked on it, outwards: 'raid set 1 of areca 1', 'sdb', 'md0'.
    """

    identity: Identity
    disk: str = ""
    device: str = ""
    controller: str = ""
    slot: str = ""
    volumes: tuple[str, ...] = ()
    around: tuple[str, ...] = ()


def is_ata_port(name: str) -> bool:
    """Whether a name in the kernel's log is that of an ATA port: 'ata3'."""
    return _ATA_PORT.fullmatch(name) is not None


class DeviceIndex:
    """Lookup tables over a DeviceMap, by name, address and serial number."""

    def __init__(self, known: DeviceMap) -> None:
        """Build the tables; the map does not change meanwhile."""
        self.map = known
        found = () if known.topology is None else known.topology.devices.values()
        self.devices: tuple[Device, ...] = tuple(found)
        self._whole = {part: each for each in self.devices for part in each.partitions}
        self._whole |= {each.name: each for each in self.devices}
        self._addresses = {each.address: each for each in self.devices if each.address}
        self._serials: dict[str, list[Device]] = {}
        for each in self.devices:
            if each.leaf and each.serial:
                self._serials.setdefault(each.serial, []).append(each)
        self._leaves = {leaf: each for each in known.disks.values() for leaf in each.leaves}
        self._stack = None if known.topology is None else DeviceStack(known.topology)
        self._hosts: dict[str, str] = {}
        self._slots: dict[str, dict[str, frozenset[str]]] = {}
        self._made: dict[str, dict[str, Device]] = {}

    # Block devices

    def whole(self, name: str) -> Device | None:
        """Return a device by any of its names; of a partition its disk."""
        topology = self.map.topology
        return None if topology is None else self._whole.get(topology.kernel_name(name))

    def addressed(self, address: str) -> Device | None:
        """Return the device at a SCSI address."""
        return self._addresses.get(address)

    def ata_port(self, host: str) -> str:
        """Return the ATA port of a SCSI host ('ata3'), '' if it has none."""
        names = (name for name, other in self.map.hosts.items() if other == host)
        return next(filter(is_ata_port, names), "")

    def of_serial(self, serial: str) -> list[Device]:
        """Return the block devices of the disk with a serial number; [] if two disks have it."""
        found = self._serials.get(serial, [])
        return found if len({self.subject(each.name).key for each in found}) == 1 else []

    def subject(self, name: str) -> Identity:
        """Return the subject of alerts with this label 'device'."""
        return alert_subject.subject(self.map.topology, self.map.devices, (("device", name),))

    def above(self, device: Device) -> tuple[str, ...]:
        """Return the arrays and volumes stacked on a device."""
        return () if self._stack is None else self._stack.shown_on(device.name)

    def keys(self, made: Iterable[Device]) -> tuple[str, ...]:
        """Return the incident keys of devices."""
        return tuple(dict.fromkeys(self.subject(device.name).key for device in made))

    # Disks

    def disk_of(self, name: str) -> InventoryDisk | None:
        """Return the disk of a block device."""
        return self._leaves.get(name)

    def last(self, serial: str) -> Identity | None:
        """Return the identity of the block device with a serial number, present or removed."""
        if there := self.of_serial(serial):
            return self.subject(there[0].name)
        end, state = f" {serial}", self.map.devices
        for own in state.names.values():
            if own.key.startswith("disk ") and own.key.endswith(end):
                return own
        for key, gone in state.gone.items():
            if key.startswith("disk ") and key.endswith(end):
                return Identity(key, gone.object, gone.adapter)
        return None

    def label(self, own: Identity, otherwise: str) -> str:
        """Return the label 'disk' of an identity."""
        same = (c.disk for c in self.map.disks.values() if c.identity.key == own.key)
        return next(same, otherwise)

    # Controllers

    def card(self, name: str) -> Controller | None:
        """Return the data of a controller."""
        return next((card for card in self.map.controllers if card.name == name), None)

    def host(self, card: Controller) -> str:
        """Return the SCSI host of a controller: reported, or by a common serial number."""
        if card.host:
            return card.host
        if card.name not in self._hosts:
            serials = {each.serial for each in card.arrays} | {d.serial for d in card.disks}
            serials.discard("")
            found = {each.host for serial in serials for each in self.of_serial(serial)}
            found |= {
                c.polled.target.controller
                for c in self.map.disks.values()
                if c.polled and c.polled.target.behind_raid() and has_serial(c, serials)
            }
            hosts = [each for each in found if each]
            self._hosts[card.name] = hosts[0] if len(hosts) == 1 else ""
        return self._hosts[card.name]

    def adapter(self, name: str) -> str:
        """Return the adapter of a controller's disks: its SCSI host, else itself."""
        card = self.card(name)
        return (self.host(card) if card else "") or name

    def slots(self, card: Controller) -> Mapping[str, frozenset[str]]:
        """Return the current and last known slots of disks, by serial number."""
        if card.name not in self._slots:
            start = f"{card.name} "
            kept = self.map.slots.items()
            found = [(was.serial, key[len(start) :]) for key, was in kept if key.startswith(start)]
            found += [(disk.serial, disk.slot) for disk in card.disks]
            slots: dict[str, frozenset[str]] = {}
            for serial, slot in found:
                slots[serial] = slots.get(serial, frozenset()) | {slot}
            self._slots[card.name] = slots
        return self._slots[card.name]

    def made(self, card: Controller) -> Mapping[str, Device]:
        """Return the block device of each array, by the array's name."""
        if card.name not in self._made:
            found = {each.name: self._device_of(each, self.host(card)) for each in card.arrays}
            self._made[card.name] = {name: each for name, each in found.items() if each}
        return self._made[card.name]

    def volumes(self, card: Controller, names: Iterable[str]) -> list[Device]:
        """Return the block devices made of these arrays, and of those within them."""
        wanted = set(names)
        made = self.made(card)
        found = {
            made[each.name].name: made[each.name]
            for each in card.arrays
            if each.name in made and (each.name in wanted or each.parent in wanted)
        }
        return list(found.values())

    def _device_of(self, array: ControllerArray, host: str) -> Device | None:
        """Return the block device of an array: by serial number, else by address."""
        if array.serial and len(found := self.of_serial(array.serial)) == 1:
            return found[0]
        device = self.addressed(controller.scsi_address(host, array.address))
        return None if device and device.serial and array.serial else device


def has_serial(disk: InventoryDisk, serials: Iterable[str]) -> bool:
    """Whether a disk has one of these serial numbers, in its label or its own data."""
    drive = disk.drive
    return disk.disk in serials or (drive is not None and drive.serial.strip() in serials)


def placed(own: Identity, text: str) -> Identity:
    """Return an identity with additional text: 'sdb (MODEL, serial S, WORDS)'."""
    if not text:
        return own
    end = own.object.endswith(")")
    shown = f"{own.object[:-1]}, {text})" if end else f"{own.object} ({text})"
    return replace(own, object=shown)


def unique(*parts: Sequence[str]) -> tuple[str, ...]:
    """Return texts one after the other, without duplicates."""
    return tuple(dict.fromkeys(text for part in parts for text in part))
