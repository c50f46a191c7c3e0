"""Commands: what users set and how it is stored; the replies about incidents and events."""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.disks import small_disk

from iowarden.daemon import journal
from iowarden.daemon.cli import status_command
from iowarden.daemon.control import documents
from iowarden.daemon.control.control_socket import ControlCommand
from iowarden.daemon.control.documents import EventLine
from iowarden.daemon.service.commands import CommandHandler
from iowarden.daemon.storage import event_rows, history_reader
from iowarden.daemon.storage.history_db import History
from iowarden.daemon.terminal import console
from iowarden.daemon.transition_log import TransitionLog
from iowarden.daemon.views import answers
from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.engine.engine import Engine
from iowarden.rules.events.event_table import EventRule
from iowarden.rules.incidents.model import DueNotice, Incident, IncidentMember, LastMail
from iowarden.rules.incidents.silences import Acknowledgement, Silences
from iowarden.rules.notice import Evidence, Notice, Reason
from iowarden.rules.notices import report
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from pathlib import Path

DEADLINE_SECONDS = 20.0
START = 1_800_000_000.0
"""Unix time of the program's second 0."""


class Quiet:
    """A log that is ignored."""

    lost_total = 0

    def __init__(self) -> None:
        """Nothing was changed yet."""
        self.levels: list[tuple[str, float]] = []

    def send(
        self, kind: journal.MessageKind, priority: int, message: str, **fields: object
    ) -> None:
        """Log nothing."""

    def debug(self, text: str) -> None:
        """Log nothing."""

    def set_level(self, level: str) -> None:
        """Ignore the level."""

    def set_temporary_level(self, level: str, seconds: float) -> None:
        """Store the level."""
        self.levels.append((level, seconds))

    def close(self) -> None:
        """Do nothing."""


def row(number: int = 0, **changed: object) -> EventLine:
    """Return a kernel event of a disk, one second after the previous one."""
    made = EventLine(
        START + number, "warning", f"I/O error, dev sda, sector {number}",
        "sda (ACME DISK-9, serial WD-1)", "3f2a9c01de", "kernel", "block_io_error", "sda", "WD-1",
        key=f"k{number}",
    )  # fmt: skip
    return replace(made, **changed)  # type: ignore[arg-type]  # any field


HANGS = IncidentMember(
    labels=(("alertname", "DiskHung"), ("condition", "device_hang"), ("device", "sda")),
    name="DiskHung",
    severity=Severity.CRITICAL,
    state=AlertState.FIRING,
    since_seconds=100.0,
    summary="sda completes nothing",
    advice="Look at its cable.",
    unknown="which file it is",
    evidence=(Evidence(START + 100, "diskstats", "device sda: 31 in flight"),),
    subject="disk WD-1",
)
ERRORS = replace(
    HANGS,
    labels=(("alertname", "block_io_error"), ("device", "sda")),
    name="block_io_error",
    severity=Severity.WARNING,
    summary="errors of sda",
    advice="Replace it.",
    count=412,
    last_seconds=450.0,
    cleared_seconds=480.0,
    state=AlertState.RESOLVED,
)
OPEN = Incident(
    identifier="3f2a9c01de",
    key="disk WD-1",
    object="sda (ACME DISK-9, serial WD-1)",
    opened_seconds=100.0,
    severity=Severity.CRITICAL,
    members=(HANGS, ERRORS),
    mails=2,
    last_mail=LastMail(400.0, Reason.ESCALATED, Severity.CRITICAL, "sda"),
    firing=True,
    recurrences=1,
    advised=("DiskHung", "block_io_error"),
)
CLOSED = Incident(
    identifier="3fff000000",
    key="host",
    object="host",
    opened_seconds=10.0,
    severity=Severity.WARNING,
    closed_seconds=90.0,
    mails=1,
    last_mail=LastMail(20.0, Reason.RESOLVED, Severity.WARNING, "host"),
)


class Office:
    """A command handler with two incidents, and its replies."""

    def __init__(self, history_path: str = "") -> None:
        """Open it at second 500."""
        self.now = 500.0
        self.engine = Engine([], (), 0.0)
        self.telling = TransitionLog(Quiet(), lambda: START + self.now, lambda: self.now)
        self.kept: list[str] = []
        self.replies: queue.Queue[dict[str, Any]] = queue.Queue()
        self.incidents = {i.key: i for i in (OPEN, CLOSED)}
        self.alerts: tuple[Alert, ...] = ()
        self.desk = CommandHandler(
            self.engine,
            self.telling,
            self.known,
            lambda: self.kept.append("written"),
            lambda: None,
            store_signals=lambda: None,
            history_path=history_path,
            event_rows=lambda: {
                ERRORS.name: EventRule(
                    ERRORS.name, Severity.WARNING, "errors", condition="medium_error"
                )
            },
        )

    def known(self, now: float) -> answers.ViewInputs:
        """Return the state of the loop."""
        return answers.ViewInputs(
            version="0",
            host="db1",
            now=now,
            realtime=lambda at: START + at,
            started_seconds=0.0,
            ready=True,
            engine=self.engine,
            incidents=self.incidents,
            silences=self.desk.silences,
            mail=documents.MailLine(),
            probe=documents.ProbeLine(),
            refused_reload=None,
            troubles=(),
            alerts=self.alerts,
            notice=self.notice,
        )

    def notice(self, due: DueNotice) -> Notice:
        """Describe an incident in text, as for a mail."""
        return report.notice(due, report.Sources(lambda at: START + at, self.now, (), None))

    def ask(self, name: str, **arguments: object) -> None:
        """Send a command."""
        self.desk.answer(ControlCommand(name, arguments, "alice", self.replies.put), self.now)

    def answer(self, name: str, **arguments: object) -> Any:  # noqa: ANN401 - of each its own
        """Return the reply."""
        self.ask(name, **arguments)
        reply = self.replies.get(timeout=DEADLINE_SECONDS)
        assert "answer" in reply, reply
        return reply["answer"]

    def error(self, name: str, **arguments: object) -> str:
        """Return the error of the reply."""
        self.ask(name, **arguments)
        return str(self.replies.get(timeout=DEADLINE_SECONDS)["error"])


def kept(directory: Path, *rows: EventLine) -> str:
    """Store events; return the file."""
    path = str(directory / "history.db")
    history = History(path, lambda _: None)
    history.store_events(rows)
    assert history.close(DEADLINE_SECONDS)
    return path


def texts(found: documents.EventList) -> list[str]:
    """Return the texts of events."""
    return [event.text for event in found.events]


def test_an_acknowledgement_ends_in_one_transaction_with_the_mail_about_it() -> None:
    """Stored separately, the incident would count a mail that a kill in between loses."""
    office = Office()
    office.desk.restore(
        Silences((), (Acknowledgement("abc", Severity.WARNING, 0.0, "known", "root"),))
    )
    office.desk.drop_acknowledgement("abc")
    assert office.desk.silences.by_incident() == {}
    assert office.kept == []


# --- events


def test_what_is_kept_and_what_was_reported_is_one_list_by_time(tmp_path: Path) -> None:
    """The last ones of years; a recent event appears once, stored or not."""
    office = Office(kept(tmp_path, row(0), row(1), row(498)))
    office.now = 499.0
    office.telling.send(journal.TROUBLE, 4, "smart: sda does not answer", IOWARDEN_DEVICE="sda")
    for each in (row(498), row(500)):
        office.telling.storage_event(each, journal.EVENT, 4, "event block_io_error: sda: ...")
    found = office.answer("events", last=4)
    said = "smart: sda does not answer"
    assert texts(found) == [row(1).text, row(498).text, said, row(500).text]
    assert found.note == ""
    assert texts(office.answer("events", last=1)) == [row(500).text]
    assert texts(office.answer("events", last=0)) == []
    assert texts(office.answer("events", source="iowarden")) == [said]
    assert texts(office.answer("events", source="kernel", last=1)) == [row(500).text]
    assert texts(office.answer("events", incident="3f2", severity="critical")) == []


def test_a_client_of_before_queries_as_ever(tmp_path: Path) -> None:
    """{"last": 50, "follow": false}, or nothing at all: the last fifty."""
    office = Office(kept(tmp_path, *(row(number) for number in range(60))))
    assert texts(office.answer("events")) == [row(number).text for number in range(10, 60)]
    assert len(texts(office.answer("events", last=55, follow=False))) == 55


def test_who_asks_for_too_many_is_told_how_many_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reply has a limit, and shows that there is more."""
    monkeypatch.setattr("iowarden.daemon.views.incident_answers.MAX_EVENTS", 2)
    office = Office(kept(tmp_path, *(row(number) for number in range(3))))
    found = office.answer("events", last=999_999)
    assert (len(found.events), found.note) == (2, "only the last 2 are shown")


def test_a_severity_that_is_none_is_refused() -> None:
    """A typing error is not an empty list."""
    assert "expected one of critical, warning" in Office().error("events", severity="bad")


def test_where_nothing_is_kept_yet_the_rest_is_reported(tmp_path: Path) -> None:
    """The first minute after the installation: no file, and nothing is missing."""
    office = Office(str(tmp_path / "history.db"))
    office.telling.send(journal.STARTED, 6, "ready")
    found = office.answer("events")
    assert (texts(found), found.note) == (["ready"], "")


def test_a_history_that_cannot_be_read_costs_only_what_is_in_it(tmp_path: Path) -> None:
    """Bad sectors below history.db: recent events, and a note about the rest."""
    path = tmp_path / "history.db"
    path.write_bytes(b"\xa5" * 8192)
    office = Office(str(path))
    office.telling.send(journal.STARTED, 6, "ready")
    found = office.answer("events")
    assert texts(found) == ["ready"]
    assert "only recent events are shown: history.db cannot be read" in found.note
    assert "history.db cannot be read" in office.answer("incident show", incident="3f2").note


class Hanging:
    """A disk on which reading does not return."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Hang from now on; the timeout is short."""
        self.hung, self.release = threading.Event(), threading.Event()
        self.reads = 0
        monkeypatch.setattr(event_rows, "read", self.read)
        monkeypatch.setattr(history_reader, "PATIENCE_SECONDS", 0.01)

    def read(self, path: str, wanted: event_rows.EventFilter) -> list[EventLine]:
        """Hang."""
        self.reads += 1
        self.hung.set()
        assert self.release.wait(DEADLINE_SECONDS)
        return [row(7)]


def test_a_disk_that_hangs_keeps_nobody_waiting_and_holds_one_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The root disk hangs: clients get the rest, again and again, and no reply comes twice."""
    disk = Hanging(monkeypatch)
    office = Office("/nowhere/history.db")
    office.telling.send(journal.TROUBLE, 4, "the disk hangs")
    first = office.answer("events")
    assert texts(first) == ["the disk hangs"]
    assert "its disk may hang" in first.note
    second = office.answer("incident show", incident="3f2")
    assert second.line.identifier == OPEN.identifier
    assert "is being read for another command" in second.note
    assert disk.reads == 1
    disk.release.set()
    while "is being read" in (third := office.answer("events")).note:
        pass
    assert texts(third) == [row(7).text, "the disk hangs"]
    assert office.replies.empty()


def test_a_bug_of_ours_is_reported_and_the_next_one_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No client waits in vain, and the file is released."""

    def poison(path: str, wanted: event_rows.EventFilter) -> list[EventLine]:
        raise KeyError(path)

    monkeypatch.setattr(event_rows, "read", poison)
    office = Office("/nowhere/history.db")
    for _ in range(2):
        assert "history.db: bug: KeyError: " in office.answer("events").note


def test_who_follows_misses_nothing_between_what_is_kept_and_what_comes(tmp_path: Path) -> None:
    """The loop sends the reply: it has the events until then, and none that come later."""
    office = Office(kept(tmp_path, row(0)))
    office.ask("events", follow=True)
    while office.desk._later.empty() and office.replies.empty():  # it is being read
        pass
    office.telling.send(journal.TROUBLE, 4, "meanwhile")
    assert office.replies.empty()
    office.desk.expire_silences(office.now)
    assert texts(office.replies.get_nowait()["answer"]) == [row(0).text, "meanwhile"]


def test_on_a_read_only_disk_events_are_read(tmp_path: Path) -> None:
    """The kernel remounted it after errors: just then a user requests the events."""
    with small_disk(tmp_path) as mount:
        path = kept(mount, row(0))
        # No file of a writer is left next to it.
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("SELECT 1")
        found = Office(path).answer("events")
    assert (texts(found), found.note) == ([row(0).text], "")


# --- incidents


def known(*alerts: Alert, **fields: Any) -> answers.ViewInputs:  # noqa: ANN401 - as Known takes them
    """Return the state of a service with these alerts at second 500."""
    return answers.ViewInputs(
        **{
            "version": "1", "host": "db1", "now": 500.0, "realtime": lambda at: START + at,
            "started_seconds": 0.0, "ready": True, "engine": Engine([], [], 0.0), "incidents": {},
            "silences": Silences(), "mail": documents.MailLine(), "probe": documents.ProbeLine(),
            "refused_reload": None, "troubles": (), "alerts": alerts, "notice": Office.notice,
            **fields,
        }
    )  # fmt: skip


def hot(severity: str, device: str = "sda", **fields: Any) -> Alert:  # noqa: ANN401 - as Alert's
    """Return a threshold that a disk has exceeded."""
    labels = (("alertname", "Hot"), ("device", device), ("severity", severity))
    usual = Alert(
        "Hot", labels, AlertState.FIRING, 70.0, (("summary", "70 C"),), 100.0, subject=device
    )
    return replace(usual, **fields)


def test_a_warning_and_a_critical_limit_are_one_line_of_a_status() -> None:
    """The worst current severity; another disk has its own line, and so have silenced alerts."""

    def lines(*alerts: Alert) -> list[tuple[str, str, str]]:
        found = answers.answer(known(*alerts)).alerts
        return [(line.severity, line.state, line.labels["device"]) for line in found]

    warning, critical = hot("warning"), hot("critical")
    assert lines(warning, critical, hot("warning", "sdb")) == [
        ("critical", "firing", "sda"),
        ("warning", "firing", "sdb"),
    ]
    assert lines(warning, replace(critical, state=AlertState.PENDING)) == [
        ("warning", "firing", "sda")
    ]
    assert lines(warning, replace(critical, absent_seconds=470.0)) == [("warning", "firing", "sda")]
    both = [replace(each, state=AlertState.UNKNOWN) for each in (warning, critical)]
    assert lines(*both) == [("critical", "unknown", "sda")]


def test_what_does_not_hold_any_more_is_reported_to_be_cleared() -> None:
    """It keeps firing for a while; its last value is from before, and is shown as such."""
    held = replace(hot("critical"), absent_seconds=470.0)
    members = (replace(HANGS, absent_seconds=460.0), ERRORS)
    said = answers.answer(known(held, incidents={OPEN.key: replace(OPEN, members=members)}))
    assert (said.alerts[0].cleared_seconds, said.incidents[0].cleared_seconds) == (
        START + 470.0,
        START + 460.0,
    )
    shown = "\n".join(
        line
        for section in status_command.status_sections(said)
        for line in ([section] if isinstance(section, str) else console.columns(section))
    )
    assert "cleared 30 s ago; was: 70 C" in shown
    unchecked = "no such line for 30 s; whether it is repaired was not checked"
    assert f"cleared 40 s ago ({unchecked}); was: sda completes nothing" in shown
    still = answers.answer(known(hot("critical"), incidents={OPEN.key: OPEN}))
    assert (still.alerts[0].cleared_seconds, still.incidents[0].cleared_seconds) == (None, None)
    over = replace(OPEN, members=(replace(HANGS, cleared_seconds=470.0), ERRORS), firing=False)
    (line,) = answers.answer(known(incidents={OPEN.key: over})).incidents
    assert line.cleared_seconds == START + 480.0
    assert not line.stays
    unreadable = replace(ERRORS, name="block_medium_error")
    over = replace(over, members=(unreadable,))
    (line,) = answers.answer(known(incidents={OPEN.key: over})).incidents
    assert line.stays  # sectors that nothing has read or written since


def test_incidents_are_listed_the_open_ones_first() -> None:
    """Those closed lately only on request, without a severity: it is not stored."""
    office = Office()
    (opened,) = office.answer("incident list").incidents
    assert (opened.identifier, opened.severity, opened.last_notification_reason) == (
        "3f2a9c01de",
        "critical",
        "escalated",
    )
    both = office.answer("incident list", all=True).incidents
    assert [i.identifier for i in both] == ["3f2a9c01de", "3fff000000"]
    assert (both[1].severity, both[1].closed_seconds) == ("", START + 90)


def test_an_incident_is_reported_in_the_words_of_its_mails(tmp_path: Path) -> None:
    """All advice, even if mails have given it; each member with its times, each event once."""
    other = row(3, incident="3fff000000", key="other")
    rows = [row(number) for number in range(30)]
    office = Office(kept(tmp_path, other, *rows))
    office.telling.storage_event(rows[29], journal.EVENT, 4, "event ...")
    office.telling.storage_event(row(31), journal.EVENT, 4, "event ...")
    office.telling.storage_event(replace(other, key="third"), journal.EVENT, 4, "event ...")
    office.answer("ack", incident="3f2", reason="ordered")
    found = office.answer("incident show", incident="3f2")
    assert found.timeline == (
        "critical DiskHung, since 6 min 40 s ago: sda completes nothing",
        *office.notice(DueNotice(Reason.ESCALATED, OPEN)).sentences[1:],
    )
    assert "block_io_error" in found.timeline[1]
    assert [e.text for e in found.evidence] == ["device sda: 31 in flight"]
    assert found.advice == ("Look at its cable.", "Replace it.")
    assert found.unknown == ("which file it is",)
    hangs, errors = found.members
    assert (hangs.since_seconds, hangs.cleared_seconds, hangs.count) == (START + 100, None, 0)
    assert (errors.cleared_seconds, errors.count, errors.last_seconds) == (
        START + 480,
        412,
        START + 450,
    )
    assert found.line.acknowledged.who == "alice"
    assert [e.text for e in found.events] == [*(r.text for r in rows[11:]), row(31).text]
    assert found.note == ""


def alert(member: IncidentMember, **changed: object) -> Alert:
    """Return the alert of a member."""
    made = Alert(
        member.name,
        member.labels,
        AlertState.FIRING,
        1.0,
        (("summary", member.summary),),
        member.since_seconds,
        subject=member.subject,
        count=member.count,
    )
    return replace(made, **changed)  # type: ignore[arg-type]  # any field


def test_a_silence_of_events_is_shown_with_their_incident() -> None:
    """Kernel errors of a disk that is to be replaced: by whom, until when, why."""
    office = Office()
    errors = replace(ERRORS, state=AlertState.FIRING, cleared_seconds=None)
    office.incidents = {OPEN.key: replace(OPEN, members=(errors,))}
    office.alerts = (alert(errors),)
    added = office.answer("silence add", matchers=["device=sda"], for_seconds=60, reason="swap")
    assert added.note == "1 alert that is firing now matches"
    assert not added.matches_nothing
    named = office.answer("silence add", matchers=["other"], for_seconds=1, reason="slip")
    assert "no rule has such an alert" in named.note
    assert named.matches_nothing
    bare = office.answer("silence add", matchers=["sda"], for_seconds=1, reason="slip")
    assert "no rule has such an alert; did you mean 'device=sda'?" in bare.note
    other = ["condition=medium_eror"]
    slip = office.answer("silence add", matchers=other, for_seconds=1, reason="slip")
    assert "no rule has such an alert; did you mean 'medium_error'?" in slip.note
    assert slip.matches_nothing
    for label in ("disk", "serial"):
        slip = office.answer("silence add", matchers=[f"{label}=S9"], for_seconds=1, reason="slip")
        assert slip.note.startswith(f'warning: no {label} on this host matches {label}="S9"')
    (silence,) = office.answer("incident show", incident="3f2").silences
    assert (silence.reason, silence.who, silence.ends_seconds) == ("swap", "alice", START + 560)


def test_events_that_are_wrong_are_in_the_status_and_lesser_ones_are_not() -> None:
    """A medium error is a current problem; a check of an array is only an event."""
    office = Office()
    warning = (("severity", "warning"),)
    errors = alert(ERRORS, labels=(*ERRORS.labels, *warning))
    checked = alert(ERRORS, name="md_check", labels=(("severity", "info"),))
    rule = alert(HANGS, labels=(("severity", "info"),))
    office.alerts = (errors, checked, rule)
    assert {a.name for a in office.answer("status").alerts} == {"block_io_error", "DiskHung"}


def test_a_closed_incident_is_shown_by_what_is_left_of_it(tmp_path: Path) -> None:
    """Its time, its mails, and its stored events."""
    office = Office(kept(tmp_path, row(0, incident="3fff000000")))
    found = office.answer("incident show", incident="3ff")
    assert (found.line.closed_seconds, found.line.severity) == (START + 90, "")
    assert (found.members, found.timeline, len(found.events)) == ((), (), 1)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("zz", "the identifier of one, or its beginning, got 'zz'; incidents: 3f2a9c01de"),
        ("zz", "got 'zz'; incidents: 3f2a9c01de (sda (ACME"),
        ("3f", "expected a unique identifier, got '3f'; incidents: 3f2a9c01de (sda"),
        ("", "or its beginning, got ''; incidents: 3f2a9c01de"),
        ("3f2a9c01de0", "3fff000000 (host, closed)"),
    ],
)
def test_an_incident_that_is_none_is_answered_by_what_there_is(said: str, expected: str) -> None:
    """A typing error, the beginning of two, nothing: the error shows the possible names."""
    assert expected in Office().error("incident show", incident=said)


def test_where_there_is_no_incident_that_is_reported() -> None:
    """The healthy machine."""
    office = Office()
    office.incidents = {}
    assert office.error("incident show", incident="3f").endswith("incidents: none")
    assert office.answer("incident list", all=True).incidents == ()


# --- the log


def test_the_log_level_is_changed_for_a_time(tmp_path: Path) -> None:
    """At once, without a reload; the journal has who did it, also if less is logged now."""
    office = Office(str(tmp_path / "history.db"))
    made = office.answer("log level", level="error", for_seconds=600.0)
    assert (made.level, made.ends_seconds) == ("error", START + 500 + 600)
    assert office.telling.log.levels == [("error", 600.0)]
    (line,) = texts(office.answer("events"))
    assert line == "log level is 'error' for 10 min, set by alice"
    office.answer("log level", level="info", for_seconds=0.0)
    assert office.telling.log.levels[-1] == ("info", 0.0)


def test_a_log_level_that_is_none_or_lasts_is_refused() -> None:
    """With what would be right: a lasting one belongs into the configuration."""
    office = Office()
    assert "expected one of error, " in office.error("log level", level="all", for_seconds=60.0)
    assert "'log_level' in the configuration" in office.error(
        "log level", level="debug", for_seconds=86401.0
    )
    assert office.telling.log.levels == []
