"""The disk of the service's own state hangs from its start on: what is said of that."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.pages import PlayedService, rack

from iowarden.collectors.event import StorageEvent
from iowarden.collectors.kernel.hung_task import HungTask
from iowarden.collectors.model import Outcome, Reading
from iowarden.collectors.procfs.tasks import BlockedTask, BlockedTasks
from iowarden.daemon.polling.own_tasks import OwnTasks
from iowarden.daemon.replay.replay import MemoryStateDatabase
from iowarden.daemon.service.checkpoint import CONTROLLERS_WAIT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Silent(MemoryStateDatabase):
    """A state database whose first read has not returned for two minutes."""

    def load(self) -> None:
        """Answer nothing."""
        self.working_since = time.monotonic() - 120


def test_a_collector_that_waits_for_the_state_is_not_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not polled, on purpose, for longer than its data would be valid: no alert, but a line.

    When it is polled without its state, it has its time to deliver, like at a start.
    """
    monkeypatch.setattr("iowarden.daemon.service.service.STATE_WAIT_SECONDS", 0.01)
    seconds = int(CONTROLLERS_WAIT_SECONDS) - 8
    service = PlayedService(rack(1, seconds), tmp_path, full=True, state=Silent)
    status = service.engine.sources["controllers"]
    assert status.reading is None
    assert status.paused_because == "waits for state.db"
    alerts = [(alert.name, alert.label("collector")) for alert in service.engine.rules.alerts()]
    assert ("CollectorStale", "controllers") not in alerts
    (state,) = (a for a in service.engine.rules.alerts() if a.name == "StateNotDurable")
    # Two minutes, and what it took to play the recording.
    assert re.match(r"its state cannot be written to disk for [0-9]+ min", state.summary)
    assert state.summary.endswith(": the disk of its state directory does not answer")
    assert [line for line in service.log if "controllers: not polled: " in line]
    now = service.clock.now() + 60
    service.engine.hold((), "", now)
    assert not status.is_stale(now)
    assert status.is_stale(now + 4 * status.source.period_seconds)


def test_the_services_own_threads_are_no_blocked_programs() -> None:
    """They wait for the disk of its state; a program beside them stays, as does its number."""
    first = BlockedTask(40, 1, "iowarden", "io_schedule", (), None, None)
    thread, other = replace(first, pid=41, process=40), replace(first, pid=50, command="mysqld")
    reading = Reading("tasks", Outcome.OK, 0.0, 0.0, BlockedTasks((first, thread, other), 7))
    assert OwnTasks(40).without(reading).value == BlockedTasks((other,), 5)
    assert OwnTasks().without(reading) is reading
    block = replace(reading, source="block")
    assert OwnTasks(40).without(block) is block


@pytest.fixture(name="program")
def _program() -> Iterator[int]:
    """A program that a child of this process runs, as the probe does."""
    command = "sleep 1000 >/dev/null & echo $!; wait"
    with subprocess.Popen(
        ["/bin/sh", "-c", command], stdout=subprocess.PIPE, start_new_session=True
    ) as shell:
        assert shell.stdout is not None
        yield int(shell.stdout.readline())
        os.killpg(shell.pid, signal.SIGKILL)


def test_what_the_probe_runs_is_no_blocked_program(program: int) -> None:
    """Its dumpe2fs opens the disk that hangs. Installed, the probe is a unit of its own."""
    own = OwnTasks(os.getpid())
    below = BlockedTask(program, 1, "dumpe2fs", "io_schedule", (), None, None)
    other = replace(below, pid=os.getppid(), command="mysqld")
    unit = replace(other, command="smartctl", unit="iowarden-probe.service")
    reading = Reading("tasks", Outcome.OK, 0.0, 0.0, BlockedTasks((below, other, unit), 3))
    assert own.without(reading).value == BlockedTasks((other,), 1)
    text = f"INFO: task dumpe2fs:{program} blocked for more than 120 seconds."
    assert own.is_hang(StorageEvent("kernel", "hung_task", text))


def test_the_kernels_count_of_hung_tasks_is_without_those_of_the_service() -> None:
    """It names the first ten in its log, and counts on: only who is blocked says whose they are."""
    own = OwnTasks(40)
    thread = BlockedTask(41, 1, "iowarden", "io_schedule", (), None, None, process=40)
    program = replace(thread, pid=50, process=0, command="mysqld")

    def read(now: float, reports: int, *blocked: BlockedTask) -> int:
        tasks = BlockedTasks(blocked, len(blocked))
        own.without(Reading("tasks", Outcome.OK, now, 0.0, tasks))
        value = HungTask(reports, 10, 120)
        counted = own.without(Reading("hung_task", Outcome.OK, now, 0.0, value)).value
        assert counted is not None
        return counted.own_reports

    assert read(0, 7, thread) == 0
    assert read(30, 8, thread) == 0, "blocked for 30 s: it cannot be its own"
    assert read(130, 9, thread) == 1
    assert read(250, 12, thread, program) == 4, "the program is blocked since now"
    assert read(370, 14, thread, program) == 4, "it may be the program's"
    assert read(490, 15, program) == 4


def test_a_hung_task_of_the_service_is_no_event() -> None:
    """The kernel names a thread by its own number; that of another program is an event."""
    own = OwnTasks(os.getpid())
    leave, ready = threading.Event(), threading.Event()
    numbers: list[int] = []

    def wait() -> None:
        numbers.append(threading.get_native_id())
        ready.set()
        leave.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    ready.wait()
    text = "INFO: task reader:{} blocked for more than 120 seconds."
    of_thread, of_parent = (
        StorageEvent("kernel", "hung_task", text.format(number))
        for number in (numbers[0], os.getppid())
    )
    assert own.is_hang(of_thread)
    assert not own.is_hang(of_parent)
    earlier = "INFO: task iowarden:99999999 blocked for more than 483 seconds."
    assert own.is_hang(replace(of_thread, text=earlier)), "it was restarted since"
    assert not own.is_hang(replace(of_thread, text=earlier.replace("iowarden", "iowarden2")))
    assert not own.is_hang(replace(of_thread, kind="io_error"))
    assert not OwnTasks().is_hang(of_thread)
    leave.set()
    thread.join()
