"""What processes and devices moved while tasks wait, and just before: who is the load. Pure.

A burst writer writes 200 MB within a second and then waits in fsync without a byte, or ends. So
sweeps of all processes begin before the wait, and of a young process everything it did counts.
Sources: proc(5), '/proc/PID/io'; kernel, kernel/exit.c (wait_task_zombie: what a process did is
added to the parent that waits for it). Units: bytes, seconds of the program's clock.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.procfs.process_io import increases, thread_increases
from iowarden.collectors.procfs.stat import USER_HZ
from iowarden.rules.signals.waits.freeze_cause import MIN_BACKLOG_BYTES
from iowarden.rules.signals.waits.harm import CAUSE_RATIO, NO_LOAD, Load, ProcessLoad

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from iowarden.collectors.block.diskstats import BlockIo
    from iowarden.collectors.procfs.process_io import ProcessIo, Sweep
    from iowarden.collectors.procfs.tasks import BlockedTask
    from iowarden.rules.signals.waits.waits import Wait

SWEPT_SECONDS = 30.0
"""The stored sweeps are so far apart at least, the first and the last."""
MOVED_INTERVAL_SECONDS, MAX_MOVED_SECONDS = 2.0, 180.0
"""For so long what the devices moved is remembered, to compare it with a task's own bytes."""
DENSE_SECONDS, SPARSE_SECONDS = 30.0, 10.0
"""What is older than the first is remembered so far apart."""
RECENT_SECONDS = 300.0
"""What a program wrote earlier than that filled another backlog."""
MIN_PROBABLE_BYTES = 8 << 20
"""Less of what is queued makes no program wait on a disk that works."""
YOUNG_SECONDS = 60.0
"""A process that began so shortly before the first sweep wrote everything into this backlog."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The counters of each device at one moment."""

    at_seconds: float
    blocks: Mapping[str, BlockIo]


@dataclass(frozen=True, slots=True)
class SweepMoment:
    """A sweep of all processes, and what the devices had moved at that moment."""

    sweep: Sweep
    moved: Moved


def next_sweeps(
    sweeps: tuple[SweepMoment, ...], newest: SweepMoment, queued_bytes: float = 0.0
) -> tuple[SweepMoment, ...]:
    """Return the sweeps with one more: three at most, the first of them from before the wait.

    They reach back to when what is queued now was written: who filled the queue is its owner until
    it has been written out, however long that takes.
    """
    if len(sweeps) < 3:
        return (*sweeps, newest)
    first, second, _ = sweeps
    is_long = newest.moved.at_seconds - second.moved.at_seconds >= SWEPT_SECONDS
    if is_long and _written_between(second, newest) >= queued_bytes:
        return (*sweeps[1:], newest)
    return first, second, newest  # those of a wait that has just begun follow each other soon


def _written_between(earlier: SweepMoment, later: SweepMoment) -> int:
    return sum(one.write_bytes for one in increases(earlier.sweep, later.sweep))


def since_before(
    sweeps: tuple[SweepMoment, ...], before_wait: SweepMoment | None
) -> tuple[SweepMoment, ...]:
    """Return the sweeps that cover a wait: the one from before it, and all later ones."""
    if before_wait is None:
        return sweeps
    at_seconds = before_wait.moved.at_seconds
    return (before_wait, *(one for one in sweeps if one.moved.at_seconds > at_seconds))


def before_wait(
    sweeps: tuple[SweepMoment, ...],
    earlier: SweepMoment | None,
    began_seconds: float,
    *,
    goes_on: bool,
) -> SweepMoment | None:
    """Return the sweep that the load behind a wait is measured from, None: there is none yet.

    That is the first of the stored sweeps, or the `earlier` one once the stored ones no longer
    reach back to before the oldest wait: who filled the queue may have ended, and its data are
    written all the time. While programs are blocked (`goes_on`) it is that for a minute at least.
    """
    if not sweeps:
        return earlier if goes_on else None
    first = sweeps[0]
    if earlier is None:
        return first
    age_seconds = sweeps[-1].moved.at_seconds - earlier.moved.at_seconds
    is_needed = first.moved.at_seconds > began_seconds
    is_needed |= goes_on and age_seconds <= YOUNG_SECONDS
    return earlier if is_needed else first


def next_moved(
    moved: tuple[Moved, ...], blocks: Mapping[str, BlockIo], now: float
) -> tuple[Moved, ...]:
    """Return what the devices moved, with this moment if the last one is old enough."""
    if moved and now - moved[-1].at_seconds < MOVED_INTERVAL_SECONDS:
        return moved
    return (*_thinned(moved, now), Moved(now, blocks))


def recent_moved(moved: tuple[Moved, ...], now: float) -> tuple[Moved, ...]:
    """Return what is still needed."""
    if not moved or now - moved[0].at_seconds <= MAX_MOVED_SECONDS:
        return moved
    return tuple(one for one in moved if now - one.at_seconds <= MAX_MOVED_SECONDS)


def _thinned(moved: tuple[Moved, ...], now: float) -> Iterator[Moved]:
    earlier = -SPARSE_SECONDS
    for one in moved:
        if now - one.at_seconds <= DENSE_SECONDS or one.at_seconds - earlier >= SPARSE_SECONDS:
            earlier = one.at_seconds
            yield one


def since(moved: tuple[Moved, ...], at_seconds: float) -> Moved | None:
    """Return the first moment that is not before a time, None: there is none but the last."""
    return next((one for one in moved[:-1] if one.at_seconds >= at_seconds), None)


def difference(before: Moved, after: Moved, devices: Collection[str]) -> tuple[int, int]:
    """Return the bytes that devices read and wrote between two moments."""
    read = written = 0
    for name in devices:
        earlier, later = before.blocks.get(name), after.blocks.get(name)
        if earlier is not None and later is not None:
            read += max(later.read_bytes_total - earlier.read_bytes_total, 0)
            written += max(later.written_bytes_total - earlier.written_bytes_total, 0)
    return read, written


def load(sweeps: tuple[SweepMoment, ...], leaves: Collection[str]) -> Load:
    """Return what processes and devices moved between the first and the last sweep.

    There have to be two. A process that was young at the first sweep counts with what it had done
    by then as well; one that ended meanwhile with what the last sweep that saw it shows.
    """
    first, last = sweeps[0], sweeps[-1]
    read, written = difference(first.moved, last.moved, leaves)
    threads = thread_increases(first.sweep, last.sweep)
    processes = {
        one.pid: ProcessLoad(
            one.pid, one.command, one.unit, one.read_bytes, one.write_bytes, threads.get(one.pid)
        )
        for one in increases(first.sweep, last.sweep)
    }
    begun = {process.key: process for process in first.sweep.processes}
    alive = {process.key for process in last.sweep.processes}
    not_read = frozenset(last.sweep.not_read)
    gone = {
        process.key: process
        for moment in sweeps
        for process in moment.sweep.processes
        if process.key not in alive and process.pid not in not_read
    }
    young = int((first.sweep.boot_seconds - YOUNG_SECONDS) * USER_HZ)
    for process in begun.values():
        if process.start_ticks >= young and process.key in alive:
            _add(processes, process)
    for process in gone.values():
        if process.start_ticks >= young:
            _add(processes, process)
            before = begun.get(process.key)
            _subtract_from_parent(processes, process, before)
    seconds = last.moved.at_seconds - first.moved.at_seconds
    return Load(seconds, tuple(processes.values()), read, written)


def _net(process: ProcessIo) -> int:
    return max(process.write_bytes - process.cancelled_write_bytes, 0)


def _add(processes: dict[int, ProcessLoad], process: ProcessIo) -> None:
    """Add the bytes that a process had moved since its start."""
    counted = processes.get(
        process.pid, ProcessLoad(process.pid, process.command, process.unit, 0, 0)
    )
    processes[process.pid] = replace(
        counted,
        read_bytes=counted.read_bytes + process.read_bytes,
        written_bytes=counted.written_bytes + _net(process),
    )


def _subtract_from_parent(
    processes: dict[int, ProcessLoad], process: ProcessIo, before: ProcessIo | None
) -> None:
    """Subtract what a process that ended did from its parent, to which the kernel added it.

    `before`: as the first sweep saw it, what `increases` has subtracted.
    """
    parent = processes.get(process.parent)
    if parent is None:
        return
    read = process.read_bytes - (0 if before is None else before.read_bytes)
    written = _net(process) - (0 if before is None else _net(before))
    if parent.read_bytes >= read and parent.written_bytes >= written:
        processes[parent.pid] = replace(
            parent,
            read_bytes=parent.read_bytes - read,
            written_bytes=parent.written_bytes - written,
        )


def probable_load(
    waits: Iterable[Wait],
    sweeps: tuple[SweepMoment, ...],
    *,
    queued_bytes: float | None,
    paused: Collection[int],
    uptime_seconds: float,
    mostly_reads: bool = False,
) -> Load:
    """Return what programs have probably written of what is queued.

    Without two sweeps there are only their bytes since their start: at their mean rate, those of
    the last minutes; and of a task that waits, those since the only sweep. Whether they went to
    this disk is not known, so a few are no reason to name anybody. A program that was `paused` for
    its writing is one that fills the queue. Where the disk `mostly_reads` and hardly anything is
    queued, those that wrote are not its load.
    """
    if queued_bytes is None or (mostly_reads and queued_bytes < MIN_BACKLOG_BYTES and not paused):
        return NO_LOAD
    queued = int(queued_bytes)
    processes: dict[int, ProcessLoad] = {
        one.pid: ProcessLoad(
            *(one.pid, one.command, one.unit, 0),
            _recent(one.write_bytes, one.start_ticks, uptime_seconds),
        )
        for moment in sweeps
        for one in moment.sweep.processes
    }
    tasks = [wait.task for wait in waits]
    names = {pid: one.command for pid, one in processes.items()}
    for task in tasks:
        pid = task.process or task.pid
        written = _recent(task.write_bytes or 0, task.start_ticks, uptime_seconds)
        written = max(written, _since_sweep(task, sweeps))
        if pid in paused:
            written = max(written, int(queued * CAUSE_RATIO) + 1)
        threads = _threads_since_sweep(pid, tasks, sweeps)
        if 2 * sum(threads.values()) < written:
            threads = {}  # another thread of it wrote most
        # The name of a thread is not that of its process.
        name = names.get(pid, task.command)
        processes[pid] = ProcessLoad(pid, name, task.unit, 0, written, threads or None)
    suspects = tuple(
        process
        for pid, process in processes.items()
        if pid in paused or min(process.written_bytes, queued) >= MIN_PROBABLE_BYTES
    )
    return Load(1.0, suspects, 0, queued, is_certain=False)


def _since_sweep(task: BlockedTask, sweeps: tuple[SweepMoment, ...]) -> int:
    """Return what the process of a task has written since the newest sweep that saw it."""
    pid = task.process or task.pid
    for moment in reversed(sweeps):
        for one in moment.sweep.processes:
            if one.pid == pid:
                return max((task.write_bytes or 0) - one.write_bytes, 0)
    return 0


def _threads_since_sweep(
    pid: int, tasks: Iterable[BlockedTask], sweeps: tuple[SweepMoment, ...]
) -> dict[int, int]:
    """Return what each waiting thread of a process has moved since the newest sweep that saw it."""
    earlier = {
        one.thread: one.moved_bytes
        for moment in sweeps
        for one in moment.sweep.threads
        if one.process == pid
    }
    return {
        task.pid: max(sum(task.counters[-2:]) - earlier[task.pid], 0)
        for task in tasks
        if task.process == pid and task.counters and task.pid in earlier
    }


def _recent(written_bytes: int, start_ticks: int, uptime_seconds: float) -> int:
    age = max(uptime_seconds - start_ticks / USER_HZ, 1.0)
    return int(written_bytes * min(1.0, RECENT_SECONDS / age))
