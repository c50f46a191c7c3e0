"""Surface scans through the probe's verb, on a disk with faults of its own and a played clock."""

from __future__ import annotations

import errno
import functools
import queue
import threading
from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING, Any

import pytest
from support.memory import Memory
from support.surface import SurfaceDisk

from iowarden.collectors import registry
from iowarden.collectors.block.block_devices import Device, topology
from iowarden.collectors.block.diskstats import BlockIo
from iowarden.collectors.block.surface import DEADLINE_SECONDS
from iowarden.collectors.event import StorageEvent
from iowarden.collectors.filesystem.mountinfo import Mounts, parse_mountinfo
from iowarden.collectors.model import DeadlineError, Outcome, Reading
from iowarden.collectors.smart.drive import (
    AccessMethod,
    Disk,
    Disks,
    Drive,
    PollResult,
    Protocol,
    ReadStatus,
)
from iowarden.daemon.control import control_socket
from iowarden.daemon.service import persisted_state, scan_runner
from iowarden.daemon.transition_log import TransitionLog
from iowarden.rules import calendar
from iowarden.rules.engine.engine import Engine
from iowarden.rules.scan import plan
from iowarden.rules.scan.plan import PIECE_BYTES
from iowarden.rules.selftest_schedule import ScheduleGroup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

SUNDAY = 1_795_316_400.0
"""2026-11-22 03:00 UTC."""
WEEKLY = ScheduleGroup(("*",), {"start": calendar.parse("Sun 03:00")})
PIECES = 40
MOUNTED = "36 1 8:0 / /srv rw shared:1 - ext4 /dev/sda rw\n"
SOURCES = ("block", "smart", "diskstats", "mounts", "md")


class Lines:
    """A log that stores messages."""

    lost_total = 0

    def __init__(self) -> None:
        self.lines: list[str] = []

    def send(self, _kind: object, _priority: int, message: str, **_: object) -> None:
        """Store a message."""
        self.lines.append(message)


class ProbedMachine(Memory):
    """The machine as the thread of a batch sees it: its power supply, and the probe."""

    def __init__(self, machine: ScannedMachine) -> None:
        super().__init__(machine.files)
        self._machine = machine

    def query_probe(self, verb: str, *arguments: str, deadline_seconds: float = 30.0) -> str:
        """Answer by the probe's verb, unless the machine hangs."""
        return self._machine.probe(verb, arguments, deadline_seconds)


class ScannedMachine:
    """A machine with one disk, 'sda' with serial number SERIAL1, and its scans."""

    def __init__(self, directory: Path) -> None:
        self.disk = SurfaceDisk(directory, PIECES * PIECE_BYTES)
        self.now = SUNDAY - 3600.0
        self.log = Lines()
        self.events: queue.SimpleQueue[scan_runner.ScanAnswer] = queue.SimpleQueue()
        self.asked: list[str] = []
        self.files: dict[str, str | bytes | None] = {}
        self.error: Exception | None = None
        self.mounts = ""
        self.status = ReadStatus.READ
        self.size_bytes = self.disk.size_bytes
        self.present = True
        self.polled = True
        self.drive = Drive(Protocol.SCSI, rotation_rpm=0, read_recovery_seconds=7.0)
        self.polled_seconds = self.now
        self.beside = ""
        """The adapter of another disk, 'sdb', if there is one."""
        self.stored: list[plan.Scans] = []
        self.reported: list[StorageEvent] = []
        self.runner = self._start()
        self.runner.restore({}, self.now)

    def _start(self) -> scan_runner.ScanRunner:
        sources = [source for source in registry.SOURCES if source.name in SOURCES]
        self.engine = Engine([], sources, self.now)
        transition_log = TransitionLog(self.log, lambda: self.now, lambda: self.now)  # type: ignore[arg-type]
        runner = scan_runner.ScanRunner(
            self.engine,
            transition_log,
            functools.partial(ProbedMachine, self),
            self.asked.extend,
            self.events.put,
            realtime=lambda at: at,
            zone=UTC,
            keep=lambda: self.stored.append(self.runner.scans),
        )
        runner.report = lambda event, _: self.reported.append(event)
        return runner

    def probe(self, verb: str, arguments: Sequence[str], deadline_seconds: float) -> str:
        """Answer a batch; its time passes for the machine, too."""
        if self.error is not None:
            raise self.error
        self.disk.now = self.now
        text = self.disk.probe(verb, arguments, deadline_seconds)
        self.now = max(self.now, self.disk.now)
        return text

    def observe(self) -> None:
        """Read the sources that scans depend on."""
        target = AccessMethod("/dev/sda", device="sda")
        polled = PollResult(target, self.status, "", self.polled_seconds, self.drive)
        sda = Device(
            "sda", "8:0", (), (), (), True, self.size_bytes, True, "M", "V", "SERIAL1", None, 30.0,
            "host0", None, None, port="ata3",
        )  # fmt: skip
        drives = {"SERIAL1": Disk("SERIAL1", polled, device="sda")} if self.polled else {}
        devices = {"sda": sda} if self.present else {}
        if self.beside:
            devices["sdb"] = replace(
                sda, name="sdb", device_number="8:16", serial="SERIAL2", host=self.beside, port=None
            )
            other = replace(polled, target=AccessMethod("/dev/sdb", device="sdb"))
            drives["SERIAL2"] = Disk("SERIAL2", other, device="sdb")
        counters = tuple(map(int, (self.disk.directory / "stat").read_text().split()))
        values: dict[str, Any] = {
            "smart": Disks(drives),
            "block": topology(devices),
            "md": {},
            "mounts": Mounts(tuple(parse_mountinfo(self.mounts)), None),
            "diskstats": {"sda": BlockIo("sda", 8, 0, counters)},
        }
        self.engine.observe(
            [Reading(name, Outcome.OK, self.now, 0.0, value) for name, value in values.items()],
            self.now,
            self.now,
        )

    def second(self, *, poll: bool = True) -> None:
        """One turn of the loop, with what the thread of a batch answers."""
        self.now += 1.0
        self.disk.now = self.now - 1.0
        self.disk.pass_time(1.0)
        if poll and self.asked:
            self.asked.clear()
            self.polled_seconds = self.now
        self.observe()
        self.runner.step(self.now)
        for thread in [t for t in threading.enumerate() if t.name == "scan"]:
            thread.join()
        while not self.events.empty():
            self.runner.take(self.events.get(), self.now)

    def until(self, state: str, seconds: int = 600) -> None:
        """Let time pass until the scan is in a state."""
        for _ in range(seconds):
            self.second()
            if self.scan.state == state:
                return
        raise AssertionError(f"{self.scan}: expected {state}; {self.log.lines}")

    @property
    def scan(self) -> plan.Scan:
        """The scan of the disk."""
        return self.runner.scans["SERIAL1"]

    def killed(self) -> None:
        """Restart with what was stored last, as after SIGKILL; the disk remembers nothing."""
        kept = persisted_state.PersistedState(scans=self.stored[-1] if self.stored else {})
        after, problems = persisted_state.read(persisted_state.documents(kept), self.now)
        assert problems == {}
        groups = self.runner.groups
        self.runner = self._start()
        self.runner.groups = groups
        self.runner.restore(after.scans, self.now)

    def ask(self, name: str, **arguments: object) -> dict[str, Any]:
        """Return the reply to a user: a document, or an error."""
        got: list[dict[str, Any]] = []
        self.runner.answer(
            control_socket.ControlCommand(name, arguments, "alice (uid 7)", got.append), self.now
        )
        (reply,) = got
        return reply

    def start(self, **arguments: object) -> Any:  # noqa: ANN401 - a document
        """Start a scan by hand."""
        self.second()
        (line,) = self.ask("scan start", disk="sda", **arguments)["answer"].scans
        return line


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[ScannedMachine]:
    """A machine with a healthy disk."""
    found = ScannedMachine(tmp_path)
    found.second()
    return found


def test_a_requested_scan_reads_the_whole_disk_once(machine: ScannedMachine) -> None:
    """From the command to the end: its lines in the log, its place in the status."""
    line = machine.start()
    assert (line.state, line.who, line.progress_ratio) == ("running", "alice (uid 7)", 0.0)
    machine.until("complete")
    assert sorted(machine.disk.reads) == [(n * PIECE_BYTES, PIECE_BYTES) for n in range(PIECES)]
    assert machine.log.lines == [
        "disk SERIAL1: scan started, requested by alice (uid 7)",
        "disk SERIAL1: scan complete",
    ]
    (line,) = machine.ask("scan status")["answer"].scans
    assert (line.state, line.progress_ratio, line.bad_ranges) == ("complete", 1.0, ())
    assert line.completed_seconds == machine.scan.completed_seconds


def test_kill_9_in_the_middle_resumes_where_it_was_stored(machine: ScannedMachine) -> None:
    """At most a minute is read again; nothing is left out."""
    machine.disk.read_seconds = 0.5
    machine.start()
    for _ in range(20):
        machine.second()
    before = machine.scan.next
    assert 0 < before < plan.positions(machine.disk.size_bytes)
    machine.runner._store()
    machine.killed()
    assert machine.scan.next == before
    machine.until("complete")
    assert {at for at, _ in machine.disk.reads} == {n * PIECE_BYTES for n in range(PIECES)}


def test_a_bad_block_is_located_to_4_kib_and_told_once(machine: ScannedMachine) -> None:
    """Four failed reads of half a second, then the rest of the disk."""
    machine.disk.bad_seconds = 0.5
    machine.disk.spoil(5 * PIECE_BYTES + 70_000, error=errno.ENODATA)
    machine.start()
    machine.until("complete")
    block = (5 * PIECE_BYTES + 70_000) // 4096 * 4096
    assert machine.scan.bad == ((block, 4096),)
    assert machine.disk.failed == 4
    lines = [line for line in machine.log.lines if "cannot be read" in line]
    assert lines == [f"disk SERIAL1: bytes {block} to {block + 4095} of sda cannot be read"]
    (event,) = machine.reported
    assert (event.kind, event.device) == ("scan_bad_range", "sda")
    assert (event.sector, event.sectors) == (block // 512, 8)
    assert machine.log.lines[-1] == "disk SERIAL1: scan complete, 1 bad ranges"


def test_a_slow_read_ends_all_scans_at_the_adapter_for_an_hour(machine: ScannedMachine) -> None:
    """A drive that retries for 7 s is on its way to a reset of the adapter."""
    machine.disk.spoil(3 * PIECE_BYTES)
    machine.start()
    for _ in range(120):
        machine.second()
    assert machine.disk.failed == 1
    (line,) = machine.ask("scan status")["answer"].scans
    assert line.waits == "a read at its adapter took too long, for an hour"
    assert any("took 7 s; no disk at its adapter" in line for line in machine.log.lines)
    machine.now += 3600.0
    for _ in range(120):
        machine.second()
    assert machine.disk.failed == 2


@pytest.mark.parametrize(("adapter", "held"), [("host0", True), ("host1", False)])
def test_no_disk_at_the_adapter_is_scanned_for_an_hour_after_a_slow_read(
    adapter: str, held: bool, machine: ScannedMachine
) -> None:
    """A reset would reach the other disks of the adapter as well; those at another one go on."""
    machine.beside = adapter
    machine.disk.spoil(3 * PIECE_BYTES)
    machine.start()
    for _ in range(120):
        machine.second()
    assert machine.disk.failed == 1
    machine.ask("scan stop", disk="sda")
    machine.ask("scan start", disk="sdb")
    machine.second()
    (line,) = machine.ask("scan status", disk="sdb")["answer"].scans
    assert ("took too long, for an hour" in line.waits) is held


def test_a_read_that_hangs_twice_is_one_bad_piece(machine: ScannedMachine) -> None:
    """The probe's child hangs for minutes; once may be the adapter's fault, so it is read again."""
    machine.start()
    machine.error = DeadlineError("timed out")
    answer = machine.runner
    machine.second()
    assert machine.scan.bad == ()  # it came back at once: an earlier read still hangs there
    batch = plan.ScanBatch((0,), PIECE_BYTES)
    paced = scan_runner.pace.next_pace(answer._pace(answer._disks["SERIAL1"]), 0.0, PIECE_BYTES)
    hung = scan_runner.ScanAnswer("SERIAL1", batch, paced, error="timed out", hung=True)
    answer.take(hung, machine.now)
    assert (machine.scan.bad, machine.scan.careful) == ((), 2)
    answer.take(hung, machine.now)
    assert machine.scan.bad == ((0, PIECE_BYTES),)
    assert machine.scan.troubles == (DEADLINE_SECONDS, DEADLINE_SECONDS)


@pytest.mark.parametrize("per_second", [2.0, 100.0])
def test_others_slow_a_scan_down_to_one_percent_of_the_time(
    machine: ScannedMachine, per_second: float
) -> None:
    """However few: what is read in two minutes is 0.8 % of the disk's time at most."""
    machine.disk.others = per_second
    machine.start()
    for _ in range(10):
        machine.second()
    before = len(machine.disk.reads)
    began = machine.now
    for _ in range(120):
        machine.second()
    reads = len(machine.disk.reads) - before
    assert reads > 10
    assert reads * machine.disk.read_seconds <= 0.0081 * (machine.now - began)


@pytest.mark.parametrize(
    ("change", "waits"),
    [
        ({"temperature_celsius": 90.0}, "it has 90 C, too near to its limit"),
        ({"self_test_remaining_ratio": 0.5}, "a self-test runs in it"),
    ],
)
def test_heat_and_a_self_test_stop_the_reads_until_they_are_over(
    machine: ScannedMachine, change: dict[str, Any], waits: str
) -> None:
    """It goes on where it was."""
    machine.disk.read_seconds = 0.5
    machine.start()
    for _ in range(10):
        machine.second()
    assert machine.engine.signals.scanned == {"sda"}  # no signal compares it with others
    healthy, machine.drive = machine.drive, replace(machine.drive, **change)
    for _ in range(6):
        machine.second()
    before = len(machine.disk.reads)
    for _ in range(70):
        machine.second()
    assert len(machine.disk.reads) == before
    (line,) = machine.ask("scan status")["answer"].scans
    assert (line.state, line.waits) == ("running", waits)
    assert machine.engine.signals.scanned == frozenset()
    machine.drive = healthy
    machine.until("complete")


def test_a_disk_that_may_sleep_is_polled_before_it_is_read(machine: ScannedMachine) -> None:
    """SMART of ten minutes ago does not show that it sleeps now; asleep it is not read."""
    machine.now += 600.0
    machine.second(poll=False)
    machine.ask("scan start", disk="sda")
    for _ in range(5):
        machine.second(poll=False)
    assert machine.asked == ["SERIAL1"]
    assert machine.disk.reads == []
    (line,) = machine.ask("scan status")["answer"].scans
    assert line.waits == "it may have fallen asleep: its state is polled first"
    machine.status = ReadStatus.ASLEEP
    for _ in range(120):
        machine.second()
    assert machine.disk.reads == []
    machine.status = ReadStatus.READ
    machine.until("complete")


def test_on_battery_nothing_is_read(machine: ScannedMachine) -> None:
    """A laptop, or a server whose supply reports it: tried again each minute."""
    machine.files = {"/sys/class/power_supply/AC/online": "0\n"}
    machine.start()
    for _ in range(5):
        machine.second()
    assert machine.disk.reads == []
    (line,) = machine.ask("scan status")["answer"].scans
    assert line.waits == "the machine runs on a battery"
    machine.files = {"/sys/class/power_supply/AC/online": "1\n"}
    machine.until("complete")


def test_another_disk_under_the_name_ends_the_scan(machine: ScannedMachine) -> None:
    """The probe compares the serial number at each batch, before it reads anything."""
    (machine.disk.directory / "serial").write_text("SERIAL2\n")
    machine.start()
    machine.until("refused")
    assert "it is another disk now" in machine.scan.text
    assert machine.disk.reads == []


def test_a_disk_smaller_than_before_is_not_scanned_further(machine: ScannedMachine) -> None:
    """A running scan ends; a stopped one is not resumed; both say what to do."""
    machine.disk.read_seconds = 0.5
    machine.start()
    machine.second()
    machine.size_bytes -= PIECE_BYTES
    machine.until("refused")
    assert "got 20447232: it was resized" in machine.scan.text
    machine.runner.scans = {"SERIAL1": replace(machine.scan, state=plan.ScanState.STOPPED)}
    error = machine.ask("scan start", disk="sda")["error"]
    assert error.endswith("start a new scan: iowarden scan start --restart SERIAL1")


def test_a_vanished_disk_is_no_bad_range(machine: ScannedMachine) -> None:
    """Reads end early: the scan waits for an hour, and reports why."""
    machine.start()
    machine.disk.gone = True
    machine.second()
    machine.second()
    (line,) = machine.ask("scan status")["answer"].scans
    assert (line.bad_ranges, line.waits) == ((), "No such device or address at byte 0")


def test_a_disk_that_is_pulled_out_and_put_back_is_read_to_the_end(machine: ScannedMachine) -> None:
    """Meanwhile its scan waits; a schedule starts no other one, and 'start' is refused."""
    machine.runner.groups = (WEEKLY,)
    machine.disk.read_seconds = 0.5
    machine.start()
    for _ in range(10):
        machine.second()
    before = machine.scan
    machine.present = False
    machine.now += 7 * 86_400
    for _ in range(80):
        machine.second()
    (line,) = machine.ask("scan status")["answer"].scans
    assert (line.state, line.waits, line.bad_ranges) == ("running", "the disk is missing", ())
    assert machine.scan.next == before.next > 0
    machine.polled = False
    machine.second()
    (unlisted,) = machine.ask("scan status", disk="SERIAL1")["answer"].scans
    assert (unlisted.state, unlisted.waits) == ("running", "the disk is missing")
    machine.polled = True
    machine.second()
    machine.ask("scan stop", disk="SERIAL1")
    error = machine.ask("scan start", disk="SERIAL1")["error"]
    assert error.endswith("expected a disk that the kernel sees, got none: it was removed")
    for _ in range(80):
        machine.second()
    assert machine.scan.state == "stopped"
    machine.present = True
    machine.until("complete")


def test_the_status_of_a_disk_says_why_it_cannot_be_scanned(machine: ScannedMachine) -> None:
    """Before anybody starts a scan; 'start' is refused with the same text."""
    machine.drive = replace(machine.drive, read_recovery_seconds=None)
    machine.mounts = MOUNTED
    machine.second()
    error = machine.ask("scan start", disk="sda")["error"]
    assert "smartctl -l scterc,70,70 /dev/sda" in error
    (line,) = machine.ask("scan status", disk="sda")["answer"].scans
    assert (line.state, line.text) == ("none", error)


def test_stop_and_start_resume_and_restart_begins_anew(machine: ScannedMachine) -> None:
    """A scan stopped for the working day goes on in the evening."""
    machine.disk.read_seconds = 0.5
    machine.start()
    for _ in range(10):
        machine.second()
    (line,) = machine.ask("scan stop", disk="SERIAL1")["answer"].scans
    assert (line.state, line.text) == ("stopped", "stopped by alice (uid 7)")
    reads = len(machine.disk.reads)
    for _ in range(10):
        machine.second()
    assert len(machine.disk.reads) == reads
    assert machine.ask("scan stop", disk="sda")["error"].endswith("a running scan, got none")
    assert machine.start().progress_ratio == line.progress_ratio > 0
    assert "it is being scanned" in machine.ask("scan start", disk="sda")["error"]
    machine.ask("scan stop", disk="sda")
    assert machine.start(restart=True).progress_ratio == 0


def test_a_schedule_starts_a_scan_and_says_when_it_cannot_be_met(machine: ScannedMachine) -> None:
    """Due on Sunday at three plus the disk's own spread; still running a week later: said once."""
    machine.runner.groups = (WEEKLY,)
    for _ in range(60):
        machine.second()
    machine.now = SUNDAY - 10
    for _ in range(80):
        machine.second()
        machine.ask("scan status")  # somebody follows: that postpones nothing
    assert machine.log.lines[0] == "disk SERIAL1: scan started"
    machine.until("complete")
    machine.now = SUNDAY + 7 * 86_400
    machine.disk.others = 1000.0
    machine.second()
    machine.until("running")
    machine.now = SUNDAY + 14 * 86_400 + 60
    for _ in range(90):
        machine.second()
    unmet = [line for line in machine.log.lines if "cannot be met" in line]
    assert len(unmet) == 1
    assert "the scan before is" in unmet[0]
    (line,) = machine.ask("scan status")["answer"].scans
    assert line.next_seconds == SUNDAY + 21 * 86_400


def test_a_disk_that_is_never_idle_enough_is_said_once(machine: ScannedMachine) -> None:
    """After a day at this pace: 35 days are not enough."""
    machine.disk.others = 1000.0
    machine.disk.read_seconds = 0.5
    machine.start()
    for _ in range(3):
        machine.now += 86_400.0
        for _ in range(30):
            machine.second()
    said = [line for line in machine.log.lines if "never idle enough" in line]
    assert len(said) == 1
    assert machine.scan.too_slow


def test_dozens_of_bad_ranges_end_the_scan_with_the_advice_to_replace(
    machine: ScannedMachine,
) -> None:
    """Eight within 10 MB."""
    machine.disk.bad_seconds = 0.1
    machine.disk.spoil(*(n * 8192 for n in range(12)))
    machine.start()
    machine.until("failed")
    assert "copy the data and replace the disk" in machine.scan.text
    assert len(machine.scan.bad) == 8
    assert [event.kind for event in machine.reported] == ["scan_bad_range"] * 8 + ["scan_gave_up"]


def test_a_range_that_an_earlier_scan_reported_is_not_reported_again(
    machine: ScannedMachine,
) -> None:
    """Nobody has overwritten it: with a schedule that would be the same mail each week."""
    machine.disk.bad_seconds = 0.1
    machine.disk.spoil(40_960)
    for _ in range(2):
        machine.start()
        machine.until("complete")
        assert machine.scan.bad == ((40_960, 4096),)
    assert len(machine.reported) == 1


@pytest.mark.parametrize(
    "damage",
    [
        {"zone_bytes": (1, 2, 3)},
        {"troubles": (1.0,)},
        {"zone_seconds": (float("nan"),) * plan.SEGMENTS},
        {"next": -1},
        {"bad": ((0, 0),)},
    ],
)
def test_a_stored_scan_that_is_damaged_begins_again(
    machine: ScannedMachine, damage: dict[str, Any]
) -> None:
    """Types are right, values are not: one line, and no scan that fails in each turn."""
    machine.start()
    machine.second()
    machine.stored.append({"SERIAL1": replace(machine.scan, **damage)})
    machine.killed()
    assert machine.runner.scans == {}
    (line,) = [line for line in machine.log.lines if "damaged" in line]
    assert line == "disk SERIAL1: its stored scan is damaged; the next one reads everything"


def test_a_range_that_grows_is_reported_once_when_it_is_known(machine: ScannedMachine) -> None:
    """Three adjacent blocks: one range, one event, also after a kill in the middle."""
    machine.disk.bad_seconds = 0.1
    machine.disk.spoil(40_960, 45_056, 49_152)
    machine.start()
    while not machine.scan.bad:
        machine.second()
    assert machine.reported == []
    machine.stored.append(machine.runner.scans)
    machine.killed()
    machine.until("complete")
    (event,) = machine.reported
    assert (event.sector, event.sectors) == (80, 24)


@pytest.mark.parametrize(
    ("kind", "device", "sector", "own"),
    [
        ("block_medium_error", "sda", 0, True),
        ("block_medium_error", "sda", PIECES * PIECE_BYTES // 512 + 8, False),
        ("block_medium_error", "sdb", 0, False),
        ("scsi_medium_error", "sda", None, True),
        ("ata_medium_error", "ata3.00", None, True),
        ("ata_medium_error", "ata4.00", None, False),
        ("scsi_timeout", "sda", None, False),
        ("scsi_reset", "sda", None, False),
    ],
)
def test_lines_of_the_kernel_about_reads_of_a_scan_belong_to_it(
    machine: ScannedMachine, kind: str, device: str, sector: int | None, *, own: bool
) -> None:
    """Of its disk, range and time; a timeout or reset is an incident of its own."""
    machine.start()
    machine.second()
    line = StorageEvent("kernel", kind, "text", device=device, sector=sector)
    assert machine.runner.is_own(line, machine.now) is own
    assert not machine.runner.is_own(line, machine.now + 3600.0)


def test_a_kernel_line_that_is_read_after_the_next_batch_has_begun_belongs_to_the_scan(
    machine: ScannedMachine,
) -> None:
    """The kernel log is read once a second; a failed batch and the next one are faster."""
    machine.disk.bad_seconds = 0.01
    machine.disk.spoil(0)
    machine.start()
    while not machine.scan.bad:
        machine.second()
    late = StorageEvent("kernel", "block_medium_error", "text", device="sda", sector=0)
    assert machine.runner.is_own(late, machine.now)
    for _ in range(3):
        machine.second()
    assert machine.runner.is_own(late, machine.now)
    assert not machine.runner.is_own(late, machine.now + 3600.0)


def test_after_a_restart_a_running_scan_waits_for_the_list_of_drives(
    machine: ScannedMachine,
) -> None:
    """Until they are polled it is not known whether its disk is missing."""
    machine.disk.read_seconds = 0.5
    machine.start()
    machine.second()
    machine.stored.append(machine.runner.scans)
    machine.killed()
    (line,) = machine.ask("scan status")["answer"].scans
    assert (line.state, line.waits) == ("running", "the drives are not listed yet")


def test_a_completed_scan_is_the_last_full_read(machine: ScannedMachine) -> None:
    """Before it the disk counts as unread since it was first seen."""
    machine.second()
    before = {name: value for name, _, value in machine.runner.samples(machine.now)}
    assert before.keys() == {"iowarden_disk_full_read_age_seconds"}
    assert max(before.values()) < 60
    machine.start()
    machine.until("complete")
    machine.now += 120.0
    machine.second()
    samples = machine.runner.samples(machine.now)
    values = {(name, labels[0]): value for name, labels, value in samples}
    completed = machine.scan.completed_seconds
    assert completed is not None
    read = "iowarden_disk_last_full_read_timestamp_seconds"
    assert values[read, ("by", "scan")] == round(completed)
    assert values["iowarden_scan_progress_ratio", ("disk", "SERIAL1")] == 1.0
    assert values["iowarden_scan_bytes_total", ("disk", "SERIAL1")] == machine.disk.size_bytes
    assert 120 <= values["iowarden_disk_full_read_age_seconds", ("disk", "SERIAL1")] < 240
