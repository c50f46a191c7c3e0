"""A disk behind an Areca that smartctl cannot read: the vendor's program reads it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.attached import probe_answer
from support.polled_disks import FakeMachine
from support.recordings import corpus

from iowarden.collectors.machine import probe_path
from iowarden.collectors.smart import smart_series, smartctl_runner
from iowarden.collectors.smart.discovery import Discovered
from iowarden.collectors.smart.drive import AccessMethod, Disk, Disks, Protocol, ReadStatus
from iowarden.collectors.smart.options import Options
from iowarden.daemon.polling import smart
from iowarden.rules.topology import inventory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conftest import MachineMaker

    from iowarden.collectors.machine import Machine

    Files = dict[str, str | bytes | None]

RULE = "=" * 79
DONE = f"{RULE}\nGuiErrMsg<0x00>: Success.\n"
MODEL = "ACME DISK-9"
CARD: Files = {"/sys/bus/pci/drivers/arcmsr/0000:03:0e.0/host0": None, "/sys/block": None}
REFUSED = json.dumps(
    {
        "json_format_version": [1, 0],
        "smartctl": {
            "version": [7, 3],
            "exit_status": 2,
            "messages": [
                {"string": "Read Device Identity failed: invalid argument", "severity": "error"}
            ],
        },
    }
)


def behind(kind: str, slot: str = "") -> AccessMethod:
    """Return a disk behind the card."""
    return AccessMethod("/dev/sg2", kind, "", "host0", "arcmsr", slot, "controller")


SECOND = behind("areca,2", "channel 2")


def smartctl(target: AccessMethod, output: str = REFUSED) -> Files:
    """Return smartctl's output for a disk: by default that it cannot read it."""
    return probe_answer(*smartctl_runner.command(target, "full"), stdout=output, status=2)


def table(number: int, pending: int = 193) -> str:
    """Return the attributes of a disk, as old firmware prints them."""
    return (
        f"S.M.A.R.T Information For Drive[#{number:02}]\n"
        f"  # Attribute Items                             Flag   Value  Thres  State\n{RULE}\n"
        "  5 Reallocated Sector Count                  0x33     200    140  OK\n"
        f"197 Current Pending Sector Count              0x12     {pending}      0  OK\n{DONE}"
    )


def detail(serial: str, temperature: str = "34 C") -> str:
    """Return the identity of a disk."""
    return (
        f"Model Name                         : {MODEL}\n"
        f"Serial Number                      : {serial}\n"
        "Firmware Rev.                      : 02.01\n"
        "Device State                       : NORMAL\n"
        f"Device Temperature                 : {temperature}\n{DONE}"
    )


def cli(command: str, text: str, program: str = "cli64") -> Files:
    """Return the output of Areca's program."""
    return probe_answer(program, *command.split(), stdout=text)


def told(number: int = 2, serial: str = "WD-9002", pending: int = 193) -> Files:
    """Return all outputs of Areca's program for a disk."""
    return {
        **cli(f"disk smart drv={number}", table(number, pending)),
        **cli(f"disk info drv={number}", detail(serial)),
    }


class Played:
    """A recorded machine with such a card, its poller, and a clock."""

    def __init__(self, machine: MachineMaker, *targets: AccessMethod) -> None:
        """Start with disks that were not polled."""
        self._machine = machine
        self.now = 100.0
        self.root: Machine = machine({**CARD, "/.probe": None})
        self.poller = smart.SmartPoller(
            Options(), lambda: self.now, lambda *_: Discovered(targets or (SECOND,))
        )

    def look(self, files: Mapping[str, str | bytes | None], seconds: float = 15.0) -> Disks:
        """Advance the clock, and return the disks."""
        self.now += seconds
        self._machine(files)
        return self.poller.read(self.root)

    def only(self, files: Mapping[str, str | bytes | None], seconds: float = 15.0) -> Disk:
        """Return the only disk."""
        (disk,) = self.look(files, seconds).by_key.values()
        return disk


def test_where_smartctl_is_refused_the_makers_program_reads_the_disk(
    machine: MachineMaker,
) -> None:
    """An old firmware: attributes without raw values, and the identity of the disk."""
    disk = Played(machine).only({**smartctl(SECOND), **told()})
    polled, drive = disk.polled, disk.polled.drive
    assert drive is not None
    assert (disk.key, polled.status, polled.period_seconds) == ("WD-9002", ReadStatus.READ, 3600.0)
    assert (drive.protocol, drive.model, drive.serial, drive.firmware) == (
        *(Protocol.ATA, MODEL, "WD-9002", "02.01"),
    )
    assert [(a.id, a.value, a.raw) for a in drive.attributes] == [(5, 200, None), (197, 193, None)]
    assert (drive.temperature_celsius, drive.passed, drive.smartctl_version) == (34.0, None, "")
    assert drive.self_test_kinds == ()
    assert polled.reason.startswith(
        "read by 'cli64 disk smart drv=2', because smartctl could not read it"
    )
    assert "Read Device Identity failed" in polled.reason


def test_monitoring_status_reports_by_what_a_disk_is_read_and_what_is_missing(
    machine: MachineMaker,
) -> None:
    """It is read, with another access method than the others, and with fewer data."""
    disks = Played(machine).look({**smartctl(SECOND), **told()})
    (covered,) = inventory.inventory(disks, None).values()
    assert covered.status is ReadStatus.READ
    assert covered.access_method == "areca,2 at /dev/sg2, by 'cli64 disk smart drv=2'"
    assert covered.drive is not None
    assert inventory.not_read(covered.drive) == (
        *("no overall health", "raw values hidden", "no error log", "no self-tests"),
    )
    shown = {name for name, _, _ in smart_series.emit(disks)}
    assert "iowarden_smart_attribute_value" in shown
    # smartctl printed nothing, so nothing of it is shown.
    assert not shown & {"iowarden_smart_exit_status", "iowarden_smart_pysmart_disagreements"}


def test_smartctl_comes_first(machine: MachineMaker) -> None:
    """smartctl reads the disk: the other program is not run, although its data are worse."""
    heard = json.dumps(
        {
            "json_format_version": [1, 0],
            "smartctl": {"version": [7, 3], "exit_status": 0},
            "device": {"name": "/dev/sg2", "type": "areca,2", "protocol": "ATA"},
            "model_name": MODEL,
            "serial_number": "WD-9002",
            "smart_status": {"passed": True},
        }
    )
    played = Played(machine)
    disk = played.only({**smartctl(SECOND, heard), **told()})
    assert disk.polled.drive is not None
    assert (disk.polled.status, disk.polled.reason, disk.polled.drive.read_by) == (
        *(ReadStatus.READ, "", ""),
    )
    # It is refused from then on; the same disk goes on under its name.
    disk = played.only(smartctl(SECOND), 3600.0)
    assert disk.polled.drive is not None
    assert (disk.key, disk.polled.drive.read_by) == ("WD-9002", "cli64 disk smart drv=2")


def test_another_answer_of_the_program_is_received_while_smartctl_reports_the_same(
    machine: MachineMaker,
) -> None:
    """From a recorded machine: the disk lost seven points between two polls."""
    played = Played(machine)
    played.look({**smartctl(SECOND), **told(pending=200)})
    drive = played.only(told(pending=193)).polled.drive
    assert drive is not None
    (pending,) = (a for a in drive.attributes if a.id == 197)
    assert pending.value == 193


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("ErrMsg: Drive 2 Is Not Available\n", "expected a table of attributes"),
        ("GuiErrMsg<0x03>: Invaild Data Returned\n", "expected a table of attributes"),
        ("", "expected a table of attributes"),
        (table(1), "expected the table of drive 2, got that of drive 1"),
        ("197 Current Pending Sector Count\n", "line 1: expected"),
    ],
    ids=["refused", "no data", "nothing", "of another disk", "cut off"],
)
def test_a_program_that_refuses_adds_its_reason(
    machine: MachineMaker, answer: str, reason: str
) -> None:
    """smartctl's reason comes first, and the disk is not read."""
    disk = Played(machine).only({**smartctl(SECOND), **cli("disk smart drv=2", answer)})
    assert (disk.polled.status, disk.polled.drive) == (ReadStatus.NO_PASS_THROUGH, None)
    before, _, after = disk.polled.reason.partition("; Areca's program: ")
    assert "Read Device Identity failed" in before
    assert reason in after


def test_a_disk_that_does_not_report_who_it_is_is_read_all_the_same(machine: MachineMaker) -> None:
    """It is named by its slot, and the reason says so."""
    disk = Played(machine).only(
        {
            **smartctl(SECOND),
            **cli("disk smart drv=2", table(2)),
            **cli("disk info drv=2", "ErrMsg: Parameter Error\n"),
        }
    )
    assert (disk.key, disk.polled.status) == ("channel 2", ReadStatus.READ)
    assert "its identity could not be read: 'cli64 disk info drv=N'" in disk.polled.reason


def test_a_disk_in_an_enclosure_is_queried_by_the_number_the_list_gives_it(
    machine: MachineMaker,
) -> None:
    """Slot 2 of enclosure 2 is drive 10; an empty slot is not used."""
    listed = (
        f"  # Enc# Slot#   ModelName                        Capacity  Usage\n{RULE}\n"
        f"  8  01  Slot#8  {MODEL:<32}1500.3GB  JBOD\n"
        "  9  02  SLOT 01 N.A.                                0.0GB  N.A.\n"
        f" 10  02  SLOT 02 {MODEL:<32}1500.3GB  JBOD\n{DONE}"
    )
    there, empty = behind("areca,2/2", "enclosure 2 slot 2"), behind("areca,1/2")
    files = {**smartctl(there), **smartctl(empty), **told(10), **cli("disk info", listed)}
    disks = Played(machine, there, empty).look(files)
    assert {key: disk.polled.status for key, disk in disks.by_key.items()} == {
        "WD-9002": ReadStatus.READ,
        "/dev/sg2 -d areca,1/2": ReadStatus.NO_PASS_THROUGH,
    }
    reason = disks.by_key["/dev/sg2 -d areca,1/2"].polled.reason
    assert "expected a disk at 'areca,1/2', got none" in reason


def test_of_two_controllers_none_is_queried(machine: MachineMaker) -> None:
    """It is unknown which of them is 'ctrl=1': no data are better than another disk's data."""
    second: Files = {"/sys/bus/pci/drivers/arcmsr/0000:04:0e.0/host1": None}
    disk = Played(machine).only({**second, **smartctl(SECOND), **told()})
    assert disk.polled.status is ReadStatus.NO_PASS_THROUGH
    assert "expected one controller of the driver 'arcmsr', got 2" in disk.polled.reason


def test_beside_smartd_no_program_is_run(machine: MachineMaker) -> None:
    """Each would lose answers of the other; the replay has the recorded result."""
    clash = json.dumps(
        {"read_status": "unreadable", "reason": "'smartd' asks this controller, too"}
    )
    name = probe_path("run", smartctl_runner.command(SECOND, "full"))
    disk = Played(machine).only({name: clash, **told()})
    assert (disk.polled.status, disk.polled.reason) == (
        *(ReadStatus.UNREADABLE, "'smartd' asks this controller, too"),
    )


def test_a_disk_whose_controller_hangs_is_not_queried_by_another_program(
    machine: MachineMaker,
) -> None:
    """smartctl is stuck in the kernel: no second program is started."""
    name = probe_path("run", smartctl_runner.command(SECOND, "full"))
    disk = Played(machine).only(
        {name: json.dumps({"read_status": "hung", "reason": "x"}), **told()}
    )
    assert (disk.polled.status, disk.polled.reason) == (ReadStatus.HUNG, "x")


def test_a_disk_behind_another_maker_is_not_queried_by_arecas_program(
    machine: MachineMaker,
) -> None:
    """The same numbers mean other disks there."""
    other = AccessMethod("/dev/twa0", "3ware,2", "", "host0", "3w-9xxx", "port 2", "controller")
    listed = cli("disk info", f"  # Ch# ModelName     Capacity  Usage\n{RULE}\n{DONE}")
    disk = Played(machine, other).only({**smartctl(other), **told(), **listed})
    assert disk.polled.status is ReadStatus.NO_PASS_THROUGH
    assert "Areca" not in disk.polled.reason


def test_without_smartctl_the_program_reads_what_it_knows(machine: MachineMaker) -> None:
    """Of the two disks of the host the one behind the card is read, and the reason is reported."""
    direct = AccessMethod("/dev/sdb", "sat", "sdb", "host1", "ahci")
    version = probe_path("run", ("smartctl", "--json=c", "-V"))
    lacking = {
        version: json.dumps({"read_status": "no_smartctl", "reason": "'smartctl': got none"})
    }
    disks = Played(machine, SECOND, direct).look({**lacking, **told()})
    assert {key: disk.polled.status for key, disk in disks.by_key.items()} == {
        "WD-9002": ReadStatus.READ,
        "/dev/sdb -d sat": ReadStatus.NO_SMARTCTL,
    }
    assert "'smartctl': got none" in disks.by_key["WD-9002"].polled.reason


# --- disks with pending sectors behind an Areca that smartctl cannot read


def incident(name: str, number: int) -> Files:
    """Return the outputs for a disk with pending sectors: smartctl has none."""
    attributes = corpus(f"reference/areca-cli-disk-smart-{name}.txt").read_text()
    return {
        **smartctl(behind(f"areca,{number}")),
        **cli(f"disk smart drv={number}", attributes),
        **cli(f"disk info drv={number}", detail(f"WD-900{number}")),
    }


def alerts(machine: MachineMaker, name: str, number: int) -> set[tuple[str, str]]:
    """Return alert and attribute of all firing alerts of one disk, polled four times."""
    played, host = Played(machine, behind(f"areca,{number}")), FakeMachine()
    files = incident(name, number)
    for _ in range(4):
        host.disks = played.look(files, 3600.0)
        host.look(3600.0, every=300.0)
    (disk,) = played.poller.read(played.root).by_key.values()
    assert (disk.key, disk.polled.status) == (f"WD-900{number}", ReadStatus.READ)
    return {
        (a.name, a.label("id")) for a in host.engine.rules.alerts() if a.state.value == "firing"
    }


def test_the_dying_disk_that_smartctl_never_saw_alerts_at_first_sight(
    machine: MachineMaker,
) -> None:
    """Drive 2 alone, read only by the card's program: 197 and 198, and no others."""
    assert alerts(machine, "drv2-failing", 2) == {
        ("DiskNormalizedValueLow", "197"),
        ("DiskNormalizedValueLow", "198"),
    }


def test_the_good_disk_that_smartctl_never_saw_is_silent(machine: MachineMaker) -> None:
    """Drive 1 alone."""
    assert alerts(machine, "drv1-good", 1) == set()
