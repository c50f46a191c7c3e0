"""Which devices tasks wait for, as far as it decides whether a device hangs. Pure.

A device that completes nothing harms those who wait for it. Where polls show that none does, or
only the program that fills it, a pause is judged otherwise. Units: seconds of the program's clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.procfs.tasks import writeback_channel
from iowarden.rules.signals import discards, guards
from iowarden.rules.signals.activity import stack_below
from iowarden.rules.signals.storage_call import Purpose, may_wait_for_disk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.procfs.tasks import BlockedTask, BlockedTasks
    from iowarden.rules.signals.discards import Discarder
    from iowarden.rules.signals.signal import View

POLLED_SECONDS = 30.0
"""After so long a poll is no evidence: the probe may hang as well."""
AWAITED_SECONDS = 4.0
"""Two polls show that a call has not returned for so long."""
WRITER_SECONDS = 600.0
"""A program paused for its writing within this time is a writer, also in its final fsync."""
Causes = Mapping[int, frozenset[int] | None]
"""Processes that cause the load, with the threads that do; None: all of them."""
NO_CAUSES: Causes = {}
_PAUSED = "balance_dirty_pages"
_SYNC = ("vfs_fsync", "do_fsync", "file_write_and_wait", "sync_file_range")
"""Source: kernel, fs/sync.c, mm/filemap.c."""


class Call(NamedTuple):
    """A system call of one task: as long as it does not return, all of this is the same."""

    pid: int
    start_ticks: int
    system_call: str
    voluntary_switches: int | None


@dataclass(frozen=True, slots=True)
class WaitingTasks:
    """What the last poll showed, by device."""

    polled_seconds: float = -math.inf
    polled_boot_seconds: float = 0.0
    """The host's uptime at that poll: a recording returns one until the next."""
    waited_for: frozenset[str] | None = None
    """Devices that tasks wait for, with those below them; None: nothing was polled."""
    placeless: frozenset[Call] = frozenset()
    """Of tasks that may wait for a disk, and it is not known for which."""
    unexplained: frozenset[Call] = frozenset()
    """Those of them that went on while no disk had anything to do, but for what is in flight since
    before the first sample: it is what they wait for, or they wait for something else."""
    discards: Mapping[str, Discarder] = field(default_factory=dict)
    """Devices for whose discards tasks wait, with what discards."""
    discards_at: str = ""
    """Where tasks discard of which that is not known, '': it may be one of several."""
    commands: Mapping[str, int] = field(default_factory=dict)
    """Of devices that no other task waits for, how many programs wait for commands of theirs."""
    writer_only: frozenset[str] = frozenset()
    """Devices that no program waits for but those that fill them."""
    writers: Mapping[int, float] = field(default_factory=dict)
    """Processes that were paused for their writing, and when they last were."""
    discarders_only: frozenset[str] = frozenset()
    """Devices that no task waits for but those that discard: programs started for it, or threads.
    """
    unplaced_discards: bool = False
    """Whether tasks discard, and it is not known where."""
    awaited: frozenset[str] = frozenset()
    """Devices for which tasks have waited in one call: what stays in flight may be their request.
    """


NOTHING = WaitingTasks()


def polled(
    before: WaitingTasks,
    tasks: BlockedTasks,
    topology: Topology,
    now: float,
    discards_at: str = "",
    *,
    is_calm: bool = False,
    causes: Causes = NO_CAUSES,
) -> WaitingTasks:
    """Return what a poll at all blocked tasks shows.

    `discards_at`: the only device on which those may discard of which it is not known. `is_calm`:
    since the sample before no disk had anything to do, but for what is in flight since before the
    first one. `causes`: who causes the load by what they wrote.
    """
    seen = discards.placed(tasks.tasks, topology, discards_at)
    writers = {pid: at for pid, at in before.writers.items() if now - at <= WRITER_SECONDS}
    writers |= {_process(task): now for task in seen if writeback_channel(task) == _PAUSED}
    by_device, placeless = _by_device(seen, topology)
    of_disks = [task for task in placeless if may_wait_for_disk(task)]
    # Of a kernel thread the device is mostly not known; it writes for others.
    is_known = all(task.kernel for task in of_disks)
    # A discard of several disks, one of which stands: no task waits for the others.
    calls = frozenset(_call(task) for task in of_disks if not discards.is_discard(task))
    is_first = before.polled_seconds == -math.inf
    going_on = (calls if is_first else calls & before.placeless) if is_calm else frozenset()
    filled = {name for name, own in by_device.items() if _is_writer_only(own, writers, causes)}
    alone = {name for name, own in by_device.items() if all(map(_discards_for_itself, own))}
    # Of some it is only likely that they discard there: its other requests may be a program's.
    alone -= {
        name
        for task in seen
        if task not in tasks.tasks
        for name in stack_below(topology, task.waits_at)
    }
    return WaitingTasks(
        now,
        tasks.boot_seconds,
        frozenset(by_device),
        calls,
        going_on | (calls & before.unexplained),
        discards.discarding(seen, topology),
        discards_at,
        {name: len(own) for name, own in by_device.items() if all(map(guards.is_command, own))},
        frozenset(filled) if is_known else frozenset(),
        writers,
        # Who waits in the same call as before may wait for any device.
        frozenset() if calls & before.placeless else frozenset(alone),
        any(discards.is_discard(task) for task in placeless),
    )


def _by_device(
    tasks: Iterable[BlockedTask], topology: Topology
) -> tuple[dict[str, list[BlockedTask]], list[BlockedTask]]:
    """Return tasks by the devices for which they wait and those below, and tasks without one."""
    waiting: dict[str, list[BlockedTask]] = {}
    placeless = []
    for task in tasks:
        stack = stack_below(topology, task.waits_at) if task.waits_at else frozenset()
        if not stack:
            placeless.append(task)
        for name in stack:
            waiting.setdefault(name, []).append(task)
    return waiting, placeless


def _call(task: BlockedTask) -> Call:
    return Call(task.pid, task.start_ticks, task.system_call, task.voluntary_switches)


def awaited(view: View, topology: Topology) -> frozenset[str]:
    """Return the devices for which tasks have waited in one call, with those below them.

    One for which the device is not known may wait for any, if it is seen to wait for storage.
    """
    # Of a group after those about devices the state is that of the second before.
    polls = view.states["waits"].polls if "waits" in view.states else None
    now = view.inputs.now_seconds
    if polls is None or polls.last_seconds is None or now - polls.last_seconds > POLLED_SECONDS:
        return frozenset()
    found: set[str] = set()
    for wait in polls.waits.values():
        if wait.min_seconds >= AWAITED_SECONDS and may_wait_for_disk(wait.task):
            stack = stack_below(topology, wait.task.waits_at) if wait.task.waits_at else ()
            is_anywhere = not stack and wait.purpose is Purpose.STORAGE
            found |= frozenset(topology.devices) if is_anywhere else frozenset(stack)
    return frozenset(found)


def aged(state: WaitingTasks, now: float) -> WaitingTasks:
    """Return what is still valid of the last poll."""
    if now - state.polled_seconds <= POLLED_SECONDS or state.polled_seconds == -math.inf:
        return state
    return WaitingTasks(writers=state.writers)


def _process(task: BlockedTask) -> int:
    return task.process or task.pid


def _discards_for_itself(task: BlockedTask) -> bool:
    """Whether a task waits for a discard, and no program for the task: not one that commits."""
    return discards.is_discard(task) if task.kernel else discards.requests_discard(task)


def _is_writer_only(
    tasks: Iterable[BlockedTask], writers: Mapping[int, float], causes: Causes
) -> bool:
    """Whether programs wait, and all of them are those that write."""
    programs = [task for task in tasks if not task.kernel]
    return bool(programs) and all(
        (_process(task) in writers or _is_cause(task, causes)) and _is_writing(task)
        for task in programs
    )


def _is_cause(task: BlockedTask, causes: Causes) -> bool:
    """Whether a task is one that causes the load: of several threads one that wrote."""
    process = _process(task)
    threads = causes.get(process)
    return process in causes and (threads is None or task.pid in threads)


def _is_writing(task: BlockedTask) -> bool:
    """Whether a program that writes waits for what it wrote, as far as one poll shows it."""
    return bool(writeback_channel(task)) or any(name.startswith(_SYNC) for name in task.stack)
