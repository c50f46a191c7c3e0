"""Parsers and backend of Adaptec's 'arcconf', with all possible faults."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.controllers import DEVICES, DRIVERS, polled

from iowarden.collectors.model import AbsentError, ParseError
from iowarden.collectors.raid.adaptec import arcconf, arcconf_status
from iowarden.collectors.raid.adaptec.aacraid import ADAPTEC
from iowarden.collectors.raid.controller import ComponentHealth, ComponentState

if TYPE_CHECKING:
    from iowarden.collectors.raid.controller import Controller, ControllerArray, PhysicalDisk

DONE = "\n\nCommand completed successfully.\n"
RULE = "-" * 70
CONTROLLER = f"""\
Controllers found: 1
{RULE}
Controller information
{RULE}
   Controller Status                        : Optimal
   Controller Model                         : Adaptec 9905
   Controller Serial Number                 : 7A001122334
   Temperature                              : 61 C/ 141 F (Normal)
   Installed memory                         : 1024 MB
   Defunct disk drive count                 : 0
   Logical devices/Failed/Degraded          : 1/0/0
   --------------------------------------------------------
   Controller Version Information
   --------------------------------------------------------
   BIOS                                     : 9.1-0 (11111)
   Firmware                                 : 9.2-0 (22222)
   --------------------------------------------------------
   Controller Battery Information
   --------------------------------------------------------
   Status                                   : Optimal
   Over temperature                         : No
   Capacity remaining                       : 97 percent
"""
LOGICAL = f"""
{RULE}
Logical device information
{RULE}
Logical device number 0
   Logical device name                      : mail
   RAID level                               : 1
   Unique Identifier                        : ABCD0123
   Status of logical device                 : Optimal
   Size                                     : 953344 MB
   Read-cache status                        : On
   Write-cache setting                      : On when protected by battery/ZMM
   Write-cache status                       : On
   Failed stripes                           : No
   --------------------------------------------------------
   Logical device segment information
   --------------------------------------------------------
   Segment 0                                : Present (Controller:1,Enclosure:0,Slot:4) WD-AAAA1
   Segment 1                                : Present (Controller:1,Enclosure:0,Slot:5) WD-AAAA2
"""


def disk(number: int, state: str = "Online", smart: str = "No", warnings: int = 0) -> str:
    """Return the block of a disk in slot 4 + number."""
    return f"""\
      Device #{number}
         Device is a Hard drive
         State                              : {state}
         Supported                          : Yes
         Reported Channel,Device(T:L)       : 0,{number + 8}({number + 8}:0)
         Reported Location                  : Enclosure 0, Slot {number + 4}
         Vendor                             : WDC
         Model                              : WD1000
         Firmware                           : 1.0
         Serial number                      : WD-AAAA{number + 1}
         Total Size                         : 953869 MB
         S.M.A.R.T.                         : {smart}
         S.M.A.R.T. warnings                : {warnings}
         NCQ status                         : Enabled
"""


ENCLOSURE = """\
      Device #9
         Device is an Enclosure services device
         Reported Channel,Device(T:L)       : 2,0(0:0)
         Enclosure ID                       : 0
         Status of Enclosure services device
            Fan 1 status                    : 5200 rpm (Optimal)
            Fan 2 status                    : 0 rpm (Unknown)
            Fan 3 status                    : 0 rpm (Not Installed)
            Power supply 1 status           : Failed
            Temperature Sensor Status 1     : 51 C/ 123 F (Abnormal)
            Speaker status                  : Off
"""
PHYSICAL = f"\n{RULE}\nPhysical Device information\n{RULE}\n"
WHOLE = CONTROLLER + LOGICAL + PHYSICAL + disk(0) + disk(1) + DONE
TASK = """\
Controllers found: 1
Logical device Task:
   Logical device                 : 0
   Task ID                        : 101
   Current operation              : {operation}
   Status                         : {status}
   Percentage complete            : 40
"""


def parsed(text: str) -> Controller:
    """Return the controller of a configuration."""
    return arcconf.parse_config(text, "adaptec 1").controller


def array(status: str, segment: str = "Present", stripes: str = "No") -> ControllerArray:
    """Return an array with a status, its second segment and its stripes."""
    text = WHOLE.replace("logical device                 : Optimal", f"logical device : {status}")
    text = text.replace(
        "Segment 1                                : Present", f"Segment 1 : {segment}"
    )
    text = text.replace(
        "Failed stripes                           : No", f"Failed stripes : {stripes}"
    )
    (found,) = parsed(text).arrays
    return found


def told(text: str) -> PhysicalDisk:
    """Return the only disk of a block."""
    (found,) = parsed(PHYSICAL + text + DONE).disks
    return found


def test_a_controller_its_array_its_disks_and_its_battery() -> None:
    """An MB is 2^20 bytes; segments identify disks by their serial numbers."""
    config = arcconf.parse_config(WHOLE, "adaptec 1")
    found = config.controller
    assert (found.model, found.serial, found.firmware, found.memory_bytes) == (
        "Adaptec 9905",
        "7A001122334",
        "9.2-0 (22222)",
        2**30,
    )
    assert found.state is not None
    assert found.state.health is ComponentHealth.OK
    (one,) = found.arrays
    assert (one.name, one.label, one.level, one.serial, one.address) == (
        "logical device 0",
        "mail",
        "1",
        "ABCD0123",
        "0:0:0",
    )
    assert one.slots == ("enclosure 0 slot 4", "enclosure 0 slot 5")
    assert one.policy is not None
    assert (one.policy.write_back, one.policy.default_write_back) == (True, True)
    assert [(d.slot, d.serial, d.size_bytes, d.array, d.kind) for d in found.disks] == [
        ("enclosure 0 slot 4", "WD-AAAA1", 953869 * 2**20, "logical device 0", ""),
        ("enclosure 0 slot 5", "WD-AAAA2", 953869 * 2**20, "logical device 0", ""),
    ]
    (battery,) = found.batteries
    assert (battery.ready, battery.charge_ratio) == (True, 0.97)
    assert [(s.name, s.temperature_celsius) for s in found.sensors] == [
        ("controller temperature", 61.0)
    ]


def test_smartctl_asks_for_a_disk_by_host_unit_and_target() -> None:
    """The host number differs on each host; it reaches channel 0 only."""
    far = disk(2).replace(": 0,10(10:0)", ": 1,10(10:0)")
    config = arcconf.parse_config(WHOLE.replace(DONE, far + DONE), "adaptec 1")
    found = arcconf.at_host(config, "host3")
    assert (found.host, [each.kind for each in found.disks]) == (
        "host3",
        ["aacraid,3,0,8", "aacraid,3,0,9", ""],
    )


@pytest.mark.parametrize(
    ("status", "health", "done_ratio"),
    [
        ("Okay", ComponentHealth.OK, None),
        ("Degraded", ComponentHealth.DEGRADED, None),
        ("Suboptimal, Fault Tolerant", ComponentHealth.DEGRADED, None),
        ("Degraded, Rebuilding ( Rebuild : 38 % )", ComponentHealth.REBUILDING, 0.38),
        ("Suboptimal, Rebuilding (Rebuild : 1 %)", ComponentHealth.REBUILDING, 0.01),
        ("Impacted (Build/Verify : 7 %)", ComponentHealth.BUSY, 0.07),
        ("Impacted", ComponentHealth.BUSY, None),
        ("Impacted (Exorcism : 7 %)", ComponentHealth.ATTENTION, 0.07),
        ("Offline", ComponentHealth.FAILED, None),
        ("Optimal-ish", ComponentHealth.ATTENTION, None),
        ("", ComponentHealth.ATTENTION, None),
    ],
)
def test_words_for_an_array(status: str, health: ComponentHealth, done_ratio: float | None) -> None:
    """An 'Impacted' array is being verified; an unknown task or state is not 'Optimal'."""
    found = array(status).state
    assert (found.health, found.done_ratio) == (health, done_ratio)


def test_an_array_that_reports_optimal_and_lost_something() -> None:
    """A missing member, or stripes with lost data, appear nowhere else."""
    assert array("Optimal", segment="Missing").state.health is ComponentHealth.DEGRADED
    assert array("Optimal", segment="Inconsistent").state.health is ComponentHealth.DEGRADED
    assert array("Optimal", segment="Rebuilding").state.health is ComponentHealth.REBUILDING
    assert array("Optimal", stripes="Yes").state == ComponentState(
        ComponentHealth.ATTENTION, "Optimal, failed stripes"
    )
    assert array("Failed", segment="Missing").state.health is ComponentHealth.FAILED


@pytest.mark.parametrize(
    ("state", "smart", "health"),
    [
        ("Online", "No", ComponentHealth.OK),
        ("Raw (Pass Through)", "No", ComponentHealth.OK),
        ("Dedicated Hot-Spare", "Not Supported", ComponentHealth.OK),
        ("Online", "Yes", ComponentHealth.FAILING),
        ("Rebuilding", "No", ComponentHealth.REBUILDING),
        ("Failed", "Yes", ComponentHealth.FAILED),
        ("Missing", "No", ComponentHealth.FAILED),
        ("Spooky", "No", ComponentHealth.ATTENTION),
        ("", "No", ComponentHealth.ATTENTION),
    ],
)
def test_words_for_a_disk(state: str, smart: str, health: ComponentHealth) -> None:
    """'S.M.A.R.T. : Yes' is an error, 'No' is a good disk; a disk without a state is not good."""
    found = told(disk(0, state, smart, 3))
    assert found.state.health is health
    assert found.errors_total == {"s.m.a.r.t. warnings": 3}


def test_a_failed_disk_that_lost_its_place_and_its_name() -> None:
    """It is named by its channel, which it still has."""
    found = told(
        "      Device #2\n         Device is a Hard drive\n         State : Failed\n"
        "         Reported Channel,Device(T:L)       : 0,13(13:0)\n         Total Size : 0 MB\n"
    )
    assert (found.slot, found.state.health) == ("channel 0 device 13", ComponentHealth.FAILED)
    assert (found.model, found.serial, found.size_bytes) == ("", "", None)


def test_two_connectors_with_an_enclosure_of_one_number() -> None:
    """Then the slot alone does not identify a disk."""
    other = disk(1).replace("Slot 5", "Slot 4")
    found = parsed(PHYSICAL + disk(0) + other + DONE).disks
    assert [each.slot for each in found] == ["channel 0 device 8", "channel 0 device 9"]


def test_a_card_with_two_channels_lists_each_disk_twice() -> None:
    """It is one disk; if one of the lists reports it as failed, it has failed."""
    found = parsed(PHYSICAL + disk(0) + disk(1) + disk(0, "Failed") + disk(1) + DONE).disks
    assert [(each.slot, each.state.health) for each in found] == [
        ("enclosure 0 slot 4", ComponentHealth.FAILED),
        ("enclosure 0 slot 5", ComponentHealth.OK),
    ]


def test_a_fault_that_only_the_controller_counts() -> None:
    """A missing disk need not be listed; if it is, the controller has no further fault."""
    counted = WHOLE.replace("drive count                 : 0", "drive count : 1")
    found = parsed(counted).state
    assert found is not None
    assert (found.health, found.word) == (ComponentHealth.ATTENTION, "Optimal, 1 defunct disks")
    listed = parsed(counted.replace(disk(1), disk(1, "Failed"))).state
    assert listed is not None
    assert listed.health is ComponentHealth.OK
    degraded = parsed(WHOLE.replace(": 1/0/0", ": 2/0/1")).state
    assert degraded is not None
    assert degraded.health is ComponentHealth.ATTENTION


def test_parts_of_an_enclosure() -> None:
    """A fan without a readable state has no speed; one that is not installed is no fault."""
    found = {each.name: each for each in parsed(PHYSICAL + ENCLOSURE + DONE).sensors}
    states = {name: each.state.health if each.state else None for name, each in found.items()}
    assert states == {
        "enclosure 0 fan 1": ComponentHealth.OK,
        "enclosure 0 fan 2": None,
        "enclosure 0 fan 3": ComponentHealth.ABSENT,
        "enclosure 0 power supply 1": ComponentHealth.FAILED,
        "enclosure 0 temperature 1": ComponentHealth.ATTENTION,
    }
    assert [found[f"enclosure 0 fan {n}"].fan_rpm for n in (1, 2, 3)] == [5200, None, None]
    assert found["enclosure 0 temperature 1"].temperature_celsius == 51


BACKED_UP = "Cache Backup Unit Information\n   Overall Backup Unit Status : Ready\n"


@pytest.mark.parametrize(
    ("lines", "health", "ready"),
    [
        ("Battery Information\n   Status : Failed", ComponentHealth.FAILED, False),
        ("Battery Information\n   Status : Not Installed", ComponentHealth.ABSENT, None),
        ("Battery Information\n   Status : Charging", ComponentHealth.BUSY, False),
        (
            "Battery Information\n   Status : Optimal\n   Over temperature : Yes",
            ComponentHealth.ATTENTION,
            False,
        ),
        ("ZMM Information\n   Status : ZMM Optimal", ComponentHealth.OK, True),
        ("ZMM Information\n   Status : ZMM not installed", ComponentHealth.ABSENT, None),
        ("ZMM Information\n   Status : ZMM asleep", ComponentHealth.ATTENTION, False),
        (
            "Cache Backup Unit Information\n   Overall Backup Unit Status : Not Ready",
            ComponentHealth.DEGRADED,
            False,
        ),
        (
            "Cache Backup Unit Information\n   Overall Backup Unit Status : Not Present",
            ComponentHealth.ABSENT,
            None,
        ),
        (
            BACKED_UP + "   Non-Volatile Storage Status : Ready\n   Supercap Status : Ready",
            ComponentHealth.OK,
            True,
        ),
        (
            BACKED_UP + "   Non-Volatile Storage Status : Worn Out\n   Supercap Status : Ready",
            ComponentHealth.ATTENTION,
            False,
        ),
        (
            BACKED_UP + "   Supercap Information\n   Supercap Status : Not Present",
            ComponentHealth.FAILED,
            False,
        ),
        (BACKED_UP + "   Supercap Status : Charging", ComponentHealth.BUSY, False),
    ],
)
def test_what_keeps_the_cache(lines: str, health: ComponentHealth, ready: bool | None) -> None:
    """Batteries, capacitors of three generations; a missing one is no fault, a failed one is."""
    at = CONTROLLER.index("Battery Information")
    (found,) = parsed(CONTROLLER[:at] + lines + DONE).batteries
    assert (found.state.health, found.ready) == (health, ready)


def test_a_cache_that_went_off_because_its_battery_failed() -> None:
    """The configured policy is reported in addition to the active one."""
    found = parsed(
        WHOLE.replace("Write-cache status                       : On", "Write-cache status : Off")
    )
    policy = found.arrays[0].policy
    assert policy is not None
    assert (policy.write_back, policy.default_write_back) == (False, True)


@pytest.mark.parametrize(
    ("share", "cache", "caching", "expected"),
    [
        ("90 percent", "Ok", "Enabled", (True, True)),
        ("90 percent", "Temporarily Disabled", "Enabled", (False, True)),
        ("0 percent", "Ok", "Enabled", (False, False)),
        ("Not Applicable", "Ok", "Enabled", (None, None)),
        ("90 percent", "Ok", "Disabled", (False, False)),
    ],
)
def test_caching_of_new_cards(
    share: str, cache: str, caching: str, expected: tuple[bool | None, bool | None]
) -> None:
    """The controller has its state and the share of writes, the array whether it uses the cache."""
    properties = f"   {RULE}\n   Cache Properties\n   Cache Status : {cache}\n"
    properties += f"   Write Cache Percentage : {share}\n"
    found = parsed(
        CONTROLLER
        + properties
        + f"{RULE}\nLogical device information\n{RULE}\nLogical Device number 0\n"
        + f"   Status of Logical Device : Optimal\n   Caching : {caching}\n"
        + DONE
    )
    policy = found.arrays[0].policy
    assert policy is not None
    assert (policy.write_back, policy.default_write_back) == expected
    health = {each.name: each.state.health for each in found.sensors if each.state}["cache"]
    assert health is (ComponentHealth.OK if cache == "Ok" else ComponentHealth.DEGRADED)


@pytest.mark.parametrize(
    ("setting", "forced"),
    [
        ("On when protected by battery/ZMM", False),
        ("Enabled (write-back) when protected by battery", False),
        ("Enabled", True),
        ("Enabled (write-back)", True),
        ("Disabled", None),
    ],
)
def test_whether_writes_are_cached_without_a_battery(setting: str, forced: bool | None) -> None:
    """Configured by a user, or dependent on the battery."""
    policy = parsed(WHOLE.replace("On when protected by battery/ZMM", setting)).arrays[0].policy
    assert policy is not None
    assert policy.forced is forced


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("Disabled (write-through)", "Enabled (write-back)"), True),
        (("Disabled (write-through)", "Disabled (write-through)"), False),
        (("Unknown", "Disabled (write-through)"), None),
        (("Unknown", "Enabled (write-back)"), True),
    ],
)
def test_disks_that_cache_writes_themselves(words: tuple[str, str], expected: bool | None) -> None:
    """One disk of an array is enough; a disk with an unknown state is not a disabled one."""
    text = WHOLE.replace(disk(0), disk(0) + f"         Write Cache : {words[0]}\n")
    text = text.replace(disk(1), disk(1) + f"         Write Cache : {words[1]}\n")
    spare = disk(2, "Hot Spare") + "         Write Cache : Enabled (write-back)\n"
    found = parsed(text.replace(DONE, spare + DONE)).arrays[0]
    assert found.disk_cache is expected


@pytest.mark.parametrize(
    ("word", "expected"), [("Default", None), ("Enabled", True), ("Disabled", False)]
)
def test_new_cards_have_one_setting_for_the_disks_of_arrays(
    word: str, expected: bool | None
) -> None:
    """The default depends on the disk."""
    policy = "Physical Drive Write Cache Policy Information"
    lines = f"   {RULE}\n   {policy}\n   {RULE}\n   Configured Drives : {word}\n"
    assert parsed(WHOLE.replace(LOGICAL, lines + LOGICAL)).arrays[0].disk_cache is expected


def test_an_array_of_a_new_card_that_has_failed_leaves_the_rest_to_its_members() -> None:
    """'Failed' may be a failed spare: then no data are lost."""
    text = f"{RULE}\nArray Information\n{RULE}\nArray Number 0\n   Name : A\n   Status : Failed\n"
    (found,) = parsed(text + DONE).arrays
    assert (found.name, found.label, found.state.health) == (
        "array 0",
        "A",
        ComponentHealth.ATTENTION,
    )


@pytest.mark.parametrize(
    ("array_status", "operation", "status", "health"),
    [
        ("Optimal", "Build/Verify", "In Progress", ComponentHealth.BUSY),
        ("Degraded", "Rebuild", "In Progress", ComponentHealth.REBUILDING),
        ("Degraded", "Rebuild", "Paused", ComponentHealth.DEGRADED),
        ("Degraded", "Verify", "In Progress", ComponentHealth.DEGRADED),
        ("Optimal", "Verify", "Failed", ComponentHealth.ATTENTION),
        ("Optimal", "Alchemy", "In Progress", ComponentHealth.ATTENTION),
        ("Failed", "Rebuild", "In Progress", ComponentHealth.FAILED),
    ],
)
def test_what_runs_at_an_array(
    array_status: str, operation: str, status: str, health: ComponentHealth
) -> None:
    """A task does not improve a state, and a task without progress needs attention."""
    tasks = arcconf_status.parse_tasks(TASK.format(operation=operation, status=status) + DONE)
    text = WHOLE.replace(
        "logical device                 : Optimal", f"logical device : {array_status}"
    )
    (found,) = arcconf_status.with_tasks(parsed(text), tasks).arrays
    assert (found.state.health, found.state.done_ratio) == (health, 0.4)


def test_nothing_runs() -> None:
    """'None' is no task; an output without any is refused."""
    assert (
        arcconf_status.parse_tasks("Controllers found: 1\n   Current operation : None\n" + DONE)
        == {}
    )
    with pytest.raises(ParseError, match="Current operation"):
        arcconf_status.parse_tasks("Controllers found: 1\n" + DONE)


TABULAR = """\
Controllers found: 1
ControllerLog
controllerID. ........................... 0
time.................................... 1486214512
tableFull ............................... {full}
driveErrorEntry
smartError.. ............................ {smart}
vendorID ................................ WDC
serialNumber ............................ WD-AAAA2
numParityErrors ......................... 0
linkFailures ............................ 3
hwErrors ................................ 1
abortedCmds ............................. 7
mediumErrors ............................ 20
smartWarning ............................ 0
"""
XML = """\
Controllers found: 1
<ControllerLog controllerID="0" type="0" time="1421660883" version="1" tableFull="false">
   <driveErrorEntry adapterID="0" channelID="0" deviceID="9" numParityErrors="0" linkFailures="3"
 hwErrors="1" abortedCmds="7" mediumErrors="20"/>
</ControllerLog>
"""


@pytest.mark.parametrize("text", [TABULAR.format(full="false", smart="false"), XML])
def test_errors_counted_by_the_controller(text: str) -> None:
    """By serial number, or by channel and device; a disk without an entry had no error."""
    config = arcconf.parse_config(WHOLE, "adaptec 1")
    found = arcconf_status.with_errors(
        config.controller, arcconf_status.parse_device_log(text + DONE), config
    )
    first, second = found.disks
    assert first.errors_total["mediumErrors"] == 0
    assert set(first.errors_total.values()) == {0}
    assert second.errors_total["mediumErrors"] == 20
    assert second.errors_total["linkFailures"] == 3
    assert second.state.health is ComponentHealth.OK


@pytest.mark.parametrize(
    "text",
    [
        TABULAR.format(full="true", smart="false"),
        TABULAR.replace("WD-AAAA2", "WD-ANOTHER").format(full="false", smart="false"),
        XML.replace('deviceID="9"', 'deviceID="77"'),
        XML.replace('tableFull="false"', ""),
        "Controllers found: 1\n",
    ],
)
def test_a_disk_without_an_entry_has_no_count_of_0_where_that_may_be_lost(text: str) -> None:
    """There was no room for it, or an entry's disk is unknown, or the log does not report it."""
    config = arcconf.parse_config(WHOLE, "adaptec 1")
    found = arcconf_status.with_errors(
        config.controller, arcconf_status.parse_device_log(text + DONE), config
    )
    assert found.disks[0].errors_total == {"s.m.a.r.t. warnings": 0}


def test_a_disk_whose_entry_reports_that_it_is_going_to_fail() -> None:
    """And a log without room."""
    config = arcconf.parse_config(WHOLE, "adaptec 1")
    log = arcconf_status.parse_device_log(TABULAR.format(full="true", smart="true") + DONE)
    found = arcconf_status.with_errors(config.controller, log, config)
    assert [each.state.health for each in found.disks] == [
        ComponentHealth.OK,
        ComponentHealth.FAILING,
    ]
    assert log.full


def test_error_counters_of_new_cards_are_those_that_count_errors() -> None:
    """Errors that the drive corrected, and its amount of reads, are no errors."""
    counters = "      Device Error Counters\n" + "".join(
        f"         {name} : 4\n"
        for name in (
            *("Aborted Commands", "Ecc Recovered Read Errors", "Media Failures", "Sectors Reads"),
            *("Service Hours", "Scsi Bus Faults", "Hot Plug Count", "Failed Read Recovers"),
        )
    )
    phy = "      Device Phy Information\n         Phy #0\n            PHY Errors : 9\n"
    assert told(disk(0) + phy + counters).errors_total == {
        "s.m.a.r.t. warnings": 0,
        "aborted commands": 4,
        "media failures": 4,
        "scsi bus faults": 4,
        "failed read recovers": 4,
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        WHOLE.removesuffix("Command completed successfully.\n"),
        "Usage: GETCONFIG <Controller#> [AD | LD | PD]\n" + DONE,
        "Controllers found: 1\n" + DONE,
        "Controllers found: 1\nThe requested feature is not supported.\n\nCommand aborted.\n",
        CONTROLLER.replace(": Optimal", ": Inaccessible", 1) + DONE,
    ],
)
def test_what_is_no_configuration_is_no_controller_without_disks(text: str) -> None:
    """Truncated, wrong words, a card that is too new for the tool: it reports success."""
    with pytest.raises(ParseError, match="arcconf"):
        arcconf.parse_config(text, "adaptec 1")


def test_more_than_a_controller_can_have_is_refused() -> None:
    """A hundred thousand arrays."""
    many = "".join(f"Logical device number {n}\n" for n in range(100_000))
    with pytest.raises(ParseError, match="at most"):
        parsed(LOGICAL + many + DONE)


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    """In the middle of a valid one, too."""
    for given_text in (text + DONE, WHOLE.replace("Present", text), WHOLE.replace(": ", text)):
        for parse in (
            parsed,
            arcconf_status.parse_tasks,
            arcconf_status.parse_device_log,
            arcconf.parse_count,
        ):
            try:
                parse(given_text)  # type: ignore[operator]
            except ParseError as error:
                assert str(error)  # noqa: PT017 - a refusal has a reason


AACRAID = f"{DRIVERS}/aacraid/0000:05:00.0/host2"
ANSWERS = {
    "arcconf GETVERSION": "Controllers found: 1\nController #1\n==============\n" + DONE,
    "arcconf GETCONFIG 1 AL": WHOLE,
    "arcconf GETSTATUS 1": "Controllers found: 1\n   Current operation : None\n" + DONE,
    "arcconf GETLOGS 1 DEVICE tabular": TABULAR.format(full="false", smart="false") + DONE,
}


def test_a_machine_with_one_controller() -> None:
    """Its only host is its own; nothing else is queried."""
    found = polled(ADAPTEC, {AACRAID: None}, ANSWERS)
    (one,) = found.controllers
    assert (one.name, one.host, found.problems) == ("adaptec 1", "host2", ())
    assert [each.kind for each in one.disks] == ["aacraid,2,0,8", "aacraid,2,0,9"]
    assert one.disks[1].errors_total["mediumErrors"] == 20


def test_two_controllers_are_distinguished_by_their_serial_numbers() -> None:
    """The driver shows the last digits, as its old versions do, or all."""
    other = WHOLE.replace("7A001122334", "7A009988776")
    files = {
        AACRAID: None,
        f"{DRIVERS}/aacraid/0000:06:00.0/host4": None,
        "/sys/class/scsi_host/host2/serial_number": "988776\n",
        "/sys/class/scsi_host/host4/serial_number": "7A001122334\n",
    }
    answers = {
        **ANSWERS,
        "arcconf GETVERSION": "Controllers found: 2\n" + DONE,
        "arcconf GETCONFIG 2 AL": other,
        "arcconf GETSTATUS 2": ANSWERS["arcconf GETSTATUS 1"],
        "arcconf GETLOGS 2 DEVICE tabular": "Controllers found: 2\n" + DONE,
    }
    found = polled(ADAPTEC, files, answers)
    assert [(each.name, each.host) for each in found.controllers] == [
        ("adaptec 1", "host4"),
        ("adaptec 2", "host2"),
    ]
    assert found.problems == ()


def smartpqi(vendor: str) -> dict[str, str | None]:
    """Return two hosts of the driver smartpqi of one vendor."""
    return {
        f"{DRIVERS}/smartpqi/0000:3c:00.0/host0": None,
        f"{DRIVERS}/smartpqi/0000:5e:00.0/host1": None,
        f"{DEVICES}/0000:3c:00.0/subsystem_vendor": vendor,
        f"{DEVICES}/0000:5e:00.0/subsystem_vendor": vendor,
    }


def test_a_new_card_reports_its_pci_address() -> None:
    """In hexadecimal digits; smartctl has no such device type for its disks."""
    about = "   PCI Address (Domain:Bus:Device:Function)   : 0:5e:0:0\n"
    text = WHOLE.replace("   Installed memory", about + "   Installed memory")
    answers = {**ANSWERS, "arcconf GETCONFIG 1 AL": text}
    (one,) = polled(ADAPTEC, smartpqi("0x9005\n"), answers).controllers
    assert (one.host, {each.kind for each in one.disks}) == ("host1", {""})


def test_a_controller_that_hp_sells_is_not_queried_by_arcconf() -> None:
    """The user is not told to install arcconf there."""
    found = polled(ADAPTEC, smartpqi("0x1590\n"), {"arcconf LIST": ""})
    assert (found.controllers, found.problems) == ((), ())


def test_a_part_that_cannot_be_read_is_reported_with_the_rest() -> None:
    """A log that this card does not have is no problem; a truncated one is."""
    tasks = "Controllers found: 1\n   Current oper"
    log = "The requested feature is not supported on this controller.\n\nCommand aborted.\n"
    answers = {
        **ANSWERS,
        "arcconf GETSTATUS 1": tasks,
        "arcconf GETLOGS 1 DEVICE tabular": log,
    }
    found = polled(ADAPTEC, {AACRAID: None}, answers)
    (one,) = found.controllers
    assert len(one.disks) == 2
    (problem,) = found.problems
    assert (problem.controller, "GETSTATUS" in problem.reason) == ("adaptec 1", True)


def test_headings_that_are_not_known_lose_no_disk_and_no_array_in_silence() -> None:
    """A later version may name them differently; a complete older answer has both."""
    for heading, why in (
        ("Physical Device information", "expected 'Physical Device information'"),
        ("Logical device number", "expected 1 logical devices, got none"),
    ):
        other = WHOLE.replace(heading, "Drive overview")
        answers = {**ANSWERS, "arcconf GETCONFIG 1 AL": other}
        found = polled(ADAPTEC, {AACRAID: None}, answers)
        assert {why in each.reason for each in found.problems} == {True}, heading


def test_a_word_for_a_write_cache_that_is_not_known_is_reported() -> None:
    """Whether the cache needs its battery is unknown then; without a cache there is no problem."""
    for word, told in (("Perhaps", True), ("Not supported", False), ("Off", False)):
        text = re.sub(r"Write-cache s(?:etting|tatus) +: .*", f"Write-cache mode : {word}", WHOLE)
        answers = {**ANSWERS, "arcconf GETCONFIG 1 AL": text}
        found = polled(ADAPTEC, {AACRAID: None}, answers)
        expected = "write cache of logical device 0: expected a known policy, got"
        why = [f"{expected} '{word}'"] if told else []
        assert [each.reason for each in found.problems] == why


def test_a_second_controller_that_is_not_listed_is_a_problem() -> None:
    """The program is too old for it, or it died: the other one is read."""
    other = f"{DRIVERS}/aacraid/0000:06:00.0/host4"
    found = polled(ADAPTEC, {AACRAID: None, other: None}, ANSWERS)
    assert [each.name for each in found.controllers] == ["adaptec 1"]
    (problem,) = found.problems
    assert problem.controller == "adaptec unlisted"
    assert "expected 2 controllers (host2, host4), got 1" in problem.reason


def test_a_card_that_shows_drives_alone_need_not_be_listed() -> None:
    """Containers are on channel 0, pass-through drives of the card after it."""
    answers = {"arcconf GETVERSION": "Controllers found: 0\n" + DONE}
    for channel, told in (("1", False), ("0", True)):
        path = f"/sys/class/scsi_device/2:{channel}:0:0/device"
        files = {f"{path}/type": "0\n", f"{path}/vendor": "ATA\n", f"{path}/block/sda": None}
        found = polled(ADAPTEC, {AACRAID: None, **files}, answers)
        assert (found.controllers, len(found.problems)) == ((), int(told))


def test_a_controller_that_is_there_and_not_listed_is_a_problem() -> None:
    """It may have died; without such hosts there is no problem."""
    answers = {"arcconf GETVERSION": "Controllers found: 0\n" + DONE}
    found = polled(ADAPTEC, {AACRAID: None}, answers)
    (problem,) = found.problems
    assert "expected one at host2, got none listed" in problem.reason
    with pytest.raises(AbsentError):
        polled(ADAPTEC, {f"{DRIVERS}/ahci": None}, answers)


@pytest.mark.parametrize("state", ["Online", "Failed"])
def test_a_disk_whose_place_is_not_in_the_text_has_its_number_in_the_list(state: str) -> None:
    """Excerpts leave out its channel: two disks of one kind remain two, and are told apart."""
    place = re.compile(r"^ *Reported (?:Channel|Location).*\n", re.MULTILINE)
    serial = re.compile(r"^ *Serial number.*\n", re.MULTILINE)
    text = serial.sub("", place.sub("", PHYSICAL + disk(0) + disk(1, state) + DONE))
    found = parsed(text)
    assert found.read_errors == ()
    assert [each.slot for each in found.disks] == ["device #0", "device #1"]
    assert (found.disks[1].state.health is ComponentHealth.FAILED) is (state == "Failed")
