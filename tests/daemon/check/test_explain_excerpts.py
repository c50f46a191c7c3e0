"""'iowarden explain' of lvs, of excerpts, and of what only looks like a fault."""

from __future__ import annotations

import pytest
from support.explained import read

LVS = "  LV   VG   Attr       LSize   Pool Origin Data%  Meta%  Move Log Cpy%Sync Convert\n"


@pytest.mark.parametrize(
    ("row", "severity"),
    [
        ("root vg0 -wi-ao----  50.00g", ""),
        ("data vg1 rwi-aor---  1.82t                 100.00", ""),
        ("data vg1 rwi-aor-p-  1.82t                 100.00", "critical"),
        ("data vg1 rwi-aor-r-  1.82t                 100.00", "critical"),
        ("data vg1 rwi-aor-m-  1.82t                 100.00", "warning"),
        ("flat vg1 -wi-----p-  1.82t", "critical"),
        ("pool vg1 twi-aotzD-  9.00g  100.00 0.73", "critical"),
        ("pool vg1 twi-aotzM-  9.00g  10.00  99.90", "critical"),
        ("pool vg1 twi-cotz--  9.00g  10.00  9.90", "critical"),
        ("pool vg1 twi-aotz--  9.00g  85,00  9,90", "warning"),
        ("pool vg1 twi-aotz--  9.00g  10.00  95.00", "critical"),
        ("thin vg1 Vwi-aotz--  9.00g pool  99.92", ""),
        ("snap vg1 swi-I-s---  9.00g root  100.00", "warning"),
        ("snap vg1 swi-a-s---  9.00g root  12.00", ""),
        ("[d_rimage_0] vg1 iwi-aor---  9.00g", ""),
    ],
)
def test_attributes_of_a_logical_volume(row: str, severity: str) -> None:
    """The fifth and the ninth letter, and how full what can be full is; all else is no fault."""
    explained = read(f"{LVS}  {row}\n")
    levels = {a.severity for a in explained.alerts}
    assert severity in levels if severity else not levels, explained.alerts
    assert explained.unparsed == ()


@pytest.mark.parametrize("health", "pr")
@pytest.mark.parametrize("is_all", [True, False])
@pytest.mark.parametrize(
    ("segment_type", "legs", "lost", "severity"),
    [
        ("raid1", 2, 1, "critical"),
        ("raid1", 3, 1, "warning"),
        ("raid1", 3, 2, "critical"),
        ("mirror", 2, 1, "critical"),
        ("raid0", 2, 1, "critical"),
        ("raid5_ls", 4, 1, "critical"),
        ("raid6_zr", 5, 1, "warning"),
        ("raid6_zr", 5, 2, "critical"),
        ("raid10", 4, 1, "critical"),
        ("", 2, 1, "critical"),
        ("", 4, 1, "critical"),
    ],
)
def test_a_volume_without_a_leg_is_as_severe_as_the_redundancy_that_is_left(
    segment_type: str, legs: int, lost: int, severity: str, is_all: bool, health: str
) -> None:
    """As of md: by its type and its legs. Its legs are no volumes of their own with lost data."""
    if lost > 1 and not is_all:
        pytest.skip("how many legs are lost is in their rows only")
    kind = "mimage" if segment_type == "mirror" else "rimage"
    devices = ",".join(f"d_{kind}_{leg}(0)" for leg in range(legs))
    rows = [f"d vg1 rwi-aor-{health}- 1.82t 100.00 {segment_type} {devices}"]
    for leg in range(legs * is_all):
        own = health if leg < lost else "-"
        rows += [
            f"[d_{kind}_{leg}] vg1 Iwi-aor-{own}- 1.82t linear /dev/sd{'abcdef'[leg]}(1)",
            f"[d_rmeta_{leg}] vg1 ewi-aor-{own}- 4.00m linear /dev/sd{'abcdef'[leg]}(0)",
        ]
    explained = read(LVS + "".join(f"  {row}\n" for row in rows))
    assert [(a.severity, a.object) for a in explained.alerts] == [(severity, "vg1/d")]
    assert explained.unparsed == ()


def test_a_missing_device_is_critical_only_where_no_volume_is_shown() -> None:
    """Which volumes lost data or redundancy is in the rows of lvs; without them it is not known."""
    group = "  VG   #PV #LV #SN Attr   VSize VFree\n  vg1    2   1   0 wz-pn- 3.64t    0\n"
    volume = f"{LVS}  root vg1 -wi-ao----  50.00g\n"
    assert [a.severity for a in read(group).alerts] == ["critical"]
    assert [a.severity for a in read(group + volume).alerts] == ["warning"]


def test_a_missing_physical_volume() -> None:
    """LVM's own warning, the attribute of the group and of the volume are of the same loss."""
    text = (
        "  WARNING: VG vg1 is missing PV Zk1v2W (last written to /dev/sdq1).\n"
        "  VG   #PV #LV #SN Attr   VSize VFree\n  vg1    2   1   0 wz-pn- 3.64t    0\n"
    )
    explained = read(text)
    assert {(a.alert, a.object) for a in explained.alerts} == {
        ("LvmDeviceMissing", "vg1"),
        ("LvmFault", "vg1"),
    }
    assert "/dev/sdq1" in "".join(a.text for a in explained.alerts)


SSD = """\
smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0-28-amd64] (local build)

=== START OF INFORMATION SECTION ===
Device Model:     {model}
Serial Number:    S0003

=== START OF READ SMART DATA SECTION ===
SMART overall-health self-assessment test result: PASSED

ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED RAW_VALUE
  2 Throughput_Performance  0x0032   100   100   000    Old_age   Always       -       {unused}
  3 Spin_Up_Time            0x0033   100   100   000    Pre-fail  Always       -       {unused}
  5 Reallocated_Sector_Ct   0x0033   100   100   000    Pre-fail  Always       -       100
  7 Seek_Error_Rate         0x0033   100   100   000    Pre-fail  Always       -       {unused}
  9 Power_On_Hours          0x0032   100   100   000    Old_age   Always       -       14022
"""


def test_a_placeholder_is_no_count() -> None:
    """A drive without a spindle that has 100 in each attribute of one has not counted 100."""
    placeholders = read(SSD.format(model="ACME-SSD", unused=100))
    assert (placeholders.status, placeholders.alerts) == (0, ())
    assert "reallocated" not in placeholders.objects[0].counts
    real = read(SSD.format(model="ACME-SSD", unused=0))
    assert [a.alert for a in real.alerts] == ["DiskErrorsInBaseline"]


REMOVED = """\
[812233.1] sd 0:0:9:0: [sdj] Synchronizing SCSI cache
{flush}[812233.2] sd 0:0:9:0: [sdj] Stopping disk
{stop}[812235.0] mpt3sas_cm0: removing handle(0x0013), sas_addr(0x5000cca2531a0c15)
"""
FAILED = "Result: hostbyte=DID_NO_CONNECT driverbyte=DRIVER_OK"


@pytest.mark.parametrize(
    ("flush", "stop", "status"),
    [
        ("", "", 0),
        (f"[812233.2] sd 0:0:9:0: [sdj] Synchronize Cache(10) failed: {FAILED}\n", "", 1),
        ("", f"[812233.3] sd 0:0:9:0: [sdj] Start/Stop Unit failed: {FAILED}\n", 1),
    ],
)
def test_a_disk_that_obeyed_its_last_commands_was_removed(
    flush: str, stop: str, status: int
) -> None:
    """Who deletes a disk in sysfs gets no alarm; who lost one does: it could not be flushed."""
    explained = read(REMOVED.format(flush=flush, stop=stop))
    assert explained.status == status
    assert bool(explained.alerts) == bool(status)


ARCCONF = """\
{indent}Logical device number 1
{indent}   Logical device name                      : homes
{indent}   RAID level                               : 5
{indent}   Status of logical device                 : {state}
{indent}   Failed stripes                           : {stripes}
{indent}   Segment 0                                : Present (0,0) 9QK01AAA
{indent}   Segment 1                                : Present (0,1) 9QK01BBB
"""


@pytest.mark.parametrize("state", ["Optimal", "Degraded"])
def test_failed_stripes_are_lost_data_in_each_state(state: str) -> None:
    """Those of a degraded volume are lost as well: the word is in the alert."""
    text = f"Logical device information\n{ARCCONF.format(indent='', state=state, stripes='Yes')}"
    assert any("failed stripes" in a.text for a in read(text).alerts)
    text = f"Logical device information\n{ARCCONF.format(indent='', state=state, stripes='No')}"
    assert not any("failed stripes" in a.text for a in read(text).alerts)


@pytest.mark.parametrize(
    "head", ["", "Logical device information\n", "   Logical device information\n"]
)
def test_a_section_of_arcconf_without_what_stands_above_it(head: str) -> None:
    """A paste begins where the interesting part begins."""
    explained = read(head + ARCCONF.format(indent="", state="Degraded", stripes="No"))
    assert explained.kind == "arcconf"
    assert "critical" in {a.severity for a in explained.alerts}


def test_rows_of_a_log_of_areca_begin_with_any_device() -> None:
    """The newest rows are of a volume, not of the controller."""
    text = "2024-2-1 01:00:00  ARC-1882-VOL#01  Complete Check        007:12:40  0\n"
    assert (read(text).kind, read(text).status) == ("cli64", 0)


def test_a_test_mail_of_smartd_is_no_fault() -> None:
    """Its subject has the word 'error', and it names a disk."""
    text = (
        "Subject: SMART error (EmailTest) detected on host: pc\n\n"
        "TEST EMAIL from smartd for device: /dev/sda [SAT]\n"
    )
    assert (read(text).kind, read(text).status) == ("services", 0)


def test_names_of_damaged_files_are_whole() -> None:
    """A name that is cut is the name of another file."""
    names = [f"/data/vm/win{number}.qcow2" for number in range(40)]
    rows = "".join(f"        {name}\n" for name in names)
    text = (
        "  pool: data\n state: ONLINE\nconfig:\n\n\tNAME        STATE     READ WRITE CKSUM\n"
        "\tdata        ONLINE       0     0     0\n\t  sdb       ONLINE       0     0     0\n\n"
        f"errors: Permanent errors have been detected in the following files:\n\n{rows}"
    )
    (alert,) = [a for a in read(text).alerts if a.alert == "ZfsDataErrors"]
    shown = [word for word in alert.text.split() if word.startswith("/data")]
    assert shown
    assert set(shown) <= set(names)
    assert "zpool status -v" in alert.text


CACHE = """\
   Cache Board Present: True
   Cache Status: {cache}
   Battery/Capacitor Count: 1
   Battery/Capacitor Status: {battery}
"""


@pytest.mark.parametrize(
    ("cache", "battery", "status"),
    [("OK", "OK", 0), ("Temporarily Disabled", "Failed (Replace Batteries/Capacitors)", 1)],
)
def test_the_cache_of_a_smart_array_without_its_heading(
    cache: str, battery: str, status: int
) -> None:
    """Which slot it is in is not in the text, and is not guessed."""
    explained = read(CACHE.format(cache=cache, battery=battery))
    assert (explained.kind, explained.status, explained.unparsed) == ("ssacli", status, ())
    assert explained.objects[0].name == "hp slot unknown"


@pytest.mark.parametrize(("word", "status"), [("No", 2), ("Yes", 1)])
def test_disks_of_arcconf_chosen_by_grep(word: str, status: int) -> None:
    """Without its place a row is no disk; that it has a SMART error is a fault all the same."""
    rows = (
        "      Device #0\n         State                              : Online\n"
        f"         S.M.A.R.T.                         : {word}\n"
    )
    text = f"root@old:~# ./arcconf getconfig 1 pd | egrep 'Device #|State|S.M.A.R.T'\n{rows}"
    assert read(text).status == status


PDLIST = """\
Adapter #0

Enclosure Device ID: 32
Slot Number: 5
Device Id: 13
PD Type: SAS
Firmware state: Online, Spun Up
Device Firmware Level: GS0D
Inquiry Data: {inquiry}

Exit Code: 0x00
"""


@pytest.mark.parametrize(
    "inquiry",
    ["SEAGATE ST2000NM0001    GS0DZ1P2YYBB            ", "SEAGATE ST2000NM0001 GS0DZ1P2YYBB"],
)
def test_the_serial_number_in_squeezed_inquiry_data(inquiry: str) -> None:
    """Its columns are fixed, unless a web page made one blank of several."""
    (disk,) = [o for o in read(PDLIST.format(inquiry=inquiry)).objects if o.type == "disk"]
    assert (disk.details["serial"], disk.details["model"]) == ("Z1P2YYBB", "SEAGATE ST2000NM0001")


UNSUPPORTED = """\
Controller = 0
Status = Failure
Description = None

Detailed Status :
===============

----------------------------------------------
Ctrl Status Property ErrMsg             ErrCd
----------------------------------------------
   0 Failed -        {error} 255
----------------------------------------------
"""


@pytest.mark.parametrize(
    ("error", "status"), [("Un-supported Command", 0), ("Device not found    ", 2)]
)
def test_an_adapter_without_a_cache_fails_to_show_it(error: str, status: int) -> None:
    """What a plain adapter cannot have is not unread; another failure is."""
    disks = (
        "PD LIST :\n=======\n\n" + "-" * 70 + "\n"
        "EID:Slt DID State DG     Size Intf Med SED PI SeSz Model        Sp Type\n"
        + "-"
        * 70
        + "\n"
        "0:0       0 JBOD   - 3.637 TB SAS  HDD N   N  512B ACME-1       U  -\n" + "-" * 70 + "\n"
    )
    text = f"$ storcli /c0/eall/sall show\n{disks}\n$ storcli /c0/cv show\n"
    assert read(text + UNSUPPORTED.format(error=error)).status == status


@pytest.mark.parametrize(
    ("tool", "text", "alert", "told"),
    [
        (
            "smartctl",
            """\
ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED RAW_VALUE
  5 Reallocated_Sector_Ct   0x0033   100   100   010    Pre-fail  Always       -       1432
197 Current_Pending_Sector  0x0012   100   100   000    Old_age   Always       -       24
""",
            "DiskPendingSectors",
            "24 pending sectors",
        ),
        (
            "smartctl",
            """\
SMART Self-test log structure revision number 1
Num  Test_Description    Status                  Remaining  LifeTime(hours)  LBA_of_first_error
# 1  Extended offline    Completed: read failure       90%     30100         123456789
""",
            "DiskSelfTestFailed",
            "first bad sector 123456789",
        ),
        (
            "smartctl",
            """\
SMART/Health Information (NVMe Log 0x02)
Critical Warning:                   0x01
Temperature:                        38 Celsius
Available Spare:                    3%
Available Spare Threshold:          10%
Percentage Used:                    12%
Media and Data Integrity Errors:    0
""",
            "NvmeSpareLow",
            "spare capacity",
        ),
        (
            "megacli",
            (
                "Virtual Drive: 0 (Target Id: 0)\nRAID Level : Primary-1, Secondary-0, RAID Level"
                " Qualifier-0\nSize : 931.0 GB\nState : Degraded\nNumber Of Drives : 2\n"
            ),
            "ControllerArrayDegraded",
            "virtual drive 0",
        ),
        (
            "megacli",
            (
                "Slot Number: 3\nDevice Id: 11\nMedia Error Count: 134\nOther Error Count: 0\n"
                "Predictive Failure Count: 1\nFirmware state: Online, Spun Up\n"
                "Inquiry Data: SEAGATE ST3600057SS     00086SL0ABCD\n"
            ),
            "ControllerDiskFailing",
            "slot 3",
        ),
        (
            "megacli",
            "Battery State: Missing\n  Charging Status              : None\n  Voltage : OK\n",
            "ControllerBatteryFault",
            "Missing",
        ),
        (
            "storcli",
            """\
TOPOLOGY :
========

---------------------------------------------------------------------------
DG Arr Row EID:Slot DID Type   State BT     Size PDC  PI SED DS3  FSpace TR
---------------------------------------------------------------------------
 0 -   -   -        -   RAID5  Dgrd  N  5.457 TB dsbl N  N   none N      N
 0 0   -   -        -   RAID5  Dgrd  N  5.457 TB dsbl N  N   none N      N
 0 0   0   252:0    8   DRIVE  Onln  N  1.818 TB dsbl N  N   none -      N
 0 0   1   -        -   DRIVE  Msng  -  1.818 TB -    -  -   -    -      N
---------------------------------------------------------------------------
""",
            "ControllerArrayDegraded",
            "drive group 0",
        ),
        (
            "arcconf",
            "Controller information\n" + "-" * 60 + "\n   Controller Status : Optimal\n"
            "   Controller Model : Adaptec 6805\n   Temperature : 62 C/ 143 F (Normal)\n"
            "   Controller Cache Backup Unit Information\n"
            "   Overall Backup Unit Status : Not Ready\n   Backup Unit Type : AFM-600\n",
            "ControllerBatteryFault",
            "Not Ready",
        ),
        (
            "arcconf",
            (
                "      Device #3\n         Device is a Hard drive\n         State : Failed\n"
                "         Reported Channel,Device(T:L) : 0,3(3:0)\n         Vendor : ATA\n"
                "         Model : WDC WD2003FYYS-0\n"
            ),
            "ControllerDiskFailed",
            "device 3",
        ),
        (
            "sas2ircu",
            (
                "IR volume 1\n  Volume ID : 322\n  Status of volume : Degraded (DGD)\n"
                "  RAID level : RAID1\n  Size (in MB) : 953343\n"
            ),
            "ControllerArrayDegraded",
            "volume 322",
        ),
        (
            "sas2ircu",
            (
                "Device is a Hard disk\n  Enclosure # : 1\n  Slot # : 2\n  State : Failed (FLD)\n"
                "  Manufacturer : ATA\n  Model Number : WDC WD1003FBYX-0\n  Serial No : WDWCAW3\n"
            ),
            "ControllerDiskFailed",
            "slot 2",
        ),
        (
            "mdadm",
            """\
             State : clean, degraded
    Active Devices : 1
    Failed Devices : 1
    Number   Major   Minor   RaidDevice State
       0       8        1        0      active sync   /dev/sda1
       -       0        0        1      removed
       1       8       17        -      faulty   /dev/sdb1
""",
            "MdMemberFaulty",
            "sdb1 failed",
        ),
        (
            "zpool",
            """\
        NAME        STATE     READ WRITE CKSUM
        tank        DEGRADED     0     0     0
          raidz1-0  DEGRADED     0     0     0
            sda     ONLINE       0     0     0
            sdb     UNAVAIL      0     0     0  corrupted data
            sdc     ONLINE       0     0    12
""",
            "ZfsPoolNoRedundancy",
            "tank has no redundancy left",
        ),
    ],
)
def test_a_part_without_the_head_of_its_output_is_explained(
    tool: str, text: str, alert: str, told: str
) -> None:
    """What is pasted is the part with the fault: its own headings name the program."""
    explained = read(text)
    assert explained.kind == tool
    assert explained.status == 1
    assert any(each.alert == alert and told in each.text for each in explained.alerts)


def test_tables_of_two_drives_without_a_banner_are_two_drives() -> None:
    """One paste after the other: the second drive's sectors are not the first one's."""
    table = (
        "ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED"
        " RAW_VALUE\n"
        "197 Current_Pending_Sector  0x0012   100   100   000    Old_age   Always       -"
        "       {}\n"
    )
    explained = read(table.format(0) + "\n" + table.format(24))
    assert [each.counts["pending"] for each in explained.objects] == [0, 24]
    (alert,) = (each for each in explained.alerts if each.alert == "DiskPendingSectors")
    assert alert.object == "disk drive 2"


def test_a_text_without_a_battery_is_no_proof_that_there_is_none() -> None:
    """Volumes alone: of the cache's battery the text has no section, so that it is not known."""
    text = (
        "Controller = 0\nStatus = Success\nDescription = None\n\n\n"
        f"Virtual Drives :\n==============\n\n{'-' * 62}\n"
        "DG/VD TYPE  State Access Consist Cache Cac sCC     Size Name\n"
        f"{'-' * 62}\n0/0   RAID1 Optl  RW     Yes     RAWBC -   ON  1.0 TB vd0\n{'-' * 62}\n"
    )
    told = read(text)
    assert "ControllerCacheWithoutBattery" not in {each.alert for each in told.alerts}
    assert told.objects[1].state == "ok"


def test_rows_of_attributes_alone_are_of_smartctl() -> None:
    """'grep Sector' and forums leave out the heading."""
    told = read(
        "  5 Reallocated_Sector_Ct   0x0033   097   097   010    Pre-fail Always - 1896\n"
        "197 Current_Pending_Sector  0x0012   100   100   000    Old_age Always - 40\n"
    )
    assert told.status == 1
    assert "DiskPendingSectors" in {each.alert for each in told.alerts}
