"""Mails on their way, and what state.db is asked to keep with them. For the loop's thread only.

Every batch for state.db has a number here, those of alerts and incidents as well, so that it is
known at a stop whether all of it is durable.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from iowarden.daemon import journal, metrics
from iowarden.daemon.control.documents import MailLine
from iowarden.daemon.notify.attempt import OutboundMail, SendResult
from iowarden.daemon.notify.outbox import Outbox
from iowarden.daemon.storage.state_db import Batch, Committed, OutboxRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iowarden.collectors.model import Sample
    from iowarden.daemon.transition_log import Telling

RECEIVER = (("receiver", "mail"),)
"""Label of the metrics of notifications: mail is the only receiver today."""
HUNG_SECONDS = 10.0


class Store(Protocol):
    """Keeps what changes, and never waits; as state_db.State."""

    working_since: float | None
    unwritten_since: float | None

    def load(self) -> None:
        """Ask for what is kept."""

    def commit(self, batch: Batch) -> None:
        """Ask for a batch to be written."""

    def retry(self) -> None:
        """Try again now what failed."""


class Sender(Protocol):
    """Makes an attempt, and never waits; as sender.Sender."""

    working_since: float | None

    def submit(self, mail: OutboundMail) -> None:
        """Ask for one attempt."""

    def close(self, timeout_seconds: float) -> bool:
        """End after what was submitted."""


class Delivery:
    """The outbox, who sends it, and the numbered batches for state.db.

    `log` says what happened once, `trouble` says what lasts: key, text ('' ends it), kind.
    """

    def __init__(
        self,
        state: Store,
        sender: Sender,
        log: Telling,
    ) -> None:
        """Nothing waits."""
        self.sender = sender
        self.delivered_total = 0
        self._failed_total = 0
        self._state = state
        self._log = log
        self._outbox = Outbox()
        self._sending = False
        self._commits = 0
        self._confirmed = 0
        self._written = True
        self._problem = ""

    def __len__(self) -> int:
        """Return how many mails wait."""
        return len(self._outbox)

    def awaits_state(self) -> bool:
        """Whether state.db has not answered for every batch."""
        return self._confirmed < self._commits

    def busy(self) -> bool:
        """Whether a mail or a batch is under way."""
        return self._sending or self.awaits_state()

    def durable(self) -> bool:
        """Whether all that was asked for is written, as far as state.db has answered."""
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
        """Take mails, and ask for them to be written with what changed beside them; as Batch.

        `replaced` are by the id of a mail those of the mails that it takes the place of.
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
            Batch(
                self._commits, put=put, delete=delete, add=added, remove=remove, aside=aside or {}
            )
        )

    def outdated(self, now: float) -> dict[str, tuple[OutboxRow, ...]]:
        """Return by incident the mails that may be replaced; as Outbox.outdated."""
        return self._outbox.outdated(now)

    def committed(self, event: Committed) -> None:
        """Take note of what state.db answered."""
        self._confirmed = max(self._confirmed, event.sequence)
        self._written = not event.error
        self._outbox.committed(event)

    def restore(self, rows: Iterable[OutboxRow], now: float) -> None:
        """Take the mails that waited when the program ended."""
        self._outbox.restore(rows, now)

    def step(self, now: float) -> None:
        """Send what is due, unless a mail is under way."""
        if self._sending:
            return
        # A kill must not make us forget that the server may have a mail.
        marked = self._outbox.begin(now, self._commits + 1)
        if marked is not None:
            self._write(marked)
        row = self._outbox.next(now)
        if row is not None:
            self._sending = True
            self.sender.submit(OutboundMail(row.message_id, row.recipients_pending, row.data))

    def sent(self, result: SendResult, now: float) -> None:
        """Take note of what became of the mail under way."""
        self._sending = False
        row = self._outbox.row(result.message_id)
        batch, problem = self._outbox.sent(result, now, self._commits + 1)
        self._write(batch)
        if result.delivered:
            self.delivered_total += 1
            self._log.send(
                journal.MAIL_DELIVERED,
                6,
                f"mail {result.message_id}: {', '.join(result.delivered)}: {result.answer}",
                IOWARDEN_INCIDENT="" if row is None else row.incident,
            )
        self._problem = problem
        if problem:
            self._failed_total += 1
        self._log.trouble("mail", problem, journal.MAIL_FAILED)

    def look_at_threads(self, timeout_seconds: float) -> None:
        """Say when a thread has not come back from the disk; its work goes on without it.

        `timeout_seconds` is how long an attempt to send may wait for each answer.
        """
        self._log.hung(
            "state.db",
            self._state.working_since,
            HUNG_SECONDS,
            f"state: writing state.db has not returned for over {HUNG_SECONDS:.0f} s; mails go on"
            " from memory, what changes is written when the disk answers",
            journal.STATE_TROUBLE,
        )
        limit = 3 * timeout_seconds
        self._log.hung(
            "mail thread",
            self.sender.working_since,
            limit,
            f"mail: an attempt has not returned for over {limit:.0f} s: a name look-up or the disk"
            " of a Maildir hangs; no second attempt beside it, the mails wait in the outbox",
            journal.MAIL_FAILED,
        )

    def look(self, now: float, limit_seconds: float) -> None:
        """Say in the journal what no mail can say: that mails wait, or are given up."""
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
        """Try what was refused for good again, to whoever is mailed today."""
        batch = self._outbox.retry_refused(recipients, now, self._commits + 1)
        if batch.add or batch.remove:
            self._write(batch)

    def samples(self, now: float) -> list[Sample]:
        """Return what metrics.py has of mails and of state.db."""
        since = self._state.unwritten_since
        waited = 0.0 if since is None else time.monotonic() - since
        return [
            (metrics.MAILS.name, (*RECEIVER, ("result", "delivered")), float(self.delivered_total)),
            (metrics.MAILS.name, (*RECEIVER, ("result", "failed")), float(self._failed_total)),
            (metrics.MAILS_WAITING.name, RECEIVER, float(len(self._outbox))),
            (metrics.MAILS_REFUSED.name, RECEIVER, float(self._outbox.refused())),
            (
                metrics.MAIL_OLDEST_UNSENT.name,
                RECEIVER,
                self._outbox.oldest_unsent_seconds(now) or 0.0,
            ),
            (metrics.STATE_UNWRITTEN.name, (), round(waited, 3)),
        ]

    def line(self, destination: str, now: float, realtime: Callable[[float], float]) -> MailLine:
        """Return what waits, for 'iowarden status'."""
        age, due = self._outbox.oldest_unsent_seconds(now), self._outbox.next_due(now)
        return MailLine(
            destination=destination,
            waiting=len(self._outbox),
            refused=self._outbox.refused(),
            oldest_seconds=None if age is None else realtime(now - age),
            next_seconds=None if due is None else realtime(due),
            error=self._problem,
        )

    def _write(self, batch: Batch) -> None:
        self._commits += 1
        self._state.commit(batch)
