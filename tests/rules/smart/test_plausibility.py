"""Whether the SMART data of a disk are plausible."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.machine import disk as block_device
from support.rack import Rack, ata, attribute

from iowarden.collectors.smart.drive import (
    AccessMethod,
    Disk,
    Drive,
    ErrorCounter,
    PollResult,
    Protocol,
    ReadStatus,
    ScsiHealth,
)
from iowarden.rules.smart import plausibility
from iowarden.rules.smart.plausibility import Surroundings

VOLUME = AccessMethod("/dev/sda", device="sda", driver="arcmsr")
NOTHING = {kind: ErrorCounter(0, 0, 0.0) for kind in ("read", "write")}
BOGUS = Drive(
    Protocol.SCSI,
    model="WDC WD1600AAJS-00WAA",
    serial="WD-1",
    transport="Fibre channel (FCP-2)",
    passed=True,
    temperature_celsius=30.0,
    reported_trip_celsius=25.0,
    scsi=ScsiHealth(
        NOTHING,
        grown_defects=0,
        manufactured_year="2002",
        specified_start_stop_cycles=4_278_190_080,
        start_stop_cycles=256,
    ),
    refused=("Device does not support Self Test logging",),
)
"""The volume of an observed incident, with the drive's own data."""
SMALLER = replace(block_device("sda"), size_bytes=10**12)
GENUINE = Drive(
    Protocol.SCSI,
    vendor="SEAGATE",
    model="ST4000NM0023",
    serial="SAS1",
    transport="SAS (SPL-3)",
    passed=True,
    temperature_celsius=30.0,
    reported_trip_celsius=65.0,
    scsi=ScsiHealth(
        {kind: ErrorCounter(12, 0, 3e14) for kind in ("read", "write")},
        manufactured_year="2019",
        specified_start_stop_cycles=50_000,
        start_stop_cycles=220,
    ),
)


def doubts(
    drive: Drive,
    target: AccessMethod = VOLUME,
    **around: Any,  # noqa: ANN401 - as Surroundings takes them
) -> list[tuple[int, str]]:
    """Return points and texts of implausible data."""
    disk = Disk(drive.serial, PollResult(target, ReadStatus.READ, drive=drive))
    found = plausibility.implausibilities(disk, drive, Surroundings(**{"year": 2026, **around}))
    return [(doubt.points, doubt.text) for doubt in found]


def test_the_sample_of_the_incident_is_wrong_in_three_hard_and_six_soft_ways() -> None:
    """Traffic, logged errors and temperature contradict its data; so do all soft tests."""
    found = doubts(BOGUS, traffic_bytes=41e9, errors_logged=7.0)
    hard = [text for points, text in found if points == plausibility.HARD]
    assert hard == [
        "it counts 0 bytes, the kernel 38.2 GiB since boot",
        "it counts no error, 7 medium errors are logged",
        "healthy at 30 C, above its trip temperature of 25 C",
    ]
    assert [text for points, text in found if points == plausibility.SOFT] == [
        "made for 4278190080 start-stop cycles",
        "256 start-stop cycles, which is 1 in the wrong byte",
        "made in 2002, and there was no WDC WD1600AAJS-00WAA before 2006",
        "an ATA drive (WDC WD1600AAJS-00WAA) on 'Fibre channel (FCP-2)'",
        "no self-test log and no self-tests",
        "the controller (arcmsr) hides its disks",
    ]


def test_a_genuine_sas_drive_is_plausible_whatever_the_kernel_reports() -> None:
    """Trip 65, 30 C now, 50000 cycles; behind a RAID controller that passes commands."""
    behind = AccessMethod("/dev/bus/0", "megaraid,4", driver="megaraid_sas")
    assert doubts(GENUINE, behind, traffic_bytes=41e12, errors_logged=3.0) == []


@pytest.mark.parametrize("trip", [0.0, None])
def test_no_trip_temperature_is_common_on_real_drives(trip: float | None) -> None:
    """0 or absent is no contradiction."""
    assert doubts(replace(GENUINE, reported_trip_celsius=trip), AccessMethod("/dev/sda")) == []


def test_a_drive_that_is_too_hot_and_reports_that_is_believed() -> None:
    """Above its trip temperature and failing: no contradiction."""
    hot = replace(GENUINE, temperature_celsius=70.0, passed=False)
    assert doubts(hot, AccessMethod("/dev/sda")) == []


def test_a_drive_that_is_too_hot_and_calls_itself_well_is_reported_as_hot() -> None:
    """It was not set to warn (EWASC 0): at 71 C with a trip of 65 the heat is reported."""
    hot = replace(GENUINE, temperature_celsius=71.0, temperature_limit_celsius=65.0)
    assert [points for points, _ in doubts(hot, AccessMethod("/dev/sda"))] == [plausibility.SOFT]
    rack = Rack()
    rack.poll(hot, times=3)
    assert ("DiskTemperatureHigh", "critical") in rack.firing()


def test_a_fresh_boot_proves_nothing_about_traffic() -> None:
    """Less than 1 GB was read and written."""
    quiet = replace(GENUINE, scsi=replace(GENUINE.scsi, error_counters=NOTHING))
    assert doubts(quiet, AccessMethod("/dev/sda"), traffic_bytes=9e8) == []
    assert doubts(quiet, AccessMethod("/dev/sda"), traffic_bytes=2e9)[0][0] == plausibility.HARD


def test_a_hypervisors_disk_is_not_bogus() -> None:
    """QEMU and VMware have no health data that could be wrong."""
    model = {"model": "QEMU HARDDISK", "vendor": "QEMU"}
    assert doubts(replace(BOGUS, **model), traffic_bytes=41e9) == []
    vmware = block_device("sda", vendor="VMware", model="Virtual disk")
    assert doubts(replace(BOGUS, model="", vendor=""), device=vmware, traffic_bytes=41e9) == []


def test_one_oddity_is_no_reason() -> None:
    """Two soft contradictions are needed: real drives have one each."""
    odd = replace(GENUINE, scsi=replace(GENUINE.scsi, start_stop_cycles=256))
    disk = Disk("S", PollResult(VOLUME, ReadStatus.READ, drive=odd))
    one = plausibility.implausibilities(disk, odd, Surroundings())
    assert [doubt.points for doubt in one] == [
        plausibility.SOFT,
        plausibility.SOFT,
    ]  # the controller, too
    assert plausibility.is_plausible(one[:1])
    assert not plausibility.is_plausible(one)


@pytest.mark.parametrize(
    ("drive", "around", "words"),
    [
        (ata("A", {9: 0, 12: 0}, power_on_hours=0), {}, "every raw value is 0"),
        (ata("A"), {"hours_before": 20_005.0}, "20000 hours of power-on time, and 20005 before"),
        (ata("A", temperature_celsius=255.0), {}, "a temperature of 255 C"),
        (ata("A", messages=("error: invalid SMART checksum.",)), {}, "checksum"),
        (ata("A"), {"device": SMALLER}, "3.6 TiB, and the kernel 931 GiB"),
        (ata("A"), {"same_serial": "B"}, "B has the same serial number"),
        (ata("A"), {"same_attributes": "B"}, "B reports the same values in every attribute"),
        (replace(GENUINE, scsi=replace(GENUINE.scsi, manufactured_year="2099")), {}, "to come"),
        (replace(GENUINE, scsi=replace(GENUINE.scsi, manufactured_year="N;2x")), {}, "year 'N;2x'"),
    ],
)  # fmt: skip
def test_cheap_invariants_each_count_once(drive: Drive, around: dict[str, Any], words: str) -> None:
    """Impossible values of a drive; each of them alone is not enough."""
    ((points, text),) = doubts(drive, AccessMethod("/dev/sda"), **around)
    assert points == plausibility.SOFT
    assert words in text


@pytest.mark.parametrize("celsius", [0.0, -5.0, 70.0])
def test_a_drive_without_a_sensor_or_in_the_cold_is_believed(celsius: float) -> None:
    """Some solid-state drives always report 0 C."""
    assert doubts(ata("A", temperature_celsius=celsius), AccessMethod("/dev/sda")) == []


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        ("arcmsr", "smartctl with '-d areca'"),
        ("3w-9xxx", "smartctl with '-d 3ware' and the port, at /dev/twa0"),
        ("3w-sas", "smartctl with '-d 3ware' and the port, at /dev/twl0"),
        ("3w-xxxx", "smartctl with '-d 3ware' and the port, at /dev/twe0"),
        ("megaraid_sas", "smartctl with '-d megaraid'"),
        ("hpsa", "smartctl with '-d cciss'"),
        ("aacraid", "smartctl with '-d aacraid'"),
        ("", "the command line tool"),
    ],
)
def test_the_way_to_the_real_disks_is_named(driver: str, words: str) -> None:
    """By the controller's driver."""
    assert plausibility.access_hint(AccessMethod("/dev/sda", driver=driver)).startswith(words)


def test_distrust_lasts_a_week_after_the_last_contradiction() -> None:
    """At 24 C the trip temperature of 25 contradicts nothing; the access method is still wrong."""
    rack = Rack()
    cool = replace(BOGUS, temperature_celsius=24.0, refused=(), transport="", scsi=ScsiHealth())
    direct = AccessMethod("/dev/sda", driver="ahci")
    rack.poll(BOGUS, target=direct)
    rack.poll(cool, times=12, every=86_400.0 / 2, target=direct)
    assert rack.firing() == {("SmartImplausible", "notice")}
    rack.restart()
    rack.poll(cool, target=direct)
    assert rack.firing() == {("SmartImplausible", "notice")}
    rack.poll(cool, times=4, every=86_400.0 / 2, target=direct)
    assert rack.firing() == set()


def test_another_way_to_the_disk_is_judged_by_itself() -> None:
    """Once the configuration names the access method behind the controller, its data are used."""
    rack = Rack()
    rack.poll(BOGUS, target=VOLUME)
    rack.poll(
        replace(GENUINE, serial="WD-1"), target=AccessMethod("/dev/sg2", "areca,1", driver="arcmsr")
    )
    assert rack.firing() == set()


def test_what_was_reported_of_a_disk_is_unknown_once_it_is_not_believed() -> None:
    """Neither resolved nor failing while its data are implausible."""
    rack = Rack()
    rack.poll(replace(GENUINE, passed=False))
    assert rack.firing() == {("DiskFailing", "critical")}
    rack.poll(replace(BOGUS, serial="SAS1"), times=6, target=VOLUME)
    assert rack.firing("unknown") == {("DiskFailing", "critical")}
    assert [reason for reason, _, _ in rack.mails] == ["opened", "data unavailable"]


def test_two_disks_that_report_the_same_in_every_attribute_are_in_doubt() -> None:
    """A bridge that replies for both; one point each, two with a wrong size."""
    table = tuple(attribute(n, n * 7) for n in range(220, 231))
    same = [ata(serial, attributes=table) for serial in ("A", "B")]
    rack = Rack()
    rack.poll(*same, times=2)
    assert rack.firing() == set()
    hot = [replace(drive, temperature_celsius=255.0) for drive in same]
    rack.poll(*hot)
    assert rack.firing() == {("SmartImplausible", "notice")}
