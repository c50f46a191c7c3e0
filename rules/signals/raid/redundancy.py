"""How many more disks may fail, of everything that has redundancy: the one number.

An object whose number is unknown has no series. It is computed when a data source was read, and not
each second.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals.device import multipath
from iowarden.rules.signals.signal import SignalGroup
from iowarden.rules.topology import survival

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from iowarden.rules.signals.signal import View
    from iowarden.rules.snapshot import Snapshot
    from iowarden.rules.topology.survival import Redundancy

SURVIVES = "iowarden_redundancy_survives_disks"
COMPLETE = "iowarden_redundancy_complete_survives_disks"


@dataclass(frozen=True, slots=True)
class RedundancyState:
    """The data that the last numbers were computed from, and these, by technology and object."""

    inputs: tuple[Any, ...] = ()
    paths: tuple[Sample, ...] = ()
    by_object: Mapping[tuple[str, str], Redundancy] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)


def step(state: RedundancyState, view: View) -> tuple[RedundancyState, list[Sample] | None]:
    """Return the numbers of all objects, computed again if any of their data was read."""
    data, shown = view.inputs.snapshot, view.earlier.get(multipath.GROUP.name) or ()
    inputs = (
        *(data.md, data.block, data.btrfs),
        *(data.zfs_vdevs, data.controllers, data.dm_targets),
    )
    paths = tuple(sample for sample in shown if sample[0] == multipath.PATHS)
    if (
        len(state.inputs) != len(inputs)
        or any(before is not now for before, now in zip(state.inputs, inputs, strict=True))
        or paths != state.paths
    ):
        everything = {(one.technology, one.object): one for one in all_redundancies(data, paths)}
        samples = list(_samples(everything.values()))
        state = RedundancyState(inputs, paths, everything, samples)
    return state, state.samples


def all_redundancies(data: Snapshot, paths: Iterable[Sample]) -> Iterator[Redundancy]:
    """Yield everything with redundancy; `paths` are the samples of multipath.PATHS."""
    yield from survival.of_md(data.md, data.block)
    yield from survival.of_btrfs(data.btrfs)
    yield from survival.of_zfs(data.zfs_vdevs)
    yield from survival.of_controllers(data.controllers)
    yield from survival.of_targets(data.dm_targets)
    counts: dict[str, dict[str, float]] = {}
    for _, labels, value in paths:
        label = dict(labels)
        counts.setdefault(label["name"], {})[label["state"]] = value
    for map_name, states in counts.items():
        yield survival.of_map(map_name, states)


def _samples(redundancies: Iterable[Redundancy]) -> Iterator[Sample]:
    for redundancy in redundancies:
        labels = (("object", redundancy.object), ("technology", redundancy.technology))
        if redundancy.survives is not None:
            yield SURVIVES, labels, float(redundancy.survives)
        if redundancy.complete is not None:
            yield COMPLETE, labels, float(redundancy.complete)


GROUP = SignalGroup(
    name="redundancy",
    sources=("md", "block", "btrfs", "zfs_vdevs", "controllers", "dm_targets", "scsi"),
    any_source=True,
    families=(
        Family(
            SURVIVES,
            "gauge",
            "How many more disks of an array, file system, pool or volume, or paths of a map, may"
            " fail, whichever they are; no series where that is unknown.",
        ),
        Family(
            COMPLETE,
            "gauge",
            "How many disks (paths) may fail while all are working: 0 where nothing is redundant.",
        ),
    ),
    step=step,
    initial=RedundancyState(),
)
