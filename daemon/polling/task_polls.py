"""When the blocked tasks are polled, and all processes swept: often while a program waits.

'/proc/stat' counts only tasks in io_schedule; others show in the load average
(rules/signals/waits/uncounted.py). Source: kernel, Documentation/filesystems/proc.rst. Units:
seconds of the program's clock.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.procfs import cgroup_use, loadavg, process_io, tasks
from iowarden.collectors.procfs.cgroup_limits import (
    has_unreadable_write_limits,
    read_full_pressure,
    read_latency_targets,
    read_limits,
    relevant_groups,
)
from iowarden.rules.signals.queue import phantom_reads
from iowarden.rules.signals.waits.freeze_cause import is_delayed_for_latency, is_fault
from iowarden.rules.signals.waits.uncounted import MIN_TASKS, NO_CHANGES, PERIOD_SECONDS
from iowarden.rules.signals.waits.waits import FOLLOWED_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.model import Reading
    from iowarden.collectors.procfs.cgroup_limits import GroupLimit
    from iowarden.collectors.procfs.cgroup_use import Uses
    from iowarden.collectors.procfs.process_io import Sweep
    from iowarden.collectors.procfs.tasks import BlockedTask, BlockedTasks
    from iowarden.rules.engine.engine import Engine
    from iowarden.rules.signals.waits.uncounted import LoadChanges

MANY_TASKS, MANY_SECONDS = 32, 3.0
"""Between two polls while more tasks wait: the details of 64 cost 6 ms."""
BUSY_SECONDS = 5.0
"""At most between two polls on a host where tasks are always blocked, none of them for long."""
BUSY_GAPS = (BUSY_SECONDS, 4.0, FOLLOWED_SECONDS)
"""Between polls on such a host, by turns: only two that follow soon show that a wait goes on. Their
sum is a prime number, so that they meet waits of any period in each of its phases."""
REPEAT_SECONDS = 10.0
"""So long after a wait polls go on: the program may be in the next one already. Of longer waits
each counts by itself."""
FIRST_POLLS = 2
EARLY_SECONDS = 0.1
"""Tolerance: a turn of the loop may come a little early."""
BLOCKED_SECONDS = 2
"""Tasks that are blocked in so many seconds in a row are polled at."""
REFUTED_SECONDS, MAX_REFUTED_SECONDS = 60.0, 960.0
"""After two polls that saw no wait go on, so many active tasks are no reason for another; each time
it is twice as long. The kernel counts iowarden as well where its tick meets a turn of the loop;
each tick is 5 s and one jiffy after the last (LOAD_FREQ), so that it may do so for minutes."""
SUSPECTED_SECONDS = 5.0
MIN_SWEEP_SECONDS, FIRST_SWEEPS = 5.0, 2
"""So many sweeps of all processes follow each other soon when a wait begins: the first mail, 12 s
after it, has to name who moves the bytes."""
_QUEUED = "iowarden_writeback_queued_bytes"
LATE_SECONDS = 8
"""Tasks that are blocked in so many seconds in a row are in the first mail with the next poll."""
LIMITS_SECONDS, FORGOTTEN_SECONDS = 60.0, 300.0
"""For so long the limits of a group are known; and a group of which no task waits."""
_SUSPICIOUS = ("iowarden_device_hang_seconds", "iowarden_device_mapper_suspended_seconds")


def _is_suspected(engine: Engine) -> bool:
    """Whether a device hangs or is suspended, so that tasks are likely to wait for it."""
    return any(
        metric in _SUSPICIOUS and seconds >= SUSPECTED_SECONDS
        for group in ("device", "suspended")
        for metric, _, seconds in engine.signals.newest(group)
    )


def _has_phantom_reads(engine: Engine) -> bool:
    """Whether a device reads while it is written, so that the programs' bytes show who wants it."""
    samples = engine.signals.newest(phantom_reads.GROUP.name)
    return any(metric == phantom_reads.SECONDS for metric, _, _ in samples)


def _has_backlog(engine: Engine) -> bool:
    """Whether so much unwritten data is queued that it has to be known who wrote it."""
    return any(
        metric == _QUEUED and queued >= process_io.SWEPT_BYTES
        for metric, _, queued in engine.signals.newest("writeback")
    )


def _has_processes(reading: Reading[Any]) -> bool:
    return reading.value is not None and bool(reading.value.processes)


def _with_pressure(machine: Machine, polled: BlockedTasks) -> BlockedTasks:
    """Add the pressure of memory in their control groups to tasks in page faults."""
    faulting = {task.groups for task in polled.tasks if is_fault(task) and task.groups}
    ratios = {groups: read_full_pressure(machine, groups) for groups in faulting}
    if not any(ratios.values()):
        return polled
    with_pressure = (
        replace(task, full_pressure_ratio=ratios.get(task.groups)) if is_fault(task) else task
        for task in polled.tasks
    )
    return replace(polled, tasks=tuple(with_pressure))


def _groups_of(machine: Machine, task: BlockedTask) -> tuple[str, ...]:
    """Return the control groups of a program whose details the probe could not read."""
    if task.kernel or not task.unit:
        return ()
    return relevant_groups(machine.try_read(f"/proc/{task.process or task.pid}/cgroup") or "")


class _Limits(NamedTuple):
    """The limits of a control group: when a task of it was last seen to wait, and what was read."""

    seen_seconds: float
    read_seconds: float = float("-inf")
    limits: tuple[GroupLimit, ...] = ()
    has_unreadable: bool = False


@dataclass(slots=True)
class TaskPolls:
    """Decides each second whether a poll is due; `read` and `sweep` are called by threads."""

    is_wanted: bool = False
    """Whether something other than '/proc/stat' shows that tasks wait."""
    is_sweep_wanted: bool = False
    """Whether the bytes of programs are needed though little unwritten data is queued."""
    _followed_seconds: float = FOLLOWED_SECONDS
    _blocked_seconds: int = 0
    _last_poll_seconds: float = float("-inf")
    _last_followed_seconds: float = float("-inf")
    _polls_in_row: int = 0
    _has_backlog: bool = False
    _last_sweep_seconds: float = float("-inf")
    _sweeps_in_row: int = 0
    """Sweeps since a wait is followed."""
    _changes: LoadChanges = NO_CHANGES
    _refuted_tasks: float = 0.0
    """How many active tasks polls saw not to wait, until `_refuted_until`."""
    _refuted_until: float = float("-inf")
    _refuted_seconds: float = REFUTED_SECONDS
    """For how long the next refutation holds."""
    _limits: dict[tuple[str, ...], _Limits] = field(default_factory=dict)
    """Of the control groups whose tasks wait."""
    _uses: dict[tuple[str, str], Uses] = field(default_factory=dict)
    """What the groups of these limits did, by file and device."""

    def step(self, engine: Engine, readings: Iterable[Reading[Any]], now: float) -> tuple[str, ...]:
        """Return the collectors to be polled now; to be called each second after the signals."""
        snapshot, harm = engine.last, engine.signals.harm()
        if snapshot.stat is None:
            return ()
        due = []
        is_crowded = len(harm.polls.waits) > MANY_TASKS
        self._followed_seconds = MANY_SECONDS if is_crowded else FOLLOWED_SECONDS
        if self.is_due(
            snapshot.stat.procs_blocked,
            now,
            changes=harm.changes,
            is_followed=harm.is_followed,
            is_suspected=_is_suspected(engine),
        ):
            due.append(tasks.SOURCE.name)
        # At a limit no wait is long: who moves the bytes is no victim of it. Nor in a swap storm.
        is_limited = bool(harm.many.limited)
        is_storm = harm.many.storm_since_seconds is not None
        self.is_sweep_wanted = (
            harm.is_followed or is_limited or is_storm or _has_phantom_reads(engine)
        )
        if any(one.source == process_io.SOURCE.name and _has_processes(one) for one in readings):
            self._last_sweep_seconds = now
        if self.is_sweep_due(now, has_backlog=_has_backlog(engine), is_followed=harm.is_followed):
            due.append(process_io.SOURCE.name)
        if harm.changes.is_suspicious and harm.changes.since_seconds is None:
            due.append(loadavg.SOURCE.name)  # the next change is seen in its second
        return tuple(due)

    def is_due(
        self,
        blocked: int,
        now: float,
        *,
        changes: LoadChanges,
        is_followed: bool,
        is_suspected: bool,
    ) -> bool:
        """Return whether to poll now.

        `blocked` is what '/proc/stat' counts, `is_followed`: the last poll saw a wait go on,
        `is_suspected`: a kernel line, a hanging or a suspended device shows that tasks wait.
        """
        self._take(changes, now)
        self._blocked_seconds = self._blocked_seconds + 1 if blocked else 0
        may_repeat = now - self._last_followed_seconds <= REPEAT_SECONDS
        is_followed_on = is_followed or may_repeat
        self.is_wanted = is_followed_on or is_suspected or self._has_uncounted(now)
        if not self.is_wanted and self._blocked_seconds < BLOCKED_SECONDS:
            return False
        elapsed = now - self._last_poll_seconds
        if elapsed > BUSY_SECONDS + 1.0:
            self._polls_in_row = 0
        is_answered = self._polls_in_row >= FIRST_POLLS and elapsed >= FOLLOWED_SECONDS
        # The last change may be of when those waited whose wait has just ended: it is seen late.
        is_after_waits = changes.last_seconds > self._last_followed_seconds + PERIOD_SECONDS
        if is_answered and changes.tasks and not is_followed and is_after_waits:
            self._refute(now)
        if is_followed:
            self._refuted_seconds = REFUTED_SECONDS
            self._last_followed_seconds = now
        # Only a second poll soon after the first one shows whether a wait goes on.
        is_near = is_followed_on or self._polls_in_row < FIRST_POLLS
        gap = BUSY_GAPS[(self._polls_in_row - FIRST_POLLS) % len(BUSY_GAPS)]
        if elapsed < (self._followed_seconds if is_near else gap) - EARLY_SECONDS:
            return False
        self._last_poll_seconds = now
        self._polls_in_row += 1
        return True

    def is_sweep_due(self, now: float, *, has_backlog: bool, is_followed: bool) -> bool:
        """Return whether to sweep now, and not only each 15 s.

        Who filled the queue must be known before anybody waits for it, and who moves the bytes
        when the first mail about a wait leaves.
        """
        is_new_backlog = has_backlog and not self._has_backlog
        self._has_backlog = has_backlog
        if not is_followed:
            self._sweeps_in_row = 0
        is_early = is_followed and self._sweeps_in_row < FIRST_SWEEPS
        if now - self._last_sweep_seconds < MIN_SWEEP_SECONDS - EARLY_SECONDS:
            return False
        if not (is_new_backlog or is_early):
            return False
        self._last_sweep_seconds = now
        self._sweeps_in_row += is_followed
        return True

    def _take(self, changes: LoadChanges, now: float) -> None:
        """Take what the last change of the load average shows."""
        is_new = changes.last_seconds != self._changes.last_seconds
        earlier = self._changes.tasks[-1] if self._changes.tasks else 0.0
        self._changes = changes
        if is_new and changes.tasks and changes.tasks[-1] >= earlier + MIN_TASKS:
            # Polls of before saw none of those that have become active since.
            self._polls_in_row = 0
        if is_new and changes.tasks and changes.tasks[-1] < MIN_TASKS:
            # What is active later on is something else, or the same once more.
            self._refuted_until = min(self._refuted_until, now + REFUTED_SECONDS)

    def _has_uncounted(self, now: float) -> bool:
        """Whether more tasks are active than run, and than those that polls saw not to wait."""
        refuted = self._refuted_tasks if now < self._refuted_until else 0.0
        return self._changes.waiting_tasks >= refuted + MIN_TASKS

    def _refute(self, now: float) -> None:
        """Record that the tasks that are active now do not wait."""
        last = self._changes.tasks[-1]
        if now >= self._refuted_until or last > self._refuted_tasks:
            self._refuted_tasks = last
            self._refuted_until = now + self._refuted_seconds
            self._refuted_seconds = min(2 * self._refuted_seconds, MAX_REFUTED_SECONDS)

    def read(self, machine: Machine) -> BlockedTasks:
        """Read the blocked tasks, in a thread."""
        polled = tasks.read_tasks(machine, is_wanted=self.is_wanted)
        return _with_pressure(machine, self._with_limits(machine, polled))

    def _with_limits(self, machine: Machine, polled: BlockedTasks) -> BlockedTasks:
        """Add their limits to tasks of control groups that two polls saw to wait.

        They are read once a minute, and what the groups did meanwhile at each poll.
        """
        now, limited = polled.boot_seconds, []
        self._limits = {
            groups: known
            for groups, known in self._limits.items()
            if now - known.seen_seconds <= FORGOTTEN_SECONDS
        }
        of_groups: dict[tuple[str, ...], tuple[GroupLimit, ...]] = {}
        uses: dict[tuple[str, str], Uses] = {}
        for task in polled.tasks:
            groups = task.groups or _groups_of(machine, task)
            if groups not in of_groups:
                known = self._limits_of(machine, groups, now)
                of_groups[groups] = tuple(
                    self._reached(machine, each, uses, now) for each in known.limits
                )
            limits, has_unreadable = of_groups[groups], self._limits[groups].has_unreadable
            if is_delayed_for_latency(task):
                limits += read_latency_targets(machine, groups)
            limited.append(replace(task, limits=limits, has_unreadable_limits=has_unreadable))
        self._uses = uses
        return replace(polled, tasks=tuple(limited))

    def _limits_of(self, machine: Machine, groups: tuple[str, ...], now: float) -> _Limits:
        """Return the limits of a group, none at the first poll that sees a task of it wait.

        Unless polls have failed, so that tasks have been blocked for long.
        """
        known = self._limits.get(groups)
        if known is None and self._blocked_seconds < LATE_SECONDS:
            known = _Limits(now)
        elif known is None or now - known.read_seconds > LIMITS_SECONDS:
            is_unreadable = has_unreadable_write_limits(machine, groups)
            known = _Limits(now, now, read_limits(machine, groups), is_unreadable)
        known = known._replace(seen_seconds=now)
        self._limits[groups] = known
        return known

    def _reached(
        self,
        machine: Machine,
        limit: GroupLimit,
        uses: dict[tuple[str, str], Uses],
        now: float,
    ) -> GroupLimit:
        """Return a limit with what its group is at; `uses` gets what it did until now."""
        if not limit.device:
            return limit._replace(reached=cgroup_use.reached_memory(machine, limit))
        key = limit.file, limit.device
        if key not in uses:
            newest = cgroup_use.Use(now, cgroup_use.read_counters(machine, limit))
            uses[key] = cgroup_use.next_uses(self._uses.get(key, ()), newest)
        return limit._replace(reached=cgroup_use.reached_rates(limit, uses[key]))

    def sweep(self, machine: Machine) -> Sweep:
        """Read the bytes of all processes, in a thread."""
        return process_io.read_sweep_if_due(
            machine, is_wanted=self.is_wanted or self.is_sweep_wanted
        )
