"""What state.db says of notifications, and where ledger and outbox contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.daemon.storage import state_db
from iowarden.daemon.storage.notifications import NotificationStatus
from iowarden.daemon.storage.state_db import LOCAL, MAIL

if TYPE_CHECKING:
    from pathlib import Path

    from iowarden.daemon.storage.notifications import Notification

WAITING = {NotificationStatus.QUEUED, NotificationStatus.MAYBE}


def stored(path: Path) -> dict[tuple[str, int, str], Notification]:
    """Return the ledger in a file that nobody has open."""
    return {each.key: each for each in state_db.salvaged(str(path)).notifications}


def contradictions(path: Path) -> list[str]:
    """Return what waits in no row, and what is in a row and does not wait.

    One of several recipients may have a mail that waits for the others: that is accepted.
    """
    content = state_db.salvaged(str(path))
    ledger = {each.key: each for each in content.notifications}
    named = {
        (incident, state, MAIL if row.receiver == LOCAL else row.receiver): row
        for row in content.outbox
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
