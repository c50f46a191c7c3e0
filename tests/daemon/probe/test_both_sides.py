"""Daemon and probe with each other: the real client, the real process, and strange requests."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.probe import DEADLINE_SECONDS, Probe

from iowarden.collectors.model import ReadError
from iowarden.collectors.procfs.process_io import from_json
from iowarden.daemon.probe.protocol import (
    MAX_REPLY_BYTES,
    Cancel,
    Hello,
    Message,
    Request,
    encode,
)
from iowarden.daemon.probe_client.client import Client, Timeouts
from iowarden.daemon.probe_client.connect import connector, spawn

if TYPE_CHECKING:
    from collections.abc import Iterator

AT_ONCE = Timeouts(grace_seconds=0.2, pause_seconds=0.0)


def children() -> set[int]:
    """The processes that this one started and has not reaped."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a thread that has ended since
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


def reaped(pid: int) -> bool:
    """Wait until a child is gone, its zombie included."""
    for thread in threading.enumerate():
        if thread.name == "probe-child":
            thread.join(DEADLINE_SECONDS)
    return pid not in children()


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Client]:
    """A client that starts the probe itself, as a run in the foreground does."""
    client = Client(spawn(str(tmp_path / "run"), "--unprivileged"), time.monotonic, AT_ONCE)
    yield client
    assert client.close(DEADLINE_SECONDS)
    reaped(0)


def started(client: Client) -> int:
    """Ask something; return the process that was started for it."""
    before = children()
    assert "programs" in json.loads(client.request("programs", (), DEADLINE_SECONDS))
    (pid,) = children() - before
    return pid


def test_a_child_answers_and_ends_with_us(child: Client) -> None:
    """Started at the first request, in a session of its own; closed, it leaves no zombie."""
    assert not child.connected
    pid = started(child)
    assert os.getsid(pid) == pid
    assert child.connected
    assert "device_number" in json.loads(child.request("statvfs", ("/",), DEADLINE_SECONDS))["text"]
    with pytest.raises(ReadError, match="a program that root may run, got 'bash'"):
        child.request("run", ("bash", "-c", "id"), DEADLINE_SECONDS)
    assert child.close(DEADLINE_SECONDS)
    assert reaped(pid)


def test_a_child_that_is_killed_is_replaced(child: Client) -> None:
    """Somebody killed the probe; the next request, or the one after, is answered by another."""
    pid = started(child)
    os.kill(pid, signal.SIGKILL)
    assert reaped(pid)
    with contextlib.suppress(ReadError):  # it may be sent before the end is seen
        child.request("programs", (), DEADLINE_SECONDS)
    assert "programs" in child.request("programs", (), DEADLINE_SECONDS)


def test_a_child_that_is_stopped_is_left_and_replaced(child: Client) -> None:
    """SIGSTOP: who asks is told after the deadline, and the next one asks another probe."""
    pid = started(child)
    before = children()
    os.kill(pid, signal.SIGSTOP)
    try:
        while not children() - before:
            with contextlib.suppress(ReadError):
                child.request("programs", (), 0.1)
        assert "programs" in child.request("programs", (), DEADLINE_SECONDS)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_children_that_do_not_end_are_not_many(tmp_path: Path) -> None:
    """Stopped, or on a hung disk, they miss the end of their connection: no fourth starts."""
    connect = spawn(str(tmp_path / "run"), "--unprivileged")
    before = children()
    connections = [connect() for _ in range(3)]
    assert len(children() - before) == 3
    with pytest.raises(
        ChildProcessError, match=r"earlier processes .* were killed and have not ended"
    ):
        connect()
    for connection in connections:
        connection.close()
    assert reaped(0)
    connect().close()
    assert reaped(0)


def kernel_log_opens() -> bool:
    """Whether this user may read it here: its mode does not show that (kernel.dmesg_restrict)."""
    try:
        os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def test_two_sweeps_at_once_are_answered_one_after_the_other(child: Client) -> None:
    """The service reads who writes while somebody runs 'iowarden top'."""
    answers: list[str] = []
    other = threading.Thread(
        target=lambda: answers.append(child.request("io_sweep", (), DEADLINE_SECONDS))
    )
    other.start()
    answers.append(child.request("io_sweep", (), DEADLINE_SECONDS))
    other.join(DEADLINE_SECONDS)
    sweeps = [from_json(text) for text in answers]
    assert all(each.processes for each in sweeps)


@pytest.mark.skipif(not kernel_log_opens(), reason="needs a '/dev/kmsg' that can be read")
def test_the_kernels_messages_reach_the_daemon(child: Client) -> None:
    """The descriptor of a file that the daemon may not open."""
    descriptor = child.kernel_log(DEADLINE_SECONDS)
    try:
        assert os.readlink(f"/proc/self/fd/{descriptor}") == "/dev/kmsg"
        assert not os.get_blocking(descriptor)
    finally:
        os.close(descriptor)


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Probe]:
    """A probe that serves all requests."""
    one = Probe(tmp_path_factory.mktemp("p"))
    one.program("smartctl", "echo well")
    for name in ("debugfs", "xfs_io", "find", "btrfs"):
        one.program(name, "echo nonsense")
    mounts = one.root / "proc/1/mountinfo"
    mounts.parent.mkdir(parents=True)
    mounts.write_text("31 22 8:17 / /srv rw - xfs /dev/sdb1 rw\n")
    one.start()
    yield one
    one.close()


@pytest.fixture(scope="module")
def daemon(probe: Probe) -> Iterator[Client]:
    """The daemon's client next to the misbehaving one."""
    client = Client(connector(str(probe._path)), time.monotonic)
    yield client
    assert client.close(DEADLINE_SECONDS)


IDENTIFIERS = st.integers(-2, 3) | st.sampled_from([2**63 - 1, -(2**63) + 1])
WORDS = st.one_of(
    st.sampled_from(
        [
            *("smartctl", "-V", "-a", "--json=c", "/dev/sda", "/dev/../etc/shadow", "/", "/srv"),
            *("/proc/1/fd", "", "\0", "\n", "\udcff", "\ud800", "..", "-", "x" * 5000),
        ]
    ),
    st.text(max_size=10),
)
PLACES = st.sampled_from(["/dev/sda1", "/dev/shm/x", "/srv", "/etc", "/dev/md0", "/srv/../etc"])
NUMBERS = st.sampled_from(["0", "8", "65536", "65537", "-1", "1e3", "8;quit", "9" * 30, "\u0661"])
REQUESTS = st.builds(
    Request,
    IDENTIFIERS,
    st.sampled_from(
        [
            *("run", "tasks", "io_sweep", "journal", "newest", "statvfs", "kmsg", "programs"),
            *("scan", "ext4_owners", "xfs_owners", "btrfs_names", "dm_table", "dm_targets"),
            *("\udcff", ""),
        ]
    ),
    st.lists(WORDS, max_size=4).map(tuple)
    | st.just(("smartctl", "-V"))
    | st.tuples(PLACES, NUMBERS, NUMBERS)
    | st.tuples(PLACES, NUMBERS, NUMBERS, NUMBERS),
    st.sampled_from([1e-300, 0.001, 5.0, 600.0]),
    st.sampled_from([1, 50, MAX_REPLY_BYTES]),
)
TALK: st.SearchStrategy[Message] = st.one_of(REQUESTS, REQUESTS, st.builds(Cancel, IDENTIFIERS))


@given(st.lists(TALK, max_size=12), st.integers(200, 9000))
@settings(max_examples=60)
def test_strange_requests_are_answered_once_each_and_the_daemon_is_served(
    probe: Probe, daemon: Client, said: list[Message], piece_bytes: int
) -> None:
    """Repeated numbers, unknown verbs, arbitrary paths and limits, in pieces of any size.

    Each request has one answer, and nothing else is sent.
    """
    talk, log = probe.connect(), len(probe.text())
    whole = b"".join(encode(message) for message in said)
    for start in range(0, len(whole), piece_bytes):
        talk.stream.sendall(whole[start : start + piece_bytes])
    asked = [message.identifier for message in said if isinstance(message, Request)]
    assert sorted(talk.answer().identifier for _ in asked) == sorted(asked)
    talk.stream.shutdown(socket.SHUT_WR)
    with pytest.raises(EOFError):
        talk.receive()
    for descriptor in talk.descriptors:
        os.close(descriptor)
    talk.stream.close()
    value = json.loads(daemon.request("run", ("smartctl", "-V"), DEADLINE_SECONDS))
    assert value["stdout"] == "well\n"
    assert "Traceback" not in probe.text()[log:]


def test_a_daemon_of_another_version_is_distinguished(probe: Probe) -> None:
    """After an upgrade without a restart: the old side sees the end, the log has both versions."""
    talk = probe.connect(greet=False)
    talk.send(Hello(version=2))
    assert talk.closed()
    probe.until(lambda: "expected version 1, got 2" in probe.text(), "a line of the log")


def test_nothing_is_done_for_who_has_left(probe: Probe, daemon: Client) -> None:
    """It sends many requests and disconnects: no program keeps running, no descriptor stays."""
    probe.program("arcconf", "exec sleep 1000")
    pid = probe.process.pid if probe.process else 0

    def held() -> int:
        daemon.request("programs", (), DEADLINE_SECONDS)  # all earlier messages were handled
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))

    before, log = held(), len(probe.text())
    for _ in range(20):
        talk = probe.connect()
        talk.send(
            *(Request(number, "scan") for number in range(5)),
            Request(5, "run", ("arcconf", "list"), 600.0),
            *(Request(number, "kmsg") for number in range(6, 9)),
        )
        talk.stream.close()
    probe.until(lambda: held() <= before, "the end of what was asked")
    assert not Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    assert "Traceback" not in probe.text()[log:]
