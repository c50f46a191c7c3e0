"""Lists of the disks behind RAID controllers: real outputs and invalid ones."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recordings import corpus

from iowarden.collectors.model import ParseError
from iowarden.collectors.program import parse_output
from iowarden.collectors.smart import members
from iowarden.collectors.smart.members import ControllerDisk

if TYPE_CHECKING:
    from collections.abc import Callable

ARECA = "areca/glensc+nagios-plugin-check_raid"
THREEWARE = "3ware/glensc+nagios-plugin-check_raid"


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        (f"{ARECA}/cli64.disk.info-1", [f"areca,{slot}/2" for slot in range(1, 25)]),
        (f"{ARECA}/cli64.disk.info-2", [f"areca,{channel}" for channel in range(1, 17)]),
        (f"{ARECA}/ticket40/areca-disk-info.txt", [f"areca,{channel}" for channel in range(1, 10)]),
        (f"{ARECA}/pr72/areca_cli64_disk_info.out", [f"areca,{slot}/2" for slot in range(1, 14)]),
        ("areca/check_raid-pr223/disk-info.txt", ["areca,1/1", "areca,2/1"]),
    ],
)
def test_areca_lists(name: str, kinds: list[str]) -> None:
    """Captures of users: every bay with a disk, by channel or by slot and enclosure."""
    listed = members.parse_areca_disks(corpus(name).read_text())
    assert [member.kind for member in listed] == kinds


def test_areca_of_2006() -> None:
    """The oldest layout has the serial number next to the model, and only a channel before it."""
    text = (
        "\x1b[2J\x1b[1;1HCh ModelName        Serial#          FirmRev     Capacity  State\n"
        "===============================================================\n"
        " 1 ST3250823NS      ND0BXXXX         3.03        250.1GB   RaidSet Member(1)\n"
        " 2 N.A.                                            0.0GB   N.A.\n"
        "GuiErrMsg<0x00>: Success.\n"
    )
    assert members.parse_areca_disks(text) == (ControllerDisk("areca,1", "channel 1"),)


def test_areca_external_bays_are_counted_within_their_enclosure() -> None:
    """'EXTP 01' after 'SLOT 02' is the third: two disks would share a number otherwise."""
    text = (
        "  # Enc# Slot#   ModelName                        Capacity  Usage\n"
        "  1  02  SLOT 01 ST31500341AS                     1500.3GB  Raid Set # 000\n"
        "  2  02  SLOT 02 N.A.                                0.0GB  N.A.\n"
        "  3  02  EXTP 01 ST31500341AS                     1500.3GB  Failed\n"
        "GuiErrMsg<0x00>: Success.\n"
    )
    listed = members.parse_areca_disks(text)
    assert [member.kind for member in listed] == ["areca,1/2", "areca,3/2"]
    assert listed[1].slot == "enclosure 2 slot 3"


@pytest.mark.parametrize(
    ("name", "ports"),
    [
        ("1/info.c.drivestatus", range(16)),
        ("black/drivestatus", range(2)),
        ("bohr/info.c0.drivestatus", range(6)),
        ("bootc/drivestatus", range(8, 26)),
        ("ichy/info.c0.drivestatus", range(6)),
        ("rover/drivestatus", range(6)),
    ],
)
def test_3ware_lists(name: str, ports: range) -> None:
    """Captures of users: every port with a SATA disk."""
    listed = members.parse_threeware_disks(corpus(f"{THREEWARE}/{name}").read_text())
    assert [member.kind for member in listed] == [f"3ware,{port}" for port in ports]


def test_3ware_sas_disks() -> None:
    """Four SAS disks of a 9750: listed, and without an access method."""
    text = corpus(f"{THREEWARE}/2/info.c0.drivestatus").read_text()
    assert [(m.kind, m.slot) for m in members.parse_threeware_disks(text)] == [
        ("", f"port {port}") for port in range(4)
    ]


def test_3ware_controllers() -> None:
    """Every capture is of a host with one controller."""
    for name in ("1", "2", "black", "bohr", "bootc", "ichy", "rover"):
        text = corpus(f"{THREEWARE}/{name}/info").read_text()
        assert members.parse_threeware_controllers(text) == ("c0",)


def test_the_end_of_a_smart_array() -> None:
    """smartctl's output for the number after the last disk."""
    text = corpus("hp/glensc+nagios-plugin-check_raid/smartctl.cciss.8").read_text()
    assert members.parse_cciss(text) == "end"


PARSERS = (
    parse_output,
    members.parse_scan,
    members.parse_areca_disks,
    members.parse_threeware_controllers,
    members.parse_threeware_disks,
    members.parse_cciss,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "status stdout stderr devices smartctl name type device_type scsi_value".split()
            ),
            inner,
            max_size=4,
        )
    ),
)
ROWS = st.lists(
    st.sampled_from(
        [
            "  # Enc# Slot#   ModelName     Capacity  Usage",
            "  # Ch# ModelName",
            "  9  02  SLOT 01 ST31500341AS",
            "  1",
            "  1  1",
            "GuiErrMsg<0x00>: Success.",
            "Port   Status           Unit   Size",
            "p0     OK               u0",
            "p",
            "p1",
            "Ctl   Model",
            "c0    9650SE",
        ]
    ),
    max_size=8,
).map("\n".join)


@pytest.mark.parametrize("parse", PARSERS)
@given(text=st.text(max_size=200) | JSON.map(json.dumps) | ROWS)
def test_nonsense_is_refused_as_such(parse: Callable[[str], object], text: str) -> None:
    """For any output a parser returns or reports the expected text."""
    with contextlib.suppress(ParseError):
        parse(text)


def test_deep_json_is_refused() -> None:
    """100,000 brackets are no crash."""
    for parse in (parse_output, members.parse_scan, members.parse_cciss):
        with pytest.raises(ParseError):
            parse("[" * 100_000)
