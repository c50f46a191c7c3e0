"""Replays recordings: runs the service's main loop on them, at the recorded times, without waiting.

Several are one machine whose service was restarted in between: each next service continues with the
state of the one before. State, messages and mails stay in memory, of several recordings the history
of samples in a temporary directory; no state.db is written and no mail is sent.
The initial report is left out, unless it is requested.
"""

from __future__ import annotations

import dataclasses
import email
import email.policy
import queue
import tempfile
from contextlib import ExitStack
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.block import uevents
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import ParseError
from iowarden.collectors.quantity import duration
from iowarden.collectors.recording.player import RecordedMachine
from iowarden.collectors.recording.recording import Frame, Recording, RecordingError
from iowarden.daemon import journal, json_codec, sanitize
from iowarden.daemon.clock import PlayedClock
from iowarden.daemon.config.rule_files import load_events
from iowarden.daemon.http.exposition import Exposition
from iowarden.daemon.notify.attempt import SendResult
from iowarden.daemon.polling import pollers
from iowarden.daemon.replay import missing_files
from iowarden.daemon.replay.expectation import ReplayEvent, moment
from iowarden.daemon.replay.played_scheduler import PlayedScheduler
from iowarden.daemon.sanitize import one_line
from iowarden.daemon.service.messages import Stop
from iowarden.daemon.service.service import Dependencies, Service
from iowarden.daemon.storage.history_db import History
from iowarden.daemon.storage.state_db import Committed, OutboxRow, StateChanges, StateLoaded
from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.engine.engine import Engine
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iowarden.daemon.config.schema import Config
    from iowarden.daemon.notify.attempt import OutboundMail
    from iowarden.daemon.storage.notifications import Notification, NotificationKey
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
    """From the first frame to the last, of all recordings."""
    problem: str = ""
    """Why it did not reach the end; '' if it did."""
    missing: tuple[missing_files.MissingFiles, ...] = ()
    """What iowarden reads on any such machine and the recordings lack."""

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
                "missing": [lack.document() for lack in self.missing],
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
    recordings: Sequence[Recording],
    config: Config,
    groups: Sequence[RuleGroup],
    on_frame: Callable[[int], object] = lambda _: None,
    *,
    from_start: bool = False,
) -> Replayed:
    """Replay recordings, in the order of time, to their end, each in a complete service.

    `on_frame` is called with the number of frames replayed. `from_start`: iowarden was installed
    when the first one begins, so that there is an initial report.

    A truncated or damaged recording is replayed up to that point, which `problem` describes.
    """
    mail = dataclasses.replace(config.mail, initial_report=from_start, enabled=True)
    config = dataclasses.replace(config, mail=mail)
    run = _Run(config, groups, on_frame)
    with ExitStack() as stack:
        if len(recordings) > 1:
            run.history = stack.enter_context(tempfile.TemporaryDirectory("", "iowarden-replay-"))
        for recording in recordings:
            run.play(recording)
            if run.timeline.problem:
                break
    timeline = run.timeline
    return Replayed(
        events=tuple(timeline.events),
        mails=tuple(run.mails),
        frames=timeline.frames,
        seconds=timeline.at_seconds(),
        problem=timeline.problem,
        missing=tuple(dict.fromkeys(run.missing)),
    )


class _Frames:
    """Gives the main loop one frame after the other, and stops it after the last."""

    def __init__(
        self,
        recording: Recording,
        root: RecordedMachine,
        engine: Engine,
        readers: PlayedScheduler,
        timeline: _Timeline,
        post: Callable[[object], object],
        on_frame: Callable[[int], object],
    ) -> None:
        self._on_frame = on_frame
        self.count = 0
        self._recording = recording
        self._machine = root
        self._engine = engine
        self._readers = readers
        self._timeline = timeline
        self._post = post
        self._pending: set[object] = set()

    def advance(self) -> Frame | None:
        """Make the next frame the current data of the machine."""
        self._record_pending()
        timeline = self._timeline
        try:
            step = self._recording.next()
            if step is not None and not self.count:
                timeline.begin(step.frame)
            if step is not None and step.uevents:
                self._post(uevents.parse_batch(step.uevents))
        except RecordingError as error:
            timeline.problem, step = str(error), None
        except ParseError as error:
            timeline.problem, step = f"frame {self.count:06d}: '.uevents': {error}", None
        if step is None:
            if not self.count and not timeline.problem:
                timeline.problem = "'000000': expected a complete frame, got none"
            self._post(Stop("the end of the recording"))
            return None
        timeline.last = step.frame
        self.count += 1
        timeline.frames += 1
        self._on_frame(timeline.frames)
        self._machine.apply(step)
        self._readers.read_now(step.read)
        return step.frame

    def _record_pending(self) -> None:
        """Record newly pending alerts, which the service does not log."""
        pending = {a.key: a for a in self._engine.rules.alerts() if a.state is AlertState.PENDING}
        for key, alert in pending.items():
            if key not in self._pending:
                self._timeline.pending(alert)
        self._pending = set(pending)


class _Timeline:
    """Collects log messages with their time."""

    def __init__(self) -> None:
        self.lost_total = 0
        self.events: list[ReplayEvent] = []
        self.frames = 0
        self.problem = ""
        self.last: Frame | None = None
        """The last frame that was played."""
        self._clock = PlayedClock()
        self._origin_seconds = 0.0
        """The monotonic time of the machine when the first frame was."""

    def continue_with(self, clock: PlayedClock) -> None:
        """Use the clock of the next service, which its first frame sets."""
        self._clock = clock

    def begin(self, frame: Frame) -> None:
        """Take the first frame of a recording. Errors: RecordingError."""
        if self.last is None:
            self._origin_seconds = frame.monotonic_seconds
            return
        before = self.last
        at_seconds = before.monotonic_seconds - self._origin_seconds
        gap = frame.realtime_seconds - before.realtime_seconds
        if frame.monotonic_seconds >= before.monotonic_seconds:  # the machine did not boot
            gap = frame.monotonic_seconds - before.monotonic_seconds
        if gap < 0:
            raise RecordingError(
                "frame 000000: expected a time after the end of the recording before it, got"
                f" {duration(-gap)} earlier; name recordings in the order of time"
            )
        self._origin_seconds = frame.monotonic_seconds - at_seconds - gap
        text = f"iowarden starts again, {moment(gap)} after the end of the recording before"
        self.events.append(
            ReplayEvent("others", at_seconds + gap, Severity.INFO, {"text": text}, f"text: {text}")
        )

    def at_seconds(self) -> float:
        """Return the time since the first frame."""
        if self.last is None:
            return 0.0
        return max(0.0, self._clock.uptime() - self._origin_seconds)

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


@dataclass(slots=True)
class StoredState:
    """The content of a state.db; a fixed installation id makes replays reproducible."""

    documents: dict[str, str] = field(
        default_factory=lambda: {"install": json_codec.encode("replay")}
    )
    outbox: dict[str, OutboxRow] = field(default_factory=dict)
    notifications: dict[NotificationKey, Notification] = field(default_factory=dict)


class MemoryStateDatabase:
    """A state database in memory; another one with the same content continues with it."""

    def __init__(
        self, post: Callable[[object], object], content: StoredState | None = None
    ) -> None:
        self.working_since: float | None = None
        self.unwritten_since: float | None = None
        self._post = post
        self._content = content or StoredState()

    def load(self) -> None:
        """Post the content at once."""
        content = self._content
        self._post(
            StateLoaded(
                dict(content.documents),
                tuple(content.outbox.values()),
                notifications=tuple(content.notifications.values()),
            )
        )

    def commit(self, batch: StateChanges) -> None:
        """Take a batch, which cannot fail."""
        content = self._content
        content.documents |= batch.put
        content.outbox |= {row.message_id: row for row in batch.add}
        content.notifications |= {each.key: each for each in batch.notifications}
        for name in batch.delete:
            content.documents.pop(name, None)
        for identifier in batch.remove:
            content.outbox.pop(identifier, None)
        for key in batch.forget:
            content.notifications.pop(key, None)
        self._post(Committed(batch.sequence))

    def retry(self) -> None:
        """Nothing to retry."""


class _Sender:
    """A mail sender that accepts each mail at once and stores it."""

    servers: tuple[str, ...] = ("replay",)
    connections = 1
    hung_seconds = 90.0

    def __init__(
        self,
        now: Callable[[], float],
        post: Callable[[object], object],
        mails: list[ReplayedMail] | None = None,
    ) -> None:
        self.working_since: float | None = None
        self.mails = [] if mails is None else mails
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


@dataclass(slots=True)
class _Run:
    """What the services of a replay have in common: each continues the one before."""

    config: Config
    groups: Sequence[RuleGroup]
    on_frame: Callable[[int], object]
    timeline: _Timeline = field(default_factory=_Timeline)
    state: StoredState = field(default_factory=StoredState)
    mails: list[ReplayedMail] = field(default_factory=list)
    missing: list[missing_files.MissingFiles] = field(default_factory=list)
    history: str = ""
    """The directory of history.db; '': it ends with this service."""

    def play(self, recording: Recording) -> None:
        """Replay a recording to its end."""
        config, timeline = self.config, self.timeline
        events: queue.SimpleQueue[object] = queue.SimpleQueue()
        clock, root = PlayedClock(), RecordedMachine(recording.page_size_bytes)
        polled = pollers.make(config.smart, clock)
        polled.directories.configure(config.watch_directories)
        readers = PlayedScheduler(polled.sources(), config.interval_seconds, root, clock.now)
        engine = Engine(
            self.groups,
            readers.sources,
            clock.now(),
            config.evaluation_interval_seconds,
            targets=config.targets,
        )
        timeline.continue_with(clock)
        frames = _Frames(recording, root, engine, readers, timeline, events.put, self.on_frame)
        service = Service(
            Dependencies(
                config=config,
                clock=clock,
                engine=engine,
                readers=readers,
                events=events,
                log=timeline,
                state=MemoryStateDatabase(events.put, self.state),
                sender=_Sender(timeline.at_seconds, events.put, self.mails),
                exposition=Exposition(lambda _: None),
                notify=lambda _: None,
                player=frames,
                pollers=polled,
                make_usage_machine=root.another,
                table=load_events(config.overrides),
                history=History(f"{self.history}/history.db", events.put) if self.history else None,
            )
        )
        try:
            service.run(None)
        except RecordingError as error:
            timeline.problem = f"frame {frames.count - 1:06d}: {error}"
        self.missing += missing_files.lacking(root, engine)
