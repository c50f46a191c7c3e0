"""A poll at all blocked tasks, as root, that does not hang where one of them does not answer.

Sources: proc(5); kernel, fs/proc/base.c. 'stat', 'syscall', 'io', 'wchan', 'stack' and the links of
descriptors may wait for exec_update_lock (before 5.11 cred_guard_mutex), which a task holds while
it executes a program, for as long as its old memory has requests of asynchronous I/O in flight;
only 'status', 'fdinfo' and 'cgroup' never do. So each poll is made by a thread, and a task that
does not answer within `PATIENCE_SECONDS` is skipped: its 'status' shows that it is blocked. The
process that polls may be killed. 'cmdline', 'environ' and 'maps' are never read: they need the lock
of a memory map that a task may hold while it hangs.
"""

from __future__ import annotations

import threading
from dataclasses import field
from typing import TYPE_CHECKING, Generic, TypeVar

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.filesystem import mountinfo
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import parse_count
from iowarden.collectors.procfs.cgroup_limits import relevant_groups
from iowarden.collectors.procfs.clock import PATH as UPTIME
from iowarden.collectors.procfs.clock import parse_uptime
from iowarden.collectors.procfs.process_io import unit_of
from iowarden.collectors.procfs.tasks import (
    MAX_FUNCTIONS,
    MAX_TASKS,
    BlockedTask,
    BlockedTasks,
    TaskStatus,
    may_be_blocked,
    parse_io,
    parse_status,
    read_status,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iowarden.collectors.filesystem.mountinfo import Mount
    from iowarden.collectors.machine import Machine

MAX_SCANNED = 20_000
"""Maximum tasks whose state is read at once: half a second of one processor."""
PATIENCE_SECONDS = 0.5
MAX_UNANSWERED = 6
"""After so many tasks that do not answer, the rest of the poll is not made."""
_DIRECTORY = "/proc"
_COUNTERS = ("rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes")
_MAX_PATH = 256
_THREAD_OF = lazy_pattern(
    r"jbd2/(?P<journal>.+)-\d+|(?:xfsaild|xfs-[a-z]+)/(?P<log>.+)"
    r"|.*(?:flush-|dmcrypt_write/|f2fs_[a-z]+-)(?P<number>\d+:\d+)"
)
"""Names of kernel threads that belong to one device. Source: kernel, fs/jbd2/journal.c,
fs/xfs/xfs_trans_ail.c, fs/fs-writeback.c (wb_workfn), drivers/md/dm-crypt.c, fs/f2fs/segment.c.
"""
_FUNCTION = lazy_pattern(r"(?m)^.*?\] (\S*?)\+0x")
"""The last line of older kernels is an address without a name."""
_BLOCKED = "\nState:\tD"
_RUNNING = "running"
"""The text of 'syscall' of a task that does not wait. Source: kernel, fs/proc/base.c."""
_MAX_DESCRIPTOR = 1 << 20
"""A larger argument of a system call is no file descriptor."""
_VIRTUAL = frozenset(
    "autofs bpf cgroup cgroup2 configfs debugfs devpts devtmpfs hugetlbfs mqueue proc pstore"
    " ramfs securityfs sysfs tmpfs tracefs".split()
)
"""Types of file systems that are on no device and on no server."""
_BLOCK_DEVICES = "/sys/class/block"
_MAPPER, _MAPPER_CONTROL = "/dev/mapper/", "/dev/mapper/control"
_UPPER, _LOWER = "upperdir=", "lowerdir="
"""Where an overlay writes, and where it reads what was not written. Source: kernel,
filesystems/overlayfs.rst."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class _Run(Generic[R]):
    """What one thread has read; `index` is the item that it reads now."""

    index: int
    results: list[R] = field(default_factory=list)
    error: Exception | None = None
    is_abandoned: bool = False


def read_each(
    root: Machine, items: Sequence[T], read: Callable[[Machine, T], R]
) -> tuple[list[R], list[T]]:
    """Read items one after another in a thread; return results, and the items without an answer.

    Errors: those of `read`.
    """
    results: list[R] = []
    unanswered: list[T] = []
    start, machine = 0, root
    while start < len(items) and len(unanswered) < MAX_UNANSWERED:
        run: _Run[R] = _Run(start)
        thread = threading.Thread(
            target=_fill, args=(machine, items, read, run), name="poll", daemon=True
        )
        thread.start()
        if _waited_for(thread, run):
            results += run.results
            if run.error is not None:
                raise run.error
            break
        run.is_abandoned = True
        results += run.results[:]
        unanswered.append(items[run.index])
        start, machine = run.index + 1, root.another()
    return results, unanswered


def _waited_for(thread: threading.Thread, run: _Run[R]) -> bool:
    """Wait for a thread; return False as soon as it is stuck at one item."""
    while True:
        before = run.index
        thread.join(PATIENCE_SECONDS)
        if not thread.is_alive():
            return True
        if run.index == before:
            return False


def _fill(
    machine: Machine, items: Sequence[T], read: Callable[[Machine, T], R], run: _Run[R]
) -> None:
    try:
        for index, item in enumerate(items[run.index :], run.index):
            run.index = index
            result = read(machine, item)
            if run.is_abandoned:
                return
            run.results.append(result)
    except Exception as error:  # noqa: BLE001 - raised again by the thread that waits
        run.error = error


def read_waiting_tasks(root: Machine) -> BlockedTasks:
    """Return all tasks and threads in uninterruptible sleep.

    A task that ends or wakes meanwhile is left out. Errors: AbsentError, ReadError, ParseError.
    """
    boot_seconds = _uptime(root)
    pids = [int(name) for name in root.names(_DIRECTORY) if name.isdigit()]
    statuses, silent_pids = read_each(root, pids[:MAX_SCANNED], _blocked_of)
    waiting = [status for of_process in statuses for status in of_process]
    details, silent_tasks = read_each(root, _detailed(waiting), _Details().read)
    tasks = [task for task in details if task is not None]
    awake = len(details) - len(tasks)
    tasks += [_unanswered(root, status) for status in silent_tasks]
    tasks += [task for pid in silent_pids for task in _by_status(root, pid)]
    tasks.sort(key=lambda task: (task.kernel, task.start_ticks, task.pid))
    count = max(len(waiting) - awake + len(silent_pids), len(tasks))
    return BlockedTasks(tuple(tasks[:MAX_TASKS]), count, boot_seconds=boot_seconds)


def _uptime(root: Machine) -> float:
    text = root.try_read(UPTIME)
    return parse_uptime(text) if text else 0.0


def _blocked_of(root: Machine, pid: int) -> list[TaskStatus]:
    """Return the blocked tasks of a process, threads as well; none if it has ended."""
    directory = f"{_DIRECTORY}/{pid}"
    text = root.try_read_record(f"{directory}/stat")
    if text is None or not may_be_blocked(text):
        return []
    process = parse_status(text, directory, pid)
    blocked = [process] if process.state == "D" else []
    if process.threads > 1:
        names = root.try_names(f"{process.directory}/task") or ()
        for thread in [name for name in names if name != str(pid)][:MAX_SCANNED]:
            status = read_status(root, f"{process.directory}/task/{thread}", pid)
            if status is not None and status.state == "D":
                blocked.append(status)
    return blocked


def _detailed(waiting: list[TaskStatus]) -> list[TaskStatus]:
    """Return the tasks whose details are read: the same ones at each poll while they wait.

    Programs first, of those one of each name first, the oldest first.
    """
    ordered = sorted(waiting, key=lambda status: (status.kernel, status.start_ticks, status.pid))
    if len(ordered) <= MAX_TASKS:
        return ordered
    first_of_name: dict[tuple[bool, str], TaskStatus] = {}
    for status in ordered:
        first_of_name.setdefault((status.kernel, status.command), status)
    firsts = [status for status in first_of_name.values() if not status.kernel]
    chosen = {(status.pid, status.start_ticks) for status in firsts}
    others = [status for status in ordered if (status.pid, status.start_ticks) not in chosen]
    return [*firsts, *others][:MAX_TASKS]


class _Details:
    """Reads what tasks wait for; the mount table of a namespace once."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[str, Mount]] = {}
        self._units: dict[int, tuple[str, tuple[str, ...]]] = {}

    def read(self, root: Machine, status: TaskStatus) -> BlockedTask | None:
        """Return a task with what it waits for, None if it has ended or no longer waits."""
        process = f"{_DIRECTORY}/{status.process}"
        stack = functions(root.try_read_record(f"{status.directory}/stack") or "")
        of_task = parse_io(root.try_read_record(f"{process}/task/{status.pid}/io") or "")
        of_process = of_task
        if status.threads > 1 or status.pid != status.process or not of_task:
            of_process = parse_io(root.try_read_record(f"{process}/io") or "")
        call = (root.try_read_record(f"{status.directory}/syscall") or "").strip()
        file, waits_at, mount, unit = "", "", "", ""
        groups: tuple[str, ...] = ()
        if status.kernel:
            waits_at = _device_of(status.command)
        else:
            file, waits_at, mount = self._file(root, status, call)
            unit, groups = self._unit(root, status)
        channel = _innermost(stack) or _channel(root, status)
        # Read last: it must still wait, for the data may be of another wait else.
        now = root.try_read_record(f"{status.directory}/status") or ""
        if call == _RUNNING or not _still_waits(root, status, now):
            return None
        has_counters = of_task.keys() >= set(_COUNTERS)
        return BlockedTask(
            pid=status.pid,
            start_ticks=status.start_ticks,
            command=status.command,
            wait_channel=channel,
            stack=stack,
            read_bytes=of_process.get("read_bytes"),
            write_bytes=of_process.get("write_bytes"),
            process=status.process if status.process != status.pid else 0,
            kernel=status.kernel,
            waits_at=waits_at,
            system_call=call,
            counters=tuple(of_task[name] for name in _COUNTERS) if has_counters else (),
            voluntary_switches=_switches(now),
            cpu_ticks=status.cpu_ticks,
            file=file,
            mount=mount,
            unit=unit,
            groups=groups,
        )

    def _unit(self, root: Machine, status: TaskStatus) -> tuple[str, tuple[str, ...]]:
        """Return unit and control groups of a program, read once for all its threads."""
        if status.process not in self._units:
            text = _group(root, status)
            self._units[status.process] = unit_of(text), relevant_groups(text)
        return self._units[status.process]

    def _file(self, root: Machine, status: TaskStatus, call: str) -> tuple[str, str, str]:
        """Return the file in a program's system call, the device it is on, and its mount point.

        Most calls that wait for a disk have the file's descriptor as their first argument (read,
        write, fsync, ioctl). If that is a number of another kind, usually no such file is open.
        Source: proc(5): '/proc/PID/syscall', 'fdinfo' (mnt_id), 'mountinfo'.
        """
        words = call.split()
        try:
            descriptor = int(words[1], 16)
        except (ValueError, IndexError):  # 'running'
            return "", "", ""
        if descriptor >= _MAX_DESCRIPTOR or words[0] == "-1":
            return "", "", ""
        # Of the task, not of its process: threads may have descriptors of their own (CLONE_FILES).
        opened = root.try_read_record(f"{status.directory}/fdinfo/{descriptor}")
        if opened is None:
            return "", "", ""
        path = (root.try_link(f"{status.directory}/fd/{descriptor}") or "")[:_MAX_PATH]
        number = next(
            (line.split()[1] for line in opened.splitlines() if line.startswith("mnt_id:\t")), ""
        )
        mount = self._mounts(root, f"{_DIRECTORY}/{status.process}").get(number)
        if mount is None:
            return path, "", ""
        point = mount.mount_point
        if (directory := _directory_below(mount)) is not None:
            below = self._mount_of(root, directory)
            if below is None:
                return path, "", ""
            mount = below
        if mount.kind in _VIRTUAL:
            return path, path if _is_block_device(root, path) else "", ""
        # btrfs has a number that belongs to no device.
        is_device = not mount.device_number.startswith("0:")
        return path, mount.device_number if is_device else mount.source, point

    def _mount_of(self, root: Machine, directory: str) -> Mount | None:
        """Return the mount of the host that has a directory, None if it is not known."""
        mounts = self._mounts(root, f"{_DIRECTORY}/1").values()
        above = [each for each in mounts if _is_below(directory, each.mount_point)]
        # Of several at one mount point the last one hides the others.
        found = max(above, key=lambda each: len(each.mount_point), default=None)
        same = [each for each in above if found and each.mount_point == found.mount_point]
        return same[-1] if same and _directory_below(same[-1]) is None else None

    def _mounts(self, root: Machine, process: str) -> dict[str, Mount]:
        """Return the mounts that a process sees, by their ID."""
        namespace = root.try_link(f"{process}/ns/mnt") or process
        if namespace not in self._tables:
            lines = (root.try_read(f"{process}/mountinfo") or "").splitlines()
            self._tables[namespace] = {
                line.partition(" ")[0]: mount
                for line in lines
                for mount in mountinfo.parse_mountinfo(line)
            }
        return self._tables[namespace]


def _is_block_device(root: Machine, path: str) -> bool:
    """Whether a path of '/dev' is a block device, not a tape, a graphics card or a terminal.

    Source: kernel, ABI/stable/sysfs-block ('!' in a name is '/' in '/dev'). Without udev
    libdevmapper makes its nodes itself. An old kernel may have no directory with all of them.
    """
    name = path.removeprefix("/dev/")
    if path in {name, _MAPPER_CONTROL}:
        return False
    if path.startswith(_MAPPER) or root.try_names(_BLOCK_DEVICES) is None:
        return True
    return root.try_link(f"{_BLOCK_DEVICES}/{name.replace('/', '!')}") is not None


def _directory_below(mount: Mount) -> str | None:
    """Return the directory in which a stacked file system keeps its files, None: it is none.

    That is a directory of who mounted it: of the host, for the containers of docker, containerd and
    podman. An overlay that is read-only has lower directories alone, a relative one is not known.
    Source: kernel, fs/overlayfs/params.c (ovl_show_options), fs/ecryptfs/main.c.
    """
    if mount.kind == "ecryptfs":
        return mount.source
    if mount.kind != "overlay":
        return None
    for name in (_UPPER, _LOWER):
        for option in mount.super_options:
            if option.startswith(name):
                return mountinfo.unescaped(option.removeprefix(name)).partition(":")[0]
    return ""


def _is_below(directory: str, mount_point: str) -> bool:
    return directory.startswith("/") and f"{directory}/".startswith(
        mount_point if mount_point == "/" else f"{mount_point}/"
    )


def _group(root: Machine, status: TaskStatus) -> str:
    return root.try_read_record(f"{_DIRECTORY}/{status.process}/cgroup") or ""


def _still_waits(root: Machine, status: TaskStatus, now: str) -> bool:
    """Whether a task still waits, by the text of its 'status'; without one, by its 'stat'."""
    if now:
        return _BLOCKED in now
    again = read_status(root, status.directory, status.process)
    return again is not None and (again.start_ticks, again.state) == (status.start_ticks, "D")


def _innermost(stack: tuple[str, ...]) -> str:
    """Return the function that a task waits in: a stack begins there, without the scheduler's.

    Source: kernel, kernel/stacktrace.c (stack_trace_save_tsk); of 5.x for arm64 '__switch_to' too.
    """
    return next((name for name in stack if name != "__switch_to"), "")


def _channel(root: Machine, status: TaskStatus) -> str:
    """Return the function that a task waits in where its stack cannot be read."""
    channel = (root.try_read_record(f"{status.directory}/wchan") or "").strip()
    return "" if channel == "0" else channel  # no permission to read it


def _switches(text: str) -> int | None:
    """Return the voluntary context switches in the text of 'status', None if it lacks them."""
    return _count_of(text, "voluntary_ctxt_switches:")


def _count_of(text: str, name: str) -> int | None:
    _, found, rest = text.partition(f"\n{name}")
    try:
        return parse_count(rest.partition("\n")[0].strip()) if found else None
    except ValueError:
        return None


def _unanswered(root: Machine, status: TaskStatus) -> BlockedTask:
    """Return a blocked task whose details cannot be read."""
    return BlockedTask(
        pid=status.pid,
        start_ticks=status.start_ticks,
        command=status.command,
        wait_channel="",
        stack=(),
        read_bytes=None,
        write_bytes=None,
        process=status.process if status.process != status.pid else 0,
        kernel=status.kernel,
        voluntary_switches=_switches(root.try_read_record(f"{status.directory}/status") or ""),
        unit=unit_of(_group(root, status)),
        unanswered=True,
    )


def _by_status(root: Machine, pid: int) -> list[BlockedTask]:
    """Return the blocked tasks of a process that does not answer, by what never waits."""
    directory = f"{_DIRECTORY}/{pid}"
    names = root.try_names(f"{directory}/task") or [str(pid)]
    blocked = []
    for name in names[:MAX_TASKS]:
        text = root.try_read_record(f"{directory}/task/{name}/status") or ""
        values = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        if name.isdigit() and values.get("State", "").startswith("D"):
            status = TaskStatus(
                directory=f"{directory}/task/{name}",
                pid=int(name),
                process=pid,
                command=values.get("Name", ""),
                state="D",
                parent=0,
                kernel=False,
                threads=1,
                start_ticks=0,  # only in 'stat', which does not answer
            )
            blocked.append(_unanswered(root, status))
    return blocked


def _device_of(command: str) -> str:
    """Return the device in the name of a kernel thread, or ''."""
    match = _THREAD_OF.fullmatch(command)
    return match[match.lastgroup or 0] if match else ""


def functions(text: str) -> tuple[str, ...]:
    """Return the names in a stack: '[<0>] jbd2_log_wait_commit+0x9b/0x120 [jbd2]'.

    The innermost `MAX_FUNCTIONS`: all that the kernel prints.
    """
    return tuple(_FUNCTION.findall(text)[:MAX_FUNCTIONS])
