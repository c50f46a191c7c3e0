"""The process that traces: what it serves to whom, and tracefs where this machine has it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.model import ReadError
from iowarden.daemon import json_codec
from iowarden.daemon.control import roles
from iowarden.daemon.trace import instance, protocol
from iowarden.daemon.trace.__main__ import OPERATOR_GROUP, Stop, main, serve
from iowarden.daemon.trace.protocol import TraceRequest, TraceResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOOP_CTL_ADD, LOOP_CTL_REMOVE = 0x4C80, 0x4C81
"""uapi/linux/loop.h."""
UNUSED_INDEX = 7919
TRACEFS = (
    "mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null;"
    " test -e /sys/kernel/tracing/events/block/block_rq_issue/format"
)
"""In a mount namespace of its own: this machine stays as it is."""
USABLE = (
    os.geteuid() == 0
    and subprocess.run(["unshare", "--mount", "sh", "-c", TRACEFS], check=False).returncode == 0
)
FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""The kernel's own; tracefs has its numbers. Source: include/uapi/linux/nsfs.h, PID_NS_INIT_INO."""
needs_tracefs = pytest.mark.skipif(not USABLE, reason="needs root and tracefs")


def answer(
    line: bytes, users: tuple[int, ...] = (os.geteuid(),), operators: int | None = None
) -> tuple[int, bytes]:
    """The exit status, and what it answers to a line."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(line)
        ours.shutdown(socket.SHUT_WR)
        status = serve(theirs, Stop(theirs), users, operators)
        theirs.shutdown(socket.SHUT_WR)
        return status, ours.makefile("rb").read()


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ("x", "expected JSON"),
        ("[]", "expected version 1"),
        ('{"version": 2}', "expected version 1"),
        ({"devices": []}, "expected 1 to 64 devices"),
        ({"devices": ["8:0"] * 65}, "expected 1 to 64 devices"),
        ({"devices": "8:0"}, "expected 1 to 64 devices"),
        ({"devices": ["sda"]}, "expected a device number such as 8:0, got 'sda'"),
        ({"devices": ["8:0 || 1 == 1"]}, "expected a device number"),
        ({"devices": [8]}, "expected a device number"),
        ({"seconds": 61}, "expected 0.1 to 60 seconds, got 61"),
        ({"seconds": -1}, "got -1"),
        ({"seconds": True}, "got True"),
        ({"seconds": "5"}, "got '5'"),
        ({"seconds": float("nan")}, "got nan"),
        ({"devices": ["999:7"]}, "expected a disk, got 999:7: no such device, or a partition"),
    ],
)
def test_a_refused_request_is_answered_with_what_is_expected(
    document: str | dict[str, object], error: str
) -> None:
    """Only numbers of devices and a time are taken; nothing of it reaches a filter or a path."""
    whole = {"version": protocol.VERSION, "devices": ["8:0"], "seconds": 5}
    line = document if isinstance(document, str) else json.dumps({**whole, **document})
    status, reply = answer(line.encode() + b"\n")
    assert status == 0
    assert error in json.loads(reply)["error"]


def test_no_other_user_may_trace(capsys: pytest.CaptureFixture[str]) -> None:
    """It gets no answer; the journal has its number."""
    line = protocol.encode_request(TraceRequest(("8:0",), 1))
    assert answer(line, users=(os.geteuid() + 1,)) == (77, b"")
    err = capsys.readouterr().err
    assert f"from user {os.geteuid()}: expected root, iowarden or a member of group" in err
    assert "'iowarden-operator'" in err


def test_the_group_that_may_trace_is_that_of_the_operators() -> None:
    """What runs as root does not import the service's module."""
    assert OPERATOR_GROUP == roles.OPERATOR_GROUP


def test_an_operator_may_trace() -> None:
    """A member of the group is neither root nor the service's user."""
    line = protocol.encode_request(TraceRequest(("999:7",), 1))
    status, reply = answer(line, users=(os.geteuid() + 1,), operators=os.getegid())
    assert (status, "999:7" in json.loads(reply)["error"]) == (0, True)


@pytest.mark.parametrize("line", [b"", b"{", b"x" * 5000])
def test_a_client_that_sends_no_line_gets_no_answer(
    line: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has disconnected, or sends without end."""
    assert answer(line) == (0, b"")
    assert "expected a line with a request, got none" in capsys.readouterr().err


def test_it_needs_a_connection(capsys: pytest.CaptureFixture[str]) -> None:
    """Started by hand it reports how it is started."""
    assert main([]) == 64
    assert "start it by systemd" in capsys.readouterr().err


def test_a_trace_ends_when_its_client_does() -> None:
    """Ctrl-C of the command closes the connection; systemd sends a signal."""
    ours, theirs = socket.socketpair()
    with theirs:
        stop = Stop(theirs)
        assert not stop.wait(0.0)
        ours.close()
        assert stop.wait(0.0)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stop = Stop(theirs)
        stop.end(signal.SIGTERM)
        assert stop.wait(0.0)


def test_what_a_killed_trace_left_is_found(tmp_path: Path) -> None:
    """Its process is gone, or its number is ours by now; those of others and running ones stay."""
    own, running = f"iowarden-{os.getpid()}", f"iowarden-{os.getppid()}"
    names = ("iowarden-0", own, running, "iowarden-x", "perf", "iowarden-99999999")
    for name in names:
        (tmp_path / name).mkdir()
    assert sorted(path.name for path in instance.remains(tmp_path)) == [
        *sorted(("iowarden-0", own, "iowarden-99999999"))
    ]


def test_a_directory_that_is_no_tracefs_is_an_error_and_stays_as_it_was(tmp_path: Path) -> None:
    """Not mounted: there is nothing. A directory only: what was made in it is removed."""
    with pytest.raises(ReadError, match=r"instances.*No such file"):
        instance.Instance([8 << 20], str(tmp_path)).__enter__()
    (tmp_path / "instances").mkdir()
    with pytest.raises(ReadError, match=r"events/header_page.*No such file"):
        instance.Instance([8 << 20], str(tmp_path)).__enter__()
    assert list((tmp_path / "instances").iterdir()) == []


# --- with the kernel of this machine


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Path]:
    """A loop device of 1 MiB."""
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    made = subprocess.run(
        ["losetup", "--find", "--show", image], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no loop device: {made.stderr}")
    device = Path(made.stdout.strip())
    yield device
    subprocess.run(["losetup", "--detach", device], check=True)


@pytest.fixture
def removable() -> Iterator[tuple[str, Callable[[], None]]]:
    """The number of a device without users, and what removes it from this machine."""
    try:
        control = os.open("/dev/loop-control", os.O_RDWR)
        index = fcntl.ioctl(control, LOOP_CTL_ADD, UNUSED_INDEX)
    except OSError as error:
        pytest.skip(f"no loop device: {error}")

    def remove() -> None:
        with contextlib.suppress(OSError):
            fcntl.ioctl(control, LOOP_CTL_REMOVE, index)

    yield Path(f"/sys/block/loop{index}/dev").read_text().strip(), remove
    remove()
    os.close(control)


def number_of(device: Path) -> str:
    """Major and minor number."""
    number = device.stat().st_rdev
    return f"{os.major(number)}:{os.minor(number)}"


class Traced:
    """A process that traces a device, in a mount namespace with tracefs."""

    def __init__(self, device: Path | str, seconds: float) -> None:
        """Start it, and send the request."""
        self.stream, theirs = socket.socketpair()
        with theirs:
            fd = str(theirs.fileno())
            command = [sys.executable, "-I", "-m", "iowarden.daemon.trace", "--descriptor", fd]
            self.process = subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", f'{TRACEFS} && exec "$@"', "sh", *command],
                pass_fds=(theirs.fileno(),),
            )
        text = device if isinstance(device, str) else number_of(device)
        self.stream.sendall(protocol.encode_request(TraceRequest((text,), seconds)))

    def answered(self, seconds: float) -> bool:
        """Whether there is an answer, or the process has ended."""
        return bool(select.select([self.stream], [], [], seconds)[0])

    def instances(self) -> list[str]:
        """The instances in tracefs, as this process sees them."""
        path = Path(f"/proc/{self.process.pid}/root/sys/kernel/tracing/instances")
        try:
            return [each.name for each in path.iterdir()]
        except OSError:
            return []

    def records(self) -> str:
        """Wait until it records; return the name of its instance."""
        own = f"iowarden-{self.process.pid}"
        while own not in self.instances():
            assert not self.answered(0.005), self.stream.recv(1000)
        return own

    def setting(self, name: str) -> str:
        """The content of a file of its instance."""
        root = f"/proc/{self.process.pid}/root/sys/kernel/tracing/instances"
        return Path(f"{root}/iowarden-{self.process.pid}/{name}").read_text()

    def close(self) -> None:
        """Disconnect, and wait for its end."""
        self.stream.close()
        self.process.wait()


@needs_tracefs
def test_reads_of_a_device_are_seen_as_they_are(loop: Path) -> None:
    """Direct reads of 4 KiB, by this program; nothing is left in tracefs afterwards."""
    traced = Traced(loop, 0.4)
    page = mmap.mmap(-1, 4096)
    disk = os.open(loop, os.O_RDONLY | os.O_DIRECT)
    while not traced.answered(0.002):
        os.preadv(disk, [page], 8192)
    os.close(disk)
    line = traced.stream.makefile("rb").readline()
    traced.close()
    found = json_codec.decode(TraceResult, json.dumps(json.loads(line)["trace"]))
    (of_loop,) = found.disks
    reads = [each for each in of_loop.latencies if each.operation == "read"]
    assert {each.size for each in reads} == {"all", "<= 4 KiB"}
    assert reads[0].requests > 10
    worst = next(each for each in of_loop.slowest if each.operation == "read")
    assert (worst.sector, worst.bytes) == (16, 4096)
    if Path("/proc/self/ns/pid").readlink() == Path(FIRST_PID_NAMESPACE):
        assert worst.pid == os.getpid()
    assert 0 < worst.seconds < found.seconds
    assert abs(worst.at_seconds - found.started_seconds) < found.seconds
    assert (found.lost_events, of_loop.vanished, of_loop.unmatched) == (0, False, 0)
    after = Traced(loop, 60)
    assert after.records() != f"iowarden-{traced.process.pid}"
    assert f"iowarden-{traced.process.pid}" not in after.instances()
    after.close()


@needs_tracefs
def test_only_the_disk_is_recorded_and_by_the_monotonic_clock(loop: Path) -> None:
    """The kernel drops the events of other disks; times of all processors have one order."""
    traced = Traced(loop, 60)
    traced.records()
    names = ("complete", "requeue", "issue")
    while "1" not in traced.setting("events/block/block_rq_issue/enable"):
        assert not traced.answered(0.005)
    major, minor = map(int, number_of(loop).split(":"))
    assert [traced.setting(f"events/block/block_rq_{name}/filter") for name in names] == (
        [f"dev == {major << 20 | minor}\n"] * 3
    )
    assert "[mono]" in traced.setting("trace_clock")
    traced.close()


@needs_tracefs
def test_a_killed_trace_is_cleared_away_by_the_next(loop: Path) -> None:
    """What SIGKILL leaves would record for ever; a client that goes and SIGTERM leave nothing."""
    killed = Traced(loop, 60)
    left = killed.records()
    killed.process.kill()
    killed.close()
    after = Traced(loop, 60)
    own = after.records()
    while left in after.instances():
        assert not after.answered(0.005)
    after.process.terminate()
    assert after.stream.recv(1) == b"{"
    after.close()
    last = Traced(loop, 60)
    last.records()
    assert own not in last.instances()
    last.close()
    assert last.process.returncode == 0


@needs_tracefs
def test_a_disk_that_vanishes_ends_its_trace(removable: tuple[str, Callable[[], None]]) -> None:
    """Pulled out: the result reports that at once, and not after the minute that was requested."""
    number, remove = removable
    traced = Traced(number, 60)
    traced.records()
    remove()
    line = traced.stream.makefile("rb").readline()
    traced.close()
    found = json_codec.decode(TraceResult, json.dumps(json.loads(line)["trace"]))
    assert [(each.vanished, each.requests) for each in found.disks] == [(True, 0)]
    assert found.seconds < 30
