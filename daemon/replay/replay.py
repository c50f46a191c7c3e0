"""Replays a recording: runs the service's main loop on it, at the recorded times, without waiting.

State, messages and mails stay in memory; no state.db is written and no mail is sent.
The initial report is left out.
"""

from __future__ import annotations

import dataclasses
import email
import email.policy
import queue
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.block import uevents
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import ParseError
from iowarden.collectors.recording.player import RecordedMachine
from iowarden.collectors.recording.recording import Frame, Recording, RecordingError
from iowarden.daemon import journal, json_codec, sanitize
from iowarden.daemon.clock import PlayedClock
from iowarden.daemon.config.rule_files import load_events
from iowarden.daemon.http.exposition import Exposition
from iowarden.daemon.notify.attempt import SendResult
from iowarden.daemon.polling import pollers
from iowarden.daemon.polling.scheduler import SourceScheduler
from iowarden.daemon.replay.expectation import ReplayEvent, moment
from iowarden.daemon.sanitize import one_line
from iowarden.daemon.service.messages import Stop
from iowarden.daemon.service.service import Dependencies, Service
from iowarden.daemon.storage.state_db import Committed, StateChanges, StateLoaded
from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.engine.engine import Engine
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iowarden.daemon.config.schema import Config
    from iowarden.daemon.notify.attempt import OutboundMail
    from iowarden.rules.rulefile.rulefile import RuleGroup

HOST = "recorded-machine"
"""Host name in mails if the configuration has none: a recording has no host name."""
_SILENT = {journal.MAIL_DELIVERED, journal.STOPPED}
_SECTIONS = {
    journal.ALERT_FIRING: "alerts",
    journal.ALERT_RESOLVED: "alerts",
    journal.ALERT_UNKNOWN: "alerts",
    journal.INCIDENT_OPENED: "incidents",
    journal.INCIDENT_ESCALATED: "incidents",
    journal.INCIDENT_CLOSED: "incidents",
}


@dataclass(frozen=True, slots=True)
class ReplayedMail:
    """A mail as it would have been sent."""

    at_seconds: float
    subject: str
    date: str
    text: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Replayed:
    """Result of a replay."""

    events: tuple[ReplayEvent, ...]
    mails: tuple[ReplayedMail, ...]
    frames: int
    seconds: float
    """From the first frame to the last."""
    problem: str = ""
    """Why it did not reach the end; '' if it did."""

    def compared(self) -> list[ReplayEvent]:
        """Return the results to compare with an expectation: the timeline, and the mails."""
        return [
            *self.events,
            *(
                ReplayEvent(
                    "mails",
                    mail.at_seconds,
                    Severity.CRITICAL,  # mails are always compared, whatever `least` is
                    {"subject": mail.subject, "text": mail.text},
                    f"subject: {mail.subject}",
                )
                for mail in self.mails
            ),
        ]

    def lines(self) -> Iterator[str]:
        """Return the timeline and then each mail, as text."""
        for told in self.events:
            yield (
                f"{moment(told.at_seconds):>9}  {told.severity.name.lower():<8}"
                f" {one_line(told.fields['text'])}"
            )
        for number, mail in enumerate(self.mails, 1):
            yield ""
            yield f"--- mail {number}, at {moment(mail.at_seconds)}"
            yield f"Date: {mail.date}"
            yield f"Subject: {mail.subject}"
            yield ""
            yield from mail.text.rstrip().splitlines()
        yield ""
        yield self.summary()

    def summary(self) -> str:
        """Return the last line."""
        alerts = sum(told.fields.get("state") == "firing" for told in self.events)
        return (
            f"replayed {self.frames} frames, {moment(self.seconds)}:"
            f" alerts that fired: {alerts}, mails: {len(self.mails)}"
        )

    def json(self, differences: Sequence[str]) -> str:
        """Return the result as JSON."""
        return sanitize.json_text(
            {
                "frames": self.frames,
                "seconds": self.seconds,
                "problem": self.problem,
                "timeline": [
                    {
                        "at_seconds": round(told.at_seconds, 3),
                        "severity": told.severity.name.lower(),
                        "section": told.section,
                        **told.fields,
                    }
                    for told in self.events
                ],
                "mails": [
                    {
                        "at_seconds": round(mail.at_seconds, 3),
                        "date": mail.date,
                        "subject": mail.subject,
                        "text": mail.text,
                    }
                    for mail in self.mails
                ],
                "differences": list(differences),
            },
            indent=1,
        )


def replay(
    recording: Recording,
    config: Config,
    groups: Sequence[RuleGroup],
    on_frame: Callable[[int], object] = lambda _: None,
) -> Replayed:
    """Replay a recording to its end in a complete service.

    `on_frame` is called with the number of frames replayed.

    A truncated or damaged recording is replayed up to that point, which `problem` describes.
    """
    config = dataclasses.replace(
        config, mail=dataclasses.replace(config.mail, initial_report=False, enabled=True)
    )
    events: queue.SimpleQueue[object] = queue.SimpleQueue()
    clock, root = PlayedClock(), RecordedMachine(recording.page_size_bytes)
    # Nothing hangs in a replay: the data sources are read one after the other, without threads.
    asked = pollers.make(config.smart, clock)
    asked.directories.configure(config.watch_directories)
    sources = [dataclasses.replace(s, may_hang=False) for s in asked.sources()]
    readers = SourceScheduler(sources, config.interval_seconds, lambda: root, clock.now, events.put)
    engine = Engine(
        groups,
        readers.sources,
        clock.now(),
        config.evaluation_interval_seconds,
        targets=config.targets,
    )
    journal_ = _Journal(clock)
    frames = _Frames(recording, root, engine, readers, journal_, events.put, on_frame)
    sender = _Sender(journal_.at_seconds, events.put)
    service = Service(
        Dependencies(
            config=config,
            clock=clock,
            engine=engine,
            readers=readers,
            events=events,
            log=journal_,
            state=_NullStateDatabase(events.put),
            sender=sender,
            exposition=Exposition(lambda _: None),
            notify=lambda _: None,
            player=frames,
            pollers=asked,
            make_usage_machine=root.another,
            table=load_events(),
        )
    )
    service.run(None)
    return Replayed(
        events=tuple(journal_.events),
        mails=tuple(sender.mails),
        frames=frames.count,
        seconds=journal_.at_seconds(),
        problem=frames.problem,
    )


class _Frames:
    """Gives the main loop one frame after the other, and stops it after the last."""

    def __init__(
        self,
        recording: Recording,
        root: RecordedMachine,
        engine: Engine,
        readers: SourceScheduler,
        journal_: _Journal,
        post: Callable[[object], object],
        on_frame: Callable[[int], object],
    ) -> None:
        self._on_frame = on_frame
        self.count = 0
        self.problem = ""
        self._recording = recording
        self._machine = root
        self._engine = engine
        self._readers = readers
        self._journal = journal_
        self._post = post
        self._pending: set[object] = set()

    def advance(self) -> Frame | None:
        """Make the next frame the current data of the machine."""
        self._record_pending()
        try:
            step = self._recording.next()
            if step is not None and step.uevents:
                self._post(uevents.parse_batch(step.uevents))
        except RecordingError as error:
            self.problem, step = str(error), None
        except ParseError as error:
            self.problem, step = f"frame {self.count:06d}: '.uevents': {error}", None
        if step is None:
            if not self.count and not self.problem:
                self.problem = "'000000': expected a complete frame, got none"
            self._post(Stop("the end of the recording"))
            return None
        if not self.count:
            self._journal.begin(step.frame)
        self.count += 1
        self._on_frame(self.count)
        self._machine.apply(step)
        self._readers.read_now(step.read)
        return step.frame

    def _record_pending(self) -> None:
        """Record newly pending alerts, which the service does not log."""
        pending = {a.key: a for a in self._engine.rules.alerts() if a.state is AlertState.PENDING}
        for key, alert in pending.items():
            if key not in self._pending:
                self._journal.pending(alert)
        self._pending = set(pending)


class _Journal:
    """Collects log messages with their time."""

    def __init__(self, clock: PlayedClock) -> None:
        self.lost_total = 0
        self.events: list[ReplayEvent] = []
        self._clock = clock
        self._first: Frame | None = None

    def begin(self, frame: Frame) -> None:
        self._first = frame

    def at_seconds(self) -> float:
        """Return the time since the first frame."""
        if self._first is None:
            return 0.0
        return max(0.0, self._clock.uptime() - self._first.monotonic_seconds)

    def send(
        self, kind: journal.MessageKind, priority: int, message: str, **fields: str | int | None
    ) -> None:
        if kind in _SILENT:
            return
        named = {
            name.removeprefix("IOWARDEN_").lower(): str(value)
            for name, value in fields.items()
            if value not in (None, "")
        }
        # In the journal, a resolved alert has severity notice; here it has the alert's severity.
        severity = Severity.__members__.get(
            named.get("severity", "").upper(),
            next((s for s, most in _PRIORITIES if priority <= most), Severity.INFO),
        )
        self._record(_SECTIONS.get(kind, "others"), severity, {**named, "text": message})

    def pending(self, alert: Alert) -> None:
        device = alert.label("device")
        text = f"{' '.join(filter(None, (alert.name, device)))} pending:"
        fields = {
            "alert": alert.name,
            "severity": alert.severity.name.lower(),
            "state": alert.state.value,
            "text": f"{text} {alert.annotation('summary')}",
        }
        self._record("alerts", alert.severity, fields | ({"device": device} if device else {}))

    def _record(self, section: str, severity: Severity, fields: dict[str, str]) -> None:
        words = [f"{k}: {fields[k]}" for k in ("alert", "device", "severity", "state", "text")
                 if k in fields]  # fmt: skip
        self.events.append(
            ReplayEvent(section, self.at_seconds(), severity, fields, ", ".join(words))
        )

    def debug(self, text: str) -> None:
        """Nothing about the program itself is collected."""

    def set_level(self, level: str) -> None:
        """All messages are collected."""

    def set_temporary_level(self, level: str, seconds: float) -> None:
        """All messages are collected."""

    def close(self) -> None:
        """Nothing is buffered."""


_PRIORITIES = ((Severity.CRITICAL, 2), (Severity.WARNING, 4), (Severity.NOTICE, 5))


class _NullStateDatabase:
    """A state database that stores nothing; a fixed installation id makes replays reproducible."""

    def __init__(self, post: Callable[[object], object]) -> None:
        self.working_since: float | None = None
        self.unwritten_since: float | None = None
        self._post = post

    def load(self) -> None:
        self._post(StateLoaded({"install": json_codec.encode("replay")}, ()))

    def commit(self, batch: StateChanges) -> None:
        self._post(Committed(batch.sequence))

    def retry(self) -> None:
        """Nothing to retry."""


class _Sender:
    """A mail sender that accepts each mail at once and stores it."""

    servers: tuple[str, ...] = ("replay",)
    connections = 1
    hung_seconds = 90.0

    def __init__(self, now: Callable[[], float], post: Callable[[object], object]) -> None:
        self.working_since: float | None = None
        self.mails: list[ReplayedMail] = []
        self._now = now
        self._post = post

    def submit(self, mail: OutboundMail) -> None:
        message = email.message_from_bytes(mail.data, policy=email.policy.default)
        body = message.get_body(("plain",))
        self.mails.append(
            ReplayedMail(
                at_seconds=self._now(),
                subject=str(message["Subject"]),
                date=str(message["Date"]),
                text="" if body is None else body.get_content(),
                data=mail.data,
            )
        )
        self._post(SendResult(mail.message_id, delivered=mail.recipients, answer="replayed"))

    def close(self, timeout_seconds: float) -> bool:
        """Return True: no mail is left."""
        return timeout_seconds >= 0
