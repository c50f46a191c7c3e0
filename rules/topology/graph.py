"""The storage graph: what carries what, now or within the last 300 s, and what disks share. Pure.

A node is the key of an object's incidents; '' is the host. An edge is 'carries', through every
layer between: an adapter carries the file systems on its disks. sysfs drops a device and its edges
at once; topology.py remembers them. Layers are those of rules/faults.py.
"""

from __future__ import annotations

import functools
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.faults import Layer
from iowarden.rules.topology.device_identity import (
    ADAPTER,
    ARRAY,
    FABRIC,
    adapter_text,
    device_of,
    host_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.rules.topology.device_changes import VanishedDisk
    from iowarden.rules.topology.topology import Dependents

HOST = "host"
_LAYERS = (
    (ADAPTER, Layer.ADAPTER),
    (ARRAY, Layer.VOLUME),
    ("device md", Layer.ARRAY),
    ("pool ", Layer.ARRAY),
    ("device dm-", Layer.MAPPED),
    ("device loop", Layer.MAPPED),
    ("device bcache", Layer.MAPPED),
    ("device drbd", Layer.MAPPED),
    ("device zd", Layer.MAPPED),
    ("device nbd", Layer.NETWORK),
    ("device rbd", Layer.NETWORK),
    ("device zram", Layer.MAPPED),
    ("disk ", Layer.DISK),
    ("device ", Layer.DISK),
    ("file system ", Layer.FILE_SYSTEM),
)


@functools.lru_cache(maxsize=2048)
def layer_of(subject: str) -> Layer:
    """Return the layer of an object, by its key. It is needed for each incident at each step."""
    return next((layer for start, layer in _LAYERS if subject.startswith(start)), Layer.HOST)


@dataclass(frozen=True, slots=True)
class StorageGraph:
    """The storage graph of the host, for explanations and titles.

    Fields: `above` is by object what it carries; `parents` are the disks of each adapter and each
    shelf (SAS expander, else enclosure); `objects` is what a parent is called, if its key is not
    enough; `seen` is when a missing disk was last seen; `maps` are the multipath maps of each disk
    or LUN with paths.
    """

    above: Mapping[str, frozenset[str]] = field(default_factory=dict)
    parents: Mapping[str, frozenset[str]] = field(default_factory=dict)
    objects: Mapping[str, str] = field(default_factory=dict)
    seen: Mapping[str, float] = field(default_factory=dict)
    maps: Mapping[str, frozenset[str]] = field(default_factory=dict)
    _parents_of: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)

    def carries(self, lower: str, upper: str) -> bool:
        """Whether one object is stacked on another, through whatever is between.

        A file system is on the device that its key names, also where its mount was never seen.
        """
        return upper in self.above.get(lower, ()) or lower == (device_of(upper) or None)

    def parents_of(self, disk: str) -> tuple[str, ...]:
        """Return what a disk shares with others, the nearest first: its shelf, its adapter."""
        if not self._parents_of and self.parents:
            for parent in sorted(self.parents, key=self.breadth):
                for below in self.parents[parent]:
                    self._parents_of[below] = (*self._parents_of.get(below, ()), parent)
        return self._parents_of.get(disk, ())

    def common_parent(self, disks: Collection[str]) -> str:
        """Return the nearest object that all of some disks hang off; '' if there is none.

        A disk that left so long ago that its place is forgotten does not count.
        """
        placed = [set(parents) for disk in disks if (parents := self.parents_of(disk))]
        shared = set.intersection(*placed) if placed else set()
        return min(shared, key=self.breadth, default="")

    def breadth(self, parent: str) -> tuple[int, int, str]:
        """Return a sort key of what disks share: an expander comes before its adapter."""
        return len(self.parents.get(parent, ())), len(self.above.get(parent, ())), parent

    def object_of(self, parent: str) -> str:
        """Return the description of an adapter, an expander or the fabric."""
        return self.objects.get(parent) or adapter_text(parent.removeprefix(ADAPTER))

    def all_maps(self) -> frozenset[str]:
        """Return all multipath maps: what the storage fabric carries."""
        return frozenset[str]().union(*self.maps.values())

    def stacked(self) -> set[str]:
        """Return what is stacked on disks, or is a path of a map: it is no disk of an adapter."""
        stood = set(self.maps)
        return stood.union(*(up for low, up in self.above.items() if not low.startswith(ADAPTER)))


FABRIC_KEY = f"{ADAPTER}{FABRIC}"
"""Stands for what several multipath maps have in common."""


def parents(dependents: Dependents, gone: Mapping[str, VanishedDisk]) -> dict[str, frozenset[str]]:
    """Return the disks of each adapter and shelf, with those that are missing."""
    found = {
        key: {each.key for each in above if each.on == key.removeprefix(ADAPTER)}
        for key, above in dependents.now.items()
        if key.startswith(ADAPTER)
    }
    for key, disk in gone.items():
        for parent in filter(None, (disk.adapter, disk.shelf)):
            found.setdefault(f"{ADAPTER}{parent}", set()).add(key)
    return {parent: frozenset(disks) for parent, disks in found.items()}


def with_shelves(
    above: Mapping[str, frozenset[str]], parents: Iterable[str]
) -> dict[str, frozenset[str]]:
    """Return what each object carries, with the shelves of adapters among it."""
    found = dict(above)
    for parent in parents:
        name = parent.removeprefix(ADAPTER)
        if (host := host_of(name)) != name:
            key = f"{ADAPTER}{host}"
            found[key] = found.get(key, frozenset()) | {parent}
    return found


def parent_texts(
    topology: Topology | None, hosts: Mapping[str, str], names: Iterable[str]
) -> dict[str, str]:
    """Return what adapters and shelves are called: with the driver's name, or the SAS address.

    `hosts` are SCSI hosts by the driver's name for them ('mpt3sas_cm0'), `names` the keys.
    """
    drivers = {host: driver for driver, host in hosts.items() if ":" not in driver}
    shelves = {} if topology is None else topology.shelves
    return {
        key: adapter_text(name, drivers.get(name) or shelves.get(name, ""))
        for key in names
        if (name := key.removeprefix(ADAPTER))
    }
