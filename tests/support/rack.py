"""Disks that are polled by hand, and what the shipped rules and incidents make of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from support.host import shipped_rules
from support.simulation import START, UPTIME

from iowarden.collectors.model import Outcome, Reading
from iowarden.collectors.smart import smart_series
from iowarden.collectors.smart.drive import (
    AccessMethod,
    Attribute,
    Disk,
    Disks,
    Drive,
    PollResult,
    Protocol,
    ReadStatus,
)
from iowarden.daemon.service.persisted_state import PersistedState, documents, read
from iowarden.rules.engine.engine import Engine
from iowarden.rules.incidents import incidents, model, silences

if TYPE_CHECKING:
    from collections.abc import Mapping

HOUR = 3600.0
DAY = 24 * HOUR
POLL = HOUR / 2
PREFAIL = frozenset({1, 3, 5, 10})
SMART = replace(
    smart_series.SOURCE, families=(), emit=lambda _value: [], node=None, node_prefixes=()
)


def attribute(number: int, raw: int | None, value: int = 100, **fields: Any) -> Attribute:  # noqa: ANN401 - as Attribute takes them
    """Return a line of the table of attributes; the raw value is printed as it is."""
    usual = Attribute(
        number,
        f"Attribute_{number}",
        value,
        value,
        0,
        raw,
        "" if raw is None else str(raw),
        number in PREFAIL,
    )
    return replace(usual, **fields)


def ata(serial: str, raws: Mapping[int, int] | None = None, **fields: Any) -> Drive:  # noqa: ANN401 - as Drive takes them
    """Return a healthy 4 TB disk; `raws`: its raw values by attribute."""
    usual = {5: 0, 9: 20_000, 10: 0, 12: 40, 187: 0, 188: 0, 196: 0, 197: 0, 198: 0, 199: 0}
    table = tuple(attribute(n, raw) for n, raw in ({**usual, **(raws or {})}).items())
    healthy = Drive(
        Protocol.ATA,
        model="ACME DISK-9",
        serial=serial,
        capacity_bytes=4_000_787_030_016,
        rotation_rpm=7200,
        passed=True,
        temperature_celsius=31.0,
        power_on_hours=20_000,
        attributes=table,
    )
    return replace(healthy, **fields)


@dataclass
class Rack:
    """A machine of which nothing but its drives is read."""

    now: float = START
    mails: list[tuple[str, str, str]] = field(default_factory=list)
    """Reason, severity and the worst alert of every mail."""
    fired: set[tuple[str, str, str]] = field(default_factory=set)
    """Alert, severity and disk of whatever fired at any time."""

    def __post_init__(self) -> None:
        """Start the program, knowing nothing."""
        self.incidents = model.Incidents()
        self.said = silences.Silences()
        self.disks = Disks({})
        self._start()

    def _start(self) -> None:
        self.engine = Engine(shipped_rules(), [SMART], self.now)

    def restart(self) -> None:
        """Start the program anew, with what it keeps over a restart."""
        before = self.engine
        self._start()
        texts = documents(PersistedState(signals=before.signals.remember()))
        self.engine.recall(read(texts, self.now)[0].signals, before.devices.devices)
        self.engine.rules.restore(before.rules.alerts())

    def poll(
        self,
        *drives: Drive,
        times: int = 1,
        every: float = POLL,
        cover: ReadStatus = ReadStatus.READ,
        target: AccessMethod | None = None,
    ) -> list[str]:
        """Let every drive be polled so many times; return the reasons of the mails that came."""
        sent = len(self.mails)
        for _ in range(times):
            polled = {
                drive.serial: PollResult(
                    target or AccessMethod(f"/dev/sd{'abcdefgh'[number]}", "sat", origin="kernel"),
                    cover,
                    drive=drive,
                    read_seconds=self.now,
                )
                for number, drive in enumerate(drives)
            }
            self.disks = Disks({key: Disk(key, one) for key, one in polled.items()})
            self.wait(every, every / 6)
        return [reason for reason, _, _ in self.mails[sent:]]

    def lose(
        self, serial: str, reason: str = "open failed", cover: ReadStatus = ReadStatus.UNREADABLE
    ) -> None:
        """Let a drive no longer answer, for so long that what it said is given up."""
        disk = self.disks.by_key[serial]
        lost = replace(disk.polled, status=cover, reason=reason, drive=None)
        self.disks = Disks({**self.disks.by_key, serial: replace(disk, polled=lost)})

    def wait(self, seconds: float, every: float = 300.0) -> None:
        """Let time pass while nothing new is read."""
        end = self.now + seconds
        while self.now < end:
            reading = Reading("smart", Outcome.OK, self.now, 0.0, self.disks)
            self.engine.observe([reading], self.now, self.now - START + UPTIME)
            for change in self.engine.rules.evaluate(self.now):
                alert = change.alert
                if alert.state.value == "firing":
                    disk = alert.label("disk")
                    self.fired.add((alert.name, alert.label("severity"), disk))
            self._mail()
            self.now += every

    def _mail(self) -> None:
        self.incidents, dues, events = incidents.next_incidents(
            self.incidents,
            self.engine.rules.alerts(),
            self.now,
            incidents.Surroundings(
                install="test",
                policy=model.NotificationPolicy(),
                observe=lambda _: (),
                is_observable=self.engine.rules.is_observable,
                acknowledged=self.said.by_incident(),
            ),
        )
        for event in events:
            if event.change is model.IncidentChangeKind.ACK_EXPIRED:
                self.said = silences.drop_acknowledgement(self.said, event.incident.identifier)
        for due in dues:
            worst = max(due.incident.members, key=lambda m: (m.severity, m.fact in due.updates))
            self.mails.append((due.reason.value, due.incident.severity.name.lower(), worst.name))

    def acknowledge(self) -> None:
        """Say that every incident that is open is known."""
        for incident in self.incidents.by_key.values():
            self.said, _ = silences.acknowledge(
                self.said,
                self.incidents.by_key.values(),
                incident.identifier,
                now=self.now,
                reason="disk is on order",
                who="alice",
            )

    def firing(self, state: str = "firing") -> set[tuple[str, str]]:
        """Return name and severity of the alerts that fire now, or are unknown."""
        return {
            (alert.name, alert.label("severity"))
            for alert in self.engine.rules.alerts()
            if alert.state.value == state
        }
