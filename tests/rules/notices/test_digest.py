"""Texts of the initial report and the weekly digest, from alerts and events."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.machine import disk, topology

from iowarden.daemon.notify.message import subject
from iowarden.rules.alerting.alerts import Alert, AlertState, Transition
from iowarden.rules.incidents.model import Incident, IncidentMember
from iowarden.rules.notices import digest
from iowarden.rules.notices.digest import Digest, WeeklyContent
from iowarden.rules.severity import Severity
from iowarden.rules.topology.device_changes import DeviceChange, DeviceChangeKind
from iowarden.rules.topology.device_identity import Identity

if TYPE_CHECKING:
    from iowarden.rules.notice import Notice

WEEK = 7 * 86_400.0


def alert(
    name: str,
    device: str,
    severity: str = "info",
    state: AlertState = AlertState.FIRING,
    *,
    lasts: bool = True,
) -> Alert:
    """An alert of a disk, with advice; from the baseline unless `lasts` is set."""
    labels = (("alertname", name), ("device", device), ("severity", severity))
    texts = (
        ("summary", f"{name} is so"),
        ("advice", f"Mend {name}."),
        ("baseline", str(lasts).lower()),
    )
    return Alert(name, labels, state, 1.0, texts, 0.0, 0.0, subject=f"disk {device}", object=device)


def stepped(
    state: Digest, *alerts: Alert, now: float = 0.0, events: tuple[DeviceChange, ...] = ()
) -> Digest:
    """Return the digest after these alerts changed."""
    changes = [Transition(a, AlertState.INACTIVE) for a in alerts]
    return digest.next_digest(state, changes, events, now, lambda at: f"day {at // 86_400:.0f}")


def mail(state: Digest, now: float, heartbeat: str = "") -> tuple[Digest, digest.Notice | None]:
    """Return what is left and what is mailed."""
    content = WeeklyContent(heartbeat)
    return digest.weekly(state, content, now, lambda at: at, install="x")


def incident(*alerts: Alert, over: bool = False, silenced: bool = False) -> Incident:
    """An open incident about the object of its first alert."""
    state, cleared = (AlertState.RESOLVED, 30.0) if over else (AlertState.FIRING, None)
    members = tuple(
        IncidentMember(
            labels=each.labels,
            name=each.name,
            severity=each.severity,
            state=state,
            since_seconds=0.0,
            summary=each.summary,
            advice=f"Mend {each.name}.",
            unknown="",
            cleared_seconds=cleared,
            subject=each.subject,
            silenced=silenced,
        )
        for each in alerts
    )
    worst = max(each.severity for each in alerts)
    first = alerts[0]
    name = f"of {first.object}"
    return Incident(name, first.subject, first.object, 0.0, worst, members, firing=not over)


def initial(
    *contained: Incident, separate: tuple[Incident, ...] = (), alerts: tuple[Alert, ...] = ()
) -> tuple[Digest, Notice]:
    """Return the initial report of these incidents, and of the others' alerts."""
    content = digest.InitialContent(contained, separate, alerts, ())
    return digest.initial_report(Digest(), content, install="x", now=60.0, realtime_seconds=60.0)


def test_a_setting_of_forty_disks_is_one_line_and_one_advice() -> None:
    """At baseline: the first disks by name, the rest by number."""
    _, notice = initial(alerts=tuple(alert("Scheduler", f"sd{n:02}") for n in range(40)))
    assert notice.severity is Severity.INFO
    assert len(notice.sentences) == len(notice.advice) == 1
    assert notice.sentences[0].startswith("info Scheduler sd00: Scheduler is so; also sd01, sd02")
    assert notice.sentences[0].endswith("sd12 and 27 more")
    assert notice.advice[0].startswith("Scheduler:\nMend Scheduler.\nThe same applies to sd01")


def test_the_worst_comes_first_and_gives_the_mail_its_severity() -> None:
    """Its name is in the subject, the number of the others behind it; all in one order."""
    first = alert("B", "sdb", "critical")
    alerts = (alert("A", "sda"), first, alert("F", "sdc", "warning", AlertState.PENDING))
    _, notice = initial(incident(alert("C", "sda", "warning")), incident(first), alerts=alerts)
    assert notice.severity is Severity.CRITICAL
    assert notice.summary == "sdb: B is so; 1 more"
    assert subject(notice, "db1") == "[CRITICAL] db1: INITIAL REPORT: sdb: B is so; 1 more"
    *lines, details = notice.sentences
    assert [line.split()[1] for line in lines] == ["B", "C", "F", "A"]
    assert "iowarden incident show ID" in details


def test_what_is_no_incident_is_no_warning_of_the_initial_report() -> None:
    """An alert that opened no incident is not counted as mailed: nor does the report have it."""
    firing, urgent = alert("A", "sda", "critical"), alert("MdInactive", "md0", "critical")
    waits = replace(urgent, state=AlertState.PENDING)
    state, notice = initial(alerts=(firing, waits))
    assert (notice.severity, notice.summary, notice.sentences) == (Severity.INFO, "no finding", ())
    assert state.advised == ()


def test_an_incident_that_was_mailed_is_listed_as_that() -> None:
    """A disk hung in the first minute: its mail has the tag, the report only a line."""
    _, notice = initial(separate=(incident(alert("DeviceHang", "sdb", "critical")),))
    assert notice.severity is Severity.INFO
    assert notice.summary == "1 incident in a mail of its own"
    assert notice.sentences[0] == "in a mail of its own: critical sdb: DeviceHang is so"


def test_what_ended_in_the_first_minute_is_reported_as_ended() -> None:
    """Its alert is gone; the incident remembers what it was."""
    _, notice = initial(incident(alert("A", "sda", "critical"), over=True))
    assert notice.severity is Severity.CRITICAL
    assert notice.sentences[0] == "critical A sda: A is so, resolved"


def test_a_notice_that_ended_and_a_disk_that_was_plugged_in_meanwhile_are_reported() -> None:
    """Both were in no mail: the week began with the report."""
    over = alert("A", "sda", "notice", AlertState.RESOLVED)
    added = DeviceChange(DeviceChangeKind.ADDED, "sdb", Identity("disk B", "sdb (ACME)"))
    state = stepped(Digest(), alert("A", "sda", "notice"), events=(added,))
    state = digest.next_digest(state, [Transition(over, AlertState.FIRING)], (), 30.0, str)
    content = digest.InitialContent((), (), (), ())
    _, notice = digest.initial_report(state, content, install="x", now=60.0, realtime_seconds=60.0)
    assert notice.sentences == ("notice A sda: A is so, resolved", "day 0: sdb (ACME) is new")


@pytest.mark.parametrize(
    ("goes_on", "expected"), [(True, "10 times, for 7 d"), (False, "3 times, resolved")]
)
def test_what_a_notice_says_has_grown_by_the_digest(expected: str, *, goes_on: bool) -> None:
    """It began with one freeze; there were three when it ended, or ten if it goes on."""
    began = alert("Freeze", "md0", "notice")
    over = replace(began, state=AlertState.RESOLVED, annotations=(("summary", "3 times"),))
    state = stepped(Digest(), began) if goes_on else stepped(stepped(Digest(), began), over)
    summaries = {digest.entry_key(began): "10 times"} if goes_on else {}
    _, notice = digest.weekly(state, WeeklyContent(summaries=summaries), WEEK, float, install="x")
    assert notice is not None
    assert notice.sentences == (f"notice Freeze md0: {expected}",)


def test_two_kernel_lines_of_one_error_are_one_line() -> None:
    """SCSI layer and block layer log each error: its text and its number are the same."""
    lines = (alert("block_error", "sda", "critical"), alert("scsi_error", "sda", "critical"))
    same = [replace(each, annotations=(("summary", "unreadable (8 times)"),)) for each in lines]
    _, notice = initial(incident(*same))
    assert notice.sentences[0] == "critical block_error sda: unreadable (8 times)"
    assert len(notice.sentences) == 2


def test_what_repeated_is_reported_with_its_present_count() -> None:
    """The incident began with 8 errors; now there are 11, of another disk 3: a line each."""
    counted = [
        replace(
            alert("Errors", name, "warning"),
            annotations=(("summary", f"sectors cannot be read ({count} times)"),),
        )
        for name, count in (("sda", 11), ("sdb", 3))
    ]
    before = (incident(alert("Errors", name, "warning")) for name in ("sda", "sdb"))
    _, notice = initial(*before, alerts=tuple(counted))
    assert notice.sentences[:2] == (
        "warning Errors sda: sectors cannot be read (11 times)",
        "warning Errors sdb: sectors cannot be read (3 times)",
    )


def test_a_finding_that_is_a_warning_and_critical_is_critical_and_one() -> None:
    """At 92 % both rules of fullness fire; another disk with a warning only is listed as well."""
    alerts = (
        alert("Full", "sda", "warning"),
        alert("Full", "sda", "critical"),
        alert("Full", "sdb", "warning"),
        alert("Array", "md0", "warning"),
    )
    _, notice = initial(
        incident(*alerts[:2]), incident(alerts[2]), incident(alerts[3]), alerts=alerts
    )
    assert notice.summary == "sda: Full is so; 2 more"
    assert notice.sentences[0] == "critical Full sda: Full is so; also sdb"
    assert notice.advice[0] == "Full:\nMend Full.\nThe same applies to sdb."
    assert [line.split()[1] for line in notice.sentences[:-1]] == ["Full", "Array"]


@pytest.mark.parametrize(
    ("begun", "running", "all_polled", "is_due"),
    [
        pytest.param(0.0, 59.0, True, False, id="in the first minute"),
        pytest.param(0.0, 60.0, True, True, id="after it"),
        pytest.param(0.0, 239.0, False, False, id="a disk is not polled yet"),
        pytest.param(0.0, 240.0, False, True, id="nor ever"),
        pytest.param(-230.0, 9.0, False, False, id="killed again and again"),
        pytest.param(-230.0, 10.0, False, True, id="for four minutes"),
        pytest.param(-86_400.0, 10.0, True, False, id="a day ago, and now again"),
    ],
)
def test_the_initial_report_comes_within_four_minutes(
    begun: float, running: float, *, all_polled: bool, is_due: bool
) -> None:
    """Also of a program that is killed each half minute."""
    state = Digest(begun_seconds=begun)
    assert digest.initial_report_is_due(state, running, running, all_polled=all_polled) is is_due


def test_only_what_is_no_mail_of_its_own_is_in_the_digest() -> None:
    """Warnings have their incident; information and notices have nothing else."""
    state = stepped(Digest(), alert("A", "sda"), alert("B", "sda", "warning"))
    _, notice = mail(state, WEEK)
    assert notice is not None
    assert [line.split()[1] for line in notice.sentences] == ["A"]


def test_a_disk_that_goes_and_comes_all_week_keeps_the_mail_short() -> None:
    """A loose cable: the last events by name, those before by number."""
    event = DeviceChange(
        DeviceChangeKind.REMOVED, "sda", Identity("disk A", "sda (ACME)"), carried=("/srv",)
    )
    state = stepped(Digest(), events=(event,) * 60)
    _, notice = mail(state, WEEK)
    assert notice is not None
    assert notice.summary == "60 changes of disks in 7 d"
    assert notice.sentences[0] == "10 earlier changes of disks are not listed"
    assert notice.sentences[1:] == ("day 0: sda (ACME) disappeared; it was used by: /srv",) * 50


def test_each_digest_has_its_number_and_nothing_is_mailed_about_nothing() -> None:
    """A week of news, a quiet one, one of a heartbeat: numbers 1 and 2."""
    state, first = mail(stepped(Digest(), alert("A", "sda")), WEEK)
    state, none = mail(state, 2 * WEEK)
    state, second = mail(state, 3 * WEEK, "iowarden watches")
    assert none is None
    assert first is not None
    assert second is not None
    assert (first.number, second.number) == (1, 2)
    assert first.incident == second.incident
    assert second.sentences == ("iowarden watches",)
    assert not digest.due(state, 4 * WEEK - 1.0, WEEK)
    assert digest.due(state, 4 * WEEK, WEEK)
    assert not digest.due(state, 99 * WEEK, 0.0)


def test_a_state_that_comes_late_joins_what_was_seen_since() -> None:
    """The week began before the restart, and what happened while the file was locked counts."""
    before = stepped(Digest(arrived=True, number=3), alert("A", "sda"), now=100.0)
    since = stepped(Digest(), alert("B", "sdb"), now=WEEK)
    both = digest.merged(since, before)
    assert (both.begun_seconds, both.arrived, both.number) == (100.0, True, 3)
    assert sorted(entry.name for entry in both.entries.values()) == ["A", "B"]


def test_the_inventory_counts_what_there_is() -> None:
    """One disk, and a machine whose disks cannot be listed yet."""
    found = digest.inventory(topology(disk("sda", model="ACME")), 1, ["scsi"], "SMART: 1 of 1 disk")
    assert found == [
        "1 disk: sda (ACME)",
        "1 mounted file system",
        "SMART: 1 of 1 disk; details: iowarden monitoring",
        "no data from: scsi",
    ]
    (unknown,) = digest.inventory(None, None, ())
    assert "could not be read yet" in unknown


def test_what_has_no_advice_of_its_own_has_no_heading() -> None:
    """Two baseline lines of one error: the second one has the advice of the first."""
    first, second = alert("First", "loop0"), alert("Second", "loop0")
    second = replace(second, annotations=(("summary", "Second is so"), ("advice", "\n")))
    _, notice = initial(alerts=(first, second))
    assert [text.partition(":")[0] for text in notice.advice] == ["First"]


def test_what_is_silenced_is_counted_beside_what_is_reported() -> None:
    """One that began silenced, one silenced since: a line for both; what ended silenced is none."""
    began, later, over, told = (alert(name, "sda") for name in ("Began", "Later", "Over", "Told"))
    quiet = {"Began", "Over"}
    changes = [Transition(each, AlertState.INACTIVE) for each in (began, later, over, told)]
    changes.append(Transition(replace(over, state=AlertState.RESOLVED), AlertState.FIRING))
    state = digest.next_digest(Digest(), changes, (), 0.0, str, lambda each: each.name in quiet)
    keys = {digest.entry_key(each) for each in (began, later)}
    state, notice = digest.weekly(state, WeeklyContent(silenced=keys), WEEK, float, install="x")
    assert notice is not None
    assert notice.sentences == (
        "info Told sda: Told is so, for 7 d",
        "2 findings silenced: iowarden silence list",
    )
    assert [each.partition(":")[0] for each in notice.advice] == ["Told"]
    _, notice = digest.weekly(state, WeeklyContent(), 2 * WEEK, float, install="x")
    assert notice is not None
    assert [line.partition(":")[0] for line in notice.sentences] == [
        "info Began sda",
        "info Later sda",
    ]
