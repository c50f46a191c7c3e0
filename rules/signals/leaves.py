"""History of the last 30 s of every leaf device, and the write amplification of RAID on it.

Leaf devices are those at the bottom (disks and paths): devices stacked on them would count twice,
and md's own counters counted submissions for long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.block.block_devices import Md, Topology
    from iowarden.collectors.block.diskstats import BlockIo
    from iowarden.rules.signals.in_flight import Counted

RETENTION_SECONDS = 30.0


class Leaf(NamedTuple):
    """One leaf device in one sample; `busy_seconds`: since when each sample had requests."""

    written_bytes: int
    completed_total: int
    in_flight: int
    busy_seconds: float


@dataclass(frozen=True, slots=True)
class LeafSnapshot:
    """One sample of all leaf devices. Units: seconds of the program's clock."""

    at_seconds: float
    leaves: Mapping[str, Leaf]


@dataclass(frozen=True, slots=True)
class LeafHistory:
    """The samples of the last 30 seconds, oldest first."""

    snapshots: tuple[LeafSnapshot, ...] = ()

    def before(self, seconds: float) -> LeafSnapshot:
        """Return the newest sample at least `seconds` older than the last one, else the oldest."""
        limit = self.snapshots[-1].at_seconds - seconds + 1e-3
        for look in reversed(self.snapshots):
            if look.at_seconds <= limit:
                return look
        return self.snapshots[0]


NOTHING = LeafHistory()


def step(
    state: LeafHistory,
    now: float,
    blocks: Mapping[str, BlockIo],
    leaves: Iterable[str],
    counted: Mapping[str, Counted] | None = None,
) -> LeafHistory:
    """Return the history with a sample at `now` added; a late sample is valid.

    `counted` is how many of the requests in flight have leaked.
    """
    last = state.snapshots[-1] if state.snapshots else None
    if last is not None and now <= last.at_seconds:
        state, last = LeafHistory(), None
    seen: dict[str, Leaf] = {}
    for name in leaves:
        block = blocks.get(name)
        if block is None:
            continue
        busy, waiting = 0.0, block.in_flight
        if waiting and counted is not None and (known := counted.get(name)) is not None:
            waiting -= known.leaked
        if waiting > 0 and last is not None:
            previous = last.leaves.get(name)
            if previous is not None and previous.in_flight > 0:
                busy = previous.busy_seconds + now - last.at_seconds
        seen[name] = Leaf(block.written_bytes_total, block.completed_total, waiting, busy)
    kept = tuple(
        look for look in state.snapshots if look.at_seconds >= now - RETENTION_SECONDS - 1e-3
    )
    return LeafHistory((*(kept or state.snapshots[-1:]), LeafSnapshot(now, seen)))


def amplifications(topology: Topology) -> dict[str, float]:
    """Return for each leaf how many bytes reach the disks for one byte written above its arrays.

    raid1: copies; raid10: near x far copies; raid5: n/(n-1); raid6: n/(n-2); raid4 as raid5; others
    1. A leaf under several arrays gets the least: a drain time computed from it is "at least".
    """
    result: dict[str, float] = {}
    for name in topology.leaves:
        arrays = _arrays_above(topology, name, frozenset())
        result[name] = min((_amplification(md) for md in arrays), default=1.0)
    return result


def _arrays_above(topology: Topology, name: str, seen: frozenset[str]) -> list[Md]:
    device = topology.devices.get(name)
    if device is None or name in seen:
        return []
    own = [] if device.md is None else [device.md]
    return own + [
        md for holder in device.holders for md in _arrays_above(topology, holder, seen | {name})
    ]


def _amplification(md: Md) -> float:
    members = md.raid_disks
    match md.level:
        case "raid1" | "raid10":
            return float(max(md.copies or 1, 1))
        case "raid4" | "raid5" if members is not None and members > 1:
            return members / (members - 1)
        case "raid6" if members is not None and members > 2:
            return members / (members - 2)
        case _:
            return 1.0
