"""History of a series: runs of equal values over timestamps that many series share.

A series that is written each 15 s and never changes costs one run of 16 bytes; its timestamps are
those of its writer, stored once for all series of that writer. One that always changes costs 8
bytes a sample. Units: seconds of one clock.
"""

from __future__ import annotations

import math
import struct
from array import array
from bisect import bisect_left, bisect_right
from itertools import chain, pairwise, repeat
from operator import sub
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Labels = tuple[tuple[str, str], ...]
"""Label pairs sorted by name; never with `__name__`."""

Row = tuple[str, Labels, "array[float]", "array[float]"]
"""Part of a series: metric name, labels, timestamps in order, their values."""

LONG_SECONDS, WHOLE_SECONDS, THINNED_SECONDS = 7200.0, 900.0, 15.0
"""If more than the first is needed, samples older than the second are thinned to one per third."""
MAX_SEGMENTS = 32
"""A series written by several writers in turn has so many segments before they are united."""
_SLACK = 1.125
"""Trimmed by an eighth: moving an array for each sample would cost more."""


def max_samples(seconds: float, period_seconds: float = 1.0) -> int:
    """Return how many samples a series has whose value differs at each look.

    `seconds` is the history that is needed, `period_seconds` the time between two looks.
    """
    if seconds <= LONG_SECONDS:
        return math.ceil(seconds / period_seconds)
    older = (seconds - WHOLE_SECONDS) / max(period_seconds, THINNED_SECONDS)
    return math.ceil(WHOLE_SECONDS / period_seconds + older)


# Quiet NaNs with payloads of their own, as Prometheus marks the end of a series: arithmetic never
# yields them, and an array of floats can hold them.
_STALE_BYTES = struct.pack("<Q", 0x7FF8_0000_0057_A1E5)
_GAP_BYTES = struct.pack("<Q", 0x7FF8_0000_0057_A1E6)
STALE: float = struct.unpack("<d", _STALE_BYTES)[0]
_GAP: float = struct.unpack("<d", _GAP_BYTES)[0]
_MARKS = frozenset((_STALE_BYTES, _GAP_BYTES))


def is_stale(value: float) -> bool:
    """Return whether a stored value is the marker of an ended series."""
    return value != value and struct.pack("<d", value) == _STALE_BYTES  # noqa: PLR0124 - NaN, quickly


def _is_mark(value: float) -> bool:
    return value != value and struct.pack("<d", value) in _MARKS  # noqa: PLR0124 - NaN, quickly


def same(one: float, other: float) -> bool:
    """Return whether two values are the same number: 0 and -0 differ, NaN never continues a run."""
    return one == other and (one != 0.0 or math.copysign(1.0, one) == math.copysign(1.0, other))


def thin(timestamps: array[float], values: array[float], first: int, last: int) -> None:
    """Keep the last sample of each slot from `first` to before `last`, and stale markers.

    A slot is a multiple of THINNED_SECONDS.
    """
    slots = [timestamp // THINNED_SECONDS for timestamp in timestamps[first : last + 1]]
    kept = [
        index
        for index in range(first, last)
        if index + 1 == len(timestamps)
        or slots[index - first] != slots[index - first + 1]
        or is_stale(values[index])
    ]
    if len(kept) < last - first:
        timestamps[first:last] = array("d", [timestamps[index] for index in kept])
        values[first:last] = array("d", [values[index] for index in kept])


class Timeline:
    """Timestamps at which a writer wrote all its series, or those of one series alone."""

    __slots__ = ("is_shared", "previous_seconds", "retention_seconds", "thinned_seconds", "ticks")

    def __init__(self, ticks: Iterable[float] = (), *, is_shared: bool) -> None:
        """Start with some timestamps, in order."""
        self.ticks = array("d", ticks)
        self.is_shared = is_shared
        self.previous_seconds = self.ticks[-2] if len(self.ticks) > 1 else -math.inf
        """The last timestamp but one, even if it is thinned out."""
        self.thinned_seconds = -math.inf
        self.retention_seconds = 0.0
        """The longest that one of its series needs."""

    def advance(self, timestamp: float) -> None:
        """Add a timestamp; the last one again is ignored."""
        ticks = self.ticks
        if not ticks:
            ticks.append(timestamp)
        elif timestamp > ticks[-1]:
            self.previous_seconds = ticks[-1]
            ticks.append(timestamp)
            if ticks[0] < timestamp - self.retention_seconds * _SLACK:
                self.trim(timestamp - self.retention_seconds)

    def extend(self, ticks: array[float]) -> None:
        """Add later timestamps."""
        self.previous_seconds = ticks[-2] if len(ticks) > 1 else self.ticks[-1]
        self.ticks.extend(ticks)

    def trim(self, until: float) -> None:
        """Drop the timestamps up to a time."""
        if self.ticks and self.ticks[0] <= until:
            del self.ticks[: bisect_right(self.ticks, until)]

    def shift(self, by_seconds: float) -> None:
        """Shift all timestamps."""
        self.ticks = array("d", [tick + by_seconds for tick in self.ticks])
        self.previous_seconds += by_seconds
        self.thinned_seconds += by_seconds

    def thin(self, until: float) -> None:
        """Keep the last timestamp of each slot, up to a time."""
        ticks = self.ticks
        first, last = bisect_right(ticks, self.thinned_seconds), bisect_right(ticks, until)
        self.thinned_seconds = max(until, self.thinned_seconds)
        slots = [tick // THINNED_SECONDS for tick in ticks[first : last + 1]]
        slots += [math.inf] * (last - first + 1 - len(slots))
        pairs = zip(ticks[first:last], pairwise(slots), strict=True)
        kept = [tick for tick, (own, following) in pairs if own != following]
        if len(kept) < last - first:
            ticks[first:last] = array("d", kept)


class _Segment:
    """Runs of one series over one timeline: the begin of each run, and its value.

    A run has a sample at each timestamp until the next run, or until `last_seconds`. A stale marker
    is a run with the marker at its begin and nothing after it; a gap is a run without samples.
    Dense: while each timestamp begins a run, the begins are not stored; the last value is that of
    the timestamp `last_seconds`. Limits: expand it before timestamps between others are dropped.
    """

    __slots__ = ("last_seconds", "starts", "timeline", "values")

    def __init__(self, timeline: Timeline, timestamp: float, value: float) -> None:
        self.timeline = timeline
        self.values = array("d", (value,))
        self.last_seconds = timestamp
        dense = timeline.ticks[-1] == timestamp and not math.isnan(value)
        self.starts = None if dense else array("d", (timestamp,))
        """None: dense, then without NaN."""

    def add(self, timestamp: float, value: float, before: float) -> None:
        """Add a sample or a stale marker; `before`: the timeline's timestamp before this one."""
        newest = self.values[-1]
        if self.starts is None and (value < newest or value > newest):
            if timestamp == self.last_seconds:  # replaced
                self.values[-1] = value
                return
            if before == self.last_seconds and self.timeline.ticks[-1] == timestamp:
                self.values.append(value)
                self.last_seconds = timestamp
                return
        starts = self.expand()
        if timestamp == self.last_seconds:
            if starts[-1] == timestamp:
                self.values[-1] = value
            elif not same(newest, value):
                self._begin(starts, timestamp, value)
            return
        if newest != newest and _is_mark(newest):  # noqa: PLR0124 - NaN, quickly
            self._begin(starts, timestamp, value)
        else:
            if before > self.last_seconds:  # not written each time
                ticks = self.timeline.ticks
                missed = ticks[bisect_right(ticks, self.last_seconds)]
                if missed < timestamp:
                    self._begin(starts, missed, _GAP)
                    newest = _GAP
            if not same(newest, value):
                self._begin(starts, timestamp, value)
        self.last_seconds = timestamp

    def _begin(self, starts: array[float], timestamp: float, value: float) -> None:
        starts.append(timestamp)
        self.values.append(value)

    def _stop(self) -> int:
        """Return how many timestamps the timeline has up to the last sample."""
        ticks = self.timeline.ticks
        if ticks and ticks[-1] == self.last_seconds:
            return len(ticks)
        return bisect_right(ticks, self.last_seconds)

    def expand(self) -> array[float]:
        """Store the begins of the runs, and return them."""
        if self.starts is None:
            stop = self._stop()
            starts = self.timeline.ticks[max(0, stop - len(self.values)) : stop]
            self.starts = starts = starts or array("d", (self.last_seconds,))
            del self.values[: -len(starts)]
        return self.starts

    def _condense(self) -> None:
        """Do not store the begins of the runs if each timestamp begins one."""
        if self.starts is None or math.isnan(sum(self.values)):
            return
        stop = self._stop()
        count = min(stop, len(self.starts))
        ticks = self.timeline.ticks[stop - count : stop]
        if self.starts[-count:] == ticks:
            self.starts = None

    def extend(self, ticks: array[float], values: array[float]) -> None:
        """Add samples whose timestamps the timeline has just got as its last ones."""
        before = bisect_left(self.timeline.ticks, ticks[0]) - 1
        self.add(ticks[0], values[0], self.timeline.ticks[before] if before >= 0 else -math.inf)
        starts = self.expand()
        for index in _changes(values):
            self._begin(starts, ticks[index], values[index])
        self.last_seconds = ticks[-1]

    def read(
        self, begin: float, end: float, *, marks: bool
    ) -> tuple[array[float], array[float]] | None:
        """Return the samples after `begin` and up to `end`, with or without stale markers."""
        starts, ticks = self.starts, self.timeline.ticks
        if starts is None:
            stop = last = self._stop()
            if end < self.last_seconds:
                last = bisect_right(ticks, end, 0, stop)
            later = len(self.values) - stop
            first = bisect_right(ticks, begin, 0, last)
            if first + later < 0:
                first = -later
            if first >= last:
                return None
            return ticks[first:last], self.values[first + later : last + later]
        end = min(end, self.last_seconds)
        stop = bisect_right(starts, end)
        if not stop or end <= begin:
            return None
        run = max(0, bisect_right(starts, begin, 0, stop) - 1)
        first = max(bisect_right(ticks, begin), bisect_left(ticks, starts[run]))
        last = max(first, bisect_right(ticks, end))
        values = self.values[run:stop]
        if math.isnan(sum(values)):  # a marker, or a NaN that was measured
            return self._read_runs(starts, (run, stop), begin, (first, last), marks=marks)
        if first == last:
            return None
        if skipped := bisect_right(starts, ticks[first], run, stop) - 1 - run:
            run += skipped
            del values[:skipped]
        if len(values) == 1:
            return ticks[first:last], values * (last - first)
        if len(values) == last - first and starts[run + 1 : stop] == ticks[first + 1 : last]:
            return ticks[first:last], values
        bounds = [first, *map(bisect_left, repeat(ticks), starts[run + 1 : stop]), last]
        counts = map(sub, bounds[1:], bounds)
        return ticks[first:last], array("d", chain.from_iterable(map(repeat, values, counts)))

    def _read_runs(
        self,
        starts: array[float],
        runs: tuple[int, int],
        begin: float,
        bounds: tuple[int, int],
        *,
        marks: bool,
    ) -> tuple[array[float], array[float]]:
        """Return the samples run by run: there are markers among them."""
        ticks, (first, last), (run, stop) = self.timeline.ticks, bounds, runs
        timestamps, values = array("d"), array("d")
        for index in range(run, stop):
            start, value = starts[index], self.values[index]
            if _is_mark(value):
                if marks and start > begin and is_stale(value):
                    timestamps.append(start)
                    values.append(value)
                continue
            low = max(first, bisect_left(ticks, start))
            high = bisect_left(ticks, starts[index + 1]) if index + 1 < stop else last
            if low < high:
                timestamps.extend(ticks[low:high])
                values.extend(repeat(value, high - low))
        return timestamps, values

    def sample(self, at: float) -> tuple[float, float] | None:
        """Return the newest sample or stale marker up to a time."""
        starts, ticks = self.starts, self.timeline.ticks
        if starts is None:
            stop = self._stop()
            tick = bisect_right(ticks, at, 0, stop) - 1
            index = len(self.values) - stop + tick
            return None if min(tick, index) < 0 else (ticks[tick], self.values[index])
        at = min(at, self.last_seconds)
        run = bisect_right(starts, at) - 1
        while run >= 0:
            value = self.values[run]
            if is_stale(value):
                return starts[run], value
            if not _is_mark(value):
                tick = bisect_right(ticks, at) - 1
                if tick >= 0 and ticks[tick] >= starts[run]:
                    return ticks[tick], value
            at = math.nextafter(starts[run], -math.inf)
            run -= 1
        return None

    def is_long(self, since: float) -> bool:
        """Return whether it has begun a run with its last sample, and has one from before a time.

        Limits: a dense one may have one value whose timestamp is dropped.
        """
        if self.starts is not None:
            return self.starts[-1] == self.last_seconds and self.starts[0] < since
        ticks = self.timeline.ticks
        first = self._stop() - len(self.values)
        return first < -1 or (bool(ticks) and ticks[max(0, first)] < since)

    def trim(self, until: float) -> None:
        """Drop the runs that ended before a time."""
        starts = self.starts
        if starts is None:
            later = self._stop() - bisect_right(self.timeline.ticks, until)
            gone = len(self.values) - 1 - max(0, later)
        else:
            gone = bisect_right(starts, until) - 1
        if gone <= 0:
            return
        del self.values[:gone]
        if starts is not None:
            del starts[:gone]
            self._condense()

    def before(self, timestamp: float) -> list[_Segment]:
        """Drop the sample or marker of this time, the newest one; return what is left, or none."""
        if self.starts is None or self.starts[-1] == timestamp:
            del self.values[-1]
            if self.starts is not None:
                del self.starts[-1]
        self.last_seconds = math.nextafter(timestamp, -math.inf)
        return [self] if self.values else []

    def compact(self) -> None:
        """Drop the runs whose timestamps were thinned out."""
        starts, values, ticks = self.expand(), self.values, self.timeline.ticks
        bounds = [*map(bisect_left, repeat(ticks), starts), len(ticks)]
        new_starts, new_values = array("d"), array("d")
        newest = len(starts) - 1
        for index, (start, value) in enumerate(zip(starts, values, strict=True)):
            if bounds[index] == bounds[index + 1] and index < newest and not _is_mark(value):
                continue
            if new_values and same(new_values[-1], value):
                continue
            new_starts.append(start)
            new_values.append(value)
        self.starts, self.values = new_starts, new_values


class Timelines:
    """Timelines to which stored samples are added part by part, so that series share them."""

    def __init__(self) -> None:
        """Start without any."""
        self._ending: dict[bytes, Timeline] = {}

    def find(self, ticks: array[float], own: Timeline | None) -> Timeline:
        """Return a timeline that ends with these timestamps: `own` is extended if it can be."""
        key = ticks.tobytes()
        found = self._ending.get(key)
        if found is None or not found.ticks or found.ticks[-1] != ticks[-1]:
            if own is not None and own.ticks and own.ticks[-1] < ticks[0]:
                own.extend(ticks)
                found = own
            else:
                found = Timeline(ticks, is_shared=True)
            self._ending[key] = found
        return found

    def next_part(self) -> None:
        """Forget which timelines end how: what follows is later."""
        self._ending.clear()


class History:
    """The samples of one series, oldest first. Limits: times only increase."""

    __slots__ = ("_segments",)

    def __init__(self) -> None:
        """Start without samples."""
        self._segments: list[_Segment] = []

    @property
    def last_seconds(self) -> float:
        """Return the time of the newest sample or marker."""
        return self._segments[-1].last_seconds if self._segments else -math.inf

    @property
    def runs(self) -> int:
        """Return how many runs are stored."""
        return sum(len(segment.values) for segment in self._segments)

    def timelines(self) -> Iterator[Timeline]:
        """Yield the timelines in use."""
        for segment in self._segments:
            yield segment.timeline

    def append(
        self, timestamp: float, value: float, timeline: Timeline | None, retention: float
    ) -> None:
        """Add a sample; `timeline` is that of its writer and has this time already. None: alone."""
        segment = self._segments[-1] if self._segments else None
        if timeline is None:
            own = segment is not None and not segment.timeline.is_shared
            timeline = segment.timeline if segment and own else Timeline(is_shared=False)
            timeline.retention_seconds = retention
            timeline.advance(timestamp)
        if segment is None or segment.timeline is not timeline:
            timeline.retention_seconds = max(timeline.retention_seconds, retention)
            self._switch(timestamp, value, timeline)
            return
        segment.add(timestamp, value, timeline.previous_seconds)
        if segment.is_long(timestamp - retention * _SLACK):
            segment.trim(timestamp - retention)

    def _switch(self, timestamp: float, value: float, timeline: Timeline) -> None:
        if self._segments and self._segments[-1].last_seconds == timestamp:  # replaced
            self._segments[-1:] = self._segments[-1].before(timestamp)
        if len(self._segments) >= MAX_SEGMENTS:
            self._unite()
        self._segments.append(_Segment(timeline, timestamp, value))

    def retain(self, retention: float) -> None:
        """Keep the timestamps for so long, at least."""
        for timeline in self.timelines():
            timeline.retention_seconds = max(timeline.retention_seconds, retention)

    def mark_stale(self, timestamp: float) -> None:
        """Add a stale marker; it needs no timestamp of the timeline."""
        if self._segments:
            self._segments[-1].add(timestamp, STALE, -math.inf)

    def extend(self, ticks: array[float], values: array[float], timelines: Timelines) -> None:
        """Add stored samples, stale markers included, later than all present ones."""
        segment = self._segments[-1] if self._segments else None
        timeline = timelines.find(ticks, None if segment is None else segment.timeline)
        if segment is None or segment.timeline is not timeline:
            if len(self._segments) >= MAX_SEGMENTS:
                self._unite()
            segment = _Segment(timeline, ticks[0], values[0])
            self._segments.append(segment)
        segment.extend(ticks, values)

    def prepend(self, earlier: History) -> None:
        """Put older samples before the present ones."""
        self._segments[:0] = earlier._segments
        if len(self._segments) > MAX_SEGMENTS:
            self._unite()

    def _unite(self) -> None:
        timestamps, values = self.window(-math.inf, math.inf, marks=True)
        timeline = Timeline(timestamps, is_shared=False)
        timeline.retention_seconds = max(each.retention_seconds for each in self.timelines())
        segment = _Segment(timeline, timestamps[0], values[0])
        segment.extend(timestamps, values)
        self._segments = [segment]

    def window(
        self, begin: float, end: float, *, marks: bool = False
    ) -> tuple[array[float], array[float]]:
        """Return the samples after `begin` and up to `end`, with or without stale markers."""
        found: tuple[array[float], array[float]] | None = None
        if len(self._segments) == 1:
            return self._segments[0].read(begin, end, marks=marks) or (array("d"), array("d"))
        for segment in self._segments:
            if segment.last_seconds <= begin:
                continue
            part = segment.read(begin, end, marks=marks)
            if part is None:
                continue
            if found is None:
                found = part
            else:
                found[0].extend(part[0])
                found[1].extend(part[1])
        return found or (array("d"), array("d"))

    def sample(self, at: float) -> tuple[float, float] | None:
        """Return the newest sample or stale marker up to a time."""
        for segment in reversed(self._segments):
            if found := segment.sample(at):
                return found
        return None

    def trim(self, until: float) -> None:
        """Drop what is older than a time; the newest sample stays."""
        segments = self._segments
        while len(segments) > 1 and segments[0].last_seconds <= until:
            del segments[0]
        for segment in segments[:1]:
            segment.trim(until)

    def expand(self) -> None:
        """Store all begins of runs, before timestamps between others are thinned out."""
        for segment in self._segments:
            segment.expand()

    def compact(self) -> None:
        """Drop the runs whose timestamps were thinned out."""
        for segment in self._segments:
            segment.compact()

    def shift(self, by_seconds: float) -> None:
        """Shift the times of the runs, not those of the timelines."""
        for segment in self._segments:
            starts = segment.expand()
            segment.starts = array("d", [start + by_seconds for start in starts])
            segment.last_seconds += by_seconds


def _changes(values: array[float]) -> Iterator[int]:
    """Yield where a value differs from the one before it."""
    for index, (before, value) in enumerate(pairwise(values), 1):
        if not same(before, value):
            yield index


Stored = tuple[str, Labels, History]
"""Metric name, labels and samples of a series."""


def packed(parts: Iterable[Sequence[Row]]) -> list[Stored]:
    """Return parts of series, in order of time, as histories; samples that come again are dropped.

    Limits: the parts are not needed any longer.
    """
    found: dict[tuple[str, Labels], History] = {}
    timelines = Timelines()
    for rows in parts:
        timelines.next_part()
        for name, labels, timestamps, values in rows:
            history = found.get((name, labels))
            if history is None:
                history = found[name, labels] = History()
            first = bisect_right(timestamps, history.last_seconds)
            if first < len(timestamps):
                history.extend(timestamps[first:], values[first:], timelines)
    return [(*key, history) for key, history in found.items()]


def shift(stored: Iterable[Stored], by_seconds: float) -> None:
    """Shift the times of series that share timelines."""
    timelines: set[Timeline] = set()
    for _, _, history in stored:
        timelines.update(history.timelines())
        history.shift(by_seconds)
    for timeline in timelines:
        timeline.shift(by_seconds)
