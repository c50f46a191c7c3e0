"""What explains what: each sentence of the table of kinds, and which incidents become one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.faults import CAUSES, SYMPTOMS, Fault, Layer, Meaning
from iowarden.rules.incidents import causes, common_parents, incidents
from iowarden.rules.incidents.causes import Fact
from iowarden.rules.incidents.model import Incidents, NotificationPolicy
from iowarden.rules.topology.device_identity import file_system_key
from iowarden.rules.topology.graph import StorageGraph, layer_of, with_shelves

STACK = {
    "adapter host1": frozenset({"disk a", "disk b", "device md0", "file system /srv"}),
    "disk a": frozenset({"device md0", "file system /srv"}),
    "disk b": frozenset({"device md0", "file system /srv"}),
    "device md0": frozenset({"file system /srv"}),
}
GRAPH = StorageGraph(STACK)
STOPS = frozenset((Fault.GONE, Fault.FAILED, Fault.HANGS, Fault.SUSPENDED, Fault.STOPPED))
BROKEN = frozenset(
    (
        Fault.ERRORS,
        Fault.MARKED_FAULTY,
        Fault.FAILED,
        Fault.DEGRADED,
        Fault.EXHAUSTED,
        Fault.LOST,
        Fault.READ_ONLY,
    )
)


def fact(fault: Fault, subject: str, began: float = 0.0, adapter: str = "") -> Fact:
    """A fault of an object, with the layer that its key shows."""
    layer = layer_of(subject)
    key = ((("alertname", fault.value),), subject)
    return Fact(key, subject, subject, adapter, Meaning(fault, layer), layer, began, began)


@pytest.mark.parametrize(
    ("kinds", "explained"),
    [
        (STOPS, SYMPTOMS | CAUSES - {Fault.FULL}),
        ({Fault.SLOW, Fault.UNPROTECTED, Fault.HOT}, SYMPTOMS | {Fault.SLOW}),
        ({Fault.ERRORS, Fault.LOST}, SYMPTOMS | BROKEN),
        ({Fault.READ_ONLY, Fault.MARKED_FAULTY}, SYMPTOMS | BROKEN | {Fault.STOPPED}),
        ({Fault.DEGRADED, Fault.EXHAUSTED}, {Fault.SLOW, Fault.LOST}),
        ({Fault.FULL}, BROKEN | {Fault.SUSPENDED}),
        ({Fault.WORN, Fault.SETTING, Fault.ITSELF, Fault.OTHER}, frozenset()),
        (SYMPTOMS, frozenset()),
    ],
)
def test_a_kind_explains_what_it_brings_about_and_nothing_else(
    kinds: frozenset[Fault], explained: frozenset[Fault]
) -> None:
    """A battery does not explain a failed disk, and a slow disk no full file system."""
    for kind in kinds:
        below = fact(kind, "device md0")
        found = {b for b in Fault if causes.explains(below, fact(b, "file system /srv"), GRAPH)}
        assert found == explained, kind


def test_an_object_explains_only_what_is_above_it() -> None:
    """Not what carries it, not its neighbour, not itself: those are other rules."""
    failed = fact(Fault.FAILED, "device md0")
    for other in ("disk a", "adapter host1", "device md1", "device md0"):
        assert not causes.explains(failed, fact(Fault.FAILED, other), GRAPH)


def test_a_disk_carries_the_file_system_that_is_named_by_it_though_no_mount_was_seen() -> None:
    """A stick that was mounted a moment ago is pulled: nothing shows its mount any more."""
    gone = fact(Fault.GONE, "disk a")
    error = fact(Fault.FAILED, file_system_key(None, "sda1", "disk a"))
    other = fact(Fault.FAILED, file_system_key(None, "sdb1", "disk b"))
    nothing = StorageGraph({}), causes.Shortages()
    assert causes.explained_by((gone, error, other), {}, (), *nothing) == {error.key: gone}


def test_errors_of_a_disk_with_the_last_copy_explain_what_errors_explain() -> None:
    """Its alert is then of the kind 'no redundancy left'; the file system on it fails."""
    errors = fact(Fault.EXHAUSTED, "disk a")
    assert causes.explains(errors, fact(Fault.FAILED, "file system /srv"), GRAPH)
    array = fact(Fault.EXHAUSTED, "device md0")
    assert not causes.explains(array, fact(Fault.FAILED, "file system /srv"), GRAPH)


@pytest.mark.parametrize("fault", [Fault.DEGRADED, Fault.STOPPED])
def test_a_line_about_a_path_is_of_its_map_that_lacks_paths(fault: Fault) -> None:
    """The map is read a minute later, or lacked another path for days: one incident each time."""
    graph = StorageGraph(
        {"disk a": frozenset({"device dm-0"}), "disk c": frozenset({"device dm-1"})},
        maps={"disk a": frozenset({"device dm-0"}), "disk c": frozenset({"device dm-1"})},
    )
    path = replace(fact(Fault.RESETS, "disk a"), what=Meaning(Fault.RESETS, Layer.PATH))
    for began in (-86_400.0, 95.0):
        lacking = fact(fault, "device dm-0", began)
        assert causes.explains(lacking, path, graph)
        assert not causes.explains(lacking, replace(path, over=True), graph)
        assert not causes.explains(replace(lacking, over=True), path, graph)
        assert not causes.explains(lacking, replace(path, subject="disk c"), graph)


def test_an_adapter_that_is_impaired_for_years_does_not_explain_todays_disk() -> None:
    """What is gone for long still explains; an impaired controller serves its disks."""
    today = 10 * 86_400.0
    disk, array = fact(Fault.FAILED, "disk a", today), fact(Fault.DEGRADED, "device md0", today)
    assert not causes.explains(fact(Fault.FAILED, "adapter host1"), disk, GRAPH)
    assert causes.explains(fact(Fault.GONE, "disk b"), array, GRAPH)


def test_of_what_began_lately_and_what_is_gone_for_days_the_former_explains() -> None:
    """A second disk of a raid6 fails: what the array suffers today is of that one."""
    today = 10 * 86_400.0
    old, new = fact(Fault.GONE, "disk a"), fact(Fault.GONE, "disk b", today)
    array = fact(Fault.EXHAUSTED, "device md0", today + 2.0)
    found = common_parents.explained([old, new, array], GRAPH)
    assert found[array.key].subject == "disk b"


def test_what_stops_a_disk_explains_before_what_is_only_an_error_of_another() -> None:
    """sda had an unreadable sector, sdb disappeared: the array runs without sdb."""
    sector, gone = fact(Fault.ERRORS, "disk a", 0.0), fact(Fault.GONE, "disk b", 9.0)
    degraded = fact(Fault.DEGRADED, "device md0", 11.0)
    found = common_parents.explained([sector, gone, degraded], GRAPH)
    assert found == {degraded.key: gone}


def test_two_members_that_stop_an_array_belong_together_and_two_disks_without_one_do_not() -> None:
    """Both are gone before the array notices."""
    first, second = fact(Fault.GONE, "disk a"), fact(Fault.GONE, "disk b", 1.0)
    assert common_parents.explained([first, second], GRAPH) == {}
    stopped = fact(Fault.STOPPED, "device md0", 4.0)
    found = common_parents.explained([first, second, stopped], GRAPH)
    assert found == {second.key: first, stopped.key: first}


def test_two_disks_that_hang_are_no_matter_of_each_other_because_programs_wait_for_both() -> None:
    """A stall of the host is nothing that is stacked on them."""
    hangs = [fact(Fault.HANGS, "disk a"), fact(Fault.HANGS, "disk b")]
    stall = fact(Fault.STALL, "", 12.0)
    assert common_parents.explained([*hangs, stall], GRAPH) == {stall.key: hangs[0]}


def test_an_object_that_is_broken_for_a_reason_is_so_in_each_of_its_faults() -> None:
    """The file system failed with the disk; an hour later /proc/mounts shows it read-only."""
    lines = replace(fact(Fault.FAILED, "disk a"), event=True)
    failed = fact(Fault.FAILED, "file system /srv", 4.0)
    read_only = fact(Fault.READ_ONLY, "file system /srv", 3600.0)
    found = common_parents.explained([lines, failed, read_only], GRAPH)
    assert found[read_only.key] == lines
    assert common_parents.explained([lines, read_only], GRAPH) == {}


def test_a_disk_never_explains_what_its_adapter_says_of_itself() -> None:
    """'fault state': the disk that hung first suffered first."""
    hang = fact(Fault.HANGS, "disk a", 0.0, "host1")
    fault = fact(Fault.FAILED, "adapter host1", 10.0)
    assert common_parents.explained([hang, fault], GRAPH) == {hang.key: fault}


@pytest.mark.parametrize(
    ("reset", "title"), [(2.0, "adapter host1"), (11.0, "adapter host1"), (30.0, "disk a")]
)
def test_a_reset_before_any_command_can_have_timed_out_is_the_adapters_fault(
    reset: float, title: str
) -> None:
    """A driver resets its adapter for a disk after the time-out of a command: 30 s by default."""
    hang = fact(Fault.HANGS, "disk a", 0.0, "host1")
    line = replace(fact(Fault.RESETS, "adapter host1", reset, "host1"), event=True)
    facts = {each.key: each for each in (hang, line)}
    found = common_parents.explained(facts.values(), GRAPH)
    assert {facts[key].subject: cause.subject for key, cause in found.items()} == (
        {"disk a": title} if title != "disk a" else {"adapter host1": title}
    )


def test_the_last_of_many_lines_counts_for_what_it_brings_about() -> None:
    """Its sectors have been unreadable for an hour, the last one ten seconds ago: now it fails."""
    lines = replace(fact(Fault.ERRORS, "disk a"), event=True, last=3590.0)
    failed = fact(Fault.FAILED, "file system /srv", 3600.0)
    assert common_parents.explained([lines, failed], GRAPH) == {failed.key: lines}
    assert common_parents.explained([replace(lines, last=100.0), failed], GRAPH) == {}


def test_maps_that_lose_the_paths_of_one_session_are_that_session_and_of_two_the_fabric() -> None:
    """Three maps, each with a path over host1 and one over host2."""
    lower = {f"disk lun {n}": frozenset({f"device dm-{n}"}) for n in range(3)}
    maps = frozenset({"device dm-0", "device dm-1", "device dm-2"})
    above = {"adapter host1": maps, "adapter host2": maps}
    graph = StorageGraph(above, maps=lower)
    degraded = [fact(Fault.DEGRADED, f"device dm-{n}", 40.0 + n) for n in range(3)]
    lost = [fact(Fault.GONE, f"adapter host{n}", 60.0) for n in (1, 2)]
    for sessions, title in (
        ([], "adapter fabric"),
        (lost[:1], "adapter host1"),
        (lost, "adapter fabric"),
    ):
        found = common_parents.explained([*degraded, *sessions], graph)
        assert {found[each.key].subject for each in degraded} == {title}


def test_lines_of_an_earlier_hang_do_not_make_todays_neighbours_strangers() -> None:
    """The disk was reset five minutes ago and hangs now; the host handles that for its twin too."""
    lines = replace(fact(Fault.RESETS, "disk 0", 0.0, "host1"), event=True, last=330.0)
    hang = replace(fact(Fault.HANGS, "disk 0", 300.0, "host1"), key=((("alertname", "x"),), ""))
    twin = fact(Fault.HANGS, "disk 1", 330.0, "host1")
    assert common_parents.explained([lines, hang, twin], SHELVES)[twin.key] == hang


PARENTS = {
    "adapter host1": frozenset(f"disk {n}" for n in range(12)),
    "adapter expander-1:0": frozenset(f"disk {n}" for n in range(6)),
    "adapter expander-1:1": frozenset(f"disk {n}" for n in range(6, 12)),
}
SHELVES = StorageGraph(with_shelves({}, PARENTS), PARENTS)


def failing(fault: Fault, *starts: tuple[int, float]) -> set[str]:
    """Return the titles of disks of two shelves that fail at these times."""
    facts = [fact(fault, f"disk {n}", at, "host1") for n, at in starts]
    found = common_parents.explained(facts, SHELVES)
    return {found[each.key].subject if each.key in found else each.subject for each in facts}


def line(fault: Fault, subject: str, at: float) -> Fact:
    """A line of the kernel's log about a disk of host1."""
    return replace(fact(fault, subject, at, "host1"), event=True, last=at)


def test_disks_of_one_shelf_are_its_expander_and_of_two_shelves_their_adapter() -> None:
    """From the third on, within a minute; one each 15 s is fast enough."""
    shelf = [(n, 15.0 * n) for n in range(6)]
    assert failing(Fault.GONE, *shelf) == {"adapter expander-1:0"}
    assert failing(Fault.GONE, *shelf, (8, 90.0)) == {"adapter host1"}
    assert failing(Fault.GONE, (0, 0.0), (1, 40.0), (2, 61.0)) == {"disk 0", "disk 1", "disk 2"}


def test_disks_that_their_arrays_give_up_before_they_are_missing_are_their_shelf() -> None:
    """The line comes with the next write; that a disk is missing shows a second later."""
    lines = [line(Fault.MARKED_FAULTY, f"disk {n}", 12.0 * n) for n in range(3)]
    gone = [fact(Fault.GONE, f"disk {n}", 12.0 * n + 1.0, "host1") for n in range(3)]
    found = common_parents.explained([*lines, *gone], SHELVES)
    assert {found[each.key].subject for each in gone} == {"adapter expander-1:0"}


def test_a_disk_that_is_slow_while_another_shelf_is_away_has_a_fault_of_its_own() -> None:
    """The shelf lost its power two minutes ago; the adapter is well. Three disks are its fault."""
    gone = [fact(Fault.GONE, f"disk {n}", 15.0 * n, "host1") for n in range(6)]
    slow = [fact(Fault.SLOW, f"disk {n}", 200.0, "host1") for n in (8, 9, 10)]
    found = common_parents.explained([*gone, slow[0]], SHELVES)
    assert {found[each.key].subject for each in gone} == {"adapter expander-1:0"}
    assert slow[0].key not in found
    found = common_parents.explained([*gone, *slow], SHELVES)
    assert {found[each.key].subject for each in (*gone, *slow)} == {"adapter host1"}


def test_a_disk_that_makes_its_neighbours_wait_while_another_shelf_is_away_is_their_cause() -> None:
    """Two minutes after a shelf left a disk of the other one hangs: the adapter handles its error.

    It is no fault of the adapter, and the shelf's own title stays; an hour later as well.
    """
    for began in (200.0, 3600.0):
        gone = [fact(Fault.GONE, f"disk {n}", 15.0 * n, "host1") for n in range(6)]
        hangs = [fact(Fault.HANGS, f"disk {n}", began + 30.0, "host1") for n in (7, 8, 9)]
        first = fact(Fault.HANGS, "disk 6", began, "host1")
        reset = line(Fault.RESETS, "disk 6", began + 30.0)
        found = common_parents.explained([*gone, first, reset, *hangs], SHELVES)
        assert {found[each.key].subject for each in gone} == {"adapter expander-1:0"}
        assert {found[each.key].subject for each in hangs} == {"disk 6"}
        assert first.key not in found


def test_a_disk_that_waits_for_one_that_is_reset_is_no_fault_though_another_had_failed() -> None:
    """It hangs for the second minute, and the host waits for it again; a third failed hours ago."""
    failed = fact(Fault.FAILED, "disk 5", 0.0, "host1")
    hangs = fact(Fault.HANGS, "disk 0", 9000.0, "host1")
    reset = replace(line(Fault.RESETS, "disk 0", 9030.0), last=9100.0)
    waits = fact(Fault.HANGS, "disk 1", 9101.0, "host1")
    found = common_parents.explained([failed, hangs, reset, waits], SHELVES)
    assert {key: cause.subject for key, cause in found.items()} == {waits.key: "disk 0"}


def test_a_shelf_that_waits_for_a_disk_of_the_one_that_leaves_is_no_cause() -> None:
    """The power of a shelf fails; one of its disks times out before it leaves, and all wait."""
    gone = [fact(Fault.GONE, f"disk {n}", 15.0 * n, "host1") for n in range(5)]
    last = fact(Fault.HANGS, "disk 5", 0.0, "host1")
    reset = line(Fault.RESETS, "disk 5", 30.0)
    waiting = [fact(Fault.HANGS, f"disk {n}", 30.2, "host1") for n in (6, 7, 8)]
    found = common_parents.explained([*gone, last, reset, *waiting], SHELVES)
    assert {cause.subject for cause in found.values()} == {"adapter expander-1:0"}


def test_a_disk_that_hung_alone_made_both_shelves_wait_and_one_that_is_gone_made_none_go() -> None:
    """The host handles the error of disk 0 for all of its disks."""
    others = [(n, 30.0) for n in (1, 2, 6, 7, 8)]
    assert failing(Fault.HANGS, (0, 0.0), *others) == {"disk 0"}
    assert failing(Fault.GONE, (0, 0.0), *others) == {"adapter host1"}


def test_a_shelf_that_waits_for_a_disk_of_the_other_one_does_not_explain_who_waits() -> None:
    """Three of its disks hang together, because the host handles the error of disk 0."""
    first = fact(Fault.HANGS, "disk 0", 0.0, "host1")
    others = [fact(Fault.HANGS, f"disk {n}", 30.0, "host1") for n in (6, 7, 8)]
    stall = fact(Fault.STALL, "", 12.0)
    found = common_parents.explained([first, *others, stall], SHELVES)
    assert {cause.subject for cause in found.values()} == {"disk 0"}


@pytest.mark.parametrize(
    ("began", "reset", "last", "waiting"),
    [
        (107.0, 100.0, 100.0, (107.0, 107.0, 107.0)),  # iowarden was started while all hung
        (100.0, 100.1, 100.1, (100.2, 100.5, 101.0)),  # just before the reset
        (660.0, 100.0, 690.0, (690.1, 690.2, 690.5)),  # it was reset ten minutes ago as well
        (500.0, 530.0, 690.0, (690.1, 690.2, 690.5)),  # it is reset again and again
        (107.0, 100.0, 100.0, (107.0,)),  # of the others only one shows so far
    ],
)
def test_the_disk_that_was_reset_when_others_began_to_hang_is_their_cause(
    began: float, reset: float, last: float, waiting: tuple[float, ...]
) -> None:
    """From the time-out of its command on the SCSI host waits; nobody need have seen it before."""
    line = replace(fact(Fault.RESETS, "disk 0", reset, "host1"), event=True, last=last)
    hang = replace(fact(Fault.HANGS, "disk 0", began, "host1"), key=((("alertname", "x"),), ""))
    others = [fact(Fault.HANGS, f"disk {n}", at, "host1") for n, at in enumerate(waiting, 1)]
    found = common_parents.explained([line, hang, *others], SHELVES)
    assert {found[each.key] for each in others} == {hang}


def test_disks_that_hung_before_the_first_of_them_was_reset_are_what_they_share() -> None:
    """The commands of all time out; the first one that does is no cause."""
    line = replace(fact(Fault.RESETS, "disk 0", 130.0, "host1"), event=True, last=130.0)
    hangs = [
        replace(fact(Fault.HANGS, f"disk {n}", 100.0, "host1"), key=((("n", str(n)),), ""))
        for n in range(3)
    ]
    found = common_parents.explained([line, *hangs], SHELVES)
    assert {found[each.key].subject for each in hangs} == {"adapter expander-1:0"}


def test_two_disks_that_hang_together_on_an_adapter_that_is_reset_are_the_adapters() -> None:
    """No command can have timed out in nine seconds: the driver resets it for its own fault."""
    reset = replace(fact(Fault.RESETS, "adapter host1", 109.0), event=True, last=109.0)
    hangs = [fact(Fault.HANGS, f"disk {n}", 100.0 + n / 10, "host1") for n in (0, 6)]
    found = common_parents.explained([reset, *hangs], SHELVES)
    assert {found[each.key].subject for each in hangs} == {"adapter host1"}


def test_lines_about_an_array_have_the_reason_of_its_state() -> None:
    """It lost members before iowarden was started, and the last ones since."""
    line = replace(fact(Fault.DEGRADED, "device md0", 0.0), event=True, last=65.0)
    stopped = replace(fact(Fault.STOPPED, "device md0", 65.0), key=((("alertname", "x"),), ""))
    gone = fact(Fault.GONE, "disk a", 60.0)
    found = causes.explained_by([line, stopped, gone], {}, (), GRAPH, causes.Shortages())
    assert found == {line.key: gone, stopped.key: gone}


def alert(name: str, subject: str, since: float, *, count: int = 0) -> Alert:
    """An alert of an object at host1, for the life of incidents."""
    labels = (("alertname", name), ("severity", "critical"), ("subject", subject))
    return Alert(
        name, labels, AlertState.FIRING, 1.0, (("summary", name),), since, since,
        subject=subject, object=subject, adapter="host1", count=count,
    )  # fmt: skip


def played(
    *steps: tuple[float, list[Alert]], graph: StorageGraph = SHELVES, started: float = 0.0
) -> tuple[Incidents, list[tuple[str, str]]]:
    """Play alerts; return the incidents, and of each mail its incident and its title."""
    state, mails = Incidents(), []
    for now, alerts in steps:
        state, dues, _ = incidents.next_incidents(
            state,
            alerts,
            now,
            incidents.Surroundings(
                install="test",
                policy=NotificationPolicy(),
                observe=lambda _: (),
                is_observable=lambda *_: True,
                graph=graph,
                started_seconds=started,
            ),
        )
        mails += [(due.incident.identifier, due.incident.object) for due in dues]
    return state, mails


def test_a_title_is_not_taken_back_when_the_line_that_it_came_from_is_old() -> None:
    """The adapter reported a fault ten minutes ago; its disks, all of one shelf, are still gone."""
    line = alert("hba_dead", "adapter host1", 1000.0, count=1)
    gone = [alert("DeviceRemoved", f"disk {n}", 1010.0) for n in range(6)]
    later = [alert("MdInactive", "device md0", 1610.0), *gone]
    state, mails = played(
        (1001.0, [line]), (1011.0, [line, *gone]), (1611.0, gone), (1620.0, later)
    )
    assert {title for _, title in mails if "md0" not in title} == {"adapter host1"}
    assert "adapter expander-1:0" not in state.by_key


def test_the_incidents_of_two_disks_continue_in_that_of_their_expander() -> None:
    """Each was mailed at once; with the third it is the shelf, in the older thread."""
    gone = [alert("DeviceRemoved", f"disk {n}", 1000.0 + 7.0 * n) for n in range(3)]
    state, mails = played(*((1001.0 + 7.0 * n, gone[: n + 1]) for n in range(3)), (1060.0, gone))
    assert [title for _, title in mails] == [
        "disk 0",
        "disk 1",
        "expander-1:0 (SAS expander of host1)",
    ]
    assert list(state.by_key) == ["adapter expander-1:0"]
    assert mails[-1][0] == mails[0][0]


def test_a_session_that_was_given_up_is_the_title_until_its_paths_are_back() -> None:
    """First it is the fabric, then its line names the session; ten minutes later that is old."""
    maps = [alert("MultipathPathLost", f"device dm-{n}", 1000.0 + n) for n in range(3)]
    line = alert("connection_lost", "adapter host1", 1060.0, count=1)
    above = {"adapter host1": frozenset(each.subject for each in maps)}
    lower = {f"disk lun {n}": frozenset({each.subject}) for n, each in enumerate(maps)}
    graph = StorageGraph(above, maps=lower)
    steps = (1010.0, maps), (1061.0, [*maps, line]), (1700.0, maps), (1800.0, maps)
    state, mails = played(*steps, graph=graph)
    assert [title for _, title in mails][-1] == "adapter host1"
    assert list(state.by_key) == ["adapter host1"]


def test_disks_that_wait_with_the_one_that_hangs_are_no_update_until_it_goes_on() -> None:
    """The host handles the error of disk 0; one of the others still hangs afterwards."""
    hang = alert("DeviceHang", "disk 0", 1000.0)
    others = [alert("DeviceHang", f"disk {n}", 1030.0) for n in (1, 2, 3)]
    steps = [(at, [hang, *others]) for at in (1041.0, 1050.0, 1100.0)]
    _, mails = played((1011.0, [hang]), *steps)
    assert [title for _, title in mails] == ["disk 0"]
    ended = replace(hang, state=AlertState.RESOLVED)
    _, mails = played((1011.0, [hang]), *steps, (1101.0, [ended, others[0]]), (1110.0, others[:1]))
    assert [title for _, title in mails] == ["disk 0", "disk 0"]


@pytest.mark.parametrize(
    ("found_seconds", "titles"), [(1001.0, {"device dm-1"}), (1020.0, {"system", "device dm-1"})]
)
def test_a_map_that_the_start_shows_without_paths_is_why_its_file_system_failed_before(
    found_seconds: float, titles: set[str]
) -> None:
    """What iowarden has watched for twenty seconds began when it was noticed, and is another."""
    system = "file system on device dm-1"
    line = alert("fs_error", system, 940.0, count=1)
    line = replace(line, labels=(*line.labels, ("condition", "filesystem_error")), object="system")
    stopped = alert("MultipathAllPathsLost", "device dm-1", found_seconds)
    graph = StorageGraph({"device dm-1": frozenset({system})})
    steps = ((found_seconds + after, [line, stopped]) for after in (0.0, 1.0, 5.0))
    _, mails = played(*steps, graph=graph, started=1000.0)
    assert {title for _, title in mails} == titles


@pytest.mark.parametrize("responds", [False, True])
def test_tasks_hang_because_of_a_server_until_a_line_reports_that_it_responds(
    responds: bool,
) -> None:
    """It said 'not responding' twenty minutes ago, once."""
    server = alert("nfs_not_responding", "device nas1", 1000.0, count=1)
    server = replace(server, labels=(*server.labels, ("condition", "device_unavailable")))
    hung = alert("hung_task", "", 2200.0, count=1)
    hung = replace(hung, labels=(*hung.labels, ("condition", "hung_task")))
    last = [replace(server, absent_seconds=1500.0)] if responds else [server]
    state, _ = played((1001.0, [server]), (1599.0, last), (1601.0, []), (2201.0, [hung]))
    assert set(state.by_key) == ({"device nas1", "host"} if responds else {"device nas1"})


def sessions(*names: str, maps: int = 3) -> StorageGraph:
    """Maps with a path over each of these sessions."""
    devices = frozenset(f"device dm-{n}" for n in range(maps))
    lower = {f"disk lun {n}": frozenset({f"device dm-{n}"}) for n in range(maps)}
    return StorageGraph({f"adapter {name}": devices for name in names}, maps=lower)


def test_sessions_that_were_given_up_before_the_start_are_one_incident_with_their_maps() -> None:
    """Two sessions were lost: that is the fabric, and no incident of each."""
    lines = [alert("connection_lost", f"adapter host{n}", 990.0, count=1) for n in (1, 2)]
    maps = [alert("MultipathAllPathsLost", f"device dm-{n}", 1000.0) for n in range(3)]
    state, _ = played((1001.0, [*lines, *maps]), graph=sessions("host1", "host2"))
    assert list(state.by_key) == ["adapter fabric"]


def test_maps_that_lose_paths_again_are_reported_with_the_session_that_was_lost_before() -> None:
    """It comes and goes: no new incident of the fabric each time; but of another session one."""
    graph = sessions("host1", "host2")
    first = [alert("MultipathPathLost", f"device dm-{n}", 1000.0) for n in range(3)]
    line = alert("connection_lost", "adapter host1", 1060.0, count=1)
    again = [alert("MultipathPathLost", f"device dm-{n}", 2000.0) for n in range(3)]
    other = alert("connection_lost", "adapter host2", 2060.0, count=1)
    back = (1100.0, [replace(each, state=AlertState.RESOLVED) for each in (*first, line)])
    steps = (1061.0, [*first, line]), back, (1101.0, []), (2001.0, again)
    assert list(played(*steps, graph=graph)[0].by_key) == ["adapter host1"]
    assert list(played(*steps[:-1], (2001.0, again[:1]), graph=graph)[0].by_key) == [
        "adapter host1"
    ]
    state, _ = played(*steps, (2061.0, [*again, other]), graph=graph)
    assert state.by_key["adapter host2"].firing


@pytest.mark.parametrize(
    ("lost", "title"), [(("host1",), "adapter host1"), (("host1", "host2"), "adapter fabric")]
)
def test_maps_lose_paths_with_the_one_session_whose_line_is_recent(
    lost: tuple[str, ...], title: str
) -> None:
    """Their first time was before the start; of two sessions nobody can tell which it is now."""
    lines = [alert("connection_lost", f"adapter {name}", 1000.0, count=1) for name in lost]
    again = [alert("MultipathPathLost", f"device dm-{n}", 1400.0) for n in range(3)]
    steps = (1001.0, lines), (1401.0, [*lines, *again])
    state, _ = played(*steps, graph=sessions("host1", "host2"))
    assert {home for home, own in state.by_key.items() if len(own.members) >= 3} == {title}


def test_a_name_that_an_adapter_had_before_a_reboot_joins_nobody() -> None:
    """Three disks had errors; 'host0' was the adapter of two of them and is that of the third."""
    graph = StorageGraph(
        parents={
            "adapter host0": frozenset({"disk c", "disk d", "disk e"}),
            "adapter host1": frozenset({"disk a", "disk b", "disk f"}),
        }
    )
    disks = [
        replace(fact(Fault.ERRORS, f"disk {name}", began, "host0"), event=True)
        for name, began in (("a", 1.0), ("b", 2.0), ("c", 6.0))
    ]
    assert common_parents.explained(disks, graph) == {}


@pytest.mark.parametrize(("later_seconds", "is_one"), [(1.0, True), (6.0, True), (301.0, False)])
def test_a_file_system_that_fails_soon_after_its_map_had_no_path_is_the_same_incident(
    later_seconds: float, is_one: bool
) -> None:
    """The map has paths again; what could not be written is noticed only at the next commit."""
    system = "file system on device dm-1"
    graph = StorageGraph({"device dm-1": frozenset({system})})
    stopped = alert("MultipathAllPathsLost", "device dm-1", 1000.0)
    fails = 1005.0 + later_seconds
    failed = alert("fs_error", system, fails, count=1)
    failed = replace(
        failed,
        labels=(*failed.labels, ("condition", "filesystem_error")),
        last_seconds=fails,
    )
    state, mails = played(
        (1000.0, [stopped]), (1004.0, [stopped]), (1005.0, []), (fails, [failed]),
        (fails + 61.0, [failed]), graph=graph,
    )  # fmt: skip
    assert len(state.by_key) == (1 if is_one else 2)
    assert {title for _, title in mails} == ({"device dm-1"} if is_one else {"device dm-1", system})
