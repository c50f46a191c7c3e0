"""What survives a restart: collected from the service's parts and written to state.db.

All of it is written in one transaction together with the mails that belong to it. The stored form
is declared in stored_documents.py. For the loop's thread only.
"""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.quantity import duration
from iowarden.daemon import journal, metrics
from iowarden.daemon.notify.message import recipients
from iowarden.daemon.service import persisted_state
from iowarden.daemon.service.event_pipeline import CONTROLLERS, KERNEL
from iowarden.daemon.storage.sqlite import document_of_text
from iowarden.daemon.storage.state_db import StateLoaded, version_of
from iowarden.rules.notices import digest
from iowarden.rules.topology.topology import NO_DEPENDENTS, Dependents, StoredDependents, restacked

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from iowarden.collectors.model import Sample
    from iowarden.daemon.clock import SystemClock
    from iowarden.daemon.locate.affected_files import AffectedFiles
    from iowarden.daemon.notify.delivery import Delivery, MailStore
    from iowarden.daemon.service.commands import CommandHandler
    from iowarden.daemon.service.event_pipeline import EventPipeline
    from iowarden.daemon.service.incident_tracker import IncidentTracker
    from iowarden.daemon.service.probe_watch import ProbeWatch
    from iowarden.daemon.service.scan_runner import ScanRunner
    from iowarden.daemon.service.selftest_runner import SelfTestRunner
    from iowarden.daemon.service.stored_documents import Schema
    from iowarden.daemon.service.summaries import Summaries
    from iowarden.daemon.storage.state_db import OutboxRow
    from iowarden.daemon.transition_log import TransitionLog
    from iowarden.rules.engine.engine import Engine
    from iowarden.rules.scan.plan import Scans

SIGNALS_SAVE_SECONDS = 600.0
"""How often the persistent state of the signals is written: a power loss costs at most that much.
"""
RETRY_INTERVAL_SECONDS = 5.0
"""How often reading state.db is retried while it cannot be read."""
CONTROLLERS_WAIT_SECONDS = 300.0
"""How long polling the controllers waits for their cursors in state.db, at most."""
STATE_WAIT_SECONDS = 5.0
"""How long the first evaluation, and the kernel log, wait for state.db; then they run without."""
STEP_SECONDS = 2.0
"""A wall clock jump: the clock was set, or the machine was suspended, if the two clocks diverge by
this much between two ticks."""


@dataclass(slots=True)
class Checkpoint:
    """The last written state, and the parts of state.db that could not be read."""

    store: MailStore
    mails: Delivery
    schema: Schema
    log: TransitionLog
    clock: SystemClock
    engine: Engine
    tracker: IncidentTracker
    summaries: Summaries
    events: EventPipeline
    commands: CommandHandler
    self_tests: SelfTestRunner
    scans: ScanRunner
    probe: ProbeWatch
    files: AffectedFiles | None
    texts: tuple[str, ...] = ()
    """Paths of the files next to state.db with parts that could not be read."""
    answered: bool = False
    """Whether the attempt to read state.db has finished, successfully or not."""
    restored: bool = False
    wall_ahead_seconds: float = 0.0
    """How far the wall clock is ahead of the program's clock, which all stored times use."""
    _loaded: StateLoaded | None = None
    _tried_seconds: float = 0.0
    _signals_saved_seconds: float = field(init=False)
    _newer: frozenset[str] = frozenset()
    """Documents of state.db that only a newer version can read."""
    _written: dict[str, str] = field(default_factory=dict)
    _stored_dependents: Dependents = NO_DEPENDENTS
    """The device stack as last written."""
    _stored_scans: Scans | None = None
    """The scans as last written."""
    _stacked: Dependents = NO_DEPENDENTS
    """The device stack in the previous tick."""
    _met: frozenset[str] = frozenset()
    """The disks that state.db remembers."""

    def __post_init__(self) -> None:
        """Start the interval between two writes of signal state."""
        self._signals_saved_seconds = self.clock.now()

    def take(self, loaded: StateLoaded) -> None:
        """Take the content of state.db, for `restore`."""
        self._loaded = loaded
        self.answered = True

    def paused_logs(self, waited_seconds: float) -> tuple[tuple[str, ...], str]:
        """Return which logs are not read yet, and a line about that if the wait is long.

        Without its cursor, what was reported before the restart would look new.
        """
        most = {KERNEL: STATE_WAIT_SECONDS, CONTROLLERS: CONTROLLERS_WAIT_SECONDS}
        held = tuple(name for name, seconds in most.items() if waited_seconds <= seconds)
        if self.restored or not held:
            return (), ""
        return held, "" if KERNEL in held else (
            f"{', '.join(held)}: not polled: where it was read to is in state.db, which does not"
            f" answer; is polled without that after {duration(CONTROLLERS_WAIT_SECONDS)}"
        )

    def restore(self, now: float) -> None:
        """Restore the persisted state, also when it arrives late; log what cannot be read."""
        loaded, self._loaded = self._loaded, None
        if loaded is None:
            return
        if not loaded.readable:
            self.log.trouble("state", loaded.error, journal.STATE_TROUBLE)
            return
        if loaded.error:  # the file was renamed, which is final: no 'works again' follows
            self.log.send(journal.STATE_TROUBLE, 4, loaded.error)
        self.mails.restore(loaded.outbox, now, loaded.notifications)
        if self.restored:
            return
        self.restored = True
        if loaded.is_lost:
            self.log.send(journal.STATE_TROUBLE, 4, f"state: {digest.STATE_LOST}")
        before, unread = persisted_state.read(loaded.documents, now, self.schema)
        for each in unread.values():
            self.log.send(journal.STATE_TROUBLE, 4, each.text)
        self._newer = frozenset(version_of(r)[0] for r, each in unread.items() if not each.aside)
        tracker = self.tracker
        tracker.install = before.install or tracker.install or secrets.token_hex(6)
        gone = self.engine.rules.restore(before.alerts)
        tracker.incidents = persisted_state.merged(tracker.incidents, before, now)
        self.engine.recall(before.signals, before.devices, before.dependents)
        self._met = frozenset(self.engine.signals.inventory().seen)
        self.summaries.restore(before.digest, is_state_lost=loaded.is_lost)
        self.commands.restore(before.silences)
        self.self_tests.restore(before.self_tests, now)
        self.scans.restore(before.scans, now)
        if self.files is not None:
            self.files.restore(before.lookups)
        tracker.habits = {**before.recurring, **tracker.habits}
        self.events.restore(before.correlation, before.cursors, before.devices.names)
        self.probe.restore(before.stuck)
        self.mails.restore_routes(before.mail_routes)
        self.send_local_mails(now)
        tracker.log_removed_rules(gone, now)
        # State collected before the file could be read must be written to it.
        self.commit(
            signals=True,
            delete=persisted_state.outdated(loaded.documents, self.schema),
            aside={row: each.aside for row, each in unread.items() if each.aside},
        )

    def retry_mails(self, corrected: Container[str], now: float) -> None:
        """Try what waits: the configuration was read again, in which these servers changed."""
        self.mails.reload(recipients(self.tracker.config()), corrected, now)
        self.send_local_mails(now)

    def send_local_mails(self, now: float) -> None:
        """Send the mails that only went to the Maildir, if a server is configured."""
        incidents = self.tracker.incidents.by_key.values()
        self.mails.send_local_mails(
            recipients(self.tracker.config()),
            {incident.identifier for incident in incidents if incident.closed_seconds is None},
            now,
        )

    def step(self, now: float) -> None:
        """Retry reading what could not be read; write the slowly changing state when it is due."""
        if not self.restored and now - self._tried_seconds >= RETRY_INTERVAL_SECONDS:
            self._tried_seconds = now
            self.store.retry()
        if now - self._signals_saved_seconds >= SIGNALS_SAVE_SECONDS:
            self._signals_saved_seconds = now
            self.commit(signals=True)
            self.send_local_mails(now)

    def commit(
        self,
        rows: Sequence[OutboxRow] = (),
        *,
        signals: bool = False,
        delete: tuple[str, ...] = (),
        aside: Mapping[str, str] | None = None,
        replaced: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        """Queue all changes for writing, with the mails that belong to them, in one transaction.

        `signals`: also the state of the signals, which is large and changes slowly. `delete`: rows
        of documents that are now written under another name. `aside`: text of rows that could not
        be read. `replaced`: as in delivery.Delivery.commit.
        """
        now = self.clock.now()
        changed: dict[str, str] = {}
        if self.restored:  # otherwise it would overwrite data that may become readable later
            standing = self.engine.devices.dependents
            stands, self._stored_dependents = standing != self._stored_dependents, standing
            scans, before = self.scans.scans, self._stored_scans
            self._stored_scans = scans
            happened, cursors = self.events.stored
            incidents = self.tracker.incidents
            texts = persisted_state.documents(
                persisted_state.PersistedState(
                    install=self.tracker.install,
                    alerts=tuple(self.engine.rules.alerts()),
                    incidents=dict(incidents.by_key),
                    sequences=dict(incidents.sequences),
                    signals=self.engine.signals.remember(),
                    devices=self.engine.devices.devices,
                    dependents=self.engine.devices.stored_dependents(now)
                    if stands
                    else StoredDependents(),
                    digest=self.summaries.state,
                    silences=self.commands.silences,
                    self_tests=self.self_tests.runs,
                    scans=scans,
                    stuck=self.probe.stuck,
                    correlation=happened,
                    cursors=cursors,
                    lookups=() if self.files is None else self.files.to_store,
                    recurring=self.tracker.habits,
                    mail_routes=self.mails.routes,
                    wall_ahead_seconds=self.wall_ahead_seconds,
                ),
                without={
                    *(() if signals else ("signals",)),
                    *(() if stands else ("dependents",)),
                    *(("scans",) if scans is before else ()),
                },
                schema=self.schema,
            )
            changed = {n: text for n, text in texts.items() if self._written.get(n) != text}
            self._written |= texts
        self.mails.commit(
            changed,
            rows,
            now,
            delete=delete,
            aside=aside,
            replaced=replaced,
            incidents=self.tracker.reported() if self.restored else None,
        )

    def restacked(self) -> bool:
        """Return whether the device stack changed since the last call, and from the stored one."""
        standing = self.engine.devices.dependents
        before, self._stacked = self._stacked, standing
        return standing is not before and restacked(self._stored_dependents, standing)

    def store_new_disk(self) -> None:
        """Persist a new disk at once, so that it is reported as missing even after a power loss."""
        seen = self.engine.signals.inventory().seen.keys()
        if seen - self._met:
            self.commit(signals=True)
        self._met = frozenset(seen)

    def compare_clocks(self, now: float) -> None:
        """Track how far the wall clock is ahead of the program's; users see wall clock time."""
        ahead = self.clock.realtime(now) - now
        by = ahead - self.wall_ahead_seconds
        if abs(by) <= STEP_SECONDS:
            return
        self.wall_ahead_seconds = ahead
        way = "forward" if by > 0 else "back"
        self.log.send(
            journal.TROUBLE,
            5,
            f"clock: the wall clock jumped {way} by {duration(abs(by))}: it was set, or the"
            " machine was suspended; alert durations use elapsed time and are not affected",
        )
        self.commit()

    def samples(self) -> list[Sample]:
        """Return the number of state.db documents and files that are not used."""
        name = metrics.STATE_UNREADABLE.name
        found = [((doc, "newer"), 1) for doc in sorted(self._newer)]
        unread = Counter(document_of_text(path) for path in self.texts)
        found += [((doc, "unreadable"), count) for doc, count in sorted(unread.items())]
        return [
            (name, (("document", doc), ("reason", reason)), float(count))
            for (doc, reason), count in found
        ]
