"""Direct reclaim, dropped page cache, and reclaim stalls.

A reclaim stall: the page cache shrinks, free memory grows, and yet next to nothing is read or
written while tasks wait. The cache of ZFS (ARC) is page cache here: where one of them takes the
place of the other, nothing is lost. Source of the counters: kernel, filesystems/proc.rst
('meminfo') and mm/vmstat.c (vmstat_text).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping  # noqa: TC003 - to be evaluated
from dataclasses import field, replace
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals.signal import GAP_SECONDS, SignalGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.collectors.block.diskstats import BlockIo
    from iowarden.collectors.procfs.meminfo import Meminfo
    from iowarden.collectors.procfs.pressure import Pressures
    from iowarden.collectors.procfs.stat import Stat
    from iowarden.collectors.procfs.vmstat import Vmstat
    from iowarden.collectors.zfs.arc import ArcStats
    from iowarden.rules.signals.signal import Pairs, View

SHORTEST_SECONDS = 10.0
LONGEST_SECONDS = 60.0
MINUTES = 10
MOVED_RATIO = 0.02
"""Of all memory: 2.6 GB of 128 GB, far above jitter."""
FREED_RATIO = 0.5
"""At least this share of what the cache lost must have become free memory."""
IO_RATIO = 0.1
MIN_IO_BYTES_PER_SECOND = 1_000_000.0
"""A lower usual rate cannot collapse."""
WAITING_TASKS = 4
SETTLED_SECONDS = 120.0
"""After memory was moved on purpose: a minute for that to end, one for it to leave the window."""
PRESSURE_RATIO = 0.1
_EARLY_SECONDS = 0.5
"""A tick that comes a little early must not cost a sample."""


class Moment(NamedTuple):
    """Values of one second; counters that this kernel lacks stay 0."""

    at_seconds: float
    total_bytes: int
    free_bytes: int
    cache_bytes: int
    """Cached without Shmem: a process that ends takes its shared memory with it; with the ARC."""
    programs_bytes: int
    """AnonPages and Shmem: what is freed there becomes free memory, and is no reclaimed cache."""
    fixed: tuple[int, ...]
    """Sizes of memory, of the huge page pool and of the ARC as configured, balloon, drops: other
    causes that move memory."""
    reclaims: tuple[int, ...]
    """Counters of which one increases when tasks reclaim or compact memory themselves."""
    pressed: bool
    waiting_tasks: int
    io_bytes: int
    """Read and written by the leaf devices since the first stored moment."""


@dataclass(frozen=True, slots=True)
class StallState:
    """The last minute by the second, the last 10 minutes of I/O by the minute."""

    moments: tuple[Moment, ...] = ()
    devices: Mapping[str, int] = field(default_factory=dict)
    """Bytes read and written by each leaf device at the last moment."""
    rates: Pairs = ()
    """(end of a minute, bytes per second in it)."""
    moved_seconds: float | None = None
    """When one of `fixed` last changed; None: no change observed."""


def stall_step(state: StallState, view: View) -> tuple[StallState, list[Sample] | None]:
    """Return the state after this second and whether the host is in a reclaim stall.

    None where it cannot be computed: while a data source is missing, in the first 10 s, and until a
    minute of I/O is known.
    """
    says = view.inputs.snapshot
    meminfo, vmstat, stat, blocks = says.meminfo, says.vmstat, says.stat, says.diskstats
    if view.derived is None or meminfo is None or vmstat is None or stat is None or blocks is None:
        return state, None
    now = view.inputs.now_seconds
    devices = _totals(blocks, view.derived.leaves)
    moment = _moment(now, meminfo, vmstat, stat, (says.pressure, says.zfs_arc))
    last = state.moments[-1] if state.moments else None
    gone = last is None or not 0.0 < now - last.at_seconds <= LONGEST_SECONDS
    if last is None or gone or _restarted(last, moment):
        return replace(state, moments=(moment,), devices=devices), None
    moved = sum(
        max(0, total - state.devices[name])
        for name, total in devices.items()
        if name in state.devices
    )
    moment = moment._replace(io_bytes=last.io_bytes + moved)
    kept = tuple(m for m in state.moments if m.at_seconds > now - LONGEST_SECONDS - _EARLY_SECONDS)
    moments = (*kept, moment)
    rates = _with_last_minute(state.rates, moments)
    elsewhere = now if moment.fixed != last.fixed else state.moved_seconds
    stepped = StallState(moments, devices, rates, elsewhere)
    recent = _before(moments, SHORTEST_SECONDS)
    if recent is None or not rates:
        return stepped, None
    rate = (moment.io_bytes - recent.io_bytes) / (now - recent.at_seconds)
    usual = statistics.median(r for _, r in rates)
    ratio = (
        _lost_ratio(moments)
        if usual >= MIN_IO_BYTES_PER_SECOND
        and rate <= IO_RATIO * usual
        and (elsewhere is None or now - elsewhere >= SETTLED_SECONDS)
        and _waiting(moments)
        else 0.0
    )
    return stepped, [
        ("iowarden_reclaim_stall_ratio", (), ratio),
        ("iowarden_host_io_bytes_per_second", (), rate),
        ("iowarden_host_io_median_bytes_per_second", (), usual),
    ]


def stall_remember(state: StallState) -> dict[str, Pairs]:
    """Return the usual I/O rates: they take 10 minutes to learn."""
    return {"leaves": state.rates}


def stall_recall(state: StallState, stored: Mapping[str, Pairs]) -> StallState:
    """Return the state with the usual rates stored before the restart."""
    rates = tuple(sorted({*stored.get("leaves", ()), *state.rates}))[-MINUTES:]
    return replace(state, rates=rates)


def _moment(
    now: float,
    meminfo: Meminfo,
    vmstat: Vmstat,
    stat: Stat,
    optional: tuple[Pressures | None, ArcStats | None],
) -> Moment:
    pressures, arc = optional
    shared = meminfo.shmem_bytes or 0
    memory = None if pressures is None else pressures.memory
    some = None if memory is None else memory.some_avg10_ratio
    return Moment(
        at_seconds=now,
        total_bytes=meminfo.total_bytes,
        free_bytes=meminfo.free_bytes,
        cache_bytes=meminfo.cached_bytes - shared + (0 if arc is None else arc.size_bytes),
        programs_bytes=(meminfo.anon_bytes or 0) + shared,
        fixed=(
            meminfo.total_bytes,
            meminfo.huge_pages_total or 0,
            vmstat.ballooned_pages_total or 0,
            vmstat.page_cache_drops_total or 0,
            0 if arc is None else arc.max_bytes,
        ),
        reclaims=(
            vmstat.direct_reclaims_total or 0,
            vmstat.direct_scanned_pages_total or 0,
            vmstat.compaction_stalls_total or 0,
        ),
        pressed=some is not None and some >= PRESSURE_RATIO,
        waiting_tasks=max(stat.procs_blocked, stat.procs_running),
        io_bytes=0,
    )


def _totals(blocks: Mapping[str, BlockIo], leaves: Iterable[str]) -> dict[str, int]:
    return {
        name: block.read_bytes_total + block.written_bytes_total
        for name in leaves
        if (block := blocks.get(name)) is not None
    }


def _restarted(last: Moment, moment: Moment) -> bool:
    return any(now < then for now, then in zip(moment.reclaims, last.reclaims, strict=True))


def _before(moments: tuple[Moment, ...], seconds: float) -> Moment | None:
    """Return the newest moment at least `seconds` older than the last one."""
    limit = moments[-1].at_seconds - seconds + _EARLY_SECONDS
    return next((m for m in reversed(moments) if m.at_seconds <= limit), None)


def _with_last_minute(rates: Pairs, moments: tuple[Moment, ...]) -> Pairs:
    last = moments[-1]
    oldest = last.at_seconds - MINUTES * LONGEST_SECONDS - _EARLY_SECONDS
    rates = tuple(pair for pair in rates if oldest <= pair[0] <= last.at_seconds)
    first = _before(moments, LONGEST_SECONDS)
    if first is None:
        return rates
    if rates and last.at_seconds - rates[-1][0] < LONGEST_SECONDS - _EARLY_SECONDS:
        return rates
    rate = (last.io_bytes - first.io_bytes) / (last.at_seconds - first.at_seconds)
    return (*rates, (last.at_seconds, rate))[-MINUTES:]


def _waiting(moments: tuple[Moment, ...]) -> bool:
    """Whether tasks wait: in half of the samples of 10 s, and in two of them if they come late."""
    limit = moments[-1].at_seconds - SHORTEST_SECONDS - _EARLY_SECONDS
    tasks = [m.waiting_tasks for m in moments if m.at_seconds >= limit]
    if len(tasks) == 1:
        return min(m.waiting_tasks for m in moments[-2:]) >= WAITING_TASKS
    return statistics.median(tasks) >= WAITING_TASKS


def _lost_ratio(moments: tuple[Moment, ...]) -> float:
    """Return the largest share of memory that went from cache to free in 10 to 60 s, or 0."""
    last = moments[-1]
    limit = last.at_seconds - SHORTEST_SECONDS + _EARLY_SECONDS
    least = MOVED_RATIO * last.total_bytes
    most = 0
    for before in moments:
        if before.at_seconds > limit:
            break
        lost = before.cache_bytes - last.cache_bytes
        gained = last.free_bytes - before.free_bytes
        gained -= max(0, before.programs_bytes - last.programs_bytes)
        if (
            lost > most
            and lost >= least
            and gained >= max(least, FREED_RATIO * lost)
            and (last.pressed or before.reclaims != last.reclaims)
        ):
            most = lost
    return most / last.total_bytes


@dataclass(frozen=True, slots=True)
class DirectState:
    """The last minute: (time, direct reclaims, drops of the page cache)."""

    moments: tuple[tuple[float, int, int], ...] = ()


def direct_step(state: DirectState, view: View) -> tuple[DirectState, list[Sample] | None]:
    """Return the state after this second, the rate of direct reclaim and the drops of the cache.

    None where it cannot be computed: in the first 10 s, and on a kernel without these counters.
    """
    vmstat = view.inputs.snapshot.vmstat
    if vmstat is None or vmstat.direct_reclaims_total is None:
        return state, None
    now = view.inputs.now_seconds
    moment = (now, vmstat.direct_reclaims_total, vmstat.page_cache_drops_total or 0)
    moments = state.moments
    if moments and (
        not 0.0 < now - moments[-1][0] <= GAP_SECONDS
        or moment[1] < moments[-1][1]
        or moment[2] < moments[-1][2]
    ):
        moments = ()
    oldest = now - LONGEST_SECONDS - _EARLY_SECONDS
    moments = (*(m for m in moments if m[0] >= oldest), moment)
    first = moments[0]
    elapsed = now - first[0]
    if elapsed < SHORTEST_SECONDS - _EARLY_SECONDS:
        return DirectState(moments), None
    return DirectState(moments), [
        ("iowarden_direct_reclaims_per_second", (), (moment[1] - first[1]) / elapsed),
        ("iowarden_recent_page_cache_drops", (), moment[2] - first[2]),
    ]


STALL_GROUP = SignalGroup(
    name="reclaim_stall",
    sources=("vmstat", "meminfo", "zfs_arc", "stat", "diskstats", "block", "pressure"),
    families=(
        Family(
            "iowarden_reclaim_stall_ratio",
            "gauge",
            "Page cache (and cache of ZFS) lost to free memory within a minute while I/O nearly"
            " stopped, as a share of all memory.",
        ),
        Family(
            "iowarden_host_io_bytes_per_second",
            "gauge",
            "Bytes read and written per second by all disks of the host, over the last 10 s.",
        ),
        Family(
            "iowarden_host_io_median_bytes_per_second",
            "gauge",
            "Bytes read and written per second by all disks of the host, median of the last"
            " 10 minutes.",
        ),
    ),
    step=stall_step,
    initial=StallState(),
    remember=stall_remember,
    recall=stall_recall,
)


DIRECT_GROUP = SignalGroup(
    name="direct_reclaim",
    sources=("vmstat",),
    families=(
        Family(
            "iowarden_direct_reclaims_per_second",
            "gauge",
            "Allocations per second that had to reclaim memory themselves (direct reclaim),"
            " over the last minute.",
        ),
        Family(
            "iowarden_recent_page_cache_drops",
            "gauge",
            "Times the page cache was emptied through vm.drop_caches in the last minute.",
        ),
    ),
    step=direct_step,
    initial=DirectState(),
)
