"""The loop's duties of a second, and those of its parts that a full run would show too late."""

from __future__ import annotations

import queue
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from iowarden.collectors.model import Chunk
from iowarden.daemon.clock import PlayedClock
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import LoadedRules
from iowarden.daemon.http.exposition import Exposition, MetricsSnapshot
from iowarden.daemon.notify.maildir import MaildirSettings
from iowarden.daemon.notify.sender import mail_sender
from iowarden.daemon.polling import pollers
from iowarden.daemon.polling.scheduler import SourceScheduler
from iowarden.daemon.probe.protocol import Stuck
from iowarden.daemon.service.health import FIRST_ROUND_SECONDS, ServiceHealth
from iowarden.daemon.service.loop import Loop
from iowarden.daemon.service.probe_watch import ProbeWatch
from iowarden.daemon.service.reload import HUNG_SECONDS, ReloadDone, Reloader, ReloadRefused
from iowarden.daemon.service.service import Dependencies, Service
from iowarden.daemon.storage.state_db import StateDatabase
from iowarden.daemon.transition_log import TransitionLog
from iowarden.rules.engine.engine import Engine

if TYPE_CHECKING:
    from pathlib import Path

    from iowarden.daemon import journal

DEADLINE_SECONDS = 20.0
"""Only ends a test that would hang."""
ALERTS = "alerts, incidents, mails"
ORDER = [
    ("clocks", "restore state", "what was stored is moved by what the wall clock says now"),
    ("restore state", "hold logs", "a log is read from where it was read to before the start"),
    ("hold logs", "read", "a log that is not to be read yet is not read once"),
    ("read", "flight recorder", "a recording has in a frame what was read in that second"),
    ("sources", "signals", "what a source said before is still there to compare"),
    ("signals", "poll tasks", "whether a wait goes on is known before the next look"),
    ("signals", "poll states", "that a disk hangs is known before its state is read"),
    ("signals", "events", "where things are is known when an event names one"),
    ("signals", "setting changes", "a setting and its signal are compared in the same second"),
    ("signals", "own metrics", "the program is judged as it is in this second"),
    ("own metrics", ALERTS, "rules about the program see this second"),
    ("events", ALERTS, "what happened is an incident in the same second"),
    ("restore state", ALERTS, "what was told before the start is not told again"),
    ("signals", "scans", "what prevents a read is known before a disk is read"),
    ("disks met", ALERTS, "a disk that is told of is remembered by then"),
    (ALERTS, "send mails", "a mail is under way in the second in which it is due"),
    (ALERTS, "checkpoint", "what was decided is written with what changes slowly"),
    (ALERTS, "exposition", "a scrape shows the alerts of this second"),
    ("checkpoint", "state and mail threads", "a thread that hangs is found after all was asked"),
    ("signals", "course on the page", "its last value is of this second"),
    ("exposition", "systemd", "the watchdog hears of whole turns only"),
    ("systemd", "garbage", "a walk over all objects delays nothing of its second"),
]


@pytest.fixture
def clock() -> PlayedClock:
    """A clock at a given time."""
    made = PlayedClock()
    made.set(1000.0, 1_800_000_000.0)
    return made


@dataclass
class Journal:
    """Stores messages."""

    lost_total: int = 0
    lines: list[str] = field(default_factory=list)

    def send(
        self, kind: journal.MessageKind, priority: int, message: str, **_: str | int | None
    ) -> None:
        """Store a message."""
        assert 0 <= priority <= 7, kind
        self.lines.append(message)

    def debug(self, text: str) -> None:
        """Log nothing."""

    def set_level(self, level: str) -> None:
        """Store the level."""
        self.lines.append(f"level {level}")

    def close(self) -> None:
        """Do nothing."""


def service(directory: Path, clock: PlayedClock) -> tuple[Service, StateDatabase]:
    """Return a service without sources and rules, and its state.db."""
    settings = parse_config(f"state_directory: {directory}\n", "test")
    events: queue.SimpleQueue[object] = queue.SimpleQueue()
    readers = SourceScheduler([], {}, lambda: None, clock.now, events.put)  # type: ignore[arg-type,return-value]
    state = StateDatabase(f"{settings.state_directory}/state.db", events.put)
    parts = Dependencies(
        config=settings,
        clock=clock,
        engine=Engine([], [], clock.now()),
        readers=readers,
        pollers=pollers.make(settings.smart, clock),
        events=events,
        log=Journal(),
        state=state,
        sender=mail_sender(events.put, MaildirSettings(settings.state_directory)),
        exposition=Exposition(print),
        notify=lambda _: None,
    )
    return Service(parts), state


@pytest.fixture(scope="module")
def duties(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the names of a loop's duties, in order."""
    made, _ = service(tmp_path_factory.mktemp("state"), PlayedClock())
    return list(made.loop.duties)


@pytest.mark.parametrize(("first", "then", "why"), ORDER, ids=lambda each: str(each).split(",")[0])
def test_a_duty_comes_before_another(duties: list[str], first: str, then: str, why: str) -> None:
    """The consequence of exchanging two of them is listed here."""
    assert duties.index(first) < duties.index(then), why


@dataclass
class Reloads:
    """A reloader, with its messages and calls."""

    clock: PlayedClock
    path: Path
    journal: Journal = field(default_factory=Journal)
    notified: list[str] = field(default_factory=list)
    came: queue.SimpleQueue[ReloadDone | ReloadRefused] = field(default_factory=queue.SimpleQueue)
    in_force: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """The configuration in force logs nothing below its level."""
        self.reloader = Reloader(
            (parse_config("", "test"), LoadedRules([])),
            self.clock,
            TransitionLog(self.journal, lambda: 0.0, self.clock.now),
            self.notified.append,
            self.came.put,
            load=lambda _: (parse_config(self.path.read_text(), "test"), LoadedRules([])),
            sender_for=None,
            put_in_force=self.put,
        )

    def put(self, loaded: ReloadDone, _: float) -> int:
        """Store the configuration that comes into force."""
        self.in_force.append(loaded.config.log_level)
        return 7

    def arrives(self) -> None:
        """Let the loop take the result of a reload."""
        self.reloader.take(self.came.get(timeout=10))


def test_what_is_requested_during_a_reading_is_read_after_it(
    clock: PlayedClock, tmp_path: Path
) -> None:
    """Two requests during a reload cause one more reload, of the files as they are then."""
    it = Reloads(clock, tmp_path / "c.yaml")
    it.path.write_text("log_level: warning\n")
    it.reloader.begin()
    it.reloader.begin()
    it.reloader.begin()
    first = it.came.get(timeout=10)
    it.path.write_text("log_level: error\n")
    it.reloader.take(first)
    assert it.reloader.busy()
    it.arrives()
    assert not it.reloader.busy()
    assert it.in_force == ["warning", "error"]
    assert [text.split("=")[0] for text in it.notified] == ["RELOADING", "READY"] * 2
    assert it.came.empty()


def test_a_reading_that_hangs_leaves_what_is_in_force(clock: PlayedClock, tmp_path: Path) -> None:
    """It is logged once; when the disk answers after all, the configuration comes into force."""
    it = Reloads(clock, tmp_path / "c.yaml")
    it.path.write_text("log_level: warning\n")
    it.reloader.begin()
    for late in (0.0, 1.0, 2.0):
        it.reloader.check_thread(clock.now() + HUNG_SECONDS + late)
    assert it.in_force == []
    assert not it.reloader.busy()
    (line,) = it.journal.lines
    assert line.endswith("a disk hangs; the previous configuration stays in force")
    assert it.reloader.samples(5.0, 2.0) == [
        ("iowarden_config_last_reload_successful", (), 0.0),
        ("iowarden_config_last_reload_success_timestamp_seconds", (), 7.0),
    ]
    it.arrives()
    assert it.in_force == ["warning"]
    assert it.reloader.refusal == ""
    assert it.journal.lines[1:] == ["configuration reloaded: 7 rules", "level warning"]


def test_ready_does_not_wait_for_a_source_that_hangs(clock: PlayedClock) -> None:
    """READY is sent to systemd only once; the watchdog on each tick."""
    notified: list[str] = []
    asked = pollers.make(parse_config("", "test").smart, clock)
    engine = Engine([], asked.sources(), clock.now())
    health = ServiceHealth(
        engine, clock, TransitionLog(Journal(), lambda: 0.0, clock.now), notified.append
    )
    began = clock.now()
    health.turns(began)
    health.turned(began + FIRST_ROUND_SECONDS, 0, "")
    assert health.ready() != ""
    for late in (1.0, 2.0):
        health.turned(began + FIRST_ROUND_SECONDS + late, 0, "")
    assert health.ready() == ""
    assert notified.count("READY=1") == 1
    first, *others = [text for text in notified if text.startswith("WATCHDOG=1")]
    assert first.startswith(
        "WATCHDOG=1\nSTATUS=0 warning or critical, 0 notice or info alerts; 0 mails"
    )
    assert others == ["WATCHDOG=1"] * 2, "a status that did not change is not sent again"


def test_a_program_that_hangs_is_kept_and_reported_once(clock: PlayedClock) -> None:
    """What hung before the start is not reported again; that it ended is."""

    class Probe:
        problem = ""
        stuck: tuple[Stuck, ...] = ()

        def remember(self, stuck: tuple[Stuck, ...]) -> None:
            self.stuck = stuck

    kept: list[int] = []
    log = Journal()
    probe = Probe()
    watch = ProbeWatch(
        probe,  # type: ignore[arg-type]
        TransitionLog(log, lambda: 0.0, clock.now),
        lambda: kept.append(1),
    )
    watch.restore((Stuck(7, 1, ("smartctl",), (), ("sda",), 0.0),))
    watch.check()
    assert (log.lines, kept) == ([], [])
    probe.stuck = ()
    for _ in range(2):
        watch.check()
    assert len(log.lines) == len(kept) == 1
    assert "has ended" in log.lines[0]


def test_a_client_that_requests_without_end_does_not_delay_the_duties(clock: PlayedClock) -> None:
    """Each answer is followed by the next request; what was queued before is handled all the same.

    The handler ends a loop that would not return, so that the test fails instead of hanging.
    """
    events: queue.SimpleQueue[object] = queue.SimpleQueue()
    handled: list[object] = []

    def answer(event: object, _: float) -> None:
        handled.append(event)
        if len(handled) < 100:
            events.put("next request")

    log = TransitionLog(Journal(), lambda: 0.0, clock.now)
    loop = Loop(events, clock, log, answer, {}, None, bool, answer)
    events.put("reading")
    events.put("request")
    loop.take(0.0)
    assert handled == ["reading", "request"]
    loop.take(1.0)
    assert handled[2:] == ["next request", "next request"]


def test_nothing_is_scraped_before_the_stored_alerts_are_loaded(
    clock: PlayedClock, tmp_path: Path
) -> None:
    """A firing alert that is missing from one scrape is resolved in Prometheus."""
    made, state = service(tmp_path, clock)
    for second in range(20):  # evaluated without it after 5 s, but not scraped
        clock.set(1000.0 + second, 1_800_000_000.0 + second)
        made.loop.do_duties(clock.now())
    assert "state.db" in made.health.scrapable()
    state.load()
    while made.health.scrapable():
        made.loop.take(DEADLINE_SECONDS)
        made.loop.do_duties(clock.now())
    assert state.close(DEADLINE_SECONDS)


def test_metrics_are_scraped_when_state_db_does_not_answer(
    clock: PlayedClock, tmp_path: Path
) -> None:
    """Its disk hangs: the metrics say so, and are worth more than what was stored."""
    made, _ = service(tmp_path, clock)
    for second in range(62):
        clock.set(1000.0 + second, 1_800_000_000.0 + second)
        made.loop.do_duties(clock.now())
    assert made.health.scrapable() == ""


def test_a_late_second_and_the_time_of_each_duty_are_on_metrics(clock: PlayedClock) -> None:
    """An administrator sees that the loop is late, and which of its duties takes long."""
    log = TransitionLog(Journal(), lambda: 0.0, clock.now)
    duties = {"read": lambda _: sum(range(10_000)), "exposition": lambda _: None}
    loop = Loop(queue.SimpleQueue(), clock, log, lambda *_: None, duties, None, bool, bool)
    loop.begin()
    for now in (1000.0, 1001.03, 1009.0):  # in time, 30 ms late, 7 s late
        clock.set(now, 1_800_000_000.0)
        loop.turn()
    shown = Exposition(print)
    shown.publish(MetricsSnapshot((Chunk("process", 1, loop.times.content()),)))
    families = {f.name: f for f in text_string_to_metric_families(shown.render().decode())}
    lateness = families["iowarden_loop_lateness_seconds"]
    assert lateness.type == "histogram"
    values = {s.labels.get("le", s.name[-6:]): s.value for s in lateness.samples}
    assert [values[le] for le in ("0.001", "0.025", "0.05", "5.0", "+Inf")] == [1, 1, 2, 2, 3]
    assert values["_count"] == 3
    assert values["ds_sum"] == pytest.approx(7.03)
    took = {s.labels["duty"]: s.value for s in families["iowarden_loop_duty_seconds"].samples}
    assert took["read"] > took["exposition"] > 0


def test_the_duties_of_the_service_are_on_its_metrics(clock: PlayedClock, tmp_path: Path) -> None:
    """Each scrape shows the time of all of them, from the first second on."""
    made, _ = service(tmp_path, clock)
    made.loop.do_duties(clock.now())
    made.loop.do_duties(clock.now())
    text = made._dependencies.exposition.render().decode()
    assert text.count("\niowarden_loop_duty_seconds_total{") == len(made.loop.duties)
