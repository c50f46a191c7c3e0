"""'iowarden explain' of the outputs of two commands in one paste, in either order, either cut."""

from __future__ import annotations

import pytest
from support.explained import read

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
