"""'iowarden explain' of the outputs of two commands in one paste, in either order, either cut."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest
from support.explained import read

if TYPE_CHECKING:
    from iowarden.daemon.check.explain import Explanation

MEMINFO = """\
MemTotal:       32768012 kB
MemFree:         9123412 kB
MemAvailable:   24112340 kB
Buffers:          812332 kB
Cached:         14123310 kB
SwapCached:            0 kB
Active:          8123312 kB
Inactive:       12331200 kB
SwapTotal:       8388604 kB
SwapFree:        8388604 kB
Dirty:              1220 kB
Writeback:             0 kB
AnonPages:       5123312 kB
Mapped:           812330 kB
"""
SLOT = "\nSmart Array P440 in Slot 1{serial}\n\n"
VOLUMES = """\
   array A

      logicaldrive 1 (279.4 GB, RAID 1, OK)

   array B (Failed)

      logicaldrive 2 (2.2 TB, RAID 5, OK)

"""
DISKS = """\
   array A

      physicaldrive 1I:1:1 (port 1I:box 1:bay 1, SAS, 300 GB, OK)
      physicaldrive 1I:1:2 (port 1I:box 1:bay 2, SAS, 300 GB, OK)

   array B (Failed)

      physicaldrive 2I:1:5 (port 2I:box 1:bay 5, SAS, 1.2 TB, OK)
      physicaldrive 2I:1:8 (port 2I:box 1:bay 8, SAS, 1.2 TB, Failed, spare)

"""
VMSTAT = """\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 1  0      0 9123412 812332 14935642    0    0    12    41  212  401  2  1 97  0  0
 0  0      0 9122980 812332 14935650    0    0     0    88  310  622  1  1 98  0  0
"""


@pytest.mark.parametrize("lines", range(12, 15))
@pytest.mark.parametrize("is_first", [True, False])
def test_memory_that_is_cut_stands_beside_vmstat(lines: int, is_first: bool) -> None:
    """A cut row of memory has no sign of its own beside it but its form."""
    cut = "\n".join(MEMINFO.split("\n")[:lines])
    told = read(f"{cut}\n{VMSTAT}" if is_first else f"{VMSTAT}{cut}")
    outputs = ["/proc/meminfo", "vmstat"]
    assert [*told.outputs] == (outputs if is_first else outputs[::-1])
    assert (told.status, told.unparsed) == (0, ())


def test_memory_that_is_cut_within_a_row_says_which() -> None:
    """What stands above the cut is read: Dirty and Writeback are."""
    told = read(f"{VMSTAT}{MEMINFO.rstrip()[:-3]}")
    assert told.status == 2
    assert [each.text for each in told.unparsed] == ["Mapped: 812330"]


@pytest.mark.parametrize("parts", [(VOLUMES, DISKS), (DISKS, VOLUMES), (DISKS, DISKS)])
@pytest.mark.parametrize("serials", [("", ""), ("   (sn: PDSX1)", ""), ("", "   (sn: PDSX1)")])
def test_drives_and_volumes_of_one_slot_are_of_one_controller(
    parts: tuple[str, str], serials: tuple[str, str]
) -> None:
    """Each command prints the name of its controller first."""
    pairs = zip(serials, parts, strict=True)
    told = read("".join(SLOT.format(serial=serial) + part for serial, part in pairs))
    assert [each.name for each in told.objects if each.type == "controller"] == ["hp slot 1"]
    assert [each.alert for each in told.alerts].count("ControllerArrayNeedsAttention") == 1
    failed = [each.name for each in told.objects if each.state == "failed"]
    assert failed == ["port 2I box 1 bay 8"]


def test_controllers_of_two_hosts_are_two_though_in_one_slot() -> None:
    """Their serial numbers differ."""
    one, other = (SLOT.format(serial=f"   (sn: {word})") for word in ("PDSX1", "PDSX2"))
    told = read(f"{one}{VOLUMES}{other}{VOLUMES}")
    names = [each.name for each in told.objects if each.type == "controller"]
    assert names == ["hp slot 1", "hp slot 1 #2"]


ANSWER = "CLI Version = 007.1506\nController = 0\nStatus = Success\nDescription = None\n\n\n"
RULE = "-" * 45
PROPERTIES = (
    "Controller Properties :\n=====================\n\n"
    "{0}\nCtrl_Prop         Value\n{0}\n{1}\n{0}\n"
)


@pytest.mark.parametrize(("word", "state"), [("Stopped", "ok"), ("Active", "busy")])
@pytest.mark.parametrize(("letters", "name"), [("CC", "consistency check"), ("PR", "patrol read")])
def test_the_scheduled_tasks_of_storcli(letters: str, name: str, word: str, state: str) -> None:
    """One that does not run between two of its times is no fault."""
    row = f"{letters} Mode           Auto\n{letters} Current State  {word}"
    told = read(f"{ANSWER}{PROPERTIES.format(RULE, row)}")
    assert (told.status, told.unparsed) == (0, ())
    assert {each.name: each.state for each in told.objects}[name] == state


def test_a_setting_of_storcli_is_named_in_the_refusal() -> None:
    """Its head is that of every answer: what follows it says what it is about."""
    told = read(f"{ANSWER}{PROPERTIES.format(RULE, 'Rebuildrate       30%')}")
    assert told.status == 2
    assert "'Rebuildrate       30%'" in told.unparsed[0].reason


def test_no_task_is_said_to_run_where_none_does() -> None:
    """'Not in progress' of each drive."""
    rows = "Drive-ID   Progress% Status          Estimated Time Left"
    row = "/c0/e8/s0  -         Not in progress -"
    told = read(f"{ANSWER}{RULE}\n{rows}\n{RULE}\n{row}\n{RULE}\n")
    assert (told.status, told.alerts) == (0, ())


OUTPUTS = {
    "smartctl": (
        "smartctl 7.2 2020-12-30 r5155 [x86_64-linux-5.15.0] (local build)\n\n"
        "=== START OF READ SMART DATA SECTION ===\n"
        "SMART overall-health self-assessment test result: FAILED!\n\n"
        "SMART Error Log Version: 1\nNo Errors Logged\n"
    ),
    "mdstat": (
        "Personalities : [raid1]\nmd0 : active raid1 sdb1[1](F) sda1[0]\n"
        "      976630464 blocks super 1.2 [2/1] [U_]\n\nunused devices: <none>\n"
    ),
    "multipath": (
        "mpatha (360014056a1b2c3d4) dm-2 LIO-ORG,disk0\n"
        "size=100G features='0' hwhandler='1 alua' wp=rw\n"
        "`-+- policy='service-time 0' prio=50 status=active\n"
        "  |- 6:0:0:0 sdb 8:16 active ready running\n"
        "  `- 7:0:0:0 sdc 8:32 failed faulty running\n"
    ),
    "lvs": (
        "  LV   VG  Attr       LSize  Pool\n  root vg0 -wi-ao---- 70.00g\n"
        "  home vg0 -wi-a---p- 9.00g\n"
    ),
    "df": "Filesystem     Size Used Avail Use% Mounted on\n/dev/sda1       20G  20G     0 100% /\n",
    "zpool": (
        "  pool: tank\n state: DEGRADED\nconfig:\n\n\tNAME   STATE     READ WRITE CKSUM\n"
        "\ttank   DEGRADED     0     0     0\n\t  sdx  FAULTED      3     0     0\n\n"
        "errors: No known data errors\n"
    ),
    "btrfs": (
        "warning, device 3 is missing\nLabel: 'data'  uuid: 8e1f2031-4253-4647-8596-a7b8c9dae0f1\n"
        "\tTotal devices 2 FS bytes used 2.11TiB\n"
        "\tdevid    1 size 2.73TiB used 1.42TiB path /dev/sdf\n\t*** Some devices missing\n"
    ),
    "kernel": (
        "XFS (dm-3): Metadata corruption detected at xfs_agf_read_verify+0x5e, xfs_agf block 0x1\n"
        "ata3.00: failed command: READ FPDMA QUEUED\n"
        "blk_update_request: I/O error, dev sdq, sector 35404672\n"
    ),
    "mail": (
        "Subject: SMART error (Health) detected on host: filer\n\n"
        "This message was generated by the smartd daemon running on:\n\n   host name:  filer\n\n"
        "The following warning/error was logged by the smartd daemon:\n\n"
        "Device: /dev/sdk [SAT], FAILED SMART self-check. BACK UP DATA NOW!\n\n"
        "Device info:\nST2000NM0033-9ZM175, S/N:Z1X00001, FW:SN04, 2.00 TB\n"
    ),
    "detail": (
        "/dev/md7:\n           Version : 1.2\n        Raid Level : raid1\n      Raid Devices : 2\n"
        "     Total Devices : 2\n             State : clean, degraded\n    Active Devices : 1\n"
        "   Working Devices : 1\n    Failed Devices : 1\n     Spare Devices : 0\n\n"
        "    Number   Major   Minor   RaidDevice State\n"
        "       0       8        1        0      active sync   /dev/sda1\n"
        "       -       0        0        1      removed\n\n"
        "       1       8       17        -      faulty   /dev/sdn1\n"
    ),
    "examine": (
        "/dev/sdr1:\n          Magic : a92b4efc\n        Version : 1.2\n"
        "           Name : nas:5\n     Raid Level : raid1\n   Raid Devices : 2\n"
        "         Events : 100\n   Device Role : Active device 0\n   Array State : A.\n"
    ),
    "vmstat": VMSTAT,
}
"""Outputs with a fault each, except the last."""


@functools.cache
def alone_read(name: str) -> Explanation:
    """Return what one output means."""
    return read(OUTPUTS[name])


@pytest.mark.parametrize("first", OUTPUTS)
@pytest.mark.parametrize("blank", ["", "\n", "\n\n"])
def test_two_outputs_in_one_paste_mean_what_each_means(first: str, blank: str) -> None:
    """'cmd1; cmd2' prints no line between them; neither takes a row of the other."""
    alone = {name: alone_read(name) for name in OUTPUTS}
    assert {name for name, told in alone.items() if not told.alerts} == {"vmstat"}
    for second in OUTPUTS.keys() - {first}:
        told = read(f"{OUTPUTS[first]}{blank}{OUTPUTS[second]}")
        both = alone[first], alone[second]
        alerts = {(each.alert, each.object) for one in both for each in one.alerts}
        assert {(each.alert, each.object) for each in told.alerts} == alerts, second
        objects = {(each.name, each.state) for one in both for each in one.objects}
        assert {(each.name, each.state) for each in told.objects} == objects, second
        assert len(told.unparsed) <= sum(len(one.unparsed) for one in both), second
