"""Self-tests through the real probe and a real control socket; a script replaces smartctl."""

from __future__ import annotations

import functools
import json
import queue
import threading
import time
from datetime import UTC
from typing import TYPE_CHECKING, Any

import pytest
from support.probe import DEADLINE_SECONDS, Probe
from support.program import CommandResult
from support.program import run as run_command

from iowarden.collectors import registry
from iowarden.collectors.block.block_devices import Device, Topology
from iowarden.collectors.block.diskstats import BlockIo
from iowarden.collectors.block.udev import BlockSignature
from iowarden.collectors.machine import Machine
from iowarden.collectors.model import Outcome, Reading
from iowarden.collectors.smart import selftest
from iowarden.collectors.smart.discovery import Discovered
from iowarden.collectors.smart.drive import AccessMethod
from iowarden.collectors.smart.options import Options
from iowarden.collectors.smart.selftest import SelfTestOutcome
from iowarden.collectors.zfs.vdevs import PoolDevices, parse_pool
from iowarden.daemon.check import findings
from iowarden.daemon.check.report import Level
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.control import control_socket, listen
from iowarden.daemon.polling import smart
from iowarden.daemon.probe_client.client import Client
from iowarden.daemon.probe_client.connect import connector
from iowarden.daemon.service import selftest_runner
from iowarden.daemon.transition_log import TransitionLog
from iowarden.rules import calendar
from iowarden.rules.engine.engine import Engine
from iowarden.rules.selftest_schedule import ScheduleGroup, refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SMARTCTL = r"""
echo "$*" >> "$0.log"
case "$*" in *-V) echo '{"smartctl":{"version":[7,3]}}'; exit;; esac
kind=${*##*-d }
kind=${kind%% *}
name=disk${kind##*,}
say() { printf '{"json_format_version":[1,0],"smartctl":{"version":[7,3],"exit_status":%s,
"output":["smartctl 7.3 2022-02-28 r5338","","%s"]}}' "$1" "$2"; exit "$1"; }
case "$*" in
*' -t '*)
  [ -e "$0.refuse-$name" ] && say 4 "Long offline self test failed [unsupported scsi opcode]"
  touch "$0.runs-$name"
  say 0 "Testing has begun.";;
*' -X '*)
  [ -e "$0.refuse-$name" ] && say 4 "Abort failed"
  rm -f "$0.runs-$name"
  say 0 "Self-testing aborted!";;
esac
[ -e "$0.asleep-$name" ] && [ -z "${*##*standby*}" ] && { printf '{"json_format_version":[1,0],
"smartctl":{"version":[7,3],"exit_status":3,"messages":[
{"string":"Device is in STANDBY mode, exit(3)","severity":"information"}]},
"power_mode":{"ata_value":0,"ata_string":"STANDBY"}}'; exit 3; }
value=0
[ -e "$0.runs-$name" ] && value=249
log=$(cat "$0.log-$name" 2>/dev/null)
printf '%s' '{"json_format_version":[1,0],
"smartctl":{"version":[7,3],"argv":["smartctl"],"exit_status":0},
"device":{"name":"/dev/bus/0","type":"sat+megaraid","protocol":"ATA"},
"model_name":"ACME HDD 4000","serial_number":"SERIAL-'$name'",
"user_capacity":{"blocks":7814037168,"bytes":4000787030016},"rotation_rate":7200,
"smart_support":{"available":true,"enabled":true},
"smart_status":{"passed":true},
"ata_smart_data":{"self_test":{"status":{"value":'$value'},
"polling_minutes":{"short":2,"extended":480}},"capabilities":{"self_tests_supported":true}},
"ata_smart_self_test_log":{"standard":{"revision":1,"table":['"$log"']}},
"temperature":{"current":30},"power_on_time":{"hours":1000}}'
"""
"""A disk behaves as files state: 'smartctl.refuse-disk0', '.asleep-disk0', '.log-disk0'; while
'.runs-disk0' exists, a test runs."""

FAILED = (
    '{"type":{"value":2,"string":"Extended offline"},"status":{"value":121,'
    '"string":"Completed: read failure","passed":false},"lifetime_hours":1000,"lba":4711}'
)
PASSED = (
    '{"type":{"value":1,"string":"Short offline"},"status":{"value":0,'
    '"string":"Completed without error","passed":true},"lifetime_hours":1000}'
)
RESILVERING = """\
  pool: tank
 state: DEGRADED
  scan: resilver in progress since Sun Nov 22 02:12:20 2026
config:

\tNAME        STATE     READ WRITE CKSUM
\ttank        DEGRADED     0     0     0
\t  /dev/sdb  DEGRADED     0     0     0

errors: No known data errors
"""
ZFS_LABEL = {"sdb": BlockSignature("zfs_member", "tank")}
SUNDAY = 1_795_316_400.0
"""2026-11-22 03:00 UTC."""
WEEKLY = ScheduleGroup(("*",), {"long": calendar.parse("Sun 03:00")})


class Lines:
    """A log that stores messages."""

    lost_total = 0

    def __init__(self) -> None:
        self.lines: list[str] = []

    def send(self, _kind: object, _priority: int, message: str, **_: object) -> None:
        """Store a message."""
        self.lines.append(message)


class FakeMachine:
    """Three disks behind two RAID controllers; a clock that the test advances."""

    def __init__(self, directory: Path) -> None:
        self.probe = Probe(directory)
        self.program = self.probe.program("smartctl", SMARTCTL)
        self.probe.start()
        self.client = Client(connector(str(directory / "socket")), time.monotonic)
        self.root = functools.partial(Machine, probe=self.client.request)
        self.now = SUNDAY - 3600.0
        self.io = 0
        self.pool = ""
        targets = tuple(
            AccessMethod(f"/dev/bus/{host}", f"megaraid,{n}", "", f"host{host}", "megaraid_sas")
            for n, host in enumerate((0, 0, 1))
        )
        self.poller = smart.SmartPoller(Options(), lambda: self.now, lambda *_: Discovered(targets))
        self.looks = self.root("/")
        self.log = Lines()
        self.events: queue.SimpleQueue[selftest_runner.SelfTestAnswer] = queue.SimpleQueue()
        self.kept = 0
        self.tests = self._start()
        self.tests.restore({}, self.now)

    def _start(self) -> selftest_runner.SelfTestRunner:
        names = {"smart", "block", "md", "diskstats", "zfs_vdevs"}
        sources = [source for source in registry.SOURCES if source.name in names]
        self.engine = Engine([], sources, self.now)
        telling = TransitionLog(self.log, lambda: self.now, lambda: self.now)  # type: ignore[arg-type]
        return selftest_runner.SelfTestRunner(
            self.engine,
            telling,
            self.root,
            self.poller.poll_next,
            self.events.put,
            realtime=lambda at: at,
            zone=UTC,
            keep=self._keep,
        )

    def _keep(self) -> None:
        self.kept += 1

    def restarted(self) -> None:
        """Restart with the persisted state."""
        runs = self.tests.runs
        groups = self.tests.groups
        self.tests = self._start()
        self.tests.groups = groups
        self.tests.restore(runs, self.now)

    def does(self, disk: str, what: str, text: str | None = "") -> None:
        """Set a behaviour of a disk, or with None remove it."""
        path = self.program.with_name(f"smartctl.{what}-{disk}")
        if text is None:
            path.unlink()
        else:
            path.write_text(text)

    def told(self, action: str) -> list[str]:
        """The disks that were told to do something."""
        lines = self.program.with_name("smartctl.log").read_text().splitlines()
        told = [line.partition("megaraid,")[2] for line in lines if f" {action} " in line]
        return [f"disk{words.partition(' ')[0]}" for words in told]

    def observe(self) -> None:
        """Poll the drives."""
        self.poller.read(self.looks)
        assert self.poller.settled(DEADLINE_SECONDS)
        volumes = {
            name: Device(
                name, "8:0", (), (), (), True, 1, True, "M", "V", None, None, 30.0, host, None, None
            )
            for name, host in (("sda", "host0"), ("sdb", "host1"))
        }
        values: dict[str, Any] = {
            "smart": self.poller.read(self.looks),
            "block": Topology(volumes, ("sda", "sdb"), signatures=ZFS_LABEL),
            "md": {},
            "zfs_vdevs": {"tank": PoolDevices(parse_pool("tank", self.pool))} if self.pool else {},
            "diskstats": {
                "sda": BlockIo("sda", 8, 0, (0,) * 11),
                "sdb": BlockIo("sdb", 8, 16, (*(0,) * 9, self.io, 0)),
            },
        }
        self.engine.observe(
            [Reading(name, Outcome.OK, self.now, 0.0, value) for name, value in values.items()],
            self.now,
            self.now,
        )

    def later(self, seconds: float, step: float = 60.0, busy_ratio: float = 0.0) -> None:
        """Advance the clock, a minute at a time; the second volume is this busy."""
        for _ in range(int(seconds // step)):
            self.now += step
            self.io += int(1000 * step * busy_ratio)
            self.observe()
            self.tests.step(self.now)
            self.take()

    def take(self) -> None:
        """Take the results of threads, and wait for running ones."""
        while any(t.name == "self-test" for t in threading.enumerate()) or not self.events.empty():
            try:
                event = self.events.get(timeout=0.05)
            except queue.Empty:
                continue
            self.tests.take(event, self.now)

    def outcome(self, disk: str, kind: str = "long") -> str:
        """Return the state of a test."""
        return self.tests.runs[f"SERIAL-{disk}"][kind].outcome.value

    def ask(self, name: str, **arguments: object) -> dict[str, Any]:
        """Return the reply to a user: a document, or an error."""
        got: list[dict[str, Any]] = []
        self.tests.answer(
            control_socket.ControlCommand(name, arguments, "alice (uid 7)", got.append), self.now
        )
        (reply,) = got
        return reply

    def close(self) -> None:
        """Leave nothing running."""
        self.take()
        self.client.close(DEADLINE_SECONDS)
        self.probe.close()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[FakeMachine]:
    """A machine with a probe."""
    found = FakeMachine(tmp_path)
    yield found
    found.close()


def test_scheduled_tests_run_one_after_the_other_at_a_controller(machine: FakeMachine) -> None:
    """Three disks are due at once: of the two at one controller one waits for the other."""
    machine.tests.groups = (WEEKLY,)
    machine.later(1800)
    assert machine.told("-t") == []
    machine.later(3600)
    assert sorted(machine.told("-t")) == ["disk0", "disk2"]
    reasons = {run.disk: run.postponed for run in machine.ask("selftest status")["answer"].runs}
    assert reasons["SERIAL-disk1"] == "disk SERIAL-disk0 of controller host0 is being tested"
    machine.does("disk0", "log", PASSED.replace("Short", "Extended"))
    machine.does("disk0", "runs", None)
    machine.later(600)
    assert machine.outcome("disk0") == "passed"
    assert machine.told("-t")[2:] == ["disk1"]
    told = {
        (name, dict(labels)["disk"]): v for name, labels, v in machine.tests.samples(machine.now)
    }
    name = "iowarden_smart_self_test"
    assert (f"{name}_running", "SERIAL-disk0") not in told
    assert told[f"{name}_running", "SERIAL-disk1"] == 1.0
    assert f"{name}_last_passed_timestamp_seconds" in {metric for metric, _ in told}


def test_a_failed_test_names_the_sector(machine: FakeMachine) -> None:
    """It is in the drive's log; it is logged, and shown."""
    machine.later(60)
    assert "answer" in machine.ask("selftest start", disk="SERIAL-disk2", kind="long")
    machine.take()
    machine.does("disk2", "log", FAILED)
    machine.does("disk2", "runs", None)
    machine.later(600)
    assert machine.outcome("disk2") == "failed"
    assert machine.log.lines[-1] == (
        "disk SERIAL-disk2: long self-test failed: Completed: read failure, first bad sector 4711"
    )


def test_a_sleeping_disk_is_not_woken_by_the_schedule_but_by_a_person(machine: FakeMachine) -> None:
    """It is in standby since its last poll: the test is postponed, no '-t' reaches it."""
    machine.tests.groups = (ScheduleGroup(("SERIAL-disk2",), WEEKLY.calendars),)
    machine.later(3540)
    machine.does("disk2", "asleep")
    machine.later(1800)
    assert machine.told("-t") == []
    (run,) = machine.ask("selftest status", disk="SERIAL-disk2")["answer"].runs
    assert run.postponed == "it is asleep, and is not woken up for a self-test"
    assert run.outcome == "none"
    machine.ask("selftest start", disk="SERIAL-disk2", kind="short")
    machine.take()
    assert machine.told("-t") == ["disk2"]


def test_a_busy_disk_is_tested_when_it_has_less_to_do(machine: FakeMachine) -> None:
    """80 % for an hour, then little."""
    machine.tests.groups = (ScheduleGroup(("SERIAL-disk2",), WEEKLY.calendars),)
    machine.later(7200, busy_ratio=0.8)
    (run,) = machine.ask("selftest status", disk="SERIAL-disk2")["answer"].runs
    assert run.postponed == "sdb is 80 % busy"
    assert machine.told("-t") == []
    machine.later(600, busy_ratio=0.1)
    assert machine.told("-t") == ["disk2"]


def test_a_disk_below_a_pool_that_resilvers_is_tested_when_it_is_over(machine: FakeMachine) -> None:
    """The pool is made of the volume of the disk's controller."""
    machine.tests.groups = (ScheduleGroup(("SERIAL-disk2",), WEEKLY.calendars),)
    machine.pool = RESILVERING
    machine.later(7200)
    (run,) = machine.ask("selftest status", disk="SERIAL-disk2")["answer"].runs
    assert run.postponed == "pool tank is in resilver"
    assert machine.told("-t") == []
    machine.pool = ""
    machine.later(60)
    assert machine.told("-t") == ["disk2"]


def test_what_a_drive_refuses_is_reported_once_with_what_reads_it_instead(
    machine: FakeMachine,
) -> None:
    """Behind a controller that translates: no retry before the next date."""
    machine.tests.groups = (ScheduleGroup(("SERIAL-disk2",), WEEKLY.calendars),)
    machine.does("disk2", "refuse")
    machine.later(3600 + 300)
    machine.later(2 * 86_400, step=3600.0)
    assert machine.told("-t") == ["disk2"]
    (line,) = [line for line in machine.log.lines if "refused" in line]
    assert "unsupported scsi opcode" in line
    assert "sync_action" in line
    series = [s for s in machine.tests.samples(machine.now) if s[0].endswith("_refused")]
    assert [dict(labels)["disk"] for _, labels, _ in series] == ["SERIAL-disk2"]
    (what, instead) = refused(machine.tests.runs["SERIAL-disk2"])
    assert what.startswith("long self-test refused: ")
    assert "unsupported scsi opcode" in what
    assert "sync_action" in instead
    assert refused(machine.tests.runs.get("SERIAL-disk0", {})) == ()


def test_a_person_cannot_test_two_that_may_be_one_array_by_mistake(machine: FakeMachine) -> None:
    """Refused with the reason, unless '--force'; a second one on a disk is refused always."""
    machine.later(60)
    machine.ask("selftest start", disk="SERIAL-disk0", kind="long")
    machine.take()
    machine.later(120)
    error = machine.ask("selftest start", disk="SERIAL-disk1", kind="short")["error"]
    assert "disk SERIAL-disk0 of controller host0 is being tested" in error
    assert "--force" in error
    again = machine.ask("selftest start", disk="SERIAL-disk0", kind="short", force=True)["error"]
    assert "a self-test is running" in again
    assert "answer" in machine.ask("selftest start", disk="SERIAL-disk1", kind="short", force=True)
    machine.take()
    assert machine.told("-t") == ["disk0", "disk1"]
    for arguments in (
        {"disk": "SERIAL-disk2", "kind": "conveyance"},
        {"disk": "SERIAL-disk2", "kind": "offline"},
        {"disk": "sdx", "kind": "long"},
        {},
    ):
        assert "error" in machine.ask("selftest start", **arguments)


def test_a_test_is_aborted_by_whom_and_not_begun_again(machine: FakeMachine) -> None:
    """One that iowarden started; then one that another program started; then none runs."""
    machine.tests.groups = (ScheduleGroup(("SERIAL-disk2",), WEEKLY.calendars),)
    machine.later(3600 + 300)
    machine.does("disk2", "refuse")
    machine.ask("selftest abort", disk="SERIAL-disk2")
    machine.take()
    assert "could not be aborted: Abort failed" in machine.tests.runs["SERIAL-disk2"]["long"].text
    assert machine.outcome("disk2") == "running"
    machine.does("disk2", "refuse", None)
    machine.ask("selftest abort", disk="SERIAL-disk2")
    machine.take()
    assert machine.outcome("disk2") == "aborted"
    assert machine.log.lines[-1].endswith("aborted by alice (uid 7)")
    machine.later(86_400, step=3600.0)
    assert machine.told("-t") == ["disk2"]
    assert "no self-test is running" in machine.ask("selftest abort", disk="SERIAL-disk2")["error"]
    machine.does("disk2", "runs")
    machine.later(7200, step=1800.0)
    first = machine.ask("selftest status", disk="SERIAL-disk2")["answer"].runs[0]
    assert (first.kind, first.text) == ("", "started by another program")
    assert "answer" in machine.ask("selftest abort", disk="SERIAL-disk2")


def test_a_running_test_is_followed_over_a_restart(machine: FakeMachine) -> None:
    """iowarden restarts meanwhile: the result is found, no test starts twice."""
    machine.tests.groups = (ScheduleGroup(("SERIAL-disk2",), WEEKLY.calendars),)
    machine.later(3600 + 300)
    assert machine.outcome("disk2") == "running"
    machine.restarted()
    machine.later(1200)
    assert machine.outcome("disk2") == "running"
    machine.does("disk2", "log", PASSED.replace("Short", "Extended"))
    machine.does("disk2", "runs", None)
    machine.later(600)
    assert machine.outcome("disk2") == "passed"
    assert machine.told("-t") == ["disk2"]


def test_without_what_was_kept_nothing_begins(machine: FakeMachine) -> None:
    """state.db cannot be read: whether a test was run is unknown."""
    machine.tests = machine._start()
    machine.tests.groups = (WEEKLY,)
    machine.later(7200)
    assert machine.told("-t") == []


def test_the_command_line_waits_for_the_result(machine: FakeMachine, tmp_path: Path) -> None:
    """'selftest start --wait' over a real socket: 0 passed, 1 failed, 2 refused or unknown disk."""
    machine.later(60)
    commands: queue.SimpleQueue[control_socket.ControlCommand] = queue.SimpleQueue()
    directory = tmp_path / "control"
    directory.mkdir()
    path = str(directory / listen.FILE_NAME)
    server = control_socket.Control(listen.bind(path), commands.put, print, remove=path)

    def run(*words: str, log: str = "") -> tuple[int, str]:
        """Run a command to its end, and reply meanwhile; a started test ends with this outcome."""
        said: list[CommandResult] = []
        line = ("selftest", *words, "--state-directory", str(directory))
        thread = threading.Thread(target=lambda: said.append(run_command(*line)))
        thread.start()
        end = time.monotonic() + DEADLINE_SECONDS
        while thread.is_alive() and time.monotonic() < end:
            try:
                command = commands.get(timeout=0.05)
            except queue.Empty:
                continue
            machine.later(300)
            machine.tests.answer(command, machine.now)
            if log and machine.program.with_name("smartctl.runs-disk2").exists():
                machine.does("disk2", "log", log)
                machine.does("disk2", "runs", None)
        thread.join(DEADLINE_SECONDS)
        return said[0].returncode, said[0].stderr + said[0].stdout

    try:
        status, text = run("start", "SERIAL-disk2")
        assert (status, "running" in text) == (0, True)
        status, text = run("abort", "SERIAL-disk2")
        assert (status, "aborted by" in text) == (0, True)
        status, text = run("start", "SERIAL-disk2", "short", "--wait", log=PASSED)
        assert (status, text.splitlines()[-1]) == (
            0,
            "disk SERIAL-disk2: short self-test: passed: Completed without error",
        )
        status, text = run("start", "SERIAL-disk2", "long", "--wait", log=f"{FAILED},{PASSED}")
        assert (status, "LBA of first error 4711" in text) == (1, True)
        machine.does("disk2", "refuse")
        status, text = run("start", "SERIAL-disk2", "--wait")
        assert (status, "refused" in text) == (2, True)
        assert run("start", "nothing", "--wait")[0] == 2
        status, text = run("status")
        assert status == 0
        assert "no self-tests are scheduled" in text
        status, text = run("status", "--json")
        assert {each["disk"] for each in json.loads(text)["runs"]} == {"SERIAL-disk2"}
    finally:
        server.close()


def test_a_machine_without_a_schedule_is_advised_of_one(machine: FakeMachine) -> None:
    """The proposed line is valid in the configuration; with a schedule there is no proposal."""
    machine.observe()
    (finding,) = findings.of_self_tests(parse_config("", "c.yaml"), machine.engine)
    assert (finding.level, finding.topic) == (Level.INFO, "self-tests")
    assert "none are scheduled for 3 drives; without them, bad sectors that no" in finding.text
    line = finding.text.split("'")[1]
    settings = parse_config(line, "c.yaml")
    assert settings.self_tests[0].calendars.keys() == {"short", "long"}
    assert list(findings.of_self_tests(settings, machine.engine)) == []


@pytest.mark.parametrize(
    ("status", "output", "said"),
    [
        (
            0,
            "Testing has begun.\nPlease wait 2 minutes for test to complete.",
            SelfTestOutcome.DONE,
        ),
        (
            0,
            "Short Background Self Test has begun\nUse smartctl -X to abort test",
            SelfTestOutcome.DONE,
        ),
        (4, "Self-test has begun", SelfTestOutcome.DONE),
        (
            4,
            "Can't start self-test without aborting current test (90% remaining),",
            SelfTestOutcome.RUNS,
        ),
        (
            4,
            "Long (extended) offline self test failed [unsupported scsi opcode]",
            SelfTestOutcome.REFUSED,
        ),
        (0, "ErrMsg: Drive 2 Is Not Available", SelfTestOutcome.REFUSED),
        (1, "NVMe self-tests are not supported", SelfTestOutcome.REFUSED),
        (1, "/dev/disk0: Unable to detect device type", SelfTestOutcome.FAILED),
        (2, "Smartctl open device: /dev/disk0 failed: No such device", SelfTestOutcome.FAILED),
        (None, "", SelfTestOutcome.FAILED),
        (0, "", SelfTestOutcome.REFUSED),
    ],
)
def test_what_smartctl_says_to_a_test_is_told_apart(
    status: int | None, output: str, said: SelfTestOutcome
) -> None:
    """Started, another one running, refused, or the drive not accessed; as JSON and as text."""
    document = {"smartctl": {"output": ["smartctl 7.3", "", *output.splitlines()]}}
    for text in (json.dumps(document), f"smartctl 7.3 2022\n\n{output}\n"):
        value = {"status": status, "signal": 9, "stdout": text, "stderr": ""}
        reply = selftest.classify_reply(json.dumps(value))
        assert reply.outcome is said
        assert output.partition("\n")[0] in reply.text or said is SelfTestOutcome.DONE


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"status": "0"}'])
def test_what_is_no_answer_of_the_probe_is_a_failure(content: str) -> None:
    """Every outcome has a reply."""
    assert selftest.classify_reply(content).outcome is SelfTestOutcome.FAILED
