"""Recordings in which a file or a program does not answer: the replay shows what iowarden says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.recordings import BOOTED_SECONDS
from support.recordings import recorded as recorded_steps
from support.storage_incidents import FakeMachine, ata

from iowarden.collectors.machine import Machine, probe_path
from iowarden.collectors.model import AbsentError, StuckError, UnansweredError
from iowarden.collectors.recording.player import RecordedMachine, RecordingPlayer
from iowarden.collectors.recording.recorder import Changes, Recorder
from iowarden.collectors.recording.recording import (
    Frame,
    Recording,
    RecordingError,
    RecordingStep,
)
from iowarden.collectors.smart import smartctl_runner
from iowarden.collectors.smart.drive import AccessMethod, ReadStatus
from iowarden.collectors.smart.options import Options
from iowarden.daemon.cli.main import main
from iowarden.daemon.polling.smart import SmartPoller

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    Captured = pytest.CaptureFixture[str]

STATVFS = (
    b"device_number 8:1\nblock_bytes 4096\nfragment_bytes 4096\nblocks 1000000\nblocks_free 1000\n"
    b"blocks_available 1000\nfiles 1000\nfiles_free 900\n"
)


def recorded(
    tmp_path: Path,
    seconds: int,
    hangs: Mapping[int, Sequence[str]],
    files: Mapping[int, str] = {},
    every: float = 1.0,
) -> str:
    """Return a recording of a server; `hangs`, and paths that answer again, by frame."""
    machine = FakeMachine(tmp_path)
    machine.sata("sda", "sdb")
    machine.mount("/srv", "sda1")
    machine.has({"/srv/.statvfs": STATVFS})
    machine.has(machine.answers("sda", ata("sda")) | machine.answers("sdb", ata("sdb")))
    machine.restarted()
    machine.wait(seconds, every)
    path = tmp_path / "hangs.tar.gz"
    recorder = Recorder(str(path), 4096)
    whole: dict[str, bytes | None] = {}
    for number, step in enumerate(machine.steps):
        whole |= step.files
        answers = {files[number]: whole[files[number]]} if number in files else {}
        recorder.write(
            RecordingStep(
                step.frame, {**step.files, **answers}, step.gone, hangs=hangs.get(number, ())
            )
        )
    recorder.close()
    return str(path)


def timeline(capsys: Captured, path: str) -> dict[str, Any]:
    """Return what a replay says as JSON."""
    main(["replay", path, "--json"])
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


def texts(outcome: dict[str, Any], word: str) -> list[tuple[int, str]]:
    """Return second and text of the messages with a word in them."""
    return [
        (round(entry["at_seconds"]), entry["text"])
        for entry in outcome["timeline"]
        if word in entry["text"]
    ]


def test_a_collector_whose_file_hangs_is_stuck_and_recovers(
    tmp_path: Path, capsys: Captured
) -> None:
    """A directory of sysfs: reported 10 s after the read began, as by the service."""
    hangs = {20: ["/sys/class/scsi_host"]}
    path = recorded(tmp_path, 120, hangs, {80: "/sys/class/scsi_host/host1/proc_name"})
    said = texts(timeline(capsys, path), "scsi: ")
    (stuck, text), (again, _) = said
    assert text.startswith("scsi: stuck: no answer for 11 s; ")
    assert 30 < stuck <= 20 + 30 + 12  # its period is 30 s at most, then 10 s of patience
    assert again == 80


def test_of_a_mount_that_hangs_it_is_unknown_how_full_it_is(
    tmp_path: Path, capsys: Captured
) -> None:
    """It was full; the other mount stays readable, and the collector itself is not stuck."""
    outcome = timeline(capsys, recorded(tmp_path, 480, {60: ["/srv"]}, every=5.0))
    assert texts(outcome, "filesystem: stuck") == []
    states = [e["state"] for e in outcome["timeline"] if e.get("alert") == "FilesystemFull"]
    assert states[-1] == "unknown"
    at, text = texts(outcome, "FilesystemFull /dev/sda1 unknown")[0]
    assert "no answer for" in text
    assert at > 60 * 5


def test_a_program_that_hangs_is_a_disk_that_smart_cannot_read(tmp_path: Path) -> None:
    """As of the service, when smartctl hangs in the kernel; the other disk is read."""
    commands = [
        probe_path("run", smartctl_runner.command(AccessMethod("/dev/sdb", kind), "full"))
        for kind in ("scsi", "sat", "nvme", "")
    ]
    (first,) = recorded_steps(recorded(tmp_path, 0, {0: commands}))
    machine = RecordedMachine(4096)
    machine.apply(first)
    disks = SmartPoller(Options(), lambda: 1000.0).read(machine)
    status = {disk.polled.target.device: disk.polled for disk in disks.by_key.values()}
    assert status["sda"].status is ReadStatus.READ
    assert status["sdb"].status is ReadStatus.HUNG
    assert "hangs in the kernel after SIGKILL" in status["sdb"].reason


def test_a_file_of_the_main_loop_that_hangs_ends_the_replay(
    tmp_path: Path, capsys: Captured
) -> None:
    """The kernel always answers /proc/meminfo; who writes that it hangs is told so."""
    assert main(["replay", recorded(tmp_path, 10, {5: ["/proc/meminfo"]})]) == 78
    assert "frame 000005: '/proc/meminfo': does not answer" in capsys.readouterr().err


def step(number: int, files: Mapping[str, bytes | None], **more: Sequence[str]) -> RecordingStep:
    """Return a frame."""
    return RecordingStep(Frame(number, 600.0 + number, BOOTED_SECONDS + number), files, **more)


def test_a_directory_that_hangs_hangs_with_all_below_it_until_one_answers() -> None:
    """Reading, listing, and again after the frame that has something below it."""
    machine = RecordedMachine(4096)
    machine.apply(step(0, {"/mnt/a/b": b"1", "/mnt/ab": b"2"}, hangs=["/mnt/a/"]))
    for read in (machine.read, machine.names, machine.try_read):
        with pytest.raises(UnansweredError):
            read("/mnt/a/b")
    with pytest.raises(UnansweredError):
        machine.names("/mnt/a")
    assert machine.read("/mnt/ab") == "2"
    assert machine.another().read("/mnt/a/b") == "1"
    machine.apply(step(1, {"/mnt/a/c": b"3"}))
    assert machine.names("/mnt/a") == ["b", "c"]
    machine.apply(step(2, {}, hangs=["/mnt/a"]))
    machine.apply(step(3, {}, gone=["/mnt"]))
    assert machine.try_read("/mnt/a/b") is None


def test_a_program_that_hangs_is_stuck_at_once() -> None:
    """The error is the one that the probe's client raises at the deadline."""
    machine = RecordedMachine(4096)
    machine.apply(step(0, {"/.probe/run x !dev!sda": b"{}"}, hangs=["/.probe/run x !dev!sda"]))
    with pytest.raises(StuckError, match="'run x /dev/sda': hangs in the kernel after SIGKILL"):
        machine.query_probe("run", "x", "/dev/sda")


@pytest.mark.parametrize("name", ["r", "r.tar.gz"])
def test_hangs_are_written_and_read_back(name: str, tmp_path: Path) -> None:
    """In a directory and in an archive; only 'replay' can play them."""
    path = str(tmp_path / name)
    recorder = Recorder(path, 4096)
    recorder.write(step(0, {"/a": b""}, hangs=["/b", "/c/d"]))
    recorder.close()
    found = Recording(path).next()
    assert found is not None
    assert found.hangs == ["/b", "/c/d"]
    with pytest.raises(RecordingError, match="got '/b' which hangs: only 'iowarden replay'"):
        RecordingPlayer(path, str(tmp_path / "played")).advance()


def test_a_hang_outside_the_recording_is_refused(tmp_path: Path) -> None:
    """A recording may come from a stranger."""
    path = tmp_path / "r"
    Recorder(str(path), 4096).write(step(0, {"/a": b""}))
    (path / "000000/hangs").write_text("/../x\n")
    with pytest.raises(RecordingError, match="hangs': expected absolute paths without"):
        Recording(str(path)).next()


def test_what_a_collector_waits_for_is_recorded_as_hanging() -> None:
    """Until its read returns, be it with the same text; a program has a deadline of its own."""
    changes, root = Changes(), Machine("/nowhere")
    other = Machine("/nowhere")
    changes.take("mounts", {"/srv/.statvfs": b"1"})
    assert changes.step(Frame(0, 600.0, 0.0)).hangs == []
    changes.begin(root)
    changes.begin(other)
    root.at, other.at = "/srv/.statvfs", "/.probe/run smartctl"
    assert changes.step(Frame(1, 601.0, 1.0)).hangs == []
    assert changes.step(Frame(2, 610.9, 2.0)).hangs == []
    assert changes.step(Frame(3, 611.0, 3.0)).hangs == ["/srv/.statvfs"]
    assert changes.step(Frame(4, 612.0, 4.0)).hangs == []
    changes.end(root)
    changes.take("mounts", {"/srv/.statvfs": b"1"})
    last = changes.step(Frame(5, 613.0, 5.0))
    assert (last.hangs, last.files) == ([], {"/srv/.statvfs": b"1"})


def test_a_path_that_was_never_read_answers_by_being_gone() -> None:
    """It has no text that could be written."""
    changes, root = Changes(), Machine("/nowhere")
    changes.begin(root)
    root.at = "/sys/class/scsi_host"
    changes.step(Frame(0, 600.0, 0.0))
    assert changes.step(Frame(1, 611.0, 1.0)).hangs == ["/sys/class/scsi_host"]
    changes.end(root)
    assert changes.step(Frame(2, 612.0, 2.0)).gone == ["/sys/class/scsi_host"]


def test_a_machine_names_what_is_read_now(tmp_path: Path) -> None:
    """A file, a directory, a mount's fill level, a program."""
    machine = Machine(str(tmp_path))
    reads: list[tuple[Callable[[str], object], str, str]] = [
        (machine.try_read, "/a", "/a"),
        (machine.try_names, "/b", "/b"),
    ]
    for read, path, at in reads:
        read(path)
        assert machine.at == at
    with pytest.raises(AbsentError):
        machine.read_cached_open("/c")
    assert machine.at == "/c"
    with pytest.raises(AbsentError):
        machine.statvfs("/srv")
    assert machine.at == "/srv/.statvfs"
    with pytest.raises(AbsentError):
        machine.query_probe("run", "x", "/dev/sda")
    assert machine.at == "/.probe/run x !dev!sda"
