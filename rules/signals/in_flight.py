"""Leaked requests in flight: a counter that was not decreased shows some until the next boot.

The kernel increases this counter when a request starts and decreases it when it ends; a driver or
an old block layer that omits one of the two makes it wrong until the next boot. Such requests
must not look like a device hang. Source: kernel, block/genhd.c (part_in_flight, before 5.0 a plain
counter for each queue of one request).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.block.diskstats import BlockIo

WINDOW_SECONDS = 30.0
TURNOVERS = 100
"""After so many completions per request that never completed, none of them can be a waiting one."""
LONG_SECONDS, LONG_TURNOVERS = 300.0, 10
"""Of a disk that is hardly used: in this time the kernel gives up each request, or completes it."""
IMPROBABLE = 1e-6
"""A series of samples this improbable shows a wrong counter, not what is in flight."""
_MILLISECOND = 0.001
_ROUNDING = 0.1
"""The times of short requests are counted in ticks of up to 10 ms before 5.0."""


class Counted(NamedTuple):
    """One device: the current window, and how many of its requests in flight are leaked."""

    since_seconds: float
    completed_total: int
    milliseconds_total: int
    min_in_flight: int
    """The smallest number in flight in any sample of the window."""
    leaked: int = 0
    since_sample: int = 0
    """The number of the first sample of the window."""


_NONE = Counted(0.0, 0, 0, 0)
"""Without a request in flight: none has leaked, and the next one begins a window."""


def step(
    state: Mapping[str, Counted],
    now: float,
    blocks: Mapping[str, BlockIo],
    names: Iterable[str],
    leaked: Mapping[str, int] | None = None,
    sample: int = 0,
) -> dict[str, Counted]:
    """Return the state after the sample of number `sample`.

    `leaked`: stored number per device, for the first sample.

    By Little's law the completed requests give the mean number in flight, m, and of all time at
    most the share m/k has k or more of them. So k in each of n samples has the probability
    (m/k)^n at most: requests that this makes improbable, while many others completed, have leaked.
    """
    result: dict[str, Counted] = {}
    for name in names:
        block = blocks.get(name)
        if block is None:
            continue
        shown = block.in_flight
        if not shown:
            result[name] = _NONE
            continue
        before, total = state.get(name), block.completed_total
        if before is None or total < before.completed_total:
            known = (leaked or {}).get(name, 0)
            before = Counted(now, total, block.milliseconds_total, shown, known, sample)
        lost = min(before.leaked, shown)
        least = min(before.min_in_flight, shown)
        elapsed, completed = now - before.since_seconds, total - before.completed_total
        if not least or elapsed < 0:
            before = Counted(now, total, block.milliseconds_total, shown, lost, sample)
        elif _is_turned_over(elapsed, completed, least):
            busy = (block.milliseconds_total - before.milliseconds_total) * _MILLISECOND / elapsed
            # A counter of milliseconds that wrapped, or that the kernel does not maintain, proves
            # nothing.
            if busy > 0:
                lost = max(least - _plausible(busy, sample - before.since_sample), 0)
            before = Counted(now, total, block.milliseconds_total, shown, lost, sample)
        elif least != before.min_in_flight or lost != before.leaked:
            before = before._replace(min_in_flight=least, leaked=lost)
        result[name] = before
    return result


def _is_turned_over(elapsed: float, completed: int, least: int) -> bool:
    """Whether what was in flight when the window began must have completed by now."""
    return (elapsed >= WINDOW_SECONDS and completed >= TURNOVERS * least) or (
        elapsed >= LONG_SECONDS and completed >= LONG_TURNOVERS * least
    )


def _plausible(mean_in_flight: float, samples: int) -> int:
    """Return the largest number that may really have been in flight in each of so many samples."""
    # A mean next to a whole number is a queue of constant depth, with the kernel's rounding.
    nearly = round(mean_in_flight)
    steady = nearly if abs(mean_in_flight - nearly) <= _ROUNDING * nearly else 0
    return max(int(mean_in_flight / IMPROBABLE ** (1 / max(samples, 1))), steady)
