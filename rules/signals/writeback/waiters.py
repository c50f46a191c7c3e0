"""Blocked tasks: which programs wait at a device, or because of the writing of other programs.

Root can read what tasks in uninterruptible sleep wait for, which is more than their number: a
paused writer is flow control, a task that waits for a suspended volume is harmed. While too much
data is queued, the kernel pauses every writer, the one that filled the queue and the one that
writes a line to a log: their write rates distinguish them.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.collectors.procfs.stat import USER_HZ
from iowarden.collectors.procfs.tasks import writeback_channel
from iowarden.rules.signals.activity import members
from iowarden.rules.signals.signal import SignalGroup
from iowarden.rules.signals.writeback import writeback

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.procfs.tasks import BlockedTask, BlockedTasks
    from iowarden.rules.signals.signal import View

SEEN_SECONDS = 12.0
"""A program found blocked counts until two samples later: between two waits it runs."""
WRITER_SECONDS = 600.0
"""A program paused for its writing within this time counts as a writer, also in its final fsync."""
FILLS_SECONDS = 12_000.0
"""A program that would need longer to write what is queued did not fill the queue: it is affected
by it. When 100 programs copy in parallel and the disk is two minutes behind, each still counts as a
writer."""
YOUNG_SECONDS = 60.0
"""Up to this age the total that a program wrote is used; an older one may have begun lately."""
MEASURED_SECONDS = 10.0
"""Time after the first sample from which the current write rate is known."""


@dataclass(frozen=True, slots=True)
class WaitState:
    """When processes were last seen, by process ID: as paused writers, and as others.

    `first` holds of each paused process when it was first seen paused and what it had written then.
    """

    writers: Mapping[int, float]
    others: Mapping[int, float]
    first: Mapping[int, tuple[float, int]]
    polled_seconds: float = -math.inf
    """When tasks were last polled, if those of all users can be."""

    def is_writer_only(self, now: float) -> bool:
        """Whether it is known that only programs wait that fill the queue."""
        return not self.others and now - self.polled_seconds <= SEEN_SECONDS


EMPTY = WaitState({}, {}, {})


def step(state: WaitState, view: View) -> tuple[WaitState, list[Sample] | None]:
    """Return the state after a sample, and the number of tasks that wait at each device.

    None where it cannot be computed: between samples, and without permission to read other users'
    tasks.
    """
    value = view.inputs.snapshot.tasks
    if value is None or "tasks" not in view.inputs.fresh:
        return state, None
    if value.unseen:
        return EMPTY, []
    now = view.inputs.now_seconds
    programs = [task for task in value.tasks if not task.kernel]
    paused = {
        task.process or task.pid: task
        for task in programs
        if writeback_channel(task) == "balance_dirty_pages"
    }
    first = {key: of for key, of in state.first.items() if now - of[0] <= WRITER_SECONDS}
    for key, task in paused.items():
        first.setdefault(key, (now, task.write_bytes or 0))
    held = writeback.seen(view)
    queued = 0.0 if held is None else held.queued_bytes
    fills = {key: _fills(task, first[key], view, queued) for key, task in paused.items()}
    writers = {key: at for key, at in state.writers.items() if now - at <= WRITER_SECONDS}
    writers |= dict.fromkeys((key for key, filling in fills.items() if filling), now)
    others = {key: at for key, at in state.others.items() if now - at <= SEEN_SECONDS}
    seen = (task.process or task.pid for task in programs)
    others |= dict.fromkeys((key for key in seen if fills.get(key, False) is not None), now)
    others = {key: at for key, at in others.items() if key not in writers}
    samples: list[Sample] = [("iowarden_tasks_blocked_not_writing", (), float(len(others)))]
    if view.derived is not None:
        waiting = devices(value, view.derived.topology)
        samples += [
            ("iowarden_device_blocked_tasks", (("device", name),), float(count))
            for name, count in sorted(waiting.items())
        ]
    return WaitState(writers, others, first, now), samples


def _fills(
    task: BlockedTask, first: tuple[float, int], view: View, queued_bytes: float
) -> bool | None:
    """Return whether a paused program is one of those that fill the queue; None: not known yet.

    A program whose written bytes cannot be read counts as one. Source: kernel, mm/page-writeback.c:
    pages that a program makes dirty are counted at once (folio_account_dirtied: '/proc/PID/io',
    write_bytes), and such a program is paused (balance_dirty_pages).
    """
    if task.write_bytes is None:
        return True
    at, written = first
    elapsed = view.inputs.now_seconds - at
    age = view.inputs.uptime_seconds - task.start_ticks / USER_HZ
    speed = task.write_bytes / max(age, YOUNG_SECONDS)
    if elapsed >= MEASURED_SECONDS:
        speed = max(speed, (task.write_bytes - written) / elapsed)
    if speed * FILLS_SECONDS >= queued_bytes:
        return True
    return None if age > YOUNG_SECONDS and elapsed < MEASURED_SECONDS else False


def devices(value: BlockedTasks, topology: Topology) -> dict[str, int]:
    """Return how many tasks wait at each device: at that of their file, and at those below it."""
    found: Counter[str] = Counter()
    for task in value.tasks:
        own = topology.whole(task.waits_at) if task.waits_at else None
        if own is not None:
            found.update(members(topology, own.name))
    return dict(found)


GROUP = SignalGroup(
    name="waiters",
    sources=("tasks",),
    families=(
        Family(
            "iowarden_device_blocked_tasks",
            "gauge",
            "Tasks in uninterruptible sleep that use a file on this device, or are its kernel"
            " threads.",
        ),
        Family(
            "iowarden_tasks_blocked_not_writing",
            "gauge",
            "Programs blocked within the last 12 s, without those that the kernel pauses for"
            " their own writing.",
        ),
    ),
    step=step,
    initial=EMPTY,
)
