"""Texts of failing machines, truncated, damaged or contradictory: never "no problem".

The expected result is in the tables, as an exit status: WRONG if the readable part reports a
problem, UNREAD if part of it cannot be read and the rest is healthy. The healthy texts of
`support.printed` stay healthy. Nothing ends in a traceback, and every other result has a reason.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.explained import read
from support.printed import HEALTHY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from iowarden.daemon.check.explain import Explanation

WELL, WRONG, UNREAD = 0, 1, 2


class Fault(NamedTuple):
    """A healthy text by its name, the part that is changed, and the expected status."""

    text: str
    was: str
    now: str
    wanted: int = WRONG


FAULTS: Mapping[str, tuple[Fault, ...]] = {
    "mdstat": (
        Fault("two arrays", "[2/2] [UU]", "[2/1] [U_]"),
        Fault("two arrays", "[2/2] [UU]", "[2/2] [UU] [2/1] [U_]"),
        Fault("two arrays", "[2/2] [UU]", "[2/1] [U_] [2/2] [UU]"),
        Fault("two arrays", "[2/2] [UU]", "[2/2] [U_]"),
        Fault("two arrays", "[2/2] [UU]", "[2/1] [UU]"),
        Fault("two arrays", "[2/2] [UU]", "[2/2] [UF]", UNREAD),
        Fault("two arrays", "[2/2] [UU]", "[2/2]", UNREAD),
        Fault("prompt", "[2/2] [UU]", "[2/1] [U_]"),
        Fault("reshape", "[4/4] [UUUU]", "[4/3] [UU_U]"),
        Fault("never written", "[4/4] [UUUU]", "[4/3] [_UUU]"),
        Fault("journal, written mostly elsewhere", "(J)", "(J)(F)"),
        Fault("journal, written mostly elsewhere", "sda2[2](W)", "sda2[2](W)(F)"),
        Fault("check", "check =", "rescue =", UNREAD),
    ),
    "mdadm": (
        Fault("clean", "State : clean", "State : clean, wobbly"),
        Fault("clean", "State : clean", "State : clean, degraded"),
        Fault("clean", "State : clean", "State : sauber"),
        Fault("clean", "State : clean", "State : clean, FAILED"),
        Fault("clean", "active sync   /dev/sdb1", "active wobbly   /dev/sdb1"),
        Fault("clean", "active sync   /dev/sdb1", "active sync blocked   /dev/sdb1"),
        Fault("clean", "Failed Devices : 0", "Failed Devices : eins"),
        Fault("clean", "Active Devices : 3", "Active Devices : zwei"),
        Fault("clean", "Working Devices : 3", "Working Devices : 2"),
        Fault("clean", "Raid Devices : 3", "Raid Devices : drei"),
    ),
    "storcli": (
        Fault("show all", "252:1     9 Onln ", "252:1     9 Offln"),
        Fault("show all", "252:1     9 Onln ", "252:1     9 Wobbl"),
        Fault("show all", "252:1     9 Onln ", "252:1     9 Rbld "),
        Fault("show all", "0/0   RAID1 Optl  RW ", "0/0   RAID1 Optl  B  "),
        Fault("show all", "CVPM02 Optimal", "CVPM02 Failed "),
        Fault("show all", "Physical Drives = 2", "Physical Drives = drei", UNREAD),
        Fault("drives", "Media Error Count = 0", "Media Error Count = 17"),
        Fault("drives", "Media Error Count = 0", "Media Error Count = siebzehn"),
        Fault("drives", "Media Error Count = 0", "Media Error Count = 1,234"),
        Fault("drives", "Predictive Failure Count = 0", "Predictive Failure Count = drei"),
        Fault("drives", "flagged by drive = No", "flagged by drive = Ja"),
        Fault("json", '"Physical Drives": 1', '"Physical Drives": "1,234"', UNREAD),
        Fault("json", '"Status": "Success"', '"Status": "Failure"'),
    ),
    "megacli": (
        Fault("volumes and disks", "Media Error Count: 0", "Media Error Count: 12"),
        Fault("volumes and disks", "Media Error Count: 0", "Media Error Count: zwoelf"),
        Fault("volumes and disks", "Media Error Count: 0", "Media Error Count: 1.234"),
        Fault("volumes and disks", "Other Error Count: 0", "Other Error Count: viele"),
        Fault("volumes and disks", "Predictive Failure Count: 0", "Predictive Failure Count: 2"),
        Fault("volumes and disks", "Predictive Failure Count: 0", "Predictive Failure Count: 00x"),
        Fault("volumes and disks", "alert : No", "alert : Yes"),
        Fault("volumes and disks", "Number Of Drives    : 2", "Number Of Drives    : 3"),
        Fault("two adapters", "Online, Spun Up", "Failed"),
        Fault(
            "two adapters",
            "Device Id: 1\nMedia Error Count: 0",
            "Device Id: 1\nMedia Error Count: 9",
        ),
        Fault("two adapters' volumes", "Optimal", "Partially Degraded"),
        Fault(
            "two adapters' volumes",
            "Cache Policy: WriteBack, ReadAheadNone, Direct, No Write Cache if Bad BBU\nBad",
            "Cache Policy: WriteThrough, ReadAheadNone, Direct, No Write Cache if Bad BBU\nBad",
            UNREAD,
        ),
        Fault("unused, spare and alone", "Hotspare, Spun down", "Unconfigured(bad)"),
        Fault("unused, spare and alone", "JBOD", "Failed"),
    ),
    "arcconf": (
        Fault(
            "configuration",
            "State                              : Online",
            "State                              : Offlin",
        ),
        Fault(
            "configuration",
            "State                              : Online",
            "State                              : Failed",
        ),
        Fault("configuration", "         State                              : Online\n", ""),
        Fault(
            "configuration",
            "logical device                 : Optimal",
            "logical device                 : Optimal-ish",
        ),
        Fault(
            "configuration",
            "Failed stripes                           : No",
            "Failed stripes                           : Yes",
        ),
        Fault(
            "configuration",
            "Failed stripes                           : No",
            "Failed stripes                           : Ja",
        ),
        Fault(
            "configuration",
            "S.M.A.R.T. warnings                : 0",
            "S.M.A.R.T. warnings                : 4",
        ),
        Fault(
            "configuration",
            "S.M.A.R.T. warnings                : 0",
            "S.M.A.R.T. warnings                : vier",
        ),
        Fault(
            "configuration",
            "Logical devices/Failed/Degraded          : 1/0/0",
            "Logical devices/Failed/Degraded          : 1/x/y",
        ),
        Fault("counts below a heading of their own", ": 1/0/0", ": 1/0/1"),
        Fault(
            "configuration",
            "Controller Status                        : Optimal",
            "Controller Status                        : Inaccessible",
        ),
    ),
    "ssacli": (
        Fault("detail", "1\n         Status: OK", "1\n         Status: Interim Recovery Mode"),
        Fault("detail", "1I\n         Status: OK", "1I\n         Status: Failed"),
        Fault("detail", "1I\n         Status: OK", "1I\n         Status: Ok-ish"),
        Fault("detail", "1I\n         Status: OK\n", "1I\n"),
        Fault("detail", "Unrecoverable Media Errors: None", "Unrecoverable Media Errors: Detected"),
        Fault("detail", "Controller Status: OK", "Controller Status: Unwell"),
        Fault(
            "detail",
            "Battery/Capacitor Status: OK",
            "Battery/Capacitor Status: Failed (Replace Batteries/Capacitors)",
        ),
        Fault("detail", "Cache Status: OK", "Cache Status: Permanently Disabled"),
        Fault("battery is charged", "Write Cache: Disabled", "Write Cache: Enabled"),
        Fault("battery is charged", "Status: Recharging", "Status: Failed (Replace Batteries)"),
        Fault("list", "array A (SAS", "array A (Failed) (SAS"),
    ),
    "cciss_vol_status": (
        Fault("disks", "OK.\n", "OK. At least one spare drive has failed.\n"),
        Fault("volume", "OK.\n", "kaputt.\n"),
        Fault("volume", "OK.\n", "Using interim recovery mode.\n"),
        Fault("volume", "OK.\n", "Currently recovering.\n"),
        Fault("volume", "OK.\n", "OK\n", UNREAD),
        Fault("disks", "HPD9     OK\n", "HPD9     FAILED\n"),
        Fault("disks", "HPD9     OK\n", "HPD9     \n"),
        Fault("disks", "Physical drives: 2", "Physical drives: 3", UNREAD),
        Fault("disks", "Physical drives: 2", "Physical drives: zwei", UNREAD),
        Fault(
            "disks",
            "  Physical drives: 2",
            "  Total of 1 failed physical drives detected on this drive.\n  Physical drives: 2",
        ),
    ),
    "cli64": (
        Fault("raid sets", "Normal", "Degraded"),
        Fault("raid sets", "Normal", "Normalish"),
        Fault("raid sets", "12                 Normal", "12"),
        Fault("volumes", "Normal", "Failed"),
        Fault("disks", "HotSpare", "Failed"),
        Fault("disks", "HotSpare", "Wackelig"),
        Fault("disks", "0.0GB  N.A.", "0.0GB  Failed"),
        Fault("hardware", "100%", "Failed"),
        Fault("hardware", "100%", "müde"),
    ),
    "tw_cli": (
        Fault("overview", "1       1      OK", "1       1      Fault"),
        Fault("overview", "1       1      OK", "1       1      Muede"),
        Fault("overview", "4         4        1       0 ", "4         4        1       1 "),
        Fault("show all", "RAID-1    OK ", "RAID-1    DEGRADED"),
        Fault("show all", "RAID-1    OK ", "RAID-1    PONDERING"),
        Fault("show all", "p1     OK ", "p1     SMART-FAILURE"),
        Fault("show all", "p1     OK ", "p1     OK* "),
        Fault("show all", "Not Optimal Units = 0", "Not Optimal Units = 1"),
        Fault("show all", "Not Optimal Units = 0", "Not Optimal Units = eine", UNREAD),
        Fault("show all", "Number of Drives = 2", "Number of Drives = 4", UNREAD),
        Fault("show all", "Number of Drives = 2", "Number of Drives = vier", UNREAD),
        Fault("show all", "p1     OK  ", "q1     OK  ", UNREAD),
    ),
    "sas2ircu": (
        Fault("display", "Okay (OKY)", "Degraded (DGD)"),
        Fault("display", "Okay (OKY)", "Okay (DGD)"),
        Fault("display", "Okay (OKY)", "(OKY"),
        Fault("display", "Optimal (OPT)", "Missing (MIS)"),
        Fault("display", "Optimal (OPT)", "Out of Sync (OSY)"),
        Fault("display", "Okay (OKY)", "Inactive"),
        Fault("display", "Optimal (OPT)", "Optimal (FLD)"),
        Fault("display", "Optimal (OPT)", "Schief"),
        Fault(
            "display",
            "PHY[1] Enclosure#/Slot#                 : 1:1",
            "PHY[1] Enclosure#/Slot#                 : 0:0",
        ),
        Fault(
            "status",
            "Volume state                            : Optimal",
            "Volume state                            : Failed",
        ),
        Fault(
            "status",
            "Current operation                       : None",
            "Current operation                       : Levitation",
        ),
    ),
    "mpt-status": (
        Fault("classic", "OPTIMAL", "DEGRADED"),
        Fault("classic", "OPTIMAL", "OPTIMALISH"),
        Fault("classic", "2 phy", "3 phy", UNREAD),
        Fault("classic", "flags ENABLED", "flags VOLUME_INACTIVE"),
        Fault("classic", "OPTIMAL, flags ENABLED", "DEGRADED, flags ENABLED RESYNC_IN_PROGRESS"),
        Fault("classic", "flags ENABLED", "flags ENABLED QUIESCED"),
        Fault("classic", "ONLINE, flags NONE", "ONLINE, flags OUT_OF_SYNC"),
        Fault("classic", "ONLINE, flags NONE", "MISSING, flags NONE"),
        Fault("short", "phys_id:1 ONLINE", "phys_id:1 FAILED"),
        Fault("short", "phys_id:1 ONLINE", "phys_id:1", UNREAD),
    ),
    "smartctl": (
        Fault("ata", "result: PASSED", "result: FAILED!"),
        Fault("ata", "result: PASSED", "result: BESTANDEN"),
        Fault("ata", "result: PASSED", "result: UNKNOWN!", UNREAD),
        Fault("ata", "SMART support is: Enabled", "SMART support is: Disabled"),
        Fault(
            "ata",
            "010    Pre-fail  Always       -       0",
            "010    Pre-fail  Always   In_the_past 0",
        ),
        Fault(
            "ata",
            "010    Pre-fail  Always       -       0",
            "010    Pre-fail  Always   FAILING_NOW 0",
        ),
        Fault("ata", "100   100   010    Pre-fail", "100   005   010    Pre-fail"),
        Fault(
            "ata",
            "100   100   010    Pre-fail  Always       -       0",
            "100   100   010    Pre-fail  Always       -       viele",
        ),
        Fault(
            "ata",
            "000    Old_age   Always       -       0\n198",
            "000    Old_age   Always       -       viele\n198",
        ),
        Fault(
            "ata",
            "000    Old_age   Always       -       0\n198",
            "000    Old_age   Always       -       8\n198",
        ),
        Fault(
            "ata",
            "000    Old_age   Offline      -       0",
            "000    Old_age   Offline      -       1.234",
        ),
        Fault("ata", "Completed without error ", "Kaputt gegangen         "),
        Fault("ata", "-       36 (Min/Max", "-       61 (Min/Max"),
        Fault("flash", "095   095   000", "001   001   000"),
        Fault("two drives", "095   095   000", "004   004   000"),
        Fault("two drives", "Offline      -       0", "Offline      -       3"),
        Fault("scsi", "Temperature:     30 C", "Temperature:     58 C"),
        Fault(
            "nvme",
            "Temperature:                        35",
            "Temperature:                        74",
        ),
        Fault("scsi", "grown defect list: 0", "grown defect list: 1,234"),
        Fault("scsi", "grown defect list: 0", "grown defect list: viele"),
        Fault("scsi", "12034.123           0", "12034.123           sieben"),
        Fault(
            "nvme",
            "Media and Data Integrity Errors:    0",
            "Media and Data Integrity Errors:    12",
        ),
        Fault(
            "nvme",
            "Media and Data Integrity Errors:    0",
            "Media and Data Integrity Errors:    zwölf",
        ),
        Fault(
            "nvme",
            "Available Spare:                    100%",
            "Available Spare:                    wenig",
        ),
        Fault("json", '"exit_status": 0', '"exit_status": 16'),
        Fault("json", '"exit_status": 0', '"exit_status": 32'),
        Fault("json", '"exit_status": 0', '"exit_status": 64', UNREAD),
        Fault("json", '"exit_status": 0', '"exit_status": 128'),
        Fault("json", '"enabled": true', '"enabled": false'),
        Fault(
            "json",
            '"when_failed": "", "flags": {"prefailure": true}',
            '"when_failed": "now", "flags": {"prefailure": true}',
        ),
        Fault(
            "json",
            '"when_failed": "", "flags": {"prefailure": true}',
            '"when_failed": "past", "flags": {"prefailure": true}',
        ),
    ),
}
"""By kind: words of another language, numbers with separators, invalid counts, and contradictions
between two parts of a text."""
LINES: Mapping[str, int] = {
    "sd 0:0:0:0: [sda] tag#1 FAILED Result: hostbyte=DID_NO_CONNECT driverbyte=DRIVER_OK": WRONG,
    "sd 0:0:0:0: [sda] tag#1 FAILED Result: hostbyte=DID_WOBBLE driverbyte=DRIVER_OK": WRONG,
    "sd 0:0:0:0: [sda] tag#1 FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_SENSE": WRONG,
    "sd 0:0:0:0: [sda] tag#1 Sense Key : Wobbly Error [current]": WRONG,
    "sd 0:0:0:0: [sda] tag#1 Add. Sense: Unrecovered read error": WRONG,
    "ata1.00: exception Emask 0x0 SAct 0x0 SErr 0x0 action 0x6 frozen": WRONG,
    "ata1.00: failed command: READ FPDMA QUEUED": WRONG,
    "ata1.00: status: { DRDY ERR }": WRONG,
    "ata1: SError: { PHYRdyChg CommWake }": WRONG,
    "device-mapper: multipath: 253:0: Failing path 8:16.": WRONG,
    "md/raid1:md0: Operation continuing on 1 devices.": WRONG,
    "nvme nvme0: Abort status: 0x371": WRONG,
    "print_req_error: 23 callbacks suppressed": WRONG,
    "nvme nvme0: controller wobbles; will reset: CSTS=0x3": UNREAD,
    "EXT4-fs warning (device sda1): wobbly": UNREAD,
    "end_request: I/O error, dev sdb, sector vier": UNREAD,
}
"""Kernel log lines, each without those before and after it."""
BAD: Mapping[str, Fault] = {
    "mdstat": Fault("two arrays", "[2/2] [UU]", "[2/1] [U_]"),
    "mdadm": Fault("clean", "active sync   /dev/sdb1", "removed"),
    "storcli": Fault("show all", "252:1     9 Onln  ", "252:1     9 Failed"),
    "megacli": Fault("volumes and disks", "Online, Spun Up", "Failed"),
    "arcconf": Fault("configuration", ": Online", ": Failed"),
    "ssacli": Fault("detail", "Port: 1I\n         Status: OK", "Port: 1I\n         Status: Failed"),
    "cciss_vol_status": Fault("disks", "HPD9     OK", "HPD9     FAILED"),
    "cli64": Fault("disks", "HotSpare", "Failed"),
    "tw_cli": Fault("show all", "p1     OK           ", "p1     DRIVE-REMOVED"),
    "sas2ircu": Fault("display", "Optimal (OPT)", "Failed (FLD)"),
    "mpt-status": Fault("classic", "OPTIMAL", "DEGRADED"),
    "smartctl": Fault("ata", "Offline      -       0", "Offline      -       24"),
    "kernel": Fault(
        "boot", "sd 0:0:0:0: [sda] Attached SCSI disk", "critical medium error, dev sda, sector 8"
    ),
}
"""One fault by kind, for changes that any text may suffer."""
MISHAPS: Mapping[str, Callable[[str, str], str | bytes]] = {
    "line ends of old systems": lambda bad, _: bad.replace("\n", "\r"),
    "a character cut": lambda bad, _: bad.encode() + b"\xe2\x80",
    "colours": lambda bad, _: re.sub(r"(?m)^(.+)$", "\x1b[1;31m\\1\x1b[0m", bad),
    "tabs": lambda bad, _: re.sub(" {2,}", "\t", bad),
    "behind a healthy one": lambda bad, well: well + bad,
    "ahead of a healthy one": lambda bad, well: bad + well,
}
"""Damage by mails, forums and terminals, applied to the bad text and the healthy one."""
MUST_STAY_WRONG = {"line ends of old systems", "a character cut", "colours"}


def changed(kind: str, fault: Fault) -> str:
    """Return a healthy text with a fault."""
    text = HEALTHY[kind][fault.text]
    assert fault.was in text
    return text.replace(fault.was, fault.now, 1)


def silent(told: Explanation) -> bool:
    """Return whether there is no reason why a text is not healthy."""
    reasons = [each.state for each in told.objects if each.state not in {"ok", "busy", "absent"}]
    return not (reasons or told.alerts or told.events or told.unparsed)


def test_there_is_a_healthy_text_and_a_fault_of_each_kind() -> None:
    """A table without an entry for a kind would test nothing of it."""
    assert HEALTHY.keys() == BAD.keys() == FAULTS.keys() | {"kernel"}
    assert sum(map(len, HEALTHY.values())) >= 30
    assert sum(map(len, FAULTS.values())) >= 120


@pytest.mark.parametrize("kind", HEALTHY)
def test_where_nothing_is_wrong_nothing_is_said_to_be(kind: str) -> None:
    """Also during background activity: a check, a resync, a learn cycle of a battery.

    A disk that was left asleep was not read: nothing is wrong, and nothing is known to be well.
    """
    told = {name: read(text, kind) for name, text in HEALTHY[kind].items()}
    expected = {name: UNREAD if name == "asleep" else WELL for name in told}
    assert {name: each.status for name, each in told.items()} == expected
    assert [name for name, each in told.items() if each.unparsed and expected[name] == WELL] == []


@pytest.mark.parametrize("kind", FAULTS)
def test_a_part_that_reports_that_something_is_wrong_is_not_outvoted(kind: str) -> None:
    """Everything else in the text is healthy, and smartctl prints PASSED above it."""
    told = {fault: read(changed(kind, fault), kind) for fault in FAULTS[kind]}
    assert {fault: each.status for fault, each in told.items()} == {
        fault: fault.wanted for fault in told
    }
    assert [fault for fault, each in told.items() if silent(each)] == []


def test_a_line_that_follows_from_an_error_reports_of_one() -> None:
    """A pasted line lacks the one before; a line without an event class is not understood."""
    told = {line: read(f"[  100.000000] {line}\n", "kernel") for line in LINES}
    assert {line: each.status for line, each in told.items()} == LINES
    assert [line for line, each in told.items() if silent(each)] == []


@pytest.mark.parametrize("kind", BAD)
def test_what_happens_to_a_text_on_its_way_hides_no_fault(kind: str) -> None:
    """Two reports pasted together are one text, and the later one does not hide the earlier one."""
    fault = BAD[kind]
    bad, well = changed(kind, fault), HEALTHY[kind][fault.text]
    told = {name: read(mishap(bad, well), kind) for name, mishap in MISHAPS.items()}
    assert [name for name, each in told.items() if each.status == WELL or silent(each)] == []
    assert {name for name in MUST_STAY_WRONG if told[name].status == WRONG} == MUST_STAY_WRONG


class Named(NamedTuple):
    """Kernel log lines, the device they name, and the worst severity."""

    text: str
    about: str
    severity: str


NAMED: tuple[Named, ...] = (
    Named(
        "Mar  3 04:11:09 db1 kernel: sd 0:0:2:0: [sdc] Unhandled sense code\n"
        "Mar  3 04:11:09 db1 kernel: sd 0:0:2:0: [sdc] Sense Key : Medium Error [current]\n"
        "Mar  3 04:11:09 db1 kernel: sd 0:0:2:0: [sdc] Add. Sense: Unrecovered read error\n"
        "Mar  3 04:11:09 db1 kernel: end_request: I/O error, dev sdc, sector 447923156\n",
        "sdc",
        "warning",
    ),
    Named(
        "[900.000001] ata5: SError: { UnrecovData Handshk }\n"
        "[900.000002] ata5.00: failed command: WRITE DMA EXT\n"
        "[900.000003] ata5.00: error: { ICRC ABRT }\n"
        "[900.000004] ata5: hard resetting link\n",
        "ata5",
        "warning",
    ),
    Named(
        "[3.000001] nvme nvme1: controller is down; will reset: CSTS=0xffffffff,"
        " PCI_STATUS=0xffff\n"
        "[5.000002] nvme nvme1: Disabling device after reset failure: -19\n",
        "nvme1",
        "critical",
    ),
    Named(
        "[4.000001] EXT4-fs error (device dm-3): ext4_journal_check_start:83: comm mysqld:"
        " Detected aborted journal\n[4.000002] EXT4-fs (dm-3): Remounting filesystem read-only\n",
        "dm-3",
        "critical",
    ),
    Named(
        "Nov 20 11:00:00 h kernel: XFS (sdb1): log I/O error -5\n"
        "Nov 20 11:00:00 h kernel: XFS (sdb1): Filesystem has been shut down due to log error"
        " (0x2).\n",
        "sdb1",
        "critical",
    ),
    Named(
        "[160.000001] hpsa 0000:03:00.0: Controller lockup detected: 0x00130000 after 30\n",
        "0000:03:00.0",
        "critical",
    ),
    Named(
        "[100.000001] megaraid_sas 0000:02:00.0: FW in FAULT state Fault code:0x10000 subcode:0x0"
        " func:megasas_wait_for_outstanding_fusion\n",
        "0000:02:00.0",
        "critical",
    ),
    Named(
        "Mo Nov 16 03:12:44 2026 srv kernel: INFO: task jbd2/sdb1-8:412 blocked for more than 120"
        " seconds.\n",
        "sdb1",
        "critical",
    ),
    Named(
        "[9000.000001] usb 2-1: USB disconnect, device number 3\n"
        "[9000.000002] Buffer I/O error on dev sdf1, logical block 121634816, lost sync page"
        " write\n",
        "sdf1",
        "critical",
    ),
    Named(
        "".join(
            f"[{n}.000001] iwlwifi 0000:00:14.3: Unhandled alg: 0x{n:04x}\n" for n in range(999)
        )
        + "[1000.000001] critical medium error, dev sdg, sector 88 op 0x0:(READ) flags 0x0\n"
        + "".join(f"[2{n}.000001] iwlwifi 0000:00:14.3: Unhandled alg: {n}\n" for n in range(999)),
        "sdg",
        "warning",
    ),
)


@pytest.mark.parametrize("told", NAMED, ids=lambda told: told.about)
def test_what_is_wrong_has_its_name_and_its_weight(told: Named) -> None:
    """Lines as published in forums, of kernels from 2.6.32 to 6.12."""
    found = read(told.text, "kernel")
    ranks = ["noise", "info", "notice", "warning", "critical"]
    weights = [ranks.index(each.severity) for each in found.events if told.about in each.object]
    assert (found.status, ranks[max(weights)]) == (WRONG, told.severity)


AROUND: Mapping[str, Callable[[str], str]] = {
    "a prompt": lambda text: f"root@srv:~# tool\n{text}root@srv:~#\n",
    "another prompt": lambda text: f"[root@srv ~]# sudo tool\n{text}[root@srv ~]# \n",
    "a password": lambda text: f"$ sudo tool\n[sudo] password for joe: \n{text}",
    "a quotation": lambda text: "".join(f"> {line}\n" for line in text.splitlines()),
    "a fence": lambda text: f"```text\n{text}```\n",
}


@pytest.mark.parametrize("kind", BAD)
def test_what_a_shell_or_a_forum_puts_around_a_text_is_no_part_of_it(kind: str) -> None:
    """The healthy one stays healthy, and the bad one has a problem."""
    fault = BAD[kind]
    pair = HEALTHY[kind][fault.text], changed(kind, fault)
    told = {name: [read(put(text), kind).status for text in pair] for name, put in AROUND.items()}
    assert told == {name: [WELL, WRONG] for name in AROUND}


def test_a_drive_hotter_than_its_own_limit_is_believed() -> None:
    """It prints OK all the same: one implausible value; its year of manufacture is no second."""
    told = read(changed("smartctl", Fault("scsi", "Temperature:     30", "Temperature:     63")))
    assert ("critical", "DiskTemperatureHigh") in {
        (each.severity, each.alert) for each in told.alerts
    }


LOST: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "mdstat": (("two arrays", "md0 : active raid1 sdb1[1] sda1[0]\n", ""),),
    "megacli": (
        ("disks", "Device Id: 0\nMedia Error Count: 0", "Device Id: 0 Media Error Count: 7"),
    ),
    "arcconf": (
        ("configuration", "Controller information", "Renseignements"),
        ("configuration", "      Device #0\n", ""),
    ),
    "ssacli": (
        ("detail", "      physicaldrive 1I:1:2\n", ""),
        ("detail", "      Logical Drive: 1\n", ""),
        ("detail", "      physicaldrive 1I:1:1\n", "      PHYSICALDRIVE 1\n"),
        (
            "detail",
            "Smart Array P999i in Slot 0 (Embedded)\n   Bus",
            "Status: OK\n\nP in Slot 0\n   Bus",
        ),
    ),
    "storcli": (
        ("drives", "Shield Counter = 0\nMedia Error Count = 0", "Shield = 0 Media Error Count = 7"),
    ),
    "cciss_vol_status": (("disks", "RAID 1 Volume 0 status: OK.", "RAID 1"),),
    "cli64": (("disks", "GuiErrMsg<0x00>: Success.", "GuiErrMsg<0x00>: Success. 4 4 ST1"),),
}
"""By kind, parts whose loss the text itself does not show: a heading, a line."""


def test_a_heading_that_its_rows_imply_is_no_loss() -> None:
    """'Device #0' begins the physical devices, whatever the line above it says."""
    fault = Fault("configuration", "Physical Device information", "Renseignements")
    whole, without = read(HEALTHY["arcconf"]["configuration"], "arcconf"), changed("arcconf", fault)
    assert read(without, "arcconf").objects == whole.objects


@pytest.mark.parametrize("kind", LOST)
def test_a_heading_that_is_lost_takes_nothing_with_it_in_silence(kind: str) -> None:
    """Otherwise the part below it would be taken for a part of the one above."""
    told = {row: read(changed(kind, Fault(*row)), kind) for row in LOST[kind]}
    assert [row for row, each in told.items() if each.status == WELL or silent(each)] == []
