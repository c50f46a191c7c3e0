"""Phantom reads: a device that is only written to reads as well.

A program that only writes, into mapped files or parts of pages, makes the kernel read what is about
to be overwritten, and read-ahead multiplies it. Source: kernel, mm/filemap.c (filemap_fault,
do_sync_mmap_readahead).
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals import activity, guards
from iowarden.rules.signals.activity import SLACK_SECONDS, STEP_SECONDS, WINDOW_SECONDS
from iowarden.rules.signals.queue import volume
from iowarden.rules.signals.signal import SignalGroup
from iowarden.rules.signals.sustained import NOTHING, Sustained

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.procfs.vmstat import Vmstat
    from iowarden.rules.signals.activity import Activity
    from iowarden.rules.signals.signal import Pairs, View

WRITTEN_BYTES_PER_SECOND = 5e6
READ_RATIO = 0.25
USUAL_READ_RATIO = 0.05
"""Write-mostly: it usually reads less than this share of what it writes."""
LEARNING_SECONDS = 24 * 3600.0
ACTIVE_SECONDS = 300.0
FAULTS_PER_SECOND = 50.0
AVAILABLE_RATIO = 0.15
MAX_DEVICES = 1024
_ROUNDED_SECONDS = 600.0
"""Stored seconds are rounded, so that they need not be written every ten seconds."""

SECONDS = "iowarden_device_phantom_reads_seconds"
SOURCES = ("diskstats", "block", "vmstat", "meminfo", "zfs_arc", "md")


@dataclass(frozen=True, slots=True)
class PhantomState:
    """State of the signal; devices by their identity."""

    sustained: Sustained = NOTHING
    usual: Mapping[str, float] = field(default_factory=dict)
    """Seconds of activity as a write-mostly device."""
    memory: tuple[tuple[float, int | None, int | None], ...] = ()
    """(time, major faults, refaults) of the last minute."""
    means: list[Sample] | None = None
    """The means last evaluated: the same list is not evaluated twice."""
    topology: Topology | None = None
    identities: Mapping[str, str] = field(default_factory=dict)
    samples: list[Sample] | None = None


def step(state: PhantomState, view: View) -> tuple[PhantomState, list[Sample] | None]:
    """Return the state after a second and the samples; None until a full minute was observed."""
    now = view.inputs.now_seconds
    vmstat = view.inputs.snapshot.vmstat
    if vmstat is None or view.inputs.snapshot.meminfo is None or view.derived is None:
        return state, None
    topology = view.derived.topology
    if topology is not state.topology:
        state = replace(state, topology=topology, identities=volume.identities(topology))
    if not state.memory or now - state.memory[-1][0] >= STEP_SECONDS - SLACK_SECONDS:
        least = now - WINDOW_SECONDS - SLACK_SECONDS
        entry = (now, vmstat.major_faults_total, vmstat.refaulted_file_pages_total)
        memory = (*(e for e in state.memory if e[0] >= least), entry)
        state = replace(state, memory=memory)
    means = view.earlier.get("activity")
    if means is None:
        held = state.sustained.lasting(ACTIVE_SECONDS)
        samples = held.samples(SECONDS, now, state.identities) or None
        return replace(state, sustained=held, means=None, samples=None), samples
    if means is state.means:
        return state, state.samples
    rebuilding = guards.rebuilding(view.inputs.snapshot.md, topology)
    devices = activity.activities(means)
    judged = {
        name: devices[name]
        for name in state.identities
        if name in devices and name not in view.inputs.scanned
        if rebuilding.isdisjoint(activity.leaves_below(topology, name))
    }
    scarce = _scarce_pages(state.memory, vmstat, view)
    reading = [state.identities[n] for n, each in judged.items() if scarce and _reads(each)]
    # A quarter of the writes soon shows in the mean of a minute: it began in the last step at the
    # latest.
    held = state.sustained.step(reading, now, STEP_SECONDS)
    usual = _usual(state, judged)
    samples = held.samples(SECONDS, now, state.identities)
    samples += (
        (
            "iowarden_device_read_write_ratio",
            (("device", name),),
            each.read_bytes_per_second / each.written_bytes_per_second,
        )
        for name, each in judged.items()
        if each.written_bytes_per_second >= WRITTEN_BYTES_PER_SECOND
    )
    if usual:
        samples += (
            ("iowarden_device_write_mostly", (("device", name),), 1.0)
            for name, key in state.identities.items()
            if usual.get(key, 0.0) >= LEARNING_SECONDS
        )
    return replace(state, sustained=held, usual=usual, means=means, samples=samples), samples


def remember(state: PhantomState) -> dict[str, Pairs]:
    """Return since when each device has phantom reads (or 0), and its write-mostly seconds."""
    since = state.sustained.lasting(ACTIVE_SECONDS).since
    usual = {key: s // _ROUNDED_SECONDS * _ROUNDED_SECONDS for key, s in state.usual.items()}
    keys = since.keys() | {key for key, seconds in usual.items() if seconds}
    return {key: ((since.get(key, 0.0), usual.get(key, 0.0)),) for key in sorted(keys)}


def recall(state: PhantomState, stored: Mapping[str, Pairs]) -> PhantomState:
    """Return the stored state combined with the current one."""
    usual = dict(state.usual)
    for key, pairs in stored.items():
        for _, seconds in pairs[:1]:
            usual[key] = max(usual.get(key, 0.0), seconds)
    return replace(state, sustained=state.sustained.recall(stored), usual=usual)


def _reads(means: Activity) -> bool:
    written = means.written_bytes_per_second
    return (
        written >= WRITTEN_BYTES_PER_SECOND and means.read_bytes_per_second >= READ_RATIO * written
    )


def _usual(state: PhantomState, activities: Mapping[str, Activity]) -> dict[str, float]:
    """Return the seconds of write-mostly activity of each device; a completed baseline stays."""
    usual = dict(state.usual)
    for name, means in activities.items():
        key = state.identities[name]
        seconds = usual.get(key, 0.0)
        if seconds >= LEARNING_SECONDS:
            continue
        written, read = means.written_bytes_per_second, means.read_bytes_per_second
        if read < USUAL_READ_RATIO * written:
            if written >= WRITTEN_BYTES_PER_SECOND:
                usual[key] = seconds + STEP_SECONDS
        elif read >= USUAL_READ_RATIO * WRITTEN_BYTES_PER_SECOND:
            usual.pop(key, None)
    while len(usual) > MAX_DEVICES:
        del usual[next(iter(usual))]
    return usual


def _scarce_pages(
    memory: tuple[tuple[float, int | None, int | None], ...], vmstat: Vmstat, view: View
) -> bool:
    """Whether pages were faulted in from disk, read again soon after eviction, or are scarce."""
    began, faults, refaults = memory[0]
    elapsed = memory[-1][0] - began
    now_faults, now_refaults = vmstat.major_faults_total, vmstat.refaulted_file_pages_total
    meminfo, available = view.inputs.snapshot.meminfo, view.inputs.snapshot.available_bytes
    return (
        (
            elapsed > 0
            and faults is not None
            and now_faults is not None
            and now_faults - faults >= FAULTS_PER_SECOND * elapsed
        )
        or (refaults is not None and now_refaults is not None and now_refaults > refaults)
        or (
            meminfo is not None
            and available is not None
            and available < AVAILABLE_RATIO * meminfo.total_bytes
        )
    )


GROUP = SignalGroup(
    name="phantom_reads",
    sources=SOURCES,
    families=(
        Family(
            SECONDS,
            "gauge",
            "Seconds for which a device that is written to has read at least a quarter as"
            " much, while pages were faulted in, read again or scarce.",
        ),
        Family(
            "iowarden_device_write_mostly",
            "gauge",
            "1 if a device was written to for 24 hours with next to no reads.",
        ),
        Family(
            "iowarden_device_read_write_ratio",
            "gauge",
            "Bytes read divided by bytes written in the last minute, of devices that are"
            " written to.",
        ),
    ),
    step=step,
    initial=PhantomState(),
    remember=remember,
    recall=recall,
)
