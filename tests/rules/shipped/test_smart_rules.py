"""What other tools get wrong about drives, replayed: the right verdict, by rules and mails.

Each test names its line of the collected reports (repository and number, or smartd's S1 to S12).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.polled_disks import FakeMachine, device, direct, disks
from support.rack import DAY, HOUR, Rack, ata, attribute
from support.recordings import CORPUS, cases_of_corpus, corpus

from iowarden.collectors.raid.areca.cli64 import parse_disk_smart
from iowarden.collectors.smart.drive import (
    AccessMethod,
    Attribute,
    Drive,
    ErrorCounter,
    NvmeHealth,
    Protocol,
    ReadStatus,
    ScsiHealth,
    SelfTest,
)
from iowarden.collectors.smart.smartctl import parse
from iowarden.collectors.smart.smartctl_refusal import SmartRefusal

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def rack() -> Rack:
    """A machine that has just met its drives."""
    return Rack()


def sas(**fields: object) -> Drive:
    """Return a genuine SAS drive, in order."""
    counters = {kind: ErrorCounter(12, 0, 315_926e9) for kind in ("read", "write", "verify")}
    usual = ScsiHealth(
        counters,
        grown_defects=0,
        manufactured_year="2019",
        specified_start_stop_cycles=50_000,
        start_stop_cycles=220,
        asc=0,
        ascq=0,
    )
    return Drive(
        Protocol.SCSI,
        vendor="SEAGATE",
        model="ST4000NM0023",
        serial="SAS1",
        rotation_rpm=7200,
        transport="SAS (SPL-3)",
        passed=True,
        temperature_celsius=30.0,
        temperature_limit_celsius=65.0,
        reported_trip_celsius=65.0,
        scsi=replace(usual, **fields),  # type: ignore[arg-type]  # as Scsi takes them
    )


def nvme(**fields: object) -> Drive:
    """Return an NVMe drive, in order."""
    usual = NvmeHealth(0, 1.0, 0.1, 0.03, 0, 12_000, 57)
    return Drive(
        Protocol.NVME,
        model="ACME FLASH",
        serial="NVME1",
        passed=True,
        temperature_celsius=40.0,
        nvme=replace(usual, **fields),  # type: ignore[arg-type]  # as Nvme takes them
    )


# --- false alarms of others


def test_a_crucial_mx500_that_shows_one_pending_sector_for_two_hours(rack: Rack) -> None:
    """smartmontools#48, openstreetmap/operations#273: 197 flips to 1 and back, meaning nothing."""
    model = "CT500MX500SSD1"
    rack.poll(ata("MX", model=model, rotation_rpm=0), times=4)
    rack.poll(ata("MX", {197: 1}, model=model, rotation_rpm=0), times=4)
    rack.poll(ata("MX", model=model, rotation_rpm=0), times=4)
    assert rack.mails == []
    assert rack.fired == set()
    rack.poll(ata("MX", {197: 2}, model=model, rotation_rpm=0), times=2)
    assert rack.firing() == {("DiskPendingSectors", "warning")}


def test_seagates_packed_command_timeouts_are_not_billions(rack: Rack) -> None:
    """AnalogJ/scrutiny#522 and seven more: 188 = 94490722326 is three counts in one number."""
    packed = 94_490_722_326
    seagate = {"model": "ST4000VN008-2DR166", "family": "Seagate IronWolf"}
    rack.poll(ata("Z1", {188: packed}, **seagate), times=3)
    rack.poll(ata("Z1", {188: packed + (1 << 32)}, **seagate), times=3)
    assert rack.fired == set()
    rack.poll(ata("Z1", {188: packed + 5}, **seagate), times=3)
    assert rack.firing() == {("DiskCommandTimeouts", "warning")}


def test_four_command_timeouts_in_a_day_are_not_reported(rack: Rack) -> None:
    """AnalogJ/scrutiny#255: with 9000 drives, only the increase counts; this is slow."""
    for day in range(10):
        rack.poll(ata("A", {188: 4 * day}), times=4, every=DAY / 4)
    assert rack.fired == set()


def test_hours_below_their_threshold_pull_no_healthy_disk_out_of_a_mirror(rack: Rack) -> None:
    """openstreetmap/operations#118: 'Failed SMART usage Attribute: 9' on an Areca."""
    hours = attribute(9, 100_623, value=1, threshold=5, name="Power_On_Hours")
    rack.poll(ata("A", attributes=(hours,)), times=48)
    assert rack.mails == []
    assert rack.fired == {("DiskAttributeFailed", "notice", "A")}


def test_power_cycles_and_the_nvme_error_log_report_nothing(rack: Rack) -> None:
    """AnalogJ/scrutiny#31: 64 power cycles are no failure; the NVMe log grows with odd commands."""
    for step in range(6):
        many = 10**step
        rack.poll(
            ata("A", {12: 64 + many, 9: 20_000 + step}),
            nvme(error_log_entries_total=many),
        )
    assert rack.fired == set()


def test_errors_three_years_old_do_not_warn_at_each_poll(rack: Rack) -> None:
    """prometheus-community/smartctl_exporter#281: 98 entries in the log, none of them new."""
    rack.poll(ata("A", errors_logged_total=98, exit_status=64), times=100)
    assert rack.fired == set()
    rack.poll(ata("A", errors_logged_total=99, exit_status=64), times=2)
    assert rack.fired == {("DiskErrorLogIncreased", "notice", "A")}


def test_eight_old_reallocated_sectors_are_a_notice_for_ever(rack: Rack) -> None:
    """vonrobak/fedora-homelab-containers#263: a permanent warning; here an increase is."""
    rack.poll(ata("A", {5: 8}), times=60, every=DAY)
    assert rack.mails == []
    assert rack.firing() == {("DiskErrorsInBaseline", "notice")}
    rack.poll(ata("A", {5: 9}), times=2)
    assert rack.firing() == {("DiskReallocatedSectorsIncreased", "warning")}


def test_a_sector_that_stays_uncorrectable_is_mailed_once_not_daily(rack: Rack) -> None:
    """openmediavault#2160, openfoodfacts-infrastructure#507: 198 stuck at 1; one reminder."""
    rack.poll(ata("A", {198: 1}), times=240, every=DAY / 4)
    assert [reason for reason, _, _ in rack.mails] == ["opened", "reminder"]
    assert rack.fired == {("DiskErrorsInBaseline", "warning", "A")}


@pytest.mark.parametrize("trip", [0.0, 25.0, None])
def test_a_trip_temperature_that_is_none_is_no_alarm(rack: Rack, trip: float | None) -> None:
    """awesome-prometheus-alerts: 'temperature >= drive_trip' fires at 30 C where the trip is 25."""
    drive = replace(sas(), reported_trip_celsius=trip, temperature_limit_celsius=None)
    rack.poll(drive, times=4)
    assert ("DiskTemperatureHigh", "critical", "SAS1") not in rack.fired
    assert rack.mails == []


def test_a_vendors_own_sense_code_is_no_failure(rack: Rack) -> None:
    """smartmontools#326: Oracle's ascq 0x96 means 'slow response'; smartctl shows a warning."""
    rack.poll(replace(sas(asc=0x0B, ascq=0x96), passed=False), times=4)
    assert rack.mails == []
    assert rack.fired == {("ScsiDiskWarning", "notice", "SAS1")}


def test_one_garbled_answer_is_not_believed(rack: Rack) -> None:
    """Two polls in a row must agree: a bridge once returned zeros, and once nonsense."""
    rack.poll(ata("A", {5: 3, 199: 7}), times=2)
    rack.poll(ata("A", {5: 1234, 187: 9, 198: 8, 197: 3, 199: 4000}))
    rack.poll(ata("A", {5: 0, 199: 0}))
    rack.poll(ata("A", {5: 3, 199: 7}), times=4)
    assert {(name, level) for name, level, _ in rack.fired} == {
        ("DiskErrorsInBaseline", "notice"),
        ("DiskInterfaceCrcErrorsInBaseline", "info"),
    }


def test_more_sectors_than_the_drive_has_are_no_sectors(rack: Rack) -> None:
    """smartd's only plausibility test, which it makes once, at its start: here at every poll."""
    rack.poll(ata("A", {197: 2**47, 198: 2**47}), times=3)
    assert rack.fired == set()
    rack.poll(ata("A", {197: 8}), times=2)
    assert rack.firing() == {("DiskPendingSectors", "warning")}


def test_a_hot_spare_that_sleeps_raises_nothing(rack: Rack) -> None:
    """openstreetmap/operations#47: daily mail because a spare was spun down."""
    rack.poll(ata("A"), times=2)
    asleep = rack.disks.by_key["A"]
    polled = replace(asleep.polled, status=ReadStatus.ASLEEP)
    rack.disks = replace(rack.disks, by_key={"A": replace(asleep, polled=polled)})
    rack.wait(30 * DAY, every=6 * HOUR)
    assert rack.fired == set()


def test_a_verdict_that_was_not_given_is_not_failed(rack: Rack) -> None:
    """Scrutiny: no 'smart_status' in the JSON decodes as false, and the disk is shown as failed."""
    rack.poll(ata("A", passed=None), times=4)
    assert rack.fired == set()


def test_growth_ends_and_the_alert_with_it(rack: Rack) -> None:
    """canonical/hardware-observer: '...{187} > 0' is true for ever once it is."""
    rack.poll(ata("A"), times=2)
    assert rack.poll(ata("A", {187: 1}), times=3) == ["opened"]
    assert rack.poll(ata("A", {187: 1}), times=32, every=DAY / 4) == ["resolved"]
    assert rack.firing() == set()


def test_a_cable_is_blamed_for_what_a_cable_does(rack: Rack) -> None:
    """openstreetmap/operations#43: 'I think the wrong disk was replaced'."""
    rack.poll(ata("A", {199: 5}), times=2)
    rack.poll(ata("A", {199: 9}), times=2)
    assert rack.firing() == {("DiskInterfaceCrcErrors", "warning")}
    alert = next(a for a in rack.engine.rules.alerts() if a.name == "DiskInterfaceCrcErrors")
    assert "Never replace the disk" in alert.annotation("advice")


# --- what others miss


def test_a_single_pending_sector_is_reported(rack: Rack) -> None:
    """Scrutiny's table has no bucket for 197 = 1: silent. Two polls, then a warning."""
    rack.poll(ata("A"), times=2)
    rack.poll(ata("A", {197: 1}))
    assert rack.firing() == set()
    rack.poll(ata("A", {197: 1}))
    assert rack.firing() == {("DiskPendingSectors", "warning")}
    rack.poll(ata("A"), times=3)
    assert [reason for reason, _, _ in rack.mails] == ["opened", "resolved"]


def test_seventeen_uncorrectable_sectors_are_reported(rack: Rack) -> None:
    """Scrutiny's table ends at 16 for 198: everything above is silent."""
    rack.poll(ata("A"), times=2)
    rack.poll(ata("A", {198: 17}))
    assert rack.firing() == {("DiskErrorsIncreased", "critical")}


def test_thousands_of_bad_sectors_with_none_reallocated_are_reported(rack: Rack) -> None:
    """Scrutiny: 197 = 5000, 198 = 5000, 187 = 500 and 5 = 0 is shown as passed."""
    rack.poll(ata("A", {197: 5000, 198: 5000, 187: 500}))
    assert ("DiskPendingSectors", "critical") in rack.firing()
    assert ("DiskErrorsInBaseline", "warning") in rack.firing()
    assert rack.mails[0][:2] == ("opened", "critical")


def test_a_disk_that_passes_with_2872_reallocated_sectors_is_reported(rack: Rack) -> None:
    """olafkfreund/nixos_config#1259: PASSED, 2872 reallocated, 624 pending."""
    rack.poll(ata("A", {5: 2872, 197: 624}), times=2)
    levels = {level for _, level in rack.firing()}
    assert levels == {"critical", "notice", "warning"}


def test_reallocation_is_mailed_without_asking_for_it(rack: Rack) -> None:
    """smartd with its defaults never mails that attribute 5 grows (one must write '-R 5!')."""
    rack.poll(ata("A"), times=2)
    rack.poll(ata("A", {5: 2}), times=2)
    assert rack.firing() == {("DiskReallocatedSectorsIncreased", "warning")}
    rack.poll(ata("A", {5: 70}), times=2)
    assert ("DiskReallocatedSectorsHigh", "critical") in rack.firing()


def test_uncorrected_writes_of_a_sas_disk_that_passes(rack: Rack) -> None:
    """nasty-project/nasty#369, zbx-smartctl#123: 8 uncorrected writes and 'passed': true."""
    bad = ErrorCounter(0, 8, 1e12)
    rack.poll(sas(error_counters={"write": bad}), times=2)
    assert rack.firing() == {("DiskErrorsInBaseline", "warning")}
    rack.poll(sas(error_counters={"write": replace(bad, uncorrected_total=9)}), times=2)
    assert ("DiskUncorrectedErrors", "critical") in rack.firing()


def test_grown_defects_and_a_predicted_failure_of_a_sas_disk(rack: Rack) -> None:
    """smartd writes grown defects to a file and never alerts on them."""
    rack.poll(sas(), times=2)
    rack.poll(sas(grown_defects=3), times=2)
    assert rack.firing() == {("DiskGrownDefectsIncreased", "warning")}
    rack.poll(replace(sas(grown_defects=3, asc=0x5D, ascq=0x10), passed=False))
    assert ("DiskFailing", "critical") in rack.firing()


def test_the_same_counters_behind_a_controller(rack: Rack) -> None:
    """smartctl_exporter#89: SAS counters are dropped where the interface is 'megaraid,N'."""
    behind = AccessMethod("/dev/bus/0", "megaraid,12", driver="megaraid_sas", controller="host0")
    rack.poll(sas(), times=2, target=behind)
    rack.poll(sas(grown_defects=1), times=2, target=behind)
    assert rack.firing() == {("DiskGrownDefectsIncreased", "warning")}


def test_an_nvme_drive_that_no_longer_opens_is_not_well(rack: Rack) -> None:
    """smartctl_exporter#309: 'the exporter did not signal anything': its alerts are unknown."""
    rack.poll(nvme(), times=2)
    rack.poll(nvme(media_errors_total=4), times=2)
    assert rack.firing() == {("NvmeMediaErrorsIncreased", "warning")}
    rack.lose("NVME1")
    rack.wait(HOUR)
    assert ("NvmeMediaErrorsIncreased", "warning") in rack.firing("unknown")
    assert "resolved" not in {reason for reason, _, _ in rack.mails}


def test_a_self_test_that_fails_a_second_time_is_mailed_again(rack: Rack) -> None:
    """openfoodfacts#219: 'failed complete tests since 3 months! ... We didn't get any email'."""
    fails = [
        SelfTest("extended", "Completed: read failure", passed=False, hours=hours, lba=1234)
        for hours in (19_900, 19_732)
    ]
    passes = SelfTest("short", "Completed without error", passed=True, hours=19_999)
    rack.poll(ata("A", self_tests=()), times=2)
    rack.poll(ata("A", self_tests=(passes, fails[1])), times=3)
    rack.poll(ata("A", self_tests=(passes, *fails)), times=3)
    assert [(reason, level) for reason, level, _ in rack.mails] == [
        ("opened", "critical"),
        ("escalated", "critical"),
    ]
    whole = SelfTest("extended", "Completed without error", passed=True, hours=20_000)
    assert rack.poll(ata("A", self_tests=(whole, passes, *fails)), times=3) == ["resolved"]


def test_a_self_test_that_failed_years_ago_is_less_than_one_of_today(rack: Rack) -> None:
    """An old failure that nothing took back is a warning."""
    old = SelfTest("extended", "Completed: read failure", passed=False, hours=1_000)
    rack.poll(ata("A", self_tests=(old,)), times=2)
    assert rack.firing() == {("DiskSelfTestFailed", "warning")}


def test_a_second_attribute_is_not_swallowed_by_the_first(rack: Rack) -> None:
    """smartd drops a warning about 187 within 24 h of a mail about 5; iowarden sends it."""
    rack.poll(ata("A"), times=2)
    rack.poll(ata("A", {5: 2}), times=3)
    assert rack.poll(ata("A", {5: 2, 187: 1}), times=2) == ["escalated"]
    assert rack.mails[-1][2] == "DiskErrorsIncreased"


def test_from_one_pending_sector_to_5000_in_an_hour_is_reported_at_once(rack: Rack) -> None:
    """The interval between smartd's mails ignores an escalation; iowarden's does not."""
    rack.poll(ata("A", {197: 1}), times=2)
    assert rack.poll(ata("A", {197: 5000})) == ["escalated"]
    assert rack.poll(ata("A", {197: 5000}), times=6, every=DAY / 4) == []


def test_at_the_same_severity_too_what_doubles_is_reported(rack: Rack) -> None:
    """The same between two warnings, two criticals, and while acknowledged."""
    rack.poll(ata("A", {197: 1}), times=2)
    assert rack.poll(ata("A", {197: 3}), times=2) == ["escalated"]
    rack.acknowledge()
    assert rack.poll(ata("A", {197: 5}), times=4) == []
    assert rack.poll(ata("A", {197: 6}), times=4) == ["escalated"]
    rack.poll(ata("A", {197: 600}), times=2)
    assert rack.poll(ata("A", {197: 1200})) == ["escalated"]


def test_an_acknowledged_count_that_stands_is_silent_for_ever(rack: Rack) -> None:
    """AnalogJ/scrutiny#380, #713: acknowledge until it changes."""
    rack.poll(ata("A", {197: 4}), times=2)
    rack.acknowledge()
    assert rack.poll(ata("A", {197: 4}), times=120, every=DAY / 2) == []


def test_a_second_failure_after_a_recovery_is_mailed(rack: Rack) -> None:
    """With '-M once' smartd never mails a second failure after a recovery; iowarden does."""
    rack.poll(ata("A"), times=2)
    assert rack.poll(ata("A", passed=False)) == ["opened"]
    assert rack.poll(ata("A"), times=2) == ["resolved"]
    assert rack.poll(ata("A", passed=False)) == ["reopened"]


def test_a_sector_more_each_day_is_critical_long_before_sixteen(rack: Rack) -> None:
    """197 that increases daily."""
    for day in range(4):
        rack.poll(ata("A", {197: 1 + day}), times=4, every=DAY / 4)
    assert ("DiskPendingSectors", "critical") in rack.firing()


def test_disks_of_one_wwn_are_judged_apart(rack: Rack) -> None:
    """Starosdev/scrutiny#850: all disks of a controller get the volume's WWN."""
    good, bad = (ata(serial, wwn="600508b1001c0000") for serial in ("A", "B"))
    rack.poll(good, bad, times=2)
    rack.poll(good, ata("B", {198: 3}, wwn="600508b1001c0000"), times=2)
    assert {disk for _, _, disk in rack.fired} == {"B"}


def test_a_disk_in_place_of_another_begins_anew(rack: Rack) -> None:
    """smartctl_exporter#134: '/dev/sda' is another disk today; its history is not."""
    rack.poll(ata("OLD"), times=2)
    rack.poll(ata("NEW", {5: 8}), times=4)
    assert rack.fired == {("DiskErrorsInBaseline", "notice", "NEW")}


def test_a_restart_forgets_nothing_and_repeats_nothing(rack: Rack) -> None:
    """Baselines, increases and drops are stored; nothing is mailed twice."""
    rack.poll(ata("A", {5: 8}), times=2)
    rack.poll(ata("A", {5: 9, 187: 2}), times=2)
    before, mails = rack.firing(), list(rack.mails)
    rack.restart()
    rack.poll(ata("A", {5: 9, 187: 2}), times=4)
    assert rack.firing() == before
    assert rack.mails == mails
    rack.restart()
    rack.poll(ata("A", {5: 30, 187: 2}), times=4)
    assert ("DiskReallocatedSectorsHigh", "warning") in rack.firing()


def test_a_drive_not_yet_queried_after_a_restart_is_as_it_was(rack: Rack) -> None:
    """It is polled in the first minutes; if that does not happen, its alerts become unknown."""
    rack.poll(ata("A", {187: 0}), times=2)
    rack.poll(ata("A", {187: 2}), times=2)
    before, mails = rack.firing(), list(rack.mails)
    assert before
    rack.restart()
    rack.lose("A", "it is asked first within two minutes", ReadStatus.NOT_POLLED_YET)
    rack.wait(590, 10)
    assert (rack.firing(), rack.firing("unknown"), rack.mails) == (before, set(), mails)
    rack.wait(60, 10)
    assert rack.firing("unknown") == before


# --- disk_failing, disk_temperature, nvme_health


def test_a_value_at_its_threshold_by_what_the_attribute_is(rack: Rack) -> None:
    """Pre-failure critical, wear a warning; a threshold of 0 is none; temperature is separate."""
    table = (
        attribute(5, 0, value=36, threshold=36, name="Reallocated_Sector_Ct"),
        attribute(233, 0, value=1, threshold=5, name="Media_Wearout_Indicator"),
        attribute(190, 0, value=40, threshold=45, name="Airflow_Temperature_Cel"),
        attribute(7, 0, value=1, threshold=0, name="Seek_Error_Rate"),
    )
    rack.poll(ata("A", attributes=table), times=2)
    assert rack.firing() == {
        ("DiskAttributeFailed", "critical"),
        ("DiskAttributeFailed", "warning"),
    }


@pytest.mark.parametrize(
    ("limit", "rotation", "celsius", "level"),
    [
        (60.0, 7200, 54.0, None),
        (60.0, 7200, 55.0, "warning"),
        (60.0, 7200, 60.0, "critical"),
        (None, 7200, 54.0, None),
        (None, 7200, 55.0, "warning"),
        (None, 0, 69.0, None),
        (None, 0, 70.0, "warning"),
        (25.0, 0, 75.0, "critical"),
        (25.0, 7200, 40.0, None),
        (None, 7200, 255.0, None),
    ],
)
def test_heat_by_the_drives_own_limit(
    rack: Rack, limit: float | None, rotation: int, celsius: float, level: str | None
) -> None:
    """5 degrees below its own limit, else 55 C or 70 C; not after a single poll."""
    drive = ata(
        "A",
        temperature_celsius=celsius,
        temperature_limit_celsius=limit,
        rotation_rpm=rotation,
    )
    rack.poll(drive)
    assert rack.firing() == set()
    rack.poll(drive)
    levels = {severity for name, severity in rack.firing() if name == "DiskTemperatureHigh"}
    assert (
        levels == {None: set(), "warning": {"warning"}, "critical": {"warning", "critical"}}[level]
    )


def test_nvme_warnings_spare_and_wear(rack: Rack) -> None:
    """Each bit as text; spare at the threshold; endurance used up."""
    rack.poll(nvme(), times=2)
    assert rack.firing() == set()
    worn = nvme(critical_warning=0b1001, available_spare_ratio=0.1, endurance_used_ratio=1.02)
    rack.poll(replace(worn, passed=False))
    assert rack.firing() == {
        ("NvmeCriticalWarning", "critical"),
        ("NvmeSpareLow", "warning"),
        ("NvmeSpareLow", "critical"),
        ("DiskEnduranceUsed", "warning"),
        ("DiskEnduranceUsed", "critical"),
    }
    texts = {
        a.label("warning") for a in rack.engine.rules.alerts() if a.name == "NvmeCriticalWarning"
    }
    assert texts == {"spare capacity is below its threshold", "all media are read-only"}


@pytest.mark.parametrize(
    ("bit", "severities"),
    [
        (0x01, {"critical"}),
        (0x02, {"warning"}),
        (0x04, {"critical"}),
        (0x08, {"critical"}),
        (0x10, {"critical"}),
        (0x20, {"warning"}),
        (0x40, {"critical"}),
        (0x80, {"critical"}),
    ],
)
def test_each_bit_of_an_nvme_critical_warning_has_its_severity(
    rack: Rack, bit: int, severities: set[str]
) -> None:
    """Also bits 6 and 7, which no specification defines so far: the drive is FAILED as well."""
    rack.poll(nvme(), times=2)
    rack.poll(replace(nvme(critical_warning=bit), passed=False))
    assert rack.firing() == {("NvmeCriticalWarning", each) for each in severities}
    (alert,) = (a for a in rack.engine.rules.alerts() if a.name == "NvmeCriticalWarning")
    assert alert.label("bit") == f"0x{bit:02x}"
    if bit > 0x20:
        assert f"bit 0x{bit:02x}" in alert.summary


def test_all_bits_of_an_nvme_critical_warning_are_one_incident_with_a_sentence_each(
    rack: Rack,
) -> None:
    """A drive that died sets them all."""
    rack.poll(nvme(), times=2)
    rack.poll(replace(nvme(critical_warning=0xFF), passed=False))
    assert len(rack.mails) == 1
    (incident,) = rack.incidents.by_key.values()
    texts = {member.summary for member in incident.members}
    assert len(texts) == 8


@pytest.mark.parametrize(
    ("celsius", "critical_celsius", "severities"),
    [
        (84.0, 85.0, {"warning"}),
        (85.0, 85.0, {"warning", "critical"}),
        (99.0, None, {"warning"}),
        (None, 85.0, {"warning"}),
    ],
)
def test_an_nvme_drive_that_warns_of_heat_is_critical_only_at_its_critical_temperature(
    rack: Rack, celsius: float | None, critical_celsius: float | None, severities: set[str]
) -> None:
    """Without a critical temperature, or without a temperature, it is not known to be that hot."""
    rack.poll(nvme(), times=2)
    hot = replace(nvme(critical_warning=0x02), passed=False, temperature_celsius=celsius)
    rack.poll(replace(hot, critical_temperature_celsius=critical_celsius))
    named = {each for each in rack.firing() if each[0] == "NvmeCriticalWarning"}
    assert named == {("NvmeCriticalWarning", each) for each in severities}


@pytest.mark.parametrize(
    ("differs", "alone"),
    [
        ({}, True),
        ({"available_spare_ratio": 0.99}, False),
        ({"available_spare_ratio": None}, False),
        ({"media_errors_total": 1}, False),
        ({"media_errors_total": None}, False),
        ({"endurance_used_ratio": 0.99}, False),
        ({"endurance_used_ratio": None}, False),
    ],
)
def test_a_drive_that_fails_its_health_test_only_because_it_is_worn_is_one_warning(
    rack: Rack, differs: dict[str, float | None], alone: bool
) -> None:
    """100 % used, all of its spare, no media error: 'FAILED' and 0x04 say that, and nothing else.

    Where one of the three differs, or is not known, the reliability is degraded: critical.
    """
    rack.poll(nvme(endurance_used_ratio=0.95), times=2)
    health = {"critical_warning": 0x04, "endurance_used_ratio": 1.0, **differs}
    rack.poll(replace(nvme(**health), passed=False))
    critical = ("NvmeCriticalWarning", "critical")
    assert (critical in rack.firing()) is not alone
    if alone:
        assert rack.firing() == {("DiskEnduranceUsed", "warning")}
        (alert,) = (a for a in rack.engine.rules.alerts() if a.name == "DiskEnduranceUsed")
        assert alert.summary.startswith("100 % of its rated endurance is used: the drive reports")
        assert len(rack.mails) == 1


def test_used_endurance_alone_is_planned_for_and_wakes_nobody(rack: Rack) -> None:
    """120 % with all of its spare capacity; then it cannot read something, which is its end."""
    rack.poll(nvme(endurance_used_ratio=1.2), times=2)
    assert rack.firing() == {("DiskEnduranceUsed", "warning")}
    rack.poll(nvme(endurance_used_ratio=1.2, media_errors_total=1), times=2)
    assert rack.firing() == {
        ("DiskEnduranceUsed", "warning"),
        ("DiskEnduranceUsed", "critical"),
        ("NvmeMediaErrorsIncreased", "warning"),
    }


def test_a_drive_that_wears_fast_is_reported_in_advance(rack: Rack) -> None:
    """1 % a week since it was first seen: after a month that is five points; first a notice."""
    for week in range(6):
        drive = nvme(endurance_used_ratio=0.5 + week / 100, written_bytes_total=1e14)
        rack.poll(drive, every=7 * DAY)
    assert rack.firing() == {("DiskWearingOut", "notice")}
    (alert,) = (a for a in rack.engine.rules.alerts() if a.name == "DiskWearingOut")
    assert alert.summary == (
        "rated endurance used up in about 9 months (between 7 and 11), at the pace of the last"
        " 30 days"
    )
    assert rack.mails == []


@pytest.mark.parametrize(
    ("family", "value", "is_reported"),
    [("Samsung based SSDs", 1, True), ("Samsung based SSDs", 95, False), ("", 1, False)],
)
def test_flash_that_is_worn_behind_sata(
    rack: Rack, family: str, value: int, *, is_reported: bool
) -> None:
    """Its threshold is 0 and its verdict PASSED to the end."""
    row = Attribute(177, "Wear_Leveling_Count", value, value, 0, 1, "1", prefail=True)
    drive = Drive(Protocol.ATA, serial="S42", family=family, attributes=(row,), rotation_rpm=0)
    rack.poll(drive, times=2)
    expected = {("DiskEnduranceUsed", "warning")} if is_reported else set()
    assert {each for each in rack.firing() if each[0] == "DiskEnduranceUsed"} == expected


# --- normalized_drop, normalized_low_at_baseline: values of an observed failure


def areca(serial: str, name: str) -> Drive:
    """Return a disk of the incident as the controller's own tool shows it."""
    table = parse_disk_smart(corpus(f"reference/areca-cli-disk-smart-{name}.txt").read_text())
    return Drive(Protocol.ATA, model="WDC WD1600AAJS", serial=serial, attributes=table)


def values(rack: Rack) -> dict[str, float]:
    """Return the values of the alerts on normalized values, by attribute."""
    return {
        alert.label("id"): alert.value
        for alert in rack.engine.rules.alerts()
        if alert.name in {"DiskNormalizedValueDropped", "DiskNormalizedValueLow"}
        and alert.state.value == "firing"
    }


def test_the_failing_disk_alone_at_first_sight_alerts_on_exactly_two_attributes(
    rack: Rack,
) -> None:
    """197 and 198 at 193, threshold 0, 'State OK'."""
    rack.poll(areca("2", "drv2-failing"))
    assert values(rack) == {"197": 7.0, "198": 7.0}
    assert {level for _, level in rack.firing()} == {"warning", "notice"}


def test_the_good_disk_alone_is_silent(rack: Rack) -> None:
    """3 at 152 and 194 at 102 are not error counts."""
    rack.poll(areca("1", "drv1-good"), times=4)
    assert rack.fired == set()


def test_the_history_from_good_to_failing_is_a_fall_of_seven_of_two_attributes(
    rack: Rack,
) -> None:
    """Exactly 197 and 198 by 7; 3 and 194 never."""
    rack.poll(areca("1", "drv1-good"), times=2)
    rack.poll(areca("1", "drv2-failing"), times=2)
    assert values(rack) == {"197": 7.0, "198": 7.0}
    assert rack.firing() == {
        ("DiskNormalizedValueDropped", "notice"),
        ("DiskNormalizedValueDropped", "warning"),
    }


def test_a_low_value_is_worse_where_a_peer_has_lost_nothing(rack: Rack) -> None:
    """Attribute 5 at 96 is a notice; a warning next to one of the same model at 100."""
    low = attribute(5, None, value=96)
    rack.poll(ata("A", attributes=(low,)), times=2)
    assert rack.firing() == {("DiskNormalizedValueLow", "notice")}
    rack.poll(ata("A", attributes=(low,)), ata("B", attributes=(replace(low, value=100),)))
    assert ("DiskNormalizedValueLow", "warning") in rack.firing()


# --- I


def bogus() -> Drive:
    """Return what an ARC-1210 makes up for a volume, by smartctl 5.36."""
    read = parse(corpus("reference/smartctl-5.36-areca-passthrough-bogus.txt").read_text())
    assert isinstance(read, Drive)
    return read


def test_what_a_controller_makes_up_is_neither_health_nor_failure(rack: Rack) -> None:
    """The captured data raise one notice that names the access method for the disks."""
    volume = AccessMethod("/dev/sda", device="sda", driver="arcmsr", controller="host0")
    rack.poll(bogus(), times=6, target=volume)
    assert rack.mails == []
    assert rack.fired == {("SmartImplausible", "notice", "WD-WCAS20994885")}
    (alert,) = (a for a in rack.engine.rules.alerts() if a.name == "SmartImplausible")
    assert "smartctl with '-d areca'" in alert.annotation("advice")
    assert "healthy at 30 C, above its trip temperature of 25 C" in alert.annotation("description")


def test_a_genuine_sas_drive_is_plausible(rack: Rack) -> None:
    """Trip 65 C, 30 C now, 50000 cycles specified."""
    rack.poll(sas(), times=4)
    assert rack.fired == set()


# --- the corpus

UNWELL = {
    "MB0500EBNCR_14.json": {"DiskErrorsInBaseline"},
    "ST3500418AS_11.json": {"DiskErrorsInBaseline"},
    "ST3500418AS_12.json": {"DiskErrorsInBaseline", "DiskNormalizedValueLow"},
    "smart-ata-date2.json": {"DiskTemperatureHigh"},
    "smart-nvme-failed.json": {"DiskErrorsInBaseline"},
}
"""Real captures (two of them altered by their tools' authors) with faults, and the alerts."""
WORN = {"DiskErrorsInBaseline", "DiskInterfaceCrcErrorsInBaseline"}
"""Usual baseline findings of solid-state drives and old cables: below a warning."""


@pytest.mark.parametrize(
    "path",
    cases_of_corpus(sorted((CORPUS / "smartctl").rglob("*.json"))),
    ids=lambda path: path.name,
)
def test_healthy_drives_raise_nothing(path: Path, rack: Rack) -> None:
    """Each real JSON output twice: no warning but of the five drives that are unwell."""
    text = path.read_text(errors="surrogateescape")
    try:
        drive = parse(text)
    except ValueError:
        pytest.skip("no output of one drive")
    if isinstance(drive, SmartRefusal):
        pytest.skip("no drive in it")
    rack.poll(replace(drive, serial=drive.serial or "X"), times=3)
    told = {alert for alert, _ in rack.firing()}
    assert told <= UNWELL.get(path.name, WORN)
    if path.name in UNWELL:
        assert told
    else:
        assert rack.mails == []


def test_a_count_that_fell_and_rises_again_within_the_week_is_growth(rack: Rack) -> None:
    """3 sectors at baseline, 5, none after a rewrite, then 2: they are new, and fewer than 3."""
    for sectors in (3, 5, 0):
        rack.poll(ata("A", {198: sectors}), times=2)
    rack.wait(6 * HOUR)
    assert ("DiskErrorsIncreased", "critical") not in rack.firing()
    rack.poll(ata("A", {198: 2}), times=2)
    assert ("DiskErrorsIncreased", "critical") in rack.firing()


# --- the mail


def test_a_mail_about_a_disk_shows_the_attributes_that_matter() -> None:
    """A disk has thirty; at night the reader needs the four that show the severity."""
    machine = FakeMachine(device("sda", "S1"))
    for sectors in (0, 40):
        said = ata("S1", {9: 20_000, 197: sectors, 198: 0, 241: 7})
        polled = direct("sda", "S1", drive=said)
        machine.disks = disks(
            replace(polled, polled=replace(polled.polled, read_seconds=machine.now))
        )
        machine.look(HOUR / 4)
    (mail,) = machine.mails
    summary = "40 pending sectors, which cannot be read (attribute 197, Current_Pending_Sector)"
    assert mail.summary == summary
    grew = [e.text for e in mail.evidence if "last_increase" in e.source]
    assert len(grew) == 1
    assert grew[0].endswith(" UTC")
    shown = " ".join(e.text for e in mail.evidence if e.source == "iowarden_smart_attribute_raw")
    assert set(re.findall(r"\b(\d+) [A-Z]", shown)) == {"5", "187", "197", "198"}
    assert "raw value, 197 Attribute_197: 40" in shown


@pytest.mark.parametrize(("counted", "logged"), [(0, 2), (2, 0), (2, 2), (None, 2)])
def test_pending_sectors_are_the_most_that_a_drive_reports(
    rack: Rack, counted: int | None, logged: int
) -> None:
    """Attribute 197, and the log that has them one by one: of some drives only the log rises."""
    raws = {} if counted is None else {197: counted}
    rack.poll(ata("S1", raws, pending_sectors=logged), times=3)
    assert ("DiskPendingSectors", "warning") in rack.firing()


def test_media_errors_of_an_nvme_drive_at_first_sight_are_a_warning(rack: Rack) -> None:
    """Data that the drive could not return: as uncorrected errors of a SAS drive are."""
    rack.poll(nvme(media_errors_total=141), times=2)
    assert rack.firing() == {("DiskErrorsInBaseline", "warning")}
