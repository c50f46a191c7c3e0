"""Who waits for storage, on which device, and because of whom: the signal of harm.

Each poll at the blocked tasks is compared with the one before (waits.py), each device's waits are
divided into victims and causes (harm.py), and what the victims suffer becomes freezes (freezes.py).
Alerts about blocked programs compare these series; texts read the state.
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.collectors.procfs.process_io import increases, thread_increases
from iowarden.collectors.procfs.stat import USER_HZ
from iowarden.rules.signals.activity import members
from iowarden.rules.signals.device import device, hang_thresholds
from iowarden.rules.signals.signal import DIGITS, SignalGroup
from iowarden.rules.signals.waits.freeze_cause import DeviceFacts, FreezeCause, freeze_cause
from iowarden.rules.signals.waits.freezes import (
    COUNTED_SECONDS,
    NO_FREEZES,
    DeviceFreezes,
    next_freezes,
    restored,
    stored,
)
from iowarden.rules.signals.waits.harm import (
    CAUSE_RATIO,
    NO_LOAD,
    Harm,
    Load,
    ProcessLoad,
    followed,
    harm,
)
from iowarden.rules.signals.waits.waits import NO_POLLS, Polls, about_storage, next_polls
from iowarden.rules.signals.writeback import no_progress, waiters, writeback
from iowarden.rules.signals.writeback.limits import FREERUN_KERNEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.block.diskstats import BlockIo
    from iowarden.collectors.procfs.process_io import Sweep
    from iowarden.rules.signals.signal import Pairs, View
    from iowarden.rules.signals.waits.waits import Wait

MAX_SWEEPS = 3
MOVED_INTERVAL_SECONDS, MAX_MOVED_SECONDS = 2.0, 180.0
"""For so long what the devices moved is remembered, to compare it with a task's own bytes."""
HOST = ""
"""The device of a wait whose file is on no device that is known."""
BUCKETS_SECONDS = (4.0, 10.0, 12.0, 20.0, 30.0, 60.0, 120.0, math.inf)

_SECONDS, _VICTIMS = "iowarden_freeze_seconds", "iowarden_freeze_victims"
_HANG, _SLOW = "iowarden_device_hang_seconds", "iowarden_device_slow_seconds"
_STARVED = "iowarden_device_queue_starved"
_SUSPENDED = "iowarden_device_mapper_suspended_seconds"
_BANDWIDTH = "iowarden_writeback_bandwidth_bytes_per_second"
HANG_SECONDS = 5.0
BOOT_SECONDS = 120.0
RECENT_SECONDS = 300.0
"""What a program wrote earlier than that filled another backlog."""
FROZEN_SECONDS = 30.0
"""A snapshot freezes a file system, or suspends a device, for seconds on purpose."""
LAPTOP_SECONDS = 30.0
"""In laptop mode a disk is spun down between its writes, and has to spin up first."""
_LEVEL, _TIMES = "iowarden_freeze_level", "iowarden_freeze_reported_times"
_CAUSE = "iowarden_freeze_cause"
_HISTOGRAM = "iowarden_storage_wait_seconds"
_SEEN = "iowarden_storage_waits_seen"
SEEN_SECONDS = 30.0
"""A writer is not blocked at each poll."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What each device has read and written since its start, at one moment."""

    at_seconds: float
    bytes_by_device: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class SweepMoment:
    """A sweep of all processes, and what the devices had moved at that moment."""

    sweep: Sweep
    moved: Moved


@dataclass(frozen=True, slots=True)
class HarmState:
    """What the polls and sweeps up to now have shown."""

    polls: Polls = NO_POLLS
    blocked_since_seconds: float | None = None
    """Since when '/proc/stat' counts a blocked task without a break."""
    poll_boot_seconds: float = 0.0
    """The host's uptime at the last poll."""
    sweeps: tuple[SweepMoment, ...] = ()
    moved: tuple[Moved, ...] = ()
    harms: Mapping[str, Harm] = field(default_factory=dict)
    """By device."""
    devices: Mapping[str, DeviceFreezes] = field(default_factory=dict)
    last_harms: Mapping[str, tuple[float, Harm]] = field(default_factory=dict)
    """By device with an open series: the last poll that saw victims, and when."""
    causes: Mapping[str, FreezeCause] = field(default_factory=dict)
    """By device, of the last poll that saw victims in its present series."""
    ended_waits: tuple[int, ...] = (0,) * len(BUCKETS_SECONDS)
    """Ended waits of victims, cumulative by upper limit of their length."""
    seen_seconds: float = -math.inf
    """When a poll last saw, with its system call, a task that waits for storage."""
    ended_seconds: float = 0.0
    """Their sum."""

    def is_seen(self, now: float) -> bool:
        """Whether it is known who waits: a poll saw it lately, with the system call."""
        return now - self.seen_seconds <= SEEN_SECONDS

    @property
    def is_followed(self) -> bool:
        """Whether the last poll saw a wait for storage go on."""
        return any(wait.min_seconds > 0.0 for wait in about_storage(self.polls))


NOTHING = HarmState()


def _step(state: HarmState, view: View) -> tuple[HarmState, list[Sample] | None]:
    inputs = view.inputs
    now, snapshot = inputs.now_seconds, inputs.snapshot
    if snapshot.stat is not None:
        since = state.blocked_since_seconds
        blocked = snapshot.stat.procs_blocked > 0
        since = (now if since is None else since) if blocked else None
        state = replace(state, blocked_since_seconds=since)
    if snapshot.diskstats is not None:
        state = replace(state, moved=_next_moved(state, snapshot.diskstats, now))
    sweep, blocks = snapshot.io_sweep, snapshot.diskstats
    if sweep is not None and blocks is not None and _is_new(sweep, state):
        moment = SweepMoment(sweep, _moved(blocks, now))
        state = replace(state, sweeps=(*state.sweeps, moment)[-MAX_SWEEPS:])
    tasks = snapshot.tasks
    if tasks is None or "tasks" not in inputs.fresh or view.derived is None:
        return state, None
    if tasks.boot_seconds and tasks.boot_seconds == state.poll_boot_seconds:
        return state, samples(state)  # a recording returns one poll until the next
    state = replace(state, poll_boot_seconds=tasks.boot_seconds)
    if tasks.unseen:
        return replace(state, polls=NO_POLLS, harms={}), _histogram(state)
    state = _polled(state, view, view.derived.topology)
    return state, samples(state)


def _is_new(sweep: Sweep, state: HarmState) -> bool:
    last = state.sweeps[-1].sweep.boot_seconds if state.sweeps else 0.0
    return sweep.boot_seconds > last


def _next_moved(state: HarmState, blocks: Mapping[str, BlockIo], now: float) -> tuple[Moved, ...]:
    """Return what the devices moved, each few seconds while tasks wait; a quiet host costs none."""
    recent = tuple(one for one in state.moved if now - one.at_seconds <= MAX_MOVED_SECONDS)
    if state.blocked_since_seconds is None and not state.polls.waits:
        return recent
    if recent and now - recent[-1].at_seconds < MOVED_INTERVAL_SECONDS:
        return recent
    return (*recent, _moved(blocks, now))


def _moved(blocks: Mapping[str, BlockIo], now: float) -> Moved:
    return Moved(
        now,
        {
            name: (block.read_bytes_total, block.written_bytes_total)
            for name, block in blocks.items()
        },
    )


def _polled(state: HarmState, view: View, topology: Topology) -> HarmState:
    """Return the state after a poll at the blocked tasks."""
    now = view.inputs.now_seconds
    seen = view.inputs.snapshot.tasks
    assert seen is not None  # noqa: S101 - `_step` returned
    trigger = state.blocked_since_seconds
    previous_poll = state.polls.last_seconds
    polls, ended = next_polls(
        state.polls,
        seen.tasks,
        now,
        trigger_seconds=now if trigger is None else trigger,
        legacy_queued_ratio=_legacy_queued_ratio(view),
    )
    if not seen.tasks and not seen.boot_seconds:
        polls = NO_POLLS  # nothing gave reason to poll: a wait of later on began at its trigger
    if any(wait.task.system_call for wait in about_storage(polls)):
        state = replace(state, seen_seconds=now)
    waits = _waits_by_device(about_storage(polls), state, topology)
    harms = {
        name: _harm(name, on_device, state, topology, view) for name, on_device in waits.items()
    }
    present = {
        name: freeze_cause(
            (victim.wait.task for victim in followed(on_device.victims)),
            _facts(name, view, topology),
        )
        for name, on_device in harms.items()
        # Else a wait of this second would hide who was blocked for long.
        if any(victim.max_seconds >= COUNTED_SECONDS for victim in on_device.victims)
    }
    devices = {}
    for name in {*harms, *state.devices}:
        after = next_freezes(
            state.devices.get(name, NO_FREEZES),
            harms.get(name, Harm()),
            now,
            previous_poll_seconds=now if previous_poll is None else previous_poll,
            min_seconds=_min_seconds(name, present.get(name), view, topology),
        )
        if after != NO_FREEZES:
            devices[name] = after
    known = {**state.causes, **present}
    last = {**state.last_harms, **{name: (now, harms[name]) for name in present}}
    lengths = _victims_lengths(state, ended)
    return replace(
        state,
        polls=polls,
        harms=harms,
        devices=devices,
        last_harms={name: seen for name, seen in last.items() if name in devices},
        causes={name: cause for name, cause in known.items() if name in devices},
        ended_waits=tuple(
            count + sum(length <= limit for length in lengths)
            for count, limit in zip(state.ended_waits, BUCKETS_SECONDS, strict=True)
        ),
        ended_seconds=state.ended_seconds + sum(lengths),
    )


def _legacy_queued_ratio(view: View) -> float | None:
    """Return unwritten data as a share of the dirty limit, on a kernel before 3.2."""
    unwritten, sysctl = writeback.seen(view), view.inputs.snapshot.vm_sysctl
    if unwritten is None or sysctl is None or sysctl.kernel >= FREERUN_KERNEL:
        return None
    return unwritten.queued_ratio


def _waits_by_device(
    waits: Iterable[Wait], state: HarmState, topology: Topology
) -> dict[str, list[Wait]]:
    """Return the waits of each device.

    An open or a rename waits without a file that is known; where tasks wait for one device only,
    it waits for that one: the holder of the lock behind it waits for the device itself.
    """
    by_device: dict[str, list[Wait]] = {}
    for wait in waits:
        by_device.setdefault(device_of(wait, topology), []).append(wait)
    known = {name for name in by_device if name != HOST}
    if not known:
        known = {name for name, freezes in state.devices.items() if name and freezes.series}
    if len(known) == 1 and HOST in by_device:
        by_device.setdefault(next(iter(known)), []).extend(by_device.pop(HOST))
    return by_device


def device_of(wait: Wait, topology: Topology) -> str:
    """Return the whole device of a wait's file, the server of a network mount, or HOST."""
    if not wait.task.waits_at:
        return HOST
    whole = topology.whole(wait.task.waits_at)
    return wait.task.waits_at if whole is None else whole.name


def _harm(name: str, waits: list[Wait], state: HarmState, topology: Topology, view: View) -> Harm:
    """Return who is harmed on a device, with the load of the leaf devices below it."""
    leaves = _leaves(name, topology)
    oldest = min(wait.not_before_seconds for wait in waits)
    before = next((one for one in state.moved if one.at_seconds >= oldest), None)
    completed = speed = 0.0
    if before is not None and state.moved[-1].at_seconds > before.at_seconds:
        completed = float(sum(_difference(before, state.moved[-1], leaves)))
        written = _difference(before, state.moved[-1], leaves)[1]
        speed = written / (state.moved[-1].at_seconds - before.at_seconds)
    best = no_progress.GROUP.state(view.states).best
    rates = [max((rate for _, rate in best[leaf]), default=0.0) for leaf in leaves & best.keys()]
    return harm(waits, _load(state, leaves, waits, view), completed, speed, sum(rates))


def _leaves(name: str, topology: Topology) -> frozenset[str]:
    below = {*members(topology, name), name} if name in topology.devices else set()
    leaves = below.intersection(topology.leaves)
    return frozenset(leaves or topology.leaves)


def _difference(before: Moved, after: Moved, devices: frozenset[str]) -> tuple[int, int]:
    """Return the bytes that devices read and wrote between two moments."""
    read = written = 0
    for name in devices:
        earlier, later = before.bytes_by_device.get(name), after.bytes_by_device.get(name)
        if earlier is not None and later is not None:
            read += max(later[0] - earlier[0], 0)
            written += max(later[1] - earlier[1], 0)
    return read, written


def _probable_load(waits: list[Wait], sweeps: tuple[SweepMoment, ...], view: View) -> Load:
    """Return what programs have probably written of what is queued.

    Without two sweeps there are only their bytes since their start: at their mean rate, those of
    the last minutes. A program that was paused for its writing is one that fills the queue.
    """
    unwritten = writeback.seen(view)
    if unwritten is None:
        return NO_LOAD
    queued = int(unwritten.queued_bytes)
    paused = waiters.GROUP.state(view.states).writers
    uptime = view.inputs.uptime_seconds
    processes: dict[int, ProcessLoad] = {
        one.pid: ProcessLoad(
            one.pid, one.command, one.unit, 0, _recent(one.write_bytes, one.start_ticks, uptime)
        )
        for moment in sweeps
        for one in moment.sweep.processes
    }
    for wait in waits:
        task = wait.task
        written = _recent(task.write_bytes or 0, task.start_ticks, uptime)
        pid = task.process or task.pid
        if pid in paused:
            written = max(written, int(queued * CAUSE_RATIO) + 1)
        processes[pid] = ProcessLoad(pid, task.command, task.unit, 0, written)
    return Load(1.0, tuple(processes.values()), 0, queued, is_certain=False)


def _recent(written_bytes: int, start_ticks: int, uptime_seconds: float) -> int:
    age = max(uptime_seconds - start_ticks / USER_HZ, 1.0)
    return int(written_bytes * min(1.0, RECENT_SECONDS / age))


def _load(state: HarmState, leaves: frozenset[str], waits: list[Wait], view: View) -> Load:
    """Return what processes and devices moved between the first and the last sweep."""
    if len(state.sweeps) < 2:
        return _probable_load(waits, state.sweeps, view)
    first, last = state.sweeps[0], state.sweeps[-1]
    read, written = _difference(first.moved, last.moved, leaves)
    threads = thread_increases(first.sweep, last.sweep)
    processes = tuple(
        ProcessLoad(
            one.pid, one.command, one.unit, one.read_bytes, one.write_bytes, threads.get(one.pid)
        )
        for one in increases(first.sweep, last.sweep)
    )
    seconds = last.moved.at_seconds - first.moved.at_seconds
    return Load(seconds, processes, read, written)


def _facts(name: str, view: View, topology: Topology) -> DeviceFacts:
    """Return what the other signals of this second show of a device and of those below it."""
    below = {name, *(_leaves(name, topology) if name in topology.devices else ())}
    stack = {name, *(members(topology, name) if name in topology.devices else ())}
    unwritten = writeback.seen(view)
    values = {
        (metric, dict(labels).get("device")): value
        for group in ("device", "slow", "starvation", "suspended", "bandwidth")
        for metric, labels, value in view.earlier.get(group, ())
    }
    return DeviceFacts(
        is_hanging=any(values.get((_HANG, one), 0.0) >= HANG_SECONDS for one in below | {name}),
        is_slow=any(values.get((_SLOW, one), 0.0) > 0 for one in below),
        is_starved=any(values.get((_STARVED, one), 0.0) > 0 for one in below),
        is_suspended=any((_SUSPENDED, one) in values for one in stack),
        queued_bytes=0.0 if unwritten is None else unwritten.queued_bytes,
        write_bytes_per_second=values.get((_BANDWIDTH, None)),
    )


def _min_seconds(name: str, cause: FreezeCause | None, view: View, topology: Topology) -> float:
    """Return the threshold of the guards of a device, 0 for an ordinary disk."""
    if view.inputs.uptime_seconds < BOOT_SECONDS:
        return math.inf  # sixty services that start at once wait for each other's reads
    limits = device.GROUP.state(view.states).device.kinds.limits
    below = _leaves(name, topology) if name in topology.devices else frozenset({name})
    seconds = [limits[one].warning_seconds or 0.0 for one in {name, *below} if one in limits]
    sysctl = view.inputs.snapshot.vm_sysctl
    if sysctl is not None and sysctl.laptop_mode:
        seconds.append(LAPTOP_SECONDS)
    if cause is FreezeCause.FROZEN:
        seconds.append(FROZEN_SECONDS)
    longest = max(seconds, default=0.0)
    return longest if longest > hang_thresholds.WARNING_SECONDS else 0.0


def _victims_lengths(state: HarmState, ended: tuple[Wait, ...]) -> list[float]:
    """Return the lower bounds of the ended waits of victims."""
    victims = {
        (victim.wait.task.pid, victim.wait.first_seconds)
        for on_device in state.harms.values()
        for victim in on_device.victims
    }
    return [
        wait.min_seconds
        for wait in ended
        if (wait.task.pid, wait.first_seconds) in victims and wait.min_seconds >= COUNTED_SECONDS
    ]


def samples(state: HarmState) -> list[Sample]:
    """Return the series of every device with an open series of freezes, and the histogram."""
    result: list[Sample] = []
    for name, freezes in sorted(state.devices.items()):
        if freezes.series is None:
            continue
        victims = state.harms[name].victims if name in state.harms else ()
        longest = max((victim.min_seconds for victim in victims), default=0.0)
        labels = (("device", name),)
        result += [
            (_SECONDS, labels, round(longest, DIGITS)),
            (_VICTIMS, labels, float(len(victims))),
            (_LEVEL, labels, float(freezes.series.level)),
            (_TIMES, labels, float(freezes.series.reported_times)),
            (_CAUSE, (*labels, ("cause", state.causes.get(name, FreezeCause.UNKNOWN).value)), 1.0),
        ]
    return result + _histogram(state)


def _histogram(state: HarmState) -> list[Sample]:
    """Return how many waits have ended since the start; a restart resets them, as a counter."""
    result: list[Sample] = [
        (f"{_HISTOGRAM}_bucket", (("le", _limit_text(limit)),), float(count))
        for limit, count in zip(BUCKETS_SECONDS, state.ended_waits, strict=True)
    ]
    result.append((f"{_HISTOGRAM}_count", (), float(state.ended_waits[-1])))
    result.append((f"{_HISTOGRAM}_sum", (), round(state.ended_seconds, DIGITS)))
    return result


def _limit_text(limit: float) -> str:
    return "+Inf" if limit == math.inf else f"{limit:g}"


def remember(state: HarmState) -> dict[str, Pairs]:
    """Return the open series of freezes, by device."""
    return {
        name: stored(freezes.series)
        for name, freezes in state.devices.items()
        if freezes.series is not None
    }


def recall(state: HarmState, pairs_by_device: Mapping[str, Pairs]) -> HarmState:
    """Return the state with the series of before the restart, which go on."""
    before = {name: restored(pairs) for name, pairs in pairs_by_device.items()}
    series = {name: one for name, one in before.items() if one is not None}
    return replace(
        state,
        devices={
            **{name: DeviceFreezes(one) for name, one in series.items()},
            **state.devices,
        },
    )


def _seen_step(state: None, view: View) -> tuple[None, list[Sample]]:
    """Return whether it is known who waits; it is not where the polls fail."""
    is_seen = GROUP.state(view.states).is_seen(view.inputs.now_seconds)
    return state, [(_SEEN, (), float(is_seen))]


GROUP: SignalGroup[HarmState] = SignalGroup(
    name="waits",
    sources=("tasks",),
    families=(
        Family(
            _SECONDS,
            "gauge",
            "How long at least a program that is not the cause has been waiting for this device in"
            " one system call; 0 between two freezes of a series.",
        ),
        Family(_VICTIMS, "gauge", "Tasks that wait for this device and are not the cause."),
        Family(
            _LEVEL,
            "gauge",
            "How bad the freezes of this device have been since their series began: 1 counted"
            " only, 2 warning, 3 critical.",
        ),
        Family(
            _TIMES,
            "gauge",
            "Freezes of this device since their series began, in steps: 1, 3, 10, 30, 100 ...",
        ),
        Family(_CAUSE, "gauge", "1 with the cause of the freezes of this device as a label."),
        Family(
            _HISTOGRAM,
            "histogram",
            "Waits for storage of programs that are not the cause, by length: 4 s and longer,"
            " after they ended.",
        ),
    ),
    step=_step,
    initial=NOTHING,
    remember=remember,
    recall=recall,
)

SEEN_GROUP: SignalGroup[None] = SignalGroup(
    name="waits_seen",
    sources=("stat",),
    families=(
        Family(
            _SEEN,
            "gauge",
            "1 if a task that waits for storage was seen in the last 30 s, with its system call; 0"
            " also while it cannot be seen who waits.",
        ),
    ),
    step=_seen_step,
    initial=None,
)
"""Does not depend on the polls: where they fail, alerts about devices take over."""
