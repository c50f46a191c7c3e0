"""When a disk was last read completely, from what reads it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.block.block_devices import Device, Md, topology
from iowarden.collectors.block.udev import BlockSignature
from iowarden.collectors.filesystem.btrfs_owner import FileSystem
from iowarden.collectors.filesystem.btrfs_scrub import BtrfsScrub
from iowarden.collectors.md.mdstat import ArrayMember, MdArray
from iowarden.collectors.smart.drive import (
    AccessMethod,
    Disk,
    Disks,
    Drive,
    PollResult,
    Protocol,
    ReadStatus,
    SelfTest,
)
from iowarden.rules.scan import last_read
from iowarden.rules.scan.last_read import FullRead, full_reads, newest
from iowarden.rules.scan.plan import Scan
from iowarden.rules.selftest_schedule import SelfTestRun, SelfTestState
from iowarden.rules.signals.raid import md_state
from iowarden.rules.snapshot import Snapshot

if TYPE_CHECKING:
    from iowarden.rules.scan.last_read import FullReads

NOW, HOUR = 1_000_000.0, 3600.0
SDA = Device(
    "sda", "8:0", (), ("md0",), ("sda1",), True, 10**12, True, "M", "V", "S1", None, 30.0,
    "host0", None, None, uses=(("sda1", "md0"),),
)  # fmt: skip
MD0 = replace(
    SDA, name="md0", slaves=("sda",), holders=(), partitions=(), leaf=False, uses=(),
    md=Md("raid1", 2, 0, 2, None),
)  # fmt: skip
MEMBERS = (ArrayMember("sda1", 0, ("in_sync",)), ArrayMember("sdb1", None, ("spare",)))
ARRAY = MdArray("md0", "raid1", "clean", 2, 0, "idle", None, None, 0, None, 10**12, MEMBERS)
EXTENDED = SelfTest("extended", "Completed without error", passed=True, hours=900)


def disk(*tests: SelfTest, protocol: Protocol = Protocol.ATA) -> Disk:
    """A drive with 1,000 power-on hours, polled now."""
    drive = Drive(protocol, power_on_hours=1000, self_tests=tests)
    target = AccessMethod("/dev/sda", device="sda")
    return Disk("S1", PollResult(target, ReadStatus.READ, "", NOW, drive, NOW), device="sda")


def machine(own: Disk, *devices: Device) -> Snapshot:
    """A machine with this disk."""
    found = topology({each.name: each for each in devices or (SDA, MD0)}, {"8:1": "sda1"})
    return Snapshot(smart=Disks({"S1": own}), block=found, md={"md0": ARRAY})


def reads(own: Disk, scan: Scan | None = None, **checks: float) -> FullReads:
    """The result for a disk."""
    scans = {} if scan is None else {"S1": scan}
    return full_reads(machine(own), scans, {}, checks, {}, {})


def test_the_newest_of_scan_self_test_and_check_counts() -> None:
    """Each has its series; the newest one is shown."""
    found = reads(disk(EXTENDED), Scan(0.0, completed_seconds=NOW - 200 * HOUR), md0=NOW - HOUR)
    assert found["S1"] == {
        FullRead.SCAN: NOW - 200 * HOUR,
        FullRead.SELF_TEST: NOW - 100 * HOUR,
        FullRead.MD_CHECK: NOW - HOUR,
    }
    assert newest(found, "S1") == (NOW - HOUR, FullRead.MD_CHECK)
    assert newest(found, "S2") is None


@pytest.mark.parametrize(
    "test",
    [
        replace(EXTENDED, passed=False),
        replace(EXTENDED, passed=None),
        replace(EXTENDED, kind="short"),
        replace(EXTENDED, hours=None),
    ],
)
def test_a_self_test_that_did_not_read_the_whole_disk_does_not_count(test: SelfTest) -> None:
    """Failed, interrupted, short, or of an unknown time."""
    assert reads(disk(test)) == {}


def test_an_extended_test_of_an_nvme_drive_does_not_count() -> None:
    """It need not read every block."""
    assert reads(disk(EXTENDED, protocol=Protocol.NVME)) == {}


def test_a_test_that_iowarden_started_has_its_exact_time() -> None:
    """Later than what whole power-on hours say, or the same."""
    run = SelfTestRun(0.0, SelfTestState.PASSED, passed_seconds=NOW - 50.0)
    found = full_reads(machine(disk(EXTENDED)), {}, {"S1": {"long": run}}, {}, {}, {})
    assert found["S1"] == {FullRead.SELF_TEST: NOW - 50.0}


def test_power_on_hours_do_not_move_the_time_of_a_test() -> None:
    """Half an hour later the drive's hours are the same: the time stays that of the first poll."""
    before = reads(disk(EXTENDED))
    later = disk(EXTENDED)
    later = replace(later, polled=replace(later.polled, read_seconds=NOW + 1800.0))
    assert full_reads(machine(later), {}, {}, {}, before, {}) == before
    newer = disk(replace(EXTENDED, hours=999))
    assert (
        full_reads(machine(newer), {}, {}, {}, before, {})["S1"][FullRead.SELF_TEST] == NOW - HOUR
    )


def test_a_check_reads_the_members_in_use_and_not_the_spare() -> None:
    """A spare is read when it is needed, and then it is too late."""
    sdb = replace(SDA, name="sdb", device_number="8:16", partitions=("sdb1",), serial="S2")
    own = disk()
    last = machine(own, SDA, sdb, MD0)
    spare = replace(own, key="S2", device="sdb")
    last = replace(last, smart=Disks({"S1": own, "S2": spare}))
    assert full_reads(last, {}, {}, {"md0": NOW}, {}, {}).keys() == {"S1"}


@pytest.mark.parametrize(
    ("action", "ratio", "expected"),
    [
        ("check", 0.97, {"md0": 20.0}),
        ("check", 0.4, {}),
        ("repair", 0.97, {}),
        ("resync", 0.97, {}),
    ],
)
def test_only_a_check_that_was_seen_near_its_end_is_complete(
    action: str, ratio: float, expected: dict[str, float]
) -> None:
    """One that was interrupted, or that only iowarden's first look dates, has read nothing."""
    kept: dict[str, tuple[tuple[float, float], ...]] = {}
    running = replace(ARRAY, sync_action=action, sync_done_ratio=ratio)
    for array, now in ((ARRAY, 1.0), (running, 10.0), (ARRAY, 20.0)):
        assert list(md_state._checked(kept, array, (("device", "md0"),), now))
    assert md_state.complete_checks(kept) == expected


def btrfs(scrub: BtrfsScrub) -> Snapshot:
    """A machine whose disk has a partition with a mounted btrfs."""
    plain = machine(disk(), replace(SDA, holders=(), uses=()))
    assert plain.block is not None
    block = replace(plain.block, btrfs={"sda1": FileSystem("u1", ("sda1",))})
    return replace(plain, block=block, btrfs_scrub={"/srv": scrub})


def test_a_scrub_of_btrfs_counts_at_its_end_in_the_zone_of_the_host() -> None:
    """14:00 in a zone two hours ahead is 12:00 UTC, on a clock that began an hour before that."""
    last = btrfs(BtrfsScrub("u1", datetime(2026, 11, 23, 14, 0, 0)))  # noqa: DTZ001
    noon = 1_795_435_200.0
    ends = last_read.scrub_ends(last, timezone(timedelta(hours=2)), noon - HOUR)
    assert ends == {"u1": HOUR}
    found = full_reads(last, {}, {}, {}, {}, ends)
    assert found == {"S1": {FullRead.SCRUB: HOUR}}
    assert values(last, Scan(NOW - HOUR)) == {"iowarden_disk_full_read_age_seconds": HOUR}


@pytest.mark.parametrize(
    ("scrub", "counted"),
    [
        (BtrfsScrub("u1", never=True), True),
        (BtrfsScrub("u1"), False),
        (BtrfsScrub(reason="no answer for 20 s"), False),
        (BtrfsScrub("u2", never=True), False),
    ],
)
def test_a_btrfs_that_was_never_scrubbed_is_unread_and_one_being_scrubbed_is_unknown(
    scrub: BtrfsScrub, *, counted: bool
) -> None:
    """A running or interrupted scrub has replaced the record: what was known before stays."""
    last = btrfs(scrub)
    assert bool(values(last, Scan(NOW - HOUR))) is counted
    before: FullReads = {"S1": {FullRead.SCRUB: NOW - HOUR}}
    assert full_reads(last, {}, {}, {}, before, {}) == before


def values(last: Snapshot, scan: Scan) -> dict[str, float]:
    """The samples without a read."""
    found = last_read.samples({}, last, {"S1": scan}, NOW, ahead_seconds=0.0)
    return {name: value for name, _, value in found}


def test_unread_is_said_only_where_reads_are_known() -> None:
    """Since it was first seen; not of ZFS or a controller, nor if it is never idle enough."""
    scan, unread = Scan(NOW - 86_400.0), {"iowarden_disk_full_read_age_seconds": 86_400.0}
    own = disk()
    assert values(machine(own), scan) == unread
    assert values(machine(own), replace(scan, too_slow=True)) == {}
    alone = replace(SDA, holders=(), uses=())
    plain = machine(own, alone)
    assert values(plain, scan) == unread
    # Its scan is refused, and its self-test need not read everything.
    assert values(machine(own, replace(alone, slaves=("nvme0c0n1",), leaf=False)), scan) == {}
    assert plain.block is not None
    for kind, expected in (("zfs_member", {}), ("btrfs", {}), ("linux_raid_member", unread)):
        block = replace(plain.block, signatures={"sda1": BlockSignature(kind, "tank")})
        assert values(replace(plain, block=block), scan) == expected
    virtual = replace(own, polled=replace(own.polled, status=ReadStatus.NO_SMART))
    assert values(machine(virtual), scan) == {}
    hidden = replace(own.polled, target=AccessMethod("/dev/bus/0", "megaraid,3"))
    assert values(machine(replace(own, polled=hidden)), scan) == {}
