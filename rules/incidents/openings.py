"""First mails of many incidents within ten minutes share one mail. Pure.

Units: seconds of the program's clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.incidents import due

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iowarden.rules.incidents.model import Incident

WINDOW_SECONDS = 600.0
MAX_SINGLE, MAX_URGENT = 3, 7
"""First mails within the window that are sent each for itself; of urgent incidents."""
PAUSE_SECONDS, URGENT_PAUSE_SECONDS = 60.0, 5.0
"""So long after the last first mail the next shared one waits for further incidents."""
LATEST_SECONDS = 120.0
"""No longer after its opening: urgent incidents whose mails go at once must not delay it again."""


@dataclass(frozen=True, slots=True)
class Openings:
    """Incidents whose first mail is due: with one of their own, in a shared one, or later.

    Of the incidents that share a mail the first is the worst: it gives the mail its name.
    """

    shared: Sequence[Incident] = ()
    postponed: Sequence[Incident] = ()


def divided(first: Iterable[Incident], incidents: Iterable[Incident], now: float) -> Openings:
    """Return which of the incidents whose `first` mail is due share one, or wait for others.

    The rest has a mail each. `incidents` are all, before these mails are counted.
    """
    earlier = [
        incident.first_mailed_seconds
        for incident in incidents
        if incident.mails
        and incident.first_mailed_seconds is not None
        and now - incident.first_mailed_seconds < WINDOW_SECONDS
    ]
    ranked = sorted(first, key=lambda each: (not due.is_urgent(each, now), -each.severity))
    excess = [
        incident
        for place, incident in enumerate(ranked, len(earlier))
        if place >= (MAX_URGENT if due.is_urgent(incident, now) else MAX_SINGLE)
    ]
    if not excess:
        return Openings()
    pause = URGENT_PAUSE_SECONDS if due.is_urgent(excess[0], now) else PAUSE_SECONDS
    is_late = now - min(incident.opened_seconds for incident in excess) >= LATEST_SECONDS
    is_too_soon = bool(earlier) and now - max(earlier) < pause and not is_late
    return Openings(postponed=excess) if is_too_soon else Openings(shared=excess)
