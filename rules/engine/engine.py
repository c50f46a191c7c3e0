"""The engine: takes readings, steps the signals, feeds the store, evaluates the rules. Pure.

The last data of a data source stay valid for three of its periods after it stopped delivering and
are then marked stale; an alert whose data sources are not `ok` is not evaluated, and becomes
unknown after that time. Units: seconds of the program's clock (Unix time that never jumps).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

from iowarden.collectors.model import Labels, Outcome, Reading, Sample
from iowarden.collectors.procfs import tasks
from iowarden.rules import scrape_labels
from iowarden.rules.engine import rule_evaluator, source_status
from iowarden.rules.engine.device_tracker import DeviceTracker
from iowarden.rules.engine.queries import Queries
from iowarden.rules.engine.rule_evaluator import RuleEvaluator
from iowarden.rules.engine.sample_hub import REFRESH_SECONDS, SampleHub
from iowarden.rules.engine.signal_groups import SignalGroups
from iowarden.rules.engine.source_status import SourceStatus
from iowarden.rules.engine.visibility import Visibility
from iowarden.rules.signals import table as signals
from iowarden.rules.signals.signal import GAP_SECONDS
from iowarden.rules.snapshot import SOURCES, Snapshot
from iowarden.rules.topology import device_changes

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.procfs.tasks import BlockedTasks
    from iowarden.collectors.source import Source
    from iowarden.rules.rulefile.rulefile import RuleGroup
    from iowarden.rules.topology.topology import StoredDependents

T = TypeVar("T")

FAMILIES = (
    *source_status.FAMILIES,
    *rule_evaluator.ALERT_FAMILIES,
    *rule_evaluator.RULE_FAMILIES,
)
"""Metrics of the engine itself."""
_IMMEDIATE_GROUP = "md"
"""The rule group that is evaluated at once when 'md' reads a change."""


class Engine:
    """State of one host and the evaluation of its rules. One thread only."""

    def __init__(
        self,
        groups: Sequence[RuleGroup],
        sources: Sequence[Source[Any]],
        now: float,
        default_interval_seconds: float = 15.0,
        *,
        expose: tuple[str, ...] = (),
        targets: Mapping[str, Labels] | None = None,
    ) -> None:
        """Take the rules and the data sources; the state at `now` is empty.

        `expose` and `targets` are those of SampleHub.
        """
        self.sources = {source.name: SourceStatus(source) for source in sources}
        self.last = Snapshot()
        """The last data of each data source, of any age."""
        self.signals = SignalGroups(self.sources, now)
        self.devices = DeviceTracker(self.signals)
        self.hub = SampleHub(self.sources, now, expose=expose, targets=targets)
        self.queries = Queries(self.hub, self.sources)
        self._up = scrape_labels.up(self.hub.targets)
        self._counted: device_changes.Devices | None = None
        self._device_samples: list[Sample] = []
        """Of the devices in `_counted`."""
        self._status_seconds = -math.inf
        """When the status of the data sources was published last."""
        self._was_urgent = False
        self._named: Topology | None = None
        self._whole: frozenset[str] | None = None
        """The names of the whole devices of `_named`."""
        visibility = Visibility(self.sources, self.signals, self.hub, now)
        self.rules = RuleEvaluator(self.hub, self.devices, visibility, self.queries)
        self.rules.load(groups, now, default_interval_seconds)

    def observe(
        self,
        readings: Iterable[Reading[Any]],
        now: float,
        uptime_seconds: float,
        asleep_seconds: float = 0.0,
    ) -> None:
        """Take the readings of this tick, step the signals, feed the store.

        `asleep_seconds`: for how long the host has been suspended since its boot.
        """
        self.devices.resume(now - uptime_seconds, now)
        last = self.hub.observe(now)
        if last is None or now - last > GAP_SECONDS:  # stopped meanwhile: nothing was polled
            self.signals.resume(now)
            for status in self.sources.values():
                if last is None or status.outcome() is Outcome.OK:
                    status.since_seconds = now
        fresh = self._take(readings, now)
        self._publish_sources(fresh, now)
        if self._counted is not self.devices.devices:
            self._counted = self.devices.devices
            self._device_samples = device_changes.samples(self._counted)
        self.hub.publish("devices", device_changes.FAMILIES, self._device_samples, now)
        told = self.signals.step(fresh, self.devices.topology, now, uptime_seconds, asleep_seconds)
        for group in signals.GROUPS:
            if group.name in told:
                self.hub.publish("signal_" + group.name, group.families, told[group.name], now)
        self.hub.refresh(
            (("signal_" + n, found) for n, found in self.signals.slow() if n not in told),
            now,
            (status for name, status in self.sources.items() if name not in fresh),
        )
        self._publish_status(fresh, now)
        self.hub.feed("up", self._up, now)

    def _publish_status(self, fresh: set[str], now: float) -> None:
        """Publish how the data sources are: at each change, while one is stale, else every 15 s."""
        urgent = source_status.needs_update(self.sources, fresh, now)
        if urgent or self._was_urgent or now - self._status_seconds >= REFRESH_SECONDS:
            self._status_seconds, self._was_urgent = now, urgent
            samples = source_status.samples(self.sources, now)
            self.hub.publish("collectors", source_status.FAMILIES, samples, now)

    def _take(self, readings: Iterable[Reading[Any]], now: float) -> set[str]:
        """Store the readings; return which data sources delivered."""
        fresh: set[str] = set()
        for reading in readings:
            self.sources[reading.source].take(reading, now)
            fresh.add(reading.source)
        before = self.last
        values = {n: status.value for n, status in self.sources.items() if n in SOURCES}
        self.last = Snapshot(**values)
        if before.md not in (None, self.last.md):
            self.rules.hasten(_IMMEDIATE_GROUP, now)
        good = {name for name in fresh if self.sources[name].outcome() is Outcome.OK}
        self.devices.take(self.last, good, now)
        return fresh

    def _publish_sources(self, fresh: Container[str], now: float) -> None:
        block = self.last.block
        if block is not self._named:
            self._named, self._whole = block, None if block is None else frozenset(block.devices)
        for name, status in self.sources.items():
            if name in fresh and status.outcome() is Outcome.OK:
                if status.show(status.value, self._whole):
                    self.hub.publish_source(status, now)
                else:
                    self.hub.feed_source(status, now)
            elif status.shown is not None and not status.is_valid(now):
                status.show(None, None)
                self.hub.hide(status, now)

    def hold(self, names: Container[str], reason: str, now: float) -> None:
        """Note which data sources are not polled on purpose, and why; all others are polled."""
        for name, status in self.sources.items():
            status.hold(reason if name in names else "", now)

    def recall(
        self,
        memory: signals.PersistentSignals,
        known: device_changes.Devices,
        dependents: StoredDependents | None = None,
    ) -> None:
        """Restore the state of signals and devices from before a restart."""
        self.signals.recall(memory)
        self.devices.recall(known, dependents)

    def status(self, source: Source[T]) -> SourceStatus[T] | None:
        """Return the status of a data source, or None when there is no such data source."""
        return self.sources.get(source.name)

    def waiting(self, now: float) -> BlockedTasks | None:
        """Return which tasks wait, or None when that is not known (any longer)."""
        status = self.status(tasks.SOURCE)
        if status is None or status.outcome() is not Outcome.OK or not status.is_valid(now):
            return None
        return status.value
