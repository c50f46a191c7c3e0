"""Outbox: the queue of undelivered mails, or messages of another receiver; selects the next. Pure.

Source: RFC 5321, 4.5.4.1 (retries) and 6.1 (responsibility for a mail after DATA).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.quantity import duration
from iowarden.daemon.clock import PLAUSIBLE_SECONDS
from iowarden.daemon.notify.message_format import Refusal
from iowarden.daemon.notify.outbox_queue import MAX_SINGLE, Entry, OutboxQueue
from iowarden.daemon.notify.retry import ANYTIME, NEVER, NO_REPLY, REFUSALS, Fault, Scope
from iowarden.daemon.notify.routes import ALL, CONNECTION, Flight
from iowarden.daemon.storage.state_db import OutboxRow, StateChanges
from iowarden.rules.incidents.mailing import REPLACED_SECONDS
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable

    from iowarden.daemon.notify.attempt import SendResult
    from iowarden.daemon.notify.message_format import MessageFormat
    from iowarden.daemon.notify.routes import RouteState
    from iowarden.daemon.storage.state_db import Committed


COMMIT_WAIT_SECONDS = 2.0
"""How long a mail waits for state.db before it is sent without having been stored."""
MAX_BYTES = 8 * 1024 * 1024
"""Of all messages: servers must accept a digest of them (Postfix's default is 10,240,000 bytes)."""
REFUSED_SECONDS = 30 * 86400.0
"""How long a refused mail is retained."""
_OVERDUE_REPEAT_SECONDS = 86400.0
_CRITICAL, _NOTICE = 2, 5
"""Journal priorities. Source: syslog(3)."""


@dataclass(frozen=True, slots=True)
class MailWait:
    """Why a mail waits, and when it is tried next; None: only after a change."""

    next_seconds: float | None
    reason: str


class Outbox(OutboxQueue):
    """The queue of waiting mails and their delivery state. `now` is passed in, in seconds.

    Critical mails go first, then the oldest; mails of one incident in their order; one at a time,
    but a mail that takes long delays no other. Mails go to the first server, and to the next one
    while that fails. What a server, a recipient or a mail has to wait for is in routes.py; when it
    is tried, in retry.py. A mail is sent when state.db has stored it, or after 2 s; after each
    attempt state.db gets the same time to store the result, so that a kill causes at most one
    duplicate.

    Mails that waited for an hour, or for a server that accepts mails again, are sent as one digest,
    if they were certainly never handed over. A mail that the server may have accepted is sent again
    unchanged, under its own Message-ID. Therefore state.db stores before an attempt what is being
    sent: a mail by its `maybe_taken`, a digest by its row. If the attempt certainly failed, the
    digest is dissolved, and the next digest also contains newer mails.
    """

    def __init__(self, messages: MessageFormat | None = None) -> None:
        """Start empty, for mails unless another form of messages is given."""
        super().__init__(messages)
        self._overdue_logged_seconds: float | None = None
        self._refusal_reported_seconds: dict[str, float] = {}

    def __len__(self) -> int:
        """Return the number of undelivered mails, including those that are only retained."""
        return sum(not entry.row.parts for entry in self._entries.values())

    def refused(self) -> int:
        """Return the number of mails that all servers refuse for one of their recipients."""
        return sum(
            len(entry.row.parts) or 1
            for entry in self._entries.values()
            if entry.digest is None
            and any(self._is_refused(entry.row, r) for r in entry.row.recipients_pending)
        )

    def row(self, message_id: str) -> OutboxRow | None:
        """Return a mail of the outbox."""
        entry = self._entries.get(message_id)
        return None if entry is None else entry.row

    def rows(self) -> tuple[OutboxRow, ...]:
        """Return all mails."""
        return tuple(entry.row for entry in self._entries.values())

    # --- in

    def add(
        self, row: OutboxRow, now: float, sequence: int, replaced: Iterable[str] = ()
    ) -> tuple[OutboxRow, ...]:
        """Add a mail; return the rows that the batch `sequence` must store: it, and cut mails.

        While the server accepts mails, it is stored as being sent, which saves another write.
        `replaced` are the IDs of the mails that it replaces, from `outdated`; it inherits their
        waiting time. The batch must remove them.
        """
        gone = [self._entries.pop(message_id) for message_id in replaced]
        self.routes.forget(entry.row.message_id for entry in gone)
        since = min([now, *(entry.since_seconds for entry in gone)])
        created = (entry.row.created_realtime_seconds for entry in gone)
        states = (state for entry in gone for state in entry.row.states)
        row = replace(
            row,
            states=tuple(dict.fromkeys((*row.states, *states))),
            created_realtime_seconds=min([row.created_realtime_seconds, *created]),
            maybe_taken=self._is_healthy() and len(self._entries) < MAX_SINGLE,
        )
        due = now + COMMIT_WAIT_SECONDS
        self._entries[row.message_id] = Entry(row, since, now, due, sequence)
        return (row, *self._cut())

    def discard(self, message_id: str) -> None:
        """Remove a mail, which state.db must remove as well."""
        self._forget(self._entries[message_id])

    def outdated(self, now: float) -> dict[str, tuple[OutboxRow, ...]]:
        """Return by incident the mails certainly not delivered, if one waited for a minute.

        Mails that may have been handed over, are being sent or are in a digest are not returned.
        """
        entries_by_incident: dict[str, list[Entry]] = {}
        for entry in self._entries.values():
            row = entry.row
            is_unsent = not (entry.maybe_taken or row.parts or self._is_busy(row.message_id))
            if entry.digest is None and is_unsent and entry.is_whole(self.form):
                entries_by_incident.setdefault(row.incident, []).append(entry)
        return {
            incident: tuple(entry.row for entry in entries)
            for incident, entries in entries_by_incident.items()
            if now - min(entry.since_seconds for entry in entries) >= REPLACED_SECONDS
        }

    def restore(self, rows: Iterable[OutboxRow], now: float, *, is_released: bool = False) -> None:
        """Restore mails from state.db; entries that exist here are newer.

        `is_released`: they waited for a server to be configured, and go as one digest.
        """
        for row in rows:
            created = row.created_realtime_seconds
            since = min(created, now) if created > PLAUSIBLE_SECONDS else now
            entry = Entry(row, since, since, now, maybe_taken=row.maybe_taken)
            entry.is_released = is_released
            self._entries.setdefault(row.message_id, entry)
        for entry in list(self._entries.values()):
            if all(part in self._entries for part in entry.row.parts):
                for part in entry.row.parts:
                    self._entries[part].digest = entry.row.message_id
            else:  # a mail of this digest is missing: the others are sent alone
                del self._entries[entry.row.message_id]

    def restore_routes(self, state: RouteState) -> None:
        """Restore what servers refused, and which mails they did not confirm."""
        self.routes.restore(state)
        self._keep_routes()
        for message_id, entry in self._entries.items():
            is_uncertain = self.routes.maybe_taken(message_id) is not None
            entry.maybe_taken = entry.maybe_taken or is_uncertain

    def _keep_routes(self) -> None:
        recipients = (r for entry in self._entries.values() for r in entry.row.recipients_pending)
        self.routes.keep(self.servers, (*self._entries, *recipients))

    def committed(self, committed: Committed) -> None:
        """Stop waiting for a batch: it is stored, or cannot be stored."""
        for entry in self._entries.values():
            if entry.sequence is not None and entry.sequence <= committed.sequence:
                entry.sequence, entry.due_seconds = None, ANYTIME
        if self._awaited is not None and self._awaited[0] <= committed.sequence:
            self._awaited = None

    def reload(
        self, recipients: tuple[str, ...], corrected: Container[str], now: float, sequence: int
    ) -> StateChanges:
        """Try what waits, as Routes.reload: the configuration was read again; return the batch.

        Mails go to those of `recipients` (the ones configured now) who have not received them.
        """
        add: list[OutboxRow] = []
        remove: list[str] = []
        for entry in self._waiting():
            row = entry.row
            written_to = self.form.addressees(self._messages(row)[0].data)
            received = set(written_to).difference(row.recipients_pending)
            pending = tuple(r for r in recipients if r not in received)
            if not pending:
                remove += self._forget(entry)
            elif pending != row.recipients_pending:
                entry.row = replace(row, recipients_pending=pending)
                entry.due_seconds = min(entry.due_seconds, now)
                add.append(entry.row)
        self._keep_routes()
        self.routes.reload(corrected, now)
        return StateChanges(sequence, add=tuple(add), remove=tuple(remove))

    def drop_refused(
        self, now: float, sequence: int, *, unused: bool = False
    ) -> tuple[StateChanges, tuple[str, ...]]:
        """Discard refused mails older than 30 days; return a log line for each.

        `unused`: all of that age, because their receiver is no longer configured.
        """
        lines: list[str] = []
        remove: list[str] = []
        for entry in self._waiting():
            row, waited = entry.row, now - entry.since_seconds
            if waited > REFUSED_SECONDS and (
                unused or self._is_all_refused(row) or self._is_exhausted(entry)
            ):
                why = (
                    "its receiver is not configured"
                    if unused
                    else f"refused for {', '.join(row.recipients_pending)}: {row.last_error}"
                )
                age = duration(waited)
                lines.append(f"{self.form.noun} {row.message_id} is discarded after {age}: {why}")
                remove += self._forget(entry)
        return StateChanges(sequence, remove=tuple(remove)), tuple(lines)

    def _waiting(self) -> list[Entry]:
        """Return the mails and digests that are not being sent, each with its mails once."""
        return [
            entry
            for message_id, entry in self._entries.items()
            if entry.digest is None and not self._is_busy(message_id)
        ]

    # --- out

    def begin(self, now: float, sequence: int) -> StateChanges | None:
        """Choose what `next` returns; return what state.db must store before, or None."""
        if self._chosen is not None or now < self._not_before():
            return None
        candidates = [c for c in self._candidates(now) if c.due_seconds <= now]
        if not candidates:
            return None
        best = min(candidates, key=lambda candidate: candidate.urgency)
        entry = best.members[0]
        if any(member.is_released for member in best.members):
            self._released_seconds.append(now)
        if len(best.members) > 1 or self._is_exhausted(entry):
            entry = self._gather(best.members, now)
        name = entry.row.message_id
        flight = self._chosen = self.routes.begin(best.server, best.recipients, name, now)
        is_counted = bool(flight.holds) or flight.counted_seconds is not None
        if entry.row.maybe_taken and not is_counted:  # stored already
            return None
        entry.row = replace(entry.row, maybe_taken=True)
        self._awaited = (sequence, now + COMMIT_WAIT_SECONDS) if sequence else None
        return StateChanges(sequence, add=(entry.row,))

    def next(self, now: float) -> OutboxRow | None:
        """Return the mail to send now, in progress until `sent`; None if none is due.

        Its recipients are those who are tried now. A mail that `begin` has not chosen is returned,
        too, but the attempt is lost after a kill.
        """
        if self._chosen is None:
            self.begin(now, 0)
        flight = self._chosen
        if flight is None or now < self._not_before():
            return None
        flight.begun_seconds = now
        self._flights[flight.message_id], self._chosen = flight, None
        row = replace(self._entries[flight.message_id].row, recipients_pending=flight.recipients)
        if not row.parts:
            return row
        messages = self._messages(row)
        if self.form.is_plain(row.message_id) and (plain := self.form.plain(messages[0])):
            return replace(row, data=plain.data)
        uncertain = [part for part in row.parts if self.routes.maybe_taken(part) is not None]
        return replace(row, data=self.form.digest(messages, uncertain))

    def is_repeated(self, message_id: str) -> bool:
        """Whether the receiver may have a message from an earlier attempt."""
        return self._entries[message_id].maybe_taken

    def server_of(self, message_id: str) -> tuple[str, bool]:
        """Return the server that a mail is being sent to, and whether another one is usable."""
        flight = self._flights[message_id]
        return flight.server, self._is_other_open(flight)

    def _is_other_open(self, flight: Flight) -> bool:
        others = (server for server in self.servers if server != flight.server)
        return any(
            self.routes.is_open(server, (recipient,))
            for server in others
            for recipient in flight.recipients
        )

    def next_due(self, now: float) -> float | None:
        """Return when `next` has a mail; None if none is to be tried again by itself."""
        due = min((candidate.due_seconds for candidate in self._candidates(now)), default=NEVER)
        return None if due == NEVER else max(now, self._not_before(), due)

    def waits(self, now: float, realtime: Callable[[float], float] = float) -> dict[str, MailWait]:
        """Return by ID why each mail waits; `realtime` returns Unix times."""
        due_by_id = {
            entry.row.message_id: candidate.due_seconds
            for candidate in self._candidates(now)
            for entry in candidate.members
        }
        waits = {}
        for message_id, entry in self._entries.items():
            row = entry.row if entry.digest is None else self._entries[entry.digest].row
            flight = self._flights.get(row.message_id)
            due = due_by_id.get(row.message_id, NEVER)
            reason = f"being sent by {flight.server}" if flight else self._reason(row)
            is_due = due != NEVER and flight is None
            waits[message_id] = MailWait(realtime(max(due, now)) if is_due else None, reason)
        return waits

    def _reason(self, row: OutboxRow) -> str:
        """Return why a mail waits, for 'iowarden mail list'."""
        parts = []
        repeated = self.routes.maybe_taken(row.message_id)
        if repeated is not None:
            parts.append(f"sent {_times(repeated.attempts)} without a reply: it may have arrived")
        for recipient in row.recipients_pending:
            for server in self.servers:
                for hold in self.routes.holds(server, recipient, row.message_id):
                    if hold is not repeated:
                        times = f"{hold.attempts} attempt{'s'[: hold.attempts != 1]}"
                        kind = "refused" if hold.fault in REFUSALS else hold.fault
                        parts.append(f"{kind} for {recipient} ({times}): {hold.error}")
        return "; ".join(dict.fromkeys(parts)) or row.last_error or "not tried yet"

    # --- the result of an attempt

    def sent(self, result: SendResult, now: float, sequence: int = 0) -> tuple[StateChanges, str]:
        """Return the batch `sequence` to store after an attempt, and its error text, or ''.

        The same fault gives the same text, so that it can be logged once.
        """
        flight = self._flights.pop(result.message_id, None)
        entry = self._entries.get(result.message_id)
        if entry is None:
            return StateChanges(sequence), ""
        if flight is None:
            recipients = entry.row.recipients_pending
            flight = Flight(result.message_id, self.servers[0], recipients, now)
        if sequence:
            self._awaited = sequence, now + COMMIT_WAIT_SECONDS
        text = "; ".join(dict.fromkeys(filter(None, (*result.refused.values(), result.error))))
        attempts = entry.row.attempts + 1
        entry.row = replace(entry.row, attempts=attempts, last_error=text)
        short = self._short_form(entry, flight, result, now)
        if short:
            result = _without(result, short[0].recipients_pending)
        before = {r for r in flight.recipients if self._is_unwanted(r)}
        is_suspect = self._is_suspect(entry, flight, result)
        entry.is_alone = entry.is_alone or is_suspect
        opened = self.routes.settle(flight, result, now, is_suspect=is_suspect)
        self._release(entry, opened, now)
        entry.maybe_taken = entry.maybe_taken or result.maybe_taken
        repeated = self.routes.maybe_taken(result.message_id)
        problem = self.form.undelivered(
            text,
            result,
            self._wait_seconds(entry, now),
            0 if repeated is None else repeated.attempts,
        )
        refusals = self._refusals(entry.row, flight, before, now)
        gone = {*result.delivered, *(r for row in short for r in row.recipients_pending)}
        changes = self._changes(entry, flight, result, gone, now)
        return replace(changes, sequence=sequence, add=(*short, *refusals, *changes.add)), problem

    def _refusals(
        self, row: OutboxRow, flight: Flight, before: Collection[str], now: float
    ) -> tuple[OutboxRow, ...]:
        """Let the other recipients know at once whom all servers refuse now; a day of each once.

        `before` were refused already.
        """
        rows = []
        message = self._messages(row)[0]
        for recipient in flight.recipients:
            if recipient in before or not self._is_unwanted(recipient):
                continue
            addressees = self.form.addressees(message.data)
            others = tuple(r for r in addressees if r and not self._is_refused(row, r))
            last = self._refusal_reported_seconds.get(recipient, ANYTIME)
            if self.form.refusal is None or not others or now - last < _OVERDUE_REPEAT_SECONDS:
                continue
            self._refusal_reported_seconds[recipient] = now
            at = max(now, message.created_realtime_seconds)  # the clock may not be set
            refused = Refusal(recipient, self._replies(recipient)[0], others, at)
            rows.append(self.form.refusal(message, refused))
            self._entries[rows[-1].message_id] = Entry(rows[-1], now, now, now)
        return tuple(rows)

    def _is_unwanted(self, recipient: str) -> bool:
        """Whether all servers refuse a recipient, whatever the message: some refuse all of them."""
        return len(self._replies(recipient)) == len(self.servers)

    def _replies(self, recipient: str) -> list[str]:
        """Return how servers refuse a recipient, one that names him first."""
        replies = []
        for server in self.servers:
            holds = (h for h in self.routes.holds(server, recipient) if h.fault in REFUSALS)
            replies += [hold.error for hold in holds][-1:]
        return sorted(replies, key=lambda reply: f"<{recipient}>" not in reply)

    def _is_suspect(self, entry: Entry, flight: Flight, result: SendResult) -> bool:
        """Whether a mail or digest was refused while the server accepted others."""
        if not result.error or result.scope is not Scope.MESSAGE:
            return False
        if result.fault in NO_REPLY and (flight.server, CONNECTION) in flight.holds:
            return False
        is_again = entry.is_alone or entry.is_released or bool(entry.row.parts)
        return is_again and not self.routes.is_refusing(flight.server)

    def _release(self, entry: Entry, opened: Collection[str], now: float) -> None:
        """Let what waited for a server or recipient go as one digest: it accepts mails again."""
        for message_id, other in self._entries.items():
            is_open = ALL in opened or not set(opened).isdisjoint(other.row.recipients_pending)
            if is_open and other is not entry and not other.is_alone:
                other.is_released = True
                self.routes.release(message_id, now)

    def _wait_seconds(self, entry: Entry, now: float) -> float:
        """Return until when a mail waits by schedule, for the recipient that waits longest."""
        row = entry.row
        return max(
            (
                min(self.routes.scheduled_until(s, r, row.message_id, now) for s in self.servers)
                - now
                for r in row.recipients_pending
            ),
            default=0.0,
        )

    def _changes(
        self, entry: Entry, flight: Flight, result: SendResult, gone: Collection[str], now: float
    ) -> StateChanges:
        """Return what state.db must store after an attempt; `gone` wait for this mail no more."""
        row = entry.row
        add: tuple[OutboxRow, ...] = () if result.is_accepted else self._unmarked(entry)
        if row.parts and not gone and self._is_untouched(row):
            removed = self._dissolve_if_needed(entry, result, now)
            if removed:
                return StateChanges(0, add=add, remove=removed)
        pending = tuple(r for r in row.recipients_pending if r not in gone)
        if not pending:
            return StateChanges(0, add=add, remove=self._forget(entry))
        if gone:  # A digest that one recipient has goes to the others unchanged.
            entry.whole, entry.maybe_taken = False, entry.maybe_taken or bool(row.parts)
        entry.row = replace(row, recipients_pending=pending, maybe_taken=entry.maybe_taken)
        if result.may_try_plain and self.routes.is_first_refusal(flight.server):
            add += self._plain_trial(entry, flight, now)
        return StateChanges(0, add=(entry.row, *add))

    def _unmarked(self, entry: Entry) -> tuple[OutboxRow, ...]:
        """Return mails that were marked as being sent and are not: no start may repeat them."""
        rows = []
        for message_id, other in self._entries.items():
            is_marked = other.row.maybe_taken and not other.maybe_taken
            if is_marked and other is not entry and not self._is_busy(message_id):
                other.row = replace(other.row, maybe_taken=False)
                rows.append(other.row)
        return tuple(rows)

    # --- short forms

    def _short_form(
        self, entry: Entry, flight: Flight, result: SendResult, now: float
    ) -> tuple[OutboxRow, ...]:
        """Replace a mail by its short form for those to whom its size or content was refused."""
        to = [r for r, fault in result.faults.items() if fault is Fault.CONTENT]
        if result.error and result.fault is Fault.CONTENT:
            to += [r for r in flight.recipients if r not in {*result.delivered, *result.faults}]
        short = self.form.plain(entry.row) if to and not entry.row.parts else None
        if short is None:
            return ()
        existing = self._entries.get(short.message_id)
        pending = () if existing is None else existing.row.recipients_pending
        pending = tuple(dict.fromkeys((*pending, *to)))
        row = replace(short, recipients_pending=pending, maybe_taken=False)
        self._entries[row.message_id] = Entry(row, entry.since_seconds, now, now)
        return (row,)

    def _plain_trial(self, entry: Entry, flight: Flight, now: float) -> tuple[OutboxRow, ...]:
        """Try the text of a mail at once, which a filter may accept; if not, the mail stays.

        Once, and not if the mail itself can go to another server.
        """
        plain = None if entry.is_plain_tried else self.form.plain(entry.row)
        if plain is None or not entry.is_whole(self.form) or self._is_other_open(flight):
            return ()
        entry.is_plain_tried = True
        trial = replace(
            plain, data=b"", parts=(entry.row.message_id,), attempts=0, number=0, states=()
        )
        trial_entry = Entry(trial, now, now, now, only_server=flight.server)
        self._entries[trial.message_id] = trial_entry
        entry.digest = trial.message_id
        return (trial,)

    # --- waiting times

    def oldest_unsent_seconds(self, now: float) -> float | None:
        """Return the waiting time of the oldest mail that is still retried."""
        waiting = [entry.since_seconds for entry in self._unsent()]
        return now - min(waiting) if waiting else None

    def overdue(self, now: float, limit_seconds: float) -> tuple[int, str] | None:
        """Return journal priority and text if overdue mails must be logged now.

        Once when the oldest waits for longer than the limit, again each day, and when resolved.
        """
        unsent = self._unsent()
        oldest = min(unsent, key=lambda entry: entry.since_seconds, default=None)
        waited = 0.0 if oldest is None else now - oldest.since_seconds
        told = self._overdue_logged_seconds
        if oldest is None or waited < limit_seconds:
            self._overdue_logged_seconds = None
            over = (
                f"{self.form.where}: backlog cleared, no {self.form.noun} waits for longer than"
                f" {duration(limit_seconds)}"
            )
            return None if told is None else (_NOTICE, over)
        if told is not None and now - told < _OVERDUE_REPEAT_SECONDS:
            return None
        self._overdue_logged_seconds = now
        errors = [oldest.row.last_error, *(e.row.last_error for e in self._entries.values())]
        return _CRITICAL, (
            f"{self.form.where}: {len(unsent)} not delivered, the oldest has waited for"
            f" {duration(waited)}; {next(filter(None, errors), 'not tried yet')}; to test:"
            f" '{self.form.test}'"
        )

    def _unsent(self) -> list[Entry]:
        """Return the mails that are still retried, alone or in a digest."""
        return [
            entry
            for entry in self._entries.values()
            if not entry.row.parts
            and not (self._is_received(entry) and self._is_all_refused(self._carrier(entry).row))
        ]

    def _carrier(self, entry: Entry) -> Entry:
        """Return the digest that contains a mail, or the mail."""
        return entry if entry.digest is None else self._entries[entry.digest]

    def _is_received(self, entry: Entry) -> bool:
        """Whether a recipient has it, alone or in a digest."""
        row = self._carrier(entry).row
        return not (self._is_untouched(row) if row.parts else entry.is_whole(self.form))

    # --- digests

    def _gather(self, members: tuple[Entry, ...], now: float) -> Entry:
        """Create the digest of these mails."""
        rows = [entry.row for entry in members]
        worst = max(rows, key=lambda row: row.severity)
        row = OutboxRow(
            message_id=self.form.digest_id(rows),
            incident=worst.incident,
            number=0,
            severity=worst.severity,
            created_realtime_seconds=rows[-1].created_realtime_seconds,
            recipients_pending=rows[0].recipients_pending,
            data=b"",
            parts=tuple(row.message_id for row in rows),
            receiver=worst.receiver,
        )
        for entry in members:
            entry.digest = row.message_id
        self._entries[row.message_id] = entry = Entry(row, now, now, now)
        return entry

    def _dissolve_if_needed(self, entry: Entry, result: SendResult, now: float) -> tuple[str, ...]:
        """Dissolve a digest that no recipient has; return the IDs that state.db must delete.

        What the server refuses it for may be in one mail only. One without a reply stays, unless it
        was repeated often: a duplicate is better than a lost mail.
        """
        row = entry.row
        if entry.maybe_taken:
            hold = self.routes.maybe_taken(row.message_id)
            if hold is None or not hold.is_exhausted:
                return ()
            for part in row.parts:
                self.routes.exhaust(part, now)
                self._entries[part].maybe_taken = True
        is_trial = self.form.is_plain(row.message_id)
        is_content = Fault.CONTENT in result.faults.values()
        is_refused = (result.scope is Scope.MESSAGE and bool(result.error)) or is_content
        is_alone = is_refused and not is_trial and not result.maybe_taken
        return self._dissolve(entry, is_alone=is_alone)

    def _dissolve(self, entry: Entry, *, is_alone: bool) -> tuple[str, ...]:
        """Dissolve a digest; return the IDs that state.db must delete."""
        for part in entry.row.parts:
            member = self._entries[part]
            member.digest, member.is_alone = None, member.is_alone or is_alone
            # Not stored: many rows, and only for display.
            error, attempts = entry.row.last_error, member.row.attempts + 1
            member.row = replace(member.row, attempts=attempts, last_error=error)
        del self._entries[entry.row.message_id]
        self.routes.forget((entry.row.message_id,))
        return (entry.row.message_id,)

    def _is_untouched(self, row: OutboxRow) -> bool:
        """Whether no recipient has received this digest."""
        return row.recipients_pending == self._messages(row)[0].recipients_pending

    def _forget(self, entry: Entry) -> tuple[str, ...]:
        """Delete a mail, or a digest with its mails; return their IDs."""
        gone = (entry.row.message_id, *entry.row.parts)
        self.routes.forget(gone)
        for message_id in gone:
            del self._entries[message_id]
        return gone

    def _cut(self) -> tuple[OutboxRow, ...]:
        """Discard the text of mails until the size limit is met; return the changed rows.

        The least severe first, of these the oldest; never a mail that may have been accepted, nor
        the newest critical one.
        Limits: a cut mail still takes up to 1 KiB.
        """
        excess = sum(len(entry.row.data) for entry in self._entries.values()) - MAX_BYTES
        if excess <= 0:
            return ()
        rows = [e.row for e in self._entries.values() if e.row.severity is Severity.CRITICAL]
        newest = max(rows, key=lambda row: row.created_realtime_seconds, default=None)
        changed = []
        for entry in sorted(self._entries.values(), key=_cut_order):
            row = entry.row
            spared = entry.maybe_taken or entry.digest is not None or row is newest
            if spared or row.parts or self.form.is_cut(row.data):
                continue
            if self._is_busy(row.message_id):
                continue
            entry.row = replace(row, data=self.form.cut(row.data))
            changed.append(entry.row)
            excess -= len(row.data) - len(entry.row.data)
            if excess <= 0:
                break
        return tuple(changed)


def _cut_order(entry: Entry) -> tuple[int, float]:
    return entry.row.severity, entry.row.created_realtime_seconds


def _times(attempts: int) -> str:
    return f"{attempts} time{'s'[: attempts != 1]}"


def _without(result: SendResult, recipients: Iterable[str]) -> SendResult:
    """Return a result without the recipients who are sent a short form instead."""
    gone = set(recipients)
    is_error = result.error and result.fault is not Fault.CONTENT
    return replace(
        result,
        refused={r: text for r, text in result.refused.items() if r not in gone},
        faults={r: fault for r, fault in result.faults.items() if r not in gone},
        error=result.error if is_error else "",
    )
