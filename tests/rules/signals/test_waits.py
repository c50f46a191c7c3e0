"""Waits for storage: the same call, what it is about, who is harmed, and freezes in a rhythm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iowarden.collectors.procfs.tasks import BlockedTask
from iowarden.rules.signals.storage_call import Purpose, purpose
from iowarden.rules.signals.waits import freezes, waits
from iowarden.rules.signals.waits.freezes import Level
from iowarden.rules.signals.waits.harm import Harm, Load, ProcessLoad, Victim, causes, harm
from iowarden.rules.signals.waits.same_call import Continuity, continuity

SP_PC = "0x7ffc1e30 0x7f0ac5b0"
FSYNC = f"74 0x5 0x0 0x0 0x0 0x0 0x0 {SP_PC}"
WRITE = f"1 0x5 0x7f0000001000 0x1000 0x0 0x0 0x0 {SP_PC}"
FAULT = f"-1 {SP_PC}"
COUNTERS = (5_000, 90_000, 12, 40, 0, 65_536)


def task(**changes: object) -> BlockedTask:
    """Return a database backend that waits for a commit."""
    values: dict[str, object] = {
        "pid": 812,
        "start_ticks": 4_000,
        "command": "postgres",
        "wait_channel": "jbd2_log_wait_commit",
        "stack": ("jbd2_log_wait_commit", "ext4_sync_file", "vfs_fsync_range", "do_fsync"),
        "read_bytes": 0,
        "write_bytes": 65_536,
        "waits_at": "8:0",
        "system_call": FSYNC,
        "counters": COUNTERS,
        "voluntary_switches": 700,
        "cpu_ticks": 30,
        "file": "/srv/db/pg_wal/000000010000000000000001",
        "unit": "postgresql@15-main.service",
    }
    return BlockedTask(**{**values, **changes})  # type: ignore[arg-type]


NO_CALL: dict[str, object] = {"system_call": "", "counters": (), "voluntary_switches": None}
READS: dict[str, object] = {"wait_channel": "io_schedule", "stack": ("folio_wait_bit_common",)}
SAME, OTHER, UNKNOWN = Continuity.SAME_CALL, Continuity.ANOTHER_CALL, Continuity.NOT_KNOWN


@pytest.mark.parametrize(
    ("sentence", "changes_before", "changes_after", "expected"),
    [
        ("a commit that has not returned", {}, {}, SAME),
        ("the same, woken twice to poll at its page", {}, {"voluntary_switches": 702}, SAME),
        ("one that used a tick to be woken", {}, {"cpu_ticks": 32}, SAME),
        ("a loop that computes between its calls", {}, {"cpu_ticks": 33}, OTHER),
        ("the next fsync, after the next write", {}, {"counters": (5, 9, 12, 41, 0, 1)}, OTHER),
        ("an fsync of another file with its number", {}, {"file": "/srv/db/base/2"}, OTHER),
        ("another call", {}, {"system_call": WRITE}, OTHER),
        ("the task's number was used again", {}, {"start_ticks": 9_000}, OTHER),
        (
            "a read whose call could not be read, after others",
            {"system_call": "", **READS},
            {**READS, "counters": (9_000, 90_000, 13, 40, 0, 65_536)},
            OTHER,
        ),
        (
            "a page fault that has not returned",
            {"system_call": FAULT, "file": ""},
            {"system_call": FAULT, "file": ""},
            SAME,
        ),
        (
            "the next page fault at one instruction",
            {"system_call": FAULT, "file": ""},
            {"system_call": FAULT, "file": "", "voluntary_switches": 701},
            OTHER,
        ),
        (
            "a worker of io_uring with its next request",
            {"command": "iou-wrk-812", "system_call": "-1 0x0 0x0", "file": ""},
            {
                "command": "iou-wrk-812",
                "system_call": "-1 0x0 0x0",
                "file": "",
                "voluntary_switches": 760,
            },
            OTHER,
        ),
        (
            "msync of one map again and again",
            {"system_call": f"26 0x7f0000000000 0x1000 0x4 0x0 0x0 0x0 {SP_PC}", "file": ""},
            {
                "system_call": f"26 0x7f0000000000 0x1000 0x4 0x0 0x0 0x0 {SP_PC}",
                "file": "",
                "voluntary_switches": 705,
            },
            OTHER,
        ),
        (
            "the next open below one directory",
            {"system_call": f"257 0x5 0x7f10 0x0 0x0 0x0 0x0 {SP_PC}", "file": "/usr/lib"},
            {
                "system_call": f"257 0x5 0x7f10 0x0 0x0 0x0 0x0 {SP_PC}",
                "file": "/usr/lib",
                "voluntary_switches": 701,
            },
            OTHER,
        ),
        (
            "a request of io_uring that has not returned",
            {"file": "anon_inode:[io_uring]"},
            {"file": "anon_inode:[io_uring]", "voluntary_switches": 701},
            OTHER,
        ),
        ("a commit that has not returned, no call shown", NO_CALL, NO_CALL, SAME),
        (
            "the next commit, no call shown",
            NO_CALL,
            {**NO_CALL, "write_bytes": 131_072},
            OTHER,
        ),
        ("a reader, no call shown", {**NO_CALL, **READS}, {**NO_CALL, **READS}, UNKNOWN),
        (
            "a commit of a kernel that counts no bytes",
            {**NO_CALL, "write_bytes": None},
            {**NO_CALL, "write_bytes": None},
            UNKNOWN,
        ),
        ("counters that cannot be read", {"counters": ()}, {"counters": ()}, SAME),
        (
            "no counters, and it woke between",
            {"counters": ()},
            {"counters": (), "voluntary_switches": 701},
            OTHER,
        ),
        (
            "neither counters nor switches",
            {"counters": (), "voluntary_switches": None},
            {"counters": (), "voluntary_switches": None},
            UNKNOWN,
        ),
        (
            "a program that is being executed from a hanging disk",
            {"unanswered": True, "system_call": ""},
            {"unanswered": True, "system_call": ""},
            SAME,
        ),
    ],
)
def test_two_polls_show_one_call_or_two(
    sentence: str,
    changes_before: dict[str, object],
    changes_after: dict[str, object],
    expected: Continuity,
) -> None:
    """Each row is a task as two polls see it, 2 s apart."""
    assert continuity(task(**changes_before), task(**changes_after)) is expected, sentence


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        (("balance_dirty_pages.isra.0", "generic_perform_write"), Purpose.STORAGE),
        (("io_schedule", "folio_wait_bit_common", "filemap_fault"), Purpose.STORAGE),
        (("rwsem_down_write_slowpath", "down_write", "ext4_buffered_write_iter"), Purpose.STORAGE),
        (("percpu_rwsem_wait", "__percpu_down_read", "ksys_write"), Purpose.STORAGE),
        (("percpu_rwsem_wait", "mnt_want_write", "path_openat"), Purpose.STORAGE),
        (("percpu_rwsem_wait", "ext4_writepages", "do_writepages"), Purpose.STORAGE),
        (("percpu_rwsem_wait", "copy_process", "kernel_clone"), Purpose.ELSEWHERE),
        (("percpu_rwsem_wait", "cpus_read_lock", "do_sysinfo"), Purpose.ELSEWHERE),
        (("rpc_wait_bit_killable", "nfs4_proc_getattr"), Purpose.STORAGE),
        (("cv_wait_common", "txg_wait_synced_impl", "zil_commit"), Purpose.STORAGE),
        (("throttle_direct_reclaim", "try_to_free_pages"), Purpose.STORAGE),
        (("dm_wait_event", "dev_wait"), Purpose.STORAGE),
        (("wait_for_completion_state", "kernel_clone", "__do_sys_vfork"), Purpose.ELSEWHERE),
        (("__refrigerator", "get_signal"), Purpose.ELSEWHERE),
        (("refrigerator", "get_signal_to_deliver", "do_signal"), Purpose.ELSEWHERE),
        (("do_coredump", "get_signal"), Purpose.ELSEWHERE),
        (("dma_fence_default_wait", "drm_syncobj_array_wait_timeout"), Purpose.ELSEWHERE),
        (("autofs_wait", "autofs_mount_wait"), Purpose.ELSEWHERE),
        (("rwsem_down_write_slowpath", "down_write", "open_last_lookups"), Purpose.STORAGE),
        (("rwsem_down_read_slowpath", "down_read", "walk_component"), Purpose.STORAGE),
        (("d_alloc_parallel", "__lookup_slow", "lookup_slow"), Purpose.STORAGE),
        (("rwsem_down_write_slowpath", "down_write", "lock_rename"), Purpose.STORAGE),
        (("inode_wait_for_writeback", "evict", "do_unlinkat"), Purpose.STORAGE),
        (("fanotify_handle_event", "fsnotify", "do_dentry_open"), Purpose.ELSEWHERE),
        (("blk_execute_rq", "scsi_execute_cmd", "ch_do_scsi", "ch_move"), Purpose.ELSEWHERE),
        (("rwsem_down_read_slowpath", "down_read_killable", "iterate_dir"), Purpose.STORAGE),
        (("call_rwsem_down_write_failed", "down_write", "filename_create"), Purpose.STORAGE),
        (("__mutex_lock_slowpath", "mutex_lock", "do_lookup"), Purpose.STORAGE),
        (("rwsem_down_read_slowpath", "kernfs_iop_lookup", "lookup_slow"), Purpose.ELSEWHERE),
        (("__mutex_lock", "misc_open", "chrdev_open", "path_openat"), Purpose.ELSEWHERE),
        (("wait_for_partner", "fifo_open", "do_dentry_open", "path_openat"), Purpose.ELSEWHERE),
        (("folio_wait_writeback", "sync_inodes_sb", "ksys_sync"), Purpose.WHOLE_WRITE_OUT),
        (("wb_wait_for_completion", "sync_filesystem", "path_umount"), Purpose.WHOLE_WRITE_OUT),
        (("wb_wait_for_completion", "freeze_super", "do_vfs_ioctl"), Purpose.WHOLE_WRITE_OUT),
    ],
)
def test_the_stack_says_what_a_task_waits_for(stack: tuple[str, ...], expected: Purpose) -> None:
    """Stacks of Linux 6.1 to 6.18, innermost function first; some of 2.6.32 and 4.19."""
    assert purpose(task(wait_channel=stack[0], stack=stack, waits_at="")) is expected


def test_a_read_that_a_malware_scanner_has_to_permit_waits_for_no_disk() -> None:
    """Its file is on one; the scanner answers late, and no request has reached the disk."""
    stack = ("fanotify_handle_event", "send_to_group", "fsnotify", "rw_verify_area", "vfs_read")
    assert purpose(task(wait_channel=stack[0], stack=stack)) is Purpose.ELSEWHERE


def test_a_tape_that_is_wound_harms_nobody() -> None:
    """'mt rewind' waits for two minutes; where sysfs lists no devices its file may be a disk."""
    stack = ("wait_for_completion", "st_do_scsi.constprop.0", "st_int_ioctl", "st_ioctl")
    mt = task(wait_channel=stack[0], stack=stack, waits_at="/dev/nst0", file="/dev/nst0")
    assert purpose(mt) is Purpose.ELSEWHERE


def test_without_a_stack_the_file_decides_and_without_both_nothing_is_known() -> None:
    """Only root may read 'stack'; a hardened kernel lets nobody."""
    unread = {"wait_channel": "", "stack": ()}
    assert purpose(task(**unread)) is Purpose.STORAGE
    assert purpose(task(**unread, waits_at="")) is Purpose.NOT_KNOWN


def polled(*polls: tuple[float, list[BlockedTask]], trigger: float = 0.0) -> waits.Polls:
    """Return what polls at these seconds show."""
    state = waits.NO_POLLS
    for now, tasks in polls:
        state, _ = waits.next_polls(
            state, tasks, now, trigger_seconds=trigger, legacy_queued_ratio=None
        )
    return state


def only(polls: waits.Polls) -> waits.Wait:
    """Return the only wait."""
    (wait,) = polls.waits.values()
    return wait


def test_a_wait_has_an_age_at_least_and_at_most() -> None:
    """Polls 2 s apart: it began after the last poll that did not see it."""
    wait = only(polled((10.0, []), (12.0, [task()]), (14.0, [task()]), (16.0, [task()])))
    assert (wait.min_seconds, wait.max_seconds) == (4.0, 6.0)


def test_the_first_poll_of_all_counts_from_what_gave_reason_for_it() -> None:
    """'/proc/stat' counted a blocked task 2 s before the first poll."""
    wait = only(polled((12.0, [task()]), (14.0, [task()]), trigger=10.0))
    assert (wait.min_seconds, wait.max_seconds) == (2.0, 4.0)


def test_a_reader_of_a_busy_disk_is_blocked_at_each_poll_and_never_long() -> None:
    """cat of a large file: the same call with the same arguments, and counters that move."""
    reads = [
        task(
            system_call=f"0 0x5 0x7f00 0x2000 0x0 0x0 0x0 {SP_PC}",
            counters=(8192 * n, 0, n, 0, 0, 0),
        )
        for n in range(5)
    ]
    wait = only(polled(*((2.0 * n, [read]) for n, read in enumerate(reads))))
    assert wait.min_seconds == 0.0


def test_a_wait_whose_call_cannot_be_compared_is_counted_and_no_more() -> None:
    """A recording that lacks the facts: a minute of polls that each see it blocked."""
    unknown = task(**NO_CALL, **READS)
    wait = only(polled(*((2.0 * n, [unknown]) for n in range(30))))
    assert not wait.proven
    assert wait.max_seconds == waits.UNPROVEN_SECONDS


def test_at_the_dirty_limit_an_old_kernel_pauses_a_writer_for_longer() -> None:
    """2.6.18: no 'syscall', and blk_congestion_wait; D and W at the limit."""
    paused = task(**NO_CALL, wait_channel="", stack=("blk_congestion_wait",))
    state = waits.NO_POLLS
    for n in range(30):
        state, _ = waits.next_polls(
            state, [paused], 2.0 * n, trigger_seconds=0.0, legacy_queued_ratio=0.97
        )
    assert only(state).max_seconds == waits.UNPROVEN_AT_LIMIT_SECONDS


def test_what_iowarden_waits_for_itself_harms_nobody() -> None:
    """A surface scan meets a bad sector and waits for 30 s; so does a smartctl of the probe."""
    scan = task(command="iowarden-scan", unit="session-2.scope")
    smartctl = task(pid=813, command="smartctl", unit="iowarden-probe.service")
    assert polled(*((2.0 * n, [scan, smartctl]) for n in range(16))).waits == {}


def wait_of(blocked: BlockedTask, seconds: float) -> waits.Wait:
    """Return a wait of a task that lasts for so long by now."""
    return waits.Wait(blocked, purpose(blocked), 0.0, seconds, 0.0)


CHECKPOINTER = ProcessLoad(400, "postgres", "postgresql@15-main.service", 0, 900_000_000)
DISK = {"read_bytes": 0, "written_bytes": 1_000_000_000}


def test_the_checkpointer_is_the_cause_and_the_backend_is_harmed() -> None:
    """Both are processes of one program in one unit."""
    load = Load(45.0, (CHECKPOINTER, ProcessLoad(812, "postgres", "", 0, 65_536)), **DISK)
    found = harm([wait_of(task(), 20.0)], load, 400_000_000, 20_000_000)
    assert [cause.pid for cause in found.causes] == [400]
    assert [victim.wait.task.pid for victim in found.victims] == [812]


def test_a_writer_that_waits_for_what_it_wrote_itself_is_not_harmed() -> None:
    """cp of 900 MB and its fsync: the disk completed only that meanwhile."""
    own = task(pid=400, file="/srv/copy")
    load = Load(45.0, (CHECKPOINTER,), **DISK)
    found = harm([wait_of(own, 20.0)], load, 400_000_000, 20_000_000)
    assert found.victims == found.evidence == ()


def test_a_writer_that_waits_longer_than_what_it_wrote_takes_is_evidence_and_no_victim() -> None:
    """Half of what the disk completed meanwhile was another's."""
    own = task(pid=400, file="/srv/copy")
    writer = replace(CHECKPOINTER, written_bytes=300_000_000)
    found = harm([wait_of(own, 20.0)], Load(45.0, (writer,), **DISK), 600_000_000, 20_000_000)
    assert found.victims == ()
    (left,) = found.evidence
    assert left.max_seconds == pytest.approx(10.0)


def test_a_thread_that_wrote_nothing_is_harmed_though_its_process_is_the_cause() -> None:
    """MySQL: one thread flushes, another one waits for its commit."""
    process = ProcessLoad(400, "mysqld", "", 0, 900_000_000, {401: 890_000_000, 402: 10_000_000})
    flushes, commits = task(pid=401, process=400), task(pid=402, process=400)
    waiting = [wait_of(flushes, 20.0), wait_of(commits, 20.0)]
    found = harm(waiting, Load(45.0, (process,), **DISK), 890_000_000, 20_000_000)
    assert [victim.wait.task.pid for victim in found.victims] == [402]


def test_a_write_that_is_about_to_return_is_flow_control_and_one_of_20_s_is_not() -> None:
    """dd bs=4k: its share of the bandwidth explains 2 ms of the 20 s."""
    paused = task(system_call=WRITE, stack=("balance_dirty_pages",), wait_channel="")
    assert harm([wait_of(paused, 9.0)], Load(45.0, (), **DISK), 1e8, 2e6).victims == ()
    (victim,) = harm([wait_of(paused, 20.0)], Load(45.0, (), **DISK), 1e8, 2e6).victims
    assert victim.max_seconds == pytest.approx(20.0, abs=0.01)


def test_one_large_write_explains_its_own_length() -> None:
    """dd bs=64M at 2 MB/s: a single call takes half a minute."""
    call = f"1 0x5 0x7f0000001000 {64 << 20:#x} 0x0 0x0 0x0 {SP_PC}"
    paused = task(system_call=call, stack=("balance_dirty_pages",), wait_channel="")
    assert harm([wait_of(paused, 30.0)], Load(45.0, (), **DISK), 1e8, 2e6).victims == ()


def test_who_waits_elsewhere_or_for_the_whole_host_is_not_harmed() -> None:
    """A shell that waits for its child, and an administrator who calls sync."""
    vfork = task(stack=("wait_for_vfork_done", "kernel_clone"), wait_channel="")
    sync = task(stack=("wb_wait_for_completion", "ksys_sync"), wait_channel="")
    waiting = [wait_of(vfork, 60.0), wait_of(sync, 60.0)]
    assert harm(waiting, Load(45.0, (), **DISK), 1e8, 2e6) == Harm()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ((900, 50, 40), [1]),
        ((400, 300, 300), [1, 2, 3]),
        ((240, 240, 240), []),
        ((0, 0, 0), []),
    ],
)
def test_a_cause_moves_a_quarter_of_what_the_device_does(
    written: tuple[int, ...], expected: list[int]
) -> None:
    """Of five hundred small writers nobody is."""
    million = 1_000_000
    processes = tuple(
        ProcessLoad(pid, "dd", "", 0, size * million) for pid, size in enumerate(written, 1)
    )
    load = Load(45.0, processes, read_bytes=0, written_bytes=1000 * million)
    assert [cause.pid for cause in causes(load)] == expected


def test_of_who_wrote_to_several_disks_those_that_wait_for_this_one_are_its_load() -> None:
    """Four copies of 900 MB; the disk concerned completed that much, and copy 4 waits for it."""
    million = 1_000_000
    processes = tuple(ProcessLoad(pid, "dd", "", 0, 900 * million) for pid in (1, 2, 3, 4))
    load = Load(45.0, processes, read_bytes=0, written_bytes=900 * million)
    assert [one.pid for one in causes(load, {4}, {1, 2})] == [4, 3]
    assert [one.pid for one in causes(load, {5}, {1, 2})] == [1, 2, 3, 4]


def test_kilobytes_explain_no_wait_though_they_are_all_that_was_written() -> None:
    """All that an idle disk got is a line of a log."""
    load = Load(45.0, (ProcessLoad(1, "rsyslogd", "", 0, 20_000),), 0, 20_000)
    assert causes(load) == ()


def frozen(
    seconds: float, victims: int = 1, *, end: float | None = None, gap_seconds: float = 0.0
) -> Harm:
    """Return the harm of so many backends that have been waiting for so long at a moment.

    `gap_seconds`: so much earlier was the poll before the first that saw them.
    """
    at = seconds if end is None else end
    began = at - seconds
    return Harm(
        tuple(
            Victim(
                waits.Wait(task(pid=n), Purpose.STORAGE, began, at, began - gap_seconds),
                seconds,
                seconds + gap_seconds,
            )
            for n in range(victims)
        )
    )


def played(
    spans: list[tuple[float, float]],
    victims: int = 1,
    *,
    until: float,
    min_seconds: float = 0.0,
    gap_seconds: float = 0.0,
) -> list[tuple[float, freezes.DeviceFreezes]]:
    """Return the state at each poll, 2 s apart, of a device that freezes in these spans."""
    state, result, now = freezes.NO_FREEZES, [], 0.0
    while now <= until:
        present = [span for span in spans if span[0] <= now < span[1]]
        harmed = Harm()
        if present:
            harmed = frozen(now - present[0][0], victims, end=now, gap_seconds=gap_seconds)
        state = freezes.next_freezes(
            state, harmed, now, previous_poll_seconds=now - 2.0, min_seconds=min_seconds
        )
        result.append((now, state))
        now += 2.0
    return result


def reached(states: list[tuple[float, freezes.DeviceFreezes]], level: Level) -> float | None:
    """Return when a series reached a level, None: never."""
    for now, state in states:
        if state.series is not None and state.series.level >= level:
            return now
    return None


@pytest.mark.parametrize(
    ("sentence", "spans", "victims", "warned", "critical"),
    [
        ("one victim of a night's backup, 28 s", [(100, 128)], 1, None, None),
        ("two victims of 14 s", [(100, 114)], 2, 112, None),
        ("one victim of 40 s", [(100, 140)], 1, 130, None),
        ("one of 70 s", [(100, 172)], 1, 130, 160),
        ("three of 11 s within an hour", [(100, 112), (900, 912), (1800, 1812)], 1, 1810, None),
        ("two of 11 s", [(100, 112), (900, 912)], 1, None, None),
        ("20 s of each minute", [(60 * n, 60 * n + 22) for n in range(2, 12)], 25, 132, 550),
    ],
)
def test_how_bad_a_freeze_is(
    sentence: str,
    spans: list[tuple[float, float]],
    victims: int,
    warned: float | None,
    critical: float | None,
) -> None:
    """Each row: the freezes, how many stand still, and when that is a warning or critical."""
    states = played(spans, victims, until=max(end for _, end in spans) + 30)
    assert reached(states, Level.WARNING) == warned, sentence
    assert reached(states, Level.CRITICAL) == critical, sentence


@pytest.mark.parametrize(
    ("sentence", "spans", "victims", "warned", "critical"),
    [
        ("one of 28 s", [(100, 128)], 1, None, None),
        ("one of 56 s", [(100, 158)], 1, 128, None),
        ("one of 60 s", [(100, 162)], 1, 128, 158),
        ("three of 6 s within an hour", [(100, 108), (900, 908), (1800, 1808)], 1, None, None),
        ("three of 8 s", [(100, 110), (900, 910), (1800, 1810)], 1, 1808, None),
        ("26 s of each 84 s", [(84 * n, 84 * n + 28) for n in range(1, 8)], 1, 260, None),
        ("two victims of 8 s", [(100, 110)], 2, 108, None),
        ("two victims of 56 s", [(100, 158)], 2, 108, 156),
    ],
)
def test_one_victim_alone_has_waited_for_one_poll_longer_than_polls_show(
    sentence: str,
    spans: list[tuple[float, float]],
    victims: int,
    warned: float | None,
    critical: float | None,
) -> None:
    """The poll before the first was 5 s earlier; several victims may have waited since then."""
    states = played(spans, victims, until=max(end for _, end in spans) + 30, gap_seconds=5.0)
    assert reached(states, Level.WARNING) == warned, sentence
    assert reached(states, Level.CRITICAL) == critical, sentence


def test_a_restart_makes_no_wait_of_one_victim_longer() -> None:
    """Two waits of 6 s, a restart, and a third one of 12 s: no third of 10 s."""
    series = played([(100, 108), (900, 908)], until=920, gap_seconds=5.0)[-1][1].series
    assert series is not None
    after = freezes.next_freezes(
        freezes.DeviceFreezes(freezes.restored(freezes.stored(series))),
        frozen(12, end=1812.0),
        1812.0,
        previous_poll_seconds=1810.0,
    )
    assert after.series is not None
    assert (after.series.times, after.series.level) == (3, Level.COUNTED)


def test_a_guard_raises_the_threshold_of_its_device() -> None:
    """A removable disk: 16 s with two victims is counted, 32 s is a warning."""
    states = played([(100, 116)], 2, until=150, min_seconds=30.0)
    assert reached(states, Level.WARNING) is None
    assert reached(states, Level.COUNTED) == 104
    assert reached(played([(100, 140)], 2, until=150, min_seconds=30.0), Level.WARNING) == 130


def test_freezes_that_follow_each_other_are_one_series_with_a_rhythm() -> None:
    """20 s of each minute, nine times: open between them, and for ten minutes after the last."""
    spans = [(60.0 * n, 60.0 * n + 22) for n in range(2, 11)]
    states = played(spans, 25, until=1300)
    series = dict(states)[640.0].series
    assert series is not None
    rhythm = freezes.rhythm(series, 640.0)
    assert (rhythm.times, rhythm.since_seconds, rhythm.period_seconds) == (9, 120.0, 60.0)
    assert rhythm.length_seconds == 20.0
    assert rhythm.ratio == pytest.approx(0.35, abs=0.03)
    assert series.reported_times == 3
    assert [now for now, state in states if state.series is None][-1] == 1300.0
    ended = next(now for now, state in states if now > 700 and state.series is None)
    assert ended == pytest.approx(620 + freezes.OPEN_SECONDS, abs=4)


def test_a_program_that_stands_still_half_of_the_time_in_short_waits_is_warned_of() -> None:
    """Six fsyncs in a row of 5 s each, with a second between: no single one is long."""
    spans = [(6.0 * n, 6.0 * n + 5.0) for n in range(100)]
    states = played(spans, until=400)
    assert reached(states, Level.WARNING) is not None


def test_a_program_in_a_short_wait_each_minute_is_counted_only() -> None:
    """Twelve times 5 s in an hour: for the histogram."""
    states = played([(60.0 * n, 60.0 * n + 5.0) for n in range(2, 12)], until=700)
    assert reached(states, Level.COUNTED) is not None
    assert reached(states, Level.WARNING) is None


def test_a_series_goes_on_after_a_restart() -> None:
    """Nine freezes, a restart between two of them, and the tenth: one series."""
    states = played([(60.0 * n, 60.0 * n + 22) for n in range(2, 11)], 25, until=640)
    series = states[-1][1].series
    assert series is not None
    again = freezes.restored(freezes.stored(series))
    assert again is not None
    assert (again.times, again.since_seconds, again.level) == (9, 120.0, Level.CRITICAL)
    after = freezes.next_freezes(
        freezes.DeviceFreezes(again), frozen(14, 25, end=674.0), 674.0, previous_poll_seconds=672.0
    )
    assert after.series is not None
    assert (after.series.times, after.series.reported_times) == (10, 3)


@pytest.mark.parametrize(
    ("period", "until", "expected"),
    [
        (20.0, 600, [(1, 104), (3, 144)]),
        (60.0, 1300, [(1, 104), (3, 224), (10, 824)]),
        (300.0, 3400, [(1, 104), (3, 704), (10, 2804)]),
    ],
)
def test_that_a_rhythm_goes_on_is_news_ten_minutes_after_the_rhythm(
    period: float, until: int, expected: list[tuple[int, int]]
) -> None:
    """10 s each: the first and the third at once; the tenth not 60 s after the third."""
    spans = [(100 + period * n, 110 + period * n) for n in range(int(until // period))]
    news: dict[int, int] = {}
    for now, state in played(spans, until=until):
        if state.series is not None:
            news.setdefault(state.series.reported_times, int(now))
    assert list(news.items()) == expected


def test_a_restart_within_a_freeze_makes_no_second_one_of_it() -> None:
    """Killed after 14 s of it, and polling again 20 s later; after an hour it is another one."""
    states = played([(60.0, 200.0)], until=74)
    series = states[-1][1].series
    assert series is not None
    again = freezes.DeviceFreezes(freezes.restored(freezes.stored(series)))
    for now, times in ((94.0, 1), (3674.0, 2)):
        after = freezes.next_freezes(
            again, frozen(14, 2, end=now), now, previous_poll_seconds=now - 2
        )
        assert after.series is not None
        assert after.series.times == times


def test_what_is_no_series_is_not_restored() -> None:
    """Pairs of another program."""
    assert freezes.restored(((1.0, 2.0),)) is None


def test_what_only_one_poll_saw_is_no_freeze() -> None:
    """Readers of a busy disk, polled each 5 s for an hour: another call each time."""
    state = freezes.NO_FREEZES
    for now in range(5, 3600, 5):
        wait = waits.Wait(task(), Purpose.STORAGE, float(now), float(now), now - 5.0)
        harmed = Harm((Victim(wait, 0.0, 5.0),))
        state = freezes.next_freezes(state, harmed, float(now), previous_poll_seconds=now - 5.0)
        assert state.series is None


def test_a_program_alone_on_a_disk_is_harmed_by_one_read_of_twenty_seconds() -> None:
    """It is all of the disk's load, and one read moves too little to explain that by itself."""
    alone = ProcessLoad(812, "smbd", "smb.service", 9_000_000, 0)
    load = Load(45.0, (alone,), 9_000_000, 0)
    read = task(**READS, system_call=f"0 0x5 0x7f00 0x10000 0x0 0x0 0x0 {SP_PC}")
    assert len(harm([wait_of(read, 20.0)], load, 65_536, 0.0).victims) == 1
    assert harm([wait_of(read, 5.0)], load, 65_536, 0.0).victims == ()


@pytest.mark.parametrize(
    ("sentence", "own", "others", "completed", "best", "expected"),
    [
        ("its own 900 MB, written at 25 MB/s", 900, 100, 900, 0, None),
        ("a tenth of the load, and it explains all of its wait", 100, 900, 100, 0, None),
        (
            "its own are a fifth of what the disk wrote meanwhile",
            180,
            720,
            900,
            0,
            ("victim", 28.8),
        ),
        ("half of it, and the rest is another's", 450, 450, 900, 0, ("evidence", 18.0)),
        ("all that was written, and the disk completes nothing", 900, 0, 0, 0, ("victim", 36.0)),
        ("the same of a disk whose speed is known", 900, 0, 0, 25, ("victim", 36.0)),
        ("13 MB on a disk of 100 MB/s that writes 800 kB", 13, 0, 0.8, 100, ("victim", 35.87)),
        ("nothing of its own", 0, 900, 900, 0, ("victim", 36.0)),
    ],
)
def test_own_bytes_explain_the_time_that_the_disk_needs_for_them(
    sentence: str,
    own: int,
    others: int,
    completed: float,
    best: int,
    expected: tuple[str, float] | None,
) -> None:
    """An fsync of 36 s; bytes in MB, speeds in MB/s. Whose share is large is not the question."""
    million = 1_000_000
    writer = ProcessLoad(812, "mysqld", "mysqld.service", 0, own * million)
    other = ProcessLoad(900, "tar", "", 0, others * million)
    load = Load(45.0, (writer, other), 0, (own + others) * million)
    harmed = harm([wait_of(task(), 36.0)], load, completed * million, 0.0, best * million)
    found = [("victim", v.max_seconds) for v in harmed.victims]
    found += [("evidence", v.max_seconds) for v in harmed.evidence]
    assert found == ([] if expected is None else [(expected[0], pytest.approx(expected[1]))]), (
        sentence
    )


@pytest.mark.parametrize(
    ("sentence", "wrote", "completed", "queued", "expected"),
    [
        ("900 MB, and the disk completed a fifth of it so far", 900, 180, 720, [400]),
        ("900 MB for another disk, while this one wrote 1 MB", 900, 1, 1, []),
        ("900 MB for a disk that completes nothing, all queued", 900, 0, 900, [400]),
    ],
)
def test_who_wrote_more_than_a_disk_did_wrote_to_another(
    sentence: str, wrote: int, completed: int, queued: int, expected: list[int]
) -> None:
    """What it wrote is on this disk, or still queued."""
    million = 1_000_000
    process = ProcessLoad(400, "dd", "", 0, wrote * million)
    load = Load(45.0, (process,), 0, completed * million, queued_bytes=queued * million)
    assert [cause.pid for cause in causes(load)] == expected, sentence


def test_a_hundred_small_writers_of_a_unit_are_the_load_of_that_unit() -> None:
    """None of them wrote a quarter, all together did."""
    load = Load(
        45.0,
        tuple(ProcessLoad(pid, "php-fpm", "php.service", 0, 9_000_000) for pid in range(100)),
        **DISK,
    )
    found = harm([wait_of(task(), 20.0)], load, 400_000_000, 20_000_000)
    assert found.causes == ()
    assert [(unit.unit, unit.moved_bytes) for unit in found.units] == [("php.service", 900_000_000)]
    assert len(found.victims) == 1


@pytest.mark.parametrize(
    ("sentence", "written", "expected"),
    [("many small writers", 1_000_000_000, True), ("a full thin pool", 200_000, False)],
)
def test_nobody_did_a_quarter_of_what_was_not_done(
    sentence: str, written: int, *, expected: bool
) -> None:
    """A share needs a device that moves something: 65 kB a second at least."""
    load = Load(45.0, (ProcessLoad(900, "cron", "", 0, 40_000),), 0, written)
    found = harm([wait_of(task(), 20.0)], load, 0.0, 0.0)
    assert (found.causes, found.is_share_known) == ((), expected), sentence


def test_kernel_threads_are_not_harmed_but_those_that_serve_clients_are() -> None:
    """A journal and a flusher wait for tasks that are seen themselves; nfsd has clients."""
    journal = task(pid=77, command="jbd2/sda1-8", kernel=True)
    flusher = task(pid=78, command="kworker/u8:2+flush-8:0", kernel=True)
    nfsd = task(pid=79, command="nfsd", kernel=True)
    seen = polled(*((2.0 * n, [journal, flusher, nfsd]) for n in range(3)))
    assert [pid for pid, _ in seen.waits] == [79]
