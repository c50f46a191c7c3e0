"""Time a program has waited for writeback while the host as a whole is below its dirty limit.

The kernel also throttles writers because of one device (its share of the cache, `strict_limit`) or
one control group: unwritten data is then far below the limit of the host, and only the blocked
tasks show it. Source: kernel, mm/page-writeback.c (balance_dirty_pages);
ABI/testing/sysfs-class-bdi.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.collectors.procfs.tasks import writeback_channel
from iowarden.rules.signals.signal import DIGITS, SignalGroup
from iowarden.rules.signals.writeback import writeback

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.rules.signals.signal import View

MIN_SNAPSHOTS = 3
"""The same task must wait in so many samples in a row: a pause ends after 0.2 s, and another
begins."""
GAP_SECONDS = 12.0
"""Samples further apart (two are missing) are not in a row."""
ECHO_SECONDS = 60.0
"""For so long after the host was at its limit a task may still wait because of it
(WriteThrottle)."""

FAMILIES = (
    Family(
        "iowarden_bdi_throttle_seconds",
        "gauge",
        "Longest time in seconds a program has waited for writeback while the host is below"
        " its dirty limit.",
    ),
)


@dataclass(frozen=True, slots=True)
class ThrottleState:
    """By task (number, start): since when it waits and in how many samples."""

    waits: Mapping[tuple[int, int], tuple[float, int]]
    at_seconds: float = -math.inf
    limited_seconds: float = -math.inf
    """When the host was last at or above freerun."""


EMPTY = ThrottleState({})


def step(state: ThrottleState, view: View) -> tuple[ThrottleState, list[Sample] | None]:
    """Return the state after a sample and the longest time that a program has waited.

    None where it cannot be computed: between samples, without permission to read other users'
    tasks, and while the limits of the host are unknown. Kernel threads do not count: they do the
    writing.
    """
    value = view.inputs.snapshot.tasks
    if value is None or "tasks" not in view.inputs.fresh:
        return state, None
    now = view.inputs.now_seconds
    held = writeback.seen(view)
    if held is None or value.unseen:
        return ThrottleState({}, now, state.limited_seconds), None
    limited = now if held.above_freerun_seconds > 0 else state.limited_seconds
    waits: dict[tuple[int, int], tuple[float, int]] = {}
    if now - limited >= ECHO_SECONDS:
        before = state.waits if now - state.at_seconds <= GAP_SECONDS else {}
        for task in value.tasks:
            if not task.kernel and writeback_channel(task):
                key = (task.pid, task.start_ticks)
                since, looks = before.get(key, (now, 0))
                waits[key] = (since, looks + 1)
    seconds = max(
        (now - since for since, looks in waits.values() if looks >= MIN_SNAPSHOTS), default=0.0
    )
    return ThrottleState(waits, now, limited), [(FAMILIES[0].name, (), round(seconds, DIGITS))]


GROUP = SignalGroup(
    name="bdi_throttle",
    sources=("tasks", "vmstat", "meminfo", "vm_sysctl"),
    families=FAMILIES,
    step=step,
    initial=EMPTY,
)
