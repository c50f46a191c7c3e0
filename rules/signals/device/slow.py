"""Slow disks: completing requests, but much more slowly than their peers (disk_slow).

A disk is compared with the other members of its array in the same ten seconds; with disks at the
same adapter or in the same enclosure only by what is usual for their load; with its own past only
as a second witness, because a disk that fails slowly changes its own past. What else makes requests
slow is left out: more load than the peers, discards, rebuilds, self-tests. A disk that starves at
its adapter (queue_starvation) is only compared with its array.

Source of the counters: kernel, admin-guide/iostats.rst. *Limits:* all latencies are means; a disk
without peers is judged only when it completes hardly anything.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field, replace
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals.device import (
    device,
    hang_thresholds,
    slow_groups,
    slow_history,
    slow_points,
    slow_windows,
)
from iowarden.rules.signals.device.slow_groups import HDD, JIFFY_SECONDS
from iowarden.rules.signals.device.slow_points import (
    CALM,
    DAY_SECONDS,
    IDLE,
    NOT_COMPARED,
    Slowness,
    Verdict,
)
from iowarden.rules.signals.device.slow_windows import Comparison
from iowarden.rules.signals.queue import queue_depth
from iowarden.rules.signals.signal import DIGITS, GAP_SECONDS, SignalGroup

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.block.diskstats import BlockIo
    from iowarden.collectors.block.enclosure import EnclosureSlot
    from iowarden.collectors.block.queue import Queue
    from iowarden.collectors.block.scsi import ScsiTopology
    from iowarden.collectors.md.mdstat import MdArray
    from iowarden.collectors.smart.drive import Disks
    from iowarden.rules.signals.device.slow_groups import Groups, Kind
    from iowarden.rules.signals.device.slow_history import History, SiblingCell
    from iowarden.rules.signals.device.slow_windows import Window
    from iowarden.rules.signals.leaves import LeafHistory
    from iowarden.rules.signals.signal import Pairs, View

SLACK_SECONDS = 0.5
COUPLED_RATIO, SEVERE_RATIO = 3.0, 10.0
MIRROR_RATIO, PAIR_RATIO = 5.0, 20.0
SIBLING_RATIO, ITSELF_RATIO = 3.0, 4.0
IDLE_WINDOWS, WARMING_WINDOWS = 30, 3
"""After 5 min without a completion the first 30 s are not judged."""
BUSY_RATIO, MAX_REQUESTS_PER_SECOND, MAX_BYTES_PER_SECOND = 0.95, 10, 1_000_000
IN_FLIGHT_RATIO = 0.9
"""Share of the seconds in which a busy disk has a request in flight."""
WRITTEN_RATIO, WRITTEN_SECONDS = 0.25, 3600.0
"""An SSD that wrote so much of its size within that time may be clearing blocks."""
WRITTEN_STEP_SECONDS = 600.0
LONG_SECONDS, LONG_STEP_SECONDS = 300.0, 60.0
KNOWN_SECONDS, UNKNOWN_SECONDS = 600.0, 60.0
"""How long the usual latencies of siblings are used before they are computed again."""
MAX_COMPUTED = 4
"""Of these in one window; the others are used for longer, or known later."""
TOGETHER = 3
"""So many slow disks of an adapter or enclosure are its fault."""
EXACT_KERNEL = (5, 0)

_SLOW, _USUAL = "slow ", "usual "
"""Prefixes of what is stored of a disk."""

Times = tuple[int, int, int, int]
"""Reads, their milliseconds, writes, theirs."""


class DataSources(NamedTuple):
    """The data sources that decide which disks can be compared."""

    topology: Topology
    scsi: ScsiTopology | None = None
    queue: Mapping[str, Queue] | None = None
    enclosure: tuple[EnclosureSlot, ...] | None = None


@dataclass(frozen=True, slots=True)
class SlowState:
    """State of the signal; disks by their identity."""

    read: DataSources | None = None
    """What `groups` was made of, to see whether it is another object."""
    groups: Groups | None = None
    tested: tuple[Disks | None, frozenset[str]] = (None, frozenset())
    """SMART data, and the disks that run a self-test."""
    arrays: Mapping[str, MdArray] | None = None
    began: tuple[float, Mapping[str, BlockIo]] | None = None
    """The counters at the beginning of the current window."""
    last_seconds: float | None = None
    disks: Mapping[str, Slowness] = field(default_factory=dict)
    """Without those that are well."""
    history: History = slow_history.NOTHING
    idle: Mapping[str, int] = field(default_factory=dict)
    """Windows without a completion; negative: windows until it is judged again."""
    siblings: Mapping[tuple[str, int], tuple[float, SiblingCell]] = field(default_factory=dict)
    """By group and cell: until when it is used."""
    shown: Mapping[tuple[str, str], Comparison] = field(default_factory=dict)
    """The last comparisons in which a disk was slow, by disk and what it was compared with."""
    minutes: tuple[tuple[float, Mapping[str, Times]], ...] = ()
    written: tuple[tuple[float, Mapping[str, int]], ...] = ()
    """Of SSDs, every ten minutes."""
    long_means: list[Sample] = field(default_factory=list)
    samples: list[Sample] | None = None


def step(state: SlowState, view: View) -> tuple[SlowState, list[Sample] | None]:
    """Return the state after a second and the samples; None until ten seconds were observed."""
    now, blocks = view.inputs.now_seconds, view.inputs.snapshot.diskstats
    if blocks is None or view.derived is None:
        return state, None
    if state.last_seconds is None or not 0.0 <= now - state.last_seconds <= GAP_SECONDS:
        state = replace(state, began=None, minutes=(), long_means=[], samples=None)
    if state.began is not None and (
        now - state.began[0] < slow_windows.STEP_SECONDS - SLACK_SECONDS
    ):
        return replace(state, last_seconds=now), state.samples
    state, groups = _with_groups(state, view, view.derived.topology)
    leaves = groups.leaves.items()
    ended = (now, {name: blocks[leaf] for name, leaf in leaves if leaf in blocks})
    if state.began is not None:
        state = _Step(state, groups, view, state.began, ended).after()
    return replace(state, began=ended, last_seconds=now), state.samples


def _with_groups(state: SlowState, view: View, topology: Topology) -> tuple[SlowState, Groups]:
    """Return the state with the disks of now; what cannot be read now is assumed unchanged."""
    snapshot, groups = view.inputs.snapshot, state.groups
    before = state.read or DataSources(topology)
    read = DataSources(
        topology,
        snapshot.scsi or before.scsi,
        snapshot.queue or before.queue,
        snapshot.enclosure or before.enclosure,
    )
    if groups is None or any(new is not old for new, old in zip(read, before, strict=True)):
        facts = slow_groups.facts(*read)
        # Counters make most of these new objects all the time; that hardly changes a group.
        if groups is None or groups.of[1:] != facts[1:] or groups.of.topology is not topology:
            groups = slow_groups.groups(facts)
    tested = state.tested
    if snapshot.smart is not None and snapshot.smart is not tested[0]:
        tested = (snapshot.smart, slow_groups.testing(snapshot.smart))
    arrays = state.arrays if snapshot.md is None else snapshot.md
    return replace(state, read=read, groups=groups, tested=tested, arrays=arrays), groups


_InArray = tuple[Comparison, bool, bool, bool]
"""A disk against the other members of its array; in a mirror, slow, severely slow."""


class _Step:
    """One window of ten seconds: its figures, who is slow, and the state after it."""

    def __init__(
        self,
        state: SlowState,
        groups: Groups,
        view: View,
        began: tuple[float, Mapping[str, BlockIo]],
        ended: tuple[float, Mapping[str, BlockIo]],
    ) -> None:
        self._before, self._view, self._groups = state, view, groups
        self._topology = groups.of.topology
        self._now, self._last = ended
        self._elapsed = ended[0] - began[0]
        sysctl = view.inputs.snapshot.vm_sysctl
        kernel = None if sysctl is None else sysctl.kernel
        self._coarse = kernel is not None and kernel[:2] < EXACT_KERNEL
        self._shown: dict[str, dict[str, Comparison]] = {each: {} for each in slow_groups.AGAINST}
        """Comparisons of this window, by what a disk was compared with."""
        self._siblings = dict(state.siblings)
        self._history = slow_history.on_day(state.history, int(self._now // DAY_SECONDS))
        self._seen: list[tuple[str, int, float]] = []
        self._computed = 0
        """How many usual latencies of siblings were computed in this window."""
        self._windows: dict[str, Window] = {}
        """Of all disks that completed something."""
        for name, after in self._last.items():
            before = began[1].get(name)
            if before is None or before.device != after.device:  # another path of an NVMe drive
                continue
            if before.counters != after.counters:
                found = slow_windows.window(before, after, self._elapsed)
                if found is not None:
                    self._windows[name] = found
        self._starved = {
            labels[0][1]
            for name, labels, _ in view.earlier.get(queue_depth.STARVED_GROUP.name, ())
            if name == queue_depth.STARVED
        }
        """Disks that another one leaves hardly any of their adapter's queue."""
        self._idle, self._comparable = self._classified()
        self._absolute = self._busy_without_reason()

    def after(self) -> SlowState:
        """Return the state after the window."""
        coupled, keys, shown = self._coupled(), self._groups.keys, {}
        since = self._history.day - slow_points.DAYS
        # A disk that was pulled is known for a week.
        disks = {key: each for key, each in self._before.disks.items() if each.day >= since}
        for name in self._last:
            key = keys[name]
            before = disks.get(key, CALM)
            calm = before is CALM
            verdict = self._verdict(name, coupled.get(name), calm)
            if calm and (verdict is NOT_COMPARED or verdict is IDLE):
                continue
            after = slow_points.step(before, verdict, self._now)
            if after is CALM:
                disks.pop(key, None)
                continue
            disks[key] = after
            for against, own in self._shown.items():
                found = own.get(name)
                if found is None or found.ratio < COUPLED_RATIO:  # a window between slow ones
                    found = self._before.shown.get((name, against))
                if found is not None:
                    shown[name, against] = found
        state = replace(
            self._before,
            written=self._written(),
            idle=self._idle,
            disks=disks,
            history=slow_history.learned(self._history, self._seen),
            siblings=self._siblings,
            shown=shown,
        )
        state = self._with_long_means(state)
        return replace(state, samples=list(self._samples(state)))

    def _classified(self) -> tuple[dict[str, int], dict[str, Window]]:
        """Return the disks that are idle or warming up, and the windows that can be judged."""
        excluded = slow_groups.treated_differently(self._topology, self._before.arrays)
        excluded |= self._before.tested[1] | self._view.inputs.scanned
        before = self._before.idle
        first = IDLE_WINDOWS if self._before.samples is None else 0
        idle: dict[str, int] = {}
        comparable: dict[str, Window] = {}
        for name in self._last:
            found = self._windows.get(name)
            windows = before.get(name, first)
            if found is None:
                idle[name] = max(windows, 0) + 1
                continue
            if windows >= IDLE_WINDOWS:
                windows = -WARMING_WINDOWS
            if windows < 0:
                if windows < -1:
                    idle[name] = windows + 1
                continue
            if name in excluded or found.discarding:
                continue
            if slow_windows.few(found):
                in_flight = self._in_flight(name)
                found = slow_windows.with_few_requests(found, in_flight, self._elapsed)
            comparable[name] = found
        return idle, comparable

    def _in_flight(self, name: str) -> list[int]:
        """Return the requests in flight in each second; nothing if some of them have leaked."""
        watch = device.GROUP.state(self._view.states)
        leaf = self._groups.leaves[name]
        counted = watch.device.counted.get(leaf)
        if counted is None or counted.leaked:
            return []
        history: LeafHistory = watch.leaves
        since = self._now - self._elapsed
        return [
            each.leaves[leaf].in_flight
            for each in history.snapshots
            if each.at_seconds > since and leaf in each.leaves
        ]

    def _coupled(self) -> dict[str, _InArray]:
        """Return for each disk of an array the comparison that counts.

        A comparison with a mirror counts only where there is no other; a slow one before others.
        """
        found: dict[str, _InArray] = {}
        for group in sorted(self._groups.coupled, key=lambda each: each.mirror):
            kind = self._groups.kinds[group.members[0]]
            floor, least_peers = self._floor(kind), 1 if group.mirror else 2
            operations = ["write"]
            if group.reads:
                operations.append("read")
            windows = (self._comparable.get(name) for name in group.members)
            if not group.mirror and any(each is not None and each.whole for each in windows):
                operations.append("all")
            for operation in operations:
                for name, each in slow_windows.compared(
                    self._comparable, group.members, operation, floor, least_peers
                ):
                    slow = severe = False
                    if each.ratio >= COUPLED_RATIO:
                        if self._clears_blocks(name, operation):
                            continue
                        slow, severe = self._slow(kind, each, mirror=group.mirror)
                    if name in found:
                        known, mirror, was_slow, was_severe = found[name]
                        if mirror != group.mirror or (slow, severe, each.ratio) <= (
                            was_slow,
                            was_severe,
                            known.ratio,
                        ):
                            continue
                    found[name] = each, group.mirror, slow, severe
        return found

    def _verdict(self, name: str, coupled: _InArray | None, calm: bool) -> Verdict:  # noqa: FBT001
        own = self._comparable.get(name)
        if own is None:
            return NOT_COMPARED if name in self._windows else IDLE
        array, slow, severe, pair = None, False, False, False
        if coupled is not None:
            array, mirror, slow, severe = coupled
            pair = mirror and array.peers == 1 and array.ratio < PAIR_RATIO
            self._shown["array"][name] = array
        starved = name in self._starved
        absolute = name in self._absolute
        siblings, itself = False, None
        if name in self._groups.physical and not starved:
            siblings, itself, seen = self._by_history(name, own)
            if not (slow or siblings or absolute):
                self._seen += seen
        if calm and not (slow or siblings or itself or absolute):
            return NOT_COMPARED  # a disk that is well stays well
        return Verdict(array, slow, severe, not pair or bool(itself), siblings, itself, absolute)

    def _slow(self, kind: Kind, found: Comparison, *, mirror: bool) -> tuple[bool, bool]:
        excess = found.latency_seconds - found.reference_seconds
        least, ratio = kind.excess, COUPLED_RATIO
        if mirror:
            least, ratio = kind.mirror_excess, MIRROR_RATIO
        slow = found.ratio >= ratio and excess >= least
        return slow, slow and not mirror and (found.ratio >= SEVERE_RATIO and excess >= kind.severe)

    def _by_history(
        self, name: str, own: Window
    ) -> tuple[bool, bool | None, list[tuple[str, int, float]]]:
        """Return whether a disk is slow against its siblings and itself, and what is observed."""
        groups, usual = self._groups, self._history.usual
        key, home, kind = groups.keys[name], groups.home.get(name), groups.kinds[name]
        depth = slow_history.depth(own.in_flight)
        seen: list[tuple[str, int, float]] = []
        siblings: Comparison | None = None
        itself: Comparison | None = None
        against_siblings, against_itself = False, False
        for operation, found in (("read", own.read), ("write", own.write)):
            if found is None or found.requests < slow_windows.MIN_REQUESTS:
                continue
            if kind is not HDD and self._clears_blocks(name, operation):
                continue
            latency = found.latency_seconds
            at = slow_history.load(operation, found.size_bytes, depth)
            seen.append((key, at, latency))
            known = None if home is None else self._sibling_cell(home, at).reference_seconds(key)
            if known is not None:
                ratio = latency / max(self._floor(kind), known)
                if siblings is None or ratio > siblings.ratio:
                    siblings = Comparison(ratio, latency, known, operation, 0)
                if ratio >= SIBLING_RATIO and latency - known >= kind.excess:
                    against_siblings = True
            known = usual.get((key, at))
            if known is not None:
                ratio = latency / max(self._floor(kind), known)
                if itself is None or ratio > itself.ratio:
                    itself = Comparison(ratio, latency, known, operation, 0)
                if ratio >= ITSELF_RATIO and latency - known >= kind.excess:
                    against_itself = True
        if siblings is not None:
            self._shown["siblings"][name] = siblings
        if itself is not None:
            self._shown["itself"][name] = itself
        return against_siblings, None if itself is None else against_itself, seen

    def _floor(self, kind: Kind) -> float:
        return max(kind.floor, JIFFY_SECONDS) if self._coarse else kind.floor

    def _sibling_cell(self, home: str, at: int) -> SiblingCell:
        known = self._siblings.get((home, at))
        if known is not None and self._now < known[0]:
            return known[1]
        if self._computed >= MAX_COMPUTED:
            return slow_history.UNKNOWN if known is None else known[1]
        self._computed += 1
        members = (self._groups.keys[name] for name in self._groups.siblings[home])
        found = slow_history.sibling_cell(self._history, members, at)
        enough = found.windows >= slow_history.MIN_WINDOWS
        lasts = KNOWN_SECONDS if enough else UNKNOWN_SECONDS
        self._siblings[home, at] = self._now + lasts - SLACK_SECONDS, found
        return found

    def _busy_without_reason(self) -> set[str]:
        """Return the disks that are always busy, do next to nothing, and are alone to blame.

        If the requests of the other members of its array take as long, its load or their adapter is
        the reason; for the latter at least three of them must do next to nothing.
        """
        found = {
            name
            for name, own in self._comparable.items()
            if name not in self._starved and self._completes_hardly_anything(name, own)
        }
        alike: set[str] = set()
        for group in self._groups.coupled if found else ():
            named = found.intersection(group.members)
            if len(named) >= min(TOGETHER, len(group.members)):
                continue
            for name in named:
                times = sorted(
                    self._windows[other].latency_seconds
                    for other in group.members
                    if other != name and other in self._windows
                )
                usual = times[(len(times) - 1) // 2] if times else 0.0
                if self._windows[name].latency_seconds < COUPLED_RATIO * usual:
                    alike.add(name)
        return found - alike

    def _completes_hardly_anything(self, name: str, own: Window) -> bool:
        """Whether a disk is always busy and does next to nothing, without hanging.

        Utilization alone proves little: some kernels count a whole tick for a short request.
        """
        if (
            own.requests > MAX_REQUESTS_PER_SECOND * self._elapsed
            or own.bytes > MAX_BYTES_PER_SECOND * self._elapsed
            or own.busy_ratio < BUSY_RATIO
        ):
            return False
        seen = self._in_flight(name)
        watch = device.GROUP.state(self._view.states).device
        hangs = (
            device.hang_seconds(watch, self._groups.leaves[name]) >= hang_thresholds.WARNING_SECONDS
            if seen
            else True
        )
        return not hangs and sum(map(bool, seen)) >= IN_FLIGHT_RATIO * len(seen)

    def _clears_blocks(self, name: str, operation: str) -> bool:
        """Whether an SSD wrote so much lately that its writes are not judged."""
        if operation == "read" or self._groups.kinds[name] is HDD or not self._before.written:
            return False
        size = self._topology.devices[name].size_bytes
        first = self._before.written[0][1].get(name)
        if size is None or first is None:
            return False
        return self._last[name].written_bytes_total - first > WRITTEN_RATIO * size

    def _written(self) -> tuple[tuple[float, Mapping[str, int]], ...]:
        before = self._before.written
        if before and self._now - before[-1][0] < WRITTEN_STEP_SECONDS - SLACK_SECONDS:
            return before
        before = tuple(each for each in before if self._now - each[0] < WRITTEN_SECONDS)
        solid = (name for name, kind in self._groups.kinds.items() if kind is not HDD)
        seen = {n: self._last[n].written_bytes_total for n in solid if n in self._last}
        return (*before, (self._now, seen))

    def _with_long_means(self, state: SlowState) -> SlowState:
        """Compute the means of five minutes, once a minute."""
        snapshots = state.minutes
        if snapshots and self._now - snapshots[-1][0] < LONG_STEP_SECONDS - SLACK_SECONDS:
            return state
        last: dict[str, Times] = {}
        for name, block in self._last.items():
            counters = block.counters
            last[name] = counters[0], counters[3], counters[4], counters[7]
        snapshots = tuple(
            each for each in snapshots if self._now - each[0] <= LONG_SECONDS + SLACK_SECONDS
        )
        means: list[Sample] = []
        if snapshots and self._now - snapshots[0][0] >= LONG_SECONDS - SLACK_SECONDS:
            for name, after in last.items():
                before = snapshots[0][1].get(name)
                if before is not None:
                    means += _means(name, before, after)
        return replace(state, minutes=(*snapshots, (self._now, last)), long_means=means)

    def _samples(self, state: SlowState) -> Iterator[Sample]:
        keys, disks = self._groups.keys, state.disks
        labels = self._groups.labels
        for name, found in self._windows.items():
            if found.read is not None:
                yield READ_LATENCY, labels[name].short, found.read.latency_seconds
            if found.write is not None:
                yield WRITE_LATENCY, labels[name].short, found.write.latency_seconds
        yield from state.long_means
        for against, own in self._shown.items():
            for name, compared in own.items():
                yield RATIO, labels[name].against[against], compared.ratio
        slow: list[str] = []
        for name in self._last:
            each = disks.get(keys[name], CALM)
            if name in self._groups.grouped:
                yield POINTS, labels[name].device, float(each.points)
            if each is CALM:
                continue
            severities = each.severities()
            if severities:
                slow.append(name)
                yield from self._slow_samples(name, each, severities, state)
        yield from self._together(slow)

    def _slow_samples(
        self, name: str, each: Slowness, severities: Mapping[str, str], state: SlowState
    ) -> Iterator[Sample]:
        seconds = round(each.slow_seconds(self._now), DIGITS)
        for against, severity in severities.items():
            labels = (("against", against), ("device", name), ("severity", severity))
            yield SECONDS, labels, seconds
            found = state.shown.get((name, against))
            if found is not None:
                compared = (
                    ("against", against),
                    ("device", name),
                    ("operation", found.operation),
                )
                yield COMPARED, compared, found.latency_seconds
                yield REFERENCE, compared, found.reference_seconds

    def _together(self, slow: list[str]) -> Iterator[Sample]:
        """Yield what the slow disks have in common, and what is stacked on them."""
        shared = Counter(place for name in slow for place in self._groups.places.get(name, ()))
        for (kind, place), count in shared.items():
            if count >= TOGETHER and kind in _PLACES:
                yield _PLACES[kind], ((kind, place),), float(count)
        above: Counter[str] = Counter()
        for name in slow:
            above.update(_holders(self._topology, name))
        for name, count in above.items():
            yield BELOW, (("device", name),), float(count)


def _means(name: str, before: Times, after: Times) -> Iterator[Sample]:
    labels = (("device", name), ("window", "5m"))
    for metric, at in ((READ_LATENCY, 0), (WRITE_LATENCY, 2)):
        requests, milliseconds = after[at] - before[at], after[at + 1] - before[at + 1]
        if requests > 0 and milliseconds >= 0:
            yield metric, labels, milliseconds / 1000 / requests


def _holders(topology: Topology, name: str) -> set[str]:
    """Return the devices that are stacked on a disk."""
    found: set[str] = set()
    todo = [name]
    while todo:
        own = topology.devices.get(todo.pop())
        for holder in own.holders if own is not None else ():
            if holder not in found:
                found.add(holder)
                todo.append(holder)
    return found


def remember(state: SlowState) -> dict[str, Pairs]:
    """Return what is stored over a restart: how slow each disk is, and its usual latencies."""
    slow = {_SLOW + key: slow_points.remembered(each) for key, each in state.disks.items()}
    usual = slow_history.remembered(state.history)
    return slow | {_USUAL + key: pairs for key, pairs in usual.items()}


def recall(state: SlowState, stored: Mapping[str, Pairs]) -> SlowState:
    """Return the state with the stored one."""
    before = {
        key.removeprefix(_SLOW): slow_points.recalled(pairs)
        for key, pairs in stored.items()
        if key.startswith(_SLOW)
    }
    usual = {
        key.removeprefix(_USUAL): pairs for key, pairs in stored.items() if key.startswith(_USUAL)
    }
    disks = {key: each for key, each in before.items() if each != CALM} | dict(state.disks)
    return replace(state, disks=disks, history=slow_history.recalled(state.history, usual))


READ_LATENCY = "iowarden_device_read_latency_seconds"
WRITE_LATENCY = "iowarden_device_write_latency_seconds"
RATIO = "iowarden_device_slowdown_ratio"
POINTS = "iowarden_device_slow_points"
SECONDS = "iowarden_device_slow_seconds"
COMPARED = "iowarden_device_slow_latency_seconds"
REFERENCE = "iowarden_device_reference_latency_seconds"
BELOW = "iowarden_device_slow_disks"
_PLACES = {"host": "iowarden_scsi_host_slow_disks", "enclosure": "iowarden_enclosure_slow_disks"}
_MEAN = (
    " in the last 10 seconds or 5 minutes: the kernel counts sums, so percentiles come from"
    " 'iowarden trace' only."
)

GROUP = SignalGroup(
    name="slow",
    sources=("diskstats", "block"),
    families=(
        Family(READ_LATENCY, "gauge", "Mean time of a disk's reads that completed" + _MEAN),
        Family(
            WRITE_LATENCY,
            "gauge",
            "Mean time of a disk's writes that completed" + _MEAN,
        ),
        Family(
            RATIO,
            "gauge",
            "Mean latency of a disk in the last 10 seconds divided by that of the other members of"
            " its array (median), or by what is usual (95th percentile) for the load of its"
            " siblings or of itself; only while it can be compared.",
        ),
        Family(
            POINTS,
            "gauge",
            "Points of a disk that is slow in its array, 0 to 60: 1 to 5 for each 10 seconds in"
            " which it is, 1 less for each in which it is not.",
        ),
        Family(
            SECONDS,
            "gauge",
            "Seconds since a disk became slow, while it is slow enough for an alert of that"
            " severity, by what it is compared with.",
        ),
        Family(
            COMPARED, "gauge", "Mean latency of a slow disk in the last 10 seconds that were slow."
        ),
        Family(REFERENCE, "gauge", "The latency that it was compared with in the same 10 seconds."),
        Family(BELOW, "gauge", "Slow disks below a device, if there are any."),
        Family(
            _PLACES["host"], "gauge", "Slow disks of a host adapter, if these are at least three."
        ),
        Family(
            _PLACES["enclosure"],
            "gauge",
            "Slow disks in an enclosure, if these are at least three.",
        ),
    ),
    step=step,
    initial=SlowState(),
    remember=remember,
    recall=recall,
)
