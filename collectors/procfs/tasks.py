"""Blocked tasks (D state): the kernel function in which they wait, and their I/O.

Source: proc(5): '/proc/PID/stat' (state D), 'wchan', 'stack', 'io'. The daemon's user may not read
the last three (ptrace access mode, CAP_SYS_ADMIN): the probe does, task_poll.py, and the daemon
queries it, `read_tasks`.
"""

from __future__ import annotations

import dataclasses
import json
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
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
    from iowarden.collectors.machine import Machine
    from iowarden.collectors.procfs.cgroup_limits import GroupLimit

MAX_TASKS = 64
MAX_FUNCTIONS = 64
"""Of one stack; the kernel prints no more: fs/proc/base.c, proc_pid_stack."""
DEADLINE_SECONDS = 5.0
_KERNEL_THREAD = 0x0020_0000
"""PF_KTHREAD. Source: kernel, include/linux/sched.h."""
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
    """Kernel functions, innermost first, without offsets; the innermost `MAX_FUNCTIONS`."""
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
    system_call: str = ""
    """The line of 'syscall': number, six arguments, stack pointer and program counter; '-1', stack
    pointer and program counter in a page fault. '' if not known (before 2.6.27 and in recordings
    that lack it).
    """
    counters: tuple[int, ...] = ()
    """Of the task alone: rchar, wchar, syscr, syscw, read_bytes, write_bytes. () if not known."""
    voluntary_switches: int | None = None
    cpu_ticks: int | None = None
    """utime and stime."""
    file: str = ""
    """The text of the link of the file that it uses ('/srv/db/wal/1', 'anon_inode:[io_uring]')."""
    mount: str = ""
    """The mount point of that file, where the task sees it."""
    unit: str = ""
    """The innermost systemd unit that it runs in, else its control group."""
    groups: tuple[str, ...] = ()
    """Lines of its '/proc/PID/cgroup' with hierarchies that may limit its I/O."""
    limits: tuple[GroupLimit, ...] = ()
    """Of its control groups, if it has waited long enough for them to be read."""
    has_unreadable_limits: bool = False
    """Whether a limit of writes may hold for it as well, in a file that could not be read."""
    unanswered: bool = False
    """Only its status could be read in time: it executes a program (kernel, exec_update_lock)."""
    full_pressure_ratio: float | None = None
    """In a page fault: that of its control group at its limit of memory, see cgroup_limits."""


_THREADS_FIELD = 17
"""Number of threads in '/proc/PID/stat', counted from the state, which follows the name."""
_STATUS = lazy_pattern(
    r"(\S) (N) I I I I (N) N N (N) N (N) (N) I I I I (N) I (N)(?: N (I))?(?: |$)".replace(
        "N", "[0-9]{1,20}"
    ).replace("I", "-?[0-9]{1,20}")
)
"""Fields 3 to 24 of '/proc/PID/stat': state, parent, flags, major faults, utime, stime, threads,
start, resident pages. Source: proc(5)."""
_IO_KEYS = (
    *("rchar", "wchar", "syscr", "syscw"),
    *("read_bytes", "write_bytes", "cancelled_write_bytes"),
)
_IO = lazy_pattern("".join(rf"{key}: ([0-9]{{1,19}})\n" for key in _IO_KEYS))
"""Source: kernel, fs/proc/base.c (do_io_accounting)."""
_LIMIT = 1 << 64
_OPTIONAL_TEXTS = ("waits_at", "system_call", "file", "mount", "unit")
_FIELDS = tuple(each.name for each in dataclasses.fields(BlockedTask))
_VALUES = attrgetter(*_FIELDS)


@dataclass(frozen=True, slots=True)
class BlockedTasks:
    """Result of one read.

    Fields: `tasks` are `MAX_TASKS` at most, those of programs first, oldest first; `count` is
    their total number; `unseen` is why they could not be read although tasks wait, '' if they were
    read; `boot_seconds` is the host's uptime at that moment, 0 if not known: a recording returns
    one look until the next.
    """

    tasks: tuple[BlockedTask, ...]
    count: int = 0
    unseen: str = ""
    boot_seconds: float = 0.0


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
    cpu_ticks: int = 0
    """utime and stime."""
    major_faults: int | None = None
    """Page faults that read from a disk; None: not known."""
    resident_pages: int | None = None


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


def read_tasks(root: Machine, *, is_wanted: bool = False) -> BlockedTasks:
    """Return the blocked tasks; if '/proc/stat' counts none, the probe is not queried.

    `is_wanted`: it is, because something else shows that tasks wait: '/proc/stat' counts only those
    in io_schedule (kernel, kernel/sched/core.c), no frozen file system, journal, NFS or lock.
    Errors: AbsentError, ReadError, ParseError.
    """
    blocked = stat.parse_stat(root.read_cached_open(stat.PATH, is_record=True)).procs_blocked
    if blocked == 0 and not is_wanted:
        return BlockedTasks(())
    try:
        text = root.query_probe("tasks", deadline_seconds=DEADLINE_SECONDS)
    except AbsentError as error:
        # No probe: neither a stale collector nor a result without waiting tasks.
        return BlockedTasks((), blocked, str(error))
    return from_json(text)


def to_json(tasks: BlockedTasks) -> dict[str, Any]:
    """Return the answer to the verb 'tasks', to be printed as JSON."""
    return {
        "tasks": [dict(zip(_FIELDS, _VALUES(task), strict=True)) for task in tasks.tasks],
        "count": tasks.count,
        "boot_seconds": tasks.boot_seconds,
    }


def from_json(text: str) -> BlockedTasks:
    """Parse the JSON of `to_json`; a longer stack than `MAX_FUNCTIONS` loses its outermost ones.

    These are the system call, which is known by its number; the innermost show what a task waits
    for. Errors: ParseError.
    """
    try:
        found = json.loads(text)
        tasks = tuple(_parsed(each) for each in found["tasks"])
        count = _count(found["count"])
        if len(tasks) > min(count, MAX_TASKS):
            raise ValueError(f"{len(tasks)} tasks of {count}")
        boot = found.get("boot_seconds", 0.0)
        if isinstance(boot, bool) or not isinstance(boot, int | float) or not 0 <= boot < 1e12:
            raise TypeError(f"'boot_seconds': expected seconds, got {boot!r:.60}")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ParseError(
            f"probe 'tasks': expected tasks as JSON, got {text[:80]!r}:"
            f" {type(error).__name__}: {error}"
        ) from None
    return BlockedTasks(tasks, count, boot_seconds=float(boot))


def _parsed(found: Any) -> BlockedTask:  # noqa: ANN401 - whatever the probe sent
    # Each poll parses 64 tasks: only what is wrong costs a call.
    stack, counters = found["stack"], found.get("counters", ())
    if not isinstance(stack, list):
        raise TypeError(f"'stack': expected a list of names, got {stack!r:.60}")
    if len(stack) > MAX_FUNCTIONS:
        stack = stack[:MAX_FUNCTIONS]
    if not isinstance(found["kernel"], bool):
        raise TypeError(f"'kernel': expected true or false, got {found['kernel']!r:.60}")
    names = [found.get(name, "") for name in _OPTIONAL_TEXTS]
    groups = found.get("groups", ())
    names += [found["command"], found["wait_channel"], *stack, *groups]
    numbers = [found["pid"], found["start_ticks"], found["process"], *counters]
    optional = [found["read_bytes"], found["write_bytes"]]
    optional += [found.get("voluntary_switches"), found.get("cpu_ticks")]
    numbers += [number for number in optional if number is not None]
    for name in names:
        if type(name) is not str:
            _text(name)
    for number in numbers:
        if type(number) is not int or not 0 <= number < _LIMIT:
            _count(number)
    return BlockedTask(
        found["pid"],
        found["start_ticks"],
        found["command"],
        found["wait_channel"],
        tuple(stack),
        found["read_bytes"],
        found["write_bytes"],
        found["process"],
        found["kernel"],
        found.get("waits_at", ""),
        found.get("system_call", ""),
        tuple(counters),
        found.get("voluntary_switches"),
        found.get("cpu_ticks"),
        found.get("file", ""),
        found.get("mount", ""),
        found.get("unit", ""),
        tuple(groups),
        (),
        bool(found.get("unanswered", False)),
    )


def _count(found: Any) -> int:  # noqa: ANN401 - whatever the probe sent
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < _LIMIT:
        raise TypeError(f"expected an unsigned 64-bit number, got {found!r:.60}")
    return found


def _text(found: Any) -> str:  # noqa: ANN401 - whatever the probe sent
    if not isinstance(found, str):
        raise TypeError(f"expected a text, got {found!r:.60}")
    return found


def read_status(root: Machine, directory: str, process: int) -> TaskStatus | None:
    """Return the status of a task, None if it has ended."""
    text = root.try_read_record(f"{directory}/stat")
    return None if text is None else parse_status(text, directory, process)


def may_be_blocked(text: str) -> bool:
    """Whether a process is blocked, or has threads that may be, by the text of its 'stat'.

    Most of a host's are neither, and need not be parsed.
    """
    fields = text[text.rfind(") ") + 2 :].split(" ", _THREADS_FIELD + 1)
    return fields[0] == "D" or fields[_THREADS_FIELD : _THREADS_FIELD + 1] != ["1"]


def parse_status(text: str, directory: str, process: int) -> TaskStatus:
    """Parse '/proc/PID/stat'. Errors: ParseError."""
    # The name may contain anything, also blanks and parentheses: the text after the last one is
    # fixed.
    pid, _, rest = text.partition(" (")
    command, _, rest = rest.rpartition(") ")
    found = _STATUS.match(rest)
    if found is None or not (pid.isascii() and pid.isdigit()):
        raise ParseError(
            f"'{directory}/stat': expected '<pid> (<name>) <state> ...', got {text[:80]!r}"
        )
    *numbers, resident = found.groups()[1:]
    parent, flags, major_faults, user_ticks, system_ticks, threads, start_ticks = map(int, numbers)
    return TaskStatus(
        directory=directory,
        pid=int(pid),
        process=process,
        command=command,
        state=found[1],
        parent=parent,
        kernel=bool(flags & _KERNEL_THREAD),
        threads=threads,
        start_ticks=start_ticks,
        cpu_ticks=user_ticks + system_ticks,
        major_faults=major_faults,
        # The counters of its threads are not exact, and may be below 0 in sum.
        resident_pages=None if resident is None else max(int(resident), 0),
    )


def parse_io(text: str) -> dict[str, int]:
    """Return the lines '<key>: <n>' by key. Source: proc(5), '/proc/PID/io'."""
    match = _IO.fullmatch(text)
    if match is not None:  # as each kernel prints it: a sweep parses hundreds
        return dict(zip(_IO_KEYS, map(int, match.groups()), strict=True))
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
