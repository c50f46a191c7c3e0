"""Resolves a controller's locations: 'channel 2', 'unit 0' or an array's user-defined name. Pure.

A disk in a slot is identified by its serial number, from the controller's current or last known
list; SMART and the kernel report the same number. An array is identified by its block device. If
neither is known, the names of slot and array are used. Limits: without a serial number, a disk that
Areca passes through is found by its SCSI address if only one disk is possible; those of other
vendors are not found.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.block.enclosure import place
from iowarden.collectors.raid.areca.areca_access import pass_through_drive
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.rules.topology import device_identity
from iowarden.rules.topology.device_identity import Identity
from iowarden.rules.topology.slot_map import EventPlace, SlotContent, has_serial, placed, unique

if TYPE_CHECKING:
    from iowarden.collectors.block.block_devices import Device
    from iowarden.collectors.raid.controller import Controller, ControllerArray, PhysicalDisk
    from iowarden.rules.topology.inventory import InventoryDisk
    from iowarden.rules.topology.slot_map import DeviceIndex

_PART = r"(?:enclosure|encl|slot|channel|device|port|box|bay|phy|connector) [0-9A-Z]{1,9}"
_SLOT = re.compile(rf"{_PART}(?: {_PART}){{0,3}}", re.ASCII)
_ARRAY = re.compile(
    r"(?:raid ?set|volume|unit|array|drive group|(?:virtual|logical) (?:drive|device))"
    r" ?#? ?\w{1,60}|u[0-9]{1,9}",
    re.ASCII | re.IGNORECASE,
)
_ARRAY_KINDS = re.compile(r"raid_?set|volume|rebuild|initiali|migrat|check(?!sum)", re.ASCII)
"""Kinds of events whose location, if it is not a slot, is the user-defined name of an array."""
_DRIVER = re.compile(r"(unit|subunit|slot|encl[a-z]{0,6}|port|phy) ([0-9]{1,9})", re.ASCII)
"""Location terms of a 3ware driver; one location may contain several."""
_PASSED = frozenset({"passthrough", "jbod"})
"""Usage of a disk that the controller passes through, without blanks."""
_PASSED_SET = "passthroughdisk"
"""Areca's name for the raid set of such disks."""


def slotted(before: SlotContent | None, disk: PhysicalDisk) -> SlotContent:
    """Return what is in a slot; a failed disk may be listed with fewer details than before."""
    now = SlotContent(disk.serial, disk.model, disk.array)
    if before is None or before == now:
        return now
    if any(a and b and a != b for a, b in zip(_who(before), _who(now), strict=True)):
        return now
    failed = disk.state.health is not ComponentHealth.OK
    return SlotContent(
        disk.serial or before.serial,
        disk.model or before.model,
        disk.array or (before.array if failed else ""),
    )


def _who(one: SlotContent) -> tuple[str, str]:
    return one.serial, one.model


def at_controller(index: DeviceIndex, name: str, where: str, kind: str = "") -> EventPlace:
    """Return a controller's disk or array, or itself; `where` and `kind` as in its events."""
    card = index.card(name)
    where = _normal(where)
    if slot := _slot(index, card, name, where):
        return in_slot(index, name, slot)
    array = _array(card, where, kind) if card else None
    if array is not None and card is not None:
        return _in_array(index, card, array)
    if _SLOT.fullmatch(where):
        return in_slot(index, name, where)
    named = _ARRAY_KINDS.search(kind) and not _is_part(card, where)
    if where and (_ARRAY.fullmatch(where) or named):
        unit = re.sub(r"^unit (?=[0-9])", "u", where)
        own = Identity(_array_key(name, unit), f"{where} of {name}", index.adapter(name))
        return EventPlace(own, controller=name)
    return itself(index, name)


def itself(index: DeviceIndex, name: str) -> EventPlace:
    """Return the location of a controller: its adapter."""
    card = index.card(name)
    host = index.host(card) if card else ""
    if not host:
        return EventPlace(
            device_identity.adapter_identity(name) if name else Identity("", ""), controller=name
        )
    words = ", ".join(word for word in (card.model if card else "", host) if word)
    own = Identity(device_identity.adapter_identity(host).key, f"{name} ({words})")
    return EventPlace(own, controller=name)


def of_device(index: DeviceIndex, device: Device, here: EventPlace) -> EventPlace:
    """Return the location of a block device with the data of its controller, if it has one."""
    for card in index.map.controllers:
        if slot := _shown(index, card, device):
            return in_slot(index, card.name, slot, device)
        array = _array_of(index, card, device)
        if array is not None:
            return EventPlace(
                placed(here.identity, _called(array, card)),
                here.disk,
                here.device,
                card.name,
                volumes=index.keys([device]),
                around=here.around,
            )
    return here


# Slots


def _normal(where: str) -> str:
    """Return a location in the form that the lists of disks and arrays use.

    Of a driver's 'unit 0 port 3' the port is used, as in the log of its tool.
    """
    told = {word[:4]: number for word, number in _DRIVER.findall(where)}
    if not told or _DRIVER.sub("", where).strip():
        return " ".join(where.split())
    if "slot" in told:
        return (f"enclosure {told['encl']} " if "encl" in told else "") + f"slot {told['slot']}"
    return next((f"{word} {told[word]}" for word in ("port", "phy", "unit") if word in told), where)


def _slot(index: DeviceIndex, card: Controller | None, name: str, where: str) -> str:
    """Return the slot of a location, as the controller lists or listed it; '' for none."""
    if card is not None and where:
        kind = f"3ware,{where[5:]}" if where.startswith("port ") else " "
        for disk in card.disks:
            if disk.slot == where or disk.kind == kind:
                return disk.slot
        ends = [disk.slot for disk in card.disks if disk.slot.endswith(f" {where}")]
        if where.startswith("slot ") and len(ends) == 1:
            return ends[0]
    return where if f"{name} {where}" in index.map.slots else ""


def in_slot(index: DeviceIndex, name: str, slot: str, shown: Device | None = None) -> EventPlace:
    """Return the disk that is in a slot, or the last one that was.

    `shown` is its block device, if that is known.
    """
    card = index.card(name)
    listed = next((d for d in card.disks if d.slot == slot), None) if card else None
    was = index.map.slots.get(f"{name} {slot}")
    one = slotted(was, listed) if listed is not None else was or SlotContent()
    serial = one.serial if _is_one(index, one.serial, name, slot) else ""
    if card is not None and shown is None:
        shown = _shown_as(index, card, slot, one.serial, listed)
    covered, asked = _inventory_disk(index, serial, slot, card, listed)
    own, label = _identity(index, f"{name} {slot}", serial, one.model, covered, shown, polled=asked)
    model = one.model
    if covered is not None and covered.drive is not None:
        model, serial = covered.drive.model or model, covered.drive.serial or serial
    inside = [a for a in card.arrays if slot in a.slots or a.name == one.array] if card else []
    made = index.volumes(card, (a.name for a in inside)) if card else []
    if shown is not None:
        made = [shown, *(each for each in made if each is not shown)]
    elif card is not None and len(made) == 1 and _alone(card, slot, inside):
        shown = made[0]
    names = {each.name for each in inside}
    arrays = [a for a in card.arrays if a.name in names or a.parent in names] if card else []
    description = (model, f"serial {serial}" if serial else "", place(slot, name))
    words = ", ".join(word for word in description if word)
    return EventPlace(
        Identity(
            own.key,
            words if shown is None else f"{shown.name} ({words})",
            own.adapter or index.adapter(name),
        ),
        label,
        "" if shown is None else shown.name,
        name,
        slot,
        unique(index.keys(made), [_array_key(name, each.name) for each in arrays]),
        unique(
            [f"{each.name} of {name}" for each in inside],
            [device.name for device in made if device is not shown],
            *(index.above(device) for device in made),
        ),
    )


def _identity(
    index: DeviceIndex,
    where: str,
    serial: str,
    model: str,
    inventory_disk: InventoryDisk | None,
    shown: Device | None,
    *,
    polled: bool,
) -> tuple[Identity, str]:
    """Return a disk's identity, and its label.

    A disk that is polled behind the controller and was not read yet will be identified by its own
    model and serial number, which the controller reports as well.
    """
    if inventory_disk is not None:
        return inventory_disk.identity, inventory_disk.disk
    if shown is not None and not (polled and serial and serial != shown.serial):
        own = index.subject(shown.name)
        return own, index.label(own, serial or shown.serial or "")
    if serial:
        own = index.last(serial) or Identity(" ".join(filter(None, ("disk", model, serial))), "")
        return own, index.label(own, serial)
    return Identity(f"disk {where}", ""), ""


def _is_one(index: DeviceIndex, serial: str, name: str, slot: str) -> bool:
    """Whether a serial number belongs to one disk only: some vendors give all disks the same."""
    return bool(serial) and not any(
        disk.serial == serial and (card.name, disk.slot) != (name, slot)
        for card in index.map.controllers
        for disk in card.disks
    )


def _inventory_disk(
    index: DeviceIndex, serial: str, slot: str, card: Controller | None, listed: PhysicalDisk | None
) -> tuple[InventoryDisk | None, bool]:
    """Return the disk in a slot as known by SMART, and whether it is polled there at all.

    A disk that was not read yet is identified by its access method; once it reports a serial
    number, that is used.
    """
    host = index.host(card) if card else ""
    kinds = {listed.kind} - {""} if listed is not None else set()
    everything = index.map.disks.values()
    there = [
        c
        for c in everything
        if c.polled and host and c.polled.target.controller == host
        if c.polled.target.behind_raid()
        if c.polled.target.slot == slot or c.polled.target.kind.rpartition("+")[2] in kinds
    ]
    found = there
    if serial:
        same = [c for c in everything if has_serial(c, (serial,))]
        found = [c for c in same if c in there] or same
    return (found[0] if len(found) == 1 else None), bool(there)


def _alone(card: Controller, slot: str, inside: list[ControllerArray]) -> bool:
    """Whether these arrays consist of the disk in one slot only."""
    names = {array.name for array in inside}
    others = {disk.slot for disk in card.disks if disk.array in names}
    others |= {each for array in inside for each in array.slots}
    return bool(inside) and others <= {slot}


# Disks in pass-through


def _shown_as(
    index: DeviceIndex, card: Controller, slot: str, serial: str, listed: PhysicalDisk | None
) -> Device | None:
    """Return the block device of the disk in a slot."""
    if not serial and (listed is None or not _is_passed(listed)):
        return None
    return next((d for d in index.devices if d.leaf and _shown(index, card, d) == slot), None)


def _shown(index: DeviceIndex, card: Controller, device: Device) -> str:
    """Return the slot of the disk with this block device; '' if there is none."""
    host = index.host(card)
    if host and device.host and host != device.host:
        return ""
    if device.serial:
        slots = index.slots(card).get(device.serial, frozenset())
        if len(slots) == 1:
            return next(iter(slots))
    if card.vendor != "areca" or not host or not device.leaf:
        return ""
    passed = [disk for disk in card.disks if _is_passed(disk)]
    if not passed:
        return ""
    array = _array_of(index, card, device)
    if array is not None:
        parent = next((each for each in card.arrays if each.name == array.parent), array)
        if re.sub(r"\s", "", parent.label).casefold() != _PASSED_SET:
            return ""
    may_be = _areca_slots(index, device)
    found = [disk.slot for disk in passed if disk.slot in may_be and _may_be(disk, device)]
    return found[0] if len(found) == 1 else ""


def _areca_slots(index: DeviceIndex, device: Device) -> set[str]:
    """Return the channels that a disk at this SCSI address may be on.

    Source: `pass_through_drive`. An ARC-1210 whose disks were all JBOD showed that of channel
    2 at target 1, unit 0: where no unit but 0 is in use, the target may be the channel.
    """
    found = re.fullmatch(r"([0-9]+):0:([0-9]{1,3}):([0-9]{1,3})", device.address or "", re.ASCII)
    if found is None:
        return set()
    target, unit = int(found[2]), int(found[3])
    slots = {f"channel {pass_through_drive(target, unit)}"}
    addresses = (each.address or "" for each in index.devices)
    if all(a.endswith(":0") for a in addresses if a.startswith(f"{found[1]}:")):
        slots.add(f"channel {target + 1}")
    return slots


def _is_passed(disk: PhysicalDisk) -> bool:
    return disk.usage.replace(" ", "").casefold() in _PASSED


def _may_be(disk: PhysicalDisk, device: Device) -> bool:
    """Whether nothing in the data of a disk and a block device contradicts that they are the same.

    SCSI has 8 characters for the vendor and 16 for the model: a longer name is cut.
    """
    if disk.serial and device.serial:
        return disk.serial == device.serial
    told = " ".join(word for word in (device.vendor, device.model) if word).casefold()
    own = disk.model.casefold()
    return not told or not own or own.startswith(told) or told.endswith(own)


# Arrays


def _in_array(index: DeviceIndex, card: Controller, array: ControllerArray) -> EventPlace:
    """Return the location of a controller's array: its block device, if there is one."""
    made = index.volumes(card, (array.name,))
    keys, words = index.keys(made), _called(array, card)
    if len(made) == 1:
        own = placed(index.subject(made[0].name), words)
        above = index.above(made[0])
        return EventPlace(own, "", made[0].name, card.name, volumes=keys, around=above)
    own = Identity(_array_key(card.name, array.name), words, index.adapter(card.name))
    names = [device.name for device in made]
    around = unique(names, *(index.above(device) for device in made))
    return EventPlace(own, controller=card.name, volumes=keys, around=around)


def _array(card: Controller, where: str, kind: str) -> ControllerArray | None:
    """Return the array of an event, by its number or its user-defined name."""
    name = re.sub(r"^unit (?=[0-9])", "u", where)
    for array in card.arrays:
        if where and array.name == name:
            return array
    called = [a for a in card.arrays if where and " ".join(a.label.split()) == where]
    # A raid set and its volume may share a name: the kind of event decides which it concerns.
    word = "raid set" if re.search(r"raid_?set", kind) else "volume"
    return next((a for a in called if a.name.startswith(word)), called[0] if called else None)


def _array_of(index: DeviceIndex, card: Controller, device: Device) -> ControllerArray | None:
    made = index.made(card)
    return next((a for a in card.arrays if made.get(a.name) is device), None)


def _array_key(controller: str, array: str) -> str:
    """Return the key of an array with no block device, several of them, or an unknown one."""
    return f"{device_identity.ARRAY}{controller} {array}"


def _called(array: ControllerArray, card: Controller) -> str:
    label = f" ({array.label})" if array.label else ""
    return f"{array.name}{label} of {card.name}"


def _is_part(card: Controller | None, where: str) -> bool:
    """Whether a location is a battery or a sensor of a controller."""
    names = (*(b.name for b in card.batteries), *(s.name for s in card.sensors)) if card else ()
    return where.casefold() in {name.casefold() for name in names}
