"""What rules look back on, over a restart: between engine and history.db. The loop's thread only.

The engine has the samples; they are handed over as far as the file does not have them, so that
nothing waits here while a disk hangs, and what could not be written is written later.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from iowarden.daemon import journal, metrics
from iowarden.daemon.storage import chunks
from iowarden.daemon.storage.history_db import Tail, TailLoaded, Written
from iowarden.rules.smart import history_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iowarden.collectors.model import Sample
    from iowarden.collectors.smart.drive import Disks
    from iowarden.daemon.control.documents import EventLine
    from iowarden.daemon.storage.history_db import Value
    from iowarden.daemon.transition_log import Telling
    from iowarden.rules.engine.engine import Engine

SAVE_SECONDS = 240.0
"""So that a kill leaves a break that is bridged: shorter than the look-back of five minutes."""
MOST_SECONDS = 600.0
"""Handed over at once: a copy of it waits in memory."""
HUNG_SECONDS = 10.0


class Store(Protocol):
    """Keeps samples, and never waits; as history.History."""

    working_since: float | None
    lost_total: int

    def load(self, retention_seconds: Mapping[str, float]) -> None:
        """Ask for what was kept."""

    def save(self, tail: Tail) -> None:
        """Ask for samples to be kept."""

    def note(self, realtime_seconds: float, values: Sequence[Value]) -> None:
        """Ask for what drives said to be kept."""

    def tell(self, rows: Sequence[EventLine]) -> None:
        """Ask for storage events to be kept."""

    def busy(self) -> bool:
        """Say whether it still is at that."""

    def close(self, timeout_seconds: float) -> bool:
        """End."""


class Tails:
    """How far history.db is."""

    def __init__(self, store: Store | None, engine: Engine, telling: Telling) -> None:
        """Nothing happens yet; without a store it never does."""
        self.known = store is None
        """Whether what was kept is there, or nobody has it."""
        self._store = store
        self._engine = engine
        self._telling = telling
        self._loaded: TailLoaded | None = None
        self._saved = -math.inf
        self._tried: float | None = None
        self._drives: Disks | None = None
        """What drives said last."""
        self._figures: Mapping[str, float] = {}
        """What was kept of that."""

    def begin(self) -> None:
        """Ask for what was kept before this start, if some rule looks back."""
        retention = self._engine.hub.store.retention
        if self._store is None or not any(retention.values()):
            self.known = True
        else:
            self._store.load(retention)

    def take(self, event: TailLoaded | Written) -> None:
        """Take note of what the thread says; what was kept is for `restore`."""
        if isinstance(event, TailLoaded):
            self._loaded = event
            self.known = True
            return
        if event.said:
            self._telling.send(journal.STATE_TROUBLE, 4, event.said)
        self._telling.trouble("history", event.error, journal.STATE_TROUBLE)
        if event.anew:
            self._saved = self._tried = -math.inf
        elif event.until_seconds is not None and not event.error:
            self._saved = event.until_seconds
            self._tried = self._saved  # if that is long ago, the rest comes at once

    def restore(self, now: float) -> None:
        """Give the engine what was kept, once it is there."""
        if self._loaded is None:
            return
        rows, watched = self._loaded.rows, self._loaded.watched
        self._loaded = None
        if not rows and watched is None:
            return
        latest = max((times[-1] for _, _, times, _ in rows), default=now)
        if watched is not None:
            latest = max(latest, watched.until_seconds)
        if latest > now:  # the clock was set back: how long ago it was is not known
            rows, watched = chunks.moved(rows, now - latest), None
        self._engine.hub.restore_tail(rows, watched, now)

    def keep_drives(self, realtime_seconds: float) -> None:
        """Have what drives said since the last look kept for years."""
        smart = self._engine.last.smart
        if self._store is None or smart is None:
            return
        if smart is not self._drives:
            self._drives = smart
            rows, self._figures = history_fields.fresh(smart, self._figures)
            if rows:
                self._store.note(realtime_seconds, rows)

    def step(self, now: float, wall_ahead_seconds: float) -> None:
        """Hand over what is new, if it is time."""
        if self._tried is None:  # what is older is in the file, or nowhere
            self._saved = self._tried = now - 1.0
        elif now - self._tried >= SAVE_SECONDS:
            self._save(now, wall_ahead_seconds)

    def finish(self, now: float, wall_ahead_seconds: float) -> bool:
        """Hand over the rest, before the program ends; say whether that is done, or has failed."""
        if self._tried is not None and self._tried < now:
            self._save(now, wall_ahead_seconds)
        return self._store is None or not self._store.busy()

    def _save(self, now: float, wall_ahead_seconds: float) -> None:
        retention = self._engine.hub.store.retention
        if self._store is None or self._store.busy() or not any(retention.values()):
            return
        self._tried = now
        since = max(self._saved, now - max(retention.values()))
        until = min(now, since + MOST_SECONDS)
        watched = replace(self._engine.hub.watched(), until_seconds=until)
        rows = self._engine.hub.store.tail(since, until)
        self._store.save(Tail(rows, watched, until, wall_ahead_seconds, retention))

    def look(self) -> None:
        """Say when the thread has not come back from the disk."""
        self._telling.hung(
            "history.db",
            None if self._store is None else self._store.working_since,
            HUNG_SECONDS,
            f"history: using history.db has not returned for over {HUNG_SECONDS:.0f} s; nothing"
            " waits for it",
            journal.STATE_TROUBLE,
        )

    def samples(self) -> list[Sample]:
        """Return what is shown of it."""
        return (
            []
            if self._store is None
            else [(metrics.HISTORY_LOST.name, (), float(self._store.lost_total))]
        )

    def close(self, timeout_seconds: float) -> None:
        """End the thread."""
        if self._store is not None:
            self._store.close(timeout_seconds)
