"""Scheduler: polls the collectors at their intervals; those that may hang run in a thread each."""

from __future__ import annotations

import threading
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Outcome, Reading
from iowarden.collectors.quantity import duration
from iowarden.collectors.source import collect

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.source import Source

TICK_SECONDS = 1.0
HOTPLUG_SOURCES = ("block", "queue", "scsi", "md", "mounts", "zfs_vdevs", "smart")
"""Collectors polled again when a uevent of a block device arrives."""
STUCK_SECONDS = 10.0
"""A run, or a part of one, is stuck after this long; sysfs normally answers in milliseconds."""
NEXT_STUCK_SECONDS = 1.0
"""Like STUCK_SECONDS, in a run that has met a stuck part: a dead server often has several mounts.
"""
MAX_STUCK_PARTS = 32
"""Limit of stuck parts, each of which holds a thread; beyond it the whole collector is stuck."""
SPREAD_SECONDS = 15.0, 60.0
"""Shortest and longest poll interval over which collectors are spread: the longer ones read little
at a time, or in threads of their own, and are not polled early after a start."""
AHEAD_SECONDS, THREADS_OVER = 2.0, 4
"""A collector in a thread is polled so long before the slow rules, which then have its values, or
up to so many seconds earlier."""
EARLY_SECONDS = 0.05
"""Tolerance: the loop's tick may come a little before a poll interval ends."""


@dataclass(slots=True)
class _Worker:
    """A collector that may hang: the thread that polls it, and when the current run started."""

    source: Source[Any]
    requests: SimpleQueue[float | None]
    """Requests of runs; None ends the thread."""
    parts: _StuckParts
    started_seconds: float | None = None
    reported_stuck: bool = False
    patience_seconds: float = STUCK_SECONDS
    at: tuple[Hashable, float] | None = None
    """The part that is read now, and since when. Written under the lock of `parts`, like `left`."""
    left: bool = False
    """It is stuck at its part; another thread has replaced it."""


class _StuckParts:
    """Which parts of a collector are stuck. Used by all threads, hence the lock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._stuck: dict[Hashable, float] = {}

    def enter(self, worker: _Worker, part: Hashable) -> str:
        """Note that a thread starts to read a part; return why it must skip it, or ''."""
        with self._lock:
            if worker.left:
                return "another thread polls it"
            since = self._stuck.get(part)
            if since is not None:
                return f"no answer for {duration(self._clock() - since)}"
            worker.at = (part, self._clock())
            return ""

    def give_up(self, worker: _Worker, now: float) -> bool:
        """Abandon a worker that is stuck at its part for too long; return whether that was done."""
        with self._lock:
            if worker.at is None or len(self._stuck) >= MAX_STUCK_PARTS:
                return False
            part, since = worker.at
            if now - since <= worker.patience_seconds:
                return False
            self._stuck[part] = since
            worker.left = True
            return True

    def end(self, worker: _Worker) -> bool:
        """Note that a run has ended; return whether another thread has replaced the worker."""
        with self._lock:
            if worker.left and worker.at is not None:
                del self._stuck[worker.at[0]]
            worker.at = None
            return worker.left


class SourceScheduler:
    """All collectors of one machine. For the loop's thread only; other threads call `post`."""

    def __init__(
        self,
        sources: Iterable[Source[Any]],
        periods_seconds: Mapping[str, float],
        root: Callable[[], Machine],
        clock: Callable[[], float],
        post: Callable[[Reading[object]], None],
        *,
        spread: bool = False,
    ) -> None:
        """Start the threads. `root` makes a Machine, since each thread needs its own.

        `spread`: after the first poll the collectors of an interval are polled in different
        seconds of it; a recording has all of them in one.
        """
        self.sources = tuple(sources)
        self._spread = spread
        self._origin_seconds: float | None = None
        """When the first poll was."""
        self._phases: dict[str, float] = {}
        self._clock = clock
        self._make_machine = root
        self._post = post
        self._machine = root()
        self._due = {source.name: float("-inf") for source in self.sources}
        self.set_periods(periods_seconds)
        self._paused: frozenset[str] = frozenset()
        self._workers: dict[str, _Worker] = {}
        for source in self.sources:
            if source.may_hang:
                self._workers[source.name] = self._started(source, _StuckParts(clock))

    def run(self, now: float) -> list[Reading[object]]:
        """Poll due collectors that cannot hang, request runs of others, report what is stuck."""
        readings: list[Reading[object]] = []
        if self._origin_seconds is None:
            self._origin_seconds = now
        for source in self.sources:
            worker = self._workers.get(source.name)
            if worker is not None and worker.started_seconds is not None:
                readings += self._watch(worker, now)
                continue  # never a second run while one has not returned
            if now < self._due[source.name] - EARLY_SECONDS or source.name in self._paused:
                continue
            self._due[source.name] = self._next(source, now)
            if worker is None:
                readings += self._collect(source, now)
            else:
                worker.started_seconds = now
                worker.patience_seconds = STUCK_SECONDS
                worker.requests.put(now)
        return readings

    def _collect(self, source: Source[Any], _: float) -> list[Reading[object]]:
        """Run a collector that cannot hang."""
        return [collect(source, self._machine, self._clock)]

    def _next(self, source: Source[Any], now: float) -> float:
        """Return when a collector that is polled now is due again."""
        period, phase = source.period_seconds, self._phases.get(source.name)
        if phase is None or self._origin_seconds is None:
            due = self._due[source.name] + period
            return due if due > now else now + period
        first = self._origin_seconds + phase
        return first + period * ((now + EARLY_SECONDS - first) // period + 1)

    def _watch(self, worker: _Worker, now: float) -> list[Reading[object]]:
        """Report a stuck run; if it is stuck at a part, start a new run that skips the part."""
        if worker.parts.give_up(worker, now):
            another = self._started(worker.source, worker.parts)
            another.started_seconds = now
            another.patience_seconds = NEXT_STUCK_SECONDS
            self._workers[worker.source.name] = another
            another.requests.put(now)
            return []
        at = worker.at  # its thread may continue meanwhile
        since = worker.started_seconds if at is None else at[1]
        if since is None or now - since <= STUCK_SECONDS or worker.reported_stuck:
            return []
        worker.reported_stuck = True
        return [stuck(worker.source.name, since, now)]

    def _started(self, source: Source[Any], parts: _StuckParts) -> _Worker:
        worker = _Worker(source, SimpleQueue(), parts)
        threading.Thread(
            target=_serve,
            args=(worker, self._make_machine(), self._clock, self._post),
            name=f"read {source.name}",
            daemon=True,
        ).start()
        return worker

    def hold(self, names: Iterable[str]) -> None:
        """Stop polling these collectors, and resume all others, until the next call."""
        self._paused = frozenset(names)

    def read_now(self, names: Iterable[str]) -> None:
        """Poll these collectors at the next run, even if they are not due."""
        self._due.update((name, float("-inf")) for name in names if name in self._due)

    def set_periods(self, periods_seconds: Mapping[str, float]) -> None:
        """Set new poll intervals; each applies from the collector's next run."""
        self.sources = tuple(
            replace(s, period_seconds=periods_seconds.get(s.name, s.period_seconds))
            for s in self.sources
        )
        self._phases = _phases(self.sources) if self._spread else {}
        self.read_now(self._due)

    def finished(self, reading: Reading[object]) -> None:
        """Note that a thread has delivered its reading."""
        worker = self._workers[reading.source]
        worker.started_seconds = None
        worker.reported_stuck = False

    def waiting(self, started_before: float = float("inf")) -> bool:
        """Return whether a thread has not answered yet and is not known to be stuck."""
        return any(
            w.started_seconds is not None
            and w.started_seconds < started_before
            and not w.reported_stuck
            for w in self._workers.values()
        )

    def close(self) -> None:
        """End the threads; a stuck one ends when its read returns."""
        for worker in self._workers.values():
            worker.requests.put(None)
        self._machine.close()


def _phases(sources: Sequence[Source[Any]]) -> dict[str, float]:
    """Return in which second of its interval each collector is polled, of those that are spread.

    Rules are evaluated at the end of an interval. What may hang takes its time in a thread and is
    polled in the seconds shortly before that; the others are distributed over all of them.
    """
    phases: dict[str, float] = {}
    least, most = SPREAD_SECONDS
    for period in {s.period_seconds for s in sources if least <= s.period_seconds <= most}:
        own = [source for source in sources if source.period_seconds == period]
        seconds = int((period - AHEAD_SECONDS) / TICK_SECONDS)
        loop = [source.name for source in own if not source.may_hang]
        for number, name in enumerate(loop):
            phases[name] = TICK_SECONDS * (1 + number * seconds // len(loop))
        for number, name in enumerate(source.name for source in own if source.may_hang):
            phases[name] = TICK_SECONDS * (seconds - number % THREADS_OVER)
    return phases


def _serve(
    worker: _Worker,
    root: Machine,
    clock: Callable[[], float],
    post: Callable[[Reading[object]], None],
) -> None:
    source, read_parts = worker.source, worker.source.parts
    if read_parts is not None:
        source = replace(
            source,
            read=lambda root: read_parts(root, lambda part: worker.parts.enter(worker, part)),
        )
    while worker.requests.get() is not None:
        reading = collect(source, root, clock)
        if worker.parts.end(worker):
            break
        post(reading)
    root.close()


def stuck(source: str, since: float, now: float) -> Reading[object]:
    """Return the reading of a collector that has not answered since then."""
    return Reading(
        source=source,
        outcome=Outcome.STUCK,
        monotonic_seconds=now,
        duration_seconds=now - since,
        error=(
            f"no answer for {duration(now - since)}; not polled again until this poll returns, its"
            " last values stay valid for 3 poll intervals"
        ),
    )
