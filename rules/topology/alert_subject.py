"""The subject of an alert, from its labels: a disk, an adapter, a file system, the host."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.zfs.pool_state import POOL
from iowarden.rules import faults
from iowarden.rules.faults import Fault
from iowarden.rules.topology.device_identity import ITSELF, Identity, adapter_identity, identity
from iowarden.rules.topology.stack import FILE_SYSTEM
from iowarden.rules.topology.topology import NO_DEPENDENTS, file_system, mounted_from

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.model import Labels
    from iowarden.rules.faults import Meaning
    from iowarden.rules.topology.device_changes import Devices
    from iowarden.rules.topology.topology import Dependents

PROGRAM = "ProbeProgramStuck"
"""The alert of a hung program: the host of its label 'controller' is its only subject."""
_PARTITION = re.compile(r"([a-z]{2,8})[0-9]{1,4}|(.{1,60}[0-9])p[0-9]{1,4}", re.ASCII)
"""Of a disk whose name ends in a letter, or in a digit. Source: kernel, lib/vsprintf.c,
bdev_name."""


def subject(
    topology: Topology | None,
    state: Devices,
    labels: Labels,
    disk: Callable[[str], Identity | None] = lambda _: None,
    controller: Callable[[Labels], Identity | None] = lambda _: None,
    dependents: Dependents = NO_DEPENDENTS,
) -> Identity:
    """Return the subject of an alert with these labels; the key is '' for the host.

    `disk` gives the identity for a label 'disk', mostly a serial number; `controller` gives the
    disk or array for labels with a 'controller': without it the subject is the controller. A full
    file system is a subject of its own; a failed one belongs to its disk. So are each setting of
    the host, because a setting known for months must not hide a stall of today, and iowarden
    itself. That an array gave up a member is a matter of that disk: the array may be whole.
    """
    own = dict(labels)
    device, mount_point = own.get("device", ""), own.get("mountpoint", "")
    what = faults.meaning(own.get("alertname", ""))
    if what.fault is Fault.MARKED_FAULTY:
        device = own.get("member", device)
    if by_place(labels):
        return controller(labels) or adapter_identity(own["controller"])
    if mount_point and not (device and what.of_file_system):
        return Identity(f"file system {mount_point}", mount_point)
    if what.of_itself:
        return Identity(ITSELF, "iowarden itself")
    if own.get("disk"):
        named = Identity(f"disk {own['disk']}", own.get("object") or f"disk {own['disk']}")
        return _of_disk(topology, disk(own["disk"]) or named, what)
    if not device and (other := _of_no_device(own)) is not None:
        return other
    if not device:
        setting = what.fault is Fault.SETTING
        return Identity(f"setting {own.get('alertname')}", "host") if setting else Identity("", "")
    if device.startswith(POOL):
        return pool(device.removeprefix(POOL))
    for key, gone in state.gone.items():
        if "object" in own and gone.object == own["object"]:
            return Identity(key, gone.object, gone.adapter)
    if (":" in device or device.startswith("//")) and (served := mounted_from(dependents, device)):
        return served
    name = device.removeprefix("/dev/")
    found = identity(topology, name)
    if found.key == f"device {name}":
        found = _last(state, name) or found
    return (
        _of_file_system(topology, dependents, found, name, mount_point)
        if what.of_file_system
        else found
    )


def _of_no_device(own: Mapping[str, str]) -> Identity | None:
    """Return the adapter, pool, directory or file system that labels name; None: they name none."""
    if "host" in own:
        return adapter_identity(own["host"])
    if own.get("pool"):
        return pool(own["pool"])
    if own.get("directory"):
        return Identity(f"directory {own['directory']}", own["directory"])
    if "fsid" in own:
        return Identity(f"file system {own['fsid']}", own.get("label") or own["fsid"])
    return None


def _of_file_system(
    topology: Topology | None, dependents: Dependents, on: Identity, name: str, mount_point: str
) -> Identity:
    """Return the file system on a device; the device itself if it is not known: 'tank/home'."""
    if several := of_btrfs(topology, name, mount_point):
        return several
    is_known = on.key != f"device {name}" or (topology is not None and topology.whole(name))
    return file_system(dependents, topology, name, on, mount_point) if is_known else on


def of_btrfs(topology: Topology | None, name: str, mount_point: str = "") -> Identity | None:
    """Return a btrfs by the name of one of its devices; None for its only device, and for others.

    The mount table and the kernel's log name any one of several devices. How many there are is not
    known before Linux 5.6: there it may be one of several that is left.
    """
    system = None if topology is None else topology.btrfs.get(topology.kernel_name(name))
    if system is None or system.device_count == 1:
        return None
    return Identity(f"{FILE_SYSTEM}{system.uuid}", mount_point or f"btrfs {system.uuid}")


def _last(state: Devices, name: str) -> Identity | None:
    """Return the last identity of a name; of a partition that of its disk."""
    part = _PARTITION.fullmatch(name)
    disk = part[1] or part[2] if part else ""
    return state.names.get(name) or state.names.get(disk)


def pool(name: str) -> Identity:
    """Return a ZFS pool, by the name that it is imported under."""
    return Identity(f"{POOL}{name}", f"{POOL}{name}")


def by_place(labels: Labels) -> bool:
    """Whether labels identify their object by its location at a RAID controller."""
    own = dict(labels)
    return bool(own.get("controller")) and own.get("alertname") != PROGRAM


def _of_disk(topology: Topology | None, own: Identity, what: Meaning) -> Identity:
    """Return a disk; of a hidden disk that cannot be read its controller is the subject."""
    names = () if topology is None else topology.leaves
    hidden = own.adapter and not any(identity(topology, name).key == own.key for name in names)
    return adapter_identity(own.adapter) if hidden and what.fault is Fault.UNREADABLE else own
