"""Which of the time that rules look back over was watched at all. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from iowarden.rules.promql.store import LOOKBACK_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BREAK_SECONDS = LOOKBACK_SECONDS
"""A shorter break is bridged, as expressions bridge it: a sample counts for so long."""
MOST_BROKEN_RATIO = 0.1
"""Of a window that counts as watched: one of a minute is not, ten seconds after a restart."""


@dataclass(frozen=True, slots=True)
class Watched:
    """Since when history is kept of each metric, and when nobody watched in between.

    `since` has '' for the metrics that rules name by a pattern. Units: seconds of the program's
    clock; a break is its begin and end.
    """

    since: Mapping[str, float] = field(default_factory=dict)
    until_seconds: float = 0.0
    breaks: tuple[tuple[float, float], ...] = ()

    def window(self, name: str, seconds: float, now: float) -> float:
        """Return since when a metric is watched, as far as a window up to now tells.

        The window was watched if it began after that.
        """
        since, begin = self.since[name], now - seconds
        broken = sum(max(0.0, end - max(start, begin)) for start, end in self.breaks)
        if broken > MOST_BROKEN_RATIO * seconds:
            since = max(since, *(end for _, end in self.breaks))
        return since


def resumed(own: Watched, before: Watched, began: float, longest_seconds: float) -> Watched:
    """Return our own with what was watched before a restart; `began` is when we did.

    Limits: after a long break, or one of unknown length because the clock was set back, it is ours
    alone; and so is a metric that no rule asked for then.
    """
    if not 0.0 <= began - before.until_seconds <= BREAK_SECONDS:
        return own
    any_since = before.since.get("")
    since = {
        name: min(at, before.since.get(name, at if any_since is None else any_since))
        for name, at in own.since.items()
    }
    breaks = (*before.breaks, (before.until_seconds, began), *own.breaks)
    return replace(own, since=since, breaks=_recent(breaks, began - longest_seconds))


def _recent(breaks: Iterable[tuple[float, float]], since: float) -> tuple[tuple[float, float], ...]:
    return tuple((start, end) for start, end in breaks if end > since)
