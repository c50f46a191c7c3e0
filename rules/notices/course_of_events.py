"""What happened: the sentences of a mail, one fault in each. Pure.

Units: seconds of the program's clock.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.quantity import quantity
from iowarden.rules.alerting.alerts import AlertState
from iowarden.rules.faults import Layer
from iowarden.rules.notices.mail import common_summary, disk, distinct, listed, without_numbers
from iowarden.rules.notices.titles import is_named
from iowarden.rules.topology.device_identity import identity, named_now

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.model import Labels
    from iowarden.rules.incidents.model import DueNotice, Incident, IncidentMember
    from iowarden.rules.notices.mail import Mail
    from iowarden.rules.severity import Severity


def sentences_of(mail: Mail) -> Iterator[str]:
    """Yield what happened, one fault in a sentence."""
    now = mail.sources.now
    yield from _additions(mail.due)
    yield from _occurrences(mail.incident, now)
    facts = _facts(mail.written)
    if mail.is_of_adapter:
        yield from _adapter_sentences(facts, now)
        return
    several = len({disk(m) for m in facts}) > 1
    for member in facts:
        yield (_named(member) if several else "") + _sentences(member, now)


def _additions(due: DueNotice) -> Iterator[str]:
    """Yield what a mail reports in addition to the faults of its incident."""
    if due.acknowledged_by:
        yield (
            f"it was acknowledged by {due.acknowledged_by}: that ended, as it has escalated since"
        )
    for companion in due.companions:
        worst = max(companion.members, key=lambda member: member.severity, default=None)
        summary = "" if worst is None else f": {worst.summary}"
        severity = companion.severity.name.lower()
        yield f"{severity} incident {companion.identifier}, {companion.object}{summary}"


def _occurrences(incident: Incident, now: float) -> Iterator[str]:
    """Yield how often a fault recurred, and for how long in all."""
    for record in incident.faults:
        if record.count == 1 or record.reported is None or record.lines:
            continue
        whole = record.earlier_seconds + record.lasted_seconds(now)
        since = quantity("_seconds", round(now - record.began_seconds))
        each = quantity("_seconds", round(whole / record.count))
        yield (
            f"{record.fault.value} {record.count} times in the last {since}, each time for about"
            f" {each}, {quantity('_seconds', round(whole))} in all: {record.reported.summary}"
        )


def name_of_today(incident: Incident, topology: Topology | None) -> tuple[str, tuple[str, ...]]:
    """Return the object's name of today, if it is another one, and a sentence about that."""
    name = incident.object.partition(" ")[0]
    today = named_now(topology, incident.key, name)
    if today == name:
        return "", ()
    then = f"what was {name} then is {today} now" if today else f"what was {name} disappeared"
    shown = identity(topology, today).object if today else ""
    is_taken = topology is not None and topology.whole(name) is not None
    return shown, (f"{then}; {name} is a different disk" if is_taken else then,)


def _facts(members: Iterable[IncidentMember]) -> list[IncidentMember]:
    """Return for each alert and object the first of its severities: they are one fact."""
    facts: dict[tuple[str, str, Labels], IncidentMember] = {}
    for member in members:
        labels = tuple(pair for pair in member.labels if pair[0] != "severity")
        facts.setdefault((member.name, member.subject, labels), member)
    return list(facts.values())


def _named(member: IncidentMember) -> str:
    """Return the device that a line is about, if its summary does not name it."""
    return f"{disk(member)}: " if is_named(member) else ""


def _sentences(member: IncidentMember, now: float) -> str:
    since = _ago(now - member.since_seconds)
    if member.count:
        last = now - (member.last_seconds or now)
        times = f", last {_ago(last)}" if member.count > 1 else ""
        if member.absent_seconds is not None:
            times += f", cleared {_ago(now - member.absent_seconds)}"
        elif member.cleared_seconds is not None and (why := why_cleared((member,))):
            times += f", cleared {_ago(now - member.cleared_seconds)} ({why})"
        quiet = f" ({_quiet(member)})" if member.silenced else ""
        name, text = member.name, member.summary
        return f"{member.severity.name.lower()} {name}, {since}{times}: {text}{quiet}"
    text = f"{member.severity.name.lower()} {member.name}, since {since}: {member.summary}"
    if member.state is AlertState.UNKNOWN:
        return f"{text} (its data source can no longer be read)"
    if member.cleared_seconds is not None and member.over_seconds is not None:
        return f"{text} (resolved {_ago(now - member.over_seconds)})"
    if member.silenced:
        return f"{text} ({_quiet(member)})"
    if member.absent_seconds is not None:
        return f"{text} (cleared {_ago(now - member.absent_seconds)})"
    return text


def _ago(seconds: float) -> str:
    """Return how long ago something was, in whole seconds: a poll knows no better."""
    return f"{quantity('_seconds', round(seconds))} ago"


def why_cleared(members: Iterable[IncidentMember]) -> str:
    """Return why events are cleared though nothing reported their end; '' if none is."""
    silent = [m.silent_seconds for m in members if m.silent_seconds is not None]
    if not silent:
        return ""
    whole_minutes = min(silent) // 60 * 60  # above that the seconds are those of a poll
    time = quantity("_seconds", whole_minutes or round(min(silent)))
    return f"no such line for {time}; whether it is repaired was not checked"


def _quiet(member: IncidentMember) -> str:
    return f"{member.usual}: no mail" if member.usual else "silenced"


def _adapter_sentences(members: Sequence[IncidentMember], now: float) -> list[str]:
    """Return one line for all disks of an adapter of which the same is reported."""
    same: dict[tuple[str, Severity, AlertState, bool, str], list[IncidentMember]] = {}
    for member in members:
        over, text = member.cleared_seconds is not None, without_numbers(member.summary)
        same.setdefault((member.name, member.severity, member.state, over, text), []).append(member)
    lines = []
    for group in same.values():
        names = distinct(disk(m) for m in group)
        shown = listed(names)
        what = "disks" if group[0].layer is Layer.DISK else "devices"  # maps, paths
        of = f"{shown}: " if shown else ""
        of = f"{len(names)} {what} ({shown}): " if len(names) > 1 else of
        lines.append(of + _sentences(replace(group[0], summary=common_summary(group)), now))
    return lines
