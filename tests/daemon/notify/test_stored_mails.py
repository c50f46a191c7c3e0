"""Mails that were not sent: what waits, what lies in the Maildir, and that it does not fill up."""

from __future__ import annotations

import os
import queue
import re
import socket
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.smtp import smtp_server

from iowarden.daemon import journal, metrics
from iowarden.daemon.cli.main import main
from iowarden.daemon.control import control_socket, listen
from iowarden.daemon.notify import delivery, maildir, stored_mails
from iowarden.daemon.notify.attempt import OutboundMail, SendResult
from iowarden.daemon.notify.message import render
from iowarden.daemon.notify.outbox import Outbox
from iowarden.daemon.notify.retry import Fault, Hold
from iowarden.daemon.notify.routes import ALL, RouteState
from iowarden.daemon.receivers.dry_run import test_notice as make_notice
from iowarden.daemon.storage import state_db
from iowarden.daemon.storage.state_db import OutboxRow, StateChanges, StateDatabase
from iowarden.daemon.transition_log import TransitionLog
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEADLINE_SECONDS = 20.0
START = 1_800_000_000.0


def mail(number: int = 0, size_bytes: int = 0) -> OutboundMail:
    """A mail, each an hour after the one before."""
    message = render(make_notice(START + 3600 * number), "db1", "iowarden@db1", ("ops@db1",))
    data = message.as_bytes() + b"x" * size_bytes
    return OutboundMail(str(message["Message-ID"]), ("ops@db1",), data)


def row(number: int = 0) -> OutboxRow:
    """A mail of the outbox that was tried twice."""
    made = mail(number)
    return OutboxRow(
        made.message_id,
        f"test{int(START + 3600 * number):x}",
        1,
        Severity.CRITICAL,
        1_700_000_000.0,
        ("ops@db1",),
        made.data,
        attempts=2,
        last_error="mail: 'relay:25': refused",
    )


def name(number: int = 0) -> str:
    """The ID of a mail."""
    return f"test{int(START + 3600 * number):x}.1"


def deliver(directory: Path, outbound: OutboundMail) -> SendResult:
    """Write a mail to a Maildir, at its time."""
    attempt = maildir.deliver(str(directory), outbound)
    while True:
        try:
            next(attempt)
        except StopIteration as end:
            result: SendResult = end.value
            return result


class Journal:
    """A log that is read."""

    lost_total = 0

    def __init__(self) -> None:
        """Nothing was logged yet."""
        self.lines: list[tuple[journal.MessageKind, str]] = []

    def send(
        self, kind: journal.MessageKind, priority: int, message: str, **fields: object
    ) -> None:
        """Store a message."""
        self.lines.append((kind, message))

    def debug(self, text: str) -> None:
        """Store nothing."""


# --- the size of the Maildir


def test_a_full_maildir_loses_its_oldest_mails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host without a mail server for years: the newest mail always is there, read or not."""
    monkeypatch.setattr(maildir, "MAX_BYTES", 40_000)
    monkeypatch.setattr(maildir.prune, "__defaults__", (40_000,))
    directory = tmp_path / "Maildir"
    for number in range(3):
        assert deliver(directory, mail(number, 10_000)).discarded == 0
        for path in (directory / "new").iterdir():
            if name(number) in path.name:
                os.utime(path, (START + number, START + number))
    oldest = next(path for path in (directory / "new").iterdir() if name(0) in path.name)
    oldest.rename(directory / "cur" / f"{oldest.name}:2,S")  # a mail program read it
    result = deliver(directory, mail(3, 20_000))
    assert (result.discarded, result.delivered) == (2, ("ops@db1",))
    left = [path.name for folder in ("new", "cur") for path in (directory / folder).iterdir()]
    assert sorted(each.split(".")[1] for each in left) == [name(n)[:-2] for n in (2, 3)]
    assert deliver(directory, mail(4, 90_000)).discarded == 2
    assert len(list((directory / "new").iterdir())) == 1


def test_deleted_mails_are_logged_and_counted(tmp_path: Path) -> None:
    """In the journal and on '/metrics': they would be missed only in the next incident."""
    log = Journal()
    transitions = TransitionLog(log, lambda: START, lambda: 0.0)  # type: ignore[arg-type]
    state = StateDatabase(str(tmp_path / "state.db"), lambda _: None)
    sent: list[OutboundMail] = []

    class Sender:
        working_since = None
        servers = ()
        connections = 1
        hung_seconds = 90.0

        def submit(self, outbound: OutboundMail) -> None:
            sent.append(outbound)

    mails = delivery.Delivery(state, Sender(), transitions)  # type: ignore[arg-type]
    mails.commit({}, [row()], 0.0)
    mails.step(10.0)
    mails.sent(SendResult(sent[0].message_id, delivered=("ops@db1",), discarded=7), 11.0)
    ((_, line),) = [each for each in log.lines if each[0] is journal.MAIL_DISCARDED]
    assert "the 7 oldest mails were deleted" in line
    samples = {found: value for found, _, value in mails.samples(12.0)}
    assert samples[metrics.MAILS_DISCARDED.name] == 7.0
    state.close(DEADLINE_SECONDS)


# --- list and show


class Waiting(Outbox):
    """One mail in the outbox, which a server refused."""

    def __init__(self, created_seconds: float = 1_700_000_000.0) -> None:
        super().__init__()
        self.restore([replace(row(0), created_realtime_seconds=created_seconds)], created_seconds)

    def retry(self, now: float, receiver: str = "mail") -> None:
        """Retry it."""
        assert receiver == "mail"
        self.routes.open_all(now)


def test_a_refused_mail_is_listed_with_its_reason_and_its_next_attempt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then a successful test mail has the service retry it at once."""
    now = time.time()
    waiting = Waiting(now)
    hold = Hold(Fault.LOGIN, 1, now, now, "mail: 'mx1:587': AUTH: 535 no")
    waiting.routes.restore(RouteState({"": {ALL: hold}}))
    stored = stored_mails.StoredMails(waiting, str(tmp_path))
    control = control_socket.Control(
        listen.bind(path := str(tmp_path / listen.FILE_NAME)),
        lambda command: stored.answer(command, now),
        lambda _: None,
        remove=path,
    )
    try:
        assert main(["mail", "list", "--state-directory", str(tmp_path)]) == 0
        line = capsys.readouterr().out.splitlines()[-1]
        assert re.search(r"in 1[45] min", line)
        assert "AUTH: 535 no" in line
        assert main(["mail", "show", name(0), "--state-directory", str(tmp_path)]) == 0
        shown = capsys.readouterr().out
        assert re.search(r"Next attempt: in 1[45] min", shown)
        assert "Waits because: refused for ops@db1 (1 attempt): mail: 'mx1:587': AUTH" in shown
        config = tmp_path / "iowarden.yaml"
        with smtp_server() as (port, answers):
            config.write_text(f"mail: {{server: 127.0.0.1, port: {port}, to: a@x}}\n")
            words = ["test-mail", "--config", str(config), "--state-directory", str(tmp_path)]
            assert main(words) == 0
            answers.next()
        assert "the service retries the mails that wait" in capsys.readouterr().out
        assert waiting.next(now) is not None
    finally:
        control.close()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[queue.SimpleQueue[Any]]:
    """The control socket of a service with one mail in the outbox and one in the Maildir."""
    deliver(tmp_path / "Maildir", mail(1))
    stored = stored_mails.StoredMails(Waiting(), str(tmp_path / "Maildir"))
    path = str(tmp_path / listen.FILE_NAME)
    control = control_socket.Control(
        listen.bind(path), lambda command: stored.answer(command, 0.0), lambda _: None, remove=path
    )
    yield queue.SimpleQueue()
    control.close()


def test_the_service_lists_both(
    service: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what the server answered last, and where each lies."""
    assert main(["mail", "list", "--state-directory", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    copies = "1 copy in the Maildir: sent since, or no longer news"
    assert lines[0] == f"1 mail not sent; {copies}"
    places = [[name(0), "outbox", "waits"], [name(1), "Maildir", "copy"]]
    assert [line.split()[:3] for line in lines[-2:]] == places
    assert "mail: 'relay:25': refused" in lines[-2]
    assert "this is a test; nothing is wrong" in lines[-1]


def test_the_service_shows_one(
    service: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a person reads it: no encoding, no HTML; by the beginning of its ID."""
    assert main(["mail", "show", name(1)[:-2], "--state-directory", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "Subject: [TEST] db1: this is a test; nothing is wrong\n" in out
    assert "\n\nWHAT HAPPENED\n" in out
    assert "<html" not in out
    assert main(["mail", "show", "test", "--state-directory", str(tmp_path)]) == 1
    assert "write more of it" in capsys.readouterr().err
    assert main(["mail", "show", "nothing", "--state-directory", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "expected the beginning of an ID, got 'nothing'; there are " in error
    assert "see 'iowarden mail list'" in error


def test_a_test_mail_names_no_incident_that_there_is_not(
    service: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """'incident show' of it would answer that there is none."""
    assert main(["mail", "show", name(1), "--state-directory", str(tmp_path)]) == 0
    text = capsys.readouterr().out.partition("\n\n")[2]
    assert "\nTEST\n  test mail, written Fri 2027-" in text
    assert not re.search(r"(?i)iowarden ack|incident", text)


def test_without_the_service_the_files_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It does not start: the mails about that are what is needed now. Nothing is changed."""
    answers: queue.SimpleQueue[object] = queue.SimpleQueue()
    state = StateDatabase(str(tmp_path / "state.db"), answers.put)
    state.load()
    assert isinstance(answers.get(timeout=DEADLINE_SECONDS), state_db.StateLoaded)
    state.commit(StateChanges(1, add=(row(0),)))
    assert isinstance(answers.get(timeout=DEADLINE_SECONDS), state_db.Committed)
    state.close(DEADLINE_SECONDS)
    deliver(tmp_path / "Maildir", mail(1))
    before = (tmp_path / "state.db").read_bytes()
    assert main(["mail", "list", "--json", "--state-directory", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert out.index(name(0)) < out.index(name(1))
    assert "iowarden is not running" in err
    assert main(["mail", "show", name(0), "--state-directory", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "WHAT HAPPENED" in out
    assert "Next attempt: when the service runs\n" in out
    assert (tmp_path / "state.db").read_bytes() == before


def test_without_the_service_and_its_files_it_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No list that looks empty."""
    assert main(["mail", "list", "--state-directory", str(tmp_path / "none")]) == 1
    assert "/none': cannot be read either" in capsys.readouterr().err


def test_a_mail_that_cannot_be_parsed_is_no_disk_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library fails at what a mail program put there: the answer comes at once, with that."""

    def fail(_: str) -> list[object]:
        raise ValueError("no such header")

    monkeypatch.setattr(stored_mails, "of_maildir", fail)
    replies: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stored = stored_mails.StoredMails(Waiting(), str(tmp_path), 3600.0)
    stored.answer(control_socket.ControlCommand("mail list", {}, "alice", replies.put), 0.0)
    note = replies.get(timeout=DEADLINE_SECONDS)["answer"].note
    assert note.startswith("the Maildir: bug: ")
    assert "no such header" in note


def test_a_maildir_that_hangs_does_not_hide_the_outbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer has what is known, and says what is missing; one thread waits, not two."""
    hung, go_on = socket.socketpair()
    monkeypatch.setattr(stored_mails, "of_maildir", lambda _: [*hung.recv(1)])
    replies: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stored = stored_mails.StoredMails(Waiting(), str(tmp_path), 0.05)
    for _ in range(2):
        stored.answer(control_socket.ControlCommand("mail list", {}, "alice", replies.put), 0.0)
    notes = {replies.get(timeout=DEADLINE_SECONDS)["answer"].note for _ in range(2)}
    go_on.close()
    hung.close()
    assert notes == {
        "the Maildir is being read for another command; try again in a moment",
        "the Maildir could not be read within 50 ms: its disk may hang",
    }
