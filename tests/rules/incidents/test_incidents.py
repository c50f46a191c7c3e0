"""Which alerts are one incident, and when a mail is due."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from iowarden.daemon.service.persisted_state import PersistedState, documents, read
from iowarden.rules.alerting.alerts import REDUNDANCY, Alert, AlertState
from iowarden.rules.incidents import incidents, mailing, members, model, silences
from iowarden.rules.incidents.model import Incidents, NotificationPolicy
from iowarden.rules.matcher import parse_matcher
from iowarden.rules.notice import Evidence, Reason
from iowarden.rules.severity import Severity
from iowarden.rules.topology.graph import StorageGraph

HOUR = 3600.0
DAY = 24 * HOUR
MINUTE = 60.0


def alert(
    name: str,
    severity: str = "warning",
    *,
    device: str = "",
    condition: str = "write_stall",
    state: AlertState = AlertState.FIRING,
    since: float = 0.0,
) -> Alert:
    """An alert as the rules make it."""
    labels = {"alertname": name, "severity": severity, "condition": condition}
    if device:
        labels["device"] = device
    return Alert(
        name=name,
        labels=tuple(sorted(labels.items())),
        state=state,
        value=1.0,
        annotations=(("summary", f"{name} happens"), ("advice", f"cure {name}")),
        active_seconds=since,
        fired_seconds=since,
        subject=f"disk {device}" if device else "",
        object=f"{device} (serial {device})" if device else "",
    )


STALL = alert("WriteStall")
WORSE = alert("WriteStall", "critical")
HANG = alert("DeviceHang", "warning", device="sda", condition="device_hang")
SLOW = alert("DiskSlow", device="sdb", condition="disk_slow")


class FakeMachine:
    """A host whose alerts are set by hand, second by second."""

    def __init__(self) -> None:
        self.state = Incidents()
        self.now = 0.0
        self.mails: list[tuple[float, Reason, str, int]] = []
        self.blind = False
        self.graph = StorageGraph()
        self.initial_report: model.InitialReport | None = None
        self.said = silences.Silences()
        self.changes: list[str] = []
        self.opened: list[Severity] = []
        self.threads: list[tuple[str, Reason]] = []
        self.worst: dict[str, Severity] = {}
        """By subject: the worst of what was not silenced."""

    def silence(self, *matchers: str, seconds: float = DAY) -> str:
        """Silence alerts from now on; return the identifier."""
        wanted = tuple(parse_matcher(text) for text in matchers)
        identifier = f"s{len(self.said.silences)}"
        silence = silences.Silence(
            identifier, wanted, self.now, seconds, "disk is on order", "alice"
        )
        self.said, added = silences.add(self.said, silence)
        return added.identifier

    def expire(self, identifier: str) -> None:
        """End a silence."""
        self.said, _ = silences.expire(self.said, identifier, self.now)

    def acknowledge(self, key: str = "host") -> None:
        """Acknowledge an incident."""
        self.said, _ = silences.acknowledge(
            self.said,
            self.state.by_key.values(),
            self.state.by_key[key].identifier,
            now=self.now,
            reason="known",
            who="alice",
        )

    def awaits_report(self) -> None:
        """Begin as a machine that has not had its initial report."""
        self.initial_report = model.InitialReport("report")

    def reports(self, *pending: Alert) -> list[str]:
        """Make the initial report now, with lines about pending alerts; return its incidents."""
        report = self.initial_report
        assert report is not None
        contained = {k: i for k, i in self.state.by_key.items() if mailing.in_report(i)}
        counted = {
            key: mailing.counted_by_report(each, report, self.now)
            for key, each in contained.items()
        }
        self.state = replace(self.state, by_key={**self.state.by_key, **counted})
        listed = {m.key for each in contained.values() for m in each.members}
        listed |= {each.key for each in pending}
        self.initial_report = replace(
            report, seconds=self.now, lists=lambda each: each.key in listed
        )
        return [*contained]

    def run(self, seconds: float, *alerts: Alert, step: float = 5.0) -> list[str]:
        """Let `seconds` pass with these alerts; return the reasons of the mails sent."""
        sent = []
        end = self.now + seconds
        find = silences.finder(self.said)
        while self.now < end:
            silenced = {a.key for a in alerts if find(a, self.now)}
            for each in alerts:
                heard = Severity.INFO if each.key in silenced else each.severity
                self.worst[each.subject] = max(heard, self.worst.get(each.subject, heard))
            self.state, dues, events = incidents.next_incidents(
                self.state,
                alerts,
                self.now,
                incidents.Surroundings(
                    install="test",
                    policy=NotificationPolicy(),
                    observe=lambda a: (Evidence(0.0, "x", a.name),),
                    is_observable=lambda *_: not self.blind,
                    initial_report=self.initial_report,
                    silenced=lambda a: find(a, self.now) is not None,
                    acknowledged=self.said.by_incident(),
                    graph=self.graph,
                ),
            )
            for event in events:
                self.changes.append(event.change.value)
                if event.change is model.IncidentChangeKind.OPENED:
                    self.opened.append(event.incident.severity)
                if event.change is model.IncidentChangeKind.ACK_EXPIRED:
                    self.said = silences.drop_acknowledgement(self.said, event.incident.identifier)
            for due in dues:
                self._check(due, alerts, silenced)
                self.mails.append((self.now, due.reason, due.incident.object, due.incident.mails))
                self.threads.append((due.incident.identifier, due.reason))
                sent.append(due.reason.value)
            self.now += step
        return sent

    def _check(
        self,
        due: model.DueNotice,
        alerts: tuple[Alert, ...],
        silenced: set[tuple[tuple[tuple[str, str], ...], str]],
    ) -> None:
        """Always: nothing silenced causes a mail, or raises a severity."""
        members = due.incident.members
        going = {m.key for m in members if m.cleared_seconds is None}
        active = [a for a in alerts if a.key in going]
        assert not active or any(a.key not in silenced for a in active)
        assert due.incident.severity <= max(self.worst[m.subject] for m in members)

    def only(self) -> model.Incident:
        """The one incident there is."""
        (incident,) = self.state.by_key.values()
        return incident


def test_a_warning_waits_a_minute_for_others() -> None:
    """One mail after 60 s, not one an alert."""
    host = FakeMachine()
    assert host.run(60, STALL) == []
    assert host.run(5, STALL, alert("ReclaimStall", condition="reclaim_stall")) == ["opened"]
    assert host.run(HOUR, STALL) == []


def test_an_incident_of_events_in_which_nothing_happens_stays_the_same_object() -> None:
    """It may be open for a day: each second of it is neither made anew nor written."""
    error = replace(alert("block_io_error", device="sda"), count=2, last_seconds=1.0)
    host = FakeMachine()
    host.run(90, error)
    before = host.only()
    host.run(MINUTE, error)
    assert host.only() is before
    assert host.state.changed == frozenset()
    host.run(5, replace(error, count=3, last_seconds=host.now))
    assert host.only().members[0].count == 3
    assert host.state.changed == {"disk sda"}


def test_a_lasting_alert_is_written_when_it_begins_not_each_second() -> None:
    """When it was last active is known again with the next start."""
    host = FakeMachine()
    host.run(90, STALL)
    host.run(5, replace(STALL, annotations=(("summary", "stalls for 95 s"),)))
    assert host.only().active_seconds == 90.0
    assert host.only().members[0].summary == "stalls for 95 s"
    assert host.state.changed == frozenset()
    host.run(5)
    assert host.state.changed == {"host"}


def test_a_warning_of_a_users_rule_that_is_urgent_is_reported_at_once() -> None:
    """Its annotation decides, and its end is reported after a minute."""
    scratch = replace(alert("ScratchGone"), annotations=(("urgent", "true"),))
    host = FakeMachine()
    assert host.run(5, scratch) == ["opened"]
    assert host.run(75) == ["resolved"]


def test_critical_is_reported_at_once() -> None:
    """A dying disk does not wait a minute."""
    assert FakeMachine().run(5, WORSE) == ["opened"]


def test_information_opens_nothing() -> None:
    """A healthy copy at the limit is a line in the journal."""
    host = FakeMachine()
    assert host.run(HOUR, alert("WriteThrottle", "info")) == []
    assert not host.state.by_key


def test_a_warning_that_becomes_critical_is_reported_again_in_its_thread() -> None:
    """The second mail answers the first."""
    host = FakeMachine()
    host.run(90, STALL)
    assert host.run(60, STALL, WORSE) == ["escalated"]
    incident = host.only()
    assert incident.mails == 2
    assert incident.references == (f"{incident.identifier}.1",)


def test_severity_never_falls_while_the_incident_is_open() -> None:
    """Critical and back to warning is still the critical incident."""
    host = FakeMachine()
    host.run(60, WORSE)
    host.run(60, STALL)
    assert host.only().severity is Severity.CRITICAL


def test_resolved_mail_comes_after_ten_quiet_minutes_and_once() -> None:
    """Not in the first pause of a slow disk, which blocks no program."""
    host = FakeMachine()
    host.run(120, SLOW)
    assert host.run(595) == []
    assert host.run(20) == ["resolved"]
    assert host.run(HOUR) == []


@pytest.mark.parametrize(("held", "again"), [(SLOW, 120.0), (STALL, 50.0)])
def test_a_pause_of_nine_minutes_is_the_same_incident(held: Alert, again: float) -> None:
    """A slow disk, a stall of 50 s: not resolved, not opened a second time."""
    host = FakeMachine()
    host.run(again, held)
    host.run(9 * MINUTE)
    assert host.run(again, replace(held, active_seconds=host.now, fired_seconds=host.now)) == []


def test_a_short_warning_is_reported_although_it_is_over() -> None:
    """A freeze of 20 s happened: its mail is sent when the minute of grouping has passed."""
    host = FakeMachine()
    host.run(20, STALL)
    assert host.run(60) == ["opened"]
    assert host.run(10 * MINUTE) == ["resolved"]


def test_a_stall_that_comes_and_goes_is_mailed_at_the_third_and_at_the_tenth_time() -> None:
    """Every 20 minutes: the second makes no mail and no [OK]; resolved after a quiet day."""
    host = FakeMachine()
    host.run(120, STALL)
    reasons = []
    for _ in range(9):
        reasons.append(host.run(18 * MINUTE))
        reasons.append(host.run(2 * MINUTE, STALL))
    assert reasons[:2] == [["resolved"], []]
    assert reasons[3] == reasons[17] == ["reopened"]
    assert not any(each for place, each in enumerate(reasons[2:]) if place + 2 not in {3, 17})
    assert host.only().occurrences == 10
    assert host.run(25 * HOUR, step=60) == ["resolved"]


def test_a_hang_of_14_s_each_ten_minutes_is_mailed_five_times_and_never_as_over() -> None:
    """At the first, with its end, at the third, tenth and thirtieth, and not never again."""
    host = FakeMachine()
    mails = []
    for number in range(40):
        start = 600.0 * number
        hang = replace(HANG, active_seconds=start, fired_seconds=start + 10.0, value=10.0)
        host.run(10, step=1)
        host.run(4, hang, step=1)
        host.run(60, replace(hang, absent_seconds=start + 14.0), step=1)
        host.run(526, step=1)
        mails += [(number + 1, reason.value) for _, reason, *_ in host.mails[len(mails) :]]
    assert mails == [
        (1, "opened"),
        (1, "resolved"),
        (3, "reopened"),
        (10, "reopened"),
        (30, "reopened"),
    ]
    (record,) = host.only().faults
    assert (record.count, record.longest_seconds) == (40, 14.0)
    assert round(record.earlier_seconds + record.lasted_seconds(host.now)) == 40 * 14


def test_a_disk_that_hung_14_s_and_then_hangs_for_good_is_mailed_at_once() -> None:
    """The second time within the hour is no mail until it lasts half as long again."""
    host = FakeMachine()
    host.run(14, HANG, step=1)
    host.run(20 * MINUTE, step=1)
    assert [reason.value for _, reason, *_ in host.mails] == ["opened", "resolved"]
    again = replace(HANG, active_seconds=host.now, fired_seconds=host.now)
    assert host.run(21, again, step=1) == []
    assert host.run(2, again, step=1) == ["reopened"]
    assert host.run(DAY, again, step=60) == []


def test_a_recurrence_that_is_worse_does_not_wait_for_its_hour() -> None:
    """The limit is for repetition, not for bad news."""
    host = FakeMachine()
    host.run(120, STALL)
    host.run(18 * MINUTE)
    assert host.run(2 * MINUTE, STALL) == []
    assert host.run(60, WORSE) == ["reopened"]


def test_an_incident_closes_after_a_quiet_day_and_its_thread_goes_on_for_a_week() -> None:
    """Back after three days: the same thread; back after two weeks: a new one."""
    host = FakeMachine()
    host.run(120, STALL)
    first = host.only().identifier
    host.run(2 * DAY, step=60)
    assert host.only().closed_seconds is not None
    host.run(DAY, step=60)
    assert host.run(120, STALL) == ["reopened"]
    assert host.only().identifier == first
    host.run(14 * DAY, step=600)
    assert not host.state.by_key
    assert host.run(120, STALL) == ["opened"]
    assert host.only().identifier != first


def test_nothing_is_repeated_for_a_week_and_then_once() -> None:
    """A warning that stays: one mail, one reminder."""
    host = FakeMachine()
    assert host.run(20 * DAY, STALL, step=600) == ["opened", "reminder"]


def test_a_source_that_falls_silent_is_reported_and_clears_nothing() -> None:
    """Unknown is not OK: the incident stays open while its data are unavailable."""
    host = FakeMachine()
    host.run(120, STALL)
    silent = replace(STALL, state=AlertState.UNKNOWN, unknown_reason="vmstat failed")
    assert host.run(DAY, silent, step=60) == ["data unavailable"]
    assert host.only().firing
    assert host.run(60, STALL) == []


def test_two_hung_disks_are_two_incidents() -> None:
    """Each with its own thread."""
    host = FakeMachine()
    other = alert("DeviceHang", device="sdb", condition="device_hang")
    assert host.run(90, HANG, other) == ["opened", "opened"]
    assert len({i.identifier for i in host.state.by_key.values()}) == 2


def test_a_stall_that_a_hung_disk_causes_is_that_disks_incident() -> None:
    """Both begin together: one mail, about the disk."""
    host = FakeMachine()
    assert host.run(90, HANG, STALL) == ["opened"]
    assert host.only().key == "disk sda"
    assert {m.name for m in host.only().members} == {"DeviceHang", "WriteStall"}


def test_an_open_host_incident_is_folded_into_the_disk_that_explains_it() -> None:
    """The stall was mailed first; its thread goes on under the disk's name."""
    host = FakeMachine()
    host.run(90, STALL)
    thread = host.only().identifier
    assert host.run(60, STALL, HANG) == ["escalated"]
    assert host.mails[-1][2] == "sda (serial sda)"
    assert host.only().key == "disk sda"
    assert host.only().identifier == thread
    worse = alert("DeviceHang", "critical", device="sda", condition="device_hang")
    assert host.run(60, STALL, HANG, worse) == ["escalated"]
    assert host.mails[-1][2] == "sda (serial sda)"
    assert host.run(11 * MINUTE) == ["resolved"]


def test_what_vanished_unread_gets_no_resolved_mail() -> None:
    """The disk is away for a day and its alert dropped: it is not known to be healthy."""
    host = FakeMachine()
    host.run(60, HANG)
    host.run(DAY, replace(HANG, state=AlertState.UNKNOWN, unknown_reason="not listed"), step=600)
    assert host.run(2 * DAY, step=600) == []
    assert host.only().closed_seconds is not None


def test_a_disk_that_vanished_and_came_back_to_hang_is_reported_again() -> None:
    """Its last mail was 'unreadable'; another must follow."""
    for quiet in (1, 3):
        host = FakeMachine()
        host.run(60, HANG)
        host.run(
            DAY, replace(HANG, state=AlertState.UNKNOWN, unknown_reason="not listed"), step=600
        )
        host.run(quiet * DAY, step=600)
        again = replace(HANG, active_seconds=host.now, fired_seconds=host.now)
        assert host.run(120, again) == ["reopened"]


def test_a_resolved_mail_that_nobody_can_vouch_for_is_none() -> None:
    """It is fast again, then its data source failed: ten quiet minutes start when that is back."""
    host = FakeMachine()
    host.run(120, SLOW)
    host.run(120, replace(SLOW, state=AlertState.RESOLVED))
    host.blind = True
    assert host.run(HOUR) == []
    host.blind = False
    assert host.run(590) == []
    assert host.run(20) == ["resolved"]


def test_what_flaps_is_reported_although_it_never_fires_for_a_minute() -> None:
    """35 s on, 15 s off: one incident, its minute counts from the first."""
    host = FakeMachine()
    assert host.run(35, STALL) + host.run(15) + host.run(35, STALL) == ["opened"]


def test_a_host_is_not_clear_while_its_writers_stall_in_a_disks_incident() -> None:
    """The host's stall ended; the next one is a hung disk's: not resolved in between."""
    host = FakeMachine()
    host.run(120, STALL)
    host.run(300)
    assert "resolved" not in host.run(1200, HANG, STALL)


def test_a_stall_folded_into_a_disks_older_incident_is_news() -> None:
    """The disk had hung and recovered; the host was mailed; the disk hangs again: notified."""
    host = FakeMachine()
    host.run(120, HANG)
    host.run(200)
    host.run(120, STALL)
    assert host.run(60, STALL, HANG) == ["reopened"]


def test_members_that_are_over_are_not_kept_for_ever() -> None:
    """A rule whose labels change with each firing must not fill the mail."""
    host = FakeMachine()
    for number in range(80):
        host.run(5, alert(f"Rule{number}"), STALL)
    assert len(host.only().members) <= members.MAX_CLEARED + 2


def test_what_was_unreadable_and_is_well_again_gets_its_resolved_mail() -> None:
    """Valid data came back and ended the alert: reported as resolved."""
    host = FakeMachine()
    host.run(120, HANG)
    host.run(600, replace(HANG, state=AlertState.UNKNOWN, unknown_reason="diskstats failed"))
    assert host.run(900, replace(HANG, state=AlertState.RESOLVED)) == ["resolved"]


def test_a_value_that_changes_is_not_written_to_the_stalled_disk() -> None:
    """A summary counts seconds; state.db is for what a restart needs."""
    host = FakeMachine()
    host.run(120, STALL)
    host.run(1, replace(STALL, annotations=(("summary", "now 61 s"),)))
    assert host.state.changed == frozenset()


def test_a_host_incident_folded_into_an_open_disk_incident_keeps_both_threads_together() -> None:
    """The disk had hung an hour before; the stall began on its own."""
    host = FakeMachine()
    host.run(120, HANG)
    host.run(5 * MINUTE)
    host.run(120, STALL)
    assert len(host.state.by_key) == 2
    host.run(60, STALL, HANG)
    incident = host.only()
    assert incident.key == "disk sda"
    assert len(incident.references) == 2


def test_a_lost_state_makes_the_same_identifier_again() -> None:
    """Killed before anything was written: the repeat has the same Message-ID."""
    one, two = FakeMachine(), FakeMachine()
    one.run(5, WORSE)
    two.run(5, WORSE)
    assert one.only().identifier == two.only().identifier


def test_only_changes_are_to_be_written() -> None:
    """A firing incident does not write state.db each second."""
    host = FakeMachine()
    host.run(120, STALL)
    host.run(5, STALL)
    assert host.state.changed == frozenset()
    host.blind = True  # its rule was removed: for a day its quiet time restarts each second
    host.run(60)
    host.run(5)
    assert host.state.changed == frozenset()


def test_what_is_critical_at_once_opens_critical() -> None:
    """Evaluated late, warning and critical fire in the same step: the journal has the severity."""
    host = FakeMachine()
    host.run(10, STALL, WORSE)
    assert host.opened == [Severity.CRITICAL]


@settings(max_examples=examples(15))
@given(st.lists(st.tuples(st.integers(1, 900), st.booleans(), st.booleans()), max_size=25))
def test_every_thread_opens_first_and_ends_in_a_resolved_mail(
    phases: list[tuple[int, bool, bool]],
) -> None:
    """Whatever fires when: 'opened' is first, no number is missing, 'all clear' is last."""
    host = FakeMachine()
    for seconds, stalled, critical in phases:
        host.run(seconds, *([STALL] if stalled else []), *([WORSE] if critical else []))
    host.run(25 * HOUR, step=60)
    assert [mail[3] for mail in host.mails] == list(range(1, len(host.mails) + 1))
    if host.mails:
        assert host.mails[0][1] is Reason.OPENED
        assert host.mails[-1][1] is Reason.RESOLVED
        for before, after in zip(host.mails, host.mails[1:], strict=False):
            assert (before[1], after[1]) != (Reason.RESOLVED, Reason.RESOLVED)


def test_a_stall_of_the_host_explains_what_single_disks_seem_to_suffer_from() -> None:
    """While all writers are blocked, a starved disk is not new; it is once the host recovers."""
    host = FakeMachine()
    starved = alert("DiskQueueStarvation", device="sdb", condition="queue_starvation")
    host.run(300, STALL, starved)
    assert list(host.state.by_key) == ["host"]
    host.run(90, starved)
    assert list(host.state.by_key) == ["host", "disk sdb"]


def test_what_was_reported_before_the_host_stalled_is_not_over() -> None:
    """A disk starved first: its incident goes on through the stall of the host."""
    host = FakeMachine()
    starved = alert("DiskQueueStarvation", device="sdb", condition="queue_starvation")
    host.run(90, starved)
    host.run(1000, starved, STALL)
    assert [reason for _, reason, name, _ in host.mails if "sdb" in name] == [Reason.OPENED]


def test_a_hanging_disk_explains_that_its_attributes_cannot_be_read() -> None:
    """One mail about the disk, none about the collector that is stuck with it."""
    host = FakeMachine()
    silent = replace(alert("CollectorStale", condition="collector_stale"), subject="iowarden")
    host.run(300, HANG, silent)
    assert list(host.state.by_key) == ["disk sda"]


def test_what_was_so_at_first_sight_is_reported_by_the_initial_report() -> None:
    """A degraded array at installation: no mail of its own; its resolution replies to that one."""
    host = FakeMachine()
    host.awaits_report()
    degraded = alert("MdDegraded", "critical", device="md0", condition="raid_array")
    host.run(200, degraded)
    assert host.mails == []
    assert host.reports() == ["disk md0"]
    host.run(60, degraded)
    host.run(700)
    assert [reason for _, reason, *_ in host.mails] == [Reason.RESOLVED]
    assert host.state.by_key["disk md0"].references == ("report.1",)


def test_an_array_without_redundancy_does_not_wait_for_the_initial_report() -> None:
    """It may be so for years; the next disk takes all of its data. The report counts it no more."""
    host = FakeMachine()
    host.awaits_report()
    degraded = alert("MdDegraded", "critical", device="md0", condition="raid_array")
    exhausted = replace(degraded, annotations=(*degraded.annotations, (REDUNDANCY, "none")))
    assert host.run(30, exhausted) == ["opened"]
    assert host.reports() == []


def test_history_that_repeats_itself_before_the_initial_report_is_in_it() -> None:
    """Eight medium errors before the first start, three more after 20 s: nobody heard of them."""
    host = FakeMachine()
    host.awaits_report()
    errors = burst(8)
    host.run(20, of_first_sight(errors))
    host.run(40, burst(11))
    assert host.reports() == ["disk sda"]
    assert host.run(HOUR, burst(11)) == []


@pytest.mark.parametrize("after_seconds", [5.0, 300.0, 2 * HOUR])
def test_history_that_repeats_itself_after_the_initial_report_is_mailed(
    after_seconds: float,
) -> None:
    """What was logged yesterday was reported as that; now the disk fails, and once it is mailed."""
    host = FakeMachine()
    host.awaits_report()
    other = replace(burst(2), name="block_io_error", labels=(("alertname", "block_io_error"),))
    host.run(60, of_first_sight(burst(8)), of_first_sight(other))
    assert host.reports() == ["disk sda"]
    host.run(after_seconds, of_first_sight(burst(8)), of_first_sight(other))
    assert len(host.run(MINUTE, burst(9), of_first_sight(other))) == 1
    assert host.run(5 * MINUTE, burst(10), of_first_sight(other)) == []


def test_an_increase_of_what_was_reported_as_history_is_news() -> None:
    """Old errors of a disk by SMART in the initial report; an hour later there are more."""
    old = of_first_sight(alert("DiskErrorsInBaseline", device="sda", condition="smart_errors"))
    host = arrived(old)
    host.run(HOUR, old)
    more = alert("DiskErrorsIncreased", device="sda", condition="smart_errors", since=host.now)
    assert host.run(MINUTE, old, more) == ["escalated"]
    assert host.run(HOUR, old, more) == []


def test_what_gets_worse_before_the_initial_report_is_in_it_as_it_is_then() -> None:
    """A warning becomes critical after 30 s: not mailed before the report, nor again after it."""
    host = FakeMachine()
    host.awaits_report()
    host.run(30, of_first_sight(burst(3)))
    worse = burst(30, "critical")
    host.run(30, worse)
    assert host.mails == []
    assert host.reports() == ["disk sda"]
    mail = host.state.by_key["disk sda"].last_mail
    assert mail is not None
    assert mail.severity is Severity.CRITICAL
    assert host.run(HOUR, worse) == []


def test_what_ended_before_the_initial_report_is_in_it() -> None:
    """It was so at the start, and was repaired in the first minute."""
    host = FakeMachine()
    host.awaits_report()
    host.run(20, alert("MdDegraded", "critical", device="md0", condition="raid_array"))
    host.run(40)
    assert host.mails == []
    assert host.reports() == ["disk md0"]
    host.run(700)
    assert [reason for _, reason, *_ in host.mails] == [Reason.RESOLVED]


def test_who_switches_the_initial_report_off_meanwhile_gets_each_mail() -> None:
    """What waited for it waits no longer."""
    host = FakeMachine()
    host.awaits_report()
    degraded = alert("MdDegraded", "critical", device="md0", condition="raid_array")
    assert host.run(30, degraded) == []
    host.initial_report = None
    assert host.run(30, degraded) == ["opened"]


def burst(count: int, severity: str = "warning") -> Alert:
    """Medium errors of a disk in the kernel's log."""
    return replace(
        alert("block_medium_error", severity, device="sda", condition="io_error"),
        labels=(("alertname", "block_medium_error"), ("severity", severity)),
        count=count,
        last_seconds=0.0,
    )


def of_first_sight(each: Alert) -> Alert:
    """An alert on a problem that existed when iowarden was installed."""
    return replace(each, annotations=(*each.annotations, ("baseline", "true")))


def arrived(first: Alert) -> FakeMachine:
    """A host whose initial report, sent after a minute, contained an alert."""
    host = FakeMachine()
    host.awaits_report()
    host.run(MINUTE, first)
    assert len(host.reports()) == 1
    host.run(MINUTE, first)
    assert host.mails == []
    return host


def test_mails_that_follow_the_initial_report_are_counted() -> None:
    """Old errors of a disk, a hang, and both resolved: its mail had the number of the hang's.

    Two mails of one number have one Message-ID, of which a mail program may show only one.
    """
    old = of_first_sight(alert("Found", device="sda", condition="smart_errors"))
    host = arrived(old)
    hang = replace(HANG, active_seconds=host.now, fired_seconds=host.now)
    host.run(MINUTE, old, hang)
    host.run(HOUR, old)
    host.run(2 * HOUR)
    assert [(reason, number) for _, reason, _, number in host.mails] == [
        (Reason.ESCALATED, 2),
        (Reason.RESOLVED, 3),
    ]


def test_what_the_initial_report_reported_and_has_doubled_is_mailed() -> None:
    """40 unreadable sectors in the initial report, 4000 a day later: more than the baseline."""
    host = arrived(of_first_sight(growing(40)))
    assert host.run(MINUTE, of_first_sight(growing(4000))) == ["escalated"]


def test_what_is_learnt_of_first_sight_makes_no_mail_ahead_of_the_initial_report() -> None:
    """An old error whose file was found within a second was mailed as escalated from nothing."""
    host = FakeMachine()
    host.awaits_report()
    first = of_first_sight(alert("Found", "critical", device="sda", condition="smart_errors"))
    host.run(5, first)
    assert not host.state.by_key["disk sda"].accepts_details
    assert host.run(MINUTE - 5, first) == []
    host.reports()
    own = host.state.by_key["disk sda"]
    learnt = replace(own, details=(model.AFFECTED_FILES,))
    host.state = replace(host.state, by_key={"disk sda": learnt})
    assert host.run(HOUR, first) == []
    mail = host.state.by_key["disk sda"].last_mail
    assert mail is not None
    assert mail.seconds == MINUTE


def test_an_incident_that_the_initial_report_reported_is_not_written_each_second() -> None:
    """The time of its mail is constant, so there is nothing new to store."""
    old = of_first_sight(alert("Found", device="sda", condition="smart_errors"))
    host = arrived(old)
    host.run(10, old)
    assert host.state.changed == frozenset()


def test_a_disk_that_hangs_at_first_sight_is_reported_at_once() -> None:
    """The first minute is no excuse: what happens now is no baseline."""
    host = FakeMachine()
    host.awaits_report()
    host.run(5, alert("DeviceHang", "critical", device="sda", condition="device_hang"))
    assert [reason for _, reason, *_ in host.mails] == [Reason.OPENED]


def test_a_source_whose_silence_leaves_an_incident_unknown_is_reported_with_it() -> None:
    """One mail 'unreadable', none about the collector; another collector's silence is news."""
    host = FakeMachine()
    host.run(90, STALL)
    reason = "vmstat unparsed: expected lines"
    unknown = replace(STALL, state=AlertState.UNKNOWN, unknown_seconds=90.0, unknown_reason=reason)

    def silent(collector: str) -> Alert:
        own = alert("CollectorStale", condition="collector_stale")
        labels = tuple(sorted((*own.labels, ("collector", collector))))
        return replace(own, labels=labels, subject="iowarden")

    assert host.run(300, unknown, silent("vmstat")) == ["data unavailable"]
    assert host.run(300, unknown, silent("vmstat"), silent("stat")) == ["opened"]


def test_what_held_before_the_initial_report_and_fires_after_it_was_reported_by_it() -> None:
    """A rule that waits for an hour: its baseline alert is not a mail of its own."""
    host = FakeMachine()
    host.awaits_report()
    host.now = MINUTE
    early, unlisted, late = (
        replace(alert(name, since=since), subject=f"setting {name}")
        for name, since in (
            ("DirtyRatioTooLarge", 10.0),
            ("NoSwap", 10.0),
            ("ZoneReclaimEnabled", 3700.0),
        )
    )
    host.reports(early, late)
    host.now = 3600.0
    host.run(300, early)
    assert host.mails == []
    for each in (unlisted, late):  # the report has no line about one, the other began later
        assert host.run(300, early, each) == ["opened"]


def test_an_array_that_stops_while_it_waits_for_a_new_disk_is_reported() -> None:
    """Degraded for a week, critical and notified; then it fails, which must not be hidden."""
    host = FakeMachine()
    degraded = alert("MdDegraded", "critical", device="md0", condition="raid_array")
    assert host.run(3 * DAY, degraded, step=60.0) == ["opened"]
    stopped = alert("MdInactive", "critical", device="md0", condition="raid_array", since=host.now)
    assert host.run(5, degraded, stopped) == []
    assert host.run(5, degraded, stopped) == ["escalated"]
    assert host.run(2 * HOUR, degraded, stopped) == []


def test_a_file_system_that_fails_does_not_wait_for_what_was_mailed() -> None:
    """A disk hangs, goes offline and takes its file system along, all in two minutes."""
    host = FakeMachine()
    hang = alert("DeviceHang", "critical", device="sda", condition="device_hang")
    assert host.run(60, hang) == ["opened"]
    offline = alert(
        "DiskOffline", "critical", device="sda", condition="device_unavailable", since=60.0
    )
    assert host.run(60, hang, offline) == ["escalated"]
    failed = alert(
        "FilesystemReadOnly",
        "critical",
        device="sda",
        condition="filesystem_read_only",
        since=120.0,
    )
    assert host.run(HOUR, hang, offline, failed) == ["escalated"]
    assert [at for at, *_ in host.mails] == [0.0, 65.0, 125.0]


def test_a_warning_of_another_kind_is_reported_while_an_old_one_stays() -> None:
    """Old errors of a file system stay for a year; a disk limited by its read-ahead is new."""
    host = FakeMachine()
    old = alert("FilesystemErrorsInBaseline", device="sda", condition="filesystem_error")
    assert host.run(DAY, old, step=60.0) == ["opened"]
    slow = alert(
        "ReadAheadTooSmall", device="sda", condition="read_ahead_too_small", since=host.now
    )
    assert host.run(60, old, slow) == ["escalated"]
    assert host.run(HOUR, old) == []
    again = alert(
        "ReadAheadTooSmall", device="sda", condition="read_ahead_too_small", since=host.now
    )
    assert host.run(DAY, old, again, step=60.0) == ["escalated"]


def test_a_second_failure_is_reported_although_the_first_member_was_never_taken_out() -> None:
    """A spare took over and the failed member stays listed; months later the next one fails."""
    host = FakeMachine()
    faulty = alert("MdMemberFaulty", device="md0", condition="raid_array")
    degraded = alert("MdDegraded", "critical", device="md0", condition="raid_array")
    assert host.run(HOUR, faulty, degraded) == ["opened"]
    assert host.run(HOUR, faulty, step=60.0) == ["rebuilt"]
    # It was reported as complete: that it is degraded again is new, although notified today.
    assert host.run(60, faulty, replace(degraded, fired_seconds=host.now)) == ["escalated"]
    assert host.run(2 * DAY, faulty, step=60.0) == ["rebuilt"]


def test_an_array_that_is_whole_for_a_moment_again_and_again_comes_and_goes() -> None:
    """A cable with a bad contact: the third time within a day one mail reports it, then none.

    The failed member stays listed, so that the incident stays open. After a quiet day it is
    complete, and the next time is reported like the first.
    """
    host = FakeMachine()
    faulty = alert("MdMemberFaulty", device="md0", condition="raid_array")
    degraded = alert("MdDegraded", "critical", device="md0", condition="raid_array")
    mails = []
    for _ in range(6):
        mails += host.run(HOUR, faulty, replace(degraded, fired_seconds=host.now), step=60.0)
        mails += host.run(180, faulty, step=10.0)
    assert mails == ["opened", "rebuilt", "escalated", "rebuilt", "reopened"]
    (incident,) = host.state.by_key.values()
    assert incident.occurrences == 6
    assert host.run(2 * DAY, faulty, step=600.0) == ["rebuilt"]
    again = replace(degraded, fired_seconds=host.now)
    assert host.run(HOUR, faulty, again, step=60.0) == ["escalated"]
    (incident,) = host.state.by_key.values()
    assert incident.occurrences == 0


def test_a_full_disk_that_is_mounted_each_night_does_not_nag() -> None:
    """Mounted for its backup, unmounted in the morning: unreadable, which was reported."""
    host = FakeMachine()
    full = alert("FilesystemFull", "critical", device="sdb", condition="space_low")
    gone = replace(
        full, state=AlertState.UNKNOWN, unknown_reason="no longer listed", unknown_seconds=1.0
    )
    mails = []
    for _ in range(6):
        mails += host.run(2 * HOUR, full, step=60.0)
        mails += host.run(22 * HOUR, gone, step=60.0)
    assert mails == ["opened", "data unavailable"]


def disk_alert(number: int, condition: str = "device_hang", since: float = 0.0) -> Alert:
    """A disk of one adapter that hangs."""
    name = {"device_hang": "DeviceHang", "filesystem_error": "FilesystemErrorsInBaseline"}[
        condition
    ]
    hang = alert(name, "critical", device=f"sd{number}", condition=condition, since=since)
    return replace(hang, adapter="host3")


def test_three_disks_of_an_adapter_that_fail_within_a_minute_are_one_incident() -> None:
    """A cable of 24 disks: one mail about the adapter, and later failures join it."""
    host = FakeMachine()
    disks = [disk_alert(n) for n in range(24)]
    assert host.run(300, *disks) == ["opened"]
    assert host.mails[0][2] == "host3 (SCSI host adapter)"
    assert host.run(300, *disks, disk_alert(24, since=300.0)) == ["escalated"]
    assert host.run(HOUR) == ["resolved"]


def test_that_a_disk_is_gone_is_the_news_and_not_that_its_counters_cannot_be_read() -> None:
    """It hung, and was pulled: its counters are unreadable."""
    host = FakeMachine()
    hang = alert("DeviceHang", "critical", device="sda")
    host.run(20, hang)
    gone = alert("DeviceRemoved", "critical", device="sda", since=20.0)
    unseen = replace(hang, state=AlertState.UNKNOWN, unknown_reason="not listed")
    assert host.run(100, unseen, gone) == ["escalated"]


def test_what_is_critical_for_the_first_time_waits_5_s_for_what_comes_with_it() -> None:
    """The adapter's driver reported a lost device; 5 s later the disk is missing."""
    host = FakeMachine()
    lost = replace(alert("hba_device_removed", since=0.0, device="sda"), count=1)
    host.run(61, lost)
    gone = alert("DeviceRemoved", "critical", device="sda", since=host.now)
    assert host.run(5, lost, gone) == []
    assert host.run(5, lost, gone) == ["escalated"]


def test_disks_that_are_lost_one_after_another_share_mails() -> None:
    """24 disks of one adapter, one every 3 s: mails at 0, 30 and 90 s, in the thread of the first.

    The second one still opens its own: what they have in common shows with the third.
    """
    host = FakeMachine()
    disks: list[Alert] = []
    for number in range(24):
        gone = alert("DeviceRemoved", "critical", device=f"sd{number}", since=host.now)
        disks.append(replace(gone, adapter="host3"))
        host.run(3, *disks, step=3.0)
    host.run(MINUTE, *disks, step=3.0)
    assert [(at, about.split()[0]) for at, _, about, _ in host.mails] == [
        (0.0, "sd0"),
        (3.0, "sd1"),
        (33.0, "host3"),
        (93.0, "host3"),
    ]
    assert list(host.state.by_key) == ["adapter host3"]


def test_missing_data_does_not_make_the_mails_of_further_causes_more_frequent() -> None:
    """A shelf loses a disk every 10 s; then its state cannot be read: the next mail waits on."""
    host = FakeMachine()
    lost: list[Alert] = []
    sensor = alert("ControllerImpaired")
    sensor = replace(sensor, subject="adapter host3", object="host3", adapter="host3")
    for number in range(40):
        gone = alert("DeviceRemoved", "critical", device=f"sd{number}", since=host.now)
        lost.append(replace(gone, adapter="host3"))
        if number == 13:
            sensor = replace(sensor, state=AlertState.UNKNOWN, unknown_seconds=host.now)
        host.run(10, *lost, sensor, step=1)
    own = [(at, reason.value) for at, reason, about, _ in host.mails if "host3" in about]
    assert own == [
        (2.0, "opened"),
        (32.0, "escalated"),
        (92.0, "escalated"),
        (212.0, "escalated"),
    ]


def test_a_disk_that_hung_alone_before_the_others_is_their_cause() -> None:
    """One bad disk makes the driver reset the adapter: that disk is named, and it is one thread."""
    host = FakeMachine()
    first = disk_alert(0, since=0.0)
    host.run(20, first)
    reset = replace(
        alert("hba_reset", condition="command_timeout", since=15.0),
        subject="adapter host3",
        count=1,
    )
    others = [disk_alert(n, since=20.0) for n in range(1, 8)]
    host.run(120, first, *others, reset)
    assert [mail[2] for mail in host.mails] == ["sd0 (serial sd0)"]
    assert host.only().key == "disk sd0"


def test_two_disks_are_an_adapter_only_if_it_has_no_more() -> None:
    """Both of two: their adapter. Two of eight at the same moment: two disks."""
    for count, keys in ((2, ["adapter host3"]), (8, ["disk sd0", "disk sd1"])):
        host = FakeMachine()
        host.graph = StorageGraph(
            parents={"adapter host3": frozenset(f"disk sd{n}" for n in range(count))}
        )
        host.run(60, disk_alert(0), disk_alert(1, since=2.0))
        assert list(host.state.by_key) == keys


def test_disks_that_fail_on_different_days_or_of_something_else_are_their_own_incidents() -> None:
    """Three broken disks in a month, and old errors on each of three file systems."""
    month = [disk_alert(n, since=-n * 10 * DAY) for n in range(3)]
    for alerts in (month, [disk_alert(n, "filesystem_error") for n in range(3)]):
        host = FakeMachine()
        host.run(60, *alerts)
        assert len(host.state.by_key) == 3


def test_warnings_of_an_adapters_disks_wait_for_each_other() -> None:
    """The first two were not mailed yet: they are reported with the third."""
    host = FakeMachine()
    slow = [
        replace(alert("ScsiTimeouts", device=f"sd{n}", since=n * 5.0), adapter="host3")
        for n in range(3)
    ]
    assert host.run(5, slow[0]) == []
    assert host.run(5, *slow[:2]) == []
    assert host.run(120, *slow) == ["opened"]
    assert list(host.state.by_key) == ["adapter host3"]


def test_what_is_silenced_is_tracked_and_brings_no_mail() -> None:
    """A disk that is on order hangs for nine days: an incident, no mail, not even a reminder."""
    host = FakeMachine()
    host.silence("device=sda", seconds=30 * DAY)
    critical = alert("DeviceHang", "critical", device="sda", condition="device_hang")
    assert host.run(9 * DAY, HANG, critical, step=600) == []
    assert host.only().firing
    assert host.changes == ["opened"]


def test_what_still_holds_when_its_silence_ends_is_reported_once() -> None:
    """The silence ran out before the stall did."""
    host = FakeMachine()
    host.silence("WriteStall", seconds=HOUR)
    assert host.run(HOUR, STALL) == []
    assert host.run(DAY, STALL) == ["opened"]
    assert host.mails[0][0] == HOUR


def test_a_silence_that_is_expired_by_hand_ends_at_once() -> None:
    """The maintenance was over early."""
    host = FakeMachine()
    silence = host.silence("WriteStall")
    host.run(HOUR, STALL)
    host.expire(silence)
    assert host.run(5, STALL) == ["opened"]


def test_what_began_and_ended_silenced_is_never_reported() -> None:
    """A planned stall ends before its silence: neither opened nor resolved."""
    host = FakeMachine()
    host.silence("WriteStall", seconds=HOUR)
    host.run(20 * MINUTE, STALL)
    assert host.run(3 * DAY, step=60) == []
    assert host.only().closed_seconds is not None


def test_what_began_silenced_and_comes_again_in_the_open_is_reported() -> None:
    """The maintenance caused one stall, the next day brings another."""
    host = FakeMachine()
    host.silence("WriteStall", seconds=HOUR)
    host.run(20 * MINUTE, STALL)
    host.run(2 * HOUR)
    assert host.run(120, STALL) == ["opened"]


def test_a_short_warning_before_the_silence_is_reported() -> None:
    """It ended within its minute, and the silence was added after it."""
    host = FakeMachine()
    host.run(20, STALL)
    host.silence("WriteStall")
    assert host.run(60) == ["opened"]


def test_what_was_reported_before_its_silence_gets_its_resolved_mail() -> None:
    """A resolution is not delayed."""
    host = FakeMachine()
    host.run(120, STALL)
    host.silence("WriteStall")
    assert host.run(HOUR, STALL, WORSE) == []
    assert host.run(HOUR) == ["resolved"]


def test_what_comes_again_silenced_after_its_resolved_mail_has_no_second_one() -> None:
    """Opened, clear; then it comes and goes in the silence, and later in the open."""
    host = FakeMachine()
    host.run(120, STALL)
    host.run(HOUR)
    host.silence("WriteStall", seconds=HOUR)
    assert host.run(10 * MINUTE, WORSE) == []
    assert host.run(2 * HOUR) == []
    assert host.run(2 * MINUTE, STALL) == ["reopened"]
    assert host.only().severity is Severity.WARNING


def test_a_silence_over_what_was_reported_ends_without_a_word() -> None:
    """The same warning, notified before: it is not new after the silence."""
    host = FakeMachine()
    host.run(120, STALL)
    host.silence("WriteStall", seconds=HOUR)
    assert host.run(2 * HOUR, STALL) == []


def test_what_got_worse_in_the_silence_is_reported_as_worse_after_it() -> None:
    """A warning was mailed; it became critical during the silence."""
    host = FakeMachine()
    host.run(120, STALL)
    host.silence("WriteStall", seconds=HOUR)
    assert host.run(HOUR, STALL, WORSE) == []
    assert host.run(HOUR, STALL, WORSE) == ["escalated"]


def test_what_was_silenced_beside_what_was_mailed_is_reported_when_its_silence_ends() -> None:
    """The mail about the one listed the other as silenced, which is no notification of it."""
    host = FakeMachine()
    host.silence("DiskErrorsIncreased", seconds=2 * HOUR)
    errors = alert("DiskErrorsIncreased", "warning", device="sda", condition="smart_errors")
    assert host.run(2 * HOUR, HANG, errors) == ["opened"]
    assert host.run(HOUR, HANG, errors) == ["escalated"]
    assert host.run(DAY, HANG, errors, step=600) == []


def test_an_alert_that_is_not_silenced_is_reported_with_its_own_severity() -> None:
    """A silenced critical alert on the same disk does not make the warning a critical mail."""
    host = FakeMachine()
    host.silence("DiskOffline")
    offline = alert("DiskOffline", "critical", device="sda", condition="device_unavailable")
    host.run(10 * MINUTE, offline)
    assert host.run(120, offline, HANG) == ["opened"]
    assert host.only().severity is Severity.WARNING
    assert {m.name for m in host.only().members if m.silenced} == {"DiskOffline"}


def test_an_incident_is_opened_by_what_is_reported_of_it() -> None:
    """The silenced alert is first in the list; the critical one does not wait a minute."""
    host = FakeMachine()
    host.silence("DeviceHang")
    critical = alert(
        "FilesystemReadOnly", "critical", device="sda", condition="filesystem_read_only"
    )
    assert host.run(5, HANG, critical) == ["opened"]
    assert host.opened == [Severity.CRITICAL]


def test_a_further_alert_that_is_silenced_is_no_news() -> None:
    """Another fault of the disk, an hour later, silenced in advance."""
    host = FakeMachine()
    old = alert("FilesystemErrorsInBaseline", device="sda", condition="filesystem_error")
    host.run(2 * HOUR, old)
    host.silence("ReadAheadTooSmall", seconds=HOUR)
    slow = alert(
        "ReadAheadTooSmall", device="sda", condition="read_ahead_too_small", since=host.now
    )
    assert host.run(HOUR, old, slow) == []
    assert host.run(HOUR, old, slow) == ["escalated"]


def test_a_silenced_alert_that_cannot_be_read_any_more_is_no_mail() -> None:
    """The disk is pulled, as announced, while another warning of it stays."""
    host = FakeMachine()
    other = alert("ReadAheadTooSmall", device="sda", condition="read_ahead_too_small")
    host.run(120, HANG, other)
    host.silence("DeviceHang")
    silent = replace(HANG, state=AlertState.UNKNOWN, unknown_reason="no longer listed")
    assert host.run(HOUR, silent, other) == []


def test_a_silenced_disk_does_not_unleash_the_stalls_that_it_causes() -> None:
    """It hangs, as is known; that the host's writers wait for it is the same matter."""
    host = FakeMachine()
    host.silence("DeviceHang", "device=sda", seconds=2 * HOUR)
    reads = replace(alert("CollectorStale", condition="collector_stale"), subject="iowarden")
    starved = alert("DiskQueueStarvation", device="sdb", condition="queue_starvation")
    assert host.run(HOUR, HANG, STALL, WORSE, reads, starved) == []
    assert list(host.state.by_key) == ["disk sda"]
    other = alert("DeviceHang", device="sdc", condition="device_hang", since=host.now)
    assert host.run(HOUR, HANG, STALL, WORSE, other)[0] == "opened"


def test_programs_that_a_silenced_disk_harms_are_reported() -> None:
    """That it hangs is known; that the database waits for it is not."""
    host = FakeMachine()
    host.silence("DeviceHang", "device=sda", seconds=2 * HOUR)
    assert host.run(MINUTE, HANG, STALL) == []
    freeze = alert("Freeze", "critical", condition="freeze", since=host.now)
    assert host.run(HOUR, HANG, STALL, freeze) == ["opened"]
    assert host.mails[0][:3] == (MINUTE, Reason.OPENED, "sda (serial sda)")


def test_stalls_are_reported_once_the_silenced_disk_hangs_no_more() -> None:
    """Then it is something else that holds the writers."""
    host = FakeMachine()
    host.silence("DeviceHang")
    host.run(HOUR, HANG, STALL)
    assert host.run(HOUR, STALL) == ["opened"]


def test_a_stall_is_reported_with_the_hanging_disk_that_is_not_silenced() -> None:
    """Two disks hang; the one that hung first is known."""
    host = FakeMachine()
    host.silence("device=sda")
    other = alert("DeviceHang", device="sdb", condition="device_hang", since=30.0)
    assert host.run(120, HANG, other, STALL) == ["opened"]
    assert host.mails[0][2] == "sdb (serial sdb)"
    assert len(host.state.by_key["disk sdb"].members) == 2
    assert host.run(HOUR, HANG, other, WORSE) == []


def test_an_acknowledged_incident_reports_nothing_until_its_resolved_mail() -> None:
    """No reminder, no further warning, no unreadable data; then the resolution."""
    host = FakeMachine()
    host.run(120, HANG)
    host.acknowledge("disk sda")
    slow = alert(
        "ReadAheadTooSmall", device="sda", condition="read_ahead_too_small", since=host.now
    )
    assert host.run(8 * DAY, HANG, slow, step=600) == []
    silent = replace(HANG, state=AlertState.UNKNOWN, unknown_reason="diskstats failed")
    assert host.run(HOUR, silent, slow) == []
    assert host.run(5 * MINUTE) == []
    assert host.run(5, HANG) == []
    assert host.said.acknowledgements
    assert host.run(HOUR) == ["resolved"]
    assert host.said.acknowledgements == ()
    host.run(HOUR)
    assert host.run(120, HANG) == ["reopened"]


def test_an_acknowledged_recurrence_is_over_after_an_hour_of_quiet() -> None:
    """The stall that returned within an hour had no mail and is acknowledged: nothing remains."""
    host = FakeMachine()
    host.run(120, STALL)
    host.run(11 * MINUTE)
    host.run(5, STALL)
    host.acknowledge()
    assert host.run(5, STALL) == []
    assert host.run(HOUR) == []
    assert host.run(MINUTE) == []
    assert host.said.acknowledgements == ()


def test_a_third_time_soon_after_an_acknowledged_one_is_no_news() -> None:
    """It was mailed as over; each return is as long and as severe as what was acknowledged."""
    host = FakeMachine()
    assert host.run(10 * MINUTE, STALL) == ["opened"]
    assert host.run(12 * MINUTE) == ["resolved"]
    assert host.run(5 * MINUTE, STALL) == []
    host.acknowledge()
    assert host.run(MINUTE, STALL) == []
    for _ in range(3):
        assert host.run(15 * MINUTE) == []
        assert host.run(6 * MINUTE, STALL) == []
    assert host.run(2 * MINUTE, WORSE) == ["escalated"]


def test_a_line_that_grew_old_before_its_mail_was_due_is_mailed_nevertheless() -> None:
    """A restart reads it ten minutes late: that it is no longer recent repairs nothing."""
    hung = alert("DeviceHang", "critical", device="sda", condition="device_hang")
    line = alert("block_medium_error", "critical", device="sda", condition="io_error")
    line = replace(line, count=1, last_seconds=3.0)
    host = FakeMachine()
    assert host.run(5, hung) == ["opened"]
    assert host.run(10, hung, line) == []
    assert host.run(HOUR, hung) == ["escalated"]
    assert [at for at, *_ in host.mails] == [0.0, 30.0]


def test_what_is_acknowledged_before_its_first_mail_has_none() -> None:
    """Seen on the screen within its minute; it ends, and is not reported afterwards."""
    host = FakeMachine()
    host.run(30, STALL)
    host.acknowledge()
    assert host.run(HOUR, STALL) == []
    assert host.run(HOUR) == []
    assert host.said.acknowledgements == ()
    assert host.run(120, STALL) == ["opened"]


def test_an_acknowledgement_ends_when_it_gets_worse() -> None:
    """A warning was acknowledged; that it is critical was not. The journal has both."""
    host = FakeMachine()
    host.run(120, STALL)
    host.acknowledge()
    host.run(HOUR, STALL)
    assert host.run(5, STALL, WORSE) == ["escalated"]
    assert host.changes[-2:] == ["escalated", "acknowledgement expired"]
    assert host.said.acknowledgements == ()


def test_a_silenced_alert_does_not_end_an_acknowledgement() -> None:
    """It does when its silence has ended."""
    host = FakeMachine()
    host.run(120, STALL)
    host.acknowledge()
    host.silence("severity=critical", seconds=HOUR)
    assert host.run(HOUR, STALL, WORSE) == []
    assert host.run(HOUR, STALL, WORSE) == ["escalated"]


def test_what_was_shown_silenced_when_it_was_acknowledged_is_known() -> None:
    """Its severity was on the screen."""
    host = FakeMachine()
    host.run(120, STALL)
    host.silence("severity=critical", seconds=HOUR)
    host.run(60, STALL, WORSE)
    host.acknowledge()
    assert host.run(2 * HOUR, STALL, WORSE) == []
    assert host.run(2 * HOUR) == ["resolved"]


def test_what_was_acknowledged_and_is_lost_is_not_reported_as_worse() -> None:
    """The disk was pulled permanently; its critical state was on the screen."""
    host = FakeMachine()
    critical = alert("DeviceHang", "critical", device="sda", condition="device_hang")
    host.run(120, HANG)
    host.silence("severity=critical", seconds=HOUR)
    host.run(60, HANG, critical)
    host.acknowledge("disk sda")
    host.run(2 * HOUR, HANG, critical)
    both = [
        replace(a, state=AlertState.UNKNOWN, unknown_reason="not listed") for a in (HANG, critical)
    ]
    assert host.run(DAY, *both, step=60) == []
    assert host.run(2 * HOUR) == []
    assert host.said.acknowledgements == ()


def test_a_further_disk_ends_an_acknowledgement() -> None:
    """The cable of 24 disks was known; the first disk of the next cable is not."""
    host = FakeMachine()
    disks = [disk_alert(n) for n in range(4)]
    host.run(100, *disks)
    host.acknowledge("adapter host3")
    assert host.run(60, *disks[:2]) == []
    assert host.run(60, *disks) == []
    assert host.run(5, *disks, disk_alert(4, since=host.now)) == ["escalated"]
    assert host.said.acknowledgements == ()


def test_a_known_stall_that_turns_out_to_be_a_hanging_disk_is_news() -> None:
    """The host's incident becomes the disk's, and its acknowledgement ends."""
    host = FakeMachine()
    host.run(120, STALL)
    host.acknowledge()
    assert host.run(5, STALL, HANG) == ["escalated"]
    assert host.said.acknowledgements == ()


def test_an_acknowledgement_ends_with_an_incident_that_goes_on_in_another() -> None:
    """The disk had an incident of its own: the host's identifier is no more."""
    host = FakeMachine()
    host.run(120, HANG)
    host.run(5 * MINUTE)
    host.run(120, STALL)
    host.acknowledge()
    assert host.run(60, STALL, HANG) == ["reopened"]
    assert "acknowledgement expired" in host.changes
    assert host.said.acknowledgements == ()


def test_stalls_of_the_host_do_not_end_the_acknowledgement_of_the_disk_that_causes_them() -> None:
    """That the disk hangs is known, and so is what follows."""
    host = FakeMachine()
    host.run(120, HANG)
    host.acknowledge("disk sda")
    assert host.run(HOUR, HANG, STALL) == []
    assert host.said.acknowledgements


SAID = st.sampled_from(["", "", "", "stall", "critical", "all", "expire", "acknowledge"])


@settings(max_examples=examples(20))
@given(
    st.lists(
        st.tuples(
            st.integers(1, 900),
            st.sets(
                st.sampled_from([STALL, WORSE, HANG, alert("SwapIn", condition="reclaim_stall")])
            ),
            SAID,
        ),
        max_size=25,
    )
)
def test_whatever_is_silenced_and_acknowledged_what_was_reported_ends_in_one_resolved_mail(
    phases: list[tuple[int, set[Alert], str]],
) -> None:
    """No thread stays open, none is opened by a silenced alert (see `_check`)."""
    host = FakeMachine()
    wanted = {
        "stall": "WriteStall",
        "critical": "severity=critical",
        "all": "alertname=~.+",
    }
    for seconds, alerts, said in phases:
        if said in wanted:
            host.silence(wanted[said], seconds=seconds * 2.5)
        for silence in host.said.active(host.now) if said == "expire" else ():
            host.expire(silence.identifier)
        if said == "acknowledge":
            for incident in host.state.by_key.values():
                if incident.firing:
                    host.acknowledge(incident.key)
        host.run(seconds, *sorted(alerts, key=lambda a: a.labels))
    host.run(25 * HOUR, step=60)
    assert host.said.active(host.now) == ()
    assert host.said.acknowledgements == ()
    for incident in host.state.by_key.values():
        assert incident.mails == 0 or incident.is_end_reported
    reasons: dict[str, list[Reason]] = {}
    for identifier, reason in host.threads:
        reasons.setdefault(identifier, []).append(reason)
    for sent in reasons.values():
        assert sent[0] is Reason.OPENED
        assert all(pair != (Reason.RESOLVED, Reason.RESOLVED) for pair in pairwise(sent))


def growing(value: float, *, since: float = 0.0) -> Alert:
    """Sectors of a disk that cannot be read: twice as many are news."""
    pending = alert("Pending", device="sda", condition="smart_errors", since=since)
    annotations = (*pending.annotations, ("escalate_when_doubled", "true"))
    return replace(pending, value=value, annotations=annotations)


def test_twice_as_much_is_news_and_as_much_again_is_not() -> None:
    """1 -> 5000 sectors is reported at once; a constant value is not repeated."""
    machine = FakeMachine()
    assert machine.run(2 * HOUR, growing(1)) == ["opened"]
    assert machine.run(HOUR, growing(5000)) == ["escalated"]
    assert machine.run(HOUR, growing(5000)) == []
    assert machine.run(HOUR, growing(9999)) == []
    assert machine.run(HOUR, growing(10_000)) == ["escalated"]
    assert machine.run(HOUR, growing(100), step=60.0) == []
    assert machine.run(HOUR, growing(10_000)) == []


def test_an_acknowledgement_ends_when_it_doubles() -> None:
    """Known with 40 bad sectors; 79 are known as well, 80 are not."""
    machine = FakeMachine()
    machine.run(HOUR, growing(40))
    machine.acknowledge("disk sda")
    assert machine.run(DAY, growing(79), step=60.0) == []
    assert machine.run(HOUR, growing(80)) == ["escalated"]
    assert machine.said.acknowledgements == ()


def test_what_was_acknowledged_before_any_mail_counts_from_then() -> None:
    """It was acknowledged in the status first: no mail, until it is twice that value."""
    machine = FakeMachine()
    machine.run(10, growing(4))
    machine.acknowledge("disk sda")
    assert machine.run(HOUR, growing(4)) == []
    assert machine.run(DAY, growing(7), step=60.0) == []
    assert machine.run(HOUR, growing(8)) == ["opened"]


def test_a_number_that_may_double_is_no_news_without_the_annotation() -> None:
    """Percent full, or the seconds of a stall: they double all the time."""
    machine = FakeMachine()
    machine.run(HOUR, STALL)
    assert machine.run(HOUR, replace(STALL, value=1000.0)) == []


def test_what_nobody_can_read_does_not_double() -> None:
    """Unknown, and then the same count: not escalated."""
    machine = FakeMachine()
    machine.run(HOUR, growing(5))
    machine.run(HOUR, replace(growing(5), state=AlertState.UNKNOWN, unknown_reason="gone"))
    assert "escalated" not in machine.run(HOUR, growing(5))


def test_what_was_known_survives_a_restart_and_what_was_not_is_no_news() -> None:
    """The reported value is stored; where there was none, the present one is no double."""
    machine = FakeMachine()
    machine.run(HOUR, growing(5))
    texts = documents(PersistedState(incidents=dict(machine.state.by_key)))
    kept = read(texts, machine.now)[0].incidents
    machine.state = replace(machine.state, by_key=kept)
    assert machine.run(HOUR, growing(10)) == ["escalated"]
    own = kept["disk sda"]
    (record,) = own.faults
    assert record.reported is not None
    before = replace(record, reported=replace(record.reported, value=0.0))
    machine.state = replace(machine.state, by_key={"disk sda": replace(own, faults=(before,))})
    assert machine.run(HOUR, growing(10)) == []


def test_old_errors_of_a_disk_are_reported_by_the_initial_report() -> None:
    """Old errors of a disk at baseline: no mail of their own."""
    found = of_first_sight(alert("Found", device="sda", condition="smart_errors"))
    machine = FakeMachine()
    machine.awaits_report()
    assert machine.run(4 * MINUTE, found) == []
    machine.reports()
    assert machine.run(DAY, found, step=60.0) == []
    hang = replace(HANG, active_seconds=machine.now, fired_seconds=machine.now)
    assert machine.run(HOUR, found, hang) == ["escalated"]


def test_a_count_that_changes_a_little_is_not_written_to_the_disk() -> None:
    """What is known is durable; what is measured now is not, nor worth a write."""
    machine = FakeMachine()
    machine.run(HOUR, growing(40))
    machine.run(10, growing(41))
    assert machine.state.changed == frozenset()
    machine.run(5, growing(80))
    assert machine.state.changed == {"disk sda"}


def test_a_users_critical_alert_beside_a_stall_is_mailed_whatever_its_label_reports() -> None:
    """The label is compared nowhere for a user's rule, also if its text is one of ours."""
    for condition in ("Database-down", "reclaim_stall", "device_hang", "write_stall"):
        host = FakeMachine()
        own = alert("DatabaseDown", "critical", device="pg", condition=condition)
        assert host.run(120, STALL, own) == ["opened", "opened"]
        assert set(host.state.by_key) == {"host", "disk pg"}


def test_a_line_and_the_counter_of_one_fact_are_one_member() -> None:
    """The kernel's log names the hung task, the counter shows that there is one: in any order."""
    counter = alert("HungTask", "critical", condition="hung_task")
    line = replace(alert("hung_task", "critical", condition="hung_task"), count=1, last_seconds=0.0)
    for first, second in ((counter, line), (line, counter)):
        host = FakeMachine()
        assert host.run(5, first) == ["opened"]
        assert host.run(HOUR, first, second) == []
        assert [m.name for m in host.only().members] == [first.name]


def test_a_symptom_of_what_was_mailed_is_no_mail() -> None:
    """The disk hangs; then writers stall, tasks hang, commands time out: all in its incident."""
    host = FakeMachine()
    assert host.run(60, HANG) == ["opened"]
    hung = alert("HungTask", "critical", condition="hung_task", since=130.0)
    timeouts = alert("ScsiTimeouts", device="sda", condition="command_timeout", since=60.0)
    stall = alert("WriteStall", "critical", since=30.0)
    assert host.run(HOUR, HANG, stall, hung, timeouts) == []
    assert {m.name for m in host.only().members} == {
        "DeviceHang", "WriteStall", "HungTask", "ScsiTimeouts",
    }  # fmt: skip


def test_a_second_member_that_is_lost_is_reported_at_once_in_the_thread_of_the_first() -> None:
    """raid5: 5 s after the array stopped, not 600 s, although a mail was sent 12 s ago."""
    host = FakeMachine()
    host.graph = StorageGraph(
        {f"disk {name}": frozenset({"device md0"}) for name in ("sda", "sdb")}
    )
    first = alert("DeviceRemoved", "critical", device="sda")
    degraded = replace(alert("MdDegraded", "critical", since=2.0), subject="device md0")
    assert host.run(5, first, step=1) == ["opened"]
    assert host.run(2, first, degraded, step=1) == []
    stopped = replace(alert("MdInactive", "critical", since=7.0), subject="device md0")
    assert host.run(6, first, degraded, stopped, step=1) == ["escalated"]
    assert host.mails[-1][0] == 12.0
    assert host.only().key == "disk sda"


@pytest.mark.parametrize(
    "lost",
    [
        alert("DeviceRemoved", "critical", device="sda", since=100.0),
        replace(alert("scsi_offlined", "critical", device="sda", since=100.0), count=1),
    ],
)
def test_what_comes_of_a_lost_disk_is_reported_with_it_if_it_comes_within_5_s(lost: Alert) -> None:
    """It hung, and at 100 s it fails: its array's alert at 104 s is not a mail of its own."""
    hang = alert("DeviceHang", "critical", device="sda")
    degraded = replace(alert("MdDegraded", since=104.0), subject="device md0")
    for comes, at in ((lost,), 105.0), ((lost, degraded), 105.0):
        host = FakeMachine()
        host.graph = StorageGraph({"disk sda": frozenset({"device md0"})})
        host.run(100, hang, step=1)
        host.run(4, hang, lost, step=1)
        host.run(120, hang, *comes, step=1)
        assert [(when, reason.value) for when, reason, *_ in host.mails] == [
            (0.0, "opened"),
            (at, "escalated"),
        ]


def test_what_is_urgent_has_its_resolved_mail_a_minute_after_its_true_end() -> None:
    """The disk responds again at 100 s; its alert stays for 60 s more, and delays nothing."""
    host = FakeMachine()
    host.run(100, HANG, step=1)
    kept = replace(HANG, absent_seconds=100.0)
    assert host.run(60, kept, step=1) == []
    window = alert("ScsiTimeouts", device="sda", condition="command_timeout", since=40.0)
    assert host.run(15, window, step=1) == ["resolved"]
    assert host.only().active_seconds == 100.0


@pytest.mark.parametrize(("seconds", "within"), [(55, 605), (65, 65)])
def test_a_stall_longer_than_a_minute_blocked_programs_whatever_its_forecast(
    seconds: float, within: float
) -> None:
    """A shorter one without a bad forecast is no emergency, and neither is its end."""
    host = FakeMachine()
    host.run(seconds, replace(STALL, annotations=(*STALL.annotations, ("urgent", "false"))))
    over = host.now
    host.run(HOUR)
    assert [reason.value for _, reason, *_ in host.mails] == ["opened", "resolved"]
    assert within - 10 <= host.mails[-1][0] - over <= within


def test_what_was_urgent_stays_urgent_to_its_end() -> None:
    """The queue drains before the stall ends: its last forecast is 20 s."""
    host = FakeMachine()
    mild = (*STALL.annotations, ("urgent", "false"))
    bad = (*STALL.annotations, ("urgent", "true"))
    assert host.run(1, replace(STALL, annotations=bad), step=1) == ["opened"]
    host.run(30, replace(STALL, annotations=mild), step=1)
    assert host.run(70, step=1) == ["resolved"]


def test_an_event_whose_end_was_logged_is_over_then() -> None:
    """An NFS server responds again after half an hour; the event goes on for its ten minutes."""
    host = FakeMachine()
    line = alert("nfs_not_responding", "critical", device="nas1", condition="filesystem_error")
    line = replace(line, count=1, last_seconds=0.0)
    assert host.run(1800, line) == ["opened"]
    over = replace(line, absent_seconds=1800.0)
    assert host.run(60, over) == []
    assert not host.only().firing
    assert host.run(15, over) == ["resolved"]
    assert host.only().active_seconds == 1800.0
    assert host.run(540, over) == []
    assert host.run(HOUR) == []


def test_what_comes_back_has_its_resolved_mail_later_each_time() -> None:
    """A minute; from the third time within a day, of which a mail says that it flaps, a day."""
    host = FakeMachine()
    seen = []
    for number in range(4):
        host.run(20, replace(HANG, active_seconds=host.now, fired_seconds=host.now), step=5)
        start, over = len(host.mails), host.now
        host.run(25 * HOUR if number == 3 else 1.1 * HOUR, step=20)
        seen.append([(reason.value, at - over) for at, reason, *_ in host.mails[start:]])
    assert [[reason for reason, _ in each] for each in seen] == [
        ["resolved"], ["resolved"], [], ["resolved"],
    ]  # fmt: skip
    for each, least in zip((seen[0], seen[1], seen[3]), (60, 60, DAY), strict=True):
        assert least - 5 <= each[0][1] <= least + 20
    assert [reason.value for _, reason, *_ in host.mails if reason is Reason.REOPENED] == [
        "reopened"
    ] * 2
    assert host.only().occurrences == 4


def test_a_restart_in_the_middle_of_a_hang_reports_nothing_of_the_past() -> None:
    """All mailed alerts are stored with object and kind: no mail is sent twice."""
    host = FakeMachine()
    hung = alert("HungTask", "critical", condition="hung_task", since=130.0)
    failed = alert("FilesystemReadOnly", "critical", device="sda", since=140.0)
    host.run(200, HANG, hung, failed)
    before, _ = read(documents(PersistedState(incidents=dict(host.state.by_key))), host.now)
    host.state = replace(host.state, by_key=before.incidents)
    assert host.run(HOUR, HANG, hung, failed) == []


def test_what_is_over_is_not_worse() -> None:
    """Errors of a disk began and ended within the 30 s that mails share: none is 'escalated'."""
    host = FakeMachine()
    host.run(10, HANG)
    errors = alert("DiskErrorsIncreased", device="sda", condition="smart_errors", since=10.0)
    host.run(10, HANG, errors)
    assert host.run(HOUR, HANG, replace(errors, absent_seconds=20.0)) == []


def test_symptoms_do_not_end_an_acknowledgement() -> None:
    """The hang is known; that tasks hang for it is critical, and follows from it."""
    host = FakeMachine()
    host.run(60, HANG)
    host.acknowledge("disk sda")
    hung = alert("HungTask", "critical", condition="hung_task", since=130.0)
    assert host.run(HOUR, HANG, hung) == []
    assert host.said.acknowledgements


def test_what_becomes_known_later_follows_once_and_only_where_it_is_critical() -> None:
    """Which file was hit, is found after the mail: a warning is not worth a second one."""
    host = FakeMachine()
    host.run(70, STALL)
    assert not host.only().accepts_details
    host = FakeMachine()
    host.run(5, WORSE)
    assert host.only().accepts_details

    def learn() -> None:
        informed = replace(host.only(), details=(model.AFFECTED_FILES,))
        host.state = replace(host.state, by_key={"host": informed})

    learn()
    assert host.run(30, WORSE) == ["escalated"]
    assert not host.only().accepts_details
    host.run(15 * MINUTE)
    host.run(30, WORSE)  # it returned: another time, with other files
    assert host.only().accepts_details


def test_a_line_of_the_log_hours_after_the_hang_that_it_began_with_is_news() -> None:
    """The firmware of an adapter dies twice a day; the second time no disk has requests to hang.

    The first line outlasts its hang by its window, and the incident is not closed for a day.
    """
    machine = FakeMachine()
    line = replace(alert("hba_dead", "critical", device="sda"), count=1, last_seconds=0.0)
    assert machine.run(30, line, HANG) == ["opened"]
    assert machine.run(600, line) == ["resolved"]
    assert machine.run(5 * HOUR, step=60.0) == []
    again = replace(line, active_seconds=machine.now, fired_seconds=machine.now)
    assert machine.run(60, replace(again, last_seconds=machine.now)) == ["reopened"]
    (member,) = [m for m in machine.state.by_key["disk sda"].members if m.count]
    assert member.since_seconds > 5 * HOUR


@pytest.mark.parametrize(
    ("last", "mails"),
    [(0.0, ["resolved"]), (30.0, ["over, not repaired"])],
    ids=["reset", "given up"],
)
def test_an_adapter_whose_firmware_stopped_works_again_when_its_disks_do(
    last: float, mails: list[str]
) -> None:
    """Not if the driver gave it up: its disks hang no longer, because each request is refused."""
    host = FakeMachine()
    line = alert("hba_dead", "critical", device="sda")
    line = replace(line, subject="adapter host3", object="host3", count=1, last_seconds=0.0)
    hang = replace(HANG, adapter="host3")
    assert host.run(30, line, hang) == ["opened"]
    line = replace(line, last_seconds=last)
    assert host.run(75, line) == [each for each in mails if each == "resolved"]
    assert host.run(525, line) + host.run(HOUR) == [each for each in mails if each != "resolved"]


def freeze(severity: str = "warning") -> Alert:
    """Programs that did not cause the load wait for sda."""
    return replace(alert("Freeze", severity, device="sda", condition="freeze"), value=1.0)


def test_that_programs_are_blocked_is_mailed_5_s_later_although_their_disk_hangs() -> None:
    """Who waits was not in the first mail; that tasks hang for minutes is no further news."""
    host = FakeMachine()
    assert host.run(3, HANG, step=1) == ["opened"]
    assert host.run(5, HANG, freeze(), step=1) == []
    assert host.run(3, HANG, freeze(), step=1) == ["escalated"]
    assert host.run(HOUR, HANG, freeze(), STALL) == []


def test_what_got_worse_and_is_over_before_its_mail_is_no_mail() -> None:
    """A freeze was critical for 3 s of an open series: minutes later that is no news."""
    host = FakeMachine()
    annotated = replace(freeze(), annotations=(*freeze().annotations, ("urgent", "true")))
    assert host.run(20, annotated, step=1) == ["opened"]
    worse = freeze("critical")
    assert host.run(3, annotated, worse, step=1) == []
    assert host.run(10 * MINUTE, annotated, step=1) == []


def test_a_member_that_is_left_out_of_an_array_that_is_whole_is_no_mail() -> None:
    """The kernel leaves out what failed at each boot; a spare took its place long ago."""
    host = FakeMachine()
    degraded = alert("MdDegraded", "critical", device="md0", condition="raid_array")
    faulty = alert("MdMemberFaulty", device="md0", condition="raid_array")
    host.run(HOUR, degraded, faulty)
    assert host.run(HOUR, faulty) == ["rebuilt"]
    kicked = alert("md_kicked", device="md0", condition="raid_array", since=host.now)
    kicked = replace(kicked, count=1, last_seconds=host.now)
    assert host.run(HOUR, faulty, kicked) == []


def test_that_it_came_back_and_is_critical_are_not_two_mails_in_a_second() -> None:
    """FLAPPING and ESCALATED about one disk: the second waits 5 s, or is in the first."""
    host = FakeMachine()
    for _ in range(2):
        host.run(15, replace(HANG, active_seconds=host.now, fired_seconds=host.now), step=1)
        host.run(10 * MINUTE, step=1)
    sent = len(host.mails)
    again = replace(HANG, active_seconds=host.now, fired_seconds=host.now)
    critical = alert("DeviceHang", "critical", device="sda", condition="device_hang")
    host.run(1, again, step=1)
    host.run(MINUTE, again, replace(critical, fired_seconds=host.now), step=1)
    times = [at for at, *_ in host.mails[sent:]]
    assert len(times) == 2
    assert times[1] - times[0] >= 5.0


def test_what_explains_what_is_the_same_until_an_alert_begins_or_ends() -> None:
    """A shelf of a thousand disks is away for days: its causes are not sought each second."""
    host = FakeMachine()
    degraded = alert("MdDegraded", "critical", device="md0", condition="raid_array")
    gone = alert("DeviceRemoved", "critical", device="sda", condition="device_unavailable")
    explanations = []
    for alerts in ((degraded,), (degraded,), (degraded, gone), (degraded, gone), ()):
        host.run(1, *alerts, step=1)
        explanations.append(host.state.explanation)
    first, second, third, fourth, last = explanations
    assert first is second
    assert third is fourth
    assert len({id(each) for each in (first, third, last)}) == 3


def test_good_news_are_at_most_two_an_hour() -> None:
    """An array that is whole for minutes, again and again: after two the third waits."""
    host = FakeMachine()
    faulty = alert("MdMemberFaulty", device="md0", condition="raid_array")
    degraded = alert("MdDegraded", "critical", device="md0", condition="raid_array")
    for _ in range(6):
        since = host.now
        host.run(2 * MINUTE, faulty, replace(degraded, active_seconds=since, fired_seconds=since))
        host.run(6 * MINUTE, faulty)
    good = [at for at, reason, *_ in host.mails if reason is Reason.REBUILT]
    assert good
    assert all(sum(at <= each < at + HOUR for each in good) <= 2 for at in good)


def test_lost_data_is_over_but_not_ok() -> None:
    """The disk answers again; what it was to write is gone."""
    host = FakeMachine()
    lost = replace(alert("lost_write", "critical", device="sda", condition="io_error"), count=1)
    lost = replace(lost, last_seconds=0.0)
    assert host.run(30, HANG, lost) == ["opened"]
    assert host.run(600, lost) + host.run(HOUR) == ["over, not repaired"]
    mail = host.only().last_mail
    assert mail is not None
    assert mail.reason is Reason.NOT_REPAIRED


@pytest.mark.parametrize("kind", ["fs_checksum_corrected", "fs_checksum_error"])
def test_a_copy_that_was_wrong_is_not_ok_when_its_disk_answers_again(kind: str) -> None:
    """btrfs had another copy: the disk's is as unreliable as before."""
    host = FakeMachine()
    wrong = alert(kind, device="sda", condition="btrfs_error")
    wrong = replace(wrong, count=1, last_seconds=0.0)
    assert host.run(30, HANG, wrong) == ["opened"]
    assert host.run(600, wrong) + host.run(HOUR) == ["over, not repaired"]


def test_a_disk_that_only_a_line_called_failed_is_not_ok_when_what_stands_on_it_resumes() -> None:
    """The controller's firmware dropped a disk; an LV on its volume was suspended for a minute."""
    host = FakeMachine()
    failed = replace(
        alert("megaraid_pd_failed", "critical", device="slot 0", condition="raid_array"),
        subject="disk slot 0",
        object="slot 0",
        count=1,
        last_seconds=0.0,
    )
    suspended = alert("DeviceSuspended", device="dm-0", condition="device_hang")
    suspended = replace(suspended, subject="device dm-0", object="dm-0")
    host.graph = StorageGraph(above={"disk slot 0": frozenset({"device dm-0"})})
    mails = host.run(30, failed) + host.run(60, failed, suspended) + host.run(400, failed)
    assert set(mails) == {"opened", "escalated"}


@pytest.mark.parametrize(
    ("sentence", "urgent", "severities", "expected"),
    [
        ("who waits was said by the first mail", "true", "warning", ["opened"]),
        ("for a minute", "true", "critical", ["opened", "escalated"]),
        ("no task was known to wait", "false", "warning", ["opened", "escalated"]),
    ],
)
def test_that_programs_wait_for_a_suspended_volume_is_mailed_once(
    sentence: str, urgent: str, severities: str, expected: list[str]
) -> None:
    """8 s after the mail about the volume they have waited long enough for one of their own."""
    host = FakeMachine()
    host.graph = StorageGraph(above={"disk dm-3": frozenset({"disk dm-3"})})
    suspended = alert("DeviceSuspended", device="dm-3", condition="device_hang")
    suspended = replace(suspended, annotations=(*suspended.annotations, ("urgent", urgent)))
    freeze = alert("Freeze", severities, device="dm-3", condition="freeze", since=70.0)
    mails = host.run(70, suspended) + host.run(300, suspended, freeze)
    assert mails == expected, sentence


def test_a_disk_that_failed_and_left_is_ok_when_it_is_there_again() -> None:
    """An NVMe disk is removed after its reset failed; its state shows the end of both."""
    host = FakeMachine()
    line = alert("nvme_controller_dead", "critical", device="nvme0n1")
    line = replace(line, count=1, last_seconds=0.0)
    gone = alert("DeviceRemoved", "critical", device="nvme0n1")
    assert host.run(30, line) + host.run(900, line, gone) == ["opened", "escalated"]
    assert host.run(HOUR) == ["resolved"]


def test_from_the_fourth_incident_in_ten_minutes_on_first_mails_share_one() -> None:
    """Twenty disks are slow within a minute: three mails, then one with a line for each other."""
    host = FakeMachine()
    slow = [alert("DiskSlow", device=f"sd{n}", condition="disk_slow") for n in range(20)]
    host.run(5 * MINUTE, *slow, step=1)
    assert [reason for _, reason, *_ in host.mails] == [Reason.OPENED] * 4
    assert {at for at, *_ in host.mails} == {60.0}
    shared = [
        i for i in host.state.by_key.values() if i.references[0].split(".")[0] != i.identifier
    ]
    assert len(shared) == 16
    assert all(incident.mails == 1 for incident in host.state.by_key.values())


def test_seven_urgent_first_mails_are_sent_at_once_and_the_others_in_one() -> None:
    """Twelve disks hang that have nothing in common."""
    host = FakeMachine()
    hangs = [alert("DeviceHang", device=f"sd{n}", condition="device_hang") for n in range(12)]
    host.run(MINUTE, *hangs, step=1)
    assert [at for at, *_ in host.mails] == [0.0] * 8


def test_a_worse_kind_of_the_same_array_ends_an_acknowledgement() -> None:
    """That md0 runs without a member is known; that it has no redundancy left is not."""
    host = FakeMachine()
    degraded = alert("MdDegraded", "critical", device="md0", condition="raid_array")
    left = replace(degraded, annotations=(*degraded.annotations, (REDUNDANCY, "left")))
    host.run(MINUTE, left)
    host.acknowledge("disk md0")
    assert host.run(HOUR, left) == []
    none = replace(degraded, annotations=(*degraded.annotations, (REDUNDANCY, "none")))
    assert host.run(10, none) == ["escalated"]
    assert host.said.acknowledgements == ()


def test_an_array_that_has_some_redundancy_again_did_not_escalate() -> None:
    """Two members of a raid6 were gone at once; one was rebuilt hours later."""
    host = FakeMachine()
    degraded = alert("MdDegraded", "critical", device="md0", condition="raid_array")
    none = replace(degraded, annotations=(*degraded.annotations, (REDUNDANCY, "none")))
    left = replace(degraded, annotations=(*degraded.annotations, (REDUNDANCY, "left")))
    host.run(2 * HOUR, none)
    assert host.run(2 * HOUR, left) == []


def test_an_array_whose_second_member_fails_later_was_degraded_all_the_time() -> None:
    """And is when one of them was rebuilt: that the other one is still missing is no update."""
    host = FakeMachine()
    degraded = alert("MdDegraded", "critical", device="md0", condition="raid_array")
    none = replace(degraded, annotations=(*degraded.annotations, (REDUNDANCY, "none")))
    left = replace(degraded, annotations=(*degraded.annotations, (REDUNDANCY, "left")))
    host.run(2 * HOUR, left)
    assert host.run(2 * HOUR, none) == ["escalated"]
    assert host.run(2 * HOUR, left) == []
