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
from iowarden.rules.notice import ENDS, Evidence, Reason
from iowarden.rules.severity import Severity
from iowarden.rules.topology.graph import layer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from iowarden.rules.faults import Layer, Meaning
    from iowarden.rules.topology.graph import StorageGraph

DAY_SECONDS = 86_400.0
COMES_AND_GOES = 3
"""A fault that occurred so often within a day comes and goes."""
FILE_SYSTEM, HARMED = "file system", "programs are blocked"
"""Details of a fault."""
AFFECTED_FILES = "affected files"
"""A detail of an incident."""
CAUSE_FOUND = "cause found: "
"""Beginning of a detail of an incident: the summary with the cause that was not known."""
BASELINE = "baseline"
"""Annotation of alerts on baseline values, as iowarden first read them: 'true'."""
CAUSE_KNOWN = "cause_known"
"""Annotation of alerts that name their cause: 'false' while it is not known, else 'true'."""
ESCALATE_WHEN_DOUBLED = "escalate_when_doubled"
"""Annotation of alerts that are re-notified when their known value has doubled: 'true'."""
LASTED_SECONDS = "lasted_seconds"
"""Annotation of an alert whose value is not a time: for how long it has lasted, a number."""
URGENT = "urgent"
"""Annotation of alerts that block programs: 'true'; 'false' if its kind is only usually urgent."""
CLOSED_QUIETLY = "nothing reported its end, so no mail reports it as resolved"


@dataclass(frozen=True, slots=True)
class NotificationPolicy:
    """When mails are due. Units: seconds."""

    grouping_seconds: float = 60.0
    all_clear_seconds: float = 600.0
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
    silenced: bool = False
    """Whether no mail is due for it, or was while it lasted."""
    value: float = 0.0
    """The present value, if doubling it is an escalation."""
    count: int = 0
    """The number of its events; 0: it is an alert of a rule."""
    last_seconds: float | None = None
    """When the last of these events occurred."""
    joined_seconds: float = 0.0
    """When iowarden received it: from a log that is polled, possibly long after it began."""

    unknown_seconds: float | None = None
    """Since when its data has been unavailable."""
    blocks_now: bool | None = None
    """Whether programs wait for it now: the annotation URGENT; None: as its kind usually does."""
    is_cause_unknown: bool = False
    """Whether it names its cause once that is known, and it is not: the annotation CAUSE_KNOWN."""
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
        try:
            found: tuple[str, Fault, str] = self.known_fact
        except AttributeError:
            return self.remember("known_fact", self._fact())
        return found

    def _fact(self) -> tuple[str, Fault, str]:
        what = self.what
        if what.of_file_system and what.fault in {Fault.FAILED, Fault.READ_ONLY}:
            return self.subject, Fault.FAILED, FILE_SYSTEM
        if self.name in faults.HARMS:
            return self.subject, what.fault, HARMED
        if what.fault is not Fault.OTHER:
            return self.subject, what.fault, ""
        glob = dict(self.labels).get("glob", "")
        return self.subject, what.fault, f"{self.name} {glob}".rstrip()

    @property
    def awaits_line(self) -> bool:
        """Whether only a line would report its end, and none did."""
        return bool(self.count) and self.absent_seconds is None and self.what.ends_by_line

    @property
    def silent_seconds(self) -> float | None:
        """Return how long no event of it had come when it cleared; None: it did not clear by that.

        No line is no proof that what it was about is repaired.
        """
        if not self.count or self.absent_seconds is not None or self.cleared_seconds is None:
            return None
        return None if self.last_seconds is None else self.cleared_seconds - self.last_seconds

    @property
    def over_seconds(self) -> float | None:
        """Return when its condition cleared; None: it holds, or is not known."""
        return self.absent_seconds if self.cleared_seconds is None else self._ended_seconds

    @property
    def _ended_seconds(self) -> float | None:
        missed = self.absent_seconds
        return self.cleared_seconds if missed is None else missed

    @property
    def key(self) -> tuple[Labels, str]:
        """Return the key of its alert."""
        try:
            return self.known_key
        except AttributeError:
            return self.remember("known_key", life.key(self.labels, self.subject, self.count))


@dataclass(frozen=True, slots=True)
class ReportedFault:
    """What the last mail reported about a fault."""

    seconds: float
    severity: Severity
    value: float
    """The worst value then: twice as much is an update."""
    lines: int
    """The number of its log lines then: twice as many are an update."""
    count: int
    """The number of its occurrences then."""
    longest_seconds: float
    """How long the longest of these lasted: one that lasts half as long again is an update."""
    summary: str
    ended: bool = False
    """Whether the mail reported it as ended."""
    is_history: bool = False
    """Whether the mail reported it as older than iowarden's first poll."""
    unread_seconds: float | None = None
    """When a mail last reported that its data is unavailable."""


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """One fault of an object over time, whichever alerts and log lines show it.

    A day without it ends the record: its next occurrence is the first one again.
    """

    subject: str
    fault: Fault
    detail: str
    severity: Severity
    """The worst of alerts that were not silenced."""
    began_seconds: float
    """When the first occurrence began."""
    since_seconds: float
    """When the present or last occurrence began."""
    until_seconds: float | None
    """When that ended; None: it holds, as far as is known."""
    changed_seconds: float
    """When iowarden last noticed that it is there, is there again, or is more severe."""
    onsets: tuple[float, ...] = ()
    """When the last three occurrences began."""
    previous_end_seconds: float | None = None
    """When the occurrence before ended."""
    count: int = 1
    """The number of occurrences."""
    earlier_seconds: float = 0.0
    """How long the occurrences before the present or last one lasted in all."""
    longest_seconds: float = 0.0
    """How long the longest occurrence lasted that has ended."""
    value: float = 0.0
    """The worst value, if doubling it is an update."""
    lines: int = 0
    """The number of its log lines."""
    earlier_lines: int = 0
    """Those of earlier occurrences."""
    is_history: bool = False
    """Whether it is only from before iowarden's first look."""
    reported: ReportedFault | None = None
    """None: no mail has reported it since it began."""

    @property
    def fact(self) -> tuple[str, Fault, str]:
        """Return the object and the kind, as those of its members."""
        return self.subject, self.fault, self.detail

    @property
    def comes_and_goes(self) -> bool:
        """Whether its last three occurrences began within a day."""
        is_third = len(self.onsets) == COMES_AND_GOES
        return is_third and self.onsets[-1] - self.onsets[0] <= DAY_SECONDS

    def lasted_seconds(self, now: float) -> float:
        """Return how long the present or last occurrence has lasted."""
        until = now if self.until_seconds is None else self.until_seconds
        return max(until - self.since_seconds, 0.0)


@dataclass(frozen=True, slots=True)
class LastMail:
    """What the last mail reported of an incident as a whole: the next one is compared with it.

    What it reported of each fault is `FaultRecord.reported`.
    """

    seconds: float
    reason: Reason
    severity: Severity
    object: str
    """An incident of the host may become that of a disk."""
    details: tuple[str, ...] = ()
    is_cause_unknown: bool = False
    """Whether it named no cause of an alert that names its cause once that is known."""


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
    faults: tuple[FaultRecord, ...] = ()
    """Its faults over time, and what the last mail reported about each."""
    last_mail: LastMail | None = None
    first_mailed_seconds: float | None = None
    burst: int = 0
    """The number of its mails since a quiet hour: the more, the longer the next one waits."""
    recovery_mails_seconds: tuple[float, ...] = ()
    """When its last two mails about recoveries were sent."""
    active_seconds: float = 0.0
    """When an alert of it was last firing or unknown."""
    firing: bool = False
    recurrences: int = 0
    started_seconds: float = 0.0
    """When it last began to fire."""
    begun_seconds: float = 0.0
    """When it first began to fire after it was last reported as resolved."""
    closed_seconds: float | None = None
    advised: tuple[str, ...] = ()
    """Names of the alerts whose advice has been mailed."""
    details: tuple[str, ...] = ()
    """Further details: affected files, that a disk returned, the cause that was not known."""
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
    def is_end_reported(self) -> bool:
        """Whether the last mail reported that nothing of it is left."""
        return self.last_mail is not None and self.last_mail.reason in ENDS

    @property
    def unmailed_details(self) -> tuple[str, ...]:
        """Return what became known since the last mail."""
        return self.details[len(self.last_mail.details) if self.last_mail else 0 :]

    @property
    def is_renamed(self) -> bool:
        """Whether the last mail had another object's name."""
        return self.last_mail is not None and self.last_mail.object != self.object

    @property
    def is_end_unreported(self) -> bool:
        """Whether it is resolved and no mail has reported that."""
        is_reported = self.is_end_reported or self.closed_seconds is not None
        return bool(self.mails) and not self.firing and not is_reported and self.ends

    @property
    def accepts_details(self) -> bool:
        """Whether a mail with details may follow: once while it is critical."""
        critical = self.severity is Severity.CRITICAL and not self.details
        return critical and self.firing and bool(self.mails)

    @property
    def occurrences(self) -> int:
        """Return how often the fault occurred that comes and goes; 0: none does."""
        return max((each.count for each in self.faults if each.comes_and_goes), default=0)

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
        is_reported = self.is_end_reported or not self.mails
        return self.closed_seconds is not None and not is_reported

    @property
    def lost(self) -> bool:
        """Whether it ended without a resolved mail: its data was unavailable, or it was closed."""
        if self.firing or not self.mails or self.is_end_reported:
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
    updates: tuple[tuple[str, Fault, str], ...] = ()
    """The faults that make it due: no earlier mail reported them as they are now."""
    previous: LastMail | None = None
    """The mail before it."""
    replaces: tuple[int, ...] = ()
    """Numbers of the undelivered mails of its thread that it replaces."""
    details: tuple[str, ...] = ()
    """What became known since the mail before."""
    acknowledged_by: str = ""
    """Who had acknowledged it: that ends with this mail."""
    companions: tuple[Incident, ...] = ()
    """Further incidents whose first mail it is."""

    def is_new(self, member: IncidentMember) -> bool:
        """Whether no earlier mail reported a member, or not its fault as it is now."""
        has_joined = self.previous is not None and member.joined_seconds > self.previous.seconds
        return has_joined or member.fact in self.updates

    @property
    def is_only_known_better(self) -> bool:
        """Whether it only reports a further detail, e.g. that a disk returned."""
        details = [each for each in self.details if each != AFFECTED_FILES]
        return bool(details) and not self.updates and self.reason is Reason.ESCALATED

    @property
    def renamed(self) -> bool:
        """Whether its thread was mailed under another object's name before."""
        return self.previous is not None and self.previous.object != self.incident.object


@dataclass(frozen=True, slots=True)
class Explanation:
    """What explains what: by alert its cause, among these facts in this graph."""

    facts: tuple[causes.Fact, ...]
    graph: StorageGraph
    by_alert: Mapping[causes.Key, causes.Fact]


@dataclass(frozen=True, slots=True)
class Incidents:
    """All incidents, open and recently closed, and the number of them by key."""

    by_key: Mapping[str, Incident] = field(default_factory=dict)
    sequences: Mapping[str, int] = field(default_factory=dict)
    changed: frozenset[str] = frozenset()
    """Keys whose incident differs from its persisted state."""
    explanation: Explanation | None = field(default=None, repr=False, compare=False)
    """That of the last step: it is the next one's as well while its facts are the same."""


def lasting(alert: Alert) -> bool:
    """Whether the problem of an alert may have existed for years."""
    sight = alert.annotation(BASELINE) == "true"
    return sight or (not alert.count and causes.meaning(alert).lasting)
