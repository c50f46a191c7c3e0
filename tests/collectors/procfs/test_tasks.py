"""Tasks blocked in the kernel, as root reads them, and through the probe to the daemon."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.machine import Machine
from iowarden.collectors.model import ParseError, ReadError
from iowarden.collectors.procfs.task_poll import read_waiting_tasks
from iowarden.collectors.procfs.tasks import (
    MAX_FUNCTIONS,
    MAX_TASKS,
    WRITEBACK,
    BlockedTask,
    BlockedTasks,
    emit,
    from_json,
    read_tasks,
    to_json,
    writeback_channel,
)

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import MachineMaker

COUNTERS = "cpu  1 0 1 1 1 0 0 0 0 0\nintr 0\nctxt 0\nbtime 1799999000\nprocesses 1\n"
IO = "rchar: 9\nwchar: 9\nsyscr: 1\nsyscw: 1\nread_bytes: {}\nwrite_bytes: {}\n"
STACK = (
    "[<0>] folio_wait_bit_common+0x140/0x330\n[<0>] folio_wait_writeback+0x28/0x80\n"
    "[<0>] ext4_sync_file+0x120/0x3a0 [ext4]\n[<ffffffffffffffff>] 0xffffffffffffffff\n"
)


def status(pid: int, name: str, state: str, *, start: int, flags: int = 0, threads: int = 1) -> str:
    """Return a line of '/proc/PID/stat'."""
    return (
        f"{pid} ({name}) {state} 1 {pid} {pid} 0 -1 {flags} 5 0 0 0 3 4 0 0 20 0 {threads} 0"
        f" {start} 8192 100 18446744073709551615 0 0 0 0\n"
    )


def blocked(number: int) -> str:
    """Return a '/proc/stat' with this number of blocked tasks."""
    return f"{COUNTERS}procs_running 1\nprocs_blocked {number}\n"


def task(pid: int = 812, channel: str = "balance_dirty_pages", **changes: object) -> BlockedTask:
    """Return a throttled writer."""
    values: dict[str, object] = {
        "pid": pid,
        "start_ticks": 4000,
        "command": "postgres",
        "wait_channel": channel,
        "stack": (),
        "read_bytes": 0,
        "write_bytes": 1 << 30,
    }
    return BlockedTask(**{**values, **changes})  # type: ignore[arg-type]


def test_a_database_a_thread_and_the_flusher_wait(machine: MachineMaker) -> None:
    """A name with blanks and parentheses, a thread of a busy process, a kernel thread."""
    root = machine(
        {
            "/proc/1/stat": status(1, "systemd", "S", start=1),
            "/proc/812/stat": status(812, "pg) D (1 x", "D", start=4000),
            "/proc/812/wchan": "folio_wait_bit_common",
            "/proc/812/stack": STACK,
            "/proc/812/io": IO.format(4096, 1 << 30),
            "/proc/900/stat": status(900, "java", "S", start=300, threads=3),
            "/proc/900/io": IO.format(0, 12288),
            "/proc/900/task/900/stat": status(900, "java", "S", start=300, threads=3),
            "/proc/900/task/901/stat": status(901, "java", "R", start=301, threads=3),
            "/proc/900/task/902/stat": status(902, "GC Thread#0", "D", start=302, threads=3),
            "/proc/900/task/902/wchan": "0",
            "/proc/77/stat": status(77, "kworker/u8:2+flush-8:0", "D", start=90, flags=0x4208060),
            "/proc/77/wchan": "rq_qos_wait",
            "/proc/meminfo": "MemTotal: 1 kB\n",
        }
    )
    assert read_waiting_tasks(root) == BlockedTasks(
        (
            BlockedTask(902, 302, "GC Thread#0", "", (), 0, 12288, process=900, cpu_ticks=7),
            BlockedTask(
                pid=812,
                start_ticks=4000,
                command="pg) D (1 x",
                wait_channel="folio_wait_bit_common",
                stack=("folio_wait_bit_common", "folio_wait_writeback", "ext4_sync_file"),
                read_bytes=4096,
                write_bytes=1 << 30,
                cpu_ticks=7,
            ),
            BlockedTask(
                pid=77,
                start_ticks=90,
                command="kworker/u8:2+flush-8:0",
                wait_channel="rq_qos_wait",
                stack=(),
                read_bytes=None,
                write_bytes=None,
                kernel=True,
                waits_at="8:0",
                cpu_ticks=7,
            ),
        ),
        count=3,
    )


def test_of_hundreds_the_oldest_programs_are_told_and_all_are_counted(
    machine: MachineMaker,
) -> None:
    """A stalled mail server: 100 processes and 30 kernel threads wait."""
    files: dict[str, str | bytes | None] = {
        f"/proc/{pid}/stat": status(
            pid, "smtpd", "D", start=10_000 - pid, flags=0x200040 if pid < 130 else 0
        )
        for pid in range(100, 230)
    }
    found = read_waiting_tasks(machine(files))
    assert found.count == 130
    assert [t.pid for t in found.tasks] == list(range(229, 229 - MAX_TASKS, -1))


def test_a_task_that_ends_while_it_is_looked_at_is_left_out(tmp_path: Path) -> None:
    """Its state was D; its directory was removed before its details were read."""
    directory = tmp_path / "proc/812"
    directory.mkdir(parents=True)
    for name, text in (("stat", status(812, "dd", "D", start=5)), ("wchan", "rq_qos_wait")):
        (directory / name).write_text(text)
    (tmp_path / "proc/813").mkdir()  # ended before its state was read

    def ended(path: str, _: bytes) -> None:
        if path == "/proc/812/wchan":
            (directory / "stat").unlink()

    root = Machine(str(tmp_path), seen=ended)
    assert read_waiting_tasks(root) == BlockedTasks(())


@pytest.mark.parametrize("later", [("sh", "D", 6), ("dd", "S", 5)], ids=["another", "awake"])
def test_what_is_reported_of_a_task_is_of_one_wait(
    tmp_path: Path, later: tuple[str, str, int]
) -> None:
    """Between two reads 812 ended and another one started, or 812 waits for its terminal."""
    directory = tmp_path / "proc/812"
    directory.mkdir(parents=True)
    for name, text in (("stat", status(812, "dd", "D", start=5)), ("wchan", "rq_qos_wait")):
        (directory / name).write_text(text)

    def replaced(path: str, _: bytes) -> None:
        if path == "/proc/812/wchan":
            name, state, start = later
            (directory / "stat").write_text(status(812, name, state, start=start))

    assert read_waiting_tasks(Machine(str(tmp_path), seen=replaced)) == BlockedTasks(())


@pytest.mark.parametrize("text", ["garbage\n", "812 (dd) D 1 2\n", "812 (dd) D x" + " -1" * 40])
def test_a_state_that_is_none_is_refused(machine: MachineMaker, text: str) -> None:
    """The message has the file and the expected value."""
    with pytest.raises(ParseError, match="'/proc/812/stat': expected '<pid> "):
        read_waiting_tasks(machine({"/proc/812/stat": text}))


def test_a_real_thread_that_cannot_be_interrupted_is_found(tmp_path: Path) -> None:
    """A parent waits for its vfork child, which opens a FIFO without a writer: two threads."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    code = (
        "import os, sys, threading\n"
        "spawn = lambda: os.posix_spawn('/bin/true', ['true'], {},"
        " file_actions=[(os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)])\n"
        "threading.Thread(target=spawn).start()\n"
    )
    with subprocess.Popen([sys.executable, "-I", "-c", code, str(fifo)]) as program:
        try:
            deadline = time.monotonic() + 20
            mine: list[BlockedTask] = []
            while not mine and time.monotonic() < deadline:
                found = read_waiting_tasks(Machine())
                mine = [t for t in found.tasks if t.process == program.pid]
        finally:
            writer = os.open(fifo, os.O_RDWR)  # never waits for the other side
            program.wait()
            os.close(writer)
    assert len(mine) == 1
    assert mine[0].pid != program.pid
    assert mine[0].start_ticks > 0
    assert not mine[0].kernel
    assert writeback_channel(mine[0]) == ""


def test_while_nothing_is_blocked_nobody_is_queried(machine: MachineMaker) -> None:
    """The probe may sleep: the answer in a recording is not read."""
    root = machine({"/proc/stat": blocked(0), "/.probe/tasks": "garbage"})
    assert read_tasks(root) == BlockedTasks(())
    assert dict.fromkeys(WRITEBACK, 0.0) | {"other": 0.0} == {
        labels[0][1]: value for _, labels, value in emit(BlockedTasks(()))
    }


def test_without_a_probe_it_is_not_known_who_waits(machine: MachineMaker) -> None:
    """Two wait and cannot be read: no series, which is not a series of 0."""
    found = read_tasks(machine({"/proc/stat": blocked(2)}))
    assert (found.tasks, found.count) == ((), 2)
    assert "/.probe/tasks" in found.unseen
    assert emit(found) == []


def test_what_the_probe_answers_comes_through_its_door(machine: MachineMaker) -> None:
    """All fields are restored, of programs and kernel threads."""
    told = BlockedTasks((task(), task(77, "rq_qos_wait", kernel=True)), 5)
    answer = json.dumps(to_json(told))
    assert read_tasks(machine({"/proc/stat": blocked(2), "/.probe/tasks": answer})) == told


def test_a_probe_that_fails_has_failed(machine: MachineMaker) -> None:
    """A directory in place of the answer: a failed read, not an empty one."""
    with pytest.raises(ReadError):
        read_tasks(machine({"/proc/stat": blocked(1), "/.probe/tasks": None}))


@pytest.mark.parametrize(
    ("channel", "stack", "expected"),
    [
        ("balance_dirty_pages_ratelimited_flags", (), "balance_dirty_pages"),
        ("balance_dirty_pages.isra.0", (), "balance_dirty_pages"),
        ("wb_wait_for_completion", (), "wb_wait_for_completion"),
        ("folio_wait_bit_common", ("folio_wait_bit_common", "folio_wait_writeback"), None),
        ("folio_wait_bit_common", ("folio_wait_bit_common", "filemap_fault"), ""),
        ("", ("jbd2_log_wait_commit",), "jbd2_log_wait_commit"),
        ("pipe_read", (), ""),
        ("", (), ""),
    ],
)
def test_waiting_for_writeback_is_reported_from_other_waiting(
    channel: str, stack: tuple[str, ...], expected: str | None
) -> None:
    """The innermost function if known, else the stack: a read of a page waits in the same one."""
    found = writeback_channel(task(channel=channel, stack=stack))
    assert found == ("folio_wait_writeback" if expected is None else expected)


def test_tasks_are_counted_by_what_holds_them() -> None:
    """Two writers, a reader, and 36 that were not listed by name."""
    value = BlockedTasks((task(1), task(2), task(3, "folio_wait_bit_common")), 39)
    counts = {labels[0][1]: number for _, labels, number in emit(value)}
    assert {channel: n for channel, n in counts.items() if n} == {
        "balance_dirty_pages": 2,
        "other": 37,
    }


TASKS = st.builds(
    BlockedTask,
    pid=st.integers(0, 1 << 22),
    start_ticks=st.integers(0, (1 << 64) - 1),
    command=st.text(max_size=64),
    wait_channel=st.text(max_size=64),
    stack=st.lists(st.text(max_size=20), max_size=MAX_FUNCTIONS).map(tuple),
    read_bytes=st.none() | st.integers(0, (1 << 64) - 1),
    write_bytes=st.none() | st.integers(0, (1 << 64) - 1),
    process=st.integers(0, 1 << 22),
    kernel=st.booleans(),
)


@given(st.lists(TASKS, max_size=MAX_TASKS), st.integers(0, 1000))
def test_what_is_sent_is_received(tasks: list[BlockedTask], more: int) -> None:
    """Any name of a task, any number."""
    value = BlockedTasks(tuple(tasks), len(tasks) + more)
    assert from_json(json.dumps(to_json(value))) == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["tasks", "count", "pid", "stack", "kernel", "command"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(st.one_of(st.text(max_size=50), JSON.map(json.dumps)))
def test_whatever_is_received_is_tasks_or_refused(text: str) -> None:
    """Never a bug, whatever the nesting."""
    try:
        value = from_json(text)
    except ParseError:
        return
    assert value == BlockedTasks((), value.count)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("pid", -1),
        ("pid", True),
        ("start_ticks", 1.5),
        ("command", None),
        ("stack", "abc"),
        ("stack", [1]),
        ("write_bytes", 1 << 64),
        ("kernel", 1),
    ],
)
def test_a_field_of_another_kind_is_refused(field: str, wrong: object) -> None:
    """Each of them, with the rest valid; and more tasks than are counted."""
    good = to_json(BlockedTasks((task(),), 1))
    good["tasks"][0][field] = wrong
    with pytest.raises(ParseError, match="expected"):
        from_json(json.dumps(good))
    with pytest.raises(ParseError, match="1 tasks of 0"):
        from_json(json.dumps({**to_json(BlockedTasks((task(),), 1)), "count": 0}))
    with pytest.raises(ParseError, match="expected tasks as JSON"):
        from_json("[" * 100_000)


def test_one_long_stack_costs_its_outermost_functions_and_no_other_task() -> None:
    """A recording of another kernel, or a probe that cuts nothing: the poll is read."""
    deep = tuple(f"xfs_{number}" for number in range(MAX_FUNCTIONS + 30))
    both = BlockedTasks((task(stack=deep), task(813, "rq_qos_wait")), 2)
    found = from_json(json.dumps(to_json(both)))
    assert [each.stack for each in found.tasks] == [deep[:MAX_FUNCTIONS], ()]
    assert found.tasks[1].wait_channel == "rq_qos_wait"


MOUNTS = (
    "25 1 253:0 / / rw - ext4 /dev/mapper/vg-root rw\n"
    "31 25 0:35 /sub /srv rw - btrfs /dev/sdc1 rw\n"
)


@pytest.mark.parametrize(
    ("syscall", "fdinfo", "expected"),
    [
        ("74 0x3 0x0 0x0 0x7ffd 0x7f01", "pos:\t0\nflags:\t02\nmnt_id:\t25\nino:\t9\n", "253:0"),
        ("1 0x3 0x55d0 0x1000 0x7ffd 0x7f01", "pos:\t0\nmnt_id:\t31\n", "/dev/sdc1"),
        ("1 0x3 0x55d0 0x1000 0x7ffd 0x7f01", "pos:\t0\nmnt_id:\t99\n", ""),
        ("1 0x3 0x55d0 0x1000 0x7ffd 0x7f01", "pos:\t0\n", ""),
        ("1 0x4 0x55d0 0x1000 0x7ffd 0x7f01", "mnt_id:\t25\n", ""),  # not open: no descriptor
        ("257 0xffffff9c 0x55d0 0x0 0x7ffd 0x7f01", "mnt_id:\t25\n", ""),  # AT_FDCWD
        ("-1 0x7ffd 0x7f01", "mnt_id:\t25\n", ""),  # not in a system call: a page fault
        ("", "mnt_id:\t25\n", ""),
        ("1 0xzz", "mnt_id:\t25\n", ""),
    ],
)
def test_the_file_of_its_system_call_reports_where_a_program_waits(
    machine: MachineMaker, syscall: str, fdinfo: str, expected: str
) -> None:
    """A write or an fsync has its descriptor as argument, and that its mount."""
    root = machine(
        {
            "/proc/812/stat": status(812, "tar", "D", start=4000),
            "/proc/812/syscall": syscall,
            "/proc/812/fdinfo/3": fdinfo,
            "/proc/812/mountinfo": MOUNTS,
        }
    )
    (found,) = read_waiting_tasks(root).tasks
    assert found.waits_at == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("jbd2/dm-0-8", "dm-0"),
        ("jbd2/sda1-8", "sda1"),
        ("jbd2/nvme0n1p2-8", "nvme0n1p2"),
        ("xfsaild/dm-3", "dm-3"),
        ("kworker/u8:2+flush-253:0", "253:0"),
        ("kworker/u8:2-flush-8:16", "8:16"),
        ("flush-8:0", "8:0"),  # before 3.10
        ("dmcrypt_write/253:1", "253:1"),
        ("f2fs_ckpt-259:2", "259:2"),
        ("kworker/0:1", ""),
        ("kworker/u8:2", ""),
        ("md0_raid1", ""),
        ("khungtaskd", ""),
    ],
)
def test_a_kernel_thread_reports_by_its_name_for_which_device_it_works(
    machine: MachineMaker, name: str, expected: str
) -> None:
    """Not every number with a colon is a device: a worker has that of its processor."""
    root = machine({"/proc/77/stat": status(77, name, "D", start=9, flags=0x200040)})
    (found,) = read_waiting_tasks(root).tasks
    assert found.waits_at == expected


def test_an_older_probe_reports_nothing_of_places() -> None:
    """It continues after the daemon was upgraded."""
    told = to_json(BlockedTasks((task(waits_at="253:0"),), 1))
    assert from_json(json.dumps(told)).tasks[0].waits_at == "253:0"
    del told["tasks"][0]["waits_at"]
    assert from_json(json.dumps(told)).tasks[0].waits_at == ""
