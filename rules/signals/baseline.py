"""Error counts against the count there was at first sight, kept over restarts.

First sight is baseline: what was counted before is not news. A count that fell was cleared (e2fsck,
'btrfs device stats -z') or began anew with its array: all it says now is new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from iowarden.rules.signals.signal import Group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iowarden.collectors.model import Family, Sample
    from iowarden.rules.signals.signal import Pairs, View

RECENT_SECONDS = 86_400.0
"""Errors of which each came within a day of the one before are one matter."""
STAMP_SECONDS = 3600.0
"""When something was last seen is kept this coarsely: what is kept is written to disk."""
MOST_KEPT = 2000
"""Objects remembered; the ones seen last stay."""

Kept = dict[str, "Pairs"]
"""What a group remembers, by object: its whole state, so that a restart loses nothing."""
T = TypeVar("T")


class Count(NamedTuple):
    """One error count. Units: seconds of the program's clock."""

    at_seconds: float
    """When it was last read, at most STAMP_SECONDS ago."""
    last: float
    grew_seconds: float
    """When it last grew; before that, the first sight."""
    baseline: float

    @property
    def new(self) -> float:
        """Errors since the baseline."""
        return self.last - self.baseline


def stamp(at_seconds: float, now: float) -> float:
    """Return `now`, or when something was seen before, if that is recent."""
    return at_seconds if 0.0 <= now - at_seconds < STAMP_SECONDS else now


def seen(kept: Kept, key: str, value: float, now: float) -> None:
    """Keep that something was `value` now."""
    at = kept[key][0][0] if key in kept and kept[key][0][1] == value else now
    kept[key] = ((stamp(at, now), value),)


def count(pairs: Pairs | None, value: float, now: float) -> Count:
    """Return a count after it was read as `value`."""
    value = float(value)
    match pairs:
        case ((at, last), (grew, baseline)):
            if value < last:
                return Count(now, value, now, 0.0)
            if value > last:
                return Count(now, value, now, baseline)
            return Count(stamp(at, now), value, min(grew, now), baseline)
        case _:
            return Count(now, value, now, value)


def recent(pairs: Pairs | None, value: float, now: float) -> Count:
    """Return the same with the baseline set to `value` once nothing was added for a day."""
    counted = count(pairs, value, now)
    over = now - counted.grew_seconds > RECENT_SECONDS
    return counted._replace(baseline=counted.last) if over else counted


def pairs(counted: Count) -> Pairs:
    """Return a count as it is kept."""
    return (counted.at_seconds, counted.last), (counted.grew_seconds, counted.baseline)


def bounded(state: Kept) -> Kept:
    """Return the state without what was longest not seen, where there is too much of it."""
    if len(state) <= MOST_KEPT:
        return state
    latest = sorted(state.items(), key=lambda item: item[1][0][0] if item[1] else 0.0)
    return dict(latest[-MOST_KEPT:])


def group(
    name: str,
    sources: tuple[str, ...],
    families: tuple[Family, ...],
    value_of: Callable[[View], T | None],
    judged: Callable[[Kept, T, View], Iterable[Sample]],
    remember: Callable[[Mapping[str, Pairs]], Mapping[str, Pairs]] = lambda state: state,
) -> Group[Mapping[str, Pairs]]:
    """Return a group whose state is what it remembers; `judged` changes that and yields samples.

    A restart brings the baselines of before it back, which are the older ones.
    """

    def step(
        state: Mapping[str, Pairs], view: View
    ) -> tuple[Mapping[str, Pairs], list[Sample] | None]:
        value, kept = value_of(view), dict(state)
        samples = None if value is None else list(judged(kept, value, view))
        return kept if samples is None else bounded(kept), samples

    return Group(
        name=name,
        sources=sources,
        families=families,
        step=step,
        initial={},
        remember=remember,
        recall=lambda state, kept: {**state, **kept},
    )
