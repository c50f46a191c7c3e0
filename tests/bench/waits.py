"""Polls at blocked tasks and sweeps of all processes, in daemon and probe together.

A directory of files stands for /proc: to make its texts costs the kernel something as well, which
these numbers lack.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.simulation import START, UPTIME, Simulation
from table import cpu_milliseconds, head, row, speed

from iowarden.collectors.machine import Machine
from iowarden.collectors.procfs import process_io, tasks
from iowarden.collectors.procfs.task_poll import read_waiting_tasks
from iowarden.daemon.polling.task_polls import BUSY_SECONDS, MANY_SECONDS
from iowarden.rules.signals.signal import Inputs, View
from iowarden.rules.signals.table import SignalStates
from iowarden.rules.signals.waits import group

if TYPE_CHECKING:
    from collections.abc import Callable

PROCESSES, BLOCKED = 400, 64
KERNEL_THREADS = 200
"""Of the processes: half of those of a server are, and have read and written nothing."""
_KERNEL_THREAD = 0x200000
POLLS = 30
IO = "rchar: 9\nwchar: 8\nsyscr: 1\nsyscw: 1\nread_bytes: {}\nwrite_bytes: {}\n"
IO += "cancelled_write_bytes: 0\n"
STACK = "".join(
    f"[<0>] {name}+0x9b/0x120\n"
    for name in (
        *("folio_wait_bit_common", "folio_wait_writeback", "__filemap_fdatawait_range"),
        *("file_write_and_wait_range", "ext4_sync_file", "do_fsync", "__x64_sys_fsync"),
    )
)


def _process(number: int, *, blocked: bool) -> dict[str, str]:
    pid, state = 1000 + number, "D" if blocked else "S"
    kernel = number >= PROCESSES - KERNEL_THREADS
    flags, moved = _KERNEL_THREAD if kernel else 64, 0 if kernel else number + 1
    stat = f"{pid} (postgres) {state} 1 0 0 0 -1 {flags} 5 0 6 0 3 4 0 0 20 0 1 0 {pid} 8192 100"
    status = "Name:\tpostgres\nState:\t{}\n" + "Filler:\t0\n" * 50
    files = {
        "stat": f"{stat} {'0 ' * 30}\n",
        "io": IO.format(moved, moved * 4096),
        "cgroup": "0::/system.slice/postgresql.service\n",
        "status": f"{status.format(state)}voluntary_ctxt_switches:\t700\n",
    }
    if blocked:
        files |= {
            "wchan": "folio_wait_bit_common",
            "stack": STACK,
            "syscall": "74 0x5 0x0 0x0 0x0 0x0 0x0 0x7ffc1e30 0x7f0ac5b0\n",
            "fdinfo/5": "pos:\t0\nflags:\t02\nmnt_id:\t30\nino:\t7\n",
            "fd/5": "",
            f"task/{pid}/io": IO.format(moved, moved * 4096),
            "mountinfo": "30 1 8:0 / /srv/db rw - ext4 /dev/sda rw\n",
        }
    return {f"/proc/{pid}/{name}": text for name, text in files.items()}


def _machine(directory: str) -> Machine:
    """Write the files of a host, of which the first processes are blocked."""
    children = range(1000 + PROCESSES - KERNEL_THREADS, 1000 + PROCESSES)
    files = {
        "/proc/uptime": "1000.00 50.00\n",
        "/proc/2/task/2/children": " ".join(map(str, children)),
    }
    for number in range(PROCESSES):
        files |= _process(number, blocked=number < BLOCKED)
    for name, text in files.items():
        path = Path(directory + name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/fd/5"):
            path.symlink_to("/srv/db/pg_wal/000000010000000000000001")
        else:
            path.write_text(text)
    for number in range(BLOCKED):
        namespace = Path(f"{directory}/proc/{1000 + number}/ns/mnt")
        namespace.parent.mkdir()
        namespace.symlink_to("mnt:[4026531841]")
    return Machine(directory)


def _signals() -> tuple[Simulation, Callable[[tasks.BlockedTasks, float], None]]:
    """Return what steps the signal of waits alone, on a host with two disks."""
    simulation = Simulation()
    for name in ("sda", "sdb"):
        simulation.add_disk(name)
    simulation.run(70)
    engine = simulation.host.engine
    assert engine is not None
    known = engine.signals._state
    states = dict(known.groups)
    snapshot, derived = engine.last, engine.signals._derived

    def step(seen: tasks.BlockedTasks, at: float) -> None:
        changed = {**snapshot_fields(snapshot), "tasks": seen}
        inputs = Inputs(
            START + at, UPTIME + at, type(snapshot)(**changed), frozenset({"tasks", "stat"})
        )
        view = View(inputs, derived, known.slow_samples, states)
        states[group.GROUP.name], _ = group.GROUP.step(states[group.GROUP.name], view)

    assert isinstance(known, SignalStates)
    return simulation, step


def snapshot_fields(snapshot: object) -> dict[str, object]:
    """Return the fields of a snapshot by name."""
    return {name: getattr(snapshot, name) for name in type(snapshot).__slots__}


def bench_waits() -> None:
    """Measure polls at 64 tasks that are always blocked, and sweeps, of 400 processes."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        machine = _machine(directory)
        _, step = _signals()
        at = 1000.0

        def poll() -> None:
            nonlocal at
            at += MANY_SECONDS
            text = json.dumps(tasks.to_json(read_waiting_tasks(machine)))
            seen = tasks.from_json(text.replace('"boot_seconds": 1000.0', f'"boot_seconds": {at}'))
            assert len(seen.tasks) == BLOCKED
            step(seen, at)

        poll()
        took = cpu_milliseconds(poll, POLLS)
        what = f"{BLOCKED} of {PROCESSES} processes always blocked"
        row(f"{what}: a poll, ms", f"{took:.1f}")
        row(f"  each {BUSY_SECONDS:g} s, ms per second", f"{took / BUSY_SECONDS:.2f}", "<= 3")
        row(
            f"  each {MANY_SECONDS:g} s while a wait is followed, ms per second",
            f"{took / MANY_SECONDS:.2f}",
            "<= 3",
        )

        def sweep() -> None:
            process_io.from_json(json.dumps(process_io.to_json(process_io.read_sweep(machine))))

        sweep()
        took = cpu_milliseconds(sweep, POLLS)
        row(
            f"a sweep of {PROCESSES} processes each {process_io.SOURCE.period_seconds:g} s, ms per"
            " second",
            f"{took / process_io.SOURCE.period_seconds:.2f}",
            "<= 0.3",
        )


if __name__ == "__main__":
    head()
    speed()
    bench_waits()
