"""JSON documents of stored mails, as shown by `iowarden mail list` and `mail show`. Pure.

Units: times are Unix time in seconds; None where there is none.
"""

from __future__ import annotations

from dataclasses import field

from iowarden.collectors.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StoredMail:
    """A mail that waits, or a copy in the Maildir. Units: Unix seconds, bytes."""

    identifier: str = ""
    """Of the incident and the number of its mail: '279479c6de.1'."""
    place: str = ""
    """outbox, or Maildir."""
    waits: bool = True
    """It is sent by a server; false: a copy of one that was sent, or that is no longer news."""
    created_seconds: float = 0.0
    severity: str = ""
    subject: str = ""
    recipients: tuple[str, ...] = ()
    attempts: int = 0
    error: str = ""
    """The reason why it waits, or the error of the last attempt."""
    size_bytes: int = 0
    next_seconds: float | None = None
    """Time of the next attempt; null: only after a change, or not known."""


@dataclass(frozen=True, slots=True)
class StoredMailList:
    """Mails that wait, and copies in the Maildir, oldest first."""

    mails: tuple[StoredMail, ...] = ()
    note: str = ""
    """What is missing, and why."""


@dataclass(frozen=True, slots=True)
class StoredMailText:
    """The readable text of a mail."""

    mail: StoredMail = field(default_factory=StoredMail)
    headers: dict[str, str] = field(default_factory=dict)
    text: str = ""
