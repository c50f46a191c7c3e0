"""What a judge of a run is given: mails as their receiver sees them, and acknowledgements.

Units: seconds of the world's clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.world.injection import Renaming, Run

GOOD = frozenset(("resolved", "rebuilt", "over, not repaired"))
"""Reasons of mails with good news."""
INTERVALS = (0.0, 30.0, 60.0, 120.0, 240.0, 480.0, 960.0)
"""The least time between mails, by how many there were since a quiet hour."""
HOUR_SECONDS = 3600.0


def next_mail_at(times: Iterable[float]) -> float:
    """Return from when on there may be a mail after those of these times, which is not urgent."""
    count, last = 0, -HOUR_SECONDS
    for at in sorted(times):
        count, last = (1 if at - last >= HOUR_SECONDS else count + 1), at
    return last + INTERVALS[min(count, len(INTERVALS) - 1)]


@dataclass(frozen=True)
class Mail:
    """A mail as its receiver sees it.

    Fields: `tag` is what the subject begins with; `object` is the title's object, `kind` and
    `about` are the fault and the object that its summary names; `content` are all faults that it
    reports as present, as 'kind: object'.
    """

    at: float
    incident: str
    reason: str
    tag: str
    object: str
    kind: str
    about: str
    content: frozenset[str]
    ended: frozenset[str] = frozenset()
    """Those that it reports as over."""
    others: frozenset[str] = frozenset()
    """Those of its content that are of further incidents, whose first mail it is as well."""

    @property
    def name(self) -> str:
        """Return the title's object without its description."""
        return self.object.partition(" (")[0]

    @property
    def names(self) -> set[str]:
        """Return the objects that its title names: of members of an array each."""
        two = _TWO_MEMBERS.search(self.object)
        many = _MANY_MEMBERS.match(self.object)
        listed = two[1].split("; ") if two else many[1].split("; ") if many else []
        return {text.partition(" ")[0] for text in listed} or {self.name}


_TWO_MEMBERS = re.compile(r" \(members of [^:]+: (.*)\)$")
_MANY_MEMBERS = re.compile(r"\d+ of \d+ members of \S+ \((.*)\)$")
"""Titles of members of an array that failed: 'sda and sdb (members of md0: sda ...; sdb ...)'."""
Visible = Mapping[tuple[str, str], Sequence[tuple[float, float]]]
"""From when until when there was an alert of an object and kind."""


@dataclass(frozen=True)
class Miss:
    """What a mail, or its absence, got wrong."""

    what: str
    detail: str


@dataclass(frozen=True)
class Ack:
    """An incident was acknowledged, with the faults that it had then, as 'kind: object'."""

    at: float
    content: frozenset[str]


def shown(mail: Mail) -> str:
    """Return a mail in one line."""
    return f"{mail.at:.0f} [{mail.tag}] {mail.object}: {mail.reason}: {mail.kind}: {mail.about}"


def once_joined(mails: Sequence[Mail]) -> list[Mail]:
    """Return the mails since what their objects share is known: before each has its own."""
    shared = mails[-1].name if mails else ""
    since = min((mail.at for mail in mails if mail.name == shared), default=0.0)
    return [mail for mail in mails if mail.at >= since]


def with_first_names(mail: Mail, renamings: Iterable[Renaming]) -> Mail:
    """Return a mail with the names that the disks of its title had at first."""
    title = mail.object
    for renaming in renamings:
        title = title.replace(renaming.name, renaming.disk)
    return mail if title == mail.object else replace(mail, object=title)


def old_names(run: Run, mails: Iterable[Mail]) -> Iterator[Miss]:
    """Yield mails that call a disk by the name that it had before."""
    for mail in mails:
        for renaming in run.renamings:
            if renaming.at <= mail.at and renaming.disk in mail.names:
                yield Miss("object: by the name that it had before", shown(mail))
