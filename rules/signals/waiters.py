"""Who waits, and for whom: programs that are blocked at a device, or by others' writing.

What root sees of tasks in uninterruptible sleep tells more than how many there are: a paused writer
is flow control, and a task that waits for a suspended volume is its harm.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iowarden.collectors.tasks import writeback_channel
from iowarden.collectors.vocabulary import Family, Sample
from iowarden.rules.signals.activity import members

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.block import Topology
    from iowarden.collectors.tasks import Tasks
    from iowarden.rules.signals.table import View

SEEN_SECONDS = 12.0
"""A program that was seen blocked counts until two looks after: between two waits it runs."""
WRITER_SECONDS = 600.0
"""Who was paused for its writing lately is a writer, also in its fsync at the end."""

FAMILIES = (
    Family(
        "iowarden_device_waiting_tasks",
        "gauge",
        "Tasks in uninterruptible sleep that use a file on a device, or are its kernel threads.",
    ),
    Family(
        "iowarden_tasks_blocked_bystanders",
        "gauge",
        "Programs seen blocked lately, but for those that the kernel pauses for their own writing.",
    ),
)


@dataclass(frozen=True, slots=True)
class WaitState:
    """When processes were last seen, by number: as paused writers, and as others."""

    writers: Mapping[int, float]
    others: Mapping[int, float]


EMPTY = WaitState({}, {})


def step(state: WaitState, view: View) -> tuple[WaitState, list[Sample] | None]:
    """Return the state after a look at who waits, and how many do at each device.

    None where nobody can tell: between looks, and without somebody who may look.
    """
    value: Tasks | None = view.inputs.values.get("tasks")
    if value is None or "tasks" not in view.inputs.fresh:
        return state, None
    if value.unseen:
        return EMPTY, []
    now = view.inputs.now_seconds
    programs = [task for task in value.tasks if not task.kernel]
    paused = [task for task in programs if writeback_channel(task) == "balance_dirty_pages"]
    writers = {key: at for key, at in state.writers.items() if now - at <= WRITER_SECONDS}
    writers |= dict.fromkeys((task.process or task.pid for task in paused), now)
    others = {key: at for key, at in state.others.items() if now - at <= SEEN_SECONDS}
    others |= dict.fromkeys((task.process or task.pid for task in programs), now)
    others = {key: at for key, at in others.items() if key not in writers}
    samples: list[Sample] = [("iowarden_tasks_blocked_bystanders", (), float(len(others)))]
    if view.derived is not None:
        waiting = devices(value, view.derived.topology)
        samples += [
            ("iowarden_device_waiting_tasks", (("device", name),), float(count))
            for name, count in sorted(waiting.items())
        ]
    return WaitState(writers, others), samples


def devices(value: Tasks, topology: Topology) -> dict[str, int]:
    """Return how many tasks wait at each device: where their file is, and what that stands on."""
    found: Counter[str] = Counter()
    for task in value.tasks:
        own = topology.whole(task.waits_at) if task.waits_at else None
        if own is not None:
            found.update(members(topology, own.name))
    return dict(found)
