"""An incident that is due for a mail, put into the words of a Notice. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from iowarden.collectors.mounts import Mount
from iowarden.rules.alerts import State
from iowarden.rules.devices import carried_by, identity
from iowarden.rules.incidents import HANGING
from iowarden.rules.notice import Evidence, Notice, Reason
from iowarden.rules.quantity import quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iowarden.collectors.block import Device, Topology
    from iowarden.collectors.vocabulary import Sample
    from iowarden.rules.incidents import Due, Incident, Member

_T = TypeVar("_T")

MOST_EVIDENCE = 24
"""Lines of evidence in one mail; a machine with 480 disks must not bury the first."""


def evidence(samples: Iterable[Sample], realtime_seconds: float) -> tuple[Evidence, ...]:
    """Return a line for each sample: its labels, its value with a unit a person reads."""
    return tuple(
        Evidence(realtime_seconds, metric, _labelled(labels) + quantity(metric, value))
        for metric, labels, value in samples
    )


def notice(
    due: Due,
    realtime: Callable[[float], float],
    now: float,
    current: Sequence[Evidence],
    topology: Topology | None,
    busy: Sequence[str] = (),
    mounts: Sequence[Mount] = (),
) -> Notice:
    """Return the mail that is due.

    `realtime` turns the program's clock into Unix time; `busy` are the disks with requests in
    flight, `mounts` what is mounted.
    """
    incident = due.incident
    members = sorted(
        incident.members,
        key=lambda m: (m.cleared_seconds is not None, -m.severity, m.since_seconds),
    )
    number = incident.mails
    begun = [
        line for m in members if m.cleared_seconds is None or number == 1 for line in m.evidence
    ]
    told = set(incident.advised)
    fresh = [m for m in members if m.advice and m.name not in told]
    return Notice(
        incident=incident.identifier,
        number=number,
        references=() if number == 1 else incident.references,
        reason=due.reason,
        severity=incident.severity,
        object=incident.object,
        summary=_summary(due.reason, members, incident),
        opened_seconds=realtime(incident.opened_seconds),
        realtime_seconds=realtime(now),
        recurrences=incident.recurrences,
        happened=tuple(_happened(m, now) for m in members),
        evidence=_distinct((*begun[: MOST_EVIDENCE // 2], *current))[:MOST_EVIDENCE],
        affected=_affected(members, topology, busy, mounts),
        advice=_distinct(m.advice.strip() for m in fresh),
        unknown=_distinct(
            m.unknown.strip() for m in members if m.unknown and m.cleared_seconds is None
        ),
    )


def _summary(reason: Reason, members: Sequence[Member], incident: Incident) -> str:
    if not members:
        return "no alert is left"
    worst = members[0]
    if reason is Reason.ALL_CLEAR:  # of the last time, where there were several
        last = [m for m in members if (m.cleared_seconds or 0.0) >= incident.started_seconds]
        return f"was: {(last or [worst])[0].summary}"
    if reason is Reason.UNREADABLE:
        silent = next((m for m in members if m.state is State.UNKNOWN), worst)
        return silent.unknown or f"can no longer be read: {silent.summary}"
    if reason is Reason.WORSE:  # the news, and a hanging disk before what it causes
        active = [m for m in members if m.cleared_seconds is None] or [worst]
        worst = max(
            active,
            key=lambda m: (
                m.told_seconds == incident.mailed_seconds,
                ("condition", HANGING) in m.labels,
                m.severity,
                m.since_seconds,
            ),
        )
    over = all(m.missed_seconds is not None for m in members if m.cleared_seconds is None)
    return f"is over; was: {worst.summary}" if over else worst.summary


def _happened(member: Member, now: float) -> str:
    since = f"{quantity('_seconds', now - member.since_seconds)} ago"
    text = f"{member.severity.name.lower()} {member.name}, since {since}: {member.summary}"
    if member.state is State.UNKNOWN:
        return f"{text} (its source can no longer be read)"
    if member.cleared_seconds is not None:
        return f"{text} (over since {quantity('_seconds', now - member.cleared_seconds)})"
    if member.missed_seconds is not None:
        return f"{text} (has not held for {quantity('_seconds', now - member.missed_seconds)})"
    return text


def _affected(
    members: Sequence[Member],
    topology: Topology | None,
    busy: Sequence[str],
    mounts: Sequence[Mount],
) -> tuple[str, ...]:
    if topology is None or all(m.cleared_seconds is not None for m in members):
        return ()
    named = _distinct(dict(m.labels).get("device", "") for m in members)
    lines = [f"{identity(topology, name).object} has requests in flight" for name in busy]
    for name in named or busy:
        device = _whole(topology, name)
        if device is None:
            continue
        for shown, there in carried_by(topology, device, mounts):
            if isinstance(there, Mount):
                lines.append(f"{shown} ({there.kind}) is on {device.name}")
            else:
                level = f" ({there.md.level})" if there is not None and there.md else ""
                lines.append(f"{shown}{level} is built on {device.name}")
    return _distinct(lines)


def _whole(topology: Topology, name: str) -> Device | None:
    """Return a device, also of one of its partitions."""
    own = topology.devices.get(name)
    return own or next((d for d in topology.devices.values() if name in d.partitions), None)


def _labelled(labels: Iterable[tuple[str, str]]) -> str:
    words = [f"{key} {value}" for key, value in labels]
    return f"{', '.join(words)}: " if words else ""


def _distinct(values: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(value for value in values if value))


def advised(incident: Incident) -> tuple[str, ...]:
    """Return the alerts whose advice this incident's mails have given by now: it never repeats."""
    return _distinct((*incident.advised, *(m.name for m in incident.members if m.advice)))
