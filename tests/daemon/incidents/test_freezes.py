"""Programs that stand still behind the storage, from files of the kernel to mails."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from support.blocked_server import FROZEN, PERIOD, SP_PC, Server, backend
from support.simulation import START

from iowarden.rules.notice import Reason
from iowarden.rules.notices import report, who_waits
from iowarden.rules.signals.waits import group
from iowarden.rules.signals.waits.freeze_cause import FreezeCause
from iowarden.rules.signals.waits.wait_targets import HOST


@pytest.fixture
def server() -> Server:
    """A server that has written in the background for a minute."""
    made = Server()
    for _ in range(60):
        made.pass_second((), queued=600_000_000)
    return made


def test_a_database_that_freezes_20_s_of_each_minute_is_mailed_at_the_first_freeze(
    server: Server,
) -> None:
    """3.2 GB queued; the disks work at their 78 MB/s all the time; 25 backends wait."""
    began = server.second + PERIOD - FROZEN
    server.freeze_each_minute(12, lambda n: [backend(i, n) for i in range(25)])
    mails = server.subjects()
    first, *others = mails
    assert first[0] - began <= 25.0
    assert {key for _, _, key in mails} == {first[2]}, "one incident"
    assert "resolved" not in [reason for _, reason, _ in mails]
    assert 1 <= len(others) <= 4, "the third freeze, the tenth, and that it became critical"


def test_what_the_mail_says(server: Server) -> None:
    """Who waits in which call and file, since when, what is queued, and who wrote it."""
    server.freeze_each_minute(1, lambda n: [backend(i, n) for i in range(25)])
    (alert,) = [
        alert
        for alert in server.machine.host.engine.rules.alerts()  # type: ignore[union-attr]
        if alert.name == "Freeze" and alert.active and alert.severity.name == "WARNING"
    ]
    summary = alert.annotation("summary")
    assert summary.startswith("programs blocked: 3 GiB queued, ")
    harm = server.machine.host.engine.signals.harm().last_harms["md0"][1]  # type: ignore[union-attr]
    assert [cause.command for cause in harm.causes] == ["pg_restore"]
    assert len(harm.victims) == 25


def test_a_short_wait_between_two_freezes_does_not_hide_who_was_blocked(server: Server) -> None:
    """A commit of a second, polled as it waits: the 25 of the freeze are still shown."""
    server.freeze_each_minute(1, lambda n: [backend(i, n) for i in range(25)])
    for tasks in ((), (), [backend(99)], [backend(99)]):
        server.machine.host._due["tasks"] = 0.0
        server.pass_second(tasks)
    harm = server.machine.host.engine.signals.harm()  # type: ignore[union-attr]
    assert [victim.wait.task.pid for victim in harm.harms["md0"].victims] == [999]
    assert len(harm.last_harms["md0"][1].victims) == 25


def test_who_opens_a_file_on_a_frozen_file_system_does_not_wait_for_another_disk(
    server: Server,
) -> None:
    """Nobody knows which file an open is about; that it waits for a thaw its stack shows."""
    opening: dict[str, object] = {
        "command": "sh",
        "wait_channel": "percpu_rwsem_wait",
        "stack": ("percpu_rwsem_wait", "mnt_want_write", "path_openat", "__x64_sys_openat"),
        "system_call": f"257 0xffffff9c 0x55d0 0x441 0x1b6 0x0 0x0 {SP_PC}",
        "waits_at": "",
        "file": "",
        "mount": "",
    }
    for _ in range(40):
        server.pass_second([backend(9), *(backend(n, **opening) for n in range(2))], speed=0)
    harm = server.machine.host.engine.signals.harm()  # type: ignore[union-attr]
    assert len(harm.harms[HOST].victims) == 2
    assert harm.causes[HOST] is FreezeCause.FROZEN
    assert harm.causes["md0"] is not FreezeCause.FROZEN


def test_freezes_of_before_a_boot_are_not_those_of_the_disk_that_has_the_name_now(
    server: Server,
) -> None:
    """Whoever waited is gone with the boot; a restart of the service alone changes nothing."""
    server.freeze_each_minute(1, lambda n: [backend(i, n) for i in range(25)])
    harm = server.machine.host.engine.signals.harm()  # type: ignore[union-attr]
    series = harm.devices["md0"].series
    assert series is not None
    last = series.freezes[-1].last_seconds
    assert group.since_boot(harm, last - 60.0).devices == harm.devices
    assert "md0" not in group.since_boot(harm, last + 1.0).devices


def test_the_writer_alone_that_waits_for_its_own_sync_is_silent(server: Server) -> None:
    """pg_restore in fsync for half a minute: the disks complete what it wrote."""
    own = backend(0, pid=400, start_ticks=1_000, command="pg_restore", unit="load.service")
    for _ in range(30):
        server.pass_second([own])
    assert server.subjects() == []


def test_a_thread_that_commits_beside_the_one_that_writes_is_harmed() -> None:
    """mysqld: two log writers in fsync; another thread of their process fills the queue."""
    server = Server()
    server.threads = {400: 4096, 401: 4096, 402: None}
    for _ in range(60):
        server.pass_second((), queued=600_000_000)
    began = server.second
    for _ in range(30):
        server.pass_second(
            [
                backend(0, pid=pid, process=400 if pid != 400 else 0, start_ticks=1_000)
                for pid in (400, 401)
            ]
        )
    first = server.subjects()[0]
    assert first[0] - began <= 25.0


def test_a_program_that_waits_in_open_waits_for_the_device_of_the_others(server: Server) -> None:
    """The descriptor of an open is not one; its lock is held by who waits for the mirror."""
    unnamed = {"waits_at": "", "file": "", "mount": "", "wait_channel": "start_this_handle"}
    for number in range(20):
        server.pass_second(
            [backend(1, number // 6), backend(2, number // 6, command="sh", **unnamed)]
        )
    harm = server.machine.host.engine.signals.harm()  # type: ignore[union-attr]
    assert set(harm.devices) == {"md0"}


def test_who_creates_files_in_a_directory_that_is_being_emptied_waits_behind_who_empties_it(
    server: Server,
) -> None:
    """rm reads bitmaps, each in a moment; four wait in open for the directory's lock meanwhile."""
    stack = ("rwsem_down_write_slowpath", "down_write", "open_last_lookups", "path_openat")
    nowhere = {"waits_at": "", "file": "", "mount": ""}
    opening = nowhere | {
        "command": "smtpd",
        "wait_channel": stack[0],
        "stack": stack,
        "system_call": f"257 0xffffff9c 0x55d0 0x241 0x1b6 0x0 0x0 {SP_PC}",
    }
    deleting = nowhere | {
        "command": "rm",
        "wait_channel": "bit_wait_io",
        "stack": ("bit_wait_io", "__wait_on_buffer", "ext4_read_block_bitmap", "ext4_evict_inode"),
        "system_call": f"263 0xffffff9c 0x55d0 0x0 0x0 0x0 0x0 {SP_PC}",
    }
    began = server.second
    for second in range(20):
        rm = backend(70, **deleting, voluntary_switches=900 + 110 * second)
        tasks = [rm, *(backend(n, **opening) for n in range(4))]
        server.pass_second(tasks, queued=3_000_000, speed=1_000_000)
    ((mailed, _, _),) = server.subjects()
    assert mailed - began <= 20.0
    assert server.machine.host.engine is not None
    harm = server.machine.host.engine.signals.harm()
    assert harm.causes[HOST] is FreezeCause.LOCK
    assert who_waits.sentences(harm.last_harms[HOST][1], 0.0)[-1] == (
        "because of: rm (pid 970), which waits for the disk itself and may hold their lock"
    )


@pytest.mark.parametrize(
    ("sentence", "mounts", "expected"),
    [
        ("one server is silent", ["filer1:/home"], "filer1:/home"),
        ("with two of its mounts", ["filer1:/home", "filer1:/srv"], "filer1:/home"),
        ("two are, and it may be either", ["filer1:/home", "filer2:/srv"], HOST),
    ],
)
def test_a_stat_on_a_silent_server_joins_the_waits_for_that_server(
    server: Server, sentence: str, mounts: list[str], expected: str
) -> None:
    """It has no descriptor; that commits wait for the mirror meanwhile is no reason for that."""
    stats: dict[str, object] = {
        "command": "apache2",
        "wait_channel": "rpc_wait_bit_killable",
        "stack": ("rpc_wait_bit_killable", "nfs4_proc_getattr", "__x64_sys_newfstatat"),
        "system_call": f"262 0xffffff9c 0x55d0 0x7ffc 0x0 0x0 0x0 {SP_PC}",
        "waits_at": "",
        "file": "",
        "mount": "",
    }
    reads = stats | {"system_call": f"0 0x5 0x7f00 0x1000 0x0 0x0 0x0 {SP_PC}"}
    for _ in range(20):
        tasks = [backend(1), *(backend(n, **stats) for n in (2, 3))]
        tasks += [
            backend(n, **(reads | {"waits_at": mount, "file": f"/mnt/{n}"}))
            for n, mount in enumerate(mounts, 4)
        ]
        server.pass_second(tasks)
    harm = server.machine.host.engine.signals.harm()  # type: ignore[union-attr]
    victims = harm.harms[expected].victims
    assert {v.wait.task.pid for v in victims} >= {backend(2).pid, backend(3).pid}, sentence
    assert HOST in harm.harms or expected != HOST, sentence


@pytest.mark.parametrize(("seconds", "mails"), [(20, 0), (45, 1)])
def test_a_file_system_frozen_for_a_snapshot_is_silent_and_one_forgotten_is_mailed(
    server: Server, seconds: int, mails: int
) -> None:
    """Two databases wait in sb_start_write, for 20 s and for 45 s; the disk is idle."""
    stack = ("percpu_rwsem_wait", "__percpu_down_read", "vfs_write", "ksys_write")
    frozen = {"stack": stack, "wait_channel": "percpu_rwsem_wait"}
    for _ in range(seconds):
        server.pass_second([backend(1, **frozen), backend(2, **frozen)], queued=0)
    for _ in range(30):
        server.pass_second((), queued=0)
    assert len(server.subjects()) == mails
    if mails:
        assert server.machine.host.engine is not None
        assert server.machine.host.engine.signals.harm().causes["md0"].value == "frozen"


def test_a_busy_reader_at_each_poll_is_silent(server: Server) -> None:
    """An hour of cat at full speed: blocked at each poll, in another call each time."""
    for second in range(300):
        counters = (second * 8_192, 0, second, 0, second * 8_192, 0)
        reader = backend(
            1, system_call=f"0 0x5 0x7f00 0x2000 0x0 0x0 0x0 {SP_PC}", counters=counters
        )
        server.pass_second([reader], queued=0)
    assert server.subjects() == []


def test_an_old_kernel_without_syscall_and_bytes_is_mailed_as_well(server: Server) -> None:
    """2.6.18: neither 'syscall' nor 'io'; backends paused because the host is at its limit."""
    server.machine.memory.write({"/proc/sys/kernel/osrelease": "2.6.18-164.el5\n"})
    for _ in range(70):
        server.pass_second((), queued=600_000_000)
    began = server.second + PERIOD - FROZEN
    nothing: dict[str, object] = {
        "system_call": "",
        "counters": (),
        "voluntary_switches": None,
        "write_bytes": None,
        "read_bytes": None,
        "wait_channel": "blk_congestion_wait",
        "stack": ("blk_congestion_wait", "balance_dirty_pages_ratelimited_nr"),
    }
    server.freeze_each_minute(4, lambda n: [backend(i, n, **nothing) for i in range(25)])
    first = server.subjects()[0]
    assert first[0] - began <= 25.0


def test_disks_that_complete_nothing_name_the_victims_in_one_incident(server: Server) -> None:
    """The same backends, behind disks that hang: the hang is the cause."""
    for _ in range(40):
        server.pass_second([backend(i) for i in range(25)], speed=0)
        server.machine.disks["sda"][2] = server.machine.disks["sdb"][2] = 32
    assert server.machine.host.engine is not None
    causes = server.machine.host.engine.signals.harm().causes
    assert causes["md0"].value in {"hang", "backlog"}


def test_a_removable_disk_whose_copy_waits_16_s_is_silent() -> None:
    """Only the copy itself waits, for its own data."""
    machine = Server()
    own = replace(backend(0), pid=400, start_ticks=1_000, command="cp", waits_at="8:0")
    for _ in range(60):
        machine.pass_second((), queued=200_000_000)
    for _ in range(16):
        machine.pass_second([own], queued=200_000_000)
    for _ in range(30):
        machine.pass_second((), queued=0)
    assert machine.subjects() == []


@pytest.mark.parametrize("minutes", [1, 4])
def test_the_mail_about_the_end_says_how_long_programs_were_blocked(
    server: Server, minutes: int
) -> None:
    """20 s of each minute: their sum, and not the 12 s of the first mail or the open incident."""
    server.freeze_each_minute(minutes, lambda n: [backend(i, n) for i in range(25)])
    for _ in range(900):
        server.pass_second((), queued=3_000_000, speed=1_000_000)
    last = server.machine.host.mails[-1].due
    notice = report.notice(last, report.Sources(float, START, (), None))
    blocked = re.fullmatch(
        r"was: programs blocked: 3 GiB were queued(, 3 times or more)?, for (.*) in all, and not"
        r" in the last 9 min 5\d s",
        notice.summary,
    )
    assert last.reason is Reason.RESOLVED
    assert blocked is not None, notice.summary
    assert (
        blocked[2]
        in {1: {"18 s", "20 s"}, 4: {f"1 min {n} s" for n in (12, 14, 16, 18, 20)}}[minutes]
    )
