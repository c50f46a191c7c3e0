"""Sample store that expressions read: the newest sample of each series, and history for rules.

Units: timestamps are seconds of one clock, chosen by the caller.
"""

from __future__ import annotations

import math
import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Labels = tuple[tuple[str, str], ...]
"""Label pairs sorted by name; never with `__name__`."""

VectorItem = tuple[str, Labels, float]
"""Metric name ('' where dropped), labels, value."""

Row = tuple[str, Labels, "array[float]", "array[float]"]
"""Part of a series: metric name, labels, timestamps in order, their values."""

LOOKBACK_SECONDS = 300.0
"""A sample is valid while it is younger than this. Source: Prometheus 3: left-open (t - 5 min,
t]."""

MAX_SAMPLES = 8_000_000
"""Limit of all history: about 150 MB. A day of 1,000 series if thinned, else of 90."""
LONG_SECONDS, WHOLE_SECONDS, THINNED_SECONDS = 7200.0, 900.0, 15.0
"""If more than the first is needed, samples older than the second are thinned to one per third."""

# A quiet NaN with a payload of its own, as Prometheus marks the end of a series: arithmetic never
# yields it, and an array of floats can hold it.
_STALE_BYTES = struct.pack("<Q", 0x7FF8_0000_0057_A1E5)
_STALE: float = struct.unpack("<d", _STALE_BYTES)[0]


def _is_stale(value: float) -> bool:
    return value != value and struct.pack("<d", value) == _STALE_BYTES  # noqa: PLR0124 - NaN, quickly


class Series:
    """One series: its newest sample, and older ones if its metric has a retention.

    A plain class with slots because the daemon writes to a thousand of them each second.
    """

    __slots__ = (
        "ended_seconds",
        "labels",
        "stale",
        "timestamp_seconds",
        "timestamps",
        "value",
        "values",
    )

    def __init__(self, labels: Labels, timestamp: float, value: float, *, history: bool) -> None:
        """Start with one sample."""
        self.labels = labels
        self.timestamp_seconds = timestamp
        self.value = value
        self.stale = False
        self.ended_seconds = -math.inf
        """When a stale marker was last written."""
        self.timestamps: array[float] | None = None
        self.values: array[float] | None = None
        if history:
            self.remember()

    def remember(self) -> None:
        """Store history from the newest sample on."""
        if self.timestamps is None:
            self.timestamps = array("d", (self.timestamp_seconds,))
            self.values = array("d", (_STALE if self.stale else self.value,))

    def forget(self) -> None:
        """Drop the history, except for the newest sample."""
        self.timestamps = self.values = None

    def thin(self, begin: float, end: float) -> None:
        """Thin the samples between two times."""
        if self.timestamps is not None and self.values is not None:
            first, last = bisect_right(self.timestamps, begin), bisect_right(self.timestamps, end)
            thin(self.timestamps, self.values, first, last)

    def prepend(self, timestamps: array[float], values: array[float]) -> None:
        """Insert samples before the present ones, if they are older.

        Limits: the arrays may be changed or reused.
        """
        if self.timestamps is None or self.values is None:
            return
        end = bisect_left(timestamps, self.timestamps[0])
        del timestamps[end:], values[end:]
        if values.tobytes().find(_STALE_BYTES) >= 0:
            self.ended_seconds = max(self.ended_seconds, timestamps[-1])
        timestamps.extend(self.timestamps)
        values.extend(self.values)
        self.timestamps, self.values = timestamps, values

    def sample(self, at: float) -> tuple[float, float] | None:
        """Return timestamp and value of the newest sample in the look-back window before `at`."""
        timestamp, value, stale = self.timestamp_seconds, self.value, self.stale
        if timestamp > at:
            if self.timestamps is None or self.values is None:
                return None
            index = bisect_right(self.timestamps, at) - 1
            if index < 0:
                return None
            timestamp, value = self.timestamps[index], self.values[index]
            stale = _is_stale(value)
        return None if stale or timestamp <= at - LOOKBACK_SECONDS else (timestamp, value)

    def window(self, begin: float, end: float) -> tuple[array[float], array[float]]:
        """Return timestamps and values of the samples after `begin` and up to `end`."""
        if self.timestamps is None or self.values is None:
            inside = begin < self.timestamp_seconds <= end and not self.stale
            return (
                array("d", (self.timestamp_seconds,) if inside else ()),
                array("d", (self.value,) if inside else ()),
            )
        first, last = bisect_right(self.timestamps, begin), len(self.timestamps)
        if self.timestamp_seconds > end:
            last = bisect_right(self.timestamps, end, first)
        timestamps, values = self.timestamps[first:last], self.values[first:last]
        if self.ended_seconds > begin:
            alive = [index for index, value in enumerate(values) if not _is_stale(value)]
            if len(alive) < len(values):
                timestamps = array("d", [timestamps[index] for index in alive])
                values = array("d", [values[index] for index in alive])
        return timestamps, values


def thin(timestamps: array[float], values: array[float], first: int, last: int) -> None:
    """Keep the last sample of each slot from `first` to before `last`; return where that ended.

    A slot is a multiple of THINNED_SECONDS.
    """
    slots = [timestamp // THINNED_SECONDS for timestamp in timestamps[first : last + 1]]
    kept = [
        index
        for index in range(first, last)
        if index + 1 == len(timestamps)
        or slots[index - first] != slots[index - first + 1]
        or _is_stale(values[index])
    ]
    if len(kept) < last - first:
        timestamps[first:last] = array("d", [timestamps[index] for index in kept])
        values[first:last] = array("d", [values[index] for index in kept])


class SeriesStore:
    """Series by metric name and labels.

    Limits: a metric without retention has only its newest sample, so it cannot be evaluated at an
    earlier time. A series is dropped once its newest sample is older than look-back and retention;
    this is checked every look-back period, so the store cannot grow without limit. A sample of
    history takes 16 bytes; an eighth more is stored than needed. If the total exceeds MAX_SAMPLES,
    the metrics with most samples are `overfull`: they have no history until other rules are loaded.
    A store that `thins` reduces old samples to those of a scrape every 15 s: a day of data read
    each second would be too much.
    """

    def __init__(
        self,
        retention_seconds: Mapping[str, float] | None = None,
        any_retention_seconds: float = 0,
        *,
        thins: bool = False,
    ) -> None:
        """Store history for these metrics, and for any, for as long as the rules need it."""
        self._thins = thins
        self._thinned_seconds = -math.inf
        self.overfull: frozenset[str] = frozenset()
        self._any_retention_seconds = 0.0
        self._retention_seconds: dict[str, float] = {}
        self._set_retention(retention_seconds or {}, any_retention_seconds)
        self._tables: dict[str, dict[Labels, Series]] = {}
        self._live: dict[str, set[tuple[str, Labels]]] = {}
        """The series that each writer wrote last."""
        self._sweep_due_seconds = -math.inf

    def _set_retention(self, retention_seconds: Mapping[str, float], any_seconds: float) -> None:
        self.overfull = frozenset()
        self._any_retention_seconds = any_seconds
        self._retention_seconds = {
            name: max(seconds, any_seconds)
            for name, seconds in retention_seconds.items()
            if max(seconds, any_seconds) > 0
        }

    def retain(
        self, retention_seconds: Mapping[str, float], any_retention_seconds: float = 0
    ) -> None:
        """Change the stored history after a change of the rules; existing samples stay.

        Limits: a metric without history starts with its newest sample.
        """
        self._set_retention(retention_seconds, any_retention_seconds)
        for name, table in self._tables.items():
            kept = self.retention_seconds(name) > 0
            for series in table.values():
                if kept:
                    series.remember()
                else:
                    series.forget()

    def retention_seconds(self, name: str) -> float:
        """Return how long samples of a metric are stored; 0: only the newest one."""
        if name in self.overfull:
            return 0.0
        return self._retention_seconds.get(name, self._any_retention_seconds)

    def share(self, other: SeriesStore, name: str) -> None:
        """Read a metric from another store from now on.

        Limits: it must not be appended to here.
        """
        if table := other._tables.get(name):
            self._tables[name] = table

    def append(self, name: str, labels: Labels, timestamp: float, value: float) -> None:
        """Store one sample; see `append_many`."""
        self.append_many(timestamp, ((name, labels, value),))

    def append_many(self, timestamp: float, samples: Iterable[tuple[str, Labels, float]]) -> None:
        """Store samples of one moment.

        Limits: a sample as old as the series' newest one replaces it; an older one is ignored.
        """
        tables = self._tables
        for name, labels, value in samples:
            try:
                series = tables[name][labels]
            except KeyError:
                tables.setdefault(name, {})[labels] = Series(
                    labels, timestamp, float(value), history=self.retention_seconds(name) > 0
                )
                continue
            if timestamp < series.timestamp_seconds:
                continue
            if series.timestamps is not None:
                self._remember(series, timestamp, float(value), self.retention_seconds(name))
            series.timestamp_seconds = timestamp
            series.value = float(value)  # a template distinguishes 1 from 1.0
            series.stale = False
        if timestamp >= self._sweep_due_seconds:
            self._sweep(timestamp)

    def write(
        self, writer: str, timestamp: float, samples: Sequence[tuple[str, Labels, float]]
    ) -> None:
        """Store a writer's samples of one moment; its series without a sample are marked stale."""
        before = self._live.get(writer)
        if not samples and before is None:
            return
        live = {(sample[0], sample[1]) for sample in samples}
        for name, labels in (before or set()) - live:
            self.mark_stale(name, labels, timestamp)
        self._live[writer] = live
        self.append_many(timestamp, samples)

    def mark_stale(self, name: str, labels: Labels, timestamp: float) -> None:
        """End a series at this time, until a later sample revives it; an unknown one is ignored."""
        series = self._tables.get(name, {}).get(labels)
        if series is None or timestamp < series.timestamp_seconds:
            return
        if series.timestamps is not None:
            self._remember(series, timestamp, _STALE, self.retention_seconds(name))
        series.timestamp_seconds = series.ended_seconds = timestamp
        series.stale = True

    def end_older(self, until: float, timestamp: float) -> None:
        """End all series at a time that had no sample since another one."""
        for name, table in self._tables.items():
            for series in table.values():
                if series.timestamp_seconds <= until and not series.stale:
                    self.mark_stale(name, series.labels, timestamp)

    def samples_between(self, since: float, until: float) -> list[Row]:
        """Return the samples of history after one time and up to another."""
        rows: list[Row] = []
        for name, table in self._tables.items():
            for series in table.values() if self.retention_seconds(name) > 0 else ():
                timestamps, values = series.timestamps, series.values
                if timestamps is None or values is None or timestamps[-1] <= since:
                    continue
                first, last = bisect_right(timestamps, since), bisect_right(timestamps, until)
                if first < last:
                    rows.append((name, series.labels, timestamps[first:last], values[first:last]))
        return rows

    def restore(self, rows: Sequence[Row]) -> None:
        """Restore what `samples_between` returned before a restart, for metrics with history.

        Limits: only samples older than a series' own. They are thinned already, and the arrays are
        reused. There is no marker at the end: as in Prometheus, a series continues after a short
        stop, and its last sample stays the newest until there is another. `end_older` ends the
        series that are missing. Source: Prometheus, scrape/scrape.go, endOfRunStaleness: no markers
        at a shutdown.
        """
        for name, labels, timestamps, values in rows:
            if not timestamps or self.retention_seconds(name) <= 0:
                continue
            table = self._tables.setdefault(name, {})
            series = table.get(labels)
            if series is None:
                series = table[labels] = Series(labels, timestamps[-1], values[-1], history=True)
                series.stale = _is_stale(values[-1])
            self._thinned_seconds = max(self._thinned_seconds, timestamps[-1] - WHOLE_SECONDS)
            series.prepend(timestamps, values)

    @property
    def retention(self) -> Mapping[str, float]:
        """Return how long samples of each metric are stored; '' is any."""
        return {**self._retention_seconds, "": self._any_retention_seconds}

    def names(self) -> set[str]:
        """Return the names of all metrics that have a series."""
        return set(self._tables)

    def series(self, name: str, matches: Callable[[Labels], bool] | None = None) -> list[Series]:
        """Return a metric's matching series, the ended ones included."""
        table = self._tables.get(name, {})
        if matches is None:
            return list(table.values())
        return [series for labels, series in table.items() if matches(labels)]

    def count(self, name: str) -> int:
        """Return how many series a metric has, the ended ones included."""
        return len(self._tables.get(name, ()))

    @staticmethod
    def _remember(series: Series, timestamp: float, value: float, retention: float) -> None:
        timestamps, values = series.timestamps, series.values
        if timestamps is None or values is None:
            return
        if timestamp == series.timestamp_seconds:
            values[-1] = value
            return
        timestamps.append(timestamp)
        values.append(value)
        # Trimmed by an eighth: moving the whole array for each sample would cost more.
        if timestamps[0] < timestamp - retention * 1.125:
            cut = bisect_right(timestamps, timestamp - retention)
            del timestamps[:cut], values[:cut]

    def _sweep(self, now: float) -> None:
        self._sweep_due_seconds = now + LOOKBACK_SECONDS
        for name, table in list(self._tables.items()):
            oldest = now - max(LOOKBACK_SECONDS, self.retention_seconds(name))
            for labels in [k for k, v in table.items() if v.timestamp_seconds <= oldest]:
                del table[labels]
            if not table:
                del self._tables[name]
        if self._thins:
            self._thin(now - WHOLE_SECONDS)
        self._bound()

    def _thin(self, until: float) -> None:
        for name, table in self._tables.items():
            if self.retention_seconds(name) > LONG_SECONDS:
                for series in table.values():
                    series.thin(self._thinned_seconds, until)
        self._thinned_seconds = until

    def _bound(self) -> None:
        """Drop the history of the metrics with most samples, until it is below the limit."""
        counts = {
            name: sum(len(series.timestamps or ()) for series in table.values())
            for name, table in self._tables.items()
        }
        excess = sum(counts.values()) - MAX_SAMPLES
        for name in sorted(counts, key=lambda name: counts[name], reverse=True):
            if excess <= 0:
                break
            excess -= counts[name]
            self.overfull |= {name}
            for series in self._tables[name].values():
                series.forget()
