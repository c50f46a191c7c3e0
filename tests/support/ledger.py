"""What state.db says of notifications, and where ledger and outbox contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.daemon.storage import state_db
from iowarden.daemon.storage.notifications import NotificationStatus
from iowarden.daemon.storage.state_db import LOCAL, MAIL

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from iowarden.daemon.storage.notifications import Notification
    from iowarden.daemon.storage.state_db import OutboxRow, StateChanges, StateLoaded

WAITING = {NotificationStatus.QUEUED, NotificationStatus.MAYBE}


def stored(path: Path) -> dict[tuple[str, int, str], Notification]:
    """Return the ledger in a file that nobody has open."""
    return {each.key: each for each in state_db.salvaged(str(path)).notifications}


def contradictions(path: Path) -> list[str]:
    """Return where the ledger and the outbox of a file that nobody has open disagree."""
    content = state_db.salvaged(str(path))
    return disagreement(content.outbox, content.notifications)


def waiting(path: Path) -> list[Notification]:
    """Return what no receiver has confirmed, in a file that nobody has open."""
    return [each for each in stored(path).values() if each.status in WAITING]


class Tables:
    """The tables of state.db after each batch: between two of them a kill may come."""

    def __init__(self, loaded: StateLoaded) -> None:
        """Start with what was loaded."""
        self._rows = {row.message_id: row for row in loaded.outbox}
        self._ledger = {each.key: each for each in loaded.notifications}

    def write(self, batch: StateChanges) -> list[str]:
        """Write a batch; return where the tables disagree then, and what is lost by it."""
        self._rows |= {row.message_id: row for row in batch.add}
        self._ledger |= {each.key: each for each in batch.notifications}
        removed = [self._rows.pop(each) for each in batch.remove if each in self._rows]
        for key in batch.forget:
            self._ledger.pop(key, None)
        lost = [
            f"{row.message_id} is removed, but {key} is neither accepted nor in another row"
            for row in removed
            for key in keys(row)
            if key not in self._ledger
        ]
        return [*lost, *disagreement(self._rows.values(), self._ledger.values())]


def keys(row: OutboxRow) -> list[tuple[str, int, str]]:
    """Return what a row reports, as the ledger names it."""
    receiver = MAIL if row.receiver == LOCAL else row.receiver
    return [(incident, state, receiver) for incident, state in row.states]


def disagreement(rows: Iterable[OutboxRow], entries: Iterable[Notification]) -> list[str]:
    """Return what waits in no row, and what is in a row and not in the ledger."""
    ledger = {each.key: each for each in entries}
    named = {key: row for row in rows for key in keys(row)}
    lost = [
        f"{key} is {each.status} in no row"
        for key, each in ledger.items()
        if each.status in WAITING and key not in named
    ]
    missing = [
        f"{row.message_id} reports {key}: not in the ledger"
        for key, row in named.items()
        if key not in ledger
    ]
    return [*lost, *missing]
