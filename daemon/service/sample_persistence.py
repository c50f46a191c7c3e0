"""Sample persistence: carries the samples of range-based rules over a restart, in history.db.

The engine holds the samples; those that history.db lacks are handed to its thread. Nothing waits
here while a disk hangs, and what could not be written is written later. The loop's thread only.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from iowarden.collectors.quantity import duration
from iowarden.daemon import journal, metrics
from iowarden.daemon.storage.history_db import SampleBatch, SamplesLoaded, Written
from iowarden.rules.promql import history
from iowarden.rules.promql.store import MAX_SAMPLES
from iowarden.rules.smart import history_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iowarden.collectors.model import Sample
    from iowarden.collectors.smart.drive import Disks
    from iowarden.daemon.control.documents import EventLine
    from iowarden.daemon.storage.history_db import Value
    from iowarden.daemon.transition_log import TransitionLog
    from iowarden.rules.engine.engine import Engine

SAVE_SECONDS = 240.0
"""Shorter than the look-back of five minutes, so that the gap after a kill is bridged."""
MAX_SECONDS = 600.0
"""Limit of samples handed over at once: a copy of them waits in memory."""
HUNG_SECONDS = 10.0


class SampleStore(Protocol):
    """Stores samples without ever blocking; implemented by history.History."""

    working_since: float | None
    lost_total: int

    def load(self, retention_seconds: Mapping[str, float]) -> None:
        """Request the stored samples."""

    def save(self, tail: SampleBatch) -> None:
        """Queue samples for writing."""

    def store_drives(self, realtime_seconds: float, values: Sequence[Value]) -> None:
        """Queue drive values for writing."""

    def store_events(self, rows: Sequence[EventLine]) -> None:
        """Queue storage events for writing."""

    def busy(self) -> bool:
        """Return whether a write of samples is in progress."""

    def close(self, timeout_seconds: float) -> bool:
        """End."""


class SamplePersistence:
    """Tracks which samples are stored in history.db."""

    def __init__(
        self, store: SampleStore | None, engine: Engine, transition_log: TransitionLog
    ) -> None:
        """Start idle; without a store nothing is stored."""
        self.known = store is None
        """Whether the stored samples are loaded, or there are none to load."""
        self._store = store
        self._engine = engine
        self._transitions = transition_log
        self._loaded: SamplesLoaded | None = None
        self._saved = -math.inf
        self._tried: float | None = None
        self._drives: Disks | None = None
        """The last SMART values of the drives."""
        self._values: Mapping[str, float] = {}
        """The last values of them that were stored."""

    def begin(self) -> None:
        """Request the samples stored before this start, if a rule has a range."""
        retention = self._engine.hub.store.retention_by_name
        if self._store is None or not any(retention.values()):
            self.known = True
        else:
            self._store.load(retention)

    def take(self, event: SamplesLoaded | Written) -> None:
        """Take a reply of the history thread; stored samples wait for `restore`."""
        if isinstance(event, SamplesLoaded):
            self._loaded = event
            self.known = True
            return
        if event.set_aside:
            self._transitions.send(journal.STATE_TROUBLE, 4, event.set_aside)
        self._transitions.trouble("history", event.error, journal.STATE_TROUBLE)
        if event.recreated:
            self._saved = self._tried = -math.inf
        elif event.until_seconds is not None and not event.error:
            self._saved = event.until_seconds
            self._tried = self._saved  # If that is long ago, the rest is written at once.

    def restore(self, now: float) -> None:
        """Pass the stored samples to the engine once they are loaded."""
        if self._loaded is None:
            return
        series, watched = self._loaded.series, self._loaded.watched
        self._loaded = None
        if not series and watched is None:
            return
        latest = max((each[2].last_seconds for each in series), default=now)
        if watched is not None:
            latest = max(latest, watched.until_seconds)
        if latest > now:  # The clock was set back: their age is unknown.
            history.shift(series, now - latest)
            watched = None
        self._engine.hub.restore_samples(series, watched, now)

    def store_drives(self, realtime_seconds: float) -> None:
        """Store the drive values since the last poll in the long-term history."""
        smart = self._engine.last.smart
        if self._store is None or smart is None:
            return
        if smart is not self._drives:
            self._drives = smart
            rows, self._values = history_fields.fresh(smart, self._values)
            if rows:
                self._store.store_drives(realtime_seconds, rows)

    def step(self, now: float, wall_ahead_seconds: float) -> None:
        """Hand over new samples when it is time."""
        if self._tried is None:  # Older samples are in the file, or nowhere.
            self._saved = self._tried = now - 1.0
        elif now - self._tried >= SAVE_SECONDS:
            self._save(now, wall_ahead_seconds)

    def finish(self, now: float, wall_ahead_seconds: float) -> bool:
        """Hand over the rest before the program ends; return whether that is done or failed."""
        if self._tried is not None and self._tried < now:
            self._save(now, wall_ahead_seconds)
        return self._store is None or not self._store.busy()

    def _save(self, now: float, wall_ahead_seconds: float) -> None:
        retention = self._engine.hub.store.retention_by_name
        if self._store is None or self._store.busy() or not any(retention.values()):
            return
        self._tried = now
        since = max(self._saved, now - max(retention.values()))
        until = min(now, since + MAX_SECONDS)
        watched = replace(self._engine.hub.watched(), until_seconds=until)
        rows = self._engine.hub.store.samples_between(since, until)
        self._store.save(SampleBatch(rows, watched, until, wall_ahead_seconds, retention))

    def check_thread(self) -> None:
        """Log when the history thread hangs on a disk, or when there is too much history."""
        lost = ", ".join(f"'{each}'" for each in sorted(self._engine.hub.store.overfull))
        self._transitions.trouble(
            "history limit",
            f"history: not stored for {lost}: the rules need more than {MAX_SAMPLES:,} changes and"
            " timestamps, and the longest windows go first; shorten their ranges or select fewer"
            " series, and reload"
            if lost
            else "",
            journal.STATE_TROUBLE,
        )
        self._transitions.hung(
            "history.db",
            None if self._store is None else self._store.working_since,
            HUNG_SECONDS,
            f"history: access to history.db hangs for over {duration(HUNG_SECONDS)}; monitoring"
            " continues without it",
            journal.STATE_TROUBLE,
        )

    def samples(self) -> list[Sample]:
        """Return the samples of this module's metrics."""
        return (
            []
            if self._store is None
            else [(metrics.HISTORY_LOST.name, (), float(self._store.lost_total))]
        )

    def close(self, timeout_seconds: float) -> None:
        """End the thread."""
        if self._store is not None:
            self._store.close(timeout_seconds)
