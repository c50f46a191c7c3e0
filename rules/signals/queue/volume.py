"""Volumes: the devices at the top of the stack, which hold file systems, and which are RAID."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.signals.activity import is_real, members

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.block.block_devices import Device, Md, Topology
    from iowarden.collectors.block.queue import Queue
    from iowarden.collectors.block.scsi import ScsiTopology

RAID_DRIVERS = frozenset(
    (
        "3w-xxxx 3w-9xxx 3w-sas aacraid arcmsr cciss dpt_i2o gdth hpsa hptiop ipr ips megaraid"
        " megaraid_legacy megaraid_mbox megaraid_sas mvumi pmcraid smartpqi stex"
    ).split()
)
"""Drivers (proc_name) whose disks are volumes of the adapter's RAID unless the vendor is in
DISK_VENDORS.

From the naming of drivers and vendors; not measured, nor are the vendors below.
"""
DISK_VENDORS = frozenset(
    (
        "ATA FUJITSU HGST HITACHI IBM-ESXS KIOXIA MAXTOR MICRON SAMSUNG SEAGATE TOSHIBA WD WDC"
    ).split()
)
"""INQUIRY vendors of single disks, as such an adapter shows disks in pass-through.

'ATA' is every disk behind SCSI/ATA translation. Source: SAT-4, 8.1.2.
"""
MAX_STRIPE_BYTES = 16 << 20
"""Disks behind USB and some adapters report their largest transfer as optimal size."""


@dataclass(frozen=True, slots=True)
class StackedVolume:
    """A device that holds a file system, and the devices below it. None: not reported."""

    name: str
    leaves: frozenset[str]
    rotational: bool
    raid: bool
    """Several spindles that a read can keep busy at once, as far as reported."""
    stripe_bytes: int | None
    """One chunk of every data disk."""
    read_ahead_bytes: int | None


def tops(topology: Topology) -> tuple[str, ...]:
    """Return the devices at the top: nothing is stacked on them."""
    return tuple(n for n, d in topology.devices.items() if is_real(d) and not d.holders)


def identities(topology: Topology) -> dict[str, str]:
    """Return the identity under which each device at the top is stored: serial number or WWN."""
    result: dict[str, str] = {}
    taken: set[str] = set()
    for name in tops(topology):
        device = topology.devices[name]
        key = device.wwn or device.serial or device.dm_name or name
        key = f"{key} {name}" if key in taken else key  # paths to one disk without a multipath map
        taken.add(key)
        result[name] = key
    return result


def drivers(scsi: ScsiTopology | None) -> dict[str, str]:
    """Return the driver of every SCSI host adapter that reports one."""
    hosts = {} if scsi is None else scsi.hosts
    return {name: host.driver for name, host in hosts.items() if host.driver is not None}


def is_raid_volume(device: Device, host_drivers: Mapping[str, str]) -> bool:
    """Whether a leaf device is a volume of a RAID adapter.

    Limits: a single disk that the adapter shows as a volume of its own cannot be distinguished from
    one.
    """
    if device.name.startswith("cciss/"):
        return True
    driver = host_drivers.get(device.host or "")
    return driver in RAID_DRIVERS and (device.vendor or "").upper() not in DISK_VENDORS


def chunk_bytes(queue: Queue) -> int | None:
    """Return the chunk size that a RAID volume reports as its smallest request without a penalty.

    Source: kernel, ABI/stable/sysfs-block, minimum_io_size. None if it is only a block.
    """
    least = queue.minimum_io_bytes
    return least if least and least > max(queue.physical_block_bytes or 512, 4096) else None


def volumes(
    topology: Topology, queues: Mapping[str, Queue], host_drivers: Mapping[str, str]
) -> tuple[StackedVolume, ...]:
    """Return the volumes of a host whose queues are known."""
    result = []
    for name in tops(topology):
        queue = queues.get(name)
        if queue is None:
            continue
        below = [topology.devices[n] for n in members(topology, name)]
        arrays = [d.md for d in below if d.md is not None]
        striped = [size for md in arrays if (size := _stripe_bytes(md)) is not None]
        leaves = [d for d in below if d.leaf]
        reported = _reported_stripe(queue)
        result.append(
            StackedVolume(
                name=name,
                leaves=frozenset(d.name for d in leaves),
                rotational=any(d.rotational for d in leaves),
                raid=bool(striped or reported)
                or any(is_raid_volume(d, host_drivers) for d in leaves),
                stripe_bytes=max(striped) if striped else reported,
                read_ahead_bytes=queue.read_ahead_bytes,
            )
        )
    return tuple(result)


def _reported_stripe(queue: Queue) -> int | None:
    best, block = queue.optimal_io_bytes, queue.physical_block_bytes or 512
    if not best or best > MAX_STRIPE_BYTES or best % max(queue.minimum_io_bytes or block, 4096):
        return None
    return best


def _stripe_bytes(md: Md) -> int | None:
    """Return chunk size times data disks of a striped array. Source: kernel, admin-guide/md.rst."""
    if not md.chunk_size_bytes or not md.raid_disks:
        return None
    match md.level:
        case "raid0":
            data = md.raid_disks
        case "raid4" | "raid5":
            data = md.raid_disks - 1
        case "raid6":
            data = md.raid_disks - 2
        case "raid10":
            data = md.raid_disks // (md.copies or 2)
        case _:
            return None
    return data * md.chunk_size_bytes if data > 1 else None
