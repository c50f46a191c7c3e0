"""Outbox: the queue of undelivered mails, or messages of another receiver; selects the next. Pure.

Source: RFC 5321, 4.5.4.1 (retries) and 6.1 (responsibility for a mail after DATA).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.clock import PLAUSIBLE_SECONDS
from iowarden.daemon.notify import problem_text
from iowarden.daemon.notify.outbox_queue import (
    MAX_SINGLE,
    PATIENCE_ATTEMPTS,
    Entry,
    Flight,
    OutboxQueue,
)
from iowarden.daemon.notify.refusal import (
    REFUSALS,
    UNANSWERED_ATTEMPTS,
    Fault,
)
from iowarden.daemon.notify.routes import ALL, ANYTIME, NEVER
from iowarden.daemon.storage.state_db import OutboxRow, StateChanges
from iowarden.rules.incidents.due import REPLACED_SECONDS
from iowarden.rules.quantity import duration
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.daemon.notify.attempt import SendResult
    from iowarden.daemon.notify.message_format import MessageFormat
    from iowarden.daemon.notify.routes import RouteState
    from iowarden.daemon.storage.state_db import Committed


COMMIT_WAIT_SECONDS = 2.0
"""How long a mail waits for state.db before it is sent without having been stored."""
MAX_BYTES = 8 * 1024 * 1024
"""Of all messages: servers must accept a digest of them (Postfix's default is 10,240,000 bytes)."""
REFUSED_SECONDS = 30 * 86400.0
"""How long a permanently refused mail is retained."""
MAX_RETRY_AFTER_SECONDS = 3600.0
"""A server that requests a longer pause is tried after this one."""
_OVERDUE_REPEAT_SECONDS = 86400.0
_BACKOFF_SECONDS = (5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0)
_CRITICAL, _NOTICE = 2, 5
"""Journal priorities. Source: syslog(3)."""


def backoff_seconds(attempt: int) -> float:
    """Return the retry delay after the n-th failed attempt, counted from 1."""
    return _BACKOFF_SECONDS[min(max(attempt, 1), len(_BACKOFF_SECONDS)) - 1]


@dataclass(frozen=True, slots=True)
class MailWait:
    """Why a mail waits, and when it is tried next; None: only after a change."""

    next_seconds: float | None
    reason: str


class Outbox(OutboxQueue):
    """The queue of waiting mails and their delivery state. `now` is passed in, in seconds.

    Order: critical mails first, then the oldest; mails of one incident in their order; one at a
    time, but a mail that takes long delays no other. Mails go to the first server, and to the next
    one while that fails. While a server fails, one mail is retried at growing intervals; what it
    refuses (5xx) is probed by one mail at long ones, see routes.py. A mail is sent when state.db
    has stored it, or after 2 s; after each attempt state.db gets the same time to store the result,
    so that a kill causes at most one duplicate.

    If mails wait for an hour, all that were certainly never handed over are sent as one digest. A
    mail that the server may have accepted is sent again unchanged, under its own Message-ID.
    Therefore state.db stores before an attempt what is being sent: a mail by its `maybe_taken`, a
    digest by its row. If the attempt certainly failed, the digest is dissolved, and the next digest
    also contains newer mails.
    """

    def __init__(self, messages: MessageFormat | None = None) -> None:
        """Start empty, for mails unless another form of messages is given."""
        super().__init__(messages)
        self._overdue_logged_seconds: float | None = None

    def __len__(self) -> int:
        """Return the number of undelivered mails, including those that are only retained."""
        return sum(not entry.row.parts for entry in self._entries.values())

    def refused(self) -> int:
        """Return the number of mails that are refused for one of their recipients."""
        return sum(
            len(e.row.parts) or 1
            for e in self._entries.values()
            if e.digest is None
            and (e.row.undeliverable or any(map(self._is_refused, e.row.recipients_pending)))
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
        row = replace(
            row,
            created_realtime_seconds=min([row.created_realtime_seconds, *created]),
            maybe_taken=self._is_healthy() and len(self._entries) < MAX_SINGLE,
        )
        due = now + COMMIT_WAIT_SECONDS
        self._entries[row.message_id] = Entry(row, since, due, sequence)
        return (row, *self._cut())

    def outdated(self, now: float) -> dict[str, tuple[OutboxRow, ...]]:
        """Return by incident the mails certainly not delivered, if one waited for a minute.

        Mails that may have been handed over, are being sent or are in a digest are not returned.
        """
        found: dict[str, list[Entry]] = {}
        for entry in self._entries.values():
            row = entry.row
            if (
                entry.waits()
                and not (entry.maybe_taken or row.parts or row.recipients_refused)
                and not self._is_busy(row.message_id)
                and entry.is_whole(self.form)
            ):
                found.setdefault(row.incident, []).append(entry)
        return {
            incident: tuple(entry.row for entry in entries)
            for incident, entries in found.items()
            if now - min(entry.since_seconds for entry in entries) >= REPLACED_SECONDS
        }

    def restore(self, rows: Iterable[OutboxRow], now: float) -> None:
        """Restore mails from state.db; entries that exist here are newer."""
        for row in rows:
            created = row.created_realtime_seconds
            since = min(created, now) if created > PLAUSIBLE_SECONDS else now
            entry = Entry(row, since, now, maybe_taken=row.maybe_taken)
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
        for name, entry in self._entries.items():
            entry.maybe_taken = entry.maybe_taken or self.routes.unanswered(name) is not None

    def committed(self, committed: Committed) -> None:
        """Stop waiting for a batch: it is stored, or cannot be stored."""
        for entry in self._entries.values():
            if entry.sequence is not None and entry.sequence <= committed.sequence:
                entry.sequence, entry.due_seconds = None, float("-inf")
        if self._settling is not None and self._settling[0] <= committed.sequence:
            self._settling = None
        if self._marking is not None and self._marking[0] <= committed.sequence:
            self._marking = None

    def retry_refused(self, recipients: tuple[str, ...], now: float, sequence: int) -> StateChanges:
        """Retry permanently refused mails now; return the batch to store.

        They go to those of `recipients` (the ones configured now) who have not received them.
        """
        add: list[OutboxRow] = []
        remove: list[str] = []
        for entry in list(self._entries.values()):
            row = entry.row
            refused = row.recipients_refused or any(map(self._is_refused, row.recipients_pending))
            if not refused or entry.digest is not None or self._is_busy(row.message_id):
                continue
            written_to = self.form.addressees(self._messages(row)[0].data)
            missing = {*row.recipients_pending, *row.recipients_refused}
            got = {recipient for recipient in written_to if recipient not in missing}
            pending = tuple(recipient for recipient in recipients if recipient not in got)
            if pending:
                entry.row = replace(row, recipients_pending=pending, recipients_refused=())
                entry.due_seconds = now
                add.append(entry.row)
            else:
                remove += self._forget(entry)
        self.routes.keep(self.servers, recipients)
        self.routes.open_all(now)
        return StateChanges(sequence, add=tuple(add), remove=tuple(remove))

    def drop_refused(
        self, now: float, sequence: int, *, unused: bool = False
    ) -> tuple[StateChanges, tuple[str, ...]]:
        """Discard permanently refused mails older than 30 days; return a log line for each.

        `unused`: all of that age, because their receiver is no longer configured.
        """
        lines: list[str] = []
        remove: list[str] = []
        for entry in list(self._entries.values()):
            row = entry.row
            dropped = row.message_id not in self._entries or entry.digest is not None
            if dropped or not (unused or self._all_refused(row)):
                continue
            if now - entry.since_seconds > REFUSED_SECONDS:
                age = duration(now - entry.since_seconds)
                left = (*row.recipients_refused, *row.recipients_pending)
                why = (
                    "its receiver is not configured"
                    if unused and not row.undeliverable
                    else f"refused for {', '.join(left)}: {row.last_error}"
                )
                lines.append(f"{self.form.noun} {row.message_id} is discarded after {age}: {why}")
                remove += self._forget(entry)
        return StateChanges(sequence, remove=tuple(remove)), tuple(lines)

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
        if len(best.members) > 1 or self._is_exhausted(entry):
            entry = self._gather(best.members, now)
        holds = self.routes.begin(best.server, best.recipients, now)
        name = entry.row.message_id
        self._chosen = Flight(name, best.server, best.recipients, now, holds)
        if entry.row.maybe_taken and not holds:  # stored already
            return None
        entry.row = replace(entry.row, maybe_taken=True)
        self._marking = (sequence, now + COMMIT_WAIT_SECONDS) if sequence else None
        return StateChanges(sequence, add=(entry.row,))

    def next(self, now: float) -> OutboxRow | None:
        """Return the mail to send now, in progress until `sent`; None if none is due.

        Its recipients are those who are tried now. A mail that `begin` has not chosen is returned,
        too, but the attempt is lost after a kill.
        """
        if self._chosen is None:
            self.begin(now, 0)
        flight = self._chosen
        if flight is None or (self._marking is not None and now < self._marking[1]):
            return None
        flight.begun_seconds = now
        self._flights[flight.message_id], self._chosen = flight, None
        row = replace(self._entries[flight.message_id].row, recipients_pending=flight.recipients)
        if not row.parts:
            return row
        uncertain = [part for part in row.parts if self.routes.unanswered(part) is not None]
        return replace(row, data=self.form.digest(self._messages(row), uncertain))

    def server_of(self, message_id: str) -> tuple[str, bool]:
        """Return the server that a mail is being sent to, and whether another one is usable."""
        flight = self._flights[message_id]
        others = (each for each in self.servers if each != flight.server)
        return flight.server, any(self._is_usable(each, flight) for each in others)

    def _is_usable(self, server: str, flight: Flight) -> bool:
        now = flight.begun_seconds
        return self._server_due_seconds.get(server, ANYTIME) <= now and any(
            self.routes.due(server, each, now, now) <= now for each in flight.recipients
        )

    def next_due(self, now: float) -> float | None:
        """Return when `next` has a mail; None if none is to be tried again by itself."""
        due = min((each.due_seconds for each in self._candidates(now)), default=NEVER)
        return None if due == NEVER else max(self._not_before(), due)

    def waits(self, now: float) -> dict[str, MailWait]:
        """Return by ID why each mail waits."""
        due = {
            entry.row.message_id: each.due_seconds
            for each in self._candidates(now)
            for entry in each.members
        }
        found = {}
        for name, entry in self._entries.items():
            row = entry.row if entry.digest is None else self._entries[entry.digest].row
            flight = self._flights.get(row.message_id)
            at = due.get(row.message_id, NEVER)
            reason = f"being sent by {flight.server}" if flight else self._reason(row)
            found[name] = MailWait(None if at == NEVER or flight else max(at, now), reason)
        return found

    def _reason(self, row: OutboxRow) -> str:
        parts = []
        unanswered = self.routes.unanswered(row.message_id)
        if unanswered is not None:
            times = f"{unanswered.attempts} time{'s'[: unanswered.attempts != 1]}"
            parts.append(f"sent {times} without a reply: it may have arrived")
        for recipient in row.recipients_pending:
            for server in self.servers:
                for hold in self.routes.holds(server, recipient):
                    times = f"{hold.attempts} attempt{'s'[: hold.attempts != 1]}"
                    parts.append(f"refused for {recipient} ({times}): {hold.error}")
        if row.recipients_refused:
            parts.append(f"refused for {', '.join(row.recipients_refused)}: {row.last_error}")
        return "; ".join(dict.fromkeys(parts)) or row.last_error or "not tried yet"

    def sent(self, result: SendResult, now: float, sequence: int = 0) -> tuple[StateChanges, str]:
        """Return the batch `sequence` to store after an attempt, and its error text, or ''.

        The same fault gives the same text, so that it can be logged once.
        """
        flight = self._flights.pop(result.message_id, None)
        entry = self._entries.get(result.message_id)
        if entry is None:
            return StateChanges(sequence), ""
        if flight is None:
            to = entry.row.recipients_pending
            flight = Flight(result.message_id, self.servers[0], to, now)
        if sequence:
            self._settling = sequence, now + COMMIT_WAIT_SECONDS
        entry.row = replace(entry.row, attempts=entry.row.attempts + 1)
        if result.error and not result.permanent:
            problem = self._failure(entry, flight, result, now)
            return self._failed(entry, result, now, sequence), problem
        self._failures.pop(flight.server, None)
        self._server_due_seconds.pop(flight.server, None)
        return self._answered(entry, flight, result, now, sequence)

    def _failure(self, entry: Entry, flight: Flight, result: SendResult, now: float) -> str:
        """Note why a server did not decide about a mail; return the text about that."""
        server, error = flight.server, result.error
        if result.fault in REFUSALS:
            others = {each: hold for each, hold in flight.holds.items() if each != ALL}
            self.routes.undo(server, others)
            self.routes.refused(server, ALL, result.fault, error, now)
            (hold, *_) = self.routes.holds(server, ALL)
            return problem_text.refused_by_server(self.form, error, hold.next_seconds - now)
        self.routes.undo(server, flight.holds)
        if flight.begun_seconds >= self._failed_seconds.get(server, ANYTIME):
            self._failures[server] = self._failures.get(server, 0) + 1
        self._failed_seconds[server] = now
        wait = min(result.retry_after_seconds, MAX_RETRY_AFTER_SECONDS)
        back = backoff_seconds(self._failures.get(server, 1))
        self._server_due_seconds[server] = now + max(back, wait)
        if result.fault is not Fault.UNANSWERED:
            return problem_text.unreachable(self.form, error)
        found = self.routes.no_answer(entry.row.message_id, now)
        again = self.routes.patience_until(entry.row.message_id) - now
        return problem_text.unanswered(self.form, error, None if found.is_exhausted else again)

    def _failed(self, entry: Entry, result: SendResult, now: float, sequence: int) -> StateChanges:
        """Process an attempt that the server did not reply to."""
        entry.maybe_taken = entry.maybe_taken or result.maybe_taken
        unanswered = self.routes.unanswered(entry.row.message_id)
        often = entry.row.attempts >= PATIENCE_ATTEMPTS
        entry.answered = often or result.fault is not Fault.CONNECTION
        entry.row = replace(entry.row, last_error=result.error)
        remove: tuple[str, ...] = ()
        given_up = often and entry.overtaken if unanswered is None else unanswered.is_exhausted
        if entry.row.parts and (not entry.maybe_taken or (given_up and self._untouched(entry.row))):
            # Other mails are accepted, the digest is not: a duplicate is better than a lost mail.
            for part in entry.row.parts if unanswered is not None else ():
                self.routes.no_answer(part, now, UNANSWERED_ATTEMPTS)
                self._entries[part].maybe_taken = True
            remove = self._dissolve(entry, alone=entry.maybe_taken and unanswered is None)
        add = {} if remove else {entry.row.message_id: entry}
        for name, other in self._entries.items():
            marked = other.row.maybe_taken and not other.maybe_taken
            if marked and not other.row.undeliverable and not self._is_busy(name):
                add[name] = other
        for other in add.values():
            other.row = replace(other.row, maybe_taken=other.maybe_taken)
        return StateChanges(sequence, add=tuple(other.row for other in add.values()), remove=remove)

    def _answered(
        self, entry: Entry, flight: Flight, result: SendResult, now: float, sequence: int
    ) -> tuple[StateChanges, str]:
        """Process the server's replies for each recipient."""
        row = entry.row
        final = {r: text for r, text in result.refused.items() if r not in result.faults}
        if result.permanent:
            spared = {*result.delivered, *result.deferred, *result.refused}
            final |= {r: result.error for r in flight.recipients if r not in spared}
        is_content = Fault.CONTENT in result.faults.values()
        if row.parts and not result.delivered and self._untouched(row):
            error = next(iter((*result.refused.values(), *final.values())), "")
            if result.permanent or is_content:
                entry.row = replace(row, last_error=error)
                remove = self._dissolve(entry, alone=True)
                one_by_one = f"the {self.form.noun}s of the digest are sent one by one"
                return StateChanges(sequence, remove=remove), f"{error}; {one_by_one}"
        plain = self._plain(entry, result, now)
        refused, wait = self._hold(flight, result, plain, now)
        words = "; ".join(dict.fromkeys({**result.deferred, **result.refused, **final}.values()))
        gone = {*result.delivered, *final, *(() if plain is None else plain.recipients_pending)}
        entry.whole = False if gone else entry.whole
        entry.row = row = replace(
            row,
            recipients_pending=tuple(r for r in row.recipients_pending if r not in gone),
            recipients_refused=(*row.recipients_refused, *final),
            last_error=words,
        )
        if result.delivered:
            for other in self._entries.values():
                other.overtaken = other.overtaken or other.row.attempts > 0
        problem = problem_text.undelivered(self.form, final, result.deferred, refused, wait)
        add = () if plain is None else (plain,)
        if not row.recipients_pending and not row.recipients_refused:
            return StateChanges(sequence, add=add, remove=self._forget(entry)), problem
        entry.answered = True
        later = now + backoff_seconds(row.attempts)
        if result.deferred:
            entry.later_seconds[flight.server] = later
        if row.parts and not (entry.maybe_taken or gone):
            for part in row.parts:
                self._entries[part].later_seconds |= entry.later_seconds
            return StateChanges(sequence, remove=self._dissolve(entry, alone=False)), problem
        # A digest that a recipient received or refused is sent to the others unchanged.
        entry.maybe_taken = entry.maybe_taken or bool(row.parts)
        entry.row = replace(row, maybe_taken=entry.maybe_taken)
        return StateChanges(sequence, add=(*add, entry.row)), problem

    def _hold(
        self, flight: Flight, result: SendResult, plain: OutboxRow | None, now: float
    ) -> tuple[dict[str, str], float]:
        """Open the routes that worked, hold the refused ones; return these and their wait."""
        server, routes = flight.server, self.routes
        routes.undo(server, {r: h for r, h in flight.holds.items() if r in result.deferred})
        opened = {r for r in result.delivered if routes.accepted(server, r)}
        before = flight.holds.get(ALL)
        is_in = before is not None and before.fault is Fault.LOGIN
        everything = (is_in or result.delivered or result.faults) and routes.accepted(server, ALL)
        for other in self._entries.values():
            if everything or not opened.isdisjoint(other.row.recipients_pending):
                other.gather = True
        short = () if plain is None else plain.recipients_pending
        refused = {r: text for r, text in result.refused.items() if r in result.faults}
        wait = 0.0
        for recipient in [r for r in refused if r not in short]:
            fault = result.faults[recipient]
            kind = Fault.POLICY if fault is Fault.CONTENT else fault
            routes.refused(server, recipient, kind, refused[recipient], now)
            wait = max(hold.next_seconds - now for hold in routes.holds(server, recipient))
        return {r: text for r, text in refused.items() if r not in short}, wait

    def _plain(self, entry: Entry, result: SendResult, now: float) -> OutboxRow | None:
        """Replace a mail by plain text for those to whom its size or content was refused."""
        to = tuple(r for r, fault in result.faults.items() if fault is Fault.CONTENT)
        made = self.form.plain(entry.row) if to and not entry.row.parts else None
        if made is None:
            return None
        there = self._entries.get(made.message_id)
        if there is not None:
            to = tuple(dict.fromkeys((*there.row.recipients_pending, *to)))
        made = replace(made, recipients_pending=to, recipients_refused=(), maybe_taken=False)
        self._entries[made.message_id] = Entry(made, entry.since_seconds, now, answered=True)
        return made

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
            and not entry.row.undeliverable
            and (entry.digest is None or not self._entries[entry.digest].row.undeliverable)
            and (entry.is_whole(self.form) or not self._all_refused(entry.row))
        ]

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
        self._entries[row.message_id] = entry = Entry(row, now, now)
        return entry

    def _dissolve(self, entry: Entry, *, alone: bool) -> tuple[str, ...]:
        """Dissolve a digest; return the IDs that state.db must delete."""
        for part in entry.row.parts:
            member = self._entries[part]
            member.digest, member.alone = None, alone
            # Not stored: many rows, and only for display.
            error, attempts = entry.row.last_error, member.row.attempts + 1
            member.row = replace(member.row, attempts=attempts, last_error=error)
        del self._entries[entry.row.message_id]
        self.routes.forget((entry.row.message_id,))
        return (entry.row.message_id,)

    def _untouched(self, row: OutboxRow) -> bool:
        """Whether no recipient has received or refused this digest."""
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

        Permanently refused mails first, then the least severe, the oldest first; never a mail that
        may have been accepted, nor the newest critical one.
        Limits: a cut mail still takes up to 1 KiB.
        """
        excess = sum(len(entry.row.data) for entry in self._entries.values()) - MAX_BYTES
        if excess <= 0:
            return ()
        rows = [e.row for e in self._entries.values() if e.row.severity is Severity.CRITICAL]
        newest = max(rows, key=lambda row: row.created_realtime_seconds, default=None)
        changed = []
        for entry in sorted(self._entries.values(), key=_worth):
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


def _worth(entry: Entry) -> tuple[bool, int, float]:
    row = entry.row
    return not row.undeliverable, row.severity, row.created_realtime_seconds
