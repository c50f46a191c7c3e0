"""Random streams of faults that one hanging disk brings about, and the law of their mails.

The law is written here again, without the product's: a worse kind of harm waits at most 5 s for
what comes with it, and each kind is mailed at once only the first time within an hour; the other
mails of an hour are eight at most. Units: seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from iowarden.rules.alerting.alerts import REDUNDANCY, Alert, AlertState
from iowarden.rules.incidents import incidents
from iowarden.rules.incidents.model import Incidents, NotificationPolicy
from iowarden.rules.topology.graph import StorageGraph

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUR = 3600.0
ROOT = "disk root"
MAX_WORSE_SECONDS, MAX_LESSER = 6, 8
"""A worse kind waits 5 s, and is noticed within a second."""
BASE = 1_000_000.0
RECOVERIES = frozenset(("resolved", "rebuilt", "over, not repaired"))


@dataclass(frozen=True)
class Kind:
    """A kind of fault: the alert that shows it, and the worse kinds of harm that it is."""

    name: str
    severity: str
    worse: frozenset[str] = frozenset()
    redundancy: str = ""
    condition: str = "x"
    layer: str = "device md"


CRITICAL = frozenset({"critical"})
KINDS = (
    Kind("DiskSlow", "warning", layer="disk sd"),
    Kind("MdDegraded", "warning"),
    Kind("MdDegraded", "critical", CRITICAL),
    Kind("MdDegraded", "critical", CRITICAL | {"exhausted"}, redundancy="none"),
    Kind("MdInactive", "critical", CRITICAL | {"stopped"}),
    Kind("FilesystemReadOnly", "critical", CRITICAL | {"file system"}, layer="file system "),
    Kind("DeviceRemoved", "critical", CRITICAL, layer="disk sd"),
)


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


def stream(seed: int) -> list[Spell]:
    """Return a random stream: bursts and single faults within two hours."""
    random = Random(seed)
    root = random.choice((Kind("DeviceHang", "warning"), Kind("DeviceHang", "critical", CRITICAL)))
    spells = [Spell(root, ROOT, 0, 20_000)]
    at = 0.0
    for number in range(random.randint(1, 40)):
        at += random.expovariate(1 / random.choice((1.0, 3.0, 30.0, 600.0)))
        kind = random.choice(KINDS)
        place = random.randint(0, 8)
        stays = random.random() < 0.7
        end = int(at) + (20_000 if stays else random.randint(1, 900))
        spells.append(Spell(kind, f"{kind.layer}{place if stays else number + 10}", int(at), end))
    return [spell for spell in spells if spell.start < 2 * HOUR]


def played(spells: list[Spell]) -> list[tuple[int, str, frozenset[str]]]:
    """Return the mails about the disk's incident: when, why, and the worse kinds in them."""
    above = frozenset(spell.subject for spell in spells) - {ROOT}
    around = incidents.Surroundings(
        install="test",
        policy=NotificationPolicy(),
        observe=lambda _: (),
        is_observable=lambda *_: True,
        graph=StorageGraph({ROOT: above}),
    )
    state, mails = Incidents(), []
    alerts = [(spell, spell.alert()) for spell in spells]
    for now in sorted(_moments(spells)):
        there = {a.key: (s, a) for s, a in alerts if s.start <= now < s.end}
        state, notices, _ = incidents.next_incidents(
            state, [a for _, a in there.values()], BASE + now, around
        )
        worse = frozenset[str]().union(*(s.kind.worse for s, _ in there.values()))
        mails += [(now, n.reason.value, worse) for n in notices if n.incident.key == ROOT]
    return mails


def _is_replaced(spell: Spell, spells: list[Spell]) -> bool:
    """Whether a later spell of the stream is the same alert by then: it has one state at a time."""
    same = (spell.kind.name, spell.kind.severity, spell.subject)
    return any(
        (other.kind.name, other.kind.severity, other.subject) == same
        and other.start <= spell.start + MAX_WORSE_SECONDS
        and spell.kind.worse - other.kind.worse
        for other in spells[spells.index(spell) + 1 :]
    )


def _moments(spells: list[Spell]) -> set[int]:
    """Return when a mail may become due: soon after each change, and at the ends of intervals."""
    steps = (*range(8), *range(10, 70, 5), 90, 122, 180, 242, 482, 962)
    return {at + step for spell in spells for at in (spell.start, spell.end) for step in steps}


def misses(spells: list[Spell], mails: list[tuple[int, str, frozenset[str]]]) -> Iterator[str]:
    """Yield what breaks the law."""
    bad = [(at, worse) for at, reason, worse in mails if reason not in RECOVERIES]
    times = [at for at, _ in bad]
    lesser, known = [], frozenset[str]()
    previous = -HOUR
    for at, worse in bad:
        known = frozenset() if at - previous >= HOUR else known
        threatened = any(  # another object by a kind that was mailed: after at most 240 s
            spell.kind.worse - CRITICAL and previous < spell.start <= at for spell in spells
        )
        if not worse - known and not threatened:
            lesser.append(at)
        known, previous = known | worse, at
    for first in lesser:
        if sum(first <= at < first + HOUR for at in lesser) > MAX_LESSER:
            yield f"more than {MAX_LESSER} lesser mails from {first} on"
            break
    for spell in spells:
        first_ones = [
            kind
            for kind in spell.kind.worse
            if not any(kind in other.kind.worse and other.start < spell.start for other in spells)
        ]
        lasts = spell.end - spell.start > MAX_WORSE_SECONDS and not _is_replaced(spell, spells)
        if first_ones and lasts:
            limit = spell.start + MAX_WORSE_SECONDS
            if not any(spell.start <= at <= limit for at in times):
                yield f"{first_ones} at {spell.start} waited"
