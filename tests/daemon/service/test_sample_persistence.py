"""Range-based rules, over real restarts of the whole program."""

from __future__ import annotations

import contextlib
import queue
import signal
import sqlite3
from array import array
from typing import TYPE_CHECKING

import pytest
from support.live import Live, Watched, watched
from support.program import run
from support.recordings import write_recording

from iowarden.daemon.service.sample_persistence import SAVE_SECONDS, SamplePersistence
from iowarden.daemon.storage.history_db import SampleBatch, SamplesLoaded, Written
from iowarden.rules.alerting.staleness import ObservationHistory
from iowarden.rules.engine.engine import Engine
from iowarden.rules.promql import store as store_module
from iowarden.rules.promql.history import packed
from iowarden.rules.rulefile.rulefile import parse_rule_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MINUTE = 60.0
LAPTOP = "/proc/sys/vm/laptop_mode"
WAS_ON = "max_over_time(iowarden_vm_laptop_mode[20m]) > 0"
NEVER_ON = "absent_over_time(nothing_of_it[20m])"


def machine(tmp_path: Path, *expressions: str) -> Live:
    """Return a machine with a user's alert for each expression: A0, A1 ..."""
    rules = "".join(
        f"      - {{alert: A{number}, expr: '{text}', labels: {{severity: notice}}}}\n"
        for number, text in enumerate(expressions)
    )
    (tmp_path / "rules.d").mkdir(exist_ok=True)
    (tmp_path / "rules.d" / "mine.yaml").write_text(
        f"groups:\n  - name: mine\n    interval: 5s\n    rules:\n{rules}"
    )
    return Live(tmp_path)


def states(host: Watched) -> dict[str, str]:
    """Return the states of the user's alerts."""
    host.program.caught_up()
    found = {}
    for name in host.program.metrics():
        if name.startswith("iowarden_alerts{") and 'alertname="A' in name:
            labels = dict(pair.split("=") for pair in name[len("iowarden_alerts{") : -1].split(","))
            if labels["alertname"].strip('"') in ("A0", "A1", "A2"):
                found[labels["alertname"].strip('"')] = labels["alertstate"].strip('"')
    return found


def saved_until(host: Watched) -> float:
    """Return until when history.db has the samples, in Unix time."""
    address = f"file:{host.program.state / 'history.db'}?mode=ro"
    with contextlib.closing(sqlite3.connect(address, uri=True)) as database:
        (until_seconds,) = database.execute("SELECT max(until_seconds) FROM run").fetchone()
    return float(until_seconds or 0.0)


def test_a_window_goes_on_after_a_restart(tmp_path: Path) -> None:
    """Samples of ten minutes ago are still in a window of twenty, and leave it in time."""
    with watched(tmp_path, machine(tmp_path, WAS_ON)) as host:
        host.live.change({LAPTOP: "5\n"})
        host.wait_only(20)
        host.live.change({LAPTOP: "0\n"})
        host.wait_only(10 * MINUTE)
        assert states(host) == {"A0": "firing"}
        host.live.wait(8.0, step=8.0)
        host.restart()
        host.wait_only(9 * MINUTE)
        assert states(host) == {"A0": "firing"}
        host.wait_only(3 * MINUTE)
        assert states(host) == {}
        assert "unknown" not in host.program.text()


def test_nothing_fires_on_a_window_that_nobody_watched(tmp_path: Path) -> None:
    """`absent_over_time` waits after the first start, but not after a restart."""
    with watched(tmp_path, machine(tmp_path, NEVER_ON)) as host:
        host.wait_only(18 * MINUTE)
        assert states(host) == {"A0": "pending"}
        host.live.wait(8.0, step=8.0)
        host.restart()
        host.wait_only(MINUTE)
        assert states(host) == {"A0": "pending"}
        host.wait_only(2 * MINUTE)
        assert states(host) == {"A0": "firing"}


def test_a_kill_costs_no_more_than_look_back_bridges(tmp_path: Path) -> None:
    """kill -9 between two saves: the last one is enough to continue the window."""
    rules = [text.replace("20m", "40m") for text in (WAS_ON, NEVER_ON)]
    with watched(tmp_path, machine(tmp_path, *rules)) as host:
        host.live.change({LAPTOP: "5\n"})
        host.wait_only(20)
        host.live.change({LAPTOP: "0\n"})
        host.wait_only(SAVE_SECONDS)
        unsaved_seconds = host.live.wall
        host.wait_only(SAVE_SECONDS + 200)
        host.program.until(
            lambda: saved_until(host) > unsaved_seconds, "the second save, which is a disk's to do"
        )
        host.program.end(signal.SIGKILL)
        host.start_again()
        host.wait_only(28 * MINUTE)
        assert states(host) == {"A0": "firing", "A1": "pending"}
        host.wait_only(5 * MINUTE)
        assert states(host) == {"A1": "firing"}


def test_a_history_that_is_no_database_is_set_aside(tmp_path: Path) -> None:
    """Its file is named; the program starts, and its windows start again."""
    with watched(tmp_path, machine(tmp_path, NEVER_ON)) as host:
        host.wait_only(21 * MINUTE)
        assert states(host) == {"A0": "firing"}
        assert host.program.end() == 0
        (host.program.state / "history.db").write_bytes(b"\xa5" * 9000)
        host.start_again()
        host.wait_only(MINUTE)
        assert "history: '" in host.program.text()
        assert "renamed to" in host.program.text()


def test_a_clock_that_went_back_is_no_history(tmp_path: Path) -> None:
    """The clock is set back a day between a stop and a start: the interval is unknown."""
    live = machine(tmp_path, WAS_ON, NEVER_ON)
    with watched(tmp_path, live) as host:
        live.change({LAPTOP: "5\n"})
        host.wait_only(20)
        live.change({LAPTOP: "0\n"})
        host.wait_only(21 * MINUTE)
        assert states(host) == {"A1": "firing"}
        assert host.program.end() == 0
        live.leap(10.0, -86_400.0)
        host.start_again()
        host.wait_only(MINUTE)
        assert states(host)["A1"] == "firing"  # it fired, and nothing shows that it is resolved
        assert "Traceback" not in host.program.text()


def test_a_machine_without_such_rules_has_no_history(tmp_path: Path) -> None:
    """The shipped rules use signals for ranges: no samples are stored for them."""
    with watched(tmp_path, Live(tmp_path)) as host:
        host.wait_only(2 * SAVE_SECONDS)
        assert host.program.end() == 0
        assert (host.program.state / "state.db").exists()
        assert not (host.program.state / "history.db").exists()


def test_a_replay_writes_no_history(tmp_path: Path) -> None:
    """`iowarden replay` evaluates range-based rules, and leaves the state directory unchanged."""
    machine(tmp_path, NEVER_ON)
    frames = [(100.0 + n, {"/proc/uptime": f"{100 + n}.00 0.00\n"}) for n in range(30)]
    recording = write_recording(tmp_path / "recorded", frames)
    state = tmp_path / "state"
    state.mkdir()
    (tmp_path / "iowarden.yaml").write_text(f"state_directory: {state}\n")
    rules = str(tmp_path / "rules.d" / "mine.yaml")
    answer = run("replay", recording, "--rules", rules, "--config", str(tmp_path / "iowarden.yaml"))
    assert "replayed 30 frames" in answer.stdout, answer.stderr
    assert list(state.iterdir()) == []


# --- what is handed over, and when


class Disk:
    """Takes saved samples, like history.db, when the test permits."""

    def __init__(self) -> None:
        self.working_since: float | None = None
        self.lost_total = 0
        self.taken: queue.SimpleQueue[SampleBatch] = queue.SimpleQueue()
        self.hangs = False

    def load(self, retention_seconds: Mapping[str, float]) -> None:
        """Have nothing."""

    def save(self, tail: SampleBatch) -> None:
        """Take it."""
        assert not self.hangs
        self.taken.put(tail)

    def busy(self) -> bool:
        """Hang or not."""
        return self.hangs

    def close(self, timeout_seconds: float) -> bool:
        """End."""
        return timeout_seconds > 0


class Log:
    """Stores messages."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def send(self, _: object, __: int, text: str) -> None:
        """Store a message."""
        self.said.append(text)

    def trouble(self, _: str, text: str, __: object) -> None:
        """Store an error."""
        self.said += [text] if text else []

    def hung(self, *_: object) -> None:
        """Nothing hangs here."""


START = 1_800_000_000.0
RULE = "groups: [{name: g, rules: [{alert: A, expr: 'max_over_time(x[1h]) > 1'}]}]"


class Handed:
    """An engine with a new value each second, and the samples handed over."""

    def __init__(self) -> None:
        self.disk = Disk()
        self.log = Log()
        self.engine = Engine(parse_rule_file(RULE, "t"), [], START)
        self.tails = SamplePersistence(self.disk, self.engine, self.log)  # type: ignore[arg-type]
        self.now = START

    def run(self, seconds: int) -> list[SampleBatch]:
        """Advance the clock; return the samples handed over."""
        for _ in range(seconds):
            self.now += 1.0
            self.engine.hub.store.append("x", (), self.now, self.now - START)
            self.engine.hub._observed_seconds = self.now
            self.tails.step(self.now, 0.0)
        return self.new()

    def new(self) -> list[SampleBatch]:
        """Return the samples handed over lately."""
        found = []
        while not self.disk.taken.empty():
            found.append(self.disk.taken.get())
        return found


def values(tails: list[SampleBatch]) -> list[float]:
    """Return the values in the samples handed over."""
    return [value for tail in tails for _, _, _, numbers in tail.rows for value in numbers]


def test_only_what_is_new_is_handed_over() -> None:
    """Every four minutes, and at the end: each sample once."""
    host = Handed()
    seen: list[float] = []
    for _ in range(3):
        (tail,) = host.run(int(SAVE_SECONDS) + 1)
        seen += values([tail])
        host.tails.take(Written(tail.until_seconds))
    host.run(50)
    assert host.tails.finish(host.now, 0.0)
    seen += values(host.new())
    assert seen == [float(n) for n in range(1, len(seen) + 1)]
    assert len(seen) == 3 * (SAVE_SECONDS + 1) + 50


def test_what_could_not_be_written_is_handed_over_again() -> None:
    """The disk fails for an hour: then all of that hour is written, in parts of limited size."""
    host = Handed()
    (first,) = host.run(int(SAVE_SECONDS) + 1)
    host.tails.take(Written(first.until_seconds, error="history: full"))
    for tail in host.run(3000):
        host.tails.take(Written(tail.until_seconds, error="history: full"))
    assert set(host.log.said) == {"history: full"}
    seen: list[float] = []
    for _ in range(2 * int(SAVE_SECONDS)):
        for tail in host.run(1):
            assert len(values([tail])) <= 600
            seen += values([tail])
            host.tails.take(Written(tail.until_seconds))
    assert seen == [float(n) for n in range(1, len(seen) + 1)]
    assert len(seen) > 3000 + SAVE_SECONDS


def test_nothing_is_handed_to_a_disk_that_hangs() -> None:
    """Nothing accumulates meanwhile; when it answers, the missing samples follow at once."""
    host = Handed()
    host.disk.hangs = True
    assert host.run(1000) == []
    assert not host.tails.finish(host.now, 0.0)
    host.disk.hangs = False
    (tail,) = host.run(1)
    assert values([tail])[0] == 1.0


def test_a_new_file_gets_all_of_it() -> None:
    """history.db was deleted: samples in memory are written to the new one."""
    host = Handed()
    (tail,) = host.run(int(SAVE_SECONDS) + 1)
    host.tails.take(Written(tail.until_seconds))
    (tail,) = host.run(int(SAVE_SECONDS) + 1)
    host.tails.take(Written(tail.until_seconds, recreated=True))
    seen: list[float] = []
    for _ in range(20):
        for tail in host.run(1):
            seen += values([tail])
            host.tails.take(Written(tail.until_seconds))
    assert seen[: 2 * int(SAVE_SECONDS)] == [float(n) for n in range(1, 2 * int(SAVE_SECONDS) + 1)]


@pytest.mark.parametrize("ahead", [0.0, 5000.0])
def test_a_tail_of_the_future_is_moved_and_no_window_is_full(ahead: float) -> None:
    """The clock was set back since: the samples are the newest possible, and prove nothing."""
    host = Handed()
    times = array("d", [START + ahead - 100 + n for n in range(100)])
    seen = ObservationHistory({"x": START - 9999}, START + ahead - 1)
    host.tails.take(SamplesLoaded(packed([[("x", (), times, array("d", [3.0] * 100))]]), seen))
    host.tails.restore(START)
    assert host.engine.hub.watched().since["x"] == (START if ahead else START - 9999)
    rows = host.engine.hub.store.samples_between(0.0, START)
    assert [times[-1] for _, _, times, _ in rows] == [START if ahead else START - 1]


def test_history_that_does_not_fit_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest window goes first, and the line names its selector; it ends with a reload."""
    monkeypatch.setattr(store_module, "MAX_SAMPLES", 100)
    host = Handed()
    host.run(400)
    host.tails.check_thread()
    assert any("history: not stored for 'x': " in each for each in host.log.said)
    host.log.said.clear()
    host.engine.hub.load((), host.now)
    host.tails.check_thread()
    assert host.log.said == []
