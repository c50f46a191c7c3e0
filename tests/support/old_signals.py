"""The six groups that were stepped by a function of their own, as they were: for one comparison."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from iowarden.rules.signals import leaves
from iowarden.rules.signals.device import device, stall_limits
from iowarden.rules.signals.table import GROUPS
from iowarden.rules.signals.writeback import bandwidth, blocked, limits, lull, writeback
from iowarden.rules.topology import device_identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iowarden.collectors.model import Sample
    from iowarden.rules.signals.signal import Derived, Inputs

HELD_SECONDS = 10.0
SUSPENDED_SECONDS = 1.0
UPTIME = "iowarden_uptime_seconds"


@dataclass(frozen=True, slots=True)
class State:
    """The states of the six."""

    writeback: writeback.WritebackState = field(default_factory=writeback.WritebackState)
    device: device.DeviceState = device.EMPTY
    leaves: leaves.LeafHistory = field(default_factory=leaves.LeafHistory)
    usual: bandwidth.UsualState = field(default_factory=lambda: bandwidth.UsualState({}))
    forecasts: bandwidth.Forecasts = ()
    lull: lull.LullState = lull.EMPTY
    blocked: blocked.BlockedState = field(default_factory=blocked.BlockedState)
    kinds_of: tuple[Any, ...] = ()
    asleep_seconds: float = 0.0


def step(
    state: State, inputs: Inputs, derived: Derived | None
) -> tuple[State, dict[str, list[Sample]]]:
    """Step the groups that share the leaves' history and the writeback limits."""
    now = inputs.now_seconds
    values = inputs.snapshot
    vmstat, meminfo, stat = values.vmstat, values.meminfo, values.stat
    result: dict[str, list[Sample]] = {}
    held: writeback.Writeback | None = None
    if inputs.asleep_seconds - state.asleep_seconds > SUSPENDED_SECONDS:
        state = replace(state, device=device.woken(state.device))
    stepped = state = replace(state, asleep_seconds=inputs.asleep_seconds)
    if _usable("writeback", inputs):
        level = limits.level_bytes(vmstat, meminfo)
        bounds = limits.dirty_limits(vmstat, meminfo, values.vm_sysctl)
        if level is not None and bounds is not None and bounds.threshold_bytes > 0:
            writeback_state, held = writeback.step(state.writeback, now, level, bounds)
            stepped = replace(stepped, writeback=writeback_state)
            result["writeback"] = writeback.emit(held, ())
    if stat is not None:
        blocked_state, samples = blocked.step(state.blocked, now, stat.procs_blocked)
        stepped = replace(stepped, blocked=blocked_state)
        result["blocked"] = [*samples, (UPTIME, (), inputs.uptime_seconds)]
    blocks = values.diskstats
    if blocks is None or derived is None or not _usable("device", inputs):
        return stepped, result
    # What cannot be read now, mostly because of the very stall, is what it was.
    before = state.kinds_of[1:] or (None, None, None)
    read_now = (values.scsi, values.dm, values.mounts)
    known = tuple(old if new is None else new for old, new in zip(before, read_now, strict=True))
    kinds_of = (derived, *known)
    kinds = state.device.kinds
    if any(one is not other for one, other in itertools.zip_longest(kinds_of, state.kinds_of)):
        kinds = stall_limits.kinds(derived.topology, *known)
    stood = device.replaced(state.device, _replaced(state.kinds_of[:1], derived))
    device_state = device.step(stood, now, blocks, kinds, inputs.uptime_seconds)
    history = leaves.step(state.leaves, now, blocks, derived.leaves, device_state.counted)
    stepped = replace(stepped, device=device_state, leaves=history, kinds_of=kinds_of)
    result["device"] = device.samples(device_state)
    if held is None:
        return stepped, result
    above = held.queued_bytes > held.background_threshold_bytes
    usual = bandwidth.usual_step(
        state.usual,
        history,
        derived.amplification,
        above_background=above,
    )
    stepped = replace(stepped, usual=usual)
    rates = (
        bandwidth.bandwidth_now(history, derived.amplification)
        if held.above_freerun_seconds >= HELD_SECONDS
        else {}
    )
    forecasts = (
        bandwidth.forecast(state.forecasts, history, derived.amplification, held.queued_bytes)
        if above
        else ()
    )
    stepped = replace(stepped, forecasts=forecasts)
    result["bandwidth"] = [
        *bandwidth.samples(rates, held.queued_bytes),
        *bandwidth.forecast_samples(forecasts),
        *bandwidth.usual_samples(usual, held.threshold_bytes),
    ]
    if stat is not None:
        lull_state, seen = lull.step(
            state.lull,
            history,
            blocked=stat.procs_blocked,
            queued_ratio=held.threshold_ratio,
        )
        stepped = replace(stepped, lull=lull_state)
        if seen is not None:
            result["lull"] = seen
    return stepped, result


def _replaced(before: Sequence[Derived], after: Derived) -> list[str]:
    """Return the names that another disk has now than at the look before."""
    if not before or before[0] is after:
        return []
    old, new = before[0].topology.devices, after.topology.devices
    return [n for n in after.leaves if n in old and device_identity.is_another(old[n], new[n])]


def _usable(group: str, inputs: Inputs) -> bool:
    sources = next(g.sources for g in GROUPS if g.name == group)
    return inputs.failed.isdisjoint(sources)
