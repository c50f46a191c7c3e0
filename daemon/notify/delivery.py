"""Delivery of notifications, and the numbered batches for state.db. For the loop's thread only.

Every batch for state.db gets a number here, also batches of alerts and incidents, so that at a stop
it is known whether all of them are durable.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.quantity import duration
from iowarden.daemon import journal, metrics
from iowarden.daemon.notify.channel import Channel, MessageSender
from iowarden.daemon.notify.ledger import Ledger
from iowarden.daemon.notify.outbox import COMMIT_WAIT_SECONDS
from iowarden.daemon.notify.routes import DOCUMENT, RouteState
from iowarden.daemon.storage.notifications import NotificationStatus
from iowarden.daemon.storage.state_db import LOCAL, MAIL, Committed, OutboxRow, StateChanges

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence

    from iowarden.collectors.model import Sample
    from iowarden.daemon.control.documents import MailLine
    from iowarden.daemon.notify.attempt import SendResult
    from iowarden.daemon.notify.channel import MessageReceiver
    from iowarden.daemon.notify.outbox import MailWait
    from iowarden.daemon.storage.notifications import Notification
    from iowarden.daemon.transition_log import TransitionLog
    from iowarden.rules.alerting.alerts import Alert

HUNG_SECONDS = 10.0
MAX_LOCAL_SECONDS = 86400.0
"""How long a mail of the Maildir is news, if its incident is resolved."""


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


@dataclass(frozen=True, slots=True)
class PresentState:
    """What is true now."""

    alerts: Sequence[Alert]
    """Of rules and events, in any state."""
    incidents: Callable[[], dict[object, str]]
    """Return the incident's identifier by an alert's key."""
    realtime: Callable[[float], float]
    """Return the Unix time of a time on the program's clock."""
    unhealthy: str = ""
    """Why a ping would be wrong: a collector is stuck, or notifications are overdue."""


class StateReceiver(Protocol):
    """Sends what is true now, which is never queued, by threads of its own, and never blocks.

    Source: prometheus.io/docs/alerting/latest/clients (an Alertmanager expects each alert again).
    """

    def step(self, now: float, state: PresentState) -> None:
        """Send it if that is due."""

    def sent(self, result: SendResult, now: float, log: TransitionLog) -> None:
        """Process the result of an attempt."""

    def check_threads(self, log: TransitionLog) -> None:
        """Log when a thread has been blocked for too long."""

    def samples(self, now: float) -> list[Sample]:
        """Return the samples of its notifications."""

    def line(self, now: float, realtime: Callable[[float], float]) -> MailLine:
        """Return its state, for 'iowarden status'."""

    def incidents(self) -> frozenset[str]:
        """Return the incidents of which an alert was in the last state that it accepted."""

    def close(self, timeout_seconds: float) -> bool:
        """End its threads."""


@dataclass(frozen=True, slots=True)
class Receivers:
    """The receivers other than mail, by their configured names."""

    messages: Mapping[str, MessageReceiver]
    states: Mapping[str, StateReceiver]


class Delivery:
    """The outbox of each receiver, and the numbered batches for state.db.

    `log.send` logs single messages, `log.trouble` lasting errors: key, text ('' ends it), kind.
    """

    def __init__(
        self,
        state: MailStore,
        sender: MessageSender | None,
        log: TransitionLog,
        receivers: Receivers | None = None,
        present: Callable[[float], PresentState | None] | None = None,
        encode: Callable[[RouteState], str] | None = None,
        realtime: Callable[[float], float] = float,
    ) -> None:
        """Start with empty outboxes; without a `sender` mails are disabled.

        `present` returns what state receivers are sent, None while that is not known. `encode`
        returns the text of a document of state.db, `realtime` the Unix time of a program time.
        """
        self.ledger = Ledger()
        self._realtime = realtime
        self._encode = encode
        self._encoded_changes: int | None = None
        self._state = state
        self._log = log
        self._channels = {MAIL: Channel(MAIL, log, sender)}
        self._commits = 0
        self._confirmed = 0
        self._written = True
        self._unconfirmed_seconds: float | None = None
        self._present = present
        self._states: Mapping[str, StateReceiver] = {}
        self.use(receivers or Receivers({}, {}))

    def __len__(self) -> int:
        """Return the number of waiting notifications."""
        return sum(len(channel.outbox) for channel in self._active())

    @property
    def sender(self) -> MessageSender | None:
        """Return the mail sender; None if mails are disabled."""
        return self._channels[MAIL].sender

    @sender.setter
    def sender(self, sender: MessageSender | None) -> None:
        if (before := self._channels[MAIL].sender) is not None:
            before.close(0.0)  # It ends after the mail in progress.
        self._channels[MAIL].sender = sender

    @property
    def delivered_total(self) -> int:
        """Return how many notifications were delivered since the start."""
        return sum(channel.delivered_total for channel in self._channels.values())

    def use(self, receivers: Receivers) -> None:
        """Send to these receivers from now on; what waits for others is retained.

        The threads of receivers that are not among them end after their attempt.
        """
        for name, state in self._states.items():
            if receivers.states.get(name) is not state:
                state.close(0.0)
        self._states = receivers.states
        for name, channel in self._channels.items():
            receiver = receivers.messages.get(name)
            is_used = receiver is not None and receiver.sender is channel.sender
            if name != MAIL and channel.sender is not None and not is_used:
                channel.sender.close(0.0)
                channel.sender = None
        for name, receiver in receivers.messages.items():
            self._channel(name).use(receiver)

    def rows(self) -> tuple[OutboxRow, ...]:
        """Return the mails of the outbox, also those that wait for a server to be configured."""
        return self._channels[MAIL].outbox.rows() + self._channel(LOCAL).outbox.rows()

    def awaits_state(self) -> bool:
        """Whether state.db has not confirmed every batch."""
        return self._confirmed < self._commits

    def busy(self) -> bool:
        """Whether a notification or a batch is in progress."""
        return any(channel.busy() for channel in self._channels.values()) or self.awaits_state()

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
        incidents: Container[str] | None = None,
    ) -> None:
        """Add notifications, and request that they are written together with the changed state.

        `replaced`: by the ID of a mail, the IDs of the mails that it replaces. `incidents` are all
        there are, None while that is not known: the ledger has no others.
        """
        if incidents is not None:
            self.ledger.keep(incidents)
        sequence = self._commits + 1
        replaced = replaced or {}
        added = tuple(
            out
            for row in rows
            for out in self._channel(row.receiver).outbox.add(
                row, now, sequence, replaced.get(row.message_id, ())
            )
        )
        remove = tuple(message_id for ids in replaced.values() for message_id in ids)
        self._write(
            StateChanges(
                sequence, put=put, delete=delete, add=added, remove=remove, aside=aside or {}
            ),
            now,
        )

    def outdated(self, now: float) -> dict[str, tuple[OutboxRow, ...]]:
        """Return by incident the mails that may be replaced; as Outbox.outdated."""
        mails = self._channels[MAIL]
        return {} if mails.sender is None else mails.outbox.outdated(now)

    def committed(self, event: Committed) -> None:
        """Process a confirmation of state.db."""
        self._confirmed = max(self._confirmed, event.sequence)
        self._written = not event.error
        for channel in self._channels.values():
            channel.outbox.committed(event)

    def restore(
        self, rows: Iterable[OutboxRow], now: float, ledger: Iterable[Notification] = ()
    ) -> None:
        """Restore the notifications that waited when the program ended, and the ledger."""
        rows = tuple(rows)
        self.ledger.restore(ledger, rows, self._realtime(now))
        rows_by_receiver: dict[str, list[OutboxRow]] = {}
        for row in rows:
            rows_by_receiver.setdefault(row.receiver, []).append(row)
        for name, waiting in rows_by_receiver.items():
            channel = self._channel(name)
            channel.outbox.restore(waiting, now)
            if channel.sender is None and name != LOCAL:
                self._log.send(
                    journal.MAIL_FAILED,
                    4,
                    f"{len(waiting)} notifications wait for the receiver '{name}', which is not"
                    " configured; they are stored for 30 days",
                )

    @property
    def routes(self) -> RouteState:
        """Return what servers and receivers refused."""
        states = [channel.outbox.routes.state for channel in self._channels.values()]
        merged = RouteState()
        for state in states:
            for server, holds in state.holds.items():
                merged.holds.setdefault(server, {}).update(holds)
            merged.tries.update(state.tries)
            merged.healed.update(state.healed)
        return merged

    def restore_routes(self, state: RouteState) -> None:
        """Restore what servers and receivers refused before the restart."""
        for channel in self._channels.values():
            channel.outbox.restore_routes(state)
        self._encoded_changes = -1

    # --- mails that only went to the Maildir

    def send_local_mails(
        self, recipients: tuple[str, ...], open_incidents: Collection[str], now: float
    ) -> None:
        """Send what only went to the Maildir, if a server is configured now, as one digest.

        What is older than a day is sent if its incident is open, otherwise forgotten.
        """
        local = self._channel(LOCAL).outbox
        is_server = self.sender is not None and bool(self.sender.servers)
        sent, remove = [], []
        for row in local.rows():
            is_young = now - row.created_realtime_seconds <= MAX_LOCAL_SECONDS
            is_wanted = is_young or row.incident in open_incidents
            if is_wanted and not is_server:
                continue
            remove.append(row.message_id)
            local.discard(row.message_id)
            if is_wanted:
                name = row.message_id.removeprefix(f"{LOCAL}:")
                mail = replace(row, message_id=name, receiver=MAIL, maybe_taken=False)
                sent.append(replace(mail, recipients_pending=recipients))
        if remove:
            self._channels[MAIL].outbox.restore(sent, now, is_released=True)
            batch = StateChanges(self._commits + 1, add=tuple(sent), remove=tuple(remove))
            self._write(batch, now)

    def waits(self, now: float) -> dict[str, MailWait]:
        """Return by ID why each mail waits, and the Unix time of the next attempt."""
        mails = self._channels[MAIL]
        return {} if mails.sender is None else mails.outbox.waits(now, self._realtime)

    def step(self, now: float) -> None:
        """Send the next due notification to each receiver that is not being sent one.

        State receivers get only what state.db has stored, or could not store for a while: after a
        kill they must not have alerts that the next start has not stored.
        """
        for channel in self._channels.values():
            channel.step(now, self._commits + 1, lambda batch: self._write(batch, now))
        if not self._states or self._present is None:
            return
        if not self.awaits_state():
            self._unconfirmed_seconds = None
        elif self._unconfirmed_seconds is None:
            self._unconfirmed_seconds = now
        since = self._unconfirmed_seconds
        if since is not None and now - since < COMMIT_WAIT_SECONDS:
            return
        present = self._present(now)
        if present is not None:
            for state in self._states.values():
                state.step(now, present)

    def sent(self, result: SendResult, now: float) -> None:
        """Process the result of the notification that was being sent."""
        if result.receiver in self._states:
            self._states[result.receiver].sent(result, now, self._log)
            return
        channel = self._channel(result.receiver)
        row = channel.outbox.row(result.message_id)
        names = () if row is None else row.parts or (row.message_id,)
        messages = [message for message in map(channel.outbox.row, names) if message is not None]
        batch = channel.sent(result, now, self._commits + 1)
        status = None
        if result.delivered:
            status = NotificationStatus.LOCAL if result.is_local else NotificationStatus.ACCEPTED
        elif result.maybe_taken:
            status = NotificationStatus.MAYBE
        for message in messages if result.is_local else ():
            if message.message_id in batch.remove:  # for a server that is configured later
                name = f"{LOCAL}:{message.message_id}"
                copy = replace(message, message_id=name, receiver=LOCAL, attempts=0)
                copies = self._channel(LOCAL).outbox.add(copy, now, self._commits + 1)
                batch = replace(batch, add=(*batch.add, *copies))
        reached = {status: [m.message_id for m in messages]} if status else {}
        self._write(batch, now, reached)

    def waiting(self, now: float) -> list[tuple[OutboxRow, str]]:
        """Return the notifications that wait, without digests, and why each does."""
        waiting = []
        for channel in self._active():
            waits = channel.outbox.waits(now, float)
            rows = (row for row in channel.outbox.rows() if not row.parts)
            waiting += [(row, waits[row.message_id].reason) for row in rows]
        return waiting

    def alerted(self) -> frozenset[str]:
        """Return the incidents of which a receiver of the present state accepted an alert."""
        return frozenset(name for state in self._states.values() for name in state.incidents())

    def check_threads(self) -> None:
        """Log when a thread has been blocked for too long, for example by a hung disk."""
        self._log.hung(
            "state.db",
            self._state.working_since,
            HUNG_SECONDS,
            f"state: writing state.db has been blocked for over {duration(HUNG_SECONDS)}; mails are"
            " still sent from memory, changes will be written when the disk responds",
            journal.STATE_TROUBLE,
        )
        for channel in self._channels.values():
            channel.check_thread()
        for state in self._states.values():
            state.check_threads(self._log)

    def log_state(self, now: float, limit_seconds: float) -> None:
        """Log that notifications are overdue or were discarded: none of them can report that."""
        for channel in self._channels.values():
            if channel.name == LOCAL:
                continue
            batch = channel.log_state(now, limit_seconds, self._commits + 1)
            if batch is not None:
                self._write(batch, now)

    def reload(self, recipients: tuple[str, ...], corrected: Container[str], now: float) -> None:
        """Try what waits, as Routes.reload; mails to the recipients configured now."""
        for channel in self._active():
            to = recipients if channel.name == MAIL else (channel.name,)
            batch = channel.outbox.reload(to, corrected, now, self._commits + 1)
            if batch.add or batch.remove or channel.name == MAIL:
                self._write(batch, now)

    def retry(self, now: float, receiver: str = MAIL) -> None:
        """Retry what a receiver, or the mail servers, refused: a test message was accepted."""
        if receiver in self._channels:
            self._channels[receiver].outbox.routes.open_all(now)
            self._write(StateChanges(self._commits + 1), now)

    def oldest_unsent_seconds(self, now: float) -> float:
        """Return how long the oldest notification has waited, or 0."""
        ages = [channel.outbox.oldest_unsent_seconds(now) or 0.0 for channel in self._active()]
        return max(ages, default=0.0)

    def samples(self, now: float) -> list[Sample]:
        """Return the samples of notifications and of state.db."""
        now_monotonic = time.monotonic()
        times = {
            metrics.STATE_UNWRITTEN.name: self._state.unwritten_since,
            metrics.STATE_BLOCKED.name: self._state.working_since,
        }
        return [
            *(sample for channel in self._channels.values() for sample in channel.samples(now)),
            *(sample for state in self._states.values() for sample in state.samples(now)),
            *(
                (name, (), 0.0 if since is None else round(now_monotonic - since, 3))
                for name, since in times.items()
            ),
        ]

    def line(self, destination: str, now: float) -> MailLine:
        """Return the mail queue's state, for 'iowarden status'."""
        return self._channels[MAIL].line(destination, now, self._realtime)

    def receiver_lines(self, now: float) -> tuple[MailLine, ...]:
        """Return the state of each receiver other than mail."""
        return (
            *(
                channel.line(f"{channel.name} ({channel.destination})", now, self._realtime)
                for channel in self._active()
                if channel.name != MAIL
            ),
            *(state.line(now, self._realtime) for state in self._states.values()),
        )

    def _active(self) -> list[Channel]:
        return [channel for channel in self._channels.values() if channel.sender is not None]

    def _channel(self, name: str) -> Channel:
        """Return a channel; without a sender if the receiver is not configured."""
        return self._channels.setdefault(name, Channel(name, self._log, None))

    def _write(
        self,
        batch: StateChanges,
        now: float,
        reached: Mapping[NotificationStatus, Iterable[str]] | None = None,
    ) -> None:
        self._commits += 1
        batch = self.ledger.changes(batch, self._realtime(now), reached or {})
        changes = sum(channel.outbox.routes.changes for channel in self._channels.values())
        if self._encode is not None and self._encoded_changes not in (None, changes):
            self._encoded_changes = changes
            batch = replace(batch, put={**batch.put, DOCUMENT: self._encode(self.routes)})
        self._state.commit(batch)
