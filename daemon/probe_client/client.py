"""The daemon's client of the probe: one thread, one connection, many requests at a time."""

from __future__ import annotations

import datetime as dt
import json
import os
import selectors
import threading
import time
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import (
    AbsentError,
    DeadlineError,
    ProgramNotFoundError,
    ReadError,
    StuckError,
    trace,
)
from iowarden.collectors.quantity import duration
from iowarden.daemon.probe.protocol import (
    LENGTH_BYTES,
    MAX_ARGUMENTS,
    MAX_DEADLINE_SECONDS,
    MAX_REPLY_BYTES,
    MAX_REQUEST_BYTES,
    VERSION,
    Cancel,
    Hello,
    Message,
    ProbeReply,
    ProtocolError,
    ReplyStatus,
    Request,
    Stuck,
    StuckNow,
    encode,
)
from iowarden.daemon.probe_client.metrics import UNREACHABLE, ProbeMetrics, printable
from iowarden.daemon.probe_client.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iowarden.collectors.model import Sample
    from iowarden.daemon.probe_client.connect import Connect

MAX_WAITING = 48
"""The probe accepts at most 64 per connection, including those that it has not killed yet."""

_TEXTS = {
    ReplyStatus.REFUSED: "the probe refused the request",
    ReplyStatus.BUSY: "the controller was busy until the deadline",
    ReplyStatus.TIMEOUT: "timed out",
    ReplyStatus.STUCK: "hangs in the kernel after SIGKILL",
    ReplyStatus.OVERFLOW: f"expected at most {MAX_REPLY_BYTES} bytes, got more; discarded",
    ReplyStatus.FAILED: "failed",
    ReplyStatus.CANCELLED: "was cancelled",
    ReplyStatus.MISSING: "the program is not installed",
}
_STEPS = {
    ReplyStatus.STUCK: "no program is started there until it ends; check the disk and its cables",
    ReplyStatus.OVERFLOW: "run the command by hand",
    ReplyStatus.MISSING: "install it to use this",
}
_ERRORS: Mapping[ReplyStatus, type[Exception]] = {
    ReplyStatus.MISSING: ProgramNotFoundError,
    ReplyStatus.STUCK: StuckError,
    ReplyStatus.TIMEOUT: DeadlineError,
}
_RETRY_TEXT = "will retry at the next poll"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits, in seconds."""

    hello_seconds: float = 15.0
    """For the greeting: the probe may have to be started first, on a machine under load."""
    grace_seconds: float = 4.5
    """After a request's deadline: the probe kills, waits 3 s for the end, and answers."""
    idle_seconds: float = 120.0
    """An idle connection is closed, so that the probe can end. A start takes 0.15 s of CPU, and
    where tasks wait for a disk now and then they are requested every minute."""
    unread_seconds: float = 30.0
    """The probe reads nothing of what was sent."""
    pause_seconds: float = 1.0
    """Between two connection attempts; doubled while they fail."""
    max_pause_seconds: float = 60.0


TIMEOUTS = Timeouts()


@dataclass(slots=True)
class _Call:
    """A request, and a thread that waits for its result. Times of the client's clock."""

    identifier: int
    verb: str
    arguments: tuple[str, ...]
    deadline: float
    done: threading.Event = field(default_factory=threading.Event)
    sent_at: float | None = None
    answer: ProbeReply | None = None
    error: Exception | None = None
    descriptor: int = -1


class Client:
    """Sends requests to the probe. `request`, `kernel_log`, `begin` and `close` are for any thread.

    Attributes are replaced as a whole, so that other threads can read them without a lock: `stuck`
    and `programs` as last reported, `connected`, and `problem`: '' or why there is no connection.
    """

    def __init__(
        self, connect: Connect, clock: Callable[[], float], limits: Timeouts = TIMEOUTS
    ) -> None:
        """Start idle. `clock` is monotonic; `connect` may block only this client's thread."""
        self.stuck: tuple[Stuck, ...] = ()
        self.programs: dict[str, str] = {}
        self.connected = False
        self.problem = ""
        self._connect = connect
        self._clock = clock
        self._limits = limits
        # Shared by several threads; the lock is held for a few lines, never across a wait:
        self._lock = threading.Lock()
        self._calls: dict[int, _Call] = {}
        self._given_up: list[_Call] = []
        self._begin = False
        self._closed = False
        self._next = 1
        self._metrics = ProbeMetrics()
        self._thread: threading.Thread | None = None
        # Used by the client's thread only:
        self._selector = selectors.DefaultSelector()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._transport: Transport | None = None
        self._absent = False
        self._failing_since = ""
        self._retry_at = float("-inf")
        self._pause_seconds = limits.pause_seconds
        self._busy_at = 0.0

    def begin(self) -> None:
        """Connect once: the greeting lists the programs, and those that already hang."""
        with self._lock:
            self._begin = True
            self._notify()

    def remember(self, stuck: tuple[Stuck, ...]) -> None:
        """Restore programs that hung at the last stop and still exist, until the greeting."""
        there = tuple(filter(_is_there, stuck))
        with self._lock:
            if not self._metrics.connections_total:
                self.stuck = there
                self._notify()

    def request(self, verb: str, arguments: Sequence[str], deadline_seconds: float) -> str:
        """Send a request and return the value of the answer, as JSON.

        Blocks at most until 5 s after the deadline, whatever the probe does. Errors: AbsentError
        (no probe), ProgramNotFoundError (the program is not installed), StuckError, DeadlineError
        (it was killed at the deadline), ReadError.
        """
        answer, descriptor = self._answer(verb, tuple(arguments), deadline_seconds)
        if descriptor >= 0:
            os.close(descriptor)
        return json.dumps(answer.value)

    def kernel_log(self, deadline_seconds: float = 5.0) -> int:
        """Return a file descriptor of '/dev/kmsg'; the caller closes it. Errors: as `request`."""
        _, descriptor = self._answer("kmsg", (), deadline_seconds)
        if descriptor < 0:
            raise ReadError(
                "'kmsg': expected a file descriptor with the answer, got none;"
                " see 'journalctl -t iowarden-probe'"
            )
        return descriptor

    def samples(self, now_realtime: float) -> list[Sample]:
        """Return the samples of FAMILIES; `now_realtime` is Unix time."""
        return self._metrics.samples(len(self._calls), self.stuck, now_realtime)

    def close(self, timeout_seconds: float) -> bool:
        """Close the connection and fail every request; return whether the thread ended in time."""
        with self._lock:
            self._closed = True
            thread = self._thread
            if thread is not None:
                self._notify()
        if thread is None:
            self._release()
            return True
        thread.join(timeout_seconds)
        return not thread.is_alive()

    # Called by requesting threads.

    def _answer(
        self, verb: str, arguments: tuple[str, ...], deadline_seconds: float
    ) -> tuple[ProbeReply, int]:
        if not 0 < deadline_seconds <= MAX_DEADLINE_SECONDS or len(arguments) > MAX_ARGUMENTS:
            raise ValueError(
                f"'{verb}': expected a deadline up to {duration(MAX_DEADLINE_SECONDS)} and up to"
                f" {MAX_ARGUMENTS} arguments, got {deadline_seconds} and {len(arguments)}"
            )
        start = self._clock()
        try:
            call = self._post(verb, arguments, start + deadline_seconds)
            if not call.done.wait(deadline_seconds + self._limits.grace_seconds):
                self._give_up(call)
        except ReadError:
            self._count(verb, ReplyStatus.BUSY, start)
            raise
        if call.error is not None:
            self._count(verb, UNREACHABLE, start)
            raise call.error
        if call.answer is None:
            self._count(verb, ReplyStatus.CANCELLED, start)
            where = (
                "the request was not sent" if call.sent_at is None else "the request is cancelled"
            )
            raise ReadError(
                f"{_name(verb, arguments)}: the probe did not answer within"
                f" {duration(deadline_seconds)}, {where}; {_RETRY_TEXT}"
            )
        self._count(verb, call.answer.outcome, start)
        if call.answer.outcome is ReplyStatus.DONE:
            return call.answer, call.descriptor
        said = f": {printable(call.answer.error)}" if call.answer.error else ""
        raise _ERRORS.get(call.answer.outcome, ReadError)(
            f"{_name(verb, arguments)}: {_TEXTS[call.answer.outcome]}{said};"
            f" {_STEPS.get(call.answer.outcome, _RETRY_TEXT)}"
        )

    def _post(self, verb: str, arguments: tuple[str, ...], deadline: float) -> _Call:
        with self._lock:
            if self._closed or len(self._calls) >= MAX_WAITING:
                got = (
                    "iowarden is stopping"
                    if self._closed
                    else f"{MAX_WAITING} requests already wait"
                )
                raise ReadError(
                    f"{_name(verb, arguments)}: not sent to the probe: {got}; {_RETRY_TEXT}"
                )
            call = _Call(self._next, verb, arguments, deadline)
            self._next += 1
            self._calls[call.identifier] = call
            self._notify()
        return call

    def _give_up(self, call: _Call) -> None:
        with self._lock:
            # Already removed: its result arrived at this moment, and is complete.
            if self._calls.pop(call.identifier, None) is not None:
                self._given_up.append(call)
                self._notify()

    def _count(self, verb: str, outcome: str, start: float) -> None:
        self._metrics.count(verb, outcome, self._clock() - start)

    def _notify(self) -> None:
        """Wake the thread, or start it. Call it with the lock."""
        if self._wake < 0:
            return  # closed
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="probe", daemon=True)
            self._thread.start()
        os.eventfd_write(self._wake, 1)

    # Run by the client's thread.

    def _run(self) -> None:
        while not self._closed:
            try:
                self._turn()
            except (OSError, ProtocolError) as error:
                self._broken(str(error), absent=isinstance(error, FileNotFoundError))
            except Exception as error:  # noqa: BLE001 - a bug of ours, reported as the problem
                self._broken(trace(error))
        self._broken("iowarden is stopping")
        with self._lock:
            calls = list(self._calls.values())
        self._fail(calls)
        self._release()

    def _release(self) -> None:
        with self._lock:
            wake, self._wake = self._wake, -1
        if wake >= 0:
            self._selector.close()
            os.close(wake)

    def _turn(self) -> None:
        for key, events in self._selector.select(self._wait_seconds()):
            if key.fd == self._wake:
                os.eventfd_read(self._wake)
                continue
            if events & selectors.EVENT_READ:
                self._receive()
            if events & selectors.EVENT_WRITE and self._transport is not None:
                self._transport.send()
        now = self._clock()
        with self._lock:
            given_up, self._given_up = self._given_up, []
            calls = list(self._calls.values())
            begin, self._begin = self._begin, False
        self._check_limits(now, given_up)
        if calls:
            self._busy_at = now
        if self._transport is None and (begin or calls or self.stuck):
            self._reach(now, calls)
        if self._transport is None:
            return
        if self.connected:
            for call in given_up:
                if call.sent_at is not None:
                    self._transport.put(encode(Cancel(call.identifier)))
            for call in calls:
                if call.sent_at is None:
                    self._put(self._transport, call, now)
        self._transport.send()

    def _wait_seconds(self) -> float | None:
        now = self._clock()
        limits, transport = self._limits, self._transport
        if transport is None:
            # While there is a problem, requests fail at once; otherwise they wait for the next
            # attempt.
            waits = bool(self.stuck or self._calls)
            return max(self._retry_at - now, 0.0) if waits else None
        if not self.connected:
            return max(transport.began_at + limits.hello_seconds - now, 0.0)
        ends = []
        if transport.unsent():
            ends.append(transport.sent_at + limits.unread_seconds)
        if not self._calls and not self.stuck:
            ends.append(self._busy_at + limits.idle_seconds)
        return max(min(ends) - now, 0.0) if ends else None

    def _check_limits(self, now: float, given_up: list[_Call]) -> None:
        """Close a connection that does not work. Errors: TimeoutError."""
        limits, transport = self._limits, self._transport
        if transport is None:
            return
        if not self.connected:
            if now >= transport.began_at + limits.hello_seconds:
                raise TimeoutError(
                    f"the probe sent no greeting within {duration(limits.hello_seconds)}"
                )
            return
        if transport.unsent() and now >= transport.sent_at + limits.unread_seconds:
            raise TimeoutError(f"the probe read no request for {duration(limits.unread_seconds)}")
        heard_at = transport.received_at
        if any(call.sent_at is not None and heard_at < call.sent_at for call in given_up):
            raise TimeoutError("the probe sent nothing until the deadline")
        idle = not self._calls and not self.stuck
        if idle and now >= self._busy_at + limits.idle_seconds:
            self._drop()
            self._retry_at, self._pause_seconds = now, limits.pause_seconds

    def _reach(self, now: float, calls: list[_Call]) -> None:
        """Connect, or fail the waiting requests if the last failure was too recent."""
        if now < self._retry_at:
            if self.problem:
                self._fail(calls)
            return
        self._transport = Transport(self._connect(), self._selector, self._clock)
        self._transport.put(encode(Hello()))

    def _put(self, transport: Transport, call: _Call, now: float) -> None:
        left = call.deadline - now
        what = _name(call.verb, call.arguments)
        if left <= 0:
            text = f"{what}: connected to the probe only after the deadline"
            self._end(call.identifier, error=ReadError(f"{text}; {_RETRY_TEXT}"))
            return
        frame = encode(Request(call.identifier, call.verb, call.arguments, left))
        if len(frame) > LENGTH_BYTES + MAX_REQUEST_BYTES:
            text = f"{what}: expected at most {MAX_REQUEST_BYTES} bytes, got {len(frame)}"
            self._end(call.identifier, error=ReadError(f"{text}; shorten the arguments"))
            return
        call.sent_at = now
        transport.put(frame)

    def _receive(self) -> None:
        """Handle received messages. Errors: OSError, ProtocolError."""
        if self._transport is None:
            return
        try:
            for message in self._transport.receive():
                self._handle(message)
        except EOFError:
            self._hung_up(self._transport)

    def _hung_up(self, transport: Transport) -> None:
        if not self.connected:
            raise ConnectionError("the probe closed the connection before its greeting")
        with self._lock:
            waits = any(call.sent_at is not None for call in self._calls.values())
        if waits or transport.waiting():
            raise ConnectionError("the probe closed the connection with requests unanswered")
        self._pause()
        self._drop()  # No request waits: the probe was restarted.

    def _handle(self, message: Message) -> None:
        if isinstance(message, Hello) != (not self.connected):
            raise ProtocolError(
                f"expected exactly one greeting, first, got a {type(message).__name__} message"
            )
        match message:
            case Hello(version, programs, stuck):
                if version != VERSION:
                    raise ProtocolError(
                        f"expected version {VERSION} of the protocol, got {version};"
                        " restart iowarden.service and iowarden-probe.service"
                    )
                with self._lock:  # against `remember`
                    self.stuck, self.programs = stuck, programs
                    self._metrics.connections_total += 1
                self.connected, self._metrics.up, self.problem = True, True, ""
                self._absent = False
                self._busy_at = self._clock()
            case StuckNow(stuck):
                self.stuck = stuck
            case ProbeReply():
                self._pause_seconds = self._limits.pause_seconds
                self._busy_at = self._clock()
                if not 0 < message.identifier < self._next:
                    raise ProtocolError(
                        f"got an answer to request {message.identifier}, which was never sent"
                    )
                # The caller may have gone: the request timed out, or is answered twice.
                self._end(message.identifier, message)
            case _:
                raise ProtocolError(f"expected an answer, got a {type(message).__name__} message")

    def _end(
        self, identifier: int, answer: ProbeReply | None = None, error: Exception | None = None
    ) -> None:
        with self._lock:
            call = self._calls.pop(identifier, None)
            if call is None:
                return
            call.answer, call.error = answer, error
            if (
                self._transport
                and answer
                and call.verb == "kmsg"
                and answer.outcome is ReplyStatus.DONE
            ):
                call.descriptor = self._transport.take_descriptor()
        call.done.set()

    def _broken(self, why: str, *, absent: bool = False) -> None:
        """Drop the connection, and fail the waiting requests."""
        if not self.problem:
            now = dt.datetime.fromtimestamp(time.time(), dt.UTC)
            self._failing_since = f"{now:%Y-%m-%d %H:%M:%S} UTC"
        with self._lock:
            # Unsent requests may use the next connection, if one may be made already.
            calls = [c for c in self._calls.values() if c.sent_at is not None or not self.connected]
        self._pause()
        self._drop()
        self._metrics.up, self._absent = False, absent
        gone = [each for each in self.stuck if not _is_there(each)]
        with self._lock:
            self.stuck = tuple(each for each in self.stuck if each not in gone)
        self.problem = f"no connection to the probe since {self._failing_since}: {printable(why)}"
        self._fail(calls)

    def _fail(self, calls: list[_Call]) -> None:
        for call in calls:
            text = (
                f"{_name(call.verb, call.arguments)}: {self.problem}; will retry with the next"
                f" request, at most {duration(self._limits.max_pause_seconds)} after the last"
                " attempt"
            )
            self._end(call.identifier, error=(AbsentError if self._absent else ReadError)(text))

    def _pause(self) -> None:
        """Set when the next attempt may be made: soon after a connection that had worked."""
        start = self._clock()
        if self.connected and self._transport is not None:
            start = self._transport.began_at
        self._retry_at = start + self._pause_seconds
        self._pause_seconds = min(self._pause_seconds * 2, self._limits.max_pause_seconds)

    def _drop(self) -> None:
        self.connected = False
        if self._transport is not None:
            self._transport.close()
            self._transport = None


def _is_there(program: Stuck) -> bool:
    """Whether a program may still run although no probe reports it; after a reboot it does not.

    If other users' processes are hidden (proc(5), hidepid), so is process 1: then it may.
    """
    found = _start_ticks(program.pid)
    return found == program.start_ticks or (found is None and _start_ticks(1) is None)


def _start_ticks(pid: int) -> int | None:
    """Return when a process was started, None if it is not visible. Source: proc(5), starttime."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return None


def _name(verb: str, arguments: tuple[str, ...]) -> str:
    return f"'{printable(' '.join((verb, *arguments)).strip())}'"
