"""Kills for lack of memory: those that only the kernel's counter shows are events as well, once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.memory import Memory

from iowarden.collectors.model import Outcome, Reading
from iowarden.collectors.procfs.vmstat import read_vmstat
from iowarden.daemon.polling.kernel_log import BOOT_ID, PATH, KernelLogPoller
from iowarden.daemon.service import event_pipeline, persisted_state
from iowarden.daemon.service.event_pipeline import Callbacks, EventPipeline
from iowarden.daemon.transition_log import TransitionLog
from iowarden.rules.engine.engine import Engine
from iowarden.rules.events.event_table import parse_events_file
from iowarden.rules.events.unlogged_kills import WAIT_SECONDS
from iowarden.rules.topology.graph import StorageGraph

if TYPE_CHECKING:
    from iowarden.daemon import journal

FILE = Path(event_pipeline.__file__).parents[2] / "rules" / "events" / "events.yaml"
TABLE = parse_events_file(FILE.read_text(), FILE.name)
START = 1_800_000_000.0
BOOTED = 1_799_990_000
TOP = "/sys/fs/cgroup"
ETL, WEB = "/system.slice/etl.service", "/system.slice/web.service"
SOON = int(WAIT_SECONDS) + 3
VMSTAT = (
    "nr_dirty 0\nnr_writeback 0\nnr_dirtied 0\nnr_written 0\nnr_dirty_threshold 1000\n"
    "nr_dirty_background_threshold 500\npgpgin 0\npgpgout 0\noom_kill {}\n"
)
SIZES = "total-vm:812340kB, anon-rss:198120kB, file-rss:0kB, shmem-rss:0kB, UID:33"


class Quiet:
    """A log that is ignored."""

    lost_total = 0

    def send(
        self, kind: journal.MessageKind, priority: int, message: str, **fields: object
    ) -> None:
        """Log nothing."""

    def debug(self, text: str) -> None:
        """Log nothing."""

    def set_level(self, level: str) -> None:
        """Ignore the level."""

    def close(self) -> None:
        """Do nothing."""


class Host:
    """A host whose kernel kills programs, and the service that reads its log and its counters."""

    def __init__(self, *, killed: int = 0) -> None:
        """Boot it; `killed`: so many in a unit before the first start of the service."""
        self.now = START
        self.has_log = True
        self.memory = Memory({f"{TOP}/cgroup.controllers": "io memory\n"})
        self.pipeline: EventPipeline | None = None
        self.boot("a")
        if killed:
            self.kill(ETL, killed)
        self.start({})
        self.wait(30)

    def boot(self, boot_id: str) -> None:
        """Begin all counters at 0 again, and the log."""
        self.total = 0
        self.groups = {"/system.slice": [0, 0], ETL: [0, 0], WEB: [0, 0]}
        self.memory = self.memory.another()
        self.lines: list[str] = []
        self.memory.write(
            {
                BOOT_ID: f"{boot_id}\n",
                PATH: "",
                "/proc/stat": "cpu  1 0 1 1 1 0 0 0 0 0\nintr 0\nctxt 0\n"
                f"btime {BOOTED}\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n",
            }
        )
        self.show()
        self.print("sd 0:0:0:0: [sda] Attached SCSI disk")

    def show(self) -> None:
        """Let the kernel's files show what was counted."""
        events = {
            f"{TOP}{path}/memory.events": f"high 0\nmax 9\noom {at_limit}\noom_kill {kills}\n"
            for path, (kills, at_limit) in self.groups.items()
        }
        self.memory.write({"/proc/vmstat": VMSTAT.format(self.total), **events})

    def limit(self, group: str) -> None:
        """Let a group have 200 MiB."""
        self.groups.setdefault(group, [0, 0])
        self.memory.write({f"{TOP}{group}/memory.max": "209715200\n"})
        self.show()

    def kill(self, group: str, number: int = 1, *, at: str = "") -> None:
        """Kill programs of a group, without a line; `at`: the group whose limit was reached."""
        for path, counts in self.groups.items():
            counts[0] += number if f"{group}/".startswith(f"{path}/") else 0
            counts[1] += 1 if at and f"{at}/".startswith(f"{path}/") else 0
        self.total += number
        self.show()

    def print(self, *lines: str, ago: float = 0.0) -> None:
        """Let the kernel print lines, which it did a while `ago`."""
        at = round((self.now - ago - BOOTED) * 1e6)
        first = len(self.lines) + 1
        self.lines += [f"3,{first + n},{at + n},-;{line}\n" for n, line in enumerate(lines)]
        self.memory.write({PATH: "".join(self.lines)})

    def start(self, stored: dict[str, str]) -> None:
        """Start the service with what it stored."""
        clock = lambda: self.now - BOOTED  # noqa: E731 - as the kernel's time stamps
        self.log = KernelLogPoller(None, clock, lambda: self.now)
        engine = Engine([], (), self.now)
        transitions = TransitionLog(Quiet(), lambda: self.now, lambda: self.now)
        self.pipeline = EventPipeline(
            engine,
            transitions,
            TABLE,
            lambda now: now,
            callbacks=Callbacks(kernel_log=self.log),
        )
        before, unread = persisted_state.read(stored, self.now)
        assert not unread
        self.pipeline.restore(before.correlation, before.cursors, {})

    def stop(self) -> dict[str, str]:
        """Return what the service stores."""
        assert self.pipeline is not None
        correlation, cursors = self.pipeline.stored
        return persisted_state.documents(
            persisted_state.PersistedState(correlation=correlation, cursors=cursors)
        )

    def restart(self) -> None:
        """Restart the service."""
        self.start(self.stop())

    def wait(self, seconds: int) -> None:
        """Let the service read for so long."""
        assert self.pipeline is not None
        for _ in range(seconds):
            self.now += 1.0
            values = {"vmstat": read_vmstat(self.memory)}
            if self.has_log:
                values["kernel_log"] = self.log.read(self.memory)
            for name, value in values.items():
                self.pipeline.take(Reading(name, Outcome.OK, self.now, 0.0, value), self.now)
            self.pipeline.step(self.now)
            self.pipeline.log_and_store({}, StorageGraph(), self.now)

    def said(self) -> list[str]:
        """Return the summaries of the alerts of these kills, with what is unknown."""
        assert self.pipeline is not None
        return [
            f"{alert.annotation('summary')}; {alert.annotation('unknown')}".removesuffix("; ")
            for alert in self.pipeline.alerts(self.now)
        ]


UNKNOWN = (
    "; which program was killed: only the kernel's counter shows it (oom_kill in /proc/vmstat);"
    " its log cannot be read, or lost the line"
)
OF_ETL = f"the kernel killed a program of etl.service for lack of memory{UNKNOWN}"


def test_a_kill_without_a_line_is_reported_with_the_unit_of_the_program() -> None:
    """Whether the log is empty or cannot be read; not before the line would have been there."""
    host = Host()
    host.kill(ETL)
    host.wait(5)
    assert host.said() == []
    host.wait(SOON)
    assert host.said() == [OF_ETL]
    host.wait(60)
    assert host.said() == [OF_ETL]


def test_without_a_readable_log_the_counter_is_enough() -> None:
    """The service may not read it, or there is no probe: it gives no value."""
    host = Host()
    host.has_log = False
    host.restart()
    host.wait(30)
    host.kill(ETL)
    host.wait(SOON)
    assert host.said() == [OF_ETL]


@pytest.mark.parametrize("reads_first", [True, False])
def test_a_kill_with_a_line_is_reported_by_the_line_alone(*, reads_first: bool) -> None:
    """It names the program; the counter may be read before the line, or after it."""
    host = Host()
    if reads_first:
        host.kill(ETL)
        host.wait(2)
    host.print(f"Out of memory: Killed process 2481 (python3) {SIZES}")
    host.wait(2)
    if not reads_first:
        host.kill(ETL)
    host.wait(60)
    assert host.said() == ["the kernel killed python3 (pid 2481) for lack of memory"]


def test_of_three_kills_with_one_line_two_are_reported_by_the_counter() -> None:
    """The lines of the others were lost in the ring."""
    host = Host()
    host.kill(ETL, 3)
    host.print(f"Out of memory: Killed process 2481 (python3) {SIZES}")
    host.wait(SOON)
    assert host.said() == [
        "the kernel killed python3 (pid 2481) for lack of memory",
        f"the kernel killed 2 programs of etl.service for lack of memory{UNKNOWN}",
    ]


def test_forty_kills_in_one_second_are_all_in_the_log() -> None:
    """Of so many lines the reader passes on twenty, and counts the others."""
    host = Host()
    host.kill(ETL, 40)
    host.print(*(f"Out of memory: Killed process {n} (sh) {SIZES}" for n in range(40)))
    host.wait(SOON)
    assert host.said() == ["the kernel killed sh (pid 39) for lack of memory (40 times)"]


def test_kills_at_the_limit_of_a_unit_are_apart_from_those_of_the_host() -> None:
    """One of the unit's has its line; so the counter tells of the other, and of the host's."""
    host = Host()
    host.limit(ETL)
    host.kill(ETL, 2, at=ETL)
    host.kill(WEB)
    host.print(
        f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg={ETL},task_memcg={ETL},"
        "task=python3,pid=7,uid=33",
        f"Memory cgroup out of memory: Killed process 7 (python3) {SIZES}",
    )
    host.wait(SOON)
    (logged, limited, of_host) = host.said()
    assert logged == "the kernel killed python3 (pid 7) at the memory limit of etl.service"
    assert limited == f"the kernel killed a program at memory.max (200 MiB) of etl.service{UNKNOWN}"
    assert of_host == f"the kernel killed a program of web.service for lack of memory{UNKNOWN}"


def test_a_limit_of_a_slice_is_the_slice_s() -> None:
    """The program was of a service without a limit of its own."""
    host = Host()
    host.limit("/system.slice")
    host.kill(ETL, at="/system.slice")
    host.wait(SOON)
    assert host.said() == [
        f"the kernel killed a program at memory.max (200 MiB) of system.slice{UNKNOWN}"
    ]


def test_a_unit_that_ended_with_its_program_was_at_a_limit_in_its_slice() -> None:
    """Its counters are gone before they are read; those of the slice remain."""
    host = Host()
    job = "/system.slice/job.service"
    host.limit(job)
    host.kill(job, at=job)
    del host.groups[job]
    host.memory.remove(f"{TOP}{job}")
    host.wait(SOON)
    (said,) = host.said()
    where = "at the memory limit of a control group in system.slice that is gone"
    assert said == f"the kernel killed a program {where}{UNKNOWN}"


def test_a_host_with_control_groups_of_version_1_reports_the_number() -> None:
    """Of which program or unit they were is not known there."""
    host = Host()
    host.memory.remove(f"{TOP}/cgroup.controllers")
    host.kill(ETL, 2)
    host.wait(SOON)
    assert host.said() == [f"the kernel killed 2 programs for lack of memory{UNKNOWN}"]


def test_kills_from_before_the_first_start_are_no_news() -> None:
    """Nor are they counted with the first one after it, by unit or by number."""
    host = Host(killed=3)
    host.wait(120)
    assert host.said() == []
    host.kill(WEB)
    host.wait(SOON)
    assert host.said() == [
        f"the kernel killed a program of web.service for lack of memory{UNKNOWN}"
    ]


def test_a_line_that_is_read_after_its_kill_was_reported_is_not_said_again() -> None:
    """The probe was away for a minute; of the next kill, the line is read and said."""
    host = Host()
    host.has_log = False
    host.kill(ETL)
    host.wait(60)
    host.print(f"Out of memory: Killed process 2481 (python3) {SIZES}", ago=60)
    host.has_log = True
    host.wait(60)
    assert host.said() == [OF_ETL]
    host.kill(ETL)
    host.print(f"Out of memory: Killed process 2490 (ruby) {SIZES}")
    host.wait(60)
    assert host.said() == [OF_ETL, "the kernel killed ruby (pid 2490) for lack of memory"]


@pytest.mark.parametrize("waited", [0, 3, SOON])
@pytest.mark.parametrize("is_logged", [True, False])
def test_a_restart_after_a_kill_loses_and_repeats_nothing(waited: int, *, is_logged: bool) -> None:
    """While the service is stopped, before the line has to be there, and after the report."""
    host = Host()
    stored = host.stop()
    host.kill(ETL)
    if is_logged:
        host.print(f"Out of memory: Killed process 2481 (python3) {SIZES}")
    if waited:
        host.wait(waited)
        stored = host.stop()
    host.start(stored)
    host.wait(SOON)
    host.restart()
    host.wait(SOON)
    named = "the kernel killed python3 (pid 2481) for lack of memory"
    assert host.said() == [named if is_logged else OF_ETL]


def test_a_kill_before_state_db_is_read_is_reported_once() -> None:
    """The counter was read without what is stored: that has those from before the start."""
    host = Host(killed=2)
    stored = host.stop()
    host.kill(ETL)
    host.start({})
    late = host.pipeline
    assert late is not None
    host.wait(30)
    assert host.said() == []
    before = persisted_state.read(stored, host.now)[0]
    late.restore(before.correlation, before.cursors, {})
    host.wait(SOON)
    assert host.said() == [OF_ETL]


@pytest.mark.parametrize("killed", [0, 1, 5])
def test_a_boot_begins_the_counter_anew(killed: int) -> None:
    """Fewer kills than before it, as many, or more: those after it are news, and no others."""
    host = Host()
    host.kill(ETL)
    host.print(f"Out of memory: Killed process 2481 (python3) {SIZES}")
    host.wait(60)
    stored = host.stop()
    host.boot("b")
    if killed:
        host.kill(WEB, killed)
    host.now += 86_400 * 2
    host.start(stored)
    host.wait(60)
    number = "a program" if killed == 1 else f"{killed} programs"
    new = f"the kernel killed {number} of web.service for lack of memory{UNKNOWN}"
    assert host.said() == ([new] if killed else [])
