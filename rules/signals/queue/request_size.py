"""Requests that are split: by a low max_sectors_kb, by RAID chunks, by misaligned partitions.

Source: kernel, block/queue-sysfs.rst (max_sectors_kb), ABI/stable/sysfs-block (minimum_io_size,
alignment_offset).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import KIB, Family, Sample
from iowarden.rules.signals import activity
from iowarden.rules.signals.activity import STEP_SECONDS
from iowarden.rules.signals.queue import read_ahead, volume
from iowarden.rules.signals.signal import SignalGroup
from iowarden.rules.signals.sustained import NOTHING, Sustained

if TYPE_CHECKING:
    from iowarden.collectors.block.queue import Partition, Queue
    from iowarden.rules.signals.activity import Activity
    from iowarden.rules.signals.signal import View

USUAL_BYTES = 512 * KIB
"""The smallest default of max_sectors_kb of any kernel (2.6 to 4.2)."""
FULL_RATIO = 0.9
BYTES_PER_SECOND = 5e6
MIN_PARTITION_BYTES = 1 << 20
"""A smaller partition holds a boot loader or an extended partition table, and no files."""

SPLIT = "iowarden_device_requests_split_seconds"


@dataclass(frozen=True, slots=True)
class SplitState:
    """State of the signal; devices by name."""

    sustained: Sustained = NOTHING
    means: list[Sample] | None = None
    samples: list[Sample] | None = None


EMPTY = SplitState()


def split_step(state: SplitState, view: View) -> tuple[SplitState, list[Sample] | None]:
    """Return the state and for how long each device's requests were split (requests_split)."""
    means, queues = view.earlier.get("activity"), view.inputs.snapshot.queue
    if means is None or queues is None:
        return EMPTY, None
    if means is state.means:
        return state, state.samples
    now = view.inputs.now_seconds
    limited = {name: queue for name, queue in queues.items() if _limited(queue)}
    devices = activity.activities(means) if limited else {}
    names = {n for n, q in limited.items() if n in devices and _full(devices[n], q)}
    held = state.sustained.step(names, now, STEP_SECONDS)
    samples = held.samples(SPLIT, now, {name: name for name in names})
    return SplitState(held, means, samples), samples


@dataclass(frozen=True, slots=True)
class ChunkState:
    """Last samples of read-ahead and their result: the same list is not evaluated twice."""

    source_samples: list[Sample] | None = None
    samples: list[Sample] | None = None


def chunk_step(state: ChunkState, view: View) -> tuple[ChunkState, list[Sample] | None]:
    """Return the RAID volumes limited by read-ahead that get requests above their chunk."""
    told, queues = view.earlier.get("read_ahead"), view.inputs.snapshot.queue
    if told is None or queues is None or view.derived is None:
        return ChunkState(), None
    if told is state.source_samples:
        return state, state.samples
    capped = [sample for sample in told if sample[0] == read_ahead.SECONDS]
    topology = view.derived.topology
    drivers = volume.drivers(view.inputs.snapshot.scsi)
    samples: list[Sample] = []
    for _, labels, seconds in capped:
        for name in sorted(activity.leaves_below(topology, labels[0][1])):
            queue = queues.get(name)
            chunk = None if queue is None else volume.chunk_bytes(queue)
            if queue is None or chunk is None or (queue.max_sectors_bytes or 0) <= chunk:
                continue
            if volume.is_raid_volume(topology.devices[name], drivers):
                own = (("device", name),)
                samples += (
                    ("iowarden_device_requests_above_chunk_seconds", own, seconds),
                    ("iowarden_device_raid_chunk_bytes", own, float(chunk)),
                )
    return ChunkState(told, samples), samples


def alignment_step(state: None, view: View) -> tuple[None, list[Sample] | None]:
    """Return the devices and partitions that are misaligned."""
    queues = view.inputs.snapshot.queue
    if queues is None:
        return state, None
    samples: list[Sample] = []
    for name, queue in queues.items():
        if queue.alignment_offset_bytes:
            samples.append(("iowarden_device_misaligned", (("device", name),), 1.0))
        for partition in queue.partitions:
            beside = _other_bytes(queue, partition)
            if beside:
                labels = (("device", name), ("partition", partition.name))
                samples.append(("iowarden_partition_misaligned_bytes", labels, float(beside)))
    return state, samples


def _other_bytes(queue: Queue, partition: Partition) -> int:
    if partition.start_bytes is None or (partition.size_bytes or 0) < MIN_PARTITION_BYTES:
        return 0
    unit = max(queue.physical_block_bytes or 0, queue.minimum_io_bytes or 0)
    return partition.start_bytes % unit if unit else 0


def _limited(queue: Queue) -> bool:
    """Whether the largest request was set below any kernel default.

    The kernel itself uses a device's optimal size, and the chunk is what RequestsAboveChunk
    recommends.
    """
    most, hardware = queue.max_sectors_bytes, queue.max_hw_sectors_bytes
    if most is None or hardware is None or most >= min(hardware, USUAL_BYTES):
        return False
    return most not in {queue.optimal_io_bytes, volume.chunk_bytes(queue)}


def _full(seen: Activity, queue: Queue) -> bool:
    full = FULL_RATIO * (queue.max_sectors_bytes or 0)
    return any(
        size is not None and size >= full and rate >= BYTES_PER_SECOND
        for size, rate in (
            (seen.read_size_bytes, seen.read_bytes_per_second),
            (seen.write_size_bytes, seen.written_bytes_per_second),
        )
    )


SPLIT_GROUP = SignalGroup(
    name="request_split",
    sources=("diskstats", "block", "queue"),
    families=(
        Family(
            SPLIT,
            "gauge",
            "Seconds for which a device has received requests as large as a max_sectors_kb"
            " below the kernel's default.",
        ),
    ),
    step=split_step,
    initial=EMPTY,
)


CHUNK_GROUP = SignalGroup(
    name="request_chunk",
    sources=read_ahead.SOURCES,
    families=(
        Family(
            "iowarden_device_requests_above_chunk_seconds",
            "gauge",
            "Seconds for which a RAID volume with too small a read-ahead has received"
            " requests larger than its chunk.",
        ),
        Family(
            "iowarden_device_raid_chunk_bytes",
            "gauge",
            "Chunk size in bytes of a RAID adapter's volume (minimum_io_size).",
        ),
    ),
    step=chunk_step,
    initial=ChunkState(),
)


ALIGNMENT_GROUP = SignalGroup(
    name="alignment",
    sources=("queue",),
    families=(
        Family(
            "iowarden_partition_misaligned_bytes",
            "gauge",
            "Distance in bytes from the start of a partition back to the last block or chunk"
            " boundary of its device.",
        ),
        Family(
            "iowarden_device_misaligned",
            "gauge",
            "1 if the blocks of a device do not begin where the device does (alignment_offset).",
        ),
    ),
    step=alignment_step,
    initial=None,
)
