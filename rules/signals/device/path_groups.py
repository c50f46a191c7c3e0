"""Changes of the path group that a multipath map uses, within an hour.

A map that changes to and fro has a path that works only sometimes, or two hosts that pull a LUN
from one controller to the other; each change interrupts I/O for seconds. Source: kernel,
dm-mpath.c, multipath_status. Limits: read each minute and at uevents, so that two changes between
them are none; forgotten at a restart.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals.signal import SignalGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.device_mapper.target_status import TargetStatus
    from iowarden.rules.signals.signal import View

WINDOW_SECONDS = 3600.0
_IN_USE = "A"


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """The paths of the group that a map used last, and when that changed within an hour."""

    paths: frozenset[str]
    changes_seconds: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class PathGroupState:
    """By the name of the map."""

    maps: Mapping[str, GroupHistory] = field(default_factory=dict)


FAMILIES = (
    Family(
        "iowarden_dm_path_group_changes",
        "gauge",
        "How often a multipath map changed to another group of paths within the last hour.",
    ),
)


def step(state: PathGroupState, view: View) -> tuple[PathGroupState, list[Sample] | None]:
    """Return the state and the number of changes of each map."""
    targets = view.inputs.snapshot.dm_targets
    if targets is None:
        return state, None
    maps = {}
    samples: list[Sample] = []
    for status in targets:
        before = state.maps.get(status.name)
        history = _followed(before, status, view.inputs.now_seconds)
        if history is not None:
            maps[status.name] = history
            labels = (("device", status.device), ("name", status.name))
            samples.append((FAMILIES[0].name, labels, float(len(history.changes_seconds))))
    return PathGroupState(maps), samples


def _followed(before: GroupHistory | None, status: TargetStatus, now: float) -> GroupHistory | None:
    """Return the history of a map; None: it is none, or had no group in use yet.

    While all paths have failed no group is in use: the group after that is compared with the one
    before. A path that is added to the group, or removed, is no change of the group.
    """
    group = next((each for each in status.groups if each.state == _IN_USE), None)
    if group is None:
        return before if status.target == "multipath" else None
    paths = frozenset(path.device for path in group.paths)
    if before is None:
        return GroupHistory(paths)
    changes = tuple(at for at in before.changes_seconds if 0.0 <= now - at < WINDOW_SECONDS)
    if paths.isdisjoint(before.paths):
        changes = (*changes, now)
    if paths == before.paths and changes == before.changes_seconds:
        return before
    return GroupHistory(paths, changes)


GROUP = SignalGroup(
    name="path_groups",
    sources=("dm_targets",),
    families=FAMILIES,
    step=step,
    initial=PathGroupState(),
)
