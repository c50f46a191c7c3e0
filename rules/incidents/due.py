"""When a mail about an incident is due, and why. Pure.

An update is a fault that no mail reported, or that escalated since the last mail reported it. What
blocks programs or threatens data is mailed at once; a further kind of harm 5 s after it appeared;
all other updates share mails, at intervals that double. Recoveries share these intervals. What a
mail changes in its incident is in mailing.py.
Units: seconds of the program's clock.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.rules.alerting.alerts import AlertState
from iowarden.rules.faults import (
    CAUSES,
    FAILOVERS,
    GONE_OR_FAILED,
    LOST_TO_ARRAY,
    RETRIED,
    SHORT,
    SYMPTOMS,
    TOO_FEW_MEMBERS,
    WAITED_FOR,
    Fault,
    Layer,
)
from iowarden.rules.incidents import fault_records
from iowarden.rules.incidents.causes import AFTER_SECONDS, BEFORE_SECONDS
from iowarden.rules.incidents.fault_records import COUNTS_UP, is_doubled
from iowarden.rules.incidents.model import DAY_SECONDS, FILE_SYSTEM, HARMED
from iowarden.rules.notice import ENDS, Reason
from iowarden.rules.severity import Severity
from iowarden.rules.topology.graph import layer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from iowarden.rules.incidents.fault_records import Fact
    from iowarden.rules.incidents.model import (
        FaultRecord,
        Incident,
        IncidentMember,
        InitialReport,
        NotificationPolicy,
    )
    from iowarden.rules.incidents.silences import Acknowledgement

HOUR_SECONDS = 3600.0
TOGETHER_SECONDS = 2.0
"""The first mail about more than one fault waits so long for what comes with them."""
SETTLED_SECONDS = 5.0
"""Further updates wait so long for what comes with them, missing data for the missing disk."""
INTERVALS_SECONDS = (0.0, 30.0, 60.0, 120.0, 240.0, 480.0, 960.0)
"""The least time between mails, by how many were sent since the last quiet hour."""
ANOTHER_OBJECT_SECONDS = 240.0
"""The longest interval if what was reported of one object befalls another one: md3 after md0."""
MAX_RECOVERIES = 2
"""Mails about recoveries within an hour."""
URGENT_CLEAR_SECONDS = 60.0
LONGER = 1.5
"""An occurrence that lasts so many times as long as the longest that was reported is an update."""
MILESTONES = frozenset((3, *(n * 10**power for power in range(1, 7) for n in (1, 3))))
"""The occurrences of a fault that comes and goes that are mailed."""
_CRITICAL = "critical"
_HARMFUL = frozenset((Fault.EXHAUSTED, Fault.STOPPED, Fault.LOST))
_INCOMPLETE = TOO_FEW_MEMBERS | {Fault.SUSPENDED}
_NEVER_EXPECTED = _HARMFUL | LOST_TO_ARRAY | {Fault.READ_ONLY, Fault.DEGRADED}
"""Faults whose return within an hour is an update: they threaten data."""


def reason(
    incident: Incident,
    now: float,
    policy: NotificationPolicy,
    is_short: Callable[[str], bool] = lambda _: False,
) -> Reason | None:
    """Return why a mail is due now about an incident that is not acknowledged, or None.

    `is_short` is whether an array or pool, by its subject, lacks members now, as far as the alerts
    of all incidents show.
    """
    updates = unreported(incident, now)
    if not incident.mails:
        return Reason.OPENED if _is_first_due(incident, updates, now, policy) else None
    kinds = _reported_kinds(incident, now)
    further = [record for record in updates if harm_kinds([record]) - kinds]
    since_mail = seconds_since_mail(incident, now)
    # Of two incidents that were merged one may have been mailed a second ago.
    settling = [*further, *(each for record in further for each in _became(record, incident))]
    if further and since_mail >= SETTLED_SECONDS and _is_settled(settling, now, policy):
        return _of_updates(incident, updates)
    is_interval_over = since_mail >= _interval_seconds(incident, updates)
    if updates and is_interval_over and _is_settled(updates, now, policy):
        return _of_updates(incident, updates)
    if not is_interval_over or updates:
        return None
    if incident.firing and _has_unmailed_facts(incident):
        return _of_updates(incident, updates)
    if any(_unavailable(incident, now, policy)):
        return Reason.DATA_UNAVAILABLE
    if good := _recovery(incident, now, policy, is_short):
        recently = [at for at in incident.recovery_mails_seconds if now - at < HOUR_SECONDS]
        return good if len(recently) < MAX_RECOVERIES else None
    is_old_news = incident.firing and since_mail >= policy.remind_seconds
    if is_old_news and not _is_reminded(incident) and any(reportable(incident, now)):
        return Reason.REMINDER
    return None


def _is_reminded(incident: Incident) -> bool:
    """Whether the last mail is a reminder, which comes once, or reported the end."""
    mail = incident.last_mail
    return mail is None or mail.reason in {Reason.REMINDER, *ENDS}


def seconds_since_mail(incident: Incident, now: float) -> float:
    """Return how long ago the last mail was; without one for ever."""
    return math.inf if incident.last_mail is None else now - incident.last_mail.seconds


def unreported(incident: Incident, now: float) -> list[FaultRecord]:
    """Return the faults that no mail reported, or not as bad as they are now."""
    severities: dict[Fact, Severity] = {}
    for member in (
        *reportable(incident, now), *_logged_lately(incident), *_repeated_lately(incident)
    ):  # fmt: skip
        severities[member.fact] = max(severities.get(member.fact, Severity.INFO), member.severity)
    if not incident.mails and not severities:  # what ended within a minute is reported as well
        severities = {m.fact: m.severity for m in incident.members if not m.silenced}
    present = [
        # What had escalated for some seconds in between is no update minutes later.
        record if severity >= record.severity else replace(record, severity=severity)
        for record in incident.faults
        if (severity := severities.get(record.fact)) is not None
    ]
    mail = incident.last_mail
    mailed_severity = mail.severity if mail is not None and incident.mails else Severity.INFO
    return [record for record in present if _is_update(record, mailed_severity, now)]


def _logged_lately(incident: Incident) -> Iterator[IncidentMember]:
    """Yield what log lines reported, and no mail did before they were no longer recent.

    That no further line was written does not mean that lost data is back. While a mail waited for
    its interval, or the program did not run, the lines became old.
    """
    if not incident.mails:
        return
    old = [m for m in _logged(incident) if m.cleared_seconds is not None and not m.silenced]
    if old:
        reported = {record.fact for record in incident.faults if record.reported is not None}
        yield from (m for m in old if not m.what.symptom and m.fact not in reported)


def _repeated_lately(incident: Incident) -> Iterator[IncidentMember]:
    """Yield what comes and goes, if it was there again, and over, while a mail about it waited.

    Not the disks that only waited for the one of the title.
    """
    over = (each for each in incident.faults if each.until_seconds is not None)
    repeated = {each.fact for each in over if _is_repeated(each)}
    for member in incident.members if repeated else ():
        waited = member.subject != incident.key and only_hangs(member)
        if member.fact in repeated and not (member.silenced or member.what.symptom or waited):
            yield member


def _is_repeated(record: FaultRecord) -> bool:
    """Whether it reached a number of occurrences that is mailed, and no mail had."""
    report = record.reported
    if report is None or record.count == report.count or not record.comes_and_goes:
        return False
    return not MILESTONES.isdisjoint(range(report.count + 1, record.count + 1))


def _is_update(record: FaultRecord, mailed_severity: Severity, now: float) -> bool:
    """Whether a fault escalated since the last mail about it.

    What only follows from others does not make a mail again that was as severe as it is now.
    """
    report = record.reported
    if report is None:
        return True
    if record.until_seconds is not None:
        return _is_repeated(record)
    if record.is_history < report.is_history:
        return True
    if record.severity > report.severity:
        return record.fault not in SYMPTOMS or record.severity > mailed_severity
    if is_doubled(record):
        return True
    if record.count == report.count or (record.fault in COUNTS_UP and record.lines):
        return False
    if record.lasted_seconds(now) > LONGER * report.longest_seconds > 0.0:
        return True
    if record.comes_and_goes:
        return _is_repeated(record) or now - report.seconds >= 7 * DAY_SECONDS
    quiet = record.since_seconds - (record.previous_end_seconds or record.since_seconds)
    return quiet >= HOUR_SECONDS or record.fault in _NEVER_EXPECTED


def harm_kinds(records: Sequence[FaultRecord]) -> frozenset[str]:
    """Return the kinds of harm among faults of which each is mailed at once."""
    return frozenset(kind for each in records for kind in _kinds(each, each.severity))


def _kinds(record: FaultRecord, severity: Severity) -> Iterator[str]:
    if severity is Severity.CRITICAL:
        yield _CRITICAL
    if record.fault in _HARMFUL:
        yield record.fault.value
    if record.detail in {FILE_SYSTEM, HARMED}:
        yield record.detail


def _reported_kinds(incident: Incident, now: float) -> frozenset[str]:
    """Return the kinds of harm that were mailed since the incident was quiet for an hour.

    The tag of a mail reports 'critical' as well, even when what was worst has ended.
    """
    mail = incident.last_mail
    if mail is None or seconds_since_mail(incident, now) >= HOUR_SECONDS:
        return frozenset()
    is_tagged = mail.severity is Severity.CRITICAL and mail.reason not in ENDS
    return frozenset({_CRITICAL} if is_tagged else ()) | frozenset(
        kind
        for record in incident.faults
        if record.reported is not None
        for kind in _kinds(record, record.reported.severity)
    )


def _interval_seconds(incident: Incident, updates: Sequence[FaultRecord]) -> float:
    """Return the least time between the last mail and the next one about other updates."""
    interval = INTERVALS_SECONDS[min(incident.burst, len(INTERVALS_SECONDS) - 1)]
    is_threat = bool(harm_kinds(updates) - {_CRITICAL})
    return min(interval, ANOTHER_OBJECT_SECONDS) if is_threat else interval


def _is_settled(updates: Sequence[FaultRecord], now: float, policy: NotificationPolicy) -> bool:
    """Whether what comes with the updates had the time to be noticed.

    Of what came back that is known. A symptom of the whole host waits as long as before a first
    mail: its cause, as a suspended device, may show later, and then has it in its own incident.
    """
    return any(
        now - each.changed_seconds
        >= (policy.grouping_seconds if _is_symptom_of_host(each) else SETTLED_SECONDS)
        or (each.reported is not None and each.count > each.reported.count)
        for each in updates
    )


def _became(record: FaultRecord, incident: Incident) -> Iterator[FaultRecord]:
    """Yield what a fault was before it escalated unreported: degraded, then no redundancy left.

    Both are one alert and one update: the second does not make the first wait.
    """
    for each in incident.faults:
        is_same = (each.subject, each.since_seconds) == (record.subject, record.since_seconds)
        if is_same and each.reported is None and each is not record:
            yield each


def _is_symptom_of_host(record: FaultRecord) -> bool:
    is_symptom = record.fault in SYMPTOMS and record.detail != HARMED
    return is_symptom and not record.subject and record.severity < Severity.CRITICAL


def _is_first_due(
    incident: Incident, updates: Sequence[FaultRecord], now: float, policy: NotificationPolicy
) -> bool:
    """Whether the first mail is due: at once if programs or data suffer, else after a minute."""
    if not updates or incident.closed_seconds is not None:
        return False
    if all(map(_is_over_in_time, incident.members)):
        return False
    if all(_is_retried(m, policy) for m in incident.members):
        return False
    # Since the opening, not the last start: an alert that flaps must not restart the wait.
    waited = now - incident.opened_seconds
    least = TOGETHER_SECONDS if len(updates) > 1 else 0.0
    return waited >= (least if is_urgent(incident, now) else policy.grouping_seconds)


def is_urgent(incident: Incident, now: float) -> bool:
    """Whether a first mail does not wait: it is critical, programs are blocked, data at risk."""
    is_critical = incident.severity is Severity.CRITICAL
    return is_critical or any(urgent(m) for m in reportable(incident, now))


def _is_over_in_time(member: IncidentMember) -> bool:
    """Whether its log reported its end, or its paths work again, before a mail was due.

    That an adapter had to be reset is reported: it will stop again.
    """
    if member.name in FAILOVERS:
        return member.over_seconds is not None
    is_stop = member.what.fault in {Fault.RESETS, Fault.FAILED}
    is_of_adapter = is_stop and layer_of(member.subject) is Layer.ADAPTER
    if is_of_adapter and member.what.layer is not Layer.PATH:
        return False
    return bool(member.count) and member.absent_seconds is not None


def _is_retried(member: IncidentMember, policy: NotificationPolicy) -> bool:
    """Whether it is a connection that failed, and that no line has reported to fail again since.

    Programs that wait for it are reported: by a freeze, a hang, a lost path, or its end.
    """
    last = member.since_seconds if member.last_seconds is None else member.last_seconds
    return member.name in RETRIED and last - member.since_seconds < policy.grouping_seconds


def _of_updates(incident: Incident, updates: Sequence[FaultRecord]) -> Reason:
    """Return whether something recurred, or escalated."""
    came_back = any(
        each.comes_and_goes and each.reported is not None and each.count > each.reported.count
        for each in updates
    )
    mail = incident.last_mail
    began_again = mail is None or incident.started_seconds > mail.seconds
    is_reopened = came_back or began_again or incident.is_end_reported
    return Reason.REOPENED if is_reopened else Reason.ESCALATED


def _has_unmailed_facts(incident: Incident) -> bool:
    """Whether it has a deeper title, or details, that no mail had."""
    is_active = any(not m.silenced for m in fault_records.holding(incident.members))
    return is_active and (incident.is_renamed or bool(incident.unmailed_details))


def _unavailable(
    incident: Incident, now: float, policy: NotificationPolicy
) -> Iterator[FaultRecord]:
    """Yield the faults without current data, except those of a disk that is reported missing."""
    active = [m for m in incident.members if m.cleared_seconds is None and not m.silenced]
    silent = {
        m.fact
        for m in active
        if m.state is AlertState.UNKNOWN and now - (m.unknown_seconds or 0.0) >= SETTLED_SECONDS
    }
    if not silent:
        return
    gone = {
        m.subject for m in active if m.what.fault in GONE_OR_FAILED and m.state is AlertState.FIRING
    }
    for record in incident.faults:
        report = record.reported
        if record.fact in silent and record.subject not in gone and report is not None:
            # The same recurring: a full disk that is mounted for each night's backup.
            said = report.unread_seconds
            if said is None or now - said >= policy.remind_seconds:
                yield record


def _recovery(
    incident: Incident, now: float, policy: NotificationPolicy, is_short: Callable[[str], bool]
) -> Reason | None:
    """Return whether it ended, or an array that was reported has all of its members again."""
    if incident.firing:
        # Of several none may be short of members: the mail reports what ended of all of them.
        rebuilt = {*_rebuilt_arrays(incident, now)}
        return Reason.REBUILT if rebuilt and not any(map(is_short, rebuilt)) else None
    # An alert that ended while its data was unavailable is not known to be resolved.
    is_lost = any(m.state is AlertState.UNKNOWN for m in incident.members)
    clear = now - incident.active_seconds >= clear_seconds(incident, policy)
    is_away = any(m.awaits_line for m in incident.members)
    if is_lost or is_away or not clear or not incident.is_end_unreported:
        return None
    return Reason.NOT_REPAIRED if any(unrepaired(incident)) else Reason.RESOLVED


def unrepaired(incident: Incident) -> Iterator[FaultRecord]:
    """Yield the faults that do not end by themselves: lost data, what failed.

    Of a disk that failed, and then was missing, its state shows the end of both. Whether an adapter
    whose firmware stopped works again its disks show: if none was affected, nothing does.
    """
    observed = [m for m in incident.members if not m.count]
    states = {m.fact for m in observed}
    states |= {(m.subject, Fault.FAILED, "") for m in observed if m.what.fault is Fault.GONE}
    logged = {
        m.fact
        for m in incident.members
        if fault_records.stays(m) or (_is_failed_adapter(m) and not _is_end_shown(m, observed))
    }
    for record in incident.faults:
        if record.fact in logged - states and record.reported is not None:
            yield record


def _is_failed_adapter(member: IncidentMember) -> bool:
    """Whether a line reported that an adapter failed, and none that it works again."""
    is_line = bool(member.count) and member.absent_seconds is None
    return is_line and (member.what.fault, member.layer) == (Fault.FAILED, Layer.ADAPTER)


def _is_end_shown(line: IncidentMember, observed: Iterable[IncidentMember]) -> bool:
    """Whether what is observed shows that an adapter works again."""
    return any(fault_records.shows_end(each, line) for each in observed)


def _logged(incident: Incident) -> Iterator[IncidentMember]:
    """Yield the members that log lines show, and whose end no line reported."""
    for member in incident.members:
        if member.count and member.absent_seconds is None:
            yield member


def _rebuilt_arrays(incident: Incident, now: float) -> Iterator[str]:
    """Yield the arrays that were reported, and whose alerts here ended a minute ago.

    Of one that comes and goes, a day ago. It may be short of members in another incident.
    """
    arrays = {m.subject for m in incident.members if m.name in SHORT and not m.silenced}
    arrays -= set(short_arrays(incident.members))
    for record in incident.faults:
        report, until = record.reported, record.until_seconds
        is_of_whole = record.subject in arrays and record.fault in TOO_FEW_MEMBERS
        if is_of_whole and report is not None and until is not None and not report.ended:
            least = DAY_SECONDS if record.comes_and_goes else URGENT_CLEAR_SECONDS
            if now - until >= least:
                yield record.subject


def short_arrays(members: Iterable[IncidentMember]) -> Iterator[str]:
    """Yield the arrays and pools that miss members, as far as alerts about their state show.

    One that runs no longer, or waits for its disks, is not whole because the alert that it
    is degraded ended.
    """
    for member in members:
        is_short = member.what.fault in _INCOMPLETE and member.layer >= Layer.VOLUME
        if is_short and member.cleared_seconds is None and not member.count:
            yield member.subject


def awaits_report(incident: Incident, now: float, report: InitialReport) -> bool:
    """Whether the first mail is the initial report, and this is not made yet.

    Only what lasts waits for it; what is urgent and happens now never does. While it is not known
    what was mailed before, what is critical does not wait either.
    """
    if report.seconds is not None or incident.mails or not incident.awaits_initial_report:
        return False
    is_state_unknown = report.is_state_unknown
    if is_state_unknown and incident.severity is Severity.CRITICAL:
        return False
    present = reportable(incident, now)
    return not any(urgent(m) and (is_state_unknown or not m.baseline) for m in present)


def urgent(member: IncidentMember) -> bool:
    """Whether programs are blocked because of it, or data is at risk."""
    return member.what.urgent if member.blocks_now is None else member.blocks_now


def clear_seconds(incident: Incident, policy: NotificationPolicy) -> float:
    """Return the quiet time after which an incident is reported as resolved."""
    if incident.occurrences:
        return DAY_SECONDS
    last = [m for m in incident.members if (m.over_seconds or 0.0) >= incident.started_seconds]
    soon = any(_blocked_programs(m, policy) for m in last)
    return min(URGENT_CLEAR_SECONDS, policy.all_clear_seconds) if soon else policy.all_clear_seconds


def _blocked_programs(member: IncidentMember, policy: NotificationPolicy) -> bool:
    """Whether a member that has ended was urgent: also a stall longer than the grouping.

    Not an event whose end nothing reports: that it was quiet for a minute means nothing.
    """
    over = member.over_seconds
    if over is None or (member.count and member.absent_seconds is None):
        return False
    long = over - member.since_seconds >= policy.grouping_seconds
    return urgent(member) or (long and member.what.fault is Fault.STALL)


def reportable(incident: Incident, now: float) -> Iterator[IncidentMember]:
    """Yield the members that a mail may be due for: active now, and no symptom of others.

    That programs are blocked is never only a symptom, and is reported once. Disks that hang while
    the disk of the title does wait with it, for their adapter: each time others are noticed.
    """
    active = [m for m in incident.members if _is_active(m) and m.absent_seconds is None]
    if not active:
        return
    causes = [m for m in incident.members if not m.what.symptom]
    hangs = layer_of(incident.key) is Layer.DISK and any(
        m.subject == incident.key and m.what.fault is Fault.HANGS
        for m in fault_records.holding(causes)
    )
    has_symptoms = any(m.what.symptom for m in active)
    began = {r.fact: r.began_seconds for r in incident.faults} if has_symptoms else {}
    for member in active:
        if member.silenced:
            continue
        if hangs and member.subject != incident.key and only_hangs(member):
            continue
        is_symptom = member.what.symptom and member.fact[2] != HARMED
        is_counter = member.what.of_file_system and not member.count
        news = _without_history(member, incident) if is_symptom else member
        if (is_symptom or is_counter) and _is_explained(news, causes, began, now):
            continue
        # The kernel's line about a task that is blocked for 120 s: that is mailed as harm.
        if member.what.fault is Fault.HUNG and member.severity <= _severity_of_freeze(incident):
            continue
        if member.fact[2] == HARMED and member.severity <= _severity_with_tasks(incident):
            continue
        yield member


def _without_history(member: IncidentMember, incident: Incident) -> IncidentMember:
    """Return a symptom since its last line, if those of before the start have been reported."""
    reports = (each.reported for each in incident.faults if each.fact == member.fact)
    is_history = any(report is not None and report.is_history for report in reports)
    last = member.last_seconds if is_history else None
    return member if last is None else replace(member, since_seconds=last)


def _is_explained(
    member: IncidentMember,
    causes: Sequence[IncidentMember],
    began: Mapping[Fact, float],
    now: float,
) -> bool:
    """Whether a symptom has a cause in its incident, or a counter only counts a logged event.

    `began` is when the faults of the incident began, by fact.
    """
    # Its lines outlast it: what counts is what was there when the last one was logged.
    at = member.last_seconds if member.count and member.last_seconds is not None else now
    is_symptom = member.what.symptom and member.fact[2] != HARMED
    for each in causes:
        is_near = at - (each.cleared_seconds or at) <= BEFORE_SECONDS
        start = began.get(each.fact, each.since_seconds)
        if is_symptom and (is_near or each.awaits_line) and _brings(each, member, start):
            return True
        is_line = bool(each.count) and each.what.of_file_system and not member.count
        if is_near and is_line and _is_counted(each, member):
            return True
    return False


def _severity_with_tasks(incident: Incident) -> float:
    """Return how severe alerts about devices are that report the programs which wait for them."""
    return max(
        (
            each.severity
            for each in incident.members
            if each.name in WAITED_FOR
            and each.blocks_now
            and not each.silenced
            and _is_active(each)
        ),
        default=-math.inf,
    )


def _severity_of_freeze(incident: Incident) -> float:
    """Return how severe the freezes are in which the kernel logs hung tasks."""
    return max(
        (each.severity for each in incident.members if each.fact[2] == HARMED and _is_active(each)),
        default=-math.inf,
    )


def _is_active(member: IncidentMember) -> bool:
    return member.cleared_seconds is None and member.state is AlertState.FIRING


def only_hangs(member: IncidentMember) -> bool:
    """Whether a disk does not respond, and no program is known to wait for it."""
    of_disk = member.layer is Layer.DISK and member.what.fault is Fault.HANGS
    return of_disk and member.fact[2] != HARMED


def _is_counted(line: IncidentMember, counter: IncidentMember) -> bool:
    """Whether a counter of a file system only counts a logged event of its device."""
    one, other = line.what, counter.what
    return (
        (one.fault, one.layer) == (other.fault, other.layer)
        and line.severity >= counter.severity
        and abs(counter.since_seconds - (line.last_seconds or line.since_seconds)) <= AFTER_SECONDS
    )


def _brings(cause: IncidentMember, symptom: IncidentMember, began_seconds: float) -> bool:
    """Whether a symptom has a given cause in its incident, which began then.

    A cause that comes and goes began with its first occurrence.
    """
    if began_seconds > symptom.since_seconds + AFTER_SECONDS:
        return False
    if cause.what.fault is Fault.SETTING:
        return symptom.what.fault is Fault.PRESSURE and cause.subject == symptom.subject
    if cause.what.fault not in CAUSES:
        return False
    holds = cause.what.lasts or cause.awaits_line
    return holds or symptom.since_seconds - cause.since_seconds <= BEFORE_SECONDS


def exceeds(incident: Incident, acknowledgement: Acknowledgement, now: float) -> bool:
    """Whether an incident escalated since it was acknowledged.

    That is a higher severity, a further object, a further kind of harm, or a value that doubled.
    """
    updates = unreported(incident, now)
    facts = {record.fact for record in updates}
    present = [m for m in reportable(incident, now) if m.fact in facts]
    return (
        any(is_doubled(record) for record in updates)
        or any(m.severity > acknowledgement.severity for m in present)
        or any(m.subject and m.subject not in acknowledgement.subjects for m in present)
        or bool(harm_kinds(updates) - {_CRITICAL, *acknowledgement.kinds})
    )
