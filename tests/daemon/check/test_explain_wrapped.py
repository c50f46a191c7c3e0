"""'iowarden explain' of texts that a mail program broke or quoted, and that a paste cut."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

import pytest
from support.explained import read

from iowarden.collectors.json_text import closed
from iowarden.collectors.pasted_text.decode import rejoined

KERNEL = """\
Apr  3 04:10:08 n7 kernel: megaraid_sas 0000:1a:00.0: 4711 (751266836s/0x01/FATAL) - VD 02/3 is now\
 OFFLINE
Apr  3 04:10:09 n7 kernel: I/O error, dev sdk, sector 20480 op 0x0:(READ) flags 0x0 phys_seg 1\
 prio class 2
Apr  3 04:10:09 n7 kernel: XFS (sdk1): Filesystem has been shut down due to log error (0x2).
"""
SMARTD = """\
The following warning/error was logged by the smartd daemon:

Device: /dev/bus/0 [megaraid_disk_07] [SAT], FAILED SMART self-check. BACK UP DATA NOW!

Device info:
ST2000NM0033-9ZM175, S/N:Z1X00001, WWN:5-000c50-0659a1b2d, FW:SN04, 2.00 TB
"""
SSACLI = """\
Smart Array P440ar in Slot 0 (Embedded)   (sn: PDNLH0BRH8A1B2)

   Array A (SAS, Unused Space: 0  MB)

      logicaldrive 1 (279.4 GB, RAID 1, OK)

      physicaldrive 1I:1:1 (port 1I:box 1:bay 1, SAS HDD, 300 GB, OK)
      physicaldrive 1I:1:2 (port 1I:box 1:bay 2, SAS HDD, 300 GB, Predictive Failure)
"""
SCSI = """\
smartctl 7.2 2020-12-30 r5155 [x86_64-linux-5.15.0-91-generic] (local build of a distribution)

=== START OF INFORMATION SECTION ===
Vendor:               ACME
Product:              SLOW-SAS
Serial number:        S0001

=== START OF READ SMART DATA SECTION ===
SMART Health Status: OK
Elements in grown defect list: 7

Error counter log:
           Errors Corrected by           Total   Correction     Gigabytes    Total
               ECC          rereads/    errors   algorithm      processed    uncorrected
           fast | delayed   rewrites  corrected  invocations   [10^9 bytes]  errors
read:          0     1844         0      1844      90122     140012.881           0
write:         0        0         0         0          0      19021.441           0
"""


def broken(text: str, width: int) -> str:
    """A text as a mail program sends it: no line is wider, and words are whole."""
    pieces: list[str] = []
    for line in text.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        if len(line) <= width:
            pieces.append(line)
            continue
        first, *rest = textwrap.wrap(
            line.lstrip(), width - len(indent), break_long_words=False, break_on_hyphens=False
        )
        pieces += [indent + first, *rest]
    return "\n".join(pieces) + "\n"


@pytest.mark.parametrize("width", [66, 72, 78])
def test_a_broken_kernel_log_has_the_same_alerts(width: int) -> None:
    """A volume that went offline is reported, although its words stand in the next line."""
    whole, sent = KERNEL, broken(KERNEL, width)
    assert whole != sent
    assert {(a.alert, a.object, a.text) for a in read(sent).alerts} == {
        (a.alert, a.object, a.text) for a in read(whole).alerts
    }
    assert read(sent).unparsed == ()


@pytest.mark.parametrize("width", [60, 66, 72])
def test_a_broken_mail_of_smartd_is_a_failed_disk(width: int) -> None:
    """'FAILED SMART' and 'self-check' in two lines are one message, about one disk."""
    explained = read(broken(SMARTD, width))
    assert [(a.severity, a.alert) for a in explained.alerts] == [("critical", "DiskFailing")]
    assert "megaraid_disk_07" in explained.alerts[0].object
    assert explained.unparsed == ()


@pytest.mark.parametrize("width", [64, 70, 76])
def test_a_broken_row_of_ssacli_is_a_failing_disk(width: int) -> None:
    """The state of a disk is the last word of its row, and is in the next line."""
    explained = read(broken(SSACLI, width))
    assert [a.alert for a in explained.alerts] == ["ControllerDiskFailing"]
    assert explained.unparsed == ()


STORCLI = f"""\
Controller = 0
Status = Success
Description = Show Drive Information Succeeded.


Drive Information :
=================

{"-" * 80}
EID:Slt DID State DG       Size Intf Med SED PI SeSz Model               Sp Type
{"-" * 80}
252:0     8 Onln   0   1.818 TB SATA HDD N   N  512B ACME DISK-20        U  -
252:1     9 Rbld   0   1.818 TB SATA HDD N   N  512B ACME DISK-20        U  -
252:2    10 UBad   -   1.818 TB SATA HDD N   N  512B ACME DISK-20        U  -
{"-" * 80}
"""


@pytest.mark.parametrize("width", [60, 75, 76])
def test_broken_rows_of_storcli_are_its_disks(width: int) -> None:
    """The last columns of the head and of each row are in the next line, its rules are whole."""
    sent = broken(STORCLI, width)
    assert sent.count("\n") >= STORCLI.count("\n") + 4
    explained = read(sent)
    assert [(each.name, each.vendor_state) for each in explained.objects[1:]] == [
        ("enclosure 252 slot 0", "Onln"),
        ("enclosure 252 slot 1", "Rbld"),
        ("enclosure 252 slot 2", "UBad"),
    ]
    assert (explained.status, explained.unparsed) == (1, ())
    assert explained.alerts == read(STORCLI).alerts


def test_a_quoted_report_with_broken_lines_is_whole() -> None:
    """What has no mark of quotation is the rest of the line above: all is the quoted text."""
    quoted = "".join(f"> {line}\n" for line in SCSI.splitlines())
    sent = "\n".join(
        piece for line in quoted.splitlines() for piece in (textwrap.wrap(line, 72) or [line])
    )
    assert len(sent.splitlines()) > len(quoted.splitlines())
    explained = read(sent)
    assert [o.name for o in explained.objects] == ["S0001"]
    assert explained.objects[0].counts["grown_defects"] == 7
    assert explained.unparsed == ()


@pytest.mark.parametrize(
    "below",
    [
        "root@nas:~# cat /proc/mdstat",
        "Personalities : [raid1]",
        "md0 : active raid1 sdb1[1] sda1[0]",
        "[  100.000002] md0: detected capacity change from 0 to 2",
        "  indented",
        "",
    ],
)
def test_a_line_that_begins_something_is_not_joined(below: str) -> None:
    """A line of a log as wide as the text is followed by another output: both stay as they are."""
    text = f"[  100.000001] ata3: SATA link up 6.0 Gbps (SStatus 133 SControl 300) and\n{below}"
    assert rejoined(text) == text


def test_a_text_with_a_wide_line_was_not_broken() -> None:
    """A terminal's paste has lines of any width: nothing is joined."""
    text = f"{KERNEL}Apr  3 04:10:09 n7 kernel: sd 0:0:0:0: [sda] a message of a disk\nword"
    assert rejoined(text) == text


REPORT = {
    "json_format_version": [1, 0],
    "smartctl": {"version": [7, 3], "exit_status": 24},
    "device": {"name": "/dev/sdq", "type": "sat", "protocol": "ATA"},
    "model_name": "ACME SLOW-HDD",
    "serial_number": "S0002",
    "smart_status": {"passed": False},
    "ata_smart_attributes": {
        "table": [
            {
                "id": 5,
                "name": "Reallocated_Sector_Ct",
                "value": 4,
                "worst": 4,
                "thresh": 5,
                "when_failed": "now",
                "flags": {"value": 51, "prefailure": True},
                "raw": {"value": 1811, "string": "1811"},
            },
            {"id": 9, "name": "Power_On_Hours", "value": 66, "raw": {"value": 30112}},
        ]
    },
}


def test_a_truncated_json_is_parsed_as_far_as_it_goes() -> None:
    """A failed disk in the first half is reported, and that the other half is missing."""
    text = json.dumps(REPORT, indent=2)
    cut = text[: text.index('"Power_On_Hours"')]
    explained = read(cut)
    assert ("critical", "DiskFailing") in {(a.severity, a.alert) for a in explained.alerts}
    assert ("critical", "DiskAttributeFailed") in {(a.severity, a.alert) for a in explained.alerts}
    assert [o.name for o in explained.objects] == ["S0002"]
    assert "truncated" in explained.unparsed[0].reason


def test_each_prefix_of_a_json_closes_to_a_json() -> None:
    """Wherever it is cut, what was whole before the cut is parsed, and nothing is invented."""
    text = json.dumps(REPORT, indent=1)
    for end in range(len(text)):
        rest = closed(text[:end])
        if rest:
            assert set(json.loads(rest)) <= set(REPORT)
    assert closed(text) == ""
    assert closed("[" * 100_000) == ""


MDSTAT = """\
Personalities : [raid6] [raid5] [raid4]
md0 : active raid5 sde1[4] sdd1[2] sdc1[1](F) sdb1[0]
      8790402048 blocks super 1.2 level 5, 512k chunk, algorithm 2
[4/3] [U_UU]
      bitmap: 3/22 pages [12KB], 65536KB chunk

unused devices: <none>
"""


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("head", ["", "On 3 Jun, Max M. wrote:\n", "Am 3.6. um\nX:\n\n"])
def test_a_mail_that_is_quoted_in_a_mail_has_a_mark_for_each(depth: int, head: str) -> None:
    """The words between both mails have fewer marks than the text that they are about."""
    lines = [f"{'> ' * depth}{line}".rstrip() for line in MDSTAT.split("\n")]
    told = read("\n".join([f"{head}{lines[0]}", *lines[1:], ">", "> Which one is it?"]))
    assert {each.name: each.state for each in told.objects}["sdc1"] == "failed"
    assert told.status == 1


def test_a_mail_in_which_little_is_quoted_is_read_as_it_is() -> None:
    """'>' also begins a line of a shell: its text is that of the command."""
    assert read(f"> cat /proc/mdstat\n{MDSTAT}").status == 1


TABLE = """\
SMART overall-health self-assessment test result: PASSED

Vendor Specific SMART Attributes with Thresholds:
ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED RAW_VALUE
  5 Reallocated_Sector_Ct   0x0033   100   100   005    Pre-fail  Always       -       {5}
  9 Power_On_Hours          0x0032   083   083   ---    Old_age   Always       -       15110 (23 11)
197 Current_Pending_Sector  0x0012   100   100   000    Old_age   Offline      -       0
"""


@pytest.mark.parametrize("count", [0, 1288])
@pytest.mark.parametrize("before", ["WHEN_FAILED", "UPDATED"])
@pytest.mark.parametrize("mark", ["", "> "])
@pytest.mark.parametrize("prose", ["", "Is this disk well?\n\n"])
def test_rows_of_smartctl_that_a_mail_broke_before_their_last_columns_are_whole(
    count: int, before: str, mark: str, prose: str
) -> None:
    """Quoted or not, below a question or not: a healthy drive is well, an ill one is not."""
    lines = []
    for line in TABLE.replace("{5}", str(count)).splitlines():
        columns = r"WHEN_FAILED|-(?= {7})" if before == "WHEN_FAILED" else r"UPDATED|Always|Offline"
        at = re.search(columns, line)
        parts = [line] if at is None else [line[: at.start()].rstrip(), line[at.start() :]]
        lines += [f"{mark}{part}" for part in parts]
    told = read(prose + "\n".join(lines) + "\n\nThanks!\n" * bool(prose))
    assert told.unparsed == ()
    assert [each.alert for each in told.alerts] == ["DiskErrorsInBaseline"] * bool(count)


SMART = """\
smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0-18-amd64] (local build of a distribution)
Copyright (C) 2002-22, Bruce Allen, Christian Franke, www.smartmontools.org

=== START OF INFORMATION SECTION ===
Device Model:     ACME SLOW-HDD
Serial Number:    S0003

=== START OF READ SMART DATA SECTION ===
SMART overall-health self-assessment test result: PASSED

SMART Attributes Data Structure revision number: 16
Vendor Specific SMART Attributes with Thresholds:
ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED RAW_VALUE
  1 Raw_Read_Error_Rate     0x000f   083   064   044    Pre-fail  Always       -       194782216
  5 Reallocated_Sector_Ct   0x0033   100   100   010    Pre-fail  Always       -       {bad}
  9 Power_On_Hours          0x0032   083   083   000    Old_age   Always       -       15110
194 Temperature_Celsius     0x0022   031   047   000    Old_age   Always       -       31 (0 20 0)
197 Current_Pending_Sector  0x0012   100   100   000    Old_age   Offline      -       {bad}

SMART Error Log Version: 1
{errors}
SMART Self-test log structure revision number 1
Num  Test_Description    Status                  Remaining  LifeTime(hours)  LBA_of_first_error
{test}
# 2  Short offline       Completed without error       00%     15087         -
"""
ERRORS = """\
ATA Error Count: 14 (device log contains only the most recent five errors)

Error 14 occurred at disk power-on lifetime: 15109 hours (629 days + 13 hours)
  When the command that caused the error occurred, the device was active or idle.

  40 51 08 88 3c 1f 0a  Error: UNC 8 sectors at LBA = 0x0a1f3c88 = 169819272
"""
READ_FAILURE = (
    "# 1  Extended offline    Completed: read failure       90%     15100         3907021112"
)
PASSED_TEST = "# 1  Extended offline    Completed without error       00%     15100         -"
BRIEF = """\
SMART overall-health self-assessment test result: PASSED
ID# ATTRIBUTE_NAME          FLAGS    VALUE WORST THRESH FAIL RAW_VALUE
  5 Reallocated_Sector_Ct   PO--CK   100   100   010    -    0
194 Temperature_Celsius     -O---K   100   100   000    -    36 (Min/Max 19/47)
197 Current_Pending_Sector  -O--CK   100   100   000    -    {}
"""
SYNC = """\
Personalities : [raid1] [linear] [multipath] [raid0] [raid6] [raid5] [raid4] [raid10]
md127 : active raid6 sdf1[5] {} sdd1[3] sdc1[2] sdb1[1] sda1[0] sdg1[7](S) sdh1[8](S)
      15627540480 blocks super 1.2 level 6, 512k chunk, algorithm 2 [6/{}] [{}]
      [======>..............]  {} = 34.2% (1336154112/3906885120) finish=212.4min speed=201684K/sec

unused devices: <none>
"""
PRINTED = {
    "smart-well": SMART.format(bad=0, errors="No Errors Logged\n", test=PASSED_TEST),
    "smart-counts": SMART.format(bad=24, errors="No Errors Logged\n", test=PASSED_TEST),
    "smart-errors": SMART.format(bad=0, errors=ERRORS, test=PASSED_TEST),
    "smart-test-failed": SMART.format(bad=0, errors="No Errors Logged\n", test=READ_FAILURE),
    "test-log-alone": SMART[SMART.index("SMART Self") :].format(test=READ_FAILURE),
    "brief-well": BRIEF.format(0),
    "brief-pending": BRIEF.format("8 (Average 8)"),
    "md-checked": SYNC.format("sde1[6]", 6, "UUUUUU", "check"),
    "md-rebuilt": SYNC.format("sde1[9]", 5, "UUUU_U", "recovery"),
    "storcli": STORCLI,
    **{
        each.stem: each.read_text()
        for each in (Path(__file__).parents[2] / "fixtures/zpool_status/2.3.9").glob("*.txt")
    },
}


@pytest.mark.parametrize("mark", ["", "> ", "> > "])
@pytest.mark.parametrize("width", [72, 76, 80])
@pytest.mark.parametrize("name", PRINTED)
def test_a_table_that_a_mail_broke_has_the_alerts_of_the_whole_one(
    name: str, width: int, mark: str
) -> None:
    """The healthy ones have none, and of the others none is lost: at any width, quoted or not."""
    whole = read(PRINTED[name])
    sent = "".join(f"{mark}{line}\n" for line in broken(PRINTED[name], width).splitlines())
    told = read(sent)
    assert {(a.severity, a.alert, a.object) for a in told.alerts} == {
        (a.severity, a.alert, a.object) for a in whole.alerts
    }
    assert (told.status, len(told.unparsed)) == (whole.status, len(whole.unparsed))


@pytest.mark.parametrize("row", [BRIEF.splitlines()[-1], PASSED_TEST])
def test_a_remark_below_a_whole_row_is_no_part_of_it(row: str) -> None:
    """Somebody writes below the widest line of an unbroken text: its last column stays as it is."""
    text = f"{row.format(8)}\nNote this one!\n"
    assert rejoined(text) == text
