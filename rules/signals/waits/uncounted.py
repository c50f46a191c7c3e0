"""Active tasks that '/proc/stat' does not count as running, by the load average. Pure.

'/proc/stat' counts as blocked only tasks in io_schedule. A frozen file system, the journal, a lock,
NFS and ZFS hold tasks that it does not count: the load average does, whose last change gives the
number of active tasks. Source: kernel, kernel/sched/loadavg.c (each 5 s and one tick, EXP_1 = 1884
of 2048). Units: seconds of the program's clock.
"""

from __future__ import annotations

from iowarden.collectors.dataclass import dataclass

PERIOD_SECONDS = 5.0
"""Between two changes of the load average (LOAD_FREQ)."""
DECAY = 0.92
"""EXP_1: what remains of it after that time."""
MIN_TASKS = 0.8
"""Active tasks above those that run, from which a program waits: one that did gave 0.94, 0.95 and
1.09, because the load average has two digits."""
CHANGES = 2
"""In a row; one alone is any task that ran at the kernel's tick."""
_EARLY_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class LoadChanges:
    """The last changes of the load average.

    `tasks`: active tasks that are not counted as running, at the last `CHANGES` of them.
    """

    tasks: tuple[float, ...] = ()
    last_seconds: float = 0.0
    """When the last change was seen; `last_load` is the average since."""
    last_load: float | None = None
    since_seconds: float | None = None
    """When a task began to wait, within 2.5 s; None: the last `CHANGES` do not show one."""

    @property
    def waiting_tasks(self) -> float:
        """How many tasks have been active at each of the last changes without being counted."""
        return min(self.tasks) if len(self.tasks) == CHANGES else 0.0

    @property
    def counted_seconds(self) -> float | None:
        """When a change first counted a task that waits; None: no change did."""
        since = self.since_seconds
        return None if since is None else since + 0.5 * PERIOD_SECONDS

    @property
    def is_suspicious(self) -> bool:
        """Whether the last change may be the first that shows a task which waits."""
        return bool(self.tasks) and self.tasks[-1] >= MIN_TASKS


NO_CHANGES = LoadChanges()


def next_changes(changes: LoadChanges, load1: float, running: int, now: float) -> LoadChanges:
    """Return the changes after a reading; `running`: the tasks that '/proc/stat' counts as such.

    Of a reading less than 5 s after the last change an equal average is none: it was read early.
    """
    if changes.last_load is None:
        return LoadChanges((), now, load1)
    is_early = now - changes.last_seconds < PERIOD_SECONDS - _EARLY_SECONDS
    if is_early and load1 == changes.last_load:
        return changes
    active = (load1 - DECAY * changes.last_load) / (1 - DECAY)
    # One that runs is iowarden itself, which reads.
    tasks = (*changes.tasks, active - max(running - 1, 0))[-CHANGES:]
    since = None
    if len(tasks) == CHANGES and min(tasks) >= MIN_TASKS:
        # It began between the first of them and the change before: in the middle.
        began = now - (CHANGES - 0.5) * PERIOD_SECONDS
        since = began if changes.since_seconds is None else changes.since_seconds
    return LoadChanges(tasks, now, load1, since)
