"""The ledger: what becomes of a notification, in the batch of what becomes of its row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.daemon.notify.ledger import Ledger
from iowarden.daemon.notify.outbox import Outbox
from iowarden.daemon.storage.notifications import Notification, NotificationStatus
from iowarden.daemon.storage.state_db import LOCAL, MAIL, OutboxRow, StateChanges
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

START = 1_795_266_034.0
ACCEPTED, LOCALLY = NotificationStatus.ACCEPTED, NotificationStatus.LOCAL
MAYBE, QUEUED = NotificationStatus.MAYBE, NotificationStatus.QUEUED


def row(name: str, *states: tuple[str, int], receiver: str = MAIL) -> OutboxRow:
    """Return a message that reports states of incidents."""
    head = f"Subject: {name}\r\nFrom: iowarden@db1\r\nTo: ops@x\r\nMessage-ID: <{name}>\r\n\r\n"
    return OutboxRow(
        f"<{name}>",
        states[0][0],
        states[0][1],
        Severity.CRITICAL,
        START,
        ("ops@x",),
        head.encode(),
        receiver=receiver,
        states=states,
    )


class Book:
    """A ledger, and what state.db has of it."""

    def __init__(self, stored: Mapping[tuple[str, int, str], Notification] | None = None) -> None:
        """Start with what the last run left."""
        self.ledger = Ledger()
        self.stored = dict(stored or {})

    def write(self, batch: StateChanges, **reached: list[str]) -> StateChanges:
        """Store a batch, with what became of messages by status."""
        by_status = {NotificationStatus[name.upper()]: ids for name, ids in reached.items()}
        batch = self.ledger.changes(batch, START + 60.0, by_status)
        for key in batch.forget:
            del self.stored[key]
        self.stored |= {each.key: each for each in batch.notifications}
        return batch

    def statuses(self) -> dict[tuple[str, int, str], NotificationStatus]:
        """Return what state.db says."""
        return {key: each.status for key, each in self.stored.items()}


def test_a_mail_is_queued_with_its_row_and_accepted_with_its_deletion() -> None:
    """One batch each: a kill leaves both or none."""
    book = Book()
    first = book.write(StateChanges(1, add=(row("m", ("disk", 1)),)))
    assert [each.status for each in first.notifications] == [QUEUED]
    assert not book.ledger.is_accepted([("disk", 1)])
    last = book.write(StateChanges(2, remove=("<m>",)), accepted=["<m>"])
    assert [(each.key, each.status) for each in last.notifications] == [
        (("disk", 1, MAIL), ACCEPTED)
    ]
    assert last.notifications[0].since_realtime_seconds == START + 60.0
    assert book.ledger.is_accepted([("disk", 1)])
    assert not book.ledger.is_accepted([("disk", 2)]), "what came back since is another state"


def test_a_mail_without_a_reply_may_have_arrived_until_a_server_accepts_it() -> None:
    """Also if that server refuses it the next time: the first attempt may have arrived."""
    book = Book()
    mail = row("m", ("disk", 1))
    book.write(StateChanges(1, add=(mail,)))
    book.write(StateChanges(2, add=(mail,)), maybe=["<m>"])
    book.write(StateChanges(3, add=(replace(mail, attempts=2),)))
    assert book.statuses() == {("disk", 1, MAIL): MAYBE}
    book.write(StateChanges(4, remove=("<m>",)), accepted=["<m>"])
    assert book.statuses() == {("disk", 1, MAIL): ACCEPTED}


def test_a_discarded_mail_leaves_nothing_behind_and_one_that_a_recipient_has_stays_accepted() -> (
    None
):
    """After 30 days of refusals: of one mail nobody has it, of the other one of two."""
    book = Book()
    nobody, somebody = row("n", ("disk", 1)), row("s", ("array", 1))
    book.write(StateChanges(1, add=(nobody, somebody)))
    book.write(StateChanges(2, add=(somebody,)), accepted=["<s>"])
    book.write(StateChanges(3, remove=("<n>", "<s>")))
    assert book.statuses() == {("array", 1, MAIL): ACCEPTED}


def test_what_another_row_still_reports_stays_queued() -> None:
    """A short form takes the place of a mail whose size was refused; a webhook has its own."""
    book = Book()
    book.write(StateChanges(1, add=(row("m", ("disk", 1)), row("h", ("disk", 1), receiver="ops"))))
    book.write(StateChanges(2, add=(row("m-plain", ("disk", 1)),), remove=("<m>",)))
    assert book.statuses() == {("disk", 1, MAIL): QUEUED, ("disk", 1, "ops"): QUEUED}
    book.write(StateChanges(3, remove=("<m-plain>",)))
    assert book.statuses() == {("disk", 1, "ops"): QUEUED}


def test_a_mail_that_replaces_others_reports_their_states_as_well() -> None:
    """Accepted, it is the notification of all of them."""
    outbox = Outbox()
    outbox.add(row("m1", ("disk", 1)), START, 1)
    outbox.add(row("m2", ("disk", 2)), START, 1)
    (stored,) = outbox.add(row("m3", ("disk", 3)), START, 2, replaced=("<m1>", "<m2>"))
    assert stored.states == (("disk", 3), ("disk", 1), ("disk", 2))


def test_after_a_restart_a_lost_row_is_no_notification_and_one_in_flight_may_have_arrived() -> None:
    """A row could not be read, another one was being sent when the program was killed."""
    book = Book()
    sent = row("sent", ("disk", 1))
    book.write(StateChanges(1, add=(sent, row("lost", ("array", 1)))))
    later = Book(book.stored)
    later.ledger.restore(book.stored.values(), [replace(sent, maybe_taken=True)], START)
    later.write(StateChanges(1))
    assert later.statuses() == {("disk", 1, MAIL): MAYBE}


def test_what_only_a_maildir_has_is_queued_once_a_server_is_configured() -> None:
    """A Maildir is nobody: until a server accepts it, nobody was notified."""
    book = Book()
    mail = row("m", ("disk", 1))
    book.write(StateChanges(1, add=(mail,)))
    copy = replace(mail, message_id="Maildir:<m>", receiver=LOCAL)
    book.write(StateChanges(2, add=(copy,), remove=("<m>",)), local=["<m>"])
    assert book.statuses() == {("disk", 1, MAIL): LOCALLY}
    later = Book(book.stored)
    later.ledger.restore(book.stored.values(), [copy], START)
    assert not later.ledger.is_accepted([("disk", 1)])
    later.write(StateChanges(1, add=(mail,), remove=("Maildir:<m>",)))
    assert later.statuses() == {("disk", 1, MAIL): QUEUED}


def test_the_ledger_of_an_incident_is_kept_as_long_as_the_incident() -> None:
    """And as long as one of its mails waits, so that its end is known."""
    book = Book()
    book.write(StateChanges(1, add=(row("m", ("disk", 1)), row("n", ("array", 1)))))
    book.write(StateChanges(2, remove=("<m>",)), accepted=["<m>"])
    book.ledger.keep({"disk"})
    book.write(StateChanges(3))
    assert book.statuses() == {("disk", 1, MAIL): ACCEPTED, ("array", 1, MAIL): QUEUED}
    book.ledger.keep(())
    book.write(StateChanges(4))
    assert book.statuses() == {("array", 1, MAIL): QUEUED}
