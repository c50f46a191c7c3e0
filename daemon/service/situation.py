"""Current situation for incidents, mails and commands: alerts, events and measurements."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Outcome
from iowarden.collectors.quantity import duration
from iowarden.daemon.notify.delivery import PresentState
from iowarden.daemon.views import public_answers
from iowarden.rules.advice import dirty_limits, facts, last_copies
from iowarden.rules.alerting.alerts import same
from iowarden.rules.events import hung
from iowarden.rules.notice import Evidence
from iowarden.rules.notices import measurements, why
from iowarden.rules.notices.courses import Courses
from iowarden.rules.notices.measurements import Measured, RuleThreshold

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.block.diskstats import BlockIo
    from iowarden.collectors.model import Sample
    from iowarden.collectors.procfs.tasks import BlockedTasks
    from iowarden.daemon.clock import SystemClock
    from iowarden.daemon.config.schema import Config
    from iowarden.daemon.service.event_pipeline import EventPipeline
    from iowarden.daemon.service.reload import Reloader
    from iowarden.rules.advice.facts import Facts
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.engine.engine import Engine
    from iowarden.rules.incidents.model import Incident, Incidents
    from iowarden.rules.notice import Course
    from iowarden.rules.topology.device_changes import ReturnedDisk

RULE_FILE_REFUSED = "RuleFileRefused"


@dataclass(slots=True)
class IncidentContext:
    """Reads state and changes nothing."""

    engine: Engine
    events: EventPipeline
    clock: SystemClock
    reloader: Reloader
    courses: Courses = field(default_factory=Courses)
    _busy: tuple[Mapping[str, BlockIo] | None, list[str]] = field(default=(None, []))
    """The last reading of '/proc/diskstats', and the disks with requests in flight in it."""
    _found: list[Alert] = field(default_factory=list)
    _alerts_of: tuple[object, ...] = ()
    _alerts: list[Alert] = field(default_factory=list)
    """The last alerts, and what they were made of: mostly they are the same in the next second."""

    def config(self) -> Config:
        """Return the configuration in force."""
        return self.reloader.config

    def alerts(self, now: float) -> list[Alert]:
        """Return the alerts of rules and of events."""
        happen = self.events.alerts(now, self.config().resolve_after_seconds)
        found, where = [*self.engine.rules.alerts(), *happen], self.engine.devices.places()
        of = where, self.engine.waiting(now), self.config().show_programs
        if of != self._alerts_of or not same(found, self._found):
            self._alerts_of, self._found = of, found
            self._alerts = last_copies.marked(found, where)
            if any(each.name in hung.NAMES for each in found):
                self._alerts = hung.named(self._alerts, self.waiting(now))
        return self._alerts

    def scraped(self, alert: Alert) -> Alert:
        """Return an alert of the engine as those may see it who read /metrics."""
        config = self.config()
        if config.http.page == "full" and config.show_programs:  # each reader has logged in
            return alert
        return public_answers.scraped(alert, self.events.rows)

    def waiting(self, now: float) -> BlockedTasks | None:
        """Return which tasks wait, None if not known; programs without names if so configured."""
        found = self.engine.waiting(now)
        if found is None or self.config().show_programs:
            return found
        tasks = (t if t.kernel else replace(t, command="a program") for t in found.tasks)
        return replace(found, tasks=tuple(tasks))

    def facts(self, now: float) -> Facts:
        """Return the facts that advice is based on."""
        chunks = self.engine.hub.chunks()
        known = facts.advice_inputs(
            self.engine.devices.places(),
            self.engine.devices.mounts(),
            self.alerts(now),
            facts.slow(chunks),
            facts.multipath(chunks),
            dirty_limits.backlog(chunks),
        )
        return facts.Facts(known)

    def present(self, incidents: Incidents, unsent_seconds: float) -> PresentState:
        """Return what state receivers are sent; of notifications the age of the oldest unsent."""
        stuck = [
            each.source.name
            for each in self.engine.sources.values()
            if each.outcome() is Outcome.STUCK
        ]
        unhealthy = f"stuck collectors: {', '.join(stuck)}" if stuck else ""
        if unsent_seconds >= self.config().mail.unsent_critical_after_seconds:
            unhealthy = f"notifications have waited for {duration(unsent_seconds)}"
        open_now = incidents.by_key.values()
        return PresentState(
            [*self.engine.rules.alerts(), *self.engine.rules.events],
            lambda: {m.key: each.identifier for each in open_now for m in each.members},
            self.clock.realtime,
            unhealthy,
        )

    def busy(self) -> list[str]:
        """Return the disks with requests in flight."""
        known, topology = self.engine.last.diskstats, self.engine.last.block
        if known is None or topology is None:
            return []
        if self._busy[0] is not known:  # Cached: it may be called for a thousand alerts.
            leaves = (name for name in topology.leaves if name in known)
            self._busy = known, [name for name in leaves if known[name].in_flight > 0]
        return self._busy[1]

    def observed(self, alert: Alert, now: float) -> tuple[Evidence, ...]:
        """Return evidence at the moment an alert starts to fire; blocked tasks are cut off last."""
        waits = why.observed(
            alert,
            self.waiting(now),
            self.busy(),
            self.engine.last.block,
            self.clock.realtime(now),
        )
        file = dict(alert.labels).get("file", "") if alert.name == RULE_FILE_REFUSED else ""
        errors = self.reloader.rule_errors(file)
        refused = (Evidence(self.clock.realtime(now), "rule file", text) for text in errors)
        return (*waits, *self.values([alert], now), *refused)

    def values(self, alerts: list[Alert], now: float) -> tuple[Evidence, ...]:
        """Return the current samples behind alerts, as an incident stores them."""
        return measurements.stored(self._samples(alerts), self.clock.realtime(now))

    def measured(self, alerts: list[Alert], now: float) -> Measured:
        """Return the current samples behind alerts, with their thresholds and courses."""
        rules = self.engine.rules
        compared: dict[str, RuleThreshold] = {}
        for alert in alerts:
            compared |= measurements.numbers(rules.expression(alert))

        def course(sample: Sample, threshold: float | None) -> Course | None:
            return self.courses.course(*sample, now, threshold)

        return Measured(self._samples(alerts), self.engine.hub.last, compared, course)

    def _samples(self, alerts: list[Alert]) -> tuple[Sample, ...]:
        found = (s for alert in alerts for s in self.engine.rules.current(alert))
        return tuple(dict.fromkeys(found))

    def returned(self, incident: Incident) -> list[ReturnedDisk]:
        """Return the disks that returned during an incident of theirs, or of their array."""
        about = {incident.key, *(m.subject for m in incident.members)}
        return [
            back
            for key, back in self.engine.devices.devices.returned.items()
            if back.at_seconds >= incident.started_seconds
            and (key in about or any(f"device {holder}" in about for _, holder in back.members))
        ]
