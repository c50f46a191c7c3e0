"""Machines made of a few numbers, for tests of what is concluded from them."""

from __future__ import annotations

from iowarden.collectors.block import Device, Md, Topology
from iowarden.collectors.diskstats import BlockIo


def block(
    device: str,
    *,
    reads: int = 0,
    writes: int = 0,
    written: int = 0,
    in_flight: int = 0,
) -> BlockIo:
    """Return a line of '/proc/diskstats'; `written` in bytes."""
    counters = (reads, 0, 0, 0, writes, 0, written // 512, 0, in_flight, 0, 0, 0, 0, 0, 0, 0, 0)
    return BlockIo(device, 8, 0, counters)


def disk(
    name: str,
    *,
    slaves: tuple[str, ...] = (),
    holders: tuple[str, ...] = (),
    leaf: bool = True,
    md: Md | None = None,
    serial: str | None = None,
    model: str | None = None,
    vendor: str | None = None,
    timeout_seconds: float | None = 30.0,
) -> Device:
    """Return a device of '/sys/block'."""
    return Device(
        name=name,
        device_number="8:0",
        slaves=slaves,
        holders=holders,
        partitions=(),
        leaf=leaf,
        size_bytes=10**12,
        rotational=True,
        model=model,
        vendor=vendor,
        serial=serial,
        wwn=None,
        timeout_seconds=timeout_seconds,
        nr_requests=64,
        read_ahead_bytes=131_072,
        host="host0",
        dm_name=None,
        dm_suspended=None,
        md=md,
    )


def topology(*devices: Device) -> Topology:
    """Return a machine with these devices."""
    return Topology({d.name: d for d in devices}, tuple(d.name for d in devices if d.leaf))
