"""`iowarden explain` with sessions of Areca's 'cli64', as users paste them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from support.explained import read

BANNER = """\
Copyright (c) 2004 Areca, Inc. All Rights Reserved.
Areca CLI, Version: 1.86, Arclib: 310, Date: Nov  1 2010( Linux )

 Controllers List
 ----------------------------------------
 Controller#01(PCI): ARC-1231
 Current Controller: Controller#01
 ----------------------------------------

CMD     Description
==========================================================
main    Show Command Categories.
rsf     RaidSet Functions.
hw      Hardware Monitor Functions.
exit    Exit CLI.
==========================================================
Command Format: <CMD> [Sub-Command] [Parameters].
Note: Use <CMD> -h or -help to get details.
"""
SMART = """\
S.M.A.R.T Information For Drive[#0{number}]
  # Attribute Items                           Flag   Value  Thres  State
===============================================================================
  5 Reallocated Sector Count                  0x33     {five}    140  {state}
197 Current Pending Sector Count              0x12     {pending}      0  OK
===============================================================================
"""
EVENTS = """\
Date-Time            Device           Event Type            Elapsed Time Errors
===============================================================================
2026-05-04 06:14:51  H/W MONITOR      Raid Powered On
2026-05-04 05:44:24  IDE Channel #02  {event}
===============================================================================
"""
DISKS = """\
  # Ch# ModelName                       Capacity  Usage
===============================================================================
  1  1  WDC WD5003ABYX-01WERA1           500.1GB  my set
  2  2  WDC WD5003ABYX-01WERA1           500.1GB  {second}
  3  3  N.A.                               0.0GB  N.A.
===============================================================================
"""
SETS = """\
 #  Name             Disks TotalCap  FreeCap DiskChannels       State
===============================================================================
 1  my set               2 1000.0GB    0.0GB 12                 {state}
===============================================================================
"""
HARDWARE = """\
The Hardware Monitor Information
===========================================
Battery Status      : Not Installed
CPU Temperature     : 61 (Celsius)
Power +12V          : 11.916
HDD #1  Temp.       : 43
HDD #9  Temp.       : 0
===========================================
"""


def session(*outputs: str, end: str = "GuiErrMsg<0x00>: Success.\n", blanks: bool = True) -> str:
    """A session with banner, menu and prompts, of a version that prints an end or none."""
    text = BANNER + "".join(f"CLI> disk info\n{each}{end}\n" for each in outputs) + "CLI> exit\n"
    return text if blanks else re.sub(" +", " ", text)


def data(text: str) -> dict[str, Any]:
    """The answer."""
    answer: dict[str, Any] = json.loads(read(text).json())
    return answer


WELL = (
    SMART.format(number=1, five=200, pending=200, state="OK"),
    EVENTS.format(event="HTTP Log In"),
    DISKS.format(second="my set"),
    SETS.format(state="Normal"),
    HARDWARE,
)


@pytest.mark.parametrize("blanks", [True, False], ids=["columns", "squeezed"])
@pytest.mark.parametrize("end", ["GuiErrMsg<0x00>: Success.\n", ""], ids=["new", "old"])
def test_a_healthy_session_has_nothing_wrong(end: str, *, blanks: bool) -> None:
    """Neither the menu nor the banner is a sensor, and all five outputs are read."""
    told = data(session(*WELL, end=end, blanks=blanks))
    assert told["status"] == 0, told
    assert told["outputs"] == [
        f"cli64 {command}"
        for command in ("disk smart drv=N", "event info", "disk info", "rsf info", "hw info")
    ]
    assert not [each for each in told["objects"] if each["type"] == "sensor"]
    (first, _) = [each for each in told["objects"] if each["type"] == "disk" and each["parent"]]
    assert first["details"]["array"] == "raid set 1"
    assert first["details"]["celsius"] == 43


FAULTS = {
    "reading error": (EVENTS.format(event="Reading Error"), "areca_reading_error"),
    "pending": (
        SMART.format(number=2, five=200, pending=193, state="OK"),
        "DiskNormalizedValueLow",
    ),
    "prefail": (
        SMART.format(number=2, five=139, pending=200, state="Fail"),
        "DiskAttributeFailed",
    ),
    "failed disk": (DISKS.format(second="Failed"), "ControllerDiskFailed"),
    "degraded": (SETS.format(state="Degraded"), "ControllerArrayDegraded"),
}


@pytest.mark.parametrize("blanks", [True, False], ids=["columns", "squeezed"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_session_is_the_only_alert(fault: str, *, blanks: bool) -> None:
    """Whichever output has it, and wherever it stands between healthy ones."""
    bad, alert = FAULTS[fault]
    told = data(session(WELL[0], HARDWARE, bad, SETS.format(state="Normal"), end="", blanks=blanks))
    assert told["status"] == 1
    own = {each["alert"] for each in told["alerts"]}
    assert own == {alert}, told["alerts"]


def test_lines_of_events_and_the_number_of_a_drive_are_those_of_the_text() -> None:
    """The user finds the line again, and pulls the right disk."""
    bad = SMART.format(number=2, five=200, pending=193, state="OK")
    text = session(bad, EVENTS.format(event="Reading Error"))
    told = data(text)
    assert {
        each["object"] for each in told["alerts"] if each["alert"] != "areca_reading_error"
    } == {"disk drive 2"}
    (event,) = [each for each in told["events"] if each["class"] == "areca_reading_error"]
    assert "Reading Error" in text.split("\n")[event["line"] - 1]


def test_a_raid_set_name_is_no_state_without_the_list_of_raid_sets() -> None:
    """Any word may be a name; one that several disks share is no state. 'Failed' is one."""
    told = data(DISKS.format(second="my set") + "GuiErrMsg<0x00>: Success.\n")
    assert told["status"] == 0
    told = data(DISKS.format(second="Failed") + "GuiErrMsg<0x00>: Success.\n")
    assert "failed" in {each["state"] for each in told["objects"]}


def test_the_list_of_disks_above_the_raid_sets_knows_their_names() -> None:
    """A user lists disks first; a name that is in no list of RAID sets needs attention."""
    sets = SETS.format(state="Normal")
    assert data(session(DISKS.format(second="my set"), sets))["status"] == 0
    told = data(session(DISKS.format(second="my sett"), sets))
    assert "attention" in {each["state"] for each in told["objects"]}


OLDEST = """\
 #   ModelName        Serial#          FirmRev     Capacity  State
===============================================================================
 1   ST3250620NS      5QE1CP8S         3.AEE        250.1GB  RaidSet Member(1)
 2   WDC WD2500JD-00  WD-WMAEH1416638  02.05D02     250.1GB  RaidSet
Member(1)
===============================================================================
GuiErrMsg<0x00>: Success.
"""


@pytest.mark.parametrize("blanks", [True, False], ids=["columns", "squeezed"])
def test_the_oldest_layout_has_serial_numbers(*, blanks: bool) -> None:
    """Without a channel column, and with its last column wrapped by a mail."""
    told = data(OLDEST if blanks else re.sub(" +", " ", OLDEST))
    disks = {each["name"]: each["details"] for each in told["objects"] if each["type"] == "disk"}
    assert told["status"] == 0, told
    assert disks["channel 1"]["model"] == "ST3250620NS"
    assert disks["channel 2"]["serial"] == "WD-WMAEH1416638"


def test_a_refused_command_and_a_mere_menu_are_named() -> None:
    """Exit status 2: nothing was read."""
    told = data("CLI> disk selftest drv=2\nErrMsg: Drive 2 Is Not Available\n")
    assert (told["status"], told["unparsed"][0]["reason"]) == (2, "cli64 refused a command")
    told = data(BANNER)
    assert told["status"] == 2
    assert "got only the menu" in told["unparsed"][0]["reason"]


def test_a_second_controller_of_a_session_is_another_one() -> None:
    """Its RAID set 1 does not hide that of the first."""
    text = (
        session(SETS.format(state="Degraded"))
        + "CLI> set curctrl=2\n"
        + SETS.format(state="Normal")
    )
    told = data(text + "GuiErrMsg<0x00>: Success.\n")
    assert {each["name"] for each in told["objects"] if each["type"] == "controller"} == {
        *("areca 1", "areca 2"),
    }
    assert told["status"] == 1


def test_thousands_of_blanks_in_any_row_are_read_at_once() -> None:
    """A pattern that tries every blank at every position takes minutes; the run has a limit."""
    gap = " " * 5_000
    for text in (*WELL, OLDEST):
        spread = text.replace(" ", gap, 40)
        assert read(spread + "GuiErrMsg<0x00>: Success.\n", "cli64").status in {0, 1, 2}


def test_a_fan_that_reads_0_beside_one_that_turns_is_a_fault() -> None:
    """Not if its tool calls it absent; where none turns they may as well not be connected."""
    fans = HARDWARE.replace(
        "Battery", "Fan#1 Speed (RPM)   : {}\nFan#2 Speed (RPM)   : {}\nBattery"
    )
    assert data(session(fans.format(2600, 2700)))["status"] == 0
    assert data(session(fans.format("N.A.", 2700)))["status"] == 0
    assert data(session(fans.format(0, 0)))["status"] == 2
    told = data(session(fans.format(0, 2700)))
    assert [each["alert"] for each in told["alerts"]] == ["ControllerSensorFault"]
    assert "Fan#1" in told["alerts"][0]["text"]


@pytest.mark.parametrize(
    ("state", "status"), [("Checking(41.7%)", 0), ("Normal", 0), ("Degraded", 1)]
)
def test_a_table_whose_head_looks_like_a_command_of_root(state: str, status: int) -> None:
    """Old versions do not indent '# Name Raid# Level': it is no command behind the prompt '#'."""
    rule = "=" * 79
    told = read(
        "# areca rsf info\nNum Name             Disks TotalCap  FreeCap DiskChannels       State\n"
        f"{rule}\n1  Raid Set # 00       12 3000.0GB    0.0GB 123456789ABC       Normal\n{rule}\n"
        "GuiErrMsg<0x00>: Success.\n\n# areca vsf info\n"
        f"# Name             Raid# Level   Capacity Ch/Id/Lun  State\n{rule}\n"
        f"1 ARC-1160-VOL#00    1   Raid6   2500.0GB 00/00/00   {state}\n{rule}\n"
        "GuiErrMsg<0x00>: Success.\n\n# areca disk info\n"
        f"# Ch# ModelName                       Capacity  Usage\n{rule}\n"
        f"1  1  WDC WD5003ABYX-01WERA1           500.1GB  Raid Set # 00\n{rule}\n"
        "GuiErrMsg<0x00>: Success.\n"
    )
    assert (told.status, told.unparsed) == (status, ())
    assert [each.name for each in told.objects][1:] == ["raid set 1", "volume 1", "channel 1"]
