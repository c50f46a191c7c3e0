"""The faults of an incident over time: since when, how often, how long, how bad. Pure.

A fault is an object and a kind, whichever alerts and log lines show it. The state of a
device or an array shows when it ends; a log line does not.
Units: seconds of the program's clock.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.rules.alerting.alerts import AlertState
from iowarden.rules.faults import SHORT, UNREADABLE_SECTORS, WRONG_CONTENT, Fault, Layer
from iowarden.rules.incidents.causes import BEFORE_SECONDS
from iowarden.rules.incidents.model import (
    COMES_AND_GOES,
    DAY_SECONDS,
    FaultRecord,
    IncidentMember,
    ReportedFault,
)
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Fact = tuple[str, Fault, str]
COUNTS_UP = frozenset((Fault.ERRORS, Fault.LOST, Fault.WORN))
"""What only grows: it does not come and go, and twice as much is an update."""
MIN_DOUBLED_LINES = 10
"""One fault logs several lines: fewer are no update when they double."""
RESET_SECONDS = 3.0
"""A reset of an adapter takes longer: its firmware starts again, and its disks are found again.
Source: kernel, drivers/scsi/mpt3sas/mpt3sas_base.c, mpt3sas_base_hard_reset_handler up to
_base_send_port_enable; megaraid/megaraid_sas_fusion.c, megasas_reset_fusion.
"""
_SHORT_OF_MEMBERS = frozenset((Fault.DEGRADED, Fault.EXHAUSTED))


def updated(
    records: tuple[FaultRecord, ...], members: Sequence[IncidentMember], now: float
) -> tuple[FaultRecord, ...]:
    """Return the records with what the members show now: the same ones if nothing changed."""
    by_fact = {record.fact: record for record in records}
    groups = by_fault(members)
    for fact, group in groups.items():
        before = by_fact.get(fact)
        if before is not None:
            by_fact[fact] = _next(before, group, now)
            continue
        first, (subject, fault, detail) = _first(fact, group, now), fact
        # With some redundancy again it is less bad than was reported, not worse.
        worse = by_fact.get((subject, Fault.EXHAUSTED, detail)) if fault is Fault.DEGRADED else None
        by_fact[fact] = first if worse is None else replace(first, reported=worse.reported)
    degraded = {subject for subject, fault, _ in groups if fault is Fault.DEGRADED}
    for record in records:
        # What had no redundancy left has some again. Not the reverse: it is degraded all the time.
        is_better = record.fault is Fault.EXHAUSTED and record.subject in degraded
        if is_better and record.fact not in groups and record.until_seconds is None:
            by_fact[record.fact] = _ended(record, now)
    after = tuple(by_fact.values())
    same = len(after) == len(records) and all(a is b for a, b in zip(after, records, strict=True))
    return records if same else after


def by_fault(members: Sequence[IncidentMember]) -> dict[Fact, list[IncidentMember]]:
    """Return the members by their fault."""
    groups: dict[Fact, list[IncidentMember]] = {}
    whole = {
        m.subject
        for m in members
        if m.name in SHORT and m.state is AlertState.RESOLVED and m.over_seconds is not None
    }
    whole -= {m.subject for m in members if m.name in SHORT and m.over_seconds is None}
    for member in members:
        # The kernel leaves a member that failed out at each boot, also of an array that is whole.
        is_short = member.subject not in whole or member.name in SHORT
        if is_short or member.what.fault not in _SHORT_OF_MEMBERS:
            groups.setdefault(member.fact, []).append(member)
    return groups


def holding(members: Iterable[IncidentMember]) -> list[IncidentMember]:
    """Return the members whose condition holds, as far as is known."""
    return [m for m in members if m.cleared_seconds is None and m.absent_seconds is None]


def stays(member: IncidentMember) -> bool:
    """Whether what a line reported is there until a repair, though nothing goes on to report it.

    That is lost data, what failed, sectors that cannot be read, content that was wrong. Not an
    adapter whose firmware stopped: whether it works again its disks show, see `shows_end`.
    """
    if not member.count or member.absent_seconds is not None:
        return False
    is_lost = member.what.fault in {Fault.LOST, Fault.READ_ONLY}
    has_failed = member.what.fault is Fault.FAILED and member.what.layer > Layer.ADAPTER
    return is_lost or has_failed or member.name in UNREADABLE_SECTORS | WRONG_CONTENT


def shows_end(lasting: IncidentMember, line: IncidentMember) -> bool:
    """Whether a member that lasts as long as its fault shows the end of what a log line reported.

    Of a failed part only its own end does, or that of what is below it. An adapter whose firmware
    stopped works again when its disks do; not if its last line comes as they end: the driver gave
    it up then, and failed their requests.
    """
    over = lasting.over_seconds
    # What the start showed may have begun long before: the log has the tasks that waited for it.
    if not line.what.symptom and lasting.since_seconds > line.since_seconds + BEFORE_SECONDS:
        return False
    if over is not None and over < line.since_seconds:
        return False
    if line.what.fault is not Fault.FAILED:
        return True
    if line.layer is not Layer.ADAPTER:
        return lasting.layer <= line.layer
    last = line.since_seconds if line.last_seconds is None else line.last_seconds
    is_given_up = over is not None and over < last + RESET_SECONDS
    return not (lasting.what.symptom or is_given_up)


def _active(members: Iterable[IncidentMember]) -> list[IncidentMember]:
    """Return the members whose occurrence goes on: `keep_firing_for` bridges short breaks."""
    return [
        m
        for m in members
        if m.cleared_seconds is None and not (m.count and m.absent_seconds is not None)
    ]


def _first(fact: Fact, members: Sequence[IncidentMember], now: float) -> FaultRecord:
    there = _active(members)
    since = min(m.since_seconds for m in there or members)
    subject, fault, detail = fact
    return FaultRecord(
        subject=subject,
        fault=fault,
        detail=detail,
        severity=_severity(there or members),
        began_seconds=since,
        since_seconds=since,
        until_seconds=None if there else _end(members, now),
        changed_seconds=now,
        onsets=(since,),
        value=_value(there or members),
        lines=_lines(members),
        is_history=all(m.baseline for m in members),
    )


def _next(before: FaultRecord, members: Sequence[IncidentMember], now: float) -> FaultRecord:
    """Return a record as the members show it now."""
    there = _active(members)
    if not there:
        return _ended(before, _end(members, now)) if before.until_seconds is None else before
    record = before
    if before.until_seconds is not None:
        if all(m.state is AlertState.UNKNOWN for m in there):
            return before  # no data begins nothing
        record = _returned(before, min(m.since_seconds for m in there), now)
    severity, value = max(_severity(there), record.severity), max(_value(there), record.value)
    lines, is_history = record.earlier_lines + _lines(there), all(m.baseline for m in members)
    if severity > record.severity or is_history < record.is_history:
        record = replace(record, changed_seconds=now)
    elif (value, lines) == (record.value, record.lines):
        return record
    return replace(record, severity=severity, value=value, lines=lines, is_history=is_history)


def _ended(before: FaultRecord, until: float) -> FaultRecord:
    """Return a record whose occurrence ended: a mail about it reported all of it."""
    record = replace(before, until_seconds=max(until, before.since_seconds))
    lasted = record.lasted_seconds(until)
    report = before.reported
    if report is not None and report.count == before.count and lasted > report.longest_seconds:
        report = replace(report, longest_seconds=lasted)
    return replace(record, longest_seconds=max(lasted, before.longest_seconds), reported=report)


def _returned(before: FaultRecord, since: float, now: float) -> FaultRecord:
    """Return a record of a fault that is there again; after a quiet day it is a new one."""
    ended = before.since_seconds if before.until_seconds is None else before.until_seconds
    since = now if since < ended else since
    again = replace(
        before,
        since_seconds=since,
        until_seconds=None,
        changed_seconds=now,
        onsets=(*before.onsets, since)[-COMES_AND_GOES:],
        previous_end_seconds=ended,
        count=before.count + 1,
        earlier_seconds=before.earlier_seconds + ended - before.since_seconds,
        earlier_lines=before.lines,
    )
    if since - ended < DAY_SECONDS:
        return again
    return replace(
        again,
        severity=Severity.INFO,
        began_seconds=since,
        onsets=(since,),
        previous_end_seconds=None,
        count=1,
        earlier_seconds=0.0,
        longest_seconds=0.0,
        value=0.0,
        lines=0,
        earlier_lines=0,
        reported=None,
    )


def _end(members: Iterable[IncidentMember], now: float) -> float:
    """Return when a fault ended; of log lines when the last one was written."""
    return max(
        (m.last_seconds or now) if m.count and m.absent_seconds is None else (m.over_seconds or now)
        for m in members
    )


def _severity(members: Iterable[IncidentMember]) -> Severity:
    return max((m.severity for m in members if not m.silenced), default=Severity.INFO)


def _value(members: Iterable[IncidentMember]) -> float:
    """Return the worst value whose doubling is an update."""
    return max(m.value for m in members)


def _lines(members: Iterable[IncidentMember]) -> int:
    """Return the number of log lines about what only grows."""
    return max((m.count for m in members if m.what.fault in COUNTS_UP), default=0)


def reported(record: FaultRecord, members: Sequence[IncidentMember], now: float) -> FaultRecord:
    """Return a record once a mail has reported it, with what its members show now."""
    before, there = record.reported, holding(members)
    worst = max(there or members, key=lambda m: m.severity)
    severity, summary, unread_seconds = worst.severity, worst.summary, None
    if before is not None:
        unread_seconds = before.unread_seconds
        summary = summary if there else before.summary
        severity = max(severity, before.severity)
    if there and all(m.state is AlertState.UNKNOWN for m in there):
        unread_seconds = now
    return replace(
        record,
        reported=ReportedFault(
            seconds=now,
            severity=severity,
            value=record.value,
            lines=record.lines,
            count=record.count,
            longest_seconds=max(record.lasted_seconds(now), record.longest_seconds),
            summary=summary,
            ended=record.until_seconds is not None,
            is_history=record.is_history,
            unread_seconds=unread_seconds,
        ),
    )


def end_reported(record: FaultRecord) -> FaultRecord:
    """Return a record that no member shows now, once a mail has reported its object."""
    report = record.reported
    if report is None or record.until_seconds is None or report.ended:
        return record
    return replace(record, reported=replace(report, ended=True))


def is_doubled(record: FaultRecord) -> bool:
    """Whether its value, or the number of its log lines, is twice what was reported."""
    report = record.reported
    if report is None:
        return False
    if 0 < 2 * report.value <= record.value:
        return True
    return 0 < 2 * report.lines <= record.lines and record.lines >= MIN_DOUBLED_LINES
