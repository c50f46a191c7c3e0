"""Observed time of metrics: which part of a rule's range was observed at all. Pure."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.promql.store import LOOKBACK_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BREAK_SECONDS = LOOKBACK_SECONDS
"""Shorter breaks are ignored, as in expressions: a sample is valid for this long."""
MAX_BROKEN_RATIO = 0.1
"""Largest ratio of breaks in an observed window; a 1 min window exceeds it 10 s after a restart."""


@dataclass(frozen=True, slots=True)
class ObservationHistory:
    """Since when the history of each selector is stored, and its breaks without observation.

    `since` is by the text of a selector, such as 'up' or 'up{job="node"}'. Units: seconds of the
    program's clock; a break is its begin and end.
    """

    since: Mapping[str, float] = field(default_factory=dict)
    until_seconds: float = 0.0
    breaks: tuple[tuple[float, float], ...] = ()

    def window(self, selector: str, seconds: float, now: float) -> float:
        """Return since when a selector's series are observed, with regard to a window up to now.

        The window was fully observed if it began after that.
        """
        since, begin = self.since[selector], now - seconds
        broken = sum(max(0.0, end - max(start, begin)) for start, end in self.breaks)
        if broken > MAX_BROKEN_RATIO * seconds:
            since = max(since, *(end for _, end in self.breaks))
        return since


def resumed(
    own: ObservationHistory, before: ObservationHistory, began: float, longest_seconds: float
) -> ObservationHistory:
    """Return `own` extended by the time observed before a restart; `began`: start of this process.

    Limits: after a long break, or one of unknown length because the clock was set back, only `own`
    counts; also for a selector that no rule used before the restart. The history of a whole metric,
    or of '' (all of them), includes that of its selectors.
    """
    if not 0.0 <= began - before.until_seconds <= BREAK_SECONDS:
        return own
    since = {}
    for selector, at in own.since.items():
        known = (selector, selector.partition("{")[0], "")
        since[selector] = min(
            at, next((before.since[text] for text in known if text in before.since), at)
        )
    breaks = (*before.breaks, (before.until_seconds, began), *own.breaks)
    return replace(own, since=since, breaks=_recent(breaks, began - longest_seconds))


def _recent(breaks: Iterable[tuple[float, float]], since: float) -> tuple[tuple[float, float], ...]:
    return tuple((start, end) for start, end in breaks if end > since)
