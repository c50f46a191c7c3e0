"""Identity of a disk: the key of its incidents, and its description. Pure.

A disk is identified by its serial number, not its name: 'sdb' may be another disk tomorrow.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.printable import name as safe_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.filesystem.mountinfo import Mount

ADAPTER = "adapter "
"""Prefix of the key of a host adapter, which several disks share."""
EXPANDER = "expander-"
"""Beginning of the name of a SAS expander; then its host's number, and its own."""
ENCLOSURE = "enclosure "
"""Beginning of the name of an enclosure; then the SCSI address of its processor: '1:0:9:0'."""
FABRIC = "fabric"
"""The adapter that stands for what several multipath maps share."""
ARRAY = "array "
"""Prefix of the key of a controller's array that is not one block device."""
FILE_SYSTEM_AT = "file system at "
"""Prefix of the key of a file system on one device: then its part and the key of the device."""
ITSELF = "iowarden"
"""The key for iowarden itself, not the host."""
_PART = re.compile(r"p?[0-9]+|n[0-9]+(?:p[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of a device: the key of its incidents and its description."""

    key: str
    object: str
    adapter: str = ""
    """Its SCSI host adapter ('host2')."""

    def __post_init__(self) -> None:
        """Make the description one line: a mount point may have line ends in its name."""
        object.__setattr__(self, "object", safe_name(self.object))


def is_part(name: str, device: str) -> bool:
    """Return whether `name` is `device`, or a partition or namespace of it."""
    rest = name.removeprefix(device)
    return bool(device) and name.startswith(device) and (not rest or bool(_PART.fullmatch(rest)))


def identity(topology: Topology | None, name: str) -> Identity:
    """Return the identity of a device: its serial number, else its WWN, else its name.

    A partition has the identity of its disk; '/dev/mapper/NAME', a device number and the kernel's
    name are equivalent.
    """
    device = None if topology is None else topology.whole(name)
    if device is None:
        return Identity(f"device {name}", name)
    model = " ".join(word for word in (device.vendor, device.model) if word)
    words = [word for word in (model, f"serial {device.serial}" if device.serial else "") if word]
    if device.serial:
        key = f"disk {device.vendor or ''} {device.model or ''} {device.serial}"
    else:
        key = f"disk {device.wwn}" if device.wwn else f"device {device.name}"
    if device.dm_name:  # by the name that its owner gave it; its number changes with a boot
        return Identity(key, f"{device.dm_name} ({device.name})", device.host or "")
    shown = ", ".join(words)
    name = f"{device.name} ({shown})" if shown else device.name
    return Identity(key, name, device.host or "")


def named_now(topology: Topology | None, key: str, name: str) -> str:
    """Return the current name of a disk that was `name`: it changes with a boot or another port.

    `key` is that of its incidents, or of those of its file system. '' if it is absent and another
    disk has its name.
    """
    key = device_of(key) or key
    if topology is None or not key.startswith("disk "):
        return name
    own, kernel = topology.whole(name), topology.kernel_name(name)
    match = _DISK_NAME.fullmatch(kernel)
    if own is None and match is None:  # of a RAID tool, a map that is gone
        return name
    if own is not None and (not own.serial or identity(topology, name).key == key):
        return name
    now = next((n for n in sorted(topology.devices) if identity(topology, n).key == key), "")
    if not now:
        return name if own is None else ""
    part = kernel.removeprefix(own.name) if own is not None else (match and match[1]) or ""
    number = part.removeprefix("p")
    return f"{now}{'p' if now[-1:].isdigit() else ''}{number}" if number else now


_PARTITION = re.compile(r"(?:(?:[hsv]d|xvd)[a-z]+(?=\d)|.*\d(?=p\d))(p?\d+)")
"""Names of partitions: 'sda1', 'nvme0n1p2'. Source: kernel, block/partitions/core.c (part_devt: a
'p' after a digit)."""
_DISK_NAME = re.compile(r"(?:(?:[hsv]d|xvd)[a-z]+|nvme\d+n\d+(?=p|$)|mmcblk\d+(?=p|$))(p?\d+)?")
"""Names of disks and their partitions, by which a disk that left may be known."""


def file_system_key(topology: Topology | None, name: str, device_key: str) -> str:
    """Return the key of the file system on a device or partition, whose disk has another one."""
    device = None if topology is None else topology.whole(name)
    kernel = name if topology is None else topology.kernel_name(name)
    if device is not None:
        part = kernel.removeprefix(device.name)
    else:  # the disk is gone, and sysfs with it
        match = _PARTITION.fullmatch(kernel)
        part = match[1] if match else ""
    return f"{FILE_SYSTEM_AT}{part or '-'} {device_key}"


def device_of(key: str) -> str:
    """Return the key of the device that a file system is on, by its own; '' if it has none."""
    at = key.startswith(FILE_SYSTEM_AT)
    return key.removeprefix(FILE_SYSTEM_AT).partition(" ")[2] if at else ""


def adapter_identity(name: str) -> Identity:
    """Return the identity of an adapter: of 'host2', or of a controller's own name."""
    return Identity(f"{ADAPTER}{name}", adapter_text(name))


def adapter_text(name: str, driver: str = "") -> str:
    """Return the description of what several disks have in common.

    `driver` is the driver's name for an adapter, or the SAS address of an expander or enclosure.
    """
    if name == FABRIC:
        return "storage fabric (what the multipath maps have in common)"
    if name.startswith(EXPANDER):
        return f"{name} (SAS expander {driver and f'{driver} '}of {host_of(name)})"
    if name.startswith(ENCLOSURE):
        return f"{name} ({driver and f'{driver} '}of {host_of(name)})"
    if name.startswith("host"):
        return f"{name} (SCSI host adapter{driver and f', {driver}'})"
    return (
        name if " " in name else f"{name} (controller)"
    )  # with blanks it is a description already


def host_of(name: str) -> str:
    """Return the SCSI host of an expander or an enclosure; any other adapter as it is."""
    for start in (EXPANDER, ENCLOSURE):
        if name.startswith(start):
            return f"host{name.removeprefix(start).partition(':')[0]}"
    return name


def with_sources(topology: Topology, mounts: Iterable[Mount]) -> Topology:
    """Return the devices with the names by which they were mounted: '/dev/root', '/dev/disk/…'."""
    found = {
        each.source.removeprefix("/dev/"): topology.names[each.device_number]
        for each in mounts
        if each.source.startswith("/dev/") and each.device_number in topology.names
    }
    known = {*topology.devices, *topology.names, *topology.names.values()}
    new = {name: device for name, device in found.items() if name not in known}
    return replace(topology, names={**topology.names, **new}) if new else topology
