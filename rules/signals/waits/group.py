"""Who waits for storage, on which device, and because of whom: the signal of harm.

Each poll at the blocked tasks is compared with the one before (waits.py), each device's waits are
divided into victims and causes (harm.py), and what the victims suffer becomes freezes (freezes.py).
Alerts about blocked programs compare these series; texts read the state.
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from itertools import chain
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals.device import device
from iowarden.rules.signals.discards import requests_discard
from iowarden.rules.signals.signal import SignalGroup
from iowarden.rules.signals.storage_call import is_server
from iowarden.rules.signals.waits import device_facts, freeze_series, load, many_waits
from iowarden.rules.signals.waits.freeze_cause import (
    BLAMES_DEVICE,
    NOT_BY_LOAD,
    WHERE,
    FreezeCause,
    deeper,
    freeze_cause,
    is_fault,
    limits_of,
    waits_for_swap,
)
from iowarden.rules.signals.waits.freezes import (
    COUNTED_SECONDS,
    NO_FREEZES,
    DeviceFreezes,
    counted_victims,
    next_freezes,
    next_programs,
    restored,
    stored,
)
from iowarden.rules.signals.waits.harm import (
    CAUSE_RATIO,
    Harm,
    followed,
    harm,
    is_cause_alone,
    with_causes,
    with_faults,
)
from iowarden.rules.signals.waits.load import Moved, SweepMoment
from iowarden.rules.signals.waits.server_answers import (
    Answer,
    is_answered,
    is_answering,
    next_answers,
)
from iowarden.rules.signals.waits.uncounted import NO_CHANGES, LoadChanges, next_changes
from iowarden.rules.signals.waits.wait_targets import HOST, stacks, waits_by_device
from iowarden.rules.signals.waits.waits import (
    NO_POLLS,
    Polls,
    about_storage,
    after_resume,
    next_polls,
    returned,
)
from iowarden.rules.signals.writeback import no_progress, waiters, writeback
from iowarden.rules.signals.writeback.limits import FREERUN_KERNEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.block.diskstats import BlockIo
    from iowarden.collectors.procfs.cgroup_limits import GroupLimit
    from iowarden.collectors.procfs.process_io import ProcessIo, Sweep
    from iowarden.collectors.procfs.tasks import BlockedTask
    from iowarden.rules.signals.signal import Pairs, View
    from iowarden.rules.signals.waits.freeze_cause import DeviceFacts
    from iowarden.rules.signals.waits.many_waits import ManyWaits
    from iowarden.rules.signals.waits.waits import Wait

MAX_TRIGGER_SECONDS = 15.0
"""Two changes of the load average, and the poll that follows, take no longer."""
_SEEN = "iowarden_storage_waits_seen"
SWEPT_SECONDS = 60.0
"""Who has the memory changes within minutes."""
SEEN_SECONDS = 30.0
"""A writer is not blocked at each poll."""


@dataclass(frozen=True, slots=True)
class HarmState:
    """What the polls and sweeps up to now have shown."""

    polls: Polls = NO_POLLS
    changes: LoadChanges = NO_CHANGES
    """Of the load average: tasks that '/proc/stat' does not count as blocked."""
    blocked_since_seconds: float | None = None
    """Since when '/proc/stat' counts a blocked task without a break."""
    poll_boot_seconds: float = 0.0
    """The host's uptime at the last poll."""
    asleep_seconds: float = 0.0
    """For how long the host has been suspended since its boot."""
    sweeps: tuple[SweepMoment, ...] = ()
    before_waits: Mapping[str, SweepMoment] = field(default_factory=dict)
    """By device that programs wait for: the sweep that their load is measured from."""
    moved: tuple[Moved, ...] = ()
    harms: Mapping[str, Harm] = field(default_factory=dict)
    """By device."""
    devices: Mapping[str, DeviceFreezes] = field(default_factory=dict)
    last_harms: Mapping[str, tuple[float, Harm]] = field(default_factory=dict)
    """By device with an open series: the last poll that saw victims, and when."""
    causes: Mapping[str, FreezeCause] = field(default_factory=dict)
    """By device, of the last poll that saw victims in its present series."""
    disks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By device: the disks that are its cause (slow, hanging, starved), at the same poll."""
    speeds: Mapping[str, float] = field(default_factory=dict)
    """By device with victims at the last poll: bytes a second that it writes, 0: not known."""
    queued: Mapping[str, float] = field(default_factory=dict)
    """By device that a task waited for at the last poll: the most unwritten data of the host, in
    bytes, since the first of such polls in a row."""
    max_queued: Mapping[str, float] = field(default_factory=dict)
    """The same of the last such polls, by device with an open series of freezes."""
    carried: frozenset[str] = frozenset()
    """Devices whose cause is that of the freeze before, the present one being too young."""
    ended_waits: tuple[int, ...] = (0,) * len(freeze_series.BUCKETS_SECONDS)
    """Ended waits of victims, cumulative by upper limit of their length."""
    seen_seconds: float = -math.inf
    """When a poll last saw, with its system call, a task that waits for storage."""
    ended_seconds: float = 0.0
    """Their sum."""
    latest_guards: device_facts.LatestGuards = field(default_factory=dict)
    many: ManyWaits = many_waits.NOTHING
    answers: Mapping[str, Answer] = field(default_factory=dict)
    """By what is mounted from a server: its last answer to a call that was seen to wait."""
    limits: Mapping[str, tuple[GroupLimit, ...]] = field(default_factory=dict)
    """By device, the limits of control groups that make the last victims wait."""

    def waiting_groups(self) -> dict[str, str]:
        """Return control groups and units of victims in open series, with each freeze's device.

        In version 1 the groups of a task differ by controller; its unit is the same.
        """
        found: dict[str, str] = {}
        for name, (_, last) in sorted(self.last_harms.items(), reverse=True):
            for task in (victim.wait.task for victim in last.victims):
                found |= dict.fromkeys((line.split(":", 2)[2] for line in task.groups), name)
                found |= {task.unit: name} if task.unit else {}
        return found

    def swept_processes(self, now: float) -> tuple[ProcessIo, ...]:
        """Return what the last sweep of all processes saw, () if it was too long ago."""
        last = self.sweeps[-1] if self.sweeps else None
        is_recent = last is not None and now - last.moved.at_seconds <= SWEPT_SECONDS
        return last.sweep.processes if last is not None and is_recent else ()

    def writing(self) -> dict[int, frozenset[int] | None]:
        """Return the processes that cause the load by what they wrote, with the threads that did.

        None: all of its threads. Where no sweep of all bytes is stored from before the wait, it is
        not known.
        """
        certain = (harm for harm in self.harms.values() if harm.is_certain)
        return {
            cause.pid: cause.threads for harm in certain for cause in harm.causes if cause.writes
        }

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
    if inputs.asleep_seconds != state.asleep_seconds:
        is_resumed = inputs.asleep_seconds - state.asleep_seconds > device.SUSPENDED_SECONDS
        polls = after_resume(state.polls, now) if is_resumed else state.polls
        state = replace(state, polls=polls, asleep_seconds=inputs.asleep_seconds)
    if snapshot.stat is not None:
        since = state.blocked_since_seconds
        blocked = snapshot.stat.procs_blocked > 0
        if blocked is (since is None):  # else nothing has changed, each second of a quiet host
            state = replace(state, blocked_since_seconds=now if blocked else None)
    if snapshot.diskstats is not None:
        moved = _next_moved(state, snapshot.diskstats, now)
        if moved is not state.moved:
            state = replace(state, moved=moved)
    if snapshot.stat is not None and snapshot.loadavg is not None and "loadavg" in inputs.fresh:
        running = snapshot.stat.procs_running
        changes = next_changes(state.changes, snapshot.loadavg.load1, running, now)
        state = replace(state, changes=changes)
    sweep, blocks = snapshot.io_sweep, snapshot.diskstats
    if sweep is not None and blocks is not None and _is_new(sweep, state):
        moment = SweepMoment(sweep, Moved(now, blocks))
        queued = _queued_bytes(view) or 0.0
        state = replace(state, sweeps=load.next_sweeps(state.sweeps, moment, queued))
    tasks = snapshot.tasks
    if tasks is None or "tasks" not in inputs.fresh or view.derived is None:
        return state, None
    if state.devices and inputs.uptime_seconds:
        state = since_boot(state, now - inputs.uptime_seconds)
    if tasks.boot_seconds and tasks.boot_seconds == state.poll_boot_seconds:
        return state, freeze_series.samples(
            state, now
        )  # a recording returns one poll until the next
    if tasks.boot_seconds != state.poll_boot_seconds:
        state = replace(state, poll_boot_seconds=tasks.boot_seconds)
    if not (tasks.tasks or tasks.unseen or state.polls.waits or state.devices):
        polls = Polls(last_seconds=now) if tasks.boot_seconds else NO_POLLS
        if polls != state.polls:
            state = replace(state, polls=polls)
        return state, freeze_series.histogram(state)
    if tasks.unseen:
        return replace(state, polls=NO_POLLS, harms={}), freeze_series.histogram(state)
    state = _polled(state, view)
    return state, freeze_series.samples(state, now)


def since_boot(state: HarmState, boot_seconds: float) -> HarmState:
    """Forget the freezes of before a boot: no program waits since then, and names are others'."""
    devices = {
        name: each
        for name, each in state.devices.items()
        if each.series is None or each.series.freezes[-1].last_seconds >= boot_seconds
    }
    return state if len(devices) == len(state.devices) else replace(state, devices=devices)


def _is_new(sweep: Sweep, state: HarmState) -> bool:
    last = state.sweeps[-1].sweep.boot_seconds if state.sweeps else 0.0
    return sweep.boot_seconds > last


def _next_moved(state: HarmState, blocks: Mapping[str, BlockIo], now: float) -> tuple[Moved, ...]:
    """Return what the devices moved, each few seconds while tasks wait; a quiet host costs none."""
    recent = load.recent_moved(state.moved, now)
    is_calm = state.blocked_since_seconds is None and not state.changes.is_suspicious
    if is_calm and not state.polls.waits:
        return recent
    return load.next_moved(recent, blocks, now)


def _trigger_seconds(state: HarmState, now: float) -> float:
    """Return since when something has given reason to poll, for the first poll.

    A reason of long ago was polled at, or could not be: what is seen now is another wait.
    """
    reasons = (state.blocked_since_seconds, state.changes.since_seconds)
    return min((at for at in reasons if at and now - at <= MAX_TRIGGER_SECONDS), default=now)


def _polled(state: HarmState, view: View) -> HarmState:
    """Return the state after a poll at the blocked tasks."""
    now = view.inputs.now_seconds
    seen = view.inputs.snapshot.tasks
    assert seen is not None  # noqa: S101 - `_step` returned
    polls, ended = next_polls(
        state.polls,
        seen.tasks,
        now,
        trigger_seconds=_trigger_seconds(state, now),
        counted_seconds=state.changes.counted_seconds,
        legacy_queued_ratio=_legacy_queued_ratio(view),
    )
    if not seen.tasks and not seen.boot_seconds:
        polls = NO_POLLS  # nothing gave reason to poll: a wait of later on began at its trigger
    if any(wait.task.system_call for wait in about_storage(polls)):
        state = replace(state, seen_seconds=now)
    waits = waits_by_device(about_storage(polls), seen.tasks, state, view)
    state = replace(
        state,
        before_waits=_before_waits(waits, state),
        answers=_next_answers(state, polls, view),
    )
    below = stacks(waits, view)
    found = _explained(waits, below, state, view)
    harms = found.harms
    began = min((wait.not_before_seconds for own in waits.values() for wait in own), default=now)
    latest = device_facts.next_guards(state.latest_guards, found.causes, began, view)
    devices = _next_devices(state, found, below, latest, view)
    known, of_causes = {**state.causes, **found.causes}, {**state.disks, **found.disks}
    limits = {**state.limits, **found.limits}
    max_queued = {**state.max_queued, **found.queued}
    last = {**state.last_harms, **{name: (now, harms[name]) for name in found.causes}}
    lengths = _victims_lengths(state, ended)
    return replace(
        state,
        polls=polls,
        harms=harms,
        devices=devices,
        last_harms={name: seen for name, seen in last.items() if name in devices},
        causes={name: cause for name, cause in known.items() if name in devices},
        disks={name: own for name, own in of_causes.items() if name in devices},
        speeds=found.speeds,
        queued=found.queued,
        max_queued={name: most for name, most in max_queued.items() if name in devices},
        carried=frozenset(found.carried),
        latest_guards=latest,
        many=found.many,
        limits={name: some for name, some in limits.items() if some and name in devices},
        ended_waits=tuple(
            count + sum(length <= limit for length in lengths)
            for count, limit in zip(state.ended_waits, freeze_series.BUCKETS_SECONDS, strict=True)
        ),
        ended_seconds=state.ended_seconds + sum(lengths),
    )


def _next_devices(
    state: HarmState,
    found: _Explained,
    below: Mapping[str, frozenset[str]],
    latest: device_facts.LatestGuards,
    view: View,
) -> dict[str, DeviceFreezes]:
    """Return the freezes of each device after a poll; `state` has the poll before."""
    assert view.derived is not None  # noqa: S101 - `_step` returned
    now, previous_poll = view.inputs.now_seconds, state.polls.last_seconds
    # Many short waits are a freeze from the first poll on that shows who waits, and so why.
    known = state.causes.keys() | found.causes.keys()
    sustained = {name: at for name, at in found.many.sustained(now).items() if name in known}
    devices = {}
    for name in {*found.harms, *state.devices, *sustained}:
        of_device, disks = found.harms.get(name, Harm()), found.disks.get(name, ())
        stack = below.get(name) or device_facts.stack_of(name, view.derived.topology)
        is_alone = is_cause_alone(of_device)
        after = next_freezes(
            state.devices.get(name, NO_FREEZES),
            of_device,
            now,
            previous_poll_seconds=now if previous_poll is None else previous_poll,
            min_seconds=device_facts.guarded_seconds(
                stack, found.causes.get(name), disks, view, is_writer_alone=is_alone
            ),
            earlier=device_facts.earlier_permit(
                name, stack, disks, latest, is_writer_alone=is_alone
            ),
            sustained_seconds=sustained.get(name, 0.0),
        )
        if after != NO_FREEZES:
            devices[name] = after
    return devices


def _next_answers(state: HarmState, polls: Polls, view: View) -> dict[str, Answer]:
    """Return the last answers of servers; `state` has the poll before."""
    mounts, now = view.inputs.snapshot.mounts, view.inputs.now_seconds
    waits = [wait for wait in returned(state.polls, polls) if is_answered(wait.task)]
    tasks = [wait.task for wait in waits]
    by_mount = waits_by_device(waits, tasks, state, view) if waits else {}
    return next_answers(state.answers, by_mount, mounts.mounts if mounts else (), now)


@dataclass(slots=True)
class _Explained:
    """Who is harmed, and why, by device; but for `harms` of those whose waits count."""

    many: ManyWaits
    harms: dict[str, Harm] = field(default_factory=dict)
    causes: dict[str, FreezeCause] = field(default_factory=dict)
    disks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    limits: dict[str, tuple[GroupLimit, ...]] = field(default_factory=dict)
    speeds: dict[str, float] = field(default_factory=dict)
    queued: dict[str, float] = field(default_factory=dict)
    carried: set[str] = field(default_factory=set)


def _explained(
    waits: Mapping[str, list[Wait]],
    below: Mapping[str, frozenset[str]],
    state: HarmState,
    view: View,
) -> _Explained:
    """Return who is harmed, and why; `below`: what is below each device, and itself."""
    assert view.derived is not None  # noqa: S101 - `_step` returned
    topology = view.derived.topology
    harms, all_facts = _harms(waits, below, state, view)
    found = _Explained(_next_many(state.many, waits, harms, all_facts, view))
    sustained = found.many.sustained(view.inputs.now_seconds)
    is_storm = found.many.storm_since_seconds is not None
    for name, on_device in harms.items():
        answers = is_answering(state.answers.get(name), waits[name], view.inputs.now_seconds)
        facts = replace(all_facts[name], is_answering=answers)
        if is_storm:
            own = device_facts.leaves_of(below[name], topology)
            on_swap = name != HOST and device_facts.carries_swap(own, view, topology)
            facts = replace(facts, is_swap_storm=True, carries_swap=on_swap)
        found.queued[name] = max(facts.queued_bytes, state.queued.get(name, 0.0))
        if is_storm and name in found.many.storm_devices:
            on_device = with_faults(on_device)  # noqa: PLW2901
        tasks = [victim.wait.task for victim in followed(on_device.victims)]
        faults = [task for task in _tasks(on_device) if is_fault(task) and task not in tasks]
        # No fault of a storm lasts from one poll to the next; who waits beside them does.
        cause = freeze_cause([*tasks, *faults] if is_storm else tasks, facts)
        goes_on, before = _goes_on(state, name), state.causes.get(name)
        longest = max((victim.min_seconds for victim in on_device.victims), default=0.0)
        may_carry = longest < device_facts.MIN_SECONDS and (not goes_on or name in state.carried)
        if may_carry and before is not None and cause in WHERE:
            cause = before  # a further freeze, too young to show its own
            found.carried.add(name)
        elif goes_on and name not in state.carried:
            # That it is no journal which is behind shows after some seconds.
            is_refuted = facts.is_untouched and before is FreezeCause.JOURNAL
            cause = cause if is_refuted else deeper(before, cause)
        counts = name in sustained and bool(tasks)
        counts |= any(victim.max_seconds >= COUNTED_SECONDS for victim in on_device.victims)
        counts |= _has_counted(name, on_device, state, view.inputs.now_seconds)
        if on_device.victims and cause in {*BLAMES_DEVICE, FreezeCause.NEIGHBOUR}:
            # Whose own bytes explain so little of a faulty disk's time is harmed like others.
            both = on_device.victims + on_device.evidence
            on_device = replace(on_device, victims=both, evidence=())  # noqa: PLW2901
        # A file system that discards by itself is not the load of a program.
        itself = cause is FreezeCause.DISCARDING and not on_device.discarding
        on_device = replace(on_device, blames_device=itself or cause in NOT_BY_LOAD)  # noqa: PLW2901
        if goes_on and name in state.last_harms:
            on_device = with_causes(on_device, state.last_harms[name][1])  # noqa: PLW2901
        found.harms[name] = on_device
        if counts:  # else a wait of this second would hide who was blocked for long
            is_carried = name in found.carried
            disks = state.disks.get(name, ()) if is_carried else facts.disks(cause)
            found.causes[name], found.disks[name] = cause, disks
            found.limits[name] = limits_of(tasks, facts)
            found.speeds[name] = facts.write_bytes_per_second or 0.0
    return found


def _harms(
    waits: Mapping[str, list[Wait]],
    below: Mapping[str, frozenset[str]],
    state: HarmState,
    view: View,
) -> tuple[dict[str, Harm], dict[str, DeviceFacts]]:
    """Return who is harmed on each device, and what other signals show of it."""
    assert view.derived is not None  # noqa: S101 - `_step` returned
    topology = view.derived.topology
    disks_of = {name: device_facts.leaves_of(stack, topology) for name, stack in below.items()}
    harms: dict[str, Harm] = {}
    all_facts: dict[str, DeviceFacts] = {}
    for name, of_device in waits.items():
        facts = device_facts.device_facts(name, below[name], of_device, state.moved, view)
        on_device = _harm(name, waits, disks_of, state, facts, view)
        of_others = _discarding_on_others(name, waits, disks_of)
        blamed = on_device.discarding + of_others if facts.discarding else ()
        on_device = replace(on_device, discarding=blamed)
        harms[name], all_facts[name] = on_device, facts
    return harms, all_facts


def _tasks(harm: Harm) -> list[BlockedTask]:
    return [victim.wait.task for victim in harm.victims]


def _has_counted(name: str, harm: Harm, state: HarmState, now: float) -> bool:
    """Whether there is a freeze of a device at this poll."""
    before, previous_poll = state.devices.get(name, NO_FREEZES), state.polls.last_seconds
    programs = next_programs(
        before.programs, harm, now, now if previous_poll is None else previous_poll
    )
    return bool(counted_victims(programs, harm, now))


def _discarding_on_others(
    name: str, waits: Mapping[str, list[Wait]], disks_of: Mapping[str, frozenset[str]]
) -> tuple[BlockedTask, ...]:
    """Return the programs that discard on another volume of the same disks."""
    return tuple(
        wait.task
        for other, of_device in waits.items()
        if other != name and not disks_of[name].isdisjoint(disks_of[other])
        for wait in of_device
        if requests_discard(wait.task)
    )


def _goes_on(state: HarmState, name: str) -> bool:
    """Whether the last poll saw a freeze of a device that had not ended."""
    freezes = state.devices.get(name, NO_FREEZES)
    return freezes.series is not None and freezes.series.is_frozen


def _before_waits(waits: Mapping[str, list[Wait]], state: HarmState) -> dict[str, SweepMoment]:
    """Return for each device the sweep that the load behind its waits is measured from."""
    moments = {
        name: load.before_wait(
            state.sweeps,
            state.before_waits.get(name),
            min(wait.not_before_seconds for wait in of_device),
            goes_on=_goes_on(state, name),
        )
        for name, of_device in waits.items()
    }
    return {name: moment for name, moment in moments.items() if moment is not None}


def _next_many(
    many: ManyWaits,
    waits: Mapping[str, list[Wait]],
    harms: Mapping[str, Harm],
    all_facts: Mapping[str, DeviceFacts],
    view: View,
) -> ManyWaits:
    """Return what this poll shows of waits that are short and many."""
    now, snapshot = view.inputs.now_seconds, view.inputs.snapshot
    victims = {name: _tasks(on_device) for name, on_device in harms.items()}
    faults = {name: [w.task for w in own if is_fault(w.task)] for name, own in waits.items()}
    pressure = _full_pressure_ratio(chain.from_iterable(faults.values()), view)
    if pressure is None:  # a program that starts waits for its file, whatever is swapped meanwhile
        faults = {name: [*filter(waits_for_swap, tasks)] for name, tasks in faults.items()}
    many = many_waits.next_memory(
        many,
        now,
        faulting=frozenset(name for name, tasks in faults.items() if tasks),
        swapped_bytes=many_waits.swapped_bytes(snapshot.vmstat),
        full_pressure_ratio=pressure,
    )
    limited = {
        name: len(tasks)
        for name, tasks in victims.items()
        if all_facts[name].is_at_limit or limits_of(tasks, all_facts[name])
    }
    # Between two of their requests all may be awake: the device is at its limit nevertheless.
    at_limit = {name for name in many.limited if device_facts.is_at_limit(name, view)}
    return many_waits.next_limited(many, now, dict.fromkeys(at_limit - limited.keys(), 0) | limited)


def _full_pressure_ratio(faulting: Iterable[BlockedTask], view: View) -> float | None:
    """Return how much of the time all programs wait for memory, None: it is not measured.

    That is of the host, or of the control group at its limit that these tasks are in: there others
    run meanwhile.
    """
    pressure = view.inputs.snapshot.pressure
    of_host = None if pressure is None or pressure.memory is None else pressure.memory
    if of_host is None or of_host.full_avg10_ratio is None:
        return None
    of_groups = (task.full_pressure_ratio or 0.0 for task in faulting)
    return max(of_host.full_avg10_ratio, *of_groups, 0.0)


def _legacy_queued_ratio(view: View) -> float | None:
    """Return unwritten data as a share of the dirty limit, on a kernel before 3.2."""
    unwritten, sysctl = writeback.seen(view), view.inputs.snapshot.vm_sysctl
    if unwritten is None or sysctl is None or sysctl.kernel >= FREERUN_KERNEL:
        return None
    return unwritten.queued_ratio


def _harm(
    name: str,
    all_waits: Mapping[str, list[Wait]],
    disks_of: Mapping[str, frozenset[str]],
    state: HarmState,
    facts: DeviceFacts,
    view: View,
) -> Harm:
    """Return who is harmed on a device, with the load of the leaf devices below it.

    Where another disk fills the queue of its adapter, with the load of that and who waits for it.
    """
    waits, leaves = all_waits[name], disks_of[name]
    dominant = facts.dominant if facts.starved else ()
    loaded = leaves.union(dominant)
    waits_of_others = [wait for one in dominant for wait in all_waits.get(one, ())]
    elsewhere = _processes_elsewhere(loaded, all_waits, disks_of)
    before = load.since(state.moved, min(wait.not_before_seconds for wait in waits))
    completed = speed = 0.0
    mostly_reads = False
    if before is not None:
        read, written = load.difference(before, state.moved[-1], leaves)
        completed = float(read + written)
        mostly_reads = not is_server(name) and written < CAUSE_RATIO * completed
        if is_server(name):  # which takes what is no longer queued, and no local disk wrote
            queued_before, queued_now = state.queued.get(name, 0.0), _queued_bytes(view) or 0.0
            completed = max(queued_before - queued_now - written, 0.0)
            written = int(completed)
        speed = written / (state.moved[-1].at_seconds - before.at_seconds)
    best = no_progress.GROUP.state(view.states).best
    own = frozenset() if is_server(name) else leaves & best.keys()
    rates = [max((rate for _, rate in best[leaf]), default=0.0) for leaf in own]
    # The best speed of a disk that had little to do is less than it is capable of.
    is_faulty = facts.hanging or facts.slow or facts.starved
    capable = max(sum(rates), device_facts.WELL_BYTES_PER_SECOND if is_faulty else 0.0)
    sweeps = load.since_before(state.sweeps, state.before_waits.get(name))
    if len(sweeps) >= 2:
        queued = _queued_bytes(view)
        moved = replace(
            load.load(sweeps, loaded), queued_bytes=None if queued is None else int(queued)
        )
    else:
        moved = load.probable_load(
            (*waits, *waits_of_others),
            state.sweeps,
            queued_bytes=_queued_bytes(view),
            paused=waiters.GROUP.state(view.states).writers,
            uptime_seconds=view.inputs.uptime_seconds,
            mostly_reads=mostly_reads,
        )
    return harm(waits, moved, completed, speed, capable, elsewhere)


def _processes_elsewhere(
    leaves: frozenset[str],
    waits: Mapping[str, list[Wait]],
    disks_of: Mapping[str, frozenset[str]],
) -> frozenset[int]:
    """Return the processes that wait for other disks than these, and for none of these."""
    waiting_here: set[int] = set()
    waiting_elsewhere: set[int] = set()
    for name, of_device in waits.items():
        is_other = leaves.isdisjoint(disks_of[name])
        processes = waiting_elsewhere if is_other else waiting_here
        processes.update(wait.task.process or wait.task.pid for wait in of_device)
    return frozenset(waiting_elsewhere - waiting_here)


def _queued_bytes(view: View) -> float | None:
    unwritten = writeback.seen(view)
    return None if unwritten is None else unwritten.queued_bytes


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
    families=freeze_series.FAMILIES,
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
