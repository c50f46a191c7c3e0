"""Evidence about disks with requests in flight, and about waiting tasks. Pure.

Units: seconds of Unix time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.procfs.tasks import writeback_channel
from iowarden.collectors.quantity import quantity
from iowarden.rules.notice import Evidence
from iowarden.rules.topology.device_identity import identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.procfs.tasks import BlockedTask, BlockedTasks

MAX_DISKS = 24
"""Disks that a line lists."""
MAX_DESCRIBED = 2
"""Disks that a line describes with model and serial number; of more, only the device names."""
MAX_WAITING = 5
"""Waiting tasks that a mail lists."""
IN_FLIGHT = "requests in flight: "
DISKSTATS = "diskstats"
"""Data source of evidence about requests in flight."""
TASKS = "tasks"
"""Data source of evidence about waiting tasks."""


def evidence(
    tasks: BlockedTasks | None,
    busy: Sequence[str],
    topology: Topology | None,
    realtime_seconds: float,
) -> Iterator[Evidence]:
    """Yield lines about disks with requests in flight, and about waiting tasks."""
    if busy:
        names = list(busy[:MAX_DISKS])
        if len(names) <= MAX_DESCRIBED:
            names = [identity(topology, name).object for name in names]
        more = ", ..." if busy[MAX_DISKS:] else ""
        text = f"{IN_FLIGHT}{', '.join(names)}{more}"
        yield Evidence(realtime_seconds, DISKSTATS, text)
    if tasks is not None:
        yield from _waiting(tasks, realtime_seconds)


def _waiting(tasks: BlockedTasks, realtime_seconds: float) -> Iterator[Evidence]:
    """Yield lines about waiting tasks: programs first, sorted by the bytes they wrote."""
    ranked = sorted(tasks.tasks, key=lambda task: (task.kernel, -(task.write_bytes or 0)))
    processes: set[int] = set()
    for task in ranked[:MAX_WAITING]:
        process = task.process or task.pid
        # What a process wrote is not what each of its threads wrote: it is said once.
        text = _waits(task) + (_wrote(task) if process not in processes else "")
        processes.add(process)
        yield Evidence(realtime_seconds, TASKS, text)
    left = tasks.count - len(ranked[:MAX_WAITING])
    if ranked and left > 0:
        yield Evidence(
            realtime_seconds, TASKS, "1 more task waits" if left == 1 else f"{left} more tasks wait"
        )


def _waits(task: BlockedTask) -> str:
    thread = f", thread {task.pid}" if task.process else ""
    kind = ", kernel thread" if task.kernel else ""
    stack = task.stack[0] if task.stack else "the kernel"
    place = writeback_channel(task) or task.wait_channel or stack
    return f"{task.command} (pid {task.process or task.pid}{thread}{kind}) waits in {place}"


def _wrote(task: BlockedTask) -> str:
    """Return what the process of a task wrote, '' if that is not known, or it is the kernel's."""
    if task.write_bytes is None or task.kernel:
        return ""
    whose = ", its process wrote" if task.process else ", wrote"
    return f"{whose} {quantity('_bytes', task.write_bytes)} since its start"
