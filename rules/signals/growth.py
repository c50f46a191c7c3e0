"""Counters that should stand still: how much each grew lately.

An increase is only what was seen to increase: the first sight and a counter that fell are where it
is counted from.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - EMPTY's annotation
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from iowarden.rules.signals.signal import Pairs

HELD_SECONDS = 600.0
"""An increase is told for so long; one within that time adds to it."""


class Growth(NamedTuple):
    """One counter. `rose`: by how much it did, until `at_seconds`, when it last did."""

    total: float
    rose: float
    at_seconds: float

    def recent(self, now: float) -> float:
        """Return by how much it rose lately."""
        return self.rose if now - self.at_seconds <= HELD_SECONDS else 0.0


EMPTY: Mapping[str, Growth] = {}


def grow(before: Growth | None, total: float, now: float) -> Growth:
    """Return the counter after it read `total`."""
    if before is None or total < before.total:
        return Growth(total, 0.0, now)
    if total > before.total:
        return Growth(total, before.recent(now) + total - before.total, now)
    return before


def since_boot(
    state: Mapping[str, Growth], now: float, uptime_seconds: float
) -> Mapping[str, Growth]:
    """Return the counters without those that were last seen to rise in an earlier boot."""
    booted = now - uptime_seconds
    if all(each.at_seconds >= booted for each in state.values()):
        return state
    return {name: each for name, each in state.items() if each.at_seconds >= booted}


def remember(state: Mapping[str, Growth]) -> dict[str, Pairs]:
    """Return the counters as they are kept over a restart."""
    return {name: ((g.total, g.rose), (g.at_seconds, 0.0)) for name, g in state.items()}


def recall(state: Mapping[str, Growth], kept: Mapping[str, Pairs]) -> dict[str, Growth]:
    """Return the counters of before a restart, with what was seen since."""
    result = dict(state)
    for name, pairs in kept.items():
        match pairs:
            case ((total, rose), (at, _)):
                before = Growth(total, rose, at)
            case _:
                continue
        since = state.get(name)
        if since is None:
            result[name] = before
        else:
            grown = grow(before, since.total, since.at_seconds)
            result[name] = grown._replace(rose=max(grown.rose, since.rose))
    return result
