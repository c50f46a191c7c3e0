"""Why programs are blocked: each cause by its facts, the deepest first, and who is the load."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.machine import disk, topology

from iowarden.collectors.block.diskstats import BlockIo
from iowarden.collectors.block.scsi import ScsiDevice, ScsiHost, ScsiTopology
from iowarden.collectors.procfs.process_io import ProcessIo, Sweep, ThreadIo
from iowarden.collectors.procfs.tasks import BlockedTask
from iowarden.rules.signals.device.multipath import unreachable
from iowarden.rules.signals.storage_call import Purpose
from iowarden.rules.signals.waits import load, uncounted
from iowarden.rules.signals.waits.freeze_cause import (
    DeviceFacts,
    FreezeCause,
    deeper,
    freeze_cause,
)
from iowarden.rules.signals.waits.harm import causes, harm
from iowarden.rules.signals.waits.load import Moved, SweepMoment
from iowarden.rules.signals.waits.waits import Wait

if TYPE_CHECKING:
    from iowarden.collectors.block.block_devices import Topology

MIB = 1 << 20
CREATE = ("add_transaction_credits", "start_this_handle", "__ext4_new_inode", "ext4_create")
COMMIT = ("jbd2_log_wait_commit", "ext4_sync_file", "do_fsync", "__x64_sys_fsync")
SHARE = ("io_schedule", "ioc_rqos_throttle", "__rq_qos_throttle")
READ = ("folio_wait_bit_common", "filemap_get_pages", "vfs_read", "__x64_sys_pread64")
SYNC = ("folio_wait_bit_common", "folio_wait_writeback", "file_write_and_wait_range", "do_fsync")


def task(*stack: str, **changes: object) -> BlockedTask:
    """Return a task in this stack."""
    values: dict[str, object] = {"read_bytes": 0, "write_bytes": 0, **changes}
    return BlockedTask(812, 4000, "postgres", stack[0], stack, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sentence", "stacks", "facts", "expected"),
    [
        ("3 GB queued, a commit waits", [COMMIT], {"queued_bytes": 3e9}, "backlog"),
        ("the same on a disk of 2 MB/s: 64 MiB are 33 s", [SYNC], {"queued_bytes": 7e7}, "backlog"),
        (
            "1 GB on an array that writes 2 GB/s: half a second",
            [COMMIT],
            {"queued_bytes": 1e9, "write_bytes_per_second": 2e9},
            "journal",
        ),
        (
            "dirty_bytes is 64 MiB: writers are paused at 57, which take 4 s to write",
            [SYNC],
            {"queued_bytes": 6e7, "pausing_bytes": 5e7, "write_bytes_per_second": 1.4e7},
            "backlog",
        ),
        (
            "the same on a disk that writes them in half a second",
            [SYNC],
            {"queued_bytes": 6e7, "pausing_bytes": 5e7, "write_bytes_per_second": 1.2e8},
            "unknown",
        ),
        (
            "the journal of ext4 has no space left: metadata are written, one by one",
            [("bit_wait_io", "jbd2_log_do_checkpoint", "__jbd2_log_wait_for_space", *CREATE)],
            {"queued_bytes": 3e9},
            "journal",
        ),
        (
            "the log of XFS as well, and 3 GB are queued",
            [("xlog_grant_head_wait", "xfs_log_reserve")],
            {"queued_bytes": 3e9},
            "journal",
        ),
        (
            "space in the journal, and another commits behind 3 GB",
            [("mutex_lock_io", "__jbd2_log_wait_for_space", *CREATE), SYNC],
            {"queued_bytes": 3e9},
            "backlog",
        ),
        ("a reader behind 3 GB of another's", [READ], {"queued_bytes": 3e9}, "unknown"),
        ("a commit, and nothing is queued", [COMMIT], {}, "journal"),
        ("a commit, and its disk has nothing to do", [COMMIT], {"is_untouched": True}, "unknown"),
        ("the log of XFS is full", [("xlog_grant_head_wait", "xfs_log_reserve")], {}, "journal"),
        (
            "a transaction group of ZFS",
            [("cv_wait_common", "txg_wait_synced_impl")],
            {},
            "pool sync",
        ),
        (
            "a read from a pool that has been writing a transaction group for long",
            [("cv_wait_common", "zio_wait", "arc_read", "zfs_read")],
            {"is_pool_syncing": True},
            "pool sync",
        ),
        (
            "ZFS, next to an ext4 with 3 GB queued",
            [("cv_wait_common", "dmu_tx_wait", "zfs_write")],
            {"queued_bytes": 3e9},
            "pool sync",
        ),
        (
            "a disk of the pool completes nothing",
            [("cv_wait_common", "txg_wait_synced_impl")],
            {"is_pool_syncing": True, "hanging": ("sdb",)},
            "hang",
        ),
        (
            "a frozen file system",
            [("percpu_rwsem_wait", "__percpu_down_read", "vfs_write")],
            {},
            "frozen",
        ),
        (
            "another group's tasks are moved, and forks wait for that",
            [("percpu_rwsem_wait", "__percpu_down_read", "copy_process", "kernel_clone")],
            {},
            "lock",
        ),
        ("a suspended device", [READ], {"is_suspended": True}, "suspended"),
        (
            "dmsetup suspend freezes the file system as well",
            [("percpu_rwsem_wait", "vfs_write")],
            {"is_suspended": True},
            "suspended",
        ),
        ("one of several suspended devices", [READ], {"may_be_suspended": True}, "suspended"),
        (
            "a disk that completes nothing",
            [COMMIT],
            {"hanging": ("sda",), "slow": ("sda",)},
            "hang",
        ),
        ("a slow disk with a backlog", [COMMIT], {"slow": ("sda",), "queued_bytes": 3e9}, "slow"),
        (
            "a log is deleted while 3 GB are written to it",
            [("inode_wait_for_writeback", "evict", "do_unlinkat")],
            {"queued_bytes": 3e9},
            "backlog",
        ),
        ("its adapter's queue is full", [READ], {"starved": ("sdb",)}, "neighbour"),
        (
            "a LUN whose session failed completes nothing",
            [READ],
            {"unreachable": ("sdb",), "hanging": ("sdb",)},
            "connection",
        ),
        ("an array is checked", [READ], {"synchronizing": ("md5",)}, "synchronizing"),
        ("a commit during a rebuild", [COMMIT], {"synchronizing": ("md5",)}, "synchronizing"),
        (
            "a rebuild beside 3 GB of unwritten data",
            [SYNC],
            {"synchronizing": ("md5",), "queued_bytes": 3e9},
            "backlog",
        ),
        (
            "3 GB queued for an idle disk, and nobody knows by whom it is held back",
            [SYNC],
            {"is_idle": True, "queued_bytes": 3e9},
            "unknown",
        ),
        ("io.cost permits less than the disk can do", [SHARE], {}, "own limit"),
        ("a group waits for its share of a busy disk", [SHARE], {"is_busy": True}, "unknown"),
        (
            "a group waits for its share of a disk with 3 GB queued",
            [(*SHARE, *SYNC)],
            {"is_busy": True, "queued_bytes": 3e9},
            "backlog",
        ),
        (
            "io.latency of another group",
            [("io_schedule", "rq_qos_wait", "__blkcg_iolatency_throttle")],
            {"is_busy": True},
            "own limit",
        ),
        ("an NFS server", [("rpc_wait_bit_killable", "nfs4_proc_getattr")], {}, "server"),
        (
            "an NFS server that answers others meanwhile",
            [("rpc_wait_bit_killable", "nfs4_proc_getattr")],
            {"is_answering": True},
            "slow server",
        ),
        ("a Ceph server", [("ceph_mdsc_wait_request", "ceph_open")], {}, "server"),
        ("a server, and one waits for a disk", [("rpc_wait_bit_killable",), READ], {}, "unknown"),
        ("all wait for a lock", [("rwsem_down_write_slowpath", "path_openat")], {}, "lock"),
        (
            "and its holder waits for the disk",
            [("rwsem_down_write_slowpath", "path_openat"), READ],
            {},
            "unknown",
        ),
        ("an idle disk, nothing queued", [READ], {}, "unknown"),
    ],
)
def test_the_deepest_cause_that_the_facts_show(
    sentence: str, stacks: list[tuple[str, ...]], facts: dict[str, object], expected: str
) -> None:
    """Each row: who waits in which stacks, and what is known of the device."""
    tasks = [task(*stack) for stack in stacks]
    found = freeze_cause(tasks, DeviceFacts(**facts))  # type: ignore[arg-type]
    assert found == expected, sentence


@pytest.mark.parametrize(
    ("sentence", "caller", "expected"),
    [
        ("a write", ("vfs_write", "ksys_write"), "frozen"),
        ("a write of several parts", ("do_iter_readv_writev", "vfs_writev"), "frozen"),
        ("an asynchronous write", ("aio_write", "io_submit_one"), "frozen"),
        ("a worker of io_uring", ("io_write", "io_issue_sqe"), "frozen"),
        ("a file that is made", ("mnt_want_write", "path_openat"), "frozen"),
        ("a page of a mapped file", ("ext4_page_mkwrite", "do_page_mkwrite"), "frozen"),
        ("the same of XFS", ("__xfs_filemap_fault", "do_page_mkwrite"), "frozen"),
        ("a transaction of XFS", ("xfs_trans_alloc", "xfs_inactive"), "frozen"),
        ("a deleted file of ext4", ("ext4_evict_inode", "evict"), "frozen"),
        ("a transaction of btrfs", ("start_transaction", "btrfs_evict_inode"), "frozen"),
        ("a fork while tasks change their group", ("copy_process", "kernel_clone"), "lock"),
        ("an exit meanwhile", ("exit_signals", "do_exit"), "lock"),
        ("who moves them", ("percpu_down_write", "cgroup_attach_lock"), "lock"),
        ("a processor that comes or goes", ("cpus_read_lock", "smpboot_thread_fn"), "lock"),
        ("memory that comes or goes", ("get_online_mems", "kmem_cache_create"), "lock"),
        ("a lock of a file", ("flock_lock_inode", "__do_sys_flock"), "lock"),
        ("ext4 changes how a file is journaled", ("ext4_writepages", "do_writepages"), "lock"),
    ],
)
def test_who_waits_for_write_access_waits_for_a_thaw_and_others_for_a_lock(
    sentence: str, caller: tuple[str, ...], expected: str
) -> None:
    """All wait in one function; some kernels show the one between, and 5.10 a third."""
    for between in ((), ("__percpu_down_read",)):
        waiting = task("percpu_rwsem_wait", *between, *caller)
        assert freeze_cause([waiting], DeviceFacts()) == expected, sentence
    old = task("percpu_rwsem_wait", "__percpu_down_read", "__sb_start_write", *caller)
    assert freeze_cause([old], DeviceFacts()) == "frozen"


def test_of_a_wait_channel_alone_it_is_not_known_whose_lock_it_is() -> None:
    """Unless another task shows that the file system is frozen."""
    alone = replace(task("percpu_rwsem_wait"), stack=())
    assert freeze_cause([alone], DeviceFacts()) == "lock"
    other = task("percpu_rwsem_wait", "mnt_want_write", "path_openat")
    assert freeze_cause([alone, other], DeviceFacts()) == "frozen"


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        (("web.service", "web.service"), "own limit"),
        (("web.service", "db.service"), "unknown"),
        (("", ""), "unknown"),
    ],
)
def test_data_of_one_unit_that_hardly_reach_an_idle_disk_are_held_back_by_its_limit(
    units: tuple[str, ...], expected: str
) -> None:
    """200 MiB queued, 4 MiB/s written, nothing in flight, and a file of limits cannot be read.

    Of several units it is not known, nor while another disk works.
    """
    facts = DeviceFacts(is_idle=True, queued_bytes=2e8, write_bytes_per_second=4e6)
    tasks = [task(*SYNC, unit=unit, has_unreadable_limits=True) for unit in units]
    assert freeze_cause(tasks, facts) == expected
    assert freeze_cause(tasks, replace(facts, is_another_used=True)) == "unknown"
    read = [replace(one, has_unreadable_limits=False) for one in tasks]
    assert freeze_cause(read, facts) == "unknown"


@pytest.mark.parametrize(
    ("before", "newest", "expected"),
    [
        (None, "unknown", "unknown"),
        ("backlog", "journal", "backlog"),
        ("suspended", "unknown", "suspended"),
        ("journal", "unknown", "journal"),
        ("journal", "lock", "lock"),
        ("unknown", "lock", "lock"),
        ("backlog", "hang", "hang"),
        ("hang", "backlog", "backlog"),
    ],
)
def test_where_programs_wait_does_not_replace_why_while_a_freeze_goes_on(
    before: str | None, newest: str, expected: str
) -> None:
    """A reason replaces another one; a place only what was not known, or another place."""
    known = None if before is None else FreezeCause(before)
    assert deeper(known, FreezeCause(newest)) == expected


def fabric(states: dict[str, str], *, is_fabric: bool = True) -> ScsiTopology:
    """Return disks of an adapter in these states."""
    devices = {
        f"7:0:0:{number}": ScsiDevice(
            f"7:0:0:{number}", "host7", name, 0, state, 32, 30.0, None, None, None, None
        )
        for number, (name, state) in enumerate(states.items())
    }
    hosts = {"host7": ScsiHost("host7", "iscsi_tcp", 113, 32, None, fabric=is_fabric)}
    return ScsiTopology(hosts, devices, None)


def mapped() -> Topology:
    """Return a multipath map of sdb and sdc, and a LUN beside it."""
    paths = [disk("sdb", holders=("dm-0",)), disk("sdc", holders=("dm-0",))]
    upper = replace(disk("dm-0", slaves=("sdb", "sdc"), leaf=False), dm_uuid="mpath-3600")
    return topology(*paths, upper, disk("sdd"))


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({"sdb": "blocked", "sdc": "running", "sdd": "running"}, ()),
        ({"sdb": "blocked", "sdc": "transport-offline", "sdd": "running"}, ("sdb", "sdc")),
        ({"sdb": "running", "sdc": "running", "sdd": "blocked"}, ("sdd",)),
        ({"sdb": "running", "sdc": "running", "sdd": "running"}, ()),
    ],
)
def test_a_disk_is_unreachable_where_the_fabric_has_no_path_to_it(
    states: dict[str, str], expected: tuple[str, ...]
) -> None:
    """One path of a map that is left serves it; a disk without a map has only itself."""
    assert unreachable(states, mapped(), fabric(states)) == expected


def test_a_local_disk_that_its_driver_blocks_is_no_lost_connection() -> None:
    """mpt3sas blocks a disk for seconds while its link is reset."""
    states = {"sdd": "blocked"}
    assert unreachable(states, mapped(), fabric(states, is_fabric=False)) == ()


def test_nfsd_waits_for_a_disk_and_for_no_server() -> None:
    """Its functions have 'nfs' in front as well: this host is the server."""
    stack = ("jbd2_log_wait_commit", "ext4_sync_file", "nfsd_commit", "nfsd4_commit", "nfsd")
    assert freeze_cause([task(*stack, kernel=True)], DeviceFacts()) is FreezeCause.JOURNAL


def block(read: int = 0, written: int = 0) -> BlockIo:
    """Return the counters of a disk, in bytes."""
    return BlockIo("sda", 8, 0, (9, 0, read // 512, 0, 9, 0, written // 512, 0, 0, 0, 0))


def moment(seconds: float, *processes: ProcessIo, written: int = 0) -> SweepMoment:
    """Return a sweep."""
    return SweepMoment(Sweep(seconds, processes), Moved(seconds, {"sda": block(written=written)}))


def process(pid: int, name: str, written: int, *, start: float = 1.0, parent: int = 1) -> ProcessIo:
    """Return a process that has written so many MiB since its start, a second of the uptime."""
    return ProcessIo(pid, int(start * 100), parent, name, f"{name}.service", 0, written * MIB, 0)


def named(*sweeps: SweepMoment) -> list[tuple[str, int]]:
    """Return the causes that sweeps show, with the MiB that each wrote."""
    found = causes(load.load(sweeps, {"sda"}))
    return [(cause.command, cause.moved_bytes // MIB) for cause in found]


def test_a_writer_of_a_second_that_has_ended_is_named() -> None:
    """tar writes 800 MB and ends; the first sweep saw it, the next ones do not."""
    tar = process(700, "tar", 800, start=999.0, parent=500)
    shell = process(500, "bash", 3)
    heir = process(500, "bash", 803)  # the kernel adds what its child did
    sweeps = (
        moment(1000.0, shell, tar),
        moment(1005.0, heir, written=200 * MIB),
        moment(1010.0, heir, written=400 * MIB),
    )
    assert named(*sweeps) == [("tar", 800)]


def test_a_writer_that_began_just_before_the_first_sweep_counts_with_all_it_wrote() -> None:
    """A burst of 700 MB before it, and a wait in fsync without a byte since."""
    burst = process(700, "cp", 700, start=995.0)
    assert named(moment(1000.0, burst), moment(1010.0, burst, written=200 * MIB)) == [("cp", 700)]


def test_a_database_that_wrote_much_in_a_year_is_no_cause_by_that() -> None:
    """900 GB since its start, and nothing between the sweeps."""
    old = process(700, "postgres", 900_000)
    assert named(moment(1000.0, old), moment(1010.0, old, written=200 * MIB)) == []


def test_the_first_of_the_sweeps_stays_while_those_of_a_wait_follow_each_other() -> None:
    """15 s apart, then 5 s apart when somebody waits: 30 s stay covered."""
    sweeps: tuple[SweepMoment, ...] = ()
    covered = []
    for seconds in (0, 15, 30, 35, 40, 45, 60, 75, 90):
        sweeps = load.next_sweeps(sweeps, moment(float(seconds)))
        covered.append(seconds - sweeps[0].moved.at_seconds)
    assert covered[:3] == [0, 15, 30]
    assert min(covered[2:]) >= 30
    assert len(sweeps) == 3


def test_who_filled_the_queue_is_its_owner_until_it_has_been_written_out() -> None:
    """dd writes 6000 MiB within a minute, then waits for them, 100 MiB/s, and writes nothing."""
    sweeps: tuple[SweepMoment, ...] = ()
    written = 0
    for seconds in range(1000, 1121, 15):
        written = min((seconds - 1000) * 100, 6000)
        completed = (seconds - 1000) * 50
        moved = Moved(float(seconds), {"sda": block(written=completed * MIB)})
        newest = SweepMoment(Sweep(float(seconds), (process(700, "dd", written),)), moved)
        sweeps = load.next_sweeps(sweeps, newest, (written - completed) * MIB)
        if 1030 <= seconds < 1120:
            assert [name for name, _ in named(*sweeps)] == ["dd"], seconds
    for seconds in (1135, 1150, 1165):
        sweeps = load.next_sweeps(
            sweeps, moment(float(seconds), process(700, "dd", written), written=9000 * MIB)
        )
    assert named(*sweeps) == []


def test_the_load_of_a_long_wait_is_measured_from_before_it_though_nobody_is_harmed() -> None:
    """An fsync of two minutes that its own bytes explain opens no freeze."""
    sweeps: tuple[SweepMoment, ...] = ()
    earlier: SweepMoment | None = None
    for seconds in range(1000, 1135, 15):
        sweeps = load.next_sweeps(sweeps, moment(float(seconds)))
        earlier = load.before_wait(sweeps, earlier, 1005.0, goes_on=False)
        assert earlier is not None
        assert earlier.moved.at_seconds == 1000.0


@pytest.mark.parametrize(
    ("sentence", "queued", "written", "paused", "expected"),
    [
        ("1 MiB of a logger, on whatever disk", 4, 1, False, []),
        ("40 MiB of 64 MiB queued", 64, 40, False, ["tar"]),
        ("6 MiB of 4 MiB queued", 4, 6, False, []),
        ("paused for what it writes", 4, 0, True, ["tar"]),
    ],
)
def test_without_sweeps_a_few_bytes_since_its_start_accuse_nobody(
    sentence: str, queued: int, written: int, *, paused: bool, expected: list[str]
) -> None:
    """Bytes in MiB, of a process that began 100 s ago; its unit is named as little as itself."""
    one = replace(task(*READ), command="tar", write_bytes=written * MIB, start_ticks=90_000)
    waiting = [Wait(one, Purpose.STORAGE, 990.0, 1000.0, 990.0)]
    probable = load.probable_load(
        waiting,
        (),
        queued_bytes=queued * MIB,
        paused={one.pid} if paused else set(),
        uptime_seconds=1000.0,
    )
    assert [cause.command for cause in causes(probable)] == expected, sentence
    assert harm(waiting, probable, 0.0, 0.0).units == ()


@pytest.mark.parametrize(
    ("sentence", "queued", "mostly_reads", "paused", "expected"),
    [
        ("it writes as well", 11, False, False, ["etcd"]),
        ("a volume at its cap, filled by a reader", 11, True, False, []),
        ("1 GiB is queued behind a reader", 1024, True, False, ["etcd"]),
        ("paused for what it writes", 11, True, True, ["etcd"]),
    ],
)
def test_who_wrote_50_mib_is_not_the_load_of_a_disk_that_mostly_reads(
    sentence: str, queued: int, *, mostly_reads: bool, paused: bool, expected: list[str]
) -> None:
    """What a program read since its start is not what fills the volume now: not known."""
    wrote = 50 if queued < 64 else 400
    one = replace(task(*READ), command="etcd", write_bytes=wrote * MIB, start_ticks=90_000)
    probable = load.probable_load(
        [Wait(one, Purpose.STORAGE, 990.0, 1000.0, 990.0)],
        (),
        queued_bytes=queued * MIB,
        paused={one.pid} if paused else set(),
        uptime_seconds=1000.0,
        mostly_reads=mostly_reads,
    )
    assert [cause.command for cause in causes(probable)] == expected, sentence


@pytest.mark.parametrize(
    ("sentence", "own", "all_of_it", "threads"),
    [
        ("the checkpoint thread wrote 500 MiB, and waits", 500, 500, {2001}),
        ("another thread wrote it, which does not wait", 2, 500, None),
        ("its process wrote 30 MiB of 800 queued", 30, 30, set()),
    ],
)
def test_of_a_single_sweep_and_who_waits_follows_which_thread_wrote(
    sentence: str, own: int, all_of_it: int, threads: set[int] | None
) -> None:
    """mongod was started a month ago and wrote 300 GiB; the burst began before the only sweep."""
    start, before = 0, 300 * 1024 * MIB
    swept = ProcessIo(2000, start, 1, "mongod", "mongod.service", 0, before, 0)
    sweep = Sweep(2.6e6, (swept,), (), (ThreadIo(2000, 2001, before), ThreadIo(2000, 2002, 0)))
    waiting = [
        Wait(
            replace(
                task(*READ),
                pid=pid,
                process=2000,
                start_ticks=start,
                command=command,
                write_bytes=before + all_of_it * MIB,
                counters=(0, 0, 0, 0, 0, written),
            ),
            Purpose.STORAGE,
            990.0,
            1000.0,
            990.0,
        )
        for pid, command, written in (
            (2001, "WTCheck.tThread", before + own * MIB),
            (2002, "conn12", 0),
        )
    ]
    probable = load.probable_load(
        waiting,
        (SweepMoment(sweep, Moved(989.0, {})),),
        queued_bytes=800 * MIB,
        paused=(),
        uptime_seconds=2.6e6 + 12,
    )
    accused = [(cause.command, cause.threads) for cause in causes(probable)]
    assert accused == ([("mongod", threads)] if threads != set() else []), sentence


def test_the_load_of_a_wait_is_measured_from_before_it_as_long_as_it_goes_on() -> None:
    """tar fills the queue and ends; each 15 s a sweep follows, for two minutes."""
    tar, other = process(700, "tar", 800, start=999.0), process(1, "init", 0)
    sweeps: tuple[SweepMoment, ...] = ()
    earlier: SweepMoment | None = None
    for seconds in range(1000, 1135, 15):
        alive = (other, tar) if seconds == 1000 else (other,)
        newest = moment(float(seconds), *alive, written=(seconds - 1000) * 6 * MIB)
        sweeps = load.next_sweeps(sweeps, newest)
        goes_on = seconds > 1010
        earlier = load.before_wait(sweeps, earlier, 1005.0, goes_on=goes_on)
        assert named(*load.since_before(sweeps, earlier)) == [("tar", 800)]
    assert named(*sweeps) == []
    assert load.before_wait(sweeps, earlier, 1130.0, goes_on=False) == sweeps[0]
    assert load.before_wait(sweeps, earlier, 1130.0, goes_on=True) == sweeps[0]


def test_what_devices_moved_is_remembered_for_three_minutes_and_thinly() -> None:
    """Each 2 s of the last half minute, then each 10 s: a long wait costs little memory."""
    moved: tuple[Moved, ...] = ()
    for second in range(600):
        moved = load.next_moved(load.recent_moved(moved, float(second)), {}, float(second))
    ages = [599 - int(one.at_seconds) for one in moved]
    assert ages[0] in range(170, 182)
    assert len(ages) <= 32
    assert sum(age <= 30 for age in ages) >= 15


@pytest.mark.parametrize(
    ("sentence", "active", "waiting", "since"),
    [
        ("a writer of a frozen file system", [0, 0, 1, 1], 1.0, 7.5),
        ("three of them", [0, 3, 3], 3.0, 2.5),
        ("one that ran at a single tick", [0, 0, 1, 0], 0.0, None),
        ("one that waits since before the start", [1, 1, 1], 1.0, 2.5),
    ],
)
def test_the_load_average_shows_who_waits_and_since_when(
    sentence: str, active: list[int], waiting: float, since: float | None
) -> None:
    """Read each 5 s; the date is the middle between the last change without it and the first."""
    changes, load1 = uncounted.NO_CHANGES, float(active[0])
    for number, tasks in enumerate(active):
        load1 = load1 * 0.92 + tasks * 0.08
        changes = uncounted.next_changes(changes, round(load1, 2), 1, 5.0 * number)
    assert changes.waiting_tasks == pytest.approx(waiting, abs=0.2), sentence
    assert changes.since_seconds == since


def test_an_average_that_was_read_early_and_has_not_changed_is_no_change() -> None:
    """Each second between two changes: the formula would give the average itself."""
    changes = uncounted.next_changes(uncounted.NO_CHANGES, 0.5, 1, 0.0)
    changes = uncounted.next_changes(changes, 0.54, 1, 5.0)
    for second in (6.0, 7.0, 8.0, 9.0):
        assert uncounted.next_changes(changes, 0.54, 1, second) is changes
    assert uncounted.next_changes(changes, 0.58, 1, 9.0).since_seconds == 1.5
