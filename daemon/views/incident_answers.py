"""Replies about incidents and storage events. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.near import did_you_mean
from iowarden.daemon.control import documents
from iowarden.daemon.storage.event_rows import EventFilter
from iowarden.daemon.views import answers
from iowarden.rules.incidents.model import CLOSED_QUIETLY, DueNotice
from iowarden.rules.notice import Reason
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from iowarden.daemon.views.answers import ViewInputs
    from iowarden.rules.incidents.model import Incident, IncidentMember
    from iowarden.rules.topology.inventory import InventoryDisk

MAX_EVENTS = 5000
"""Of one reply."""
SHOWN_EVENTS = 20
"""Of an incident."""
MAX_NAMED = 24


def event_filter(query: documents.EventQuery, found: InventoryDisk | None) -> EventFilter:
    """Return which events are requested; `found` is the disk, if it is a present one.

    Errors: ValueError.
    """
    words = [each.name.lower() for each in sorted(Severity, reverse=True)]
    if query.severity not in {*words, ""}:
        raise ValueError(
            f"severity: expected one of {', '.join(words)}, got '{query.severity:.60}'"
        )
    about, devices = query.disk.strip().removeprefix("/dev/"), None
    if found is not None:
        about = found.disk
        devices = tuple(dict.fromkeys(name for name in (found.device, *found.leaves) if name))
    return EventFilter(
        replace(query, last=min(max(query.last, 0), MAX_EVENTS), disk=about), devices
    )


def nothing_found(
    query: documents.EventQuery, disks: Iterable[InventoryDisk], sources: Collection[str]
) -> str:
    """Return which disk or source of a request without events this host does not have, or ''."""
    if query.source and query.source not in sources:
        meant = did_you_mean(query.source, sources)
        return f"unknown source '{query.source:.60}'{meant}; there are {', '.join(sources)}"
    if query.incident and not query.disk:
        return (
            f"there is no event of an incident that begins with '{query.incident:.60}';"
            " 'iowarden incident list --all' shows the incidents"
        )
    if not query.disk:
        return ""
    names = [each.device or each.disk for each in disks]
    meant = did_you_mean(query.disk.removeprefix("/dev/"), names)
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    there = ", ".join(names[:MAX_NAMED]) + more or "none"
    return f"no present disk is '{query.disk:.60}'{meant}; there are {there}"


def events(
    rows: Iterable[documents.EventLine],
    recent: Iterable[documents.EventLine],
    wanted: EventFilter,
    note: str,
) -> documents.EventList:
    """Return the last stored and recent events, deduplicated."""
    disk = wanted.query.disk if wanted.devices is not None else ""
    return documents.EventList(_merged(rows, recent, wanted), note, disk, wanted.devices)


def _merged(
    rows: Iterable[documents.EventLine], recent: Iterable[documents.EventLine], wanted: EventFilter
) -> tuple[documents.EventLine, ...]:
    lines = [*rows]
    kept = {line.key for line in lines}
    lines += [e for e in recent if e.key not in kept and wanted.matches(e)]
    lines.sort(key=lambda line: line.at_seconds)
    return tuple(lines[-wanted.query.last :] if wanted.query.last else ())


def incidents(known: ViewInputs, *, closed: bool) -> documents.IncidentList:
    """Return the open incidents, the most severe first, then closed ones, the latest first."""
    over = [i for i in known.incidents.values() if i.closed_seconds is not None]
    over.sort(key=lambda i: -(i.closed_seconds or 0.0))
    return documents.IncidentList(
        known.realtime(known.now),
        (*answers.open_incidents(known), *(_closed(known, i) for i in over if closed)),
    )


def find(known: ViewInputs, identifier: str) -> Incident:
    """Return an open or recently closed incident by its identifier or the beginning of it.

    Errors: ValueError, which lists the incidents.
    """
    there = sorted(
        known.incidents.values(), key=lambda i: (i.closed_seconds is not None, -i.opened_seconds)
    )
    begin = [i for i in there if identifier and i.identifier.startswith(identifier)]
    matches = [i for i in there if i.identifier == identifier] or begin
    if len(matches) == 1:
        return matches[0]
    among = matches or there
    named = ", ".join(
        f"{i.identifier} ({i.object}{', closed' if i.closed_seconds is not None else ''})"
        for i in among[:MAX_NAMED]
    )
    more = f" and {len(among) - MAX_NAMED} more" if len(among) > MAX_NAMED else ""
    what = "a unique identifier" if matches else "the identifier of one, or its beginning"
    raise ValueError(
        f"incident: expected {what}, got '{identifier:.60}'; incidents: {named or 'none'}{more}"
    )


def detail(
    known: ViewInputs, found: Incident, recent: Iterable[documents.EventLine]
) -> documents.IncidentDetail:
    """Return the details of an incident, with the texts of a mail that would be written now.

    It has the whole advice, also what mails have already given, and the evidence of all its alerts.
    Of its events it has the recent ones in `recent`.
    """
    reason = Reason.OPENED if found.last_mail is None else found.last_mail.reason
    notice = known.notice(DueNotice(reason, replace(found, advised=(), mails=1)))
    closed = found.closed_seconds is not None
    line = _closed(known, found) if closed else answers.incident(known, found.identifier)
    return documents.IncidentDetail(
        now_seconds=known.realtime(known.now),
        line=line,
        silences=tuple(
            each
            for each in answers.in_force(known.silences, known.now, known.realtime)
            if each.identifier in line.silences
        ),
        members=tuple(_member(known, each) for each in _once(found.members)),
        timeline=(
            (*notice.sentences, f"closed: {CLOSED_QUIETLY}")
            if found.closed_quietly
            else notice.sentences
        ),
        meaning=notice.meaning,
        evidence=tuple(
            documents.EvidenceLine(e.realtime_seconds, e.source, e.text) for e in notice.evidence
        ),
        affected=notice.affected,
        advice=notice.advice,
        unknown=notice.unknown,
        events=tuple(e for e in recent if e.key and e.incident == found.identifier),
    )


def _once(members: Iterable[IncidentMember]) -> Iterable[IncidentMember]:
    """Return the members; of one that is a warning and critical the active, most severe one."""
    facts: dict[tuple[object, ...], IncidentMember] = {}
    for each in members:
        labels = tuple(pair for pair in each.labels if pair[0] != "severity")
        key = (each.name, each.subject, labels)
        known = facts.setdefault(key, each)
        if (each.cleared_seconds is None, each.severity) > (
            known.cleared_seconds is None,
            known.severity,
        ):
            facts[key] = each
    return facts.values()


def with_events(
    whole: documents.IncidentDetail,
    rows: Iterable[documents.EventLine],
    wanted: EventFilter,
    why: str,
) -> documents.IncidentDetail:
    """Return an incident with its stored events, or the reason why these are missing."""
    note = f"only recent events are shown: {why}" if why else ""
    return replace(whole, events=_merged(rows, whole.events, wanted), note=note)


def _closed(known: ViewInputs, found: Incident) -> documents.IncidentLine:
    """Return a closed incident as a line: its severity and summary are no longer stored."""
    line = answers.incident(known, found.identifier)
    return replace(line, severity="", summary="", firing=False)


def _member(known: ViewInputs, member: IncidentMember) -> documents.MemberLine:
    cleared = member.cleared_seconds
    return documents.MemberLine(
        name=member.name,
        severity=member.severity.name.lower(),
        state=member.state.value,
        since_seconds=known.realtime(member.since_seconds),
        cleared_seconds=known.moment(member.absent_seconds if cleared is None else cleared),
        summary=member.summary,
        silenced=member.silenced,
        count=member.count,
        last_seconds=known.moment(member.last_seconds),
    )
