"""Devices at their limit: as many requests or bytes a second as they are allowed, and a queue.

A limit shows as a rate that hardly varies for a minute while requests wait, and each takes several
times as long as one of its size at half of that rate or, where the device was never seen there, at
any without a queue. A load of constant rate that had no queue before is at no limit. A saturated
disk in a steady copy looks the same: by itself this is information, and no fault. Units: requests
and bytes per second, over 10 s. Limits: of a device that was never seen without a queue it is not
known.
"""

from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals import activity
from iowarden.rules.signals.signal import SignalGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.rules.signals.activity import CounterSnapshot
    from iowarden.rules.signals.signal import View

MAX_VARIATION_RATIO = 0.03
MIN_IN_FLIGHT = 2.0
SLOWER = 5.0
"""A request takes so many times as long as without a queue."""
MIN_WINDOWS, MAX_WINDOWS = 3, 99
SAME_RATIO, SAME_SIZE = 0.1, 2.0
"""Rates that differ by no more are one; requests whose mean size differs by no more are alike."""
MIN_REQUESTS = 20
"""In 10 s, for a mean time of a request."""
_MILLISECOND = 0.001
_MIN_SNAPSHOTS = int(activity.WINDOW_SECONDS / activity.STEP_SECONDS) + 1
REQUESTS = "iowarden_device_at_limit_requests_per_second"
BYTES = "iowarden_device_at_limit_bytes_per_second"


class Window(NamedTuple):
    """What a device did in 10 s."""

    requests_per_second: float
    bytes_per_second: float
    request_seconds: float
    """Mean time of a request."""
    in_flight: float
    """Mean number of requests in flight, by Little's law."""

    @property
    def size_bytes(self) -> float:
        """Mean size of a request."""
        return self.bytes_per_second / self.requests_per_second


@dataclass(frozen=True, slots=True)
class LimitState:
    """Windows without a queue by device, latest last, and what is at its limit now."""

    unqueued: Mapping[str, tuple[Window, ...]] = field(default_factory=dict)
    last_seconds: float = 0.0
    """The newest sample of the counters that was evaluated."""
    samples: list[Sample] = field(default_factory=list)


def _step(state: LimitState, view: View) -> tuple[LimitState, list[Sample] | None]:
    snapshots = activity.GROUP.state(view.states).snapshots
    if view.derived is None or not snapshots:
        return LimitState(state.unqueued), []
    if snapshots[-1][0] == state.last_seconds:
        return state, state.samples
    unqueued = {
        name: windows for name, windows in state.unqueued.items() if name in view.derived.leaves
    }
    samples: list[Sample] = []
    for name in view.derived.leaves:
        newest = _window(name, snapshots[-2], snapshots[-1]) if len(snapshots) > 1 else None
        if newest is None:
            continue
        if newest.in_flight < MIN_IN_FLIGHT:
            unqueued[name] = (*unqueued.get(name, ()), newest)[-MAX_WINDOWS:]
        elif len(snapshots) >= _MIN_SNAPSHOTS and name in unqueued:
            windows = [_window(name, first, last) for first, last in itertools.pairwise(snapshots)]
            samples += _at_limit(name, windows, unqueued[name])
    return LimitState(unqueued, snapshots[-1][0], samples), samples


def _window(name: str, first: CounterSnapshot, last: CounterSnapshot) -> Window | None:
    """Return what a device did between two samples; None: too little, or a counter reset."""
    before, after = first[1].get(name), last[1].get(name)
    seconds = last[0] - first[0]
    if before is None or after is None or before.counters == after.counters or seconds <= 0:
        return None
    completed = after.completed_total - before.completed_total
    milliseconds = after.milliseconds_total - before.milliseconds_total
    # Before 5.0 times are in ticks: what took less than one may have taken any part of it.
    if completed < MIN_REQUESTS or milliseconds <= 0:
        return None
    read = after.read_bytes_total - before.read_bytes_total
    written = after.written_bytes_total - before.written_bytes_total
    busy = milliseconds * _MILLISECOND
    return Window(completed / seconds, (read + written) / seconds, busy / completed, busy / seconds)


def _at_limit(
    name: str, windows: list[Window | None], unqueued: tuple[Window, ...]
) -> list[Sample]:
    """Return the limit of a device that has been at one in all windows."""
    known = [window for window in windows if window is not None]
    if len(known) < len(windows) or any(window.in_flight < MIN_IN_FLIGHT for window in known):
        return []
    labels = (("device", name),)
    size = statistics.fmean(window.size_bytes for window in known)
    alike = tuple(window for window in unqueued if _is_alike(window.size_bytes, size))
    for metric, rates, earlier_rates in (
        (
            REQUESTS,
            [window.requests_per_second for window in known],
            [window.requests_per_second for window in alike],
        ),
        (
            BYTES,
            [window.bytes_per_second for window in known],
            [window.bytes_per_second for window in alike],
        ),
    ):
        mean = statistics.fmean(rates)
        if mean <= 0 or (max(rates) - min(rates)) / mean > MAX_VARIATION_RATIO:
            continue
        same = [rate for rate in earlier_rates if abs(rate - mean) <= SAME_RATIO * mean]
        if len(same) >= MIN_WINDOWS:
            continue  # a load of constant rate, which had no queue before: the device is slower
        usual = _usual_seconds(alike, earlier_rates, mean)
        taken = statistics.fmean(window.request_seconds for window in known)
        if usual and taken >= SLOWER * statistics.median(usual):
            return [(metric, labels, round(mean, 1))]
    return []


def _is_alike(size_bytes: float, other_bytes: float) -> bool:
    """Whether the sizes of requests hardly differ: a large one takes longer by itself."""
    smaller, larger = sorted((size_bytes, other_bytes))
    return larger <= SAME_SIZE * smaller


def _usual_seconds(
    unqueued: tuple[Window, ...], rates: list[float], limit_per_second: float
) -> list[float]:
    """Return what a request took without a queue, at half of a limit or less where that was seen.

    A volume may have been busy all the time, or in a burst above its limit until that was used up.
    At more requests each takes longer rather than shorter: so this sees no limit too many.
    """
    for ratio in (0.5, math.inf):
        seconds = [
            window.request_seconds
            for window, rate in zip(unqueued, rates, strict=True)
            if rate <= ratio * limit_per_second
        ]
        if len(seconds) >= MIN_WINDOWS:
            return seconds
    return []


GROUP: SignalGroup[LimitState] = SignalGroup(
    name="at_limit",
    sources=activity.GROUP.sources,
    families=(
        Family(
            REQUESTS,
            "gauge",
            "Requests per second of a device that has completed as many for a minute, within 3 %,"
            " while further ones wait five times as long as without a queue.",
        ),
        Family(
            BYTES,
            "gauge",
            "The same for bytes per second, of a device whose requests per second vary.",
        ),
    ),
    step=_step,
    initial=LimitState(),
)
