"""LSI's adapters with mirrors, read with sas2ircu and mpt-status, and plain adapters."""

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
from iowarden.collectors.raid import controller
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.raid.mpt import mpt_status, mptsas, sasircu
from iowarden.daemon.polling.controllers import EVENT_SECONDS, ControllerPoller

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iowarden.collectors.raid.controller import Controller, Controllers

DEADLINE_SECONDS = 20.0
LIST = """\
LSI Corporation SAS2 IR Configuration Utility.

         Adapter      Vendor  Device                       SubSys  SubSys
 Index    Type          ID      ID    Pci Address          Ven ID  Dev ID
 -----  ------------  ------  ------  -----------------    ------  ------
   0     SAS2008     1000h    72h   00h:03h:00h:00h      1028h   1f1eh
   1     SAS2308_2   1000h    87h   00h:84h:1fh:01h      1000h   3020h
SAS2IRCU: Utility Completed Successfully.
"""
NO_ADAPTER = "Avago Technologies SAS3 IR Configuration Utility.\n\nSAS3IRCU: MPTLib2 Error 1\n"
RULE = "-" * 72


def display(volumes: str, disks: str) -> str:
    """Return an output of 'DISPLAY'."""
    return "\n".join(
        [
            "Read configuration has been initiated for controller 0",
            *(RULE, "Controller information", RULE),
            "  Controller type                         : SAS2008",
            "  Firmware version                        : 7.15.08.00",
            "  RAID Support                            : Yes",
            *(RULE, "IR Volume information", RULE, volumes, RULE),
            *("Physical device information", RULE, "Initiator at ID #0", "", disks, RULE),
            *("Enclosure information", RULE),
            "  Enclosure#                              : 1",
            RULE,
            "SAS2IRCU: Command DISPLAY Completed Successfully.",
            "SAS2IRCU: Utility Completed Successfully.",
            "",
        ]
    )


def volume(state: str = "Okay (OKY)", *places: str, number: int = 286) -> str:
    """Return a volume of 'DISPLAY'."""
    lines = [
        "IR volume 1",
        f"  Volume ID                               : {number}",
        f"  Status of volume                        : {state}",
        "  Volume wwid                             : 0123456789abcdef",
        "  RAID level                              : RAID1",
        "  Size (in MB)                            : 1000",
        "  Physical hard disks                     :",
    ]
    places = places or ("1:0", "1:1")
    return "\n".join(
        [*lines, *(f"  PHY[{n}] Enclosure#/Slot#    : {p}" for n, p in enumerate(places))]
    )


def disk(
    place: str, state: str = "Optimal (OPT)", serial: str = "S1", kind: str = "a Hard disk"
) -> str:
    """Return a device of 'DISPLAY'."""
    enclosure, slot = place.split(":")
    return f"""\
Device is {kind}
  Enclosure #                             : {enclosure}
  Slot #                                  : {slot}
  State                                   : {state}
  Size (in MB)/(in sectors)               : 2000/4095999
  Manufacturer                            : ATA
  Model Number                            : ST1000NM0033-9ZM
  Firmware Revision                       : SN04
  Serial No                               : {serial}
  Protocol                                : SATA
"""


WHOLE = display(volume(), disk("1:0") + disk("1:1", serial="S2"))
STATUS = """\
Background command progress status for controller 0...
IR Volume 1
  Volume ID                               : 286
  Current operation                       : {operation}
  Volume status                           : {status}
  Volume state                            : Degraded
  Percentage complete                     : 4.19%
SAS2IRCU: Command STATUS Completed Successfully.
SAS2IRCU: Utility Completed Successfully.
"""
NO_VOLUMES = """\
SAS2IRCU: there are no IR volumes on the controller!
SAS2IRCU: Error executing command STATUS.
"""
QUIET = STATUS.format(operation="None", status="Enabled").replace("  Percent", "  Formerly ")
MPT = """\
ioc:0 vol_id:0 type:IM raidlevel:RAID-1 num_disks:2 size(GB):136 state: {state} flags: {flags}
ioc:0 phys_id:1 scsi_id:8 vendor:SEAGATE  product_id:ST3146356SS      revision:0009 size(GB):136 \
state: {one} flags: {set} sync_state: 100 ASC/ASCQ:0x11/0x00 SMART ASC/ASCQ:0x{smart}/0x00
ioc:0 phys_id:0 scsi_id:1 vendor:ATA      product_id:Hitachi HUA72101 revision:AJ0A size(GB):136 \
state: ONLINE flags: NONE sync_state: 100 ASC/ASCQ:0xff/0xff SMART ASC/ASCQ:0xff/0xff
ioc:0 spare_id:2 scsi_id:9 vendor:SEAGATE  product_id:ST3146356SS      revision:0009 size(GB):136 \
state: ONLINE flags: NONE sync_state: n/a ASC/ASCQ:0xff/0xff SMART ASC/ASCQ:0xff/0xff
scsi_id:1 100%
scsi_id:8 70%
"""
WELL = {"state": "OPTIMAL", "flags": "ENABLED", "one": "ONLINE", "set": "NONE", "smart": "ff"}


def test_of_several_volumes_it_is_not_determined_whose_disk_or_progress_a_line_is() -> None:
    """Each would have the disks of the others, and the progress of their resynchronization."""
    first = MPT.format(**WELL | {"flags": "ENABLED RESYNC_IN_PROGRESS"})
    other = first.splitlines()[0].replace("vol_id:0", "vol_id:1")
    found = mpt_status.parse_status(f"{other.replace(' RESYNC_IN_PROGRESS', '')}\n{first}")
    assert [(each.slots, each.state.done_ratio) for each in found.arrays] == [((), None)] * 2
    assert {disk.array for disk in found.disks} == {""}
    (alone,) = mpt_status.parse_status(first).arrays
    assert (alone.slots, alone.state.done_ratio) == (("phy 1", "phy 0"), 0.7)


def test_adapters_are_listed_with_their_pci_address() -> None:
    """All its parts are hexadecimal; no adapter at all is no error."""
    assert [(each.index, each.model, each.address) for each in sasircu.parse_list(LIST)] == [
        (0, "SAS2008", "0000:03:00.0"),
        (1, "SAS2308_2", "0000:84:1f.1"),
    ]
    assert sasircu.parse_list(NO_ADAPTER) == ()


def test_a_volume_and_its_disks() -> None:
    """Sizes are of 2^20 bytes; a volume is named by its persistent number."""
    found = sasircu.parse_display(WHOLE, "sas2ircu 0")
    (mirror,) = found.arrays
    assert (mirror.name, mirror.level, mirror.size_bytes) == ("volume 286", "RAID1", 1000 << 20)
    assert (mirror.state.health, mirror.slots) == (
        ComponentHealth.OK,
        ("enclosure 1 slot 0", "enclosure 1 slot 1"),
    )
    first, second = found.disks
    assert (first.slot, first.model, first.serial) == (
        "enclosure 1 slot 0",
        "ST1000NM0033-9ZM",
        "S1",
    )
    assert (first.size_bytes, first.array, second.serial) == (2000 << 20, "volume 286", "S2")


@pytest.mark.parametrize(
    ("word", "health"),
    [
        ("Okay (OKY)", ComponentHealth.OK),
        ("Online (ONL)", ComponentHealth.OK),
        ("Initializing (INIT)", ComponentHealth.BUSY),
        ("Degraded (DGD)", ComponentHealth.DEGRADED),
        ("Failed (FLD)", ComponentHealth.FAILED),
        ("Missing (MIS)", ComponentHealth.FAILED),
        ("Inactive (INA)", ComponentHealth.ATTENTION),
        ("Okay, I suppose", ComponentHealth.ATTENTION),
        ("", ComponentHealth.ATTENTION),
    ],
)
def test_states_of_a_volume(word: str, health: ComponentHealth) -> None:
    """Unknown states need attention, whatever they begin with."""
    (found,) = sasircu.parse_display(display(volume(word), disk("1:0") + disk("1:1")), "x").arrays
    assert found.state.health is health


@pytest.mark.parametrize(
    ("word", "health"),
    [
        ("Optimal (OPT)", ComponentHealth.OK),
        ("Ready (RDY)", ComponentHealth.OK),
        ("Hot Spare (HSP)", ComponentHealth.OK),
        ("Rebuilding (RBLD)", ComponentHealth.REBUILDING),
        ("Out of Sync (OSY)", ComponentHealth.DEGRADED),
        ("Degraded (DGD)", ComponentHealth.DEGRADED),
        ("Failed (FLD)", ComponentHealth.FAILED),
        ("Missing (MIS)", ComponentHealth.FAILED),
        ("Available (AVL)", ComponentHealth.ATTENTION),
        ("Standby (SBY)", ComponentHealth.ATTENTION),
        ("Pondering (PON)", ComponentHealth.ATTENTION),
    ],
)
def test_states_of_a_disk(word: str, health: ComponentHealth) -> None:
    """'Standby' means a device that is no disk, so a disk with it needs attention."""
    (found,) = sasircu.parse_display(display(volume(), disk("1:0", word)), "x").disks
    assert (found.state.health, found.state.word) == (health, word.partition(" (")[0])


def test_disks_that_are_missing_are_all_at_one_place_and_each_is_reported() -> None:
    """The program puts them at 0:0; an enclosure is no disk, a device that may be one is kept."""
    text = display(
        volume("Degraded (DGD)", "1:0", "0:0", "0:0"),
        disk("1:0")
        + disk("0:0", "Missing (MIS)", "S7")
        + disk("0:0", "Missing (MIS)", "S8")
        + disk("1:9", "Standby (SBY)", kind="a Enclosure services device")
        + disk("1:8", "Ready (RDY)", kind="a unknown device"),
    )
    found = sasircu.parse_display(text, "x")
    assert [(d.slot, d.serial, d.state.health, d.array) for d in found.disks] == [
        ("enclosure 1 slot 0", "S1", ComponentHealth.OK, "volume 286"),
        ("enclosure 0 slot 0", "S7", ComponentHealth.FAILED, "volume 286"),
        ("enclosure 0 slot 0 (2)", "S8", ComponentHealth.FAILED, "volume 286"),
        ("enclosure 1 slot 8", "S1", ComponentHealth.OK, ""),
    ]


@pytest.mark.parametrize(
    ("state", "operation", "status", "health", "done"),
    [
        ("Okay (OKY)", "None", "Enabled", ComponentHealth.OK, None),
        ("Okay (OKY)", "Consistency Check", "Enabled", ComponentHealth.BUSY, 0.0419),
        ("Degraded (DGD)", "Synchronize", "Enabled", ComponentHealth.REBUILDING, 0.0419),
        ("Degraded (DGD)", "Consistency Check", "Enabled", ComponentHealth.DEGRADED, 0.0419),
        ("Failed (FLD)", "Synchronize", "Enabled", ComponentHealth.FAILED, 0.0419),
        ("Okay (OKY)", "None", "Disabled", ComponentHealth.ATTENTION, None),
    ],
)
def test_what_runs_at_a_volume(
    state: str, operation: str, status: str, health: ComponentHealth, done: float | None
) -> None:
    """Tasks that restore redundancy, and others."""
    (mirror,) = sasircu.parse_display(display(volume(state), disk("1:0") + disk("1:1")), "x").arrays
    tasks = sasircu.parse_status(STATUS.format(operation=operation, status=status))
    found = sasircu.with_task(mirror, tasks["volume 286"]).state
    assert (found.health, found.done_ratio) == (health, pytest.approx(done) if done else None)
    assert sasircu.with_task(mirror, None) == mirror


def test_no_volumes_is_an_answer() -> None:
    """The program reports an error; firmware without RAID does not support the query."""
    assert sasircu.parse_status(NO_VOLUMES) == {}
    unknown = "SAS2IRCU: The STATUS command is not supported by the firmware currently loaded\n"
    assert sasircu.parse_status(unknown) == {}
    found = sasircu.parse_display(display("", disk("1:0", "Ready (RDY)")), "x")
    assert (found.arrays, len(found.disks)) == ((), 1)


@pytest.mark.parametrize(
    ("read", "text", "says"),
    [
        (sasircu.parse_list, "", "Utility Completed"),
        (sasircu.parse_list, LIST.replace("Index", "Nummer"), "Index"),
        (sasircu.parse_list, LIST.replace("00h:03h:00h:00h", "elsewhere"), "PCI address"),
        (sasircu.parse_status, "SAS2IRCU: Utility Completed Successfully.\n", "Command STATUS"),
        (sasircu.parse_status, "SAS2IRCU: Command STATUS Completed Successfully.\n", "IR Volume 1"),
        (
            lambda text: sasircu.parse_display(text, "x"),
            WHOLE[: len(WHOLE) // 2],
            "Command DISPLAY",
        ),
        (
            lambda text: sasircu.parse_display(text, "x"),
            WHOLE.replace("Physical device", "Other"),
            "Physical device information",
        ),
    ],
)
def test_an_output_of_sas2ircu_that_is_none_is_refused(
    read: Callable[[str], object], text: str, says: str
) -> None:
    """The error has the expected text."""
    with pytest.raises(ParseError, match=re.escape(says)):
        read(text)


def test_mirrors_of_mpt_status() -> None:
    """A spare is no member; a vendor of 'ATA' is none."""
    found = mpt_status.parse_status(MPT.format(**WELL))
    (mirror,) = found.arrays
    assert (mirror.name, mirror.level, mirror.state.health, mirror.state.done_ratio) == (
        "volume 0",
        "RAID1",
        ComponentHealth.OK,
        None,
    )
    assert mirror.slots == ("phy 1", "phy 0")
    assert [(d.slot, d.model, d.firmware, d.usage, d.state.health) for d in found.disks] == [
        ("phy 1", "SEAGATE ST3146356SS", "0009", "member", ComponentHealth.OK),
        ("phy 0", "Hitachi HUA72101", "AJ0A", "member", ComponentHealth.OK),
        ("phy 2", "SEAGATE ST3146356SS", "0009", "spare", ComponentHealth.OK),
    ]


@pytest.mark.parametrize(
    ("told", "array", "first"),
    [
        ({"state": "DEGRADED", "one": "MISSING"}, ComponentHealth.DEGRADED, ComponentHealth.FAILED),
        ({"state": "FAILED", "one": "FAILED"}, ComponentHealth.FAILED, ComponentHealth.FAILED),
        ({"state": "UNKNOWN"}, ComponentHealth.ATTENTION, ComponentHealth.OK),
        ({"flags": "ENABLED QUIESCED"}, ComponentHealth.ATTENTION, ComponentHealth.OK),
        ({"flags": "ENABLED VOLUME_INACTIVE"}, ComponentHealth.ATTENTION, ComponentHealth.OK),
        ({"flags": "NONE"}, ComponentHealth.ATTENTION, ComponentHealth.OK),
        ({"flags": "RESYNC_IN_PROGRESS"}, ComponentHealth.ATTENTION, ComponentHealth.OK),
        ({"one": "INITIALIZING"}, ComponentHealth.OK, ComponentHealth.BUSY),
        ({"one": "OFFLINE_REQUESTED"}, ComponentHealth.OK, ComponentHealth.FAILED),
        ({"one": "PONDERING"}, ComponentHealth.OK, ComponentHealth.ATTENTION),
        ({"set": "OUT_OF_SYNC"}, ComponentHealth.OK, ComponentHealth.DEGRADED),
        ({"set": "QUIESCED"}, ComponentHealth.OK, ComponentHealth.ATTENTION),
        ({"smart": "5d"}, ComponentHealth.OK, ComponentHealth.FAILING),
        ({"smart": "5d", "one": "FAILED"}, ComponentHealth.OK, ComponentHealth.FAILED),
    ],
)
def test_states_of_mirrors(
    told: dict[str, str], array: ComponentHealth, first: ComponentHealth
) -> None:
    """Each has its own fault; a disk that predicts its failure is still online."""
    found = mpt_status.parse_status(MPT.format(**{**WELL, **told}))
    assert (found.arrays[0].state.health, found.disks[0].state.health) == (array, first)


def test_a_mirror_that_is_synchronised_reports_how_far_it_is() -> None:
    """The progress of the disk that is behind; a leftover number is none."""
    told = {"state": "DEGRADED", "flags": "ENABLED RESYNC_IN_PROGRESS", "set": "OUT_OF_SYNC"}
    found = mpt_status.parse_status(MPT.format(**{**WELL, **told}))
    assert (found.arrays[0].state.health, found.arrays[0].state.done_ratio) == (
        ComponentHealth.REBUILDING,
        0.7,
    )
    assert found.disks[0].state.health is ComponentHealth.REBUILDING
    optimal = mpt_status.parse_status(MPT.format(**{**WELL, "flags": told["flags"]}))
    assert optimal.arrays[0].state.health is ComponentHealth.BUSY


def test_the_old_and_the_short_style_are_read_as_well() -> None:
    """A shorter one has fewer data."""
    old = (
        "ioc0 vol_id 3 type IME, 2 phy, 73 GB, state DEGRADED, flags ENABLED RESYNC_IN_PROGRESS\n"
        "ioc0 phy 0 scsi_id 1 ATA      Hitachi HUA72101 AJ0A, 931 GB, state ONLINE, flags NONE\n"
        "ioc0 phy 1 scsi_id 32 ATA      ST3808110AS      J   , 74 GB, state ONLINE, "
        "flags OUT_OF_SYNC\n"
    )
    found = mpt_status.parse_status(old)
    assert (found.arrays[0].name, found.arrays[0].level) == ("volume 3", "RAID1E")
    assert found.arrays[0].state.health is ComponentHealth.REBUILDING
    assert [(d.model, d.state.health) for d in found.disks] == [
        ("Hitachi HUA72101", ComponentHealth.OK),
        ("ST3808110AS", ComponentHealth.REBUILDING),
    ]
    short = "log_id 0 DEGRADED\nphys_id 0 ONLINE\nphys_id:1 MISSING\nspare_id:2 ONLINE\n"
    told = mpt_status.parse_status(short)
    assert told.arrays[0].state.health is ComponentHealth.DEGRADED
    assert [disk.state.health for disk in told.disks] == [
        ComponentHealth.OK,
        ComponentHealth.FAILED,
        ComponentHealth.OK,
    ]


def test_an_output_of_mpt_status_that_is_none_is_refused() -> None:
    """For a missing module the remedy is reported; an invalid line may hide a disk."""
    with pytest.raises(ParseError, match="load the module 'mptctl'"):
        mpt_status.parse_status("open /dev/mptctl: No such device\n")
    with pytest.raises(ParseError, match="You seem to have no SCSI disks"):
        mpt_status.parse_status("You seem to have no SCSI disks attached to your HBA\n")
    with pytest.raises(ParseError, match="a volume"):
        mpt_status.parse_status("phys_id 0 ONLINE\n")
    assert mpt_status.parse_ids("Checking for SCSI ID:0\nFound SCSI id=0, use ...\n") == (0,)
    assert mpt_status.parse_ids("Checking for SCSI ID:0\nNothing found, contact the author\n") == ()
    with pytest.raises(ParseError, match="Found SCSI id"):
        mpt_status.parse_ids("")


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=300), st.integers(0, 2000))
def test_no_damage_is_anything_but_a_refusal(junk: str, at: int) -> None:
    """Any text in the middle of an output: it is parsed, or refused."""
    for read, text in (
        (sasircu.parse_list, LIST),
        (sasircu.parse_status, STATUS),
        (lambda told: sasircu.parse_display(told, "x"), WHOLE),
        (mpt_status.parse_status, MPT.format(**WELL)),
        (mpt_status.parse_ids, "Found SCSI id=0"),
    ):
        try:
            read(text[:at] + junk + text[at:])
        except ParseError as error:
            assert str(error)  # noqa: PT017 - a refusal has a reason


HBA = "/sys/bus/pci/drivers/mpt3sas/0000:03:00.0/host5"
SECOND = "/sys/bus/pci/drivers/mpt3sas/0000:84:1f.1/host6"
OLD = "/sys/bus/pci/drivers/mptsas/0000:07:00.0/host2"
SPI = "/sys/bus/pci/drivers/mptspi/0000:08:00.0/host3"


def shown(address: str, *, block: bool = True, kind: int = 0, wwid: str = "") -> dict[str, str]:
    """Return a SCSI device as in sysfs."""
    path = f"/sys/class/scsi_device/{address}/device"
    files = {f"{path}/type": f"{kind}\n"} | ({f"{path}/wwid": f"{wwid}\n"} if wwid else {})
    return files | ({f"{path}/block/sda/size": "1\n"} if block else {})


class FakeMachine(Machine):
    """The test host with other adapters, and a probe with canned answers."""

    def __init__(self, hosts: Sequence[str], *devices: dict[str, str]) -> None:
        """Create adapters, and SCSI devices at them; `answers` are texts or errors."""
        super().__init__("/", probe=self.answer)
        files: dict[str, str | bytes | None] = dict.fromkeys(hosts)
        for each in devices:
            files.update(each)
        self.there = Memory(files)
        self.answers: dict[str, str | Exception] = {}
        self.asked: list[str] = []
        self.now = 0.0

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
        found = self.answers.get(command, ProgramNotFoundError(f"'{arguments[0]}': install it"))
        if isinstance(found, Exception):
            raise found
        return json.dumps({"status": 1, "signal": None, "stdout": found, "stderr": ""})

    def look(self) -> Controllers:
        """Return the result of a poll."""
        poller = ControllerPoller(mptsas.BACKENDS, lambda: self.now)
        self.now += EVENT_SECONDS
        poller.read(self)
        assert poller.settled(DEADLINE_SECONDS)
        return poller.read(self)


def one(value: Controllers) -> Controller:
    """Return the controller of a poll without problems."""
    assert value.problems == ()
    (found,) = value.controllers
    return found


def test_a_plain_adapter_is_not_queried_and_is_no_problem() -> None:
    """24 disks, each with its block device, an enclosure, and no program: no problem."""
    disks = [shown(f"5:0:{number}:0") for number in range(24)]
    machine = FakeMachine([HBA], *disks, shown("5:0:24:0", block=False, kind=13))
    assert machine.look() == controller.Controllers()
    assert machine.asked == []


def test_a_mirror_is_requested_by_the_name_a_person_uses() -> None:
    """The adapter is found by its PCI address, the volume by its number in the kernel's wwid."""
    machine = FakeMachine(
        [HBA, SECOND],
        shown("5:1:0:0", wwid="naa.600508e000000000efcdab8967452301"),
        shown("5:1:1:0", wwid="naa.600508e0000000001111111111111111"),
        shown("6:0:0:0"),
    )
    machine.answers = {
        "sas3ircu LIST": NO_ADAPTER,
        "sas2ircu LIST": LIST,
        "sas2ircu 0 DISPLAY": WHOLE,
        "sas2ircu 0 STATUS": STATUS.format(operation="Consistency Check", status="Enabled"),
    }
    found = one(machine.look())
    assert (found.name, found.host) == ("sas2ircu 0", "host5")
    (mirror,) = found.arrays
    assert (mirror.address, mirror.state.health) == ("1:0:0", ComponentHealth.BUSY)
    assert not any("sas2ircu 1" in command for command in machine.asked)


def test_an_adapter_that_both_programs_list_is_read_once() -> None:
    """Both would give two alerts for one fault, and twice the queries."""
    machine = FakeMachine([HBA], shown("5:1:0:0"))
    for program in ("sas2ircu", "sas3ircu"):
        machine.answers |= {
            f"{program} LIST": LIST,
            f"{program} 0 DISPLAY": WHOLE,
            f"{program} 0 STATUS": QUIET,
        }
    assert one(machine.look()).name == "sas3ircu 0"


def test_a_volume_that_cannot_be_distinguished_from_another_has_no_address() -> None:
    """A single one is the volume; of two, none is assumed."""
    machine = FakeMachine([HBA], shown("5:1:0:0"))
    machine.answers = {
        "sas2ircu LIST": LIST,
        "sas2ircu 0 DISPLAY": WHOLE,
        "sas2ircu 0 STATUS": QUIET,
    }
    assert one(machine.look()).arrays[0].address == "1:0:0"
    machine.there.write(dict(shown("5:1:1:0")))
    assert one(machine.look()).arrays[0].address == ""


def test_a_volume_without_the_program_is_a_problem() -> None:
    """There is a mirror, and its state is unknown."""
    machine = FakeMachine([HBA], shown("5:1:0:0"))
    value = machine.look()
    assert value.controllers == ()
    ((name, reason),) = ((each.controller, each.reason) for each in value.problems)
    assert (name, reason) == ("host5", "'sas3ircu': install it; 'sas2ircu': install it")


def test_an_adapter_that_is_not_listed_is_a_problem() -> None:
    """Its program is of another generation."""
    machine = FakeMachine([HBA], shown("5:1:0:0"))
    machine.answers = {"sas3ircu LIST": NO_ADAPTER, "sas2ircu LIST": NO_ADAPTER}
    (problem,) = machine.look().problems
    assert "expected the adapter of host5, got none" in problem.reason


def test_a_mirror_that_failed_is_seen_by_the_disks_it_leaves() -> None:
    """The kernel removes the volume; its disks remain without block devices."""
    machine = FakeMachine([HBA], shown("5:0:0:0", block=False))
    assert machine.look() == controller.Controllers()  # no program: no volume is known
    machine.answers = {
        "sas2ircu LIST": LIST,
        "sas2ircu 0 DISPLAY": display(volume("Failed (FLD)"), disk("1:0", "Failed (FLD)")),
        "sas2ircu 0 STATUS": QUIET,
    }
    found = one(machine.look())
    assert [each.state.health for each in (*found.arrays, *found.disks)] == [
        ComponentHealth.FAILED
    ] * 2


def test_a_row_of_the_list_that_is_spoilt_hides_no_other_adapter() -> None:
    """The mirror of the first is read, and that of the second is unknown."""
    machine = FakeMachine([HBA, SECOND], shown("5:1:0:0"), shown("6:1:0:0"))
    machine.answers = {
        "sas3ircu LIST": NO_ADAPTER,
        "sas2ircu LIST": LIST.replace("00h:84h:1fh:01h", "00h:84h"),
        "sas2ircu 0 DISPLAY": WHOLE,
        "sas2ircu 0 STATUS": STATUS.format(operation="None", status="Enabled"),
    }
    found = machine.look()
    assert [each.name for each in found.controllers] == ["sas2ircu 0"]
    assert ["00h:84h" in problem.reason for problem in found.problems] == [True]


def test_a_status_that_cannot_be_read_leaves_the_state() -> None:
    """The running task is unknown then, and that is reported."""
    machine = FakeMachine([HBA], shown("5:1:0:0"))
    machine.answers = {
        "sas2ircu LIST": LIST,
        "sas2ircu 0 DISPLAY": WHOLE,
        "sas2ircu 0 STATUS": "Segmentation fault\n",
    }
    value = machine.look()
    assert value.controllers[0].arrays[0].state.health is ComponentHealth.OK
    assert "sas2ircu STATUS" in value.problems[0].reason


def test_after_a_program_that_hangs_no_other_is_run() -> None:
    """Nor is the next query started."""
    machine = FakeMachine([HBA], shown("5:1:0:0"))
    machine.answers = {"sas3ircu LIST": DeadlineError("killed after 60 s")}
    assert [each.reason for each in machine.look().problems] == [
        "mpt controller at host5: killed after 60 s"
    ]
    assert machine.asked == ["sas3ircu LIST"]


def test_without_a_probe_that_is_reported_once() -> None:
    """It is no missing program."""
    machine = FakeMachine([HBA], shown("5:1:0:0"))
    machine.answers = {"sas3ircu LIST": AbsentError("no probe")}
    assert [each.reason for each in machine.look().problems] == [
        "mpt controller at host5: no probe"
    ]


def test_older_adapters_are_asked_for_each_volume_the_kernel_shows() -> None:
    """'-p' would find the first one alone."""
    ids = {"/sys/class/scsi_host/host2/unique_id": "0\n"}
    machine = FakeMachine([OLD], shown("2:1:0:0"), shown("2:1:4:0"), ids)
    first = MPT.format(**WELL)
    second = MPT.format(**{**WELL, "state": "DEGRADED"}).replace("vol_id:0", "vol_id:4")
    second = second.replace("phys_id:1", "phys_id:6").replace("phys_id:0", "phys_id:5")
    machine.answers = {"mpt-status -n -i 0": first, "mpt-status -n -i 4": second}
    found = one(machine.look())
    assert (found.name, found.host) == ("ioc0", "host2")
    assert [(a.name, a.address, a.state.health) for a in found.arrays] == [
        ("volume 0", "1:0:0", ComponentHealth.OK),
        ("volume 4", "1:4:0", ComponentHealth.DEGRADED),
    ]
    assert [(d.slot, d.array) for d in found.disks] == [
        ("phy 1", "volume 0"),
        ("phy 0", "volume 0"),
        ("phy 2", "volume 0"),
        ("phy 6", "volume 4"),
        ("phy 5", "volume 4"),
    ]


def test_parallel_scsi_has_its_volumes_on_channel_0() -> None:
    """The disks of a mirror are on channel 1, so its number is searched."""
    ids = {
        "/sys/class/scsi_host/host2/unique_id": "0\n",
        "/sys/class/scsi_host/host3/unique_id": "1\n",
    }
    machine = FakeMachine(
        [OLD, SPI],
        shown("2:0:0:0"),
        shown("3:0:0:0"),
        shown("3:1:0:0", block=False),
        shown("3:1:1:0", block=False),
        ids,
    )
    machine.answers = {
        "mpt-status -u 1 -p": "Found SCSI id=0, use ''mpt-status -i 0`` to get more information.\n",
        "mpt-status -n -u 1 -i 0": MPT.format(**WELL),
    }
    found = one(machine.look())
    assert (found.name, found.arrays[0].address) == ("ioc1", "0:0:0")


def test_older_adapters_without_the_module_say_so() -> None:
    """iowarden does not load modules."""
    machine = FakeMachine([OLD], shown("2:1:0:0"))
    machine.answers = {"mpt-status -n -i 0": "open /dev/mptctl: No such file or directory\n"}
    (problem,) = machine.look().problems
    assert (problem.controller, "mptctl" in problem.reason) == ("host2", True)
