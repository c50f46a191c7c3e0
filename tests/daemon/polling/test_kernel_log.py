"""The kernel log, read live, from the journal, and from a recording."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import subprocess
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memory import Memory

from iowarden.collectors.kmsg import kernel_log, ring
from iowarden.collectors.kmsg.kernel_kinds import KINDS
from iowarden.collectors.kmsg.kernel_log import KernelCursor, KernelLog, emit
from iowarden.collectors.machine import Machine
from iowarden.collectors.model import AbsentError, ParseError, ReadError
from iowarden.daemon.polling.kernel_log import BOOT_ID, PATH, KernelLogPoller
from iowarden.daemon.probe import verbs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from conftest import MachineMaker

DEADLINE_SECONDS = 60.0
REMOTE = "/lib/systemd/systemd-journal-remote"
OTHER_BOOT = "0f70219b-9a6f-44d1-99ad-824270d0ef01"
BAD = "critical medium error, dev {}, sector {} op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2"
PLACE = f"s={'a' * 32};i=1f;b={'b' * 32};m=1;t=1;x=1"
UP_SECONDS = 500_000.0
"""Uptime of the machine, by the clock of these tests."""


def record(
    sequence: int, text: str, seconds: float = UP_SECONDS, priority: int = 3, pairs: str = ""
) -> bytes:
    """Return a record in the format of '/dev/kmsg'."""
    return f"{priority},{sequence},{round(seconds * 1e6)},-;{text}\n{pairs}".encode()


class Kernel:
    """A kernel's ring buffer, as a socket that preserves records; each reader opens it again."""

    def __init__(self) -> None:
        """Start without records."""
        self.ring: list[bytes] = []
        self._ends: list[socket.socket] = []

    def open(self) -> int:
        """Return a descriptor at the oldest record."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._ends.append(ours)
        for each in self.ring:
            ours.send(each)
        return theirs.detach()

    def say(self, *records: bytes) -> None:
        """Add records."""
        self.ring += records
        for end in self._ends:
            for each in records:
                end.send(each)

    def break_off(self) -> None:
        """Close the other ends of all descriptors."""
        while self._ends:
            self._ends.pop().close()


class Journal:
    """Journal files of a test, read by the probe's real verb."""

    def __init__(self, directory: Path) -> None:
        """No file yet."""
        self.directory = directory / "journal"
        self.asked: list[str] = []
        self.answers = threading.Event()
        self.answers.set()

    def write(self, name: str, *entries: tuple[str, float, str, float]) -> None:
        """Write a file with these entries: boot, kernel seconds, text, Unix time."""
        if not os.path.exists(REMOTE):
            pytest.skip(f"no '{REMOTE}' here")
        self.directory.mkdir(exist_ok=True)
        text = "".join(
            f"__REALTIME_TIMESTAMP={round(realtime * 1e6)}\n"
            f"__MONOTONIC_TIMESTAMP={round(seconds * 1e6) + 100}\n"
            f"_BOOT_ID={boot_id.replace('-', '')}\n_TRANSPORT=kernel\nSYSLOG_FACILITY=0\n"
            f"PRIORITY=3\n_SOURCE_MONOTONIC_TIMESTAMP={round(seconds * 1e6)}\nMESSAGE={message}\n\n"
            for boot_id, seconds, message, realtime in entries
        )
        subprocess.run(
            [REMOTE, "--output", str(self.directory / name), "-"],
            input=text.encode(),
            check=True,
            capture_output=True,
            timeout=DEADLINE_SECONDS,
        )

    def ask(self, verb: str, arguments: Sequence[str], _deadline_seconds: float) -> str:
        """Answer as the probe does."""
        assert verb == "journal"
        assert self.answers.wait(DEADLINE_SECONDS)
        self.asked += arguments
        if not self.directory.is_dir():
            raise ReadError(
                "'journal': failed: no readable journal entries; will retry at the next poll"
            )
        return json.dumps(verbs.journal(tuple(arguments), str(self.directory)))


class FakeMachine:
    """A machine with a kernel and a journal of its own; runs of iowarden on it."""

    def __init__(self, directory: Path) -> None:
        """Start with an empty ring buffer and an empty journal."""
        self.kernel = Kernel()
        self.journal = Journal(directory)
        self.root = Machine("/", probe=self.journal.ask)
        self.boot_id = self.root.read(BOOT_ID).strip()
        self.up_seconds = UP_SECONDS
        self.now = time.time()
        self.readers: list[KernelLogPoller] = []

    def started(self, cursor: KernelCursor | None = None) -> KernelLogPoller:
        """Return the reader of a new run."""
        reader = KernelLogPoller(self.kernel.open, lambda: self.up_seconds, lambda: self.now)
        reader.recall(cursor)
        self.readers.append(reader)
        return reader

    def look(self, reader: KernelLogPoller) -> KernelLog:
        """Poll until the journal is read, and return all events."""
        first = reader.read(self.root)
        assert reader.settled(DEADLINE_SECONDS)
        second = reader.read(self.root)
        if second is first:
            return first
        left = Counter(first.left_out) + Counter(second.left_out)
        return KernelLog(
            first.events + second.events,
            first.baseline + second.baseline,
            left,
            second.counts,
            second.gaps,
            second.suppressed,
            second.unrecognized,
            first.unrecognized_lines + second.unrecognized_lines,
            second.cursor,
            second.problem,
        )

    def running(self) -> KernelLogPoller:
        """Return a reader that has read everything so far."""
        reader = self.started(KernelCursor("", self.boot_id, 0, 0.0, self.now))
        self.kernel.say(record(0, "Linux version", 0.0))
        self.look(reader)
        return reader


@pytest.fixture
def this(tmp_path: Path) -> Iterator[FakeMachine]:
    """Yield a machine, and close everything of it."""
    machine = FakeMachine(tmp_path)
    yield machine
    machine.journal.answers.set()
    machine.kernel.break_off()
    for reader in machine.readers:
        reader.settled(DEADLINE_SECONDS)
        reader.close()
    machine.root.close()


def told(value: KernelLog) -> list[tuple[str, str]]:
    """Return kind and device of the new events."""
    return [(event.kind, event.device) for event in value.events]


def sectors(value: KernelLog) -> list[int | None]:
    """Return the sectors of the new events."""
    return [event.sector for event in value.events]


# --- live


def test_a_bad_sector_is_reported_in_the_look_after_it(this: FakeMachine) -> None:
    """Once, with its device, boot and Unix time."""
    reader = this.running()
    this.kernel.say(record(1, BAD.format("sdb", 8), UP_SECONDS + 0.5, pairs=" SUBSYSTEM=block\n"))
    this.up_seconds, this.now = this.up_seconds + 1, this.now + 1
    value = reader.read(this.root)
    (event,) = value.events
    assert (event.kind, event.device, event.sector) == ("block_medium_error", "sdb", 8)
    assert (event.boot_id, event.monotonic_seconds) == (this.boot_id, UP_SECONDS + 0.5)
    assert event.realtime_seconds == pytest.approx(this.now - 0.5, abs=0.001)
    assert value.cursor is not None
    assert (value.cursor.boot_id, value.cursor.sequence) == (this.boot_id, 1)
    assert reader.read(this.root).events == ()


def test_a_quiet_kernel_changes_nothing(this: FakeMachine) -> None:
    """The same value again, so that nothing is computed for it."""
    reader = this.running()
    first = reader.read(this.root)
    this.up_seconds, this.now = this.up_seconds + 1, this.now + 1
    assert reader.read(this.root) is first


def test_a_clock_that_drifted_dates_no_event_outside_its_look(this: FakeMachine) -> None:
    """The kernel's time stamps are minutes behind after months; the line gets this second."""
    reader = this.running()
    this.up_seconds, this.now = this.up_seconds + 1, this.now + 1
    this.kernel.say(record(1, BAD.format("sdb", 8), UP_SECONDS - 300))
    (event,) = reader.read(this.root).events
    assert event.realtime_seconds == this.now - 1


def test_every_kind_is_counted_from_nought_and_a_device_from_its_first_look(
    this: FakeMachine,
) -> None:
    """A counter that appears with a value has no increase that a rule could see."""
    reader = this.running()
    (quiet,) = [reader.read(this.root)]
    assert {labels: n for name, labels, n in emit(quiet) if name.endswith("events_total")} == {
        (("kind", kind),): 0 for kind in KINDS
    }
    pair = (("device", "sdb"), ("kind", "block_medium_error"))
    this.kernel.say(*(record(n, BAD.format("sdb", n)) for n in (1, 2)))
    numbers = [
        [n for _, labels, n in emit(reader.read(this.root)) if labels == pair] for _ in range(3)
    ]
    assert numbers == [[0], [2], [2]]


def test_what_a_program_wrote_is_no_event(this: FakeMachine) -> None:
    """Facility 1: root wrote it to '/dev/kmsg'."""
    reader = this.running()
    this.kernel.say(record(1, BAD.format("sdb", 8), priority=8 + 3))
    value = reader.read(this.root)
    assert (value.events, value.gaps) == ((), 0)


def test_lines_that_the_ring_lost_are_an_event(
    this: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel returns EPIPE and continues with its oldest record: the numbers show the loss."""
    reader = this.running()
    real, answers = os.read, [BrokenPipeError(errno.EPIPE, "Broken pipe")]

    def read(descriptor: int, count: int) -> bytes:
        if answers:
            raise answers.pop()
        return real(descriptor, count)

    monkeypatch.setattr(os, "read", read)
    this.kernel.say(record(41, BAD.format("sdb", 8)))
    value = reader.read(this.root)
    assert told(value) == [("log_gap", ""), ("block_medium_error", "sdb")]
    assert "40 kernel messages were lost: 1 to 40" in value.events[0].text
    assert value.gaps == 1
    assert reader.read(this.root).gaps == 1


def test_a_record_that_is_none_is_a_gap_and_stops_nothing(this: FakeMachine) -> None:
    """Any such record is reported."""
    reader = this.running()
    this.kernel.say(b"nonsense", record(1, BAD.format("sdb", 8)))
    assert told(reader.read(this.root)) == [("log_gap", ""), ("block_medium_error", "sdb")]


def test_what_the_kernel_suppressed_is_counted(this: FakeMachine) -> None:
    """Error counts are lower bounds, and this shows by how much."""
    reader = this.running()
    this.kernel.say(record(1, "print_req_error: 37 callbacks suppressed"))
    value = reader.read(this.root)
    assert told(value) == [("callbacks_suppressed", "")]
    assert value.suppressed == 37


def test_a_storm_is_a_count_with_its_first_and_last_lines(this: FakeMachine) -> None:
    """Two disks fail with thousands of lines: all are counted, few are stored."""
    reader = this.running()
    sequence, every = 1, Counter[str]()
    looks: list[KernelLog] = []
    while sequence < 5000:
        batch = range(sequence, sequence + 100)
        devices = ["sdb" if n % 3 else "sdc" for n in batch]
        every.update(devices)
        this.kernel.say(*(record(n, BAD.format(d, n)) for n, d in zip(batch, devices, strict=True)))
        sequence += 100
        looks.append(reader.read(this.root))
    for look in looks:
        assert len(look.events) == 40
        assert sum(look.left_out.values()) == 60
        assert (look.events[0].sector or 0) + 99 == look.events[-1].sector
    last = reader.read(this.root)
    assert {d: last.counts["block_medium_error", d] for d in every} == every
    assert last.gaps == 0


def test_an_error_that_no_pattern_takes_is_counted_by_its_driver(this: FakeMachine) -> None:
    """From nought, in its level; its text is passed on once for each shape."""
    reader = this.running()
    texts = ["mpi3mr0: surprise 1", "mpi3mr0: surprise 2", "libceph: mon0 surprise"]
    this.kernel.say(*(record(n, text) for n, text in enumerate(texts, 1)))
    this.kernel.say(record(4, "mpi3mr0: surprise 3", priority=2))
    this.kernel.say(record(5, "mlx5_core 0000:3b:00.0: surprise", priority=2))
    value = reader.read(this.root)
    assert [line.text for line in value.unrecognized_lines] == [texts[0], texts[2]]
    name = "iowarden_kernel_lines_unrecognized_total"
    totals = [
        {labels: n for family, labels, n in emit(log) if family == name}
        for log in (value, reader.read(this.root))
    ]
    pairs = [("libceph", "error"), ("mpi3mr", "critical"), ("mpi3mr", "error")]
    labels = [(("driver", driver), ("level", level)) for driver, level in pairs]
    assert totals == [dict.fromkeys(labels, 0), dict(zip(labels, (1, 1, 2), strict=True))]


def test_unknown_errors_of_the_journal_are_those_of_the_ring(this: FakeMachine) -> None:
    """Each once: what only the journal has, and what is in both."""
    texts = [f"mpi3mr0: surprise {n}" for n in range(4)]
    at = [UP_SECONDS - 100 + n for n in range(4)]
    entries = [(this.boot_id, at[n], texts[n], this.now - 100 + n) for n in range(4)]
    this.journal.write("a.journal", *entries)
    this.kernel.say(*(record(n, texts[n], at[n]) for n in (2, 3)))
    value = this.look(this.started(KernelCursor("", this.boot_id, 0, at[0], this.now - 100)))
    assert sorted(event.text for event in value.events) == texts[1:]
    assert {(event.kind, event.code) for event in value.events} == {
        ("unrecognized_error", "mpi3mr")
    }
    assert value.gaps == 0


def test_unknown_errors_of_before_the_first_start_are_no_news(this: FakeMachine) -> None:
    """They are the baseline, of the journal and the ring: counted, and their texts are saved."""
    line = (this.boot_id, UP_SECONDS - 60, "libceph: surprise", this.now - 60)
    this.journal.write("a.journal", line)
    this.kernel.say(record(900, "mpi3mr0: surprise", UP_SECONDS - 50, priority=2))
    reader = this.started()
    value = this.look(reader)
    kinds = [event.kind for event in value.baseline]
    assert sorted(kinds) == ["unrecognized_critical", "unrecognized_error"]
    assert value.events == ()
    counts = reader.read(this.root).unrecognized
    assert dict(counts) == {("libceph", "error"): 1, ("mpi3mr", "critical"): 1}
    texts = {line.text for line in value.unrecognized_lines}
    assert texts == {"mpi3mr0: surprise", "libceph: surprise"}


def test_a_storm_is_reported_while_it_lasts(this: FakeMachine) -> None:
    """Lines arrive faster than they are read: the poll ends, the next one continues there."""
    reader = this.running()
    this.kernel.say(*(record(n, BAD.format("sdb", n)) for n in range(1, 101)))

    def slow() -> float:
        this.up_seconds += ring.MAX_READ_SECONDS / 10
        return this.up_seconds

    hurried = KernelLogPoller(this.kernel.open, slow, lambda: this.now)
    this.readers.append(hurried)
    hurried.recall(reader.read(this.root).cursor)
    this.look(hurried)
    this.kernel.say(*(record(n, BAD.format("sdb", n)) for n in range(101, 131)))
    looks = [hurried.read(this.root) for _ in range(5)]
    counts = [len(look.events) for look in looks]
    assert 0 < counts[0] < 30
    assert [s for look in looks for s in sectors(look)] == list(range(101, 131))
    assert looks[-1].gaps == 0


def test_a_line_that_a_storm_held_up_has_its_own_time(this: FakeMachine) -> None:
    """It was logged before polls that did not reach it: their times do not limit its own."""
    begun, printed = this.up_seconds, this.now

    def slow() -> float:
        this.up_seconds += ring.MAX_READ_SECONDS / 10
        return this.up_seconds

    def realtime() -> float:
        return printed + this.up_seconds - begun

    hurried = KernelLogPoller(this.kernel.open, slow, realtime)
    this.readers.append(hurried)
    this.look(hurried)
    said = this.up_seconds
    this.kernel.say(*(record(n, BAD.format("sdb", n), said) for n in range(1, 31)))
    looks = [hurried.read(this.root) for _ in range(5)]
    assert len([look for look in looks if look.events]) > 2
    times = [event.realtime_seconds for look in looks for event in look.events]
    assert times == [pytest.approx(printed + said - begun, abs=0.5)] * 30


def test_devices_without_end_are_counted_together(this: FakeMachine) -> None:
    """Names that never occur again must not fill the memory, and every line is counted."""
    reader = this.running()
    count = kernel_log.MAX_PAIRS + 500
    for first in range(1, count + 1, 50):
        this.kernel.say(*(record(n, BAD.format(f"dm-{n}", 8)) for n in range(first, first + 50)))
        reader.read(this.root)
    value = reader.read(this.root)
    assert len(value.counts) <= kernel_log.MAX_PAIRS + len(KINDS)
    assert sum(value.counts.values()) == count


def test_a_sense_whose_next_line_does_not_come_is_reported_a_look_later(this: FakeMachine) -> None:
    """Until then the cursor stays before it: after a restart it is read again."""
    reader = this.running()
    this.kernel.say(record(1, "sd 0:0:1:0: [sdb] tag#5 Sense Key : Not Ready [current]"))
    waiting = reader.read(this.root)
    assert waiting.events == ()
    assert waiting.cursor is not None
    assert waiting.cursor.sequence == 0
    value = reader.read(this.root)
    assert told(value) == [("scsi_not_ready", "sdb")]
    assert value.cursor is not None
    assert value.cursor.sequence == 1


def test_a_log_that_breaks_off_is_opened_again_and_nothing_reported_twice(
    this: FakeMachine,
) -> None:
    """What was read before the end is reported with what arrived meanwhile."""
    reader = this.running()
    this.kernel.say(record(1, BAD.format("sdb", 1)))
    this.kernel.break_off()
    with pytest.raises(ReadError, match="'/dev/kmsg': expected records, got its end"):
        reader.read(this.root)
    this.kernel.say(record(2, BAD.format("sdb", 2)))
    assert sectors(this.look(reader)) == [1, 2]


def test_without_a_probe_there_is_no_log(this: FakeMachine) -> None:
    """The kernel is not quiet; and it is not requested again each second."""
    asked = []

    def refuse() -> int:
        asked.append(this.up_seconds)
        raise AbsentError("no probe")

    reader = KernelLogPoller(refuse, lambda: this.up_seconds)
    for _ in range(3):
        with pytest.raises(AbsentError):
            reader.read(this.root)
    assert len(asked) == 1
    this.up_seconds += ring.RETRY_INTERVAL_SECONDS
    with pytest.raises(AbsentError):
        reader.read(this.root)
    assert len(asked) == 2
    with pytest.raises(AbsentError, match="no probe is running"):
        KernelLogPoller(None, time.monotonic).read(this.root)


def kernel_log_opens() -> bool:
    """Whether this machine permits reading its log."""
    try:
        os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not kernel_log_opens(), reason="needs a '/dev/kmsg' that can be read")
def test_this_machines_own_log_is_read(this: FakeMachine) -> None:
    """All its records, with consecutive numbers, and then no more."""
    reader = KernelLogPoller(
        lambda: os.open("/dev/kmsg", os.O_RDONLY | os.O_CLOEXEC), time.monotonic, time.time
    )
    this.readers.append(reader)
    value = this.look(reader)
    assert value.cursor is not None
    assert (value.cursor.boot_id, value.events) == (this.boot_id, ())


# --- after a start


def test_a_run_begins_where_the_last_one_stopped(this: FakeMachine) -> None:
    """The ring buffer still holds all: the journal is not read, and no line is reported twice."""
    this.kernel.say(*(record(n, BAD.format("sdb", n)) for n in range(20)))
    for last in range(20):
        cursor = KernelCursor("", this.boot_id, last, UP_SECONDS, this.now)
        value = this.look(this.started(cursor))
        assert sectors(value) == list(range(last + 1, 20))
        assert (value.baseline, value.gaps) == ((), 0)
    assert this.journal.asked == []


def test_the_first_sight_is_no_news(this: FakeMachine) -> None:
    """The baseline is a day of journal and ring buffer, without duplicates and older lines."""
    day = kernel_log.FIRST_SIGHT_SECONDS
    lines = [(UP_SECONDS - day - 10, 1), (UP_SECONDS - 60, 2), (UP_SECONDS - 50, 3)]
    entries = [
        (this.boot_id, at, BAD.format("sdb", n), this.now - UP_SECONDS + at) for at, n in lines
    ]
    this.journal.write("a.journal", *entries)
    this.kernel.say(record(900, BAD.format("sdb", 3), UP_SECONDS - 50))
    this.kernel.say(record(901, BAD.format("sdb", 4), UP_SECONDS - 40))
    reader = this.started()
    value = this.look(reader)
    assert sorted(e.sector or 0 for e in value.baseline) == [2, 3, 4]
    assert (value.events, value.gaps, sum(value.counts.values())) == ((), 0, 0)
    this.kernel.say(record(902, BAD.format("sdb", 5)))
    assert sectors(reader.read(this.root)) == [5]


def test_a_ring_older_than_a_day_is_found_for_its_last_day_only(this: FakeMachine) -> None:
    """A disk that failed last year is no finding."""
    day = kernel_log.FIRST_SIGHT_SECONDS
    this.journal.write("a.journal", (this.boot_id, UP_SECONDS, "quiet", this.now))
    this.kernel.say(record(0, BAD.format("sdb", 1), UP_SECONDS - day - 1))
    this.kernel.say(record(1, BAD.format("sdb", 2), UP_SECONDS - day + 1))
    value = this.look(this.started())
    assert [e.sector for e in value.baseline] == [2]


def test_what_the_ring_lost_while_nobody_looked_comes_from_the_journal(this: FakeMachine) -> None:
    """Each line once, although ring buffer and journal overlap, wherever the overlap begins."""
    start = this.now - 100
    at = [UP_SECONDS - 100 + n / 4 for n in range(40)]
    texts = [BAD.format("sdb", n) for n in range(40)]
    entries = [(this.boot_id, at[n], texts[n], start + n / 4) for n in range(40)]
    this.journal.write("a.journal", *entries)
    this.kernel.say(*(record(n, texts[n], at[n]) for n in range(20, 40)))
    for last in range(39):
        cursor = KernelCursor("", this.boot_id, last, at[last], start + last / 4)
        value = this.look(this.started(cursor))
        assert sorted(n or 0 for n in sectors(value)) == list(range(last + 1, 40))
        assert len({event.key for event in value.events}) == 39 - last
        assert value.gaps == 0


def test_the_end_of_the_boot_before_comes_from_the_journal(this: FakeMachine) -> None:
    """The disk's last messages before a crash are reported after the next boot; none twice."""
    this.journal.write(
        "a.journal",
        *((OTHER_BOOT, 100.0 + n, BAD.format("sdb", n), this.now - 50 + n) for n in range(5)),
        (this.boot_id, 1.0, BAD.format("sdb", 5), this.now - 2),
    )
    first = json.loads(this.journal.ask("journal", [""], 1))["entries"][0]["cursor"]
    this.kernel.say(record(0, BAD.format("sdb", 5), 1.0))
    this.up_seconds = 3.0
    for journal in (first, ""):
        cursor = KernelCursor(journal, OTHER_BOOT, 77, 102.0, this.now - 48)
        value = this.look(this.started(cursor))
        assert sorted(n or 0 for n in sectors(value)) == [3, 4, 5]
        assert value.gaps == 0
        assert value.cursor is not None
        assert (value.cursor.boot_id, value.cursor.sequence) == (this.boot_id, 0)
        assert value.cursor.journal != journal


def test_live_lines_are_reported_while_the_journal_hangs(this: FakeMachine) -> None:
    """The cursor waits for it: after a kill until then, all of it is reported again."""
    this.kernel.say(record(9, BAD.format("sdb", 9)))
    this.journal.write("a.journal", (OTHER_BOOT, 103.0, BAD.format("sdb", 8), this.now - 9))
    before = KernelCursor("", OTHER_BOOT, 77, 102.0, this.now - 10)
    this.journal.answers.clear()
    reader = this.started(before)
    first = reader.read(this.root)
    assert (sectors(first), first.cursor) == ([9], before)
    this.kernel.say(record(10, BAD.format("sdb", 10)))
    second = reader.read(this.root)
    assert (sectors(second), second.cursor) == ([10], before)
    this.journal.answers.set()
    assert reader.settled(DEADLINE_SECONDS)
    third = reader.read(this.root)
    assert sectors(third) == [8]
    assert third.cursor is not None
    assert (third.cursor.boot_id, third.cursor.sequence) == (this.boot_id, 10)


def test_a_journal_that_does_not_answer_is_a_gap(this: FakeMachine) -> None:
    """The lines of the previous boot are unknown: that is reported, like the live ones."""
    this.kernel.say(record(9, BAD.format("sdb", 9)))
    value = this.look(this.started(KernelCursor("", OTHER_BOOT, 77, 102.0, this.now)))
    assert set(told(value)) == {("log_gap", ""), ("block_medium_error", "sdb")}
    assert "no readable journal entries" in value.problem
    assert "retry" not in value.problem, "the journal is read once"
    assert value.gaps == 1


def test_a_journal_without_the_lines_that_the_ring_lost_is_a_gap(this: FakeMachine) -> None:
    """It was deleted, or journald did not run."""
    this.journal.write("a.journal", (this.boot_id, 1.0, "quiet", this.now - 1000))
    this.kernel.say(record(500, BAD.format("sdb", 9)))
    cursor = KernelCursor("", this.boot_id, 77, 102.0, this.now - 900)
    assert told(this.look(this.started(cursor))).count(("log_gap", "")) == 1


def test_a_day_without_iowarden_and_without_a_place_in_the_journal_is_a_gap(
    this: FakeMachine,
) -> None:
    """The journal is then read for one day only."""
    this.journal.write("a.journal", (OTHER_BOOT, 1.0, "quiet", this.now - 1000))
    this.kernel.say(record(0, "Linux version", 0.0))
    cursor = KernelCursor("", OTHER_BOOT, 77, 0.5, this.now - kernel_log.FIRST_SIGHT_SECONDS - 1)
    assert told(this.look(this.started(cursor))) == [("log_gap", "")]


def test_lines_of_earlier_boots_are_not_reported_again(this: FakeMachine) -> None:
    """The journal still has them; the cursor is in this boot, the ring buffer has lost some."""
    this.journal.write(
        "a.journal",
        (OTHER_BOOT, 900.0, BAD.format("sdb", 1), this.now - 1000),
        (this.boot_id, 100.0, BAD.format("sdb", 2), this.now - 900),
        (this.boot_id, 200.0, BAD.format("sdb", 3), this.now - 800),
    )
    this.kernel.say(record(500, "quiet"))
    value = this.look(this.started(KernelCursor("", this.boot_id, 77, 100.0, this.now - 900)))
    assert (sectors(value), value.gaps) == ([3], 0)


def test_a_sense_that_ends_a_boot_is_reported_once(this: FakeMachine) -> None:
    """The line that would follow was never written."""
    this.journal.write(
        "a.journal",
        (OTHER_BOOT, 9.0, "sd 0:0:1:0: [sdb] tag#5 Sense Key : Not Ready [current]", this.now - 9),
        (this.boot_id, 1.0, BAD.format("sdb", 1), this.now - 2),
    )
    this.kernel.say(record(500, "quiet"))
    value = this.look(this.started(KernelCursor("", OTHER_BOOT, 77, 8.0, this.now - 10)))
    assert told(value) == [("scsi_not_ready", "sdb"), ("block_medium_error", "sdb")]


def test_without_a_place_in_the_journal_the_time_reports_which_boot_is_new(
    this: FakeMachine,
) -> None:
    """Three boots in a day, the journal was not read in the second."""
    third = "11111111-9a6f-44d1-99ad-824270d0ef01"
    this.journal.write(
        "a.journal",
        (third, 5.0, BAD.format("sdb", 1), this.now - 1000),
        (OTHER_BOOT, 100.0, BAD.format("sdb", 2), this.now - 900),
        (OTHER_BOOT, 200.0, BAD.format("sdb", 3), this.now - 800),
    )
    this.kernel.say(record(0, "Linux version", 0.0))
    value = this.look(this.started(KernelCursor("", OTHER_BOOT, 77, 100.0, this.now - 900)))
    assert (sectors(value), value.gaps) == ([3], 0)


def test_records_of_two_processors_out_of_order_are_reported_once(this: FakeMachine) -> None:
    """The oldest record of the ring buffer has a slightly later time stamp than the next one."""
    at = (UP_SECONDS - 50, UP_SECONDS - 50.2, UP_SECONDS - 49)
    texts = [BAD.format("sdb", n) for n in range(3)]
    entries = [(this.boot_id, at[n], texts[n], this.now - 50) for n in range(3)]
    before = (this.boot_id, UP_SECONDS - 51, BAD.format("sdb", 9), this.now - 51)
    this.journal.write("a.journal", before, *entries)
    this.kernel.say(*(record(100 + n, texts[n], at[n]) for n in range(3)))
    value = this.look(this.started(KernelCursor("", this.boot_id, 5, 1.0, this.now - 100)))
    assert sorted(n or 0 for n in sectors(value)) == [0, 1, 2, 9]


def test_what_was_deleted_of_the_journal_is_a_gap_only_where_it_was_news(this: FakeMachine) -> None:
    """After months it no longer holds its position, but all entries since the cursor."""
    for name, first in (("a", 0), ("b", 10)):
        lines = range(first, first + 10)
        this.journal.write(
            f"{name}.journal",
            *((OTHER_BOOT, 1.0 + n, BAD.format("sdb", n), this.now - 90 + n) for n in lines),
        )
    place = json.loads(this.journal.ask("journal", [""], 1))["entries"][0]["cursor"]
    (this.journal.directory / "a.journal").unlink()
    this.kernel.say(record(0, "Linux version", 0.0))
    for last, gaps in ((5, 1), (12, 0)):
        value = this.look(this.started(KernelCursor(place, OTHER_BOOT, 77, 1.0 + last, this.now)))
        assert [n for n in sectors(value) if n is not None] == list(range(max(last + 1, 10), 20))
        assert value.gaps == gaps


def test_after_a_journal_that_did_not_answer_a_day_is_requested(this: FakeMachine) -> None:
    """Its old position would bring back boots that were reported already."""
    this.kernel.say(record(9, "quiet"))
    value = this.look(this.started(KernelCursor(PLACE, OTHER_BOOT, 77, 102.0, this.now)))
    assert value.gaps == 1
    assert value.cursor is not None
    assert value.cursor.journal == ""


# --- recordings


def played(machine: MachineMaker, text: str, **more: str) -> Memory:
    """Return a machine with these lines in its log."""
    return machine({PATH: text, BOOT_ID: OTHER_BOOT + "\n", **more})


def text_of(*records: bytes) -> str:
    """Return records in the format of a file."""
    return b"".join(records).decode()


def test_a_recording_is_read_frame_by_frame(machine: MachineMaker) -> None:
    """Whether the recording has all lines since boot, or only the new ones of each frame."""
    reader = KernelLogPoller(None, lambda: 10.0)
    root = played(
        machine,
        "6,0,0,-;Linux version 6.1\n",
        **{"/proc/stat": "cpu 1 2 3 4 5 6 7 8 9 0\nbtime 1795000000\n"},
    )
    assert reader.read(root).baseline == ()
    lines = [
        record(n, BAD.format("sdb", n), 2.0 + n, pairs=" SUBSYSTEM=block\n") for n in (1, 2, 3)
    ]
    root.write({PATH: text_of(lines[0], lines[1])})
    assert sectors(reader.read(root)) == [1, 2]
    assert reader.read(root).events == ()
    root.write({PATH: text_of(*lines)})
    value = reader.read(root)
    assert sectors(value) == [3]
    assert value.gaps == 0


def test_a_recording_with_a_hole_is_a_gap(machine: MachineMaker) -> None:
    """Like the machine's own log."""
    reader = KernelLogPoller(None, lambda: 10.0)
    root = played(machine, "6,0,0,-;Linux version 6.1\n")
    reader.read(root)
    root.write({PATH: text_of(record(9, BAD.format("sdb", 1)))})
    assert told(reader.read(root)) == [("log_gap", ""), ("block_medium_error", "sdb")]


def test_a_recorded_machine_that_boots_anew_counts_its_lines_anew(machine: MachineMaker) -> None:
    """Numbers begin at 0; the end of the previous boot is not in the recording."""
    reader = KernelLogPoller(None, lambda: 10.0)
    root = played(machine, text_of(*(record(n, "quiet", 1.0) for n in range(9))))
    reader.read(root)
    root.write({PATH: text_of(record(0, BAD.format("sdb", 1), 1.0))})
    root.write({BOOT_ID: "11111111-9a6f-44d1-99ad-824270d0ef01\n"})
    value = reader.read(root)
    assert told(value) == [("log_gap", ""), ("block_medium_error", "sdb")]
    assert value.cursor is not None
    assert value.cursor.boot_id.startswith("11111111")


def test_more_devices_than_there_can_be_are_reported_together(machine: MachineMaker) -> None:
    """In one poll as well: few events are stored, all are counted."""
    reader = KernelLogPoller(None, lambda: 10.0)
    root = played(machine, "6,0,0,-;Linux version 6.1\n")
    reader.read(root)
    count = kernel_log.MAX_PAIRS + 500
    lines = (record(n, BAD.format(f"dm-{n}", 8)) for n in range(1, count + 1))
    root.write({PATH: text_of(*lines)})
    value = reader.read(root)
    assert len(value.events) <= kernel_log.MAX_PAIRS + 20
    assert len(value.events) + sum(value.left_out.values()) == count


def test_a_recording_without_a_log_has_none(machine: MachineMaker) -> None:
    """Absent is not the same as quiet."""
    with pytest.raises(AbsentError):
        KernelLogPoller(None, lambda: 10.0).read(machine({"/proc": None}))


def test_a_live_log_is_recorded_and_played_again(this: FakeMachine, machine: MachineMaker) -> None:
    """A replay reports the same events for the same lines."""
    reader = this.running()
    seen: dict[str, bytes] = {}
    this.root.watch(seen.__setitem__)
    this.kernel.say(*(record(n, BAD.format("sdb", n)) for n in range(1, 4)))
    live = reader.read(this.root)
    assert seen[BOOT_ID].decode().strip() == this.boot_id
    replay = KernelLogPoller(None, lambda: UP_SECONDS)
    replay.recall(KernelCursor("", this.boot_id, 0, 0.0, None))
    found = replay.read(machine({PATH: seen[PATH], BOOT_ID: seen[BOOT_ID]}))
    assert [event.key for event in found.events] == [event.key for event in live.events]


@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from(["3,1,5,-;x", "3,2,6,-;", "", " A=b"])).map("\n".join)
)
def test_any_text_is_a_log_or_refused(text: str) -> None:
    """No text causes another error."""
    with contextlib.suppress(ParseError):
        KernelLogPoller(None, lambda: 10.0).read(
            Memory({PATH: text.encode(errors="surrogatepass")})
        )
