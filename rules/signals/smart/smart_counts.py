"""Lifetime error counts of drives: which raw values are plausible, and how they increase.

The first reading is the baseline. An increase counts once two polls in a row show it (a cable or a
bridge may corrupt one reply, not two alike); many pending sectors count at once. Units: seconds of
the program's clock.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from iowarden.collectors.smart.drive import Attribute, Drive
    from iowarden.rules.signals.signal import Pairs

DAY = 86_400.0
RECENT_SECONDS = 7 * DAY - 5 * 3600.0
"""An increase is reported for a week after the last one, less the four hours for which the alert
outlasts it (smart.yaml) and one more: a weekly reminder must not come just before the end. The next
increase within that time is added to it."""
WEEK_SECONDS = 7 * DAY
MAX_DAYS = 9
"""Counts stored of the last days: eight a day apart reach back over a week."""
STREAK_SECONDS = 1.5 * DAY
"""Increases at most so far apart count as daily."""
AT_ONCE = 16
"""Number of pending sectors from which one poll is enough."""

REALLOCATED, SPIN_RETRIES, REPORTED, TIMEOUTS = 5, 10, 187, 188
EVENTS, PENDING, OFFLINE, CRC = 196, 197, 198, 199
COUNTED = (REALLOCATED, SPIN_RETRIES, REPORTED, TIMEOUTS, EVENTS, PENDING, OFFLINE, CRC)
"""Attributes that count errors; names as in smartmontools' drivedb.h."""
_SECTORS = frozenset({REALLOCATED, EVENTS, PENDING, OFFLINE})
_SECTOR_BYTES = 512
_ALL_BITS = 2**32 - 1
"""All bits set: firmware reports this for an unknown value."""
_WORD = 0xFFFF
_OF_SO_MANY = re.compile(r"(\d{1,9})/\d+$", re.ASCII)
"""'3/153929168': errors of all that was read. Source: drivedb.h, 'raw24/raw32' (SandForce 198)."""
_SEAGATE = re.compile(r"(?:SEAGATE )?ST\d{3,}[A-Z]", re.IGNORECASE)
_FLIPS = re.compile(r"CT\d+MX500SSD\d")
"""On these drives attribute 197 flips between 0 and 1 for no reason. Source: drivedb.h ('May flip 0
<> 1')."""
_PENDING_PAGES = "Current_Pending_ECC_Cnt"
"""The name of that attribute of them, and of others with that controller, in drivedb.h: the same
holds where a text has the name and no model."""
_ANOTHER = re.compile(
    r"Bogus|Not_In_Use|Not_Supported|Unknown_\w+_Attribute|Host_|_Tot_Ct|Spare|ECC_Error_Count"
    r"|(?:Factory|Initial)_Bad_Block|Error_Correction_Count"
)
"""Names which show that the attribute does not have its usual meaning: Barefoot SSDs (OCZ) use 198
and 199 for amounts read and written; 184 counts blocks that were bad from the start, or corrected
errors. Source: names in drivedb.h; an older database calls these
'Unknown_Attribute' only."""
_LIFETIME = re.compile(r"Total_|Failure")
"""Names of attribute 197 where it counts over the whole lifetime and never decreases. Source:
drivedb.h, '197,increasing' (Samsung T166: 'Total_Pending_Sectors'), 'Read_Failure_Blk_Ct'."""


def believed(drive: Drive, attribute: Attribute) -> int | None:
    """Return the count in an attribute's raw value, None if it is implausible.

    Seagate packs three counts into attribute 188, the plain one in the low 16 bits. More sectors
    than the drive has are implausible: the same test as in smartd.
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
    flips = attribute.name == _PENDING_PAGES or _FLIPS.match(drive.model)
    if attribute.id == PENDING and value == 1 and flips:
        return 0
    if _is_placeholder(drive, attribute):
        return None
    sectors = (drive.capacity_bytes or _ALL_BITS * _SECTOR_BYTES) // _SECTOR_BYTES
    most = min(sectors, _ALL_BITS) if attribute.id in _SECTORS else _ALL_BITS
    return value if value < most else None


def _is_placeholder(drive: Drive, attribute: Attribute) -> bool:
    """Whether a raw value only repeats the normalized one, as in attributes without a use.

    Phison's solid-state drives have 100 in all of them. Source: smartmontools 7.5, drivedb.h: 2, 3
    and 7 are 'Not_In_Use' there; no solid-state drive has a spindle or heads.
    """
    if not attribute.raw or attribute.raw != attribute.value:
        return False
    unused = (drive.attribute(number) for number in _OF_SPINDLE)
    repeated = [each for each in unused if each is not None and each.raw == attribute.raw]
    return len(repeated) >= _ENOUGH_REPEATED


_OF_SPINDLE = (2, 3, 7, 8, 10)
_ENOUGH_REPEATED = 3


def another(attribute: Attribute) -> bool:
    """Whether an attribute has another meaning on this drive than its number suggests."""
    return bool(_ANOTHER.search(attribute.name))


def lifetime(attribute: Attribute) -> bool:
    """Whether an attribute counts over the lifetime, not what is unreadable now."""
    return bool(_LIFETIME.search(attribute.name))


def has_counts(drive: Drive) -> bool:
    """Whether a drive reports error counts; one that reports only its health status does not."""
    scsi = drive.scsi
    return bool(
        drive.attributes
        or drive.nvme
        or drive.pending_sectors is not None
        or (scsi and (scsi.error_counters or scsi.grown_defects is not None))
    )


def seagate(drive: Drive) -> bool:
    """Whether a drive is from Seagate, whose raw values are packed."""
    return "seagate" in f"{drive.family} {drive.vendor}".lower() or bool(
        _SEAGATE.match(drive.model)
    )


class DriveCount(NamedTuple):
    """One count of one drive. One whose values are all 0 is not stored, apart from those of use."""

    read_seconds: float
    last: float
    """The value of the last poll."""
    confirmed: float
    first: float
    """The baseline: the first value, or a lower one since."""
    grew_seconds: float
    base: float
    """Where the increase that is reported began."""
    streak_seconds: float
    streak_base: float

    def increase(self, now: float) -> float:
        """Return its recent increase."""
        return self.confirmed - self.base if now - self.grew_seconds <= RECENT_SECONDS else 0.0

    def streak(self, now: float) -> tuple[float, float]:
        """Return for how long it has increased daily, and by how much."""
        if now - self.grew_seconds > STREAK_SECONDS:
            return 0.0, 0.0
        return self.grew_seconds - self.streak_seconds, self.confirmed - self.streak_base

    def per_day(self, now: float) -> float:
        """Return its increase per day while it increases daily; within one day: on that day."""
        lasted, grown = self.streak(now)
        return grown / (lasted / DAY + 1.0)

    def until(self, now: float) -> float:
        """Return when the result changes by the passing of time alone; infinite: never."""
        ends = (self.grew_seconds + each + 1.0 for each in (STREAK_SECONDS, RECENT_SECONDS))
        return min((end for end in ends if end > now), default=float("inf"))


def count(
    before: DriveCount | None, value: float, now: float, *, known: bool, sudden: bool
) -> DriveCount:
    """Return a count after a poll.

    `known`: the drive was polled before, so a count that is not stored was 0; `sudden`: AT_ONCE
    applies.
    """
    if before is None:
        start = 0.0 if known else value
        before = DriveCount(now, start, start, start, 0.0, start, 0.0, start)
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


def days(before: Pairs | None, counted: DriveCount, now: float) -> Pairs | None:
    """Return the stored counts of the last days, one a day while a count increases; else None."""
    if counted.increase(now) <= 0:
        return None
    if before and now - before[-1][0] < DAY:
        return before
    return (*(before or ()), (now, counted.confirmed))[-MAX_DAYS:]


def weekly(history: Pairs | None, counted: DriveCount, now: float) -> float:
    """Return the increase of the last 7 days, to a day."""
    older = (count for at, count in reversed(history or ()) if now - at >= WEEK_SECONDS)
    began = next(older, counted.base)
    return max(counted.confirmed - max(began, counted.base), 0.0)


def pairs(counted: DriveCount, *, zero: bool = False) -> Pairs | None:
    """Return a count as it is stored; None if all its values are 0, unless `zero` is set."""
    if not (zero or counted.last or counted.confirmed or counted.first or counted.base):
        return None
    return (
        (counted.read_seconds, counted.last),
        (counted.grew_seconds, counted.base),
        (counted.streak_seconds, counted.streak_base),
        (0.0, counted.confirmed),
        (0.0, counted.first),
    )


def from_pairs(stored: Pairs | None) -> DriveCount | None:
    """Return a stored count, None if there is none."""
    match stored:
        case ((at, last), (grew, base), (streak, streak_base), (_, confirmed), (_, first)):
            return DriveCount(at, last, confirmed, first, grew, base, streak, streak_base)
        case _:
            return None
