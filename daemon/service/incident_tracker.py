"""Incident tracker: once per second evaluates the rules, updates incidents and queues their mails.

What an incident is and when a mail is due is decided in rules/incidents; this module defines who is
called in which order, and that everything is written with the mails in one transaction.
"""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon import journal, metrics
from iowarden.daemon.locate import affected_files
from iowarden.daemon.storage.state_db import MAIL
from iowarden.daemon.views.unnotified import Unnotified, WaitingNotification, reasoned
from iowarden.rules.advice import advice
from iowarden.rules.alerting.alerts import AlertState, Transition, same
from iowarden.rules.incidents import incidents, mailing, members, model, recurring
from iowarden.rules.incidents.model import (
    DueNotice,
    Incident,
    IncidentChange,
    IncidentChangeKind,
    Incidents,
)
from iowarden.rules.notice import RECOVERIES, Reason
from iowarden.rules.notices import digest, what_to_do
from iowarden.rules.severity import Severity
from iowarden.rules.topology import device_changes, returned_disks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iowarden.collectors.model import Sample
    from iowarden.daemon.clock import SystemClock
    from iowarden.daemon.config.schema import Config
    from iowarden.daemon.locate.affected_files import SectorLookup
    from iowarden.daemon.notify.delivery import Delivery
    from iowarden.daemon.service.commands import CommandHandler
    from iowarden.daemon.service.event_pipeline import EventPipeline
    from iowarden.daemon.service.flight_recorder import FlightArchive
    from iowarden.daemon.service.notifier import Notifier
    from iowarden.daemon.service.situation import IncidentContext
    from iowarden.daemon.service.summaries import Summaries
    from iowarden.daemon.storage.state_db import OutboxRow
    from iowarden.daemon.transition_log import TransitionLog
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.engine.engine import Engine
    from iowarden.rules.notice import Notice
    from iowarden.rules.topology.graph import StorageGraph

_BEGINS = (IncidentChangeKind.OPENED, IncidentChangeKind.ESCALATED, IncidentChangeKind.REOPENED)


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step, to be written."""

    rows: list[OutboxRow]
    """Mails."""
    replaced: dict[str, tuple[str, ...]]
    """By message id of a mail: the mails that it replaces."""
    fired: bool
    """Whether an alert started to fire: the signals' state is then written as well."""
    changed: bool
    had_events: bool
    """Whether storage events were reported."""


@dataclass(slots=True)
class IncidentTracker:
    """The incidents, and which alerts recur regularly. For the loop's thread only."""

    engine: Engine
    events: EventPipeline
    situation: IncidentContext
    commands: CommandHandler
    notifier: Notifier
    summaries: Summaries
    mails: Delivery
    log: TransitionLog
    clock: SystemClock
    config: Callable[[], Config]
    flights: FlightArchive | None
    incidents: Incidents = field(default_factory=Incidents)
    install: str = ""
    """The installation's random identifier."""
    habits: recurring.Recurrences = field(default_factory=dict)
    _of_unresolved: list[tuple[model.IncidentMember, ...]] = field(default_factory=list)
    """The members of unresolved incidents that the events among the alerts are from."""

    def step(self, now: float, unwatched_seconds: float, running_seconds: float) -> StepResult:
        """Evaluate the rules that are due, and apply the results.

        `unwatched_seconds` is the time since the last tick, `running_seconds` since the first one.
        """
        self.install = self.install or secrets.token_hex(6)
        if unwatched_seconds > incidents.UNWATCHED_SECONDS:  # stopped, or starved of the processor
            by_key = incidents.unwatched(self.incidents.by_key, now)
            self.incidents = replace(self.incidents, by_key=by_key)
        self.commands.expire_silences(now)
        shown = [each.members for each in self.incidents.by_key.values() if each.unresolved]
        if not same(shown, self._of_unresolved):
            self._of_unresolved = shown
            self.engine.rules.events = members.event_alerts(self.incidents.by_key.values())
        changes = self.engine.rules.evaluate(now)
        self.situation.courses.take(self.engine.hub.chunks(), now)
        graph = self.events.graph(now)
        alerts = self.situation.alerts(now)
        self.habits = recurring.next_recurrences(self.habits, alerts, now, self.clock.wall_seconds)
        dues, events = self._next_incidents(alerts, graph, now, now - running_seconds)
        waiting = self.mails.outdated(now)
        dues = self._with_replacing_mails(dues, waiting, now)
        silences = self.commands.silences
        self._log_changes(changes, events, now)
        lesser = self.events.log_and_store(self.incidents.by_key, graph, now)
        seen = self.engine.devices.events()
        for seen_event in seen:
            self.log.device(seen_event, self._taken_back(seen_event, now))
        before = self.summaries.state
        self.summaries.take([*changes, *lesser], seen, now, lambda alert: self._usual(alert, now))
        rows = [row for due in dues for row in self._compose(due, now)]
        replaced = {
            row.message_id: tuple(each.message_id for each in waiting[row.incident])
            for row in rows  # Mails of incidents only: a digest replaces no other mail.
            if row.incident in waiting and row.receiver == MAIL
        }
        summary = self._initial_report(now, running_seconds)
        if summary is None:
            summary = self.summaries.due(now, self.install)
        if summary is not None:
            together = replace(summary, advice=advice.combined(summary.advice))
            rows += self.notifier.rows(together, self._states_of_report(together))
        self._log_rule_failures()
        happened, self.events.changed = self.events.changed, False
        return StepResult(
            rows,
            replaced,
            # The alert keeps firing if the program is killed in the middle of the stall.
            fired=any(change.alert.state is AlertState.FIRING for change in changes),
            changed=bool(changes or rows or self.incidents.changed)
            or self.commands.silences is not silences
            or self.summaries.state != before,
            had_events=happened,
        )

    def _with_replacing_mails(
        self, dues: list[DueNotice], waiting: Mapping[str, Sequence[OutboxRow]], now: float
    ) -> list[DueNotice]:
        """Return the mails that are due, with those in place of outdated and of lost ones.

        `waiting` has the undelivered mails of each incident.
        """
        acknowledged = self.commands.silences.by_incident()
        numbers = {key: tuple(row.number for row in rows) for key, rows in waiting.items()}
        self.incidents, dues = mailing.replacing(self.incidents, dues, numbers, now, acknowledged)
        if self.summaries.is_restored:  # before that nobody knows what was mailed
            self.incidents, dues = mailing.unqueued(
                self.incidents, dues, self._is_queued(), now, acknowledged
            )
        return dues

    def _next_incidents(
        self, alerts: Sequence[Alert], graph: StorageGraph, now: float, started: float
    ) -> tuple[list[DueNotice], list[IncidentChange]]:
        """Apply the alerts to the incidents; return the mails that are due, and what changed.

        `started` is when the program was.
        """
        self.incidents, dues, events = incidents.next_incidents(
            self.incidents,
            alerts,
            now,
            incidents.Surroundings(
                install=self.install,
                policy=_policy(self.config()),
                observe=lambda alert: self.situation.observed(alert, now),
                is_observable=self.engine.rules.is_observable,
                initial_report=self.summaries.initial_report(self.install),
                silenced=lambda alert: self.commands.silence_of(alert, now) is not None,
                usual=lambda alert: self._usual(alert, now),
                acknowledged=self.commands.silences.by_incident(),
                graph=graph,
                started_seconds=started,
            ),
        )
        return dues, events

    def _log_changes(
        self, changes: Sequence[Transition], events: Sequence[IncidentChange], now: float
    ) -> None:
        """Log what changed; an acknowledgement that has ended is dropped."""
        for event in events:
            if event.change is IncidentChangeKind.ACK_EXPIRED:
                self.commands.drop_acknowledgement(event.incident.identifier)
        for change in changes:
            self.log.transition(change, self.incidents.by_key.values())
        for event in events:
            self.log.incident(event)
            self._save_flight(event, now)

    def _initial_report(self, now: float, running_seconds: float) -> Notice | None:
        """Return the initial report if it is due; what it contains is counted as mailed by it."""
        made = self.summaries.initial_mail(
            self.incidents.by_key.values(), now, running_seconds, self.install
        )
        if made is None:
            return None
        notice, contained = made
        for incident in contained:
            self._put(incident)
        return notice

    def _states_of_report(self, notice: Notice) -> tuple[tuple[str, int], ...]:
        """Return which states of incidents a mail without an incident of its own reports.

        The initial report's own one is that of what joins later and has a line in it.
        """
        report_id = digest.initial_report_identifier(self.install)
        if notice.incident != report_id:
            return ()
        reference = f"{report_id}.{notice.number}"
        contained = [i for i in self.incidents.by_key.values() if i.references == (reference,)]
        return (report_id, notice.number), *((i.identifier, i.mails) for i in contained)

    def reported(self) -> frozenset[str]:
        """Return the names that notifications of incidents may have: see Incident.reports."""
        return frozenset(
            (
                digest.initial_report_identifier(self.install),
                *(i.identifier for i in self.incidents.by_key.values()),
                *(
                    reference.rpartition(".")[0]
                    for i in self.incidents.by_key.values()
                    for reference in i.references
                ),
            )
        )

    def _is_queued(self) -> Callable[[Incident], bool]:
        """Return whether a receiver was sent a notification of an incident, or is to be.

        Or whether none takes its severity.
        """
        wanted = {each: self.notifier.receivers(each) for each in Severity}
        configured = {name for names in wanted.values() for name in names}

        def is_queued(incident: Incident) -> bool:
            is_wanted = bool(wanted[incident.severity])
            return not is_wanted or not configured.isdisjoint(self._receivers_of(incident))

        return is_queued

    def _receivers_of(self, incident: Incident) -> set[str]:
        """Return the receivers that were sent a notification of an incident, or are to be."""
        return {each.receiver for each in self.mails.ledger.of(incident.reports)}

    def _usual(self, alert: Alert, now: float) -> str:
        return recurring.usual(self.habits, alert, now, self.clock.wall_seconds)

    def _log_rule_failures(self) -> None:
        """Log which rules cannot be evaluated, and which can be evaluated again."""
        problems = {f"rule {rule}": text for rule, text in self.engine.rules.problems.items()}
        for key, text in problems.items():
            self.log.trouble(key, text)
        for key in self.log.troubles().keys() - problems.keys():
            if key.startswith("rule "):
                self.log.trouble(key, "")

    def _compose(self, due: DueNotice, now: float) -> list[OutboxRow]:
        """Render the notification that is due for the outbox; note its advice as given."""
        incident = due.incident
        notice = self.notifier.notice(due, now)
        if incident.firing:
            recurs, self.habits = recurring.sentences(
                self.habits, incident, now, self.clock.wall_seconds
            )
            notice = replace(notice, sentences=(*recurs, *notice.sentences))
        if due.reason is Reason.OPENED and not self.summaries.is_restored:
            notice = replace(notice, sentences=(*notice.sentences, digest.MAYBE_MAILED))
        # An incident with a mail due may have been closed in the same step.
        known = self.incidents.by_key[incident.key]
        self._put(replace(known, advised=what_to_do.advised(incident)))
        return self._rows(due, notice, now)

    def _rows(self, due: DueNotice, notice: Notice, now: float) -> list[OutboxRow]:
        """Return the messages about an incident; a receiver that had none yet gets a first one.

        Good news goes to those that had one, whatever their severities.
        """
        incident = due.incident
        about = (incident, *due.companions)
        states = tuple((each.identifier, each.mails) for each in about)
        informed = self._receivers_of(replace(incident, mails=incident.mails - 1))
        if due.reason in RECOVERIES:
            return self.notifier.rows(notice, states, informed)
        wanted = self.notifier.receivers(notice.severity)
        strangers = [each for each in wanted if each not in informed]
        if not informed or not strangers:
            return self.notifier.rows(notice, states)
        rows = self.notifier.rows(notice, states, informed.intersection(wanted))
        first = self.notifier.notice(replace(due, replaces=(*due.replaces, 1)), now)
        return [*rows, *self.notifier.rows(first, states, strangers)]

    def _put(self, incident: Incident) -> None:
        by_key = {**self.incidents.by_key, incident.key: incident}
        self.incidents = replace(self.incidents, by_key=by_key)

    def _taken_back(self, event: device_changes.DeviceChange, now: float) -> tuple[str, ...]:
        """Return the steps to re-add a returned disk; the incident's next mail includes them."""
        back = self.engine.devices.devices.returned.get(event.identity.key)
        if (
            event.change
            not in (
                device_changes.DeviceChangeKind.RETURNED,
                device_changes.DeviceChangeKind.RENAMED,
            )
            or back is None
        ):
            return ()
        steps = advice.taking_back(back, self.situation.facts(now))
        for incident in self.incidents.by_key.values() if steps else ():
            if incident.mails and incident.firing and back in self.situation.returned(incident):
                news = returned_disks.sentence(back.was, back.name, back.object)
                self._put(replace(incident, details=(*incident.details, news)))
        return steps

    def add_affected_files(self, lookup: SectorLookup) -> None:
        """Add the files in failed sectors; if their incident was mailed, queue another mail."""
        self.log.send(
            journal.EVENT,
            5,
            "; ".join(e.text for e in affected_files.evidence([lookup], self.clock.realtime)),
            IOWARDEN_DEVICE=lookup.device,
        )
        for key, incident in self.incidents.by_key.items():
            mine = key == lookup.subject or any(
                m.subject == lookup.subject for m in incident.members
            )
            if mine and lookup.certain and incident.accepts_details:
                self._put(replace(incident, details=(model.AFFECTED_FILES,)))
                return

    def _save_flight(self, event: IncidentChange, now: float) -> None:
        """Save the flight recording once when an incident becomes critical."""
        incident, flights = event.incident, self.flights
        if flights is None or incident.severity < Severity.CRITICAL or event.change not in _BEGINS:
            return
        open_now = {i.identifier for i in self.incidents.by_key.values()}
        path = flights.save_of(incident.identifier, now, self.clock.realtime(now), open_now)
        if not path:
            return
        self.log.send(
            journal.FLIGHT_SAVED,
            6,
            f"incident {incident.identifier}: flight recording of the last minutes; replay it:"
            f" iowarden replay {path}",
            IOWARDEN_INCIDENT=incident.identifier,
        )

    def log_removed_rules(self, alerts: Sequence[Alert], now: float) -> None:
        """Log alerts that end because their rule was removed."""
        changes = [
            Transition(replace(a, state=AlertState.INACTIVE, unknown_reason=""), a.state)
            for a in alerts
        ]
        self.summaries.drop_removed_rules(changes, now)
        for change in changes:
            if change.before in (AlertState.FIRING, AlertState.UNKNOWN):
                self.log.transition(
                    change,
                    self.incidents.by_key.values(),
                    "its rule was removed, its state is unknown",
                )

    def unnotified(self, now: float) -> Unnotified:
        """Return how many open incidents have no accepted notification, and why.

        No incident if no receiver is configured: 'iowarden check' reports that.
        """
        config, realtime = self.config(), self.clock.realtime(now)
        owed = self._unnotified()
        if not owed:
            return Unnotified()
        waiting = (
            WaitingNotification(name, row.created_realtime_seconds, reason)
            for row, reason in self.mails.waiting(now)
            for name, _ in row.states
        )
        is_maildir = config.mail.enabled and config.mail.server is None
        return reasoned(owed, waiting, realtime, is_maildir=is_maildir)

    def _unnotified(self) -> list[Incident] | None:
        """Return the incidents without an accepted notification; None without a receiver."""
        config = self.config()
        receivers = [each for each in config.notify if each.notifies]
        if not (config.mail.enabled or receivers):
            return None
        alerted = self.mails.alerted()
        return mailing.unnotified(
            self.incidents.by_key.values(),
            self.commands.silences.by_incident(),
            lambda i: i.identifier in alerted or self.mails.ledger.is_accepted(i.reports),
        )

    def samples(self) -> list[Sample]:
        """Return the number of incidents."""
        owed = self._unnotified()
        open_now = [i for i in self.incidents.by_key.values() if i.closed_seconds is None]
        unresolved = Counter(i.severity for i in open_now if i.unresolved)
        name = metrics.INCIDENTS_UNRESOLVED.name
        return [
            *([] if owed is None else [(metrics.INCIDENTS_UNNOTIFIED.name, (), float(len(owed)))]),
            (metrics.INCIDENTS_OPEN.name, (), float(len(open_now))),
            *(
                (name, (("severity", each.name.lower()),), float(unresolved[each]))
                for each in (Severity.WARNING, Severity.CRITICAL)
            ),
        ]


def _policy(config: Config) -> model.NotificationPolicy:
    return model.NotificationPolicy(
        grouping_seconds=config.warning_group_wait_seconds,
        all_clear_seconds=config.resolve_after_seconds,
        close_seconds=config.close_after_seconds,
        reopen_seconds=config.reopen_within_seconds,
        remind_seconds=config.remind_after_seconds,
    )
