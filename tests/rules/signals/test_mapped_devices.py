"""Thin pools that fill up, path groups that change to and fro, paths as device-mapper has them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.machine import disk, topology

from iowarden.collectors.block.scsi import ScsiDevice, ScsiTopology
from iowarden.collectors.device_mapper.target_status import TargetStatus, parse_line
from iowarden.rules.signals.device import multipath, path_groups
from iowarden.rules.signals.filesystem import pool_fullness
from iowarden.rules.signals.signal import Inputs, View
from iowarden.rules.snapshot import Snapshot

if TYPE_CHECKING:
    from iowarden.rules.signals.signal import SignalGroup

HOUR = 3600.0


def status(line: str, device: str = "dm-4") -> TargetStatus:
    """Return what 'dmsetup status' printed of a device."""
    found = parse_line(line)
    assert found is not None
    return replace(found, device=device)


class Group:
    """A group of signals, reading by reading."""

    def __init__(self, group: SignalGroup[Any]) -> None:
        self.group = group
        self.state = group.initial
        self.now = 1000.0

    def read(self, *targets: TargetStatus, after: float = 60.0, **more: object) -> dict[str, float]:
        """Return the samples after a reading, by name and the values of their labels."""
        self.now += after
        snapshot = Snapshot(dm_targets=targets, **more)  # type: ignore[arg-type]
        view = View(Inputs(self.now, self.now, snapshot), None)
        self.state, samples = self.group.step(self.state, view)
        return {
            " ".join((name.removeprefix("iowarden_"), *(value for _, value in labels))): number
            for name, labels, number in samples or ()
        }


def pool(data: int, metadata: int = 10) -> TargetStatus:
    """Return a thin pool of 1000 blocks of data."""
    words = f"7 {metadata}/100 {data}/1000 - rw ignore_discard error_if_no_space - 1"
    return status(f"p: 0 8 thin-pool {words}")


FULL_IN = "dm_full_in_seconds data dm-4 p thin-pool"
SUSTAINED = "dm_sustained_used_ratio data dm-4 p thin-pool"


def test_a_pool_that_fills_steadily_has_a_forecast_and_each_area_its_own() -> None:
    """10 of 1000 blocks in half an hour: the 70 that are left last for 3.5 h."""
    group = Group(pool_fullness.GROUP)
    found: dict[str, float] = {}
    for number in range(14):
        found = group.read(pool(800 + 10 * number), after=1800.0)
    assert found[FULL_IN] == pytest.approx(70 / 10 * 1800.0, rel=0.01)
    assert found[SUSTAINED] == 0.93
    assert "dm_full_in_seconds metadata dm-4 p thin-pool" not in found
    # A level that swings about a threshold does not make the alert do so.
    assert group.read(pool(920))[SUSTAINED] == 0.93
    assert group.read(pool(900))[SUSTAINED] == pytest.approx(0.92)


def test_an_extended_pool_starts_anew_and_one_that_is_not_read_keeps_its_history() -> None:
    """'lvextend' changes the total; a program that hung for a minute changes nothing."""
    group = Group(pool_fullness.GROUP)
    for number in range(14):
        group.read(pool(800 + 10 * number), after=1800.0)
    stored = pool_fullness.GROUP.remember
    assert stored is not None
    assert group.read(replace(pool(0), usages=(), unparsed="no answer for 20 s")) == {}
    assert FULL_IN in group.read(pool(935))
    before = stored(group.state)
    larger = status("p: 0 8 thin-pool 7 10/100 935/2000 - rw ignore_discard error_if_no_space - 1")
    assert FULL_IN not in group.read(larger)
    again = Group(pool_fullness.GROUP)
    again.now = group.now
    recall = pool_fullness.GROUP.recall
    assert recall is not None
    again.state = recall(again.state, before)
    assert FULL_IN in again.read(pool(936))
    assert group.read() == {}


def paths(first: str, second: str, letters: str = "AA") -> TargetStatus:
    """Return a map with a group of one path each, in these states."""
    groups = f"{first} 0 1 0 8:0 {letters[0]} 0 {second} 0 1 0 8:16 {letters[1]} 0"
    return status(f"m: 0 8 multipath 2 0 0 0 2 1 {groups}", "dm-0")


CHANGES = "dm_path_group_changes dm-0 m"


def test_a_map_that_changes_its_group_to_and_fro_is_counted_for_an_hour() -> None:
    """A switch by the administrator is one change; that a group has none in use is no change."""
    group = Group(path_groups.GROUP)
    assert group.read(paths("A", "E"))[CHANGES] == 0
    assert group.read(paths("E", "A"))[CHANGES] == 1
    assert group.read(paths("E", "E", "FF"))[CHANGES] == 1
    assert group.read(paths("D", "A"))[CHANGES] == 1
    for number in range(2, 6):
        found = group.read(paths(*("AE" if number % 2 == 0 else "EA")))
        assert found[CHANGES] == number
    assert group.read(paths("E", "A"), after=HOUR - 200)[CHANGES] > 0
    assert group.read(paths("E", "A"), after=HOUR)[CHANGES] == 0
    assert group.read(pool(1)) == {}


def test_a_path_that_is_added_to_the_group_in_use_is_no_change() -> None:
    """multipathd loads the table again when a path returns."""
    group = Group(path_groups.GROUP)
    one = status("m: 0 8 multipath 2 0 0 0 1 1 A 0 1 0 8:0 A 0", "dm-0")
    two = status("m: 0 8 multipath 2 0 0 0 1 1 A 0 2 0 8:0 A 0 8:16 A 0", "dm-0")
    assert [group.read(each)[CHANGES] for each in (one, two, one)] == [0, 0, 0]


MAP = replace(disk("dm-0", slaves=("sda", "sdb"), leaf=False), dm_name="m", dm_uuid="mpath-3600a")
LUN = [
    replace(disk(name, holders=("dm-0",)), device_number=number)
    for name, number in (("sda", "8:0"), ("sdb", "8:16"))
]


@pytest.mark.parametrize(
    ("letters", "scsi", "expected"),
    [
        ("AA", "running", {"working": 2}),
        ("AF", "running", {"working": 1, "failed": 1}),
        ("FF", "running", {"failed": 2}),
        ("AA", "offline", {"lost": 2}),
        ("FA", "blocked", {"waiting": 2}),
    ],
)
def test_the_state_of_a_path_is_that_of_device_mapper_where_scsi_shows_no_fault(
    letters: str, scsi: str, expected: dict[str, int]
) -> None:
    """'running' is no evidence; what SCSI knows to be lost is lost before device-mapper notices."""
    devices = {
        name: ScsiDevice(name, "host1", name, 0, scsi, *(None,) * 6) for name in ("sda", "sdb")
    }
    more = {"block": topology(MAP, *LUN), "scsi": ScsiTopology({}, devices, None)}
    found = Group(multipath.GROUP).read(paths("A", "E", letters), **more)
    states = {key.rpartition(" ")[2]: n for key, n in found.items() if "multipath_paths " in key}
    assert {state: n for state, n in states.items() if n} == expected


def test_a_map_that_device_mapper_does_not_report_is_unknown() -> None:
    """The program hung, or another map is reported."""
    for other in (replace(paths("A", "E"), unparsed="no answer for 20 s"), pool(1)):
        more = {"block": topology(MAP, *LUN)}
        found = Group(multipath.GROUP).read(other, **more)
        assert found["multipath_paths dm-0 m unknown"] == 2


def thin(mapped: int, name: str = "vg-a") -> TargetStatus:
    """Return a thin volume that uses so many sectors of its pool."""
    return replace(status(f"{name}: 0 8 thin {mapped} 99", "dm-5"), pool="p")


def test_who_fills_a_pool_is_the_volume_that_grew_within_six_hours() -> None:
    """Since it was first seen; what it wrote before that is its size, and no growth."""
    group = Group(pool_fullness.INCREASE_GROUP)
    grown = "dm_thin_increase_bytes dm-5 vg-a p"
    assert group.read(thin(1000))[grown] == 0
    assert group.read(thin(1002), after=600)[grown] == 2 * 512
    assert group.read(thin(1500), after=HOUR)[grown] == 500 * 512
    unread = replace(thin(0), mapped_sectors=None, unparsed="no answer for 20 s")
    assert group.read(unread) == {}
    assert group.read(thin(1500), after=5 * HOUR)[grown] == 0
    assert group.read(thin(900))[grown] == 0
    assert group.read(thin(1000, "vg-b"))["dm_thin_increase_bytes dm-5 vg-b p"] == 0
