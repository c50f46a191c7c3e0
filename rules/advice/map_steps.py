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
    """Return the states of the paths of a map, and which other maps have faults as well."""
    of_map = _map_of(step, step.device)
    if of_map is None:
        return []
    name = of_map.dm_name or of_map.name
    found = [
        f"{_path_health(name, step.facts.paths(of_map))}; their state in multipathd:",
        f"  multipath -ll {quote(name)}",
    ]
    named = (AdviceSubject(labels).name for labels in step.about.others)
    maps = (_map_of(step, step.facts.device(each)) for each in named if each)
    others = {m.dm_name or m.name: None for m in maps if m is not None and m is not of_map}
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


def _map_of(step: StepContext, device: Device | None) -> Device | None:
    """Return the multipath map that a device is, or is a path of."""
    if device is None:
        return None
    return device if step.facts.kind(device) is DeviceKind.MAP else step.facts.map_of(device)


def extend_thin_pool(step: StepContext) -> list[str]:
    """How to give space to the thin pool that a device is, or is built on."""
    if step.device is None:
        return []
    below = (each for each in step.facts.below(step.device) if each.name in step.facts.of.full)
    full = [each.dm_name or each.name for each in below]
    if not full:
        return []
    return [
        f"{listed(full)} has no space left, or not much. How full data and metadata are:",
        "  lvs -a -o +data_percent,metadata_percent",
        (
            "Extend a thin pool with 'lvextend' while it is in use, or free space in it:"
            " 'fstrim' on its file systems, or remove snapshots that are not needed."
        ),
        "Check the file systems on it afterwards.",
    ]


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
