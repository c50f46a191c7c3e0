"""Mails that only went to the Maildir, since no server was configured: sent when one is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iowarden.daemon.notify import maildir, stored_mails
from iowarden.daemon.notify.attempt import OutboundMail, SendResult
from iowarden.daemon.notify.delivery import Delivery
from iowarden.daemon.storage.state_db import Committed, OutboxRow, StateChanges
from iowarden.daemon.transition_log import TransitionLog
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from pathlib import Path

    from iowarden.daemon.notify.channel import MessageSender

START = 1_795_266_034.0
HOUR, DAY = 3600.0, 86400.0


class Log:
    """Keeps what is logged."""

    lost_total = 0

    def __init__(self) -> None:
        self.texts: list[str] = []

    def send(self, kind: object, priority: int, text: str, **_: object) -> None:
        """Keep a line."""
        self.texts.append(text)

    def debug(self, text: str) -> None:
        """Keep nothing."""


class Sent:
    """A sender that keeps what it is given: a Maildir, without servers, or a mail server."""

    def __init__(self, *servers: str) -> None:
        self.servers = servers
        self.hung_seconds = 1800.0
        self.connections = 2
        self.working_since: float | None = None
        self.mails: list[OutboundMail] = []

    def submit(self, mail: OutboundMail) -> None:
        """Keep a mail."""
        self.mails.append(mail)

    def close(self, timeout_seconds: float) -> bool:
        """Return True: nothing is left."""
        return timeout_seconds >= 0


class Host:
    """The queue of mails, and what state.db has of it."""

    def __init__(self, sender: MessageSender, rows: dict[str, OutboxRow] | None = None) -> None:
        """Start with what the last run left."""
        self.rows = rows or {}
        self.working_since: float | None = None
        self.unwritten_since: float | None = None
        self.log = Log()
        log = TransitionLog(self.log, lambda: START, lambda: START)  # type: ignore[arg-type]
        self.delivery = Delivery(self, sender, log)
        self.delivery.restore(self.rows.values(), START)

    def load(self) -> None:
        """As state.db."""

    def retry(self) -> None:
        """As state.db."""

    def commit(self, batch: StateChanges) -> None:
        """Store a batch."""
        for message_id in batch.remove:
            self.rows.pop(message_id, None)
        self.rows |= {row.message_id: row for row in batch.add}
        self.sequence = batch.sequence

    def write(self, incident: str, at: float) -> None:
        """Have a mail written and put into the Maildir."""
        name = f"<iowarden.{incident}.1@db1>"
        head = f"Subject: {incident}\r\nFrom: iowarden@db1\r\nTo: root\r\n"
        data = f"{head}Message-ID: {name}\r\n\r\ntext\r\n".encode()
        row = OutboxRow(name, incident, 1, Severity.WARNING, at, ("root",), data)
        self.delivery.commit({}, [row], at)
        self.deliver(at)

    def deliver(self, now: float) -> None:
        """Have all mails of now accepted."""
        sender = self.delivery.sender
        assert isinstance(sender, Sent)
        for _ in range(10):
            self.delivery.committed(Committed(self.sequence))
            before = len(sender.mails)
            self.delivery.step(now)
            self.delivery.committed(Committed(self.sequence))
            self.delivery.step(now)
            for mail in sender.mails[before:]:
                is_local = not sender.servers
                result = SendResult(mail.message_id, delivered=mail.recipients, is_local=is_local)
                self.delivery.sent(result, now)


@pytest.mark.parametrize("is_restarted", [True, False], ids=["restart", "reload"])
def test_what_nobody_was_sent_goes_as_one_digest_when_a_server_is_configured(
    is_restarted: bool,
) -> None:
    """A week without a server: what is open or younger than a day, to whom is mailed today."""
    host = Host(Sent())
    for incident, age in (("open", 6 * DAY), ("over", 5 * DAY), ("new", HOUR)):
        host.write(incident, START - age)
    assert len(host.delivery) == 0, "nothing waits: the Maildir has them"
    server = Sent("mx1:25")
    if is_restarted:
        host = Host(server, host.rows)
        assert host.log.texts == []
    else:
        host.delivery.sender = server
    host.delivery.send_local_mails(("ops@example.com",), {"open"}, START)
    host.deliver(START)
    (digest,) = server.mails
    assert digest.recipients == ("ops@example.com",)
    assert b"Subject: open" in digest.data
    assert b"Subject: new" in digest.data
    assert b"Subject: over" not in digest.data
    assert host.rows == {}
    host.delivery.send_local_mails(("ops@example.com",), {"open"}, START)
    host.deliver(START)
    assert len(server.mails) == 1, "once"


def test_a_copy_in_the_maildir_does_not_count_as_unsent_once_a_server_has_it(
    tmp_path: Path,
) -> None:
    """Listed before, on its way, and afterwards: once each time."""
    host = Host(Sent())
    host.write("new", START - HOUR)
    (row,) = host.rows.values()
    [*maildir.deliver(str(tmp_path), OutboundMail("<iowarden.new.1@db1>", ("root",), row.data))]

    def listed() -> list[tuple[str, str, bool]]:
        mails = stored_mails.together(host.delivery.rows(), stored_mails.of_maildir(str(tmp_path)))
        return [(entry.identifier, entry.place, entry.waits) for entry, _ in mails]

    assert listed() == [("new.1", "Maildir", True)]
    host.delivery.sender = Sent("mx1:25")
    host.delivery.send_local_mails(("root",), {"new"}, START)
    assert listed() == [("new.1", "outbox", True)]
    host.deliver(START)
    assert listed() == [("new.1", "Maildir", False)]


def test_without_a_server_only_what_is_news_is_kept() -> None:
    """An incident that is over is forgotten after a day; nothing is sent."""
    host = Host(Sent())
    for incident, age in (("open", 6 * DAY), ("over", 5 * DAY), ("new", HOUR)):
        host.write(incident, START - age)
    host.delivery.send_local_mails(("root",), {"open"}, START)
    host.deliver(START)
    assert sorted(row.incident for row in host.rows.values()) == ["new", "open"]


def test_only_the_server_in_use_has_accepted_a_notification() -> None:
    """`iowarden check` was OK of a mail server that was configured a minute ago, and of none."""
    host = Host(Sent())
    host.write("local", START)
    age = "iowarden_notifications_last_delivered_age_seconds"

    def ages() -> list[float]:
        return [value for name, _, value in host.delivery.samples(START + 60) if name == age]

    assert ages() == [], "a Maildir is nobody's mailbox"
    host.delivery.sender = Sent("mx1:25")
    host.write("sent", START)
    assert ages() == [60.0]
    host.delivery.sender = Sent("mx2:25")
    assert ages() == [], "mx2 has not accepted anything"
