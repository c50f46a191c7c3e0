"""Describe hung tasks: which program is blocked, for how long, and what it waits for. Pure.

The kernel log names program and seconds; the probe reads the kernel function that the task waits
in. The kernel's counter has neither: its alert takes the text of the log, if that is readable.
Source of functions: linux-source 6.1.192 and 6.12.117 (Debian), fs/jbd2/transaction.c, fs/xfs,
fs/btrfs, fs/f2fs, fs/fuse/dev.c, fs/nfs, fs/direct-io.c, fs/buffer.c, fs/fs-writeback.c,
fs/super.c, net/sunrpc/sched.c, drivers/{md,scsi,nvme}, block, mm/filemap.c, mm/page-writeback.c,
kernel/locking. Older kernels have __sb_start_write (5.4, fs/super.c), and the names with 'page' for
those with 'folio' (mm before 5.16: unchecked).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.quantity import duration
from iowarden.rules.signals.storage_call import waits_for_thaw

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.collectors.procfs.tasks import BlockedTask, BlockedTasks
    from iowarden.rules.alerting.alerts import Alert

EVENT, COUNTER = "hung_task", "HungTask"
OWN_EVENT = "own_hung_task"
"""The same line about a task of iowarden itself, which harms no program of the host."""
SERVER = "nfs_not_responding"
"""The event of an NFS server that programs wait for."""
NAMES = frozenset((EVENT, COUNTER, SERVER))
"""Alerts that `named` adds the blocked program to."""
TASK = "task"
"""Annotation of the event's alert: PID of the blocked task."""
_LINE = re.compile(
    r"INFO: task (?P<name>.+):(?P<pid>\d{1,10}) blocked (?:in I/O wait )?for more than"
    r" (?P<seconds>\d{1,10}) seconds",
    re.ASCII,
)
"""Source: kernel, kernel/hung_task.c, check_hung_task."""
_BLOCKED = " blocked for over "
NFS = "an NFS server"
FROZEN = "a frozen file system"
_CHANNELS = {
    "the journal of its file system": "jbd2 do_get_write_access wait_transaction add_transaction",
    "its XFS file system": "xfs_ xlog_",
    "its Btrfs file system": "btrfs_",
    "its F2FS file system": "f2fs_",
    NFS: "nfs rpc_",
    "the program of a FUSE file system": "fuse_ request_wait_answer",
    "a software RAID array": "md_ raid wait_barrier wait_read_barrier regular_request_wait",
    "a device-mapper device": "dm_",
    "dirty-page throttling by the kernel": "balance_dirty_pages",
    "data to be written back": "wb_wait_for_completion folio_wait_writeback wait_on_page_writeback",
    "a disk": "blk_ bio_ submit_bio_wait rq_qos_wait wbt_wait scsi_ nvme_ wait_on_buffer",
    "I/O": "io_schedule bit_wait_io folio_wait_bit wait_on_page_bit lock_page folio_lock dio_",
    FROZEN: "freeze_super",
    "a lock that another task holds": "rwsem_down percpu_ mutex_lock down_ schedule_preempt",
}
"""What a task waits for, by the beginning of the name of the kernel function that it is in."""


def summary(text: str) -> tuple[str, str] | None:
    """Return the summary of a hung-task line of the kernel, and the PID; None: another line."""
    found = _LINE.match(text)
    if found is None:
        return None
    name, pid, seconds = found["name"], found["pid"], found["seconds"]
    return f"{name} (pid {pid}){_BLOCKED}{duration(float(seconds))}", pid


def named(alerts: Iterable[Alert], tasks: BlockedTasks | None) -> list[Alert]:
    """Return the alerts; those of hung tasks with what the tasks wait for, if that is known.

    The alert of the kernel's counter gets the text of the kernel log.
    """
    known = list(alerts)
    waiting = () if tasks is None else tasks.tasks
    away = [each.key for each in known if each.name == SERVER and each.absent_seconds is None]
    server = "it" if len(away) == 1 else NFS
    known = [_of_server(a, waiting, server) if a.key in away else a for a in known]
    lines = [_with_cause(each, waiting) for each in known if each.name == EVENT and each.count]
    by_key = {each.key: each for each in lines}
    newest = max(lines, key=lambda each: each.last_seconds or 0.0, default=None)
    return [
        by_key.get(each.key)
        or (_counted(each, newest, waiting) if each.name == COUNTER and not each.count else each)
        for each in known
    ]


def _with_cause(alert: Alert, tasks: Iterable[BlockedTask]) -> Alert:
    number = alert.annotation(TASK)
    own = next((task for task in tasks if number in {str(task.pid), str(task.process)}), None)
    what = "" if own is None else _cause(own)
    task, blocked, duration_text = alert.summary.rpartition(_BLOCKED)
    if not (what and blocked):
        return alert
    # A subject that is too long ends after its first clause: what it waits for is in that one.
    return _with_summary(alert, f"{task} waits for {what},{blocked}{duration_text}")


def _of_server(alert: Alert, tasks: Iterable[BlockedTask], server: str) -> Alert:
    """Return the alert of an NFS server with the programs that wait for it, as the probe sees them.

    If several servers do not respond, it is unknown which of them each program waits for.
    """
    programs = [task for task in tasks if not task.kernel and _cause(task) == NFS]
    if not alert.count or not programs:
        return alert
    first, more = programs[0], len(programs) - 1
    wait = f"and {more} more wait" if more else "waits"
    number = first.process or first.pid
    return _with_summary(
        alert, f"{alert.summary}: {first.command} (pid {number}) {wait} for {server}"
    )


def _counted(alert: Alert, line: Alert | None, tasks: Iterable[BlockedTask]) -> Alert:
    if line is not None and line.annotation(TASK):
        return _with_summary(alert, line.summary)
    programs = [task for task in tasks if not task.kernel]
    if not programs:
        return alert
    first, more = programs[0], len(programs) - 1
    wait = f"and {more} more wait" if more else "waits"
    what = _cause(first)
    cause = f" for {what}" if what else ""
    number = first.process or first.pid
    return _with_summary(alert, f"{first.command} (pid {number}) {wait}{cause}: {alert.summary}")


def _with_summary(alert: Alert, text: str) -> Alert:
    others = (pair for pair in alert.annotations if pair[0] != "summary")
    return replace(alert, annotations=(("summary", text), *others))


def _cause(task: BlockedTask) -> str:
    """Return what a task waits for, by the kernel functions that it is in; '' if unknown."""
    if waits_for_thaw(task):
        return FROZEN
    for function in (task.wait_channel, *task.stack):
        own = function.lstrip("_")
        for words, begins in _CHANNELS.items():
            if own.startswith(tuple(begins.split())):
                return words
    return ""
