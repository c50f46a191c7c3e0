"""An incident: one cause, the alerts that are its members, its mails; what is kept over restarts.

Units: seconds of the program's clock.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iowarden.collectors.model import Labels  # noqa: TC001 - kept over restarts: read at run time
from iowarden.rules import faults
from iowarden.rules.alerting import alerts as life
from iowarden.rules.alerting.alerts import Alert, State
from iowarden.rules.faults import Fault
from iowarden.rules.incidents import causes
from iowarden.rules.notice import Evidence, Reason
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.rules.faults import Layer, Meaning

FIRST_SIGHT = "first_sight"
"""Annotation of alerts on what was so when iowarden first saw it: 'true'."""
WORSE_WHEN_DOUBLED = "worse_when_doubled"
"""Annotation of alerts that are news again when their value is twice what is known: 'true'."""
URGENT = "urgent"
"""Annotation of alerts that programs stand still for, 'true', or whose kind says so in vain."""
CLOSED_QUIETLY = "nothing told its end, so no mail says that it is over"


@dataclass(frozen=True, slots=True)
class Policy:
    """When mails are due. Units: seconds."""

    grouping_seconds: float = 60.0
    all_clear_seconds: float = 600.0
    again_seconds: float = 3600.0
    close_seconds: float = 86_400.0
    reopen_seconds: float = 7 * 86_400.0
    remind_seconds: float = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class Member:
    """What an incident remembers of one alert: its worst moment and what it says now."""

    labels: Labels
    name: str
    severity: Severity
    state: State
    since_seconds: float
    summary: str
    advice: str
    unknown: str
    evidence: tuple[Evidence, ...] = ()
    """What was measured when it began."""
    missed_seconds: float | None = None
    """Since when its condition has not held, while the alert is kept firing."""
    cleared_seconds: float | None = None
    subject: str = ""
    """As that of the alert."""
    told_seconds: float | None = None
    """When a mail first told of it, or that it had doubled."""
    silenced: bool = False
    """Whether no mail is due for it, or was while it lasted."""
    heard_seconds: float | None = None
    """When its last silence ended."""
    value: float = 0.0
    """What is measured now, where twice as much is worse."""
    known_value: float | None = None
    """What it was when a mail last told it or somebody acknowledged it."""
    count: int = 0
    """So many events it is; 0: it is a rule's alert."""
    last_seconds: float | None = None
    """When the last of these events was."""
    joined_seconds: float = 0.0
    """When iowarden heard of it: of a log that is read now and then, long after it began."""

    unknown_seconds: float | None = None
    """Since when its source has been silent."""
    urgent: str = ""
    """As the annotation URGENT."""
    redundancy: str | None = ""
    """As the alert's annotation REDUNDANCY when it was last known; None: nobody looked at it."""
    usual: str = ""
    """Why it is silenced though nobody did: it comes at this hour, no worse than on other days."""

    @property
    def what(self) -> Meaning:
        """Return what its alert is."""
        condition = next((text for name, text in self.labels if name == "condition"), "")
        event = bool(self.count)
        return faults.meaning(self.name, condition, event=event, redundancy=self.redundancy or "")

    @property
    def layer(self) -> Layer:
        """Return how deep what it is about lies."""
        own = self.what.layer
        return max(own, causes.layer_of(self.subject)) if self.subject else own

    @property
    def fact(self) -> tuple[str, Fault, str]:
        """Return what a mail reports once: object and kind; of a user's alert its name as well.

        A file system that failed is read-only soon after: that is one.
        """
        what = self.what
        if what.of_file_system and what.fault in {Fault.FAILED, Fault.READ_ONLY}:
            return self.subject, Fault.FAILED, "file system"
        return self.subject, what.fault, self.name if what.fault is Fault.OTHER else ""

    @property
    def over_seconds(self) -> float | None:
        """Return when its condition ceased to hold; None: it holds, or nobody can say."""
        return self.missed_seconds if self.cleared_seconds is None else self._ended_seconds

    @property
    def _ended_seconds(self) -> float | None:
        missed = self.missed_seconds
        return self.cleared_seconds if missed is None else missed

    @property
    def doubled(self) -> bool:
        """Whether it is twice as bad as what is known."""
        active = self.state is State.FIRING and self.cleared_seconds is None
        return active and self.known_value is not None and 0 < 2 * self.known_value <= self.value

    @property
    def key(self) -> tuple[Labels, str]:
        """Return the key of its alert."""
        return life.key(self.labels, self.subject, self.count)


@dataclass(frozen=True, slots=True)
class Incident:
    """One cause and its mails."""

    identifier: str
    key: str
    object: str
    opened_seconds: float
    severity: Severity
    """The worst of what was not silenced; INFO while all of it is."""
    members: tuple[Member, ...] = ()
    mails: int = 0
    references: tuple[str, ...] = ()
    """'identifier.number' of the first mail of this thread and of those folded into it."""
    mailed_severity: Severity = Severity.INFO
    mailed_object: str = ""
    """What the last mail was about: a host's incident may become a disk's."""
    mailed_seconds: float | None = None
    last_reason: Reason | None = None
    """None also when it has come again and nobody could say that it was over."""
    active_seconds: float = 0.0
    """When an alert of it was last firing or unknown."""
    firing: bool = False
    unreadable: bool = False
    """Whether the mail 'unreadable' has been sent for the present silence."""
    recurrences: int = 0
    started_seconds: float = 0.0
    """When it last began to fire."""
    begun_seconds: float = 0.0
    """When it began to fire for the first time since its last all clear."""
    changed_seconds: float = 0.0
    """When a mail last said that something changed: the reminder counts from there."""
    closed_seconds: float | None = None
    advised: tuple[str, ...] = ()
    """Names of the alerts whose advice has been mailed."""
    learnt: bool = False
    """Whether something is known now that its last mail could not say: which file was hit."""
    detailed: bool = False
    """Whether a mail has followed for that, or is due: there is one at most while it fires."""
    shared: int = 0
    """Mails of further causes in a row, each longer after the one before."""
    returns: int = 0
    """How often it came back, each time within a day of its end."""

    @property
    def first_mails(self) -> tuple[str, ...]:
        """Return what names the first mail of its thread, and of those folded into it."""
        return self.references or (f"{self.identifier}.1",)

    @property
    def awaits_all_clear(self) -> bool:
        """Whether it is over and no mail said so."""
        told = self.last_reason is Reason.ALL_CLEAR or self.closed_seconds is not None
        return bool(self.mails) and not self.firing and not told and self.ends

    @property
    def awaits_details(self) -> bool:
        """Whether a mail follows with what becomes known: once, of what is critical."""
        critical = self.severity is Severity.CRITICAL and not self.detailed
        return critical and self.firing and bool(self.mails)

    @property
    def ends(self) -> bool:
        """Whether something of it can be seen to be over; of events only where one tells it."""
        own = self.members
        seen = bool(own) and all(m.missed_seconds is not None for m in own)
        return not own or seen or any(not m.count for m in own)

    @property
    def closed_quietly(self) -> bool:
        """Whether nothing told its end: it was quiet for so long that it is closed."""
        told = self.last_reason is Reason.ALL_CLEAR or not self.mails
        return self.closed_seconds is not None and not told

    @property
    def lost(self) -> bool:
        """Whether it ended without an all clear: nobody could read it, or it was closed so."""
        if self.firing or not self.mails or self.last_reason is Reason.ALL_CLEAR:
            return False
        return not self.members or any(m.state is State.UNKNOWN for m in self.members)


class Change(enum.StrEnum):
    """What the journal is told of an incident."""

    OPENED = "opened"
    WORSE = "worse"
    FOLDED = "folded"
    AGAIN = "again"
    CLOSED = "closed"
    LIFTED = "no longer acknowledged"


@dataclass(frozen=True, slots=True)
class Arrival:
    """The mail about what was so at first sight. `seconds`: when it was sent; None: it will be."""

    identifier: str
    seconds: float | None = None

    def tells(self, alert: Alert) -> bool:
        """Whether an alert is of what lasts, and its condition held before the mail."""
        before = self.seconds is None or alert.active_seconds <= self.seconds
        return before and lasting(alert)


@dataclass(frozen=True, slots=True)
class Event:
    """A change of an incident, for the journal."""

    change: Change
    incident: Incident


@dataclass(frozen=True, slots=True)
class Due:
    """A mail that is due, with the incident as it is once the mail is counted."""

    reason: Reason
    incident: Incident
    renamed: bool = False
    """Whether its thread was mailed under another object's name before."""
    replaces: tuple[int, ...] = ()
    """Numbers of the mails of its thread that nobody got: it takes their place."""


@dataclass(frozen=True, slots=True)
class Incidents:
    """All incidents, open and lately closed, and how many there were of each key."""

    by_key: Mapping[str, Incident] = field(default_factory=dict)
    sequences: Mapping[str, int] = field(default_factory=dict)
    changed: frozenset[str] = frozenset()
    """Keys whose incident differs from what was last kept durably."""


def lasting(alert: Alert) -> bool:
    """Whether what an alert says may have been so for years."""
    sight = alert.annotation(FIRST_SIGHT) == "true"
    return sight or (not alert.count and causes.meaning(alert).lasting)
