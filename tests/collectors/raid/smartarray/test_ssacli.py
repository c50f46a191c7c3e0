"""HP's programs and 'cciss_vol_status', with all possible faults."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.controllers import DEVICES, DRIVERS, polled, printed
from support.memory import Memory

from iowarden.collectors.machine import Machine
from iowarden.collectors.model import ParseError, ProgramNotFoundError
from iowarden.collectors.raid.adaptec.aacraid import ADAPTEC
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.raid.smartarray import cciss_vol_status, hpsa, ssacli
from iowarden.collectors.raid.smartarray.hpsa import HP
from iowarden.daemon.polling.controllers import ControllerPoller
from iowarden.daemon.probe import allowed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iowarden.collectors.raid.backend import Backend
    from iowarden.collectors.raid.controller import Controller, ControllerArray, PhysicalDisk

STATUS = """\

Smart Array P999i in Slot 0 (Embedded)
   Controller Status: OK
   Cache Status: {cache}
   Battery/Capacitor Status: {battery}

"""
DETAIL = """\

Smart Array P999i in Slot 0 (Embedded)
   Bus Interface: PCI
   Slot: 0
   Serial Number: PXYZ1
   Controller Status: OK
   Firmware Version: 9.99-0
   Degraded Performance Optimization: Disabled
   Cache Status: OK
   Cache Ratio: 10% Read / 90% Write
   Total Cache Size: 2.0 GB
   Battery/Capacitor Status: OK
   Capacitor Temperature  (C): 24
   Controller Temperature (C): 51
   PCI Address (Domain:Bus:Device.Function): 0000:5C:00.0

   Port Name: 1I
         Port ID: 0

   Internal Drive Cage at Port 1I, Box 1, OK

      Power Supply Status: Not Redundant
      Drive Bays: 4

   Physical Drives
      physicaldrive 1I:1:1 (port 1I:box 1:bay 1, SAS HDD, 600 GB, OK)
      physicaldrive 1I:1:2 (port 1I:box 1:bay 2, SAS HDD, 600 GB, OK)

   D3700 at Port 2E, Box 1, OK

      Fan Status: Failed
      Temperature Status: OK
      Power Supply Status: Not Redundant

   Array: A
      Interface Type: SAS
      Status: OK

      Logical Drive: 1
         Size: 558.9 GB
         Fault Tolerance: 1
         Status: OK
         Unrecoverable Media Errors: None
         Caching:  Enabled
         Unique Identifier: 600508B1001CAAAA
         Disk Name: /dev/sda
         Mirror Group 1:
            physicaldrive 1I:1:1 (port 1I:box 1:bay 1, SAS HDD, 600 GB, OK)
         Mirror Group 2:
            physicaldrive 1I:1:2 (port 1I:box 1:bay 2, SAS HDD, 600 GB, OK)
         Drive Type: Data

      physicaldrive 1I:1:1
         Port: 1I
         Status: OK
         Drive Type: Data Drive
         Size: 600 GB
         Firmware Revision: HPD9 (FW update is recommended to minimum version: HPDA)
         Serial Number: S1
         Model: HP      EG0600
         Current Temperature (C): 33
         SSD Smart Trip Wearout: Not Supported

      physicaldrive 1I:1:2
         Port: 1I
         Status: OK
         Drive Type: Data Drive
         Size: 600 GB
         Serial Number: S2
         Model: ATA     MM0600

      physicaldrive 1I:1:3
         Status: Failed
         Drive Type: Spare Drive
         Size: 600 GB

   Unassigned

      physicaldrive 1I:1:4
         Status: Predictive Failure
         Drive Type: Unassigned Drive

   SEP (Vendor ID XYZ, Model  SRC) 380
      Status: Odd
      Model: SRC
"""


def one(text: str) -> Controller:
    """Return the only controller of an output."""
    (found,) = ssacli.parse_controllers(text)
    return found.controller


def volume(line: str) -> ControllerArray:
    """Return the logical drive of a line."""
    (found,) = one(f"Smart Array P9 in Slot 1\n\n   array A\n\n      {line}\n").arrays
    return found


def disk(line: str) -> PhysicalDisk:
    """Return the disk of a line."""
    (found,) = one(f"Smart Array P9 in Slot 1\n\n   unassigned\n\n      {line}\n").disks
    return found


def test_a_controller_in_detail() -> None:
    """Its logical drive has the disks of its mirrors; a spare is the array's."""
    (found,) = ssacli.parse_controllers(DETAIL)
    assert found.pci_address == "0000:5c:00.0"
    told = found.controller
    assert (told.name, told.model, told.serial, told.firmware, told.memory_bytes) == (
        "hp slot 0",
        "Smart Array P999i",
        "PXYZ1",
        "9.99-0",
        2_000_000_000,
    )
    group, drive = told.arrays
    both = ("port 1I box 1 bay 1", "port 1I box 1 bay 2")
    assert (group.name, group.state.health, group.slots) == ("array A", ComponentHealth.OK, both)
    assert (drive.name, drive.parent, drive.level, drive.slots, drive.serial) == (
        "logical drive 1",
        "array A",
        "1",
        both,
        "600508B1001CAAAA",
    )
    assert drive.policy is not None
    assert drive.policy.write_back is True
    assert [(d.slot, d.state.health, d.array, d.usage) for d in told.disks] == [
        ("port 1I box 1 bay 1", ComponentHealth.OK, "array A", "Data Drive"),
        ("port 1I box 1 bay 2", ComponentHealth.OK, "array A", "Data Drive"),
        ("port 1I box 1 bay 3", ComponentHealth.FAILED, "array A", "Spare Drive"),
        ("port 1I box 1 bay 4", ComponentHealth.FAILING, "", "Unassigned Drive"),
    ]
    first, second, *_ = told.disks
    assert (first.model, first.firmware, first.temperature_celsius) == ("HP EG0600", "HPD9", 33.0)
    assert (second.model, second.serial, second.size_bytes) == ("MM0600", "S2", 600_000_000_000)
    assert told.batteries[0].ready is True
    states = {each.name: each.state.health for each in told.sensors if each.state}
    assert states == {
        "cache": ComponentHealth.OK,
        "port 1I box 1": ComponentHealth.OK,
        "port 1I box 1 power supply": ComponentHealth.ABSENT,
        "port 2E box 1": ComponentHealth.OK,
        "port 2E box 1 fan": ComponentHealth.FAILED,
        "port 2E box 1 temperature": ComponentHealth.OK,
        "port 2E box 1 power supply": ComponentHealth.ATTENTION,
    }
    assert {s.temperature_celsius for s in told.sensors} == {None, 51.0}


@pytest.mark.parametrize(
    ("told", "health", "done_ratio"),
    [
        ("OK", ComponentHealth.OK, None),
        ("Interim Recovery Mode", ComponentHealth.DEGRADED, None),
        ("Ready for Rebuild", ComponentHealth.DEGRADED, None),
        ("Recovering, 26% complete", ComponentHealth.REBUILDING, 0.26),
        ("Recovering, 55.73% complete", ComponentHealth.REBUILDING, 0.5573),
        ("Transforming, 3% complete", ComponentHealth.BUSY, 0.03),
        ("Queued for Expansion", ComponentHealth.BUSY, None),
        ("Failed", ComponentHealth.FAILED, None),
        ("Wrong Physical Drive Replaced", ComponentHealth.FAILED, None),
        ("Splendid", ComponentHealth.ATTENTION, None),
    ],
)
def test_words_for_a_logical_drive(
    told: str, health: ComponentHealth, done_ratio: float | None
) -> None:
    """The state may contain commas; an unknown state is not 'OK'."""
    found = volume(f"logicaldrive 1 (1.09 TB, RAID 6 (ADG), {told})")
    assert (found.state.health, found.state.done_ratio) == (health, done_ratio)
    assert (found.level, found.size_bytes, found.parent) == (
        "6 (ADG)",
        round(1.09 * 2**40),
        "array A",
    )


@pytest.mark.parametrize(
    ("told", "health", "usage"),
    [
        ("SAS HDD, 600 GB, OK", ComponentHealth.OK, ""),
        ("SAS, 600 GB, OK, spare", ComponentHealth.OK, "spare"),
        ("SAS, 600 GB, OK, active spare", ComponentHealth.OK, "active spare"),
        ("SATA SSD, 600 GB, Predictive Failure", ComponentHealth.FAILING, ""),
        ("SAS, --- GB, Failed", ComponentHealth.FAILED, ""),
        ("SAS, 600 GB, Rebuilding", ComponentHealth.REBUILDING, ""),
        ("SAS, 600 GB", ComponentHealth.ATTENTION, ""),
        ("SAS, 600 GB, Haunted", ComponentHealth.ATTENTION, ""),
    ],
)
def test_words_for_a_disk(told: str, health: ComponentHealth, usage: str) -> None:
    """The state comes after the size; without one it is unknown."""
    found = disk(f"physicaldrive 1I:1:7 (port 1I:box 1:bay 7, {told})")
    assert (found.slot, found.state.health, found.usage) == ("port 1I box 1 bay 7", health, usage)


def test_disks_and_volumes_as_older_commands_list_them() -> None:
    """Parallel SCSI has no boxes; 'show status' has the state after the bracket."""
    old = disk("physicaldrive 1:0 (port 1:id 0 , Parallel SCSI, --- GB, Failed)")
    assert (old.slot, old.state.health, old.size_bytes) == (
        "port 1 id 0",
        ComponentHealth.FAILED,
        None,
    )
    status = disk("physicaldrive 2E:1:3 (port 2E:box 1:bay 3, 600 GB): Predictive Failure")
    assert status.state.health is ComponentHealth.FAILING
    assert volume("logicaldrive 2 (136.7 GB, 1): Failed").state.health is ComponentHealth.FAILED


def test_disks_of_an_array_with_two_logical_drives_are_of_both() -> None:
    """Without mirrors in the output, each has all disks but the spare."""
    found = one(
        "Smart Array P9 in Slot 1    (sn: PDNL1)\n\n   array B (SAS, Unused Space: 0  MB)\n\n"
        "      logicaldrive 1 (1 TB, RAID 5, OK)\n      logicaldrive 2 (1 TB, RAID 5, OK)\n\n"
        "      physicaldrive 1I:1:1 (port 1I:box 1:bay 1, SAS, 600 GB, OK)\n"
        "      physicaldrive 1I:1:2 (port 1I:box 1:bay 2, SAS, 600 GB, OK, spare)\n"
    )
    assert found.serial == "PDNL1"
    assert [(each.name, each.slots) for each in found.arrays] == [
        ("logical drive 1", ("port 1I box 1 bay 1",)),
        ("logical drive 2", ("port 1I box 1 bay 1",)),
    ]


def test_an_array_that_failed_because_its_spare_did() -> None:
    """The header has 'Failed', its logical drive is OK: that needs attention."""
    found = one(
        "Smart Array P9 in Slot 1\n\n   array A (Failed)\n\n"
        "      logicaldrive 1 (1 TB, RAID 5, OK)\n"
    )
    assert [(each.name, each.state.health) for each in found.arrays] == [
        ("array A", ComponentHealth.ATTENTION),
        ("logical drive 1", ComponentHealth.OK),
    ]


MEDIA_ERRORS = """

Warning: Unrecoverable Media Errors Detected on Drives during previous Rebuild
or Background Surface Analysis (ARM) scan. Errors will be fixed automatically
when the sector(s) are overwritten. Backup and Restore are recommended.{more}

"""
WARNING = MEDIA_ERRORS.format(more="")
LD = "      logicaldrive {n} (1 TB, RAID 5, OK)\n"
PD = "      physicaldrive 1I:1:{n} (port 1I:box 1:bay {n}, SAS, 600 GB, OK)\n"


def media_errors(text: str) -> dict[str, str]:
    """Return the state of the controller, arrays and disks that have media errors, by name."""
    found = one(f"Smart Array P9 in Slot 1\n{text}")
    told = {each.name: each.state for each in found.arrays}
    told |= {each.slot: each.state for each in found.disks}
    if found.state is not None:
        told[found.name] = found.state
    return {name: state.word for name, state in told.items() if "media errors" in state.word}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([WARNING, LD.format(n=1)], "logical drive 1", id="the only one"),
        pytest.param(
            [LD.format(n=1), WARNING, LD.format(n=2), LD.format(n=3), PD.format(n=1)],
            "logical drive 2",
            id="between two",
        ),
        pytest.param([LD.format(n=1), WARNING, LD.format(n=2)], "logical drive 2", id="last one"),
        pytest.param(
            [WARNING, "      logicaldrive 7 (1 TB, RAID 6, Recovering, 5% complete)\n"],
            "logical drive 7",
            id="that recovers",
        ),
        pytest.param(
            [WARNING, "      logicaldrive 1 (136.7 GB, 1): OK\n"],
            "logical drive 1",
            id="by 'show status'",
        ),
    ],
)
def test_media_errors_in_a_list_are_of_the_logical_drive_below_the_warning(
    lines: list[str], expected: str
) -> None:
    """Not of its neighbour above; the state says that only the place of the warning tells it."""
    found = media_errors("\n   array A\n\n" + "".join(lines))
    assert list(found) == [expected]
    assert "unrecoverable media errors (warning above it)" in found[expected]


HANGING = """{indent}Warning: Unrecoverable Media Errors Detected on Drives during previous
{indent}         Rebuild or Background Surface Analysis (ARM) scan. Errors will be fixed
{indent}         automatically when the sector(s) are overwritten.{more}
"""


@pytest.mark.parametrize("indent", [0, 3, 6])
@pytest.mark.parametrize("gap", ["", "\n"])
@pytest.mark.parametrize("capitals", [False, True])
def test_a_warning_with_a_hanging_indent_is_of_the_logical_drive_below_it(
    indent: int, gap: str, *, capitals: bool
) -> None:
    """Wrapped as the tool's other paragraphs: its lines are joined, and no line below is eaten."""
    warning = HANGING.format(indent=" " * indent, more="")
    warning = warning.upper() if capitals else warning
    lines = LD.format(n=1), warning, gap, LD.format(n=2), PD.format(n=1)
    found = media_errors("\n   array A\n\n" + "".join(lines))
    assert list(found) == ["logical drive 2"]
    named = HANGING.format(
        indent=" " * indent,
        more=f"\n{' ' * (indent + 9)}The following logical drives are affected: 1",
    )
    lines = named, gap, LD.format(n=2), LD.format(n=1)
    assert list(media_errors("\n   array A\n\n" + "".join(lines))) == ["logical drive 1"]


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        (
            ["      Warning: A thing that nobody\n               knows\n\n", LD.format(n=1)],
            "Warning: A thing that nobody knows (above logical drive 1)",
        ),
        (["Warning: A new thing\n\n", PD.format(n=1)], "Warning: A new thing (in array A)"),
        ([LD.format(n=1), "   Warning: A new thing\n"], "Warning: A new thing"),
    ],
)
def test_a_warning_that_is_not_recognized_needs_attention(lines: list[str], word: str) -> None:
    """It was dropped, and the controller was in order."""
    found = one("Smart Array P9 in Slot 1\n\n   array A\n\n" + "".join(lines))
    assert found.state is not None
    assert (found.state.health, found.state.word) == (ComponentHealth.ATTENTION, word)
    assert all(each.state.health is ComponentHealth.OK for each in (*found.arrays, *found.disks))


def test_a_warning_without_a_warning_is_none() -> None:
    """A key with the value 'None'."""
    found = one("Smart Array P9 in Slot 1\n   Warning: None\n" + LD.format(n=1))
    assert found.state is None


def test_media_errors_of_logical_drives_of_two_arrays() -> None:
    """Each has its own warning."""
    text = f"\n   array A\n{WARNING}{LD.format(n=1)}\n   array B\n{LD.format(n=2)}{WARNING}"
    assert list(media_errors(text + LD.format(n=3))) == ["logical drive 1", "logical drive 3"]


def test_a_logical_drive_that_waits_for_its_rebuild_keeps_its_state_and_its_media_errors() -> None:
    """What cannot be read is not restored by the rebuild either."""
    lines = f"{WARNING}      logicaldrive 4 (16 TB, RAID 6, Ready for Rebuild)\n"
    (found,) = one(f"Smart Array P9 in Slot 1\n\n   array A\n{lines}").arrays
    assert found.state.health is ComponentHealth.DEGRADED
    assert found.state.word == "Ready for Rebuild, unrecoverable media errors (warning above it)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            f"\n   array A\n\n{LD.format(n=1)}{WARNING}{PD.format(n=1)}",
            "array A",
            id="before a disk",
        ),
        pytest.param(
            f"\n   array A\n\n{LD.format(n=1)}{WARNING}\n   array B\n{LD.format(n=2)}",
            "hp slot 1",
            id="before the next array",
        ),
        pytest.param(
            f"\n   array A\n\n{LD.format(n=1)}{PD.format(n=1)}{WARNING}",
            "hp slot 1",
            id="at the end",
        ),
        pytest.param(
            f"{WARNING}   Bus Interface: PCI\n   Controller Status: OK\n",
            "hp slot 1",
            id="below the controller",
        ),
    ],
)
def test_media_errors_that_may_be_of_either_neighbour_are_of_what_contains_them(
    text: str, expected: str
) -> None:
    """Neither neighbour is blamed, and the warning is not lost."""
    found = media_errors(text)
    assert list(found) == [expected]
    assert found[expected].endswith("unrecoverable media errors, drive not determined")


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (" The\nfollowing logical drives are affected: 2", {"logical drive 2"}),
        (
            " The\nfollowing logical drives are affected: 2, 3",
            {"logical drive 2", "logical drive 3"},
        ),
        (" The\nfollowing logical drive is affected: 1", {"logical drive 1"}),
        (" The\nfollowing logical drives are affected: 9", {"hp slot 1"}),
    ],
)
def test_a_warning_of_the_controller_names_its_logical_drives(
    listed: str, expected: set[str]
) -> None:
    """It stands below the heading; one that is not listed remains with the controller."""
    text = MEDIA_ERRORS.format(more=listed) + "   Controller Status: OK\n\n   array A\n\n"
    found = media_errors(text + "".join(LD.format(n=n) for n in (1, 2, 3)))
    assert set(found) == expected
    if "hp slot 1" in expected:
        assert found["hp slot 1"] == "OK, unrecoverable media errors of logical drive 9"


def test_media_errors_in_detail_are_of_the_logical_drive_whose_own_line_says_so() -> None:
    """The key outweighs the place of the warning, also where they contradict each other."""
    block = "      Logical Drive: {n}\n         Status: OK\n         {key}\n"
    no, yes = "Unrecoverable Media Errors: None", "Unrecoverable Media Errors: Detected"
    first, second = block.format(n=1, key=no), block.format(n=2, key=yes)
    head = "\n   Array: A\n      Status: OK\n\n"
    told = {"logical drive 2": "OK, unrecoverable media errors Detected"}
    assert media_errors(head + first + WARNING + second) == told
    assert media_errors(head + WARNING + first + second) == told
    assert media_errors(head + first + second) == told
    assert media_errors(head + WARNING + first) == {
        "array A": "OK, unrecoverable media errors, drive not determined"
    }
    keyless = block.format(n=3, key="Caching:  Enabled")
    assert list(media_errors(head + first + WARNING + keyless)) == ["logical drive 3"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("90% Write", "90% Write", (True, True)),
        ("90% Write", "0% Write", (False, False)),
        ("Cache Status: OK", "Cache Status: Temporarily Disabled", (False, True)),
        ("Caching:  Enabled", "Caching:  Disabled", (False, False)),
    ],
)
def test_who_caches_writes(old: str, new: str, expected: tuple[bool, bool]) -> None:
    """The controller has memory for writes, its cache works, the logical drive uses it."""
    policy = one(DETAIL.replace(old, new)).arrays[1].policy
    assert policy is not None
    assert (policy.write_back, policy.default_write_back) == expected


@pytest.mark.parametrize(
    ("line", "disk_cache", "forced"),
    [
        ("Drive Write Cache: Enabled", True, None),
        ("Drive Write Cache: Disabled", False, None),
        ("Configured Drives: Default", None, None),
        ("Configured Drives: Enabled", True, None),
        ("No-Battery Write Cache: Enabled", None, True),
        ("No-Battery Write Cache: Disabled", None, False),
    ],
)
def test_caches_that_no_battery_keeps(
    line: str, disk_cache: bool | None, forced: bool | None
) -> None:
    """Those of the disks, by one setting of the controller; its own, if it is forced."""
    found = one(DETAIL.replace("   Cache Status: OK", f"   Cache Status: OK\n   {line}")).arrays[1]
    assert found.policy is not None
    assert (found.disk_cache, found.policy.forced) == (disk_cache, forced)


def test_an_ssd_that_is_worn_out() -> None:
    """Its status is OK even so."""
    found = one(DETAIL.replace("Wearout: Not Supported", "Wearout: True"))
    assert found.disks[0].state.health is ComponentHealth.FAILING


@pytest.mark.parametrize(
    ("cache", "battery", "expected"),
    [
        ("OK", "OK", (ComponentHealth.OK, ComponentHealth.OK, True)),
        ("Temporarily Disabled", "Recharging", (ComponentHealth.BUSY, ComponentHealth.BUSY, False)),
        (
            "Temporarily Disabled",
            "Failed (Replace Batteries/Capacitors)",
            (ComponentHealth.DEGRADED, ComponentHealth.FAILED, False),
        ),
        ("Permanently Disabled", "OK", (ComponentHealth.FAILED, ComponentHealth.OK, True)),
        ("Not Configured", "Not Installed", (ComponentHealth.ABSENT, ComponentHealth.ABSENT, None)),
        ("Melted", "Purring", (ComponentHealth.ATTENTION, ComponentHealth.ATTENTION, False)),
    ],
)
def test_cache_and_battery(
    cache: str, battery: str, expected: tuple[ComponentHealth, ComponentHealth, bool | None]
) -> None:
    """A cache that waits for its battery recovers by itself, any other does not."""
    found = one(STATUS.format(cache=cache, battery=battery))
    (sensor,), (one_battery,) = found.sensors, found.batteries
    assert sensor.state is not None
    assert (sensor.state.health, one_battery.state.health, one_battery.ready) == expected


def test_a_cache_for_writes_without_a_battery() -> None:
    """A user may have enabled it even so; a short list reports neither."""
    count = "Battery/Capacitor Count: 0\n   No-Battery Write Cache: Enabled"
    found = one(DETAIL.replace("Battery/Capacitor Status: OK", count))
    assert [(b.state.health, b.ready) for b in found.batteries] == [(ComponentHealth.ABSENT, None)]
    policy = found.arrays[1].policy
    assert policy is not None
    assert policy.write_back is True
    assert one(DETAIL.replace("   Battery/Capacitor Status: OK\n", "")).batteries == ()


def test_banners_prompts_and_controllers_of_one_name() -> None:
    """The two controllers of a chassis are two."""
    text = (
        "# ssacli ctrl all show status\n"
        "FIRMWARE UPGRADE REQUIRED: A firmware update is recommended for this controller\n"
        "                           to prevent a RAID 1 volume in a scenario of\n"
        "                           I/O in Slot 9\n"
        + "\nMSA1000 in THE CELLAR\n   Controller Status: OK\n" * 2
        + "\nSmart Array P9 in Slot 0b (HBA Mode)\n   Controller Status: Failed\n"
    )
    found = [each.controller for each in ssacli.parse_controllers(text)]
    assert [(c.name, c.model, c.state and c.state.health) for c in found] == [
        ("hp THE CELLAR", "MSA1000", ComponentHealth.OK),
        ("hp THE CELLAR #2", "MSA1000", ComponentHealth.OK),
        ("hp slot 0b", "Smart Array P9", ComponentHealth.FAILED),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\nError: No controllers detected.\n",
        'Error: Invalid target syntax. "slot" is not a valid target.\n',
        "Another instance of hpacucli is running! Stop it first.\n",
        "HP Array Configuration Utility CLI 9.40.12.0\n",
    ],
)
def test_no_controller_is_not_a_controller_without_disks(text: str) -> None:
    """An error, another running instance, a banner alone."""
    with pytest.raises(ParseError, match="ssacli"):
        ssacli.parse_controllers(text)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("\n      physicaldrive 1I:1:3\n", "\n      physicaldrive 1I:1 :3\n", "1I:1 :3"),
        ("\n   Unassigned\n", "\nError: the drive did not answer.\n\n   Unassigned\n", "did not"),
        ("      Model: SRC\n", "      Mod", "its end within a line"),
    ],
)
def test_what_cannot_be_read_is_reported_beside_the_rest(
    before: str, after: str, reason: str
) -> None:
    """An invalid line of a disk, an error within the answer, half a line at its end."""
    assert before in DETAIL
    found = one(DETAIL.replace(before, after))
    (said,) = found.read_errors
    assert reason in said
    assert [disk.state.health for disk in found.disks[:2]] == [
        ComponentHealth.OK,
        ComponentHealth.OK,
    ]
    assert ComponentHealth.FAILING in {disk.state.health for disk in found.disks}
    assert one(DETAIL).read_errors == ()


def test_more_disks_than_a_controller_can_have_are_refused() -> None:
    """Nor more controllers than a host."""
    many = "".join(f"   physicaldrive 1I:1:{n} (port 1I, SAS, 6 GB, OK)\n" for n in range(3000))
    with pytest.raises(ParseError, match="at most"):
        ssacli.parse_controllers("Smart Array P9 in Slot 1\n" + many)
    with pytest.raises(ParseError, match="at most"):
        ssacli.parse_controllers("Smart Array P9 in Slot 1\n" * 100)


DISK = " connector 1I box 1 bay {bay} {model:<40} {serial:>40} {firmware:<8}"
ENCLOSURE = "/dev/sda: (Smart Array P99) Enclosure D3 (S/N: X) on Bus 2, Physical Port 1E status: "
VOLUME_STATUS = "\n".join(
    [
        "Controller: Smart Array P99",
        "  Board ID: 0x1234103c",
        "  Running firmware: 5.20",
        "/dev/sda: (Smart Array P99) RAID 5 Volume 0 status: {state}.{more}",
        "  Physical drives: 2",
        *(
            "        "
            + DISK.format(bay=bay, model="HP      EG0600", serial=f"S{bay}", firmware="HPD9")
            + " {disk}"
            for bay in (1, 2)
        ),
        ENCLOSURE + "{enclosure}.",
        "/dev/sg0(Smart Array P99:0): Non-Volatile Cache status:",
        "                   Cache configured: {configured}",
        "                Write cache enabled: Yes{disabled}",
        "",
    ]
)


def vol_status(
    state: str = "OK",
    more: str = " ",
    disk: str = "OK",
    enclosure: str = "OK",
    configured: str = "Yes",
    disabled: str = "",
) -> Controller:
    """Return the controller of 'cciss_vol_status -V'."""
    (found,) = cciss_vol_status.parse_volume_status(
        VOLUME_STATUS.format(
            state=state,
            more=more,
            disk=disk,
            enclosure=enclosure,
            configured=configured,
            disabled=disabled,
        )
    )
    return found


def test_a_controller_by_cciss_vol_status() -> None:
    """It names the volume's file, the controller's file and each disk by its slot."""
    found = vol_status()
    assert (found.name, found.model, found.firmware) == ("cciss sda", "Smart Array P99", "5.20")
    assert [(each.name, each.level, each.state.health) for each in found.arrays] == [
        ("volume 0", "5", ComponentHealth.OK)
    ]
    assert [(each.slot, each.model, each.serial, each.firmware) for each in found.disks] == [
        (f"port 1I box 1 bay {bay}", "HP EG0600", f"S{bay}", "HPD9") for bay in (1, 2)
    ]
    assert [(each.name, each.state and each.state.health) for each in found.sensors] == [
        ("cache", ComponentHealth.OK),
        ("enclosure bus 2 port 1E D3", ComponentHealth.OK),
    ]


@pytest.mark.parametrize(
    ("state", "more", "health"),
    [
        ("OK", "   At least one spare drive designated.", ComponentHealth.OK),
        ("OK", "   At least one spare drive has failed.", ComponentHealth.ATTENTION),
        ("OK", "   At least one spare drive activated.", ComponentHealth.ATTENTION),
        ("FAILED", "", ComponentHealth.FAILED),
        ("Using interim recovery mode", "", ComponentHealth.DEGRADED),
        ("Currently recovering", "", ComponentHealth.REBUILDING),
        ("Currently expannding", "", ComponentHealth.BUSY),
        ("Hardware is overheating", "", ComponentHealth.ATTENTION),
    ],
)
def test_words_for_a_volume(state: str, more: str, health: ComponentHealth) -> None:
    """A spare in use leaves a failed disk."""
    assert vol_status(state, more).arrays[0].state.health is health


def test_what_else_cciss_vol_status_tells() -> None:
    """A disk, an enclosure, a disabled cache; a missing cache is no fault."""
    assert vol_status(disk="PREDICTIVE FAILURE").disks[0].state.health is ComponentHealth.FAILING
    assert vol_status(disk="?").disks[0].state.health is ComponentHealth.ATTENTION
    hot = vol_status(enclosure="Temperature problem").sensors[1]
    assert hot.state is not None
    assert hot.state.health is ComponentHealth.ATTENTION
    caches = [
        vol_status(disabled="\n   Write cache temporarily disabled"),
        vol_status(disabled="\n   Write Cache permanently disabled"),
        vol_status(configured="No"),
    ]
    assert [c.sensors[0].state and c.sensors[0].state.health for c in caches] == [
        ComponentHealth.DEGRADED,
        ComponentHealth.FAILED,
        ComponentHealth.ABSENT,
    ]


def test_a_cache_that_is_not_there_caches_no_writes() -> None:
    """Then no cache state is needed; that of an existing cache would be unknown."""
    for configured, expected in (("No", False), ("Yes", None)):
        text = VOLUME_STATUS.replace("                Write cache enabled: Yes{disabled}\n", "")
        told = text.format(state="OK", more="", disk="OK", enclosure="OK", configured=configured)
        (card,) = cciss_vol_status.parse_volume_status(told)
        assert card.arrays[0].policy
        assert card.arrays[0].policy.write_back is expected


def test_disks_that_a_volume_lists_as_failed() -> None:
    """Below a volume that a spare has restored."""
    listed = "        " + DISK.format(bay=3, model="HP", serial="S3", firmware="HPD9")
    more = f"\n  Failed drives:\n{listed}\n    Total of 1 failed physical drives detected on it."
    found = vol_status(more=f" {more}")
    assert found.arrays[0].state.health is ComponentHealth.ATTENTION
    assert {each.slot: each.state.health for each in found.disks} == {
        "port 1I box 1 bay 3": ComponentHealth.FAILED,
        "port 1I box 1 bay 1": ComponentHealth.OK,
        "port 1I box 1 bay 2": ComponentHealth.OK,
    }


def test_a_line_of_a_disk_that_cannot_be_read_is_not_left_out() -> None:
    """It is reported, and so is a missing one: disks are counted."""
    good = {"state": "OK", "more": "", "disk": "OK", "enclosure": "OK", "configured": "Yes"}
    text = VOLUME_STATUS.format(**good, disabled="")
    (found,) = cciss_vol_status.parse_volume_status(text.replace("bay 2 ", "bay two "))
    assert len(found.disks) == 1
    assert "got 'connector 1I box 1 bay two" in found.read_errors[0]
    assert "expected 2 disks, got 1" in found.read_errors[-1]
    assert cciss_vol_status.parse_volume_status(text)[0].read_errors == ()


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    """In the middle of a valid one, too."""
    for given_text in (text, DETAIL.replace("OK", text), f"{DETAIL}\n{text}"):
        try:
            ssacli.parse_controllers(given_text)
        except ParseError as error:
            assert str(error)  # noqa: PT017 - a refusal has a reason
    for given_text in (text, VOLUME_STATUS.replace("{state}", text)):
        try:
            cciss_vol_status.parse_volume_status(given_text)
        except ParseError as error:
            assert str(error)  # noqa: PT017 - a refusal has a reason


HPSA = f"{DRIVERS}/hpsa/0000:5c:00.0/host1"
ANSWERS = {
    "ssacli ctrl all show status": STATUS.format(cache="OK", battery="OK"),
    "ssacli ctrl slot=0 show config detail": DETAIL,
}
HOSTS = {"/sys/class/scsi_host/host1": None, "/sys/class/scsi_host/host2": None}


def test_a_machine_with_one_controller() -> None:
    """Its host is that of its PCI address."""
    found = polled(HP, {HPSA: None, **HOSTS}, ANSWERS)
    (one,) = found.controllers
    assert (one.name, one.host, len(one.disks), found.problems) == ("hp slot 0", "host1", 4, ())


SHORT = """\

Smart Array P999i in Slot 0 (Embedded)    (sn: PXYZ1)

   Internal Drive Cage at Port 1I, Box 1, OK

   Array A (SAS, Unused Space: 0 MB)

      logicaldrive 1 (558.9 GB, RAID 1, OK)

      physicaldrive 1I:1:1 (port 1I:box 1:bay 1, SAS HDD, 600 GB, OK)
      physicaldrive 1I:1:2 (port 1I:box 1:bay 2, SAS HDD, 600 GB, OK)
      physicaldrive 1I:1:3 (port 1I:box 1:bay 3, SAS HDD, 600 GB, Failed, spare)

   Unassigned

      physicaldrive 1I:1:4 (port 1I:box 1:bay 4, SAS HDD, 600 GB, Predictive Failure)

"""


@pytest.mark.parametrize("line", range(len(DETAIL.splitlines())))
def test_an_answer_that_ends_early_hides_no_disk(line: int) -> None:
    """After each of its lines: the short list has the failed spare, and the failing disk.

    Before the controller's name it is refused; what it lacks is reported.
    """
    cut = "".join(each + "\n" for each in DETAIL.splitlines()[:line])
    answers = {**ANSWERS, "ssacli ctrl slot=0 show config": SHORT}
    answers["ssacli ctrl slot=0 show config detail"] = cut
    found = polled(HP, {HPSA: None, **HOSTS}, answers)
    if line < 2:
        assert "expected '<controller> in Slot <n>'" in found.problems[0].reason
        return
    (one,) = found.controllers
    health = {disk.slot: disk.state.health for disk in one.disks}
    assert health["port 1I box 1 bay 3"] in {ComponentHealth.FAILED, ComponentHealth.ATTENTION}
    assert health["port 1I box 1 bay 4"] in {ComponentHealth.FAILING, ComponentHealth.ATTENTION}
    assert bool(found.problems) == ("physicaldrive 1I:1:4" not in cut)


def test_a_second_controller_that_is_not_listed_is_a_problem() -> None:
    """The program is too old for it, or it died: the other one is read."""
    other = f"{DRIVERS}/hpsa/0000:5d:00.0/host2"
    found = polled(HP, {HPSA: None, other: None, **HOSTS}, ANSWERS)
    assert [(each.name, each.host) for each in found.controllers] == [("hp slot 0", "host1")]
    (problem,) = found.problems
    assert problem.controller == "hp unlisted"
    assert "expected 2 controllers (host1, host2), got 1" in problem.reason


def test_an_older_program_will_do() -> None:
    """The newest installed one is run."""
    older = {name.replace("ssacli", "hpacucli"): text for name, text in ANSWERS.items()}
    found = polled(HP, {HPSA: None, **HOSTS}, older)
    assert [(c.name, c.program) for c in found.controllers] == [("hp slot 0", "hpacucli")]


def test_controllers_without_a_slot_are_counted() -> None:
    """All are run, and each lists its own."""
    second = DETAIL.replace("PXYZ1", "PXYZ2").replace("Slot 0 (Embedded)", "Slot unknowable")
    status = STATUS.replace("Slot 0 (Embedded)", "Slot ATTR_VALUE_SLOT_UNKNOWN")
    detail = DETAIL.replace("Slot 0 (Embedded)", "Slot ATTR_VALUE_SLOT_UNKNOWN")
    answers = {
        "ssacli ctrl all show status": status.format(cache="OK", battery="OK") * 2,
        "ssacli ctrl all show config detail": detail + second,
    }
    found = polled(HP, {HPSA: None, **HOSTS}, answers)
    assert [(each.name, each.serial) for each in found.controllers] == [
        ("hp slot unknown", "PXYZ1"),
        ("hp slot unknown #2", "PXYZ2"),
    ]


def smartpqi(vendor: str) -> dict[str, str | None]:
    """Return a host of the driver smartpqi of one vendor."""
    return {
        f"{DRIVERS}/smartpqi/0000:5c:00.0/host1": None,
        f"{DEVICES}/0000:5c:00.0/subsystem_vendor": vendor,
        **HOSTS,
    }


def test_a_card_of_the_driver_smartpqi_is_hps_if_hp_sells_it() -> None:
    """The user is not told to install ssacli for a card of Adaptec's."""
    own = polled(HP, smartpqi("0x1590\n"), ANSWERS)
    assert [each.host for each in own.controllers] == ["host1"]
    other = polled(HP, smartpqi("0x9005\n"), ANSWERS)
    assert (other.controllers, other.problems) == ((), ())


def drive(raid_level: str, address: str = "1:0:0:0", **other: str) -> dict[str, str]:
    """Return a disk or a volume as the kernel shows it."""
    path = f"/sys/class/scsi_device/{address}/device"
    texts = {"type": "0\n", "vendor": "HP", "model": "EG0300FBDBR", "raid_level": raid_level}
    texts |= {"block/sda/size": "586072368\n"} | other
    return {f"{path}/{name}": text for name, text in texts.items()}


@pytest.mark.parametrize(
    ("vendor", "maker", "command"),
    [
        ("0x1590\n", HP, "ssacli ctrl slot=0 show config detail"),
        ("0x9005\n", ADAPTEC, "arcconf LIST"),
    ],
)
def test_a_card_in_hba_mode_is_no_controller_that_nobody_reads(
    vendor: str, maker: Backend, command: str
) -> None:
    """Its disks are polled directly; if there may be a volume, its missing program is reported."""
    hidden = drive("N/A\n", "1:0:1:0")
    del hidden["/sys/class/scsi_device/1:0:1:0/device/block/sda/size"]
    for name, shown, told in (
        ("disk", drive("N/A\n"), False),
        ("disk and controller", {**drive("N/A\n"), **drive("", "1:2:0:0", type="12\n")}, False),
        ("disk and volume", {**drive("N/A\n"), **drive("RAID-5\n", "1:1:0:0")}, True),
        ("volume of an old kernel", drive("RAID 1(1+0)\n"), True),
        ("volume by its name", drive("", model="LOGICAL VOLUME"), True),
        ("hidden disk", {**drive("N/A\n"), **hidden}, True),
        ("unknown", {**drive("N/A\n"), **drive("N/A\n", "1:0:1:0", type="")}, True),
        ("nothing", {}, True),
    ):
        files = smartpqi(vendor) | shown
        found = polled(maker, files, {command: "nothing of use"})
        assert [each.host for each in found.problems] == (["host1"] if told else []), name


def test_a_plain_adapter_beside_a_controller_need_not_be_listed() -> None:
    """One controller is expected if one host hides disks."""
    other = f"{DRIVERS}/hpsa/0000:5d:00.0/host2"
    files = {HPSA: None, other: None, **HOSTS, **drive("N/A\n", "2:0:0:0")}
    found = polled(HP, files, ANSWERS)
    assert ([each.name for each in found.controllers], found.problems) == (["hp slot 0"], ())


def test_without_the_makers_programs_the_free_one_is_queried() -> None:
    """By the controller's own node, not a volume's."""
    files = {
        HPSA: None,
        "/sys/class/scsi_device/1:0:0:0/device/type": "0\n",
        "/sys/class/scsi_device/1:0:0:0/device/scsi_generic/sg1": None,
        "/sys/class/scsi_device/1:3:0:0/device/type": "12\n",
        "/sys/class/scsi_device/1:3:0:0/device/scsi_generic/sg0": None,
    }
    text = VOLUME_STATUS.format(
        state="OK", more="", disk="OK", enclosure="OK", configured="No", disabled=""
    )
    found = polled(HP, files, {"cciss_vol_status -V /dev/sg0": text})
    (card,) = found.controllers
    assert (card.name, card.host, card.program) == ("hp host1", "host1", "cciss_vol_status")
    assert len(card.disks) == 2


class FakeMachine(Machine):
    """A live machine with one controller of HP's, and programs with answers in turn."""

    def __init__(self, answers: dict[str, list[str]]) -> None:
        """The last answer of a command is repeated."""
        super().__init__("/", probe=self.answer)
        self.there = Memory({HPSA: None, **HOSTS})
        self.answers = answers
        self.signal: int | None = None
        """How the programs ended."""

    def names(self, path: str) -> list[str]:
        """Return the names of the machine."""
        return self.there.names(path)

    def another(self, seen: Callable[[str, bytes], None] | None = None) -> Machine:
        """Return itself."""
        return self

    def answer(self, verb: str, arguments: Sequence[str], _deadline_seconds: float) -> str:
        """Answer like the probe."""
        allowed.match(tuple(arguments))
        told = self.answers.get(" ".join(arguments), [])
        if verb != "run" or not told:
            raise ProgramNotFoundError(f"'{arguments[0]}': install it")
        output = json.loads(printed(told.pop(0) if len(told) > 1 else told[0]))
        return json.dumps({**output, "signal": self.signal})


BUSY = "Another instance of ssacli is running! Stop it first.\n"


@pytest.mark.parametrize(("busy", "controllers"), [(2, 1), (3, 0)])
def test_another_program_that_runs_is_waited_for(busy: int, controllers: int) -> None:
    """It is retried for a while; then that is the problem."""
    answers = {**ANSWERS, "ssacli ctrl slot=0 show config": SHORT}
    machine = FakeMachine({name: [text] for name, text in answers.items()})
    machine.answers["ssacli ctrl all show status"][:0] = [BUSY] * busy
    poller = ControllerPoller((hpsa.backend((0.0, 0.0)),), lambda: 0.0)
    poller.read(machine)
    assert poller.settled(20.0)
    found = poller.read(machine)
    assert len(found.controllers) == controllers
    assert bool(found.problems) == (not controllers)
    assert all("expected no other instance to run" in each.reason for each in found.problems)


def test_a_program_that_crashed_half_way_shows_no_fewer_disks() -> None:
    """Nothing in its text shows that it is truncated."""
    machine = FakeMachine({name: [text] for name, text in ANSWERS.items()})
    cut = DETAIL[: DETAIL.index("      physicaldrive 1I:1:3")]
    machine.answers["ssacli ctrl slot=0 show config detail"] = [cut]
    machine.signal = 11
    poller = ControllerPoller((hpsa.backend(()),), lambda: 0.0)
    poller.read(machine)
    assert poller.settled(20.0)
    found = poller.read(machine)
    assert found.controllers == ()
    assert "terminated by signal 11" in found.problems[0].reason


def test_no_program_at_all_is_a_problem() -> None:
    """The reason has the program to install."""
    machine = FakeMachine({})
    poller = ControllerPoller((hpsa.backend(()),), lambda: 0.0)
    poller.read(machine)
    assert poller.settled(20.0)
    (problem,) = poller.read(machine).problems
    assert "'ssacli': install it" in problem.reason
