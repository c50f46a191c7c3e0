"""Request queue of the probe: each request waits for its turn, runs in a child, and is answered.

At each controller one program at a time, in the order of the requests.
"""

from __future__ import annotations

import json
import os
import selectors
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.probe import children, owners, protocol, stuck, verbs
from iowarden.daemon.probe.limited_log import MAX_REQUESTS_LOGGED
from iowarden.daemon.probe.orphans import KILL_SECONDS, Orphans
from iowarden.daemon.probe.programs import NotInstalledError, RefusedError
from iowarden.daemon.probe.protocol import ProbeReply, ReplyStatus, Request, Stuck

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.daemon.probe.children import Child, Pipe, Work
    from iowarden.daemon.probe.connection import Connection
    from iowarden.daemon.probe.limited_log import LimitedLog
    from iowarden.daemon.probe.programs import ProgramCommand, Programs

MAX_OPEN = 64
MAX_CHILDREN = 32
MAX_WAITING = 256
MAX_LEFT = 64
"""Limit of programs that hang; each holds kernel memory that cannot be freed."""
MAX_ERROR_BYTES = 64 * 1024
_LAST_READS = 256
"""Maximum number of reads of a pipe once its program has ended: its content, and no more."""
_ALONE = frozenset({"tasks", "io_sweep", "journal"})
"""Verbs of which one runs at a time; of the others one per path or disk."""


@dataclass(slots=True, eq=False)
class Job:
    """A request without an answer. Units: `until` and `begun` by the monotonic clock."""

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
    killed: tuple[ReplyStatus, str] | None = None

    def record(self) -> Stuck:
        """Return its entry in the register."""
        own = self.request.arguments
        return Stuck(
            self.child.pid if self.child else 0,
            self.child.start_ticks if self.child else 0,
            own if self.request.verb == "run" else (self.request.verb, *own),
            tuple(sorted(self.controllers)),
            self.devices,
            self.since_seconds,
        )


class Jobs:
    """The requests without an answer, waiting or running.

    `orphans` are processes that were killed and have not ended.
    """

    def __init__(
        self,
        directory: str,
        selector: selectors.BaseSelector,
        log: LimitedLog,
        *,
        find: Callable[[], Programs],
        send: Callable[[Connection, bytes], None],
        notify: Callable[[], None],
    ) -> None:
        """Find the programs. `directory` is for scratch directories and the register.

        `send` gets the frame of an answer; `notify` is called when the stuck programs changed.
        """
        self._directory = directory
        self._selector = selector
        self._log = log
        self._find = find
        self._send = send
        self._programs = find()
        self._waiting: list[Job] = []
        self._running: dict[int, Job] = {}
        self._number = 0
        self.orphans = Orphans(
            directory,
            selector,
            log,
            running=lambda: {pid: job.record() for pid, job in self._running.items()},
            notify=notify,
            freed=self._begin,
        )

    def programs(self, *, refresh: bool = False) -> dict[str, str]:
        """Return the allowed programs by name, with their path; `refresh`: search them again."""
        if refresh:
            self._programs = self._find()
        return self._programs.installed()

    def all(self) -> tuple[Job, ...]:
        """Return the waiting requests, then the running ones."""
        return (*self._waiting, *self._running.values())

    def of(self, each: Connection) -> list[Job]:
        """Return the requests of a connection."""
        return [job for job in self.all() if job.connection is each]

    def busy(self) -> bool:
        """Return whether a process exists."""
        return bool(self._running or self.orphans)

    def done(self) -> bool:
        """Return whether nothing runs except programs that hang."""
        return not self._running and len(self.orphans) == len(self.orphans.stuck())

    def check_room(self, each: Connection, request: Request) -> None:
        """Check that a further request may wait. Errors: RefusedError."""
        mine = [job.request.identifier for job in self.of(each)]
        if request.identifier in mine:
            raise RefusedError(f"request {request.identifier} is already open")
        if len(mine) >= MAX_OPEN or len(self._waiting) >= MAX_WAITING:
            raise RefusedError(f"queue is full: {len(mine)} of yours, {len(self._waiting)} in all")

    def add(self, each: Connection, request: Request) -> None:
        """Queue a request; start what can start. Errors: RefusedError."""
        now = time.monotonic()
        until = now + request.deadline_seconds
        controllers, devices, work = self._plan(request, until)
        job = Job(each, request, controllers, devices, work, until, now)
        self._waiting.append(job)
        self._begin()

    def refused(self, each: Connection, request: Request, error: RefusedError) -> ReplyStatus:
        """Return the outcome of a request that is not run; log it if it is not allowed."""
        if isinstance(error, NotInstalledError):
            return ReplyStatus.MISSING
        self._log.refuse(f"'{request.verb}' from user {each.peer()}: {error}", MAX_REQUESTS_LOGGED)
        return ReplyStatus.REFUSED

    def next_at(self) -> float:
        """Return when something is due, by the monotonic clock; inf: nothing is."""
        return min((*(job.until for job in self.all()), self.orphans.next_at()))

    def on_time(self, now: float) -> None:
        """End what is past its deadline."""
        for job in tuple(self._waiting):
            if now >= job.until:
                self.end(job, self._busy(job), ReplyStatus.BUSY)
        for job in tuple(self._running.values()):
            if job.child is not None and now >= job.until:
                self._late(job, job.child)
        self.orphans.on_time(now)

    def _plan(self, request: Request, until: float) -> tuple[frozenset[str], tuple[str, ...], Work]:
        """Return what must be used exclusively, the devices, and the work, until its deadline."""
        if request.verb == "run":
            command = self._resolve(request.arguments)
            return command.controllers, command.devices, children.program(command)
        if verb := owners.VERBS.get(request.verb):
            if refusal := owners.refusal(request.verb, request.arguments):
                raise RefusedError(refusal)
            command = self._resolve(verb.first(request.arguments), inner=True)
            answer = partial(owners.answer, request.verb, self._programs, until)
            work = children.function(
                answer, request.arguments, verb.capabilities, needs_root=verb.needs_root
            )
            return command.controllers, command.devices, work
        if refusal := verbs.refusal(request.verb, request.arguments):
            raise RefusedError(refusal)
        kind = "disk" if request.verb == "scan" else "path"
        name = request.verb if request.verb in _ALONE else f"{kind} {request.arguments[0]}"
        call = children.function(
            verbs.VERBS[request.verb], request.arguments, verbs.CAPABILITIES[request.verb]
        )
        return frozenset({name}), (), call

    def _resolve(self, words: tuple[str, ...], *, inner: bool = False) -> ProgramCommand:
        try:
            return self._programs.resolve(words, inner=inner)
        finally:
            for change in self._programs.changes():
                self._log.write("warning", f"probe: {change}")

    def _begin(self) -> None:
        """Start what can start, at each controller in the order of the requests."""
        used = {name for job in self._running.values() for name in job.controllers}
        used |= {name for program in self.orphans.programs() for name in program.controllers}
        for job in tuple(self._waiting):
            if job not in self._waiting:  # The connection of an answer was broken.
                continue
            if hanging := self._hanging(job):
                self._waiting.remove(job)
                self._reply(job, ReplyStatus.STUCK, hanging)
                continue
            if len(self._running) < MAX_CHILDREN and not job.controllers & used:
                if not self._allowed_still(job):
                    continue
                if not job.controllers & used:
                    self._waiting.remove(job)
                    self._start(job)
            used |= job.controllers

    def _allowed_still(self, job: Job) -> bool:
        """Check a request again when its turn has come; answer it if it is no longer allowed.

        While it waited, smartd may have been started, a program replaced, or a disk renamed.
        """
        try:
            job.controllers, job.devices, job.work = self._plan(job.request, job.until)
        except RefusedError as error:
            outcome = self.refused(job.connection, job.request, error)
            self._waiting.remove(job)
            self._reply(job, outcome, str(error))
            return False
        return True

    def _hanging(self, job: Job) -> str:
        """Return '', or why nothing can be started for a request for a long time."""
        told = self.orphans.stuck()
        for program in told:
            if not job.controllers.isdisjoint(program.controllers):
                return stuck.hangs(program)
        if len(told) >= MAX_LEFT:
            return f"{len(told)} programs hang in the kernel; no more are started"
        return ""

    def _start(self, job: Job) -> None:
        self._number += 1
        job.begun, job.since_seconds = time.monotonic(), time.time()
        try:
            child = children.start(job.work, f"{self._directory}/{children.SCRATCH}{self._number}")
        except OSError as error:
            self._reply(job, ReplyStatus.FAILED, f"cannot start a process: {error}")
            return
        job.child = child
        self._running[child.pid] = job
        self._watch(child.pidfd, partial(self._ended, job, child))
        for pipe in child.pipes():
            self._watch(pipe.descriptor, partial(self._read, job, child, pipe))
        if problem := self.orphans.register():
            self._kill(job, child, ReplyStatus.FAILED, problem)
        else:
            child.release()

    def end(self, job: Job, reason: str, outcome: ReplyStatus = ReplyStatus.CANCELLED) -> None:
        """Answer a waiting request; kill the program of a running one."""
        if job.child is not None:
            self._kill(job, job.child, outcome, reason)
        elif job in self._waiting:
            self._waiting.remove(job)
            self._reply(job, outcome, reason)

    def _reply(
        self, job: Job, outcome: ReplyStatus, reason: str, value: dict[str, Any] | None = None
    ) -> None:
        spent = time.monotonic() - job.begun
        answer = ProbeReply(job.request.identifier, outcome, reason, value or {}, spent)
        if job.connection.closed:
            return
        frame = protocol.encode(answer)
        if value and len(frame) - protocol.LENGTH_BYTES > job.request.limit_bytes:
            self._reply(job, ReplyStatus.OVERFLOW, _too_much(job))
            return
        self._send(job.connection, frame)

    def _read(self, job: Job, child: Child, pipe: Pipe) -> None:
        if pipe.descriptor < 0:  # closed in this very round
            return
        if not pipe.read(_max_bytes(job, child, pipe)):
            self._selector.unregister(pipe.descriptor)
            pipe.close()
        elif pipe is child.output and pipe.seen_bytes > job.request.limit_bytes:
            self._kill(job, child, ReplyStatus.OVERFLOW, _too_much(job))

    def _kill(self, job: Job, child: Child, outcome: ReplyStatus, reason: str) -> None:
        """Kill the program of a request, whose outcome is `outcome` once it has ended."""
        if job.killed is None:
            job.killed = (outcome, reason)
            job.since_seconds = time.time()
            job.until = time.monotonic() + KILL_SECONDS
            child.kill()

    def _ended(self, job: Job, child: Child) -> None:
        """Answer for a program that ended, and kill what it left running."""
        status = children.ended(child.pid)
        if status is None:
            return
        for pipe in child.pipes():
            if pipe.descriptor >= 0:
                pipe.read(_max_bytes(job, child, pipe), turns=_LAST_READS)
        del self._running[child.pid]
        self._let_go(child)
        self._selector.unregister(child.pidfd)
        os.close(child.pidfd)
        self.orphans.sweep(job.record())
        self.orphans.register()
        self._reply(job, *self._result(job, child, os.waitstatus_to_exitcode(status)))
        self._begin()

    def _result(
        self, job: Job, child: Child, status: int
    ) -> tuple[ReplyStatus, str, dict[str, Any] | None]:
        """Return the outcome of a program. `status`: negative if a signal ended it."""
        content = child.output.content
        if job.killed is not None:
            return *job.killed, None
        if child.output.seen_bytes > job.request.limit_bytes:
            return ReplyStatus.OVERFLOW, _too_much(job), None
        if child.fault.content:
            return ReplyStatus.FAILED, child.fault.content.decode("utf-8", "replace"), None
        if job.request.verb == "run":
            value = {
                "status": status if status >= 0 else None,
                "signal": -status if status < 0 else None,
                "stdout": content.decode("utf-8", "surrogateescape"),
                "stderr": child.error.content.decode("utf-8", "surrogateescape"),
            }
            return ReplyStatus.DONE, "", value
        try:
            value = json.loads(content)
        except ValueError:
            return ReplyStatus.FAILED, f"its process ended early with status {status}", None
        return ReplyStatus.DONE, "", value

    def _let_go(self, child: Child) -> None:
        for pipe in child.pipes():
            if pipe.descriptor >= 0:
                self._selector.unregister(pipe.descriptor)
        child.close()

    def _late(self, job: Job, child: Child) -> None:
        """Kill a program at its deadline; abandon one that has not ended long after that."""
        if job.killed is None:
            self._kill(
                job,
                child,
                ReplyStatus.TIMEOUT,
                f"{stuck.name(job.record())} was killed at the deadline",
            )
            return
        program = job.record()
        del self._running[child.pid]
        self._let_go(child)
        self.orphans.adopt(program, child.pidfd)
        self._reply(job, ReplyStatus.STUCK, stuck.hangs(program))
        self.orphans.hang(program)

    def _busy(self, job: Job) -> str:
        """Return what a request waited for in vain."""
        programs = [other.record() for other in self._running.values()]
        programs += self.orphans.programs()
        for program in programs:
            if not job.controllers.isdisjoint(program.controllers):
                since = stuck.utc(program.since_seconds)
                return f"{stuck.name(program)} has been running since {since}"
        return f"{len(self._running)} programs running, {len(self._waiting)} requests waiting"

    def _watch(self, descriptor: int, call: Callable[[], None]) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, call)


def _max_bytes(job: Job, child: Child, pipe: Pipe) -> int:
    return job.request.limit_bytes if pipe is child.output else MAX_ERROR_BYTES


def _too_much(job: Job) -> str:
    return f"expected at most {job.request.limit_bytes} bytes, got more"
