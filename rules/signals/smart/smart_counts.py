"""Counts of errors that drives keep over their life: what to believe of them, and how they grow.

First sight is baseline. A count is believed when two polls in a row agree that it is at least so
much (a cable or a bridge garbles one answer, not two alike); many unreadable sectors at once.
Units: seconds of the program's clock.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from iowarden.collectors.smart.drive import Attribute, Drive
    from iowarden.rules.signals.signal import Pairs

DAY = 86_400.0
RECENT_SECONDS = 7 * DAY - 5 * 3600.0
"""Growth is told for a week after the last increase, less the four hours for which the alert
outlasts it (smart.yaml) and one more: a week's reminder does not come just before its end. The next
increase within that time adds to it."""
STREAK_SECONDS = 1.5 * DAY
"""Increases that follow each other at most so far apart come daily."""
AT_ONCE = 16
"""A count of unreadable sectors from which one poll is enough."""

REALLOCATED, SPIN_RETRIES, REPORTED, TIMEOUTS = 5, 10, 187, 188
EVENTS, PENDING, OFFLINE, CRC = 196, 197, 198, 199
COUNTED = (REALLOCATED, SPIN_RETRIES, REPORTED, TIMEOUTS, EVENTS, PENDING, OFFLINE, CRC)
"""Source: domain condition H2, H3; names as in smartmontools' drivedb.h."""
_SECTORS = frozenset({REALLOCATED, EVENTS, PENDING, OFFLINE})
_SECTOR_BYTES = 512
_MOST = 2**32 - 1
"""All bits set is what firmware says that does not know."""
_WORD = 0xFFFF
_OF_SO_MANY = re.compile(r"(\d{1,9})/\d+$", re.ASCII)
"""'3/153929168': errors of all that was read. Source: drivedb.h, 'raw24/raw32' (SandForce 198)."""
_SEAGATE = re.compile(r"(?:SEAGATE )?ST\d{3,}[A-Z]", re.IGNORECASE)
_FLIPS = re.compile(r"CT\d+MX500SSD\d")
"""Attribute 197 of these is 0 or 1 for no reason. Source: drivedb.h ('May flip 0 <> 1')."""
_ANOTHER = re.compile(
    r"Bogus|Not_In_Use|Not_Supported|Unknown_\w+_Attribute|Host_|_Tot_Ct|Spare|ECC_Error_Count"
)
"""In the name: not what the number usually means. Barefoot SSDs (OCZ) count by 198 and 199 what
was read and written. Source: names in drivedb.h; 'Unknown_Attribute' alone is an older database's.
"""
_LIFETIME = re.compile(r"Total_|Failure")
"""In the name of attribute 197: those of all its life, which never become fewer. Source: drivedb.h,
'197,increasing' (Samsung T166: 'Total_Pending_Sectors'), 'Read_Failure_Blk_Ct'."""


def believed(drive: Drive, attribute: Attribute) -> int | None:
    """Return the count an attribute's raw value means, None where it can be none.

    Seagate packs three counts into attribute 188, the plain one in the low 16 bits. More sectors
    than the drive has are no sectors: smartd's own test.
    """
    value = attribute.counted()
    if found := _OF_SO_MANY.match(attribute.raw_text):
        value = int(found[1])
    if another(attribute) or value is None or value < 0:
        return None
    if attribute.id == TIMEOUTS:
        packed = attribute.raw if attribute.raw is not None else value
        if packed > _WORD or " " in attribute.raw_text or seagate(drive):
            return packed & _WORD
        return value
    if attribute.id == PENDING and value == 1 and _FLIPS.match(drive.model):
        return 0
    sectors = (drive.capacity_bytes or _MOST * _SECTOR_BYTES) // _SECTOR_BYTES
    most = min(sectors, _MOST) if attribute.id in _SECTORS else _MOST
    return value if value < most else None


def another(attribute: Attribute) -> bool:
    """Whether an attribute is another one on this drive than its number says."""
    return bool(_ANOTHER.search(attribute.name))


def lifetime(attribute: Attribute) -> bool:
    """Whether an attribute counts what ever was unreadable, not what is now."""
    return bool(_LIFETIME.search(attribute.name))


def tells(drive: Drive) -> bool:
    """Whether a drive tells of counts: that it tells only its verdict is no sight of them."""
    scsi = drive.scsi
    return bool(
        drive.attributes
        or drive.nvme
        or drive.pending_sectors is not None
        or (scsi and (scsi.error_counters or scsi.grown_defects is not None))
    )


def seagate(drive: Drive) -> bool:
    """Whether a drive is Seagate's, whose raw values are packed."""
    return "seagate" in f"{drive.family} {drive.vendor}".lower() or bool(
        _SEAGATE.match(drive.model)
    )


class Count(NamedTuple):
    """One count of one drive. What `pairs` of a count of zeros hold is not worth keeping."""

    read_seconds: float
    last: float
    """What the last poll said."""
    confirmed: float
    first: float
    """At first sight, or since it fell."""
    grew_seconds: float
    base: float
    """Where the growth that is told began."""
    streak_seconds: float
    streak_base: float

    def growth(self, now: float) -> float:
        """Return by how much it grew lately."""
        return self.confirmed - self.base if now - self.grew_seconds <= RECENT_SECONDS else 0.0

    def streak(self, now: float) -> tuple[float, float]:
        """Return for how long it has grown daily, and by how much."""
        if now - self.grew_seconds > STREAK_SECONDS:
            return 0.0, 0.0
        return self.grew_seconds - self.streak_seconds, self.confirmed - self.streak_base

    def per_day(self, now: float) -> float:
        """Return by how much it grew a day, while it grows daily; within one day: in that day."""
        lasted, grown = self.streak(now)
        return grown / (lasted / DAY + 1.0)

    def until(self, now: float) -> float:
        """Return when what it tells changes by the time alone; infinite: never."""
        ends = (self.grew_seconds + each + 1.0 for each in (STREAK_SECONDS, RECENT_SECONDS))
        return min((end for end in ends if end > now), default=float("inf"))


def count(before: Count | None, value: float, now: float, *, known: bool, sudden: bool) -> Count:
    """Return a count after a poll.

    `known`: the drive was polled before, so that what is not kept was 0; `sudden`: AT_ONCE holds.
    """
    if before is None:
        start = 0.0 if known else value
        before = Count(now, start, start, start, 0.0, start, 0.0, start)
        if not known:
            return before
    grown = min(before.last, value)
    if sudden and value >= AT_ONCE:
        grown = value
    after = before._replace(read_seconds=now, last=value)
    if grown > before.confirmed:
        if now - before.grew_seconds > RECENT_SECONDS:
            after = after._replace(base=before.confirmed)
        if now - before.grew_seconds > STREAK_SECONDS:
            after = after._replace(streak_seconds=now, streak_base=before.confirmed)
        return after._replace(confirmed=grown, grew_seconds=now)
    fallen = max(before.last, value)
    if fallen < before.confirmed:  # rewritten sectors are no longer pending
        return after._replace(
            confirmed=fallen,
            first=min(before.first, fallen),
            base=min(before.base, fallen),
            streak_base=min(before.streak_base, fallen),
        )
    return after


def pairs(counted: Count) -> Pairs | None:
    """Return a count as it is kept over a restart, None where there is nothing to keep."""
    if not (counted.last or counted.confirmed or counted.first or counted.base):
        return None
    return (
        (counted.read_seconds, counted.last),
        (counted.grew_seconds, counted.base),
        (counted.streak_seconds, counted.streak_base),
        (0.0, counted.confirmed),
        (0.0, counted.first),
    )


def from_pairs(kept: Pairs | None) -> Count | None:
    """Return a count that was kept, None where there is none."""
    match kept:
        case ((at, last), (grew, base), (streak, streak_base), (_, confirmed), (_, first)):
            return Count(at, last, confirmed, first, grew, base, streak, streak_base)
        case _:
            return None
