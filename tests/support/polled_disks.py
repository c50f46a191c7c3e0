"""A machine of hand-made disks, and all that the program concludes of them: rules, mails."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from support.host import shipped_rules
from support.machine import disk as block_device
from support.machine import topology
from support.simulation import START, UPTIME

from iowarden.collectors import registry
from iowarden.collectors.filesystem.mountinfo import Mounts
from iowarden.collectors.model import Outcome, Reading
from iowarden.collectors.smart.drive import (
    AccessMethod,
    Disk,
    Disks,
    Drive,
    PollResult,
    Protocol,
    ReadStatus,
)
from iowarden.rules.engine.engine import Engine
from iowarden.rules.incidents import incidents, model
from iowarden.rules.notices import report
from iowarden.rules.notices.measurements import Measured, stored

if TYPE_CHECKING:
    from iowarden.collectors.block.block_devices import Device, Topology
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.notice import Notice

MODEL = "ACME DISK-9"
SOURCES = ("block", "mounts", "smart")


def drive(serial: str, **fields: Any) -> Drive:  # noqa: ANN401 - as Drive takes them
    """Return what a healthy ATA drive says."""
    usual = Drive(Protocol.ATA, model=MODEL, serial=serial, passed=True, temperature_celsius=31.0)
    return replace(usual, **fields)


def direct(name: str, serial: str = "", **fields: Any) -> Disk:  # noqa: ANN401 - as PollResult takes them
    """Return a disk that the kernel has as `name`, read at START unless `fields` say otherwise."""
    found = {"status": ReadStatus.READ, "drive": drive(serial), "read_seconds": START, **fields}
    target = AccessMethod(f"/dev/{name}", "sat", name, "host0")
    return Disk(serial or f"/dev/{name}", PollResult(target, **found), name)


def hidden(number: int, serial: str, **fields: Any) -> Disk:  # noqa: ANN401 - as PollResult takes them
    """Return a disk behind a RAID controller, by its number there."""
    slot, kind = f"slot {number}", f"areca,{number}"
    target = AccessMethod("/dev/sg3", kind, "", "host2", "arcmsr", slot, "controller")
    found = {"status": ReadStatus.READ, "drive": drive(serial), "read_seconds": START, **fields}
    return Disk(serial or str(target), PollResult(target, period_seconds=3600.0, **found))


def disks(*found: Disk, problems: tuple[str, ...] = ()) -> Disks:
    """Return all disks that were found."""
    return Disks({each.key: each for each in found}, problems, START)


def device(name: str, serial: str, **fields: Any) -> Device:  # noqa: ANN401 - as disk() takes them
    """Return a block device of that serial number."""
    return block_device(name, serial=serial, model=MODEL, **fields)


class FakeMachine:
    """Engine and incidents, given what the sources 'block', 'mounts' and 'smart' say."""

    def __init__(self, *devices: Device) -> None:
        """Start with these block devices and no disk asked yet."""
        self.topology: Topology = topology(*devices)
        self.disks: Disks | None = Disks({})
        self.now = START
        self.mails: list[Notice] = []
        self.start()

    def start(self) -> None:
        """Start the program anew, knowing nothing."""
        sources = [s for s in registry.SOURCES if s.name in SOURCES]
        self.engine = Engine(shipped_rules(), sources, self.now)
        self.incidents = model.Incidents()

    def restart(self) -> None:
        """Start the program anew, with what it keeps."""
        before = self.engine
        memory, known, alerts = (
            before.signals.remember(),
            before.devices.devices,
            before.rules.alerts(),
        )
        kept = self.incidents
        self.start()
        self.engine.recall(memory, known)
        self.engine.rules.restore(alerts)
        self.incidents = kept

    def look(self, seconds: float = 60.0, every: float = 60.0) -> None:
        """Let time pass; whatever is read is read at each look."""
        end = self.now + seconds
        while self.now < end:
            self.now += every
            mounts = Mounts((), None)
            said = {"block": self.topology, "mounts": mounts, "smart": self.disks}
            readings = [
                Reading(
                    name,
                    Outcome.FAILED if value is None else Outcome.OK,
                    self.now,
                    0.0,
                    value,
                    "no answer" if value is None else "",
                )
                for name, value in said.items()
            ]
            self.engine.observe(readings, self.now, self.now - START + UPTIME)
            self.engine.rules.evaluate(self.now)
            self.incidents, dues, _ = incidents.next_incidents(
                self.incidents,
                self.engine.rules.alerts(),
                self.now,
                incidents.Surroundings(
                    install="test",
                    policy=model.NotificationPolicy(),
                    observe=lambda alert: stored(self.engine.rules.current(alert), 0.0),
                    is_observable=self.engine.rules.is_observable,
                ),
            )
            self.mails += [
                report.notice(
                    due,
                    report.Sources(
                        lambda at: at,
                        self.now,
                        (),
                        self.topology,
                        self.engine.devices.dependents,
                        measured=self._measured(),
                    ),
                )
                for due in dues
            ]

    def _measured(self) -> Measured:
        rules = self.engine.rules
        samples = (s for alert in rules.alerts() for s in rules.current(alert))
        return Measured(tuple(samples), self.engine.hub.last)

    def alerts(self, name: str) -> list[Alert]:
        """Return the alerts of this name that fire or are unknown."""
        return [a for a in self.engine.rules.alerts() if a.name == name and a.active]

    def firing(self) -> set[tuple[str, str]]:
        """Return alert and disk of all that fires."""
        return {(a.name, a.label("disk")) for a in self.engine.rules.alerts() if a.active}

    def samples(self, metric: str) -> dict[str, float]:
        """Return the samples of a metric by the text of their labels' values."""
        return {
            " ".join(text for _, text in labels): value
            for chunk in self.engine.hub.chunks()
            for _, found in chunk.families
            for name, labels, value in found
            if name == metric
        }
