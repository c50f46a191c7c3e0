"""Content of one mail: the interface between incidents and the code that renders or sends it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from iowarden.rules.severity import Severity


class Reason(enum.StrEnum):
    """Why a mail is sent."""

    OPENED = "opened"
    ESCALATED = "escalated"
    DATA_UNAVAILABLE = "data unavailable"
    RESOLVED = "resolved"
    REOPENED = "reopened"
    REBUILT = "rebuilt"
    """An array has all its members again, while other alerts of its incident continue."""
    NOT_REPAIRED = "over, not repaired"
    """Nothing goes on, but what was lost or failed does not repair itself."""
    REMINDER = "reminder"
    """Sent once, when nothing changed for 7 days."""
    INITIAL = "initial report"
    """Sent once: the initial report of existing problems."""
    DIGEST = "digest"
    """Sent weekly: notices and information."""
    TEST = "test"
    """Sent by a user as a test of the delivery: nothing is wrong."""


ENDS = frozenset((Reason.RESOLVED, Reason.NOT_REPAIRED))
"""Reasons of mails after which nothing is left to be reported."""
RECOVERIES = ENDS | {Reason.REBUILT}
"""Reasons of mails that are never urgent, whatever the severity of their incident."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One line of evidence. Units: `realtime_seconds` is the Unix time of the observation."""

    realtime_seconds: float
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class Course:
    """The values of a measurement over the last minutes, oldest first, one per cell of 30 s.

    A cell without a value was not measured: None, never 0. `threshold` is None if there is none.
    """

    cells: tuple[float | None, ...]
    minimum: str
    maximum: str
    """The least and the greatest of the values, with their unit."""
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class Measurement(Evidence):
    """A measured value in words, with unit and threshold; `source` is its metric."""

    before: Evidence | None = None
    """The value when the alert began, if it was another one: only the value is the text."""
    course: Course | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """One mail to be rendered, complete in itself.

    Fields: `incident` is the incident's identifier, the same in all its mails; `number` counts its
    mails from 1; `references` are the identifiers `incident.number` of the earlier mails of its
    thread, the first one first; times are Unix time in seconds.
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
    sentences: tuple[str, ...]
    """What happened, one sentence per line, most severe first."""
    evidence: tuple[Evidence, ...]
    affected: tuple[str, ...]
    """What is affected: arrays, mounts, devices above. Empty: not known."""
    advice: tuple[str, ...]
    unknown: tuple[str, ...]
    """What is unknown or cannot be read."""
    meaning: tuple[str, ...] = ()
    """Meaning and consequences: the descriptions of alerts that no earlier mail contained."""
    ended_seconds: float | None = None
    """Unix time of the actual end, when resolved."""
    times: int = 0
    """How often its fault occurred, if it comes and goes."""
    page: str = ""
    """Address of its incident on the status page, if other hosts reach that."""
