"""Self-test logs of ATA, SCSI and NVMe: each row that smartctl can print, as it is pasted."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from iowarden.collectors.smart.drive import Drive, SelfTest
from iowarden.collectors.smart.smartctl import parse
from iowarden.collectors.smart.smartctl_selftests import self_test_passed
from iowarden.collectors.tool_output.drives import parse_smartctl

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = """\
smartctl 7.4 2023-08-01 r5530 [x86_64-linux-6.8.12] (local build)
{name}:     MADEUP 1
Serial Number:    S1
{health}
"""
ATA = HEAD.format(
    name="Device Model", health="SMART overall-health self-assessment test result: PASSED"
)
SCSI = HEAD.format(
    name="Product", health="SMART Health Status: OK\nElements in grown defect list: 0"
)
NVME = HEAD.format(name="Model Number", health="Critical Warning:                   0x00")

# Formats and words: smartmontools 7.5, ataprint.cpp, scsiprint.cpp, nvmeprint.cpp.
ATA_KINDS = (
    *("Offline", "Short offline", "Extended offline", "Conveyance offline", "Selective offline"),
    *("Abort offline test", "Short captive", "Extended captive", "Vendor (0x40)"),
)
ATA_STATUSES = (
    *("Completed without error", "Aborted by host", "Interrupted (host reset)"),
    *("Fatal or unknown error", "Completed: unknown failure", "Completed: electrical failure"),
    *("Completed: servo/seek failure", "Completed: read failure", "Completed: handling damage??"),
    "Self-test routine in progress",
)
SCSI_KINDS = ("Default         ", "Background short", "Background long ", "Foreground long ")
SCSI_STATUSES = (
    *("Completed                ", "Aborted (by user command)", "Aborted (device reset ?) "),
    *("Unknown error, incomplete", "Completed, segment failed", "Failed in first segment  "),
    *("Failed in second segment ", "Failed in segment -->    "),
)
NVME_KINDS = ("Short", "Extended", "Vendor specific")
NVME_STATUSES = (
    *("Completed without error", "Aborted: Self-test command", "Aborted: Controller Reset"),
    *("Aborted: Namespace removed", "Fatal or unknown test error"),
    *("Completed: unknown failed segment", "Completed: failed segments"),
)


def ata_row(kind: str, status: str) -> str:
    """Return a row of an ATA drive's log."""
    lba = "1953525160" if self_test_passed(status) is False else "-"
    return f"# 1  {kind:<19} {status:<29} 00%  {8754:8}         {lba}"


def scsi_row(kind: str, status: str) -> str:
    """Return a row of a SCSI drive's log."""
    lba = "1953525160" if self_test_passed(status.strip()) is False else "-"
    return f"# 1  {kind}  {status}   -   {8754:5}{lba:>18} [-   -    -]"


def nvme_row(kind: str, status: str) -> str:
    """Return a row of an NVMe drive's log."""
    lba = "1953525160" if self_test_passed(status) is False else "-"
    return f" 0   {kind:<17} {status:<33} {8754:9} {lba:>12} {'-':>5} {'-':>3} {'-':>3} {'-':>4}"


LOGS: dict[str, tuple[str, str, Callable[[str, str], str], tuple[str, ...], tuple[str, ...]]] = {
    "ata": (
        ATA,
        "SMART Extended Self-test Log Version: 1 (1 sectors)",
        ata_row,
        ATA_KINDS,
        ATA_STATUSES,
    ),
    "scsi": (SCSI, "SMART Self-test log", scsi_row, SCSI_KINDS, SCSI_STATUSES),
    "nvme": (
        NVME,
        "Self-test Log (NVMe Log 0x06, NSID 0xffffffff)",
        nvme_row,
        NVME_KINDS,
        NVME_STATUSES,
    ),
}


def log_of(head: str, section: str, row: str) -> tuple[SelfTest, ...]:
    """Return the self-tests of a text with one row."""
    drive = parse(f"{head}\n{section}\n{row}\n")
    assert isinstance(drive, Drive)
    assert not drive.read_errors
    return drive.self_tests


@pytest.mark.parametrize("name", LOGS)
def test_a_row_is_read_however_its_blanks_were_changed(name: str) -> None:
    """Squeezed by a forum, turned into tabs, or indented: the kind and the result are the same."""
    head, section, make_row, kinds, statuses = LOGS[name]
    for kind, status in product(kinds, statuses):
        row = make_row(kind, status)
        whole = log_of(head, section, row)
        assert len(whole) == 1, row
        assert whole[0].hours == 8754
        assert whole[0].passed is self_test_passed(status.replace(" -->", "").strip())
        for changed in (" ".join(row.split()), "\t".join(row.split()), "    " + row):
            assert log_of(head, section, changed) == whole, changed


def nvme_json(*slots: tuple[int, str, str, int] | None) -> Drive:
    """Return an NVMe drive with these slots: code, its text, result, hours; None: unused."""
    table: list[Any] = [
        slot
        and {
            "self_test_code": {"value": slot[0], "string": slot[1]},
            "self_test_result": {"string": slot[2]},
            "power_on_hours": slot[3],
        }
        for slot in slots
    ]
    document = {
        "smartctl": {"version": [7, 4], "exit_status": 0},
        "device": {"protocol": "NVMe"},
        "smart_status": {"passed": True},
        "nvme_smart_health_information_log": {"critical_warning": 0, "power_on_hours": 10093},
        "nvme_self_test_log": {"table": table},
    }
    drive = parse(json.dumps(document))
    assert isinstance(drive, Drive)
    return drive


PASSED, FAILED = "Completed without error", "Completed: failed segments"


def test_a_slot_of_unknown_kind_settles_nothing_and_alarms_nothing() -> None:
    """Its code has no meaning, so its result has none: neither passed, failed nor unreadable."""
    for result in (PASSED, FAILED, "Fatal or unknown test error", "Unknown result (0xa)"):
        drive = nvme_json((1, "Short", PASSED, 10090), None, (15, "Unknown (0xf)", result, 0))
        assert [test.passed for test in drive.self_tests] == [True, None]
        assert not drive.read_errors


def test_an_nvme_log_is_ordered_by_the_hours_of_its_slots() -> None:
    """An old failure in a slot before a newer pass is older than it, and settled by it."""
    drive = nvme_json((2, "Extended", FAILED, 40), (2, "Extended", PASSED, 10090))
    assert [(test.hours, test.passed) for test in drive.self_tests] == [(10090, True), (40, False)]
    newest = nvme_json((2, "Extended", FAILED, 10091), (2, "Extended", PASSED, 10090))
    assert newest.self_tests[0].passed is False


def test_an_unknown_result_is_reported_until_a_newer_test_passes() -> None:
    """What a newer test has settled need not be readable."""
    unknown = (1, "Short", "Unknown result (0xa)", 90)
    assert nvme_json(unknown).read_errors
    assert not nvme_json((1, "Short", PASSED, 10090), unknown).read_errors


@pytest.mark.parametrize(
    ("between", "is_sorted"),
    [
        *product(["", "\n", " ", ",\n", "\n--- /dev/sdb ---\n", '\n"\n'], [False, True]),
        ("\n[root@host ~]# smartctl {\n", False),
    ],
)
def test_several_answers_in_one_text_are_one_drive_each(between: str, *, is_sorted: bool) -> None:
    """Whatever stands between them, and also if another program sorted their names."""
    answers = [
        json.dumps(
            {
                "json_format_version": [1, 0],
                "smartctl": {"version": [7, 4], "exit_status": 0},
                "device": {"protocol": "ATA"},
                "serial_number": f"S{number}",
                "smart_status": {"passed": True},
                "ata_smart_error_log": {"summary": {"count": 0, "text": 'a "}" in it'}},
            },
            sort_keys=is_sorted,
        )
        for number in range(3)
    ]
    parsed = parse_smartctl(between.join(answers))
    assert [drive.serial for drive in parsed.drives] == ["S0", "S1", "S2"]
    assert not parsed.unparsed


def test_json_and_text_of_smartctl_in_one_paste_are_both_read() -> None:
    """Also if the text begins on the line on which the JSON ends."""
    answer = json.dumps({"smartctl": {"exit_status": 0}, "smart_status": {"passed": False}})
    parsed = parse_smartctl(answer + ATA + answer + "\n" + ATA)
    assert [drive.passed for drive in parsed.drives] == [False, True, False, True]
