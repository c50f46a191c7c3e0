"""All signals together: which sources each needs, and one step over what they said this second."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals import activity, baseline, growth, leaves
from iowarden.rules.signals.device import (
    device,
    device_state,
    hung,
    multipath,
    stall_limits,
    suspended,
)
from iowarden.rules.signals.filesystem import filesystem_errors, fullness, mount_state
from iowarden.rules.signals.held import Held
from iowarden.rules.signals.memory import defaults, reclaim, swap
from iowarden.rules.signals.queue import (
    phantom_reads,
    queue_depth,
    read_ahead,
    request_size,
    scheduler,
)
from iowarden.rules.signals.raid import controller_state, md_state
from iowarden.rules.signals.smart import disk_cover, smart
from iowarden.rules.signals.writeback import (
    bandwidth,
    bdi_throttle,
    blocked,
    limits,
    lull,
    waiters,
    writeback,
)
from iowarden.rules.topology import device_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.model import Labels

HELD_SECONDS = 10.0
"""Bandwidth is told while writers are held: so many of the last 15 s at or above freerun."""

SUSPENDED_SECONDS = 1.0
"""By so much CLOCK_BOOTTIME gains on CLOCK_MONOTONIC only while the machine is suspended."""

UPTIME = Family("iowarden_uptime_seconds", "gauge", "Seconds since the machine booted.")


Pairs = tuple[tuple[float, float], ...]
"""What a group keeps of one object over a restart: pairs of numbers, mostly a time and a value."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the sources say now.

    Units: seconds; `now_seconds` is the program's clock, `uptime_seconds` that of the machine.
    Fields: `values` by source: of a fast one only what was read in this second, of a slow one what
    it last said, while that is held; `fresh` were read well in this second; `failed` should speak
    and do not. A source that is in neither `values` nor `failed` is absent here.
    """

    now_seconds: float
    uptime_seconds: float
    values: Mapping[str, Any]
    fresh: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    asleep_seconds: float = 0.0
    """For how long the machine has been suspended since its boot."""


@dataclass(frozen=True, slots=True)
class View:
    """What a group's step may look at: the sources, and what was concluded before it."""

    inputs: Inputs
    derived: Derived | None
    """None while the topology is not known."""
    history: leaves.LeafHistory
    """The last looks at the leaf devices' counters, this second's last."""
    told: Mapping[str, list[Sample]]
    """What the groups before this one said in this second; a slow one: what it last said."""


@dataclass(frozen=True, slots=True)
class Group:
    """Signals computed together: they fall silent together when one of their sources does.

    `step` returns the state after this second and the samples, or None where nobody can tell. A
    group all of whose sources are slow is stepped only when one of them was read. `remember` and
    `recall` carry what takes long to learn over a restart, by object: of its pairs each begins with
    a time of the program's clock, or 0 for none, but for the `untimed` first ones. `unread`:
    objects of which nothing can be concluded now, as labels and a reason: alerts with these labels
    are unknown.
    """

    name: str
    sources: tuple[str, ...]
    families: tuple[Family, ...]
    step: Callable[[Any, View], tuple[Any, list[Sample] | None]] | None = None
    initial: Any = None
    remember: Callable[[Any], Mapping[str, Pairs]] | None = None
    recall: Callable[[Any, Mapping[str, Pairs]], Any] | None = None
    unread: Callable[[Any], Iterable[tuple[Labels, str]]] | None = None
    untimed: int = 0


GROUPS: tuple[Group, ...] = (
    Group("writeback", ("vmstat", "meminfo", "vm_sysctl"), writeback.FAMILIES),
    Group(
        "bandwidth",
        ("vmstat", "meminfo", "vm_sysctl", "diskstats", "block"),
        bandwidth.FAMILIES + bandwidth.USUAL_FAMILIES,
    ),
    Group(
        "device",
        ("diskstats", "block"),
        device.FAMILIES,
        remember=device.remember,
        recall=device.recall,
    ),
    Group(
        "lull",
        ("vmstat", "meminfo", "vm_sysctl", "diskstats", "block", "stat"),
        lull.FAMILIES,
        remember=lull.remember,
        recall=lull.recall,
    ),
    Group("blocked", ("stat",), (*blocked.FAMILIES, UPTIME)),
    Group(
        "reclaim_stall",
        ("vmstat", "meminfo", "stat", "diskstats", "block", "pressure"),
        reclaim.STALL_FAMILIES,
        reclaim.stall_step,
        reclaim.StallState(),
        reclaim.stall_remember,
        reclaim.stall_recall,
    ),
    Group(
        "direct_reclaim",
        ("vmstat",),
        reclaim.DIRECT_FAMILIES,
        reclaim.direct_step,
        reclaim.DirectState(),
    ),
    Group("swap", ("vmstat", "meminfo"), swap.FAMILIES, swap.step, swap.SwapState()),
    Group(
        "hung_task",
        ("hung_task",),
        hung.TASK_FAMILIES,
        hung.task_step,
        growth.EMPTY,
        growth.remember,
        growth.recall,
        untimed=1,
    ),
    Group(
        "timeouts",
        ("scsi",),
        hung.TIMEOUT_FAMILIES,
        hung.timeout_step,
        growth.EMPTY,
        growth.remember,
        growth.recall,
        untimed=1,
    ),
    Group("numa", ("numa",), defaults.FAMILIES, defaults.step),
    Group(
        "activity",
        ("diskstats", "block"),
        activity.FAMILIES,
        activity.step,
        activity.ActivityState(),
    ),
    Group(
        "phantom_reads",
        phantom_reads.SOURCES,
        phantom_reads.FAMILIES,
        phantom_reads.step,
        phantom_reads.EMPTY,
        phantom_reads.remember,
        phantom_reads.recall,
    ),
    Group(
        "read_ahead",
        read_ahead.SOURCES,
        read_ahead.FAMILIES,
        read_ahead.step,
        read_ahead.EMPTY,
        read_ahead.remember,
        read_ahead.recall,
    ),
    Group(
        "request_split",
        request_size.SPLIT_SOURCES,
        request_size.SPLIT_FAMILIES,
        request_size.split_step,
        request_size.EMPTY,
    ),
    Group(
        "request_chunk",
        request_size.CHUNK_SOURCES,
        request_size.CHUNK_FAMILIES,
        request_size.chunk_step,
        request_size.ChunkState(),
    ),
    Group(
        "alignment",
        request_size.ALIGNMENT_SOURCES,
        request_size.ALIGNMENT_FAMILIES,
        request_size.alignment_step,
    ),
    Group(
        "host_queue",
        queue_depth.HOST_SOURCES,
        queue_depth.HOST_FAMILIES,
        queue_depth.host_step,
    ),
    Group(
        "starvation",
        queue_depth.STARVED_SOURCES,
        queue_depth.STARVED_FAMILIES,
        queue_depth.starved_step,
        queue_depth.EMPTY,
        queue_depth.remember,
        queue_depth.recall,
    ),
    Group("scheduler", scheduler.SOURCES, scheduler.FAMILIES, scheduler.step),
    Group(
        "fullness",
        ("filesystem",),
        fullness.FAMILIES,
        fullness.step,
        fullness.FullnessState(),
        fullness.remember,
        fullness.recall,
    ),
    Group(
        "mount_state",
        ("mounts",),
        mount_state.FAMILIES,
        mount_state.step,
        mount_state.MountState(),
        mount_state.remember,
        mount_state.recall,
    ),
    Group(
        "ext4_errors",
        ("ext4",),
        filesystem_errors.EXT4_FAMILIES,
        filesystem_errors.ext4_step,
        baseline.EMPTY,
        baseline.remember,
        baseline.recall,
    ),
    Group(
        "btrfs_errors",
        ("btrfs",),
        filesystem_errors.BTRFS_FAMILIES,
        filesystem_errors.btrfs_step,
        baseline.EMPTY,
        baseline.remember,
        baseline.recall,
    ),
    Group(
        "md_state",
        ("md",),
        md_state.FAMILIES,
        md_state.step,
        baseline.EMPTY,
        baseline.remember,
        baseline.recall,
    ),
    Group(
        "device_change",
        ("block",),
        device_state.CHANGE_FAMILIES,
        device_state.change_step,
        baseline.EMPTY,
        device_state.change_remember,
        baseline.recall,
    ),
    Group(
        "suspended",
        ("dm",),
        suspended.FAMILIES,
        suspended.step,
        suspended.EMPTY,
        Held.remember,
        suspended.recall,
    ),
    Group(
        "multipath",
        ("block", "scsi"),
        multipath.FAMILIES,
        multipath.step,
        baseline.EMPTY,
        baseline.remember,
        baseline.recall,
    ),
    Group("waiters", ("tasks",), waiters.FAMILIES, waiters.step, waiters.EMPTY),
    Group(
        "bdi_throttle",
        ("tasks", "vmstat", "meminfo", "vm_sysctl"),
        bdi_throttle.FAMILIES,
        bdi_throttle.step,
        bdi_throttle.EMPTY,
    ),
    Group(
        "scsi_state",
        ("scsi",),
        device_state.SCSI_FAMILIES,
        device_state.scsi_step,
        baseline.EMPTY,
        device_state.scsi_remember,
        device_state.scsi_recall,
    ),
    Group(
        "smart",
        ("smart",),
        smart.FAMILIES,
        smart.step,
        smart.EMPTY,
        smart.remember,
        smart.recall,
        smart.unread,
    ),
    Group(
        "controller_state",
        ("controllers",),
        controller_state.FAMILIES,
        controller_state.step,
        baseline.EMPTY,
        baseline.remember,
        baseline.recall,
    ),
    Group(
        "disk_cover",
        disk_cover.SOURCES,
        disk_cover.FAMILIES,
        disk_cover.step,
        disk_cover.EMPTY,
        disk_cover.remember,
        disk_cover.recall,
    ),
)
"""In the order they are stepped. The first ones share a history and are stepped together."""


@dataclass(frozen=True, slots=True)
class State:
    """The states of all reducers."""

    writeback: writeback.WritebackState = field(default_factory=writeback.WritebackState)
    device: device.DeviceState = device.EMPTY
    leaves: leaves.LeafHistory = field(default_factory=leaves.LeafHistory)
    usual: bandwidth.UsualState = field(default_factory=lambda: bandwidth.UsualState({}))
    forecasts: bandwidth.Forecasts = ()
    lull: lull.LullState = lull.EMPTY
    blocked: blocked.BlockedState = field(default_factory=blocked.BlockedState)
    groups: Mapping[str, Any] = field(
        default_factory=lambda: {g.name: g.initial for g in GROUPS if g.step is not None}
    )
    """Of the groups that have a step of their own."""
    told: Mapping[str, list[Sample]] = field(default_factory=dict)
    """What the slow groups last said."""
    kinds_of: tuple[Any, ...] = ()
    """What the kinds of devices were concluded from."""
    asleep_seconds: float = 0.0

    def of(self, group: str) -> Any:  # noqa: ANN401 - each group has its own
        """Return the state of a group, also of one that is stepped with others."""
        return {"device": self.device, "lull": self.lull}.get(group) or self.groups[group]


@dataclass(frozen=True, slots=True)
class Memory:
    """What signals keep over a restart: what is usual takes long to learn."""

    bandwidths: dict[str, tuple[float, ...]] = field(default_factory=dict)
    best_rates: dict[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    groups: dict[str, dict[str, Pairs]] = field(default_factory=dict)
    """By group and object."""


def remember(state: State) -> Memory:
    """Return what is worth keeping of the states."""
    groups = {g.name: dict(g.remember(state.of(g.name))) for g in GROUPS if g.remember is not None}
    return Memory(dict(state.usual.windows), dict(state.lull.best), groups)


def recall(state: State, memory: Memory) -> State:
    """Return the states with what was kept added to what is known by now."""
    usual = replace(state.usual, windows={**memory.bandwidths, **state.usual.windows})
    known = state.lull.best
    best = {
        name: tuple(sorted({*memory.best_rates.get(name, ()), *known.get(name, ())}))
        for name in {**memory.best_rates, **known}
    }
    recalled = {
        g.name: g.recall(state.of(g.name), memory.groups[g.name])
        for g in GROUPS
        if g.recall is not None and g.name in memory.groups
    }
    return replace(
        state,
        usual=usual,
        device=recalled.pop("device", state.device),
        lull=replace(recalled.pop("lull", state.lull), best=best),
        groups={**state.groups, **recalled},
    )


@dataclass(frozen=True, slots=True)
class Derived:
    """What follows from the topology alone; made anew when it changes."""

    leaves: tuple[str, ...]
    amplification: Mapping[str, float]
    topology: Topology


def derive(topology: Topology) -> Derived:
    """Return what the signals need of a topology."""
    return Derived(
        topology.leaves,
        leaves.amplifications(topology),
        topology,
    )


def step(
    state: State, inputs: Inputs, derived: Derived | None, slow: frozenset[str] = frozenset()
) -> tuple[State, dict[str, list[Sample]]]:
    """Return the states after this second and the samples of every group that could be computed.

    `slow` are the groups whose sources are all read seldom. A group with a failed source is not
    stepped and not in the result: its last values may be held, and nothing is concluded from a
    second nobody saw.
    """
    state, result = _step_shared(state, inputs, derived)
    states = dict(state.groups)
    told = {**state.told, **result}
    for group in GROUPS:
        if group.step is None or not inputs.failed.isdisjoint(group.sources):
            continue
        if group.name in slow and inputs.fresh.isdisjoint(group.sources):
            continue
        view = View(inputs, derived, state.leaves, told)
        states[group.name], samples = group.step(states[group.name], view)
        if samples is not None:
            result[group.name] = told[group.name] = samples
    kept = {name: samples for name, samples in told.items() if name in slow}
    return replace(state, groups=states, told=kept), result


def _step_shared(
    state: State, inputs: Inputs, derived: Derived | None
) -> tuple[State, dict[str, list[Sample]]]:
    """Step the groups that share the leaves' history and the writeback limits."""
    now = inputs.now_seconds
    values = inputs.values
    vmstat, meminfo, stat = values.get("vmstat"), values.get("meminfo"), values.get("stat")
    result: dict[str, list[Sample]] = {}
    held: writeback.Writeback | None = None
    if inputs.asleep_seconds - state.asleep_seconds > SUSPENDED_SECONDS:
        state = replace(state, device=device.woken(state.device))
    stepped = state = replace(state, asleep_seconds=inputs.asleep_seconds)
    if _usable("writeback", inputs):
        level = limits.level_bytes(vmstat, meminfo)
        bounds = limits.dirty_limits(vmstat, meminfo, values.get("vm_sysctl"))
        if level is not None and bounds is not None and bounds.threshold_bytes > 0:
            writeback_state, held = writeback.step(state.writeback, now, level, bounds)
            stepped = replace(stepped, writeback=writeback_state)
            result["writeback"] = writeback.emit(held, ())
    if stat is not None:
        blocked_state, samples = blocked.step(state.blocked, now, stat.procs_blocked)
        stepped = replace(stepped, blocked=blocked_state)
        result["blocked"] = [*samples, (UPTIME.name, (), inputs.uptime_seconds)]
    blocks = values.get("diskstats")
    if blocks is None or derived is None or not _usable("device", inputs):
        return stepped, result
    # What cannot be read now, mostly because of the very stall, is what it was.
    before = state.kinds_of[1:] or (None, None, None)
    read_now = (values.get("scsi"), values.get("dm"), values.get("mounts"))
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
