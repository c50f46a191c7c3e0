"""Steps of advice about mapped devices: the paths of multipath, what is suspended. Pure.

Sources: dmsetup(8), multipath(8), cryptsetup(8).
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from iowarden.rules.advice.facts import DeviceKind, PathCounts
from iowarden.rules.advice.step import AdviceSubject, StepContext, counted, listed

if TYPE_CHECKING:
    from iowarden.collectors.block.block_devices import Device

MAX_MAPS = 8
"""Multipath maps whose paths are shown one by one."""


def paths(step: StepContext) -> list[str]:
    """Return the states of the paths of the maps of a device, and which other maps have faults."""
    maps = _maps_of(step, step.device)[:MAX_MAPS]
    if not maps:
        return []
    found = []
    for own in maps:
        name = own.dm_name or own.name
        health = _path_health(name, step.facts.paths(own))
        found += [f"{health}; their state in multipathd:", f"  multipath -ll {quote(name)}"]
    named = (AdviceSubject(labels).name for labels in step.about.others)
    of_others = (each for name in named if name for each in _maps_of(step, step.facts.device(name)))
    others = {each.dm_name or each.name: None for each in of_others if each not in maps}
    if len(others) >= MAX_MAPS:
        of_all = f"Paths of {len(others)} other maps have faults as well; all maps:"
        return [*found, of_all, "  multipath -ll"]
    if others:
        found.append(f"Paths of {listed(others)} have faults as well:")
    return [*found, *(f"  multipath -ll {quote(other)}" for other in others)]


def _path_health(name: str, counts: PathCounts) -> str:
    """Return a sentence about the paths of a map; what is not known to work is no redundancy."""
    of_all = f"of {counted(counts.every, 'path')} of {name}"
    good = f" ({listed(counts.good)})" if counts.good else ""
    if counts.unknown == counts.every:
        return f"Whether any {of_all}{good} works is not known: the kernel does not show it in /sys"
    known = []
    if counts.working:
        known.append(f"{counts.working} {of_all} work{'s' * (counts.working == 1)}{good}")
    if counts.failed:
        is_one = counts.failed == 1
        words = "is lost or has faults" if is_one else "are lost or have faults"
        known.append(f"{counts.failed} {of_all} {words}")
    if counts.unknown:
        others = (
            "the other one works" if counts.unknown == 1 else f"the other {counts.unknown} work"
        )
        known.append(f"whether {others} is not known{'' if counts.working else good}")
    return ", and ".join(known)


def _maps_of(step: StepContext, device: Device | None) -> list[Device]:
    """Return the multipath map that a device is or is a path of, or those that it is built on."""
    if device is None:
        return []
    above = step.facts.map_of(device)
    every = step.facts.below(device) if above is None else (above,)
    return [each for each in every if step.facts.kind(each) is DeviceKind.MAP]


def extend_thin_pool(step: StepContext) -> list[str]:
    """What to do about the full thin pool or lost snapshot that a device is, or is built on."""
    if step.device is None:
        return []
    below = step.facts.below(step.device)
    full = [each.dm_name or each.name for each in below if each.name in step.facts.of.full]
    lost = [each.dm_name or each.name for each in below if each.name in step.facts.of.snapshots]
    lines = []
    if full:
        lines = [
            f"{listed(full)} has no space left, or not much. How full data and metadata are:",
            "  lvs -a -o +data_percent,metadata_percent",
            (
                "Extend a thin pool with 'lvextend' while it is in use, or free space in it:"
                " 'fstrim' on its file systems, or remove snapshots that are not needed."
            ),
            "Check the file systems on it afterwards.",
        ]
    if lost:
        lines += [
            f"The snapshot {listed(lost)} is full or lost; its origin is not affected:",
            "  lvs -a -o +origin,snap_percent",
            "A backup that was read from it must be repeated.",
        ]
    return lines


def resume(step: StepContext) -> list[str]:
    """How to resume a suspended device-mapper device."""
    name = step.own.get("name") or (step.device.dm_name if step.device else "")
    if not name:
        return []
    lines = []
    if step.kind is DeviceKind.CRYPT:
        lines = [
            "If it was locked by 'cryptsetup luksSuspend', it needs its passphrase:",
            f"  cryptsetup luksResume {quote(name)}",
        ]
    if step.kind is DeviceKind.MAP:
        return [
            *paths(step),
            "multipathd resumes it when it has finished; only if multipathd is stopped:",
            f"  dmsetup resume {quote(name)}",
        ]
    return [
        *lines,
        "If no program is working on it, resume it:",
        f"  dmsetup resume {quote(name)}",
    ]
