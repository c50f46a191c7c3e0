"""Events of an array from one read to the next, with mdadm's names."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.event import StorageEvent
from iowarden.collectors.md.md_events import KINDS, md_events
from iowarden.collectors.md.mdstat import ArrayMember, MdArray, from_mdstat, parse_mdstat

HEAD, END = "Personalities : [raid1]\n", "unused devices: <none>\n"
WHOLE = """md0 : active raid1 sdb1[1] sda1[0]
      1047552 blocks super 1.2 [2/2] [UU]

"""
FAILED = WHOLE.replace("sdb1[1]", "sdb1[1](F)").replace("[2/2] [UU]", "[2/1] [U_]")
CONTAINER = """md126 : active raid1 sdb[1] sdc[0]
      976759808 blocks super external:/md127/0 [2/2] [UU]

md127 : inactive sdb[1](S) sdc[0](S)
      5288 blocks super external:imsm

"""


def seen(text: str) -> dict[str, MdArray]:
    """Return the arrays of a '/proc/mdstat'."""
    return {name: from_mdstat(stat) for name, stat in parse_mdstat(HEAD + text + END).items()}


def array(name: str = "md0", action: str = "idle", degraded: int = 0, **roles: str) -> MdArray:
    """Return an array as in sysfs."""
    members = tuple(ArrayMember(device, None, (state,)) for device, state in roles.items())
    known = MdArray(name, *(None,) * 10, ())
    return replace(
        known,
        level="raid1",
        state="clean",
        raid_disks=2,
        degraded=degraded,
        sync_action=action,
        members=members,
    )


def told(before: MdArray, now: MdArray) -> list[tuple[str, str, str, str]]:
    """Return kind, device, place and code of the events."""
    found = md_events({before.name: before}, {now.name: now}, 1000.0)
    return [(event.kind, event.device, event.place, event.code) for event in found]


def test_a_member_fails() -> None:
    """The member is the device and the array is the place, as in the kernel's line."""
    first, second = md_events(seen(WHOLE), seen(FAILED), 1000.0)
    assert first == StorageEvent(
        "md",
        "md_member_failed",
        "sdb1 failed in md0",
        device="sdb1",
        place="md0",
        code="Fail",
        clock_seconds=1000.0,
        realtime_seconds=1000.0,
    )
    assert (second.kind, second.text) == ("md_array_degraded", "md0 has 1 of 2 members missing")


def test_what_was_so_at_first_sight_did_not_happen() -> None:
    """Rules report it, in the initial report."""
    assert md_events(None, seen(FAILED), 1000.0) == ()
    assert md_events(seen(FAILED), seen(FAILED), 1000.0) == ()


def test_a_spare_takes_the_place_of_a_failed_member() -> None:
    """Removed, added, rebuilt: each step once."""
    whole = array(sda1="in_sync", sdb1="in_sync")
    failed = array(degraded=1, sda1="in_sync", sdb1="faulty")
    removed = array(degraded=1, sda1="in_sync")
    rebuilding = array(action="recover", degraded=1, sda1="in_sync", sdc1="spare")
    done = array(sda1="in_sync", sdc1="in_sync")
    assert told(whole, failed) == [
        ("md_member_failed", "sdb1", "md0", "Fail"),
        ("md_array_degraded", "md0", "", "DegradedArray"),
    ]
    assert told(failed, removed) == [("md_member_removed", "sdb1", "md0", "")]
    assert told(removed, rebuilding) == [
        ("md_member_added", "sdc1", "md0", ""),
        ("md_rebuild_started", "md0", "", "RebuildStarted"),
    ]
    assert told(rebuilding, done) == [
        ("md_spare_active", "sdc1", "md0", "SpareActive"),
        ("md_array_recovered", "md0", "", ""),
        ("md_rebuild_finished", "md0", "", "RebuildFinished"),
    ]


def test_a_spare_that_fails_while_it_is_filled() -> None:
    """Not a second member lost."""
    before = array(action="recover", degraded=1, sda1="in_sync", sdc1="spare")
    now = array(degraded=1, sda1="in_sync", sdc1="faulty")
    assert [kind for kind, *_ in told(before, now)] == ["md_spare_failed", "md_rebuild_finished"]


def test_a_second_member_that_fails_is_reported_again() -> None:
    """A raid6 stays active with two missing."""
    before = array(degraded=1, sda1="in_sync", sdb1="in_sync")
    now = array(degraded=2, sda1="in_sync", sdb1="faulty")
    assert [code for *_, code in told(before, now)] == ["Fail", "DegradedArray"]


def test_a_check_that_turns_into_a_recovery() -> None:
    """One ends and the other begins."""
    before, now = array(action="check"), array(action="recover")
    assert [kind for kind, *_ in told(before, now)] == ["md_rebuild_finished", "md_rebuild_started"]
    assert told(array(action="idle"), array(action="frozen")) == []


@pytest.mark.parametrize("unknown", ["degraded", "sync_action"])
def test_what_could_not_be_read_once_did_not_happen(unknown: str) -> None:
    """Unknown is neither complete nor idle."""
    busy = array(action="recover", degraded=1, sda1="in_sync")
    blank = MdArray(**{f: getattr(busy, f) for f in busy.__slots__} | {unknown: None})
    assert told(busy, blank) == []
    assert told(blank, busy) == []


def test_a_spare_that_is_moved_to_another_array() -> None:
    """mdadm does that for arrays of one spare group."""
    before = {"md0": array(sda="in_sync", sdc="spare"), "md1": array("md1", sdb="in_sync")}
    now = {"md0": array(sda="in_sync"), "md1": array("md1", sdb="in_sync", sdc="spare")}
    assert [(event.kind, event.text) for event in md_events(before, now, 1.0)] == [
        ("md_spare_moved", "sdc is no longer in md0, where it was spare: it is now in md1"),
        ("md_member_added", "sdc was added to md1, it is spare"),
    ]


def test_arrays_that_come_and_go() -> None:
    """Stopped by a user or failed; a new one that is degraded is reported so."""
    assert [event.code for event in md_events({}, seen(FAILED), 1.0)] == [
        "NewArray",
        "DegradedArray",
    ]
    (gone,) = md_events(seen(WHOLE), {}, 1.0)
    assert (gone.kind, gone.device, gone.code) == (
        "md_array_disappeared",
        "md0",
        "DeviceDisappeared",
    )
    stopped = {"md0": replace(array(sda="spare"), state="inactive")}
    (gone,) = md_events({"md0": array(sda="in_sync")}, stopped, 1.0)
    assert gone.text == "md0 is no longer active, its state is inactive"


def test_a_container_of_a_firmware_raid_is_always_inactive() -> None:
    """It has no events, also when it is first seen."""
    assert [event.device for event in md_events({}, seen(CONTAINER), 1.0)] == ["md126"]
    assert md_events(seen(CONTAINER), seen(CONTAINER), 1.0) == ()


ROLES = st.sampled_from(["in_sync", "spare", "faulty"])
ARRAYS = st.dictionaries(
    st.sampled_from(["md0", "md1"]),
    st.tuples(
        st.dictionaries(st.sampled_from(["sda", "sdb", "sdc"]), ROLES),
        st.sampled_from([None, "idle", "recover", "check", "frozen"]),
        st.sampled_from([None, 0, 1, 2]),
        st.sampled_from(["clean", "active", "inactive", "clear", "broken"]),
    ),
)


@given(ARRAYS, ARRAYS)
def test_any_change_is_reported_in_known_words(
    one: dict[str, tuple], two: dict[str, tuple]
) -> None:  # type: ignore[type-arg]
    """Equal reads have no events, and every event has a known kind and object."""
    before, now = (
        {
            name: replace(array(name, **roles), sync_action=action, degraded=degraded, state=state)
            for name, (roles, action, degraded, state) in each.items()
        }
        for each in (one, two)
    )
    assert md_events(now, now, 1.0) == ()
    found = md_events(before, now, 1.0)
    assert {event.kind for event in found} <= KINDS.keys()
    assert {event.place or event.device for event in found} <= before.keys() | now.keys()
    assert len({event.key for event in found}) == len(found)
