"""The values of drives that are stored for years, and how users select one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.polled_disks import direct, disks, drive
from support.simulation import START

from iowarden.collectors.smart.drive import (
    Attribute,
    ErrorCounter,
    NvmeHealth,
    Protocol,
    ScsiHealth,
)
from iowarden.rules.smart import history_fields

PENDING = Attribute(197, "Current_Pending_Sector", 200, 200, 0, 5, "5", prefail=False)
HIDDEN = replace(PENDING, raw=None, raw_text="", value=193)
HOURS = Attribute(9, "Power_On_Hours", 80, 80, 0, None, "20123h+05m+01.5s", prefail=False)


def test_what_alerts_are_about_is_kept_with_each_change() -> None:
    """Pending sectors at each change, hours once a day; what is not reported, never."""
    found = history_fields.values(drive("S1", attributes=(PENDING, HOURS), power_on_hours=20_123))
    assert found == {
        "197 raw": (5.0, True),
        "197 value": (200.0, True),
        "9 value": (80.0, False),
        "temperature_celsius": (31.0, False),
        "power_on_hours": (20_123.0, False),
    }
    assert "197 raw" not in history_fields.values(drive("S1", attributes=(HIDDEN,)))


def test_every_kind_of_drive_has_its_numbers() -> None:
    """Uncorrected errors of SAS, media errors of NVMe."""
    counted = ScsiHealth(
        {"read": ErrorCounter(7, 1, 1.0), "verify": ErrorCounter(None, None, None)}, 3
    )
    sas = history_fields.values(drive("S1", protocol=Protocol.SCSI, scsi=counted))
    assert sas["uncorrected_read_total"] == (1.0, True)
    assert sas["grown_defects"] == (3.0, True)
    assert "uncorrected_verify_total" not in sas
    nvme = history_fields.values(
        drive("S1", protocol=Protocol.NVME, nvme=NvmeHealth(media_errors_total=2))
    )
    assert nvme["media_errors_total"] == (2.0, True)
    assert {*sas, *nvme} <= set(history_fields.NAMES)


def test_a_drive_is_noted_when_it_was_read_and_not_again() -> None:
    """Two disks; the second is read once more."""
    first, second = direct("sda", "S1"), direct("sdb", "S2")
    rows, told = history_fields.fresh(disks(first, second), {})
    assert {row[0] for row in rows} == {"S1", "S2"}
    assert history_fields.fresh(disks(first, second), told) == ([], told)
    later = replace(second, polled=replace(second.polled, read_seconds=START + 1800))
    lost = replace(first, polled=replace(first.polled, drive=None))
    rows, told = history_fields.fresh(disks(lost, later), told)
    assert {row[0] for row in rows} == {"S2"}
    assert told == {"S1": START, "S2": START + 1800}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("197", ("197 raw", "197 value")),
        ("197 value", ("197 value",)),
        ("197.raw", ("197 raw",)),
        ("0197", ("197 raw", "197 value")),
        ("current_pending_sector", ("197 raw", "197 value")),
        ("Current-Pending-Sector value", ("197 value",)),
        ("temperature_celsius", ("temperature_celsius",)),
        ("temp", ("temperature_celsius",)),
        ("power", ("power_on_hours", "power_cycles")),
        ("nonsense", ()),
        ("", ()),
        ("²", ()),
    ],
)
def test_a_person_names_an_attribute_as_it_comes_to_mind(text: str, names: tuple[str, ...]) -> None:
    """By number, by smartctl's name, by the beginning of our name."""
    assert history_fields.candidates(text, drive("S1", attributes=(PENDING,))) == names
