"""Lives of the program on a recorded machine, each killed at a step of a test's choice.

The whole loop runs, above a real state.db; a step is to write to it, to have written, to hand a
mail to the server, to have handed it over. In between nothing leaves the process.
"""

from __future__ import annotations

import dataclasses
import functools
import queue
from typing import TYPE_CHECKING

from iowarden.collectors.recording.player import RecordedMachine
from iowarden.daemon.clock import PlayedClock
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_events, load_rules
from iowarden.daemon.http.exposition import Exposition
from iowarden.daemon.notify.attempt import SendResult
from iowarden.daemon.polling import pollers
from iowarden.daemon.polling.scheduler import SourceScheduler
from iowarden.daemon.service.messages import Stop
from iowarden.daemon.service.service import Dependencies, Service
from iowarden.daemon.service.stored_documents import SCHEMA
from iowarden.daemon.storage.state_db import Committed, StateChanges, StateDatabase
from iowarden.rules.engine.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iowarden.collectors.recording.recording import Frame, RecordingStep
    from iowarden.daemon import journal
    from iowarden.daemon.config.schema import Config
    from iowarden.daemon.notify.attempt import OutboundMail
    from iowarden.daemon.notify.delivery import Receivers
    from iowarden.daemon.service.stored_documents import Schema
    from iowarden.rules.events.event_table import EventTable
    from iowarden.rules.rulefile.rulefile import RuleGroup

DEADLINE_SECONDS = 60.0
PAGE_SIZE_BYTES = 4096


@functools.cache
def _rules() -> list[RuleGroup]:
    """Return the shipped rules: reading them takes longer than a life."""
    return load_rules(parse_config("", "iowarden.yaml"))


@functools.cache
def _events() -> EventTable:
    return load_events()


class Killed(BaseException):
    """As SIGKILL: nothing of ours catches it."""


class Life:
    """One run of the program, from a start to the end of a recording or to a kill."""

    def __init__(
        self,
        config: Config,
        taken: list[bytes],
        kill_at: int = 0,
        schema: Schema = SCHEMA,
        receivers_for: Callable[[Life, Config], Receivers] | None = None,
    ) -> None:
        """`taken` is what the mail server took; 0: nobody kills it.

        `receivers_for` makes the receivers other than mail.
        """
        self.service: Service
        self._receivers_for = receivers_for
        self.log: list[str] = []
        self.exposition = Exposition(lambda _: None)
        self._schema = schema
        self.steps = 0
        self._config = config
        self._taken = taken
        self._kill_at = kill_at
        self.clock = PlayedClock()
        self._later: list[tuple[float, object]] = []
        self._events: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._written: queue.SimpleQueue[int] = queue.SimpleQueue()

    def play(self, steps: Sequence[RecordingStep]) -> bool:
        """Live on a recording; return whether it was killed."""
        config, clock = self._config, self.clock
        root = RecordedMachine(PAGE_SIZE_BYTES)
        asked = pollers.make(config.smart, clock)
        sources = [dataclasses.replace(source, may_hang=False) for source in asked.sources()]
        readers = SourceScheduler(
            sources, config.interval_seconds, lambda: root, clock.now, self._events.put
        )
        engine = Engine(
            _rules(),
            readers.sources,
            clock.now(),
            config.evaluation_interval_seconds,
        )
        self._state = StateDatabase(
            f"{config.state_directory}/state.db", self._answered, versions=self._schema.versions()
        )
        self.service = service = Service(
            Dependencies(
                config=config,
                clock=clock,
                engine=engine,
                readers=readers,
                events=self._events,
                log=_Log(self.log),
                state=self,
                sender=_Server(self),
                exposition=self.exposition,
                notify=lambda _: None,
                player=_Frames(steps, root, readers, self._events.put, self._post_due),
                pollers=asked,
                table=_events(),
                schema=self._schema,
                receivers_for=None
                if self._receivers_for is None
                else functools.partial(self._receivers_for, self),
            )
        )
        try:
            service.run(None)
        except Killed:
            return True
        finally:
            assert self._state.close(DEADLINE_SECONDS)
        return False

    def step(self) -> None:
        """Come to the next step, and perhaps no further."""
        self.steps += 1
        if self.steps == self._kill_at:
            raise Killed

    def take(self, mail: OutboundMail) -> None:
        """Have the server take a mail."""
        self.step()
        self._taken.append(mail.data)
        self.step()
        self._events.put(SendResult(mail.message_id, delivered=mail.recipients, answer="250 OK"))

    def post(self, event: object, after_seconds: float = 0.0) -> None:
        """Have the loop handle something, now or after so many seconds of the recording."""
        if after_seconds:
            self._later.append((self.clock.now() + after_seconds, event))
        else:
            self._events.put(event)

    def _post_due(self) -> None:
        for due in [each for each in self._later if each[0] <= self.clock.now()]:
            self._later.remove(due)
            self._events.put(due[1])

    # --- state.db, as the loop sees it

    @property
    def working_since(self) -> float | None:
        """Return since when it is written."""
        return self._state.working_since

    @property
    def unwritten_since(self) -> float | None:
        """Return since when something is not durable."""
        return self._state.unwritten_since

    def load(self) -> None:
        """Ask for what is kept."""
        self._state.load()

    def retry(self) -> None:
        """Try again."""
        self._state.retry()

    def commit(self, batch: StateChanges) -> None:
        """Write, and wait until it is: a kill in between is either of the two."""
        self.step()
        self._state.commit(batch)
        while self._written.get(timeout=DEADLINE_SECONDS) < batch.sequence:
            pass
        self.step()

    def _answered(self, answer: object) -> None:
        self._events.put(answer)
        if isinstance(answer, Committed):
            assert not answer.error
            self._written.put(answer.sequence)


class _Server:
    """Takes every mail at once."""

    servers = ("server",)
    connections = 1
    hung_seconds = 90.0

    def __init__(self, life: Life) -> None:
        self.working_since: float | None = None
        self._life = life

    def submit(self, mail: OutboundMail) -> None:
        self._life.take(mail)

    def close(self, timeout_seconds: float) -> bool:
        """Say that nothing is left."""
        return timeout_seconds >= 0


class _Frames:
    """Hands out one frame after the other, then ends."""

    def __init__(
        self,
        steps: Sequence[RecordingStep],
        root: RecordedMachine,
        readers: SourceScheduler,
        post: Callable[[object], object],
        begin: Callable[[], object] = lambda: None,
    ) -> None:
        """`begin` is called before each frame."""
        self._steps = iter(steps)
        self._root = root
        self._readers = readers
        self._post = post
        self._begin = begin

    def advance(self) -> Frame | None:
        step = next(self._steps, None)
        if step is None:
            self._post(Stop("the end of the recording"))
            return None
        self._begin()
        self._root.apply(step)
        self._readers.read_now(step.read)
        return step.frame


class _Log:
    """Keeps what is said."""

    lost_total = 0

    def __init__(self, said: list[str]) -> None:
        self._said = said

    def send(
        self, kind: journal.MessageKind, priority: int, message: str, **fields: str | int | None
    ) -> None:
        """Keep a line."""
        self._said.append(message)

    def debug(self, text: str) -> None:
        """Log nothing."""

    def set_level(self, level: str) -> None:
        """Nothing is said."""

    def close(self) -> None:
        """Nothing waits."""
