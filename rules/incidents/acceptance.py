"""Which incidents have no accepted notification, and which not even a queued one. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.rules.incidents import due
from iowarden.rules.incidents.model import DueNotice
from iowarden.rules.notice import Reason
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from iowarden.rules.incidents.model import Incident, Incidents


def unnotified(
    incidents: Iterable[Incident],
    acknowledged: Container[str],
    is_notified: Callable[[Incident], bool],
) -> list[Incident]:
    """Return the open incidents of warning or worse of which no receiver accepted a notification.

    Not those that are silenced, acknowledged (by identifier), or that ended before their first
    mail. `is_notified`: a receiver accepted one.
    """
    return [
        each
        for each in incidents
        if each.closed_seconds is None
        and each.severity >= Severity.WARNING
        and (each.firing or each.mails)
        and any(not m.silenced for m in each.members)
        and each.identifier not in acknowledged
        and not is_notified(each)
    ]


def unqueued(
    state: Incidents,
    dues: list[DueNotice],
    is_queued: Callable[[Incident], bool],
    now: float,
    acknowledged: Container[str],
) -> tuple[Incidents, list[DueNotice]]:
    """Return the mails that are due with those of incidents whose earlier ones are gone.

    A mail was discarded, or only went to a receiver that is no longer configured: what still
    lasts needs another one. `is_queued`: one is in the outbox, or was accepted.
    """
    there = {each.incident.identifier for each in dues}
    gone = [
        each
        for each in state.by_key.values()
        if each.mails
        and each.identifier not in there
        and each.identifier not in acknowledged
        and not is_queued(each)
        and any(due.reportable(each, now))
    ]
    if not gone:
        return state, dues
    mailed = [due.mailed(each, Reason.OPENED, now) for each in gone]
    by_key = {**state.by_key, **{each.key: each for each in mailed}}
    again = [DueNotice(Reason.OPENED, each) for each in mailed]
    return replace(state, by_key=by_key), [*dues, *again]
