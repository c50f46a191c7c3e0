"""SMART history fields: the numbers of a drive, by the names under which history.db stores them.

Pure. '197 raw' and '197 value' are the raw and the normalized value of ATA attribute 197; the
others are named as in collectors.smart.drive.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.collectors.smart.drive import Disks, Drive

ALERTING = frozenset({5, 10, 184, 187, 188, 196, 197, 198, 199})
"""ATA attributes that have alerts: each of their changes is stored."""
_OF_DRIVE = (
    ("temperature_celsius", False),
    ("power_on_hours", False),
    ("power_cycles", False),
    ("errors_logged_total", True),
    ("pending_sectors", True),
    ("endurance_used_ratio", False),
)
_OF_SCSI = (
    ("grown_defects", True),
    ("non_medium_errors_total", False),
    ("pending_defects", True),
    ("endurance_used_ratio", False),
)
_OF_NVME = (
    ("critical_warning", True),
    ("media_errors_total", True),
    ("endurance_used_ratio", True),
    ("available_spare_ratio", True),
    ("unsafe_shutdowns_total", False),
    ("read_bytes_total", False),
    ("written_bytes_total", False),
)
_OPERATIONS = ("read", "write", "verify")
NAMES = (
    *dict.fromkeys(name for name, _ in (*_OF_DRIVE, *_OF_SCSI, *_OF_NVME)),
    *(f"{kind}_{each}_total" for each in _OPERATIONS for kind in ("corrected", "uncorrected")),
)
"""All fields except those of ATA attributes."""


def values(drive: Drive) -> dict[str, tuple[float, bool]]:
    """Return the numbers by name, and whether each change is stored, or only one value a day."""
    return {name: (float(value), every) for name, value, every in _all(drive) if value is not None}


def _all(drive: Drive) -> Iterator[tuple[str, float | None, bool]]:
    for attribute in drive.attributes:
        every = attribute.id in ALERTING
        yield f"{attribute.id} raw", attribute.counted(), every
        yield f"{attribute.id} value", attribute.value, every
    for owner, names in ((drive, _OF_DRIVE), (drive.scsi, _OF_SCSI), (drive.nvme, _OF_NVME)):
        if owner is not None:
            yield from ((name, getattr(owner, name), every) for name, every in names)
    for operation, counter in (drive.scsi.error_counters if drive.scsi else {}).items():
        yield f"corrected_{operation}_total", counter.corrected_total, False
        yield f"uncorrected_{operation}_total", counter.uncorrected_total, True


def fresh(
    disks: Disks, stored: Mapping[str, float]
) -> tuple[list[tuple[str, str, float, bool]], dict[str, float]]:
    """Return the values to store of the drives that were read since, and when each was read.

    A row is disk, name, value, and whether each change is stored. `stored` are the last read times.
    """
    rows = []
    known: dict[str, float] = {}
    for key, disk in disks.by_key.items():
        at, drive = disk.polled.read_seconds, disk.polled.drive
        if at is None or drive is None:
            continue
        known[key] = at
        if stored.get(key) != at:
            rows += [(key, name, value, every) for name, (value, every) in values(drive).items()]
    return rows, {**stored, **known}


def candidates(text: str, drive: Drive | None) -> tuple[str, ...]:
    """Return the field names that match a user's text, the likeliest first; () for none.

    It accepts '197', 'Current_Pending_Sector', '197 value', and the beginning of any other name.
    """
    words = re.sub(r"[\s.:]+", " ", text.strip().lower())
    what, _, part = words.rpartition(" ")
    if part not in ("raw", "value"):
        what, part = words, ""
    number = what if what.isascii() and what.isdigit() else ""
    for attribute in drive.attributes if drive is not None and not number else ():
        if attribute.name.lower() == what.replace("-", "_"):
            number = str(attribute.id)
    if number:
        parts = (part,) if part else ("raw", "value")
        return tuple(f"{int(number)} {each}" for each in parts)
    plain = words.replace("-", "_").replace(" ", "_")
    return tuple(name for name in NAMES if name == plain) or tuple(
        name for name in NAMES if name.startswith(plain) and plain
    )
