"""`iowarden check`: evaluates all rules once, and checks data sources, service and configuration.

The daemon's own readers, engine and rules run for a few seconds; nothing is written or mailed.
"""

from __future__ import annotations

import dataclasses
import queue
import time
from typing import TYPE_CHECKING, Any

from iowarden.collectors.machine import Machine
from iowarden.collectors.model import Reading
from iowarden.collectors.quantity import duration
from iowarden.daemon import exporters
from iowarden.daemon.check import findings, installation, running_service, storage_inventory
from iowarden.daemon.check.report import CheckReport
from iowarden.daemon.polling import pollers
from iowarden.daemon.polling.scheduler import SourceScheduler
from iowarden.rules import scrape_labels
from iowarden.rules.advice import last_copies
from iowarden.rules.advice.dirty_limits import backlog
from iowarden.rules.advice.facts import Facts, advice_inputs, multipath, slow
from iowarden.rules.alerting.alerts import AlertState, identity
from iowarden.rules.engine.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iowarden.collectors.machine import Probe
    from iowarden.collectors.model import Labels
    from iowarden.collectors.recording.player import RecordingPlayer
    from iowarden.collectors.source import Source
    from iowarden.daemon.clock import PlayedClock, SystemClock
    from iowarden.daemon.config.schema import Config
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.rulefile.rulefile import RuleGroup

MIN_OBSERVATION_SECONDS = 4.0
"""Minimum duration of a check: signals of one second need a few."""
MAX_OBSERVATION_SECONDS = 45.0
"""Maximum, while a data source has not answered or a device completes no request."""
CURRENT_SECONDS = 2.0
"""A device without completions for this long is watched until its alert fires."""
SETTLE_SECONDS = 2.0
"""How long a frame of a recording waits for reader threads, in real time."""
_REPORTED_STATES = (AlertState.FIRING, AlertState.PENDING, AlertState.UNKNOWN)


def observe(
    engine: Engine,
    readers: SourceScheduler,
    events: queue.SimpleQueue[object],
    clock: SystemClock,
    observation_seconds: float,
    step: Callable[[str], None] = lambda _: None,
) -> None:
    """Poll this machine and evaluate the rules for a few seconds."""
    began = clock.now()
    tick = began
    pending: list[Reading[object]] = []
    while True:
        step(f"checking the machine, for {duration(tick - began)} so far")
        now = clock.now()
        engine.observe([*pending, *readers.run(now)], now, clock.uptime())
        engine.rules.evaluate(now)
        # Reads that began in this turn are awaited only in the first turn: some begin in each.
        waits = readers.waiting(now) if tick > began else readers.waiting()
        busy = waits or _current(engine)
        if now - began >= (MAX_OBSERVATION_SECONDS if busy else observation_seconds):
            return
        tick += 1.0
        pending = _answers(readers, events, clock.now, tick)


def play(
    engine: Engine,
    readers: SourceScheduler,
    events: queue.SimpleQueue[object],
    clock: PlayedClock,
    player: RecordingPlayer,
) -> None:
    """Replay a whole recording and evaluate the rules. Errors: RecordingError."""
    while (frame := player.advance()) is not None:
        clock.set(frame.monotonic_seconds, frame.realtime_seconds)
        now = clock.now()
        readings = readers.run(now)
        end = time.monotonic() + SETTLE_SECONDS

        if readers.waiting():
            readings += _answers(readers, events, time.monotonic, end, while_waiting=True)
        engine.observe(readings, now, clock.uptime())
        engine.rules.evaluate(now)


def _answers(
    readers: SourceScheduler,
    events: queue.SimpleQueue[object],
    clock: Callable[[], float],
    end: float,
    *,
    while_waiting: bool = False,
) -> list[Reading[object]]:
    """Return the readings of reader threads until the clock reaches `end`."""
    found = []
    while (left := end - clock()) > 0 and (readers.waiting() or not while_waiting):
        try:
            event = events.get(timeout=left)
        except queue.Empty:
            break
        if isinstance(event, Reading):
            readers.finished(event)
            found.append(event)
    return found


def _current(engine: Engine) -> bool:
    """Whether a device completes no request and no alert fires for it yet."""
    firing = {a.label("device") for a in engine.rules.alerts() if a.active}
    return any(
        metric == "iowarden_device_hang_seconds"
        and value >= CURRENT_SECONDS
        and dict(labels)["device"] not in firing
        for chunk in engine.hub.chunks()
        for _, samples in chunk.families
        for metric, labels, value in samples
    )


def examine(  # noqa: PLR0913 - all but four are named where it is called
    settings: Config,
    groups: Sequence[RuleGroup],
    clock: SystemClock,
    root: Callable[[], Machine],
    *,
    player: RecordingPlayer | None = None,
    observation_seconds: float = MIN_OBSERVATION_SECONDS,
    step: Callable[[str], None] = lambda _: None,
    probe: Probe | None = None,
    query: running_service.Query | None = None,
) -> CheckReport:
    """Return the report on this machine, or on the end of a recording.

    `probe` reads the watched directories; `query` queries the service in place of its '/metrics'.
    Errors: RecordingError.
    """
    events: queue.SimpleQueue[object] = queue.SimpleQueue()
    made = pollers.make(settings.smart, clock)
    made.directories.configure(settings.watch_directories)
    sources = sources_of(made, probe)
    readers = SourceScheduler(sources, settings.interval_seconds, root, clock.now, events.put)
    each_tick = [dataclasses.replace(group, interval_seconds=1.0) for group in groups]
    engine = Engine(each_tick, readers.sources, clock.now(), targets=settings.targets)
    if player is None:
        observe(engine, readers, events, clock, observation_seconds, step)
    else:
        play(engine, readers, events, clock, player)  # type: ignore[arg-type]  # comes with it
    readers.close()
    alerts = last_copies.marked(engine.rules.alerts(), engine.devices.places())
    own = [a for a in alerts if a.state in _REPORTED_STATES and not findings.about_iowarden(a)]
    if player is None:
        own = _as_in_service(own, engine, running_service.firing(settings.listen[0], query))
    found = [
        *findings.of_mail(settings, here=player is None),
        *findings.of_alerts(own, groups, _facts(engine, own)),
        *findings.of_rules(engine),
        *findings.of_sources(engine, clock.now()),
    ]
    if player is None:  # a recording is of another machine
        step("querying the service and other exporters")
        fired = {on_metrics(a, engine) for a in own if a.active}
        unit = running_service.unit(root())
        found += (
            running_service.findings(
                settings.listen[0], fired, unit, running_service.in_foreground(root())
            )
            if query is None
            else running_service.of_socket(fired, unit, query)
        )
        found += findings.of_exporters(exporters.find_exporters(), settings)
        step(f"checking '{settings.state_directory}'")
        found += findings.of_state_directory(settings.state_directory)
        found += findings.of_self_tests(settings, engine)
        found += findings.of_tracing(settings, root())
        found += [*installation.programs(engine), *installation.clock()]
        found += findings.of_roles()
    found += findings.slow_group_findings(groups)
    return CheckReport(tuple(found), tuple(storage_inventory.items(engine)))


def _as_in_service(alerts: Iterable[Alert], engine: Engine, fires: set[Labels]) -> list[Alert]:
    """Return the alerts; what only waits here, after seconds, fires if it does in the service."""
    return [
        dataclasses.replace(each, state=AlertState.FIRING)
        if each.state is AlertState.PENDING and on_metrics(each, engine) in fires
        else each
        for each in alerts
    ]


def on_metrics(alert: Alert, engine: Engine) -> Labels:
    """Return the labels that an alert has in iowarden_alerts, by which the service's is the same.

    Without its state, which may be another one there.
    """
    return scrape_labels.without(identity(alert), engine.hub.targets)


def sources_of(made: pollers.Pollers, probe: Probe | None) -> list[Source[Any]]:
    """Return the data sources of a check: the probe reads watched directories, polls no drive."""
    sources = {source.name: source for source in made.sources()}
    # Only the service polls drives: their SMART data is not missing from a check.
    sources["smart"] = dataclasses.replace(sources["smart"], unreadable=None)
    if probe is not None:
        sources["backups"] = dataclasses.replace(
            sources["backups"], read=lambda _: made.directories.read(Machine(probe=probe))
        )
    return [*sources.values()]


def _facts(engine: Engine, alerts: Iterable[Alert]) -> Facts:
    """Return the facts that advice depends on."""
    chunks = engine.hub.chunks()
    where, mounts = engine.devices.places(), engine.devices.mounts()
    paths, unwritten = multipath(chunks), backlog(chunks)
    return Facts(advice_inputs(where, mounts, alerts, slow(chunks), paths, unwritten))
