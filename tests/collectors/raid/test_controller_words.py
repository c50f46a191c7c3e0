"""States with the same meaning for all vendors: failed, busy, absent.

Each is printed where the vendor's program prints it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.model import ParseError
from iowarden.collectors.raid.adaptec import arcconf, arcconf_status
from iowarden.collectors.raid.areca import cli64
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.raid.megaraid import megacli, storcli, storcli_volumes
from iowarden.collectors.raid.mpt import mpt_status, sasircu
from iowarden.collectors.raid.smartarray import cciss_vol_status, ssacli
from iowarden.collectors.raid.threeware import tw_cli

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.collectors.raid import controller
    from iowarden.collectors.raid.controller import Battery, ComponentState, Sensor

ARCCONF_DONE = "\nCommand completed successfully.\n"
ARECA_DONE = "GuiErrMsg<0x00>: Success.\n"
MEGACLI_DONE = "\nExit Code: 0x00\n"
IRCU_DONE = "SAS2IRCU: Command DISPLAY Completed Successfully.\n"
RULE = "-" * 60


def _arcconf(text: str) -> controller.Controller:
    return arcconf.parse_config(text + ARCCONF_DONE, "adaptec 1").controller


def _storcli(**data: object) -> storcli.ControllerReport:
    status = {"Controller": 0, "Status": "Success", "Description": "None"}
    basics = {"Basics": {"Model": "ACME 9000"}, **data}
    answer = {"Controllers": [{"Command Status": status, "Response Data": basics}]}
    return storcli.parse_controllers(json.dumps(answer))[0]


def _display(volumes: str, disks: str) -> controller.Controller:
    sections = (
        ("Controller information", ""),
        ("IR Volume information", volumes),
        ("Physical device information", disks),
    )
    text = "".join(f"{RULE}\n{title}\n{RULE}\n{body}\n" for title, body in sections)
    return sasircu.parse_display(text + IRCU_DONE, "sas2ircu 0")


ARRAYS: dict[str, Callable[[str], ComponentState]] = {
    "storcli": lambda word: (
        _storcli(**{"VD LIST": [{"DG/VD": "0/0", "TYPE": "RAID1", "State": word, "Size": "1 TB"}]})
        .controller.arrays[0]
        .state
    ),
    "MegaCli": lambda word: (
        megacli.parse_volumes(f"Virtual Drive: 0 (Target Id: 0)\nState : {word}\n{MEGACLI_DONE}")[
            0
        ].state
    ),
    "arcconf": lambda word: (
        _arcconf(
            "Logical device information\nLogical device number 0\n"
            f"   Status of logical device : {word}\n"
        )
        .arrays[0]
        .state
    ),
    "ssacli": lambda word: (
        ssacli.parse_controllers(
            f"Smart Array P9 in Slot 1\n   array A\n      logicaldrive 1 (1.0 GB, RAID 1, {word})\n"
        )[0]
        .controller.arrays[0]
        .state
    ),
    "cli64": lambda word: (
        cli64.parse_raid_sets(
            " #  Name             Disks TotalCap  FreeCap DiskChannels       State\n"
            f" 1  Raid Set # 00        3 3000.0GB    0.0GB 123                {word}\n{ARECA_DONE}"
        )[0].state
    ),
    "sas2ircu": lambda word: (
        _display(f"IR volume 1\n  Status of volume : {word}\n", "").arrays[0].state
    ),
}
"""Return an array with a state."""
DISKS: dict[str, Callable[[str], ComponentState]] = {
    "storcli": lambda word: (
        _storcli(
            **{"PD LIST": [{"EID:Slt": "252:0", "DID": 8, "State": word, "DG": 0, "Size": "1 TB"}]}
        )
        .controller.disks[0]
        .state
    ),
    "MegaCli": lambda word: (
        megacli.parse_disks(
            f"Enclosure Device ID: 252\nSlot Number: 3\nFirmware state: {word}\n{MEGACLI_DONE}"
        )[0].state
    ),
    "arcconf": lambda word: (
        _arcconf(
            "Physical Device information\n   Device #0\n      Device is a Hard drive\n"
            f"      State : {word}\n      Reported Channel,Device(T:L) : 0,8(8:0)\n"
        )
        .disks[0]
        .state
    ),
    "ssacli": lambda word: (
        ssacli.parse_controllers(
            "Smart Array P9 in Slot 1\n"
            f"   physicaldrive 1I:1:1 (port 1I:box 1:bay 1, SAS, 6 GB, {word})\n"
        )[0]
        .controller.disks[0]
        .state
    ),
    "cli64": lambda word: next(
        bay.disk.state
        for bay in cli64.parse_bays(
            "  # Ch# ModelName                       Capacity  Usage\n"
            f"  1  1  WDC WD10EADS-00L5B1             1000.2GB  {word}\n{ARECA_DONE}"
        )
        if bay.disk
    ),
    "sas2ircu": lambda word: (
        _display("", f"Device is a Hard disk\n  Enclosure # : 1\n  Slot # : 2\n  State : {word}\n")
        .disks[0]
        .state
    ),
}
"""Return a disk with a state."""


@pytest.mark.parametrize("word", ["Defunct", "Offline", "Dead", "Failed", "Foreign incomplete"])
@pytest.mark.parametrize("program", DISKS)
def test_a_word_for_death_is_what_it_reports(program: str, word: str) -> None:
    """Of an array and of a disk, for any vendor: critical, not only a need for attention."""
    assert ARRAYS[program](word).health is ComponentHealth.FAILED
    assert DISKS[program](word).health is ComponentHealth.FAILED


@pytest.mark.parametrize("program", ["arcconf", "ssacli", "cli64", "sas2ircu"])
@pytest.mark.parametrize(
    "word", ["Background Init", "Compacting", "Consistency Check", "Impacted", "Migrating"]
)
def test_work_on_an_array_that_is_whole_is_no_warning(program: str, word: str) -> None:
    """A check, an initial build in the background, a compaction: they cause no alert."""
    assert ARRAYS[program](word).health is ComponentHealth.BUSY


@pytest.mark.parametrize("word", ["Compaction", "Synchronization", "Logical-drive migration"])
def test_tasks_of_arcconf_that_leave_an_array_whole(word: str) -> None:
    """As 'arcconf GETSTATUS' calls them."""
    found = _arcconf(
        "Logical device information\nLogical device number 0\n"
        "   Status of logical device : Optimal\n"
    )
    task = arcconf_status.ArcconfTask(word, "In Progress", 0.4)
    (array,) = arcconf_status.with_tasks(found, {"logical device 0": task}).arrays
    assert (array.state.health, array.state.done_ratio) == (ComponentHealth.BUSY, 0.4)


@pytest.mark.parametrize("program", DISKS)
def test_a_word_nobody_knows_is_neither_well_nor_dead(program: str) -> None:
    """Also one that begins like a good one: it needs attention."""
    for word in ("Pondering", "Onlinee", "Not Failed", "Offline Scan Done"):
        assert ARRAYS[program](word).health is ComponentHealth.ATTENTION
        assert DISKS[program](word).health is ComponentHealth.ATTENTION


def test_a_foreign_group_is_dead_only_where_disks_of_it_are_missing() -> None:
    """One that could be imported waits for a user; its state is 'Frgn'."""

    def foreign(word: str) -> ComponentHealth:
        row = {"DG": 0, "EID:Slot": "-", "Type": "RAID5", "State": word, "NoVDs": 1}
        status = {"Controller": 0, "Status": "Success", "Description": "None"}
        data = {"Total foreign Drive Groups": 1, "FOREIGN CONFIGURATION": [row]}
        answer = {"Controllers": [{"Command Status": status, "Response Data": data}]}
        return storcli_volumes.parse_foreign(json.dumps(answer))[0].state.health

    assert [foreign(word) for word in ("Frgn", "Optl", "Dgrd", "OfLn", "Incomplete")] == [
        ComponentHealth.ATTENTION,
        ComponentHealth.ATTENTION,
        ComponentHealth.DEGRADED,
        ComponentHealth.FAILED,
        ComponentHealth.FAILED,
    ]


def _battery(state: str, learns: str, more: str = "") -> Battery:
    return megacli.parse_battery(
        f"BBU status for Adapter: 0\n\nBattery State: {state}\n\nBBU Firmware Status:\n\n"
        f"  Learn Cycle Active : {learns}\n{more}\n{MEGACLI_DONE}"
    )


def test_a_battery_in_its_learn_cycle_is_low_on_purpose() -> None:
    """It is discharged and charged each month; afterwards, or with another fault, it is low."""
    low = "  Remaining Capacity Low : Yes"
    learning = _battery("Degraded(Charging)", "Yes", low)
    assert (learning.state.health, learning.ready) == (ComponentHealth.BUSY, None)
    assert _battery("Degraded(Charging)", "No", low).state.health is ComponentHealth.DEGRADED
    replaced = _battery("Degraded", "Yes", "  Battery Replacement required : Yes")
    assert replaced.state.health is ComponentHealth.FAILED
    assert _battery("Failed", "Yes").state.health is ComponentHealth.FAILED


def _threeware_fan(word: str) -> Sensor:
    text = (
        "Encl    Status\n-----------\n/c0/e0  OK\n\n"
        f"Fan     Status            State            StepSpeed  RPM    Identify\n{RULE}\n"
        f"fan0    {word}    OFF   1   -   Off\n"
    )
    return tw_cli.parse_controller(text, "c0").sensors[1]


def _arcconf_fan(word: str) -> Sensor:
    text = (
        "Physical Device information\n   Device #9\n"
        "      Device is an Enclosure services device\n      Enclosure ID : 0\n"
        f"         Fan 1 status : 0 rpm ({word})\n"
    )
    return _arcconf(text).sensors[0]


def _ssacli_fan(word: str) -> Sensor:
    text = f"Smart Array P9 in Slot 1\n   D3700 at Port 2E, Box 1, OK\n\n      Fan Status: {word}\n"
    return ssacli.parse_controllers(text)[0].controller.sensors[1]


@pytest.mark.parametrize(
    ("fan", "word"),
    [
        *((_threeware_fan, word) for word in ("NOT-REPORTABLE", "NOT-INSTALLED", "NO-DEVICE")),
        *((_arcconf_fan, word) for word in ("Not Reported", "Not Installed", "Not Available")),
        *((_ssacli_fan, word) for word in ("Not Installed", "Not Supported", "N/A")),
    ],
)
def test_a_fan_that_is_not_reported_is_absent_and_not_failing(
    fan: Callable[[str], Sensor], word: str
) -> None:
    """Enclosures list slots for missing fans and sensors; a failing one is detected."""
    state = fan(word).state
    assert state is None or state.health is ComponentHealth.ABSENT
    failed = fan("Failed").state
    assert failed is not None
    assert failed.health is ComponentHealth.FAILED


def test_parity_that_could_not_be_initialised_is_no_protection() -> None:
    """ssacli reports it in addition to 'OK'; while it is initialized, or queued, all is OK."""
    text = (
        "Smart Array P9 in Slot 1\n   Array: A\n      Logical Drive: 1\n         Status: OK\n"
        "         Parity Initialization Status: {}\n"
    )
    found = [
        ssacli.parse_controllers(text.format(word))[0].controller.arrays[1].state.health
        for word in ("Initialization Completed", "In Progress", "Initialization Failed")
    ]
    assert found == [ComponentHealth.OK, ComponentHealth.OK, ComponentHealth.ATTENTION]


@pytest.mark.parametrize(
    ("word", "health"),
    [
        ("Not Available", ComponentHealth.BUSY),
        ("Queued for Expansion", ComponentHealth.BUSY),
        ("Shutdown", ComponentHealth.FAILED),
        ("Physical Disk(s) Not Properly Connected", ComponentHealth.FAILED),
        ("Overheating", ComponentHealth.ATTENTION),
        ("Bad Connect", ComponentHealth.FAILED),
        ("No Access - Encrypted - Missing Key", ComponentHealth.FAILED),
        ("Predictive Spare Rebuild Ready", ComponentHealth.BUSY),
        ("Ready Rebuild", ComponentHealth.DEGRADED),
        ("Unconfigured", ComponentHealth.ATTENTION),
    ],
)
def test_words_of_hps_guides_for_a_logical_drive(word: str, health: ComponentHealth) -> None:
    """A new one that waits for room has lost nothing; one that was switched off had data."""
    assert ARRAYS["ssacli"](word).health is health


def test_programs_without_words_of_their_own_kind() -> None:
    """mpt-status and cciss_vol_status print one of a few states; tw_cli one without blanks."""
    mirror = "ioc0 vol_id 0 type IM, 2 phy, 136 GB, state {}, flags ENABLED\n"
    assert (
        mpt_status.parse_status(mirror.format("OFFLINE")).arrays[0].state.health
        is ComponentHealth.FAILED
    )
    text = "/dev/sda: (Smart Array P99) RAID 1 Volume 0 status: {}.\n"
    (card,) = cciss_vol_status.parse_volume_status(text.format("Offline"))
    assert card.arrays[0].state.health is ComponentHealth.FAILED
    units = f"Unit  UnitType  Status  %RCmpl\n{RULE}\nu0    RAID-1    {{}}  -\n"
    found = tw_cli.parse_controller(units.format("INCOMPLETE"), "c0")
    assert found.arrays[0].state.health is ComponentHealth.FAILED
    with pytest.raises(ParseError):
        tw_cli.parse_controller("Offline\n", "c0")
