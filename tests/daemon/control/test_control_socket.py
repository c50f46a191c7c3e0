"""The control socket: real sockets, well-behaved and misbehaving clients."""

from __future__ import annotations

import contextlib
import grp
import json
import os
import pwd
import queue
import resource
import socket
import stat
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iowarden.daemon.control import control_socket, listen, peer
from iowarden.daemon.control.documents import AddSilence, EventLine
from iowarden.daemon.control.roles import (
    ACTIONS,
    OPERATOR_GROUP,
    QUERIES,
    SERVICE_GROUP,
    VIEWER_GROUP,
    Role,
    RoleGroups,
    narrowing,
    refusal,
    required,
)
from iowarden.daemon.json_codec import CodecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

DEADLINE_SECONDS = 30.0
NOBODY = 65534
NAME = pwd.getpwuid(os.geteuid()).pw_name

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")


class Service:
    """A control socket; the test acts as the main loop and answers its commands, or not."""

    def __init__(
        self,
        path: Path,
        post: Callable[[control_socket.ControlCommand], object] | None = None,
        groups: RoleGroups | None = None,
    ) -> None:
        """Serve a path."""
        self.path = str(path)
        self.commands: queue.SimpleQueue[control_socket.ControlCommand] = queue.SimpleQueue()
        self.troubles: list[str] = []
        self.control = control_socket.Control(
            listen.bind(self.path),
            post or self.commands.put,
            self.troubles.append,
            groups=groups or RoleGroups(),
            remove=self.path,
        )

    def take(self) -> control_socket.ControlCommand:
        """Return the next command."""
        return self.commands.get(timeout=DEADLINE_SECONDS)


class Client:
    """One connection."""

    def __init__(self, path: str) -> None:
        """Connect."""
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)  # waits while the service's queue is full
        self.socket.settimeout(DEADLINE_SECONDS)
        self.file = self.socket.makefile("rb")

    def send(self, text: bytes) -> None:
        """Send bytes; that the other side has closed is no error."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(text)

    def line(self) -> dict[str, Any]:
        """Return the next line; {} when the connection has ended."""
        try:
            text = self.file.readline()
        except ConnectionResetError:
            return {}
        found: dict[str, Any] = json.loads(text) if text else {}
        return found

    def ask(self, command: str, **arguments: object) -> None:
        """Send a request."""
        self.send(json.dumps({"command": command, **arguments}).encode() + b"\n")

    def close(self) -> None:
        """Close the connection."""
        self.file.close()
        self.socket.close()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """Return a service without requests."""
    made = Service(tmp_path / "control.sock")
    yield made
    made.control.close()


@pytest.fixture
def connect(service: Service) -> Iterator[Callable[[], Client]]:
    """Return a function that connects to the service; connections are closed at the end."""
    clients: list[Client] = []

    def make() -> Client:
        clients.append(Client(service.path))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def is_answered(service: Service, client: Client) -> bool:
    """Whether a client gets an answer to a request."""
    client.ask("status", mark="mine")
    command = service.take()
    while command.arguments.get("mark") != "mine":
        command = service.take()
    command.reply({"answer": {"mark": "mine"}})
    return client.line() == {"answer": {"mark": "mine"}}


def test_who_asks_is_told_by_the_kernel(service: Service, connect: Callable[[], Client]) -> None:
    """A request has arguments and the user's name; the answer reaches the client."""
    client = connect()
    client.ask("query", expression="up", who="somebody else")
    command = service.take()
    assert (command.name, command.who) == ("query", f"{NAME} (uid {os.geteuid()})")
    assert command.arguments == {"expression": "up", "who": "somebody else"}
    command.reply({"answer": {"kind": "vector"}})
    assert client.line() == {"answer": {"kind": "vector"}}


def test_each_gets_its_own_answer(service: Service, connect: Callable[[], Client]) -> None:
    """Two clients; the second is answered first."""
    first, second = connect(), connect()
    first.ask("status", number=1)
    one = service.take()
    second.ask("status", number=2)
    two = service.take()
    two.reply({"answer": 2})
    one.reply({"answer": 1})
    assert (first.line(), second.line()) == ({"answer": 1}, {"answer": 2})


def test_several_lines_are_answered_one_after_the_other(
    service: Service, connect: Callable[[], Client]
) -> None:
    """A script sends all requests at once; the main loop gets the next after its answer."""
    client = connect()
    client.send(b'{"command": "status"}\n{"command": "ack"}\n{"comm')
    command = service.take()
    assert service.commands.empty()
    command.reply({"answer": 1})
    assert client.line() == {"answer": 1}
    service.take().reply({"error": "expected an incident"})
    assert client.line() == {"error": "expected an incident"}
    client.send(b'and": "query"}\n')
    assert service.take().name == "query"


def test_a_client_that_only_listens_any_more_is_answered(
    service: Service, connect: Callable[[], Client]
) -> None:
    """`echo ... | nc -U -N` closes its side before the answer, and then waits for our end."""
    client = connect()
    client.ask("status")
    client.socket.shutdown(socket.SHUT_WR)
    service.take().reply({"answer": 1})
    assert client.line() == {"answer": 1}
    assert client.line() == {}


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1",
        b"",
        b"[]",
        b"7",
        b'"status"',
        b"{}",
        b'{"command": 7}',
        b'{"command": null}',
        b"\xff\xfe\x00",
        b'{"command": "silence add", "for_seconds": NaN}',
        b'{"command": "silence add", "for_seconds": Infinity}',
        b'{"n": ' + b"9" * 5000 + b"}",
        b"[" * 60_000,
        b'{"command": "status", "a": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001,
    ],
    ids=lambda line: repr(line[:20]),
)
def test_garbage_is_refused(service: Service, connect: Callable[[], Client], line: bytes) -> None:
    """An invalid request gets an error and is closed; the next client is served."""
    client = connect()
    client.send(line + b"\n")
    assert "expected" in client.line()["error"]
    assert client.line() == {}
    assert is_answered(service, connect())


def test_an_unknown_command_is_named(service: Service, connect: Callable[[], Client]) -> None:
    """An unknown command keeps the connection; the error lists the valid commands."""
    client = connect()
    client.ask("stauts")
    error = client.line()["error"]
    assert "stauts" in error
    assert "status" in error
    assert is_answered(service, client)


def test_a_line_without_end_is_refused(service: Service, connect: Callable[[], Client]) -> None:
    """More than 64 KiB are never buffered."""
    client = connect()
    client.send(b"x" * (control_socket.MAX_LINE_BYTES + 1))
    assert str(control_socket.MAX_LINE_BYTES) in client.line()["error"]
    assert client.line() == {}
    assert is_answered(service, connect())


def test_half_a_line_is_not_waited_for(
    service: Service, connect: Callable[[], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that stops in the middle of a line gets an error and is closed."""
    monkeypatch.setattr(control_socket, "LINE_SECONDS", 0.05)
    client = connect()
    client.send(b'{"command": "sta')
    assert "part" in client.line()["error"]
    assert client.line() == {}


def test_a_silent_client_is_hung_up_on_and_a_follower_is_not(
    service: Service, connect: Callable[[], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower stays connected without events."""
    monkeypatch.setattr(control_socket, "IDLE_SECONDS", 0.05)
    follower = connect()
    follower.ask("events", follow=True)
    service.take().reply({"answer": {"events": []}})
    assert follower.line() == {"answer": {"events": []}}
    assert connect().line() == {}  # came later, and has been hung up on
    service.control.publish(EventLine(text="the sun rises"))
    assert follower.line()["event"]["text"] == "the sun rises"


def test_a_loop_that_does_not_answer_is_reported(
    service: Service, connect: Callable[[], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timeout is an error; a late answer is not sent for the next request."""
    monkeypatch.setattr(control_socket, "ANSWER_SECONDS", 0.05)
    client = connect()
    client.ask("status")
    late = service.take()
    assert "no answer of the main loop in" in client.line()["error"]
    monkeypatch.undo()
    client.ask("query")
    command = service.take()
    late.reply({"answer": "late"})
    command.reply({"answer": "right"})
    command.reply({"answer": "twice"})
    assert client.line() == {"answer": "right"}
    assert is_answered(service, client)


def test_a_follower_gets_each_event_once(service: Service, connect: Callable[[], Client]) -> None:
    """Events published before the answer are in it, later ones follow it."""
    follower, other = connect(), connect()
    follower.ask("events", follow=True)
    command = service.take()
    service.control.publish({"number": 1})
    command.reply({"answer": {"events": [{"number": 1}]}})
    service.control.publish({"number": 2})
    service.control.publish({"number": 3})
    assert [follower.line() for _ in range(3)] == [
        {"answer": {"events": [{"number": 1}]}},
        {"event": {"number": 2}},
        {"event": {"number": 3}},
    ]
    other.ask("events", follow=False)
    service.take().reply({"answer": {"events": []}})
    service.control.publish({"number": 4})
    assert follower.line() == {"event": {"number": 4}}
    assert other.line() == {"answer": {"events": []}}
    assert is_answered(service, other)


def test_who_is_refused_events_may_ask_on(service: Service, connect: Callable[[], Client]) -> None:
    """Following starts with an answer; after an error the connection is usable."""
    client = connect()
    client.ask("events", follow=True)
    service.take().reply({"error": "not now"})
    assert client.line() == {"error": "not now"}
    service.control.publish({"number": 1})
    assert is_answered(service, client)


def test_a_follower_that_stops_reading_is_dropped(
    service: Service, connect: Callable[[], Client]
) -> None:
    """A follower that does not read: a bounded buffer, then it is closed; others continue."""
    forgotten, reader = connect(), connect()
    for client in (forgotten, reader):
        client.ask("events", follow=True)
        service.take().reply({"answer": {}})
        assert client.line() == {"answer": {}}
    text = "x" * 100_000
    for number in range(50):
        service.control.publish({"number": number, "text": text})
        assert reader.line()["event"]["number"] == number
    got = 0
    while forgotten.line():
        got += 1
    assert got * len(text) < 2 * control_socket.MAX_OUTPUT_BYTES  # its buffer, and the kernel's
    assert is_answered(service, connect())


def test_events_that_this_thread_cannot_take_end_the_followers(
    service: Service, connect: Callable[[], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event storm is bounded, and followers are told that events were lost."""
    follower = connect()
    follower.ask("events", follow=True)
    service.take().reply({"answer": {}})
    assert follower.line() == {"answer": {}}
    monkeypatch.setattr(control_socket, "MAX_QUEUED", 0)
    service.control.publish({"number": 1})
    monkeypatch.undo()
    service.control.publish({"number": 2})
    lines = [follower.line(), follower.line()]
    assert any("lost" in line.get("error", "") for line in lines)


def test_an_answer_that_is_too_large_is_an_error(
    service: Service, connect: Callable[[], Client]
) -> None:
    """A query for everything is refused: the service's memory is locked and limited."""
    client = connect()
    client.ask("query")
    service.take().reply({"answer": ["x" * 1000] * (control_socket.MAX_ANSWER_BYTES // 1000)})
    assert "request less" in client.line()["error"]
    assert is_answered(service, client)


def test_an_answer_that_is_no_json_is_an_error_of_one(
    service: Service, connect: Callable[[], Client]
) -> None:
    """A bug in one answer is reported and logged; other clients are not affected."""
    other, client = connect(), connect()
    client.ask("query")
    service.take().reply({"answer": object()})
    assert "report" in client.line()["error"]
    assert "bug" in service.troubles[0]
    assert is_answered(service, other)


def test_a_name_that_is_no_utf8_is_still_json(
    service: Service, connect: Callable[[], Client]
) -> None:
    """A mount point may have any bytes; the answer has them escaped."""
    client = connect()
    client.ask("status")
    service.take().reply({"answer": "/mnt/\udcff"})
    assert client.line() == {"answer": "/mnt/\\xff"}


def test_a_thousand_connections_keep_nobody_out(
    service: Service, connect: Callable[[], Client]
) -> None:
    """Many idle connections: clients that wait for an answer and new clients are served."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], min(2048, limits[1])), limits[1]))
    patient = connect()
    patient.ask("ack")
    command = service.take()
    before = len(os.listdir("/proc/self/fd"))
    wild = [connect() for _ in range(1000)]
    assert is_answered(service, connect())
    taken = len(os.listdir("/proc/self/fd")) - before - 1001
    assert taken <= control_socket.MAX_CONNECTIONS
    command.reply({"answer": "known"})
    assert patient.line() == {"answer": "known"}
    assert wild[0].line() == {}
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_no_descriptor_left_is_reported_and_survived(
    service: Service, connect: Callable[[], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """New clients are served once descriptors are available again."""
    monkeypatch.setattr(control_socket, "RETRY_INTERVAL_SECONDS", 0.05)
    told = threading.Event()
    monkeypatch.setattr(service.control, "_on_trouble", lambda text: told.set())
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = socket.socket(socket.AF_UNIX)
    free.settimeout(DEADLINE_SECONDS)
    first_free = os.dup(free.fileno())
    os.close(first_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (first_free, limits[1]))
    try:
        free.connect(service.path)
        assert told.wait(DEADLINE_SECONDS)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    free.sendall(b'{"command": "status"}\n')
    service.take().reply({"answer": 1})
    assert json.loads(free.recv(100)) == {"answer": 1}
    free.close()


# --- who may query, and who may act

GID, OTHER_GID = 1, 2
"""Groups that each Linux system has; the service gets one of them as the group of a role."""
VIEWERS, OPERATORS = (grp.getgrgid(gid).gr_name for gid in (GID, OTHER_GID))
ROLES = RoleGroups(VIEWERS, OPERATORS)


def as_nobody(
    directory: Path,
    post: Callable[[control_socket.ControlCommand], object],
    talk: Callable[[], object],
    roles: RoleGroups = ROLES,
    *,
    gid: int = NOBODY,
    groups: Sequence[int] = (),
    before: Callable[[str], object] = str,
    after: Callable[[], object] = str,
) -> tuple[Any, list[str]]:
    """Return what `talk` returns in a process of the user 'nobody', and what was logged.

    The socket's file lets everybody in, as the one of systemd does. `before` gets the socket's path
    before that process starts, `after` is called when it has ended.
    """
    service = Service(directory / "control.sock", post, roles)
    os.chmod(directory, 0o711)
    os.chmod(service.path, 0o666)
    before(service.path)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.chdir(directory)  # the directories above it are the test's alone
            os.setgroups(groups)
            os.setgid(gid)
            os.setuid(NOBODY)
            os.write(writing, json.dumps(talk()).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        text = file.read()
    os.waitpid(pid, 0)
    after()
    service.control.close()
    return json.loads(text) if text else None, service.troubles


def ask_each() -> dict[str, dict[str, Any]]:
    """Return the answers to all commands, by one connection."""
    client, answers = Client("control.sock"), {}
    for name in sorted(control_socket.COMMANDS):
        client.ask(name)
        answers[name] = client.line()
    return answers


def ask_status() -> dict[str, Any]:
    """Return the first line that the service sends to a client that queries the status."""
    client = Client("control.sock")
    client.ask("status")
    return client.line()


@as_root
def test_a_user_without_a_role_is_refused_by_name_with_the_command_that_grants_it(
    tmp_path: Path,
) -> None:
    """The socket is open to all users of the machine; the service decides."""
    asked: list[control_socket.ControlCommand] = []
    line, troubles = as_nobody(tmp_path, asked.append, ask_status)
    name = pwd.getpwuid(NOBODY).pw_name
    assert line == {
        "error": f"access refused to {name} (uid {NOBODY}): expected root or a member of group"
        f" '{VIEWERS}'; use sudo, or let root run: usermod -aG {VIEWERS} {name} (effective after a"
        " new login)"
    }
    assert asked == []
    assert troubles == [f"control: {line['error']}"]


@as_root
@pytest.mark.parametrize("who", [{"groups": [7, GID, 9]}, {"gid": GID}], ids=["further", "primary"])
def test_a_viewer_queries_everything_and_changes_nothing(
    tmp_path: Path, who: dict[str, Any]
) -> None:
    """The kernel reports the groups of the client's process, primary and supplementary."""
    asked: list[str] = []

    def answer(command: control_socket.ControlCommand) -> None:
        asked.append(command.name)
        command.reply({"answer": command.who})

    answers, troubles = as_nobody(tmp_path, answer, ask_each, **who)
    name = f"{pwd.getpwuid(NOBODY).pw_name} (uid {NOBODY})"
    assert set(asked) == QUERIES
    assert {command for command, line in answers.items() if "answer" in line} == QUERIES
    assert answers["status"] == {"answer": name}
    error = answers["disk forget"]["error"]
    assert error.startswith(f"'disk forget' refused to {name}: expected root or a member of group")
    assert f"usermod -aG {OPERATORS} " in error
    assert troubles == []


@as_root
def test_an_operator_may_do_everything(tmp_path: Path) -> None:
    """Who acts also sees."""
    answers, _ = as_nobody(tmp_path, say_who, ask_each, groups=[OTHER_GID])
    assert {command for command, line in answers.items() if "answer" in line} == QUERIES | ACTIONS


@as_root
def test_a_group_that_does_not_exist_is_named_with_the_command_that_creates_it(
    tmp_path: Path,
) -> None:
    """The package's groups were not created: nobody but root gets in, and the text says why."""
    missing = RoleGroups("no-viewers", "no-operators")
    line, _ = as_nobody(tmp_path, say_who, ask_status, missing, groups=[GID])
    assert "group 'no-viewers', which does not exist on this machine" in line["error"]
    assert "groupadd --system no-viewers && usermod -aG no-viewers" in line["error"]
    service = Service(tmp_path / "own.sock", say_who, missing)
    client = Client(service.path)
    client.ask("ack")
    assert client.line() == {"answer": f"{NAME} (uid {os.geteuid()})"}
    client.close()
    service.control.close()


@as_root
def test_a_user_in_more_than_256_groups_has_the_role_of_the_last(tmp_path: Path) -> None:
    """Users of a directory service are in hundreds of groups; Python reads 256 of a socket."""
    many = [*range(100_000, 100_999), GID]
    line, _ = as_nobody(tmp_path, say_who, ask_status, groups=many)
    assert "answer" in line


@as_root
def test_a_client_that_ends_before_the_service_looks_is_judged_by_what_it_was(
    tmp_path: Path,
) -> None:
    """The kernel stores uid and groups of a connection: its process may end, its pid be reused."""
    path = tmp_path / "control.sock"
    os.chmod(tmp_path, 0o711)
    listener = listen.bind(str(path))
    os.chmod(path, 0o666)
    for groups in ([], [GID], [OTHER_GID]):
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                os.chdir(tmp_path)
                os.setgroups(groups)
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                client.connect("control.sock")
                client.send(b'{"command": "ack"}\n')
            os._exit(0)
        os.waitpid(pid, 0)
    asked: queue.SimpleQueue[control_socket.ControlCommand] = queue.SimpleQueue()
    troubles: list[str] = []
    control = control_socket.Control(listener, asked.put, troubles.append, groups=ROLES)
    command = asked.get(timeout=DEADLINE_SECONDS)
    assert (command.name, command.who.endswith(f"(uid {NOBODY})")) == ("ack", True)
    client = Client(str(path))
    client.ask("status")
    assert asked.get(timeout=DEADLINE_SECONDS).name == "status"
    client.close()
    control.close()
    assert asked.empty()
    assert len(troubles) == 1


@as_root
@pytest.mark.parametrize("groups", [[], [GID]], ids=["stranger", "viewer"])
def test_a_user_who_connects_without_end_takes_no_connection_of_another(
    tmp_path: Path, groups: list[int]
) -> None:
    """Root's idle connections stay, however many one user opens."""
    idle: list[Client] = []

    def flood() -> str:
        clients = [Client("control.sock") for _ in range(200)]
        clients[-1].ask("status")
        clients[-1].line()  # by then, all of them were accepted
        return "done"

    lines: list[dict[str, Any]] = []

    def before_the_end() -> None:
        for client in idle:
            client.ask("ack")
            lines.append(client.line())
            client.close()

    done, _ = as_nobody(
        tmp_path,
        say_who,
        flood,
        groups=groups,
        before=lambda path: idle.extend(Client(path) for _ in range(20)),
        after=before_the_end,
    )
    assert done == "done"
    assert ["answer" in line for line in lines] == [True] * 20


@as_root
def test_one_user_cannot_fill_the_queue_of_the_main_loop(tmp_path: Path) -> None:
    """Of seven requests of one viewer two are handed over; the rest waits in its own sockets."""
    asked: queue.SimpleQueue[control_socket.ControlCommand] = queue.SimpleQueue()
    handed_over, started = os.pipe(), os.pipe()
    most: list[int] = []

    def talk() -> list[dict[str, Any]]:
        clients = [Client("control.sock") for _ in range(7)]
        for client in clients:
            client.ask("status")
        os.read(handed_over[0], 1)  # the viewer's name and groups are known by then
        last = Client("control.sock")
        last.send(b"x" * (control_socket.MAX_LINE_BYTES + 1))
        last.line()  # refused by the same thread, which has looked at the others' requests by now
        os.write(started[1], b"!")
        return [client.line() for client in clients]

    def answer() -> None:
        first = [asked.get(timeout=DEADLINE_SECONDS) for _ in range(2)]
        os.write(handed_over[1], b"!")
        os.read(started[0], 1)
        most.append(len(first) + asked.qsize())
        for number in range(7):
            command = first.pop() if first else asked.get(timeout=DEADLINE_SECONDS)
            command.reply({"answer": number})

    loop = threading.Thread(target=answer, daemon=True)
    loop.start()
    lines, _ = as_nobody(tmp_path, asked.put, talk, groups=[GID])
    loop.join(DEADLINE_SECONDS)
    for end in (*handed_over, *started):
        os.close(end)
    assert most == [2]
    assert sorted(line["answer"] for line in lines) == [*range(7)]


@as_root
def test_a_directory_service_that_hangs_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LDAP hangs: the uid is used instead of the name, and others are served meanwhile."""
    release = threading.Event()

    def hang(uid: int) -> None:
        release.wait(DEADLINE_SECONDS)
        raise KeyError(uid)

    monkeypatch.setattr(peer, "NAME_SECONDS", 0.05)
    monkeypatch.setattr(pwd, "getpwuid", hang)
    line, _ = as_nobody(tmp_path, say_who, ask_status, gid=GID)
    release.set()
    assert line == {"answer": f"uid {NOBODY}"}


@as_root
def test_groups_that_cannot_be_looked_up_let_root_in_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LDAP hangs at the start already: neither the start nor root waits for it."""
    release = threading.Event()

    def hang(name: str) -> None:
        release.wait(DEADLINE_SECONDS)
        raise KeyError(name)

    monkeypatch.setattr(peer, "NAME_SECONDS", 0.05)
    monkeypatch.setattr(grp, "getgrnam", hang)
    line, _ = as_nobody(tmp_path, say_who, ask_status, gid=GID)
    assert f"uid {NOBODY}" in line["error"]
    service = Service(tmp_path / "own.sock", say_who, ROLES)
    client = Client(service.path)
    client.ask("ack")
    assert "answer" in client.line()
    release.set()
    client.close()
    service.control.close()


def test_each_command_is_a_query_or_an_action_and_the_default_groups_differ() -> None:
    """A command in neither list would be refused to all, one in both be open to viewers."""
    assert not QUERIES & ACTIONS
    assert control_socket.COMMANDS == QUERIES | ACTIONS
    assert {required(name) for name in QUERIES} == {Role.VIEWER}
    assert {required(name) for name in ACTIONS} == {Role.OPERATOR}
    assert RoleGroups().names() == (VIEWER_GROUP, OPERATOR_GROUP)


def test_a_refusal_to_an_unnamed_user_gives_a_command_with_a_placeholder() -> None:
    """No user has the uid: of a container, or a directory service is down."""
    text = refusal("ack", "uid 1000", OPERATOR_GROUP, exists=True)
    assert "refused to uid 1000" in text
    assert f"usermod -aG {OPERATOR_GROUP} USER" in text


def test_members_of_the_services_group_have_no_role_and_are_named_with_how_to_end_it() -> None:
    """They read the password; a large group is not listed in full."""
    assert RoleGroups().granted({990}, {SERVICE_GROUP: 990, VIEWER_GROUP: 991}) is Role.NONE
    assert narrowing(()) == ""
    text = narrowing(tuple(f"user{number}" for number in range(9)))
    assert text.startswith("in group 'iowarden': user0, user1, user2, user3, user4 and 4 more;")
    assert "gpasswd -d user0 iowarden" in text
    assert f"usermod -aG {VIEWER_GROUP} user0" in text


def say_who(command: control_socket.ControlCommand) -> None:
    """Answer a command with its user."""
    command.reply({"answer": command.who})


# --- the socket itself


def test_a_socket_is_for_its_user_and_group(service: Service) -> None:
    """Other users cannot connect at all."""
    assert stat.S_IMODE(os.stat(service.path).st_mode) == 0o660


def test_the_socket_of_a_killed_run_is_replaced(tmp_path: Path) -> None:
    """A socket left behind by a killed run has no listener."""
    path = str(tmp_path / "control.sock")
    listen.bind(path).close()
    assert os.path.exists(path)
    with listen.bind(path):
        Client(path).close()


def test_the_socket_of_a_living_run_is_left_alone(
    service: Service, connect: Callable[[], Client]
) -> None:
    """A second run gets an error; the first one continues."""
    with pytest.raises(listen.ControlError, match="running"):
        listen.bind(service.path)
    assert is_answered(service, connect())


def test_a_file_in_the_way_is_left_alone(tmp_path: Path) -> None:
    """It may be a user's file."""
    path = tmp_path / "control.sock"
    path.write_text("precious")
    with pytest.raises(listen.ControlError, match="move it away"):
        listen.bind(str(path))
    assert path.read_text() == "precious"


@pytest.mark.parametrize("name", ["x" * 108, "missing/control.sock"])
def test_a_place_where_no_socket_can_be_is_named(tmp_path: Path, name: str) -> None:
    """The error has the path, the problem and the next step."""
    with pytest.raises(listen.ControlError, match=f"{name}.*expected.*state directory"):
        listen.bind(f"{tmp_path}/{name}")


def test_the_end_hangs_up_and_removes_the_socket(tmp_path: Path) -> None:
    """A follower is closed at once, and the socket is removed."""
    service = Service(tmp_path / "control.sock")
    follower = Client(service.path)
    follower.ask("events", follow=True)
    command = service.take()
    command.reply({"answer": {}})
    assert follower.line() == {"answer": {}}
    service.control.close()
    assert follower.line() == {}
    assert os.listdir(tmp_path) == []
    command.reply({"answer": "late"})
    service.control.publish({"text": "late"})
    follower.close()


def test_systemd_hands_over_its_socket(tmp_path: Path) -> None:
    """The descriptor that LISTEN_FDNAMES calls 'control' is served, with a path of systemd's."""
    program = (
        "import os, queue, sys\n"
        "os.dup2(int(sys.argv[1]), 3)\n"
        "names = {'LISTEN_PID': str(os.getpid()), 'LISTEN_FDS': '1', 'LISTEN_FDNAMES': 'control'}\n"
        "os.environ.update(names)\n"
        "from iowarden.daemon.control import control_socket, listen\n"
        "post = lambda command: command.reply({'answer': command.name})\n"
        "served = control_socket.Control(listen.inherited(), post, print)\n"
        "sys.stdin.read()\n"
        "served.close()\n"
    )
    path = str(tmp_path / "control.sock")
    with listen.bind(path) as listener:
        descriptor = listener.fileno()
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(descriptor)],
            stdin=subprocess.PIPE,
            pass_fds=[descriptor],
        )
    client = Client(path)
    client.ask("status")
    line = client.line()
    client.close()
    process.communicate(timeout=DEADLINE_SECONDS)
    assert line == {"answer": "status"}
    assert process.returncode == 0


def test_without_systemd_nothing_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in the foreground makes its own."""
    monkeypatch.delenv("LISTEN_FDS", raising=False)
    assert listen.inherited() is None


def test_arguments_become_what_the_loop_works_with() -> None:
    """A document of daemon.control.documents is decoded completely, or an error is raised."""
    asked = {"matchers": ["device=sda"], "for_seconds": 60, "reason": "x"}
    command = control_socket.ControlCommand("silence add", asked, "", print)
    assert command.read(AddSilence) == AddSilence(("device=sda",), 60.0, "x")
    wrong = control_socket.ControlCommand("silence add", {"matchers": "device=sda"}, "", print)
    with pytest.raises(CodecError, match="matchers"):
        wrong.read(AddSilence)


# --- whatever they do

DEEDS = st.one_of(
    st.tuples(st.just("send"), st.binary(max_size=200)),
    st.tuples(
        st.just("send"),
        st.sampled_from(
            [
                b'{"command": "status"}\n',
                b'{"command": "events", "follow": true}\n',
                b'{"command": "que',
                b'ry"}\n',
                b"\n",
                b"{" * 300 + b"\n",
                b"x" * 70_000,
            ]
        ),
    ),
    st.tuples(st.sampled_from(["read", "shutdown", "close", "publish", "late"]), st.just(b"")),
)


@given(st.lists(st.tuples(st.integers(0, 3), DEEDS), max_size=30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
def test_whatever_four_clients_do_a_fifth_is_answered(
    service: Service, script: list[tuple[int, tuple[str, bytes]]]
) -> None:
    """Any bytes in any pieces, half-closed, closed, unread, answered late: no thread ends."""
    clients = [Client(service.path) for _ in range(4)]
    late: list[control_socket.ControlCommand] = []
    for number, (action, text) in script:
        client = clients[number]
        with contextlib.suppress(OSError, ValueError, BlockingIOError):
            client.socket.setblocking(False)
            if action == "send":
                client.send(text)
            elif action == "read":
                client.socket.recv(4096)
            elif action == "shutdown":
                client.socket.shutdown(socket.SHUT_WR)
            elif action == "close":
                client.close()
        if action == "publish":
            service.control.publish(EventLine(text="x" * 1000))
        if action == "late":
            with contextlib.suppress(queue.Empty):
                late.append(service.commands.get_nowait())
            for command in late:
                command.reply({"answer": "x" * 100_000})
    last = Client(service.path)
    assert is_answered(service, last)
    for client in (*clients, last):
        client.close()
    assert [text for text in service.troubles if "bug" in text] == []
