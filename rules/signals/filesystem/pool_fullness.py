"""Time until thin pools, snapshots and other areas of device-mapper are full, and who fills them.

By 'dmsetup status' (collectors/device_mapper). Each area is followed alone: metadata runs out of
space apart from data. Limits: as of rules/signals/filesystem/fullness.py.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals.filesystem.fullness import (
    FullnessState,
    followed,
    full_in_seconds,
    recall,
    remember,
)
from iowarden.rules.signals.signal import SignalGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.rules.signals.signal import Pairs, View

SECTOR_BYTES = 512
FAMILIES = (
    Family(
        "iowarden_dm_sustained_used_ratio",
        "gauge",
        "Used share of an area of a thin pool, snapshot, cache, clone or VDO volume that decreases"
        " only after a drop of more than 0.02, for alert thresholds.",
    ),
    Family(
        "iowarden_dm_full_in_seconds",
        "gauge",
        "Seconds until an area of a thin pool, snapshot, cache, clone or VDO volume is full at the"
        " fill rate of the last hours or days; absent if not filling.",
    ),
)


def step(state: FullnessState, view: View) -> tuple[FullnessState, list[Sample] | None]:
    """Return the state and the series of every area; of a target that is not read none."""
    targets = view.inputs.snapshot.dm_targets
    if targets is None:
        return state, None
    tracks = {}
    samples: list[Sample] = []
    for status in targets:
        for usage in status.usages:
            key = f"{usage.area} {status.name} {status.start_sectors}"
            left = float(usage.total - usage.used)
            now = view.inputs.now_seconds
            track = tracks[key] = followed(state, key, float(usage.used), left, now)
            labels = (
                *(("area", usage.area), ("device", status.device), ("name", status.name)),
                ("target", status.target),
            )
            samples.append((FAMILIES[0].name, labels, track.sustained_ratio))
            if (seconds := full_in_seconds(track, left)) is not None:
                samples.append((FAMILIES[1].name, labels, seconds))
    # A device that is not read for a while keeps its track.
    unseen = {each.name for each in targets if each.unparsed}
    for key, track in state.tracks.items():
        if key.partition(" ")[2].rpartition(" ")[0] in unseen:
            tracks.setdefault(key, track)
    return FullnessState(tracks, state.restored), samples


INCREASE_SECONDS, _POINT_SECONDS = 6 * 3600.0, 1800.0
INCREASE_FAMILY = Family(
    "iowarden_dm_thin_increase_bytes",
    "gauge",
    "By how much the space that a thin volume uses in its pool increased within 6 hours, or since"
    " it was first seen.",
)


@dataclass(frozen=True, slots=True)
class ThinIncrease:
    """Of each thin volume by name: times and the space that it used, half an hour apart."""

    points: Mapping[str, Pairs] = field(default_factory=dict)


def step_increase(state: ThinIncrease, view: View) -> tuple[ThinIncrease, list[Sample] | None]:
    """Return the state and the increase of each thin volume; of one that shrank 0."""
    targets = view.inputs.snapshot.dm_targets
    if targets is None:
        return state, None
    now = view.inputs.now_seconds
    points: dict[str, Pairs] = {}
    samples: list[Sample] = []
    for status in targets:
        past = state.points.get(status.name, ())
        if status.mapped_sectors is None:
            if status.target == "thin" and past:
                points[status.name] = past
            continue
        used = float(status.mapped_sectors * SECTOR_BYTES)
        past = tuple(point for point in past if 0.0 <= now - point[0] <= INCREASE_SECONDS)
        if not past or now - past[-1][0] >= _POINT_SECONDS:
            past = (*past, (now, used))
        points[status.name] = past
        labels = (("device", status.device), ("name", status.name), ("pool", status.pool))
        samples.append((INCREASE_FAMILY.name, labels, max(0.0, used - past[0][1])))
    return ThinIncrease(points), samples


INCREASE_GROUP = SignalGroup(
    name="thin_increase",
    sources=("dm_targets",),
    families=(INCREASE_FAMILY,),
    step=step_increase,
    initial=ThinIncrease(),
)
GROUP = SignalGroup(
    name="pool_fullness",
    sources=("dm_targets",),
    families=FAMILIES,
    step=step,
    initial=FullnessState(),
    remember=remember,
    recall=recall,
)
