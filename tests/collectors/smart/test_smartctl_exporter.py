"""smartctl_exporter's series: its names, labels and values, for existing rules of users.

The expectations were derived from smartctl_exporter 0.14's source, not with the code under test.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recordings import corpus

from iowarden.collectors.smart import smartctl_exporter
from iowarden.collectors.smart.drive import (
    AccessMethod,
    Disk,
    Disks,
    Drive,
    PollResult,
    Protocol,
    ReadStatus,
)
from iowarden.collectors.smart.smartctl_exporter import NAMES, label, pack, samples

TESTDATA = "smartctl/prometheus-community+smartctl_exporter"

SMARTCTL = {
    "version": [7, 3],
    "svn_revision": "5338",
    "build_info": "(local build)",
    "exit_status": 192,
}
SATA: dict[str, Any] = {
    "json_format_version": [1, 0],
    "smartctl": SMARTCTL,
    "device": {"name": "/dev/sda", "type": "sat", "protocol": "ATA"},
    "model_family": "Maker's Disks",
    "model_name": "DISK 2000",
    "serial_number": "D1",
    "firmware_version": "1.0",
    "user_capacity": {"blocks": 3907029168, "bytes": 2000398934016},
    "logical_block_size": 512,
    "physical_block_size": 4096,
    "rotation_rate": 5400,
    "form_factor": {"ata_value": 2, "name": "3.5 inches"},
    "ata_version": {"string": "ACS-2 (minor revision not indicated)"},
    "sata_version": {"string": "SATA 3.0"},
    "interface_speed": {
        "max": {"units_per_second": 60, "bits_per_unit": 100000000},
        "current": {"units_per_second": 30, "bits_per_unit": 100000000},
    },
    "smart_status": {"passed": False},
    "ata_smart_attributes": {
        "table": [
            {
                "id": 5,
                "name": "Reallocated_Sector_Ct",
                "value": 199,
                "worst": 198,
                "thresh": 140,
                "flags": {
                    "string": "PO--CK ",
                    "prefailure": True,
                    "updated_online": True,
                    "performance": False,
                    "event_count": True,
                    "auto_keep": True,
                },
                "raw": {"value": 12, "string": "12"},
            }
        ]
    },
    "power_on_time": {"hours": 2, "minutes": 30},
    "power_cycle_count": 64,
    "temperature": {"current": 30, "lifetime_max": 61, "op_limit_max": 60},
    "ata_smart_error_log": {"summary": {"count": 3}, "extended": {"count": 4}},
    "ata_sct_status": {"device_state": {"value": 0}},
    "ata_device_statistics": {"pages": [{"name": "General", "table": [{"name": "x", "value": 1}]}]},
}
SAS: dict[str, Any] = {
    "json_format_version": [1, 0],
    "smartctl": {**SMARTCTL, "exit_status": 0},
    "device": {"name": "/dev/bus/0", "type": "megaraid,3", "protocol": "SCSI"},
    "scsi_vendor": "MAKER",
    "scsi_product": "SAS 600",
    "scsi_model_name": "MAKER SAS 600",
    "scsi_revision": "A1",
    "scsi_version": "SPC-4",
    "serial_number": "S1",
    "user_capacity": {"blocks": 1172123568, "bytes": 600127266816},
    "logical_block_size": 512,
    "temperature": {"current": 31, "drive_trip": 65},
    "scsi_start_stop_cycle_counter": {"accumulated_start_stop_cycles": 45},
    "scsi_grown_defect_list": 7,
    "scsi_error_counter_log": {
        "read": {
            "errors_corrected_by_eccfast": 1,
            "errors_corrected_by_eccdelayed": 2,
            "errors_corrected_by_rereads_rewrites": 3,
            "gigabytes_processed": "123.456",
            "total_uncorrected_errors": 4,
        },
        "write": {"total_uncorrected_errors": 0},
    },
}
NVME: dict[str, Any] = {
    "json_format_version": [1, 0],
    "smartctl": {**SMARTCTL, "exit_status": 0},
    "device": {"name": "/dev/nvme0n1", "type": "nvme", "protocol": "NVMe"},
    "model_name": "NVME 1",
    "serial_number": "N1",
    "nvme_total_capacity": 1000204886016,
    "smart_status": {"passed": True},
    "nvme_smart_health_information_log": {
        "critical_warning": 1,
        "available_spare": 9,
        "available_spare_threshold": 10,
        "percentage_used": 103,
        "data_units_read": 2,
        "data_units_written": 0,
        "media_errors": 5,
        "num_err_log_entries": 77,
    },
}


def machine(*documents: dict[str, Any]) -> Disks:
    """A machine with drives that gave these outputs."""
    by_key = {}
    for document in documents:
        device = document["device"]
        drive = Drive(Protocol(device["protocol"]), exported=pack(document))
        polled = PollResult(
            AccessMethod(device["name"], device["type"]), ReadStatus.READ, drive=drive
        )
        by_key[document["serial_number"]] = Disk(document["serial_number"], polled)
    return Disks(by_key)


def shown(*documents: dict[str, Any]) -> dict[str, float]:
    """Return its series as text: 'name{label=value,...}'."""
    found = {}
    for name, labels, number in samples(machine(*documents)):
        assert labels == tuple(sorted(labels))
        inside = ",".join(f"{key}={text}" for key, text in labels)
        series = f"{name}{{{inside}}}" if inside else name
        assert series not in found
        found[series] = number
    return found


VERSION = (
    "smartctl_version{build_info=(local build),json_format_version=1.0,smartctl_version=7.3,"
    "svn_revision=5338}"
)


def test_a_sata_disk() -> None:
    """Like smartctl_exporter: no lifetime's maximum among the temperatures, no self-test bit."""
    attribute = (
        "smartctl_device_attribute{attribute_flags_long=prefailure,updated_online,event_count,"
        "auto_keep,attribute_flags_short=PO--CK,attribute_id=5,"
        "attribute_name=Reallocated_Sector_Ct,attribute_value_type=%s,device=sda}"
    )
    assert shown(SATA) == {
        VERSION: 1,
        "smartctl_devices": 1,
        "smartctl_device{ata_additional_product_id=unknown,"
        "ata_version=ACS-2 (minor revision not indicated),device=sda,firmware_version=1.0,"
        "form_factor=3.5 inches,interface=sat,model_family=Maker's Disks,model_name=DISK 2000,"
        "protocol=ATA,sata_version=SATA 3.0,scsi_product=,scsi_revision=,scsi_vendor=,"
        "scsi_version=,serial_number=D1}": 1,
        "smartctl_device_smartctl_exit_status{device=sda}": 64,
        "smartctl_device_capacity_blocks{device=sda}": 3907029168,
        "smartctl_device_capacity_bytes{device=sda}": 2000398934016,
        "smartctl_device_block_size{blocks_type=logical,device=sda}": 512,
        "smartctl_device_block_size{blocks_type=physical,device=sda}": 4096,
        "smartctl_device_interface_speed{device=sda,speed_type=max}": 6e9,
        "smartctl_device_interface_speed{device=sda,speed_type=current}": 3e9,
        attribute % "value": 199,
        attribute % "worst": 198,
        attribute % "thresh": 140,
        attribute % "raw": 12,
        "smartctl_device_power_on_seconds{device=sda}": 9000,
        "smartctl_device_rotation_rate{device=sda}": 5400,
        "smartctl_device_temperature{device=sda,temperature_type=current}": 30,
        "smartctl_device_power_cycle_count{device=sda}": 64,
        "smartctl_device_error_log_count{device=sda,error_log_type=summary}": 3,
        "smartctl_device_smart_status{device=sda}": 0,
    }


def test_a_sas_disk_behind_a_raid_controller() -> None:
    """Its error counters are shown like those of one that is not behind any."""
    own = "device=bus_0_megaraid_3"
    assert shown(SAS) == {
        VERSION: 1,
        "smartctl_devices": 1,
        f"smartctl_device{{ata_additional_product_id=unknown,ata_version=,{own},"
        "firmware_version=,form_factor=,interface=megaraid,3,model_family=unknown,"
        "model_name=MAKER SAS 600,protocol=SCSI,sata_version=,scsi_product=SAS 600,"
        "scsi_revision=A1,scsi_vendor=MAKER,scsi_version=SPC-4,serial_number=S1}": 1,
        f"smartctl_device_smartctl_exit_status{{{own}}}": 0,
        f"smartctl_device_capacity_blocks{{{own}}}": 1172123568,
        f"smartctl_device_capacity_bytes{{{own}}}": 600127266816,
        f"smartctl_device_block_size{{blocks_type=logical,{own}}}": 512,
        f"smartctl_device_block_size{{blocks_type=physical,{own}}}": 0,
        f"smartctl_device_temperature{{{own},temperature_type=current}}": 31,
        f"smartctl_device_temperature{{{own},temperature_type=drive_trip}}": 65,
        f"smartctl_device_power_cycle_count{{{own}}}": 45,
        f"smartctl_scsi_grown_defect_list{{{own}}}": 7,
        f"smartctl_device_bytes_read{{{own}}}": 123456000000,
        f"smartctl_device_bytes_written{{{own}}}": 0,
        f"smartctl_read_errors_corrected_by_eccfast{{{own}}}": 1,
        f"smartctl_read_errors_corrected_by_eccdelayed{{{own}}}": 2,
        f"smartctl_read_errors_corrected_by_rereads_rewrites{{{own}}}": 3,
        f"smartctl_read_total_uncorrected_errors{{{own}}}": 4,
        f"smartctl_write_errors_corrected_by_eccfast{{{own}}}": 0,
        f"smartctl_write_errors_corrected_by_eccdelayed{{{own}}}": 0,
        f"smartctl_write_errors_corrected_by_rereads_rewrites{{{own}}}": 0,
        f"smartctl_write_total_uncorrected_errors{{{own}}}": 0,
    }


def test_an_nvme_drive() -> None:
    """Percentages unchanged; units that a drive does not count have no series."""
    found = shown(NVME)
    own = {
        series.removesuffix("{device=nvme0}"): number
        for series, number in found.items()
        if series.endswith("{device=nvme0}")
    }
    assert own == {
        "smartctl_device_smartctl_exit_status": 0,
        "smartctl_device_capacity_blocks": 0,
        "smartctl_device_capacity_bytes": 0,
        "smartctl_device_nvme_capacity_bytes": 1000204886016,
        "smartctl_device_smart_status": 1,
        "smartctl_device_critical_warning": 1,
        "smartctl_device_available_spare": 9,
        "smartctl_device_available_spare_threshold": 10,
        "smartctl_device_percentage_used": 103,
        "smartctl_device_media_errors": 5,
        "smartctl_device_num_err_log_entries": 77,
        "smartctl_device_bytes_read": 1024000,
    }
    assert len(found) == len(own) + 5  # version, number, identity and two sizes of a block


@pytest.mark.parametrize(
    ("path", "kind", "expected"),
    [
        ("/dev/sda", "sat", "sda"),
        ("/dev/sda", "", "sda"),
        ("/dev/nvme10n1", "nvme", "nvme10"),
        ("/dev/nvme10", "nvme", "nvme10"),
        ("/dev/bus/0", "megaraid,3", "bus_0_megaraid_3"),
        ("/dev/bus/0", "sat+megaraid,3", "bus_0_sat+megaraid_3"),
        ("/dev/sg2", "cciss,7", "sg2_cciss_7"),
        ("/dev/twa0", "3ware,1", "twa0_3ware_1"),
        ("/dev/disk/by-id/ata-DISK_2000_D1", "sat", "ata-DISK_2000_D1"),
    ],
)
def test_its_names_of_drives(path: str, kind: str, expected: str) -> None:
    """The device without '/dev/', and which drive behind it."""
    assert label(path, kind) == expected


@pytest.mark.parametrize(
    "smartctl",
    [
        {"exit_status": 1},
        {"exit_status": 2},
        {"exit_status": 66},
        {"exit_status": 4, "messages": [{"string": "Read failed", "severity": "error"}]},
    ],
)
def test_a_drive_that_could_not_be_read_is_not_shown(smartctl: dict[str, Any]) -> None:
    """Only the number of drives shows that there is one."""
    assert shown(SATA | {"smartctl": smartctl}) == {"smartctl_devices": 1}


def test_findings_about_a_drive_do_not_hide_it() -> None:
    """The bits from 2 on are about the drive; a warning is no error."""
    warned = [{"string": "Warning: This result is based on an Attribute check.", "severity": "x"}]
    found = shown(SATA | {"smartctl": {**SMARTCTL, "exit_status": 0xFC, "messages": warned}})
    assert found["smartctl_device_smartctl_exit_status{device=sda}"] == 0x7C


def test_two_drives_behind_one_device() -> None:
    """All have the name of the controller's device: each has its number as well."""
    other = SAS | {"device": SAS["device"] | {"type": "megaraid,4"}, "serial_number": "S2"}
    found = shown(SAS, other)
    assert found["smartctl_devices"] == 2
    assert {
        f"smartctl_scsi_grown_defect_list{{device=bus_0_megaraid_{number}}}" for number in (3, 4)
    } < found.keys()


def test_a_series_is_made_once_of_an_output() -> None:
    """Rules query them every 15 seconds, and a drive is polled twice an hour."""
    disks = machine(SATA, NVME)
    first, again = samples(disks), samples(disks)
    assert all(a is b for a, b in zip(first, again, strict=True) if a[0] != "smartctl_devices")


def test_the_kinds_are_its_own() -> None:
    """It treats percentages and states of NVMe as counters."""
    kinds = {name: smartctl_exporter.family(name).kind for name, _, _ in samples(machine(NVME))}
    assert {name for name, kind in kinds.items() if kind == "counter"} == {
        "smartctl_device_critical_warning",
        "smartctl_device_available_spare",
        "smartctl_device_available_spare_threshold",
        "smartctl_device_percentage_used",
        "smartctl_device_media_errors",
        "smartctl_device_num_err_log_entries",
        "smartctl_device_bytes_read",
    }
    assert set(kinds.values()) == {"counter", "gauge"}


def test_a_table_with_a_line_twice_gives_a_series_once() -> None:
    """The first is used; smartctl_exporter shows none of any drive then (issue 324)."""
    line = SATA["ata_smart_attributes"]["table"][0]
    twice = SATA | {"ata_smart_attributes": {"table": [line, line | {"raw": {"value": 13}}]}}
    assert shown(twice) == shown(SATA)


@pytest.mark.parametrize("number", [10**400, math.nan, math.inf, "NaN", "-", None, [1], {"a": 1}])
def test_what_is_no_number_is_0_as_there(number: object) -> None:
    """Text with a number in it is a number, as some versions of smartctl print it."""
    found = shown(SATA | {"user_capacity": {"blocks": number, "bytes": "12"}})
    assert found["smartctl_device_capacity_blocks{device=sda}"] == 0
    assert found["smartctl_device_capacity_bytes{device=sda}"] == 12


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@given(st.sampled_from([SATA, SAS, NVME]), st.data())
def test_no_broken_output_breaks_it(document: dict[str, Any], data: st.DataObject) -> None:
    """Any field of any type: the series are still numbers with labels, each once."""
    broken = json.loads(json.dumps(document))
    place = broken
    while True:
        key = data.draw(st.sampled_from(sorted(place, key=str)))
        if not isinstance(place[key], dict) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(VALUES)
    packed = pack(broken)
    polled = PollResult(
        AccessMethod("/dev/sda"), ReadStatus.READ, drive=Drive(Protocol.ATA, exported=packed)
    )
    found = samples(Disks({"X": Disk("X", polled)}))
    assert len({(name, labels) for name, labels, _ in found}) == len(found)
    for _, labels, number in found:
        assert isinstance(number, float)
        assert all(isinstance(text, str) for _, text in labels)


def at(document: Any, path: str) -> Any:  # noqa: ANN401 - whatever the JSON has
    """Return the value at a path like 'a.b'; None without one."""
    for key in path.split("."):
        document = document.get(key) if isinstance(document, dict) else None
    return document


PLAIN = (
    ("smartctl_device_capacity_bytes", "user_capacity.bytes", 1, True),
    ("smartctl_device_power_cycle_count", "power_cycle_count", 1, False),
    ("smartctl_device_smart_status", "smart_status.passed", 1, False),
    ("smartctl_device_nvme_capacity_bytes", "nvme_total_capacity", 1, False),
    (
        "smartctl_device_media_errors",
        "nvme_smart_health_information_log.media_errors",
        1,
        False,
    ),
    (
        "smartctl_device_bytes_written",
        "nvme_smart_health_information_log.data_units_written",
        512000,
        False,
    ),
    ("smartctl_scsi_grown_defect_list", "scsi_grown_defect_list", 1, False),
    (
        "smartctl_read_total_uncorrected_errors",
        "scsi_error_counter_log.read.total_uncorrected_errors",
        1,
        False,
    ),
)
"""Metric, path of its value, factor, and whether it is 0 if that is missing."""


def test_its_own_test_data() -> None:
    """117 outputs of real drives: the values are those of the JSON, each drive's are complete."""
    files = sorted(corpus(TESTDATA).glob("*.json"))
    assert len(files) == 117
    for file in files:
        document = json.loads(file.read_text())
        found = samples(machine(document))
        values = {name: number for name, _, number in found}
        assert values["smartctl_devices"] == values["smartctl_version"] == 1
        for name, path, factor, zero in PLAIN:
            expected = at(document, path)
            if name == "smartctl_device_power_cycle_count" and expected is None:
                expected = at(
                    document, "scsi_start_stop_cycle_counter.accumulated_start_stop_cycles"
                )
            if expected is None:
                if name == "smartctl_device_bytes_written":
                    continue
                assert values.get(name) == (0 if zero else None), (file.name, name)
            else:
                assert values[name] == float(expected) * factor, (file.name, name)
        raw = {
            dict(labels)["attribute_id"]: number
            for name, labels, number in found
            if name == "smartctl_device_attribute" and dict(labels)["attribute_value_type"] == "raw"
        }
        table = at(document, "ata_smart_attributes.table") or []
        assert raw == {str(line["id"]): float(line["raw"]["value"]) for line in table}, file.name
        identity = next(dict(labels) for name, labels, _ in found if name == "smartctl_device")
        model = document.get("model_name") or document["scsi_model_name"]
        assert (identity["model_name"], identity["serial_number"]) == (
            model.strip(),
            document["serial_number"].strip(),
        )


def test_every_name_of_its_series_is_declared() -> None:
    """'iowarden rules check' reports any other name as one that never matches."""
    found = samples(machine(SATA, SAS, NVME))
    assert {name for name, _, _ in found} <= NAMES
    assert {"smartctl_device_attribute", "smartctl_read_total_uncorrected_errors"} <= NAMES
