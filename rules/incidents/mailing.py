"""What a mail changes in its incident: the one path of all mails, for each reason.

A mail is a function of an incident's state and of what was mailed last: `mail` makes it, and counts
it in the incident. It is due because of news (due.py, which incidents.py calls), because an
undelivered one is outdated (`replacing`), or because all that were sent are gone (`unqueued`). The
initial report is the first mail of the incidents that it has a line about (`counted_by_report`).
Pure. Units: seconds of the program's clock.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.rules.incidents import due, fault_records
from iowarden.rules.incidents.model import DueNotice, Incident, LastMail, lasting
from iowarden.rules.notice import RECOVERIES, Reason
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.incidents.fault_records import Fact
    from iowarden.rules.incidents.model import Incidents, InitialReport

REPLACED_SECONDS = 60.0
"""An undelivered mail is replaced by one of the newest state no sooner than this."""


def mail(
    incident: Incident,
    reason: Reason,
    now: float,
    *,
    replaces: tuple[int, ...] = (),
    acknowledged_by: str = "",
) -> DueNotice:
    """Return a mail about an incident as it is now, with the incident in which it is counted."""
    return DueNotice(
        reason,
        mailed(incident, reason, now),
        tuple(record.fact for record in due.unreported(incident, now)),
        incident.last_mail,
        replaces,
        incident.unmailed_details,
        acknowledged_by,
    )


def mailed(incident: Incident, reason: Reason, now: float) -> Incident:
    """Return an incident with one more mail counted, which reported all that is not silenced."""
    recoveries = incident.recovery_mails_seconds
    if reason in RECOVERIES:
        recoveries = (*recoveries, now)[-due.MAX_RECOVERIES :]
    was_quiet = due.seconds_since_mail(incident, now) >= due.HOUR_SECONDS
    return replace(
        _reported(incident, now),
        mails=incident.mails + 1,
        references=incident.first_mails,
        last_mail=LastMail(
            now,
            reason,
            incident.severity,
            incident.object,
            incident.details,
            any(m.is_cause_unknown for m in incident.members if m.cleared_seconds is None),
        ),
        first_mailed_seconds=incident.first_mailed_seconds if incident.mails else now,
        burst=1 if was_quiet else incident.burst + 1,
        recovery_mails_seconds=recoveries,
        awaits_initial_report=False,
    )


def acknowledged(incident: Incident, now: float) -> Incident:
    """Return an incident whose faults are known to a user: as if a mail had reported them."""
    facts = {record.fact for record in due.unreported(incident, now)}
    return _with_reports(incident, now, facts) if facts else incident


def _reported(incident: Incident, now: float) -> Incident:
    """Return an incident once a mail has reported all of its faults that are not silenced."""
    facts = {m.fact for m in incident.members if not m.silenced}
    return _with_reports(incident, now, facts)


def _with_reports(incident: Incident, now: float, facts: set[Fact]) -> Incident:
    groups = fault_records.by_fault([m for m in incident.members if not m.silenced])
    shown = facts & groups.keys()
    subjects = {subject for subject, _, _ in shown}
    return replace(
        incident,
        faults=tuple(
            fault_records.reported(record, groups[record.fact], now)
            if record.fact in shown
            else fault_records.end_reported(record)
            if record.subject in subjects
            else record
            for record in incident.faults
        ),
    )


# --- mails in place of undelivered ones, and of lost ones


def unnotified(
    incidents: Iterable[Incident],
    acknowledged_incidents: Container[str],
    is_notified: Callable[[Incident], bool],
) -> list[Incident]:
    """Return the open incidents of warning or worse of which no receiver accepted a notification.

    Not those that are silenced, acknowledged (by identifier), or that ended before their first
    mail. `is_notified`: a receiver accepted one.
    """
    return [
        incident
        for incident in incidents
        if incident.closed_seconds is None
        and incident.severity >= Severity.WARNING
        and (incident.firing or incident.mails)
        and any(not m.silenced for m in incident.members)
        and incident.identifier not in acknowledged_incidents
        and not is_notified(incident)
    ]


def replacing(
    state: Incidents,
    dues: Iterable[DueNotice],
    waiting: Mapping[str, tuple[int, ...]],
    now: float,
    acknowledged_incidents: Container[str] = (),
) -> tuple[Incidents, list[DueNotice]]:
    """Return the mails that are due, with those that they replace, and the incidents then.

    `waiting` has by an incident's identifier the numbers of its undelivered mails. If it has
    changed since the last of them a mail is due as well, unless it is acknowledged.
    """
    notices = [replace(each, replaces=waiting.get(each.incident.identifier, ())) for each in dues]
    already_due = {notice.incident.identifier for notice in notices}
    outdated = []
    for incident in state.by_key.values():
        numbers = waiting.get(incident.identifier, ())
        if incident.identifier in already_due or incident.identifier in acknowledged_incidents:
            continue
        if numbers and (reason := _outdated(incident, numbers, now)) is not None:
            outdated.append(mail(incident, reason, now, replaces=numbers))
    return _counted(state, outdated), [*notices, *outdated]


def _outdated(incident: Incident, numbers: Sequence[int], now: float) -> Reason | None:
    """Return why a mail replaces those `numbers` that are not delivered yet, or None.

    None while there is only one that reports the present state, and for a minute after it.
    """
    last = incident.last_mail
    if last is None:
        return None
    is_old = now - last.seconds >= REPLACED_SECONDS
    if len(numbers) == 1 and not (is_old and _has_changed(incident, last)):
        return None
    if incident.is_end_reported and not incident.firing:
        return last.reason
    if 1 in numbers:
        return Reason.OPENED
    return Reason.REOPENED if incident.is_end_reported else last.reason


def _has_changed(incident: Incident, last: LastMail) -> bool:
    """Whether an incident differs from its last mail: its alerts, severity or object."""
    if all(m.silenced for m in incident.members):
        return False
    if (incident.severity, incident.object) != (last.severity, last.object):
        return True
    return any(
        at is not None and at > last.seconds
        for m in incident.members
        for at in (m.joined_seconds, m.absent_seconds, m.cleared_seconds)
    )


def unqueued(
    state: Incidents,
    dues: list[DueNotice],
    is_queued: Callable[[Incident], bool],
    now: float,
    acknowledged_incidents: Container[str],
) -> tuple[Incidents, list[DueNotice]]:
    """Return the mails that are due with those of incidents whose earlier ones are gone.

    A mail was discarded, or only went to a receiver that is no longer configured: what still
    lasts needs another one. `is_queued`: one is in the outbox, or was accepted.
    """
    already_due = {notice.incident.identifier for notice in dues}
    again = [
        # Whatever the lost mails reported, nobody has read it.
        replace(mail(incident, Reason.OPENED, now), previous=None)
        for incident in state.by_key.values()
        if incident.mails
        and incident.identifier not in already_due
        and incident.identifier not in acknowledged_incidents
        and not is_queued(incident)
        and any(due.reportable(incident, now))
    ]
    return _counted(state, again), [*dues, *again]


def _counted(state: Incidents, notices: Sequence[DueNotice]) -> Incidents:
    """Return the incidents with those in which mails are counted."""
    if not notices:
        return state
    after = {notice.incident.key: notice.incident for notice in notices}
    return replace(state, by_key={**state.by_key, **after})


# --- the initial report


def in_report(incident: Incident) -> bool:
    """Whether the initial report that is made now contains an incident: it waited for that."""
    has_news = any(not m.silenced for m in incident.members)
    waited = incident.awaits_initial_report and not incident.mails
    return waited and has_news and incident.closed_seconds is None


def counted_by_report(incident: Incident, initial_report: InitialReport, now: float) -> Incident:
    """Return an incident counted as mailed by the initial report, which contains it.

    From then on it escalates and repeats as any that was mailed. The report itself counts neither
    for the interval until its next mail, nor as one of many openings.
    """
    names = (m.name for m in incident.members if not m.silenced)
    return replace(
        mailed(incident, Reason.OPENED, now),
        references=(initial_report.reference,),
        first_mailed_seconds=incident.first_mailed_seconds,
        burst=incident.burst,
        advised=tuple(dict.fromkeys((*incident.advised, *names))),
    )


def with_report(
    incident: Incident, alerts: Sequence[Alert], initial_report: InitialReport, now: float
) -> Incident:
    """Return an incident that waits for the initial report, or that this has a line about.

    Once it is made, what was pending then and joins now was reported by it. New details of what it
    contains cause no mail.
    """
    if initial_report.seconds is None:
        waits = initial_report.is_state_unknown or all(map(lasting, alerts))
        begins = bool(alerts) and not incident.mails and waits
        return replace(incident, awaits_initial_report=True) if begins else incident
    if not alerts or not all(map(initial_report.contains, alerts)):
        return incident
    if not incident.mails:
        return counted_by_report(incident, initial_report, initial_report.seconds)
    last, is_in_report = incident.last_mail, incident.references == (initial_report.reference,)
    joins = any(m.joined_seconds == now for m in incident.members)
    if last is None or not is_in_report or not (joins or incident.unmailed_details):
        return incident
    return replace(
        _reported(incident, now),
        advised=tuple(dict.fromkeys((*incident.advised, *(a.name for a in alerts)))),
        last_mail=replace(last, details=incident.details),
    )
