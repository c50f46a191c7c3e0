"""Drive groups and virtual drives of MegaRAID controllers, parsed from storcli's output. Pure.

Source: see `storcli`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.raid import output, states
from iowarden.collectors.raid.controller import (
    CachePolicy,
    ComponentHealth,
    ComponentState,
    Controller,
    ControllerArray,
    PhysicalDisk,
)
from iowarden.collectors.raid.megaraid.storcli_answer import (
    SLOT,
    Tree,
    flattened,
    not_answered,
    objects,
    parse_whole,
    rows_of,
    size_of,
    slot_of,
    text_of,
)
from iowarden.collectors.raid.megaraid.storcli_disks import disk_state, topology_disk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_ARRAY_STATES = {
    **states.DEAD,
    "optl": ComponentHealth.OK,
    "optimal": ComponentHealth.OK,
    "pdgd": ComponentHealth.DEGRADED,
    "partially degraded": ComponentHealth.DEGRADED,
    "dgrd": ComponentHealth.DEGRADED,
    "degraded": ComponentHealth.DEGRADED,
    "ofln": ComponentHealth.FAILED,
    "msng": ComponentHealth.FAILED,
}
"""'Optl', 'Dgrd' and 'OfLn' were seen. 'Rec' (recovery) is not among them."""
_FOREIGN_STATES = {**_ARRAY_STATES, **dict.fromkeys(("optl", "optimal"), ComponentHealth.ATTENTION)}
"""States of foreign drive groups: one that could be imported waits for an administrator."""
_ACCESS = frozenset({"rw", "ro", "hd", "-", ""})
"""Read and write, read only, hidden: as configured. 'B' (blocked) is not among them."""
_SWITCH = {"enbl": True, "enabled": True, "dsbl": False, "disabled": False}
"""States of the disks' own write caches. Not 'dflt', 'Disk's Default', 'Default'."""
_FORCED = frozenset({"AWB", "FWB"})
"""Write-back even without a battery: always, forced."""
_TARGETS = 128
"""Volumes are on SCSI channels 2 and 3 with 128 targets each. Source: megaraid_sas.h."""
_CACHE = lazy_pattern(r"(NR|R|ADRA)(?-i:a?),?(A?F?WB|WT)[CD]?", re.IGNORECASE)
"""'Ra' is read-ahead alone, 'RAWB' is read-ahead with always write-back."""


def volume_name(number: int) -> str:
    """Return the name of a virtual drive, also in events."""
    return f"virtual drive {number}"


def volume_address(target: int) -> str:
    """Return the SCSI address that the driver megaraid_sas gives to a virtual drive, '2:0:0'."""
    return f"{2 + target // _TARGETS}:{target % _TARGETS}:0"


def drive_groups(data: Tree, *, adapter: bool) -> tuple[list[ControllerArray], list[PhysicalDisk]]:
    """Return the drive groups of the topology, and the disks missing in it."""
    groups: list[ControllerArray] = []
    missing: list[PhysicalDisk] = []
    for row in rows_of(data.get("topology")):
        group, span = text_of(row, "dg"), text_of(row, "arr", "span")
        if text_of(row, "type").casefold() == "drive":
            state = disk_state(row, adapter=adapter)
            if state.health is ComponentHealth.FAILED and not SLOT.fullmatch(
                text_of(row, "eid:slot")
            ):
                place = f"drive group {group} span {span} row {text_of(row, 'row')}"
                missing.append(
                    PhysicalDisk(place, state, usage="member", array=f"drive group {group}")
                )
        elif span == "-" and text_of(row, "row") == "-":
            word = text_of(row, "state")
            # storcli2 reports no state of a drive group.
            health = (
                ComponentState(ComponentHealth.OK, "-") if word == "-" and "span" in row else None
            )
            groups.append(
                ControllerArray(
                    f"drive group {group}",
                    health or states.classify(word, _ARRAY_STATES),
                    level=text_of(row, "type"),
                    size_bytes=size_of(row),
                )
            )
    return groups, missing


def volumes_of(
    data: Tree, slots: Mapping[str, tuple[str, ...]], driver: str, read_errors: list[str]
) -> Iterator[ControllerArray]:
    """Yield the virtual drives of an answer.

    The reasons for unreadable rows are added to `read_errors`.
    """
    seen: set[str] = set()
    disk_caches = {
        f"drive group {text_of(row, 'dg')}": _SWITCH.get(text_of(row, "pdc").casefold())
        for row in rows_of(data.get("topology"))
        if text_of(row, "type").casefold() != "drive"
    }
    for row in objects(data):
        place = re.fullmatch(
            r"(\d{1,4}|[-f])/(\d{1,4})", text_of(row, "dg/vd").casefold(), re.ASCII
        )
        if "dg/vd" not in row:
            continue
        if place is None:
            read_errors.append(
                output.reason("storcli", "'<group>/<number>' of a virtual drive", str(row))
            )
            continue
        number = int(place[2])
        name = volume_name(number)
        if name in seen:
            continue
        seen.add(name)
        state = states.classify(text_of(row, "state"), _ARRAY_STATES)
        access = text_of(row, "access")
        odd = [] if access.casefold() in _ACCESS else [f"access {access}"]
        parent = f"drive group {int(place[1])}" if place[1].isdecimal() else ""
        yield ControllerArray(
            name,
            states.downgraded(state, odd),
            level=text_of(row, "type"),
            label=text_of(row, "name"),
            parent=parent,
            size_bytes=size_of(row),
            slots=slots.get(parent, ()),
            address=volume_address(number) if driver == "megaraid_sas" else "",
            policy=_policy(text_of(row, "currentcache", "cache"), text_of(row, "defaultcache")),
            disk_cache=disk_caches.get(parent),
        )


def _policy(current: str, default: str = "") -> CachePolicy | None:
    """Parse a policy such as 'RWBD' or 'NR,WB'; 'AWB' is write-back even without a battery."""
    if not current:
        return None
    found, set_to = _CACHE.fullmatch(current), _CACHE.fullmatch(default)
    if found is None:
        return CachePolicy(word=current)
    return CachePolicy(
        _writes_back(found),
        found[1].upper() != "NR",
        current,
        _writes_back(set_to) if set_to else None,
        (set_to or found)[2].upper() in _FORCED,
    )


def _writes_back(found: re.Match[str]) -> bool:
    return found[2].upper().endswith("WB")


def members_of(data: Tree, disks: Sequence[PhysicalDisk]) -> dict[str, tuple[str, ...]]:
    """Return the disks of each drive group: from its rows, else from the topology."""
    found: dict[str, list[str]] = {}
    for disk in disks:
        if disk.array:
            found.setdefault(disk.array, []).append(disk.slot)
    for row in rows_of(data.get("topology")):
        place = slot_of(text_of(row, "eid:slot"))
        name = f"drive group {text_of(row, 'dg')}"
        if place and place not in found.setdefault(name, []):
            found[name].append(place)
    return {name: tuple(each) for name, each in found.items() if each}


def parse_volumes(text: str) -> dict[str, ControllerArray]:
    """Parse the virtual drives of '/vall show all' by name; `serial` is the one that the host sees.

    `serial` is from storcli2's output, else the 'SCSI NAA Id'. Errors: ParseError.
    """
    found: dict[str, ControllerArray] = {}
    answers = parse_whole(text)
    for answer in answers:
        properties = _volume_properties(answer.data)
        for each in volumes_of(answer.data, {}, "", []):
            told = properties.get(each.name, {})
            policy, default = each.policy, told.get("write cache(initial setting)", "")
            if policy and default:
                back = {"writeback": True, "writethrough": False, "alwayswriteback": True}
                word = re.sub(r"[^a-z]", "", default.casefold())
                policy = replace(policy, default_write_back=back.get(word))
            bad = told.get("bad block exists", told.get("bad blocks exist", "No"))
            well = bad.casefold() in {"no", "-", "n/a"}
            odd = [] if well else [f"bad blocks exist: {bad}"]
            disk_cache = text_of(told, "disk cache policy", "drive write cache policy")
            found[each.name] = replace(
                each,
                policy=policy,
                state=states.downgraded(each.state, odd),
                serial=text_of(told, "serial number", "scsi naa id"),
                disk_cache=_SWITCH.get(disk_cache.casefold(), each.disk_cache),
            )
    if not found:
        raise not_answered("storcli /cN/vall show all", "virtual drives", answers)
    return found


def _volume_properties(data: Tree) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for key, each in data.items():
        named = re.fullmatch(r"vd(\d{1,4}) properties", key, re.ASCII)
        if named and isinstance(each, dict):
            found[volume_name(int(named[1]))] = flattened(each)
    for row in rows_of(data.get("virtual drives")):  # storcli2
        info, told = row.get("vd info"), row.get("vd properties")
        if isinstance(info, dict) and isinstance(told, dict):
            number = text_of(info, "dg/vd").partition("/")[2]
            found[f"virtual drive {number}"] = flattened(told)
    return found


def with_volumes(controller: Controller, volumes: Mapping[str, ControllerArray]) -> Controller:
    """Return a controller with details of its virtual drives from '/vall show all'."""
    arrays = [
        replace(
            each,
            policy=volumes[each.name].policy or each.policy,
            serial=volumes[each.name].serial,
            disk_cache=each.disk_cache
            if volumes[each.name].disk_cache is None
            else volumes[each.name].disk_cache,
            state=states.worst(each.state, volumes[each.name].state),
        )
        if each.name in volumes
        else each
        for each in controller.arrays
    ]
    return replace(controller, arrays=tuple(arrays))


def parse_topology(
    text: str,
) -> tuple[tuple[ControllerArray, ...], tuple[PhysicalDisk, ...]]:
    """Parse the drive groups and the disks of '/dall show'. Errors: ParseError."""
    answers = parse_whole(text)
    groups: list[ControllerArray] = []
    disks: list[PhysicalDisk] = []
    for answer in answers:
        own, missing = drive_groups(answer.data, adapter=False)
        slots = members_of(answer.data, ())
        groups += [replace(group, slots=slots.get(group.name, ())) for group in own]
        rows = rows_of(answer.data.get("topology"))
        disks += [*filter(None, map(topology_disk, rows)), *missing]
    if not groups and not disks:
        raise not_answered("storcli /cN/dall show", "drive groups", answers)
    return tuple(groups), tuple(disks)


def parse_foreign(text: str) -> tuple[ControllerArray, ...]:
    """Parse the drive groups of a foreign configuration ('/fall show'), if any.

    Each needs attention: until it is imported or cleared, its disks cannot be used. One with
    missing disks has failed. Errors: ParseError.
    """
    answers = parse_whole(text)
    rows = [
        row
        for answer in answers
        for row in objects(answer.data)
        if "dg" in row and "eid:slot" in row and "novds" in row
    ]
    descriptions = "; ".join(each.description for each in answers)
    named = any("total foreign drive groups" in each.data for each in answers)
    if not rows and not named and "foreign" not in descriptions.casefold():
        raise output.refused("storcli /cN/fall show", "a foreign configuration", descriptions)
    return tuple(
        ControllerArray(
            f"foreign drive group {text_of(row, 'dg')}",
            states.classify(text_of(row, "state"), _FOREIGN_STATES),
            level=text_of(row, "type"),
            size_bytes=size_of(row) or None,
        )
        for row in rows
    )
