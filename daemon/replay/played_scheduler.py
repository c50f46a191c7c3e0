"""Polls the collectors of a recorded machine one after the other, without threads.

What hangs in the recording is played: a collector that waits for it gives no reading, is reported
as stuck when the service would report it, and is polled again once it answers. The limits are those
of the service's scheduler (daemon/polling/scheduler.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import UnansweredError
from iowarden.collectors.quantity import duration
from iowarden.collectors.recording.recording import RecordingError
from iowarden.collectors.source import collect
from iowarden.daemon.polling.scheduler import (
    NEXT_STUCK_SECONDS,
    STUCK_SECONDS,
    SourceScheduler,
    stuck,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from iowarden.collectors.model import Reading
    from iowarden.collectors.recording.player import RecordedMachine
    from iowarden.collectors.source import Source


@dataclass(slots=True)
class _Run:
    """A run of a collector that waits for a path that does not answer."""

    started_seconds: float
    patience_seconds: float = STUCK_SECONDS
    part: Hashable = None
    """The part that it reads now."""
    waits: tuple[Hashable, float] | None = None
    """The part that it waits for, and since when."""
    is_reported: bool = False


class PlayedScheduler(SourceScheduler):
    """All collectors of a recorded machine. Errors of `run`: RecordingError."""

    def __init__(
        self,
        sources: Iterable[Source[Any]],
        periods_seconds: Mapping[str, float],
        machine: RecordedMachine,
        clock: Callable[[], float],
    ) -> None:
        """Start no thread."""
        sources = tuple(sources)
        self._in_threads = {source.name for source in sources if source.may_hang}
        self._recorded = machine
        self._runs: dict[str, _Run] = {}
        self._stuck: dict[str, dict[Hashable, tuple[float, str]]] = {}
        """By collector the parts that are skipped: since when, and the path that hangs."""
        super().__init__(
            [replace(source, may_hang=False) for source in sources],
            periods_seconds,
            lambda: machine,
            clock,
            lambda _: None,
        )

    def run(self, now: float) -> list[Reading[object]]:
        """Poll due collectors, and those that wait; report those that are stuck."""
        for skipped in self._stuck.values():
            for part in [p for p, (_, path) in skipped.items() if self._recorded.answers(path)]:
                del skipped[part]
        self.read_now(self._runs)
        return super().run(now)

    def _collect(self, source: Source[Any], now: float) -> list[Reading[object]]:
        run = self._runs.setdefault(source.name, _Run(now))
        polled = replace(source, read=lambda root: self._read(root, source, run, now))
        while True:
            try:
                reading = collect(polled, self._machine, self._clock)
            except UnansweredError as error:
                if source.name not in self._in_threads:
                    raise RecordingError(
                        f"{error}, and iowarden reads it in its main loop, because the kernel"
                        " always answers it: systemd would restart iowarden, and the replay ends"
                    ) from error
                if not self._skips(source, run, error.path, now):
                    return self._unanswered(source.name, run, now)
                continue
            del self._runs[source.name]
            return [reading]

    def _read(self, root: Any, source: Source[Any], run: _Run, now: float) -> Any:  # noqa: ANN401
        if source.parts is None:
            return source.read(root)
        skipped = self._stuck.setdefault(source.name, {})

        def enter(part: Hashable) -> str:
            if part in skipped:
                return f"no answer for {duration(now - skipped[part][0])}"
            run.part = part
            return ""

        return source.parts(root, enter)

    def _skips(self, source: Source[Any], run: _Run, path: str, now: float) -> bool:
        """Note that a run waits; return whether it goes on without the part that it waits for."""
        if source.parts is None or run.part is None:
            return False
        if run.waits is None or run.waits[0] != run.part:
            run.waits = run.part, now
        since = run.waits[1]
        if now - since <= run.patience_seconds:
            return False
        self._stuck[source.name][run.part] = since, path
        run.patience_seconds = NEXT_STUCK_SECONDS
        return True

    def _unanswered(self, name: str, run: _Run, now: float) -> list[Reading[object]]:
        if run.is_reported or run.waits or now - run.started_seconds <= STUCK_SECONDS:
            return []
        run.is_reported = True
        return [stuck(name, run.started_seconds, now)]
