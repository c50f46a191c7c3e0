"""Implausible counters of a drive: contradicted by its own log, or frozen. Pure.

A drive whose firmware lost or froze its counters shows 0 errors as well. Only counters that must
move are judged: power-on time, and what hosts read and wrote, while the kernel counts the disk's
traffic. Units: hours of power-on time, bytes, seconds of the program's clock.
Source: ACS-3 and SPC: the power-on time of a self-test has 16 bits; NVM Express Base Specification.
Limits: a drive that other hosts use as well moves by itself; one behind a RAID controller has no
traffic of its own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.model import Family, Labels, Sample
from iowarden.rules.smart import plausibility

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.smart.drive import Attribute, Drive
    from iowarden.rules.signals.signal import Pairs

FROZEN_SECONDS = 6 * 3600.0
"""Drives count whole hours, and some store their counters only now and then."""
FROZEN_BYTES = 2.0**30
COARSE_BYTES = 256 * 2.0**30
"""For attributes that count GiB or more: some SandForce drives count in steps of 64 GiB, and drives
that sleep in between do not count hours either.
"""
_ALL_BITS = 0xFFFF
"""Source: SPC, self-test results: this time, or any later one."""
_ROUNDING_HOURS = 168
"""Solid-state drives lose the time since they last stored it when power is lost."""
_MAX_HOURS = 1 << 20
"""More than a hundred years: not a time that a drive counted."""
_AMOUNT = re.compile(
    r"Total_LBAs_(?:Written|Read)|Total_(?:Writes|Reads)_"
    r"|Host_(?:Writes|Reads)|Lifetime_(?:Writes|Reads|Wts_Frm|Rds_Frm)_"
)
"""Names of what hosts wrote and read. Source: smartmontools 7.5, drivedb.h."""
_COARSE = re.compile(r"GB|GiB|MiB")
FROZEN = "power-on time and the amounts read and written do not increase while the disk is in use"

FAMILIES = (
    Family(
        "iowarden_smart_counters_implausible",
        "gauge",
        "1 for each reason why counters of a drive are implausible.",
    ),
)


class Progress(NamedTuple):
    """What a drive counted, since when it did not change, and the kernel's count of the disk.

    Two polls are needed: what the kernel counted before one of them must be in the next one.
    """

    since_seconds: float
    hours: float
    began_bytes: float
    amount: float
    """In the drive's unit."""
    read_seconds: float
    confirmed_bytes: float
    """The kernel's count at the poll before the last one."""
    last_bytes: float

    def is_frozen(self, needed_bytes: float = FROZEN_BYTES) -> bool:
        """Whether the drive's counters did not increase although the disk was in use."""
        long = self.read_seconds - self.since_seconds >= FROZEN_SECONDS
        return long and self.confirmed_bytes - self.began_bytes >= needed_bytes


def progress(
    before: Progress | None, drive: Drive, traffic_bytes: float | None, now: float
) -> Progress | None:
    """Return the progress after a poll; None: the drive or the kernel does not count."""
    hours, amount = drive.power_on_hours, transferred(drive)
    if hours is None or not amount or traffic_bytes is None:
        return None
    stands = before is not None and (before.hours, before.amount) == (hours, amount)
    if before is None or not stands or traffic_bytes < before.last_bytes:
        return Progress(now, hours, traffic_bytes, amount, now, traffic_bytes, traffic_bytes)
    return before._replace(
        read_seconds=now, confirmed_bytes=before.last_bytes, last_bytes=traffic_bytes
    )


def transferred(drive: Drive) -> float | None:
    """Return what hosts read and wrote in the drive's life, in a unit of its own; None: unknown."""
    counts: list[float | None]
    if drive.nvme is not None:
        counts = [drive.nvme.read_bytes_total, drive.nvme.written_bytes_total]
    elif drive.scsi is not None:
        rows = drive.scsi.error_counters
        counts = [rows[name].processed_bytes for name in ("read", "write") if name in rows]
    elif drive.transferred_sectors_total is not None:
        counts = [float(drive.transferred_sectors_total)]
    else:
        counts = [attribute.counted() for attribute in _amounts(drive)]
    known = [count for count in counts if count is not None]
    return float(sum(known)) if known else None


def needed_bytes(drive: Drive) -> float:
    """Return the traffic from which on the drive's amounts must have increased."""
    has_statistics = drive.transferred_sectors_total is not None
    is_coarse = any(_COARSE.search(attribute.name) for attribute in _amounts(drive))
    return COARSE_BYTES if is_coarse and not has_statistics else FROZEN_BYTES


def _amounts(drive: Drive) -> list[Attribute]:
    return [attribute for attribute in drive.attributes if _AMOUNT.match(attribute.name)]


def later_test_hours(drive: Drive) -> int | None:
    """Return the power-on time of a self-test that is later than the present one; None: none is."""
    tests = [
        test.hours
        for test in drive.self_tests
        if test.passed is not None and test.hours is not None
    ]
    latest = max((hours for hours in tests if hours != _ALL_BITS), default=0)
    hours = drive.power_on_hours
    if hours is None or latest <= hours + _ROUNDING_HOURS or latest > _MAX_HOURS:
        return None
    return None if plausibility.has_rolled_over(latest, hours) else latest


def samples(drive: Drive, counted: Progress | None, own: Labels) -> Iterator[Sample]:
    """Yield a sample for each reason; `own` is the label of the disk."""
    hours = later_test_hours(drive)
    reasons = (
        hours and f"its log has a self-test at {hours:,} h of power-on time, and it has less now",
        counted is not None and counted.is_frozen(needed_bytes(drive)) and FROZEN,
    )
    for reason in reasons:
        if reason:
            yield FAMILIES[0].name, (*own, ("reason", reason)), 1.0


def pairs(counted: Progress | None) -> Pairs | None:
    """Return the progress as it is stored."""
    if counted is None:
        return None
    return (
        (counted.since_seconds, counted.hours),
        (counted.began_bytes, counted.amount),
        (counted.read_seconds, counted.confirmed_bytes),
        (0.0, counted.last_bytes),
    )


def from_pairs(stored: Pairs | None) -> Progress | None:
    """Return a stored progress, None if there is none."""
    match stored:
        case ((since, hours), (began, amount), (read, confirmed), (_, last)):
            return Progress(since, hours, began, amount, read, confirmed, last)
        case _:
            return None
