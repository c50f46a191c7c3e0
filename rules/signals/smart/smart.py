"""SMART conditions of all drives whose data are plausible: errors, attributes, temperature.

Series are sparse: a healthy drive has only 'iowarden_smart_plausible'. Earlier values are stored
over restarts, by serial number: another drive starts with a new baseline. Units: seconds of the
program's clock.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Labels, Sample
from iowarden.rules.signals.signal import SignalGroup
from iowarden.rules.signals.smart import (
    counters,
    helium,
    smart_counts,
    smart_health,
    smart_values,
    wear,
)
from iowarden.rules.smart import endurance, plausibility

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.block.diskstats import BlockIo
    from iowarden.collectors.smart.drive import Attribute, Disk, Disks, Drive
    from iowarden.rules.signals.signal import Pairs, View
    from iowarden.rules.signals.smart.smart_counts import DriveCount

IMPLAUSIBLE_SECONDS = 7 * 86_400.0
"""Data of an access method that once were implausible are not used for so long after."""
_IMPLAUSIBLE_BEFORE = "its SMART data of the last 7 days are implausible"
MAX_RETAINED = 20_000
HOT_SECONDS = 600.0
"""A drive is permanently hot if two readings so far apart, and all between them, are."""
_YEAR_SECONDS = 31_556_952
_NAMES = {
    5: "Reallocated_Sector_Ct",
    10: "Spin_Retry_Count",
    184: "End-to-End_Error",
    187: "Reported_Uncorrect",
    188: "Command_Timeout",
    196: "Reallocated_Event_Count",
    197: "Current_Pending_Sector",
    198: "Offline_Uncorrectable",
    199: "UDMA_CRC_Error_Count",
}
"""smartmontools' default names of attributes, because its database may rename one at any time."""
_UNREADABLE = "pending"
_UNCORRECTED = "uncorrected_"
_BASELINE_ATTRIBUTES = frozenset(
    {"5", "10", "187", "197", "198", "199", "grown_defects", "media_errors"}
)
_REALLOCATED = frozenset({"5"})
_MANY_BLOCKS = 1000
"""Reallocations from which a solid-state drive is judged as a disk: it retires fewer by wear."""
_USAGE = frozenset(
    {"warning_temperature_minutes", "critical_temperature_minutes", "unsafe_shutdowns"}
)
"""Counts that may be absent from a drive's first polls: one that is not stored is unknown, not 0.
So they are stored at 0, too.
"""
_MAX_UNSAFE_RATIO = 0.9

COUNT_FAMILIES = (
    Family(
        "iowarden_smart_increase",
        "gauge",
        "Recent increase of an error count since the baseline; each increase came within 7"
        " days of the one before.",
    ),
    Family(
        "iowarden_smart_weekly_increase",
        "gauge",
        "Increase of an error count in the last 7 days.",
    ),
    Family(
        "iowarden_smart_last_increase_timestamp_seconds",
        "gauge",
        "When an error count increased last, as Unix time, for a week.",
    ),
    Family(
        "iowarden_smart_increase_per_day",
        "gauge",
        "Increase of an error count per day, while it increases daily.",
    ),
    Family(
        "iowarden_smart_increasing_seconds",
        "gauge",
        "Seconds for which an error count has increased daily.",
    ),
    Family(
        "iowarden_smart_baseline",
        "gauge",
        "An error count that was not 0 at baseline and has not changed since.",
    ),
    Family(
        "iowarden_smart_increase_since_baseline",
        "gauge",
        "An error count that has increased since the baseline.",
    ),
    Family(
        "iowarden_smart_confirmed_pending_sectors",
        "gauge",
        "Pending sectors, confirmed by two polls: unreadable, waiting to be rewritten or"
        " reallocated.",
    ),
    Family(
        "iowarden_smart_solid_state",
        "gauge",
        f"1 for a solid-state disk with reallocated sectors, less than {_MANY_BLOCKS} of them.",
    ),
)
VALUE_FAMILIES = (
    Family(
        "iowarden_smart_normalized_drop",
        "gauge",
        "Drop of a normalized attribute value below the best one observed.",
    ),
    Family(
        "iowarden_smart_normalized_low_at_baseline",
        "gauge",
        "By how much a normalized attribute value was below its factory value at baseline.",
    ),
    Family(
        "iowarden_smart_normalized_low_at_baseline_peer_ok",
        "gauge",
        "1 if another disk of the same model still has the factory value of that attribute.",
    ),
    Family(
        "iowarden_smart_attribute_failed_value",
        "gauge",
        "Normalized value of an attribute at or below its threshold, by kind of failure; of a"
        " past one its worst value.",
    ),
    Family(
        "iowarden_smart_high_temperature_celsius",
        "gauge",
        "Temperature in degrees Celsius of a disk that is too hot.",
    ),
    Family(
        "iowarden_smart_temperature_excess_celsius",
        "gauge",
        "Degrees Celsius by which a disk exceeded its limit at both of the last two polls.",
    ),
)
PLAUSIBILITY_FAMILIES = (
    Family(
        "iowarden_smart_plausible",
        "gauge",
        "1 if the SMART data of the disk are plausible, else 0.",
    ),
    Family(
        "iowarden_smart_implausible",
        "gauge",
        "1 for each reason why the SMART data of a disk are implausible.",
    ),
    Family(
        "iowarden_smart_access_method_info",
        "gauge",
        "1 for a disk with implausible SMART data, with the"
        " access method that reaches the real disks.",
    ),
)


@dataclass(frozen=True, slots=True)
class CachedVerdict:
    """Cached result for a disk, and until when it is valid while the disk's data do not change."""

    disk: Disk
    until_seconds: float
    samples: tuple[Sample, ...]
    signature: plausibility.Signature | None
    implausibilities: tuple[plausibility.Implausibility, ...] = ()
    rejected_because: tuple[str, ...] = ()
    """Why the data of the disk are implausible; empty: they are plausible."""


@dataclass(frozen=True, slots=True)
class SmartState:
    """State of all drives; `persistent` is stored over a restart.

    `persistent` by disk: when it was last polled and its power-on hours, when it was first seen and
    how many polls had plausible counts (2 at most); by disk, tab and name: a count and that of the
    last days, a value, a temperature, the used endurance, amounts written, helium, the
    progress of its counters, its implausibility.
    """

    persistent: Mapping[str, Pairs] = field(default_factory=dict)
    disks: Disks | None = None
    verdicts: Mapping[str, CachedVerdict] = field(default_factory=dict)
    blocks: Mapping[str, BlockIo] = field(default_factory=dict)
    samples: list[Sample] | None = None
    until_seconds: float = math.inf


EMPTY = SmartState()


def step(state: SmartState, view: View) -> tuple[SmartState, list[Sample] | None]:
    """Return the state after an update of the poller, and the samples of every disk.

    Optional input 'kernel_errors': medium errors by disk that the kernel or a controller logged.
    """
    disks = view.inputs.snapshot.smart
    if disks is None:
        return state, None
    now = view.inputs.now_seconds
    if disks is state.disks and now < state.until_seconds and state.samples is not None:
        return state, state.samples
    topology = None if view.derived is None else view.derived.topology
    look = _Evaluation(
        state,
        disks,
        now,
        view.inputs.snapshot.diskstats or state.blocks,
        topology,
        view.inputs.errors_logged or {},
    )
    told = {key: look.verdict(key, disk) for key, disk in disks.by_key.items()}
    samples = [sample for each in told.values() for sample in each.samples]
    until = min((each.until_seconds for each in told.values()), default=math.inf)
    return SmartState(_bounded(look.persistent), disks, told, look.blocks, samples, until), samples


def unreadable(state: SmartState) -> Iterator[tuple[Labels, str]]:
    """Yield the disks with implausible data: their alerts are unknown, not resolved."""
    for key, told in state.verdicts.items():
        if told.rejected_because:
            yield (
                (("disk", key),),
                f"the SMART data of disk '{key}' are implausible: {told.rejected_because[0]}",
            )


def remember(state: SmartState) -> Mapping[str, Pairs]:
    """Return what is stored of the disks."""
    return state.persistent


def recall(state: SmartState, stored: Mapping[str, Pairs]) -> SmartState:
    """Return the state stored before the restart; it is evaluated again with newer polls."""
    known = {
        key: pairs
        for key, pairs in state.persistent.items()
        if key.partition("\t")[0] not in stored
    }
    return replace(EMPTY, persistent={**known, **stored}, blocks=state.blocks)


def _bounded(stored: dict[str, Pairs]) -> dict[str, Pairs]:
    """Return the stored values without the disks that were not polled for longest."""
    if len(stored) <= MAX_RETAINED:
        return stored
    disks = sorted((key for key in stored if "\t" not in key), key=lambda key: stored[key][0][0])
    gone: set[str] = set()
    left = len(stored)
    by_disk: dict[str, int] = {}
    for key in stored:
        own = key.partition("\t")[0]
        by_disk[own] = by_disk.get(own, 0) + 1
    for disk in disks:
        if left <= MAX_RETAINED:
            break
        gone.add(disk)
        left -= by_disk[disk]
    return {key: pairs for key, pairs in stored.items() if key.partition("\t")[0] not in gone}


class _Evaluation:
    """One evaluation of all disks."""

    def __init__(
        self,
        state: SmartState,
        disks: Disks,
        now: float,
        blocks: Mapping[str, BlockIo],
        topology: Topology | None,
        kernel_errors: Mapping[str, float],
    ) -> None:
        self.persistent = dict(state.persistent)
        self.blocks = blocks
        self._disks = disks
        self._before = state.verdicts
        self._now = now
        self._topology = topology
        self._kernel_errors = kernel_errors
        self._signatures: dict[str, plausibility.Signature | None] = {}
        self._serials: dict[str, list[tuple[str, str]]] = {}
        self._alike: dict[plausibility.Signature | None, list[tuple[str, str]]] = {}
        for key, disk in disks.by_key.items():
            drive = disk.polled.drive
            if drive is None:
                continue
            before = state.verdicts.get(key)
            same = before is not None and before.disk is disk
            signature = before.signature if before and same else plausibility.signature(drive)
            self._signatures[key] = signature
            self._serials.setdefault(drive.serial, []).append((key, drive.model))
            self._alike.setdefault(signature, []).append((key, drive.serial))

    def verdict(self, key: str, disk: Disk) -> CachedVerdict:
        """Return the result for a disk."""
        before = self._before.get(key)
        if before is not None and before.disk is disk and self._now < before.until_seconds:
            return before
        drive = disk.polled.drive
        if drive is None:
            return CachedVerdict(disk, math.inf, (), None)
        at = self._now if disk.polled.read_seconds is None else disk.polled.read_seconds
        known = self.persistent.get(key)
        fresh = known is None or at > known[0][0]
        signature = self._signatures.get(key)
        around = self._around(key, disk, drive, known)
        if fresh or before is None:
            doubts = plausibility.implausibilities(disk, drive, around)
        else:
            doubts = before.implausibilities
        own: Labels = (("disk", key),)
        until = self._implausible_until(key, disk, doubts)
        met, polls = (at, 0.0) if known is None else known[1]
        if fresh:
            hours = math.nan if drive.power_on_hours is None else float(drive.power_on_hours)
            hours = hours if math.isfinite(hours) else -1.0
            counted = smart_counts.has_counts(drive) and until <= self._now
            self.persistent[key] = ((at, hours), (met, min(polls + counted, 2.0)))
        if until > self._now:
            reasons = tuple(dict.fromkeys(doubt.text for doubt in doubts)) or (_IMPLAUSIBLE_BEFORE,)
            samples = tuple(_rejections(own, disk, reasons))
            return CachedVerdict(disk, until, samples, signature, doubts, reasons)
        self._until = math.inf
        polled_at, met_before = at if fresh else None, polls > 0
        samples = (
            ("iowarden_smart_plausible", own, 1.0),
            *self._counts(key, drive, polled_at, met_before=met_before),
            *self._values(key, drive, polled_at, met_before=met_before),
            *self._temperature(key, drive, polled_at),
            *smart_health.samples(drive, own),
            *self._wear(key, drive, polled_at),
            *self._counters(key, drive, polled_at, around),
        )
        return CachedVerdict(disk, self._until, samples, signature, doubts)

    def _around(
        self, key: str, disk: Disk, drive: Drive, known: Pairs | None
    ) -> plausibility.Surroundings:
        """Return what other data sources and disks show that concerns a disk."""
        name = disk.device or disk.polled.target.device
        topology = self._topology
        block = self.blocks.get(name)
        signature = self._signatures.get(key)
        hours = known[0][1] if known is not None else -1.0
        return plausibility.Surroundings(
            device=None if topology is None or not name else topology.devices.get(name),
            traffic_bytes=None
            if block is None
            else float(block.read_bytes_total + block.written_bytes_total),
            year=1970 + int(self._now // _YEAR_SECONDS),
            errors_logged=self._kernel_errors.get(key),
            hours_before=hours if hours >= 0 else None,
            same_serial=next(
                (
                    other
                    for other, model in self._serials.get(drive.serial, ())
                    if drive.serial and model != drive.model
                ),
                "",
            ),
            same_attributes=next(
                (
                    other
                    for other, serial in self._alike.get(signature, ())
                    if signature is not None and serial != drive.serial
                ),
                "",
            ),
        )

    def _implausible_until(
        self, key: str, disk: Disk, contradictions: tuple[plausibility.Implausibility, ...]
    ) -> float:
        """Return until when data read by this access method are not used; 0: they are plausible."""
        word = f"{key}\tdistrust"
        path = float(zlib.crc32(str(disk.polled.target).encode()))
        if not plausibility.is_plausible(contradictions):
            self.persistent[word] = ((self._now, path),)
        match self.persistent.get(word):
            case ((at, before),) if before == path:
                return at + IMPLAUSIBLE_SECONDS
            case _:
                self.persistent.pop(word, None)
                return 0.0

    def _counts(
        self, key: str, drive: Drive, at: float | None, *, met_before: bool
    ) -> Iterator[Sample]:
        """Yield the samples of error counts; `at`: time of a new poll, None if there was none."""
        solid_state = False
        for name, labels, value, sudden in _read_counts(key, drive):
            word = f"{key}\t{name}"
            counted = smart_counts.from_pairs(self.persistent.get(word))
            if at is not None:
                usage = name in _USAGE
                known = met_before and not usage
                counted = smart_counts.count(counted, value, at, known=known, sudden=sudden)
                self._persist(word, smart_counts.pairs(counted, zero=usage))
                past = self.persistent.get(f"{word} days")
                self._persist(f"{word} days", smart_counts.days(past, counted, at))
            if counted is None or not (counted.confirmed or counted.first):
                continue
            self._until = min(self._until, counted.until(self._now))
            yield from self._count_samples(key, name, labels, counted)
            is_worn = name in _REALLOCATED and value < _MANY_BLOCKS
            solid_state = solid_state or (is_worn and not smart_health.spins(drive))
        if solid_state:
            yield "iowarden_smart_solid_state", (("disk", key),), 1.0

    def _count_samples(
        self, key: str, name: str, labels: Labels, counted: DriveCount
    ) -> Iterator[Sample]:
        now, level = self._now, counted.confirmed
        if name == _UNREADABLE:
            polls = self.persistent[key][1][1]
            if level and (polls > 1 or level >= smart_counts.AT_ONCE):
                yield "iowarden_smart_confirmed_pending_sectors", (("disk", key),), level
        elif level > counted.first:
            yield "iowarden_smart_increase_since_baseline", labels, level
        elif level == counted.first and (
            name in _BASELINE_ATTRIBUTES or name.startswith(_UNCORRECTED)
        ):
            yield "iowarden_smart_baseline", labels, level
        growth = counted.increase(now)
        if growth > 0:
            yield "iowarden_smart_increase", labels, growth
            days = self.persistent.get(f"{key}\t{name} days")
            yield "iowarden_smart_weekly_increase", labels, smart_counts.weekly(days, counted, now)
            yield "iowarden_smart_last_increase_timestamp_seconds", labels, counted.grew_seconds
        lasted, grown = counted.streak(now)
        if grown > 0:
            yield "iowarden_smart_increase_per_day", labels, round(counted.per_day(now), 1)
            if lasted > 0:
                yield "iowarden_smart_increasing_seconds", labels, round(lasted, 0)

    def _values(
        self, key: str, drive: Drive, at: float | None, *, met_before: bool
    ) -> Iterator[Sample]:
        for attribute in drive.attributes:
            labels = _attribute_labels(key, attribute)
            if helium.is_helium(drive, attribute):
                yield from self._helium(attribute, labels, at)
                continue
            meaning, value = smart_values.exceeded(attribute)
            if meaning:
                told = (*labels, ("failure", meaning))
                yield "iowarden_smart_attribute_failed_value", told, float(value)
            judged = attribute.id in smart_values.CRITICAL_ATTRIBUTES and not smart_counts.another(
                attribute
            )
            if not judged or attribute.value is None:
                continue
            word = f"{key}\tvalue {attribute.id}"
            seen = smart_values.from_pairs(self.persistent.get(word))
            if at is not None:
                seen = smart_values.drop(seen, float(attribute.value), at, known=met_before)
                self._persist(word, smart_values.pairs(seen))
            if seen is None:
                continue
            raw = None if attribute.raw is None else smart_counts.believed(drive, attribute)
            # On Toshiba drives this value wanders below 100 and back without a single spin-up
            # retry.
            wanders = attribute.id == smart_counts.SPIN_RETRIES and raw == 0
            if seen.best > seen.confirmed and not wanders:
                yield "iowarden_smart_normalized_drop", labels, seen.best - seen.confirmed
            low = smart_values.low(seen, raw)
            if low:
                yield "iowarden_smart_normalized_low_at_baseline", labels, low
                if self._better_peer(key, drive, attribute):
                    yield "iowarden_smart_normalized_low_at_baseline_peer_ok", labels, 1.0

    def _helium(self, attribute: Attribute, labels: Labels, at: float | None) -> Iterator[Sample]:
        word = f"{dict(labels)['disk']}\thelium {attribute.id}"
        seen = helium.from_pairs(self.persistent.get(word))
        if at is not None and helium.is_consistent(attribute):
            seen = helium.observe(seen, float(attribute.value or 0), at)
            self._persist(word, helium.pairs(seen))
        if seen is not None:
            yield from helium.samples(seen, attribute, labels)

    def _better_peer(self, key: str, drive: Drive, attribute: Attribute) -> bool:
        """Whether another disk of the same model has the factory value that this one is below."""
        for other, disk in self._disks.by_key.items():
            peer = disk.polled.drive
            if other == key or peer is None or not drive.model or peer.model != drive.model:
                continue
            own = peer.attribute(attribute.id)
            if own is not None and own.value == smart_values.ceiling(attribute.value or 0):
                return True
        return False

    def _temperature(self, key: str, drive: Drive, at: float | None) -> Iterator[Sample]:
        word = f"{key}\thot"
        if at is not None:
            excess = smart_health.excess_celsius(drive)
            hot = excess is not None and excess >= 0
            before = self.persistent.get(word)
            last = before[0][1] if before is not None else -1.0
            since = before[1][0] if before is not None else at
            self._persist(word, ((at, excess or 0.0), (since, last)) if hot else None)
        match self.persistent.get(word):
            case ((read, excess), (since, last)) if last >= 0 and read - since >= HOT_SECONDS:
                own: Labels = (("disk", key),)
                yield "iowarden_smart_temperature_excess_celsius", own, min(excess, last)
                if drive.temperature_celsius is not None:
                    yield "iowarden_smart_high_temperature_celsius", own, drive.temperature_celsius

    def _wear(self, key: str, drive: Drive, at: float | None) -> Iterator[Sample]:
        ratio = endurance.used_ratio(drive)
        if ratio is None or not math.isfinite(ratio):
            return
        written_bytes = None if drive.nvme is None else drive.nvme.written_bytes_total
        used_word, written_word = f"{key}\twear", f"{key}\twritten"
        if at is not None:
            percent = wear.used_percent(ratio)
            self._persist(used_word, wear.with_used(self.persistent.get(used_word), percent, at))
        if at is not None and written_bytes is not None:
            written = wear.with_written(self.persistent.get(written_word), written_bytes, at)
            self._persist(written_word, written)
        used, past = (self.persistent.get(word) or () for word in (used_word, written_word))
        if used:
            found = wear.forecast(used, past, written_bytes or 0.0, self._now)
            yield from wear.samples(found, (("disk", key),))

    def _counters(
        self, key: str, drive: Drive, at: float | None, around: plausibility.Surroundings
    ) -> Iterator[Sample]:
        if plausibility.virtual(drive, around.device):
            return
        word = f"{key}\tprogress"
        counted = counters.from_pairs(self.persistent.get(word))
        if at is not None:
            counted = counters.progress(counted, drive, around.traffic_bytes, at)
            self._persist(word, counters.pairs(counted))
        yield from counters.samples(drive, counted, (("disk", key),))

    def _persist(self, word: str, pairs: Pairs | None) -> None:
        if pairs is None:
            self.persistent.pop(word, None)
        else:
            self.persistent[word] = pairs


def _attribute_labels(key: str, attribute: Attribute) -> Labels:
    name = _NAMES.get(attribute.id, attribute.name)
    name = attribute.name if smart_counts.lifetime(attribute) else name
    return ("attribute", name), ("disk", key), ("id", str(attribute.id))


def _read_counts(key: str, drive: Drive) -> Iterator[tuple[str, Labels, float, bool]]:
    """Yield the error counts of a drive: name, labels, count, whether one poll may be enough."""
    unreadable: int | None = None
    for attribute in drive.attributes:
        if attribute.id not in smart_counts.COUNTED:
            continue
        value = smart_counts.believed(drive, attribute)
        if value is None:
            continue
        labels = _attribute_labels(key, attribute)
        if attribute.id == smart_counts.PENDING and not smart_counts.lifetime(attribute):
            unreadable = value
        else:
            sudden = attribute.id == smart_counts.OFFLINE
            yield str(attribute.id), labels, float(value), sudden
    if drive.pending_sectors is not None:  # the log that has them may know more than a count
        unreadable = max(unreadable or 0, drive.pending_sectors)
    if unreadable is None and drive.scsi is not None:
        unreadable = drive.scsi.pending_defects
    for name, number in (
        (_UNREADABLE, unreadable),
        ("errors_logged", drive.errors_logged_total),
        ("grown_defects", None if drive.scsi is None else drive.scsi.grown_defects),
        ("media_errors", None if drive.nvme is None else drive.nvme.media_errors_total),
        *_nvme_usage(drive),
        *(
            (f"{_UNCORRECTED}{kind}_errors", row.uncorrected_total)
            for kind, row in (drive.scsi.error_counters if drive.scsi else {}).items()
        ),
    ):
        if number is not None and number >= 0:
            labels = (("attribute", name), ("disk", key))
            yield name, labels, float(number), name == _UNREADABLE


def _nvme_usage(drive: Drive) -> Iterator[tuple[str, float | None]]:
    """Yield the counts of an NVMe drive that show heat and lost power: no errors of its own.

    Minutes, as the drive counts them. Source: NVM Express Base Specification: Warning and Critical
    Composite Temperature Time; Unsafe Shutdowns: power was lost without a shutdown notification,
    which the kernel sends at a restart (drivers/nvme/host/pci.c, nvme_shutdown).
    """
    if drive.nvme is None:
        return
    nvme = drive.nvme
    for name, seconds in (
        ("warning_temperature_minutes", nvme.warning_temperature_seconds_total),
        ("critical_temperature_minutes", nvme.critical_temperature_seconds_total),
    ):
        yield name, None if seconds is None else seconds / 60
    unsafe, cycles = nvme.unsafe_shutdowns_total, drive.power_cycles
    # A drive that counts nearly each of its power cycles counts the orderly ones as well.
    if unsafe is not None and cycles and unsafe <= _MAX_UNSAFE_RATIO * cycles:
        yield "unsafe_shutdowns", unsafe


def _rejections(own: Labels, disk: Disk, reasons: tuple[str, ...]) -> Iterator[Sample]:
    """Yield why the data of a disk are implausible, and the access method for the real disk."""
    yield "iowarden_smart_plausible", own, 0.0
    for text in reasons:
        yield "iowarden_smart_implausible", (*own, ("reason", text)), 1.0
    yield (
        "iowarden_smart_access_method_info",
        (*own, ("access_method", plausibility.access_hint(disk.polled.target))),
        1.0,
    )


GROUP = SignalGroup(
    name="smart",
    sources=("smart",),
    families=(
        *COUNT_FAMILIES,
        *VALUE_FAMILIES,
        *smart_health.FAMILIES,
        *wear.FAMILIES,
        *counters.FAMILIES,
        *helium.FAMILIES,
        *PLAUSIBILITY_FAMILIES,
    ),
    step=step,
    initial=EMPTY,
    remember=remember,
    recall=recall,
    unreadable=unreadable,
)
