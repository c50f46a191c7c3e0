"""Notifier: builds the notification of an incident and renders it for each receiver's outbox."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon import journal
from iowarden.daemon.clock import PLAUSIBLE_SECONDS
from iowarden.daemon.locate import affected_files
from iowarden.daemon.notify.message import message_id, recipients, render, subject
from iowarden.daemon.receivers import message as document
from iowarden.daemon.storage.state_db import MAIL, OutboxRow
from iowarden.daemon.transition_log import PRIORITY
from iowarden.rules import faults, io_usage, selftest_schedule
from iowarden.rules.advice import advice
from iowarden.rules.conditions.condition import Condition
from iowarden.rules.faults import Fault
from iowarden.rules.notice import ENDS, Evidence, Reason
from iowarden.rules.notices import report, who_waits
from iowarden.rules.signals.waits.freeze_cause import OF_MEMORY
from iowarden.rules.topology import returned_disks

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from iowarden.daemon.clock import SystemClock
    from iowarden.daemon.config.receivers import ReceiverConfig
    from iowarden.daemon.config.schema import Config
    from iowarden.daemon.locate.affected_files import AffectedFiles, SectorLookup
    from iowarden.daemon.polling.io_watch import IoWatch
    from iowarden.daemon.service.flight_recorder import FlightArchive
    from iowarden.daemon.service.situation import IncidentContext
    from iowarden.daemon.trace_client.incident_traces import IncidentTraces
    from iowarden.daemon.transition_log import TransitionLog
    from iowarden.rules.incidents.model import DueNotice, Incident
    from iowarden.rules.notice import Notice
    from iowarden.rules.selftest_schedule import Runs
    from iowarden.rules.severity import Severity


@dataclass(frozen=True, slots=True)
class Notifier:
    """Describes incidents in text; when a mail is due is decided elsewhere."""

    situation: IncidentContext
    log: TransitionLog
    clock: SystemClock
    config: Callable[[], Config]
    self_tests: Callable[[], Runs]
    files: AffectedFiles | None
    flights: FlightArchive | None
    io_watch: IoWatch
    traces: IncidentTraces | None = None
    with_receivers: bool = True
    """Whether messages are written for the receivers other than mail."""

    def notice(self, due: DueNotice, now: float) -> Notice:
        """Return the notification of an incident, in text: each section with what the host adds."""
        incident, is_over = due.incident, due.reason in ENDS
        notice = report.notice(due, self._sources(incident, now))
        hits = self._failed_sectors(incident)
        who_waits_first, *others = self._who_waits_and_why(incident, now) or [""]
        if not notice.meaning:
            who_waits_first, others = "", [who_waits_first, *others]
        return replace(
            notice,
            meaning=_with_sentence(notice.meaning, who_waits_first),
            sentences=(
                *notice.sentences,
                *affected_files.seen_during(hits, incident.members, self.clock.date),
                *filter(None, others),
                *selftest_schedule.seen_during(
                    self.self_tests(), incident.members, now, self.clock.date
                ),
                *self._disks_back(incident),
            ),
            affected=(*notice.affected, *affected_files.affected(hits)),
            evidence=(
                *notice.evidence,
                *affected_files.evidence(hits, self.clock.realtime),
                *self._recorded(incident),
            ),
            advice=advice.combined(
                (
                    *notice.advice,
                    *affected_files.advice(hits),
                    *(() if is_over else self._taking_back(incident, now)),
                )
            ),
            unknown=(
                *notice.unknown,
                *(() if is_over else self._unknown_waits(incident, notice, now)),
            ),
        )

    def _sources(self, incident: Incident, now: float) -> report.Sources:
        """Return what the mail of an incident is made of."""
        situation, engine = self.situation, self.situation.engine
        keys = {member.key for member in incident.members}
        alerts = [alert for alert in situation.alerts(now) if alert.key in keys]
        return report.Sources(
            self.clock.realtime,
            now,
            situation.events.evidence(incident, now),
            engine.last.block,
            engine.devices.dependents,
            situation.busy(),
            situation.waiting(now),
            advice.text_of_member(alerts, lambda: situation.facts(now)),
            situation.measured(alerts, now),
        )

    def _failed_sectors(self, incident: Incident) -> list[SectorLookup]:
        """Return the files that were found in failed sectors of an incident's disks."""
        if self.files is None:
            return []
        subjects = dict.fromkeys((incident.key, *(m.subject for m in incident.members)))
        return self.files.lookups(subjects, incident.started_seconds)

    def _who_waits_and_why(self, incident: Incident, now: float) -> list[str]:
        """Return who waits, who reads without need, and who reads and writes most."""
        members = [
            member
            for member in incident.members
            if self.io_watch.is_of(member.since_seconds, member.over_seconds)
        ]
        conditions = {io_usage.condition(member.name, member.labels) for member in members}
        topology = self.situation.engine.last.block
        devices = {} if topology is None else topology.devices
        names = {dict(member.labels).get("device", "") for member in members}
        disks = {devices[name].device_number or "": name for name in names & devices.keys()}
        return [
            *self._who_waits(incident, now),
            *self._who_causes_reads(incident),
            *self.io_watch.sentences(conditions, now, disks),
        ]

    def _disks_back(self, incident: Incident) -> list[str]:
        """Return which disks of an incident are back, and under which name."""
        back = self.situation.returned(incident)
        return [returned_disks.sentence(disk.was, disk.name, disk.object) for disk in back]

    def _taking_back(self, incident: Incident, now: float) -> list[str]:
        """Return the steps to take disks back that are there again."""
        back = self.situation.returned(incident)
        facts = self.situation.facts(now) if back else None
        return [step for disk in back if facts for step in advice.taking_back(disk, facts)]

    def _unknown_waits(self, incident: Incident, notice: Notice, now: float) -> list[str]:
        """Return that it is not known who waits for a disk that hangs, if no poll has shown it.

        A text of a rule that gives the reason, as that the probe does not answer, is enough.
        """
        is_hang = any(faults.meaning(m.name).fault is Fault.HANGS for m in incident.members)
        is_seen = self.situation.engine.signals.harm().is_seen(now)
        has_reason = any(who_waits.REASON in text for text in notice.unknown)
        return [who_waits.NOT_KNOWN] if is_hang and not (is_seen or has_reason) else []

    def _recorded(self, incident: Incident) -> Iterator[Evidence]:
        """Yield the flight recording and the trace of an incident."""
        realtime = self.clock.realtime
        if self.flights is not None and (saved := self.flights.saved(incident.identifier)):
            at, path = saved
            yield Evidence(realtime(at), "recorded", f"iowarden replay {path}")
        if self.traces is not None:
            yield from self.traces.evidence(incident, realtime)

    def _who_waits(self, incident: Incident, now: float) -> list[str]:
        """Return who waits for the devices of an incident, because of whom, and in what rhythm."""
        harm = self.situation.engine.signals.harm()
        names = set[str]()
        for member in incident.members:
            labels = dict(member.labels)
            is_freeze = labels.get("condition") == Condition.FREEZE
            if is_freeze or "device" in labels:
                names.add(labels.get("device", ""))
        lines: list[str] = []
        for name in sorted(names & harm.last_harms.keys()):
            seen_seconds, on_device = harm.last_harms[name]
            if self.config().show_programs:
                lines += who_waits.sentences(on_device, now - seen_seconds)
                lines += who_waits.limit_sentences(harm.limits.get(name, ()))
                if harm.causes.get(name) in OF_MEMORY:
                    lines.append(who_waits.memory_sentence(harm.swept_processes(now)))
            lines.append(who_waits.rhythm_sentence(harm.devices[name], now, self.clock.date))
        return [line for line in lines if line]

    def _who_causes_reads(self, incident: Incident) -> list[str]:
        """Return which programs cause the phantom reads of an incident's devices."""
        if not self.config().show_programs:
            return []
        reads = self.situation.engine.signals.unrequested_reads()
        names = {
            value
            for member in incident.members
            if io_usage.condition(member.name, member.labels) == Condition.PHANTOM_READS
            for label, value in member.labels
            if label == "device"
        }
        lines = [who_waits.unrequested_sentence(reads[name]) for name in sorted(names & {*reads})]
        return [line for line in lines if line]

    def receivers(self, severity: Severity) -> list[str]:
        """Return the receivers of messages of a severity: mail, and others by their names."""
        config = self.config()
        word = severity.name.lower()
        others = [each.name for each in self._others() if word in each.severities]
        return [*([MAIL] if config.mail.enabled else []), *others]

    def _others(self) -> list[ReceiverConfig]:
        return [each for each in self.config().notify if self.with_receivers and each.messages]

    def rows(
        self,
        notice: Notice,
        states: tuple[tuple[str, int], ...] = (),
        receivers: Container[str] | None = None,
    ) -> list[OutboxRow]:
        """Return the rendered mail for the outbox, and the message for each other receiver.

        `states` are the states of incidents that it reports; `receivers` gets it, None: each one of
        its severity.
        """
        wanted = self.receivers(notice.severity) if receivers is None else receivers
        if notice.realtime_seconds < PLAUSIBLE_SECONDS:
            unset = "time: the clock of this machine was not set, the dates in this mail are wrong"
            notice = replace(notice, unknown=(*notice.unknown, unset))
        config = self.config()
        notice = replace(notice, page=_page_address(config, notice))
        to = recipients(config)
        noun = "mail" if config.mail.enabled else "notification"
        self.log.send(
            journal.INCIDENT_MAIL,
            PRIORITY[notice.severity],
            f"incident {notice.incident}: {noun} {notice.number}: {subject(notice, config.host)}",
            IOWARDEN_INCIDENT=notice.incident,
            IOWARDEN_SEVERITY=notice.severity.name.lower(),
        )
        row = OutboxRow(
            message_id=message_id(notice, config.host),
            incident=notice.incident,
            number=notice.number,
            severity=notice.severity,
            created_realtime_seconds=notice.realtime_seconds,
            recipients_pending=to,
            data=b"",
            states=states,
        )
        rows = []
        if config.mail.enabled and MAIL in wanted:
            message = render(notice, config.host, config.mail.sender, to)
            rows.append(replace(row, data=message.as_bytes()))
        names = [each.name for each in self._others() if each.name in wanted]
        data = document.encoded(document.document(notice, config.host)) if names else b""
        rows += [
            replace(
                row,
                message_id=document.message_id(name, notice),
                recipients_pending=(name,),
                data=data,
                receiver=name,
            )
            for name in names
        ]
        return rows


def _with_sentence(meaning: Sequence[str], sentence: str) -> tuple[str, ...]:
    """Return the meaning with a sentence behind its first text: before the advice, whom to stop."""
    if not meaning or not sentence:
        return tuple(meaning)
    named = f"{sentence[0].upper()}{sentence[1:]}."
    return (f"{meaning[0].rstrip()} {named}", *meaning[1:])


def _page_address(config: Config, notice: Notice) -> str:
    """Return the address of an incident on the status page, if other hosts reach that.

    Not where a file decides whether it is HTTP or HTTPS.
    """
    if notice.reason in {Reason.INITIAL, Reason.DIGEST} or config.web_config is not None:
        return ""
    ports = [port for address, port in config.listen if not ip_address(address).is_loopback]
    is_served = bool(ports) and config.http.page != "off"
    return f"http://{config.host}:{ports[0]}/incident/{notice.incident}" if is_served else ""
