"""Helium in hard disks that are filled with it: below its first value, and how much is lost. Pure.

A drive without enough of it slows down, overheats and dies; the vendor's threshold is the end.
A value of one poll may be corrupted, so two must agree. Units: seconds of the program's clock;
normalized values of SMART attributes.
Source: smartmontools 7.5, drivedb.h: 22 of Western Digital and HGST, 23 and 24 of Toshiba, 200 of
Seagate ('Pressure_Limit', which drives filled with air have as well: only from 10 TB on).
Limits: an older database has no name for these; then only models that are known by it count.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.model import Family, Labels, Sample
from iowarden.rules.signals.smart.smart_values import LOW, ceiling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.smart.drive import Attribute, Drive
    from iowarden.rules.signals.signal import Pairs

DAY = 86_400.0
_LEVEL = 22
_NAMES = {_LEVEL: "Helium_Level", 23: "Helium_Condition_Lower", 24: "Helium_Condition_Upper"}
_PRESSURE = (200, "Pressure_Limit")
_PRESSURE_BYTES = 9_900_000_000_000
_UNNAMED = "Unknown_Attribute"
_MODELS = {
    _LEVEL: re.compile(r"HGST H|WDC +W(?:D|UH|SH)"),
    23: re.compile(r"TOSHIBA (?:MG|HDW)"),
    24: re.compile(r"TOSHIBA (?:MG|HDW)"),
}

FAMILIES = (
    Family(
        "iowarden_smart_helium_lost_ratio",
        "gauge",
        "Lost share of a drive's helium, where 0 is its factory value and 1 the vendor's threshold;"
        " only of a drive that loses any.",
    ),
)


class Helium(NamedTuple):
    """The value of an attribute of helium."""

    read_seconds: float
    last: float
    confirmed: float
    """The better one of the last two polls."""
    first: float
    low_since_seconds: float
    """Since when it is below its first value; 0: it is not."""


def is_helium(drive: Drive, attribute: Attribute) -> bool:
    """Whether an attribute of a drive is about its helium."""
    if drive.rotation_rpm == 0:
        return False
    number, name = attribute.id, attribute.name
    if (number, name) == _PRESSURE:
        is_large = (drive.capacity_bytes or 0) >= _PRESSURE_BYTES
        return is_large and drive.family.startswith("Seagate")
    if name == _UNNAMED and number in _MODELS:
        return bool(_MODELS[number].match(drive.model))
    return _NAMES.get(number) == name


def is_consistent(attribute: Attribute) -> bool:
    """Whether both numbers of an attribute agree, or its value is at the vendor's threshold.

    Western Digital's raw value is the level as well, in the lower 16 bits or in both halves.
    """
    value, raw = attribute.value, attribute.raw
    if value is None or attribute.id != _LEVEL or raw is None:
        return value is not None
    return raw & 0xFFFF == value or value <= (attribute.threshold or 0)


def observe(before: Helium | None, value: float, now: float) -> Helium:
    """Return the value after a poll."""
    if before is None:
        return Helium(now, value, value, value, 0.0)
    since = (before.low_since_seconds or now) if value < before.first else 0.0
    return Helium(now, value, max(before.last, value), before.first, since)


def lost_ratio(helium: Helium, threshold: int | None) -> float | None:
    """Return the lost share; None: nothing is lost, or too few polls show it."""
    factory = float(ceiling(helium.first))
    was_low = factory - helium.first >= LOW
    lasted = helium.read_seconds - helium.low_since_seconds
    falls = helium.low_since_seconds > 0 and lasted >= DAY and helium.confirmed < helium.first
    lost = (factory - helium.confirmed) / (factory - (threshold or 0))
    # What is half lost does not wait for a day.
    return lost if lost > 0 and (was_low or falls or lost >= 0.5) else None


def samples(helium: Helium, attribute: Attribute, labels: Labels) -> Iterator[Sample]:
    """Yield the lost share of a drive that loses helium; `labels` are those of the attribute."""
    lost = lost_ratio(helium, attribute.threshold)
    if lost is not None:
        yield FAMILIES[0].name, labels, round(lost, 3)


def pairs(helium: Helium) -> Pairs:
    """Return a value as it is stored."""
    return (
        (helium.read_seconds, helium.last),
        (0.0, helium.confirmed),
        (helium.low_since_seconds, helium.first),
    )


def from_pairs(stored: Pairs | None) -> Helium | None:
    """Return a stored value, None if there is none."""
    match stored:
        case ((at, last), (_, confirmed), (since, first)):
            return Helium(at, last, confirmed, first, since)
        case _:
            return None
