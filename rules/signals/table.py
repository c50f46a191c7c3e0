"""All signals together: which sources each needs, and one step over what they said this second."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.vocabulary import Family, Sample
from iowarden.rules.signals import bandwidth, blocked, device, leaves, limits, lull, writeback

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.block import Topology
    from iowarden.collectors.diskstats import BlockIo
    from iowarden.collectors.meminfo import Meminfo
    from iowarden.collectors.stat import Stat
    from iowarden.collectors.vm_sysctl import VmSysctl
    from iowarden.collectors.vmstat import Vmstat

HELD_SECONDS = 10.0
"""Bandwidth is told while writers are held: so many of the last 15 s at or above freerun."""

UPTIME = Family("iowarden_uptime_seconds", "gauge", "Seconds since the machine booted.")


@dataclass(frozen=True, slots=True)
class Group:
    """Signals computed together: they fall silent together when one of their sources does."""

    name: str
    sources: tuple[str, ...]
    families: tuple[Family, ...]


GROUPS = (
    Group("writeback", ("vmstat", "meminfo", "vm_sysctl"), writeback.FAMILIES),
    Group(
        "bandwidth",
        ("vmstat", "meminfo", "vm_sysctl", "diskstats", "block"),
        bandwidth.FAMILIES + bandwidth.USUAL_FAMILIES,
    ),
    Group("device", ("diskstats", "block"), device.FAMILIES),
    Group("lull", ("vmstat", "meminfo", "vm_sysctl", "diskstats", "block", "stat"), lull.FAMILIES),
    Group("blocked", ("stat",), (*blocked.FAMILIES, UPTIME)),
)


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the sources say now; None where one is absent or not `ok` (then it is in `failed`).

    Units: seconds; `now_seconds` is the program's clock, `uptime_seconds` that of the machine.
    """

    now_seconds: float
    uptime_seconds: float
    meminfo: Meminfo | None = None
    vmstat: Vmstat | None = None
    stat: Stat | None = None
    vm_sysctl: VmSysctl | None = None
    blocks: Mapping[str, BlockIo] | None = None
    topology: Topology | None = None
    failed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class State:
    """The states of all reducers."""

    writeback: writeback.WritebackState = field(default_factory=writeback.WritebackState)
    device: device.DeviceState = device.EMPTY
    leaves: leaves.LeafHistory = field(default_factory=leaves.LeafHistory)
    usual: bandwidth.UsualState = field(default_factory=lambda: bandwidth.UsualState({}))
    lull: lull.LullState = lull.EMPTY
    blocked: blocked.BlockedState = field(default_factory=blocked.BlockedState)


@dataclass(frozen=True, slots=True)
class Memory:
    """What signals keep over a restart: what is usual takes long to learn."""

    bandwidths: dict[str, tuple[float, ...]] = field(default_factory=dict)
    best_rates: dict[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)


def remember(state: State) -> Memory:
    """Return what is worth keeping of the states."""
    return Memory(dict(state.usual.windows), dict(state.lull.best))


def recall(state: State, memory: Memory) -> State:
    """Return the states with what was kept added to what is known by now."""
    usual = replace(state.usual, windows={**memory.bandwidths, **state.usual.windows})
    known = state.lull.best
    best = {
        name: tuple(sorted({*memory.best_rates.get(name, ()), *known.get(name, ())}))
        for name in {**memory.best_rates, **known}
    }
    return replace(state, usual=usual, lull=replace(state.lull, best=best))


@dataclass(frozen=True, slots=True)
class Derived:
    """What follows from the topology alone; made anew when it changes."""

    leaves: tuple[str, ...]
    amplification: Mapping[str, float]
    timeouts_seconds: Mapping[str, float | None]


def derive(topology: Topology) -> Derived:
    """Return what the signals need of a topology."""
    return Derived(
        topology.leaves,
        leaves.amplifications(topology),
        {name: topology.devices[name].timeout_seconds for name in topology.leaves},
    )


def step(
    state: State, inputs: Inputs, derived: Derived | None
) -> tuple[State, dict[str, list[Sample]]]:
    """Return the states after this second and the samples of every group that could be computed.

    A group with a failed source is not stepped and not in the result: its last values may be held,
    and nothing is concluded from a second nobody saw.
    """
    now = inputs.now_seconds
    result: dict[str, list[Sample]] = {}
    held: writeback.Writeback | None = None
    stepped = state
    if _usable("writeback", inputs):
        level = limits.level_bytes(inputs.vmstat, inputs.meminfo)
        bounds = limits.dirty_limits(inputs.vmstat, inputs.meminfo, inputs.vm_sysctl)
        if level is not None and bounds is not None and bounds.threshold_bytes > 0:
            writeback_state, held = writeback.step(state.writeback, now, level, bounds)
            stepped = replace(stepped, writeback=writeback_state)
            result["writeback"] = writeback.emit(held, ())
    if inputs.stat is not None:
        blocked_state, samples = blocked.step(state.blocked, now, inputs.stat.procs_blocked)
        stepped = replace(stepped, blocked=blocked_state)
        result["blocked"] = [*samples, (UPTIME.name, (), inputs.uptime_seconds)]
    blocks = inputs.blocks
    if blocks is None or derived is None or not _usable("device", inputs):
        return stepped, result
    device_state, progress = device.step(state.device, now, blocks, derived.leaves)
    history = leaves.step(state.leaves, now, blocks, derived.leaves)
    stepped = replace(stepped, device=device_state, leaves=history)
    result["device"] = device.samples(progress, now, derived.timeouts_seconds)
    if held is None:
        return stepped, result
    usual = bandwidth.usual_step(
        state.usual,
        history,
        derived.amplification,
        above_background=held.queued_bytes > held.background_threshold_bytes,
    )
    stepped = replace(stepped, usual=usual)
    rates = (
        bandwidth.bandwidth_now(history, derived.amplification)
        if held.above_freerun_seconds >= HELD_SECONDS
        else {}
    )
    result["bandwidth"] = [
        *bandwidth.samples(rates, held.queued_bytes),
        *bandwidth.usual_samples(usual, held.threshold_bytes),
    ]
    if inputs.stat is not None:
        lull_state, seen = lull.step(
            state.lull,
            history,
            blocked=inputs.stat.procs_blocked,
            queued_ratio=held.threshold_ratio,
        )
        stepped = replace(stepped, lull=lull_state)
        if seen is not None:
            result["lull"] = seen
    return stepped, result


def _usable(group: str, inputs: Inputs) -> bool:
    sources = next(g.sources for g in GROUPS if g.name == group)
    return inputs.failed.isdisjoint(sources)
