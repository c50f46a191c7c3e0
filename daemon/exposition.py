"""What '/metrics' says: the loop publishes a snapshot, a scrape renders what changed since.

Source: Prometheus, "Exposition formats", text format 0.0.4, written by prometheus_client.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample as Line

from iowarden.collectors.vocabulary import Family, Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Group = tuple[Family, tuple[Sample, ...]]
"""A family and all its samples in one chunk."""

FAILURES = Family(
    "iowarden_render_failures_total",
    "counter",
    "Families left out of '/metrics' because they could not be written.",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Chunk:
    """The families of one source; another `version` says that they may have changed."""

    name: str
    version: int
    families: tuple[Group, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """All that '/metrics' shows; a family is in one chunk only."""

    chunks: tuple[Chunk, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Rendered:
    version: int
    groups: dict[str, tuple[tuple[Sample, ...], bytes]]


@dataclasses.dataclass(frozen=True, slots=True)
class _One:
    """A collector of one family, as prometheus_client wants it."""

    metric: Metric

    def collect(self) -> Iterator[Metric]:
        yield self.metric


class Exposition:
    """The text of '/metrics', rendered when somebody asks; for any number of threads.

    `on_error` is told once of each family that cannot be written; the others are still shown.
    """

    def __init__(self, on_error: Callable[[str], None]) -> None:
        """Start with nothing to show."""
        self._on_error = on_error
        self._published = Snapshot(())
        self._lock = threading.Lock()  # two scrapes at once must not render the same twice
        self._shown: Snapshot | None = None
        self._text = b""
        self._rendered: dict[str, _Rendered] = {}
        self._failures_total = 0
        self._told: set[str] = set()

    def publish(self, snapshot: Snapshot) -> None:
        """Show this snapshot from now on; costs nothing until somebody asks for it."""
        self._published = snapshot

    def render(self) -> bytes:
        """Return the text; the same object as before if nothing was published since."""
        with self._lock:
            snapshot = self._published
            if snapshot is not self._shown:
                self._text = self._render(snapshot)
                self._shown = snapshot
            return self._text

    def _render(self, snapshot: Snapshot) -> bytes:
        rendered = {}
        owners: dict[str, str] = {FAILURES.name: "exposition"}
        parts: list[bytes] = []
        for chunk in snapshot.chunks:
            previous = self._rendered.get(chunk.name)
            if previous is None or previous.version != chunk.version:
                previous = self._render_chunk(chunk, previous)
            rendered[chunk.name] = previous
            for name, (_, text) in previous.groups.items():
                if owners.setdefault(name, chunk.name) == chunk.name:
                    parts.append(text)
                else:  # a family twice is not valid: a reader would refuse the whole scrape
                    self._fail(name, f"also in chunk '{owners[name]}'", chunk)
        self._rendered = rendered
        failures = (FAILURES.name, (), float(self._failures_total))
        parts.append(_text(FAILURES, (failures,)))
        return b"".join(parts)

    def _render_chunk(self, chunk: Chunk, previous: _Rendered | None) -> _Rendered:
        """Render the families whose samples differ: to compare is 50 times cheaper."""
        known = previous.groups if previous else {}
        groups = {}
        for family, samples in chunk.families:
            if not samples:
                continue
            same = known.get(family.name)
            if same is not None and same[0] == samples:
                groups[family.name] = (samples, same[1])
                continue
            if family.name in groups:
                self._fail(family.name, "twice in the chunk", chunk)
                continue
            try:
                groups[family.name] = (samples, _text(family, samples))
            except Exception as error:  # noqa: BLE001 - one bad family must not end the scrape
                self._fail(family.name, f"{type(error).__name__}: {error.args[:1]}", chunk)
        return _Rendered(chunk.version, groups)

    def _fail(self, name: str, reason: str, chunk: Chunk) -> None:
        self._failures_total += 1
        if name not in self._told:
            self._told.add(name)
            self._on_error(
                f"metrics: family '{name}' of chunk '{chunk.name}': expected samples that can be"
                f" written, got {reason}; left out of '/metrics', please report this"
            )


def _text(family: Family, samples: tuple[Sample, ...]) -> bytes:
    try:
        return generate_latest(_One(_metric(family, samples)))
    except UnicodeEncodeError:  # rare, so only now: a lone surrogate in a label of a device
        whole = tuple(
            (name, tuple((key, _whole(value)) for key, value in labels), value)
            for name, labels, value in samples
        )
        return generate_latest(_One(_metric(family, whole)))


def _metric(family: Family, samples: tuple[Sample, ...]) -> Metric:
    # prometheus_client appends '_total' to a counter; one without it can only be untyped
    name, kind = family.name, str(family.kind)
    if kind == "counter":
        name, kind = (name[:-6], kind) if name.endswith("_total") else (name, "unknown")
    metric = Metric(name, family.help, kind)
    metric.samples = [Line(name, dict(labels), value) for name, labels, value in samples]
    return metric


def _whole(text: str) -> str:
    """Return the text with each lone surrogate replaced by U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
