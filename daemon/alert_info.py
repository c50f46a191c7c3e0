"""Summary and incident of each alert, as series next to iowarden_alerts; for one thread.

A text that changes with each value would be a new series each time: a summary is that of the moment
at which the alert's state changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.daemon import metrics, sanitize
from iowarden.rules import scrape_labels
from iowarden.rules.alerting import alerts as life

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iowarden.collectors.model import Labels, Sample
    from iowarden.rules.alerting.alerts import Alert, AlertState
    from iowarden.rules.incidents.model import Incident

MAX_SUMMARY_CHARACTERS = 120


class AlertInfo:
    """The summaries of the alerts that are firing or unknown."""

    def __init__(self, shown: Callable[[Alert], Alert] = lambda alert: alert) -> None:
        """Start without any. `shown` returns an alert as readers of /metrics may see it."""
        self._shown = shown
        self._summaries: dict[tuple[Labels, str], tuple[AlertState, str]] = {}
        self._seen: list[object] = []
        self._samples: list[Sample] = []
        """The last samples, and what they were made of."""

    def samples(
        self,
        alerts: Iterable[Alert],
        incidents: Iterable[Incident],
        targets: Mapping[str, Labels],
    ) -> list[Sample]:
        """Return a sample for each firing or unknown alert that iowarden_alerts has.

        Labels: those of the alert there, without the state; the incident's identifier, empty below
        warning; the summary on one line, of at most MAX_SUMMARY_CHARACTERS.
        """
        everything, listed = list(alerts), list(incidents)
        seen: list[object] = [*everything, *(each.members for each in listed), targets]
        if not life.same(seen, self._seen):
            self._seen, self._samples = seen, self._made(everything, listed, targets)
        return self._samples

    def _made(
        self, alerts: list[Alert], incidents: list[Incident], targets: Mapping[str, Labels]
    ) -> list[Sample]:
        active = [alert for alert in life.exported(alerts)[0] if alert.active]
        if not active:
            self._summaries.clear()
            return []
        of = {
            member.key: incident.identifier for incident in incidents for member in incident.members
        }
        before, self._summaries = self._summaries, {}
        samples: dict[Labels, None] = {}
        for alert in active:
            state, summary = before.get(alert.key, (None, ""))
            if state is not alert.state:
                text = sanitize.one_line(self._shown(alert).summary)
                summary = sanitize.shorten(text, MAX_SUMMARY_CHARACTERS)
            self._summaries[alert.key] = (alert.state, summary)
            labels = {
                **dict(scrape_labels.without(life.identity(alert), targets)),
                "incident": of.get(alert.key, ""),
                "summary": summary,
            }
            labels.pop("alertstate", None)
            samples[tuple(sorted(labels.items()))] = None
        return [(metrics.ALERT_INFO.name, labels, 1.0) for labels in samples]
