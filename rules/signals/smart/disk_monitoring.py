"""Monitoring state of all disks: which are read, which are not and why, and which are missing.

Data that are missing must never look like a healthy disk: each physical disk is either read or has
a reason why not; a condition of its own is that no disk at all can be read.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.collectors.smart.drive import ReadStatus
from iowarden.rules.signals import baseline
from iowarden.rules.signals.signal import SignalGroup
from iowarden.rules.topology import inventory
from iowarden.rules.topology.device_changes import GONE_SECONDS
from iowarden.rules.topology.device_identity import Identity
from iowarden.rules.topology.inventory import InventoryDisk, SeenDisk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.rules.signals.signal import Pairs, View

SOURCES = ("block",)
"""The disks of 'smart' are used as well; if it is stale, the block devices are still known."""
VALID_PERIODS = 3
"""As for data sources: the last reading of a disk is valid for so many of its periods."""
MAX_REASON_CHARACTERS = 200
_PARTS = 5
"""Number of parts of the key under which a disk is stored."""


@dataclass(frozen=True, slots=True)
class MonitoringState:
    """History of all disks. Units: seconds of the program's clock."""

    disks: Mapping[str, InventoryDisk] = field(default_factory=dict)
    seen: Mapping[str, SeenDisk] = field(default_factory=dict)
    """Disks that were read at least once; stored over restarts."""
    here: frozenset[str] = frozenset()
    """Disks that were block devices since the start: DeviceRemoved reports when one of these is
    removed."""
    unreadable_since: Mapping[str, float] = field(default_factory=dict)
    """When a disk was first seen of which nothing was ever read."""
    none_seconds: float | None = None
    """Since when there are physical disks and none is read."""
    began_seconds: float | None = None
    implausible: Mapping[str, str] = field(default_factory=dict)
    """Why the data of a disk are implausible."""
    inputs: tuple[object, ...] = ()
    """What `disks` was derived from."""

    def identity(self, disk: str) -> Identity | None:
        """Return the identity of a disk, also of one that is missing."""
        if disk in self.disks:
            return self.disks[disk].identity
        return self.seen[disk].identity if disk in self.seen else None

    def present(self, subject: str) -> bool:
        """Whether a disk of this identity is present."""
        return any(
            c.identity.key == subject and c.status is not ReadStatus.MISSING
            for c in self.disks.values()
        )


def step(state: MonitoringState, view: View) -> tuple[MonitoringState, list[Sample] | None]:
    """Return the state of the disks after an update; None if no disks are polled at all."""
    says = view.inputs.snapshot
    topology, disks = says.block, says.smart
    if topology is None or (disks is None and "smart" not in view.inputs.failed):
        return state, None
    now = view.inputs.now_seconds
    began = now if state.began_seconds is None else state.began_seconds
    slots = says.enclosure or ()
    untrusted = _implausible(view)
    inputs = (topology, disks, slots, untrusted, tuple(state.seen))
    covered = state.disks
    if not _same(inputs, state.inputs):
        covered = inventory.inventory(disks, topology, slots, state.seen, untrusted)
    here = state.here | {key for key, c in covered.items() if c.leaves}
    made = disks is not None and disks.discovered_seconds is not None
    trouble = bool(disks is not None and disks.problems)
    seen = {
        key: known
        for key, known in _seen(state.seen, covered, now, made=made, trouble=trouble).items()
        if not (_is_missing(covered, key) and key in here)
    }
    if seen.keys() != state.seen.keys():
        covered = inventory.inventory(disks, topology, slots, seen, untrusted)
        inputs = (topology, disks, slots, untrusted, tuple(seen))
    physical = [c for c in covered.values() if c.physical]
    none = not any(c.is_monitored for c in physical) and not all(_awaited(c) for c in physical)
    after = MonitoringState(
        disks=covered,
        seen=seen,
        here=here,
        unreadable_since={
            c.disk: state.unreadable_since.get(c.disk, now) for c in physical if _never(c, seen)
        },
        none_seconds=(state.none_seconds or now) if none else None,
        began_seconds=began,
        implausible=untrusted,
        inputs=inputs,
    )
    return after, _samples(after, now)


def forget(state: MonitoringState, disk: str) -> MonitoringState:
    """Return the state without a disk that was removed on purpose."""
    kept = {key: known for key, known in state.seen.items() if key != disk}
    covered = {
        key: c
        for key, c in state.disks.items()
        if key != disk or c.status is not ReadStatus.MISSING
    }
    return replace(state, seen=kept, disks=covered, inputs=())


def remember(state: MonitoringState) -> Mapping[str, Pairs]:
    """Return the disks that were read at least once; the key contains their identity."""
    kept: dict[str, Pairs] = {}
    for key, known in state.seen.items():
        own = known.identity
        words = (key, own.key, own.object, own.adapter, f"{known.device} {known.access_method}")
        pairs = [(known.read_seconds, known.period_seconds), (known.seen_seconds, 0.0)]
        pairs += [(known.missing_seconds, 0.0)] if known.missing_seconds is not None else []
        kept["\t".join(word.replace("\t", " ") for word in words)] = tuple(pairs)
    return kept


def recall(state: MonitoringState, stored: Mapping[str, Pairs]) -> MonitoringState:
    """Return the state with the disks stored before the restart."""
    seen: dict[str, SeenDisk] = {}
    for text, pairs in stored.items():
        words = text.split("\t")
        if len(words) != _PARTS or len(pairs) not in (2, 3):
            continue
        key, subject, shown, adapter, place = words
        device, _, how = place.partition(" ")
        (read, period), (last, _) = pairs[:2]
        missing = pairs[2][0] if len(pairs) > 2 else None
        own = Identity(subject, shown, adapter)
        seen[key] = SeenDisk(own, device, how, read, period, last, missing)
    return replace(state, seen={**seen, **state.seen})


def _implausible(view: View) -> dict[str, str]:
    """Return the disks whose data are implausible, with the first reason (rules/smart)."""
    reasons: dict[str, str] = {}
    told = view.earlier.get("smart", ())
    for metric, labels, value in told:
        own = dict(labels)
        if metric == "iowarden_smart_plausible" and value == 0.0:
            reasons.setdefault(own["disk"], "")
        elif metric == "iowarden_smart_implausible" and not reasons.get(own["disk"]):
            reasons[own["disk"]] = own["reason"]
    return reasons


def _same(ours: tuple[object, ...], before: tuple[object, ...]) -> bool:
    """Whether nothing changed; large inputs are compared by identity of the object."""
    if len(ours) != len(before):
        return False
    return all(
        a is b or (isinstance(a, tuple | frozenset) and a == b)
        for a, b in zip(ours, before, strict=True)
    )


def _is_missing(disks: Mapping[str, InventoryDisk], key: str) -> bool:
    """Whether a disk is known from stored state only."""
    return key in disks and disks[key].expected_by == ("history",)


def _seen(
    before: Mapping[str, SeenDisk],
    disks: Mapping[str, InventoryDisk],
    now: float,
    *,
    made: bool,
    trouble: bool,
) -> dict[str, SeenDisk]:
    """Return the disks that were read at least once, updated.

    A disk is not missing while disks could not be listed: not listed yet, or listed with errors.
    """
    seen: dict[str, SeenDisk] = {}
    for key, known in before.items():
        if key not in disks:  # it has another key now, or another disk has its name
            continue
        if not _is_missing(disks, key):
            at = baseline.stamp(known.seen_seconds, now)
            seen[key] = replace(known, seen_seconds=at, missing_seconds=None)
        elif not made or (trouble and not known.device):
            seen[key] = known
        else:
            since = now if known.missing_seconds is None else known.missing_seconds
            if now - since < GONE_SECONDS:
                seen[key] = replace(known, missing_seconds=since)
    for key, c in disks.items():
        polled = c.polled
        if polled is None or c.drive is None or not c.drive.serial or polled.read_seconds is None:
            continue
        if c.status is not ReadStatus.IMPLAUSIBLE and c.physical:
            at = seen[key].seen_seconds if key in seen else now
            device = c.leaves[0] if c.leaves else ""
            read, period = polled.read_seconds, polled.period_seconds
            seen[key] = SeenDisk(c.identity, device, c.access_method, read, period, at)
    return seen


def _awaited(disk: InventoryDisk) -> bool:
    """Whether a disk was found and not polled yet; a recording without replies has none."""
    return disk.status is ReadStatus.NOT_POLLED_YET and disk.polled is not None


def _never(disk: InventoryDisk, seen: Mapping[str, SeenDisk]) -> bool:
    """Whether nothing was ever read of a disk that is present; sleeping ones are left asleep."""
    told = (ReadStatus.ASLEEP, ReadStatus.IMPLAUSIBLE, ReadStatus.READ, ReadStatus.MISSING)
    if disk.status in told or disk.drive is not None or _awaited(disk):
        return False
    return disk.disk not in seen


def _lost_seconds(
    state: MonitoringState, disk: InventoryDisk, known: SeenDisk, now: float
) -> float:
    """Return for how long a disk has not been read; 0 while its last reading is valid.

    While no disk at all can be read, one alert (NoDiskMonitored) reports that instead of one for
    each disk.
    """
    fine = (ReadStatus.READ, ReadStatus.ASLEEP, ReadStatus.IMPLAUSIBLE)
    if disk.status in fine or known.missing_seconds is not None:
        return 0.0
    since = max(known.read_seconds, state.began_seconds or 0.0)
    given_up = since + VALID_PERIODS * known.period_seconds
    if now < given_up or (state.none_seconds is not None and given_up >= state.none_seconds):
        return 0.0
    return max(now - known.read_seconds, 1.0)


def _samples(state: MonitoringState, now: float) -> list[Sample]:
    samples: list[Sample] = []
    counts = dict.fromkeys(ReadStatus, 0)
    for key, c in state.disks.items():
        disk = ("disk", key)
        counts[c.status] += 1
        samples.append(("iowarden_disk_monitoring_state", (("state", c.status.value), disk), 1.0))
        if not c.physical:
            continue
        if c.status not in (ReadStatus.READ, ReadStatus.ASLEEP):
            reason = (
                "reason",
                (c.reason or inventory.STATUS_TEXTS[c.status])[:MAX_REASON_CHARACTERS],
            )
            labels = (("state", c.status.value), disk, reason)
            samples.append(("iowarden_disk_not_monitored", labels, 1.0))
        if c.read_seconds is not None:
            age = max(now - c.read_seconds, 0.0)
            samples.append(("iowarden_disk_last_poll_age_seconds", (disk,), age))
        if key in state.seen:
            lost = _lost_seconds(state, c, state.seen[key], now)
            samples.append(("iowarden_disk_not_monitored_seconds", (disk,), lost))
        if c.status is ReadStatus.MISSING and "configuration" in c.expected_by:
            samples.append(_missing(c, "configuration"))
    samples += [
        _missing(state.disks[key], "history")
        for key, known in state.seen.items()
        if known.missing_seconds is not None and key in state.disks
    ]
    if state.none_seconds is None:
        samples += [
            ("iowarden_disk_never_monitored_seconds", (("disk", key),), now - since)
            for key, since in state.unreadable_since.items()
        ]
    samples += [("iowarden_disks", (("state", c.value),), float(n)) for c, n in counts.items()]
    none = 0.0 if state.none_seconds is None else now - state.none_seconds
    samples.append(("iowarden_disks_none_monitored_seconds", (), none))
    return samples


def _missing(disk: InventoryDisk, expected_by: str) -> Sample:
    labels = (
        ("disk", disk.disk),
        ("expected_by", expected_by),
        ("object", disk.identity.object),
    )
    return ("iowarden_disk_missing", labels, 1.0)


GROUP = SignalGroup(
    name="disk_monitoring",
    sources=SOURCES,
    families=(
        Family(
            "iowarden_disk_monitoring_state",
            "gauge",
            "1 for the monitoring state of a disk: the result of its last poll.",
        ),
        Family(
            "iowarden_disk_not_monitored",
            "gauge",
            "1 for a physical disk that is not monitored, with the reason.",
        ),
        Family(
            "iowarden_disks",
            "gauge",
            "Number of disks by monitoring state: the result of their last poll.",
        ),
        Family(
            "iowarden_disk_last_poll_age_seconds",
            "gauge",
            "Seconds since the SMART data of a disk were last read.",
        ),
        Family(
            "iowarden_disk_not_monitored_seconds",
            "gauge",
            "Seconds since the last reading of a disk that was monitored and no longer is; 0"
            " while that reading is valid.",
        ),
        Family(
            "iowarden_disk_never_monitored_seconds",
            "gauge",
            "Seconds since a physical disk was first seen whose SMART data were never read.",
        ),
        Family(
            "iowarden_disk_missing",
            "gauge",
            "1 for a missing disk that is listed in the configuration, or that iowarden has read"
            " before.",
        ),
        Family(
            "iowarden_disks_none_monitored_seconds",
            "gauge",
            "Seconds for which there are physical disks and the SMART data of none can be read.",
        ),
    ),
    step=step,
    initial=MonitoringState(),
    remember=remember,
    recall=recall,
)
