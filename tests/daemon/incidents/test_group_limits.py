"""Programs that wait at a limit of their control group, each beside a twin that is not at it."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest
from support.blocked import FAULT, SP_PC, Blocked, GroupIo, task

from iowarden.rules.notices.who_waits import limit_sentences

if TYPE_CHECKING:
    from pathlib import Path

    from iowarden.collectors.procfs.tasks import BlockedTask

CGROUP = "/sys/fs/cgroup"
SLICE = f"{CGROUP}/system.slice"
SERVICE = f"{SLICE}/report.service"
V1_SERVICE = f"{CGROUP}/blkio/system.slice/report.service"
GROUP, V1_GROUP = "0::/system.slice/report.service", "4:blkio:/system.slice/report.service"
READ_STACK = ("io_schedule", "folio_wait_bit_common", "filemap_read", "vfs_read")
MIB = 1 << 20


def limited(file: str, text: str, use: GroupIo | None, device: str = "8:0") -> Blocked:
    """Return a host with a limit of a control group, which does so much on a device."""
    host = Blocked()
    host.machine.memory.write({f"{CGROUP}/cgroup.controllers": "io memory\n", file: text})
    if use is not None:
        host.groups[file.rpartition("/")[0], device] = use
    return host


def reports(count: int = 2, group: str = GROUP, **changes: object) -> list[BlockedTask]:
    """Return threads of a report, which wait in a commit on sda."""
    return [task(number, "report", groups=(group,), **changes) for number in range(count)]


@pytest.mark.parametrize(
    ("group", "file", "text", "value", "use"),
    [
        (
            GROUP,
            f"{SERVICE}/io.max",
            "8:0 rbps=max wbps=1048576 riops=max wiops=max\n",
            "wbps=",
            GroupIo(write_bytes_per_second=MIB, largest=MIB),
        ),
        (GROUP, f"{SLICE}/io.max", "8:0 wiops=20\n", "wiops=20", GroupIo(writes_per_second=20)),
        (
            V1_GROUP,
            f"{V1_SERVICE}/blkio.throttle.write_bps_device",
            "8:0 1048576\n",
            "1048576",
            GroupIo(write_bytes_per_second=MIB),
        ),
        (
            GROUP,
            f"{SERVICE}/io.max",
            "8:0 wbps=262144\n",
            "wbps=262144",
            GroupIo(write_bytes_per_second=262_144, largest=MIB),
        ),
    ],
    ids=["io.max", "of its slice", "version 1", "a request takes 4 s"],
)
def test_programs_held_by_their_own_control_group_are_mailed_with_the_file_and_its_value(
    group: str, file: str, text: str, value: str, use: GroupIo
) -> None:
    """The disk is hardly used, and two threads of a report wait for their fsync."""
    host = limited(file, text, use)
    host.pass_seconds(60, [])
    began = host.second
    host.pass_seconds(40, reports(group=group))
    assert host.mails()[0][0] - began <= 20
    assert host.cause() == "own limit"
    (sentence,) = limit_sentences(host.limits())
    assert file in sentence
    assert value in sentence
    assert "system.slice" in sentence or "report.service" in sentence


NEVER_REACHED = {
    "io.max": (f"{SERVICE}/io.max", "8:0 rbps=200000000 wbps=200000000\n", GROUP),
    "of its slice": (f"{SLICE}/io.max", "8:0 riops=5000 wiops=5000\n", GROUP),
    "version 1": (f"{V1_SERVICE}/blkio.throttle.write_bps_device", "8:0 200000000\n", V1_GROUP),
}


@pytest.mark.parametrize("kind", NEVER_REACHED)
@pytest.mark.parametrize("has_figures", [True, False])
def test_a_limit_that_is_never_reached_does_not_explain_a_backlog(
    kind: str, *, has_figures: bool
) -> None:
    """800 MB are queued for a disk that writes 8 MB/s, in use for 700 ms of each second.

    Where the group's own figures cannot be read, those of the disk show that it is not at it.
    """
    file, text, group = NEVER_REACHED[kind]
    use = GroupIo(write_bytes_per_second=2_000_000, writes_per_second=20)
    host = limited(file, text, use if has_figures else None)
    host.pass_seconds(60, [])
    for _ in range(40):
        written(host, 8_000_000, busy_milliseconds=700)
        host.queued = 800_000_000
        host.pass_second(reports(group=group))
    assert host.cause() == "backlog"
    assert host.limits() == ()


def written(host: Blocked, size: int, *, busy_milliseconds: int) -> None:
    """Let sda write so many bytes in this second."""
    disk = host.disks["sda"]
    disk.writes += size // 100_000
    disk.written_sectors += size // 512
    disk.milliseconds += size // 100_000 * 3
    disk.busy_milliseconds += busy_milliseconds


def test_a_unit_whose_figures_cannot_be_read_is_at_a_limit_that_its_disk_reaches() -> None:
    """The disk writes as much as this one unit may, and has time left."""
    host = limited(f"{SERVICE}/io.max", "8:0 wbps=4194304\n", None)
    host.pass_seconds(60, [])
    for _ in range(40):
        written(host, 4_194_304, busy_milliseconds=60)
        host.pass_second(reports())
    assert host.cause() == "own limit"


def test_a_limit_is_read_of_a_program_whose_details_the_probe_could_not_read() -> None:
    """It executes a program: only its unit is known, and '/proc/PID/cgroup' never waits."""
    use = GroupIo(write_bytes_per_second=MIB)
    host = limited(f"{SERVICE}/io.max", "8:0 wbps=1048576\n", use)
    host.machine.memory.write({f"/proc/{900 + n}/cgroup": f"{GROUP}\n" for n in range(2)})
    host.pass_seconds(40, [task(n, "report") for n in range(2)])
    assert [limit.value for limit in host.limits()] == ["wbps=1048576"]


def test_data_held_back_above_an_idle_disk_are_no_backlog_of_the_host() -> None:
    """4 MiB/s reach it, 25 ms a second, nothing in flight; which limit it is cannot be read."""
    host = Blocked()
    host.pass_seconds(60, [])
    for _ in range(40):
        written(host, 4_194_304, busy_milliseconds=25)
        host.queued = 220_000_000
        host.pass_second([task(n, "report") for n in range(2)])
    assert host.cause() == "own limit"
    assert "vm.dirty" not in host.machine.host.mails[0].advice
    assert "--include=io.max" in host.machine.host.mails[0].advice


LOCK_STACK = ("rwsem_down_read_slowpath", "ext4_map_blocks", "file_write_and_wait_range")
JOURNAL_STACK = ("jbd2_log_wait_commit", "ext4_sync_file", "do_fsync")


@pytest.mark.parametrize(
    ("sentence", "limit", "stack", "cause"),
    [
        ("no limit, and a lock", "", LOCK_STACK, "lock"),
        ("no limit, and a commit", "", JOURNAL_STACK, "journal"),
        ("a limit of reads alone", "8:0 rbps=1048576 wbps=max\n", JOURNAL_STACK, "journal"),
        ("a limit of another disk", "8:16 wbps=1048576\n", JOURNAL_STACK, "journal"),
        ("no file that can be read", None, JOURNAL_STACK, "own limit"),
    ],
)
def test_data_that_are_queued_are_held_back_by_no_limit_where_all_files_were_read(
    sentence: str, limit: str | None, stack: tuple[str, ...], cause: str
) -> None:
    """A request a second reaches an idle disk, 220 MB are queued, and one unit alone waits."""
    host = Blocked()
    if limit is not None:
        files = {f"{SERVICE}/io.max": limit, f"{SLICE}/io.max": ""}
        host.machine.memory.write({f"{CGROUP}/cgroup.controllers": "io memory\n", **files})
    host.pass_seconds(60, [])
    for _ in range(30):
        written(host, 100_000, busy_milliseconds=2)
        host.queued = 220_000_000
        host.pass_second(reports(stack=stack, wait_channel=stack[0]))
    assert host.cause() == cause, sentence
    assert ("not at fault" in host.machine.host.mails[0].advice) is (cause == "own limit")


@pytest.mark.parametrize("in_flight", [0, 4])
def test_data_that_are_queued_for_another_disk_are_held_back_by_no_limit(in_flight: int) -> None:
    """A stick that does not answer has them: what programs wait for above sda is their commit."""
    host = Blocked()
    host.add_disk("sdb", removable="1")
    host.pass_seconds(60, [], sdb=8_000_000)
    host.disks["sdb"].in_flight = in_flight
    for _ in range(30):
        written(host, 100_000, busy_milliseconds=2)
        host.queued = 220_000_000
        host.pass_second(reports(stack=JOURNAL_STACK, wait_channel=JOURNAL_STACK[0]))
    assert host.cause() == ("journal" if in_flight else "own limit")


@pytest.mark.parametrize("permitted", [MIB, 200 * MIB], ids=["at it", "far below it"])
def test_who_waits_for_a_commit_behind_a_limited_unit_is_told_whose_limit(permitted: int) -> None:
    """The journal waits for the data of a backup; the database itself has no limit."""
    backup = f"{SLICE}/backup.service"
    use = GroupIo(write_bytes_per_second=MIB, largest=MIB)
    host = limited(f"{backup}/io.max", f"8:0 wbps={permitted}\n", use)
    host.machine.memory.write({f"{SERVICE}/io.max": "", f"{SLICE}/io.max": ""})
    host.pass_seconds(60, [], sda=MIB)
    waiting = reports(stack=JOURNAL_STACK, wait_channel=JOURNAL_STACK[0])
    group = ("0::/system.slice/backup.service",)
    changes: dict[str, object] = {"pid": 400, "start_ticks": 1_000, "write_bytes": 90 * MIB}
    for second in range(30):
        host.writers[400] = "restic", (60 + second) * MIB
        host.queued = 200_000_000
        written(host, MIB, busy_milliseconds=10)
        host.pass_second([*waiting, task(8, "restic", groups=group, **changes)])
    is_at_limit = permitted == MIB
    assert host.cause() == ("own limit" if is_at_limit else "journal")
    assert ("a limit of backup.service" in host.summary("Freeze")) is is_at_limit
    assert [limit.file for limit in host.limits()] == [f"{backup}/io.max"] * is_at_limit


def test_a_limit_is_named_before_the_first_request_of_its_group_has_been_passed_on() -> None:
    """A request of 4 MiB takes 16 s at this limit, which the mail does not wait for."""
    use = GroupIo(write_bytes_per_second=262_144, largest=4 * MIB)
    host = limited(f"{SERVICE}/io.max", "8:0 rbps=1048576 wbps=262144\n", use)
    host.pass_seconds(60, [])
    use.done = 0.0, 0.0, 0.0, 0.0
    for _ in range(14):
        written(host, 65_536, busy_milliseconds=5)
        host.queued = 220_000_000
        host.pass_second(reports())
    assert host.cause() == "own limit"
    assert [limit.value for limit in host.limits()] == ["rbps=1048576 wbps=262144"]


@pytest.mark.parametrize("awake", [0, 8], ids=["at each poll", "but at some"])
def test_a_unit_at_its_limit_for_ten_minutes_is_mailed_though_no_wait_is_long(awake: int) -> None:
    """Four threads of a report, each in another write at each poll; the disk is hardly used."""
    host = limited(f"{SERVICE}/io.max", "8:0 wiops=20\n", GroupIo(writes_per_second=20))
    began = host.second
    for second in range(700):
        counters = (0, second, 0, second, 0, second)
        call = f"18 0x5 0x7f2a 0x4000 {second:#x} 0x0 0x0 {SP_PC}"
        is_awake = awake and second // 2 % awake == 0
        host.pass_second([] if is_awake else reports(4, counters=counters, system_call=call))
    assert 600 <= host.mails()[0][0] - began <= 690
    assert host.cause() == "own limit"


@pytest.mark.parametrize("has_figures", [True, False])
def test_a_unit_below_its_limit_for_ten_minutes_is_not_mailed_for_it(*, has_figures: bool) -> None:
    """Four threads commit all the time, a few times a second; they may do so ten times as often."""
    use = GroupIo(writes_per_second=4) if has_figures else None
    host = limited(f"{SERVICE}/io.max", "8:0 wiops=40\n", use)
    for second in range(700):
        host.disks["sda"].writes += 4
        host.disks["sda"].busy_milliseconds += 30
        host.pass_second(reports(4, counters=(0, second, 0, second, 0, second)))
    assert host.mails() == []


def test_a_limit_is_named_in_the_first_mail_though_most_polls_fail() -> None:
    """The probe of a host that crawls answers each 20 s: the first poll is all that it has."""
    host = limited(f"{SERVICE}/io.max", "8:0 wbps=1048576\n", GroupIo(write_bytes_per_second=MIB))
    host.pass_seconds(60, [])
    for second in range(90):
        host.has_probe = second % 20 == 19
        written(host, MIB, busy_milliseconds=20)
        host.pass_second(reports())
        if host.mails():
            break
    assert host.cause() == "own limit"
    assert [limit.value for limit in host.limits()] == ["wbps=1048576"]


@pytest.mark.parametrize("victims", [0, 3])
def test_a_unit_that_reads_as_fast_as_it_may_harms_those_who_wait_with_it(victims: int) -> None:
    """Four threads of a backup at its limit are silent; three others of its unit are mailed."""
    use = GroupIo(read_bytes_per_second=20 * MIB, reads_per_second=80)
    host = limited(f"{SERVICE}/io.max", "8:0 rbps=20971520\n", use)
    for second in range(640):
        host.disks["sda"].reads += 20 * 256
        host.disks["sda"].busy_milliseconds += 300
        host.readers[700] = "backup", second * 20 * MIB
        counters = (second, 0, second, 0, second * 4096, 0)
        waiting = reports(4, process=700, start_ticks=1_000, stack=READ_STACK, counters=counters)
        waiting += reports(4 + victims, stack=READ_STACK, counters=counters)[4:]
        host.pass_second(waiting)
    assert bool(host.mails()) is bool(victims)


def test_a_limit_for_another_disk_explains_nothing() -> None:
    """io.max names 8:16, where the unit is at its limit, and the program waits for 8:0."""
    use = GroupIo(write_bytes_per_second=MIB)
    host = limited(f"{SERVICE}/io.max", "8:16 wbps=1048576\n", use, "8:16")
    host.pass_seconds(40, reports())
    assert host.cause() == "unknown"
    assert host.limits() == ()


def test_the_limit_of_the_disk_is_found_among_those_of_many_groups_and_disks() -> None:
    """A unit in a container in a container of a user, limited on twelve disks; sda is the last."""
    names = ("user.slice", "user-1000.slice", "user@1000.service", "user.slice", "libpod-1.scope")
    path = "/".join(
        (*names, "container", "user.slice", "libpod-2.scope", "system.slice", "x.service")
    )
    others = "".join(f"65:{16 * number} wbps=1048576\n" for number in range(12))
    use = GroupIo(write_bytes_per_second=MIB)
    host = limited(f"{CGROUP}/{path}/io.max", f"{others}8:0 wbps=1048576\n", use)
    host.pass_seconds(40, reports(group=f"0::/{path}"))
    assert [limit.device for limit in host.limits()] == ["8:0"]
    assert host.limits()[0].file == f"{CGROUP}/{path}/io.max"


def test_a_limit_of_the_parent_names_the_slice_and_one_of_version_1_above_explains_nothing() -> (
    None
):
    """The unit's name has an escaped dash, and its file is on a partition of the limited disk."""
    own = "/sys/fs/cgroup{}/app.slice/app-db\\x2dnode.slice{}"
    for group, file, cause in (
        ("0::", own.format("", "/io.max"), "own limit"),
        ("4:blkio:", own.format("/blkio", "/blkio.throttle.write_bps_device"), "unknown"),
    ):
        text = "8:0 wbps=1048576\n" if group == "0::" else "8:0 1048576\n"
        host = limited(file, text, GroupIo(write_bytes_per_second=MIB))
        host.machine.memory.write({"/sys/block/sda/sda3/partition": "3\n"})
        host.machine.memory.write({"/sys/block/sda/sda3/dev": "8:3\n"})
        groups = (f"{group}/app.slice/app-db\\x2dnode.slice/db@1.service",)
        host.pass_seconds(40, [task(n, "db", groups=groups, waits_at="8:3") for n in range(2)])
        assert host.cause() == cause
        for sentence in limit_sentences(host.limits()):
            assert sentence.startswith(
                "limit of app-db\\x2dnode.slice: 'wbps=1048576' for device 8:0"
            )


@pytest.mark.parametrize(
    ("file", "text", "reads", "writes"),
    [
        ("io.max", "8:0 rbps=1048576 wbps=max riops=120 wiops=max", True, False),
        ("io.max", "8:0 rbps=max wbps=1048576", False, True),
        ("io.max", "8:0 rbps=1048576 wiops=20", True, True),
        ("blkio.throttle.read_iops_device", "8:0 100", True, False),
        ("blkio.throttle.write_bps_device", "8:0 100", False, True),
    ],
)
def test_a_limit_of_reads_delays_no_commit_and_one_of_writes_no_read(
    file: str, text: str, *, reads: bool, writes: bool
) -> None:
    """The disk is hardly used; what two programs wait for shows in their stacks."""
    directory, group = (V1_SERVICE, V1_GROUP) if file.startswith("blkio") else (SERVICE, GROUP)
    for stack, is_limited in ((READ_STACK, reads), (None, writes)):
        host = limited(f"{directory}/{file}", f"{text}\n", GroupIo(MIB, MIB, 120, 120))
        host.pass_seconds(40, reports(group=group, **({} if stack is None else {"stack": stack})))
        assert (host.cause() == "own limit") is is_limited
        assert bool(host.limits()) is is_limited


@pytest.mark.parametrize("is_delayed", [True, False])
def test_a_target_of_io_latency_explains_only_who_is_delayed_for_it(*, is_delayed: bool) -> None:
    """It protects the group that has it; a report beside it waits, whose own target is longer."""
    database = f"{SLICE}/db.service/io.latency"
    files = {f"{SERVICE}/io.latency": "8:0 target=300000\n", database: "8:0 target=75000\n"}
    files[f"{SLICE}/mail.service/io.latency"] = "8:0 target=900000\n"
    host = Blocked()
    host.machine.memory.write({f"{CGROUP}/cgroup.controllers": "io\n", **files})
    held: dict[str, object] = {"wait_channel": "rq_qos_wait"}
    held["stack"] = ("rq_qos_wait", "blkcg_iolatency_throttle", "__rq_qos_throttle", "submit_bio")
    host.pass_seconds(40, reports(**(held if is_delayed else {})))
    assert host.cause() == ("own limit" if is_delayed else "unknown")
    sentence = f"target of db.service: 'target=75000' for device 8:0 in {database}"
    assert limit_sentences(host.limits()) == [sentence] * is_delayed


@pytest.mark.parametrize("used", [104_000_000, None], ids=["at one of two", "not readable"])
def test_a_program_above_memory_high_is_told_that_file(used: int | None) -> None:
    """The kernel holds it until its group has less memory; no disk has to do with it."""
    host = limited(f"{SERVICE}/memory.high", "104857600\n", None)
    host.machine.memory.write({f"{SLICE}/memory.high": "8589934592\n"})
    if used is not None:
        files = {f"{SERVICE}/memory.current": f"{used}\n", f"{SLICE}/memory.current": "900000000\n"}
        host.machine.memory.write(files)
    held = {
        "wait_channel": "mem_cgroup_handle_over_high",
        "stack": ("mem_cgroup_handle_over_high", "exit_to_user_mode_prepare"),
    }
    host.pass_seconds(40, reports(**held))
    assert host.cause() == "own memory limit"
    values = [limit.value for limit in host.limits()]
    assert values == (["104857600"] if used else ["104857600", "8589934592"])


def test_a_program_that_is_delayed_for_its_swap_is_told_that_limit() -> None:
    """Its memory is far below memory.high; what it has in swap is above memory.swap.high."""
    host = limited(f"{SERVICE}/memory.swap.high", "104857600\n", None)
    files = {"memory.swap.current": "106000000", "memory.high": "8589934592"}
    files["memory.current"] = "90000000"
    host.machine.memory.write({f"{SERVICE}/{name}": f"{text}\n" for name, text in files.items()})
    function = "__mem_cgroup_handle_over_high"
    host.pass_seconds(40, reports(wait_channel=function, stack=(function, "do_syscall_64")))
    assert host.cause() == "own memory limit"
    assert [limit.file for limit in host.limits()] == [f"{SERVICE}/memory.swap.high"]


@pytest.mark.parametrize("function", ["mem_cgroup_oom_synchronize", "mem_cgroup_handle_oom"])
@pytest.mark.parametrize("at", ["/docker", "/docker/4f2a"])
def test_programs_at_a_limit_at_which_the_kernel_must_not_kill_are_told_that_limit(
    function: str, at: str
) -> None:
    """'docker run --oom-kill-disable': they stand still until somebody gives them memory."""
    group = f"/sys/fs/cgroup/memory{at}"
    host = Blocked()
    host.machine.memory.write(
        {
            f"{group}/memory.oom_control": "oom_kill_disable 1\nunder_oom 1\n",
            f"{group}/memory.limit_in_bytes": "104857600\n",
            "/sys/fs/cgroup/memory/docker/4f2a/memory.usage_in_bytes": "104857600\n",
        }
    )
    held = {"wait_channel": function, "stack": (function, "pagefault_out_of_memory")}
    more = {"system_call": FAULT, "file": "", "mount": "", "waits_at": "", "counters": ()}
    groups = ("9:memory:/docker/4f2a", "4:blkio:/docker/4f2a")
    host.pass_seconds(40, [task(n, "java", groups=groups, **held, **more) for n in range(2)])  # type: ignore[arg-type]
    assert host.mails()[0][0] <= 20
    assert host.cause("") == "own memory limit"
    (sentence,) = limit_sentences(host.limits(""))
    assert sentence == f"limit of {at[1:]}: '104857600' in {group}/memory.limit_in_bytes"


DELAYED = {
    "wait_channel": "rq_qos_wait",
    "stack": ("rq_qos_wait", "blkcg_iolatency_throttle", "__rq_qos_throttle", "submit_bio"),
}
OVER_HIGH = {
    "wait_channel": "__mem_cgroup_handle_over_high",
    "stack": ("__mem_cgroup_handle_over_high", "do_syscall_64"),
}
KEPT_OUT = {
    "wait_channel": "mem_cgroup_oom_synchronize",
    "stack": ("mem_cgroup_oom_synchronize", "pagefault_out_of_memory"),
}
MEMORY_V1 = "/sys/fs/cgroup/memory/docker"


@pytest.mark.parametrize(
    ("files", "waits", "group"),
    [
        (
            {
                f"{SERVICE}/io.latency": "8:0 target=300000",
                f"{SLICE}/db.service/io.latency": "8:0 target=75000",
            },
            DELAYED,
            GROUP,
        ),
        ({f"{SERVICE}/memory.high": "104857600"}, OVER_HIGH, GROUP),
        (
            {
                f"{SERVICE}/memory.swap.high": "104857600",
                f"{SERVICE}/memory.swap.current": "106000000",
            },
            OVER_HIGH,
            GROUP,
        ),
        (
            {
                f"{MEMORY_V1}/memory.memsw.limit_in_bytes": "209715200",
                f"{MEMORY_V1}/memory.memsw.usage_in_bytes": "209715200",
            },
            KEPT_OUT,
            "9:memory:/docker",
        ),
    ],
    ids=["io.latency", "memory.high", "memory.swap.high", "memory.memsw.limit_in_bytes"],
)
def test_what_a_mail_says_to_search_for_limits_finds_the_file_that_it_names(
    files: dict[str, str], waits: dict[str, object], group: str, tmp_path: Path
) -> None:
    """The command of its advice, run by grep on these files."""
    host = Blocked()
    host.machine.memory.write({f"{CGROUP}/cgroup.controllers": "io memory\n"})
    host.machine.memory.write({path: f"{text}\n" for path, text in files.items()})
    host.pass_seconds(40, reports(group=group, **waits))
    named = {limit.file for limit in host.limits()}
    assert named
    for path, text in files.items():
        at = tmp_path / path.lstrip("/")
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(f"{text}\n")
    advice = host.machine.host.mails[0].advice
    (command,) = (line.strip() for line in advice.splitlines() if "grep -rsH" in line)
    words = shlex.split(command.replace(CGROUP, f"{tmp_path}{CGROUP}"))
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    paths = {line.partition(":")[0].removeprefix(str(tmp_path)) for line in shown.splitlines()}
    assert named <= paths
