"""Who waits, and for whom: programs that are blocked at a device, or by others' writing.

What root sees of tasks in uninterruptible sleep tells more than how many there are: a paused writer
is flow control, and a task that waits for a suspended volume is its harm. The kernel pauses whoever
writes while too much is queued, who filled the queue and who writes a line to a log: how much a
program writes tells them apart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Sample
from iowarden.collectors.procfs.stat import USER_HZ
from iowarden.collectors.procfs.tasks import writeback_channel
from iowarden.rules.signals.activity import members
from iowarden.rules.signals.signal import Group
from iowarden.rules.signals.writeback import writeback

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.procfs.tasks import Task, Tasks
    from iowarden.rules.signals.signal import View

SEEN_SECONDS = 12.0
"""A program that was seen blocked counts until two looks after: between two waits it runs."""
WRITER_SECONDS = 600.0
"""Who was paused for its writing lately is a writer, also in its fsync at the end."""
FILLS_SECONDS = 12_000.0
"""Whoever would need longer to write what is queued did not fill the queue: it is harmed by it. Of
100 programs that copy side by side, the disk two minutes behind, each is still a writer."""
YOUNG_SECONDS = 60.0
"""What a program no older wrote in all tells; an older one may have begun lately."""
MEASURED_SECONDS = 10.0
"""So long after the first look it is known how fast it writes now."""


@dataclass(frozen=True, slots=True)
class WaitState:
    """When processes were last seen, by number: as paused writers, and as others.

    Of those that were paused `first` has when that was first seen, and what they had written then.
    """

    writers: Mapping[int, float]
    others: Mapping[int, float]
    first: Mapping[int, tuple[float, int]]


EMPTY = WaitState({}, {}, {})


def step(state: WaitState, view: View) -> tuple[WaitState, list[Sample] | None]:
    """Return the state after a look at who waits, and how many do at each device.

    None where nobody can tell: between looks, and without somebody who may look.
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
    samples: list[Sample] = [("iowarden_tasks_blocked_bystanders", (), float(len(others)))]
    if view.derived is not None:
        waiting = devices(value, view.derived.topology)
        samples += [
            ("iowarden_device_waiting_tasks", (("device", name),), float(count))
            for name, count in sorted(waiting.items())
        ]
    return WaitState(writers, others, first), samples


def _fills(task: Task, first: tuple[float, int], view: View, queued_bytes: float) -> bool | None:
    """Return whether a paused program is one of those that fill the queue; None: not known yet.

    One whose bytes cannot be read is. Source: kernel, mm/page-writeback.c: what a program makes
    dirty is counted at once (folio_account_dirtied: '/proc/PID/io', write_bytes), and whoever does
    so is paused (balance_dirty_pages).
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


def devices(value: Tasks, topology: Topology) -> dict[str, int]:
    """Return how many tasks wait at each device: where their file is, and what that stands on."""
    found: Counter[str] = Counter()
    for task in value.tasks:
        own = topology.whole(task.waits_at) if task.waits_at else None
        if own is not None:
            found.update(members(topology, own.name))
    return dict(found)


GROUP = Group(
    name="waiters",
    sources=("tasks",),
    families=(
        Family(
            "iowarden_device_waiting_tasks",
            "gauge",
            "Tasks in uninterruptible sleep that use a file on a device, or are its kernel"
            " threads.",
        ),
        Family(
            "iowarden_tasks_blocked_bystanders",
            "gauge",
            "Programs seen blocked lately, but for those whose own writing the kernel holds back.",
        ),
    ),
    step=step,
    initial=EMPTY,
)
