"""Who is harmed by a wait, and who causes it, by the bytes that processes moved. Pure.

A checkpointer that writes is the cause, a backend that waits for a commit is harmed, though both
are of one program. Bytes are those between the first and the last of the stored sweeps,
which begin before the wait: a burst writer writes within a second, and then waits in fsync without
a byte. Units: bytes, seconds of the program's clock.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.signals.discards import requests_discard
from iowarden.rules.signals.storage_call import Purpose, waits_in
from iowarden.rules.signals.waits.freeze_cause import is_fault
from iowarden.rules.signals.waits.waits import likely_seconds

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from iowarden.collectors.procfs.tasks import BlockedTask
    from iowarden.rules.signals.waits.waits import Wait

CAUSE_RATIO = 0.25
"""A process with this share of what the devices moved is a cause."""
MIN_BYTES_PER_SECOND = 65_536.0
"""Less than this explains no wait, whatever its share of an idle device."""
EXPLAINED_RATIO = 0.25
"""A task whose own bytes explain less of its wait waits for another's: it is a victim."""
LONG_WRITE_SECONDS = 10.0
"""A write(2) that has not returned for so long is a wait like any other."""
_PAUSED = "balance_dirty_pages"
_OWN_SYNC = (
    "vfs_fsync",  # fs/sync.c: fsync, fdatasync
    "do_fsync",
    "file_write_and_wait",  # mm/filemap.c
    "sync_file_range",
    "__do_sys_msync",  # mm/msync.c
    "__x64_sys_msync",
    "generic_write_sync",  # include/linux/fs.h: O_SYNC, O_DSYNC
    "iomap_dio_complete",
    "nfs_wb_all",  # fs/nfs/write.c: close and fsync of a file on a server
    "nfs_commit_inode",
    "__nfs_commit_inode",
    "folio_wait_writeback",  # mm/page-writeback.c; the stack may be cut off or unreadable
    "wait_on_page_writeback",
    "__filemap_fdatawait",
)
"""A task in one of these waits for what it wrote itself."""
_SIZE_WORD = 3
"""The third argument of write(2) and its kin is the size. The words of the line: the number first.
"""
_WRITE_CALLS = frozenset(("1", "18", "64", "68"))
"""write, pwrite64. Source: kernel, syscall_64.tbl; uapi/asm-generic/unistd.h (arm64, riscv64)."""


@dataclass(frozen=True, slots=True)
class ProcessLoad:
    """What one process moved within the stored sweeps.

    `thread_bytes`: by task number, of a process whose threads were read one by one; a thread that
    is missing moved nothing.
    """

    pid: int
    command: str
    unit: str
    read_bytes: int
    written_bytes: int
    thread_bytes: Mapping[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """What processes and the devices concerned moved within the stored sweeps.

    `seconds` is the time between the first and the last sweep; `is_certain` is false where no
    sweep came before the wait: the bytes are then those since each process's start.
    `queued_bytes` is the unwritten data of the host, None: not known. No process can have moved
    more on these devices than they did and what is queued.
    """

    seconds: float
    processes: tuple[ProcessLoad, ...]
    read_bytes: int
    written_bytes: int
    is_certain: bool = True
    queued_bytes: int | None = None


NO_LOAD = Load(0.0, (), 0, 0, is_certain=False)


@dataclass(frozen=True, slots=True)
class Cause:
    """A process, or one thread of it, that moves a large share of what the devices do."""

    pid: int
    command: str
    unit: str
    moved_bytes: int
    ratio: float
    writes: bool
    """Whether it writes; else it reads."""
    threads: frozenset[int] | None = None
    """The threads that are the cause, None: the whole process."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A harmed task: `min_seconds` at least, `max_seconds` at most, without what is its own."""

    wait: Wait
    min_seconds: float
    max_seconds: float
    is_cause: bool = False
    """A cause that waits longer than what it wrote explains: evidence, and no victim alone."""

    def age_seconds(self, *, is_alone: bool) -> float:
        """How long it has waited, as thresholds compare it: at most, or likely if it is alone."""
        if not is_alone:
            return self.max_seconds
        explained = self.wait.max_seconds - self.max_seconds
        known = self.wait.last_seconds - self.wait.known_seconds - explained
        return likely_seconds(known, self.max_seconds)


@dataclass(frozen=True, slots=True)
class Harm:
    """The harmed tasks, the longest first, and who causes it; no cause: no program is."""

    victims: tuple[Victim, ...] = ()
    evidence: tuple[Victim, ...] = ()
    causes: tuple[Cause, ...] = ()
    units: tuple[Cause, ...] = ()
    """Without a cause: the units whose processes are one together."""
    is_certain: bool = True
    """Whether sweeps from before the wait show the causes; else their bytes since their start."""
    is_share_known: bool = True
    """Whether the devices moved enough bytes for a program's share to mean something: where nothing
    moves (a full thin pool), no program did a quarter of it."""
    blames_device: bool = False
    """Whether the device itself is the cause: it hangs, is slow or frozen."""
    discarding: tuple[BlockedTask, ...] = ()
    """Programs that discard, which is what the others wait for."""


def causes(
    load: Load, here: Container[int] = (), elsewhere: Container[int] = ()
) -> tuple[Cause, ...]:
    """Return who moves a quarter or more of what the devices do: who waits for them, then the rest.

    A process' bytes are those on all disks. So where one that waits `here` moved as much, one that
    waits only for disks `elsewhere` moved its bytes there; both by process ID. Each group has the
    largest first.
    """
    least_bytes = MIN_BYTES_PER_SECOND * load.seconds
    candidates: list[Cause] = []
    for process in load.processes:
        for writes, moved, total in (
            (True, process.written_bytes, load.written_bytes),
            (False, process.read_bytes, load.read_bytes),
        ):
            # The page cache takes more than the device completes in the same time.
            ratio = min(moved / total, 1.0) if total > 0 else float(moved > 0)
            at_most = moved
            if load.queued_bytes is not None:  # what is neither there nor queued went elsewhere
                at_most = min(moved, total + (load.queued_bytes if writes else 0))
            if at_most >= max(least_bytes, 1.0) and ratio >= CAUSE_RATIO:
                threads = _causing_threads(process, max(total, moved))
                candidates.append(
                    Cause(process.pid, process.command, process.unit, moved, ratio, writes, threads)
                )
    if any(cause.pid in here for cause in candidates):
        candidates = [c for c in candidates if c.pid in here or c.pid not in elsewhere]
    candidates.sort(key=lambda cause: (cause.pid not in here, -cause.moved_bytes, cause.pid))
    largest: dict[int, Cause] = {}
    for cause in candidates:
        largest.setdefault(cause.pid, cause)
    return tuple(largest.values())


def causing_units(load: Load) -> tuple[Cause, ...]:
    """Return the units whose processes together move a quarter or more: a hundred small writers."""
    by_unit: dict[str, list[ProcessLoad]] = {}
    for process in load.processes:
        if process.unit:
            by_unit.setdefault(process.unit, []).append(process)
    together = tuple(
        ProcessLoad(
            number,
            "",
            unit,
            sum(process.read_bytes for process in processes),
            sum(process.written_bytes for process in processes),
        )
        for number, (unit, processes) in enumerate(by_unit.items())
    )
    return causes(replace(load, processes=together))


def _causing_threads(process: ProcessLoad, total_bytes: int) -> frozenset[int] | None:
    if process.thread_bytes is None:
        return None
    return frozenset(
        thread
        for thread, moved in process.thread_bytes.items()
        if moved >= CAUSE_RATIO * total_bytes
    )


def harm(
    waits: Iterable[Wait],
    load: Load,
    completed_bytes: float,
    bytes_per_second: float,
    best_bytes_per_second: float = 0.0,
    elsewhere: Container[int] = (),
) -> Harm:
    """Return who is harmed by these waits for one device, and by whom.

    `completed_bytes` is what the device completed since the oldest of the waits began;
    `bytes_per_second` its write speed, `best_bytes_per_second` the one that it has when it works
    well, 0 if not known. `elsewhere`: processes that wait for other disks.
    """
    waits = tuple(waits)
    here = frozenset(wait.task.process or wait.task.pid for wait in waits)
    found_causes = causes(load, here, elsewhere)
    victims: list[Victim] = []
    evidence: list[Victim] = []
    discarding: list[BlockedTask] = []
    for wait in waits:
        if wait.purpose is not Purpose.STORAGE:
            continue
        if requests_discard(wait.task):
            discarding.append(wait.task)
            continue
        explained = _explained_seconds(
            wait, load, completed_bytes, bytes_per_second, best_bytes_per_second
        )
        # One read, open or rename moves too little to explain so long a wait by itself: whoever
        # has a slow disk for itself alone is all of its load, and harmed. So is who waits in its
        # own fsync for what its bytes do not explain.
        is_evidence = is_of_causes(wait, found_causes) and (
            wait.max_seconds < LONG_WRITE_SECONDS or _waits_for_own_writes(wait, explained)
        )
        victim = Victim(
            wait,
            max(wait.min_seconds - explained, 0.0),
            max(wait.max_seconds - explained, 0.0),
            is_evidence,
        )
        if victim.max_seconds > 0.0:
            (evidence if is_evidence else victims).append(victim)
    for group in (victims, evidence):
        group.sort(key=lambda victim: (-victim.max_seconds, victim.wait.task.pid))
    # Since their start the units' programs wrote to all disks.
    units = causing_units(load) if load.is_certain and not found_causes else ()
    moved_bytes = max(load.read_bytes, load.written_bytes)
    return Harm(
        tuple(victims),
        tuple(evidence),
        found_causes,
        units,
        is_certain=load.is_certain,
        is_share_known=moved_bytes >= max(MIN_BYTES_PER_SECOND * load.seconds, 1.0),
        discarding=tuple(discarding),
    )


def followed(victims: tuple[Victim, ...]) -> tuple[Victim, ...]:
    """Return the victims that two polls saw in one call; if there are none yet, all."""
    return tuple(victim for victim in victims if victim.wait.min_seconds > 0.0) or victims


def is_cause_alone(harm: Harm) -> bool:
    """Whether only programs wait that cause it."""
    waiting = (*harm.victims, *harm.evidence)
    return bool(waiting) and all(is_of_causes(each.wait, harm.causes) for each in waiting)


def is_of_causes(wait: Wait, found_causes: Iterable[Cause]) -> bool:
    """Whether the task is one of the causes itself."""
    process = wait.task.process or wait.task.pid
    return any(
        cause.pid == process and (cause.threads is None or wait.task.pid in cause.threads)
        for cause in found_causes
    )


def _explained_seconds(
    wait: Wait,
    load: Load,
    completed_bytes: float,
    bytes_per_second: float,
    best_bytes_per_second: float,
) -> float:
    """Return how much of a wait the task's own bytes explain.

    That is the time that the device needs for them, at the speed that it has during the wait or,
    if that is higher, when it works well. A device that completes nothing explains nothing.
    """
    if _is_in(wait, (_PAUSED,)):
        size = call_size(wait)
        if wait.max_seconds < LONG_WRITE_SECONDS:
            return wait.max_seconds  # flow control: the write is about to return
        return size / bytes_per_second if bytes_per_second > 0 else 0.0
    if not _is_in(wait, _OWN_SYNC) or completed_bytes <= 0:
        return 0.0
    own_bytes = max(_written_bytes(wait, load), call_size(wait))
    speed = max(completed_bytes / max(wait.max_seconds, 1.0), best_bytes_per_second)
    return min(wait.max_seconds, own_bytes / speed)


def _waits_for_own_writes(wait: Wait, explained_seconds: float) -> bool:
    if _is_in(wait, _OWN_SYNC):
        return explained_seconds >= EXPLAINED_RATIO * wait.max_seconds
    return _is_in(wait, (_PAUSED,)) or call_size(wait) > 0


def _is_in(wait: Wait, prefixes: tuple[str, ...]) -> bool:
    return waits_in(wait.task, prefixes)


def _written_bytes(wait: Wait, load: Load) -> int:
    """Return what the task wrote within the stored sweeps, else what its process wrote."""
    process = wait.task.process or wait.task.pid
    for one in load.processes:
        if one.pid == process:
            if one.thread_bytes is not None:
                return one.thread_bytes.get(wait.task.pid, 0)
            return one.written_bytes
    return 0


def call_size(wait: Wait) -> int:
    """Return the size in bytes that a write(2) was called with, 0 if it is not known."""
    words = wait.task.system_call.split()
    if len(words) <= _SIZE_WORD or words[0] not in _WRITE_CALLS:
        return 0
    try:
        size = int(words[_SIZE_WORD], 16)
    except ValueError:
        return 0
    return size if size < 1 << 31 else 0  # MAX_RW_COUNT, include/linux/fs.h


def with_faults(harm: Harm) -> Harm:
    """Return who is harmed in a swap storm: also those whose own pages are most of its load."""
    faulting = [victim for victim in harm.evidence if is_fault(victim.wait.task)]
    rest = tuple(victim for victim in harm.evidence if victim not in faulting)
    return replace(harm, victims=(*harm.victims, *faulting), evidence=rest)


def with_causes(harm: Harm, before: Harm) -> Harm:
    """Return who is harmed with who caused it, which no longer shows while the freeze goes on."""
    if harm.causes or harm.units or harm.discarding or not (before.causes or before.units):
        return harm
    return replace(harm, causes=before.causes, units=before.units, is_certain=before.is_certain)
