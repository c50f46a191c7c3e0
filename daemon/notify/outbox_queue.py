"""Outbox queue: chooses which message is sent next, when, by which server and to whom. Pure."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.notify import digest
from iowarden.daemon.notify.retry import ANYTIME, MAX_REFUSED_SECONDS, NEVER, NO_REPLY, REFUSALS
from iowarden.daemon.notify.routes import Routes, Sending
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from iowarden.daemon.notify.message_format import MessageFormat
    from iowarden.daemon.notify.routes import Flight
    from iowarden.daemon.storage.state_db import OutboxRow


DIGEST_AFTER_SECONDS = 3600.0
"""If the oldest mail has waited for this long, the mails are sent as one digest."""
SLOW_SECONDS = 2.0
"""A mail that takes longer delays no other: they use a second connection."""
MAX_DIGEST_BYTES = 1024 * 1024
"""Of the mails in a digest; the others follow in the next one."""
MAX_SINGLE = 20
"""If more mails wait, they are sent as a digest at once."""
MAX_RELEASED, RELEASE_SECONDS = 10, 60.0
"""At most so many waiting messages are sent within that time: a server just recovered."""
_PATIENCE_ATTEMPTS = 3
"""After so many attempts another message probes a server that does not reply."""


@dataclass(slots=True)
class Entry:
    """A mail in the outbox."""

    row: OutboxRow
    since_seconds: float
    """Start of its waiting time, or of a mail that it replaced."""
    added_seconds: float
    due_seconds: float
    """Not sent before this time."""
    sequence: int | None = None
    """The batch that stores it, while its confirmation is awaited."""
    maybe_taken: bool = False
    """Whether the server may have accepted it; the row's flag may be set before the attempt."""
    is_alone: bool = False
    """Whether it is in no digest: it was refused in one, or while the server accepted others."""
    digest: str | None = None
    """The digest that contains it, while that is being sent or not completed."""
    is_released: bool = False
    """Whether it waited because of a refusal that has ended: now it is sent in a digest."""
    only_server: str = ""
    """The server that refused the mail of which this is the text."""
    is_plain_tried: bool = False
    """Whether its text alone was refused as well, since the start."""
    whole: bool | None = None
    """Whether no recipient has received it; None: not determined yet."""

    def is_whole(self, form: MessageFormat) -> bool:
        """Whether none of its recipients has it yet."""
        if self.whole is None:
            self.whole = set(self.row.recipients_pending) >= set(form.addressees(self.row.data))
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


class OutboxQueue:
    """The mails of an outbox, the servers they may be sent to, and those that are being sent."""

    def __init__(self, messages: MessageFormat | None = None) -> None:
        """Start empty, for mails unless another form of messages is given."""
        self.form = messages or digest.MAILS
        self._entries: dict[str, Entry] = {}
        self.routes = Routes()
        self.servers: tuple[str, ...] = ("",)
        """Names of the servers, the preferred one first."""
        self.connections = 1
        """Limit of mails that are being sent by one server."""
        self._chosen: Flight | None = None
        self._flights: dict[str, Flight] = {}
        self._released_seconds: deque[float] = deque(maxlen=MAX_RELEASED)
        """When released messages were sent last."""
        self._awaited: tuple[int, float] | None = None
        """The batch with what is being sent, or with a result; and until when it is awaited."""

    def sending(self) -> int:
        """Return the number of mails that are being sent."""
        return len(self._flights)

    def _is_refused(self, row: OutboxRow, recipient: str) -> bool:
        """Whether all servers refuse a recipient, or this mail."""
        return all(
            any(h.fault in REFUSALS for h in self.routes.holds(server, recipient, row.message_id))
            for server in self.servers
        )

    def _is_all_refused(self, row: OutboxRow) -> bool:
        """Whether no remaining recipient can be reached before the servers change their mind."""
        return all(self._is_refused(row, recipient) for recipient in row.recipients_pending)

    def _is_busy(self, message_id: str) -> bool:
        """Whether a mail is being sent, or was chosen."""
        is_chosen = self._chosen is not None and self._chosen.message_id == message_id
        return is_chosen or message_id in self._flights

    def _not_before(self) -> float:
        return self._awaited[1] if self._awaited is not None else ANYTIME

    def _is_healthy(self) -> bool:
        """Whether a server accepts mails, as far as that is known."""
        return any(self.routes.is_open(server, ()) for server in self.servers)

    def _is_exhausted(self, entry: Entry) -> bool:
        """Whether a mail was sent so often without a reply that only a digest contains it."""
        hold = self.routes.maybe_taken(entry.row.message_id)
        return hold is not None and hold.is_exhausted and not entry.row.parts

    def _slot_seconds(self, server: str) -> float:
        """Return from when a server may be sent another mail."""
        begun = [f.begun_seconds for f in self._flights.values() if f.server == server]
        if len(begun) >= self.connections:
            return NEVER
        return begun[0] + SLOW_SECONDS if begun else ANYTIME

    def _release_seconds(self, members: tuple[Entry, ...]) -> float:
        """Return from when messages may be sent that waited for an acceptance."""
        is_paced = any(entry.is_released for entry in members)
        is_full = len(self._released_seconds) == MAX_RELEASED
        return self._released_seconds[0] + RELEASE_SECONDS if is_paced and is_full else ANYTIME

    def _candidate(self, members: tuple[Entry, ...], severity: Severity, now: float) -> Candidate:
        """Return when, by which server and to whom mails can be sent, alone or as a digest."""
        head = members[0].row
        best = (NEVER, self.servers[0], head.recipients_pending)
        first = max(self._due_seconds(members, now), self._release_seconds(members))
        for server in self.servers:
            slot = self._slot_seconds(server)
            due_by_recipient = {
                recipient: self._route_seconds(server, recipient, members, severity, now)
                for recipient in head.recipients_pending
            }
            ready = max(first, min(due_by_recipient.values(), default=NEVER))
            due = max(ready, slot)
            if due < best[0]:
                recipients = (r for r, at in due_by_recipient.items() if at <= max(due, now))
                best = due, server, tuple(recipients)
            if due <= now or (ready <= now and slot != NEVER):
                break  # the next server is used only if this one is not usable
        return Candidate(self._urgency(members, severity), best[0], members, best[1], best[2])

    def _route_seconds(
        self,
        server: str,
        recipient: str,
        members: tuple[Entry, ...],
        severity: Severity,
        now: float,
    ) -> float:
        """Return when mails may be tried for a recipient.

        A digest does not probe: it may be refused for what one of its mails contains.
        """
        if members[0].only_server:  # the text is tried once, directly after the refusal
            return ANYTIME if server == members[0].only_server else NEVER
        entry, message_id = members[0], members[0].row.message_id
        if all(self._is_exhausted(member) for member in members):
            message_id = ""
        elif len(members) > 1:
            return ANYTIME if self.routes.is_open(server, (recipient,)) else NEVER
        is_critical = severity is Severity.CRITICAL
        sending = Sending(message_id, entry.since_seconds, entry.added_seconds, is_critical)
        return self.routes.due(server, recipient, sending, now)

    def _due_seconds(self, members: tuple[Entry, ...], now: float) -> float:
        """Return from when these mails may be sent; others take an exhausted one with them."""
        certain = [entry.due_seconds for entry in members if not self._is_exhausted(entry)]
        if certain:
            return max(certain)
        holds = (self.routes.maybe_taken(entry.row.message_id) for entry in members)
        return min((hold.next_seconds for hold in holds if hold is not None), default=now)

    def _candidates(self, now: float) -> list[Candidate]:
        """Return what may be sent, each with the time from when."""
        waiting = [
            entry
            for entry in self._entries.values()
            if entry.digest is None
            and (
                (flight := self._flights.get(entry.row.message_id)) is None
                or now - flight.begun_seconds < SLOW_SECONDS
            )
        ]
        digests = self._digests(waiting, now)
        merged = {entry.row.message_id for members in digests for entry in members}
        heads, severities = self._heads(waiting)
        candidates = []
        for entry in waiting:
            row = entry.row
            head = heads.get(row.incident, entry)
            is_next = head is entry or row.attempts or row.parts
            if row.message_id in merged or self._is_busy(row.message_id) or not is_next:
                continue
            if not self._is_exhausted(entry):
                severity = severities.get(row.incident, row.severity) if head is entry else None
                candidates.append(
                    self._candidate((entry,), max(row.severity, severity or row.severity), now)
                )
        for members in digests:
            worst = max(entry.row.severity for entry in members)
            firsts = (heads.get(entry.row.incident, entry) for entry in members)
            if all(head.row.message_id in merged for head in firsts):
                candidates.append(self._candidate(members, worst, now))
        return candidates

    def _heads(self, waiting: list[Entry]) -> tuple[dict[str, Entry], dict[str, Severity]]:
        """Return by incident the first mail not tried yet, and the worst severity of those.

        Mails of an incident are read in their order; while no server accepts any, the newest
        critical one must not wait for an older one.
        """
        heads: dict[str, Entry] = {}
        worst: dict[str, Severity] = {}
        if not self._is_healthy():
            return heads, worst
        for entry in waiting:
            row = entry.row
            if row.attempts or row.parts:
                continue
            worst[row.incident] = max(row.severity, worst.get(row.incident, Severity.INFO))
            head = heads.setdefault(row.incident, entry)
            if row.number < head.row.number:
                heads[row.incident] = entry
        return heads, worst

    def _digests(self, waiting: list[Entry], now: float) -> list[tuple[Entry, ...]]:
        """Return the mails for each digest: same recipients, and certainly never handed over.

        A mail that may have arrived is in one if it was repeated often enough.
        """
        groups: dict[tuple[str, ...], list[Entry]] = {}
        for entry in waiting:
            if self._may_be_in_digest(entry, now):
                groups.setdefault(entry.row.recipients_pending, []).append(entry)
        parts: list[tuple[Entry, ...]] = []
        for recipients, group in groups.items():
            is_open = any(self.routes.is_open(server, recipients) for server in self.servers)
            is_due = is_open and self._is_digest_due(group, now)
            members = group if is_due else [e for e in group if self._is_exhausted(e)]
            parts += divided(sorted(members, key=age))
        return [part for part in parts if len(part) > 1 or self._is_exhausted(part[0])]

    def _may_be_in_digest(self, entry: Entry, now: float) -> bool:
        row = entry.row
        if row.parts or entry.awaits_disk(now) or self._is_busy(row.message_id):
            return False
        if self._is_exhausted(entry):
            return now - entry.since_seconds <= MAX_REFUSED_SECONDS
        if entry.is_alone:
            return False
        holds = (self.routes.message_hold(server, row.message_id) for server in self.servers)
        return not entry.maybe_taken and all(
            hold is None
            or (entry.is_released and hold.fault not in NO_REPLY and hold.next_seconds <= now)
            for hold in holds
        )

    def _is_digest_due(self, group: list[Entry], now: float) -> bool:
        """Whether mails for the same recipients are sent as a digest."""
        certain = [entry for entry in group if not self._is_exhausted(entry)]
        return len(certain) > 1 and (
            now - min(entry.since_seconds for entry in certain) >= DIGEST_AFTER_SECONDS
            or any(entry.is_released for entry in certain)
            or len(certain) > MAX_SINGLE
        )

    def _urgency(
        self, members: tuple[Entry, ...], severity: Severity
    ) -> tuple[int, int, float, int]:
        """Return the sort key: the most severe, then the oldest.

        While no server accepts any, the newest critical one probes, unless it may be the cause.
        """
        rows = [entry.row for entry in members]
        created, number = rows[0].created_realtime_seconds, rows[0].number
        if self._is_healthy():
            return 0, -severity, created, number
        tried = min(row.attempts for row in rows) // _PATIENCE_ATTEMPTS
        if severity is Severity.CRITICAL:
            return tried, -severity, -created, -number
        return tried, -severity, created, number

    def _messages(self, row: OutboxRow) -> list[OutboxRow]:
        """Return the mail, or the mails of a digest."""
        return [self._entries[part].row for part in row.parts] or [row]


def divided(members: list[Entry]) -> list[tuple[Entry, ...]]:
    """Divide mails into digests by size."""
    parts: list[list[Entry]] = []
    size_bytes = MAX_DIGEST_BYTES
    for entry in members:
        if size_bytes + len(entry.row.data) > MAX_DIGEST_BYTES:
            parts.append([])
            size_bytes = 0
        parts[-1].append(entry)
        size_bytes += len(entry.row.data)
    return [tuple(part) for part in parts]


def age(entry: Entry) -> tuple[float, int, str]:
    """Return the sort key of a digest's mails: the oldest first."""
    row = entry.row
    return row.created_realtime_seconds, row.number, row.message_id
