"""Which paths of multipath maps device-mapper does not use, by the lines of the kernel's log. Pure.

Source: kernel, dm-mpath.c: fail_path ('Failing path 8:16.'), reinstate_path ('Reinstating path').
Limits: a table that is loaded again uses all of its paths again, and the kernel logs nothing about
that; multipathd loads it when a path is added. So no line counts that is older than the newest path
of its map. Numbers are 'major:minor', as in the lines.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.topology.stack import path_maps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.rules.events.event_state import EventGroup, EventUpdate

FAILOVER_SECONDS = 45.0
"""While a storage array fails over, all paths of a map may have failed for shorter than that."""
_FAILED, _REINSTATED = "dm_path_failed", "dm_path_reinstated"
BootNumber = tuple[str, str]
"""A boot, and the number of a device in it."""
_Path = tuple[str, int | None]
"""The number of a path's device, and its number among all devices since the boot."""


@dataclass(frozen=True, slots=True)
class FailedPaths:
    """The paths that failed and were not reinstated, since when, and the paths of each map.

    Units: seconds of the program's clock.
    """

    failed: Mapping[BootNumber, float] = field(default_factory=dict)
    paths: Mapping[str, frozenset[_Path]] = field(default_factory=dict)

    def numbers(self, boot_id: str, now: float) -> frozenset[str]:
        """Return the numbers of the paths in a boot that failed and did not come back soon."""
        return frozenset(
            number
            for (boot, number), since in self.failed.items()
            if boot == boot_id and now - since >= FAILOVER_SECONDS
        )


def recalled(groups: Iterable[EventGroup]) -> FailedPaths:
    """Return the failed paths by the events of the previous run."""
    return FailedPaths(
        {
            (group.burst.last.boot_id, place): group.began_seconds
            for group in groups
            if group.burst.kind == _FAILED and group.ended_seconds is None
            for place in group.places
        }
    )


def after_events(state: FailedPaths, updates: Iterable[EventUpdate]) -> FailedPaths:
    """Return the failed paths after some lines, in their order."""
    failed = dict(state.failed)
    for update in updates:
        path = update.event.boot_id, update.event.place
        if update.event.kind == _FAILED and update.group is not None:
            failed.setdefault(path, update.group.received_seconds)
        elif update.event.kind == _REINSTATED:
            failed.pop(path, None)
    return FailedPaths(failed, state.paths)


def after_poll(state: FailedPaths, topology: Topology) -> FailedPaths:
    """Return the failed paths after a poll of the maps: of one with a new path none is known.

    A device that is no longer a path of a map is lost by its absence.
    """
    paths: dict[str, frozenset[_Path]] = {}
    valid: set[str] = set()
    for name, below in path_maps(topology).items():
        devices = [topology.devices[path] for path in below]
        paths[name] = frozenset((d.device_number or "", d.diskseq) for d in devices)
        if name not in state.paths or paths[name] <= state.paths[name]:
            valid |= {number for number, _ in paths[name]}
    failed = {path: since for path, since in state.failed.items() if path[1] in valid}
    return FailedPaths(failed, paths)
