"""When the blocked tasks are polled: often while a program waits, else rarely.

'/proc/stat' counts only tasks in io_schedule. A frozen file system, the journal, a lock, NFS and
ZFS hold tasks that it does not count: the load average does, whose last change gives the number of
active tasks. Sources: kernel, kernel/sched/loadavg.c (each 5 s, EXP_1 = 1884 of 2048), and
Documentation/filesystems/proc.rst. Units: seconds of the program's clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.procfs import process_io, tasks
from iowarden.rules.signals.queue import phantom_reads

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.model import Reading
    from iowarden.collectors.procfs.process_io import Sweep
    from iowarden.collectors.procfs.tasks import BlockedTasks
    from iowarden.rules.engine.engine import Engine

FOLLOWED_SECONDS = 2.0
"""Between two polls while a wait goes on."""
BUSY_SECONDS = 5.0
"""Between two polls on a host where tasks are always blocked, none of them for long."""
FIRST_POLLS = 2
EARLY_SECONDS = 0.1
"""Tolerance: a turn of the loop may come a little early."""
BLOCKED_SECONDS = 2
"""Tasks that are blocked in so many seconds in a row are polled at."""
LOAD_DECAY = 0.92
"""EXP_1: what remains of the load average after 5 s."""
MIN_UNCOUNTED = 0.8
"""Active tasks above those that run, from which a program waits: one that did gave 0.94, 0.95 and
1.09, because the load average has two digits."""
LOAD_CHANGES = 3
"""Two of them in a row meet a turn of the loop by chance where the host is slow."""
REFUTED_SECONDS, MAX_REFUTED_SECONDS = 60.0, 960.0
"""After two polls that saw no wait go on, so many active tasks are no reason for another; each time
it is twice as long. The kernel counts iowarden as well where its tick meets a turn of the loop;
each tick is 5 s and one jiffy after the last (LOAD_FREQ), so that it may do so for minutes."""
SUSPECTED_SECONDS = 5.0
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


@dataclass(slots=True)
class TaskPolls:
    """Decides each second whether a poll is due; `read` and `sweep` are called by threads."""

    is_wanted: bool = False
    """Whether something other than '/proc/stat' shows that tasks wait."""
    is_sweep_wanted: bool = False
    """Whether the bytes of programs show something other than who makes tasks wait."""
    _blocked_seconds: int = 0
    _loads: tuple[float, ...] = ()
    """Active tasks that are not counted as running, at the last changes of the load average."""
    _last_load: tuple[float, float] | None = None
    """When the load average was read last, and its value."""
    _last_poll_seconds: float = float("-inf")
    _polls_in_row: int = 0
    _refuted_tasks: float = 0.0
    """How many active tasks polls saw not to wait, until `_refuted_until`."""
    _refuted_until: float = float("-inf")
    _refuted_seconds: float = REFUTED_SECONDS
    """For how long the next refutation holds."""

    def step(
        self, engine: Engine, readings: Iterable[Reading[object]], now: float
    ) -> tuple[str, ...]:
        """Return the collectors to be polled now; to be called each second after the signals."""
        snapshot = engine.last
        self.is_sweep_wanted = _has_phantom_reads(engine)
        if snapshot.stat is None:
            return ()
        is_load_new = any(reading.source == "loadavg" for reading in readings)
        if is_load_new and snapshot.loadavg is not None:
            self.add_load(snapshot.loadavg.load1, snapshot.stat.procs_running, now)
        is_due = self.is_due(
            snapshot.stat.procs_blocked,
            now,
            is_followed=engine.signals.harm().is_followed,
            is_suspected=_is_suspected(engine),
        )
        return ("tasks",) if is_due else ()

    def add_load(self, load1: float, running: int, now: float) -> None:
        """Take a reading of the load average, and how many tasks '/proc/stat' counts as running."""
        if self._last_load is not None:
            active = (load1 - LOAD_DECAY * self._last_load[1]) / (1 - LOAD_DECAY)
            # One that runs is iowarden itself, which reads.
            self._loads = (*self._loads, active - max(running - 1, 0))[-LOAD_CHANGES:]
            if self._loads[-1] < MIN_UNCOUNTED:
                # What is active later on is something else, or the same once more.
                self._refuted_until = min(self._refuted_until, now + REFUTED_SECONDS)
        self._last_load = now, load1

    def is_due(self, blocked: int, now: float, *, is_followed: bool, is_suspected: bool) -> bool:
        """Return whether to poll now.

        `blocked` is what '/proc/stat' counts, `is_followed`: the last poll saw a wait go on,
        `is_suspected`: a kernel line, a hanging or a suspended device shows that tasks wait.
        """
        self._blocked_seconds = self._blocked_seconds + 1 if blocked else 0
        self.is_wanted = is_followed or is_suspected or self._has_uncounted(now)
        if not self.is_wanted and self._blocked_seconds < BLOCKED_SECONDS:
            return False
        elapsed = now - self._last_poll_seconds
        if elapsed > BUSY_SECONDS + 1.0:
            self._polls_in_row = 0
        is_answered = self._polls_in_row >= FIRST_POLLS and elapsed >= FOLLOWED_SECONDS
        if is_answered and self._loads and not is_followed:
            self._refute(now)
        if is_followed:
            self._refuted_seconds = REFUTED_SECONDS
        # Only a second poll soon after the first one shows whether a wait goes on.
        is_near = is_followed or self._polls_in_row < FIRST_POLLS
        if elapsed < (FOLLOWED_SECONDS if is_near else BUSY_SECONDS) - EARLY_SECONDS:
            return False
        self._last_poll_seconds = now
        self._polls_in_row += 1
        return True

    def _has_uncounted(self, now: float) -> bool:
        """Whether more tasks are active than run, and than those that polls saw not to wait."""
        if len(self._loads) < LOAD_CHANGES:
            return False
        refuted = self._refuted_tasks if now < self._refuted_until else 0.0
        return min(self._loads) >= refuted + MIN_UNCOUNTED

    def _refute(self, now: float) -> None:
        """Record that the tasks that are active now do not wait."""
        if now >= self._refuted_until or self._loads[-1] > self._refuted_tasks:
            self._refuted_tasks = self._loads[-1]
            self._refuted_until = now + self._refuted_seconds
            self._refuted_seconds = min(2 * self._refuted_seconds, MAX_REFUTED_SECONDS)

    def read(self, machine: Machine) -> BlockedTasks:
        """Read the blocked tasks, in a thread."""
        return tasks.read_tasks(machine, is_wanted=self.is_wanted)

    def sweep(self, machine: Machine) -> Sweep:
        """Read the bytes of all processes, in a thread."""
        return process_io.read_sweep_if_due(
            machine, is_wanted=self.is_wanted or self.is_sweep_wanted
        )
