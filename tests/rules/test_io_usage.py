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
            "who writes: 84.1 % postgres (postgresql.service, pid 812 and 1 more, 212 MiB/s),"
            " 7.9 % postgres (other.service, pid 900, 20 MiB/s), 6 % rsync (backup.service,"
            " pid 901, 15 MiB/s)"
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
            "who writes: 10 % w100 (pid 100, 1 MiB/s), 10 % w101 (pid 101, 1 MiB/s), 10 % w102"
            " (pid 102, 1 MiB/s), 70 % others (processes that could not be read: 7)"
        )
    ]


def test_a_hundred_small_ones_name_the_first() -> None:
    """No share reaches 5 %: one name is better than none."""
    old = [process(pid, f"w{pid}") for pid in range(100, 200)]
    new = [replace(p, write_bytes=5 * MIB) for p in old]
    (line,) = io_usage.sentences(between(old, new), STALL)
    assert line == "who writes: 1 % w100 (pid 100, 1 MiB/s), 99 % others"


def test_phantom_reads_are_about_readers() -> None:
    """The program that writes is another one."""
    old = [process(10, "writer", "w.service"), process(11, "questdb", "q.service")]
    new = [replace(old[0], write_bytes=500 * MIB), replace(old[1], read_bytes=50 * MIB)]
    found = between(old, new)
    assert io_usage.sentences(found, PHANTOM) == [
        "who reads on this host: 100 % questdb (q.service, pid 11, 10 MiB/s)"
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
            "who writes: 75 % dd (dd.service, pid 10, 30 MiB/s), 25 % programs that ended"
            " meanwhile (10 MiB/s)"
        )
    ]


def test_a_script_whose_programs_end_is_named_with_them() -> None:
    """One dd after the other."""
    script = process(700, "backup.sh", "backup.service")
    child = process(701, "dd", "backup.service", parent=700, writes=10 * MIB)
    after = [replace(script, write_bytes=60 * MIB)]
    assert io_usage.sentences(between([script, child], after), STALL) == [
        (
            "who writes: 100 % backup.sh (backup.service, pid 700, 10 MiB/s, with 1 that it"
            " started and that ended)"
        )
    ]


def test_who_wrote_before_is_named_where_nothing_is_written_now() -> None:
    """Dd has written all into the page cache, and waits in fsync.

    Another one wrote more since it started a day ago; a third, a little within a tenth of a second.
    """
    old = (
        process(10, "dd", "dd.service", writes=8 << 30, start=8_640_400),
        process(1, "systemd", writes=1 << 50),
        process(812, "postgres", writes=1 << 40),
        process(900, "cron", writes=100 * MIB, start=8_650_490),
    )
    first, second = (IoReading(at, Sweep(at, old), None) for at in (86_500.0, 86_505.0))
    found = io_usage.usage(first, second)
    assert found is not None
    assert io_usage.sentences(found, STALL) == [
        (
            "who writes: no program wrote noticeably within 5 s; highest mean rate since its"
            " start: dd (dd.service, pid 10), 8 GiB in 1 min 41 s"
        )
    ]
    assert io_usage.sentences(found, PHANTOM) == [
        "who reads on this host: no program read noticeably within 5 s"
    ]
    assert io_usage.sentences(between([], []), STALL) == [
        "who writes: no program wrote noticeably within 5 s"
    ]


def test_who_filled_the_page_cache_is_named_while_all_writers_are_paused() -> None:
    """For five minutes; then, and if another one writes, it is no longer of interest."""
    old = process(10, "dd", "dd.service")
    filled = replace(old, write_bytes=50 * MIB)
    wrote, paused = between([old], [filled]), between([filled], [filled])
    line = "who writes: no program wrote noticeably within 5 s; {} before: 100 % dd"
    line += " (dd.service, pid 10, 10 MiB/s)"
    first = io_usage.following(wrote, paused, 50.0)
    second = io_usage.following(first, paused, 60.0)
    assert io_usage.sentences(first, STALL) == [line.format("50 s")]
    assert io_usage.sentences(second, STALL) == [line.format("1 min 50 s")]
    assert io_usage.following(second, wrote, 60.0) == wrote
    assert io_usage.following(second, paused, 200.0) == paused
    assert io_usage.sentences(first, PHANTOM) == [
        "who reads on this host: no program read noticeably within 5 s"
    ]


def test_that_no_program_wrote_is_a_guess_if_some_could_not_be_read() -> None:
    """The one that writes may be among them."""
    assert io_usage.sentences(between([], [], left_out=7), STALL) == [
        "who writes: no program wrote noticeably within 5 s (processes that could not be read: 7)"
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
    assert io_usage.sentences(found, STALL) == ["who writes: 100 % a.service (1 MiB/s)"]
    assert io_usage.samples(found) == []
    assert READS not in found.by
    assert found.problem == "no probe"


SDB = {"8:16": "sdb"}


@pytest.mark.parametrize(
    ("sentence", "by_units", "in_all", "expected"),
    [
        (
            "who writes most to another disk writes little to this one",
            {"log": 5 * MIB},
            5 * MIB,
            "who writes to sdb: 100 % log.service (1 MiB/s)",
        ),
        (
            "half of it is of no unit",
            {"log": 20 * MIB},
            40 * MIB,
            "who writes to sdb: 50 % log.service (4 MiB/s), 50 % others",
        ),
        ("most of it is of units that are not accounted", {"log": 5 * MIB}, 50 * MIB, ""),
        ("hardly anything reaches a disk that hangs", {"log": 4096}, 4096, ""),
        ("no unit is accounted", {}, 50 * MIB, ""),
    ],
)
def test_who_writes_to_the_disk_of_a_mail_is_of_that_disk_or_said_of_the_host(
    sentence: str, by_units: dict[str, int], in_all: int, expected: str
) -> None:
    """Beside a copy of 500 MiB to another disk; a process has no bytes for each disk."""
    copy = process(10, "cp", "copy.service")

    def reading(at: float, part: int) -> IoReading:
        units = {"log": 0, "db": 0} | {unit: did * part for unit, did in by_units.items()}
        groups = [
            CgroupIo(f"/{u}", f"{u}.service", 0.0, 0.0, 0, did, {"8:16": (0, did)})
            for u, did in units.items()
        ]
        other = CgroupIo("/copy", "copy.service", 0.0, 0.0, 0, 0, {"8:32": (0, part * 500 * MIB)})
        sweep = Sweep(at, (replace(copy, write_bytes=part * 500 * MIB),))
        disks = {"8:16": (0, in_all * part), "8:32": (0, part * 500 * MIB)}
        return IoReading(at, sweep, (*groups, other), disk_bytes=disks)

    found = io_usage.usage(reading(100.0, 0), reading(105.0, 1))
    assert found is not None
    (line, *_) = io_usage.sentences(found, {Condition.DEVICE_HANG}, SDB)
    on_host = "who writes on this host: 100 % cp (copy.service, pid 10, 100 MiB/s)"
    assert line == (expected or on_host), sentence
    assert io_usage.sentences(found, STALL, SDB)[0] == on_host.replace(" on this host", "")


def test_more_units_than_were_read_are_in_the_sentence_about_units() -> None:
    """The one that waits most may be another one; programs are counted on their own."""
    cut_off = " (only the first 1000 control groups were read)"
    before = (CgroupIo("/a.service", "a.service", 0.9, 0.8, 0, 0),)
    after = (CgroupIo("/a.service", "a.service", 0.9, 0.8, 0, 5 * MIB),)
    first = IoReading(100.0, None, before, groups_cut_off=True)
    units = io_usage.usage(first, replace(first, uptime_seconds=105.0, groups=after))
    assert units is not None
    assert io_usage.sentences(units, STALL) == [
        f"who writes: 100 % a.service (1 MiB/s){cut_off}",
        f"who waits: a.service 80 % of the last 10 s{cut_off}",
    ]
    programs = replace(units, has_programs=True)
    assert io_usage.sentences(programs, STALL)[0] == "who writes: 100 % a.service (1 MiB/s)"


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
