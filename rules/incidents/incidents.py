"""The life of incidents: one per cause, with its alerts as members. Pure.

An incident's key is the host or an object's identity: that of the deepest cause of its members
(causes.py). When a deeper cause begins, an open incident continues in that one's thread. An alert
stays where it was reported; a further one about the same object joins it.
Events are alerts with a count, which fire for some minutes. They are not reported as resolved:
that no further event occurs does not mean that the fault is gone.
Silenced alerts are tracked like all others and can be causes, but are no reason for a mail.
When a mail is due is in rules/incidents/due.py. Units: seconds of the program's clock.
"""

from __future__ import annotations

import hashlib
from dataclasses import field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.faults import Fault
from iowarden.rules.incidents import causes, common_parents, due, folding, openings
from iowarden.rules.incidents.members import keeping_open, refreshed, vouched
from iowarden.rules.incidents.model import (
    DueNotice,
    FaultRecord,
    Incident,
    IncidentChange,
    IncidentChangeKind,
    IncidentMember,
    Incidents,
    InitialReport,
    NotificationPolicy,
    lasting,
)
from iowarden.rules.notice import Evidence, Reason
from iowarden.rules.severity import Severity
from iowarden.rules.topology.graph import HOST, StorageGraph

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

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
    lasting problems waits for it, see `counted_by_report`. `silenced` is whether an alert is
    silenced now, `usual` why it is not mailed because it recurs at this hour each day,
    `acknowledged` the acknowledgements of incidents, by identifier: no mail but the resolved one,
    until the change ACK_EXPIRED ends that; for events that is when the incident is closed. `graph`
    is what carries what.
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
    book = _Book(state, around)
    placed = _placed(book, list(alerts), now, around)
    groups = placed.by_incident()
    # The most severe alert that is not silenced gives the severity from the beginning.
    for alert in sorted(placed.alerts, key=lambda a: (a.key in placed.quiet, -a.severity)):
        severity = Severity.INFO if alert.key in placed.quiet else alert.severity
        book.open(placed.targets[alert.key], severity, now)
    notices: list[DueNotice] = []
    for key, before in list(book.incidents.items()):
        present = groups.get(key, [])
        after = _refreshed(before, present, placed, now, around)
        book.note_changes(before, after)
        after, notice = _with_notice(book, after, present, now)
        if notice is not None:
            notices.append(notice)
        book.put(key, after, now)
    identifiers = {incident.identifier for incident in book.incidents.values()}
    book.changes += [
        IncidentChange(IncidentChangeKind.ACK_EXPIRED, incident)  # it was merged into another one
        for incident in state.by_key.values()
        if incident.identifier in around.acknowledged and incident.identifier not in identifiers
    ]
    notices = openings.shared(book.incidents, state.by_key, notices, now)
    return book.result(), notices, book.changes


def _placed(book: _Book, alerts: list[Alert], now: float, around: Surroundings) -> _Placed:
    """Return which incident each active alert belongs to; open ones are merged meanwhile."""
    active = [a for a in alerts if a.active and a.severity >= Severity.WARNING]
    active = folding.one_of_a_kind(book.incidents, active)
    graph, habits = around.graph, {a.key: around.usual(a) for a in active}
    facts = {
        a.key: causes.fact(
            a, now, silent=around.silenced(a) or bool(habits[a.key]), seen=graph.seen
        )
        for a in active
    }
    explained = common_parents.explained(facts.values(), graph)
    active = folding.not_suppressed(book.incidents, active, facts, explained)
    quiet = {
        key: habits[key] or (habits.get(explained[key].key, "") if key in explained else "")
        for key in folding.quiet(facts, explained)
    }
    places = folding.Targets(book.incidents, facts, explained, graph)
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


def _refreshed(
    before: Incident, alerts: list[Alert], placed: _Placed, now: float, around: Surroundings
) -> Incident:
    """Return an incident with its alerts as they are now."""
    incident = before
    if placed.is_host_stalled and incident.key == HOST and incident.is_end_unreported:
        incident = replace(incident, active_seconds=now)  # reported elsewhere, not resolved
    incident = vouched(incident, now, around.is_observable)
    after = refreshed(incident, alerts, placed.resolved, now, around.observe, placed.quiet)
    return vouched(after, now, around.is_observable)  # it may have ended in this very step


def _with_notice(
    book: _Book, incident: Incident, alerts: list[Alert], now: float
) -> tuple[Incident, DueNotice | None]:
    """Return an incident, with a mail counted if one is due, and that mail."""
    around = book.around
    report = around.initial_report
    if report is not None:
        incident = _with_report(incident, alerts, report, now)
        if report.seconds is None and due.awaits_report(
            incident, now, is_state_unknown=report.is_state_unknown
        ):
            return incident, None
    acknowledgement = around.acknowledged.get(incident.identifier)
    why: Reason | None = None
    if acknowledgement is None:
        why = due.reason(incident, now, around.policy)
    elif due.exceeds(incident, acknowledgement, now):
        book.changes.append(IncidentChange(IncidentChangeKind.ACK_EXPIRED, incident))
        why = Reason.ESCALATED if incident.mails else due.reason(incident, now, around.policy)
    else:
        incident = due.acknowledged(incident, now)
        quiet_seconds = now - incident.active_seconds
        if not incident.firing and quiet_seconds >= _forgotten_seconds(incident, around.policy):
            book.changes.append(IncidentChange(IncidentChangeKind.ACK_EXPIRED, incident))
            incident = _acknowledged_to_the_end(incident)
            why = due.reason(incident, now, around.policy)
            acknowledgement = None
    if why is None:
        return _close(book, incident, now), None
    updates = tuple(record.fact for record in due.unreported(incident, now))
    details = incident.details[len(incident.mailed_details) :]
    after = due.mailed(incident, why, now)
    notice = DueNotice(
        why,
        after,
        updates,
        incident.mailed_object,
        incident.mailed_seconds,
        details=details,
        acknowledged_by="" if acknowledgement is None else acknowledgement.who,
    )
    return _close(book, after, now), notice


def replacing(
    state: Incidents,
    dues: Iterable[DueNotice],
    waiting: Mapping[str, tuple[int, ...]],
    now: float,
    acknowledged: Container[str] = (),
) -> tuple[Incidents, list[DueNotice]]:
    """Return the mails that are due, with those that they replace, and the incidents then.

    `waiting` has by an incident's identifier the numbers of its undelivered mails. If it has
    changed since the last of them a mail is due as well, unless it is `acknowledged`.
    """
    notices = [replace(each, replaces=waiting.get(each.incident.identifier, ())) for each in dues]
    there = {notice.incident.identifier for notice in notices}
    by_key = dict(state.by_key)
    for key, incident in state.by_key.items():
        numbers = waiting.get(incident.identifier, ())
        if not numbers or incident.identifier in there:
            continue
        if incident.identifier in acknowledged:
            continue
        why = due.replacing(incident, numbers, now)
        if why is not None:
            updates = tuple(record.fact for record in due.unreported(incident, now))
            by_key[key] = after = due.mailed(incident, why, now)
            notices.append(DueNotice(why, after, updates, incident.mailed_object, replaces=numbers))
    return replace(state, by_key=by_key), notices


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

    def __init__(self, state: Incidents, around: Surroundings) -> None:
        self.incidents = dict(state.by_key)
        self.sequences = dict(state.sequences)
        self.before = state
        self.around = around
        self.changes: list[IncidentChange] = []

    def open(self, identity: Identity, severity: Severity, now: float) -> None:
        """Make sure that an incident of this key is open."""
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
        self.changes.append(IncidentChange(IncidentChangeKind.OPENED, opened))

    def note_changes(self, before: Incident, after: Incident) -> None:
        """Note for the log that an incident began again, or is more severe."""
        if after.firing and not before.firing and before.mails:
            self.changes.append(IncidentChange(IncidentChangeKind.REOPENED, after))
        if after.severity > before.severity and before.members:
            self.changes.append(IncidentChange(IncidentChangeKind.ESCALATED, after))

    def put(self, key: str, incident: Incident, now: float) -> None:
        """Put an incident in place, or delete one that can no longer be reopened."""
        closed = incident.closed_seconds
        if closed is not None and now - closed > self.around.policy.reopen_seconds:
            del self.incidents[key]
        else:
            self.incidents[key] = incident

    def result(self) -> Incidents:
        """Return the incidents, and which of them are to be persisted."""
        keys = self.incidents.keys() | self.before.by_key.keys()
        changed = frozenset(
            k for k in keys if _differs(self.before.by_key.get(k), self.incidents.get(k))
        )
        return Incidents(self.incidents, self.sequences, changed)


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
    """Return the quiet time after which an acknowledged incident is closed.

    Longer for events: the next read error of a disk that is to be replaced is no update. Also for
    what comes and goes.
    """
    if not incident.ends:
        return policy.close_seconds
    return max(policy.all_clear_seconds, due.clear_seconds(incident, policy))


def _acknowledged_to_the_end(incident: Incident) -> Incident:
    """Return a resolved incident that was acknowledged to its end: nothing is left to report."""
    return replace(
        incident,
        members=tuple(replace(m, silenced=True) for m in incident.members),
        mailed_severity=max(incident.mailed_severity, incident.severity),
    )


def _with_report(
    incident: Incident, alerts: Iterable[Alert], initial_report: InitialReport, now: float
) -> Incident:
    """Return an incident that waits for the initial report, or that this has a line about.

    Once it is made, what was pending then and joins now was reported by it. New details of what it
    contains cause no mail.
    """
    current = list(alerts)
    if initial_report.seconds is None:
        waits = initial_report.is_state_unknown or all(map(lasting, current))
        begins = bool(current) and not incident.mails and waits
        return replace(incident, awaits_initial_report=True) if begins else incident
    is_in_it = incident.mails and incident.references == (initial_report.reference,)
    joins = any(m.joined_seconds == now for m in incident.members)
    has_details = incident.details != incident.mailed_details
    if (incident.mails and not is_in_it) or not (not incident.mails or joins or has_details):
        return incident
    if not current or not all(map(initial_report.contains, current)):
        return incident
    if not is_in_it:
        return counted_by_report(incident, initial_report, initial_report.seconds)
    return replace(
        due.reported(incident, now),
        advised=tuple(dict.fromkeys((*incident.advised, *(a.name for a in current)))),
        mailed_details=incident.details,
    )


def in_report(incident: Incident) -> bool:
    """Whether the initial report that is made now contains an incident: it waited for that."""
    is_due = any(not m.silenced for m in incident.members)
    waited = incident.awaits_initial_report and not incident.mails
    return waited and is_due and incident.closed_seconds is None


def counted_by_report(incident: Incident, initial_report: InitialReport, now: float) -> Incident:
    """Return an incident counted as mailed by the initial report, which contains it.

    From then on it escalates and repeats as any that was mailed.
    """
    names = (m.name for m in incident.members if not m.silenced)
    return replace(
        due.reported(incident, now),
        mails=1,
        references=(initial_report.reference,),
        mailed_object=incident.object,
        mailed_severity=incident.severity,
        mailed_seconds=now,
        last_reason=Reason.OPENED,
        awaits_initial_report=False,
        mailed_details=incident.details,
        advised=tuple(dict.fromkeys((*incident.advised, *names))),
    )


def _close(book: _Book, incident: Incident, now: float) -> Incident:
    if incident.closed_seconds is not None or incident.firing:
        return incident
    if now - incident.active_seconds < book.around.policy.close_seconds:
        return incident
    closed = replace(incident, closed_seconds=now, members=(), severity=Severity.WARNING)
    closed = replace(closed, mailed_severity=Severity.WARNING)
    book.changes.append(IncidentChange(IncidentChangeKind.CLOSED, closed))
    return closed
