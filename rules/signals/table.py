"""Table of all signals in the order of evaluation: to add a signal, add a line to GROUPS."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.signals import activity
from iowarden.rules.signals.device import (
    device,
    device_state,
    hung,
    multipath,
    path_groups,
    slow,
    suspended,
)
from iowarden.rules.signals.filesystem import (
    backups,
    filesystem_errors,
    fullness,
    mount_state,
    pool_fullness,
    zfs_fullness,
)
from iowarden.rules.signals.leaves import amplifications
from iowarden.rules.signals.memory import defaults, reclaim, swap
from iowarden.rules.signals.queue import (
    at_limit,
    phantom_reads,
    queue_depth,
    read_ahead,
    request_size,
    scheduler,
)
from iowarden.rules.signals.raid import controller_state, md_state, redundancy, zfs_scrub
from iowarden.rules.signals.signal import Derived, Inputs, Pairs, SignalGroup, View
from iowarden.rules.signals.smart import disk_monitoring, smart
from iowarden.rules.signals.waits import group as waits
from iowarden.rules.signals.waits import guard_facts, unrequested_reads
from iowarden.rules.signals.writeback import (
    bandwidth,
    blocked,
    no_progress,
    waiters,
    writeback,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.model import Sample

GROUPS: tuple[SignalGroup[Any], ...] = (
    writeback.GROUP,
    device.GROUP,
    bandwidth.GROUP,
    no_progress.GROUP,
    blocked.GROUP,
    reclaim.STALL_GROUP,
    reclaim.DIRECT_GROUP,
    swap.GROUP,
    hung.TASK_GROUP,
    hung.TIMEOUT_GROUP,
    defaults.GROUP,
    activity.GROUP,
    at_limit.GROUP,
    phantom_reads.GROUP,
    read_ahead.GROUP,
    request_size.SPLIT_GROUP,
    request_size.CHUNK_GROUP,
    request_size.ALIGNMENT_GROUP,
    queue_depth.HOST_GROUP,
    queue_depth.STARVED_GROUP,
    slow.GROUP,
    scheduler.GROUP,
    fullness.GROUP,
    pool_fullness.GROUP,
    pool_fullness.INCREASE_GROUP,
    zfs_fullness.GROUP,
    backups.GROUP,
    mount_state.GROUP,
    filesystem_errors.EXT4_GROUP,
    filesystem_errors.BTRFS_GROUP,
    md_state.GROUP,
    zfs_scrub.GROUP,
    device_state.CHANGE_GROUP,
    suspended.GROUP,
    multipath.GROUP,
    path_groups.GROUP,
    waiters.GROUP,
    waits.GROUP,
    waits.SEEN_GROUP,
    guard_facts.GROUP,
    unrequested_reads.GROUP,
    device_state.SCSI_GROUP,
    smart.GROUP,
    controller_state.GROUP,
    redundancy.GROUP,
    disk_monitoring.GROUP,
)
"""A group that uses the state of another one comes after it."""


def _initial() -> dict[str, Any]:
    return {group.name: group.initial for group in GROUPS}


@dataclass(frozen=True, slots=True)
class SignalStates:
    """The states of all groups."""

    groups: Mapping[str, Any] = field(default_factory=_initial)
    slow_samples: Mapping[str, list[Sample]] = field(default_factory=dict)
    """The last samples of the slow groups."""


@dataclass(frozen=True, slots=True)
class PersistentSignals:
    """What signals store over a restart, because usual values take long to learn.

    The rates of `bandwidth` and `no_progress` are not pairs and are stored under their own names.
    """

    bandwidths: dict[str, tuple[float, ...]] = field(default_factory=dict)
    best_rates: dict[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    groups: dict[str, dict[str, Pairs]] = field(default_factory=dict)
    """By group and object."""


def remember(state: SignalStates) -> PersistentSignals:
    """Return what is stored of the states."""
    groups = {
        g.name: dict(g.remember(g.state(state.groups))) for g in GROUPS if g.remember is not None
    }
    usual = bandwidth.GROUP.state(state.groups).usual
    return PersistentSignals(
        dict(usual.windows), dict(no_progress.GROUP.state(state.groups).best), groups
    )


def recall(state: SignalStates, memory: PersistentSignals) -> SignalStates:
    """Return the states combined with what was stored before the restart."""
    groups = {
        g.name: g.recall(g.state(state.groups), memory.groups[g.name])
        if g.recall is not None and g.name in memory.groups
        else g.state(state.groups)
        for g in GROUPS
    }
    groups["bandwidth"] = bandwidth.recall_usual(groups["bandwidth"], memory.bandwidths)
    groups["no_progress"] = no_progress.recall_best(groups["no_progress"], memory.best_rates)
    return replace(state, groups=groups)


def derive(topology: Topology) -> Derived:
    """Return what the signals use of a topology."""
    return Derived(topology.leaves, amplifications(topology), topology)


def step_all(
    state: SignalStates, inputs: Inputs, derived: Derived | None, slow: frozenset[str] = frozenset()
) -> tuple[SignalStates, dict[str, list[Sample]]]:
    """Return the states after this second and the samples of every group that could be computed.

    `slow`: groups whose data sources are all polled rarely. A group with a failed data source is
    not stepped and not in the result: its last values may stay valid for a while, and nothing is
    concluded from a second without observation.
    """
    states = dict(state.groups)
    told = dict(state.slow_samples)
    result: dict[str, list[Sample]] = {}
    view = View(inputs, derived, told, states)
    for group in GROUPS:
        failed = inputs.failed and not inputs.failed.isdisjoint(group.sources)
        if failed and not group.any_source:
            continue
        if group.name in slow and inputs.fresh.isdisjoint(group.sources):
            continue
        states[group.name], samples = group.step(states[group.name], view)
        if samples is not None:
            result[group.name] = told[group.name] = samples
    kept = {name: samples for name, samples in told.items() if name in slow}
    return SignalStates(states, kept), result
