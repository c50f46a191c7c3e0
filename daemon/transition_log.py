"""Transition log: writes changes of alerts, incidents and devices to the journal.

It also holds the latest events for 'iowarden events'. For the loop's thread only; never blocks.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Protocol

from iowarden.daemon import journal
from iowarden.daemon.control.documents import EventLine
from iowarden.daemon.redactor import Redactor
from iowarden.daemon.storage.event_rows import OWN
from iowarden.rules.alerting.alerts import AlertState, Transition
from iowarden.rules.incidents import model
from iowarden.rules.notices import digest
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from iowarden.daemon.probe.protocol import Stuck
    from iowarden.rules.topology import device_changes

_NOT_ESCALATED = frozenset({model.IncidentChangeKind.CLOSED, model.IncidentChangeKind.ACK_EXPIRED})
"""Changes that are no escalation, whatever the severity."""
MAX_EVENTS = 1000
"""Limit of events in memory for 'iowarden events'; the journal has them all."""

PRIORITY = {
    Severity.CRITICAL: 2,
    Severity.WARNING: 4,
    Severity.NOTICE: 5,
    Severity.INFO: 6,
}
"""Journal priorities. Source: syslog(3)."""

_ALERT = {
    AlertState.FIRING: journal.ALERT_FIRING,
    AlertState.UNKNOWN: journal.ALERT_UNKNOWN,
    AlertState.RESOLVED: journal.ALERT_RESOLVED,
    AlertState.INACTIVE: journal.ALERT_RESOLVED,
}
_INCIDENT = {
    model.IncidentChangeKind.OPENED: journal.INCIDENT_OPENED,
    model.IncidentChangeKind.ESCALATED: journal.INCIDENT_ESCALATED,
    model.IncidentChangeKind.MERGED: journal.INCIDENT_ESCALATED,
    model.IncidentChangeKind.REOPENED: journal.INCIDENT_OPENED,
    model.IncidentChangeKind.CLOSED: journal.INCIDENT_CLOSED,
    model.IncidentChangeKind.ACK_EXPIRED: journal.ACKNOWLEDGED,
}


class LogSink(Protocol):
    """Accepts log messages and never blocks; implemented by journal.Log."""

    lost_total: int

    def send(
        self, kind: journal.MessageKind, priority: int, message: str, **fields: str | int | None
    ) -> None:
        """Log a message."""

    def debug(self, text: str) -> None:
        """Log what only `log_level: debug` shows."""

    def set_level(self, level: str) -> None:
        """Change the log level."""

    def set_temporary_level(self, level: str, seconds: float) -> None:
        """Use another log level for a time, 0: end it."""

    def close(self) -> None:
        """Write what waits."""


class TransitionLog:
    """The log, the errors already logged, and the latest events."""

    def __init__(
        self,
        log: LogSink,
        realtime: Callable[[], float],
        now: Callable[[], float],
        redactor: Redactor | None = None,
    ) -> None:
        """`realtime` is the wall clock time shown to users, Unix seconds; `now` never jumps."""
        self.log = log
        self._redactor = redactor or Redactor()
        self.events: deque[EventLine] = deque(maxlen=MAX_EVENTS)
        self.follow: Callable[[EventLine], object] | None = None
        """Gets each event as it is logged."""
        self._realtime = realtime
        self._once = journal.Deduplicator(now)

    def send(
        self, kind: journal.MessageKind, priority: int, message: str, **fields: str | int | None
    ) -> None:
        """Log a message; as journal.Log.send. It is also an event, hence without any secret."""
        message = self._redactor.text(message)
        self.log.send(kind, priority, message, **fields)
        device = str(fields.get("IOWARDEN_DEVICE") or "")
        self._show(
            EventLine(
                self._realtime(),
                _severity(priority),
                message,
                device,
                str(fields.get("IOWARDEN_INCIDENT") or ""),
                source=OWN,
                device=device,
            )
        )

    def debug(self, text: str) -> None:
        """Log what only `log_level: debug` shows; it is no event."""
        self.log.debug(text)

    def storage_event(
        self,
        event: EventLine,
        kind: journal.MessageKind,
        priority: int,
        message: str,
        **fields: str | int | None,
    ) -> None:
        """Log a storage event; clients that request events get the event itself."""
        self.log.send(kind, priority, message, **fields)
        self._show(event)

    def _show(self, event: EventLine) -> None:
        self.events.append(event)
        if self.follow is not None:
            self.follow(event)

    def trouble(self, key: str, text: str, kind: journal.MessageKind = journal.TROUBLE) -> None:
        """Log an error once, then when it changes or ends ('')."""
        text = self._redactor.text(text)
        line = self._once.report(key, text) if text else self._once.clear(key)
        if line:
            self.send(kind, 4 if text else 5, line)

    def hung(
        self,
        key: str,
        since: float | None,
        limit_seconds: float,
        text: str,
        kind: journal.MessageKind,
    ) -> None:
        """Log that a thread hangs on a disk; `since` is of time.monotonic()."""
        is_hung = since is not None and time.monotonic() - since > limit_seconds
        self.trouble(key, text if is_hung else "", kind)

    def troubles(self) -> dict[str, str]:
        """Return the current errors: key and text."""
        return self._once.wrong()

    def transition(
        self, change: Transition, known: Iterable[model.Incident], why: str = ""
    ) -> None:
        """Log that an alert fires, is resolved or unknown; `known` are the incidents."""
        alert = change.alert
        device = alert.label("device")
        about = device or (alert.object if alert.label("disk") else "")
        kind = _ALERT.get(alert.state)
        if kind is None:  # a pending alert is not reported
            return
        incident = next(
            (i.identifier for i in known if any(m.key == alert.key for m in i.members)), ""
        )
        priority = PRIORITY[alert.severity] if alert.state is not AlertState.RESOLVED else 5
        reason = f": {why or alert.unknown_reason}" if why or alert.unknown_reason else ""
        self.send(
            kind,
            priority,
            f"{' '.join((alert.name, *([about] if about else [])))} {alert.state}{reason}:"
            f" {alert.annotation('summary')}",
            IOWARDEN_ALERT=alert.name,
            IOWARDEN_DEVICE=device,
            IOWARDEN_SEVERITY=alert.severity.name.lower(),
            IOWARDEN_STATE=alert.state.value,
            IOWARDEN_INCIDENT=incident,
        )

    def incident(self, event: model.IncidentChange) -> None:
        """Log that an incident changed."""
        incident = event.incident
        quietly = incident.closed_quietly and event.change is model.IncidentChangeKind.CLOSED
        self.send(
            _INCIDENT[event.change],
            5 if event.change in _NOT_ESCALATED else PRIORITY[incident.severity],
            f"incident {incident.identifier} ({incident.object}): {event.change}"
            + (f"; {model.CLOSED_QUIETLY}" if quietly else ""),
            IOWARDEN_INCIDENT=incident.identifier,
            IOWARDEN_SEVERITY=incident.severity.name.lower(),
            IOWARDEN_STATE=event.change.value,
        )

    def stuck(self, before: Collection[Stuck], now: Collection[Stuck]) -> None:
        """Log which programs hang in the kernel now, and which no longer do."""
        for each in now:
            if each not in before:
                self._program(each, 4, "was killed and hangs in the kernel")
        for each in before:
            if each not in now:
                self._program(each, 5, "has ended")

    def _program(self, stuck: Stuck, priority: int, text: str) -> None:
        about = f" at {', '.join(stuck.controllers)}" if stuck.controllers else ""
        self.send(
            journal.PROGRAM_STUCK,
            priority,
            f"'{' '.join(stuck.arguments)}' (pid {stuck.pid}){about} {text}",
            IOWARDEN_DEVICE=stuck.devices[0] if stuck.devices else "",
        )

    def device(self, event: device_changes.DeviceChange, advice: Sequence[str] = ()) -> None:
        """Log that a disk was added, removed or changed, and how to re-add it."""
        more = "; ".join(" ".join(text.split()) for text in advice)
        self.send(
            journal.DEVICE_CHANGED,
            4 if event.carried or advice else 5,
            f"device {event.name} {event.change}: {digest.device_sentence(event)}"
            + (more and f"; {more}"),
            IOWARDEN_DEVICE=event.name,
            IOWARDEN_STATE=event.change.value,
        )


def _severity(priority: int) -> str:
    """Return a journal priority as a severity of rules; an error is shown as a warning."""
    words = (severity.name.lower() for severity, most in PRIORITY.items() if priority <= most)
    return next(words, "info")
