"""Whether a blocked task waits for storage, by the kernel functions in its stack. Pure.

Uninterruptible sleep has other reasons: a parent of vfork, a frozen container, a graphics driver.
Calls that wait for the whole host by purpose (sync, umount, fsfreeze) are no harm either; they
show how long writing everything takes. Source of each name: the file of the kernel next to it.
"""

from __future__ import annotations

import enum
import functools
import re
from typing import TYPE_CHECKING

from iowarden.rules.signals.guards import is_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iowarden.collectors.procfs.tasks import BlockedTask


MAX_STACKS = 128
"""Tasks wait in few different stacks: what these show is remembered."""


class Purpose(enum.Enum):
    """What a blocked task waits for."""

    STORAGE = "storage"
    WHOLE_WRITE_OUT = "whole write-out"
    """sync, syncfs, umount, fsfreeze, remount: they wait for what others wrote, by purpose."""
    OWN_COMMAND = "own command"
    """A command that the program sent to a drive itself takes as long as it takes."""
    ELSEWHERE = "elsewhere"
    NOT_KNOWN = "not known"
    """Neither its stack nor its wait channel could be read, and it its call has no file."""


_ELSEWHERE = (
    "vfork_done",  # kernel/fork.c, 6.1: wait_for_vfork_done
    "wait_for_vfork_done",
    "__refrigerator",  # kernel/freezer.c
    "refrigerator",  # before 3.3; before 2.6.25 kernel/power/process.c
    "cgroup_enter_frozen",  # kernel/cgroup/freezer.c
    "cgroup_leave_frozen",
    "coredump_wait",  # fs/coredump.c
    "do_coredump",
    "vfs_coredump",
    "coredump_task_exit",
    "load_module",  # kernel/module/main.c
    "do_init_module",
    "__request_module",  # kernel/module/kmod.c
    "idempotent_init_module",
    "ptrace_stop",  # kernel/signal.c
    "ptrace_attach",
    "autofs_wait",  # fs/autofs/waitq.c
    "fanotify_",  # fs/notify/fanotify: a scanner for malware permits each open
    "st_do_scsi",  # drivers/scsi/st.c: a tape drive winds for minutes, for who asked it to
    "osst_do_scsi",  # drivers/scsi/osst.c, in older kernels
    "ch_do_scsi",  # drivers/scsi/ch.c: a changer moves a tape
    "drm_",  # drivers/gpu/drm
    "dma_fence_",  # drivers/dma-buf/dma-fence.c
    "amdgpu_",
    "i915_",
    "nouveau_",
    "nvidia_",  # out of tree, like the next
    "nv_",
)
"""A task with one of these anywhere in its stack is not about storage."""
_WHOLE_WRITE_OUT = (
    "ksys_sync",  # fs/sync.c
    "__do_sys_sync",
    "__x64_sys_sync",
    "__do_sys_syncfs",
    "__x64_sys_syncfs",
    "sync_filesystem",
    "path_umount",  # fs/namespace.c
    "do_umount",
    "cleanup_mnt",
    "deactivate_super",  # fs/super.c
    "generic_shutdown_super",
    "freeze_super",
    "reconfigure_super",
    "do_remount",
)
_STORAGE = (
    # block/, drivers/{scsi,ata,nvme,block}
    "blk_",
    "bio_",
    "submit_bio",
    "blkdev_",
    "bdev_",
    "rq_qos_",
    "wbt_",
    "io_schedule",  # kernel/sched/core.c
    "__bio_queue_enter",
    "elevator_",
    "scsi_",
    "sd_",
    "sr_",
    "ata_",
    "nvme_",
    "virtblk_",
    "loop_",
    "nbd_",
    "rbd_",
    "sync_blockdev",
    "disk_",
    "part_",
    # mm/, fs/: write-back, page cache, direct I/O
    "balance_dirty_pages",
    "wb_wait_",
    "writeback_",
    "sync_inode",
    "inode_wait_for_writeback",  # fs/fs-writeback.c: unlink of a file that is being written
    "__inode_wait_for_writeback",
    "__filemap_fdatawait",
    "filemap_fdatawait",
    "file_write_and_wait",
    "filemap_write_and_wait",
    "__filemap_fdatawrite",
    "folio_wait_",
    "wait_on_page",
    "__lock_page",
    "__folio_lock",
    "filemap_",
    "wait_on_buffer",
    "__wait_on_buffer",
    "__sync_dirty_buffer",
    "__bread",
    "iomap_",
    "dio_",
    "__blockdev_direct_IO",
    "do_blockdev_direct_IO",
    "inode_dio_wait",
    "wait_on_bit_io",
    "bit_wait_io",
    "vfs_fsync",
    "do_fsync",
    # swap and reclaim
    "swap_",
    "do_swap_page",
    "read_swap_cache",
    "shrink_",
    "try_to_free_",
    "throttle_direct_reclaim",
    "reclaim_throttle",
    "mem_cgroup_handle_over_high",  # mm/memcontrol.c, like the next: memory.high
    "__mem_cgroup_handle_over_high",
    "mem_cgroup_oom_synchronize",  # at the limit of a group in which the kernel must not kill
    "mem_cgroup_handle_oom",
    "blkcg_",  # block/blk-cgroup.c, blk-iolatency.c
    "__blkcg_",
    "ioc_rqos_",  # block/blk-iocost.c
    "congestion_wait",
    "wait_iff_congested",
    "blk_congestion_wait",  # 2.6.18, like the next
    "sync_page",
    "sync_buffer",
    "sync_dirty_buffer",
    "get_request_wait",
    "generic_make_request",
    # file systems
    "ext4_",
    "ext3_",
    "ext2_",
    "jbd2_",
    "journal_",
    "log_wait_commit",
    "start_this_handle",
    "do_get_write_access",
    "wait_transaction_locked",
    "add_transaction_credits",
    "xfs_",
    "xlog_",
    "btrfs_",
    "f2fs_",
    "bch2_",
    "gfs2_",
    "ocfs2_",
    "fat_",
    "exfat_",
    "ntfs_",
    "jfs_",
    "reiserfs_",
    "nilfs_",
    "udf_",
    "isofs_",
    "squashfs_",
    "erofs_",
    "ovl_",
    "fuse_",
    "nfs",
    "rpc_",
    "xprt_",
    "cifs_",
    "smb2_",
    "ceph_",
    "v9fs_",
    "p9_",
    # md, device-mapper, caches
    "md_",
    "raid1_",
    "raid10_",
    "raid5_",
    "raid456_",
    "make_stripe",
    "wait_barrier",
    "dm_",
    "__dm_",
    "thin_",
    "multipath_",
    "crypt_",
    "bch_",
    "cached_dev_",
    # ZFS: module/zfs, module/os/linux/spl
    "txg_wait_",
    "dmu_",
    "zil_",
    "zio_",
    "arc_",
    "zfs_",
    "zpl_",
    "zvol_",
    "spa_",
    "dbuf_",
    "cv_wait_common",
    "__cv_wait",
    "__cv_timedwait",
)
"""Prefixes of functions of the block layer, write-back, file systems, swap, md, dm, NFS and ZFS."""
_SERVER = re.compile(r"[^/].*:/|//[^/]+/")
"""What is mounted from a server: 'nas:/home', '//nas/share', '10.0.0.1:6789:/'."""
_NETWORK_FILE_SYSTEMS = ("rpc_", "nfs", "xprt_", "cifs_", "smb2_", "ceph_", "v9fs_", "p9_")
_USER_SPACE = ("fuse_", "__fuse_", "request_wait_answer")
"""A program has to answer; if it waits for a disk itself, it is seen to. Source: kernel,
fs/fuse/dev.c."""
_LOCKS = (
    *("rwsem_down_", "__rwsem_down", "call_rwsem_down_", "down_", "__down"),
    *("__mutex_lock", "mutex_lock"),
    "d_alloc_parallel",  # fs/dcache.c: another task looks the same name up
)
"""Source: kernel/locking/{rwsem,mutex,semaphore}.c; lib/rwsem.c, arch/x86/lib/rwsem.S before 5.1.
"""
_PERCPU_LOCKS = ("percpu_rwsem_wait", "__percpu_down_read", "percpu_down_")
"""Locks that a file system takes for each write, so that it can be frozen; and the kernel for each
fork, exit and exec, for its processors, its memory and all locks of files. Source: kernel,
kernel/locking/percpu-rwsem.c."""
_WRITE_ACCESS = ("__sb_start_write", "sb_start_", "mnt_want_write")
"""Functions in which a task waits for nothing but a thaw. Source: kernel, fs/super.c, from 5.11 on
include/linux/fs.h, where the compiler makes the first two a part of their callers; fs/namespace.c.
"""
_TAKES_WRITE_ACCESS = re.compile(
    # fs/read_write.c, splice.c, remap_range.c, open.c, aio.c; io_uring/rw.c
    r"vfs_(?:write|iter_write|iocb_iter_write|copy_file_range|clone_file_range|dedupe_file_range"
    r"|fallocate|splice)|do_(?:iter_write|iter_readv_writev|readv_writev|writev|sendfile|splice"
    r"|clone_file_range)|ksys_(?:write|pwrite)|do_sys_ftruncate|do_ftruncate|ksys_ftruncate"
    r"|aio_write|io_submit_one|__io_submit_one|io_write|io_kiocb_start_write"
    # fs/quota/quota.c; fs/overlayfs; fs/nfsd; drivers/block/loop.c
    r"|quotactl|do_quotactl|ovl_|backing_file_write|nfsd_|lo_"
    # Page faults: mm/filemap.c, fs/buffer.c, fs/*/file.c
    r"|\w+(?:page_mkwrite|pfn_mkwrite|_fault)$"
    # Changes that a file system makes itself (sb_start_intwrite)
    r"|xfs_|ext4_evict_inode|start_transaction$|btrfs_|gfs2_|__gfs2_|f2fs_|nilfs_|ocfs2_"
)
"""Callers of `_WRITE_ACCESS`, which is a part of them in most kernels. Not ext4_writepages, which
has another such lock."""
_PATHS = (
    # fs/namei.c, in the order of its functions: who calls another may have it inlined.
    "lock_rename",
    *("lookup_", "__lookup_", "walk_component", "link_path_walk", "path_lookupat"),
    *("open_last_lookups", "do_last", "path_openat", "do_filp_open", "do_tmpfile"),
    "filename_create",
    *("do_mknodat", "do_mkdirat", "do_rmdir", "do_unlinkat", "do_symlinkat", "do_linkat"),
    *("do_renameat2", "sys_rename", "real_lookup", "do_lookup"),
    "iterate_dir",  # fs/readdir.c
    *("do_truncate", "chmod_common", "chown_common"),  # fs/open.c
    "utimes_common",  # fs/utimes.c
    "vfs_",  # fs/{namei,readdir,xattr,utimes}.c: on behalf of a system call
)
"""Functions above all file systems that take the lock of a directory or file themselves. Its holder
opens, creates or deletes a file there, and waits for the disk; the stack of a task that waits for
the lock has no function of the file system.
"""


_MAPS = (
    # arch/*/mm/fault.c, mm/memory.c: a page fault, of 6.5 on through the second
    *("do_user_addr_fault", "lock_mm_and_find_vma", "__do_page_fault", "do_page_fault"),
    *("vm_mmap_pgoff", "__vm_munmap", "ksys_mmap_pgoff"),  # mm/{util,mmap}.c, like the next
    *("do_brk", "__do_sys_brk", "__x64_sys_brk", "__do_sys_mremap", "__x64_sys_mremap"),
    *("do_mprotect_pkey", "do_madvise", "__do_sys_madvise"),  # mm/{mprotect,madvise}.c
    *("__access_remote_vm", "access_remote_vm"),  # mm/memory.c: ps reads a command line
    "m_start",  # fs/proc/task_mmu.c: maps, smaps
)
"""Functions that take the lock of a process' memory map (mmap_lock, before 5.8 mmap_sem)."""
_OF_PROCESS = re.compile(r"/proc/([0-9]{1,10})/")


def purpose(task: BlockedTask) -> Purpose:
    """Return what a blocked task waits for.

    Where no function shows it, the file in its call decides: `waits_at` is a block device or the
    mount of a file system with one, or of a server.
    """
    if is_command(task):
        return Purpose.OWN_COMMAND
    return _purpose(task.wait_channel, task.stack, bool(task.waits_at))


@functools.lru_cache(maxsize=MAX_STACKS)
def _purpose(wait_channel: str, stack: tuple[str, ...], has_file: bool) -> Purpose:  # noqa: FBT001
    functions = tuple(_functions(wait_channel, stack))
    if _any_starts(functions, _ELSEWHERE):
        return Purpose.ELSEWHERE
    if _any_starts(functions, _WHOLE_WRITE_OUT):
        return Purpose.WHOLE_WRITE_OUT
    if _any_starts(functions, _STORAGE) or has_file or _is_path_locked(functions):
        return Purpose.STORAGE
    if _is_frozen(wait_channel, stack) or (not stack and wait_channel.startswith(_PERCPU_LOCKS)):
        return Purpose.STORAGE
    return Purpose.ELSEWHERE if functions else Purpose.NOT_KNOWN


def waits_for_lock(task: BlockedTask) -> bool:
    """Whether it waits for a lock that another task holds: the wait is that task's."""
    if waits_for_thaw(task):
        return False
    innermost = next(_functions(task.wait_channel, task.stack), "")
    is_locked = innermost.startswith((*_LOCKS, *_PERCPU_LOCKS))
    return is_locked or _any_starts(task.stack[:3], _LOCKS)


def waits_for_thaw(task: BlockedTask) -> bool:
    """Whether a task waits until its file system is no longer frozen, and for no disk.

    The wait channel alone does not show it: others wait in the same function, for other locks.
    """
    return _is_frozen(task.wait_channel, task.stack)


@functools.lru_cache(maxsize=MAX_STACKS)
def _is_frozen(wait_channel: str, stack: tuple[str, ...]) -> bool:
    functions = tuple(_functions(wait_channel, stack))
    if _any_starts(functions, _WRITE_ACCESS):
        return True
    if not functions or not functions[0].startswith(_PERCPU_LOCKS):
        return False
    taker = next((name for name in functions if not name.startswith(_PERCPU_LOCKS)), "")
    return _TAKES_WRITE_ACCESS.match(taker) is not None


def mapped_process(task: BlockedTask) -> int | None:
    """Return the process for whose memory map a task waits, None: it waits for another thing.

    A thread that holds the lock in a page fault reads from the disk meanwhile, and its other
    threads cannot fault, map or unmap; nor does 'ps' get any further, which reads its command line.
    """
    taker = _taker(tuple(_functions(task.wait_channel, task.stack)))
    if not taker.startswith(_MAPS):
        return None
    other = _OF_PROCESS.match(task.file)
    return int(other[1]) if other is not None else task.process or task.pid


def _is_path_locked(functions: tuple[str, ...]) -> bool:
    """Whether a task waits for the lock of a directory or file, whatever its file system.

    What takes another lock within the same call (kernfs, a driver) is innermost: none of these.
    """
    return _taker(functions).startswith(_PATHS)


def _taker(functions: tuple[str, ...]) -> str:
    """Return the function that takes the lock for which a task waits, '' if it waits for none."""
    taker = next((name for name in functions if not name.startswith(_LOCKS)), "")
    return "" if functions[:1] == (taker,) else taker


def waits_for_server(task: BlockedTask) -> bool:
    """Whether a network file system has to answer; nfsd and ksmbd are servers themselves."""
    return not task.kernel and waits_in(task, _NETWORK_FILE_SYSTEMS)


def is_server(name: str) -> bool:
    """Whether what a task waits at is mounted from a server."""
    return _SERVER.match(name) is not None


def may_wait_for_disk(task: BlockedTask) -> bool:
    """Whether a task may wait for a disk of this host, as far as its call and functions show it.

    Of a kernel thread that has to be seen: some are in uninterruptible sleep as long as they live.
    nfsd waits for the disks of this host.
    """
    if is_server(task.waits_at) or waits_in(task, _USER_SPACE):
        return False
    if waits_in(task, _NETWORK_FILE_SYSTEMS) and not waits_in(task, ("nfsd",)):
        return False
    found = purpose(task)
    is_seen = found in {Purpose.STORAGE, Purpose.WHOLE_WRITE_OUT}
    return is_seen or (found is Purpose.NOT_KNOWN and not task.kernel)


def waits_in(task: BlockedTask, prefixes: tuple[str, ...]) -> bool:
    """Whether a task waits in a function with one of these prefixes, or in one called by it."""
    return _is_in(task.wait_channel, task.stack, prefixes)


@functools.lru_cache(maxsize=4 * MAX_STACKS)
def _is_in(wait_channel: str, stack: tuple[str, ...], prefixes: tuple[str, ...]) -> bool:
    return _any_starts(_functions(wait_channel, stack), prefixes)


def _functions(wait_channel: str, stack: tuple[str, ...]) -> Iterator[str]:
    """Yield the kernel functions, innermost first, without the compiler's parts ('.isra.0')."""
    for function in (wait_channel, *stack):
        name = function.partition(".")[0]
        if name:
            yield name


def _any_starts(functions: Iterable[str], prefixes: tuple[str, ...]) -> bool:
    return any(function.startswith(prefixes) for function in functions)
