"""Starts a program or function in its own process; nothing here ever waits for it.

Not with 'subprocess': that waits until exec returns, and exec from a hung disk never does.

*Source:* fork(2), setsid(2), pidfd_open(2), PR_SET_CHILD_SUBREAPER(2const), proc(5).
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.probe.capabilities import become_reader, keep

if TYPE_CHECKING:
    from iowarden.daemon.probe.capabilities import Capability
    from iowarden.daemon.probe.programs import ProgramCommand

Work = Callable[[dict[str, str]], object]
"""What a child does, given its environment; ends by exec, or by returning."""

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
SCRATCH = "job-"
"""Prefix of the name of each scratch directory."""
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_MEMORY_BYTES = 256 * 1024 * 1024
"""Half of the limit of the unit."""
MAX_CPU_SECONDS = 600
"""The longest deadline: what survives that hangs, or is killed."""
MAX_OPEN_FILES = 256
LIMITS = {
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_FSIZE: MAX_FILE_BYTES,
    resource.RLIMIT_DATA: MAX_MEMORY_BYTES,
    resource.RLIMIT_CPU: MAX_CPU_SECONDS,
    resource.RLIMIT_NOFILE: MAX_OPEN_FILES,
}
"""Of each child, by resource."""
MAX_ERROR_BYTES = 4000
_READ_BYTES = 64 * 1024
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "riscv64": 30, "ppc64le": 273}
_IOPRIO_WHO_PROCESS, _IOPRIO_CLASS_IDLE, _IOPRIO_CLASS_SHIFT = 1, 3, 13
"""Source: kernel, include/uapi/linux/ioprio.h."""
# In a child, in addition to standard input, output and error:
_FAULT, _GATE, _FIRST_OTHER = 3, 4, 5


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """A process as in '/proc/PID/stat'. `start_ticks`: field 22, since boot."""

    pid: int
    state: str
    group: int
    session: int
    start_ticks: int


class Pipe:
    """The reading end of a pipe that a child writes to; it never blocks."""

    def __init__(self, descriptor: int) -> None:
        """Own the descriptor, which is -1 once it is closed."""
        self.descriptor = descriptor
        self.content = bytearray()
        self.seen_bytes = 0

    def read(self, max_bytes: int, *, turns: int = 1) -> bool:
        """Read available data, and store at most `max_bytes` of it; return whether more may come.

        `turns`: maximum number of reads, because a writer may be as fast as this reader.
        """
        for _ in range(turns):
            try:
                data = os.read(self.descriptor, _READ_BYTES)
            except BlockingIOError:
                return True
            if not data:
                return False
            self.seen_bytes += len(data)
            self.content += data[: max(max_bytes - len(self.content), 0)]
        return True

    def close(self) -> None:
        """Stop reading; a process that still writes gets SIGPIPE."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


@dataclass(slots=True)
class Child:
    """A process started here. `gate`: it waits for a byte there before it does its work.

    `fault` reads why the work could not start, or failed; it is empty otherwise.
    """

    pid: int
    start_ticks: int
    pidfd: int
    gate: int
    scratch: str
    output: Pipe
    error: Pipe
    fault: Pipe

    def release(self) -> None:
        """Let it do its work."""
        with contextlib.suppress(BrokenPipeError):  # it was killed already, which its exit shows
            os.write(self.gate, b"x")
        self._close_gate()

    def kill(self) -> None:
        """Send SIGKILL to it and all its descendants."""
        kill(self.pid, self.pidfd)

    def pipes(self) -> tuple[Pipe, Pipe, Pipe]:
        """Return the pipes that it writes to."""
        return self.output, self.error, self.fault

    def close(self) -> None:
        """Close all but the pidfd, and remove the scratch directory."""
        self._close_gate()
        for pipe in self.pipes():
            pipe.close()
        remove(self.scratch)

    def _close_gate(self) -> None:
        if self.gate >= 0:
            os.close(self.gate)
            self.gate = -1


def prepare() -> None:
    """Become the parent of orphaned descendants. Errors: OSError, a kernel without pidfd."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        raise OSError(
            error.errno, f"pidfd_open: Linux 5.4 or later is required: {error.strerror}"
        ) from error
    # If our parent ignores it, the kernel reaps children, and their exit status is lost.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def program(command: ProgramCommand) -> Work:
    """Return the work of executing a program.

    One that is `idle` gets idle I/O priority, so that it uses a disk only while nothing else does.
    """

    def work(environment: dict[str, str]) -> None:
        if command.idle:
            be_idle()
        (keep if command.needs_root else become_reader)(command.capabilities)
        os.execve(command.path, command.arguments, environment)  # noqa: S606 - no shell

    return work


def be_idle() -> None:
    """Set the idle I/O class for this process, and the program it becomes, if permitted.

    A failure is ignored: it reads the same at any priority. Source: ioprio_set(2), for which glibc
    has no function; its number depends on the architecture. Limits: schedulers without classes
    ('none', and 'mq-deadline' before Linux 5.14) ignore it.
    """
    number = _IOPRIO_SET.get(os.uname().machine) if sys.maxsize > 2**32 else None
    if number is not None:
        ctypes.CDLL(None).syscall(
            number, _IOPRIO_WHO_PROCESS, 0, _IOPRIO_CLASS_IDLE << _IOPRIO_CLASS_SHIFT
        )


def function(
    call: Callable[[tuple[str, ...]], dict[str, Any]],
    arguments: tuple[str, ...],
    capabilities: frozenset[Capability],
    *,
    needs_root: bool = True,
) -> Work:
    """Return the work of calling a function with some capabilities, writing its result as JSON.

    Unless it `needs_root`, it runs as another user, where there is one for that.
    """

    def work(_: dict[str, str]) -> None:
        (keep if needs_root else become_reader)(capabilities)
        rest = json.dumps(call(arguments), separators=(",", ":")).encode("ascii")
        while rest:
            rest = rest[os.write(1, rest) :]

    return work


def start(work: Work, scratch: str) -> Child:
    """Fork a child that waits at its gate. `scratch`: a directory to make, its current one.

    Errors: OSError; then nothing of it remains.
    """
    with contextlib.ExitStack() as undo:
        os.mkdir(scratch, 0o700)
        undo.callback(remove, scratch)
        ends = []
        for _ in range(4):
            pair = os.pipe2(os.O_CLOEXEC)
            ends.append(pair)
            for end in pair:
                undo.callback(os.close, end)
        (output, to_output), (error, to_error), (fault, to_fault), (from_gate, gate) = ends
        for end in (output, error, fault, gate):
            os.set_blocking(end, False)
        # A signal between fork and setsid would be handled twice: in the parent and in the child.
        parent = os.getpid()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            pid = os.fork()
            if pid == 0:
                _become(work, scratch, parent, (to_output, to_error, to_fault, from_gate))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        try:
            pidfd = os.pidfd_open(pid)
            process = read_process(pid)
            if process is None:
                raise OSError(
                    f"'/proc/{pid}/stat': expected the process just started; is '/proc' mounted?"
                )
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)  # It is at its gate, and has accessed nothing that can hang.
            raise
        undo.pop_all()
    for end in (to_output, to_error, to_fault, from_gate):
        os.close(end)
    return Child(
        pid, process.start_ticks, pidfd, gate, scratch, Pipe(output), Pipe(error), Pipe(fault)
    )


def _become(work: Work, scratch: str, parent: int, ends: tuple[int, int, int, int]) -> NoReturn:
    """In the child: close what belongs to the parent, wait at the gate, do the work."""
    fault = ends[2]
    status = 127
    try:
        os.setsid()
        for each in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(each, signal.SIG_DFL)
        null = os.open("/dev/null", os.O_RDONLY)
        # Moved first: one of them may have a number that another one needs.
        high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 64) for end in (null, *ends)]
        for number, end in enumerate(high):
            os.dup2(end, number, inheritable=number < _FAULT)
        fault = _FAULT
        os.closerange(_FIRST_OTHER, os.sysconf("SC_OPEN_MAX"))
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        end_with_parent()
        _limit()
        # When memory is short, the probe is among the last to be killed, its programs are not.
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("0")
        os.umask(0o077)
        os.chdir(scratch)
        # The gate may have been opened by a parent that died before its death could kill this
        # child.
        if os.read(_GATE, 1) and os.getppid() == parent:
            work(environment(scratch))
            status = 0
    except BaseException as error:  # noqa: BLE001 - whatever it was, it is reported, and the child ends
        plain = isinstance(error, OSError | ValueError)
        text = str(error) if plain else f"{type(error).__name__}: {error}"
        with contextlib.suppress(OSError):
            os.write(fault, text.encode("utf-8", "backslashreplace")[:MAX_ERROR_BYTES])
    finally:
        os._exit(status)


def _limit() -> None:
    """Limit what this process, and the program it becomes, may use. Source: getrlimit(2).

    Limits: the number of root's processes is limited by the unit only (TasksMax=); of another
    user's, by `become_reader`.
    """
    for number, limit in LIMITS.items():
        hard = resource.getrlimit(number)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)  # noqa: PLW2901
        resource.setrlimit(number, (limit, limit))


def environment(scratch: str) -> dict[str, str]:
    """Return the environment of a program."""
    found = {"LC_ALL": "C", "PATH": PATH, "HOME": scratch, "TW_CLI_LOG": "OFF"}
    return found | {name: os.environ[name] for name in ("TZ",) if name in os.environ}


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def kill(pid: int, pidfd: int) -> None:
    """Send SIGKILL to a process, to its group, and to its descendants in other groups.

    `pidfd` ensures that the number still belongs to this process.
    """
    below = descendants(pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        # While this process exists, reaped or not, its number is used by no other group.
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.killpg(pid, signal.SIGKILL)
    for each in below:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)


def ended(pid: int) -> int | None:
    """Reap a child that ended: return its wait status, or None, also if it is not our child."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return status if found else None


def read_process(pid: int) -> ChildProcess | None:
    """Return a process by its number, or None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name is in parentheses and may contain any of them.
    words = text[text.rindex(b")") + 1 :].split()
    return ChildProcess(pid, words[0].decode("ascii"), int(words[2]), int(words[3]), int(words[19]))


def children(pid: int) -> list[int]:
    """Return the children of a process, including ended ones; none if it does not exist.

    Limits: the kernel may omit one while others end (proc(5), task/TID/children), so call again
    after each end.
    """
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def descendants(pid: int) -> list[int]:
    """Return the descendants of a process, as far as their parents are alive."""
    found = children(pid)
    for each in found:  # grows during the loop
        found += children(each)
    return found


def remove(directory: str) -> None:
    """Remove a scratch directory. What cannot be removed stays until the next start."""
    with contextlib.suppress(OSError, RecursionError):
        for folder, directories, files in os.walk(directory, topdown=False):
            for name in files:
                os.unlink(os.path.join(folder, name))
            for name in directories:
                path = os.path.join(folder, name)
                if os.path.islink(path):
                    os.unlink(path)
                else:
                    os.rmdir(path)
        os.rmdir(directory)


def _prctl(option: int, value: int) -> None:
    """*Source:* prctl(2)."""
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")
