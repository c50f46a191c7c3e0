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
from dataclasses import fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.faults import Fault
from iowarden.rules.incidents import causes, common_parents, due, folding
from iowarden.rules.incidents.members import keeping_open, refreshed, vouched, with_known_value
from iowarden.rules.incidents.model import (
    DueNotice,
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
    from iowarden.rules.incidents.silences import Acknowledgement
    from iowarden.rules.topology.device_identity import Identity

UNWATCHED_SECONDS = 60.0
"""After a gap of this length or more between two ticks, an alert's absence was not observed."""


def next_incidents(  # noqa: PLR0913 - all but two are named where it is called
    state: Incidents,
    alerts: Iterable[Alert],
    now: float,
    *,
    install: str,
    policy: NotificationPolicy,
    observe: Callable[[Alert], tuple[Evidence, ...]],
    is_observable: Callable[[Labels, str], bool],
    initial_report: InitialReport | None = None,
    silenced: Callable[[Alert], bool] = lambda _: False,
    usual: Callable[[Alert], str] = lambda _: "",
    acknowledged: Mapping[str, Acknowledgement] | None = None,
    graph: StorageGraph | None = None,
) -> tuple[Incidents, list[DueNotice], list[IncidentChange]]:
    """Return the incidents at `now`, given every alert, the mails that are due and what changed.

    `install` is the random identifier of this installation: with the key and a count it makes an
    identifier that is the same again when a kill lost the state but not the mail. `observe` gives
    the evidence of an alert; it is called once, when the alert joins its incident. `is_observable`
    is whether a resolved alert, by labels and subject, would be noticed if it fired: otherwise
    there is no resolved mail. `initial_report`: an incident that began with only lasting problems
    waits for it, see `counted_by_report`. `silenced` is whether an alert is silenced now,
    `usual` why it is not mailed because it recurs at this hour each day, `acknowledged` the
    acknowledgements of incidents, by identifier: no mail but the resolved one, until the event
    ACK_EXPIRED ends that; for events that is when the incident is closed. `graph` is what
    carries what.
    """
    known = acknowledged or {}
    book = _Book(state, install)
    everything = list(alerts)
    active = [a for a in everything if a.active and a.severity >= Severity.WARNING]
    active = folding.one_of_a_kind(book.incidents, active)
    graph = graph or StorageGraph()
    habits = {a.key: usual(a) for a in active}
    facts = {
        a.key: causes.fact(a, now, silent=silenced(a) or bool(habits[a.key]), seen=graph.seen)
        for a in active
    }
    explained = common_parents.explained(facts.values(), graph)
    active = folding.not_suppressed(book.incidents, active, facts, explained)
    resolved = frozenset(a.key for a in everything if a.state is AlertState.RESOLVED)
    quiet = {
        key: habits[key] or (habits.get(explained[key].key, "") if key in explained else "")
        for key in folding.quiet(facts, explained)
    }
    places = folding.Targets(book.incidents, facts, explained, graph.above)
    targets = places.of(active)
    book.events += [IncidentChange(IncidentChangeKind.MERGED, each) for each in places.folded]
    by_key: dict[str, list[Alert]] = {}
    for alert in active:
        by_key.setdefault(targets[alert.key].key, []).append(alert)
    # The most severe alert that is not silenced gives the severity from the beginning.
    for alert in sorted(active, key=lambda a: (a.key in quiet, -a.severity)):
        shown = Severity.INFO if alert.key in quiet else alert.severity
        book.open(targets[alert.key], shown, now, policy)
    dues: list[DueNotice] = []
    stalled = any(f.what.fault in {Fault.STALL, Fault.HUNG} for f in facts.values())
    for key, incident in list(book.incidents.items()):
        if stalled and key == HOST and incident.awaits_all_clear:
            incident = replace(incident, active_seconds=now)  # noqa: PLW2901 - reported elsewhere, not resolved
        incident = vouched(incident, now, is_observable)  # noqa: PLW2901 - the same, without current data
        after = refreshed(incident, by_key.get(key, ()), resolved, now, observe, quiet)
        after = vouched(after, now, is_observable)  # it may have ended in this very step
        if after.firing and not incident.firing and incident.mails:
            book.events.append(IncidentChange(IncidentChangeKind.REOPENED, after))
        if after.severity > incident.severity and incident.members:
            book.events.append(IncidentChange(IncidentChangeKind.ESCALATED, after))
        waits = False
        if initial_report is not None:
            after = _with_report(after, by_key.get(key, ()), initial_report, now)
            waits = initial_report.seconds is None and due.awaits_report(
                after, now, is_state_unknown=initial_report.is_state_unknown
            )
        acknowledgement = known.get(after.identifier)
        if acknowledgement is not None and any(m.known_value is None for m in after.members):
            after = replace(after, members=tuple(map(with_known_value, after.members)))
        reason = None
        if waits:
            pass
        elif acknowledgement is None:
            reason = due.reason(after, now, policy)
        elif _exceeds_ack(after, acknowledgement, now):
            book.events.append(IncidentChange(IncidentChangeKind.ACK_EXPIRED, after))
            reason = Reason.ESCALATED if after.mails else due.reason(after, now, policy)
        elif not after.firing and now - after.active_seconds >= _forgotten_seconds(after, policy):
            book.events.append(IncidentChange(IncidentChangeKind.ACK_EXPIRED, after))
            after = _known_to_the_end(after)
            reason = due.reason(after, now, policy)
        if reason is not None:
            renamed = after.mailed_object not in {"", after.object}
            after = due.mailed(after, reason, now)
            dues.append(DueNotice(reason, after, renamed))
        after = _close(book, after, now, policy)
        book.put(key, after, now, policy)
    left = {incident.identifier for incident in book.incidents.values()}
    book.events += [
        IncidentChange(IncidentChangeKind.ACK_EXPIRED, incident)  # it was merged into another one
        for incident in state.by_key.values()
        if incident.identifier in known and incident.identifier not in left
    ]
    return book.result(), dues, book.events


def replacing(
    state: Incidents,
    dues: Iterable[DueNotice],
    waiting: Mapping[str, tuple[int, ...]],
    now: float,
    known: Container[str] = (),
) -> tuple[Incidents, list[DueNotice]]:
    """Return the mails that are due, with those that they replace, and the incidents then.

    `waiting` has by an incident's identifier the numbers of its undelivered mails. If it has
    changed since the last of them a mail is due as well, unless it is `known`: acknowledged.
    """
    found = [replace(each, replaces=waiting.get(each.incident.identifier, ())) for each in dues]
    there = {each.incident.identifier for each in found}
    by_key = dict(state.by_key)
    for key, incident in state.by_key.items():
        numbers = waiting.get(incident.identifier, ())
        if not numbers or incident.identifier in there or incident.identifier in known:
            continue
        reason = due.replacing(incident, numbers, now)
        if reason is not None:
            by_key[key] = after = due.mailed(incident, reason, now)
            found.append(DueNotice(reason, after, replaces=numbers))
    return replace(state, by_key=by_key), found


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
        return incident.firing or incident.awaits_all_clear

    return {
        key: replace(incident, active_seconds=now) if still(incident) else incident
        for key, incident in by_key.items()
    }


class _Book:
    """The incidents during one step."""

    def __init__(self, state: Incidents, install: str) -> None:
        self.incidents = dict(state.by_key)
        self.sequences = dict(state.sequences)
        self.before = state
        self.events: list[IncidentChange] = []
        self._install = install

    def open(
        self, identity: Identity, severity: Severity, now: float, policy: NotificationPolicy
    ) -> None:
        """Make sure that an incident of this key is open."""
        incident = self.incidents.get(identity.key)
        if incident is not None:
            if incident.closed_seconds is None:
                return
            if now - incident.closed_seconds <= policy.reopen_seconds:
                self.incidents[identity.key] = replace(incident, closed_seconds=None)
                return
        number = self.sequences.get(identity.key, 0) + 1
        self.sequences[identity.key] = number
        digest = hashlib.blake2b(
            f"{self._install}\0{identity.key}\0{number}".encode(), digest_size=5
        ).hexdigest()
        opened = Incident(
            identifier=digest,
            key=identity.key,
            object=identity.object,
            opened_seconds=now,
            severity=severity,
            started_seconds=now,
            begun_seconds=now,
            changed_seconds=now,
            active_seconds=now,
        )
        self.incidents[identity.key] = opened
        self.events.append(IncidentChange(IncidentChangeKind.OPENED, opened))

    def put(self, key: str, incident: Incident, now: float, policy: NotificationPolicy) -> None:
        closed = incident.closed_seconds
        if closed is not None and now - closed > policy.reopen_seconds:
            del self.incidents[key]
        else:
            self.incidents[key] = incident

    def result(self) -> Incidents:
        keys = self.incidents.keys() | self.before.by_key.keys()
        changed = frozenset(
            k for k in keys if _differs(self.before.by_key.get(k), self.incidents.get(k))
        )
        return Incidents(self.incidents, self.sequences, changed)


_OF_INCIDENT = attrgetter(
    *(each.name for each in fields(Incident) if each.name not in {"active_seconds", "members"})
)
_OF_MEMBER = attrgetter(
    *(
        each.name
        for each in fields(IncidentMember)
        if each.name not in {"summary", "advice", "unknown", "absent_seconds", "value"}
    )
)


def _differs(before: Incident | None, after: Incident | None) -> bool:
    """Whether an incident is to be persisted: not for what changes each second while it fires."""
    if before is after:
        return False
    if before is None or after is None or _OF_INCIDENT(before) != _OF_INCIDENT(after):
        return True
    own, others = before.members, after.members
    if after.firing:
        return len(own) != len(others) or any(
            a is not b and _OF_MEMBER(a) != _OF_MEMBER(b) for a, b in zip(own, others, strict=True)
        )
    # While it awaits the all-clear its quiet time restarts with the program, see `unwatched`.
    quiet = after.awaits_all_clear or before.active_seconds == after.active_seconds
    return own != others or not quiet


def _exceeds_ack(incident: Incident, acknowledgement: Acknowledgement, now: float) -> bool:
    """Whether an incident exceeds its acknowledgement: in severity, value or a further disk."""
    return any(
        m.severity > acknowledgement.severity
        or m.doubled
        or (m.subject != "" and m.subject not in acknowledgement.subjects)
        for m in due.reportable(incident, now)
    )


def _forgotten_seconds(incident: Incident, policy: NotificationPolicy) -> float:
    """Return the quiet time after which an acknowledged incident is closed.

    Longer for events: the next read error of a disk that is to be replaced is no news.
    """
    return policy.all_clear_seconds if incident.ends else policy.close_seconds


def _known_to_the_end(incident: Incident) -> Incident:
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
    if (incident.mails and not is_in_it) or not (
        not incident.mails or joins or incident.has_new_facts
    ):
        return incident
    if not current or not all(map(initial_report.contains, current)):
        return incident
    if not is_in_it:
        return counted_by_report(incident, initial_report, initial_report.seconds)
    members = tuple(
        after if before.joined_seconds == now else before
        for before, after in zip(incident.members, due.reported(incident, now), strict=True)
    )
    return replace(
        incident,
        members=members,
        advised=tuple(dict.fromkeys((*incident.advised, *(a.name for a in current)))),
        has_new_facts=False,
        detailed=incident.detailed and not incident.has_new_facts,
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
        incident,
        members=due.reported(incident, now),
        mails=1,
        references=(initial_report.reference,),
        mailed_object=incident.object,
        mailed_severity=incident.severity,
        mailed_seconds=now,
        last_reason=Reason.OPENED,
        awaits_initial_report=False,
        has_new_facts=False,
        advised=tuple(dict.fromkeys((*incident.advised, *names))),
    )


def _close(book: _Book, incident: Incident, now: float, policy: NotificationPolicy) -> Incident:
    if incident.closed_seconds is not None or incident.firing:
        return incident
    if now - incident.active_seconds < policy.close_seconds:
        return incident
    closed = replace(incident, closed_seconds=now, members=(), severity=Severity.WARNING)
    closed = replace(closed, mailed_severity=Severity.WARNING)
    book.events.append(IncidentChange(IncidentChangeKind.CLOSED, closed))
    return closed
