"""`iowarden explain` with entries of error logs, marks and lines that nobody has seen before."""

from __future__ import annotations

import pytest
from support.explained import read

# --- the error log of an ATA drive

ERROR_LOG = """\
smartctl 7.2 2020-12-30 r5155 [x86_64-linux-5.15.0-91-generic] (local build)

=== START OF READ SMART DATA SECTION ===
SMART overall-health self-assessment test result: PASSED

ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED RAW_VALUE
{hours}197 Current_Pending_Sector  0x0022   100   100   000    Old_age   Always       -       0
199 UDMA_CRC_Error_Count    0x000a   200   200   000    Old_age   Always       -       {crc}

SMART Error Log Version: 1
ATA Error Count: 2 (device log contains only the most recent five errors)
Error 2 occurred at disk power-on lifetime: {at} hours (783 days + 12 hours)
  40 51 08 30 7c 1b 0a  Error: {error}

"""
HOURS = (
    "  9 Power_On_Hours          0x0012   097   097   000    Old_age   Always       -       {}\n"
)
UNREADABLE = "UNC 8 sectors at LBA = 0x0a1b7c30 = 169573424"


def error_log(error: str, at: int, hours: int | None, crc: int = 0) -> str:
    """A drive whose attributes are perfect, with one entry in its error log."""
    now = "" if hours is None else HOURS.format(hours)
    return ERROR_LOG.format(hours=now, at=at, error=error, crc=crc)


@pytest.mark.parametrize(
    ("error", "at", "hours", "told"),
    [
        (UNREADABLE, 18804, 18805, ("warning", "DiskErrorLog")),
        (UNREADABLE, 18804, 18972, ("warning", "DiskErrorLog")),
        (UNREADABLE, 18804, 18973, None),
        (UNREADABLE, 18804, None, ("notice", "DiskErrorLog")),
        (UNREADABLE, 3, 65_541, ("warning", "DiskErrorLog")),
        ("IDNF at LBA = 0x0a1b7c30 = 169573424", 18804, 18805, ("warning", "DiskErrorLog")),
        ("ABRT", 18804, 18805, None),
        ("ICRC, ABRT at LBA = 0x00000000 = 0", 18804, 18805, ("warning", "DiskInterfaceCrcErrors")),
        ("ICRC, ABRT at LBA = 0x00000000 = 0", 3302, 43508, None),
    ],
)
def test_an_entry_of_the_error_log_counts_while_it_is_recent(
    error: str, at: int, hours: int | None, told: tuple[str, str] | None
) -> None:
    """A week of power-on hours; of the summary log hours have 16 bits. Rejected commands: never."""
    explained = read(error_log(error, at, hours))
    found = [(a.severity, a.alert) for a in explained.alerts]
    assert found == ([told] if told else [])
    if told == ("warning", "DiskErrorLog") and error == UNREADABLE:
        assert "169573424" in explained.alerts[0].text


@pytest.mark.parametrize(
    ("error", "count", "severity"),
    [(UNREADABLE, 4, "notice"), (UNREADABLE, 5, "warning"), (UNREADABLE, 14, "warning")],
)
def test_a_log_full_of_unreadable_sectors_is_a_warning_at_any_age(
    error: str, count: int, severity: str
) -> None:
    """'smartctl -l error': the summary log keeps five entries, and what is shown is all UNC."""
    text = error_log(error, 12003, None)
    told = read(text.replace("ATA Error Count: 2 ", f"ATA Error Count: {count} "))
    assert [(a.severity, a.alert) for a in told.alerts] == [(severity, "DiskErrorLog")]


def test_errors_of_the_link_are_not_old_while_the_log_has_new_ones() -> None:
    """1407 of them, the last in this hour; the same count with an entry of years ago is old."""
    error = "ICRC, ABRT at LBA = 0x00000000 = 0"
    new = read(error_log(error, 22419, 22419, crc=1407))
    assert [(a.severity, a.alert) for a in new.alerts] == [("warning", "DiskInterfaceCrcErrors")]
    old = read(error_log(error, 419, 22419, crc=1407))
    assert [a.alert for a in old.alerts] == ["DiskInterfaceCrcErrorsInBaseline"]


def test_the_extended_error_log_in_json_is_read_as_well() -> None:
    """Its table has the same sentences."""
    text = """{"json_format_version": [1, 0], "smartctl": {"version": [7, 4], "exit_status": 64},
    "device": {"name": "/dev/sda", "type": "sat", "protocol": "ATA"}, "serial_number": "S1",
    "smart_status": {"passed": true}, "power_on_time": {"hours": 18805},
    "ata_smart_attributes": {"table": [{"id": 197, "name": "Current_Pending_Sector", "value": 100,
      "worst": 100, "thresh": 0, "when_failed": "", "flags": {"value": 18, "prefailure": false},
      "raw": {"value": 0, "string": "0"}}]},
    "ata_smart_error_log": {"extended": {"revision": 1, "sectors": 6, "count": 1, "logged_count": 1,
      "table": [{"error_number": 1, "lifetime_hours": 18804,
        "error_description": "Error: UNC at LBA = 0x0a1b7c30 = 169573424"}]}}}"""
    (alert,) = (a for a in read(text).alerts if a.alert == "DiskErrorLog")
    assert (alert.severity, alert.object) == ("warning", "S1")


# --- smartd

LINES = (
    (
        "Jan 12 03:25:01 nas smartd[712]: Device: /dev/sda [SAT], 3 Currently unreadable (pending)"
        " sectors (changed +3)"
    ),
    (
        "Jan 12 03:25:02 nas smartd[712]: Device: /dev/sdb [SAT], SMART Usage Attribute: 194"
        " Temperature_Celsius changed from 121 to 119"
    ),
    (
        "Jan 12 03:55:01 nas smartd[712]: Device: /dev/sda [SAT], Self-Test Log error count"
        " increased from 0 to 1"
    ),
)


@pytest.mark.parametrize("width", range(56, 81, 4))
def test_lines_that_a_terminal_cut_within_words_are_whole_again(width: int) -> None:
    """At each width; the rest of a line may begin with a blank, or the line end with one."""
    lines = [line[begin : begin + width] for line in LINES for begin in range(0, len(line), width)]
    explained = read("\n".join(lines) + "\n")
    assert {(a.alert, a.object) for a in explained.alerts} == {
        ("DiskPendingSectors", "sda"),
        ("DiskSelfTestFailed", "sda"),
    }
    assert not explained.unparsed


@pytest.mark.parametrize(
    "message",
    ["3 Foobar sectors (changed +3)", "8 Uncorrectable thingies", "Currently unr eadable sectors"],
)
def test_what_smartd_reports_of_a_disk_in_unknown_words_is_not_well(message: str) -> None:
    """All its messages about a device are known: another one is of a later version."""
    text = f"Jan 12 03:25:01 nas smartd[712]: Device: /dev/sda [SAT], {message}\n"
    explained = read(text)
    assert explained.status == 2
    assert (len(explained.unparsed), explained.lines_other) == (1, 0)


def test_a_line_of_a_service_without_a_fault_is_no_event() -> None:
    """'6 lines, 0 of them no event' above an empty list of events would be six events."""
    explained = read("Jan 12 03:25:01 nas smartd[712]: Device: /dev/sda [SAT], opened\n")
    assert (explained.status, explained.lines_read, explained.lines_other) == (0, 1, 1)


# --- md

SYNOLOGY = """\
Personalities : [raid1] [raid6] [raid5] [raid4]
md2 : active raid5 sda5[0] sdc5[2]{mark} sdb5[1]
      11706562368 blocks super 1.2 level 5, 64k chunk, algorithm 2 [3/3] [{mask}]

unused devices: <none>
"""


@pytest.mark.parametrize(
    ("mark", "mask", "alerts"),
    [("", "UUU", set()), ("(E)", "UUE", {"MdMemberErrors"}), ("(E)", "UUU", {"MdMemberErrors"})],
)
def test_a_member_that_synology_marks_is_told_and_its_array_is_read(
    mark: str, mask: str, alerts: set[str]
) -> None:
    """'E' is no letter of Linux's own md; an array is not dropped for it."""
    explained = read(SYNOLOGY.format(mark=mark, mask=mask))
    assert {a.alert for a in explained.alerts} == alerts
    assert explained.objects[0].name == "md2"
    assert not explained.unparsed


def test_a_mail_about_a_link_to_an_array_is_about_the_array() -> None:
    """'/dev/md/1' and md1 are one: one fault is told once."""
    text = """\
A Fail event had been detected on md device /dev/md/1.

It could be related to component device /dev/sdb2.

P.S. The /proc/mdstat file currently contains the following:

Personalities : [raid1]
md1 : active raid1 sdb2[1](F) sda2[0]
      487859008 blocks super 1.2 [2/1] [U_]

unused devices: <none>
"""
    explained = read(text)
    assert {o.name for o in explained.objects} == {"md1", "sdb2", "sda2"}


# --- controllers

OVERVIEW = """\
CLI Version = 007.1316.0000.0000 Mar 12, 2020
Operating system = Linux 4.15.0-213-generic
Status Code = 0
Status = Success
Description = None

Number of Controllers = 1
Host Name = db
Operating System  = Linux 4.15.0-213-generic

System Overview :
===============

------------------------------------------------------------------------------------
Ctl Model                   Ports PDs DGs DNOpt VDs VNOpt BBU  sPR DS  EHS ASOs Hlth
------------------------------------------------------------------------------------
  0 LSIMegaRAIDSAS9271-8i       8   6   2     {n}   2     {n} Opt  On  3   N      1 {health}
------------------------------------------------------------------------------------
"""


@pytest.mark.parametrize(("health", "n", "status"), [("Opt", 0, 0), ("NdAtn", 1, 1)])
def test_the_overview_of_storcli_is_a_state_of_its_controllers(
    health: str, n: int, status: int
) -> None:
    """Its column 'Hlth'; and its table is not one of tw_cli, which has a column 'Model', too."""
    explained = read(OVERVIEW.format(health=health, n=n))
    assert (explained.kind, explained.status) == ("storcli", status)
    assert not explained.unparsed


def test_a_disk_that_is_copied_to_another_is_no_rebuild() -> None:
    """A copyback keeps the redundancy: the array is optimal."""
    text = """\
EID:Slt DID State  DG     Size Intf Med SED PI SeSz Model        Sp Type
----------------------------------------------------------------------------
8:5      21 Onln    0 1.818 TB SAS  HDD N   N  512B ST2000NM0045 U  -
8:6      22 Cpybck  0 1.818 TB SAS  HDD N   N  512B ST2000NM0045 U  -
----------------------------------------------------------------------------
"""
    explained = read("-" * 76 + "\n" + text)
    assert [o.state for o in explained.objects[1:]] == ["ok", "busy"]
    assert explained.alerts == ()


@pytest.mark.parametrize(
    ("counts", "status"),
    [
        ('mediumErrors="0" abortedCmds="3"', 0),
        ('mediumErrors="118" abortedCmds="3"', 1),
        ('mediumErrors="0" abortedCmds="300"', 1),
    ],
)
def test_errors_of_disks_in_arcconfs_log_are_told(counts: str, status: int) -> None:
    """Each of the medium; of aborted commands many."""
    text = (
        'Controllers found: 1\n<ControllerLog controllerID="0" tableFull="false">\n<driveErrorEntry'
        f' serialNumber="S1D2AAAA" channelID="0" deviceID="4" {counts} />\n</ControllerLog>\n\n'
        "Command completed successfully.\n"
    )
    explained = read(text)
    assert explained.status == status
    assert [o.name for o in explained.objects] == ["S1D2AAAA"]


def test_json_that_is_cut_off_is_called_that() -> None:
    """Not 'expected the output of a command'."""
    text = '{\n"Controllers":[\n{\n"Command Status" : {\n"Controller" : 0,\n"Status" : "Success"'
    (unread,) = read(text).unparsed
    assert "JSON is cut" in unread.reason


def test_columns_of_lvs_that_were_chosen_are_read_by_their_attributes() -> None:
    """'lvs -o name,attr,...': the group is not among them."""
    head = "  LV              Attr       LSize   Origin Data%  Cpy%Sync\n"
    well = f"{head}  home            rwi-aor--- 900.00g               100.00\n"
    assert read(well).status == 0
    assert read(well.replace("rwi-aor---", "rwi-aor-p-")).status == 1


def test_what_stands_right_above_a_table_without_a_blank_line_is_not_in_it() -> None:
    """One command line of two programs: the rows of vmstat are not meminfo's."""
    text = """\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 1  0      0 512388 210044 28911208    0    0    11    42    3    9  2  1 97  0  0
 0  0      0 511904 210044 28911300    0    0     0    96  812 1420  1  0 99  0  0
MemTotal:       32801228 kB
MemFree:          511872 kB
MemAvailable:   29011200 kB
Buffers:          210044 kB
Cached:         28911312 kB
SwapTotal:       8388604 kB
SwapFree:        8388604 kB
Dirty:               412 kB
Writeback:             0 kB
"""
    explained = read(text)
    assert explained.outputs[0] == "vmstat"
    assert not any("rows of numbers" in each.reason for each in explained.unparsed)


NAS = """\
Personalities : [raid1] [raid6] [raid5] [raid4]
md0 : active raid1 sda1[0] sdb1[1] sdc1[2]
      2490176 blocks [{slots}/{working}] [{mask}]

unused devices: <none>
"""


@pytest.mark.parametrize(
    ("slots", "working", "mask", "status"),
    [
        (16, 3, "UUU_____________", 0),
        (24, 3, "UUU_____________________", 0),
        (16, 2, "U_U_____________", 1),
        (4, 3, "UUU_", 1),
        (16, 1, "U_______________", 1),
    ],
)
def test_slots_of_a_nas_that_never_had_a_disk_are_not_missing(
    slots: int, working: int, mask: str, status: int
) -> None:
    """Its system is on a mirror with a slot for each bay of the largest model; a hole is a loss."""
    text = NAS.format(slots=slots, working=working, mask=mask)
    if working < 3:
        text = text.replace(" sdb1[1]", "")
    if working == 1:
        text = text.replace(" sdc1[2]", "")
    explained = read(text)
    assert (explained.status, explained.unparsed) == (status, ())


def test_a_worn_out_drive_is_told_in_a_part_that_does_not_name_it() -> None:
    """'smartctl -A': name and number are those of a family; 40 left may be another number."""
    row = (
        "233 Media_Wearout_Indicator 0x0032   {0}   {0}   000    Old_age   Always       -       0\n"
    )
    head = "ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED"
    worn = read(f"{head} RAW_VALUE\n{row.format('001')}")
    assert [a.alert for a in worn.alerts] == ["DiskEnduranceUsed"]
    assert read(f"{head} RAW_VALUE\n{row.format('040')}").alerts == ()


@pytest.mark.parametrize(
    ("row", "asked"),
    [
        (
            "202 Percent_Lifetime_Remain 0x0030   003   003   001    Old_age   Offline     -  97",
            True,
        ),
        (
            "177 Wear_Leveling_Count     0x0013   005   005   000    Pre-fail  Always      -  2800",
            True,
        ),
        (
            "230 Media_Wearout_Indicator 0x0032   010   010   000    Old_age   Always      -  43",
            True,
        ),
        (
            "202 Percent_Lifetime_Remain 0x0030   097   097   001    Old_age   Offline     -  3",
            False,
        ),
        (
            "177 Wear_Range_Delta        0x0000   003   003   000    Old_age   Offline     -  3",
            False,
        ),
        (
            "  9 Power_On_Hours          0x0032   002   002   000    Old_age   Always      -  3",
            False,
        ),
    ],
)
def test_a_life_near_its_end_is_not_judged_without_the_model(row: str, asked: bool) -> None:
    """No alarm, for it may count up, and no 'nothing wrong': the model is what is asked for."""
    head = "ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED"
    told = read(f"{head} RAW_VALUE\n{row}\n")
    assert told.alerts == ()
    assert told.status == 2
    assert any("paste the whole of: smartctl -x" in each.reason for each in told.unparsed) is asked


@pytest.mark.parametrize(("failed", "severity"), [("FAILING_NOW", "warning"), ("-", "warning")])
def test_a_life_at_the_threshold_of_its_vendor_is_judged_without_the_model(
    failed: str, severity: str
) -> None:
    """What the vendor called failed is that on each model, also where smartctl prints no word."""
    told = read(
        "ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED"
        " RAW_VALUE\n202 Percent_Lifetime_Remain 0x0030   010   010   010    Old_age   Offline "
        f" {failed} 90\n"
    )
    assert [(each.severity, each.alert) for each in told.alerts] == [
        (severity, "DiskAttributeFailed")
    ]


def test_a_mail_of_zed_names_the_device_and_is_no_status_of_a_pool() -> None:
    """Its head has 'pool:' and 'state:' as 'zpool status' has, the other way round."""
    text = """\
The number of I/O errors associated with a ZFS device exceeded
acceptable levels. ZFS has marked the device as faulted.

 impact: Fault tolerance of the pool may be compromised.
    eid: 61
  class: statechange
  state: FAULTED
   host: pve1
   time: 2024-05-02 03:11:02+0200
  vpath: /dev/disk/by-id/ata-ST8000VN004_WSD1ABCD-part1
  devid: ata-ST8000VN004_WSD1ABCD-part1
   pool: tank (0x8A9BACBDCEDFE0F1)
"""
    explained = read(text)
    assert [(a.severity, a.object) for a in explained.alerts] == [("warning", "tank")]
    assert "ata-ST8000VN004_WSD1ABCD-part1: it is FAULTED" in explained.alerts[0].text
    assert not explained.unparsed


@pytest.mark.parametrize(
    ("status", "code"),
    [("34        In progress     3 Hours", 1), ("-         Not in progress -", 0)],
)
def test_a_task_that_storcli_shows_alone_is_told(status: str, code: int) -> None:
    """'show rebuild': the state of the drive is not in it."""
    rule = "-" * 60
    text = (
        "CLI Version = 007.1506.0000.0000 Aug 11, 2020\nOperating system = Linux 5.4.0\n"
        "Controller = 0\nStatus = Success\nDescription = Show Drive Rebuild Status Succeeded.\n\n\n"
        f"{rule}\nDrive-ID   Progress% Status          Estimated Time Left\n{rule}\n"
        f"/c0/e8/s3  {status}\n{rule}\n"
    )
    explained = read(text)
    assert (explained.status, explained.unparsed) == (code, ())


def test_a_slot_in_the_data_of_an_event_is_no_disk() -> None:
    """The event log of MegaCli: the entry is whole."""
    text = """\
seqNum: 0x00004a1c
Time: Sat Nov 28 03:11:09 2026

Code: 0x0000006d
Class: 2
Locale: 0x02
Event Description: Unrecoverable medium error during rebuild on PD 15(e0xfc/s3) at 20d803e
Event Data:
===========
Device ID: 21
Enclosure Index: 252
Slot Number: 3
LBA: 34439230
"""
    explained = read(text)
    assert [o for o in explained.objects if o.type == "disk"] == []
    assert "critical" in {e.severity for e in explained.events}


def test_the_controller_of_sas2ircu_is_none_of_arcconf() -> None:
    """Both have a section 'Controller information'."""
    text = """\
LSI Corporation SAS2 IR Configuration Utility.
------------------------------------------------------------------------
Controller information
------------------------------------------------------------------------
  Controller type                         : SAS2008
  Firmware version                        : 20.00.07.00
------------------------------------------------------------------------
IR Volume information
------------------------------------------------------------------------
------------------------------------------------------------------------
Physical device information
------------------------------------------------------------------------
SAS2IRCU: Command DISPLAY Completed Successfully.
SAS2IRCU: Utility Completed Successfully.
"""
    assert read(text).kind == "sas2ircu"
