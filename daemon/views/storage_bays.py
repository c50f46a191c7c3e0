"""Disks by adapter, enclosure and bay, for the person at the rack. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.daemon.control.storage_document import BayLine
from iowarden.daemon.views.storage_facts import CRITICAL, WARNING, is_hidden
from iowarden.daemon.views.storage_members import MISSING
from iowarden.rules.topology.stack import DeviceStack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from iowarden.collectors.block.block_devices import Device
    from iowarden.daemon.control.storage_document import StorageNode
    from iowarden.daemon.views.storage_facts import StorageFacts

MAX_BAYS = 2000
MAX_USES = 3
_STATES = {CRITICAL: "failed", WARNING: "warning"}
_NUMBERS = re.compile(r"\d+")


def bays(facts: StorageFacts, nodes: Iterable[StorageNode]) -> tuple[BayLine, ...]:
    """Return the places of all disks, each with what is in it."""
    rows: dict[str, StorageNode] = {}
    for node in nodes:
        key = node.device or node.serial
        known = rows.get(key)
        if key and (known is None or _badness(node) > _badness(known)):
            rows[key] = node
    lines = [*_disks(facts, rows), *_behind_controllers(facts, rows), *_missing(facts)]
    lines += _empty(facts)
    return tuple(sorted(lines, key=_order)[:MAX_BAYS])


def _badness(node: StorageNode) -> int:
    return 2 * (node.severity == CRITICAL) + (node.severity == WARNING) + bool(node.note)


def _order(line: BayLine) -> tuple[str, ...]:
    words = (line.adapter, line.enclosure, line.bay, line.name)
    return tuple(_NUMBERS.sub(lambda number: number[0].zfill(9), word) for word in words)


def _state(node: StorageNode | None) -> str:
    if node is None:
        return "ok"
    if "rebuilding" in node.state or "resilvering" in node.state:
        return "rebuilding"
    if node.severity in _STATES:
        return _STATES[node.severity]
    return "unknown" if node.unknown else "ok"


def _disks(facts: StorageFacts, rows: dict[str, StorageNode]) -> Iterator[BayLine]:
    topology = facts.last.block
    if topology is None:
        return
    stack = DeviceStack(topology, facts.engine.devices.mounts())
    slots = {slot.device: slot for slot in facts.last.enclosure or () if slot.device}
    for name in topology.leaves:
        device = topology.devices[name]
        if device.has_no_medium:
            continue
        node = rows.get(name)
        slot = slots.get(name)
        used_by = [each.shown for each in stack.on(name) if not is_hidden(each.shown)]
        yield BayLine(
            adapter=_adapter(facts, device),
            enclosure="" if slot is None else slot.enclosure,
            bay=device.port or device.address or "" if slot is None else slot.slot,
            name=name,
            serial=facts.serial(device),
            size_bytes=device.size_bytes,
            state=_state(node),
            text="" if node is None else node.unknown or node.state,
            note="" if node is None else node.note,
            used_by=(*used_by[:MAX_USES], *(("...",) if used_by[MAX_USES:] else ())),
        )


def _behind_controllers(facts: StorageFacts, rows: dict[str, StorageNode]) -> Iterator[BayLine]:
    controllers = facts.last.controllers
    for card in () if controllers is None else controllers.controllers:
        for disk in card.disks:
            node = rows.get(disk.serial) if disk.serial else None
            yield BayLine(
                adapter=card.name,
                bay=disk.slot,
                serial=disk.serial,
                size_bytes=disk.size_bytes,
                state=_state(node),
                text=disk.state.word or disk.state.health.value,
                note="" if node is None else node.note,
                used_by=(disk.array,) if disk.array else (),
            )


def _missing(facts: StorageFacts) -> Iterator[BayLine]:
    for key, disk in facts.engine.devices.devices.gone.items():
        if disk.carried:
            yield BayLine(
                adapter=_host_text(facts, disk.adapter),
                bay=disk.shelf,
                name=f"({disk.name})",
                serial=key.rpartition(" ")[2] if key.startswith("disk ") else "",
                state="missing",
                used_by=tuple(each for each in disk.carried if not is_hidden(each))[:MAX_USES],
                note=MISSING,
            )


def _empty(facts: StorageFacts) -> Sequence[BayLine]:
    listed = facts.last.enclosure or ()
    hosts = {slot.enclosure: slot.enclosure.partition(":")[0] for slot in listed}
    return [
        BayLine(
            adapter=_host_text(facts, f"host{hosts[slot.enclosure]}"),
            enclosure=slot.enclosure,
            bay=slot.slot,
            state="empty",
        )
        for slot in listed
        if not slot.device
    ]


def _adapter(facts: StorageFacts, device: Device) -> str:
    return _host_text(facts, device.host) if device.host else "no SCSI adapter"


def _host_text(facts: StorageFacts, host: str) -> str:
    scsi = facts.last.scsi
    found = None if scsi is None else scsi.hosts.get(host)
    driver = "" if found is None else found.driver or ""
    return f"{host} {driver}".strip()
