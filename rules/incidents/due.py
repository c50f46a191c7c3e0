"""When a mail about an incident is due, and why. Pure.

A mail about programs that are blocked is sent at once. In an open incident a threat to data is
reported at once; other new causes share mails, at increasing intervals. A symptom of a cause that
is in the incident is no reason for a mail.
A resolved mail is due a minute after an urgent problem cleared, else after ten; after each
recurrence later.
Units: seconds of the program's clock.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.rules.alerting.alerts import AlertState
from iowarden.rules.faults import CAUSES, SHORT, Fault, Layer
from iowarden.rules.incidents.causes import AFTER_SECONDS, BEFORE_SECONDS
from iowarden.rules.notice import Reason
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from iowarden.rules.incidents.model import Incident, IncidentMember, NotificationPolicy

NEW_SECONDS = 86_400.0
"""After this time the same fault of the same object is reported again as new."""
SHARED_SECONDS, MAX_SHARED_SECONDS = 30.0, 240.0
SHARED_RESET_SECONDS = 3600.0
"""After this time without a mail, further causes are mailed soon again."""
_FIRST = frozenset((Reason.OPENED, Reason.RESOLVED, Reason.REOPENED, Reason.REBUILT))
"""Mails after which further causes are mailed soon again."""
SILENT_SECONDS = 5.0
"""A disk whose counters ended may turn out to be missing within this time."""
SETTLED_SECONDS = 8.0
"""After this time the arrays of a lost disk have been polled, and their rules evaluated."""
REPLACED_SECONDS = 60.0
"""An undelivered mail is replaced by one of the newest state no sooner than this."""
URGENT_CLEAR_SECONDS = 60.0
RETURNED_CLEAR_SECONDS = (0.0, 600.0, 86_400.0)
"""Quiet time before a recurring incident is resolved: at its first, second, later return."""
COMES_AND_GOES = 2
"""Recurrences within a day after which one mail reports that it recurs."""


def reason(incident: Incident, now: float, policy: NotificationPolicy) -> Reason | None:
    """Return why a mail is due now about an incident that is not acknowledged, or None."""
    active = [m for m in incident.members if (m.cleared_seconds is None) is incident.firing]
    if all(m.silenced for m in active) and (incident.firing or not incident.mails):
        return None  # what was reported before gets its resolved mail
    if incident.mails == 0:
        return _first(incident, now, policy)
    if any(m.doubled and not m.silenced for m in incident.members):
        return Reason.ESCALATED
    if not incident.firing:
        clear = now - incident.active_seconds >= clear_seconds(incident, policy)
        # An alert that ended while its data was unavailable is not known to be resolved.
        lost = any(m.state is AlertState.UNKNOWN for m in incident.members)
        return Reason.RESOLVED if clear and incident.awaits_all_clear and not lost else None
    if incident.last_reason in (Reason.RESOLVED, None):
        return _reopened(incident, now, policy)
    if incident.has_new_facts or _is_escalation(incident, now):
        often = _returns(incident, Reason.ESCALATED, now) > incident.returns
        return (
            Reason.REOPENED
            if often and incident.returns + 1 >= COMES_AND_GOES
            else Reason.ESCALATED
        )
    mailed = incident.mailed_seconds if incident.mailed_seconds is not None else now
    if _rebuilt(incident, now):
        return Reason.REBUILT
    # The same recurring: a full disk that is mounted for each night's backup.
    often = incident.last_reason is Reason.DATA_UNAVAILABLE and now - mailed < policy.remind_seconds
    if not incident.unreadable and not often and any(_silent(active, now)):
        return Reason.DATA_UNAVAILABLE
    if (
        now - incident.changed_seconds >= policy.remind_seconds
        and incident.last_reason is not Reason.REMINDER
    ):
        return Reason.REMINDER
    return None


def _first(incident: Incident, now: float, policy: NotificationPolicy) -> Reason | None:
    """Return whether the first mail is due."""
    if all(m.count and m.absent_seconds is not None for m in incident.members):
        return None  # its log reported its end before a mail was due
    # Since the opening, not the last start: an alert that flaps must not restart the wait.
    waited = now - incident.opened_seconds >= policy.grouping_seconds
    soon = waited or incident.severity is Severity.CRITICAL
    soon = soon or any(urgent(m) for m in reportable(incident, now))
    return Reason.OPENED if soon and incident.closed_seconds is None else None


def _silent(active: Iterable[IncidentMember], now: float) -> Iterator[IncidentMember]:
    """Yield members without current data, except those of a disk that is reported missing."""
    known = list(active)
    gone = {
        m.subject
        for m in known
        if m.what.fault in {Fault.GONE, Fault.FAILED} and m.state is AlertState.FIRING
    }
    for m in known:
        unread = m.state is AlertState.UNKNOWN and not m.silenced and m.subject not in gone
        if unread and now - (m.unknown_seconds or 0.0) >= SILENT_SECONDS:
            yield m


def _rebuilt(incident: Incident, now: float) -> bool:
    """Whether an array that was reported has had all of its members again for a minute.

    Of one that comes and goes, for a day.
    """
    often = incident.returns >= COMES_AND_GOES
    least = RETURNED_CLEAR_SECONDS[COMES_AND_GOES] if often else URGENT_CLEAR_SECONDS
    short = {m.subject for m in incident.members if m.name in SHORT and m.cleared_seconds is None}
    return any(
        m.name in SHORT
        and not m.count
        and m.notified_seconds is not None
        and m.subject not in short
        and m.state is AlertState.RESOLVED
        and m.cleared_seconds is not None
        and m.cleared_seconds > (incident.mailed_seconds or 0.0)
        and now - m.cleared_seconds >= least
        and not m.silenced
        for m in incident.members
    )


def awaits_report(incident: Incident, now: float, *, is_state_unknown: bool) -> bool:
    """Whether the first mail is the initial report that is not made yet.

    Only what lasts waits for it; what is urgent and happens now never does. While it is not known
    what was mailed before, what is critical does not wait either.
    """
    if incident.mails or not incident.awaits_initial_report:
        return False
    if is_state_unknown and incident.severity is Severity.CRITICAL:
        return False
    present = reportable(incident, now)
    return not any(urgent(m) and (is_state_unknown or not m.baseline) for m in present)


def urgent(member: IncidentMember) -> bool:
    """Whether programs are blocked because of it, or data is at risk."""
    return member.urgent == "true" or (member.what.urgent and member.urgent != "false")


def clear_seconds(incident: Incident, policy: NotificationPolicy) -> float:
    """Return the quiet time after which an incident is reported as resolved."""
    last = [m for m in incident.members if (m.over_seconds or 0.0) >= incident.started_seconds]
    soon = any(_blocked_programs(m, policy) for m in last)
    least = min(URGENT_CLEAR_SECONDS, policy.all_clear_seconds) if soon else 0.0
    returned = RETURNED_CLEAR_SECONDS[min(incident.returns, COMES_AND_GOES)]
    return max(least or policy.all_clear_seconds, returned)


def _blocked_programs(member: IncidentMember, policy: NotificationPolicy) -> bool:
    """Whether a member that has ended was urgent: also a stall longer than the grouping.

    Not an event whose end nothing reports: that it was quiet for a minute means nothing.
    """
    over = member.over_seconds
    if over is None or (member.count and member.absent_seconds is None):
        return False
    long = over - member.since_seconds >= policy.grouping_seconds
    return urgent(member) or (long and member.what.fault is Fault.STALL)


def _reopened(incident: Incident, now: float, policy: NotificationPolicy) -> Reason | None:
    """Return whether a mail reports that it recurs; events are never reported as resolved."""
    if not any(reportable(incident, now)):
        return None
    mailed = incident.mailed_seconds if incident.mailed_seconds is not None else now
    told = incident.last_reason is Reason.RESOLVED or incident.recurrences <= 1
    return Reason.REOPENED if told or now - mailed >= policy.reopen_interval_seconds else None


def reportable(incident: Incident, now: float) -> Iterator[IncidentMember]:
    """Yield the members that a mail may be due for: active now, and no symptom of others."""
    known = [
        m
        for m in incident.members
        if not m.what.symptom and now - (m.cleared_seconds or now) <= BEFORE_SECONDS
    ]
    for member in incident.members:
        holds = member.state is AlertState.FIRING and member.cleared_seconds is None
        brought = member.what.symptom and any(_brings(m, member) for m in known)
        counted = any(_is_counted(m, member) for m in known)
        if holds and not member.silenced and not brought and not counted:
            yield member


def _is_counted(line: IncidentMember, counter: IncidentMember) -> bool:
    """Whether a counter of a file system only counts a logged event of its device."""
    own, other = line.what, counter.what
    return (
        own.of_file_system
        and (own.fault, own.layer) == (other.fault, other.layer)
        and bool(line.count) > bool(counter.count)
        and line.severity >= counter.severity
        and abs(counter.since_seconds - (line.last_seconds or line.since_seconds)) <= AFTER_SECONDS
    )


def _brings(cause: IncidentMember, symptom: IncidentMember) -> bool:
    """Whether a symptom has a given cause in its incident."""
    if cause.since_seconds > symptom.since_seconds + AFTER_SECONDS:
        return False
    if cause.what.fault is Fault.SETTING:
        return symptom.what.fault is Fault.PRESSURE and cause.subject == symptom.subject
    if cause.what.fault not in CAUSES:
        return False
    return cause.what.lasts or symptom.since_seconds - cause.since_seconds <= BEFORE_SECONDS


def _is_escalation(incident: Incident, now: float) -> bool:
    """Whether a further cause is to be reported now, or a reported one escalated."""
    mailed = incident.mailed_seconds or 0.0
    told: dict[object, tuple[float, Severity]] = {}
    for m in incident.members:
        if m.notified_seconds is None:
            continue
        # That a fault was reported as history does not report that it happens now.
        for is_history in (True,) if m.baseline else (False, True):
            at, worst = told.get((m.fact, is_history), (-NEW_SECONDS, Severity.INFO))
            told[m.fact, is_history] = max(at, m.notified_seconds), max(worst, m.severity)
    new = incident.object != incident.mailed_object
    for member in reportable(incident, now):
        if member.absent_seconds is not None:
            continue  # its condition has cleared, though its alert goes on firing
        at, worst = told.get((member.fact, member.baseline), (-math.inf, Severity.INFO))
        if _began(member) - at >= NEW_SECONDS:
            critical = member.severity > incident.mailed_severity and urgent(member)
            if member.what.threatens or critical:
                return True
            new = new or not _brings_more(member, now)
        elif member.severity > worst or (
            member.count and member.severity > incident.mailed_severity
        ):
            return True  # many events of one kind are one member, whose severity rises
    listed = f"{incident.identifier}.1" not in incident.references and incident.mails == 1
    shared = 0 if now - mailed >= SHARED_RESET_SECONDS else incident.shared
    soon = listed or now - mailed >= min(SHARED_SECONDS * 2**shared, MAX_SHARED_SECONDS)
    return new and soon  # an entry in the initial report woke no administrator


def _brings_more(member: IncidentMember, now: float) -> bool:
    """Whether a disk was lost, or logged an error, so lately that its effects are not known."""
    lost = member.what.fault is Fault.GONE or member.count
    return bool(lost) and member.layer is Layer.DISK and now - _began(member) < SETTLED_SECONDS


def _is_new(member: IncidentMember) -> bool:
    told = member.notified_seconds
    return told is None or _began(member) - told >= NEW_SECONDS


def _began(member: IncidentMember) -> float:
    return member.joined_seconds if member.count else member.since_seconds


def reported(incident: Incident, now: float) -> tuple[IncidentMember, ...]:
    """Return the members once a mail has reported them."""
    return tuple(
        m
        if m.silenced
        else replace(
            m,
            notified_seconds=now if m.doubled or _is_new(m) else m.notified_seconds,
            known_value=m.value if m.state is AlertState.FIRING else m.known_value,
        )
        for m in incident.members
    )


def replacing(incident: Incident, numbers: Sequence[int], now: float) -> Reason | None:
    """Return why a mail replaces those `numbers` that are not delivered yet, or None.

    None while there is only one that reports the present state, and for a minute after it.
    """
    mailed = incident.mailed_seconds
    if mailed is None:
        return None
    stale = now - mailed >= REPLACED_SECONDS and _has_changed(incident, mailed)
    if not stale and len(numbers) == 1:
        return None
    over = incident.last_reason is Reason.RESOLVED
    if over and not incident.firing:
        return Reason.RESOLVED
    if 1 in numbers:
        return Reason.OPENED
    return Reason.REOPENED if over else incident.last_reason


def _has_changed(incident: Incident, since: float) -> bool:
    """Whether an incident differs from its last mail: its alerts, severity or object."""
    if all(m.silenced for m in incident.members):
        return False
    same = (incident.severity, incident.object) == (
        incident.mailed_severity,
        incident.mailed_object,
    )
    times = (
        at
        for m in incident.members
        for at in (m.joined_seconds, m.absent_seconds, m.cleared_seconds)
    )
    return not same or any(at is not None and at > since for at in times)


def _after_rebuild(members: tuple[IncidentMember, ...]) -> tuple[IncidentMember, ...]:
    """Return the members after a mail about a rebuilt array: its next loss is news."""
    return tuple(
        replace(m, notified_seconds=None)
        if m.name in SHORT and m.cleared_seconds is not None
        else m
        for m in members
    )


def _returns(incident: Incident, reason: Reason, now: float) -> int:
    """Return how often it recurred, counting this mail: also a rebuilt array degraded again."""
    if reason is Reason.REBUILT:
        return incident.returns if incident.returns < COMES_AND_GOES else 0  # a day of quiet
    again = reason in (Reason.ESCALATED, Reason.REOPENED) and incident.last_reason is Reason.REBUILT
    soon = now - (incident.mailed_seconds or now) <= NEW_SECONDS
    return incident.returns + 1 if again and soon else incident.returns


def mailed(incident: Incident, reason: Reason, now: float) -> Incident:
    """Return an incident with one more mail counted."""
    long_ago = now - (incident.mailed_seconds or now) >= SHARED_RESET_SECONDS
    shared = 0 if long_ago or reason in _FIRST else incident.shared
    shared += reason is Reason.ESCALATED and not long_ago
    members = reported(incident, now)
    return replace(
        incident,
        members=_after_rebuild(members) if reason is Reason.REBUILT else members,
        mails=incident.mails + 1,
        references=incident.first_mails,
        mailed_object=incident.object,
        mailed_severity=incident.severity,
        mailed_seconds=now,
        last_reason=reason,
        unreadable=incident.unreadable or reason is Reason.DATA_UNAVAILABLE,
        has_new_facts=False,
        awaits_initial_report=False,
        shared=shared,
        returns=_returns(incident, reason, now),
        changed_seconds=incident.changed_seconds if reason is Reason.REMINDER else now,
    )
