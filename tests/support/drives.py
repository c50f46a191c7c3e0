"""Outputs of smartctl for drives that do not exist, as long as real ones."""

from __future__ import annotations

import json

NAMES = {
    1: "Raw_Read_Error_Rate",
    2: "Throughput_Performance",
    3: "Spin_Up_Time",
    4: "Start_Stop_Count",
    5: "Reallocated_Sector_Ct",
    7: "Seek_Error_Rate",
    9: "Power_On_Hours",
    10: "Spin_Retry_Count",
    12: "Power_Cycle_Count",
    183: "Runtime_Bad_Block",
    184: "End-to-End_Error",
    187: "Reported_Uncorrect",
    188: "Command_Timeout",
    189: "High_Fly_Writes",
    190: "Airflow_Temperature_Cel",
    192: "Power-Off_Retract_Count",
    193: "Load_Cycle_Count",
    194: "Temperature_Celsius",
    197: "Current_Pending_Sector",
    198: "Offline_Uncorrectable",
    199: "UDMA_CRC_Error_Count",
    241: "Total_LBAs_Written",
    242: "Total_LBAs_Read",
}
FLAGS = {
    "prefailure": True,
    "updated_online": True,
    "performance": False,
    "error_rate": False,
    "event_count": True,
    "auto_keep": True,
}
_REST = "TYPE      UPDATED  WHEN_FAILED RAW_VALUE"
_LEFT = "Remaining  LifeTime(hours)  LBA_of_first_error"


def ata(serial: str, second: int = 0) -> str:
    """Return what 'smartctl --json=co -x -f old' says of a SATA disk after so many seconds.

    20 kB: 23 attributes, logs, device statistics, and the text of all that.
    """
    raw = {number: number * 1000 for number in NAMES}
    raw |= dict.fromkeys((5, 10, 184, 187, 188, 197, 198, 199), 0)
    raw |= {9: 20_000 + second // 3600, 194: 30 + second // 60 % 9, 241: 10**9 + second}
    table = [
        {
            "id": number,
            "name": name,
            "value": 100,
            "worst": 99,
            "thresh": 36,
            "when_failed": "",
            "flags": {"value": 51, "string": "PO--CK ", **FLAGS},
            "raw": {"value": raw[number], "string": str(raw[number])},
        }
        for number, name in NAMES.items()
    ]
    tests = [
        {
            "type": {"value": 1, "string": "Short offline"},
            "status": {"value": 0, "string": "Completed without error", "passed": True},
            "lifetime_hours": 19_000 - 24 * number,
        }
        for number in range(19)
    ]
    log = {"revision": 1, "table": tests, "count": 19, "error_count_total": 0}
    statistics = [
        {
            "offset": 8 * number,
            "name": f"Statistic of page 1 number {number}",
            "size": 4,
            "value": number * 12345,
            "flags": {"value": 192, "string": "V---", "valid": True, "normalized": False},
        }
        for number in range(20)
    ]
    document = {
        "json_format_version": [1, 0],
        "smartctl": {
            "version": [7, 3],
            "svn_revision": "5338",
            "platform_info": "x86_64-linux-6.1.0",
            "build_info": "(local build)",
            "argv": ["smartctl", "--json=co", "-x", "-f", "old", "-d", "sat", "/dev/sda"],
            "exit_status": 0,
            "output": _text(serial, raw),
        },
        "device": {"name": "/dev/sda", "type": "sat", "protocol": "ATA"},
        "model_family": "Made-up Disks",
        "model_name": "MADEUP 8000",
        "serial_number": serial,
        "firmware_version": "A1",
        "wwn": {"naa": 5, "oui": 3274, "id": sum(serial.encode())},
        "user_capacity": {"blocks": 15_628_053_168, "bytes": 8_001_563_222_016},
        "logical_block_size": 512,
        "physical_block_size": 4096,
        "rotation_rate": 7200,
        "smart_support": {"available": True, "enabled": True},
        "smart_status": {"passed": True},
        "ata_smart_attributes": {"revision": 10, "table": table},
        "power_on_time": {"hours": raw[9]},
        "power_cycle_count": raw[12],
        "temperature": {"current": raw[194], "lifetime_max": 61},
        "ata_smart_error_log": {"summary": {"revision": 1, "count": 0}},
        "ata_smart_self_test_log": {"extended": log, "standard": log},
        "ata_device_statistics": {"pages": [{"number": 1, "name": "General", "table": statistics}]},
    }
    return json.dumps(document, separators=(",", ":"))


def _text(serial: str, raw: dict[int, int]) -> list[str]:
    attributes = [
        f"{number:3} {name:<24}0x0033   100   099   036    Pre-fail  Always       -"
        f"       {raw[number]}"
        for number, name in NAMES.items()
    ]
    tests = [
        f"#{number + 1:2}  Short offline       Completed without error       00%"
        f"     {19_000 - 24 * number:5}         -"
        for number in range(19)
    ]
    return [
        "smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0] (local build)",
        "",
        "=== START OF INFORMATION SECTION ===",
        "Model Family:     Made-up Disks",
        "Device Model:     MADEUP 8000",
        f"Serial Number:    {serial}",
        "Firmware Version: A1",
        "User Capacity:    8,001,563,222,016 bytes [8.00 TB]",
        "Rotation Rate:    7200 rpm",
        "SMART support is: Available - device has SMART capability.",
        "SMART support is: Enabled",
        "",
        "=== START OF READ SMART DATA SECTION ===",
        "SMART overall-health self-assessment test result: PASSED",
        "",
        "SMART Attributes Data Structure revision number: 10",
        "Vendor Specific SMART Attributes with Thresholds:",
        f"ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH {_REST}",
        *attributes,
        "",
        "SMART Error Log Version: 1",
        "No Errors Logged",
        "",
        "SMART Self-test log structure revision number 1",
        f"Num  Test_Description    Status                  {_LEFT}",
        *tests,
        "",
    ]
