"""A range of sectors, traced from a device up to its owner, and the answer for it.

Units: sectors of 512 bytes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import AbsentError, DeadlineError, ParseError, ReadError, StuckError
from iowarden.rules.topology.file_location import ContentKind, SectorContent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iowarden.collectors.filesystem.mountinfo import Mount

FAILED = (AbsentError, ReadError, ParseError)
"""Errors of a query; their text is shown as the reason."""
HUNG = (DeadlineError, StuckError)
"""Errors after which the next query would hang as well."""


@dataclass(frozen=True, slots=True)
class SectorExtent:
    """A range of sectors, with its position on each device from the queried one upward."""

    origin: int
    count: int
    path: tuple[tuple[str, int], ...]
    array: str = ""
    degraded: str = ""

    @property
    def device(self) -> str:
        """The uppermost device."""
        return self.path[-1][0]

    @property
    def sector(self) -> int:
        """The first sector on the uppermost device."""
        return self.path[-1][1]

    def part(self, sector: int, count: int) -> SectorExtent:
        """Return a part of the range, given by sectors of the uppermost device."""
        later = sector - self.sector
        way = tuple((device, first + later) for device, first in self.path)
        return replace(self, origin=self.origin + later, count=count, path=way)

    def up(self, device: str, sector: int) -> SectorExtent:
        """Return the same range on a device above."""
        return replace(self, path=(*self.path, (device, sector)))


def answer(extent: SectorExtent, kind: ContentKind, text: str) -> SectorContent:
    """Return the answer for a range: its owner's kind and a description."""
    return SectorContent(
        start=extent.origin,
        count=extent.count,
        kind=kind,
        text=text,
        chain=tuple(f"{device} sector {sector}" for device, sector in extent.path),
        device=extent.device,
        array=extent.array,
        degraded=extent.degraded,
    )


def unknown(extent: SectorExtent, reason: str) -> SectorContent:
    """Return the answer for a range whose owner is unknown, with the reason."""
    return answer(extent, ContentKind.UNKNOWN, reason)


def host_path(here: Sequence[Mount], inside: str) -> tuple[str, bool]:
    """Return the path on this host of a path in a file system; False: that part is not mounted."""
    for mount in here:
        below = mount.root.rstrip("/")
        if inside == below or inside.startswith(below + "/"):
            rest = inside.removeprefix(below)
            return (mount.mount_point.rstrip("/") + rest) or "/", True
    return inside, False
