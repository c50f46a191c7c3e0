"""Which disks are traced for a name: the requests of an array or volume are those of its disks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.daemon.trace.protocol import MAX_DEVICES
from iowarden.daemon.trace_client.client import TraceError

if TYPE_CHECKING:
    from iowarden.collectors.block.block_devices import Device, Topology

MAX_NAMED = 20


def targets(topology: Topology, wanted: str) -> tuple[Device, ...]:
    """Return the disks of a name, path, device number or serial number, or the beginning of one.

    Of a partition its whole disk; of an array, a volume or NVMe multipath what is below it, because
    md and device-mapper pass on what they get without requests of their own. Errors: TraceError.
    """
    name = wanted.strip()
    found = topology.whole(name)
    if found is None:
        begin = name.lower()
        same = [
            device
            for device in topology.devices.values()
            if begin and device.leaf and (device.serial or "").lower().startswith(begin)
        ]
        if len(same) != 1:
            shown = [f"{each.name} ({each.serial})" for each in same or _leaves(topology)]
            more = f" and {len(shown) - MAX_NAMED} more" if len(shown) > MAX_NAMED else ""
            what = "one disk" if same else "a device, or the beginning of a serial number"
            raise TraceError(
                f"trace: expected {what}, got '{wanted:.100}'; there are:"
                f" {', '.join(shown[:MAX_NAMED]) or 'none'}{more}"
            )
        (found,) = same
    disks = tuple({each.name: each for each in _below(topology, found)}.values())
    numberless = [each.name for each in disks if each.device_number is None]
    if numberless:
        raise TraceError(
            f"trace: {', '.join(numberless)}: no device number; the kernel hides the paths of NVMe"
            " multipath, and their requests cannot be filtered"
        )
    if len(disks) > MAX_DEVICES:
        raise TraceError(
            f"trace: expected at most {MAX_DEVICES} disks, got {len(disks)} below '{found.name}';"
            " trace its disks"
        )
    return disks


def _below(topology: Topology, device: Device) -> list[Device]:
    """Return the devices whose requests are those of this one."""
    if device.leaf or not device.slaves:
        return [device]
    known = (topology.devices[name] for name in device.slaves if name in topology.devices)
    return [each for slave in known for each in _below(topology, slave)] or [device]


def _leaves(topology: Topology) -> list[Device]:
    return [topology.devices[name] for name in topology.leaves]
