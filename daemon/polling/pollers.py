"""Pollers: collectors with state between polls, which other parts also call."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from iowarden.collectors import registry
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.raid import vendors
from iowarden.daemon.polling.controllers import ControllerPoller
from iowarden.daemon.polling.directories import DirectoryPoller
from iowarden.daemon.polling.kernel_log import KernelLogPoller
from iowarden.daemon.polling.smart import SmartPoller
from iowarden.daemon.polling.task_polls import TaskPolls

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.collectors.smart.options import Options
    from iowarden.collectors.source import Source
    from iowarden.daemon.clock import SystemClock


@dataclass(frozen=True, slots=True)
class Pollers:
    """The pollers of drives, controllers, the kernel log, directories and blocked tasks."""

    drives: SmartPoller
    controllers: ControllerPoller
    kernel_log: KernelLogPoller
    directories: DirectoryPoller
    task_polls: TaskPolls

    def sources(self) -> list[Source[Any]]:
        """Return all collectors, including those that these pollers serve."""
        readers = {
            "smart": self.drives.read,
            "controllers": self.controllers.read,
            "kernel_log": self.kernel_log.read,
            "backups": self.directories.read,
            "tasks": self.task_polls.read,
            "io_sweep": self.task_polls.sweep,
        }
        return [replace(s, read=readers.get(s.name, s.read)) for s in registry.SOURCES]


def make(
    options: Options,
    clock: SystemClock,
    open_log: Callable[[], int] | None = None,
    *,
    most_told_bytes: float = math.inf,
) -> Pollers:
    """Return the pollers; nothing is polled yet. `open_log` returns a descriptor of '/dev/kmsg'."""
    return Pollers(
        SmartPoller(options, clock.now, most_told_bytes=most_told_bytes),
        ControllerPoller(vendors.BACKENDS, clock.now),
        # The kernel's time stamps use CLOCK_MONOTONIC.
        KernelLogPoller(open_log, clock.uptime, lambda: clock.realtime(clock.now())),
        DirectoryPoller(clock.now),
        TaskPolls(),
    )
