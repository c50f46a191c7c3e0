"""Time until ZFS pools are full. Limits: as of rules/signals/filesystem/fullness.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from iowarden.rules.signals.signal import View

FAMILIES = (
    Family("iowarden_zfs_pool_used_ratio", "gauge", "Used share of a ZFS pool."),
    Family(
        "iowarden_zfs_pool_sustained_used_ratio",
        "gauge",
        "Used share of a ZFS pool that decreases only after a drop of more than 0.02, for alert"
        " thresholds.",
    ),
    Family(
        "iowarden_zfs_pool_full_in_seconds",
        "gauge",
        "Seconds until a ZFS pool is full at the fill rate of the last hours or days; absent if not"
        " filling.",
    ),
)


def step(state: FullnessState, view: View) -> tuple[FullnessState, list[Sample] | None]:
    """Return the state and the series of every pool whose space could be read."""
    pools = view.inputs.snapshot.zfs_vdevs
    if pools is None:
        return state, None
    # A pool that is not read for a while keeps its track.
    tracks = {name: track for name, track in state.tracks.items() if name in pools}
    samples: list[Sample] = []
    for name, pool in pools.items():
        if pool.space is None:
            continue
        used, left = float(pool.space.allocated_bytes), float(pool.space.free_bytes)
        track = tracks[name] = followed(state, name, used, left, view.inputs.now_seconds)
        labels = (("pool", name),)
        samples.append((FAMILIES[0].name, labels, used / (used + left)))
        samples.append((FAMILIES[1].name, labels, track.sustained_ratio))
        if (seconds := full_in_seconds(track, left)) is not None:
            samples.append((FAMILIES[2].name, labels, seconds))
    return FullnessState(tracks, state.restored), samples


GROUP = SignalGroup(
    name="zfs_fullness",
    sources=("zfs_vdevs",),
    families=FAMILIES,
    step=step,
    initial=FullnessState(),
    remember=remember,
    recall=recall,
)
