"""Which disk it is, and what became of it: identity, and events of devices coming and going. Pure.

A disk is its serial number, not its name: 'sdb' may be another disk tomorrow. What the kernel and
udev announce is only a reason to look; events follow from what '/sys/block' says before and after,
so that a recorded machine gives the same ones.
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Sample
from iowarden.rules import faults
from iowarden.rules.faults import Fault
from iowarden.rules.topology.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from iowarden.collectors.block.block_devices import Device, Topology
    from iowarden.collectors.filesystem.mountinfo import Mount
    from iowarden.collectors.model import Labels
    from iowarden.rules.faults import Meaning

ADAPTER = "adapter "
"""Begins the key of what several disks hang on."""
FABRIC = "fabric"
"""The adapter of what several multipath maps have in common."""
ARRAY = "array "
"""Begins that of a controller's array which is not one block device."""
ITSELF = "iowarden"
"""The key of what is about iowarden and not about the machine."""
PROGRAM = "ProbeProgramStuck"
"""The alert of a program that hangs: its label 'controller' is all that it may be at."""
_PARTITION = re.compile(r"([a-z]{2,8})[0-9]{1,4}|(.{1,60}[0-9])p[0-9]{1,4}", re.ASCII)
"""Of a disk that ends in a letter, or in a digit. Source: kernel, lib/vsprintf.c, bdev_name."""
_PART = re.compile(r"p?[0-9]+|n[0-9]+(?:p[0-9]+)?")
LATELY_SECONDS = 600.0
"""So long the disks that an adapter had count as its own."""
GONE_SECONDS = 7 * 86_400.0
"""So long a disk that vanished is missed."""

FAMILIES = (
    Family(
        "iowarden_device_gone",
        "gauge",
        "1 for a disk that vanished within 7 days, by its last name and what it carried.",
    ),
    Family(
        "iowarden_device_events_total",
        "counter",
        "Block devices that came, went or changed, by event.",
    ),
)


class Change(enum.StrEnum):
    """What became of a device."""

    ADDED = "added"
    REMOVED = "removed"
    RENAMED = "renamed"
    REPLACED = "replaced"
    """Another device has the name of one that is gone."""
    RETURNED = "returned"
    """It was gone, and is there again, under whichever name."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a device is called: the key of its incidents and the words for people."""

    key: str
    object: str
    adapter: str = ""
    """The SCSI host adapter ('host2') it hangs on."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that became of a disk. `was` is its name before, or the disk that had its name."""

    change: Change
    name: str
    identity: Identity
    was: str = ""
    carried: tuple[str, ...] = ()
    """What stood on a device that is gone: arrays, volumes, mount points."""
    path: bool = False
    """Whether only a path is gone: another device of this identity carries all of that as well."""
    held: tuple[tuple[str, str], ...] = ()
    """What of it an array or volume held, by its names then, and who: ('sdb1', 'md0')."""


@dataclass(frozen=True, slots=True)
class Gone:
    """A disk that vanished. Units: seconds of the program's clock."""

    name: str
    object: str
    at_seconds: float
    """When it was last seen."""
    carried: tuple[str, ...] = ()
    left: int = 0
    """How many others of its identity were there: some makers give all disks one serial number."""
    adapter: str = ""
    taken_seconds: float | None = None
    """When another device was first listed under its name."""
    held: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Returned:
    """A disk that is back, or has another name. Units: seconds of the program's clock.

    Fields: `was` is its name before, `name` that of now; `held` is as that of Event.
    """

    was: str
    name: str
    object: str
    at_seconds: float
    held: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Devices:
    """What is known of the disks over time; `gone` by identity. Kept over restarts."""

    gone: dict[str, Gone] = field(default_factory=dict)
    names: dict[str, Identity] = field(default_factory=dict)
    """The last identity of every name."""
    totals: dict[str, int] = field(default_factory=dict)
    """Events so far, by change."""
    returned: dict[str, Returned] = field(default_factory=dict)
    """Disks that came back within GONE_SECONDS, by identity."""


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


def changes(before: Topology, after: Topology, mounts: Iterable[Mount] = ()) -> list[Event]:
    """Return what became of the disks between two looks at '/sys/block'."""
    stack = Stack(before, mounts)
    old = {name: identity(before, name) for name in before.leaves}
    new = {name: identity(after, name) for name in after.leaves}
    fresh = {
        name
        for name in new
        if name not in old or is_another(before.devices[name], after.devices[name])
    }
    left = {name for name in old if name not in new or name in fresh}
    events: list[Event] = []
    moved: set[str] = set()
    for name in sorted(left):
        own = old[name]
        there = sorted(n for n in fresh - moved if n != name and new[n].key == own.key)
        if there and not own.key.startswith("device "):
            moved.add(there[0])
            events.append(Event(Change.RENAMED, there[0], new[there[0]], was=name))
            continue
        carried = stack.used_on(name)
        # What others carry is looked up for those of this identity only: an adapter may have
        # taken many disks with it.
        path = any(
            set(carried) <= set(stack.used_on(other))
            for other in old
            if other in new and other not in fresh and new[other].key == own.key
        )
        if name in fresh and new[name].key != own.key:
            events.append(Event(Change.REPLACED, name, own, new[name].object, carried, path))
        else:
            events.append(Event(Change.REMOVED, name, own, carried=carried, path=path))
    replaced = {event.name for event in events if event.change is Change.REPLACED}
    events += [
        Event(Change.ADDED, name, new[name])
        for name in sorted(fresh - moved)
        if name not in replaced
    ]
    return events


def recognised(state: Devices, events: Iterable[Event]) -> list[Event]:
    """Return events in which a disk that was gone is not a new one."""
    return [
        replace(each, change=Change.RETURNED, was=gone.name, held=gone.held)
        if each.change is Change.ADDED
        and not each.identity.key.startswith("device ")
        and (gone := state.gone.get(each.identity.key)) is not None
        else each
        for each in events
    ]


def step(
    state: Devices,
    events: Iterable[Event],
    after: Topology,
    now: float,
    looked: float | None = None,
) -> Devices:
    """Return what is known after these events; `after` is all there is now.

    `looked` is when the look before was, which saw what is gone.
    """
    names = {**state.names, **{name: identity(after, name) for name in after.leaves}}
    present = Counter(names[name].key for name in after.leaves)
    totals = dict(state.totals)
    gone = {
        key: missed
        for key, missed in state.gone.items()
        if present[key] <= missed.left and now - missed.at_seconds < GONE_SECONDS
    }
    returned = {
        key: back
        for key, back in state.returned.items()
        if present[key] and now - back.at_seconds < GONE_SECONDS
    }
    for event in events:
        totals[event.change.value] = totals.get(event.change.value, 0) + 1
        if event.change in (Change.RETURNED, Change.RENAMED):
            own = event.identity
            back = Returned(event.was, event.name, own.object, now, event.held)
            returned[own.key] = back
        if event.change in (Change.REMOVED, Change.REPLACED) and not event.path:
            key = event.identity.key
            gone[key] = Gone(
                event.name,
                event.identity.object,
                now if looked is None else looked,
                event.carried,
                present[key],
                event.identity.adapter,
                held=event.held,
            )
    gone = {
        key: replace(missed, taken_seconds=now)
        if missed.taken_seconds is None and missed.name in after.leaves
        else missed
        for key, missed in gone.items()
    }
    missed = {entry.name for entry in gone.values()}
    kept = {name: own for name, own in names.items() if name in after.leaves or name in missed}
    return replace(state, gone=gone, names=kept, totals=totals, returned=returned)


def lately_gone(state: Devices, now: float) -> dict[str, Gone]:
    """Return by identity the disks that vanished a moment ago."""
    return {k: each for k, each in state.gone.items() if now - each.at_seconds <= LATELY_SECONDS}


def samples(state: Devices) -> list[Sample]:
    """Return the samples of FAMILIES; the counters of events exist from the start."""
    result: list[Sample] = [
        (
            "iowarden_device_gone",
            (
                ("carried", ", ".join(entry.carried)),
                ("device", entry.name),
                ("object", entry.object),
            ),
            1.0,
        )
        for entry in state.gone.values()
    ]
    result += [
        (
            "iowarden_device_events_total",
            (("event", change.value),),
            float(state.totals.get(change.value, 0)),
        )
        for change in Change
    ]
    return result


def is_another(before: Device, after: Device) -> bool:
    """Whether two devices of one name are two: DISKSEQ counts every disk that ever came up.

    Source: kernel, ABI/stable/sysfs-block (diskseq, 5.15+). Without it a serial number tells, if
    both could be read.
    """
    if before.diskseq is not None and after.diskseq is not None:
        return before.diskseq != after.diskseq
    if before.serial and after.serial:
        return before.serial != after.serial
    return bool(before.wwn and after.wwn and before.wwn != after.wwn)


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
