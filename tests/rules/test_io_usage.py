"""Who reads, who writes and who waits: ranked, and as sentences of a mail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iowarden.collectors.procfs.cgroup_io import CgroupIo
from iowarden.collectors.procfs.process_io import ProcessIo, Sweep
from iowarden.rules import io_usage
from iowarden.rules.conditions.condition import Condition
from iowarden.rules.io_usage import READS, WRITES, IoReading, IoUsage, Waiter

MIB = 1 << 20
STALL = {Condition.WRITE_STALL}
PHANTOM = {Condition.PHANTOM_READS}


def process(
    pid: int,
    command: str,
    unit: str = "",
    *,
    reads: int = 0,
    writes: int = 0,
    parent: int = 1,
    start: int = 400,
) -> ProcessIo:
    """Return a process with what it did so far."""
    return ProcessIo(pid, start, parent, command, unit, reads, writes, 0)


def between(
    before: list[ProcessIo],
    after: list[ProcessIo],
    groups: tuple[CgroupIo, ...] | None = None,
    left_out: int = 0,
) -> IoUsage:
    """Return what was done within 5 s."""
    found = io_usage.usage(
        IoReading(100.0, Sweep(100.0, tuple(before)), groups),
        IoReading(105.0, Sweep(105.0, tuple(after), tuple(range(left_out))), groups),
    )
    assert found is not None
    return found


def test_a_database_writes_most() -> None:
    """All of its processes together; the number is that of the busiest."""
    old = [
        process(pid, name, unit)
        for pid, name, unit in (
            (812, "postgres", "postgresql.service"),
            (815, "postgres", "postgresql.service"),
            (900, "postgres", "other.service"),
            (901, "rsync", "backup.service"),
            (902, "journald", ""),
            (903, "reader", ""),
        )
    ]
    rates = (200, 12, 20, 15, 5, 0)
    new = [replace(p, write_bytes=5 * MIB * n) for p, n in zip(old, rates, strict=True)]
    found = between(old, new)
    assert io_usage.sentences(found, STALL) == [
        (
            "who writes: 84 % postgres (postgresql.service, pid 812 and 1 more, 212.0 MiB/s), 8 %"
            " postgres (other.service, pid 900, 20.0 MiB/s), 6 % rsync (backup.service, pid 901,"
            " 15.0 MiB/s)"
        )
    ]
    assert found.bytes_per_second(WRITES) == 252 * MIB
    assert io_usage.samples(found) == [
        ("iowarden_processes_read_bytes_per_second", (), 0.0),
        ("iowarden_processes_written_bytes_per_second", (), 252.0 * MIB),
    ]


def test_the_rest_is_others_and_what_was_left_out_is_counted() -> None:
    """Ten programs with a tenth each: three are named."""
    old = [process(pid, f"w{pid}") for pid in range(100, 110)]
    new = [replace(p, write_bytes=5 * MIB) for p in old]
    assert io_usage.sentences(between(old, new, left_out=7), STALL) == [
        (
            "who writes: 10 % w100 (pid 100, 1.0 MiB/s), 10 % w101 (pid 101, 1.0 MiB/s), 10 % w102"
            " (pid 102, 1.0 MiB/s), 70 % others (processes that could not be read: 7)"
        )
    ]


def test_a_hundred_small_ones_name_the_first() -> None:
    """No share reaches 5 %: one name is better than none."""
    old = [process(pid, f"w{pid}") for pid in range(100, 200)]
    new = [replace(p, write_bytes=5 * MIB) for p in old]
    (line,) = io_usage.sentences(between(old, new), STALL)
    assert line == "who writes: 1 % w100 (pid 100, 1.0 MiB/s), 99 % others"


def test_phantom_reads_are_about_readers() -> None:
    """The program that writes is another one."""
    old = [process(10, "writer", "w.service"), process(11, "questdb", "q.service")]
    new = [replace(old[0], write_bytes=500 * MIB), replace(old[1], read_bytes=50 * MIB)]
    found = between(old, new)
    assert io_usage.sentences(found, PHANTOM) == [
        "who reads: 100 % questdb (q.service, pid 11, 10.0 MiB/s)"
    ]
    both = io_usage.sentences(found, {Condition.DEVICE_HANG, Condition.WRITE_STALL})
    assert [line.split(":")[0] for line in both] == ["who writes", "who reads"]
    assert io_usage.sentences(found, {Condition.DISK_FAILING}) == []


def test_what_init_inherited_ended_meanwhile() -> None:
    """A unit was stopped: nothing that still runs has written its bytes."""
    init, shell = process(1, "systemd", "init.scope", start=1), process(700, "sh", "b.service")
    writer = process(10, "dd", "dd.service")
    after = [replace(init, write_bytes=50 * MIB), replace(writer, write_bytes=150 * MIB)]
    assert io_usage.sentences(between([init, shell, writer], after), STALL) == [
        (
            "who writes: 75 % dd (dd.service, pid 10, 30.0 MiB/s), 25 % programs that ended"
            " meanwhile (10.0 MiB/s)"
        )
    ]


def test_a_script_whose_programs_end_is_named_with_them() -> None:
    """One dd after the other."""
    script = process(700, "backup.sh", "backup.service")
    child = process(701, "dd", "backup.service", parent=700, writes=10 * MIB)
    after = [replace(script, write_bytes=60 * MIB)]
    assert io_usage.sentences(between([script, child], after), STALL) == [
        (
            "who writes: 100 % backup.sh (backup.service, pid 700, 10.0 MiB/s, with 1 that it"
            " started and that ended)"
        )
    ]


def test_who_wrote_before_is_named_where_nothing_is_written_now() -> None:
    """Dd has written all into the page cache, and waits in fsync."""
    old = [process(10, "dd", "dd.service", writes=8 << 30), process(1, "systemd", writes=1 << 40)]
    assert io_usage.sentences(between(old, old), STALL) == [
        (
            "who writes: no program wrote noticeably within 5 s; most since its start: dd"
            " (dd.service, pid 10), 8.0 GiB"
        )
    ]
    assert io_usage.sentences(between(old, old), PHANTOM) == [
        "who reads: no program read noticeably within 5 s"
    ]
    assert io_usage.sentences(between([], []), STALL) == [
        "who writes: no program wrote noticeably within 5 s"
    ]


def test_units_that_wait() -> None:
    """From 10 % on, the longest first."""
    groups = tuple(
        CgroupIo(f"/{unit}", unit, some, full, None, None)
        for unit, some, full in (
            ("cron.service", 0.9, 0.05),
            ("nginx.service", 0.95, 0.84),
            ("db.service", 0.9, 0.5),
            ("odd.service", None, None),
        )
    )
    found = between([], [], groups)
    assert io_usage.sentences(found, STALL)[1:] == [
        "who waits: nginx.service 84 %, db.service 50 % of the last 10 s"
    ]
    assert found.waiters is not None
    assert found.waiters[0] == Waiter("nginx.service", 0.95, 0.84)
    assert found.waiters[-1] == Waiter("odd.service", 0.0, 0.0)


def test_without_a_probe_units_are_known_where_the_kernel_counts_them() -> None:
    """IOAccounting=yes; the metrics and rules do not take it for programs."""
    before = (
        CgroupIo("/a.service", "a.service", 0.0, 0.0, 0, 0),
        CgroupIo("/b.service", "b.service", 0.0, 0.0, None, None),
    )
    after = (
        CgroupIo("/a.service", "a.service", 0.0, 0.0, 0, 5 * MIB),
        CgroupIo("/b.service", "b.service", 0.0, 0.0, None, None),
        CgroupIo("/new.service", "new.service", 0.0, 0.0, 0, MIB),
    )
    found = io_usage.usage(
        IoReading(100.0, None, before, "no probe"), IoReading(105.0, None, after, "no probe")
    )
    assert found is not None
    assert io_usage.sentences(found, STALL) == ["who writes: 100 % a.service (1.0 MiB/s)"]
    assert io_usage.samples(found) == []
    assert READS not in found.by
    assert found.problem == "no probe"


def test_nothing_readable_is_no_sentence() -> None:
    """Neither a probe nor control groups of version 2."""
    nothing = IoReading(100.0, None, None, "no probe", "no cgroup2")
    found = io_usage.usage(nothing, replace(nothing, uptime_seconds=105.0))
    assert found is not None
    assert io_usage.sentences(found, {*Condition}) == []
    assert found.waiters is None


@pytest.mark.parametrize("later", [100.0, 100.9, 50.0])
def test_readings_at_one_moment_are_no_result(later: float) -> None:
    """In a replay the same one may be read twice."""
    sweep = Sweep(100.0, ())
    again = Sweep(later, ())
    assert io_usage.usage(IoReading(1.0, sweep, None), IoReading(9.0, again, None)) is None
