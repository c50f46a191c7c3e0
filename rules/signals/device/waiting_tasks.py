"""Which devices tasks wait for, as far as it decides whether a device hangs. Pure.

A device that completes nothing harms those who wait for it. Where polls show that none does, or
only the program that fills it, a pause is judged otherwise. Units: seconds of the program's clock.
"""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.procfs.tasks import writeback_channel
from iowarden.rules.signals import discards, guards

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.procfs.tasks import BlockedTask
    from iowarden.rules.signals.discards import Discarder

POLLED_SECONDS = 30.0
"""After so long a poll is no evidence: the probe may hang as well."""
WRITER_SECONDS = 600.0
"""A program paused for its writing within this time is a writer, also in its final fsync."""
_PAUSED = "balance_dirty_pages"
_SYNC = ("vfs_fsync", "do_fsync", "file_write_and_wait", "sync_file_range")
"""Source: kernel, fs/sync.c, mm/filemap.c."""


@dataclass(frozen=True, slots=True)
class WaitingTasks:
    """What the last poll showed, by leaf device."""

    polled_seconds: float = -math.inf
    waited_for: frozenset[str] | None = None
    """Devices that tasks wait for, None: that of some task is not known, or nothing was polled."""
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


NOTHING = WaitingTasks()


def polled(
    before: WaitingTasks,
    tasks: Iterable[BlockedTask],
    topology: Topology,
    now: float,
    discards_at: str = "",
) -> WaitingTasks:
    """Return what a poll at all blocked tasks shows.

    `discards_at`: the only device on which those may discard of which it is not known.
    """
    seen = discards.placed(tasks, topology, discards_at)
    writers = {pid: at for pid, at in before.writers.items() if now - at <= WRITER_SECONDS}
    writers |= {_process(task): now for task in seen if writeback_channel(task) == _PAUSED}
    by_leaf, placeless = guards.by_leaf(seen, topology)
    # Of a kernel thread the device is mostly not known; it writes for others.
    is_known = all(task.kernel for task in placeless)
    # A discard of several disks, one of which stands: no task waits for the others.
    others = [task for task in placeless if not discards.is_discard(task)]
    writing = {leaf for leaf, own in by_leaf.items() if _is_writer_only(own, writers)}
    return WaitingTasks(
        now,
        None if others else frozenset(by_leaf),
        discards.discarding(seen, topology),
        discards_at,
        {leaf: len(own) for leaf, own in by_leaf.items() if all(map(guards.is_command, own))},
        frozenset(writing) if is_known else frozenset(),
        writers,
    )


def aged(state: WaitingTasks, now: float) -> WaitingTasks:
    """Return what is still valid of the last poll."""
    if now - state.polled_seconds <= POLLED_SECONDS or state.polled_seconds == -math.inf:
        return state
    return WaitingTasks(writers=state.writers)


def _process(task: BlockedTask) -> int:
    return task.process or task.pid


def _is_writer_only(tasks: Iterable[BlockedTask], writers: Mapping[int, float]) -> bool:
    """Whether programs wait, and all of them are those that write."""
    programs = [task for task in tasks if not task.kernel]
    return bool(programs) and all(_is_writing(task, writers) for task in programs)


def _is_writing(task: BlockedTask, writers: Mapping[int, float]) -> bool:
    """Whether a program waits for what it wrote itself, as far as one poll shows it."""
    if _process(task) not in writers:
        return False
    return bool(writeback_channel(task)) or any(name.startswith(_SYNC) for name in task.stack)
