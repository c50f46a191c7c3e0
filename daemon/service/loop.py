"""Main loop: one thread that handles events as they arrive and runs its duties every second.

It never waits for a disk. Other threads read what may hang, write state.db, talk SMTP and serve
HTTP; they post their results to one queue. Signal handlers post to it, too.
"""

from __future__ import annotations

import math
import queue
import time
from bisect import bisect_left
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Group, trace
from iowarden.collectors.recording.recording import RecordingError
from iowarden.daemon.polling.scheduler import TICK_SECONDS
from iowarden.daemon.service.messages import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iowarden.collectors.recording.recording import Frame
    from iowarden.daemon.clock import PlayedClock, SystemClock
    from iowarden.daemon.transition_log import TransitionLog

    Duty = Callable[[float], object]
    """Gets the time of the program's clock."""

WAIT_SECONDS = 0.02
"""How long to wait for a thread while nothing else is to be done."""
SETTLE_SECONDS = 2.0
"""How long a played recording waits, in real time, for threads that work on the last frame."""


LATENESS = Family(
    "iowarden_loop_lateness_seconds",
    "histogram",
    "How late a second of the main loop began.",
)
DUTY_SECONDS = Family(
    "iowarden_loop_duty_seconds_total",
    "counter",
    "Seconds that the main loop spent on each of its duties.",
)
FAMILIES = (LATENESS, DUTY_SECONDS)
OWN_NAMES = ("iowarden_process_", "iowarden_loop_")
"""Begin the names of the process's own metrics and of these: made when they are scraped."""
BUCKETS_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, math.inf)
"""Upper limits of the buckets of LATENESS; 0.05 s is the limit that is aimed at."""


class LoopTimes:
    """How late the seconds of the loop began, and how long its duties took, since the start."""

    def __init__(self, duties: Iterable[str]) -> None:
        """Start at 0 with these duties."""
        self.duty_seconds = dict.fromkeys(duties, 0.0)
        self._counts = [0] * len(BUCKETS_SECONDS)
        self._late_seconds = 0.0

    def began(self, late_seconds: float) -> None:
        """Note how late a second began."""
        late_seconds = max(0.0, late_seconds)
        self._counts[bisect_left(BUCKETS_SECONDS, late_seconds)] += 1
        self._late_seconds += late_seconds

    def content(self) -> tuple[Group, ...]:
        """Return the samples of FAMILIES."""
        name, total = LATENESS.name, 0
        buckets = []
        for most, count in zip(BUCKETS_SECONDS, self._counts, strict=True):
            total += count
            limit = "+Inf" if most == math.inf else str(most)
            buckets.append((f"{name}_bucket", (("le", limit),), float(total)))
        duties = tuple(
            (DUTY_SECONDS.name, (("duty", duty),), seconds)
            for duty, seconds in self.duty_seconds.items()
        )
        sums = ((f"{name}_sum", (), self._late_seconds), (f"{name}_count", (), float(total)))
        return (LATENESS, (*buckets, *sums)), (DUTY_SECONDS, duties)


class FrameSource(Protocol):
    """Plays a recording: supplies the data that collectors read."""

    def advance(self) -> Frame | None:
        """Advance to the next frame; None if there is none yet."""


@dataclass(slots=True)
class Loop:
    """Runs all its callbacks in its own thread."""

    events: queue.SimpleQueue[object]
    clock: SystemClock
    log: TransitionLog
    handle: Callable[[object, float], object]
    """Handles an event other than Stop; gets the time."""
    duties: Mapping[str, Duty]
    """What runs every second, in this order."""
    player: FrameSource | None
    """A recording whose frames start the seconds; None: the clock does."""
    settling: Callable[[], bool]
    """Whether threads work on the last frame of a recording."""
    idle: Duty
    """What runs while the next frame is not available."""
    stopping: Stop | None = None
    times: LoopTimes = field(init=False)
    _next_tick: float = 0.0

    def __post_init__(self) -> None:
        """Count from here on."""
        self.times = LoopTimes(self.duties)

    def begin(self) -> None:
        """Start the first second now."""
        self._next_tick = self.clock.now()

    def turn(self) -> None:
        """Wait for the next second or an event, and handle it.

        Errors: RecordingError.
        """
        try:
            self._turn()
        except RecordingError:
            raise
        except Exception as error:  # noqa: BLE001 - the one place that survives our own bugs
            self.log.trouble("loop", f"loop: bug: {trace(error)}")

    def _turn(self) -> None:
        if self.player is None:
            self.take(self._next_tick - self.clock.now())
            now = self.clock.now()
            if now < self._next_tick:
                return
            self.times.began(now - self._next_tick)
            late = now - self._next_tick > TICK_SECONDS
            self._next_tick = now + TICK_SECONDS if late else self._next_tick + TICK_SECONDS
            self.do_duties(now)
        elif self._next_frame(self.player):
            self.do_duties(self.clock.now())
        else:
            self.idle(self.clock.now())

    def do_duties(self, now: float) -> None:
        """Run the duties of a second."""
        seconds = self.times.duty_seconds
        before = time.perf_counter()
        for name, duty in self.duties.items():
            duty(now)
            after = time.perf_counter()
            seconds[name] += after - before
            before = after
        self.log.trouble("loop", "")

    def _next_frame(self, player: FrameSource) -> bool:
        """Let the threads settle, then take the next frame of the recording, if there is one."""
        self.wait_while(self.settling, SETTLE_SECONDS)
        self.take(0.0)
        if self.stopping is not None:
            return False
        frame = player.advance()
        if frame is None:
            self.take(WAIT_SECONDS)
            return False
        clock: PlayedClock = self.clock  # type: ignore[assignment]  # a player comes with its clock
        clock.set(frame.monotonic_seconds, frame.realtime_seconds)
        self.take(0.0)  # Uevents that arrived before the frame.
        return self.stopping is None

    def wait_while(self, true: Callable[[], bool], max_seconds: float) -> None:
        """Handle events while a condition holds, for at most `max_seconds`."""
        waited = 0.0
        while waited < max_seconds and true():
            self.take(WAIT_SECONDS)
            waited += WAIT_SECONDS

    def take(self, timeout_seconds: float) -> None:
        """Handle the queued events; wait at most `timeout_seconds` for the first.

        Events that arrive meanwhile wait for the next call: clients that send one request after the
        other must not delay the duties.
        """
        try:
            event = (
                self.events.get(timeout=timeout_seconds)
                if timeout_seconds > 0
                else self.events.get_nowait()
            )
            left = self.events.qsize()
            while True:
                if isinstance(event, Stop):
                    self.stopping = event
                else:
                    self.handle(event, self.clock.now())
                if not left:
                    return
                left -= 1
                event = self.events.get_nowait()
        except queue.Empty:
            return
