"""What redundancy an array has left, which members hold a last copy, and alerts marked by that."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.everything import array, monitored
from support.machine import disk, topology

from iowarden.collectors.block.block_devices import Md
from iowarden.collectors.md.mdstat import ArrayMember
from iowarden.collectors.raid import controller
from iowarden.collectors.raid.controller import ComponentHealth, ComponentState
from iowarden.rules.advice import last_copies
from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.faults import Fault
from iowarden.rules.incidents import causes
from iowarden.rules.severity import Severity
from iowarden.rules.topology import redundancy
from iowarden.rules.topology.slot_map import DeviceMap

NEAR_2, NEAR_3, FAR_2 = 0x102, 0x103, 0x201


@pytest.mark.parametrize(
    ("level", "layout", "disks", "gone", "last"),
    [
        ("raid1", None, 2, {1}, {0}),
        ("raid1", None, 3, {1}, set()),
        ("raid1", None, 3, {1, 2}, {0}),
        ("raid5", 2, 4, {3}, {0, 1, 2}),
        ("raid6", 2, 4, {3}, set()),
        ("raid6", 2, 4, {0, 3}, {1, 2}),
        ("raid10", NEAR_2, 4, {1}, {0}),
        ("raid10", NEAR_2, 4, {1, 2}, {0, 3}),
        ("raid10", NEAR_2, 3, {1}, {0, 2}),
        ("raid10", NEAR_3, 6, {1}, set()),
        ("raid10", NEAR_3, 6, {1, 2}, {0}),
        ("raid10", FAR_2, 4, {1}, set()),
        ("raid10", None, 4, {1}, set()),
        ("raid0", None, 2, set(), set()),
        ("linear", None, 2, set(), set()),
        ("raid5", 2, 4, set(), set()),
    ],
)
def test_members_that_hold_a_last_copy(
    level: str, layout: int | None, disks: int, gone: set[int], last: set[int]
) -> None:
    """By level and layout; of a raid10 'far', or where the layout is not known, none is named."""
    copies = None if layout is None or level != "raid10" else (layout & 255) * (layout >> 8)
    there = [slot for slot in range(disks) if slot not in gone]
    own = replace(
        array("md9", level, (), disks),
        members=tuple(ArrayMember(f"sd{slot}1", slot, ("in_sync",)) for slot in there),
        degraded=len(gone),
    )
    geometry = Md(level, disks, layout, copies, None)
    expected = {f"sd{slot}1" for slot in last}
    assert set(redundancy.last_holders(own, geometry)) == expected
    for damaged in (replace(own, degraded=len(gone) + 1), replace(own, state="inactive")):
        assert redundancy.last_holders(damaged, geometry) == (), "counts that contradict each other"


@pytest.mark.parametrize(
    ("level", "fault"),
    [
        ("RAID1", Fault.EXHAUSTED),
        ("RAID-5", Fault.EXHAUSTED),
        ("Raid 1+0", Fault.EXHAUSTED),
        ("RAID50", Fault.EXHAUSTED),
        ("5", Fault.EXHAUSTED),
        ("RAID6", Fault.DEGRADED),
        ("RAID60", Fault.DEGRADED),
        ("1 adm", Fault.DEGRADED),
        ("", Fault.DEGRADED),
        ("CacheCade", Fault.DEGRADED),
    ],
)
def test_a_degraded_array_of_a_controller_is_judged_by_its_level(level: str, fault: Fault) -> None:
    """What may have a spare disk left stays as it was: degraded."""
    made = controller.ControllerArray(
        "u0", ComponentState(ComponentHealth.DEGRADED, "DEGRADED"), level
    )
    where = DeviceMap(controllers=(controller.Controller("c0", "3ware", arrays=(made,)),))
    labels = (("alertname", "ControllerArrayDegraded"), ("array", "u0"), ("controller", "c0"))
    alert = Alert(
        "ControllerArrayDegraded", labels, AlertState.FIRING, 1.0, (), 0.0, subject="array u0"
    )
    (found,) = last_copies.marked([alert], where)
    assert causes.meaning(found).fault is fault


@pytest.mark.parametrize(
    ("name", "level", "becomes"),
    [
        ("DiskAttributeFailed", "notice", Severity.NOTICE),
        ("DiskPendingSectors", "warning", Severity.CRITICAL),
    ],
)
def test_that_the_disk_with_the_last_copy_is_old_stays_a_notice(
    name: str, level: str, becomes: Severity
) -> None:
    """Power-on hours at their threshold are no error; sectors that cannot be read are the worst."""
    sda = replace(disk("sda", serial="S-A"), partitions=("sda1",))
    where = DeviceMap(
        topology=topology(sda),
        disks={"S-A": monitored(sda)},
        arrays={"md0": array("md0", "raid1", ("sda1",), 2)},
    )
    labels = (("alertname", name), ("disk", "S-A"), ("severity", level))
    told = (("summary", "attribute 9 or 197 says it"),)
    alert = Alert(name, labels, AlertState.FIRING, 1.0, told, 0.0, subject="disk   S-A")
    (found,) = last_copies.marked([alert], where)
    assert found.severity is becomes
    assert ("holds the last copy of md0" in found.summary) is (becomes is Severity.CRITICAL)
    assert (found == alert) is (becomes is Severity.NOTICE)
