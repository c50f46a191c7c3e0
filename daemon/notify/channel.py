"""Channel: a receiver of notifications with its own outbox and sender: it delays no other.

For the main loop's thread only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.quantity import duration
from iowarden.daemon import journal, metrics
from iowarden.daemon.control.documents import MailLine
from iowarden.daemon.notify.attempt import OutboundMail
from iowarden.daemon.notify.outbox import Outbox
from iowarden.daemon.storage.state_db import MAIL

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.collectors.model import Sample
    from iowarden.daemon.notify.attempt import SendResult
    from iowarden.daemon.notify.message_format import MessageFormat
    from iowarden.daemon.storage.state_db import StateChanges
    from iowarden.daemon.transition_log import TransitionLog


class MessageSender(Protocol):
    """Makes a delivery attempt and never blocks; as sender.Sender."""

    servers: tuple[str, ...]
    """Names of the servers, the preferred one first; none: mails are written to a Maildir."""
    connections: int
    """Limit of messages that are being sent to one server."""
    hung_seconds: float
    """After how long an attempt is certainly blocked."""

    @property
    def working_since(self) -> float | None:
        """Return when the current attempt began, by the monotonic clock."""

    def submit(self, mail: OutboundMail) -> None:
        """Request one attempt."""

    def close(self, timeout_seconds: float) -> bool:
        """End after the submitted messages."""


@dataclass(frozen=True, slots=True)
class MessageReceiver:
    """A receiver of messages other than mail: the form of its messages, and its sender.

    `destination` is where it is, without any secret, for 'iowarden status'.
    """

    messages: MessageFormat
    sender: MessageSender
    destination: str


class Channel:
    """The outbox of one receiver, its sender, and what became of its messages."""

    def __init__(
        self,
        name: str,
        log: TransitionLog,
        sender: MessageSender | None,
    ) -> None:
        """Start with an empty outbox; without a sender its messages are only retained."""
        self.name = name
        self.destination = ""
        self.delivered_total = 0
        self.outbox = Outbox()
        self.problem = ""
        self._log = log
        self._failed_total = 0
        self._delivered_seconds: float | None = None
        self._discarded_total = 0
        self._sender: MessageSender | None = None
        self.sender = sender

    @property
    def sender(self) -> MessageSender | None:
        """Return the sender in use."""
        return self._sender

    @sender.setter
    def sender(self, sender: MessageSender | None) -> None:
        if sender is not self._sender:  # another server: what the last one accepted proves nothing
            self._delivered_seconds = None
        self._sender = sender
        self.outbox.servers = (self.name,)
        if sender is not None:
            self.outbox.servers = sender.servers or (self.name,)
            self.outbox.connections = sender.connections

    def use(self, receiver: MessageReceiver) -> None:
        """Send to this receiver from now on, whose configuration was changed."""
        self.sender, self.destination = receiver.sender, receiver.destination
        self.outbox.form = receiver.messages

    def busy(self) -> bool:
        """Whether a message is being sent."""
        return self.outbox.sending() > 0

    def step(self, now: float, sequence: int, write: Callable[[StateChanges], None]) -> None:
        """Send the next due message, if a connection is free; `sequence` is the next batch's."""
        if self.sender is None:
            return
        # If the program is killed, it must still be known that the server may have the message.
        marked = self.outbox.begin(now, sequence)
        if marked is not None:
            write(marked)
        row = self.outbox.next(now)
        if row is not None:
            server, is_other_left = self.outbox.server_of(row.message_id)
            to = ", ".join(row.recipients_pending)
            noun = self.outbox.form.noun
            self._log.debug(
                f"{noun} {row.message_id}: attempt {row.attempts + 1}, to {to} by {server}"
            )
            self.sender.submit(
                OutboundMail(
                    row.message_id,
                    row.recipients_pending,
                    row.data,
                    row.attempts + 1,
                    server,
                    is_other_left,
                    is_repeated=self.outbox.is_repeated(row.message_id),
                )
            )

    def sent(self, result: SendResult, now: float, sequence: int) -> StateChanges:
        """Process the result of the message that was being sent; return the batch to store."""
        row = self.outbox.row(result.message_id)
        batch, problem = self.outbox.sent(result, now, sequence)
        if result.delivered:
            self.delivered_total += 1
            if not result.is_local:  # a Maildir is no receiver
                self._delivered_seconds = now
            self._log.send(
                journal.MAIL_DELIVERED,
                6,
                f"{self.outbox.form.noun} {result.message_id} delivered to"
                f" {', '.join(result.delivered)}: {result.answer}",
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
        self.problem = problem
        if problem:
            self._failed_total += 1
        self._log.trouble(self.outbox.form.where, problem, journal.MAIL_FAILED)
        return batch

    def check_thread(self) -> None:
        """Log when a thread has been blocked for too long."""
        if self.sender is None:
            return
        limit_seconds = self.sender.hung_seconds
        why = (
            "mail: a delivery attempt has been blocked for over {limit}: name resolution or the"
            " disk of a Maildir hangs; fewer attempts or none start, mails wait in the outbox"
            if self.name == MAIL
            else "{where}: a delivery attempt has been blocked for over {limit}; no other attempt"
            " starts, its notifications wait in the outbox"
        )
        self._log.hung(
            f"{self.outbox.form.where} thread",
            self.sender.working_since,
            limit_seconds,
            why.format(where=self.outbox.form.where, limit=duration(limit_seconds)),
            journal.MAIL_FAILED,
        )

    def log_state(
        self,
        now: float,
        limit_seconds: float,
        sequence: int,
    ) -> StateChanges | None:
        """Log overdue or discarded messages; return the batch to store, if any."""
        overdue = None if self.sender is None else self.outbox.overdue(now, limit_seconds)
        if overdue is not None:
            priority, text = overdue
            self._log.send(journal.MAIL_FAILED, priority, text)
        batch, lines = self.outbox.drop_refused(now, sequence, unused=self.sender is None)
        for line in lines:
            self._log.send(journal.MAIL_FAILED, 3, line)
        return batch if lines else None

    def samples(self, now: float) -> list[Sample]:
        """Return the samples of its notifications; none of a receiver that is not configured."""
        if self.sender is None:
            return []
        label = (("receiver", self.name),)
        last = self._delivered_seconds
        ages = [] if last is None else [(metrics.MAIL_LAST_DELIVERED.name, label, now - last)]
        return [
            *ages,
            (metrics.MAILS.name, (*label, ("result", "delivered")), float(self.delivered_total)),
            (metrics.MAILS.name, (*label, ("result", "failed")), float(self._failed_total)),
            (metrics.MAILS_WAITING.name, label, float(len(self.outbox))),
            (metrics.MAILS_DISCARDED.name, label, float(self._discarded_total)),
            (metrics.MAILS_REFUSED.name, label, float(self.outbox.refused())),
            (
                metrics.MAIL_OLDEST_UNSENT.name,
                label,
                self.outbox.oldest_unsent_seconds(now) or 0.0,
            ),
        ]

    def line(self, destination: str, now: float, realtime: Callable[[float], float]) -> MailLine:
        """Return the queue's state, for 'iowarden status'."""
        age, due = self.outbox.oldest_unsent_seconds(now), self.outbox.next_due(now)
        return MailLine(
            receiver=destination,
            waiting=len(self.outbox),
            refused=self.outbox.refused(),
            oldest_seconds=None if age is None else realtime(now - age),
            next_seconds=None if due is None else realtime(due),
            error=self.problem,
        )
