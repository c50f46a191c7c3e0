"""Server of the control socket '/run/iowarden/control.sock': requests and answers as JSON lines.

A thread of its own reads and writes; it passes each request to the main loop as a `ControlCommand`,
and the loop answers by calling `reply`. The kernel identifies the user and its groups (unix(7),
SO_PEERCRED), which decide what it may request (`daemon.control.roles`).

    {"command": "query", "expression": "up"}     {"answer": {...}}  or  {"error": "..."}
    {"command": "events", "follow": true}        {"answer": {...}}, then {"event": {...}} each

The server never blocks on a client: one that is slow, silent, greedy or gone costs a bounded buffer
for a bounded time, and no user takes the connections of others. The documents are in
`daemon.control.documents`.
"""

from __future__ import annotations

import json
import os
import queue
import selectors
import threading
import time
from collections import Counter
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import trace
from iowarden.collectors.quantity import duration
from iowarden.daemon import json_codec, sanitize
from iowarden.daemon.control.peer import Names, credentials
from iowarden.daemon.control.roles import (
    ACTIONS,
    QUERIES,
    Role,
    RoleGroups,
    refusal,
    required,
)
from iowarden.daemon.sanitize import one_line

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

COMMANDS = QUERIES | ACTIONS

MAX_CONNECTIONS = 32
MAX_USER_CONNECTIONS = 8
"""Of one user, except root and the service's own user."""
MAX_REFUSED_CONNECTIONS = 4
"""Of all users without a role together; each is closed once it has read why."""
MAX_USER_PENDING = 2
"""Commands of one such user that the main loop has at once; the next ones wait in the socket."""
MAX_LINE_BYTES = 64 * 1024
MAX_OUTPUT_BYTES = 1024 * 1024
"""Maximum output that a client that follows events has not read yet."""
MAX_ANSWER_BYTES = 4 * 1024 * 1024
"""The status of 480 failing disks takes 1 MB."""
MAX_BRACKETS = 256
"""Per line: the JSON parser of Python 3.13 recurses beyond the small stacks of our threads."""
MAX_QUEUED = 10_000
"""Maximum of events waiting for this thread; more means that it hangs."""
LINE_SECONDS = 10.0
IDLE_SECONDS = 60.0
ANSWER_SECONDS = 10.0
RETRY_INTERVAL_SECONDS = 1.0
LOG_REPEAT_SECONDS = 3600.0
"""Minimum time between two reports of the same problem."""
CLOSE_SECONDS = 2.0
Document = TypeVar("Document")
Reply = dict[str, Any]
"""{"answer": document} or {"error": text}; a document may be a dataclass."""


@dataclass(frozen=True, slots=True)
class ControlCommand:
    """A request of a client. `reply` may be called from any thread, never blocks, takes one object.

    Fields: `name`, of COMMANDS, `arguments` as in the line, `who` as 'alice (uid 1000)'.
    A follower gets the events published after the `reply` to its command: call both in one thread.
    """

    name: str
    arguments: dict[str, Any]
    who: str
    reply: Callable[[Reply], object] = field(repr=False)

    def read(self, cls: type[Document]) -> Document:
        """Return the arguments as a document of `daemon.control.documents`. Errors: CodecError."""
        return json_codec.decode(cls, json.dumps(self.arguments))


@dataclass(slots=True, eq=False)
class _Connection:
    """One client; used only in the socket's thread. Times are of the monotonic clock."""

    socket: socket.socket
    uid: int
    gids: frozenset[int]
    moved: float
    """Time of the last byte in either direction."""
    role: Role | None = None
    """None until the numbers of the groups are known."""
    turned_away: bool = False
    """It has no role, and was sent why."""
    received: bytearray = field(default_factory=bytearray)
    output: bytearray = field(default_factory=bytearray)
    line_since: float = 0.0
    """Time of the first byte in `received`."""
    pending_command: int = 0
    """Number of the command that the main loop is processing; 0: none."""
    pending_since: float = 0.0
    wants_events: bool = False
    follows: bool = False
    ended: bool = False
    """No more input is read: pending output is written, then the connection is closed."""

    def deadline(self) -> float:
        """Return when the timeout of the main loop, or of the client, expires."""
        if self.pending_command:
            return self.pending_since + ANSWER_SECONDS
        if self.output or not self.received:
            return float("inf") if self.follows else self.moved + IDLE_SECONDS
        return self.line_since + LINE_SECONDS


class Control:
    """Serves a listening socket until `close`; its thread starts at once.

    In addition to the file's mode, a client must be root, this program's user, or in one of the
    groups. Beyond its own limit, a user's least active connection is closed for the new one; beyond
    the limit of all, one of the user who has most.
    `post` is called in the thread and must not block; `on_trouble` gets a sentence about a problem.
    """

    def __init__(
        self,
        listener: socket.socket,
        post: Callable[[ControlCommand], object],
        on_trouble: Callable[[str], object],
        *,
        groups: RoleGroups = RoleGroups(),  # noqa: B008 - frozen
        on_note: Callable[[str], object] | None = None,
        remove: str = "",
    ) -> None:
        """Start the thread. `on_note` gets what is worth a line and no problem of the service.

        `remove` is the path to delete at the end, if we created the socket.
        """
        self._listener = listener
        self._post = post
        self._on_trouble = on_trouble
        self._on_note = on_note or on_trouble
        self._remove = remove
        self._groups = groups
        self._arrived: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        self._lost = False
        self._selector = selectors.DefaultSelector()
        self._connections: dict[int, _Connection] = {}
        self._sequence = 0
        self._relisten = 0.0
        self._logged: dict[str, float] = {}
        self._names = Names(groups.names(), self._wake_up)
        listener.setblocking(False)  # noqa: FBT003 - the method takes no name
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self._thread.start()

    def publish(self, event: object) -> None:
        """Send an event to all clients that follow; never blocks."""
        if self._arrived.qsize() >= MAX_QUEUED:
            self._lost = True
            return
        self._call(partial(self._show, event))

    def close(self) -> None:
        """Close all connections and end the thread; open requests are not answered."""
        self._stopping.set()
        self._wake_up()
        self._thread.join(CLOSE_SECONDS)

    # --- called by other threads

    def _call(self, action: Callable[[], object]) -> None:
        self._arrived.put(action)
        self._wake_up()

    def _wake_up(self) -> None:
        """Wake up the thread to process its queue and the clients whose user name arrived."""
        with self._guard:  # once closed, its number may be reused
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def _reply(self, number: int, connection: _Connection, reply: Reply) -> None:
        self._call(partial(self._answer, number, connection, reply))

    # --- the thread

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self._turn()
                except Exception as error:  # noqa: BLE001 - no input may end the thread
                    self._log_trouble("bug", f"control: bug: {trace(error)}")
                    self._drop_all()
                    self._stopping.wait(RETRY_INTERVAL_SECONDS)
        finally:
            self._shut()

    def _shut(self) -> None:
        if self._remove:  # before the listener closes: then another run may create its own
            try:
                os.unlink(self._remove)
            except OSError as error:
                self._on_trouble(
                    f"control: '{self._remove}' could not be removed: {error.strerror}"
                )
        self._drop_all()
        self._listener.close()
        self._selector.close()
        self._names.close()
        with self._guard:
            os.close(self._wake)
            self._wake = -1

    def _turn(self) -> None:
        for key, events in self._selector.select(self._patience()):
            if key.fileobj is self._listener:
                self._accept()
            elif key.data is None:
                os.eventfd_read(self._wake)
            else:
                self._serve(key.data, events)
        self._take_arrived()
        now = time.monotonic()
        if self._relisten and now >= self._relisten:
            self._relisten = 0.0
            self._selector.register(self._listener, selectors.EVENT_READ)
        for connection in list(self._connections.values()):
            if now >= connection.deadline():
                self._expire(connection)
            self._advance(connection)

    def _patience(self) -> float | None:
        ends = [connection.deadline() for connection in self._connections.values()]
        ends += [
            self._names.deadline(c.uid)
            for c in self._connections.values()
            if (c.received or not c.role) and not self._names.who(c.uid)
        ]
        ends += [self._relisten] if self._relisten else []
        end = min(ends, default=float("inf"))
        return None if end == float("inf") else max(end - time.monotonic(), 0.0)

    def _take_arrived(self) -> None:
        while not self._arrived.empty():  # only this thread takes from it
            self._arrived.get()()
        if self._lost:
            self._lost = False
            for connection in [c for c in self._connections.values() if c.follows]:
                self._refuse(
                    connection, "events were lost because there were too many; follow again"
                )

    def _accept(self) -> None:
        for _ in range(MAX_CONNECTIONS):
            try:
                accepted, _address = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:  # no descriptor, no memory: stop polling it, it stays readable
                self._selector.unregister(self._listener)
                self._relisten = time.monotonic() + RETRY_INTERVAL_SECONDS
                self._log_trouble(
                    "accept", f"control: cannot accept connections: {error.strerror}; will retry"
                )
                return
            self._admit(accepted)

    def _admit(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)  # noqa: FBT003 - the method takes no name
        connection = _Connection(accepted, *credentials(accepted), time.monotonic())
        self._names.request(connection.uid)
        self._set_role(connection)
        self._make_room(connection)
        self._connections[accepted.fileno()] = connection
        self._advance(connection)

    def _make_room(self, new: _Connection) -> None:
        """Close connections so that a new one is within the limits."""
        others = list(self._connections.values())
        own = [c for c in others if c.uid == new.uid]
        refused = [c for c in others if c.role is Role.NONE]
        if new.role is Role.NONE and len(refused) >= MAX_REFUSED_CONNECTIONS:
            self._drop(min(refused, key=_use))
        elif not _is_unlimited(new.uid) and len(own) >= MAX_USER_CONNECTIONS:
            self._drop(min(own, key=_use))
        elif len(others) >= MAX_CONNECTIONS:
            most = Counter(c.uid for c in others).most_common(1)[0][0]
            self._drop(min((c for c in others if c.uid == most), key=_use))

    def _set_role(self, connection: _Connection) -> None:
        """Set a client's role once the groups are known."""
        if connection.role is not None:
            return
        gids = self._names.gids()
        if _is_unlimited(connection.uid):
            connection.role = Role.OPERATOR
        elif gids is not None:
            connection.role = self._groups.granted(connection.gids, gids)

    def _turn_away(self, connection: _Connection, who: str) -> None:
        """Refuse a client without a role, and close its connection."""
        connection.turned_away = True
        text = self._refusal("", who, Role.VIEWER)
        self._note("refused", f"control: {text}")
        self._refuse(connection, text)

    def _refusal(self, command: str, who: str, role: Role) -> str:
        self._names.request_groups()  # for the next request, if a group was created meanwhile
        group = self._groups.of(role)
        exists = (self._names.gids() or {}).get(group) is not None
        return refusal(command, who, group, exists=exists)

    def _serve(self, connection: _Connection, events: int) -> None:
        """Read and write as much as is possible without blocking."""
        try:
            if events & selectors.EVENT_WRITE and connection.output:
                del connection.output[: connection.socket.send(connection.output)]
                connection.moved = time.monotonic()
            if events & selectors.EVENT_READ:
                self._receive(connection, connection.socket.recv(MAX_LINE_BYTES))
        except BlockingIOError:
            return
        except OSError:  # it is gone
            self._drop(connection)

    def _receive(self, connection: _Connection, received: bytes) -> None:
        if not received:
            connection.ended = True
            if connection.follows:
                self._drop(connection)
            return
        if connection.ended or connection.follows:  # refused, or it only receives events
            return
        now = time.monotonic()
        connection.moved = now
        if not connection.received:
            connection.line_since = now
        connection.received += received
        if len(connection.received) > MAX_LINE_BYTES:
            self._refuse(connection, f"expected a line of at most {MAX_LINE_BYTES} bytes")

    def _advance(self, connection: _Connection) -> None:
        """Process the next line of a client, close it at its end, or wait for its socket."""
        self._set_role(connection)
        stranger = connection.role is Role.NONE and not connection.turned_away
        if stranger and (who := self._names.who(connection.uid)):
            self._turn_away(connection, who)
        while not (connection.pending_command or connection.output or connection.follows):
            end = connection.received.find(b"\n")
            if end < 0 or not connection.role or self._is_busy(connection.uid):
                break
            if not (who := self._names.who(connection.uid)):
                break
            line = bytes(connection.received[:end])
            del connection.received[: end + 1]
            connection.line_since = time.monotonic()
            self._dispatch(connection, line, who)
        whole = b"\n" in connection.received
        if connection.ended and not (connection.pending_command or connection.output or whole):
            self._drop(connection)
        self._watch(connection)

    def _is_busy(self, uid: int) -> bool:
        """Whether the main loop has as many commands of a user as it gets at once."""
        pending = [c for c in self._connections.values() if c.uid == uid and c.pending_command]
        return not _is_unlimited(uid) and len(pending) >= MAX_USER_PENDING

    def _watch(self, connection: _Connection) -> None:
        if connection.socket.fileno() not in self._connections:
            return
        wanted = selectors.EVENT_WRITE if connection.output else 0
        wanted |= 0 if connection.ended else selectors.EVENT_READ
        known = self._selector.get_map().get(connection.socket)
        if known is None:
            if wanted:
                self._selector.register(connection.socket, wanted, connection)
        elif not wanted:
            self._selector.unregister(connection.socket)
        elif known.events != wanted:
            self._selector.modify(connection.socket, wanted, connection)

    def _dispatch(self, connection: _Connection, line: bytes, who: str) -> None:
        try:
            name, arguments = parse(line)
        except ValueError as error:
            self._refuse(connection, str(error))
            return
        if name not in COMMANDS:
            known = ", ".join(sorted(COMMANDS))
            self._send(connection, {"error": f"command: expected one of {known}, got {name!r:.60}"})
            return
        role = required(name)
        if connection.role is None or connection.role < role:
            self._send(connection, {"error": self._refusal(name, who, role)})
            return
        self._sequence += 1
        connection.pending_command, connection.pending_since = self._sequence, time.monotonic()
        connection.wants_events = name == "events" and arguments.get("follow") is True
        reply = partial(self._reply, self._sequence, connection)
        self._post(ControlCommand(name, arguments, who, reply))

    def _answer(self, number: int, connection: _Connection, reply: Reply) -> None:
        if connection.pending_command != number:
            return  # too late, a second answer, or the client is gone
        connection.pending_command = 0
        connection.follows = connection.wants_events and "answer" in reply
        if connection.follows:
            connection.received.clear()
        try:
            self._send(connection, reply)
        except (TypeError, ValueError, RecursionError) as error:
            self._log_trouble("answer", f"control: bug: {trace(error)}")
            self._refuse(connection, "the answer cannot be encoded as JSON; please report this")

    def _show(self, event: object) -> None:
        followers = [c for c in self._connections.values() if c.follows]
        if not followers:
            return
        line = _line({"event": event})
        for connection in followers:
            if len(connection.output) + len(line) > MAX_OUTPUT_BYTES:
                self._drop(connection)  # it does not read, so it would not read the reason either
            else:
                connection.output += line

    def _send(self, connection: _Connection, reply: Reply) -> None:
        line = _line(reply)
        if len(line) > MAX_ANSWER_BYTES:
            told = f"an answer of {len(line)} bytes exceeds {MAX_ANSWER_BYTES}; request less"
            connection.follows = False
            line = _line({"error": told})
        connection.moved = time.monotonic()
        connection.output += line

    def _refuse(self, connection: _Connection, text: str) -> None:
        """Send an error, then close the connection."""
        connection.received.clear()
        connection.pending_command = 0
        connection.follows, connection.ended = False, True
        self._send(connection, {"error": text})

    def _expire(self, connection: _Connection) -> None:
        if connection.pending_command:
            connection.pending_command = 0
            self._send(
                connection,
                {
                    "error": f"no answer of the main loop in {duration(ANSWER_SECONDS)};"
                    " see 'journalctl -u iowarden' and '/-/healthy'"
                },
            )
        elif b"\n" in connection.received and not connection.output:
            self._refuse(
                connection,
                f"{MAX_USER_PENDING} other commands of uid {connection.uid} have been running for"
                f" {duration(LINE_SECONDS)}; repeat it when they have ended",
            )
        elif connection.received and not connection.output:
            self._refuse(
                connection, f"expected a whole line in {duration(LINE_SECONDS)}, got a part"
            )
        else:
            self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        if connection.socket.fileno() not in self._connections:
            return
        if self._selector.get_map().get(connection.socket) is not None:
            self._selector.unregister(connection.socket)
        self._connections.pop(connection.socket.fileno(), None)
        connection.received.clear()
        connection.output.clear()
        connection.pending_command, connection.ended = 0, True
        connection.socket.close()

    def _drop_all(self) -> None:
        for connection in list(self._connections.values()):
            self._drop(connection)

    def _log_trouble(self, kind: str, text: str) -> None:
        self._log(kind, text, self._on_trouble)

    def _note(self, kind: str, text: str) -> None:
        self._log(kind, text, self._on_note)

    def _log(self, kind: str, text: str, log: Callable[[str], object]) -> None:
        now = time.monotonic()
        if now - self._logged.get(kind, float("-inf")) >= LOG_REPEAT_SECONDS:
            self._logged[kind] = now
            log(text)


def parse(line: bytes) -> tuple[str, dict[str, Any]]:
    """Parse a line into command and arguments. Errors: ValueError."""
    if line.count(b"[") + line.count(b"{") > MAX_BRACKETS:
        raise ValueError(f"expected at most {MAX_BRACKETS} brackets in a line, got more")
    try:
        request = json.loads(line, parse_constant=_no_number)
        name = request.pop("command")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        shown = one_line(line[:60].decode(errors="backslashreplace"))
        raise ValueError(f"expected {{\"command\": ...}} as JSON, got '{shown}'") from error
    if not isinstance(name, str):
        raise ValueError(f"command: expected a text, got {name!r:.60}")  # noqa: TRY004 - one error
    return name, request


def _no_number(text: str) -> float:
    raise ValueError(f"expected a number, got {text}")


def _line(document: object) -> bytes:
    plain = sanitize.document(json_codec.plain(document))
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _is_unlimited(uid: int) -> bool:
    return uid in (0, os.geteuid())


def _use(connection: _Connection) -> tuple[bool, bool, float]:
    """Sort key to close the least active connection first: idle ones, then followers."""
    return (
        bool(connection.pending_command or connection.output),
        connection.follows,
        connection.moved,
    )
