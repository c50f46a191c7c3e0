"""Background scan of SAS drives: bad sectors that were neither reassigned nor rewritten."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iowarden.collectors.smart.drive import Drive
from iowarden.collectors.smart.smartctl import parse
from iowarden.collectors.tool_output.drives import parse_smartctl

HEAD = """\
smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0] (local build)
Vendor:               MADEUP
Product:              SAS1
Serial number:        S1
Transport protocol:   SAS (SPL-4)
SMART Health Status: OK

Background scan results log
  Status: waiting until BMS interval timer expires
    Accumulated power on time, hours:minutes 5554:16 [333256 minutes]
    Number of background scans performed: 422,  scan progress: 0.00%
    Number of background medium scans performed: 422

   #  when        lba(hex)    [sk,asc,ascq]    reassign_status
"""
# Words by code: smartmontools 7.5, scsiprint.cpp, reassign_status.
STATUSES = {
    0: ("Reserved [0x0]", False),
    1: ("Require Write or Reassign Blocks command", True),
    2: ("Successfully reassigned", False),
    4: ("Reassignment by disk failed", True),
    5: ("Recovered via rewrite in-place", False),
    6: ("Reassigned by app, has valid data", False),
    7: ("Reassigned by app, has no valid data", False),
    8: ("Unsuccessfully reassigned by app", True),
}


def row(number: int, hours: int, sector: int, status: int) -> str:
    """Return a row of the log."""
    return f" {number:3} {hours:4}:16  {sector:016x}  [3,11,0]   {STATUSES[status][0]}"


def of_text(*rows: str) -> int | None:
    """Return the count of a text with these rows."""
    drive = parse(HEAD + "\n".join(rows) + "\n")
    assert isinstance(drive, Drive)
    assert drive.scsi is not None
    return drive.scsi.unreassigned_sectors


def of_json(log: object) -> int | None:
    """Return the count of a JSON with this log."""
    document: dict[str, Any] = {
        "smartctl": {"version": [7, 5], "exit_status": 0},
        "device": {"protocol": "SCSI"},
        "smart_status": {"passed": True},
        "scsi_grown_defect_list": 0,
        "scsi_background_scan": log,
    }
    drive = parse(json.dumps(document))
    assert isinstance(drive, Drive)
    assert drive.scsi is not None
    return drive.scsi.unreassigned_sectors


def result(minutes: int, sector: int, status: int) -> dict[str, Any]:
    """Return an entry of the JSON."""
    return {
        "accumulated_power_on": {"minutes": minutes},
        "lba": sector,
        "reassign_status": {"value": status, "string": STATUSES[status][0]},
    }


@pytest.mark.parametrize("status", STATUSES)
def test_each_status_in_text_and_json(status: int) -> None:
    """Blanks may be squeezed, or tabs."""
    expected = int(STATUSES[status][1])
    line = row(1, 5554, 0xEFAF7808, status)
    for changed in (line, " ".join(line.split()), "\t".join(line.split())):
        assert of_text(changed) == expected
    assert of_json({"status": {"value": 8}, "result_1": result(9, 7, status)}) == expected


def test_the_newest_entry_of_a_sector_counts() -> None:
    """A sector that is found in each scan is one; one that was rewritten since is none."""
    assert of_text(row(1, 96, 0, 1), row(2, 93, 0, 1), row(3, 90, 0, 1), row(4, 90, 8, 4)) == 2
    assert of_text(row(1, 96, 0, 5), row(2, 93, 0, 1)) == 0
    assert of_text(row(1, 90, 0, 5), row(2, 93, 0, 1)) == 1


def test_a_log_without_entries_is_none_and_no_log_is_unknown() -> None:
    """A healthy drive scans and finds nothing; an older one has no such page."""
    assert of_text() == 0
    assert of_json({"status": {"value": 0, "string": "no scans active"}}) == 0
    assert of_json(None) is None
    assert of_json("no") is None


# Words by code: smartmontools 7.5, scsiprint.cpp, bms_status; the third: whether it stopped.
SCAN_STATUSES = (
    (0, "no scans active", False),
    (1, "scan is active", False),
    (2, "pre-scan is active", False),
    (3, "halted due to fatal error", True),
    (4, "halted due to a vendor specific pattern of error", True),
    (5, "halted due to medium formatted without P-List", True),
    (6, "halted - vendor specific cause", True),
    (7, "halted due to temperature out of range", False),
    (8, "waiting until BMS interval timer expires", False),
)


@pytest.mark.parametrize(("code", "words", "is_halted"), SCAN_STATUSES)
def test_a_drive_that_stopped_its_background_scan_is_told(
    code: int, words: str, is_halted: bool
) -> None:
    """It finds no bad sectors any more, and says so only there; of a hot drive it goes on later."""
    document = {
        "smartctl": {"version": [7, 5], "exit_status": 0},
        "device": {"protocol": "SCSI"},
        "serial_number": "S1",
        "smart_status": {"passed": True},
        "scsi_grown_defect_list": 0,
        "scsi_background_scan": {"status": {"value": code, "string": words}},
    }
    text = HEAD.replace("waiting until BMS interval timer expires", words)
    for output in (
        text,
        "\n".join(line.strip() for line in text.split("\n")),
        json.dumps(document),
    ):
        findings = parse_smartctl(output).findings
        assert [(each.severity, each.object) for each in findings] == [("notice", "S1")] * is_halted
        assert all(words in each.text for each in findings)
