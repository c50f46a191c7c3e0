"""Counters of a drive that contradict its own log, or stand still while the disk is in use."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.machine import block
from support.rack import HOUR, POLL, Rack, ata, attribute

from iowarden.collectors.smart.drive import (
    AccessMethod,
    Disk,
    Disks,
    Drive,
    ErrorCounter,
    NvmeHealth,
    PollResult,
    Protocol,
    ReadStatus,
    ScsiHealth,
    SelfTest,
)
from iowarden.rules.signals.signal import Inputs, View
from iowarden.rules.signals.smart import counters, smart
from iowarden.rules.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

START = 1_790_000_000.0
GIB = 2**30
FAMILY = "iowarden_smart_counters_implausible"


def with_tests(hours: int | None, *tests: tuple[int, bool | None], **fields: object) -> Drive:
    """Return a drive with this power-on time, and tests: their hours and whether they passed."""
    log = tuple(SelfTest("short", "", passed, at) for at, passed in tests)
    return ata("A", self_tests=log, power_on_hours=hours, **fields)


# --- hours beside the self-test log


@pytest.mark.parametrize(
    ("hours", "tests", "later"),
    [
        (0, [(30_553, True), (30_551, True)], 30_553),
        (12, [(12, True), (30_553, False)], 30_553),
        (20_000, [(20_169, True)], 20_169),
        # Rounding; the present test; a new drive; a drive without hours.
        (20_000, [(20_168, True)], None),
        (20_000, [(19_999, True)], None),
        (0, [(0, True)], None),
        (None, [(30_553, True)], None),
        (20_000, [], None),
        # Hours of 16 bits: of the log alone, and of the drive as well.
        (70_000, [(4_464, True), (65_400, True)], None),
        (300, [(65_400, True)], None),
        (9_000, [(65_400, True)], 65_400),
        # No result, the largest time that the log has, and no time at all.
        (0, [(30_553, None)], None),
        (0, [(0xFFFF, True)], None),
        (0, [(2**64 - 1, True)], None),
    ],
)
def test_a_drive_cannot_be_younger_than_its_self_tests(
    hours: int | None, tests: list[tuple[int, bool | None]], later: int | None
) -> None:
    """The latest test counts: a drive whose hours were reset may have been tested since."""
    assert counters.later_test_hours(with_tests(hours, *tests)) == later


def test_hours_that_were_lost_are_one_notice(rack: Rack) -> None:
    """Also when the drive counts on from 0; its health status is still used."""
    for hour in range(6):
        drive = with_tests(hour, (30_553, True), passed=False)
        rack.poll(drive, every=HOUR)
    assert rack.firing() == {("SmartCountersImplausible", "notice"), ("DiskFailing", "critical")}
    (alert,) = (a for a in rack.engine.rules.alerts() if a.name == "SmartCountersImplausible")
    assert "30,553 h" in alert.summary


@pytest.fixture
def rack() -> Rack:
    """Return a machine with disks."""
    return Rack()


def test_hours_of_16_bits_that_pass_their_end_are_no_contradiction(rack: Rack) -> None:
    """65,535 and then 0 is seven and a half years; 20,000 and then 0 is another matter."""
    checksum = ("Warning! SMART Attribute Data Structure error: invalid SMART checksum.",)
    for hours in (65_534, 65_535, 0, 1):
        rack.poll(ata("A", power_on_hours=hours, messages=checksum), every=HOUR)
    assert not any(name == "SmartImplausible" for name, _, _ in rack.fired)
    rack.poll(ata("A", power_on_hours=20_000, messages=checksum))
    rack.poll(ata("A", power_on_hours=0, messages=checksum))
    assert ("SmartImplausible", "notice", "A") in rack.fired


# --- counters that stand still


def nvme(hours: int, written: float) -> Drive:
    """Return an NVMe drive that counted this."""
    return Drive(
        Protocol.NVME,
        serial="A",
        power_on_hours=hours,
        nvme=NvmeHealth(read_bytes_total=5e12, written_bytes_total=written),
    )


def sas(hours: int, written: float) -> Drive:
    """Return a SAS drive that counted this."""
    rows = {"read": ErrorCounter(0, 0, 5e12), "write": ErrorCounter(0, 0, written)}
    return Drive(Protocol.SCSI, serial="A", power_on_hours=hours, scsi=ScsiHealth(rows))


def sata(hours: int, written: float) -> Drive:
    """Return a SATA drive with the number of a vendor's attribute."""
    row = attribute(246, int(written), name="Total_LBAs_Written")
    return ata("A", attributes=(row,), power_on_hours=hours)


def statistics(hours: int, written: float) -> Drive:
    """Return a SATA drive with device statistics."""
    return ata("A", transferred_sectors_total=int(written), power_on_hours=hours)


def reports(polls: Iterable[tuple[Drive, float]], every: float = POLL) -> list[bool]:
    """Return after each poll whether counters are reported; with the kernel's bytes at the poll."""
    state, reported = smart.EMPTY, []
    for number, (drive, traffic) in enumerate(polls):
        now = START + number * every
        target = AccessMethod("/dev/sda", device="sda")
        poll = PollResult(target, ReadStatus.READ, drive=drive, read_seconds=now)
        snapshot = Snapshot(
            smart=Disks({"A": Disk("A", poll, device="sda")}),
            diskstats={"sda": block("sda", written=int(traffic))},
        )
        # A restart between two polls changes nothing.
        state = smart.recall(smart.EMPTY, smart.remember(state))
        inputs = Inputs(now, 1e6, snapshot, frozenset({"smart", "diskstats"}))
        state, samples = smart.step(state, View(inputs, None))
        reported.append(any(name == FAMILY for name, _, _ in samples or ()))
    return reported


@pytest.mark.parametrize("make", [nvme, sas, sata, statistics])
def test_counters_that_stand_still_while_the_disk_is_in_use_are_reported(
    make: Callable[[int, float], Drive],
) -> None:
    """After six hours, and once both polls around the kernel's count agree."""
    frozen = reports((make(9000, 2e12), GIB * number / 4) for number in range(16))
    assert frozen == [number >= 12 for number in range(16)]


def test_an_attribute_that_counts_gib_may_stand_still_for_longer() -> None:
    """1 GiB may be half read and half written, and so in neither count."""
    row = attribute(241, 900, name="Lifetime_Writes_GiB")
    drive = ata("A", attributes=(row,), power_on_hours=9000)
    assert not any(reports((drive, GIB * number) for number in range(20)))
    assert reports((drive, 20 * GIB * number) for number in range(20))[-1]


@pytest.mark.parametrize(
    "polls",
    [
        # The hours increase, the amount does; the disk is idle, asleep, or just used.
        [(nvme(9000 + number // 2, 2e12), GIB * number) for number in range(20)],
        [(nvme(9000, 2e12 + number * 512_000), GIB * number) for number in range(20)],
        [(nvme(9000, 2e12), GIB * number / 20) for number in range(20)],
        [(nvme(9000, 2e12), 90 * GIB) for number in range(20)],
        [(nvme(9000, 2e12), 90 * GIB * (number == 19)) for number in range(20)],
        # A restart of the host, after which the kernel counts from 0.
        [(nvme(9000, 2e12), GIB * (number % 4) / 4) for number in range(20)],
        # Nothing that must move is counted: no amount, no hours, an amount that was never counted.
        [(ata("A"), GIB * number) for number in range(20)],
        [(replace(nvme(9000, 2e12), power_on_hours=None), GIB * number) for number in range(20)],
        [(sas(9000, -5e12), GIB * number) for number in range(20)],
        # A hypervisor's disk.
        [
            (replace(nvme(9000, 2e12), model="Amazon Elastic Block Store"), GIB * number)
            for number in range(20)
        ],
    ],
)
def test_counters_that_may_stand_still_are_not_reported(polls: list[tuple[Drive, float]]) -> None:
    """A drive that sleeps, an idle disk, and counters that are not there."""
    assert not any(reports(polls))
