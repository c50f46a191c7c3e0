"""The mails somebody has not got yet: which goes next, alone or in a digest. Pure.

Source: RFC 5321, 4.5.4.1 (when to try again) and 6.1 (who answers for a mail after DATA).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from iowarden.daemon.clock import PLAUSIBLE_SECONDS
from iowarden.daemon.notify import digest
from iowarden.daemon.storage.state_db import Batch, OutboxRow
from iowarden.rules.incidents.due import REPLACED_SECONDS
from iowarden.rules.quantity import duration
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.daemon.notify.attempt import SendResult
    from iowarden.daemon.storage.state_db import Committed

COMMIT_WAIT_SECONDS = 2.0
"""So long a mail waits for state.db before it goes out without."""
DIGEST_AFTER_SECONDS = 3600.0
"""Mails of which the oldest waits for so long go as one."""
MOST_BYTES = 8 * 1024 * 1024
"""Of all messages: a digest of them must be taken (Postfix by default takes 10,240,000 bytes)."""
REFUSED_SECONDS = 30 * 86400.0
"""So long a mail is kept that was refused for good."""
_OVERDUE_AGAIN_SECONDS = 86400.0
_BACKOFF_SECONDS = (5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0)
_PATIENCE = 3
"""So many failed attempts a mail holds back the others of its incident."""
_CRITICAL, _NOTICE = 2, 5
"""Journal priorities. Source: syslog(3)."""


def backoff_seconds(attempt: int) -> float:
    """Return how long to wait after the n-th failed attempt, counted from 1."""
    return _BACKOFF_SECONDS[min(max(attempt, 1), len(_BACKOFF_SECONDS)) - 1]


@dataclass(slots=True)
class _Entry:
    row: OutboxRow
    since_seconds: float
    """Waits since then."""
    due_seconds: float
    """Not before this."""
    sequence: int | None = None
    """The batch that makes it durable, while that is awaited."""
    told: bool = False
    """Whether the server has answered about this very mail; then it holds back no other."""
    maybe_taken: bool = False
    """Whether it was taken, for all we know; of the row it may be said too early."""
    alone: bool = False
    """Whether it was in a digest that did not get through."""
    digest: str | None = None
    """The digest it goes in, while that is under way or not settled."""
    overtaken: bool = False
    """Whether the server took another mail since it failed at this one."""
    whole: bool | None = None
    """Whether nobody has it by itself or refused it; None: its head has not been read."""

    def waits(self) -> bool:
        """Whether it is to be sent by itself or in a digest to come."""
        return self.digest is None and not self.row.kept

    def is_whole(self) -> bool:
        """Whether all whom it was written to are yet to get it."""
        if self.whole is None:
            to = digest.addressees(self.row.data)
            self.whole = set(self.row.recipients_pending) >= set(to)
        return self.whole

    def awaits_disk(self, now: float) -> bool:
        """Whether state.db has a moment left to make it durable."""
        return self.sequence is not None and self.due_seconds > now


@dataclass(frozen=True, slots=True)
class _Candidate:
    """What could go next: one mail, or several in a digest."""

    urgency: tuple[int, int, float, int]
    due_seconds: float
    members: tuple[_Entry, ...]


class Outbox:
    """What waits, and what becomes of it. `now` is given, in seconds.

    Critical ones first, then the oldest; those of one incident in order; one at a time. While the
    server fails, it is asked at growing intervals, for one mail. A mail goes out once state.db has
    it, or 2 s later; and after each one state.db gets the same time to learn what became of it, so
    that a kill repeats at most one.

    When mails wait for an hour, all that were surely never handed over go as one digest. What may
    have been taken goes again as it was, under its own Message-ID: so state.db knows before an
    attempt what is under way, a mail by its `maybe_taken`, a digest by its row. Does an attempt
    surely fail, the digest is dissolved, and the next one holds what came meanwhile, too.
    """

    def __init__(self) -> None:
        """Nothing waits."""
        self._entries: dict[str, _Entry] = {}
        self._chosen: str | None = None
        self._flying: str | None = None
        self._failures = 0
        self._server_due_seconds = float("-inf")
        self._marking: tuple[int, float] | None = None
        self._settling: tuple[int, float] | None = None
        self._overdue_told_seconds: float | None = None

    def __len__(self) -> int:
        """Return how many mails somebody has not got, those only kept among them."""
        return sum(not entry.row.parts for entry in self._entries.values())

    def refused(self) -> int:
        """Return how many are only kept, because everybody left refused them for good."""
        return sum(len(e.row.parts) or 1 for e in self._entries.values() if e.row.kept)

    def row(self, message_id: str) -> OutboxRow | None:
        """Return a mail of the outbox."""
        entry = self._entries.get(message_id)
        return None if entry is None else entry.row

    # --- in

    def add(
        self, row: OutboxRow, now: float, sequence: int, replaced: Iterable[str] = ()
    ) -> tuple[OutboxRow, ...]:
        """Take a mail; return what the batch `sequence` is to write down: it, and what was cut.

        While the server takes mails, it is written down as under way: so it need not be again.
        `replaced` are the ids of mails that it takes the place of, as `outdated` gave them; it has
        waited as long as they have. The batch is to remove them.
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
        """Return by incident the mails that surely nobody has, where one has waited for a minute.

        What may have been handed over, is under way or goes in a digest is none of them.
        """
        found: dict[str, list[_Entry]] = {}
        for entry in self._entries.values():
            row = entry.row
            if (
                entry.waits()
                and not (entry.maybe_taken or row.parts or row.recipients_refused)
                and row.message_id not in (self._flying, self._chosen)
                and entry.is_whole()
            ):
                found.setdefault(row.incident, []).append(entry)
        return {
            incident: tuple(entry.row for entry in entries)
            for incident, entries in found.items()
            if now - min(entry.since_seconds for entry in entries) >= REPLACED_SECONDS
        }

    def restore(self, rows: Iterable[OutboxRow], now: float) -> None:
        """Take what state.db kept; what is known here is newer."""
        for row in rows:
            created = row.created_realtime_seconds
            since = min(created, now) if created > PLAUSIBLE_SECONDS else now
            entry = _Entry(row, since, now, maybe_taken=row.maybe_taken)
            self._entries.setdefault(row.message_id, entry)
        for entry in list(self._entries.values()):
            if all(part in self._entries for part in entry.row.parts):
                for part in entry.row.parts:
                    self._entries[part].digest = entry.row.message_id
            else:  # it cannot be made again; what is left of it goes by itself
                del self._entries[entry.row.message_id]

    def committed(self, committed: Committed) -> None:
        """Stop waiting for a batch: it is durable, or cannot be."""
        for entry in self._entries.values():
            if entry.sequence is not None and entry.sequence <= committed.sequence:
                entry.sequence, entry.due_seconds = None, float("-inf")
        if self._settling is not None and self._settling[0] <= committed.sequence:
            self._settling = None
        if self._marking is not None and self._marking[0] <= committed.sequence:
            self._marking = None

    def retry_refused(self, recipients: tuple[str, ...], now: float, sequence: int) -> Batch:
        """Try what was refused for good again, now; return what the batch is to write down.

        It goes to those of `recipients` - whoever is mailed today - who have not got it.
        """
        add: list[OutboxRow] = []
        remove: list[str] = []
        for entry in list(self._entries.values()):
            row = entry.row
            if not row.recipients_refused or row.message_id in (self._flying, self._chosen):
                continue
            written_to = digest.addressees(self._messages(row)[0].data)
            missing = {*row.recipients_pending, *row.recipients_refused}
            got = {recipient for recipient in written_to if recipient not in missing}
            pending = tuple(recipient for recipient in recipients if recipient not in got)
            if pending:
                entry.row = replace(row, recipients_pending=pending, recipients_refused=())
                entry.due_seconds = now
                add.append(entry.row)
            else:
                remove += self._forget(entry)
        return Batch(sequence, add=tuple(add), remove=tuple(remove))

    def drop_refused(self, now: float, sequence: int) -> tuple[Batch, tuple[str, ...]]:
        """Forget what was refused for good and is older than 30 days; return a line for each."""
        lines: list[str] = []
        remove: list[str] = []
        for entry in list(self._entries.values()):
            row = entry.row
            if row.kept and now - entry.since_seconds > REFUSED_SECONDS:
                age = duration(now - entry.since_seconds)
                lines.append(
                    f"mail {row.message_id} is forgotten after {age}:"
                    f" {', '.join(row.recipients_refused)} refused it: {row.last_error}"
                )
                remove += self._forget(entry)
        return Batch(sequence, remove=tuple(remove)), tuple(lines)

    # --- out

    def begin(self, now: float, sequence: int) -> Batch | None:
        """Choose what `next` gives; return what state.db is to know before, or None."""
        if self._flying is not None or self._chosen is not None or now < self._not_before():
            return None
        candidates = [c for c in self._candidates(now) if c.due_seconds <= now]
        if not candidates:
            return None
        members = min(candidates, key=lambda candidate: candidate.urgency).members
        entry = members[0] if len(members) == 1 else self._gather(members, now)
        self._chosen = entry.row.message_id
        if entry.row.maybe_taken and len(members) == 1:  # it says so already
            return None
        entry.row = replace(entry.row, maybe_taken=True)
        self._marking = (sequence, now + COMMIT_WAIT_SECONDS) if sequence else None
        return Batch(sequence, add=(entry.row,))

    def next(self, now: float) -> OutboxRow | None:
        """Return the mail to send now, under way then until `sent`; None if none is due.

        One that `begin` has not chosen goes, too, but after a kill nobody knows that it did.
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
        return replace(row, data=digest.render(self._messages(row)))

    def next_due(self, now: float) -> float | None:
        """Return when `next` has something, or None while nothing waits or one is under way."""
        candidates = self._candidates(now)
        if self._flying is not None or not candidates:
            return None
        return max(self._not_before(), min(c.due_seconds for c in candidates))

    def sent(self, result: SendResult, now: float, sequence: int = 0) -> tuple[Batch, str]:
        """Return what to write down of an attempt, as batch `sequence`, and what went wrong, or ''.

        The text is the same as long as the fault is, so that it can be said once.
        """
        entry = self._entries.get(result.message_id)
        if self._flying == result.message_id:
            self._flying = None
        if entry is None:
            return Batch(sequence), ""
        if sequence:
            self._settling = sequence, now + COMMIT_WAIT_SECONDS
        entry.row = replace(entry.row, attempts=entry.row.attempts + 1)
        if result.error and not result.permanent:
            return self._failed(entry, result, now, sequence), f"{result.error}; {_TRIED_AGAIN}"
        self._failures, self._server_due_seconds = 0, float("-inf")
        return self._answered(entry, result, now, sequence)

    def _failed(self, entry: _Entry, result: SendResult, now: float, sequence: int) -> Batch:
        """Take note that nobody answered for this mail."""
        self._failures += 1
        self._server_due_seconds = now + backoff_seconds(self._failures)
        entry.maybe_taken = entry.maybe_taken or result.maybe_taken
        entry.told = entry.row.attempts >= _PATIENCE
        entry.row = replace(entry.row, last_error=result.error)
        remove: tuple[str, ...] = ()
        hopeless = entry.told and entry.overtaken and self._untouched(entry.row)
        if entry.row.parts and (hopeless or not entry.maybe_taken):
            # Where others get through, it is the digest that does not: better twice than never.
            remove = self._dissolve(entry, alone=entry.maybe_taken)
        add = {} if remove else {entry.row.message_id: entry}
        for other in self._entries.values():  # none of those is under way
            if other.row.maybe_taken and not other.maybe_taken and not other.row.kept:
                add[other.row.message_id] = other
        for other in add.values():
            other.row = replace(other.row, maybe_taken=other.maybe_taken)
        return Batch(sequence, add=tuple(other.row for other in add.values()), remove=remove)

    def _answered(
        self, entry: _Entry, result: SendResult, now: float, sequence: int
    ) -> tuple[Batch, str]:
        """Take note of what the server said, of each recipient."""
        row = entry.row
        refused = dict(result.refused)
        if result.permanent:
            spared = {*result.delivered, *result.deferred, *refused}
            refused |= {r: result.error for r in row.recipients_pending if r not in spared}
            if row.parts and not result.delivered and self._untouched(row):
                entry.row = replace(row, last_error=result.error)
                remove = self._dissolve(entry, alone=True)
                return Batch(sequence, remove=remove), f"{result.error}; {_ONE_BY_ONE}"
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
        problem = _problem(refused, result.deferred)
        if not row.recipients_pending and not row.recipients_refused:
            return Batch(sequence, remove=self._forget(entry)), problem
        entry.told, entry.due_seconds = True, now + backoff_seconds(row.attempts)
        if row.parts and not (entry.maybe_taken or gone):
            for part in row.parts:
                self._entries[part].due_seconds = entry.due_seconds
            return Batch(sequence, remove=self._dissolve(entry, alone=False)), problem
        # A digest that somebody has or refused goes to the others as it is.
        entry.maybe_taken = entry.maybe_taken or bool(row.parts)
        entry.row = replace(row, maybe_taken=entry.maybe_taken)
        return Batch(sequence, add=(entry.row,)), problem

    # --- how long it takes

    def oldest_unsent_seconds(self, now: float) -> float | None:
        """Return for how long the oldest mail that is still tried has waited."""
        waiting = [entry.since_seconds for entry in self._unsent()]
        return now - min(waiting) if waiting else None

    def overdue(self, now: float, limit_seconds: float) -> tuple[int, str] | None:
        """Return journal priority and text, if it is to be said how long mails wait already.

        Once when the oldest waits for longer than the limit, again each day, and when that is over.
        """
        unsent = self._unsent()
        oldest = min(unsent, key=lambda entry: entry.since_seconds, default=None)
        waited = 0.0 if oldest is None else now - oldest.since_seconds
        told = self._overdue_told_seconds
        if oldest is None or waited < limit_seconds:
            self._overdue_told_seconds = None
            over = f"mail: none waits for longer than {duration(limit_seconds)} any more"
            return None if told is None else (_NOTICE, over)
        if told is not None and now - told < _OVERDUE_AGAIN_SECONDS:
            return None
        self._overdue_told_seconds = now
        errors = [oldest.row.last_error, *(e.row.last_error for e in self._entries.values())]
        return _CRITICAL, (
            f"mail: {len(unsent)} not delivered, the oldest waits for {duration(waited)};"
            f" {next(filter(None, errors), 'not tried yet')}; run 'iowarden test-mail'"
        )

    def _unsent(self) -> list[_Entry]:
        """Return the mails that are still tried, by themselves or in a digest."""
        return [
            entry
            for entry in self._entries.values()
            if not entry.row.parts
            and not entry.row.kept
            and (entry.digest is None or not self._entries[entry.digest].row.kept)
        ]

    # --- which goes next

    def _not_before(self) -> float:
        settled = self._settling[1] if self._settling is not None else float("-inf")
        return max(settled, self._server_due_seconds)

    def _candidates(self, now: float) -> list[_Candidate]:
        """Return the first mail of each incident, those that hold back no other, and digests."""
        waiting = [entry for entry in self._entries.values() if entry.waits()]
        digests = self._digests(waiting, now)
        merged = {entry.row.message_id for members in digests for entry in members}
        heads: dict[str, _Entry] = {}
        worst: dict[str, Severity] = {}
        for entry in waiting:
            row = entry.row
            if entry.told or row.parts:
                continue
            worst[row.incident] = max(row.severity, worst.get(row.incident, Severity.INFO))
            if row.message_id not in merged:
                head = heads.setdefault(row.incident, entry)
                if row.number < head.row.number:
                    heads[row.incident] = entry
        free = [e for e in waiting if (e.told or e.row.parts) and e.row.message_id not in merged]
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
        """Return the mails that go together: for the same people, and surely never handed over."""
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
        """Return the order; the worst mail of the incident counts, for it waits behind this one.

        While the server fails, one that has been tried often lets others try: it may be what it
        fails at.
        """
        rows = [entry.row for entry in members]
        severity = max(
            row.severity if entry.told else max(row.severity, worst.get(row.incident, row.severity))
            for entry, row in zip(members, rows, strict=True)
        )
        tried = min(row.attempts for row in rows) // _PATIENCE if self._failures else 0
        return tried, -severity, rows[0].created_realtime_seconds, rows[0].number

    # --- digests

    def _gather(self, members: tuple[_Entry, ...], now: float) -> _Entry:
        """Make the digest of these mails."""
        rows = [entry.row for entry in members]
        worst = max(rows, key=lambda row: row.severity)
        row = OutboxRow(
            message_id=digest.message_id(rows),
            incident=worst.incident,
            number=0,
            severity=worst.severity,
            created_realtime_seconds=rows[-1].created_realtime_seconds,
            recipients_pending=rows[0].recipients_pending,
            data=b"",
            parts=tuple(row.message_id for row in rows),
        )
        for entry in members:
            entry.digest = row.message_id
        self._entries[row.message_id] = entry = _Entry(row, now, now)
        return entry

    def _dissolve(self, entry: _Entry, *, alone: bool) -> tuple[str, ...]:
        """Take a digest apart; return what state.db is to forget."""
        for part in entry.row.parts:
            member = self._entries[part]
            member.digest, member.alone = None, alone
            # Not written down: it is many rows, and only for people to read.
            error, attempts = entry.row.last_error, member.row.attempts + 1
            member.row = replace(member.row, attempts=attempts, last_error=error)
        del self._entries[entry.row.message_id]
        return (entry.row.message_id,)

    def _untouched(self, row: OutboxRow) -> bool:
        """Whether nobody has this digest or refused it."""
        return row.recipients_pending == self._messages(row)[0].recipients_pending

    def _messages(self, row: OutboxRow) -> list[OutboxRow]:
        """Return the mail, or those that a digest holds."""
        return [self._entries[part].row for part in row.parts] or [row]

    def _forget(self, entry: _Entry) -> tuple[str, ...]:
        """Let go of a mail, or of a digest and all that it holds; return their ids."""
        gone = (entry.row.message_id, *entry.row.parts)
        for message_id in gone:
            del self._entries[message_id]
        return gone

    def _cut(self) -> tuple[OutboxRow, ...]:
        """Cut mails to their line in a digest until there is room; return those.

        What was refused for good first, then the least severe, the oldest first; never one that may
        have been taken, and of the critical ones not the newest.
        Limits: what is cut keeps under 1 KiB each.
        """
        excess = sum(len(entry.row.data) for entry in self._entries.values()) - MOST_BYTES
        if excess <= 0:
            return ()
        rows = [e.row for e in self._entries.values() if e.row.severity is Severity.CRITICAL]
        newest = max(rows, key=lambda row: row.created_realtime_seconds, default=None)
        changed = []
        for entry in sorted(self._entries.values(), key=_worth):
            row = entry.row
            spared = entry.maybe_taken or entry.digest is not None or row is newest
            if spared or row.parts or digest.is_cut(row.data):
                continue
            if row.message_id in (self._flying, self._chosen):
                continue
            entry.row = replace(row, data=digest.cut(row.data))
            changed.append(entry.row)
            excess -= len(row.data) - len(entry.row.data)
            if excess <= 0:
                break
        return tuple(changed)


_TRIED_AGAIN = "the mails wait in the outbox and are tried again, at least every 15 min"
_ONE_BY_ONE = "what the digest holds goes one by one"


def _age(entry: _Entry) -> tuple[float, int, str]:
    row = entry.row
    return row.created_realtime_seconds, row.number, row.message_id


def _worth(entry: _Entry) -> tuple[bool, int, float]:
    row = entry.row
    return not row.kept, row.severity, row.created_realtime_seconds


def _problem(refused: Mapping[str, str], deferred: Mapping[str, str]) -> str:
    parts = []
    if refused:
        said = "; ".join(dict.fromkeys(refused.values()))
        who = ", ".join(refused)
        parts.append(
            f"{said}; not delivered to {who}, kept in state.db and not tried again before a reload:"
            " mend 'mail.to', then 'systemctl reload iowarden'"
        )
    if deferred:
        said = "; ".join(dict.fromkeys(deferred.values()))
        parts.append(f"{said}; not yet delivered to {', '.join(deferred)}, tried again")
    return "; ".join(parts)
