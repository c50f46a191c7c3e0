"""Outbox: the queue of undelivered mails, or messages of another receiver; selects the next. Pure.

Source: RFC 5321, 4.5.4.1 (retries) and 6.1 (responsibility for a mail after DATA).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from iowarden.daemon.clock import PLAUSIBLE_SECONDS
from iowarden.daemon.notify import digest
from iowarden.daemon.storage.state_db import OutboxRow, StateChanges
from iowarden.rules.incidents.due import REPLACED_SECONDS
from iowarden.rules.quantity import duration
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iowarden.daemon.notify.attempt import SendResult
    from iowarden.daemon.storage.state_db import Committed


class MessageFormat(Protocol):
    """The form of an outbox's messages, and how texts for people name them."""

    @property
    def where(self) -> str:
        """Return what a line about the receiver begins with: 'mail'."""

    @property
    def noun(self) -> str:
        """Return what one message is called: 'mail'."""

    @property
    def setting(self) -> str:
        """Return what to correct in the configuration if messages are refused."""

    @property
    def test(self) -> str:
        """Return the command that tests the receiver."""

    def addressees(self, data: bytes) -> tuple[str, ...]:
        """Return the recipients that a message names."""

    def cut(self, data: bytes) -> bytes:
        """Return a message without its text."""

    def is_cut(self, data: bytes) -> bool:
        """Whether the text of a message was discarded."""

    def digest_id(self, rows: Sequence[OutboxRow]) -> str:
        """Return the message id of a digest, derived from the messages that it contains."""

    def digest(self, rows: Sequence[OutboxRow]) -> bytes:
        """Return one message that contains others, the same bytes for the same rows."""


COMMIT_WAIT_SECONDS = 2.0
"""How long a mail waits for state.db before it is sent without having been stored."""
DIGEST_AFTER_SECONDS = 3600.0
"""If the oldest mail has waited for this long, the mails are sent as one digest."""
MAX_BYTES = 8 * 1024 * 1024
"""Of all messages: servers must accept a digest of them (Postfix's default is 10,240,000 bytes)."""
REFUSED_SECONDS = 30 * 86400.0
"""How long a permanently refused mail is retained."""
MAX_RETRY_AFTER_SECONDS = 3600.0
"""A server that requests a longer pause is tried after this one."""
_OVERDUE_REPEAT_SECONDS = 86400.0
_BACKOFF_SECONDS = (5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0)
_PATIENCE = 3
"""For this many failed attempts a mail delays the other mails of its incident."""
_CRITICAL, _NOTICE = 2, 5
"""Journal priorities. Source: syslog(3)."""


def backoff_seconds(attempt: int) -> float:
    """Return the retry delay after the n-th failed attempt, counted from 1."""
    return _BACKOFF_SECONDS[min(max(attempt, 1), len(_BACKOFF_SECONDS)) - 1]


@dataclass(slots=True)
class _Entry:
    row: OutboxRow
    since_seconds: float
    """Start of its waiting time."""
    due_seconds: float
    """Not sent before this time."""
    sequence: int | None = None
    """The batch that stores it, while its confirmation is awaited."""
    answered: bool = False
    """Whether the server has replied to this mail, or it failed often; then it delays no other."""
    maybe_taken: bool = False
    """Whether the server may have accepted it; the row's flag may be set before the attempt."""
    alone: bool = False
    """Whether it was in a digest that was not accepted: then it is sent alone."""
    digest: str | None = None
    """The digest that contains it, while that is being sent or not completed."""
    overtaken: bool = False
    """Whether the server accepted another mail after this one failed."""
    whole: bool | None = None
    """Whether no recipient has received or refused it alone; None: not determined yet."""

    def waits(self) -> bool:
        """Whether it is to be sent, alone or in a future digest."""
        return self.digest is None and not self.row.undeliverable

    def is_whole(self, form: MessageFormat) -> bool:
        """Whether none of its recipients has it yet."""
        if self.whole is None:
            to = form.addressees(self.row.data)
            self.whole = set(self.row.recipients_pending) >= set(to)
        return self.whole

    def awaits_disk(self, now: float) -> bool:
        """Whether it still waits for state.db to store it."""
        return self.sequence is not None and self.due_seconds > now


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A candidate to be sent next: one mail, or several in a digest."""

    urgency: tuple[int, int, float, int]
    due_seconds: float
    members: tuple[_Entry, ...]


class Outbox:
    """The queue of waiting mails and their delivery state. `now` is passed in, in seconds.

    Order: critical mails first, then the oldest; mails of one incident in their order; one at a
    time. While the server fails, one mail is retried at growing intervals. A mail is sent when
    state.db has stored it, or after 2 s; after each attempt state.db gets the same time to store
    the result, so that a kill causes at most one duplicate.

    If mails wait for an hour, all that were certainly never handed over are sent as one digest. A
    mail that the server may have accepted is sent again unchanged, under its own Message-ID.
    Therefore state.db stores before an attempt what is being sent: a mail by its `maybe_taken`, a
    digest by its row. If the attempt certainly failed, the digest is dissolved, and the next digest
    also contains newer mails.
    """

    def __init__(self, messages: MessageFormat | None = None) -> None:
        """Start empty, for mails unless another form of messages is given."""
        self.form = messages or digest.MailFormat()
        self._entries: dict[str, _Entry] = {}
        self._chosen: str | None = None
        self._flying: str | None = None
        self._failures = 0
        self._server_due_seconds = float("-inf")
        self._marking: tuple[int, float] | None = None
        self._settling: tuple[int, float] | None = None
        self._overdue_logged_seconds: float | None = None

    def __len__(self) -> int:
        """Return the number of undelivered mails, including those that are only retained."""
        return sum(not entry.row.parts for entry in self._entries.values())

    def refused(self) -> int:
        """Return the number of mails that all remaining recipients refused: only retained."""
        return sum(len(e.row.parts) or 1 for e in self._entries.values() if e.row.undeliverable)

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
        since = min([now, *(entry.since_seconds for entry in gone)])
        created = (entry.row.created_realtime_seconds for entry in gone)
        row = replace(
            row,
            created_realtime_seconds=min([row.created_realtime_seconds, *created]),
            maybe_taken=self._failures == 0,
        )
        due = now + COMMIT_WAIT_SECONDS
        self._entries[row.message_id] = _Entry(row, since, due, sequence)
        return (row, *self._cut())

    def outdated(self, now: float) -> dict[str, tuple[OutboxRow, ...]]:
        """Return by incident the mails certainly not delivered, if one waited for a minute.

        Mails that may have been handed over, are being sent or are in a digest are not returned.
        """
        found: dict[str, list[_Entry]] = {}
        for entry in self._entries.values():
            row = entry.row
            if (
                entry.waits()
                and not (entry.maybe_taken or row.parts or row.recipients_refused)
                and row.message_id not in (self._flying, self._chosen)
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
            entry = _Entry(row, since, now, maybe_taken=row.maybe_taken)
            self._entries.setdefault(row.message_id, entry)
        for entry in list(self._entries.values()):
            if all(part in self._entries for part in entry.row.parts):
                for part in entry.row.parts:
                    self._entries[part].digest = entry.row.message_id
            else:  # a mail of this digest is missing: the others are sent alone
                del self._entries[entry.row.message_id]

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
            if not row.recipients_refused or row.message_id in (self._flying, self._chosen):
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
            if dropped or not (row.undeliverable or unused):
                continue
            if now - entry.since_seconds > REFUSED_SECONDS:
                age = duration(now - entry.since_seconds)
                why = (
                    f"refused for {', '.join(row.recipients_refused)}: {row.last_error}"
                    if row.undeliverable
                    else "its receiver is not configured"
                )
                lines.append(f"{self.form.noun} {row.message_id} is discarded after {age}: {why}")
                remove += self._forget(entry)
        return StateChanges(sequence, remove=tuple(remove)), tuple(lines)

    # --- out

    def begin(self, now: float, sequence: int) -> StateChanges | None:
        """Choose what `next` returns; return what state.db must store before, or None."""
        if self._flying is not None or self._chosen is not None or now < self._not_before():
            return None
        candidates = [c for c in self._candidates(now) if c.due_seconds <= now]
        if not candidates:
            return None
        members = min(candidates, key=lambda candidate: candidate.urgency).members
        entry = members[0] if len(members) == 1 else self._gather(members, now)
        self._chosen = entry.row.message_id
        if entry.row.maybe_taken and len(members) == 1:  # stored already
            return None
        entry.row = replace(entry.row, maybe_taken=True)
        self._marking = (sequence, now + COMMIT_WAIT_SECONDS) if sequence else None
        return StateChanges(sequence, add=(entry.row,))

    def next(self, now: float) -> OutboxRow | None:
        """Return the mail to send now, in progress until `sent`; None if none is due.

        A mail that `begin` has not chosen is returned, too, but the attempt is lost after a kill.
        """
        if self._flying is not None:
            return None
        if self._chosen is None:
            self.begin(now, 0)
        if self._chosen is None or (self._marking is not None and now < self._marking[1]):
            return None
        self._flying, self._chosen = self._chosen, None
        row = self._entries[self._flying].row
        if not row.parts:
            return row
        return replace(row, data=self.form.digest(self._messages(row)))

    def next_due(self, now: float) -> float | None:
        """Return when `next` has a mail; None if none waits or one is being sent."""
        candidates = self._candidates(now)
        if self._flying is not None or not candidates:
            return None
        return max(self._not_before(), min(c.due_seconds for c in candidates))

    def sent(self, result: SendResult, now: float, sequence: int = 0) -> tuple[StateChanges, str]:
        """Return the batch `sequence` to store after an attempt, and its error text, or ''.

        The same fault gives the same text, so that it can be logged once.
        """
        entry = self._entries.get(result.message_id)
        if self._flying == result.message_id:
            self._flying = None
        if entry is None:
            return StateChanges(sequence), ""
        if sequence:
            self._settling = sequence, now + COMMIT_WAIT_SECONDS
        entry.row = replace(entry.row, attempts=entry.row.attempts + 1)
        if result.error and not result.permanent:
            retry = (
                f"the {self.form.noun}s wait in the outbox and are retried at least every 15 min"
            )
            return self._failed(entry, result, now, sequence), f"{result.error}; {retry}"
        self._failures, self._server_due_seconds = 0, float("-inf")
        return self._answered(entry, result, now, sequence)

    def _failed(self, entry: _Entry, result: SendResult, now: float, sequence: int) -> StateChanges:
        """Process an attempt that the server did not reply to."""
        self._failures += 1
        wait = min(result.retry_after_seconds, MAX_RETRY_AFTER_SECONDS)
        self._server_due_seconds = now + max(backoff_seconds(self._failures), wait)
        entry.maybe_taken = entry.maybe_taken or result.maybe_taken
        entry.answered = entry.row.attempts >= _PATIENCE
        entry.row = replace(entry.row, last_error=result.error)
        remove: tuple[str, ...] = ()
        hopeless = entry.answered and entry.overtaken and self._untouched(entry.row)
        if entry.row.parts and (hopeless or not entry.maybe_taken):
            # Other mails are accepted, the digest is not: a duplicate is better than a lost mail.
            remove = self._dissolve(entry, alone=entry.maybe_taken)
        add = {} if remove else {entry.row.message_id: entry}
        for other in self._entries.values():  # none of them is being sent
            if other.row.maybe_taken and not other.maybe_taken and not other.row.undeliverable:
                add[other.row.message_id] = other
        for other in add.values():
            other.row = replace(other.row, maybe_taken=other.maybe_taken)
        return StateChanges(sequence, add=tuple(other.row for other in add.values()), remove=remove)

    def _answered(
        self, entry: _Entry, result: SendResult, now: float, sequence: int
    ) -> tuple[StateChanges, str]:
        """Process the server's replies for each recipient."""
        row = entry.row
        refused = dict(result.refused)
        if result.permanent:
            spared = {*result.delivered, *result.deferred, *refused}
            refused |= {r: result.error for r in row.recipients_pending if r not in spared}
            if row.parts and not result.delivered and self._untouched(row):
                entry.row = replace(row, last_error=result.error)
                remove = self._dissolve(entry, alone=True)
                one_by_one = f"the {self.form.noun}s of the digest are sent one by one"
                return StateChanges(sequence, remove=remove), f"{result.error}; {one_by_one}"
        words = "; ".join(dict.fromkeys({**result.deferred, **refused}.values()))
        gone = {*result.delivered, *refused}
        entry.whole = False if gone else entry.whole
        entry.row = row = replace(
            row,
            recipients_pending=tuple(r for r in row.recipients_pending if r not in gone),
            recipients_refused=(*row.recipients_refused, *refused),
            last_error=words,
        )
        if result.delivered:
            for other in self._entries.values():
                other.overtaken = other.overtaken or other.row.attempts > 0
        problem = self._problem(refused, result.deferred)
        if not row.recipients_pending and not row.recipients_refused:
            return StateChanges(sequence, remove=self._forget(entry)), problem
        entry.answered, entry.due_seconds = True, now + backoff_seconds(row.attempts)
        if row.parts and not (entry.maybe_taken or gone):
            for part in row.parts:
                self._entries[part].due_seconds = entry.due_seconds
            return StateChanges(sequence, remove=self._dissolve(entry, alone=False)), problem
        # A digest that a recipient received or refused is sent to the others unchanged.
        entry.maybe_taken = entry.maybe_taken or bool(row.parts)
        entry.row = replace(row, maybe_taken=entry.maybe_taken)
        return StateChanges(sequence, add=(entry.row,)), problem

    def _problem(self, refused: Mapping[str, str], deferred: Mapping[str, str]) -> str:
        parts = []
        if refused:
            said = "; ".join(dict.fromkeys(refused.values()))
            who = ", ".join(refused)
            parts.append(
                f"{said}; not delivered to {who}, stored in state.db and not retried before a"
                f" reload: correct {self.form.setting}, then 'systemctl reload iowarden'"
            )
        if deferred:
            said = "; ".join(dict.fromkeys(deferred.values()))
            parts.append(f"{said}; not yet delivered to {', '.join(deferred)}, will be retried")
        return "; ".join(parts)

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

    def _unsent(self) -> list[_Entry]:
        """Return the mails that are still retried, alone or in a digest."""
        return [
            entry
            for entry in self._entries.values()
            if not entry.row.parts
            and not entry.row.undeliverable
            and (entry.digest is None or not self._entries[entry.digest].row.undeliverable)
        ]

    # --- choosing the next mail

    def _not_before(self) -> float:
        settled = self._settling[1] if self._settling is not None else float("-inf")
        return max(settled, self._server_due_seconds)

    def _candidates(self, now: float) -> list[_Candidate]:
        """Return the first mail of each incident, those that delay no other, and digests."""
        waiting = [entry for entry in self._entries.values() if entry.waits()]
        digests = self._digests(waiting, now)
        merged = {entry.row.message_id for members in digests for entry in members}
        heads: dict[str, _Entry] = {}
        worst: dict[str, Severity] = {}
        for entry in waiting:
            row = entry.row
            if entry.answered or row.parts:
                continue
            worst[row.incident] = max(row.severity, worst.get(row.incident, Severity.INFO))
            if row.message_id not in merged:
                head = heads.setdefault(row.incident, entry)
                if row.number < head.row.number:
                    heads[row.incident] = entry
        free = [
            e for e in waiting if (e.answered or e.row.parts) and e.row.message_id not in merged
        ]
        found = [
            _Candidate(self._urgency((entry,), worst), entry.due_seconds, (entry,))
            for entry in (*heads.values(), *free)
        ]
        for members in digests:
            if not any(
                e.row.incident in heads and heads[e.row.incident].row.number < e.row.number
                for e in members
            ):
                due = min(entry.due_seconds for entry in members)
                found.append(_Candidate(self._urgency(members, worst), due, members))
        return found

    def _digests(self, waiting: list[_Entry], now: float) -> list[tuple[_Entry, ...]]:
        """Return the mails for each digest: same recipients, and certainly never handed over."""
        groups: dict[tuple[str, ...], list[_Entry]] = {}
        for entry in waiting:
            row = entry.row
            if not (
                entry.maybe_taken
                or entry.alone
                or row.parts
                or row.recipients_refused
                or entry.awaits_disk(now)
                or row.message_id in (self._flying, self._chosen)
            ):
                groups.setdefault(row.recipients_pending, []).append(entry)
        return [
            tuple(sorted(group, key=_age))
            for group in groups.values()
            if len(group) > 1 and now - min(e.since_seconds for e in group) >= DIGEST_AFTER_SECONDS
        ]

    def _urgency(
        self, members: tuple[_Entry, ...], worst: Mapping[str, Severity]
    ) -> tuple[int, int, float, int]:
        """Return the sort key; the most severe mail of the incident counts: it waits for this one.

        While the server fails, mails with many attempts come later: they may be the cause.
        """
        rows = [entry.row for entry in members]
        severity = max(
            row.severity
            if entry.answered
            else max(row.severity, worst.get(row.incident, row.severity))
            for entry, row in zip(members, rows, strict=True)
        )
        tried = min(row.attempts for row in rows) // _PATIENCE if self._failures else 0
        return tried, -severity, rows[0].created_realtime_seconds, rows[0].number

    # --- digests

    def _gather(self, members: tuple[_Entry, ...], now: float) -> _Entry:
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
        self._entries[row.message_id] = entry = _Entry(row, now, now)
        return entry

    def _dissolve(self, entry: _Entry, *, alone: bool) -> tuple[str, ...]:
        """Dissolve a digest; return the IDs that state.db must delete."""
        for part in entry.row.parts:
            member = self._entries[part]
            member.digest, member.alone = None, alone
            # Not stored: many rows, and only for display.
            error, attempts = entry.row.last_error, member.row.attempts + 1
            member.row = replace(member.row, attempts=attempts, last_error=error)
        del self._entries[entry.row.message_id]
        return (entry.row.message_id,)

    def _untouched(self, row: OutboxRow) -> bool:
        """Whether no recipient has received or refused this digest."""
        return row.recipients_pending == self._messages(row)[0].recipients_pending

    def _messages(self, row: OutboxRow) -> list[OutboxRow]:
        """Return the mail, or the mails of a digest."""
        return [self._entries[part].row for part in row.parts] or [row]

    def _forget(self, entry: _Entry) -> tuple[str, ...]:
        """Delete a mail, or a digest with its mails; return their IDs."""
        gone = (entry.row.message_id, *entry.row.parts)
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
            if row.message_id in (self._flying, self._chosen):
                continue
            entry.row = replace(row, data=self.form.cut(row.data))
            changed.append(entry.row)
            excess -= len(row.data) - len(entry.row.data)
            if excess <= 0:
                break
        return tuple(changed)


def _age(entry: _Entry) -> tuple[float, int, str]:
    row = entry.row
    return row.created_realtime_seconds, row.number, row.message_id


def _worth(entry: _Entry) -> tuple[bool, int, float]:
    row = entry.row
    return not row.undeliverable, row.severity, row.created_realtime_seconds
