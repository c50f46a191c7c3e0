"""Blocked tasks (D state): the kernel function in which they wait, and their I/O.

Source: proc(5): '/proc/PID/stat' (state D), 'wchan', 'stack', 'io'. The daemon's user may not read
the last three (ptrace access mode, CAP_SYS_ADMIN): the probe reads them, `read_waiting_tasks`, and
the daemon queries it, `read_tasks`, only while '/proc/stat' counts a blocked task. 'cmdline',
'environ' and 'maps' are never read: they need the lock of a memory map that a task may hold while
it hangs.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.filesystem import mountinfo
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import (
    AbsentError,
    Family,
    ParseError,
    Sample,
    parse_count,
)
from iowarden.collectors.procfs import stat
from iowarden.collectors.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.machine import Machine

MAX_TASKS = 64
MAX_FUNCTIONS = 16
MAX_SCANNED = 20_000
"""Maximum tasks whose state is read at once: half a second of one processor."""
DEADLINE_SECONDS = 5.0
_KERNEL_THREAD = 0x0020_0000
"""PF_KTHREAD. Source: kernel, include/linux/sched.h."""
_DIRECTORY = "/proc"
_THREAD_OF = lazy_pattern(
    r"jbd2/(?P<journal>.+)-\d+|(?:xfsaild|xfs-[a-z]+)/(?P<log>.+)"
    r"|.*(?:flush-|dmcrypt_write/|f2fs_[a-z]+-)(?P<number>\d+:\d+)"
)
"""Names of kernel threads that belong to one device. Source: kernel, fs/jbd2/journal.c,
fs/xfs/xfs_trans_ail.c, fs/fs-writeback.c (wb_workfn), drivers/md/dm-crypt.c, fs/f2fs/segment.c.
"""
_MAX_DESCRIPTOR = 1 << 20
"""A larger argument of a system call is no file descriptor."""

WRITEBACK = (
    "balance_dirty_pages",  # mm/page-writeback.c: a writer is throttled
    "do_get_write_access",  # fs/jbd2/transaction.c: a block of the journal is being written
    "folio_wait_writeback",  # mm/page-writeback.c, 5.16+: fsync, stable pages
    "jbd2_log_wait_commit",  # fs/jbd2/journal.c: fsync
    "rq_qos_wait",  # block/blk-rq-qos.c: the queue throttles writes (wbt, io.latency)
    "wait_on_page_writeback",  # mm/page-writeback.c; before 4.19 inline
    "wb_wait_for_completion",  # fs/fs-writeback.c: sync
)
"""Kernel functions in which a task waits for dirty data to be written."""
OTHER = "other"

FAMILIES = (
    Family(
        "iowarden_tasks_waiting",
        "gauge",
        "Tasks in uninterruptible sleep, by the kernel function in which they wait.",
    ),
)


@dataclass(frozen=True, slots=True)
class BlockedTask:
    """A task in uninterruptible sleep. Units: bytes since its start, None if not known."""

    pid: int
    """Of a thread its own number."""
    start_ticks: int
    command: str
    wait_channel: str
    """A kernel function ('balance_dirty_pages'); '' if not known."""
    stack: tuple[str, ...]
    """Kernel functions, innermost first, without offsets."""
    read_bytes: int | None
    """Read from disks by its whole process; `write_bytes` likewise."""
    write_bytes: int | None
    process: int = 0
    """The process of a thread; 0: the task itself."""
    kernel: bool = False
    """A kernel thread: it waits on its own behalf, or writes for others."""
    waits_at: str = ""
    """The device of the file that the task uses, or that a kernel thread serves: its number
    ('253:0'), else its name ('dm-0', '/dev/sda1'). '' if not known.
    """


@dataclass(frozen=True, slots=True)
class BlockedTasks:
    """Result of one read.

    Fields: `tasks` are `MAX_TASKS` at most, those of programs first, oldest first; `count` is
    their total number; `unseen` is why they could not be read although tasks wait, '' if they were
    read.
    """

    tasks: tuple[BlockedTask, ...]
    count: int = 0
    unseen: str = ""


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """Parsed '/proc/PID/stat' of one task."""

    directory: str
    pid: int
    process: int
    command: str
    state: str
    parent: int
    kernel: bool
    threads: int
    start_ticks: int


def writeback_channel(task: BlockedTask) -> str:
    """Return the function of WRITEBACK in which a task waits, or ''.

    The innermost function may be a common one ('folio_wait_bit_common'): then the stack decides.
    """
    for function in (task.wait_channel, *task.stack):
        name = function.partition(".")[0]  # the compiler's parts: 'balance_dirty_pages.isra.0'
        if name.startswith("balance_dirty_pages"):  # inlined into '..._ratelimited_flags'
            return "balance_dirty_pages"
        if name in WRITEBACK:
            return name
    return ""


def emit(value: BlockedTasks) -> list[Sample]:
    """Return the samples of FAMILIES: every channel from 0 on, none if tasks could not be read."""
    if value.unseen:
        return []
    found = dict.fromkeys((*WRITEBACK, OTHER), 0)
    for task in value.tasks:
        found[writeback_channel(task) or OTHER] += 1
    found[OTHER] += max(value.count - len(value.tasks), 0)
    return [
        ("iowarden_tasks_waiting", (("wait_channel", channel),), float(number))
        for channel, number in found.items()
    ]


def read_tasks(root: Machine) -> BlockedTasks:
    """Return the blocked tasks; if '/proc/stat' counts none, the probe is not queried.

    Limits: tasks that wait without being counted as waiting for I/O (an fsync for a commit of its
    journal) are found only together with one that is. Errors: AbsentError, ReadError, ParseError.
    """
    blocked = stat.parse_stat(root.read_cached_open(stat.PATH)).procs_blocked
    if blocked == 0:
        return BlockedTasks(())
    try:
        text = root.query_probe("tasks", deadline_seconds=DEADLINE_SECONDS)
    except AbsentError as error:
        # No probe: neither a stale collector nor a result without waiting tasks.
        return BlockedTasks((), blocked, str(error))
    return from_json(text)


def read_waiting_tasks(root: Machine) -> BlockedTasks:
    """Return all tasks and threads in uninterruptible sleep.

    To be run as root, in a process that may be killed: a task that executes a program from a
    hanging disk holds the lock that 'stack' and 'io' need (kernel, fs/exec.c, exec_update_lock). A
    task that ends or wakes meanwhile is left out. Errors: AbsentError, ReadError, ParseError.
    """
    waiting = [status for status in _statuses(root) if status.state == "D"]
    waiting.sort(key=lambda status: (status.kernel, status.start_ticks, status.pid))
    told = [_task(root, status) for status in waiting[:MAX_TASKS]]
    tasks = tuple(task for task in told if task is not None)
    return BlockedTasks(tasks, len(waiting) - (len(told) - len(tasks)))


def to_json(tasks: BlockedTasks) -> dict[str, Any]:
    """Return the answer to the verb 'tasks', to be printed as JSON."""
    return {"tasks": [dataclasses.asdict(task) for task in tasks.tasks], "count": tasks.count}


def from_json(text: str) -> BlockedTasks:
    """Parse the JSON of `to_json`. Errors: ParseError."""
    try:
        found = json.loads(text)
        tasks = tuple(_parsed(each) for each in found["tasks"])
        count = _count(found["count"])
        if len(tasks) > min(count, MAX_TASKS):
            raise ValueError(f"{len(tasks)} tasks of {count}")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ParseError(
            f"probe 'tasks': expected tasks as JSON, got {text[:80]!r}:"
            f" {type(error).__name__}: {error}"
        ) from None
    return BlockedTasks(tasks, count)


def _parsed(found: Any) -> BlockedTask:  # noqa: ANN401 - whatever the probe sent
    stack = found["stack"]
    if not isinstance(stack, list) or len(stack) > MAX_FUNCTIONS:
        raise TypeError(f"'stack': expected up to {MAX_FUNCTIONS} names, got {stack!r:.60}")
    if not isinstance(found["kernel"], bool):
        raise TypeError(f"'kernel': expected true or false, got {found['kernel']!r:.60}")
    return BlockedTask(
        pid=_count(found["pid"]),
        start_ticks=_count(found["start_ticks"]),
        command=_text(found["command"]),
        wait_channel=_text(found["wait_channel"]),
        stack=tuple(_text(function) for function in stack),
        read_bytes=None if found["read_bytes"] is None else _count(found["read_bytes"]),
        write_bytes=None if found["write_bytes"] is None else _count(found["write_bytes"]),
        process=_count(found["process"]),
        kernel=found["kernel"],
        waits_at=_text(found.get("waits_at", "")),
    )


def _count(found: Any) -> int:  # noqa: ANN401 - whatever the probe sent
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < 1 << 64:
        raise TypeError(f"expected an unsigned 64-bit number, got {found!r:.60}")
    return found


def _text(found: Any) -> str:  # noqa: ANN401 - whatever the probe sent
    if not isinstance(found, str):
        raise TypeError(f"expected a text, got {found!r:.60}")
    return found


def _statuses(root: Machine) -> Iterator[TaskStatus]:
    """Yield the status of every task, threads as well; those that end meanwhile are left out."""
    looked_at = 0
    for name in root.names(_DIRECTORY):
        if not name.isdigit():
            continue
        process = read_status(root, f"{_DIRECTORY}/{name}", int(name))
        looked_at += 1
        if process is None:
            continue
        yield process
        for thread in _threads(root, process):
            looked_at += 1
            status = read_status(root, f"{process.directory}/task/{thread}", process.pid)
            if status is not None:
                yield status
        if looked_at >= MAX_SCANNED:
            return


def _threads(root: Machine, process: TaskStatus) -> list[str]:
    """Return the numbers of a process's threads except the first, which is the process itself."""
    if process.threads <= 1:
        return []
    names = root.try_names(f"{process.directory}/task") or ()
    return [name for name in names if name != str(process.pid)][:MAX_SCANNED]


def read_status(root: Machine, directory: str, process: int) -> TaskStatus | None:
    """Return the status of a task, None if it has ended."""
    text = root.try_read(f"{directory}/stat")
    if text is None:
        return None
    # The name may contain anything, also blanks and parentheses: the text after the last one is
    # fixed.
    pid, _, rest = text.partition(" (")
    command, _, rest = rest.rpartition(") ")
    fields = rest.split()
    try:
        return TaskStatus(
            directory=directory,
            pid=parse_count(pid),
            process=process,
            command=command,
            state=fields[0],
            parent=parse_count(fields[1]),
            kernel=bool(parse_count(fields[6]) & _KERNEL_THREAD),
            threads=parse_count(fields[17]),
            start_ticks=parse_count(fields[19]),
        )
    except (ValueError, IndexError):
        raise ParseError(
            f"'{directory}/stat': expected '<pid> (<name>) <state> ...', got {text[:80]!r}"
        ) from None


def _task(root: Machine, status: TaskStatus) -> BlockedTask | None:
    """Return a task with what it waits for, None if it has ended or no longer waits."""
    channel = (root.try_read(f"{status.directory}/wchan") or "").strip()
    stack = _functions(root.try_read(f"{status.directory}/stack") or "")
    done = parse_io(root.try_read(f"{_DIRECTORY}/{status.process}/io") or "")
    place = _device_of(status.command) if status.kernel else _file_of(root, status)
    again = read_status(root, status.directory, status.process)
    if again is None or (again.start_ticks, again.state) != (status.start_ticks, "D"):
        return None  # the data may be of another wait, or of another task
    return BlockedTask(
        pid=status.pid,
        start_ticks=status.start_ticks,
        command=status.command,
        wait_channel="" if channel == "0" else channel,  # no permission to read it
        stack=stack,
        read_bytes=done.get("read_bytes"),
        write_bytes=done.get("write_bytes"),
        process=status.process if status.process != status.pid else 0,
        kernel=status.kernel,
        waits_at=place,
    )


def _device_of(command: str) -> str:
    """Return the device in the name of a kernel thread, or ''."""
    found = _THREAD_OF.fullmatch(command)
    return found[found.lastgroup or 0] if found else ""


def _file_of(root: Machine, status: TaskStatus) -> str:
    """Return the device of the file in a program's system call, or ''.

    Most calls that wait for a disk have the file's descriptor as their first argument (read, write,
    fsync, ioctl). If that is a number of another kind, usually no such file is open. Source:
    proc(5): '/proc/PID/syscall', 'fdinfo' (mnt_id), 'mountinfo'.
    """
    words = (root.try_read(f"{status.directory}/syscall") or "").split()
    try:
        descriptor = int(words[1], 16)
    except (ValueError, IndexError):  # 'running'
        return ""
    if descriptor >= _MAX_DESCRIPTOR or words[0] == "-1":
        return ""
    opened = root.try_read(f"{status.directory}/fdinfo/{descriptor}") or ""
    mount = next((t.split()[1:] for t in opened.splitlines() if t.startswith("mnt_id:")), [])
    table = root.try_read(f"{_DIRECTORY}/{status.process}/mountinfo") or ""
    line = next((t for t in table.splitlines() if mount and t.startswith(f"{mount[0]} ")), "")
    if not line:
        return ""
    found = mountinfo.parse_mountinfo(line)[0]
    # btrfs has a number that belongs to no device.
    return found.source if found.device_number.startswith("0:") else found.device_number


def _functions(text: str) -> tuple[str, ...]:
    """Return the names in a stack: '[<0>] jbd2_log_wait_commit+0x9b/0x120 [jbd2]'."""
    names = []
    for line in text.splitlines():
        function, plus, _ = line.partition("] ")[2].partition("+0x")
        if plus:  # the last line of older kernels is an address without a name
            names.append(function)
    return tuple(names[:MAX_FUNCTIONS])


def parse_io(text: str) -> dict[str, int]:
    """Return the lines '<key>: <n>' by key. Source: proc(5), '/proc/PID/io'."""
    values = {}
    for line in text.splitlines():
        key, _, number = line.partition(": ")
        try:
            values[key] = parse_count(number)
        except ValueError:
            raise ParseError(f"'/proc/PID/io': expected '<key>: <n>', got {line[:80]!r}") from None
    return values


SOURCE: Source[BlockedTasks] = Source(
    name="tasks",
    period_seconds=5,
    period_help="How often the tasks that wait for I/O are read, while there are any.",
    paced=True,
    may_hang=True,
    read=read_tasks,
    families=FAMILIES,
    emit=emit,
)
