"""Interface of a signal: series derived once a second from the data sources, for use in rules.

The module of each signal ends with its GROUP, which lists its data sources and metric families;
rules/signals/table.py lists the groups.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.model import Family, Labels, Sample
    from iowarden.rules.snapshot import Snapshot

DIGITS = 1
"""Seconds are rounded to a tenth: a tick one millisecond early must not cost a second."""
GAP_SECONDS = 5.0
"""Samples further apart are a gap without observation. What is true at both ends of a gap counts as
true within it once one more sample confirms it: a host that thrashes is sampled late each time."""

Pairs = tuple[tuple[float, float], ...]
"""What a group stores of one object over a restart: pairs of numbers, mostly a time and a value."""
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Inputs:
    """Current data of all data sources.

    Units: seconds; `now_seconds` is the program's clock, `uptime_seconds` that of the host. Fields:
    `snapshot` holds the data of a fast data source only in the second in which it was read, of a
    slow one the last reading while it is valid; `fresh`: read successfully in this second;
    `failed`: due, but without data. A data source that is None in `snapshot` and not in `failed`
    does not exist on this host.
    """

    now_seconds: float
    uptime_seconds: float
    snapshot: Snapshot
    fresh: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    asleep_seconds: float = 0.0
    """For how long the host has been suspended since its boot."""
    errors_logged: Mapping[str, float] | None = None
    """Medium errors by disk that the kernel or a controller logged."""
    scanned: frozenset[str] = frozenset()
    """Disks that iowarden's own surface scan reads now."""
    file_system_errors: Mapping[str, bool] | None = None
    """File systems of which the kernel logged an error, by device: whether it became read-only, or
    stopped; None: the log was not read."""
    failed_paths: frozenset[str] | None = frozenset()
    """Numbers of the devices that device-mapper does not use as paths, by the kernel's log; None:
    the log was not read since the start."""


@dataclass(frozen=True, slots=True)
class Derived:
    """What depends on the topology alone; computed again when it changes."""

    leaves: tuple[str, ...]
    amplification: Mapping[str, float]
    topology: Topology


@dataclass(frozen=True, slots=True)
class View:
    """What a group's step may read: the data sources and the results of the groups before it."""

    inputs: Inputs
    derived: Derived | None
    """None while the topology has not been read."""
    earlier: Mapping[str, list[Sample]] = field(default_factory=dict)
    """Samples of the groups before this one in this second; of a slow group its last ones."""
    states: Mapping[str, Any] = field(default_factory=dict)
    """The states of the groups; those before this one are already those of this second."""


@dataclass(frozen=True, slots=True)
class SignalGroup(Generic[S]):
    """Signals computed together: all are stale when one of their data sources is.

    `step` returns the state after this second and the samples, or None where they cannot be
    computed. A group with only slow data sources is stepped only when one of them was read.
    `remember` and `recall` store over a restart what takes long to learn, by object: each pair
    begins with a time of the program's clock, or 0 for none, except the `untimed` first ones.
    `unreadable`: objects whose data are unavailable, as labels and a reason: alerts with these
    labels are unknown. `any_source`: each object is described by one data source; one that fails
    hides only its own objects, and only rules that read its metrics are unknown.
    """

    name: str
    sources: tuple[str, ...]
    families: tuple[Family, ...]
    step: Callable[[S, View], tuple[S, list[Sample] | None]]
    initial: S
    remember: Callable[[S], Mapping[str, Pairs]] | None = None
    recall: Callable[[S, Mapping[str, Pairs]], S] | None = None
    unreadable: Callable[[S], Iterable[tuple[Labels, str]]] | None = None
    untimed: int = 0
    any_source: bool = False

    def state(self, states: Mapping[str, Any]) -> S:
        """Return the group's own state among those of all groups."""
        return cast("S", states[self.name])
