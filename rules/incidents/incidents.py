"""The life of incidents: one per cause, with its alerts as members. Pure.

An incident's key is the host or an object's identity: that of the deepest cause of its members
(causes.py). When a deeper cause begins, an open incident continues in that one's thread. An alert
stays where it was reported; a further one about the same object joins it.
Events are alerts with a count, which fire for some minutes. They are not reported as resolved:
that no further event occurs does not mean that the fault is gone.
Silenced alerts are tracked like all others and can be causes, but are no reason for a mail.
When a mail is due is in due.py; what it changes in mailing.py.
Units: seconds of the program's clock.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.faults import TOO_FEW_MEMBERS, Fault
from iowarden.rules.incidents import causes, common_parents, due, folding, mailing, openings
from iowarden.rules.incidents.members import keeping_open, refreshed, vouched
from iowarden.rules.incidents.model import (
    DueNotice,
    Explanation,
    FaultRecord,
    Incident,
    IncidentChange,
    IncidentChangeKind,
    IncidentMember,
    Incidents,
    InitialReport,
    NotificationPolicy,
)
from iowarden.rules.notice import Evidence, Reason
from iowarden.rules.severity import Severity
from iowarden.rules.topology.graph import HOST, StorageGraph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iowarden.collectors.model import Labels
    from iowarden.rules.incidents.causes import Key
    from iowarden.rules.incidents.silences import Acknowledgement
    from iowarden.rules.topology.device_identity import Identity

UNWATCHED_SECONDS = 60.0
"""After a gap of this length or more between two ticks, an alert's absence was not observed."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a step needs in addition to the alerts.

    Fields: `install` is the random identifier of this installation: with the key and a count it
    makes an identifier that is the same again when a kill lost the state but not the mail.
    `observe` gives the evidence of an alert; it is called once, when the alert joins its incident.
    `is_observable` is whether a resolved alert, by labels and subject, would be noticed if it
    fired: otherwise there is no resolved mail. `initial_report`: an incident that began with only
    lasting problems waits for it, see mailing.py. `silenced` is whether an alert is
    silenced now, `usual` why it is not mailed because it recurs at this hour each day,
    `acknowledged` the acknowledgements of incidents, by identifier: no mail but the resolved one,
    until the change ACK_EXPIRED ends that; for events that is when the incident is closed. `graph`
    is what carries what, `started_seconds` when iowarden was started.
    """

    install: str
    policy: NotificationPolicy
    observe: Callable[[Alert], tuple[Evidence, ...]]
    is_observable: Callable[[Labels, str], bool]
    initial_report: InitialReport | None = None
    silenced: Callable[[Alert], bool] = lambda _: False
    usual: Callable[[Alert], str] = lambda _: ""
    acknowledged: Mapping[str, Acknowledgement] = field(default_factory=dict)
    graph: StorageGraph = field(default_factory=StorageGraph)
    started_seconds: float = -math.inf


@dataclass(frozen=True, slots=True)
class _Placed:
    """The alerts of one step by the incident that they belong to.

    Fields: `targets` is the incident of each alert, `quiet` why no mail is due for one,
    `resolved` are the alerts that ended, `is_host_stalled`: writers of the whole host wait.
    """

    alerts: list[Alert]
    targets: Mapping[Key, Identity]
    quiet: Mapping[Key, str]
    resolved: frozenset[Key]
    is_host_stalled: bool

    def by_incident(self) -> dict[str, list[Alert]]:
        """Return the alerts of each incident, by its key."""
        groups: dict[str, list[Alert]] = {}
        for alert in self.alerts:
            groups.setdefault(self.targets[alert.key].key, []).append(alert)
        return groups


def next_incidents(
    state: Incidents, alerts: Iterable[Alert], now: float, around: Surroundings
) -> tuple[Incidents, list[DueNotice], list[IncidentChange]]:
    """Return the incidents at `now`, given every alert, the mails that are due and what changed."""
    book = _Book(state, around, now)
    placed = _placed(book, list(alerts))
    _open_all(book, placed)
    groups = placed.by_incident()
    for key, before in list(book.incidents.items()):
        present = groups.get(key, [])
        after = _refreshed(book, before, present, placed)
        book.note_changes(before, after)
        book.put(_with_report(book, after, present))
    notices = _mails(book)
    for incident in list(book.incidents.values()):
        book.put(_closed(book, incident))
    book.expire_merged_acknowledgements()
    return book.result(), notices, book.changes


def _open_all(book: _Book, placed: _Placed) -> None:
    """Open the incidents of all alerts: the most severe one that is mailed gives the severity."""
    for alert in sorted(placed.alerts, key=lambda a: (a.key in placed.quiet, -a.severity)):
        severity = Severity.INFO if alert.key in placed.quiet else alert.severity
        book.open(placed.targets[alert.key], severity)


def _placed(book: _Book, alerts: list[Alert]) -> _Placed:
    """Return which incident each active alert belongs to; open ones are merged meanwhile."""
    around = book.around
    active = [a for a in alerts if a.active and a.severity >= Severity.WARNING]
    there = folding.open_members(book.incidents)
    active = folding.one_of_a_kind(there, active)
    graph, habits = around.graph, {a.key: around.usual(a) for a in active}
    facts = {
        a.key: causes.fact(
            a,
            book.now,
            silent=around.silenced(a) or bool(habits[a.key]),
            seen=graph.seen,
            started=around.started_seconds,
        )
        for a in active
    }
    ended = folding.ended_causes(book.incidents, facts.keys(), book.now)
    open_now = [each for each in book.incidents.values() if each.closed_seconds is None]
    shortages = causes.Shortages(open_now)
    book.explanation = common_parents.explanation(
        (
            *folding.without_settled(there, facts.values()),
            *(fact for _, fact in ended.values()),
        ),
        graph,
        book.before.explanation,
        around.started_seconds,
        shortages,
    )
    explained = book.explanation.by_alert
    active = folding.not_suppressed(there, active, facts, explained)
    quiet = {
        key: habits[key] or (habits.get(explained[key].key, "") if key in explained else "")
        for key in folding.quiet(facts, explained)
    }
    places = folding.Targets(book.incidents, facts, explained, graph, ended, shortages)
    targets = places.of(active)
    book.changes += [
        IncidentChange(IncidentChangeKind.MERGED, incident) for incident in places.folded
    ]
    return _Placed(
        active,
        targets,
        quiet,
        frozenset(a.key for a in alerts if a.state is AlertState.RESOLVED),
        any(f.what.fault in {Fault.STALL, Fault.HUNG} for f in facts.values()),
    )


def _refreshed(book: _Book, incident: Incident, alerts: list[Alert], placed: _Placed) -> Incident:
    """Return an incident with its alerts as they are now."""
    around, now = book.around, book.now
    incident = vouched(incident, now, around.is_observable)
    after = refreshed(incident, alerts, placed.resolved, now, around.observe, placed.quiet)
    after = vouched(after, now, around.is_observable)  # it may have ended in this very step
    is_stalled = placed.is_host_stalled and incident.key == HOST
    if after.is_end_unreported and (is_stalled or _is_unwell(book, after)):
        return replace(after, active_seconds=now)  # reported elsewhere, not resolved
    return after


def _with_report(book: _Book, incident: Incident, alerts: list[Alert]) -> Incident:
    """Return an incident as the initial report leaves it, if that is to be made or was made."""
    report = book.around.initial_report
    return incident if report is None else mailing.with_report(incident, alerts, report, book.now)


def _mails(book: _Book) -> list[DueNotice]:
    """Return the mails that are due, each counted in its incident; some first mails share one."""
    reasons: dict[str, Reason] = {}
    users: dict[str, str] = {}
    """Who had acknowledged an incident whose mail ends that."""
    for key, incident in list(book.incidents.items()):
        reason, user = _due(book, incident)
        if reason is not None:
            reasons[key], users[key] = reason, user
    first = [book.incidents[key] for key, why in reasons.items() if why is Reason.OPENED]
    opening = openings.divided(first, book.before.by_key.values(), book.now)
    for incident in opening.postponed:
        del reasons[incident.key]
    notices = {
        key: mailing.mail(book.incidents[key], reason, book.now, acknowledged_by=users[key])
        for key, reason in reasons.items()
    }
    if opening.shared:
        leader, *others = [notices.pop(incident.key) for incident in opening.shared]
        companions = tuple(
            replace(each.incident, references=leader.incident.first_mails) for each in others
        )
        notices[leader.incident.key] = replace(leader, companions=companions)
    for notice in notices.values():
        for incident in (notice.incident, *notice.companions):
            book.put(incident)
    return [*notices.values()]


def _due(book: _Book, incident: Incident) -> tuple[Reason | None, str]:
    """Return why a mail is due, or None; and who had acknowledged the incident, if it ends that.

    An acknowledged incident is mailed when it exceeds what was acknowledged, and at its end.
    """
    around, now = book.around, book.now
    report, acknowledgement = around.initial_report, around.acknowledged.get(incident.identifier)
    if report is not None and due.awaits_report(incident, now, report):
        return None, ""
    if acknowledgement is None:
        return due.reason(incident, now, around.policy, book.is_short), ""
    if due.exceeds(incident, acknowledgement, now):
        book.note(IncidentChangeKind.ACK_EXPIRED, incident)
        is_known = bool(incident.mails)
        opened = due.reason(incident, now, around.policy, book.is_short)
        reason = Reason.ESCALATED if is_known else opened
        return reason, acknowledgement.who
    incident = mailing.acknowledged(incident, now)
    quiet_seconds = now - incident.active_seconds
    is_over = quiet_seconds >= _forgotten_seconds(incident, around.policy) and not incident.firing
    if is_over:
        book.note(IncidentChangeKind.ACK_EXPIRED, incident)
        incident = _acknowledged_to_the_end(incident)
    book.put(incident)
    return (due.reason(incident, now, around.policy, book.is_short) if is_over else None), ""


def _is_unwell(book: _Book, incident: Incident) -> bool:
    """Whether another incident has a fault of an incident's object, or its array is still short.

    A disk is no longer slow, because it left with its shelf. It is back, and its array has no
    redundancy left, because another disk left.
    """
    arrays = {m.subject for m in incident.members if m.what.fault in TOO_FEW_MEMBERS}
    return any(map(book.is_short, arrays)) or any(
        member.subject == incident.key
        and member.cleared_seconds is None
        and not member.what.symptom
        for key, other in book.incidents.items()
        if key != incident.key and other.closed_seconds is None
        for member in other.members
    )


def unwatched(by_key: Mapping[str, Incident], now: float) -> dict[str, Incident]:
    """Return incidents after a time without monitoring, e.g. a restart.

    What was not reported as resolved counts as unchanged until now. What ended less than a minute
    ago did: the time without monitoring was shorter.
    """

    def still(incident: Incident) -> bool:
        holding = keeping_open(incident.members) if incident.firing else []
        recent = 0.0 <= now - incident.active_seconds < UNWATCHED_SECONDS
        if recent and all(m.absent_seconds is not None for m in holding):
            return False
        return incident.firing or incident.is_end_unreported

    return {
        key: replace(incident, active_seconds=now) if still(incident) else incident
        for key, incident in by_key.items()
    }


class _Book:
    """The incidents during one step."""

    def __init__(self, state: Incidents, around: Surroundings, now: float) -> None:
        self.incidents = dict(state.by_key)
        self.sequences = dict(state.sequences)
        self.before = state
        self.around = around
        self.now = now
        self.changes: list[IncidentChange] = []
        self.explanation: Explanation | None = None

    def open(self, identity: Identity, severity: Severity) -> None:
        """Make sure that an incident of this key is open."""
        now = self.now
        incident = self.incidents.get(identity.key)
        if incident is not None:
            if incident.closed_seconds is None:
                return
            if now - incident.closed_seconds <= self.around.policy.reopen_seconds:
                self.incidents[identity.key] = replace(incident, closed_seconds=None)
                return
        number = self.sequences.get(identity.key, 0) + 1
        self.sequences[identity.key] = number
        digest = hashlib.blake2b(
            f"{self.around.install}\0{identity.key}\0{number}".encode(), digest_size=5
        ).hexdigest()
        opened = Incident(
            identifier=digest,
            key=identity.key,
            object=identity.object,
            opened_seconds=now,
            severity=severity,
            started_seconds=now,
            begun_seconds=now,
            active_seconds=now,
        )
        self.incidents[identity.key] = opened
        self.note(IncidentChangeKind.OPENED, opened)

    def is_short(self, array: str) -> bool:
        """Whether an alert of any incident shows that an array or pool lacks members now."""
        return any(
            array in due.short_arrays(incident.members)
            for incident in self.incidents.values()
            if incident.closed_seconds is None
        )

    def note(self, change: IncidentChangeKind, incident: Incident) -> None:
        """Note a change of an incident for the log."""
        self.changes.append(IncidentChange(change, incident))

    def note_changes(self, before: Incident, after: Incident) -> None:
        """Note for the log that an incident began again, or is more severe."""
        if after.firing and not before.firing and before.mails:
            self.note(IncidentChangeKind.REOPENED, after)
        if after.severity > before.severity and before.members:
            self.note(IncidentChangeKind.ESCALATED, after)

    def put(self, incident: Incident) -> None:
        """Put an incident in place, or delete one that can no longer be reopened."""
        closed = incident.closed_seconds
        if closed is not None and self.now - closed > self.around.policy.reopen_seconds:
            del self.incidents[incident.key]
        else:
            self.incidents[incident.key] = incident

    def expire_merged_acknowledgements(self) -> None:
        """Note that acknowledgements end whose incident was merged into another one."""
        identifiers = {incident.identifier for incident in self.incidents.values()}
        for incident in self.before.by_key.values():
            if incident.identifier in self.around.acknowledged.keys() - identifiers:
                self.note(IncidentChangeKind.ACK_EXPIRED, incident)

    def result(self) -> Incidents:
        """Return the incidents, and which of them are to be persisted."""
        keys = self.incidents.keys() | self.before.by_key.keys()
        changed = frozenset(
            k for k in keys if _differs(self.before.by_key.get(k), self.incidents.get(k))
        )
        return Incidents(self.incidents, self.sequences, changed, self.explanation)


_OF_INCIDENT = attrgetter(
    *(
        each.name
        for each in fields(Incident)
        if each.name not in {"active_seconds", "members", "faults"}
    )
)
_OF_MEMBER = attrgetter(
    *(
        each.name
        for each in fields(IncidentMember)
        if each.name not in {"summary", "advice", "unknown", "absent_seconds", "value"}
    )
)

_OF_RECORD = attrgetter(
    *(each.name for each in fields(FaultRecord) if each.name not in {"value", "lines"})
)


def _differs(before: Incident | None, after: Incident | None) -> bool:
    """Whether an incident is to be persisted: not for what changes each second while it fires."""
    if before is after:
        return False
    if before is None or after is None or _OF_INCIDENT(before) != _OF_INCIDENT(after):
        return True
    if before.faults is not after.faults and (
        [*map(_OF_RECORD, before.faults)] != [*map(_OF_RECORD, after.faults)]
    ):
        return True
    own, others = before.members, after.members
    if after.firing:
        return len(own) != len(others) or any(
            a is not b and _OF_MEMBER(a) != _OF_MEMBER(b) for a, b in zip(own, others, strict=True)
        )
    # While it awaits the all-clear its quiet time restarts with the program, see `unwatched`.
    quiet = after.is_end_unreported or before.active_seconds == after.active_seconds
    return own != others or not quiet


def _forgotten_seconds(incident: Incident, policy: NotificationPolicy) -> float:
    """Return the quiet time after which an acknowledgement ends with its incident.

    Longer for events: the next read error of a disk that is to be replaced is no update. Also for
    what comes and goes. A fault that was back without a mail of its own is still what was mailed as
    over: without an hour of quiet its next return is no news either.
    """
    if not incident.ends:
        return policy.close_seconds
    least = due.HOUR_SECONDS if incident.is_end_reported else policy.all_clear_seconds
    return max(least, due.clear_seconds(incident, policy))


def _acknowledged_to_the_end(incident: Incident) -> Incident:
    """Return a resolved incident that was acknowledged to its end: nothing is left to report."""
    members = tuple(replace(m, silenced=True) for m in incident.members)
    last = incident.last_mail
    if last is not None:
        last = replace(last, severity=max(last.severity, incident.severity))
    return replace(incident, members=members, last_mail=last)


def _closed(book: _Book, incident: Incident) -> Incident:
    """Return an incident, closed if it has been quiet for long enough."""
    if incident.closed_seconds is not None or incident.firing:
        return incident
    if book.now - incident.active_seconds < book.around.policy.close_seconds:
        return incident
    last = incident.last_mail
    closed = replace(
        incident,
        closed_seconds=book.now,
        members=(),
        severity=Severity.WARNING,
        last_mail=last and replace(last, severity=Severity.WARNING),
    )
    book.note(IncidentChangeKind.CLOSED, closed)
    return closed
