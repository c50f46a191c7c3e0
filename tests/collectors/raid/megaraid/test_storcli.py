"""State from storcli, in JSON and text, with all possible faults."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.storcli_texts import RECORDS, TEXT

from iowarden.collectors.model import ParseError
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.raid.megaraid import (
    storcli,
    storcli_disks,
    storcli_events,
    storcli_volumes,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.collectors.raid.controller import PhysicalDisk

TB = 2**40
GB = 2**30


def answer(data: Any, *, status: str = "Success", number: int = 0, **more: Any) -> str:  # noqa: ANN401 - JSON
    """Return an answer in the format of '... J'."""
    about = {"Controller": number, "Status": status, "Description": "None", **more}
    return json.dumps({"Controllers": [{"Command Status": about, "Response Data": data}]}, indent=1)


def drive(place: str, number: int, state: str, group: int | str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """A row of 'PD LIST'."""
    row = {"EID:Slt": place, "DID": number, "State": state, "DG": group, "Size": "3.637 TB"}
    return {**row, "Intf": "SAS", "Med": "HDD", "Model": "ACME-4000        ", "Sp": "U", **more}


def group(number: int, state: str, level: str = "RAID6", task: str = "N") -> dict[str, Any]:
    """The row of a drive group in 'TOPOLOGY'."""
    row = {"DG": number, "Arr": "-", "Row": "-", "EID:Slot": "-", "DID": "-", "Type": level}
    return {**row, "State": state, "BT": task, "Size": "7.274 TB"}


def volume(place: str, state: str = "Optl", **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """A row of 'VD LIST'."""
    row = {"DG/VD": place, "TYPE": "RAID6", "State": state, "Access": "RW", "Consist": "Yes"}
    return {**row, "Cache": "RWBD", "Size": "7.274 TB", "Name": "data", **more}


def shown(**more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return '/c0 show all' of a card with four disks, one array and a capacitor."""
    data = {
        "Basics": {
            "Controller": 0,
            "Model": "ACME 9000",
            "Serial Number": "SV1",
            "Current Controller Date/Time": "06/01/2026, 08:00:10",
            "Current System Date/time": "06/01/2026, 10:00:05",
            "PCI Address": "00:3b:00:00",
        },
        "Version": {"Firmware Package Build": "24.21.0-0076", "Driver Name": "megaraid_sas"},
        "Status": {
            "Controller Status": "Optimal",
            "Memory Correctable Errors": 0,
            "Memory Uncorrectable Errors": 0,
            "Any Offline VD Cache Preserved": "No",
            "BBU Status": 0,
        },
        "Supported Adapter Operations": {"BBU": "Yes"},
        "HwCfg": {
            "BBU": "Present",
            "On Board Memory Size": "2048MB",
            "ROC temperature(Degree Celsius)": 52,
        },
        "Drive Groups": 1,
        "TOPOLOGY": [group(0, "Optl"), {**group(0, "Optl"), "Arr": 0}],
        "Virtual Drives": 1,
        "VD LIST": [volume("0/0")],
        "Physical Drives": 4,
        "PD LIST": [drive(f"252:{n}", n + 8, "Onln", 0) for n in range(4)],
        "Enclosure LIST": [{"EID": 252, "State": "OK", "Slots": 8}],
        "Cachevault_Info": [{"Model": "CVPM02", "State": "Optimal", "Temp": "28C", "Mode": "-"}],
    }
    return data | more


def told(data: dict[str, Any]) -> storcli.ControllerReport:
    """Return the parsed '/c0 show all J' of a card."""
    return storcli.parse_controllers(answer(data))[0]


def test_a_healthy_card_is_read_with_all_its_parts() -> None:
    """Model, firmware, array, disks, capacitor, temperature; its address, its clock."""
    found = told(shown())
    card = found.controller
    assert (card.name, card.vendor, card.model, card.serial, card.firmware) == (
        "megaraid c0",
        "megaraid",
        "ACME 9000",
        "SV1",
        "24.21.0-0076",
    )
    assert card.state
    assert (card.state.health, card.memory_bytes, card.read_errors) == (
        ComponentHealth.OK,
        2 * GB,
        (),
    )
    assert [(a.name, a.state.health, a.parent, a.size_bytes) for a in card.arrays] == [
        ("drive group 0", ComponentHealth.OK, "", round(7.274 * TB)),
        ("virtual drive 0", ComponentHealth.OK, "drive group 0", round(7.274 * TB)),
    ]
    slots = tuple(f"enclosure 252 slot {n}" for n in range(4))
    assert [a.slots for a in card.arrays] == [slots, slots]
    assert [(d.slot, d.kind, d.array, d.usage) for d in card.disks] == [
        (f"enclosure 252 slot {n}", f"megaraid,{n + 8}", "drive group 0", "member")
        for n in range(4)
    ]
    assert {(d.state.health, d.model) for d in card.disks} == {(ComponentHealth.OK, "ACME-4000")}
    (battery,) = card.batteries
    assert (battery.name, battery.ready, battery.temperature_celsius) == ("CVPM02", True, 28.0)
    assert [(s.name, s.temperature_celsius, s.state and s.state.health) for s in card.sensors] == [
        ("roc temperature", 52.0, None),
        ("enclosure 252", None, ComponentHealth.OK),
    ]
    assert (found.address, found.clock_seconds) == ("0000:3b:00.0", 1_780_300_810.0)
    assert (found.running, found.bare) == (False, False)


def test_text_is_read_like_json() -> None:
    """An old version; a disk in no enclosure, a missing one, an empty name."""
    found = storcli.parse_controllers(TEXT)[0]
    card = found.controller
    assert (card.model, card.firmware, card.memory_bytes) == ("ACME 9000", "24.21.0-0076", 2 * GB)
    assert [(a.name, a.state.health, a.slots, a.label, a.address) for a in card.arrays] == [
        ("drive group 0", ComponentHealth.DEGRADED, ("enclosure 252 slot 0", "slot 1"), "", ""),
        (
            "virtual drive 1",
            ComponentHealth.DEGRADED,
            ("enclosure 252 slot 0", "slot 1"),
            "",
            "2:1:0",
        ),
    ]
    assert [(d.slot, d.state.health, d.model, d.kind) for d in card.disks] == [
        ("enclosure 252 slot 0", ComponentHealth.OK, "ACME 4000 LX", "megaraid,8"),
        ("slot 1", ComponentHealth.REBUILDING, "ACME 4000", "megaraid,9"),
        ("drive group 0 span 0 row 2", ComponentHealth.FAILED, "", ""),
    ]
    assert card.arrays[1].policy
    assert (card.arrays[1].policy.write_back, card.arrays[1].policy.read_cache) == (False, False)
    assert [(b.name, b.ready, b.temperature_celsius) for b in card.batteries] == [
        ("iBBU-09", True, 37.0)
    ]
    assert [s.temperature_celsius for s in card.sensors] == [52.0]
    assert found.bare
    assert card.read_errors == ()


@pytest.mark.parametrize(
    ("word", "health"),
    [
        ("Onln", ComponentHealth.OK),
        ("GHS", ComponentHealth.OK),
        ("JBOD", ComponentHealth.OK),
        ("UGood", ComponentHealth.OK),
        ("Cpybck", ComponentHealth.BUSY),
        ("Rbld", ComponentHealth.REBUILDING),
        ("Offln", ComponentHealth.FAILED),
        ("UBad", ComponentHealth.FAILED),
        ("UGUnsp", ComponentHealth.ATTENTION),
        ("CFShld", ComponentHealth.ATTENTION),
        ("-", ComponentHealth.ATTENTION),
        ("", ComponentHealth.ATTENTION),
    ],
)
def test_the_state_of_a_disk_by_its_word(word: str, health: ComponentHealth) -> None:
    """An unknown state is not OK."""
    disks, _ = storcli_disks.parse_disks(
        answer({"Drive Information": [drive("8:3", 1, word, "-")]})
    )
    assert [(d.slot, d.state.health) for d in disks] == [("enclosure 8 slot 3", health)]


@pytest.mark.parametrize(
    ("state", "status", "health"),
    [
        ("Conf", "Online", ComponentHealth.OK),
        ("UConf", "Good", ComponentHealth.OK),
        ("GHS", "Good", ComponentHealth.OK),
        ("Conf", "Rebuild", ComponentHealth.REBUILDING),
        ("Conf", "Failed", ComponentHealth.FAILED),
        ("JBOD", "Missing", ComponentHealth.FAILED),
        ("Conf", "Replace", ComponentHealth.FAILING),
        ("ConfShld", "Online", ComponentHealth.ATTENTION),
        ("Conf", "Various", ComponentHealth.ATTENTION),
        ("Conf", "", ComponentHealth.ATTENTION),
    ],
)
def test_the_second_generation_reports_health_apart(
    state: str, status: str, health: ComponentHealth
) -> None:
    """State is the configuration of a disk, Status its health; both must be known OK states."""
    row = drive("306:4", 0, state, 0, Status=status, PID=293)
    del row["DID"]
    detail = {
        "Serial Number": "WP1 ",
        "Temperature(C)": 33,
        "Firmware Revision Level": "E001",
        "LU/NS Information": [
            {"LU/NS Properties": {"Media Error Count": 2, "Other Error Count": 0}},
            {"LU/NS Properties": {"Media Error Count": 3, "Other Error Count": 1}},
        ],
    }
    listed = {"Drives List": [{"Drive Information": row, "Drive Detailed Information": detail}]}
    ((disk,), unread) = storcli_disks.parse_disks(answer(listed, number=0))
    assert (disk.state.health, disk.state.word, unread) == (health, f"{state}, {status}", ())
    assert (disk.slot, disk.kind, disk.serial) == ("enclosure 306 slot 4", "", "WP1")
    assert (disk.firmware, disk.temperature_celsius) == ("E001", 33.0)
    assert disk.errors_total == {"media error": 5, "other error": 1}


def detailed(place: str, **counts: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return one disk in '/eall/sall show all'."""
    enclosure, slot = place.split(":")
    name = f"Drive /c0/e{enclosure}/s{slot}"
    state = {
        "Media Error Count": 0,
        "Other Error Count": 0,
        "Predictive Failure Count": 0,
        "S.M.A.R.T alert flagged by drive": "No",
        "Drive Temperature": " 31C (87.80 F)",
    }
    attributes = {"SN": "  Z1  ", "Firmware Revision": "SN03    ", "WWN": "5000C50000000001"}
    return {
        name: [drive(place, 8, "Onln", 0)],
        f"{name} - Detailed Information": {
            f"{name} State": state | counts,
            f"{name} Device attributes": attributes,
            "Inquiry Data": "00 00",
        },
    }


def test_a_disk_reports_its_counts_its_serial_number_and_how_warm_it_is() -> None:
    """Each with its own name; a missing value is not 0."""
    counts = {
        "Media Error Count": 7,
        "Other Error Count": 16_548,
        "Predictive Failure Count": "N/A",
    }
    ((disk,), unread) = storcli_disks.parse_disks(answer(detailed("252:0", **counts)))
    assert disk.errors_total == {"media error": 7, "other error": 16_548}
    assert (disk.serial, disk.firmware, disk.temperature_celsius) == ("Z1", "SN03", 31.0)
    assert (disk.state.health, unread) == (ComponentHealth.OK, ())


@pytest.mark.parametrize(
    ("key", "value"),
    [("S.M.A.R.T alert flagged by drive", "Yes"), ("Predictive Failure Count", 3)],
)
def test_a_disk_that_reports_it_is_going_to_fail_is_failing(key: str, value: str | int) -> None:
    """Although its state is still 'Onln': the list's state does not hide it."""
    disks, _ = storcli_disks.parse_disks(answer(detailed("252:0", **{key: value})))
    assert disks[0].state.health is ComponentHealth.FAILING
    card = storcli_disks.with_details(told(shown()).controller, disks)
    assert [d.state.health for d in card.disks] == [
        ComponentHealth.FAILING,
        *[ComponentHealth.OK] * 3,
    ]
    assert card.disks[0].array == "drive group 0"


def test_one_dying_disk_makes_the_answer_fail_and_hides_no_other() -> None:
    """The whole answer is 'Failure'; the other disk is read, and the error names the drive."""
    errors = [{"Drive": "/c0/e252/s5", "Status": "Failure", "ErrCd": 46, "ErrMsg": "-"}]
    status = {"status": "Failure", "Detailed Status": errors}
    disks, unread = storcli_disks.parse_disks(answer(detailed("252:0"), **status))
    assert [disk.slot for disk in disks] == ["enclosure 252 slot 0"]
    assert unread == ("/c0/e252/s5 error 46: -",)
    card = storcli.parse_controllers(answer(shown(), **status))[0].controller
    assert (len(card.disks), card.read_errors) == (4, unread)


def test_a_feature_that_the_card_has_not_is_no_problem() -> None:
    """'Failure' and 'command invalid' on a healthy card."""
    errors = [{"Ctrl": 0, "Status": "Failed", "ErrCd": 2, "ErrMsg": "command invalid"}]
    text = answer(shown(), status="Failure", **{"Detailed Status": errors})
    card = storcli.parse_controllers(text)[0].controller
    assert card.state
    assert (card.state.health, card.read_errors) == (ComponentHealth.OK, ())


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"Memory Uncorrectable Errors": 2}, "memory uncorrectable errors: 2"),
        ({"Any Offline VD Cache Preserved": "Yes"}, "any offline vd cache preserved: Yes"),
        ({"Controller Status": "Needs Attention"}, "Needs Attention"),
        ({"Controller Status": "Fabulous"}, "Fabulous"),
    ],
)
def test_a_card_in_trouble_of_its_own_reports_which(change: dict[str, Any], word: str) -> None:
    """Its memory, preserved data in its cache, an unknown state."""
    state = told(shown(Status=shown()["Status"] | change)).controller.state
    assert state
    assert state.health is ComponentHealth.ATTENTION
    assert word in state.word


def test_an_error_that_is_not_known_to_be_harmless_needs_attention() -> None:
    """An incomplete foreign configuration."""
    errors = [
        {"Ctrl": 0, "Status": "Failed", "ErrCd": 59, "ErrMsg": "Incomplete foreign configuration"}
    ]
    text = answer(shown(), status="Failure", **{"Detailed Status": errors})
    state = storcli.parse_controllers(text)[0].controller.state
    assert state
    assert (state.health, state.word) == (
        ComponentHealth.ATTENTION,
        "Optimal; error 59: Incomplete foreign configuration",
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"Cachevault_Info": [{"Model": "CVPM02", "State": "Failed"}]},
            (ComponentHealth.FAILED, False),
        ),
        (
            {"Cachevault_Info": [{"Model": "CVPM02", "State": "Odd"}]},
            (ComponentHealth.ATTENTION, False),
        ),
        (
            {"Cachevault_Info": [{"Model": "CVPM02", "State": "Learning"}]},
            (ComponentHealth.BUSY, None),
        ),
        (
            {"Cachevault_Info": [{"Model": "CVPM02", "State": "Charging"}]},
            (ComponentHealth.BUSY, False),
        ),
        ({"Cachevault_Info": [], "HwCfg": {"BBU": "Absent"}}, (ComponentHealth.ABSENT, None)),
        ({"Cachevault_Info": []}, (ComponentHealth.ATTENTION, None)),
        (
            {
                "Cachevault_Info": [],
                "Energy Pack Info": [
                    {"Type": "Supercap", "SubType": "FBU345", "Status": "Critical"}
                ],
            },
            (ComponentHealth.FAILED, False),
        ),
    ],
)
def test_a_battery_is_well_only_when_it_reports_that(
    change: dict[str, Any], expected: tuple[ComponentHealth, bool | None]
) -> None:
    """A missing one is no fault; a present one without further data is not OK."""
    (battery,) = told(shown(**change)).controller.batteries
    assert (battery.state.health, battery.ready) == expected


@pytest.mark.parametrize(
    ("cache", "expected"),
    [
        ("RWBD", (True, True)),
        ("NRWTD", (False, False)),
        ("NRAWBC", (True, False)),
        ("NR,WB", (True, False)),
        ("R,AWB", (True, True)),
        ("Weird", (None, None)),
    ],
)
def test_how_an_array_caches(cache: str, expected: tuple[bool | None, bool | None]) -> None:
    """An unknown value is not 'no'."""
    policy = told(shown(**{"VD LIST": [volume("0/0", Cache=cache)]})).controller.arrays[1].policy
    assert policy
    assert (policy.write_back, policy.read_cache, policy.word) == (*expected, cache)


def test_an_array_that_left_its_write_cache_by_itself_is_seen() -> None:
    """It is configured as write-back, and is in write-through."""
    properties = {
        "Write Cache(initial setting)": "WriteBack",
        "SCSI NAA Id": "6a0042bb0000000000000000000000a1",
        "OS Drive Name": "/dev/sdb",
    }
    data = {"/c0/v0": [volume("0/0", Cache="RWTD")], "VD0 Properties": properties}
    volumes = storcli_volumes.parse_volumes(answer(data))
    card = storcli_volumes.with_volumes(told(shown()).controller, volumes)
    array = card.arrays[1]
    assert array.policy
    assert (array.policy.write_back, array.policy.default_write_back) == (False, True)
    assert (array.serial, array.address) == ("6a0042bb0000000000000000000000a1", "2:0:0")
    second = {
        "Virtual Drives": [
            {
                "VD Info": volume("0/1", CurrentCache="NR,WT", DefaultCache="NR,WB"),
                "VD Properties": {"Serial Number": "00a1", "Bad Block Exists": "Yes"},
            }
        ]
    }
    (array,) = storcli_volumes.parse_volumes(answer(second)).values()
    assert array.policy
    assert (array.policy.write_back, array.policy.default_write_back) == (False, True)
    assert (array.serial, array.state.health) == ("00a1", ComponentHealth.ATTENTION)


@pytest.mark.parametrize(
    ("listed", "told_later", "expected"),
    [
        ("enbl", "", True),
        ("dsbl", "", False),
        ("dflt", "", None),
        ("dflt", "Enabled", True),
        ("enbl", "Disabled", False),
        ("enbl", "Disk's Default", True),
    ],
)
def test_the_caches_of_the_disks_themselves(
    listed: str, told_later: str, expected: bool | None
) -> None:
    """The topology has them for a drive group, the second generation reports them for a volume."""
    rows = [{**group(0, "Optl"), "PDC": listed}, {**group(0, "Optl"), "Arr": 0, "PDC": listed}]
    card = told(shown(TOPOLOGY=rows, **{"VD LIST": [volume("0/0")]})).controller
    for key in ("Disk Cache Policy", "Drive Write Cache Policy"):
        data = {"/c0/v0": [volume("0/0")], "VD0 Properties": {key: told_later}}
        found = storcli_volumes.with_volumes(card, storcli_volumes.parse_volumes(answer(data)))
        assert found.arrays[1].disk_cache is expected


@pytest.mark.parametrize(
    ("cache", "forced"),
    [("RWBD", False), ("RAWBD", True), ("RaWBD", False), ("NRFWBC", True), ("Weird", None)],
)
def test_a_cache_that_is_forced_on(cache: str, forced: bool | None) -> None:
    """'AWB': always, with or without a battery."""
    policy = told(shown(**{"VD LIST": [volume("0/0", Cache=cache)]})).controller.arrays[1].policy
    assert policy
    assert policy.forced is forced


def test_volumes_behind_the_128th_are_on_the_next_channel() -> None:
    """As the driver has them."""
    found = told(shown(**{"VD LIST": [volume("0/0"), volume("0/127"), volume("1/234")]}))
    assert [a.address for a in found.controller.arrays[1:]] == ["2:0:0", "2:127:0", "3:106:0"]


@pytest.mark.parametrize(
    ("state", "access", "health"),
    [
        ("Optl", "RW", ComponentHealth.OK),
        ("Optl", "B", ComponentHealth.ATTENTION),
        ("Pdgd", "RW", ComponentHealth.DEGRADED),
        ("Dgrd", "RW", ComponentHealth.DEGRADED),
        ("OfLn", "RW", ComponentHealth.FAILED),
        ("Rec", "RW", ComponentHealth.ATTENTION),
    ],
)
def test_the_state_of_an_array_by_its_words(
    state: str, access: str, health: ComponentHealth
) -> None:
    """Blocked is not OK, whatever its state."""
    found = told(shown(**{"VD LIST": [volume("0/0", state, Access=access)]}))
    assert found.controller.arrays[1].state.health is health


def test_disks_of_another_configuration_need_attention() -> None:
    """The disk, the controller and the group they would make."""
    rows = [drive("252:0", 8, "Onln", 0), drive("252:1", 9, "UGood", "F")]
    card = told(shown(**{"PD LIST": rows, "Physical Drives": 2})).controller
    assert [(d.state.health, d.usage, d.array) for d in card.disks] == [
        (ComponentHealth.OK, "member", "drive group 0"),
        (ComponentHealth.ATTENTION, "foreign", ""),
    ]
    assert card.state
    assert card.state.health is ComponentHealth.ATTENTION
    listed = {
        "FOREIGN CONFIGURATION": [
            {"DG": 0, "EID:Slot": "-", "Type": "RAID1", "State": "Frgn", "Size": "0 KB", "NoVDs": 1}
        ],
        "Total foreign Drive Groups": 1,
    }
    (array,) = storcli_volumes.parse_foreign(answer(listed))
    assert (array.name, array.state.health, array.size_bytes) == (
        "foreign drive group 0",
        ComponentHealth.ATTENTION,
        None,
    )
    assert storcli_volumes.parse_foreign(answer({"Total foreign Drive Groups": 0})) == ()


def test_a_list_that_is_shorter_than_it_reports_is_reported() -> None:
    """The ones that are not listed are unknown."""
    card = told(shown(**{"Physical Drives": 6})).controller
    assert card.read_errors == ("expected 6 disks, got 4: the others are unknown",)
    card = told(shown(**{"Virtual Drives": 2})).controller
    assert card.read_errors == ("expected 2 virtual drives, got 1: the others are unknown",)


def test_how_far_a_rebuild_and_a_check_are() -> None:
    """Of the only disk and the only array with a running task."""
    rows = [
        {"Drive-ID": "/c0/e252/s0", "Progress%": "-", "Status": "Not in progress"},
        {"Drive-ID": "/c0/e252/s1", "Progress%": 42, "Status": "In progress"},
        {"EID:Slt": "252:2", "PID": 9, "Progress%": "7%", "Status": "In Progress"},
    ]
    found = storcli.parse_progress(answer(rows))
    assert [(p.slot, p.done_ratio) for p in found] == [
        ("enclosure 252 slot 1", 0.42),
        ("enclosure 252 slot 2", 0.07),
    ]
    checked = {
        "VD Operation Status": [
            {"VD": 0, "Operation": "CC", "Progress%": 3, "Status": "In progress"},
            {"VD": 1, "Operation": "CC", "Progress%": "-", "Status": "Not in progress"},
        ]
    }
    check = storcli.parse_progress(answer(checked))
    rebuilt = shown(
        TOPOLOGY=[group(0, "Dgrd", task="Y")],
        **{"PD LIST": [drive("252:1", 9, "Rbld", 0)], "Physical Drives": 1},
    )
    told_now = told(rebuilt)
    assert told_now.running
    card = storcli.with_progress(told_now.controller, (*found, *check))
    (disk,) = card.disks
    assert (disk.state.health, disk.state.done_ratio) == (ComponentHealth.REBUILDING, 0.42)
    assert (card.arrays[1].state.health, card.arrays[1].state.done_ratio) == (
        ComponentHealth.BUSY,
        0.03,
    )
    with pytest.raises(ParseError, match="Progress"):
        storcli.parse_progress(answer({}, status="Failure"))


def test_the_regular_read_of_all_disks() -> None:
    """It runs, or not; an unknown state needs attention."""
    for word, health in (
        ("Stopped", ComponentHealth.OK),
        ("Active", ComponentHealth.BUSY),
        ("Sad", ComponentHealth.ATTENTION),
    ):
        data = {
            "Controller Properties": [
                {"Ctrl_Prop": "PR Mode", "Value": "Auto"},
                {"Ctrl_Prop": "PR Current State", "Value": word},
            ]
        }
        sensor = storcli.parse_patrol_read(answer(data))
        assert sensor.state
        assert sensor.state.health is health
    rule = "-" * 40
    text = (
        "Controller = 0\nStatus = Success\nDescription = None\n\n\nController Properties :\n"
        f"=====================\n\n{rule}\nCtrl_Prop           Value\n{rule}\n"
        f"PR Current State    Active\n{rule}\n"
    )
    sensor = storcli.parse_patrol_read(text)
    assert sensor.state
    assert sensor.state.health is ComponentHealth.BUSY


def test_only_raid_controllers_are_listed() -> None:
    """Plain adapters have a table of their own; an empty list is reported."""
    data = {
        "Number of Controllers": 3,
        "System Overview": [{"Ctl": 0, "Model": "A"}, {"Ctl": 2, "Model": "B"}],
        "IT System Overview": [{"Ctl": 1, "Model": "HBA"}],
    }
    assert [(c.number, c.model) for c in storcli.parse_list(answer(data))] == [(0, "A"), (2, "B")]
    second = {"System Overview": [{"Ctrl": 0, "Product Name": "C", "SerialNumber": "S  "}]}
    assert storcli.parse_list(answer(second)) == (storcli.ListedController(0, "C", "S"),)
    status = {"Status": "Failure", "Description": "No Controller found"}
    none = {"Controllers": [{"Command Status": status}]}
    assert storcli.parse_list(json.dumps(none)) == ()
    with pytest.raises(ParseError, match="System Overview"):
        storcli.parse_list(answer({}, status="Failure"))


def test_several_controllers_in_one_answer_are_apart() -> None:
    """One answers, one fails completely: it is left out, and the other is read."""
    first = json.loads(answer(shown()))
    second = json.loads(answer(shown(**{"PD LIST": [], "Physical Drives": 0}), number=3))
    failed = {"Command Status": {"Controller": 1, "Status": "Failure", "Description": "Timeout"}}
    both = {"Controllers": [*first["Controllers"], failed, *second["Controllers"]]}
    found = storcli.parse_controllers(json.dumps(both))
    assert {n: (f.controller.name, len(f.controller.disks)) for n, f in found.items()} == {
        0: ("megaraid c0", 4),
        3: ("megaraid c3", 0),
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "errors",
        '{"Controllers": 5}',
        '{"Controllers": [5]}',
        '{"Controllers": [{"Command Status": {"Status": "Failure", "Description": "x"}}]}',
        '{"Controllers": [' + "[" * 200 + "]" * 200 + "]}",
        answer(shown())[:-40],
        "Controller = 0\nStatus = Failure\nDescription = Controller 0 not found\n",
    ],
)
def test_what_is_no_answer_is_no_healthy_card(text: str) -> None:
    """It is refused with a short reason."""
    with pytest.raises(ParseError, match="storcli") as caught:
        storcli.parse_controllers(text)
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("252:0     8 Onln   0 3.637 TB", "x252:0    8 Onln   0 3.637 TB"),
        ("0/1   RAID6 Dgrd  RW ", "x0/1  RAID6 Dgrd  RW "),
        (" :1       9 Rbld   0 3.637 TB SAS  HDD", " :1       9 Rbld"),
    ],
)
def test_a_row_that_does_not_fit_its_table_takes_no_other_away(before: str, after: str) -> None:
    """A truncated row, a stray letter: it is reported, and the drive group is degraded even so."""
    assert before in TEXT
    found = storcli.parse_controllers(TEXT.replace(before, after))[0].controller
    assert any("expected a row of" in reason for reason in found.read_errors)
    assert found.arrays[0].state.health is ComponentHealth.DEGRADED


def test_a_table_that_is_cut_off_is_reported() -> None:
    """The program died within the list of disks: the parsed ones are kept, the rest reported."""
    cut = TEXT[: TEXT.index(" :1       9 Rbld")]
    found = storcli.parse_controllers(cut)[0].controller
    assert any("below a table" in reason for reason in found.read_errors)
    assert "expected 2 disks, got 1: the others are unknown" in found.read_errors
    assert found.arrays[0].state.health is ComponentHealth.DEGRADED


def test_a_section_with_the_name_of_a_table_takes_nothing_away() -> None:
    """A line between two headings is lost: pairs are below the name of a table that was parsed."""
    doubled = TEXT + "\nPD LIST :\n=======\n\nSafe ID = ABC\n"
    assert storcli.parse_controllers(doubled) == storcli.parse_controllers(TEXT)


def test_what_a_controller_prints_reaches_nobody_unescaped() -> None:
    """Names and states may contain anything."""
    rows = [drive("252:0", 8, "On\u202eln", 0, Model="a\u202eb")]
    card = told(shown(**{"PD LIST": rows, "Physical Drives": 1})).controller
    assert (card.disks[0].model, card.disks[0].state.word) == ("a\\u202eb", "On\\u202eln")


READERS: dict[str, tuple[Callable[[str], object], str]] = {
    "list": (storcli.parse_list, answer({"System Overview": [{"Ctl": 0, "Model": "A"}]})),
    "controllers": (storcli.parse_controllers, answer(shown())),
    "controllers of text": (storcli.parse_controllers, TEXT),
    "disks": (storcli_disks.parse_disks, answer(detailed("252:0"))),
    "volumes": (storcli_volumes.parse_volumes, answer({"/c0/v0": [volume("0/0")]})),
    "foreign": (storcli_volumes.parse_foreign, answer({"Total foreign Drive Groups": 0})),
    "progress": (
        storcli.parse_progress,
        answer([{"Drive-ID": "/c0/e252/s1", "Progress%": 42, "Status": "In progress"}]),
    ),
    "events": (lambda text: storcli_events.parse_events(text, "c"), RECORDS),
}


@pytest.mark.parametrize("name", READERS)
def test_ends_of_lines_and_escape_sequences_change_nothing(name: str) -> None:
    """CR and LF, a screen that is cleared."""
    read, text = READERS[name]
    expected = read(text)
    for changed in (text.replace("\n", "\r\n"), "\x1b[2J\x1b[1;1H" + text):
        assert read(changed) == expected


@pytest.mark.parametrize("name", READERS)
def test_any_text_is_read_or_refused(name: str) -> None:
    """A text truncated anywhere, a word replaced anywhere, any text at all."""
    read, text = READERS[name]
    words = sorted({*re.findall(r"\S+", text), "", "\n", "9" * 400, "٣", "-1", "\x00", "[", "{}"})

    @given(st.integers(0, len(text)), st.integers(0, 40), st.sampled_from(words) | st.text())
    def check(at: int, length: int, word: str) -> None:
        for damaged in (text[:at] + word + text[at + length :], text[:at], word):
            try:
                read(damaged)
            except ParseError as error:
                assert len(str(error)) < 700  # noqa: PT017 - a text may also be read

    check()


def test_a_table_of_many_columns_of_any_text_is_refused() -> None:
    """Otherwise a row that does not fit would take very long to be refused."""
    rule = "-" * 60
    header = "EID:Slt " + " ".join(["Model"] * 12)
    body = f"{rule}\n{header}\n{rule}\n252:0 {'a ' * 250}!\n{rule}\n"
    with pytest.raises(ParseError, match="each once"):
        storcli.parse_controllers(f"Status = Success\nDescription = None\n\n{body}")


def disk_states(disks: tuple[PhysicalDisk, ...]) -> list[ComponentHealth]:
    """Return the reported states of disks."""
    return [disk.state.health for disk in disks]


def test_a_plain_adapter_has_no_words_for_its_disks() -> None:
    """They are exposed to the host: no fault, and they belong to no array."""
    data = {
        "Product Name": "ACME HBA",
        "Driver Name": "mpt3sas",
        "PCI Address": "00:65:00:00",
        "PD LIST": [drive(" :0", 0, "-", "-"), drive(" :1", 1, "UGood", 0)],
    }
    card = told(data).controller
    assert disk_states(card.disks) == [ComponentHealth.OK, ComponentHealth.OK]
    assert {(d.array, d.kind) for d in card.disks} == {("", "")}


@pytest.mark.parametrize(
    ("told_as", "address"),
    [
        ("00:3b:00:00", "0000:3b:00.0"),
        ("00:01:00:0", "0000:01:00.0"),
        ("10000:af:00:01", "10000:af:00.1"),
        ("0001:AF:1f:7", "0001:af:1f.7"),
        ("", ""),
        ("3b:00", ""),
    ],
)
def test_a_pci_address_is_that_of_sysfs(told_as: str, address: str) -> None:
    """Domain, bus, device and function, as both generations print them."""
    assert storcli.pci_address(told_as) == address


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("06/01/2026, 08:00:05", 1_780_300_805.0),
        ("06/01/2026 08:00:05", 1_780_300_805.0),
        ("2026/06/01  08:00:05", 1_780_300_805.0),
        ("13/32/2026, 08:00:05", None),
        ("NA", None),
    ],
)
def test_the_clock_in_each_of_its_shapes(text: str, seconds: float | None) -> None:
    """An invalid time is None."""
    assert storcli.clock_seconds(text) == seconds


BATTERY = """\
CLI Version = 007.1912.0000.0000 Nov 23, 2021
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
State       Optimal
--------------------
"""


def test_properties_of_a_battery_without_its_state_are_no_battery() -> None:
    """The table is cut above 'State': what is left says nothing about it."""
    assert storcli.parse_battery(BATTERY).name == "CVPM05"
    with pytest.raises(ParseError, match="expected 'State'"):
        storcli.parse_battery(BATTERY.replace("State       Optimal\n", ""))
