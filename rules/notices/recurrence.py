"""Further sentences of a mail: how often a fault occurred, and what else it reports.

Pure. Units: seconds of the program's clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.rules.quantity import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.rules.incidents.model import DueNotice, Incident


def additions(due: DueNotice) -> Iterator[str]:
    """Yield what a mail reports in addition to the faults of its incident."""
    if due.acknowledged_by:
        yield (
            f"it was acknowledged by {due.acknowledged_by}: that ended, as it has escalated since"
        )
    for companion in due.companions:
        worst = max(companion.members, key=lambda member: member.severity, default=None)
        summary = "" if worst is None else f": {worst.summary}"
        severity = companion.severity.name.lower()
        yield f"{severity} incident {companion.identifier}, {companion.object}{summary}"


def occurrences(incident: Incident, now: float) -> Iterator[str]:
    """Yield how often a fault recurred, and for how long in all."""
    for record in incident.faults:
        if record.count == 1 or record.reported is None or record.lines:
            continue
        whole = record.earlier_seconds + record.lasted_seconds(now)
        since = quantity("_seconds", now - record.began_seconds)
        each = quantity("_seconds", round(whole / record.count))
        yield (
            f"{record.fault.value} {record.count} times in the last {since}, each time for about"
            f" {each}, {quantity('_seconds', round(whole))} in all: {record.reported.summary}"
        )
