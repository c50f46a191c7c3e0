"""`iowarden explain`: output of a tool or the kernel, without the machine of its origin."""

from __future__ import annotations

import io
import json
import lzma
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from support.explained import read

from iowarden.collectors.model import ParseError
from iowarden.daemon.cli import explain_command
from iowarden.daemon.cli.main import main
from iowarden.daemon.terminal import console

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str]]

WHOLE = """\
Personalities : [raid1] [raid6] [raid5] [raid4]
md0 : active raid1 sdb1[1] sda1[0]
      1047552 blocks super 1.2 [2/2] [UU]

md1 : active raid5 sdc2[3] sdb2[1] sda2[0]
      2095104 blocks super 1.2 level 5, 512k chunk, algorithm 2 [3/3] [UUU]

unused devices: <none>
"""
DEGRADED = WHOLE.replace("sdb1[1] sda1[0]", "sdb1[1](F) sda1[0]").replace(
    "[2/2] [UU]", "[2/1] [U_]"
)
MEDIUM = (
    "[ 4242.500000] critical medium error, dev sdb, sector 123456 op 0x0:(READ) flags 0x0"
    " phys_seg 1 prio class 2"
)
DETAIL = """\
/dev/md5:
           Version : 1.2
        Raid Level : raid5
      Raid Devices : 3
     Total Devices : 3
             State : {state}
    Active Devices : {active}
   Working Devices : 3
    Failed Devices : 0
     Spare Devices : 0

    Number   Major   Minor   RaidDevice State
       0       8        1        0      active sync   /dev/sda1
       1       8       17        1      {second}
       3       8       33        2      active sync   /dev/sdc1
"""
STORCLI = """\
CLI Version = 007.0606.0000.0000 Mar 20, 2018
Operating system = Linux 4.18.0
Controller = 0
Status = Success
Description = None


Basics :
======
Controller = 0
Model = ACME 9000
Serial Number = SV1


Status :
======
Controller Status = Optimal


VD LIST :
=======

---------------------------------------------------------------
DG/VD TYPE  State Access Consist Cache Cac sCC       Size Name
---------------------------------------------------------------
0/0   RAID1 {volume}  RW     Yes     RWBD  -   ON  931.00 GB data
---------------------------------------------------------------


PD LIST :
=======

--------------------------------------------------------------------------
EID:Slt DID State DG      Size Intf Med SED PI SeSz Model              Sp
--------------------------------------------------------------------------
252:0     4 Onln   0 931.00 GB SATA HDD N   N  512B WDC WD1003FBYX     U
252:1     5 {disk}  0 931.00 GB SATA HDD N   N  512B WDC WD1003FBYX     U
--------------------------------------------------------------------------
"""
MEGACLI = """\

Adapter 0 -- Virtual Drive Information:
Virtual Drive: 0 (Target Id: 0)
Name                :data
RAID Level          : Primary-1, Secondary-0, RAID Level Qualifier-0
Size                : 931.0 GB
State               : {state}
Number Of Drives    : 2
Span Depth          : 1
Default Cache Policy: WriteThrough, ReadAheadNone, Direct, No Write Cache if Bad BBU
Current Cache Policy: WriteThrough, ReadAheadNone, Direct, No Write Cache if Bad BBU


Exit Code: 0x00
"""
ARCCONF = """\
Controllers found: 1
----------------------------------------------------------------------
Logical device information
----------------------------------------------------------------------
Logical device number 0
   Logical device name                      : data
   RAID level                               : 1
   Status of logical device                 : {state}
   Size                                     : 953344 MB
   Failed stripes                           : No


Command completed successfully.
"""
SSACLI = """\

Smart Array P999i in Slot 0 (Embedded)

   Array A

      logicaldrive 1 (558.9 GB, RAID 1, {state})

      physicaldrive 1I:1:1 (port 1I:box 1:bay 1, SAS, 600 GB, OK)
      physicaldrive 1I:1:2 (port 1I:box 1:bay 2, SAS, 600 GB, OK)

"""
CCISS = "/dev/cciss/c0d0: (Smart Array P400i) RAID 1 Volume 0 status: {state}.\n"
ARECA = """\
 # Name             Raid Name       Level   Capacity Ch/Id/Lun  State
===============================================================================
 1 ARC-1210-VOL#00  Raid Set # 00   Raid1   1000.0GB 00/00/00   {state}
===============================================================================
GuiErrMsg<0x00>: Success.
"""
THREEWARE = """\

Unit  UnitType  Status         %RCmpl  %V/I/M  Stripe  Size(GB)  Cache  AVrfy
------------------------------------------------------------------------------
u0    RAID-1    {state}        -       -       -       931.312   OFF    ON

"""
IRCU = """\
LSI Corporation SAS2 IR Configuration Utility.
Background command progress status for controller 0...
IR Volume 1
  Volume ID                               : 286
  Current operation                       : None
  Volume status                           : Enabled
  Volume state                            : {state}
  Physical disk I/Os                      : Not quiesced
SAS2IRCU: Command STATUS Completed Successfully.
SAS2IRCU: Utility Completed Successfully.
"""
MPT = """\
ioc0 vol_id 0 type IM, 2 phy, 136 GB, state {state}, flags ENABLED
ioc0 phy 0 scsi_id 1 ATA      Hitachi HUA72101 AJ0A, 931 GB, state ONLINE, flags NONE
ioc0 phy 1 scsi_id 8 SEAGATE  ST3146356SS      0009, 136 GB, state ONLINE, flags NONE
"""
SMART = """\
smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0-28-amd64] (local build)

=== START OF INFORMATION SECTION ===
Device Model:     ACME SLOW-HDD
Serial Number:    SLOW1
User Capacity:    1,000,204,886,016 bytes [1.00 TB]
SMART support is: Available - device has SMART capability.
SMART support is: Enabled

=== START OF READ SMART DATA SECTION ===
SMART overall-health self-assessment test result: {state}

SMART Attributes Data Structure revision number: 16
Vendor Specific SMART Attributes with Thresholds:
ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED RAW_VALUE
197 Current_Pending_Sector  0x0012   100   100   000    Old_age   Always       -       0

"""
AREVENTS = """\
Date-Time            Device           Event Type            Elapsed Time Errors
===============================================================================
2026-06-01 08:00:00  IDE Channel #02  Device Failed
===============================================================================
GuiErrMsg<0x00>: Success.
"""

DEGRADED_ARRAY = "ControllerArrayDegraded"
KINDS = {
    "mdstat": (WHOLE, DEGRADED, "MdDegraded"),
    "mdadm": (
        DETAIL.format(state="clean", active=3, second="active sync   /dev/sdb1"),
        DETAIL.format(state="clean, degraded", active=2, second="removed"),
        "MdDegraded",
    ),
    "storcli": (
        STORCLI.format(volume="Optl", disk="Onln"),
        STORCLI.format(volume="Dgrd", disk="Offln"),
        DEGRADED_ARRAY,
    ),
    **{
        kind: (text.format(state=well), text.format(state=bad), alert)
        for kind, text, well, bad, alert in (
            ("megacli", MEGACLI, "Optimal", "Degraded", DEGRADED_ARRAY),
            ("arcconf", ARCCONF, "Optimal", "Degraded", DEGRADED_ARRAY),
            ("ssacli", SSACLI, "OK", "Interim Recovery Mode", DEGRADED_ARRAY),
            ("cciss_vol_status", CCISS, "OK", "FAILED", "ControllerArrayFailed"),
            ("cli64", ARECA, "Normal", "Degraded", DEGRADED_ARRAY),
            ("tw_cli", THREEWARE, "OK", "DEGRADED", DEGRADED_ARRAY),
            ("sas2ircu", IRCU, "Optimal", "Degraded", DEGRADED_ARRAY),
            ("mpt-status", MPT, "OPTIMAL", "DEGRADED", DEGRADED_ARRAY),
            ("smartctl", SMART, "PASSED", "FAILED!", "DiskFailing"),
        )
    },
    "kernel": ("[   12.500000] sd 0:0:0:0: [sda] Attached SCSI disk\n", f"{MEDIUM}\n",
               "block_medium_error"),
}  # fmt: skip
"""By kind a text in which nothing is wrong, one in which something is, and what that fires."""


def data(text: str | bytes, kind: str = "", *, log: bool = False) -> dict[str, Any]:
    """Return the answer as JSON."""
    found: dict[str, Any] = json.loads(read(text, kind, log=log).json())
    return found


def shown(text: str) -> str:
    """Return the answer as text."""
    lines: list[str] = []
    for section in explain_command.sections(read(text)):
        lines += console.columns(section) if isinstance(section, console.Table) else [section]
    return "\n".join(lines)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return exit status and output of the command for a text on standard input."""

    def answer(text: str | bytes, *words: str) -> tuple[int, str]:
        content = text.encode() if isinstance(text, str) else text
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        status = main(["explain", *words])
        return status, "".join(capsys.readouterr())

    return answer


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_reported_by_its_text_and_judged(kind: str) -> None:
    """A healthy array ends 0, a degraded or failed one 1 with the alert of the service."""
    well, bad, alert = KINDS[kind]
    told = data(well)
    assert (told["kind"], told["status"], told["unparsed"]) == (kind, 0, [])
    told = data(bad)
    assert (told["kind"], told["status"]) == (kind, 1)
    assert alert in {each["alert"] for each in told["alerts"]}
    assert data(bad, kind)["alerts"] == told["alerts"]


def test_a_line_from_a_forum() -> None:
    """It has no time, no host and no second line; device, sector and severity are parsed."""
    line = MEDIUM.partition("] ")[2]
    told = data(line)
    (event,) = told["events"]
    assert told["kind"] == "kernel"
    assert (event["class"], event["device"], event["sector"]) == (
        "block_medium_error",
        "sdb",
        123456,
    )
    assert (event["severity"], event["line"], event["text"]) == ("warning", 1, line)
    text = shown(line)
    assert "could not read or write sectors" in text
    assert "123456" in text
    assert text.splitlines()[1] == "explain: something is wrong: 1 warning alert, 1 event"


def test_a_container_of_firmware_raid_is_well() -> None:
    """A container is never active; an inactive array in it is a problem."""
    text = "Personalities : [raid1]\nmd127 : inactive sdb[1](S) sda[0](S)\n      5288 blocks super"
    text += " external:imsm\n       \nunused devices: <none>\n"
    told = data(text, "mdstat")
    assert (told["status"], told["objects"][0]["vendor_state"]) == (0, "container")
    told = data(text.replace("external:imsm", "external:/md126/0"), "mdstat")
    assert (told["status"], told["objects"][0]["state"]) == (1, "failed")


def test_what_smartctl_asked_in_vain_is_understood() -> None:
    """Three kernel messages, none of which is a disk error."""
    lines = (
        "Sense Key : Hardware Error [current]",
        "Add. Sense: Internal target failure",
        "CDB: ATA command pass through(16) 85 06 2c 00 00 00 00 00 00 00 00 00 00 00 e5 00",
    )
    told = data("\n".join(f"sd 3:0:0:0: [sdc] tag#2 {line}" for line in lines), "kernel")
    assert (told["status"], told["events"], told["unparsed"]) == (0, [], [])


def test_the_shape_of_the_data() -> None:
    """Programs read it: a removed or renamed field breaks them."""
    told = data(DEGRADED)
    assert [*told] == [
        *("kind", "outputs", "status", "summary", "objects"),
        *("events", "events_left_out", "alerts", "unparsed"),
    ]
    assert told["outputs"] == ["/proc/mdstat"]
    assert told["objects"][0] == {
        "type": "array",
        "name": "md0",
        "parent": "",
        "state": "degraded",
        "vendor_state": "active",
        "details": {"level": "raid1", "disks": 2, "missing": 1, "bytes": 1072693248},
        "counts": {},
    }
    assert {each["name"]: each["state"] for each in told["objects"] if each["parent"] == "md0"} == {
        "sda1": "ok",
        "sdb1": "failed",
    }
    alert = next(each for each in told["alerts"] if each["alert"] == "MdDegraded")
    assert [*alert] == ["severity", "state", "alert", "object", "text", "advice"]
    (event,) = data(MEDIUM)["events"]
    assert [*event] == [
        *("line", "meaning", "severity", "device", "controller", "place", "sector", "sectors"),
        *("block", "blocks", "seconds", "text", "class"),
    ]


def test_a_disk_behind_a_controller_is_named() -> None:
    """Slot, state and the tool's own term: with these a user removes the right disk."""
    told = data(KINDS["storcli"][1])
    disks = {each["name"]: each for each in told["objects"] if each["type"] == "disk"}
    assert disks["enclosure 252 slot 1"]["state"] == "failed"
    assert disks["enclosure 252 slot 1"]["vendor_state"] == "Offln"
    assert disks["enclosure 252 slot 1"]["parent"] == "megaraid c0"
    assert disks["enclosure 252 slot 0"]["state"] == "ok"
    assert "ControllerDiskFailed" in {each["alert"] for each in told["alerts"]}


def test_a_controllers_log() -> None:
    """With --log, or if recognized; for a tool without a log that is wrong usage."""
    for told in (data(AREVENTS, "cli64", log=True), data(AREVENTS, "cli64"), data(AREVENTS)):
        (event,) = told["events"]
        assert (event["class"], event["place"]) == ("areca_device_failed", "channel 2")
        assert event["severity"] == "critical"
    with pytest.raises(
        ParseError, match="'--log': expected one of storcli, megacli, cli64, tw_cli,"
    ):
        read(WHOLE, "mdstat", log=True)


def test_several_outputs_in_one_text() -> None:
    """Users paste whole sessions, with prompts between the outputs."""
    session = "".join(
        f"root@shelf:~# MegaCli64 {command} -aALL\n{text}"
        for command, text in (
            ("-LDInfo -Lall", MEGACLI.format(state="Degraded")),
            ("-AdpBbuCmd", "Adapter 0: Get BBU Status Failed.\n\nExit Code: 0x01\n"),
        )
    )
    told = data(session, "megacli")
    assert "ControllerArrayDegraded" in {each["alert"] for each in told["alerts"]}
    assert any("Get BBU Status Failed" in each["reason"] for each in told["unparsed"])


def test_one_bad_row_leaves_the_others() -> None:
    """The parsed part is listed, the rest named with its line; a problem stays a problem."""
    spoilt = WHOLE.replace("md0 : active raid1", "md0 ; active raid1")
    told = data(spoilt, "mdstat")
    assert told["status"] == 2
    assert [each["line"] for each in told["unparsed"]] == [2]
    assert [each["name"] for each in told["objects"] if each["type"] == "array"] == ["md1"]
    spoilt = spoilt.replace("[3/3] [UUU]", "[3/2] [UU_]")
    assert data(spoilt, "mdstat")["status"] == 1


def test_lines_pasted_without_the_blanks_ahead_of_them() -> None:
    """Web forms strip indents; members below an array are recognized by their keywords."""
    stripped = "\n".join(map(str.strip, DEGRADED.split("\n")))
    assert data(stripped)["objects"] == data(DEGRADED)["objects"]


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        ("libceph: osd3 (1)10.0.0.7:6801 surprise lost", 2, "not recognized, from libceph"),
        ("hpsa 0000:03:00.0: surprise lost", 2, "not recognized, from hpsa"),
        ("<3>mpi3mr0: surprise", 2, "not recognized, from mpi3mr, level err"),
        ("kern  :crit  : [    1.000000] mpi3mr0: x", 1, "not recognized, from mpi3mr, level crit"),
        (
            "<4>WARNING: Pool 'tank' has encountered an uncorrectable I/O failure",
            2,
            "not recognized, from zfs, level warn",
        ),
        ("ufshcd-pci 0000:00:12.7: Unable to post", 2, "not recognized, from ufshcd"),
        # a PCI address is no time
        (
            "<3>[  100.0] [0000:05:00.0]:[qedf_process_error_detect:1234]:7: aborting I/O on sdb",
            2,
            "not recognized, from qedf, level err",
        ),
        (
            "<2>[10000:e1:00.0]:[qedi_process_iscsi_error:1]:7: surprise",
            1,
            "not recognized, from qedi, level crit",
        ),
    ],
)
def test_a_line_of_storage_that_no_pattern_takes_is_shown_with_its_driver(
    text: str, status: int, reason: str
) -> None:
    """Never exit status 0: with its level, or by a word of a fault if the text has no levels."""
    told = data(f"{text}\n", "kernel")
    assert told["status"] == status
    assert [(each["reason"], each["fault"]) for each in told["unparsed"]] == [(reason, status == 1)]
    assert told["events"] == []


@pytest.mark.parametrize(
    "text",
    [
        "mlx5_core 0000:3b:00.0: firmware failed",
        "<3>i915 0000:00:02.0: [drm] *ERROR* surprise",
        "scsi host0: ahci",
        "EXT4-fs (sda1): mounted filesystem 3a1b9c52 r/w with ordered data mode. Quota mode: none.",
        "<6>mpi3mr0: surprise",
        "megaraid_sas 0000:03:00.0: Failed to set DMA mask",
    ],
)
def test_other_lines_of_a_log_are_nothing_to_be_explained(text: str) -> None:
    """Other drivers' errors, informational lines, and what a pattern takes as harmless.

    Beside a line of storage: a log without any is refused.
    """
    told = data(f"{text}\n[    9.000000] a line\nscsi host0: ahci\n", "kernel")
    assert (told["status"], told["unparsed"]) == (0, [])


def test_lines_above_the_limit_of_the_list_are_counted() -> None:
    """1,200 lines that no pattern takes, the worst one last: its fault is not lost."""
    lines = [f"<3>mpi3mr0: surprise {number}" for number in range(1199)]
    told = data("\n".join([*lines, "<2>mpi3mr0: the end"]), "kernel")
    assert len(told["unparsed"]) == 1001
    assert told["unparsed"][-1] == {
        "line": None,
        "text": "",
        "reason": "200 further lines were not recognized, and are not listed",
        "fault": True,
    }
    assert told["status"] == 1


def test_a_line_of_storage_without_a_class_is_not_taken_for_well() -> None:
    """A disk warning without an event class is not "nothing wrong"."""
    line = "[    9.000000] sd 0:0:0:0: [sda] Flux compensator failed\n"
    told = data(line + "[    9.100000] snd_hda_intel 0000:00:1f.3: codec failed\n")
    assert told["status"] == 2
    assert told["unparsed"] == [
        {
            "line": 1,
            "text": "sd 0:0:0:0: [sda] Flux compensator failed",
            "reason": "not recognized, from sd",
            "fault": False,
        }
    ]


def test_a_storm_is_its_first_lines_and_a_count() -> None:
    """A dying disk writes a million lines; the first are listed, all are counted."""
    text = "".join(f"{MEDIUM.replace('123456', str(8 * n))}\n" for n in range(60))
    told = data(text)
    assert len(told["events"]) == 60
    assert len(shown(text).splitlines()) < 40
    assert "... 50 more of these, the last: " in shown(text)


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_cut_anywhere_is_never_well_while_it_reports_what_is_wrong(
    kind: str,
) -> None:
    """Truncated output, of a killed program or a bad copy: its first part still counts."""
    bad = KINDS[kind][1]
    lines = bad.splitlines(keepends=True)
    before = 2
    begin = next(at for at, line in enumerate(lines, 1) if line.strip())
    for end in [*range(begin, len(lines), 3), len(lines)]:
        status = read("".join(lines[:end]), kind).status
        assert status in {1, 2}, end
        assert (before, status) != (1, 2), "what was wrong is no longer"
        before = status
    assert before == 1


BAYS = """\
  # Ch# ModelName                       Capacity  Usage
  1  x  ST31000340NS                    1000.2GB  Free
  2  2  ST31000340NS                    1000.2GB  Failed
GuiErrMsg<0x00>: Success.
"""
TWO_AS_ONE = """\
Adapter #0

Enclosure Device ID: 252
Slot Number: 1
Firmware state: Failed
Encl
Slot Number: 2
Firmware state: Online

Exit Code: 0x00
"""
STRANGE = f"{MPT}You seem to have no disks\n".format(state="DEGRADED")


@pytest.mark.parametrize(
    ("kind", "text", "state"),
    [
        ("cli64", BAYS, "failed"),
        ("mpt-status", STRANGE, "degraded"),
        ("megacli", TWO_AS_ONE, "failed"),
    ],
)
def test_what_cannot_be_read_is_reported_beside_what_can(kind: str, text: str, state: str) -> None:
    """A damaged row, a line of another program, a missing heading."""
    told = data(text, kind)
    assert len(told["unparsed"]) == 1
    assert state in {each["state"] for each in told["objects"]}


@pytest.mark.parametrize("kind", KINDS)
def test_line_ends_controls_and_encodings_of_other_systems(kind: str) -> None:
    """CRLF, UTF-16 with its mark, a NUL in a name: the same text."""
    well, bad, _ = KINDS[kind]
    for text, status in ((well, 0), (bad, 1)):
        assert read(text.replace("\n", "\r\n"), kind).status == status
        assert read(b"\xff\xfe" + text.encode("utf-16-le"), kind).status == status
        assert read(b"\xef\xbb\xbf" + text.encode(), kind).status == status


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "got nothing; many tools print only as root: sudo smartctl -x /dev/DISK | "),
        (b" \n\n", "got nothing; many tools print only as root: "),
        (b"\x1f\x8b\x08\x00" + bytes(range(256)) * 20, "; unpack it: zcat FILE | iowarden explain"),
        (lzma.compress(DEGRADED.encode()) * 9, "; unpack it: xzcat FILE | iowarden explain"),
        (b"LPKSHHRH\x0c\0\0\0\x07\0\0\0" + bytes(264), "; a journal: journalctl --file FILE | "),
        (b"\0" * 4096, "; pass what a tool prints: smartctl -x /dev/DISK | iowarden explain"),
        (b"-" * (32 * 1024 * 1024 + 1), "expected at most 33554432 bytes, got more"),
        (b"hello, world\n", "add '--as' and its name: storcli, megacli, arcconf"),
    ],
    ids=["empty", "blank", "gzip", "xz", "journal", "zeroes", "huge", "prose"],
)
def test_what_cannot_be_read_is_refused_with_its_reason(run: Run, text: bytes, told: str) -> None:
    """Exit status 2, one line, and what to do about it."""
    status, answer = run(text)
    assert status == 2
    assert answer.startswith("standard input: ")
    assert told in answer
    assert answer.count("\n") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_another_tools_output_is_not_understood(kind: str) -> None:
    """Text that no parser accepts is never "nothing wrong"."""
    told = data("hello, world\n" * 3, kind)
    assert told["status"] == 2
    assert told["objects"] == []


def test_very_many_blank_lines_and_very_many_outputs() -> None:
    """A pattern that scans ahead from every line would take hours; 200 outputs are parsed."""
    for kind in KINDS:
        assert read("\n" * 20_000 + "x", kind).status == 2
    told = data("GuiErrMsg<0x00>: Success.\n" * 300, "cli64")
    reasons = {each["reason"].partition(":")[0] for each in told["unparsed"]}
    assert "expected at most 200 outputs, got more" in reasons
    told = data("x\n" * 30, "mdstat")
    assert (told["status"], len(told["unparsed"])) == (2, 1 + 20)  # that it is cut, and 20 rows


def test_a_file_and_what_is_none(run: Run, tmp_path: Path) -> None:
    """A file name as argument; a FIFO without a writer does not block it."""
    file, absent, fifo = (tmp_path / name for name in ("mdstat", "absent", "fifo"))
    file.write_text(DEGRADED)
    os.mkfifo(fifo)
    status, told = run("", str(file))
    assert status == 1
    assert [line for line in told.split("\n") if line] == shown(DEGRADED).split("\n")
    status, told = run(DEGRADED, "--json", "--as", "mdstat", "-")
    assert (status, json.loads(told)) == (1, data(DEGRADED))
    for path, problem in (
        (absent, "No such file or directory'; name another one; alerts: iowarden rules list"),
        (tmp_path, "Is a directory'; name a file in it"),
    ):
        assert run("", str(path)) == (2, f"'{path}': expected a readable file, got '{problem}\n")
    assert run("", str(fifo))[0] == 2


def test_what_a_terminal_would_obey_is_spelled_out() -> None:
    """A model name, or a logged line, must not control the terminal."""
    told = shown(MEDIUM + "\x1b[2J\x07\n")
    assert "\x1b" not in told
    assert "\x07" not in told


def test_of_a_texts_machine_nothing_is_reported_that_the_text_does_not_report() -> None:
    """A degraded mirror from a forum: its members were reported to be on a missing disk."""
    advice = "\n".join(alert["advice"] for alert in data(DEGRADED)["alerts"])
    assert "Members of md0 (raid1): sdb1 faulty; sda1.\n" in advice
    assert "is gone" not in advice


def test_what_a_machine_lacks_that_is_no_more_than_a_text_is_no_fault() -> None:
    """Every text has no monitored disk and no swap: such alerts are left out."""
    for well, _, _ in KINDS.values():
        alerts = data(well)["alerts"]
        assert [each for each in alerts if each["severity"] in {"warning", "critical"}] == []


_ROW = "  5 Reallocated_Sector_Ct   0x0033   001   001   036    Pre-fail  Always\n"
_STATUS = (
    '{"smartctl": {"version": [7, 3], "exit_status": %d}, "device": {"protocol": "ATA"},'
    ' "model_name": "ACME", "serial_number": "S1", "smart_status": {"passed": true}}'
)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(_STATUS % 8, id="exit-status-failing"),
        pytest.param(_STATUS % 16, id="exit-status-prefail"),
        pytest.param(SMART.format(state="PASSED") + _ROW, id="row-cut"),
        pytest.param(
            SMART.format(state="PASSED") + "Critical Warning:   vier\n", id="warning-is-no-number"
        ),
        pytest.param(
            KINDS["mdadm"][0].replace("Failed Devices : 0", "Failed Devices : 1"),
            id="failed-without-row",
        ),
    ],
)
def test_a_part_that_reports_of_a_fault_is_not_outvoted_by_the_rest(text: str) -> None:
    """A bad exit status, count or row outweighs a general "OK" in the text."""
    told = read(text)
    assert told.status == 1
    assert any(each.fault for each in told.unparsed)


def test_the_overall_health_alone_is_never_well() -> None:
    """A text that ends behind it: attributes decide, and its line is the last to change."""
    found = read(SMART.format(state="PASSED").partition("SMART Attributes")[0])
    assert (found.status, [each.reason for each in found.unparsed]) == (
        2,
        ["smartctl: the drive's attributes ('-A') are missing in it"],
    )


def test_a_drive_that_was_asleep_is_unknown() -> None:
    """'-n standby': it was left alone on purpose; nothing was read, neither well nor failed."""
    banner = "smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0-28-amd64] (local build)\n\n"
    explained = read(f"{banner}Device is in STANDBY mode, exit(2)\n")
    assert [each.state for each in explained.objects] == ["unknown"]
    assert [(each.severity, each.alert) for each in explained.alerts] == [("info", "DiskAsleep")]
    assert (explained.status, explained.unparsed) == (2, ())
    assert explained.summary() == "explain: not everything was checked: 1 info alert"


def test_a_whole_exit_status_without_findings_is_well() -> None:
    """The same report with exit status 0: no contradiction."""
    assert read(_STATUS % 0).status == 0


@pytest.mark.parametrize(
    ("text", "at"),
    [
        pytest.param(
            "Adapter #0\n\nEnclosure Device ID: 252\nSlot Number: 1\nMedia Error Count: 0\n"
            "Predictive Failure Count: {}\nFirmware state: Online, Spun Up\n\nExit Code: 0x00\n",
            "four",
            id="megacli",
        ),
        pytest.param(
            "Controllers found: 1\nController information\n"
            "   Controller Status                        : Optimal\n"
            "   Controller Model                         : ACME\n"
            "   Defunct disk drive count                 : {}\n\n"
            "Command completed successfully.\n",
            "one",
            id="arcconf",
        ),
    ],
)
def test_a_count_that_is_no_number_is_not_none(text: str, at: str) -> None:
    """An error count that cannot be parsed is not known to be 0."""
    well, spoilt = read(text.format(0)), read(text.format(at))
    assert not any(each.state == "attention" for each in well.objects)
    assert spoilt.status == 1
    assert any(each.state == "attention" for each in spoilt.objects)


HEADLESS = """\
CLI Version = 007.1907.0000.0000 Sep 13, 2021
Controller = 0
Status = Success
Description = None

VD LIST :
=======

-------------------------------------------------------------
DG/VD TYPE  State Access Consist Cache Cac sCC     Size Name
-------------------------------------------------------------
0/0   RAID1 Optl  RW     Yes     RWTD  -   ON  1.818 TB sys
-------------------------------------------------------------

BBU_Info :
========

----------------------------------------------
Model  State   RetentionTime Temp Mode MfgDate
----------------------------------------------
iBBU08 Failed  48 hours +    31C  4    2013/05/10
----------------------------------------------
"""


def test_a_controllers_report_without_its_head_is_no_list_of_volumes(run: Run) -> None:
    """The beginning is missing: the volume is ok, but the battery's table shows a failure."""
    code, printed = run(HEADLESS, "--as", "storcli")
    assert code == 1
    assert "ControllerBatteryFault" in printed
    assert "'bbu_info': expected 'Basics' before it, got none" in printed


def test_alerts_of_one_class_about_two_ports_are_two() -> None:
    """Neither has a label: a pasted text has no disks. One line names no port at all."""
    lines = (
        "sas: sas_scsi_find_task: aborting task 0x0000000096ec909c",
        "sas: ata2: end_device-1:0:9: cmd error handler",
        "sas: ata7: end_device-1:0:12: cmd error handler",
    )
    found = read("".join(f"<3>[  100.00000{n}] {line}\n" for n, line in enumerate(lines)), "kernel")
    assert sorted(each.object for each in found.alerts) == [
        "ata2 (ATA port)",
        "ata7 (ATA port)",
        "host",
    ]
