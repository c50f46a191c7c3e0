"""The loop: one thread that takes events as they come, and each second does its duties in order.

It never waits for a disk. Threads around it read what may hang, write state.db, talk SMTP and serve
HTTP; what they have to say comes back through one queue. Signals enqueue, too.
"""

from __future__ import annotations

import queue
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from iowarden.collectors.model import trace
from iowarden.collectors.recording.recording import RecordingError
from iowarden.daemon.polling.scheduler import TICK_SECONDS
from iowarden.daemon.service.messages import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from iowarden.collectors.recording.recording import Frame
    from iowarden.daemon.clock import PlayedClock, SystemClock
    from iowarden.daemon.transition_log import Telling

    Duty = Callable[[float], object]
    """Takes the time on the program's clock."""

WAIT_SECONDS = 0.02
"""For a thread, where nothing else is to be done."""
SETTLE_SECONDS = 2.0
"""How long a recording waits, in real time, for threads at work on the last frame."""


class Player(Protocol):
    """Has what is read come from a recording."""

    def advance(self) -> Frame | None:
        """Let the next frame be there; None while it is not."""


@dataclass(slots=True)
class Loop:
    """Everything it calls happens in its thread."""

    events: queue.SimpleQueue[object]
    clock: SystemClock
    log: Telling
    handle: Callable[[object, float], object]
    """Takes an event, but for Stop, and the time."""
    duties: Mapping[str, Duty]
    """What each second asks for, in this order."""
    player: Player | None
    """Has a second begin with each frame of a recording; None: the clock has."""
    settling: Callable[[], bool]
    """Whether threads are at work on the last frame of a recording."""
    idle: Duty
    """What is done while the next frame is not there."""
    stopping: Stop | None = None
    _next_tick: float = 0.0

    def begin(self) -> None:
        """Have the first second begin now."""
        self._next_tick = self.clock.now()

    def turn(self) -> None:
        """Wait for the next second, or for somebody to say something, and deal with it.

        Errors: RecordingError.
        """
        try:
            self._turn()
        except RecordingError:
            raise
        except Exception as error:  # noqa: BLE001 - the one place that survives our own mistakes
            self.log.trouble("loop", f"loop: bug: {trace(error)}")

    def _turn(self) -> None:
        if self.player is None:
            self.take(self._next_tick - self.clock.now())
            now = self.clock.now()
            if now < self._next_tick:
                return
            late = now - self._next_tick > TICK_SECONDS
            self._next_tick = now + TICK_SECONDS if late else self._next_tick + TICK_SECONDS
            self.do_duties(now)
        elif self._next_frame(self.player):
            self.do_duties(self.clock.now())
        else:
            self.idle(self.clock.now())

    def do_duties(self, now: float) -> None:
        """Do what each second asks for."""
        for duty in self.duties.values():
            duty(now)
        self.log.trouble("loop", "")

    def _next_frame(self, player: Player) -> bool:
        """Let the threads settle, then take the next frame of the recording, if it is there."""
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
        self.take(0.0)  # what the kernel announced before the frame
        return self.stopping is None

    def wait_while(self, true: Callable[[], bool], most_seconds: float) -> None:
        """Handle events while something is so, for at most so long."""
        waited = 0.0
        while waited < most_seconds and true():
            self.take(WAIT_SECONDS)
            waited += WAIT_SECONDS

    def take(self, timeout_seconds: float) -> None:
        """Handle the events that are there, waiting at most so long for the first."""
        try:
            event = (
                self.events.get(timeout=timeout_seconds)
                if timeout_seconds > 0
                else self.events.get_nowait()
            )
            while True:
                if isinstance(event, Stop):
                    self.stopping = event
                else:
                    self.handle(event, self.clock.now())
                event = self.events.get_nowait()
        except queue.Empty:
            return
