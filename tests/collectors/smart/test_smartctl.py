"""Parser of one smartctl output: the fields of a drive, refusals, and contradictions."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from iowarden.collectors.model import ParseError
from iowarden.collectors.smart.drive import (
    Attribute,
    Drive,
    ErrorCounter,
    NvmeHealth,
    OfflineCollection,
    Protocol,
    ReadStatus,
    ScsiHealth,
    SelfTest,
)
from iowarden.collectors.smart.smartctl import MAX_CHARACTERS, parse
from iowarden.collectors.smart.smartctl_refusal import SmartRefusal, exit_findings

FIXTURES = Path(__file__).parents[2] / "fixtures" / "smartctl"
Document = dict[str, Any]


def document(name: str) -> Document:
    """Return the JSON of a fixture."""
    found = json.loads((FIXTURES / f"{name}.json").read_text())
    assert isinstance(found, dict)
    return found


def drive(said: Document | str, *, kind: str = "") -> Drive:
    """Return the parsed drive of a report, without the data for smartctl_exporter."""
    text = said if isinstance(said, str) else json.dumps(said)
    found = parse(text, kind=kind)
    assert isinstance(found, Drive), found
    return dataclasses.replace(found, exported=b"")


def refused(said: Document | str, *, kind: str = "") -> SmartRefusal:
    """Return the refusal of a report."""
    found = parse(said if isinstance(said, str) else json.dumps(said), kind=kind)
    assert isinstance(found, SmartRefusal), found
    return found


def bare(name: str) -> Document:
    """Return the JSON of a fixture in the format of '--json=c' without 'o': no lines of text."""
    found = document(name)
    del found["smartctl"]["output"]
    return found


def text_of(name: str) -> str:
    """Return the text of a fixture, as smartctl without '--json' prints it."""
    return "\n".join(document(name)["smartctl"]["output"]) + "\n"


ATA = Drive(
    protocol=Protocol.ATA,
    model="ACME SP4000-1AB",
    family="ACME Spinner",
    serial="AC-4000-0001",
    firmware="AC01",
    wwn="5000c500a1b2c3d4",
    capacity_bytes=4_000_787_030_016,
    logical_block_bytes=512,
    physical_block_bytes=4096,
    rotation_rpm=7200,
    smart_available=True,
    smart_enabled=True,
    passed=True,
    exit_status=160,
    temperature_celsius=36.0,
    temperature_limit_celsius=55.0,
    power_on_hours=20473,
    power_cycles=31,
    attributes=(
        Attribute(1, "Raw_Read_Error_Rate", 78, 64, 44, 62914560, "62914560", prefail=True),
        Attribute(5, "Reallocated_Sector_Ct", 100, 100, 10, 8, "8", prefail=True),
        Attribute(9, "Power_On_Hours", 77, 77, 0, 152046571876345, "20473 (138 72 0)", False),
        Attribute(12, "Power_Cycle_Count", 100, 100, 20, 31, "31", prefail=False),
        Attribute(184, "End-to-End_Error", 63, 63, 99, 37, "37", prefail=False, failed="now"),
        Attribute(187, "Reported_Uncorrect", 98, 98, 0, 2, "2", prefail=False),
        Attribute(188, "Command_Timeout", 100, 98, 0, 12885098499, "3 3 3", prefail=False),
        Attribute(
            190, "Airflow_Temperature_Cel", 64, 45, 40, 638976036, "36 (Min/Max 22/38)", False
        ),
        Attribute(194, "Temperature_Celsius", 36, 55, 0, 85899345956, "36 (0 20 0 0 0)", False),
        Attribute(197, "Current_Pending_Sector", 100, 100, 0, 16, "16", prefail=False),
        Attribute(198, "Offline_Uncorrectable", 100, 100, 0, 16, "16", prefail=False),
        Attribute(199, "UDMA_CRC_Error_Count", 200, 200, 0, 0, "0", prefail=False),
    ),
    errors_logged_total=2,
    self_tests=(
        SelfTest("extended", "Completed: read failure", passed=False, hours=20401, lba=1953525160),
        SelfTest("short", "Completed without error", passed=True, hours=20377),
        SelfTest("conveyance", "Aborted by host", passed=None, hours=20100),
    ),
    self_test_remaining_ratio=0.6,
    self_test_kinds=("short", "long", "conveyance", "offline"),
    self_test_minutes={"short": 1, "long": 467, "conveyance": 2, "offline": 10},
    offline_collection=OfflineCollection.COMPLETED,
    pending_sectors=2,
    refused=("Device Statistics (GP/SMART Log 0x04) not supported",),
    smartctl_version="7.4",
)
SAS = Drive(
    protocol=Protocol.SCSI,
    model="ACME SAS10K",
    vendor="ACME",
    serial="SAS0000000000007",
    firmware="0004",
    wwn="5000c500a0b0c0d3",
    capacity_bytes=1_200_243_695_616,
    logical_block_bytes=512,
    physical_block_bytes=4096,
    rotation_rpm=10500,
    transport="SAS (SPL-4)",
    smart_available=True,
    smart_enabled=True,
    passed=False,
    exit_status=136,
    temperature_celsius=34.0,
    temperature_limit_celsius=60.0,
    reported_trip_celsius=60.0,
    power_on_hours=9153,
    self_tests=(
        SelfTest("extended", "Failed in segment", passed=False, hours=9100, lba=8006428),
        SelfTest("short", "Completed", passed=True, hours=302),
    ),
    self_test_kinds=("short", "long"),
    self_test_minutes={"long": 109},
    pending_sectors=2,
    scsi=ScsiHealth(
        error_counters={
            "read": ErrorCounter(2266559, 4, 409_777_659e6),
            "write": ErrorCounter(1688330, 0, 35_228_365e6),
        },
        grown_defects=195,
        non_medium_errors_total=332,
        pending_defects=2,
        manufactured_year="2017",
        manufactured_week="11",
        specified_start_stop_cycles=10000,
        start_stop_cycles=16,
        asc=0x5D,
        ascq=0x10,
        endurance_used_ratio=0.03,
        unreassigned_sectors=0,
    ),
    smartctl_version="7.3",
)
NVME = Drive(
    protocol=Protocol.NVME,
    model="ACME Flash 1TB",
    serial="NV00000000000009",
    firmware="1.2.3",
    wwn="001b448b45a3700d",
    capacity_bytes=1_000_204_886_016,
    logical_block_bytes=512,
    smart_available=True,
    smart_enabled=True,
    passed=False,
    exit_status=8,
    temperature_celsius=47.0,
    temperature_limit_celsius=84.0,
    critical_temperature_celsius=88.0,
    power_on_hours=3752,
    power_cycles=24,
    self_tests=(
        SelfTest("extended", "Completed: failed segments", passed=False, hours=3700, lba=81920),
        SelfTest("short", "Completed without error", passed=True, hours=3650),
    ),
    self_test_remaining_ratio=0.65,
    self_test_kinds=("short", "long"),
    nvme=NvmeHealth(
        critical_warning=4,
        available_spare_ratio=0.12,
        available_spare_threshold_ratio=0.1,
        endurance_used_ratio=1.04,
        media_errors_total=7,
        error_log_entries_total=4871,
        unsafe_shutdowns_total=18,
        read_bytes_total=3501226 * 512e3,
        written_bytes_total=1081718 * 512e3,
        controller_busy_seconds_total=1680.0,
        warning_temperature_seconds_total=120.0,
        critical_temperature_seconds_total=0.0,
    ),
    smartctl_version="7.4",
)
DRIVES = {"ata": ATA, "sas": SAS, "nvme": NVME}


@pytest.mark.parametrize("name", DRIVES)
def test_a_drive_of_each_kind_is_read_whole(name: str) -> None:
    """JSON, the text inside it, and pySMART's parse of that text agree on every field."""
    assert drive(document(name)) == DRIVES[name]


@pytest.mark.parametrize("name", DRIVES)
def test_text_alone_reports_the_same(name: str) -> None:
    """Without JSON only the exit status and packed raw values are missing."""
    wanted = DRIVES[name]
    attributes = tuple(
        dataclasses.replace(each, raw=None) if " " in each.raw_text else each
        for each in wanted.attributes
    )
    assert drive(text_of(name)) == dataclasses.replace(wanted, exit_status=0, attributes=attributes)


def test_the_brief_table_of_text_is_read_as_the_old_one() -> None:
    """'smartctl -x' without '-f old' prints flags as letters; only pySMART fails on that."""
    text = text_of("ata")
    for old, brief in (("0x0032", "-O--CK"), ("0x0033", "PO--CK"), ("0x000f", "POSR--")):
        text = text.replace(old, brief)
    lines = [
        line.replace("Old_age   Always ", "").replace("Pre-fail  Always ", "")
        for line in text.splitlines()
    ]
    found = drive("\n".join(lines).replace("FAILING_NOW", "NOW"))
    assert drive(text.replace("FAILING_NOW", "In_the_past")).attributes[4].failed == "past"
    assert [
        (each.id, each.value, each.raw_text, each.prefail, each.failed) for each in ATA.attributes
    ] == [
        (each.id, each.value, each.raw_text, each.prefail, each.failed) for each in found.attributes
    ]
    assert found.serial == ATA.serial
    assert found.disagreements == 0
    assert [message for message in found.messages if "pySMART: ValueError" in message] != []


def test_where_pysmart_reads_otherwise_is_counted_and_reported() -> None:
    """A report whose text contradicts its JSON: the JSON is used, and the drive counts it."""
    said = document("ata")
    said["serial_number"] = "AC-4000-0002"
    said["ata_smart_attributes"]["table"][1]["raw"]["string"] = "9"
    found = drive(said)
    assert (found.serial, found.disagreements) == ("AC-4000-0002", 2)
    assert found.messages == (
        "pySMART reads the serial number as 'AC-4000-0001', not 'AC-4000-0002'",
        "pySMART reads attribute 5's raw value as '8', not '9'",
    )


def test_an_older_json_is_read_by_its_older_names() -> None:
    """smartctl 7.0 names vendor, product, revision and the trip temperature without 'scsi_'."""
    said = bare("sas")
    for name in ("vendor", "product", "revision"):
        said[name] = said.pop(f"scsi_{name}")
    said["model_name"] = said.pop("scsi_model_name")
    trip = said["temperature"].pop("drive_trip")
    said["scsi_temperature"] = {"drive_trip": trip}
    found = drive(said)
    assert (found.vendor, found.model, found.firmware) == ("ACME", "ACME SAS10K", "0004")
    assert found.temperature_limit_celsius == 60


def test_a_newer_json_is_read_by_its_newer_names() -> None:
    """7.5 has self-tests, defects and endurance of a SAS drive where 7.3 has text only."""
    said = bare("sas")
    del said["scsi_percentage_used_endurance_indicator"]
    said |= {
        "endurance_used": {"current_percent": 3},
        "scsi_pending_defects": {"count": 2},
        "scsi_self_test_status": {"in_progress": True, "completion_percent": 25},
        "scsi_extended_self_test_seconds": 6521,
        "scsi_self_test_0": {
            "code": {"value": 2, "string": "Background long"},
            "result": {"value": 7, "string": "Failed in segment"},
            "power_on_time": {"hours": 9100, "aka": "accumulated_power_on_hours"},
            "lba_first_failure": {"value": 8006428, "aka": "address_of_first_failure"},
        },
    }
    found = drive(said)
    assert found.self_tests == SAS.self_tests[:1]
    assert (found.self_test_minutes, found.self_test_kinds) == ({"long": 109}, ("short", "long"))
    assert (found.pending_sectors, found.self_test_remaining_ratio) == (2, 0.75)
    assert found.scsi is not None
    assert found.scsi.endurance_used_ratio == 0.03


def test_the_limit_of_a_json_of_nvme_is_its_warning_temperature() -> None:
    """7.5 has it in JSON; the critical threshold is another one."""
    said = bare("nvme")
    said["nvme_composite_temperature_threshold"] = {"warning": 84, "critical": 88}
    assert drive(said).temperature_limit_celsius == 84


@pytest.mark.parametrize(("trip", "limit"), [(0, None), (25, None), (65, 65.0)])
def test_a_trip_temperature_that_is_none_is_no_limit(trip: int, limit: float | None) -> None:
    """0 and 25 are invented by controllers; the reported value is stored in addition."""
    said = bare("sas")
    said["temperature"]["drive_trip"] = trip
    found = drive(said)
    assert (found.temperature_limit_celsius, found.reported_trip_celsius) == (limit, trip)


@pytest.mark.parametrize(
    ("read", "seconds"),
    [
        ({"enabled": True, "deciseconds": 70}, 7.0),
        ({"enabled": False}, None),
        ({"enabled": False, "deciseconds": 0}, None),
        (None, None),
    ],
)
def test_how_long_a_drive_retries_a_sector_is_known_only_if_it_is_limited(
    read: Document | None, seconds: float | None
) -> None:
    """A drive whose SCT error recovery control is off retries for as long as it likes."""
    said = bare("ata")
    said.pop("ata_sct_erc", None)
    if read is not None:
        said["ata_sct_erc"] = {"read": read, "write": read}
    assert drive(said).read_recovery_seconds == seconds


def test_a_scsi_drive_that_reports_no_rotation_is_not_called_a_solid_state_drive() -> None:
    """smartctl's JSON has 0 for both; only its text distinguishes them."""
    said = document("sas")
    said["rotation_rate"] = 0
    assert drive(said).rotation_rpm == 0
    lines = said["smartctl"]["output"]
    said["smartctl"]["output"] = [line for line in lines if "Rotation Rate" not in line]
    assert drive(said).rotation_rpm is None


def test_without_a_sensor_there_is_no_temperature() -> None:
    """0 from SCT or from a page of zeros: missing, or the value from elsewhere in the report."""
    said = bare("ata")
    said["temperature"]["current"] = 0
    assert drive(said).temperature_celsius == 36
    table = said["ata_smart_attributes"]["table"]
    said["ata_smart_attributes"]["table"] = [row for row in table if row["id"] not in {190, 194}]
    assert drive(said).temperature_celsius is None
    said = bare("sas")
    said["temperature"]["current"] = 0
    said["scsi_environmental_reports"] = {"temperature_1": {"current": 38}}
    assert drive(said).temperature_celsius == 38


@pytest.mark.parametrize(
    ("status", "passed"),
    [
        ("Completed without error", True),
        ("Completed", True),
        ("Completed: read failure", False),
        ("Completed, segment failed", False),
        ("Failed in first segment", False),
        ("Fatal or unknown error", False),
        ("Aborted by host", None),
        ("Interrupted (host reset)", None),
        ("Aborted: Controller Reset", None),
        ("Self-test routine in progress", None),
        ("Self test in progress ...", None),
        ("Unknown status (0x9)", None),
    ],
)
def test_a_self_test_passes_fails_or_reports_nothing(status: str, passed: bool | None) -> None:
    """Every result that smartctl has; an aborted test has no result for the drive."""
    said = bare("ata")
    said["ata_smart_self_test_log"]["extended"]["table"][0]["status"] = {"string": status}
    assert drive(said).self_tests[0].passed is passed


def test_the_standard_log_of_self_tests_stands_in_for_the_extended_one() -> None:
    """A drive without general purpose logging has only the old log."""
    said = bare("ata")
    log = said["ata_smart_self_test_log"]
    log["standard"] = log.pop("extended")
    assert drive(said).self_tests == ATA.self_tests
    log["extended"] = {"revision": 1, "count": 0}
    assert drive(said).self_tests == ATA.self_tests


def test_a_test_that_does_not_run_has_nothing_left() -> None:
    """The last test was aborted with 90 % left: its status still has a rest, none is running."""
    said = bare("ata")
    said["ata_smart_data"]["self_test"]["status"] = {"value": 25, "remaining_percent": 90}
    assert drive(said).self_test_remaining_ratio is None


def test_digits_grouped_as_the_locale_wants_are_one_number() -> None:
    """Apostrophes, blanks, dots and narrow blanks group digits; with a letter it is no number."""
    for separator in ("'", "’", ".", " ", "\u00a0", "\u202f", "\udca0"):  # noqa: RUF001
        text = text_of("ata").replace(
            "4,000,787,030,016", separator.join(("4", "000", "787", "030", "016"))
        )
        assert drive(text).capacity_bytes == 4_000_787_030_016
    assert drive(text_of("ata").replace("4,000,787", "4x000x787")).capacity_bytes is None


# Refusals


@pytest.mark.parametrize(
    ("name", "cover", "reason"),
    [
        ("usb-bridge", ReadStatus.NO_PASS_THROUGH, "Unknown USB bridge"),
        ("standby", ReadStatus.ASLEEP, "Device is in STANDBY mode, exit(3)"),
        ("permission", ReadStatus.PERMISSION, "Permission denied"),
    ],
)
def test_who_reads_nothing_says_why(name: str, cover: ReadStatus, reason: str) -> None:
    """A bridge, a drive in standby, a missing permission; JSON with and without text, and text."""
    for said in (document(name), bare(name), text_of(name)):
        found = refused(said)
        assert found.status is cover
        assert reason in found.reason


def failed(line: str, status: int = 2, **fields: object) -> Document:
    """Return the report of a run that ended with a line."""
    said = bare("permission") | fields
    said["smartctl"] |= {
        "messages": [{"string": line, "severity": "error"}],
        "exit_status": status,
    }
    return said


@pytest.mark.parametrize(
    ("line", "cover"),
    [
        ("Smartctl open device: /dev/sda failed: No such device", ReadStatus.UNREADABLE),
        (
            "Smartctl open device: /dev/bus/7 [megaraid_disk_02] failed: INQUIRY failed",
            ReadStatus.UNREADABLE,
        ),
        ("Read Device Identity failed: Input/output error", ReadStatus.UNREADABLE),
        (
            "Read Device Identity failed: Unsupported field in scsi command",
            ReadStatus.NO_PASS_THROUGH,
        ),
        ("device is NOT READY (e.g. spun down, busy)", ReadStatus.UNREADABLE),
        (
            "Smartctl open device: /dev/sda failed: DELL or MegaRaid controller, please try adding '-d megaraid,N'",  # noqa: E501
            ReadStatus.NO_PASS_THROUGH,
        ),
        (
            "Smartctl open device: /dev/sda [SAT] failed: Operation not permitted",
            ReadStatus.PERMISSION,
        ),
        ("/dev/vda: Unable to detect device type", ReadStatus.UNREADABLE),
        (
            "/dev/sda: SMART Disabled. Use option -s with argument 'on' to enable it.",
            ReadStatus.UNREADABLE,
        ),
        ("Terminate command early due to bad response to IEC mode page", ReadStatus.UNREADABLE),
        ("NO MEDIUM present in device", ReadStatus.NO_SMART),
        ("/dev/sda: Unknown device type 'sssraid,0,1'", ReadStatus.UNPARSED),
        ("Device is in STANDBY (OS) mode, exit(3)", ReadStatus.ASLEEP),
        ("Device is in STANDBY BY TIMER mode, exit(3)", ReadStatus.ASLEEP),
    ],
)
def test_each_failure_of_smartctl_has_its_kind(line: str, cover: ReadStatus) -> None:
    """Its own message decides; it is the reason for the user."""
    found = refused(failed(line))
    assert found.status is cover
    assert found.reason in line


def test_a_smartctl_without_json_is_too_old() -> None:
    """6.6 does not support the option, and reports it in text."""
    text = (
        "smartctl 6.6 2016-05-31 r4324 [x86_64-linux-4.15.0] (local build)\n"
        "Copyright (C) 2002-16, Bruce Allen, Christian Franke, www.smartmontools.org\n\n"
        "=======> UNRECOGNIZED OPTION: json=co\n\nUse smartctl -h to get a usage summary\n"
    )
    assert refused(text).status is ReadStatus.NO_SMARTCTL


@pytest.mark.parametrize(
    ("vendor", "product", "transport", "cover"),
    [
        ("QEMU", "QEMU HARDDISK", "", ReadStatus.NO_SMART),
        ("VMware", "Virtual disk", "", ReadStatus.NO_SMART),
        ("DELL", "PERC H710", "", ReadStatus.NO_PASS_THROUGH),
        ("HP", "LOGICAL VOLUME", "", ReadStatus.NO_PASS_THROUGH),
        ("LSI", "MR9361-8i", "", ReadStatus.NO_PASS_THROUGH),
        ("Areca", "ARC-1210-VOL#00", "", ReadStatus.NO_PASS_THROUGH),
        ("NETAPP", "LUN", "iSCSI", ReadStatus.LUN),
        ("NOBODY", "KNOWS", "Fibre channel (FCP-4)", ReadStatus.LUN),
    ],
)
def test_what_is_no_disk_is_reported_by_its_name(
    vendor: str, product: str, transport: str, cover: ReadStatus
) -> None:
    """A volume has no health of its own, with or without an 'OK'; its name is stored."""
    said = failed("", 4, device={"protocol": "SCSI", "type": "scsi"})
    said |= {"scsi_vendor": vendor, "scsi_product": product, "serial_number": "1"}
    said["smartctl"]["messages"] = []
    said["temperature"] = {"current": 0, "drive_trip": 0}
    if transport:
        said["scsi_transport_protocol"] = {"name": transport}
    for claimed in (None, {"passed": True}):
        found = refused(said | {"smart_status": claimed})
        assert found.status is cover
        assert f"{vendor} {product}" in found.reason
        assert found.drive is not None
        assert found.drive.serial == "1"


def test_a_disk_behind_a_controller_is_no_volume_whatever_its_name() -> None:
    """'-d megaraid,N' reaches disks; one called RAID with health data is a disk."""
    said = failed("", 0, device={"protocol": "SCSI", "type": "megaraid,3"})
    said["smartctl"]["messages"] = []
    said |= {"scsi_vendor": "WD", "scsi_product": "RAID EDITION", "smart_status": {"passed": True}}
    assert drive(said, kind="megaraid,3").passed is True
    assert refused(said).status is ReadStatus.NO_PASS_THROUGH


def test_a_report_that_was_not_requested_health_is_none() -> None:
    """'smartctl -i' succeeds without health data: that must never look like a healthy drive."""
    said = bare("ata")
    kept = ("json_format_version", "smartctl", "device", "model_name", "serial_number", "wwn")
    found = refused(
        {
            name: said[name] | {"exit_status": 0} if name == "smartctl" else said[name]
            for name in kept
        }
    )
    assert found.status is ReadStatus.UNPARSED
    assert found.drive is not None
    assert found.drive.serial == ATA.serial


def test_a_scsi_device_that_lacks_smart_is_refused_with_its_identity() -> None:
    """An emulated disk behind an emulated MegaRAID: present, identified, without health data."""
    said = failed("", 4, device={"protocol": "SCSI", "type": "megaraid,0"})
    said["smartctl"]["messages"] = []
    said |= {"scsi_model_name": "ACME SAS-HDD-2", "smart_support": {"available": False}}
    found = refused(said, kind="megaraid,0")
    assert (found.status, found.reason) == (
        ReadStatus.UNREADABLE,
        "'ACME SAS-HDD-2' lacks SMART capability",
    )


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ({"smart_support": {"available": False}}, "'{}' lacks SMART capability"),
        ({"smart_support": {"available": True, "enabled": False}}, "'{}': SMART is disabled"),
        ({}, "'{}' reports its identity, but no health data: "),
    ],
)
@pytest.mark.parametrize(
    ("model", "cover"),
    [
        ("ACME HDD-2", ReadStatus.UNREADABLE),
        ("VBOX HARDDISK", ReadStatus.NO_SMART),
        ("QEMU HARDDISK", ReadStatus.NO_SMART),
        ("DO Volume", ReadStatus.NO_SMART),
    ],
)
@pytest.mark.parametrize("protocol", ["ATA", "NVMe", "SCSI"])
def test_what_reports_its_name_only_is_not_read(
    field: dict[str, Any], reason: str, model: str, cover: ReadStatus, protocol: str
) -> None:
    """For a disk that is a failed read; a virtual one has nothing to read."""
    said = failed("", 4, device={"protocol": protocol, "type": "auto"})
    said["smartctl"]["messages"] = []
    found = refused(said | {"model_name": model, "serial_number": "S1"} | field)
    assert found.status is cover
    assert protocol == "SCSI" or found.reason.startswith(reason.format(model))
    assert found.drive is not None
    assert found.drive.serial == "S1"


def test_a_disk_whose_smart_is_disabled_is_not_read_although_it_reports_its_temperature() -> None:
    """SCT works without SMART: that is not what the disk is monitored by."""
    said = failed("", 0, device={"protocol": "ATA", "type": "sat"})
    said["smartctl"]["messages"] = []
    said |= {"model_name": "ACME HDD-2", "temperature": {"current": 30}}
    said |= {"smart_support": {"available": True, "enabled": False}}
    found = refused(said)
    assert (found.status, found.reason) == (
        ReadStatus.UNREADABLE,
        "'ACME HDD-2': SMART is disabled",
    )


# What cannot be so


@pytest.mark.parametrize("name", DRIVES)
def test_a_report_cut_off_anywhere_is_refused(name: str) -> None:
    """Killed during its output, or a full pipe: never a partial drive."""
    text = json.dumps(bare(name))
    for end in range(1, len(text) - 1, 97):
        try:
            found = parse(text[:end])
        except ParseError:
            assert end < 4
        else:
            assert isinstance(found, SmartRefusal)
            assert found.status is ReadStatus.UNPARSED


@pytest.mark.parametrize(
    "text",
    [
        "/dev/sda -d sat # /dev/sda [SAT], ATA device\n",
        '{"devices": [], "smartctl": {"version": [7, 4]}}',
        '{"critical_warning": 0, "temperature": 310}',
        "bash: smartctl: command not found",
        '{"smartctl": 7}',
        "x" * (MAX_CHARACTERS + 1),
    ],
)
def test_what_smartctl_does_not_print_of_a_drive_is_no_report(text: str) -> None:
    """A scan, nvme-cli's JSON, a shell's complaint, 4 MiB of anything."""
    with pytest.raises(ParseError, match=r"smartctl: expected .*, got "):
        parse(text)


def test_no_output_at_all_is_reported() -> None:
    """A smartctl that crashed at once."""
    assert refused("\n").reason == "smartctl printed nothing"


@pytest.mark.parametrize("before", ["  Pending defect count:", "warning: {braces}\n", "\ufeff"])
def test_what_is_printed_around_the_json_does_no_harm(before: str) -> None:
    """Versions before 7.3 print a part of their text, wrappers print any text."""
    text = before + json.dumps(document("sas")) + "\nSmartctl: Exception: none\n"
    assert drive(text) == SAS


def test_deep_brackets_do_not_end_the_process() -> None:
    """json would recurse beyond the stack of a thread."""
    deep = '{"smartctl": {"exit_status": 0}, "x": ' + "[" * 100_000 + "]" * 100_000 + "}"
    assert refused(deep).status is ReadStatus.UNPARSED


def test_three_hundred_attributes_and_numbers_twice_are_one_each() -> None:
    """A number is a label: two equal ones would be one series with two values."""
    said = bare("ata")
    table = said["ata_smart_attributes"]["table"]
    said["ata_smart_attributes"]["table"] = [
        table[0] | {"id": number % 256, "raw": {"value": number, "string": str(number)}}
        for number in range(300)
    ]
    found = drive(said)
    assert [each.id for each in found.attributes] == list(range(1, 256))
    assert [each.raw for each in found.attributes] == list(range(1, 256))
    assert any("attribute" in message for message in found.messages)


@pytest.mark.parametrize("serial", ["\x00\x01AC", "\udcff\udcfe", "Ser\nial", "\x1b[31mred"])
def test_a_binary_name_is_one_printable_line(serial: str) -> None:
    """A drive may report any text; a terminal and a metric get printable text."""
    said = bare("ata") | {"serial_number": serial, "model_name": serial * 500}
    found = drive(said)
    assert found.serial.isprintable()
    assert found.serial
    assert len(found.model) == 200


def test_a_number_of_thousands_of_digits_is_unknown() -> None:
    """Python refuses to convert it; the rest of the report is parsed even so."""
    text = json.dumps(bare("nvme")).replace('"media_errors": 7', f'"media_errors": {"9" * 5000}')
    found = drive(text)
    assert found.nvme is not None
    assert NVME.nvme is not None
    assert found.nvme == dataclasses.replace(NVME.nvme, media_errors_total=None)


WRONG: tuple[object, ...] = (
    *(None, -1, 2**64, 1.5, 1e308, float("nan"), "", "x", "\udcff", [], {}, True, [[]]),
)


def leaves(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the paths of all fields of a document."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    below = [found for name, each in items for found in leaves(each, (*path, name))]
    return below or [path]


def put(said: Document, path: tuple[str | int, ...], value: object) -> Document:
    """Return a document with another value at a path."""
    changed: Any = deepcopy(said)
    at = changed
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    assert isinstance(changed, dict)
    return changed


def flat(value: object, path: str = "") -> dict[str, object]:
    """Return the fields of a drive by path; rows by their identity."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        return {
            k: v for name, each in fields.items() for k, v in flat(each, f"{path}.{name}").items()
        }
    if isinstance(value, dict):
        return {
            k: v for name, each in value.items() for k, v in flat(each, f"{path}.{name}").items()
        }
    if isinstance(value, tuple):
        rows = ((getattr(each, "id", number), each) for number, each in enumerate(value))
        return {k: v for name, each in rows for k, v in flat(each, f"{path}.{name}").items()}
    return {path: value}


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize("name", DRIVES)
def test_a_field_that_is_wrong_is_unknown_and_loses_nothing_else(name: str, wrong: object) -> None:
    """Every field in turn: the value is the former one, or unknown; never a false 0."""
    said = bare(name)
    said["smartctl"]["messages"] = []
    before = flat(drive(said))
    for path in leaves(said):
        if path[:1] in {("smartctl",), ("device",), ("ata_smart_error_log",)}:
            continue  # its own words, which protocol it is, and another count of the same
        if (path[-1] == "id" and "table" in path) or path[-1] in {"prefailure", "when_failed"}:
            continue  # which attribute it is; and a flag that is not set is none
        if path[-1] in {"passed", "available", "enabled"} and isinstance(wrong, bool):
            continue  # that is not wrong
        after = flat(drive(put(said, path, wrong)))
        for field, value in after.items():
            if field.startswith((".messages", ".read_errors", ".self_tests", ".self_test_kinds")):
                continue
            plausible = {"", "x", "?", None} | ({-1, 1.5} if "celsius" in field else set())
            plausible |= {2.0**64 * unit for unit in (1, 60, 512e3)} if ".nvme." in field else set()
            assert value == before.get(field) or value in plausible, (path, field, value)


def some_value() -> st.SearchStrategy[object]:
    """Return anything that JSON can contain, and some that it cannot."""
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
        ),
        max_leaves=6,
    )


@settings(max_examples=examples(60))
@given(data=st.data(), name=st.sampled_from(sorted(DRIVES)))
def test_no_mutation_of_a_report_raises_but_parse_error(data: st.DataObject, name: str) -> None:
    """Fields replaced by anything, in JSON with its text; and then letters of all that."""
    said = document(name)
    for path in data.draw(st.lists(st.sampled_from(leaves(said)), max_size=4)):
        with pytest.MonkeyPatch.context():
            try:
                said = put(said, path, data.draw(some_value()))
            except (TypeError, KeyError, IndexError):
                continue  # what was there is replaced already
    text = json.dumps(said)
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(text)))
        text = (
            text[:at] + data.draw(st.text(max_size=3)) + text[at + data.draw(st.integers(0, 3)) :]
        )
    try:
        found = parse(text)
    except ParseError:
        return
    if isinstance(found, Drive):
        numbers = [value for value in flat(found).values() if isinstance(value, int | float)]
        assert [value for value in numbers if not -100 <= value < 2.0**150] == []


@settings(max_examples=examples(60))
@given(data=st.data(), name=st.sampled_from(sorted(DRIVES)))
def test_no_text_raises_but_parse_error(data: st.DataObject, name: str) -> None:
    """Lines lost, doubled, truncated and mixed with those of another drive."""
    lines = [*document(name)["smartctl"]["output"]]
    other = document(data.draw(st.sampled_from(sorted(DRIVES))))["smartctl"]["output"]
    for _ in range(data.draw(st.integers(0, 8))):
        at = data.draw(st.integers(0, len(lines) - 1))
        torn = lines[at][: data.draw(st.integers(0, 60))]
        lines[at] = data.draw(st.sampled_from(other) | st.text(max_size=30) | st.just(torn))
    try:
        parse("\n".join(lines))
    except ParseError:
        return


# The program itself


@pytest.mark.parametrize(
    ("status", "findings"),
    [
        (0, ()),
        (64 + 128, ("its error log has entries", "its self-test log has failures")),
        (8, ("the drive reports that it is failing",)),
        (4, ("a command to the drive failed, or a checksum in its answer is wrong",)),
    ],
)
def test_each_bit_of_the_exit_status_has_its_meaning(
    status: int, findings: tuple[str, ...]
) -> None:
    """Eight bits, eight sentences, lowest first; no bit, no sentence."""
    assert exit_findings(status) == findings
    assert len(set(exit_findings(0xFF))) == 8


@pytest.mark.skipif(shutil.which("smartctl") is None, reason="no smartctl here")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("/dev/sdzz",), {ReadStatus.UNREADABLE}),
        # Some versions report what it is, others that they cannot tell.
        (("/dev/null",), {ReadStatus.NO_SMART, ReadStatus.UNREADABLE}),
        (("-d", "no-such-type", "/dev/null"), {ReadStatus.UNPARSED}),
    ],
)
def test_the_smartctl_of_this_machine_is_understood(
    arguments: tuple[str, ...], expected: set[ReadStatus]
) -> None:
    """A missing device, a device that is none, and an unknown type."""
    done = subprocess.run(
        ("smartctl", "--json=co", "-x", "-f", "old", "-n", "standby,3", *arguments),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert refused(done.stdout).status in expected


_NOT_WELL = (
    ({"exit_status": 8}, "the drive reports that it is failing"),
    ({"exit_status": 16}, "a pre-fail attribute is at or below its threshold"),
    ({"exit_status": 32}, "an attribute is or was at or below its threshold, the drive passes"),
    ({"exit_status": 128}, "its self-test log has failures"),
    ({"raw": "many"}, "attribute 197: expected a count, got 'many'"),
    ({"status": "Exploded"}, "a self-test: expected a known result, got 'Exploded'"),
)


@pytest.mark.parametrize(("changed", "reason"), _NOT_WELL, ids=[each[1] for each in _NOT_WELL])
def test_what_contradicts_the_drives_verdict_is_not_read(
    changed: dict[str, Any], reason: str
) -> None:
    """It passes, and a part of the same report that shows a fault, or nothing, is kept."""
    row = {"id": 197, "name": "Current_Pending_Sector", "value": 100, "worst": 100, "thresh": 5}
    said = {
        "smartctl": {"version": [7, 3], "exit_status": changed.get("exit_status", 0)},
        "device": {"protocol": "ATA"},
        "model_name": "ACME",
        "smart_status": {"passed": True},
        "ata_smart_attributes": {"table": [row | {"raw": {"string": changed.get("raw", "0")}}]},
        "ata_smart_self_test_log": {
            "standard": {"table": [{"status": {"string": changed.get("status", "Completed")}}]}
        },
    }
    (unread,) = drive(said).read_errors
    assert unread.endswith(reason)


@pytest.mark.parametrize(
    "row",
    [
        "197 Current_Pending_Sector  0x0012   100   100   000    Old_age   Always   MAYBE 0",
        "Media and Data Integrity Errors:    twelve",
        "Elements in grown defect list: many",
        "read:          0        0         0         0          0      12034.123      seven",
    ],
)
def test_a_line_of_health_that_cannot_be_read_is_not_passed_over(row: str) -> None:
    """The rest of the report is parsed; JSON in addition to such a line takes precedence."""
    text = f"smartctl 7.3\nModel Number: A\nCritical Warning: 0x00\nPower On Hours: 7\n{row}\n"
    (unread,) = drive(text).read_errors
    assert row.strip() in unread
    assert drive(text.replace(row, "Local Time is: now")).read_errors == ()


def test_a_drive_whose_smart_is_disabled_is_not_well_by_an_old_verdict() -> None:
    """It passed at its last check; a failing one is reported even so."""
    said = {
        "smartctl": {"version": [7, 3], "exit_status": 0},
        "device": {"protocol": "ATA"},
        "model_name": "ACME",
        "smart_support": {"available": True, "enabled": False},
        "smart_status": {"passed": True},
    }
    assert refused(said).status is ReadStatus.UNREADABLE
    assert drive(said | {"smart_status": {"passed": False}}).passed is False
