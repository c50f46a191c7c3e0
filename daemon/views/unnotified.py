"""The sentence about open incidents without an accepted notification. Pure."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.quantity import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.rules.incidents.model import Incident


@dataclass(frozen=True, slots=True)
class WaitingNotification:
    """A notification in the outbox: why it waits. Units: Unix seconds."""

    incident: str
    """That it reports, or the initial report."""
    created_seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Unnotified:
    """How many open incidents have no accepted notification, and why."""

    incidents: int = 0
    reasons: tuple[str, ...] = ()
    by_incident: Mapping[str, str] = field(default_factory=dict)
    """The reason of each, by its identifier."""

    @property
    def sentence(self) -> str:
        """Return all of it in a sentence; '' if there is none."""
        if not self.incidents:
            return ""
        what = f"{self.incidents} open incident{'s'[: self.incidents != 1]}"
        why = f": {'; '.join(self.reasons)}" if self.reasons else ""
        return f"Nobody has been notified about {what}{why}"


def reasoned(
    incidents: Iterable[Incident],
    waiting: Iterable[WaitingNotification],
    realtime_seconds: float,
    *,
    is_maildir: bool,
) -> Unnotified:
    """Return the reasons, of several notifications about an incident that of the oldest.

    `is_maildir`: mails are only stored in the Maildir of this machine.
    """
    oldest: dict[str, WaitingNotification] = {}
    for each in sorted(waiting, key=lambda each: each.created_seconds):
        oldest.setdefault(each.incident, each)
    counts: dict[str, int] = {}
    since: dict[str, float] = {}
    by_incident: dict[str, str] = {}
    for incident in incidents:
        queued = [oldest[name] for name, _ in incident.reports if name in oldest]
        if queued:
            first = min(queued, key=lambda each: each.created_seconds)
            reason = first.reason
            since[reason] = min(first.created_seconds, since.get(reason, first.created_seconds))
        elif not incident.mails:
            reason = "not mailed yet"
        elif is_maildir:
            reason = "only in the Maildir of this machine: set 'mail.server'"
        else:
            reason = "no receiver takes this severity, or the notification was discarded"
        counts[reason] = counts.get(reason, 0) + 1
        by_incident[incident.identifier] = reason
    ages = {each: duration(max(realtime_seconds - at, 0.0)) for each, at in since.items()}
    texts = (
        f"{count} queued for {ages[reason]}: {reason}" if reason in ages else f"{count} {reason}"
        for reason, count in counts.items()
    )
    return Unnotified(len(by_incident), tuple(texts), by_incident)
