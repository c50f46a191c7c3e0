"""Whether a blocked task is still in the system call in which the poll before saw it.

A task that reads from a busy disk is blocked at nearly every poll, each time in another call: it is
not harmed. A frozen one stays in one call. Sources: proc(5), '/proc/PID/syscall' and 'io'; kernel,
fs/read_write.c (add_rchar, inc_syscr: only the read and write family counts), block/blk-core.c and
mm/page-writeback.c (task_io_account_read, task_io_account_write), kernel/sched/core.c (nvcsw).
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from iowarden.collectors.procfs.tasks import writeback_channel

if TYPE_CHECKING:
    from iowarden.collectors.procfs.tasks import BlockedTask

MAX_CPU_TICKS = 2
"""A task that is woken to check its condition runs for microseconds; a loop of calls takes more."""
IO_WORKER = "iou-wrk"
"""Workers of io_uring: their 'syscall' never changes. Source: kernel, io_uring/io-wq.c."""
FAULT = "-1"
_PAUSED = "balance_dirty_pages"
"""A paused writer counts its bytes before the pause, and is paused again after the next."""
_DIRECTORY_CALLS = frozenset(
    # x86_64: getdents64, openat to faccessat, utimensat, renameat2, execveat, statx, openat2.
    "217 257 258 259 260 262 263 264 265 266 267 268 269 280 316 322 332 437 439"
    # asm-generic (arm64, riscv64): mknodat to renameat, faccessat, fchmodat, fchownat, openat,
    # getdents64, readlinkat, newfstatat, utimensat, renameat2, execveat, statx.
    " 33 34 35 36 37 38 48 53 54 56 61 78 79 88 276 281 291".split()
)
"""Calls whose first argument is the descriptor of a directory, and which no counter counts.

Source: kernel, arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h. A number
that means something else on the other architecture is only compared more strictly.
"""


class Continuity(enum.Enum):
    """What two polls at one task show."""

    SAME_CALL = "same call"
    ANOTHER_CALL = "another call"
    NOT_KNOWN = "not known"
    """The kernel, or a recording, lacks the facts to compare."""


def continuity(before: BlockedTask, after: BlockedTask) -> Continuity:
    """Return whether a task that both polls saw blocked stayed in one call between them.

    Without `system_call` on either side nothing is known, and the caller must not let the wait
    grow old.
    """
    if (before.pid, before.start_ticks) != (after.pid, after.start_ticks):
        return Continuity.ANOTHER_CALL  # the number was used again
    if _ran(before, after):
        return Continuity.ANOTHER_CALL
    if before.unanswered and after.unanswered:
        # Its files cannot be read because it executes a program, which is one call.
        return Continuity.SAME_CALL
    if not before.system_call or not after.system_call:
        if before.counters and after.counters and before.counters != after.counters:
            return Continuity.ANOTHER_CALL
        return _by_bytes(before, after)
    if before.system_call != after.system_call or before.file != after.file:
        return Continuity.ANOTHER_CALL
    if _counts_nothing(after):
        return _by_switches(before, after)
    if not before.counters or not after.counters:
        # An equal line may be the next turn of a loop; only a task that never woke is certain.
        return _by_switches(before, after)
    return Continuity.SAME_CALL if before.counters == after.counters else Continuity.ANOTHER_CALL


def is_another_call(before: BlockedTask, after: BlockedTask) -> bool:
    """Whether a task has certainly left its call: it has other arguments, or read or written."""
    if not before.system_call or not after.system_call:
        return False
    if before.system_call != after.system_call:
        return True
    return bool(before.counters and after.counters) and before.counters != after.counters


def _ran(before: BlockedTask, after: BlockedTask) -> bool:
    """Whether it used more processor time than one call that waits does."""
    if before.cpu_ticks is None or after.cpu_ticks is None:
        return False
    return not 0 <= after.cpu_ticks - before.cpu_ticks <= MAX_CPU_TICKS


def _counts_nothing(task: BlockedTask) -> bool:
    """Whether its next call could poll the same: no counter moves, and no file distinguishes them.

    Page faults, workers of io_uring, msync, rename, open and their like. An fsync counts nothing
    either, but a program that calls it again has written to the file in between, which counts.
    """
    words = task.system_call.split()
    if words[0] == FAULT or task.command.startswith(IO_WORKER):
        return True
    if words[-2:] == ["0x0", "0x0"]:
        return True  # no stack of a program: a thread that the kernel runs for one
    is_path = task.file.startswith("/")
    return not is_path or words[0] in _DIRECTORY_CALLS


def _by_bytes(before: BlockedTask, after: BlockedTask) -> Continuity:
    """Return what is known without the call: a program that commits again has written before.

    Only for waits for writing: of a reader, bytes count when the next read begins.
    """
    channels = writeback_channel(before), writeback_channel(after)
    is_commit = channels[0] == channels[1] not in {"", _PAUSED}
    moved = (before.read_bytes, before.write_bytes), (after.read_bytes, after.write_bytes)
    if not is_commit or before.write_bytes is None:
        return Continuity.NOT_KNOWN
    return Continuity.SAME_CALL if moved[0] == moved[1] else Continuity.ANOTHER_CALL


def _by_switches(before: BlockedTask, after: BlockedTask) -> Continuity:
    """Return whether the task never gave up the processor between two polls: it never woke."""
    if before.voluntary_switches is None or after.voluntary_switches is None:
        return Continuity.NOT_KNOWN
    never_woke = before.voluntary_switches == after.voluntary_switches
    return Continuity.SAME_CALL if never_woke else Continuity.ANOTHER_CALL
