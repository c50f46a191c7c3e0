"""`iowarden record`: records this machine, or one in a directory, for a replay."""

from __future__ import annotations

import os
import queue
import re
import signal
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest
from support.memory import write_tree
from support.program import COMMAND
from support.smtp import DEADLINE_SECONDS

from iowarden.collectors.block.uevents import Uevent, UeventBatch
from iowarden.collectors.machine import Machine
from iowarden.collectors.procfs.stat import read_stat
from iowarden.collectors.recording.player import RecordedMachine
from iowarden.collectors.recording.recording import Recording
from iowarden.daemon.cli.main import main
from iowarden.daemon.clock import SystemClock
from iowarden.daemon.replay.record import record
from iowarden.daemon.service.messages import Stop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def recorded(*arguments: str, limit_bytes: int = -1) -> subprocess.Popen[str]:
    """Start the command."""
    limit = [] if limit_bytes < 0 else ["prlimit", f"--fsize={limit_bytes}"]
    return subprocess.Popen(
        [*limit, str(COMMAND), "record", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_this_machine_is_recorded_and_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kernel's data is in a file that only its owner can read."""
    path = tmp_path / "own.tar.xz"
    process = recorded(str(path), "--for", "2s", "--state-directory", str(tmp_path / "state"))
    out, error = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0, error
    assert "Ctrl-C stops it" in error
    frames = re.search(r": ([0-9]+) frames", out)
    assert frames is not None
    assert int(frames[1]) >= 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    recording = Recording(str(path))
    root = RecordedMachine(recording.page_size_bytes)
    first = recording.next()
    assert first is not None
    root.apply(first)
    now = read_stat(Machine("/"))
    assert read_stat(root).boot_time_seconds == now.boot_time_seconds
    assert main(["replay", str(path)]) == 0
    assert f"replayed {frames[1]} frames" in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_recording_that_is_interrupted_is_whole(number: signal.Signals, tmp_path: Path) -> None:
    """After Ctrl-C, the recording can be replayed to that point."""
    process = recorded(str(tmp_path / "own.tar.gz"), "--state-directory", str(tmp_path / "state"))
    assert process.stderr is not None
    assert "Ctrl-C stops it" in process.stderr.readline()
    process.send_signal(number)
    process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0
    assert main(["replay", str(tmp_path / "own.tar.gz")]) == 0


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    """On a full disk, the failed frame is named; nothing hangs."""
    state = str(tmp_path / "state")
    process = recorded(
        str(tmp_path / "own.tar.gz"), "--for", "1s", "--state-directory", state, limit_bytes=100
    )
    _, error = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 1
    assert "own.tar.gz': expected room for frame 00000" in error
    assert "got: File too large" in error


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kept.tar.xz", "expected no recording there, got one; choose another path"),
        ("kept", "expected a name that ends in .tar.xz or .tar.gz; add it"),
    ],
)
def test_a_name_that_will_not_do_is_refused(name: str, message: str, tmp_path: Path) -> None:
    """An existing file may be the recording of an incident."""
    (tmp_path / name).write_bytes(b"precious")
    process = recorded(str(tmp_path / name), "--state-directory", str(tmp_path / "state"))
    _, error = process.communicate(timeout=DEADLINE_SECONDS)
    assert (process.returncode, message in error) == (78, True)
    assert (tmp_path / name).read_bytes() == b"precious"


def test_a_recording_of_no_time_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would have no frame, and could not be replayed."""
    with pytest.raises(SystemExit):
        main(["record", str(tmp_path / "own.tar.xz"), "--for", "0s"])
    assert "expected a duration above 0 such as 10m, got '0s'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_announcements_and_what_the_probe_answered_are_in_it(tmp_path: Path) -> None:
    """A disk was added, and a program hung: the replay gets both as the service did."""
    machine = {
        "/proc/stat": (
            "cpu  1 0 1 1 1 0 0 0 0 0\nintr 0\nctxt 0\nbtime 1799999000\nprocesses 1\n"
            "procs_running 1\nprocs_blocked 1\n"
        )
    }
    write_tree(tmp_path / "root", machine)
    answer = '{"tasks": []}'
    (tmp_path / "root/.probe").mkdir()
    (tmp_path / "root/.probe/tasks").write_text(answer)
    events: queue.SimpleQueue[object] = queue.SimpleQueue()
    events.put(UeventBatch((Uevent("add", "sda", 12),)))
    path = str(tmp_path / "own.tar.xz")
    root = str(tmp_path / "root")
    clock = SystemClock()
    outcome = record(path, 4096, {}, lambda: Machine(root, recorded=True), clock, events, 2.5)
    assert (outcome.problem, outcome.frames >= 2) == ("", True)
    steps = list(iter(Recording(path).next, None))
    assert [step.uevents for step in steps if step.uevents] == ["add sda 12\n"]
    told = {path: text for step in steps for path, text in step.files.items()}
    assert told["/.probe/tasks"] == steps[0].files["/.probe/tasks"] == answer.encode()
    assert "tasks" in steps[0].read
    assert [os.path.basename(p) for p in told if p.startswith("/proc/stat")] == ["stat"]


def test_a_slow_first_frame_does_not_shorten_a_recording(tmp_path: Path) -> None:
    """Its threads took longer than the whole time: counters are in two frames all the same."""
    write_tree(tmp_path / "root", {"/proc/stat": "procs_blocked 1\n"})

    class Slow(SystemClock):
        reading_seconds = 0.0

        def now(self) -> float:
            return super().now() + self.reading_seconds

    class SlowMachine(Machine):
        def watch(self, seen: Callable[[str, bytes], None] | None) -> None:
            super().watch(seen)
            clock.reading_seconds = 3.0

    clock, events = Slow(), queue.SimpleQueue[object]()
    path, root = str(tmp_path / "own.tar.xz"), str(tmp_path / "root")
    outcome = record(path, 4096, {}, lambda: SlowMachine(root), clock, events, for_seconds=1.2)
    assert (outcome.problem, outcome.frames >= 2) == ("", True)


def test_a_stop_that_came_before_leaves_one_frame(tmp_path: Path) -> None:
    """A recording has at least one frame."""
    write_tree(tmp_path / "root", {"/proc/stat": "procs_blocked 1\n"})
    events: queue.SimpleQueue[object] = queue.SimpleQueue()
    events.put(Stop("SIGINT"))
    path = str(tmp_path / "own.tar.xz")
    root = str(tmp_path / "root")
    assert record(path, 4096, {}, lambda: Machine(root), SystemClock(), events).frames == 1
    assert len(list(iter(Recording(path).next, None))) == 1
