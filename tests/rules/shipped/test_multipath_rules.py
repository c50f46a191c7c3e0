"""Paths of multipath maps: how a path can be lost, and what is not a path."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.machine import disk, topology

from iowarden.collectors.block.scsi import ScsiDevice, ScsiTopology
from iowarden.collectors.device_mapper.target_status import parse_line
from iowarden.rules.signals.device import multipath
from iowarden.rules.signals.signal import Inputs, View
from iowarden.rules.snapshot import Snapshot

if TYPE_CHECKING:
    from iowarden.collectors.block.block_devices import Device, Topology
    from iowarden.collectors.device_mapper.target_status import TargetStatus
    from iowarden.rules.signals import table

DAY = 86_400.0
MAP = replace(
    disk("dm-0", slaves=("sda", "sdb"), leaf=False), dm_name="mpatha", dm_uuid="mpath-3600a"
)
PATHS = [replace(disk(name, holders=("dm-0",)), serial="LUN1") for name in ("sda", "sdb")]


class Looks:
    """The paths of one host, poll by poll."""

    def __init__(self) -> None:
        self.state: table.Pairs | object = {}
        self.now = 1000.0
        self.access: dict[str, str] = {}
        """Of the paths, by name (ALUA)."""
        self.in_use = ""
        """What device-mapper has for two paths of MAP: 'A' uses it; '': its state is not read."""

    def look(
        self, *devices: Device, states: dict[str, str] | None = None, after: float = 15.0
    ) -> dict[str, list[int]]:
        """Return by map how many paths are working, unknown, waiting, lost.

        Not those that failed by the kernel's log, which is not read here.
        """
        self.now += after
        found = states or {}
        scsi = ScsiTopology({}, {n: self._scsi(n, state) for n, state in found.items()}, None)
        values: dict[str, Topology | ScsiTopology] = {"block": topology(*devices), "scsi": scsi}
        inputs = Inputs(self.now, self.now, Snapshot(**values, dm_targets=self._dm_targets()))
        view = View(inputs, None)
        self.state, samples = multipath.GROUP.step(self.state, view)  # type: ignore[arg-type]
        self.samples = samples or []
        paths: dict[str, list[int]] = {}
        for name, labels, value in samples or ():
            if name == "iowarden_multipath_paths" and ("state", "failed") not in labels:
                paths.setdefault(dict(labels)["device"], []).append(int(value))
        return paths

    def _scsi(self, name: str, state: str) -> ScsiDevice:
        unknown = (None,) * 6
        access = self.access.get(name)
        return ScsiDevice(name, "host1", name, 0, state, *unknown, access_state=access)

    def _dm_targets(self) -> tuple[TargetStatus, ...] | None:
        if not self.in_use:
            return None
        first, second = self.in_use
        status = parse_line(
            "mpatha: 0 8 multipath 2 0 0 0 2 1"
            f" A 0 1 2 8:0 {first} 0 0 1 E 0 1 2 8:16 {second} 0 0 1"
        )
        assert status is not None
        return (replace(status, device="dm-0"),)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("running", [0, 2, 0, 0]),
        ("created", [0, 2, 0, 0]),
        ("quiesce", [0, 2, 0, 0]),
        ("blocked", [0, 1, 1, 0]),
        ("created-blocked", [0, 1, 1, 0]),
        ("transport-offline", [0, 1, 0, 1]),
        ("offline", [0, 1, 0, 1]),
        ("cancel", [0, 1, 0, 1]),
        ("deleted", [0, 1, 0, 1]),
        ("a state of a kernel to come", [0, 1, 0, 1]),
    ],
)
def test_no_scsi_state_shows_that_a_path_works(state: str, expected: list[int]) -> None:
    """Blocked: the kernel waits for it; offline: requests fail there; running: it may be failed."""
    states = {"sda": "running", "sdb": state}
    assert Looks().look(MAP, *PATHS, states=states) == {"dm-0": expected}


def test_a_path_that_is_gone_is_missed_for_seven_days_and_may_come_back_as_another() -> None:
    """Fibre Channel removes it; it returns as 'sdc'. One that was taken out is forgotten."""
    looks = Looks()
    looks.look(MAP, *PATHS)
    alone = replace(MAP, slaves=("sda",))
    assert looks.look(alone, PATHS[0]) == {"dm-0": [0, 1, 0, 1]}
    assert looks.look(replace(MAP, slaves=())) == {"dm-0": [0, 0, 0, 2]}
    back = replace(MAP, slaves=("sda", "sdc"))
    assert looks.look(back, PATHS[0], replace(PATHS[1], name="sdc")) == {"dm-0": [0, 2, 0, 0]}
    assert looks.look(alone, PATHS[0], after=6 * DAY) == {"dm-0": [0, 1, 0, 1]}
    assert looks.look(alone, PATHS[0], after=2 * DAY) == {"dm-0": [0, 1, 0, 0]}


def test_how_many_paths_there_were_survives_a_restart() -> None:
    """The path was lost while iowarden was not running: the map is known by its UUID."""
    looks, later = Looks(), Looks()
    looks.look(MAP, *PATHS)
    later.state = looks.state
    renamed = replace(MAP, name="dm-3", slaves=("sda",))
    assert later.look(renamed, PATHS[0]) == {"dm-3": [0, 1, 0, 1]}


def test_an_nvme_drive_with_one_path_is_no_map_and_one_with_two_is() -> None:
    """The kernel makes a path also for a drive that merely could have more."""
    paths = [
        replace(disk(f"nvme0c{n}n1", holders=("nvme0n1",)), state=state)
        for n, state in enumerate(("live", "connecting"))
    ]
    head = replace(disk("nvme0n1", slaves=("nvme0c0n1", "nvme0c1n1"), leaf=False), wwn="eui.1")
    one = replace(head, slaves=("nvme0c0n1",))
    looks = Looks()
    assert looks.look(one, paths[0]) == {}
    assert looks.look(head, *paths) == {"nvme0n1": [1, 0, 1, 0]}
    assert looks.look(one, paths[0]) == {"nvme0n1": [1, 0, 0, 1]}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("inaccessible", [1, 1, 0, 0]),
        ("change", [1, 0, 1, 0]),
        ("persistent-loss", [1, 0, 0, 1]),
        ("resetting", [1, 0, 1, 0]),
        ("deleting", [1, 0, 0, 1]),
        (None, [1, 1, 0, 0]),
    ],
)
def test_an_nvme_path_works_only_if_its_controller_is_live_and_its_ana_group_accessible(
    state: str | None, expected: list[int]
) -> None:
    """Inaccessible is normal for a path to a standby controller: no alert, and no redundancy."""
    paths = [
        replace(disk(f"nvme0c{n}n1", holders=("nvme0n1",)), state=own)
        for n, own in enumerate(("live", state))
    ]
    head = replace(disk("nvme0n1", slaves=("nvme0c0n1", "nvme0c1n1"), leaf=False), wwn="eui.1")
    assert Looks().look(head, *paths) == {"nvme0n1": expected}


def test_a_volume_on_a_map_and_a_partition_of_it_are_no_maps() -> None:
    """kpartx creates 'part1-mpath-...'; LVM is on the map."""
    part = replace(disk("dm-1", slaves=("dm-0",), leaf=False), dm_uuid="part1-mpath-3600a")
    volume = replace(disk("dm-2", slaves=("dm-0",), leaf=False), dm_uuid="LVM-abc")
    assert Looks().look(MAP, *PATHS, part, volume).keys() == {"dm-0"}


def test_only_non_optimized_paths_are_left_when_one_was_optimized_before() -> None:
    """An array that never had another is as it was made; one that lost it for a week as well."""

    def nonoptimized(looks: Looks, *states: str, after: float = 15.0) -> list[float]:
        names = [f"nvme0c{number}n1" for number in range(len(states))]
        pairs = zip(names, states, strict=True)
        paths = [replace(disk(n, holders=("nvme0n1",)), state=state) for n, state in pairs]
        head = replace(disk("nvme0n1", slaves=tuple(names), leaf=False), wwn="eui.1")
        looks.look(head, *paths, after=after)
        return [value for name, _, value in looks.samples if name.endswith("_nonoptimized_only")]

    slower = "non-optimized"
    assert nonoptimized(Looks(), slower, slower) == [0]
    looks = Looks()
    assert nonoptimized(looks, "live", slower) == [0]
    assert nonoptimized(looks, "inaccessible", slower) == [1]
    assert nonoptimized(looks, "connecting", slower) == [1]
    assert nonoptimized(looks, "connecting", "connecting") == []
    assert nonoptimized(looks, "live", slower) == [0]
    assert nonoptimized(looks, slower, slower) == [1]
    assert nonoptimized(looks, slower, slower, after=8 * DAY) == [0]


@pytest.mark.parametrize(
    ("access", "in_use", "expected"),
    [
        (("active/optimized", "active/non-optimized"), "AA", [0]),
        (("active/optimized", "active/non-optimized"), "FA", [1]),
        (("active/non-optimized", "active/non-optimized"), "AA", [1]),
        (("transitioning", "active/non-optimized"), "AA", [1]),
        (("active/optimized", "standby"), "FA", [1]),
        (("lba-dependent", "active/non-optimized"), "AA", []),
        (("active/optimized", "active/non-optimized"), "FF", []),
        (("active/optimized", "active/non-optimized"), "", []),
    ],
    ids=[
        *("well", "owner-lost", "moved-by-array", "moving", "standby-left", "by-block"),
        *("no-path", "not-read"),
    ],
)
def test_a_lun_whose_optimized_paths_are_lost_is_reached_by_the_other_controller(
    access: tuple[str, str], in_use: str, expected: list[float]
) -> None:
    """ALUA: device-mapper decides which paths work, the array which of them are optimized."""
    looks = Looks()
    paths = [
        replace(path, device_number=number)
        for path, number in zip(PATHS, ("8:0", "8:16"), strict=True)
    ]
    states = {"sda": "running", "sdb": "running"}
    looks.access, looks.in_use = {"sda": "active/optimized", "sdb": "active/non-optimized"}, "AA"
    looks.look(MAP, *paths, states=states)
    looks.access, looks.in_use = dict(zip(states, access, strict=True)), in_use
    looks.look(MAP, *paths, states=states)
    found = [value for name, _, value in looks.samples if name.endswith("_nonoptimized_only")]
    assert found == expected
