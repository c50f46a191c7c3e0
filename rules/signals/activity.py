"""Mean load of every device over the last minute: utilization, throughput, request sizes.

Signals that judge load use these means, because single seconds vary widely even on a healthy
device. Source of the counters: kernel, admin-guide/iostats.rst.
"""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import SECTOR_BYTES, Metric, Sample, describe
from iowarden.rules.signals.signal import GAP_SECONDS, SignalGroup

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iowarden.collectors.block.block_devices import Device, Topology
    from iowarden.collectors.block.diskstats import BlockIo
    from iowarden.rules.signals.signal import View

STEP_SECONDS = 10.0
WINDOW_SECONDS = 60.0
SLACK_SECONDS = 0.5
"""Tolerance for a tick that comes early, which must not cost a whole step."""
_MILLISECOND = 0.001


@dataclass(frozen=True, slots=True)
class Activity:
    """Means of one device over the last minute; a device without any request has none.

    Limits: md of old kernels does not count io_ticks (up to 5.14; the exact release was not
    checked): the values of its disks are used instead.
    """

    utilization_ratio: Annotated[
        float, Metric("gauge", "Share of the last minute with at least one request in flight.")
    ]
    mean_requests_in_flight: Annotated[
        float, Metric("gauge", "Mean number of requests in flight over the last minute.")
    ]
    reads_per_second: Annotated[
        float, Metric("gauge", "Reads completed per second, mean of the last minute.")
    ]
    read_bytes_per_second: Annotated[
        float, Metric("gauge", "Bytes read per second, mean of the last minute.")
    ]
    writes_per_second: Annotated[
        float, Metric("gauge", "Writes completed per second, mean of the last minute.")
    ]
    written_bytes_per_second: Annotated[
        float, Metric("gauge", "Bytes written per second, mean of the last minute.")
    ]

    @property
    def read_size_bytes(self) -> float | None:
        """Mean size of a read; None where there was none."""
        reads = self.reads_per_second
        return self.read_bytes_per_second / reads if reads else None

    @property
    def write_size_bytes(self) -> float | None:
        """Mean size of a write; None where there was none."""
        writes = self.writes_per_second
        return self.written_bytes_per_second / writes if writes else None


FAMILIES, _emit = describe(Activity, "iowarden_device_")
_EACH = len(fields(Activity))

CounterSnapshot = tuple[float, "Mapping[str, BlockIo]"]
"""The counters of all devices at one moment."""


@dataclass(frozen=True, slots=True)
class ActivityState:
    """Samples of the counters every ten seconds for one minute, and the means from them."""

    snapshots: tuple[CounterSnapshot, ...] = ()
    last_seconds: float | None = None
    samples: list[Sample] | None = None
    topology: Topology | None = None
    names: tuple[str, ...] = ()
    """The devices that hold data."""


def step(state: ActivityState, view: View) -> tuple[ActivityState, list[Sample] | None]:
    """Return the state after a second and the means; None until a full minute was observed."""
    now = view.inputs.now_seconds
    blocks = view.inputs.snapshot.diskstats
    if blocks is None or view.derived is None:
        return state, None
    if state.last_seconds is None or not 0.0 <= now - state.last_seconds <= GAP_SECONDS:
        state = ActivityState()
    topology, names, looks = view.derived.topology, state.names, state.snapshots
    if looks and now - looks[-1][0] < STEP_SECONDS - SLACK_SECONDS:
        return ActivityState(looks, now, state.samples, state.topology, names), state.samples
    if topology is not state.topology:
        names = tuple(name for name, device in topology.devices.items() if is_real(device))
    look = {name: blocks[name] for name in names if name in blocks}
    least = now - WINDOW_SECONDS - SLACK_SECONDS
    looks = (*(entry for entry in looks if entry[0] >= least), (now, look))
    samples = None
    if now - looks[0][0] >= WINDOW_SECONDS - SLACK_SECONDS:
        found = _activities(looks, topology)
        samples = [s for name, each in found.items() for s in _emit(each, (("device", name),))]
    return ActivityState(looks, now, samples, topology, names), samples


def activities(samples: Sequence[Sample]) -> dict[str, Activity]:
    """Return the activity by device from the samples that `step` returned."""
    return {
        samples[at][1][0][1]: Activity(*(value for _, _, value in samples[at : at + _EACH]))
        for at in range(0, len(samples), _EACH)
    }


def is_real(device: Device) -> bool:
    """Whether a device holds data: a disk, or what is stacked on disks."""
    return device.leaf or bool(device.slaves)


def leaves_below(topology: Topology, name: str) -> frozenset[str]:
    """Return the leaf devices below a device; a leaf is below itself."""
    return frozenset(n for n in members(topology, name) if topology.devices[n].leaf)


def stack_below(topology: Topology, name: str) -> frozenset[str]:
    """Return the devices of a file system by its device's or partition's name, and those below.

    A btrfs is on all of its devices, and the mount table names one. Empty: there is no such device.
    """
    system = topology.btrfs.get(topology.kernel_name(name))
    wholes = map(topology.whole, (name,) if system is None else system.devices)
    found = (members(topology, whole.name) for whole in wholes if whole is not None)
    return frozenset().union(*found)


def members(topology: Topology, name: str) -> frozenset[str]:
    """Return a device and all devices below it."""
    found: set[str] = set()
    todo = [name]
    while todo:
        name = todo.pop()
        device = topology.devices.get(name)
        if device is not None and name not in found:
            found.add(name)
            todo += device.slaves
    return frozenset(found)


def _activities(snapshots: tuple[CounterSnapshot, ...], topology: Topology) -> dict[str, Activity]:
    (began, first), (ended, last) = snapshots[0], snapshots[-1]
    result: dict[str, Activity] = {}
    for name, after in last.items():
        before = first.get(name)
        if before is None:
            continue
        if before.counters == after.counters and not after.in_flight:
            continue
        means = between(before, after, ended - began)
        if means is None:
            continue
        if not means.mean_requests_in_flight:
            seen = [entry[1][name].in_flight for entry in snapshots if name in entry[1]]
            means = replace(means, mean_requests_in_flight=sum(seen) / len(seen))
        result[name] = means
    for name, own in result.items():
        if own.utilization_ratio == 0 and not topology.devices[name].leaf:
            below = [result[n] for n in leaves_below(topology, name) if n in result]
            result[name] = replace(
                own,
                utilization_ratio=max((each.utilization_ratio for each in below), default=0.0),
                mean_requests_in_flight=max(
                    own.mean_requests_in_flight,
                    math.fsum(each.mean_requests_in_flight for each in below),
                ),
            )
    return result


def between(before: BlockIo, after: BlockIo, elapsed: float) -> Activity | None:
    """Return the means between two samples of the counters; None when a counter decreased.

    Limits: the weighted time does not advance for md of old kernels, nor from 5.0 on while nothing
    completes: mean_in_flight is 0 then.
    """
    first, last = before.counters, after.counters
    reads, read_sectors = last[0] - first[0], last[2] - first[2]
    writes, written_sectors = last[4] - first[4], last[6] - first[6]
    busy, weighted = last[9] - first[9], last[10] - first[10]
    if elapsed <= 0 or min(reads, read_sectors, writes, written_sectors, busy, weighted) < 0:
        return None
    return Activity(
        min(busy * _MILLISECOND / elapsed, 1.0),
        weighted * _MILLISECOND / elapsed,
        reads / elapsed,
        read_sectors * SECTOR_BYTES / elapsed,
        writes / elapsed,
        written_sectors * SECTOR_BYTES / elapsed,
    )


GROUP = SignalGroup(
    name="activity",
    sources=("diskstats", "block"),
    families=FAMILIES,
    step=step,
    initial=ActivityState(),
)
