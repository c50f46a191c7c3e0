"""Server of the probe: accepts requests, runs each in a child, answers; one thread, never blocks.

Its loop and its connections are here, requests in `jobs`, and what survives SIGKILL in `orphans`.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
import traceback
from functools import partial
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.probe import children, connection, protocol
from iowarden.daemon.probe.connection import Connection
from iowarden.daemon.probe.jobs import Jobs
from iowarden.daemon.probe.limited_log import LimitedLog
from iowarden.daemon.probe.programs import Programs, RefusedError
from iowarden.daemon.probe.protocol import Cancel, Hello, ProbeReply, ReplyStatus, Request, StuckNow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from iowarden.daemon import journal
    from iowarden.daemon.probe.protocol import Message

STOP_SECONDS = 2.0
MAX_CONNECTIONS = 8
_ACCEPT_RETRY_SECONDS = 1.0
_NEVER = float("inf")

_KMSG = "/dev/kmsg"
_AT_ONCE = frozenset({"kmsg", "programs"})


@dataclass(frozen=True, slots=True)
class IdleTimes:
    """Units: seconds. Fields: without a client the probe ends after `end`.

    A client without a request is closed after `client`, unless programs are stuck: it gets a report
    when they end. The service itself leaves before that. If all places are taken, it makes room for
    another one after `yields`.
    """

    end: float = 30.0
    client: float = 180.0
    yields: float = 10.0


_IDLE = IdleTimes()


class ProbeServer:
    """The probe's loop. Errors at construction: OSError, if it cannot work on this machine."""

    def __init__(
        self,
        *,
        directory: str,
        users: Iterable[int],
        log: journal.Log,
        listener: socket.socket | None = None,
        connected: Iterable[socket.socket] = (),
        find: Callable[[], Programs] = Programs,
        idle: IdleTimes = _IDLE,
    ) -> None:
        """Find the programs and what an earlier probe left. `directory`: its own, in memory.

        `users`: may send requests in addition to root. `listener`: it ends when no client has been
        connected for a while (`idle`); without one it ends with its last connection.
        """
        children.prepare()
        self.log = LimitedLog(log)
        self._users = frozenset({0, *users})
        self._listener = listener
        self._idle = idle
        self._selector = selectors.DefaultSelector()
        self._connections: set[Connection] = set()
        self._busy_at = time.monotonic()
        self._accept_retry_at = _NEVER
        self._stopping = False
        self._stop_at = _NEVER
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)  # noqa: FBT003 - the library's own signature
        self._waker.setblocking(False)  # noqa: FBT003 - as above
        self._watch(self._woken, self._wake)
        self._jobs = Jobs(
            directory,
            self._selector,
            self.log,
            find=find,
            send=self._put,
            notify=self._broadcast_stuck,
        )
        self._jobs.orphans.take_over()
        if listener is not None:
            listener.setblocking(False)  # noqa: FBT003 - as above
            self._watch(listener, self._accept)
        for each in connected:
            self._take(each)

    def run(self) -> None:
        """Serve until idle for a while, or SIGTERM."""
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self._on_time()
        while not self._over():
            pause = self._next_at() - time.monotonic()
            for key, _ in self._selector.select(max(pause, 0) if pause < _NEVER else None):
                key.data()
            self._on_time()
        self._jobs.orphans.register()
        signal.set_wakeup_fd(-1)
        for each in self._connections:
            each.close()
        self._selector.close()
        self._woken.close()
        self._waker.close()

    # Connections

    def _accept(self) -> None:
        assert self._listener is not None  # noqa: S101 - only a listener is watched for this
        try:
            stream, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            # A retry at once would fail forever: the socket stays ready.
            self.log.write(
                "warning", f"probe: cannot accept a connection: {error}; will retry in 1 s"
            )
            self._selector.unregister(self._listener)
            self._accept_retry_at = time.monotonic() + _ACCEPT_RETRY_SECONDS
            return
        self._take(stream)

    def _take(self, stream: socket.socket) -> None:
        taken = Connection(stream, time.monotonic())
        user = taken.peer()
        if user not in self._users:
            self.log.refuse(f"a connection from user {user}: expected root or iowarden")
        elif len(self._connections) >= MAX_CONNECTIONS and not self._make_room():
            self.log.refuse(f"a connection from user {user}: {MAX_CONNECTIONS} are already open")
        else:
            self._connections.add(taken)
            self._watch(stream, partial(self._serve, taken))
            return
        taken.close()
        self._stopping |= self._alone()

    def _make_room(self) -> bool:
        """Close the client that has been idle for longest, if it is idle for long enough."""
        now = time.monotonic()
        idle = [each for each in self._connections if not self._jobs.of(each)]
        longest = min(idle, key=lambda each: each.active_at, default=None)
        if longest is None or now < longest.active_at + self._idle.yields:
            return False
        self._drop(longest)
        return True

    def _serve(self, each: Connection) -> None:
        """Read from a connection and write to it; an error ends this connection only."""
        if each.closed:  # in this very round
            return
        now = time.monotonic()
        try:
            each.send(now)
            messages = each.receive(now)
            for message in messages or ():
                if each.closed:  # An answer found it broken: nothing more is done for it.
                    return
                self._receive(each, message)
            if messages is None:
                self._drop(each)
        except protocol.ProtocolError as error:
            self.log.refuse(f"a connection: {error}")
            self._drop(each)
        except Exception:  # noqa: BLE001 - whatever was sent, the other clients must not suffer
            self.log.write("error", f"probe: this is a bug of iowarden:\n{traceback.format_exc()}")
            self._drop(each)
        self._mind(each)

    def _receive(self, each: Connection, message: Message) -> None:
        if not each.greeted:
            if not isinstance(message, Hello):
                raise protocol.ProtocolError(f"expected a greeting, got {message!r:.80}")
            if message.version != protocol.VERSION:
                raise protocol.ProtocolError(
                    f"expected version {protocol.VERSION}, got {message.version};"
                    " restart iowarden.service and iowarden-probe.service"
                )
            each.greeted = True
            programs, stuck = self._jobs.programs(), self._jobs.orphans.stuck()
            self._send(each, Hello(protocol.VERSION, programs, stuck))
            return
        match message:
            case Request():
                self._accept_request(each, message)
            case Cancel(identifier):
                for job in self._jobs.of(each):
                    if job.request.identifier == identifier:
                        self._jobs.end(job, "it was cancelled")
            case _:
                raise protocol.ProtocolError(f"expected a request, got {message!r:.80}")

    def _drop(self, each: Connection) -> None:
        """Close a connection and kill what runs for it."""
        if each not in self._connections:
            return
        self._connections.discard(each)
        self._selector.unregister(each.stream)
        each.close()
        for job in self._jobs.of(each):
            self._jobs.end(job, "the client has disconnected")
        self._stopping |= self._alone()

    def _alone(self) -> bool:
        """Return whether no client is connected, and no further one can connect."""
        return self._listener is None and not self._connections

    def _send(self, each: Connection, message: Message, descriptor: int = -1) -> None:
        self._put(each, protocol.encode(message), descriptor)

    def _put(self, each: Connection, frame: bytes, descriptor: int = -1) -> None:
        if not each.closed:
            each.put(frame, time.monotonic(), descriptor)
            self._mind(each)

    def _mind(self, each: Connection) -> None:
        """Wait for room if data is unsent; drop a broken connection."""
        if each.broken:
            self._drop(each)
        if each in self._connections:
            writing = selectors.EVENT_WRITE if each.unsent() else 0
            key = self._selector.get_key(each.stream)
            if key.events != selectors.EVENT_READ | writing:
                self._selector.modify(each.stream, selectors.EVENT_READ | writing, key.data)

    # Requests

    def _accept_request(self, each: Connection, request: Request) -> None:
        try:
            if self._stopping:
                raise RefusedError("the probe is stopping")
            self._jobs.check_room(each, request)
            if request.verb in _AT_ONCE:
                self._at_once(each, request)
            else:
                self._jobs.add(each, request)
        except RefusedError as error:
            outcome = self._jobs.refused(each, request, error)
            self._send(each, ProbeReply(request.identifier, outcome, str(error)))

    def _at_once(self, each: Connection, request: Request) -> None:
        """Answer what needs no child: the programs, or the kernel log as a descriptor."""
        if request.arguments:
            raise RefusedError("expected no argument")
        if request.verb == "programs":
            value = {"programs": self._jobs.programs(refresh=True)}
            self._send(each, ProbeReply(request.identifier, ReplyStatus.DONE, value=value))
            return
        if each.descriptors() >= connection.MAX_DESCRIPTORS:
            raise RefusedError("earlier descriptors were not received yet")
        try:
            descriptor = os.open(_KMSG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            self._send(each, ProbeReply(request.identifier, ReplyStatus.FAILED, str(error)))
            return
        self._send(each, ProbeReply(request.identifier, ReplyStatus.DONE), descriptor)

    def _broadcast_stuck(self) -> None:
        """Send the stuck programs to all clients, because they changed."""
        for each in tuple(self._connections):
            if each.greeted:
                self._send(each, StuckNow(self._jobs.orphans.stuck()))

    # Time

    def _on_time(self) -> None:
        now = time.monotonic()
        self._jobs.on_time(now)
        for each in tuple(self._connections):
            if now >= each.late_at():
                self.log.refuse(f"a connection: {each.fault()}")
                self._drop(each)
            elif now >= self._leave_at(each):
                self._drop(each)
        if now >= self._accept_retry_at:
            self._accept_retry_at = _NEVER
            if self._listener is not None and not self._stopping:
                self._watch(self._listener, self._accept)
        if self._connections or self._jobs.busy():
            self._busy_at = now
        # Last: a connection that was just dropped may have been the only one.
        if self._stopping and self._stop_at == _NEVER:
            self._stop(now)

    def _next_at(self) -> float:
        """Return when something is due, by the monotonic clock; inf: nothing is."""
        return min(
            (
                self._jobs.next_at(),
                *(min(each.late_at(), self._leave_at(each)) for each in self._connections),
                self._accept_retry_at,
                self._stop_at,
                self._idle_at(),
            )
        )

    def _leave_at(self, each: Connection) -> float:
        """Return when a client is closed because it is idle; inf: it is not."""
        if self._jobs.of(each) or self._jobs.orphans.stuck():
            return _NEVER
        return each.active_at + self._idle.client

    def _idle_at(self) -> float:
        idle = not (self._connections or self._jobs.busy())
        return self._busy_at + self._idle.end if idle and self._listener is not None else _NEVER

    def _over(self) -> bool:
        now = time.monotonic()
        if self._stop_at < _NEVER:
            return self._jobs.done() or now >= self._stop_at
        return now >= self._idle_at()

    def _stop(self, now: float) -> None:
        """Accept nothing more and kill what runs; a program that hangs is not waited for."""
        self._stop_at = now + STOP_SECONDS
        if self._listener is not None and self._accept_retry_at == _NEVER:
            self._selector.unregister(self._listener)
        for job in self._jobs.all():
            self._jobs.end(job, "the probe is stopping")

    def _on_signal(self, *_: object) -> None:
        self._stopping = True

    def _wake(self) -> None:
        """Read the bytes that signals left; the loop checks what they set."""
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)

    def _watch(self, what: socket.socket, call: Callable[[], None]) -> None:
        self._selector.register(what, selectors.EVENT_READ, call)
