"""Many short waits: none lasts long, and programs still hardly get on. Pure.

At a device that is at its limit, or while memory is swapped in and out all the time, programs are
blocked at nearly each poll, in another call each time. Units: seconds of the program's clock.
"""

from __future__ import annotations

import statistics
from dataclasses import field, replace
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.procfs.vmstat import Vmstat

STORM_SECONDS = 30.0
"""A swap storm has lasted so long before it is one."""
STORM_MAIL_SECONDS = 60.0
LIMITED_SECONDS = 600.0
"""A device at its limit is reported after so long."""
LIMITED_VICTIMS = 3
MIN_POLLS_RATIO = 0.8
MAX_GAP_SECONDS = 12.0
"""Between two polls; a longer time without one ends the series."""
MAX_STORM_GAP_SECONDS, MIN_STORM_POLLS = 25.0, 4
"""In a swap storm polls fail as well: of those that did not, at least so many."""
MIN_FULL_PRESSURE_RATIO = 0.2
MIN_SWAPPED_BYTES_PER_SECOND = 80 * 1024.0
"""Where pressure is not measured (before 4.20, or psi=0), less is no swap storm.

A hard disk takes 10 ms for a read at a random position, of one page of 4 KiB at least (kernel,
admin-guide/sysctl/vm.rst, page-cluster): programs that wait for a fifth of the time, as with
pressure, get 20 pages a second. A device that takes 50 ms reads so many when it is always in use.
"""


class MemoryPoll(NamedTuple):
    """What one poll shows of memory.

    `swapped_bytes`: swapped in and out since the poll before. `full_pressure_ratio`: share of the
    last 10 s in which all programs waited for memory, None: the kernel does not measure it.
    """

    at_seconds: float
    is_faulting: bool
    swapped_bytes: int
    full_pressure_ratio: float | None


Polls = tuple[tuple[float, bool], ...]
"""When a device was polled while it was at its limit, and whether programs waited for it."""


@dataclass(frozen=True, slots=True)
class ManyWaits:
    """What the last polls have shown.

    `storm_devices` are those that programs in page faults wait for, '' where that is not known.
    """

    memory: tuple[MemoryPoll, ...] = ()
    swapped_bytes: int | None = None
    storm_since_seconds: float | None = None
    storm_devices: frozenset[str] = frozenset()
    limited: Mapping[str, Polls] = field(default_factory=dict)

    def sustained(self, now: float) -> dict[str, float]:
        """Return for how long programs have been blocked, of devices where that is reported."""
        found = {
            name: now - polls[0][0]
            for name, polls in self.limited.items()
            if now - polls[0][0] >= LIMITED_SECONDS
            and _is_mostly([is_blocked for _, is_blocked in polls])
        }
        since = self.storm_since_seconds
        if since is not None and now - since >= STORM_MAIL_SECONDS:
            found |= dict.fromkeys(self.storm_devices, now - since)
        return found


NOTHING = ManyWaits()


def swapped_bytes(vmstat: Vmstat | None) -> int | None:
    """Return what was swapped in and out since boot; None: it is not counted."""
    if vmstat is None or vmstat.swapped_in_bytes_total is None:
        return None
    return vmstat.swapped_in_bytes_total + (vmstat.swapped_out_bytes_total or 0)


def is_swapping(state: ManyWaits, now: float, swapped: int | None) -> bool:
    """Whether memory was swapped in or out since the last poll; `swapped`: since boot."""
    if not state.memory or now - state.memory[-1].at_seconds > MAX_STORM_GAP_SECONDS:
        return False
    return swapped is not None and swapped > (state.swapped_bytes or 0)


def next_memory(
    state: ManyWaits,
    now: float,
    *,
    faulting: frozenset[str],
    swapped_bytes: int | None,
    full_pressure_ratio: float | None,
) -> ManyWaits:
    """Return the state after a poll; `faulting`: the devices of programs in page faults.

    `swapped_bytes` is what was swapped in and out since boot, `full_pressure_ratio` that of memory;
    None: not known.
    """
    before = state.swapped_bytes
    swapped = 0
    if before is not None and swapped_bytes is not None:
        swapped = max(swapped_bytes - before, 0)
    polls = state.memory
    if polls and now - polls[-1].at_seconds > MAX_STORM_GAP_SECONDS:
        polls = ()
    polls = (*polls, MemoryPoll(now, bool(faulting), swapped, full_pressure_ratio))
    is_long = now - polls[0].at_seconds >= STORM_SECONDS
    while len(polls) > 1 and now - polls[1].at_seconds >= STORM_SECONDS:
        polls = polls[1:]
    is_storm = is_long and len(polls) >= MIN_STORM_POLLS
    is_storm = is_storm and _is_mostly([poll.is_faulting for poll in polls])
    is_storm = is_storm and all(poll.swapped_bytes for poll in polls[1:]) and _is_pressed(polls)
    since = state.storm_since_seconds
    devices = (state.storm_devices if is_storm else frozenset()) | faulting
    return replace(
        state,
        memory=polls,
        swapped_bytes=swapped_bytes,
        storm_since_seconds=(polls[0].at_seconds if since is None else since) if is_storm else None,
        storm_devices=devices,
    )


def next_limited(state: ManyWaits, now: float, victims: Mapping[str, int]) -> ManyWaits:
    """Return the state after a poll; `victims`: of each device at its limit, how many wait.

    Between two of their requests all may be awake: a poll that sees none does not end a series.
    """
    limited: dict[str, Polls] = {}
    lately = {
        name: 0
        for name, polls in state.limited.items()
        if any(is_blocked and now - at <= MAX_GAP_SECONDS for at, is_blocked in reversed(polls))
    }
    for name, count in {**lately, **victims}.items():
        polls = state.limited.get(name, ())
        if polls and now - polls[-1][0] > MAX_GAP_SECONDS:
            polls = ()
        polls = (*polls, (now, count >= LIMITED_VICTIMS))
        while len(polls) > 1 and now - polls[1][0] >= LIMITED_SECONDS:
            polls = polls[1:]
        limited[name] = polls
    return replace(state, limited=limited)


def _is_pressed(polls: tuple[MemoryPoll, ...]) -> bool:
    """Whether all programs waited for memory for a fifth of the time.

    On average: while one of them has its pages for a moment, not all wait. Where that is not
    measured, what was swapped shows it.
    """
    ratios = [poll.full_pressure_ratio for poll in polls if poll.full_pressure_ratio is not None]
    if ratios:
        return statistics.fmean(ratios) >= MIN_FULL_PRESSURE_RATIO
    swapped = sum(poll.swapped_bytes for poll in polls[1:])
    return swapped >= MIN_SWAPPED_BYTES_PER_SECOND * (polls[-1].at_seconds - polls[0].at_seconds)


def _is_mostly(flags: list[bool]) -> bool:
    return sum(flags) >= MIN_POLLS_RATIO * len(flags)
