"""The flight recorder: the last minutes in memory, saved to disk when an incident is critical."""

from __future__ import annotations

import os
import queue
import re
import threading
import time
from typing import TYPE_CHECKING

from support.live import Live, parsed, text
from support.live import watched as running
from support.program import Feed, Played, recorded
from support.recordings import FIXTURES
from support.smtp import DEADLINE_SECONDS, smtp_server
from support.sources import SOURCES

from iowarden.collectors.recording.player import RecordedMachine
from iowarden.collectors.recording.recorder import Changes, watched
from iowarden.collectors.recording.recording import Frame, Recording
from iowarden.collectors.source import collect
from iowarden.daemon.cli.main import main
from iowarden.daemon.service import flight_recorder as flight_module
from iowarden.daemon.service.flight_recorder import MAX_FILES, FlightArchive, FlightRecorder

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_what_is_kept_is_what_was_read(tmp_path: Path) -> None:
    """A disk hangs for a minute: for the last 50 s every collector returns the same as live."""
    recording = Recording(str(FIXTURES / "hung-disk.tar.xz"))
    flight, root = FlightRecorder(4096, retention_seconds=50), RecordedMachine(4096)
    sources = [watched(source, flight.take) for source in SOURCES]
    said = {}
    for step in iter(recording.next, None):
        root.apply(step)
        clock = step.frame.monotonic_seconds
        said[clock] = [collect(source, root, lambda: 0.0).value for source in sources]
        flight.announced(f"change sda {step.frame.number}\n")
        flight.tick(clock, step.frame.realtime_seconds)
    again, clocks = RecordedMachine(4096), []
    for step in flight.snapshot().steps():
        again.apply(step)
        clocks.append(step.frame.monotonic_seconds)
        values = [collect(source, again, lambda: 0.0).value for source in SOURCES]
        assert values == said[clocks[-1]]
        assert step.uevents.startswith("change sda ")
    assert clocks == sorted(said)[-len(clocks) :]
    assert 50 <= clocks[-1] - clocks[0] < 90


def test_what_came_and_went_before_is_not_there() -> None:
    """A disk was pulled before the recorded minutes: not even its name is left."""
    flight = FlightRecorder(4096, retention_seconds=60)
    for second in range(200):
        names = b"sda\nsdb" if second < 20 else b"sda"
        seen = {"/sys/block/": names, "/proc/stat": b"%d" % second}
        if second < 20:
            seen["/sys/block/sdb/size"] = b"8\n"
        flight.take("block", seen)
        flight.tick(float(second), 1000.0 + second)
    steps = list(flight.snapshot().steps())
    assert steps[0].files["/proc/stat"] == b"%.0f" % steps[0].frame.monotonic_seconds
    assert steps[0].files["/sys/block/sda"] is None
    assert not [path for step in steps for path in step.files if "sdb" in path]


def test_it_never_holds_more_than_it_may() -> None:
    """Texts that do not compress: minutes are dropped before the memory limit is exceeded."""
    flight = FlightRecorder(4096, max_bytes=2**20)
    for second in range(400):
        flight.take("stat", {"/proc/stat": os.urandom(20_000)})
        flight.tick(float(second), 1000.0 + second)
        assert flight.size_bytes() < 2**20 + 2**18
    clocks = [step.frame.monotonic_seconds for step in flight.snapshot().steps()]
    assert clocks[-1] == 399
    assert 20 < len(clocks) < 100


def test_what_waits_for_a_hung_disk_counts() -> None:
    """Two snapshots wait to be written while everything is read again: one limit for all of it."""
    flight, waiting = FlightRecorder(4096, max_bytes=2**20), []
    for second in range(400):
        flight.take("stat", {"/proc/stat": os.urandom(20_000)})
        flight.tick(float(second), 1000.0 + second)
        if second in {100, 120}:
            waiting.append(flight.snapshot())
        blocks = {id(block): len(block) for held in waiting for block in held.blocks}
        newest = flight.snapshot()
        blocks |= {id(block): len(block) for block in newest.blocks}
        assert sum(blocks.values()) < 2**20 + 2**18
    held = sum(len(block) for block in newest.blocks)
    waiting.clear()
    for second in range(400, 500):
        flight.take("stat", {"/proc/stat": os.urandom(20_000)})
        flight.tick(float(second), 1000.0 + second)
    assert sum(map(len, flight.snapshot().blocks)) > 2 * held


def test_what_is_written_is_held_no_longer(tmp_path: Path) -> None:
    """The thread that waits for the next save has released the last snapshot."""
    kept, said = keeper(tmp_path / "flights")
    before = kept.flight.size_bytes()
    kept.save("20261121T000000Z-a")
    assert said.get(timeout=DEADLINE_SECONDS) == ""
    assert kept.flight.size_bytes() == before


def keeper(directory: Path) -> tuple[FlightArchive, queue.SimpleQueue[str]]:
    """Return a recorder thread with content, and its messages."""
    flight, said = FlightRecorder(4096), queue.SimpleQueue[str]()
    flight.take("stat", {"/proc/stat": b"procs_blocked 1\n"})
    flight.tick(1.0, 1000.0)
    return FlightArchive(flight, str(directory), said.put), said


def test_only_the_newest_files_stay(tmp_path: Path) -> None:
    """Many incidents do not fill the disk."""
    kept, said = keeper(tmp_path / "flights")
    for number in range(MAX_FILES + 3):
        path = kept.save(f"20261121T{number:06d}Z-a")
        assert said.get(timeout=DEADLINE_SECONDS) == ""
    names = sorted(os.listdir(tmp_path / "flights"))
    assert (len(names), names[-1]) == (MAX_FILES, os.path.basename(path))
    assert names[0].startswith("20261121T000003Z")
    steps = list(iter(Recording(path).next, None))
    assert [step.frame for step in steps] == [Frame(0, 1.0, 1000.0)]


def test_what_is_saved_before_the_clock_is_set_is_not_the_first_to_go(tmp_path: Path) -> None:
    """In early boot it is 1970: that file stays until as many newer ones exist."""
    kept, said = keeper(tmp_path / "flights")
    (tmp_path / "flights").mkdir()
    future = time.time_ns() + 10**15
    for number in range(MAX_FILES):
        other = tmp_path / f"flights/20361121T{number:06d}Z-a.tar.gz"
        other.write_bytes(b"of the time before the boot")
        os.utime(other, ns=(future + number, future + number))
    path = kept.save("19700101T000007Z-b")
    assert said.get(timeout=DEADLINE_SECONDS) == ""
    for number in range(MAX_FILES - 1):
        kept.save(f"20261121T{number:06d}Z-c")
        assert said.get(timeout=DEADLINE_SECONDS) == ""
        assert os.path.exists(path)
    kept.save("20261121T235959Z-c")
    assert said.get(timeout=DEADLINE_SECONDS) == ""
    assert not os.path.exists(path)
    assert len(os.listdir(tmp_path / "flights")) == MAX_FILES


def test_files_of_a_large_machine_are_fewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their bytes count, too; the newest one stays whatever its size."""
    monkeypatch.setattr(flight_module, "MAX_FILES_BYTES", 100)
    kept, said = keeper(tmp_path / "flights")
    for number in range(2):
        kept.save(f"20261121T{number:06d}Z-a")
        assert said.get(timeout=DEADLINE_SECONDS) == ""
    assert os.listdir(tmp_path / "flights") == ["20261121T000001Z-a.tar.gz"]


def test_what_is_read_late_is_replayed_when_it_was_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Threads answer after the first frame: the disks are known in that second all the same."""
    recording = Recording(str(FIXTURES / "hung-disk.tar.xz"))
    flight, root = FlightRecorder(4096), RecordedMachine(4096)
    sources = [watched(source, flight.take) for source in SOURCES]
    for step in iter(recording.next, None):
        root.apply(step)
        for source in sources:
            if not source.may_hang or step.frame.number == 1:
                collect(source, root, lambda: 0.0)
        flight.tick(step.frame.monotonic_seconds, step.frame.realtime_seconds)
    said = queue.SimpleQueue[str]()
    path = FlightArchive(flight, str(tmp_path / "flights"), said.put).save("20261121T000000Z-a")
    assert said.get(timeout=DEADLINE_SECONDS) == ""
    assert main(["replay", path]) == 0
    assert "critical DeviceHang sdc firing" in capsys.readouterr().out


def test_a_file_that_will_not_be_written_is_not_named(tmp_path: Path) -> None:
    """A write does not return: one save waits, and the next one is not mentioned in a mail."""
    flight, said, go = FlightRecorder(4096), queue.SimpleQueue[str](), threading.Event()

    def post(text: str) -> None:
        said.put(text)
        if not text:
            go.wait(DEADLINE_SECONDS)

    kept = FlightArchive(flight, str(tmp_path / "flights"), post)
    assert kept.save("20261121T000000Z-a")
    assert said.get(timeout=DEADLINE_SECONDS) == ""
    assert kept.save("20261121T000001Z-b")
    assert kept.save("20261121T000002Z-c") == ""
    assert "flight: a write to" in said.get(timeout=DEADLINE_SECONDS)
    go.set()


def test_a_directory_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    """The next incident tries again."""
    (tmp_path / "flights").write_text("in the way")
    kept, said = keeper(tmp_path / "flights")
    path = kept.save("20261121T000000Z-a")
    assert f"flight: '{path}': the flight recording could not be saved" in said.get(
        timeout=DEADLINE_SECONDS
    )
    (tmp_path / "flights").unlink()
    kept.save("20261121T000001Z-b")
    assert said.get(timeout=DEADLINE_SECONDS) == ""


def test_the_flight_of_a_hung_disk_replays_to_its_alert(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The service saves it with the incident; its mail and its log name the file."""
    feed = Feed(recorded("hung-disk"), tmp_path / "feed")
    flights = tmp_path / "state/flights"
    with smtp_server() as (port, answers):
        program = Played(tmp_path, feed, smtp_port=port)
        program.start()
        feed.give()
        program.until(lambda: list(flights.glob("*Z-*.tar.gz")), "a saved flight")
        program.mail(answers)  # the warning
        mail = program.mail(answers)
        program.end()
    (path,) = flights.glob("*Z-*.tar.gz")
    assert f"iowarden replay {path}" in program.text()
    assert path.stem.partition(".")[0] in text(parsed(mail.data))
    assert path.stat().st_mode & 0o777 == 0o600
    expected = tmp_path / "expected.yaml"
    expected.write_text(
        "least: critical\n"
        "alerts: [{alert: DeviceHang, device: sdc, severity: critical, state: firing}]\n"
        "incidents: [{severity: critical}]\n"
        "mails: [{subject: WARNING}]\n"
    )
    assert main(["replay", str(path), "--expect", str(expected)]) == 0, capsys.readouterr().out


def test_what_becomes_critical_together_has_one_file(tmp_path: Path) -> None:
    """Both disks hang in the same second: both mails name the file, which exists."""
    live = Live(tmp_path)
    with running(tmp_path, live) as it:
        it.wait(8)
        live.hang("sda")
        live.hang("sdb")
        mails = [text(mail) for mail in it.wait(200) if "CRITICAL" in str(mail["Subject"])]
    names = {name for mail in mails for name in re.findall(r"\d{8}T\d{6}Z-\w+\.tar\.gz", mail)}
    assert len(mails) == 2
    assert all("iowarden replay" in mail for mail in mails)
    assert sorted(os.listdir(tmp_path / "state/flights")) == sorted(names)
    assert len(names) == 1
    assert " hangs; " not in it.program.text()


def test_switched_off_it_keeps_nothing(tmp_path: Path) -> None:
    """`flight_recorder: false`: the incident is mailed, and no file is written or named."""
    feed = Feed(recorded("hung-disk"), tmp_path / "feed")
    with smtp_server() as (port, answers):
        program = Played(tmp_path, feed, smtp_port=port, settings="flight_recorder: false\n")
        program.start()
        feed.give()
        mail = program.mail(answers)
        program.end()
    assert b"replay" not in bytes(mail.data)
    assert not (tmp_path / "state/flights").exists()


def test_a_source_that_reports_the_same_costs_no_second_text() -> None:
    """Data read once a minute stays one text in memory, however often it is read."""
    changes = Changes()
    for second in range(3):
        changes.take("block", {"/sys/block/sda/size": b"%d\n" % 8})
        step = changes.step(Frame(second, float(second), 0.0))
        assert list(step.files) == ([] if second else ["/sys/block/sda/size"])
