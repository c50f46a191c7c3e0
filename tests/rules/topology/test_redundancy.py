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


def finding(name: str, level: str, disk: str = "S-A", **labels: str) -> Alert:
    """Return an alert of a disk that fires."""
    own = tuple(sorted({"alertname": name, "disk": disk, "severity": level, **labels}.items()))
    annotations = (("summary", "3 pending sectors"),)
    return Alert(name, own, AlertState.FIRING, 1.0, annotations, 0.0, subject=f"disk   {disk}")


def mirror(*letters: str, level: str = "raid1", disks: int = 2) -> DeviceMap:
    """Return the disks S-A, S-B ... as the members of an array of so many."""
    made = [
        replace(disk(f"sd{c}", serial=f"S-{c.upper()}"), partitions=(f"sd{c}1",)) for c in letters
    ]
    md0 = replace(disk("md0"), leaf=False, slaves=tuple(f"sd{c}1" for c in letters))
    return DeviceMap(
        topology=topology(*made, md0),
        disks={f"S-{c.upper()}": monitored(each) for c, each in zip(letters, made, strict=True)},
        arrays={"md0": array("md0", level, [f"sd{c}1" for c in letters], disks)},
    )


@pytest.mark.parametrize(
    ("name", "level", "labels", "becomes"),
    [
        ("DiskPendingSectors", "warning", {}, Severity.CRITICAL),
        ("DiskReallocatedSectorsIncreased", "warning", {"id": "5"}, Severity.CRITICAL),
        ("DiskNormalizedValueDropped", "notice", {"id": "197"}, Severity.WARNING),
        ("DiskNormalizedValueDropped", "notice", {"id": "188"}, Severity.NOTICE),
        ("DiskPendingSectors", "info", {}, Severity.INFO),
        ("DiskErrorsInBaseline", "notice", {"id": "5"}, Severity.NOTICE),
        ("DiskAttributeFailed", "notice", {"failure": "usage"}, Severity.NOTICE),
        ("DiskAttributeFailed", "warning", {"failure": "old_age"}, Severity.WARNING),
        ("DiskEnduranceUsed", "warning", {}, Severity.WARNING),
        ("NvmeSpareLow", "warning", {}, Severity.WARNING),
        ("DiskTemperatureHigh", "warning", {}, Severity.WARNING),
    ],
)
def test_a_finding_of_the_last_copy_is_one_severity_higher(
    name: str, level: str, labels: dict[str, str], becomes: Severity
) -> None:
    """The array has lost its other disk. Wear, age, heat, old counts and a user's 'info' are none.

    A notice never becomes critical, and does not make the array's fault one of lost redundancy.
    """
    alert = finding(name, level, **labels)
    (found,) = last_copies.marked([alert], mirror("a"))
    assert found.severity is becomes
    raised = becomes is not alert.severity
    assert (found == alert) is not raised
    assert found.summary.startswith("sda1 holds the last copy of md0 and has errors: ") is raised
    exhausted = causes.meaning(found).fault is Fault.EXHAUSTED
    assert exhausted is (becomes is Severity.CRITICAL)


@pytest.mark.parametrize("name", ["block_medium_error", "scan_bad_range"])
def test_an_event_about_a_sector_of_the_last_copy_is_critical(name: str) -> None:
    """Whether a program met it, or a surface scan, before a program did."""
    condition = {"block_medium_error": "io_error"}.get(name, "surface_error")
    alert = replace(finding(name, "warning", condition=condition), count=1)
    (found,) = last_copies.marked([alert], mirror("a"))
    assert found.severity is Severity.CRITICAL
    assert causes.meaning(found).fault is Fault.EXHAUSTED


@pytest.mark.parametrize("level", ["raid1", "raid5", "raid6"])
def test_findings_of_two_members_make_each_other_more_urgent(level: str) -> None:
    """All members are in sync; with findings of one alone, or of a disk elsewhere, nothing is."""
    where = mirror("a", "b", "c", level=level, disks=3)
    first = finding("DiskPendingSectors", "warning")
    second = finding("DiskNormalizedValueDropped", "notice", "S-C", id="197")
    both = last_copies.marked([first, second], where)
    assert [a.severity for a in both] == [Severity.CRITICAL, Severity.WARNING]
    assert both[0].summary == "2 members of md0 have errors (sda1, sdc1): 3 pending sectors"
    for other in (
        finding("DiskAttributeFailed", "warning", "S-C", failure="old_age"),
        finding("DiskPendingSectors", "warning", "S-Z"),
        finding("block_io_error", "warning", "", device="sdc"),
        finding("md_read_uncorrectable", "warning", "", device="md0"),
        replace(second, state=AlertState.RESOLVED),
        finding("DiskReallocatedSectorsIncreased", "warning", id="5"),
    ):
        assert last_copies.marked([first, other], where)[0].severity is Severity.WARNING, other


@pytest.mark.parametrize(
    ("level", "health", "others", "becomes"),
    [
        ("RAID5", ComponentHealth.DEGRADED, (), Severity.CRITICAL),
        ("RAID6", ComponentHealth.DEGRADED, (), Severity.WARNING),
        ("RAID10", ComponentHealth.DEGRADED, (), Severity.WARNING),
        ("RAID5", ComponentHealth.OK, (), Severity.WARNING),
        ("RAID5", ComponentHealth.OK, ("S-B",), Severity.CRITICAL),
        ("RAID6", ComponentHealth.OK, ("S-C",), Severity.WARNING),
    ],
)
def test_a_finding_of_a_disk_behind_a_raid_controller_is_raised_by_its_array(
    level: str, health: ComponentHealth, others: tuple[str, ...], becomes: Severity
) -> None:
    """S-A and S-B are its disks, S-C is a spare; of a RAID 10 the whole half is not known."""
    state = ComponentState(ComponentHealth.OK, "OK")
    disks = [
        controller.PhysicalDisk(f"slot {n}", state, serial=f"S-{c}", array="" if c == "C" else "u0")
        for n, c in enumerate("ABC")
    ]
    made = controller.ControllerArray("u0", ComponentState(health, "state"), level)
    card = controller.Controller("c0", "megaraid", arrays=(made,), disks=tuple(disks))
    hidden = {
        f"S-{c}": replace(monitored(disk("sdz", serial=f"S-{c}")), device="", leaves=())
        for c in "ABC"
    }
    where = DeviceMap(topology=topology(), disks=hidden, controllers=(card,))
    alerts = [finding("DiskPendingSectors", "warning", each) for each in ("S-A", *others)]
    assert last_copies.marked(alerts, where)[0].severity is becomes


@pytest.mark.parametrize(("left", "named"), [((120.0, 149.0), True), ((120.0, 151.0), False)])
def test_two_members_that_wear_out_together_are_named(
    left: tuple[float, float], *, named: bool
) -> None:
    """Within 30 days of each other; no severity follows from wear, nor from a third disk's."""
    where = mirror("a", "b")
    alerts = [
        replace(finding("DiskWearingOut", "notice", f"S-{c}"), value=days)
        for c, days in zip("ABZ", (*left, left[0]), strict=True)
    ]
    first, second, third = last_copies.marked(alerts, where)
    text = "; so will sdb1, of the same array md0, within 30 days"
    assert first.summary.endswith(text) is named
    assert ("so will sda1," in second.summary) is named
    assert third == alerts[2]
    assert {first.severity, second.severity} == {Severity.NOTICE}
