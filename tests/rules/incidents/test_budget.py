"""How many mails an incident makes, and how long what is worse waits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import budget
from support.budget import CRITICAL, Kind, Spell
from support.tiers import examples

from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.incidents import incidents
from iowarden.rules.incidents.model import Incidents, NotificationPolicy
from iowarden.rules.topology.graph import StorageGraph

GONE = Kind("DeviceRemoved", "critical", CRITICAL)
NONE_LEFT = Kind("MdDegraded", "critical", CRITICAL | {"exhausted"}, redundancy="none")
DEGRADED = Kind("MdDegraded", "critical", CRITICAL, redundancy="left")
STOPPED = Kind("MdInactive", "critical", CRITICAL | {"stopped"})
READ_ONLY = Kind("FilesystemReadOnly", "critical", CRITICAL | {"file system"})
FOREVER = budget.FOREVER


def mailed(spells: list[Spell], graph: StorageGraph, seconds: int) -> list[tuple[int, str, str]]:
    """Return when and why mails were sent about disks of host3, and what is on them."""
    around = incidents.Surroundings(
        install="test",
        policy=NotificationPolicy(),
        observe=lambda _: (),
        is_observable=lambda *_: True,
        graph=graph,
    )
    state, mails = Incidents(), []
    alerts = []
    for spell in spells:
        adapter = "host3" if graph.parents and spell.subject.startswith("disk") else ""
        alerts.append((spell, replace(spell.alert(), adapter=adapter)))
    for now in range(seconds):
        present = [alert for spell, alert in alerts if spell.start <= now < spell.end]
        state, notices, _ = incidents.next_incidents(state, present, budget.BASE + now, around)
        mails += [(now, each.reason.value, each.incident.key) for each in notices]
    return mails


def shelf(step: int) -> tuple[list[Spell], StorageGraph]:
    """Return 24 disks in four arrays with file systems that are lost one after another."""
    disks = [f"disk sd{n}" for n in range(24)]
    above, spells = {}, []
    for number, disk in enumerate(disks):
        array = number % 4
        above[disk] = frozenset({f"device md{array}", f"file system on device md{array}"})
        spells.append(Spell(GONE, disk, number * step, FOREVER))
    for array in range(4):
        second, third = (4 + array) * step + 1, (8 + array) * step + 1
        name = f"device md{array}"
        spells.append(Spell(DEGRADED, name, array * step + 1, max(second, array * step + 2)))
        spells.append(Spell(NONE_LEFT, name, second, FOREVER))
        spells.append(Spell(STOPPED, name, third, FOREVER))
        spells.append(Spell(READ_ONLY, f"file system on {name}", third + 1, FOREVER))
        above[name] = frozenset({f"file system on {name}"})
    parents = {"adapter host3": frozenset(disks)}
    above["adapter host3"] = frozenset().union(disks, *above.values())
    return spells, StorageGraph(above, parents)


@pytest.mark.parametrize(("step", "most"), [(3, 5), (0, 3)])
def test_a_shelf_whose_disks_are_lost_is_a_few_mails(step: int, most: int) -> None:
    """24 disks in 72 s, or at once, with the arrays and file systems on them."""
    spells, graph = shelf(step)
    mails = mailed(spells, graph, 300)
    assert len(mails) <= most, mails
    assert mails[0][0] <= 2
    assert mails[-1][2] == "adapter host3"


def test_a_hang_that_becomes_critical_is_two_mails() -> None:
    """At once, and 5 s after it is critical."""
    warning, critical = Kind("DeviceHang", "warning"), Kind("DeviceHang", "critical", CRITICAL)
    spells = [Spell(warning, "disk sda", 0, 900), Spell(critical, "disk sda", 20, 900)]
    mails = mailed(spells, StorageGraph(), 300)
    assert [at for at, *_ in mails] == [0, 25]


def test_programs_behind_a_hang_that_was_mailed_as_critical_are_no_second_critical() -> None:
    """The disk is critical after 30 s, the programs that wait for it after a minute: one state."""
    hang, worse = Kind("DeviceHang", "warning"), Kind("DeviceHang", "critical", CRITICAL)
    freeze = Kind("Freeze", "warning", frozenset({"programs are blocked"}))
    longer = Kind("Freeze", "critical", CRITICAL)
    spells = [
        Spell(hang, "disk sda", 0, 900),
        Spell(freeze, "disk sda", 29, 900),
        Spell(worse, "disk sda", 30, 900),
        Spell(longer, "disk sda", 60, 900),
    ]
    assert [at for at, *_ in mailed(spells, StorageGraph(), 600)] == [0, 34]


def test_programs_that_are_critical_first_are_mailed_as_that() -> None:
    """The disk is slow, which is a warning; who waits for it is critical a minute later."""
    slow, freeze = Kind("DiskSlow", "warning"), Kind("Freeze", "warning")
    longer = Kind("Freeze", "critical", CRITICAL)
    spells = [
        Spell(slow, "disk sda", 0, 900),
        Spell(freeze, "disk sda", 0, 900),
        Spell(longer, "disk sda", 100, 900),
    ]
    assert [at for at, *_ in mailed(spells, StorageGraph(), 600)][-1] == 105


@pytest.mark.parametrize(("lasted", "mails"), [(0, []), (14, []), (59, []), (60, [60])])
def test_a_connection_that_failed_and_is_retried_is_mailed_where_it_fails_again_and_again(
    lasted: int, mails: list[int]
) -> None:
    """No line reports that a session of iSCSI or Ceph works again: silence is that it does."""
    line = Alert(
        "connection_error", (("alertname", "connection_error"), ("severity", "warning")),
        AlertState.FIRING, 1.0, (("summary", "failed"),), budget.BASE, budget.BASE,
        subject="adapter osd12", object="osd12", count=2, last_seconds=budget.BASE + lasted,
    )  # fmt: skip
    around = incidents.Surroundings(
        install="test",
        policy=NotificationPolicy(),
        observe=lambda _: (),
        is_observable=lambda *_: True,
    )
    state, due = Incidents(), []
    for now in range(300):
        state, notices, _ = incidents.next_incidents(state, [line], budget.BASE + now, around)
        due += [now for _ in notices]
    assert due == mails


def test_the_second_member_of_a_raid6_is_mailed_5_s_after_it_is_lost() -> None:
    """Its loss, an hour after that of the first, leaves no redundancy."""
    above = {f"disk sd{n}": frozenset({"device md0"}) for n in range(8)}
    spells = [
        Spell(GONE, "disk sd0", 0, FOREVER),
        Spell(DEGRADED, "device md0", 1, 1800),
        Spell(GONE, "disk sd1", 1800, FOREVER),
        Spell(NONE_LEFT, "device md0", 1800, FOREVER),
    ]
    mails = mailed(spells, StorageGraph(above), 2400)
    assert [at for at, *_ in mails if at >= 1800] == [1805]


def test_an_array_that_loses_its_redundancy_before_its_mail_does_not_wait_again() -> None:
    """Degraded for three seconds, behind a disk that hangs: one alert, which has got worse."""
    hang = Kind("DeviceHang", "warning")
    spells = [
        Spell(hang, "disk sd0", 0, FOREVER),
        Spell(DEGRADED, "device md0", 900, 903),
        Spell(NONE_LEFT, "device md0", 903, FOREVER),
    ]
    graph = StorageGraph({"disk sd0": frozenset({"device md0"})})
    mails = mailed(spells, graph, 930)
    assert [at for at, *_ in mails if at >= 900] == [905]


def test_a_third_hang_that_is_over_before_its_mail_is_due_is_mailed_all_the_same() -> None:
    """Every five minutes, each mail four minutes after the one before: nobody heard of a third."""
    hang = Kind("DeviceHang", "warning")
    times = ((0, 28), (320, 420), (500, 527))
    spells = [Spell(hang, "disk sda", start, end) for start, end in times]
    mails = mailed(spells, StorageGraph(), 4000)
    assert [(at, why) for at, why, _ in mails if at >= 500] == [(723, "reopened")]


def test_disks_that_waited_for_another_one_again_and_again_are_no_news_once_that_is_over() -> None:
    """Their adapter handled its error each time: the mails are about the disk that hangs."""
    hang = Kind("DeviceHang", "warning")
    graph = StorageGraph(parents={"adapter host3": frozenset({"disk sda", "disk sdb", "disk sdc"})})
    times = range(0, 3600, 300)
    spells = [Spell(hang, "disk sda", at, at + 60) for at in times]
    alone = mailed(spells, graph, 4000)
    waiting = [Spell(hang, name, at + 31, at + 55) for name in ("disk sdb",) for at in times[1::2]]
    assert mailed([*spells, *waiting], graph, 4000) == alone


def test_a_stall_soon_after_hung_tasks_waits_for_its_cause_as_a_first_one_does() -> None:
    """An LV is suspended, which shows after 30 s; the stall of its writers shows after 12 s."""
    hung, stall = Kind("HungTask", "critical", CRITICAL), Kind("WriteStall", "warning")
    spells = [
        Spell(hung, "", 0, 100),
        Spell(stall, "", 1012, 1200),
        Spell(Kind("DeviceSuspended", "warning"), "device dm-0", 1030, 1200),
    ]
    mails = [(at, key) for at, _, key in mailed(spells, StorageGraph(), 1150) if at >= 1000]
    assert {key for _, key in mails} == {"device dm-0"}
    assert mails[0][0] < 1040


def test_a_stall_whose_cause_does_not_show_is_mailed_after_a_minute() -> None:
    """Hung tasks were mailed a quarter of an hour before."""
    spells = [
        Spell(Kind("HungTask", "critical", CRITICAL), "", 0, 100),
        Spell(Kind("WriteStall", "warning"), "", 1012, 1200),
    ]
    mails = [at for at, *_ in mailed(spells, StorageGraph(), 1150) if at >= 1000]
    assert mails == [1072]


def test_two_disks_with_a_common_cause_are_not_mailed_within_three_seconds() -> None:
    """Each had its own incident and its own worse kind of harm, until the third one left."""
    disks = [f"disk sd{n}" for n in range(24)]
    above = {disks[0]: frozenset({"device md0", "file system on device md0"})}
    above |= {disks[1]: frozenset({"device md1"})}
    graph = StorageGraph(above, {"adapter host3": frozenset(disks)})
    spells = [
        Spell(GONE, disks[0], 0, FOREVER),
        Spell(READ_ONLY, "file system on device md0", 4, FOREVER),
        Spell(GONE, disks[1], 5, FOREVER),
        Spell(NONE_LEFT, "device md1", 7, FOREVER),
        Spell(GONE, disks[2], 11, FOREVER),
    ]
    mails = mailed(spells, graph, 30)
    assert [at for at, *_ in mails] == [0, 5, 9, 14]
    assert mails[-1][2] == "adapter host3"


def test_slow_disks_with_a_common_cause_are_mailed_a_minute_after_the_first_of_them() -> None:
    """Each opened its own incident; the third joined them under the adapter."""
    disks = [f"disk sd{n}" for n in range(6)]
    slow = Kind("DiskSlow", "warning")
    spells = [Spell(slow, disks[n], start, 900) for n, start in ((4, 0), (2, 9), (3, 12))]
    mails = mailed(spells, StorageGraph(parents={"adapter host3": frozenset(disks)}), 300)
    assert mails == [(60, "opened", "adapter host3")]


def test_a_disk_that_left_with_its_shelf_is_not_ok_because_it_is_no_longer_slow() -> None:
    """It was mailed as slow before; that it is gone is in the shelf's mails. Back, it is well."""
    disks = [f"disk sd{n}" for n in range(6)]
    slow = Kind("DiskSlow", "warning")
    spells = [Spell(GONE, name, 400, 3000) for name in disks]
    mails = mailed(
        [Spell(slow, disks[0], 0, 400), *spells],
        StorageGraph(parents={"adapter host3": frozenset(disks)}),
        4000,
    )
    ends = {key: at for at, why, key in mails if why == "resolved"}
    assert ends.keys() == {disks[0], "adapter host3"}
    assert ends[disks[0]] >= 3060


STREAMS, CHUNK = 200, 10


@pytest.mark.parametrize("first", range(0, examples(STREAMS), CHUNK))
def test_whatever_comes_mails_keep_their_budget(first: int) -> None:
    """What one disk brings about, what has nothing in common, and what comes and goes.

    With silences and acknowledgements. Twenty thousand streams are played by tests/bench/budget.py.
    """
    for seed in range(first, first + CHUNK):
        stream = budget.stream(seed)
        assert not list(budget.misses(stream, budget.played(stream))), f"seed {seed}"


def test_a_disk_that_is_failing_does_not_wait_for_others_in_a_shared_mail() -> None:
    """The fourth incident within ten minutes is critical: its mail leaves at once, not after 60 s.

    It blocks no program yet, so that only its severity tells that it is urgent.
    """
    slow = [Spell(budget.SLOW, f"disk sd{n}", 0, FOREVER) for n in range(3)]
    spells = [*slow, Spell(budget.FAILING, "disk sd9", 70, FOREVER)]
    mails = mailed(spells, StorageGraph(), 200)
    assert [at for at, _, key in mails if key == "disk sd9"] == [70]


def test_a_slow_disk_is_mailed_within_two_minutes_however_many_others_hang_meanwhile() -> None:
    """Three others were slow; each mail about a hang, a minute apart, postponed its own."""
    slow = [Spell(budget.SLOW, f"disk sd{n}", 0, FOREVER) for n in range(3)]
    late = Spell(budget.SLOW, "disk sd3", 10, FOREVER)
    hangs = [Spell(budget.HANG, f"disk sd{4 + n}", 69 + 50 * n, FOREVER) for n in range(3)]
    mails = mailed([*slow, late, *hangs], StorageGraph(), 400)
    assert [at for at, _, key in mails if key == "disk sd3"] == [130]
