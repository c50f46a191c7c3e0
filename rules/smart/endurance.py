"""Used share of a solid-state drive's rated endurance, from what the drive reports. Pure.

NVMe, SCSI and the device statistics of ATA have a field for it. Where an ATA drive has no such
field, a vendor's attribute may show what is left. Its number means nothing by itself (230 counts
up on drives of Western Digital, 233 is an amount written on others), nor does its name: only both,
for a family in smartmontools' drive database. What is not listed here is not reported.
Units: a ratio of 1, which may be exceeded.
Source: smartmontools 7.5, drivedb.h and ataprint.cpp; Samsung, SMART attributes of its SSDs (2016);
Micron, TN-FD-22. smartctl's own 'endurance_used' of an ATA drive is not used: without device
statistics it is a guess from normalized values.
Limits: many attributes end at 1, so 99 % may be the most that a drive can show.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.smart.drive import Attribute, Drive

FULL_PERCENT = 100
_MAX_PERCENT = 255
_COUNTS_DOWN: tuple[tuple[re.Pattern[str], frozenset[tuple[int, str]]], ...] = (
    (
        re.compile(r"(?:Lenovo OEM |Dell Certified )?Intel[ /]|Kingston branded X25"),
        frozenset({(233, "Media_Wearout_Indicator"), (245, "Percent_Life_Remaining")}),
    ),
    (re.compile(r"Samsung based SSDs"), frozenset({(177, "Wear_Leveling_Count")})),
    (
        re.compile(r"(?:Crucial/)?Micron "),
        frozenset(
            {
                (202, "Percent_Lifetime_Remain"),
                (202, "Percent_Lifetime_Used"),
                (202, "Perc_Rated_Life_Used"),
            }
        ),
    ),
    (
        re.compile(
            r"SandForce|Phison|Kingston SSDNow|Silicon Motion|Supermicro SATA DOM|Seagate .*SSD"
        ),
        frozenset({(231, "SSD_Life_Left"), (231, "SSD_Life_Left_Perc")}),
    ),
)
"""Families of the drive database, and their attributes whose normalized value is what is left, in
per cent, whatever their names are. Micron: 'norm = max(100-raw,0)'."""
_MODELS = (
    (re.compile(r"Samsung SSD |SAMSUNG MZ"), "Samsung based SSDs"),
    (re.compile(r"INTEL SSDS[AC]"), "Intel SSDs"),
)
"""Models whose family is certain without the database; smartctl's default names are right for them.
"""
_IN_RAW_VALUE = (re.compile(r"Silicon Motion"), frozenset({169, 231}))
"""Some firmware of this family counts down in the raw value only, and leaves the other at 100."""
_RAW_IS_USED = re.compile(r"(?:Crucial/)?Micron ")
"""The raw value of these is the used share, which goes on above 100."""
_LIFE_LEFT = re.compile(r"(?=.*Life)(?=.*(?:Left|Remain))")
"""Names of the database for a remaining life. Of other families only one whose raw and normalized
value are the same number is used: which of them counts down is not known otherwise."""


def used_ratio(drive: Drive) -> float | None:
    """Return the used share of a drive's rated endurance; None: not reported."""
    if drive.nvme is not None:
        return drive.nvme.endurance_used_ratio
    if drive.scsi is not None:
        return drive.scsi.endurance_used_ratio
    if drive.endurance_used_ratio is not None:
        return drive.endurance_used_ratio
    family = drive.family
    if not family:  # an older drive database
        family = next((name for model, name in _MODELS if model.match(drive.model)), "")
    if not family or drive.rotation_rpm:
        return None
    return max(_used_percents(drive, family), default=None)


def _used_percents(drive: Drive, family: str) -> Iterator[float]:
    for attribute in drive.attributes:
        percent = _used_percent(family, attribute)
        if percent is not None:
            yield percent / FULL_PERCENT


def _used_percent(family: str, attribute: Attribute) -> int | None:
    """Return the used share that an attribute shows, in per cent; None: it shows none."""
    value, raw = attribute.value, attribute.raw
    if value is None or value > FULL_PERCENT:
        return None
    name = (attribute.id, attribute.name)
    if any(pattern.match(family) and name in names for pattern, names in _COUNTS_DOWN):
        if _RAW_IS_USED.match(family) and value == 0 and raw is not None:
            return raw if FULL_PERCENT <= raw <= _MAX_PERCENT else FULL_PERCENT
    elif not (
        _LIFE_LEFT.match(attribute.name) and (_is_raw_left(family, attribute) or raw == value)
    ):
        return None
    if _is_raw_left(family, attribute) and raw and raw < value:
        return FULL_PERCENT - raw
    return FULL_PERCENT - value


def _is_raw_left(family: str, attribute: Attribute) -> bool:
    pattern, numbers = _IN_RAW_VALUE
    return attribute.id in numbers and bool(pattern.match(family))
