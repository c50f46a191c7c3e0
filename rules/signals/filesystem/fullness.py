"""Used space and inodes of file systems, and the time until they are full.

Forecast: the median increase over many equal stretches of time, so that one copy, one deletion or
one log rotation is a mere outlier; computed over 6 hours, a day and a week. Each horizon forecasts
only as far ahead as an increase of that length can be extrapolated. A file system whose space was
freed before (log rotation, scratch data) counts as filling only beyond its earlier level. Limits:
space freed by hand is treated the same until a tenth less is left than before, for as long as it is
stored (a week).
"""

from __future__ import annotations

import itertools
import operator
import statistics
from dataclasses import field, replace
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals.signal import SignalGroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.filesystem.statfs import Usage
    from iowarden.collectors.zfs.pool_space import PoolSpace
    from iowarden.collectors.zfs.vdevs import PoolDevices
    from iowarden.rules.signals.signal import Pairs, View

HYSTERESIS_RATIO = 0.02
"""A sustained ratio follows a falling one only at this distance: 80.0 % must not flap."""
NEW_LOW_RATIO = 0.9
"""After space was freed: it is filling once less than this share of the earlier minimum is left."""
GREW_RATIO = 1.01
"""A file system that is larger by this factor was resized: its history is discarded."""
SAME_SPACE_RATIO = 0.98
"""Datasets of a pool are read one after the other, while the pool fills."""
USABLE_RATIO = 0.2
"""Of a raidz3 of four disks a quarter is left for data: less than this is the limit of a quota."""
DAY_SECONDS = 86_400.0
MAX_RETAINED = 2000

FAMILIES = (
    Family(
        "iowarden_filesystem_used_ratio",
        "gauge",
        "Used share of the space available to unprivileged programs, as in df.",
    ),
    Family(
        "iowarden_filesystem_sustained_used_ratio",
        "gauge",
        "Used share of the space that decreases only after a drop of more than 0.02, for"
        " alert thresholds; not for images, nor for ZFS datasets that share the space of their"
        " pool.",
    ),
    Family(
        "iowarden_filesystem_full_in_seconds",
        "gauge",
        "Seconds until no space is left at the fill rate of the last hours or days; absent"
        " if not filling, and for ZFS datasets that share the space of their pool.",
    ),
    Family("iowarden_filesystem_inodes_used_ratio", "gauge", "Used share of the inodes."),
    Family(
        "iowarden_filesystem_sustained_inodes_used_ratio",
        "gauge",
        "Used share of the inodes that decreases only after a drop of more than 0.02, for"
        " alert thresholds; not for images.",
    ),
    Family(
        "iowarden_filesystem_inodes_full_in_seconds",
        "gauge",
        "Seconds until no inode is left at the fill rate of the last hours or days; absent"
        " if not filling.",
    ),
)


class Horizon(NamedTuple):
    """One forecast horizon: length of a stretch, how many, how many at least, how far it forecasts.

    `max_points`: how many stretches are stored, for the minimum left in them.
    """

    stretch_seconds: float
    stretches: int
    min_points: int
    farthest_seconds: float
    max_points: int


HORIZONS = (
    Horizon(1800.0, 12, 12, DAY_SECONDS, 12),
    Horizon(7200.0, 12, 12, 4 * DAY_SECONDS, 12),
    Horizon(DAY_SECONDS, 7, 3, 60 * DAY_SECONDS, 15),
)


@dataclass(frozen=True, slots=True)
class HorizonHistory:
    """History of one horizon: the end of each stretch and the minimum left in it."""

    points: Pairs
    min_left: float
    rate: float | None = None
    """Decrease per second; None: too early to compute, or none."""
    low: float | None = None
    """The minimum left before the space in use now was freed."""


@dataclass(frozen=True, slots=True)
class Track:
    """History of one file system, of its bytes or of its inodes."""

    horizons: tuple[HorizonHistory, ...]
    capacity: float
    sustained_ratio: float
    writable: bool = False
    """Whether it was ever writable."""


@dataclass(frozen=True, slots=True)
class PoolLimit:
    """The mount points of datasets that had no less space left than their pool, by its `space`.

    It holds until the space of the pool is read again: that is read less often than the datasets.
    """

    space: PoolSpace
    mount_points: frozenset[str]


@dataclass(frozen=True, slots=True)
class FullnessState:
    """Tracks by file system ('bytes /dev/sda1 /srv'), and stored ones not seen since the start."""

    tracks: Mapping[str, Track] = field(default_factory=dict)
    restored: Mapping[str, Pairs] = field(default_factory=dict)
    pool_limits: Mapping[str, PoolLimit] = field(default_factory=dict)


def step(state: FullnessState, view: View) -> tuple[FullnessState, list[Sample] | None]:
    """Return the state and the series of every mounted file system that could be read."""
    value = view.inputs.snapshot.filesystem
    if value is None:
        return state, None
    now = view.inputs.now_seconds
    tracks = dict(state.tracks)
    samples: list[Sample] = []
    limits = _pool_limits(
        state.pool_limits, value.usage.values(), view.inputs.snapshot.zfs_vdevs or {}
    )
    shares_pool = {mount_point for limit in limits.values() for mount_point in limit.mount_points}
    for usage in value.usage.values():
        labels = (
            ("device", usage.device),
            ("fstype", usage.kind),
            ("mountpoint", usage.mount_point),
        )
        for what, names, used, left in _quantities(usage):
            key = f"{what} {usage.device} {usage.mount_point}"
            track = followed(state, key, used, left, now)
            if not (usage.read_only or track.writable):
                track = replace(track, writable=True)
            tracks[key] = track
            samples.append((names[0], labels, used / (used + left)))
            # Images are always full. A file system that became read-only while full stays so.
            # A full pool is one fault, not one of each of its datasets.
            if not track.writable or usage.mount_point in shares_pool:
                continue
            samples.append((names[1], labels, track.sustained_ratio))
            seconds = full_in_seconds(track, left)
            if seconds is not None:
                samples.append((names[2], labels, seconds))
    if len(tracks) > MAX_RETAINED:
        latest = sorted(tracks.items(), key=lambda item: item[1].horizons[0].points[-1][0])
        tracks = dict(latest[-MAX_RETAINED:])
    return FullnessState(tracks, state.restored, limits), samples


def _pool_limits(
    before: Mapping[str, PoolLimit], usages: Iterable[Usage], pools: Mapping[str, PoolDevices]
) -> dict[str, PoolLimit]:
    """Return for each pool whose space is known the datasets that it limits.

    A quota or the reservation of another dataset leaves less: such a dataset is judged for itself.
    Source: OpenZFS, zfs_vfsops.c, zfs_statvfs: what is left is that of the dataset
    (dsl_dir_space_available), and inodes are computed from it.
    """
    available: dict[str, dict[str, int]] = {}
    for usage in usages:
        if usage.kind == "zfs":
            name = usage.device.partition("/")[0]
            available.setdefault(name, {})[usage.mount_point] = usage.available_bytes
    limits = {}
    for name, datasets in available.items():
        space = pools[name].space if name in pools else None
        if space is None:
            continue
        past = before.get(name)
        if past is not None and past.space is space:
            limits[name] = past
            continue
        least = max(
            SAME_SPACE_RATIO * max(datasets.values()), USABLE_RATIO * space.unreserved_bytes
        )
        limited = (mount_point for mount_point, left in datasets.items() if left >= least)
        limits[name] = PoolLimit(space, frozenset(limited))
    return limits


_BYTES = tuple(family.name for family in FAMILIES[:3])
_INODES = tuple(family.name for family in FAMILIES[3:])


def _quantities(usage: Usage) -> list[tuple[str, tuple[str, ...], float, float]]:
    """Return what can run out: its name, its series, how much is used, how much is left.

    Left is what unprivileged programs can use: ext4 reserves 5 % for root.
    """
    found = []
    used, left = usage.size_bytes - usage.free_bytes, usage.available_bytes
    if used + left > 0:
        found.append(("bytes", _BYTES, float(used), float(left)))
    if usage.files > 0:
        used, left = usage.files - usage.files_free, usage.files_free
        found.append(("inodes", _INODES, float(used), float(left)))
    return found


def followed(state: FullnessState, key: str, used: float, left: float, now: float) -> Track:
    """Return the track of an object after a sample at `now`; at first as it was stored."""
    before = state.tracks.get(key) or _recalled(state.restored, key, used + left)
    return follow(before, used, left, now)


def follow(before: Track | None, used: float, left: float, now: float) -> Track:
    """Return the track after a sample at `now`."""
    capacity, ratio = used + left, used / (used + left)
    if before is None or capacity > before.capacity * GREW_RATIO:
        return Track(tuple(HorizonHistory(((now, left),), left) for _ in HORIZONS), capacity, ratio)
    held = before.sustained_ratio
    if not ratio <= held <= ratio + HYSTERESIS_RATIO:
        held = ratio if ratio > held else ratio + HYSTERESIS_RATIO
    past = before.horizons
    horizons = tuple([_extended(*each, left, now) for each in zip(past, HORIZONS, strict=True)])
    if not all(map(operator.is_, horizons, past)):
        horizons = _evaluated(horizons, past)
    elif held == before.sustained_ratio and capacity == before.capacity:
        return before
    return Track(horizons, capacity, held, before.writable)


def full_in_seconds(track: Track, left: float) -> float | None:
    """Return the seconds until nothing is left, or None if it is not filling."""
    least = None
    for past, horizon in zip(track.horizons, HORIZONS, strict=True):
        if past.rate is None or (past.low is not None and left >= past.low * NEW_LOW_RATIO):
            continue
        seconds = left / past.rate
        if seconds <= horizon.farthest_seconds and (least is None or seconds < least):
            least = seconds
    return least


def _extended(history: HorizonHistory, horizon: Horizon, left: float, now: float) -> HorizonHistory:
    """Return the history with `left` added; a stretch ends with the first sample after its time."""
    # Half a stretch of tolerance: the period of a slow data source is a little longer than set.
    oldest = now - (horizon.max_points + 0.5) * horizon.stretch_seconds
    points = history.points
    began, ended = points[0][0], points[-1][0]
    if began >= oldest and 0 <= now - ended < horizon.stretch_seconds and left >= history.min_left:
        return history  # the usual case
    if not oldest <= began <= ended <= now:
        points = tuple(point for point in points if oldest <= point[0] <= now)
    least = min(history.min_left, left)
    if not points:
        return HorizonHistory(((now, left),), left)
    if now - points[-1][0] >= horizon.stretch_seconds:
        return HorizonHistory((*points, (now, least))[-horizon.max_points - 1 :], left)
    return HorizonHistory(points, least, history.rate, history.low)


def _evaluated(
    horizons: tuple[HorizonHistory, ...], before: tuple[HorizonHistory, ...] = ()
) -> tuple[HorizonHistory, ...]:
    """Return the histories with their rates; those without a new point are unchanged."""
    return tuple(
        past
        if old is not None and past.points is old.points
        else HorizonHistory(
            past.points, past.min_left, _rate(past, horizon), _low(past, horizon, horizons)
        )
        for past, horizon, old in itertools.zip_longest(horizons, HORIZONS, before)
    )


def _rate(history: HorizonHistory, horizon: Horizon) -> float | None:
    """Return the decrease per second that more than half of the stretches reached."""
    points = history.points[-horizon.stretches - 1 :]
    lost = [
        (before - after) / (ended - began)
        for (began, before), (ended, after) in itertools.pairwise(points)
        if ended > began
    ]
    rate = statistics.median_low(lost) if len(lost) >= horizon.min_points else 0.0
    return rate if rate > 0 else None


def _low(
    history: HorizonHistory, horizon: Horizon, horizons: tuple[HorizonHistory, ...]
) -> float | None:
    """Return the minimum left before the current increase began, as far as stored."""
    points = history.points[-horizon.stretches - 1 :]
    began, _ = max(points, key=lambda point: (point[1], point[0]))
    return min((left for p in horizons for at, left in p.points if at < began), default=None)


def remember(state: FullnessState) -> Mapping[str, Pairs]:
    """Return the points of every file system; unseen since the start: as they were stored."""
    own = {
        f"{number} {key}": past.points
        for key, track in state.tracks.items()
        for number, past in enumerate(track.horizons)
    }
    return {**{key: kept for key, kept in state.restored.items() if key not in own}, **own}


def recall(state: FullnessState, stored: Mapping[str, Pairs]) -> FullnessState:
    """Return the stored state; points seen since the start are only seconds old."""
    return FullnessState({}, {**state.restored, **stored})


def _recalled(stored: Mapping[str, Pairs], key: str, capacity: float) -> Track | None:
    """Return the stored track of an object, or None."""
    found = [stored.get(f"{number} {key}", ()) for number in range(len(HORIZONS))]
    if not all(found):
        return None
    return Track(
        _evaluated(tuple(HorizonHistory(points, points[-1][1]) for points in found)), capacity, 0.0
    )


GROUP = SignalGroup(
    name="fullness",
    sources=("filesystem",),
    families=FAMILIES,
    step=step,
    initial=FullnessState(),
    remember=remember,
    recall=recall,
)
