"""Level of unwritten (dirty) data against the kernel's limits, and for how long it exceeds them.

A pure reducer: one step a second over the level of unwritten data and the kernel's limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Metric, Sample, describe
from iowarden.rules.signals.device import device
from iowarden.rules.signals.guards import Guard
from iowarden.rules.signals.signal import DIGITS, GAP_SECONDS, SignalGroup
from iowarden.rules.signals.writeback.limits import dirty_limits, level_bytes

if TYPE_CHECKING:
    from iowarden.rules.signals.signal import View
    from iowarden.rules.signals.writeback.limits import DirtyLimits

WINDOW_SECONDS = 15.0
FELL_WINDOW_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Interval:
    """One second of history: its end, its length, the level and threshold at its end."""

    end_seconds: float
    length_seconds: float
    above_freerun: bool
    threshold_bytes: float
    late: bool = False
    """Whether it is a gap."""


@dataclass(frozen=True, slots=True)
class WritebackState:
    """History of the last minute and the current time above the threshold."""

    history: tuple[Interval, ...] = ()
    above_threshold_seconds: float = 0.0
    last_seconds: float | None = None
    beyond: bool = False
    """Whether the level was at or above the threshold in the last sample."""
    unproven_seconds: float = 0.0
    """A gap at or above the threshold that no further sample has confirmed."""
    value: Writeback | None = None
    """Result of the last sample."""


@dataclass(frozen=True, slots=True)
class Writeback:
    """Unwritten data against the kernel's limits. Units: bytes, seconds, ratio."""

    queued_bytes: Annotated[
        float,
        Metric(
            "gauge",
            "Unwritten data in bytes that counts against the dirty limit"
            " (/proc/vmstat, /proc/meminfo).",
        ),
    ]
    threshold_bytes: Annotated[
        float, Metric("gauge", "The kernel's dirty threshold in bytes, at which it stops writers.")
    ]
    background_threshold_bytes: Annotated[
        float,
        Metric("gauge", "Level in bytes from which the kernel writes back in the background."),
    ]
    freerun_bytes: Annotated[
        float,
        Metric(
            "gauge",
            "Level in bytes from which the kernel pauses writers (before Linux"
            " 3.2: 0.95 of the threshold).",
        ),
    ]
    queued_ratio: Annotated[
        float, Metric("gauge", "Unwritten data as a share of the dirty threshold.")
    ]
    above_freerun_seconds: Annotated[
        float, Metric("gauge", "Seconds of the last 15 with unwritten data at or above freerun.")
    ]
    above_threshold_seconds: Annotated[
        float,
        Metric(
            "gauge",
            "Seconds with unwritten data at or above the dirty threshold without a break,"
            " since no disk has to spin up in laptop mode.",
        ),
    ]
    threshold_drop_ratio: Annotated[
        float,
        Metric(
            "gauge",
            "Decrease of the dirty threshold within the last minute, as a"
            " share of its highest value.",
        ),
    ]


FAMILIES, emit = describe(Writeback, "iowarden_writeback_")


def step(
    state: WritebackState,
    now: float,
    level: float,
    limits: DirtyLimits,
    *,
    is_spinning_up: bool = False,
) -> tuple[WritebackState, Writeback]:
    """Return the state after a sample at `now` (seconds), and its result.

    `is_spinning_up`: in laptop mode a disk that slept has to; what was gathered is written then.
    """
    elapsed = 0.0 if state.last_seconds is None else now - state.last_seconds
    if elapsed < 0.0:
        state, elapsed = WritebackState(), 0.0
    late = elapsed > GAP_SECONDS
    above = level >= limits.onset_bytes
    held = above and not (late and not state.history[-1].above_freerun)
    history = (
        *(i for i in state.history if i.end_seconds > now - FELL_WINDOW_SECONDS),
        Interval(now, elapsed if held or not above else 0.0, above, limits.threshold_bytes, late),
    )
    above_seconds = sum(
        i.length_seconds
        for i in history
        if i.above_freerun
        and i.end_seconds > now - WINDOW_SECONDS
        and not (i.late and i is history[-1])
    )
    beyond = level >= limits.threshold_bytes and not is_spinning_up
    beyond_seconds = unproven = 0.0
    if beyond:
        beyond_seconds = state.above_threshold_seconds + state.unproven_seconds
        if not late:
            beyond_seconds += elapsed
        elif state.beyond:
            unproven = elapsed
    highest = max(i.threshold_bytes for i in history)
    value = Writeback(
        queued_bytes=level,
        threshold_bytes=limits.threshold_bytes,
        background_threshold_bytes=limits.background_bytes,
        freerun_bytes=limits.onset_bytes,
        queued_ratio=level / limits.threshold_bytes if limits.threshold_bytes else 0.0,
        above_freerun_seconds=min(round(above_seconds, DIGITS), WINDOW_SECONDS),
        above_threshold_seconds=round(beyond_seconds, DIGITS),
        threshold_drop_ratio=1 - limits.threshold_bytes / highest if highest else 0.0,
    )
    return WritebackState(history, beyond_seconds, now, beyond, unproven, value), value


def seen(view: View) -> Writeback | None:
    """Return the result of this second, for the groups after this one."""
    state = GROUP.state(view.states)
    return state.value if state.last_seconds == view.inputs.now_seconds else None


def _step(state: WritebackState, view: View) -> tuple[WritebackState, list[Sample] | None]:
    says = view.inputs.snapshot
    level = level_bytes(says.vmstat, says.meminfo)
    limits = dirty_limits(says.vmstat, says.meminfo, says.vm_sysctl)
    if level is None or limits is None or limits.threshold_bytes <= 0:
        return state, None
    active = device.GROUP.state(view.states).guards.values()
    is_spinning_up = any(Guard.LAPTOP_MODE in guards for guards in active)
    now = view.inputs.now_seconds
    state, value = step(state, now, level, limits, is_spinning_up=is_spinning_up)
    return state, emit(value, ())


GROUP = SignalGroup(
    name="writeback",
    sources=("vmstat", "meminfo", "vm_sysctl"),
    families=FAMILIES,
    step=_step,
    initial=WritebackState(),
)
