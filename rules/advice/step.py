"""The input of the steps of advice: the alert, its device, disks and arrays. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.printable import name as safe_name
from iowarden.rules.advice.facts import DeviceKind, Facts, Membership
from iowarden.rules.topology.device_identity import ADAPTER, host_of, named_now

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iowarden.collectors.block.block_devices import Device

MAX_DISKS = 24
"""Disks of an adapter, and members of an array, that a step names."""


@dataclass(frozen=True, slots=True)
class AdviceSubject:
    """The alert that advice is for.

    Fields: `labels` of the alert; `subject` is the key of its object; `others` are the labels of
    alerts of the same name, if one advice is for all of them; `over`: its condition no longer
    holds; `part` is the partition that it is about, if the labels name the disk.
    """

    labels: Mapping[str, str]
    subject: str = ""
    others: Sequence[Mapping[str, str]] = ()
    over: bool = False
    part: str = ""

    @property
    def name(self) -> str:
        """Return the name of its device: an array's member if there is one, '' for none."""
        found = self.labels.get("member") or self.labels.get("device", "")
        return found.removeprefix("/dev/")


class StepContext:
    """The input of the steps of one advice."""

    def __init__(self, facts: Facts, about: AdviceSubject) -> None:
        self.facts, self.about = facts, about
        self.own = {label: safe_name(text) for label, text in about.labels.items()}
        self.name = named_now(facts.of.map.topology, about.subject, about.name)
        self.device = self._device()
        self.kind = None if self.device is None else facts.kind(self.device)
        self.adapter = self._adapter()

    def _device(self) -> Device | None:
        """Return its block device, if that exists now."""
        if self.name:
            return self.facts.device(self.name)
        covered = self.facts.of.map.disks.get(self.own.get("disk", ""))
        leaves = [] if covered is None else [self.facts.device(leaf) for leaf in covered.leaves]
        return next((each for each in leaves if each is not None), None)

    def _adapter(self) -> str:
        """Return the SCSI host, if the alert is about a faulty SCSI host as a whole."""
        if self.about.subject.startswith(ADAPTER):
            return host_of(self.about.subject.removeprefix(ADAPTER))
        return self.own.get("host", "")

    def widened(self) -> StepContext:
        """Return the step for the adapter of its disk, if that is faulty as a whole."""
        host = (
            self.device.host
            if self.device and self.kind in {DeviceKind.ATA, DeviceKind.SCSI}
            else None
        )
        if self.adapter or not host or host not in self.facts.of.adapters:
            return self
        return StepContext(self.facts, replace(self.about, subject=f"{ADAPTER}{host}"))

    def whole(self) -> str:
        """Return the name to search in the log and in arrays: of the disk, else of the label."""
        return self.name if self.device is None else self.device.name

    def disks(self) -> list[Device]:
        """Return the disks below it; of an adapter those that alerts are about, else all."""
        if self.adapter:
            named = (AdviceSubject(each).name for each in (self.own, *self.about.others))
            found = {d.name: d for name in named if name and (d := self.facts.device(name))}
            everything = (d for d in self.facts.index.devices if d.leaf and d.host == self.adapter)
            return list(found.values()) or list(everything)
        return [] if self.device is None else list(self.facts.leaves(self.device))

    def shown(self) -> str:
        """Return the common name of its device: of LVM and multipath their own."""
        return self.name if self.device is None else self.device.dm_name or self.device.name

    def arrays(self) -> list[str]:
        """Return the array it is about, or the arrays that it is a member of."""
        arrays = self.facts.of.map.arrays
        for name in (self.own.get("device", "").removeprefix("/dev/"), self.name):
            if name in arrays:
                return [name]
        if not self.whole():
            return []
        return list(dict.fromkeys(m.array.name for m in self.memberships()))

    def memberships(self) -> list[Membership]:
        """Return its array memberships; a path belongs only to its map."""
        if self.kind is DeviceKind.PATH or not self.whole():
            return []
        return self.facts.memberships(self.name or self.whole())


def listed(names: Iterable[str]) -> str:
    """Return names separated by commas; of many the first, and the number of the others."""
    found = list(dict.fromkeys(names))
    more = len(found) - MAX_DISKS
    return ", ".join(found[:MAX_DISKS]) + (f" and {more} more" if more > 0 else "")


def counted(number: int, what: str) -> str:
    """Return '1 path' or '2 paths'."""
    return f"{number} {what}{'s' if number != 1 else ''}"
