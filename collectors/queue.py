"""Settings of block devices' request queues, from '/sys/block/*/queue' and their partitions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a device. Source: kernel, ABI/stable/sysfs-block."""

    name: str
    start_bytes: int | None
    size_bytes: int | None
    alignment_offset_bytes: int | None


@dataclass(frozen=True, slots=True)
class Queue:
    """The queue of one whole device. None: the kernel does not tell.

    Source: kernel, block/queue-sysfs.rst; ABI/stable/sysfs-block.
    """

    device: str
    scheduler: str | None
    """The one in force: 'none', 'mq-deadline', 'bfq', 'cfq' ..."""
    schedulers: tuple[str, ...]
    read_ahead_bytes: int | None
    nr_requests: int | None
    max_sectors_bytes: int | None
    """Largest request the block layer sends (max_sectors_kb)."""
    max_hw_sectors_bytes: int | None
    minimum_io_bytes: int | None
    optimal_io_bytes: int | None
    """0: the device does not say."""
    physical_block_bytes: int | None
    logical_block_bytes: int | None
    chunk_bytes: int | None
    """chunk_sectors: 0 where there is none."""
    alignment_offset_bytes: int | None
    rotational: bool | None
    write_cache: str | None
    """'write back' or 'write through'."""
    read_only: bool | None
    size_bytes: int | None
    partitions: tuple[Partition, ...]
