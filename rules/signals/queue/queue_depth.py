"""Queue of a shared host adapter that one disk can fill, and disks that starve because of it.

Source: kernel, scsi/scsi_mid_low_api.rst (can_queue, cmd_per_lun); block/blk-mq.h (hctx_may_queue
shares tags fairly among the disks that are active).
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals import activity
from iowarden.rules.signals.activity import SLACK_SECONDS, STEP_SECONDS
from iowarden.rules.signals.signal import GAP_SECONDS, SignalGroup
from iowarden.rules.signals.sustained import NOTHING, Sustained

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.block.diskstats import BlockIo
    from iowarden.collectors.block.scsi import ScsiTopology
    from iowarden.rules.signals.signal import Pairs, View

DISK = 0
FAIR_KERNEL = (5, 0)
"""From this version SCSI has only the multi-queue block layer. Source: commit f664a3cc17b7."""
MAX_ADVISED, MIN_ADVISED = 32, 4
"""32 resolved the incident behind this signal, and is the most a SATA disk queues by itself."""
ACTIVE_SECONDS = 60.0

UTILIZATION_RATIO = 0.9
WAIT_SECONDS = 0.2
VICTIM_PER_SECOND = 20.0
SHARE_RATIO = 0.5
FACTOR = 10.0
FILLED_RATIO = 0.9
_WAITED_MILLISECONDS = (3, 7, 14, 16)
"""Positions of the times of reads, writes, discards and flushes among the counters of a device."""

SECONDS = "iowarden_scsi_host_starved_seconds"
STARVED = "iowarden_device_starved"
DOMINANT = "iowarden_device_queue_dominant"


class AdapterDisk(NamedTuple):
    """A disk of a shared adapter."""

    name: str
    depth: int | None


class Served(NamedTuple):
    """How a disk was served during ten seconds."""

    per_second: float
    utilization_ratio: float
    wait_seconds: float | None
    """Mean time of a request; None when none completed."""
    in_flight: float

    @property
    def badly(self) -> bool:
        """Whether it looks starved: busy or slow, and it completes hardly any requests."""
        slow = self.wait_seconds is not None and self.wait_seconds >= WAIT_SECONDS
        busy = self.utilization_ratio >= UTILIZATION_RATIO
        return (busy or slow) and self.per_second <= VICTIM_PER_SECOND


@dataclass(frozen=True, slots=True)
class StarvedState:
    """State of the signal; adapters by name."""

    sustained: Sustained = NOTHING
    scsi: ScsiTopology | None = None
    hosts: Mapping[str, tuple[AdapterDisk, ...]] = field(default_factory=dict)
    """Adapters whose queue can be filled by some of their disks."""
    snapshot: tuple[float, Mapping[str, BlockIo]] | None = None
    last_seconds: float | None = None
    samples: list[Sample] | None = None


def host_step(state: None, view: View) -> tuple[None, list[Sample] | None]:
    """Return the share of each shared adapter's queue that one disk may take."""
    scsi = view.inputs.snapshot.scsi
    if scsi is None:
        return state, None
    sysctl = view.inputs.snapshot.vm_sysctl
    kernel = None if sysctl is None else sysctl.kernel
    fair = scsi.multi_queue
    if fair is None and kernel is not None:
        fair = kernel[:2] >= FAIR_KERNEL
    samples: list[Sample] = []
    for name, disks in _shared(scsi).items():
        most = scsi.hosts[name].can_queue
        depths = [disk.depth for disk in disks if disk.depth is not None]
        if not most or not depths:
            continue
        labels = (("host", name),)
        advised = max(MIN_ADVISED, min(MAX_ADVISED, most // len(disks)))
        samples += (
            ("iowarden_scsi_host_queue_depth_ratio", labels, max(depths) / most),
            ("iowarden_scsi_host_queue_depth_recommended", labels, float(advised)),
        )
        if fair is not None:
            samples.append(("iowarden_scsi_host_fair_queueing", labels, float(fair)))
    return state, samples


def starved_step(state: StarvedState, view: View) -> tuple[StarvedState, list[Sample] | None]:
    """Return the state and for how long disks of each adapter have starved (queue_starvation)."""
    now = view.inputs.now_seconds
    blocks = view.inputs.snapshot.diskstats
    scsi = view.inputs.snapshot.scsi
    if blocks is None or scsi is None:
        return state, None
    hosts = state.hosts if scsi is state.scsi else _fillable(scsi)
    held, look, samples = state.sustained, state.snapshot, state.samples
    if state.last_seconds is None or not 0.0 <= now - state.last_seconds <= GAP_SECONDS:
        held, look, samples = held.lasting(ACTIVE_SECONDS), None, None
    if look is None or now - look[0] >= STEP_SECONDS - SLACK_SECONDS:
        disks = [disk.name for members in hosts.values() for disk in members]
        after = {name: blocks[name] for name in disks if name in blocks}
        if look is not None:
            held, samples = _evaluate(held, hosts, scsi, look, (now, after))
        look = (now, after)
    if samples is None:
        waiting = held.samples(SECONDS, now, {name: name for name in held.since}, "host")
        return StarvedState(held, scsi, hosts, look, now, None), waiting or None
    return StarvedState(held, scsi, hosts, look, now, samples), samples


def remember(state: StarvedState) -> dict[str, Pairs]:
    """Return since when disks of each adapter have starved."""
    return state.sustained.lasting(ACTIVE_SECONDS).remember()


def recall(state: StarvedState, stored: Mapping[str, Pairs]) -> StarvedState:
    """Return the state with the stored one."""
    held = state.sustained.recall(stored)
    return StarvedState(held, state.scsi, state.hosts, state.snapshot, state.last_seconds, None)


def _shared(scsi: ScsiTopology) -> dict[str, tuple[AdapterDisk, ...]]:
    """Return the disks of every adapter that has several, and a queue whose share can be set.

    That of an adapter that takes one command at a time (IDE, USB docks) cannot.
    """
    return {
        host: disks
        for host, disks in _by_adapter(scsi).items()
        if max(disk.depth or 0 for disk in disks) > MIN_ADVISED
    }


def _by_adapter(scsi: ScsiTopology) -> dict[str, tuple[AdapterDisk, ...]]:
    """Return the disks of every adapter that has several."""
    found: dict[str, list[AdapterDisk]] = {}
    for each in scsi.devices.values():
        if each.kind in {DISK, None} and each.device is not None and each.host in scsi.hosts:
            found.setdefault(each.host, []).append(AdapterDisk(each.device, each.queue_depth))
    return {host: tuple(disks) for host, disks in found.items() if len(disks) > 1}


def _fillable(scsi: ScsiTopology) -> dict[str, tuple[AdapterDisk, ...]]:
    """Return the adapters whose queue all disks but one can fill, so that it starves.

    Also those that take one command at a time: the disks of a USB dock wait for their turn. Source:
    kernel, drivers/usb/storage/scsiglue.c (can_queue).
    """
    result = {}
    for host, disks in _by_adapter(scsi).items():
        most = scsi.hosts[host].can_queue
        depths = [disk.depth for disk in disks if disk.depth is not None]
        if most and len(depths) > 1 and sum(depths) - min(depths) >= FILLED_RATIO * most:
            result[host] = disks
    return result


def _evaluate(
    sustained: Sustained,
    hosts: Mapping[str, tuple[AdapterDisk, ...]],
    scsi: ScsiTopology,
    before: tuple[float, Mapping[str, BlockIo]],
    after: tuple[float, Mapping[str, BlockIo]],
) -> tuple[Sustained, list[Sample]]:
    now = after[0]
    starved = _starved_by_host(hosts, scsi, before, after)
    # Without a queue that can be shared out it is no fault of the settings.
    shared = starved.keys() & _shared(scsi).keys()
    sustained = sustained.step(shared, now, STEP_SECONDS)
    samples = sustained.samples(SECONDS, now, {host: host for host in shared}, "host")
    for host, (victims, neighbours) in starved.items():
        for metric, names in (
            (STARVED, victims),
            (DOMINANT, neighbours),
        ):
            samples += ((metric, (("device", name), ("host", host)), 1.0) for name in names)
    return sustained, samples


def starved_between(
    state: StarvedState,
    before: tuple[float, Mapping[str, BlockIo]],
    after: tuple[float, Mapping[str, BlockIo]],
) -> tuple[set[str], set[str]]:
    """Return the disks that starved between two moments, and those that filled their queues."""
    if state.scsi is None:
        return set(), set()
    by_host = _starved_by_host(state.hosts, state.scsi, before, after).values()
    return (
        {disk for victims, _ in by_host for disk in victims},
        {disk for _, owners in by_host for disk in owners},
    )


def _starved_by_host(
    hosts: Mapping[str, tuple[AdapterDisk, ...]],
    scsi: ScsiTopology,
    before: tuple[float, Mapping[str, BlockIo]],
    after: tuple[float, Mapping[str, BlockIo]],
) -> dict[str, tuple[list[str], list[str]]]:
    """Return by adapter the disks that starve, and those that dominate its queue."""
    starved = {}
    for host, disks in hosts.items():
        served = {
            disk.name: found
            for disk in disks
            if (found := _served(disk.name, before, after)) is not None
        }
        victims, neighbours = _starved(served, scsi.hosts[host].can_queue or 0)
        if victims:
            starved[host] = victims, neighbours
    return starved


def _served(
    name: str,
    before: tuple[float, Mapping[str, BlockIo]],
    after: tuple[float, Mapping[str, BlockIo]],
) -> Served | None:
    first, last = before[1].get(name), after[1].get(name)
    if first is None or last is None or (first.counters == last.counters and not last.in_flight):
        return None
    elapsed = after[0] - before[0]
    means = activity.between(first, last, elapsed)
    if means is None:
        return None
    completed = last.completed_total - first.completed_total
    waited = sum(
        (last.counters[at] - first.counters[at]) / 1000
        for at in _WAITED_MILLISECONDS
        if at < len(last.counters)
    )
    wait = waited / completed if completed else None
    per_second = completed / elapsed
    in_flight = max(means.mean_requests_in_flight, (first.in_flight + last.in_flight) / 2)
    return Served(per_second, means.utilization_ratio, wait, in_flight)


def _starved(served: Mapping[str, Served], can_queue: int) -> tuple[list[str], list[str]]:
    """Return the disks that starve and the disks that dominate the queue.

    A disk that completes nothing at all hangs (device_hang) and is no evidence for either. A disk
    that is slow by itself does not starve: then other disks, neither busy nor slow, are served
    well, or most disks are busy.
    """
    victims = [n for n, each in served.items() if each.badly and each.per_second > 0]
    if not victims:
        return [], []
    slowest = max(served[name].per_second for name in victims)
    neighbours = [
        name
        for name, each in served.items()
        if not each.badly
        and (
            each.in_flight >= SHARE_RATIO * can_queue
            or each.per_second >= max(FACTOR * slowest, VICTIM_PER_SECOND)
        )
    ]
    well = [
        name
        for name, each in served.items()
        if name not in neighbours and not each.badly
        if each.wait_seconds is not None and each.wait_seconds < WAIT_SECONDS
    ]
    if not neighbours or well or len(neighbours) > len(victims):
        return [], []
    return victims, neighbours


HOST_GROUP = SignalGroup(
    name="host_queue",
    sources=("scsi", "vm_sysctl"),
    families=(
        Family(
            "iowarden_scsi_host_queue_depth_ratio",
            "gauge",
            "Largest queue depth of a disk as a share of its adapter's queue (can_queue);"
            " only adapters with several disks.",
        ),
        Family(
            "iowarden_scsi_host_queue_depth_recommended",
            "gauge",
            "Queue depth at which no single disk can fill the queue of its adapter.",
        ),
        Family(
            "iowarden_scsi_host_fair_queueing",
            "gauge",
            "1 if the kernel shares the adapter's queue fairly among its disks (multi-queue),"
            " else 0.",
        ),
    ),
    step=host_step,
    initial=None,
)


STARVED_GROUP = SignalGroup(
    name="starvation",
    sources=("diskstats", "scsi"),
    families=(
        Family(
            SECONDS,
            "gauge",
            "Seconds for which a disk of an adapter has starved while"
            " another disk dominates the queue.",
        ),
        Family(STARVED, "gauge", "1 for a disk that starves, with its adapter."),
        Family(
            DOMINANT,
            "gauge",
            "1 for a disk that dominates its adapter's queue while others starve.",
        ),
    ),
    step=starved_step,
    initial=StarvedState(),
    remember=remember,
    recall=recall,
)
