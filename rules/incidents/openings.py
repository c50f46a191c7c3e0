"""First mails of many incidents within ten minutes share one mail. Pure.

Units: seconds of the program's clock.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.rules.incidents import due
from iowarden.rules.notice import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.rules.incidents.model import DueNotice, Incident

WINDOW_SECONDS = 600.0
MAX_SINGLE, MAX_URGENT = 3, 7
"""First mails within the window that are sent each for itself; of urgent incidents."""
PAUSE_SECONDS, URGENT_PAUSE_SECONDS = 60.0, 5.0
"""So long the next shared mail waits for further incidents."""


def shared(
    incidents: dict[str, Incident],
    before: Mapping[str, Incident],
    notices: Iterable[DueNotice],
    now: float,
) -> list[DueNotice]:
    """Return the mails that are due, with first mails beyond the limit in one of them.

    `incidents` are those with these mails counted: of a mail that waits for others it is taken
    back. The worst incident gives the mail its name; the others answer it with their next mails.
    """
    notices = list(notices)
    first = [each for each in notices if each.reason is Reason.OPENED and not each.replaces]
    if not first:
        return notices
    times = sorted(
        incident.first_mailed_seconds
        for incident in before.values()
        if incident.mails
        and incident.first_mailed_seconds is not None
        and now - incident.first_mailed_seconds < WINDOW_SECONDS
    )
    first.sort(key=lambda notice: (not _is_urgent(notice, now), -notice.incident.severity))
    together = [
        notice
        for place, notice in enumerate(first)
        if len(times) + place >= (MAX_URGENT if _is_urgent(notice, now) else MAX_SINGLE)
    ]
    if not together:
        return notices
    others = [notice for notice in notices if notice not in together]
    pause = URGENT_PAUSE_SECONDS if _is_urgent(together[0], now) else PAUSE_SECONDS
    if times and now - times[-1] < pause:
        for notice in together:
            incidents[notice.incident.key] = _not_mailed(notice.incident)
        return others
    leader = together[0]
    companions = []
    for notice in together[1:]:
        companion = replace(notice.incident, references=leader.incident.first_mails)
        incidents[companion.key] = companion
        companions.append(companion)
    return [*others, replace(leader, companions=tuple(companions))]


def _is_urgent(notice: DueNotice, now: float) -> bool:
    return any(due.urgent(member) for member in due.reportable(notice.incident, now))


def _not_mailed(incident: Incident) -> Incident:
    """Return an incident whose first mail has to wait."""
    return replace(
        incident,
        mails=0,
        references=(),
        faults=tuple(replace(record, reported=None) for record in incident.faults),
        mailed_object="",
        mailed_seconds=None,
        first_mailed_seconds=None,
        last_reason=None,
        burst=0,
    )
