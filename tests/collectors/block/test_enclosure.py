"""Enclosures: slots that are OK, faulty, empty or not reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.block.enclosure import EnclosureSlot, emit, read_enclosure, unreadable
from iowarden.collectors.model import AbsentError, ParseError

if TYPE_CHECKING:
    from conftest import MachineMaker

Files = dict[str, str | bytes | None]
SHELF = "/sys/class/enclosure/6:0:8:0"


def slot(name: str, block: str = "", **attributes: str) -> Files:
    """Files of a slot."""
    path = f"{SHELF}/{name}"
    well = {"status": "OK\n", "fault": "0\n", "active": "1\n", "locate": "0\n"}
    files: Files = {f"{path}/{key}": text for key, text in (well | attributes).items()}
    return files | ({f"{path}/device/block/{block}/size": "1\n"} if block else {})


TWO = (
    slot("Slot 01", "sda")
    | slot("Slot 02", "sdb", status="critical\n", fault="4\n", locate="1\n")
    | {f"{SHELF}/components": "26\n", f"{SHELF}/id": "0x500\n", f"{SHELF}/device/status": "well"}
)


def test_a_shelf_with_a_disk_that_is_failing(machine: MachineMaker) -> None:
    """A detected fault is printed as 4; directories that are no slots are left out."""
    assert read_enclosure(machine(TWO)) == (
        EnclosureSlot(
            "6:0:8:0", "Slot 01", "OK", fault=False, active=True, locate=False, device="sda"
        ),
        EnclosureSlot(
            "6:0:8:0", "Slot 02", "critical", fault=True, active=True, locate=True, device="sdb"
        ),
    )


@pytest.mark.parametrize(
    ("fault", "expected"), [("0\n", False), ("2\n", True), ("6\n", True), ("-1\n", None)]
)
def test_what_a_fault_is(fault: str, expected: bool | None, machine: MachineMaker) -> None:
    """Requested, requested and detected; or the enclosure was not queried yet."""
    [found] = read_enclosure(machine(slot("0", fault=fault)))
    assert found.fault is expected


def test_series_of_a_slot(machine: MachineMaker) -> None:
    """State and disk are labels; 1 and 0 mean OK or not."""
    samples = emit(read_enclosure(machine(TWO)))
    own = (("device", "sdb"), ("enclosure", "6:0:8:0"), ("slot", "Slot 02"))
    assert [sample for sample in samples if own[0] in sample[1]] == [
        ("iowarden_enclosure_slot_state", (*own, ("status", "critical")), 1.0),
        ("iowarden_enclosure_slot_ok", own, 0.0),
        ("iowarden_enclosure_slot_fault", own, 1.0),
        ("iowarden_enclosure_slot_active", own, 1.0),
        ("iowarden_enclosure_slot_locate_on", own, 1.0),
    ]
    own = (("device", "sda"), ("enclosure", "6:0:8:0"), ("slot", "Slot 01"))
    assert ("iowarden_enclosure_slot_ok", own, 1.0) in samples


@pytest.mark.parametrize("status", ["not installed", "unsupported", "unknown", "(null)"])
def test_an_empty_slot_is_neither_well_nor_sick(status: str, machine: MachineMaker) -> None:
    """Nor has a slot whose state the enclosure does not report."""
    [found] = read_enclosure(machine(slot("0", status=status + "\n")))
    assert (found.status, found.device) == (None if status == "(null)" else status, None)
    names = {name for name, _, _ in emit([found])}
    assert not names & {"iowarden_enclosure_slot_ok", "iowarden_enclosure_slot_fault"}
    [found] = read_enclosure(machine(slot("0", status=status + "\n", fault="4\n")))
    assert found.fault is True


def test_an_attribute_that_makes_no_sense_is_named(machine: MachineMaker) -> None:
    """The message has the path, the expected and the found value."""
    path = f"{SHELF}/Slot 01/fault"
    with pytest.raises(ParseError, match=f"'{path}': expected a number, got 'yes'"):
        read_enclosure(machine(TWO | {path: "yes\n"}))


def test_an_attribute_that_cannot_be_read_leaves_the_slot_in_doubt(machine: MachineMaker) -> None:
    """A directory in place of the file: unknown, with the reason; the other slot remains."""
    path = f"{SHELF}/Slot 01/status"
    files = TWO | {path + "/x": None}
    del files[path]
    slots = read_enclosure(machine(files))
    assert [found.status for found in slots] == [None, "critical"]
    [(labels, reason)] = unreadable(slots)
    assert labels == (("enclosure", "6:0:8:0"), ("slot", "Slot 01"))
    assert path in reason


def test_a_slot_that_goes_while_it_is_read_is_left_out(machine: MachineMaker) -> None:
    """The enclosure was disconnected after the listing: it is left out as a whole."""
    root = machine(TWO)

    def pull(seen: str, content: bytes) -> None:
        if seen == f"{SHELF}/Slot 01/":
            root.remove(f"{SHELF}/Slot 01")

    root.watch(pull)
    assert [found.slot for found in read_enclosure(root)] == ["Slot 02"]


def test_a_machine_without_shelves(machine: MachineMaker) -> None:
    """A missing class is AbsentError; the class without an enclosure is an empty result."""
    with pytest.raises(AbsentError, match="/sys/class/enclosure"):
        read_enclosure(machine({"/sys/block": None}))
    assert read_enclosure(machine({"/sys/class/enclosure": None})) == ()
