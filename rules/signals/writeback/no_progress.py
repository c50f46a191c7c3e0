"""Writeback without progress: writers are blocked while the busy disks complete next to nothing.

There is no progress while the leaf devices that carried the writes complete at most 1 % of
their best 10 s rate of the last 10 minutes, a task is blocked, and at least half the dirty
threshold is queued.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals import guards
from iowarden.rules.signals.device import device
from iowarden.rules.signals.signal import DIGITS, GAP_SECONDS, SignalGroup
from iowarden.rules.signals.writeback import writeback

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.rules.signals.leaves import LeafHistory, LeafSnapshot
    from iowarden.rules.signals.signal import Pairs, View

STALL_RATIO = 0.01
BEST_WINDOW_SECONDS = 10.0
MEMORY_SECONDS = 600.0
SHARE_RATIO = 0.1
"""A leaf device was busy before if its best rate is at least this share of the highest one."""
BUCKET_SECONDS = 60.0
QUEUED_RATIO = 0.5
RESUMED_SECONDS = 300.0
"""A stall that was in progress so shortly before a restart continues after it, if one is found."""

THRESHOLD = "iowarden_writeback_no_progress_threshold_seconds"
SLEEPING_SECONDS = 60.0
"""After boot disks spin up, also those of which that is not known."""

THROTTLE = "throttle"
DEVICE = "device"


@dataclass(frozen=True, slots=True)
class WriteStallState:
    """Best rates per leaf device and minute, and the current stall."""

    best: Mapping[str, tuple[tuple[int, float], ...]]
    """Leaf device -> (minute, best rate in bytes per second) of the last 10 minutes."""
    seconds: float = 0.0
    moved_seconds: Mapping[str, float] = field(default_factory=dict)
    """When each leaf device last completed a request during the stall."""
    at_seconds: float = 0.0
    """The last sample during the stall."""
    waiting: bool = False
    """Whether writers were blocked in the last sample."""
    permitted_seconds: Mapping[str, float] = field(default_factory=dict)
    """The longest stall that the guards of each leaf device permitted since this one began: a disk
    that had to spin up is no longer doing so when it completes its first request."""
    restored: tuple[float, float] = (0.0, 0.0)
    """The stall before a restart: when it was last observed, and its seconds."""


EMPTY = WriteStallState({})


def step(
    state: WriteStallState, history: LeafHistory, *, blocked: int, queued_ratio: float
) -> tuple[WriteStallState, list[Sample] | None]:
    """Return the state after the last sample of `history`, and the stall in seconds by kind.

    None where it cannot be computed: at the first sample, and while writers are blocked that may
    have been blocked since before any write was observed.
    """
    last = history.snapshots[-1]
    now = last.at_seconds
    previous = history.snapshots[-2] if len(history.snapshots) > 1 else None
    # The best rates are frozen during a stall: one of an hour is compared with the time before it.
    best = state.best if state.seconds else _remember(state.best, history)
    waiting = blocked >= 1 and queued_ratio >= QUEUED_RATIO
    if previous is None or (waiting and not best):
        return replace(state, best=best, waiting=waiting), None
    if not waiting or not _stall(previous, last, best):
        aged = _aged(best, state.seconds, int(now // BUCKET_SECONDS)) if state.seconds else best
        return WriteStallState(aged, waiting=waiting), _samples(0.0, THROTTLE)
    elapsed = now - previous.at_seconds
    if elapsed > GAP_SECONDS and not state.waiting:
        elapsed = 0.0  # not observed to be blocked all the time
    at, before = state.restored
    if before and 0.0 < now - at <= RESUMED_SECONDS:
        elapsed += before + previous.at_seconds - at
    seconds = state.seconds + elapsed
    moved = {
        name: now if _moved(previous, last, [name]) else state.moved_seconds.get(name)
        for name in _busy_before(best)
    }
    # Each leaf device by itself: the healthy leg of a mirror still reads while the other one hangs.
    hangs = any(
        last.leaves[name].in_flight and (at is None or now - at >= BEST_WINDOW_SECONDS)
        for name, at in moved.items()
        if name in last.leaves
    )
    known = {name: at for name, at in moved.items() if at is not None}
    kind = DEVICE if hangs else THROTTLE
    return WriteStallState(
        best, seconds, known, now, waiting=True, permitted_seconds=state.permitted_seconds
    ), _samples(seconds, kind)


def remember(state: WriteStallState) -> dict[str, Pairs]:
    """Return the current stall; the best rates are stored elsewhere."""
    return {"": ((state.at_seconds, state.seconds),)} if state.seconds else {}


def recall(state: WriteStallState, stored: Mapping[str, Pairs]) -> WriteStallState:
    """Return the state with the stall before a restart, which continues if there still is one."""
    pairs = stored.get("", ())
    return replace(state, restored=pairs[0]) if pairs else state


def recall_best(
    state: WriteStallState, stored: Mapping[str, tuple[tuple[int, float], ...]]
) -> WriteStallState:
    """Return the state with the stored best rates added to the new ones."""
    best = {
        name: tuple(sorted({*stored.get(name, ()), *state.best.get(name, ())}))
        for name in {**stored, **state.best}
    }
    return replace(state, best=best)


def _samples(seconds: float, kind: str) -> list[Sample]:
    return [
        (
            "iowarden_writeback_no_progress_seconds",
            (("cause", name),),
            round(seconds, DIGITS) if name == kind else 0.0,
        )
        for name in (DEVICE, THROTTLE)
    ]


def _remember(
    best: Mapping[str, tuple[tuple[int, float], ...]], history: LeafHistory
) -> dict[str, tuple[tuple[int, float], ...]]:
    last = history.snapshots[-1]
    first = history.before(BEST_WINDOW_SECONDS)
    elapsed = last.at_seconds - first.at_seconds
    minute = int(last.at_seconds // BUCKET_SECONDS)
    oldest = minute - int(MEMORY_SECONDS // BUCKET_SECONDS)
    result: dict[str, tuple[tuple[int, float], ...]] = {}
    for name, leaf in last.leaves.items():
        minutes = best.get(name, ())
        if minutes and (minutes[0][0] < oldest or minutes[-1][0] > minute):
            minutes = tuple(entry for entry in minutes if oldest <= entry[0] <= minute)
        before = first.leaves.get(name)
        if before is not None and elapsed > 0 and leaf.written_bytes > before.written_bytes:
            # A burst shorter than 10 s counts with its bytes spread over the whole 10 s.
            rate = (leaf.written_bytes - before.written_bytes) / max(elapsed, BEST_WINDOW_SECONDS)
            if not minutes or minutes[-1][0] != minute:
                minutes = (*minutes, (minute, rate))
            elif rate > minutes[-1][1]:
                minutes = (*minutes[:-1], (minute, rate))
        if minutes:
            result[name] = minutes
    return result


def _aged(
    best: Mapping[str, tuple[tuple[int, float], ...]], seconds: float, minute: int
) -> dict[str, tuple[tuple[int, float], ...]]:
    """Return the best rates with the time of a stall that has ended left out."""
    late = int(seconds // BUCKET_SECONDS)
    return {
        name: tuple((min(at + late, minute), rate) for at, rate in minutes)
        for name, minutes in best.items()
    }


def _busy_before(best: Mapping[str, tuple[tuple[int, float], ...]]) -> dict[str, float]:
    rates = {name: max(rate for _, rate in minutes) for name, minutes in best.items()}
    top = max(rates.values(), default=0.0)
    return {name: rate for name, rate in rates.items() if rate >= SHARE_RATIO * top}


def _stall(
    previous: LeafSnapshot,
    last: LeafSnapshot,
    best: Mapping[str, tuple[tuple[int, float], ...]],
) -> bool:
    before = _busy_before(best)
    elapsed = last.at_seconds - previous.at_seconds
    if not before or elapsed <= 0:
        return False
    written = sum(
        leaf.written_bytes - was.written_bytes
        for name in before
        if (leaf := last.leaves.get(name)) and (was := previous.leaves.get(name))
    )
    if written / elapsed > STALL_RATIO * sum(before.values()):
        return False
    idle = not _moved(previous, last, before) and not any(
        last.leaves[name].in_flight for name in before if name in last.leaves
    )
    # The writes have moved on to other disks: the ones busy before get no requests.
    elsewhere = [name for name in last.leaves if name not in before]
    return not (idle and (_moved(previous, last, elsewhere) or _in_flight(last, elsewhere)))


def _moved(
    previous: LeafSnapshot, last: LeafSnapshot, names: Mapping[str, float] | list[str]
) -> bool:
    return any(
        leaf.completed_total != was.completed_total
        for name in names
        if (leaf := last.leaves.get(name)) and (was := previous.leaves.get(name))
    )


def _in_flight(snapshot: LeafSnapshot, names: list[str]) -> bool:
    return any(snapshot.leaves[name].in_flight for name in names)


def _step(state: WriteStallState, view: View) -> tuple[WriteStallState, list[Sample] | None]:
    held, history, stat = writeback.seen(view), device.leaves_seen(view), view.inputs.snapshot.stat
    if held is None or history is None or stat is None:
        return state, None
    after, samples = step(
        state, history, blocked=stat.procs_blocked, queued_ratio=held.queued_ratio
    )
    if samples is None:
        return after, None
    if after.seconds:
        after = replace(after, permitted_seconds=_permitted_seconds(after, history, view))
    return after, [*samples, (THRESHOLD, (), _threshold_seconds(after, history, view))]


def _permitted_seconds(
    state: WriteStallState, history: LeafHistory, view: View
) -> dict[str, float]:
    """Return what the guards of the disks that were busy before permit, since the stall began.

    That only those wait who fill them is no guard of the stall: others may do so at any time.
    """
    watched, leaves = device.GROUP.state(view.states).device, history.snapshots[-1].leaves
    permitted: dict[str, float] = {}
    for name in _busy_before(state.best):
        if name in leaves:
            permitted[name] = state.permitted_seconds.get(name, 0.0)
            if name in watched.devices and not watched.devices[name].writer_only:
                permitted[name] = max(permitted[name], device.threshold_seconds(watched, name))
    return permitted


def _threshold_seconds(state: WriteStallState, history: LeafHistory, view: View) -> float:
    """Return from when a stall is one: the least of what the guards of its devices permit."""
    seconds = 0.0
    if state.seconds:  # else none is compared with it
        leaves, permitted = history.snapshots[-1].leaves, state.permitted_seconds
        watched = device.GROUP.state(view.states).device
        stuck = [name for name in permitted if leaves[name].in_flight] or [*permitted]
        seconds = min(
            (max(permitted[one], device.threshold_seconds(watched, one)) for one in stuck),
            default=0.0,
        )
    if guards.of_host(view.inputs):
        seconds = max(seconds, SLEEPING_SECONDS)
    return max(seconds, BEST_WINDOW_SECONDS)


GROUP = SignalGroup(
    name="no_progress",
    sources=("vmstat", "meminfo", "vm_sysctl", "diskstats", "block", "stat"),
    families=(
        Family(
            "iowarden_writeback_no_progress_seconds",
            "gauge",
            "Seconds writers have been blocked while the busy disks complete next to nothing:"
            " requests hang in a disk (device), or the kernel sends none (throttle).",
        ),
        Family(
            THRESHOLD,
            "gauge",
            "Seconds without progress from which that is a stall: 10, more where a guard of the"
            " busy disks or of the host permits it.",
        ),
    ),
    step=_step,
    initial=EMPTY,
    remember=remember,
    recall=recall,
)
