"""What is known of a machine's devices over time: which came and went, and what stands on them.

Pure.
Units: seconds of the program's clock (Unix time that never jumps).
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
    NOTHING,
    Standing,
    Stood,
    kept,
    recalled,
    remember,
    with_held,
    without_old,
)

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.filesystem.mountinfo import Mount, Mounts
    from iowarden.collectors.model import Labels
    from iowarden.rules.engine.signal_groups import SignalGroups


class DeviceTracker:
    """The devices, their names, places and what they carry."""

    def __init__(self, signals: SignalGroups) -> None:
        """Nothing is known yet."""
        self._signals = signals
        self._last = Snapshot()
        self.topology: Topology | None = None
        """What was last seen in '/sys/block'."""
        self.devices = device_changes.Devices()
        """What is known of the disks over time, to be kept over a restart."""
        self.standing: Standing = NOTHING
        """What stands on what, and stood there until lately."""
        self.slots: Mapping[str, slot_map.Slotted] = {}
        """What was in the slots of controllers when they told it last."""
        self.taken_out: frozenset[str] = frozenset()
        """Disks of which somebody said so, by their key: what nobody can tell of them is over."""
        self._events: list[device_changes.Event] = []
        self._looked_seconds: float | None = None
        """When '/sys/block' was looked at last."""
        self._looked_at: tuple[Topology, tuple[Mount, ...]] | None = None
        """What `standing` is of."""
        self._stood: Stood | None = None
        """What stood on what before a restart, until the machine's uptime is known."""
        self._fabrics: frozenset[str] = frozenset()
        self._hosts: dict[str, str] = {}
        """SCSI hosts by what drivers call them; one that is gone may be called so once more."""
        self._unmounted: tuple[Mount, ...] = ()

    # --- what sources said

    def resume(self, booted: float, now: float) -> None:
        """Take what stood on what before a restart for what stands, of a machine up since then."""
        if self._stood is not None:
            self.standing = recalled(self.standing, self._stood, booted, now)
            self._stood = None

    def take(self, last: Snapshot, fresh: Container[str], now: float) -> None:
        """Take what the sources said last; `fresh` were read well in this tick."""
        before, self._last = self._last, last
        if before.mounts and last.mounts and last.mounts is not before.mounts:
            self._remount(before.mounts, last.mounts)
        if last.scsi is not None and last.scsi is not before.scsi:
            self._hosts |= scsi.host_names(last.scsi.hosts)
            self._fabrics = scsi.fabrics(last.scsi)
        if last.block is not None and "block" in fresh:
            self._look(last.block, now)  # what is mounted was read before

    def _look(self, topology: Topology, now: float) -> None:
        """Take a new look at '/sys/block': which disks came and went since the last one."""
        mounted = self.mounts()
        topology = device_identity.with_sources(topology, mounted)
        before = self.topology
        if before is not None and topology == before:  # what was concluded from it holds
            topology = before
            if self.devices.gone or self.devices.returned:  # of these some may be old by now
                self.devices = device_changes.step(self.devices, (), topology, now)
        else:
            events = []
            if before is not None:
                found = device_changes.changes(before, topology, (*mounted, *self._unmounted))
                events = [
                    with_held(self.standing, before, each, now)
                    for each in device_changes.recognised(self.devices, found)
                ]
            self._events += events
            self.devices = device_changes.step(
                self.devices, events, topology, now, self._looked_seconds
            )
            self.topology = topology
        self._unmounted, self._looked_seconds = (), now
        if self._looked_at != (topology, mounted):
            self.standing = remember(self.standing, topology, mounted, now)
            self._looked_at = topology, mounted
        else:
            self.standing = without_old(self.standing, now)

    def _remount(self, before: Mounts, after: Mounts) -> None:
        """Keep until the next look at the devices what was unmounted and should be mounted.

        Of a disk that vanishes, systemd unmounts what '/etc/fstab' has; an administrator unmounts
        a backup disk before it is switched off.
        """
        points = {mount.mount_point for mount in after.mounts}
        self._unmounted += tuple(
            mount
            for mount in before.mounts
            if mount.mount_point not in points
            and "noauto" not in (after.wanted or {}).get(mount.mount_point, ("noauto",))
        )

    def forget_disk(self, disk: str) -> None:
        """Take a disk that is missed, by its label, as taken out."""
        missed = self.devices.gone
        found = {**inventory.vanished(missed), **self._signals.coverage().covered}.get(disk)
        self._signals.forget_disk(disk)
        own = "" if found is None else found.identity.key
        gone = {key: each for key, each in missed.items() if key != own}
        self.devices = replace(self.devices, gone=gone)
        self.taken_out |= {own} - {""}

    def forget_taken_out(self) -> None:
        """Forget that disks were taken out which are there again."""
        self.taken_out = frozenset(own for own in self.taken_out if not self.present(own))

    # --- what others ask

    def events(self) -> list[device_changes.Event]:
        """Return what became of disks since the last call."""
        events, self._events = self._events, []
        return events

    def mounts(self) -> tuple[Mount, ...]:
        """Return what was last seen mounted."""
        return () if self._last.mounts is None else tuple(self._last.mounts.mounts)

    def places(self) -> slot_map.Map:
        """Return what is known of where things are."""
        controllers = self._last.controllers
        return slot_map.Map(
            topology=self.topology,
            devices=self.devices,
            covered=self._signals.coverage().covered,
            controllers=() if controllers is None else controllers.controllers,
            slots=self.slots,
            arrays=self._last.md or {},
            hosts=self._hosts,
            fabrics=self._fabrics,
            standing=self.standing,
        )

    def present(self, subject: str) -> bool:
        """Whether a disk of this identity is there; where nobody looked yet, it may be."""
        topology = self.topology
        return (
            topology is None
            or any(
                device_identity.identity(topology, name).key == subject for name in topology.leaves
            )
            or self._signals.coverage().present(subject)
        )

    def named(self, labels: Labels) -> device_identity.Identity:
        """Return what has the name that labels say, of block devices only."""
        return alert_subject.subject(self.topology, self.devices, labels)

    def subject(self, labels: Labels) -> device_identity.Identity:
        """Return what an alert of these labels is about."""
        identity = self._signals.coverage().identity
        return alert_subject.subject(self.topology, self.devices, labels, identity, self._behind)

    def _behind(self, labels: Labels) -> device_identity.Identity | None:
        """Return which disk or array behind a controller an alert is about, or the controller."""
        own = dict(labels)
        where = own.get("slot") or own.get("array") or ""
        return event_location.at_controller(own["controller"], where, self.places()).identity

    # --- what survives a restart

    def stood(self, now: float) -> Stood:
        """Return what stands on what, to be kept over a restart."""
        return kept(self.standing, now) if self._stood is None else self._stood

    def recall(self, known: device_changes.Devices, stood: Stood | None = None) -> None:
        """Give back what `devices` and `stood` were before a restart."""
        self._stood = stood
        topology = self.topology
        self.devices = known if topology is None else device_changes.step(known, (), topology, 0.0)
