"""Normalised values of ATA attributes: fallen, low from the start, or at the maker's threshold.

A normalised value falls from 100, 200 or 252 to 255 as an attribute gets worse. Where a controller
hides raw values they are all there is. Source: smartctl(8), '-A'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from iowarden.collectors.smart.drive import Attribute
    from iowarden.rules.signals.signal import Pairs

CEILINGS = (100, 200, 252, 253, 254, 255)
"""What makers let attributes that count errors begin at."""
USUAL = 100.0
"""Where most begin: a value that was always so is not kept."""
JUDGED = frozenset({5, 10, 184, 187, 188, 196, 197, 198})
LOW = 3
"""So far below its ceiling a value was not made."""
_USE = frozenset({4, 9, 12, 192, 193, 222, 225, 240, 241, 242})
"""Attributes that only tell how much a drive was used: at the threshold it is old, not failing."""
_WEAR = 231
_TEMPERATURE = frozenset({190, 194, _WEAR})
"""Their thresholds are limits of temperature, for which H6 has its own; 231 may be one of wear."""


class Fall(NamedTuple):
    """One normalised value of one drive."""

    read_seconds: float
    last: float
    confirmed: float
    """The better of the last two polls."""
    best: float
    first: float


def ceiling(value: float) -> float:
    """Return the value from which an attribute that reads `value` began, most likely."""
    return min(CEILINGS, key=lambda each: abs(each - value))


def fall(before: Fall | None, value: float, now: float, *, known: bool) -> Fall:
    """Return a value after a poll; `known`: what is not kept was USUAL."""
    if before is None:
        start = USUAL if known else value
        before = Fall(now, start, start, start, start)
        if not known:
            return before
    confirmed = max(before.last, value)
    return Fall(now, value, confirmed, max(before.best, min(before.last, value)), before.first)


def low(seen: Fall, raw: int | None) -> float:
    """Return by how much a value was too low at first sight, 0 where it was not.

    A raw value of 0 says that nothing has happened.
    """
    gap = ceiling(seen.first) - seen.first
    return gap if gap >= LOW and raw != 0 and seen.confirmed <= seen.first else 0.0


def pairs(seen: Fall) -> Pairs | None:
    """Return a value as it is kept over a restart, None where it was always USUAL."""
    if seen.last == seen.confirmed == seen.best == seen.first == USUAL:
        return None
    return (
        (seen.read_seconds, seen.last),
        (0.0, seen.confirmed),
        (0.0, seen.best),
        (0.0, seen.first),
    )


def from_pairs(kept: Pairs | None) -> Fall | None:
    """Return a value that was kept, None where there is none."""
    match kept:
        case ((at, last), (_, confirmed), (_, best), (_, first)):
            return Fall(at, last, confirmed, best, first)
        case _:
            return None


def exceeded(attribute: Attribute) -> tuple[str, int]:
    """Return where a value is at its threshold or below: 'prefail', 'old_age' or 'use', and it.

    'past': its worst was, and it is above it again; '': it never was. What smartctl calls failed
    has, whatever its numbers are. A threshold of 0 never fails. Source: smartctl(8), '-A'.
    """
    wear = attribute.id == _WEAR and "temp" not in attribute.name.casefold()
    if attribute.id in _TEMPERATURE and not wear:
        return "", 0
    value, threshold = attribute.value, attribute.threshold or -1
    if attribute.failed == "now" or (value is not None and value <= threshold):
        if attribute.id in _USE:
            return "use", value or 0
        return "prefail" if attribute.prefail else "old_age", value or 0
    worst = attribute.worst
    was = attribute.failed == "past" or (worst is not None and worst <= threshold)
    return ("past", worst or 0) if was and attribute.id not in _USE else ("", 0)
