"""'iowarden explain' of a part of an output: what is absent is no fact, and no error either."""

from __future__ import annotations

import pytest
from support.explained import read

from iowarden.collectors.parsed_text import Tool
from iowarden.collectors.tool_output.parse import parse

BANNER = "smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0-28-amd64] (local build)\n\n"
PASSED = "SMART overall-health self-assessment test result: PASSED\n\n"
NO_ERRORS = "SMART Error Log Version: 1\nNo Errors Logged\n\n"
TESTS = """\
SMART Self-test log structure revision number 1
Num  Test_Description    Status                  Remaining  LifeTime(hours)  LBA_of_first_error
# 1  {}
"""


@pytest.mark.parametrize(
    "text",
    [
        PASSED + NO_ERRORS,
        PASSED + TESTS.format("Extended offline    Completed without error       00%     1203   -"),
        TESTS.format("Extended offline    Completed without error       00%     1203         -"),
    ],
)
def test_logs_of_a_drive_are_data_without_its_attributes(text: str) -> None:
    """'smartctl -H -l error', '-l selftest': all that was requested was read."""
    explained = read(BANNER + text)
    assert (explained.status, explained.unparsed) == (0, ())


def test_a_failure_without_a_sector_names_none() -> None:
    """Of a servo or electrical failure smartctl prints sector 0, which is no fact."""
    row = "Short offline       Completed: servo/seek failure 90%     1203         {}"
    for sector in ("0", "-"):
        (alert,) = read(BANNER + PASSED + TESTS.format(row.format(sector))).alerts
        assert alert.alert == "DiskSelfTestFailed"
        assert "sector" not in alert.text
    read_failure = row.replace("servo/seek", "read").format(0)
    (alert,) = read(BANNER + PASSED + TESTS.format(read_failure)).alerts
    assert alert.text.endswith("first bad sector 0")


def test_a_logical_drive_without_its_controller_caches_as_its_row_says() -> None:
    """'ssacli ... ld show detail': whether a battery works stands in the controller's rows."""
    text = """
Smart Array P408i-a in Slot 2

   Array A

      Logical Drive: 1
         Size: 1.09 TB
         Fault Tolerance: 1
         Status: OK
         Caching:  {}
         Unique Identifier: 600508B1001C0000000000000000000A
"""
    for word in ("Enabled", "Disabled"):
        explained = read(text.format(word))
        assert (explained.status, explained.unparsed) == (0, ()), word


@pytest.mark.parametrize("generation", ["2", "3"])
def test_an_adapter_is_named_by_the_program_that_printed_it(generation: str) -> None:
    """Commands that the advice names must exist on this host."""
    text = f"""\
LSI Corporation SAS{generation} IR Configuration Utility.

Adapter      Vendor  Device                       SubSys  SubSys
 Index    Type          ID      ID    Pci Address          Ven ID  Dev ID
 -----  ------------  ------  ------  -----------------    ------  ------
   0     SAS3008      1000h    97h    00h:03h:00h:00h      1000h   3090h
"""
    (controller,) = read(text).objects
    assert controller.name == f"sas{generation}ircu 0"


SUPERBLOCK = """\
dumpe2fs 1.47.0 (5-Feb-2023)
Filesystem volume name:   <none>
Last mounted on:          /srv/a
Filesystem state:         {}
Inode count:              4096
Block size:               4096
"""


def test_errors_that_the_kernel_recorded_in_a_superblock_are_told() -> None:
    """'dumpe2fs -h': as severe as the line that the kernel prints of them at each mount."""
    assert read(SUPERBLOCK.format("clean")).status == 0
    # The banner is on stderr: a file has none of it.
    without_banner = parse(SUPERBLOCK.format("clean").partition("\n")[2], Tool.DUMPE2FS)
    assert (without_banner.outputs, without_banner.unparsed) == (("dumpe2fs -h",), ())
    counted = SUPERBLOCK.format("clean") + "FS Error count:           3\n"
    for text in (SUPERBLOCK.format("clean with errors"), counted):
        explained = read(text)
        (alert,) = explained.alerts
        assert (alert.severity, alert.object) == ("warning", "/srv/a")
        assert explained.unparsed == ()
    assert "3 errors since its last check" in read(counted).alerts[0].text


ADAPTER = """\
Adapter #0

                    Versions
                ================
Product Name    : LSI MegaRAID SAS 9260-4i

                Device Present
                ================
Virtual Drives    : 1
  Degraded        : {}
  Offline         : 0
Physical Devices  : 3
  Disks           : 2
  Critical Disks  : 0
  Failed Disks    : {}

Exit Code: 0x00
"""


def test_faults_that_an_adapter_only_counts_are_told() -> None:
    """'MegaCli -AdpAllInfo' lists no array and no disk, but counts those that are not well."""
    assert read(ADAPTER.format(0, 0)).alerts == ()
    texts = [each.text for each in read(ADAPTER.format(1, 1)).alerts]
    assert any("degraded virtual drives: 1" in text for text in texts)
    assert any("failed disks: 1" in text for text in texts)
