"""Recent increase of counters that should not increase.

Only observed increases count: the first reading, and a reading below the one before, start a new
baseline.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - EMPTY's annotation
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from iowarden.rules.signals.signal import Pairs

SHOWN_SECONDS = 600.0
"""An increase is reported for so long; a further one within that time is added to it."""


class Increase(NamedTuple):
    """One counter. `rose`: its increase up to `at_seconds`, the time of the last increase."""

    total: float
    rose: float
    at_seconds: float

    def recent(self, now: float) -> float:
        """Return its increase within the last SHOWN_SECONDS."""
        return self.rose if now - self.at_seconds <= SHOWN_SECONDS else 0.0


EMPTY: Mapping[str, Increase] = {}


def grow(before: Increase | None, total: float, now: float) -> Increase:
    """Return the counter after a reading of `total`."""
    if before is None or total < before.total:
        return Increase(total, 0.0, now)
    if total > before.total:
        return Increase(total, before.recent(now) + total - before.total, now)
    return before


def since_boot(
    state: Mapping[str, Increase], now: float, uptime_seconds: float
) -> Mapping[str, Increase]:
    """Return the counters without those whose last increase was in an earlier boot."""
    booted = now - uptime_seconds
    if all(each.at_seconds >= booted for each in state.values()):
        return state
    return {name: each for name, each in state.items() if each.at_seconds >= booted}


def remember(state: Mapping[str, Increase]) -> dict[str, Pairs]:
    """Return the counters in the form in which they are stored."""
    return {name: ((g.total, g.rose), (g.at_seconds, 0.0)) for name, g in state.items()}


def recall(state: Mapping[str, Increase], stored: Mapping[str, Pairs]) -> dict[str, Increase]:
    """Return the stored counters combined with what was read since the restart."""
    result = dict(state)
    for name, pairs in stored.items():
        match pairs:
            case ((total, rose), (at, _)):
                before = Increase(total, rose, at)
            case _:
                continue
        since = state.get(name)
        if since is None:
            result[name] = before
        else:
            grown = grow(before, since.total, since.at_seconds)
            result[name] = grown._replace(rose=max(grown.rose, since.rose))
    return result
