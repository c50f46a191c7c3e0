"""ATA's device statistics: used endurance and sectors transferred, in JSON and in text."""

from __future__ import annotations

import json

import pytest

from iowarden.collectors.smart.drive import Drive
from iowarden.collectors.smart.smartctl import parse

HEAD = """\
smartctl 7.4 2023-08-01 r5530 [x86_64-linux-6.8.12] (local build)
Device Model:     MADEUP SSD
Serial Number:    S1
Rotation Rate:    Solid State Device
SMART overall-health self-assessment test result: PASSED

"""


def text_drive(*lines: str) -> Drive:
    """Return the drive of a text with these lines of device statistics."""
    found = parse(HEAD + "Device Statistics (GP Log 0x04)\n" + "\n".join(lines) + "\n")
    assert isinstance(found, Drive)
    return found


def json_drive(**values: object) -> Drive:
    """Return the drive of a JSON with a page 7; `values` replace fields of its row."""
    row = {"offset": 8, "value": 98, "flags": {"valid": True, "normalized": False}, **values}
    found = parse(
        json.dumps(
            {
                "smartctl": {"version": [7, 5], "exit_status": 0},
                "device": {"protocol": "ATA"},
                "serial_number": "S1",
                "smart_status": {"passed": True},
                "endurance_used": {"current_percent": 3},
                "ata_device_statistics": {"pages": [None, {"number": 7, "table": [row]}]},
            }
        )
    )
    assert isinstance(found, Drive)
    return found


@pytest.mark.parametrize(
    ("line", "ratio"),
    [
        ("0x07  0x008  1              41  ---  Percentage Used Endurance Indicator", 0.41),
        ("0x07  0x008  1             137  N--  Percentage Used Endurance Indicator", 1.37),
        ("0x07\t0x008\t1\t98\t---\tPercentage Used Endurance Indicator", 0.98),
        ("  7  0x008  1               98~ Percentage Used Endurance Indicator", 0.98),
        ("  7  0x008  1                0  Percentage Used Endurance Indicator", 0.0),
        ("0x07  0x008  1               -  ---  Percentage Used Endurance Indicator", None),
        ("0x07  =====  =               =  ===  == Solid State Device Statistics (rev 1) ==", None),
        ("0x05  0x008  1              41  ---  Current Temperature", None),
    ],
)
def test_the_used_endurance_in_text_of_each_version(line: str, ratio: float | None) -> None:
    """A value that the drive does not know yet is '-', and unknown; above 100 is allowed."""
    assert text_drive(line).endurance_used_ratio == ratio


@pytest.mark.parametrize(
    ("values", "ratio"),
    [
        ({}, 0.98),
        ({"value": 255}, 2.55),
        ({"value": 0}, 0.0),
        ({"flags": {"valid": False}}, None),
        ({"offset": 16}, None),
        ({"value": "98"}, None),
        ({"value": True}, None),
    ],
)
def test_the_used_endurance_in_json_is_that_of_page_7(
    values: dict[str, object], ratio: float | None
) -> None:
    """Beside it smartctl 7.5 has 'endurance_used', which is its guess if the page has none."""
    assert json_drive(**values).endurance_used_ratio == ratio


def test_sectors_read_and_written_are_one_amount() -> None:
    """Page 1: it must increase while a disk is in use."""
    written = "0x01  0x018  6     68639244990  ---  Logical Sectors Written"
    read = "0x01  0x028  6      4663028036  ---  Logical Sectors Read"
    assert text_drive(written, read).transferred_sectors_total == 73302273026
    assert text_drive(written).transferred_sectors_total == 68639244990
    assert text_drive().transferred_sectors_total is None


def test_the_log_of_pending_defects_counts_beside_an_attribute_that_reads_0() -> None:
    """One row for each sector; its hours may be unknown. An empty log is none."""
    heading = ("Pending Defects log (GP Log 0x0c)", "Index                LBA    Hours")
    rows = ("    0         8812331120    16190", "    1         8812331121        -")
    assert text_drive(*heading, *rows).pending_sectors == 2
    assert (
        text_drive(*heading, *rows, "", "SATA Phy Event Counters (GP Log 0x11)").pending_sectors
        == 2
    )
    assert text_drive(heading[0], "No Defects Logged").pending_sectors == 0
    assert text_drive().pending_sectors is None
