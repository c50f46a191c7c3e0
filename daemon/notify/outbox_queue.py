"""Outbox queue: chooses which mail is sent next, when, by which server and to whom. Pure."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.notify import digest
from iowarden.daemon.notify.refusal import MAX_ATTEMPTS_SECONDS
from iowarden.daemon.notify.routes import ALL, ANYTIME, NEVER, Routes
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.daemon.notify.message_format import MessageFormat
    from iowarden.daemon.notify.routes import Hold
    from iowarden.daemon.storage.state_db import OutboxRow


DIGEST_AFTER_SECONDS = 3600.0
"""If the oldest mail has waited for this long, the mails are sent as one digest."""
SLOW_SECONDS = 2.0
"""A mail that takes longer delays no other: they use a second connection."""
MAX_DIGEST_BYTES = 1024 * 1024
"""Of the mails in a digest; the others follow in the next one."""
MAX_SINGLE = 20
"""If more mails wait, they are sent as a digest at once."""
PATIENCE_ATTEMPTS = 3
"""For this many failed attempts a mail delays the other mails of its incident."""


@dataclass(slots=True)
class Entry:
    """A mail in the outbox."""

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
    later_seconds: dict[str, float] = field(default_factory=dict)
    """By server: not sent to it before this time, since it deferred this mail."""
    gather: bool = False
    """Whether it waited because of a refusal that has ended: now it is sent in a digest."""
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
class Candidate:
    """A candidate to be sent next: one mail, or several in a digest."""

    urgency: tuple[int, int, float, int]
    due_seconds: float
    members: tuple[Entry, ...]
    server: str
    recipients: tuple[str, ...]


@dataclass(slots=True)
class Flight:
    """A mail that is being sent: where to, since when, and the holds there before."""

    message_id: str
    server: str
    recipients: tuple[str, ...]
    begun_seconds: float
    holds: Mapping[str, Hold] = field(default_factory=dict)


class OutboxQueue:
    """The mails of an outbox, the servers they may be sent to, and those that are being sent."""

    def __init__(self, messages: MessageFormat | None = None) -> None:
        """Start empty, for mails unless another form of messages is given."""
        self.form = messages or digest.MailFormat()
        self._entries: dict[str, Entry] = {}
        self.routes = Routes()
        self.servers: tuple[str, ...] = ("",)
        """Names of the servers, the preferred one first."""
        self.connections = 1
        """Limit of mails that are being sent by one server."""
        self._chosen: Flight | None = None
        self._flights: dict[str, Flight] = {}
        self._failures: dict[str, int] = {}
        self._failed_seconds: dict[str, float] = {}
        self._server_due_seconds: dict[str, float] = {}
        self._marking: tuple[int, float] | None = None
        self._settling: tuple[int, float] | None = None

    def _is_refused(self, recipient: str) -> bool:
        """Whether all servers refuse a recipient."""
        return all(self.routes.holds(server, recipient) for server in self.servers)

    def _all_refused(self, row: OutboxRow) -> bool:
        """Whether no remaining recipient can be reached before the servers change their mind."""
        return all(map(self._is_refused, row.recipients_pending))

    def sending(self) -> int:
        """Return the number of mails that are being sent."""
        return len(self._flights)

    def _is_busy(self, message_id: str) -> bool:
        """Whether a mail is being sent, or was chosen."""
        chosen = self._chosen is not None and self._chosen.message_id == message_id
        return chosen or message_id in self._flights

    def _not_before(self) -> float:
        return self._settling[1] if self._settling is not None else ANYTIME

    def _is_healthy(self) -> bool:
        """Whether a server accepts mails, as far as that is known."""
        return any(
            not self._failures.get(each) and not self.routes.holds(each, ALL)
            for each in self.servers
        )

    def _is_exhausted(self, entry: Entry) -> bool:
        """Whether a mail was sent so often without a reply that only a digest contains it."""
        found = self.routes.unanswered(entry.row.message_id)
        return found is not None and found.is_exhausted and not entry.row.parts

    def _slot_seconds(self, server: str) -> float:
        """Return from when a server may be sent another mail."""
        begun = [each.begun_seconds for each in self._flights.values() if each.server == server]
        if len(begun) >= self.connections:
            return NEVER
        return begun[0] + SLOW_SECONDS if begun else ANYTIME

    def _candidate(
        self, members: tuple[Entry, ...], worst: Mapping[str, Severity], now: float
    ) -> Candidate:
        """Return when, by which server and to whom mails can be sent, alone or as a digest.

        A digest does not probe a refusal: it may be refused for what one of its mails contains.
        """
        to = members[0].row.recipients_pending
        newest = max(entry.since_seconds for entry in members)
        first = self._due_seconds(members)
        best = (NEVER, self.servers[0], to)
        for server in self.servers:
            slot = self._slot_seconds(server)
            later = (entry.later_seconds.get(server, ANYTIME) for entry in members)
            ready = max(first, self._server_due_seconds.get(server, ANYTIME), *later)
            routes = {
                each: NEVER
                if len(members) > 1 and self.routes.holds(server, each)
                else self.routes.due(server, each, newest, now)
                for each in to
            }
            ready = max(ready, min(routes.values(), default=NEVER))
            due = max(ready, slot)
            if due < best[0]:
                best = due, server, tuple(each for each in to if routes[each] <= max(due, now))
            if due <= now or (ready <= now and slot != NEVER):
                break  # the next server is used only if this one is not usable
        return Candidate(self._urgency(members, worst), best[0], members, best[1], best[2])

    def _due_seconds(self, members: tuple[Entry, ...]) -> float:
        """Return from when these mails may be sent; others take an exhausted one with them."""
        until = self.routes.patience_until
        certain = [entry for entry in members if not self._is_exhausted(entry)]
        return max(
            (max(entry.due_seconds, until(entry.row.message_id)) for entry in certain),
            default=min(until(entry.row.message_id) for entry in members),
        )

    def _candidates(self, now: float) -> list[Candidate]:
        """Return the first mail of each incident, those that delay no other, and digests."""
        waiting = [
            entry
            for entry in self._entries.values()
            if entry.waits()
            and (
                (flight := self._flights.get(entry.row.message_id)) is None
                or now - flight.begun_seconds < SLOW_SECONDS
            )
        ]
        digests = self._digests(waiting, now)
        merged = {entry.row.message_id for members in digests for entry in members}
        heads: dict[str, Entry] = {}
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
            self._candidate((entry,), worst, now)
            for entry in (*heads.values(), *free)
            if not self._is_busy(entry.row.message_id) and not self._is_exhausted(entry)
        ]
        return found + [
            self._candidate(members, worst, now)
            for members in digests
            if not any(
                e.row.incident in heads and heads[e.row.incident].row.number < e.row.number
                for e in members
            )
        ]

    def _digests(self, waiting: list[Entry], now: float) -> list[tuple[Entry, ...]]:
        """Return the mails for each digest: same recipients, and certainly never handed over.

        A mail that may have arrived is in one if it was repeated often enough.
        """
        groups: dict[tuple[str, ...], list[Entry]] = {}
        for entry in waiting:
            row = entry.row
            exhausted = self._is_exhausted(entry)
            if not (
                (entry.maybe_taken and not exhausted)
                or entry.alone
                or row.parts
                or row.recipients_refused
                or entry.awaits_disk(now)
                or self._is_busy(row.message_id)
                or (exhausted and now - entry.since_seconds > MAX_ATTEMPTS_SECONDS)
            ):
                groups.setdefault(row.recipients_pending, []).append(entry)
        found: list[tuple[Entry, ...]] = []
        for recipients, group in groups.items():
            if not any(not self.routes.holds(s, r) for s in self.servers for r in recipients):
                continue
            if not self._is_digest_due(group, now):
                group = [entry for entry in group if self._is_exhausted(entry)]  # noqa: PLW2901
            found += divided(sorted(group, key=age))
        return [part for part in found if len(part) > 1 or self._is_exhausted(part[0])]

    def _is_digest_due(self, group: list[Entry], now: float) -> bool:
        """Whether mails for the same recipients are sent as a digest."""
        certain = [entry for entry in group if not self._is_exhausted(entry)]
        return len(certain) > 1 and (
            now - min(entry.since_seconds for entry in certain) >= DIGEST_AFTER_SECONDS
            or any(entry.gather for entry in certain)
            or len(certain) > MAX_SINGLE
        )

    def _urgency(
        self, members: tuple[Entry, ...], worst: Mapping[str, Severity]
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
        failing = not self._is_healthy() or any(map(self._all_refused, rows))
        tried = min(row.attempts for row in rows) // PATIENCE_ATTEMPTS if failing else 0
        return tried, -severity, rows[0].created_realtime_seconds, rows[0].number

    def _messages(self, row: OutboxRow) -> list[OutboxRow]:
        """Return the mail, or the mails of a digest."""
        return [self._entries[part].row for part in row.parts] or [row]


def divided(members: list[Entry]) -> list[tuple[Entry, ...]]:
    """Divide mails into digests by size."""
    found: list[list[Entry]] = []
    size = MAX_DIGEST_BYTES
    for entry in members:
        if size + len(entry.row.data) > MAX_DIGEST_BYTES:
            found.append([])
            size = 0
        found[-1].append(entry)
        size += len(entry.row.data)
    return [tuple(each) for each in found if each]


def age(entry: Entry) -> tuple[float, int, str]:
    """Return the sort key of a digest's mails: the oldest first."""
    row = entry.row
    return row.created_realtime_seconds, row.number, row.message_id
