"""Signals of request queues: a minute's means, learnt values, and state over a restart."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.machine import MEMINFO, disk, topology

from iowarden.collectors.block.block_devices import Md, Topology
from iowarden.collectors.block.diskstats import BlockIo
from iowarden.collectors.block.queue import Queue
from iowarden.collectors.block.scsi import ScsiDevice, ScsiHost, ScsiTopology
from iowarden.collectors.procfs.meminfo import parse_meminfo
from iowarden.collectors.procfs.vmstat import parse_vmstat
from iowarden.rules.signals import activity, table
from iowarden.rules.signals.queue import phantom_reads
from iowarden.rules.signals.signal import Inputs
from iowarden.rules.signals.table import PersistentSignals
from iowarden.rules.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.model import Sample

WRITTEN_22_HOURS = PersistentSignals(groups={"phantom_reads": {"SN1": ((0.0, 22 * 3600.0),)}})
START = 1_800_000_000.0
MB = 1_000_000
CALM = {"sda": (0.0, 0.0, 40.0 * MB, 600.0)}
PHANTOM = {"sda": (45.0 * MB, 450.0, 40.0 * MB, 600.0)}
CAPPED = {"sda": (40.0 * MB, 40.0 * MB / 131_072, 0.0, 0.0)}
PHANTOM_SECONDS = "iowarden_device_phantom_reads_seconds"
CAPPED_SECONDS = "iowarden_device_read_ahead_capped_seconds"
STARVED_SECONDS = "iowarden_scsi_host_starved_seconds"


class FakeMachine:
    """Groups of signals stepped over counters that the test sets."""

    def __init__(
        self, devices: Topology | None = None, memory: PersistentSignals | None = None
    ) -> None:
        """Start; `memory` is the stored state."""
        self.topology = devices or topology(dataclasses.replace(disk("sda"), serial="SN1"))
        self.derived = table.derive(self.topology)
        self.timeless: set[str] = set()
        """Devices that count requests and no time."""
        self.state = table.SignalStates()
        if memory is not None:
            self.state = table.recall(self.state, memory)
        self.now = START
        self.counters: dict[str, list[float]] = {n: [0.0] * 17 for n in self.topology.devices}
        self.faults = 0.0
        self.extra: dict[str, object] = {}
        self.scanned: frozenset[str] = frozenset()
        self.told: Mapping[str, list[Sample]] = {}

    def run(
        self,
        seconds: int,
        loads: Mapping[str, tuple[float, float, float, float]] | None = None,
        *,
        step: int = 1,
        in_flight: int = 8,
    ) -> None:
        """Let time pass: bytes read, reads, bytes written and writes a second, always busy."""
        for _ in range(0, seconds, step):
            self.now += step
            self.faults += 3000 * step
            for name, (read, reads, written, writes) in (loads or {}).items():
                for at, rate in (
                    (0, reads),
                    (2, read / 512),
                    (4, writes),
                    (6, written / 512),
                    (9, 1000),
                    (10, in_flight * 1000),
                ):
                    if at < 9 or name not in self.timeless:
                        self.counters[name][at] += rate * step
            self.tick(dict.fromkeys(loads or {}, in_flight))

    def tick(self, in_flight: Mapping[str, int]) -> None:
        """Take one sample."""
        blocks = {
            name: BlockIo(name, 8, 0, (*map(int, c[:8]), in_flight.get(name, 0), *map(int, c[9:])))
            for name, c in self.counters.items()
        }
        vmstat = parse_vmstat(
            f"nr_dirty 0\nnr_writeback 0\npgpgin 0\npgpgout 0\npgmajfault {int(self.faults)}\n",
            4096,
        )
        meminfo = parse_meminfo(MEMINFO.format(dirty=0))
        values = {"diskstats": blocks, "vmstat": vmstat, "meminfo": meminfo, **self.extra}
        inputs = Inputs(
            self.now, 1000.0, Snapshot(**values), frozenset(values), scanned=self.scanned
        )
        self.state, self.told = table.step_all(self.state, inputs, self.derived)

    def value(self, group: str, metric: str) -> float | None:
        """Return the only series of a metric; None: not reported, or its group has no result."""
        found = [sample[2] for sample in self.told.get(group, []) if sample[0] == metric]
        return found[0] if found else None

    def means(self) -> dict[str, activity.Activity] | None:
        """Return the means of the last minute."""
        told = self.told.get("activity")
        return None if told is None else activity.activities(told)


def queue(**changes: object) -> Queue:
    """Return the queue of a volume whose stripe is 1 MiB."""
    usual: dict[str, object] = dict.fromkeys(field.name for field in dataclasses.fields(Queue))
    usual |= {"device": "sda", "schedulers": (), "partitions": (), "read_error": ""}
    usual |= {"read_ahead_bytes": 131_072, "optimal_io_bytes": 1 << 20, "minimum_io_bytes": 65_536}
    return Queue(**{**usual, **changes})  # type: ignore[arg-type]


class TestActivity:
    """What a device did in the last minute."""

    def test_nothing_is_reported_before_a_minute_has_been_seen(self) -> None:
        """The mean of ten seconds is not reliable."""
        machine = FakeMachine()
        machine.run(60, CALM)
        assert machine.means() is None
        machine.run(1, CALM)
        assert machine.means() == {"sda": activity.Activity(1.0, 8.0, 0.0, 0.0, 600.0, 40.0 * MB)}

    def test_an_idle_device_has_no_means(self) -> None:
        """And costs nothing to those that read them."""
        machine = FakeMachine()
        machine.run(70)
        assert machine.means() == {}

    def test_a_gap_begins_a_new_minute(self) -> None:
        """Suspended for half a minute: the mean would be that of a sleeping machine."""
        machine = FakeMachine()
        machine.run(70, CALM)
        machine.now += 30
        for _ in range(60):
            machine.run(1, CALM)
            assert machine.means() is None
        machine.run(1, CALM)
        assert machine.means() is not None

    def test_a_counter_that_fell_belongs_to_another_disk(self) -> None:
        """Replaced under the same name: no means until its own minute is complete."""
        machine = FakeMachine()
        machine.run(70, CALM)
        machine.counters["sda"] = [0.0] * 17
        machine.run(60, CALM)
        assert machine.means() == {}
        machine.run(20, CALM)
        assert machine.means() is not None
        assert "sda" in (machine.means() or {})

    def test_an_array_that_counts_no_time_is_as_busy_as_its_disks(self) -> None:
        """md before 5.14 counts requests, and neither io_ticks nor weighted time."""
        devices = topology(
            disk("sda", holders=("md0",)),
            disk("sdb", holders=("md0",)),
            disk("md0", slaves=("sda", "sdb"), leaf=False, md=Md("raid0", 2, 0, None, 65_536)),
        )
        machine = FakeMachine(devices)
        loads = {"sda": CAPPED["sda"], "sdb": CAPPED["sda"], "md0": CAPPED["sda"]}
        machine.timeless = {"md0"}
        machine.run(61, loads, in_flight=4)
        means = machine.means()
        assert means is not None
        assert means["md0"].utilization_ratio == 1.0
        assert means["md0"].mean_requests_in_flight == 8.0

    @given(
        st.lists(st.integers(0, 1 << 40), min_size=17, max_size=17),
        st.lists(st.integers(0, 1 << 40), min_size=17, max_size=17),
    )
    def test_no_counters_make_impossible_means(self, first: list[int], more: list[int]) -> None:
        """Nothing is negative, and no device is busy for more than all of the time."""
        last = tuple(a + b for a, b in zip(first, more, strict=True))
        before, after = BlockIo("sda", 8, 0, tuple(first)), BlockIo("sda", 8, 0, last)
        means = activity.between(before, after, 60.0)
        assert means is not None
        assert all(value >= 0 for value in dataclasses.astuple(means))
        assert means.utilization_ratio <= 1
        told = [(f.name, (("device", "sda"),), getattr(means, f.name)) for f in FIELDS]
        assert activity.activities(told) == {"sda": means}


FIELDS = dataclasses.fields(activity.Activity)


class TestPhantomReads:
    """What is usual takes a day to learn, and is not unlearnt by the fault itself."""

    def test_a_day_of_writing_makes_a_device_write_mostly(self) -> None:
        """24 hours of work, not of time: quiet hours teach nothing."""
        machine = FakeMachine(memory=WRITTEN_22_HOURS)
        machine.run(3600, CALM, step=5)
        machine.run(2 * 3600, {"sda": (0.0, 0.0, 1000.0, 1.0)}, step=5)
        machine.run(3000, CALM, step=5)
        assert machine.value("phantom_reads", "iowarden_device_write_mostly") is None
        machine.run(700, CALM, step=5)
        assert machine.value("phantom_reads", "iowarden_device_write_mostly") == 1.0
        machine.run(3600, PHANTOM, step=5)
        assert machine.value("phantom_reads", "iowarden_device_write_mostly") == 1.0
        again = FakeMachine(memory=table.remember(machine.state))
        again.run(70, PHANTOM)
        assert again.value("phantom_reads", "iowarden_device_write_mostly") == 1.0

    def test_a_device_that_is_read_every_night_is_not_write_mostly(self) -> None:
        """A backup restarts the day."""
        machine = FakeMachine(memory=WRITTEN_22_HOURS)
        machine.run(600, PHANTOM, step=5)
        machine.run(2 * 3600 + 600, CALM, step=5)
        assert machine.value("phantom_reads", "iowarden_device_write_mostly") is None
        kept = table.remember(machine.state).groups["phantom_reads"]
        assert kept["SN1"][0][1] <= 2 * 3600 + 600

    def test_the_reads_of_a_surface_scan_are_no_phantoms(self) -> None:
        """They neither raise it, nor take from a device that it is write-mostly."""
        machine = FakeMachine(memory=WRITTEN_22_HOURS)
        machine.scanned = frozenset({"sda"})
        machine.run(600, PHANTOM, step=5)
        assert machine.value("phantom_reads", PHANTOM_SECONDS) is None
        machine.run(70, CALM)
        machine.scanned = frozenset()
        machine.run(2 * 3600 + 600, CALM, step=5)
        assert machine.value("phantom_reads", "iowarden_device_write_mostly") == 1.0

    def test_it_holds_from_its_beginning_and_ends_with_a_calm_minute(self) -> None:
        """Seconds count from the step in which it began."""
        machine = FakeMachine()
        machine.run(120, CALM)
        machine.run(300, PHANTOM)
        seconds = machine.value("phantom_reads", PHANTOM_SECONDS)
        assert seconds is not None
        assert 270 <= seconds <= 300
        machine.run(70, CALM)
        assert machine.value("phantom_reads", PHANTOM_SECONDS) is None
        assert "phantom_reads" in machine.told


class TestRestarts:
    """A restart or a short gap neither ends nor restarts an alert that fires."""

    @pytest.mark.parametrize(
        ("group", "metric", "loads"),
        [
            ("phantom_reads", PHANTOM_SECONDS, PHANTOM),
            ("read_ahead", CAPPED_SECONDS, CAPPED),
        ],
    )
    def test_what_held_for_long_is_reported_until_it_can_be_judged(
        self, group: str, metric: str, loads: Mapping[str, tuple[float, float, float, float]]
    ) -> None:
        """Through a restart and a gap: it goes on at once, and ends by a minute of good data."""
        machine = FakeMachine()
        machine.extra = {"queue": {"sda": queue()}}
        machine.run(400, loads)
        before = machine.value(group, metric)
        assert before is not None
        assert before >= 300
        again = FakeMachine(memory=table.remember(machine.state))
        again.extra, again.now = machine.extra, machine.now + 30
        again.run(1, loads)
        after = again.value(group, metric)
        assert after is not None
        assert after > before
        again.run(70, loads)
        assert (again.value(group, metric) or 0) > after
        again.now += 60
        again.run(1, loads)
        assert (again.value(group, metric) or 0) > after
        again.run(70)
        assert again.value(group, metric) is None
        assert group in again.told

    @pytest.mark.parametrize(
        ("group", "loads"), [("phantom_reads", PHANTOM), ("read_ahead", CAPPED)]
    )
    def test_what_had_not_held_for_long_begins_anew(
        self, group: str, loads: Mapping[str, tuple[float, float, float, float]]
    ) -> None:
        """A down-time is no evidence: nothing may begin to fire because of it."""
        machine = FakeMachine()
        machine.extra = {"queue": {"sda": queue()}}
        machine.run(200, loads)
        again = FakeMachine(memory=table.remember(machine.state))
        again.extra, again.now = machine.extra, machine.now + 600
        again.run(30, loads)
        assert group not in again.told
        machine.now += 600
        machine.run(30, loads)
        assert group not in machine.told

    def test_the_best_a_volume_has_read_outlives_a_restart(self) -> None:
        """Under the serial number, so that it survives a rename of the disk."""
        machine = FakeMachine()
        machine.extra = {"queue": {"sda": queue()}}
        machine.run(70, {"sda": (600.0 * MB, 600.0, 0.0, 0.0)})
        kept = table.remember(machine.state)
        renamed = FakeMachine(topology(dataclasses.replace(disk("sdz"), serial="SN1")), kept)
        renamed.extra = {"queue": {"sdz": queue(device="sdz")}}
        renamed.run(70, {"sdz": (1.0 * MB, 10.0, 0.0, 0.0)})
        best = renamed.value("read_ahead", "iowarden_device_max_read_bytes_per_second")
        assert best == pytest.approx(600 * MB, rel=0.01)

    def test_no_larger_read_ahead_is_advised_for_a_day_after_phantoms(self) -> None:
        """Also over a restart: what a night's work reads is not to be made more of by day."""
        machine = FakeMachine()
        machine.extra = {"queue": {"sda": queue()}}
        machine.run(120, PHANTOM)
        again = FakeMachine(memory=table.remember(machine.state))
        again.extra, again.now = machine.extra, machine.now + 60
        again.run(70)
        short = "iowarden_device_read_ahead_below_stripe"
        assert again.told["read_ahead"]
        assert again.value("read_ahead", short) is None
        again.now += 25 * 3600
        again.run(70)
        assert again.value("read_ahead", short) == 1.0

    def test_starved_disks_are_told_on_after_a_restart(self) -> None:
        """The adapter is identified by its name; ten seconds are enough."""
        names = ("sda", "sdb")
        disks = topology(*(dataclasses.replace(disk(n), serial=n) for n in names))
        hosts = {"host0": ScsiHost("host0", "3w-9xxx", 254, 254, 0)}
        found = {
            f"0:0:{at}:0": ScsiDevice(
                f"0:0:{at}:0", "host0", name, 0, "running", 254, 30.0, 0, 0, 0, 0
            )
            for at, name in enumerate(names)
        }
        loads = {"sda": (0.0, 0.0, 50.0 * MB, 400.0), "sdb": (20_000.0, 2.0, 0.0, 0.0)}
        machine = FakeMachine(disks)
        machine.extra = {"scsi": ScsiTopology(hosts, found, None)}
        machine.run(100, loads)
        assert (machine.value("starvation", STARVED_SECONDS) or 0) >= 80
        again = FakeMachine(disks, table.remember(machine.state))
        again.extra, again.now = machine.extra, machine.now + 30
        again.run(1, loads)
        assert (again.value("starvation", STARVED_SECONDS) or 0) > 100
        again.run(20, {"sda": loads["sda"]})
        assert again.value("starvation", STARVED_SECONDS) is None
        assert again.told["starvation"] == []


def test_a_device_that_only_writes_has_read_no_phantoms_before_a_restart() -> None:
    """0: never. Any other time would be that of reads that were not observed."""
    state = phantom_reads.PhantomState(usual={"SN1": 3 * 86_400.0})
    assert phantom_reads.remember(state) == {"SN1": ((0.0, 3 * 86_400.0),)}
