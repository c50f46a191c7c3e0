"""Delivery of mails, and the numbered write batches for state.db. For the main loop's thread only.

Every batch for state.db gets a number here, also batches of alerts and incidents, so that at a stop
it is known whether all of them are durable.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from iowarden.daemon import journal, metrics
from iowarden.daemon.control.documents import MailLine
from iowarden.daemon.notify.attempt import OutboundMail, SendResult
from iowarden.daemon.notify.outbox import Outbox
from iowarden.daemon.storage.state_db import Committed, OutboxRow, StateChanges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iowarden.collectors.model import Sample
    from iowarden.daemon.transition_log import TransitionLog

RECEIVER = (("receiver", "mail"),)
"""Label of the metrics of notifications: mail is the only receiver today."""
HUNG_SECONDS = 10.0


class MailStore(Protocol):
    """Persists changes and never blocks; as state_db.State."""

    working_since: float | None
    unwritten_since: float | None

    def load(self) -> None:
        """Request the stored state."""

    def commit(self, batch: StateChanges) -> None:
        """Request that a batch is written."""

    def retry(self) -> None:
        """Retry failed writes now."""


class MailSender(Protocol):
    """Makes a delivery attempt and never blocks; as sender.Sender."""

    working_since: float | None

    def submit(self, mail: OutboundMail) -> None:
        """Request one attempt."""

    def close(self, timeout_seconds: float) -> bool:
        """End after the submitted mails."""


class Delivery:
    """The outbox, its sender, and the numbered batches for state.db.

    `log.send` logs single messages, `log.trouble` lasting errors: key, text ('' ends it), kind.
    """

    def __init__(
        self,
        state: MailStore,
        sender: MailSender,
        log: TransitionLog,
    ) -> None:
        """Start with an empty outbox."""
        self.sender = sender
        self.delivered_total = 0
        self._failed_total = 0
        self._delivered_seconds: float | None = None
        self._discarded_total = 0
        self._state = state
        self._log = log
        self._outbox = Outbox()
        self._sending = False
        self._commits = 0
        self._confirmed = 0
        self._written = True
        self._problem = ""

    def __len__(self) -> int:
        """Return the number of waiting mails."""
        return len(self._outbox)

    def rows(self) -> tuple[OutboxRow, ...]:
        """Return the mails of the outbox."""
        return self._outbox.rows()

    def awaits_state(self) -> bool:
        """Whether state.db has not confirmed every batch."""
        return self._confirmed < self._commits

    def busy(self) -> bool:
        """Whether a mail or a batch is in progress."""
        return self._sending or self.awaits_state()

    def durable(self) -> bool:
        """Whether state.db has confirmed that all batches are written."""
        return self._written and not self.awaits_state()

    def commit(
        self,
        put: Mapping[str, str],
        rows: Iterable[OutboxRow],
        now: float,
        *,
        delete: tuple[str, ...] = (),
        aside: Mapping[str, str] | None = None,
        replaced: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        """Add mails, and request that they are written together with the changed state.

        `replaced`: by the ID of a mail, the IDs of the mails that it replaces.
        """
        self._commits += 1
        gone = replaced or {}
        added = tuple(
            out
            for row in rows
            for out in self._outbox.add(row, now, self._commits, gone.get(row.message_id, ()))
        )
        remove = tuple(each for ids in gone.values() for each in ids)
        self._state.commit(
            StateChanges(
                self._commits, put=put, delete=delete, add=added, remove=remove, aside=aside or {}
            )
        )

    def outdated(self, now: float) -> dict[str, tuple[OutboxRow, ...]]:
        """Return by incident the mails that may be replaced; as Outbox.outdated."""
        return self._outbox.outdated(now)

    def committed(self, event: Committed) -> None:
        """Process a confirmation of state.db."""
        self._confirmed = max(self._confirmed, event.sequence)
        self._written = not event.error
        self._outbox.committed(event)

    def restore(self, rows: Iterable[OutboxRow], now: float) -> None:
        """Restore the mails that waited when the program ended."""
        self._outbox.restore(rows, now)

    def step(self, now: float) -> None:
        """Send the next due mail, unless one is being sent."""
        if self._sending:
            return
        # If the program is killed, it must still be known that the server may have the mail.
        marked = self._outbox.begin(now, self._commits + 1)
        if marked is not None:
            self._write(marked)
        row = self._outbox.next(now)
        if row is not None:
            self._sending = True
            to = ", ".join(row.recipients_pending)
            self._log.debug(f"mail {row.message_id}: attempt {row.attempts + 1}, to {to}")
            self.sender.submit(OutboundMail(row.message_id, row.recipients_pending, row.data))

    def sent(self, result: SendResult, now: float) -> None:
        """Process the result of the mail that was being sent."""
        self._sending = False
        row = self._outbox.row(result.message_id)
        batch, problem = self._outbox.sent(result, now, self._commits + 1)
        self._write(batch)
        if result.delivered:
            self.delivered_total += 1
            self._delivered_seconds = now
            self._log.send(
                journal.MAIL_DELIVERED,
                6,
                f"mail {result.message_id} delivered to {', '.join(result.delivered)}:"
                f" {result.answer}",
                IOWARDEN_INCIDENT="" if row is None else row.incident,
            )
        if result.discarded:
            self._discarded_total += result.discarded
            self._log.send(
                journal.MAIL_DISCARDED,
                4,
                f"mail: the Maildir is full: the {result.discarded} oldest mails were deleted; set"
                " 'mail.server', so that mails are sent",
            )
        self._problem = problem
        if problem:
            self._failed_total += 1
        self._log.trouble("mail", problem, journal.MAIL_FAILED)

    def check_threads(self, timeout_seconds: float) -> None:
        """Log when a thread has been blocked for too long, for example by a hung disk.

        `timeout_seconds` is the time limit of an attempt to send.
        """
        self._log.hung(
            "state.db",
            self._state.working_since,
            HUNG_SECONDS,
            f"state: writing state.db has been blocked for over {HUNG_SECONDS:.0f} s; mails are"
            " still sent from memory, changes will be written when the disk responds",
            journal.STATE_TROUBLE,
        )
        limit = 3 * timeout_seconds
        self._log.hung(
            "mail thread",
            self.sender.working_since,
            limit,
            f"mail: a delivery attempt has been blocked for over {limit:.0f} s: name resolution or"
            " the disk of a Maildir hangs; no other attempt starts, the mails wait in the outbox",
            journal.MAIL_FAILED,
        )

    def log_state(self, now: float, limit_seconds: float) -> None:
        """Log that mails are overdue or were discarded: no mail can report that."""
        overdue = self._outbox.overdue(now, limit_seconds)
        if overdue is not None:
            priority, text = overdue
            self._log.send(journal.MAIL_FAILED, priority, text)
        batch, lines = self._outbox.drop_refused(now, self._commits + 1)
        if lines:
            self._write(batch)
        for line in lines:
            self._log.send(journal.MAIL_FAILED, 3, line)

    def retry_refused(self, recipients: tuple[str, ...], now: float) -> None:
        """Retry permanently refused mails, to the recipients configured now."""
        batch = self._outbox.retry_refused(recipients, now, self._commits + 1)
        if batch.add or batch.remove:
            self._write(batch)

    def samples(self, now: float) -> list[Sample]:
        """Return the samples of mails and of state.db."""
        since = self._state.unwritten_since
        waited = 0.0 if since is None else time.monotonic() - since
        last = self._delivered_seconds
        ages = [] if last is None else [(metrics.MAIL_LAST_DELIVERED.name, RECEIVER, now - last)]
        return [
            *ages,
            (metrics.MAILS.name, (*RECEIVER, ("result", "delivered")), float(self.delivered_total)),
            (metrics.MAILS.name, (*RECEIVER, ("result", "failed")), float(self._failed_total)),
            (metrics.MAILS_WAITING.name, RECEIVER, float(len(self._outbox))),
            (metrics.MAILS_DISCARDED.name, RECEIVER, float(self._discarded_total)),
            (metrics.MAILS_REFUSED.name, RECEIVER, float(self._outbox.refused())),
            (
                metrics.MAIL_OLDEST_UNSENT.name,
                RECEIVER,
                self._outbox.oldest_unsent_seconds(now) or 0.0,
            ),
            (metrics.STATE_UNWRITTEN.name, (), round(waited, 3)),
        ]

    def line(self, destination: str, now: float, realtime: Callable[[float], float]) -> MailLine:
        """Return the mail queue's state, for 'iowarden status'."""
        age, due = self._outbox.oldest_unsent_seconds(now), self._outbox.next_due(now)
        return MailLine(
            receiver=destination,
            waiting=len(self._outbox),
            refused=self._outbox.refused(),
            oldest_seconds=None if age is None else realtime(now - age),
            next_seconds=None if due is None else realtime(due),
            error=self._problem,
        )

    def _write(self, batch: StateChanges) -> None:
        self._commits += 1
        self._state.commit(batch)
