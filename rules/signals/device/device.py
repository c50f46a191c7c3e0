"""Device hang: a device has requests in flight and completes none.

Only completions distinguish a hung device from a busy one: io_ticks, weighted time and pressure
are constant or rise in both cases. A late sample is valid: totals that have not changed prove the
stall, also over a time without samples. Source of the counters: kernel, admin-guide/iostats.rst.
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals import discards, guards, in_flight, leaves
from iowarden.rules.signals.device import hang_thresholds, waiting_tasks
from iowarden.rules.signals.guards import MEANINGS, Guard
from iowarden.rules.signals.signal import DIGITS, GAP_SECONDS, SignalGroup
from iowarden.rules.topology import device_changes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.block.diskstats import BlockIo
    from iowarden.collectors.block.scsi import ScsiHost, ScsiTopology
    from iowarden.collectors.filesystem.mountinfo import Mounts
    from iowarden.rules.signals.device.hang_thresholds import HangThresholds, WatchedKinds
    from iowarden.rules.signals.device.waiting_tasks import WaitingTasks
    from iowarden.rules.signals.in_flight import Counted
    from iowarden.rules.signals.leaves import LeafHistory
    from iowarden.rules.signals.signal import Derived, Pairs, View

THRESHOLD = "iowarden_device_hang_threshold_seconds"
IDLE_SECONDS = 20.0
"""A spinning disk without a completion for so long may be asleep (spun down)."""
SPIN_UP_SECONDS = MEANINGS[Guard.SPINNING_UP].min_seconds
"""Assumed spin-up time until the disk's own times are known."""
WAKE_MARGIN_SECONDS = 5.0
WAKE_SECONDS = (2.0, 60.0)
"""A shorter delay is no wake-up, and a longer one is no reply of a sleeping disk."""
DISCARD_ALONE_SECONDS = 3600.0
"""A disk that died under a discard that no program waits for is reported as well."""
DISCARD_CRITICAL_SECONDS = 180.0
PAUSING_RATIO = 0.5
"""From this share of the time between two samples on, one of the discards was a long one, or they
followed each other without a break, as those of fstrim."""
DISCARDED_SECONDS = 10.0
"""A disk that has completed discards so lately is one on which a program discards."""
PROOF_SECONDS = 2.0
"""After a gap, a further sample at least so much later must find the totals unchanged."""
NO_COMMANDS_KERNEL = (5, 19, 0)
"""Earlier ones count commands that a program sends to a drive (SG_IO) as requests in flight; later
ones only with 'iostats_passthrough' (6.13). Source: kernel, block/blk-mq.c, blk_mq_check_inflight;
block/blk-exec.c, blk_execute_rq_nowait."""
_EARLY_SECONDS = 0.5
SUSPENDED_SECONDS = 1.0
"""CLOCK_BOOTTIME gains so much on CLOCK_MONOTONIC only while the host is suspended."""
_MILLISECOND = 0.001
PAIRS = 5
"""Number of pairs stored of a device."""


@dataclass(frozen=True, slots=True)
class DeviceProgress:
    """One device's completions. Units: seconds of the program's clock."""

    completed_total: int
    stalled_since_seconds: float | None = None
    completed_at_seconds: float | None = None
    """The last observed completion; None until there is one."""
    asleep: bool = True
    """Whether the disk may have been asleep (spun down) when the current stall began."""
    discard_milliseconds: int = 0
    """Total time of all discards since boot."""
    discarded_at_seconds: float | None = None
    """When discards last took a large part of the time."""
    discarding: bool = False
    """Whether the queue held discards when the current stall began."""
    discarder_at_seconds: float | None = None
    """The last poll that showed a task which waits for a discard of it."""
    wakes: tuple[float, float] = (0.0, 0.0)
    """The two longest wake-ups observed; 0: none."""
    writer_only: bool = False
    """Whether no program waits for it but those that fill it."""
    discarder_only: bool = False
    """Whether no task waits for it but those that discard."""
    discards_in_flight: int | None = None
    """How many requests when a poll first showed that in this stall; None: none did."""
    from_before: bool = False
    """Whether all that is in flight was so at the first sample: its counter may have leaked."""


class _Made(NamedTuple):
    """The samples of a device that does not hang, and what they were made of."""

    discarding: bool
    asleep: bool
    wakes: tuple[float, float]
    writer_only: bool
    discarder_only: bool
    is_resumed: bool
    samples: list[Sample]


@dataclass(frozen=True, slots=True)
class DeviceState:
    """Progress of all devices, and the current gap without samples.

    `unproven_seconds`: the first sample after a gap, until a later one confirms it;
    `proven_seconds`: the last sample before the gap.
    """

    devices: Mapping[str, DeviceProgress] = field(default_factory=dict)
    last_seconds: float | None = None
    unproven_seconds: float | None = None
    proven_seconds: float = 0.0
    counted: Mapping[str, Counted] = field(default_factory=dict)
    kinds: WatchedKinds = hang_thresholds.NOTHING
    resumed_seconds: float = -math.inf
    """When the host was last found to have been suspended."""
    restored: Mapping[str, Pairs] = field(default_factory=dict)
    """Stored values of devices that were not seen since the restart, by key."""
    made: dict[str, _Made] = field(default_factory=dict, repr=False, compare=False)
    """The series of `samples` while no device hangs: they are the same in nearly every second."""

    @property
    def is_resumed(self) -> bool:
        """Whether the host was suspended until just now."""
        last = self.last_seconds
        return last is not None and last - self.resumed_seconds < guards.RESUME_SECONDS


EMPTY = DeviceState()


def step(
    state: DeviceState,
    now: float,
    blocks: Mapping[str, BlockIo],
    kinds: WatchedKinds,
    uptime_seconds: float = float("inf"),
    tasks: WaitingTasks = waiting_tasks.NOTHING,
) -> DeviceState:
    """Return the state after a sample of all devices that are monitored for stalls."""
    kept, known = dict(state.restored), dict(state.devices)
    leaked: dict[str, int] = {}
    for name in kinds.limits:
        if kept and name in blocks and name not in known:
            pairs = kept.pop(kinds.keys[name], None)
            if pairs is not None:
                recalled, leaked[name] = _recalled(pairs, blocks[name], now, uptime_seconds)
                if recalled is not None:
                    known[name] = recalled
    first = _seen_first(known, kinds.limits) if state.last_seconds is None else frozenset()
    given_up = hang_thresholds.given_up_seconds(kinds, tasks.awaited)
    counted = in_flight.step(state.counted, now, blocks, given_up, leaked, first)
    devices: dict[str, DeviceProgress] = {}
    waits = {
        name
        for name, each in counted.items()
        if blocks[name].in_flight > each.leaked + tasks.commands.get(name, 0)
    }
    for name, paths in kinds.maps.items():
        if name in counted and not waits.isdisjoint(paths):
            waits.add(name)
    for name in counted:
        since = now if state.last_seconds is None else state.last_seconds
        before = known.get(name)
        is_old = in_flight.is_from_before(counted[name], blocks[name])
        waiting = name in waits and (not is_old or _is_waited_for(name, tasks))
        progress = _stepped(before, (since, now), blocks[name], kinds.limits[name], waiting=waiting)
        if progress.from_before is not is_old:
            progress = replace(progress, from_before=is_old)
        devices[name] = progress
    devices |= _discarding(
        devices, kinds, tasks, {name: blocks[name].in_flight for name in counted}
    )
    for name, progress in devices.items():
        if progress.writer_only is not (name in tasks.writer_only):
            devices[name] = replace(progress, writer_only=not progress.writer_only)
    unproven, proven = _proof(state, now)
    made = state.made if kinds is state.kinds else {}
    resumed = state.resumed_seconds
    return DeviceState(devices, now, unproven, proven, counted, kinds, resumed, kept, made)


def _seen_first(known: Mapping[str, DeviceProgress], names: Iterable[str]) -> frozenset[str]:
    """Return the devices of which it is not known whether what is in flight has leaked before.

    One that hung before a restart had been seen without it, or at work.
    """
    hung = {name for name, each in known.items() if each.stalled_since_seconds is not None}
    return frozenset(n for n in names if n not in hung or known[n].from_before)


def _is_waited_for(name: str, tasks: WaitingTasks) -> bool:
    """Whether a task waits for a device all of whose requests are from before the first sample.

    Without one it is assumed to be a counter that leaked, on a disk that is hardly used.
    """
    return tasks.waited_for is None or name in tasks.waited_for or bool(tasks.unexplained)


def _proof(state: DeviceState, now: float) -> tuple[float | None, float]:
    """Return the first sample after a gap until it is confirmed, and the last one before it."""
    last = state.last_seconds
    if state.unproven_seconds is not None:
        proved = now - state.unproven_seconds >= PROOF_SECONDS - _EARLY_SECONDS
        return (None, now) if proved else (state.unproven_seconds, state.proven_seconds)
    if last is not None and now - last > GAP_SECONDS:
        return now, last
    if last is None and state.restored:  # no samples while the program was not running
        return now, max(
            (pairs[2][0] for pairs in state.restored.values() if len(pairs) > 2), default=now
        )
    return None, now


def _stepped(
    before: DeviceProgress | None,
    times: tuple[float, float],
    block: BlockIo,
    limits: HangThresholds,
    *,
    waiting: bool,
) -> DeviceProgress:
    last_sample, now = times
    total, discard_milliseconds = block.completed_total, block.discard_milliseconds_total
    since = now if waiting else None
    if before is None or total < before.completed_total:
        # A counter that decreased belongs to another device of the same name.
        return DeviceProgress(total, since, discard_milliseconds=discard_milliseconds)
    if total != before.completed_total:
        # Short ones all the time ('-o discard') explain no pause.
        took = (discard_milliseconds - before.discard_milliseconds) * _MILLISECOND
        is_long = took >= PAUSING_RATIO * (now - last_sample)
        discarded = now if is_long else before.discarded_at_seconds
        return DeviceProgress(
            total,
            since,
            now,
            asleep=False,
            discard_milliseconds=discard_milliseconds,
            discarded_at_seconds=discarded,
            discarding=discarded == now,
            discarder_at_seconds=before.discarder_at_seconds,
            wakes=_wakes(before, now) if limits.spins and before.asleep else before.wakes,
        )
    if waiting and before.stalled_since_seconds is None:
        last, discarded = before.completed_at_seconds, before.discarded_at_seconds
        return replace(
            before,
            stalled_since_seconds=now,
            asleep=last is None or now - last >= IDLE_SECONDS,
            discarding=discarded is not None and now - discarded < IDLE_SECONDS,
        )
    if not waiting and before.stalled_since_seconds is not None:
        return replace(before, stalled_since_seconds=None)
    return before


def _discarding(
    devices: Mapping[str, DeviceProgress],
    kinds: WatchedKinds,
    tasks: WaitingTasks,
    in_flight_now: Mapping[str, int],
) -> dict[str, DeviceProgress]:
    """Return the devices of which the last poll shows more about discards than their counters.

    One discard may take longer than it is remembered that any completed. It adds no requests while
    it waits: those that come are of programs that no poll may show, as with asynchronous I/O.
    """
    discarding = {*tasks.discards}
    discarding |= {name for name, paths in kinds.maps.items() if not discarding.isdisjoint(paths)}
    found: dict[str, DeviceProgress] = {}
    for name in discarding & devices.keys():
        progress = devices[name]
        is_only = not tasks.discarders_only.isdisjoint((name, *kinds.maps.get(name, ())))
        least = progress.discards_in_flight
        if is_only and least is None and progress.stalled_since_seconds is not None:
            least = in_flight_now[name]
        found[name] = replace(
            progress,
            discarding=True,
            discarder_only=is_only and (least is None or in_flight_now[name] <= least),
            discards_in_flight=least,
            discarder_at_seconds=tasks.polled_seconds,
        )
    for name, progress in devices.items():
        if name in found:
            continue
        is_over = _has_discarded(progress, tasks)
        if is_over or progress.discarder_only:
            found[name] = replace(
                progress, discarding=progress.discarding and not is_over, discarder_only=False
            )
    return found


def _has_discarded(progress: DeviceProgress, tasks: WaitingTasks) -> bool:
    """Whether the discards before a stall are over: a task waited for them, and none does in it.

    Those for which no task waits (XFS, '-o discard') are known by their counters alone.
    """
    since, polled = progress.stalled_since_seconds, progress.discarder_at_seconds
    if not progress.discarding or since is None or polled is None:
        return False
    if tasks.waited_for is None or tasks.unplaced_discards:
        return False
    is_theirs = polled >= (progress.discarded_at_seconds or polled) - DISCARDED_SECONDS
    return is_theirs and tasks.polled_seconds >= since + PROOF_SECONDS


def _wakes(before: DeviceProgress, now: float) -> tuple[float, float]:
    since = before.stalled_since_seconds
    shortest, longest = WAKE_SECONDS
    if (
        since is None
        or before.completed_at_seconds is None
        or not shortest <= now - since <= longest
    ):
        return before.wakes
    first, second, _ = sorted((*before.wakes, now - since), reverse=True)
    return first, second


def warning_seconds(progress: DeviceProgress, limits: HangThresholds) -> float | None:
    """Return the seconds from which a stall is a warning; None: never.

    A wake-up of more than 25 s counts only when it was observed twice: the first one may have been
    the beginning of a failure.
    """
    if limits.warning_seconds is None:
        return None
    least = limits.warning_seconds
    if progress.discarding:
        least = max(least, MEANINGS[Guard.DISCARDING].min_seconds)
    if progress.writer_only:
        least = max(least, MEANINGS[Guard.WRITER_ONLY].min_seconds)
    if not (limits.spins and progress.asleep):
        return least
    longest, second = progress.wakes
    if not longest:
        return max(least, SPIN_UP_SECONDS)
    seen = max(min(longest, SPIN_UP_SECONDS - WAKE_MARGIN_SECONDS), second)
    return max(least, seen + WAKE_MARGIN_SECONDS)


def hang_seconds(state: DeviceState, name: str) -> float:
    """Return for how long a device provably completed nothing with requests in flight."""
    since, until = state.devices[name].stalled_since_seconds, _proven_until(state)
    return 0.0 if since is None else max(round(until - since, DIGITS), 0.0)


def _proven_until(state: DeviceState) -> float:
    """Return until when it is proven what completed; before any sample nothing is."""
    until = state.last_seconds if state.unproven_seconds is None else state.proven_seconds
    return -math.inf if until is None else until


def samples(state: DeviceState) -> list[Sample]:
    """Return the series of every device that is monitored."""
    result: list[Sample] = []
    made, all_limits, until = state.made, state.kinds.limits, _proven_until(state)
    is_resumed = state.is_resumed
    for name, progress in state.devices.items():
        before = made.get(name)
        if (
            before is None
            or before.asleep != progress.asleep
            or before.discarding != progress.discarding
            or before.wakes != progress.wakes
            or before.writer_only != progress.writer_only
            or before.discarder_only != progress.discarder_only
            or before.is_resumed != is_resumed
        ):
            before = made[name] = _made(name, progress, all_limits[name], is_resumed=is_resumed)
        since = progress.stalled_since_seconds
        if since is not None and since < until and (seconds := hang_seconds(state, name)):
            result.append((*before.samples[0][:2], seconds))
            result += before.samples[1:]
        else:
            result += before.samples
    return result


def _made(
    name: str, progress: DeviceProgress, limits: HangThresholds, *, is_resumed: bool
) -> _Made:
    labels = (("device", name),)
    warning, critical = warning_seconds(progress, limits), limits.critical_seconds
    if is_resumed and warning is not None:
        warning = max(warning, guards.RESUME_SECONDS)
    if critical is not None:
        critical = max(critical, warning or 0.0)
        if progress.discarding:
            critical = max(critical, DISCARD_CRITICAL_SECONDS)
    notice = limits.notice_seconds or (limits.warning_seconds if progress.writer_only else None)
    if progress.discarder_only:  # it harms no program: a secure erase may take an hour
        notice, warning, critical = notice or warning, DISCARD_ALONE_SECONDS, None
    by_severity = {"notice": notice, "warning": warning, "critical": critical}
    thresholds = [
        (THRESHOLD, (*labels, ("severity", severity)), seconds)
        for severity, seconds in by_severity.items()
        if seconds is not None
    ]
    own = [("iowarden_device_hang_seconds", labels, 0.0), *thresholds]
    return _Made(
        progress.discarding,
        progress.asleep,
        progress.wakes,
        progress.writer_only,
        progress.discarder_only,
        is_resumed,
        own,
    )


def guards_of(state: DeviceState, *, is_laptop: bool = False) -> dict[str, frozenset[Guard]]:
    """Return the guards of each device that has any: what it is, and what its queue does.

    `is_laptop`: its writes are gathered so that it can sleep between them.
    """
    result: dict[str, frozenset[Guard]] = {}
    for name, progress in state.devices.items():
        limits = state.kinds.limits[name]
        active = limits.guards
        if state.counted[name].leaked:
            active |= {Guard.IN_FLIGHT_LEAKED}
        if progress.stalled_since_seconds is not None:  # requests are in flight
            if progress.writer_only:
                active |= {Guard.WRITER_ONLY}
            if progress.discarding:
                active |= {Guard.DISCARDING}
            elif limits.spins and progress.asleep:
                active |= {Guard.SPINNING_UP, *((Guard.LAPTOP_MODE,) if is_laptop else ())}
        if active:
            result[name] = active
    return result


def stalled_alone(state: DeviceState) -> frozenset[str]:
    """Return the devices that complete nothing, if no other one has anything to do; else none."""
    stalled = set()
    for name, progress in state.devices.items():
        counted = state.counted[name]
        if progress.stalled_since_seconds is not None:
            stalled.add(name)
        elif progress.completed_at_seconds == state.last_seconds or (
            counted.floor > counted.leaked and not progress.from_before
        ):
            return frozenset()
    return frozenset(stalled)


def threshold_seconds(state: DeviceState, name: str) -> float:
    """Return from when a stall of a device is one, by its guards; of a path that of its map."""
    limits, progress = state.kinds.limits.get(name), state.devices.get(name)
    if limits is None or progress is None:
        return hang_thresholds.WARNING_SECONDS
    seconds = warning_seconds(progress, limits)
    if seconds is None:
        return MEANINGS[Guard.MULTIPATH].min_seconds
    return max(seconds, guards.RESUME_SECONDS) if state.is_resumed else seconds


def replaced(state: DeviceState, names: Iterable[str]) -> DeviceState:
    """Return the state without the data of disks whose names now belong to other disks."""
    gone = set(names)
    if gone.isdisjoint(state.devices):
        return state
    return replace(
        state,
        devices={name: each for name, each in state.devices.items() if name not in gone},
        counted={name: each for name, each in state.counted.items() if name not in gone},
    )


def woken(state: DeviceState, now: float) -> DeviceState:
    """Return the state after the host was suspended: every disk may have to spin up."""
    devices = {
        name: DeviceProgress(
            each.completed_total, discard_milliseconds=each.discard_milliseconds, wakes=each.wakes
        )
        for name, each in state.devices.items()
    }
    return replace(state, devices=devices, unproven_seconds=None, resumed_seconds=now)


def remember(state: DeviceState) -> dict[str, Pairs]:
    """Return what is stored over a restart; a time of 0 means none."""
    kept = dict(state.restored)
    for name, each in state.devices.items():
        counted = state.counted[name]
        key = state.kinds.keys[name]
        kept[key] = (
            (each.stalled_since_seconds or 0.0, float(each.completed_total)),
            (each.completed_at_seconds or 0.0, float(counted.leaked)),
            (state.last_seconds or 0.0, each.wakes[0]),
            (0.0, each.wakes[1]),
            (0.0, float(each.from_before)),
        )
    return kept


def recall(state: DeviceState, stored: Mapping[str, Pairs]) -> DeviceState:
    """Return the state with the stored values; devices seen meanwhile start again from these."""
    known = {name for name in state.devices if state.kinds.keys[name] in stored}
    return replace(
        state,
        devices={name: each for name, each in state.devices.items() if name not in known},
        counted={name: each for name, each in state.counted.items() if name not in known},
        restored=dict(stored),
        last_seconds=None,
    )


def _recalled(
    pairs: Pairs, block: BlockIo, now: float, uptime_seconds: float
) -> tuple[DeviceProgress | None, int]:
    """Return the stored progress of a device, and how many of its requests in flight are leaked.

    Of an earlier boot only the wake-up times are still valid.
    """
    if len(pairs) != PAIRS:
        return None, 0
    (since, total), (completed, leaked), (last, longest), (_, second), (_, from_before) = pairs
    found = DeviceProgress(
        block.completed_total,
        discard_milliseconds=block.discard_milliseconds_total,
        wakes=(longest, second),
    )
    if now - last > uptime_seconds or block.completed_total < total:
        return found, 0
    if block.completed_total == total:
        found = replace(
            found,
            stalled_since_seconds=since or None,
            asleep=not completed or since - completed >= IDLE_SECONDS,
            from_before=bool(from_before),
        )
    return replace(found, completed_at_seconds=completed or None), int(leaked)


@dataclass(frozen=True, slots=True)
class WatchState:
    """All devices, the last half minute of the leaf devices, and the data behind their limits."""

    device: DeviceState = EMPTY
    leaves: LeafHistory = leaves.NOTHING
    derived: Derived | None = None
    scsi: ScsiTopology | None = None
    mounts: Mounts | None = None
    asleep_seconds: float = 0.0
    tasks: WaitingTasks = waiting_tasks.NOTHING
    guards: Mapping[str, frozenset[Guard]] = field(default_factory=dict)
    """By device, without those that have none."""


def leaves_seen(view: View) -> LeafHistory | None:
    """Return the history of the leaf devices if this second added to it, for later groups."""
    history = GROUP.state(view.states).leaves
    looked = history.snapshots and history.snapshots[-1].at_seconds == view.inputs.now_seconds
    return history if looked else None


def _step(state: WatchState, view: View) -> tuple[WatchState, list[Sample] | None]:
    inputs, derived, says = view.inputs, view.derived, view.inputs.snapshot
    if inputs.asleep_seconds - state.asleep_seconds > SUSPENDED_SECONDS:
        state = replace(state, device=woken(state.device, inputs.now_seconds))
    state = replace(state, asleep_seconds=inputs.asleep_seconds)
    now, blocks = inputs.now_seconds, says.diskstats
    if blocks is None or derived is None:
        return state, None
    # What cannot be read now, mostly because of this very stall, is assumed unchanged.
    scsi = state.scsi if says.scsi is None else says.scsi
    mounts = state.mounts if says.mounts is None else says.mounts
    kinds, stood = state.device.kinds, state.device
    if derived is not state.derived or not (
        _hosts(scsi) == _hosts(state.scsi) and mounts is state.mounts
    ):
        kinds = hang_thresholds.kinds(derived.topology, scsi, mounts)
    if state.derived is not None and derived is not state.derived:
        stood = replaced(stood, _others(state.derived.topology, derived.topology))
    tasks = _next_tasks(state.tasks, view, derived.topology, stood)
    waiting = _now_waiting(tasks, view, derived.topology)
    after = step(stood, now, blocks, kinds, inputs.uptime_seconds, waiting)
    history = leaves.step(state.leaves, now, blocks, derived.leaves, after.counted)
    state = WatchState(
        after,
        history,
        derived,
        scsi,
        mounts,
        inputs.asleep_seconds,
        tasks,
        guards_of(after, is_laptop=guards.is_laptop(inputs)),
    )
    return state, samples(after)


def _next_tasks(
    before: WaitingTasks, view: View, topology: Topology, state: DeviceState
) -> WaitingTasks:
    """Return who waited at the last poll."""
    now, tasks = view.inputs.now_seconds, view.inputs.snapshot.tasks
    if tasks is None or tasks.unseen or "tasks" not in view.inputs.fresh:
        return waiting_tasks.aged(before, now)
    if tasks.boot_seconds and tasks.boot_seconds == before.polled_boot_seconds:
        return waiting_tasks.aged(before, now)
    return waiting_tasks.polled(
        before,
        tasks,
        topology,
        now,
        _discards_at(state, view, topology),
        is_calm=_is_calm(state, view.inputs.snapshot.diskstats or {}),
        # Of a group after this one the state is that of the second before.
        causes=view.states["waits"].writing() if "waits" in view.states else {},
    )


def _is_calm(state: DeviceState, blocks: Mapping[str, BlockIo]) -> bool:
    """Whether since the last sample no disk had anything to do that it had not at the first one."""
    return bool(state.devices) and not any(
        block.completed_total != state.devices[name].completed_total
        or (block.in_flight > counted.leaked and not in_flight.is_from_before(counted, block))
        for name, counted in state.counted.items()
        if (block := blocks.get(name)) is not None
    )


def _discards_at(state: DeviceState, view: View, topology: Topology) -> str:
    """Return the only device on which a task may discard of which it is not known, else ''."""
    now, blocks = view.inputs.now_seconds, view.inputs.snapshot.diskstats or {}
    disks = [name for name in topology.leaves if name in state.devices]
    discarded = {name: state.devices[name].discarded_at_seconds for name in disks}
    return discards.candidate(
        frozenset(n for n, at in discarded.items() if at and now - at <= DISCARDED_SECONDS),
        frozenset(name for name in disks if hang_seconds(state, name) >= PROOF_SECONDS),
        frozenset(
            name
            for name in disks
            if name in blocks and in_flight.is_from_before(state.counted[name], blocks[name])
        ),
        topology,
    )


def _now_waiting(tasks: WaitingTasks, view: View, topology: Topology) -> WaitingTasks:
    """Return who waits now: no program while '/proc/stat' counts none and no poll saw any.

    Of their commands those that the kernel counts in flight.
    """
    stat, sysctl = view.inputs.snapshot.stat, view.inputs.snapshot.vm_sysctl
    if sysctl is None or sysctl.kernel >= NO_COMMANDS_KERNEL:
        tasks = replace(tasks, commands={})
    tasks = replace(tasks, awaited=waiting_tasks.awaited(view, topology))
    is_nobody = stat is not None and not stat.procs_blocked and not tasks.waited_for
    return replace(tasks, waited_for=frozenset()) if is_nobody else tasks


def _hosts(scsi: ScsiTopology | None) -> Mapping[str, ScsiHost]:
    """Return what limits depend on: not the counters of the devices, which always differ."""
    return {} if scsi is None else scsi.hosts


def _others(before: Topology, after: Topology) -> list[str]:
    """Return the names that now belong to another disk than at the last sample."""
    old, new = before.devices, after.devices
    return [n for n in after.leaves if n in old and device_changes.is_another(old[n], new[n])]


GROUP = SignalGroup(
    name="device",
    sources=("diskstats", "block"),
    families=(
        Family(
            "iowarden_device_hang_seconds",
            "gauge",
            "Seconds with requests in flight and none completed (/proc/diskstats).",
        ),
        Family(
            THRESHOLD,
            "gauge",
            "Seconds without a completion from which a hang is reported, by severity. notice:"
            " virtual disks, LUNs and multipath paths; warning: 10, more where the disk may have to"
            " spin up first, is virtual, a LUN, a multipath map or removable, or has discards"
            " queued; critical: the device's command timeout, at least 30, at most 180. While only"
            " programs that fill it wait, it is a notice until 30, and while only the program that"
            " discards it waits from 120 on.",
        ),
    ),
    step=_step,
    initial=WatchState(),
    remember=lambda state: remember(state.device),
    recall=lambda state, kept: replace(state, device=recall(state.device, kept)),
)
