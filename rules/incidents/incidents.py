"""One incident per cause: which alerts belong together, and how each goes on. Pure.

An incident's key is the host or an object's identity: that of the deepest cause of what is in it
(rules.causes). When a deeper one begins, an open incident goes on in that one's thread. An alert
stays where it was reported; a further one about the same object joins it.
Events come as alerts with a count, which fire for some minutes. That they are over is not told:
nobody can say that it is well now.
What is silenced is tracked like all else, explains what it explains, and is no reason for a mail.
When a mail is due is in rules/incidents/due.py. Units: seconds of the program's clock.
"""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.model import Labels  # noqa: TC001 - kept over restarts: read at run time
from iowarden.rules import faults
from iowarden.rules.alerting import alerts as life
from iowarden.rules.alerting.alerts import REDUNDANCY, Alert, State
from iowarden.rules.faults import NONE_LEFT, WINDOWED, Fault
from iowarden.rules.incidents import causes, due, folding
from iowarden.rules.incidents.causes import HOST, Around, Key
from iowarden.rules.notice import Evidence, Reason
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

    from iowarden.rules.faults import Layer, Meaning
    from iowarden.rules.incidents.silences import Acknowledgement
    from iowarden.rules.topology.device_identity import Identity

BLIND_SECONDS = 86_400.0
MOST_CLEARED = 50
"""Members that are over, of one incident; the newest are kept."""
FIRST_SIGHT = "first_sight"
"""Annotation of alerts on what was so when iowarden first saw it: 'true'."""
WORSE_WHEN_DOUBLED = "worse_when_doubled"
"""Annotation of alerts that are news again when their value is twice what is known: 'true'."""
URGENT = "urgent"
"""Annotation of alerts that programs stand still for, 'true', or whose kind says so in vain."""
CLOSED_QUIETLY = "nothing told its end, so no mail says that it is over"
DAY_SECONDS = 86_400.0


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

    unknown_seconds: float | None = None
    """Since when its source has been silent."""
    urgent: str = ""
    """As the annotation URGENT."""
    redundancy: str | None = ""
    """As the alert's annotation REDUNDANCY when it was last known; None: nobody looked at it."""
    usual: str = ""
    """Why it is silenced though nobody did: it comes at this hour, no worse than on other days."""

    @property
    def what(self) -> Meaning:
        """Return what its alert is."""
        condition = next((text for name, text in self.labels if name == "condition"), "")
        event = bool(self.count)
        return faults.meaning(self.name, condition, event=event, redundancy=self.redundancy or "")

    @property
    def layer(self) -> Layer:
        """Return how deep what it is about lies."""
        own = self.what.layer
        return max(own, causes.layer_of(self.subject)) if self.subject else own

    @property
    def fact(self) -> tuple[str, Fault, str]:
        """Return what a mail reports once: object and kind; of a user's alert its name as well.

        A file system that failed is read-only soon after: that is one.
        """
        what = self.what
        if what.of_file_system and what.fault in {Fault.FAILED, Fault.READ_ONLY}:
            return self.subject, Fault.FAILED, "file system"
        return self.subject, what.fault, self.name if what.fault is Fault.OTHER else ""

    @property
    def over_seconds(self) -> float | None:
        """Return when its condition ceased to hold; None: it holds, or nobody can say."""
        return self.missed_seconds if self.cleared_seconds is None else self._ended_seconds

    @property
    def _ended_seconds(self) -> float | None:
        missed = self.missed_seconds
        return self.cleared_seconds if missed is None else missed

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
    begun_seconds: float = 0.0
    """When it began to fire for the first time since its last all clear."""
    changed_seconds: float = 0.0
    """When a mail last said that something changed: the reminder counts from there."""
    closed_seconds: float | None = None
    advised: tuple[str, ...] = ()
    """Names of the alerts whose advice has been mailed."""
    learnt: bool = False
    """Whether something is known now that its last mail could not say: which file was hit."""
    detailed: bool = False
    """Whether a mail has followed for that, or is due: there is one at most while it fires."""
    shared: int = 0
    """Mails of further causes in a row, each longer after the one before."""
    returns: int = 0
    """How often it came back, each time within a day of its end."""

    @property
    def first_mails(self) -> tuple[str, ...]:
        """Return what names the first mail of its thread, and of those folded into it."""
        return self.references or (f"{self.identifier}.1",)

    @property
    def awaits_all_clear(self) -> bool:
        """Whether it is over and no mail said so."""
        told = self.last_reason is Reason.ALL_CLEAR or self.closed_seconds is not None
        return bool(self.mails) and not self.firing and not told and self.ends

    @property
    def awaits_details(self) -> bool:
        """Whether a mail follows with what becomes known: once, of what is critical."""
        critical = self.severity is Severity.CRITICAL and not self.detailed
        return critical and self.firing and bool(self.mails)

    @property
    def ends(self) -> bool:
        """Whether something of it can be seen to be over; of events only where one tells it."""
        own = self.members
        seen = bool(own) and all(m.missed_seconds is not None for m in own)
        return not own or seen or any(not m.count for m in own)

    @property
    def closed_quietly(self) -> bool:
        """Whether nothing told its end: it was quiet for so long that it is closed."""
        told = self.last_reason is Reason.ALL_CLEAR or not self.mails
        return self.closed_seconds is not None and not told

    @property
    def lost(self) -> bool:
        """Whether it ended without an all clear: nobody could read it, or it was closed so."""
        if self.firing or not self.mails or self.last_reason is Reason.ALL_CLEAR:
            return False
        return not self.members or any(m.state is State.UNKNOWN for m in self.members)


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
    renamed: bool = False
    """Whether its thread was mailed under another object's name before."""
    replaces: tuple[int, ...] = ()
    """Numbers of the mails of its thread that nobody got: it takes their place."""


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
    usual: Callable[[Alert], str] = lambda _: "",
    acknowledged: Mapping[str, Acknowledgement] | None = None,
    around: Around | None = None,
) -> tuple[Incidents, list[Due], list[Event]]:
    """Return the incidents at `now`, given every alert, the mails that are due and what changed.

    `install` is the random identifier of this installation: with the key and a count it makes an
    identifier that is the same again when a kill lost the state but not the mail. `observe` says
    what is measured for an alert now; it is asked once, when the alert joins its incident.
    `judged` says whether an alert that is over, by labels and subject, would be seen if it fired:
    an all clear that nobody can vouch for is none. `arrival` is the mail that tells what lasts: an
    incident of nothing but what lasts and was so by then is told by that. `silenced` says whether
    no mail is to tell an alert now, `usual` in words that none is because it comes each day at this
    hour, `acknowledged` which incidents are known, by identifier: no mail but the all clear, until
    the event LIFTED says that this is over: of events that is when the incident is closed. `around`
    is what stood on what.
    """
    known = acknowledged or {}
    book = _Book(state, install)
    everything = list(alerts)
    active = [a for a in everything if a.active and a.severity >= Severity.WARNING]
    active = folding.one_of_a_kind(book.incidents, active)
    around = around or Around()
    habits = {a.key: usual(a) for a in active}
    facts = {
        a.key: causes.fact(a, now, silent=silenced(a) or bool(habits[a.key]), seen=around.seen)
        for a in active
    }
    explained = causes.explained(facts.values(), around)
    active = folding.not_suppressed(book.incidents, active, facts, explained)
    resolved = frozenset(a.key for a in everything if a.state is State.RESOLVED)
    quiet = {
        key: habits[key] or (habits.get(explained[key].key, "") if key in explained else "")
        for key in folding.quiet(facts, explained)
    }
    places = folding.Targets(book.incidents, facts, explained, around.above)
    targets = places.of(active)
    book.events += [Event(Change.FOLDED, each) for each in places.folded]
    by_key: dict[str, list[Alert]] = {}
    for alert in active:
        by_key.setdefault(targets[alert.key].key, []).append(alert)
    # The worst that is told says how bad it is from the beginning.
    for alert in sorted(active, key=lambda a: (a.key in quiet, -a.severity)):
        shown = Severity.INFO if alert.key in quiet else alert.severity
        book.open(targets[alert.key], shown, now, policy)
    dues: list[Due] = []
    stalled = any(f.what.fault in {Fault.STALL, Fault.HUNG} for f in facts.values())
    for key, incident in list(book.incidents.items()):
        if stalled and key == HOST and incident.awaits_all_clear:
            incident = replace(incident, active_seconds=now)  # noqa: PLW2901 - told elsewhere, not over
        incident = _vouched(incident, now, judged)  # noqa: PLW2901 - the same, while nobody looks
        after = _refresh(incident, by_key.get(key, ()), resolved, now, observe, quiet)
        after = _vouched(after, now, judged)  # it may have ended with this very look
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
            reason = due.reason(after, now, policy)
        elif _outgrown(after, acknowledgement, now):
            book.events.append(Event(Change.LIFTED, after))
            reason = Reason.WORSE if after.mails else due.reason(after, now, policy)
        elif not after.firing and now - after.active_seconds >= _forgotten_seconds(after, policy):
            book.events.append(Event(Change.LIFTED, after))
            after = _known_to_the_end(after)
            reason = due.reason(after, now, policy)
        else:
            reason = None
        if reason is not None:
            renamed = after.mailed_object not in {"", after.object}
            after = due.mailed(after, reason, now)
            dues.append(Due(reason, after, renamed))
        after = _close(book, after, now, policy)
        book.put(key, after, now, policy)
    left = {incident.identifier for incident in book.incidents.values()}
    book.events += [
        Event(Change.LIFTED, incident)  # it went on in another one
        for incident in state.by_key.values()
        if incident.identifier in known and incident.identifier not in left
    ]
    return book.result(), dues, book.events


def replacing(
    state: Incidents,
    dues: Iterable[Due],
    waiting: Mapping[str, tuple[int, ...]],
    now: float,
    known: Container[str] = (),
) -> tuple[Incidents, list[Due]]:
    """Return the mails that are due with what they take the place of, and the incidents then.

    `waiting` has by an incident's identifier the numbers of its mails that nobody got by now. Where
    it has changed since the last of them a mail is due as well, unless it is `known`: acknowledged.
    """
    found = [replace(each, replaces=waiting.get(each.incident.identifier, ())) for each in dues]
    there = {each.incident.identifier for each in found}
    by_key = dict(state.by_key)
    for key, incident in state.by_key.items():
        numbers = waiting.get(incident.identifier, ())
        if not numbers or incident.identifier in there or incident.identifier in known:
            continue
        reason = due.replacing(incident, numbers, now)
        if reason is not None:
            by_key[key] = after = due.mailed(incident, reason, now)
            found.append(Due(reason, after, replaces=numbers))
    return replace(state, by_key=by_key), found


def unwatched(by_key: Mapping[str, Incident], now: float) -> dict[str, Incident]:
    """Return incidents after a time in which nobody looked.

    What had not got its all clear was as it was until now, for all we know.
    """
    return {
        key: replace(incident, active_seconds=now)
        if incident.firing or incident.awaits_all_clear
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
            begun_seconds=now,
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
    if incident.awaits_all_clear:  # its quiet time begins anew with a start, see `unwatched`
        return replace(incident, active_seconds=0.0)
    if not incident.firing:
        return incident
    members = tuple(
        replace(m, summary="", advice="", unknown="", missed_seconds=None, value=0.0)
        for m in incident.members
    )
    return replace(incident, active_seconds=0.0, members=members)


def _refresh(
    incident: Incident,
    alerts: Iterable[Alert],
    resolved: frozenset[Key],
    now: float,
    observe: Callable[[Alert], tuple[Evidence, ...]],
    quiet: Mapping[Key, str],
) -> Incident:
    """Return the incident with its members as they are now."""
    current = {alert.key: alert for alert in alerts}
    # Events outlast what is over by their window: once that has passed, the next ones are news.
    if not (current or incident.firing or any(m.cleared_seconds is None for m in incident.members)):
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
    holding = _holding(members)
    if not holding:
        return replace(incident, members=tuple(members), firing=False)
    begins = not incident.firing
    fresh = max((m.severity for m in active if not m.silenced), default=Severity.INFO)
    again = begins and incident.mails > 0
    cleared = incident.last_reason is Reason.ALL_CLEAR or incident.lost
    untold = incident.lost or not incident.ends
    came_back = again and (cleared or untold)
    soon = now - incident.active_seconds <= DAY_SECONDS
    return replace(
        incident,
        members=tuple(members),
        firing=True,
        active_seconds=max(incident.active_seconds, _last(holding, now)),
        started_seconds=now if begins else incident.started_seconds,
        begun_seconds=now if came_back else incident.begun_seconds,
        recurrences=incident.recurrences + came_back,
        returns=(incident.returns + 1 if soon else 0) if came_back else incident.returns,
        # It only rises while the incident is open; what was said to be over starts from its own.
        severity=fresh if begins and cleared else max(incident.severity, fresh),
        last_reason=None if begins and untold and incident.mails else incident.last_reason,
        unreadable=incident.unreadable and any(m.state is State.UNKNOWN for m in active),
        detailed=incident.detailed and not begins,
    )


def _holding(members: Iterable[Member]) -> list[Member]:
    """Return the members that hold an incident open.

    What counts events in a window goes on after the fault that they are of: while there is one, or
    was, it does not.
    """
    lasting = [m for m in members if _lasts(m)]

    def covered(member: Member) -> bool:
        return any(
            each.since_seconds <= member.since_seconds + causes.BEFORE_SECONDS
            and member.since_seconds <= (each.over_seconds or member.since_seconds)
            for each in lasting
        )

    return [m for m in members if m.cleared_seconds is None and (_lasts(m) or not covered(m))]


def _lasts(member: Member) -> bool:
    """Whether a member holds as long as its fault does."""
    return not member.count and member.what.fault not in WINDOWED


def _last(holding: Iterable[Member], now: float) -> float:
    """Return when something of it was last so: an event is over at once."""

    def moment(member: Member) -> float:
        if member.count:
            return max(member.last_seconds or now, member.missed_seconds or 0.0)
        return now if member.missed_seconds is None else member.missed_seconds

    return max(map(moment, holding))


def _vouched(incident: Incident, now: float, judged: Callable[[Labels, str], bool]) -> Incident:
    """Return an incident that is over, its quiet time begun anew while nobody can see that it is.

    After a day without sight it is lost: it will be closed without an all clear.
    """
    if not incident.awaits_all_clear:
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


def began(alert: Alert, now: float) -> float:
    """Return when what an alert tells began: a stall did before it was long enough to fire."""
    fired = alert.fired_seconds if alert.fired_seconds is not None else now
    timed = alert.name in faults.TIMED and not alert.count
    lasted = alert.value if timed and 0.0 < alert.value <= now else 0.0
    return min(fired, now - lasted)


def _member(
    alert: Alert,
    before: Member | None,
    now: float,
    observe: Callable[[Alert], tuple[Evidence, ...]],
) -> Member:
    unknown = alert.annotation("unknown")
    if alert.state is State.UNKNOWN:
        unknown = alert.unknown_reason
    since = began(alert, now)
    again = before is not None and before.cleared_seconds is not None
    if before is not None and not again:
        since, measured = before.since_seconds, before.evidence
    else:
        measured = observe(alert)
    known = "" if before is None else before.redundancy
    redundancy = alert.annotation(REDUNDANCY) or known
    # That is news, whatever was told of it before.
    exhausted = redundancy == NONE_LEFT and known not in {NONE_LEFT, None}
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
        told_seconds=None if before is None or exhausted else before.told_seconds,
        silenced=before is not None and not again and before.silenced,
        usual="" if before is None or again else before.usual,
        heard_seconds=None if before is None else before.heard_seconds,
        value=alert.value if alert.annotation(WORSE_WHEN_DOUBLED) == "true" else 0.0,
        known_value=None if before is None or again else before.known_value,
        count=alert.count,
        last_seconds=alert.last_seconds,
        joined_seconds=now if before is None or again else before.joined_seconds,
        unknown_seconds=alert.unknown_seconds,
        urgent=alert.annotation(URGENT).strip(),
        redundancy=redundancy,
    )


def _known(member: Member) -> Member:
    """Return a member whose value is known, if it was not before."""
    return replace(member, known_value=member.value) if member.known_value is None else member


def _heard(member: Member, now: float, quiet: Mapping[Key, str]) -> Member:
    """Return a member that is silenced, or no longer: what no mail told yet is news then."""
    silenced = member.key in quiet
    ends = member.silenced and not silenced
    return replace(
        member,
        silenced=silenced,
        usual=quiet.get(member.key, ""),
        heard_seconds=now if ends else member.heard_seconds,
        # That it is worse than usual no mail has said, however lately one said that it is usual.
        told_seconds=None if ends and member.usual else member.told_seconds,
    )


def _outgrown(incident: Incident, acknowledgement: Acknowledgement, now: float) -> bool:
    """Whether an incident is worse than what was acknowledged, or is about a further disk."""
    return any(
        m.severity > acknowledgement.severity
        or m.doubled
        or (m.subject != "" and m.subject not in acknowledgement.subjects)
        for m in due.reportable(incident, now)
    )


def _forgotten_seconds(incident: Incident, policy: Policy) -> float:
    """Return after how much quiet an acknowledged incident is over.

    Of events nobody sees that: the next read error of a disk that is to be replaced is no news.
    """
    return policy.all_clear_seconds if incident.ends else policy.close_seconds


def _known_to_the_end(incident: Incident) -> Incident:
    """Return an incident that is over, and was acknowledged so long, with nothing left to tell."""
    return replace(
        incident,
        members=tuple(replace(m, silenced=True) for m in incident.members),
        mailed_severity=max(incident.mailed_severity, incident.severity),
    )


def lasting(alert: Alert) -> bool:
    """Whether what an alert says may have been so for years."""
    sight = alert.annotation(FIRST_SIGHT) == "true"
    return sight or (not alert.count and causes.meaning(alert).lasting)


def _told(incident: Incident, alerts: Iterable[Alert], arrival: Arrival, now: float) -> Incident:
    """Return an incident counted as mailed, for the arrival mail tells it.

    Once that is sent it counts what joins: what is worse than it said is news, and mails that
    followed it stay counted. What is learnt of first sight makes no mail.
    """
    reference, names = f"{arrival.identifier}.1", [alert.name for alert in alerts]
    if not names or (incident.mails and incident.references != (reference,)):
        return incident
    told = replace(
        incident,
        members=tuple(
            after if arrival.seconds is None or before.joined_seconds == now else before
            for before, after in zip(incident.members, due.reported(incident, now), strict=True)
        ),
        advised=tuple(dict.fromkeys((*incident.advised, *names))),
        learnt=False,
        detailed=incident.detailed and not incident.learnt,
    )
    if incident.mails > 1:
        return told
    sent = incident.mailed_seconds if arrival.seconds is None else arrival.seconds
    return replace(
        told,
        mails=1,
        references=(reference,),
        mailed_object=incident.object,
        mailed_severity=incident.severity,
        mailed_seconds=now if sent is None else sent,
        last_reason=Reason.OPENED,
    )


def _close(book: _Book, incident: Incident, now: float, policy: Policy) -> Incident:
    if incident.closed_seconds is not None or incident.firing:
        return incident
    if now - incident.active_seconds < policy.close_seconds:
        return incident
    closed = replace(incident, closed_seconds=now, members=(), severity=Severity.WARNING)
    closed = replace(closed, mailed_severity=Severity.WARNING)
    book.events.append(Event(Change.CLOSED, closed))
    return closed
