"""Hotplug: a uevent of a block device makes the collectors list the devices again at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iowarden.collectors.block import uevents
from iowarden.collectors.dataclass import dataclass
from iowarden.daemon import metrics
from iowarden.daemon.polling.scheduler import HOTPLUG_SOURCES

if TYPE_CHECKING:
    from iowarden.collectors.model import Reading, Sample
    from iowarden.daemon.locate.affected_files import AffectedFiles
    from iowarden.daemon.polling.scheduler import SourceScheduler
    from iowarden.daemon.service.flight_recorder import FlightRecorder
    from iowarden.daemon.transition_log import TransitionLog
    from iowarden.rules.engine.engine import Engine

_NEW = {"add", "remove"}
"""Uevent actions after which a device name may belong to a different device."""
_MAPPED_INTERVAL_SECONDS = 5.0
"""Uevents of mapped devices come in bursts, and each poll runs programs: not more often."""


@dataclass(slots=True)
class DeviceWatch:
    """Reacts to block devices that appear or disappear. For the loop's thread only."""

    engine: Engine
    readers: SourceScheduler
    log: TransitionLog
    files: AffectedFiles | None
    flight: FlightRecorder | None
    _announced_total: int = 0
    _losses_total: int = 0
    _is_mapped_due: bool = False
    _mapped_seconds: float = float("-inf")
    """When the targets of mapped devices were polled."""

    def take(self, batch: uevents.UeventBatch) -> None:
        """Poll the devices now; if uevents were lost, the poll finds the changes all the same."""
        self._announced_total += len(batch.events)
        self._losses_total += bool(batch.lost)
        if self.flight is not None:
            self.flight.announced(uevents.text(batch))
        text = f"uevents: device uevents were lost: {batch.lost}; all devices are listed again"
        self.log.trouble("uevents", text if batch.lost else "")
        self.readers.read_now(HOTPLUG_SOURCES)
        # A path that fails or is reinstated is a uevent of its map (kernel, dm-uevent.c).
        if batch.lost or any(event.device.startswith("dm-") for event in batch.events):
            self._is_mapped_due = True
        if self.files is not None and (batch.lost or {e.action for e in batch.events} & _NEW):
            self.files.forget()

    def check(self, reading: Reading[Any]) -> None:
        """Poll the devices now if diskstats lists other devices than the last poll did.

        Uevents can get lost, and containers receive none. The devices of ZFS pools also when the
        state of a pool is another one: the mail about it should name the device. The paths of
        multipath maps are counted with the states of SCSI devices.
        """
        self._check_mapped(reading)
        if reading.source == "zfs" and self.engine.last.zfs not in (None, reading.value):
            self.readers.read_now(("zfs_vdevs",))
        if reading.source != "diskstats" or reading.value is None:
            return
        last, names = self.engine.last.diskstats, reading.value.keys()
        changed = names ^ last.keys() if last else ()
        topology = self.engine.devices.topology if changed else None
        if topology is not None and any(
            (topology.whole(each) is None) is (each in names) for each in changed
        ):
            self.readers.read_now(HOTPLUG_SOURCES)

    def _check_mapped(self, reading: Reading[Any]) -> None:
        now = reading.monotonic_seconds
        if reading.source == "dm_targets":
            self._mapped_seconds = now
            if reading.value is not None and reading.value != self.engine.last.dm_targets:
                self.readers.read_now(("scsi",))
        if self._is_mapped_due and now - self._mapped_seconds >= _MAPPED_INTERVAL_SECONDS:
            self._is_mapped_due = False
            self.readers.read_now(("dm_targets",))

    def samples(self) -> list[Sample]:
        """Return the counters of uevents."""
        return [
            (metrics.UEVENTS.name, (), float(self._announced_total)),
            (metrics.UEVENTS_LOST.name, (), float(self._losses_total)),
        ]
