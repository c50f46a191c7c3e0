"""MegaRAID controllers polled with storcli: program, host, new log entries."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.memory import Memory

from iowarden.collectors.machine import Machine, probe_path
from iowarden.collectors.model import DeadlineError, ProgramNotFoundError
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.raid.log_alignment import recalled
from iowarden.collectors.raid.megaraid.megaraid_sas import EVENTS, MEGARAID, MPI3MR
from iowarden.collectors.raid.vendor_poll import EXPECTED_SECONDS, STATE_SECONDS, VALID_SECONDS
from iowarden.daemon.polling.controllers import EVENT_SECONDS, ControllerPoller
from iowarden.daemon.probe import allowed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iowarden.collectors.raid.backend import Backend
    from iowarden.collectors.raid.controller import Controllers

DEADLINE_SECONDS = 20.0
FIRST = "/sys/bus/pci/drivers/megaraid_sas/0000:3b:00.0/host6"
SECOND = "/sys/bus/pci/drivers/megaraid_sas/0000:af:00.0/host2"
NEWER = "/sys/bus/pci/drivers/mpi3mr/0000:01:00.0/host9"
DONE = "Controller = 0\nStatus = Success\nDescription = None\n"


def answer(data: Any, number: int | None = 0, status: str = "Success", why: str = "None") -> str:  # noqa: ANN401 - JSON
    """An answer in JSON."""
    about = {"Status": status, "Description": why}
    about |= {} if number is None else {"Controller": number}
    return json.dumps({"Controllers": [{"Command Status": about, "Response Data": data}]})


def listed(*numbers: int) -> str:
    """Return the output of 'show J' with this number of controllers."""
    rows = [{"Ctl": n, "Model": "ACME 9000"} for n in numbers]
    return answer({"Number of Controllers": len(rows), "System Overview": rows}, None)


def drive(
    slot: int, state: str = "Onln", group: int | str = 0, place: str = "252:"
) -> dict[str, Any]:
    """A row of a disk."""
    row = {"EID:Slt": f"{place}{slot}", "DID": slot, "State": state, "DG": group}
    return {**row, "Size": "3.637 TB", "Model": "ACME-4000"}


def card(number: int = 0, bus: str = "3b", driver: str = "megaraid_sas", **more: Any) -> str:  # noqa: ANN401 - JSON
    """Return the output of 'show all J' of a card with two disks."""
    row = {"DG": 0, "Arr": "-", "Row": "-", "EID:Slot": "-", "Type": "RAID1", "State": "Optl"}
    data = {
        "Basics": {
            "Model": "ACME 9000",
            "Serial Number": f"SV{number}",
            "PCI Address": f"00:{bus}:00:00",
            "Current Controller Date/Time": "06/01/2026, 08:00:10",
        },
        "Version": {"Driver Name": driver},
        "Status": {"Controller Status": "Optimal"},
        "TOPOLOGY": [row | {"BT": "N", "Size": "3.637 TB"}],
        "VD LIST": [
            {"DG/VD": "0/0", "TYPE": "RAID1", "State": "Optl", "Access": "RW", "Cache": "RWBD"}
        ],
        "PD LIST": [drive(0), drive(1)],
    }
    return answer(data | more, number)


def details(*slots: int, place: str = "/e252", errors: int = 0) -> str:
    """Return the output of 'show all J' for each disk."""
    data: dict[str, Any] = {}
    for slot in slots:
        name = f"Drive /c0{place}/s{slot}"
        row = drive(slot, place="252:" if place else " :")
        own = {"Media Error Count": errors, "SN": f"S{slot}"}
        data |= {name: [row], f"{name} - Detailed Information": {f"{name} State": own}}
    return answer(data)


def volumes() -> str:
    """Return the output of 'show all J' for the array."""
    row = {"DG/VD": "0/0", "TYPE": "RAID1", "State": "Optl", "Access": "RW", "Cache": "RWBD"}
    told = {"Write Cache(initial setting)": "WriteBack", "SCSI NAA Id": "6a00"}
    return answer({"/c0/v0": [row], "VD0 Properties": told})


def patrol() -> str:
    """Return the output of 'show patrolread J'."""
    row = {"Ctrl_Prop": "PR Current State", "Value": "Stopped"}
    return answer({"Controller Properties": [row]})


def entry(number: int, text: str = "Battery charge complete", code: int = 0xF2) -> str:
    """An entry of the log."""
    return (
        f"seqNum: 0x{number:08x}\nTime: Mon Jun  1 08:00:{number % 60:02} 2026\n\n"
        f"Code: 0x{code:08x}\nClass: 0\nLocale: 0x08\nEvent Description: {text}\n"
        "Event Data:\n===========\nNone\n\n"
    )


def log(*entries: str) -> str:
    """A listing, the newest first."""
    return "".join(reversed(entries)) + DONE


SHOW_EVENTS = f"/c0 show events type=latest={EVENTS} nolog"


def answers(program: str = "storcli64") -> dict[str, str | Exception | Callable[[], str]]:
    """Return the answers of a healthy card to each query."""
    said = {
        "show J nolog": listed(0),
        "/c0 show all J nolog": card(),
        "/c0/eall/sall show all J nolog": details(0, 1),
        "/c0/vall show all J nolog": volumes(),
        "/c0 show patrolread J nolog": patrol(),
        SHOW_EVENTS: log(entry(7), entry(8)),
    }
    return {f"{program} {question}": text for question, text in said.items()}


class FakeMachine(Machine):
    """A live machine with PCI drivers of its own, and programs with canned answers."""

    def __init__(self, *drivers: str) -> None:
        """Create a host for each driver."""
        super().__init__("/", probe=self.answer)
        self.there = Memory(dict.fromkeys(drivers))
        self.answers: dict[str, str | Exception | Callable[[], str]] = {}
        self.asked: list[str] = []
        self.now = 0.0
        self.told: dict[str, bytes] = {}

    def names(self, path: str) -> list[str]:
        """Return the names of the other machine."""
        return self.there.names(path)

    def read(self, path: str) -> str:
        """Return the text of the other machine."""
        return self.there.read(path)

    def another(self, seen: Callable[[str, bytes], None] | None = None) -> Machine:
        """Return the same machine for another thread."""
        found = FakeMachine.__new__(FakeMachine)
        Machine.__init__(found, "/", seen=seen, probe=self.answer)
        found.there = self.there
        return found

    def report_read(self, texts: object) -> None:
        """Store what a recorder would get."""
        self.told.update(texts)  # type: ignore[call-overload]

    def answer(self, verb: str, arguments: Sequence[str], _deadline_seconds: float) -> str:
        """Answer like the probe, which runs only allowed programs."""
        assert verb == "run"
        allowed.match(tuple(arguments))
        command = " ".join(arguments)
        self.asked.append(command)
        found = self.answers.get(command)
        if found is None:
            installed = any(each.startswith(f"{arguments[0]} ") for each in self.answers)
            if not installed:
                raise ProgramNotFoundError(f"'{arguments[0]}': install it")
            found = answer({}, 0, "Failure", "Un-supported Command")
        if isinstance(found, Exception):
            raise found
        text = found if isinstance(found, str) else found()
        return json.dumps({"status": 0, "signal": None, "stdout": text, "stderr": ""})

    def poller(self, *makers: Backend) -> ControllerPoller:
        """Return their poller."""
        return ControllerPoller(makers or (MEGARAID,), lambda: self.now)

    def look(self, poller: ControllerPoller, after_seconds: float = EVENT_SECONDS) -> Controllers:
        """Advance the clock, and return the results of all polls."""
        self.now += after_seconds
        first = poller.read(self)
        assert poller.settled(DEADLINE_SECONDS)
        second = poller.read(self)
        return replace(
            second,
            events=first.events + second.events,
            gaps=first.gaps + second.gaps,
            baseline=first.baseline + second.baseline,
        )


@pytest.fixture
def machine() -> FakeMachine:
    """Return a machine with one healthy card and storcli."""
    found = FakeMachine(FIRST)
    found.answers = answers()
    return found


def test_a_card_is_read_with_its_host_and_its_clock(machine: FakeMachine) -> None:
    """Array, disks with serial numbers, policy, patrol read; nothing is unread."""
    found = machine.look(machine.poller())
    (own,) = found.controllers
    assert (own.name, own.host, own.serial, own.read_errors) == ("megaraid c0", "host6", "SV0", ())
    assert [(d.slot, d.serial, d.array) for d in own.disks] == [
        (f"enclosure 252 slot {n}", f"S{n}", "drive group 0") for n in (0, 1)
    ]
    array = own.arrays[1]
    assert array.policy
    assert (array.policy.default_write_back, array.serial, array.address) == (True, "6a00", "2:0:0")
    assert [s.name for s in own.sensors] == ["patrol read"]
    assert own.clock_offset_seconds is not None
    assert found.problems == ()
    assert found.events == ()


def test_only_what_runs_is_requested(machine: FakeMachine) -> None:
    """A disk with a rebuild, one with a copyback, an array with a check; one more disk alone."""
    rows = [drive(0, "Rbld"), drive(1, "Cpybck"), drive(5, "UGood", "F", " :")]
    task = {"DG": 0, "Arr": "-", "Row": "-", "Type": "RAID1", "State": "Dgrd", "BT": "Y"}
    machine.answers["storcli64 /c0 show all J nolog"] = card(
        **{"PD LIST": rows, "TOPOLOGY": [task]}
    )
    running = [{"Drive-ID": "/c0/e252/s0", "Progress%": 42, "Status": "In progress"}]
    machine.answers["storcli64 /c0/eall/sall show rebuild J nolog"] = answer(running)
    machine.answers["storcli64 /c0/sall show all J nolog"] = details(5, place="")
    (own,) = machine.look(machine.poller()).controllers
    states = {d.slot: (d.state.health, d.state.done_ratio, d.serial) for d in own.disks}
    assert states == {
        "enclosure 252 slot 0": (ComponentHealth.REBUILDING, 0.42, "S0"),
        "enclosure 252 slot 1": (ComponentHealth.BUSY, None, "S1"),
        "slot 5": (ComponentHealth.ATTENTION, None, "S5"),
    }
    asked = {each.removeprefix("storcli64 ") for each in machine.asked if "storcli64" in each}
    assert {each for each in asked if "show all" not in each and each.endswith("J nolog")} == {
        "show J nolog",
        "/c0/fall show J nolog",
        "/c0/eall/sall show rebuild J nolog",
        "/c0/sall show rebuild J nolog",
        "/c0/eall/sall show copyback J nolog",
        "/c0/sall show copyback J nolog",
        "/c0/vall show cc J nolog",
        "/c0/vall show bgi J nolog",
        "/c0/vall show initialization J nolog",
        "/c0 show patrolread J nolog",
    }


def test_the_questions_to_a_healthy_card_are_few(machine: FakeMachine) -> None:
    """The log every five minutes, its state every quarter of an hour."""
    poller = machine.poller()
    for _ in range(4):
        machine.look(poller)
    counted = {each.removeprefix("storcli64 "): machine.asked.count(each) for each in machine.asked}
    assert {name: n for name, n in counted.items() if "install" not in name and n < 4} == {
        "/c0 show all J nolog": 2,
        "/c0/eall/sall show all J nolog": 2,
        "/c0/vall show all J nolog": 2,
        "/c0 show patrolread J nolog": 2,
    }
    assert counted[SHOW_EVENTS] == 4


def test_two_cards_are_each_at_their_own_host() -> None:
    """The program's numbers are not the kernel's: the PCI address identifies the host."""
    found = FakeMachine(FIRST, SECOND)
    found.answers = {
        **answers(),
        "storcli64 show J nolog": listed(0, 1),
        "storcli64 /c1 show all J nolog": card(1, "af"),
        f"storcli64 {SHOW_EVENTS.replace('c0', 'c1')}": log(entry(3)),
    }
    value = found.look(found.poller())
    assert [(c.name, c.serial, c.host) for c in value.controllers] == [
        ("megaraid c0", "SV0", "host6"),
        ("megaraid c1", "SV1", "host2"),
    ]
    assert {name: cursor.listing[-1][2] for name, cursor in value.cursors.items()} == {
        "megaraid c0": 8,
        "megaraid c1": 3,
    }


def test_a_card_that_the_program_does_not_list_is_a_problem() -> None:
    """Of two hosts one is listed: the other is not monitored, which is reported."""
    found = FakeMachine(FIRST, SECOND)
    found.answers = answers()
    value = found.look(found.poller())
    assert [c.name for c in value.controllers] == ["megaraid c0"]
    (problem,) = value.problems
    assert (problem.controller, "expected 2 controllers" in problem.reason) == (
        "megaraid unlisted",
        True,
    )


def test_the_older_program_is_queried_where_there_is_no_other() -> None:
    """Not together with storcli, and never where it would crash the card."""
    found = FakeMachine(FIRST)
    found.there.write({f"{FIRST.rpartition('/')[0]}/device": "0x005d\n"})
    question = "MegaCli64 -AdpGetPciInfo -aALL -NoLog"
    found.answers = {question: "nothing of use\n"}
    found.look(found.poller())
    assert found.asked[-1] == question
    found.answers = {**answers(), question: "nothing of use\n"}
    found.asked.clear()
    found.look(found.poller(), STATE_SECONDS)
    assert question not in found.asked
    found.there.write({f"{FIRST.rpartition('/')[0]}/device": "0x10e2\n"})
    found.answers = {question: "nothing of use\n"}
    found.asked.clear()
    (problem,) = found.look(found.poller(), STATE_SECONDS).problems
    assert "install storcli" in problem.reason
    assert question not in found.asked


@pytest.mark.parametrize("program", ["perccli64", "perccli", "storcli64", "storcli"])
def test_whichever_program_is_installed_is_taken(program: str) -> None:
    """Dell's or the other, for 64 bits or not."""
    found = FakeMachine(FIRST)
    found.answers = answers(program)
    (card,) = found.look(found.poller()).controllers
    assert (card.host, card.program) == ("host6", program)


def test_a_program_that_sees_no_card_is_not_the_last_word() -> None:
    """Dell's program lists only Dell's cards."""
    found = FakeMachine(FIRST)
    nothing = answer({}, None, "Failure", "No Controller found")
    found.answers = {**answers(), "perccli64 show J nolog": nothing}
    assert [c.host for c in found.look(found.poller()).controllers] == ["host6"]
    found.answers = {"perccli64 show J nolog": nothing}
    found.now = 1e6
    (problem,) = found.look(found.poller()).problems
    assert "got none listed" in problem.reason


def test_without_a_program_nobody_knows() -> None:
    """The card exists, so that is reported, with the program to install."""
    found = FakeMachine(FIRST)
    found.there.write({f"{FIRST.rpartition('/')[0]}/device": "0x005d\n"})
    value = found.look(found.poller())
    assert value.controllers == ()
    (problem,) = value.problems
    assert "'storcli': install it" in problem.reason


def test_a_program_that_hangs_is_queried_nothing_more(machine: FakeMachine) -> None:
    """The next query, and the next program, would hang as well."""
    machine.answers = dict.fromkeys(answers("perccli64"), DeadlineError("killed after 90 s"))
    value = machine.look(machine.poller())
    assert machine.asked == ["perccli64 show J nolog"]
    assert "killed after 90 s" in value.problems[0].reason


def test_json_that_is_damaged_is_requested_as_text(machine: FakeMachine) -> None:
    """A name with a quotation mark in it; the text has the same data."""
    text = (
        f"{DONE}\n\nBasics :\n======\nModel = ACME 9000\nSerial Number = SV7\n"
        "PCI Address = 00:3b:00:00\n"
    )
    machine.answers["storcli64 /c0 show all J nolog"] = card()[:-30]
    machine.answers["storcli64 /c0 show all nolog"] = text
    assert [c.serial for c in machine.look(machine.poller()).controllers] == ["SV7"]


def test_a_part_that_cannot_be_read_is_reported_and_hides_no_other(machine: FakeMachine) -> None:
    """Without the details of each disk; a card without a patrol read is no problem."""
    for form in ("J nolog", "nolog"):
        machine.answers[f"storcli64 /c0/eall/sall show all {form}"] = "Segmentation fault\n"
    del machine.answers["storcli64 /c0 show patrolread J nolog"]
    value = machine.look(machine.poller())
    (own,) = value.controllers
    assert len(own.disks) == 2
    assert [problem.controller for problem in value.problems] == ["megaraid c0"]
    assert "Segmentation fault" in value.problems[0].reason


def test_a_cache_whose_word_is_not_known_is_a_part_that_is_not_read(machine: FakeMachine) -> None:
    """Two arrays with one state are reported once; the alert of the cache would have no data."""
    rows = [
        {"DG/VD": f"0/{n}", "TYPE": "RAID1", "State": "Optl", "Access": "RW", "Cache": "RXWBD"}
        for n in (0, 1)
    ]
    machine.answers["storcli64 /c0 show all J nolog"] = card(**{"VD LIST": rows})
    for form in ("J nolog", "nolog"):
        machine.answers[f"storcli64 /c0/vall show all {form}"] = answer({"/c0/v0": rows})
    (problem,) = machine.look(machine.poller()).problems
    assert problem.reason == (
        "write cache of virtual drive 0 and others: expected a known policy, got 'RXWBD'"
    )


EMPTY: dict[str, list[Any]] = {"TOPOLOGY": [], "VD LIST": [], "PD LIST": []}


def test_a_card_that_lists_nothing_any_more_is_not_read_for_a_week(machine: FakeMachine) -> None:
    """Its former faults are unknown, not resolved; also after a restart."""
    whole = card()
    poller = machine.poller()
    machine.look(poller)
    machine.answers["storcli64 /c0 show all J nolog"] = card(**EMPTY)
    told = machine.look(poller, STATE_SECONDS)
    why = "it answers but lists nothing; its last listing had 2 arrays and 2 disks"
    assert [(p.controller, p.reason) for p in told.problems] == [("megaraid c0", why)]
    assert len(told.controllers[0].disks) == 2  # as it was, for a while
    told = machine.look(poller, VALID_SECONDS)
    assert ([*told.controllers], [p.reason for p in told.problems]) == ([], [why])
    again = machine.poller()
    machine.look(again)  # state.db comes late
    again.expect(told.listed)
    assert [p.reason for p in machine.look(again, STATE_SECONDS).problems] == [why]
    machine.answers["storcli64 /c0 show all J nolog"] = whole
    assert machine.look(again, STATE_SECONDS).problems == ()
    machine.answers["storcli64 /c0 show all J nolog"] = card(**EMPTY)
    machine.look(again, STATE_SECONDS)
    (own,) = machine.look(again, EXPECTED_SECONDS).controllers
    assert (own.arrays, own.disks) == ((), ())


def test_a_row_of_the_list_that_is_spoilt_hides_no_other_card(machine: FakeMachine) -> None:
    """Two cards: one is read, and the other is reported as not read."""
    other = FakeMachine(FIRST, SECOND)
    rows = [{"Ctl": 0, "Model": "ACME 9000"}, {"Ctl": "?", "Model": "ACME 9000"}]
    two = answer({"Number of Controllers": 2, "System Overview": rows}, None)
    other.answers = {**machine.answers, "storcli64 show J nolog": two}
    found = other.look(other.poller())
    assert [each.name for each in found.controllers] == ["megaraid c0"]
    (problem,) = found.problems
    assert problem.controller == "megaraid unlisted"
    assert "expected 2 controllers, got 1 ('storcli show': expected a number" in problem.reason


def test_a_card_without_disks_that_had_some_is_not_read_as_a_whole(machine: FakeMachine) -> None:
    """Its arrays are reported; another card in its place need not have any."""
    poller = machine.poller()
    machine.look(poller)
    machine.answers["storcli64 /c0 show all J nolog"] = card(**{"PD LIST": []})
    (problem,) = machine.look(poller, STATE_SECONDS).problems
    assert problem.reason == "it lists no disk; its last listing had 2 arrays and 2 disks"
    basics = {"Basics": {"Model": "ACME 9000", "Serial Number": "SV7"}}
    machine.answers["storcli64 /c0 show all J nolog"] = card(**EMPTY, **basics)
    assert machine.look(poller, STATE_SECONDS).problems == ()


def test_a_question_that_the_program_does_not_know_is_no_part_that_cannot_be_read(
    machine: FakeMachine,
) -> None:
    """While a task runs at an array; a query that each card supports is a part."""
    task = {"DG": 0, "Arr": "-", "Row": "-", "Type": "RAID1", "State": "Optl", "BT": "Y"}
    machine.answers["storcli64 /c0 show all J nolog"] = card(TOPOLOGY=[task])
    unknown = "Status = Failure\nDescription = syntax error, unexpected TOKEN_UNKNOWN\n"
    for form in ("J nolog", "nolog"):
        machine.answers[f"storcli64 /c0/vall show initialization {form}"] = unknown
        machine.answers[f"storcli64 /c0 show patrolread {form}"] = unknown
        machine.answers[f"storcli64 /c0/vall show cc {form}"] = "Segmentation fault\n"
        machine.answers[f"storcli64 /c0/vall show all {form}"] = unknown
    (own,) = machine.look(machine.poller()).controllers
    assert "storcli64 /c0/vall show initialization J nolog" in machine.asked
    assert [("syntax error" in each, "Segmentation" in each) for each in own.read_errors] == [
        (True, False),
        (False, True),
    ]


def test_the_second_generation_has_its_own_program() -> None:
    """Another driver; the small build may refuse its log, and its state is read."""
    found = FakeMachine(NEWER)
    found.answers = {
        "storcli2 show J nolog": listed(0),
        "storcli2 /c0 show all J nolog": card(0, "01", "mpi3mr"),
    }
    value = found.look(found.poller(MEGARAID, MPI3MR))
    assert [(c.name, c.host) for c in value.controllers] == [("mpi3mr c0", "host9")]
    assert any("Un-supported Command" in problem.reason for problem in value.problems)


def shown(
    address: str, vendor: str, model: str, sas_address: str = "", kind: str = "0"
) -> dict[str, str | None]:
    """Return a SCSI device with a block device as the kernel shows it."""
    path = f"/sys/class/scsi_device/{address}/device"
    texts = {"type": kind, "vendor": vendor, "model": model, "sas_address": sas_address}
    return {f"{path}/block": None, **{f"{path}/{name}": text for name, text in texts.items()}}


SAS = shown("9:0:0:0", "SEAGATE", "ST4000NM", "0x5000c500a1b2c3d4\n")
VOLUME = shown("9:1:0:0", "ACME", "RAID 9000")


def test_a_plain_adapter_without_a_program_is_nothing_to_report() -> None:
    """Its drives are polled directly; with a volume, or nothing at all, it is a problem."""
    enclosure = shown("9:0:9:0", "ACME", "EXPANDER", kind="13")
    for name, drives, told in (
        ("sas", {**SAS, **enclosure, **shown("9:0:1:0", "ATA", "ACME-4000")}, False),
        ("nvme", shown("9:1:1:0", "NVMe", "ACME-1000"), False),
        ("tape", shown("9:0:2:0", "ACME", "Ultrium 9", kind="1"), False),
        ("raid", {**SAS, **VOLUME}, True),
        ("dell", shown("9:1:0:0", "DELL", "PERC H965i"), True),
        ("nothing", enclosure, True),
    ):
        found = FakeMachine(NEWER)
        found.there.write(drives)
        value = found.look(found.poller(MPI3MR))
        assert [each.host for each in value.problems] == (["host9"] if told else []), name
        assert list(value.controllers) == []


def test_a_plain_adapter_that_was_read_is_expected_to_be() -> None:
    """The program was removed: that is reported, and the card is not missing; for a week."""
    found = FakeMachine(NEWER)
    found.there.write(SAS)
    found.answers = {
        "storcli2 show J nolog": listed(0),
        "storcli2 /c0 show all J nolog": card(0, "01", "mpi3mr"),
    }
    poller = found.poller(MPI3MR)
    before = found.look(poller).listed
    found.answers = {}
    assert [each.host for each in found.look(poller).problems] == ["host9"]
    for expected, after, told in ((before, EVENT_SECONDS, 1), (before, EXPECTED_SECONDS, 0)):
        again = found.poller(MPI3MR)
        again.expect(expected)
        assert len(found.look(again, after).problems) == told


def test_volumes_of_a_newer_card_that_is_not_listed_are_reported() -> None:
    """The program is too old, or died; a plain adapter next to it need not be listed."""
    plain = "/sys/bus/pci/drivers/mpi3mr/0000:02:00.0/host4"
    drives = shown("4:0:0:0", "ATA", "ACME-4000")
    nothing = FakeMachine(NEWER, plain)
    nothing.there.write({**VOLUME, **drives})
    nothing.answers = {"storcli2 show J nolog": listed()}
    (problem,) = nothing.look(nothing.poller(MPI3MR)).problems
    assert problem.controller == "mpi3mr unlisted"
    assert "'storcli2 show': expected the controllers of host9" in problem.reason
    for name, bus, unlisted in (("the other", "02", True), ("itself", "01", False)):
        found = FakeMachine(NEWER, plain)
        found.there.write({**VOLUME, **drives})
        found.answers = {
            "storcli2 show J nolog": listed(0),
            "storcli2 /c0 show all J nolog": card(0, bus, "mpi3mr"),
        }
        problems = found.look(found.poller(MPI3MR)).problems
        assert ("mpi3mr unlisted" in {each.controller for each in problems}) == unlisted, name


def test_new_entries_are_reported_once_by_their_numbers(machine: FakeMachine) -> None:
    """The first listing is a baseline; the numbers are those of the log."""
    poller = machine.poller()
    first = machine.look(poller)
    assert [event.sequence for event in first.baseline] == [7, 8]
    failed = entry(9, "Predictive failure: PD 01(e0xfc/s1)", 0x60)
    machine.answers[f"storcli64 {SHOW_EVENTS}"] = log(entry(8), failed, entry(10))
    second = machine.look(poller)
    assert [(e.sequence, e.kind, e.place) for e in second.events] == [
        (9, "megaraid_predictive_failure", "enclosure 252 slot 1"),
        (10, "megaraid_battery_charge", ""),
    ]
    assert second.gaps == ()
    assert machine.look(poller).events == ()


def test_events_go_on_where_a_former_run_ended(machine: FakeMachine) -> None:
    """The cursor is stored as JSON."""
    cursors = machine.look(machine.poller()).cursors
    kept = json.loads(json.dumps({n: [c.listing, c.serial] for n, c in cursors.items()}))
    machine.answers[f"storcli64 {SHOW_EVENTS}"] = log(entry(7), entry(8), entry(9))
    poller = machine.poller()
    poller.recall({name: recalled(found) for name, found in kept.items()})
    assert [event.sequence for event in machine.look(poller).events] == [9]


def test_a_log_whose_numbers_begin_anew_is_a_gap_that_is_reported_once(
    machine: FakeMachine,
) -> None:
    """A user deleted the events: the first ones after that are reported."""
    machine.answers[f"storcli64 {SHOW_EVENTS}"] = log(entry(700), entry(701))
    poller = machine.poller()
    machine.look(poller)
    machine.answers[f"storcli64 {SHOW_EVENTS}"] = log(entry(0, "Event log cleared", 0x1E), entry(1))
    found = machine.look(poller)
    assert [(e.sequence, e.kind) for e in found.events] == [
        (0, "megaraid_log_cleared"),
        (1, "megaraid_battery_charge"),
    ]
    assert "its numbering restarted" in found.gaps[0].reason
    assert machine.look(poller).gaps == ()


def test_more_entries_than_are_listed_are_a_gap(machine: FakeMachine) -> None:
    """A disk that dies writes hundreds in five minutes."""
    poller = machine.poller()
    machine.look(poller)
    machine.answers[f"storcli64 {SHOW_EVENTS}"] = log(*map(entry, range(900, 910)))
    found = machine.look(poller)
    assert len(found.events) == 10
    assert "entries after 8 are missing" in found.gaps[0].reason


def test_a_spare_card_brings_its_own_log(machine: FakeMachine) -> None:
    """Another serial number: its events are a baseline, whatever their numbers."""
    cursors = machine.look(machine.poller()).cursors
    machine.answers["storcli64 /c0 show all J nolog"] = card().replace("SV0", "SV9")
    machine.answers[f"storcli64 {SHOW_EVENTS}"] = log(entry(3), entry(4))
    poller = machine.poller()
    poller.recall(cursors)
    found = machine.look(poller)
    assert (found.events, found.gaps) == ((), ())
    assert found.cursors["megaraid c0"].serial == "SV9"


def test_a_recording_plays_what_was_reported(machine: FakeMachine) -> None:
    """A recorder gets enough to reproduce the result, except for the clock."""
    live = machine.look(machine.poller(), STATE_SECONDS)
    assert probe_path("run", ("storcli64", "show", "J", "nolog")) in machine.told
    there = Memory({FIRST: None, **machine.told})
    played = ControllerPoller((MEGARAID,), lambda: 0.0).read(there)
    (own,) = played.controllers
    assert own == replace(live.controllers[0], clock_offset_seconds=None)
    assert played.problems == ()
