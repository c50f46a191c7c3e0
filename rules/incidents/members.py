"""The members of an incident: joined, silenced, resolved, without data. Pure.

Units: seconds of the program's clock.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from iowarden.rules import faults
from iowarden.rules.alerting.alerts import REDUNDANCY, Alert, AlertState, same
from iowarden.rules.faults import WINDOWED
from iowarden.rules.incidents import fault_records
from iowarden.rules.incidents.model import (
    BASELINE,
    CAUSE_FOUND,
    CAUSE_KNOWN,
    ESCALATE_WHEN_DOUBLED,
    LASTED_SECONDS,
    URGENT,
    Incident,
    IncidentMember,
)
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from iowarden.collectors.model import Labels
    from iowarden.rules.incidents.causes import Key
    from iowarden.rules.notice import Evidence

BLIND_SECONDS = 86_400.0
MAX_CLEARED = 50
"""Resolved members that one incident keeps: the newest, and first of all what is not repaired."""


def refreshed(
    incident: Incident,
    alerts: Iterable[Alert],
    resolved: frozenset[Key],
    now: float,
    observe: Callable[[Alert], tuple[Evidence, ...]],
    quiet: Mapping[Key, str],
) -> Incident:
    """Return the incident with its members as they are now."""
    current = {alert.key: alert for alert in alerts}
    # Events end only with their window: once that has passed, the next ones are news.
    if not (current or incident.firing or any(m.cleared_seconds is None for m in incident.members)):
        return incident
    members = []
    for member in incident.members:
        alert = current.pop(member.key, None)
        if alert is not None:
            members.append(_member(alert, member, now, observe))
        elif member.cleared_seconds is None:
            lost = member.state is AlertState.UNKNOWN and member.key not in resolved
            after = AlertState.UNKNOWN if lost else AlertState.RESOLVED
            members.append(replace(member, state=after, cleared_seconds=now))
        else:
            members.append(member)
    members += [_member(alert, None, now, observe) for alert in current.values()]
    active = [_with_silence(m, quiet) for m in members if m.cleared_seconds is None]
    over = sorted(
        (m for m in members if m.cleared_seconds is not None),
        key=lambda m: m.cleared_seconds or 0.0,
    )
    if len(over) > MAX_CLEARED:
        over.sort(key=fault_records.stays)
    members = [*over[-MAX_CLEARED:], *active]
    holding = keeping_open(members)
    if not holding:
        ends = [m.absent_seconds for m in active if m.count and m.absent_seconds is not None]
        last = max([incident.active_seconds, *ends])
        return _changed(incident, members, now, firing=False, active_seconds=last)
    begins = not incident.firing
    fresh = max((m.severity for m in active if not m.silenced), default=Severity.INFO)
    was_reported_over = incident.is_end_reported or incident.lost
    came_back = begins and incident.mails > 0 and (was_reported_over or not incident.ends)
    last_mail = incident.last_mail
    mailed = Severity.INFO if last_mail is None else last_mail.severity
    worst = mailed if begins and incident.mails else incident.severity
    if begins and last_mail is not None:
        last_mail = replace(last_mail, details=())
    return _changed(
        incident,
        members,
        now,
        firing=True,
        active_seconds=max(incident.active_seconds, _last(holding, now)),
        started_seconds=now if begins else incident.started_seconds,
        begun_seconds=now if came_back else incident.begun_seconds,
        first_state=incident.mails + 1 if came_back else incident.first_state,
        recurrences=incident.recurrences + came_back,
        # It only rises while the incident is open; after a resolved mail it is the current one.
        # What no mail had before it was over is no severity of what begins now.
        severity=fresh if begins and was_reported_over else max(worst, fresh),
        details=() if begins else _with_cause(incident, active),
        last_mail=last_mail,
    )


def _with_cause(incident: Incident, active: Sequence[IncidentMember]) -> tuple[str, ...]:
    """Return the details of an incident: once with the cause that its last mail did not know.

    Not if another alert is the cause: that is an update by itself.
    """
    mail, details = incident.last_mail, incident.details
    if mail is None or not mail.is_cause_unknown:
        return details
    is_detail = any(detail.startswith(CAUSE_FOUND) for detail in incident.unmailed_details)
    if is_detail or not all(member.what.symptom for member in active):
        return details
    unexplained = {m.key for m in incident.members if m.is_cause_unknown}
    for member in active:
        is_found = member.key in unexplained and not member.is_cause_unknown
        if is_found and not member.silenced:
            return (*details, f"{CAUSE_FOUND}{member.summary}")
    return details


def _changed(
    incident: Incident,
    members: list[IncidentMember],
    now: float,
    **values: Any,  # noqa: ANN401 - of its fields
) -> Incident:
    """Return an incident with these members and values: the same one if it has them already."""
    unchanged = same(incident.members, members)
    if not unchanged or not incident.faults:
        values["faults"] = fault_records.updated(incident.faults, members, now)
    if unchanged and all(getattr(incident, name) == value for name, value in values.items()):
        return incident
    kept = incident.members if unchanged else tuple(members)
    return replace(incident, members=kept, **values)


def event_alerts(incidents: Iterable[Incident]) -> list[Alert]:
    """Return the storage events of unresolved incidents as firing alerts, for the metrics.

    Each lasts until its end was reported or its incident is closed: a disk is not repaired because
    it was quiet for ten minutes.
    """
    return [
        Alert(
            member.name,
            tuple(
                (name, member.severity.name.lower() if name == "severity" else text)
                for name, text in member.labels
            ),
            AlertState.FIRING,
            1.0,
            (("summary", member.summary),),
            member.since_seconds,
            subject=member.subject,
            count=member.count,
        )
        for incident in incidents
        for member in incident.members
        if incident.unresolved and member.count and member.absent_seconds is None
    ]


def keeping_open(members: Iterable[IncidentMember]) -> list[IncidentMember]:
    """Return the members that keep an incident open.

    A count of events in a window lasts longer than their fault: while a lasting member has or had
    that fault, the count does not keep the incident open. Nor do events whose end was reported.
    """
    every = [*members]
    active = [m for m in every if m.cleared_seconds is None]
    if all(map(_lasts, active)):
        return active
    lasting = [m for m in reversed(every) if _lasts(m)]  # those that hold are the last

    def covered(member: IncidentMember) -> bool:
        return bool(member.count and member.absent_seconds is not None) or any(
            fault_records.shows_end(each, member) for each in lasting
        )

    return [m for m in active if _lasts(m) or not covered(m)]


def _lasts(member: IncidentMember) -> bool:
    """Whether a member lasts as long as its fault."""
    return not member.count and member.what.fault not in WINDOWED


def _last(holding: Iterable[IncidentMember], now: float) -> float:
    """Return when a member was last active: an event is only a moment."""

    def moment(member: IncidentMember) -> float:
        if member.count:
            return max(member.last_seconds or now, member.absent_seconds or 0.0)
        return now if member.absent_seconds is None else member.absent_seconds

    return max(map(moment, holding))


def vouched(
    incident: Incident, now: float, is_observable: Callable[[Labels, str], bool]
) -> Incident:
    """Return a resolved incident; its quiet time restarts while that cannot be verified.

    After a day without data it is lost: it will be closed without a resolved mail.
    """
    if not incident.is_end_unreported:
        return incident
    over = [m for m in incident.members if m.state is AlertState.RESOLVED and not m.count]
    blind = [m for m in over if not is_observable(*m.key)]
    if not blind:
        return incident
    last = max(m.cleared_seconds or now for m in incident.members)
    if now - last < BLIND_SECONDS:
        return replace(incident, active_seconds=now)
    members = tuple(
        replace(m, state=AlertState.UNKNOWN) if m in blind else m for m in incident.members
    )
    return replace(incident, members=members)


def began(alert: Alert, now: float) -> float:
    """Return when the fault of an alert began: a stall began before it was long enough to fire."""
    fired = alert.fired_seconds if alert.fired_seconds is not None else now
    timed = alert.name in faults.TIMED and not alert.count
    lasted = alert.value if timed else _lasted_seconds(alert)
    return min(fired, now - lasted) if 0.0 < lasted <= now else fired


def _lasted_seconds(alert: Alert) -> float:
    """Return the annotation LASTED_SECONDS, 0 without one, or if it is no number."""
    try:
        return float(alert.annotation(LASTED_SECONDS) or 0.0)
    except ValueError:
        return 0.0


def _member(
    alert: Alert,
    before: IncidentMember | None,
    now: float,
    observe: Callable[[Alert], tuple[Evidence, ...]],
) -> IncidentMember:
    again = before is not None and before.cleared_seconds is not None
    if before is not None and not again and getattr(before, "made_of", None) is alert:
        return before
    unknown = alert.annotation("unknown")
    if alert.state is AlertState.UNKNOWN:
        unknown = alert.unknown_reason
    since = began(alert, now)
    if before is not None and not again:
        since, measured = before.since_seconds, before.evidence
    else:
        measured = observe(alert)
    known = "" if before is None else before.redundancy
    redundancy = alert.annotation(REDUNDANCY) or known
    member = IncidentMember(
        labels=alert.labels,
        name=alert.name,
        severity=alert.severity,
        state=alert.state,
        since_seconds=since,
        summary=alert.summary,
        advice=alert.annotation("advice"),
        unknown=unknown,
        evidence=measured,
        absent_seconds=alert.absent_seconds,
        subject=alert.subject,
        silenced=before is not None and not again and before.silenced,
        usual="" if before is None or again else before.usual,
        value=alert.value if alert.annotation(ESCALATE_WHEN_DOUBLED) == "true" else 0.0,
        count=alert.count,
        last_seconds=alert.last_seconds,
        joined_seconds=now if before is None or again else before.joined_seconds,
        unknown_seconds=alert.unknown_seconds,
        blocks_now=_blocks_now(alert, None if again else before),
        is_cause_unknown=alert.annotation(CAUSE_KNOWN).strip() == "false",
        redundancy=redundancy,
        baseline=alert.annotation(BASELINE) == "true",
    )
    member.remember("made_of", alert)
    return member


def _blocks_now(alert: Alert, before: IncidentMember | None) -> bool | None:
    """Return whether programs wait for it: if they did, until it ends; None: not known.

    A queue drains before its stall ends: its forecast is short then.
    """
    if before is not None and before.blocks_now:
        return True
    return {"true": True, "false": False}.get(alert.annotation(URGENT).strip())


def _with_silence(member: IncidentMember, quiet: Mapping[Key, str]) -> IncidentMember:
    """Return a member with its silence updated: once that ends, unreported alerts are news."""
    silenced, usual = member.key in quiet, quiet.get(member.key, "")
    if (silenced, usual) == (member.silenced, member.usual):
        return member
    return replace(member, silenced=silenced, usual=usual)
