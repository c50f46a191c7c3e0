"""Parsers of 'sas2ircu' and 'sas3ircu': LSI's adapters with Integrated RAID. Pure.

Source: the vendor's SAS-3 Integrated RAID user guide, appendix A, for the states; published outputs
of the programs.
Units: an MB is 2^20 bytes there.
Limits: the output does not identify the SCSI target of a volume.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.raid import output, states
from iowarden.collectors.raid.controller import (
    ComponentHealth,
    ComponentState,
    Controller,
    ControllerArray,
    PhysicalDisk,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Pair = tuple[str, str]

_MB = 1 << 20
_VOLUME_STATES = {
    **states.DEAD,
    **states.WORKING,
    "okay": ComponentHealth.OK,
    "online": ComponentHealth.OK,
    "degraded": ComponentHealth.DEGRADED,
}
"""'Inactive' is not among them: it needs attention."""
_DISK_STATES = {
    **states.DEAD,
    "optimal": ComponentHealth.OK,
    "online": ComponentHealth.OK,
    "hot spare": ComponentHealth.OK,
    "ready": ComponentHealth.OK,
    "rebuilding": ComponentHealth.REBUILDING,
    "out of sync": ComponentHealth.DEGRADED,
    "degraded": ComponentHealth.DEGRADED,
}
"""'Available' is not among them: the disk 'might not be ready', and no volume can use it. 'Standby'
is a device that is no disk.
"""
_MENDING = frozenset({"synchronize", "rebuild"})
"""Tasks that restore a degraded volume. 'Synchronize' was seen, 'Rebuild' is a guess."""

_DONE = {
    "LIST": "Utility Completed Successfully.",
    "DISPLAY": "Command DISPLAY Completed Successfully.",
    "STATUS": "Command STATUS Completed Successfully.",
}
_NO_ADAPTER = "MPTLib2 Error 1"
_NO_VOLUMES = lazy_pattern(
    r"there are no IR volumes on the controller|command is not supported by the firmware",
    re.IGNORECASE,
)
_ROW = lazy_pattern(
    r"\s*([0-9]{1,3})\s+(\S+)\s+[0-9A-Fa-f]{1,4}h\s+[0-9A-Fa-f]{1,4}h"
    r"\s+([0-9A-Fa-f]{1,4})h:([0-9A-Fa-f]{1,2})h:([0-9A-Fa-f]{1,2})h:([0-9A-Fa-f]{1,2})h\b.*"
)
_HEADER = lazy_pattern(r"\s*Index\s+Type\s+ID\b.*")
_RULE = lazy_pattern(r"\s*-{10,}\s*")
_VOLUME = lazy_pattern(r"\s*IR volume [0-9]{1,3}\s*", re.IGNORECASE)
_DEVICE = lazy_pattern(r"\s*Device is an? (\S(?:.*\S)?)\s*", re.IGNORECASE)
_PLACE = lazy_pattern(r"([0-9]{1,5}):([0-9]{1,5})")
_STATE = lazy_pattern(r"(\S.*?) ?\(([A-Z]{2,6})\)")
_CODES = {
    **dict.fromkeys(("OKY", "ONL", "OPT", "RDY", "HSP"), ComponentHealth.OK),
    "INIT": ComponentHealth.BUSY,
    **dict.fromkeys(("DGD", "OSY"), ComponentHealth.DEGRADED),
    "RBLD": ComponentHealth.REBUILDING,
    **dict.fromkeys(("FLD", "MIS"), ComponentHealth.FAILED),
}
"""Abbreviations after a state. 'SBY' and 'AVL' are for devices that are no disk, or not ready."""
_PERCENT = lazy_pattern(r"([0-9]{1,3}(?:\.[0-9]{1,3})?)\s?%")
_ONCE = (("status of volume", "'IR volume <n>'"), ("state", "'Device is a <kind>'"))
_SECTIONS = ("Controller information", "IR Volume information", "Physical device information")


@dataclass(frozen=True, slots=True)
class ListedAdapter:
    """An adapter of 'LIST'. Fields: `index` is its number there; `address` is its PCI address."""

    index: int
    model: str
    address: str


@dataclass(frozen=True, slots=True)
class VolumeTask:
    """A volume in 'STATUS'. `operation` is '' if no task runs; `status`: 'Enabled'."""

    operation: str
    status: str
    done_ratio: float | None = None


def parse_list(text: str, read_errors: list[str] | None = None) -> tuple[ListedAdapter, ...]:
    """Parse the adapters of 'LIST', none if it found none.

    Errors and `read_errors`: see `output.readable`.
    """
    plain = output.plain(text)
    if _NO_ADAPTER in plain:
        return ()
    lines = _whole("LIST", plain)
    header = next((at for at, line in enumerate(lines) if _HEADER.fullmatch(line)), None)
    if header is None:
        raise output.refused("sas2ircu LIST", "'Index  Type  ID ...'", text)
    rows = [line for line in lines[header + 1 :] if re.match(r"\s*[0-9]", line)]
    return tuple(output.readable(rows, _listed, read_errors))


def _listed(line: str) -> ListedAdapter:
    row = _ROW.fullmatch(line)
    if row is None:
        raise output.refused("sas2ircu LIST", "'<index> <type> <ids> <PCI address>'", line)
    domain, bus, device, function = (int(part, 16) for part in row.group(3, 4, 5, 6))
    address = f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"
    return ListedAdapter(int(row[1]), output.printable(row[2]), address)


def parse_display(text: str, name: str) -> Controller:
    """Parse 'N DISPLAY' of the adapter `name`: its volumes and its disks. Errors: ParseError.

    A plain adapter has no volumes. Devices that are no disk (an enclosure) are left out, unless
    that is uncertain.
    """
    lines = _whole("DISPLAY", output.plain(text))
    sections = _sections(lines)
    if missing := [title for title in _SECTIONS if title not in sections]:
        raise output.refused("sas2ircu DISPLAY", f"'{missing[0]}'", text)
    own = dict(_pairs(sections[_SECTIONS[0]]))
    unread = [
        reason
        for title, head, once in zip(_SECTIONS[1:], (_VOLUME, _DEVICE), _ONCE, strict=True)
        for reason in _unheaded(sections[title], head, once)
    ]
    volumes = [_volume(block) for _, block in output.blocks(sections[_SECTIONS[1]], _VOLUME)]
    parents = {slot: each.name for each in volumes for slot in each.slots}
    places: Counter[str] = Counter()
    disks = []
    for head, block in output.blocks(sections[_SECTIONS[2]], _DEVICE):
        disk = _disk(head[1], block)
        if disk is not None:
            places[disk.slot] += 1
            # Missing disks are all at 0:0.
            again = f" ({places[disk.slot]})" if places[disk.slot] > 1 else ""
            disks.append(replace(disk, slot=disk.slot + again, array=parents.get(disk.slot, "")))
    listed = {disk.slot for disk in disks}
    volumes = [
        replace(each, state=states.downgraded(each.state, [f"no disk in {slot}" for slot in lost]))
        for each in volumes
        for lost in (sorted({*each.slots} - listed) if listed else [],)
    ]
    return Controller(
        name=name,
        vendor="mpt",
        model=output.printable(own.get("controller type", "")),
        firmware=output.printable(own.get("firmware version", "")),
        arrays=tuple(volumes),
        disks=tuple(disks),
        read_errors=tuple(output.summarize(unread)),
    )


def _unheaded(lines: Sequence[str], head: re.Pattern[str], once: Sequence[str]) -> Iterator[str]:
    """Yield the reasons if data of volumes or devices are below no heading, or several below one.

    `once` are the keys that each of them has once, and the beginning of its heading.
    """
    key, heading = once
    first = next((at for at, line in enumerate(lines) if head.fullmatch(line)), len(lines))
    blocks = [lines[:first], *(block for _, block in output.blocks(lines, head))]
    for number, block in enumerate(blocks):
        keys = [name for name, _ in _pairs(block)]
        if number == 0 and key in keys:
            yield output.reason("sas2ircu DISPLAY", f"{heading} before '{key}'", "none")
        yield from output.merged("sas2ircu DISPLAY", heading, keys, {key})


def _volume(lines: Sequence[str]) -> ControllerArray:
    pairs = list(_pairs(lines))
    own = dict(reversed(pairs))
    slots = (
        slot
        for key, value in pairs
        if key.startswith("phy[")
        if (found := _PLACE.fullmatch(value))
        if (slot := _slot(found[1], found[2]))
    )
    return ControllerArray(
        name=volume_name(own.get("volume id", "")),
        state=_state(own.get("status of volume", ""), _VOLUME_STATES),
        level=output.printable(own.get("raid level", "")),
        size_bytes=_bytes(own.get("size (in mb)", "")),
        slots=tuple(dict.fromkeys(slots)),
        serial=output.printable(own.get("volume wwid", "")),
    )


def volume_name(number: str) -> str:
    """Return the name of a volume from its persistent number, not from its position in the list."""
    return f"volume {output.printable(number)}".strip()


def _disk(kind: str, lines: Sequence[str]) -> PhysicalDisk | None:
    own = dict(reversed(list(_pairs(lines))))
    state = _state(own.get("state", ""), _DISK_STATES)
    if kind.casefold() != "hard disk" and state.word.casefold().startswith("standby"):
        return None
    vendor, model = own.get("manufacturer", ""), own.get("model number", "")
    slot = _slot(own.get("enclosure #", ""), own.get("slot #", ""))
    return PhysicalDisk(
        slot=slot or "slot ?",
        state=state,
        model=output.printable(model if vendor in {"", "ATA"} else f"{vendor} {model}".strip()),
        serial=output.printable(own.get("serial no", "")),
        firmware=output.printable(own.get("firmware revision", "")),
        size_bytes=_bytes(own.get("size (in mb)/(in sectors)", "").partition("/")[0]),
        usage=state.word,
    )


def _slot(enclosure: str, slot: str) -> str:
    return output.slot_name(enclosure, slot) if re.fullmatch(r"[0-9]{1,5}", enclosure) else ""


def _state(word: str, meanings: Mapping[str, ComponentHealth]) -> ComponentState:
    """Parse a state such as 'Okay (OKY)'."""
    found = _STATE.fullmatch(word)
    state = states.classify(found[1] if found else word, meanings)
    code = _CODES.get(found[2]) if found else None
    if found and code not in {None, state.health} and state.health in states.WELL:
        return ComponentState(ComponentHealth.ATTENTION, output.printable(word))
    return replace(state, word=output.printable(found[1] if found else word))


def _bytes(megabytes: str) -> int | None:
    return int(megabytes) * _MB if re.fullmatch(r"[0-9]{1,12}", megabytes) else None


def parse_status(text: str) -> dict[str, VolumeTask]:
    """Parse the running task of each volume of 'N STATUS', by volume name.

    A plain adapter has none. Errors: ParseError.
    """
    plain = output.plain(text)
    if _NO_VOLUMES.search(plain):
        return {}
    found = {}
    for _, block in output.blocks(_whole("STATUS", plain), _VOLUME):
        own = dict(_pairs(block))
        operation = own.get("current operation", "")
        done = _PERCENT.match(own.get("percentage complete", ""))
        found[volume_name(own.get("volume id", ""))] = VolumeTask(
            "" if operation == "None" else output.printable(operation),
            output.printable(own.get("volume status", "")),
            output.ratio(done),
        )
    if not found:
        raise output.refused("sas2ircu STATUS", "'IR Volume 1'", text)
    return found


def parse_states(text: str) -> tuple[ControllerArray, ...]:
    """Parse the volumes of 'N STATUS' with their states alone, for use without 'N DISPLAY'.

    Errors: ParseError.
    """
    words = _VOLUME_STATES | {"optimal": ComponentHealth.OK}
    return tuple(
        with_task(
            ControllerArray(name, _state(own.get("volume state", ""), words)), tasks.get(name)
        )
        for tasks in (parse_status(text),)
        for _, block in output.blocks(output.plain(text).splitlines(), _VOLUME)
        for own in (dict(_pairs(block)),)
        for name in (volume_name(own.get("volume id", "")),)
    )


def with_task(array: ControllerArray, task: VolumeTask | None) -> ControllerArray:
    """Return a volume with its running task: one that restores redundancy, or one that does not."""
    if task is None:
        return array
    odd = [] if task.status.casefold() in {"enabled", ""} else [task.status]
    state = states.downgraded(array.state, odd)
    if not task.operation:
        return replace(array, state=state)
    health = state.health
    if health is ComponentHealth.OK:
        known = task.operation.casefold() in states.WORKING.keys() | _MENDING
        health = ComponentHealth.BUSY if known else ComponentHealth.ATTENTION
    elif health is ComponentHealth.DEGRADED and task.operation.casefold() in _MENDING:
        health = ComponentHealth.REBUILDING
    return replace(
        array, state=ComponentState(health, f"{state.word}, {task.operation}", task.done_ratio)
    )


def _whole(command: str, plain: str) -> list[str]:
    """Return the lines of a complete, successful output. Errors: ParseError."""
    if _DONE[command] not in plain:
        raise output.refused(f"sas2ircu {command}", f"'{_DONE[command]}' at its end", plain)
    return plain.splitlines()


def _sections(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return the lines below each title, which is between two separators."""
    found: dict[str, list[str]] = {}
    title = ""
    for at, line in enumerate(lines):
        if _RULE.fullmatch(line):
            continue
        ruled = 0 < at < len(lines) - 1 and all(
            _RULE.fullmatch(lines[beside]) for beside in (at - 1, at + 1)
        )
        if ruled:
            title = line.strip()
            found[title] = []
        elif title:
            found[title].append(line)
    return found


def _pairs(lines: Sequence[str]) -> Iterator[Pair]:
    """Yield lower-case names and values of lines such as 'PHY[0] Enclosure#/Slot#     : 1:2'."""
    for line in lines:
        name, colon, value = line.partition(" : ")
        if not colon:
            name, colon, value = line.rpartition(" :")
        if colon and name.strip():
            yield " ".join(name.split()).casefold(), value.strip()
