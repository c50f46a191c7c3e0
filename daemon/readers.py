"""Runs the collectors on schedule; those that may hang in a thread each, marked when stuck."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING

from iowarden.collectors.table import collect
from iowarden.collectors.vocabulary import Outcome, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iowarden.collectors.files import Root
    from iowarden.collectors.table import Source

STUCK_SECONDS = 10.0
"""A run is called stuck after so long; sysfs answers in milliseconds."""
EARLY_SECONDS = 0.05
"""The loop's tick may come a little before a source's period is over."""


@dataclass(slots=True)
class _Worker:
    """A source that may hang: the thread that reads it, and since when it is at it."""

    source: Source
    requests: SimpleQueue[None]
    started_seconds: float | None = None
    told_stuck: bool = False


class Readers:
    """All sources of one machine. For the loop's thread only; `post` is called by others."""

    def __init__(
        self,
        sources: Iterable[Source],
        periods_seconds: Mapping[str, float],
        root: Callable[[], Root],
        clock: Callable[[], float],
        post: Callable[[Reading], None],
    ) -> None:
        """Start the threads. `root` makes a Root, since each thread needs its own."""
        self.sources = tuple(
            replace(s, period_seconds=periods_seconds.get(s.name, s.period_seconds))
            for s in sources
        )
        self._clock = clock
        self._root = root()
        self._due = {source.name: float("-inf") for source in self.sources}
        self._workers: dict[str, _Worker] = {}
        for source in self.sources:
            if source.may_hang:
                worker = _Worker(source, SimpleQueue())
                self._workers[source.name] = worker
                threading.Thread(
                    target=_serve,
                    args=(worker, root(), clock, post),
                    name=f"read {source.name}",
                    daemon=True,
                ).start()

    def run(self, now: float) -> list[Reading]:
        """Read what is due and cannot hang, ask for the rest, say what is stuck."""
        readings: list[Reading] = []
        for source in self.sources:
            worker = self._workers.get(source.name)
            if worker is not None and worker.started_seconds is not None:
                if now - worker.started_seconds > STUCK_SECONDS and not worker.told_stuck:
                    worker.told_stuck = True
                    readings.append(_stuck(worker, now))
                continue  # never a second call beside one that has not returned
            if now < self._due[source.name] - EARLY_SECONDS:
                continue
            due = self._due[source.name] + source.period_seconds
            self._due[source.name] = due if due > now else now + source.period_seconds
            if worker is None:
                readings.append(collect(source, self._root, self._clock))
            else:
                worker.started_seconds = now
                worker.requests.put(None)
        return readings

    def finished(self, reading: Reading) -> None:
        """Take note that a thread has answered."""
        worker = self._workers[reading.source]
        worker.started_seconds = None
        worker.told_stuck = False

    def waiting(self) -> bool:
        """Whether some thread has not answered yet and is not known to be stuck."""
        return any(
            w.started_seconds is not None and not w.told_stuck for w in self._workers.values()
        )


def _serve(
    worker: _Worker, root: Root, clock: Callable[[], float], post: Callable[[Reading], None]
) -> None:
    while True:
        worker.requests.get()
        post(collect(worker.source, root, clock))


def _stuck(worker: _Worker, now: float) -> Reading:
    since = now if worker.started_seconds is None else worker.started_seconds
    return Reading(
        source=worker.source.name,
        outcome=Outcome.STUCK,
        monotonic_seconds=now,
        duration_seconds=now - since,
        error=(
            f"silent for {now - since:.0f} s; no second call until it returns, its last values are"
            " held for 3 periods"
        ),
    )
