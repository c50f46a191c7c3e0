"""Steps of advice about mapped devices: the paths of multipath, what is suspended. Pure.

Sources: dmsetup(8), multipath(8), cryptsetup(8).
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from iowarden.rules.advice.facts import DeviceKind
from iowarden.rules.advice.step import AdviceSubject, StepContext, counted, listed

if TYPE_CHECKING:
    from iowarden.collectors.block.block_devices import Device

MAX_MAPS = 8
"""Multipath maps whose paths are shown one by one."""


def paths(step: StepContext) -> list[str]:
    """How many paths of a map still work, and which other maps have faults as well."""
    of_map = _map_of(step, step.device)
    if of_map is None:
        return []
    working, every, good = step.facts.paths(of_map)
    name = of_map.dm_name or of_map.name
    found = [
        (
            f"{working} of {counted(every, 'path')} of {name} work{'s' * (working == 1)}, as far as"
            f" known{f' ({listed(good)})' if good else ''}; their state in multipathd:"
        ),
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


def _map_of(step: StepContext, device: Device | None) -> Device | None:
    """Return the multipath map that a device is, or is a path of."""
    if device is None:
        return None
    return device if step.facts.kind(device) is DeviceKind.MAP else step.facts.map_of(device)


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
