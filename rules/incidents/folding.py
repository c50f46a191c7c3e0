"""Which incident each alert belongs to, and which are merged into that of a deeper cause. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.faults import (
    BLOCKS_PROGRAMS,
    CAUSES,
    GONE_OR_FAILED,
    TOO_FEW_MEMBERS,
    WINDOWED,
    Fault,
    Layer,
)
from iowarden.rules.incidents import causes
from iowarden.rules.topology.device_identity import ITSELF, Identity
from iowarden.rules.topology.graph import FABRIC_KEY, layer_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from iowarden.rules.incidents.causes import Fact, Key
    from iowarden.rules.incidents.model import Incident, IncidentMember, LastMail
    from iowarden.rules.topology.graph import StorageGraph

    OpenMembers = Mapping[Key, tuple[str, IncidentMember]]

_OF_DISK = CAUSES - BLOCKS_PROGRAMS | {Fault.GONE, Fault.FAILED, Fault.RESETS}


def open_members(incidents: Mapping[str, Incident]) -> OpenMembers:
    """Return each active member by its key, with the key of its incident."""
    return {
        member.key: (key, member)
        for key, incident in incidents.items()
        if incident.closed_seconds is None
        for member in incident.members
        if member.cleared_seconds is None
    }


def one_of_a_kind(there: OpenMembers, active: list[Alert]) -> list[Alert]:
    """Return the alerts, deduplicated: of a log event and a counter of the same fact only one.

    That is the one that is reported already, else the counter, which is complete even if lines of
    the log are lost.
    """
    chosen: dict[tuple[str, Fault], Alert] = {}
    for alert in active:
        what, own = causes.meaning(alert), alert
        if what.fault not in WINDOWED:
            continue
        before = chosen.setdefault((alert.subject, what.fault), alert)
        if (own.key in there, not own.count) > (before.key in there, not before.count):
            chosen[alert.subject, what.fault] = own
    result = []
    for alert in active:
        best = chosen.get((alert.subject, causes.meaning(alert).fault))
        if best is None or bool(best.count) == bool(alert.count):
            result.append(alert)
    return result


def not_suppressed(
    there: OpenMembers,
    active: list[Alert],
    facts: Mapping[Key, Fact],
    explained: Mapping[Key, Fact],
) -> list[Alert]:
    """Return the alerts without those that open no incident now; what is reported already stays.

    While the whole host stalls, single disks seem to stall as well; a collector waits for the disk
    that hangs. A stale collector is reported with the incident whose alerts are unknown because of
    it.
    """
    stalls = any(f.firing and f.what.fault is Fault.STALL for f in facts.values())
    reasons = [a.unknown_reason for a in active if a.state is AlertState.UNKNOWN]

    def suppressed(alert: Alert) -> bool:
        fact, collector = facts[alert.key], alert.label("collector")
        waits = fact.subject == ITSELF and alert.key in explained
        seems = stalls and fact.what.fault is Fault.PRESSURE
        silent = any(f"; {collector} " in f"; {reason}" for reason in reasons)
        return waits or seems or bool(collector and silent)

    return [a for a in active if a.key in there or not suppressed(a)]


def quiet(facts: Mapping[Key, Fact], explained: Mapping[Key, Fact]) -> frozenset[Key]:
    """Return the alerts that no mail is due for: silenced ones, and their symptoms.

    A silence of a hanging disk also applies to the stalls that it causes. They are reported if a
    cause that is not silenced explains them as well. That programs are harmed is always reported,
    unless that is silenced itself.
    """
    return frozenset(
        key
        for key, fact in facts.items()
        if fact.silent or (fact.is_mere_symptom and key in explained and explained[key].silent)
    )


def ended_causes(
    incidents: dict[str, Incident], active: Collection[Key], now: float
) -> dict[Key, tuple[str, Fact]]:
    """Return what is no longer `active` and may explain what begins, with its incident's key.

    An error of before is noticed only when it is written back: a file system fails some seconds
    after its map has paths again. Only of states: a line is active for longer. A server that does
    not respond is away until a line reports that it responds.
    """
    return {
        member.key: (key, causes.ended_fact(member, incident))
        for key, incident in incidents.items()
        if incident.closed_seconds is None
        for member in incident.members
        if member.key not in active
        and (
            member.awaits_line
            or (
                _is_recent(member, now)
                and not member.count
                and member.state is not AlertState.UNKNOWN
                and member.what.fault in causes.STOPS
            )
        )
    }


def _is_recent(member: IncidentMember, now: float) -> bool:
    """Whether what ended may explain what begins: it began lately, or ended just now."""
    ended = member.over_seconds or member.since_seconds
    began_lately = now - member.since_seconds <= causes.BEFORE_SECONDS
    return began_lately or now - ended <= causes.WRITTEN_BACK_SECONDS


def without_settled(there: OpenMembers, facts: Iterable[Fact]) -> Iterator[Fact]:
    """Yield the faults without those of disks that waited for the disk of their title.

    They are over, and were explained while the lines that show the reason were recent.
    """
    for fact in facts:
        home = there[fact.key][0] if fact.key in there else fact.subject
        waited = fact.over and fact.what.fault is Fault.HANGS and home != fact.subject
        if not (waited and layer_of(home) is Layer.DISK):
            yield fact


class Targets:
    """The target incidents of alerts, during one step."""

    def __init__(
        self,
        incidents: dict[str, Incident],
        facts: Mapping[Key, Fact],
        explained: Mapping[Key, Fact],
        graph: StorageGraph,
        ended: Mapping[Key, tuple[str, Fact]],
        shortages: causes.Shortages,
    ) -> None:
        self._incidents, self._facts, self._explained = incidents, facts, explained
        self._above, self._paths = graph.above, graph.maps.keys()
        self.folded: list[Incident] = []
        """Incidents that were merged into another one."""
        there = open_members(incidents)
        self._home = {key: home for key, (home, _) in there.items()}
        """The incident's key of each alert in an open incident."""
        self._ended = {key: home for key, (home, _) in ended.items()}
        homes = dict.fromkeys(self._home.values())
        self._parents = [home for home in homes if layer_of(home) is Layer.ADAPTER]
        self._there = there
        self._identities: dict[tuple[str, str], Identity] = {}
        self._places: dict[Key, Identity] = {}
        """The incidents of alerts and causes, until one is merged or gives up alerts."""
        self._subjects = {
            m.subject: home
            for _, (home, m) in there.items()
            if m.subject not in {"", ITSELF} and m.state is AlertState.FIRING
        }
        self._short = {
            m.subject: key
            for key, (_, m) in there.items()
            if m.subject in self._subjects
            and m.what.fault in TOO_FEW_MEMBERS
            and m.layer >= Layer.VOLUME
        }
        """Arrays with missing members, and their alert."""
        self._short_now = {
            fact.subject: fact for fact in facts.values() if fact.what.fault in TOO_FEW_MEMBERS
        }
        self._shortages = shortages
        self._before = {
            **_lost_paths(there, graph),
            **_ended_paths(incidents, graph.all_maps()),
        }

    def of(self, active: Iterable[Alert]) -> dict[Key, Identity]:
        """Return the incident of each alert; open ones are merged into that of a deeper cause."""
        alerts = {alert.key for alert in active}
        mine: dict[str, list[Key]] = {home: [] for home in self._home.values()}
        for key, home in self._home.items():
            if key in alerts:
                mine[home].append(key)
        self._join_arrays(mine)
        for home in sorted(mine, key=lambda key: (layer_of(key), key)):
            if target := self._fold(mine[home], home):
                mine.setdefault(target, []).extend(mine[home])
        return {key: self._place(self._facts[key]) for key in alerts}

    def _place(self, fact: Fact) -> Identity:
        place = self._places.get(fact.key)
        if place is None:
            place = self._places[fact.key] = self._placed(fact)
        return place

    def _placed(self, fact: Fact) -> Identity:
        home = self._home.get(fact.key) or self._ended.get(fact.key)
        cause = self._explained.get(fact.key)
        if home is None and cause is not None:
            return self._place(cause)
        if home is None:
            home = (
                self._subjects.get(fact.subject)
                or self._of_array(fact)
                or self._previous_session(fact)
            )
        own = self._incidents.get(home or self._titled_parent(fact))
        if own is None:
            return fact.identity
        title = own.key, own.object
        return self._identities.get(title) or self._identities.setdefault(title, Identity(*title))

    def _titled_parent(self, fact: Fact) -> str:
        """Return the open incident of what disks share, if its members have this cause as well.

        A title only gets deeper: that an adapter failed, or a session was lost, is not taken back
        because its line is old. `fact` is a cause without an alert.
        """
        inferred = fact.key not in self._facts and layer_of(fact.subject) is Layer.ADAPTER
        for parent in self._parents if inferred else ():
            if parent not in self._above.get(fact.subject, ()) and any(
                home == parent
                and (cause := self._explained.get(key)) is not None
                and cause.subject == fact.subject
                for key, home in self._home.items()
            ):
                return parent
        return ""

    def _previous_session(self, fact: Fact) -> str | None:
        """Return the incident of a session that maps lost their paths with before, and do again.

        Which session it is this time, its line reports a minute or two later. One whose line is
        recent, while its maps had their paths back or the service did not run, is lost again.
        """
        if fact.subject != FABRIC_KEY:
            return self._before.get((fact.subject, fact.what.fault))
        maps = [
            (own.subject, own.what.fault)
            for key, own in self._facts.items()
            if not own.what.symptom
            and (cause := self._explained.get(key)) is not None
            and cause.subject == FABRIC_KEY
        ]
        homes = {self._before.get(each) for each in maps}
        return homes.pop() if len(homes) == 1 else None

    def _of_array(self, fact: Fact) -> str | None:
        """Return the incident of an array with missing members, for the next fault of its disks.

        Otherwise that would be a second incident next to its effects, which are reported there. Not
        for the disk that the array lost: the array's incident is merged into that disk's; nor for
        one that was lost while the array was whole. What several disks share is no matter of one
        array.
        """
        is_of_disk = fact.layer in {Layer.PATH, Layer.DISK} and not fact.is_reset
        if not is_of_disk or fact.what.fault not in _OF_DISK:
            return None
        for each in sorted(self._above.get(fact.subject, frozenset()) & self._short.keys()):
            home = self._subjects[each]
            is_elsewhere = layer_of(home) is Layer.ADAPTER and not self._is_on(fact, home)
            # As it gets worse its alert of before ends, and another one begins.
            short = self._facts.get(self._short[each]) or self._short_now.get(each)
            if short is None or is_elsewhere or self._shortages.was_replaced(fact, short):
                continue
            cause = self._explained.get(short.key)
            if cause is None or cause.subject != fact.subject:
                return home
            if another := self._shortages.of_another(short, fact):
                return another
        return None

    def _is_on(self, fact: Fact, adapter: str) -> bool:
        """Whether a disk hangs off an adapter or shelf: the other copy may be in another shelf."""
        return adapter == FABRIC_KEY or fact.subject in self._above.get(adapter, ())

    def _join_arrays(self, mine: dict[str, list[Key]]) -> None:
        """Join the incidents of an array and of its next member that failed.

        While it syncs the member that is back, the title is the one that failed now.
        """
        for fact in self._facts.values():
            home = self._home.get(fact.key) or fact.subject
            is_lost = fact.firing and not fact.over and fact.what.fault in GONE_OR_FAILED
            is_alone = home == fact.subject and fact.subject not in self._paths
            is_alone = is_alone and not self._left_with_others(fact)
            array = self._of_array(fact) if is_lost and is_alone else None
            if array in {None, home} or layer_of(array) is not Layer.DISK:
                continue
            still = any(
                f.subject == array and f.what.fault in GONE_OR_FAILED for f in self._facts.values()
            )
            if not still:
                self._join(array, fact.identity)
                mine[home] = [*mine.get(home, ()), *mine.pop(array, [])]
            elif home in self._incidents and home in mine:
                self._join(home, Identity(array, self._incidents[array].object))
                mine[array] = [*mine[array], *mine.pop(home)]

    def _left_with_others(self, fact: Fact) -> bool:
        """Whether a disk left or failed for a reason that it shares with others.

        That another member of its array failed before is another matter.
        """
        cause = self._explained.get(fact.key)
        is_lost = fact.layer is Layer.DISK and fact.what.fault in GONE_OR_FAILED
        return is_lost and cause is not None and cause.layer is Layer.ADAPTER

    def _join(self, home: str, target: Identity) -> None:
        """Merge an open incident into another one."""
        self.folded.append(_fold(self._incidents, home, target))
        self._places.clear()
        self._home |= {k: target.key for k, own in self._home.items() if own == home}
        self._ended |= {k: target.key for k, own in self._ended.items() if own == home}
        self._subjects |= {s: target.key for s, own in self._subjects.items() if own == home}

    def _fold(self, mine: list[Key], home: str) -> str:
        """Move what a deeper cause of another incident explains; return the target if all moved."""
        moves = {}
        for key in mine:
            cause = self._explained.get(key)
            if cause is not None and self._place(cause).key != home:
                moves[key] = cause
        if not moves:
            return ""
        incident = self._incidents[home]
        is_whole = len(moves) == len(mine) and incident.firing
        waits = is_whole and self._only_host_waits(moves, incident)
        if is_whole and not waits:
            target = self._place(min(moves.values(), key=lambda cause: cause.order))
            self._join(home, target)
            return target.key
        reported = {record.fact for record in incident.faults if record.reported is not None}
        gone = {
            key
            for key in moves
            if waits
            or self._there[key][1].fact not in reported
            or (self._facts[key].subject != home and self._left_with_others(self._facts[key]))
        }
        members = tuple(m for m in incident.members if m.key not in gone)
        facts = {m.fact for m in members}
        faults = tuple(each for each in incident.faults if each.fact in facts)
        self._incidents[home] = replace(incident, members=members, faults=faults)
        self._home = {k: own for k, own in self._home.items() if k not in gone}
        self._places.clear()
        if title := self._mailed_title(home):
            self._join(home, title)
        return ""

    def _mailed_title(self, home: str) -> Identity | None:
        """Return the title that an incident was mailed with, if its new object left it before that.

        A second disk of an array was the title of both, until it turned out to be of its shelf.
        """
        incident = self._incidents[home]
        active = [member for member in incident.members if member.cleared_seconds is None]
        if not incident.is_renamed or any(member.subject == home for member in active):
            return None
        mailed = incident.last_mail.object if incident.last_mail else ""
        facts = (self._facts[member.key] for member in active if member.key in self._facts)
        return next((fact.identity for fact in facts if fact.object == mailed), None)

    def _only_host_waits(self, moves: Iterable[Key], incident: Incident) -> bool:
        """Whether only what the whole host shows goes on, after the fault of an incident has ended.

        Its programs wait for something else now: that is no deeper title of what has ended.
        """
        has_fault = any(not member.what.symptom for member in incident.members)
        return has_fault and all(not self._facts[key].subject for key in moves)


def _ended_paths(
    incidents: Mapping[str, Incident], maps: frozenset[str]
) -> dict[tuple[str, Fault], str]:
    """Return the incidents of sessions by the maps that had lost a path with them, and have it."""
    return {
        (record.subject, record.fault): key
        for key, incident in incidents.items()
        if layer_of(key) is Layer.ADAPTER and incident.closed_seconds is None
        for record in incident.faults
        if record.subject in maps
        and record.fault is Fault.DEGRADED
        and record.reported is not None
        and record.until_seconds is not None
    }


def _lost_paths(there: OpenMembers, graph: StorageGraph) -> dict[tuple[str, Fault], str]:
    """Return the incidents of lost sessions by the maps that they carry, of one session each."""
    sessions: dict[str, set[str]] = {}
    for home, member in there.values():
        is_lost = member.subject == home and member.what.fault in causes.STOPS
        if is_lost and layer_of(home) is Layer.ADAPTER:
            for name in graph.all_maps() & graph.above.get(home, frozenset()):
                sessions.setdefault(name, set()).add(home)
    return {
        (name, Fault.DEGRADED): homes.pop() for name, homes in sessions.items() if len(homes) == 1
    }


def _fold(incidents: dict[str, Incident], key: str, cause: Identity) -> Incident:
    """Merge an open incident into that of its cause: its thread continues there."""
    own = incidents.pop(key)
    there = incidents.get(cause.key)
    if there is None or (there.closed_seconds is not None and not there.mails):
        folded = replace(own, key=cause.key, object=cause.object)
    else:
        folded = replace(
            there,
            # A first mail waits since the first of them.
            opened_seconds=min(there.opened_seconds, own.opened_seconds),
            closed_seconds=None,
            members=(*there.members, *own.members),
            faults=tuple({each.fact: each for each in (*own.faults, *there.faults)}.values()),
            references=(*there.references, *own.references),
            severity=max(there.severity, own.severity),
            last_mail=_last_mail(there, own),
            burst=max(there.burst, own.burst),
            firing=True,
            begun_seconds=(there if there.firing else own).begun_seconds,
            first_state=there.first_state if there.firing else there.mails + 1,
        )
    incidents[cause.key] = folded
    return folded


def _last_mail(there: Incident, own: Incident) -> LastMail | None:
    """Return the last mail of an incident with another one merged into it.

    Its thread was mailed under another name: that it is this object is news. Not of what the whole
    host shows of a cause that was mailed since it began.
    """
    before, mail = there.last_mail, own.last_mail
    if before is None or mail is None or not own.mails:
        return before or mail
    is_known = there.firing and before.seconds >= there.started_seconds
    only_shows = all(member.what.symptom and not member.subject for member in own.members)
    return replace(
        before,
        seconds=max(before.seconds, mail.seconds),
        severity=max(before.severity, mail.severity),
        object=before.object if is_known and only_shows else mail.object,
    )
