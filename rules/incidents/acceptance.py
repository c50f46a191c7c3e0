"""Which incidents have no accepted notification. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from iowarden.rules.incidents.model import Incident


def unnotified(
    incidents: Iterable[Incident],
    acknowledged: Container[str],
    alerting: Container[Severity] = frozenset(),
) -> list[Incident]:
    """Return the open incidents of warning or worse of which no receiver accepted a notification.

    Not those that are silenced, acknowledged (by identifier), or that ended before their first
    mail. `alerting` are the severities of alerts that a receiver of the present state accepts.
    """
    return [
        each
        for each in incidents
        if each.closed_seconds is None
        and each.severity >= Severity.WARNING
        and (each.firing or each.mails)
        and any(not m.silenced for m in each.members)
        and each.identifier not in acknowledged
        and each.severity not in alerting
        and not each.is_accepted
    ]
