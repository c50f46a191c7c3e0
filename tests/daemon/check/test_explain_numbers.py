"""'iowarden explain': that its summary, exit status and numbers say the same as its lists."""

from __future__ import annotations

import pytest
from support.explained import read

from iowarden.daemon.cli import explain_command
from iowarden.daemon.terminal import console

SMART = """\
smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0-28-amd64] (local build)

=== START OF INFORMATION SECTION ===
Device Model:     ACME SLOW-HDD
Serial Number:    SLOW1
User Capacity:    1,000,204,886,016 bytes [1.00 TB]

=== START OF READ SMART DATA SECTION ===
SMART overall-health self-assessment test result: PASSED

ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED RAW_VALUE
199 UDMA_CRC_Error_Count    0x003e   200   200   000    Old_age   Always       -       {count}

"""
ARCCONF = """\
Controllers found: 1
----------------------------------------------------------------------
Physical Device information
----------------------------------------------------------------------
      Device #0
         Device is a Hard drive
         State                              : Online
         Reported Channel,Device(T:L)       : 0,8(8:0)
         Reported Location                  : Enclosure 0, Slot 4
         Model                              : WD1000
         Serial number                      : WD-AAAA1
         S.M.A.R.T.                         : No
         {name:<35}: {count}


Command completed successfully.
"""


def test_the_summary_is_about_what_is_listed() -> None:
    """A battery that is charged is information; the warning would come after two days."""
    explained = read(
        "Smart Array P410i in Slot 0 (Embedded)\n   Controller Status: OK\n"
        "   Cache Status: Temporarily Disabled\n   Battery/Capacitor Status: Recharging\n"
    )
    assert [(each.severity, each.state) for each in explained.alerts] == [("info", "firing")]
    assert (explained.status, explained.summary()) == (0, "explain: nothing wrong: 1 info alert")


@pytest.mark.parametrize("count", [1, 999, 3118119, 4000000000])
def test_a_count_is_printed_with_all_of_its_digits(count: int) -> None:
    """A cable that was bad for years: '3.118119e+06' is no number of errors."""
    explained = read(SMART.format(count=count))
    assert explained.objects[0].counts["interface_crc"] == count
    tables = (each for each in explain_command.sections(explained) if not isinstance(each, str))
    assert f"interface_crc: {count}" in "".join(
        line for each in tables for line in console.columns(each)
    )
    (alert,) = explained.alerts
    assert alert.text.startswith(f"{count} old interface CRC error")


@pytest.mark.parametrize("name", ["S.M.A.R.T. warnings", "Medium errors", "Uncorrectable errors"])
def test_a_counter_whose_name_is_plural_gets_no_second_s(name: str) -> None:
    """The names are the tool's own."""
    (alert,) = read(ARCCONF.format(name=name, count=14)).alerts
    assert f": 14 {name.lower().removesuffix('s')}s on the disk" in alert.text
