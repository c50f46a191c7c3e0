"""Block devices that come and go: what the kernel announces has them listed anew at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iowarden.collectors.block import uevents
from iowarden.daemon import metrics
from iowarden.daemon.polling.scheduler import HOTPLUG_SOURCES

if TYPE_CHECKING:
    from iowarden.collectors.model import Reading, Sample
    from iowarden.daemon.locate.affected_files import FilesHit
    from iowarden.daemon.polling.scheduler import Readers
    from iowarden.daemon.service.flight_recorder import Flight
    from iowarden.daemon.transition_log import Telling
    from iowarden.rules.engine.engine import Engine

_NEW = {"add", "remove"}
"""What the kernel announces of a device that is another one from then on."""


@dataclass(slots=True)
class DeviceWatch:
    """For the loop's thread only."""

    engine: Engine
    readers: Readers
    log: Telling
    files: FilesHit | None
    flight: Flight | None
    _announced_total: int = 0
    _losses_total: int = 0

    def take(self, batch: uevents.Batch) -> None:
        """Look at the devices now; when announcements were lost, the look finds what they said."""
        self._announced_total += len(batch.events)
        self._losses_total += bool(batch.lost)
        if self.flight is not None:
            self.flight.announced(uevents.text(batch))
        text = f"uevents: announcements of devices were lost: {batch.lost}; listing them anew"
        self.log.trouble("uevents", text if batch.lost else "")
        self.readers.ask(HOTPLUG_SOURCES)
        if self.files is not None and (batch.lost or {e.action for e in batch.events} & _NEW):
            self.files.forget()

    def look(self, reading: Reading[Any]) -> None:
        """Look at the devices now if one came or went that the last look does not know of.

        Announcements get lost, and in a container there are none.
        """
        if reading.source != "diskstats" or reading.value is None:
            return
        last, names = self.engine.last.diskstats, reading.value.keys()
        changed = names ^ last.keys() if last else ()
        topology = self.engine.devices.topology if changed else None
        if topology is not None and any(
            (topology.whole(each) is None) is (each in names) for each in changed
        ):
            self.readers.ask(HOTPLUG_SOURCES)

    def samples(self) -> list[Sample]:
        """Return what was announced."""
        return [
            (metrics.UEVENTS.name, (), float(self._announced_total)),
            (metrics.UEVENTS_LOST.name, (), float(self._losses_total)),
        ]
