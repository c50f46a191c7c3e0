"""When processes are read to find out who writes, and what becomes of the result."""

from __future__ import annotations

import json
import queue
import threading
from typing import TYPE_CHECKING

import pytest
from support.memory import Memory

from iowarden.collectors.machine import Machine
from iowarden.daemon.polling.io_watch import (
    BEFORE_SECONDS,
    REPEAT_SECONDS,
    RETENTION_SECONDS,
    IoRead,
    IoWatch,
)
from iowarden.rules.engine.engine import Engine
from iowarden.rules.rulefile.rulefile import parse_rule_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

START = 1_800_000_000.0
DEADLINE_SECONDS = 30.0
RULES = """\
groups:
  - name: g
    interval: 1s
    rules:
      - alert: ReclaimStall
        expr: up{job="stall"} > 0
        for: 10s
        labels: {severity: warning, condition: reclaim_stall}
      - alert: DeviceHang
        expr: up{job="hang"} > 0
        labels: {severity: critical, condition: device_hang}
      - alert: WriteThrottle
        expr: up{job="throttle"} > 0
        labels: {severity: info, condition: write_stall}
      - alert: Mine
        expr: up{job="mine"} > 0
        labels: {severity: critical, condition: write_stall}
      - alert: FilesystemFull
        expr: up{job="space"} > 0
        labels: {severity: critical, condition: space_low}
"""


class Watch:
    """Reads a machine whose only program writes 1 MiB/s, second by second."""

    def __init__(self, *, allowed: bool = True) -> None:
        self.memory = Memory()
        self.engine = Engine(parse_rule_file(RULES, "test"), [], START)
        self.came: queue.SimpleQueue[IoRead] = queue.SimpleQueue()
        self.recorded: list[str] = []
        self.reported: list[str] = []
        self.troubles: list[str] = []
        self.now = START
        self.reads: list[float] = []
        self.allowed = allowed
        self.watch = IoWatch(
            self.engine,
            lambda: self.memory,
            self.came.put,
            lambda: self.now - START,
            lambda: self.allowed,
            self._record,
            self.reported.append,
            self.troubles.append,
        )
        self.waits = self.writes = True

    def _record(self, _: str, seen: Mapping[str, bytes]) -> None:
        self.recorded += seen

    def sweep(self, at: float) -> None:
        """Let the probe answer with what is there at such a time since boot."""
        row = [10, 0, 1, "dd", "dd.service", 0, int(at) << 20, 0]
        sweep = {"boot_seconds": at, "processes": [row], "not_read": []}
        self.memory.write({"/.probe/io_sweep": json.dumps(sweep)})

    def run(self, seconds: int, *jobs: str) -> None:
        """Let seconds pass in which these alerts hold."""
        for _ in range(seconds):
            self.now += 1.0
            at = self.now - START
            if self.writes:
                self.sweep(at)
            self.engine.hub.feed("up", [("up", (("job", job),), 1.0) for job in jobs], self.now)
            self.engine.rules.evaluate(self.now)
            if self.watch._running and self.waits:
                self.watch.take(self.came.get(timeout=DEADLINE_SECONDS), self.now)
            self.watch.step(self.now)
            if self.watch._running and self.waits:
                self.came.put(self.came.get(timeout=DEADLINE_SECONDS))  # its thread has ended
                self.reads.append(at)

    def sentences(self) -> Sequence[str]:
        """Return the sentences of a mail about a write stall."""
        return self.watch.sentences(["write_stall"], self.now)


DD = "who writes: 100 % dd (dd.service, pid 10, 1 MiB/s)"


def test_nothing_is_read_while_no_alert_needs_it() -> None:
    """A full file system, information without a mail, a user's rule with the same label."""
    watch = Watch()
    watch.run(100, "space", "throttle", "mine")
    assert (watch.reads, watch.sentences(), watch.watch.samples(watch.now)) == ([], (), [])


def test_two_readings_begin_while_the_alert_is_pending() -> None:
    """Its first mail, 10 s later, has the result; it is read again each minute."""
    watch = Watch()
    watch.run(3)
    watch.run(10, "stall")
    assert watch.reads == [4.0, 10.0]
    assert watch.sentences() == (DD,)
    watch.run(135, "stall")
    assert watch.reads == [4.0, 10.0, 71.0, 77.0, 138.0, 144.0]


@pytest.mark.parametrize(("seconds", "reads"), [(0.0, []), (1.0, [1.0, 7.0])])
def test_writers_that_are_throttled_are_read_before_there_is_an_alert(
    seconds: float, reads: list[float]
) -> None:
    """A write stall is mailed at once, 10 s after they first were."""
    watch = Watch()
    throttled = ("iowarden_writeback_above_freerun_seconds", (), seconds)
    watch.engine.signals.newest("writeback").append(throttled)
    watch.run(10)
    assert watch.reads == reads


def test_a_second_alert_has_a_reading_of_its_own() -> None:
    """A disk hangs 40 s after the stall began: read again at once, but not each second."""
    watch = Watch()
    watch.run(42, "stall")
    before = len(watch.reads)
    watch.run(10, "stall", "hang")
    assert watch.reads[before:] == [43.0, 49.0]


def test_what_is_old_has_its_age_and_ends() -> None:
    """The incident lasts, its alert does not; metrics and rules use it for two minutes."""
    watch = Watch()
    watch.run(10, "stall")
    assert [name for name, _, _ in watch.watch.samples(watch.now)] == [
        "iowarden_processes_read_bytes_per_second",
        "iowarden_processes_written_bytes_per_second",
    ]
    watch.run(40)
    assert watch.sentences() == (f"{DD} (42 s ago)",)
    assert len(watch.reads) == 2
    watch.run(int(RETENTION_SECONDS))
    assert watch.watch.samples(watch.now) == []


def test_a_result_belongs_to_an_alert_that_held_then() -> None:
    """'incident show' of yesterday's stall does not name who writes now."""
    watch = Watch()
    watch.run(10, "stall")
    at = watch.now - 2
    assert watch.watch.is_of(at - 6, None)
    assert watch.watch.is_of(at - 6, at - 1)  # it ended between the two readings
    assert watch.watch.is_of(at + BEFORE_SECONDS, None)
    assert not watch.watch.is_of(at + BEFORE_SECONDS + 1, None)
    assert not watch.watch.is_of(at - 3600, at - 60)


def test_names_that_are_switched_off_are_not_read_and_forgotten() -> None:
    """Also by a reload in the middle of a pair."""
    watch = Watch(allowed=False)
    watch.run(30, "stall")
    assert watch.reads == []
    watch.allowed = True
    watch.run(3, "stall")
    watch.allowed = False
    watch.run(20, "stall")
    assert (len(watch.reads), watch.sentences(), watch.watch.samples(watch.now)) == (1, (), [])
    watch.allowed = True
    watch.run(20, "stall")
    assert watch.sentences() == (DD,)
    watch.allowed = False  # a mail that is due before the next step
    assert watch.sentences() == ()


def test_what_is_read_is_in_the_flight_recorder() -> None:
    """A replay of the recording names the same programs."""
    watch = Watch()
    watch.run(10, "stall")
    assert "/.probe/io_sweep" in watch.recorded


def test_a_probe_that_fails_is_queried_again_a_minute_later() -> None:
    """It answers nonsense, then it does not answer, then it does."""
    watch = Watch()
    watch.memory.write({"/sys/fs/cgroup/cgroup.controllers": "\n"})
    watch.memory.fail("/.probe", 5)
    watch.run(20, "stall")
    assert watch.sentences() == ()
    assert "Input/output error" in watch.troubles[-1]
    watch.run(1)
    assert watch.troubles[-1] == ""  # nothing has to be read, so nothing is wrong
    watch.memory.fail("/.probe", None)
    watch.run(int(REPEAT_SECONDS), "stall")
    assert watch.sentences() == (DD,)
    assert watch.troubles[-1] == ""


def test_that_control_groups_cannot_be_read_is_reported_once() -> None:
    """Version 1: each stall would report it again."""
    watch = Watch()
    watch.run(100, "stall")
    assert len(watch.reads) > 2
    assert [text.partition(":")[0] for text in watch.reported] == [
        "which units wait for I/O is not known"
    ]


def test_in_a_replay_a_sweep_is_taken_when_the_recording_has_it() -> None:
    """It was recorded in the second after it was begun, when the probe had answered."""
    watch = Watch()
    watch.watch.inline, watch.writes = True, False
    watch.run(3, "stall")
    watch.sweep(1.2)
    watch.run(8, "stall")
    assert len(watch.reads) == 1  # the same one again is no second one
    watch.sweep(7.2)
    watch.run(3, "stall")
    assert watch.sentences() == (DD,)
    assert watch.reported == []


@pytest.mark.parametrize("fails", [False, True], ids=["hangs", "a bug"])
def test_a_reading_does_not_block_the_loop(*, fails: bool) -> None:
    """The thread waits for the probe: the loop does not, and starts no second one."""
    called, go_on = threading.Event(), threading.Event()
    threads: list[str] = []

    def probe(verb: str, _: Sequence[str], __: float) -> str:
        threads.append(verb)
        called.set()
        assert go_on.wait(DEADLINE_SECONDS)
        if fails:
            raise RuntimeError("a bug")
        return "{}"

    watch = Watch()
    watch.waits = False
    watch.watch.make_machine = lambda: Machine(probe=probe)
    watch.run(2, "stall")
    assert called.wait(DEADLINE_SECONDS)
    watch.run(90, "stall")
    assert threads == ["io_sweep"]
    assert "no answer" in watch.troubles[-1]
    go_on.set()
    watch.watch.take(watch.came.get(timeout=DEADLINE_SECONDS), watch.now)
    assert ("RuntimeError: a bug" if fails else "expected processes") in watch.troubles[-1]
    assert watch.sentences() == ()
