"""Leaked requests in flight: a counter that was not decreased shows some until the next boot.

The kernel increases this counter when a request starts and decreases it when it ends; a driver or
an old block layer that omits one of the two makes it wrong until the next boot. Such requests
must not look like a device hang. Source: kernel, block/genhd.c (part_in_flight, before 5.0 a plain
counter for each queue of one request).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from iowarden.collectors.block.diskstats import BlockIo

TURNOVERS = 3
"""So many others per request that is shown all the time have completed, to compare with them."""
_LOG_IMPROBABLE = math.log(1e-6)
"""A series of samples this improbable shows a wrong counter, not what is in flight."""
_MILLISECOND = 0.001
OVERTAKEN_RATIO = 0.5
"""What completes after a pause within such a fraction of it was issued after it had begun."""
FROM_BEFORE_RATIO = 0.5
"""Of the mean in flight since the first sample: so little of it completed."""
EXCESS_TIMES, EXCESS_SECONDS = 2.0, 3600.0
"""So many times as long as the kernel permits a request, and so long at most, the samples of a
device that always has some in flight are compared with their mean; older ones do not show that a
counter leaked since."""
_EXCESS = 0.7
"""Of a leak the samples show more than the mean by 1, give or take their own scatter."""
_ERRORS = 2.5
"""By so many standard errors an excess differs from another one."""
_TIME_RATIO = 0.04
"""So much of the times is rounding: a leak of 1 on top of a mean of 25 differs by no more."""
_MAX_MEAN = 0.9
"""Next to 1 the mean may be that of one request after the other: before 5.0 times are counted in
ticks of up to 10 ms."""


class Excess(NamedTuple):
    """By how much samples show more in flight than the completed requests explain.

    Each sample is one of a queue that changes with each request: those that are further apart than
    a request takes scatter independently, those closer together count as fewer.
    """

    samples: int = 0
    seconds: float = 0.0
    times: float = 0.0
    """Of all requests that completed in them, in seconds."""
    requests: float = 0.0
    """The sum over the samples."""
    squares: float = 0.0
    """The sum of their squares, each weighted by the samples that show the same requests."""

    def leaked(self, known: int, given_up_seconds: float) -> int:
        """Return how many have leaked, `known` or more.

        More have if fewer, and one request that waits as long as the kernel permits, do not explain
        the excess. A counter that is known to leak has leaked as much as is most likely: times
        that are rounded explain less than that.
        """
        if self.seconds < EXCESS_TIMES * given_up_seconds:
            return known
        mean = self.requests / self.samples
        least = mean - self._error() + 1 - given_up_seconds / self.seconds
        if known or least >= 1:
            least += self._rounding()
        return max(known, int(min(least, mean + 1 - _EXCESS)))

    def is_over(self, known: int, given_up_seconds: float) -> bool:
        """Whether it is known that no more have leaked than `known`, or it is too old."""
        least = EXCESS_TIMES * given_up_seconds
        most = self.requests / self.samples + self._error()
        return self.seconds >= max(EXCESS_SECONDS, least) or (
            self.seconds >= least and most < known + 1
        )

    def _error(self) -> float:
        """Return by how much the mean excess may differ from the true one."""
        mean = self.requests / self.samples
        variance = max(self.squares / self.samples - mean**2, 0.0)
        return _ERRORS * math.sqrt(variance / self.samples) + self._rounding()

    def _rounding(self) -> float:
        """Return by how much the mean excess may differ because times are rounded."""
        return _TIME_RATIO * self.times / self.seconds


NO_EXCESS = Excess()


class First(NamedTuple):
    """The first sample of all: what it had in flight may have leaked before that."""

    at_seconds: float
    milliseconds: int
    total: int
    min_shown: int
    """In flight in any sample since."""


class Counted(NamedTuple):
    """One device: since it last showed nothing in flight, and the present window.

    Windows count together while what they show is improbable, but not enough yet.
    """

    floor: int
    """The smallest number in flight in any sample of the windows that count together."""
    leaked: int = 0
    """How many of them have leaked."""
    log_probability: float = 0.0
    """Of samples that all show more than leaked if no more has, over the windows before."""
    at_seconds: float = 0.0
    """The last sample."""
    total: int = 0
    """Requests completed since boot, at the last sample."""
    worked_seconds: float = 0.0
    """The last sample before which something completed."""
    worked_milliseconds: int = 0
    """Total time of all requests that completed, at that sample."""
    since_seconds: float = 0.0
    """The first sample of the window."""
    milliseconds_total: int = 0
    """At the first sample of the window."""
    completed: int = 0
    """In the window."""
    working_seconds: float = 0.0
    """Time between samples between which something completed."""
    working_samples: int = 0
    excess: Excess = NO_EXCESS
    first: First | None = None
    """None: it has shown nothing in flight since. A disk that is plugged in later counts from 0."""


_NONE = Counted(0)
"""Without a request in flight: none has leaked, and the next one begins a window."""


def step(
    state: Mapping[str, Counted],
    now: float,
    blocks: Mapping[str, BlockIo],
    given_up: Mapping[str, float],
    leaked: Mapping[str, int] | None = None,
    first: Collection[str] = (),
) -> dict[str, Counted]:
    """Return the state after a sample. `leaked`: stored number per device, for the first sample.

    `given_up`: for each device, in seconds, how old a request can be that the kernel has not given
    up; inf: it never does, or a task waits that may wait for one. Then what stays in flight is a
    request, however many overtake it. `first`: devices for which it is the first sample of all, and
    which are not known from before.

    By Little's law the completed requests give the mean number in flight, m, and of all time at
    most the share m has any. So n samples that all show some have the probability m^n at most.
    Where that is improbable, a sample showed none but those that leaked: the fewest of all samples.
    Next to a larger m the samples show more than m on average, by as many as leaked, and more than
    their scatter.
    So have those that newer ones overtake, once they are that old. A leak lasts until fewer are
    shown, and the counter may leak again. Time in which nothing completes does not count: what a
    hung device has in flight waits.
    """
    result: dict[str, Counted] = {}
    for name, given_up_seconds in given_up.items():
        block = blocks.get(name)
        if block is None:
            continue
        if not block.in_flight:
            result[name] = _NONE
            continue
        before, total = state.get(name), block.completed_total
        if before is None or total < before.total:
            before = _began(now, block, (leaked or {}).get(name, 0))
            if name in first:
                before = before._replace(
                    first=First(now, block.milliseconds_total, total, block.in_flight)
                )
        elif not before.floor or now < before.at_seconds:
            before = _began(now, block, before.leaked)
        elif given_up_seconds == math.inf:
            floor = min(before.floor, block.in_flight)
            worked = before.worked_seconds if total == before.total else now
            before = _began(now, block, before.leaked, first=before.first)._replace(
                floor=floor, leaked=min(before.leaked, floor), worked_seconds=worked
            )
        elif total != before.total:
            before = _worked(before, now, block, given_up_seconds)
        else:
            floor = min(before.floor, block.in_flight)
            before = before._replace(floor=floor, leaked=min(before.leaked, floor), at_seconds=now)
        if before.first is not None and block.in_flight < before.first.min_shown:
            before = before._replace(first=before.first._replace(min_shown=block.in_flight))
        result[name] = before
    return result


def _began(
    now: float,
    block: BlockIo,
    leaked: int,
    log_probability: float = 0.0,
    first: First | None = None,
) -> Counted:
    """Return a window that begins with this sample."""
    shown, total = block.in_flight, block.completed_total
    milliseconds = block.milliseconds_total
    return Counted(
        shown,
        min(leaked, shown),
        log_probability,
        now,
        total,
        now,
        milliseconds,
        now,
        milliseconds,
        first=first,
    )


def _worked(before: Counted, now: float, block: BlockIo, given_up_seconds: float) -> Counted:
    """Return the state after a sample before which something completed."""
    floor = min(before.floor, block.in_flight)
    is_overtaken = _is_overtaken(before, block, given_up_seconds)
    after = before._replace(
        floor=floor,
        leaked=floor if is_overtaken else min(before.leaked, floor),
        at_seconds=now,
        total=block.completed_total,
        worked_seconds=now,
        worked_milliseconds=block.milliseconds_total,
        completed=before.completed + block.completed_total - before.total,
        working_seconds=before.working_seconds + now - before.at_seconds,
        working_samples=before.working_samples + 1,
        excess=_exceeded(before, now, block),
    )
    is_over = _is_turned_over(after, given_up_seconds)
    return _classified(after, block, given_up_seconds) if is_over else after


def _exceeded(before: Counted, now: float, block: BlockIo) -> Excess:
    """Return the excess with this sample, before which something completed."""
    elapsed, excess = now - before.worked_seconds, before.excess
    took = (block.milliseconds_total - before.worked_milliseconds) * _MILLISECOND
    # A counter of milliseconds that wrapped, or that the kernel does not maintain, proves nothing.
    if took < 0 or not block.milliseconds_total or elapsed <= 0:
        return NO_EXCESS
    more = block.in_flight - took / elapsed
    latency = took / (block.completed_total - before.total)
    return Excess(
        excess.samples + 1,
        excess.seconds + elapsed,
        excess.times + took,
        excess.requests + more,
        excess.squares + more**2 * (1 + 2 * latency / elapsed),
    )


def _is_overtaken(before: Counted, block: BlockIo, given_up_seconds: float) -> bool:
    """Whether what completed now was issued after what the kernel would have given up by now."""
    waited = before.at_seconds - before.worked_seconds
    if waited < given_up_seconds or not block.milliseconds_total:
        return False
    took = (block.milliseconds_total - before.worked_milliseconds) * _MILLISECOND
    return 0 <= took < OVERTAKEN_RATIO * waited


def is_from_before(counted: Counted, block: BlockIo) -> bool:
    """Whether all that is in flight was so at the first sample, and the rest took hardly any time.

    It waits since then, or leaked before: it is only known by who waits for it. The time after the
    last completion does not count: a disk that was busy all the time before is one that hangs.
    """
    first = counted.first
    if first is None or block.in_flight != first.min_shown:
        return False
    milliseconds = block.milliseconds_total - first.milliseconds
    if block.completed_total != first.total and not milliseconds:  # a driver that reports no times
        return False
    elapsed = counted.worked_seconds - first.at_seconds
    return milliseconds * _MILLISECOND <= FROM_BEFORE_RATIO * first.min_shown * elapsed


def _is_turned_over(window: Counted, given_up_seconds: float) -> bool:
    """Whether what was in flight when the window began must have completed by now."""
    elapsed = window.at_seconds - window.since_seconds
    return elapsed >= given_up_seconds and window.completed >= TURNOVERS * window.floor


def _classified(window: Counted, block: BlockIo, given_up_seconds: float) -> Counted:
    """Return the state after a window, with what it shows, and the next window."""
    milliseconds = block.milliseconds_total - window.milliseconds_total
    mean = milliseconds * _MILLISECOND / window.working_seconds
    log_probability = window.log_probability
    # A counter of milliseconds that wrapped, or that the kernel does not maintain, proves nothing.
    if 0 < mean < _MAX_MEAN:
        log_probability += window.working_samples * math.log(mean)
    at, first = window.at_seconds, window.first
    if log_probability < _LOG_IMPROBABLE:  # the next windows show whether more leak
        return _began(at, block, window.floor, first=first)
    after = _began(at, block, window.leaked, log_probability, first)
    if log_probability:  # what is not improbable yet is so of the fewest of all these samples
        after = after._replace(floor=window.floor)
    excess = window.excess
    if not excess.samples:
        return after
    leaked = min(excess.leaked(window.leaked, given_up_seconds), window.floor)
    if leaked > window.leaked:
        return _began(at, block, leaked, first=first)
    is_over = excess.is_over(window.leaked, given_up_seconds)
    return after if is_over else after._replace(excess=excess)
