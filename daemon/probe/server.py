"""The probe: takes requests, runs each in a child, answers; one thread, and nothing that waits.

A program that outlives SIGKILL hangs in the kernel. It is never waited for; nothing else is started
at its controllers while it lives, and everything else goes on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import selectors
import signal
import socket
import time
import traceback
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from iowarden.daemon import journal
from iowarden.daemon.probe import children, connection, protocol, stuck, verbs
from iowarden.daemon.probe.connection import Connection
from iowarden.daemon.probe.programs import MissingError, Programs, RefusedError
from iowarden.daemon.probe.protocol import Answer, Cancel, Hello, Outcome, Request, Stuck, StuckNow
from iowarden.daemon.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from iowarden.daemon.probe.children import Child, Pipe, Work
    from iowarden.daemon.probe.protocol import Message

KILL_SECONDS = 3.0
"""After SIGKILL a program that is not in the kernel is gone at once, however busy the machine."""
IDLE_SECONDS = 30.0
STOP_SECONDS = 2.0
MOST_CONNECTIONS = 8
MOST_OPEN = 64
MOST_CHILDREN = 32
MOST_WAITING = 256
MOST_LEFT = 64
"""Programs that hang; each holds memory of the kernel that nobody can free."""
MOST_ERROR_BYTES = 64 * 1024
_ACCEPT_AGAIN_SECONDS = 1.0
_SAY_AGAIN_SECONDS = 60.0
_MOST_SAID = 256
_MOST_REQUESTS_SAID = 16
_MOST_CONNECTIONS_SAID = 32
"""Whoever asks for something else each time, fills no journal, and hides no line that matters: so
many texts of a minute, of whatever kind, leave no room for another refusal of a request, or of a
connection.
"""
_LAST_READS = 256
"""So often a pipe is read once its program has ended: what it holds, and not for ever."""
_NEVER = float("inf")

_KMSG = "/dev/kmsg"
_AT_ONCE = frozenset({"kmsg", "programs"})
_ALONE = frozenset({"tasks", "journal"})
"""Verbs of which one runs at a time; the others are one for each path."""


@dataclass(slots=True, eq=False)
class _Job:
    """A request without an answer. Units: `until` and `begun` by the clock that only grows."""

    connection: Connection
    request: Request
    controllers: frozenset[str]
    devices: tuple[str, ...]
    work: Work
    until: float
    begun: float
    child: Child | None = None
    since_seconds: float = 0.0
    """When it was started; once it was killed, when that was. Unix time."""
    killed: tuple[Outcome, str] | None = None

    def record(self) -> Stuck:
        """Return what the register keeps of it."""
        own = self.request.arguments
        return Stuck(
            self.child.pid if self.child else 0,
            self.child.start_ticks if self.child else 0,
            own if self.request.verb == "run" else (self.request.verb, *own),
            tuple(sorted(self.controllers)),
            self.devices,
            self.since_seconds,
        )


@dataclass(slots=True, eq=False)
class _Left:
    """A process that was killed and is not gone, and has no request. `told`: it is stuck."""

    program: Stuck
    pidfd: int
    until: float
    told: bool


class Server:
    """The probe's loop. Errors at construction: OSError, when it cannot do its work here at all."""

    def __init__(
        self,
        *,
        directory: str,
        users: Iterable[int],
        log: journal.Log,
        listener: socket.socket | None = None,
        connected: Iterable[socket.socket] = (),
        find: Callable[[], Programs] = Programs,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """Find the programs and what an earlier probe left. `directory`: in memory, its own.

        `users`: who may ask beside root. `listener`: it ends when nobody has been connected for
        `idle_seconds`; without one it ends with its last connection.
        """
        children.prepare()
        self.refused_total = 0
        self._directory = directory
        self._users = frozenset({0, *users})
        self._log = log
        self._listener = listener
        self._find = find
        self._idle_seconds = idle_seconds
        self._programs = find()
        self._selector = selectors.DefaultSelector()
        self._connections: set[Connection] = set()
        self._waiting: list[_Job] = []
        self._running: dict[int, _Job] = {}
        self._left: dict[int, _Left] = {}
        self._said: dict[str, float] = {}
        self._number = 0
        self._busy_at = time.monotonic()
        self._accept_again_at = _NEVER
        self._stopping = False
        self._stop_at = _NEVER
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)  # noqa: FBT003 - the library's own signature
        self._waker.setblocking(False)  # noqa: FBT003 - as above
        self._watch(self._woken, self._wake)
        self._boot = stuck.boot_identifier()
        self._find_again()
        if listener is not None:
            listener.setblocking(False)  # noqa: FBT003 - as above
            self._watch(listener, self._accept)
        for each in connected:
            self._take(each)

    def run(self) -> None:
        """Serve until there is nothing to do for a while, or SIGTERM."""
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self._on_time()
        while not self._over():
            pause = self._next_at() - time.monotonic()
            for key, _ in self._selector.select(max(pause, 0) if pause < _NEVER else None):
                key.data()
            self._on_time()
        self._register()
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
            # Tried at once it would fail for ever: the socket stays ready.
            self._say("warning", f"probe: cannot take a connection: {error}; next try in 1 s")
            self._selector.unregister(self._listener)
            self._accept_again_at = time.monotonic() + _ACCEPT_AGAIN_SECONDS
            return
        self._take(stream)

    def _take(self, stream: socket.socket) -> None:
        taken = Connection(stream, time.monotonic())
        user = taken.peer()
        if user not in self._users:
            self._refuse(f"a connection of user {user}: expected root or iowarden")
        elif len(self._connections) >= MOST_CONNECTIONS:
            self._refuse(f"a connection of user {user}: there are {MOST_CONNECTIONS} already")
        else:
            self._connections.add(taken)
            self._watch(stream, partial(self._serve, taken))
            return
        taken.close()
        self._stopping |= self._alone()

    def _serve(self, each: Connection) -> None:
        """Read from a connection and write to it; whatever goes wrong is the end of it alone."""
        if each.closed:  # in this very round
            return
        now = time.monotonic()
        try:
            each.send(now)
            messages = each.receive(now)
            for message in messages or ():
                if each.closed:  # an answer found it broken: nothing more is done for it
                    return
                self._hear(each, message)
            if messages is None:
                self._drop(each)
        except protocol.ProtocolError as error:
            self._refuse(f"a connection: {error}")
            self._drop(each)
        except Exception:  # noqa: BLE001 - whoever sent that, the others must not suffer
            self._say("error", f"probe: this is a bug of iowarden:\n{traceback.format_exc()}")
            self._drop(each)
        self._mind(each)

    def _hear(self, each: Connection, message: Message) -> None:
        if not each.greeted:
            if not isinstance(message, Hello):
                raise protocol.ProtocolError(f"expected a greeting, got {message!r:.80}")
            if message.version != protocol.VERSION:
                raise protocol.ProtocolError(
                    f"expected version {protocol.VERSION}, got {message.version};"
                    " restart iowarden.service and iowarden-probe.service"
                )
            each.greeted = True
            self._send(each, Hello(protocol.VERSION, self._programs.found(), self._stuck()))
            return
        match message:
            case Request():
                self._ask(each, message)
            case Cancel(identifier):
                for job in self._jobs(each):
                    if job.request.identifier == identifier:
                        self._end(job, Outcome.CANCELLED, "it was cancelled")
            case _:
                raise protocol.ProtocolError(f"expected a request, got {message!r:.80}")

    def _drop(self, each: Connection) -> None:
        """Close a connection and kill what runs for it."""
        if each not in self._connections:
            return
        self._connections.discard(each)
        self._selector.unregister(each.stream)
        each.close()
        for job in self._jobs(each):
            self._end(job, Outcome.CANCELLED, "nobody waits for it")
        self._stopping |= self._alone()

    def _alone(self) -> bool:
        """Whether nobody is connected, and nobody can be any more."""
        return self._listener is None and not self._connections

    def _send(self, each: Connection, message: Message, descriptor: int = -1) -> None:
        if each.closed:
            return
        each.put(protocol.encode(message), time.monotonic(), descriptor)
        self._mind(each)

    def _mind(self, each: Connection) -> None:
        """Wait until there is room where something is unsent; drop what broke."""
        if each.broken:
            self._drop(each)
        if each in self._connections:
            writing = selectors.EVENT_WRITE if each.unsent() else 0
            key = self._selector.get_key(each.stream)
            if key.events != selectors.EVENT_READ | writing:
                self._selector.modify(each.stream, selectors.EVENT_READ | writing, key.data)

    # Requests

    def _ask(self, each: Connection, request: Request) -> None:
        now = time.monotonic()
        mine = [job.request.identifier for job in self._jobs(each)]
        try:
            if self._stopping:
                raise RefusedError("the probe is ending")
            if request.identifier in mine:
                raise RefusedError(f"request {request.identifier} is open already")
            if len(mine) >= MOST_OPEN or len(self._waiting) >= MOST_WAITING:
                raise RefusedError(
                    f"{len(mine)} of yours and {len(self._waiting)} in all wait already"
                )
            if request.verb in _AT_ONCE:
                self._at_once(each, request)
                return
            controllers, devices, work = self._plan(request)
        except MissingError as error:
            self._send(each, Answer(request.identifier, Outcome.MISSING, str(error)))
            return
        except RefusedError as error:
            self._refuse(f"'{request.verb}' of user {each.peer()}: {error}", _MOST_REQUESTS_SAID)
            self._send(each, Answer(request.identifier, Outcome.REFUSED, str(error)))
            return
        until = now + request.deadline_seconds
        self._waiting.append(_Job(each, request, controllers, devices, work, until, now))
        self._begin()

    def _plan(self, request: Request) -> tuple[frozenset[str], tuple[str, ...], Work]:
        """Return what nothing else may be at meanwhile, the devices, and what to do."""
        if request.verb == "run":
            try:
                command = self._programs.resolve(request.arguments)
            finally:
                for change in self._programs.changes():
                    self._say("warning", f"probe: {change}")
            work = children.program(command.path, command.arguments, idle=command.idle)
            return command.controllers, command.devices, work
        if refusal := verbs.refusal(request.verb, request.arguments):
            raise RefusedError(refusal)
        name = request.verb if request.verb in _ALONE else f"path {request.arguments[0]}"
        call = children.function(verbs.VERBS[request.verb], request.arguments)
        return frozenset({name}), (), call

    def _at_once(self, each: Connection, request: Request) -> None:
        """Answer what takes no child: the programs, or the kernel's messages as a descriptor."""
        if request.arguments:
            raise RefusedError("expected no argument")
        if request.verb == "programs":
            self._programs = self._find()
            value = {"programs": self._programs.found()}
            self._send(each, Answer(request.identifier, Outcome.DONE, value=value))
            return
        if each.descriptors() >= connection.MOST_DESCRIPTORS:
            raise RefusedError("descriptors wait to be received already")
        try:
            descriptor = os.open(_KMSG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            self._send(each, Answer(request.identifier, Outcome.FAILED, str(error)))
            return
        self._send(each, Answer(request.identifier, Outcome.DONE), descriptor)

    def _jobs(self, each: Connection) -> list[_Job]:
        found = (*self._waiting, *self._running.values())
        return [job for job in found if job.connection is each]

    def _begin(self) -> None:
        """Start what can start, at each controller in the order of asking."""
        used = {name for job in self._running.values() for name in job.controllers}
        used |= {name for left in self._left.values() for name in left.program.controllers}
        for job in tuple(self._waiting):
            if job not in self._waiting:  # an answer found its connection broken
                continue
            if hanging := self._hanging(job):
                self._waiting.remove(job)
                self._reply(job, Outcome.STUCK, hanging)
                continue
            if len(self._running) < MOST_CHILDREN and not job.controllers & used:
                if not self._allowed_still(job):
                    continue
                if not job.controllers & used:
                    self._waiting.remove(job)
                    self._start(job)
            used |= job.controllers

    def _allowed_still(self, job: _Job) -> bool:
        """Look again when a request's turn has come; answer it if it may not be done any more.

        While it waited, smartd may have been started, a program replaced, a disk been renamed.
        """
        try:
            job.controllers, job.devices, job.work = self._plan(job.request)
        except RefusedError as error:
            missing = isinstance(error, MissingError)
            if not missing:
                user = job.connection.peer()
                self._refuse(f"'{job.request.verb}' of user {user}: {error}", _MOST_REQUESTS_SAID)
            self._waiting.remove(job)
            self._reply(job, Outcome.MISSING if missing else Outcome.REFUSED, str(error))
            return False
        return True

    def _hanging(self, job: _Job) -> str:
        """Return '', or why nothing can be started for a request for long."""
        told = self._stuck()
        for program in told:
            if not job.controllers.isdisjoint(program.controllers):
                return _hangs(program)
        if len(told) >= MOST_LEFT:
            return f"{len(told)} programs hang in the kernel; no more are started beside them"
        return ""

    def _start(self, job: _Job) -> None:
        self._number += 1
        job.begun, job.since_seconds = time.monotonic(), time.time()
        try:
            child = children.start(job.work, f"{self._directory}/{children.SCRATCH}{self._number}")
        except OSError as error:
            self._reply(job, Outcome.FAILED, f"cannot start a process: {error}")
            return
        job.child = child
        self._running[child.pid] = job
        self._watch(child.pidfd, partial(self._ended, job, child))
        for pipe in child.pipes():
            self._watch(pipe.descriptor, partial(self._read, job, child, pipe))
        if problem := self._register():
            self._kill(job, child, Outcome.FAILED, problem)
        else:
            child.release()

    def _end(self, job: _Job, outcome: Outcome, reason: str) -> None:
        if job.child is not None:
            self._kill(job, job.child, outcome, reason)
        elif job in self._waiting:
            self._waiting.remove(job)
            self._reply(job, outcome, reason)

    def _reply(
        self, job: _Job, outcome: Outcome, reason: str, value: dict[str, Any] | None = None
    ) -> None:
        spent = time.monotonic() - job.begun
        answer = Answer(job.request.identifier, outcome, reason, value or {}, spent)
        if job.connection.closed:
            return
        frame = protocol.encode(answer)
        if value and len(frame) - protocol.LENGTH_BYTES > job.request.limit_bytes:
            self._reply(job, Outcome.OVERFLOW, _too_much(job))
            return
        job.connection.put(frame, time.monotonic())
        self._mind(job.connection)

    # Children

    def _read(self, job: _Job, child: Child, pipe: Pipe) -> None:
        if pipe.descriptor < 0:  # closed in this very round
            return
        if not pipe.read(_most_bytes(job, child, pipe)):
            self._selector.unregister(pipe.descriptor)
            pipe.close()
        elif pipe is child.output and pipe.seen_bytes > job.request.limit_bytes:
            self._kill(job, child, Outcome.OVERFLOW, _too_much(job))

    def _kill(self, job: _Job, child: Child, outcome: Outcome, reason: str) -> None:
        """Kill the program of a request, which comes to `outcome` once it is gone."""
        if job.killed is None:
            job.killed = (outcome, reason)
            job.since_seconds = time.time()
            job.until = time.monotonic() + KILL_SECONDS
            child.kill()

    def _ended(self, job: _Job, child: Child) -> None:
        """Answer for a program that ended, and kill what it leaves behind."""
        status = children.ended(child.pid)
        if status is None:
            return
        for pipe in child.pipes():
            if pipe.descriptor >= 0:
                pipe.read(_most_bytes(job, child, pipe), turns=_LAST_READS)
        del self._running[child.pid]
        self._let_go(child)
        self._selector.unregister(child.pidfd)
        os.close(child.pidfd)
        self._sweep(job.record())
        self._register()
        self._reply(job, *self._result(job, child, os.waitstatus_to_exitcode(status)))
        self._begin()

    def _result(
        self, job: _Job, child: Child, status: int
    ) -> tuple[Outcome, str, dict[str, Any] | None]:
        """Return what a program came to. `status`: negative when a signal ended it."""
        content = child.output.content
        if job.killed is not None:
            return *job.killed, None
        if child.output.seen_bytes > job.request.limit_bytes:
            return Outcome.OVERFLOW, _too_much(job), None
        if child.fault.content:
            return Outcome.FAILED, child.fault.content.decode("utf-8", "replace"), None
        if job.request.verb == "run":
            value = {
                "status": status if status >= 0 else None,
                "signal": -status if status < 0 else None,
                "stdout": content.decode("utf-8", "surrogateescape"),
                "stderr": child.error.content.decode("utf-8", "surrogateescape"),
            }
            return Outcome.DONE, "", value
        try:
            value = json.loads(content)
        except ValueError:
            return Outcome.FAILED, f"its process ended half way, with status {status}", None
        return Outcome.DONE, "", value

    def _let_go(self, child: Child) -> None:
        for pipe in child.pipes():
            if pipe.descriptor >= 0:
                self._selector.unregister(pipe.descriptor)
        child.close()

    def _sweep(self, origin: Stuck) -> None:
        """Kill what is a child of ours and nobody's request: left behind, or out of its group.

        `origin` is what ended just now; its controllers are not free before all of that is gone.
        """
        for pid in children.children(os.getpid()):
            if pid in self._running or pid in self._left or children.ended(pid) is not None:
                continue
            process = children.look(pid)
            if process is None or process.session in self._running:
                continue
            names = set(origin.controllers)
            if process.session != origin.pid:  # of whom it is, nobody knows
                names.update(*(job.controllers for job in self._running.values()))
            left = dataclasses.replace(
                origin,
                pid=pid,
                start_ticks=process.start_ticks,
                controllers=tuple(sorted(names)),
            )
            self._leave(left, os.pidfd_open(pid), told=False)

    def _leave(self, program: Stuck, pidfd: int, *, told: bool) -> None:
        """Kill a process, and see to it until it is gone."""
        left = _Left(program, pidfd, time.monotonic() + KILL_SECONDS, told)
        self._left[program.pid] = left
        self._watch(pidfd, partial(self._gone, left))
        children.kill(program.pid, pidfd)

    def _gone(self, left: _Left) -> None:
        """Forget a process that ended at last."""
        pid = left.program.pid
        children.ended(pid)  # one that an earlier probe started is not ours to reap
        if not stuck.over(left.pidfd):
            return
        self._selector.unregister(left.pidfd)
        os.close(left.pidfd)
        del self._left[pid]
        self._sweep(left.program)
        self._register()
        if left.told:
            self._log.send(
                journal.TROUBLE,
                journal.LEVELS["notice"],
                f"probe: {_name(left.program)}, which hung in the kernel, is gone",
            )
            self._tell()
        self._begin()

    def _hang(self, program: Stuck) -> None:
        """Say that a program outlived SIGKILL, to all who listen."""
        self._register()
        self._log.send(
            journal.TROUBLE,
            journal.LEVELS["error"],
            f"probe: {_hangs(program)}; nothing more is started"
            f" at {', '.join(program.controllers) or 'it'} until it ends",
        )
        self._tell()
        self._begin()

    def _tell(self) -> None:
        for each in tuple(self._connections):
            if each.greeted:
                self._send(each, StuckNow(self._stuck()))

    def _stuck(self) -> tuple[Stuck, ...]:
        return tuple(left.program for left in self._left.values() if left.told)

    def _register(self) -> str:
        """Write down what runs and what hangs; return '', or why that cannot be done."""
        entries = [stuck.Entry(job.record()) for job in self._running.values()]
        entries += [stuck.Entry(left.program, left.told) for left in self._left.values()]
        try:
            stuck.write(self._directory, entries, self._boot)
        except OSError as error:
            problem = f"cannot write down what runs: {error}; is its file system full?"
            self._say("error", f"probe: {problem}")
            return problem
        return ""

    def _find_again(self) -> None:
        """Take over what an earlier probe left: kill it again, and see to it until it is gone."""
        status = os.stat(self._directory)
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            # Whoever can write there can have any process killed.
            raise PermissionError(
                f"'{self._directory}': expected a directory that is root's and writable by nobody"
                f" else, got owner {status.st_uid} and mode {status.st_mode & 0o7777:04o}"
            )
        try:
            entries = stuck.read(self._directory, self._boot)
        except (OSError, ValueError) as error:
            entries = []
            self._say("error", f"probe: {error}; what an earlier probe left hanging is not known")
        for entry, pidfd in stuck.survivors(entries, self._directory):
            self._leave(entry.program, pidfd, told=entry.told)
            self._say(
                "warning", f"probe: {_name(entry.program)} was left by an earlier probe; killed"
            )
        for name in os.listdir(self._directory):
            if name.startswith(children.SCRATCH):
                children.remove(os.path.join(self._directory, name))
        self._register()

    # Time

    def _on_time(self) -> None:
        now = time.monotonic()
        for job in tuple(self._waiting):
            if now >= job.until:
                self._end(job, Outcome.BUSY, self._busy(job))
        for job in tuple(self._running.values()):
            if job.child is not None and now >= job.until:
                self._late(job, job.child)
        for left in tuple(self._left.values()):
            if now >= left.until and not left.told:
                left.told = True
                self._hang(left.program)
        for each in tuple(self._connections):
            if now >= each.late_at():
                self._refuse(f"a connection: {each.fault()}")
                self._drop(each)
        if now >= self._accept_again_at:
            self._accept_again_at = _NEVER
            if self._listener is not None and not self._stopping:
                self._watch(self._listener, self._accept)
        if self._connections or self._running or self._left:
            self._busy_at = now
        # Last: a connection that was dropped just now may have been the only one.
        if self._stopping and self._stop_at == _NEVER:
            self._stop(now)

    def _late(self, job: _Job, child: Child) -> None:
        """Kill a program at its deadline; give one up that is not gone long after that."""
        if job.killed is None:
            self._kill(
                job, child, Outcome.TIMEOUT, f"{_name(job.record())} was killed at the deadline"
            )
            return
        program = job.record()
        del self._running[child.pid]
        self._let_go(child)
        left = _Left(program, child.pidfd, 0.0, told=True)
        self._left[child.pid] = left
        self._selector.modify(child.pidfd, selectors.EVENT_READ, partial(self._gone, left))
        self._reply(job, Outcome.STUCK, _hangs(program))
        self._hang(program)

    def _busy(self, job: _Job) -> str:
        """Return what a request waited for in vain."""
        programs = [other.record() for other in self._running.values()]
        programs += [left.program for left in self._left.values()]
        for program in programs:
            if not job.controllers.isdisjoint(program.controllers):
                return f"{_name(program)} has been there since {_utc(program.since_seconds)}"
        return f"{len(self._running)} programs run and {len(self._waiting)} requests wait"

    def _next_at(self) -> float:
        """Return when something is due. The times of a clock that only grows; inf: nothing."""
        return min(
            (
                *(job.until for job in self._waiting),
                *(job.until for job in self._running.values()),
                *(left.until for left in self._left.values() if not left.told),
                *(each.late_at() for each in self._connections),
                self._accept_again_at,
                self._stop_at,
                self._idle_at(),
            )
        )

    def _idle_at(self) -> float:
        idle = not (self._connections or self._running or self._left)
        return self._busy_at + self._idle_seconds if idle and self._listener is not None else _NEVER

    def _over(self) -> bool:
        now = time.monotonic()
        if self._stop_at < _NEVER:
            gone = not self._running and all(left.told for left in self._left.values())
            return gone or now >= self._stop_at
        return now >= self._idle_at()

    def _stop(self, now: float) -> None:
        """Take nothing more and kill what runs; a program that hangs is not waited for."""
        self._stop_at = now + STOP_SECONDS
        if self._listener is not None and self._accept_again_at == _NEVER:
            self._selector.unregister(self._listener)
        for job in (*self._waiting, *self._running.values()):
            self._end(job, Outcome.CANCELLED, "the probe is ending")

    def _on_signal(self, *_: object) -> None:
        self._stopping = True

    def _wake(self) -> None:
        """Take the bytes that signals left; the loop looks at what they set."""
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)

    # Words

    def _watch(self, what: socket.socket | int, call: Callable[[], None]) -> None:
        self._selector.register(what, selectors.EVENT_READ, call)

    def _refuse(self, text: str, most: int = _MOST_CONNECTIONS_SAID) -> None:
        self.refused_total += 1
        self._say("warning", f"probe: refused {one_line(text, 300)}", most)

    def _say(self, level: str, text: str, most: int = _MOST_SAID) -> None:
        """Log a text once a minute at most: somebody may ask the same for ever.

        `most`: so many texts are said in a minute; the last of them says that it is.
        """
        now = time.monotonic()
        said = {each: at for each, at in self._said.items() if now - at < _SAY_AGAIN_SECONDS}
        if text not in said and len(said) < most:
            said[text] = now
            more = "; what else is like this is not logged for a minute"
            last = more if len(said) == most else ""
            self._log.send(journal.TROUBLE, journal.LEVELS[level], text + last)
        self._said = said


def _most_bytes(job: _Job, child: Child, pipe: Pipe) -> int:
    return job.request.limit_bytes if pipe is child.output else MOST_ERROR_BYTES


def _too_much(job: _Job) -> str:
    return f"expected at most {job.request.limit_bytes} bytes, got more"


def _name(program: Stuck) -> str:
    """Return a program for people."""
    return f"'{one_line(' '.join(program.arguments), 200)}' (process {program.pid})"


def _hangs(program: Stuck) -> str:
    return f"{_name(program)} was killed at {_utc(program.since_seconds)}, and hangs in the kernel"


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
