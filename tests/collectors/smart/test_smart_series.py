"""Series of drives: data of each kind of drive, under a name that survives a rename."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from iowarden.collectors.model import Chunk
from iowarden.collectors.smart.drive import (
    AccessMethod,
    Attribute,
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
from iowarden.collectors.smart.smart_series import FAMILIES, emit, hours_since
from iowarden.daemon.http.exposition import Exposition, MetricsSnapshot

if TYPE_CHECKING:
    from iowarden.collectors.model import Labels

PENDING = Attribute(197, "Current_Pending_Sector", 199, 199, 0, 8, "8", prefail=False)
TEMPERATURE = Attribute(
    194, "Temperature_Celsius", 117, 102, 0, 30 << 32 | 30, "30 (Min/Max 20/45)", prefail=False
)
ATA = Drive(
    Protocol.ATA,
    model="WDC WD20EFRX-68EUZN0",
    serial="WD-WCC4M0000001",
    firmware="82.00A82",
    wwn="50014ee2b0000001",
    capacity_bytes=2_000_398_934_016,
    rotation_rpm=5400,
    smart_enabled=True,
    passed=True,
    exit_status=64,
    temperature_celsius=30,
    power_on_hours=70_000,
    power_cycles=64,
    attributes=(PENDING, TEMPERATURE),
    errors_logged_total=3,
    self_tests=(
        SelfTest("short", "in progress", None, 4465),
        SelfTest("short", "completed", passed=True, hours=4464),
        SelfTest("extended", "read failure", passed=False, hours=4000, lba=12345),
        SelfTest("short", "read failure", passed=False, hours=3000),
    ),
)
SAS = Drive(
    Protocol.SCSI,
    serial="0000PARTOFIT",
    rotation_rpm=0,
    scsi=ScsiHealth(
        error_counters={"read": ErrorCounter(17, 2, 1.5e12), "verify": ErrorCounter(None, 0, None)},
        grown_defects=0,
        start_stop_cycles=120,
        asc=0x5D,
    ),
)
NVME = Drive(
    Protocol.NVME,
    nvme=NvmeHealth(critical_warning=4, endurance_used_ratio=1.07, media_errors_total=0),
)


def disks(drive: Drive | None, key: str = "S1", device: str = "sda", **fields: float) -> Disks:
    """A machine with one disk."""
    polled = PollResult(
        AccessMethod("/dev/" + (device or "sg2"), "sat", device=device, slot="slot 3"),
        ReadStatus.READ,
        drive=drive,
        **fields,  # type: ignore[arg-type]
    )
    return Disks({key: Disk(key, polled, device)})


def said(drive: Drive | None) -> dict[tuple[str, Labels], float]:
    """Return the series of a drive, without the label 'disk' and the names' prefix."""
    return {
        (
            name.removeprefix("iowarden_"),
            tuple(pair for pair in labels if pair[0] != "disk"),
        ): number
        for name, labels, number in emit(disks(drive))
        if "info" not in name and "poll" not in name
    }


def test_an_ata_disk() -> None:
    """Attributes by number and name; the raw value is the one that the drive database extracts."""
    pending = (("attribute", "Current_Pending_Sector"), ("id", "197"))
    temperature = (("attribute", "Temperature_Celsius"), ("id", "194"))
    assert said(ATA) == {
        ("disk_capacity_bytes", ()): 2_000_398_934_016,
        ("disk_rotation_rpm", ()): 5400,
        ("disk_power_on_seconds", ()): 252_000_000,
        ("disk_power_cycles_total", ()): 64,
        ("disk_temperature_celsius", ()): 30,
        ("smart_enabled", ()): 1,
        ("smart_passed", ()): 1,
        ("smart_exit_status", ()): 64,
        ("smart_errors_logged_total", ()): 3,
        ("smart_pysmart_disagreements", ()): 0,
        ("smart_attribute_value", pending): 199,
        ("smart_attribute_worst", pending): 199,
        ("smart_attribute_threshold", pending): 0,
        ("smart_attribute_raw", pending): 8,
        ("smart_attribute_value", temperature): 117,
        ("smart_attribute_worst", temperature): 102,
        ("smart_attribute_threshold", temperature): 0,
        ("smart_attribute_raw", temperature): 30,
        ("smart_self_test_passed", (("kind", "short"),)): 1,
        ("smart_self_test_passed", (("kind", "extended"),)): 0,
        ("smart_self_test_age_seconds", (("kind", "short"),)): 0,
        ("smart_self_test_age_seconds", (("kind", "extended"),)): 464 * 3600,
    }


def test_a_sas_disk() -> None:
    """Error counters by operation; a missing counter has no series, and 0 is a value."""
    assert said(SAS) == {
        ("disk_rotation_rpm", ()): 0,
        ("smart_exit_status", ()): 0,
        ("smart_pysmart_disagreements", ()): 0,
        ("smart_scsi_grown_defects", ()): 0,
        ("smart_scsi_start_stop_cycles_total", ()): 120,
        ("smart_scsi_failure_predicted", ()): 1,
        ("smart_scsi_errors_corrected_total", (("operation", "read"),)): 17,
        ("smart_scsi_errors_uncorrected_total", (("operation", "read"),)): 2,
        ("smart_scsi_processed_bytes_total", (("operation", "read"),)): 1.5e12,
        ("smart_scsi_errors_uncorrected_total", (("operation", "verify"),)): 0,
    }


def test_an_nvme_drive() -> None:
    """A worn drive may have used more than all of its endurance."""
    assert said(NVME) == {
        ("smart_exit_status", ()): 0,
        ("smart_pysmart_disagreements", ()): 0,
        ("smart_nvme_critical_warning", ()): 4,
        ("smart_nvme_endurance_used_ratio", ()): 1.07,
        ("smart_nvme_media_errors_total", ()): 0,
    }


@pytest.mark.parametrize(
    ("protocol", "power_on_hours", "ended", "hours"),
    [
        (Protocol.ATA, 100, 90, 10),
        (Protocol.ATA, 65_600, 60, 4),  # its time started over
        (Protocol.ATA, 100, 60_000, 5_636),  # the drive's own hours started over, too
        (Protocol.ATA, 100, 30_000, None),  # after a change of electronics, perhaps
        (Protocol.SCSI, 70_000, 65_000, 5000),
        (Protocol.SCSI, 70_000, 65_535, None),  # so much or more
        (Protocol.NVME, 70_000, 4_000, 66_000),
        (Protocol.NVME, None, 4_000, None),
        (Protocol.NVME, 70_000, None, None),
    ],
)
def test_how_long_ago_a_self_test_was(
    protocol: Protocol, power_on_hours: int | None, ended: int | None, hours: int | None
) -> None:
    """Each command set stores the time of a test in its own width."""
    drive = Drive(protocol, power_on_hours=power_on_hours)
    assert hours_since(drive, SelfTest("short", "", passed=True, hours=ended)) == hours


def test_a_disk_that_reports_nothing_has_its_name_and_its_polls() -> None:
    """It has no values, so none can appear good."""
    shown = emit(disks(None, runs_total=7, failures_total=7, duration_seconds=60.0))
    assert {name: number for name, _, number in shown} == {
        "iowarden_disk_info": 1,
        "iowarden_smart_poll_duration_seconds": 60,
        "iowarden_smart_polls_total": 7,
        "iowarden_smart_poll_failures_total": 7,
    }


def test_a_rename_changes_only_the_identity() -> None:
    """As sdc it is the same disk: every other series continues, with the same objects."""
    before, after = emit(disks(ATA, device="sda")), emit(disks(ATA, device="sdc"))
    assert dict(before[0][1])["device"] == "sda"
    assert dict(after[0][1]) == dict(before[0][1]) | {"device": "sdc", "path": "/dev/sdc"}
    assert before[1:] == after[1:]
    assert all(a is b for a, b in zip(before, after, strict=True) if a[0].count("attribute"))
    assert {dict(labels)["disk"] for _, labels, _ in after} == {"S1"}


def test_two_drives_of_one_output_are_distinguished() -> None:
    """A key that changed, because of another disk with this number, renames the stored series."""
    drive = replace(ATA)
    assert {dict(labels)["disk"] for _, labels, _ in emit(disks(drive, "S1"))} == {"S1"}
    assert {dict(labels)["disk"] for _, labels, _ in emit(disks(drive, "S1 sdb"))} == {"S1 sdb"}


def test_what_was_made_of_a_drive_is_not_taken_for_a_changed_one() -> None:
    """The next poll's output has its own series."""
    emit(disks(ATA))
    hotter = emit(disks(replace(ATA, temperature_celsius=61)))
    assert ("iowarden_disk_temperature_celsius", (("disk", "S1"),), 61.0) in hotter


def test_a_table_with_a_line_twice_gives_a_series_once() -> None:
    """The first is used; twice would not be valid."""
    other = replace(PENDING, raw=9, raw_text="9")
    shown = emit(disks(replace(ATA, attributes=(PENDING, other))))
    raw = [number for name, _, number in shown if name == "iowarden_smart_attribute_raw"]
    assert raw == [8]


@pytest.mark.parametrize("drive", [ATA, SAS, NVME])
def test_a_scrape_shows_all_of_it(drive: Drive) -> None:
    """Every family is declared, and every series is in the text of a scrape."""
    shown = emit(disks(drive, read_seconds=1.8e9))
    by_name = {family.name: tuple(s for s in shown if s[0] == family.name) for family in FAMILIES}
    assert sum(map(len, by_name.values())) == len(shown)

    def fail(text: str) -> None:
        pytest.fail(text)

    exposition = Exposition(fail)
    families = tuple((family, by_name[family.name]) for family in FAMILIES)
    exposition.publish(MetricsSnapshot((Chunk("smart", 1, families),)))
    read = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(exposition.render().decode())
        for sample in family.samples
        if not sample.name.startswith("iowarden_render")
    }
    assert read == {(name, labels): number for name, labels, number in shown}
