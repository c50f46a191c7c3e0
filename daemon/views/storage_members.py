"""States of arrays, pools, volumes and maps, and of their members, as rows of the storage tree."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.quantity import duration, percentage, size
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.redundancy import redundancy_text
from iowarden.collectors.zfs.zpool_status import ROLES, WORKING, redundancy_groups
from iowarden.daemon.control.storage_document import StorageNode
from iowarden.daemon.views.storage_facts import CRITICAL, WARNING, worst
from iowarden.rules.topology.redundancy import last_holders, runs
from iowarden.rules.topology.survival import CONTROLLER, MD, MULTIPATH, ZFS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.block.block_devices import Device
    from iowarden.collectors.device_mapper.target_status import PathState, TargetStatus
    from iowarden.collectors.md.mdstat import ArrayMember, MdArray
    from iowarden.collectors.raid.controller import (
        ComponentState,
        Controller,
        ControllerArray,
        PhysicalDisk,
    )
    from iowarden.collectors.zfs.zpool_status import PoolStatus, Scan, VirtualDevice
    from iowarden.daemon.views.storage_facts import StorageFacts
    from iowarden.rules.topology.survival import Redundancy

REPLACE, KEEP = "replace", "do not remove: data are lost without it"
MISSING = "missing: check cable, power and bay"
_KIB = 1024
_SLOT = re.compile(r"^enclosure (\w+) slot (\w+)$", re.ASCII)
_MD_ACTIONS = {"recover": "rebuild"}
_ZFS_DOWN = frozenset(("FAULTED", "UNAVAIL", "REMOVED", "OFFLINE"))
_SLOWER = "non-optimized"
_GROUPS = {"A": "in use", "D": "bypassed"}
"""Of groups of paths, by device-mapper's letter; the others wait for their turn."""
_USELESS = {"log": "the pool works without", "cache": "the pool works without"}
_SICK = {
    ComponentHealth.FAILED: CRITICAL,
    ComponentHealth.DEGRADED: CRITICAL,
    ComponentHealth.REBUILDING: WARNING,
    ComponentHealth.FAILING: WARNING,
    ComponentHealth.ATTENTION: WARNING,
}


def of_redundancy(node: StorageNode, found: Redundancy | None) -> StorageNode:
    """Return a row with its number, and with the severity that this number has."""
    if found is None or found.survives is None or not found.complete:
        return node
    left, complete = found.survives, found.complete
    own = CRITICAL if left == 0 and found.technology != MULTIPATH else WARNING
    severity = "" if left == complete else own
    return replace(node, survives_disks=left, severity=worst(node.severity, severity))


# --- md


def md(node: StorageNode, array: MdArray, facts: StorageFacts) -> StorageNode:
    """Return the row of an array: its members, what is left, what it does."""
    found = facts.redundancy(MD, array.name)
    words = [array.state or "state unknown"]
    if array.raid_disks is not None and array.degraded is not None:
        count = array.raid_disks
        words = [f"{count - array.degraded} of {count} members"]
    elif array.level in {"raid0", "linear"}:
        words = [f"{len(array.members)} members"]
    text = words[0] + ("" if found is None else f": {found.text}")
    if not runs(array):
        node = replace(node, severity=CRITICAL)
        text = f"{words[0]}: does not run ({array.state})"
    if doing := _sync(array):
        text += f"; {doing}"
    unknown = "redundancy unknown" if found is not None and found.survives is None else ""
    return replace(of_redundancy(node, found), state=text, unknown=unknown)


def _sync(array: MdArray) -> str:
    """Return what an array does: 'rebuild 12 %, 9 h'."""
    if array.sync_action in {None, "idle", "frozen"}:
        return ""
    word = _MD_ACTIONS.get(array.sync_action or "", array.sync_action or "")
    if array.sync_wait:
        return f"{word} waits"
    ratio, speed = array.sync_done_ratio, array.sync_speed_bytes_per_second
    if ratio is None:
        return word
    total = None if array.mdstat is None else array.mdstat.sync_total_blocks
    text = f"{word} {percentage(ratio)}"
    if total and speed:
        text += f", {duration((1 - ratio) * total * _KIB / speed)} left"
    return text


def md_member(node: StorageNode, member: ArrayMember, array: MdArray) -> StorageNode:
    """Return the row of a member."""
    states = member.states
    errors = f", {member.errors_total} read errors" if member.errors_total else ""
    if "faulty" in states:
        return replace(
            node,
            state=f"FAILED{errors}",
            severity=worst(node.severity, CRITICAL),
            note=REPLACE if runs(array) else "",
        )
    if "in_sync" in states or (not states and member.slot is not None):
        return replace(node, state=f"in sync{errors}")
    filling = member.slot is not None and array.sync_action in {"recover", "reshape"}
    if filling:
        return replace(node, state=f"rebuilding{errors}", severity=worst(node.severity, WARNING))
    return replace(node, state=", ".join(states) or "spare")


def md_last_copies(array: MdArray, facts: StorageFacts) -> frozenset[str]:
    """Return the members that must not be removed: nothing else has what they hold."""
    device = facts.index.whole(array.name)
    return frozenset(last_holders(array, None if device is None else device.md))


def md_missing(array: MdArray, depth: int, facts: StorageFacts) -> Iterator[StorageNode]:
    """Yield the members that are no longer there, as far as it is known which."""
    slotted = sum(member.slot is not None for member in array.members)
    faulty = sum("faulty" in member.states for member in array.members)
    count = max((array.raid_disks or 0) - slotted - faulty, 0) if array.degraded else 0
    lost = facts.gone.get(array.name, [])
    for part, serial, disk in lost[:count]:
        yield StorageNode(
            name=f"({part})",
            kind="disk",
            depth=depth,
            severity=CRITICAL,
            state="REMOVED",
            serial=serial,
            place=disk.shelf or disk.adapter,
            note=MISSING,
            since_seconds=facts.known.moment(disk.at_seconds),
            is_member=True,
        )
    if count > len(lost):
        number = count - len(lost)
        yield StorageNode(
            name=f"({number} missing)",
            kind="",
            depth=depth,
            severity=CRITICAL,
            state="no disk is in this place: it left before iowarden saw it",
            is_member=True,
        )


# --- ZFS


def pool(node: StorageNode, name: str, facts: StorageFacts) -> StorageNode:
    """Return the row of a pool: state, what is left, last scrub."""
    devices = (facts.last.zfs_vdevs or {}).get(name)
    listed = (facts.last.zfs or {}).get(name)
    state = "" if listed is None else listed.state
    if devices is None or devices.reason or not devices.status.devices:
        words = state or "state unknown"
        unknown = "its devices are not known: 'zpool status' was not read"
        severity = CRITICAL if state and state not in {"ONLINE", "DEGRADED"} else node.severity
        return replace(node, state=words, unknown=unknown, severity=worst(severity, node.severity))
    status, found = devices.status, facts.redundancy(ZFS, name)
    groups = redundancy_groups(status)
    text = state or status.state
    exhausted = [group.name for group in groups if group.is_exhausted]
    if found is not None and found.survives is not None:
        text += f": {redundancy_text(found.survives, int(bool(exhausted or found.complete)))}"
    if devices.space is not None:
        used = devices.space.allocated_bytes / devices.space.size_bytes
        text += f"; {percentage(used)} of {size(devices.space.size_bytes)} used"
    if status.scan is not None:
        text += f"; {_scan(status.scan)}"
    severity = CRITICAL if exhausted or state not in {"ONLINE", "DEGRADED", ""} else ""
    node = replace(node, survives_disks=None if found is None else found.survives)
    return replace(node, state=text, severity=worst(node.severity, severity))


def _scan(scan: Scan) -> str:
    """Return the last scrub or resilver: 'scrub 2026-11-23: 0 errors'."""
    if scan.done_ratio is not None and scan.state == "running":
        return f"{scan.kind} {percentage(scan.done_ratio)}"
    day = "" if scan.at is None else f" {scan.at:%Y-%m-%d}"
    if scan.errors is None:
        return f"{scan.kind} {scan.state}{day}"
    return f"{scan.kind}{day}: {scan.errors} errors"


def vdev(node: StorageNode, device: VirtualDevice, status: PoolStatus) -> StorageNode:
    """Return the row of a group of devices of a pool: 'mirror-0'."""
    group = next((each for each in redundancy_groups(status) if each.name == device.name), None)
    if group is None or group.members == 1:
        return leaf_vdev(node, device)
    text = f"{group.working} of {group.members} devices: "
    text += redundancy_text(group.survives, group.members - group.needed)
    lost = group.working is not None and group.working < group.needed
    short = WARNING if (group.working or 0) < group.members else ""
    severity = CRITICAL if group.is_exhausted or lost else short
    if lost:
        text = f"{group.working} of {group.members} devices: data cannot be read"
    return replace(
        node,
        state=text,
        survives_disks=group.survives,
        severity=worst(node.severity, severity),
    )


def leaf_vdev(node: StorageNode, device: VirtualDevice) -> StorageNode:
    """Return the row of a device of a pool: its state and errors, and what it is for."""
    errors = ", ".join(f"{n} {kind} errors" for kind, n in device.errors.items() if n)
    role = f" ({_USELESS[device.role]})" if device.role in _USELESS else ""
    down = device.state in _ZFS_DOWN
    state = device.state + (f", {errors}" if errors else "")
    severity = ""
    if down or errors:
        vital = device.role not in {*_USELESS, "spare"} and device.state != "OFFLINE"
        severity = CRITICAL if down and vital else WARNING
    if "resilvering" in device.note:
        state, severity = f"{state}, resilvering", WARNING
    notes = {"FAULTED": REPLACE, "UNAVAIL": MISSING, "REMOVED": MISSING}
    return replace(
        node,
        state=state + (role if down else ""),
        severity=worst(node.severity, severity),
        note=notes.get(device.state, ""),
    )


def roles() -> dict[str, str]:
    """Return the headings of groups of devices by role: 'log' is under 'logs'."""
    return {role: heading for heading, role in ROLES.items()}


def works(device: VirtualDevice) -> bool:
    """Whether a device of a pool is used, or could be."""
    return device.state in WORKING


# --- RAID volumes of LVM


def leg(node: StorageNode, state: str, *, exhausted: bool) -> StorageNode:
    """Return the row of what a leg is on, by device-mapper's letter for the leg."""
    if state in {"D", "-", "F"}:
        return replace(node, state="FAILED", severity=worst(node.severity, CRITICAL), note=REPLACE)
    words = {"A": "in sync", "a": "not in sync yet", "S": "not in sync", "R": "read errors"}
    severity = WARNING if state in {"a", "S", "R"} else ""
    note = KEEP if exhausted and state == "A" else ""
    return replace(
        node,
        state=words.get(state, node.state),
        severity=worst(node.severity, severity),
        note=note,
    )


# --- volumes of controllers


def volume(
    node: StorageNode, card: Controller, array: ControllerArray, facts: StorageFacts
) -> StorageNode:
    """Return the row of a block device that is a controller's volume."""
    found = facts.redundancy(CONTROLLER, f"{card.name} {array.name}")
    text = f"{array.name} of {card.name}: {array.level or 'volume'}, {_state_of(array.state)}"
    if found is not None:
        text += f": {found.text}"
    if array.state.done_ratio is not None:
        text += f"; {percentage(array.state.done_ratio)} done"
    policy = array.policy
    if policy is not None and policy.write_back is not None:
        text += "; write-back" if policy.write_back else "; write-through"
    if card.batteries:
        bad = [b.state.word or b.state.health.value for b in card.batteries if b.ready is False]
        text += f", battery {bad[0]}" if bad else ", battery ok"
    severity = _SICK.get(array.state.health, "")
    left = None if found is None else found.survives
    if severity == CRITICAL and left:
        severity = WARNING
    node = replace(node, severity=worst(node.severity, severity))
    unknown = "redundancy unknown" if left is None else ""
    return replace(of_redundancy(node, found), state=text, unknown=unknown)


def controller_disks(
    card: Controller, array: ControllerArray, depth: int, facts: StorageFacts
) -> Iterator[StorageNode]:
    """Yield the disks of a controller's volume, by slot."""
    within = {array.name, array.parent} - {""}
    runs_now = array.state.health is not ComponentHealth.FAILED
    short = array.state.health in {ComponentHealth.DEGRADED, ComponentHealth.REBUILDING}
    found = facts.redundancy(CONTROLLER, f"{card.name} {array.name}")
    exhausted = found is not None and any(group.is_exhausted for group in found.groups)
    for disk in card.disks:
        failed = disk.state.health is ComponentHealth.FAILED
        # A failed disk is in no array any more.
        if disk.array in within or disk.slot in array.slots or (failed and short):
            node = _controller_disk(disk, depth, facts)
            if failed and runs_now:
                node = replace(node, note=REPLACE)
            elif exhausted and disk.state.health is ComponentHealth.OK:
                node = replace(node, note=KEEP)
            yield node


def _state_of(state: ComponentState) -> str:
    """Return a state in iowarden's word and the vendor's: 'degraded (Dgrd)'."""
    word, health = state.word, state.health.value
    return health if word.casefold() in {"", health} else f"{health} ({word})"


def _controller_disk(disk: PhysicalDisk, depth: int, facts: StorageFacts) -> StorageNode:
    alerts = facts.alerts(disk.serial) if disk.serial else []
    node = facts.node(_SLOT.sub(r"slot \1:\2", disk.slot), "disk", depth, alerts)
    return replace(
        node,
        state=_state_of(disk.state),
        severity=worst(node.severity, _SICK.get(disk.state.health, "")),
        serial=disk.serial,
        size_bytes=disk.size_bytes,
        temperature_celsius=disk.temperature_celsius,
        is_member=True,
        disk=disk.serial if disk.serial in facts.hidden else "",
    )


# --- multipath


def path_map(node: StorageNode, device: Device, facts: StorageFacts) -> StorageNode:
    """Return the row of a multipath map: how many paths work."""
    counts = {
        dict(labels)["state"]: int(value)
        for _, labels, value in facts.engine.hub.last("iowarden_multipath_paths")
        if dict(labels).get("device") == device.name
    }
    total = sum(counts.values())
    bad = total - counts.get("working", 0) - counts.get("unknown", 0)
    found = facts.redundancy(MULTIPATH, device.dm_name or device.name)
    if total < 2 and not bad:
        return node
    text, severity = f"{total} paths", ""
    known = found is not None and found.survives is not None
    if bad == total:
        text, severity = f"0 of {total} paths: no working path", CRITICAL
    elif bad:
        text, severity = f"{total - bad} of {total} paths", WARNING
    if bad < total and found is not None and known:
        text += f": {found.text}"
    status = _map_status(device.name, facts)
    if status is not None and status.is_queued_without_path is not None:
        text += f"; without a path requests {'wait' if status.is_queued_without_path else 'fail'}"
    node = replace(node, state=text, severity=worst(node.severity, severity))
    return of_redundancy(node, found) if known else node


def path(node: StorageNode, device: Device, of_map: str, facts: StorageFacts) -> StorageNode:
    """Return the row of a path: whether device-mapper uses it, and what the kernel shows of it."""
    scsi = facts.last.scsi
    states = {} if scsi is None else {each.device: each for each in scsi.devices.values()}
    own = states.get(device.name)
    state = (own.state if own is not None else "") or device.state or ""
    is_odd = state not in {"running", "live", _SLOWER, ""}
    group, found = _in_map(device, of_map, facts)
    failed = device.device_number in (facts.engine.signals.failed_paths or ())
    failed = failed if found is None else not found.working
    words = ["FAILED"] if failed else []
    words += [state] if state and (is_odd or not failed) else []
    if own is not None and own.access_state:
        words.append(own.access_state.removeprefix("active/"))
    words += [group] if group and not failed else []
    if found is not None and found.failures:
        times = f"{found.failures} time{'s'[: found.failures != 1]} so far"
        words.append(times if failed else f"failed {times}")
    severity = worst(node.severity, WARNING if failed or is_odd else "")
    # What SMART says of a LUN by one of its paths is nothing about that path.
    return replace(node, state=", ".join(words), kind="path", severity=severity, unknown="")


def _in_map(device: Device, of_map: str, facts: StorageFacts) -> tuple[str, PathState | None]:
    """Return what a map does with the group of a path, if it has several, and with the path."""
    status = _map_status(of_map, facts)
    for group in () if status is None else status.groups:
        for each in group.paths:
            if each.device == device.device_number:
                is_one = status is None or len(status.groups) == 1
                return "" if is_one else _GROUPS.get(group.state, ""), each
    return "", None


def _map_status(of_map: str, facts: StorageFacts) -> TargetStatus | None:
    """Return what 'dmsetup status' shows of a map; None: it was not read, or not understood."""
    return next(
        (
            status
            for status in facts.last.dm_targets or ()
            if status.target == "multipath" and status.device == of_map and not status.unparsed
        ),
        None,
    )
