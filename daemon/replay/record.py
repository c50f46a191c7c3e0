"""Records all data that the readers read, at the service's polling schedule."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

from iowarden.collectors.block import uevents
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Reading
from iowarden.collectors.recording.recorder import Changes, Recorder, watched
from iowarden.collectors.recording.recording import Frame, RecordingStep
from iowarden.collectors.smart.options import Options
from iowarden.daemon.polling import pollers
from iowarden.daemon.polling.scheduler import HOTPLUG_SOURCES, TICK_SECONDS, SourceScheduler
from iowarden.daemon.service.messages import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from iowarden.collectors.machine import Machine
    from iowarden.daemon.clock import SystemClock
    from iowarden.daemon.polling.pollers import Pollers

FIRST_SECONDS = 2.0
"""How long the first frame waits for data sources that are read in their own threads."""


@dataclass(slots=True)
class Recorded:
    """Result of a recording."""

    frames: int = 0
    seconds: float = 0.0
    problem: str = ""
    """Why it ended early; '' if it did not."""


class _Seen:
    """What the readers read since the last frame. Their threads call it."""

    def __init__(self) -> None:
        self._changes, self._lock = Changes(), threading.Lock()

    def take(self, source: str, seen: Mapping[str, bytes]) -> None:
        with self._lock:
            self._changes.take(source, seen)

    def runs(self, root: Machine, begins: bool) -> None:  # noqa: FBT001 - as `watched` calls it
        with self._lock:
            if begins:
                self._changes.begin(root)
            else:
                self._changes.end(root)

    def step(self, frame: Frame, announced: str) -> RecordingStep:
        with self._lock:
            return self._changes.step(frame, announced)


def record(  # noqa: PLR0913 - each is one part of the recorded machine
    path: str,
    page_size_bytes: int,
    periods_seconds: Mapping[str, float],
    root: Callable[[], Machine],
    clock: SystemClock,
    events: queue.SimpleQueue[object],
    for_seconds: float = float("inf"),
    own_pollers: Pollers | None = None,
    *,
    on_frame: Callable[[Recorded], object] = lambda _: None,
) -> Recorded:
    """Record a machine for a time after its first frame, or until `events` has a Stop.

    `own_pollers` has the pollers with a state of their own; without it the kernel log is not
    recorded and drives are polled with default settings. A hung disk delays only the data of its
    own reader; what that waits for is recorded as a path that hangs. `on_frame` is called after
    each frame.
    Errors: RecordingError if the file exists; errors of writing are in `problem`.
    """
    seen, outcome = _Seen(), Recorded()
    try:
        recorder = Recorder(path, page_size_bytes)
    except OSError as error:
        outcome.problem = (
            f"'{path}': expected to write a recording, got: {error.strerror}; name a file in a"
            " directory that you may write"
        )
        return outcome
    own_pollers = own_pollers or pollers.make(Options(), clock)
    sources = [watched(source, seen.take, seen.runs) for source in own_pollers.sources()]
    readers = SourceScheduler(sources, periods_seconds, root, clock.now, events.put)
    began = due = clock.now()
    try:
        while True:
            announced = _until(due, readers, clock, events)
            now = clock.now()
            if announced is None or now - began >= for_seconds:
                break
            due = max(due + TICK_SECONDS, now)
            readers.run(now)
            if not outcome.frames:
                _settle(now + FIRST_SECONDS, readers, clock, events)
            frame = Frame(outcome.frames, clock.uptime(), clock.realtime(clock.now()))
            recorder.write(seen.step(frame, announced))
            outcome.frames += 1
            if outcome.frames == 1:  # the time counts from what the first frame shows
                began = now = clock.now()
                due = began + TICK_SECONDS
            outcome.seconds = now - began
            on_frame(outcome)
        recorder.close()
    except OSError as error:
        outcome.problem = (
            f"'{path}': expected room for frame {outcome.frames:06d}, got: {error.strerror};"
            " the frames written before can be replayed"
        )
        recorder.abandon()
    return outcome


def _until(
    due: float, readers: SourceScheduler, clock: SystemClock, events: queue.SimpleQueue[object]
) -> str | None:
    """Handle events until a time; return the kernel's uevents, or None for a Stop."""
    announced = ""
    while (left := due - clock.now()) > 0:
        try:
            event = events.get(timeout=left)
        except queue.Empty:
            break
        match event:
            case Stop():
                return None
            case Reading():
                readers.finished(event)
            case uevents.UeventBatch():
                announced += uevents.text(event)
                readers.read_now(HOTPLUG_SOURCES)
    return announced


def _settle(
    end: float, readers: SourceScheduler, clock: SystemClock, events: queue.SimpleQueue[object]
) -> None:
    later: list[object] = []  # for the next turn
    while readers.waiting() and (left := end - clock.now()) > 0:
        try:
            event = events.get(timeout=left)
        except queue.Empty:
            break
        if isinstance(event, Reading):
            readers.finished(event)
            continue
        later.append(event)
        if isinstance(event, Stop):
            break
    for event in later:
        events.put(event)
