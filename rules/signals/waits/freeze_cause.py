"""Why programs are blocked: the deepest cause that the facts show, else 'unknown'. Pure.

What hangs or is slow explains a backlog above it, a backlog explains a journal that waits behind
it. Sources: kernel, fs/jbd2, fs/xfs (journals), mm/page-writeback.c (backlog).
"""

from __future__ import annotations

import enum
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.procfs.cgroup_limits import LATENCY, MEMORY_MAX, SWAP_MAX
from iowarden.collectors.procfs.cgroup_use import AT_LIMIT_RATIO
from iowarden.collectors.procfs.tasks import writeback_channel
from iowarden.rules.signals.discards import is_discard
from iowarden.rules.signals.storage_call import (
    waits_for_lock,
    waits_for_server,
    waits_for_thaw,
    waits_in,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.procfs.cgroup_limits import GroupLimit
    from iowarden.collectors.procfs.tasks import BlockedTask

MAX_LIMITS = 8
"""So many are named."""
MIN_BACKLOG_BYTES = 64 << 20
"""Or, where the dirty limits permit less, that from which the kernel pauses writers."""
BACKLOG_SECONDS = 2.0
"""Less unwritten data than the devices write in this time delays no program noticeably."""
_JOURNAL = (
    "jbd2_log_wait_commit",
    "log_wait_commit",
    "jbd2_complete_transaction",
    "wait_transaction_locked",
    "add_transaction_credits",
    "start_this_handle",
    "do_get_write_access",
    "xlog_wait",
    "xlog_grant_head",
    "xfs_log_force",
    "xfs_log_reserve",
    "btrfs_commit_transaction",
    "btrfs_sync_log",
    "wait_current_trans",
)
_POOL = (
    "txg_wait_",  # ZFS: module/zfs/txg.c
    "zil_commit",  # module/zfs/zil.c
    "dmu_tx_",  # module/zfs/dmu_tx.c: as much is queued as may be
)
SYNC_SECONDS = 4.0
"""A pool that has been writing a transaction group for less delays no program for long."""
_JOURNAL_SPACE = (
    "__jbd2_log_wait_for_space",  # fs/jbd2/checkpoint.c, like the next
    "jbd2_log_do_checkpoint",
    "__log_wait_for_space",  # fs/jbd, before 4.3
    "log_do_checkpoint",
    "xlog_grant_head_wait",  # fs/xfs/xfs_log.c
)
"""What waits for space in the log waits for metadata, whatever data of files are queued."""
_WRITE_BACK = (
    "balance_dirty_pages",
    "folio_wait_writeback",
    "wait_on_page_writeback",
    "blk_congestion_wait",  # 2.6.18, where a writer is paused
    "__filemap_fdatawait",
    "filemap_fdatawait",
    "file_write_and_wait",
    "wb_wait_for_completion",
    "inode_wait_for_writeback",
    "__inode_wait_for_writeback",
    "rq_qos_wait",
    "wbt_wait",
)
_AT_MEMORY_LIMIT = (
    "mem_cgroup_handle_over_high",
    "__mem_cgroup_handle_over_high",
    "mem_cgroup_oom_synchronize",  # version 1, where the kernel must not kill; before 3.12 the next
    "mem_cgroup_handle_oom",
)
"""A program above memory.high, or at its limit. Source: kernel, mm/memcontrol.c."""
_OWN_RECLAIM = ("try_to_free_mem_cgroup_pages",)
"""A program frees pages of its own group, which is at its limit, however much memory the host has:
also dirty ones of files, without any swap. Source: kernel, mm/vmscan.c, like the next."""
_HOST_RECLAIM = ("try_to_free_pages",)
"""A program frees pages of the host, whatever limit its group is at as well."""
_LATENCY = (
    "blkcg_maybe_throttle",  # block/blk-cgroup.c
    "blkcg_iolatency_throttle",  # block/blk-iolatency.c
    "__blkcg_iolatency_throttle",
)
"""The kernel delays a program, because another group is slower than its io.latency. No task waits
in a function of io.max or blkio.throttle: the kernel queues what is above them. Source: kernel,
block/blk-throttle.c (__blk_throtl_bio)."""
_SHARE = ("ioc_rqos_throttle",)
"""A group waits for its share of a device (io.weight): what all groups together may do is what the
device does (io.cost.qos, io.cost.model). Source: kernel, block/blk-iocost.c."""
_READS = (
    "filemap_read",  # mm/filemap.c
    "filemap_get_pages",
    "filemap_fault",
    "generic_file_buffered_read",
    "do_generic_file_read",
    "do_swap_page",  # mm/memory.c
)
_RECLAIM = (
    "shrink_",
    "try_to_free_",
    "do_try_to_free_",
    "throttle_direct_reclaim",
    "reclaim_throttle",
    "congestion_wait",
    "wait_iff_congested",
)
"""Source: kernel, mm/vmscan.c; the last two before 5.16, mm/backing-dev.c."""
_SWAP = (
    "do_swap_page",  # mm/memory.c
    "swap_",  # mm/swap_state.c, mm/page_io.c, like the next two
    "swapin_",
    "read_swap_cache",
    "shmem_",  # mm/shmem.c: shared memory and tmpfs
    *_RECLAIM,
)
"""A page fault for what was swapped out, or for a page that has to be freed first."""


class FreezeCause(enum.StrEnum):
    """What makes programs wait for a device, deepest first."""

    DISCARDING = "discarding"
    """Its queue holds discards."""
    CONNECTION = "connection"
    """The fabric has no connection to its disks: iSCSI, Fibre Channel, NVMe-oF."""
    HANG = "hang"
    """The device completes nothing."""
    STUCK = "stuck requests"
    """The device completes others at once, and some not at all: a lost interrupt or command."""
    AT_LIMIT = "at its limit"
    """The device completes as many requests or bytes a second as it is allowed."""
    SLOW = "slow"
    """The device is slow compared with its peers."""
    NEIGHBOUR = "neighbour"
    """Another device fills the queue of their adapter."""
    SERVER = "server"
    """A network file system does not answer."""
    SLOW_SERVER = "slow server"
    """A network file system answers, after many seconds."""
    SUSPENDED = "suspended"
    """A device of device-mapper, itself or below it, is suspended."""
    NOT_PASSED_ON = "not passed on"
    """A stacked device has requests and passes none on: the disks below it have nothing to do."""
    FROZEN = "frozen"
    """Its file system is frozen."""
    OWN_LIMIT = "own limit"
    """A limit of their control group, or of one above it."""
    OWN_MEMORY_LIMIT = "own memory limit"
    """A limit of memory of their control group: it swaps while the host has memory left, frees its
    own pages, or waits until it has less."""
    SWAP_STORM = "swap storm"
    """Memory is swapped in and out all the time, and programs wait for their own pages."""
    BACKLOG = "backlog"
    """More unwritten data is queued than the device writes in the time that programs wait."""
    SYNCHRONIZING = "synchronizing"
    """Its disks are busy with the check, resync, rebuild or reshape of an array."""
    POOL_SYNC = "pool sync"
    """A transaction group of a ZFS pool is not written yet, or as much as may be is queued."""
    JOURNAL = "journal"
    """A commit of the file system's journal has not ended."""
    MEMORY = "memory"
    """They free memory before they get some (direct reclaim)."""
    LOCK = "lock"
    """All wait for a lock whose holder is not seen."""
    UNKNOWN = "unknown"


BLAMES_DEVICE = frozenset(
    {
        FreezeCause.CONNECTION,
        FreezeCause.HANG,
        FreezeCause.STUCK,
        FreezeCause.SLOW,
        FreezeCause.SERVER,
        FreezeCause.SLOW_SERVER,
        FreezeCause.SUSPENDED,
        FreezeCause.NOT_PASSED_ON,
        FreezeCause.FROZEN,
    }
)
"""Causes for which no program's load is to blame."""
OF_MEMORY = frozenset({FreezeCause.OWN_MEMORY_LIMIT, FreezeCause.SWAP_STORM, FreezeCause.MEMORY})
"""Causes for which it matters who has the memory."""
WHERE = frozenset(
    {FreezeCause.POOL_SYNC, FreezeCause.JOURNAL, FreezeCause.LOCK, FreezeCause.UNKNOWN}
)
"""Causes that are known by where programs wait, not by why it takes so long."""
NOT_BY_LOAD = BLAMES_DEVICE | OF_MEMORY | {FreezeCause.SYNCHRONIZING, FreezeCause.OWN_LIMIT}
"""Nor for these, which are not of the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """What other signals show of a device while programs wait for it.

    `unreachable`, `hanging`, `stuck`, `slow`, `starved` and `discarding` (for longer than others
    may wait) are disks, of itself or below it;
    `dominant` are those that fill the queue of their adapter, the one with most in flight first;
    `synchronizing` are arrays, `holding` stacked devices that pass no request on.
    `write_bytes_per_second` is what it and its neighbours write now, None: not known.
    """

    unreachable: tuple[str, ...] = ()
    hanging: tuple[str, ...] = ()
    hanging_elsewhere: tuple[str, ...] = ()
    """Other disks that complete nothing: what is queued for them counts to the host's dirty limit.
    """
    stuck: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()
    starved: tuple[str, ...] = ()
    dominant: tuple[str, ...] = ()
    synchronizing: tuple[str, ...] = ()
    holding: tuple[str, ...] = ()
    is_suspended: bool = False
    may_be_suspended: bool = False
    """Whether it is not known, and one of several that are suspended is what is left."""
    discarding: tuple[str, ...] = ()
    is_discard_overdue: bool = False
    """Whether it has completed nothing for longer than a discard may take: it hangs."""
    is_at_limit: bool = False
    is_busy: bool = False
    """Whether it is in use nearly all of the time: for all, whatever a control group may do."""
    is_idle: bool = False
    """Whether it was hardly in use since the wait began, and nothing was in flight: what programs
    wait for did not reach it."""
    write_limits: tuple[GroupLimit, ...] = ()
    """Limits of writes that groups are at of which a task waits for it: a commit waits for their
    data as well. Source: kernel, fs/jbd2/commit.c (jbd2_journal_finish_inode_data_buffers)."""
    is_another_used: bool = False
    """Whether a disk that is not below it has had requests in flight since the wait began."""
    is_untouched: bool = False
    """Whether it completes nothing while they wait, with nothing in flight: whatever holds programs
    up in its file system, it is not the device, and what it is is not known."""
    is_answering: bool = False
    """Whether what is mounted from a server has answered other calls since the oldest one, or this
    program's earlier ones as slowly."""
    is_pool_syncing: bool = False
    """Whether a ZFS pool has been writing a transaction group for long."""
    busiest: tuple[str, ...] = ()
    """The one disk that is in use all of the time while the others mostly wait for it."""
    is_swap_storm: bool = False
    carries_swap: bool = False
    """Whether a swap area is on it: in a storm that keeps it busy."""
    has_memory_left: bool = False
    """Whether the host has memory left: who swaps nevertheless has a limit of its own."""
    rates: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What the device and those below it do a second while programs wait, by number ('8:16') and as
    the rates of a control group's limit are called ('wbps'); {}: not known yet."""
    queued_bytes: float = 0.0
    pausing_bytes: float | None = None
    """The unwritten data from which the kernel pauses writers, None: not known."""
    write_bytes_per_second: float | None = None

    def disks(self, cause: FreezeCause) -> tuple[str, ...]:
        """Return the disks that are a cause, () where none is."""
        by_cause = {
            FreezeCause.DISCARDING: self.discarding,
            FreezeCause.CONNECTION: self.unreachable,
            FreezeCause.HANG: self.hanging or self.hanging_elsewhere,
            FreezeCause.STUCK: self.stuck,
            FreezeCause.SLOW: self.slow,
            FreezeCause.NEIGHBOUR: self.dominant[:1],
            FreezeCause.SYNCHRONIZING: self.synchronizing,
            FreezeCause.NOT_PASSED_ON: self.holding,
            FreezeCause.POOL_SYNC: self.busiest,
        }
        return by_cause.get(cause, ())


def freeze_cause(victims: Iterable[BlockedTask], facts: DeviceFacts) -> FreezeCause:
    """Return the deepest cause of these tasks' waits."""
    tasks = tuple(victims)
    server = FreezeCause.SLOW_SERVER if facts.is_answering else FreezeCause.SERVER
    checks = (
        # A disk completes nothing else meanwhile, and is slow: not its fault.
        (FreezeCause.DISCARDING, _is_discarding(tasks, facts)),
        (FreezeCause.CONNECTION, bool(facts.unreachable)),
        (FreezeCause.HANG, bool(facts.hanging)),
        (FreezeCause.STUCK, bool(facts.stuck)),
        (FreezeCause.AT_LIMIT, facts.is_at_limit),
        (FreezeCause.SLOW, bool(facts.slow)),
        (FreezeCause.NEIGHBOUR, bool(facts.starved)),
        (server, bool(tasks) and all(map(waits_for_server, tasks))),
        (FreezeCause.SUSPENDED, _is_suspended(tasks, facts)),
        (FreezeCause.FROZEN, any(map(waits_for_thaw, tasks))),
        (FreezeCause.OWN_MEMORY_LIMIT, _is_short_of_memory(tasks, facts)),
        (FreezeCause.OWN_LIMIT, _is_limited(tasks, facts)),
        (FreezeCause.NOT_PASSED_ON, bool(facts.holding)),
        (FreezeCause.SWAP_STORM, facts.is_swap_storm and any(map(is_fault, tasks))),
        (FreezeCause.HANG, _is_queued_elsewhere(tasks, facts)),
        (FreezeCause.BACKLOG, _is_backlog(tasks, facts)),
        (FreezeCause.SWAP_STORM, facts.is_swap_storm and facts.carries_swap and facts.is_busy),
        (FreezeCause.SYNCHRONIZING, bool(facts.synchronizing)),
        (FreezeCause.POOL_SYNC, facts.is_pool_syncing or _any_in(tasks, _POOL)),
        (FreezeCause.JOURNAL, not facts.is_untouched and _any_in(tasks, _JOURNAL)),
        (FreezeCause.MEMORY, _any_in(tasks, _RECLAIM)),
        (FreezeCause.LOCK, bool(tasks) and all(map(waits_for_lock, tasks))),
    )
    return next((cause for cause, holds in checks if holds), FreezeCause.UNKNOWN)


def _is_discarding(tasks: tuple[BlockedTask, ...], facts: DeviceFacts) -> bool:
    discards = bool(facts.discarding) or any(map(is_discard, tasks))
    return discards and not facts.is_discard_overdue


def _is_suspended(tasks: tuple[BlockedTask, ...], facts: DeviceFacts) -> bool:
    """Whether tasks wait for a suspended device; who waits for a page waits for memory."""
    return facts.is_suspended or (facts.may_be_suspended and not any(map(is_fault, tasks)))


def deeper(before: FreezeCause | None, newest: FreezeCause) -> FreezeCause:
    """Return the cause of a freeze that goes on: where programs wait does not replace why.

    The queue that made them wait is written meanwhile, and at last their commit is left.
    """
    if before is None or before is FreezeCause.UNKNOWN or newest not in WHERE:
        return newest
    return before if before not in WHERE or newest is FreezeCause.UNKNOWN else newest


def _is_limited(tasks: tuple[BlockedTask, ...], facts: DeviceFacts) -> bool:
    """Whether a limit of their control group makes tasks wait.

    Who waits for a share of a busy device waits for the load of others; if it is not busy, all
    groups together are permitted less than it is capable of.
    Where its file is unreadable, or in another namespace, it follows from data that hardly reach an
    idle disk while tasks of one unit alone wait for them.
    """
    return (
        _any_in(tasks, _LATENCY)
        or (not facts.is_busy and _any_in(tasks, _SHARE))
        or any(limit.device for limit in limits_of(tasks, facts))
        or (_stays_queued(tasks, facts) and any(task.has_unreadable_limits for task in tasks))
    )


def _stays_queued(tasks: tuple[BlockedTask, ...], facts: DeviceFacts) -> bool:
    """Whether data hardly reach an idle disk while tasks of one unit alone wait for them.

    Unwritten data are counted for the host: while another disk works they may be for that one.
    """
    units = {task.unit for task in tasks}
    has_unit = len(units) == 1 and units != {""}
    is_idle = facts.is_idle and not facts.is_another_used
    return is_idle and has_unit and _is_queued(facts) and _waits_for_writing(tasks)


def limits_of(tasks: Iterable[BlockedTask], facts: DeviceFacts) -> tuple[GroupLimit, ...]:
    """Return the limits of control groups that make these tasks wait for a device, each once.

    One that the group is not at is not the reason, nor is one for another device; a target of
    io.latency only for programs that the kernel delays for one. The innermost come first.
    """
    tasks = tuple(tasks)
    limits = [limit for task in tasks for limit in task.limits if _delays(limit, task, facts)]
    if not limits and _stays_queued(tasks, facts):
        # In the first seconds a group may have passed nothing on: a request may take as long.
        limits = [limit for task in tasks for limit in task.limits if _is_of_writes(limit, facts)]
    if not limits and not facts.is_busy and _any_in(tasks, _JOURNAL):
        limits = [limit for limit in facts.write_limits if limit.device in facts.rates]
    return tuple(dict.fromkeys(limits))[:MAX_LIMITS]


def reached_write_limits(tasks: Iterable[BlockedTask]) -> tuple[GroupLimit, ...]:
    """Return the limits of writes that the groups of these tasks are at, each once."""
    return tuple(
        dict.fromkeys(
            limit
            for task in tasks
            for limit in task.limits
            if limit.device and any(name[0] == "w" for name in limit.reached or ())
        )
    )


def _is_of_writes(limit: GroupLimit, facts: DeviceFacts) -> bool:
    is_rate = bool(limit.device) and not limit.file.endswith(LATENCY)
    return is_rate and limit.device in facts.rates and any(n[0] == "w" for n in limit.rates)


def _delays(limit: GroupLimit, task: BlockedTask, facts: DeviceFacts) -> bool:
    """Whether a limit is why a task waits: one of reads delays no commit."""
    if not limit.device:
        if _may_swap_for(limit, task, facts) or (limit.reached and waits_in(task, _OWN_RECLAIM)):
            return True
        is_at_limit = limit.reached is None or bool(limit.reached)
        # Who waits above memory.high is below the hard limit.
        is_hard = limit.file.endswith((MEMORY_MAX, SWAP_MAX))
        return is_at_limit and not is_hard and _any_in((task,), _AT_MEMORY_LIMIT)
    if limit.device not in facts.rates:
        return False
    if limit.file.endswith(LATENCY):
        return is_delayed_for_latency(task)
    letters = "w" if _waits_for_writing((task,)) else "r" if _any_in((task,), _READS) else "rw"
    names = {name for name in limit.rates if name[0] in letters}
    if limit.reached is not None:
        return not names.isdisjoint(limit.reached)
    # Its group cannot have done more than the device did for all.
    done, permitted = facts.rates[limit.device], limit.rates
    return not facts.is_busy and any(
        done.get(name, 0.0) >= AT_LIMIT_RATIO * permitted[name] for name in names
    )


def _is_short_of_memory(tasks: tuple[BlockedTask, ...], facts: DeviceFacts) -> bool:
    """Whether tasks wait because their control group may have no more memory.

    If one of them frees pages of the host, that is short of it; and if not all free pages, others
    may wait for what is written meanwhile.
    """
    if _any_in(tasks, _AT_MEMORY_LIMIT):
        return True
    frees = bool(tasks) and all(waits_in(task, _OWN_RECLAIM) for task in tasks)
    swaps = any(_swaps_for_limit(task, facts) for task in tasks)
    return frees or (swaps and not _any_in(tasks, _HOST_RECLAIM))


def _swaps_for_limit(task: BlockedTask, facts: DeviceFacts) -> bool:
    return any(_may_swap_for(limit, task, facts) for limit in task.limits)


def _may_swap_for(limit: GroupLimit, task: BlockedTask, facts: DeviceFacts) -> bool:
    """Whether a program in a page fault waits because its group is at a limit of memory.

    A group that reads files is at its limit all the time, and no program waits for that: the stack
    shows that it is swapped memory, or, where it is not known, that it is all the time.
    """
    swaps = is_fault(task) and (facts.is_swap_storm or waits_in(task, _SWAP))
    swaps &= not waits_in(task, _HOST_RECLAIM)
    return swaps and facts.has_memory_left and not limit.device and bool(limit.reached)


def is_delayed_for_latency(task: BlockedTask) -> bool:
    """Whether the kernel delays a program, because another group is above its io.latency."""
    return _any_in((task,), _LATENCY)


def is_fault(task: BlockedTask) -> bool:
    """Whether a program waits in a page fault."""
    return not task.kernel and task.system_call.startswith("-1 ")


def waits_for_swap(task: BlockedTask) -> bool:
    """Whether a program in a page fault waits for swapped memory, and not for a file mapped by it.

    Without a stack it may.
    """
    return waits_in(task, _SWAP) or not (task.stack or waits_in(task, _READS))


def _is_backlog(tasks: tuple[BlockedTask, ...], facts: DeviceFacts) -> bool:
    """Whether the queued data take long to write, and a program waits for writing.

    An idle disk is not what they wait for.
    """
    writing = tuple(task for task in tasks if not waits_in(task, _JOURNAL_SPACE))
    return not facts.is_idle and _is_queued(facts) and _waits_for_writing(writing)


def _is_queued_elsewhere(tasks: tuple[BlockedTask, ...], facts: DeviceFacts) -> bool:
    """Whether programs are paused at the dirty limit for what is queued for a disk that hangs.

    Their own disk would be busy if it were theirs.
    """
    paused = any(writeback_channel(task) == "balance_dirty_pages" for task in tasks)
    return bool(facts.hanging_elsewhere) and not facts.is_busy and paused and _is_queued(facts)


def _is_queued(facts: DeviceFacts) -> bool:
    speed = facts.write_bytes_per_second or 0.0
    pausing = MIN_BACKLOG_BYTES if facts.pausing_bytes is None else facts.pausing_bytes
    return facts.queued_bytes >= max(min(MIN_BACKLOG_BYTES, pausing), BACKLOG_SECONDS * speed)


def _waits_for_writing(tasks: tuple[BlockedTask, ...]) -> bool:
    return _any_in(tasks, _WRITE_BACK) or _any_in(tasks, _JOURNAL)


def waits_for_pool(task: BlockedTask) -> bool:
    """Whether a task waits until a ZFS pool has written."""
    return waits_in(task, _POOL)


def _any_in(tasks: tuple[BlockedTask, ...], prefixes: tuple[str, ...]) -> bool:
    return any(waits_in(task, prefixes) for task in tasks)
