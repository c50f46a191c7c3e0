"""What the steps of one advice see: the alert, its device, disks, arrays. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from iowarden.rules.advice.facts import Facts, Kind, Membership
from iowarden.rules.topology.device_identity import ADAPTER, named_now

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iowarden.collectors.block.block_devices import Device

MOST_DISKS = 24
"""Disks of an adapter, and members of an array, that a step names."""


@dataclass(frozen=True, slots=True)
class About:
    """What advice is for.

    Fields: `labels` are an alert's; `subject` is the key of what it is about; `others` are the
    labels of alerts of the same name, where one advice is for all of them; `over`: its condition
    does not hold any more; `part` is the partition that it is about, where labels name the disk.
    """

    labels: Mapping[str, str]
    subject: str = ""
    others: Sequence[Mapping[str, str]] = ()
    over: bool = False
    part: str = ""

    @property
    def name(self) -> str:
        """Return the device that it is about: of an array's member the member, '' for none."""
        found = self.labels.get("member") or self.labels.get("device", "")
        return found.removeprefix("/dev/")


class Step:
    """What the steps of one advice see."""

    def __init__(self, facts: Facts, about: About) -> None:
        self.facts, self.about = facts, about
        self.own = dict(about.labels)
        self.name = named_now(facts.of.map.topology, about.subject, about.name)
        self.device = self._device()
        self.kind = None if self.device is None else facts.kind(self.device)
        self.adapter = self._adapter()

    def _device(self) -> Device | None:
        """Return the block device that it is about, if there is one now."""
        if self.name:
            return self.facts.device(self.name)
        covered = self.facts.of.map.covered.get(self.own.get("disk", ""))
        leaves = [] if covered is None else [self.facts.device(leaf) for leaf in covered.leaves]
        return next((each for each in leaves if each is not None), None)

    def _adapter(self) -> str:
        """Return the SCSI host that as a whole is in trouble, where this is about that."""
        if self.about.subject.startswith(ADAPTER):
            return self.about.subject.removeprefix(ADAPTER)
        return self.own.get("host", "")

    def widened(self) -> Step:
        """Return the same about the adapter of its disk, where that is in trouble as a whole."""
        host = self.device.host if self.device and self.kind in {Kind.ATA, Kind.SCSI} else None
        if self.adapter or not host or host not in self.facts.of.adapters:
            return self
        return Step(self.facts, replace(self.about, subject=f"{ADAPTER}{host}"))

    def whole(self) -> str:
        """Return the name to look for in the log and in arrays: of the disk, else as labelled."""
        return self.name if self.device is None else self.device.name

    def disks(self) -> list[Device]:
        """Return the disks below it; of an adapter those that alerts are about, else all of it."""
        if self.adapter:
            named = (About(each).name for each in (self.own, *self.about.others))
            found = {d.name: d for name in named if name and (d := self.facts.device(name))}
            everything = (d for d in self.facts.atlas.devices if d.leaf and d.host == self.adapter)
            return list(found.values()) or list(everything)
        return [] if self.device is None else list(self.facts.leaves(self.device))

    def shown(self) -> str:
        """Return the name of its device as people call it: of LVM and multipath their own."""
        return self.name if self.device is None else self.device.dm_name or self.device.name

    def arrays(self) -> list[str]:
        """Return the array it is about, or those that it is a member of."""
        arrays = self.facts.of.map.arrays
        for name in (self.own.get("device", "").removeprefix("/dev/"), self.name):
            if name in arrays:
                return [name]
        if not self.whole():
            return []
        return list(dict.fromkeys(m.array.name for m in self.memberships()))

    def memberships(self) -> list[Membership]:
        """Return what it is a member of; a path is one of its map alone."""
        if self.kind is Kind.PATH or not self.whole():
            return []
        return self.facts.memberships(self.name or self.whole())


def listed(names: Iterable[str]) -> str:
    """Return names in a row; of many the first, and how many more there are."""
    found = list(dict.fromkeys(names))
    more = len(found) - MOST_DISKS
    return ", ".join(found[:MOST_DISKS]) + (f" and {more} more" if more > 0 else "")


def counted(number: int, what: str) -> str:
    """Return '1 path' or '2 paths'."""
    return f"{number} {what}{'s' if number != 1 else ''}"
