"""Slow disks: what they are compared with, from when on it is an alert, and what never is."""

from __future__ import annotations

import dataclasses
import random
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from support.machine import disk
from support.slow_disks import Array, Load, SlowMachine, drive, machine

from iowarden.collectors.block.scsi import ScsiHost, ScsiTopology
from iowarden.collectors.md.mdstat import ArrayMember, MdArray
from iowarden.collectors.procfs.sysctl_vm import VmSysctl
from iowarden.collectors.smart.drive import (
    AccessMethod,
    Disk,
    Disks,
    Drive,
    PollResult,
    Protocol,
    ReadStatus,
)
from iowarden.rules.signals import table
from iowarden.rules.signals.device import slow, slow_groups, slow_history, slow_points
from iowarden.rules.signals.device.slow_points import CALM, Slowness, Verdict
from iowarden.rules.signals.device.slow_windows import Comparison

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iowarden.collectors.block.block_devices import Device

MB = 1_000_000
FIVE = ("sda", "sdb", "sdc", "sdd", "sde")
BUSY = Load(reads=50, read_ms=8, writes=50, write_ms=10, in_flight=1)
FIVE_TIMES = BUSY._replace(read_ms=40)
"""Five times the others' reads, 32 ms more."""
TEN_TIMES = BUSY._replace(reads=8, read_ms=80, writes=8, write_ms=100)
"""The same program, which waits for each of its requests, on a disk at a tenth of its speed."""
WARM = 51.0
"""At the first sample a window begins, and three belong to the first 30 s of activity."""


def raid(level: str = "raid5", names: tuple[str, ...] = FIVE, **sources: object) -> SlowMachine:
    """Return an array under the same load on all members, past the first 30 s."""
    found = SlowMachine(machine(map(drive, names), Array(level, names)), **sources)
    found.run(WARM, dict.fromkeys(names, BUSY))
    return found


def but(names: Iterable[str] = FIVE, **loads: Load) -> dict[str, Load]:
    """Return the same load on all disks but these."""
    return {**dict.fromkeys(names, BUSY), **loads}


def array_state(action: str = "idle", **states: tuple[str, ...]) -> dict[str, MdArray]:
    """Return md0 over five disks with these states."""
    members = tuple(
        ArrayMember(name, slot, states.get(name, ("in_sync",))) for slot, name in enumerate(FIVE)
    )
    numbers = dict.fromkeys(("sync_done_ratio", "sync_speed_bytes_per_second", "mismatches_bytes"))
    return {
        "md0": MdArray(
            name="md0",
            level="raid5",
            state="active",
            raid_disks=5,
            degraded=0,
            sync_action=action,
            chunk_bytes=None,
            size_bytes=None,
            members=members,
            **numbers,
        )
    }


def kernel(version: tuple[int, int, int]) -> VmSysctl:
    """Return the settings of a kernel."""
    return VmSysctl(None, None, None, None, None, None, None, ".".join(map(str, version)), version)


def self_tested(name: str, remaining: float = 0.4) -> Disks:
    """Return SMART data of a disk in whose log a self-test runs."""
    own = Drive(Protocol.ATA, self_test_remaining_ratio=remaining)
    polled = PollResult(AccessMethod(f"/dev/{name}"), ReadStatus.READ, drive=own)
    return Disks({"SN": Disk("SN", polled, device=name)})


class TestArray:
    """Members of an array have the same load, so they are each other's measure."""

    def test_one_slow_member_is_a_notice_after_two_minutes_and_a_warning_after_five(self) -> None:
        """Five times its peers: one point for each ten seconds."""
        found = raid()
        found.run(110, but(sdc=FIVE_TIMES), step=5)
        assert found.named("notice") == set()
        found.run(10, but(sdc=FIVE_TIMES), step=5)
        assert found.named("notice") == {"sdc"}
        assert found.ratio("sdc") == pytest.approx(5.0)
        found.run(170, but(sdc=FIVE_TIMES), step=5)
        assert found.named("warning") == set()
        found.run(10, but(sdc=FIVE_TIMES), step=5)
        assert found.named("warning") == {"sdc"}
        assert found.values(slow.SECONDS) == {"sdc": 290.0}

    def test_both_latencies_and_what_is_stacked_on_it_are_reported(self) -> None:
        """For the mail: its own latency next to that of the others; and md0 waits for it."""
        found = raid()
        found.run(150, but(sdc=FIVE_TIMES), step=5)
        assert found.values(slow.COMPARED, operation="read") == {"sdc": pytest.approx(0.040)}
        assert found.values(slow.REFERENCE, operation="read") == {"sdc": pytest.approx(0.008)}
        assert found.values(slow.BELOW) == {"md0": 1.0}
        assert found.values(slow.READ_LATENCY, window="10s")["sdc"] == pytest.approx(0.040)

    @pytest.mark.parametrize("slower", [23.9, 28.0])
    def test_both_the_ratio_and_the_excess_are_needed(self, slower: float) -> None:
        """2.99 times the others; 3.5 times but only 20 ms slower than 8 ms."""
        found = raid()
        found.run(400, but(sdc=BUSY._replace(read_ms=slower)), step=5)
        assert found.points("sdc") == (0 if slower < 24 else pytest.approx(40))

    def test_a_ratio_without_20_milliseconds_more_is_nothing_for_a_rotating_disk(self) -> None:
        """Five times 2 ms: no program feels it."""
        quick = BUSY._replace(read_ms=2.0, write_ms=2.0)
        found = raid()
        loads = {**dict.fromkeys(FIVE, quick), "sdc": quick._replace(read_ms=10.0)}
        found.run(300, loads, step=5)
        assert (found.points("sdc"), found.ratio("sdc")) == (0, pytest.approx(5.0))

    @pytest.mark.parametrize(
        ("quick", "slower"), [("read_ms", "write_ms"), ("write_ms", "read_ms")]
    )
    def test_what_is_slow_is_not_hidden_by_what_is_slower_by_little(
        self, quick: str, slower: str
    ) -> None:
        """Reads ten times 1 ms, without 20 ms more; writes five times 10 ms; and reversed."""
        found = raid()
        usual = BUSY._replace(**{quick: 1.0, slower: 10.0})  # type: ignore[arg-type]
        own = BUSY._replace(**{quick: 10.0, slower: 50.0})  # type: ignore[arg-type]
        found.run(150, {**dict.fromkeys(FIVE, usual), "sdc": own}, step=5)
        assert found.named("notice") == {"sdc"}

    def test_ten_times_as_slow_with_less_than_100_milliseconds_more_is_not_severe(self) -> None:
        """Thirteen times 3 ms are a warning after 100 s; severe ones are after 30 s."""
        found = raid()
        quick = dict.fromkeys(FIVE, BUSY._replace(read_ms=3, write_ms=3))
        slower = BUSY._replace(read_ms=40, write_ms=40)
        found.run(90, {**quick, "sdc": slower}, step=5)
        assert found.named("warning") == set()
        found.run(20, {**quick, "sdc": slower}, step=5)
        assert found.named("warning") == {"sdc"}

    def test_slow_windows_do_not_become_usual(self) -> None:
        """What its siblings and its own past are measured by is without them."""
        found = raid()
        found.run(300, but(sdc=FIVE_TIMES), step=5)
        bins = [
            n for (key, _), own in found.slow.history.today.items() if "sdc" in key for n in own
        ]
        assert bins
        assert slow_history.seconds_of(max(bins)) < 0.020

    def test_the_order_of_the_disks_does_not_matter(self) -> None:
        """Each is judged in turn as the slow one, listed forwards and backwards."""
        reported = set()
        for names in (FIVE, FIVE[::-1]):
            found = raid(names=names)
            found.run(130, but(sdc=FIVE_TIMES, sde=BUSY._replace(read_ms=12)), step=5)
            reported.add((frozenset(found.named("notice")), found.ratio("sdc"), found.ratio("sde")))
        assert len(reported) == 1

    @pytest.mark.parametrize(
        ("changes", "number"),
        [({"rotational": False}, 5), ({"size_bytes": 2 * 10**12}, 5), ({"vendor": "SEAGATE"}, 5)],
    )
    def test_another_class_is_no_peer(self, changes: Mapping[str, object], number: int) -> None:
        """An SSD among disks, a larger one, another transport."""
        names = FIVE[:number]
        disks = [drive(n, **(changes if n == "sda" else {})) for n in names]
        found = SlowMachine(machine(disks, Array("raid5", names)))
        found.run(400, but(names, sda=FIVE_TIMES), step=5)
        assert found.ratio("sda") is None
        assert found.ratio("sdb") == pytest.approx(1.0)

    def test_members_on_logical_volumes_of_one_disk_each_count_as_their_disks(self) -> None:
        """dm-raid: images on LVs; a volume with metadata has redundancy, one without has none."""
        names = FIVE[:3]
        for metadata, expected in ((True, {"sda"}), (False, set())):
            disks = {n: drive(n, holders=(f"dm-{n}",)) for n in names}
            lvs = []
            for number, name in enumerate(names):
                image = disk(f"dm-{name}", slaves=(name,), holders=("dm-9",), leaf=False)
                lvs.append(dataclasses.replace(image, dm_name=f"vg-lv_rimage_{number}"))
            meta = disk("dm-8", slaves=("sda",), holders=("dm-9",), leaf=False)
            meta = dataclasses.replace(meta, dm_name="vg-lv_rmeta_0")
            below = (*(each.name for each in lvs), *(("dm-8",) if metadata else ()))
            top = dataclasses.replace(disk("dm-9", slaves=below, leaf=False), dm_name="vg-lv")
            found = SlowMachine(machine([*disks.values(), *lvs, meta, top]))
            found.run(400, but(names, sda=BUSY._replace(write_ms=60)), step=5)
            assert found.named("notice") == expected


class TestGuards:
    """What else makes requests slow."""

    @pytest.mark.parametrize(
        "more", [{"reads": 80}, {"read_kib": 26}, {"reads": 80, "read_kib": 9, "write_kib": 9}]
    )
    def test_a_disk_with_more_to_do_than_its_peers_is_not_compared(
        self, more: Mapping[str, float]
    ) -> None:
        """1.3 times the requests, the bytes or both."""
        found = raid()
        found.run(300, but(sdc=FIVE_TIMES._replace(**more)), step=5)  # type: ignore[arg-type]
        assert found.points("sdc") == 0
        assert found.ratio("sdc") is None

    @pytest.mark.parametrize("size", [6.0, 40.0])
    def test_requests_of_another_size_are_another_load(self, size: float) -> None:
        """Less than half or more than twice the size of the others', with the same bytes."""
        found = raid()
        other = FIVE_TIMES._replace(read_kib=size, reads=50 * 16 / max(size, 16))
        found.run(300, but(sdc=other._replace(write_ms=10)), step=5)
        assert found.points("sdc") == 0

    @pytest.mark.parametrize(
        "sources",
        [
            {"md": array_state("recover", sdc=("spare",))},
            {"md": array_state("resync")},
            {"md": array_state(sdc=("in_sync", "write_mostly"))},
            {"smart": self_tested("sdc")},
            {"smart": self_tested("sdc", remaining=0.0)},
            {"queue": {"sdc": SimpleNamespace(zoned="host-aware")}},
        ],
        ids=["rebuilt", "resync", "write-mostly", "self-test", "its last tenth", "zoned"],
    )
    def test_a_disk_that_has_a_reason_is_not_judged(self, sources: Mapping[str, object]) -> None:
        """Without it the same disk is named."""
        found = raid(**sources)
        found.run(300, but(sdc=FIVE_TIMES), step=5)
        assert found.named("notice") == set()
        plain = raid(md=array_state("check"))
        plain.run(300, but(sdc=FIVE_TIMES), step=5)
        assert plain.named("notice") == {"sdc"}

    def test_our_own_scan_of_a_disk_explains_its_latency(self) -> None:
        """And when the scan has ended, it does not."""
        found = raid()
        found.scanned = frozenset({"sdc"})
        found.run(200, but(sdc=FIVE_TIMES), step=5)
        assert not found.points("sdc")
        found.scanned = frozenset()
        found.run(200, but(sdc=FIVE_TIMES), step=5)
        assert found.named("notice") == {"sdc"}

    def test_discards_explain_slow_requests_from_a_tenth_of_the_time_on(self) -> None:
        """Fstrim; 9 % of the time do not."""
        found = raid()
        found.run(200, but(sdc=FIVE_TIMES._replace(discard_ms=110)), step=5)
        assert not found.points("sdc")
        found.run(200, but(sdc=FIVE_TIMES._replace(discard_ms=90)), step=5)
        assert found.named("notice") == {"sdc"}

    def test_the_first_30_seconds_after_5_minutes_without_a_completion_are_not_judged(self) -> None:
        """Disks spin up one after the other."""
        found = raid()
        found.run(300, {}, step=5)
        found.run(30, but(sdc=FIVE_TIMES), step=5)
        assert not found.points("sdc")
        found.run(20, but(sdc=FIVE_TIMES), step=5)
        assert found.points("sdc") == 2

    def test_an_ssd_that_wrote_a_quarter_of_its_size_is_not_judged_by_its_writes(self) -> None:
        """It clears blocks; its reads are judged still, and all of it an hour later."""
        disks = [drive(n, rotational=False, size_bytes=10**9) for n in FIVE]
        found = SlowMachine(machine(disks, Array("raid5", FIVE)))
        load = BUSY._replace(write_kib=64, read_kib=64)
        loads = {**dict.fromkeys(FIVE, load), "sdc": load._replace(write_ms=60)}
        found.run(300, dict.fromkeys(FIVE, load), step=5)
        found.run(100, loads, step=5)
        assert not found.points("sdc")
        found.run(3900, dict.fromkeys(FIVE, load._replace(writes=3, reads=3, write_kib=16)), step=5)
        found.run(
            40, {n: each._replace(writes=3, write_kib=16) for n, each in loads.items()}, step=5
        )
        assert found.points("sdc")

    def test_times_in_jiffies_have_a_floor_of_10_milliseconds(self) -> None:
        """A kernel before 5.0 with SSDs: 1 ms against 12 ms may be one tick against three."""
        quick = BUSY._replace(read_ms=1, write_ms=1)
        disks = [drive(n, rotational=False) for n in FIVE]
        for version, named in (((4, 14, 0), set()), ((6, 1, 0), {"sdc"})):
            found = SlowMachine(machine(disks, Array("raid5", FIVE)), vm_sysctl=kernel(version))
            loads = {**dict.fromkeys(FIVE, quick), "sdc": quick._replace(read_ms=12)}
            found.run(400, loads, step=5)
            assert found.named("notice") == named

    def test_a_gap_without_samples_begins_a_new_window(self) -> None:
        """A host that was suspended: hours of counters are not ten seconds."""
        found = raid()
        found.now += 600
        found.run(20, but(sdc=FIVE_TIMES), step=5)
        assert found.points("sdc") is None or not found.points("sdc")


class TestFewRequests:
    """A very slow disk completes too little for a mean; what is in flight tells the rest."""

    PEERS = Load(reads=3, read_ms=10, writes=3, write_ms=10, in_flight=1, busy=0.1)
    STUCK = Load(reads=0.5, read_ms=1000, writes=0.5, write_ms=1000, in_flight=4)

    def loads(self, own: Load) -> dict[str, Load]:
        """Return an array of which sdc is another."""
        return {**dict.fromkeys(FIVE, self.PEERS), "sdc": own}

    def test_one_figure_for_the_disk_follows_from_the_requests_in_flight(self) -> None:
        """10 s x 4 in flight / 10 completed: 4 s each; severe, within 60 s of the first."""
        found = raid()
        found.run(60, self.loads(self.STUCK))
        assert found.values(slow.COMPARED, operation="all")["sdc"] == pytest.approx(4.0)
        assert found.named("warning") == {"sdc"}

    def test_nothing_in_flight_in_some_second_proves_nothing(self) -> None:
        """A disk that is hardly used."""
        found = raid()
        for _ in range(60):
            found.run(1, self.loads(self.STUCK._replace(in_flight=0)))
            found.run(4, self.loads(self.STUCK))
        assert not found.points("sdc")

    def test_a_leaked_request_in_flight_proves_nothing(self) -> None:
        """Its counter shows 1 for ever, while thousands of requests complete."""
        found = raid()
        found.run(60, self.loads(Load(reads=200, read_ms=0.01, in_flight=1)))
        idle = Load(reads=1, read_ms=5, in_flight=2)
        found.run(60, self.loads(idle))
        assert not found.points("sdc")

    def test_without_a_completion_it_is_a_hang_and_no_slow_disk(self) -> None:
        """N = 0 is not judged, and what counted towards 'severe' is forgotten."""
        found = raid()
        found.run(20, self.loads(self.STUCK))
        before = found.points("sdc")
        found.run(10, self.loads(Load(in_flight=4)))
        assert found.points("sdc") == before
        found.run(10, self.loads(self.STUCK))
        assert found.named("warning") == set()


class TestMirror:
    """Reads of a mirror are not shared evenly, and of two disks either may be the odd one."""

    PAIR = ("sda", "sdb")

    def test_reads_are_not_compared(self) -> None:
        """RAID1 read balancing: one disk gets the random reads."""
        found = raid("raid1", self.PAIR)
        found.run(400, but(self.PAIR, sda=BUSY._replace(read_ms=80)), step=5)
        assert found.points("sda") == 0

    def test_a_pair_without_a_witness_is_a_notice_only(self) -> None:
        """Ten times the other: either of them may have a reason."""
        found = raid("raid1", self.PAIR)
        found.run(1200, but(self.PAIR, sda=BUSY._replace(write_ms=100)), step=5)
        assert found.named("notice") == {"sda"}
        assert found.named("warning") == set()

    def test_twenty_times_its_peer_is_a_warning(self) -> None:
        """No load explains that."""
        found = raid("raid1", self.PAIR)
        found.run(120, but(self.PAIR, sda=BUSY._replace(write_ms=210)), step=5)
        assert found.named("warning") == {"sda"}

    def test_four_times_its_peer_is_not_slow(self) -> None:
        """Although it has 60 ms more; nor is five times with 40 ms more."""
        found = raid("raid1", self.PAIR)
        twenty = dict.fromkeys(self.PAIR, BUSY._replace(write_ms=20))
        found.run(400, {**twenty, "sda": BUSY._replace(write_ms=80)}, step=5)
        assert found.points("sda") == 0
        found.run(400, but(self.PAIR, sda=BUSY._replace(write_ms=51)), step=5)
        assert found.points("sda") == 0

    def test_of_three_copies_two_agree(self) -> None:
        """A warning without a further witness."""
        found = raid("raid1", FIVE[:3])
        found.run(400, but(FIVE[:3], sda=BUSY._replace(write_ms=100)), step=5)
        assert found.named("warning") == {"sda"}

    def test_its_own_past_is_the_witness_of_a_pair(self) -> None:
        """A week of 10 ms, then 100 ms; both get the requests that the slow one takes."""
        found = raid("raid1", self.PAIR)
        learn(found, but(self.PAIR), days=8)
        other = BUSY._replace(reads=8, writes=8)
        found.run(400, {"sda": TEN_TIMES, "sdb": other}, step=5)
        assert found.named("warning") == {"sda"}
        assert found.ratio("sda", "itself") == pytest.approx(9, abs=1.5)


def learn(found: SlowMachine, loads: Mapping[str, Load], *, days: int = 0) -> None:
    """Let disks show what is usual: half an hour of load each day."""
    for _ in range(days or 1):
        found.run(1800, loads, step=5)
        if days:
            found.now += 86_400 - 1800
            found.run(55, loads, step=5)


class TestSiblings:
    """Disks that only share an adapter: compared by what is usual for their load."""

    THREE = ("sda", "sdb", "sdc")

    def singles(self, **changes: object) -> SlowMachine:
        """Return three disks without an array."""
        return SlowMachine(machine(drive(n, **changes) for n in self.THREE))

    def test_after_half_an_hour_of_the_same_job_ten_times_is_a_notice_within_five_minutes(
        self,
    ) -> None:
        """30 windows; a warning needs a second witness, which the rule looks for."""
        found = self.singles()
        found.run(1865, dict.fromkeys(self.THREE, BUSY), step=5)
        loads = but(self.THREE, sdb=TEN_TIMES)
        found.run(290, loads, step=5)
        assert found.named("notice") == set()
        found.run(10, loads, step=5)
        assert found.named("notice") == {"sdb"}
        assert found.named("warning") == set()
        assert found.values(slow.REFERENCE, against="siblings")["sdb"] == pytest.approx(
            0.008, rel=0.5
        )

    def test_what_was_seen_for_ten_minutes_only_is_not_usual(self) -> None:
        """Fewer than 500 windows."""
        found = self.singles()
        found.run(600, dict.fromkeys(self.THREE, BUSY), step=5)
        found.run(600, but(self.THREE, sdb=TEN_TIMES), step=5)
        assert found.ratio("sdb", "siblings") is None

    def test_a_random_reader_beside_sequential_siblings_is_not_slow(self) -> None:
        """12 ms for 4 KiB anywhere, 3 ms for the next 512 KiB: another cell."""
        found = self.singles()
        streams = Load(reads=200, read_ms=3, read_kib=512, in_flight=1)
        loads = {**dict.fromkeys(self.THREE, streams), "sda": Load(80, 12, 4, in_flight=1)}
        found.run(4000, loads, step=5)
        assert found.named("notice") == set()

    def test_the_disk_of_an_fsync_log_beside_streaming_ones_is_not_slow(self) -> None:
        """Each of its small writes waits for a flush of the cache."""
        found = self.singles()
        streams = Load(writes=200, write_ms=3, write_kib=512, in_flight=1)
        log = Load(writes=60, write_ms=16, write_kib=4, flushes=60, in_flight=1)
        found.run(4000, {**dict.fromkeys(self.THREE, streams), "sdb": log}, step=5)
        assert found.named("notice") == set()

    @pytest.mark.parametrize(
        "changes",
        [{"model": "QEMU HARDDISK"}, {"serial": None}, {"host": "host7", "port": None}],
        ids=["virtual", "nameless", "LUN"],
    )
    def test_luns_of_one_model_and_virtual_disks_are_no_siblings(
        self, changes: Mapping[str, object]
    ) -> None:
        """What is behind them, and who shares it, is not known."""
        hosts = {"host7": ScsiHost("host7", "qla2xxx", None, None, None, fabric=True)}
        found = SlowMachine(
            machine(drive(n, **changes) for n in self.THREE),
            scsi=ScsiTopology(hosts, {}, None),
        )
        found.run(1865, dict.fromkeys(self.THREE, BUSY), step=5)
        found.run(600, but(self.THREE, sdb=TEN_TIMES), step=5)
        assert found.named("notice") == set()
        assert found.ratio("sdb", "siblings") is None

    def test_a_ratio_without_20_milliseconds_more_is_nothing_against_siblings_or_itself(
        self,
    ) -> None:
        """Six times 2 ms: a cache of the disk that is full now."""
        found = self.singles()
        quick = BUSY._replace(read_ms=2, write_ms=2)
        learn(found, dict.fromkeys(self.THREE, quick), days=8)
        loads = dict.fromkeys(self.THREE, quick) | {"sdb": quick._replace(read_ms=12, reads=8)}
        found.run(1900, loads, step=5)
        assert (found.ratio("sdb", "siblings") or 0) > 3
        assert (found.ratio("sdb", "itself") or 0) > 4
        assert found.named("notice") == set()

    def test_a_disk_that_starves_at_its_adapter_is_not_compared_with_siblings_or_itself(
        self,
    ) -> None:
        """Another one takes the queue that they share."""
        found = self.singles()
        learn(found, dict.fromkeys(self.THREE, BUSY), days=8)
        labels = (("device", "sdb"), ("host", "host0"))
        found.earlier = {"starvation": [("iowarden_device_starved", labels, 1.0)]}
        found.run(1900, but(self.THREE, sdb=TEN_TIMES), step=5)
        assert found.named("notice") == set()
        found.earlier = {}
        found.run(400, but(self.THREE, sdb=TEN_TIMES), step=5)
        assert found.named("warning") == {"sdb"}

    def test_its_own_past_makes_it_a_warning(self) -> None:
        """A second witness."""
        found = self.singles()
        learn(found, dict.fromkeys(self.THREE, BUSY), days=8)
        found.run(400, but(self.THREE, sdb=TEN_TIMES), step=5)
        assert found.named("warning") == {"sdb"}

    def test_against_its_own_past_alone_it_is_a_notice_after_half_an_hour(self) -> None:
        """A disk without siblings; that it fails slowly would hide in its own past."""
        found = SlowMachine(machine([drive("sda")]))
        learn(found, {"sda": BUSY}, days=8)
        found.run(1790, {"sda": TEN_TIMES}, step=5)
        assert found.named("notice") == set()
        found.run(10, {"sda": TEN_TIMES}, step=5)
        assert (found.named("notice"), found.named("warning")) == ({"sda"}, set())

    def test_three_slow_disks_of_one_enclosure_are_counted(self) -> None:
        """Its fan or its expander; two are not."""
        names = tuple(f"sd{c}" for c in "abcdefgh")
        slots = tuple(SimpleNamespace(device=n, enclosure="0:0:8:0") for n in names)
        found = raid("raid6", names, enclosure=slots)
        for bad, expected in (("ab", []), ("abc", [3.0])):
            loads = {f"sd{c}": FIVE_TIMES for c in bad}
            found.run(200, but(names, **loads), step=5)
            reported = [v for n, _, v in found.samples if n == "iowarden_enclosure_slow_disks"]
            assert reported == expected


class TestAbsolute:
    """Any disk: always busy and completing hardly anything."""

    HARDLY = Load(reads=5, read_ms=200, read_kib=16, in_flight=1)

    def test_a_minute_of_it_is_a_warning(self) -> None:
        """One disk, no peers, no history."""
        found = SlowMachine(machine([drive("sda")]))
        found.run(WARM + 30, {"sda": self.HARDLY})
        assert found.named("warning") == set()
        found.run(10, {"sda": self.HARDLY})
        assert found.named("warning") == {"sda"}

    @pytest.mark.parametrize(
        "own",
        [
            HARDLY._replace(busy=0.94),
            HARDLY._replace(reads=10.5),
            HARDLY._replace(read_kib=256),
            HARDLY._replace(in_flight=0),
        ],
        ids=["idle now and then", "11 a second", "large requests", "nothing in flight"],
    )
    def test_a_disk_that_does_more_is_healthy(self, own: Load) -> None:
        """The nearest healthy recordings did 1.8 times as much."""
        found = SlowMachine(machine([drive("sda")]))
        found.run(600, {"sda": own})
        assert found.named("notice") == set()

    def test_a_disk_that_starves_at_its_adapter_is_not_to_blame(self) -> None:
        """Another one takes the queue: it is compared with its array, and with nothing else."""
        found = SlowMachine(machine([drive("sda")]))
        found.earlier = {
            "starvation": [("iowarden_device_starved", (("device", "sda"), ("host", "host0")), 1.0)]
        }
        found.run(600, {"sda": self.HARDLY})
        assert found.named("notice") == set()

    def test_a_disk_whose_peers_take_as_long_is_not_to_blame(self) -> None:
        """Five disks of 600 ms a request, one of which is never idle: its load is the reason."""
        found = raid()
        peer = Load(reads=1.3, read_ms=600, read_kib=64, in_flight=1, busy=0.8)
        own = peer._replace(reads=1.6, busy=1.0)
        found.run(600, {**dict.fromkeys(FIVE, peer), "sda": own})
        assert found.named("notice") == set()

    def test_three_members_at_once_are_named(self) -> None:
        """The reason is what they have in common."""
        found = raid()
        peer = self.HARDLY._replace(reads=4, busy=0.8)
        found.run(600, {**dict.fromkeys(FIVE, peer), **dict.fromkeys(FIVE[:3], self.HARDLY)})
        assert found.named("warning") == {*FIVE[:3]}

    def test_a_member_whose_peers_are_fast_is_named(self) -> None:
        """They complete at once what little is left to them."""
        found = raid()
        peer = self.HARDLY._replace(read_ms=8, in_flight=0, busy=0.1)
        found.run(100, {**dict.fromkeys(FIVE, peer), "sda": self.HARDLY})
        assert found.named("warning") == {"sda"}

    def test_a_disk_at_usb_is_not_judged(self) -> None:
        """Its bridge handles one request at a time, and resets for seconds."""
        for usb, named in ((True, set()), (False, {"sda"})):
            hosts = {"host7": ScsiHost("host7", "uas", None, None, None, usb=usb)}
            found = SlowMachine(
                machine([drive("sda", host="host7", port=None)]),
                scsi=ScsiTopology(hosts, {}, None),
            )
            found.run(WARM + 60, {"sda": self.HARDLY})
            assert found.named("warning") == named

    @pytest.mark.parametrize("name", ["mmcblk0", "nbd0"])
    def test_a_memory_card_and_a_network_disk_are_not_judged(self, name: str) -> None:
        """A flush takes a card seconds, and that is how it works."""
        found = SlowMachine(machine([drive(name)]))
        found.run(600, {name: self.HARDLY})
        assert found.named("notice") == set()


class TestPoints:
    """From windows to alerts."""

    SLOW = Verdict(Comparison(4.0, 0.04, 0.01, "read", 4), slow=True)
    WELL = Verdict(Comparison(1.0, 0.01, 0.01, "read", 4))

    def steps(self, state: slow_points.Slowness, judged: Verdict, times: int) -> Slowness:
        """Return the state after some windows."""
        for _ in range(times):
            self.now += 10.0
            state = slow_points.step(state, judged, self.now)
        return state

    now = 86_400.0 * 20_000

    @pytest.mark.parametrize(
        ("ratio", "points"), [(3, 1), (5.9, 1), (6, 2), (12, 3), (24, 4), (48, 5), (1e6, 5)]
    )
    def test_a_window_counts_by_its_ratio(self, ratio: float, points: int) -> None:
        """Each doubling is one more, at most five."""
        assert slow_points.points_of(ratio) == points

    def test_they_end_at_sixty_and_fall_by_one_in_a_window_that_is_well(self) -> None:
        """After the longest fault it takes five minutes to fall below a warning."""
        state = self.steps(CALM, self.SLOW, 200)
        assert state.points == slow_points.MAX_POINTS
        assert self.steps(state, self.WELL, 30).points == 30

    @pytest.mark.parametrize("windows", [60, 72])
    def test_its_duration_ends_with_the_last_slow_window(self, windows: int) -> None:
        """The points take minutes to fall; it was slow until they began to."""
        state = self.steps(CALM, self.SLOW, windows)
        began = state.since_seconds
        assert began is not None
        slow = state.slow_seconds(state.slow_at_seconds or 0.0)
        well = self.steps(state, self.WELL, 30)
        assert well.since_seconds == began
        assert well.severities()
        assert well.slow_seconds(began + 10 * (windows + 30)) == slow
        assert slow_points.recalled(slow_points.remembered(well)).slow_at_seconds is not None

    def test_an_hour_without_a_comparison_halves_them(self) -> None:
        """At night nothing can be compared; in the morning it begins lower."""
        state = self.steps(CALM, self.SLOW, 40)
        assert self.steps(state, slow_points.IDLE, 359).points == 40
        assert self.steps(state, slow_points.NOT_COMPARED, 360).points == 20
        assert self.steps(state, slow_points.NOT_COMPARED, 720).points == 10

    def test_three_severe_windows_of_four_are_a_warning_at_once(self) -> None:
        """Two are not."""
        severe = self.SLOW._replace(severe=True)
        state = self.steps(self.steps(self.steps(CALM, severe, 1), self.SLOW, 1), severe, 1)
        assert state.severities() == {}
        assert self.steps(state, severe, 1).severities() == {"array": "warning"}

    def test_sixty_slow_minutes_of_three_hours_are_a_warning(self) -> None:
        """Half of its windows are slow: its points never reach a notice."""
        state = CALM
        for _ in range(59 * 3):
            state = self.steps(self.steps(state, self.SLOW, 1), self.WELL, 1)
        assert (state.points, state.severities()) == (0, {})
        for _ in range(3):
            state = self.steps(self.steps(state, self.SLOW, 1), self.WELL, 1)
        assert state.severities() == {"array": "warning"}

    def test_a_notice_on_the_third_of_seven_days_is_a_warning(self) -> None:
        """And on the third of nine it is not."""
        for between, severity in ((3, "warning"), (4, "notice")):
            state = self.steps(CALM, self.SLOW, 12)
            for _ in range(2):
                state = self.steps(state, self.WELL, 20)
                self.now += between * 86_400
                state = self.steps(state, self.SLOW, 12)
            assert state.severities() == {"array": severity}

    def test_a_disk_that_is_well_again_is_forgotten_after_a_week(self) -> None:
        """Nothing remains of it."""
        state = self.steps(CALM, self.SLOW, 12)
        state = self.steps(state, self.WELL, 20)
        assert state is not CALM
        self.now += 8 * 86_400
        state = self.steps(state, self.WELL, 6 * 180)
        assert state is CALM

    def test_a_slow_disk_that_was_pulled_is_known_for_a_week(self) -> None:
        """After nine days nothing is stored of it."""
        for days, stored in ((1, True), (9, False)):
            found = raid()
            found.run(300, but(sdc=FIVE_TIMES), step=5)
            del found.totals["sdc"]
            found.now += days * 86_400
            found.run(60, dict.fromkeys(found.totals, BUSY), step=5)
            assert bool(found.slow.disks) is stored

    def test_what_was_slow_before_a_restart_is_slow_after_it(self) -> None:
        """Points, minutes, days and usual latencies; the alert's time goes on."""
        found = raid()
        learn(found, but(), days=8)
        found.run(320, but(sdc=FIVE_TIMES), step=5)
        usual = found.slow.history
        assert found.named("warning") == {"sdc"}
        found.restart()
        found.run(20, but(sdc=FIVE_TIMES), step=5)
        assert found.named("warning") == {"sdc"}
        assert found.values(slow.SECONDS)["sdc"] == pytest.approx(320, abs=20)
        for at, each in usual.earlier.items():
            after = found.slow.history.earlier[at]
            assert after.windows == pytest.approx(each.windows, abs=1)
            assert after.p95 == pytest.approx(each.p95, abs=0.5)


class TestHistory:
    """What is usual for a disk."""

    def test_the_load_decides_with_what_a_window_is_compared(self) -> None:
        """Reads and writes, sizes and depths four times apart are different cells."""
        plain = slow_history.load("read", 16_384.0, slow_history.depth(1.0))
        others = {
            slow_history.load("write", 16_384.0, slow_history.depth(1.0)),
            slow_history.load("read", 65_536.0, slow_history.depth(1.0)),
            slow_history.load("read", 16_384.0, slow_history.depth(4.0)),
        }
        assert len(others - {plain}) == 3

    @pytest.mark.parametrize("seconds", [1e-7, 1e-5, 0.0123, 3.0, 900.0])
    def test_a_latency_is_kept_to_a_fifth(self, seconds: float) -> None:
        """A bin's upper end is at most 19 % above what is in it; a microsecond is the least."""
        upper = slow_history.seconds_of(slow_history.bin_of(seconds))
        assert max(seconds, 1e-6) <= upper <= 1.2 * max(seconds, 1e-6)

    def test_a_day_of_slowness_does_not_become_usual_at_once(self) -> None:
        """The 95th percentile of a week moves by a seventh of the way."""
        history = slow_history.NOTHING
        for day in range(1, 9):
            history = slow_history.on_day(history, day)
            history = slow_history.learned(history, [("a", 5, 0.01)] * 200)
        history = slow_history.learned(slow_history.on_day(history, 9), [("a", 5, 1.0)] * 200)
        assert history.usual.get(("a", 5)) == pytest.approx(0.01, rel=0.2)
        history = slow_history.on_day(history, 10)
        assert 0.01 < (history.usual.get(("a", 5)) or 0) < 0.04


SERVICE = {"hdd": 9.0, "ssd": 0.8, "nvme": 0.35}
"""Milliseconds of a request, of a disk that is used for a fifth of the time."""
LOAD = 0.2


def of_kind(kind: str, count: int) -> tuple[list[Device], tuple[str, ...]]:
    """Return disks of a kind, with their names."""
    names = tuple(f"nvme{n}n1" if kind == "nvme" else f"sd{chr(97 + n)}" for n in range(count))
    return [drive(n, rotational=kind == "hdd") for n in names], names


def under_load(
    kind: str, times: float, more_ms: float, luck: random.Random, *, size: float = 16.0
) -> Load:
    """Return a member of an array in ten seconds: its service time, queued as of one server.

    An array is as slow as its slowest member, so the load never fills that beyond nine tenths.
    """
    service = SERVICE[kind]
    mine = service * times + more_ms
    load = min(LOAD, 0.9 * service / mine)
    rate = 1000 / service * load * luck.uniform(0.95, 1.05)
    latency = mine / (1 - load * mine / service) * luck.lognormvariate(0, 0.15)
    half = rate / 2
    return Load(half, latency, size, half, latency, size, in_flight=1, busy=load * mine / service)


@pytest.mark.parametrize("kind", ["hdd", "ssd", "nvme"])
@pytest.mark.parametrize(("level", "count"), [("raid5", 4), ("raid10", 4), ("raid1", 2)])
@pytest.mark.parametrize(("times", "more_ms"), [(3, 0), (10, 0), (1, 20), (1, 200)])
def test_the_throttled_member_is_named_within_five_minutes_and_severe_within_one(
    kind: str, level: str, count: int, times: float, more_ms: float
) -> None:
    """The right disk every time; its queue makes it slower than the throttle alone."""
    luck = random.Random(f"{kind}{level}{times}{more_ms}")
    disks, names = of_kind(kind, count)
    found = SlowMachine(machine(disks, Array(level, names)))
    bad = names[1]

    def run(windows: int, *, slower: bool) -> None:
        for _ in range(windows):
            loads = {name: under_load(kind, 1, 0, luck) for name in names}
            if slower:  # the array waits for its slowest member, so all of them get its rate
                worst = under_load(kind, times, more_ms, luck)
                rate = {"reads": worst.reads, "writes": worst.writes}
                loads = {name: each._replace(**rate) for name, each in loads.items()}
                loads[bad] = worst
            found.run(10, loads, step=5)

    run(6, slower=False)
    run(6, slower=True)
    if count > 2 and (times == 10 or more_ms == 200 or (more_ms == 20 and kind != "hdd")):
        assert found.named("warning") == {bad}
    run(24, slower=True)
    assert found.named("notice") == {bad}


def healthy_hours() -> list[tuple[str, Callable[[dict[str, Load]], dict[str, Load]]]]:
    """Return what happens to the members of a healthy array: the load, changed."""

    def more(name: str, **changes: float) -> Callable[[dict[str, Load]], dict[str, Load]]:
        def changed(loads: dict[str, Load]) -> dict[str, Load]:
            own = loads[name]
            return {**loads, name: own._replace(**changes)}  # type: ignore[arg-type]

        return changed

    def check(loads: dict[str, Load]) -> dict[str, Load]:
        """All members are read in large pieces."""
        return {n: e._replace(reads=200, read_ms=20, read_kib=512) for n, e in loads.items()}

    return [
        ("plain", lambda loads: loads),
        ("md check", check),
        ("backup of one member's partition", more("sda", reads=60, read_ms=50, read_kib=1024)),
        ("ten times the load", more("sda", reads=110, writes=110, read_ms=60, write_ms=70)),
        ("fstrim", more("sdb", read_ms=80, write_ms=90, discard_ms=400)),
        ("self-test", more("sdc", read_ms=60, write_ms=70)),
        ("journal on one disk", more("sdd", writes=70, write_ms=50, write_kib=4, flushes=60)),
        ("dd from one member", more("sde", reads=90, read_ms=45, read_kib=128)),
    ]


@pytest.mark.parametrize(
    ("what", "changed"), healthy_hours(), ids=[name for name, _ in healthy_hours()]
)
def test_twenty_healthy_hours_are_silent(
    what: str, changed: Callable[[dict[str, Load]], dict[str, Load]]
) -> None:
    """Two and a half hours each, without a warning; 900 windows in half a second of work.

    A chance that is one in a thousand windows does not show in fewer.
    """
    luck = random.Random(what)
    sources = {"smart": self_tested("sdc")} if what == "self-test" else {}
    found = SlowMachine(machine(map(drive, FIVE), Array("raid5", FIVE)), **sources)
    for _ in range(900):
        found.run(10, changed({n: under_load("hdd", 1, 0, luck) for n in FIVE}), step=5)
        assert found.named("notice") == set()


def test_480_disks_in_20_arrays_are_judged_at_once() -> None:
    """Every slow one is named and no other."""
    names = [f"sd{number:03}" for number in range(480)]
    arrays = [Array("raid6", tuple(names[at : at + 24])) for at in range(0, 480, 24)]
    found = SlowMachine(machine(map(drive, names), *arrays))
    bad = names[7::24]
    found.run(165, {**dict.fromkeys(names, BUSY), **dict.fromkeys(bad, FIVE_TIMES)}, step=5)
    assert found.named("notice") == set(bad)


def test_the_means_of_five_minutes_are_those_of_the_counters() -> None:
    """The kernel's sums, divided."""
    found = SlowMachine(machine([drive("sda")]))
    found.run(240, {"sda": BUSY}, step=5)
    assert found.values(slow.WRITE_LATENCY, window="5m") == {}
    found.run(120, {"sda": BUSY._replace(write_ms=40)}, step=5)
    reported = found.values(slow.WRITE_LATENCY, window="5m")["sda"]
    assert 0.010 < reported < 0.040


def test_an_nvme_path_and_a_removable_disk_are_no_peers() -> None:
    """They are left out from the beginning."""
    found = machine([drive("nvme0c0n1"), drive("sdx", removable=True), drive("sda")])
    facts = slow_groups.facts(found, None, None, None)
    assert set(slow_groups.groups(facts).kinds) == {"sda"}


def multipath(drives: int, paths: int) -> list[Device]:
    """Return NVMe drives that report several controllers, with so many of these connected."""
    found = []
    for number in range(drives):
        head, own = f"nvme{number}n1", [f"nvme{number}c{path}n1" for path in range(paths)]
        found.append(drive(head, slaves=tuple(own), leaf=False, rotational=False))
        found += [drive(each, holders=(head,), rotational=False) for each in own]
    return found


def test_an_nvme_drive_with_one_path_is_a_disk() -> None:
    """The kernel before 6.4 counts requests at the path only; the drive is named."""
    names = tuple(f"nvme{number}n1" for number in range(4))
    load = BUSY._replace(read_ms=0.1, write_ms=0.1)
    ten_times = load._replace(read_ms=1.0, write_ms=1.0)
    for paths, named in ((1, {"nvme2n1"}), (2, set())):
        found = SlowMachine(machine(multipath(4, paths), Array("raid5", names)))
        loads = dict.fromkeys(found.totals, load)
        found.run(WARM, loads, step=5)
        found.run(200, {**loads, "nvme2c0n1": ten_times}, step=5)
        assert found.named("notice") == named


def test_an_nvme_drive_whose_path_changed_is_not_judged_by_both() -> None:
    """A controller that was reset comes back under another name, with other counters."""
    found = SlowMachine(machine(multipath(4, 1)))
    found.run(WARM, dict.fromkeys(found.totals, BUSY), step=5)
    assert found.values(slow.READ_LATENCY, window="10s")["nvme0n1"] == pytest.approx(0.008)
    other = drive("nvme0c1n1", holders=("nvme0n1",), rotational=False)
    rest = multipath(4, 1)[2:]
    head = drive("nvme0n1", slaves=("nvme0c1n1",), leaf=False, rotational=False)
    found.derived = table.derive(machine([head, other, *rest]))
    found.totals["nvme0c1n1"] = [1e9] * 17
    found.run(5, dict.fromkeys(found.totals, BUSY), step=5)
    found.run(5, dict.fromkeys(found.totals, BUSY), step=5)
    assert "nvme0n1" not in found.values(slow.READ_LATENCY, window="10s")


def test_the_paths_of_a_multipath_device_are_no_siblings() -> None:
    """They may be LUNs of an array that shares its disks."""
    names, model = ("sda", "sdb", "sdc"), "MD32xx"
    for uuid, siblings in (("mpath-3600a", set()), ("CRYPT-LUKS2-1", {*names})):
        disks = [drive(n, model=model, holders=(f"dm-{n}",)) for n in names]
        maps = [
            dataclasses.replace(disk(f"dm-{n}", slaves=(n,), leaf=False), dm_uuid=uuid)
            for n in names
        ]
        facts = slow_groups.facts(machine([*disks, *maps]), None, None, None)
        assert slow_groups.groups(facts).physical == siblings


def test_a_raid0_and_two_members_of_a_class_in_a_raid5_have_no_peers() -> None:
    """No redundancy and no majority."""
    for level, names in (("raid0", FIVE), ("raid5", FIVE[:2])):
        facts = slow_groups.facts(machine(map(drive, names), Array(level, names)), None, None, None)
        assert slow_groups.groups(facts).coupled == ()
