"""What survives a restart, between the parts that have it and state.db. For the loop's thread only.

All of it is written at once, with the mails that go with it; how it lies there is declared in
stored_documents.py.
"""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iowarden.daemon import journal, metrics
from iowarden.daemon.service import persisted_state
from iowarden.daemon.storage.sqlite import beside
from iowarden.daemon.storage.state_db import StateLoaded, version_of
from iowarden.rules.quantity import duration
from iowarden.rules.topology.topology import NOTHING, Standing, Stood, restacked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iowarden.collectors.model import Sample
    from iowarden.daemon.clock import SystemClock
    from iowarden.daemon.locate.affected_files import FilesHit
    from iowarden.daemon.notify.delivery import Delivery, Store
    from iowarden.daemon.service.commands import Desk
    from iowarden.daemon.service.event_pipeline import Happenings
    from iowarden.daemon.service.incident_tracker import IncidentTracker
    from iowarden.daemon.service.probe_watch import ProbeWatch
    from iowarden.daemon.service.selftest_runner import SelfTests
    from iowarden.daemon.service.stored_documents import Schema
    from iowarden.daemon.service.summaries import Summaries
    from iowarden.daemon.storage.state_db import OutboxRow
    from iowarden.daemon.transition_log import Telling
    from iowarden.rules.engine.engine import Engine

LEARNT_SECONDS = 600.0
"""How often what the signals remember is written: a power loss forgets no more than that."""
RETRY_SECONDS = 5.0
"""How often state.db is tried again while it cannot be read."""
STEP_SECONDS = 2.0
"""The wall clock was set, or the machine slept, when the two clocks part by so much at once."""


@dataclass(slots=True)
class Checkpoint:
    """What was written last, and what of the file could not be read."""

    store: Store
    mails: Delivery
    schema: Schema
    log: Telling
    clock: SystemClock
    engine: Engine
    tracker: IncidentTracker
    summaries: Summaries
    happenings: Happenings
    desk: Desk
    self_tests: SelfTests
    probe: ProbeWatch
    files: FilesHit | None
    texts: tuple[str, ...] = ()
    """Beside state.db, with what could not be read."""
    answered: bool = False
    """Whether state.db was read, or could not be."""
    restored: bool = False
    wall_ahead_seconds: float = 0.0
    """By how much the wall clock is ahead of the program's, in which all stored times are."""
    _loaded: StateLoaded | None = None
    _tried_seconds: float = 0.0
    _learnt_seconds: float = field(init=False)
    _newer: frozenset[str] = frozenset()
    """Documents of state.db that only a newer version can read."""
    _written: dict[str, str] = field(default_factory=dict)
    _stood: Standing = NOTHING
    """What stood on what when that was written last."""
    _stacked: Standing = NOTHING
    """What stood on what at the last turn."""
    _met: frozenset[str] = frozenset()
    """The disks that state.db remembers."""

    def __post_init__(self) -> None:
        """Nothing was learnt yet."""
        self._learnt_seconds = self.clock.now()

    def take(self, loaded: StateLoaded) -> None:
        """Take what state.db has, for `restore`."""
        self._loaded = loaded
        self.answered = True

    def restore(self, now: float) -> None:
        """Take back what was kept, also when it comes late; what cannot be read is said."""
        loaded, self._loaded = self._loaded, None
        if loaded is None:
            return
        if not loaded.readable:
            self.log.trouble("state", loaded.error, journal.STATE_TROUBLE)
            return
        if loaded.error:  # a file was set aside: that is done, and nothing will 'work again'
            self.log.send(journal.STATE_TROUBLE, 4, loaded.error)
        self.mails.restore(loaded.outbox, now)
        if self.restored:
            return
        self.restored = True
        before, unread = persisted_state.read(loaded.documents, now, self.schema)
        for each in unread.values():
            self.log.send(journal.STATE_TROUBLE, 4, each.text)
        self._newer = frozenset(version_of(r)[0] for r, each in unread.items() if not each.aside)
        tracker = self.tracker
        tracker.install = before.install or tracker.install or secrets.token_hex(6)
        gone = self.engine.rules.restore(before.alerts)
        tracker.incidents = persisted_state.merged(tracker.incidents, before, now)
        self.engine.recall(before.signals, before.devices, before.stood)
        self._met = frozenset(self.engine.signals.coverage().seen)
        self.summaries.restore(before.digest)
        self.desk.restore(before.silences)
        self.self_tests.restore(before.self_tests, now)
        if self.files is not None:
            self.files.restore(before.hits)
        tracker.habits = {**before.recurring, **tracker.habits}
        self.happenings.restore(before.happened, before.cursors, before.devices.names)
        self.probe.restore(before.stuck)
        tracker.part_with(gone, now)
        # What was learnt before the file could be read belongs into it.
        self.commit(
            learnt=True,
            delete=persisted_state.outdated(loaded.documents, self.schema),
            aside={row: each.aside for row, each in unread.items() if each.aside},
        )

    def step(self, now: float) -> None:
        """Try again to read what could not be read; have written what changes slowly."""
        if not self.restored and now - self._tried_seconds >= RETRY_SECONDS:
            self._tried_seconds = now
            self.store.retry()
        if now - self._learnt_seconds >= LEARNT_SECONDS:
            self._learnt_seconds = now
            self.commit(learnt=True)

    def commit(
        self,
        rows: Sequence[OutboxRow] = (),
        *,
        learnt: bool = False,
        delete: tuple[str, ...] = (),
        aside: Mapping[str, str] | None = None,
        replaced: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        """Ask for everything that changed to be written, with the mails that go with it.

        `learnt`: also what the signals remember; it is large and changes slowly. `delete` are rows
        of documents that are written under another name now, `aside` what of some was not read,
        `replaced` as delivery.Delivery.commit has it.
        """
        now = self.clock.now()
        changed: dict[str, str] = {}
        if self.restored:  # else it would take the place of what the file may yet tell
            standing = self.engine.devices.standing
            stands, self._stood = standing != self._stood, standing
            happened, cursors = self.happenings.kept
            incidents = self.tracker.incidents
            texts = persisted_state.documents(
                persisted_state.Kept(
                    install=self.tracker.install,
                    alerts=tuple(self.engine.rules.alerts()),
                    incidents=dict(incidents.by_key),
                    sequences=dict(incidents.sequences),
                    signals=self.engine.signals.remember(),
                    devices=self.engine.devices.devices,
                    stood=self.engine.devices.stood(now) if stands else Stood(),
                    digest=self.summaries.state,
                    silences=self.desk.said,
                    self_tests=self.self_tests.runs,
                    stuck=self.probe.stuck,
                    happened=happened,
                    cursors=cursors,
                    hits=() if self.files is None else self.files.kept,
                    recurring=self.tracker.habits,
                    wall_ahead_seconds=self.wall_ahead_seconds,
                ),
                without={*(() if learnt else ("signals",)), *(() if stands else ("stood",))},
                schema=self.schema,
            )
            changed = {n: text for n, text in texts.items() if self._written.get(n) != text}
            self._written |= texts
        self.mails.commit(changed, rows, now, delete=delete, aside=aside, replaced=replaced)

    def restacked(self) -> bool:
        """Whether devices stand otherwise than when that was written last, since the last call."""
        standing = self.engine.devices.standing
        before, self._stacked = self._stacked, standing
        return standing is not before and restacked(self._stood, standing)

    def keep_met(self) -> None:
        """Have a disk that is met remembered at once: it is missed even after a power loss now."""
        seen = self.engine.signals.coverage().seen.keys()
        if seen - self._met:
            self.commit(learnt=True)
        self._met = frozenset(seen)

    def compare_clocks(self, now: float) -> None:
        """Keep by how much the wall clock is ahead of the program's: people are told its time."""
        ahead = self.clock.realtime(now) - now
        by = ahead - self.wall_ahead_seconds
        if abs(by) <= STEP_SECONDS:
            return
        self.wall_ahead_seconds = ahead
        way = "forward" if by > 0 else "back"
        self.log.send(
            journal.TROUBLE,
            5,
            f"clock: the wall clock went {way} by {duration(abs(by))} at once: it was set, or the"
            " machine slept; alerts go on by the time that passed",
        )
        self.commit()

    def samples(self) -> list[Sample]:
        """Return what of state.db is not used."""
        name = metrics.STATE_UNREAD.name
        found = [((doc, "newer"), 1) for doc in sorted(self._newer)]
        unread = Counter(beside(path) for path in self.texts)
        found += [((doc, "unreadable"), count) for doc, count in sorted(unread.items())]
        return [
            (name, (("document", doc), ("reason", reason)), float(count))
            for (doc, reason), count in found
        ]
