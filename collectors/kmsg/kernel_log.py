"""Storage events of one read of the kernel log, and the position up to which it was read.

Lost lines are an event, 'log_gap'. Of many events of a kind on one device in one read the first and
the last are reported, the others counted. When the log is first seen, the last 24 hours are
`baseline`, not reported as new, and older lines are ignored.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.event import StorageEvent
from iowarden.collectors.kmsg.kernel_kinds import KINDS, UNRECOGNIZED, UNRECOGNIZED_CRITICAL
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import Family, Sample
from iowarden.collectors.source import Source, read_by_poller

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Pair = tuple[str, str]
    """Kind of event and device."""
    DriverLevel = tuple[str, str]
    """Storage driver and 'error' or 'critical'."""

FIRST_SIGHT_SECONDS = 24 * 3600.0
"""Age limit when the log is first seen: older lines are ignored."""
FIRST_EVENTS = 10
LAST_EVENTS = 10
"""Events of one kind on one device that are reported per read."""
MAX_PAIRS = 1000
"""Pairs of kind and device that are counted separately; further ones count without a device."""

MAX_SHAPES = 100
"""Shapes of unrecognized lines of one read whose text is passed on; further ones are counted."""

_NUMBER = lazy_pattern(
    r"0x[0-9A-Fa-f]+|[0-9][0-9A-Fa-f]*|(?<![0-9A-Za-z])[A-Fa-f]+[0-9][0-9A-Fa-f]*", re.ASCII
)
_SUPPRESSED = lazy_pattern(r": ([0-9]{1,10}) callbacks suppressed", re.ASCII)

_EVENTS = Family(
    "iowarden_kernel_events_total",
    "counter",
    "Events in the kernel log since iowarden started, by kind and by the device that they name.",
)
_GAPS = Family(
    "iowarden_kernel_log_gaps_total", "counter", "How often lines of the kernel log were lost."
)
_SUPPRESSED_TOTAL = Family(
    "iowarden_kernel_log_suppressed_messages_total",
    "counter",
    "Lines that the kernel suppressed and only counted: add them to the number of events.",
)
_UNRECOGNIZED = Family(
    "iowarden_kernel_lines_unrecognized_total",
    "counter",
    "Lines of level error or worse in the kernel log that a storage driver, the block layer or a"
    " file system printed and that no pattern takes, since iowarden started and in the day before"
    " its first start, by driver and level ('error', or 'critical': critical, alert and"
    " emergency).",
)
FAMILIES = (_EVENTS, _GAPS, _SUPPRESSED_TOTAL, _UNRECOGNIZED)


@dataclass(frozen=True, slots=True)
class KernelCursor:
    """Position up to which the log was reported, stored with its events.

    Fields: `sequence` and `monotonic_seconds` are those of the last record in boot `boot_id`;
    `realtime_seconds` is when that was read. `journal` is the journal cursor at the last start,
    after which the journal has all later lines; '' if the journal could not be read.
    """

    journal: str
    boot_id: str
    sequence: int
    monotonic_seconds: float
    realtime_seconds: float | None


@dataclass(frozen=True, slots=True)
class KernelLog:
    """New events of the kernel log since the last read.

    Fields: `baseline` are those found when first seen; `left_out` counts what is in neither, though
    in `counts`; `counts`, `gaps` and `suppressed` are since the start, without the baseline,
    `unrecognized` with it. A new pair is 0 in its first read, so that its counter increases from
    there. `unrecognized_lines` are those of this read that no pattern took, baseline included, the
    first one of each shape. `problem`: '', or why the time before is unknown. `boot_id` is the
    running boot: in another one devices may have had other names.
    """

    events: tuple[StorageEvent, ...] = ()
    baseline: tuple[StorageEvent, ...] = ()
    left_out: Mapping[Pair, int] = field(default_factory=dict)
    counts: Mapping[Pair, int] = field(default_factory=lambda: {(kind, ""): 0 for kind in KINDS})
    gaps: int = 0
    suppressed: int = 0
    unrecognized: Mapping[DriverLevel, int] = field(default_factory=dict)
    unrecognized_lines: tuple[StorageEvent, ...] = ()
    cursor: KernelCursor | None = None
    problem: str = ""
    boot_id: str = ""


def emit(value: KernelLog) -> list[Sample]:
    """Return the samples of FAMILIES."""
    samples: list[Sample] = [
        (
            _EVENTS.name,
            (("device", device), ("kind", kind)) if device else (("kind", kind),),
            count,
        )
        for (kind, device), count in value.counts.items()
    ]
    samples += [
        (_UNRECOGNIZED.name, (("driver", driver), ("level", level)), count)
        for (driver, level), count in value.unrecognized.items()
    ]
    samples.append((_GAPS.name, (), value.gaps))
    samples.append((_SUPPRESSED_TOTAL.name, (), value.suppressed))
    return samples


@dataclass(slots=True)
class _Row:
    count: int = 0
    first: list[tuple[int, StorageEvent]] = field(default_factory=list)
    last: deque[tuple[int, StorageEvent]] = field(default_factory=lambda: deque(maxlen=LAST_EVENTS))


class Fold:
    """Events of one read: the first and the last of each kind on each device, and their number."""

    def __init__(self) -> None:
        self.rows: dict[Pair, _Row] = {}
        self.suppressed = 0
        self.unrecognized: Counter[DriverLevel] = Counter()
        self.line_by_shape: dict[str, StorageEvent] = {}
        """Unrecognized lines, the first of each shape."""
        self._number = 0

    def add(self, *events: StorageEvent) -> None:
        """Count events, and store each that is one of the first or the last."""
        for event in events:
            self._add(event)

    def _add(self, event: StorageEvent) -> None:
        pair = (event.kind, event.device)
        row = self.rows.get(pair)
        if row is None:
            if len(self.rows) >= MAX_PAIRS:
                pair = (event.kind, "")
            row = self.rows.setdefault(pair, _Row())
        if event.kind == "callbacks_suppressed":
            found = _SUPPRESSED.search(event.text)
            self.suppressed += int(found[1]) if found else 0
        is_new = event.kind in UNRECOGNIZED and self._is_new_shape(event)
        self._number += 1
        row.count += 1
        # A storm of one message must not hide another one that is in the midst of it.
        if len(row.first) < FIRST_EVENTS or is_new:
            row.first.append((self._number, event))
        else:
            row.last.append((self._number, event))

    def _is_new_shape(self, line: StorageEvent) -> bool:
        """Count an unrecognized line; return whether it is the first of its shape."""
        self.unrecognized[line.code, level_of(line)] += 1
        shape = shape_of(line)
        if shape in self.line_by_shape or len(self.line_by_shape) >= MAX_SHAPES:
            return False
        self.line_by_shape[shape] = line
        return True

    def events(self, dated: Callable[[StorageEvent], StorageEvent]) -> tuple[StorageEvent, ...]:
        """Return the events to report, in order, each as `dated` returns it."""
        kept = [each for row in self.rows.values() for each in (*row.first, *row.last)]
        return tuple(dated(event) for _, event in sorted(kept, key=lambda each: each[0]))

    def left_out(self) -> dict[Pair, int]:
        """Return the number of events that are not reported."""
        left = {p: row.count - len(row.first) - len(row.last) for p, row in self.rows.items()}
        return {pair: count for pair, count in left.items() if count}


def level_of(event: StorageEvent) -> str:
    """Return the level of an unrecognized line, as in the metric."""
    return "critical" if event.kind == UNRECOGNIZED_CRITICAL else "error"


def shape_of(event: StorageEvent) -> str:
    """Return the text of a line without its numbers: lines of one message have one shape."""
    return _NUMBER.sub("0", event.text)


def log_gap(text: str, boot_id: str, sequence: int, at: float | None = None) -> StorageEvent:
    """Return the event that lines were lost before a record, whose time stamp is `at`."""
    return StorageEvent(
        source="kernel",
        kind="log_gap",
        text=text,
        boot_id=boot_id,
        monotonic_seconds=at,
        sequence=sequence,
    )


SOURCE: Source[KernelLog] = Source(
    name="kernel_log",
    period_seconds=1,
    may_hang=True,
    read=read_by_poller,
    families=FAMILIES,
    emit=emit,
)
