"""The guards of every device and of the host, as one family and for 'iowarden disk show'.

What each guard is, and what it permits: rules/signals/guards.py. Nothing is computed for a device
without one.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.collectors.procfs.tasks import writeback_channel
from iowarden.rules.signals import guards
from iowarden.rules.signals.device import device, suspended
from iowarden.rules.signals.guards import HOST, MEANINGS, Guard
from iowarden.rules.signals.queue import at_limit
from iowarden.rules.signals.signal import SignalGroup
from iowarden.rules.signals.storage_call import Purpose
from iowarden.rules.signals.waits import device_facts, wait_targets
from iowarden.rules.signals.waits import group as waits
from iowarden.rules.signals.writeback import bandwidth, waiters, writeback

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.collectors.model import Labels
    from iowarden.rules.signals.discards import Discarder
    from iowarden.rules.signals.signal import View

ACTIVE = "iowarden_guard_active"


@dataclass(frozen=True, slots=True)
class GuardState:
    """The guards of this second, by device; those of the host are at HOST."""

    guards: Mapping[str, frozenset[Guard]] = field(default_factory=dict)
    rebuilding: frozenset[str] = frozenset()
    """Devices of arrays that were synchronizing when they were last read."""
    discarders: Mapping[str, Discarder] = field(default_factory=dict)
    """By device what discards, where tasks that wait for it show that."""
    samples: list[Sample] = field(default_factory=list, compare=False)

    def reasons(self, *objects: str) -> list[str]:
        """Return why these objects have guards, each reason once."""
        return list(
            dict.fromkeys(
                _reason(name, guard, self.discarders)
                for guard in Guard
                for name in objects
                if guard in self.guards.get(name, ())
            )
        )


NOTHING = GuardState()


def _reason(name: str, guard: Guard, discarders: Mapping[str, Discarder]) -> str:
    if guard is Guard.DISCARDING and name in discarders:
        return discarders[name].value
    return MEANINGS[guard].reason


def _step(state: GuardState, view: View) -> tuple[GuardState, list[Sample]]:
    syncing = state.rebuilding
    arrays = view.inputs.snapshot.md
    if arrays is not None and view.derived is not None:
        syncing = guards.rebuilding(arrays, view.derived.topology)
    watch = device.GROUP.state(view.states)
    by_object: dict[str, set[Guard]] = {name: set(active) for name, active in watch.guards.items()}
    discarders = watch.tasks.discards
    stacked = discarders.keys() - watch.device.devices.keys()
    for names, guard in (
        (stacked, Guard.DISCARDING),
        (syncing, Guard.REBUILDING),
        (view.inputs.scanned, Guard.OWN_SCAN),
        (_at_limit(view), Guard.AT_LIMIT),
    ):
        for name in names:
            by_object.setdefault(name, set()).add(guard)
    for name, guard in (*_of_tasks(view), *((HOST, guard) for guard in _of_host(view))):
        by_object.setdefault(name, set()).add(guard)
    # In nearly every second they are the same: then so are the samples.
    if by_object == state.guards and discarders == state.discarders:
        return replace(state, rebuilding=syncing), state.samples
    samples: list[Sample] = [
        (ACTIVE, (*_labels(name, guard), ("reason", _reason(name, guard, discarders))), 1.0)
        for name, active in sorted(by_object.items())
        for guard in Guard
        if guard in active
    ]
    found = {name: frozenset(active) for name, active in by_object.items()}
    return GuardState(found, syncing, discarders, samples), samples


def _labels(name: str, guard: Guard) -> Labels:
    return (("device", name), ("guard", guard.value))


def _of_host(view: View) -> Iterator[Guard]:
    yield from device_facts.of_host_and_cause(None, view)
    unwritten = writeback.seen(view)
    if unwritten is not None and unwritten.threshold_drop_ratio >= guards.LOWERED_RATIO:
        yield Guard.LIMIT_LOWERED
    if _is_writer_only(view):
        yield Guard.WRITER_ONLY


def _is_writer_only(view: View) -> bool:
    """Whether only the writers that the kernel pauses wait, and the disks make progress."""
    if not waiters.GROUP.state(view.states).is_writer_only(view.inputs.now_seconds):
        return False
    return any(
        metric == bandwidth.RATE and rate > 0
        for metric, _, rate in view.earlier.get(bandwidth.GROUP.name, ())
    )


def _at_limit(view: View) -> list[str]:
    samples = view.earlier.get(at_limit.GROUP.name, ())
    return [value for _, labels, _ in samples for _, value in labels]


def _of_tasks(view: View) -> Iterator[tuple[str, Guard]]:
    """Yield what explains waits: by device, those for something other than storage at HOST."""
    topology = None if view.derived is None else view.derived.topology
    for name in suspended.names(suspended.GROUP.state(view.states)):
        yield name, Guard.FROZEN
    harm = waits.GROUP.state(view.states)
    for name, cause in harm.causes.items():
        if name in harm.harms and Guard.FROZEN in device_facts.of_host_and_cause(cause, view):
            yield name, Guard.FROZEN
    for wait in harm.polls.waits.values():
        if wait.purpose is Purpose.ELSEWHERE:
            yield HOST, Guard.NOT_STORAGE
        elif topology is not None and writeback_channel(wait.task) == "balance_dirty_pages":
            yield wait_targets.device_of(wait.task, topology), Guard.TASK_PAUSED


GROUP: SignalGroup[GuardState] = SignalGroup(
    name="guards",
    sources=("stat",),
    families=(
        Family(
            ACTIVE,
            "gauge",
            "1 while a fact about this device, or without a device about the host, explains what"
            " would look like a fault: its stalls are permitted for longer, or it is left out."
            " 'reason' is one of few texts.",
        ),
    ),
    step=_step,
    initial=NOTHING,
)
"""Is computed in each second, whichever data are missing: what is not known is no guard."""
