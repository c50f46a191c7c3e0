"""The service: connects its parts, dispatches events, runs the duties of each second in order."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from iowarden.collectors.block import uevents
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Chunk, Outcome, Reading, Sample
from iowarden.collectors.quantity import duration
from iowarden.daemon import journal, metrics
from iowarden.daemon.alert_info import AlertInfo
from iowarden.daemon.clock import local_zone
from iowarden.daemon.config.rule_files import LoadedRules
from iowarden.daemon.control.control_socket import ControlCommand
from iowarden.daemon.http.exposition import MetricsSnapshot
from iowarden.daemon.locate.affected_files import AffectedFiles, SectorLookup
from iowarden.daemon.notify import delivery, stored_mails
from iowarden.daemon.notify.attempt import SendResult
from iowarden.daemon.page.builder import PageBuilder, PageRequest
from iowarden.daemon.polling.io_watch import IoRead, IoWatch
from iowarden.daemon.polling.own_tasks import OwnTasks
from iowarden.daemon.service import (
    flight_recorder,
    reload,
    sample_persistence,
    scan_runner,
    selftest_runner,
)
from iowarden.daemon.service.checkpoint import STATE_WAIT_SECONDS, Checkpoint
from iowarden.daemon.service.commands import CommandHandler
from iowarden.daemon.service.device_watch import DeviceWatch
from iowarden.daemon.service.event_pipeline import Callbacks, EventPipeline
from iowarden.daemon.service.health import ServiceHealth
from iowarden.daemon.service.incident_tracker import IncidentTracker
from iowarden.daemon.service.loop import OWN_NAMES, Loop
from iowarden.daemon.service.messages import JournalNote, Reload, Trouble
from iowarden.daemon.service.notifier import Notifier
from iowarden.daemon.service.probe_watch import ProbeWatch
from iowarden.daemon.service.reload import Reloader
from iowarden.daemon.service.sample_persistence import SamplePersistence
from iowarden.daemon.service.situation import IncidentContext
from iowarden.daemon.service.stored_documents import SCHEMA, Schema, encode
from iowarden.daemon.service.summaries import Summaries
from iowarden.daemon.storage.history_db import SamplesLoaded, Written
from iowarden.daemon.storage.state_db import Committed, Noted, StateLoaded, Texts
from iowarden.daemon.trace_client.incident_traces import IncidentTrace, IncidentTraces
from iowarden.daemon.transition_log import LogSink, TransitionLog
from iowarden.daemon.views import answers, tuning_answers
from iowarden.rules.events.event_table import EventTable
from iowarden.rules.tuning.setting_changes import READ, SettingChanges

if TYPE_CHECKING:
    import queue
    from collections.abc import Callable, Mapping, Sequence

    from iowarden.collectors.machine import Machine
    from iowarden.daemon.clock import SystemClock
    from iowarden.daemon.config.schema import Config
    from iowarden.daemon.control import documents
    from iowarden.daemon.control.control_socket import Control
    from iowarden.daemon.http.exposition import Exposition
    from iowarden.daemon.http.http_server import HttpServer
    from iowarden.daemon.notify.channel import MessageSender
    from iowarden.daemon.notify.delivery import PresentState
    from iowarden.daemon.polling.pollers import Pollers
    from iowarden.daemon.polling.scheduler import SourceScheduler
    from iowarden.daemon.probe_client.client import Client
    from iowarden.daemon.process_metrics import Content
    from iowarden.daemon.service.loop import Duty, FrameSource
    from iowarden.daemon.trace.protocol import TraceRequest, TraceResult
    from iowarden.rules.engine.engine import Engine
    from iowarden.rules.rulefile.rulefile import RuleGroup

    _Runner = selftest_runner.SelfTestRunner | scan_runner.ScanRunner
    _Executor = _Runner | stored_mails.StoredMails | CommandHandler

SCRAPE_WAIT_SECONDS = 60.0
"""How long /metrics waits for it: without the stored alerts a Prometheus resolves them."""
HTTP_RETRY_INTERVAL_SECONDS = 30.0
STOP_SECONDS = 5.0
"""Time that a stop grants the last commit and the mail in progress."""
CLOSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The dependencies of the service; made by the command line, or by a test."""

    config: Config
    clock: SystemClock
    engine: Engine
    readers: SourceScheduler
    pollers: Pollers
    events: queue.SimpleQueue[object]
    log: LogSink
    state: delivery.MailStore
    sender: MessageSender | None
    """Sends mails; None: mails are disabled."""
    exposition: Exposition
    notify: Callable[[str], object]
    """sd_notify: takes the text of the datagram."""
    player: FrameSource | None = None
    own_metrics: Callable[[], Content] = tuple
    """Metrics of the process itself."""
    own_tasks: OwnTasks = OwnTasks()
    store_unparsed: Callable[[Reading[object], float], object] | None = None
    """Saves the text of a reading that could not be parsed; the time is Unix time."""
    rules: LoadedRules = field(default_factory=lambda: LoadedRules([]))
    """The engine's, and the user's rule files that are not loaded."""
    load: Callable[[Sequence[RuleGroup]], tuple[Config, LoadedRules]] | None = None
    """Reads configuration and rules again, of which some are in force; may hang."""
    sender_for: Callable[[Config], MessageSender | None] | None = None
    """Makes the mail sender for a changed configuration."""
    receivers_for: Callable[[Config], delivery.Receivers] | None = None
    """Makes the receivers other than mail; None: there are none, whatever is configured."""
    probe: Client | None = None
    """Client of the privileged probe, which runs as root."""
    make_selftest_machine: Callable[[], Machine] | None = None
    """Makes the access for self-tests and scans; None: these are not possible."""
    make_locate_machine: Callable[[], Machine] | None = None
    """Makes the access for locating affected files; None: not possible."""
    make_usage_machine: Callable[[], Machine] | None = None
    """Makes the access for finding out which programs read and write; None: not possible."""
    trace: Callable[[TraceRequest], TraceResult] | None = None
    """Traces the requests of disks; blocks meanwhile. None: not possible."""
    table: EventTable | None = None
    """The event table; None: no storage events."""
    flights: flight_recorder.FlightArchive | None = None
    """Saves flight recordings."""
    control: Control | None = None
    """The control socket for commands."""
    history: sample_persistence.SampleStore | None = None
    """Stores the samples of range-based rules."""
    collect_garbage: Callable[[float], object] = lambda _: None
    """Runs at the end of each second: daemon/garbage.py, where the process is this service."""
    restriction: str = ""
    """A line for the initial report about what this service may not read; '' if nothing."""
    version: str = ""
    schema: Schema = SCHEMA
    """The schema of the persisted state."""


class Service:
    """The running service: its parts, and which one handles each event and duty."""

    def __init__(self, parts: Dependencies) -> None:
        """Connect the parts; nothing runs yet."""
        self._dependencies = parts
        self._server: HttpServer | None = None
        self._pending: list[Reading[object]] = []
        """Readings from threads since the last tick."""
        self._readings: list[Reading[object]] = []
        """The readings of this tick."""
        self._next_http = float("-inf")
        self._alert_info = AlertInfo(lambda alert: self._situation.scraped(alert))  # noqa: PLW0108 - made below
        self._evaluated = False
        self._compose(parts)
        self.loop = Loop(
            parts.events,
            parts.clock,
            self._log,
            self._handle,
            self._duties(),
            parts.player,
            settling=lambda: (
                parts.readers.waiting() or self._mails.awaits_state() or self._reloader.busy()
            ),
            idle=self._idle,
        )
        self._own_metrics = lambda: (*parts.own_metrics(), *self.loop.times.content())

    def _compose(self, parts: Dependencies) -> None:
        """Make the parts that hold state, and connect them."""
        clock, engine, drives = parts.clock, parts.engine, parts.pollers.drives
        self._clock, self._engine = clock, engine
        self._log = log = TransitionLog(
            parts.log, lambda: clock.realtime(clock.now()), clock.now, parts.config.redactor
        )
        if parts.control is not None:
            log.follow = parts.control.publish
        receivers = None if parts.receivers_for is None else parts.receivers_for(parts.config)
        self._mails = delivery.Delivery(
            parts.state, parts.sender, log, receivers, self._present, encode, clock.realtime
        )
        self._stored_mails = stored_mails.StoredMails(
            self._mails, str(Path(parts.config.state_directory) / "Maildir")
        )
        self._sample_persistence = SamplePersistence(parts.history, engine, log)
        self.health = ServiceHealth(engine, clock, log, parts.notify)
        self._reloader = Reloader(
            (parts.config, parts.rules),
            clock,
            log,
            parts.notify,
            parts.events.put,
            load=parts.load,
            sender_for=parts.sender_for,
            receivers_for=parts.receivers_for,
            put_in_force=self._put_in_force,
        )
        self._files = files = (
            None
            if parts.make_locate_machine is None
            else AffectedFiles(parts.make_locate_machine, clock.now, clock.uptime, parts.events.put)
        )
        self._traces = (
            None
            if parts.trace is None
            else IncidentTraces(
                parts.trace, clock.now, parts.events.put, lambda: self._config().show_programs
            )
        )
        self._event_pipeline = EventPipeline(
            engine,
            log,
            parts.table or EventTable({}),
            clock.realtime,
            callbacks=Callbacks(
                parts.pollers.kernel_log,
                parts.pollers.controllers,
                drives.poll_next,
                lambda: parts.readers.read_now(("md",)),
                (lambda _: None) if files is None else files.request,
                lambda event: self._scans.is_own(event, clock.now()),
                parts.own_tasks.is_hang,
            ),
            store=parts.history,
        )
        self._situation = IncidentContext(engine, self._event_pipeline, clock, self._reloader)
        self._setting_changes = SettingChanges()
        self._command_handler = CommandHandler(
            engine,
            log,
            self._known,
            self._store,
            lambda: engine.last.block,
            store_signals=lambda: self._checkpoint.commit(signals=True),
            history_path=str(Path(parts.config.state_directory) / "history.db"),
            event_rows=lambda: self._event_pipeline.rows,
            advise=self._advise,
        )
        self._self_tests = selftest_runner.SelfTestRunner(
            engine,
            log,
            parts.make_selftest_machine,
            drives.poll_next,
            parts.events.put,
            realtime=clock.realtime,
            zone=local_zone(),
            keep=self._store,
        )
        self._self_tests.groups = parts.config.self_tests
        self._scans = scan_runner.ScanRunner(
            engine,
            log,
            parts.make_selftest_machine,
            drives.poll_next,
            parts.events.put,
            realtime=clock.realtime,
            zone=local_zone(),
            keep=self._store,
        )
        self._scans.groups = parts.config.scans
        self._scans.report = self._event_pipeline.add
        self._scans.self_tests = lambda: self._self_tests.runs
        self._pages = PageBuilder(
            self._known,
            self._situation.facts,
            engine.hub,
            {} if parts.table is None else parts.table.rows,
            lambda: log.events,
            self._self_tests.status,
            self._scans.status,
        )
        flight = None if parts.flights is None else parts.flights.flight
        self._io_watch = IoWatch(
            engine,
            parts.make_usage_machine,
            parts.events.put,
            clock.uptime,
            lambda: self._config().show_programs,
            None if flight is None else flight.take,
            lambda text: log.send(journal.SOURCE_FAILED, 6, text),
            lambda text: log.trouble("io", text, journal.SOURCE_FAILED),
            inline=parts.player is not None,
        )
        self._notifier = Notifier(
            self._situation,
            log,
            clock,
            self._config,
            lambda: self._self_tests.runs,
            files,
            parts.flights,
            self._io_watch,
            self._traces,
            parts.receivers_for is not None,
        )
        self._summaries = Summaries(
            self._situation,
            clock,
            self._config,
            silenced=lambda alert, now: self._command_handler.silence_of(alert, now) is not None,
            delivered=lambda: self._mails.delivered_total,
            restriction=parts.restriction,
        )
        self._tracker = IncidentTracker(
            engine,
            self._event_pipeline,
            self._situation,
            self._command_handler,
            self._notifier,
            self._summaries,
            self._mails,
            log,
            clock,
            self._config,
            parts.flights,
        )
        self._devices = DeviceWatch(engine, parts.readers, log, files, flight)
        self._probe = ProbeWatch(parts.probe, log, self._store)
        self._checkpoint = Checkpoint(
            parts.state,
            self._mails,
            parts.schema,
            log,
            clock,
            engine,
            self._tracker,
            self._summaries,
            self._event_pipeline,
            self._command_handler,
            self._self_tests,
            self._scans,
            self._probe,
            files,
        )

    def _config(self) -> Config:
        """Return the configuration in force."""
        return self._reloader.config

    def _store(self) -> None:
        """Persist a user's command, or another change, at once."""
        self._checkpoint.commit()

    def _duties(self) -> Mapping[str, Duty]:
        """Return the duties of each second: poll, evaluate, report. Each gets the program time."""
        return {
            "turn": self.health.turns,
            "clocks": self._checkpoint.compare_clocks,
            # Not before a recording has set the time.
            "restore state": self._checkpoint.restore,
            "restore samples": self._sample_persistence.restore,
            "hold logs": self._hold_logs,
            "read": self._read,
            "flight recorder": self._record_flight,
            "sources": self._check_readings,
            "signals": self._observe,
            "poll tasks": lambda now: self._dependencies.readers.read_now(
                self._dependencies.pollers.task_polls.step(self._engine, self._readings, now)
            ),
            "poll states": self._devices.poll_states,
            # Now that the device topology is known.
            "events": self._take_events,
            "files hit": lambda _: None if self._files is None else self._files.step(),
            "history of drives": self._store_drives,
            "disks met": lambda _: self._checkpoint.store_new_disk(),
            "own metrics": self._publish_own,
            "setting changes": self._compare_settings,
            "alerts, incidents, mails": self._evaluate,
            "who reads and writes": self._io_watch.step,
            "traces": lambda _: self._trace_incidents(),
            "send mails": self._mails.step,
            "self-tests": self._self_tests.step,
            "scans": self._scans.step,
            "checkpoint": self._checkpoint.step,
            "samples": lambda now: self._sample_persistence.step(
                now, self._checkpoint.wall_ahead_seconds
            ),
            # Hanging threads are logged after everything else is done.
            "history thread": lambda _: self._sample_persistence.check_thread(),
            "reload thread": self._reloader.check_thread,
            "state and mail threads": lambda _: self._mails.check_threads(),
            "probe": lambda _: self._probe.check(),
            "unsent mails": lambda now: self._mails.log_state(
                now, self._config().mail.unsent_critical_after_seconds
            ),
            "http": self._serve,
            "exposition": self._publish,
            "course on the page": self._pages.step,
            "systemd": lambda now: self.health.turned(
                now, len(self._mails), self._reloader.refusal
            ),
            "garbage": self._dependencies.collect_garbage,
        }

    # --- start to stop

    def run(self, server: HttpServer | None) -> int:
        """Run until a signal requests a stop; return the exit status."""
        self.begin(server)
        while self.loop.stopping is None:
            self.loop.turn()
        self.stop()
        return 0

    def begin(self, server: HttpServer | None) -> None:
        """Request the persisted state; a recording starts only when it is loaded."""
        self._server = server
        self._dependencies.state.load()
        self._sample_persistence.begin()
        if self._dependencies.player is not None:
            self.loop.wait_while(
                lambda: not self._is_known() and self.loop.stopping is None, STATE_WAIT_SECONDS
            )
        self.loop.begin()

    def stop(self) -> None:
        """Finish the last commit and the mail in progress, within a limit; the rest is stored."""
        signal = "stop" if self.loop.stopping is None else self.loop.stopping.signal
        self._dependencies.notify("STOPPING=1")
        self._checkpoint.commit(signals=True)
        now, ahead = self.health.turned_seconds, self._checkpoint.wall_ahead_seconds
        self.loop.wait_while(
            lambda: not self._sample_persistence.finish(now, ahead) or self._mails.busy(),
            STOP_SECONDS,
        )
        left = len(self._mails)
        if self._mails.durable():
            what = f"; mails still queued in state.db: {left}" if left else ""
            self._log.send(journal.STOPPED, 6, f"stopped by {signal}{what}")
        else:
            self._log.send(
                journal.STOPPED,
                3,
                f"stopped by {signal}; state.db could not be written: alerts and mails since the"
                f" last write are lost (mails still queued: {left})",
            )
        if self._server is not None:
            self._server.close()
        if self._dependencies.control is not None:
            self._dependencies.control.close()
        if self._dependencies.probe is not None:
            self._dependencies.probe.close(CLOSE_SECONDS)
        self._sample_persistence.close(CLOSE_SECONDS)
        self._dependencies.readers.close()
        self._dependencies.log.close()

    # --- events

    def _handle(self, event: object, now: float) -> None:
        """Handle a reply of a thread."""
        match event:
            case Reading():
                self._dependencies.readers.finished(event)
                self._pending.append(event)
                text = f"{event.outcome}, {duration(event.duration_seconds)} {event.error}"
                self._log.debug(f"collector {event.source}: {text}")
            case SendResult():
                self._mails.sent(event, now)
            case Committed():
                self._take_commit(event, now)
            case Noted():
                self._log.send(journal.STATE_TROUBLE, 5 if event.is_good else 4, event.text)
            case StateLoaded():
                self._checkpoint.take(event)
            case Texts():
                self._checkpoint.texts = event.paths
            case SamplesLoaded() | Written():
                self._sample_persistence.take(event)
            case SectorLookup():
                if self._files is not None and self._files.take(event):
                    self._checkpoint.commit()
                    self._tracker.add_affected_files(event)
            case IncidentTrace():
                self._take_trace(event)
            case reload.ReloadDone() | reload.ReloadRefused():
                self._reloader.take(event)
            case IoRead():
                self._io_watch.take(event, now)
            case selftest_runner.SelfTestAnswer():
                self._self_tests.take(event, now)
            case scan_runner.ScanAnswer():
                self._scans.take(event, now)
            case _:
                self._handle_request(event, now)

    def _take_commit(self, event: Committed, now: float) -> None:
        self._mails.committed(event)
        if self.loop.stopping is None:
            self._mails.step(now)  # A critical mail does not wait for the next tick.
        self._log.trouble("state", event.error, journal.STATE_TROUBLE)

    def _take_trace(self, event: IncidentTrace) -> None:
        if self._traces is not None and (reason := self._traces.take(event)):
            self._log.send(journal.TROUBLE, 6, f"no trace of {event.device}: {reason}")

    def _handle_request(self, event: object, now: float) -> None:
        """Handle a request of a user, a signal or the kernel."""
        match event:
            case Trouble():
                self._log.trouble(event.key, event.text)
            case JournalNote():
                self._log.send(journal.TROUBLE, 5, event.text)
            case uevents.UeventBatch():
                self._devices.take(event)
            case PageRequest():
                self._pages.answer(event, now)
            case ControlCommand():
                self._answering(event.name).answer(event, now)
            case Reload():
                self._reloader.begin()
            case _:
                self._log.trouble("event", f"loop: bug: unknown event {event!r:.200}")

    def _answering(self, command: str) -> _Executor:
        """Return what executes a command."""
        if command in stored_mails.COMMANDS:
            return self._stored_mails
        if command in selftest_runner.COMMANDS:
            return self._self_tests
        return self._scans if command in scan_runner.COMMANDS else self._command_handler

    # --- duties

    def _idle(self, now: float) -> None:
        self._mails.step(now)
        self._dependencies.notify("WATCHDOG=1")

    def _is_known(self) -> bool:
        """Whether the persisted state is loaded, or there is none to load."""
        return self._checkpoint.answered and self._sample_persistence.known

    def _hold_logs(self, now: float) -> None:
        """Delay reading the logs until their cursors are known, or cannot be known."""
        held, text = self._checkpoint.paused_logs(self.health.since_start(now))
        self._dependencies.readers.hold(held)
        self._engine.hold(held, "waits for state.db", now)
        self._log.trouble("held", text)

    def _read(self, now: float) -> None:
        own, readers = self._dependencies.own_tasks, self._dependencies.readers
        self._readings = [own.without(r) for r in (*self._pending, *readers.run(now))]
        self._pending = []

    def _record_flight(self, now: float) -> None:
        if self._dependencies.flights is not None:
            self._dependencies.flights.flight.tick(self._clock.uptime(), self._clock.realtime(now))

    def _check_readings(self, _: float) -> None:
        """Log failed and recovered collectors, and check for device changes."""
        for reading in self._readings:
            key = f"collector {reading.source}"
            if reading.outcome in (Outcome.OK, Outcome.ABSENT):
                self._log.trouble(key, "", journal.SOURCE_RECOVERED)
            else:
                text = f"{reading.source}: {reading.outcome}: {reading.error}"
                self._log.trouble(key, text, journal.SOURCE_FAILED)
            if (store := self._dependencies.store_unparsed) is not None:
                store(reading, self._clock.realtime(reading.monotonic_seconds))
            self._devices.check(reading)

    def _observe(self, now: float) -> None:
        self._engine.observe(self._readings, now, self._clock.uptime(), self._clock.asleep())

    def _present(self, now: float) -> PresentState | None:
        """Return what state receivers are sent; None before all of it is known."""
        incidents, age = self._tracker.incidents, self._mails.oldest_unsent_seconds(now)
        return self._situation.present(incidents, age) if self._evaluated else None

    def _compare_settings(self, now: float) -> None:
        if self._setting_changes.due(now):
            families = ((f.name, s) for c in self._engine.hub.chunks() for f, s in c.of(READ))
            self._setting_changes.step(now, families)

    def _take_events(self, now: float) -> None:
        for reading in self._readings:
            self._event_pipeline.take(reading, now)
        self._event_pipeline.step(now)

    def _store_drives(self, now: float) -> None:
        """Store the drive values since the last poll in the long-term history."""
        self._sample_persistence.store_drives(self._clock.realtime(now))

    def _publish_own(self, now: float) -> None:
        """Publish iowarden's own metrics, so that rules can evaluate them."""
        samples: list[Sample] = [
            *self._tracker.samples(),
            *self._alert_info.samples(
                [*self._engine.rules.alerts(), *self._engine.rules.events],
                self._tracker.incidents.by_key.values(),
                self._config().targets,
            ),
            *self._mails.samples(now),
            *self._command_handler.samples(now),
            *self._self_tests.samples(now),
            *self._scans.samples(now),
            *self._event_pipeline.samples(),
            *self._probe.samples(self._clock.realtime(now)),
            *self._sample_persistence.samples(),
            *self._checkpoint.samples(),
            (metrics.LOG_LOST.name, (), float(self._dependencies.log.lost_total)),
            *self._reloader.samples(now, self._checkpoint.wall_ahead_seconds),
            *self._devices.samples(),
            *self._io_watch.samples(now),
            *([] if self._server is None else self._server.samples()),
        ]
        self._engine.hub.publish("daemon", metrics.FAMILIES, samples, now)

    def _evaluate(self, now: float) -> None:
        """Evaluate and report, but not before the state of the previous run is known."""
        running = self.health.since_start(now)
        if not self._is_known() and running <= STATE_WAIT_SECONDS:
            return
        step = self._tracker.step(now, now - self.health.turned_seconds, running)
        self._evaluated = True
        if step.had_events or self._checkpoint.restacked() or step.changed:
            self._checkpoint.commit(step.rows, signals=step.fired, replaced=step.replaced)

    def _trace_incidents(self) -> None:
        if self._traces is not None and self._config().trace:
            self._traces.step(self._tracker.incidents.by_key.values(), self._engine.last.block)

    def _serve(self, now: float) -> None:
        if self._server is None or now < self._next_http:
            return
        problem = self._server.start()
        self._log.trouble("http", problem)
        self._next_http = now + HTTP_RETRY_INTERVAL_SECONDS if problem else float("inf")

    def _publish(self, now: float) -> None:
        """Publish the current metrics; they are rendered when scraped."""
        own = Chunk("process", int(now), make=self._own_metrics, names=OWN_NAMES)
        self._dependencies.exposition.publish(MetricsSnapshot((*self._engine.hub.chunks(), own)))
        waited = self.health.since_start(now) > SCRAPE_WAIT_SECONDS
        self.health.alerts_known = self._evaluated and (self._is_known() or waited)

    # --- commands

    def _known(self, now: float) -> answers.ViewInputs:
        """Return the current state, for commands."""
        config, started = self._reloader.config, self.health.started_seconds
        return answers.ViewInputs(
            version=self._dependencies.version,
            host=config.host,
            now=now,
            realtime=self._clock.realtime,
            started_seconds=now if started is None else started,
            ready=self.health.is_ready,
            engine=self._engine,
            incidents=self._tracker.incidents.by_key,
            silences=self._command_handler.silences,
            mail=self._mails.line(config.mail_destination, now),
            receivers=self._mails.receiver_lines(now),
            unnotified=self._tracker.unnotified(now),
            probe=self._probe.line(),
            refused_reload=self._reloader.refused,
            troubles=tuple(
                text
                for key, text in self._log.troubles().items()
                if key != "probe" and not key.startswith("collector ")  # shown elsewhere
            ),
            alerts=tuple(self._situation.alerts(now)),
            notice=lambda due: self._notifier.notice(due, now),
            self_tests=self._self_tests.runs,
            full_reads=self._scans.full_reads,
            configuration=str(Path(config.file).absolute()),
            show_programs=config.show_programs,
        )

    def _advise(self, now: float) -> documents.TuningAdvice:
        return tuning_answers.answer(
            self._known(now),
            self._setting_changes,
            lambda: self._situation.facts(now),
            lambda alerts: self._situation.values(alerts, now),
        )

    # --- configuration reload

    def _put_in_force(self, loaded: reload.ReloadDone, now: float) -> int:
        """Apply a valid configuration to each part; return the number of rules."""
        config = loaded.config
        self._self_tests.groups, self._scans.groups = config.self_tests, config.scans
        if loaded.is_mail_changed:
            self._mails.sender = loaded.sender
        if loaded.receivers is not None:
            self._mails.use(loaded.receivers)
        self._dependencies.readers.set_periods(config.interval_seconds)
        self._dependencies.pollers.drives.configure(config.smart)
        self._dependencies.pollers.directories.configure(config.watch_directories)
        gone = self._engine.rules.load(loaded.rules.groups, now, config.evaluation_interval_seconds)
        self._tracker.log_removed_rules(gone, now)
        self._event_pipeline.use(loaded.rules.events)
        self._checkpoint.retry_mails(loaded.corrected_servers, now)
        return len(self._engine.rules)
