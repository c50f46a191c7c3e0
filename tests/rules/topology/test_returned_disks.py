"""A disk that is back: its name, and what takes it back into what lost it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.machine import disk, topology

from iowarden.collectors.block.block_devices import Md
from iowarden.collectors.md.mdstat import ArrayMember, MdArray
from iowarden.rules.topology import device_changes, returned_disks
from iowarden.rules.topology.device_changes import DeviceChangeKind, Devices, ReturnedDisk
from iowarden.rules.topology.topology import NO_DEPENDENTS, remember, with_dependents

BACK = ReturnedDisk("sdb", "sde", "sde (HDD, serial S2)", 10.0, (("sdb1", "md0"),))
SDE = replace(disk("sde", serial="S2"), partitions=("sde1", "sde2"))
MD0 = disk("md0", leaf=False, md=Md("raid10", 4, 258, 2, 524288))


def array(level: str, degraded: int, **fields: Any) -> MdArray:  # noqa: ANN401 - as Array takes them
    """An array of four members, some of them missing."""
    usual = MdArray("md0", level, "clean", 4, degraded, "idle", None, None, None, None, None, ())
    return replace(usual, **fields)


def said(array_: MdArray, back: ReturnedDisk = BACK) -> str:
    """Return the advice about a member of md0 that is back as sde."""
    return "\n".join(returned_disks.advice(back, topology(SDE, MD0), {"md0": array_}))


@pytest.mark.parametrize(
    ("level", "lost"), [("raid1", 3), ("raid4", 1), ("raid5", 1), ("raid6", 2), ("raid10", 1)]
)
def test_a_member_is_added_anew_while_the_array_still_runs_for_certain(
    level: str, lost: int
) -> None:
    """Beyond its redundancy '--add' would write over what may be the only copy."""
    assert "  mdadm /dev/md0 --re-add /dev/sde1\n" in said(array(level, lost))
    for worse in (array(level, lost + 1), array(level, lost, state="inactive")):
        text = said(worse)
        assert "do not add /dev/sde1" in text
        assert "--re-add" not in text
        assert "--add /dev" not in text
        assert "mdadm --examine /dev/sde1" in text


@pytest.mark.parametrize(
    "own",
    [
        array("raid5", 0),
        array("raid0", 0),
        array("linear", 0),
        replace(array("raid5", 0), degraded=None),
    ],
)
def test_an_array_that_misses_nothing_or_has_no_redundancy_takes_nothing_back(own: MdArray) -> None:
    """It has it again, or is lost without it."""
    assert said(own) == ""


def test_what_the_array_already_holds_again_needs_no_command() -> None:
    """udev's rules of mdadm were faster."""
    there = replace(SDE, uses=(("sde1", "md0"),), holders=("md0",))
    assert returned_disks.advice(BACK, topology(there, MD0), {"md0": array("raid5", 1)}) == ()


@pytest.mark.parametrize(("back", "word"), [("sde", "detached"), ("sdb", "failed")])
def test_the_failed_member_of_before_is_removed_first(back: str, word: str) -> None:
    """md reserves the slot of a missing disk until it is removed explicitly."""
    own = array("raid5", 1, members=(ArrayMember("sdb1", None, ("faulty",)),))
    disks = topology(replace(SDE, name=back, partitions=(f"{back}1",)), MD0)
    (text,) = returned_disks.advice(replace(BACK, name=back), disks, {"md0": own})
    remove = f"  mdadm /dev/md0 --remove {word}\n"
    assert text.index(remove) < text.index(f"--re-add /dev/{back}1")


def test_a_disk_without_its_partitions_is_not_written_to() -> None:
    """It may be another disk of the same model, or an erased one."""
    bare = topology(replace(SDE, partitions=()), MD0)
    (text,) = returned_disks.advice(BACK, bare, {"md0": array("raid5", 1)})
    assert "/dev/sde1, which md0 lost, does not exist" in text
    assert "mdadm" not in text


def test_logical_volumes_are_refreshed_by_their_real_names() -> None:
    """The table of dm-0 has a device number that no longer exists."""
    lv = replace(disk("dm-0", leaf=False), dm_name="vg--1-data", dm_uuid="LVM-x")
    crypt = replace(disk("dm-1", leaf=False), dm_name="vg--1-safe", dm_uuid="CRYPT-LUKS2-x")
    held = replace(BACK, members=(("sdb1", "dm-0"), ("sdb2", "dm-1"), ("sdb", "dm-7")))
    (text,) = returned_disks.advice(held, topology(SDE, lv, crypt), {})
    assert text.endswith("\n  lvchange --refresh vg-1/data")
    assert returned_disks.advice(held, topology(MD0), {}) == (), "it is gone again"


@pytest.mark.parametrize(
    "part", ["data_rimage_1", "data_rmeta_0", "data_tdata", "data_corig", "data_rimage_1_corig"]
)
def test_the_hidden_part_of_a_volume_is_refreshed_as_the_volume(part: str) -> None:
    """On a disk of a mirrored volume there is 'vg-data_rimage_1', a name that lvchange refuses."""
    lv = replace(disk("dm-0", leaf=False), dm_name=f"vg-{part}", dm_uuid="LVM-x")
    held = replace(BACK, members=(("sdb1", "dm-0"),))
    (text,) = returned_disks.advice(held, topology(SDE, lv), {})
    assert text.endswith("\n  lvchange --refresh vg/data")


def test_a_disk_that_vanished_and_came_back_is_no_new_disk() -> None:
    """sdb1 of md0 was missing for a minute: its array is known when it is sde."""
    sdb = replace(disk("sdb", serial="S2"), partitions=("sdb1",), holders=("md0",))
    before = topology(replace(sdb, uses=(("sdb1", "md0"),)), MD0)
    standing = remember(NO_DEPENDENTS, before, (), 0.0)
    empty = topology(MD0)
    events = [
        with_dependents(standing, before, e, 5.0) for e in device_changes.changes(before, empty)
    ]
    state = device_changes.next_devices(Devices(), events, empty, 5.0)
    (gone,) = state.gone.values()
    assert gone.members == (("sdb1", "md0"),)
    after = topology(SDE, MD0)
    (event,) = device_changes.recognized(state, device_changes.changes(empty, after))
    assert (event.change, event.name, event.was) == (DeviceChangeKind.RETURNED, "sde", "sdb")
    state = device_changes.next_devices(state, [event], after, 65.0)
    (back,) = state.returned.values()
    assert (back.was, back.name, back.members) == ("sdb", "sde", gone.members)
    assert state.gone == {}
    assert device_changes.next_devices(state, [], empty, 70.0).returned == {}, "it is gone again"


def test_a_disk_that_was_never_there_is_new() -> None:
    """Without a serial number, or with one that was not missing."""
    after = topology(disk("sdz"), disk("sdy", serial="S9"))
    events = device_changes.recognized(Devices(), device_changes.changes(topology(), after))
    assert {each.change for each in events} == {DeviceChangeKind.ADDED}


@pytest.mark.parametrize(
    ("name", "text"),
    [("sdb", "sdb (HDD) is back"), ("sde", "sdb is back: it is /dev/sde now, sdb (HDD)")],
)
def test_a_disk_is_reported_to_be_back_under_its_name(name: str, text: str) -> None:
    """The administrator types that name."""
    assert returned_disks.sentence("sdb", name, "sdb (HDD)") == text
