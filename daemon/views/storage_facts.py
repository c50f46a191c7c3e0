"""Data about each object of the storage tree: alerts, redundancy, serial number, place."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from iowarden.collectors.quantity import duration
from iowarden.collectors.smart.drive import ReadStatus
from iowarden.daemon.control.storage_document import StorageNode
from iowarden.daemon.views import answers
from iowarden.rules.severity import Severity
from iowarden.rules.topology.device_identity import is_part
from iowarden.rules.topology.inventory import STATUS_TEXTS
from iowarden.rules.topology.slot_map import DeviceIndex

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.block.block_devices import Device
    from iowarden.collectors.raid.controller import Controller, ControllerArray
    from iowarden.daemon.views.answers import ViewInputs
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.topology.device_changes import VanishedDisk
    from iowarden.rules.topology.inventory import InventoryDisk
    from iowarden.rules.topology.survival import Redundancy

_PARTS = ("member", "vdev", "path")
"""Labels of a part: such an alert is about the part, not about the whole that it names as well."""
_WHOLES = ("device", "disk", "mountpoint", "array", "pool", "fsid")
_SILENT = frozenset({ReadStatus.NO_SMART, ReadStatus.LUN, ReadStatus.NOT_POLLED_YET})
"""Nothing is missing, or it is too early for a result."""
_HIDDEN = re.compile(
    r"(?:_(?:[rm]image_\d+|rmeta_\d+|mlog|[tc]data|[tc]meta|corig|cvol|vdata))+$|-vpool$",
    re.ASCII,
)
"""Volumes that LVM makes for itself: people know the volume that is made of them."""
THIN_POOL = "-tpool"
"""Ends the name of the device that a thin pool of LVM is, once volumes use it."""
CRITICAL, WARNING = "critical", "warning"


def worst(*severities: str) -> str:
    """Return the worst of severities; '' is none."""
    return max(severities, key=lambda one: Severity[one.upper()] if one else -1, default="")


def is_hidden(name: str) -> bool:
    """Whether a device-mapper name is that of a volume that LVM made for itself."""
    return _HIDDEN.search(name) is not None


class StorageFacts:
    """Lookups over the state of the service at one moment."""

    def __init__(self, known: ViewInputs) -> None:
        """Sort alerts, disks and volumes by the names of their objects."""
        self.known, self.engine = known, known.engine
        self.last = known.engine.last
        self.redundancies = known.engine.signals.redundancies()
        self.index = DeviceIndex(known.engine.devices.places())
        self.disks: dict[str, InventoryDisk] = {}
        self.hidden: dict[str, InventoryDisk] = {}
        """Disks without a block device, by serial number."""
        for disk in answers.inventory_disks(known.engine).values():
            for name in {disk.device, *disk.leaves} - {""}:
                self.disks[name] = disk
            self.hidden.setdefault(disk.disk, disk)
        self._alerts = _by_object(alert for alert in answers.notices(known) if alert.active)
        self.volumes: dict[str, tuple[Controller, ControllerArray]] = {}
        controllers = self.last.controllers
        for card in () if controllers is None else controllers.controllers:
            for array_name, device in self.index.made(card).items():
                array = next(each for each in card.arrays if each.name == array_name)
                self.volumes[device.name] = card, array
        self.silent_hosts = {
            problem.host: problem.controller or problem.vendor
            for problem in (() if controllers is None else controllers.problems)
            if problem.host and problem.reason
        }
        self.gone: dict[str, list[tuple[str, str, VanishedDisk]]] = defaultdict(list)
        """By array: the part that it used, the serial number, and the disk that vanished."""
        for key, lost in known.engine.devices.devices.gone.items():
            serial = key.rpartition(" ")[2] if key.startswith("disk ") else ""
            for part, holder in lost.members:
                self.gone[holder].append((part, serial, lost))

    def alerts(self, *names: str) -> list[Alert]:
        """Return the active alerts about an object, by any of its names, the worst first."""
        found = {a.key: a for name in names if name for a in self._alerts.get(name, ())}
        shown = (alert for alert in found.values() if alert.severity >= Severity.NOTICE)
        return sorted(shown, key=lambda alert: (-alert.severity, alert.name))

    def redundancy(self, technology: str, name: str) -> Redundancy | None:
        """Return the number of an object."""
        return self.redundancies.get((technology, name))

    def node(self, name: str, kind: str, depth: int, alerts: Iterable[Alert] = ()) -> StorageNode:
        """Return a row with the severity of its alerts."""
        own = list(alerts)
        return StorageNode(
            name=name,
            kind=kind,
            depth=depth,
            severity=own[0].severity.name.lower() if own else "",
            alerts=tuple(dict.fromkeys(alert.name for alert in own)),
            since_seconds=self.known.moment(min(a.active_seconds for a in own)) if own else None,
        )

    def vanished(self, part: str) -> tuple[str, VanishedDisk] | None:
        """Return the serial number of a disk that vanished, by its name or that of a part."""
        for key, lost in self.engine.devices.devices.gone.items():
            if lost.name and is_part(part, lost.name):
                return key.rpartition(" ")[2] if key.startswith("disk ") else "", lost
        return None

    def values(self, metric: str, label: str) -> dict[str, float]:
        """Return the samples of a metric by one of their labels."""
        found = self.engine.hub.last(metric)
        return {dict(labels).get(label, ""): value for _, labels, value in found}

    def serial(self, device: Device) -> str:
        """Return the serial number of a disk."""
        if device.serial:
            return device.serial.strip()
        disk = self.disks.get(device.name)
        drive = None if disk is None else disk.drive
        return "" if drive is None else drive.serial

    def place(self, device: Device) -> str:
        """Return where a disk is, as exactly as is known."""
        disk = self.disks.get(device.name)
        slot = "" if disk is None else disk.slot
        return slot or device.port or device.host or ""

    def temperature(self, name: str) -> float | None:
        """Return the temperature of a disk."""
        disk = self.disks.get(name)
        drive = None if disk is None else disk.drive
        return None if drive is None else drive.temperature_celsius

    def unreadable(self, name: str) -> str:
        """Return why the health of a disk is not known, or ''."""
        disk = self.disks.get(name)
        if disk is None or disk.is_monitored or disk.status in _SILENT:
            return ""
        return f"SMART: {STATUS_TEXTS[disk.status]}"

    def stale(self, *sources: str) -> str:
        """Return when data that can no longer be read were last read, or ''."""
        for name in sources:
            status = self.engine.sources.get(name)
            if status is None or not status.is_silent:
                continue
            if status.good_seconds is None:
                return f"{name} not read yet"
            return f"{name}: last read {duration(self.known.now - status.good_seconds)} ago"
        return ""


def _by_object(alerts: Iterable[Alert]) -> Mapping[str, list[Alert]]:
    """Return the alerts by each name of what they are about."""
    found: dict[str, list[Alert]] = defaultdict(list)
    for alert in alerts:
        parts = {alert.label(label).removeprefix("/dev/") for label in _PARTS} - {""}
        names = parts or {alert.label(label).removeprefix("/dev/") for label in _WHOLES} - {""}
        for name in names:
            found[name].append(alert)
    return found
