"""Tracks the devices of a host over time: added, removed, renamed, and what is stacked on them.

Pure. Units: seconds of the program's clock (Unix time that never jumps).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.block import scsi
from iowarden.rules.snapshot import Snapshot
from iowarden.rules.topology import (
    alert_subject,
    device_changes,
    device_identity,
    event_location,
    inventory,
    slot_map,
)
from iowarden.rules.topology.topology import (
    NO_DEPENDENTS,
    Dependents,
    StoredDependents,
    recalled,
    remember,
    to_stored,
    with_dependents,
    without_old,
)

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.filesystem.mountinfo import Mount, Mounts
    from iowarden.collectors.model import Labels
    from iowarden.rules.engine.signal_groups import SignalGroups


class DeviceTracker:
    """The devices, their names, slots and what is stacked on them."""

    def __init__(self, signals: SignalGroups) -> None:
        """Start with an empty state."""
        self._signals = signals
        self._last = Snapshot()
        self.topology: Topology | None = None
        """Last contents of '/sys/block'."""
        self.devices = device_changes.Devices()
        """History of the disks, stored over a restart."""
        self.dependents: Dependents = NO_DEPENDENTS
        """What is stacked on what, and was until lately."""
        self.slots: Mapping[str, slot_map.SlotContent] = {}
        """Contents of the controllers' slots as last reported."""
        self.taken_out: frozenset[str] = frozenset()
        """Keys of disks that an administrator reported as removed: their unknown alerts are
        resolved."""
        self._events: list[device_changes.DeviceChange] = []
        self._updated_seconds: float | None = None
        """When '/sys/block' was last read."""
        self._last_seen: tuple[Topology, tuple[Mount, ...]] | None = None
        """Topology and mounts from which `dependents` was computed."""
        self._stored_dependents: StoredDependents | None = None
        """What was stacked on what before a restart, until the host's uptime is known."""
        self._fabrics: frozenset[str] = frozenset()
        self._hosts: dict[str, str] = {}
        """SCSI hosts by the names that drivers use; another host may reuse the name of a removed
        one."""
        self._unmounted: tuple[Mount, ...] = ()

    # --- data of the data sources

    def resume(self, booted: float, now: float) -> None:
        """Restore what was stacked on what before a restart; `booted`: when the host booted."""
        if self._stored_dependents is not None:
            self.dependents = recalled(self.dependents, self._stored_dependents, booted, now)
            self.devices = device_changes.without_addresses(self.devices, booted)
            self._stored_dependents = None

    def take(self, last: Snapshot, fresh: Container[str], now: float) -> None:
        """Update from the last data of the data sources; `fresh` were read in this tick."""
        before, self._last = self._last, last
        if before.mounts and last.mounts and last.mounts is not before.mounts:
            self._remount(before.mounts, last.mounts)
        if last.scsi is not None and last.scsi is not before.scsi:
            self._hosts |= scsi.host_names(last.scsi.hosts)
            self._fabrics = scsi.fabrics(last.scsi)
        if last.block is not None and "block" in fresh:
            self._update_disks(last.block, now)  # the mounts were read before

    def _update_disks(self, topology: Topology, now: float) -> None:
        """Compare '/sys/block' with its previous contents: which disks were added and removed."""
        mounted = self.mounts()
        topology = device_identity.with_sources(topology, mounted)
        before = self.topology
        if before is not None and topology == before:  # the results are still valid
            topology = before
            if self.devices.gone or self.devices.returned:  # some of these may be outdated now
                self.devices = device_changes.next_devices(self.devices, (), topology, now)
        else:
            events = []
            if before is not None:
                found = device_changes.changes(before, topology, (*mounted, *self._unmounted))
                events = [
                    with_dependents(self.dependents, before, each, now)
                    for each in device_changes.recognized(self.devices, found)
                ]
            self._events += events
            self.devices = device_changes.next_devices(
                self.devices, events, topology, now, self._updated_seconds
            )
            self.topology = topology
        self._unmounted, self._updated_seconds = (), now
        if self._last_seen != (topology, mounted):
            self.dependents = remember(self.dependents, topology, mounted, now)
            self._last_seen = topology, mounted
        else:
            self.dependents = without_old(self.dependents, now)

    def _remount(self, before: Mounts, after: Mounts) -> None:
        """Remember until the next device update what was unmounted and should be mounted.

        When a disk disappears, systemd unmounts what '/etc/fstab' lists; an administrator unmounts
        a backup disk before switching it off.
        """
        points = {mount.mount_point for mount in after.mounts}
        self._unmounted += tuple(
            mount
            for mount in before.mounts
            if mount.mount_point not in points and after.is_mounted_at_boot(mount.mount_point)
        )

    def forget_disk(self, disk: str) -> None:
        """Mark a missing disk, given by its label, as removed on purpose."""
        missed = self.devices.gone
        found = {**inventory.vanished(missed), **self._signals.inventory().disks}.get(disk)
        self._signals.forget_disk(disk)
        own = "" if found is None else found.identity.key
        gone = {key: each for key, each in missed.items() if key != own}
        self.devices = replace(self.devices, gone=gone)
        self.taken_out |= {own} - {""}

    def forget_taken_out(self) -> None:
        """Drop the marks of removed disks that are present again."""
        self.taken_out = frozenset(own for own in self.taken_out if not self.present(own))

    # --- queries by other parts

    def events(self) -> list[device_changes.DeviceChange]:
        """Return the device changes since the last call."""
        events, self._events = self._events, []
        return events

    def mounts(self) -> tuple[Mount, ...]:
        """Return the mounts as last read."""
        return () if self._last.mounts is None else tuple(self._last.mounts.mounts)

    def places(self) -> slot_map.DeviceMap:
        """Return the map of slots, disks and devices."""
        controllers = self._last.controllers
        return slot_map.DeviceMap(
            topology=self.topology,
            devices=self.devices,
            disks=self._signals.inventory().disks,
            controllers=() if controllers is None else controllers.controllers,
            slots=self.slots,
            arrays=self._last.md or {},
            hosts=self._hosts,
            fabrics=self._fabrics,
            dependents=self.dependents,
            redundancies=self._signals.redundancies(),
            waiting_groups=self._signals.harm().waiting_groups(),
        )

    def present(self, subject: str) -> bool:
        """Whether a disk of this identity is present; True while that is not known yet."""
        topology = self.topology
        return (
            topology is None
            or any(
                device_identity.identity(topology, name).key == subject for name in topology.leaves
            )
            or self._signals.inventory().present(subject)
        )

    def named(self, labels: Labels) -> device_identity.Identity:
        """Return the identity of the block device that labels name."""
        return alert_subject.subject(self.topology, self.devices, labels)

    def subject(self, labels: Labels) -> device_identity.Identity:
        """Return the identity of what an alert with these labels is about."""
        identity = self._signals.inventory().identity
        return alert_subject.subject(
            self.topology, self.devices, labels, identity, self._behind, self.dependents
        )

    def _behind(self, labels: Labels) -> device_identity.Identity | None:
        """Return the disk or array behind a controller of an alert, or the controller itself."""
        own = dict(labels)
        where = own.get("slot") or own.get("array") or ""
        return event_location.at_controller(own["controller"], where, self.places()).identity

    # --- stored over a restart

    def stored_dependents(self, now: float) -> StoredDependents:
        """Return what is stacked on what, for storage over a restart."""
        return (
            to_stored(self.dependents, now)
            if self._stored_dependents is None
            else self._stored_dependents
        )

    def recall(
        self, known: device_changes.Devices, dependents: StoredDependents | None = None
    ) -> None:
        """Restore what `devices` and `dependents` were before a restart."""
        self._stored_dependents = dependents
        topology = self.topology
        self.devices = (
            known if topology is None else device_changes.next_devices(known, (), topology, 0.0)
        )
