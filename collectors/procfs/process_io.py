"""Bytes that each process reads from and writes to disks; two sweeps show which program does it.

Source: proc(5): '/proc/PID/io', 'stat', 'cgroup'; kernel, fs/proc/base.c (do_io_accounting: a
process with all its threads), mm/page-writeback.c (folio_account_dirtied: a page counts for the
program that makes it dirty, not for the kernel thread that writes it later), kernel/exit.c
(wait_task_zombie: what a process did is added to the parent that waits for it). Only root may read
'io' of other users: the probe does, `read_sweep`, and the daemon queries it, `request_sweep`.
'cmdline' and 'environ' are never read: they may contain passwords.
Limits: writes to a network file system count as well; a page that is written again while it is
still dirty counts once.
"""

from __future__ import annotations

import functools
import json
import threading
import time
from dataclasses import field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import AbsentError, Family, ParseError
from iowarden.collectors.procfs import meminfo
from iowarden.collectors.procfs.clock import PATH as UPTIME
from iowarden.collectors.procfs.clock import parse_uptime
from iowarden.collectors.procfs.stat import USER_HZ
from iowarden.collectors.procfs.tasks import TaskStatus, parse_io, read_status
from iowarden.collectors.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from iowarden.collectors.machine import Machine

VERB = "io_sweep"
MAX_PROCESSES = 5_000
MAX_CPU_SECONDS = 0.3
MAX_SECONDS = 2.0
"""A process that executes a program holds a lock that 'io' needs (kernel, exec_update_lock)."""
MAX_THREADED, MAX_THREADS = 3, 512
"""Of so many processes with several threads, the largest, the threads are read one by one: one that
writes little is harmed though its process is the cause (MySQL, MongoDB, etcd)."""
DEADLINE_SECONDS = 5.0
MIN_INTERVAL_SECONDS = 1.0
SWEPT_BYTES = 64 << 20
"""Unwritten data from which processes are swept."""
_MAX_NAME = 100
_MAX_UNITS = 512
"""Texts of '/proc/PID/cgroup' whose unit is remembered: most processes share theirs."""
_LIMIT = 1 << 64
_OTHER_FIELDS = (0, 3, 4)
"""So many of those of a process that recordings may lack."""
_MAX_ANCESTORS = 32
_NO_BYTES = "\nread_bytes: 0\nwrite_bytes: 0\ncancelled_write_bytes: 0\n"
_KERNEL_THREADS = "/proc/2/task/2/children"
"""The children of kthreadd. Source: kernel, init/main.c (rest_init), filesystems/proc.rst;
CONFIG_PROC_CHILDREN: without it they are read among the programs."""
_UNITS = (".service", ".scope", ".socket", ".mount", ".swap", ".slice")
"""Types of units that have a control group. Source: systemd.resource-control(5)."""

FAMILIES = (
    Family(
        "iowarden_io_sweep_processes",
        "gauge",
        "Processes with bytes read or written in the last sweep; 0: there was no reason for one.",
    ),
)

NEGLIGIBLE_BYTES = 1 << 20
"""What a process moved before its threads were read for the first time."""
Key = tuple[int, int]
"""Process ID and start: the number alone may be used again."""


@dataclass(frozen=True, slots=True)
class ProcessIo:
    """A process and its counters since its start, in bytes.

    Fields: `start_ticks` since boot; `unit` is the innermost systemd unit that it runs in, else its
    control group, '' in none; `cancelled_write_bytes` is what it made dirty or others did, and it
    deleted before it was written. `read_call_bytes` and `write_call_bytes` (rchar, wchar) passed
    through read(2) and write(2), from files of any kind; what is read ahead, faulted in, mapped or
    transferred by asynchronous I/O is not in them (kernel, fs/read_write.c: add_rchar; fs/aio.c
    has none). `major_faults` had to read from a disk; `resident_bytes` are in memory now, shared
    ones included. None: not known, in older recordings.
    """

    pid: int
    start_ticks: int
    parent: int
    command: str
    unit: str
    read_bytes: int
    write_bytes: int
    cancelled_write_bytes: int
    read_call_bytes: int | None = None
    write_call_bytes: int | None = None
    major_faults: int | None = None
    resident_bytes: int | None = None

    @property
    def key(self) -> Key:
        """What identifies it."""
        return self.pid, self.start_ticks


@dataclass(frozen=True, slots=True)
class ThreadIo:
    """A thread, and the bytes that it has read and written since its start."""

    process: int
    thread: int
    moved_bytes: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """All processes at one moment.

    Fields: `boot_seconds` is the time since boot; `processes` are those that have read or written
    anything; `not_read` are the process IDs of those that could not be read within the limits.
    """

    boot_seconds: float
    processes: tuple[ProcessIo, ...]
    not_read: tuple[int, ...] = ()
    threads: tuple[ThreadIo, ...] = ()
    """Of the largest processes with several threads."""


_PROCESS_FIELDS = attrgetter(*(each.name for each in fields(ProcessIo)))
_THREAD_FIELDS = attrgetter(*(each.name for each in fields(ThreadIo)))
"""Fields as a tuple; `dataclasses.astuple` copies each value and costs ten times as much."""

NO_SWEEP = Sweep(0.0, ())
"""There was no reason for one."""


@dataclass(frozen=True, slots=True)
class Increase:
    """What a process read and wrote between two sweeps, in bytes.

    `ended` is the number of its descendants that ended meanwhile: what these did is included, but
    for their `major_faults`. The last three as in `ProcessIo`.
    """

    pid: int
    command: str
    unit: str
    read_bytes: int
    write_bytes: int
    ended: int = 0
    read_call_bytes: int | None = None
    write_call_bytes: int | None = None
    major_faults: int | None = None


@dataclass(slots=True)
class _Progress:
    """What a thread has read so far, and the process IDs that it has not."""

    left: set[int]
    processes: list[ProcessIo] = field(default_factory=list)
    threaded: list[TaskStatus] = field(default_factory=list)
    """Those with several threads."""
    threads: list[ThreadIo] = field(default_factory=list)
    error: Exception | None = None


def increases(before: Sweep, after: Sweep) -> list[Increase]:
    """Return what each process did between two sweeps; none if they are no second apart. Pure.

    The counters of a process that ended are in those of the parent that waited for it: of these,
    what it had done before the first sweep is subtracted. Left out: a process whose counters went
    back, and one that the first sweep could not read.
    """
    if after.boot_seconds - before.boot_seconds < MIN_INTERVAL_SECONDS:
        return []
    old = {process.key: process for process in before.processes}
    inherited = _inherited(before, after)
    not_read = frozenset(before.not_read)
    found = []
    for process in after.processes:
        # The uptime is rounded down like the start.
        began = process.start_ticks >= int(before.boot_seconds * USER_HZ)
        was = old.get(process.key)
        if was is None:
            if process.pid in not_read and not began:
                continue
            was = replace(
                process,
                read_bytes=0,
                write_bytes=0,
                cancelled_write_bytes=0,
                read_call_bytes=0,
                write_call_bytes=0,
                major_faults=0,
            )
        did = _difference(process, [was])
        heirs = inherited.get(process.key, [])
        without = _difference(process, [was, *heirs])
        # Else it did not wait for them: it ignores SIGCHLD.
        ended = len(heirs) if heirs and min(without) >= 0 else 0
        read, written, cancelled = without if ended else did
        if min(did) >= 0 and (read or written):
            net = max(written - cancelled, 0)
            of_calls = _calls_difference(process, [was, *(heirs if ended else ())])
            faults = _increase(process.major_faults, was.major_faults)
            found.append(
                Increase(
                    process.pid,
                    process.command,
                    process.unit,
                    read,
                    net,
                    ended,
                    *of_calls,
                    faults,
                )
            )
    return found


def _increase(after: int | None, before: int | None) -> int | None:
    return None if after is None or before is None else max(after - before, 0)


def _calls_difference(
    process: ProcessIo, others: Iterable[ProcessIo]
) -> tuple[int | None, int | None]:
    """Return the bytes of calls that are not of `others`, None: one of them lacks them."""
    read, written = process.read_call_bytes, process.write_call_bytes
    for other in others:
        read = _increase(read, other.read_call_bytes)
        written = _increase(written, other.write_call_bytes)
    return read, written


def thread_increases(before: Sweep, after: Sweep) -> dict[int, dict[int, int]]:
    """Return what each thread moved between two sweeps, by process. Pure.

    A thread that the first sweep did not see began after it. Of a process whose threads it did not
    read, because it had moved next to nothing or did not exist, all that they moved is new.
    """
    earlier = {(one.process, one.thread): one.moved_bytes for one in before.threads}
    processes = {one.process for one in before.threads}
    large = {
        one.pid for one in before.processes if one.read_bytes + one.write_bytes > NEGLIGIBLE_BYTES
    }
    found: dict[int, dict[int, int]] = {}
    for one in after.threads:
        if one.process in processes or one.process not in large:
            moved = one.moved_bytes - earlier.get((one.process, one.thread), 0)
            found.setdefault(one.process, {})[one.thread] = max(moved, 0)
    return found


def _difference(process: ProcessIo, others: Iterable[ProcessIo]) -> tuple[int, int, int]:
    read, written = process.read_bytes, process.write_bytes
    cancelled = process.cancelled_write_bytes
    for other in others:
        read -= other.read_bytes
        written -= other.write_bytes
        cancelled -= other.cancelled_write_bytes
    return read, written, cancelled


def _inherited(before: Sweep, after: Sweep) -> dict[Key, list[ProcessIo]]:
    """Return the processes that ended between two sweeps, by their nearest ancestor still alive."""
    alive = {process.pid: process for process in after.processes}
    known = {process.pid: process for process in before.processes}
    found: dict[Key, list[ProcessIo]] = {}
    not_read = frozenset(after.not_read)
    for process in before.processes:
        now = alive.get(process.pid)
        if process.pid in not_read or (now is not None and now.key == process.key):
            continue
        parent = process.parent
        for _ in range(_MAX_ANCESTORS):
            heir = alive.get(parent)
            if heir is not None and heir.start_ticks <= process.start_ticks:
                found.setdefault(heir.key, []).append(process)
            if heir is not None or parent not in known:
                break
            parent = known[parent].parent
    return found


def request_sweep(root: Machine) -> Sweep:
    """Query the probe. Errors: AbsentError (no probe), ReadError, ParseError."""
    return from_json(root.query_probe(VERB, deadline_seconds=DEADLINE_SECONDS))


def read_sweep(root: Machine, max_seconds: float = MAX_SECONDS) -> Sweep:
    """Read all processes, up to the limits of this module.

    To be run as root, in a process that may be killed. A process that ends meanwhile is left out.
    Errors: AbsentError (a kernel without '/proc/PID/io' as well), ReadError, ParseError.
    """
    boot_seconds = parse_uptime(root.read(UPTIME))
    pids = sorted(int(name) for name in root.names("/proc") if name.isdigit())
    kernel = frozenset((root.try_read(_KERNEL_THREADS) or "").split())
    programs = [pid for pid in pids if str(pid) not in kernel][:MAX_PROCESSES]
    # Last, because there are hundreds that hardly ever write: they would use up the limits.
    threads = [pid for pid in pids if str(pid) in kernel][: MAX_PROCESSES - len(programs)]
    progress = _Progress(set(pids))
    reader = threading.Thread(
        target=_fill, args=(root, (programs, threads), progress), name="sweep", daemon=True
    )
    reader.start()
    reader.join(max_seconds)
    error, progress.error = progress.error, None
    if error is not None:
        try:
            raise error
        finally:
            del error  # its traceback has this frame
    left = progress.left.copy()  # a thread that hangs may go on
    if len(left) == len(pids):
        raise AbsentError(
            "'/proc/PID/io': could be read of no process; the kernel needs TASK_IO_ACCOUNTING"
        )
    return Sweep(
        boot_seconds, tuple(progress.processes), tuple(sorted(left)), tuple(progress.threads)
    )


def _fill(root: Machine, parts: tuple[list[int], list[int]], progress: _Progress) -> None:
    began = time.thread_time()
    programs, threads = parts
    try:
        for status in _those_in_d_last(root, programs, progress):
            if time.thread_time() - began > MAX_CPU_SECONDS:
                return
            progress.processes += _process(root, status, progress)
        for pid in threads:
            if time.thread_time() - began > MAX_CPU_SECONDS:
                return
            progress.processes += _kernel_thread(root, pid, progress)
        _read_threads(root, progress)
    except Exception as error:  # noqa: BLE001 - raised again by the thread that waits
        progress.error = error


def _read_threads(root: Machine, progress: _Progress) -> None:
    """Read the threads of the largest processes that have several."""
    moved = {one.pid: one.read_bytes + one.write_bytes for one in progress.processes}
    largest = sorted(progress.threaded, key=lambda status: -moved.get(status.pid, 0))
    for status in largest[:MAX_THREADED]:
        for name in (root.try_names(f"{status.directory}/task") or ())[:MAX_THREADS]:
            text = root.try_read(f"{status.directory}/task/{name}/io")
            if text is not None and name.isdigit():
                done = parse_io(text)
                moved_bytes = done.get("read_bytes", 0) + done.get("write_bytes", 0)
                progress.threads.append(ThreadIo(status.pid, int(name), moved_bytes))


def _those_in_d_last(root: Machine, pids: list[int], progress: _Progress) -> Iterator[TaskStatus]:
    """Yield the status of each process; of those in uninterruptible sleep last: 'io' may hang."""
    waiting = []
    for pid in pids:
        status = read_status(root, f"/proc/{pid}", pid)
        if status is None:
            progress.left.discard(pid)
        elif status.state == "D":
            waiting.append(status)
        else:
            yield status
    yield from waiting


def _kernel_thread(root: Machine, pid: int, progress: _Progress) -> list[ProcessIo]:
    """Return a kernel thread; none of the hundreds that did nothing, of which only 'io' is read.

    None of them executes a program, so that 'io' does not hang.
    """
    text = root.try_read_record(f"/proc/{pid}/io")
    if text is not None and text.endswith(_NO_BYTES):
        progress.left.discard(pid)
        return []
    status = read_status(root, f"/proc/{pid}", pid)
    if status is None:
        progress.left.discard(pid)
        return []
    return _process(root, status, progress)


def _process(root: Machine, status: TaskStatus, progress: _Progress) -> list[ProcessIo]:
    """Return a process; none if it has ended, may not be read, or did nothing."""
    text = root.try_read_record(f"{status.directory}/io")
    if text is None:
        still = read_status(root, status.directory, status.pid)
        if still is None or still.start_ticks != status.start_ticks:
            progress.left.discard(status.pid)
        return []
    done = parse_io(text)
    progress.left.discard(status.pid)
    read, written = done.get("read_bytes", 0), done.get("write_bytes", 0)
    cancelled = done.get("cancelled_write_bytes", 0)
    if not (read or written or cancelled):
        return []
    if status.threads > 1:
        progress.threaded.append(status)
    pages = status.resident_pages
    group = "" if status.kernel else root.try_read_record(f"{status.directory}/cgroup") or ""
    return [
        ProcessIo(
            status.pid,
            status.start_ticks,
            status.parent,
            _printable(status.command),
            unit_of(group),
            read,
            written,
            cancelled,
            done.get("rchar"),
            done.get("wchar"),
            status.major_faults,
            None if pages is None else pages * root.page_size_bytes,
        )
    ]


@functools.lru_cache(maxsize=_MAX_UNITS)
def unit_of(text: str) -> str:
    """Return the innermost systemd unit in '/proc/PID/cgroup', else the control group, or ''.

    Source: cgroups(7): 'ID:controllers:path', of version 2 '0::path'; kernel, proc_cgroup_show
    (' (deleted)'); systemd, cg_escape (a '_' in front). With version 1 and hybrid, systemd's own
    hierarchy is 'name=systemd'. Limits: a unit within a container has its name there.
    """
    paths = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        paths[controllers] = path.removesuffix(" (deleted)")
    both = [path for name in ("", "name=systemd") if (path := paths.get(name, "/")) != "/"]
    for path in both:
        for name in reversed(path.split("/")):
            if name.endswith(_UNITS):
                return _printable(name.removeprefix("_"))
    return _printable(both[0].removeprefix("/")) if both else ""


def unit_of_group(path: str) -> str:
    """Return the innermost systemd unit of a control group, else its path."""
    return unit_of(f"0::{path}") or path


def _printable(text: str) -> str:
    """Return a name of anybody's choice as printable text; others are '?'."""
    text = text[:_MAX_NAME]
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def to_json(sweep: Sweep) -> dict[str, Any]:
    """Return the answer to the verb, to be printed as JSON; of each process a list of fields."""
    return {
        "boot_seconds": sweep.boot_seconds,
        "processes": [_PROCESS_FIELDS(process) for process in sweep.processes],
        "not_read": sweep.not_read,
        "threads": [_THREAD_FIELDS(thread) for thread in sweep.threads],
    }


def from_json(text: str) -> Sweep:
    """Parse the JSON of `to_json`. Errors: ParseError."""
    try:
        found: Mapping[str, Any] = json.loads(text)
        boot, rows = found["boot_seconds"], found["processes"]
        if isinstance(boot, bool) or not isinstance(boot, int | float) or not 0 <= boot < 1e12:
            raise TypeError(f"'boot_seconds': expected seconds, got {boot!r:.60}")
        if not isinstance(rows, list) or len(rows) > MAX_PROCESSES:
            raise TypeError(f"'processes': expected a list of up to {MAX_PROCESSES}")
        not_read = tuple(map(_count, found["not_read"]))
        threads = [tuple(map(_count, row)) for row in found.get("threads", ())]
        if len(threads) > MAX_THREADED * MAX_THREADS:
            raise ValueError(f"{len(threads)} threads")
        return Sweep(
            float(boot),
            tuple(map(_parsed, rows)),
            not_read,
            tuple(ThreadIo(*thread) for thread in threads),
        )
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ParseError(
            f"probe '{VERB}': expected processes as JSON, got {text[:80]!r}:"
            f" {type(error).__name__}: {error}"
        ) from None


def _parsed(row: Any) -> ProcessIo:  # noqa: ANN401 - whatever the probe sent
    pid, start_ticks, parent, command, unit, read, written, cancelled, *others = row
    if len(others) not in _OTHER_FIELDS:
        raise TypeError(f"expected 8, 11 or 12 fields of a process, got {row!r:.80}")
    if not isinstance(command, str) or not isinstance(unit, str):
        raise TypeError(f"expected names of a process, got {row!r:.80}")
    numbers = [pid, start_ticks, parent, read, written, cancelled]
    numbers += [number for number in others if number is not None]
    for number in numbers:
        if type(number) is not int or not 0 <= number < _LIMIT:
            _count(number)
    name, of_unit = _printable(command), _printable(unit)
    return ProcessIo(pid, start_ticks, parent, name, of_unit, read, written, cancelled, *others)


def _count(found: Any) -> int:  # noqa: ANN401 - whatever the probe sent
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < _LIMIT:
        raise TypeError(f"expected an unsigned 64-bit number, got {found!r:.60}")
    return found


def read_sweep_if_due(root: Machine, *, is_wanted: bool = False) -> Sweep:
    """Return a sweep while much unwritten data is queued, or `is_wanted`; else `NO_SWEEP`.

    Who wrote it must be known before anybody waits for it: a burst writer writes within a second,
    and then waits in fsync without a byte. Errors: ReadError, ParseError.
    """
    memory = meminfo.parse_meminfo(root.read_cached_open(meminfo.PATH, is_record=True))
    if not is_wanted and memory.dirty_bytes + memory.writeback_bytes < SWEPT_BYTES:
        return NO_SWEEP
    try:
        return request_sweep(root)
    except AbsentError:
        return NO_SWEEP  # no probe: neither a stale collector nor a sweep


SOURCE: Source[Sweep] = Source(
    name="io_sweep",
    period_seconds=15,
    period_help=(
        "How often the bytes that each process reads and writes are read, while much unwritten"
        " data is queued, programs wait, or a device has phantom reads."
    ),
    may_hang=True,
    read=read_sweep_if_due,
    families=FAMILIES,
    emit=lambda sweep: [(FAMILIES[0].name, (), float(len(sweep.processes)))],
)
