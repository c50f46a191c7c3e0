"""For how long a program has waited for writeback while the whole machine may write (condition A3).

The kernel holds writers also for the sake of one device (its share of the cache, `strict_limit`) or
one control group: unwritten data is then far below the limit of the machine. Only the tasks
themselves show it. Source: kernel, mm/page-writeback.c (balance_dirty_pages);
ABI/testing/sysfs-class-bdi.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Sample
from iowarden.collectors.procfs.tasks import writeback_channel
from iowarden.rules.signals.signal import DIGITS, Group
from iowarden.rules.signals.writeback import writeback

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.rules.signals.signal import View

LOOKS = 3
"""In so many looks in a row the same task waits: a pause ends after 0.2 s, and another begins."""
GAP_SECONDS = 12.0
"""Looks further apart, two of them missed, are not in a row."""
ECHO_SECONDS = 60.0
"""So long after the machine was at its limit what waits may still wait for that (WriteThrottle)."""

FAMILIES = (
    Family(
        "iowarden_bdi_throttle_seconds",
        "gauge",
        "Seconds a program has waited for writeback, the machine being below its own limits.",
    ),
)


@dataclass(frozen=True, slots=True)
class ThrottleState:
    """What the next look needs: by task (number, start) since when and in how many looks."""

    waits: Mapping[tuple[int, int], tuple[float, int]]
    at_seconds: float = -math.inf
    limited_seconds: float = -math.inf
    """When the machine was last seen at or above freerun."""


EMPTY = ThrottleState({})


def step(state: ThrottleState, view: View) -> tuple[ThrottleState, list[Sample] | None]:
    """Return the state after a look and for how long the most patient program has waited.

    None where nobody can tell: between looks, without somebody who may look, and while the
    machine's own limits are not known. The kernel's threads do not count: they do the writing.
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
    seconds = max((now - since for since, looks in waits.values() if looks >= LOOKS), default=0.0)
    return ThrottleState(waits, now, limited), [(FAMILIES[0].name, (), round(seconds, DIGITS))]


GROUP = Group(
    name="bdi_throttle",
    sources=("tasks", "vmstat", "meminfo", "vm_sysctl"),
    families=FAMILIES,
    step=step,
    initial=EMPTY,
)
