"""RAID controllers polled by their vendor programs: new events, hung programs, missing programs."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest
from support.memory import Memory

from iowarden.collectors.machine import Machine, probe_path
from iowarden.collectors.model import (
    AbsentError,
    DeadlineError,
    ProgramNotFoundError,
    ReadError,
    StuckError,
)
from iowarden.collectors.program import run_program
from iowarden.collectors.raid import controller
from iowarden.collectors.raid.backend import Backend
from iowarden.collectors.raid.controller import Controller
from iowarden.collectors.raid.log_alignment import recalled
from iowarden.collectors.raid.vendor_poll import STATE_SECONDS
from iowarden.collectors.raid.vendors import BACKENDS
from iowarden.daemon.polling.controllers import EVENT_SECONDS, ControllerPoller

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iowarden.collectors.raid.controller import Controllers

DEADLINE_SECONDS = 20.0
ARCMSR = "/sys/bus/pci/drivers/arcmsr/0000:03:00.0/host2"
THREEWARE = "/sys/bus/pci/drivers/3w-9xxx/0000:04:00.0/host3"
DONE = f"{'=' * 60}\nGuiErrMsg<0x00>: Success.\n"
RAID_SETS = f"""\
 #  Name             Disks TotalCap  FreeCap DiskChannels       State
 1  Raid Set # 00        2 2000.0GB    0.0GB 12                 Normal
{DONE}"""
BAYS = f"""\
  # Ch# ModelName                       Capacity  Usage
  1  1  ST31000340NS                    1000.2GB  Raid Set # 00
  2  2  ST31000340NS                    1000.2GB  Raid Set # 00
  3  3  N.A.                               0.0GB  N.A.
{DONE}"""
AREAD = {
    "cli64 sys info": f"Serial Number : Y1\nController Name : ARC-1210\n{DONE}",
    "cli64 rsf info": RAID_SETS,
    "cli64 vsf info": "# Name  Raid Name  Level  Capacity Ch/Id/Lun  State\n" + DONE,
    "cli64 disk info": BAYS,
    "cli64 disk info drv=1": f"Model Name : ST31000340NS\nSerial Number : S1\n{DONE}",
    "cli64 disk info drv=2": f"Model Name : ST31000340NS\nSerial Number : S2\n{DONE}",
    "cli64 hw info": f"The Hardware Monitor Information\nHDD #1 Temp. : 40\n{DONE}",
}
POWERED_ON = "2026-06-01 08:00:05  H/W MONITOR         Raid Powered On\n"
READING = "2026-06-01 09:00:05  IDE Channel #02     Reading Error\n"
LATER = "2026-06-01 09:10:00  IDE Channel #02     Time Out Error\n"
HEADER = "Date-Time            Device              Event Type\n"
TREAD = {
    "tw_cli show": "Ctl   Model   Ports  Drives   Units   NotOpt  RRate   VRate  BBU\n"
    "c0    9650SE  2      1        1       0       1       1      -\n",
    "tw_cli /c0 show all": "/c0 Model = 9650SE\n/c0 Serial Number = L1\n\n"
    "Unit  UnitType  Status  %RCmpl  %V/I/M  Stripe  Size(GB)  Cache  AVrfy\n"
    "u0    JBOD      OK      -       -       -       931.5     ON     OFF\n\n"
    "Port   Status   Unit   Size        Blocks        Serial\n"
    "p0     OK       u0     931.51 GB   1953525168    9QJ1X1YY\n",
    "tw_cli /c0/u0 show serial": "/c0/u0 serial = 9QJ1X1YY000000000000\n",
    "tw_cli /c0 show alarms": "Ctl  Date  Severity  AEN Message\n",
}


class FakeMachine(Machine):
    """Our machine with other PCI drivers, and a probe that answers from a table."""

    def __init__(self, *drivers: str) -> None:
        """Add a host for each driver; `answers` are texts, errors, or callables."""
        super().__init__("/", probe=self.answer)
        self.there = Memory(dict.fromkeys(drivers))
        self.answers: dict[str, str | Exception | Callable[[], str]] = {}
        self.asked: list[str] = []
        self.now = 0.0
        self.told: dict[str, bytes] = {}

    def names(self, path: str) -> list[str]:
        """Return the content of the other machine."""
        return self.there.names(path)

    def another(self, seen: Callable[[str, bytes], None] | None = None) -> Machine:
        """Return the same machine for another thread."""
        return Machine("/", seen=seen, probe=self.answer)

    def report_read(self, texts: object) -> None:
        """Store what a recorder would get."""
        self.told.update(texts)  # type: ignore[call-overload]

    def answer(self, verb: str, arguments: Sequence[str], deadline_seconds: float) -> str:
        """Answer as the probe does."""
        assert (verb, deadline_seconds >= 60) == ("run", True)
        command = " ".join(arguments)
        self.asked.append(command)
        found = self.answers.get(command, ProgramNotFoundError(f"'{arguments[0]}': install it"))
        if isinstance(found, Exception):
            raise found
        text = found if isinstance(found, str) else found()
        return json.dumps({"status": 0, "signal": None, "stdout": text, "stderr": ""})

    def look(self, poller: ControllerPoller, after_seconds: float = EVENT_SECONDS) -> Controllers:
        """Advance the clock, and return the result of all runs."""
        self.now += after_seconds
        first = poller.read(self)
        assert poller.settled(DEADLINE_SECONDS)
        second = poller.read(self)
        events, gaps = first.events + second.events, first.gaps + second.gaps
        return controller.Controllers(
            second.controllers, events, gaps, second.problems, second.cursors
        )

    def poller(self) -> ControllerPoller:
        """Return the poller."""
        return ControllerPoller(BACKENDS, lambda: self.now)


def unread(value: Controllers) -> list[dict[str, str]]:
    """Return the labels of the samples for unreadable parts."""
    return [
        dict(labels)
        for name, labels, _ in controller.emit(value)
        if name == "iowarden_controller_unreadable"
    ]


@pytest.fixture
def areca() -> FakeMachine:
    """Return a machine with one Areca controller and months of log."""
    machine = FakeMachine(ARCMSR)
    machine.answers = {**AREAD, "cli64 event info": HEADER + POWERED_ON + DONE}
    return machine


def test_a_controller_its_disks_and_its_new_events(areca: FakeMachine) -> None:
    """The log of the first poll is a baseline; later entries are reported once."""
    poller = areca.poller()
    first = areca.look(poller)
    (found,) = first.controllers
    assert (found.name, found.serial, found.host, first.problems) == ("areca 1", "Y1", "host2", ())
    assert [(d.slot, d.serial, d.temperature_celsius) for d in found.disks] == [
        ("channel 1", "S1", 40.0),
        ("channel 2", "S2", None),
    ]
    assert first.events == ()
    areca.answers["cli64 event info"] = HEADER + READING * 2 + POWERED_ON + DONE
    second = areca.look(poller)
    assert [(e.kind, e.place, e.sequence) for e in second.events] == [
        ("areca_reading_error", "channel 2", 0),
        ("areca_reading_error", "channel 2", 1),
    ]
    assert len({event.key for event in second.events}) == 2
    assert areca.look(poller).events == ()


def test_each_question_has_its_own_period(areca: FakeMachine) -> None:
    """Log every five minutes, state every quarter of an hour, identity of a disk only once."""
    poller = areca.poller()
    for _ in range(7):
        areca.look(poller)
    asked = areca.asked
    assert asked.count("cli64 event info") == 7
    assert asked.count("cli64 disk info") == 1 + 6 * EVENT_SECONDS // STATE_SECONDS
    assert asked.count("cli64 disk info drv=1") == 1
    assert "cli64 disk info drv=3" not in asked


def test_a_disk_that_takes_the_place_of_another_is_asked_who_it_is(areca: FakeMachine) -> None:
    """The raid set was degraded between the two polls."""
    poller = areca.poller()
    areca.look(poller)
    areca.answers["cli64 rsf info"] = RAID_SETS.replace("Normal", "Rebuilding")
    areca.answers["cli64 disk info drv=2"] = AREAD["cli64 disk info drv=2"].replace("S2", "S9")
    found = areca.look(poller, STATE_SECONDS).controllers[0]
    assert [disk.serial for disk in found.disks] == ["S1", "S9"]


def test_events_go_on_where_a_former_run_ended(areca: FakeMachine) -> None:
    """Stored with the events, the cursor loses none of them over a restart."""
    cursors = areca.look(areca.poller()).cursors
    kept = json.loads(json.dumps({n: [c.listing, c.serial] for n, c in cursors.items()}))
    areca.answers["cli64 event info"] = HEADER + READING + POWERED_ON + DONE
    poller = areca.poller()
    poller.recall({name: recalled(found) for name, found in kept.items()})
    assert [event.kind for event in areca.look(poller).events] == ["areca_reading_error"]


def test_the_log_of_another_card_is_a_baseline(areca: FakeMachine) -> None:
    """A replacement controller brings the log of another machine."""
    cursors = areca.look(areca.poller()).cursors
    areca.answers["cli64 sys info"] = AREAD["cli64 sys info"].replace("Y1", "Y2")
    areca.answers["cli64 event info"] = HEADER + READING + LATER + DONE
    poller = areca.poller()
    poller.recall(cursors)
    found = areca.look(poller)
    assert (found.events, found.gaps) == ((), ())
    assert found.cursors["areca 1"].serial == "Y2"


def test_a_cleared_log_is_a_gap_that_is_reported_once(areca: FakeMachine) -> None:
    """The log was cleared, and an event was added after that."""
    poller = areca.poller()
    areca.look(poller)
    areca.answers["cli64 event info"] = HEADER + READING + DONE
    found = areca.look(poller)
    assert [event.kind for event in found.events] == ["areca_reading_error"]
    assert "cleared" in found.gaps[0].reason
    assert areca.look(poller).gaps == ()


def test_a_log_that_stays_shorter_than_it_was_is_reported_once(areca: FakeMachine) -> None:
    """Its newest entries are missing, and no new one is added."""
    areca.answers["cli64 event info"] = HEADER + READING + POWERED_ON + DONE
    poller = areca.poller()
    areca.look(poller)
    areca.answers["cli64 event info"] = HEADER + POWERED_ON + DONE
    assert "it was truncated" in areca.look(poller).gaps[0].reason
    assert areca.look(poller).gaps == ()


def test_a_log_that_was_cut_off_loses_nothing(areca: FakeMachine) -> None:
    """An incomplete listing is not used; the next one reports all events."""
    poller = areca.poller()
    areca.look(poller)
    areca.answers["cli64 event info"] = HEADER + LATER + READING[:30]
    cut = areca.look(poller)
    assert cut.events == ()
    assert "within a line" in cut.problems[0].reason
    areca.answers["cli64 event info"] = HEADER + LATER + READING + POWERED_ON + DONE
    whole = areca.look(poller)
    assert [e.kind for e in whole.events] == ["areca_reading_error", "areca_time_out_error"]
    assert whole.problems == ()


def test_without_the_program_nobody_knows() -> None:
    """The controller is present, so its missing program is reported, with its name."""
    found = FakeMachine(ARCMSR)
    value = found.look(found.poller())
    assert value.controllers == ()
    assert [problem.reason for problem in value.problems] == ["'cli64': install it"]
    assert list(controller.unreadable(value)) == [
        ((("controller", "areca 1"),), "'cli64': install it")
    ]
    assert unread(value) == [
        {
            "controller": "areca 1",
            "vendor": "areca",
            "reason": "'cli64': install it",
            "scope": "controller",
        }
    ]


@pytest.mark.parametrize(
    "error",
    [DeadlineError("killed after 60 s"), StuckError("in the kernel"), ReadError("no answer")],
)
def test_a_program_that_hangs_is_reported_and_the_last_state_is_not_for_ever(
    areca: FakeMachine, error: Exception
) -> None:
    """No second run follows one that hangs; the last values expire after three poll intervals."""
    poller = areca.poller()
    areca.look(poller)
    areca.answers = dict.fromkeys(areca.answers, error)
    areca.asked.clear()
    found = areca.look(poller, STATE_SECONDS)
    assert len(areca.asked) == 1 or not isinstance(error, DeadlineError | StuckError)
    assert len(found.controllers) == 1
    assert str(error) in found.problems[0].reason
    later = areca.look(poller, 3 * STATE_SECONDS)
    assert later.controllers == ()
    assert later.problems


def test_a_program_that_lists_nothing_is_no_machine_without_faults() -> None:
    """The driver has a host, but tw_cli finds no controller."""
    found = FakeMachine(THREEWARE)
    found.answers = {"tw_cli show": TREAD["tw_cli show"].splitlines()[0] + "\n"}
    value = found.look(found.poller())
    assert value.controllers == ()
    assert "got none listed" in value.problems[0].reason
    (told,) = unread(value)
    assert (told["vendor"], told["host"], told["scope"]) == ("3ware", "host3", "controller")
    assert "controller" not in told
    # Which controllers exist is unknown: none of them is reported as missing.
    assert "c0" in controller.names(value)
    assert next(iter(controller.unreadable(value)))[0] == ()


def test_what_is_not_read_is_a_part_or_the_log(areca: FakeMachine) -> None:
    """An old tool does not support 'hw info', and the log is damaged; everything else is read."""
    areca.answers["cli64 hw info"] = "ErrMsg: Unknown Command"
    areca.answers["cli64 event info"] = "garbage"
    value = areca.look(areca.poller())
    assert value.controllers[0].disks
    assert {told["scope"]: told["reason"].split(":")[0] for told in unread(value)} == {
        "part": "'cli64 hw info'",
        "log": "its log",
    }


def test_while_one_maker_hangs_the_other_is_reported() -> None:
    """A machine with two controllers, one of which fails."""
    found = FakeMachine(ARCMSR, THREEWARE)
    release = threading.Event()

    def hang() -> str:
        assert release.wait(DEADLINE_SECONDS)
        raise DeadlineError("killed")

    found.answers = {**TREAD, "cli64 sys info": hang}
    poller = ControllerPoller(BACKENDS, lambda: found.now, first_seconds=0)
    try:
        value = poller.read(found)
        for _ in range(200):
            if value.controllers:
                break
            assert not poller.settled(0.1)
            value = poller.read(found)
        assert [each.name for each in value.controllers] == ["c0"]
        # A controller that was not read yet is not reported as missing: it is '' until it was.
        assert list(controller.unreadable(value)) == [((), "")]
        assert "areca 1" in controller.names(value)
        assert unread(value) == []
    finally:
        release.set()
    assert poller.settled(DEADLINE_SECONDS)
    last = poller.read(found)
    assert [problem.reason for problem in last.problems] == ["killed"]
    assert "areca 2" not in controller.names(last)


def test_two_controllers_that_are_alike_are_two() -> None:
    """Two of a kind: each is polled by its number, and its host is not guessed."""
    found = FakeMachine(ARCMSR, ARCMSR.replace("03:00.0/host2", "05:00.0/host4"))
    log = {"cli64 event info": HEADER + POWERED_ON + DONE}
    for number in (1, 2):
        for command, text in {**AREAD, **log}.items():
            found.answers[command.replace("cli64", f"cli64 ctrl={number}")] = text
    poller = found.poller()
    first = found.look(poller)
    assert [(c.name, c.host) for c in first.controllers] == [("areca 1", ""), ("areca 2", "")]
    found.answers["cli64 ctrl=2 event info"] = HEADER + READING + POWERED_ON + DONE
    (event,) = found.look(poller).events
    assert (event.controller, event.place) == ("areca 2", "channel 2")


HBA = "/sys/bus/pci/drivers/mpt3sas/0000:05:00.0/host5"


def without_log(*names: str) -> Backend:
    """Return a vendor whose controllers have no log, and may be plain host adapters."""

    def find(root: Machine, _: Sequence[str]) -> dict[str, tuple[str, ...]]:
        run_program(root, 60.0, "sas3ircu", "LIST")
        return dict.fromkeys(names, ())

    def state(root: Machine, name: str, _: tuple[str, ...], __: Controller | None) -> Controller:
        model = run_program(root, 60.0, "sas3ircu", "0", "DISPLAY")
        return Controller(name, "mpt", model, host="host9")

    return Backend("mpt", ("mpt3sas",), ("sas3ircu",), find, state, adapters=True)


def test_a_controller_without_a_log_is_polled_for_its_state_alone() -> None:
    """It has its own poll interval, no cursor, and its program may report its host."""
    found = FakeMachine(HBA)
    found.answers = {"sas3ircu LIST": "", "sas3ircu 0 DISPLAY": "SAS3008"}
    poller = ControllerPoller([without_log("sas3ircu 0")], lambda: found.now)
    for _ in range(7):
        value = found.look(poller)
    (card,) = value.controllers
    assert (card.model, card.host, value.problems, value.cursors) == ("SAS3008", "host9", (), {})
    times = int(1 + 6 * EVENT_SECONDS // STATE_SECONDS)
    assert found.asked == ["sas3ircu LIST", "sas3ircu 0 DISPLAY"] * times


def test_a_plain_adapter_is_no_problem() -> None:
    """It has no arrays to be polled."""
    found = FakeMachine(HBA)
    found.answers = {"sas3ircu LIST": ""}
    value = found.look(ControllerPoller([without_log()], lambda: found.now))
    assert value == controller.Controllers()


def test_a_machine_without_such_a_controller_has_no_such_source() -> None:
    """No program is run."""
    found = FakeMachine("/sys/bus/pci/drivers/ahci/0000:00:1f.2/host0")
    with pytest.raises(AbsentError):
        found.poller().read(found)
    assert found.asked == []


def test_series_of_a_controller() -> None:
    """Each state is 1, with its meaning and the program's own word as labels."""
    found = FakeMachine(THREEWARE)
    found.answers = dict(TREAD)
    samples = controller.emit(found.look(found.poller()))
    names = {family.name for family in controller.FAMILIES}
    assert {name for name, _, _ in samples} <= names
    told = {name: (dict(labels), value) for name, labels, value in samples}
    assert told["iowarden_controller_array_state"] == (
        {"controller": "c0", "array": "u0", "state": "ok", "vendor_state": "OK"},
        1.0,
    )
    assert told["iowarden_controller_array_write_cache_enabled"][1] == 1.0
    assert all(list(labels) == sorted(labels) for _, labels, _ in samples)


def test_a_unit_is_the_disk_of_the_same_serial_number() -> None:
    """Polled once; the address is where the driver shows it."""
    found = FakeMachine(THREEWARE)
    found.answers = dict(TREAD)
    poller = found.poller()
    for _ in range(4):
        (card,) = found.look(poller).controllers
    assert found.asked.count("tw_cli /c0/u0 show serial") == 1
    (unit,) = card.arrays
    assert unit.serial == "9QJ1X1YY000000000000"
    assert controller.scsi_address(card.host, unit.address) == "3:0:0:0"
    assert controller.scsi_address("", unit.address) == ""


def test_a_recording_plays_what_was_reported(areca: FakeMachine) -> None:
    """A recording holds enough to get the same result again."""
    live = areca.look(areca.poller())
    assert probe_path("run", ("cli64", "event", "info")) in areca.told
    there = Memory({ARCMSR: None, **areca.told})
    played = ControllerPoller(BACKENDS, lambda: 0.0).read(there)
    assert played.controllers == live.controllers
    assert (played.events, played.problems) == ((), ())


def test_an_older_recording_has_no_such_source() -> None:
    """The controller was not polled in this recording, which is no error."""
    with pytest.raises(AbsentError):
        ControllerPoller(BACKENDS, lambda: 0.0).read(Memory({ARCMSR: None}))
