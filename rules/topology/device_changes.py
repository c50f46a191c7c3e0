"""Disks that come, go, change their name or come back, by two looks at '/sys/block'. Pure.

What the kernel and udev announce is only a reason to look; events follow from what '/sys/block'
says before and after, so that a recorded machine gives the same ones.
Units: seconds of the program's clock.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Sample
from iowarden.rules.topology.device_identity import Identity, identity
from iowarden.rules.topology.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.collectors.block.block_devices import Device, Topology
    from iowarden.collectors.filesystem.mountinfo import Mount

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
