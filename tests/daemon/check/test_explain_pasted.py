"""'iowarden explain' of texts with the marks of forums, web pages, chats and logs around them."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

import pytest
from support.explained import read

from iowarden.collectors.model import ParseError

if TYPE_CHECKING:
    from collections.abc import Callable

MDADM = """\
/dev/md0:
        Raid Level : raid5
      Raid Devices : 4
     Total Devices : 4
             State : clean, degraded
    Active Devices : 3
    Failed Devices : 1

    Number   Major   Minor   RaidDevice State
       0       8        1        0      active sync   /dev/sda1
       1       8       17        1      active sync   /dev/sdb1
       -       0        0        2      removed
       4       8       49        3      active sync   /dev/sdd1

       2       8       33        -      faulty   /dev/sdc1
"""
SMART = """\
=== START OF READ SMART DATA SECTION ===
SMART overall-health self-assessment test result: PASSED

SMART Attributes Data Structure revision number: 16
Vendor Specific SMART Attributes with Thresholds:
ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED RAW_VALUE
  5 Reallocated_Sector_Ct   0x0033   100   100   036    Pre-fail  Always       -       0
  9 Power_On_Hours          0x0032   098   098   000    Old_age   Always       -       2211
197 Current_Pending_Sector  0x0012   100   100   000    Old_age   Always       -       {pending}
198 Offline_Uncorrectable   0x0010   100   100   000    Old_age   Offline      -       0
"""
VOLUMES = """\
CLI> vsf info
 # Name             Raid Name       Level   Capacity Ch/Id/Lun  State
===============================================================================
 1 ARC-1220-VOL#00  Raid Set # 00   Raid5   3000.0GB 00/00/00   Normal
===============================================================================
GuiErrMsg<0x00>: Success.
"""


def _each(mark: str) -> Callable[[str], str]:
    return lambda text: "".join(f"{mark}{line}\n" for line in text.splitlines())


MARKED: dict[str, Callable[[str], str]] = {
    "tags of a forum": lambda text: f"[CODE]{text.rstrip()}[/CODE]\n",
    "tags of a forum with their language": lambda text: (
        f'[SPOILER="log"][code=bash]{text.rstrip()}[/code][/SPOILER]\n'
    ),
    "a quotation of a forum": lambda text: f"[QUOTE=joe;1234]{text.rstrip()}[/QUOTE]\n",
    "a listing of a page": lambda text: f"<pre><code>{html.escape(text)}</code></pre>\n",
    "breaks of a page": lambda text: text.replace("\n", "<br />\n"),
    "a page in one line": lambda text: f"<p>{'<br>'.join(text.splitlines())}</p>\n",
    "fixed blanks of a page": lambda text: text.replace(" ", "&nbsp;"),
    "backslashes of Markdown": lambda text: text.replace("_", r"\_"),
    "two blanks before all": _each("  "),
    "a tab before all": _each("\t"),
    "a bar before each line": _each("| "),
    "a plus before each line": _each("+"),
    "who says it": _each("<joe> "),
    "the host of a loop": _each("nas7: "),
    "a script in syslog": _each("Nov 12 03:14:07 nas7 check-disks[4411]: "),
    "a script in the journal": _each("2024-11-12T03:14:07+0100 nas7 mdcheck.sh[4411]: "),
    "a container's time": _each("2024-11-12T03:14:07.123456789Z "),
    "a time": _each("2024-11-12 03:14:07 "),
    "'cat -n'": lambda text: "".join(
        f"{number:6}\t{line}\n" for number, line in enumerate(text.splitlines(), 1)
    ),
    "'grep -n'": lambda text: "".join(
        f"{number}:{line}\n" for number, line in enumerate(text.splitlines(), 1) if line
    ),
}


@pytest.mark.parametrize("marked", MARKED.values(), ids=MARKED)
def test_marks_around_a_text_change_nothing(marked: Callable[[str], str]) -> None:
    """A fault with its objects, a healthy drive, and the rows of a controller."""
    told = read(marked(MDADM))
    assert {(each.severity, each.alert, each.object) for each in told.alerts} == {
        ("critical", "MdDegraded", "md0"),
        ("warning", "MdMemberFaulty", "sdc1"),
    }
    well = read(marked(SMART.format(pending=0)))
    assert (well.status, well.alerts, well.unparsed) == (0, (), ())
    pending = read(marked(SMART.format(pending=3)))
    assert [each.alert for each in pending.alerts] == ["DiskPendingSectors"]
    assert read(marked(VOLUMES)).alerts == ()


def test_the_log_of_a_controller_keeps_its_times() -> None:
    """Its lines begin with a time as a container's do, and its own program has no other sign."""
    line = "2008-11-12 05:43:{:02}  IDE Channel #02   Reading Error\n"
    told = read("".join(line.format(second) for second in range(5)))
    assert {each.kind for each in told.events} == {"areca_reading_error"}


@pytest.mark.parametrize("note", ["Note: this one worries me", "<-- is that bad?", "(snip)"])
def test_a_note_between_the_attributes_is_no_fault(note: str) -> None:
    """It is not parsed, so that the drive is not called well either."""
    rows = SMART.format(pending=0)
    told = read(rows.replace("197 ", f"{note}\n197 "))
    assert (told.status, told.alerts) == (2, ())
    assert any(note in each.reason for each in told.unparsed)


@pytest.mark.parametrize("length", range(1, 60, 7))
def test_a_row_of_attributes_that_is_cut_is_no_fault(length: int) -> None:
    """The end of a paste; a value that is below its threshold is one, as far as the row goes."""
    rows = SMART.format(pending=0)
    told = read(rows + "199 UDMA_CRC_Error_Count    0x003e   200   200   000    Old_age"[:length])
    assert (told.status, told.alerts) in {(0, ()), (2, ())}
    worn = "  1 Raw_Read_Error_Rate     0x000f   030   030   044    Pre-fail  Alw"
    assert read(rows + worn).status == 1


@pytest.mark.parametrize("width", range(56, 80, 3))
def test_a_terminal_cuts_rows_within_their_words(width: int) -> None:
    """'Old_age' may be 'Old_' and 'age'."""
    text = "\n".join(
        re.sub(f"(.{{{width}}})(?=.)", r"\1\n", line)
        for line in SMART.format(pending=3).splitlines()
    )
    assert [each.alert for each in read(text).alerts] == ["DiskPendingSectors"]


def test_the_list_of_drives_is_read_without_the_head_of_its_report() -> None:
    """As many as their count: nothing is missing. With more counted than listed something is."""
    rule = f"{'-' * 68}\n"
    listed = (
        "Physical Drives = {}\n\nPD LIST :\n=======\n\n"
        f"{rule}EID:Slt DID State DG     Size Intf Med SED PI SeSz Model        Sp Type\n{rule}"
        "32:0      0 Onln   0 1.090 TB SAS  HDD N   N  512B ST1200MM0099 U  -\n"
        f"32:1      1 Onln   0 1.090 TB SAS  HDD N   N  512B ST1200MM0099 U  -\n{rule}\n"
    )
    assert (read(listed.format(2)).status, read(listed.format(4)).status) == (0, 2)


def test_the_state_of_a_file_system_is_read_without_the_banner_of_its_program() -> None:
    """The banner is on standard error: it is missing in a file, and below 'grep'."""
    head = "Filesystem volume name:   data\nFilesystem magic number:  0xEF53\n"
    bad = read(f"{head}Filesystem state:         clean with errors\nFS Error count:           14\n")
    assert [each.alert for each in bad.alerts] == ["Ext4ErrorsRecorded"]
    assert read(f"{head}Filesystem state:         clean\n").status == 0


def test_data_that_a_controller_made_up_is_of_no_state_and_says_what_to_read() -> None:
    """All contradictions are told, not only the first, and the disk is not called well."""
    told = read(
        "smartctl version 5.38 [x86_64-unknown-linux-gnu] Copyright (C) 2002-8 Bruce Allen\n\n"
        "Device: WDC      WD2500YS-01SHB1  Version: R001\nSerial number: WD-WCANY1234567\n"
        "Device type: disk\nTransport protocol: Fibre channel (FCP-2)\n"
        "Device supports SMART and is Enabled\nSMART Health Status: OK\n\n"
        "Current Drive Temperature:     36 C\nDrive Trip Temperature:        25 C\n"
        "Recommended maximum start stop count:  4278190080 times\n"
        "Current start stop count:      256 times\n"
    )
    (alert,) = told.alerts
    assert (alert.alert, told.objects[0].state) == ("SmartImplausible", "unknown")
    for word in ("trip temperature of 25 C", "4278190080", "256 start-stop", "-d areca,N"):
        assert word in alert.text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Number of Controllers = 0\nHost Name = web1\n", "found no controller"),
        (
            '203.0.113.9 - - [12/Nov/2024:09:14:22 +0100] "GET /disk HTTP/1.1" 404 153\n',
            "not about storage",
        ),
        ("-bash: smartctl: command not found\n", "Install the program"),
    ],
)
def test_a_refusal_names_what_the_text_is(text: str, words: str) -> None:
    """A list without a controller, requests of a web server, a program that is not there."""
    try:
        reason = read(text).unparsed[0].reason
    except ParseError as error:
        reason = str(error)
    assert words in reason


def test_a_command_of_vmstat_is_no_row() -> None:
    """Without a prompt before it, as it is typed."""
    rows = " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
    rows += " 1  0      0 913344  80212 9120332    0    0   845  2120 1200 2300  5  2 88  5  0\n"
    assert [read(f"vmstat {words}\n{rows}").status for words in ("5", "1 10")] == [0, 0]


MDSTAT = """\
Personalities : [raid1]
md0 : active raid1 sdb1[1] sda1[0]
      976630464 blocks super 1.2 [2/2] [UU]

unused devices: <none>
"""
COMPLETE = re.sub(r" : 4\n| : 3\n", " : 2\n", MDADM.partition("       -")[0])
COMPLETE = COMPLETE.replace("clean, degraded", "clean").replace("Devices : 1", "Devices : 0")


@pytest.mark.parametrize("output", [MDSTAT, COMPLETE], ids=["mdstat", "mdadm"])
def test_the_words_of_a_user_around_arrays_are_no_part_of_them(output: str) -> None:
    """A greeting above, and a name below."""
    told = read(f"Hi all,\n\nhere is my array:\n\n{output}\nIs that ok? Thanks,\nJoe\n")
    assert (told.status, told.unparsed) == (0, ())


def test_a_message_of_mdadm_below_an_array_is_reported() -> None:
    """Another array could not be opened: nothing is known of it."""
    told = read(f"{COMPLETE}\nmdadm: cannot open /dev/md1: No such file or directory\n")
    assert told.status == 2


def test_a_part_of_the_report_that_is_not_in_the_text_is_missing() -> None:
    """All lines of 'smartctl -A' were parsed: only the health status was not asked for."""
    rows = SMART.format(pending=0).partition("SMART Attributes")
    told = read("".join(rows[1:]))
    assert told.summary() == "explain: not everything was checked: 1 missing"
    noted = read("".join(rows[1:]).replace("197 ", "Note: worn?\n197 "))
    assert noted.summary() == (
        "explain: part of the text could not be parsed: 1 not parsed, 1 missing"
    )


def test_an_output_below_grep_lacks_no_last_line() -> None:
    """MegaCli's 'Exit Code: 0x00' is no match; without a pipe it is truncated."""
    rows = "Slot Number: 0\nMedia Error Count: 0\nFirmware state: Online, Spun Up\n"
    command = "root@n1:~# MegaCli -PDList -aALL"
    assert read(f"{command} | egrep 'Slot|Media|state'\n{rows}").status == 0
    assert read(f"{command}\n{rows}").status == 2


def test_brackets_of_a_program_are_no_tags_of_a_forum() -> None:
    """An array with one member, and the size of a map, between tags."""
    one = MDSTAT.replace("sdb1[1] ", "").replace("[2/2] [UU]", "[1/1] [U]")
    told = read(f"[CODE]{one}[/CODE]\n")
    assert (told.status, told.objects[0].details["missing"]) == (0, 0)
    rows = "mpath0 (3600508b4000156d70001200000b0000) dm-2 HP,HSV210\n"
    rows += "[size=12G][features=1 queue_if_no_path][hwhandler=0]\n"
    rows += "\\_ round-robin 0 [prio=100][active]\n \\_ 0:0:1:1 sda 8:0 [active][ready]\n"
    assert read(f"[CODE]{rows}[/CODE]\n").status == read(rows).status == 0
    bold = MDADM.replace("faulty", "[B]faulty[/B]").replace("State : clean", "State : [b]clean[/b]")
    assert {each.alert for each in read(bold).alerts} == {"MdDegraded", "MdMemberFaulty"}


@pytest.mark.parametrize(
    ("failed", "degraded", "alert"),
    [(0, 1, "ControllerArrayDegraded"), (1, 0, "ControllerArrayFailed")],
)
def test_what_arcconf_counts_is_critical_without_the_devices(
    failed: int, degraded: int, alert: str
) -> None:
    """The section about the controller alone: which device is not in it, that one is bad is."""
    told = read(
        "Controllers found: 1\nController information\n---------------------\n"
        "   Controller Status                        : Optimal\n"
        f"   Logical devices/Failed/Degraded          : 2/{failed}/{degraded}\n\n"
        "Command completed successfully.\n"
    )
    assert ("critical", alert) in {(each.severity, each.alert) for each in told.alerts}


@pytest.mark.parametrize(("turns", "status"), [(0, 2), (2556, 0)])
def test_a_controllers_only_fan_that_reads_0_is_not_well(turns: int, status: int) -> None:
    """Without another one that turns it may as well not be connected: neither well nor failed."""
    told = read(
        "CLI> hw info\nThe Hardware Monitor Information\n[Controller H/W Monitor]\n"
        f"CPU Temperature  : 61 C\nCPU Fan          : {turns} RPM\n"
        "Battery Status   : Not Installed\nGuiErrMsg<0x00>: Success.\n"
    )
    assert (told.status, told.alerts) == (status, ())


@pytest.mark.parametrize(("above", "name"), [("sdf:\n", "sdf"), ("", "drive 1")])
def test_the_first_line_of_the_attributes_names_no_drive(above: str, name: str) -> None:
    """It stood where a loop prints the name: below 'sdf:', or at the top of the text."""
    rows = "".join(SMART.format(pending=3).partition("SMART Attributes")[1:])
    assert {each.name for each in read(above + rows).objects} == {name}
