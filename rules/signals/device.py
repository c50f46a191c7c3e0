"""A device that has requests in flight and completes none (domain condition B1).

Completions alone tell a hung device from a busy one: io_ticks, weighted time and pressure stand
still or rise alike. Source of the counters: kernel, admin-guide/iostats.rst.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iowarden.collectors.vocabulary import Family, Sample
from iowarden.rules.signals.writeback import DIGITS, GAP_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.diskstats import BlockIo

WARNING_SECONDS = 10.0
SPIN_UP_WARNING_SECONDS = 30.0
RECENT_SECONDS = 300.0
"""A disk without a completion for so long may have been asleep: spinning up takes up to 30 s."""
CRITICAL_SECONDS = (30.0, 180.0)
"""30 s is the default command time-out of SCSI and NVMe; a longer one is respected up to 180 s."""

FAMILIES = (
    Family(
        "iowarden_device_stalled_seconds",
        "gauge",
        "Seconds with requests in flight and none completed.",
    ),
    Family(
        "iowarden_device_stall_warning_seconds",
        "gauge",
        "Stall from which a warning is due: 30 when the disk may have to spin up, else 10.",
    ),
    Family(
        "iowarden_device_stall_critical_seconds",
        "gauge",
        "Stall from which it is critical: the device's command time-out, at least 30, at most 180.",
    ),
)


@dataclass(frozen=True, slots=True)
class Progress:
    """One device's completions. Units: seconds of the program's clock."""

    completed_total: int
    stalled_since_seconds: float | None
    completed_at_seconds: float | None
    """The last completion that was seen; None until one is."""
    spin_up: bool
    """Whether nothing had completed for RECENT_SECONDS when the present stall began."""


@dataclass(frozen=True, slots=True)
class DeviceState:
    """What the next step needs of the steps before."""

    devices: Mapping[str, Progress]
    last_seconds: float | None = None


EMPTY = DeviceState({})


def step(
    state: DeviceState, now: float, blocks: Mapping[str, BlockIo], leaves: Iterable[str]
) -> tuple[DeviceState, dict[str, Progress]]:
    """Return the state after a sample at `now`, with the progress of every leaf device in it."""
    gap = state.last_seconds is not None and not 0.0 <= now - state.last_seconds <= GAP_SECONDS
    devices: dict[str, Progress] = {}
    for name in leaves:
        block = blocks.get(name)
        if block is None:
            continue
        total = block.completed_total
        before = None if gap else state.devices.get(name)
        if before is None:
            since = now if block.in_flight > 0 else None
            devices[name] = Progress(total, since, None, spin_up=True)
        elif total != before.completed_total:
            since = now if block.in_flight > 0 else None
            # A counter that fell belongs to another device of the same name: no completion of this
            # one.
            completed = now if total > before.completed_total else None
            devices[name] = Progress(total, since, completed, spin_up=completed is None)
        elif block.in_flight <= 0:
            devices[name] = Progress(total, None, before.completed_at_seconds, spin_up=False)
        elif before.stalled_since_seconds is None:
            last = before.completed_at_seconds
            spin_up = last is None or now - last >= RECENT_SECONDS
            devices[name] = Progress(total, now, last, spin_up)
        else:
            devices[name] = before
    return DeviceState(devices, now), devices


def stalled_seconds(progress: Progress, now: float) -> float:
    """Return how long a device has completed nothing although requests are in flight."""
    since = progress.stalled_since_seconds
    return 0.0 if since is None else round(now - since, DIGITS)


def samples(
    devices: Mapping[str, Progress], now: float, timeouts_seconds: Mapping[str, float | None]
) -> list[Sample]:
    """Return the series of every device; a device without a command time-out has the default's."""
    result: list[Sample] = []
    low, high = CRITICAL_SECONDS
    for name, progress in devices.items():
        labels = (("device", name),)
        warning = SPIN_UP_WARNING_SECONDS if progress.spin_up else WARNING_SECONDS
        critical = min(max(timeouts_seconds.get(name) or low, low), high)
        result += (
            ("iowarden_device_stalled_seconds", labels, stalled_seconds(progress, now)),
            ("iowarden_device_stall_warning_seconds", labels, warning),
            ("iowarden_device_stall_critical_seconds", labels, critical),
        )
    return result
