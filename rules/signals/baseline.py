"""Error counts compared with their baseline, the count when first seen; persisted over restarts.

What was counted before the baseline is not reported as new. A count that decreased was cleared
(e2fsck, 'btrfs device stats -z') or restarted with its array: all errors it shows now are new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from iowarden.rules.signals.signal import SignalGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iowarden.collectors.model import Family, Labels, Sample
    from iowarden.rules.signals.signal import Pairs, View

RECENT_SECONDS = 86_400.0
"""Errors belong together while each comes within a day of the one before."""
STAMP_SECONDS = 3600.0
"""Resolution of the stored time at which something was last seen: each change is a write to
disk."""
MAX_RETAINED = 2000
"""Maximum number of objects stored; the most recently seen ones stay."""

Remembered = dict[str, "Pairs"]
"""Stored values by object: the whole state of a group, so that a restart loses nothing."""
T = TypeVar("T")


class ErrorCount(NamedTuple):
    """One error count. Units: seconds of the program's clock."""

    at_seconds: float
    """When it was last read, at most STAMP_SECONDS ago."""
    last: float
    grew_seconds: float
    """When it last increased; if it never did, when it was first seen."""
    baseline: float

    @property
    def new(self) -> float:
        """Errors since the baseline."""
        return self.last - self.baseline


def stamp(at_seconds: float, now: float) -> float:
    """Return `now`, or the earlier time if it is less than STAMP_SECONDS old."""
    return at_seconds if 0.0 <= now - at_seconds < STAMP_SECONDS else now


def seen(remembered: Remembered, key: str, value: float, now: float) -> None:
    """Store that something has the value `value` now."""
    at = remembered[key][0][0] if key in remembered and remembered[key][0][1] == value else now
    remembered[key] = ((stamp(at, now), value),)


def count(pairs: Pairs | None, value: float, now: float) -> ErrorCount:
    """Return the count after a reading of `value`."""
    value = float(value)
    match pairs:
        case ((at, last), (grew, baseline)):
            if value < last:
                return ErrorCount(now, value, now, 0.0)
            if value > last:
                return ErrorCount(now, value, now, baseline)
            return ErrorCount(stamp(at, now), value, min(grew, now), baseline)
        case _:
            return ErrorCount(now, value, now, value)


def recent(pairs: Pairs | None, value: float, now: float) -> ErrorCount:
    """Return the count, with its baseline moved up to `value` after a day without an increase."""
    counted = count(pairs, value, now)
    over = now - counted.grew_seconds > RECENT_SECONDS
    return counted._replace(baseline=counted.last) if over else counted


def pairs(counted: ErrorCount) -> Pairs:
    """Return a count in the form in which it is stored."""
    return (counted.at_seconds, counted.last), (counted.grew_seconds, counted.baseline)


def bounded(state: Remembered) -> Remembered:
    """Return the state limited to MAX_RETAINED objects, those most recently seen."""
    if len(state) <= MAX_RETAINED:
        return state
    latest = sorted(state.items(), key=lambda item: item[1][0][0] if item[1] else 0.0)
    return dict(latest[-MAX_RETAINED:])


def group(
    name: str,
    sources: tuple[str, ...],
    families: tuple[Family, ...],
    value_of: Callable[[View], T | None],
    evaluate: Callable[[Remembered, T, View], Iterable[Sample]],
    remember: Callable[[Mapping[str, Pairs]], Mapping[str, Pairs]] = lambda state: state,
    unreadable: Callable[[Mapping[str, Pairs]], Iterable[tuple[Labels, str]]] | None = None,
) -> SignalGroup[Mapping[str, Pairs]]:
    """Return a group whose whole state is stored; `evaluate` updates the state and yields samples.

    After a restart the stored baselines replace the new ones, because they are older.
    """

    def step(
        state: Mapping[str, Pairs], view: View
    ) -> tuple[Mapping[str, Pairs], list[Sample] | None]:
        value, kept = value_of(view), dict(state)
        samples = None if value is None else list(evaluate(kept, value, view))
        return kept if samples is None else bounded(kept), samples

    return SignalGroup(
        name=name,
        sources=sources,
        families=families,
        step=step,
        initial={},
        remember=remember,
        recall=lambda state, kept: {**state, **kept},
        unreadable=unreadable,
    )
