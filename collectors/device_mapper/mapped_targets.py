"""State of thin pools, snapshots, RAID sets, multipath maps and other targets of device-mapper.

'dmsetup status --noflush' is run for named devices only. Without '--noflush' it would commit the
metadata of pools: a write to what is watched. '--target' filters what is printed, not what is
queried (lvm2, dmsetup.c, _status), so that one pool that hangs would hang the status of all
devices: pools, caches and clones, whose status waits for the lock of their metadata, are run one
by one, the others of a type together. Which device is of which type: target_types.py. A machine
whose devices are all linear, crypt or zero runs no program. What 'dmsetup info' prints is in sysfs.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.block.device_mapper import DIRECTORY, mapped_name
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import AbsentError, Family, ParseError, ReadError, Sample
from iowarden.collectors.program import run_program
from iowarden.collectors.source import Source
from iowarden.collectors.sysfs import device_name, printable_name

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

    from iowarden.collectors.device_mapper.target_status import TargetStatus
    from iowarden.collectors.machine import Machine
    from iowarden.collectors.model import Labels

VERB = "dm_targets"
"""The probe's verb of target_types.py."""
DEADLINE_SECONDS = 30.0
WATCHED = (
    *("thin-pool", "thin", "snapshot", "snapshot-merge", "raid", "mirror", "striped", "multipath"),
    *("cache", "writecache", "clone", "integrity", "verity", "vdo"),
)
"""Targets whose status shows whether they are well."""
_LOCKED = frozenset(("thin-pool", "cache", "clone"))
_MODULES = (
    *("dm_thin_pool", "dm_snapshot", "dm_raid", "dm_mirror", "dm_multipath", "dm_cache"),
    *("dm_writecache", "dm_clone", "dm_integrity", "dm_verity", "dm_vdo", "kvdo"),
)
"""Modules of these targets but 'striped', which is part of dm_mod. Source: drivers/md/Makefile;
kvdo: of RHEL up to 9."""
MAX_DEVICES = 50
"""Of one program: the probe takes 64 arguments."""
_ARGUMENT = lazy_pattern(r"[!-,.0-~][!-.0-~]{0,126}", re.ASCII)
"""Names that may be an argument: no option, no path."""

FAMILIES = (
    Family(
        "iowarden_dm_state",
        "gauge",
        "1 for each state that a target of device-mapper reports: rw, ro,"
        " out_of_data_space, needs_check, Fail, Invalid, read-only.",
    ),
    Family(
        "iowarden_dm_used_ratio",
        "gauge",
        "Used share of the data or metadata of a thin pool, cache, clone or VDO volume, or of the"
        " space of a snapshot (area cow).",
    ),
    Family(
        "iowarden_dm_leg_state",
        "gauge",
        "1 for the letter that device-mapper has for each leg of a RAID set, mirror or stripe set:"
        " A in sync, a not yet in sync, D failed.",
    ),
    Family(
        "iowarden_dm_raid_failed",
        "gauge",
        "1 if more legs of a RAID set or mirror failed than it can lose.",
    ),
    Family(
        "iowarden_dm_mismatches",
        "gauge",
        "Mismatches that the last check of a RAID set found, or checksums that did not match in an"
        " integrity device.",
    ),
    Family(
        "iowarden_dm_queue_if_no_path",
        "gauge",
        "1 if requests to a multipath map wait while none of its paths works; 0: they fail.",
    ),
    Family(
        "iowarden_dm_thin_mapped_bytes",
        "gauge",
        "Space that a thin volume uses in its pool.",
    ),
)


def read_mapped_targets(
    root: Machine, enter: Callable[[Hashable], str] = lambda _: ""
) -> tuple[TargetStatus, ...]:
    """Read the status of all targets that are in WATCHED, in the order of their devices' names.

    `enter` is called before each program; it returns '', or why it is not run. Errors: AbsentError
    (no such device, no probe, no program), ReadError, ParseError (of the list of devices).
    """
    devices = _devices(root)
    if not _has_targets(root, devices.values()):
        raise AbsentError(f"'{DIRECTORY}': no device-mapper device with a state of its own")
    # Imported here: most machines have no such device.
    from iowarden.collectors.device_mapper import target_types  # noqa: PLC0415

    if reason := enter("table"):
        raise ReadError(f"'dmsetup table': {reason}")
    name_of = {device: name for name, device in devices.items()}
    types = target_types.read_target_types(root, DEADLINE_SECONDS)
    statuses: list[TargetStatus] = []
    for target in WATCHED:
        names = sorted(name for name, found in types.targets.items() if target in found)
        size = 1 if target in _LOCKED else MAX_DEVICES
        for first in range(0, len(names), size):
            statuses += _read_batch(root, enter, target, tuple(names[first : first + size]))
    if not statuses:
        raise AbsentError("'dmsetup table': no device-mapper device with a state of its own")
    return tuple(
        replace(
            status,
            name=printable_name(status.name),
            device=devices.get(status.name, ""),
            is_queued_without_path=types.queueing.get(status.name),
            pool=_pool(root, devices, name_of, status),
        )
        for status in sorted(statuses, key=lambda status: (status.name, status.start_sectors))
    )


def _devices(root: Machine) -> dict[str, str]:
    """Return the kernel names of all device-mapper devices by their names."""
    entries = [entry for entry in root.names(DIRECTORY) if entry.startswith("dm-")]
    return {name: device_name(entry) for entry in entries if (name := mapped_name(root, entry))}


def _pool(
    root: Machine, devices: Mapping[str, str], name_of: Mapping[str, str], status: TargetStatus
) -> str:
    """Return the name of a thin volume's pool, which is the only device below it, or ''."""
    below: list[str] = []
    if status.target == "thin" and status.name in devices:
        below = root.try_names(f"{DIRECTORY}/{devices[status.name]}/slaves") or []
    return printable_name(name_of.get(below[0], "")) if len(below) == 1 else ""


def _has_targets(root: Machine, devices: Iterable[str]) -> bool:
    """Whether a module of such a target is in use, or a device is on several ones.

    A module that is built in has no reference count (kernel, kernel/module/sysfs.c).
    """
    if not devices:
        return False
    for module in _MODULES:
        count = root.try_read(f"/sys/module/{module}/refcnt")
        if count is None and root.try_names(f"/sys/module/{module}") is not None:
            return True
        if count is not None and count.strip() != "0":
            return True
    return any(len(root.try_names(f"{DIRECTORY}/{device}/slaves") or ()) > 1 for device in devices)


def _read_batch(
    root: Machine, enter: Callable[[Hashable], str], target: str, names: tuple[str, ...]
) -> list[TargetStatus]:
    """Run the program for some devices; one that it does not answer for has the reason."""
    from iowarden.collectors.device_mapper.target_status import (  # noqa: PLC0415
        TargetStatus,
        parse_line,
    )

    statuses: list[TargetStatus] = []
    askable = tuple(name for name in names if _ARGUMENT.fullmatch(name))
    reason = enter((target, askable)) if askable else ""
    if askable and not reason:
        command = ("dmsetup", "status", "--noflush", "--target", target, *askable)
        try:
            for line in run_program(root, DEADLINE_SECONDS, *command).splitlines():
                # A single device is printed without its name (dmsetup.c, multiple_devices).
                named = f"{askable[0]}: {line}" if len(askable) == 1 else line
                status = parse_line(named)
                if status is not None and status.target == target and status.name in askable:
                    statuses.append(status)
        except (ReadError, ParseError) as error:
            reason = str(error)
    answered = {status.name for status in statuses}
    return statuses + [
        TargetStatus(name=name, target=target, unparsed=reason or _unanswered(name, askable))
        for name in names
        if name not in answered
    ]


def _unanswered(name: str, askable: tuple[str, ...]) -> str:
    if name in askable:
        return "'dmsetup status': expected its state, got none: it was just removed or changed"
    return "its name has characters that cannot be passed to 'dmsetup status'"


def emit(value: tuple[TargetStatus, ...]) -> list[Sample]:
    """Return the samples of FAMILIES; of a target that is not understood none."""
    return [sample for status in value if not status.unparsed for sample in _samples(status)]


def _samples(status: TargetStatus) -> Iterator[Sample]:
    labels = (("device", status.device), ("name", status.name))
    target = ("target", status.target)
    for state in status.states:
        yield "iowarden_dm_state", (*labels, ("state", state), target), 1.0
    for usage in status.usages:
        yield "iowarden_dm_used_ratio", (("area", usage.area), *labels, target), usage.ratio
    for leg in status.legs:
        own = (labels[0], ("leg", leg.position), labels[1], ("path", leg.device))
        yield "iowarden_dm_leg_state", (*own, ("state", leg.state), target), 1.0
    if (is_failed := status.is_failed) is not None:
        yield "iowarden_dm_raid_failed", (*labels, target), float(is_failed)
    if status.mismatches is not None:
        yield "iowarden_dm_mismatches", (*labels, target), float(status.mismatches)
    if status.is_queued_without_path is not None:
        yield "iowarden_dm_queue_if_no_path", labels, float(status.is_queued_without_path)
    if status.mapped_sectors is not None:
        volume = (*labels, ("pool", status.pool))
        yield "iowarden_dm_thin_mapped_bytes", volume, status.mapped_sectors * 512.0


def unreadable(value: tuple[TargetStatus, ...]) -> Iterator[tuple[Labels, str]]:
    """Yield the devices whose state is not known, and why."""
    for status in value:
        if status.unparsed:
            yield (("name", status.name),), status.unparsed


SOURCE: Source[tuple[TargetStatus, ...]] = Source(
    name="dm_targets",
    period_seconds=60,
    period_help=(
        "How often 'dmsetup status' is run for thin pools, snapshots, RAID sets, multipath maps and"
        " other targets with a state; also at a uevent of a device-mapper device."
    ),
    may_hang=True,
    read=read_mapped_targets,
    families=FAMILIES,
    emit=emit,
    objects=("device",),
    unreadable=unreadable,
    parts=read_mapped_targets,
)
