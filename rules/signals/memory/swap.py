"""For how long the host has been swapping out.

Source: kernel, mm/vmstat.c (pswpout) and filesystems/proc.rst (SwapTotal, SwapFree).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals.signal import DIGITS, GAP_SECONDS, SignalGroup

if TYPE_CHECKING:
    from iowarden.rules.signals.signal import View

PAUSE_SECONDS = 10.0
"""Swapping has ended after so long without anything swapped out: cold pages go out in bursts."""


@dataclass(frozen=True, slots=True)
class SwapState:
    """When swapping began and when something was last swapped out."""

    total_bytes: int | None = None
    last_seconds: float = 0.0
    since_seconds: float = 0.0
    """When the current swapping began."""
    out_seconds: float | None = None
    """When something was last swapped out; None: not lately."""


def step(state: SwapState, view: View) -> tuple[SwapState, list[Sample] | None]:
    """Return the state after this second, and the time swapped out; None without swap counters."""
    meminfo = view.inputs.snapshot.meminfo
    vmstat = view.inputs.snapshot.vmstat
    total = None if vmstat is None else vmstat.swapped_out_bytes_total
    if meminfo is None or total is None or meminfo.swap_total_bytes is None:
        return state, None
    now = view.inputs.now_seconds
    before = state.total_bytes
    gap = not 0.0 <= now - state.last_seconds <= GAP_SECONDS
    if before is None or gap or total < before:
        return SwapState(total, now), [_sample(0.0)]
    out, since = state.out_seconds, state.since_seconds
    used = meminfo.swap_total_bytes > (meminfo.swap_free_bytes or 0)
    if total > before and used:
        since = now if out is None else since
        out = now
    elif out is not None and now - out >= PAUSE_SECONDS:
        out = None
    return SwapState(total, now, since, out), [_sample(0.0 if out is None else now - since)]


def _sample(seconds: float) -> Sample:
    return "iowarden_swapping_out_seconds", (), round(seconds, DIGITS)


GROUP = SignalGroup(
    name="swap",
    sources=("vmstat", "meminfo"),
    families=(
        Family(
            "iowarden_swapping_out_seconds",
            "gauge",
            "Seconds for which memory has been swapped out, without a pause of 10 s or longer.",
        ),
    ),
    step=step,
    initial=SwapState(),
)
