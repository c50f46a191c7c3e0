"""Runs the signal groups of one host: which can be stepped now, and their last samples. Pure.

Units: seconds of the program's clock (Unix time that never jumps).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from iowarden.collectors.model import Labels, Outcome, Sample
from iowarden.rules.engine.source_status import VALID_PERIODS
from iowarden.rules.signals import table as signals
from iowarden.rules.signals.raid import md_state, redundancy
from iowarden.rules.signals.signal import GAP_SECONDS, Derived, Inputs
from iowarden.rules.signals.smart import disk_monitoring
from iowarden.rules.signals.waits import group as waits
from iowarden.rules.signals.waits import guard_facts, unrequested_reads
from iowarden.rules.snapshot import SOURCES, Snapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterator, Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.rules.engine.source_status import SourceStatus
    from iowarden.rules.signals.waits.group import HarmState
    from iowarden.rules.signals.waits.guard_facts import GuardState
    from iowarden.rules.signals.waits.unrequested_reads import UnrequestedReads
    from iowarden.rules.topology.survival import Redundancy


class SignalGroups:
    """The states of the groups, and the samples that are valid."""

    def __init__(self, sources: Mapping[str, SourceStatus[Any]], now: float) -> None:
        """Start with an empty state at `now`."""
        self._sources = sources
        self._each = [
            (name, status, status.source.period_seconds > GAP_SECONDS)
            for name, status in sources.items()
        ]
        """The data sources, and whether each is polled too rarely for a history by the second."""
        self._state = signals.SignalStates()
        self._derived: Derived | None = None
        self._paced_by = {
            group.name: _pacing([sources[name] for name in group.sources if name in sources])
            for group in signals.GROUPS
        }
        self._pace = {
            name: max((each.source.period_seconds for each in found), default=1.0)
            for name, found in self._paced_by.items()
        }
        """The shortest interval between two steps of a group, in seconds."""
        self._slow = frozenset(
            group.name
            for group in signals.GROUPS
            if all(
                sources[name].source.period_seconds > GAP_SECONDS
                for name in group.sources
                if name in sources
            )
        )
        self._samples: dict[str, list[Sample]] = {g.name: [] for g in signals.GROUPS}
        self._seconds = dict.fromkeys(self._samples, now)
        self.blind: frozenset[str] = frozenset()
        """The groups that cannot be computed although all their data sources were read."""
        self.errors_logged: Mapping[str, float] = {}
        """Medium errors in logs, by disk."""
        self.file_system_errors: Mapping[str, bool] | None = None
        self.failed_paths: frozenset[str] | None = frozenset()
        """As in Inputs."""
        self.scanned: frozenset[str] = frozenset()
        """Devices that a surface scan reads now."""

    def resume(self, now: float) -> None:
        """Restart the time limits of all groups: nothing was polled meanwhile."""
        self._seconds = dict.fromkeys(self._seconds, now)

    def step(
        self,
        fresh: Container[str],
        topology: Topology | None,
        now: float,
        uptime_seconds: float,
        asleep_seconds: float,
    ) -> dict[str, list[Sample]]:
        """Step the groups; return the samples of those that have a result or became stale."""
        if topology is not None and (
            self._derived is None or self._derived.topology is not topology
        ):
            self._derived = signals.derive(topology)
        values: dict[str, Any] = {}
        good: set[str] = set()
        failed: set[str] = set()
        for name, status, slow in self._each:
            read = name in fresh and status.outcome() is Outcome.OK
            if read:
                good.add(name)
            # A second-by-second history contains only data read in this tick.
            valid = slow and status.is_valid(now)
            if (read or valid) and status.value is not None and name in SOURCES:
                values[name] = status.value
            if status.is_silent and not valid:
                failed.add(name)
        inputs = Inputs(
            now,
            uptime_seconds,
            Snapshot(**values),
            frozenset(good),
            frozenset(failed),
            asleep_seconds,
            self.errors_logged,
            scanned=self.scanned,
            file_system_errors=self.file_system_errors,
            failed_paths=self.failed_paths,
        )
        derived = self._derived if "block" in values else None
        self._state, result = signals.step_all(self._state, inputs, derived, self._slow)
        # A stale data source has a metric of its own; this is about signals that need more than
        # data.
        self.blind = (self.blind - result.keys()) | {
            group.name
            for group in signals.GROUPS
            if group.name not in result
            and all(each.source.name in good for each in self._paced_by[group.name])
        }
        told: dict[str, list[Sample]] = {}
        for group in signals.GROUPS:
            samples = result.get(group.name)
            if samples is not None:
                self._seconds[group.name] = now
            elif self.lost(group.name, now):
                samples = []
            if samples is not None and (samples or self._samples[group.name]):
                self._samples[group.name] = told[group.name] = samples
        return told

    def newest(self, name: str) -> list[Sample]:
        """Return the last samples of a group."""
        return self._samples[name]

    def harm(self) -> HarmState:
        """Return who waits for storage, and because of whom."""
        return waits.GROUP.state(self._state.groups)

    def guards(self) -> GuardState:
        """Return which facts permit stalls, by device and of the host."""
        return guard_facts.GROUP.state(self._state.groups)

    def unrequested_reads(self) -> Mapping[str, UnrequestedReads]:
        """Return what devices read that no program requested, by device with phantom reads."""
        return unrequested_reads.GROUP.state(self._state.groups).reads

    def lost(self, name: str, now: float) -> bool:
        """Whether the last samples of a group are no longer valid."""
        return now - self._seconds[name] > VALID_PERIODS * self._pace[name]

    def slow(self) -> Iterator[tuple[str, list[Sample]]]:
        """Return the samples of groups that may be stepped less often than a rule's range."""
        return ((name, self._samples[name]) for name in self._slow)

    def unreadable(self, names: Collection[str]) -> Iterator[tuple[Labels, str]]:
        """Yield the objects for which these groups have no result now: labels and a reason."""
        for group in signals.GROUPS:
            if group.unreadable is not None and group.name in names:
                yield from group.unreadable(group.state(self._state.groups))

    def redundancies(self) -> Mapping[tuple[str, str], Redundancy]:
        """Return what survives how many more disks, by technology and object."""
        return redundancy.GROUP.state(self._state.groups).by_object

    def inventory(self) -> disk_monitoring.MonitoringState:
        """Return the monitoring state of all disks."""
        return disk_monitoring.GROUP.state(self._state.groups)

    def md_checks(self) -> dict[str, float]:
        """Return when the last complete check of each md array ended, by the program's clock."""
        return md_state.complete_checks(md_state.GROUP.state(self._state.groups))

    def forget_disk(self, disk: str) -> None:
        """Mark a missing disk, given by its label, as removed on purpose."""
        after = disk_monitoring.forget(self.inventory(), disk)
        self._state = replace(self._state, groups={**self._state.groups, "disk_monitoring": after})

    def remember(self) -> signals.PersistentSignals:
        """Return what the signals store over a restart."""
        return signals.remember(self._state)

    def recall(self, memory: signals.PersistentSignals) -> None:
        """Restore what `remember` returned before a restart."""
        self._state = signals.recall(self._state, memory)


def _pacing(present: list[SourceStatus[Any]]) -> list[SourceStatus[Any]]:
    """Return the data sources that set the pace of a group: the fast ones, if it has any."""
    return [each for each in present if each.source.period_seconds <= GAP_SECONDS] or present
