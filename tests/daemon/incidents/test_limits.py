"""Programs that wait for a limit: of a cloud volume, of their control group, or of memory."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.areca import BOOT
from support.blocked import FAULT, Blocked, task
from support.kmsg import Kernel
from support.live import Live, text, watched

from iowarden.collectors.procfs import process_io
from iowarden.collectors.procfs.process_io import ProcessIo, Sweep
from iowarden.collectors.procfs.tasks import BlockedTask, BlockedTasks, to_json
from iowarden.rules.notices.who_waits import limit_sentences

if TYPE_CHECKING:
    from email.message import EmailMessage
    from pathlib import Path

SERVICE = "/sys/fs/cgroup/system.slice/report.service"
V1_SERVICE = "/sys/fs/cgroup/blkio/system.slice/report.service"
GROUP, V1_GROUP = "0::/system.slice/report.service", "4:blkio:/system.slice/report.service"
READ_STACK = ("io_schedule", "folio_wait_bit_common", "filemap_read", "vfs_read")
CAP = 150
"""Requests a second."""


def load(
    host: Blocked, requests: int, milliseconds: int, in_flight: int, name: str = "vda"
) -> None:
    """Let a disk complete so many requests in this second, each taking so long."""
    disk = host.disks[name]
    disk.reads += requests
    disk.milliseconds += requests * milliseconds
    disk.in_flight = in_flight


def volume(name: str = "vda", fewest: int = 30) -> Blocked:
    """Return a host with a cloud volume, a minute without a queue behind it."""
    host = Blocked()
    host.add_disk(name)
    for second in range(70):
        load(host, fewest + second % 40, 4, 0, name)
        host.pass_second()
    return host


def at_cap(
    host: Blocked,
    seconds: int,
    *,
    tasks: int,
    jitter: int = 0,
    process: int = 0,
    name: str = "vda",
) -> None:
    """Let many tasks read from the volume, each in another call at each poll.

    `process`: whose threads they are; 0: of none that reads more than the others.
    """
    for second in range(seconds):
        load(host, CAP + jitter * (second // 10 % 2), 410, 14, name)
        if process:
            host.readers[process] = "postgres", second * CAP * 4096
        host.pass_second(
            [
                task(
                    number,
                    process=process,
                    waits_at="8:16",
                    counters=(second, 0, second, 0, second * 8192, 0),
                    stack=READ_STACK,
                )
                for number in range(tasks)
            ]
        )


def test_a_cloud_volume_at_its_cap_is_mailed_after_ten_minutes_with_its_limit() -> None:
    """410 ms a request for 12 min, 14 tasks blocked, none of them for long in one call."""
    host = volume()
    began = host.second
    at_cap(host, 720, tasks=14)
    (first, severity), *others = host.mails()
    assert 600 <= first - began <= 720
    assert (severity, others) == ("warning", [])
    assert host.cause("vda") == "at its limit"
    assert {"virtual", "at_limit"} <= set(host.guards("vda"))
    assert "at its limit of 150 requests a second" in host.summary("Freeze")


def test_a_volume_whose_rate_varies_by_a_tenth_is_at_no_limit() -> None:
    """The same load and queue; what it completes goes up and down: it is busy, and no more."""
    host = volume()
    at_cap(host, 700, tasks=14, jitter=15)
    assert host.mails() == []
    assert "at_limit" not in host.guards("vda")


@pytest.mark.parametrize("fewest", [100, 240], ids=["most of it", "a burst above it"])
def test_a_volume_that_was_never_at_half_of_its_limit_is_seen_at_it(fewest: int) -> None:
    """It was busy from the beginning, or above its cap until its burst credit was used up."""
    host = volume(fewest=fewest)
    at_cap(host, 80, tasks=14)
    assert "at_limit" in host.guards("vda")


@pytest.mark.parametrize("milliseconds", [4, 0], ids=["4 ms", "less than a tick"])
def test_a_load_of_constant_rate_that_had_no_queue_before_is_at_no_limit(milliseconds: int) -> None:
    """A recorder of cameras asks for 150 a second, whatever that takes: the volume became slow.

    Before 5.0 a request that takes less than a tick takes no time.
    """
    host = Blocked()
    host.add_disk("vda")
    for _ in range(70):
        load(host, CAP, milliseconds, 0)
        host.pass_second()
    at_cap(host, 80, tasks=14)
    assert "at_limit" not in host.guards("vda")


def test_large_requests_that_take_longer_than_small_ones_show_no_limit() -> None:
    """It read 4 KiB each, 4 ms; now it writes 150 times 1 MiB a second, 20 ms each, at ease."""
    host = volume()
    disk = host.disks["vda"]
    for _ in range(80):
        disk.writes, disk.written_sectors = disk.writes + CAP, disk.written_sectors + CAP * 2048
        disk.milliseconds, disk.in_flight = disk.milliseconds + CAP * 20, 3
        host.pass_second()
    assert "at_limit" not in host.guards("vda")


@pytest.mark.parametrize("name", ["nvme1n1"])
def test_a_disk_of_the_host_in_a_steady_copy_has_no_limit(name: str) -> None:
    """The same numbers: saturated, a disk completes as many a second as well; nobody caps it."""
    host = volume(name)
    at_cap(host, 720, tasks=14, name=name)
    assert host.mails() == []
    assert "at_limit" in host.guards(name)


def test_a_volume_at_its_cap_with_a_single_reader_is_information() -> None:
    """A backup that reads as fast as it may harms nobody."""
    host = volume()
    at_cap(host, 700, tasks=1)
    assert host.mails() == []
    assert "at_limit" in host.guards("vda")


SWAPPED = ("io_schedule", "folio_wait_bit_common", "do_swap_page")
MAPPED = ("io_schedule", "folio_wait_bit_common", "filemap_fault", "__do_fault")
RECLAIMED = ("io_schedule", "rq_qos_wait", "swap_writepage", "shrink_folio_list")
FREES = ("io_schedule", "wait_on_page_bit", "shrink_page_list", "do_try_to_free_pages")
FREES_FOR_GROUP = (*FREES, "try_to_free_mem_cgroup_pages", "try_charge", "do_anonymous_page")
"""RHEL 8 with control groups of version 1: memory that is to be freed is still being written."""
FREES_FOR_HOST = (*FREES, "try_to_free_pages", "__alloc_pages_slowpath", "do_anonymous_page")


def storm(
    host: Blocked,
    seconds: int,
    *,
    pages: int = 5_000,
    groups: tuple[str, ...] = (),
    stack: tuple[str, ...] = SWAPPED,
) -> None:
    """Let programs wait in page faults, another one at each poll, while pages are swapped."""
    for second in range(host.second, host.second + seconds):
        host.swapped += pages
        host.pass_second(
            [
                task(
                    number,
                    system_call=FAULT,
                    waits_at="",
                    file="",
                    counters=(),
                    voluntary_switches=second * 50,
                    stack=stack,
                    groups=groups,
                )
                for number in range(6)
            ]
        )


def test_a_swap_storm_is_mailed_after_a_minute() -> None:
    """All programs fault at each poll, none in one fault for long; memory goes in and out."""
    host = Blocked()
    host.machine.memory.write(
        {
            "/proc/pressure/memory": "some avg10=90.00 avg60=9.00 avg300=1.00 total=1\n"
            "full avg10=60.00 avg60=9.00 avg300=1.00 total=1\n"
        }
    )
    host.pass_seconds(60, [])
    began = host.second
    storm(host, 120)
    mails = host.mails()
    assert 60 <= mails[0][0] - began <= 80
    assert host.cause("") == "swap storm"


def test_a_swap_storm_has_its_cause_though_nobody_waits_at_the_poll_a_minute_later() -> None:
    """At four of five polls programs fault; it is a minute old between two of their faults."""
    host = Blocked()
    line = "avg10=60.00 avg60=9.00 avg300=1.00 total=1\n"
    host.machine.memory.write({"/proc/pressure/memory": f"some {line}full {line}"})
    host.pass_seconds(60, [])
    storm(host, 60)
    for _ in range(5):
        host.swapped += 5_000
        host.pass_second([])
    while not host.mails():
        storm(host, 1)
    assert "memory is swapped all the time" in host.summary("Freeze")


SLICE = "/sys/fs/cgroup/tables.slice"


@pytest.mark.parametrize(
    ("used", "full_percent", "is_storm"),
    [(199, 64, True), (199, 11, False), (120, 64, False)],
    ids=["at its limit", "programs of it get on", "it has room"],
)
def test_a_swap_storm_in_a_control_group_is_one_though_others_of_the_host_run(
    used: int, full_percent: int, *, is_storm: bool
) -> None:
    """Of the host's time 2 % are lost, of that of a slice with 200 MiB 64 %: its programs fault."""
    host = Blocked()
    pressure = "some avg10=88.00 avg60=9.00 avg300=1.00 total=1\nfull avg10={}.00 avg60=9.00 avg300=1.00 total=1\n"  # noqa: E501 - as the kernel prints it
    host.machine.memory.write(
        {
            "/proc/pressure/memory": pressure.format(2),
            "/sys/fs/cgroup/cgroup.controllers": "io memory\n",
            f"{SLICE}/memory.max": f"{200 << 20}\n",
            f"{SLICE}/memory.current": f"{used << 20}\n",
            f"{SLICE}/memory.pressure": pressure.format(full_percent),
        }
    )
    host.pass_seconds(60, [])
    began = host.second
    storm(host, 120, groups=("0::/tables.slice/table-1.service",))
    assert bool(host.mails()) is is_storm
    if is_storm:
        assert 60 <= host.mails()[0][0] - began <= 80
        assert host.cause("") == "swap storm"


V1_SLICE = "/sys/fs/cgroup/memory/tables.slice"


@pytest.mark.parametrize(
    ("group", "limit", "used"),
    [
        (SLICE, "memory.max", "memory.current"),
        (SLICE, "memory.high", "memory.current"),
        (SLICE, "memory.swap.max", "memory.swap.current"),
        (V1_SLICE, "memory.limit_in_bytes", "memory.usage_in_bytes"),
        (V1_SLICE, "memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"),
    ],
)
@pytest.mark.parametrize(
    ("used_bytes", "available_kib", "cause"),
    [
        (199 << 20, 6_000_000, "own memory limit"),
        (199 << 20, 200_000, "swap storm"),
        (20 << 20, 6_000_000, "swap storm"),
    ],
    ids=["the host has memory left", "the host is short as well", "far from its limit"],
)
def test_programs_that_swap_at_a_limit_of_their_own_are_told_its_file_and_value(
    group: str, limit: str, used: str, used_bytes: int, available_kib: int, cause: str
) -> None:
    """No list of all programs of a host that has 6 of 8 GB available explains it."""
    host = Blocked()
    pressure = "avg10=64.00 avg60=9.00 avg300=1.00 total=1\n"
    files = {
        "/proc/pressure/memory": f"some {pressure}full {pressure}",
        f"{group}/{limit}": f"{200 << 20}\n",
        f"{group}/{used}": f"{used_bytes}\n",
    }
    if group == SLICE:
        files["/sys/fs/cgroup/cgroup.controllers"] = "io memory\n"
    host.machine.memory.write(files)
    host.available_kib = available_kib
    host.pass_seconds(60, [])
    line = "9:memory:/tables.slice" if group == V1_SLICE else "0::/tables.slice"
    storm(host, 100, groups=(line,))
    assert host.cause("") == cause
    sentence = f"limit of tables.slice: '{200 << 20}' in {group}/{limit}"
    assert limit_sentences(host.limits("")) == [sentence] * (cause == "own memory limit")


@pytest.mark.parametrize(
    ("stack", "cause"),
    [(SWAPPED, "own memory limit"), (RECLAIMED, "own memory limit"), (MAPPED, "unknown")],
)
def test_programs_whose_first_long_fault_is_in_a_group_at_its_limit_are_told_it(
    stack: tuple[str, ...], cause: str
) -> None:
    """Two programs wait for one page each before it is a swap storm: their stacks tell for what."""
    host = Blocked()
    host.machine.memory.write(
        {
            "/sys/fs/cgroup/cgroup.controllers": "io memory\n",
            f"{SLICE}/memory.max": f"{200 << 20}\n",
            f"{SLICE}/memory.current": f"{199 << 20}\n",
        }
    )
    host.available_kib = 6_000_000
    host.pass_seconds(60, [])
    host.pass_seconds(14, faults(stack))
    assert len(host.mails()) == 1
    assert host.cause("") == cause


@pytest.mark.parametrize(
    ("stacks", "cause"),
    [
        ((FREES_FOR_GROUP,), "own memory limit"),
        ((FREES_FOR_HOST,), "memory"),
        ((FREES_FOR_GROUP, FREES_FOR_HOST), "memory"),
    ],
    ids=["their group", "the host", "both"],
)
@pytest.mark.parametrize("is_readable", [True, False])
def test_who_frees_memory_of_a_group_at_its_limit_is_told_it_without_any_swap(
    stacks: tuple[tuple[str, ...], ...], cause: str, *, is_readable: bool
) -> None:
    """A container of 200 MiB whose page cache is full of unwritten data; half of the host is free.

    Its stack shows whose memory is short, also where the files of its group are not readable.
    """
    host = Blocked()
    if is_readable:
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        host.machine.memory.write({f"{V1_SLICE}/{name}": f"{200 << 20}\n" for name in names})
    host.available_kib = 6_000_000
    host.pass_seconds(60, [])
    waiting = [each for stack in stacks for each in faults(stack, "9:memory:/tables.slice")]
    host.pass_seconds(14, [replace(each, pid=900 + n) for n, each in enumerate(waiting)])
    assert len(host.mails()) == 1
    assert host.cause("") == cause
    if cause == "own memory limit":
        sentence = f"limit of tables.slice: '{200 << 20}' in {V1_SLICE}/memory.limit_in_bytes"
        assert limit_sentences(host.limits("")) == [sentence] * is_readable
        assert "a memory limit of their control group" in host.summary("Freeze")


def faults(stack: tuple[str, ...], group: str = "0::/tables.slice") -> list[BlockedTask]:
    """Return two programs of a slice, each in one page fault."""
    return [
        task(
            number,
            system_call=FAULT,
            waits_at="",
            file="",
            counters=(),
            stack=stack,
            groups=(group,),
        )
        for number in range(2)
    ]


@pytest.mark.parametrize("programs", [1, 2, 3])
def test_few_programs_whose_own_pages_are_the_load_are_harmed_by_a_swap_storm(
    programs: int,
) -> None:
    """Each reads a third of what the disk reads, or more; pressure falls for seconds at a time."""
    host = Blocked()
    began = host.second
    for second in range(150):
        full = 45.0 if second % 3 else 8.0
        pressure = f"avg10={full:.2f} avg60=9.00 avg300=1.00 total=1\n"
        host.machine.memory.write({"/proc/pressure/memory": f"some {pressure}full {pressure}"})
        host.swapped += 900
        host.disks["sda"].reads += 900
        waits = [
            task(
                number,
                "python3",
                pid=500 + number,
                start_ticks=1_000,
                system_call=FAULT,
                waits_at="",
                file="",
                counters=(),
                voluntary_switches=second * 50,
                stack=("io_schedule", "folio_wait_bit_common", "do_swap_page"),
            )
            for number in range(programs)
        ]
        for number in range(programs):
            host.readers[500 + number] = "python3", second * 900 * 4096 // programs
        host.pass_second(waits)
    assert 60 <= host.mails()[0][0] - began <= 85
    assert host.cause("") == "swap storm"


def test_a_swap_storm_in_which_most_polls_fail_is_mailed() -> None:
    """The probe waits for memory like all others: for 14 of 20 s it does not answer."""
    host = Blocked()
    host.pass_seconds(60, [])
    began = host.second
    for second in range(150):
        host.has_probe = second % 20 < 6
        storm(host, 1)
    assert 60 <= host.mails()[0][0] - began <= 110


def test_a_backup_of_many_threads_that_reads_a_volume_at_its_cap_harms_no_other() -> None:
    """None of their waits is long; what they read shows that they are the load themselves."""
    host = volume()
    at_cap(host, 700, tasks=14, process=700)
    assert host.mails() == []
    assert "at_limit" in host.guards("vda")


@pytest.mark.parametrize(
    ("stack", "pages", "is_storm"),
    [
        (SWAPPED, 900, True),
        (SWAPPED, 30, True),
        ((), 900, True),
        (SWAPPED, 1, False),
        (MAPPED, 0, False),
        (MAPPED, 1, False),
        (MAPPED, 900, False),
    ],
)
def test_without_pressure_a_storm_is_what_is_swapped_for_those_who_wait(
    stack: tuple[str, ...], pages: int, *, is_storm: bool
) -> None:
    """psi=0: a page at each poll is none, nor are programs that start while others are swapped."""
    host = Blocked()
    host.pass_seconds(60, [])
    began = host.second
    storm(host, 120, pages=pages, stack=stack)
    assert bool(host.mails()) is is_storm
    if is_storm:
        assert 60 <= host.mails()[0][0] - began <= 80
        assert host.cause("") == "swap storm"


@pytest.mark.parametrize("full_percent", [60, 5])
def test_programs_whose_files_are_thrown_out_of_memory_are_in_a_storm(full_percent: int) -> None:
    """Their swap is full, so that it is their code which is read again; pressure shows it."""
    host = Blocked()
    line = f"avg10={full_percent}.00 avg60=9.00 avg300=1.00 total=1\n"
    host.machine.memory.write({"/proc/pressure/memory": f"some {line}full {line}"})
    host.pass_seconds(60, [])
    storm(host, 120, pages=2, stack=MAPPED)
    assert bool(host.mails()) is (full_percent == 60)


def test_the_mail_of_a_swap_storm_names_who_has_the_memory(tmp_path: Path) -> None:
    """Whose memory is short is not who waits for it: here it runs and grows."""
    (first,) = storm_mails(tmp_path, "/system.slice")
    assert "most in memory: python3 (etl.service, pid 2481), 780 MiB" in text(first)


def test_the_oom_kill_that_ends_a_swap_storm_is_in_its_incident(tmp_path: Path) -> None:
    """A mail about the storm after a minute, and one that names the program that was killed."""
    killed_one = (
        "Out of memory: Killed process 2481 (python3) total-vm:8123400kB, anon-rss:798120kB,"
        " file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:16384kB oom_score_adj:0"
    )
    first, second = storm_mails(tmp_path, "/system.slice", killed_one)
    assert "memory is swapped all the time" in text(first)
    assert "kernel killed python3 for lack of memory" in str(second["Subject"])
    assert first["X-Iowarden-Incident"] == second["X-Iowarden-Incident"]


def killed(group: str, program: str, number: int) -> list[str]:
    """Return what Linux 6.1 prints when it kills a program at memory.max of its control group."""
    sizes = "total-vm:812340kB, anon-rss:198120kB, file-rss:0kB, shmem-rss:0kB, UID:33"
    where = "constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0"
    who = f"task_memcg={group},task={program},pid={number},uid=33"
    return [
        f"{program} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        "memory: usage 204800kB, limit 204800kB, failcnt 4563",
        "swap: usage 1024kB, limit 9007199254740988kB, failcnt 0",
        f"Memory cgroup stats for {group}:",
        f"oom-kill:{where},oom_memcg={group},{who}",
        f"Memory cgroup out of memory: Killed process {number} ({program}) {sizes}",
    ]


def test_a_kill_at_the_limit_of_the_group_that_waits_is_in_its_incident(tmp_path: Path) -> None:
    """The limit is that of the slice above; the second mail has program, slice, file and value."""
    lines = killed("/shop.slice", "php-fpm", 901)
    first, second = storm_mails(tmp_path, "/shop.slice/php.service", *lines)
    assert "memory is swapped all the time" in text(first)
    said = "the kernel killed php-fpm (pid 901) at memory.max (200 MiB) of shop.slice"
    assert said in " ".join(text(second).split())
    assert first["X-Iowarden-Incident"] == second["X-Iowarden-Incident"]


def test_a_kill_in_another_group_than_the_one_that_waits_is_an_incident_of_its_own(
    tmp_path: Path,
) -> None:
    """A service at its limit beside a storm has nothing to do with it; its own kills are one.

    Its name has a backslash, which the kernel escapes once more.
    """
    group = "/system.slice/mail\\x5cx2dfilter.service"
    lines = [line for number in range(3) for line in killed(group, "rspamd", 700 + number)]
    first, second = storm_mails(tmp_path, "/shop.slice/php.service", *lines)
    assert str(second["Subject"]).startswith("[WARNING]")
    assert "mail\\x2dfilter.service" in str(second["Subject"])
    assert "rspamd" in text(second)
    assert "systemctl list-units --failed" in text(second)
    assert first["X-Iowarden-Incident"] != second["X-Iowarden-Incident"]


def storm_mails(tmp_path: Path, group: str, *kernel_lines: str) -> list[EmailMessage]:
    """Return the mails about a storm of 90 s in a control group that the kernel ends."""
    live = Live(tmp_path)
    live.change(dict(BOOT))
    kernel = Kernel(live)
    kernel.says("sd 0:0:0:0: [sda] Attached SCSI disk", priority=6)
    with watched(tmp_path, live) as host:
        for second in range(90):
            live.change(swapping(second, live.uptime(), group))
        kernel.says(*kernel_lines)
        return host.wait(70)


def test_the_cause_that_the_first_mail_did_not_know_is_mailed_once_it_is_known(
    tmp_path: Path,
) -> None:
    """Without readable stacks two programs in a fault show nothing; after 30 s a storm does.

    What is measured is not new each time: one mail says it.
    """
    live = Live(tmp_path)
    live.change(dict(BOOT))
    Kernel(live).says("sd 0:0:0:0: [sda] Attached SCSI disk", priority=6)
    with watched(tmp_path, live) as host:
        for second in range(14):
            live.change(swapping(second, live.uptime(), stack=(), switches=0))
        for second in range(14, 240):
            live.change(swapping(second, live.uptime(), stack=()))
        first, second_mail = host.wait(5)
    assert "cause not known" in str(first["Subject"])
    assert "programs blocked: memory is swapped all the time" in str(second_mail["Subject"])
    assert first["X-Iowarden-Incident"] == second_mail["X-Iowarden-Incident"]


GROWING = ProcessIo(2481, 4000, 1, "python3", "etl.service", 4096, 0, 0, 0, 0, 9, 780 << 20)


def swapping(
    second: int,
    uptime: float,
    group: str = "/system.slice",
    *,
    stack: tuple[str, ...] = SWAPPED,
    switches: int = 50,
) -> dict[str, str]:
    """Return the files of a second in which programs wait for their own pages.

    `switches`: how often each waits anew in a second; 0: it waits for one page all the time.
    """
    tasks = [
        task(
            number,
            system_call=FAULT,
            waits_at="",
            file="",
            counters=(),
            voluntary_switches=second * switches,
            stack=stack,
            groups=(f"0::{group}",),
        )
        for number in range(6)
    ]
    return {
        "/.probe/tasks": json.dumps(
            to_json(BlockedTasks(tuple(tasks), len(tasks), boot_seconds=uptime))
        ),
        "/.probe/io_sweep": json.dumps(process_io.to_json(Sweep(uptime, (GROWING,)))),
        "/proc/stat": (
            "cpu  1 0 1 1 1 0 0 0 0 0\nintr 0\nctxt 0\nbtime 1799999000\nprocesses 1\n"
            "procs_running 1\nprocs_blocked 6\n"
        ),
        "/proc/vmstat": (
            "nr_dirty 0\nnr_writeback 0\nnr_dirtied 0\nnr_written 0\n"
            "nr_dirty_threshold 100000\nnr_dirty_background_threshold 50000\n"
            f"pgpgin 0\npgpgout 0\npswpin {second * 5000}\npswpout {second * 5000}\n"
        ),
    }


def test_the_disk_that_fills_the_queue_of_its_adapter_is_named_and_none_that_starves() -> None:
    """sda has 246 of 254 requests in flight; sdb and sdc get one through a second."""
    host = Blocked()
    files = {"/proc/sys/kernel/osrelease": "4.9.0-19-amd64\n"}
    files |= {
        f"/sys/class/scsi_host/host4/{name}": f"{text}\n"
        for name, text in {"proc_name": "3w-9xxx", "can_queue": "254", "cmd_per_lun": "254"}.items()
    }
    for number, name in enumerate(("sda", "sdb", "sdc")):
        if number:
            host.add_disk(name)
        device = f"/sys/class/scsi_device/4:0:{number}:0/device"
        files |= {f"{device}/state": "running\n", f"{device}/type": "0\n"}
        files |= {f"{device}/queue_depth": "254\n", f"{device}/block/{name}/x": ""}
        files[f"/sys/block/{name}/device/scsi_device/4:0:{number}:0/x"] = ""
    host.machine.memory.write(files)
    host.pass_seconds(60, [])
    for _ in range(20):
        for name, requests, milliseconds, in_flight in (
            ("sda", 90, 2_700, 246),
            ("sdb", 1, 1_500, 2),
            ("sdc", 1, 9_000, 1),
        ):
            disk = host.disks[name]
            disk.writes += requests
            disk.written_sectors += 8 * requests
            disk.milliseconds += requests * milliseconds
            disk.busy_milliseconds += 1000
            disk.in_flight = in_flight
        host.pass_second([task(n, waits_at="8:16", stack=READ_STACK) for n in range(2)])
    assert host.cause("sdb") == "neighbour"
    assert "programs blocked: sda fills the adapter's queue" in host.summary("Freeze")
    (advice,) = {mail.advice for mail in host.machine.host.mails if "fills it" in mail.advice}
    assert "echo 32 > /sys/block/sda/device/queue_depth" in advice.replace("'", "")
    assert "max_ratio" not in advice
