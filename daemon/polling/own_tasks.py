"""iowarden's own tasks. On a disk that hangs they wait like any other, which harms no program."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.events import hung

if TYPE_CHECKING:
    from iowarden.collectors.event import StorageEvent
    from iowarden.collectors.model import Reading

_TASKS = "tasks"


@dataclass(frozen=True, slots=True)
class OwnTasks:
    """The tasks of this service. `process` 0: a recording is played, whose tasks are others'."""

    process: int = 0

    def without(self, reading: Reading[Any]) -> Reading[Any]:
        """Return a reading of blocked tasks without those of the service; any other unchanged."""
        value = reading.value
        if reading.source != _TASKS or value is None or not self.process:
            return reading
        tasks = tuple(each for each in value.tasks if (each.process or each.pid) != self.process)
        count = value.count - (len(value.tasks) - len(tasks))
        return replace(reading, value=replace(value, tasks=tasks, count=count))

    def is_hang(self, event: StorageEvent) -> bool:
        """Whether a line of the kernel is about a hung task of the service, which may be a thread.

        Source: proc(5), task.
        """
        line = hung.summary(event.text) if self.process and event.kind == hung.EVENT else None
        return line is not None and os.path.exists(f"/proc/{self.process}/task/{line[1]}")
