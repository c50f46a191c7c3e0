"""The loop: one thread that reads, judges, tells and never waits for a disk.

Threads around it read what may hang, write state.db, talk SMTP and serve HTTP; what they have to
say comes back through one queue. Signals enqueue, too.
"""

from __future__ import annotations

import queue
import secrets
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from iowarden.collectors.block import uevents
from iowarden.collectors.model import Chunk, Outcome, Reading, Sample, trace
from iowarden.collectors.recording.recording import RecordingError
from iowarden.daemon import journal, metrics
from iowarden.daemon.clock import PLAUSIBLE_SECONDS, local_zone
from iowarden.daemon.control.control_socket import Command
from iowarden.daemon.http.exposition import Snapshot
from iowarden.daemon.locate import affected_files
from iowarden.daemon.locate.affected_files import FilesHit, Hit
from iowarden.daemon.notify import delivery
from iowarden.daemon.notify.message import message_id, recipients, render
from iowarden.daemon.notify.outbox import SendResult
from iowarden.daemon.polling.scheduler import TICK_SECONDS
from iowarden.daemon.service import flight_recorder, persisted_state, reload, sample_persistence
from iowarden.daemon.service import selftest_runner as self_test_runs
from iowarden.daemon.service.commands import Desk
from iowarden.daemon.service.device_watch import DeviceWatch
from iowarden.daemon.service.event_pipeline import CONTROLLERS, KERNEL, Asked, Happenings
from iowarden.daemon.service.health import Health
from iowarden.daemon.service.messages import Reload, Stop, Trouble
from iowarden.daemon.service.probe_watch import ProbeWatch
from iowarden.daemon.service.reload import Reloader
from iowarden.daemon.service.sample_persistence import Tails
from iowarden.daemon.service.stored_documents import SCHEMA, Schema
from iowarden.daemon.storage.history_db import TailLoaded, Written
from iowarden.daemon.storage.sqlite import beside
from iowarden.daemon.storage.state_db import (
    Committed,
    Noted,
    OutboxRow,
    StateLoaded,
    Texts,
    version_of,
)
from iowarden.daemon.transition_log import PRIORITY, Log, Telling
from iowarden.daemon.views import answers
from iowarden.rules import selftest_schedule
from iowarden.rules.advice import advice, facts, last_copies
from iowarden.rules.alerting.alerts import Alert, State, Transition
from iowarden.rules.events import hung
from iowarden.rules.events.event_table import Table
from iowarden.rules.incidents import incidents, recurring
from iowarden.rules.notice import Evidence, Reason
from iowarden.rules.notices import digest, report
from iowarden.rules.quantity import duration
from iowarden.rules.severity import Severity
from iowarden.rules.smart import history_fields
from iowarden.rules.topology import device_identity, returned
from iowarden.rules.topology.topology import NOTHING, Stood, restacked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.block.diskstats import BlockIo
    from iowarden.collectors.kmsg.kernel_log import Reader
    from iowarden.collectors.machine import Root
    from iowarden.collectors.model import Labels
    from iowarden.collectors.recording.recording import Frame
    from iowarden.collectors.smart.drive import Disks
    from iowarden.daemon.clock import PlayedClock, SystemClock
    from iowarden.daemon.config.schema import Config
    from iowarden.daemon.control.control_socket import Control
    from iowarden.daemon.http.exposition import Exposition
    from iowarden.daemon.http.http_server import Server
    from iowarden.daemon.polling.controllers import ControllerPoller
    from iowarden.daemon.polling.scheduler import Readers
    from iowarden.daemon.polling.smart import SmartPoller
    from iowarden.daemon.probe.client import Client
    from iowarden.daemon.service.process import Content
    from iowarden.rules.engine.engine import Engine
    from iowarden.rules.notice import Notice
    from iowarden.rules.rulefile.rulefile import RuleGroup

LEARNT_SECONDS = 600.0
"""How often what the signals remember is written: a power loss forgets no more than that."""
CONTROLLERS_WAIT_SECONDS = 300.0
"""So long a controller's log waits for what state.db knows of it: it is read as often."""
STATE_WAIT_SECONDS = 5.0
"""So long the first judgement waits for what state.db knows; then it goes on without."""
HTTP_RETRY_SECONDS = 30.0
UNWATCHED_SECONDS = 60.0
"""What is quiet for so long and longer without a look was not seen to be quiet."""
STEP_SECONDS = 2.0
"""The wall clock was set, or the machine slept, when the two clocks part by so much at once."""
STOP_SECONDS = 5.0
"""What a stop gives the last commit and the mail under way."""
CLOSE_SECONDS = 1.0
FRAME_WAIT_SECONDS = 0.02
SETTLE_SECONDS = 2.0
"""How long a recording waits, in real time, for threads at work on the last frame."""


_BEGINS = (incidents.Change.OPENED, incidents.Change.WORSE, incidents.Change.AGAIN)


class Player(Protocol):
    """Has what is read come from a recording."""

    def advance(self) -> Frame | None:
        """Let the next frame be there; None while it is not."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What the loop works with; made by the command line, or by a test."""

    config: Config
    clock: SystemClock
    engine: Engine
    readers: Readers
    events: queue.SimpleQueue[object]
    log: Log
    state: delivery.Store
    sender: delivery.Sender
    exposition: Exposition
    notify: Callable[[str], object]
    """sd_notify: takes the text of the datagram."""
    player: Player | None = None
    own_metrics: Callable[[], Content] = tuple
    """Metrics of the process itself."""
    keep: Callable[[Reading[object], float], object] | None = None
    """Keeps the text of a source that could not be parsed; the time is Unix time."""
    load: Callable[[], tuple[Config, Sequence[RuleGroup]]] | None = None
    """Reads configuration and rules anew; may hang."""
    sender_for: Callable[[Config], delivery.Sender] | None = None
    """Makes what sends mail by another configuration."""
    probe: Client | None = None
    """Asks the helper that runs as root."""
    test_root: Callable[[], Root] | None = None
    """Makes what has drives test themselves; None: nothing may be asked of them."""
    files_root: Callable[[], Root] | None = None
    """Makes what is asked which file was hit; None: nothing can be."""
    drives: SmartPoller | None = None
    """Asks drives."""
    table: Table | None = None
    """What events mean; None: no source tells any."""
    kernel_log: Reader | None = None
    """Reads the kernel's log."""
    controllers: ControllerPoller | None = None
    """Asks RAID controllers."""
    flights: flight_recorder.Keeper | None = None
    """Saves what was read of late."""
    control: Control | None = None
    """Where people ask."""
    history: sample_persistence.Store | None = None
    """Keeps what rules look back on."""
    version: str = ""
    schema: Schema = SCHEMA
    """How what is kept is stored."""


class Loop:
    """The state of the running program. Everything here happens in one thread."""

    _stood = NOTHING
    """What stood on what when that was written last."""
    _stacked = NOTHING
    """What stood on what at the last turn."""
    _busy_of: tuple[Mapping[str, BlockIo] | None, list[str]] = None, []
    """The last reading of '/proc/diskstats', and the disks with requests in flight in it."""

    def __init__(self, parts: Parts) -> None:
        """Nothing happens yet."""
        self._parts = parts
        self._server: Server | None = None
        self._clock = parts.clock
        self._engine = parts.engine
        self._telling = Telling(
            parts.log, lambda: self._clock.realtime(self._clock.now()), parts.clock.now
        )
        self._log, self._trouble = self._telling, self._telling.trouble
        self._incidents = incidents.Incidents()
        self._install = ""
        self._policy = _policy(parts.config)
        self._pending: list[Reading[object]] = []
        self._state_known = False
        self._stopping: Stop | None = None
        self._next_tick = 0.0
        self._next_http = float("-inf")
        self._kept: dict[str, str] = {}
        self._texts: tuple[str, ...] = ()
        """Beside state.db, with what could not be read."""
        self._newer: frozenset[str] = frozenset()
        """Documents of state.db that only a newer version can read."""
        self._loaded: StateLoaded | None = None
        self._restored = False
        self._state_asked = 0.0
        self._mails = delivery.Delivery(parts.state, parts.sender, self._log, self._trouble)
        self._tails = Tails(parts.history, self._engine, self._telling)
        self._digest = digest.Digest()
        self._learnt_seconds = parts.clock.now()
        self._wall_ahead = 0.0
        self.health = Health(self._engine, self._clock, self._telling, parts.notify)
        self._reloader = Reloader(
            parts.config,
            self._clock,
            self._telling,
            parts.notify,
            parts.events.put,
            load=parts.load,
            sender_for=parts.sender_for,
            put_in_force=self._put_in_force,
        )
        self._desk = Desk(
            self._engine,
            self._telling,
            self._known,
            lambda: self._commit([]),
            self._topology,
            keep_learnt=lambda: self._commit([], learnt=True),
            history_path=str(Path(parts.config.state_directory) / "history.db"),
            table=parts.table,
            names=parts.schema.renames,
        )
        self._self_tests = self_test_runs.SelfTests(
            self._engine,
            self._telling,
            parts.test_root,
            (lambda _: None) if parts.drives is None else parts.drives.ask_soon,
            parts.events.put,
            realtime=self._clock.realtime,
            zone=local_zone(),
            keep=lambda: self._commit([]),
        )
        self._self_tests.groups = parts.config.self_tests
        self._files = (
            None
            if parts.files_root is None
            else FilesHit(parts.files_root, parts.clock.now, parts.events.put)
        )
        self._habits: recurring.Habits = {}
        self._came_back: dict[str, str] = {}
        """What the next mail of an incident is sent for: a disk that came back."""
        self._happenings = Happenings(
            self._engine,
            self._telling,
            parts.table or Table({}),
            self._clock.realtime,
            asked=Asked(
                parts.kernel_log,
                parts.controllers,
                (lambda _: None) if parts.drives is None else parts.drives.ask_soon,
                lambda: parts.readers.ask(("md",)),
                (lambda _: None) if self._files is None else self._files.ask,
            ),
            store=parts.history,
        )
        self._kept_of: Disks | None = None
        self._met: frozenset[str] = frozenset()
        """The disks that state.db remembers."""
        self._drives_kept: Mapping[str, float] = {}
        self._probe = ProbeWatch(parts.probe, self._telling, lambda: self._commit([]))
        self._devices = DeviceWatch(
            self._engine,
            parts.readers,
            self._telling,
            self._files,
            None if parts.flights is None else parts.flights.flight,
        )
        if parts.control is not None:
            self._telling.follow = parts.control.publish

    # --- running

    def run(self, server: Server | None) -> int:
        """Turn until a signal says stop; return the exit status."""
        self.begin(server)
        while self._stopping is None:
            self.turn()
        self._stop()
        return 0

    def begin(self, server: Server | None) -> None:
        """Ask for what is kept; before a recording begins to play, it has to be there."""
        self._server = server
        self._parts.state.load()
        self._tails.begin()
        if self._parts.player is not None:
            self._await_state()
        self._next_tick = self._clock.now()

    def turn(self) -> None:
        """Wait for the next moment, or for somebody to say something, and deal with it.

        Errors: RecordingError.
        """
        try:
            self._turn()
        except RecordingError:
            raise
        except Exception as error:  # noqa: BLE001 - the one place that survives our own mistakes
            self._trouble("loop", f"loop: bug: {trace(error)}")

    def _turn(self) -> None:
        if self._parts.player is None:
            self._take(self._next_tick - self._clock.now())
            now = self._clock.now()
            if now < self._next_tick:
                return
            late = now - self._next_tick > TICK_SECONDS
            self._next_tick = now + TICK_SECONDS if late else self._next_tick + TICK_SECONDS
            self.turn_once(now)
        elif self._next_frame():
            self.turn_once(self._clock.now())
        else:
            self._mails.step(self._clock.now())
            self._parts.notify("WATCHDOG=1")

    def _next_frame(self) -> bool:
        """Let the threads settle, then take the next frame of the recording, if it is there."""
        waited = 0.0
        while waited < SETTLE_SECONDS and (
            self._parts.readers.waiting() or self._mails.awaits_state() or self._reloader.busy()
        ):
            self._take(FRAME_WAIT_SECONDS)
            waited += FRAME_WAIT_SECONDS
        self._take(0.0)
        if self._stopping is not None or self._parts.player is None:
            return False
        frame = self._parts.player.advance()
        if frame is None:
            self._take(FRAME_WAIT_SECONDS)
            return False
        clock: PlayedClock = self._clock  # type: ignore[assignment]  # a player comes with its clock
        clock.set(frame.monotonic_seconds, frame.realtime_seconds)
        self._take(0.0)  # what the kernel announced before the frame
        return self._stopping is None

    def _take(self, timeout_seconds: float) -> None:
        """Handle the events that are there, waiting at most so long for the first."""
        try:
            event = (
                self._parts.events.get(timeout=timeout_seconds)
                if timeout_seconds > 0
                else self._parts.events.get_nowait()
            )
            while True:
                self._handle(event)
                event = self._parts.events.get_nowait()
        except queue.Empty:
            return

    def _handle(self, event: object) -> None:
        match event:
            case Reading():
                self._parts.readers.finished(event)
                self._pending.append(event)
            case SendResult():
                self._mails.sent(event, self._clock.now())
            case Committed():
                self._mails.committed(event)
                if self._stopping is None:
                    self._mails.step(self._clock.now())  # a critical mail waits for no tick
                self._trouble("state", event.error, journal.STATE_TROUBLE)
            case Noted():
                self._log.send(journal.STATE_TROUBLE, 5 if event.is_good else 4, event.text)
            case StateLoaded():
                self._loaded = event
                self._state_known = True
            case TailLoaded() | Written():
                self._tails.take(event)
            case Trouble():
                self._trouble(event.key, event.text)
            case uevents.Batch():
                self._devices.take(event)
            case Command():
                self._answer(event)
            case Reload():
                self._reloader.begin()
            case reload.Loaded() | reload.Refused():
                self._reloader.take(event)
            case Stop():
                self._stopping = event
            case _:
                self._handle_other(event)

    def _handle_other(self, event: object) -> None:
        if isinstance(event, Hit):
            self._learn(event)
        elif isinstance(event, Texts):
            self._texts = event.paths
        elif not self._self_tests.take(event, self._clock.now()):
            self._trouble("event", f"loop: bug: unknown event {event!r:.200}")

    def _answer(self, command: Command) -> None:
        own = command.name in self_test_runs.COMMANDS
        (self._self_tests if own else self._desk).answer(command, self._clock.now())

    def turn_once(self, now: float) -> None:
        """Do what each second asks for: read, judge, tell."""
        self.health.turns(now)
        self._compare_clocks(now)
        if self._loaded is not None:  # not before a recording has told the time
            loaded, self._loaded = self._loaded, None
            self._restore(loaded)
        self._tails.restore(now)
        self._let_logs_be_read(now)
        readings = [*self._pending, *self._parts.readers.run(now)]
        self._pending = []
        if self._parts.flights is not None:
            self._parts.flights.flight.tick(self._clock.uptime(), self._clock.realtime(now))
        for reading in readings:
            self._judge_reading(reading)
            self._devices.look(reading)
        self._engine.observe(readings, now, self._clock.uptime(), self._clock.asleep())
        for reading in readings:  # now that it is known where things are
            self._happenings.take(reading, now)
        self._happenings.step(now)
        if self._files is not None:
            self._files.step()
        self._keep_drives(now)
        self._keep_met()
        self._engine.publish("daemon", metrics.FAMILIES, self._own_samples(now), now)
        known = self._state_known and self._tails.known
        if known or self.health.since_start(now) > STATE_WAIT_SECONDS:
            self._judge(now)
        self._mails.step(now)
        self._self_tests.step(now)
        if not self._restored and now - self._state_asked >= STATE_WAIT_SECONDS:
            self._state_asked = now
            self._parts.state.retry()
        if now - self._learnt_seconds >= LEARNT_SECONDS:
            self._learnt_seconds = now
            self._commit([], learnt=True)
        self._tails.step(now, self._wall_ahead)
        self._tails.look()
        self._reloader.look(now)
        mail = self._reloader.config.mail
        self._mails.look_at_threads(mail.timeout_seconds)
        self._probe.look()
        self._mails.look(now, mail.unsent_critical_seconds)
        self._serve(now)
        self._publish(now)
        self.health.turned(now, len(self._mails), self._reloader.refusal)
        self._trouble("loop", "")

    def _keep_drives(self, now: float) -> None:
        """Have what drives said since the last look kept for years."""
        store, smart = self._parts.history, self._engine.status("smart")
        if store is None or smart is None or smart.value is None or smart.value is self._kept_of:
            return
        self._kept_of = smart.value
        rows, self._drives_kept = history_fields.fresh(smart.value, self._drives_kept)
        if rows:
            store.note(self._clock.realtime(now), rows)

    def _let_logs_be_read(self, now: float) -> None:
        """Have logs read once it is known how far they were read before, or nobody can say."""
        waited = self.health.since_start(now)
        most = {KERNEL: STATE_WAIT_SECONDS, CONTROLLERS: CONTROLLERS_WAIT_SECONDS}
        held = [name for name, seconds in most.items() if waited <= seconds]
        self._parts.readers.hold(() if self._restored else held)

    def _keep_met(self) -> None:
        """Have a disk that is met remembered at once: it is missed even after a power loss now."""
        seen = self._engine.coverage().seen.keys()
        if seen - self._met:
            self._commit([], learnt=True)
        self._met = frozenset(seen)

    def _compare_clocks(self, now: float) -> None:
        """Keep by how much the wall clock is ahead of the program's: people are told its time."""
        ahead = self._clock.realtime(now) - now
        by = ahead - self._wall_ahead
        if abs(by) <= STEP_SECONDS:
            return
        self._wall_ahead = ahead
        way = "forward" if by > 0 else "back"
        self._log.send(
            journal.TROUBLE,
            5,
            f"clock: the wall clock went {way} by {duration(abs(by))} at once: it was set, or the"
            " machine slept; alerts go on by the time that passed",
        )
        self._commit([])

    def _judge_reading(self, reading: Reading[object]) -> None:
        key = f"source {reading.source}"
        if reading.outcome in (Outcome.OK, Outcome.ABSENT):
            self._trouble(key, "", journal.SOURCE_RECOVERED)
        else:
            text = f"{reading.source}: {reading.outcome}: {reading.error}"
            self._trouble(key, text, journal.SOURCE_FAILED)
        if reading.outcome is Outcome.UNPARSED and self._parts.keep is not None:
            self._parts.keep(reading, self._clock.realtime(reading.monotonic_seconds))

    # --- alerts, incidents, mails

    def _judge(self, now: float) -> None:
        if not self._install:
            self._install = secrets.token_hex(6)
        if (
            now - self.health.turned_seconds > UNWATCHED_SECONDS
        ):  # stopped, or starved of the processor
            by_key = incidents.unwatched(self._incidents.by_key, now)
            self._incidents = replace(self._incidents, by_key=by_key)
        self._desk.look(now)
        changes = self._engine.evaluate(now)
        around = self._happenings.around(now)
        alerts = self._alerts(now)
        self._habits = recurring.step(self._habits, alerts, now, self._local)
        self._incidents, dues, events = incidents.step(
            self._incidents,
            alerts,
            now,
            install=self._install,
            policy=self._policy,
            observe=lambda alert: self._observed(alert, now),
            judged=self._engine.judged,
            arrival=self._arrival(),
            silenced=lambda alert: self._silenced(alert, now),
            usual=lambda alert: recurring.usual(self._habits, alert, now, self._local),
            acknowledged=self._desk.said.by_incident(),
            around=around,
        )
        waiting = self._mails.outdated(now)
        self._incidents, dues = incidents.replacing(
            self._incidents,
            dues,
            {key: tuple(row.number for row in rows) for key, rows in waiting.items()},
            now,
            self._desk.said.by_incident(),
        )
        for event in events:
            if event.change is incidents.Change.LIFTED:
                self._desk.lift(event.incident.identifier)
        for change in changes:
            self._telling.transition(change, self._incidents.by_key.values())
        for event in events:
            self._telling.incident(event)
            self._save_flight(event, now)
        lesser = self._happenings.tell(self._incidents.by_key, around, now)
        seen = self._engine.device_events()
        for seen_event in seen:
            self._telling.device(seen_event, self._taken_back(seen_event))
        before = self._digest
        self._digest = digest.step(
            self._digest,
            self._settled([*changes, *lesser], now),
            seen,
            now,
            self._date,
            lambda alert: self._silenced(alert, now),
        )
        rows = [self._compose(due, now) for due in dues]
        replaced = {
            row.message_id: tuple(each.message_id for each in waiting[row.incident])
            for row in rows  # of incidents: a digest takes no other one's place
            if row.incident in waiting
        }
        rows += [
            self._row(replace(each, advice=advice.together(each.advice)))
            for each in self._summaries(now)
        ]
        problems = {f"rule {p.rule}": p.text for p in self._engine.problems()}
        for key, text in problems.items():
            self._trouble(key, text)
        for key in self._telling.troubles().keys() - problems.keys():
            if key.startswith("rule "):
                self._trouble(key, "")
        lifted = any(event.change is incidents.Change.LIFTED for event in events)
        told, self._happenings.changed = self._happenings.changed, False
        # A stall that is reported goes on after the program was killed in the middle of it.
        fired = any(change.alert.state is State.FIRING for change in changes)
        told = told or self._is_restacked()
        if changes or rows or lifted or told or self._incidents.changed or self._digest != before:
            self._commit(rows, learnt=fired, replaced=replaced)

    def _alerts(self, now: float) -> list[Alert]:
        """Return the alerts of rules, and what happens."""
        happen = self._happenings.alerts(now, self._policy.all_clear_seconds)
        own = last_copies.marked([*self._engine.alerts(), *happen], self._engine.places())
        if any(each.name in hung.NAMES for each in own):
            return hung.named(own, self._engine.waiting(now))
        return own

    def _taken_back(self, event: device_identity.Event) -> tuple[str, ...]:
        """Return what takes a disk back that has come again; the next mail about it says so."""
        back = self._engine.known_devices().returned.get(event.identity.key)
        if (
            event.change not in (device_identity.Change.RETURNED, device_identity.Change.RENAMED)
            or back is None
        ):
            return ()
        steps = self._engine.taking_back(back, self._facts(self._clock.now()))
        by_key = dict(self._incidents.by_key)
        for key, incident in by_key.items():
            if steps and incident.mails and incident.firing and back in self._back(incident):
                by_key[key] = replace(incident, learnt=True)
                news = returned.sentence(back.was, back.name, back.object)
                self._came_back[incident.identifier] = news
        self._incidents = replace(self._incidents, by_key=by_key)
        return steps

    def _back(self, incident: incidents.Incident) -> list[device_identity.Returned]:
        """Return the disks that came back during an incident of theirs, or of their array."""
        about = {incident.key, *(m.subject for m in incident.members)}
        return [
            back
            for key, back in self._engine.known_devices().returned.items()
            if back.at_seconds >= incident.started_seconds
            and (key in about or any(f"device {holder}" in about for _, holder in back.held))
        ]

    def _learn(self, hit: Hit) -> None:
        """Take what lies in sectors that failed: a mail that was ahead of it has another one."""
        if self._files is None or not self._files.take(hit):
            return
        self._commit([])
        self._telling.send(
            journal.EVENT,
            5,
            "; ".join(e.text for e in affected_files.evidence([hit], self._clock.realtime)),
            IOWARDEN_DEVICE=hit.device,
        )
        for key, incident in self._incidents.by_key.items():
            mine = key == hit.subject or any(m.subject == hit.subject for m in incident.members)
            if mine and hit.certain and incident.awaits_details:
                after = replace(incident, learnt=True, detailed=True)
                by_key = {**self._incidents.by_key, key: after}
                self._incidents = replace(self._incidents, by_key=by_key)
                return

    def _save_flight(self, event: incidents.Event, now: float) -> None:
        """Have what was read of late saved, once, when an incident is critical."""
        incident, flights = event.incident, self._parts.flights
        if flights is None or incident.severity < Severity.CRITICAL or event.change not in _BEGINS:
            return
        open_now = {i.identifier for i in self._incidents.by_key.values()}
        path = flights.save_of(incident.identifier, now, self._clock.realtime(now), open_now)
        if not path:
            return
        self._log.send(
            journal.FLIGHT_SAVED,
            6,
            f"incident {incident.identifier}: what was read in the last minutes is being saved:"
            f" iowarden replay {path}",
            IOWARDEN_INCIDENT=incident.identifier,
        )

    def _compose(self, due: incidents.Due, now: float) -> OutboxRow:
        """Return the mail that is due, rendered, for the outbox; count its advice as given."""
        incident = due.incident
        notice = self._notice(due, now)
        if incident.firing:
            recurs, self._habits = recurring.sentences(self._habits, incident, now, self._local)
            notice = replace(notice, happened=(*recurs, *notice.happened))
        news = self._came_back.pop(incident.identifier, "")
        if (
            news
            and due.reason is Reason.WORSE
            and all(m.told_seconds != now for m in incident.members)
        ):
            notice = replace(notice, reason=Reason.OPENED, summary=news)  # nothing is worse
        by_key = dict(self._incidents.by_key)  # what is due may have been closed in the same step
        known = by_key[incident.key]
        by_key[incident.key] = replace(known, advised=report.advised(incident))
        self._incidents = replace(self._incidents, by_key=by_key)
        return self._row(notice)

    def _notice(self, due: incidents.Due, now: float) -> Notice:
        """Return an incident in words."""
        incident = due.incident
        alerts = [a for a in self._alerts(now) if any(m.key == a.key for m in incident.members)]
        notice = report.notice(
            due,
            self._clock.realtime,
            now,
            (*self._happenings.evidence(incident, now), *self._measured(alerts, now)),
            self._topology(),
            self._engine.standing(),
            self._busy(),
            self._engine.waiting(now),
            said=advice.said_of(alerts, lambda: self._facts(now)),
        )
        if self._files is not None:
            subjects = dict.fromkeys((incident.key, *(m.subject for m in incident.members)))
            hits = self._files.hits(subjects, incident.started_seconds)
            notice = replace(
                notice,
                happened=(
                    *notice.happened,
                    *affected_files.seen_during(hits, incident.members, self._date),
                ),
                evidence=(*notice.evidence, *affected_files.evidence(hits, self._clock.realtime)),
                affected=(*notice.affected, *affected_files.affected(hits)),
                advice=(*notice.advice, *affected_files.advice(hits)),
            )
        during = selftest_schedule.seen_during(
            self._self_tests.runs, incident.members, now, self._date
        )
        back = self._back(incident)
        said = [returned.sentence(each.was, each.name, each.object) for each in back]
        over = due.reason is Reason.ALL_CLEAR
        known = self._facts(now) if back and not over else None
        steps = [step for each in back if known for step in self._engine.taking_back(each, known)]
        notice = replace(
            notice,
            happened=(*notice.happened, *during, *said),
            advice=(*notice.advice, *steps),
        )
        flights = self._parts.flights
        if flights is not None and (saved := flights.saved(incident.identifier)):
            at, path = saved
            seen = Evidence(self._clock.realtime(at), "recorded", f"iowarden replay {path}")
            notice = replace(notice, evidence=(*notice.evidence, seen))
        return replace(notice, advice=advice.together(notice.advice))

    def _facts(self, now: float) -> facts.Facts:
        """Return what advice is made from."""
        known = facts.known(
            self._engine.places(),
            self._engine.mounts(),
            self._alerts(now),
            facts.slow(self._engine.chunks()),
            facts.multipath(self._engine.chunks()),
        )
        return facts.Facts(known)

    def _settled(self, changes: Sequence[Transition], now: float) -> list[Transition]:
        """Return changes with the advice of what a digest tells written out.

        What is as usual is told by the digest, and nothing else.
        """
        changes = [self._usual(change, now) for change in changes]
        lesser = [c.alert.severity < Severity.WARNING and c.alert.active for c in changes]
        if not any(lesser):
            return list(changes)
        known = self._facts(now)
        return [
            replace(change, alert=advice.settled(change.alert, known)) if is_lesser else change
            for change, is_lesser in zip(changes, lesser, strict=True)
        ]

    def _usual(self, change: Transition, now: float) -> Transition:
        """Return a change of what is mailed on other days as one for the digest, if it is usual."""
        text = recurring.usual(self._habits, change.alert, now, self._local)
        after = recurring.lesser(change, text)
        return after if text or digest.entry_key(after.alert) in self._digest.entries else change

    def _row(self, notice: Notice) -> OutboxRow:
        """Return a mail rendered, for the outbox."""
        if notice.realtime_seconds < PLAUSIBLE_SECONDS:
            unset = "the time: this machine's clock had not been set, the dates here are wrong"
            notice = replace(notice, unknown=(*notice.unknown, unset))
        config = self._reloader.config
        message = render(notice, config.host, config.mail.sender, recipients(config))
        self._log.send(
            journal.INCIDENT_MAIL,
            PRIORITY[notice.severity],
            f"incident {notice.incident}: mail {notice.number}: {message['Subject']}",
            IOWARDEN_INCIDENT=notice.incident,
            IOWARDEN_SEVERITY=notice.severity.name.lower(),
        )
        return OutboxRow(
            message_id=message_id(notice, config.host),
            incident=notice.incident,
            number=notice.number,
            severity=notice.severity,
            created_realtime_seconds=notice.realtime_seconds,
            recipients_pending=recipients(config),
            data=message.as_bytes(),
        )

    def _arrival(self) -> incidents.Arrival | None:
        """Return the arrival mail, to come or sent; None where there was none."""
        if self._arrived() and self._digest.arrived_seconds is None:
            return None
        identifier = digest.arrival_identifier(self._install)
        return incidents.Arrival(identifier, self._digest.arrived_seconds)

    def _arrived(self) -> bool:
        """Whether this machine is known; what is not restored yet might say so."""
        return self._digest.arrived or not self._restored or not self._reloader.config.mail.arrival

    def _summaries(self, now: float) -> list[Notice]:
        """Return the arrival mail or the weekly digest, when one is due."""
        if not self._arrived():
            waited = self.health.since_start(now)
            if waited < digest.ARRIVAL_SECONDS or (
                waited < digest.MOST_ARRIVAL_SECONDS and answers.unasked(self._engine)
            ):
                return []
            mounts = self._engine.status("filesystem")
            silent = [s.source.name for s in self._engine.statuses() if s.silent()]
            known = self._facts(now)
            self._digest, notice = digest.arrival(
                self._digest,
                [advice.settled(each, known) for each in self._alerts(now)],
                digest.inventory(
                    self._topology(),
                    None if mounts is None or mounts.value is None else len(mounts.value.usage),
                    silent,
                    answers.disks(self._engine),
                ),
                install=self._install,
                now=now,
                realtime_seconds=self._clock.realtime(now),
            )
            return [notice]
        if not digest.due(self._digest, now, self._reloader.config.mail.digest_seconds):
            return []
        good = sum(s.outcome() is Outcome.OK for s in self._engine.statuses())
        heartbeat = (
            f"iowarden watches: {good} sources read; {answers.disks(self._engine)};"
            f" mails delivered since its start: {self._mails.delivered_total}"
        )
        self._digest, weekly = digest.weekly(
            self._digest,
            now,
            self._clock.realtime,
            install=self._install,
            heartbeat=heartbeat if self._reloader.config.mail.heartbeat else "",
            silenced={digest.entry_key(a) for a in self._engine.alerts() if self._silenced(a, now)},
        )
        return [] if weekly is None else [weekly]

    def _silenced(self, alert: Alert, now: float) -> bool:
        return self._desk.silence_of(alert, now) is not None

    def _date(self, at: float) -> str:
        return f"{self._moment(at):%a %d %b %H:%M}"

    def _moment(self, at: float) -> datetime:
        return datetime.fromtimestamp(self._clock.realtime(at), local_zone())

    def _local(self, at: float) -> float:
        """Return the seconds that a clock on the wall shows: Unix time and the zone's offset."""
        offset = self._moment(at).utcoffset()
        return self._clock.realtime(at) + (offset.total_seconds() if offset else 0.0)

    def _observed(self, alert: Alert, now: float) -> tuple[Evidence, ...]:
        """Return what is known while an alert begins to fire; who waits is cut off last."""
        waits = report.observed(
            alert,
            self._engine.waiting(now),
            self._busy(),
            self._topology(),
            self._clock.realtime(now),
        )
        return (*waits, *self._measured([alert], now))

    def _measured(self, alerts: list[Alert], now: float) -> tuple[Evidence, ...]:
        samples = dict.fromkeys(s for alert in alerts for s in self._engine.current(alert))
        return report.evidence(samples, self._clock.realtime(now))

    def _busy(self) -> list[str]:
        """Return the disks that have requests in flight."""
        blocks, topology = self._engine.status("diskstats"), self._topology()
        if blocks is None or blocks.value is None or topology is None:
            return []
        known = blocks.value
        if self._busy_of[0] is not known:  # a thousand alerts may ask
            leaves = (name for name in topology.leaves if name in known)
            self._busy_of = known, [name for name in leaves if known[name].in_flight > 0]
        return self._busy_of[1]

    # --- what survives a restart

    def _commit(
        self,
        rows: list[OutboxRow],
        *,
        learnt: bool = False,
        delete: tuple[str, ...] = (),
        aside: Mapping[str, str] | None = None,
        replaced: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        """Ask for everything that changed to be written, with the mails that go with it.

        `learnt`: also what the signals remember; it is large and changes slowly. `delete` are rows
        of documents that are written under another name now, `aside` what of some was not read,
        `replaced` as delivery.Delivery.commit has it.
        """
        changed: dict[str, str] = {}
        if self._restored:  # else it would take the place of what the file may yet tell
            standing = self._engine.standing()
            stands, self._stood = standing != self._stood, standing
            texts = persisted_state.documents(
                persisted_state.Kept(
                    install=self._install,
                    alerts=tuple(self._engine.alerts()),
                    incidents=dict(self._incidents.by_key),
                    sequences=dict(self._incidents.sequences),
                    signals=self._engine.remember(),
                    devices=self._engine.known_devices(),
                    stood=self._engine.stood(self._clock.now()) if stands else Stood(),
                    digest=self._digest,
                    silences=self._desk.said,
                    self_tests=self._self_tests.runs,
                    stuck=self._probe.stuck,
                    happened=self._happenings.kept[0],
                    cursors=self._happenings.kept[1],
                    hits=() if self._files is None else self._files.kept,
                    recurring=self._habits,
                    wall_ahead_seconds=self._wall_ahead,
                ),
                without={*(() if learnt else ("signals",)), *(() if stands else ("stood",))},
                schema=self._parts.schema,
            )
            changed = {name: text for name, text in texts.items() if self._kept.get(name) != text}
            self._kept |= texts
        self._mails.commit(
            changed, rows, self._clock.now(), delete=delete, aside=aside, replaced=replaced
        )

    def _is_restacked(self) -> bool:
        """Whether devices stand otherwise than when that was written last, since the last call."""
        standing = self._engine.standing()
        before, self._stacked = self._stacked, standing
        return standing is not before and restacked(self._stood, standing)

    def _await_state(self) -> None:
        waited = 0.0
        while not (self._state_known and self._tails.known) and waited < STATE_WAIT_SECONDS:
            if self._stopping is not None:
                return
            self._take(FRAME_WAIT_SECONDS)
            waited += FRAME_WAIT_SECONDS

    def _restore(self, loaded: StateLoaded) -> None:
        """Take back what was kept, also when it comes late; what cannot be read is said."""
        if not loaded.readable:
            self._trouble("state", loaded.error, journal.STATE_TROUBLE)
            return
        if loaded.error:  # a file was set aside: that is done, and nothing will 'work again'
            self._log.send(journal.STATE_TROUBLE, 4, loaded.error)
        now = self._clock.now()
        self._mails.restore(loaded.outbox, now)
        if self._restored:
            return
        self._restored = True
        before, unread = persisted_state.read(loaded.documents, now, self._parts.schema)
        for each in unread.values():
            self._log.send(journal.STATE_TROUBLE, 4, each.text)
        self._newer = frozenset(version_of(r)[0] for r, each in unread.items() if not each.aside)
        self._install = before.install or self._install or secrets.token_hex(6)
        gone = self._engine.restore(before.alerts)
        self._incidents = persisted_state.merged(self._incidents, before, now)
        self._engine.recall(before.signals, before.devices, before.stood)
        self._met = frozenset(self._engine.coverage().seen)
        self._digest = digest.merged(self._digest, before.digest)
        self._desk.restore(before.silences)
        self._self_tests.restore(before.self_tests, now)
        if self._files is not None:
            self._files.restore(before.hits)
        self._habits = {**before.recurring, **self._habits}
        self._happenings.restore(before.happened, before.cursors, before.devices.names)
        self._probe.restore(before.stuck)
        self._part_with(gone, now)
        # What was learnt before the file could be read belongs into it.
        self._commit(
            [],
            learnt=True,
            delete=persisted_state.outdated(loaded.documents, self._parts.schema),
            aside={row: each.aside for row, each in unread.items() if each.aside},
        )

    # --- what people ask

    def _known(self, now: float) -> answers.Known:
        """Return what is known, for who asks."""
        config, started = self._reloader.config, self.health.started_seconds
        where = (
            f"SMTP server {config.mail.server}:{config.mail.port}"
            if config.mail.server
            else f"Maildir {config.state_directory}/Maildir"
        )
        return answers.Known(
            version=self._parts.version,
            host=config.host,
            now=now,
            realtime=self._clock.realtime,
            started_seconds=now if started is None else started,
            ready=self.health.is_ready,
            engine=self._engine,
            incidents=self._incidents.by_key,
            silences=self._desk.said,
            mail=self._mails.line(where, now, self._clock.realtime),
            probe=self._probe.line(),
            refused_reload=self._reloader.refused,
            troubles=tuple(
                text
                for key, text in self._telling.troubles().items()
                if key != "probe" and not key.startswith("source ")  # told in their own place
            ),
            alerts=tuple(self._alerts(now)),
            notice=lambda due: self._notice(due, now),
            self_tests=self._self_tests.runs,
        )

    # --- a configuration that changes

    def _put_in_force(self, loaded: reload.Loaded, now: float) -> int:
        """Give each its part of a configuration that is good; return how many rules there are."""
        config = loaded.config
        self._policy = _policy(config)
        self._self_tests.groups = config.self_tests
        if loaded.sender is not None:
            self._mails.sender.close(0.0)  # it ends after the mail under way
            self._mails.sender = loaded.sender
        self._parts.readers.set_periods(config.period_seconds)
        if self._parts.drives is not None:
            self._parts.drives.configure(config.smart)
        gone = self._engine.load(loaded.groups, now, config.rule_interval_seconds)
        self._part_with(gone, now)
        self._mails.retry_refused(recipients(config), now)
        return self._engine.active_rules()

    def _part_with(self, alerts: Sequence[Alert], now: float) -> None:
        """Say which alerts are none any more because no rule is there to judge them."""
        changes = [
            Transition(replace(a, state=State.INACTIVE, unknown_reason=""), a.state) for a in alerts
        ]
        self._digest = digest.step(self._digest, changes, (), now, self._date)
        for change in changes:
            if change.before in (State.FIRING, State.UNKNOWN):
                self._telling.transition(
                    change,
                    self._incidents.by_key.values(),
                    "its rule is gone, nobody knows how it is",
                )

    # --- telling

    def _serve(self, now: float) -> None:
        server = self._server
        if server is None or now < self._next_http:
            return
        problem = server.start()
        self._trouble("http", problem)
        self._next_http = now + HTTP_RETRY_SECONDS if problem else float("inf")

    def _publish(self, now: float) -> None:
        """Show what is known now; rendering is left to whoever scrapes."""
        own = Chunk("process", int(now), tuple(self._parts.own_metrics()))
        self._parts.exposition.publish(Snapshot((*self._engine.chunks(), own)))

    def _own_samples(self, now: float) -> list[Sample]:
        open_now = [i for i in self._incidents.by_key.values() if i.closed_seconds is None]
        unresolved = Counter(i.severity for i in open_now if i.firing or not i.ends)
        return [
            *(
                (
                    metrics.INCIDENTS_UNRESOLVED.name,
                    (("severity", each.name.lower()),),
                    float(unresolved[each]),
                )
                for each in (Severity.WARNING, Severity.CRITICAL)
            ),
            *self._mails.samples(now),
            *self._desk.samples(now),
            *self._self_tests.samples(now),
            *self._happenings.samples(),
            *self._probe.samples(self._clock.realtime(now)),
            *self._tails.samples(),
            *self._unread_samples(),
            (metrics.INCIDENTS_OPEN.name, (), float(len(open_now))),
            (metrics.LOG_LOST.name, (), float(self._parts.log.lost_total)),
            *self._reloader.samples(now, self._wall_ahead),
            *self._devices.samples(),
        ]

    def _unread_samples(self) -> list[Sample]:
        texts = Counter(beside(path) for path in self._texts)
        return [
            *(
                (metrics.STATE_UNREAD.name, _unread(name, "newer"), 1.0)
                for name in sorted(self._newer)
            ),
            *(
                (metrics.STATE_UNREAD.name, _unread(name, "unreadable"), float(count))
                for name, count in sorted(texts.items())
            ),
        ]

    def _topology(self) -> Topology | None:
        status = self._engine.status("block")
        return None if status is None else status.value

    def _stop(self) -> None:
        """Give the last commit and the mail under way a moment; what is left is in state.db."""
        signal = self._stopping.signal if self._stopping else "stop"
        self._parts.notify("STOPPING=1")
        self._commit([], learnt=True)
        waited = 0.0
        now = self.health.turned_seconds
        while waited < STOP_SECONDS and (
            not self._tails.finish(now, self._wall_ahead) or self._mails.busy()
        ):
            self._take(FRAME_WAIT_SECONDS)
            waited += FRAME_WAIT_SECONDS
        left = len(self._mails)
        if self._mails.durable():
            what = f"; mails that wait in state.db: {left}" if left else ""
            self._log.send(journal.STOPPED, 6, f"stopped by {signal}{what}")
        else:
            self._log.send(
                journal.STOPPED,
                3,
                f"stopped by {signal}; state.db could not be written: alerts and mails since then"
                f" are forgotten (mails that waited: {left})",
            )
        if self._server is not None:
            self._server.close()
        if self._parts.control is not None:
            self._parts.control.close()
        if self._parts.probe is not None:
            self._parts.probe.close(CLOSE_SECONDS)
        self._tails.close(CLOSE_SECONDS)
        self._parts.readers.close()
        self._parts.log.close()


def _unread(document: str, reason: str) -> Labels:
    return ("document", document), ("reason", reason)


def _policy(config: Config) -> incidents.Policy:
    return incidents.Policy(
        grouping_seconds=config.warning_grouping_seconds,
        all_clear_seconds=config.all_clear_after_seconds,
        close_seconds=config.close_after_seconds,
        reopen_seconds=config.reopen_within_seconds,
        remind_seconds=config.remind_after_seconds,
    )
