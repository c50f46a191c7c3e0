"""A signal: what is concluded from the sources second by second, as series that rules can read.

Each reducer's module ends in its GROUP, which has its sources and families; rules/signals/table.py
lists them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.model import Family, Labels, Sample
    from iowarden.rules.snapshot import Snapshot

DIGITS = 1
"""Seconds are told to a tenth: a tick that comes a millisecond early must not cost a second."""
GAP_SECONDS = 5.0
"""Samples further apart are a gap: nobody looked. What holds at both its ends held in between, once
a further look has found the same: a machine that thrashes is looked at late each time."""

Pairs = tuple[tuple[float, float], ...]
"""What a group keeps of one object over a restart: pairs of numbers, mostly a time and a value."""
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the sources say now.

    Units: seconds; `now_seconds` is the program's clock, `uptime_seconds` that of the machine.
    Fields: `snapshot` has of a fast source only what was read in this second, of a slow one what it
    last said, while that is held; `fresh` were read well in this second; `failed` should speak and
    do not. A source that is None in `snapshot` and not in `failed` is absent here.
    """

    now_seconds: float
    uptime_seconds: float
    snapshot: Snapshot
    fresh: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    asleep_seconds: float = 0.0
    """For how long the machine has been suspended since its boot."""
    errors_logged: Mapping[str, float] | None = None
    """Medium errors by disk, that the kernel or a controller logged."""


@dataclass(frozen=True, slots=True)
class Derived:
    """What follows from the topology alone; made anew when it changes."""

    leaves: tuple[str, ...]
    amplification: Mapping[str, float]
    topology: Topology


@dataclass(frozen=True, slots=True)
class View:
    """What a group's step may look at: the sources, and what was concluded before it."""

    inputs: Inputs
    derived: Derived | None
    """None while the topology is not known."""
    told: Mapping[str, list[Sample]] = field(default_factory=dict)
    """What the groups before this one said in this second; a slow one: what it last said."""
    states: Mapping[str, Any] = field(default_factory=dict)
    """The states of the groups, those before this one as they are after this second."""


@dataclass(frozen=True, slots=True)
class Group(Generic[S]):
    """Signals computed together: they fall silent together when one of their sources does.

    `step` returns the state after this second and the samples, or None where nobody can tell. A
    group all of whose sources are slow is stepped only when one of them was read. `remember` and
    `recall` carry what takes long to learn over a restart, by object: of its pairs each begins with
    a time of the program's clock, or 0 for none, but for the `untimed` first ones. `unread`:
    objects of which nothing can be concluded now, as labels and a reason: alerts with these labels
    are unknown.
    """

    name: str
    sources: tuple[str, ...]
    families: tuple[Family, ...]
    step: Callable[[S, View], tuple[S, list[Sample] | None]]
    initial: S
    remember: Callable[[S], Mapping[str, Pairs]] | None = None
    recall: Callable[[S, Mapping[str, Pairs]], S] | None = None
    unread: Callable[[S], Iterable[tuple[Labels, str]]] | None = None
    untimed: int = 0

    def state(self, states: Mapping[str, Any]) -> S:
        """Return the group's own state among those of all groups."""
        return cast("S", states[self.name])
