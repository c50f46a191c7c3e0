"""Who is harmed, played: what must be mailed, soon and with its cause, and healthy loads.

With a real kernel, in the guest: a capped control group, a frozen file system, threads (tests/vm).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.blocked_server import SP_PC, SPEED, Server, backend

from iowarden.daemon.polling.task_polls import BUSY_GAPS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iowarden.collectors.procfs.tasks import BlockedTask

QUIET: dict[str, int] = {"queued": 3_000_000, "speed": 1_000_000}
FROZEN_STACK = ("percpu_rwsem_wait", "__percpu_down_read", "vfs_write", "ksys_write")
FROZEN: dict[str, object] = {"stack": FROZEN_STACK, "wait_channel": "percpu_rwsem_wait"}
SERVER_STACK = ("rpc_wait_bit_killable", "nfs4_proc_getattr", "vfs_statx")
READ_STACK = ("folio_wait_bit_common", "filemap_get_pages", "vfs_read", "__x64_sys_pread64")
PAUSED_STACK = ("balance_dirty_pages", "generic_perform_write", "vfs_write", "ksys_write")


def quiet(server: Server, seconds: int) -> Server:
    """Let time pass in which hardly anything happens."""
    for _ in range(seconds):
        server.pass_second((), **QUIET)
    return server


def two(turn: int = 0, **changes: object) -> list[BlockedTask]:
    """Return two programs in one call each; another `turn` is another call."""
    return [backend(1, turn, **changes), backend(2, turn, command="nginx", **changes)]


def reader(number: int, second: int) -> BlockedTask:
    """Return a reader of a busy disk: each second in another call."""
    return backend(
        number,
        command="borg",
        wait_channel=READ_STACK[0],
        stack=READ_STACK,
        system_call=f"17 0x5 0x7f00 0x20000 {second * 0x20000:#x} 0x0 0x0 {SP_PC}",
        counters=(second * 131_072, 0, second, 0, second * 131_072, 0),
        voluntary_switches=second,
    )


def writer(second: int, seconds_in_call: int = 1) -> BlockedTask:
    """Return a copy that the kernel pauses: its write(2) returns again and again."""
    turn = second // seconds_in_call
    return backend(
        50,
        pid=400,
        start_ticks=1_000,
        command="cp",
        unit="load.service",
        wait_channel=PAUSED_STACK[0],
        stack=PAUSED_STACK,
        system_call=f"1 0x6 0x7f10 0x20000 0x0 0x0 0x0 {SP_PC}",
        counters=(0, turn * 131_072, 0, turn, 0, turn * 131_072),
    )


def cause(server: Server, device: str = "md0") -> str:
    """Return the cause of the freezes of a device."""
    assert server.machine.host.engine is not None
    return server.machine.host.engine.signals.harm().causes[device].value


def summary(server: Server) -> str:
    """Return what the warning says."""
    assert server.machine.host.engine is not None
    return next(
        alert.annotation("summary")
        for alert in server.machine.host.engine.rules.alerts()
        if alert.name == "Freeze" and alert.active and alert.severity.name == "WARNING"
    )


@pytest.mark.parametrize("offset", range(5))
def test_two_programs_that_only_the_load_average_counts_are_mailed_within_20_s(
    offset: int,
) -> None:
    """An NFS server does not answer; the kernel changes the load average each 5 s."""
    server = quiet(Server(), 70 + offset)
    began = server.second
    for _ in range(25):
        tasks = two(stack=SERVER_STACK, wait_channel=SERVER_STACK[0], waits_at="filer:/home")
        server.pass_second(tasks, is_counted=False, **QUIET)
    first = server.subjects()[0]
    assert 7.0 <= first[0] - began <= 20.0
    assert cause(server, "filer:/home") == "server"


def home(second: int) -> list[BlockedTask]:
    """Return four programs on a server, each 18 s in a call; one returns each 5 s or so."""
    stack = {"stack": SERVER_STACK, "wait_channel": SERVER_STACK[0]}
    where = {"waits_at": "filer:/home", "mount": "/home", "file": "/home/mbox"}
    return [backend(n, (second + 5 * n) // 18, command="imapd", **where, **stack) for n in range(4)]


def mounted(options: str) -> Server:
    """Return a server that has mounted a directory of another, and done little for a minute."""
    server = Server()
    line = f"40 1 0:48 / /home rw,relatime - nfs4 filer:/home rw,{options},proto=tcp"
    server.machine.memory.write({"/proc/1/mountinfo": f"{line}\n"})
    return quiet(server, 70)


def test_a_server_that_answers_each_call_after_18_s_is_slow_until_it_answers_none() -> None:
    """Four programs: some call returns all the time; then the server is gone."""
    server = mounted("hard")
    began = server.second
    for second in range(60):
        server.pass_second(home(second), **QUIET)
    assert server.subjects()[0][0] - began <= 20.0
    assert cause(server, "filer:/home") == "slow server"
    assert "the server answers slowly" in summary(server)
    for _ in range(60):
        server.pass_second(home(60), **QUIET)
    assert cause(server, "filer:/home") == "server"


@pytest.mark.parametrize(
    ("sentence", "options", "stack"),
    [
        ("a soft mount gives up: the call returned with an error", "soft", SERVER_STACK),
        (
            "a write was paused, and returned without the server",
            "hard",
            (*PAUSED_STACK[:2], "nfs_file_write", "vfs_write"),
        ),
    ],
)
def test_a_call_that_returns_is_no_answer_of_a_silent_server(
    sentence: str, options: str, stack: tuple[str, ...]
) -> None:
    """Two programs wait for one answer; the calls of a third return all the time."""
    server = mounted(options)
    where = {"waits_at": "filer:/home", "mount": "/home", "file": "/home/log"}
    for second in range(30):
        tasks = two(stack=SERVER_STACK, wait_channel=SERVER_STACK[0], **where)
        other = backend(9, second // 6, stack=stack, wait_channel=stack[0], **where)
        server.pass_second([*tasks, other], **QUIET)
    assert cause(server, "filer:/home") == "server", sentence


def test_a_forgotten_freeze_is_mailed_within_37_s_of_its_beginning() -> None:
    """A snapshot may take 30 s; only the load average counts who waits."""
    server = quiet(Server(), 72)
    began = server.second
    for _ in range(40):
        server.pass_second(two(**FROZEN), is_counted=False, **QUIET)
    (first,) = server.subjects()
    assert 25.0 <= first[0] - began <= 37.0
    assert (cause(server), "file system frozen" in summary(server)) == ("frozen", True)


def test_a_wait_after_an_hour_of_another_active_task_has_its_own_age() -> None:
    """A thread of a driver is in D for ever: it gave reason to poll long before the wait."""
    stuck = backend(9, command="gpu", stack=("dma_fence_default_wait",), wait_channel="drm_wait")
    server = quiet(Server(), 20)
    for _ in range(400):
        server.pass_second([stuck], is_counted=False, **QUIET)
    began = server.second
    for _ in range(8):
        server.pass_second([stuck, *two()], **QUIET)
    assert server.subjects() == []
    for _ in range(20):
        server.pass_second([stuck, *two()], **QUIET)
    assert 10.0 <= server.subjects()[0][0] - began <= 20.0


def test_a_checkpoint_each_five_minutes_is_mailed_at_the_first_and_with_its_rhythm() -> None:
    """Commits wait for 35 s; no sweep has seen a single program that writes so much."""
    server = quiet(Server(), 60)
    for number in range(3):
        for second in range(300):
            waits = [backend(n, number) for n in range(3)] if second < 35 else []
            server.pass_second(waits, queued=600_000_000 if waits else 3_000_000)
    mails = server.subjects()
    assert mails[0][0] - 60 <= 20.0
    assert 60 + 600 <= mails[1][0] <= 60 + 640
    assert len({key for _, _, key in mails}) == 1
    assert "3 times or more" in summary(server)


def test_a_slow_member_is_the_cause_and_no_program() -> None:
    """sdb takes 4 s for each request; its mirror answers at once and nothing is queued."""
    server = quiet(Server(), 60)
    began = server.second
    for _ in range(20):
        server.pass_second(
            two(),
            queued=3_000_000,
            speeds={"sda": 4_000_000, "sdb": 4_096},
            write_ms={"sda": 8, "sdb": 4_000},
            busy=("sdb",),
        )
    assert server.subjects()[0][0] - began <= 20.0
    assert summary(server).startswith("programs blocked: sdb is slow, for ")
    harm = server.machine.host.engine.signals.harm()  # type: ignore[union-attr]
    assert harm.last_harms["md0"][1].blames_device


@pytest.mark.parametrize(("hot", "is_why"), [("sdb", True), ("sda", False)])
def test_the_heat_of_a_slow_disk_is_in_its_mails_and_that_of_another_is_not(
    hot: str, *, is_why: bool
) -> None:
    """sdb takes 4 s for each request, at 71 C or beside a disk that has them: its limit is 60."""
    server = Server()
    for number, name in enumerate(("sda", "sdb")):
        chip = f"/sys/class/hwmon/hwmon{number}"
        server.machine.memory.write(
            {
                f"{chip}/name": "drivetemp\n",
                f"{chip}/temp1_input": f"{71_000 if name == hot else 45_000}\n",
                f"{chip}/temp1_max": "60000\n",
                f"{chip}/device/block/{name}": None,
            }
        )
    quiet(server, 60)
    for _ in range(70):
        server.pass_second(
            two(),
            queued=3_000_000,
            speeds={"sda": 4_000_000, "sdb": 4_096},
            write_ms={"sda": 8, "sdb": 4_000},
            busy=("sdb",),
        )
    first, *_, last = server.machine.host.mails
    assert first.due.incident.members[0].summary.startswith("programs blocked: sdb is slow")
    assert ("sdb is slow at 71 C (above its limit), for " in summary(server)) is is_why
    slow = next(each for each in last.due.incident.members if each.name == "DiskSlow")
    text = next(
        alert.annotation("description")
        for alert in server.machine.host.engine.rules.alerts()  # type: ignore[union-attr]
        if alert.name == slow.name and alert.active
    )
    assert ("It is at 71 C, above its vendor's limit: drives slow down" in text) is is_why


def test_the_one_disk_of_a_backlog_is_not_called_slow() -> None:
    """It writes at its full speed what another program has queued."""
    server = quiet(Server(), 60)
    for _ in range(20):
        server.pass_second(two(), queued=2_000_000_000, busy=("sda", "sdb"))
    assert cause(server) == "backlog"


@pytest.mark.parametrize("offset", range(5))
def test_a_suspended_volume_is_the_cause_in_each_second_and_mailed_from_30_s_on(
    offset: int,
) -> None:
    """It is read each 5 s whether one is suspended; a mail may be rendered between two reads."""
    server = Server()
    base = "/sys/block/dm-0"
    server.machine.memory.write(
        {
            f"{base}/dm/name": "vg0-data\n",
            f"{base}/dm/suspended": "0\n",
            f"{base}/dev": "253:0\n",
            f"{base}/size": "1953525168\n",
            f"{base}/slaves/md0": None,
            "/sys/block/md0/holders/dm-0": None,
        }
    )
    quiet(server, 60 + offset)
    began = server.second
    server.machine.memory.write({f"{base}/dm/suspended": "1\n"})
    causes = []
    for second in range(66):
        server.pass_second(two(waits_at="253:0"), **QUIET)
        if second >= 8:
            causes.append(cause(server, "dm-0"))
    assert set(causes) == {"suspended"}
    mails = server.subjects()
    assert 29.0 <= mails[0][0] - began <= 36.0
    assert len({key for _, _, key in mails}) == 1


def test_the_speed_in_the_title_is_known_below_the_limit_of_the_host() -> None:
    """600 MB queued of 3.3 GB: no writer is throttled, so that no bandwidth is measured."""
    server = quiet(Server(), 60)
    for _ in range(20):
        server.pass_second(two(), queued=600_000_000)
    assert "572 MiB queued, 7.69 s to write it" in summary(server)


# Healthy hosts.


def boot_storm() -> Server:
    """Sixty services start at once: each waits for reads for 3 to 16 s."""
    server = Server(uptime=12.0)
    for second in range(90):
        waits = [
            backend(n, second // (3 + n % 14), stack=READ_STACK, wait_channel=READ_STACK[0])
            for n in range(60)
        ]
        server.pass_second(waits if second < 80 else (), queued=1_000_000, speed=20_000_000)
    return server


def backup_night(
    seconds: int = 600, victims: Sequence[range] = (range(200, 218), range(450, 472))
) -> Server:
    """A backup reads, a copy writes at the limit; one victim of 18 s, and later one of 22 s."""
    server = quiet(Server(), 60)
    for second in range(seconds):
        waits = [reader(1, second), reader(2, second), writer(second)]
        if any(second in victim for victim in victims):
            waits.append(backend(7, second // 100, command="updatedb", unit="cron.service"))
        server.pass_second(waits, queued=1_500_000_000)
    return server


def restore() -> Server:
    """pg_restore alone: at the dirty limit, then 40 s in its own fsync."""
    server = quiet(Server(), 60)
    for second in range(60):
        server.pass_second([writer(second)], queued=2_000_000_000)
    own = backend(0, pid=400, start_ticks=1_000, command="pg_restore", unit="load.service")
    for _ in range(40):
        server.pass_second([own])
    return server


def check_of_an_array() -> Server:
    """The disks are busy with md check; backends read, the WAL writer waits twice for 8 s."""
    server = quiet(Server(), 60)
    for second in range(300):
        waits = [reader(n, second) for n in range(12)]
        if second % 150 < 8:
            waits.append(backend(30, second // 150, command="walwriter"))
        server.pass_second(waits, queued=2_000_000, speed=5_000_000, busy=("sda", "sdb"))
    return server


def two_checks() -> Server:
    """The first Sunday of the month: two arrays are checked at once, and each delays a writer."""
    server = quiet(Server(), 60)
    for name in ("sdc", "sdd"):
        server.machine.add_disk(name, f"S-{name}")
    server.machine.add_array("md1", "raid1", "sdc", "sdd")
    checks = {f"/sys/block/{name}/md/sync_action": "check\n" for name in ("md0", "md1")}
    server.machine.memory.write({"/sys/block/md1/dev": "9:1\n", **checks})
    for second in range(240):
        waits = [reader(n, second) for n in range(12)]
        if second % 120 < 8:
            waits.append(backend(30, second // 120, command="walwriter"))
            waits.append(backend(31, second // 120, command="mysqld", waits_at="9:1"))
        disks = ("sda", "sdb", "sdc", "sdd")
        server.pass_second(waits, queued=2_000_000, speed=5_000_000, busy=disks)
    return server


def shingled_disk() -> Server:
    """It rewrites its zones: 9 s without a completion now and then; a copy alone waits for it."""
    server = quiet(Server(), 60)
    for second in range(240):
        pauses = second % 60 < 9
        server.pass_second(
            [writer(second, 9 if pauses else 1)],
            queued=1_000_000_000,
            speed=0 if pauses else SPEED,
        )
    return server


def stolen_time() -> Server:
    """A virtual machine that is not run for 8 s now and then; its readers are in other calls."""
    server = quiet(Server(), 60)
    for _ in range(20):
        for _ in range(5):
            server.pass_second([reader(n, server.second) for n in range(3)], **QUIET)
        server.machine.second += 8
    return server


def installing_packages() -> Server:
    """dpkg: 300 times open, fsync, rename, blocked at each poll, each 0.25 s."""
    server = quiet(Server(), 60)
    for second in range(200):
        server.pass_second([backend(3, second * 4, command="dpkg", waits_at="")], **QUIET)
    return server


def snapshot() -> Server:
    """A virtual machine is frozen for a snapshot of 22 s under two programs."""
    server = quiet(Server(), 62)
    for _ in range(22):
        server.pass_second(two(**FROZEN), is_counted=False, **QUIET)
    return quiet(server, 60)


def rotation_of_logs() -> Server:
    """gzip reads and writes; the log daemon waits for 6 s once."""
    server = quiet(Server(), 60)
    for second in range(200):
        waits = [reader(1, second), writer(second)]
        if 100 <= second < 106:
            waits.append(backend(8, command="rs:main", unit="rsyslog.service"))
        server.pass_second(waits, queued=500_000_000)
    return server


def storm_of_short_waits() -> Server:
    """25 database processes blocked for 4 to 8 s each 20 min: for the digest."""
    server = quiet(Server(), 60)
    for number in range(3):
        for _ in range(7):
            server.pass_second([backend(n, number) for n in range(25)], queued=500_000_000)
        for _ in range(290):
            server.machine.run(4, step=4)
    return server


def leaked_request() -> Server:
    """An idle disk whose number of requests in flight has been one too large for hours."""
    server = quiet(Server(), 10)
    server.machine.add_disk("sdc", "S3")
    for second in range(300):
        server.machine.run(
            1,
            queued=3_000_000,
            writes={"sda": 1_000_000, "sdb": 1_000_000, "sdc": SPEED if second < 120 else 0},
            in_flight={"sdc": 1},
            write_ms={"sdc": 1},
        )
    return server


@pytest.mark.parametrize(
    "load",
    [
        boot_storm,
        backup_night,
        restore,
        check_of_an_array,
        two_checks,
        shingled_disk,
        stolen_time,
        installing_packages,
        snapshot,
        rotation_of_logs,
        leaked_request,
    ],
)
def test_a_healthy_load_makes_no_mail(load: Callable[[], Server]) -> None:
    """What nobody has to get up for."""
    assert load().subjects() == []


@pytest.mark.system
def test_a_backup_of_90_minutes_with_one_victim_of_28_s_makes_no_mail() -> None:
    """20 s of processor time, as each second of it is one of the machine's."""
    assert backup_night(5_400, [range(3_000, 3_028)]).subjects() == []


PHASES = range(sum(map(int, BUSY_GAPS)))
"""Of the polls on a host where tasks are always blocked."""


@pytest.mark.parametrize("phase", PHASES)
def test_one_victim_that_waits_28_s_beside_a_backup_is_not_mailed(phase: int) -> None:
    """The poll before the first that sees it is up to 5 s earlier: it may have waited for 33 s."""
    assert backup_night(80, [range(30 + phase, 58 + phase)]).subjects() == []


@pytest.mark.parametrize("phase", PHASES)
def test_one_victim_that_waits_34_s_beside_a_backup_is_mailed_by_then(phase: int) -> None:
    """The first poll that sees it is up to 5 s late."""
    server = backup_night(80, [range(30 + phase, 64 + phase)])
    assert 28.0 <= server.subjects()[0][0] - (90 + phase) <= 35.0


@pytest.mark.parametrize("offset", range(5))
@pytest.mark.parametrize(("seconds", "is_mailed"), [(28, False), (34, True)])
def test_one_program_that_only_the_load_average_counts_is_mailed_within_35_s(
    seconds: int, offset: int, *, is_mailed: bool
) -> None:
    """The first poll that sees it is up to 11 s late, and the load average counted it before."""
    server = quiet(Server(), 70 + offset)
    began = server.second
    stuck = backend(1, stack=SERVER_STACK, wait_channel=SERVER_STACK[0], waits_at="filer:/home")
    for _ in range(seconds):
        server.pass_second([stuck], is_counted=False, **QUIET)
    quiet(server, 5)
    mailed = [at - began for at, _, _ in server.subjects()]
    assert (mailed != [], all(28.0 <= at <= 35.0 for at in mailed)) == (is_mailed, True)


def test_a_storm_of_short_waits_is_a_notice_for_the_digest() -> None:
    """Each is counted, and none is long enough to be a warning."""
    server = storm_of_short_waits()
    assert server.subjects() == []
    fired = server.machine.host.fired
    assert {severity for _, name, severity in fired if name == "Freeze"} == {"notice"}


def test_clients_of_a_file_server_are_harmed_on_the_device_of_its_journal() -> None:
    """nfsd has no descriptor; the only journal that waits is that of the mirror."""
    server = quiet(Server(), 60)
    stack = ("jbd2_log_wait_commit", "ext4_sync_file", "nfsd_commit", "nfsd")
    serves: dict[str, object] = {"command": "nfsd", "kernel": True, "stack": stack}
    serves |= {"waits_at": "", "file": "", "mount": "", "unit": "", "process": 0}
    journal = backend(20, command="jbd2/md0-8", kernel=True, waits_at="md0", file="")
    for _ in range(20):
        tasks = [*(backend(n, **serves) for n in range(6)), journal]
        server.pass_second(tasks, queued=1_000_000_000)
    assert cause(server) == "backlog"
    harm = server.machine.host.engine.signals.harm()  # type: ignore[union-attr]
    assert len(harm.harms["md0"].victims) == 6


XFS_LOG = ("xlog_grant_head_wait", "xfs_trans_alloc", "xfs_create", "path_openat")
BTRFS = ("wait_current_trans", "start_transaction", "btrfs_create", "path_openat")
ROOT = "25 1 9:0 / / rw - ext4 /dev/md0 rw\n"


@pytest.mark.parametrize(
    ("sentence", "stack", "mounts", "key"),
    [
        ("the mirror has XFS", XFS_LOG, "31 1 9:0 / /srv rw - xfs /dev/md0 rw\n", "device md0"),
        (
            "btrfs has a number of its own",
            BTRFS,
            "25 1 8:32 / / rw - ext4 /dev/sdc rw\n31 1 0:44 / /srv rw - btrfs /dev/md0 rw\n",
            "device md0",
        ),
        (
            "XFS on the mirror and on another disk: it is not certain",
            XFS_LOG,
            "31 1 9:0 / /srv rw - xfs /dev/md0 rw\n32 1 8:32 / /a rw - xfs /dev/sdc rw\n",
            "host",
        ),
        ("no XFS that the host has mounted", XFS_LOG, ROOT, "host"),
    ],
)
def test_the_type_of_its_file_system_shows_for_which_device_a_task_waits(
    sentence: str, stack: tuple[str, ...], mounts: str, key: str
) -> None:
    """An open in a journal's queue has no descriptor, and nothing else waits."""
    server = Server()
    server.machine.add_disk("sdc", "S3")
    server.machine.memory.write({"/proc/1/mountinfo": mounts, "/sys/block/sdc/dev": "8:32\n"})
    quiet(server, 60)
    waits: dict[str, object] = {"stack": stack, "wait_channel": stack[0], "waits_at": ""}
    for _ in range(20):
        server.pass_second(two(**waits, file="", mount=""), **QUIET, is_counted=False)
    assert [mailed for _, _, mailed in server.subjects()] == [key], sentence


def test_the_title_has_what_is_queued_now_and_the_evidence_what_was_at_most() -> None:
    """1.6 GB when the wait began, 480 MB at this mail; at last only what it was is left."""
    server = quiet(Server(), 60)
    for second in range(20):
        server.pass_second(two(), queued=1_600_000_000 - max(second - 3, 0) * 70_000_000)
    assert "programs blocked: 458 MiB queued, 6.15 s to write it, for " in summary(server)
    most = server.machine.host.signals(["iowarden_freeze_queued_bytes"])
    assert list(most.values()) == [1_600_000_000]
    for _ in range(4):
        server.pass_second(two(), queued=3_000_000)
    assert "programs blocked: 1.5 GiB were queued, for " in summary(server)


def test_who_filled_the_queue_stays_named_while_its_data_are_written() -> None:
    """pg_restore ends as the wait begins; the last sweeps of a minute later saw nothing of it."""
    server = quiet(Server(), 60)
    for _ in range(10):
        server.pass_second((), queued=1_000_000_000)
    wrote = server.written
    for second in range(90):
        server.pass_second(two(), queued=4_000_000_000 - second * 40_000_000, speed=40_000_000)
        server.written = wrote
    harm = server.machine.host.engine.signals.harm()  # type: ignore[union-attr]
    assert [one.command for one in harm.last_harms["md0"][1].causes] == ["pg_restore"]
    assert cause(server) == "backlog"


def test_a_commit_that_is_left_of_a_backlog_is_still_because_of_the_backlog() -> None:
    """The queue is written, the journal not yet: where programs wait does not replace why."""
    server = quiet(Server(), 60)
    for second in range(30):
        server.pass_second(two(), queued=2_000_000_000 if second < 20 else 3_000_000)
    assert cause(server) == "backlog"


def test_what_lasts_for_ten_seconds_began_ten_seconds_before_its_alert() -> None:
    """The mail has the beginning of the wait, not that of the alert."""
    server = quiet(Server(), 60)
    for _ in range(20):
        server.pass_second(two(), queued=2_000_000_000)
    (member,) = server.machine.host.mails[0].due.incident.members
    assert 10.0 <= member.joined_seconds - member.since_seconds <= 13.0


@pytest.mark.parametrize("waits_at", ["0:52", "", "filer:/home"])
def test_programs_that_wait_for_a_server_are_one_incident_with_its_line_in_the_log(
    waits_at: str,
) -> None:
    """An open has no descriptor, and a network mount the number of no device."""
    server = Server()
    server.machine.memory.write(
        {"/proc/1/mountinfo": "30 1 0:52 / /home rw - nfs4 filer:/home rw\n"}
    )
    quiet(server, 60)
    file = {"stack": SERVER_STACK, "wait_channel": SERVER_STACK[0], "mount": "/home"}
    for _ in range(66):
        server.pass_second(two(**file, waits_at=waits_at), is_counted=False, **QUIET)
    assert cause(server, "filer:/home") == "server"
    mails = server.machine.host.mails
    assert {mail.due.incident.key for mail in mails} == {"device filer"}
    assert mails[0].due.incident.object == "/home (nfs4) on filer"


def test_a_lun_whose_session_failed_has_no_connection_and_no_fault_of_its_own() -> None:
    """The kernel blocks it while iscsid logs in again; nothing completes, for 70 s."""
    server = Server()
    server.machine.add_disk("sdc", "S3")
    device = "/sys/class/scsi_device/7:0:0:0/device"
    host = {f"/sys/class/scsi_host/host7/{name}": "32\n" for name in ("can_queue", "cmd_per_lun")}
    server.machine.memory.write(
        {
            **host,
            "/sys/class/iscsi_host/host7/device/session1/x": "",
            f"{device}/state": "running\n",
            f"{device}/type": "0\n",
            f"{device}/block/sdc": None,
            "/sys/block/sdc/dev": "8:32\n",
        }
    )
    quiet(server, 60)
    server.machine.memory.write({f"{device}/state": "blocked\n"})
    for _ in range(70):
        server.pass_second(two(waits_at="8:32"), busy=("sdc",), **QUIET)
    assert cause(server, "sdc") == "connection"
    assert "programs blocked: no connection to its storage, for " in summary(server)
    advice = "".join(mail.advice for mail in server.machine.host.mails)
    assert "iscsi_session" in advice
    assert "iowarden disk show" not in advice
