"""'storcli /cN/dall show' of both versions, and what storcli says instead of a table."""

from __future__ import annotations

import pytest
from support.explained import read

from iowarden.collectors.model import ParseError
from iowarden.collectors.parsed_text import Tool
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.raid.megaraid.storcli_volumes import parse_topology
from iowarden.collectors.tool_output.parse import parse

HEAD = """\
CLI Version = 008.0004.0000.0022 Apr 28, 2023
Operating system = Linux6.8.8-2-pve
Controller = 0
Status = {status}
Description = {description}


"""
SHOWN = HEAD.format(status="Success", description="Show Drive Group succeeded.")
RULE = "-" * 79
SECOND = f"""\
{SHOWN}TOPOLOGY :
========

{RULE}
DG Span Row EID:Slot PID Type   State Status BT       Size PDC  Secured FSpace
{RULE}
 0 -    -   -        -   RAID1  -     -      N  893.75 GiB dflt N       N
 0 0    -   -        -   RAID1  -     -      N  893.75 GiB dflt N       N
 0 0    0   268:0    257 DRIVE  Conf  Online N  893.75 GiB dflt N       -
 0 0    1   268:1    258 DRIVE  Conf  {{status:6}} N  893.75 GiB dflt N       -
 - -    -   268:6    263 DRIVE  GHS   Good   -  893.75 GiB -    -       -
{RULE}
"""
FIRST = f"""\
{SHOWN}TOPOLOGY :
========

{RULE}
DG Arr Row EID:Slot DID Type   State BT       Size PDC  PI SED DS3  FSpace TR
{RULE}
 0 -   -   -        -   RAID1  {{group:5}} N  278.464 GB dsbl N  N   dflt N      N
 0 0   -   -        -   RAID1  {{group:5}} N  278.464 GB dsbl N  N   dflt N      N
 0 0   0   24:0     16  DRIVE  Onln  N  278.464 GB dsbl N  N   dflt -      N
 0 0   1   {{place}} DRIVE  {{state:5}} N  278.464 GB dsbl N  N   dflt -      N
 - -   -   24:2     18  DRIVE  GHS   -  278.464 GB -    -  -   -    -      N
{RULE}
"""


@pytest.mark.parametrize(
    ("status", "health"),
    [
        ("Online", ComponentHealth.OK),
        ("Failed", ComponentHealth.FAILED),
        ("Rebuild", ComponentHealth.REBUILDING),
        ("Strange", ComponentHealth.ATTENTION),
    ],
)
def test_a_member_in_a_topology_of_version_2(status: str, health: ComponentHealth) -> None:
    """Its state is in two columns; the drive group has none of its own."""
    (group,), disks = parse_topology(SECOND.format(status=status))
    assert (group.level, group.slots) == ("RAID1", ("enclosure 268 slot 0", "enclosure 268 slot 1"))
    assert [(disk.slot, disk.array) for disk in disks] == [
        ("enclosure 268 slot 0", "drive group 0"),
        ("enclosure 268 slot 1", "drive group 0"),
        ("enclosure 268 slot 6", ""),
    ]
    assert [disk.state.health for disk in disks] == [
        ComponentHealth.OK,
        health,
        ComponentHealth.OK,
    ]


@pytest.mark.parametrize(
    ("group", "place", "state", "slot", "health"),
    [
        ("Optl", "24:1     17 ", "Onln", "enclosure 24 slot 1", ComponentHealth.OK),
        ("Dgrd", "24:1     17 ", "Offln", "enclosure 24 slot 1", ComponentHealth.FAILED),
        ("Dgrd", "-        -  ", "Msng", "drive group 0 span 0 row 1", ComponentHealth.FAILED),
    ],
)
def test_a_member_in_a_topology_of_version_1(
    group: str, place: str, state: str, slot: str, health: ComponentHealth
) -> None:
    """A missing one has no slot; the drive group has a state."""
    text = FIRST.format(group=group, place=place, state=state)
    (array,), disks = parse_topology(text)
    assert (array.state.health is ComponentHealth.OK) == (group == "Optl")
    assert {disk.slot: disk.state.health for disk in disks}[slot] is health


def test_a_healthy_topology_is_nothing_wrong_and_a_failed_member_is() -> None:
    """As 'iowarden explain' shows it."""
    assert read(SECOND.format(status="Online"), "storcli").status == 0
    failed = read(SECOND.format(status="Failed"), "storcli")
    assert [alert.alert for alert in failed.alerts] == ["ControllerDiskFailed"]


@pytest.mark.parametrize(
    "description", ["No drive found!", "No VD's have been configured.", "Un-supported command"]
)
def test_an_answer_without_a_table_has_one_reason(description: str) -> None:
    """One, and not what each parser would have expected."""
    text = HEAD.format(status="Failure", description=description)
    assert len(parse(text, Tool.STORCLI).unparsed) == 1
    with pytest.raises(ParseError):
        parse_topology(text)
