"""Ledger: which receiver was notified of which state of an incident, or is to be. Pure.

It is written in the transactions of the outbox's rows: `queued` with the row, `accepted` when the
row is deleted or a first recipient has it. A row that is discarded deletes what it queued. It has
the incidents that the service has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.daemon.storage.notifications import Notification, NotificationStatus
from iowarden.daemon.storage.state_db import LOCAL, MAIL

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator, Mapping

    from iowarden.daemon.storage.notifications import NotificationKey
    from iowarden.daemon.storage.state_db import OutboxRow, StateChanges

_WAITING = frozenset({NotificationStatus.QUEUED, NotificationStatus.MAYBE})


class Ledger:
    """The notifications of all incidents, and the rows of the outbox that report them."""

    def __init__(self) -> None:
        """Start without any."""
        self._by_incident: dict[str, dict[NotificationKey, Notification]] = {}
        self._keys_of_rows: dict[str, tuple[NotificationKey, ...]] = {}
        """By the ID of a row: what it reports."""
        self._changed: dict[NotificationKey, Notification | None] = {}
        """What state.db does not have yet; None: to be deleted."""

    # --- questions

    def of(self, reports: Iterable[tuple[str, int]]) -> Iterator[Notification]:
        """Yield the notifications of incidents, each from a state on (Incident.reports)."""
        for incident, since_state in reports:
            for entry in self._by_incident.get(incident, {}).values():
                if entry.state >= since_state:
                    yield entry

    def is_accepted(self, reports: Iterable[tuple[str, int]]) -> bool:
        """Whether a receiver accepted a notification of them; a Maildir is none."""
        return any(entry.status is NotificationStatus.ACCEPTED for entry in self.of(reports))

    # --- changes

    def restore(
        self, stored: Iterable[Notification], rows: Iterable[OutboxRow], realtime_seconds: float
    ) -> None:
        """Restore it with the rows of the outbox; what is known already is newer.

        What waits in no row is deleted: its row was lost. A row that was being sent when the
        program ended may have arrived.
        """
        for entry in stored:
            if not self._get(entry.key):
                self._by_incident.setdefault(entry.incident, {})[entry.key] = entry
        for row in rows:
            self._enter(row)
            if row.maybe_taken:
                self._reach((row.message_id,), NotificationStatus.MAYBE, realtime_seconds)
        for entries in list(self._by_incident.values()):
            self._delete_unnamed(entries)

    def changes(
        self,
        batch: StateChanges,
        realtime_seconds: float,
        reached: Mapping[NotificationStatus, Iterable[str]],
    ) -> StateChanges:
        """Return a batch with what changes in the ledger together with its rows.

        `reached`: what became of messages, by their IDs.
        """
        for row in batch.add:
            self._enter(row)
        for status, message_ids in reached.items():
            self._reach(message_ids, status, realtime_seconds)
        for message_id in batch.remove:
            self._delete_unnamed(self._keys_of_rows.pop(message_id, ()))
        changed, self._changed = self._changed, {}
        return replace(
            batch,
            notifications=tuple(entry for entry in changed.values() if entry is not None),
            forget=tuple(key for key, entry in changed.items() if entry is None),
        )

    def keep(self, incidents: Container[str]) -> None:
        """Forget the notifications of other incidents, unless a row still reports them."""
        others = [incident for incident in self._by_incident if incident not in incidents]
        named = self._named() if others else set()
        keys = [key for incident in others for key in self._by_incident[incident]]
        for key in keys:
            if key not in named:
                self._delete(key)

    def _enter(self, row: OutboxRow) -> None:
        """Note what a new or changed row reports; what only a Maildir has is queued again."""
        is_local = row.receiver == LOCAL
        receiver = MAIL if is_local else row.receiver
        keys = tuple((incident, state, receiver) for incident, state in row.states)
        is_new = row.message_id not in self._keys_of_rows
        self._keys_of_rows[row.message_id] = keys
        for key in keys:
            before = self._get(key)
            is_again = is_new and before is not None and before.status is NotificationStatus.LOCAL
            if before is None or (is_again and not is_local):
                status = NotificationStatus.LOCAL if is_local else NotificationStatus.QUEUED
                self._put(Notification(*key, status, row.created_realtime_seconds))

    def _reach(
        self, message_ids: Iterable[str], status: NotificationStatus, realtime_seconds: float
    ) -> None:
        """Note what became of messages; what was accepted stays so."""
        for message_id in message_ids:
            for key in self._keys_of_rows.get(message_id, ()):
                before = self._get(key)
                if before is None or before.status not in {status, NotificationStatus.ACCEPTED}:
                    self._put(Notification(*key, status, realtime_seconds))

    def _delete_unnamed(self, keys: Collection[NotificationKey]) -> None:
        """Delete what waits in no row."""
        named = self._named() if keys else set()
        for key in [key for key in keys if key not in named]:
            entry = self._get(key)
            if entry is not None and entry.status in _WAITING:
                self._delete(key)

    def _named(self) -> set[NotificationKey]:
        return {key for keys in self._keys_of_rows.values() for key in keys}

    def _get(self, key: NotificationKey) -> Notification | None:
        return self._by_incident.get(key[0], {}).get(key)

    def _put(self, entry: Notification) -> None:
        self._by_incident.setdefault(entry.incident, {})[entry.key] = entry
        self._changed[entry.key] = entry

    def _delete(self, key: NotificationKey) -> None:
        entries = self._by_incident[key[0]]
        del entries[key]
        if not entries:
            del self._by_incident[key[0]]
        self._changed[key] = None
