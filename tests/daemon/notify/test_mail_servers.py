"""Outbox, sender and real SMTP servers together, on a played clock: what servers get, and when."""

from __future__ import annotations

import email
import email.policy
import queue
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from support.smtp import (
    DEADLINE_SECONDS,
    Answers,
    dialogue,
    free_port,
    scripted_server,
    smtp_server,
)

from iowarden.daemon.notify.attempt import OutboundMail, SendResult
from iowarden.daemon.notify.outbox import Outbox
from iowarden.daemon.notify.sender import CONNECTIONS, mail_sender
from iowarden.daemon.notify.smtp import MailSettings, StepLimits
from iowarden.daemon.storage.state_db import OutboxRow
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

START = 1795266034.0
MINUTE, HOUR = 60.0, 3600.0
TO = ("a@x", "b@x")


def settings(port: int, **changes: object) -> MailSettings:
    """Return settings of a server on this machine."""
    given = {"user": None, "password": None, "limits": StepLimits(), **changes}
    return MailSettings(
        "127.0.0.1",
        port,
        "auto",
        sender="iowarden@db1",
        timeout_seconds=None,
        hello="db1",
        **given,  # type: ignore[arg-type]
    )


def mail(number: int, size: int = 0) -> OutboxRow:
    """Return a critical mail."""
    name = f"<iowarden.i{number}.1@db1>"
    head = f"Subject: mail {number}\r\nFrom: iowarden@db1\r\nTo: a@x, b@x\r\nMessage-ID: {name}\r\n"
    data = head.encode() + b"\r\ntext\r\n" + b"x\r\n" * (size // 3)
    return OutboxRow(name, f"i{number}", 1, Severity.CRITICAL, START + number, TO, data)


class Post:
    """An outbox and its sender; the clock advances to each attempt."""

    def __init__(self, *servers: MailSettings) -> None:
        self.now = START
        self.results: queue.Queue[object] = queue.Queue()
        self.sender = mail_sender(self.results.put, *servers)
        self.outbox = Outbox()
        self.outbox.servers, self.outbox.connections = self.sender.servers, CONNECTIONS
        self.attempts: list[tuple[int, int]] = []
        """Minutes since the start, and which server."""

    def begin(self) -> bool:
        """Begin an attempt that is due now."""
        row = self.outbox.next(self.now)
        if row is None:
            return False
        server, is_other_left = self.outbox.server_of(row.message_id)
        self.attempts.append(
            (round((self.now - START) / MINUTE), self.sender.servers.index(server))
        )
        self.sender.submit(
            OutboundMail(row.message_id, row.recipients_pending, row.data, 1, server, is_other_left)
        )
        return True

    def take(self) -> SendResult:
        """Process the result of an attempt."""
        result = self.results.get(timeout=DEADLINE_SECONDS)
        assert isinstance(result, SendResult)
        self.outbox.sent(result, self.now)
        return result

    def run(self, until: float) -> None:
        """Make all attempts of a time."""
        while (due := self.outbox.next_due(self.now)) is not None and due <= START + until:
            self.now = max(self.now, due)
            assert self.begin()
            self.take()


@contextmanager
def post(*servers: MailSettings) -> Iterator[Post]:
    """Run an outbox with a sender."""
    made = Post(*servers)
    try:
        yield made
    finally:
        made.sender.close(DEADLINE_SECONDS)


def test_a_relay_that_answers_554_for_a_minute_gets_the_mail_later() -> None:
    """At the greeting, at MAIL, at RCPT, at the end of data: no critical mail is lost."""
    for broken in (
        Answers(sender="554 5.7.1 maintenance"),
        Answers(recipients=dict.fromkeys(TO, "554 5.7.1 maintenance")),
        Answers(message="554 5.3.0 maintenance"),
    ):
        with smtp_server(broken) as (port, answers), post(settings(port)) as office:
            office.outbox.restore([mail(1), mail(2), mail(3)], START)
            office.run(MINUTE - 1)
            assert len(office.outbox) == 3
            answers.sender, answers.recipients, answers.message = "", {}, "250 OK"
            office.run(4 * MINUTE)
            assert len(office.outbox) == 0
            first, digest = answers.next(), answers.next()
            assert first.data.startswith(b"Subject: mail ")
            assert b"2 delayed mails" in digest.data


def test_a_server_that_refuses_everybody_in_its_greeting_is_tried_now_and_then() -> None:
    """It lists this address today, and does not tomorrow."""
    with scripted_server(dialogue("554 5.7.1 listed\r\n")) as port, post(settings(port)) as office:
        office.outbox.restore([mail(1)], START)
        office.run(8 * HOUR)
    assert [at for at, _ in office.attempts] == [0, 1, 6, 36, 156]


def test_a_wrong_password_is_tried_six_times_a_day_and_the_other_server_is_used() -> None:
    """An account is not locked; meanwhile the second server sends each mail."""
    with (
        smtp_server(password="secret") as (port, _),
        smtp_server() as (other, answers),
        post(settings(port, user="iowarden", password="wrong"), settings(other)) as office,
    ):
        for number in range(8):
            office.now = max(office.now, START + number * HOUR)
            office.outbox.add(mail(number), office.now, 0)
            office.run(number * HOUR + 10)
        assert len(office.outbox) == 0
        assert answers.mails.qsize() == 8
    at_first = [at for at, server in office.attempts if server == 0]
    assert at_first == [0, 60, 120, 180, 240, 300], "by a new critical mail once an hour"


def test_a_server_that_cannot_check_passwords_now_is_tried_each_hour() -> None:
    """Its directory service is down for seven hours: no account is locked, the day is not over."""
    failing = dialogue("220 mx\r\n", "250-mx\r\n250 AUTH PLAIN\r\n", "454 4.7.0 try later\r\n")
    with (
        scripted_server(failing) as port,
        post(settings(port, user="iowarden", password="passw0rd")) as office,
    ):
        office.outbox.restore([mail(1)], START)
        office.run(8 * HOUR)
    assert [at for at, _ in office.attempts] == [60 * hour for hour in range(9)]


def test_a_policy_that_refuses_for_a_day_sees_the_plain_text_once() -> None:
    """Two refusals each time would be twice as many for the server to count."""
    broken = Answers(message="550 5.7.1 not from you")
    with smtp_server(broken) as (port, _), post(settings(port)) as office:
        office.outbox.restore([mail(1)], START)
        office.run(24 * HOUR)
    at = [at for at, _ in office.attempts]
    assert at[:2] == [0, 0]
    assert len(at[2:]) == len(set(at[2:])), "then the mail itself"


def test_one_refused_recipient_is_sent_to_by_the_other_server() -> None:
    """The first server does not know b@x; the second one does."""
    with (
        smtp_server(Answers(recipients={"b@x": "550 5.1.1 unknown"})) as (port, first),
        smtp_server() as (other, second),
        post(settings(port), settings(other)) as office,
    ):
        office.outbox.restore([mail(1)], START)
        office.run(10)
        assert first.next().recipients == ("a@x",)
        assert second.next().recipients == ("b@x",)
        assert len(office.outbox) == 0


def test_whom_all_servers_refuse_the_other_recipient_learns_at_once_in_one_line() -> None:
    """Somebody left, and his mailbox with him: only his colleague can correct that.

    Once: not at the next mail, not at the next attempt, and not after a restart.
    """
    unknown = Answers(recipients={"b@x": "550 5.1.1 no such user"})
    with (
        smtp_server(unknown) as (port, first),
        smtp_server(Answers(recipients=unknown.recipients)) as (other, second),
        post(settings(port), settings(other)) as office,
    ):
        office.outbox.restore([mail(1)], START)
        office.run(2)
        assert first.next().recipients == ("a@x",)
        line = first.next()
        assert line.recipients == ("a@x",)
        message = email.message_from_bytes(line.data, policy=email.policy.default)
        about = "no mail reaches b@x: all mail servers refuse it"
        assert message["Subject"] == f"[WARNING] db1: {about}"
        assert message["To"] == "a@x"
        assert "550 5.1.1 no such user" in " ".join(message.get_content().split())
        office.outbox.add(mail(2), office.now, 0)
        office.run(5 * HOUR)
        assert first.next().recipients == ("a@x",)
        after = Outbox()
        after.restore(office.outbox.rows(), office.now)
        after.servers, after.connections = office.outbox.servers, CONNECTIONS
        after.restore_routes(office.outbox.routes.state)
        office.outbox = after
        office.run(30 * HOUR)
        assert len(office.outbox) == 2, "both wait for b@x"
        assert (first.mails.qsize(), second.mails.qsize()) == (0, 0)


def test_the_other_server_may_refuse_everybody() -> None:
    """The fallback does not take this host; which address is wrong only the first one says."""
    unknown = Answers(recipients={"b@x": "550 5.1.1 no such user"})
    blocked = dialogue("554 5.7.1 your address is blocked\r\n")
    with (
        smtp_server(unknown) as (port, first),
        scripted_server(blocked) as other,
        post(settings(port), settings(other)) as office,
    ):
        office.outbox.restore([mail(1)], START)
        office.run(10)
        assert first.next().recipients == ("a@x",)
        line = email.message_from_bytes(first.next().data, policy=email.policy.default)
        assert line["Subject"] == "[WARNING] db1: no mail reaches b@x: all mail servers refuse it"
        assert "550 5.1.1 no such user" in " ".join(line.get_content().split())


def test_whom_one_server_refuses_and_the_other_accepts_nobody_hears_about() -> None:
    """The mail is there: nothing has to be corrected now."""
    with (
        smtp_server(Answers(recipients={"b@x": "550 5.1.1 no such user"})) as (port, first),
        smtp_server() as (other, second),
        post(settings(port), settings(other)) as office,
    ):
        office.outbox.restore([mail(1)], START)
        office.run(HOUR)
        assert [first.next().recipients, second.next().recipients] == [("a@x",), ("b@x",)]
        assert (first.mails.qsize(), second.mails.qsize()) == (0, 0)


def test_a_server_that_is_gone_costs_no_time_if_there_is_another_one() -> None:
    """Connection refused: the second server has the mail in the same second."""
    with smtp_server() as (other, answers), post(settings(free_port()), settings(other)) as office:
        office.outbox.restore([mail(1)], START)
        office.run(0)
        assert answers.next().recipients == TO
        assert office.attempts == [(0, 0), (0, 1)]


def swallowing(seen: list[bytes]) -> object:
    """Return a script of a server that reads a mail to the final dot and does not reply."""

    def script(connection: socket.socket, over: threading.Event) -> None:
        with connection.makefile("rb") as lines:
            for answer in (b"220 mx", b"250 mx", b"250 ok", b"250 ok", b"250 ok", b"354 go"):
                if not answer.startswith(b"220"):
                    lines.readline()
                connection.sendall(answer + b"\r\n")
            seen.append(b"".join(iter(lines.readline, b".\r\n")))

    return script


def test_a_server_that_takes_each_mail_without_a_reply_gets_four_copies_with_one_name() -> None:
    """Today it got ten: the same Message-ID within eight hours, then a digest that says so."""
    seen: list[bytes] = []
    with (
        scripted_server(swallowing(seen)) as port,  # type: ignore[arg-type]
        post(settings(port)) as office,
    ):
        office.outbox.restore([mail(1)], START)
        office.run(8 * HOUR)
        assert [at for at, _ in office.attempts] == [0, 10, 70, 430]
        assert seen == [mail(1).data] * 4
        office.run(32 * HOUR)
    assert b"may have reached you" in seen[4]
    assert mail(1).data.rstrip() in seen[4]


def test_a_server_that_is_slow_at_the_dot_holds_up_no_other_mail() -> None:
    """The second connection to it sends nine mails while the first one waits for the reply."""
    release, arrived = threading.Event(), threading.Event()
    seen: list[bytes] = []
    script = swallowing(seen)
    first = threading.Lock()

    def slow(connection: socket.socket, over: threading.Event) -> None:
        script(connection, over)  # type: ignore[operator]
        if first.acquire(blocking=False):
            arrived.set()
            release.wait(DEADLINE_SECONDS)
        connection.sendall(b"250 taken\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threads = []

        def serve() -> None:
            for _ in range(10):
                connection, _ = listener.accept()
                thread = threading.Thread(target=served, args=(connection,))
                thread.start()
                threads.append(thread)

        def served(connection: socket.socket) -> None:
            with connection:
                slow(connection, release)

        accepting = threading.Thread(target=serve)
        accepting.start()
        with post(settings(listener.getsockname()[1])) as office:
            office.outbox.restore([mail(number) for number in range(10)], START)
            assert office.begin()
            assert arrived.wait(DEADLINE_SECONDS)
            office.now += 2.0
            for _ in range(9):
                assert office.begin()
                assert office.take().delivered == TO
            assert len(office.outbox) == 1
            release.set()
            assert office.take().delivered == TO
        accepting.join(DEADLINE_SECONDS)
        for thread in threads:
            thread.join(DEADLINE_SECONDS)
    assert len(office.outbox) == 0


def test_a_mail_that_is_too_large_for_the_server_arrives_as_plain_text_at_once() -> None:
    """It announces a limit and refuses the size in MAIL FROM: 552 5.3.4."""

    class Small(Answers):
        async def handle_MAIL(self, server, session, envelope, address, options):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202, N802
            size = next(int(o[5:]) for o in options if o.lower().startswith("size="))
            if size > 50_000:
                return "552 5.3.4 message size exceeds the limit"
            envelope.mail_from = address
            return "250 OK"

    with smtp_server(Small()) as (port, answers), post(settings(port)) as office:
        office.outbox.restore([mail(1, 100_000)], START)
        office.run(0)
        taken = answers.next()
    assert len(office.attempts) == 2
    assert b"Message-ID: <iowarden.i1.1-plain@db1>" in taken.data
    assert len(taken.data) <= 20_000
    assert taken.recipients == TO
    assert len(office.outbox) == 0


def test_a_server_is_given_less_time_while_another_one_is_left() -> None:
    """It greets and says no more; the second server has the mail after the first limit."""
    limits = StepLimits(reply_seconds=DEADLINE_SECONDS * 10, hurried_seconds=0.2)
    with (
        scripted_server(dialogue("220 mx\r\n")) as port,
        smtp_server() as (other, answers),
        post(settings(port, limits=limits), settings(other)) as office,
    ):
        office.outbox.restore([mail(1)], START)
        office.run(0)
        assert answers.next().recipients == TO
