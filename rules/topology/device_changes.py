"""Device changes: disks added, removed, renamed or returned, from '/sys/block' over time. Pure.

Uevents of the kernel and udev only trigger a reading; changes follow from the two contents of
'/sys/block', so that a recording gives the same ones. Units: seconds of the program's clock.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.rules.topology.device_identity import Identity, identity
from iowarden.rules.topology.stack import DeviceStack

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.collectors.block.block_devices import Device, Topology
    from iowarden.collectors.filesystem.mountinfo import Mount

LATELY_SECONDS = 600.0
"""For so long the former disks of an adapter count as its own."""
GONE_SECONDS = 7 * 86_400.0
"""For so long a removed disk is reported as missing."""

FAMILIES = (
    Family(
        "iowarden_device_removed",
        "gauge",
        "1 for a disk removed within the last 7 days, by its last name and what was stacked on it.",
    ),
    Family(
        "iowarden_device_events_total",
        "counter",
        "Block devices added, removed or changed, by event.",
    ),
)


class DeviceChangeKind(enum.StrEnum):
    """Kinds of device changes."""

    ADDED = "added"
    REMOVED = "removed"
    RENAMED = "renamed"
    REPLACED = "replaced"
    """Another device has taken over the name of a removed one."""
    RETURNED = "returned"
    """It had been removed and is present again, under any name."""


@dataclass(frozen=True, slots=True)
class DeviceChange:
    """A change of a disk. `was` is its earlier name, or the disk that had its name before."""

    change: DeviceChangeKind
    name: str
    identity: Identity
    was: str = ""
    carried: tuple[str, ...] = ()
    """What was stacked on a removed device: arrays, volumes, mount points."""
    path: bool = False
    """Whether only a path was removed: another device of this identity has the same above it."""
    members: tuple[tuple[str, str], ...] = ()
    """Partitions that an array or volume held, by their names then, with the holder: ('sdb1',
    'md0')."""
    shelf: str = ""
    """The SAS expander, or the enclosure, of a removed device."""
    address: str = ""
    """The SCSI address of a removed device."""


@dataclass(frozen=True, slots=True)
class VanishedDisk:
    """A removed disk. Units: seconds of the program's clock."""

    name: str
    object: str
    at_seconds: float
    """When it was last present."""
    carried: tuple[str, ...] = ()
    twins: int = 0
    """How many others of its identity were present: some vendors give all disks one serial
    number."""
    adapter: str = ""
    taken_seconds: float | None = None
    """When another device first had its name."""
    members: tuple[tuple[str, str], ...] = ()
    shelf: str = ""
    """Its SAS expander ('expander-1:0'), else its enclosure ('enclosure 1:0:9:0')."""
    address: str = ""
    """Its SCSI address in this boot ('2:0:1:0'), by which the kernel's log still calls it."""


@dataclass(frozen=True, slots=True)
class ReturnedDisk:
    """A disk that has returned, or has another name. Units: seconds of the program's clock.

    Fields: `was` is its earlier name, `name` the current one; `members` is as in DeviceChange.
    """

    was: str
    name: str
    object: str
    at_seconds: float
    members: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Devices:
    """History of the disks; `gone` by identity. Stored over restarts."""

    gone: dict[str, VanishedDisk] = field(default_factory=dict)
    names: dict[str, Identity] = field(default_factory=dict)
    """The last identity that each name had."""
    totals: dict[str, int] = field(default_factory=dict)
    """Number of events so far, by change."""
    returned: dict[str, ReturnedDisk] = field(default_factory=dict)
    """Disks that returned within GONE_SECONDS, by identity."""


def changes(before: Topology, after: Topology, mounts: Iterable[Mount] = ()) -> list[DeviceChange]:
    """Return the changes of disks between two readings of '/sys/block'."""
    stack = DeviceStack(before, mounts)
    old = {name: identity(before, name) for name in before.leaves}
    new = {name: identity(after, name) for name in after.leaves}
    fresh = {
        name
        for name in new
        if name not in old or is_another(before.devices[name], after.devices[name])
    }
    left = {name for name in old if name not in new or name in fresh}
    events: list[DeviceChange] = []
    moved: set[str] = set()
    for name in sorted(left):
        own = old[name]
        there = sorted(n for n in fresh - moved if n != name and new[n].key == own.key)
        if there and not own.key.startswith("device "):
            moved.add(there[0])
            events.append(DeviceChange(DeviceChangeKind.RENAMED, there[0], new[there[0]], was=name))
            continue
        was = before.devices[name]
        carried, shelf, address = stack.used_on(name), was.shelf or "", was.address or ""
        # What is stacked on others is computed for those of this identity only: an adapter may
        # have lost many disks at once.
        path = any(
            set(carried) <= set(stack.used_on(other))
            for other in old
            if other in new and other not in fresh and new[other].key == own.key
        )
        if name in fresh and new[name].key != own.key:
            events.append(
                DeviceChange(
                    DeviceChangeKind.REPLACED,
                    name,
                    own,
                    new[name].object,
                    carried,
                    path,
                    shelf=shelf,
                    address=address,
                )
            )
        else:
            events.append(
                DeviceChange(
                    DeviceChangeKind.REMOVED,
                    name,
                    own,
                    carried=carried,
                    path=path,
                    shelf=shelf,
                    address=address,
                )
            )
    replaced = {event.name for event in events if event.change is DeviceChangeKind.REPLACED}
    events += [
        DeviceChange(DeviceChangeKind.ADDED, name, new[name])
        for name in sorted(fresh - moved)
        if name not in replaced
    ]
    return events


def recognized(state: Devices, events: Iterable[DeviceChange]) -> list[DeviceChange]:
    """Return the events with returned disks marked as such instead of as new ones."""
    return [
        replace(each, change=DeviceChangeKind.RETURNED, was=gone.name, members=gone.members)
        if each.change is DeviceChangeKind.ADDED
        and not each.identity.key.startswith("device ")
        and (gone := state.gone.get(each.identity.key)) is not None
        else each
        for each in events
    ]


def next_devices(
    state: Devices,
    events: Iterable[DeviceChange],
    after: Topology,
    now: float,
    last_read_seconds: float | None = None,
) -> Devices:
    """Return the history after these events; `after` is the current topology.

    `last_read_seconds` is the time of the reading before, in which the removed disks were still
    present.
    """
    names = {**state.names, **{name: identity(after, name) for name in after.leaves}}
    present = Counter(names[name].key for name in after.leaves)
    totals = dict(state.totals)
    gone = {
        key: missed
        for key, missed in state.gone.items()
        if present[key] <= missed.twins and now - missed.at_seconds < GONE_SECONDS
    }
    returned = {
        key: back
        for key, back in state.returned.items()
        if present[key] and now - back.at_seconds < GONE_SECONDS
    }
    for event in events:
        totals[event.change.value] = totals.get(event.change.value, 0) + 1
        if event.change in (DeviceChangeKind.RETURNED, DeviceChangeKind.RENAMED):
            own = event.identity
            back = ReturnedDisk(event.was, event.name, own.object, now, event.members)
            returned[own.key] = back
        if event.change in (DeviceChangeKind.REMOVED, DeviceChangeKind.REPLACED) and not event.path:
            key = event.identity.key
            gone[key] = VanishedDisk(
                event.name,
                event.identity.object,
                now if last_read_seconds is None else last_read_seconds,
                event.carried,
                present[key],
                event.identity.adapter,
                members=event.members,
                shelf=event.shelf,
                address=event.address,
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


def without_addresses(state: Devices, booted: float) -> Devices:
    """Return the history without addresses from before a boot: others may have them now."""
    gone = {
        key: replace(each, address="") if each.at_seconds < booted and each.address else each
        for key, each in state.gone.items()
    }
    return replace(state, gone=gone)


def lately_gone(state: Devices, now: float) -> dict[str, VanishedDisk]:
    """Return by identity the disks that were removed within LATELY_SECONDS."""
    return {k: each for k, each in state.gone.items() if now - each.at_seconds <= LATELY_SECONDS}


def samples(state: Devices) -> list[Sample]:
    """Return the samples of FAMILIES; the counters of events exist from the start."""
    result: list[Sample] = [
        (
            "iowarden_device_removed",
            (
                ("used_by", ", ".join(entry.carried)),
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
        for change in DeviceChangeKind
    ]
    return result


def is_another(before: Device, after: Device) -> bool:
    """Whether two devices of one name are different disks: DISKSEQ counts every disk added.

    Source: kernel, ABI/stable/sysfs-block (diskseq, 5.15+). Without it the serial numbers decide,
    if both were read.
    """
    if before.diskseq is not None and after.diskseq is not None:
        return before.diskseq != after.diskseq
    if before.serial and after.serial:
        return before.serial != after.serial
    return bool(before.wwn and after.wwn and before.wwn != after.wwn)
