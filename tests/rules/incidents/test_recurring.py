"""What comes at the same hour on several days: mailed until that is known, then in the digest."""

from __future__ import annotations

from dataclasses import replace

from iowarden.rules.alerting.alerts import Alert, AlertState, Transition
from iowarden.rules.incidents import incidents, recurring
from iowarden.rules.incidents.model import Incidents, NotificationPolicy
from iowarden.rules.incidents.recurring import DAY_SECONDS, Recurrences
from iowarden.rules.notice import Reason

HOUR, MINUTE = 3600.0, 60.0
NIGHT = 2 * HOUR
DAYS = 40 * DAY_SECONDS
"""The clock begins at a midnight."""


def stall(severity: str = "warning", name: str = "DeviceHang") -> Alert:
    """A disk that hangs."""
    labels = {"alertname": name, "severity": severity, "device": "sda"}
    return Alert(
        name=name,
        labels=tuple(sorted(labels.items())),
        state=AlertState.FIRING,
        value=12.0,
        annotations=(("summary", "no request completed for 12 s"),),
        active_seconds=0.0,
        subject="disk S1",
        object="sda (ACME, serial S1)",
    )


class FakeMachine:
    """A host whose alerts are set by the test, evaluated every few seconds."""

    def __init__(self) -> None:
        self.habits: Recurrences = {}
        self.state = Incidents()
        self.mails: list[tuple[str, str]] = []
        """The reason of each mail, and its text about what recurs."""
        self.now = DAYS

    def run(self, until: float, *alerts: Alert, every: float = 10.0) -> list[tuple[str, str]]:
        """Set these alerts as true from now on, until a moment; return the mails sent."""
        begin, before = self.now, len(self.mails)
        held = [replace(a, active_seconds=begin, fired_seconds=begin, value=0.0) for a in alerts]
        while self.now < until:
            self._look(held)
            self.now = min(self.now + every, until)
        return self.mails[before:]

    def _look(self, alerts: list[Alert]) -> None:
        now = self.now
        self.habits = recurring.next_recurrences(self.habits, alerts, now, float)
        self.state, dues, _ = incidents.next_incidents(
            self.state,
            alerts,
            now,
            incidents.Surroundings(
                install="test",
                policy=NotificationPolicy(),
                observe=lambda _: (),
                is_observable=lambda *_: True,
                usual=lambda alert: recurring.usual(self.habits, alert, now, float),
            ),
        )
        for due in dues:
            said: tuple[str, ...] = ()
            if due.incident.firing:
                said, self.habits = recurring.sentences(self.habits, due.incident, now, float)
            self.mails.append((due.reason.value, " ".join(said)))

    def night(
        self, day: int, *alerts: Alert, at: float = NIGHT, lasts: float = 5 * MINUTE
    ) -> list[tuple[str, str]]:
        """Let these alerts hold once on a day; return the mails until the next noon."""
        begin = DAYS + day * DAY_SECONDS + at
        self.run(begin, every=600.0)
        found = self.run(begin + lasts, *alerts)
        found += self.run(begin + lasts + HOUR)
        return found + self.run(begin + 10 * HOUR, every=600.0)


def reasons(mails: list[tuple[str, str]]) -> list[str]:
    """Reasons of the mails."""
    return [reason for reason, _ in mails]


def known(*, hour: float = NIGHT) -> FakeMachine:
    """A host whose backup stalls its disk, which the third mail has reported."""
    host = FakeMachine()
    for day in range(3):
        host.night(day, stall(), at=hour)
    return host


def test_the_third_night_reports_that_and_later_ones_are_no_mail() -> None:
    """The backup stalls the disk at two each night, for five minutes or less."""
    host = FakeMachine()
    assert reasons(host.night(0, stall())) == ["opened", "resolved"]
    assert reasons(host.night(1, stall())) == ["reopened", "resolved"]
    third = host.night(2, stall())
    assert reasons(third)[0] == "reopened"
    said = third[0][1]
    assert said.startswith("This recurs at about 02:00, on 3 of the last 7 days (DeviceHang)")
    assert "it lasted 4 min 50 s at most" in said
    assert "longer than 7 min 15 s" in said
    for day in range(3, 9):
        assert host.night(day, stall(), lasts=6 * MINUTE) == []
    (incident,) = host.state.by_key.values()
    (member,) = incident.members
    assert member.usual == "as on 7 of the last 7 days at about 02:00"


def test_a_night_that_is_worse_than_usual_is_mailed_and_ends_it() -> None:
    """Eight minutes instead of five: a mail while it lasts; the next night reports it again."""
    host = known()
    worse = host.night(3, stall(), at=NIGHT - 5 * MINUTE, lasts=8 * MINUTE)
    assert reasons(worse)[0] == Reason.REOPENED
    assert worse[0][1] == ""
    after = host.night(4, stall(), at=NIGHT + 10 * MINUTE, lasts=8 * MINUTE)
    assert after[0][1].startswith("This recurs at about 02:15, on 5 of the last 7 days")
    assert host.night(5, stall(), lasts=8 * MINUTE) == []


def test_what_becomes_critical_is_mailed() -> None:
    """It was a warning on each night before."""
    host = known()
    assert reasons(host.night(3, stall(), stall("critical"))) == ["reopened", "resolved"]


def test_another_hour_is_not_usual() -> None:
    """The same disk stalls at four in the afternoon."""
    host = known()
    assert reasons(host.night(3, stall(), at=16 * HOUR)) == ["reopened", "resolved"]


def test_an_hour_earlier_or_later_is_the_same_hour_also_over_midnight() -> None:
    """Daylight saving, or a job that waits for another: five to midnight, half past."""
    host = FakeMachine()
    late = 24 * HOUR - 5 * MINUTE
    host.night(0, stall(), at=late)
    host.night(1, stall(), at=late + 35 * MINUTE)
    host.night(2, stall(), at=late)
    assert host.night(3, stall(), at=late + 35 * MINUTE) == []
    assert host.night(4, stall(), at=late - 20 * MINUTE) == []


def test_what_threatens_data_is_never_usual() -> None:
    """A disk that is lost each night at two, a file system that fails."""
    for name in ("DeviceRemoved", "MdInactive", "MdDegradedFurther", "FilesystemErrors"):
        host = FakeMachine()
        for day in range(5):
            mails = host.night(day, stall("critical", name), at=NIGHT + day * 10 * MINUTE)
            assert mails, (name, day)
            assert mails[0][1] == ""


def test_a_week_without_it_ends_it() -> None:
    """The backup was switched off: when the stall comes back, it is mailed."""
    host = known()
    assert reasons(host.night(12, stall())) == ["opened", "resolved"]


def test_what_is_usual_is_for_the_digest() -> None:
    """Its transitions are those of a notice, and report that it recurs each day."""
    change = recurring.below_warning(
        Transition(stall(), AlertState.INACTIVE), "as on 4 of the last 7 days"
    )
    assert change.alert.severity.name == "NOTICE"
    assert change.alert.summary == "no request completed for 12 s (as on 4 of the last 7 days)"
