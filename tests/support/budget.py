"""Random streams of faults, what users do meanwhile, and the law of the mails about them.

The law is written here again, without the product's: a worse kind of harm waits at most 5 s for
what comes with it, each kind is mailed at once only the first time within an hour, and the others
share mails at intervals that double; good news is two mails an hour; from the fourth first mail
within ten minutes on they are shared, of urgent ones from the eighth on; what was acknowledged or
is silenced makes no mail unless it gets worse; what comes and goes is mailed at the third, tenth,
thirtieth ... time, and each week. Units: seconds.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING

from iowarden.rules.alerting.alerts import REDUNDANCY, Alert, AlertState
from iowarden.rules.incidents import incidents, silences
from iowarden.rules.incidents.model import IncidentChangeKind, Incidents, NotificationPolicy
from iowarden.rules.severity import Severity
from iowarden.rules.topology.graph import StorageGraph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from iowarden.rules.incidents.model import DueNotice

HOUR, DAY = 3600.0, 86_400.0
ROOT = "disk root"
MAX_WORSE_SECONDS, MAX_LESSER = 6, 8
"""A worse kind waits 5 s, and is noticed within a second."""
SIZES = (4, 6, 12, 12, 40)
"""Of a stream, in faults, at most."""
INTERVALS = (0.0, 30.0, 60.0, 120.0, 240.0, 480.0, 960.0)
ANOTHER_OBJECT = 240.0
GROUPING = 60.0
BASE = 1_000_000.0
RECOVERIES = frozenset(("resolved", "rebuilt", "over, not repaired"))
OPENED, REMINDER = "opened", "reminder"
FOREVER = 20_000


@dataclass(frozen=True)
class Kind:
    """A kind of fault: the alert that shows it, and the worse kinds of harm that it is."""

    name: str
    severity: str
    worse: frozenset[str] = frozenset()
    redundancy: str = ""
    condition: str = "x"
    layer: str = "device md"
    is_urgent: bool = False
    """Whether its first mail leaves at once."""


CRITICAL = frozenset({"critical"})
KINDS = (
    Kind("DiskSlow", "warning", layer="disk sd"),
    Kind("MdDegraded", "warning"),
    Kind("MdDegraded", "critical", CRITICAL, is_urgent=True),
    Kind("MdDegraded", "critical", CRITICAL | {"exhausted"}, "none", is_urgent=True),
    Kind("MdInactive", "critical", CRITICAL | {"stopped"}, is_urgent=True),
    Kind(
        "FilesystemReadOnly",
        "critical",
        CRITICAL | {"file system"},
        layer="file system ",
        is_urgent=True,
    ),
    Kind("DeviceRemoved", "critical", CRITICAL, layer="disk sd", is_urgent=True),
)
HANG = Kind("DeviceHang", "warning", layer="disk sd", is_urgent=True)
WORSE_HANG = replace(HANG, severity="critical", worse=CRITICAL)
SLOW = KINDS[0]
FAILING = Kind("DiskFailing", "critical", CRITICAL, layer="disk sd", is_urgent=True)
ALONE = (SLOW, SLOW, SLOW, HANG, WORSE_HANG, FAILING)
"""Kinds of a disk that has nothing in common with others."""


@dataclass(frozen=True)
class Spell:
    """A fault of one object over time."""

    kind: Kind
    subject: str
    start: int
    end: int

    def alert(self) -> Alert:
        """Return its alert."""
        labels = {"alertname": self.kind.name, "severity": self.kind.severity}
        labels |= {"condition": self.kind.condition, "device": self.subject}
        texts = [("summary", f"{self.kind.name} of {self.subject}")]
        if self.kind.redundancy:
            texts.append((REDUNDANCY, self.kind.redundancy))
        return Alert(
            self.kind.name,
            tuple(sorted(labels.items())),
            AlertState.FIRING,
            1.0,
            tuple(texts),
            BASE + self.start,
            BASE + self.start,
            subject=self.subject,
            object=self.subject,
        )


@dataclass(frozen=True)
class Quiet:
    """A silence of one object."""

    subject: str
    start: int
    end: int


@dataclass(frozen=True)
class Stream:
    """Faults over time, what carries what, and what users do."""

    family: str
    spells: tuple[Spell, ...]
    above: Mapping[str, frozenset[str]] = field(default_factory=dict)
    silences: tuple[Quiet, ...] = ()
    acknowledged: tuple[int, ...] = ()
    """When somebody acknowledges everything that is open and was mailed."""

    def is_silenced(self, subject: str, at: float) -> bool:
        """Whether a silence of an object holds."""
        quiet = (each for each in self.silences if each.subject == subject)
        return any(each.start <= at < each.end for each in quiet)

    def seen(self) -> list[Spell]:
        """Return the parts of the spells that are not silenced: each is as if it began then."""
        return [part for spell in self.spells for part in self._seen(spell)]

    def _seen(self, spell: Spell) -> Iterator[Spell]:
        edges = {spell.start, spell.end}
        for each in self.silences:
            if each.subject == spell.subject:
                edges |= {at for at in (each.start, each.end) if spell.start < at < spell.end}
        for start, end in itertools.pairwise(sorted(edges)):
            if not self.is_silenced(spell.subject, start):
                yield replace(spell, start=start, end=end)


@dataclass(frozen=True)
class Sent:
    """A mail: when, why, about which incidents, and what held then that was not silenced."""

    at: int
    reason: str
    key: str
    spells: tuple[Spell, ...]
    companions: tuple[str, ...] = ()
    ends_acknowledgement: bool = False

    @property
    def is_good(self) -> bool:
        """Whether it is good news."""
        return self.reason in RECOVERIES

    @property
    def worse(self) -> frozenset[str]:
        """Return the worse kinds of harm that held."""
        return frozenset[str]().union(*(spell.kind.worse for spell in self.spells))


@dataclass(frozen=True)
class Acknowledged:
    """What somebody acknowledged: an incident, and when."""

    at: int
    key: str


@dataclass
class Played:
    """What became of a stream."""

    mails: list[Sent] = field(default_factory=list)
    acknowledged: list[Acknowledged] = field(default_factory=list)

    def of(self, key: str) -> list[Sent]:
        """Return the mails about an incident of its own."""
        return [mail for mail in self.mails if mail.key == key]


# --- streams


def stream(seed: int) -> Stream:
    """Return a random stream."""
    random = Random(seed)
    family = random.choice((cascade, cascade, independent, recurring))
    return family(random)


def cascade(random: Random) -> Stream:
    """Return what one hanging disk brings about: bursts and single faults within two hours."""
    root = random.choice((HANG, WORSE_HANG))
    spells = [Spell(root, ROOT, 0, FOREVER)]
    at = 0.0
    for number in range(random.randint(1, random.choice(SIZES))):
        at += random.expovariate(1 / random.choice((1.0, 3.0, 30.0, 600.0)))
        kind = random.choice(KINDS)
        place = random.randint(0, 8)
        stays = random.random() < 0.7
        end = int(at) + (FOREVER if stays else random.randint(1, 900))
        spells.append(Spell(kind, f"{kind.layer}{place if stays else number + 10}", int(at), end))
    spells = [spell for spell in spells if spell.start < 2 * HOUR]
    subjects = sorted({spell.subject for spell in spells})
    quiet = tuple(_quiet(random, subjects) for _ in range(random.choice((0, 0, 1, 3))))
    times = sorted(random.randint(0, int(2 * HOUR)) for _ in range(random.choice((0, 0, 1, 3))))
    above = {ROOT: frozenset(subjects) - {ROOT}}
    return Stream("cascade", tuple(spells), above, quiet, tuple(times))


def _quiet(random: Random, subjects: Sequence[str]) -> Quiet:
    start = random.randint(0, 7200)
    return Quiet(random.choice(subjects), start, start + random.choice((60, 600, 3600)))


def independent(random: Random) -> Stream:
    """Return faults of disks that have nothing in common, within an hour."""
    at, spells = 0.0, []
    for number in range(random.randint(2, random.choice(SIZES))):
        at += random.expovariate(1 / random.choice((0.3, 5.0, 60.0, 300.0)))
        lasts = random.choice((FOREVER, FOREVER, random.randint(1, 900)))
        kind = random.choice(ALONE)
        spells.append(Spell(kind, f"{kind.layer}{number}", int(at), int(at) + lasts))
    return Stream("independent", tuple(spells))


def recurring(random: Random) -> Stream:
    """Return a disk that hangs again and again, and at last perhaps for good."""
    length = random.choice((3, 14, 30, 90, 300))
    gap = random.choice((120, 600, 1500, 4000, 9000, 30_000))
    jitter = random.choice((1.0, 1.0, 1.3, 3.0))
    at, spells = 0.0, []
    for _ in range(random.randint(2, random.choice((4, 12, 60)))):
        lasted = max(1, round(length * jitter ** random.uniform(-1, 1)))
        spells.append(Spell(HANG, ROOT, int(at), int(at) + lasted))
        at += lasted + gap * random.choice((1.0, random.uniform(0.5, 2.0)))
    if random.random() < 0.3:
        spells.append(Spell(random.choice((HANG, WORSE_HANG)), ROOT, int(at), int(at) + FOREVER))
    return Stream("recurring", tuple(spells))


# --- playing


class Player:
    """Plays a stream through the incidents: only at moments at which something may become due."""

    AFTER_START = (0, 2, 5, 60, 120)
    AFTER_END = (-1, 0, 5, 60, 600)
    AFTER_MAIL = (5, 30, 60, 120, 240, 480, 960)

    def __init__(self, stream: Stream) -> None:
        """Start before its first fault."""
        self.stream = stream
        self.state, self.said = Incidents(), silences.Silences()
        self.played = Played()
        self.graph = StorageGraph(dict(stream.above))
        self.alerts = [(spell, spell.alert()) for spell in stream.spells]
        self.moments = sorted(self._moments(), reverse=True)
        self.further: list[int] = []

    def _moments(self) -> set[int]:
        stream, longest = self.stream, dict[str, int]()
        starts = {spell.start for spell in stream.spells} | {*stream.acknowledged}
        starts |= {quiet.start for quiet in stream.silences}
        ends = {each.end for each in (*stream.spells, *stream.silences)}
        for spell in stream.spells:  # when it lasts half as long again as ever before
            before = longest.get(spell.subject, 0)
            starts.add(min(spell.start + before * 3 // 2 + 1, spell.end))
            longest[spell.subject] = max(before, spell.end - spell.start)
        moments = {at + step for at in starts for step in self.AFTER_START}
        moments |= {at + step for at in ends for step in self.AFTER_END}
        return moments | {max(ends) + step * 3600 for step in range(1, 27)}

    def _times(self) -> Iterator[int]:
        """Yield the moments in order, also those that mails add."""
        last = -1
        while self.moments or self.further:
            is_further = not self.moments or (self.further and self.further[0] < self.moments[-1])
            at = heapq.heappop(self.further) if is_further else self.moments.pop()
            if at > last:
                yield at
                last = at

    def play(self) -> Played:
        """Return the mails."""
        for now in self._times():
            there = {a.key: (s, a) for s, a in self.alerts if s.start <= now < s.end}
            notices = self._step(now, [alert for _, alert in there.values()])
            seen = [s for s, _ in there.values() if not self.stream.is_silenced(s.subject, now)]
            self.played.mails += [self._sent(now, notice, seen) for notice in notices]
            if notices:
                for step in self.AFTER_MAIL:
                    heapq.heappush(self.further, now + step)
            if now in self.stream.acknowledged:
                self._acknowledge(now)
        return self.played

    def _step(self, now: int, alerts: list[Alert]) -> list[DueNotice]:
        around = incidents.Surroundings(
            install="test",
            policy=NotificationPolicy(),
            observe=lambda _: (),
            is_observable=lambda *_: True,
            silenced=lambda alert: self.stream.is_silenced(alert.subject, now),
            acknowledged=self.said.by_incident(),
            graph=self.graph,
        )
        self.state, notices, changes = incidents.next_incidents(
            self.state, alerts, BASE + now, around
        )
        for each in changes:
            if each.change is IncidentChangeKind.ACK_EXPIRED:
                self.said = silences.drop_acknowledgement(self.said, each.incident.identifier)
        return notices

    def _sent(self, now: int, notice: DueNotice, seen: list[Spell]) -> Sent:
        return Sent(
            now,
            notice.reason.value,
            notice.incident.key,
            tuple(seen),
            tuple(each.key for each in notice.companions),
            bool(notice.acknowledged_by),
        )

    def _acknowledge(self, now: int) -> None:
        for incident in self.state.by_key.values():
            if incident.firing and incident.mails:
                self.said, _ = silences.acknowledge(
                    self.said,
                    self.state.by_key.values(),
                    incident.identifier,
                    now=BASE + now,
                    reason="",
                    who="root",
                )
                self.played.acknowledged.append(Acknowledged(now, incident.key))


def played(stream: Stream) -> Played:
    """Return what becomes of a stream."""
    return Player(stream).play()


# --- the law


def misses(stream: Stream, result: Played) -> Iterator[str]:
    """Yield what breaks the law."""
    keys = dict.fromkeys(mail.key for mail in result.mails)
    for key in keys:
        yield from _good_news(key, result.of(key))
    yield from _LAWS[stream.family](stream, result)


def _good_news(key: str, mails: Sequence[Sent]) -> Iterator[str]:
    good = [mail.at for mail in mails if mail.is_good]
    for first, third in zip(good, good[2:], strict=False):
        if third - first < HOUR:
            yield f"{key}: three mails with good news from {first} on"


def _of_cascade(stream: Stream, result: Played) -> Iterator[str]:
    mails = result.of(ROOT)
    yield from _lesser(stream, mails)
    yield from _intervals(stream, mails)
    yield from _without_news(stream, mails)
    yield from _worse(stream, result)
    yield from _acknowledgements(stream, result)


def _lesser(stream: Stream, mails: Sequence[Sent]) -> Iterator[str]:
    """At most eight an hour that no worse kind of harm made due."""
    bad = [mail for mail in mails if not mail.is_good]
    lesser, known, previous = [], frozenset[str](), -HOUR
    for mail in bad:
        known = frozenset() if mail.at - previous >= HOUR else known
        threatened = any(  # another object by a kind that was mailed: after at most 240 s
            spell.kind.worse - CRITICAL and previous < spell.start <= mail.at
            for spell in stream.seen()
        )
        if not (mail.worse - known or threatened or mail.ends_acknowledgement):
            lesser.append(mail.at)
        known, previous = known | mail.worse, mail.at
    for first in lesser:
        if sum(first <= at < first + HOUR for at in lesser) > MAX_LESSER:
            yield f"more than {MAX_LESSER} lesser mails from {first} on"
            break


def _intervals(stream: Stream, mails: Sequence[Sent]) -> Iterator[str]:
    """Each further mail waits twice as long, until an hour passes without any."""
    seen = stream.seen()
    burst, known = 0, frozenset[str]()
    for before, mail in itertools.pairwise(mails):
        gap = mail.at - before.at
        burst = 1 if burst == 0 else burst + 1
        known |= before.worse
        if gap >= HOUR:
            burst, known = 0, frozenset()
            continue
        recent = [spell for spell in seen if before.at - GROUPING < spell.start <= mail.at]
        least = INTERVALS[min(burst, len(INTERVALS) - 1)]
        if any(spell.kind.worse - CRITICAL for spell in seen if spell.start <= mail.at):
            least = min(least, ANOTHER_OBJECT)
        if any(spell.kind.worse - known for spell in recent) or mail.worse - known:
            least = 5.0
        if gap < least and not mail.ends_acknowledgement:
            yield f"mail at {mail.at} {gap} s after the last one, of {burst}"


def _without_news(stream: Stream, mails: Sequence[Sent]) -> Iterator[str]:
    """Nothing but what began, or is no longer silenced, makes a mail with bad news."""
    bad = [mail for mail in mails if not mail.is_good]
    for before, mail in itertools.pairwise(bad):
        since = before.at
        if mail.reason == REMINDER:
            continue
        if not any(since - 1 <= spell.start <= mail.at for spell in stream.seen()):
            yield f"mail at {mail.at} without news ({mail.reason})"


def _worse(stream: Stream, result: Played) -> Iterator[str]:
    """The first of each worse kind is mailed 5 s after it began, or its silence ended."""
    seen = stream.seen()
    times = [mail.at for mail in result.mails if not mail.is_good]
    times += [each.at for each in result.acknowledged]  # who did that saw it on the screen
    for spell in seen:
        first_ones = [
            kind
            for kind in spell.kind.worse
            if not any(
                kind in other.kind.worse and other.start < spell.start
                for other in (*stream.spells, *seen)
            )
        ]
        lasts = spell.end - spell.start > MAX_WORSE_SECONDS
        if first_ones and lasts and not _is_replaced(spell, stream.spells):
            limit = spell.start + MAX_WORSE_SECONDS
            if not any(spell.start <= at <= limit for at in times):
                yield f"{first_ones} at {spell.start} waited"


def _is_replaced(spell: Spell, spells: Sequence[Spell]) -> bool:
    """Whether another spell of the stream is the same alert: it has one state at a time."""
    same = (spell.kind.name, spell.kind.severity, spell.subject)
    return any(
        (other.kind.name, other.kind.severity, other.subject) == same
        and other.start <= spell.start + MAX_WORSE_SECONDS
        and other.end > spell.start
        and spell.kind.worse - other.kind.worse
        for other in spells
    )


def _acknowledgements(stream: Stream, result: Played) -> Iterator[str]:
    """No mail but for what is worse than what was acknowledged; that leaves within 5 s."""
    seen = stream.seen()
    for each in result.acknowledged:
        later = [m for m in result.of(each.key) if m.at > each.at]
        others = [a.at for a in result.acknowledged if a.at > each.at and a.key == each.key]
        until = min([m.at for m in later if m.ends_acknowledgement], default=2 * FOREVER)
        until = min([until, *others])
        then = [spell for spell in stream.spells if spell.start <= each.at]
        there = [spell for spell in then if each.at < spell.end]
        for mail in later:
            if mail.at <= until and not mail.is_good and not _exceeds(mail.spells, there):
                yield f"mail at {mail.at} about what was acknowledged at {each.at}"
        for spell in seen:
            lasts = spell.end - spell.start > MAX_WORSE_SECONDS
            if not (each.at < spell.start < until and lasts and _exceeds([spell], then)):
                continue
            if _is_replaced(spell, stream.spells):
                continue
            if until > spell.start + MAX_WORSE_SECONDS:
                yield f"{spell.kind.name} at {spell.start} did not end what was acknowledged"
            break


def _exceeds(spells: Sequence[Spell], before: Sequence[Spell]) -> bool:
    """Whether faults are more severe, of another object or kind of harm than those before."""
    severity = max((Severity[s.kind.severity.upper()] for s in before), default=Severity.INFO)
    subjects = {spell.subject for spell in before}
    kinds = frozenset[str]().union(*(spell.kind.worse for spell in before))
    return any(
        Severity[spell.kind.severity.upper()] > severity
        or spell.subject not in subjects
        or spell.kind.worse - kinds - CRITICAL
        for spell in spells
    )


def _of_independent(stream: Stream, result: Played) -> Iterator[str]:
    yield from _openings(stream, result)
    yield from _first_mails(stream, result)


def _openings(stream: Stream, result: Played) -> Iterator[str]:
    """From the fourth within ten minutes on they share mails, of urgent ones from the eighth on."""
    urgent = {spell.subject for spell in stream.spells if spell.kind.is_urgent}
    opened = [mail for mail in result.mails if mail.reason == OPENED]
    by_second: dict[int, list[Sent]] = defaultdict(list)
    for mail in opened:
        by_second[mail.at].append(mail)
    for at, mails in by_second.items():
        earlier = [mail for mail in opened if at - 600 < mail.at < at]
        count = sum(1 + len(mail.companions) for mail in earlier)
        last = max((mail.at for mail in earlier), default=-10_000)
        ranked = sorted(mails, key=lambda mail: not urgent & {mail.key, *mail.companions})
        excess = []
        for place, mail in enumerate(ranked, count):
            is_urgent = bool(urgent & {mail.key, *mail.companions})
            if place >= (7 if is_urgent else 3):
                excess.append(is_urgent)
        if len(excess) > 1:
            yield f"{len(excess)} first mails at {at}, after {count} others"
        elif excess and at - last < (5 if excess[0] else 60) and not _is_late(stream, ranked[-1]):
            yield f"a first mail at {at}, {at - last} s after the last one"


def _is_late(stream: Stream, mail: Sent) -> bool:
    """Whether a shared first mail can wait no longer for others."""
    keys = {mail.key, *mail.companions}
    starts = [spell.start for spell in stream.spells if spell.subject in keys]
    return mail.at - min(starts) >= 2 * GROUPING


def _first_mails(stream: Stream, result: Played) -> Iterator[str]:
    """Each incident has one: at once if it is urgent, but for the pause between shared ones."""
    mailed = {
        key: mail.at
        for mail in reversed(result.mails)
        for key in (mail.key, *mail.companions)
        if mail.reason == OPENED
    }
    for spell in stream.spells:
        limit = spell.start + (MAX_WORSE_SECONDS if spell.kind.is_urgent else 2 * GROUPING + 1)
        at = mailed.get(spell.subject, 10 * FOREVER)
        if spell.end > limit and at > limit:
            yield f"{spell.kind.name} at {spell.start} was mailed at {at}"


def _of_recurring(stream: Stream, result: Played) -> Iterator[str]:
    """Each mail has its reason among the occurrences, and each reason its mail."""
    mails = result.of(ROOT)
    yield from _intervals(stream, mails)
    bad = [mail.at for mail in mails if not mail.is_good]
    news = [*_recurrences(stream.spells)]
    for before, at in itertools.pairwise((-1, *bad)):
        if not any(before <= each <= at for each, _ in news):
            yield f"mail at {at} without news since {before}"
    for each, is_lasting in news:
        limit = each + INTERVALS[-1] + MAX_WORSE_SECONDS
        if is_lasting and not any(each <= at <= limit for at in bad):
            yield f"news at {each} was not mailed"
    for mail in mails:
        if mail.is_good and _comes_and_goes_before(stream.spells, mail.at):
            yield f"good news at {mail.at} about what comes and goes"


def _recurrences(spells: Sequence[Spell]) -> Iterator[tuple[float, bool]]:
    """Yield when a fault that comes and goes is news, and whether that is to be mailed.

    What is longer than before, and over some seconds later, may be mailed.
    """
    milestones = {3, *(n * 10**power for power in range(1, 4) for n in (1, 3))}
    onsets: list[int] = []
    longest, mailed_longest, severity, previous_end, mailed = 0, 0, "", -DAY, -DAY
    for spell in spells:
        quiet, lasted = spell.start - previous_end, spell.end - spell.start
        if quiet >= DAY:
            onsets, longest, mailed_longest, severity = [], 0, 0, ""
        onsets.append(spell.start)
        longest = max(longest, lasted)
        third = len(onsets) >= 3 and onsets[-1] - onsets[-3] <= DAY
        is_again = len(onsets) == 1 or (not third and quiet >= HOUR)
        is_again = is_again or (third and len(onsets) in milestones)
        is_again = is_again or (third and spell.start - mailed >= 7 * DAY)
        is_worse = spell.kind.severity != severity == "warning"
        at = float(spell.start)
        if not (is_again or is_worse):
            at += mailed_longest * 3 // 2 + 1
        if at < spell.end:
            yield at, is_again or spell.end - at > MAX_WORSE_SECONDS
            mailed, mailed_longest, severity = at, longest, spell.kind.severity
        previous_end = spell.end


def _comes_and_goes_before(spells: Sequence[Spell], at: float) -> bool:
    before = [spell for spell in spells if spell.start <= at]
    third = len(before) >= 3 and before[-1].start - before[-3].start <= DAY
    return third and at - before[-1].end < DAY


_LAWS: dict[str, Callable[[Stream, Played], Iterator[str]]] = {
    "cascade": _of_cascade,
    "independent": _of_independent,
    "recurring": _of_recurring,
}
