"""Settings of block devices' request queues, from '/sys/block/*/queue' and their partitions."""

from __future__ import annotations

import re
from collections.abc import Mapping  # noqa: TC003 - to be evaluated
from typing import TYPE_CHECKING, Annotated

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import KIB, SECTOR_BYTES, Family, Metric, Sample, describe
from iowarden.collectors.source import Source, of_whole_devices
from iowarden.collectors.sysfs import Attributes, attributes, device_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.model import Labels

DIRECTORY = "/sys/block"
_NO_QUEUE_TO_TUNE = lazy_pattern(r"(loop|ram|zram|sr|fd)\d+")
"""Devices in a file, in memory or removable."""
_SCHEDULER = lazy_pattern(r"(\[)?([\w-]+)(?(1)\])", re.ASCII)
_WRITE_CACHE = {"write back": True, "write through": False}


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a device. Source: kernel, ABI/stable/sysfs-block."""

    name: str
    start_bytes: int | None
    size_bytes: int | None
    alignment_offset_bytes: int | None


@dataclass(frozen=True, slots=True)
class Queue:
    """The queue of one whole device. None: the kernel does not report it.

    Source: kernel, block/queue-sysfs.rst; ABI/stable/sysfs-block. An alignment offset of -1 means
    that the device or one below it is misaligned (block/blk-settings.c).
    """

    device: str
    scheduler: str | None
    """The active scheduler: 'none', 'mq-deadline', 'bfq', 'cfq' ..."""
    schedulers: tuple[str, ...]
    read_ahead_bytes: Annotated[int | None, Metric("gauge", "Read-ahead of a device.")]
    nr_requests: int | None
    max_sectors_bytes: Annotated[
        int | None, Metric("gauge", "Largest request the kernel sends (max_sectors_kb).")
    ]
    """Largest request the block layer sends (max_sectors_kb)."""
    max_hw_sectors_bytes: Annotated[
        int | None, Metric("gauge", "Largest request the driver takes (max_hw_sectors_kb).")
    ]
    minimum_io_bytes: Annotated[
        int | None,
        Metric(
            "gauge", "Smallest request without a penalty (minimum_io_size); for RAID the chunk."
        ),
    ]
    optimal_io_bytes: Annotated[
        int | None,
        Metric(
            "gauge", "Best request size (optimal_io_size); for RAID the stripe. 0: not reported."
        ),
    ]
    """0: not reported by the device."""
    physical_block_bytes: Annotated[
        int | None, Metric("gauge", "Smallest unit that the device writes atomically.")
    ]
    logical_block_bytes: Annotated[
        int | None, Metric("gauge", "Smallest unit that the device can address.")
    ]
    chunk_bytes: Annotated[
        int | None, Metric("gauge", "Boundary that no request may cross (chunk_sectors); 0: none.")
    ]
    """chunk_sectors: 0 without such a boundary."""
    alignment_offset_bytes: Annotated[
        int | None, Metric("gauge", "Offset of the device's blocks from its start; -1: misaligned.")
    ]
    rotational: bool | None
    write_cache: str | None
    """'write back' or 'write through'."""
    read_only: bool | None
    size_bytes: int | None
    partitions: tuple[Partition, ...]
    read_error: str = ""
    """The first attribute that exists and could not be read, and why."""
    zoned: str | None = None
    """'none', 'host-aware' or 'host-managed' (4.10 and later)."""


_SETTINGS, _emit_settings = describe(Queue, "iowarden_device_")
FAMILIES = (
    *_SETTINGS,
    Family(
        "iowarden_device_queue_requests",
        "gauge",
        "Maximum requests in the device's queue (nr_requests).",
    ),
    Family(
        "iowarden_device_write_cache_enabled",
        "gauge",
        "1 when the kernel treats the device's write cache as enabled.",
    ),
    Family("iowarden_device_scheduler", "gauge", "1; the active I/O scheduler."),
    Family("iowarden_partition_start_bytes", "gauge", "Where a partition begins on its device."),
    Family("iowarden_partition_size_bytes", "gauge", "Size of a partition."),
    Family(
        "iowarden_partition_alignment_offset_bytes",
        "gauge",
        "Offset of the device's blocks from the partition's start; -1: misaligned.",
    ),
)


def parse_schedulers(text: str) -> tuple[str, tuple[str, ...]]:
    """Parse 'none [mq-deadline] kyber': the active scheduler and all available ones.

    A device without a choice may print one name without brackets. Errors: ValueError.
    """
    words = text.split()
    found = [_SCHEDULER.fullmatch(word) for word in words]
    names = tuple(match[2] for match in found if match)
    chosen = [match[2] for match in found if match and match[1]] or list(names)
    if len(names) != len(words) or len(chosen) != 1:
        raise ValueError(f"expected '<name> [<name in force>] ...', got {text[:80]!r}")
    return chosen[0], names


def emit(value: Mapping[str, Queue]) -> list[Sample]:
    """Return the samples of FAMILIES."""
    samples: list[Sample] = []
    for device, queue in value.items():
        labels: Labels = (("device", device),)
        samples += _emit_settings(queue, labels)
        if queue.nr_requests is not None:
            samples.append(("iowarden_device_queue_requests", labels, queue.nr_requests))
        if queue.write_cache is not None:
            on = float(_WRITE_CACHE[queue.write_cache])
            samples.append(("iowarden_device_write_cache_enabled", labels, on))
        if queue.scheduler is not None:
            labels = (("device", device), ("scheduler", queue.scheduler))
            samples.append(("iowarden_device_scheduler", labels, 1.0))
        for partition in queue.partitions:
            labels = (("device", device), ("partition", partition.name))
            samples += [
                (name, labels, number)
                for name, number in (
                    ("iowarden_partition_start_bytes", partition.start_bytes),
                    ("iowarden_partition_size_bytes", partition.size_bytes),
                    ("iowarden_partition_alignment_offset_bytes", partition.alignment_offset_bytes),
                )
                if number is not None
            ]
    return samples


def unreadable(value: Mapping[str, Queue]) -> Iterator[tuple[Labels, str]]:
    """Yield the devices with an unreadable attribute, and why."""
    for device, queue in value.items():
        if queue.read_error:
            yield (("device", device),), queue.read_error


def read_queue(root: Machine) -> dict[str, Queue]:
    """Read the queues of all whole devices except loop, RAM, CD and floppy devices, by name.

    A device that vanishes meanwhile is left out, as is one without a queue.
    Limits: may hang on a faulty disk. Errors: AbsentError, ReadError (of '/sys/block'), ParseError.
    """
    queues = {}
    for name in root.names(DIRECTORY):
        if _NO_QUEUE_TO_TUNE.fullmatch(name):
            continue
        device = attributes(root, f"{DIRECTORY}/{name}")
        settings = None if device is None else device.below("queue")
        if device is None or settings is None:
            continue
        queue = _queue(name, device, settings)
        if not (settings.vanished() or device.vanished()):
            queues[queue.device] = queue
    return queues


def _queue(name: str, device: Attributes, settings: Attributes) -> Queue:
    scheduler, schedulers = _schedulers(settings)
    write_cache = settings.text("write_cache")
    if write_cache is not None and write_cache not in _WRITE_CACHE:
        raise settings.wrong("write_cache", "'write back' or 'write through'", write_cache)
    partitions, problem = _partitions(name, device)
    return Queue(
        device=device_name(name),
        scheduler=scheduler,
        schedulers=schedulers,
        read_ahead_bytes=settings.count("read_ahead_kb", KIB),
        nr_requests=settings.count("nr_requests"),
        max_sectors_bytes=settings.count("max_sectors_kb", KIB),
        max_hw_sectors_bytes=settings.count("max_hw_sectors_kb", KIB),
        minimum_io_bytes=settings.count("minimum_io_size"),
        optimal_io_bytes=settings.count("optimal_io_size"),
        physical_block_bytes=settings.count("physical_block_size"),
        logical_block_bytes=settings.count("logical_block_size"),
        chunk_bytes=settings.count("chunk_sectors", SECTOR_BYTES),
        alignment_offset_bytes=device.signed("alignment_offset"),
        rotational=settings.flag("rotational"),
        write_cache=write_cache,
        read_only=device.flag("ro"),
        size_bytes=device.count("size", SECTOR_BYTES),
        partitions=partitions,
        read_error=settings.read_error or device.read_error or problem,
        zoned=settings.text("zoned"),
    )


def _schedulers(settings: Attributes) -> tuple[str | None, tuple[str, ...]]:
    text = settings.text("scheduler")
    try:
        return (None, ()) if text is None else parse_schedulers(text)
    except ValueError:
        raise settings.wrong("scheduler", "'<name> [<name in force>] ...'", text or "") from None


def _partitions(name: str, device: Attributes) -> tuple[tuple[Partition, ...], str]:
    found, problem = [], ""
    for entry in device.entries:
        part = device.below(entry) if entry.startswith(name) else None
        if part is None or "partition" not in part.entries:
            continue
        partition = Partition(
            name=device_name(entry),
            start_bytes=part.count("start", SECTOR_BYTES),
            size_bytes=part.count("size", SECTOR_BYTES),
            alignment_offset_bytes=part.signed("alignment_offset"),
        )
        problem = problem or part.read_error
        if not part.vanished():
            found.append(partition)
    return tuple(found), problem


SOURCE: Source[Mapping[str, Queue]] = Source(
    name="queue",
    period_seconds=60,
    period_help="How often the settings of block devices' queues are read.",
    may_hang=True,
    read=read_queue,
    families=FAMILIES,
    emit=emit,
    restrict=of_whole_devices,
    objects=("device",),
    unreadable=unreadable,
)
