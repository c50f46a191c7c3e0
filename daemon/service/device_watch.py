"""When devices are polled at once: at their uevents, and their states while they hang.

A disk in error recovery is blocked, then running or offline; a path of NVMe is live, connecting or
gone. Which of them it is explains the hang, and is in its first mail. Source: kernel, scsi_lib.c
(scsi_device_set_state), scsi_error.c, nvme/host/core.c (nvme_change_ctrl_state).
"""

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
_STATES = ("scsi", "block")
"""Collectors that read the states of SCSI devices, and those of the paths of NVMe."""
_STATE_INTERVAL_SECONDS = 2.0
_HANGING_SECONDS = 3.0
"""A disk that completes nothing for so long may be in error recovery."""
_MAX_TRANSIENT_SECONDS = 600.0
"""A device that is not running for longer remains so: FC and iSCSI give up earlier (dev_loss_tmo,
replacement_timeout)."""
_STATE_KINDS = frozenset(
    "ata_disabled block_offline connection_error connection_lost connection_restored hba_dead"
    " hba_device_removed hba_disk_lost hba_reset nvme_controller_dead nvme_controller_down"
    " nvme_reset scsi_abort scsi_no_connect scsi_offlined scsi_rejected scsi_reset"
    " scsi_reset_failed scsi_timeout".split()
)
"""Kernel lines after which a device may be in another state."""
_MAPPED_KINDS = frozenset(
    "dm_path_failed dm_path_reinstated dm_pool_low dm_pool_full dm_pool_writable"
    " dm_snapshot_invalid".split()
)
"""Kernel lines after which 'dmsetup status' shows another state."""
_MAPPED_INTERVAL_SECONDS = 5.0
"""Uevents of mapped devices come in bursts, and each poll runs programs: not more often."""


@dataclass(slots=True)
class DeviceWatch:
    """Reacts to block devices that appear, disappear or hang. For the loop's thread only."""

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
    _is_state_due: bool = False
    """Whether a state may have changed since they were polled."""
    _states_seconds: float = float("-inf")

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
        if reading.source == "kernel_log" and reading.value is not None:
            kinds = {one.kind for one in reading.value.events}
            self._is_state_due |= not kinds.isdisjoint(_STATE_KINDS)
            self._is_mapped_due |= not kinds.isdisjoint(_MAPPED_KINDS)
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

    def poll_states(self, now: float) -> None:
        """Poll the states of devices while one hangs, and once more after that.

        To be called each second after the signals.
        """
        is_changing = self._is_hanging()
        if not (is_changing or self._is_state_due):
            return
        if now - self._states_seconds < _STATE_INTERVAL_SECONDS:
            return
        self._states_seconds, self._is_state_due = now, is_changing
        topology = self.engine.devices.topology
        devices = () if topology is None else topology.devices.values()
        has_paths = any(device.state is not None for device in devices)
        self.readers.read_now(_STATES if has_paths else _STATES[:1])

    def _is_hanging(self) -> bool:
        """Whether a device completes nothing, or has left the state 'running' a while ago."""
        return any(
            (metric == "iowarden_device_hang_seconds" and value >= _HANGING_SECONDS)
            or (
                metric == "iowarden_device_not_running_seconds"
                and 0.0 < value < _MAX_TRANSIENT_SECONDS
            )
            for group in ("device", "scsi_state")
            for metric, _, value in self.engine.signals.newest(group)
        )

    def samples(self) -> list[Sample]:
        """Return the counters of uevents."""
        return [
            (metrics.UEVENTS.name, (), float(self._announced_total)),
            (metrics.UEVENTS_LOST.name, (), float(self._losses_total)),
        ]
