"""Render /metrics: the main loop publishes a snapshot, a scrape renders the changes since.

Source: Prometheus, "Exposition formats", text format 0.0.4, written by prometheus_client.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample as Line
from prometheus_client.utils import floatToGoString

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import HISTOGRAM_SUFFIXES, Chunk, Family, Sample
from iowarden.daemon import sanitize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FAILURES = Family(
    "iowarden_render_failures_total",
    "counter",
    "Metric families left out of /metrics because they could not be rendered.",
)


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """All data of /metrics; a family is in one chunk only."""

    chunks: tuple[Chunk, ...]


_MAX_STORED = 256
"""Series whose names are stored as text for the next scrape; more are cut from the last text.

A hundred thousand of them are 15 MB.
"""


@dataclass(slots=True, eq=False)
class _Written:
    """A rendered family: its text, and the parts that stay while only values change."""

    family: Family
    samples: tuple[Sample, ...]
    """() if some had the same labels: it is rendered as a whole each time."""
    head: str
    series: tuple[str, ...]
    """The beginning of each line; () if they are many."""
    text: bytes | memoryview
    """Part of the whole text, once that is made: it is not in memory twice."""


@dataclass(frozen=True, slots=True)
class _Rendered:
    version: int
    written: dict[str, _Written]


@dataclass(frozen=True, slots=True)
class _One:
    """A collector of one family, in the form that prometheus_client expects."""

    metric: Metric

    def collect(self) -> Iterator[Metric]:
        yield self.metric


class Exposition:
    """The text of /metrics, rendered at each scrape; thread-safe.

    `on_error` is called once for each family that cannot be rendered; the others are still shown.
    """

    def __init__(self, on_error: Callable[[str], None]) -> None:
        """Start with an empty snapshot."""
        self._on_error = on_error
        self._published = MetricsSnapshot(())
        self._lock = threading.Lock()  # two scrapes at once must not render the same twice
        self._shown: MetricsSnapshot | None = None
        self._text = b""
        self._rendered: dict[str, _Rendered] = {}
        self._failures_total = 0
        self._logged: set[str] = set()

    def publish(self, snapshot: MetricsSnapshot) -> None:
        """Show this snapshot from now on; it is rendered at the next scrape."""
        self._published = snapshot

    def render(self) -> bytes:
        """Return the text; the same object as before if nothing was published since."""
        with self._lock:
            snapshot = self._published
            if snapshot is not self._shown:
                self._text = self._render(snapshot)
                self._shown = snapshot
            return self._text

    def _render(self, snapshot: MetricsSnapshot) -> bytes:
        rendered = {}
        owners: dict[str, str] = {FAILURES.name: "exposition"}
        shown: list[_Written] = []
        for chunk in snapshot.chunks:
            previous = self._rendered.get(chunk.name)
            if previous is None or previous.version != chunk.version:
                previous = self._render_chunk(chunk, previous)
            rendered[chunk.name] = previous
            for name, written in previous.written.items():
                if owners.setdefault(name, chunk.name) == chunk.name:
                    shown.append(written)
                else:  # a duplicate family is invalid: Prometheus would reject the whole scrape
                    self._fail(name, f"it also in chunk '{owners[name]}'", chunk)
        self._rendered = rendered
        failures = (FAILURES.name, (), float(self._failures_total))
        shown.append(_write(FAILURES, (failures,), None))
        text = b"".join([each.text for each in shown])
        whole, at = memoryview(text), 0
        for each in shown:
            end = at + len(each.text)
            each.text, at = whole[at:end], end
        return text

    def _render_chunk(self, chunk: Chunk, previous: _Rendered | None) -> _Rendered:
        known = previous.written if previous else {}
        written: dict[str, _Written] = {}
        try:
            families = chunk.families
        except Exception as error:  # noqa: BLE001 - one bad collector must not end the scrape
            self._fail(chunk.name, f"{type(error).__name__}: {error.args[:1]}", chunk)
            families = ()
        for family, samples in families:
            if family.name in written:
                self._fail(family.name, "it twice in the chunk", chunk)
            elif samples:
                try:
                    written[family.name] = _write(family, samples, known.get(family.name))
                    if not written[family.name].samples:
                        self._fail(family.name, "some with the same labels; all but one", chunk)
                except Exception as error:  # noqa: BLE001 - one bad family must not end the scrape
                    self._fail(family.name, f"{type(error).__name__}: {error.args[:1]}", chunk)
        return _Rendered(chunk.version, written)

    def _fail(self, name: str, reason: str, chunk: Chunk) -> None:
        self._failures_total += 1
        if name not in self._logged:
            self._logged.add(name)
            self._on_error(
                f"metrics: family '{name}' of chunk '{chunk.name}': expected samples that can be"
                f" rendered, got {reason}; left out of /metrics, please report this"
            )


def _write(family: Family, samples: tuple[Sample, ...], previous: _Written | None) -> _Written:
    """Render a family; if its series are unchanged, only their values, which costs a fifth."""
    if previous is not None and previous.family == family:
        if previous.samples == samples:
            return previous
        if [sample[:2] for sample in previous.samples] == [sample[:2] for sample in samples]:
            head = previous.head
            series = previous.series or _starts(bytes(previous.text).decode()[len(head) : -1])
            lines = [
                f"{start}{floatToGoString(sample[2])}\n"  # type: ignore[no-untyped-call]
                for start, sample in zip(series, samples, strict=True)
            ]
            text = (head + "".join(lines)).encode()
            return _Written(family, samples, head, previous.series, text)
    text = generate_latest(_One(_metric(family, samples)))
    # a newline in a help text or label is escaped, so each line is one sample
    help_line, type_line, *lines = text.decode().split("\n")[:-1]
    series = _starts("\n".join(lines))
    if len(unique := dict(zip(reversed(series), reversed(lines), strict=True))) < len(series):
        # Two names that are one once escaped: Prometheus would take one of their values at random.
        lines = [*reversed(unique.values())]
        text = "\n".join((help_line, type_line, *lines, "")).encode()
        return _Written(family, (), "", (), text)
    stored = series if len(series) <= _MAX_STORED else ()
    return _Written(family, samples, f"{help_line}\n{type_line}\n", stored, text)


def _starts(lines: str) -> tuple[str, ...]:
    """Return each line up to its value."""
    return tuple([line[: line.rindex(" ") + 1] for line in lines.split("\n")])


def _metric(family: Family, samples: tuple[Sample, ...]) -> Metric:
    names = {family.name}
    if family.kind == "histogram":
        names = {family.name + suffix for suffix in HISTOGRAM_SUFFIXES}
    if other := {name for name, _, _ in samples} - names:
        raise ValueError(f"a sample of '{min(other)}'")
    # prometheus_client appends '_total' to a counter; one without it can only be untyped
    name, kind = family.name, str(family.kind)
    if kind == "counter":
        name, kind = (name[:-6], kind) if name.endswith("_total") else (name, "unknown")
    metric = Metric(name, family.help, kind)
    metric.samples = [
        Line(name, {key: sanitize.name(each) for key, each in labels}, value)
        for name, labels, value in samples
    ]
    return metric
