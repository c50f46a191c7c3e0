"""How many more disks may fail before data are lost: one number for all technologies. Pure.

md, btrfs, ZFS, LVM, controllers and paths are each described as groups of disks; the weakest group
decides. *Limits:* it is the number that is certain, whichever disks fail next; more may fail where
chance spares the last copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

NONE_LEFT = "no redundancy left"
NEVER_ANY = "no redundancy"
UNKNOWN = "redundancy unknown"


@dataclass(frozen=True, slots=True)
class RedundancyGroup:
    """Disks that hold the same data, as copies or with parity: one lost group is lost data.

    Fields: a complete group has `members`, of which `needed` are enough; `working` hold all of
    their data: no spare, and none that is being rebuilt. None: unknown.
    """

    name: str
    members: int
    needed: int
    working: int | None

    @property
    def survives(self) -> int | None:
        """How many more of its disks may fail; 0 also for a group that is lost. None: unknown."""
        return None if self.working is None else max(self.working - self.needed, 0)

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing is left of a redundancy that the complete group has."""
        return self.survives == 0 and self.members > self.needed


def survives(groups: Iterable[RedundancyGroup]) -> int | None:
    """Return how many more disks may fail, whichever they are: the smallest number of the groups.

    None: unknown, and no group is known to survive none.
    """
    numbers = [group.survives for group in groups]
    if 0 in numbers:
        return 0
    certain = [number for number in numbers if number is not None]
    return min(certain) if certain and len(certain) == len(numbers) else None


def survives_complete(groups: Iterable[RedundancyGroup]) -> int | None:
    """Return how many disks may fail while all groups are complete; None: there are no groups."""
    return min((group.members - group.needed for group in groups), default=None)


def redundancy_text(number: int | None, complete: int | None, unit: str = "disk") -> str:
    """Return the number in words, the same everywhere: 'survives 1 more disk'."""
    if number is None:
        return UNKNOWN
    if number == 0:
        return NONE_LEFT if complete else NEVER_ANY
    return f"survives {number} more {unit}{'s'[: number != 1]}"
