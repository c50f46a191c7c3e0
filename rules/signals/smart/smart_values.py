"""Normalized values of ATA attributes: dropped, low at baseline, or at the vendor's threshold.

A normalized value drops from 100, 200 or 252 to 255 as an attribute degrades. Where a controller
hides raw values only these are available. Source: smartctl(8), '-A'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from iowarden.collectors.smart.drive import Attribute
    from iowarden.rules.signals.signal import Pairs

CEILINGS = (100, 200, 252, 253, 254, 255)
"""Factory values that vendors use for attributes that count errors."""
USUAL = 100.0
"""The most common factory value: a value that was always so is not stored."""
CRITICAL_ATTRIBUTES = frozenset({5, 10, 184, 187, 188, 196, 197, 198})
_LOST_DATA = CRITICAL_ATTRIBUTES - {188}
"""Without command timeouts, which lose nothing."""
_ERRORS = lazy_pattern(r"(?i)realloc|spin_retry|end.to.end|uncorr|pending|unreadable")
"""Other vendors count other things by the same number."""
LOW = 3
"""No vendor uses a factory value so far below its ceiling."""
_USE = frozenset({4, 9, 12, 192, 193, 222, 225, 240, 241, 242})
"""Attributes of usage only: at the threshold the drive is old, not failing."""
_WEAR = 231
_TEMPERATURE = frozenset({190, 194, _WEAR})
"""Their thresholds are temperature limits: DiskTemperatureHigh has them. 231 may be one of wear."""


class Drop(NamedTuple):
    """One normalized value of one drive."""

    read_seconds: float
    last: float
    confirmed: float
    """The better one of the last two polls."""
    best: float
    first: float


def ceiling(value: float) -> float:
    """Return the most likely factory value of an attribute that reads `value`."""
    return min(CEILINGS, key=lambda each: abs(each - value))


def drop(before: Drop | None, value: float, now: float, *, known: bool) -> Drop:
    """Return a value after a poll; `known`: a value that is not stored was USUAL."""
    if before is None:
        start = USUAL if known else value
        before = Drop(now, start, start, start, start)
        if not known:
            return before
    confirmed = max(before.last, value)
    return Drop(now, value, confirmed, max(before.best, min(before.last, value)), before.first)


def low(seen: Drop, raw: int | None) -> float:
    """Return by how much a value was below its factory value at baseline, 0 if it was not.

    A raw value of 0 means that nothing has happened.
    """
    gap = ceiling(seen.first) - seen.first
    return gap if gap >= LOW and raw != 0 and seen.confirmed <= seen.first else 0.0


def pairs(seen: Drop) -> Pairs | None:
    """Return a value in the form in which it is stored, None if it was always USUAL."""
    if seen.last == seen.confirmed == seen.best == seen.first == USUAL:
        return None
    return (
        (seen.read_seconds, seen.last),
        (0.0, seen.confirmed),
        (0.0, seen.best),
        (0.0, seen.first),
    )


def from_pairs(stored: Pairs | None) -> Drop | None:
    """Return a stored value, None if there is none."""
    match stored:
        case ((at, last), (_, confirmed), (_, best), (_, first)):
            return Drop(at, last, confirmed, best, first)
        case _:
            return None


def exceeded(attribute: Attribute) -> tuple[str, int]:
    """Return how a value failed its threshold: 'prefail', 'old_age', 'use' or 'past', and it.

    'past': its worst value did, and the value has recovered; '': it never did. An attribute that
    smartctl calls failed is failed, whatever its numbers are. A threshold of 0 never fails. Source:
    smartctl(8), '-A'.
    """
    # Errors that lost data are no wear, whichever flag the vendor gave the attribute.
    is_error = attribute.prefail or (
        attribute.id in _LOST_DATA and _ERRORS.search(attribute.name) is not None
    )
    wear = attribute.id == _WEAR and "temp" not in attribute.name.casefold()
    if attribute.id in _TEMPERATURE and not wear:
        return "", 0
    value, threshold = attribute.value, attribute.threshold or -1
    if attribute.failed == "now" or (value is not None and value <= threshold):
        if attribute.id in _USE:
            return "usage", value or 0
        return "prefail" if is_error else "old_age", value or 0
    worst = attribute.worst
    was = attribute.failed == "past" or (worst is not None and worst <= threshold)
    return ("past", worst or 0) if was and attribute.id not in _USE else ("", 0)
