"""The initial report, and the weekly digest of alerts of severity notice and info. Pure.

Problems that existed when iowarden first ran on this host (the baseline) are one mail, the initial
report, instead of one alert each. Later notices and information wait for the weekly digest. Advice
is given once. Units: seconds of the program's clock.
"""

from __future__ import annotations

import re
from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.quantity import duration
from iowarden.rules.alerting.alerts import Alert, AlertState, Transition
from iowarden.rules.incidents.causes import meaning
from iowarden.rules.incidents.model import lasting
from iowarden.rules.notice import Notice, Reason
from iowarden.rules.severity import Severity
from iowarden.rules.topology.returned_disks import sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.rules.incidents.model import Incident, IncidentMember
    from iowarden.rules.topology.device_changes import DeviceChange

INITIAL_REPORT_SECONDS = 60.0
"""The first poll of all data sources takes so long; most rules have been evaluated then."""
MAX_INITIAL_REPORT_SECONDS = 240.0
"""At most; many drives are polled one after another, and a hanging one is not waited for."""
UNKNOWN_STATE_SECONDS = 600.0
"""How long the initial report waits for state.db, without which it may repeat what was mailed."""
MAYBE_MAILED = (
    "This may have been mailed before: state.db, which has what was mailed, could not be read at"
    " the start"
)
STATE_LOST = (
    "state.db of an earlier run is lost: incidents, acknowledgements, silences and what was mailed"
    " are no longer known; what is listed here may have been mailed before. Acknowledge and"
    " silence again what you had"
)
_DETAILS = "log lines and values of each: iowarden incident list, then iowarden incident show ID"
MAX_ENTRIES = 500
MAX_EVENTS = 50
MAX_OBJECTS = 12
"""Objects listed for one alert; the others are counted."""
MAX_ADVISED = 2000


@dataclass(frozen=True, slots=True)
class DigestEntry:
    """An alert of this week without a mail of its own."""

    name: str
    severity: Severity
    object: str
    summary: str
    advice: str
    first_seconds: float
    times: int
    firing: bool


@dataclass(frozen=True, slots=True)
class Digest:
    """The contents of the next digest. Persisted."""

    begun_seconds: float | None = None
    arrived: bool = False
    arrived_seconds: float | None = None
    """When the initial report was written, if it was."""
    number: int = 0
    """Digests mailed so far."""
    entries: dict[str, DigestEntry] = field(default_factory=dict)
    events: tuple[str, ...] = ()
    events_total: int = 0
    advised: tuple[str, ...] = ()
    """Findings whose advice has been given."""
    is_state_lost: bool = False
    """Whether state.db of an earlier run was lost: the initial report shows it."""


@dataclass(frozen=True, slots=True)
class InitialContent:
    """What the initial report is made of.

    Fields: `contained` are the incidents that it is the first mail of, `separate` those with a mail
    of their own; `alerts` are all, with their advice; `inventory` are the lines about this host;
    `is_state_unknown`: state.db could not be read.
    """

    contained: Sequence[Incident]
    separate: Sequence[Incident]
    alerts: Sequence[Alert]
    inventory: Sequence[str]
    is_state_unknown: bool = False


@dataclass(frozen=True, slots=True)
class WeeklyContent:
    """What the weekly digest is made of in addition to the findings.

    Fields: `heartbeat` is a line that causes a mail even without updates, `notes` cause none;
    `silenced` is which findings, by `entry_key`, are only counted while they are silenced;
    `summaries`: those of alerts that fire, by the same: a count may have grown since they began.
    """

    heartbeat: str = ""
    notes: Sequence[str] = ()
    silenced: Container[str] = ()
    summaries: Mapping[str, str] = field(default_factory=dict)


def next_digest(
    state: Digest,
    transitions: Iterable[Transition],
    events: Iterable[DeviceChange],
    now: float,
    date: Callable[[float], str],
    silenced: Callable[[Alert], bool] = lambda _: False,
) -> Digest:
    """Return the digest with the changes at `now`; `date` formats a time for people.

    What begins while it is `silenced` is reported only if it is no longer when the digest is
    written.
    """
    entries = dict(state.entries)
    for change in transitions:
        alert = change.alert
        key = entry_key(alert)
        if alert.severity >= Severity.WARNING:
            continue
        known = entries.get(key)
        if alert.state is AlertState.FIRING and change.before is not AlertState.UNKNOWN:
            entries[key] = DigestEntry(
                name=alert.name,
                severity=alert.severity,
                object=alert.object or "host",
                summary=alert.summary,
                advice=alert.annotation("advice"),
                first_seconds=now if known is None else known.first_seconds,
                times=(0 if known is None else known.times) + (not silenced(alert)),
                firing=True,
            )
        elif known is not None and alert.state in (AlertState.RESOLVED, AlertState.INACTIVE):
            entries[key] = replace(known, firing=False, summary=alert.summary or known.summary)
    fresh = [f"{date(now)}: {device_sentence(event)}" for event in events]
    return replace(
        state,
        begun_seconds=now if state.begun_seconds is None else state.begun_seconds,
        entries=dict(list(entries.items())[-MAX_ENTRIES:]),
        events=(*state.events, *fresh)[-MAX_EVENTS:],
        events_total=state.events_total + len(fresh),
    )


def merged(ours: Digest, stored: Digest) -> Digest:
    """Return the digest of before a restart, with the changes until it could be read."""
    begun = ours.begun_seconds if stored.begun_seconds is None else stored.begun_seconds
    if ours.arrived and not stored.arrived:  # the initial report did not wait for state.db longer
        stored = replace(
            stored,
            arrived=True,
            arrived_seconds=ours.arrived_seconds,
            advised=ours.advised,
        )
    return replace(
        stored,
        begun_seconds=begun,
        entries={**stored.entries, **ours.entries},
        events=(*stored.events, *ours.events)[-MAX_EVENTS:],
        events_total=stored.events_total + ours.events_total,
    )


def device_sentence(event: DeviceChange) -> str:
    """Return a sentence about a disk that appeared, disappeared or changed."""
    disk = event.identity.object
    users = f"; it was used by: {', '.join(event.carried)}" if event.carried else ""
    return {
        "added": f"{disk} is new",
        "removed": f"{disk} disappeared{users}",
        "renamed": sentence(event.was, event.name, disk),
        "replaced": f"{disk} disappeared{users}; {event.was} has its device name now",
        "returned": sentence(event.was, event.name, disk),
    }[event.change.value]


def initial_report_is_due(
    state: Digest, now: float, running_seconds: float, *, all_polled: bool
) -> bool:
    """Whether the initial report is to be made now.

    A program that is killed again and again must make it as well: what ran before a short break
    counts. After a long one the data of before is old, and is read again first.
    """
    started = now - running_seconds
    begun = started if state.begun_seconds is None else state.begun_seconds
    if started - begun >= MAX_INITIAL_REPORT_SECONDS:
        begun = started
    read = running_seconds >= INITIAL_REPORT_SECONDS and all_polled
    return read or now - begun >= MAX_INITIAL_REPORT_SECONDS


def initial_report(
    state: Digest,
    content: InitialContent,
    *,
    install: str,
    now: float,
    realtime_seconds: float,
) -> tuple[Digest, Notice]:
    """Return the initial report of existing problems, and the digest without them.

    It has the name and the severity of the worst incident that it contains, and a line about each
    other one.
    """
    contained = sorted(content.contained, key=lambda each: (-each.severity, each.opened_seconds))
    alone = sorted(
        (a for a in content.alerts if (a.active and a.severity < Severity.WARNING) or _waits(a)),
        key=lambda a: (-a.severity, a.name, a.object, a.labels),
    )
    entries, listed = _initial_findings(state, contained, alone, content.alerts, now)
    severities = [*(each.severity for each in contained), *(alert.severity for alert in alone)]
    others = [
        f"in a mail of its own: {each.severity.name.lower()} {each.object}: {_worst(each).summary}"
        for each in sorted(content.separate, key=lambda each: -each.severity)
    ]
    settled = replace(
        state,
        arrived=True,
        arrived_seconds=now,
        begun_seconds=now,
        entries={},
        events=(),
        events_total=0,
        advised=_advised(state, listed),
        is_state_lost=False,
    )
    return settled, Notice(
        incident=initial_report_identifier(install),
        number=1,
        references=(),
        reason=Reason.INITIAL,
        severity=max(severities, default=Severity.INFO),
        object="host",
        summary=_initial_summary(contained, len(entries), len(others)),
        opened_seconds=realtime_seconds,
        realtime_seconds=realtime_seconds,
        recurrences=0,
        sentences=(
            *([STATE_LOST] if state.is_state_lost else []),
            *([MAYBE_MAILED] if content.is_state_unknown else []),
            *content.inventory,
            *_lines(entries),
            *others,
            *state.events,
            *([_DETAILS] if contained or others else []),
        ),
        evidence=(),
        affected=(),
        advice=_advice(entries),
        unknown=(),
    )


def _initial_findings(
    state: Digest,
    contained: Iterable[Incident],
    alone: Iterable[Alert],
    alerts: Iterable[Alert],
    now: float,
) -> tuple[list[DigestEntry], list[str]]:
    """Return the findings of the initial report, and the keys of those that it advises about.

    These are the members of incidents, and without an incident what is below warning, also if it
    has ended, and what is pending.
    """
    by_key = {alert.key: alert for alert in alerts}
    # One rule per severity: the most severe one that fires is the finding.
    findings: dict[object, DigestEntry] = {}
    listed: list[str] = []
    sentences: set[tuple[str, str]] = set()
    for incident in contained:
        for member in sorted(incident.members, key=lambda m: (-m.severity, m.name)):
            if member.silenced:
                continue
            listed.append(entry_key(member))
            entry = _member_entry(member, incident, by_key.get(member.key))
            fact = entry.object, entry.summary
            if fact not in sentences:  # a sense line and a block line of one error are one fact
                findings.setdefault(_finding(member), entry)
                sentences.add(fact)
    for alert in alone:
        findings.setdefault(_finding(alert), _entry(alert, now))
        listed.append(entry_key(alert))
    ended = (each for key, each in state.entries.items() if not each.firing and key not in listed)
    return [*findings.values(), *ended], listed


def _waits(alert: Alert) -> bool:
    """Whether an alert is lasting, and fires later: that is then no news, unless it is urgent."""
    minor = alert.severity < Severity.CRITICAL and not meaning(alert).urgent
    return alert.state is AlertState.PENDING and lasting(alert) and minor


def _initial_summary(contained: Sequence[Incident], findings: int, others: int) -> str:
    """Return the worst incident by name, and the number of the others."""
    if contained:
        first = contained[0]
        summary, name = _worst(first).summary, _short_name(first.object)
        head = summary if name == "host" or _names(summary, name) else f"{name}: {summary}"
        more = len(contained) - 1
        return f"{head}; {more} more" if more else head
    # 'no finding' beside an open incident would read as an all-clear.
    mails = "a mail of its own" if others == 1 else "mails of their own"
    parts = [
        *([_counted(findings, "finding")] if findings else []),
        *([f"{_counted(others, 'incident')} in {mails}"] if others else []),
    ]
    return "; ".join(parts) or "no finding"


def _short_name(shown: str) -> str:
    """Return an object without its model and serial number; of a file system with its device."""
    name, _, details = shown.partition(" (")
    device = re.match(r"device ([^)]+)\)", details)
    return name if device is None else f"{name} {device[1]}"


def _names(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


def _worst(incident: Incident) -> IncidentMember:
    """Return the worst member of an incident, of those that last and are not silenced if any."""
    return max(
        incident.members,
        key=lambda m: (
            not m.silenced,
            m.over_seconds is None,
            m.severity,
            m.what.threatens,
            m.subject == incident.key,
        ),
    )


def _member_entry(member: IncidentMember, incident: Incident, alert: Alert | None) -> DigestEntry:
    """Return a member as a finding: as its alert is now, or as it was when that ended."""
    return DigestEntry(
        name=member.name,
        severity=member.severity,
        object=incident.object if alert is None else alert.object or "host",
        summary=member.summary if alert is None else alert.summary,
        advice=member.advice if alert is None else alert.annotation("advice"),
        first_seconds=member.since_seconds,
        times=1,
        firing=member.over_seconds is None,
    )


def initial_report_identifier(install: str) -> str:
    """Return the identifier of the initial report: mails about its problems reply to it."""
    return f"initial-report-{install}"


def due(state: Digest, now: float, period_seconds: float) -> bool:
    """Whether the digest is due; a period of 0 is no digest."""
    begun = state.begun_seconds
    return bool(period_seconds) and begun is not None and now - begun >= period_seconds


def weekly(
    state: Digest,
    content: WeeklyContent,
    now: float,
    realtime: Callable[[float], float],
    *,
    install: str,
) -> tuple[Digest, Notice | None]:
    """Return the digest that begins the next week, and the mail if there is anything to report."""
    heartbeat, silenced = content.heartbeat, content.silenced
    began = now if state.begun_seconds is None else state.begun_seconds
    present = content.summaries
    state = replace(
        state,
        entries={
            key: replace(entry, summary=present.get(key, entry.summary))
            for key, entry in state.entries.items()
        },
    )
    findings = _unreported_findings(state)
    updates = {key: entry for key, entry in findings.items() if key not in silenced}
    after = _next_week(state, now, updates, silenced)
    if not updates and not state.events and not heartbeat:
        return after, None
    after = replace(after, number=state.number + 1)
    omitted = state.events_total - len(state.events)
    quiet = len(findings) - len(updates)
    lines = [
        *([heartbeat] if heartbeat else []),
        *_lines([*updates.values()], now),
        *([f"{_counted(quiet, 'finding')} silenced: iowarden silence list"] if quiet else []),
        *([f"{omitted} earlier changes of disks are not listed"] if omitted else []),
        *content.notes,
    ]
    parts = [
        _counted(len(updates), "finding") if updates else "",
        f"{_counted(state.events_total, 'change')} of disks" if state.events_total else "",
    ]
    summary = ", ".join(part for part in parts if part) or "no changes"
    return after, Notice(
        incident=f"digest{install}",
        number=after.number,
        references=(),
        reason=Reason.DIGEST,
        severity=max((entry.severity for entry in updates.values()), default=Severity.INFO),
        object="host",
        summary=f"{summary} in {duration(now - began)}",
        opened_seconds=realtime(began),
        realtime_seconds=realtime(now),
        recurrences=0,
        sentences=(*lines, *state.events),
        evidence=(),
        affected=(),
        advice=_advice([entry for key, entry in updates.items() if key not in state.advised]),
        unknown=(),
    )


def _unreported_findings(state: Digest) -> dict[str, DigestEntry]:
    """Return the findings of this week: what continues as it was reported once is no update."""
    entries = sorted(state.entries.items(), key=lambda e: (-e[1].severity, e[1].name, e[1].object))
    return {
        key: entry
        for key, entry in entries
        if entry.times or (entry.firing and key not in state.advised)
    }


def _next_week(
    state: Digest, now: float, updates: Iterable[str], silenced: Container[str]
) -> Digest:
    """Return the digest of the next week: what is silenced is counted until it no longer is."""
    continued = {
        key: entry if key in silenced else replace(entry, times=0)
        for key, entry in state.entries.items()
        if entry.firing
    }
    return replace(
        state,
        begun_seconds=now,
        entries=continued,
        events=(),
        events_total=0,
        advised=_advised(state, updates),
    )


def inventory(
    topology: Topology | None, mounted: int | None, silent: Sequence[str], monitoring: str = ""
) -> list[str]:
    """Return the inventory of this host, a line each, for the initial report.

    `monitoring` describes which disks are monitored.
    """
    if topology is None:
        return ["the block devices of this host could not be read yet"]
    disks = [topology.devices[name] for name in topology.leaves]
    arrays = [device.name for device in topology.devices.values() if device.md is not None]
    named = [f"{d.name} ({d.model})" if d.model else d.name for d in disks]
    lines = [f"{_counted(len(disks), 'disk')}: {_some(named)}" if disks else "no disk"]
    lines += [f"{_counted(len(arrays), 'software RAID array')}: {_some(arrays)}"] if arrays else []
    lines += [_counted(mounted, "mounted file system")] if mounted else []
    lines += [f"{monitoring}; details: iowarden monitoring"] if monitoring else []
    lines += [f"no data from: {', '.join(silent)}"] if silent else []
    return lines


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s'[: number != 1]}"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MAX_OBJECTS])
    left = len(names) - MAX_OBJECTS
    return f"{shown} and {left} more" if left > 0 else shown


def _lines(entries: Sequence[DigestEntry], now: float | None = None) -> list[str]:
    """Return a line for each alert name: its summary, and the other objects that it fires for.

    From warning on each object has its own, unless it is the same. With `now`, for how long.
    """
    lines = []
    for same in _alike(entries).values():
        first = same[0]
        where = "" if first.object == "host" else f" {first.object}"
        times = sum(entry.times for entry in same)
        often = f" ({times} times)" if times > len(same) else ""
        since = "" if first.firing else ", resolved"
        if first.firing and now is not None:
            since = f", for {duration(now - first.first_seconds)}"
        others = _others(same)
        also = f"; also {_some(others)}" if others else ""
        head = f"{first.severity.name.lower()} {first.name}{where}"
        lines.append(f"{head}: {first.summary}{often}{since}{also}")
    return lines


def _advice(entries: Sequence[DigestEntry]) -> tuple[str, ...]:
    texts = []
    for same in _by_name(entries).values():
        if not same[0].advice.strip():
            continue  # the advice of another finding has it
        others = _others(same)
        also = f"\nThe same applies to {_some(others)}." if others else ""
        texts.append(f"{same[0].name}:\n{same[0].advice.strip()}{also}")
    return tuple(texts)


def _others(same: Sequence[DigestEntry]) -> list[str]:
    """Return the objects other than the first one, each once."""
    return [name for name in dict.fromkeys(e.object for e in same) if name != same[0].object]


def _alike(entries: Sequence[DigestEntry]) -> Mapping[object, list[DigestEntry]]:
    """Return the entries of one line each: at most `MAX_OBJECTS` lines for one name."""
    found: dict[object, list[DigestEntry]] = {}
    lines: dict[str, list[list[DigestEntry]]] = {}
    for entry in entries:
        major = entry.severity >= Severity.WARNING
        key = entry.name, *((entry.summary, entry.firing) if major else ())
        own = lines.setdefault(entry.name, [])
        if key in found:
            found[key].append(entry)
        elif len(own) >= MAX_OBJECTS:
            own[-1].append(entry)
        else:
            found[key] = [entry]
            own.append(found[key])
    return found


def _by_name(entries: Sequence[DigestEntry]) -> Mapping[str, list[DigestEntry]]:
    found: dict[str, list[DigestEntry]] = {}
    for entry in entries:
        found.setdefault(entry.name, []).append(entry)
    return found


def _entry(alert: Alert, now: float) -> DigestEntry:
    since = now if alert.fired_seconds is None else alert.fired_seconds
    return DigestEntry(
        name=alert.name,
        severity=alert.severity,
        object=alert.object or "host",
        summary=alert.summary,
        advice=alert.annotation("advice"),
        first_seconds=since,
        times=1,
        firing=True,
    )


def _finding(alert: Alert | IncidentMember) -> tuple[object, ...]:
    return alert.subject, *(label for label in alert.labels if label[0] != "severity")


def entry_key(alert: Alert | IncidentMember) -> str:
    """Return the key of an alert's entry."""
    return " ".join((alert.subject, *(f"{name}={value}" for name, value in alert.labels)))


def _advised(state: Digest, keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*state.advised, *keys)))[-MAX_ADVISED:]
