"""The daemon's side of the probe, against a peer that sends what no probe should."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import select
import socket
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.smtp import DEADLINE_SECONDS

from iowarden.collectors.model import (
    AbsentError,
    DeadlineError,
    ProgramNotFoundError,
    ReadError,
    StuckError,
)
from iowarden.daemon.probe.children import read_process
from iowarden.daemon.probe.protocol import (
    LENGTH_BYTES,
    MAX_REPLY_BYTES,
    MAX_REQUEST_BYTES,
    VERSION,
    Cancel,
    Decoder,
    Hello,
    Message,
    ProbeReply,
    ReplyStatus,
    Request,
    Stuck,
    StuckNow,
    encode,
)
from iowarden.daemon.probe_client.client import (
    MAX_WAITING,
    TIMEOUTS,
    Client,
    Timeouts,
)
from iowarden.daemon.probe_client.connect import connector
from iowarden.daemon.probe_client.metrics import FAMILIES, UNREACHABLE, VERBS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

QUICK = Timeouts(grace_seconds=0.2, pause_seconds=0.0, max_pause_seconds=0.0)
HELLO = Hello(programs={"smartctl": "/usr/sbin/smartctl"})
HUNG = Stuck(812, 4711, ("/usr/sbin/smartctl", "-a", "/dev/sda"), ("host0",), ("sda",), 1000.0)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        """Start somewhere."""
        self.now = 100.0

    def __call__(self) -> float:
        """Return the current setting."""
        return self.now


class Peer:
    """The probe's end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        """Take a connected socket."""
        self.socket = connection
        self.socket.settimeout(DEADLINE_SECONDS)
        self._decoder = Decoder(MAX_REQUEST_BYTES)
        self._messages: list[Message] = []

    def next(self) -> Message:
        """Return the next message; EOFError at the end of the connection."""
        while not self._messages:
            received = self.socket.recv(65_536)
            if not received:
                raise EOFError
            self._messages += self._decoder.feed(received)
        return self._messages.pop(0)

    def request(self) -> Request:
        """Return the next message, which is a request."""
        message = self.next()
        assert isinstance(message, Request)
        return message

    def send(self, *messages: Message) -> None:
        """Send data."""
        self.socket.sendall(b"".join(encode(message) for message in messages))

    def greet(self, hello: Hello = HELLO) -> Peer:
        """Receive the greeting of the other side and return it."""
        assert self.next() == Hello()
        self.send(hello)
        return self

    def answer(self, request: Request, **value: Any) -> None:  # noqa: ANN401 - JSON
        """Answer a request."""
        self.send(ProbeReply(request.identifier, ReplyStatus.DONE, value=value))

    def ended(self) -> bool:
        """Wait for the end of the connection; data received before that is ignored."""
        with contextlib.suppress(ConnectionResetError, EOFError):
            while True:
                self.next()
        return True


class Peers:
    """Makes connections, and holds their other ends."""

    def __init__(self) -> None:
        """No connection yet; `refuse` is raised instead while it is set."""
        self.attempts = 0
        self.refuse: OSError | None = None
        self._made: queue.SimpleQueue[Peer] = queue.SimpleQueue()
        self._all: list[Peer] = []

    def connect(self) -> socket.socket:
        """Return a new connection."""
        self.attempts += 1
        if self.refuse is not None:
            raise self.refuse
        ours, theirs = socket.socketpair()
        self._all.append(Peer(theirs))
        self._made.put(self._all[-1])
        return ours

    def next(self) -> Peer:
        """Return the other end of the next connection, when it is made."""
        return self._made.get(timeout=DEADLINE_SECONDS)

    def next_greeted(self, client: Client) -> Peer:
        """Make a connection, and greet."""
        client.begin()
        return self.next().greet()

    def close(self) -> None:
        """Close all of them."""
        for peer in self._all:
            peer.socket.close()


class Asking:
    """A request that runs in its own thread."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        """Send it."""
        self._result: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._run, args=(ask,), daemon=True).start()

    def _run(self, ask: Callable[[], Any]) -> None:
        try:
            self._result.put(ask())
        except Exception as error:  # noqa: BLE001 - handed to the test
            self._result.put(error)

    def result(self) -> Any:  # noqa: ANN401 - whatever was asked
        """Return the answer, or raise the error."""
        result = self._result.get(timeout=DEADLINE_SECONDS)
        if isinstance(result, Exception):
            raise result
        return result


@pytest.fixture
def peers() -> Iterator[Peers]:
    """The source of connections."""
    made = Peers()
    yield made
    made.close()


@contextlib.contextmanager
def a_client(
    connect: Callable[[], socket.socket], limits: Timeouts = QUICK, clock: Clock | None = None
) -> Iterator[Client]:
    """Return a client that is closed at the end, including its thread."""
    client = Client(connect, clock or Clock(), limits)
    yield client
    assert client.close(DEADLINE_SECONDS)


@pytest.fixture
def client(peers: Peers) -> Iterator[Client]:
    """A client whose clock does not advance, and which does not wait between two connections."""
    with a_client(peers.connect) as made:
        yield made


def asking(client: Client, verb: str = "tasks", *arguments: str, seconds: float = 10.0) -> Asking:
    """Send a request in its own thread."""
    return Asking(lambda: client.request(verb, arguments, seconds))


def works(client: Client, peers: Peers) -> bool:
    """Whether a request on a new connection is answered."""
    question = asking(client)
    peer = peers.next().greet()
    peer.answer(peer.request(), fine=True)
    return bool(json.loads(question.result()) == {"fine": True})


def value(client: Client, name: str, **labels: str) -> float | None:
    """Return one sample's value, or None."""
    wanted = tuple(sorted(labels.items()))
    found = [sample[2] for sample in client.samples(1060.0) if sample[:2] == (name, wanted)]
    assert len(found) <= 1
    return found[0] if found else None


def test_answers_find_their_askers_in_any_order(client: Client, peers: Peers) -> None:
    """Two disks are polled over one connection; the second answers first."""
    first = asking(client, "run", "smartctl", "-a", "/dev/sda")
    peer = peers.next().greet()
    one = peer.request()
    second = asking(client, "run", "smartctl", "-a", "/dev/sdb")
    two = peer.request()
    peer.answer(two, disk="sdb")
    assert json.loads(second.result()) == {"disk": "sdb"}
    peer.answer(one, disk="sda")
    assert json.loads(first.result()) == {"disk": "sda"}
    assert (one.arguments, one.deadline_seconds) == (("smartctl", "-a", "/dev/sda"), 10.0)
    assert peers.attempts == 1
    assert client.programs == {"smartctl": "/usr/sbin/smartctl"}
    assert value(client, "iowarden_probe_requests_total", verb="run", outcome="done") == 2


def test_an_answer_may_come_byte_by_byte(client: Client, peers: Peers) -> None:
    """A probe that is starved of CPU time writes its frames in pieces."""
    question = asking(client)
    peer = peers.next()
    peer.next()
    for byte in encode(Hello()):
        peer.socket.sendall(bytes([byte]))
    for byte in encode(
        ProbeReply(peer.request().identifier, ReplyStatus.DONE, value={"a": "\udcff"})
    ):
        peer.socket.sendall(bytes([byte]))
    assert json.loads(question.result()) == {"a": "\udcff"}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "expected a frame of at most 8388608 bytes"),
        (
            (MAX_REPLY_BYTES + 1).to_bytes(LENGTH_BYTES, "big"),
            "at most 8388608 bytes, got 8388609",
        ),
        (encode(Hello(version=2)), "expected version 1 of the protocol, got 2"),
        (encode(StuckNow(())), "expected exactly one greeting, first, got a StuckNow"),
        (b"\0\0\0\2[]", "expected dict, got \\[\\]"),
        (b"", "the probe closed the connection before its greeting"),
        (encode(Hello())[:-3], "the probe closed the connection before its greeting"),
    ],
)
def test_a_peer_that_does_not_greet_is_reported_as_the_problem(
    client: Client, peers: Peers, said: bytes, expected: str
) -> None:
    """Another program at the socket, or a probe of another version: the request fails at once."""
    question = asking(client)
    peer = peers.next()
    peer.next()
    peer.socket.sendall(said)
    peer.socket.shutdown(socket.SHUT_WR)
    with pytest.raises(ReadError, match=expected):
        question.result()
    assert peer.ended()
    assert "no connection to the probe since 20" in client.problem
    assert not client.connected
    assert value(client, "iowarden_probe_up") == 0
    assert value(client, "iowarden_probe_requests_total", verb="tasks", outcome=UNREACHABLE) == 1
    assert works(client, peers)
    assert client.problem == ""
    assert client.connected
    assert value(client, "iowarden_probe_up") == 1


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"\xff" * 40, "expected a frame of at most"),
        (encode(Hello()), "expected exactly one greeting"),
        (encode(Request(1, "run")), "got a Request message"),
        (
            encode(ProbeReply(7, ReplyStatus.DONE)),
            "got an answer to request 7, which was never sent",
        ),
        (
            encode(ProbeReply(-1, ReplyStatus.DONE)),
            "got an answer to request -1, which was never sent",
        ),
        (
            encode(ProbeReply(1, ReplyStatus.DONE))[:9],
            "the probe closed the connection with requests unanswered",
        ),
        (b"", "the probe closed the connection with requests unanswered"),
    ],
)
def test_a_peer_that_talks_nonsense_fails_what_is_open(
    client: Client, peers: Peers, said: bytes, expected: str
) -> None:
    """Whatever arrives instead of an answer, both callers get an error, the next one is served."""
    questions = [asking(client), asking(client)]
    peer = peers.next().greet()
    assert {peer.request().identifier, peer.request().identifier} == {1, 2}
    peer.socket.sendall(said)
    peer.socket.shutdown(socket.SHUT_WR)
    for question in questions:
        with pytest.raises(ReadError, match=expected):
            question.result()
    assert peer.ended()
    assert works(client, peers)


def test_a_second_answer_and_one_too_late_are_passed_over(client: Client, peers: Peers) -> None:
    """The answer to an abandoned request crosses our cancellation; the connection stays open."""
    late = asking(client, seconds=0.1)
    peer = peers.next().greet()
    request = peer.request()
    peer.send(StuckNow(()))
    heard = asking(client)
    other = peer.request()
    with pytest.raises(ReadError, match=r"did not answer within 100 ms, the request is cancelled"):
        late.result()
    peer.answer(other, first=1)
    peer.answer(other, second=2)
    peer.answer(request)
    assert json.loads(heard.result()) == {"first": 1}
    again = asking(client)
    while isinstance(message := peer.next(), Cancel):
        assert message.identifier == request.identifier
    assert isinstance(message, Request)
    peer.answer(message)
    assert json.loads(again.result()) == {}
    assert value(client, "iowarden_probe_requests_total", verb="tasks", outcome="cancelled") == 1


def test_what_is_given_up_is_cancelled(peers: Peers) -> None:
    """No caller waits for it any longer, so that the probe may kill what runs for it."""
    clock = Clock()
    with a_client(peers.connect, clock=clock) as client:
        question = asking(client, seconds=0.1)
        peer = peers.next().greet()
        request = peer.request()
        clock.now += 1
        peer.send(StuckNow(()))
        assert peer.next() == Cancel(request.identifier)
        with pytest.raises(ReadError, match="cancelled"):
            question.result()


def test_a_stopped_probe_keeps_nobody(peers: Peers) -> None:
    """SIGSTOP: it neither reads nor answers; callers get an error, and a new connection is made."""
    clock = Clock()
    with a_client(peers.connect, clock=clock) as client:
        question = asking(client, seconds=0.1)
        peer = peers.next().greet()
        peer.request()
        with pytest.raises(ReadError, match="the probe did not answer within"):
            question.result()
        assert peer.next() == Cancel(1)  # the greeting was received at the same moment
        clock.now += 10
        waiting, question = asking(client), asking(client, seconds=0.1)
        with pytest.raises(ReadError):
            question.result()
        with pytest.raises(ReadError, match="the probe sent nothing until the deadline"):
            waiting.result()
        assert peer.ended()
        assert works(client, peers)


def test_a_probe_that_does_not_read_is_left(peers: Peers) -> None:
    """Requests fill the socket, and none is read for 30 s: all callers get an error."""
    clock = Clock()
    with a_client(peers.connect, clock=clock) as client:
        peer = peers.next_greeted(client)
        calls = [client._post("newest", ("x" * 60_000,), 1e9) for _ in range(20)]
        assert peer.socket.recv(1)
        # One that the thread has not taken yet would use the next connection, and wait there.
        while any(call.sent_at is None for call in calls):
            assert not calls[0].done.wait(0.01)
        while not calls[0].done.wait(0.05):
            clock.now += TIMEOUTS.unread_seconds  # each request makes the thread check the clock
            calls.append(client._post("tasks", (), 1e9))
        for call in calls[:20]:
            assert call.done.wait(DEADLINE_SECONDS)
            assert "the probe read no request for" in str(call.error)


def test_a_connection_that_takes_forever_keeps_nobody(peers: Peers) -> None:
    """The interpreter of a foreground probe is on a hung disk: its start never returns."""
    release = threading.Event()

    def connect() -> socket.socket:
        release.wait(DEADLINE_SECONDS)
        return peers.connect()

    with a_client(connect) as client:
        with pytest.raises(ReadError, match="the request was not sent"):
            client.request("tasks", (), 0.1)
        release.set()


def test_a_greeting_after_the_deadline_is_too_late(peers: Peers) -> None:
    """A request past its deadline is not started, on a machine that was very slow."""
    clock = Clock()
    with a_client(peers.connect, clock=clock) as client:
        question = asking(client, seconds=3.0)
        peer = peers.next()
        clock.now += 4.0
        peer.greet()
        with pytest.raises(ReadError, match="connected to the probe only after the deadline"):
            question.result()
        question = asking(client, seconds=3.0)
        assert peer.request().identifier == 2


def test_a_probe_that_receives_and_reports_nothing_is_left(peers: Peers) -> None:
    """Without a greeting for 5 s the request fails, long before its own deadline."""
    with a_client(peers.connect, dataclasses.replace(QUICK, hello_seconds=0.0)) as client:
        with pytest.raises(ReadError, match="the probe sent no greeting within 0 s"):
            client.request("tasks", (), 600.0)
        assert peers.next().ended()


@pytest.mark.parametrize(
    ("outcome", "error", "expected"),
    [
        (ReplyStatus.MISSING, ProgramNotFoundError, "install it"),
        (ReplyStatus.STUCK, StuckError, "after SIGKILL"),
        (ReplyStatus.BUSY, ReadError, "the controller was busy until the deadline: "),
        (ReplyStatus.TIMEOUT, DeadlineError, "': timed out: "),
        (ReplyStatus.OVERFLOW, ReadError, "at most 8388608 bytes"),
        (ReplyStatus.REFUSED, ReadError, "the probe refused the request: "),
        (ReplyStatus.FAILED, ReadError, "': failed: "),
        (ReplyStatus.CANCELLED, ReadError, "': was cancelled: "),
    ],
)
def test_each_outcome_has_its_error(
    client: Client, peers: Peers, outcome: ReplyStatus, error: type[Exception], expected: str
) -> None:
    """The text names the request and repeats the probe's error, sanitized for any log."""
    question = asking(client, "run", "smartctl", "-a", "/dev/sda")
    peer = peers.next().greet()
    said = "smartctl (812) since 10:00\udcff" + "x" * 100_000
    peer.send(ProbeReply(peer.request().identifier, outcome, said))
    with pytest.raises(error, match=expected) as caught:
        question.result()
    assert type(caught.value) is error
    text = str(caught.value)
    assert "'run smartctl -a /dev/sda': " in text
    assert "smartctl (812) since 10:00\\udcff" in text
    assert len(text.encode()) < 1000
    assert value(client, "iowarden_probe_requests_total", verb="run", outcome=outcome) == 1


def test_a_request_that_no_probe_would_take_is_not_sent(client: Client, peers: Peers) -> None:
    """A frame that is too long would end the connection of all others; they do not notice it."""
    peer = peers.next_greeted(client)
    with pytest.raises(ReadError, match=f"at most {MAX_REQUEST_BYTES} bytes"):
        client.request("newest", ("\udcff" * 20_000,), 10.0)
    with pytest.raises(ValueError, match="up to 64 arguments"):
        client.request("run", ("x",) * 65, 10.0)
    with pytest.raises(ValueError, match="a deadline up to 10 min"):
        client.request("run", (), float("nan"))
    question = asking(client)
    peer.answer(peer.request())
    assert question.result() == "{}"


def test_requests_that_wait_are_bounded(client: Client, peers: Peers) -> None:
    """A probe that answers nothing does not accumulate requests without limit."""
    peer = peers.next_greeted(client)
    calls = [client._post("tasks", (), 600.0) for _ in range(MAX_WAITING)]
    with pytest.raises(ReadError, match=f"{MAX_WAITING} requests already wait"):
        client.request("tasks", (), 10.0)
    assert value(client, "iowarden_probe_open_requests") == MAX_WAITING
    for _ in range(MAX_WAITING):
        peer.answer(peer.request())
    assert all(call.done.wait(DEADLINE_SECONDS) for call in calls)
    question = asking(client)
    peer.answer(peer.request())
    assert question.result() == "{}"


def test_nobody_listens(tmp_path: Path) -> None:
    """Without the socket there is no probe at all; a socket without a server is a fault."""
    path = str(tmp_path / "probe.socket")
    with a_client(connector(path)) as client:
        assert value(client, "iowarden_probe_up") is None
        with pytest.raises(AbsentError, match=r"No such file .*probe.socket"):
            client.request("tasks", (), 10.0)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path)
            with pytest.raises(ReadError, match="Connection refused"):
                client.request("tasks", (), 10.0)
            listening.listen(0)
            first, second = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
            with first, second:
                first.connect(path)
                second.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    second.connect(path)
                with pytest.raises(ReadError, match="Resource temporarily unavailable"):
                    client.request("tasks", (), 10.0)
                question = asking(client, seconds=60.0)
                with pytest.raises(ReadError):
                    question.result()


def test_a_socket_that_systemd_made_is_used(tmp_path: Path) -> None:
    """The path of the installed service: a socket path, a connection, an answer."""
    path = str(tmp_path / "probe.socket")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.settimeout(DEADLINE_SECONDS)
        listening.bind(path)
        listening.listen()
        with a_client(connector(path)) as client:
            question = asking(client)
            connection, _ = listening.accept()
            with connection:
                peer = Peer(connection).greet()
                peer.answer(peer.request())
                assert question.result() == "{}"


def test_attempts_become_rarer_while_they_fail(peers: Peers) -> None:
    """After 1 s, 2 s, 4 s ... 60 s; requests in between fail at once, with the same text."""
    clock = Clock()
    peers.refuse = PermissionError(13, "Permission denied")
    with a_client(peers.connect, TIMEOUTS, clock) as client:
        for number, pause in enumerate((1, 2, 4, 8, 16, 32, 60, 60), 1):
            for _ in range(2):
                with pytest.raises(ReadError, match=r"since 20.* UTC: .*Permission denied"):
                    client.request("tasks", (), 600.0)
                assert peers.attempts == number
            clock.now += pause - 0.5
            with pytest.raises(ReadError):
                client.request("tasks", (), 600.0)
            assert peers.attempts == number
            clock.now += 0.5
        peers.refuse = None
        question = asking(client)
        peer = peers.next().greet()
        peer.answer(peer.request())
        question.result()
        peers.refuse = PermissionError(13, "Permission denied")
        peer.socket.sendall(b"\xff" * 8)
        assert peer.ended()
        made = peers.attempts
        for pause, expected in (
            (0, "bytes, got 4294967295"),
            (1, "denied"),
            (1, "denied"),
            (1, "denied"),
        ):
            clock.now += pause
            with pytest.raises(ReadError, match=expected):
                client.request("tasks", (), 600.0)
        assert peers.attempts == made + 2  # after 1 s and 2 s more: answered in between


def test_a_connection_that_nobody_needs_is_closed(peers: Peers) -> None:
    """After 20 s, so that the probe can end; it is no fault, and the next request makes another."""
    with a_client(peers.connect, dataclasses.replace(TIMEOUTS, idle_seconds=0.0)) as client:
        assert works(client, peers)
        question = asking(client)
        peer = peers.next().greet()
        peer.answer(peer.request())
        question.result()
        assert peer.ended()
        assert client.problem == ""
        assert value(client, "iowarden_probe_up") == 1


def test_the_probe_is_kept_while_something_hangs(peers: Peers) -> None:
    """It reports when the program ends; until then it stays open, however long it is idle."""
    clock = Clock()
    with a_client(peers.connect, TIMEOUTS, clock) as client:
        client.begin()
        peer = peers.next().greet(Hello(stuck=(HUNG,)))
        question = asking(client)
        peer.answer(peer.request())
        question.result()
        assert client.stuck == (HUNG,)
        clock.now += 10 * TIMEOUTS.idle_seconds
        two = dataclasses.replace(HUNG, pid=813, devices=("sda", "sdb"))
        peer.send(StuckNow((HUNG, two)))
        question = asking(client)
        peer.answer(peer.request())
        question.result()
        names = {"program": "smartctl", "controller": "host0"}
        seconds = "iowarden_probe_program_stuck_seconds"
        assert value(client, seconds, pid="812", device="sda", **names) == 60.0
        assert value(client, seconds, pid="813", device="sdb", **names) == 60.0
        assert value(client, "iowarden_probe_programs_stuck") == 2
        peer.send(StuckNow(()))
        question = asking(client)
        peer.answer(peer.request())
        question.result()
        assert client.stuck == ()
        assert value(client, "iowarden_probe_programs_stuck") == 0
        assert peers.attempts == 1


def test_a_probe_that_ends_while_something_hangs_is_queried_again(
    client: Client, peers: Peers
) -> None:
    """Restarted, it finds the program again, or its end: the client checks without a request."""
    client.begin()
    peers.next().greet(Hello(stuck=(HUNG,))).socket.close()
    peer = peers.next().greet(Hello())
    question = asking(client)
    peer.answer(peer.request())
    question.result()
    assert client.stuck == ()


@pytest.fixture
def hanging() -> Iterator[tuple[Stuck, subprocess.Popen[bytes]]]:
    """A live process, as if it hung, and what the probe would report of it."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        found = read_process(process.pid)
        assert found is not None
        yield dataclasses.replace(HUNG, pid=process.pid, start_ticks=found.start_ticks), process
        process.kill()


def test_what_hung_before_a_restart_hangs_until_the_probe_reports_otherwise(
    peers: Peers, hanging: tuple[Stuck, subprocess.Popen[bytes]]
) -> None:
    """No probe answers yet, after a restart of iowarden: nothing is resolved until one does."""
    peers.refuse = ConnectionRefusedError(111, "Connection refused")
    with a_client(peers.connect) as client:
        client.remember((hanging[0],))
        question = asking(client)
        with pytest.raises(ReadError):
            question.result()
        assert client.stuck == (hanging[0],)
        peers.refuse = None
        peer = peers.next().greet(Hello())
        question = asking(client)
        peer.answer(peer.request())
        question.result()
        assert client.stuck == ()
        client.remember((hanging[0],))  # state.db is loaded late
        assert client.stuck == ()


def test_what_hung_before_a_reboot_is_over_though_no_probe_reports(
    peers: Peers, hanging: tuple[Stuck, subprocess.Popen[bytes]]
) -> None:
    """Its number is unused now, or belongs to a later process: that is visible without root."""
    peers.refuse = ConnectionRefusedError(111, "Connection refused")
    with a_client(peers.connect) as client:
        later = dataclasses.replace(hanging[0], start_ticks=hanging[0].start_ticks - 1)
        client.remember((later, hanging[0]))
        assert client.stuck == (hanging[0],)


def test_what_ends_while_the_probe_is_away_is_over(
    peers: Peers, hanging: tuple[Stuck, subprocess.Popen[bytes]]
) -> None:
    """The disk answered again, the probe does not: each attempt to connect checks for it."""
    peers.refuse = ConnectionRefusedError(111, "Connection refused")
    with a_client(peers.connect) as client:
        client.remember((hanging[0],))
        hanging[1].kill()
        hanging[1].wait()
        question = asking(client)
        with pytest.raises(ReadError):
            question.result()
        assert client.stuck == ()


def test_a_stuck_program_without_a_device_has_no_such_label(client: Client, peers: Peers) -> None:
    """A vendor's program is about a controller; the name that it printed is made printable."""
    client.begin()
    hung = dataclasses.replace(HUNG, arguments=("/opt/\udcff/cli64",), devices=())
    peers.next().greet(Hello(stuck=(hung, hung)))
    question = asking(client, seconds=0.1)
    with pytest.raises(ReadError):
        question.result()
    assert (
        value(
            client,
            "iowarden_probe_program_stuck_seconds",
            program="cli64",
            controller="host0",
            pid="812",
        )
        == 60.0
    )


def test_the_kernel_log_is_handed_over(client: Client, peers: Peers) -> None:
    """The descriptor that comes with the answer belongs to the caller, and is not inherited."""
    question = Asking(client.kernel_log)
    peer = peers.next().greet()
    request = peer.request()
    assert (request.verb, request.arguments) == ("kmsg", ())
    reading, writing = os.pipe()
    other = encode(StuckNow(()))  # read together with the message that carries the descriptor
    peer.socket.sendall(other)
    socket.send_fds(
        peer.socket, [encode(ProbeReply(request.identifier, ReplyStatus.DONE))], [reading]
    )
    descriptor = question.result()
    try:
        os.write(writing, b"6,1,1,-;hello")
        assert os.read(descriptor, 100) == b"6,1,1,-;hello"
        assert not os.get_inheritable(descriptor)
    finally:
        for each in (reading, writing, descriptor):
            os.close(each)


def closed_by_all(reading: int) -> bool:
    """Wait until the other end of a pipe is closed everywhere."""
    poll = select.poll()
    poll.register(reading, select.POLLHUP)
    found = poll.poll(DEADLINE_SECONDS * 1000)
    os.close(reading)
    return bool(found)


@pytest.mark.parametrize(
    "message", [StuckNow(()), ProbeReply(1, ReplyStatus.DONE), ProbeReply(9, ReplyStatus.DONE)]
)
@pytest.mark.parametrize("count", [1, 2, 200])
def test_descriptors_that_nobody_requested_are_closed(
    client: Client, peers: Peers, message: Message, count: int
) -> None:
    """However many arrive, and with whatever message: none is left in the daemon."""
    question = asking(client)
    peer = peers.next().greet()
    peer.request()
    reading, writing = os.pipe()
    socket.send_fds(peer.socket, [encode(message)], [writing] * count)
    os.close(writing)
    assert closed_by_all(reading)
    peer.socket.close()
    with contextlib.suppress(ReadError):
        question.result()


def test_a_descriptor_in_half_a_frame_is_closed_with_the_connection(
    client: Client, peers: Peers
) -> None:
    """The probe died while it passed the descriptor of the kernel log."""
    question = Asking(client.kernel_log)
    peer = peers.next().greet()
    frame = encode(ProbeReply(peer.request().identifier, ReplyStatus.DONE))
    reading, writing = os.pipe()
    socket.send_fds(peer.socket, [frame[:1]], [writing])
    socket.send_fds(peer.socket, [frame[1:9]], [writing])
    os.close(writing)
    peer.socket.close()
    with pytest.raises(ReadError, match="the probe closed the connection with"):
        question.result()
    assert closed_by_all(reading)


def test_a_kernel_log_that_nobody_waits_for_is_closed(client: Client, peers: Peers) -> None:
    """The answer arrived after its deadline."""
    peer = peers.next_greeted(client)
    with pytest.raises(ReadError, match="cancelled"):
        client.kernel_log(0.1)
    reading, writing = os.pipe()
    answer = encode(ProbeReply(peer.request().identifier, ReplyStatus.DONE))
    socket.send_fds(peer.socket, [answer], [writing])
    os.close(writing)
    assert closed_by_all(reading)


def test_the_kernel_log_as_text_leaves_no_descriptor(client: Client, peers: Peers) -> None:
    """A caller that requests only the value gets only the value."""
    question = asking(client, "kmsg")
    peer = peers.next().greet()
    reading, writing = os.pipe()
    answer = encode(ProbeReply(peer.request().identifier, ReplyStatus.DONE))
    socket.send_fds(peer.socket, [answer], [writing])
    os.close(writing)
    assert question.result() == "{}"
    assert closed_by_all(reading)


def test_an_answer_without_the_kernel_log_is_an_error(client: Client, peers: Peers) -> None:
    """A probe that opened nothing reports an error, or the daemon does."""
    question = Asking(client.kernel_log)
    peer = peers.next().greet()
    peer.answer(peer.request())
    with pytest.raises(ReadError, match="expected a file descriptor with the answer, got none"):
        question.result()


def test_the_end_of_iowarden_is_the_end_of_each_request(peers: Peers) -> None:
    """No caller is left waiting, the connection is closed, and no request is accepted."""
    client = Client(peers.connect, Clock())
    question = asking(client, seconds=600.0)
    peer = peers.next().greet()
    peer.request()
    assert client.close(DEADLINE_SECONDS)
    with pytest.raises(ReadError):
        question.result()
    assert peer.ended()
    with pytest.raises(ReadError, match="not sent to the probe: iowarden is stopping"):
        client.request("tasks", (), 10.0)
    client.begin()
    assert client.close(DEADLINE_SECONDS)
    unused = Client(peers.connect, Clock())
    assert unused.close(0.0)
    assert unused.close(0.0)


def test_every_series_is_there_before_the_first_request(client: Client) -> None:
    """Rates need a 0 to start from; whether the probe is up is unknown before the first attempt."""
    samples = client.samples(0.0)
    assert len({sample[:2] for sample in samples}) == len(samples)
    assert {name for name, _, _ in samples} == {family.name for family in FAMILIES} - {
        "iowarden_probe_up",
        "iowarden_probe_program_stuck_seconds",
    }
    assert {number for _, _, number in samples} == {0}
    totals = [labels for name, labels, _ in samples if name == "iowarden_probe_requests_total"]
    assert len(totals) == len(VERBS) * (len(ReplyStatus) + 1)


MESSAGES: list[Message] = [
    Hello(),
    Hello(VERSION + 1),
    StuckNow((HUNG,)),
    StuckNow(()),
    ProbeReply(1, ReplyStatus.DONE),
    ProbeReply(1, ReplyStatus.STUCK, "x"),
    ProbeReply(2, ReplyStatus.DONE),
    Request(1, "run"),
    Cancel(1),
]
PIECES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([encode(message) for message in MESSAGES]),
    st.sampled_from([encode(message)[:9] for message in MESSAGES]),
)


@given(st.booleans(), st.lists(PIECES, max_size=6))
@settings(max_examples=150)
def test_whatever_a_peer_reports_the_next_request_is_served(
    greets: bool, said: list[bytes]
) -> None:
    """Only the errors that callers expect are raised, and connections do not affect each other."""
    peers = Peers()
    with contextlib.closing(peers), a_client(peers.connect) as client:
        question = asking(client, seconds=0.1)
        peer = peers.next()
        if greets:
            peer.greet()
        with contextlib.suppress(ConnectionError):
            for piece in said:
                peer.socket.sendall(piece)
        peer.socket.shutdown(socket.SHUT_WR)
        with contextlib.suppress(AbsentError, ReadError):
            assert question.result() == "{}"
        assert peer.ended()
        assert works(client, peers)
