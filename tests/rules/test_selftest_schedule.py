"""When drives test themselves: tables, properties, and a year."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.block.block_devices import Device, Md, Topology
from iowarden.collectors.block.udev import BlockSignature
from iowarden.collectors.filesystem.btrfs_owner import FileSystem
from iowarden.collectors.md.mdstat import MdArray
from iowarden.collectors.smart.drive import (
    AccessMethod,
    Disk,
    Disks,
    Drive,
    OfflineCollection,
    PollResult,
    Protocol,
    ReadStatus,
    SelfTest,
)
from iowarden.collectors.zfs.vdevs import PoolDevices, parse_pool
from iowarden.rules import calendar, selftest_schedule
from iowarden.rules.alerting.alerts import AlertState
from iowarden.rules.incidents.model import IncidentMember
from iowarden.rules.selftest_schedule import (
    Candidate,
    Runs,
    ScheduleGroup,
    SelfTestRun,
    SelfTestState,
)
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BERLIN = ZoneInfo("Europe/Berlin")
HOUR, DAY = 3600.0, 86_400.0
WEEKLY = ScheduleGroup(("*",), {"long": calendar.parse("Sun 03:00")})


def moment(text: str) -> float:
    """Unix time of a time in Berlin."""
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()


SATURDAY, SUNDAY = moment("2026-11-21T12:00"), moment("2026-11-22T03:00")


def known(*disks: str, at: float = SATURDAY, kind: str = "long") -> Runs:
    """Disks first seen at a time, and never tested."""
    return {disk: {kind: SelfTestRun(at)} for disk in disks}


def planned(
    found: Sequence[Candidate], runs: Runs, now: float, *groups: ScheduleGroup
) -> dict[tuple[str, str], str]:
    """What is due, and why it is postponed; '' when it is to begin."""
    due = selftest_schedule.plan(groups or (WEEKLY,), found, runs, now, BERLIN)
    return {(each.disk, each.kind): each.postponed for each in due}


def test_a_test_begins_when_it_is_due_and_not_before() -> None:
    """A second before three on Sunday, and at three; begun, it is due no more."""
    runs = known("S1")
    assert planned([Candidate("S1")], runs, SUNDAY - 1) == {}
    assert planned([Candidate("S1")], runs, SUNDAY) == {("S1", "long"): ""}
    run = selftest_schedule.begun(
        selftest_schedule.requested(runs["S1"]["long"], SUNDAY, ""), "long", None, SUNDAY
    )
    passed = selftest_schedule.ended(run, SelfTestState.PASSED, "Completed", SUNDAY + HOUR)
    assert planned([Candidate("S1")], {"S1": {"long": passed}}, SUNDAY + DAY) == {}


def test_a_disk_that_is_new_waits_for_the_next_date() -> None:
    """Nothing is made up for that was due before a disk, or its schedule, was known."""
    runs = selftest_schedule.add_scheduled({}, (WEEKLY,), [Candidate("S1")], SUNDAY + DAY)
    assert planned([Candidate("S1")], runs, SUNDAY + DAY) == {}
    assert planned([Candidate("S1")], runs, SUNDAY + 7 * DAY) == {("S1", "long"): ""}
    assert (
        selftest_schedule.add_scheduled(runs, (WEEKLY,), [Candidate("S1")], SUNDAY + 9 * DAY)
        is runs
    )


def test_what_was_missed_is_made_up_for_once() -> None:
    """Three weeks of holidays, the machine off: one test, not three, due since the first."""
    runs = known("S1")
    (due,) = selftest_schedule.plan((WEEKLY,), [Candidate("S1")], runs, SUNDAY + 24 * DAY, BERLIN)
    assert (due.since_seconds, due.postponed) == (SUNDAY, "")


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [
        (Candidate("S1", against="it is asleep, and is not woken up"), "it is asleep"),
        (Candidate("S1", against="sda is 80% busy"), "80% busy"),
        (Candidate("S1", against="md0 is in resync"), "md0 is in resync"),
        (Candidate("S1", running=True), "a test runs in it"),
    ],
)
def test_what_speaks_against_a_test_postpones_it_with_the_reason(
    candidate: Candidate, reason: str
) -> None:
    """It stays due, for as long as that lasts."""
    for later in (0.0, DAY, 6 * DAY):
        found = planned([candidate], known("S1"), SUNDAY + later)
        assert reason in found["S1", "long"]
    clear = replace(candidate, against="", running=False)
    assert planned([clear], known("S1"), SUNDAY + 6 * DAY) == {("S1", "long"): ""}


def test_of_an_array_one_disk_at_a_time_is_tested() -> None:
    """Three members are due: one starts. A fourth is tested by hand: none does."""
    shares = frozenset({"array md0"})
    three = [Candidate(f"S{n}", shares=shares) for n in range(3)]
    runs = known("S0", "S1", "S2")
    found = planned(three, runs, SUNDAY)
    assert sorted(found.values()) == [
        "",
        *["disk S0 of array md0 is being tested"] * 2,
    ]
    fourth = Candidate("S9", shares=shares, running=True)
    assert set(planned([*three, fourth], runs, SUNDAY).values()) == {
        "disk S9 of array md0 is being tested"
    }
    assert selftest_schedule.blocked_by(three[0], [*three, fourth], runs) == (
        "disk S9 of array md0 is being tested"
    )
    assert selftest_schedule.blocked_by(three[0], three, runs) == ""


def test_of_two_kinds_that_are_due_at_once_the_one_of_minutes_goes_first() -> None:
    """Short and long at one time: the long one waits."""
    both = ScheduleGroup(
        ("*",), {"short": calendar.parse("Sun 03:00"), "long": calendar.parse("Sun 03:00")}
    )
    runs: Runs = {"S1": {"short": SelfTestRun(SATURDAY), "long": SelfTestRun(SATURDAY)}}
    assert planned([Candidate("S1")], runs, SUNDAY, both) == {
        ("S1", "short"): "",
        ("S1", "long"): "a test runs in it",
    }


def test_the_first_group_that_has_a_disk_counts() -> None:
    """By serial number, by class, all; a test that a drive does not support is not requested."""
    groups = (
        ScheduleGroup(("S1",), {}),
        ScheduleGroup(("rotational",), {"long": calendar.parse("Sun 03:00")}),
        ScheduleGroup(("*",), {"short": calendar.parse("Sun 03:00")}),
    )
    spins = frozenset({"rotational"})
    found = [
        Candidate("S1", spins),
        Candidate("S2", spins),
        Candidate("S3", frozenset({"solid-state"})),
        Candidate("S4", spins, kinds=("short",)),
    ]
    runs = selftest_schedule.add_scheduled({}, groups, found, SATURDAY)
    assert planned(found, runs, SUNDAY, *groups) == {("S2", "long"): "", ("S3", "short"): ""}


def test_an_interrupted_test_is_tried_again_and_not_for_ever() -> None:
    """A machine that restarts each night: after four tries the next date counts."""
    run, now = known("S1")["S1"]["long"], SUNDAY
    for number in range(1, 5):
        assert planned([Candidate("S1")], {"S1": {"long": run}}, now)["S1", "long"] == ""
        run = selftest_schedule.begun(
            selftest_schedule.requested(run, now, "", SUNDAY), "long", None, now
        )
        run = selftest_schedule.ended(
            run, SelfTestState.INTERRUPTED, "Interrupted (host reset)", now + 60
        )
        assert run.tries == number
        again = planned([Candidate("S1")], {"S1": {"long": run}}, now + HOUR)
        assert again == {} or "host reset" in again["S1", "long"]
        now += selftest_schedule.RETRY_INTERVAL_SECONDS
    assert planned([Candidate("S1")], {"S1": {"long": run}}, now + DAY) == {}
    assert planned([Candidate("S1")], {"S1": {"long": run}}, SUNDAY + 7 * DAY)["S1", "long"] == ""


def test_what_is_refused_or_aborted_by_somebody_waits_for_the_next_date() -> None:
    """Another request at once would be refused again."""
    for outcome in (
        SelfTestState.REFUSED,
        SelfTestState.ABORTED,
        SelfTestState.FAILED,
        SelfTestState.UNKNOWN,
    ):
        run = selftest_schedule.ended(
            selftest_schedule.requested(None, SUNDAY, ""), outcome, "", SUNDAY
        )
        runs: Runs = {"S1": {"long": replace(run, seen_seconds=SATURDAY)}}
        assert planned([Candidate("S1")], runs, SUNDAY + 6 * DAY) == {}
        assert planned([Candidate("S1")], runs, SUNDAY + 7 * DAY) == {("S1", "long"): ""}


def test_the_wall_clock_reports_when_a_test_is_due() -> None:
    """The machine slept for a day: the program's clock is a day behind what the schedule is by."""
    runs = known("S1", at=SATURDAY - DAY)
    (due,) = selftest_schedule.plan(
        (WEEKLY,), [Candidate("S1")], runs, SUNDAY - DAY + 60, BERLIN, ahead_seconds=DAY
    )
    assert due.since_seconds == SUNDAY - DAY


# --- properties


CANDIDATES = st.lists(
    st.builds(
        Candidate,
        st.sampled_from([f"S{n}" for n in range(8)]),
        classes=st.sets(st.sampled_from(["rotational", "solid-state"])).map(frozenset),
        shares=st.sets(st.sampled_from(["array md0", "array md1", "controller host2"])).map(
            frozenset
        ),
        against=st.sampled_from(["", "", "sda is 90% busy"]),
        running=st.sampled_from([False, False, False, True]),
        kinds=st.sampled_from([None, (), ("short",), ("short", "long")]),
    ),
    unique_by=lambda c: c.disk,
)
RUNS = st.dictionaries(
    st.sampled_from([f"S{n}" for n in range(8)]),
    st.dictionaries(
        st.sampled_from(["short", "long"]),
        st.builds(
            SelfTestRun,
            st.floats(SATURDAY - 30 * DAY, SUNDAY + 30 * DAY),
            st.sampled_from(SelfTestState),
            st.none() | st.floats(SATURDAY - 30 * DAY, SUNDAY + 30 * DAY),
            tries=st.integers(0, 5),
        ),
    ),
)
GROUPS = (
    ScheduleGroup(
        ("S1", "rotational"),
        {"short": calendar.parse("02:00"), "long": calendar.parse("Sat *-*-1..7 01:00")},
        2 * HOUR,
    ),
    ScheduleGroup(("*",), {"long": calendar.parse("Sun 03:00")}, HOUR),
)


@given(CANDIDATES, RUNS, st.floats(SATURDAY - 30 * DAY, SUNDAY + 60 * DAY))
def test_never_are_two_of_one_array_tested_and_never_two_tests_in_one_disk(
    found: list[Candidate], runs: Runs, now: float
) -> None:
    """Whatever runs and is due; and everything that is due begins or has a reason."""
    by_disk = {candidate.disk: candidate for candidate in found}
    due = selftest_schedule.plan(GROUPS, found, runs, now, BERLIN)
    testing = [
        c.disk
        for c in found
        if c.running
        or any(r.outcome in selftest_schedule.IN_PROGRESS for r in runs.get(c.disk, {}).values())
    ]
    starts = [each for each in due if not each.postponed]
    assert not {each.disk for each in starts} & set(testing)
    assert len({each.disk for each in starts}) == len(starts)
    for each in starts:
        candidate = by_disk[each.disk]
        assert not candidate.against
        assert candidate.kinds is None or each.kind in candidate.kinds
        others = {*testing, *(s.disk for s in starts)} - {each.disk}
        assert not any(by_disk[other].shares & candidate.shares for other in others)
    for each in due:
        assert runs[each.disk][each.kind].seen_seconds < each.since_seconds <= now


GROUPS_OF_A_YEAR = (
    ScheduleGroup(
        ("*",),
        {"short": calendar.parse("Wed 02:30"), "long": calendar.parse("Sat *-*-1..7 01:00")},
        HOUR,
    ),
)


class FakeMachine:
    """Six disks that test themselves, in two arrays of three; the machine is off at times."""

    groups = GROUPS_OF_A_YEAR
    disks: ClassVar[Mapping[str, frozenset[str]]] = {
        f"S{number}": frozenset({f"array md{number % 2}"}) for number in range(6)
    }
    long_steps = 8

    def __init__(self, start: float) -> None:
        self.start, self.now = start, start
        self.off: list[tuple[float, float]] = []
        self.runs: Runs = {}
        self.begun: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.order: list[tuple[str, str]] = []
        self.most: Counter[str] = Counter()

    def run(self, until: float, step_seconds: float) -> None:
        """Let the time pass, and start what is planned; a short test takes a step, a long 8."""
        ends: dict[tuple[str, str], float] = {}
        while self.now < until:
            self.now += step_seconds
            off = any(low <= self.now < high for low, high in self.off)
            for key in [k for k, end in ends.items() if end <= self.now]:
                disk, kind = key
                del ends[key]
                run = selftest_schedule.ended(
                    self.runs[disk][kind], SelfTestState.PASSED, "", self.now
                )
                self.runs = selftest_schedule.with_run(self.runs, disk, kind, run)
            if off:
                continue
            found = [Candidate(disk, shares=shares) for disk, shares in self.disks.items()]
            self.runs = selftest_schedule.add_scheduled(self.runs, self.groups, found, self.now)
            for due in selftest_schedule.plan(self.groups, found, self.runs, self.now, BERLIN):
                if due.postponed:
                    assert "is being tested" in due.postponed or "runs in it" in due.postponed
                    continue
                key = (due.disk, due.kind)
                run = selftest_schedule.requested(self.runs[due.disk][due.kind], self.now, "")
                run = selftest_schedule.begun(run, due.kind, None, self.now)
                self.runs = selftest_schedule.with_run(self.runs, due.disk, due.kind, run)
                ends[key] = self.now + step_seconds * (self.long_steps if due.kind == "long" else 1)
                self.begun[key].append(due.since_seconds)
                self.order.append(key)
            shared = Counter(share for disk, _ in ends for share in self.disks[disk])
            self.most |= shared


class LargeArray(FakeMachine):
    """Twelve disks in one array, with the suggested schedule; a long test takes 30 hours."""

    groups = (
        ScheduleGroup(
            (selftest_schedule.SUGGESTED["disks"],),
            {kind: calendar.parse(selftest_schedule.SUGGESTED[kind]) for kind in ("short", "long")},
            2 * HOUR,
        ),
    )
    disks: ClassVar[Mapping[str, frozenset[str]]] = {
        f"S{number}": frozenset({"array md0"}) for number in range(12)
    }
    long_steps = 60


def test_in_a_large_array_each_disk_has_its_turn_although_not_each_week() -> None:
    """All twelve take 15 days: none is tested again before all others are.

    A short test is between two long ones, which is a day or two late at most.
    """
    machine = LargeArray(SUNDAY)
    machine.run(SUNDAY + 60 * DAY, 1800.0)
    starts = [disk for disk, kind in machine.order if kind == "long"]
    assert len(starts) > 40
    assert all(len(set(starts[at : at + 12])) == 12 for at in range(len(starts) - 11))
    assert {len(machine.begun[disk, "short"]) for disk in machine.disks} <= {8, 9}


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.system) for seed in range(1, 10))]
)
def test_a_year_with_downtimes_begins_every_test_the_right_number_of_times(seed: int) -> None:
    """Twelve long and 52 short ones per disk; two due dates in a downtime are one test."""
    start, end = moment("2026-01-01T00:00"), moment("2027-01-01T00:00")
    machine = FakeMachine(start)
    source = random.Random(seed)
    for _ in range(6):
        low = start + source.uniform(0, 340) * DAY
        machine.off.append((low, low + source.uniform(1, 20) * DAY))
    machine.run(end, 1800.0)
    assert set(machine.most.values()) == {1}
    group = GROUPS_OF_A_YEAR[0]
    for (disk, kind), begun in machine.begun.items():
        expected, at = [], start
        own = selftest_schedule.spread_share(disk) * group.spread_seconds
        while (following := group.calendars[kind].following(at, BERLIN)) is not None:
            at = following
            if at + own >= end - 3 * DAY:
                break
            expected.append(at + own)
        pairs = list(pairwise(expected))
        missed = {n for d, n in pairs if any(low < d and n < high for low, high in machine.off)}
        # It may have waited for the others of its array when the machine went off.
        may = {n for d, n in pairs if any(low - DAY < d and n < high for low, high in machine.off)}
        seen = [at for at in begun if at < end - 3 * DAY]
        assert len(seen) == len(set(seen)), (disk, kind)
        assert missed.isdisjoint(seen)
        assert set(expected) - may <= set(seen) <= set(expected)
    assert len(machine.begun) == 12


# --- what speaks against it, from what is known


def device(name: str, **changes: object) -> Device:
    """A disk of a machine."""
    values: dict[str, object] = {
        "name": name, "device_number": "8:0", "slaves": (), "holders": (), "partitions": (),
        "leaf": True, "size_bytes": 1, "rotational": True, "model": "M", "vendor": "V",
        "serial": name, "wwn": None, "timeout_seconds": 30.0, "host": "host0", "dm_name": None,
        "md": None,
    }  # fmt: skip
    return Device(**{**values, **changes})  # type: ignore[arg-type]


def disk(key: str, name: str = "", drive: Drive | None = None, **changes: object) -> Disk:
    """A disk that was read, at this name or behind a controller."""
    target = AccessMethod(f"/dev/{name}", device=name, controller="host0")
    polled = PollResult(
        target, ReadStatus.READ, drive=drive or Drive(Protocol.ATA), read_seconds=1.0
    )
    return Disk(key, replace(polled, **changes), name)  # type: ignore[arg-type]


MD = Md("raid1", 2, None, 2, None)
TOPOLOGY = Topology(
    {
        "sda": device("sda", holders=("md0",)),
        "sdb": device("sdb", holders=("md0",)),
        "sdc": device("sdc", holders=("dm-0",), rotational=False),
        "sdd": device("sdd", host="host2"),
        "md0": device("md0", leaf=False, slaves=("sda", "sdb"), holders=("dm-1",), md=MD),
        "dm-0": device("dm-0", leaf=False, slaves=("sdc",)),
        "dm-1": device("dm-1", leaf=False, slaves=("md0",)),
    },
    ("sda", "sdb", "sdc", "sdd"),
)
BEHIND = PollResult(
    AccessMethod("/dev/bus/2", "megaraid,4", "", "host2", "megaraid_sas"),
    ReadStatus.READ,
    drive=Drive(Protocol.SCSI, rotation_rpm=7200),
)
DISKS = Disks(
    {
        "A": disk("A", "sda"),
        "B": disk("B", "sdb", status=ReadStatus.ASLEEP),
        "C": disk("C", "sdc", Drive(Protocol.ATA, rotation_rpm=0, self_test_remaining_ratio=0.4)),
        "D": Disk("D", BEHIND),
        "E": disk("E", "sde", status=ReadStatus.HUNG, reason="smartctl hangs"),
        "F": disk("F", "vda", status=ReadStatus.NO_SMART, reason="a virtual disk"),
    }
)
RESYNC = MdArray("md0", "raid1", "clean", 2, 0, "resync", 0.5, None, None, None, None, ())


def test_what_speaks_against_testing_a_disk_follows_from_what_is_known() -> None:
    """Members of an array and a RAID controller, asleep, being tested, hanging; none virtual."""
    busy = {"sda": 0.2, "sdd": 0.7}
    found = {c.disk: c for c in selftest_schedule.candidates(DISKS, TOPOLOGY, {}, busy, None)}
    assert {"array md0"} <= found["A"].shares == found["B"].shares
    assert found["C"].shares == frozenset()
    assert found["D"].shares == {"controller host2"}
    assert {name: c.against for name, c in found.items()} == {
        "A": "",
        "B": "it is asleep, and is not woken up for a self-test",
        "C": "",
        "D": "sdd is 70 % busy",
        "E": "its SMART data are unreadable: smartctl hangs",
    }
    assert [name for name, c in found.items() if c.running] == ["C"]
    assert found["A"].classes == found["D"].classes == {"rotational"}
    assert found["C"].classes == {"solid-state"}


def test_an_array_that_is_synchronised_is_left_alone() -> None:
    """Also for a user, with the reason; one that is idle or frozen is no obstacle."""
    for action, against in (("resync", "md0 is in resync"), ("idle", ""), ("frozen", "")):
        arrays = {"md0": replace(RESYNC, sync_action=action)}
        found = selftest_schedule.candidates(DISKS, TOPOLOGY, arrays, {}, None)
        assert found[0].against == against
        assert selftest_schedule.blocked_by(found[0], found, {}) == against


RESILVER = "resilver in progress since Sun Nov 29 03:12:20 2026"
POOL = """\
  pool: tank
 state: ONLINE
  scan: {scan}
config:

\tNAME            STATE     READ WRITE CKSUM  SLOW
\ttank            ONLINE       0     0     0     -
\t  mirror-0      ONLINE       0     0     0     -
\t    /dev/sda1   ONLINE       0     0     0     0
\t    spare-1     ONLINE       0     0     0     -
\t      /dev/sdb1 ONLINE       0     0     0     0
\t      /dev/sdd1 ONLINE       0     0     0     0
\t  mirror-1      ONLINE       0     0     0     -
\t    /dev/sdc1   ONLINE       0     0     0     0
\t    /dev/sde1   ONLINE       0     0     0     0
cache
\t  /dev/sdf1     ONLINE       0     0     0     0

errors: No known data errors
"""
IN_POOL = {name: device(name, partitions=(f"{name}1",)) for name in map("sd{}".format, "abcdef")}
LABELS = {f"{name}1": BlockSignature("zfs_member", "tank") for name in IN_POOL}


def shares(pools: dict[str, PoolDevices]) -> list[set[str]]:
    """Return with what each of six disks of a pool must not be tested together."""
    disks = Disks({name: disk(name, name) for name in IN_POOL})
    topology = Topology(IN_POOL, tuple(IN_POOL), signatures=LABELS)
    found = selftest_schedule.candidates(disks, topology, {}, {}, pools)
    return [set(each.shares) for each in found]


def test_disks_of_a_controller_leave_what_stands_on_its_volumes_alone() -> None:
    """Of its volumes an array is made that resynchronises, or a pool that resilvers."""
    volumes = {"sdd": ("md1",), "sde": ("md1",)}
    devices = {name: device(name, host="host2", holders=of) for name, of in volumes.items()}
    devices["md1"] = device("md1", leaf=False, slaves=("sdd", "sde"), md=MD)
    topology = Topology(devices, ("sdd", "sde"))
    arrays = {"md1": replace(RESYNC, name="md1")}
    disks = Disks({"D": Disk("D", BEHIND)})
    (found,) = selftest_schedule.candidates(disks, topology, arrays, {}, None)
    assert found.against == "md1 is in resync"
    assert found.shares == {"controller host2", "array md1"}
    devices = {name: device(name, host="host2", partitions=(f"{name}1",)) for name in volumes}
    labels = {f"{name}1": BlockSignature("zfs_member", "tank") for name in volumes}
    pools = {"tank": PoolDevices(parse_pool("tank", POOL.format(scan=RESILVER)))}
    topology = Topology(devices, ("sdd", "sde"), signatures=labels)
    (found,) = selftest_schedule.candidates(disks, topology, {}, {}, pools)
    assert found.against == "pool tank is in resilver"
    assert {"controller host2", "pool tank mirror-0", "pool tank mirror-1"} == found.shares


def test_disks_of_one_vdev_are_never_tested_together_and_those_of_two_are() -> None:
    """Each mirror may lose one; the disk and its spare are in the same one; a cache is in none."""
    pools = {"tank": PoolDevices(parse_pool("tank", POOL.format(scan="none requested")))}
    first, second = {"pool tank mirror-0"}, {"pool tank mirror-1"}
    assert shares(pools) == [first, first, second, first, second, set()]


def test_disks_of_a_pool_whose_vdevs_are_not_known_are_tested_one_at_a_time() -> None:
    """'zpool status' hangs: which of them are in one vdev cannot be told."""
    assert shares({"tank": PoolDevices(reason="it hangs")}) == [{"pool tank"}] * 6


def test_members_of_a_btrfs_of_several_devices_are_tested_one_at_a_time() -> None:
    """sdc is one of its own."""
    disks = Disks({name: disk(name, name) for name in ("sda", "sdb", "sdc")})
    pair = FileSystem("uuid-1", ("sda1", "sdb1"), 2)
    systems = {"sda1": pair, "sdb1": pair, "sdc1": FileSystem("uuid-2", ("sdc1",), 1)}
    topology = Topology(IN_POOL, tuple(IN_POOL), btrfs=systems)
    found = selftest_schedule.candidates(disks, topology, {}, {}, None)
    assert [set(each.shares) for each in found] == [{"btrfs uuid-1"}, {"btrfs uuid-1"}, set()]


@pytest.mark.parametrize(
    ("scan", "against"),
    [
        (RESILVER, "pool tank is in resilver"),
        ("scrub in progress since Sun Nov 29 03:12:20 2026", "pool tank is in scrub"),
        ("scrub paused since Sun Nov 29 03:12:20 2026", ""),
        ("resilvered 1G in 00:11:04 with 0 errors on Mon Nov 23 03:12:20 2026", ""),
    ],
)
def test_a_pool_that_resilvers_is_left_alone(scan: str, against: str) -> None:
    """As an array is that synchronizes."""
    pools = {"tank": PoolDevices(parse_pool("tank", POOL.format(scan=scan)))}
    disks = Disks({"sda": disk("sda", "sda")})
    topology = Topology(IN_POOL, tuple(IN_POOL), signatures=LABELS)
    (found,) = selftest_schedule.candidates(disks, topology, {}, {}, pools)
    assert found.against == against


def test_before_it_is_known_how_busy_disks_are_none_is_tested() -> None:
    """Right after the start."""
    (first, *_) = selftest_schedule.candidates(DISKS, TOPOLOGY, {}, None, None)
    assert first.against == "its load is not known yet"


# --- results

OLD = SelfTest("short", "Completed without error", passed=True, hours=100)


def follow(
    *entries: SelfTest, before: tuple[SelfTest, ...] = (OLD,), read: float = 60.0, **changes: object
) -> SelfTestRun:
    """What becomes of a long test begun at 0 when the drive's log has these entries."""
    drive = Drive(Protocol.ATA, self_tests=before, self_test_minutes={"long": 60})
    run = selftest_schedule.begun(selftest_schedule.requested(None, 0.0, ""), "long", drive, 0.0)
    drive = replace(drive, self_tests=entries, **changes)  # type: ignore[arg-type]
    return selftest_schedule.follow(run, "long", disk("A", "sda", drive, read_seconds=read), read)


def test_what_the_log_has_anew_is_the_result() -> None:
    """Passed, failed with its sector, reset; while it runs nothing; the old entry is no news."""
    for status, passed, lba, outcome in (
        ("Completed without error", True, None, SelfTestState.PASSED),
        ("Completed: read failure", False, 4711, SelfTestState.FAILED),
        ("Interrupted (host reset)", None, None, SelfTestState.INTERRUPTED),
    ):
        run = follow(SelfTest("extended", status, passed, 101, lba), OLD)
        assert (run.outcome, run.lba, run.text) == (outcome, lba, status)
        assert run.passed_seconds == (60.0 if passed else None)
    assert follow(OLD).outcome is SelfTestState.RUNNING
    running = SelfTest("extended", "Self-test routine in progress", passed=None)
    assert follow(running, OLD, self_test_remaining_ratio=0.9).outcome is SelfTestState.RUNNING
    assert follow(SelfTest("extended", "Completed", passed=True), OLD, read=-1.0).outcome is (
        SelfTestState.RUNNING
    )


def test_a_result_equal_to_the_one_before_counts() -> None:
    """Two tests in one hour of the drive's clock: the log is longer by one."""
    same = SelfTest("extended", "Completed without error", passed=True, hours=100)
    assert follow(same, OLD, before=(same, OLD)).outcome is SelfTestState.RUNNING
    assert follow(same, same, OLD, before=(same, OLD)).outcome is SelfTestState.PASSED


def test_a_test_of_another_kind_in_the_log_is_not_the_result() -> None:
    """A short one was started by hand; that it ended ours is seen when ours has no result."""
    other = SelfTest("short", "Completed without error", passed=True, hours=101)
    assert follow(other, OLD).outcome is SelfTestState.RUNNING
    late = 2 * 3600 + selftest_schedule.SETTLE_SECONDS + 1
    assert follow(other, OLD, read=late).outcome is SelfTestState.UNKNOWN
    run = SelfTestRun(0.0, SelfTestState.RUNNING, 0.0)
    assert selftest_schedule.follow(run, "long", None, DAY).outcome is SelfTestState.RUNNING
    assert selftest_schedule.follow(run, "long", None, 4 * DAY).outcome is SelfTestState.UNKNOWN


@pytest.mark.parametrize(
    ("status", "seconds", "outcome"),
    [
        (OfflineCollection.COMPLETED, 599.0, SelfTestState.RUNNING),
        (OfflineCollection.COMPLETED, 600.0, SelfTestState.PASSED),
        (OfflineCollection.RUNNING, 700.0, SelfTestState.RUNNING),
        (OfflineCollection.SUSPENDED, 700.0, SelfTestState.RUNNING),
        (OfflineCollection.SUSPENDED, 3 * HOUR, SelfTestState.UNKNOWN),
        (OfflineCollection.ABORTED, 60.0, SelfTestState.INTERRUPTED),
        (OfflineCollection.FAILED, 60.0, SelfTestState.FAILED),
        (OfflineCollection.NEVER_STARTED, 700.0, SelfTestState.RUNNING),
    ],
)
def test_offline_data_collection_is_in_no_log(
    status: OfflineCollection, seconds: float, outcome: SelfTestState
) -> None:
    """Its own status shows the result; 'completed' may be that of the one before."""
    drive = Drive(Protocol.ATA, self_tests=(OLD,), self_test_minutes={"offline": 10})
    run = selftest_schedule.requested(None, 0.0, "")
    run = selftest_schedule.begun(run, "offline", drive, 0.0)
    read = disk("A", "sda", replace(drive, offline_collection=status), read_seconds=seconds)
    after = selftest_schedule.follow(run, "offline", read, seconds)
    assert after.outcome is outcome
    other = selftest_schedule.begun(replace(run, outcome=SelfTestState.STARTING), "long", drive, 0)
    assert selftest_schedule.follow(other, "long", read, seconds).outcome is SelfTestState.RUNNING


def test_offline_data_collection_is_only_for_drives_that_report_it() -> None:
    """A SCSI disk would run another test, in the foreground."""
    one = Candidate("A")
    assert selftest_schedule.supported(one) == ("short", "long", "conveyance")
    assert selftest_schedule.supported(replace(one, kinds=("offline",))) == ("offline",)


def test_how_long_it_takes_yet_is_by_the_drive() -> None:
    """By the clock, and by the drive's progress where it is slower than it reported."""
    run = SelfTestRun(0.0, SelfTestState.RUNNING, 0.0, minutes=100)
    drive = Drive(Protocol.ATA, self_test_remaining_ratio=0.5)
    assert selftest_schedule.remaining_seconds(run, None, 600.0) == 5400.0
    assert selftest_schedule.remaining_seconds(run, drive, 3000.0) == 3000.0
    assert selftest_schedule.remaining_seconds(run, drive, 6000.0) == pytest.approx(2400.0)
    assert selftest_schedule.remaining_seconds(run, drive, 600.0) == 3000.0
    assert selftest_schedule.remaining_seconds(replace(run, minutes=None), drive, 1.0) is None


def test_the_series_report_what_runs_waits_and_is_refused() -> None:
    """One disk of each; a test requested by a user and refused is not reported later."""
    runs: Runs = {
        "S1": {"long": SelfTestRun(0.0, SelfTestState.RUNNING, SUNDAY, passed_seconds=SATURDAY)},
        "S2": {"long": SelfTestRun(0.0, SelfTestState.REFUSED, SUNDAY)},
        "S3": {"long": SelfTestRun(0.0, SelfTestState.REFUSED, SUNDAY, who="alice")},
        "S4": {"long": SelfTestRun(SATURDAY)},
        "S5": {"long": SelfTestRun(SATURDAY, SelfTestState.RUNNING)},
    }
    found = [Candidate(f"S{n}", against="sda is 90% busy") for n in range(1, 5)]
    due = selftest_schedule.plan((WEEKLY,), found, runs, SUNDAY + DAY, BERLIN)
    told = selftest_schedule.samples(runs, due, (WEEKLY,), found, SUNDAY + DAY, ahead_seconds=5.0)
    name = "iowarden_smart_self_test"
    values = {
        (metric.removeprefix(f"{name}_"), dict(labels)["disk"]): v for metric, labels, v in told
    }
    assert values == {
        ("running", "S1"): 1.0,
        ("refused", "S2"): 1.0,
        ("overdue_seconds", "S1"): 0.0,
        ("overdue_seconds", "S2"): 0.0,
        ("overdue_seconds", "S3"): 0.0,
        ("overdue_seconds", "S4"): DAY,
        ("last_start_timestamp_seconds", "S1"): SUNDAY + 5,
        ("last_start_timestamp_seconds", "S2"): SUNDAY + 5,
        ("last_start_timestamp_seconds", "S3"): SUNDAY + 5,
        ("last_passed_timestamp_seconds", "S1"): SATURDAY + 5,
    }
    assert {metric for metric, _, _ in told} == {f.name for f in selftest_schedule.FAMILIES}


def line(name: str, at: float, disk: str = "A", subject: str = "disk A") -> IncidentMember:
    """What an incident has of a line of the kernel's log."""
    labels = (("alertname", name), ("disk", disk)) if disk else (("alertname", name),)
    return IncidentMember(
        labels, name, Severity.WARNING, AlertState.FIRING, at, "", "", "", subject=subject, count=1
    )


def test_what_a_disk_reports_during_a_self_test_that_we_began_is_reported_to_be_of_it() -> None:
    """A reset and an unreadable sector in the middle of the long test; one line before it."""
    run = SelfTestRun(0.0, SelfTestState.RUNNING, SATURDAY)
    runs = {"A": {"long": run}}
    members = [
        line("ata_timeout", SATURDAY - 1.0),
        line("block_medium_error", SATURDAY + 60.0),
        line("DeviceHang", SATURDAY + 90.0, disk=""),  # the rule has only the object's identity
        line("block_medium_error", SATURDAY + 60.0, "B", "disk B"),
    ]

    def seen(runs: Runs, *own: IncidentMember) -> tuple[str, ...]:
        return selftest_schedule.seen_during(
            runs, own, SATURDAY + 120.0, lambda at: f"{at - SATURDAY:.0f} s"
        )

    (said,) = seen(runs, *members)
    assert said == (
        "seen during the long self-test that iowarden began at 0 s and that still runs:"
        " block_medium_error, DeviceHang"
    )
    over = replace(run, outcome=SelfTestState.FAILED, ended_seconds=SATURDAY + 70.0)
    (said,) = seen({"A": {"long": over}}, *members)
    assert said == (
        "seen during the long self-test that iowarden began at 0 s and that ended by 70 s:"
        " block_medium_error"
    )
    never = replace(run, outcome=SelfTestState.REFUSED, begun_seconds=None)
    assert seen({"A": {"long": never}}, *members) == ()
