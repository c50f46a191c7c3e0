"""What one mail says: the words between the incidents and whoever renders or sends them."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iowarden.rules.severity import Severity


class Reason(enum.StrEnum):
    """Why a mail is sent."""

    OPENED = "opened"
    WORSE = "worse"
    UNREADABLE = "unreadable"
    ALL_CLEAR = "all clear"
    AGAIN = "again"
    REBUILT = "rebuilt"
    """An array has all of its members again, while something else of its incident stays."""
    STILL = "still"
    """Once, when nothing changed for 7 days."""
    ARRIVAL = "arrival"
    """Once: what was found at first sight."""
    DIGEST = "digest"
    """Weekly: notices and information."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One line of evidence. Units: `realtime_seconds` is Unix time, when it was so."""

    realtime_seconds: float
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class Notice:
    """One mail to be written, complete in itself.

    Fields: `incident` is the incident's identifier, the same in all its mails; `number` counts its
    mails from 1; `references` are the identifiers `incident.number` of the mails it answers, the
    first of its thread first; times are Unix time in seconds.
    """

    incident: str
    number: int
    references: tuple[str, ...]
    reason: Reason
    severity: Severity
    object: str
    """'host', or a disk: 'sda (ACME SLOW-HDD, serial SLOW1)'."""
    summary: str
    """One line: the worst alert's summary."""
    opened_seconds: float
    realtime_seconds: float
    recurrences: int
    happened: tuple[str, ...]
    """What happened, a sentence a line, worst first."""
    evidence: tuple[Evidence, ...]
    affected: tuple[str, ...]
    """What it hits: arrays, mounts, devices above. Empty: not known."""
    advice: tuple[str, ...]
    unknown: tuple[str, ...]
    """What is not known or cannot be read."""
    meaning: tuple[str, ...] = ()
    """What that is and what comes of it: the descriptions of alerts that no mail has told yet."""
    ended_seconds: float | None = None
    """Unix time of the true end, in an all clear."""
    times: int = 0
    """How often it was so within a day, where it comes and goes."""
