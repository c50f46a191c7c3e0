"""Memory rules on whole hosts: reclaim stalls, similar cases that are none, settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.host import Host, shipped_rules
from support.kstat import arcstats
from support.machine import disk, topology

from iowarden.collectors.block.diskstats import parse_diskstats
from iowarden.collectors.block.scsi import ScsiDevice, ScsiHost, ScsiTopology
from iowarden.collectors.kernel.hung_task import HungTask
from iowarden.collectors.model import Family, Sample
from iowarden.collectors.procfs.meminfo import parse_meminfo
from iowarden.collectors.procfs.pressure import Pressures, parse_pressure
from iowarden.collectors.procfs.stat import parse_stat
from iowarden.collectors.procfs.vmstat import parse_vmstat
from iowarden.collectors.zfs.arc import parse_arcstats
from iowarden.rules.engine.engine import Engine
from iowarden.rules.signals import increase
from iowarden.rules.signals.device import hung
from iowarden.rules.signals.memory import reclaim, swap
from iowarden.rules.signals.signal import Inputs, View
from iowarden.rules.signals.table import derive
from iowarden.rules.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.signals.increase import Increase

START = 1_800_000_000.0
GIB_KB = 1024 * 1024
MB = 1_000_000
SETTINGS = {
    "zone_reclaim_mode": 0,
    "swappiness": 60,
    "overcommit_memory": 0,
    "min_free_kbytes": 67_584,
    "dirty_ratio": 20,
    "dirty_background_ratio": 10,
    "dirty_bytes": 0,
    "dirty_background_bytes": 0,
    "laptop_mode": 0,
}
AT_ONCE = ("io_bytes", "blocked", "running", "huge", "drops", "total")


@dataclass
class Memory:
    """Values of each second on a host with 128 GiB. Units: kB, pages, counts."""

    total: float = 128 * GIB_KB
    free: float = GIB_KB
    cached: float = 100 * GIB_KB
    shared: float = 2 * GIB_KB
    anonymous: float = 20 * GIB_KB
    swap_total: float = 8 * GIB_KB
    swap_free: float = 8 * GIB_KB
    huge: int = 0
    allocstall: float = 5000
    scanned: float = 90_000
    compactions: float = 10
    drops: int = 0
    ballooned: float = 0
    swapped_out: float = 0
    pressure_some: float = 0.0
    pressure_full: float = 0.0
    blocked: int = 0
    running: int = 2
    io_bytes: float = 400 * MB
    """Read and written in this second."""
    sectors: float = 0.0
    arc: float = 0.0
    arc_max: float = 0.0

    def towards(self, begin: Mapping[str, float], ends: Mapping[str, float], share: float) -> None:
        """Interpolate; rates, numbers of tasks and of events change at once."""
        for name, end in ends.items():
            value = end if name in AT_ONCE else begin[name] + (end - begin[name]) * share
            setattr(self, name, value)
        self.sectors += self.io_bytes / 512 / 2

    def files(self) -> dict[str, str]:
        """The texts of the kernel."""
        done = int(self.sectors)
        return {
            "/proc/diskstats": f"8 0 sda {done} 0 {done} 0 {done} 0 {done} 0 0 0 0\n",
            "/proc/meminfo": (
                f"MemTotal: {self.total:.0f} kB\nMemFree: {self.free:.0f} kB\nBuffers: 0 kB\n"
                f"Cached: {self.cached:.0f} kB\nShmem: {self.shared:.0f} kB\n"
                f"AnonPages: {self.anonymous:.0f} kB\nDirty: 0 kB\nWriteback: 0 kB\n"
                f"SwapTotal: {self.swap_total:.0f} kB\nSwapFree: {self.swap_free:.0f} kB\n"
                f"HugePages_Total: {self.huge}\nHugepagesize: 2048 kB\n"
            ),
            "/proc/vmstat": (
                "nr_dirty 0\nnr_writeback 0\nnr_dirty_threshold 1000000\n"
                "nr_dirty_background_threshold 500000\npgpgin 0\npgpgout 0\n"
                f"pswpin 0\npswpout {self.swapped_out:.0f}\n"
                f"allocstall_normal {self.allocstall:.0f}\npgscan_direct {self.scanned:.0f}\n"
                f"compact_stall {self.compactions:.0f}\ndrop_pagecache {self.drops}\n"
                f"balloon_inflate {self.ballooned:.0f}\n"
            ),
            "/proc/spl/kstat/zfs/arcstats": arcstats(
                size=self.arc * 1024, c=self.arc * 1024, c_min=4 << 30, c_max=self.arc_max * 1024
            ),
            "/proc/pressure/memory": (
                f"some avg10={self.pressure_some:.2f} avg60=0.00 avg300=0.00 total=1\n"
                f"full avg10=0.00 avg60={self.pressure_full:.2f} avg300=0.00 total=1\n"
            ),
            "/proc/stat": (
                "cpu  1 0 1 1 1 0 0 0 0 0\nintr 0\nctxt 0\nbtime 1799999000\nprocesses 1\n"
                f"procs_running {self.running}\nprocs_blocked {self.blocked}\n"
            ),
        }

    def collapse(self) -> dict[str, float]:
        """A reclaim stall: 8 GiB of cache become free, I/O nearly stops, tasks wait."""
        return {
            "cached": self.cached - 8 * GIB_KB,
            "free": self.free + 8 * GIB_KB,
            "allocstall": self.allocstall + 2000,
            "blocked": 40,
            "io_bytes": 5 * MB,
        }


def view(now: float, values: Mapping[str, Any]) -> View:
    """The view of a group on these data sources at `now`."""
    inputs = Inputs(now, now, Snapshot(**values), frozenset(values), frozenset())
    return View(inputs, derive(topology(disk("sda"))))


class Signals:
    """The signals of memory alone, second by second."""

    def __init__(self) -> None:
        self.now = Memory()
        self.second = 0.0
        self.stall, self.direct, self.swap = (
            reclaim.StallState(),
            reclaim.DirectState(),
            swap.SwapState(),
        )
        self.history: list[dict[str, float]] = []

    def run(self, seconds: int, **ends: float) -> list[dict[str, float]]:
        """Let seconds pass in which these fields change to these values; return the alerts."""
        begin = vars(self.now).copy()
        for number in range(1, seconds + 1):
            self.now.towards(begin, ends, number / seconds)
            self.second += 1
            seen = view(self.second, values(self.now.files()))
            self.stall, stalled = reclaim.stall_step(self.stall, seen)
            self.direct, direct = reclaim.direct_step(self.direct, seen)
            self.swap, swapped = swap.step(self.swap, seen)
            told = [*(stalled or ()), *(direct or ()), *(swapped or ())]
            self.history.append({name.removeprefix("iowarden_"): v for name, _, v in told})
        return self.history[-seconds:]

    def longest_stall(self) -> int:
        """Return the longest time in seconds for which a stall was reported without a break."""
        longest = current = 0
        for told in self.history:
            current = current + 1 if told.get("reclaim_stall_ratio", 0.0) > 0 else 0
            longest = max(longest, current)
        return longest


def values(files: Mapping[str, str]) -> dict[str, Any]:
    """Parse the texts."""
    pressure = parse_pressure(files["/proc/pressure/memory"], "/proc/pressure/memory")
    return {
        "meminfo": parse_meminfo(files["/proc/meminfo"]),
        "vmstat": parse_vmstat(files["/proc/vmstat"], 4096),
        "stat": parse_stat(files["/proc/stat"]),
        "diskstats": parse_diskstats(files["/proc/diskstats"]),
        "pressure": Pressures(None, None, pressure, None),
        "zfs_arc": parse_arcstats(files["/proc/spl/kstat/zfs/arcstats"]),
    }


@pytest.fixture
def signals() -> Signals:
    """Two ordinary minutes."""
    machine = Signals()
    machine.run(120)
    return machine


FOR_SECONDS = 10
"""The rule's 'for'."""


@pytest.mark.parametrize(
    "how",
    [
        {"shared": GIB_KB, "cached": 91 * GIB_KB, "free": 10 * GIB_KB},
        {"allocstall": 5000, "scanned": 95_000},
        {"allocstall": 5000, "compactions": 400},
        {"allocstall": 5000, "pressure_some": 35.0},
    ],
    ids=["allocstall", "scans", "compaction", "pressure"],
)
def test_each_sign_of_reclaim_alone_makes_a_stall(signals: Signals, how: dict[str, float]) -> None:
    """RHEL 6 counts compact_stall; a machine with pressure information needs no counter.

    Shared memory that goes meanwhile is no page cache lost.
    """
    signals.run(30, **{**signals.now.collapse(), **how})
    signals.run(20)
    assert signals.longest_stall() > FOR_SECONDS
    assert signals.history[-1]["reclaim_stall_ratio"] == 8 / 128


@pytest.mark.parametrize(
    ("also", "why"),
    [
        ({"allocstall": 5000}, "a large file was deleted: no task reclaims"),
        ({"drops": 1}, "somebody wrote to drop_caches"),
        ({"anonymous": 12.5 * GIB_KB}, "a process ended and took its mapped files with it"),
        ({"shared": GIB_KB, "cached": 91 * GIB_KB}, "a server ended, its shared memory too"),
        ({"huge": 100}, "the pool of huge pages was resized"),
        ({"ballooned": 2 * 1024 * 1024}, "the hypervisor took memory"),
        ({"total": 127 * GIB_KB}, "memory was taken out"),
        ({"blocked": 3}, "nobody waits"),
        ({"io_bytes": 60 * MB}, "the disks still work"),
        ({"free": 2 * GIB_KB}, "programs took what the cache gave"),
        ({"cached": 97.5 * GIB_KB}, "less than 2 % of memory"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_what_only_looks_like_a_stall_is_none(
    signals: Signals, also: dict[str, float], why: str
) -> None:
    """The same collapse with the one thing changed that distinguishes it from a stall."""
    if "shared" in also:
        signals.now.shared = 8.5 * GIB_KB
        signals.run(70)
    signals.run(30, **{**signals.now.collapse(), **also})
    signals.run(180)
    assert signals.longest_stall() == 0, why


def test_the_cache_of_zfs_that_collapses_is_a_stall(signals: Signals) -> None:
    """Most of the cache of this host is the ARC; the page cache stays as it is."""
    signals.now.cached, signals.now.arc = 20 * GIB_KB, 80 * GIB_KB
    signals.run(70)
    signals.run(30, **signals.now.collapse() | {"cached": 20 * GIB_KB, "arc": 72 * GIB_KB})
    signals.run(20)
    assert signals.longest_stall() > FOR_SECONDS
    assert signals.history[-1]["reclaim_stall_ratio"] == 8 / 128


@pytest.mark.parametrize(
    ("also", "why"),
    [
        ({"arc": 88 * GIB_KB}, "the ARC took the place of the page cache"),
        ({"arc": 40 * GIB_KB, "arc_max": 40 * GIB_KB}, "somebody lowered zfs_arc_max"),
    ],
    ids=["grows", "limited"],
)
def test_a_page_cache_that_the_cache_of_zfs_replaces_has_not_collapsed(
    signals: Signals, also: dict[str, float], why: str
) -> None:
    """Both hold what was read; memory that a user moved is no sign either."""
    signals.now.arc, signals.now.arc_max = 80 * GIB_KB, 100 * GIB_KB
    signals.run(190)
    signals.run(30, **{**signals.now.collapse(), **also})
    signals.run(60)
    assert signals.longest_stall() == 0, why


def test_a_drop_is_counted_only_when_it_is_done(signals: Signals) -> None:
    """40 GiB take 9 s to drop while tasks wait, and drop_pagecache rises at the end."""
    signals.run(12, blocked=40, io_bytes=5 * MB, allocstall=6000)
    signals.run(9, cached=60 * GIB_KB, free=41 * GIB_KB)
    signals.run(180, drops=1)
    assert 0 < signals.longest_stall() <= FOR_SECONDS


def test_four_tasks_for_a_moment_do_not_wait(signals: Signals) -> None:
    """Three wait, and each 10 s a job starts a crowd for a second."""
    ends = {**signals.now.collapse(), "blocked": 3}
    for _ in range(6):
        signals.run(9, **ends, running=2)
        signals.run(1, running=30)
        ends = {"blocked": 3}
    assert signals.longest_stall() == 0


def test_an_idle_machine_has_nothing_that_could_stop() -> None:
    """Hardly any I/O before, none now: no collapse."""
    machine = Signals()
    machine.run(120, io_bytes=50_000)
    machine.run(30, **{**machine.now.collapse(), "io_bytes": 0})
    assert machine.longest_stall() == 0


@pytest.mark.parametrize(("waiting", "stalled"), [(40, True), (0, False)])
def test_a_late_look_is_a_look(signals: Signals, *, waiting: int, stalled: bool) -> None:
    """The sample is half a minute late: memory changed, nothing was read, and tasks still wait."""
    signals.run(15, blocked=waiting, io_bytes=0)
    signals.second += 30
    signals.now.cached, signals.now.free, signals.now.allocstall = 92 * GIB_KB, 9 * GIB_KB, 9000
    signals.run(20)
    assert (signals.longest_stall() > 0) is stalled


def test_until_usual_io_is_known_nobody_can_tell_a_collapse(signals: Signals) -> None:
    """The first minute after the first start; usual values are stored over a restart."""
    told = Signals().run(65)
    assert "reclaim_stall_ratio" not in told[58]
    assert "reclaim_stall_ratio" in told[64]
    kept = reclaim.stall_remember(signals.stall)
    again = Signals()
    again.second = signals.second
    again.stall = reclaim.stall_recall(again.stall, kept)
    assert "reclaim_stall_ratio" in again.run(12)[-1]


def test_direct_reclaims_are_counted_over_a_minute(signals: Signals) -> None:
    """120 a second; unknown in the first 10 s after the start, and after a reboot."""
    assert "direct_reclaims_per_second" not in signals.history[5]
    told = signals.run(60, allocstall=5000 + 60 * 120)
    assert told[-1]["direct_reclaims_per_second"] == pytest.approx(120, rel=0.02)
    signals.now.allocstall = 0
    assert "direct_reclaims_per_second" not in signals.run(1)[0]


def test_swapping_is_timed_while_it_never_pauses_for_ten_seconds(signals: Signals) -> None:
    """100 pages a second; then a burst every half minute, as of cold memory."""
    signals.run(600, swap_free=4 * GIB_KB, swapped_out=60_000)
    assert signals.history[-1]["swapping_out_seconds"] == 599.0
    for _ in range(4):
        signals.run(25)
        assert signals.history[-1]["swapping_out_seconds"] == 0.0
        told = signals.run(5, swapped_out=signals.now.swapped_out + 500)
        assert told[-1]["swapping_out_seconds"] == 4.0


def hung_task(
    *, detected: int | None = None, left: int | None = 10, timeout: int = 120
) -> HungTask:
    """The contents of '/proc/sys/kernel/hung_task_*'."""
    return HungTask(detected, left, timeout)


def reports(*readings: HungTask, blocked: int = 3, pause: float = 15.0) -> list[float | None]:
    """Return the reported hung tasks after each reading; None: unknown."""
    stat = parse_stat(Memory(blocked=blocked).files()["/proc/stat"])
    state: Mapping[str, Increase] = increase.EMPTY
    told: list[float | None] = []
    for number, reading in enumerate(readings):
        seen = view(number * pause, {"hung_task": reading, "stat": stat})
        state, samples = hung.task_step(state, seen)
        told.append(None if samples is None else samples[0][2])
    return told


def test_hung_tasks_are_those_that_were_seen_to_be_reported() -> None:
    """On 6.13 and later: 7 at the first reading are not new, nor is a reboot a change."""
    counts = (7, 7, 8, 10, 10, 0, 1)
    assert reports(*(hung_task(detected=n) for n in counts)) == [0, 0, 1, 3, 3, 0, 1]


def test_a_hung_task_of_the_service_itself_is_not_counted() -> None:
    """Its state directory hangs: two are reported; then one of a program, a restart, one more."""
    counts = ((7, 0), (9, 2), (10, 2), (10, 0), (11, 0))
    readings = (replace(hung_task(detected=n), own_reports=own) for n, own in counts)
    assert reports(*readings) == [0, 0, 1, 1, 2]


def test_before_6_13_each_line_of_the_log_counts_down() -> None:
    """On 6.1: hung_task_warnings; an increase by the administrator is not a report."""
    assert reports(*(hung_task(left=n) for n in (5, 10, 8, 8))) == [0, 0, 2, 2]
    assert reports(hung_task(left=-1)) == [None]
    assert reports(hung_task(left=None)) == [None]


def test_what_hung_before_a_boot_is_no_news_after_it() -> None:
    """Three reports, a boot a minute later, and a counter of its own: nothing is recent."""
    state, _ = hung.task_step({}, view(5000.0, {"hung_task": hung_task(detected=2)}))
    state, samples = hung.task_step(state, view(5015.0, {"hung_task": hung_task(detected=5)}))
    assert samples is not None
    assert samples[0][2] == 3
    booted = view(5075.0, {"hung_task": hung_task(detected=6)})
    booted = replace(booted, inputs=replace(booted.inputs, uptime_seconds=20.0))
    _, samples = hung.task_step(state, booted)
    assert samples is not None
    assert samples[0][2] == 0


def test_a_watch_that_is_off_or_has_no_line_left_reports_nothing() -> None:
    """Unless no task waits for I/O at all: then none hangs on it."""
    assert reports(hung_task(detected=3, timeout=0)) == [None]
    last, out = hung_task(left=1), hung_task(left=0)
    assert reports(last, out, out, pause=700) == [0, 1, None]
    assert reports(last, out, out, pause=700, blocked=0) == [0, 1, 0]


def scsi(address: str, name: str | None, timeouts: int | None) -> ScsiTopology:
    """One device."""
    device = ScsiDevice(
        address, "host0", name, 0, "running", 32, 30.0, 100, 100, 5, timeouts_total=timeouts
    )
    return ScsiTopology({}, {address: device}, None)


def test_commands_that_time_out_are_reported_of_their_disk_for_ten_minutes() -> None:
    """First reading, two timeouts, then another disk of that name with more of its own."""
    steps = (
        (0.0, scsi("0:0:1:0", "sda", 4), 0.0),
        (15.0, scsi("0:0:1:0", "sda", 6), 2.0),
        (600.0, scsi("0:0:1:0", "sda", 6), 2.0),
        (630.0, scsi("0:0:1:0", "sda", 6), 0.0),
        (645.0, scsi("0:0:2:0", "sda", 9), 0.0),
    )
    state: Mapping[str, Increase] = increase.EMPTY
    for now, value, expected in steps:
        state, samples = hung.timeout_step(state, view(now, {"scsi": value}))
        assert samples == [("iowarden_device_recent_timeouts", (("device", "sda"),), expected)]
    assert len(state) == 1
    for value in (scsi("0:0:3:0", None, 4), scsi("0:0:3:0", "sdb", None)):
        assert hung.timeout_step(state, view(660.0, {"scsi": value}))[1] == []


@pytest.mark.parametrize(
    ("driver", "told"),
    [
        *(("ahci", False), ("ata_piix", False), ("sata_sil24", False), ("pata_atiixp", False)),
        *(("mpt3sas", True), ("megaraid_sas", True), ("virtio_scsi", True), (None, True)),
    ],
)
def test_what_libata_aborts_is_no_time_out(driver: str | None, told: bool) -> None:
    """A SATA disk lacks a log that smartctl requests: the counter rises with each poll."""
    state: Mapping[str, Increase] = increase.EMPTY
    samples: list[Sample] | None = []
    for now, timeouts in ((0.0, 4), (15.0, 6)):
        value = replace(
            scsi("0:0:1:0", "sda", timeouts),
            hosts={"host0": ScsiHost("host0", driver, 32, 1, 0)},
        )
        state, samples = hung.timeout_step(state, view(now, {"scsi": value}))
    expected = [("iowarden_device_recent_timeouts", (("device", "sda"),), 2.0)]
    assert samples == (expected if told else [])


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30), st.integers(0, 29))
def test_a_restart_changes_nothing_of_what_a_counter_showed(totals: list[int], cut: int) -> None:
    """Stored, read again, and combined with what was observed before the file could be read."""
    straight: Increase | None = None
    for number, total in enumerate(totals):
        straight = increase.grow(straight, total, number * 15.0)
    before: Increase | None = None
    for number, total in enumerate(totals[:cut]):
        before = increase.grow(before, total, number * 15.0)
    kept = increase.remember({} if before is None else {"a": before})
    state: dict[str, Increase] = {}
    for number, total in enumerate(totals):
        if number >= cut:
            state["a"] = increase.grow(state.get("a"), total, number * 15.0)
        if number == cut:
            state = increase.recall(state, kept)
    if cut < len(totals):
        assert straight is not None
        assert state["a"].recent(len(totals) * 15.0) == straight.recent(len(totals) * 15.0)


class Server:
    """A database server with one array and the whole program over it, second by second."""

    def __init__(self) -> None:
        self.host = Host()
        self.memory = self.host.memory
        self.now = Memory()
        self.second = 0.0
        base = "/sys/block/sda"
        self.memory.write(
            {
                "/proc/sys/kernel/osrelease": "6.1.0-28-amd64\n",
                f"{base}/slaves": None,
                f"{base}/holders": None,
                f"{base}/size": "1953525168\n",
                f"{base}/device/timeout": "30\n",
            },
        )
        self.set("vm/", **SETTINGS)
        nodes = "/sys/devices/system/node/node"
        self.memory.write(
            {
                f"{nodes}0/meminfo": "Node 0 MemTotal: 134217728 kB\nNode 0 MemFree: 8 kB\n",
                f"{nodes}1/meminfo": "Node 1 MemTotal: 0 kB\nNode 1 MemFree: 0 kB\n",
            },
        )

    def set(self, prefix: str, **settings: int) -> None:
        """Write settings of '/proc/sys'."""
        self.memory.write({f"/proc/sys/{prefix}{name}": f"{n}\n" for name, n in settings.items()})

    def run(self, seconds: int, *, step: float = 1.0, **ends: float) -> None:
        """Let seconds pass in which these fields go to these values."""
        begin = vars(self.now).copy()
        ticks = round(seconds / step)
        for number in range(1, ticks + 1):
            self.now.towards(begin, ends, number / ticks)
            self.memory.write(self.now.files())
            self.host.tick(1000.0 + self.second, START + self.second)
            self.second += step

    def alert(self, name: str) -> Alert:
        """Return the alert of this name."""
        assert self.host.engine is not None
        return next(a for a in self.host.engine.rules.alerts() if a.name == name)


def test_cache_that_becomes_free_while_nothing_is_read_is_a_stall() -> None:
    """Cache 100 to 92 GiB, free 1 to 9 in 30 s, 400 to 5 MB/s, allocstall +2000, 40 wait.

    The third time this is critical.
    """
    server = Server()
    server.run(70)
    for number in range(3):
        began = server.second
        server.run(30, **server.now.collapse())
        assert server.host.fired[0][0] <= 1000.0 + began + 25 or number
        server.run(5)
        server.run(1, cached=100 * GIB_KB, free=GIB_KB, blocked=0, io_bytes=400 * MB)
        server.run(70)
    assert server.host.names("warning") == {"ReclaimStall"}
    assert server.host.names("critical") == {"ReclaimStall"}
    assert server.host.names() == {"ReclaimStall"}
    opened = server.host.mails[0].due.incident.members[0]
    assert opened.name == "ReclaimStall"
    assert "sysctl -w vm.min_free_kbytes=1342464" in opened.advice
    assert "echo 1 > /proc/sys/vm/drop_caches" in opened.advice
    assert "zone_reclaim" not in opened.advice
    assert "not proven" in opened.unknown


def test_emptying_the_cache_is_information() -> None:
    """The same with drop_pagecache +1: only page_cache_dropped."""
    server = Server()
    server.run(70)
    server.run(30, **{**server.now.collapse(), "drops": 1})
    server.run(20)
    assert server.host.names() == server.host.names("info") == {"PageCacheDropped"}


def test_the_settings_that_likely_cause_a_stall_are_named_with_their_cure() -> None:
    """A NUMA machine with zone_reclaim_mode 1 and defrag=always, as RHEL 6 shipped it."""
    server = Server()
    server.set("vm/", zone_reclaim_mode=1)
    node = "/sys/devices/system/node/node"
    huge = "/sys/kernel/mm/redhat_transparent_hugepage"
    server.memory.write(
        {
            f"{node}0/meminfo": "Node 0 MemTotal: 67108864 kB\nNode 0 MemFree: 524288 kB\n",
            f"{node}1/meminfo": "Node 1 MemTotal: 67108864 kB\nNode 1 MemFree: 524288 kB\n",
            f"{huge}/enabled": "[always] madvise never\n",
            f"{huge}/defrag": "[always] madvise never\n",
        },
    )
    server.run(70)
    assert server.host.names("warning") == {"ZoneReclaimEnabled"}
    assert server.host.names("info") == {"ThpDefragAlways"}
    server.run(30, **server.now.collapse())
    advice = server.alert("ReclaimStall").annotation("advice")
    assert "likely cause: a NUMA node" in advice
    assert "sysctl -w vm.zone_reclaim_mode=0" in advice
    assert "likely cause: tasks compact" in advice


def test_allocations_that_wait_for_memory_are_information() -> None:
    """120 direct reclaims a second; all tasks waited for 12 % of the last minute."""
    for ends in ({"allocstall": 7400}, {"pressure_full": 12.0}):
        server = Server()
        server.run(20, **ends)
        assert server.host.names() == server.host.names("info") == {"DirectReclaim"}


@pytest.mark.parametrize(("area", "told"), [("sda2", {"Swapping"}), ("zram0", set())])
def test_swapping_for_ten_minutes_without_a_break_is_a_warning(area: str, told: set[str]) -> None:
    """Some pages every second, swap used; compressed memory (zram) is not on a disk."""
    server = Server()
    areas = f"Filename Type Size Used Priority\n/dev/{area} partition 8000000 3000000 -2\n"
    server.memory.write({"/proc/swaps": areas})
    server.run(595, step=5.0, swap_free=5 * GIB_KB, swapped_out=50_000)
    assert server.host.names() == set()
    server.run(15, step=5.0, swap_free=4 * GIB_KB, swapped_out=60_000)
    assert server.host.names() == server.host.names("warning") == told


def test_a_machine_without_swap_is_told_so_and_a_small_one_is_not() -> None:
    """128 GiB and no swap; 4 GiB and none."""
    for name, kilobytes in (("large", 128 * GIB_KB), ("small", 4 * GIB_KB)):
        server = Server()
        server.now.swap_total = server.now.swap_free = 0
        server.run(2, total=kilobytes)
        assert server.host.names("info") == ({"NoSwap"} if name == "large" else set())


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"zone_reclaim_mode": 1}, set()),
        ({"bdflush": 0}, {"BdflushPresent"}),
        ({"swappiness": 0}, {"SwappinessZero"}),
        ({"swappiness": 0, "overcommit_memory": 2}, set()),
        ({"dirty_ratio": 40}, {"DirtyRatioTooLarge"}),
        ({"dirty_ratio": 39}, set()),
    ],
)
def test_risky_settings_are_information(settings: dict[str, int], expected: set[str]) -> None:
    """dirty_ratio, zone_reclaim_mode, bdflush, swappiness; memory in one of two nodes."""
    server = Server()
    server.set("vm/", **settings)
    server.run(2)
    assert server.host.names() == server.host.names("info") == expected


def test_a_large_dirty_ratio_is_a_warning_once_the_disks_are_known_to_be_too_slow() -> None:
    """40 % and 21 s to write it for an hour, not for a copy; at 19 s it stays information."""
    families = tuple(
        Family(f"iowarden_{name}", "gauge", "Said in a test.")
        for name in ("vm_dirty_ratio_percent", "writeback_full_drain_seconds")
    )
    for drain, expected in ((21.0, {"info", "warning"}), (19.0, {"info"})):
        engine = Engine(shipped_rules(), (), START)
        samples: list[Sample] = [
            (families[0].name, (), 40.0),
            (families[1].name, (("devices", "sda"),), drain),
        ]
        for minute in range(64):
            now = START + 60.0 * minute
            engine.hub.publish("test", families, samples, now)
            engine.rules.evaluate(now)
            own = [a for a in engine.rules.alerts() if a.name == "DirtyRatioTooLarge" and a.active]
            if minute < 59:
                assert {alert.label("severity") for alert in own} == {"info"}
        assert {alert.label("severity") for alert in own} == expected


def test_a_task_the_kernel_reports_as_hung_is_critical_until_it_is_seen_to_be_over() -> None:
    """On 6.1: hung_task_warnings is used up and tasks wait, so it is unknown; then none wait."""
    server = Server()
    server.set("kernel/hung_task_", timeout_secs=120, warnings=1)
    server.run(20, blocked=3)
    assert server.host.names() == set()
    server.set("kernel/hung_task_", warnings=0)
    server.run(20)
    assert server.host.names("notice") == {"HungTaskWarningsExhausted"}
    assert server.host.names("critical") == {"HungTask"}
    assert server.alert("HungTask").annotation("summary") == (
        "the kernel reported hung tasks 1 time in 10 minutes: blocked for over 2 min"
    )
    assert "kernel.hung_task_warnings=10" in server.alert("HungTask").annotation("advice")
    server.run(700, step=5.0)
    assert server.alert("HungTask").state.value == "unknown"
    server.run(40, step=5.0, blocked=0)
    assert server.alert("HungTask").state.value == "resolved"


def test_a_disk_whose_commands_time_out_is_a_warning() -> None:
    """iotmo_cnt 0x1 to 0x3."""
    server = Server()
    base = "/sys/class/scsi_device/0:0:1:0/device"
    files: dict[str, str | None] = {f"{base}/block/sda": None, f"{base}/state": "running\n"}
    files["/sys/class/scsi_host"] = None
    server.memory.write({**files, f"{base}/iotmo_cnt": "0x1\n"})
    server.run(20)
    assert server.host.names() == set()
    server.memory.write({f"{base}/iotmo_cnt": "0x3\n"})
    server.run(20)
    assert server.host.names() == server.host.names("warning") == {"ScsiTimeouts"}
    assert server.alert("ScsiTimeouts").annotation("summary") == (
        "2 SCSI commands timed out in 10 minutes"
    )
