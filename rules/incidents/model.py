"""An incident: one cause, the alerts that are its members, its mails; persisted.

Units: seconds of the program's clock.
"""

from __future__ import annotations

import enum
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Labels  # noqa: TC001 - stored over restarts: read at run time
from iowarden.rules import faults
from iowarden.rules.alerting import alerts as life
from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.faults import Fault
from iowarden.rules.incidents import causes
from iowarden.rules.notice import Evidence, Reason
from iowarden.rules.severity import Severity
from iowarden.rules.topology.graph import layer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from iowarden.rules.faults import Layer, Meaning

BASELINE = "baseline"
"""Annotation of alerts on baseline values, as iowarden first read them: 'true'."""
ESCALATE_WHEN_DOUBLED = "escalate_when_doubled"
"""Annotation of alerts that are re-notified when their known value has doubled: 'true'."""
URGENT = "urgent"
"""Annotation of alerts that block programs: 'true'; 'false' if its kind is only usually urgent."""
CLOSED_QUIETLY = "nothing reported its end, so no mail reports it as resolved"


@dataclass(frozen=True, slots=True)
class NotificationPolicy:
    """When mails are due. Units: seconds."""

    grouping_seconds: float = 60.0
    all_clear_seconds: float = 600.0
    reopen_interval_seconds: float = 3600.0
    close_seconds: float = 86_400.0
    reopen_seconds: float = 7 * 86_400.0
    remind_seconds: float = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class IncidentMember(life.Remembered):
    """An alert in an incident: its worst state and its present one."""

    labels: Labels
    name: str
    severity: Severity
    state: AlertState
    since_seconds: float
    summary: str
    advice: str
    unknown: str
    evidence: tuple[Evidence, ...] = ()
    """What was measured when it began."""
    absent_seconds: float | None = None
    """Since when its condition is false, while `keep_firing_for` keeps the alert firing."""
    cleared_seconds: float | None = None
    subject: str = ""
    """As that of the alert."""
    notified_seconds: float | None = None
    """When a mail first reported it, or that its value had doubled."""
    silenced: bool = False
    """Whether no mail is due for it, or was while it lasted."""
    unsilenced_seconds: float | None = None
    """When its last silence ended."""
    value: float = 0.0
    """The present value, if doubling it is an escalation."""
    known_value: float | None = None
    """The value when a mail last reported it or it was acknowledged."""
    count: int = 0
    """The number of its events; 0: it is an alert of a rule."""
    last_seconds: float | None = None
    """When the last of these events occurred."""
    joined_seconds: float = 0.0
    """When iowarden received it: from a log that is polled, possibly long after it began."""

    unknown_seconds: float | None = None
    """Since when its data has been unavailable."""
    urgent: str = ""
    """As the annotation URGENT."""
    redundancy: str | None = ""
    """The alert's annotation REDUNDANCY when it was last known; None: not determined."""
    usual: str = ""
    """Why it is silenced automatically: it recurs at this hour, not longer or more severe."""
    baseline: bool = False
    """Whether it is only history: from before iowarden's first look, and not repeated since."""

    @property
    def what(self) -> Meaning:
        """Return the meaning (fault and layer) of its alert."""
        try:
            found: Meaning = self.known_meaning
        except AttributeError:
            condition = next((text for name, text in self.labels if name == "condition"), "")
            found = faults.meaning(
                self.name, condition, event=bool(self.count), redundancy=self.redundancy or ""
            )
            self.remember("known_meaning", found)
        return found

    @property
    def layer(self) -> Layer:
        """Return the layer of its object."""
        try:
            found: Layer = self.known_layer
        except AttributeError:
            own = self.what.layer
            found = max(own, layer_of(self.subject)) if self.subject else own
            self.remember("known_layer", found)
        return found

    @property
    def fact(self) -> tuple[str, Fault, str]:
        """Return what a mail reports once: object and fault.

        A file system that failed becomes read-only soon after: that is one fact. For an alert of a
        user, or about a backup job, its name and the job's pattern of files count as well.
        """
        what = self.what
        if what.of_file_system and what.fault in {Fault.FAILED, Fault.READ_ONLY}:
            return self.subject, Fault.FAILED, "file system"
        if what.fault is not Fault.OTHER:
            return self.subject, what.fault, ""
        glob = dict(self.labels).get("glob", "")
        return self.subject, what.fault, f"{self.name} {glob}".rstrip()

    @property
    def over_seconds(self) -> float | None:
        """Return when its condition cleared; None: it holds, or is not known."""
        return self.absent_seconds if self.cleared_seconds is None else self._ended_seconds

    @property
    def _ended_seconds(self) -> float | None:
        missed = self.absent_seconds
        return self.cleared_seconds if missed is None else missed

    @property
    def doubled(self) -> bool:
        """Whether its value is at least twice the known one."""
        active = self.state is AlertState.FIRING and self.cleared_seconds is None
        return active and self.known_value is not None and 0 < 2 * self.known_value <= self.value

    @property
    def key(self) -> tuple[Labels, str]:
        """Return the key of its alert."""
        try:
            return self.known_key
        except AttributeError:
            return self.remember("known_key", life.key(self.labels, self.subject, self.count))


@dataclass(frozen=True, slots=True)
class Incident:
    """One cause and its mails."""

    identifier: str
    key: str
    object: str
    opened_seconds: float
    severity: Severity
    """The highest severity of members that were not silenced; INFO while all are."""
    members: tuple[IncidentMember, ...] = ()
    mails: int = 0
    references: tuple[str, ...] = ()
    """'identifier.number' of the first mail of this thread and of those folded into it."""
    mailed_severity: Severity = Severity.INFO
    mailed_object: str = ""
    """The object of the last mail: a host's incident may become a disk's."""
    mailed_seconds: float | None = None
    last_reason: Reason | None = None
    """None also when it recurred without having been reported as resolved."""
    active_seconds: float = 0.0
    """When an alert of it was last firing or unknown."""
    firing: bool = False
    unreadable: bool = False
    """Whether the mail 'unreadable' has been sent for the present lack of data."""
    recurrences: int = 0
    started_seconds: float = 0.0
    """When it last began to fire."""
    begun_seconds: float = 0.0
    """When it first began to fire after it was last reported as resolved."""
    changed_seconds: float = 0.0
    """When a mail last reported a change: the reminder counts from there."""
    closed_seconds: float | None = None
    advised: tuple[str, ...] = ()
    """Names of the alerts whose advice has been mailed."""
    has_new_facts: bool = False
    """Whether there are new details since its last mail, such as the affected file."""
    detailed: bool = False
    """Whether a mail with new details was sent or is due: at most one while it fires."""
    shared: int = 0
    """Mails of further causes in a row, at increasing intervals."""
    returns: int = 0
    """How often it recurred, each time within a day of its end."""
    awaits_initial_report: bool = False
    """Whether the initial report is its first mail: it began with lasting problems only."""
    first_state: int = 1
    """The number of the first state (mail) since it last began."""

    @property
    def first_mails(self) -> tuple[str, ...]:
        """Return the references to the first mail of its thread, and of those merged into it."""
        return self.references or (f"{self.identifier}.1",)

    @property
    def reports(self) -> tuple[tuple[str, int], ...]:
        """Return of whom, and from which state on, notifications are about it as it is now.

        A return without a mail of its own is the same matter. Those of merged incidents, and of the
        initial report, are about the time before a return.
        """
        least = min(self.first_state, self.mails)
        own = (self.identifier, least)
        threads = (each.rpartition(".")[0] for each in self.references)
        others = ((name, 0) for name in threads if name != self.identifier)
        return (own, *others) if least <= 1 else (own,)

    @property
    def awaits_all_clear(self) -> bool:
        """Whether it is resolved and no mail has reported that."""
        told = self.last_reason is Reason.RESOLVED or self.closed_seconds is not None
        return bool(self.mails) and not self.firing and not told and self.ends

    @property
    def awaits_details(self) -> bool:
        """Whether a mail with new details may follow: once, for a critical incident."""
        critical = self.severity is Severity.CRITICAL and not self.detailed
        return critical and self.firing and bool(self.mails)

    @property
    def ends(self) -> bool:
        """Whether its end can be observed; of events only if an event reports it."""
        own = self.members
        seen = bool(own) and all(m.absent_seconds is not None for m in own)
        return not own or seen or any(not m.count for m in own)

    @property
    def unresolved(self) -> bool:
        """Whether it is open, and nothing has reported its end."""
        return self.closed_seconds is None and (self.firing or not self.ends)

    @property
    def closed_quietly(self) -> bool:
        """Whether its end was never reported: it was quiet for so long that it was closed."""
        told = self.last_reason is Reason.RESOLVED or not self.mails
        return self.closed_seconds is not None and not told

    @property
    def lost(self) -> bool:
        """Whether it ended without a resolved mail: its data was unavailable, or it was closed."""
        if self.firing or not self.mails or self.last_reason is Reason.RESOLVED:
            return False
        return not self.members or any(m.state is AlertState.UNKNOWN for m in self.members)


class IncidentChangeKind(enum.StrEnum):
    """Changes of an incident that are logged."""

    OPENED = "opened"
    ESCALATED = "escalated"
    MERGED = "merged"
    REOPENED = "reopened"
    CLOSED = "closed"
    ACK_EXPIRED = "acknowledgement expired"


@dataclass(frozen=True, slots=True)
class InitialReport:
    """The initial report of existing problems.

    Fields: `seconds` is when it was made, None: not yet; `lists` is whether it has a line about an
    alert; `is_state_unknown`: state.db was not read yet, which has what was mailed before.
    """

    identifier: str
    seconds: float | None = None
    lists: Callable[[Alert], bool] = lambda _: False
    is_state_unknown: bool = False

    @property
    def reference(self) -> str:
        """Return the reference to its mail, the first one of the incidents that it contains."""
        return f"{self.identifier}.1"

    def contains(self, alert: Alert) -> bool:
        """Whether an alert is a lasting one that it has a line about: also one that was pending."""
        before = self.seconds is not None and alert.active_seconds <= self.seconds
        return before and lasting(alert) and self.lists(alert)


@dataclass(frozen=True, slots=True)
class IncidentChange:
    """A change of an incident, for the log."""

    change: IncidentChangeKind
    incident: Incident


@dataclass(frozen=True, slots=True)
class DueNotice:
    """A mail that is due, with the incident as it is once the mail is counted."""

    reason: Reason
    incident: Incident
    renamed: bool = False
    """Whether its thread was mailed under another object's name before."""
    replaces: tuple[int, ...] = ()
    """Numbers of the undelivered mails of its thread that it replaces."""


@dataclass(frozen=True, slots=True)
class Incidents:
    """All incidents, open and recently closed, and the number of them by key."""

    by_key: Mapping[str, Incident] = field(default_factory=dict)
    sequences: Mapping[str, int] = field(default_factory=dict)
    changed: frozenset[str] = frozenset()
    """Keys whose incident differs from its persisted state."""


def lasting(alert: Alert) -> bool:
    """Whether the problem of an alert may have existed for years."""
    sight = alert.annotation(BASELINE) == "true"
    return sight or (not alert.count and causes.meaning(alert).lasting)
