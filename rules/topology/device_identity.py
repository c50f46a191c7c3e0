"""Which disk it is: what its incidents go by, and what people are told. Pure.

A disk is its serial number, not its name: 'sdb' may be another disk tomorrow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.filesystem.mountinfo import Mount

ADAPTER = "adapter "
"""Begins the key of what several disks hang on."""
FABRIC = "fabric"
"""The adapter of what several multipath maps have in common."""
ARRAY = "array "
"""Begins that of a controller's array which is not one block device."""
ITSELF = "iowarden"
"""The key of what is about iowarden and not about the machine."""
_PART = re.compile(r"p?[0-9]+|n[0-9]+(?:p[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Identity:
    """What a device is called: the key of its incidents and the words for people."""

    key: str
    object: str
    adapter: str = ""
    """The SCSI host adapter ('host2') it hangs on."""


def is_part(name: str, device: str) -> bool:
    """Return whether `name` is `device`, or a partition or namespace of it."""
    rest = name.removeprefix(device)
    return bool(device) and name.startswith(device) and (not rest or bool(_PART.fullmatch(rest)))


def identity(topology: Topology | None, name: str) -> Identity:
    """Return what a device's incidents go by: its serial number, else its WWN, else its name.

    A partition is its disk; '/dev/mapper/NAME', a device number and the kernel's name are one.
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
    shown = device.dm_name or ", ".join(words)
    name = f"{device.name} ({shown})" if shown else device.name
    return Identity(key, name, device.host or "")


def named_now(topology: Topology | None, key: str, name: str) -> str:
    """Return what a disk is called now that was `name`: names of disks move with each boot.

    `key` is what its incidents go by. '' where another disk has its name, and it is not there.
    """
    own = None if topology is None else topology.whole(name)
    if topology is None or own is None or not own.serial or not key.startswith("disk "):
        return name
    if identity(topology, name).key == key:
        return name
    now = next((n for n in sorted(topology.devices) if identity(topology, n).key == key), "")
    number = topology.kernel_name(name).removeprefix(own.name).removeprefix("p")
    return f"{now}{'p' if now[-1:].isdigit() else ''}{number}" if now and number else now


def adapter_identity(name: str) -> Identity:
    """Return what the incidents of an adapter go by: of 'host2', or of a controller's own name."""
    return Identity(f"{ADAPTER}{name}", adapter_text(name))


def adapter_text(name: str, driver: str = "") -> str:
    """Return what people are told that disks have in common."""
    if name == FABRIC:
        return "storage fabric (what the multipath maps have in common)"
    if name.startswith("host"):
        return f"{name} (SCSI host adapter{driver and f', {driver}'})"
    return name if " " in name else f"{name} (controller)"  # with blanks it is words already


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
