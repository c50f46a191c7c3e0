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


class Tables:
    """The tables of state.db after each batch: between two of them a kill may come."""

    def __init__(self, loaded: StateLoaded) -> None:
        """Start with what was loaded."""
        self._rows = {row.message_id: row for row in loaded.outbox}
        self._ledger = {each.key: each for each in loaded.notifications}

    def write(self, batch: StateChanges) -> list[str]:
        """Write a batch; return where the tables disagree then."""
        self._rows |= {row.message_id: row for row in batch.add}
        self._ledger |= {each.key: each for each in batch.notifications}
        for message_id in batch.remove:
            self._rows.pop(message_id, None)
        for key in batch.forget:
            self._ledger.pop(key, None)
        return disagreement(self._rows.values(), self._ledger.values())


def disagreement(rows: Iterable[OutboxRow], entries: Iterable[Notification]) -> list[str]:
    """Return what waits in no row, and what is in a row and not in the ledger."""
    ledger = {each.key: each for each in entries}
    named = {
        (incident, state, MAIL if row.receiver == LOCAL else row.receiver): row
        for row in rows
        for incident, state in row.states
    }
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
