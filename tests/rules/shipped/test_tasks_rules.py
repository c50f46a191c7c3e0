"""Alerts from the probe's data: tasks blocked in the kernel, and hung programs of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.host import shipped_rules
from support.machine import disk, topology
from support.simulation import Simulation

from iowarden.collectors.model import Family
from iowarden.collectors.procfs.tasks import BlockedTask, BlockedTasks, to_json
from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.engine.engine import Engine
from iowarden.rules.incidents.model import DueNotice, Incident, IncidentMember
from iowarden.rules.notice import Reason
from iowarden.rules.notices import report, why
from iowarden.rules.severity import Severity
from iowarden.rules.topology.alert_subject import subject
from iowarden.rules.topology.device_changes import Devices

if TYPE_CHECKING:
    from iowarden.collectors.model import Labels

WRITER = BlockedTask(812, 4000, "postgres", "balance_dirty_pages", (), 0, 1_288_490_189)
QUEUED, THRESHOLD = 206_288 * 1024, 4_670_116 * 1024
"""A device with strict_limit; 4.4 % of what the host may queue."""


class Strict:
    """A host with one disk, whose writers the kernel pauses as the test sets it."""

    def __init__(self, *, uptime: float = 1000.0, laptop_mode: int = 0) -> None:
        self.machine = Simulation(uptime=uptime, laptop_mode=laptop_mode)
        self.machine.add_disk("sda", "S1")
        self.machine.memory.write(
            {
                "/sys/class/bdi/8:0/max_ratio": "100\n",
                "/sys/class/bdi/8:0/max_bytes": "4194304\n",
                "/sys/class/bdi/8:0/strict_limit": "1\n",
            },
        )
        self.host = self.machine.host

    def wait(
        self, seconds: int, *tasks: BlockedTask, queued: int = QUEUED, blocked: int | None = None
    ) -> None:
        """Let seconds pass in which root would see these tasks."""
        told = json.dumps(to_json(BlockedTasks(tasks, len(tasks))))
        self.machine.memory.write({"/.probe/tasks": told})
        self.machine.run(
            seconds,
            queued=queued,
            threshold=THRESHOLD,
            background=THRESHOLD // 2,
            blocked=len(tasks) if blocked is None else blocked,
            writes={"sda": 40_000_000},
            in_flight={"sda": 2},
        )

    def alert(self) -> Alert | None:
        """Return the alert, while it is active."""
        assert self.host.engine is not None
        alerts = [
            a for a in self.host.engine.rules.alerts() if a.name == "BdiThrottle" and a.active
        ]
        return alerts[0] if alerts else None


@pytest.fixture
def strict() -> Strict:
    """Long after boot, no task waits yet."""
    machine = Strict()
    machine.wait(6)
    return machine


def test_a_writer_that_a_strict_limit_paces_is_flow_control(strict: Strict) -> None:
    """206288 of 4670116 kB queued, a task in balance_dirty_pages: nobody else waits, no mail."""
    strict.wait(90, WRITER)
    assert strict.host.names() <= {"Freeze"}
    assert strict.host.names("warning") == set()
    assert strict.host.mails == []


OTHERS = {
    "a reader": replace(WRITER, wait_channel="folio_wait_bit_common"),
    "nobody may see where": replace(WRITER, wait_channel=""),
    "the flusher": replace(WRITER, wait_channel="rq_qos_wait", kernel=True),
}


@pytest.mark.parametrize("task", OTHERS.values(), ids=OTHERS.keys())
def test_another_wait_is_no_evidence(strict: Strict, task: BlockedTask) -> None:
    """For 40 s in D, but not a program in a function of writeback."""
    strict.wait(40, task)
    assert strict.host.names() <= {"Freeze"}
    assert strict.host.names("warning") == set()


def test_programs_that_take_turns_are_not_one_that_waits(strict: Strict) -> None:
    """Each sample has another process, or another one with the same number."""
    for turn in range(12):
        strict.wait(5, replace(WRITER, start_ticks=4000 + turn))
    assert strict.host.names() == set()


@pytest.mark.parametrize("start", [{"uptime": 10.0}, {"laptop_mode": 5}], ids=["boot", "laptop"])
def test_after_boot_and_on_a_laptop_nothing_is_concluded(start: dict[str, int]) -> None:
    """Within two minutes of the boot, or where writing is put off on purpose."""
    strict = Strict(**start)
    strict.wait(90, WRITER)
    assert strict.host.names() <= {"Freeze"}
    assert strict.host.names("warning") == set()


def test_a_machine_without_probe_is_silent_about_it() -> None:
    """Minutes of blocked tasks: no alert on a collector, no series of waiting tasks."""
    strict = Strict()
    strict.machine.run(10, queued=QUEUED, threshold=THRESHOLD, background=10**9)
    strict.machine.run(150, queued=QUEUED, threshold=THRESHOLD, background=10**9, blocked=2)
    assert strict.host.names() == set()
    assert not any(name.startswith("iowarden_tasks_waiting") for name in strict.host.signals())


# --- waiting tasks in a mail

STALL = IncidentMember(
    labels=(("alertname", "WriteStall"), ("condition", "write_stall")),
    name="WriteStall",
    severity=Severity.WARNING,
    state=AlertState.FIRING,
    since_seconds=0.0,
    summary="writers stalled",
    advice="",
    unknown="",
)


def told(*members: IncidentMember, tasks: BlockedTasks | None) -> list[str]:
    """Return the evidence of the mail about these alerts."""
    incident = Incident("abc", "host", "host", 0.0, Severity.WARNING, members=members, mails=1)
    due = DueNotice(Reason.OPENED, incident)
    notice = report.notice(due, report.Sources(float, 60.0, (), topology(disk("sda")), tasks=tasks))
    return [f"{line.source}: {line.text}" for line in notice.evidence]


def test_a_mail_about_a_stall_names_who_waits() -> None:
    """Programs by what they wrote, then threads of the kernel; what is left is counted."""
    tasks = BlockedTasks(
        (
            BlockedTask(77, 9, "kworker/u8:2", "rq_qos_wait", (), 0, 0, kernel=True),
            BlockedTask(31, 9, "tar", "", ("folio_wait_writeback",), None, None),
            WRITER,
            BlockedTask(902, 5, "java", "wb_wait_for_completion", (), 0, 4096, process=900),
            BlockedTask(32, 9, "cat", "", (), 0, 0),
            BlockedTask(33, 9, "cp", "pipe_read", (), 0, 0),
        ),
        count=9,
    )
    assert told(STALL, tasks=tasks) == [
        "tasks: postgres (pid 812) waits in balance_dirty_pages, wrote 1.2 GiB since its start",
        (
            "tasks: java (pid 900, thread 902) waits in wb_wait_for_completion,"
            " its process wrote 4 KiB since its start"
        ),
        "tasks: tar (pid 31) waits in folio_wait_writeback",
        "tasks: cat (pid 32) waits in the kernel, wrote 0 B since its start",
        "tasks: cp (pid 33) waits in pipe_read, wrote 0 B since its start",
        "tasks: 4 more tasks wait",
    ]


def test_what_a_process_wrote_is_said_once_and_not_of_each_of_its_threads() -> None:
    """MySQL: 4.7 GiB are of the process, of which each of these threads wrote a page."""
    threads = tuple(
        BlockedTask(pid, 5, "mysqld", "sleep_on_page", (), 0, 5 << 30, process=2200)
        for pid in (2271, 2272)
    )
    assert told(STALL, tasks=BlockedTasks(threads, 2)) == [
        (
            "tasks: mysqld (pid 2200, thread 2271) waits in sleep_on_page,"
            " its process wrote 5 GiB since its start"
        ),
        "tasks: mysqld (pid 2200, thread 2272) waits in sleep_on_page",
    ]


@pytest.mark.parametrize(
    ("member", "tasks"),
    [
        (STALL, None),
        (STALL, BlockedTasks(())),
        (STALL, BlockedTasks((), 3, "no probe")),
        (replace(STALL, name="FilesystemFull"), BlockedTasks((WRITER,), 1)),
        (replace(STALL, cleared_seconds=9.0), BlockedTasks((WRITER,), 1)),
    ],
)
def test_nobody_is_named_where_nobody_is_known_or_hurt(
    member: IncidentMember, tasks: BlockedTasks | None
) -> None:
    """No probe, no waiting task, a full disk, a resolved stall."""
    assert told(member, tasks=tasks) == []


def test_who_waited_is_kept_from_the_moment_of_firing() -> None:
    """The mail is sent a minute later, when the writer has ended and another one waits."""
    alert = Alert("WriteStall", STALL.labels, AlertState.FIRING, 1.0, (), 0.0)
    kept = why.observed(alert, BlockedTasks((WRITER,), 1), ["sda"], topology(disk("sda")), 5.0)
    later = BlockedTasks((BlockedTask(31, 9, "tar", "folio_wait_writeback", (), None, None),), 1)
    assert told(replace(STALL, evidence=kept), tasks=later) == [
        "diskstats: requests in flight: sda",
        "tasks: postgres (pid 812) waits in balance_dirty_pages, wrote 1.2 GiB since its start",
    ]
    full = replace(alert, name="FilesystemFull")
    assert why.observed(full, later, ["sda"], None, 5.0) == ()


@pytest.mark.parametrize("probe", [True, False])
def test_what_is_not_known_of_a_stall_depends_on_the_probe(*, probe: bool) -> None:
    """If the evidence names the waiting tasks, the mail does not list them as unknown."""
    strict = Strict()
    strict.machine.run(10, queued=QUEUED, threshold=THRESHOLD, background=THRESHOLD // 2)
    answer = json.dumps(to_json(BlockedTasks((WRITER,) * 3, 3)))
    strict.machine.memory.write({"/.probe/tasks": answer} if probe else {})
    strict.machine.run(40, queued=THRESHOLD + 4096, threshold=THRESHOLD, blocked=3)
    assert strict.host.engine is not None
    alert = next(a for a in strict.host.engine.rules.alerts() if a.name == "WriteStall")
    unknown = alert.annotation("unknown")
    assert ("Who waits is not known: the privileged probe" in unknown) is not probe
    assert ("the evidence lists some of them" in unknown) is probe


# --- a program of the probe that hangs

STUCK: Labels = (
    ("controller", "host2"),
    ("device", "sdb"),
    ("pid", "4711"),
    ("program", "smartctl"),
)


class Program:
    """The shipped rules over the program's metrics of its probe."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0
        self.engine = Engine(shipped_rules(), (), self.now)

    def say(self, metric: str, *series: tuple[Labels, float]) -> dict[str, Alert]:
        """Publish all series of a metric, let rules be due, return the active alerts by name."""
        family = Family(metric, "gauge", "Said in a test.")
        samples = [(metric, labels, value) for labels, value in series]
        self.engine.hub.publish(metric, (family,), samples, self.now)
        self.now += 15.0
        self.engine.rules.evaluate(self.now)
        return {alert.name: alert for alert in self.engine.rules.alerts() if alert.active}


def test_a_program_that_survives_its_kill_is_reported_at_once_as_a_matter_of_its_disk() -> None:
    """A smartctl in D for 3 s: a warning in the incident of sdb's serial number, until it ends."""
    program = Program()
    alert = program.say("iowarden_probe_program_stuck_seconds", (STUCK, 3.0))["ProbeProgramStuck"]
    assert alert.state is AlertState.FIRING
    assert alert.label("severity") == "warning"
    machine = topology(disk("sdb", serial="S2", vendor="ACME", model="HDD"))
    assert subject(machine, Devices(), alert.labels).key == "disk ACME HDD S2"
    assert alert.annotation("summary") == (
        "smartctl (pid 4711) has been stuck in the kernel for 3 s, although killed, on sdb"
    )
    assert "cat /proc/4711/stack" in alert.annotation("advice")
    assert alert.annotation("advice_steps") == "log state text cable controller"
    for _ in range(21):
        left = program.say("iowarden_probe_program_stuck_seconds")
    assert left == {}


def test_a_program_at_a_controller_is_the_hosts_matter() -> None:
    """No block device is known of it: nothing is made up."""
    program = Program()
    labels = (("controller", "megaraid"), ("pid", "4712"), ("program", "storcli"))
    alert = program.say("iowarden_probe_program_stuck_seconds", (labels, 0.0))["ProbeProgramStuck"]
    assert subject(None, Devices(), alert.labels).key == ""
    assert alert.annotation("summary").endswith("for 0 s, although killed, on megaraid")
    assert "/sys/block" not in alert.annotation("advice")
    assert "a disk or controller (megaraid)" in alert.annotation("description")


def test_a_probe_that_is_away_for_minutes_is_reported() -> None:
    """Idle is up, a restart is short; 5 minutes without an answer is a warning about iowarden."""
    program = Program()
    for value, times in ((1.0, 30), (0.0, 20)):
        for _ in range(times):
            assert "ProbeDown" not in _firing(program.say("iowarden_probe_up", ((), value)))
    firing = _firing(program.say("iowarden_probe_up", ((), 0.0)))
    assert firing["ProbeDown"].label("severity") == "warning"
    assert subject(None, Devices(), firing["ProbeDown"].labels).key == "iowarden"
    assert _firing(program.say("iowarden_probe_up", ((), 1.0))) == {}


def _firing(alerts: dict[str, Alert]) -> dict[str, Alert]:
    return {name: alert for name, alert in alerts.items() if alert.state is AlertState.FIRING}
