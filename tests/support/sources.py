"""All sources as the program reads them, for who collects each by itself."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from iowarden.collectors import registry
from iowarden.collectors.filesystem.backups import WatchedDirectory
from iowarden.collectors.raid import vendors
from iowarden.collectors.smart.options import Options
from iowarden.collectors.source import read_by_poller
from iowarden.daemon.polling.controllers import ControllerPoller
from iowarden.daemon.polling.directories import DirectoryPoller
from iowarden.daemon.polling.kernel_log import KernelLogPoller
from iowarden.daemon.polling.pollers import Pollers
from iowarden.daemon.polling.smart import SmartPoller
from iowarden.daemon.polling.task_polls import TaskPolls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.source import Source


def sources(
    clock: Callable[[], float] = time.monotonic,
    watched: Sequence[WatchedDirectory] = (),
    task_polls: TaskPolls | None = None,
) -> list[Source[Any]]:
    """Return all sources; drives, controllers, logs, directories by own pollers."""
    directories = DirectoryPoller(clock)
    directories.configure(watched)
    return Pollers(
        SmartPoller(Options(), clock),
        ControllerPoller(vendors.BACKENDS, clock),
        KernelLogPoller(None, clock),
        directories,
        task_polls or TaskPolls(),
    ).sources()


def _once(source: Source[Any]) -> Source[Any]:
    def read(root: Machine) -> object:
        backup = [WatchedDirectory("/srv/backup")]
        found = sources(lambda: 0.0, watched=backup)
        return next(each for each in found if each.name == source.name).read(root)

    return replace(source, read=read) if source.read is read_by_poller else source


SOURCES = tuple(map(_once, registry.SOURCES))
"""All sources; a poller remembers nothing from one read to the next."""
