"""Turns an incident whose mail is due into a Notice: summary, evidence, advice. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from iowarden.rules.advice.advice import MemberText
from iowarden.rules.alerting.alerts import AlertState
from iowarden.rules.faults import (
    LOST_A_DISK,
    SHORT,
    SUMS_UP,
    SYMPTOMS,
    THREATS,
    TIMED,
    UNWRITTEN,
    Fault,
    Layer,
)
from iowarden.rules.incidents.causes import meaning
from iowarden.rules.notice import ENDS, Evidence, Notice, Reason
from iowarden.rules.notices import member_titles, recurrence, waiting
from iowarden.rules.notices.measurements import MEASURED, NOTHING, Measured, is_metric, measurements
from iowarden.rules.quantity import quantity
from iowarden.rules.severity import Severity
from iowarden.rules.topology.device_identity import (
    ADAPTER,
    ARRAY,
    ITSELF,
    identity,
    named_now,
)
from iowarden.rules.topology.graph import FABRIC_KEY
from iowarden.rules.topology.stack import POOL, unseen_uses
from iowarden.rules.topology.topology import NO_DEPENDENTS, dependents_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.model import Labels, Sample
    from iowarden.collectors.procfs.tasks import BlockedTasks
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.incidents.model import DueNotice, Incident, IncidentMember
    from iowarden.rules.topology.topology import Dependent, Dependents

_T = TypeVar("_T")

LAST_KNOWN = "last known: "
"""Beginning of the summary of a problem whose data are no longer available."""
WAITS = SYMPTOMS - {Fault.UNREADABLE, Fault.SUPERBLOCK} | {Fault.HANGS, Fault.SUSPENDED}
"""Faults in which tasks wait: then it matters which disks have requests in flight."""
MAX_DISKS = 24
"""Disks of an adapter that a line lists."""
_BEHIND = re.compile(r"disk (host[0-9]+) ", re.ASCII)
"""Key of a disk behind an adapter that no program could read: 'disk host6 port 1'."""
_VAGUE = frozenset((Fault.ERRORS, Fault.WORN, Fault.HOT, Fault.UNPROTECTED, Fault.OTHER))
_BARE = frozenset((Fault.EXHAUSTED, Fault.DEGRADED, Fault.GONE, Fault.FAILED))
WRITE_SPEED = "iowarden_device_write_bandwidth_bytes_per_second"
"""Has a sample for each disk that takes unwritten data."""
MAX_STALLED = 6
"""Disks of a write stall of which a mail lists what they carry."""
SET_SECONDS = 2.0
"""The wall clock was set if it differs by so much from the program's clock."""
MAX_EVIDENCE = 24
"""Lines of evidence in one mail; with 480 disks the first lines must stay visible."""


def notice(  # noqa: PLR0913, PLR0917 - all but three are named where it is called
    due: DueNotice,
    realtime: Callable[[float], float],
    now: float,
    current: Sequence[Evidence],
    topology: Topology | None,
    dependents: Dependents = NO_DEPENDENTS,
    busy: Sequence[str] = (),
    tasks: BlockedTasks | None = None,
    text_of: Callable[[IncidentMember], MemberText] = lambda member: MemberText(member.advice),
    measured: Measured = NOTHING,
) -> Notice:
    """Return the mail that is due.

    `realtime` turns the program's clock into Unix time; `dependents` is which objects carry which,
    `busy` are the disks with requests in flight, `tasks` the waiting tasks (None: not known),
    `text_of` gives the texts of a member in addition to its summary, `measured` are the present
    samples behind its alerts.
    """
    incident = due.incident
    members, over, number = _in_order_of_cause(incident), due.reason in ENDS, incident.mails
    is_first = number == 1 or 1 in due.replaces
    nothing_escalated = due.is_only_known_better or (is_first and due.reason is Reason.ESCALATED)
    reason = Reason.OPENED if nothing_escalated else due.reason
    begun = [
        _by_clock(line, realtime(m.joined_seconds))
        for m in members
        for line in m.evidence
        if m.cleared_seconds is None or is_first or (over and is_metric(line))
    ]
    waits: tuple[Evidence, ...] = ()
    if _stalls(members) and not any(line.source == waiting.TASKS for line in begun):
        waits = tuple(waiting.evidence(tasks, busy, topology, realtime(now)))
    valid = _advising(members)
    retracted = tuple(_retracted(due, members, valid))
    texts = [text_of(m) for m in _newly_advised(due, reason, valid, retracted)]
    if incident.key.startswith(ADAPTER):
        members = [_of_many(m) for m in members]
    if over:
        members = _with_one_end(members, incident)
    summary, about = _summary(reason, members, due)
    if about is not None:
        summary = _titled(summary, about, members, incident, _disks_of(incident, dependents, now))
    shown, moved = _name_of_today(incident, topology)
    values, lines = measurements(measured, begun, incident.object, incident.severity, realtime(now))
    present = (*lines[: MAX_EVIDENCE // 2], *waits, *current)
    return Notice(
        incident=incident.identifier,
        number=number,
        references=() if number == 1 else incident.references,
        reason=reason,
        severity=incident.severity,
        object=shown or member_titles.object_of(incident, members, dependents, now),
        summary=summary,
        # An event that was read late occurred before its incident was opened.
        opened_seconds=realtime(_begun(incident)),
        realtime_seconds=realtime(now),
        recurrences=incident.recurrences,
        sentences=(*_course_of_events(due, members, now), *moved),
        meaning=_meaning(reason, members, valid, [each.description for each in texts], text_of),
        evidence=(
            *values[:MAX_EVIDENCE],
            *_in_order(
                _alone(line, incident.object)
                for line in present
                if not over or line.source != MEASURED
            ),
        ),
        affected=_affected(incident, members, topology, dependents, now, measured.samples),
        advice=_distinct((*retracted, *(each.advice.strip("\n") for each in texts))),
        unknown=_distinct(
            m.unknown.strip() for m in members if m.unknown and m.cleared_seconds is None
        ),
        ended_seconds=realtime(incident.active_seconds) if over else None,
        times=incident.occurrences,
    )


def _in_order_of_cause(incident: Incident) -> list[IncidentMember]:
    """Return the members; the alert of the object itself first.

    Of a map that its paths are lost, then of the paths.
    """
    fabric = incident.key == FABRIC_KEY
    return sorted(
        incident.members,
        key=lambda m: (
            *_order(m)[:3],
            m.layer <= Layer.DISK if fabric else m.subject != incident.key,
            _order(m),
        ),
    )


def _newly_advised(
    due: DueNotice,
    reason: Reason,
    valid: Sequence[IncidentMember],
    retracted: Sequence[str],
) -> list[IncidentMember]:
    """Return the members whose advice is in the mail: it is not repeated.

    But hours later another person may be woken, and retracted advice is followed by the valid one.
    """
    incident = due.incident
    is_repeated = bool(due.replaces) or reason in {Reason.REBUILT, Reason.REOPENED}
    given = set() if is_repeated or retracted else set(incident.advised)
    fresh = [m for m in valid if m.name not in given or _has_become_critical(m, due)]
    if any(m.cleared_seconds is None for m in incident.members):  # what ended needs no advice
        fresh = [m for m in fresh if m.cleared_seconds is None or m.count]
    if incident.key.startswith(ADAPTER):  # one of many disks represents all
        fresh = list({m.name: m for m in reversed(fresh)}.values())[::-1]
    fresh.sort(key=lambda m: not (m.what.fault is Fault.EXHAUSTED and m.layer is Layer.DISK))
    return fresh


def _course_of_events(
    due: DueNotice, members: Sequence[IncidentMember], now: float
) -> Iterator[str]:
    """Yield what happened, one fault in a sentence."""
    yield from recurrence.additions(due)
    yield from recurrence.occurrences(due.incident, now)
    facts = _facts(members)
    if due.incident.key.startswith(ADAPTER):
        yield from _adapter_sentences(facts, now)
        return
    several = len({_disk(m) for m in facts}) > 1
    for member in facts:
        yield (_named(member) if several else "") + _sentences(member, now)


def _name_of_today(incident: Incident, topology: Topology | None) -> tuple[str, tuple[str, ...]]:
    """Return the object's name of today, if it is another one, and a sentence about that."""
    name = incident.object.partition(" ")[0]
    today = named_now(topology, incident.key, name)
    if today == name:
        return "", ()
    then = f"what was {name} then is {today} now" if today else f"what was {name} disappeared"
    shown = identity(topology, today).object if today else ""
    is_taken = topology is not None and topology.whole(name) is not None
    return shown, (f"{then}; {name} is a different disk" if is_taken else then,)


def _meaning(
    reason: Reason,
    members: Sequence[IncidentMember],
    valid: Sequence[IncidentMember],
    new: Sequence[str],
    text_of: Callable[[IncidentMember], MemberText],
) -> tuple[str, ...]:
    """Return what the problem means; where no text is new that of the first alert that is active.

    Who reads the second mail may not have the first.
    """
    found = _distinct(text.strip() for text in new)
    if not found and reason is not Reason.RESOLVED:
        active = (m for m in valid if m.cleared_seconds is None)
        found = _distinct(text_of(m).description.strip() for m in active)[:1]
    if reason is not Reason.DATA_UNAVAILABLE or not members:
        return found
    return (_UNAVAILABLE, *found)


_UNAVAILABLE = (
    "It is not known whether this still holds: its data source can no longer be read, so that no"
    " alert about it ends or begins."
)


def _with_one_end(members: Sequence[IncidentMember], incident: Incident) -> list[IncidentMember]:
    """Return the members of a resolved incident: the last one ends with it, as the mail begins.

    It was last seen to hold then; that it no longer holds was seen at the next evaluation.
    """
    end = incident.active_seconds
    last = max((m.over_seconds or 0.0 for m in members), default=0.0)
    return [replace(m, absent_seconds=end) if m.over_seconds == last else m for m in members]


def _begun(incident: Incident) -> float:
    """Return when the reported problem began; if it was reopened, when it began again."""
    members = incident.members
    if not incident.recurrences:
        return min((incident.opened_seconds, *(m.since_seconds for m in members)))
    start = incident.begun_seconds
    this = (m.since_seconds for m in members if (m.cleared_seconds or math.inf) >= start)
    return min((start, *this))


def _order(member: IncidentMember) -> tuple[bool, bool, bool, Layer, bool, int, float]:
    """Sort key of members: active, causes before symptoms, the deepest first, then severity."""
    vague = member.what.fault in _VAGUE
    sums_up = member.name in SUMS_UP and member.severity < Severity.CRITICAL
    return (
        member.cleared_seconds is not None,
        member.silenced,
        member.what.symptom or sums_up,
        member.layer,
        vague,
        -member.severity,
        member.since_seconds,
    )


def _has_become_critical(member: IncidentMember, due: DueNotice) -> bool:
    """Whether this mail is the first to report it as critical: it repeats the advice."""
    rose = member.severity is Severity.CRITICAL and not member.count
    return rose and member.fact in due.updates


def _advising(members: Sequence[IncidentMember]) -> list[IncidentMember]:
    """Return the members whose advice may be followed in the present state.

    Advice for a disk or a file system may destroy an array that has stopped; for an array without
    redundancy only the advice about that and about what it lost is valid. Advice for an adapter
    only reads.
    """
    now = {m.what.fault for m in members if m.cleared_seconds is None}
    if not now & THREATS:
        return list(members)
    valid = {Fault.STOPPED} if Fault.STOPPED in now else _BARE
    return [
        m
        for m in members
        if _is_read_only(m)
        or (
            m.what.fault in valid
            and m.layer < Layer.FILE_SYSTEM
            and (m.cleared_seconds is None or m.what.fault not in THREATS)
        )
    ]


def _lost_a_disk(member: IncidentMember) -> bool:
    """Whether an adapter reports a lost disk, but not which one."""
    return member.what == LOST_A_DISK and member.subject.startswith(ADAPTER)


def _is_read_only(member: IncidentMember) -> bool:
    """Whether the advice for a member is safe whatever other faults there are."""
    return _lost_a_disk(member) or member.name == "hba_aen"


def _retracted(
    due: DueNotice, members: Sequence[IncidentMember], valid: Sequence[IncidentMember]
) -> Iterator[str]:
    """Yield which advice of earlier mails is dangerous now, and why."""
    incident = due.incident
    given = [m for m in members if m.name in incident.advised and 1 not in due.replaces]
    adapter = due.renamed and incident.key.startswith(ADAPTER)
    void = _distinct(m.summary for m in given if adapter or m not in valid)
    if not void:
        return
    why = f"several of its disks fail together: {incident.object}"
    if len(valid) < len(members):
        why = "; ".join(_distinct(m.summary for m in valid if not _is_read_only(m)))
    yield f"Do not follow the earlier advice ({'; '.join(void)}): {why}."


def _by_clock(line: Evidence, realtime_seconds: float) -> Evidence:
    """Return a line with its time corrected, if the wall clock was set since."""
    moved = abs(line.realtime_seconds - realtime_seconds) > SET_SECONDS
    return replace(line, realtime_seconds=realtime_seconds) if moved else line


def _alone(line: Evidence, object_: str) -> Evidence:
    """Return the line about requests in flight so that it does not repeat the mail's object."""
    if line.source != waiting.DISKSTATS or line.text != f"{waiting.IN_FLIGHT}{object_}":
        return line
    return replace(line, text="no other disk had requests in flight")


def _in_order(lines: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Return the first lines, in order of time."""
    first: dict[tuple[str, str], Evidence] = {}
    for line in lines:
        # Which disks have requests in flight is said once; a log's line may come again.
        at = 0.0 if line.source == waiting.DISKSTATS else line.realtime_seconds
        first.setdefault((line.source, f"{at} {line.text}"), line)
    return tuple(sorted(list(first.values())[:MAX_EVIDENCE], key=lambda e: e.realtime_seconds))


def _summary(
    reason: Reason, members: Sequence[IncidentMember], due: DueNotice
) -> tuple[str, IncidentMember | None]:
    """Return the summary of a mail, and the member that it is about."""
    if not members:
        return "no alert is left", None
    worst, incident = members[0], due.incident
    if due.is_only_known_better:
        return due.details[-1], None
    if reason in ENDS:  # of the last occurrence, if there were several
        start = incident.started_seconds
        last = [m for m in members if m.cleared_seconds is None or m.cleared_seconds >= start]
        worst = min(last or [worst], key=lambda m: _order(m)[1:])
        return f"was: {_as_reported(worst, incident)}", worst
    if reason is Reason.REBUILT:
        ended = [m for m in members if m.name in SHORT and m.cleared_seconds is not None]
        whole = max(ended, key=lambda m: m.cleared_seconds or 0.0, default=worst)
        return f"all members are present again; was: {whole.summary}", whole
    if reason is Reason.DATA_UNAVAILABLE:
        silent = _silent(members)
        return f"{LAST_KNOWN}{silent.summary}", silent
    if reason is Reason.ESCALATED:  # the news: a threat to data, else the deepest new alert
        is_news = [m for m in members if m.cleared_seconds is None or m.fact in due.updates]
        active = is_news or [worst]
        worst = min(
            active,
            key=lambda m: (
                m.silenced,
                not due.is_new(m),
                m.what.fault is not Fault.STOPPED,
                not m.what.threatens,
                _order(m)[:5],
                m.subject != incident.key,
                _order(m),
            ),
        )
    over = all(m.absent_seconds is not None for m in members if m.cleared_seconds is None)
    return f"cleared; was: {worst.summary}" if over else worst.summary, worst


def _as_reported(member: IncidentMember, incident: Incident) -> str:
    """Return the summary that the mails had of what ended: its last value is that of the end.

    Of what is measured in seconds the last value is how long it lasted.
    """
    reports = (each.reported for each in incident.faults if each.fact == member.fact)
    said = next((report.summary for report in reports if report is not None), "")
    return member.summary if member.name in TIMED or not said else said


def _titled(
    summary: str,
    about: IncidentMember,
    members: Sequence[IncidentMember],
    incident: Incident,
    count: int,
) -> str:
    """Return a summary with the fault of the incident's object before news of others.

    `count` is the number of disks of an adapter or expander. Who reads this mail may not have the
    first one: 'sda: gone and md0 has no redundancy left'. Without a comma between, the subject is
    cut behind both.
    """
    news = about.cleared_seconds is None and about.subject != incident.key
    if not incident.key.startswith(ADAPTER):
        own = [m for m in members if m.subject == incident.key and not m.what.symptom]
        own.sort(key=lambda m: m.over_seconds is not None)
        where = f" ({_disk(about)})" if _named(about) else ""
        return f"{_fault(own[0])} and {summary}{where}" if own and news else summary
    fabric = incident.key == FABRIC_KEY
    those = [m for m in members if (m.layer > Layer.DISK if fabric else m.layer <= Layer.DISK)]
    what = "multipath maps" if fabric else "disks"
    # By disk, not by name: a line may name its partition. The adapter is the object of lines about
    # itself, and of disks that it hides, which are known by their serial numbers.
    hidden = {dict(m.labels).get("disk", "") for m in those if m.subject.startswith(ADAPTER)}
    shown = {m.subject for m in those if not m.subject.startswith(ADAPTER)}
    failed = len((hidden | shown) - {""})
    if failed < 2 or not _disk(about):
        return summary
    many = f"{failed} of {count}" if count >= failed else f"{failed}"
    if about in those or not news:
        return f"{many} {what}: {summary}"
    faulty = [m for m in those if _disk(m) and not m.what.symptom]
    return f"{many} {what} {_fault(faulty[0])} and {summary}" if faulty else summary


_FAULTS = {
    Fault.ERRORS: ("has errors", "had errors"),
    Fault.EXHAUSTED: ("has no redundancy left", "had no redundancy left"),
    Fault.HANGS: ("hangs", "hung"),
    Fault.LOST: ("lost data", "lost data"),
}


def _fault(member: IncidentMember) -> str:
    """Return what is or was wrong with an object, in a word or two."""
    fault = member.what.fault
    now, before = _FAULTS.get(fault, (fault.value, f"was {fault.value}"))
    return now if member.over_seconds is None else before


def _disks_of(incident: Incident, dependents: Dependents, now: float) -> int:
    """Return how many disks an adapter or expander has, with those that it lost lately."""
    name = incident.key.removeprefix(ADAPTER)
    above = dependents_of(dependents, incident.key, now)
    return len({each.key for each in above if each.on == name})


def _silent(members: Sequence[IncidentMember]) -> IncidentMember:
    """Return the member whose data source can no longer be read."""
    return next(
        (m for m in members if m.state is AlertState.UNKNOWN and not m.silenced), members[0]
    )


def _facts(members: Iterable[IncidentMember]) -> list[IncidentMember]:
    """Return for each alert and object the first of its severities: they are one fact."""
    facts: dict[tuple[str, str, Labels], IncidentMember] = {}
    for member in members:
        labels = tuple(pair for pair in member.labels if pair[0] != "severity")
        facts.setdefault((member.name, member.subject, labels), member)
    return list(facts.values())


def _named(member: IncidentMember) -> str:
    """Return the device that a line is about, if its summary does not name it."""
    device = _disk(member)
    return "" if not device or device in member.summary else f"{device}: "


def _sentences(member: IncidentMember, now: float) -> str:
    since = f"{quantity('_seconds', now - member.since_seconds)} ago"
    if member.count:
        last = now - (member.last_seconds or now)
        times = f", last {quantity('_seconds', last)} ago" if member.count > 1 else ""
        if member.absent_seconds is not None:
            times += f", cleared {quantity('_seconds', now - member.absent_seconds)} ago"
        quiet = f" ({_quiet(member)})" if member.silenced else ""
        name, text = member.name, member.summary
        return f"{member.severity.name.lower()} {name}, {since}{times}: {text}{quiet}"
    text = f"{member.severity.name.lower()} {member.name}, since {since}: {member.summary}"
    if member.state is AlertState.UNKNOWN:
        return f"{text} (its data source can no longer be read)"
    if member.cleared_seconds is not None and member.over_seconds is not None:
        return f"{text} (resolved {quantity('_seconds', now - member.over_seconds)} ago)"
    if member.silenced:
        return f"{text} ({_quiet(member)})"
    if member.absent_seconds is not None:
        return f"{text} (cleared {quantity('_seconds', now - member.absent_seconds)} ago)"
    return text


def _of_many(member: IncidentMember) -> IncidentMember:
    """Return a member whose summary does not begin with its disk: it represents several."""
    own = dict(member.labels).get("object", "")
    return replace(member, summary=member.summary.removeprefix(f"{own} ")) if own else member


def _quiet(member: IncidentMember) -> str:
    return f"{member.usual}: no mail" if member.usual else "silenced"


def _adapter_sentences(members: Sequence[IncidentMember], now: float) -> list[str]:
    """Return one line for all disks of an adapter that have the same fault."""
    same: dict[tuple[str, Severity, AlertState, bool], list[IncidentMember]] = {}
    for member in members:
        over = member.cleared_seconds is not None
        same.setdefault((member.name, member.severity, member.state, over), []).append(member)
    lines = []
    for group in same.values():
        names = _distinct(_disk(m) for m in group)
        shown = _listed(names)
        what = "disks" if group[0].layer is Layer.DISK else "devices"  # maps, paths
        of = f"{shown}: " if shown else ""
        of = f"{len(names)} {what} ({shown}): " if len(names) > 1 else of
        lines.append(of + _sentences(group[0], now))
    return lines


def _stalls(members: Sequence[IncidentMember]) -> bool:
    """Whether tasks wait because of an active alert."""
    return any(member.cleared_seconds is None and member.what.fault in WAITS for member in members)


def observed(
    alert: Alert,
    tasks: BlockedTasks | None,
    busy: Sequence[str],
    topology: Topology | None,
    realtime_seconds: float,
) -> tuple[Evidence, ...]:
    """Return the waiting tasks when an alert begins to fire: later they may be others."""
    if meaning(alert).fault not in WAITS:
        return ()
    return tuple(waiting.evidence(tasks, busy, topology, realtime_seconds))


def _affected(
    incident: Incident,
    members: Sequence[IncidentMember],
    topology: Topology | None,
    dependents: Dependents,
    now: float,
    samples: Iterable[Sample],
) -> tuple[str, ...]:
    """Return what the object of an incident carries, or carried until lately.

    Of a write stall what is on the disks that take the data, of a file system where it is mounted.
    Nothing for anything else of the host as a whole, or its settings.
    """
    key = incident.key
    if all(m.cleared_seconds is not None for m in members):
        return ()
    if key == ITSELF:
        return ("the monitoring of this host by iowarden; not the host itself",)
    active = [m for m in members if m.cleared_seconds is None]
    if not key.startswith((ADAPTER, ARRAY, POOL, "device ", "disk ")):
        stalled = any(m.name in UNWRITTEN for m in active)
        there = (above for held in dependents.now.values() for above in held if above.key == key)
        mounts = _distinct(f"{above.shown} is on {above.on}" for above in there)
        return tuple(_stalled(samples, topology, dependents, now)) if stalled else mounts
    own = _distinct(_key(m, topology) for m in active)
    if key.startswith(ADAPTER):  # only what its faulty disks carry, if they are known
        own = tuple(each for each in own if each != key) or (key,)
        if own == (key,) and all(m.what == LOST_A_DISK for m in active):
            return ("Not known yet: which of its disks it lost.",)
    else:  # a disk that an adapter lost does not affect its other disks
        own = _distinct((key, *(_key(m, topology) for m in active if not _lost_a_disk(m))))
    lines = tuple(_carried_lines(own, dependents, now))
    if lines or key.startswith(ADAPTER):
        return lines
    if last := _distinct(dict(m.labels).get("used_by") for m in members):  # of DeviceRemoved
        return tuple(f"on it when it disappeared: {each}" for each in last)
    if topology is None:
        return ("Not known: '/sys/block' has not been read yet.",)
    present = (name for name in topology.devices if identity(topology, name).key in own)
    if (name := next(present, "")) != "":
        return tuple(unseen_uses(topology, name, dependents.pools))
    behind = _BEHIND.match(key)  # only the driver of its adapter lists it
    shown = _carried_lines((f"{ADAPTER}{behind[1]}",), dependents, now) if behind else ()
    if behind and (lines := tuple(shown)):
        return (f"It is behind {behind[1]}; devices there, of this disk or of others:", *lines)
    unseen = "it is not in '/sys/block', and was not in the last 5 minutes"
    if key.startswith(POOL):
        unseen = "it has no volume, and no file system of it is mounted"
    return (f"Not known: {unseen}.",)


def _stalled(
    samples: Iterable[Sample], topology: Topology | None, dependents: Dependents, now: float
) -> Iterator[str]:
    """Yield what a write stall affects: all that write, and what is on the disks that take it."""
    yield "Each program of this host that writes: all disks share the limit of unwritten data."
    rates = {dict(s[1]).get("device", ""): s[2] for s in samples if s[0] == WRITE_SPEED}
    disks = sorted(rates, key=lambda name: rates[name])
    if not disks:
        yield "Not known: which disk the unwritten data is for."
    elif len(disks) > MAX_STALLED:
        yield f"Not known: for which of {len(disks)} disks most of it is."
    for name in disks if len(disks) <= MAX_STALLED else ():
        lines = tuple(_carried_lines((identity(topology, name).key,), dependents, now))
        yield from lines or (f"Not known: which file systems {name} carries.",)


def _carried_lines(own: Iterable[str], dependents: Dependents, now: float) -> Iterator[str]:
    """Yield a line for each array, volume or mount on objects, or formerly, with its carriers."""
    there = {above for each in dependents.now.values() for above in each}
    found: dict[tuple[str, str], dict[str, bool]] = {}
    for each in own:
        for above in dependents_of(dependents, each, now):
            below = found.setdefault((above.shown, _placed(each, above)), {})
            below[above.on] = below.get(above.on, False) or above in there
    for (shown, placed), below in found.items():
        still = [name for name, is_there in below.items() if is_there]
        past = [name for name, is_there in below.items() if not is_there]
        if still:
            before = f", and was on {_listed(past)}" if past else ""
            yield f"{shown} is {placed} {_listed(still)}{before}"
        else:
            yield f"{shown} was {placed} {_listed(past)}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_DISKS]) + (", ..." if names[MAX_DISKS:] else "")


def _placed(key: str, above: Dependent) -> str:
    if key.startswith(ADAPTER) and above.on == key.removeprefix(ADAPTER):
        return "attached to"
    return "on" if above.mount else "built on"


def _key(member: IncidentMember, topology: Topology | None) -> str:
    """Return the key of the object of a member.

    A disk whose serial number an old kernel does not report has the key of its device name.
    """
    device = dict(member.labels).get("device", "")
    named = identity(topology, device).key if device else ""
    known = topology is None or not named.startswith("device ") or device not in topology.devices
    return (member.subject if known else "") or named


def _disk(member: IncidentMember) -> str:
    own = dict(member.labels)
    return own.get("device") or own.get("disk", "")


def _distinct(values: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(value for value in values if value))


def advised(incident: Incident) -> tuple[str, ...]:
    """Return the alerts whose advice the mails of this incident have given: it is not repeated."""
    return _distinct((*incident.advised, *(m.name for m in _advising(incident.members))))
