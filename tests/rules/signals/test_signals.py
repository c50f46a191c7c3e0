"""The reducers: what a second-by-second history of a machine shows, and what it must not show."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.machine import block, disk, topology
from support.recordings import corpus
from support.signals import state_with

from iowarden.collectors.block.block_devices import Device, Md, Topology
from iowarden.collectors.procfs.meminfo import Meminfo, parse_meminfo
from iowarden.collectors.procfs.sysctl_vm import VmSysctl
from iowarden.collectors.procfs.vmstat import Vmstat, parse_vmstat
from iowarden.rules.signals import leaves, table
from iowarden.rules.signals.writeback import bandwidth, blocked, limits, no_progress, writeback

if TYPE_CHECKING:
    from iowarden.collectors.block.diskstats import BlockIo

KIB = 1024
REFERENCE_KB = {  # an 8 GB database server with 3.2 GB queued, kernel 2.6.18
    "MemTotal": 8174540,
    "MemFree": 62076,
    "Buffers": 21724,
    "Cached": 6158912,
    "Active": 1126936,
    "Inactive": 6101688,
    "Dirty": 6640,
    "Writeback": 3230792,
    "AnonPages": 1047724,
    "Mapped": 65736,
    "NFS_Unstable": 0,
}


def reference_meminfo() -> Meminfo:
    """The incident's '/proc/meminfo'."""
    return parse_meminfo("".join(f"{key}: {value} kB\n" for key, value in REFERENCE_KB.items()))


def sysctl(
    ratio: int | None = 40,
    background: int | None = 10,
    kernel: tuple[int, int, int] = (2, 6, 18),
    dirty_bytes: int | None = None,
) -> VmSysctl:
    """Settings of a kernel."""
    return VmSysctl(
        dirty_ratio_percent=ratio,
        dirty_background_ratio_percent=background,
        dirty_bytes=dirty_bytes,
        dirty_background_bytes=None,
        dirty_expire_seconds=30.0,
        dirty_writeback_seconds=5.0,
        laptop_mode=0,
        kernel_release=".".join(map(str, kernel)),
        kernel=kernel,
    )


def vmstat(threshold_pages: int, background_pages: int, dirty_pages: int = 0) -> Vmstat:
    """A kernel that exports its limits."""
    text = (
        f"nr_dirty {dirty_pages}\nnr_writeback 0\nnr_dirtied 0\nnr_written 0\n"
        f"nr_dirty_threshold {threshold_pages}\n"
        f"nr_dirty_background_threshold {background_pages}\npgpgin 0\npgpgout 0\n"
    )
    return parse_vmstat(text, 4096)


class TestLimits:
    """The kernel's real limits, by kernel generation."""

    def test_the_frozen_server_stood_at_99_percent_of_a_share_of_all_memory(self) -> None:
        """2.6.18 at 40/10 stops writers at 3,269,816 kB; the level was 0.9901 of it."""
        found = limits.dirty_limits(None, reference_meminfo(), sysctl())
        level = limits.level_bytes(None, reference_meminfo())
        assert found is not None
        assert level is not None
        assert found.threshold_bytes == 3_269_816 * KIB
        assert level == 3_237_432 * KIB
        assert round(level / found.threshold_bytes, 4) == 0.9901
        assert found.onset_bytes <= level < found.threshold_bytes

    def test_ten_percent_of_memory_with_the_cure_applied(self) -> None:
        """The same server at 10/5."""
        found = limits.dirty_limits(None, reference_meminfo(), sysctl(10, 5))
        assert found is not None
        assert found.threshold_bytes == 817_454 * KIB

    def test_what_the_kernel_exports_is_not_recomputed(self) -> None:
        """The same memory on a kernel from 3.14 on, which counts no anonymous pages."""
        found = limits.dirty_limits(
            vmstat(624_271, 312_135), reference_meminfo(), sysctl(kernel=(3, 14, 0))
        )
        level = limits.level_bytes(None, reference_meminfo())
        assert found is not None
        assert level is not None
        assert found.threshold_bytes == 2_497_084 * KIB
        assert round(level / found.threshold_bytes, 3) == 1.296

    def test_a_modern_kernel_holds_writers_from_halfway_between_its_limits(self) -> None:
        """6.1 with 20/10: freerun is (threshold + background) / 2."""
        found = limits.dirty_limits(vmstat(1000, 500), None, sysctl(kernel=(6, 1, 0)))
        assert found == limits.DirtyLimits(1000 * 4096, 500 * 4096, 750 * 4096)

    def test_a_background_limit_above_the_threshold_is_half_of_it(self) -> None:
        """The kernel does so if the two are set the wrong way round."""
        found = limits.dirty_limits(vmstat(1000, 1000), None, sysctl(kernel=(6, 1, 0)))
        assert found is not None
        assert found.background_bytes == 500 * 4096

    def test_memory_that_programs_map_halves_the_old_ratio(self) -> None:
        """2.6.18: with 90 % mapped, dirty_ratio 40 works as 5."""
        text = "MemTotal: 1000 kB\nMemFree: 1 kB\nBuffers: 0 kB\nCached: 0 kB\nDirty: 0 kB\n"
        text += "Writeback: 0 kB\nMapped: 100 kB\nAnonPages: 800 kB\n"
        found = limits.dirty_limits(None, parse_meminfo(text), sysctl())
        assert found is not None
        assert found.threshold_bytes == 50 * KIB

    def test_2_6_32_takes_the_ratio_of_dirtyable_memory(self) -> None:
        """From 2.6.22 on: free + active + inactive, anonymous included; the clamp stays."""
        found = limits.dirty_limits(None, reference_meminfo(), sysctl(20, 10, (2, 6, 32)))
        base = (62076 + 1126936 + 6101688) * KIB
        assert found is not None
        assert found.threshold_bytes == base * 20 // 100

    def test_an_unknown_limit_is_none_and_not_zero(self) -> None:
        """Neither an exported threshold nor a ratio: nothing can be computed."""
        assert limits.dirty_limits(None, reference_meminfo(), sysctl(None, None)) is None
        assert limits.dirty_limits(None, None, sysctl()) is None

    def test_drain_times_of_the_incident(self) -> None:
        """20.5 s was the sum of two disks; a mirror needs 42.3 s at its real 78.3 MB/s."""
        assert limits.drain_seconds(3.2e9, 2 * 78e6) == pytest.approx(20.5, abs=0.05)
        assert limits.drain_seconds(3_230_792 * KIB, 78.3e6) == pytest.approx(42.3, abs=0.06)
        assert limits.drain_seconds(1.0, 0.0) is None

    def test_the_expected_numbers_of_the_reference_incident(self) -> None:
        """The same from the incident's own file, where it is at hand."""
        expected = json.loads(corpus("reference/golden.json").read_text())["A"]
        text = "".join(f"{k}: {v} kB\n" for k, v in expected["meminfo_kB"].items())
        meminfo = parse_meminfo(text)
        ratios = expected["sysctl"]
        found = limits.dirty_limits(
            None, meminfo, sysctl(ratios["dirty_ratio"], ratios["dirty_background_ratio"])
        )
        level = limits.level_bytes(None, meminfo)
        assert found is not None
        assert level is not None
        assert found.threshold_bytes == expected["expect"]["threshold_kB"] * KIB
        assert level == expected["expect"]["dirty_plus_writeback_kB"] * KIB


LIMITS = limits.DirtyLimits(1000.0, 500.0, 750.0)


class TestWriteback:
    """Seconds at or above freerun and threshold."""

    @given(st.lists(st.sampled_from([0.0, 749.0, 750.0, 1000.0]), max_size=60))
    def test_seconds_above_freerun_are_those_of_the_last_fifteen(self, levels: list[float]) -> None:
        """Whatever the level was before, the window contains the last 15 s only."""
        state = writeback.WritebackState()
        for second, level in enumerate(levels):
            state, value = writeback.step(state, float(second), level, LIMITS)
            recent = levels[max(1, second - 14) : second + 1]
            assert value.above_freerun_seconds == sum(level >= 750 for level in recent)
            run = 0
            for past in levels[1 : second + 1]:
                run = run + 1 if past >= 1000 else 0
            assert value.above_threshold_seconds == run

    @pytest.mark.parametrize(
        ("before", "after", "freerun", "threshold"),
        [
            (1000.0, 1000.0, (2.0, 15.0), (2.0, 63.0)),
            (800.0, 800.0, (2.0, 15.0), (0.0, 0.0)),
            (700.0, 1000.0, (0.0, 1.0), (0.0, 1.0)),
            (1000.0, 700.0, (0.0, 0.0), (0.0, 0.0)),
        ],
    )
    def test_what_holds_at_both_ends_of_a_gap_held_in_it(
        self,
        before: float,
        after: float,
        freerun: tuple[float, float],
        threshold: tuple[float, float],
    ) -> None:
        """A thrashing host: the sample is a minute late, and a second later there is another."""
        state = writeback.WritebackState()
        for now in (0.0, 1.0, 2.0):
            state, _ = writeback.step(state, now, before, LIMITS)
        state, late = writeback.step(state, 62.0, after, LIMITS)
        _, again = writeback.step(state, 63.0, after, LIMITS)
        assert late.above_freerun_seconds <= freerun[0]
        assert late.above_threshold_seconds == threshold[0]
        assert (again.above_freerun_seconds, again.above_threshold_seconds) == (
            freerun[1],
            threshold[1],
        )

    def test_a_threshold_that_fell_is_reported(self) -> None:
        """Programs allocated memory: the level is above the threshold because that decreased."""
        state = writeback.WritebackState()
        state, _ = writeback.step(state, 0.0, 800.0, LIMITS)
        state, value = writeback.step(state, 1.0, 800.0, limits.DirtyLimits(800.0, 400.0, 600.0))
        assert value.threshold_drop_ratio == pytest.approx(0.2)


class TestBlocked:
    """How long how many tasks waited."""

    @given(st.lists(st.integers(0, 4), min_size=1, max_size=40))
    def test_blocked_seconds_count_the_last_ten_samples(self, counts: list[int]) -> None:
        """Each second counts with the sample at its end."""
        state = blocked.BlockedState()
        for second, count in enumerate(counts):
            state, samples = blocked.step(state, float(second), count)
        recent = counts[1:][-10:]
        values = {labels[0][1]: value for _, labels, value in samples}
        assert values == {"1": sum(c >= 1 for c in recent), "3": sum(c >= 3 for c in recent)}

    def test_tasks_that_wait_at_both_ends_of_a_gap_waited_in_it(self) -> None:
        """Each sample is 7 s late, and each has blocked tasks: reported with the next sample."""
        state, told = blocked.BlockedState(), []
        for number, count in enumerate((2, 2, 2, 4, 4)):
            state, samples = blocked.step(state, 7.0 * number, count)
            told.append([value for _, _, value in samples])
        assert told == [[0.0, 0.0], [0.0, 0.0], [7.0, 0.0], [10.0, 0.0], [10.0, 0.0]]


def history(*looks: tuple[float, dict[str, BlockIo]]) -> leaves.LeafHistory:
    """The history after some samples."""
    state = leaves.LeafHistory()
    for now, blocks in looks:
        state = leaves.step(state, now, blocks, list(blocks))
    return state


class TestBandwidth:
    """What the disks take, from completed sectors alone."""

    @given(st.integers(0, 10**9), st.integers(10, 60), st.sampled_from([1.0, 2.0, 1.25]))
    def test_a_steady_disk_is_measured_exactly(
        self, rate: int, seconds: int, amplification: float
    ) -> None:
        """Half a minute back at most, the copies of a mirror taken off."""
        state = history(
            *(
                (float(t), {"sda": block("sda", written=rate * t * 512, writes=t, in_flight=3)})
                for t in range(seconds + 1)
            )
        )
        rates = bandwidth.bandwidth_now(state, {"sda": amplification})
        expected = {} if rate == 0 else {"sda": pytest.approx(rate * 512 / amplification)}
        assert rates == expected

    def test_a_disk_that_was_idle_for_one_sample_is_no_measure(self) -> None:
        """Only a disk with requests in flight in every sample is at its limit."""
        state = history(
            *(
                (float(t), {"sda": block("sda", written=t, writes=t, in_flight=int(t != 15))})
                for t in range(21)
            )
        )
        assert bandwidth.bandwidth_now(state, {}) == {}

    def test_a_hung_disk_drains_never(self) -> None:
        """In flight, nothing completed: bandwidth 0, and the time is infinite, not absent."""
        state = history(*((float(t), {"sda": block("sda", in_flight=9)}) for t in range(12)))
        rates = bandwidth.bandwidth_now(state, {})
        assert rates == {"sda": 0.0}
        assert ("iowarden_writeback_drain_seconds", (), math.inf) in bandwidth.samples(
            rates, 1e9, {}
        )

    def test_the_speed_of_a_member_is_what_it_writes_itself(self) -> None:
        """Two disks of a mirror at 78 MB/s each: the host writes 78 MB/s."""
        rates = {"sda": 39e6, "sdb": 39e6}
        amplification = {"sda": 2.0, "sdb": 2.0}
        found = bandwidth.samples(rates, 78e7, amplification)
        assert ("iowarden_writeback_bandwidth_bytes_per_second", (), 78e6) in found
        name = "iowarden_device_write_bandwidth_bytes_per_second"
        assert (name, (("device", "sda"),), 78e6) in found

    def test_a_disk_that_is_only_read_takes_no_part(self) -> None:
        """A scan keeps a disk busy and shows nothing about writing."""
        state = history(
            *((float(t), {"sda": block("sda", reads=t, in_flight=2)}) for t in range(12))
        )
        assert bandwidth.bandwidth_now(state, {}) == {}

    def test_the_usual_bandwidth_is_unknown_until_three_windows_agree(self) -> None:
        """Half a minute of saturation gives a median; one burst does not."""
        state, usual = leaves.LeafHistory(), bandwidth.UsualState({})
        seen = []
        for t in range(42):
            blocks = {"sda": block("sda", written=t * 1024, writes=t, in_flight=1)}
            state = leaves.step(state, float(t), blocks, ["sda"])
            usual = bandwidth.usual_step(usual, state, {}, above_background=True)
            seen.append(len(bandwidth.usual_samples(usual, 1024 * 100.0)))
        assert seen[20] == 0
        assert {n: v for n, _, v in bandwidth.usual_samples(usual, 102_400.0)} == {
            "iowarden_writeback_median_bandwidth_bytes_per_second": 1024.0,
            "iowarden_writeback_full_drain_seconds": 100.0,
        }

    @pytest.mark.parametrize(
        ("md", "expected"),
        [
            (Md(level="raid1", raid_disks=2, layout=None, copies=2, chunk_size_bytes=None), 2.0),
            (Md(level="raid10", raid_disks=4, layout=258, copies=2, chunk_size_bytes=None), 2.0),
            (Md(level="raid5", raid_disks=5, layout=2, copies=None, chunk_size_bytes=None), 1.25),
            (Md(level="raid6", raid_disks=6, layout=2, copies=None, chunk_size_bytes=None), 1.5),
            (Md(level="raid0", raid_disks=3, layout=None, copies=None, chunk_size_bytes=None), 1.0),
        ],
    )
    def test_redundancy_costs_bandwidth(self, md: Md, expected: float) -> None:
        """One byte for the file system is so many on the disks."""
        machine = topology(
            disk("sda", holders=("md0",)), disk("md0", slaves=("sda",), leaf=False, md=md)
        )
        assert leaves.amplifications(machine) == {"sda": expected}

    def test_layers_that_hold_each_other_end(self) -> None:
        """A recording with a loop in its holders must not hang the watcher."""
        machine = topology(
            disk("sda", holders=("dm-0",)),
            disk("dm-0", holders=("dm-1",), leaf=False),
            disk("dm-1", holders=("dm-0",), leaf=False),
        )
        assert leaves.amplifications(machine) == {"sda": 1.0}


def play_lull(
    rows: list[tuple[int, int]], *, in_flight: int = 4, queued_ratio: float = 0.99
) -> list[dict[str, float]]:
    """Return the stall seconds by kind after each second of (kB written, tasks blocked)."""
    state, seen, written = no_progress.EMPTY, leaves.LeafHistory(), 0
    result = []
    for now, (kilobytes, tasks) in enumerate(rows):
        written += kilobytes * KIB
        writes = written // 4096
        blocks = {"sda": block("sda", written=written, writes=writes, in_flight=in_flight)}
        seen = leaves.step(seen, float(now), blocks, ["sda"])
        state, samples = no_progress.step(state, seen, blocked=tasks, queued_ratio=queued_ratio)
        told = [] if samples is None else samples
        result.append({"device": 0.0, **{labels[0][1]: value for _, labels, value in told}})
    return result


HEALTHY = [(0, 5)] + [(65_500, 5)] * 12
INCIDENT = [(0, 4)] * 19 + [(8, 3), (0, 4), (1928, 5)]


class TestLull:
    """Writers wait while next to nothing reaches the disks."""

    def test_the_twenty_second_freeze_is_seen_in_its_tenth_second(self) -> None:
        """21 of 22 rows at most 1 % of 65,500 kB/s with 3 to 5 tasks blocked."""
        values = [max(v.values()) for v in play_lull(HEALTHY + INCIDENT)]
        frozen = values[len(HEALTHY) :]
        assert frozen[9] == 10.0
        assert frozen[8] < 10.0
        assert frozen[20] == 21.0
        assert frozen[21] == 0.0

    def test_a_healthy_server_with_blocked_tasks_is_silent(self) -> None:
        """Nine seconds of 65 MB/s with five tasks blocked."""
        assert all(max(v.values()) == 0.0 for v in play_lull(HEALTHY))

    def test_four_seconds_at_three_percent_are_silent(self) -> None:
        """What remains of the freeze once the limits are lowered."""
        values = play_lull(HEALTHY + [(2000, 4)] * 4 + [(65_500, 4)] * 3)
        assert all(max(v.values()) == 0.0 for v in values)

    def test_nothing_to_write_is_no_lull(self) -> None:
        """A copy that ended leaves idle disks and no blocked task; or little is queued."""
        idle = [(0, 0)] * 30
        assert all(max(v.values()) == 0.0 for v in play_lull(HEALTHY + idle))
        quiet = play_lull(HEALTHY + INCIDENT, queued_ratio=0.4)
        assert all(max(v.values()) == 0.0 for v in quiet)

    def test_the_kind_reports_whether_the_disk_or_the_throttle_is_to_blame(self) -> None:
        """In flight and none completed for 10 s: the disk; none in flight: the throttle."""
        rows = HEALTHY + [(0, 4)] * 15
        assert play_lull(rows)[-1] == {"device": 15.0, "throttle": 0.0}
        assert play_lull(rows, in_flight=0)[-1] == {"device": 0.0, "throttle": 15.0}

    def test_a_mirrors_healthy_leg_does_not_speak_for_the_one_that_owes_the_writes(self) -> None:
        """Sda goes on reading, sdb has writes in flight and completes nothing: sdb hangs."""
        state, seen = no_progress.EMPTY, leaves.LeafHistory()
        for now in range(40):
            written = min(now, 15) * 10**8
            moved = {"written": written, "writes": written // 4096}
            blocks = {
                "sda": block("sda", reads=50 * now, in_flight=1, **moved),
                "sdb": block("sdb", in_flight=int(now > 14), **moved),
            }
            seen = leaves.step(seen, float(now), blocks, list(blocks))
            state, samples = no_progress.step(state, seen, blocked=2, queued_ratio=0.9)
        assert samples is not None
        assert {labels[0][1]: v for _, labels, v in samples} == {"device": 24.0, "throttle": 0.0}

    def test_a_lull_goes_on_over_a_restart(self) -> None:
        """Nothing was written while the program restarted: it is the same stall."""
        state, seen = no_progress.WriteStallState({"sda": ((0, 1e8),)}), leaves.LeafHistory()
        for now in range(12):
            seen = leaves.step(seen, float(now), {"sda": block("sda", in_flight=1)}, ["sda"])
            state, _ = no_progress.step(state, seen, blocked=2, queued_ratio=0.9)
        kept, seen = table.remember(state_with(no_progress=state)), leaves.LeafHistory()
        state = table.recall(table.SignalStates(), kept).groups["no_progress"]
        for now in (30, 31):
            seen = leaves.step(seen, float(now), {"sda": block("sda", in_flight=1)}, ["sda"])
            state, samples = no_progress.step(state, seen, blocked=2, queued_ratio=0.9)
        assert samples is not None
        assert max(value for _, _, value in samples) == 31.0

    def test_one_good_second_in_a_long_lull_does_not_make_the_trickle_normal(self) -> None:
        """Twelve minutes of stall, a sample without waiting tasks, and on: it is still a stall."""
        rows = HEALTHY + [(500, 2)] * 720 + [(500, 0)] + [(500, 2)] * 60
        assert play_lull(rows)[-1]["throttle"] == 60.0

    def test_a_lull_of_an_hour_does_not_become_the_normal_rate(self) -> None:
        """The best rate before the stall stays the reference as long as the stall lasts."""
        assert play_lull(HEALTHY + [(0, 4)] * 3600)[-1]["device"] == 3600.0

    @given(st.lists(st.integers(700, 100_000), min_size=1, max_size=40))
    def test_a_disk_that_writes_over_one_percent_always_makes_progress(
        self, rates: list[int]
    ) -> None:
        """Whatever else it does."""
        values = play_lull(
            [(0, 5)] + [(50_000, 5)] * 10 + [(rate, 5) for rate in rates if rate > 1001]
        )
        assert all(max(v.values()) == 0.0 for v in values)

    def test_writing_elsewhere_is_no_lull_of_the_disk_that_is_done(self) -> None:
        """A copy to sda ended; now a slow stick is written and its writer waits."""
        state, seen = no_progress.EMPTY, leaves.LeafHistory()
        for now in range(40):
            fast = min(now, 15) * 10**8
            slow = max(0, now - 15) * 10**6
            blocks = {
                "sda": block("sda", written=fast, writes=fast // 4096),
                "sdb": block("sdb", written=slow, writes=slow // 4096, in_flight=int(now > 15)),
            }
            seen = leaves.step(seen, float(now), blocks, list(blocks))
            state, samples = no_progress.step(state, seen, blocked=2, queued_ratio=0.9)
        assert samples is not None
        assert all(value == 0.0 for _, _, value in samples)

    def test_waiting_writers_before_anything_was_seen_written_are_no_news(self) -> None:
        """Started during a stall: 0 s would mean that no task waits."""
        state, seen = no_progress.EMPTY, leaves.LeafHistory()
        for now in range(5):
            seen = leaves.step(seen, float(now), {"sda": block("sda", in_flight=3)}, ["sda"])
            state, samples = no_progress.step(state, seen, blocked=2, queued_ratio=0.9)
            assert samples is None
        _, samples = no_progress.step(state, seen, blocked=0, queued_ratio=0.9)
        assert samples is not None

    def test_what_a_lull_is_measured_by_survives_a_restart(self) -> None:
        """The best rate, also if the state is read late and a trickle was observed meanwhile."""
        before = state_with(no_progress=no_progress.WriteStallState({"sda": ((0, 1e8),)}))
        after = table.recall(table.SignalStates(), table.remember(before))
        assert after.groups["no_progress"] == before.groups["no_progress"]
        late = state_with(no_progress=no_progress.WriteStallState({"sda": ((9, 1.0),)}))
        assert table.recall(late, table.remember(before)).groups["no_progress"].best == {
            "sda": ((0, 1e8), (9, 1.0))
        }
        usual = bandwidth.UsualState({"sda": (1.0, 2.0)})
        kept = table.remember(state_with(bandwidth=bandwidth.BandwidthState(usual)))
        assert (
            table.recall(table.SignalStates(), kept).groups["bandwidth"].usual.windows
            == usual.windows
        )


def test_history_forgets_what_is_older_than_half_a_minute() -> None:
    """480 disks must not fill memory."""
    state = history(*((float(t), {"sda": block("sda")}) for t in range(100)))
    assert len(state.snapshots) == 31


def test_topology_helper_makes_what_collectors_make() -> None:
    """The tests' own machine is of the collectors' types."""
    machine = topology(disk("sda"))
    assert isinstance(machine, Topology)
    assert isinstance(machine.devices["sda"], Device)
