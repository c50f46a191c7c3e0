"""Sample store that expressions read: the newest sample of each series, and history for rules.

Units: timestamps are seconds of one clock, chosen by the caller.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.promql import history as runs
from iowarden.rules.promql.history import (
    LONG_SECONDS,
    WHOLE_SECONDS,
    History,
    Row,
    Stored,
    Timeline,
    is_stale,
    same,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from iowarden.rules.promql.automaton import Steps

Labels = runs.Labels
"""Label pairs sorted by name; never with `__name__`."""

VectorItem = tuple[str, Labels, float]
"""Metric name ('' where dropped), labels, value."""

LOOKBACK_SECONDS = 300.0
"""A sample is valid while it is younger than this. Source: Prometheus 3: left-open (t - 5 min,
t]."""

EXPIRY_MARGIN_SECONDS = 1.0
"""A sample is expected to expire a little early, so that rounding cannot make it late."""

MAX_SAMPLES = 8_000_000
"""Limit of all history: runs of equal values, and timestamps; about 130 MB.

A day of 1,000 series whose values always differ if thinned, else of 90; any number of constant
ones."""
MAX_WINDOWS = 32
"""If rules have more different selectors of a metric, all its series have the longest history:
each new series would be matched with each of them."""
_SMALL_RATIO = 0.01
"""A window that holds less of MAX_SAMPLES is not dropped: it would not help."""


@dataclass(frozen=True, slots=True)
class Window:
    """History that an expression needs: of the series that a selector selects, for so long.

    Fields: `selector` as text, which identifies it; `name`: the metric's, '' if it has none;
    `seconds`: range, offset and look-back; 0: the newest sample is enough.
    """

    selector: str
    name: str
    seconds: float
    matches: Callable[[str, Labels], bool] | None = field(default=None, repr=False, compare=False)
    """Tests name and labels; None: every series of the name, or any."""

    def selects(self, name: str, labels: Labels) -> bool:
        """Return whether a series belongs to it."""
        return self.name in ("", name) and (self.matches is None or self.matches(name, labels))

    def known(self, by_selector: Mapping[str, float]) -> list[float]:
        """Return the values of the selectors that select its series and perhaps more."""
        larger = {self.selector, self.selector.partition("{")[0], ""}
        return [by_selector[text] for text in larger if text in by_selector]


class Series:
    """One series: its newest sample, and older ones if some rule needs them.

    A plain class with slots because the daemon writes to a thousand of them each second.
    """

    __slots__ = (
        "history",
        "labels",
        "name",
        "retention_seconds",
        "stale",
        "timestamp_seconds",
        "value",
    )

    def __init__(
        self, name: str, labels: Labels, timestamp: float, value: float, retention: float
    ) -> None:
        """Start with one sample."""
        self.name = name
        """Of its metric; '' after the store has dropped it."""
        self.labels = labels
        self.timestamp_seconds = timestamp
        self.value = value
        self.stale = False
        self.retention_seconds = retention
        """How long older samples are stored; 0: they are not."""
        self.history: History | None = None

    def remember(self) -> None:
        """Store history from the newest sample on."""
        self.history = History()
        self.history.append(self.timestamp_seconds, self.value, None, self.retention_seconds)
        if self.stale:
            self.history.mark_stale(self.timestamp_seconds)

    def sample(self, at: float) -> tuple[float, float] | None:
        """Return timestamp and value of the newest sample in the look-back window before `at`."""
        timestamp, value, stale = self.timestamp_seconds, self.value, self.stale
        if timestamp > at:
            found = None if self.history is None else self.history.sample(at)
            if found is None:
                return None
            timestamp, value = found
            stale = is_stale(value)
        return None if stale or timestamp <= at - LOOKBACK_SECONDS else (timestamp, value)

    def window(self, begin: float, end: float) -> tuple[array[float], array[float]]:
        """Return timestamps and values of the samples after `begin` and up to `end`."""
        if self.history is not None:
            return self.history.window(begin, end)
        inside = begin < self.timestamp_seconds <= end and not self.stale
        return (
            array("d", (self.timestamp_seconds,) if inside else ()),
            array("d", (self.value,) if inside else ()),
        )


class _Writer:
    """One that writes several series at a time: the series it wrote last, and its timelines."""

    __slots__ = ("live", "samples", "timelines", "timestamp_seconds")

    def __init__(self) -> None:
        self.live: list[Series] = []
        """In the order of its samples."""
        self.timelines: dict[bool, Timeline] = {}
        """By whether it is thinned."""
        self.samples: Sequence[tuple[str, Labels, float]] = ()
        """What it wrote last, and when."""
        self.timestamp_seconds = -math.inf

    def timeline(self, timestamp: float, retention: float, *, thinned: bool) -> Timeline:
        """Return the timeline of series that are thinned or not; a new one starts at a time."""
        timeline = self.timelines.get(thinned)
        if timeline is None:
            timeline = self.timelines[thinned] = Timeline(is_shared=True)
            timeline.retention_seconds = retention
            timeline.advance(timestamp)
        return timeline


class SeriesStore:
    """Series by metric name and labels.

    Limits: a series without retention has only its newest sample, so it cannot be evaluated at an
    earlier time. A series is dropped once its newest sample is older than look-back and retention;
    this is checked every look-back period, so the store cannot grow without limit. A run of equal
    values takes 16 bytes of history, 8 if all values differ, and a timestamp of a writer 8; an
    eighth more is stored than needed. If the total exceeds MAX_SAMPLES, the longest windows are
    `overfull`: their series have no history until other rules are loaded, unless a shorter window
    needs it. A store that `thins` reduces old samples to those of a scrape every 15 s: a day of
    data read each second would be too much.
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
        self.overfull: frozenset[str] = frozenset()
        """Selectors of windows without history, because there was too much."""
        self._windows: tuple[Window, ...] = ()
        self._requested: tuple[Window, ...] = ()
        self._by_name: dict[str, list[Window]] = {}
        named = [Window(name, name, each) for name, each in (retention_seconds or {}).items()]
        self._set_windows((*named, Window("", "", any_retention_seconds)))
        self._tables: dict[str, dict[Labels, Series]] = {}
        self._writers: dict[str, _Writer] = {}
        self._sweep_due_seconds = -math.inf
        self.numbers = 0
        """Runs and timestamps that were stored when it was last checked."""
        self.version = 0
        """Grows with each change of what an instant vector contains."""
        self._versions: dict[str, int] = {}
        """By metric the version of its last change."""
        self._expiries: dict[str, float] = {}
        """By metric a time before which none of its samples leaves the look-back window."""

    def _set_windows(self, windows: Iterable[Window]) -> None:
        self._windows = tuple(window for window in windows if window.seconds > 0)
        by_name: dict[str, list[Window]] = {"": []}
        for window in (*self._windows, *self._requested):
            by_name.setdefault(window.name, []).append(window)
        for name, own in by_name.items():
            if len(own) > MAX_WINDOWS:
                own[:] = [Window(name, name, max(window.seconds for window in own))]
            own[:] = [window for window in own if window.selector not in self.overfull]
        self._by_name = by_name

    def retain(self, windows: Collection[Window]) -> None:
        """Change the stored history after a change of the rules; existing samples stay.

        Limits: a series without history starts with its newest sample.
        """
        self.overfull = frozenset()
        self._set_windows(windows)
        self._apply_windows()

    def request(self, windows: Collection[Window]) -> None:
        """Store history for queries as well, of metrics with a name; replaces those of before.

        Limits: they go first when MAX_SAMPLES is exceeded.
        """
        self._requested = tuple(windows)
        self._set_windows(self._windows)
        self._apply_windows()

    @property
    def requested(self) -> tuple[Window, ...]:
        """Return the windows that only queries need."""
        return self._requested

    def _apply_windows(self) -> None:
        for name, table in self._tables.items():
            for series in table.values():
                series.retention_seconds = self.needed_seconds(name, series.labels)
                if series.retention_seconds <= 0:
                    series.history = None
                    continue
                if series.history is None:
                    series.remember()
                else:
                    series.history.retain(series.retention_seconds)

    def needed_seconds(self, name: str, labels: Labels) -> float:
        """Return how long samples of a series are stored; 0: only the newest one."""
        own = self._by_name.get(name, ()) if name else ()
        return max(
            (
                window.seconds
                for windows in (own, self._by_name[""])
                for window in windows
                if window.selects(name, labels)
            ),
            default=0.0,
        )

    def retention_seconds(self, window: Window) -> float:
        """Return how long the samples of all series of a window are stored, at least."""
        return max(window.known(self.retention), default=0.0)

    @property
    def retention(self) -> Mapping[str, float]:
        """Return how long the samples of each selector's series are stored."""
        return {
            window.selector: window.seconds
            for windows in self._by_name.values()
            for window in sorted(windows, key=lambda each: each.seconds)
        }

    @property
    def retention_by_name(self) -> Mapping[str, float]:
        """Return the longest time that samples of a metric are stored; '' is any other."""
        return {
            name: max((window.seconds for window in windows), default=0.0)
            for name, windows in self._by_name.items()
        }

    def share(self, other: SeriesStore, name: str) -> None:
        """Read a metric from another store from now on.

        Limits: it must not be appended to here.
        """
        if table := other._tables.get(name):
            self._tables[name] = table

    def append(self, name: str, labels: Labels, timestamp: float, value: float) -> None:
        """Store one sample; see `append_many`."""
        self.append_many(timestamp, ((name, labels, value),))

    def append_many(
        self,
        timestamp: float,
        samples: Iterable[tuple[str, Labels, float]],
        writer: _Writer | None = None,
    ) -> None:
        """Store samples of one moment.

        Limits: a sample as old as the series' newest one replaces it; an older one is ignored.
        """
        tables = self._tables
        changed = set()
        for name, labels, value in samples:
            try:
                series = tables[name][labels]
            except KeyError:
                retention = self.needed_seconds(name, labels)
                series = Series(name, labels, timestamp, float(value), retention)
                tables.setdefault(name, {})[labels] = series
                if retention > 0:
                    series.history = History()
                    self._remember(series, series.history, timestamp, series.value, writer)
                changed.add(name)
                continue
            if self._append_to(series, timestamp, value, writer):
                changed.add(name)
        self._note(changed, timestamp)
        if timestamp >= self._sweep_due_seconds:
            self._sweep(timestamp)

    def _append_to(
        self, series: Series, timestamp: float, value: float, writer: _Writer | None
    ) -> bool:
        """Store a sample; return whether an instant vector of its metric is another one now."""
        before = series.timestamp_seconds
        if timestamp < before:
            return False
        if (history := series.history) is not None:
            self._remember(series, history, timestamp, float(value), writer)
        series.timestamp_seconds = timestamp
        oldest = timestamp - LOOKBACK_SECONDS
        if same(value, series.value) and not series.stale and before > oldest:
            return False
        series.value = float(value)  # a template distinguishes 1 from 1.0
        series.stale = False
        return True

    def _remember(
        self,
        series: Series,
        history: History,
        timestamp: float,
        value: float,
        writer: _Writer | None,
    ) -> None:
        """Add a sample to a series' history, over the timeline of its writer."""
        retention = series.retention_seconds
        timeline = None
        if writer is not None:
            thinned = self._thins and retention > LONG_SECONDS
            timeline = writer.timeline(timestamp, retention, thinned=thinned)
        history.append(timestamp, value, timeline, retention)

    def _note(self, changed: Iterable[str], timestamp: float) -> None:
        """Note that the samples of these metrics are others from this time on."""
        for name in changed:
            self.version += 1
            self._versions[name] = self.version
            expiry = timestamp + LOOKBACK_SECONDS - EXPIRY_MARGIN_SECONDS
            self._expiries[name] = min(expiry, self._expiries.get(name, math.inf))

    def changed(self, names: Iterable[str], version: int, now: float) -> bool:
        """Return whether an instant vector of these metrics may be another one than at a version.

        False is certain: no value is another one, no series is new, ended, or left the look-back
        window. `now` must not be earlier than at that version.
        """
        for name in names:
            if now >= self._expiries.get(name, math.inf):
                self._expire(name, now)
            if self._versions.get(name, 0) > version:
                return True
        return False

    def _expire(self, name: str, now: float) -> None:
        """Note that samples of a metric may have left the look-back window."""
        valid = (
            series.timestamp_seconds
            for series in self._tables.get(name, {}).values()
            if not series.stale and series.timestamp_seconds > now - LOOKBACK_SECONDS
        )
        self._expiries[name] = math.inf
        self._note((name,), min(valid, default=math.inf))

    def write(
        self, writer: str, timestamp: float, samples: Sequence[tuple[str, Labels, float]]
    ) -> None:
        """Store a writer's samples of one moment; its series without a sample are marked stale.

        Limits: `samples` must not be changed afterwards.
        """
        own = self._writers.get(writer)
        if own is None:
            if not samples:
                return
            own = self._writers[writer] = _Writer()
        if samples and samples is own.samples and self._append_repeated(own, timestamp):
            return
        own.samples, own.timestamp_seconds = samples, timestamp
        if len(own.live) == len(samples) and self._append_same(own, timestamp, samples):
            return
        live = {(sample[0], sample[1]) for sample in samples}
        for series in own.live:
            if (series.name, series.labels) not in live:
                self.mark_stale(series.name, series.labels, timestamp)
        for timeline in own.timelines.values():
            timeline.advance(timestamp)
        self.append_many(timestamp, samples, own)
        own.live = [self._tables[name][labels] for name, labels, _ in samples]

    def _append_repeated(self, writer: _Writer, timestamp: float) -> bool:
        """Store what a writer wrote last once more, at another time.

        Returns False, with some of it stored, where that needs more than the new time.
        """
        before = writer.timestamp_seconds
        if not timestamp - LOOKBACK_SECONDS < before <= timestamp:
            return False
        for series, (_, _, value) in zip(writer.live, writer.samples, strict=True):
            if (
                series.timestamp_seconds != before
                or series.value != value  # another writer's
                or series.stale
                or series.history is not None
            ):
                return False
            series.timestamp_seconds = timestamp
        writer.timestamp_seconds = timestamp
        if timestamp >= self._sweep_due_seconds:
            self._sweep(timestamp)
        return True

    def _append_same(
        self,
        writer: _Writer,
        timestamp: float,
        samples: Sequence[tuple[str, Labels, float]],
    ) -> bool:
        """Store samples of the series that a writer wrote last, without looking them up.

        Returns False, with some of them stored, if it writes other ones now.
        """
        for timeline in writer.timelines.values():
            timeline.advance(timestamp)
        changed = set()
        oldest = timestamp - LOOKBACK_SECONDS
        complete = True
        for series, (name, labels, value) in zip(writer.live, samples, strict=True):
            if series.name != name or series.labels != labels:
                complete = False
                break
            before = series.timestamp_seconds
            if (  # Nearly every series: no function call for it.
                value == series.value
                and (value or same(value, series.value))  # 0 is not -0
                and series.history is None
                and oldest < before <= timestamp
                and not series.stale
            ):
                series.timestamp_seconds = timestamp
            elif self._append_to(series, timestamp, value, writer):
                changed.add(name)
        self._note(changed, timestamp)
        if complete and timestamp >= self._sweep_due_seconds:
            self._sweep(timestamp)
        return complete

    def mark_stale(self, name: str, labels: Labels, timestamp: float) -> None:
        """End a series at this time, until a later sample revives it; an unknown one is ignored."""
        series = self._tables.get(name, {}).get(labels)
        if series is None or timestamp < series.timestamp_seconds:
            return
        if series.history is not None:
            series.history.mark_stale(timestamp)
        series.timestamp_seconds = timestamp
        series.stale = True
        self._note((name,), timestamp)

    def end_older(self, until: float, timestamp: float) -> None:
        """End all series at a time that had no sample since another one."""
        for name, table in self._tables.items():
            for series in table.values():
                if series.timestamp_seconds <= until and not series.stale:
                    self.mark_stale(name, series.labels, timestamp)

    def samples_between(self, since: float, until: float) -> list[Row]:
        """Return the samples of history after one time and up to another, with stale markers."""
        rows: list[Row] = []
        for name, table in self._tables.items():
            for series in table.values():
                if series.history is None or series.history.last_seconds <= since:
                    continue
                timestamps, values = series.history.window(since, until, marks=True)
                if timestamps:
                    rows.append((name, series.labels, timestamps, values))
        return rows

    def restore(self, stored: Iterable[Stored]) -> None:
        """Restore what `samples_between` returned before a restart, for series with history.

        Limits: only samples older than a series' own. They are thinned already, and the histories
        are reused. There is no marker at the end: as in Prometheus, a series continues after a
        short stop, and its last sample stays the newest until there is another. `end_older` ends
        the series that are missing. Source: Prometheus, scrape/scrape.go, endOfRunStaleness: no
        markers at a shutdown.
        """
        for name, labels, history in stored:
            series = self._tables.get(name, {}).get(labels)
            retention = (
                self.needed_seconds(name, labels) if series is None else series.retention_seconds
            )
            last = history.sample(math.inf)
            if last is None or retention <= 0:
                continue
            history.retain(retention)
            for timeline in history.timelines():
                if self._thins and retention > LONG_SECONDS:
                    timeline.thinned_seconds = max(
                        timeline.thinned_seconds, timeline.ticks[-1] - WHOLE_SECONDS
                    )
            if series is None:
                series = Series(name, labels, *last, retention)
                series.stale = is_stale(last[1])
                series.history = history
                self._tables.setdefault(name, {})[labels] = series
                self._note((name,), series.timestamp_seconds)
            elif series.history is not None:
                series.history.prepend(history)

    def names(self) -> set[str]:
        """Return the names of all metrics that have a series."""
        return set(self._tables)

    def series(
        self,
        name: str,
        matches: Callable[[Labels, Steps | None], bool] | None = None,
        steps: Steps | None = None,
    ) -> list[Series]:
        """Return a metric's matching series, the ended ones included."""
        table = self._tables.get(name, {})
        if matches is None:
            return list(table.values())
        return [series for labels, series in table.items() if matches(labels, steps)]

    def count(self, name: str) -> int:
        """Return how many series a metric has, the ended ones included."""
        return len(self._tables.get(name, ()))

    def _sweep(self, now: float) -> None:
        self._sweep_due_seconds = now + LOOKBACK_SECONDS
        for name, table in list(self._tables.items()):
            gone = [
                labels
                for labels, series in table.items()
                if series.timestamp_seconds <= now - max(LOOKBACK_SECONDS, series.retention_seconds)
            ]
            for labels in gone:
                table.pop(labels).name = ""  # its writer looks it up again
            if not table:
                del self._tables[name]
        self._trim(now)
        self._bound(now)

    def _trim(self, now: float) -> None:
        """Drop what no window needs any longer, thin out what is old, and count the rest."""
        least: dict[Timeline, float] = {}
        most: dict[Timeline, float] = {}
        kept: list[tuple[Series, History]] = []
        for table in self._tables.values():
            for series in table.values():
                if series.history is None:
                    continue
                kept.append((series, series.history))
                series.history.trim(now - series.retention_seconds)
                for timeline in series.history.timelines():
                    retention = series.retention_seconds
                    least[timeline] = min(retention, least.get(timeline, retention))
                    most[timeline] = max(retention, most.get(timeline, retention))
        for writer in self._writers.values():
            writer.timelines = {key: own for key, own in writer.timelines.items() if own in most}
        for timeline, retention in most.items():
            timeline.retention_seconds = retention
            timeline.trim(now - retention)
        if self._thins:
            thinned = {timeline for timeline in most if least[timeline] > LONG_SECONDS}
            affected = [own for _, own in kept if not thinned.isdisjoint(own.timelines())]
            for history in affected:
                history.expand()
            for timeline in thinned:
                timeline.thin(now - WHOLE_SECONDS)
            for history in affected:
                history.compact()
        self.numbers = sum(len(timeline.ticks) for timeline in most) + sum(
            history.runs for _, history in kept
        )

    def _bound(self, now: float) -> None:
        """Drop the history of the longest windows, until it is below the limit."""
        while self.numbers > MAX_SAMPLES:
            if self._requested:
                self.request(())
                self._trim(now)
                continue
            sizes = [(window, self._runs(window)) for window in self._active()]
            large = [each for each in sizes if each[1] >= _SMALL_RATIO * MAX_SAMPLES] or sizes
            if not large:
                return
            longest, _ = max(large, key=lambda each: (each[0].seconds, each[1]))
            self.overfull |= {longest.selector}
            self._set_windows(self._windows)
            self._apply_windows()
            self._trim(now)

    def _active(self) -> list[Window]:
        return [window for windows in self._by_name.values() for window in windows]

    def _runs(self, window: Window) -> int:
        """Return how many runs the series of a window have."""
        return sum(
            series.history.runs
            for name in ((window.name,) if window.name else self._tables)
            for series in self._tables.get(name, {}).values()
            if series.history is not None and window.selects(name, series.labels)
        )
