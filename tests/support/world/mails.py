"""What a judge of a run is given: mails as their receiver sees them, and acknowledgements.

Units: seconds of the world's clock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

GOOD = frozenset(("resolved", "rebuilt", "over, not repaired"))
"""Reasons of mails with good news."""


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
