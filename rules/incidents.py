"""One incident per cause: which alerts belong together, and when a mail is due. Pure.

An incident's key is the host or a disk's identity. While a disk hangs (condition B1), the write
stalls it causes on the host (A, B2) join the disk's incident, and an open host incident is folded
into it. So do errors of what stands on a disk that tells errors itself: a volume that a controller
makes of it, an array, a file system.
Events come as alerts with a count, which fire for some minutes. That they are over is not told:
nobody can say that it is well now.
What is silenced is tracked like all else, explains what it explains, and is no reason for a mail.
Units: seconds of the program's clock.
"""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.vocabulary import Labels
from iowarden.rules import alerts as life
from iowarden.rules.alerts import Alert, State
from iowarden.rules.devices import ADAPTER, ARRAY, Identity, adapter_text
from iowarden.rules.notice import Evidence, Reason, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iowarden.rules.silences import Acknowledgement

HOST = "host"
Key = tuple[Labels, str]
"""Labels and subject of an alert."""
HANGING = "B1"
BLIND_SECONDS = 86_400.0
MOST_CLEARED = 50
"""Members that are over, of one incident; the newest are kept."""
HOST_STALLS = frozenset({"A1", "B2", "B4"})
"""Conditions of the host that a hanging disk explains."""
EXPLAINED = {
    **dict.fromkeys(("A1", "B2", "C1"), ("B3", "D", "F", "G")),
    HANGING: ("S1",),
}
"""What a condition explains: while the whole host stalls, or a disk hangs and with it reads of its
attributes, these begin no incident."""
TOGETHER = ("B1", "B5", "M7")
"""What disks suffer from together when their adapter, or what connects it, fails."""
TOGETHER_SECONDS, TOGETHER_DISKS = 60.0, 3
JOINING = ("B", "H", "J", "K", "M", "S1")
"""Conditions of what stands on a disk that its errors explain, if they come with them."""
FOLDED_SECONDS = 1200.0
"""An incident that is older is not explained by errors of today."""
LASTING = ("D2", "E", "F1", "L", "M")
"""Conditions that may have been so for years when iowarden first sees them."""
FIRST_SIGHT = "first_sight"
"""Annotation of alerts on what was so when iowarden first saw it: 'true'."""
WORSE_WHEN_DOUBLED = "worse_when_doubled"
"""Annotation of alerts that are news again when their value is twice what is known: 'true'."""


@dataclass(frozen=True, slots=True)
class Policy:
    """When mails are due. Units: seconds."""

    grouping_seconds: float = 60.0
    all_clear_seconds: float = 600.0
    again_seconds: float = 3600.0
    close_seconds: float = 86_400.0
    reopen_seconds: float = 7 * 86_400.0
    remind_seconds: float = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class Member:
    """What an incident remembers of one alert: its worst moment and what it says now."""

    labels: Labels
    name: str
    severity: Severity
    state: State
    since_seconds: float
    summary: str
    advice: str
    unknown: str
    evidence: tuple[Evidence, ...] = ()
    """What was measured when it began."""
    missed_seconds: float | None = None
    """Since when its condition has not held, while the alert is kept firing."""
    cleared_seconds: float | None = None
    subject: str = ""
    """As that of the alert."""
    told_seconds: float | None = None
    """When a mail first told of it, or that it had doubled."""
    silenced: bool = False
    """Whether no mail is due for it, or was while it lasted."""
    heard_seconds: float | None = None
    """When its last silence ended."""
    value: float = 0.0
    """What is measured now, where twice as much is worse."""
    known_value: float | None = None
    """What it was when a mail last told it or somebody acknowledged it."""
    count: int = 0
    """So many events it is; 0: it is a rule's alert."""
    last_seconds: float | None = None
    """When the last of these events was."""
    joined_seconds: float = 0.0
    """When iowarden heard of it: of a log that is read now and then, long after it began."""

    @property
    def doubled(self) -> bool:
        """Whether it is twice as bad as what is known."""
        active = self.state is State.FIRING and self.cleared_seconds is None
        return active and self.known_value is not None and 0 < 2 * self.known_value <= self.value

    @property
    def key(self) -> tuple[Labels, str]:
        """Return the key of its alert."""
        return life.key(self.labels, self.subject, self.count)


@dataclass(frozen=True, slots=True)
class Incident:
    """One cause and its mails."""

    identifier: str
    key: str
    object: str
    opened_seconds: float
    severity: Severity
    """The worst of what was not silenced; INFO while all of it is."""
    members: tuple[Member, ...] = ()
    mails: int = 0
    references: tuple[str, ...] = ()
    """'identifier.number' of the first mail of this thread and of those folded into it."""
    mailed_severity: Severity = Severity.INFO
    mailed_object: str = ""
    """What the last mail was about: a host's incident may become a disk's."""
    mailed_seconds: float | None = None
    last_reason: Reason | None = None
    """None also when it has come again and nobody could say that it was over."""
    active_seconds: float = 0.0
    """When an alert of it was last firing or unknown."""
    firing: bool = False
    unreadable: bool = False
    """Whether the mail 'unreadable' has been sent for the present silence."""
    recurrences: int = 0
    started_seconds: float = 0.0
    """When it last began to fire."""
    changed_seconds: float = 0.0
    """When a mail last said that something changed: the reminder counts from there."""
    closed_seconds: float | None = None
    advised: tuple[str, ...] = ()
    """Names of the alerts whose advice has been mailed."""
    learnt: bool = False
    """Whether something is known now that its last mail could not say: which file was hit."""


class Change(enum.StrEnum):
    """What the journal is told of an incident."""

    OPENED = "opened"
    WORSE = "worse"
    FOLDED = "folded"
    AGAIN = "again"
    CLOSED = "closed"
    LIFTED = "no longer acknowledged"


@dataclass(frozen=True, slots=True)
class Arrival:
    """The mail about what was so at first sight. `seconds`: when it was sent; None: it will be."""

    identifier: str
    seconds: float | None = None

    def tells(self, alert: Alert) -> bool:
        """Whether an alert is of what lasts, and its condition held before the mail."""
        before = self.seconds is None or alert.active_seconds <= self.seconds
        return before and lasting(alert)


@dataclass(frozen=True, slots=True)
class Event:
    """A change of an incident, for the journal."""

    change: Change
    incident: Incident


@dataclass(frozen=True, slots=True)
class Due:
    """A mail that is due, with the incident as it is once the mail is counted."""

    reason: Reason
    incident: Incident


@dataclass(frozen=True, slots=True)
class Incidents:
    """All incidents, open and lately closed, and how many there were of each key."""

    by_key: Mapping[str, Incident] = field(default_factory=dict)
    sequences: Mapping[str, int] = field(default_factory=dict)
    changed: frozenset[str] = frozenset()
    """Keys whose incident differs from what was last kept durably."""


def step(  # noqa: PLR0913 - all but two are named where it is called
    state: Incidents,
    alerts: Iterable[Alert],
    now: float,
    *,
    install: str,
    policy: Policy,
    observe: Callable[[Alert], tuple[Evidence, ...]],
    judged: Callable[[Labels, str], bool],
    arrival: Arrival | None = None,
    silenced: Callable[[Alert], bool] = lambda _: False,
    acknowledged: Mapping[str, Acknowledgement] | None = None,
    joins: Mapping[str, Identity] | None = None,
) -> tuple[Incidents, list[Due], list[Event]]:
    """Return the incidents at `now`, given every alert, the mails that are due and what changed.

    `install` is the random identifier of this installation: with the key and a count it makes an
    identifier that is the same again when a kill lost the state but not the mail. `observe` says
    what is measured for an alert now; it is asked once, when the alert joins its incident.
    `judged` says whether an alert that is over, by labels and subject, would be seen if it fired:
    an all clear that nobody can vouch for is none. `arrival` is the mail that tells what lasts: an
    incident of nothing but what lasts and was so by then is told by that. `silenced` says whether
    no mail is to tell an alert now, `acknowledged` which incidents are known, by identifier: no
    mail but the all clear, until the event LIFTED says that this is over: of events that is when
    the incident is closed. `joins` says, by subject, whose errors explain those of another object.
    """
    known = acknowledged or {}
    book = _Book(state, install)
    everything = list(alerts)
    active = [a for a in everything if a.active and a.severity >= Severity.WARNING]
    active = _not_explained(book, active)
    resolved = frozenset(a.key for a in everything if a.state is State.RESOLVED)
    quiet = _quiet(active, silenced)
    cause = _cause(active, quiet)
    for key, target in (joins or {}).items():
        _fold(book, key, target, now)
    targets = _targets(book, active, cause, joins or {})
    by_key: dict[str, list[Alert]] = {}
    for alert in active:
        by_key.setdefault(targets[alert.key].key, []).append(alert)
    if cause is not None:
        _fold(book, HOST, targets[cause.key], now)
    # The worst that is told says how bad it is from the beginning.
    for alert in sorted(active, key=lambda a: (a.key in quiet, -a.severity)):
        shown = Severity.INFO if alert.key in quiet else alert.severity
        book.open(targets[alert.key], shown, now, policy)
    dues: list[Due] = []
    stalled = any(alert.label("condition") in HOST_STALLS for alert in active)
    for key, incident in list(book.incidents.items()):
        if stalled and key == HOST and _awaits_all_clear(incident):
            incident = replace(incident, active_seconds=now)  # noqa: PLW2901 - told elsewhere, not over
        incident = _vouched(incident, now, judged)  # noqa: PLW2901 - the same, while nobody looks
        after = _refresh(incident, by_key.get(key, ()), resolved, now, observe, quiet)
        if after.firing and not incident.firing and incident.mails:
            book.events.append(Event(Change.AGAIN, after))
        if after.severity > incident.severity and incident.members:
            book.events.append(Event(Change.WORSE, after))
        if arrival is not None and all(arrival.tells(alert) for alert in by_key.get(key, ())):
            after = _told(after, by_key.get(key, ()), arrival, now)
        acknowledgement = known.get(after.identifier)
        if acknowledgement is not None:
            after = replace(after, members=tuple(map(_known, after.members)))
        if acknowledgement is None:
            reason = _due(after, now, policy)
        elif _outgrown(after, acknowledgement):
            book.events.append(Event(Change.LIFTED, after))
            reason = Reason.WORSE if after.mails else _due(after, now, policy)
        elif not after.firing and now - after.active_seconds >= _forgotten_seconds(after, policy):
            book.events.append(Event(Change.LIFTED, after))
            after = _known_to_the_end(after)
            reason = _due(after, now, policy)
        else:
            reason = None
        if reason is not None:
            after = _mailed(after, reason, now)
            dues.append(Due(reason, after))
        after = _close(book, after, now, policy)
        book.put(key, after, now, policy)
    left = {incident.identifier for incident in book.incidents.values()}
    book.events += [
        Event(Change.LIFTED, incident)  # it went on in another one
        for incident in state.by_key.values()
        if incident.identifier in known and incident.identifier not in left
    ]
    return book.result(), dues, book.events


def unwatched(by_key: Mapping[str, Incident], now: float) -> dict[str, Incident]:
    """Return incidents after a time in which nobody looked.

    What had not got its all clear was as it was until now, for all we know.
    """
    return {
        key: replace(incident, active_seconds=now)
        if incident.firing or _awaits_all_clear(incident)
        else incident
        for key, incident in by_key.items()
    }


class _Book:
    """The incidents while one step writes in them."""

    def __init__(self, state: Incidents, install: str) -> None:
        self.incidents = dict(state.by_key)
        self.sequences = dict(state.sequences)
        self.before = state
        self.events: list[Event] = []
        self._install = install

    def open(self, identity: Identity, severity: Severity, now: float, policy: Policy) -> None:
        """Make sure that an incident of this key is open."""
        incident = self.incidents.get(identity.key)
        if incident is not None:
            if incident.closed_seconds is None:
                return
            if now - incident.closed_seconds <= policy.reopen_seconds:
                self.incidents[identity.key] = replace(incident, closed_seconds=None)
                return
        number = self.sequences.get(identity.key, 0) + 1
        self.sequences[identity.key] = number
        digest = hashlib.blake2b(
            f"{self._install}\0{identity.key}\0{number}".encode(), digest_size=5
        ).hexdigest()
        opened = Incident(
            identifier=digest,
            key=identity.key,
            object=identity.object,
            opened_seconds=now,
            severity=severity,
            started_seconds=now,
            changed_seconds=now,
            active_seconds=now,
        )
        self.incidents[identity.key] = opened
        self.events.append(Event(Change.OPENED, opened))

    def put(self, key: str, incident: Incident, now: float, policy: Policy) -> None:
        closed = incident.closed_seconds
        if closed is not None and now - closed > policy.reopen_seconds:
            del self.incidents[key]
        else:
            self.incidents[key] = incident

    def result(self) -> Incidents:
        keys = self.incidents.keys() | self.before.by_key.keys()
        changed = frozenset(
            k
            for k in keys
            if _durable(self.incidents.get(k)) != _durable(self.before.by_key.get(k))
        )
        return Incidents(self.incidents, self.sequences, changed)


def _durable(incident: Incident | None) -> Incident | None:
    """Return an incident without what changes each second, which no restart needs."""
    if incident is None:
        return None
    if _awaits_all_clear(incident):  # its quiet time begins anew with a start, see `unwatched`
        return replace(incident, active_seconds=0.0)
    if not incident.firing:
        return incident
    members = tuple(
        replace(m, summary="", advice="", unknown="", missed_seconds=None, value=0.0)
        for m in incident.members
    )
    return replace(incident, active_seconds=0.0, members=members)


def _not_explained(book: _Book, active: list[Alert]) -> list[Alert]:
    """Return the alerts without those that another one explains; what is told already stays.

    That a source cannot be read is told with the incident that it leaves unknown.
    """
    firing = {a.label("condition") for a in active if a.state is State.FIRING}
    explained = tuple(name for condition in firing for name in EXPLAINED.get(condition, ()))
    reasons = [a.unknown_reason for a in active if a.state is State.UNKNOWN]
    if not explained and not reasons:
        return active
    told = {
        member.key
        for incident in book.incidents.values()
        if incident.closed_seconds is None
        for member in incident.members
        if member.cleared_seconds is None
    }

    def is_explained(alert: Alert) -> bool:
        collector = alert.label("collector")
        return alert.label("condition").startswith(explained) or bool(
            collector and any(f"; {collector} " in f"; {reason}" for reason in reasons)
        )

    return [a for a in active if a.key in told or not is_explained(a)]


def _quiet(active: list[Alert], silenced: Callable[[Alert], bool]) -> frozenset[Key]:
    """Return the alerts that no mail is due for: what is silenced, and what that brings about.

    Whoever silences a hanging disk does not ask for the stalls that it causes instead. They are
    told when a disk hangs, too, that is not silenced.
    """
    quiet = frozenset(a.key for a in active if silenced(a))
    hanging = frozenset(a.key for a in active if _hangs(a))
    if not hanging or not hanging <= quiet:
        return quiet
    return quiet | {a.key for a in active if a.label("condition") in HOST_STALLS}


def _cause(active: list[Alert], quiet: frozenset[Key]) -> Alert | None:
    """Return the hanging disk that explains stalls of the host: the first, silenced ones last."""
    hanging = [a for a in active if _hangs(a)]
    return min(hanging, key=lambda a: (a.key in quiet, a.active_seconds, a.labels), default=None)


def _hangs(alert: Alert) -> bool:
    return alert.label("condition") == HANGING and alert.state is State.FIRING


def _targets(
    book: _Book, active: list[Alert], cause: Alert | None, joins: Mapping[str, Identity]
) -> dict[Key, Identity]:
    """Return where each alert belongs; one that is in an open incident stays there."""
    together = _together(active, joins)
    for key, incident in list(book.incidents.items()):
        mine = not key.startswith(ADAPTER) and not incident.mails and incident.members
        if mine and all(m.key in together for m in incident.members):
            del book.incidents[key]  # told with the adapter
    at_home = {
        member.key: Identity(key, incident.object)
        for key, incident in book.incidents.items()
        if incident.closed_seconds is None
        for member in incident.members
        if member.cleared_seconds is None
    }
    targets: dict[Key, Identity] = {}
    for alert in active:
        own = together.get(alert.key) or Identity(alert.subject or HOST, alert.object or HOST)
        if own.key in joins and _joins(alert.label("condition"), own.key):
            own = joins[own.key]
        targets[alert.key] = at_home.get(alert.key, own)
    if cause is not None:
        disk = targets[cause.key]
        for alert in active:
            if alert.label("condition") in HOST_STALLS and targets[alert.key].key == HOST:
                targets[alert.key] = disk
    return targets


def _together(active: list[Alert], joins: Mapping[str, Identity]) -> dict[Key, Identity]:
    """Return the adapter of each alert of a disk, where three disks of one failed in a minute.

    A disk, the raid set that it degrades and the volumes in that are one disk.
    """
    by_adapter: dict[str, list[Alert]] = {}
    for alert in active:
        suffers = alert.label("condition") in TOGETHER or alert.count
        is_disk = not alert.subject.startswith((ADAPTER, ARRAY)) and alert.subject not in joins
        if alert.adapter and suffers and is_disk:
            by_adapter.setdefault(alert.adapter, []).append(alert)
    found: dict[Key, Identity] = {}
    for adapter, alerts in by_adapter.items():
        latest: dict[str, float] = {}
        for alert in sorted(alerts, key=_began):
            latest[alert.subject] = _began(alert)
            recent = [t for t in latest.values() if _began(alert) - t <= TOGETHER_SECONDS]
            if len(recent) >= TOGETHER_DISKS:
                own = Identity(f"{ADAPTER}{adapter}", adapter_text(adapter))
                found |= dict.fromkeys((each.key for each in alerts), own)
                break
    return found


def _began(alert: Alert) -> float:
    return alert.active_seconds if alert.fired_seconds is None else alert.fired_seconds


def _fold(book: _Book, key: str, disk: Identity, now: float) -> None:
    """Make an open incident that a disk explains the disk's: its thread goes on under that name."""
    own = book.incidents.get(key)
    if own is None or own.closed_seconds is not None or not own.firing:
        return
    active = [m for m in own.members if m.cleared_seconds is None]
    if key == HOST:
        explained = all(_is_host_stall(m) for m in active)
    else:
        recent = now - own.started_seconds <= FOLDED_SECONDS
        explained = recent and all(_joins(_condition(m), key) for m in active)
    if not explained:
        return
    del book.incidents[key]
    there = book.incidents.get(disk.key)
    if there is None or (there.closed_seconds is not None and not there.mails):
        folded = replace(own, key=disk.key, object=disk.object)
    else:
        folded = replace(
            there,
            closed_seconds=None,
            members=(*there.members, *own.members),
            references=(*there.references, *own.references),
            severity=max(there.severity, own.severity),
            mailed_severity=max(there.mailed_severity, own.mailed_severity),
            firing=True,
            # Its thread was mailed under another name: that it is this disk is news.
            mailed_object=own.object if own.mails else there.mailed_object,
        )
    book.incidents[disk.key] = folded
    book.events.append(Event(Change.FOLDED, folded))


def _joins(condition: str, key: str) -> bool:
    """Whether a disk's errors explain what is told of another object, by its condition.

    Of an adapter only that it resets what does not answer: else it is at fault itself.
    """
    return condition == "B5" if key.startswith(ADAPTER) else condition.startswith(JOINING)


def _condition(member: Member) -> str:
    return dict(member.labels).get("condition", "")


def _is_host_stall(member: Member) -> bool:
    return _condition(member) in HOST_STALLS


def _refresh(
    incident: Incident,
    alerts: Iterable[Alert],
    resolved: frozenset[Key],
    now: float,
    observe: Callable[[Alert], tuple[Evidence, ...]],
    quiet: frozenset[Key],
) -> Incident:
    """Return the incident with its members as they are now."""
    current = {alert.key: alert for alert in alerts}
    if not current and not incident.firing:
        return incident
    members = []
    for member in incident.members:
        alert = current.pop(member.key, None)
        if alert is not None:
            members.append(_member(alert, member, now, observe))
        elif member.cleared_seconds is None:
            lost = member.state is State.UNKNOWN and member.key not in resolved
            after = State.UNKNOWN if lost else State.RESOLVED
            members.append(replace(member, state=after, cleared_seconds=now))
        else:
            members.append(member)
    members += [_member(alert, None, now, observe) for alert in current.values()]
    active = [_heard(m, now, quiet) for m in members if m.cleared_seconds is None]
    over = sorted(
        (m for m in members if m.cleared_seconds is not None),
        key=lambda m: m.cleared_seconds or 0.0,
    )
    members = [*over[-MOST_CLEARED:], *active]
    if not active:
        return replace(incident, members=tuple(members), firing=False)
    begins = not incident.firing
    fresh = max((m.severity for m in active if not m.silenced), default=Severity.INFO)
    again = begins and incident.mails > 0
    cleared = incident.last_reason is Reason.ALL_CLEAR or _lost(incident)
    untold = _lost(incident) or not _ends(incident)
    return replace(
        incident,
        members=tuple(members),
        firing=True,
        active_seconds=max(incident.active_seconds, _last(active, now)),
        started_seconds=now if begins else incident.started_seconds,
        recurrences=incident.recurrences + (again and (cleared or untold)),
        # It only rises while the incident is open; what was said to be over starts from its own.
        severity=fresh if begins and cleared else max(incident.severity, fresh),
        last_reason=None if begins and untold and incident.mails else incident.last_reason,
        unreadable=incident.unreadable and any(m.state is State.UNKNOWN for m in active),
    )


def _last(active: Iterable[Member], now: float) -> float:
    """Return when something of it was last so: an event is over at once."""
    return max((m.last_seconds or now) if m.count else now for m in active)


def _awaits_all_clear(incident: Incident) -> bool:
    told = incident.last_reason is Reason.ALL_CLEAR or incident.closed_seconds is not None
    return bool(incident.mails) and not incident.firing and not told and _ends(incident)


def _ends(incident: Incident) -> bool:
    """Whether something of it can be seen to be over; of events nobody can say that."""
    return not incident.members or any(not m.count for m in incident.members)


def _vouched(incident: Incident, now: float, judged: Callable[[Labels, str], bool]) -> Incident:
    """Return an incident that is over, its quiet time begun anew while nobody can see that it is.

    After a day without sight it is lost: it will be closed without an all clear.
    """
    if not _awaits_all_clear(incident):
        return incident
    over = [m for m in incident.members if m.state is State.RESOLVED and not m.count]
    blind = [m for m in over if not judged(*m.key)]
    if not blind:
        return incident
    last = max(m.cleared_seconds or now for m in incident.members)
    if now - last < BLIND_SECONDS:
        return replace(incident, active_seconds=now)
    members = tuple(replace(m, state=State.UNKNOWN) if m in blind else m for m in incident.members)
    return replace(incident, members=members)


def _lost(incident: Incident) -> bool:
    """Whether it ended without an all clear: nobody could read it, or it was closed so."""
    if incident.firing or not incident.mails or incident.last_reason is Reason.ALL_CLEAR:
        return False
    return not incident.members or any(m.state is State.UNKNOWN for m in incident.members)


def _member(
    alert: Alert,
    before: Member | None,
    now: float,
    observe: Callable[[Alert], tuple[Evidence, ...]],
) -> Member:
    unknown = alert.annotation("unknown")
    if alert.state is State.UNKNOWN:
        unknown = alert.unknown_reason
    since = alert.fired_seconds if alert.fired_seconds is not None else now
    again = before is not None and before.cleared_seconds is not None
    if before is not None and not again:
        since, measured = before.since_seconds, before.evidence
    else:
        measured = observe(alert)
    return Member(
        labels=alert.labels,
        name=alert.name,
        severity=alert.severity,
        state=alert.state,
        since_seconds=since,
        summary=alert.summary,
        advice=alert.annotation("advice"),
        unknown=unknown,
        evidence=measured,
        missed_seconds=alert.missed_seconds,
        subject=alert.subject,
        told_seconds=None if before is None else before.told_seconds,
        silenced=before is not None and not again and before.silenced,
        heard_seconds=None if before is None else before.heard_seconds,
        value=alert.value if alert.annotation(WORSE_WHEN_DOUBLED) == "true" else 0.0,
        known_value=None if before is None or again else before.known_value,
        count=alert.count,
        last_seconds=alert.last_seconds,
        joined_seconds=now if before is None or again else before.joined_seconds,
    )


def _known(member: Member) -> Member:
    """Return a member whose value is known, if it was not before."""
    return replace(member, known_value=member.value) if member.known_value is None else member


def _heard(member: Member, now: float, quiet: frozenset[Key]) -> Member:
    """Return a member that is silenced, or no longer: what no mail told yet is news then."""
    silenced = member.key in quiet
    ends = member.silenced and not silenced
    return replace(member, silenced=silenced, heard_seconds=now if ends else member.heard_seconds)


def _outgrown(incident: Incident, acknowledgement: Acknowledgement) -> bool:
    """Whether an incident is worse than what was acknowledged, or is about a further disk."""
    return any(
        m.severity > acknowledgement.severity
        or m.doubled
        or (m.subject != "" and m.subject not in acknowledgement.subjects)
        for m in incident.members
        if m.cleared_seconds is None and not m.silenced
    )


def _forgotten_seconds(incident: Incident, policy: Policy) -> float:
    """Return after how much quiet an acknowledged incident is over.

    Of events nobody sees that: the next read error of a disk that is to be replaced is no news.
    """
    return policy.all_clear_seconds if _ends(incident) else policy.close_seconds


def _known_to_the_end(incident: Incident) -> Incident:
    """Return an incident that is over, and was acknowledged so long, with nothing left to tell."""
    return replace(
        incident,
        members=tuple(replace(m, silenced=True) for m in incident.members),
        mailed_severity=max(incident.mailed_severity, incident.severity),
    )


def _due(incident: Incident, now: float, policy: Policy) -> Reason | None:
    """Return why a mail is due now about what nobody acknowledged, or None."""
    active = [m for m in incident.members if (m.cleared_seconds is None) is incident.firing]
    if all(m.silenced for m in active) and (incident.firing or not incident.mails):
        return None  # what was told before gets its all clear
    quiet = now - incident.active_seconds
    # From the opening, not from the last beginning: what flaps must not start its minute anew.
    waited = now - incident.opened_seconds >= policy.grouping_seconds
    if incident.mails == 0:
        due = incident.severity is Severity.CRITICAL or waited
        return Reason.OPENED if due and incident.closed_seconds is None else None
    if incident.severity > incident.mailed_severity:
        return Reason.WORSE
    known = incident.learnt or incident.object != incident.mailed_object
    renamed = incident.firing and known
    if renamed or any(m.doubled and not m.silenced for m in incident.members):
        return Reason.WORSE
    if not incident.firing:
        clear = quiet >= policy.all_clear_seconds and _awaits_all_clear(incident)
        # Of what vanished while nobody could read it, nobody can say that it is well.
        lost = any(m.state is State.UNKNOWN for m in incident.members)
        return Reason.ALL_CLEAR if clear and not lost else None
    mailed = incident.mailed_seconds if incident.mailed_seconds is not None else now
    if incident.last_reason in (Reason.ALL_CLEAR, None):
        first = incident.recurrences <= 1
        return Reason.AGAIN if first or now - mailed >= policy.again_seconds else None
    if _has_news(incident, now - mailed, policy):
        return Reason.WORSE
    silent = [m for m in active if m.state is State.UNKNOWN and not m.silenced]
    # Again and again the same: a full disk that is mounted for each night's backup.
    often = incident.last_reason is Reason.UNREADABLE and now - mailed < policy.remind_seconds
    if silent and not incident.unreadable and not often:
        return Reason.UNREADABLE
    if (
        now - incident.changed_seconds >= policy.remind_seconds
        and incident.last_reason is not Reason.STILL
    ):
        return Reason.STILL
    return None


def _has_news(incident: Incident, quiet_seconds: float, policy: Policy) -> bool:
    """Whether something else has happened to an object since the last mail about it.

    Its incident may be open for months: a volume that waits for a repair, an array with a failed
    member that nobody takes out. What one fault brings about comes within minutes: in one mail.
    """
    for member in incident.members:
        firing = member.state is State.FIRING and member.cleared_seconds is None
        critical, first = member.severity is Severity.CRITICAL, member.told_seconds is None
        began = member.joined_seconds if member.count else member.since_seconds
        if first:  # a mail while it was silenced named it at most
            began = max(began, member.heard_seconds or began)
        if member.silenced or not firing or began <= (incident.mailed_seconds or 0.0):
            continue
        if critical and quiet_seconds >= (
            policy.all_clear_seconds if first else policy.again_seconds
        ):
            return True
        if first and quiet_seconds >= policy.again_seconds:
            return True
    return False


def _with_told(incident: Incident, now: float) -> tuple[Member, ...]:
    return tuple(
        m
        if m.silenced
        else replace(
            m,
            told_seconds=now if m.told_seconds is None or m.doubled else m.told_seconds,
            known_value=m.value if m.state is State.FIRING else m.known_value,
        )
        for m in incident.members
    )


def _mailed(incident: Incident, reason: Reason, now: float) -> Incident:
    number = incident.mails + 1
    return replace(
        incident,
        members=_with_told(incident, now),
        mails=number,
        references=first_mail(incident),
        mailed_object=incident.object,
        mailed_severity=incident.severity,
        mailed_seconds=now,
        last_reason=reason,
        unreadable=incident.unreadable or reason is Reason.UNREADABLE,
        learnt=False,
        changed_seconds=incident.changed_seconds if reason is Reason.STILL else now,
    )


def lasting(alert: Alert) -> bool:
    """Whether what an alert says may have been so for years."""
    return alert.label("condition").startswith(LASTING) or alert.annotation(FIRST_SIGHT) == "true"


def _told(incident: Incident, alerts: Iterable[Alert], arrival: Arrival, now: float) -> Incident:
    """Return an incident counted as mailed, for the arrival mail tells it."""
    reference, names = f"{arrival.identifier}.1", [alert.name for alert in alerts]
    if not names or (incident.mails and incident.references != (reference,)):
        return incident
    return replace(
        incident,
        members=_with_told(incident, now),
        mails=1,
        references=(reference,),
        mailed_object=incident.object,
        mailed_severity=incident.severity,
        mailed_seconds=now,
        last_reason=Reason.OPENED,
        advised=tuple(dict.fromkeys((*incident.advised, *names))),
    )


def first_mail(incident: Incident) -> tuple[str, ...]:
    """Return what names the first mail of an incident's thread, and of those folded into it."""
    return incident.references or (f"{incident.identifier}.1",)


def _close(book: _Book, incident: Incident, now: float, policy: Policy) -> Incident:
    if incident.closed_seconds is not None or incident.firing:
        return incident
    if now - incident.active_seconds < policy.close_seconds:
        return incident
    closed = replace(incident, closed_seconds=now, members=(), severity=Severity.WARNING)
    closed = replace(closed, mailed_severity=Severity.WARNING)
    book.events.append(Event(Change.CLOSED, closed))
    return closed
