"""For how long tasks have been blocked on I/O (procs_blocked, uninterruptible sleep).

Source: kernel, filesystems/proc.rst, '/proc/stat'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals.signal import DIGITS, GAP_SECONDS, SignalGroup

if TYPE_CHECKING:
    from iowarden.rules.signals.signal import View

WINDOW_SECONDS = 10.0
MIN_BLOCKED = (1, 3)
"""One blocked task may be the writer itself; three mean that others wait too."""

_UPTIME = "iowarden_clock_monotonic_seconds"


@dataclass(frozen=True, slots=True)
class BlockedState:
    """Samples of the 10 seconds before the last confirmed one.

    Each has its time, the seconds since the one before, and the tasks blocked in that time: in a
    gap, as many as at both its ends.
    """

    history: tuple[tuple[float, float, int], ...] = ()
    last: int = 0
    """Tasks blocked in the last sample."""


def step(state: BlockedState, now: float, blocked: int) -> tuple[BlockedState, list[Sample]]:
    """Return the state after a sample at `now` and its series."""
    elapsed = now - state.history[-1][0] if state.history else 0.0
    history = state.history
    if elapsed < 0.0:
        history, elapsed = (), 0.0
    late = elapsed > GAP_SECONDS
    counted = min(blocked, state.last) if late else blocked
    # A late sample counts when the next one confirms it: until then the 10 s end before it.
    proven = now - elapsed if late else now
    told = tuple(h for h in history if h[0] > proven - WINDOW_SECONDS)
    history = (*told, (now, elapsed, counted))
    told = told if late else history
    return BlockedState(history, blocked), [
        (
            "iowarden_tasks_blocked_seconds",
            (("min_tasks", str(tasks)),),
            min(round(sum(h[1] for h in told if h[2] >= tasks), DIGITS), WINDOW_SECONDS),
        )
        for tasks in MIN_BLOCKED
    ]


def _step(state: BlockedState, view: View) -> tuple[BlockedState, list[Sample] | None]:
    inputs = view.inputs
    if inputs.snapshot.stat is None:
        return state, None
    state, samples = step(state, inputs.now_seconds, inputs.snapshot.stat.procs_blocked)
    return state, [*samples, (_UPTIME, (), inputs.uptime_seconds)]


GROUP = SignalGroup(
    name="blocked",
    sources=("stat",),
    families=(
        Family(
            "iowarden_tasks_blocked_seconds",
            "gauge",
            "Seconds of the last 10 in which at least this many tasks were blocked on I/O"
            " (/proc/stat).",
        ),
        Family(
            _UPTIME,
            "gauge",
            "Seconds since the host booted, without time suspended (CLOCK_MONOTONIC).",
        ),
    ),
    step=_step,
    initial=BlockedState(),
)
