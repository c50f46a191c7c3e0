"""Write bandwidth of the disks, now and usually, and the time needed to drain unwritten data.

While the kernel throttles writers, demand exceeds capacity: what the disks complete is their
bandwidth. It is computed from completed sectors only: nr_written and pgpgout count submissions and
move in lumps.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals.device import device
from iowarden.rules.signals.guards import Guard
from iowarden.rules.signals.signal import GAP_SECONDS, SignalGroup
from iowarden.rules.signals.writeback import writeback
from iowarden.rules.signals.writeback.limits import drain_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.rules.signals.leaves import Leaf, LeafHistory, LeafSnapshot
    from iowarden.rules.signals.signal import View

RATE = "iowarden_writeback_bandwidth_bytes_per_second"
_UNUSUAL = frozenset({Guard.REMOVABLE, Guard.DISCARDING})
SHORTEST_SECONDS = 10.0
LONGEST_SECONDS = 30.0
STEADY_SECONDS = 20.0
"""An urgent forecast needs a leaf device that has been busy for so long."""
BLOCKED_SECONDS = 10.0
"""Bandwidth is reported after so many of the last 15 s at or above freerun."""
CHANGED_RATIO = 2.0
MAX_WINDOWS = 99
MIN_WINDOWS = 3
MAX_SETS = 32
"""Sets of busy leaf devices stored; the least recently seen one is dropped first."""


def bandwidth_now(history: LeafHistory, amplification: Mapping[str, float]) -> dict[str, float]:
    """Return bytes per second of each leaf device that was busy in every sample of 10 to 30 s.

    The longer time is preferred, because disks complete in lumps; the last 10 s alone are used if
    their rate is less than half or more than twice that of the longer time, because something has
    changed then. A leaf device that only completes reads is left out; one that completes nothing
    counts with 0.
    """
    rates: dict[str, float] = {}
    if not history.snapshots:
        return rates
    last = history.snapshots[-1]
    for name, leaf in last.leaves.items():
        if leaf.busy_seconds < SHORTEST_SECONDS - 1e-3:
            continue
        recent, before = (
            history.before(min(leaf.busy_seconds, seconds))
            for seconds in (SHORTEST_SECONDS, LONGEST_SECONDS)
        )
        rate, long_rate = _rate(recent, last, name, leaf), _rate(before, last, name, leaf)
        if rate is None or long_rate is None:
            continue
        if long_rate / CHANGED_RATIO <= rate <= long_rate * CHANGED_RATIO:
            rate = long_rate
        if rate > 0 or leaf.completed_total == recent.leaves[name].completed_total:
            rates[name] = rate / amplification.get(name, 1.0)
    return rates


Forecasts = tuple[tuple[float, float], ...]
"""(time of a sample, the drain time forecast at it), oldest first: 10 s, whatever their
distance."""


def forecast(
    forecasts: Forecasts, history: LeafHistory, amplification: Mapping[str, float], backlog: float
) -> Forecasts:
    """Return the forecasts of the last 10 s.

    A sample without any rate discards them: what follows must persist for 10 s again. They do not
    begin while a busy device completes nothing: a spinning disk may have to spin up first.
    """
    rates = bandwidth_now(history, amplification)
    if not rates or not (forecasts or all(rates.values())):
        return ()
    now = history.snapshots[-1].at_seconds
    drain = drain_seconds(backlog, math.fsum(rates.values()))
    old = [each for each in forecasts if each[0] <= now - SHORTEST_SECONDS + 0.5]
    kept = forecasts[max(len(old) - 1, 0) :]
    return (*kept, (now, math.inf if drain is None else drain))


def forecast_samples(forecasts: Forecasts, history: LeafHistory) -> list[Sample]:
    """Return the minimum of the forecasts of 10 s; nothing before they span 10 s.

    Nor before a leaf device has been busy for 20 s.
    """
    if not forecasts or forecasts[-1][0] - forecasts[0][0] < SHORTEST_SECONDS - 1.5:
        return []
    busy = (leaf.busy_seconds for leaf in history.snapshots[-1].leaves.values())
    if max(busy) < STEADY_SECONDS - 1e-3:
        return []
    least = min(drain for _, drain in forecasts)
    return [("iowarden_writeback_drain_min_seconds", (), least)]


def samples(
    rates: Mapping[str, float], backlog_bytes: float, amplification: Mapping[str, float]
) -> list[Sample]:
    """Return bandwidth and drain time of a backlog; nothing without the rate of any leaf device.

    A member's speed is what it writes itself: of a mirror each disk writes everything.
    """
    if not rates:
        return []
    total = math.fsum(rates.values())
    drain = drain_seconds(backlog_bytes, total)
    return [
        (RATE, (), total),
        ("iowarden_writeback_drain_seconds", (), math.inf if drain is None else drain),
        *(
            (
                "iowarden_device_write_bandwidth_bytes_per_second",
                (("device", name),),
                rate * amplification.get(name, 1.0),
            )
            for name, rate in rates.items()
        ),
    ]


@dataclass(frozen=True, slots=True)
class UsualState:
    """Rates of saturated windows by set of busy leaf devices ('sda+sdb'), latest last."""

    windows: Mapping[str, tuple[float, ...]]
    started_seconds: float | None = None
    """When the current window began; None: no window is open."""
    busy: frozenset[str] = frozenset()


def usual_step(
    state: UsualState,
    history: LeafHistory,
    amplification: Mapping[str, float],
    *,
    above_background: bool,
) -> UsualState:
    """Return the state after a sample; a window counts if the same leaf devices stay busy."""
    last = history.snapshots[-1]
    busy = frozenset(name for name, leaf in last.leaves.items() if leaf.in_flight > 0)
    late = last.at_seconds - history.snapshots[-2:][0].at_seconds > GAP_SECONDS
    if not above_background or not busy or late:  # not observed to be busy all the time
        return UsualState(state.windows)
    started = state.started_seconds
    first = history.snapshots[0].at_seconds
    if started is None or busy != state.busy or started < first - 1e-3:
        return UsualState(state.windows, last.at_seconds, busy)
    if last.at_seconds - started < SHORTEST_SECONDS - 1e-3:
        return state
    look = history.before(last.at_seconds - started)
    total = 0.0
    for name in busy:
        rate = _rate(look, last, name, last.leaves[name])
        if rate is None:
            return UsualState(state.windows, last.at_seconds, busy)
        total += rate / amplification.get(name, 1.0)
    windows = dict(state.windows)
    if total > 0:
        key = "+".join(sorted(busy))
        windows[key] = (*windows.pop(key, ()), total)[-MAX_WINDOWS:]
        while len(windows) > MAX_SETS:
            del windows[next(iter(windows))]
    return UsualState(windows, last.at_seconds, busy)


def usual_samples(state: UsualState, threshold_bytes: float) -> list[Sample]:
    """Return the median bandwidth per set of leaf devices, and the drain time at that rate."""
    result: list[Sample] = []
    for devices, rates in state.windows.items():
        if len(rates) >= MIN_WINDOWS:
            labels = (("devices", devices),)
            median = statistics.median(rates)
            result += (
                ("iowarden_writeback_median_bandwidth_bytes_per_second", labels, median),
                ("iowarden_writeback_full_drain_seconds", labels, threshold_bytes / median),
            )
    return result


@dataclass(frozen=True, slots=True)
class BandwidthState:
    """Usual bandwidth and the forecasts of the last seconds."""

    usual: UsualState = UsualState({})
    forecasts: Forecasts = ()


def recall_usual(state: BandwidthState, stored: Mapping[str, tuple[float, ...]]) -> BandwidthState:
    """Return the state with the stored usual rates for the sets that have no new ones yet."""
    return replace(state, usual=replace(state.usual, windows={**stored, **state.usual.windows}))


def _step(state: BandwidthState, view: View) -> tuple[BandwidthState, list[Sample] | None]:
    held, history = writeback.seen(view), device.leaves_seen(view)
    if held is None or history is None or view.derived is None:
        return state, None
    amplification = view.derived.amplification
    above = held.queued_bytes > held.background_threshold_bytes
    usual = usual_step(
        state.usual, history, amplification, above_background=above and _is_usual(history, view)
    )
    long = held.above_freerun_seconds >= BLOCKED_SECONDS
    rates = bandwidth_now(history, amplification) if long else {}
    forecasts = (
        forecast(state.forecasts, history, amplification, held.queued_bytes) if above else ()
    )
    return BandwidthState(usual, forecasts), [
        *samples(rates, held.queued_bytes, amplification),
        *forecast_samples(forecasts, history),
        *usual_samples(usual, held.threshold_bytes),
    ]


def _is_usual(history: LeafHistory, view: View) -> bool:
    """Whether the busy devices work as usual, and are the host's own.

    The speed of a stick is no reason for a limit of the whole host, nor is that of a discard.
    """
    guards = device.GROUP.state(view.states).guards
    leaves = history.snapshots[-1].leaves
    busy = {name for name, leaf in leaves.items() if leaf.in_flight > 0}
    return all(_UNUSUAL.isdisjoint(guards[name]) for name in busy & guards.keys())


def _rate(first: LeafSnapshot, last: LeafSnapshot, name: str, leaf: Leaf) -> float | None:
    before = first.leaves.get(name)
    elapsed = last.at_seconds - first.at_seconds
    if before is None or elapsed <= 0 or leaf.written_bytes < before.written_bytes:
        return None
    return (leaf.written_bytes - before.written_bytes) / elapsed


GROUP = SignalGroup(
    name="bandwidth",
    sources=("vmstat", "meminfo", "vm_sysctl", "diskstats", "block"),
    families=(
        Family(
            RATE,
            "gauge",
            "Rate in bytes per second at which the disks complete writes now, without RAID"
            " redundancy.",
        ),
        Family(
            "iowarden_writeback_drain_seconds",
            "gauge",
            "Seconds needed to write all unwritten data to the disks at the current bandwidth.",
        ),
        Family(
            "iowarden_writeback_drain_min_seconds",
            "gauge",
            "Minimum of the drain times of the last 10 s, in seconds, once a device has been busy"
            " for 20 s.",
        ),
        Family(
            "iowarden_device_write_bandwidth_bytes_per_second",
            "gauge",
            "Rate in bytes per second at which one device completes writes now, redundancy"
            " included.",
        ),
        Family(
            "iowarden_writeback_median_bandwidth_bytes_per_second",
            "gauge",
            "Median write bandwidth of these devices in bytes per second, while they were"
            " saturated.",
        ),
        Family(
            "iowarden_writeback_full_drain_seconds",
            "gauge",
            "Seconds needed to write as much data as the dirty threshold allows, at the usual"
            " bandwidth.",
        ),
    ),
    step=_step,
    initial=BandwidthState(),
)
