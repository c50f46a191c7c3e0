"""The ledger's table: which state of an incident a receiver was sent, and what became of that."""

from __future__ import annotations

import enum
from typing import Any

from iowarden.collectors.dataclass import dataclass

SCHEMA = """
CREATE TABLE notifications (
    incident TEXT NOT NULL,
    state INTEGER NOT NULL,
    receiver TEXT NOT NULL,
    status TEXT NOT NULL,
    since_realtime_seconds REAL NOT NULL,
    PRIMARY KEY (incident, state, receiver)
) WITHOUT ROWID;
"""
COLUMNS = "incident, state, receiver, status, since_realtime_seconds"
SELECT = f"SELECT {COLUMNS} FROM notifications"  # noqa: S608 - ours
PUT = f"INSERT OR REPLACE INTO notifications ({COLUMNS}) VALUES (?,?,?,?,?)"  # noqa: S608 - ours
DELETE = "DELETE FROM notifications WHERE incident = ? AND state = ? AND receiver = ?"
NotificationKey = tuple[str, int, str]
"""Incident, state, receiver."""


class NotificationStatus(enum.StrEnum):
    """How far a notification came."""

    QUEUED = "queued"
    """Its message is in the outbox."""
    MAYBE = "maybe"
    """Its message is in the outbox; an attempt had no reply, so that the receiver may have it."""
    ACCEPTED = "accepted"
    LOCAL = "local"
    """Only written to the Maildir of this machine: perhaps no user looks there."""


@dataclass(frozen=True, slots=True)
class Notification:
    """A state of an incident that a receiver is notified of. Units: Unix seconds."""

    incident: str
    state: int
    """Counts the states of the incident that were queued, from 1."""
    receiver: str
    status: NotificationStatus
    since_realtime_seconds: float
    """When it got this status."""

    @property
    def key(self) -> NotificationKey:
        """Return what it is stored by."""
        return self.incident, self.state, self.receiver

    @property
    def columns(self) -> tuple[object, ...]:
        """Return the values of COLUMNS."""
        return *self.key, self.status.value, self.since_realtime_seconds


def notification(*values: Any) -> Notification:  # noqa: ANN401 - as SQLite returns them
    """Return a notification from COLUMNS. Errors: ValueError, TypeError."""
    incident, state, receiver, status, since = values
    for value, cls in ((incident, str), (state, int), (receiver, str), (since, int | float)):
        if not isinstance(value, cls):
            raise TypeError(f"notification: expected {cls}, got {value!r:.60}")
    return Notification(incident, state, receiver, NotificationStatus(status), since)
