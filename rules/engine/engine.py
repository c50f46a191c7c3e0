"""Readings in, alerts out: feeds the store, steps the signals, evaluates the rules. Pure.

What a source last said is held for three of its periods after it fell silent and is then marked
stale; an alert whose sources are not `ok` is not evaluated, and is unknown once they have been
silent for that long.
Units: seconds of the program's clock (Unix time that never jumps).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from iowarden.collectors import node_series
from iowarden.collectors.block import scsi
from iowarden.collectors.model import Chunk, Family, Labels, Outcome, Reading, Sample
from iowarden.rules import scrape_labels
from iowarden.rules.alerting import alerts as life
from iowarden.rules.alerting.staleness import Watched, resumed
from iowarden.rules.promql import evaluator, selectors
from iowarden.rules.promql.ast import Selector
from iowarden.rules.promql.errors import TooExpensiveError
from iowarden.rules.promql.evaluator import (
    SUBQUERY_STEP_SECONDS,
    EvaluationError,
    compile_expression,
)
from iowarden.rules.promql.evidence import STEADY, Drift, drift
from iowarden.rules.promql.lexer import PromqlError
from iowarden.rules.promql.parser import parse
from iowarden.rules.promql.run import MOST_WORK, Budget
from iowarden.rules.promql.store import LOOKBACK_SECONDS, Row, Store
from iowarden.rules.rulefile.rulefile import RecordingRule, Rule, RuleGroup
from iowarden.rules.signals import table as signals
from iowarden.rules.signals.signal import GAP_SECONDS, Derived, Inputs
from iowarden.rules.signals.smart import disk_cover
from iowarden.rules.snapshot import SOURCES, Snapshot
from iowarden.rules.topology import device_identity, event_location, inventory, returned
from iowarden.rules.topology.topology import (
    NOTHING,
    Standing,
    Stood,
    kept,
    recalled,
    remember,
    with_held,
    without_old,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.filesystem.mountinfo import Mount, Mounts
    from iowarden.collectors.procfs.tasks import Tasks
    from iowarden.collectors.source import Source
    from iowarden.rules.advice.facts import Facts

HELD_PERIODS = 3
REFRESH_SECONDS = 15.0
"""Every live series is written anew at least so often, as a scrape would."""
FORGOTTEN_SECONDS = 86_400.0
"""An alert on what has been away for a day is forgotten, without an all clear."""
MOST_QUERIES = 1000
EXPENSIVE_SECONDS = 300.0
"""A rule that was too expensive is left alone for so long: it would only cost again."""
EXPENSIVE_WORK = MOST_WORK // 10
"""Only one that cost as much: another may just have come too late in its round."""
FIRST_SECONDS = 600.0
"""So long after a start what was not looked at yet is as it was: 500 drives are asked in turn."""
GRACE_SECONDS = 0.5
"""A rule group is due half a second early rather than a whole tick late."""
_SOON = {"md": "raid"}
"""Rule groups that are due as soon as a source has read something else than before."""

COLLECTOR_FAMILIES = (
    Family(
        "iowarden_collector_duration_seconds", "gauge", "How long the collector's last run took."
    ),
    Family(
        "iowarden_collector_outcome",
        "gauge",
        "1 for the outcome of the collector's last run, else 0.",
    ),
    Family(
        "iowarden_collector_age_seconds",
        "gauge",
        "Seconds since the collector last read good data.",
    ),
    Family(
        "iowarden_collector_silent_seconds",
        "gauge",
        "Seconds a collector that should speak has not, once its last values are given up.",
    ),
)
ALERT_FAMILIES = (
    Family("iowarden_alerts", "gauge", "1 for every alert that is pending, firing or unknown."),
    Family(
        "iowarden_alert_recent_firings",
        "gauge",
        "Times the alert began to fire in the last 2 hours.",
    ),
)
RULE_FAMILIES = (
    Family("iowarden_rules", "gauge", "Alerting and recording rules that are loaded."),
    Family(
        "iowarden_rule_evaluation_failures_total",
        "counter",
        "Evaluations of the rule that ended in an error.",
    ),
    Family(
        "iowarden_rule_failing", "gauge", "1 while the rule's last evaluation ended in an error."
    ),
)
FAMILIES = (*COLLECTOR_FAMILIES, *ALERT_FAMILIES, *RULE_FAMILIES)
"""What the engine says of itself."""
RECENT = "iowarden_alert_recent_firings"
_ALERTS = frozenset(("ALERTS", "ALERTS_FOR_STATE"))


@dataclass(slots=True)
class SourceStatus:
    """What is known of one source: its last run, its last good value and what it showed."""

    source: Source[Any]
    since_seconds: float | None = None
    """When it was last seen good, or the first tick."""
    reading: Reading[object] | None = None
    value: Any = None
    good_seconds: float | None = None
    samples: list[Sample] = field(default_factory=list)
    shown: Any = None
    """The value that `samples` are of: of the same one they need not be made again."""

    def outcome(self) -> Outcome | None:
        """Return the last run's outcome, or None before the first."""
        return None if self.reading is None else self.reading.outcome

    def silent(self) -> bool:
        """Whether it should speak and does not; a source absent from the start need not."""
        outcome = self.outcome()
        return outcome is not Outcome.OK and not (
            outcome is Outcome.ABSENT and self.good_seconds is None
        )

    def held(self, now: float) -> bool:
        """Whether what it last said may still be used."""
        since = now if self.since_seconds is None else self.since_seconds
        return now - since <= HELD_PERIODS * self.source.period_seconds


@dataclass(frozen=True, slots=True)
class Problem:
    """A rule that could not be evaluated; '' ends it."""

    rule: str
    text: str


class Engine:
    """All that is known of one machine, and what the rules make of it. One thread only."""

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
        """Take the rules and the sources; nothing is known yet at `now`.

        `expose`: beginnings of other exporters' names ('node_', 'smartctl_') whose series `chunks`
        has as well. `targets`: what rules find on those series, as `scraped` has it.
        """
        self._targets = targets or {}
        self._exposed = frozenset(
            source.name
            for source in sources
            if any(prefix.startswith(expose) for prefix in source.node_prefixes)
        )
        self._sources = {s.name: SourceStatus(s) for s in sources}
        self._signal_state = signals.State()
        self._group_sources = {group.name: group.sources for group in signals.GROUPS}
        self._slow = frozenset(
            group.name
            for group in signals.GROUPS
            if all(
                self._sources[name].source.period_seconds > GAP_SECONDS
                for name in group.sources
                if name in self._sources
            )
        )
        self._derived: Derived | None = None
        self._signal_samples: dict[str, list[Sample]] = {g.name: [] for g in signals.GROUPS}
        self._signal_seconds = dict.fromkeys(self._signal_samples, now)
        self._chunks: dict[str, Chunk] = {}
        self._published: dict[str, Sequence[Sample]] = {}
        self._store = Store(thins=True)
        self._watched = Watched()
        """When the store began to keep what rules ask for."""
        self._tail_ends: tuple[float, float] | None = None
        """When what was restored ends, and when it was; until what is gone of it was ended."""
        self._live: dict[str, set[tuple[str, Labels]]] = {}
        self._refreshed = now
        self._alerts: dict[int, life.Alerts] = {}
        self._failures: dict[str, int] = {}
        self._problems: dict[str, str] = {}
        self._budget = Budget()
        """Of all rules that are due now and their templates: the loop waits for them together."""
        self._put_off: dict[int, float] = {}
        """Until when rules are left alone that were too expensive."""
        self._queries: dict[str, evaluator.Expression] = {}
        self._began_seconds = now
        self._blind: frozenset[str] = frozenset()
        self._outcomes: dict[str, list[Sample]] = {}
        self._observed_seconds: float | None = None
        self._devices = device_identity.Devices()
        self._device_events: list[device_identity.Event] = []
        self._standing = NOTHING
        self._looked_seconds: float | None = None
        """When '/sys/block' was looked at last."""
        self._stood: Stood | None = None
        """What stood on what before a restart, until the machine's uptime is known."""
        self._newest: dict[str, dict[str | None, list[Sample]]] = {}
        """By selector and label 'device' what `_chunks` have."""
        self._looked_at: tuple[Topology, tuple[Mount, ...]] | None = None
        """What `_standing` is of."""
        self._fabrics: frozenset[str] = frozenset()
        self._hosts: dict[str, str] = {}
        """SCSI hosts by what drivers call them; one that is gone may be called so once more."""
        self._unmounted: tuple[Mount, ...] = ()
        self._orphans: dict[tuple[Labels, str], life.Alert] = {}
        self._taken_out: set[str] = set()
        """Disks of which somebody said so, by their key: what nobody can tell of them is over."""
        self._restored = False
        """Whether rules do not know yet which alerts there were before."""
        self.errors_logged: Mapping[str, float] = {}
        """Medium errors that logs told, by disk."""
        self.slots: Mapping[str, event_location.Slotted] = {}
        """What was in the slots of controllers when they told it last."""
        self.load(groups, now, default_interval_seconds)

    # --- rules

    def load(
        self, groups: Sequence[RuleGroup], now: float, default_interval_seconds: float
    ) -> list[life.Alert]:
        """Take other rules; the alerts of rules that stay keep their state.

        Returned are those whose rule is gone.
        """
        kept = self.alerts()
        self._default_interval = default_interval_seconds
        self._orphans = {}
        self._groups = tuple(groups)
        self._due = [now] * len(self._groups)
        self._rules: list[Rule | RecordingRule] = [r for g in groups for r in g.rules]
        self._steps = [g.interval_seconds or SUBQUERY_STEP_SECONDS for g in groups for _ in g.rules]
        self._limits = [g.limit for g in groups for _ in g.rules]
        self._alerts = {i: {} for i, r in enumerate(self._rules) if isinstance(r, Rule)}
        self._rule_names = tuple(
            dict.fromkeys(r.alert if isinstance(r, Rule) else r.record for r in self._rules)
        )
        self._owners = self._owned()
        wanted: set[str] = set()
        retention: dict[str, float] = {}
        any_seconds = 0.0
        self._reads_any = False
        for rule in self._rules:
            wanted |= rule.expression.names
            self._reads_any = self._reads_any or rule.expression.reads_any
            any_seconds = max(any_seconds, rule.expression.any_retention_seconds)
            for name, seconds in rule.expression.retention_seconds.items():
                retention[name] = max(seconds, retention.get(name, 0.0))
        self._wanted = frozenset(wanted)
        self._reads_alerts = self._reads_any or not wanted.isdisjoint(_ALERTS)
        # What was seen stays: a reload must not make the last hour unknown.
        kept_since = {}
        before = self._watched.since
        for name, seconds in {**retention, "": any_seconds}.items():
            had = self._store.retention_seconds(name)
            since = before.get(name, before.get("", now)) if had else now
            kept_since[name] = since if seconds <= had else max(since, now - had)
        self._watched = replace(self._watched, since=kept_since)
        self._store.retain(retention, any_seconds)
        self._windows = [self._windows_of(rule.expression) for rule in self._rules]
        self._doubtful = self._doubtful_rules()
        for key in [key for key in self._live if key.startswith("rule_")]:  # other rules from now
            for metric, labels in self._live.pop(key):
                self._store.mark_stale(metric, labels, now)
        for chunk in self._chunks.values():  # what is stepped seldom is not told again soon
            if chunk.name in self._sources:
                self._feed(chunk.name, self._sources[chunk.name].samples, now)
            elif not chunk.name.startswith("node_"):
                self._feed(chunk.name, [s for _, found in chunk.families for s in found], now)
        self._rule_sources = [self._sources_of(rule.expression) for rule in self._rules]
        self._rule_signals = [self._signals_of(rule.expression) for rule in self._rules]
        self._problems = {}
        self._put_off = {}
        return self.restore(kept)

    def restore(self, alerts: Iterable[life.Alert]) -> list[life.Alert]:
        """Give the rules their alerts back; return those whose rule is not loaded any more."""
        left = []
        self._restored = True
        for alert in alerts:
            index = self._rule_of(alert)
            if index is None:
                left.append(alert)
                continue
            own = self._alerts[index].setdefault(alert.labels, alert)
            if own.subject != alert.subject:  # two disks that had one name
                self._orphans[alert.key] = alert
        return left

    def _rule_of(self, alert: life.Alert) -> int | None:
        return next(
            (
                index
                for index, rule in enumerate(self._rules)
                if isinstance(rule, Rule) and rule.alert == alert.name and _same_rule(rule, alert)
            ),
            None,
        )

    def alerts(self) -> list[life.Alert]:
        """Return every alert that is pending, firing, unknown or lately resolved."""
        own = [alert for alerts in self._alerts.values() for alert in alerts.values()]
        return [*own, *self._orphans.values()]

    def expected(self) -> list[dict[str, str]]:
        """Return the labels that are known of the alerts that each rule may bring."""
        return [
            {"alertname": rule.alert, **({"severity": severity} if severity else {})}
            for rule in self._rules
            if isinstance(rule, Rule)
            for severity in (_severity(rule),)
        ]

    def active_rules(self) -> int:
        """Return how many rules are loaded."""
        return len(self._rules)

    # --- readings

    def observe(
        self,
        readings: Iterable[Reading[Any]],
        now: float,
        uptime_seconds: float,
        asleep_seconds: float = 0.0,
    ) -> None:
        """Take what the sources said in this tick, step the signals, feed the store.

        `asleep_seconds`: for how long the machine has been suspended since its boot.
        """
        self._begin(now)
        if self._stood is not None:
            self._standing = recalled(self._standing, self._stood, now - uptime_seconds, now)
            self._stood = None
        last, self._observed_seconds = self._observed_seconds, now
        if last is None or now - last > GAP_SECONDS:  # stopped meanwhile: nobody was asked
            self._signal_seconds = dict.fromkeys(self._signal_seconds, now)
            for status in self._sources.values():
                if last is None or status.outcome() is Outcome.OK:
                    status.since_seconds = now
        fresh = self._take(readings, now)
        names = None if self._derived is None else self._whole_devices()
        for status in self._sources.values():
            name = status.source.name
            if name in fresh and status.outcome() is Outcome.OK:
                if status.shown is not status.value or not status.samples:
                    status.samples = status.source.samples(status.value, names)
                    status.shown = status.value
                    self._expose(status)
                self.publish(name, status.source.families, status.samples, now)
            elif status.samples and not status.held(now):
                status.samples = []
                self.publish(name, status.source.families, (), now)
                self._chunks.pop("node_" + name, None)
        self.publish(
            "devices", device_identity.FAMILIES, device_identity.samples(self._devices), now
        )
        told = self._step_signals(fresh, now, uptime_seconds, asleep_seconds)
        if now - self._refreshed >= REFRESH_SECONDS:
            self._refreshed = now
            for name, status in self._sources.items():
                if name not in fresh and status.samples:
                    self._feed(name, status.samples, now)
            if self._tail_ends and now - self._tail_ends[1] > HELD_PERIODS * REFRESH_SECONDS:
                self._store.end_older(self._tail_ends[0], now)
                self._tail_ends = None
            for name in self._slow - told:  # stepped more seldom than a rule looks back, perhaps
                if self._signal_samples[name]:
                    self._feed("signal_" + name, self._signal_samples[name], now)
        self._publish_status(fresh, now)

    def _take(self, readings: Iterable[Reading[Any]], now: float) -> set[str]:
        """Keep what the sources said; return which did."""
        fresh: set[str] = set()
        for reading in readings:
            status = self._sources[reading.source]
            status.reading = reading
            fresh.add(reading.source)
            if (value := reading.value) is not None:
                if reading.source == "mounts":
                    self._remember_unmounted(value)
                if reading.source in _SOON and status.value not in (None, value):
                    for number, group in enumerate(self._groups):
                        if group.name == _SOON[reading.source]:
                            self._due[number] = now
                if reading.source == "scsi":
                    self._hosts |= scsi.host_names(value.hosts)
                    self._fabrics = scsi.fabrics(value)
                status.value = value
                status.good_seconds = status.since_seconds = now
        block = self._sources.get("block")
        if "block" in fresh and block is not None and block.outcome() is Outcome.OK:
            self._look_at_devices(block.value, now)  # what is mounted was read before
        return fresh

    def _step_signals(
        self, fresh: set[str], now: float, uptime_seconds: float, asleep_seconds: float
    ) -> set[str]:
        """Step the signals; return the groups that told something."""
        values: dict[str, Any] = {}
        good: set[str] = set()
        failed: set[str] = set()
        for name, status in self._sources.items():
            slow = status.source.period_seconds > GAP_SECONDS
            read = name in fresh and status.outcome() is Outcome.OK
            if read:
                good.add(name)
            # A second-by-second history is made of what was read in this tick, nothing else.
            if status.value is not None and (read or (slow and status.held(now))):
                values[name] = status.value
            if status.silent() and not (slow and status.held(now)):
                failed.add(name)
        inputs = Inputs(
            now,
            uptime_seconds,
            Snapshot(**{name: values[name] for name in SOURCES if name in values}),
            frozenset(good),
            frozenset(failed),
            asleep_seconds,
            self.errors_logged,
        )
        derived = self._derived if "block" in values else None
        self._signal_state, result = signals.step(self._signal_state, inputs, derived, self._slow)
        # A source that is silent says so itself; this is about signals that need more than sources.
        self._blind = (self._blind - result.keys()) | {
            group.name
            for group in signals.GROUPS
            if group.name not in result and good.issuperset(self._paced_by(group.name))
        }
        for group in signals.GROUPS:
            samples = result.get(group.name)
            if samples is not None:
                self._signal_seconds[group.name] = now
            elif now - self._signal_seconds[group.name] > HELD_PERIODS * self._pace(group.name):
                samples = []
            if samples is not None and (samples or self._signal_samples[group.name]):
                self._signal_samples[group.name] = samples
                self.publish("signal_" + group.name, group.families, samples, now)
        return set(result)

    def _paced_by(self, group: str) -> list[str]:
        """Return the sources that say when a group can be stepped: the fast ones, if it has any."""
        present = [name for name in self._group_sources[group] if name in self._sources]
        fast = [n for n in present if self._sources[n].source.period_seconds <= GAP_SECONDS]
        return fast or present

    def _pace(self, group: str) -> float:
        """Return how often a group of signals can be stepped at best, in seconds."""
        periods = [self._sources[name].source.period_seconds for name in self._paced_by(group)]
        return max(periods, default=1.0)

    def _look_at_devices(self, topology: Topology, now: float) -> None:
        """Take a new look at '/sys/block': which disks came and went since the last one."""
        mounted = self.mounts()
        topology = device_identity.with_sources(topology, mounted)
        before = self._derived.topology if self._derived is not None else None
        if topology == before:  # what was concluded from it holds
            topology = before
            if self._devices.gone or self._devices.returned:  # of these some may be old by now
                self._devices = device_identity.step(self._devices, (), topology, now)
        else:
            events = []
            if before is not None:
                found = device_identity.changes(before, topology, (*mounted, *self._unmounted))
                events = [
                    with_held(self._standing, before, each, now)
                    for each in device_identity.recognised(self._devices, found)
                ]
            self._device_events += events
            self._devices = device_identity.step(
                self._devices, events, topology, now, self._looked_seconds
            )
            self._derived = signals.derive(topology)
        self._unmounted, self._looked_seconds = (), now
        if self._looked_at != (topology, mounted):
            self._standing = remember(self._standing, topology, mounted, now)
            self._looked_at = topology, mounted
        else:
            self._standing = without_old(self._standing, now)

    def _remember_unmounted(self, after: Mounts) -> None:
        """Keep until the next look at the devices what was unmounted and should be mounted.

        Of a disk that vanishes, systemd unmounts what '/etc/fstab' has; an administrator unmounts
        a backup disk before it is switched off.
        """
        points = {mount.mount_point for mount in after.mounts}
        self._unmounted += tuple(
            mount
            for mount in self.mounts()
            if mount.mount_point not in points
            and "noauto" not in (after.wanted or {}).get(mount.mount_point, ("noauto",))
        )

    def mounts(self) -> tuple[Mount, ...]:
        """Return what was last seen mounted."""
        status = self._sources.get("mounts")
        return () if status is None or status.value is None else tuple(status.value.mounts)

    def standing(self) -> Standing:
        """Return what stands on what, and stood there until lately."""
        return self._standing

    def waiting(self, now: float) -> Tasks | None:
        """Return which tasks wait, or None when nobody knows by now."""
        status = self._sources.get("tasks")
        if status is None or status.outcome() is not Outcome.OK or not status.held(now):
            return None
        tasks: Tasks = status.value
        return tasks

    def device_events(self) -> list[device_identity.Event]:
        """Return what became of disks since the last call."""
        events, self._device_events = self._device_events, []
        return events

    def _present(self, subject: str) -> bool:
        topology = self._topology()
        return (
            topology is None
            or any(
                device_identity.identity(topology, name).key == subject for name in topology.leaves
            )
            or self.coverage().present(subject)
        )

    def coverage(self) -> disk_cover.State:
        """Return what is known of which disks there are and which are read."""
        return disk_cover.GROUP.state(self._signal_state.groups)

    def forget_disk(self, disk: str) -> None:
        """Take a disk that is missed, by its label, as taken out."""
        state = self.coverage()
        groups = {**self._signal_state.groups, "disk_cover": disk_cover.forget(state, disk)}
        self._signal_state = replace(self._signal_state, groups=groups)
        missed = self._devices.gone
        found = {**inventory.vanished(missed), **state.covered}.get(disk)
        own = "" if found is None else found.identity.key
        gone = {key: each for key, each in missed.items() if key != own}
        self._devices = replace(self._devices, gone=gone)
        self._taken_out |= {own} - {""}

    def places(self) -> event_location.Map:
        """Return what is known of where things are."""
        md, controllers = self._sources.get("md"), self._sources.get("controllers")
        return event_location.Map(
            topology=self._topology(),
            devices=self._devices,
            covered=self.coverage().covered,
            controllers=controllers.value.controllers if controllers and controllers.value else (),
            slots=self.slots,
            arrays=md.value if md and md.value else {},
            hosts=self._hosts,
            fabrics=self._fabrics,
            standing=self._standing,
        )

    def _behind(self, labels: Labels) -> device_identity.Identity | None:
        """Return which disk or array behind a controller an alert is about, or the controller."""
        own = dict(labels)
        where = own.get("slot") or own.get("array") or ""
        return event_location.at_controller(own["controller"], where, self.places()).identity

    def _topology(self) -> Topology | None:
        return None if self._derived is None else self._derived.topology

    def _whole_devices(self) -> frozenset[str]:
        topology = self._sources["block"].value
        return frozenset(topology.devices)

    def publish(
        self, name: str, families: Sequence[Family], samples: Sequence[Sample], now: float
    ) -> None:
        """Take series of this name for '/metrics' and for the rules.

        The engine's own go this way, and what the program says of itself.
        """
        self._feed(name, samples, now)
        before = self._chunks.get(name)
        if before is not None and self._published.get(name) is samples:
            return  # a slow reducer says the same
        self._published[name] = samples
        by_name: dict[str, list[Sample]] = {family.name: [] for family in families}
        for sample in samples:
            by_name[sample[0]].append(sample)
        content = tuple((family, tuple(by_name[family.name])) for family in families)
        if before is None or before.families != content:
            version = 1 if before is None else before.version + 1
            self._chunks[name] = Chunk(name, version, content)
            self._newest.clear()

    def _feed(self, name: str, samples: Iterable[Sample], now: float) -> None:
        """Write the samples some rule may read; what has vanished gets a stale marker."""
        status = self._sources.get(name)
        wanted = [s for s in samples if self._reads_any or s[0] in self._wanted]
        if status is not None and status.samples and status.source.node is not None:
            prefixes = status.source.node_prefixes
            if self._reads_any or any(n.startswith(prefixes) for n in self._wanted):
                others = [
                    s
                    for s in status.source.node(status.value)
                    if self._reads_any or s[0] in self._wanted
                ]
                wanted += scrape_labels.labelled(others, self._targets)
        if not wanted and name not in self._live:
            return
        live = {(s[0], s[1]) for s in wanted}
        for metric, labels in self._live.get(name, set()) - live:
            self._store.mark_stale(metric, labels, now)
        self._live[name] = live
        self._store.append_many(now, wanted)

    def _expose(self, status: SourceStatus) -> None:
        """Show a value as another exporter's series, if that is asked for."""
        if status.source.node is None or status.source.name not in self._exposed:
            return
        key = "node_" + status.source.name
        before = self._chunks.get(key)
        version = 1 if before is None else before.version + 1
        samples = status.source.node(status.value)
        self._chunks[key] = node_series.chunk(status.source.name, samples, version)
        self._newest.clear()

    def _publish_status(self, fresh: Container[str], now: float) -> None:
        samples: list[Sample] = []
        for name, status in self._sources.items():
            labels = (("collector", name),)
            if status.reading is not None:
                if name in fresh:
                    self._outcomes[name] = _outcome_samples(status.reading)
                samples += self._outcomes[name]
            if status.good_seconds is not None:
                age = now - status.good_seconds
                samples.append(("iowarden_collector_age_seconds", labels, age))
            lost = status.silent() and not status.held(now)
            silent = now - status.since_seconds if lost and status.since_seconds else 0.0
            samples.append(("iowarden_collector_silent_seconds", labels, silent))
        self.publish("collectors", COLLECTOR_FAMILIES, samples, now)
        self._feed("up", scrape_labels.up(self._targets), now)

    # --- evaluation

    def evaluate(self, now: float) -> list[life.Transition]:
        """Evaluate the rule groups that are due; return the alerts that changed their state."""
        changes: list[life.Transition] = []
        first = 0
        evaluated = False
        self._budget = Budget()
        if self._restored:
            self._restored = False
            self._feed_alerts(now)
        for number, group in enumerate(self._groups):
            indices = range(first, first + len(group.rules))
            first += len(group.rules)
            if now < self._due[number] - GRACE_SECONDS:
                continue
            evaluated = True
            interval = group.interval_seconds or self._default_interval
            self._due[number] = max(self._due[number] + interval, now + interval / 2)
            for index in indices:
                before = self._states(index)
                changes += self._evaluate_rule(index, now)
                if self._states(index) != before:
                    self._feed_alerts(now)
        if evaluated:
            changes += self._settle_orphans(now)
            self._publish_alerts(now)
        return changes

    def _states(self, index: int) -> dict[Labels, life.State]:
        """Return what ALERTS says of a rule, if some rule asks."""
        alerts = self._alerts.get(index, {}) if self._reads_alerts else {}
        return {key: alert.state for key, alert in alerts.items()}

    def _feed_alerts(self, now: float) -> None:
        """Let rules see what became of alerts, also those that come later in the same round.

        On '/metrics' they would meet those of the Prometheus that scrapes it.
        Source: Prometheus, rules/group.go: what a rule gave is appended before the next is asked.
        """
        self._feed("ALERTS", life.series(self.alerts()), now)

    def _evaluate_rule(self, index: int, now: float) -> list[life.Transition]:
        rule = self._rules[index]
        silent = [s for s in self._rule_sources[index] if self._sources[s].silent()]
        blind = self._rule_signals[index] & self._blind
        # Without an alert to protect, what cannot be told is just absent.
        blind = (
            blind if any(a.active for a in self._alerts.get(index, {}).values()) else frozenset()
        )
        if silent or blind:
            return self._silence(index, silent, blind, now) if isinstance(rule, Rule) else []
        if now < self._put_off.get(index, now):
            return []
        before = self._budget.left
        try:
            results = rule.expression.evaluate(
                self._store, now, step_seconds=self._steps[index], budget=self._budget
            )
            # As Prometheus: a scalar is a sample without labels.
            samples = results if isinstance(results, list) else [evaluator.Sample("", (), results)]
            if isinstance(rule, RecordingRule):
                _within(self._limits[index], len(samples), "series")
                self._record(index, rule, samples, now)
                self._solved(rule.record)
                return []
            found = life.matched(rule, samples, lambda text: self.query(text, now, self._budget))
            _within(self._limits[index], len(found), "alerts")
        except (EvaluationError, life.DuplicateAlertError) as error:
            spent = before - self._budget.left
            if isinstance(error, TooExpensiveError) and spent > EXPENSIVE_WORK:
                self._put_off[index] = now + EXPENSIVE_SECONDS
            name = rule.alert if isinstance(rule, Rule) else rule.record
            self._failures[name] = self._failures.get(name, 0) + 1
            self._problems[name] = str(error)
            return []
        self._solved(rule.alert)
        changes = self._part_with_others(index, now)
        gone, more = self._split_gone(index, found.keys(), now)
        present = {k: alert for k, alert in self._alerts[index].items() if k not in gone}
        if index in self._doubtful and self._unwatched(index, now):
            rule = replace(rule, for_seconds=math.inf)  # pending, until the window says something
        stepped, further = life.step(rule, present, found, now)
        active = {key: alert for key, alert in gone.items() if alert.active}
        self._alerts[index] = {**active, **stepped}
        return [*changes, *more, *self._named(index, further)]

    def _named(self, index: int, changes: Iterable[life.Transition]) -> Iterable[life.Transition]:
        """Give alerts that begin the subject they keep as long as they live."""
        for change in changes:
            alert = change.alert
            if change.before is not life.State.INACTIVE or alert.subject:
                yield change
                continue
            own = device_identity.subject(
                self._topology(),
                self._devices,
                alert.labels,
                self.coverage().identity,
                self._behind,
            )
            alert = replace(alert, subject=own.key, object=own.object, adapter=own.adapter)
            self._alerts[index][alert.labels] = alert
            yield replace(change, alert=alert)

    def _part_with_others(self, index: int, now: float) -> list[life.Transition]:
        """Set the active alerts aside that are about a disk which has lost its name."""
        changes: list[life.Transition] = []
        for key, alert in list(self._alerts[index].items()):
            # What is told by a disk's own label is about the same disk whatever its name is; what a
            # controller tells of a place is over when that is in order, whichever disk is there.
            if not alert.active or not alert.subject.startswith("disk ") or alert.label("disk"):
                continue
            if device_identity.by_place(key):
                continue
            own = device_identity.subject(self._topology(), self._devices, key)
            replaced = own.key.startswith("disk ")
            if own.key == alert.subject or not (replaced or self._present(alert.subject)):
                continue
            what = f"is gone; {own.object} has its name" if replaced else "has another name now"
            after = life.silence(alert, f"{alert.object} {what}", now)
            del self._alerts[index][key]
            self._orphans[after.key] = after
            if after is not alert:
                changes.append(life.Transition(after, alert.state))
        return changes

    def _settle_orphans(self, now: float) -> list[life.Transition]:
        """End the alerts of disks that came back, under whichever name, or are forgotten."""
        changes: list[life.Transition] = []
        known = self._topology() is not None
        self._taken_out = {own for own in self._taken_out if not self._present(own)}
        for key, alert in list(self._orphans.items()):
            if alert.state is life.State.RESOLVED:  # the incidents have seen it by now
                del self._orphans[key]
                continue
            index = self._rule_of(alert)
            since = alert.unknown_seconds if alert.unknown_seconds is not None else now
            ended = index is None or alert.subject in self._taken_out
            if ended or now - since > FORGOTTEN_SECONDS:
                after = replace(alert, state=life.State.INACTIVE, resolved_seconds=now)
            elif known and self._present(alert.subject):
                # It is judged under its new name from here on.
                after = replace(alert, state=life.State.RESOLVED, resolved_seconds=now)
            else:
                continue
            del self._orphans[key]
            if after.state is life.State.RESOLVED:
                self._orphans[key] = after
            changes.append(life.Transition(after, alert.state))
        return changes

    def _silence(
        self, index: int, silent: Sequence[str], blind: frozenset[str], now: float
    ) -> list[life.Transition]:
        """Make the rule's firing alerts unknown once their sources were silent for too long."""
        status = [self._sources[name] for name in silent]
        lost = [
            f"{s.source.name} {s.outcome() or 'not read yet'}"
            + (f": {s.reading.error}" if s.reading is not None and s.reading.error else "")
            for s in status
            if not s.held(now)
        ]
        lost += [
            f"the signals '{name}' cannot be told yet from what was seen since the start"
            for name in sorted(blind)
            if not silent and now - self._signal_seconds[name] > HELD_PERIODS * self._pace(name)
        ]
        if not lost:
            return []
        reason = "; ".join(lost)
        changes = []
        for key, alert in self._alerts[index].items():
            after = life.silence(alert, reason, now)
            if after is not alert:
                self._alerts[index][key] = after
                changes.append(life.Transition(after, alert.state))
        return changes

    def _split_gone(
        self, index: int, found: Container[Labels], now: float
    ) -> tuple[life.Alerts, list[life.Transition]]:
        """Return the active alerts of what is no longer listed or could not be read.

        Nobody can say that it is well.
        """
        gone: life.Alerts = {}
        changes: list[life.Transition] = []
        for key, alert in self._alerts[index].items():
            if not alert.active or key in found:
                continue
            reason = self._out_of_sight(index, key)
            if reason == "":
                if now - self._began_seconds <= FIRST_SECONDS:
                    gone[key] = alert
                    continue
                reason = "nobody has looked at it since the start"
            elif reason is None:
                since, reason = self._unseen(index, alert, now)
                if not reason:
                    continue
                if now - since <= HELD_PERIODS * REFRESH_SECONDS:
                    gone[key] = alert
                    continue
            after = life.silence(alert, reason, now)
            if after.unknown_seconds is not None and (
                now - after.unknown_seconds > FORGOTTEN_SECONDS or alert.subject in self._taken_out
            ):
                ended = replace(after, state=life.State.INACTIVE, resolved_seconds=now)
                changes.append(life.Transition(ended, after.state))
                gone[key] = ended
                continue
            if after is not alert:
                changes.append(life.Transition(after, alert.state))
            gone[key] = after
        return gone, changes

    def _unseen(self, index: int, alert: life.Alert, now: float) -> tuple[float, str]:
        """Return since when and why a rule sees less than when the alert began, or ''.

        What it compares was forgotten with a restart: that it finds nothing says nothing.
        """
        for name, seconds in self._windows[index].items():
            since = self._watched.window(name, seconds, now)
            if alert.active_seconds < since and now - since < seconds:
                return since, (
                    f"its rule looks back {seconds:.0f} s,"
                    f" and '{name or 'what it reads'}' was seen for {now - since:.0f} s"
                )
        return now, ""

    def _unwatched(self, index: int, now: float) -> bool:
        """Say whether nobody watched for as long as a rule looks back."""
        return any(
            now - self._watched.window(name, seconds, now) < seconds
            for name, seconds in self._windows[index].items()
        )

    def _doubtful_rules(self) -> frozenset[int]:
        """Return the rules that could be true only because nobody watched for long enough."""
        records: dict[str, list[RecordingRule]] = {}
        for rule in self._rules:
            if isinstance(rule, RecordingRule):
                records.setdefault(rule.record, []).append(rule)
        known: dict[str, Drift] = {}

        def recorded(name: str) -> Drift:
            if name not in known:
                known[name] = STEADY  # what reads itself is told by the rest of it
                for rule in records.get(name, ()):
                    known[name] |= drift(parse(rule.expression.text), recorded)
            return known[name]

        return frozenset(
            index
            for index, rule in enumerate(self._rules)
            if self._windows[index] and drift(parse(rule.expression.text), recorded).vanishes
        )

    def _windows_of(self, expression: evaluator.Expression) -> dict[str, float]:
        """Return how far an expression looks back, behind recording rules, by metric."""
        windows: dict[str, float] = {}
        todo, seen = [expression], set[str]()
        while todo:
            one = todo.pop()
            for name, seconds in (*one.retention_seconds.items(), ("", one.any_retention_seconds)):
                if seconds:
                    windows[name] = max(seconds - LOOKBACK_SECONDS, windows.get(name, 0.0))
            todo += [
                rule.expression
                for rule in self._rules
                if isinstance(rule, RecordingRule) and rule.record in one.names - seen
            ]
            seen |= one.names
        return windows

    def _out_of_sight(self, index: int, labels: Labels) -> str | None:
        """Return why nobody can say by a rule how the object of these labels is; None: one can.

        '': it was not looked at yet.
        """
        own, sources = dict(labels), self._rule_sources[index]
        for status in self._sources.values():
            if status.source.lists is None or status.value is None:
                continue
            label, listed = status.source.lists
            known = own.get(label, "")
            # node_exporter's label 'device' of a file system is a path, and no name of a device.
            if not known or known.startswith("/") != (label == "mountpoint"):
                continue
            named = any(label in self._sources[name].source.objects for name in sources)
            if named and known not in listed(status.value):
                return f"{label} '{known}' is no longer listed by the kernel"
        unread = [
            status.source.unread(status.value)
            for status in map(self._sources.__getitem__, sources)
            if status.source.unread is not None and status.value is not None
        ]
        unread += [
            group.unread(group.state(self._signal_state.groups))
            for group in signals.GROUPS
            if group.unread is not None and group.name in self._rule_signals[index]
        ]
        for part, reason in itertools.chain.from_iterable(unread):
            if all(own.get(label) == text for label, text in part):
                return reason
        return None

    def _record(
        self, index: int, rule: RecordingRule, samples: Sequence[evaluator.Sample], now: float
    ) -> None:
        extra = dict(rule.labels)
        fed = [
            (rule.record, tuple(sorted({**dict(s.labels), **extra}.items())), s.value)
            for s in samples
        ]
        key = f"rule_{index}"
        live = {(name, labels) for name, labels, _ in fed}
        for name, labels in self._live.get(key, set()) - live:
            self._store.mark_stale(name, labels, now)
        self._live[key] = live
        self._store.append_many(now, fed)

    def _solved(self, name: str) -> None:
        self._problems.pop(name, None)

    def problems(self) -> list[Problem]:
        """Return the rules whose last evaluation ended in an error."""
        return [Problem(rule, text) for rule, text in self._problems.items()]

    def query(self, text: str, now: float, budget: Budget | None = None) -> list[evaluator.Sample]:
        """Return what an expression gives now; used by templates and evidence.

        Errors: PromqlError, EvaluationError.
        """
        expression = self._queries.get(text)
        if expression is None:
            if len(self._queries) >= MOST_QUERIES:  # templates put device names into them
                self._queries.clear()
            expression = self._queries[text] = compile_expression(text)
        self._check_history(expression)
        store = self._store
        if not self._reads_any and not expression.names <= self._wanted:
            # No rule reads all of it, so the store does not have it: what was said last will do.
            store = Store()
            for name in expression.names:
                if name in self._wanted:
                    store.share(self._store, name)
                else:
                    store.append_many(now, self._last(name))
        results = expression.evaluate(store, now, budget=budget)
        return results if isinstance(results, list) else []

    def _check_history(self, expression: evaluator.Expression) -> None:
        """Refuse what asks for more history than is kept, instead of an answer from less of it.

        Errors: EvaluationError.
        """
        for name, needed in expression.retention_seconds.items():
            kept = self._store.retention_seconds(name)
            if needed > kept:
                raise EvaluationError(
                    f"expected {needed:.0f} s of history of '{name}', kept are {kept:.0f} s:"
                    " history is kept as long as a loaded rule asks; record or alert on this range"
                )
        if expression.any_retention_seconds > self._store.retention_seconds(""):
            raise EvaluationError("expected a metric's name: history is kept by name")

    def look(
        self, text: str, now: float, budget: Budget | None = None
    ) -> list[evaluator.Sample] | float:
        """Return what an expression gives now, of all there is: what a person asks.

        Other exporters' series are among it, shown or not. Errors: PromqlError, EvaluationError.
        """
        expression = compile_expression(text)
        self._check_history(expression)
        if expression.names <= self._wanted and not expression.reads_any:
            return expression.evaluate(self._store, now, budget=budget)
        store = Store()
        for chunk in self._chunks.values():
            for family, samples in chunk.families if not chunk.name.startswith("node_") else ():
                if expression.reads_any or family.name in expression.names:
                    store.append_many(now, samples)
        store.append_many(now, scrape_labels.up(self._targets))
        for status in self._sources.values():
            source = status.source
            if source.node is None or not status.samples:
                continue
            if expression.reads_any or any(
                n.startswith(source.node_prefixes) for n in expression.names
            ):
                store.append_many(
                    now, scrape_labels.labelled(source.node(status.value), self._targets)
                )
        store.append_many(now, life.series(self.alerts()))
        for name in self._store.names() if expression.reads_any else expression.names:
            if name in self._wanted or self._reads_any:
                store.share(self._store, name)
        return expression.evaluate(store, now, budget=budget)

    def _last(self, name: str) -> list[Sample]:
        """Return the newest samples of a metric, as '/metrics' shows them."""
        return [
            sample
            for chunk in self._chunks.values()
            for family, samples in chunk.families
            if family.name == name
            for sample in samples
        ]

    def _publish_alerts(self, now: float) -> None:
        samples: list[Sample] = []
        recent: dict[Labels, float] = {}
        states: dict[Labels, None] = {}  # two disks that had one name may have equal labels
        for alert in self.alerts():
            if alert.state is not life.State.RESOLVED:
                own = scrape_labels.without(life.with_state(alert, alert.state), self._targets)
                states[own] = None
            if alert.recent_firings:
                own = scrape_labels.without(alert.labels, self._targets)
                recent[own] = float(len(alert.recent_firings))
        samples += [("iowarden_alerts", labels, 1.0) for labels in states]
        samples += [(RECENT, labels, count) for labels, count in recent.items()]
        self.publish("alerts", ALERT_FAMILIES, samples, now)
        self._feed_alerts(now)
        failures = [(name, float(self._failures.get(name, 0))) for name in self._rule_names]
        self.publish(
            "rules",
            RULE_FAMILIES,
            [
                ("iowarden_rules", (), float(len(self._rules))),
                *(
                    ("iowarden_rule_evaluation_failures_total", (("rule", name),), count)
                    for name, count in failures
                ),
                *(
                    ("iowarden_rule_failing", (("rule", name),), float(name in self._problems))
                    for name, _ in failures
                ),
            ],
            now,
        )

    # --- what survives a restart

    def _begin(self, now: float) -> None:
        """Count what is watched from the first look on, not from when a rule was loaded."""
        if self._observed_seconds is None and self._tail_ends is None:
            self._watched = Watched(dict.fromkeys(self._watched.since, now))

    def tail(self, since: float, until: float) -> list[Row]:
        """Return the samples that rules will look back on, after one time and up to another."""
        return self._store.tail(since, until)

    def retention_seconds(self) -> Mapping[str, float]:
        """Return how long samples are kept of each metric that rules look back on; '' is any."""
        return self._store.retention

    def watched(self) -> Watched:
        """Return since when it is known what rules look back on."""
        until = self._observed_seconds or 0.0
        since = {
            name: max(at, until - self._store.retention_seconds(name))
            for name, at in self._watched.since.items()
        }
        return replace(self._watched, since=since, until_seconds=until)

    def restore_tail(self, rows: Sequence[Row], before: Watched | None, now: float) -> None:
        """Take back what `tail` and `watched` returned before a restart; None: nobody knows."""
        self._begin(now)
        self._store.restore(rows)
        self._tail_ends = max((times[-1] for _, _, times, _ in rows if times), default=now), now
        if before is not None:
            began = min(self._watched.since.values(), default=now)
            longest = max(self._store.retention.values())
            self._watched = resumed(self._watched, before, began, longest)

    # --- what others ask

    def chunks(self) -> tuple[Chunk, ...]:
        """Return everything for '/metrics'."""
        return tuple(self._chunks.values())

    def status(self, source: str) -> SourceStatus | None:
        """Return what is known of a source, or None when there is no such source."""
        return self._sources.get(source)

    def statuses(self) -> tuple[SourceStatus, ...]:
        """Return what is known of every source."""
        return tuple(self._sources.values())

    def remember(self) -> signals.Memory:
        """Return what the signals keep over a restart."""
        return signals.remember(self._signal_state)

    def stood(self, now: float) -> Stood:
        """Return what stands on what, to be kept over a restart."""
        return kept(self._standing, now) if self._stood is None else self._stood

    def known_devices(self) -> device_identity.Devices:
        """Return what is known of the disks over time, to be kept over a restart."""
        return self._devices

    def taking_back(self, back: device_identity.Returned, facts: Facts) -> tuple[str, ...]:
        """Return what takes a disk back into what lost it; () where nothing is left to do.

        Not where the disk is offline, has failed or cannot read, by these facts.
        """
        known = self.places()
        if known.topology is None:
            return ()
        steps = returned.advice(back, known.topology, known.arrays)
        if steps and facts.is_unfit(back.name):
            return (f"Do not take /dev/{back.name} back: it is offline, failed or cannot read.",)
        return steps

    def recall(
        self, memory: signals.Memory, known: device_identity.Devices, stood: Stood | None = None
    ) -> None:
        """Give back what `remember`, `known_devices` and `stood` returned before a restart."""
        self._stood = stood
        self._signal_state = signals.recall(self._signal_state, memory)
        topology = self._topology()
        self._devices = (
            known if topology is None else device_identity.step(known, (), topology, 0.0)
        )

    def judged(self, labels: Labels, subject: str) -> bool:
        """Say whether an alert of these labels about this subject would be seen if it fired now.

        Not while a source of its rule is silent, or what it is about is not there.
        """
        about_disk = subject.startswith("disk ") or any(name == "object" for name, _ in labels)
        if about_disk and not device_identity.by_place(labels) and not self._present(subject):
            return False
        if subject.startswith("disk "):  # it is there, perhaps by another name
            labels = tuple(pair for pair in labels if pair[0] != "device")
        known = False
        before = life.severity(dict(labels).get("severity", ""))
        for index, rule in enumerate(self._rules):
            if isinstance(rule, Rule) and ("alertname", rule.alert) in labels:
                own = _severity(rule)
                # One that was made less severe would not be told if it fired.
                known = known or own is None or life.severity(own) >= before
                sources = self._rule_sources[index]
                if any(self._sources[name].silent() for name in sources):
                    return False
                if self._out_of_sight(index, labels) is not None:
                    return False
        return known  # of a rule that is loaded no more, nobody can say

    def current(self, alert: life.Alert) -> list[Sample]:
        """Return what the alert's annotation 'evidence' names, else what its rule reads, now.

        It names metrics, or selectors without blanks and commas: 'x{id=~"5|197"}'. Of a metric with
        a label that the alert has (a device, a host adapter) only the alert's own.
        """
        rule = next(
            (
                rule
                for i, alerts in self._alerts.items()
                if isinstance(rule := self._rules[i], Rule)
                and rule.alert == alert.name
                and alert.labels in alerts
            ),
            None,
        )
        if rule is None and not alert.count:
            return []
        own = dict(alert.labels)
        named = alert.annotation("evidence").replace(",", " ").split()
        return [
            sample
            for name in named or (sorted(self._plain_names(rule.expression)) if rule else ())
            for sample in self._selected(name, own.get("device"))
            if all(own.get(label, text) == text for label, text in sample[1])
        ]

    def _selected(self, text: str, device: str | None) -> list[Sample]:
        """Return the newest samples of a selector, of another device none.

        A rule of a user may say anything.
        """
        found = self._newest.get(text)
        if found is None:  # a thousand disks may fail at once
            found = self._newest[text] = {}
            for sample in self._matching(text):
                found.setdefault(dict(sample[1]).get("device"), []).append(sample)
        if device is None:
            return [sample for samples in found.values() for sample in samples]
        return [*found.get(None, ()), *found.get(device, ())]

    def _matching(self, text: str) -> list[Sample]:
        try:
            selector = parse(text)
        except PromqlError:
            return []
        if not isinstance(selector, Selector):
            return []
        selects = selectors.selects(selector)
        return [sample for sample in self._last(selector.name) if selects(sample[1])]

    def _plain_names(self, expression: evaluator.Expression) -> set[str]:
        """Return the metrics an expression reads, behind recording rules, without alerts'."""
        names: set[str] = set()
        todo, seen = set(expression.names), {RECENT}
        while todo:
            name = todo.pop()
            seen.add(name)
            records = [r for r in self._rules if isinstance(r, RecordingRule) and r.record == name]
            if not records and name != RECENT:
                names.add(name)
            for record in records:
                todo |= record.expression.names - seen
        return names

    def _owned(self) -> Callable[[str], frozenset[str]]:
        owners: dict[str, frozenset[str]] = {}
        for status in self._sources.values():
            for family in status.source.families:
                owners[family.name] = frozenset({status.source.name})
        for group in signals.GROUPS:
            present = frozenset(group.sources) & self._sources.keys()
            for family in group.families:
                owners[family.name] = present
        prefixes = [
            (prefix, frozenset({s.source.name}))
            for s in self._sources.values()
            for prefix in s.source.node_prefixes
        ]

        def sources(name: str) -> frozenset[str]:
            if name in owners:
                return owners[name]
            return next((own for prefix, own in prefixes if name.startswith(prefix)), frozenset())

        return sources

    def _signals_of(self, expression: evaluator.Expression) -> frozenset[str]:
        names = self._plain_names(expression)
        return frozenset(
            group.name
            for group in signals.GROUPS
            if any(family.name in names for family in group.families)
        )

    def _sources_of(self, expression: evaluator.Expression) -> frozenset[str]:
        return frozenset(
            source for name in self._plain_names(expression) for source in self._owners(name)
        )


def _within(limit: int, found: int, what: str) -> None:
    """Source: Prometheus, the field 'limit' of a group; 0 is none. Errors: EvaluationError."""
    if limit and found > limit:
        raise EvaluationError(f"exceeded limit of {limit} with {found} {what}")


def _same_rule(rule: Rule, alert: life.Alert) -> bool:
    """Whether an alert belongs to this rule of its name: their severities tell two apart."""
    severity = _severity(rule)
    return severity is None or severity == alert.label("severity")


def _severity(rule: Rule) -> str | None:
    """Return the severity that a rule gives its alerts; None: their series bring one, or none."""
    severity = next((t for name, t in rule.labels if name == "severity"), None)
    return None if severity is None else severity.render({}, 0.0, None)


def _outcome_samples(reading: Reading[object]) -> list[Sample]:
    own = ("collector", reading.source)
    return [
        ("iowarden_collector_duration_seconds", (own,), reading.duration_seconds),
        *(
            (
                "iowarden_collector_outcome",
                (own, ("outcome", outcome.value)),
                float(reading.outcome is outcome),
            )
            for outcome in Outcome
        ),
    ]
