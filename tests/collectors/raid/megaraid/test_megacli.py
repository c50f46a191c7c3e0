"""MegaRAID controllers read with MegaCli, with all possible faults."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memory import Memory

from iowarden.collectors.machine import Machine
from iowarden.collectors.model import AbsentError, DeadlineError, ParseError, ProgramNotFoundError
from iowarden.collectors.raid.backend import Backend
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.raid.megaraid import megacli, megacli_reader
from iowarden.daemon.polling.controllers import ControllerPoller

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iowarden.collectors.raid.controller import (
        Controller,
        ControllerArray,
        Controllers,
        PhysicalDisk,
    )

DEADLINE_SECONDS = 20.0
DONE = "\n\nExit Code: 0x00\n"
ADAPTERS = f"""\
\x20
Adapter #0

==============================================================================
                    Versions
                ================
Product Name    : LSI MegaRAID SAS 9261-8i
Serial No       : SV00000001
FW Package Build: 12.12.0-0111

                PCI Info
                ================
Vendor Id       : 1000
Device Id       : 0079
                HW Configuration
                ================
BBU              : Present
Memory           : Present
Memory Size      : 512MB
ROC temperature : 62  degree Celsius
                Settings
                ================
Current Time                     : 7:43:33 3/29, 2012
Any Offline VD Cache Preserved   : No
                Error Counters
                ================
Memory Correctable Errors   : 0
Memory Uncorrectable Errors : 0
{DONE}"""
ADDRESSES = f"""\

PCI information for Controller 0
--------------------------------
Bus Number      : 6
Device Number   : 0
Function Number : 0

{DONE}"""
SECOND = """\
PCI information for Controller 1
--------------------------------
Bus Number      : af
Device Number   : 1f
Function Number : 1
"""
SAS = "SEAGATE ST3450857SS     ES643SK1NLYN"
SATA = "     WD-WMAW00000001WDC  WD1003FBYX-01Y7B1                  01.01V02"
SATA_AS_SCSI = "ATA     ST31000528AS    CC38            9VP00000"


def volume(state: str = "Optimal", *, number: int = 0, more: str = "", **told: str) -> str:
    """Return a virtual drive."""
    fields = {
        "Name": "data",
        "RAID Level": "Primary-1, Secondary-0, RAID Level Qualifier-0",
        "Size": "931.0 GB",
        "State": state,
        "Number Of Drives": "2",
        "Span Depth": "1",
        "Default Cache Policy": "WriteBack, ReadAheadNone, Direct, No Write Cache if Bad BBU",
        "Current Cache Policy": "WriteBack, ReadAheadNone, Direct, No Write Cache if Bad BBU",
        **{key.replace("_", " "): value for key, value in told.items()},
    }
    lines = "".join(f"{key:<20}: {value}\n" for key, value in fields.items())
    return f"Virtual Drive: {number} (Target Id: {number})\n{lines}{more}\n\n"


def disk(
    state: str = "Online, Spun Up", *, enclosure: str = "252", slot: int = 3, **told: str
) -> str:
    """Return a physical disk."""
    fields = {
        "Enclosure Device ID": enclosure,
        "Slot Number": str(slot),
        "Drive's position": "DiskGroup: 0, Span: 0, Arm: 0",
        "Device Id": str(slot + 8),
        "Sequence Number": "2",
        "Media Error Count": "0",
        "Other Error Count": "0",
        "Predictive Failure Count": "0",
        "PD Type": "SAS",
        "Raw Size": "419.186 GB [0x3465f870 Sectors]",
        "Firmware state": state,
        "Device Firmware Level": "ES64",
        "Inquiry Data": SAS,
        "Foreign State": "None ",
        "Drive Temperature ": "35C (95.00 F)",
        "Drive has flagged a S.M.A.R.T alert ": "No",
        **told,
    }
    return "".join(f"{key}: {value}\n" for key, value in fields.items()) + "\n\n\n"


def volumes(text: str) -> tuple[ControllerArray, ...]:
    """Return the parsed virtual drives."""
    return megacli.parse_volumes(f"Adapter 0 -- Virtual Drive Information:\n{text}{DONE}")


def disks(text: str) -> tuple[PhysicalDisk, ...]:
    """Return the parsed disks."""
    return megacli.parse_disks(f"Adapter #0\n\n{text}{DONE}")


BATTERY = f"""\
BBU status for Adapter: 0

BatteryType: iBBU08
Voltage: 4073 mV
Current: 0 mA
Temperature: 34 C
Battery State: Optimal

BBU Firmware Status:

  Charging Status              : None
  Voltage                                 : OK
  Temperature                             : OK
  Learn Cycle Requested\t                  : No
  Learn Cycle Active                      : No
  Learn Cycle Status                      : OK
  Battery Pack Missing                    : No
  Battery Replacement required            : No
  Remaining Capacity Low                  : No
  Periodic Learn Required                 : No
  Transparent Learn                       : Yes
  Pack is about to fail & should be replaced : No
  Module microcode update required        : No

BBU GasGauge Status: 0x0280
  Discharging                             : Yes
  Relative State of Charge: 98 %
{DONE}"""
EVENTS = f"""\
seqNum: 0x000000fb
Time: Tue Jun  2 18:02:08 2015

Code: 0x00000072
Class: 0
Locale: 0x02
Event Description: State change on PD 0b(e0xfc/s3) from ONLINE(18) to FAILED(11)
Event Data:
===========
Device ID: 11

seqNum: 0x000000fa
Time: Tue Jun  2 18:02:07 2015

Code: 0x000000fb
Class: 2
Locale: 0x01
Event Description: VD 00/0 is now DEGRADED
Event Data:
===========
Target Id: 0

Success in AdpEventLog
{DONE}"""


def test_an_adapter_reports_who_it_is() -> None:
    """Of two, each its own."""
    both = ADAPTERS.replace(DONE, "\n") + ADAPTERS.replace("#0", "#1").replace(
        "Present\nMem", "Absent\nMem"
    )
    found = megacli.parse_adapters(both)
    assert [*found] == [0, 1]
    first = found[0]
    told = first.controller
    assert (told.model, told.serial, told.firmware, told.memory_bytes) == (
        "LSI MegaRAID SAS 9261-8i",
        "SV00000001",
        "12.12.0-0111",
        512 << 20,
    )
    assert told.state is not None
    assert told.state.health is ComponentHealth.OK
    assert [(s.name, s.temperature_celsius) for s in told.sensors] == [("ROC", 62.0)]
    assert (first.pci_device, first.battery, found[1].battery) == ("0079", True, False)
    assert first.clock_seconds == 1_333_007_013.0


@pytest.mark.parametrize(
    "damage",
    [
        ("Uncorrectable Errors : 0", "Uncorrectable Errors : 2"),
        ("Cache Preserved   : No", "Cache Preserved   : Yes"),
    ],
)
def test_an_adapter_with_bad_memory_or_data_nobody_took_needs_attention(
    damage: tuple[str, str],
) -> None:
    """It is active meanwhile."""
    state = megacli.parse_adapters(ADAPTERS.replace(*damage))[0].controller.state
    assert state is not None
    assert (state.health, damage[1][-1] in state.word) == (ComponentHealth.ATTENTION, True)


def test_where_an_adapter_is() -> None:
    """The numbers are hexadecimal."""
    assert megacli.parse_addresses(SECOND + ADDRESSES) == {1: "0000:af:1f.1", 0: "0000:06:00.0"}


@pytest.mark.parametrize(
    ("word", "health"),
    [
        ("Optimal", ComponentHealth.OK),
        ("Degraded", ComponentHealth.DEGRADED),
        ("Partially Degraded", ComponentHealth.DEGRADED),
        ("Offline", ComponentHealth.FAILED),
        ("Failed", ComponentHealth.FAILED),
        ("Recovery", ComponentHealth.ATTENTION),
        ("", ComponentHealth.ATTENTION),
    ],
)
def test_states_of_a_virtual_drive(word: str, health: ComponentHealth) -> None:
    """Unknown states need attention, a missing one too."""
    (found,) = volumes(volume(word))
    assert (found.state.health, found.state.word) == (health, word)


def test_a_virtual_drive_reports_where_the_host_sees_it() -> None:
    """Its target identifies it; a name may be anything; a stripe of mirrors has a span depth."""
    ten = volume(number=130, Name="State: Failed", Span_Depth="3")
    zero, found = volumes(volume() + ten)
    assert (zero.name, zero.level, zero.address, zero.size_bytes) == (
        "virtual drive 0",
        "RAID1",
        "2:0:0",
        931 << 30,
    )
    assert (found.label, found.level, found.address) == ("State: Failed", "RAID10", "3:2:0")
    odd = volumes(volume(RAID_Level="Primary-9, of sorts"))[0]
    assert odd.level == "Primary-9, of sorts"


def test_the_cache_is_written_through_though_it_was_set_to_write_back() -> None:
    """Its battery is not OK: 'No Write Cache if Bad BBU'."""
    now = "WriteThrough, ReadAdaptive, Direct, No Write Cache if Bad BBU"
    policy = volumes(volume(Current_Cache_Policy=now))[0].policy
    assert policy is not None
    assert (policy.write_back, policy.default_write_back, policy.read_cache) == (False, True, True)
    assert policy.word == now
    unknown = volumes(volume(Current_Cache_Policy="Quantum, Direct"))[0].policy
    assert unknown is not None
    assert (unknown.write_back, unknown.read_cache) == (None, None)


@pytest.mark.parametrize(
    ("word", "expected"), [("Enabled", True), ("Disabled", False), ("Disk's Default", None)]
)
def test_the_caches_of_the_disks_themselves(word: str, expected: bool | None) -> None:
    """The disk's default is unknown here."""
    assert volumes(volume(Disk_Cache_Policy=word))[0].disk_cache is expected


@pytest.mark.parametrize(
    ("word", "forced"),
    [("Write Cache OK if Bad BBU", True), ("No Write Cache if Bad BBU", False), ("Odd", None)],
)
def test_a_cache_that_is_forced_on(word: str, forced: bool | None) -> None:
    """Also without a battery."""
    policy = volumes(volume(Current_Cache_Policy=f"WriteBack, Direct, {word}"))[0].policy
    assert policy is not None
    assert policy.forced is forced


def test_what_runs_at_a_virtual_drive() -> None:
    """A check makes an optimal one busy; it does not improve a degraded one."""
    runs = "Ongoing Progresses:\n  Check Consistency        : Completed 4%, Taken 616 min.\n"
    (busy,) = volumes(volume(more=runs))
    assert (busy.state.health, busy.state.done_ratio) == (ComponentHealth.BUSY, 0.04)
    assert busy.state.word == "Optimal, Check Consistency"
    (degraded,) = volumes(volume("Degraded", more=runs))
    assert degraded.state.health is ComponentHealth.DEGRADED
    rebuilt = disk("Rebuild", **{"Rebuild                 ": "Completed 38%, Taken 12 min."})
    (whole,) = volumes(volume(Number_Of_Drives="1") + rebuilt)
    assert whole.state.health is ComponentHealth.OK
    assert disks(volume() + rebuilt)[0].state.done_ratio == 0.38


def test_bad_blocks_need_attention() -> None:
    """Data are lost, although all disks are present."""
    (found,) = volumes(volume(more="Bad Blocks Exist: Yes\n"))
    assert (found.state.health, found.state.word) == (
        ComponentHealth.ATTENTION,
        "Optimal, Bad Blocks Exist: Yes",
    )


def test_members_of_virtual_drives_are_below_them() -> None:
    """A disk may belong to two: it is listed twice, and is one."""
    text = volume() + disk(slot=0) + disk(slot=1) + volume(number=1) + disk(slot=1)
    assert [each.slots for each in volumes(text)] == [
        ("enclosure 252 slot 0", "enclosure 252 slot 1"),
        ("enclosure 252 slot 1",),
    ]
    assert [(each.slot, each.array) for each in disks(text)] == [
        ("enclosure 252 slot 0", "virtual drive 0"),
        ("enclosure 252 slot 1", "virtual drive 0"),
    ]


def test_no_virtual_drives_and_no_disks_are_answers() -> None:
    """A card of JBOD disks, a card without disks."""
    assert volumes("Adapter 0: No Virtual Drive Configured.\n") == ()
    none = f"Adapter #0\n\nNumber of Virtual Disks: 0\n{DONE}"
    assert (megacli.parse_volumes(none), megacli.parse_disks(none)) == ((), ())


@pytest.mark.parametrize(
    ("word", "health", "usage"),
    [
        ("Online, Spun Up", ComponentHealth.OK, "member"),
        ("Online", ComponentHealth.OK, "member"),
        ("Online, Spun down", ComponentHealth.OK, "member"),
        ("Hotspare, Spun down", ComponentHealth.OK, "hot spare"),
        ("JBOD", ComponentHealth.OK, "JBOD"),
        ("Unconfigured(good), Spun Up", ComponentHealth.OK, "unused"),
        ("Copyback", ComponentHealth.BUSY, "member"),
        ("Rebuild", ComponentHealth.REBUILDING, "member"),
        ("Unconfigured(bad)", ComponentHealth.FAILED, "unused"),
        ("Failed", ComponentHealth.FAILED, "member"),
        ("Offline", ComponentHealth.FAILED, "member"),
        ("Online, On Fire", ComponentHealth.ATTENTION, "member"),
        ("Shielded", ComponentHealth.ATTENTION, ""),
        ("", ComponentHealth.ATTENTION, ""),
    ],
)
def test_states_of_a_disk(word: str, health: ComponentHealth, usage: str) -> None:
    """An unknown state of its spindle counts as well."""
    (found,) = disks(disk(word))
    assert (found.state.health, found.state.word, found.usage) == (health, word, usage)


@pytest.mark.parametrize(
    ("told", "health"),
    [
        ({"Drive has flagged a S.M.A.R.T alert ": "Yes"}, ComponentHealth.FAILING),
        ({"Predictive Failure Count": "3"}, ComponentHealth.FAILING),
        ({"Foreign State": "Foreign"}, ComponentHealth.ATTENTION),
        ({"Media Error Count": "99", "Other Error Count": "16548"}, ComponentHealth.OK),
    ],
)
def test_a_disk_that_is_online_may_be_dying(told: dict[str, str], health: ComponentHealth) -> None:
    """Error counts are reported unchanged: rules evaluate their increase."""
    assert disks(disk(**told))[0].state.health is health
    assert disks(disk("Failed", **told))[0].state.health is ComponentHealth.FAILED
    if health is ComponentHealth.OK:
        assert disks(disk(**told))[0].errors_total == {
            "media error": 99,
            "other error": 16548,
            "predictive failure": 0,
        }


def test_who_a_disk_is() -> None:
    """Columns of its identity: SAS, SATA, and SATA in an old firmware's format."""
    (sas,) = disks(disk())
    assert (sas.slot, sas.kind, sas.model, sas.serial, sas.firmware) == (
        "enclosure 252 slot 3",
        "megaraid,11",
        "SEAGATE ST3450857SS",
        "3SK1NLYN",
        "ES64",
    )
    assert (sas.size_bytes, sas.temperature_celsius) == (0x3465F870 * 512, 35.0)
    (sata,) = disks(disk(**{"PD Type": "SATA", "Inquiry Data": SATA}))
    assert (sata.model, sata.serial) == ("WDC WD1003FBYX-01Y7B1", "WD-WMAW00000001")
    (old,) = disks(disk(**{"PD Type": "SATA", "Inquiry Data": SATA_AS_SCSI}))
    assert (old.model, old.serial) == ("ST31000528AS", "9VP00000")
    big = disks(disk(**{"Logical Sector Size": " 4096", "Drive Temperature ": "N/A"}))[0]
    assert (big.size_bytes, big.temperature_celsius) == (0x3465F870 * 4096, None)


def test_a_disk_without_an_enclosure_has_a_slot_and_none_is_lost() -> None:
    """'N/A' is no number; of two disks with one slot both are reported."""
    told = disk(enclosure="N/A") + disk(**{"Device Id": "77"}) + disk(**{"Device Id": "78"})
    none = disk(**{"Slot Number": "N/A", "Device Id": "9"})
    assert [each.slot for each in disks(told + none)] == [
        "slot 3",
        "enclosure 252 slot 3",
        "enclosure 252 slot 3 (megaraid,78)",
        "device 9",
    ]


def test_a_battery_that_is_well() -> None:
    """The answers of its fuel gauge are no alarms."""
    found = megacli.parse_battery(BATTERY)
    assert (found.state.health, found.state.word, found.ready) == (
        ComponentHealth.OK,
        "Optimal",
        True,
    )
    assert (found.charge_ratio, found.temperature_celsius) == (0.98, 34.0)


@pytest.mark.parametrize(
    ("change", "health"),
    [
        (("State: Optimal", "State: Operational"), ComponentHealth.OK),
        (("State: Optimal", "State: Degraded(Charging)"), ComponentHealth.DEGRADED),
        (("State: Optimal", "State: Non Operational"), ComponentHealth.FAILED),
        (("State: Optimal", "State: Faulty"), ComponentHealth.FAILED),
        (("State: Optimal", "State: Pondering"), ComponentHealth.ATTENTION),
        (("Battery State: Optimal\n", ""), ComponentHealth.OK),
        (
            ("Missing                    : No", "Missing                    : Yes"),
            ComponentHealth.FAILED,
        ),
        (("required            : No", "required            : Yes"), ComponentHealth.FAILED),
        (("replaced : No", "replaced : Yes"), ComponentHealth.FAILING),
        (("Low                  : No", "Low                  : Yes"), ComponentHealth.DEGRADED),
        (
            ("Active                      : No", "Active                      : Yes"),
            ComponentHealth.BUSY,
        ),
        (
            ("Learn Cycle Status                      : OK", "Learn Cycle Status : Failed"),
            ComponentHealth.ATTENTION,
        ),
        (
            ("update required        : No", "update required        : Yes"),
            ComponentHealth.ATTENTION,
        ),
        (("Status              : None", "Status              : Charging"), ComponentHealth.OK),
        (("Required                 : No", "Required                 : Yes"), ComponentHealth.OK),
        (
            ("Transparent Learn                       : Yes", "Is Upside Down : Yes"),
            ComponentHealth.ATTENTION,
        ),
        (("BBU GasGauge", "isSOHGood: No\nBBU GasGauge"), ComponentHealth.ATTENTION),
    ],
)
def test_states_of_a_battery(change: tuple[str, str], health: ComponentHealth) -> None:
    """An unknown question with the answer Yes needs attention."""
    assert change[0] in BATTERY
    found = megacli.parse_battery(BATTERY.replace(*change))
    assert found.state.health is health
    assert found.ready is {ComponentHealth.OK: True, ComponentHealth.BUSY: None}.get(health, False)


def test_no_battery_is_no_fault_and_a_failure_is_no_answer() -> None:
    """Old versions report only a failure: then the state is unknown."""
    told = "Adapter 0: Get BBU Status Failed.\n\nFW error description: \n"
    absent = f"{told} The required hardware component is not present.\n\nExit Code: 0x22\n"
    found = megacli.parse_battery(absent)
    assert (found.state.health, found.ready) == (ComponentHealth.ABSENT, None)
    with pytest.raises(ParseError, match="Exit Code"):
        megacli.parse_battery("Adapter 0: Get BBU Status Failed.\n\nExit Code: 0x01\n")


def test_how_far_a_rebuild_is() -> None:
    """Of several disks each; one that is not rebuilding is reported so."""
    text = (
        "Rebuild Progress on Device at Enclosure 252, Slot 3 Completed 38% in 12 Minutes.\n"
        "Device(Encl-252 Slot-4) is not in rebuild process\n"
        "Rebuild Progress on Device at Enclosure N/A, Slot 5 Completed 7% in 0 Minutes.\n"
    )
    assert megacli.parse_rebuilds(text + DONE) == {"enclosure 252 slot 3": 0.38, "slot 5": 0.07}
    assert megacli.parse_rebuilds(f"Device(Encl-0 Slot-7) is not in rebuild process\n{DONE}") == {}


def test_events_are_those_of_the_log_by_their_numbers() -> None:
    """The newest is listed first; a class of 0 does not make a failed disk harmless."""
    log = megacli.parse_log(EVENTS, "megaraid c0")
    assert not log.cut
    assert [(e.sequence, e.kind, e.controller, e.place) for e in log.events] == [
        (0xFA, "megaraid_vd_degraded", "megaraid c0", "virtual drive 0"),
        (0xFB, "megaraid_pd_failed", "megaraid c0", "enclosure 252 slot 3"),
    ]


@pytest.mark.parametrize(
    ("read", "text", "says"),
    [
        (megacli.parse_adapters, "", "Exit Code: 0x00"),
        (megacli.parse_adapters, DONE, "Adapter #0"),
        (megacli.parse_adapters, f"Adapter #0\n{DONE}", "Product Name"),
        (megacli.parse_addresses, DONE, "PCI information"),
        (megacli.parse_addresses, f"Bus Number : x\n{DONE}", "Bus Number"),
        (megacli.parse_volumes, f"Adapter #0\n\n{disk()}{DONE}", "Virtual Drive"),
        (megacli.parse_volumes, volume(), "Exit Code: 0x00"),
        (megacli.parse_disks, f"Adapter #0\n\n{disk()}\n\nExit Code: 0x01\n", "Exit Code: 0x00"),
        (megacli.parse_disks, f"Adapter #0\n{volume()}{DONE}", "Enclosure Device ID"),
        (megacli.parse_disks, f"Adapter #0\n{disk()}Adapter #1\n{disk()}{DONE}", "one adapter"),
        (megacli.parse_battery, DONE, "BBU status"),
        (
            megacli.parse_battery,
            f"BBU status for Adapter: 0\nVoltage: 1 mV\n{DONE}",
            "Battery State",
        ),
        (megacli.parse_rebuilds, DONE, "Rebuild Progress"),
        (
            lambda text: megacli.parse_log(text, "c"),
            EVENTS.replace("0x00\n", "0x0b\n"),
            "Exit Code",
        ),
    ],
)
def test_an_output_that_is_none_is_refused(
    read: Callable[[str], object], text: str, says: str
) -> None:
    """The error has the expected text; half an output has fewer disks, and is refused."""
    with pytest.raises(ParseError, match=re.escape(says)):
        read(text)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=300), st.integers(0, 1500))
def test_no_damage_is_anything_but_a_refusal(junk: str, at: int) -> None:
    """Any text in the middle of an output: it is parsed, or refused."""
    everything = f"Adapter #0\n{volume()}{disk()}{DONE}"
    for read, text in (
        (megacli.parse_adapters, ADAPTERS),
        (megacli.parse_addresses, ADDRESSES),
        (megacli.parse_volumes, everything),
        (megacli.parse_disks, everything),
        (megacli.parse_battery, BATTERY),
        (lambda told: megacli.parse_log(told, "c"), EVENTS),
    ):
        try:
            read(text[:at] + junk + text[at:])
        except ParseError as error:
            assert str(error)  # noqa: PT017 - a refusal has a reason


PCI = "/sys/bus/pci/drivers/megaraid_sas"
CARD = f"{PCI}/0000:06:00.0"
MAKER = Backend(
    "megaraid",
    (megacli_reader.DRIVER,),
    megacli_reader.PROGRAMS,
    megacli_reader.find,
    megacli_reader.state,
    megacli_reader.log,
    numbered=True,
)


class FakeMachine(Machine):
    """The test host with a MegaRAID card, and a probe with canned answers."""

    def __init__(self, cards: dict[str, str]) -> None:
        """Create the cards: their directories in sysfs, with their PCI device number."""
        super().__init__("/", probe=self.answer)
        files: dict[str, str | bytes | None] = {}
        for number, (card, kind) in enumerate(cards.items()):
            files |= {f"{card}/host{number}": None, f"{card}/device": f"{kind}\n"}
        self.there = Memory(files)
        self.answers: dict[str, str | Exception] = {}
        self.asked: list[str] = []

    def names(self, path: str) -> list[str]:
        """Return the names of the other machine."""
        return self.there.names(path)

    def read(self, path: str) -> str:
        """Return the text of the other machine."""
        return self.there.read(path)

    def another(self, seen: Callable[[str, bytes], None] | None = None) -> Machine:
        """Return the same machine for another thread."""
        del seen
        return self

    def close(self) -> None:
        """Do nothing: several threads use it."""

    def answer(self, _: str, arguments: Sequence[str], __: float) -> str:
        """Answer like the probe."""
        command = " ".join(arguments)
        self.asked.append(command)
        assert command.endswith(" -NoLog")
        found = self.answers.get(
            command.removesuffix(" -NoLog"), ProgramNotFoundError(f"'{arguments[0]}': install it")
        )
        if isinstance(found, Exception):
            raise found
        return json.dumps({"status": 0, "signal": None, "stdout": found, "stderr": ""})

    def look(self) -> Controllers:
        """Return the result of a poll."""
        poller = ControllerPoller([MAKER], lambda: 0.0)
        poller.read(self)
        assert poller.settled(DEADLINE_SECONDS)
        return poller.read(self)


TREE = f"Adapter #0\n\n{volume('Degraded')}{disk('Rebuild', slot=0)}{disk(slot=1)}{DONE}"
SPARE = disk("Hotspare, Spun Up", slot=7)
LIST = f"Adapter #0\n\n{disk('Rebuild', slot=0)}{disk(slot=1)}{SPARE}{DONE}"
LOG = "MegaCli -AdpEventLog -GetLatest 512 -f /dev/stdout -a0"


@pytest.fixture
def machine() -> FakeMachine:
    """Return a machine with a card whose mirror is rebuilding."""
    found = FakeMachine({CARD: "0x0079"})
    found.answers = {
        "MegaCli -AdpGetPciInfo -aALL": ADDRESSES,
        "MegaCli -AdpAllInfo -a0": ADAPTERS,
        "MegaCli -LdPdInfo -a0": TREE,
        "MegaCli -PDList -a0": LIST,
        "MegaCli -AdpBbuCmd -GetBbuStatus -a0": BATTERY,
        "MegaCli -PDRbld -ShowProg -PhysDrv [252:0] -a0": (
            "Rebuild Progress on Device at Enclosure 252, Slot 0 Completed 38% in 9 Minutes.\n"
            + DONE
        ),
        LOG: EVENTS,
    }
    return found


def one(value: Controllers) -> Controller:
    """Return the controller of a poll without problems."""
    assert value.problems == ()
    (found,) = value.controllers
    return found


def test_a_card_is_polled_for_all_it_has(machine: FakeMachine) -> None:
    """The program is the first installed one; the host is that of the PCI address."""
    found = one(machine.look())
    assert (found.name, found.host, found.serial) == ("megaraid c0", "host0", "SV00000001")
    assert [(a.name, a.state.health) for a in found.arrays] == [
        ("virtual drive 0", ComponentHealth.DEGRADED)
    ]
    assert [(d.slot, d.state.health, d.state.done_ratio, d.array) for d in found.disks] == [
        ("enclosure 252 slot 0", ComponentHealth.REBUILDING, 0.38, "virtual drive 0"),
        ("enclosure 252 slot 1", ComponentHealth.OK, None, "virtual drive 0"),
        ("enclosure 252 slot 7", ComponentHealth.OK, None, ""),
    ]
    assert [each.ready for each in found.batteries] == [True]
    assert found.clock_offset_seconds is not None
    assert found.clock_offset_seconds < 0


@pytest.mark.parametrize("kind", ["0x10e2", "0x10E6", "", "79"])
def test_a_card_that_megacli_may_crash_is_never_queried_by_it(kind: str) -> None:
    """Nor one next to it, nor one of an unknown kind."""
    found = FakeMachine({CARD: "0x0079", f"{PCI}/0000:3b:00.0": kind})
    (problem,) = found.look().problems
    assert "MegaCli" in problem.reason
    assert found.asked == []


def test_a_card_that_is_not_listed_is_a_problem(machine: FakeMachine) -> None:
    """The driver has two hosts, and MegaCli lists one."""
    two = FakeMachine({CARD: "0x0079", f"{PCI}/0000:af:1f.1": "0x005b"})
    two.answers = machine.answers
    value = two.look()
    assert [each.name for each in value.controllers] == ["megaraid c0"]
    assert [(each.controller, each.reason) for each in value.problems] == [
        ("megaraid unlisted", "'MegaCli -AdpGetPciInfo': expected 2 controllers, got 1")
    ]


PRESENT = """\
                Device Present
                ================
Virtual Drives    : {drives}
  Degraded        : {degraded}
  Offline         : 0
Physical Devices  : 4
  Disks           : {disks}
  Critical Disks  : 0
  Failed Disks    : {failed}
"""


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, []),
        ({"drives": 2}, ["expected 2 virtual drives, got 1"]),
        ({"degraded": 2}, ["expected 2 virtual drives without redundancy, got 1"]),
        ({"disks": 5}, ["expected 5 disks, got 3"]),
        ({"failed": 2}, ["expected 2 disks that failed or are failing, got 1"]),
    ],
)
def test_what_an_adapter_counts_and_does_not_list_is_not_known(
    machine: FakeMachine, counts: dict[str, int], expected: list[str]
) -> None:
    """Each answer ends correctly, and one of them lacks what the other counts."""
    told = {"drives": 1, "degraded": 1, "disks": 3, "failed": 1, **counts}
    whole = machine.answers["MegaCli -AdpAllInfo -a0"]
    assert isinstance(whole, str)
    machine.answers["MegaCli -AdpAllInfo -a0"] = whole.replace(DONE, PRESENT.format(**told) + DONE)
    (found,) = machine.look().controllers
    assert [reason.partition(": ")[2].partition(":")[0] for reason in found.read_errors] == expected


def test_a_part_that_cannot_be_read_leaves_the_others(machine: FakeMachine) -> None:
    """What is unknown is reported."""
    machine.answers["MegaCli -LdPdInfo -a0"] = "Segmentation fault\n"
    value = machine.look()
    (found,) = value.controllers
    assert (found.arrays, len(found.disks)) == ((), 3)
    (problem,) = value.problems
    assert "-LdPdInfo" in problem.reason


@pytest.mark.parametrize("word", ["Failed", "Onlein, Spun Up"])
def test_a_disk_that_is_listed_twice_is_as_bad_as_the_worse_of_both(
    machine: FakeMachine, word: str
) -> None:
    """Below its virtual drive it has failed, or has an unknown state; the list of disks is good."""
    tree = f"Adapter #0\n\n{volume('Degraded')}{disk('Rebuild', slot=0)}{disk(word, slot=1)}{DONE}"
    machine.answers["MegaCli -LdPdInfo -a0"] = tree
    value = machine.look()
    (found,) = value.controllers
    states = {each.slot: each.state for each in found.disks}
    assert states["enclosure 252 slot 1"].health is not ComponentHealth.OK
    assert states["enclosure 252 slot 1"].word == word
    (problem,) = value.problems
    assert problem.reason == (
        "'MegaCli -LdPdInfo': enclosure 252 slot 1: expected 'Online, Spun Up',"
        f" as 'MegaCli -PDList' reports, got '{word}'"
    )


def test_a_virtual_drive_that_lists_fewer_disks_than_it_has_needs_attention() -> None:
    """It reports optimal, and one of its two disks is missing."""
    (short,) = volumes(volume() + disk(slot=1))
    assert short.state.health is ComponentHealth.ATTENTION
    assert "Number Of Drives: 2, 1 listed" in short.state.word


def test_a_card_without_a_battery_is_not_asked_for_one(machine: FakeMachine) -> None:
    """Old versions would report a failure. A forced cache is known to be unprotected."""
    without = ADAPTERS.replace("BBU              : Present", "BBU              : Absent")
    machine.answers["MegaCli -AdpAllInfo -a0"] = without
    (battery,) = one(machine.look()).batteries
    assert (battery.state.health, battery.ready) == (ComponentHealth.ABSENT, None)
    assert not any("GetBbuStatus" in command for command in machine.asked)


def test_a_card_that_reports_nothing_is_a_problem(machine: FakeMachine) -> None:
    """Neither arrays nor disks."""
    for command in ("MegaCli -LdPdInfo -a0", "MegaCli -PDList -a0"):
        machine.answers[command] = "Exit Code: 0x01\n"
    value = machine.look()
    assert value.controllers == ()
    assert "-PDList" in value.problems[0].reason


def test_after_a_question_that_hangs_none_follows(machine: FakeMachine) -> None:
    """The driver may reset the card by then."""
    machine.answers["MegaCli -LdPdInfo -a0"] = DeadlineError("killed after 60 s")
    assert [each.reason for each in machine.look().problems] == ["killed after 60 s"]
    assert machine.asked[-1] == "MegaCli -LdPdInfo -a0 -NoLog"


def test_without_a_program_or_a_probe_that_is_reported(machine: FakeMachine) -> None:
    """Each of its possible names is tried; without a probe none is."""
    machine.answers = {}
    (problem,) = machine.look().problems
    assert "'MegaCli64': install it" in problem.reason
    assert len(machine.asked) == 3
    machine.asked.clear()
    machine.answers = {"MegaCli64 -AdpGetPciInfo -aALL": AbsentError("no probe")}
    (problem,) = machine.look().problems
    assert "no probe" in problem.reason
    assert len(machine.asked) == 1
