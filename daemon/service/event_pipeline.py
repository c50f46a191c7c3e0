"""Event pipeline: takes storage events from the logs, correlates them and hands them to incidents.

Each event is taken once. Events and the cursors of their logs are written in one transaction, with
the mails that result: after a kill in between, the logs are read again from the old cursors.
For the loop's thread only.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.kernel import oom_kill
from iowarden.collectors.kmsg.kernel_log import KernelCursor  # noqa: TC001 - stored over restarts: read at run time
from iowarden.collectors.md.md_events import md_events
from iowarden.collectors.raid.controller import ComponentHealth, LastListing
from iowarden.collectors.raid.log_alignment import LogCursor, align, align_numbered
from iowarden.collectors.raid.megaraid.storcli_places import SOURCE as NUMBERED
from iowarden.daemon import journal
from iowarden.daemon.control.documents import EventLine
from iowarden.daemon.locate.affected_files import sector_query
from iowarden.daemon.transition_log import PRIORITY
from iowarden.rules.events import (
    event_alerts,
    event_correlation,
    event_counters,
    event_evidence,
    event_state,
    failed_paths,
    hung,
    unlogged_kills,
)
from iowarden.rules.events.event_state import CorrelationState, EventBatch, EventUpdate
from iowarden.rules.events.event_table import WINDOW_SECONDS
from iowarden.rules.events.failed_paths import FailedPaths
from iowarden.rules.events.file_system_errors import file_system_errors
from iowarden.rules.events.unlogged_kills import KillCount  # noqa: TC001 - stored over restarts: read at run time
from iowarden.rules.severity import Severity
from iowarden.rules.topology import device_changes
from iowarden.rules.topology.event_location import at_controller
from iowarden.rules.topology.graph import (
    StorageGraph,
    parent_texts,
    parents,
    with_shelves,
)
from iowarden.rules.topology.topology import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.event import StorageEvent
    from iowarden.collectors.kmsg.kernel_log import KernelLog
    from iowarden.collectors.model import Reading, Sample
    from iowarden.collectors.procfs.vmstat import Vmstat
    from iowarden.collectors.raid.controller import Controller, Controllers
    from iowarden.daemon.locate.affected_files import SectorQuery
    from iowarden.daemon.polling.controllers import ControllerPoller
    from iowarden.daemon.polling.kernel_log import KernelLogPoller
    from iowarden.daemon.service.sample_persistence import SampleStore
    from iowarden.daemon.transition_log import TransitionLog
    from iowarden.rules.alerting.alerts import Alert, Transition
    from iowarden.rules.engine.engine import Engine
    from iowarden.rules.events.event_table import EventRule, EventTable
    from iowarden.rules.incidents.model import Incident
    from iowarden.rules.notice import Evidence
    from iowarden.rules.topology.device_identity import Identity
    from iowarden.rules.topology.topology import Dependents

KERNEL, CONTROLLERS, MD = "kernel_log", "controllers", "md"
VMSTAT = "vmstat"
SOURCES = (KERNEL, CONTROLLERS, MD, VMSTAT)
SLOT_REFRESH_SECONDS = 15.0
MAX_DEFERRED = 10_000
"""Limit of events of a first poll that are judged again when state.db can be read."""
EVENT_SOURCES = ("kernel", "md", "scan", oom_kill.COUNTED, "areca", "3ware", "megaraid")


@dataclass(frozen=True, slots=True)
class Cursors:
    """Cursors: how far each log was read, and what controllers listed. Stored with the events.

    `kills`: how many kills were reported; None: their counter was not read yet.
    """

    kernel: KernelCursor | None = None
    controllers: dict[str, LogCursor] = field(default_factory=dict)
    listed: dict[str, LastListing] = field(default_factory=dict)
    kills: KillCount | None = None


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Pollers that get the cursors, and that are polled again when an event occurs."""

    kernel_log: KernelLogPoller | None = None
    controllers: ControllerPoller | None = None
    drives: Callable[[Sequence[str]], object] = lambda _: None
    arrays: Callable[[], object] = lambda: None
    locate: Callable[[SectorQuery], object] = lambda _: None
    is_scan: Callable[[StorageEvent], bool] = lambda _: False
    """Whether a kernel line is about a read of a surface scan, which reports what is bad."""
    is_own_hang: Callable[[StorageEvent], bool] = lambda _: False
    """Whether a kernel line is about a hung task of iowarden itself."""


class EventPipeline:
    """Correlates the storage events of this machine, and tracks how far the logs were read."""

    def __init__(
        self,
        engine: Engine,
        transition_log: TransitionLog,
        table: EventTable,
        realtime: Callable[[float], float],
        *,
        callbacks: Callbacks,
        store: SampleStore | None = None,
    ) -> None:
        """Start without events. `realtime` converts the program's clock to Unix time."""
        self.state = CorrelationState()
        self.cursors = Cursors()
        self.stored = self.state, self.cursors
        """What may be persisted: incidents reflect all events in it."""
        self.changed = False
        """Whether events arrived since the last commit."""
        self._engine = engine
        self._transitions = transition_log
        self._table = table
        self._realtime = realtime
        self._kernel_log = callbacks.kernel_log
        self._controllers = callbacks.controllers
        self._poll_drives = callbacks.drives
        self._poll_arrays = callbacks.arrays
        self._locate = callbacks.locate
        self._is_own_hang = callbacks.is_own_hang
        self._is_scan = callbacks.is_scan
        self._store = store
        self._updates: list[EventUpdate] = []
        self._seen: dict[str, Any] = {}
        """The last value taken from each data source."""
        self._totals = event_counters.no_totals(EVENT_SOURCES)
        self._of_disks: dict[tuple[str, str], int] = {}
        self._restored = False
        self._waiting: list[EventBatch] = []
        self._refreshed_seconds = float("-inf")
        self._boot_id = ""
        self._before: Mapping[str, Identity] = {}
        self._graph = StorageGraph()
        self._graph_of: tuple[Dependents | None, CorrelationState, tuple[Controller, ...]]
        self._graph_of = None, self.state, ()
        self._alerts: tuple[CorrelationState | None, float, float, list[Alert]]
        self._alerts = None, 0.0, 0.0, []
        """The last alerts: of which state, for how long each fires, until when they are valid."""
        self._incomplete: tuple[StorageEvent, ...] = ()
        """Log lines that wait for those that follow: for the name of a device, or for a repair."""
        self._incomplete_seconds = 0.0
        self._kills_at_start = 0
        """Kills that had been reported when their counter was first read."""
        self._unlogged_seconds: float | None = None
        """Since when kills are counted of which no line was read; None: since this reading."""
        self._paths = FailedPaths()
        self._paths_of: Topology | None = None
        self._is_log_tried = False
        """Whether the kernel's log was read, or could not be."""
        engine.signals.failed_paths = self._failed_paths(0.0)

    # --- before the first poll

    def restore(
        self, stored: CorrelationState, cursors: Cursors, names: Mapping[str, Identity]
    ) -> None:
        """Restore the events of the previous run, and set the cursors of the pollers.

        `names` maps device names to the disks that had them then: log entries of an earlier boot
        refer to these.
        """
        self._before = dict(names)
        waiting, self._waiting = self._waiting, []
        # Events read meanwhile were reported: after a stop now, reading must not start before them.
        own = self.cursors
        self.cursors = Cursors(
            own.kernel or cursors.kernel,
            {**cursors.controllers, **own.controllers},
            {**cursors.listed, **own.listed},
            unlogged_kills.restored(cursors.kills, self._kills_at_start, own.kills),
        )
        self.state, self._restored = _merged(_without_first(self.state, waiting), stored), True
        self.stored = self.state, self.cursors
        self.changed = True
        recalled = failed_paths.recalled(stored.groups)
        self._paths = replace(self._paths, failed={**recalled.failed, **self._paths.failed})
        self._share_with_engine()
        if self._kernel_log is not None and KERNEL not in self._seen:
            self._kernel_log.recall(cursors.kernel)
        if self._controllers is not None:
            self._controllers.expect(cursors.listed)
            if CONTROLLERS not in self._seen:
                self._controllers.recall(cursors.controllers)
        # Events read before the restore: are they new, or were they reported before the start?
        for batch in waiting:
            self._step(_unknown_before(batch, cursors))

    # --- readings

    def take(self, reading: Reading[Any], now: float) -> None:
        """Take the events of a data source's reading."""
        name, value = reading.source, reading.value
        self._is_log_tried = self._is_log_tried or name == KERNEL
        before = self._seen.get(name)
        if name not in SOURCES or value is None or value is before:
            return
        self._seen[name] = value
        realtime = self._realtime(now)
        match name:
            case "kernel_log":
                self._take_kernel(value, now, realtime)
            case "controllers":
                self._take_controllers(value, now, realtime)
            case "vmstat":
                self._take_kills(value, now, realtime)
            case _:
                found = md_events(before, value, realtime)
                self._step(EventBatch(now, realtime, found))

    def _take_kernel(self, value: KernelLog, now: float, realtime: float) -> None:
        if value.cursor is not None:
            self.cursors = replace(self.cursors, kernel=value.cursor)
        self._boot_id = value.boot_id
        batch = event_state.of_kernel(value, now, realtime)
        # A bad sector is read several times until it is known: no storm of errors.
        events = (
            replace(each, kind="scan_read_error") if self._is_scan(each) else each
            for each in batch.events
        )
        # It waits for a disk like any other, and that harms no program.
        events = (
            replace(each, kind=hung.OWN_EVENT) if self._is_own_hang(each) else each
            for each in events
        )
        self._take(replace(batch, events=tuple(events)))

    def add(self, event: StorageEvent, now: float) -> None:
        """Take an event that iowarden itself found."""
        realtime = self._realtime(now)
        own = replace(event, boot_id=self._boot_id, realtime_seconds=realtime)
        self._step(EventBatch(now, realtime, (own,)))

    def _take_kills(self, value: Vmstat, now: float, realtime: float) -> None:
        """Compare the kernel's counter of kills with the lines of its log."""
        total, kills, before = value.oom_kills_total, value.oom_kills, self.cursors.kills
        if total is None:
            return
        count = unlogged_kills.of_boot(before, total, kills)
        self._kills_at_start = total if before is None else self._kills_at_start
        log = self._kernel_log
        events: tuple[StorageEvent, ...] = ()
        if total == count.reported:
            count, self._unlogged_seconds = unlogged_kills.settled(count, kills), None
        elif log is not None and not log.settled(0.0):  # it reads the journal: lines may come
            self._unlogged_seconds = None
        elif self._unlogged_seconds is None:
            self._unlogged_seconds = now
        elif now - self._unlogged_seconds >= unlogged_kills.WAIT_SECONDS:
            count, events = unlogged_kills.report(count, total, kills, realtime)
        if count != before:
            self.cursors, self.changed = replace(self.cursors, kills=count), True
        if events:
            self._step(EventBatch(now, realtime, events))

    def _with_kills(self, batch: EventBatch) -> EventBatch:
        """Count the lines about kills, and mark those of kills that the counter had reported."""
        known = (each.key for each in self.state.recent)
        lines = unlogged_kills.lines_of(batch.events, self._boot_id, known)
        further = 0 if batch.baseline else unlogged_kills.left_out(batch.left_out)
        count = self.cursors.kills
        if count is None or not (lines or further):
            return batch
        count, late = unlogged_kills.with_lines(count, self._boot_id, lines, further)
        self.cursors = replace(self.cursors, kills=count)
        return replace(batch, late=late)

    def _take_controllers(self, value: Controllers, now: float, realtime: float) -> None:
        if value.cursors:
            known = {**self.cursors.controllers, **value.cursors}
            self.cursors = replace(self.cursors, controllers=known)
        self.cursors = replace(self.cursors, listed={**self.cursors.listed, **value.listed})
        stat = self._engine.last.stat
        booted = None if stat is None else stat.boot_time_seconds
        self._take(event_state.of_controllers(value, now, realtime, booted))

    def _take(self, batch: EventBatch) -> None:
        """Take the events of a log. It was not polled before state.db had its time to answer.

        Whether those of the first poll were reported before is not known then: they are reported,
        and judged again once state.db can be read.
        """
        held = sum(len(each.baseline) for each in self._waiting)
        if not self._restored and batch.baseline and held < MAX_DEFERRED:
            self._waiting.append(replace(batch, events=(), left_out={}))
        self._step(batch)

    def _step(self, batch: EventBatch) -> None:
        patience = event_correlation.patience_seconds
        incomplete = tuple(each for each in batch.events if patience(each))
        if incomplete and not self._incomplete:
            self._incomplete_seconds = batch.now_seconds
        self._incomplete += incomplete
        events = tuple(each for each in batch.events if not patience(each))
        longest = max(map(patience, self._incomplete), default=0.0)
        if batch.now_seconds - self._incomplete_seconds >= longest:
            events, self._incomplete = (*events, *self._incomplete), ()
        batch = self._with_kills(replace(batch, events=events))
        if not (batch.events or batch.baseline or batch.left_out):
            return
        known = replace(
            self._engine.devices.places(),
            boot_id=self._boot_id,
            before=self._before,
            ahead_seconds=batch.realtime_seconds - batch.now_seconds,
        )
        self.state, news = event_correlation.correlate(self.state, batch, known, self._table)
        self.changed = True
        self._updates += news
        self._totals = event_counters.counted(self._totals, news)
        self._of_disks = event_counters.counted_disks(self._of_disks, news)
        self._paths = failed_paths.after_events(self._paths, news)
        self._share_with_engine()
        self._poll_related(news)

    def _poll_related(self, updates: Iterable[EventUpdate]) -> None:
        """Poll the disk that an event names, its array, and the controller that knows more."""
        told = [n for n in updates if n.severity >= Severity.WARNING]
        disks = list(dict.fromkeys(n.disk for n in told if n.disk and n.group is not None))
        if disks:
            self._poll_drives(disks)
        if any(n.event.source == "kernel" and n.event.kind.startswith("md_") for n in told):
            self._poll_arrays()
        for each in told:
            subject = "" if each.group is None else each.group.subject
            # The sdb of another boot may be a different disk now, with other files.
            here = each.event.boot_id == self._boot_id
            if here and (question := sector_query(each.event, subject)):
                self._locate(question)
        if self._controllers is not None and any(n.event.source == "kernel" for n in told):
            self._controllers.poll_next()

    def step(self, now: float) -> None:
        """Update from the controllers' disk lists; release lines whose next line never came."""
        if self._incomplete:
            self._step(EventBatch(now, self._realtime(now)))
        topology = self._engine.devices.topology
        if topology is not None and topology is not self._paths_of:
            self._paths, self._paths_of = failed_paths.after_poll(self._paths, topology), topology
        self._engine.signals.failed_paths = self._failed_paths(now)
        if now - self._refreshed_seconds >= SLOT_REFRESH_SECONDS:
            self._refreshed_seconds = now
            self.state = event_correlation.update_slots(
                self.state, self._engine.devices.places(), now
            )
            self._share_with_engine()

    def _failed_paths(self, now: float) -> frozenset[str] | None:
        """Return the numbers of the paths that failed; None: not known before the log is read.

        Nor if it cannot be read, and a path had failed by it before the restart.
        """
        is_waiting = self._kernel_log is not None and KERNEL not in self._seen
        if is_waiting and (self._paths.failed or not self._is_log_tried):
            return None
        return self._paths.numbers(self._boot_id, now)

    def _share_with_engine(self) -> None:
        """Publish to the rules what the logs reported."""
        self._engine.signals.errors_logged = self.state.media
        if KERNEL in self._seen:
            topology = self._engine.devices.topology
            self._engine.signals.file_system_errors = file_system_errors(
                self.state.groups, self._boot_id, topology
            )
        self._engine.devices.slots = self.state.slots

    # --- for incidents

    @property
    def rows(self) -> Mapping[str, EventRule]:
        """Return the classes of storage events."""
        return self._table.rows

    def use(self, table: EventTable | None) -> None:
        """Use another table of events from now on, after a reload; None: none was loaded."""
        self._table = table or self._table
        self._alerts = None, 0.0, 0.0, []

    def alerts(self, now: float, for_seconds: float = WINDOW_SECONDS) -> list[Alert]:
        """Return active events as alerts that fire for `for_seconds`."""
        of, made_for, until, found = self._alerts
        if of is not self.state or made_for != for_seconds or now >= until:
            found = event_alerts.alerts(self.state, self._table, now, for_seconds)
            until = event_alerts.unchanged_until(self.state, now, for_seconds)
            self._alerts = self.state, for_seconds, until, found
        return found

    def graph(self, now: float) -> StorageGraph:
        """Return the storage graph: what carries what, now or a moment ago."""
        standing = self._engine.devices.dependents
        where = self._engine.devices.places()
        of = standing, self.state, where.controllers
        if any(a is not b for a, b in zip(of, self._graph_of, strict=True)):
            self._graph_of = of
        elif not standing.until:  # Nothing in it expires.
            return self._graph
        behind = [
            at_controller(card.name, disk.slot, where)
            for card in where.controllers
            for disk in card.disks
            if disk.state.health not in {ComponentHealth.OK, ComponentHealth.ABSENT}
        ]
        above = event_correlation.carries(self.state, standing, now, behind)
        shared = parents(standing, where.devices.gone)
        gone = device_changes.lately_gone(where.devices, now)
        self._graph = StorageGraph(
            with_shelves(above, shared),
            shared,
            parent_texts(where.topology, where.hosts, shared),
            {key: each.at_seconds for key, each in gone.items()},
            {key: frozenset(own) for key, own in paths(standing, where.topology, now).items()},
        )
        return self._graph

    def evidence(self, incident: Incident, now: float) -> tuple[Evidence, ...]:
        """Return the log lines about an incident."""
        subjects = {incident.key, *(m.subject for m in incident.members if m.subject)}
        since = incident.started_seconds - WINDOW_SECONDS
        realtime = self._realtime(now)
        return event_evidence.evidence(self.state, subjects, since, realtime, realtime - now)

    def samples(self) -> list[Sample]:
        """Return the samples of happened.FAMILIES."""
        disks = self._engine.signals.inventory().disks
        return event_counters.samples(self.state, self._totals, self._of_disks, disks)

    # --- reporting

    def log_and_store(
        self, incidents: Mapping[str, Incident], graph: StorageGraph, now: float
    ) -> list[Transition]:
        """Log new events, each with its incident, and store them for `iowarden events`.

        Returns the events that cause no mail, for the digest.
        """
        news, self._updates = self._updates, []
        rows = []
        for each in news:
            incident = _incident(each, incidents, graph)
            row = self._row(each, incident, now)
            if each.announced:
                self._log(each, row)
            if event_correlation.to_be_stored(each):
                rows.append(row)
        if rows and self._store is not None:
            self._store.store_events(rows)
        if not self._incomplete:  # Otherwise a kill now would read these lines again.
            self.stored = self.state, self.cursors
        return event_alerts.below_warning(self.state, news)

    def _log(self, update: EventUpdate, row: EventLine) -> None:
        event, happening = update.event, update.group
        times = f" ({row.count} times)" if row.count > 1 else ""
        twin = " (already reported from another log)" if update.twin else ""
        # Existing events of the baseline raise no alert, and an event in two logs raises one.
        quiet = happening is None or happening.baseline
        self._transitions.storage_event(
            row,
            journal.EVENT,
            6 if quiet else PRIORITY[update.severity],
            f"event {event.kind}{times}{twin}: {update.object or 'host'}: {event.text}",
            IOWARDEN_DEVICE=event.device,
            IOWARDEN_SEVERITY=update.severity.name.lower(),
            IOWARDEN_INCIDENT=row.incident,
            IOWARDEN_EVENT=event.kind,
        )

    def _row(self, update: EventUpdate, incident: str, now: float) -> EventLine:
        event = update.event
        at = event.realtime_seconds
        return EventLine(
            key=event.key,
            at_seconds=self._realtime(now) if at is None else at,
            source=event.source,
            kind=event.kind,
            severity=update.severity.name.lower(),
            device=event.device,
            disk=update.disk,
            object=update.object,
            incident=incident,
            text=event.text,
            count=1 if update.group is None or update.group.is_mixed else update.group.count,
        )


def _incident(update: EventUpdate, incidents: Mapping[str, Incident], graph: StorageGraph) -> str:
    """Return the identifier of the open incident that an event belongs to, '' for none."""
    if update.group is None:
        return ""
    subject = update.group.subject
    now = [each for each in incidents.values() if each.closed_seconds is None]
    below = (each for each in now if subject in graph.above.get(each.key, ()))
    mine = (each for each in now if any(m.subject == subject for m in each.members))
    own = (each for each in now if each.key == subject)
    return next((each.identifier for each in chain(mine, own, below)), "")


def _merged(ours: CorrelationState, stored: CorrelationState) -> CorrelationState:
    """Return the restored events merged with those that arrived before the restore."""
    return replace(
        stored,
        groups=(*stored.groups, *ours.groups),
        recent=(*stored.recent, *ours.recent),
        clocks={**stored.clocks, **ours.clocks},
        slots={**stored.slots, **ours.slots},
        media=dict(Counter(stored.media) + Counter(ours.media)),
        errors={
            host: (*stored.errors.get(host, ()), *ours.errors.get(host, ()))
            for host in stored.errors | ours.errors
        },
    )


def _without_first(state: CorrelationState, batches: Sequence[EventBatch]) -> CorrelationState:
    """Return the events without those of first polls, which are judged again."""
    first = {event for batch in batches for event in batch.baseline}
    return replace(
        state,
        groups=tuple(group for group in state.groups if not group.baseline),
        recent=tuple(event for event in state.recent if event not in first),
    )


def _unknown_before(batch: EventBatch, cursors: Cursors) -> EventBatch:
    """Split the events of a first poll by the stored cursors: new, or reported before."""
    news: list[StorageEvent] = []
    first: list[StorageEvent] = []
    logs: dict[str, list[StorageEvent]] = {}
    for event in batch.baseline:
        if event.source != "kernel":
            logs.setdefault(event.controller, []).append(event)
        elif cursors.kernel is None:
            first.append(event)
        elif _is_after(event, cursors.kernel):
            news.append(event)
    for controller, told in logs.items():
        known = cursors.controllers.get(controller)
        if known is None:
            first += told
            continue
        if told[0].source == NUMBERED:
            entries = tuple((each.clock_seconds, each.text, each.sequence) for each in told)
            aligned = align_numbered(known.listing, entries)
        else:
            aligned = align(known.listing, [(each.clock_seconds, each.text) for each in told])
        news += told[len(told) - aligned.new :]
    return replace(batch, events=tuple(news), baseline=tuple(first))


def _is_after(event: StorageEvent, cursor: KernelCursor) -> bool:
    later = (event.monotonic_seconds or 0.0) > cursor.monotonic_seconds
    return event.boot_id != cursor.boot_id or later
