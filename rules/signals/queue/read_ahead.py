"""Read-ahead that is too small for an array of several spindles.

A sequential reader of an array keeps as many disks busy as its read-ahead spans.
read_ahead_too_small is observed under load, read_ahead_below_stripe follows from the settings.
Source: kernel, mm/readahead.c; block/blk-settings.c (blk_apply_bdi_limits: by default twice the
optimal I/O size, at least 128 KiB).
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import KIB, Family, Sample
from iowarden.rules.signals import activity
from iowarden.rules.signals.activity import WINDOW_SECONDS
from iowarden.rules.signals.queue import phantom_reads, volume
from iowarden.rules.signals.signal import SignalGroup
from iowarden.rules.signals.sustained import NOTHING, Sustained

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.procfs.meminfo import Meminfo
    from iowarden.rules.signals.activity import Activity
    from iowarden.rules.signals.queue.volume import StackedVolume
    from iowarden.rules.signals.signal import Pairs, View

UTILIZATION_RATIO = 0.9
READ_SIZE_RATIOS = (0.5, 1.1)
"""A mean read size between these shares of the read-ahead is limited by it."""
IN_FLIGHT = 4.0
OF_BEST_RATIO = 0.5
MIN_BEST_BYTES_PER_SECOND = 200e6
"""Assumed best rate of several spindles until a volume has shown more: a volume whose read-ahead
was too small from the start never shows its own best."""
ACTIVE_SECONDS = 300.0
SMALL_BYTES = 128 * KIB
"""The kernel's default, for a volume that does not report its geometry."""
START_BYTES, MAX_BYTES = 4096 * KIB, 8192 * KIB
MEMORY_RATIO = 0.05
"""Of the available memory, for two windows of read-ahead per reader."""
AFTER_PHANTOMS_SECONDS = 24 * 3600.0
"""A larger read-ahead is not recommended within a day after phantom reads: it would add to them."""

SECONDS = "iowarden_device_read_ahead_capped_seconds"
SOURCES = (*phantom_reads.SOURCES, "queue", "scsi")


@dataclass(frozen=True, slots=True)
class ReadAheadState:
    """State of the signal; devices by their identity."""

    sustained: Sustained = NOTHING
    best: Mapping[str, float] = field(default_factory=dict)
    """Highest bytes read per second over a minute."""
    phantoms: Mapping[str, float] = field(default_factory=dict)
    """When a device last had phantom reads."""
    means: list[Sample] | None = None
    made_of: tuple[object, ...] = ()
    volumes: tuple[StackedVolume, ...] = ()
    """Volumes of several spindles; computed again when topology, queues or drivers change."""
    identities: Mapping[str, str] = field(default_factory=dict)
    samples: list[Sample] | None = None


def step(state: ReadAheadState, view: View) -> tuple[ReadAheadState, list[Sample] | None]:
    """Return the state after a second and the samples.

    None while phantom reads cannot be computed: no larger read-ahead is recommended then.
    """
    now = view.inputs.now_seconds
    queues, meminfo = view.inputs.snapshot.queue, view.inputs.snapshot.meminfo
    if queues is None or meminfo is None or view.derived is None:
        return state, None
    topology = view.derived.topology
    drivers = volume.drivers(view.inputs.snapshot.scsi)
    made_of = (topology, queues, drivers)
    same = bool(state.made_of) and state.made_of[0] is topology and state.made_of[1] is queues
    if not same or state.made_of[2] != drivers:
        found = volume.volumes(topology, queues, drivers)
        state = replace(
            state,
            made_of=made_of,
            volumes=tuple(v for v in found if v.raid and v.rotational and v.read_ahead_bytes),
            identities=volume.identities(topology),
            means=None,
        )
    means, phantoms = view.earlier.get("activity"), view.earlier.get("phantom_reads")
    if means is None or phantoms is None:
        held = state.sustained.lasting(ACTIVE_SECONDS)
        samples = held.samples(SECONDS, now, state.identities) or None
        return replace(state, sustained=held, means=None, samples=None), samples
    if means is state.means:
        return state, state.samples
    keys = state.identities
    reading = {
        **{k: at for k, at in state.phantoms.items() if now - at < AFTER_PHANTOMS_SECONDS},
        **{keys[s[1][0][1]]: now for s in phantoms if s[0] == phantom_reads.SECONDS},
    }
    state = replace(state, phantoms=reading)
    devices = activity.activities(means) if state.volumes else {}
    best = dict(state.best)
    capped = set()
    for each in state.volumes:
        seen = devices.get(each.name)
        if seen is None:
            continue
        key = keys[each.name]
        if key not in reading and _capped(each, seen, best.get(key, 0.0)):
            capped.add(key)
        best[key] = max(best.get(key, 0.0), seen.read_bytes_per_second)
    # Nine tenths of a minute busy: the condition was true for the whole minute.
    held = state.sustained.step(capped, now, WINDOW_SECONDS)
    state = replace(state, sustained=held, best=best, means=means)
    samples = held.samples(SECONDS, now, keys)
    available = _available_bytes(view, meminfo)
    for each in state.volumes:
        samples += _advice(state, each, devices.get(each.name), available)
    return replace(state, samples=samples), samples


def remember(state: ReadAheadState) -> dict[str, Pairs]:
    """Return since when each device has been limited (or 0), its best rate and phantom reads."""
    # Times are rounded to hours, so that they need not be written every ten seconds.
    seen = {key: at // 3600 * 3600 for key, at in state.phantoms.items()}
    since = state.sustained.lasting(ACTIVE_SECONDS).since
    return {
        key: ((since.get(key, 0.0), state.best.get(key, 0.0)), (seen.get(key, 0.0), 0.0))
        for key in sorted(since.keys() | state.best.keys() | seen.keys())
    }


def recall(state: ReadAheadState, stored: Mapping[str, Pairs]) -> ReadAheadState:
    """Return the stored state combined with the current one."""
    best, phantoms = dict(state.best), dict(state.phantoms)
    for key, pairs in stored.items():
        for _, rate in pairs[:1]:
            best[key] = max(best.get(key, 0.0), rate)
        for at, _ in pairs[1:2]:
            if at > phantoms.get(key, 0.0):
                phantoms[key] = at
    return replace(state, sustained=state.sustained.recall(stored), best=best, phantoms=phantoms)


def _capped(each: StackedVolume, seen: Activity, best: float) -> bool:
    ahead, size = each.read_ahead_bytes, seen.read_size_bytes
    if ahead is None or size is None or ahead >= _largest(each):
        return False
    low, high = READ_SIZE_RATIOS
    yardstick = max(best, MIN_BEST_BYTES_PER_SECOND)
    return (
        seen.utilization_ratio >= UTILIZATION_RATIO
        and low * ahead <= size <= high * ahead
        and seen.mean_requests_in_flight >= IN_FLIGHT
        and seen.read_bytes_per_second < OF_BEST_RATIO * yardstick
    )


def _largest(each: StackedVolume) -> int:
    return max(MAX_BYTES, 2 * (each.stripe_bytes or 0))


def _advice(
    state: ReadAheadState, each: StackedVolume, seen: Activity | None, available: int
) -> list[Sample]:
    labels = (("device", each.name),)
    key, ahead = state.identities[each.name], each.read_ahead_bytes or 0
    samples: list[Sample] = []
    if key in state.best:
        samples.append(("iowarden_device_max_read_bytes_per_second", labels, state.best[key]))
    if key in state.phantoms:
        return samples
    capped = key in state.sustained.since
    short = ahead < 2 * each.stripe_bytes if each.stripe_bytes else ahead <= SMALL_BYTES
    if short:
        samples.append(("iowarden_device_read_ahead_below_stripe", labels, 1.0))
    wanted = 2 * each.stripe_bytes if each.stripe_bytes else START_BYTES
    if capped:
        wanted = max(wanted, START_BYTES if ahead < START_BYTES else MAX_BYTES)
    allowed = _allowed_bytes(
        wanted, ahead, 1.0 if seen is None else seen.mean_requests_in_flight, available
    )
    if (short or capped) and allowed is not None:
        name = "iowarden_device_read_ahead_recommended_bytes"
        samples.append((name, labels, float(allowed)))
    return samples


def _available_bytes(view: View, meminfo: Meminfo) -> int:
    if (available := view.inputs.snapshot.available_bytes) is not None:
        return available
    # Before 3.14: what is free or cached and not shared memory.
    cached = meminfo.cached_bytes - (meminfo.shmem_bytes or 0)
    return meminfo.free_bytes + meminfo.buffers_bytes + cached


def _allowed_bytes(wanted: int, present: int, readers: float, available: int) -> int | None:
    """Return the read-ahead that memory allows, halving the wanted one; None: no more than now."""
    budget = MEMORY_RATIO * available / (2 * max(math.ceil(readers), 1))
    while wanted > budget and wanted > present:
        wanted //= 2
    return wanted if wanted > present else None


GROUP = SignalGroup(
    name="read_ahead",
    sources=SOURCES,
    families=(
        Family(
            SECONDS,
            "gauge",
            "Seconds for which a busy array has read slowly, in requests as large as its"
            " read-ahead.",
        ),
        Family(
            "iowarden_device_read_ahead_recommended_bytes",
            "gauge",
            "Recommended read-ahead in bytes, where the current one is too small and memory"
            " allows more.",
        ),
        Family(
            "iowarden_device_read_ahead_below_stripe",
            "gauge",
            "1 if the read-ahead of an array does not span its stripe twice.",
        ),
        Family(
            "iowarden_device_max_read_bytes_per_second",
            "gauge",
            "Highest bytes per second that an array has read over a minute.",
        ),
    ),
    step=step,
    initial=ReadAheadState(),
    remember=remember,
    recall=recall,
)
