"""iowarden's own tasks. On a disk that hangs they wait like any other, which harms no program.

Those are the threads of the service, the probe, and the programs that it runs, such as smartctl and
dumpe2fs, which open the very disk that hangs.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iowarden.collectors.procfs.process_io import unit_of
from iowarden.rules.events import hung

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iowarden.collectors.event import StorageEvent
    from iowarden.collectors.kernel.hung_task import HungTask
    from iowarden.collectors.model import Reading
    from iowarden.collectors.procfs.tasks import BlockedTask, BlockedTasks

UNITS = frozenset({"iowarden.service", "iowarden-probe.service"})
_NAME = "iowarden"
"""Of the service and its threads, as the kernel has it."""
_TASKS, _HUNG_TASK = "tasks", "hung_task"
_MAX_ANCESTORS = 8
_PARENT = re.compile(r"^PPid:\t([0-9]+)$", re.MULTILINE)


class OwnTasks:
    """The tasks of this service. `process` 0: a recording is played, whose tasks are others'."""

    def __init__(self, process: int = 0) -> None:
        """Start without a reading."""
        self.process = process
        self._own_since: dict[tuple[int, int], float] = {}
        """Since when a task is blocked, by number and start; by the program's clock."""
        self._other_since: dict[tuple[int, int], float] = {}
        self._is_complete = True
        """Whether the last reading had all blocked tasks."""
        self._reports: int | None = None
        """Of hung tasks, by the last reading."""
        self._own_reports = 0

    def without(self, reading: Reading[Any]) -> Reading[Any]:
        """Return a reading without what is of iowarden's own tasks; of most it is unchanged."""
        if reading.value is None or not self.process:
            return reading
        if reading.source == _TASKS:
            return self._without_tasks(reading)
        return self._attributed(reading) if reading.source == _HUNG_TASK else reading

    def _without_tasks(self, reading: Reading[BlockedTasks]) -> Reading[BlockedTasks]:
        value, now = reading.value, reading.monotonic_seconds
        assert value is not None  # noqa: S101 - as `without` passes it
        of_service: list[BlockedTask] = []
        others: list[BlockedTask] = []
        for task in value.tasks:
            is_own = task.unit in UNITS or self._is_below(task.process or task.pid)
            (of_service if is_own else others).append(task)
        self._own_since = _blocked_since(self._own_since, of_service, now)
        self._other_since = _blocked_since(self._other_since, others, now)
        self._is_complete = len(value.tasks) == value.count
        remaining = replace(value, tasks=tuple(others), count=value.count - len(of_service))
        return replace(reading, value=remaining)

    def _attributed(self, reading: Reading[HungTask]) -> Reading[HungTask]:
        """Return the kernel's count of hung tasks with how many of these are of iowarden.

        All of an increase, while no other task is blocked for half as long as a hung one: the log
        has only the first ten, then nothing names them.
        """
        value = reading.value
        assert value is not None  # noqa: S101 - as `without` passes it
        before, self._reports = self._reports, value.reports
        if before is not None and self._reports is not None and self._reports > before:
            since = reading.monotonic_seconds - (value.timeout_seconds or 0) / 2
            is_own = any(seconds <= since for seconds in self._own_since.values())
            is_other = any(seconds <= since for seconds in self._other_since.values())
            if is_own and not is_other and self._is_complete:
                self._own_reports += self._reports - before
        return replace(reading, value=replace(value, own_reports=self._own_reports))

    def is_hang(self, event: StorageEvent) -> bool:
        """Whether a line of the kernel is about a hung task of iowarden, which may be a thread."""
        line = hung.summary(event.text) if self.process and event.kind == hung.EVENT else None
        if line is None:
            return False
        # The log may be of an earlier start: of that only the name is left.
        is_named = line[0].startswith(f"{_NAME} (pid ")
        task = int(line[1])
        return is_named or self._is_below(task) or unit_of(_text(task, "cgroup")) in UNITS

    def _is_below(self, task: int) -> bool:
        """Whether a task belongs to the service, or to a descendant of it: a probe of its own."""
        for _ in range(_MAX_ANCESTORS):
            if task == self.process or os.path.exists(f"/proc/{self.process}/task/{task}"):
                return True
            parent = _PARENT.search(_text(task, "status"))
            task = 0 if parent is None else int(parent[1])
            if task <= 1:
                break
        return False


def _blocked_since(
    before: Mapping[tuple[int, int], float], tasks: Sequence[BlockedTask], now: float
) -> dict[tuple[int, int], float]:
    keys = ((task.pid, task.start_ticks) for task in tasks)
    return {key: before.get(key, now) for key in keys}


def _text(task: int, name: str) -> str:
    """Return the text of a file of a task, or '' if the task has ended.

    Of 'status' and 'cgroup', which never wait for the task. Source: kernel, fs/proc/base.c.
    """
    try:
        return Path(f"/proc/{task}/{name}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
