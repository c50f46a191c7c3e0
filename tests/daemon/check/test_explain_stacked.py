"""`iowarden explain` with what stands on disks: pools, maps, device-mapper, memory, block lists."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.explained import read

from iowarden.collectors.parsed_text import Tool
from iowarden.collectors.tool_output.multipath import parse_multipath
from iowarden.collectors.tool_output.parse import parse
from iowarden.daemon.cli import explain_command

ZPOOL = """\
  pool: tank
 state: {state}
  scan: {scan}
config:

\tNAME        STATE     READ WRITE CKSUM
\ttank        {state}     0     0     0
\t  mirror-0  {group}     0     0     0
\t    sda     ONLINE       0     0     0
\t    sdb     {disk}    {counts}{note}
\tlogs
\t  nvme0n1p1 ONLINE       0     0     0
\tspares
\t  sdz       AVAIL

errors: {errors}
"""
NO_ERRORS = "No known data errors"
SCRUB = "scrub repaired 0B in 01:02:03 with 2 errors on Sun May  3 01:02:03 2026"
RESILVER = """resilver in progress since Sun May  3 01:02:03 2026
\t1.2G / 5G scanned at 9M/s, 600M / 5G issued at 4M/s
\t600M resilvered, 11.72% done, 00:20:03 to go"""


def zpool(
    state: str = "ONLINE",
    group: str = "ONLINE",
    disk: str = "ONLINE",
    counts: str = "0     0     0",
    note: str = "",
    errors: str = NO_ERRORS,
    scan: str = "scrub repaired 0B in 01:02:03 with 0 errors on Sun May  3 01:02:03 2026",
) -> str:
    """'zpool status' of a mirror with a log device and a spare."""
    return ZPOOL.format(
        scan=scan,
        state=state,
        group=group,
        disk=disk,
        counts=counts,
        note=note,
        errors=errors,
    )


@pytest.mark.parametrize("squeezed", [False, True])
@pytest.mark.parametrize(
    ("text", "severity", "told"),
    [
        (zpool(), "", ""),
        (zpool(note="  (resilvering)"), "", ""),
        (zpool(counts="0     0    33"), "warning", "sdb of mirror-0 of tank: 33 checksum errors"),
        (zpool(counts="3 1.2K 0"), "warning", "3 read errors, 1229 write errors"),
        (zpool("DEGRADED", "DEGRADED", "FAULTED"), "warning", "pool tank is degraded"),
        (zpool("DEGRADED", "DEGRADED", "FAULTED"), "critical", "no redundancy left"),
        (zpool(scan=RESILVER), "notice", "pool tank is being resilvered, 11.7 % done"),
        (
            zpool("DEGRADED", "DEGRADED", "UNAVAIL", note="  was /dev/sdb1"),
            "warning",
            "UNAVAIL: was",
        ),
        (zpool("DEGRADED", "DEGRADED", "OFFLINE"), "notice", "sdb of mirror-0 of tank is OFFLINE"),
        (zpool("UNAVAIL", "UNAVAIL", "UNAVAIL"), "critical", "pool tank is UNAVAIL"),
        (zpool("SUSPENDED", "DEGRADED", "FAULTED"), "critical", "all its I/O hangs"),
        (zpool(errors="3 data errors, use '-v' for a list"), "critical", "has data errors"),
        (zpool(scan=SCRUB), "warning", "2 errors in its last scan"),
    ],
)
def test_a_pool_is_explained(text: str, severity: str, told: str, *, squeezed: bool) -> None:
    """Healthy, degraded and suspended ones; also with blanks squeezed by a web form."""
    if squeezed:
        text = "\n".join(" ".join(line.split()) for line in text.split("\n"))
    found = read(text)
    assert found.kind == "zpool"
    assert not found.unparsed
    assert found.status == (1 if severity else 0)
    assert any(each.severity == severity and told in each.text for each in found.alerts) or (
        not severity and not found.alerts
    )


def test_a_row_of_a_pool_that_is_not_understood_is_never_well() -> None:
    """A state of a later version, and a pool without its devices."""
    assert read(zpool(disk="PONDERING")).status == 2
    assert read("  pool: tank\n state: ONLINE\n", "zpool").status == 2


def test_a_map_that_has_no_path_at_all_has_none_that_works() -> None:
    """Its vendor and product are '##,##'; a map with them whose paths are missing is truncated."""
    text = "mpathb (3600a0981) dm-3 {model}\nsize=2.0G features='0' hwhandler='0' wp=rw\n"
    lost = read(text.format(model="##,##"))
    assert [(each.severity, each.alert) for each in lost.alerts] == [
        ("critical", "MultipathNoPath")
    ]
    cut = read(text.format(model="NETAPP,LUN"))
    assert (cut.status, cut.alerts) == (2, ())


def test_data_errors_that_may_not_be_queried_are_unknown() -> None:
    """The user may not read the list: neither well nor lost data; an expansion is no fault."""
    unknown = read(zpool(errors="List of errors unavailable: permission denied"))
    assert (unknown.status, unknown.alerts) == (2, ())
    assert "List of errors unavailable" in unknown.unparsed[0].reason
    text = zpool().replace("config:", "expand: expanded raidz2-0 copied 14.8G in 00:02:05\nconfig:")
    assert read(text).status == 0
    (pool, *_) = read(text).objects
    assert "expanded" not in str(pool.details)


def test_the_short_answer_that_all_pools_are_healthy_is_one() -> None:
    """'zpool status -x'; behind another answer it is none."""
    assert read("all pools are healthy\n").status == 0
    assert read(zpool("DEGRADED", "DEGRADED", "FAULTED") + "all pools are healthy\n").status == 1
    assert read("pondering\nall pools are healthy, they say\n", "zpool").status == 2


MULTIPATH = """\
mpatha (3600a0980) dm-2 NETAPP,LUN C-Mode
size=8.0G features='{features}' hwhandler='1 alua' wp=rw
|-+- policy='service-time 0' prio=50 status=active
| |- 1:0:0:1 sdb 8:16  {first}
| `- 2:0:0:1 sdc 8:32  {first}
`-+- policy='service-time 0' prio=10 status=enabled
  `- 1:0:1:1 sdd 8:48  {second}
"""
WORKING = ("active ready running", "active ghost running", "active shaky running",
           "active i/o pending running", "active undef unknown")  # fmt: skip
FAILED = ("failed faulty running", "failed faulty offline", "failed undef unknown",
          "active faulty running", "failed i/o timeout running")  # fmt: skip


def test_every_pair_of_path_states_is_judged() -> None:
    """Works, one path lost, all lost: for each word of the three columns."""
    for first, second in itertools.product((*WORKING, *FAILED), repeat=2):
        found = parse_multipath(MULTIPATH.format(features="0", first=first, second=second))
        bad = [state in FAILED for state in (first, second)]
        expected = [] if not any(bad) else ["critical" if all(bad) else "warning"]
        assert [each.severity for each in found.findings] == expected, (first, second)
        assert not found.unparsed
    assert read(MULTIPATH.format(features="0", first=WORKING[0], second=WORKING[1])).status == 0


OLD_MULTIPATH = """\
mpath1 (3600508b4000156d700012000000b0000) dm-2 HP,HSV200
[size=8.0G][features=1 queue_if_no_path][hwhandler=0][rw]
\\_ round-robin 0 [prio=50][active]
 \\_ 3:0:0:1 sda 8:0   [active][ready]
 \\_ 4:0:0:1 sdb 8:16  {second}
\\_ round-robin 0 [prio=10][enabled]
 \\_ 3:0:1:1 sdc 8:32  [active][ghost]
"""


def test_the_layout_of_old_versions_has_its_states_in_brackets() -> None:
    """RHEL 5: no column for the SCSI device, and backslashes as the tree."""
    assert read(OLD_MULTIPATH.format(second="[active][ready]")).status == 0
    found = read(OLD_MULTIPATH.format(second="[failed][faulty]"))
    assert [each.text for each in found.alerts] == ["mpath1: 2 of 3 paths work"]
    assert not found.unparsed


def test_a_map_without_paths_hangs_or_fails_by_its_features() -> None:
    """queue_if_no_path is what an administrator must know first."""
    for features, told in (("1 queue_if_no_path", "its I/O hangs"), ("0", "its I/O fails")):
        found = read(MULTIPATH.format(features=features, first=FAILED[0], second=FAILED[0]))
        assert told in found.alerts[0].text


DMSETUP = {
    "vg-root: 0 8388608 linear": 0,
    "vg-root: 0 8388608 linear ": 0,
    "crypt: 0 100 crypt": 0,
    "vg-s: 0 100 striped 2 8:16 8:32 1 AA": 0,
    "vg-s: 0 100 striped 2 8:16 8:32 1 AD": 1,
    "vg-m: 0 100 mirror 2 253:2 253:3 400/400 1 AA 1 core": 0,
    "vg-m: 0 100 mirror 2 253:2 253:3 400/400 1 AD 1 core": 1,
    "vg-r: 0 100 raid raid1 2 AA 100/100 idle 0 0 -": 0,
    "vg-r: 0 100 raid raid1 2 Aa 10/100 recover 0 0 -": 0,
    "vg-r: 0 100 raid raid1 2 AD 100/100 idle 0 0 -": 1,
    "vg-r: 0 100 raid raid5_ls 3 AAA 100/100 idle 24 0 -": 1,
    "pool: 0 100 thin-pool 1 40/4096 100/1000 - rw discard_passdown queue_if_no_space - 1024": 0,
    "pool: 0 100 thin-pool 1 40/4096 850/1000 - rw discard_passdown queue_if_no_space - 1024": 1,
    "pool: 0 100 thin-pool 1 4000/4096 10/1000 - rw discard_passdown error_if_no_space - 24": 1,
    "p: 0 9 thin-pool 1 4/96 999/1000 - out_of_data_space ignore_discard error_if_no_space -": 1,
    "p: 0 9 thin-pool 1 4/96 1/1000 - rw ignore_discard queue_if_no_space needs_check 24": 1,
    "pool: 0 100 thin-pool Fail": 1,
    "vol: 0 100 thin 512 99": 0,
    "vol: 0 100 thin Fail": 1,
    "c: 0 100 cache 8 27/4096 128 1/160 5 6 7 8 0 0 0 1 writeback 2 a 1 smq 0 rw -": 0,
    "c: 0 100 cache 8 27/4096 128 1/160 5 6 7 8 0 0 0 1 writeback 2 a 1 smq 0 ro needs_check": 1,
    "c: 0 100 cache Fail": 1,
    "s: 0 100 snapshot 16/2048 16": 0,
    "s: 0 100 snapshot 2000/2048 16": 1,
    "s: 0 100 snapshot Invalid": 1,
    "v: 0 100 verity V": 0,
    "v: 0 100 verity C": 1,
    "w: 0 100 writecache 0 100 90 0": 0,
    "w: 0 100 writecache 5 100 90 0": 1,
    "o: 0 100 vdo /dev/sdb normal - online online 100 1000": 0,
    "o: 0 100 vdo /dev/sdb read-only - online online 100 1000": 1,
    "mp: 0 100 multipath 2 0 0 0 1 1 A 0 2 2 8:16 A 0 0 1 8:32 A 0 0 1": 0,
    "mp: 0 100 multipath 2 0 0 0 1 1 A 0 2 2 8:16 F 1 0 1 8:32 A 0 0 1": 1,
    "mp: 0 100 multipath 2 0 0 0 1 1 E 0 2 2 8:16 F 1 0 1 8:32 F 1 0 1": 1,
    "mp: 0 100 multipath 2 0 0 0 1 1 E 0 2 2 8:16 F": 2,
    "mp: 0 100 multipath 2 0 0 0 1 1 D 0 1 0 8:16 A 7": 0,
    "s: 0 100 snapshot Overflow": 1,
    "s: 0 100 snapshot Merge failed": 1,
    "s: 0 100 snapshot Unknown": 2,
    "vg-m: 0 100 mirror 2 253:2 253:3 400/400 1 AA 3 disk 253:1 D": 1,
    "i: 0 100 integrity 0 1000 -": 0,
    "i: 0 100 integrity 3 1000 -": 1,
    "k: 0 100 clone 8 27/4096 8 5/160 1 0 2 hydration_threshold 1 rw": 0,
    "k: 0 100 clone Fail": 1,
    "a name: with: 1 2 all: 0 100 raid raid1 2 AD 100/100 idle 0 0 -": 1,
    "e: 0 100 error": 1,
    "t: 0 100 thin-pool 1 x/y": 2,
    "u: 0 100 pondering 1": 2,
}
"""A line of each target, in order and not, with the exit status."""


@pytest.mark.parametrize("line", DMSETUP)
def test_each_target_of_device_mapper_is_judged(line: str) -> None:
    """Beside a linear one, which is always in order."""
    found = read(f"vg-swap: 0 4096 linear \n{line}\n", "dmsetup")
    assert found.status == DMSETUP[line], found


MEMINFO = """\
MemTotal:        8174540 kB
MemFree:          100000 kB
Buffers:           20000 kB
Cached:          6000000 kB
Active:          1126936 kB
Inactive:        6101688 kB
Active(file):    2000000 kB
Inactive(file):  4000000 kB
Dirty:        {dirty:10} kB
Writeback:    {writeback:10} kB
"""
PROC_VMSTAT = """\
nr_free_pages 25000
nr_dirty {dirty}
nr_writeback {writeback}
nr_dirty_threshold 300000
nr_dirty_background_threshold 150000
"""
VMSTAT = """\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
"""


def test_memory_is_compared_with_the_limits_of_the_kernel() -> None:
    """In meminfo with the default ratios, in vmstat with the kernel's own limit."""
    assert read(MEMINFO.format(dirty=6640, writeback=0)).status == 0
    full = read(MEMINFO.format(dirty=20000, writeback=1_230_792))
    assert (full.status, full.alerts[0].alert) == (1, "DirtyLimitReached")
    assert full.objects[0].details["writers blocked at"] == "1.2 GiB"
    assert read(PROC_VMSTAT.format(dirty=1000, writeback=0)).status == 0
    near = read(PROC_VMSTAT.format(dirty=200_000, writeback=90_000))
    above = read(PROC_VMSTAT.format(dirty=200_000, writeback=100_000))
    assert [each.alerts[0].severity for each in (near, above)] == ["notice", "warning"]
    assert read("nr_free_pages 5\nnr_dirty 7\n").status == 2


def test_a_stall_in_vmstat_is_rows_in_which_tasks_wait_and_nothing_moves() -> None:
    """A busy disk moves blocks, an idle one has no waiting task; a single row is a pause."""

    def row(waiting: int, out: int) -> str:
        return f" 0  {waiting} 3780 935592 32048 5205528 0 0 0 {out} 1270 371 0 4 25 71 0\n"

    assert read(VMSTAT + row(4, 900) * 5).status == 0
    assert read(VMSTAT + row(0, 0) * 5).status == 0
    assert read(VMSTAT + row(4, 900) + row(4, 0) + row(4, 900)).status == 0
    stalled = read(VMSTAT + row(4, 900) + row(4, 0) * 6)
    assert (stalled.status, stalled.alerts[0].alert) == (1, "IoStalled")
    assert "6 rows" in stalled.alerts[0].text
    assert read(VMSTAT + row(4, 900) + "pondering\n").status == 2


def test_a_stall_may_have_rows_in_which_the_journal_alone_writes() -> None:
    """A hundredth of the best row, with several tasks waiting; one slow task is no stall."""
    row = " 0  {} 3780 935592 32048 5205528 0 0 0 {} 1270 371 0 4 25 71 0\n"
    best = VMSTAT + row.format(4, 65500) * 3
    stalled = read(best + (row.format(4, 0) + row.format(4, 8)) * 3)
    assert [each.alert for each in stalled.alerts] == ["IoStalled"]
    assert read(best + (row.format(1, 40) + row.format(4, 900)) * 5).status == 0


def _swapping(back: int, out: int, waiting: int = 12) -> str:
    return (
        f" 2 {waiting} 7955208 94012 1176 301120 {back} {out} 9981 12900 5332 9012 9 11 12 68 0\n"
    )


def test_swap_that_is_written_and_read_back_all_the_time_is_a_warning() -> None:
    """The first row is an average since boot: it alone shows nothing that happens now."""
    found = read(VMSTAT + _swapping(0, 0) + _swapping(9120, 11204) * 4)
    assert [(each.severity, each.alert) for each in found.alerts] == [("warning", "Swapping")]
    assert "11204" in found.alerts[0].text
    assert read(VMSTAT + _swapping(812, 944) + _swapping(0, 0) * 4).status == 0


@pytest.mark.parametrize(
    "rows",
    [
        _swapping(0, 0) + _swapping(0, 0) * 3 + _swapping(0, 1928),
        _swapping(0, 0) + _swapping(3100, 4000, waiting=0) * 4,
        _swapping(0, 0) + _swapping(2400, 0) * 4,
        _swapping(812, 944),
    ],
    ids=["one burst", "compressed in memory", "read back only", "average since boot"],
)
def test_swap_that_may_be_harmless_is_neither_well_nor_a_fault(rows: str) -> None:
    """It is a fault if it lasts for ten minutes, which no short text shows."""
    found = read(VMSTAT + rows)
    assert (found.status, found.alerts) == (2, ())
    assert "ten minutes" in found.unparsed[0].reason


def test_a_list_of_bad_blocks_is_a_warning_and_an_empty_one_none() -> None:
    """One number in a line, and the line in a header; runs are shown as ranges."""
    banner = "dumpe2fs 1.47.0 (5-Feb-2023)\n"
    assert read(banner).status == 0
    for text in (f"{banner}7\n8\n9\n500\n", "7\n8\n9\n500\n", "Bad blocks: 7, 8, 9, 500\n"):
        found = read(text)
        assert found.status == 1
        assert "4 blocks" in found.alerts[0].text
        assert "7-9, 500" in found.alerts[0].text
    assert read(f"{banner}7\npondering\n").unparsed


NVME = """\
Smart Log for NVME device:nvme0n1 namespace-id:ffffffff
critical_warning\t\t\t: {warning}
temperature\t\t\t\t: 35 °C (308 K)
available_spare\t\t\t: {spare}%
available_spare_threshold\t\t: 10%
percentage_used\t\t\t: {used}%
endurance group critical warning summary: 0
Data Units Read\t\t\t\t: 1,234,567 (632.10 GB)
Data Units Written\t\t\t: 7,654,321 (3.92 TB)
power_cycles\t\t\t\t: 12
power_on_hours\t\t\t\t: 10,093
unsafe_shutdowns\t\t\t: 3
media_errors\t\t\t\t: {media}
num_err_log_entries\t\t\t: 250
Warning Temperature Time\t\t: 0
Critical Composite Temperature Time\t: 0
Temperature Sensor 1           : 35 °C (308 K)
"""
NVME_JSON = """\
{{"critical_warning":{warning},"temperature":308,"avail_spare":{spare},"spare_thresh":10,
"percent_used":{used},"media_errors":{media},"power_on_hours":10093}}
"""


@pytest.mark.parametrize("template", [NVME, NVME_JSON], ids=["text", "JSON"])
@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({}, 0),
        ({"used": 98}, 1),
        ({"warning": 4}, 1),
        ({"spare": 5, "warning": 1}, 1),
    ],
)
def test_the_smart_log_of_nvme_cli_is_a_drive(
    template: str, values: dict[str, int], status: int
) -> None:
    """Judged by the rules of the service; entries of its error log are no fault."""
    known = {"warning": 0, "spare": 100, "used": 3, "media": 0}
    found = read(template.format(**(known | values)))
    assert found.kind == "nvme"
    assert found.status == status, found
    details = found.objects[0].details
    assert (details["hours"], details["celsius"]) == (10093, 35)


def test_a_smart_log_without_its_warning_is_not_well() -> None:
    """Truncated at its begin."""
    found = read(
        NVME.format(warning=0, spare=100, used=3, media=0).replace("critical_", "x_"), "nvme"
    )
    assert found.status == 2


@pytest.mark.parametrize(
    "prompt", ["root@db1:~# ", "[root@db1 ~]# ", "$ sudo ", "db1:~/x# ", "# ", "db1# /usr/sbin/"]
)
def test_the_command_behind_a_prompt_names_the_program(prompt: str) -> None:
    """The head of a session whose output is refused, or has no sign of its program."""
    for command, kind in (
        ("zpool status tank", "zpool"),
        ("multipath -ll", "multipath"),
        ("storcli64 /c0 show", "storcli"),
        ("cli64 disk smart drv=2", "cli64"),
        ("smartctl -a /dev/sda", "smartctl"),
    ):
        found = read(f"{prompt}{command}\npermission denied\n")
        assert (found.kind, found.status) == (kind, 2)


def test_a_grouped_row_of_a_storm_has_the_lines_that_it_stands_for() -> None:
    """The user finds them again in the text."""
    line = "[{n}.500000] I/O error, dev sdb, sector {n} op 0x0:(READ) flags 0x0 phys_seg 1\n"
    found = read("".join(line.format(n=n) for n in range(1, 31)))
    (events,) = (part for part in explain_command.sections(found) if "more of these" in str(part))
    assert "11-30" in str(events)


AREVENTS = """\
CLI> event info
Date-Time            Device           Event Type            Elapsed Time Errors
===============================================================================
2026-06-01 08:00:00  IDE Channel #02  Complete Checking     002:14:29    3
2026-06-01 05:00:00  Enc#2 SLOT 07    Device Failed
"""
SMART_TABLE = """\
CLI> disk smart drv=2
S.M.A.R.T Information For Drive[#02]
  # Attribute Items                             Flag   Value  Thres  State
===============================================================================
197 Current Pending Sector Count              0x12     193      0  OK
===============================================================================
"""
TEXTS: dict[str, str] = {
    Tool.ZPOOL: zpool("DEGRADED", "DEGRADED", "FAULTED", "3     0   1.2K"),
    Tool.MULTIPATH: MULTIPATH.format(features="0", first=WORKING[0], second=FAILED[0]),
    Tool.DMSETUP: "".join(f"{line}\n" for line, status in DMSETUP.items() if status < 2),
    Tool.MEMINFO: MEMINFO.format(dirty=20000, writeback=1_230_792),
    Tool.VMSTAT: VMSTAT + " 0  4 3780 935592 32048 5205528 0 0 0 0 1270 371 0 4 25 71 0\n" * 5,
    Tool.DUMPE2FS: "dumpe2fs 1.47.0 (5-Feb-2023)\n7\n8\n500\n",
    Tool.NVME: NVME.format(warning=4, spare=5, used=103, media=7),
    "nvme, JSON": NVME_JSON.format(warning=4, spare=5, used=103, media=7),
    Tool.CLI64: AREVENTS + SMART_TABLE,
}


def tool_of(name: str) -> Tool:
    """The program of a text."""
    return Tool(name.partition(",")[0])


@pytest.mark.parametrize("tool", sorted(Tool))
@pytest.mark.parametrize("text", ["A00:", "name: value", "Label", "a=b", "-", "0", "[]", "{}"])
def test_a_text_of_another_kind_has_its_reason(tool: Tool, text: str) -> None:
    """One line that looks like a field or a number of any tool: never an empty answer."""
    found = parse(text, tool)
    assert found.unparsed or found.refusals or found.outputs, tool


@pytest.mark.parametrize("name", TEXTS)
def test_any_text_is_read_or_has_its_reason(name: str) -> None:
    """A text truncated anywhere, a word replaced anywhere, any text at all: no exception."""
    text, tool = TEXTS[name], tool_of(name)
    odd = ("", "\n", "9" * 400, "٣", "-1", "\x00", "\udc80", "Infinity", "NaN", "1e999")
    words = sorted({*re.findall(r"\S+", text), *odd})

    @given(st.integers(0, len(text)), st.integers(0, 40), st.sampled_from(words) | st.text())
    def check(at: int, length: int, word: str) -> None:
        for damaged in (text[:at] + word + text[at + length :], text[:at], word):
            found = parse(damaged, tool)
            assert found.outputs or found.unparsed or not damaged.strip() or found.objects

    check()


@pytest.mark.parametrize("name", TEXTS)
def test_a_long_row_is_read_in_linear_time(name: str) -> None:
    """Thousands of blanks between any two words; a quadratic pattern would exceed the limit."""
    parse(TEXTS[name].replace(" ", " " * 3000), tool_of(name))
    parse(TEXTS[name] + "x " * 50_000, tool_of(name))


@pytest.mark.parametrize(
    ("status", "severity"),
    [
        ("raid raid5_ls 3 DAA 8/8 idle 0 0 -", "critical"),
        ("raid raid6_zr 4 DAAA 8/8 idle 0 0 -", "warning"),
        ("raid raid6_zr 4 DDAA 8/8 idle 0 0 -", "critical"),
        ("raid raid1 2 AD 8/8 idle 0 0 -", "critical"),
        ("raid raid1 3 AAD 8/8 idle 0 0 -", "warning"),
        ("raid raid10 4 AAAD 8/8 idle 0 0 -", "critical"),
        ("mirror 2 253:3 253:4 8/8 1 AD 3 disk 253:2 A", "critical"),
        ("mirror 3 253:3 253:4 253:5 8/8 1 AAD 3 disk 253:2 A", "warning"),
    ],
)
def test_no_redundancy_left_is_critical_as_of_an_md_array(status: str, severity: str) -> None:
    """One law for the same fact, whichever program reports it."""
    explained = read(f"vg-lv0: 0 16384 {status}\n", "dmsetup")
    assert [each.severity for each in explained.alerts] == [severity]


SNAPSHOTS = """\
  LV    VG  Attr       LSize  Pool Origin Data%
  home  vg0 owi-aos--- 10.00g
  snap  vg0 {} 10.00g      home   {}
"""


@pytest.mark.parametrize(
    ("attributes", "used", "told"),
    [
        ("swi-a-s---", "10.00", []),
        ("swi-a-s---", "85.00", ["warning"]),
        ("swi-a-s---", "97.00", ["critical"]),
        ("swi-I-s---", "100.00", ["warning"]),
        ("swi-S-s---", "100.00", ["warning"]),
    ],
)
def test_a_full_snapshot_is_lost_and_no_request_fails(
    attributes: str, used: str, told: list[str]
) -> None:
    """Writes to its origin go on; one that is lost already has nothing more to lose."""
    alerts = read(SNAPSHOTS.format(attributes, used)).alerts
    assert [each.severity for each in alerts] == told
    assert all("the snapshot is lost" in each.text for each in alerts)
    for each in read("s: 0 100 snapshot 2000/2048 16\n").alerts:
        assert "the snapshot is lost when it is full" in each.text


OLD_MEMINFO = """\
MemTotal:      8174540 kB
MemFree:         51228 kB
Buffers:          9420 kB
Cached:        7339204 kB
Active:        1002204 kB
Inactive:      6621230 kB
Dirty:            {dirty} kB
Writeback:     3229312 kB
AnonPages:      {anonymous} kB
Mapped:         124410 kB
"""
OLD = "2.6.18-92.1.10.el5\n"
FILES = "# cat /proc/sys/vm/dirty_ratio /proc/sys/vm/dirty_background_ratio; cat /proc/meminfo\n"


@pytest.mark.parametrize(
    ("above", "anonymous", "told"),
    [
        (
            f"{FILES}{OLD}40\n10\n",
            272388,
            ("notice", "99 %", "the ratios of 10 % and 40 % of 7.8 GiB"),
        ),
        (f"{OLD}vm.dirty_ratio = 40\n", 272388, ("notice", "99 %", "as Linux 2.6.18 counts it")),
        (f"Linux db1 {OLD}", 272388, ("notice", "99 %", "the default ratios of 10 % and 40 %")),
        (f"{OLD}vm.dirty_ratio = 10\n", 272388, ("warning", "396 %", "of 10 % and 10 %")),
        # Half of what no program has mapped is less than 40 %.
        (f"{OLD}vm.dirty_ratio = 40\n", 4272388, ("warning", "172 %", "of 10 % and 23 %")),
        ("", 272388, ("warning", "219 %", "the default ratios of 10 % and 20 % of 7.1 GiB free")),
        (
            "/proc/sys/vm/dirty_ratio:40\n",
            272388,
            ("warning", "109 %", "the ratios of 10 % and 40 %"),
        ),
        (
            "vm.dirty_bytes = 2147483648\n",
            272388,
            ("warning", "154 %", "vm.dirty_bytes in the text"),
        ),
        ("vm.dirty_ratio = 60\nvm.dirty_bytes = 0\n", 272388, None),
    ],
)
def test_the_limits_are_those_that_the_text_shows(
    above: str, anonymous: int, told: tuple[str, str, str] | None
) -> None:
    """A server of 2008 was at 99 % of its limit; what no line shows is called a default."""
    alerts = read(above + OLD_MEMINFO.format(dirty=8120, anonymous=anonymous)).alerts
    assert len(alerts) == (told is not None)
    if told is not None:
        severity, share, limits = told
        assert alerts[0].severity == severity
        assert f" {share} of the limit" in alerts[0].text
        assert limits in alerts[0].text
