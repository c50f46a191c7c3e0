"""What processes read and write: two sweeps, as root reads them and as the daemon gets them."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memory import Memory

from iowarden.collectors.machine import Machine
from iowarden.collectors.model import AbsentError, ParseError
from iowarden.collectors.procfs.process_io import (
    MAX_PROCESSES,
    Increase,
    ProcessIo,
    Sweep,
    ThreadIo,
    from_json,
    increases,
    read_sweep,
    request_sweep,
    thread_increases,
    to_json,
    unit_of,
)
from iowarden.collectors.procfs.tasks import parse_io

if TYPE_CHECKING:
    from pathlib import Path

IO = "rchar: 9\nwchar: 8\nsyscr: 1\nsyscw: 1\nread_bytes: {}\nwrite_bytes: {}\n"
IO += "cancelled_write_bytes: {}\n"
KERNEL_THREAD = 0x200040
RESIDENT_BYTES = 100 * 4096


def process(
    pid: int,
    name: str = "postgres",
    *,
    io: tuple[int, int, int] = (0, 4096, 0),
    parent: int = 1,
    start: int = 400,
    state: str = "S",
    flags: int = 0,
    group: str = "0::/system.slice/postgresql.service",
) -> dict[str, str | bytes | None]:
    """Return the files of a process."""
    stat = (
        f"{pid} ({name}) {state} {parent} {pid} {pid} 0 -1 {flags} 5 0 6 0 3 4 0 0 20 0 1 0"
        f" {start} 8192 100 18446744073709551615 0 0 0 0\n"
    )
    return {
        f"/proc/{pid}/stat": stat,
        f"/proc/{pid}/io": IO.format(*io),
        f"/proc/{pid}/cgroup": f"{group}\n",
    }


def machine(*processes: dict[str, str | bytes | None], uptime: str = "100.00") -> Memory:
    """Return a machine with these processes."""
    files: dict[str, str | bytes | None] = {"/proc/uptime": f"{uptime} 50.00\n"}
    for each in processes:
        files |= each
    return Memory(files)


def row(pid: int = 812, **changes: object) -> ProcessIo:
    """Return a process of a sweep."""
    values = ProcessIo(pid, 400, 1, "postgres", "postgresql.service", 0, 4096, 0)
    return replace(values, **changes)  # type: ignore[arg-type]


# --- reading


def test_programs_a_kernel_thread_and_what_did_nothing() -> None:
    """nfsd writes for others; a process without any I/O is not listed."""
    found = read_sweep(
        machine(
            process(2, "kthreadd", io=(0, 0, 0), flags=KERNEL_THREAD, group="0::/"),
            process(40, "nfsd", io=(0, 1 << 40, 0), flags=KERNEL_THREAD, group="0::/"),
            process(812, io=(12288, 1 << 30, 4096), parent=700),
            {"/proc/meminfo": "MemTotal: 1 kB\n"},
        )
    )
    assert found == Sweep(
        100.0,
        (
            ProcessIo(40, 400, 1, "nfsd", "", 0, 1 << 40, 0, 9, 8, 6, RESIDENT_BYTES),
            ProcessIo(
                *(812, 400, 700, "postgres", "postgresql.service", 12288, 1 << 30, 4096),
                *(9, 8, 6, RESIDENT_BYTES),
            ),
        ),
    )


def test_the_threads_of_the_largest_processes_are_read_one_by_one() -> None:
    """mysqld: one thread writes in bulk, one appends to the log; of small processes none is."""
    many = [process(pid, io=(0, pid, 0)) for pid in (20, 21, 22)]
    for of_process in (*many, files := process(812, "mysqld", io=(0, 1 << 30, 0))):
        path = next(iter(of_process))
        of_process[path] = str(of_process[path]).replace(" 20 0 1 0 ", " 20 0 3 0 ")
    for thread, io in ((812, (0, 4096, 0)), (813, (0, 1 << 30, 0))):
        files[f"/proc/812/task/{thread}/io"] = IO.format(*io)
    files["/proc/20/task/20/io"] = IO.format(0, 20, 0)
    sweep = read_sweep(machine(*many, files))
    assert sweep.threads == (ThreadIo(812, 812, 4096), ThreadIo(812, 813, 1 << 30))
    assert from_json(json.dumps(to_json(sweep))) == sweep


def test_what_threads_moved_is_known_where_both_sweeps_read_their_process() -> None:
    """A thread of later on began after the first sweep; so did those of a process that is new.

    Of one that had moved much before, and whose threads the first sweep did not read, nothing is
    known.
    """
    old = ProcessIo(9, 400, 1, "mysqld", "", 0, 1 << 30, 0)
    small = ProcessIo(30, 400, 1, "ledger", "", 4096, 8192, 0)
    before = Sweep(100.0, (old, small), threads=(ThreadIo(812, 812, 4096), ThreadIo(7, 7, 10)))
    threads = (
        *(ThreadIo(812, 812, 8192), ThreadIo(812, 900, 50), ThreadIo(9, 9, 10)),
        *(ThreadIo(30, 30, 1 << 29), ThreadIo(30, 31, 4096), ThreadIo(40, 41, 4096)),
    )
    after = Sweep(115.0, (), threads=threads)
    assert thread_increases(before, after) == {
        812: {812: 4096, 900: 50},
        30: {30: 1 << 29, 31: 4096},
        40: {41: 4096},
    }


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a b) S 1 (c", "a b) S 1 (c"),
        ("x\n0 (y) R 9", "x?0 (y) R 9"),
        ("\x1b[31mred", "?[31mred"),
        ("caf\u00e9\u202e", "caf\u00e9?"),
    ],
)
def test_a_name_that_a_program_chose_is_one_printable_line(name: str, shown: str) -> None:
    """Any bytes are allowed in it: blanks, parentheses, newlines, escapes, reversed writing."""
    assert [p.command for p in read_sweep(machine(process(812, name))).processes] == [shown]


def test_bytes_that_are_no_text_are_escaped() -> None:
    """A name in Latin-1."""
    files = process(812)
    files["/proc/812/stat"] = str(files["/proc/812/stat"]).encode().replace(b"postgres", b"\xff")
    assert read_sweep(machine(files)).processes[0].command == "\\xff"


def test_of_5001_processes_the_last_is_left_out() -> None:
    """By number, so that both sweeps have the same ones."""
    stats = [process(pid, io=(0, 0, 0)) for pid in range(10, 10 + MAX_PROCESSES)]
    found = read_sweep(machine(*stats, process(9_999)))
    assert 9_999 in found.not_read  # and more on a slow machine: the limit of its time
    assert found.processes == ()


def test_thousands_of_kernel_threads_do_not_hide_the_program_that_writes() -> None:
    """A host with many processors: these threads have the lowest numbers, and hardly ever write.

    The program is paused by the kernel until pages are written (D); nfsd, which writes for others,
    is a kernel thread, too.
    """
    pids = range(10, 10 + MAX_PROCESSES)
    threads = [process(pid, "nfsd", flags=KERNEL_THREAD, parent=2, group="0::/") for pid in pids]
    children = {"/proc/2/task/2/children": " ".join(map(str, pids))}
    found = read_sweep(machine(*threads, process(9_999, state="D"), children))
    assert [each.pid for each in found.processes[:2]] == [9_999, 10]
    assert 10 + MAX_PROCESSES - 1 in found.not_read


def test_what_may_not_be_read_is_counted() -> None:
    """Another user's process, without root: EACCES; one that ended meanwhile is not counted."""
    root = machine(process(812), process(900))
    root.fail("/proc/900/io", errno.EACCES)
    found = read_sweep(root)
    assert (len(found.processes), found.not_read) == (1, (900,))
    root.fail("/proc/900/stat", errno.ESRCH)
    assert read_sweep(root).not_read == ()


def test_a_kernel_without_accounting_has_nothing_to_read() -> None:
    """CONFIG_TASK_IO_ACCOUNTING is not set: no process has the file."""
    files = process(812)
    del files["/proc/812/io"]
    with pytest.raises(AbsentError, match="TASK_IO_ACCOUNTING"):
        read_sweep(machine(files))


@pytest.mark.parametrize("path", ["/proc/812/io", "/proc/812/stat"])
def test_garbage_is_refused(path: str) -> None:
    """The message has the file and what was expected."""
    with pytest.raises(ParseError, match="expected"):
        read_sweep(machine(process(812) | {path: "garbage"}))


def test_a_process_that_hangs_does_not_hide_the_others(tmp_path: Path) -> None:
    """It executes a program from a hanging disk: 'io' waits for its lock. It is read last."""
    root = machine(process(700, state="D"), process(812, state="D"), process(900))
    names = [f"/proc/{pid}/{name}" for pid in (700, 812, 900) for name in ("stat", "io", "cgroup")]
    for path, text in root.texts(["/proc/uptime", *names]).items():
        (tmp_path / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path[1:]).write_bytes(text)
    woken = threading.Event()
    hangs = Machine(str(tmp_path), seen=lambda path, _: path == "/proc/812/io" and woken.wait())
    try:
        found = read_sweep(hangs, max_seconds=0.1)
    finally:
        woken.set()
    assert [p.pid for p in found.processes] == [900, 700]  # one that waits need not hang
    assert found.not_read == (812,)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("0::/system.slice/postgresql.service\n", "postgresql.service"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/a.scope\n", "a.scope"),
        ("0::/user.slice/user-1000.slice/user@1000.service/init.scope\n", "init.scope"),
        ("0::/system.slice/system-getty.slice/getty@tty1.service\n", "getty@tty1.service"),
        ("0::/system.slice/db.service/workers\n", "db.service"),
        ("0::/system.slice/_cpu.service\n", "cpu.service"),
        ("0::/system.slice/old.service (deleted)\n", "old.service"),
        ("0::/system.slice/docker-1a2b.scope/init\n", "docker-1a2b.scope"),
        ("0::/docker/1a2b\n", "docker/1a2b"),
        ("12:memory:/a\n1:name=systemd:/system.slice/cron.service\n", "cron.service"),
        ("1:name=systemd:/system.slice/x.service\n0::/\n", "x.service"),
        ("0::/init.scope\n1:name=systemd:/init.scope\n", "init.scope"),
        ("9:blkio:/\n0::/\n", ""),
        ("garbage", ""),
        ("", ""),
    ],
)
def test_the_unit_of_a_process(text: str, unit: str) -> None:
    """Version 2, 1 and hybrid; nested units, users' units, containers with and without systemd."""
    assert unit_of(text) == unit


# --- two sweeps


def did(before: list[ProcessIo], after: list[ProcessIo], *not_read: int) -> list[Increase]:
    """Return what was done within 5 s; the first sweep could not read `not_read`."""
    return increases(Sweep(100.0, tuple(before), not_read), Sweep(105.0, tuple(after)))


def test_the_bytes_since_the_first_sweep_count() -> None:
    """What it deleted before it was written does not."""
    grown = row(read_bytes=10, write_bytes=9096, cancelled_write_bytes=1000)
    assert did([row()], [grown]) == [Increase(812, "postgres", "postgresql.service", 10, 4000)]
    assert did([row()], [row()]) == []


def test_who_deletes_the_files_of_others_has_written_nothing() -> None:
    """Tmpwatch: cancelled, but written by another program."""
    assert did([row()], [row(cancelled_write_bytes=1 << 30)]) == []


@pytest.mark.parametrize("field", ["read_bytes", "write_bytes", "cancelled_write_bytes"])
def test_counters_that_go_back_are_dropped(field: str) -> None:
    """No kernel does so; a recording that was edited may."""
    before = row(read_bytes=9, write_bytes=9, cancelled_write_bytes=9)
    after = row(read_bytes=20, write_bytes=20, cancelled_write_bytes=20)
    assert did([before], [after])
    assert did([before], [replace(after, **{field: 8})]) == []  # type: ignore[arg-type]


def test_a_number_that_is_used_again_is_another_process() -> None:
    """The new one began with nothing: all of it counts, and none of the old one."""
    old = row(write_bytes=1 << 40)
    new = row(start_ticks=10_200, write_bytes=5000, command="dd")
    assert did([old], [new]) == [Increase(812, "dd", "postgresql.service", 0, 5000)]


def test_what_the_first_sweep_left_out_is_not_new() -> None:
    """Else a database would have written its terabytes within 5 s."""
    assert did([], [row(write_bytes=1 << 40)], 812) == []
    assert did([], [row(write_bytes=4096)], 9) != []  # it had done nothing, or it would be listed
    assert did([], [row(start_ticks=10_000)], 812) != []  # it began after the first sweep


def test_what_ended_counts_for_the_parent_that_waited_for_it_and_only_since() -> None:
    """A script runs dd, which had written 1 TB before the first sweep."""
    script = row(700, command="backup.sh", write_bytes=0)
    dd = row(813, parent=700, write_bytes=1 << 40, command="dd")
    after = replace(script, write_bytes=(1 << 40) + 5000)
    assert did([script, dd], [after]) == [
        Increase(700, "backup.sh", "postgresql.service", 0, 5000, ended=1)
    ]


def test_what_the_second_sweep_left_out_has_not_ended() -> None:
    """Of 6,000 processes those with the highest numbers; one before them has."""
    init = row(1, parent=0, start_ticks=1, write_bytes=0)
    ended, left_out = row(700, write_bytes=1000), row(9000, write_bytes=1)
    after = (replace(init, write_bytes=1007),)
    before = Sweep(100.0, (init, ended, left_out))
    found = increases(before, Sweep(105.0, after, (9000,)))
    assert [(i.pid, i.write_bytes, i.ended) for i in found] == [(1, 7, 1)]


def test_the_parent_ended_as_well() -> None:
    """Systemd stopped the unit: init waited for both, or the subreaper of a user's session."""
    init = row(1, parent=0, start_ticks=1, command="systemd", write_bytes=100)
    shell = row(700, write_bytes=50)
    dd = row(813, parent=700, start_ticks=500, write_bytes=1000)
    after = replace(init, write_bytes=100 + 50 + 1000 + 7)
    assert [(i.pid, i.write_bytes, i.ended) for i in did([init, shell, dd], [after])] == [(1, 7, 2)]


def test_a_parent_that_ignores_its_children_did_what_it_did_itself() -> None:
    """SIGCHLD is ignored: nothing of them is added, and nothing subtracted."""
    server = row(700, write_bytes=0)
    child = row(813, parent=700, write_bytes=1 << 40)
    found = did([server, child], [replace(server, write_bytes=5000)])
    assert [(i.write_bytes, i.ended) for i in found] == [(5000, 0)]


def test_of_processes_that_are_each_others_parent_none_inherits() -> None:
    """In an edited recording only; the search ends."""
    assert did([row(5, parent=6), row(6, parent=5)], []) == []


@pytest.mark.parametrize("later", [100.5, 100.0, 3.0])
def test_sweeps_that_are_no_second_apart_say_nothing(later: float) -> None:
    """The same one twice in a replay, or another boot."""
    after = Sweep(later, (row(write_bytes=1 << 30),))
    assert increases(Sweep(100.0, (row(),)), after) == []


def test_a_real_program_that_writes_is_found(tmp_path: Path) -> None:
    """Its 8 MiB, and those of a child that ended; no other process of this machine wrote them."""
    code = (
        "import os, sys; input()\n"
        "open(sys.argv[1], 'wb').write(bytes(4 << 20))\n"
        "if os.fork() == 0: open(sys.argv[2], 'wb').write(bytes(4 << 20)); os._exit(0)\n"
        "os.wait(); print(flush=True); input()\n"
    )
    if not _writes_count(tmp_path):
        pytest.skip("what is written to this file system does not count: tmpfs")
    words = [sys.executable, "-I", "-c", code, str(tmp_path / "a"), str(tmp_path / "b")]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        before = read_sweep(Machine())
        program.stdin.write("\n")
        program.stdin.flush()
        program.stdout.readline()
        after = replace(read_sweep(Machine()), boot_seconds=before.boot_seconds + 5)
        program.communicate("\n")
    mine = [i for i in increases(before, after) if i.pid == program.pid]
    assert [i.write_bytes >> 20 for i in mine] == [8]


def _writes_count(directory: Path) -> bool:
    """Whether the kernel counts what is written to a file system: not of tmpfs."""
    path = f"/proc/{os.getpid()}/io"
    before = parse_io(Machine().read(path))["write_bytes"]
    (directory / "counts").write_bytes(bytes(1 << 20))
    return parse_io(Machine().read(path))["write_bytes"] - before >= 1 << 20


CALLS = {"read_call_bytes": 100, "write_call_bytes": 1_000, "major_faults": 7}


def test_bytes_of_calls_without_those_of_what_ended() -> None:
    """pg_dump ended; the shell that waited for it has its bytes, and its faults elsewhere."""
    shell = row(700, **CALLS)
    ended = row(812, parent=700, read_call_bytes=40, write_call_bytes=50, major_faults=3)
    later = {"read_call_bytes": 190, "write_call_bytes": 1_250, "major_faults": 9}
    after = row(700, write_bytes=16_384, **later)
    (found,) = did([shell, ended], [after])
    assert (found.ended, found.read_call_bytes, found.write_call_bytes) == (1, 50, 200)
    assert found.major_faults == 2


def test_bytes_of_calls_that_a_recording_lacks_are_not_known() -> None:
    """Of 8 fields each; also where only the earlier sweep is so old."""
    fields = [812, 400, 1, "postgres", "postgresql.service", 0, 4096, 0]
    sweep = from_json(json.dumps({"boot_seconds": 1.5, "processes": [fields], "not_read": []}))
    assert sweep.processes == (row(),)
    (found,) = did([row()], [row(write_bytes=8192, **CALLS)])
    assert found.read_call_bytes is found.write_call_bytes is found.major_faults is None


# --- the answer of the probe


@given(
    st.builds(
        Sweep,
        st.floats(0, 1e9),
        st.lists(
            st.builds(
                ProcessIo,
                *[st.integers(0, 2**63)] * 3,
                *[st.text(st.characters(categories=["L", "N", "P"]), max_size=20)] * 2,
                *[st.integers(0, 2**64 - 1)] * 3,
                *[st.none() | st.integers(0, 2**64 - 1)] * 3,
            ),
            max_size=3,
        ).map(tuple),
        st.lists(st.integers(0, 9), max_size=3).map(tuple),
    )
)
def test_a_sweep_survives_the_way_through_the_probe(sweep: Sweep) -> None:
    """As JSON, and as the daemon asks for it."""
    text = json.dumps(to_json(sweep))
    assert from_json(text) == sweep
    assert request_sweep(Memory({"/.probe/io_sweep": text})) == sweep


GOOD = {"boot_seconds": 1.5, "processes": [], "not_read": []}
BAD = {
    "no JSON": "garbage",
    "a list": "[]",
    "no field": "{}",
    "a word": json.dumps({**GOOD, "boot_seconds": "1"}),
    "negative": json.dumps({**GOOD, "not_read": [-1]}),
    "too few": json.dumps({**GOOD, "processes": [[1, 2, 3, "a", "b", 1, 2]]}),
    "too many fields": json.dumps({**GOOD, "processes": [[1, 2, 3, "a", "b", 1, 2, 3, 4]]}),
    "a call's bytes": json.dumps({**GOOD, "processes": [[1, 2, 3, "a", "b", *"123456"]]}),
    "no name": json.dumps({**GOOD, "processes": [[1, 2, 3, 4, "b", 1, 2, 3]]}),
    "no number": json.dumps({**GOOD, "processes": [[1, 2, 3, "a", "b", 1, 2, True]]}),
    "too many": json.dumps({**GOOD, "processes": [[]] * (MAX_PROCESSES + 1)}),
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
def test_what_is_no_sweep_is_refused(text: str) -> None:
    """Whatever runs as root, its answer is checked."""
    with pytest.raises(ParseError, match="'io_sweep': expected processes as JSON"):
        from_json(text)


def test_names_from_the_probe_are_made_printable_again() -> None:
    """They go into mails."""
    rows = [[1, 2, 3, "a\nb", "c\x1bd", 1, 2, 3]]
    found = from_json(json.dumps({**GOOD, "processes": rows})).processes[0]
    assert (found.command, found.unit) == ("a?b", "c?d")
