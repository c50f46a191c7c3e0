"""Collectors on their schedule, and one that hangs."""

from __future__ import annotations

import itertools
import os
import queue
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.memory import write_tree

from iowarden.collectors import registry
from iowarden.collectors.machine import Machine
from iowarden.collectors.model import AbsentError, Outcome, Reading
from iowarden.daemon.polling.scheduler import (
    MAX_STUCK_PARTS,
    NEXT_STUCK_SECONDS,
    STUCK_SECONDS,
    SourceScheduler,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.collectors.filesystem.statfs import Filesystems
    from iowarden.collectors.source import Source

DEADLINE_SECONDS = 20.0


def source(name: str, **changes: object) -> Source:
    """Return a collector of the table, changed."""
    return replace(next(s for s in registry.SOURCES if s.name == name), **changes)  # type: ignore[arg-type]


def test_each_source_is_read_in_its_period(tmp_path: Path) -> None:
    """One second for '/proc/stat', fifteen for the sysctls, or as configured."""
    sources = (source("stat"), source("vm_sysctl"), source("pressure"))
    readers = SourceScheduler(
        sources, {"pressure": 5.0}, lambda: Machine(str(tmp_path)), lambda: 0.0, lambda _: None
    )
    names = [r.source for second in range(31) for r in readers.run(float(second))]
    assert names.count("stat") == 31
    assert names.count("vm_sysctl") == 3
    assert names.count("pressure") == 7


def test_the_work_of_an_interval_is_spread_over_its_seconds(tmp_path: Path) -> None:
    """All collectors are polled at the start, then each every 15 s, and few in one second.

    What may hang is polled shortly before the rules of that interval, so that these do not wait
    another interval for it.
    """
    slow = [s for s in registry.SOURCES if s.period_seconds == 15]
    loop = [replace(s, read=lambda _: None) for s in slow if not s.may_hang]
    readers = SourceScheduler(
        loop, {}, lambda: Machine(str(tmp_path)), lambda: 0.0, lambda _: None, spread=True
    )
    polled = {now: [r.source for r in readers.run(now + 0.3)] for now in map(float, range(61))}
    assert len(polled[0.0]) == len(loop) > 4
    assert max(len(names) for now, names in polled.items() if now) == 1
    for source_ in loop:
        times = [now for now, names in polled.items() if source_.name in names]
        assert {after - before for before, after in itertools.pairwise(times[1:])} == {15.0}
        assert times[1] <= 15.0
    readers.read_now(["bdi"])
    assert "bdi" in [r.source for r in readers.run(61.3)]  # and then in its own second again
    again = [now for now in range(62, 92) if "bdi" in [r.source for r in readers.run(now + 0.3)]]
    assert [now % 15 for now in again] == [next(n for n in polled if n and "bdi" in polled[n])] * 2

    requested: list[tuple[str, float]] = []
    now = 0.0

    def read(name: str) -> Callable[[Machine], None]:
        return lambda _: requested.append((name, now))

    threads = [replace(s, read=read(s.name), parts=None) for s in slow if s.may_hang]
    answers: queue.SimpleQueue[Reading] = queue.SimpleQueue()
    readers = SourceScheduler(threads, {}, Machine, lambda: now, answers.put, spread=True)
    for now in map(float, range(31)):
        readers.run(now)
        while readers.waiting():
            readers.finished(answers.get(timeout=DEADLINE_SECONDS))
    assert {when % 15 for _, when in requested if when} <= {10.0, 11.0, 12.0, 13.0}
    assert {Counter(name for name, _ in requested)[s.name] for s in threads} == {3}


def test_a_late_tick_does_not_make_a_source_catch_up(tmp_path: Path) -> None:
    """After a suspend of one minute a collector is polled once, not sixty times."""
    readers = SourceScheduler(
        (source("stat"),), {}, lambda: Machine(str(tmp_path)), lambda: 0.0, lambda _: None
    )
    readers.run(0.0)
    assert [len(readers.run(now)) for now in (60.0, 60.2, 61.0)] == [1, 0, 1]


def test_a_source_that_hangs_is_called_stuck_once_and_never_twice_at_a_time(tmp_path: Path) -> None:
    """A read that does not return: reported after ten seconds, no second run, then recovered."""
    calls: queue.SimpleQueue[str] = queue.SimpleQueue()
    answers: queue.SimpleQueue[Reading] = queue.SimpleQueue()
    release = threading.Event()

    def hang(_: Machine) -> str:
        calls.put("called")
        release.wait(DEADLINE_SECONDS)
        return "well"

    hanging = source("block", read=hang, period_seconds=5.0)
    readers = SourceScheduler(
        (hanging,), {}, lambda: Machine(str(tmp_path)), lambda: 0.0, answers.put
    )
    assert readers.run(0.0) == []
    assert calls.get(timeout=DEADLINE_SECONDS) == "called"
    told = [r for second in range(1, 60) for r in readers.run(float(second))]
    assert [r.outcome for r in told] == [Outcome.STUCK]
    assert told[0].duration_seconds > STUCK_SECONDS
    assert calls.empty()
    release.set()
    answer = answers.get(timeout=DEADLINE_SECONDS)
    assert answer.value == "well"
    readers.finished(answer)
    readers.run(60.0)
    assert calls.get(timeout=DEADLINE_SECONDS) == "called"


def test_a_mistake_of_ours_in_a_collector_is_an_outcome_with_its_traceback(tmp_path: Path) -> None:
    """The daemon continues, and the log has what is needed for a fix."""

    def broken(_: Machine) -> None:
        raise KeyError("sda")

    readers = SourceScheduler(
        (source("stat", read=broken),),
        {},
        lambda: Machine(str(tmp_path)),
        lambda: 0.0,
        lambda _: None,
    )
    (reading,) = readers.run(0.0)
    assert reading.outcome is Outcome.BUG
    assert "KeyError: 'sda'" in reading.error


STATVFS = (
    "device_number {}\nblock_bytes 4096\nfragment_bytes 4096\nblocks 1000\nblocks_free 500\n"
    "blocks_available 400\nfiles 100\nfiles_free 90\n"
)


class DeadServers(Machine):
    """A machine on which statvfs of some mounts does not return before they are released."""

    def __init__(self, path: str, faults: Faults) -> None:
        """Share the faults with the Roots of the other threads."""
        super().__init__(path)
        self.faults = faults

    def statvfs(self, path: str) -> str:
        """Block where the fault is."""
        self.faults.calls.put(path)
        release = self.faults.dead.get(path)
        if release is not None:
            release.wait(DEADLINE_SECONDS)
        return super().statvfs(path)


class Faults:
    """NFS mounts, some of them dead, the clock, and the readings of the collectors."""

    def __init__(self, directory: Path, mounts: int, dead: range) -> None:
        """Mount '/n/0' and so on; those in `dead` do not answer."""
        self.now = 0.0
        self.calls: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[Reading] = queue.SimpleQueue()
        self.dead = {f"/n/{n}": threading.Event() for n in dead}
        lines = [f"{n} 1 0:{n} / /n/{n} rw - nfs4 server:/{n} rw\n" for n in range(mounts)]
        files = {f"/n/{n}/.statvfs": STATVFS.format(f"0:{n}") for n in range(mounts)}
        write_tree(directory, {"/proc/1/mountinfo": "".join(lines), **files})
        self.readers = SourceScheduler(
            (source("filesystem"),),
            {},
            lambda: DeadServers(str(directory), self),
            lambda: self.now,
            self.answers.put,
        )

    def run_to(self, now: float) -> list[Reading]:
        """Run one tick of the loop at this time."""
        self.now = now
        return self.readers.run(now)

    def called(self, path: str) -> None:
        """Wait until statvfs of this path is running."""
        while self.calls.get(timeout=DEADLINE_SECONDS) != path:
            pass

    def answer(self) -> Filesystems:
        """Wait for the reading and return its value."""
        reading = self.answers.get(timeout=DEADLINE_SECONDS)
        self.readers.finished(reading)
        assert reading.outcome is Outcome.OK, reading.error
        value: Filesystems = reading.value
        return value


def threads() -> int:
    """Return how many threads of this process read file systems."""
    return sum(thread.name == "read filesystem" for thread in threading.enumerate())


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until other threads have reached a condition."""
    deadline = threading.Event()
    for _ in range(int(DEADLINE_SECONDS / 0.01)):
        if condition():
            return
        deadline.wait(0.01)
    raise AssertionError("not in time")


def test_a_dead_mount_does_not_keep_the_others_from_being_read(tmp_path: Path) -> None:
    """It is skipped with a reason, never polled twice at a time, polled again once it answers."""
    before = threads()
    faults = Faults(tmp_path / "m", 3, range(1, 2))
    assert faults.run_to(0.0) == []
    faults.called("/n/1")
    assert faults.run_to(STUCK_SECONDS) == []
    assert faults.run_to(STUCK_SECONDS + 1) == []
    value = faults.answer()
    assert set(value.usage) == {"/n/0", "/n/2"}
    assert value.unreadable["/n/1"].reason == f"no answer for {STUCK_SECONDS + 1:.0f} s"
    assert value.usage["/n/2"].available_bytes == 400 * 4096
    faults.run_to(30.0)
    assert faults.answer().unreadable["/n/1"].reason == "no answer for 30 s"
    while not faults.calls.empty():
        assert faults.calls.get() != "/n/1"
    assert threads() == before + 2
    faults.dead["/n/1"].set()
    wait_for(lambda: threads() == before + 1)
    faults.run_to(45.0)
    value = faults.answer()
    assert (set(value.usage), value.unreadable) == ({"/n/0", "/n/1", "/n/2"}, {})
    assert faults.answers.empty()


def test_mounts_of_a_dead_server_are_found_out_quickly(tmp_path: Path) -> None:
    """After the first, each gets one second: dead mounts do not use up the time of the others."""
    faults = Faults(tmp_path / "m", 6, range(1, 5))
    faults.run_to(0.0)
    faults.called("/n/1")
    now = STUCK_SECONDS + 0.5
    for path in ("/n/2", "/n/3", "/n/4"):
        assert faults.run_to(now) == []
        faults.called(path)
        now += NEXT_STUCK_SECONDS + 0.5
    faults.run_to(now)
    value = faults.answer()
    assert (set(value.usage), len(value.unreadable)) == ({"/n/0", "/n/5"}, 4)
    for event in faults.dead.values():
        event.set()


def test_a_slow_mount_is_waited_for(tmp_path: Path) -> None:
    """Below the limit nothing is reported, also in the run after one that met a dead mount."""
    faults = Faults(tmp_path / "m", 3, range(1, 2))
    faults.run_to(0.0)
    faults.called("/n/1")
    faults.run_to(STUCK_SECONDS + 1)
    assert set(faults.answer().usage) == {"/n/0", "/n/2"}
    faults.called("/n/2")
    faults.dead["/n/2"] = threading.Event()
    before = threads()
    faults.run_to(30.0)
    faults.called("/n/2")
    assert faults.run_to(30.0 + STUCK_SECONDS) == []
    assert threads() == before
    faults.dead["/n/2"].set()
    assert set(faults.answer().usage) == {"/n/0", "/n/2"}
    faults.dead["/n/1"].set()


def test_threads_that_wait_for_dead_mounts_are_counted(tmp_path: Path) -> None:
    """With more dead mounts than the limit the whole collector is stuck, and reported once."""
    faults = Faults(tmp_path / "m", MAX_STUCK_PARTS + 2, range(MAX_STUCK_PARTS + 1))
    before = threads()
    now, told = 0.0, faults.run_to(0.0)
    for number in range(MAX_STUCK_PARTS + 1):
        faults.called(f"/n/{number}")
        now += STUCK_SECONDS + 0.5
        told += faults.run_to(now)
    told += faults.run_to(now + 60.0)
    assert [reading.outcome for reading in told] == [Outcome.STUCK]
    assert threads() == before + MAX_STUCK_PARTS
    for event in faults.dead.values():
        event.set()
    wait_for(lambda: threads() <= before)
    # The last one was not abandoned: its run continues to the end.
    assert len(faults.answer().unreadable) == MAX_STUCK_PARTS


def test_a_source_of_parts_that_hangs_ahead_of_them_is_stuck(tmp_path: Path) -> None:
    """Reading the list of parts hangs: no part is the cause, and no thread is added."""
    release = threading.Event()
    called = threading.Event()

    def hang(_: Machine, __: object) -> None:
        called.set()
        release.wait(DEADLINE_SECONDS)
        raise AbsentError("gone")

    answers: queue.SimpleQueue[Reading] = queue.SimpleQueue()
    hanging = source("filesystem", parts=hang)
    readers = SourceScheduler(
        (hanging,), {}, lambda: Machine(str(tmp_path)), lambda: 0.0, answers.put
    )
    readers.run(0.0)
    assert called.wait(DEADLINE_SECONDS)
    assert [r.outcome for s in range(1, 40) for r in readers.run(float(s))] == [Outcome.STUCK]
    release.set()
    assert answers.get(timeout=DEADLINE_SECONDS).outcome is Outcome.ABSENT


@pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="needs root and FUSE"
)
def test_a_mount_whose_server_never_answers(tmp_path: Path) -> None:
    """A real statvfs that hangs, in a namespace where this is the only dead mount."""
    answer = subprocess.run(
        [
            "unshare",
            "-mpf",
            "--mount-proc",
            "--kill-child",
            sys.executable,
            __file__,
            str(tmp_path),
        ],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS * 3,
        check=False,
    )
    if "Operation not permitted" in answer.stderr:
        pytest.skip("a container may not mount")
    assert answer.stdout.splitlines() == [
        "True no",
        f"'{tmp_path}': Transport endpoint is not connected",
    ], answer.stderr


def _mount_dead_server(mount_point: str) -> None:
    """Mount a FUSE file system without a server; print what is reported, now and after its end."""
    server = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0,subtype=sshfs"
    subprocess.run(
        ["mount", "-i", "-t", "fuse", "-o", options, "server:/x", mount_point],
        pass_fds=(server,),
        check=True,
    )
    answers: queue.SimpleQueue[Reading] = queue.SimpleQueue()
    times = iter(range(10**6))
    now = 0.0
    readers = SourceScheduler((source("filesystem"),), {}, Machine, lambda: now, answers.put)

    def reading() -> Filesystems:
        nonlocal now
        while answers.empty():
            now = float(next(times))
            readers.run(now)
            threading.Event().wait(0.01)
        found = answers.get()
        readers.finished(found)
        value: Filesystems = found.value
        return value

    value = reading()
    print("/" in value.usage, value.unreadable[mount_point].reason.split()[0])
    os.close(server)
    wait_for(lambda: threads() == 1)
    print(reading().unreadable[mount_point].reason)


if __name__ == "__main__":
    _mount_dead_server(sys.argv[1])
