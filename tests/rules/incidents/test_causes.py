"""Causes: which alert explains which, by layers, the storage stack, and start times."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.faults import Fault, Layer
from iowarden.rules.incidents import causes, common_parents
from iowarden.rules.topology.graph import StorageGraph, layer_of

NOW = 4000.0
ABOVE = StorageGraph({"disk a": frozenset({"device md0"}), "disk b": frozenset({"device md0"})})


def alert(name: str, subject: str = "", since: float = 0.0, adapter: str = "") -> Alert:
    """An alert of a rule that has fired."""
    labels = (("alertname", name), ("severity", "critical"), ("subject", subject))
    return Alert(
        name, labels, AlertState.FIRING, 1.0, (), since, since, subject=subject, object=subject,
        adapter=adapter,
    )  # fmt: skip


def cause(of: Alert, *others: Alert, graph: StorageGraph = ABOVE) -> str:
    """Return the object that is the deepest cause of an alert; '' where nothing explains it."""
    found = common_parents.explained([causes.fact(each, NOW) for each in (of, *others)], graph)
    return found[of.key].subject if of.key in found else ""


@pytest.mark.parametrize(
    ("began", "expected"), [(300.0, "disk a"), (301.0, ""), (-30.0, "disk a"), (-31.0, "")]
)
def test_a_cause_begins_at_most_300_s_before_and_30_s_after(began: float, expected: str) -> None:
    """A disk had errors, and `began` seconds later its array was degraded."""
    degraded = alert("MdDegraded", "device md0", since=1000.0)
    assert cause(degraded, alert("DiskErrorsIncreased", "disk a", 1000.0 - began)) == expected


def test_what_is_gone_explains_what_stood_on_it_until_it_is_back() -> None:
    """The file system failed an hour later, with the first write; the disk came back before."""
    failed = alert("FilesystemErrors", "device md0", since=3600.0)
    gone = alert("DeviceRemoved", "disk a")
    assert cause(failed, gone) == "disk a"
    assert not cause(failed, replace(gone, absent_seconds=3000.0))
    assert not cause(failed, replace(gone, count=1))


def test_what_does_not_carry_an_object_explains_nothing_of_it() -> None:
    """A disk that hangs next to an array of which it is not a member."""
    assert not cause(alert("MdDegraded", "device md0"), alert("DeviceHang", "disk c"))


def test_of_equals_the_first_is_the_cause() -> None:
    """Two members vanish: the array belongs to the one that went first."""
    array = alert("MdInactive", "device md0", since=20.0)
    gone = [
        alert("DeviceRemoved", "disk b", since=5.0),
        alert("DeviceRemoved", "disk a", since=9.0),
    ]
    assert cause(array, *gone) == "disk b"


@pytest.mark.parametrize(("named", "expected"), [("disk b", "disk b"), ("disk a", "disk a")])
@pytest.mark.parametrize("name", ["BtrfsErrors", "BtrfsReadErrors"])
def test_errors_that_btrfs_counts_are_of_the_device_that_its_line_names(
    name: str, named: str, expected: str
) -> None:
    """The other disk of the mirror hangs meanwhile; of the counter only the number is known."""
    graph = StorageGraph(dict.fromkeys(("disk a", "disk b"), frozenset({"file system 1"})))
    counter = alert(name, "file system 1", since=30.0)
    hang = alert("DeviceHang", "disk a")
    line = replace(alert("fs_device_errors", named, since=29.0), count=1)
    assert cause(counter, hang, line, graph=graph) == expected
    assert cause(counter, hang, graph=graph) == "disk a"


def marked_faulty(disk: str, since: float) -> Alert:
    """The kernel's line of a member that its array gives up."""
    return replace(alert("md_disk_failure", disk, since=since), count=1, last_seconds=since)


@pytest.mark.parametrize(
    ("name", "since", "expected"),
    [
        ("md_disk_failure", 998.0, "disk b"),
        ("DeviceRemoved", 1008.0, "disk b"),
        ("md_disk_failure", 950.0, "disk a"),
        ("DiskErrorsIncreased", 998.0, "disk a"),
    ],
    ids=["marked as faulty", "unplugged", "long before", "an error of one that is left"],
)
def test_an_array_that_was_whole_again_is_short_of_the_disk_that_it_loses_now(
    name: str, since: float, expected: str
) -> None:
    """Another one failed 100 s before and was replaced by a spare."""
    degraded = alert("MdDegraded", "device md0", since=1000.0)
    is_line = name == "md_disk_failure"
    other = marked_faulty("disk b", since) if is_line else alert(name, "disk b", since=since)
    assert cause(degraded, marked_faulty("disk a", 900.0), other) == expected


def test_a_disk_that_was_replaced_did_not_fail_for_the_reason_of_its_spare() -> None:
    """Each was lost for itself, 100 s apart: they are not joined by the array that lost both."""
    lost = replace(
        marked_faulty("disk a", 900.0),
        name="scsi_removed",
        labels=(
            ("alertname", "scsi_removed"), ("condition", "device_unavailable"),
            ("severity", "critical"), ("subject", "disk a"),
        ),
    )  # fmt: skip
    gone = alert("DeviceRemoved", "disk b", since=1000.0)
    degraded = alert("MdDegraded", "device md0", since=1000.0)
    assert cause(degraded, lost, gone) == "disk b"
    assert not cause(lost, degraded, gone)


def test_an_array_is_short_of_the_disk_that_has_failed_until_now() -> None:
    """Its lines go on for 100 s until the array gives it up, as it does another one meanwhile."""
    failing = replace(marked_faulty("disk a", 900.0), last_seconds=990.0)
    degraded = alert("MdDegraded", "device md0", since=1000.0)
    assert cause(degraded, failing, marked_faulty("disk b", 998.0)) == "disk a"


def test_a_chain_of_causes_ends_at_the_deepest() -> None:
    """The adapter is missing, so its disks are, so the array stops, and programs wait."""
    card = alert("ControllerMissing", "adapter host2")
    disk = alert("DeviceRemoved", "disk a", since=2.0, adapter="host2")
    array = alert("MdInactive", "device md0", since=4.0)
    hung = alert("HungTask", since=130.0)
    for each in (disk, array, hung):
        others = [other for other in (card, disk, array, hung) if other is not each]
        assert cause(each, *others) == "adapter host2"


def test_of_faults_that_explain_each_other_the_first_is_the_cause_of_the_others() -> None:
    """A ring of three, and one that is explained by the last of them."""
    first, second, third, other = (
        causes.fact(alert("DeviceHang", f"disk {name}", since), NOW)
        for since, name in enumerate("abcd")
    )
    known = {first.key: second, second.key: third, third.key: first, other.key: third}
    found = causes.explained_by([], known, [], ABOVE, causes.Shortages())
    assert found == {second.key: first, third.key: first, other.key: first}


def test_a_hang_explains_stalls_for_as_long_as_it_lasts_and_a_disk_that_went_does_not() -> None:
    """A stall an hour later: of the disk that hangs still, not of the one that vanished."""
    stall = alert("WriteStall", since=3600.0)
    assert cause(stall, alert("DeviceHang", "disk a")) == "disk a"
    assert not cause(stall, alert("DeviceRemoved", "disk a"))


@pytest.mark.parametrize(
    ("name", "subject", "since", "expected"),
    [
        ("hung_task", "", 120.0, "device md0"),
        ("hung_task", "", 900.0, "device md0"),
        ("HungTask", "", 130.0, "device md0"),
        ("command_timeout", "disk a", 31.0, "device md0"),
        ("command_timeout", "disk c", 31.0, ""),  # of another disk
        ("WriteStall", "", 60.0, ""),
        ("DirectReclaim", "", 60.0, ""),
        ("hung_task", "", -40.0, ""),  # tasks were blocked before
    ],
)
def test_lines_of_the_kernel_about_a_wait_belong_to_the_programs_that_it_blocks(
    name: str, subject: str, since: float, expected: str
) -> None:
    """A frozen file system: no device hangs, and the kernel logs its tasks after 120 s."""
    line = alert(name, subject, since=since)
    if name.islower():
        line = replace(line, labels=(*line.labels, ("condition", name)), count=1)
    assert cause(line, alert("Freeze", "device md0")) == expected


def test_a_disk_that_hangs_explains_hung_tasks_before_the_programs_that_it_blocks() -> None:
    """The deepest cause is the title, whichever began first."""
    line, hang = alert("HungTask", "", since=120.0), alert("DeviceHang", "disk a", since=5.0)
    assert cause(line, alert("Freeze", "device md0"), hang) == "disk a"


@pytest.mark.parametrize(
    "name", ["DatabaseDown", "FilesystemFull", "NotificationUnsent", "ReadAheadBelowStripe"]
)
def test_what_is_no_storage_fault_is_explained_by_nothing(name: str) -> None:
    """A user's alert, a full file system, a setting, iowarden itself: each its own incident."""
    subject = "iowarden" if name == "NotificationUnsent" else "device md0"
    assert not cause(alert(name, subject), alert("DeviceHang", "disk a"))


def test_a_hang_began_when_the_disk_stood_still_and_not_when_its_alert_fired() -> None:
    """The volume was suspended 50 s ago; its alert since 5 s, the stall since 45 s."""
    suspended = replace(alert("DeviceSuspended", "device dm-0", since=NOW - 5.0), value=50.0)
    stall = alert("WriteStall", since=NOW - 45.0)
    assert cause(stall, suspended) == "device dm-0"
    assert not cause(stall, replace(suspended, value=1.0))


def shelf(count: int, adapter: str = "host3") -> StorageGraph:
    """An adapter with so many disks."""
    return StorageGraph(
        parents={f"adapter {adapter}": frozenset(f"disk {n}" for n in range(count))}
    )


def suffering(count: int, gap: float = 0.0, rest: float = 1.0) -> list[Alert]:
    """Disks of one adapter that hang: the first, `gap` later the second, then each `rest` later."""
    starts = [0.0, *(gap + rest * number for number in range(count - 1))]
    return [alert("DeviceHang", f"disk {n}", at, "host3") for n, at in enumerate(starts)]


@pytest.mark.parametrize(
    ("count", "gap", "of", "expected"),
    [
        (3, 1.0, 24, "adapter host3"),
        (2, 1.0, 24, ""),
        (2, 1.0, 2, "adapter host3"),
        (8, 7.9, 24, "adapter host3"),
        (8, 8.0, 24, "disk 0"),
        (8, 61.0, 24, "adapter host3"),
    ],
)
def test_an_adapter_is_a_cause_if_its_disks_fail_together(
    count: int, gap: float, of: int, expected: str
) -> None:
    """Three within a minute, or both of two, and none alone for 8 s before.

    One that hung a minute before the others is a matter of its own.
    """
    disks = suffering(count, gap)
    graph = shelf(of)
    assert cause(disks[-1], *disks[:-1], graph=graph) == expected


def slow(name: str, subject: str, seconds: float, adapter: str = "host3") -> Alert:
    """Return an alert that fires since now, of something that began so long ago."""
    return replace(alert(name, subject, since=NOW, adapter=adapter), value=seconds)


def test_a_slow_disk_explains_the_array_on_it_and_its_adapter_for_as_long_as_it_is_slow() -> None:
    """Slow for an hour; the read-ahead and the queue of its adapter look too small only now."""
    disk = slow("DiskSlow", "disk a", 3600.0)
    reads = alert("ReadAheadTooSmall", "device md0", since=NOW - 10.0)
    starved = alert("DiskQueueStarvation", "adapter host3", since=NOW - 10.0)
    assert cause(reads, disk) == "disk a"
    assert cause(starved, disk) == "disk a"
    assert not cause(alert("DiskQueueStarvation", "adapter host4", since=NOW - 10.0), disk)
    assert not cause(alert("WriteStall", since=NOW - 10.0), disk)
    assert not cause(alert("MdDegraded", "device md0", since=NOW - 10.0), disk)


def test_three_slow_disks_of_an_adapter_are_the_adapters_whichever_was_first() -> None:
    """Ten seconds apart is together, because ten seconds are the least that is measured."""
    disks = [slow("DiskSlow", f"disk {n}", 200.0 - 10.0 * n) for n in range(3)]
    graph = shelf(24)
    assert cause(disks[0], *disks[1:], graph=graph) == "adapter host3"
    assert not cause(disks[0], disks[1], graph=graph)
    found = common_parents.explained([causes.fact(each, NOW) for each in disks], graph)
    assert {each.what.fault for each in found.values()} == {Fault.SLOW}


def test_an_adapter_is_silent_only_where_all_of_its_disks_are_silenced() -> None:
    """One of three disks was silenced last week; today the adapter fails."""
    disks = [causes.fact(each, NOW, silent=n == 0) for n, each in enumerate(suffering(3))]
    found = common_parents.explained(disks, shelf(24))
    assert {(f.subject, f.silent) for f in found.values()} == {("adapter host3", False)}


def vanished(*times: float) -> list[Alert]:
    """Disks of one adapter that disappeared at these times."""
    return [alert("DeviceRemoved", f"disk {n}", at, "host3") for n, at in enumerate(times)]


@pytest.mark.parametrize(
    ("missed", "seen", "expected"),
    [
        ((3000.0, 3060.0, 3060.0), (2940.0, 3000.0, 3000.0), "adapter host3"),
        ((3000.0, 3060.0), (2940.0, 3000.0), "adapter host3"),
        ((3000.0, 3010.0, 3010.0), (2999.0, 3009.0, 3009.0), "adapter host3"),
        ((3000.0, 3061.0, 3061.0), (2999.0, 3061.0, 3061.0), ""),
    ],
)
def test_disks_that_are_missed_at_different_looks_may_have_gone_together(
    missed: tuple[float, ...], seen: tuple[float, ...], expected: str
) -> None:
    """Polls a minute apart: each may have failed with the others, and so within a minute.

    One that is gone made no other one disappear, however long before.
    """
    disks = vanished(*missed)
    graph = replace(shelf(len(disks)), seen={f"disk {n}": at for n, at in enumerate(seen)})
    facts = [causes.fact(each, NOW, seen=graph.seen) for each in disks]
    found = common_parents.explained(facts, graph)
    own = found.get(disks[-1].key)
    assert ("" if own is None or own.subject == "disk 0" else own.subject) == expected


def test_a_connection_failed_long_before_it_is_given_up() -> None:
    """The disk behind it has not responded for two minutes by then."""
    hang = alert("DeviceHang", "disk a", since=100.0, adapter="host3")
    lost = replace(alert("connection_lost", "adapter host3", since=220.0), count=1)
    assert cause(hang, lost) == "adapter host3"


def test_paths_are_lost_and_the_map_has_failed() -> None:
    """The LUN vanished with its last path: what has no path is the map, and so on upwards."""
    above = {"disk a": frozenset({"device dm-0", "device dm-1"})}
    above["device dm-0"] = frozenset({"device dm-1"})
    graph = StorageGraph(above, maps={"disk a": frozenset({"device dm-0"})})
    gone = alert("DeviceRemoved", "disk a", since=5.0)
    lost = alert("MultipathAllPathsLost", "device dm-0", since=7.0)
    volume = alert("FilesystemReadOnly", "device dm-1", since=8.0)
    for each in (gone, volume):
        others = [other for other in (gone, lost, volume) if other is not each]
        assert cause(each, *others, graph=graph) == "device dm-0"
    assert not cause(lost, gone, volume, graph=graph)


def test_an_array_that_is_degraded_before_the_next_look_was_degraded_by_the_disk_that_went() -> (
    None
):
    """The array reports at once; that a disk is missing shows with a poll 50 s later."""
    degraded, gone = alert("MdDegraded", "device md0", since=1000.0), vanished(1050.0)[0]
    gone = replace(gone, subject="disk a")
    for seen, expected in (({"disk a": 990.0}, "disk a"), ({"disk a": 1040.0}, "")):
        facts = [causes.fact(each, NOW, seen=seen) for each in (degraded, gone)]
        found = common_parents.explained(facts, ABOVE)
        assert (found[degraded.key].subject if degraded.key in found else "") == expected


def test_resets_of_an_adapter_are_the_symptom_of_the_disk_that_does_not_answer() -> None:
    """Without one the adapter itself is at fault."""
    resets = alert("ScsiTimeouts", "adapter host3", since=12.0)
    assert cause(resets, alert("DeviceHang", "disk 0", adapter="host3")) == "disk 0"
    assert not cause(resets, alert("DeviceHang", "disk 0", adapter="host4"))


SUBJECTS = {
    "disk a": "host0",
    "disk b": "host0",
    "disk c": "host0",
    "disk d": "host1",
    "device sdx": "host1",
    "array 1 of card": "host1",
    "adapter host0": "host0",
    "adapter host1": "",
    "device md0": "",
    "device dm-0": "",
    "file system /srv": "",
    "iowarden": "",
    "": "",
}
NAMES = (
    "DeviceRemoved DeviceHang DeviceSuspended MdInactive MdDegraded FilesystemErrors"
    " FilesystemReadOnly FilesystemFull ControllerMissing ControllerImpaired ScsiTimeouts"
    " WriteStall HungTask DiskErrorsIncreased DiskNotMonitored WriteThrottle DatabaseDown"
)


def machine(rng: Random) -> tuple[list[causes.Fact], StorageGraph]:
    """Return alerts about a small host with an arbitrary storage stack."""
    subjects = [*SUBJECTS]
    above = {
        rng.choice(subjects): frozenset(rng.choices(subjects, k=rng.randrange(4))) for _ in range(5)
    }
    facts = {}
    for _ in range(rng.randint(3, 10)):
        about = rng.choice(subjects)
        adapter = SUBJECTS[about] if rng.random() < 0.8 else rng.choice(("", "host0", "host1"))
        since = float(rng.choice((0, 2, 9, 31, 62, 290, 301, 331)))
        made = replace(alert(rng.choice(NAMES.split()), about, since, adapter), value=0.0)
        fact = causes.fact(made, NOW, silent=rng.random() < 0.2)
        fact = replace(fact, event=rng.random() < 0.3, firing=rng.random() < 0.8)
        facts[fact.key] = fact
    parents = {
        f"adapter {host}": frozenset(n for n, own in SUBJECTS.items() if own == host)
        for host in ("host0", "host1")
    }
    return list(facts.values()), StorageGraph(above, parents)


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32))
def test_who_is_found_by_object_is_who_is_found_among_all(seed: int) -> None:
    """Causes are searched among the objects below: that must not leave out any."""
    facts, graph = machine(Random(seed))
    _, shared = common_parents.together(facts, graph)
    every = sorted((e for e in (*facts, *shared) if e.is_cause), key=lambda each: each.order)
    causes_by_object = causes._Causes((*facts, *shared), graph)
    for each in facts:
        near = [a for a in causes_by_object.near(each) if causes.explains(a, each, graph)]
        assert near == [a for a in every if causes.explains(a, each, graph)]


@pytest.mark.parametrize(
    ("subject", "layer"),
    [
        ("adapter host2", Layer.ADAPTER),
        ("disk ATA WDC S1", Layer.DISK),
        ("device sdb", Layer.DISK),
        ("array 1 of areca 1", Layer.VOLUME),
        ("device md0", Layer.ARRAY),
        ("device dm-3", Layer.MAPPED),
        ("device bcache0", Layer.MAPPED),
        ("device drbd0", Layer.MAPPED),
        ("device zd16", Layer.MAPPED),
        ("device rbd0", Layer.NETWORK),
        ("file system /srv", Layer.FILE_SYSTEM),
        ("", Layer.HOST),
    ],
)
def test_an_object_has_the_layer_of_what_it_is_made_of(subject: str, layer: Layer) -> None:
    """A cache, a replica and a volume of ZFS are on disks: they are not disks."""
    assert layer_of(subject) is layer


@pytest.mark.parametrize(
    ("maps", "lost", "expected"),
    [(6, 3, "adapter fabric"), (6, 2, ""), (2, 2, "adapter fabric"), (1, 1, "")],
)
def test_maps_that_fail_together_have_the_fabric_in_common(
    maps: int, lost: int, expected: str
) -> None:
    """Three within a minute, or both of two; their LUNs are in that incident as well."""
    graph = StorageGraph(maps={f"disk {n}": frozenset({f"device dm-{n}"}) for n in range(maps)})
    alerts = [alert("MultipathPathLost", f"device dm-{n}", n * 10.0) for n in range(lost)]
    gone = alert("DeviceRemoved", "disk 0", 5.0, "host1")
    assert cause(alerts[-1], *alerts[:-1], gone, graph=graph) == expected
    assert cause(gone, *alerts, graph=graph) == (expected or "device dm-0")


def test_the_disk_that_an_adapter_reports_it_lost_is_the_one_that_is_gone() -> None:
    """mpt3sas prints a handle and an address, two seconds before the disk is missing by name."""
    told = replace(alert("hba_device_removed", "adapter host6", adapter="host6"), count=1)
    gone = alert("DeviceRemoved", "disk a", since=2.0, adapter="host6")
    for graph in (ABOVE, StorageGraph({"adapter host6": frozenset({"disk a", "disk b"})})):
        assert cause(told, gone, graph=graph) == "disk a"
        assert not cause(gone, told, graph=graph)
    assert not cause(told, alert("DeviceRemoved", "disk a", since=2.0, adapter="host7"))


def test_a_controller_that_is_gone_is_no_consequence_of_its_disks() -> None:
    """The controller is missing: its disks disappeared first."""
    card = alert("ControllerMissing", "adapter host6", adapter="host6")
    assert not cause(card, alert("DeviceRemoved", "disk a", since=2.0, adapter="host6"))


@pytest.mark.parametrize(
    ("began", "expected"),
    [(-121.0, ""), (-1.0, "adapter host3"), (9.0, "adapter host3"), (13.0, "")],
)
def test_a_lun_hangs_with_its_connection_that_failed_before_a_command_can_have_timed_out(
    began: float, expected: str
) -> None:
    """iSCSI pings every 5 s and waits 5 s; a storage array that hangs answers that."""
    hang = alert("DeviceHang", "disk a", since=1000.0, adapter="host3")
    line = alert("connection_error", "adapter host3", since=1000.0 + began, adapter="host3")
    line = replace(line, count=1, last_seconds=1000.0 + began)
    assert cause(hang, line) == expected
    assert cause(line, hang) == ("disk a" if began == 13.0 else "")


CONNECTED = StorageGraph(
    above={
        "adapter host3": frozenset({"disk a", "device dm-0"}),
        "disk a": frozenset({"device dm-0"}),
    },
    parents={"adapter host3": frozenset({"disk a"})},
    maps={"disk a": frozenset({"device dm-0"})},
)


@pytest.mark.parametrize(
    ("connection", "stands", "expected"),
    [
        ("adapter host3", "device dm-0", "device dm-0"),
        ("adapter host3", "disk a", "disk a"),
        ("adapter connection1:0", "device dm-0", "device dm-0"),
        ("adapter osd12", "device rbd0", "device rbd0"),
        ("adapter osd12", "disk b", ""),
        ("adapter host3", "disk b", ""),
    ],
)
def test_a_line_of_a_connection_belongs_to_what_stands_above_it(
    connection: str, stands: str, expected: str
) -> None:
    """A map or LUN of its adapter; by the number of a connection alone a map or network device."""
    line = replace(alert("connection_error", connection, since=15.0), count=1)
    adapter = "host3" if stands == "disk a" else ""
    hang = alert("DeviceHang", stands, adapter=adapter)
    assert cause(line, hang, graph=CONNECTED) == expected


def test_an_adapter_is_named_with_its_driver() -> None:
    """'host6' alone is not enough to find it in the kernel's log, or in the host."""
    called = {"adapter host6": "host6 (SCSI host adapter, mpt3sas_cm0)"}
    graph = replace(shelf(2, "host6"), objects=called)
    disks = [alert("DeviceHang", f"disk {n}", adapter="host6") for n in range(2)]
    found = common_parents.explained([causes.fact(each, NOW) for each in disks], graph)
    assert {f.object for f in found.values()} == {"host6 (SCSI host adapter, mpt3sas_cm0)"}
