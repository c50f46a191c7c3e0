"""The whole program on recorded machines, with a real mail server, as users experience it."""

from __future__ import annotations

import contextlib
import email
import email.policy
import json
import queue
import signal
import sqlite3
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import pytest
from support.journald import private_journald
from support.live import Live, watched
from support.program import COMMAND, Feed, Played, Program, recorded, run, then_idle
from support.recordings import STALL, corpus, stall_from_corpus
from support.smtp import Answers, free_port, smtp_server

from iowarden.collectors.recording.recording import Recording
from iowarden.daemon import journal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import EmailMessage
    from pathlib import Path

    from support.smtp import Received

Either = TypeVar("Either", Program, Played)
Programs = list[Program | Played]
LAST_DELIVERED = 'iowarden_notifications_last_delivered_age_seconds{receiver="mail"}'
QUIET_SECONDS = 700.0
"""A little more than ten minutes without the stall: then the 'resolved' mail is sent."""
QUIET_STEP_SECONDS = 4.0
"""Between two polls more than 5 s apart nothing was observed."""


def parsed(mail: Received) -> EmailMessage:
    """Return a mail as its reader sees it."""
    message = email.message_from_bytes(mail.data, policy=email.policy.default)
    assert isinstance(message, email.message.EmailMessage)
    return message


def rest(answers: Answers) -> list[Received]:
    """Return the new mails."""
    mails = []
    while True:
        try:
            mails.append(answers.mails.get_nowait())
        except queue.Empty:
            return mails


@pytest.fixture
def stall(tmp_path: Path) -> Feed:
    """The write stall of our own test machine, and eleven quiet minutes after it."""
    steps = then_idle(recorded("write-stall"), QUIET_SECONDS, QUIET_STEP_SECONDS)
    return Feed(steps, tmp_path / "feed")


@pytest.fixture
def programs() -> Iterator[Programs]:
    """Programs that a test started, and that must end with it."""
    started: Programs = []
    yield started
    for program in started:
        program.close()


def started(programs: Programs, program: Either) -> Either:
    """Start a program that ends with the test."""
    programs.append(program)
    program.start()
    return program


def test_a_write_stall_is_one_mail_thread_a_metric_and_a_resolved_mail(
    stall: Feed, tmp_path: Path, programs: Programs
) -> None:
    """From '/proc' to a delivered mail and a scrape, and to the end of the incident."""
    with smtp_server() as (port, answers):
        program = started(programs, Program(tmp_path, stall, smtp_port=port))
        stall.give(100)
        program.caught_up()
        metrics = program.metrics()
        assert 200 < metrics["iowarden_writeback_drain_seconds"] < 600
        assert metrics['iowarden_collector_outcome{collector="vmstat",outcome="ok"}'] == 1.0
        first = parsed(answers.next())
        stall.give()
        last = parsed(answers.next())
        program.caught_up()
        assert rest(answers) == []
        assert program.end() == 0
    assert first["Subject"].startswith("[WARNING] db1.example.com: writes stalled")
    assert first["To"] == "ops@example.com"
    assert last["Subject"].startswith("[OK]")
    assert last["References"] == first["Message-ID"]
    assert last["In-Reply-To"] == first["Message-ID"]
    body = first.get_body(("plain",))
    assert body is not None
    assert "sysctl -w vm.dirty_background_bytes=" in body.get_content()
    assert "WriteStall firing" in program.text()
    assert "WriteStall resolved" in program.text()


def test_the_corpus_stall_is_one_thread_as_well(tmp_path: Path, programs: Programs) -> None:
    """The recording that the forecast was designed on, from boot until it is resolved."""
    recording = Recording(stall_from_corpus(corpus(STALL), tmp_path / "recorded"))
    steps = then_idle(iter(recording.next, None), QUIET_SECONDS, QUIET_STEP_SECONDS)
    feed = Feed(steps, tmp_path / "feed")
    with smtp_server() as (port, answers):
        program = started(programs, Played(tmp_path, feed, smtp_port=port))
        feed.give()
        first, last = parsed(program.mail(answers)), parsed(program.mail(answers))
        program.caught_up()
        assert 0 <= program.metrics()[LAST_DELIVERED] < QUIET_SECONDS
        assert rest(answers) == []
    assert last["References"] == first["Message-ID"]


@pytest.mark.parametrize("name", ["healthy-copy", "idle"])
def test_a_healthy_machine_is_silent(name: str, tmp_path: Path, programs: Programs) -> None:
    """A healthy busy day and an idle machine: not one mail, also not ten minutes later."""
    feed = Feed(then_idle(recorded(name), QUIET_SECONDS), tmp_path / "feed")
    with smtp_server() as (port, answers):
        program = started(programs, Played(tmp_path, feed, smtp_port=port))
        feed.give()
        program.caught_up()
        assert program.metrics()['iowarden_notifications_waiting{receiver="mail"}'] == 0.0
        assert LAST_DELIVERED not in program.metrics()
        assert rest(answers) == []
    assert " WARNING " not in program.text()


def test_a_kill_loses_no_mail_that_had_not_been_sent(
    stall: Feed, tmp_path: Path, programs: Programs
) -> None:
    """The server is down, the program is killed: the next start delivers the same mail, once."""
    port = free_port()
    killed = started(programs, Program(tmp_path, stall, smtp_port=port))
    stall.give(110)
    killed.until(lambda: "Connection refused" in killed.text(), "the refusal to be told")
    killed.until(
        lambda: killed.metrics().get('iowarden_notifications_waiting{receiver="mail"}') == 1.0,
        "the mail to be counted",
    )
    killed.end(signal.SIGKILL)
    with contextlib.closing(sqlite3.connect(killed.state / "state.db")) as database:
        (kept,) = database.execute("SELECT message_id FROM outbox").fetchall()
    feed = stall.resumed(tmp_path / "resumed")
    with smtp_server(port=port) as (_, answers):
        program = started(programs, Played(tmp_path, feed, smtp_port=port))
        mail = parsed(program.mail(answers))
        assert mail["Message-ID"] == kept[0]
        feed.give()
        cleared = parsed(program.mail(answers))
        program.caught_up()
        assert rest(answers) == []
        assert program.end() == 0
    assert cleared["References"] == mail["Message-ID"]


def test_a_server_that_defers_is_queried_again(
    stall: Feed, tmp_path: Path, programs: Programs
) -> None:
    """4xx today, 250 a little later: one mail, and the log has both."""
    answers = Answers(message="451 4.3.0 try later")
    with smtp_server(answers) as (port, _):
        program = started(programs, Played(tmp_path, stall, smtp_port=port))
        stall.give(110)
        program.until(lambda: "451 4.3.0" in program.text(), "the deferral to be told")
        answers.message = "250 OK: queued"
        stall.give(60)
        assert program.mail(answers).recipients == ("ops@example.com",)
        program.until(lambda: "mail: works again" in program.text(), "the end of the trouble")


def test_a_server_that_refuses_for_good_is_reported_and_the_mail_is_kept(
    stall: Feed, tmp_path: Path, programs: Programs
) -> None:
    """5xx: no automatic retry; the mail stays in state.db and is counted on '/metrics'."""
    answers = Answers(recipients={"ops@example.com": "550 5.1.1 no such user"})
    with smtp_server(answers) as (port, _):
        program = started(programs, Played(tmp_path, stall, smtp_port=port))
        stall.give(110)
        program.until(lambda: "no such user" in program.text(), "the refusal to be told")
        assert program.metrics()['iowarden_notifications_waiting{receiver="mail"}'] == 1.0
        assert program.end() == 0
    with contextlib.closing(sqlite3.connect(program.state / "state.db")) as database:
        assert database.execute("SELECT count(*) FROM outbox").fetchone() == (1,)


def test_a_state_directory_that_cannot_be_written_stops_no_mail(
    stall: Feed, tmp_path: Path, programs: Programs
) -> None:
    """No directory can be made below a file: the mail is sent from memory, the error is logged."""
    blocker = tmp_path / "state"
    blocker.write_text("not a directory")
    with smtp_server() as (port, answers):
        program = started(programs, Played(tmp_path, stall, smtp_port=port))
        stall.give(110)
        assert "writes stalled" in parsed(program.mail(answers))["Subject"]
        assert "state is in memory only" in program.text()
        assert program.end() == 0
        assert "state.db could not be written: alerts and mails since" in program.text()


def test_a_file_that_is_no_state_is_set_aside_and_reported_once(
    stall: Feed, tmp_path: Path, programs: Programs
) -> None:
    """Garbage before the start, and again at run time: two messages, none that it works again."""
    program = Played(tmp_path, stall)
    program.state.mkdir()
    (program.state / "state.db").write_bytes(b"\xa5" * 20_000)
    started(programs, program)
    stall.give(10)
    program.caught_up()
    (tmp_path / "garbage").write_bytes(b"\xa5" * 20_000)
    (tmp_path / "garbage").rename(program.state / "state.db")
    assert program.end() == 0
    assert program.text().count("renamed to") == 2
    assert "works again" not in program.text()
    assert "could not be written" not in program.text()


def test_a_source_that_breaks_in_the_stall_leaves_the_incident_open(
    stall: Feed, tmp_path: Path, programs: Programs
) -> None:
    """'/proc/vmstat' becomes unreadable: 'unreadable' is mailed, not 'resolved'."""
    rubbish = {"/proc/vmstat": b"\x00\xff not a line of vmstat\n"}
    stall.steps[95:] = [replace(s, files={**s.files, **rubbish}) for s in stall.steps[95:]]
    with smtp_server() as (port, answers):
        program = started(programs, Played(tmp_path, stall, smtp_port=port))
        stall.give()
        first, second = parsed(program.mail(answers)), parsed(program.mail(answers))
        program.caught_up()
        assert rest(answers) == []
        outcome = 'iowarden_collector_outcome{collector="vmstat",outcome="unparsed"}'
        assert program.metrics()[outcome] == 1.0
        kept = program.state / "unparsed"
        program.until(lambda: kept.is_dir() and list(kept.glob("vmstat-*.txt")), "the kept text")
        (text,) = kept.glob("vmstat-*.txt")
        assert b"not a line of vmstat" in text.read_bytes()
    assert "DATA UNAVAILABLE" in second["Subject"]
    assert second["References"] == first["Message-ID"]
    assert program.text().count("vmstat: unparsed") == 1


def test_an_incident_that_closes_with_its_resolved_mail_is_closed_once(tmp_path: Path) -> None:
    """With both times equal there is one mail and one message about the end."""
    live = Live(tmp_path)
    with watched(tmp_path, live, settings="resolve_after: 10s\nclose_after: 10s\n") as host:
        live.degrade()
        host.wait(80)
        live.degrade(0)
        (clear,) = host.wait(60)
        assert clear["Subject"].startswith("[OK]")
        assert host.program.text().count("): closed") == 1


def test_commands_answer_and_bad_input_is_named(tmp_path: Path) -> None:
    """`version`, `config check` on good and bad files, a path that is no recording."""
    version = subprocess.run([COMMAND, "version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("iowarden 0.")
    good = tmp_path / "good.yaml"
    good.write_text("listen: 127.0.0.1:9748\n")
    assert run("config", "check", str(good)).returncode == 0
    bad = tmp_path / "bad.yaml"
    bad.write_text("mail:\n  prot: 25\n")
    answer = run("config", "check", str(bad))
    assert answer.returncode == 78
    assert f"'{bad}':2: mail.prot: unknown key" in answer.stderr
    rules = tmp_path / "rules.d"
    rules.mkdir(exist_ok=True)
    (rules / "mine.yaml").write_text(
        "groups:\n  - name: mine\n    rules:\n      - alert: X\n        expr: info(a) > 1\n"
    )
    good.write_text(f"rules_directory: {rules}\n")
    answer = run("config", "check", str(good))
    assert answer.returncode == 78
    assert f"'{rules}/mine.yaml':5:" in answer.stderr
    good.write_text(f"rules_directory: {good}\n")
    answer = run("config", "check", str(good))
    assert answer.returncode == 78
    assert f"'{good}': expected a directory" in answer.stderr
    assert "'rules_directory'" in answer.stderr  # as the file names it
    good.write_text(f"listen: 127.0.0.1:{free_port()}\nstate_directory: {tmp_path}\n")
    line = [COMMAND, "run", "--config", str(good), "--play", str(tmp_path)]
    ended = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 78
    assert "recording.json" in ended.stderr


def test_a_state_that_comes_late_is_not_overwritten(
    stall: Feed, tmp_path: Path, programs: Programs
) -> None:
    """Another process locks state.db at the start: the earlier incident is reported resolved."""
    with smtp_server() as (port, answers):
        program = started(programs, Played(tmp_path, stall, smtp_port=port))
        stall.give(110)
        first = parsed(program.mail(answers))
        program.until(
            lambda: program.metrics().get('iowarden_notifications_waiting{receiver="mail"}') == 0,
            "the mail",
        )
        assert program.end() == 0
        with contextlib.closing(sqlite3.connect(program.state / "state.db")) as held:
            held.execute("BEGIN EXCLUSIVE")
            program.feed = stall.resumed(tmp_path / "resumed")
            program.start()
            program.until(
                lambda: "state is in memory only" in program.text(), "the lock to be told"
            )
        # It is retried with each commit and every minute: the following frames cause one.
        program.feed.give(60)
        program.until(lambda: "state: works again" in program.text(), "the state to be read")
        program.feed.give()
        last = parsed(program.mail(answers))
        assert last["Subject"].startswith("[OK]")
        assert last["References"] == first["Message-ID"]


def test_a_broken_frame_ends_the_program_with_one_error(
    stall: Feed, tmp_path: Path, programs: Programs
) -> None:
    """A recording that cannot be played is bad input, and is not retried forever."""
    stall.give(10)
    (stall.directory / "000005" / "clock").write_text("monotonic_seconds soon\n")
    program = started(programs, Program(tmp_path, stall))
    assert program.process is not None
    assert program.process.wait(60) == 78
    assert "000005" in program.text()
    assert "Traceback" not in program.text()


def test_an_inherited_journal_stream_hides_nothing(
    stall: Feed, tmp_path: Path, programs: Programs
) -> None:
    """Started from a shell in a user session of systemd: its standard error is not the journal."""
    environment = {"JOURNAL_STREAM": "8:1234"}
    program = started(programs, Program(tmp_path, stall, environment=environment))
    stall.give(2)
    program.until(lambda: " info     ready" in program.text(), "its lines on standard error")
    assert "monitors this machine" in program.text()


def test_the_journal_of_the_machine_is_found(
    stall: Feed, tmp_path: Path, programs: Programs
) -> None:
    """By its usual path, from a terminal: the messages are in the journal as well."""
    with private_journald() as journald:
        program = Program(tmp_path, stall)
        program.prefix = journald.command()
        started(programs, program)
        stall.give(2)
        program.until(lambda: " info     ready" in program.text(), "its lines on standard error")
        (ready,) = journald.entries(f"MESSAGE_ID={journal.STARTED.message_id}")
    assert ready["SYSLOG_IDENTIFIER"] == "iowarden"


def test_a_test_mail_reports_what_the_server_reported(tmp_path: Path) -> None:
    """`iowarden test-mail`: the dialogue's lines, exit 0 if it was accepted and 1 if not."""
    settings = tmp_path / "iowarden.yaml"
    with smtp_server() as (port, answers):
        settings.write_text(
            f"state_directory: {tmp_path}\n"
            f"mail: {{server: 127.0.0.1, port: {port}, to: ops@example.com}}\n"
        )
        answer = run("test-mail", "--config", str(settings))
        assert answer.returncode == 0, answer.stdout + answer.stderr
        assert "queued as 4711" in answer.stdout
        assert "test" in parsed(answers.next())["Subject"]
        answers.message = "554 5.7.1 not from you"
        answer = run("test-mail", "--config", str(settings))
        assert answer.returncode == 1
        assert "not from you" in answer.stdout


def test_a_test_mail_without_a_server_reaches_nobody(tmp_path: Path) -> None:
    """It is written to the local Maildir: a script must not take that for delivered."""
    settings = tmp_path / "iowarden.yaml"
    settings.write_text(f"state_directory: {tmp_path}\n")
    answer = run("test-mail", "--config", str(settings))
    assert answer.returncode == 2
    assert answer.stdout.endswith("not sent: no mail server configured\n")
    assert len([*(tmp_path / "Maildir" / "new").iterdir()]) == 1


def test_the_journal_has_the_alert_with_its_fields(
    stall: Feed, tmp_path: Path, programs: Programs
) -> None:
    """`journalctl IOWARDEN_ALERT=WriteStall`: one firing, one end, both with their incident."""
    with private_journald() as journald, smtp_server() as (port, answers):
        program = Played(tmp_path, stall, smtp_port=port)
        program.journal_socket = journald.socket_path
        started(programs, program)
        stall.give()
        first = parsed(program.mail(answers))
        program.mail(answers)
        program.caught_up()
        firing = journald.entries("IOWARDEN_ALERT=WriteStall", "IOWARDEN_STATE=firing")
        assert [entry["IOWARDEN_SEVERITY"] for entry in firing] == ["warning"]
        assert firing[0]["IOWARDEN_INCIDENT"] == first["X-Iowarden-Incident"]
        assert firing[0]["SYSLOG_IDENTIFIER"] == "iowarden"
        assert firing[0]["MESSAGE_ID"] == journal.ALERT_FIRING.message_id
        assert len(journald.entries("IOWARDEN_ALERT=WriteStall", "IOWARDEN_STATE=resolved")) == 1
        opened = journald.entries(f"MESSAGE_ID={journal.INCIDENT_OPENED.message_id}")
        assert len(opened) == 1
        delivered = journald.entries(f"MESSAGE_ID={journal.MAIL_DELIVERED.message_id}")
        assert len(delivered) == 2


def test_a_journal_that_stops_reading_stops_nothing(
    stall: Feed, tmp_path: Path, programs: Programs
) -> None:
    """journald hangs with its socket full: ticks and mail continue, lost messages are counted."""
    with private_journald() as journald, smtp_server() as (port, answers):
        journald.process.send_signal(signal.SIGSTOP)
        full = False
        while not full:  # each sender may have only so much queued
            sender = journal.Log(socket_path=journald.socket_path)
            sender.send(journal.TROUBLE, 4, "filling the queue")
            full = sender.lost_total > 0
            while not sender.lost_total:
                sender.send(journal.TROUBLE, 4, "filling the queue")
            sender.close()
        program = Played(tmp_path, stall, smtp_port=port)
        program.journal_socket = journald.socket_path
        started(programs, program)
        stall.give()
        assert "writes stalled" in parsed(program.mail(answers))["Subject"]
        assert parsed(program.mail(answers))["Subject"].startswith("[OK]")
        program.caught_up()
        assert program.metrics()["iowarden_log_messages_lost_total"] > 0
        journald.process.send_signal(signal.SIGCONT)


def test_what_the_signals_learnt_outlives_a_kill(
    stall: Feed, tmp_path: Path, programs: Programs
) -> None:
    """The usual speed of the disk takes long to learn: it is in state.db ten minutes later."""
    program = started(programs, Played(tmp_path, stall))
    stall.give()
    program.caught_up()
    program.end(signal.SIGKILL)
    with contextlib.closing(sqlite3.connect(program.state / "state.db")) as state:
        query = "SELECT text FROM document WHERE name = 'signals'"
        (text,) = state.execute(query).fetchone()
    assert json.loads(text)["bandwidths"]
