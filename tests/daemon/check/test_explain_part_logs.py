"""'iowarden explain' of parts that stand alone: logs of smartctl, a battery of storcli, counts."""

from __future__ import annotations

import json

import pytest
from support.explained import read

HEAD = "smartctl 7.4 2023-08-01 r5530 [x86_64-linux-6.1.0-18-amd64] (local build)\n\n"
STATISTICS = """\
Device Statistics (GP Log 0x04)
Page  Offset Size        Value Flags Description
0x03  =====  =               =  ===  == Rotating Media Statistics (rev 1) ==
0x03  0x020  4               0  {flags}Number of Reallocated Logical Sectors
0x03  0x038  4               -  {flags}Number of Realloc. Candidate Logical Sectors
0x04  =====  =               =  ===  == General Errors Statistics (rev 1) ==
0x04  0x008  4              {count}  {flags}Number of Reported Uncorrectable Errors
                                |||_ C monitored condition met

"""
DEFECTS = "Pending Defects log (GP Log 0x0c)\n"
FARM = """\
Seagate Field Access Reliability Metrics log (FARM) (GP Log 0xa6)
	FARM Log Page 3: Error Statistics
		Unrecoverable Read Errors: {count}
		Number of Reallocated Sectors: 0
		Number of Mechanical Start Failures: 0
"""
PHYS = """\
Protocol Specific port log page for SAS SSP
relative target port id = 1
  phy identifier = 0
    Invalid DWORD count = {count}
    Running disparity error count = 0
    Loss of DWORD synchronization = 0
    Phy reset problem = 0
"""
TEXTS = {
    "statistics": STATISTICS.replace("{flags}", "---  "),
    "statistics of smartmontools 6.4": STATISTICS.replace("{flags}", ""),
    "FARM": FARM,
}


@pytest.mark.parametrize("name", TEXTS)
def test_an_error_count_of_a_log_that_stands_alone(name: str) -> None:
    """'smartctl -l devstat', '-l farm': no refusal, and the errors are a warning."""
    ill, well = (read(HEAD + TEXTS[name].format(count=count)) for count in (44, 0))
    assert [(each.severity, each.alert) for each in ill.alerts] == [
        ("warning", "DiskErrorsInBaseline")
    ]
    assert "44 uncorrectable errors" in ill.alerts[0].text
    assert (ill.status, well.status) == (1, 0)
    assert (ill.unparsed, well.unparsed, well.alerts) == ((), (), ())


def test_pending_defects_alone() -> None:
    """'smartctl -l defects': two sectors, or the sentence that there are none."""
    rows = "Index                LBA    Hours\n    0          281920112    38110\n"
    rows += "    1          281920113    38110\n"
    explained = read(HEAD + DEFECTS + rows)
    assert [each.alert for each in explained.alerts] == ["DiskPendingSectors"]
    assert "2 sectors" in explained.alerts[0].text
    assert read(f"{HEAD}{DEFECTS}No Defects Logged\n").status == 0


@pytest.mark.parametrize(("count", "severity"), [(0, None), (4, "info"), (5000, "notice")])
def test_errors_of_sas_phys(count: int, severity: str | None) -> None:
    """'smartctl -l sasphy': some errors at each reset of a link are normal."""
    explained = read(HEAD + PHYS.format(count=count))
    assert [each.severity for each in explained.alerts] == ([severity] if severity else [])
    assert explained.unparsed == ()


WEAR = "0x07  0x008  1             {used}  N--  Percentage Used Endurance Indicator\n"
OLD_WEAR = "  7  0x008  1             {used}~ Percentage Used Endurance Indicator\n"
ON_SDG = f"# smartctl -l devstat /dev/sdg\n{HEAD}"
RULES_OF_WEAR = [("warning", "DiskEnduranceUsed", "/dev/sdg")]


def faults(text: str) -> list[tuple[str, str, str]]:
    """Return the severity, the name and the object of each alert in a text."""
    return [(each.severity, each.alert, each.object) for each in read(text).alerts]


@pytest.mark.parametrize("row", [WEAR, OLD_WEAR])
def test_the_wear_in_device_statistics_that_stand_alone(row: str) -> None:
    """'smartctl -l devstat', '-l ssd': page 7; the command names the drive."""
    head = f"{ON_SDG}Device Statistics (GP Log 0x04)\n"
    assert faults(head + row.format(used=103)) == RULES_OF_WEAR
    assert faults(head + row.format(used=90)) == RULES_OF_WEAR
    young = read(head + row.format(used=89))
    assert (young.status, young.alerts) == (0, ())
    assert [each.name for each in young.objects] == ["/dev/sdg"]


def test_the_wear_of_a_sas_ssd_alone() -> None:
    """'smartctl -l ssd' of SCSI: one line, or one name of the JSON."""
    line = "Percentage used endurance indicator: {}%\n"
    assert faults(ON_SDG + line.format(100)) == RULES_OF_WEAR
    assert read(ON_SDG + line.format(12)).status == 0
    document = {"smartctl": {"version": [7, 4]}, "scsi_percentage_used_endurance_indicator": 97}
    assert [each.alert for each in read(json.dumps(document)).alerts] == ["DiskEnduranceUsed"]


@pytest.mark.parametrize(
    ("celsius", "severities"), [(41, []), (64, []), (65, ["warning"]), (70, ["critical"])]
)
def test_the_heat_in_device_statistics_that_stand_alone(
    celsius: int, severities: list[str]
) -> None:
    """Page 5 has the temperature and its limit: the rule's distance from it applies."""
    rows = (
        f"0x05  0x008  1              {celsius}  ---  Current Temperature\n"
        "0x05  0x058  1              70  ---  Specified Maximum Operating Temperature\n"
    )
    told = read(f"{ON_SDG}Device Statistics (GP Log 0x04)\n{rows}")
    assert [each.severity for each in told.alerts] == severities
    assert {each.alert for each in told.alerts} <= {"DiskTemperatureHigh"}


@pytest.mark.parametrize(("count", "severity"), [("0", None), ("7", "info"), ("65535+", "notice")])
def test_checksum_errors_of_a_sata_link_alone(count: str, severity: str | None) -> None:
    """'smartctl -l sataphy': ICRC errors; resets of the link are normal."""
    told = read(
        f"# smartctl -l sataphy /dev/sdg\n{HEAD}SATA Phy Event Counters (GP Log 0x11)\n"
        "ID      Size     Value  Description\n"
        f"0x0001  2        {count}  Command failed due to ICRC error\n"
        "0x000a  2            7  Device-to-host register FISes sent due to a COMRESET\n"
    )
    assert [each.severity for each in told.alerts] == ([severity] if severity else [])
    assert (told.unparsed, [each.name for each in told.objects]) == ((), ["/dev/sdg"])


def test_a_log_without_a_count_that_is_judged_is_refused() -> None:
    """'smartctl -l devstat,1' has hours and sectors only: no word about health."""
    row = "0x01  0x010  4           43510  ---  Power-on Hours\n"
    told = read(f"{ON_SDG}Device Statistics (GP Log 0x04)\n{row}")
    assert (told.status, told.alerts) == (2, ())
    assert "no health data" in told.unparsed[0].reason


def test_device_statistics_as_json() -> None:
    """'smartctl -j -l devstat'."""
    row = {"offset": 8, "name": "Number of Reported Uncorrectable Errors", "value": 3}
    document = {
        "smartctl": {"version": [7, 4], "exit_status": 0},
        "ata_device_statistics": {"pages": [{"number": 4, "table": [row]}]},
    }
    explained = read(json.dumps(document))
    assert "3 uncorrectable errors" in explained.alerts[0].text


def test_a_disk_that_sleeps_is_no_text_that_was_not_parsed() -> None:
    """'smartctl -n standby': it was left alone on purpose, and nothing is known of it."""
    explained = read(f"{HEAD}Device is in STANDBY mode, exit(2)\n")
    assert (explained.status, explained.unparsed) == (2, ())
    assert explained.objects[0].vendor_state == "asleep"


BATTERY = """\
CLI Version = 007.1912.0000.0000 Nov 23, 2021
Operating system = Linux 5.4.0-174-generic
Controller = 0
Status = Success
Description = None


Cachevault_Info :
===============

--------------------
Property    Value
--------------------
Type        CVPM05
Temperature 31 C
State       {state}
--------------------


Firmware_Status :
===============

---------------------------------------
Property                         Value
---------------------------------------
Replacement required             {replace}
No space to cache offload        No
---------------------------------------

"""


@pytest.mark.parametrize(
    ("state", "replace", "status"),
    [("Optimal", "No", 0), ("Failed", "Yes", 1), ("Optimal", "Yes", 1)],
)
def test_a_battery_alone(state: str, replace: str, status: int) -> None:
    """'storcli /c0/cv show all'."""
    explained = read(BATTERY.format(state=state, replace=replace))
    assert (explained.status, explained.unparsed) == (status, ())
    assert [each.alert for each in explained.alerts] == ["ControllerBatteryFault"] * status


COUNTS = """\
Adapter #0

==============================================================================
                    Versions
                ================
Product Name    : LSI MegaRAID SAS 9271-8i

                Device Present
                ================
Virtual Drives    : 2
  Degraded        : {degraded}
  Offline         : 0
Physical Devices  : 9
  Disks           : 8
  Critical Disks  : 0
  Failed Disks    : {failed}

Exit Code: 0x00
"""


@pytest.mark.parametrize(
    ("degraded", "failed", "alerts"),
    [
        (0, 0, set()),
        (1, 0, {"ControllerArrayDegraded"}),
        (0, 1, {"ControllerDiskFailed"}),
    ],
)
def test_an_adapter_that_only_counts(degraded: int, failed: int, alerts: set[str]) -> None:
    """'MegaCli -AdpAllInfo': what it counts is a state of its volumes and disks."""
    explained = read(COUNTS.format(degraded=degraded, failed=failed))
    assert {each.alert for each in explained.alerts if each.severity == "critical"} == alerts
    assert (explained.status, explained.unparsed) == (1 if alerts else 0, ())


def test_a_battery_of_which_the_text_says_nothing_is_not_absent() -> None:
    """'storcli /c0/vall show' has no section of a battery: no claim about one."""
    explained = read(
        "CLI Version = 007.1912.0000.0000 Nov 23, 2021\nController = 0\nStatus = Success\n"
        "Description = None\n\n\nVirtual Drives :\n==============\n\n"
        "---------------------------------------------------------------\n"
        "DG/VD TYPE  State Access Consist Cache Cac sCC     Size Name\n"
        "---------------------------------------------------------------\n"
        "0/239 RAID6 Optl  RW     Yes     RWBD  -   OFF  43.6 TB bulk\n"
        "---------------------------------------------------------------\n\n"
    )
    assert explained.alerts == ()
    assert len(explained.objects) == 2


def attribute(number: int, name: str, value: int, raw: str = "1") -> str:
    """Return a row of 'smartctl -A', of the form of '-x'."""
    return f"{number:3} {name:<23} -O--CK   {value:03}   {value:03}   000    -    {raw}\n"


TABLE = "ID# ATTRIBUTE_NAME          FLAGS    VALUE WORST THRESH FAIL RAW_VALUE\n"
PASSED = "SMART overall-health self-assessment test result: PASSED\n\n"


@pytest.mark.parametrize(
    ("number", "name"),
    [
        *((177, "Wear_Range_Delta"), (195, "Wear_Delta_Avg_Max_Min"), (241, "Lifetime_Writes_GiB")),
        *((242, "Lifetime_Reads_GiB"), (241, "Lifetime_Wts_Frm_Hst_GB"), (245, "Lifetime_Nand_Gb")),
        *((243, "Lifetime_NAND_Prg_GiB"), (181, "Lifetime_UECC_Ct"), (241, "Lifetime_Writes")),
    ],
)
def test_a_count_of_a_drives_life_at_0_is_no_wear(number: int, name: str) -> None:
    """What was written, and differences in wear, have a normalized value that says nothing."""
    assert read(HEAD + PASSED + TABLE + attribute(number, name, 0)).alerts == ()
    worn = read(HEAD + PASSED + TABLE + attribute(231, "SSD_Life_Left", 0))
    assert [each.alert for each in worn.alerts] == ["DiskEnduranceUsed"]


WORN = (
    HEAD + PASSED.replace("PASSED", "FAILED!") + "SMART/Health Information (NVMe Log 0x02)\n"
    "Critical Warning:                   0x{warning}\n"
    "Available Spare:                    {spare}%\n"
    "Available Spare Threshold:          10%\n"
    "Percentage Used:                    {used}%\n"
)


def test_a_worn_drive_whose_media_errors_are_not_in_the_text() -> None:
    """100 % used explains 0x04; what would contradict that is missing, and is asked for."""
    told = read(WORN.format(warning="04", spare=100, used=100))
    assert [(each.severity, each.alert) for each in told.alerts] == [
        ("warning", "DiskEnduranceUsed")
    ]
    assert "Media and Data Integrity Errors" in told.unparsed[0].reason
    for values in (("04", 100, 60), ("04", 70, 100), ("0c", 100, 100)):
        bad = read(WORN.format(**dict(zip(("warning", "spare", "used"), values, strict=True))))
        assert bad.alerts[0].severity == "critical"


@pytest.mark.parametrize(
    "row",
    [
        "Reallocated_Sector_Ct    val=100 worst=100 thresh=010  raw=2872\n",
        "5 Reallocated_Sector_Ct: 2872\n",
        "  Current_Pending_Sector = 16\n",
        "Offline_Uncorrectable | 16\n",
    ],
)
def test_an_attribute_in_another_form_than_smartctls_is_not_passed_over(row: str) -> None:
    """What a script made of the table: the drive is not called well without it."""
    told = read(f"{PASSED}{row}ATA Error Count: 3\n")
    assert told.status == 2
    assert [each.text.strip() for each in told.unparsed if each.text] == [row.strip()]


def test_rows_that_are_quoted_above_the_whole_report_are_read() -> None:
    """A user shows first what frightens him, then all of it."""
    rows = attribute(197, "Current_Pending_Sector", 100, "8")
    told = read(f"Look at this:\n\n{rows}\n# smartctl -H /dev/sdq\n{HEAD}{PASSED}")
    assert [each.alert for each in told.alerts] == ["DiskPendingSectors"]


@pytest.mark.parametrize(("used", "state"), [(50, "ok"), (91, "attention"), (107, "attention")])
def test_a_drive_that_calls_itself_well_and_has_a_warning_needs_attention(
    used: int, state: str
) -> None:
    """PASSED is its own word beside; the table shows the worst of what is known of it."""
    (drive,) = read(
        WORN.replace("FAILED!", "PASSED").format(warning="00", spare=100, used=used)
    ).objects
    assert (drive.state, drive.vendor_state) == (state, "PASSED")


POLICIES = """\
# MegaCli -LDInfo -L{at} -a0 -NoLog | grep -i 'cache policy\\|^State'
State               : Optimal
Default Cache Policy: WriteBack, ReadAhead, Direct, No Write Cache if Bad BBU
Current Cache Policy: {now}, ReadAhead, Direct, No Write Cache if Bad BBU
Disk Cache Policy   : Disabled
"""


@pytest.mark.parametrize(
    ("now", "alerts"), [("WriteBack", []), ("WriteThrough", ["ControllerWriteCacheDisabled"])]
)
def test_cache_policies_that_grep_left_of_a_megaraid_volume(now: str, alerts: list[str]) -> None:
    """Default WriteBack, current WriteThrough: the controller gave up its cache by itself."""
    battery = "# MegaCli -AdpBbuCmd -a0\nBBU status for Adapter: 0\n\nBattery State     : Optimal\n"
    policies = POLICIES.format(now=now, at=3)
    told = read(f"{battery}\nExit Code: 0x00\n{policies}")
    assert ([each.alert for each in told.alerts], told.unparsed) == (alerts, ())
    assert "virtual drive 3" in [each.name for each in told.objects]
    rows = policies.partition("\n")[2]
    twice = read(f"# MegaCli -LDInfo -LALL -aALL | grep -i 'policy\\|^State'\n{rows}{rows}")
    volumes = [each.name for each in twice.objects if each.type == "array"]
    assert volumes == ["virtual drive 0", "virtual drive 1"]


def test_the_head_of_an_array_with_a_failed_spare_is_read() -> None:
    """ssacli's sentence in it is no unknown line, and the disks below keep their array."""
    told = read(
        "Smart Array P420i in Slot 0 (Embedded)    (sn: 001438024CD7AE0)\n\n"
        "   Array A - One of the drives on this array have failed or has been removed. (Failed)\n\n"
        "      logicaldrive 1 (1.1 TB, RAID 5, OK)\n\n"
        "      physicaldrive 2I:1:8 (port 2I:box 1:bay 8, SAS, 300 GB, Failed, spare)\n"
    )
    assert told.unparsed == ()
    (disk,) = (each for each in told.objects if each.type == "disk")
    assert (disk.details["array"], disk.details["usage"], disk.state) == (
        ("array A", "spare", "failed")
    )
    assert "ControllerArrayFailed" not in [each.alert for each in told.alerts]
