"""'iowarden explain' of what mails, forums and web pages make of an output: the verdict stays.

The texts are of two machines each: one that is well, and one with a fault.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.explained import read

from iowarden.collectors.model import ParseError

if TYPE_CHECKING:
    from collections.abc import Callable

MDSTAT = """\
Personalities : [raid1]
md126 : active raid1 sda[1] sdb[0]{flag}
      976759808 blocks super external:/md127/0 {slots}

md127 : inactive sda[1](S) sdb[0](S)
      6306 blocks super external:imsm

unused devices: <none>
"""
ALARMS = """\
Ctl  Date                        Severity  AEN Message
------------------------------------------------------------------------------
c0   [Fri Mar 21 2008 14:30:00]  INFO      {text}
"""
SSACLI = """\
Smart Array P400 in Slot 1                (sn: P61)

   array A (SAS, Unused Space: 0 MB)

      logicaldrive 1 (136.7 GB, RAID 1, OK)

      physicaldrive 1I:1:1 (port 1I:box 1:bay 1, SAS, 146 GB, OK)
      physicaldrive 1I:1:2 (port 1I:box 1:bay 2, SAS, 146 GB, {state})
"""
MPT = """\
ioc0 vol_id 0 type IM, 2 phy, 136 GB, state {volume}, flags ENABLED
ioc0 phy 1 scsi_id 9 ACME     DISK             S513, 136 GB, state ONLINE, flags NONE
ioc0 phy 0 scsi_id 1 ACME     DISK             S513, 136 GB, state {disk}, flags NONE
"""
SCSI = """\
[0:0:0:0]    disk    ATA      ACME D1          0A82  /dev/sda
  state={state} queue_depth=32 scsi_level=6 type=0 device_blocked=0 timeout=30
"""
VERBOSE = """\
Tue 2023-03-07 03:12:44.123456 CET [s=0a1b;i=1;b=2c;m=1;t=1;x=1]
    _TRANSPORT=kernel
    PRIORITY=3
    SYSLOG_IDENTIFIER=kernel
    MESSAGE={message}
"""
PAIRS = {
    "mdstat": (
        MDSTAT.format(flag="", slots="[2/2] [UU]"),
        MDSTAT.format(flag="(F)", slots="[2/1] [_U]"),
    ),
    "tw_cli": (
        ALARMS.format(text="Verify completed: unit=0"),
        ALARMS.format(text="Degraded unit: unit=0, port=1").replace("INFO ", "ERROR"),
    ),
    "ssacli": (SSACLI.format(state="OK"), SSACLI.format(state="Failed")),
    "mpt-status": (
        MPT.format(volume="OPTIMAL", disk="ONLINE"),
        MPT.format(volume="DEGRADED", disk="FAILED"),
    ),
    "lsscsi": (SCSI.format(state="running"), SCSI.format(state="offline")),
    "journalctl": (
        VERBOSE.format(message="sd 2:0:0:0: [sdc] Attached SCSI disk"),
        VERBOSE.format(message="critical medium error, dev sdc, sector 2048 op 0x0:(READ)"),
    ),
}
DAMAGES: dict[str, Callable[[str], str]] = {
    "fenced": lambda text: f"Here is what I get:\n\n```\n{text}```\n\nIs my disk ok?\n",
    "fenced with its language": lambda text: f"```text\n{text}```\n",
    "a listing of Markdown": lambda text: "".join(f"    {line}\n" for line in text.splitlines()),
    "hard blanks": lambda text: text.replace("  ", "\u00a0 "),
    "blanks at the ends": lambda text: text.replace("\n", "   \n"),
    "quoted, with CRLF": lambda text: "".join(f"> {line}\r\n" for line in text.splitlines()),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("program", PAIRS)
def test_what_a_forum_makes_of_an_output_changes_no_verdict(program: str, damage: str) -> None:
    """Neither a false alarm on the healthy machine, nor a fault less on the other."""
    well, ill = PAIRS[program]
    assert read(DAMAGES[damage](well)).status == 0
    alerts = {(each.alert, each.object) for each in read(ill).alerts}
    assert alerts
    assert {(each.alert, each.object) for each in read(DAMAGES[damage](ill)).alerts} == alerts


def test_squeezed_blanks_leave_the_rows_of_a_mirror_and_of_a_device() -> None:
    """The columns of mpt-status have fixed widths; the state of 'lsscsi -l' is indented."""
    for program in ("mpt-status", "lsscsi"):
        well, ill = (
            "".join(f"{' '.join(line.split())}\n" for line in text.splitlines())
            for text in PAIRS[program]
        )
        assert (read(well).status, read(ill).status) == (0, 1)


def test_an_output_outside_of_the_fences_is_read_too() -> None:
    """Only prose is left out."""
    text = f"```\n{PAIRS['ssacli'][0]}```\nand:\n{PAIRS['mdstat'][1]}"
    assert {each.object for each in read(text).alerts} >= {"md126"}


def test_entries_without_their_indentation_are_entries() -> None:
    """Of 'journalctl -o json-pretty'."""
    entry = {"PRIORITY": "3", "SYSLOG_IDENTIFIER": "kernel", "_TRANSPORT": "kernel"}
    message = "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm ls: reading"
    pretty = json.dumps({**entry, "MESSAGE": message}, indent=0, separators=(",", " : "))
    assert [each.kind for each in read(pretty).events] == ["fs_error"]


@pytest.mark.parametrize(
    "text",
    [
        "Error: Another instance of hpacucli is running! Stop it first.\n",
        "Error: (CLI:003) Specified controller does not exist.\n",
        "mdadm: cannot open /dev/md0: No such file or directory\n",
        "cannot open 'tank': no such pool\n",
        "bash: storcli: command not found\n",
    ],
)
def test_a_command_that_failed_is_told_as_that(text: str) -> None:
    """It is no output of a program that is not known."""
    with pytest.raises(ParseError, match="the command itself failed"):
        read(text)


def test_arcconf_that_found_no_controller_says_so() -> None:
    """It judged nothing, and completed successfully."""
    explained = read("Controllers found: 0\n\nCommand completed successfully.\n")
    assert explained.status == 2
    assert "found no controller" in explained.unparsed[0].reason


DETAIL = """\
/dev/md2:
             State : clean, degraded
      Raid Devices : 2
    Active Devices : 1
    Failed Devices : 1
    Number   Major   Minor   RaidDevice State
       0       8        1        0      active sync   /dev/sda1
       -       0        0        1      removed
       1       8       17        -      faulty   /dev/sdb1
"""


def test_the_members_of_an_array_are_read_without_their_indentation() -> None:
    """A web form strips each line."""
    stripped = "".join(f"{line.strip()}\n" for line in DETAIL.splitlines())
    found = {(each.alert, each.object) for each in read(DETAIL).alerts}
    assert ("MdMemberFaulty", "sdb1") in found
    assert {(each.alert, each.object) for each in read(stripped).alerts} == found


@pytest.mark.parametrize(("count", "severity"), [(3, "notice"), (999, "notice"), (1000, "warning")])
def test_a_thousand_reallocations_are_no_wear_of_a_solid_state_drive(
    count: int, severity: str
) -> None:
    """Those of a few worn blocks are told as a notice."""
    explained = read(f"""\
smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0] (local build)
=== START OF INFORMATION SECTION ===
Device Model:     ACME SSD1
Serial Number:    S1
Rotation Rate:    Solid State Device
=== START OF READ SMART DATA SECTION ===
SMART overall-health self-assessment test result: PASSED
ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED RAW_VALUE
  5 Reallocated_Sector_Ct   0x0032   100   100   010    Old_age   Always       -       {count}

SMART Error Log Version: 1
No Errors Logged
""")
    assert [each.severity for each in explained.alerts] == [severity]
