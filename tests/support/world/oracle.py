"""Judges the mails of a run: it knows what was injected, and nothing of how iowarden concludes.

The rules are those of the specification: one fault is one incident, titled by its deepest cause;
so many mails an hour; '[OK]' only when the machine is well. Units: seconds of the world's clock.
"""

from __future__ import annotations

import math
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

from support.world.behaviour import FOREVER, HUNG_SECONDS, SYMPTOMS, By, Fact, Kind, together
from support.world.injection import layer_of
from support.world.machine import Layer
from support.world.mails import (
    GOOD,
    HOUR_SECONDS,
    INTERVALS,
    Ack,
    Mail,
    Miss,
    Visible,
    next_mail_at,
    old_names,
    once_joined,
    shown,
    with_first_names,
)
from support.world.recurrences import LEAST_SECONDS, REPORT_SECONDS, Recurrences

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from support.world.injection import Injection, Run

LESSER_AN_HOUR = 8
WORSE_SECONDS, INTERVAL_SECONDS = 4.0, 28.0
"""A worse kind waits 5 s for what comes with it; other news at least 30 s after the last mail."""
ANOTHER_OBJECT_SECONDS = 240.0
"""The longest interval if a worse kind that was mailed befalls another object."""
NEWS_SECONDS = 1020.0
"""News is in a mail after at most so long, the intervals between mails included."""
TOGETHER = 3
AFTER_SECONDS = 30.0
"""A cause begins at most so long after what it explains: so late somebody notices."""
FRESH_SECONDS = 5.0
"""A mail may be titled by what was known so long before it."""
OPENING_SECONDS, URGENT_SECONDS = 70.0, 8.0
LOOK_SECONDS, COMES_WITH_SECONDS = 1.0, 2.0
"""So often iowarden looks; so long the first mail about more than one fault waits."""
SOON_SECONDS, CLEAR_SECONDS, POLL_SECONDS = (60.0, 75.0), 600.0, 300.0
"""The all-clear comes so long after the end of what is urgent; of the rest after ten minutes, and
after the poll that shows the end."""
RECOVERIES = 2
"""Mails with good news an hour."""
UNTITLED = frozenset((*GOOD, "data unavailable", "initial report", "digest", "reminder"))
WORSE = frozenset((Kind.EXHAUSTED, Kind.STOPPED, Kind.LOST))
_AWAY = frozenset((Kind.GONE, Kind.FAILED))
SHORT = frozenset((Kind.DEGRADED, Kind.EXHAUSTED, Kind.STOPPED))
"""Members of an array are missing."""
URGENT = frozenset((Kind.STOPPED, Kind.EXHAUSTED, Kind.LOST, Kind.GONE))
BLOCKS = frozenset((Kind.HANGS, Kind.SUSPENDED))
"""Programs wait for it: that is urgent as well."""
_LATE = {Kind.HUNG: 2 * HUNG_SECONDS}
"""A symptom shows so long after its cause began."""
_COVERS = {
    Kind.DEGRADED: (Kind.EXHAUSTED, Kind.STOPPED),
    Kind.EXHAUSTED: (Kind.STOPPED,),
    Kind.READ_ONLY: (Kind.FAILED,),
    Kind.FAILED: (Kind.READ_ONLY,),
    Kind.HANGS: (Kind.STOPPED,),  # a map without a path keeps its requests
}
LINE_SECONDS = 600.0
"""So long a line of the log is recent."""


def judge(
    run: Run,
    mails: Sequence[Mail],
    seen: Visible,
    acks: Mapping[str, Ack] = MappingProxyType({}),
) -> list[Miss]:
    """Return what is wrong with the mails of a run.

    `seen` is when iowarden had an alert of each object and kind: it cannot report sooner; `acks`
    are the acknowledgements, by incident.
    """
    knowledge = _Knowledge(run, mails, seen, acks)
    if not run.injections:
        return [
            Miss("mail on a healthy host", shown(mail))
            for mail in mails
            if mail.tag in {"WARNING", "CRITICAL"} or mail.reason != "initial report"
        ]
    misses = [
        *old_names(run, mails),
        *knowledge.titles(),
        *knowledge.budget(),
        *knowledge.incidents(),
        *knowledge.news(),
        *knowledge.openings(),
        *knowledge.ends(),
        *knowledge.acknowledged(),
    ]
    for injection in run.injections:
        if len(injection.spans) > 1 and len(run.injections) == 1 and not acks:
            misses += knowledge.recurrences().misses(injection)
    first: dict[str, Miss] = {}
    for miss in misses:
        first.setdefault(miss.what, miss)
    return list(first.values())


class _Knowledge:
    """What the oracle knows of one run."""

    def __init__(
        self,
        run: Run,
        mails: Sequence[Mail],
        seen: Visible,
        acks: Mapping[str, Ack],
    ) -> None:
        self.run, self.acks, self.spells = run, acks, seen
        self.mails = [with_first_names(mail, run.renamings) for mail in mails]
        self.seen = {key: min(start for start, _ in spans) for key, spans in seen.items()}
        """When iowarden first had an alert of each object and kind."""
        self.machine = run.machine
        self.faults = [
            fact
            for fact in run.facts
            if fact.of
            and fact.kind is not Kind.LESSER
            and (fact.object, fact.kind.value) in seen
            and (fact.kind not in SYMPTOMS or self._is_own_line(fact))
        ]
        self.reported: dict[str, set[str]] = {}
        """What the mails of each incident reported."""
        for mail in mails:
            self.reported.setdefault(mail.incident, set()).update(mail.content - mail.others)

    def _is_own_line(self, fact: Fact) -> bool:
        """Whether an adapter itself says that it is reset."""
        return layer_of(self.machine, fact.object) is Layer.ADAPTER and fact.by is By.LINE

    def evident_at(self, at: float) -> list[Fact]:
        """Return the faults that iowarden could know at a time."""
        return [
            fact
            for fact in self.faults
            if fact.at <= at
            and any(
                start <= at and fact.at <= end
                for start, end in self.spells[fact.object, fact.kind.value]
            )
        ]

    # Titles

    def titles(self) -> Iterator[Miss]:
        """Yield mails that are titled with a wrong object or kind."""
        titled: set[str] = set()
        for mail in self.mails:
            if mail.reason in UNTITLED:
                continue
            first = mail.incident not in titled
            titled.add(mail.incident)
            when = "" if first else " (later mail)"
            evident = self.evident_at(mail.at)
            if self._is_unexplained(mail, evident):
                continue
            if not evident:
                yield Miss("mail about nothing", shown(mail))
                continue
            right = self._right(mail, evident) | self._right(
                mail, self.evident_at(mail.at - FRESH_SECONDS)
            )
            if not mail.names <= right:
                yield Miss(
                    f"object: {self._kind_of_wrong(mail, right)}{when}", _reason(mail, right)
                )
            elif members := self._unnamed(mail):
                yield Miss(f"object: not all members that are away{when}", _reason(mail, members))
            elif not self._is_right_kind(mail, evident):
                yield Miss(f"kind{when}", shown(mail))

    def _unnamed(self, mail: Mail) -> set[str]:
        """Return the disks that an array is short of, if a title names only some of them.

        Not those that went with what they are behind: a mail of its own has that for its title.
        """
        own = {each.number for each in self.run.injections if each.object in self._all_disks()}
        evident = [
            fact for fact in self.evident_at(mail.at - FRESH_SECONDS) if mail.at < fact.until
        ]
        away = {fact.object: fact.of for fact in evident if fact.kind in _AWAY}
        for array in evident:
            text = f"{array.kind}: {array.object}"
            if array.kind not in SHORT or array.by is By.LINE or text not in mail.content:
                continue
            below = set(self.machine.below(array.object))
            members = {disk for disk in self._all_disks() & away.keys() if disk in below}
            members = {disk for disk in members if away[disk] & array.of & own}
            if mail.names < members:
                return members
        return set()

    def _is_unexplained(self, mail: Mail, evident: list[Fact]) -> bool:
        """Whether a mail is about symptoms alone, of whose cause nothing could be known."""
        last = {
            (fact.object, fact.kind): fact
            for fact in self.run.facts
            if fact.of and fact.at <= mail.at and f"{fact.kind}: {fact.object}" in mail.content
        }
        facts = list(last.values())
        since = min((fact.at - _LATE.get(fact.kind, 0.0) for fact in facts), default=0.0)
        causes = {number for fact in evident if fact.until >= since for number in fact.of}
        return bool(facts) and all(fact.kind in SYMPTOMS and not fact.of & causes for fact in facts)

    def _right(self, mail: Mail, evident: list[Fact]) -> set[str]:
        """Return the objects that may be the title: of each injected fault that it is about."""
        about = self._about(mail, evident) or {each.number for each in self.run.injections}
        right: set[str] = set()
        for number in about:
            right |= self._causes(self.run.injections[number], evident)
        # Two at once may be titled by what carries both: two shelves by their adapter.
        disks = {disk for name in right for disk in (name, *self._disks_of(name))}
        if len(about) > 1 and (parent := self.machine.common_parent(disks & self._all_disks())):
            right.add(parent)
        return right

    def _about(self, mail: Mail, evident: list[Fact]) -> set[int]:
        """Return the injected faults that a mail may be titled with.

        Of an array with a spare those that this mail reports, without the disk that was replaced;
        else what any mail of its incident reports: of those of a story what is away now.
        """
        if any(node.idle for node in self.machine.nodes.values()):
            about = set(self._reported_causes([mail]))
            return about - self._replaced(mail, evident) or about
        about = {
            number
            for fact in evident
            for number in fact.of
            if f"{fact.kind}: {fact.object}" in self.reported[mail.incident] | mail.content
        }
        return (self.run.story and self._present(about, mail.at, evident)) or (
            about | self._reset_by(mail)
        )

    def _reset_by(self, mail: Mail) -> set[int]:
        """Return the injected faults whose disk is reset, as a mail reports: it is about them."""
        return {
            number
            for fact in self.run.facts
            if fact.kind is Kind.RESETS and fact.at <= mail.at <= fact.at + LINE_SECONDS
            if f"{fact.kind}: {fact.object}" in mail.content
            for number in fact.of
        }

    def _disks_of(self, name: str) -> list[str]:
        is_below = layer_of(self.machine, name) < Layer.DISK
        return self.machine.disks_of(name) if is_below and name in self.machine.nodes else []

    def _all_disks(self) -> set[str]:
        nodes = self.machine.nodes.values()
        return {node.name for node in nodes if node.layer is Layer.DISK}

    def _present(self, about: Iterable[int], at: float, evident: list[Fact]) -> set[int]:
        """Return the injected faults whose object is away now: not those that are over."""
        away = {fact.object for fact in evident if fact.kind in _AWAY and at < fact.until}
        return {number for number in about if self.run.injections[number].object in away}

    def _replaced(self, mail: Mail, evident: list[Fact]) -> set[int]:
        """Return the injected faults whose disk a spare replaced before what a mail reports.

        The array was whole in between: it is short of the one that it lost since.
        """
        short = [
            fact
            for fact in evident
            if fact.kind in SHORT
            and fact.by is not By.LINE
            and f"{fact.kind}: {fact.object}" in mail.content
        ]
        last = max((fact.at for fact in short), default=0.0)
        now = {number for fact in short for number in fact.of if fact.until > last}
        return {number for fact in short if fact.until < last for number in fact.of} - now

    def _causes(self, injection: Injection, evident: list[Fact]) -> set[str]:
        """Return the right titles of one injected fault, of what can be known of it."""
        mine = [fact for fact in evident if injection.number in fact.of]
        objects = {fact.object for fact in mine}
        if not mine:
            return set()
        layers = {name: layer_of(self.machine, name) for name in objects}
        if injection.object in {"iscsi", "fc"}:
            deepest = {other for other in objects if layers[other] is min(layers.values())}
            return deepest | self._lowest(mine) | {"storage fabric"}
        node = self.machine.nodes[injection.object]
        if node.role in {"iscsi", "fc"}:
            # Each time it is known only once its own line is there.
            last = max(fact.at for fact in mine)
            since = max((start for start, _ in injection.spans if start <= last), default=0.0)
            if any(fact.at >= since and fact.object == injection.object for fact in mine):
                return {injection.object}
            maps = {other for other in objects if layers[other] is Layer.VOLUME}
            return {*maps, "storage fabric", *({injection.object} & objects)}
        if node.layer is Layer.NETWORK:
            return {injection.object, *node.carriers}
        if node.layer is Layer.DISK or node.layer > Layer.DISK:
            return {injection.object} & objects or self._lowest(mine)
        disks = together(mine, self.machine.disks_of(injection.object))
        shared = self.machine.nearest_visible(injection.object)
        few = len(disks) < min(TOGETHER, len(self.machine.disks_of(injection.object)))
        if few and injection.object not in objects:
            return {shared, *self._lowest(mine)}
        if injection.what == "firmware":
            return {injection.object, self.machine.common_parent(disks)}
        return {shared}

    def _lowest(self, facts: Iterable[Fact]) -> set[str]:
        """Return the objects that no other one explains: of a hidden cause nobody sees more.

        What is below and failed only later does not explain them.
        """
        began: dict[str, float] = {}
        for fact in facts:
            if fact.object in self.machine.nodes:
                began[fact.object] = min(began.get(fact.object, math.inf), fact.at)
        return {
            name
            for name, at in began.items()
            if not any(
                began.get(below, math.inf) <= at + AFTER_SECONDS
                for below in self.machine.below(name)
            )
        }

    def _kind_of_wrong(self, mail: Mail, right: set[str]) -> str:
        for name in sorted(right):
            node = self.machine.nodes.get(name)
            if node is None:
                continue
            if node.role == "expander" and mail.name in node.carriers:
                return "adapter in place of its expander"
            if node.layer is Layer.FILE_SYSTEM and mail.name in node.carriers:
                return "device in place of its file system"
            if node.layer < Layer.DISK and mail.name in self.machine.disks_of(name):
                return "one disk in place of what they share"
            if mail.name in self.machine.carried(name):
                return "what stands on it"
            if mail.name in self.machine.below(name):
                return "what carries it"
        return "the host" if mail.name == "host" else "another one"

    def _is_right_kind(self, mail: Mail, evident: list[Fact]) -> bool:
        node = self.machine.nodes.get(mail.name)
        carried = set(self.machine.carried(mail.name)) if node else set()
        shared = node is None or node.layer < Layer.DISK
        kinds = {
            fact.kind.value
            for fact in evident
            if fact.object == mail.name
            or (shared and (node is None or fact.object in carried))
            or (node is not None and node.layer is Layer.NETWORK and fact.object in carried)
        }
        # Of a disk that had something else before, that it is reset is news by itself.
        resets = {
            fact.kind.value
            for fact in self.run.facts
            if fact.kind is Kind.RESETS and fact.at <= mail.at
            if fact.object == mail.name or (shared and fact.object in carried)
        }
        return mail.kind in kinds or (len(self.run.injections) > 1 and mail.kind in resets)

    # Number and time

    def budget(self) -> Iterator[Miss]:
        """Yield incidents, and faults, with more mails an hour than there may be."""
        by_incident: dict[str, list[Mail]] = {}
        for mail in self.mails:
            if mail.reason != "initial report":
                by_incident.setdefault(mail.incident, []).append(mail)
        for incident in by_incident.values():
            yield from self._too_many(incident, "more mails an hour than the budget")
            yield from self._too_close([mail for mail in incident if mail.reason not in GOOD])
        if len(self.run.injections) == 1:
            every = sorted(
                (mail for incident in by_incident.values() for mail in incident),
                key=lambda mail: mail.at,
            )
            together = once_joined(every)
            if not self._are_apart(together):
                yield from self._too_many(together, "one fault: more mails an hour")

    def _too_many(self, mails: list[Mail], what: str) -> Iterator[Miss]:
        for first in mails:
            end = first.at + HOUR_SECONDS
            count = sum(first.at <= mail.at < end for mail in mails)
            if count > LESSER_AN_HOUR + len(self._worse(first.at - 60.0, end)):
                yield Miss(what, f"{count} from {first.at:.0f} on")
                return

    def _too_close(self, mails: list[Mail]) -> Iterator[Miss]:
        """Yield mails that follow each other sooner than a worse kind, and other news, may."""
        worse = self._worse_in(mails[0]) if mails else set[str]()
        for before, mail in pairwise(mails):
            news = self._worse_in(mail) - worse
            worse |= news
            gap = mail.at - before.at
            if gap < WORSE_SECONDS or (gap < INTERVAL_SECONDS and not news):
                yield Miss("mails too close", f"{gap:.0f} s: {shown(mail)}")
                return

    def _worse_in(self, mail: Mail) -> set[str]:
        """Return the worse kinds that a mail reports; that it is critical is one."""
        worse = {mail.tag} & {"CRITICAL"}
        for text in mail.content:
            kind, _, name = text.partition(": ")
            system = kind == Kind.FAILED and layer_of(self.machine, name) is Layer.FILE_SYSTEM
            if system or kind in WORSE:
                worse.add(kind)
        return worse

    def _worse(self, start: float, end: float) -> set[str]:
        """Return the worse kinds that first appeared in a time; that it is critical is one.

        No program of this world is known to be harmed: that is tier B's.
        """
        worse = {"critical"}
        for (name, kind), at in self.seen.items():
            system = kind == Kind.FAILED and layer_of(self.machine, name) is Layer.FILE_SYSTEM
            if start <= at < end and (system or kind in WORSE):
                worse.add(kind)
        return worse

    def incidents(self) -> Iterator[Miss]:
        """Yield one fault that was mailed as several incidents."""
        if len(self.run.injections) > 1:
            return
        mailed = [
            mail
            for mail in self.mails
            if mail.reason not in {"initial report", *GOOD}
            and not self._is_unexplained(mail, self.evident_at(mail.at))
        ]
        mailed = once_joined(mailed)
        names = {mail.incident: mail.name for mail in mailed}
        if len(names) > 1 and not self._are_apart(mailed):
            yield Miss("one fault in several incidents", ", ".join(sorted(names.values())[:6]))

    def _are_apart(self, mails: Iterable[Mail]) -> bool:
        """Whether mails are of several effects of which nothing shows what they have in common.

        Their cause iowarden never saw: each time another map is without a path for long enough.
        """
        names = {mail.incident: mail.name for mail in mails}
        hidden = self._lowest(self.faults)
        return 1 < len(names) == len(set(names.values())) and set(names.values()) <= hidden

    def news(self) -> Iterator[Miss]:
        """Yield faults that are in no mail, or in one that came too late."""
        for (name, kind), at in self.seen.items():
            facts = [fact for fact in self.faults if (fact.object, fact.kind) == (name, kind)]
            if not facts or Kind(kind) in SYMPTOMS:
                continue
            until = max(fact.until for fact in facts if fact.at <= at)
            if until < at + OPENING_SECONDS and not self._is_mailed_at_once(name, kind):
                continue
            if self._is_acknowledged(name, kind, at):
                continue
            if until < self._interval_end(kind, at):
                continue
            limit = at + NEWS_SECONDS + self._away(at)
            if limit > self.run.seconds:
                continue
            text, more = f"{kind}: {name}", _COVERS.get(Kind(kind), ())
            covering = {f"{other}: {name}" for other in more}
            soon_over = {text} if until < at + INTERVAL_SECONDS + 2.0 else set()
            times = [
                max(mail.at, at)
                for mail in self.mails
                if covering & mail.content
                or (text in mail.content and mail.at >= at - 1.0)
                or (soon_over & mail.ended and mail.at >= until)
            ]
            layer = layer_of(self.machine, name).name.lower()
            if not times:
                yield Miss(f"in no mail: {kind} of {layer}", f"{name} since {at:.0f}")
            elif min(times) > limit:
                yield Miss("in a mail too late", f"{kind}: {name} at {at:.0f}: {min(times):.0f}")

    def _interval_end(self, kind: str, at: float) -> float:
        """Return until when a fault waits for the next mail of the last incident.

        One of a worse kind that was mailed waits so as well, for another object 240 s at most.
        """
        before = [mail for mail in self.mails if mail.at <= at]
        if not before:
            return at
        joined = self._joined(before[-1].incident)
        mails = [mail for mail in before if mail.incident in joined]
        end = next_mail_at(mail.at for mail in mails)
        if kind not in WORSE:
            return end
        known = set[str]().union(*(self._worse_in(mail) for mail in mails))
        return min(end, mails[-1].at + ANOTHER_OBJECT_SECONDS) if kind in known else at

    def _joined(self, incident: str) -> set[str]:
        """Return the incidents that report what one reports: joined threads have one interval."""
        texts = self.reported[incident]
        return {name for name, others in self.reported.items() if others & texts} | {incident}

    def _is_mailed_at_once(self, name: str, kind: str) -> bool:
        """Whether also what is soon over is mailed: data is threatened, or programs wait.

        Not of neighbours that wait with the only disk that hangs.
        """
        return kind in URGENT or (
            kind in BLOCKS and [each.object for each in self.run.injections] == [name]
        )

    def _away(self, at: float) -> float:
        """Return for how long iowarden did not run in the time in which a mail is due."""
        lives, away = self.run.lives, 0.0
        for before, after in pairwise(lives):
            if before.stop > at - 60.0 and after.start < at + 2 * NEWS_SECONDS:
                away += after.start - before.stop + NEWS_SECONDS
        return away

    def _is_acknowledged(self, name: str, kind: str, at: float) -> bool:
        """Whether a fault is about an object of an acknowledged incident, and no worse."""
        if any(f"{kind}: {name}" in ack.content for ack in self.acks.values()):
            return True
        for incident, ack in self.acks.items():
            parts = [text.partition(": ") for text in ack.content]
            is_worse = kind in WORSE - {there for there, _, _ in parts}
            objects = {there for _, _, there in parts} | self._mailed_objects(incident, ack.at)
            if ack.at <= at + NEWS_SECONDS and name in objects and not is_worse:
                return True
        return False

    def _mailed_objects(self, incident: str, until: float) -> set[str]:
        """Return the objects that an incident's mails had reported: its state has them."""
        own = [mail for mail in self.mails if mail.incident == incident and mail.at <= until]
        return {text.partition(": ")[2] for mail in own for text in mail.content}

    def acknowledged(self) -> Iterator[Miss]:
        """Yield the first mail after an acknowledgement, if it has no news."""
        for incident, ack in self.acks.items():
            mails = [mail for mail in self.mails if mail.incident == incident]
            # With its end the acknowledgement ends as well.
            end = min((m.at for m in mails if m.at > ack.at and m.reason in GOOD), default=FOREVER)
            later = [mail for mail in mails if ack.at < mail.at < end]
            if not later:
                continue
            mail, objects = later[0], {text.partition(": ")[2] for text in ack.content}
            news = mail.content - ack.content
            known = [before for before in mails if before.at <= ack.at]
            over = max((before.at for before in known if before.reason in GOOD), default=0.0)
            rises = mail.tag not in {before.tag for before in known if before.at > over}
            further = any(text.partition(": ")[2] not in objects for text in news)
            worse = any(text.partition(": ")[0] in WORSE for text in news)
            if not (rises or further or worse):
                yield Miss("acknowledged: mail without news", shown(mail))

    def openings(self) -> Iterator[Miss]:
        """Yield a first mail that came too late."""
        seen = {(fact.object, fact.kind.value) for fact in self.faults}
        first = min(filter(None, (self._first_due(*each) for each in seen)), default=None)
        if first is None or first < self.run.lives[0].start + REPORT_SECONDS or self._away(first):
            return
        urgent = [
            at
            for (name, kind), at in self.seen.items()
            if self._is_there_at(name, kind, at + LOOK_SECONDS + self._together_seconds(at))
            and (
                kind in URGENT | BLOCKS
                or (kind == Kind.FAILED and layer_of(self.machine, name) is Layer.FILE_SYSTEM)
            )
        ]
        limit = min(first + OPENING_SECONDS, min(urgent, default=math.inf) + URGENT_SECONDS)
        # What lasts and is not urgent is in the initial report.
        mails = [mail for mail in self.mails if mail.reason != "initial report" or mail.content]
        mailed = min((mail.at for mail in mails), default=None)
        lasted = max(fact.until for fact in self.faults) > first + OPENING_SECONDS
        if mailed is None:
            if lasted:
                yield Miss("no mail at all", f"since {first:.0f}")
        elif mailed > limit:
            yield Miss("first mail late", f"{mailed:.0f} in place of {limit:.0f}")

    def _first_due(self, name: str, kind: str) -> float | None:
        """Return since when a fault was known for which a mail is due; None: it never was.

        Not of a map that has all of its paths again within a minute: for that it has them.
        """
        is_map = name in self.machine.of_role("map") and kind == Kind.DEGRADED
        least = OPENING_SECONDS if is_map else 0.0
        spells = self.spells[name, kind]
        return min((start for start, end in spells if end - start >= least), default=None)

    def _together_seconds(self, at: float) -> float:
        """Return how long a first mail waits for what comes with it: of one fault not at all."""
        near = [each for each in self.seen.values() if abs(each - at) <= COMES_WITH_SECONDS]
        return COMES_WITH_SECONDS if len(near) > 1 else 0.0

    def _is_there_at(self, name: str, kind: str, at: float) -> bool:
        """Whether a fault is still there at the next look: a disk may respond again by then."""
        own = (fact for fact in self.faults if (fact.object, fact.kind) == (name, kind))
        return any(fact.at <= at < fact.until for fact in own)

    # Ends

    def ends(self) -> Iterator[Miss]:
        """Yield good news that is false, missing, or looks like bad news."""
        for mail in self.mails:
            if mail.reason in GOOD and mail.tag not in {"OK", "INFO"}:
                yield Miss("good news above INFO", shown(mail))
            if mail.reason == "resolved":
                yield from self._false_end(mail)
        yield from self._good_news()
        if self.acks:
            return
        yield from self._whole_again()
        once = all(len(injection.spans) == 1 for injection in self.run.injections)
        lines = any(fact.by is By.LINE and not self._is_adapter_reset(fact) for fact in self.faults)
        end = max((fact.until for fact in self.faults if self._is_seen(fact)), default=FOREVER)
        bad = [mail for mail in self.mails if mail.reason not in UNTITLED and mail.at <= end + 60.0]
        limit = self._clear_limit(end) if once and bad and end < FOREVER else FOREVER
        if lines or limit > self.run.seconds:
            return
        ends = [mail for mail in self.mails if mail.reason == "resolved" and mail.at >= end]
        clear = [mail.at for mail in ends]
        if not clear:
            yield Miss("no [OK]", f"ended {end:.0f}")
        elif min(clear) > limit:
            yield Miss("[OK] late", f"ended {end:.0f}: {min(clear):.0f} in place of {limit:.0f}")
        elif len(self.run.injections) > 1:
            return  # one of two may have ended before
        elif self._ends_soon(end) and ends[0].at < self._end_of(ends[0]) + SOON_SECONDS[0]:
            yield Miss("[OK] early", f"ended {end:.0f}: {min(clear):.0f}")

    def _is_seen(self, fact: Fact) -> bool:
        """Whether iowarden had an alert of a fact while it was there: a hang may be too short."""
        spells = self.spells[fact.object, fact.kind.value]
        return any(start < fact.until and fact.at <= end for start, end in spells)

    def _is_adapter_reset(self, line: Fact) -> bool:
        """Whether a line is of an adapter that was reset, as the end of its disks' hang shows."""
        return layer_of(self.machine, line.object) is Layer.ADAPTER and any(
            fact.kind is Kind.HANGS and fact.of & line.of and fact.until == line.until
            for fact in self.faults
        )

    def _end_of(self, clear: Mail) -> float:
        """Return when that ended which the incident of an all-clear reported."""
        reported = self.reported[clear.incident]
        own = [f.until for f in self.faults if f"{f.kind}: {f.object}" in reported]
        return max(own, default=0.0)

    def _ends_soon(self, end: float) -> bool:
        """Whether what was urgent ended last: its end is mailed after a minute."""
        return any(f.kind in URGENT | BLOCKS and f.until >= end - 1.0 for f in self.faults)

    def _clear_limit(self, end: float) -> float:
        """Return by when the end of everything is mailed: also after the interval between mails."""
        polled = any(fact.by is By.POLL for fact in self.faults)
        wait = SOON_SECONDS[1] if self._ends_soon(end) else CLEAR_SECONDS + 5.0
        known = end
        for before, after in pairwise(self.run.lives):  # quiet time counts anew at each start
            if before.stop <= known + wait and end < after.start:
                known = after.start
        limit = known + wait + POLL_SECONDS * polled
        for incident in self.reported:
            joined = self._joined(incident)
            mails = (mail for mail in self.mails if mail.incident in joined)
            times = [mail.at for mail in mails if mail.at < limit]
            interval = INTERVALS[min(len(times), len(INTERVALS) - 1)]
            limit = max(limit, max(times, default=0.0) + interval + 5.0)
        return limit

    def _whole_again(self) -> Iterator[Miss]:
        """Yield arrays with a spare that have all members again, of which no mail is."""
        for fact in self.faults:
            node = self.machine.nodes.get(fact.object)
            if node is None or not node.idle or fact.kind not in SHORT or fact.by is By.LINE:
                continue
            limit = fact.until + CLEAR_SECONDS + NEWS_SECONDS
            if any(
                other.object == fact.object
                and other.kind in SHORT
                and fact.until <= other.at <= fact.until + SOON_SECONDS[1]
                for other in self.faults
            ):
                continue  # another member fails before it was mailed, or one of two is in sync
            is_mailed = any(
                mail.reason in GOOD
                and fact.until <= mail.at <= limit
                and f"{fact.kind}: {fact.object}" in mail.ended
                for mail in self.mails
            )
            if limit < self.run.seconds and not is_mailed:
                yield Miss("whole again: in no mail", f"{fact.object} at {fact.until:.0f}")

    def _good_news(self) -> Iterator[Miss]:
        """Yield more good news an hour than there may be."""
        for incident in self.reported:
            good = [m for m in self.mails if m.incident == incident and m.reason in GOOD]
            for first, third in zip(good, good[RECOVERIES:], strict=False):
                if third.at - first.at < HOUR_SECONDS:
                    yield Miss("more good news an hour than two", shown(third))

    def _false_end(self, mail: Mail) -> Iterator[Miss]:
        # What joins its incident only later is no matter of this end.
        before = [m for m in self.mails if m.incident == mail.incident and m.at < mail.at]
        reported = {text for each in before for text in each.content - each.others}
        for fact in self.faults:
            if f"{fact.kind}: {fact.object}" not in reported:
                continue
            if not fact.of & self._reported_causes(before, (fact.object, fact.kind)):
                continue  # the array is short of another disk now
            starts = [a for a, b in self.spells[fact.object, fact.kind.value] if b >= fact.at]
            # Until then nobody can know.
            since = max(fact.at + LEAST_SECONDS.get(fact.kind, 0.0), min(starts, default=FOREVER))
            if since + 2.0 < mail.at < fact.until:
                yield Miss(
                    "[OK] while it is not well", f"{mail.at:.0f}: {fact.kind}: {fact.object}"
                )
                return
        # What is titled as well is not well, whichever incident it is of: but no longer full.
        for fact in self.evident_at(mail.at - 2.0) if mail.kind != Kind.FULL else ():
            is_state = fact.kind is not Kind.FULL and fact.by is not By.LINE
            since = fact.at + LEAST_SECONDS.get(fact.kind, 0.0)
            if fact.object in mail.names and is_state and since + 2.0 < mail.at < fact.until:
                yield Miss("[OK] of what is not well", f"{shown(mail)}: {fact.kind}")
                return

    def _reported_causes(
        self, mails: Iterable[Mail], of: tuple[str, Kind] | None = None
    ) -> frozenset[int]:
        """Return the injected faults that mails reported, or those that brought one fault."""
        return frozenset[int]().union(
            *(
                fact.of
                for mail in mails
                for fact in self.faults
                if of in {None, (fact.object, fact.kind)}
                and fact.at <= mail.at
                and fact.until >= mail.at - OPENING_SECONDS
                and f"{fact.kind}: {fact.object}" in mail.content
            )
        )

    # Returns

    def recurrences(self) -> Recurrences:
        """Return the judge of a fault that comes and goes."""
        return Recurrences(self.run, self.mails, self.faults, self.spells, self.reported)


def _reason(mail: Mail, right: Iterable[str]) -> str:
    return f"{shown(mail)}; right: {', '.join(sorted(right)[:4])}"
