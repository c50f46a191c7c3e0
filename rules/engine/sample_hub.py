"""Sample hub: all samples for '/metrics', and the store that the rules read. Pure.

Units: seconds of the program's clock (Unix time that never jumps).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from iowarden.collectors import node_series
from iowarden.collectors.model import HISTOGRAM_SUFFIXES, Chunk, Family, Group, Labels, Sample
from iowarden.rules import scrape_labels
from iowarden.rules.alerting.staleness import ObservationHistory, resumed
from iowarden.rules.promql.store import SeriesStore, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from iowarden.rules.engine.source_status import SourceStatus
    from iowarden.rules.promql.evaluator import Expression
    from iowarden.rules.promql.history import Stored

REFRESH_SECONDS = 15.0
"""Every live series is written again at least so often, like by a scrape."""
REQUESTED_SECONDS = 86_400.0
"""What a query needs beyond the rules is recorded for so long, or for twice its range."""
MAX_REQUESTED = 20
SETTLED_SECONDS = 3 * REFRESH_SECONDS
"""After so long every restored series that continues has been written again."""


class SampleHub:
    """All samples of one host: those exposed, and the history for rules."""

    def __init__(
        self,
        sources: Mapping[str, SourceStatus[Any]],
        now: float,
        *,
        expose: tuple[str, ...] = (),
        targets: Mapping[str, Labels] | None = None,
    ) -> None:
        """Start with an empty state at `now`.

        `expose`: name prefixes of other exporters ('node_', 'smartctl_') whose series `chunks`
        includes. `targets`: labels that rules find on those series, as in `scrape_labels`.
        """
        self._sources = sources
        self.targets = targets or {}
        self._exposed = frozenset(
            name
            for name, status in sources.items()
            if any(prefix.startswith(expose) for prefix in status.source.node_prefixes)
        )
        self.store = SeriesStore(thins=True)
        self._chunks: dict[str, Chunk] = {}
        self._published: dict[str, Sequence[Sample]] = {}
        self._equal: dict[str, Sequence[Sample]] = {}
        """What was taken last and is equal to what is published."""
        self.version = 0
        """Changes with the contents of `chunks`."""
        self.wanted: frozenset[str] = frozenset()
        """The metrics that rules and requested queries read by name."""
        self.reads_any = False
        """Whether a rule selects metrics by a pattern."""
        self._read_as_node: frozenset[str] = frozenset()
        """The data sources that a rule or query may read as another exporter's series."""
        self._read: frozenset[str] = frozenset()
        """The data sources that a rule or query may read at all."""
        self._fed: dict[str, tuple[Sequence[Sample], list[Sample]]] = {}
        """By writer its last samples, and those of them that some rule may read."""
        self._refreshed = now
        self._reads_names: frozenset[str] = frozenset()
        self._requested: dict[tuple[str, float], tuple[Window, float]] = {}
        """What queries requested, and until when it is recorded."""
        self._observed_seconds: float | None = None
        """When the data sources were last read."""
        self._watched = ObservationHistory()
        """Since when the store has recorded what rules read."""
        self._stored_ends: tuple[float, float] | None = None
        """When the restored samples end, and when they were restored; until the missing series are
        ended."""

    # --- data for rules

    def wants(self, name: str) -> bool:
        """Whether the store records a metric, because a rule may read it."""
        return self.reads_any or name in self.wanted

    def load(self, expressions: Collection[Expression], now: float) -> None:
        """Record what other rules read from now on."""
        self._reads_names = frozenset[str]().union(*(each.names for each in expressions))
        self.reads_any = any(each.reads_any for each in expressions)
        windows = _longest(window for each in expressions for window in each.windows)
        since = self._since([*windows, *self.store.requested], now)
        self.store.retain(windows)
        self._watch(since, now)

    def request(self, windows: Iterable[Window], now: float) -> None:
        """Record for a query what no rule reads, from now on and until REQUESTED_SECONDS later.

        Limits: the MAX_REQUESTED selectors requested last.
        """
        for window in windows:
            key = window.selector, window.seconds
            self._requested.pop(key, None)
            self._requested[key] = (window, now + max(REQUESTED_SECONDS, 2 * window.seconds))
        while len(self._requested) > MAX_REQUESTED:
            del self._requested[next(iter(self._requested))]
        self._store_requested(now)

    def _store_requested(self, now: float) -> None:
        self._requested = {k: each for k, each in self._requested.items() if now < each[1]}
        windows = [window for window, _ in self._requested.values()]
        since = {**self._watched.since, **self._since(windows, now)}
        self.store.request(windows)
        self._watch(since, now)

    def _since(self, windows: Iterable[Window], now: float) -> dict[str, float]:
        """Return since when windows will have been recorded, once they are retained.

        Recorded data stay: a reload must not make the last hour unknown.
        """
        found: dict[str, float] = {}
        before = self._watched.since
        for window in windows:
            had = self.store.retention_seconds(window)
            since = min(window.known(before), default=now) if had else now
            own = since if window.seconds <= had else max(since, now - had)
            found[window.selector] = max(own, found.get(window.selector, own))
        return found

    def _watch(self, since: Mapping[str, float], now: float) -> None:
        self._watched = replace(self._watched, since=since)
        self.wanted = self._reads_names | {window.name for window in self.store.requested}
        self._read_as_node = frozenset(
            name
            for name, status in self._sources.items()
            if status.source.node is not None
            and (
                self.reads_any
                or any(n.startswith(status.source.node_prefixes) for n in self.wanted)
            )
        )
        self._read = self._read_as_node | {
            name
            for name, status in self._sources.items()
            if self.reads_any or any(f.name in self.wanted for f in status.source.families)
        }
        self._fed.clear()
        for name in list(self._chunks):  # a slow group will not publish again soon
            if name in self._sources:
                self.feed_source(self._sources[name], now)
            elif name in self._published:
                self.feed(name, self._published[name], now)

    def feed(self, name: str, samples: Sequence[Sample], now: float) -> None:
        """Write the samples that some rule may read; series that disappeared get a stale marker.

        Limits: `samples` must not be changed afterwards.
        """
        before, wanted = self._fed.get(name, (None, []))
        if before is not samples:
            wanted = [s for s in samples if self.reads_any or s[0] in self.wanted]
            if name in self._read_as_node:
                status = self._sources[name]
                if samples and status.source.node is not None:
                    others = [s for s in status.source.node(status.value) if self.wants(s[0])]
                    wanted += scrape_labels.labelled(others, self.targets)
            self._fed[name] = samples, wanted
        self.store.write(name, now, wanted)

    def feed_source(self, status: SourceStatus[Any], now: float) -> None:
        """Write the samples of a data source; they are made only if some rule may read them."""
        name = status.source.name
        self.feed(name, status.samples() if name in self._read else (), now)

    def refresh(
        self,
        quiet: Iterable[tuple[str, Sequence[Sample]]],
        now: float,
        sources: Iterable[SourceStatus[Any]] = (),
    ) -> None:
        """Write again, where it is due, valid samples that were not published in this tick."""
        if now - self._refreshed < REFRESH_SECONDS:
            return
        self._refreshed = now
        if any(now >= until for _, until in self._requested.values()):
            self._store_requested(now)
        for status in sources:
            if status.shown is not None:
                self.feed_source(status, now)
        for name, samples in quiet:
            if samples:
                self.feed(name, samples, now)
        if self._stored_ends and now - self._stored_ends[1] > SETTLED_SECONDS:
            self.store.end_older(self._stored_ends[0], now)
            self._stored_ends = None

    # --- data for '/metrics'

    def publish(
        self, name: str, families: Sequence[Family], samples: Sequence[Sample], now: float
    ) -> None:
        """Take series of this name for '/metrics' and for the rules.

        Used for the metrics of the engine and of the program itself. Limits: `samples` must not be
        changed afterwards.
        """
        before = self._published.get(name)
        equal = before is samples or self._equal.get(name) is samples or before == samples
        if before is not None and equal:
            self._equal[name], samples = samples, before  # nothing is done twice for equal samples
        self.feed(name, samples, now)
        if before is samples:
            return
        self._published[name] = samples
        self._equal.pop(name, None)
        self._show(name, families, lambda: grouped(families, samples))

    def publish_source(self, status: SourceStatus[Any], now: float) -> None:
        """Take the value that a data source shows, for '/metrics' and for the rules."""
        self.feed_source(status, now)
        self._expose(status)
        families, samples = status.source.families, status.samples
        self._show(status.source.name, families, lambda: grouped(families, samples()))

    def _expose(self, status: SourceStatus[Any]) -> None:
        """Expose the value of a data source as another exporter's series, if that is configured."""
        node, value = status.source.node, status.shown
        if node is not None and status.source.name in self._exposed:
            name, prefixes = "node_" + status.source.name, status.source.node_prefixes
            self._put(name, lambda: node_series.groups(node(value)), prefixes)

    def hide(self, status: SourceStatus[Any], now: float) -> None:
        """End the series of a data source."""
        name, families = status.source.name, status.source.families
        self.feed(name, (), now)
        self._show(name, families, lambda: grouped(families, ()))
        self._chunks.pop("node_" + name, None)

    def _show(
        self, name: str, families: Sequence[Family], make: Callable[[], tuple[Group, ...]]
    ) -> None:
        self._put(name, make, tuple(family.name for family in families))

    def _put(
        self, name: str, make: Callable[[], tuple[Group, ...]], names: tuple[str, ...]
    ) -> None:
        before = self._chunks.get(name)
        version = 1 if before is None else before.version + 1
        self._chunks[name] = Chunk(name, version, make=make, names=names)
        self.version += 1

    def chunks(self) -> tuple[Chunk, ...]:
        """Return everything for '/metrics'."""
        return tuple(self._chunks.values())

    def last(self, name: str) -> list[Sample]:
        """Return the newest samples of a metric, as on '/metrics'."""
        return [
            sample
            for chunk in self._chunks.values()
            for _, samples in chunk.of((name,))
            for sample in samples
        ]

    # --- stored over a restart

    def observe(self, now: float) -> float | None:
        """Begin a tick; return when the last one was."""
        self._begin(now)
        last, self._observed_seconds = self._observed_seconds, now
        return last

    def _begin(self, now: float) -> None:
        """Count from the first data on, not from when a rule was loaded."""
        if self._observed_seconds is None and self._stored_ends is None:
            self._watched = ObservationHistory(dict.fromkeys(self._watched.since, now))

    def window(self, selector: str, seconds: float, now: float) -> float:
        """Return since when a selector's series are recorded, as far as a window needs it."""
        return self._watched.window(selector, seconds, now)

    def watched(self) -> ObservationHistory:
        """Return since when each selector that rules read has been recorded."""
        until, retention = self._observed_seconds or 0.0, self.store.retention
        since = {
            selector: max(at, until - retention.get(selector, 0.0))
            for selector, at in self._watched.since.items()
        }
        return replace(self._watched, since=since, until_seconds=until)

    def restore_samples(
        self, stored: Sequence[Stored], before: ObservationHistory | None, now: float
    ) -> None:
        """Restore the store's samples and `before`, what was observed (None: not known)."""
        self._begin(now)
        self._stored_ends = max((each[2].last_seconds for each in stored), default=now), now
        self.store.restore(stored)
        if before is not None:
            began = min(self._watched.since.values(), default=now)
            longest = max(self.store.retention.values(), default=0.0)
            self._watched = resumed(self._watched, before, began, longest)


def _longest(windows: Iterable[Window]) -> list[Window]:
    """Return of each selector the longest window."""
    longest: dict[str, Window] = {}
    for window in windows:
        known = longest.get(window.selector)
        if known is None or known.seconds < window.seconds:
            longest[window.selector] = window
    return list(longest.values())


def grouped(families: Sequence[Family], samples: Sequence[Sample]) -> tuple[Group, ...]:
    """Return samples by family. Errors: KeyError for a sample of another family."""
    by_name: dict[str, list[Sample]] = {family.name: [] for family in families}
    for family in families:
        if family.kind == "histogram":
            suffixed = (family.name + suffix for suffix in HISTOGRAM_SUFFIXES)
            by_name.update(dict.fromkeys(suffixed, by_name[family.name]))
    for sample in samples:
        by_name[sample[0]].append(sample)
    return tuple((family, tuple(by_name[family.name])) for family in families)
