"""Which object an alert is about, by its labels: a disk, an adapter, a file system, the host."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.rules import faults
from iowarden.rules.faults import Fault
from iowarden.rules.topology.device_identity import ITSELF, Identity, adapter_identity, identity

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.model import Labels
    from iowarden.rules.faults import Meaning
    from iowarden.rules.topology.device_changes import Devices

PROGRAM = "ProbeProgramStuck"
"""The alert of a program that hangs: its label 'controller' is all that it may be at."""
_PARTITION = re.compile(r"([a-z]{2,8})[0-9]{1,4}|(.{1,60}[0-9])p[0-9]{1,4}", re.ASCII)
"""Of a disk that ends in a letter, or in a digit. Source: kernel, lib/vsprintf.c, bdev_name."""


def subject(
    topology: Topology | None,
    state: Devices,
    labels: Labels,
    disk: Callable[[str], Identity | None] = lambda _: None,
    controller: Callable[[Labels], Identity | None] = lambda _: None,
) -> Identity:
    """Return what an alert of these labels is about; the key is '' for the host.

    `disk` says which disk a label 'disk' means: its serial number, mostly; `controller` which disk
    or array labels with a 'controller' mean: else it is the controller's matter. A full file system
    is a cause of its own; one that failed is its disk's matter. So is each setting of the host,
    for what is known for months must not hide a stall of today, and iowarden itself.
    """
    own = dict(labels)
    device, mount_point = own.get("device", ""), own.get("mountpoint", "")
    what = faults.meaning(own.get("alertname", ""))
    if by_place(labels):
        return controller(labels) or adapter_identity(own["controller"])
    if mount_point and not (device and what.of_file_system):
        return Identity(f"file system {mount_point}", mount_point)
    if what.of_itself:
        return Identity(ITSELF, "iowarden itself")
    if own.get("disk"):
        named = Identity(f"disk {own['disk']}", own.get("object") or f"disk {own['disk']}")
        return _of_disk(topology, disk(own["disk"]) or named, what)
    if not device and "host" in own:
        return adapter_identity(own["host"])
    if not device and "filesystem" in own:
        return Identity(f"file system {own['filesystem']}", own.get("label") or own["filesystem"])
    if not device:
        setting = what.fault is Fault.SETTING
        return Identity(f"setting {own.get('alertname')}", "host") if setting else Identity("", "")
    for key, gone in state.gone.items():
        if "object" in own and gone.object == own["object"]:
            return Identity(key, gone.object, gone.adapter)
    name = device.removeprefix("/dev/")
    found = identity(topology, name)
    return _last(state, name) or found if found.key == f"device {name}" else found


def _last(state: Devices, name: str) -> Identity | None:
    """Return the last identity of a name, of a partition that of its disk."""
    part = _PARTITION.fullmatch(name)
    disk = part[1] or part[2] if part else ""
    return state.names.get(name) or state.names.get(disk)


def by_place(labels: Labels) -> bool:
    """Whether labels name what they are about by its place at a RAID controller."""
    own = dict(labels)
    return bool(own.get("controller")) and own.get("alertname") != PROGRAM


def _of_disk(topology: Topology | None, own: Identity, what: Meaning) -> Identity:
    """Return a disk; of those that one controller hides, that they cannot be read is its matter."""
    names = () if topology is None else topology.leaves
    hidden = own.adapter and not any(identity(topology, name).key == own.key for name in names)
    return adapter_identity(own.adapter) if hidden and what.fault is Fault.UNREADABLE else own
