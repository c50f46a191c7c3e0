"""The program on a recording whose frames a test hands out: in this process, or in its own."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import queue
import re
import select
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from support.everything import PLACEHOLDERS, steps_of
from support.idle import IDLE, idle_steps
from support.recordings import FIXTURES
from support.smtp import DEADLINE_SECONDS, free_port

from iowarden.collectors.recording.player import RecordedMachine
from iowarden.collectors.recording.recorder import Recorder
from iowarden.collectors.recording.recording import Frame, Recording, RecordingStep
from iowarden.daemon.cli import main, run_command
from iowarden.daemon.clock import PlayedClock, local_zone
from iowarden.daemon.config import rule_files
from iowarden.daemon.config.load import load_config
from iowarden.daemon.journal import Log
from iowarden.daemon.metric_labels import LABELS, fits
from iowarden.daemon.notify.delivery import Receivers
from iowarden.daemon.service.messages import Reload, Stop
from iowarden.daemon.setup import service_user

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from support.smtp import Answers, Received

    from iowarden.daemon.service.service import Service

# A text is parsed in the same way each time, and the shipped ones would be with each start.
rule_files.parse_rule_file = functools.lru_cache(64)(rule_files.parse_rule_file)
rule_files.parse_events_file = functools.lru_cache(1)(rule_files.parse_events_file)
# Where the service is installed, 'config check' judges as its user, in a process not heard here.
service_user.SERVICE_USER = "nobody-yet"

COMMAND = Path(sys.executable).with_name("iowarden")
PAGE_SIZE_BYTES = 4096


@functools.cache
def recorded(name: str) -> tuple[RecordingStep, ...]:
    """Return the frames of 'tests/fixtures/<name>.tar.xz', read once."""
    return tuple(iter(Recording(str(FIXTURES / f"{name}.tar.xz")).next, None))


def then_idle(
    steps: Iterable[RecordingStep], seconds: float, step_seconds: float = 1.0
) -> list[RecordingStep]:
    """Return the frames, and such a time after them in which the machine does nothing."""
    frames = list(steps)
    texts = {path: text for path, text in whole(frames).files.items() if path in IDLE and text}
    count = int(seconds / step_seconds)
    return [*frames, *idle_steps(frames[-1].frame, texts, count, step_seconds)]


def whole(steps: Sequence[RecordingStep]) -> RecordingStep:
    """Return one frame with all that is there after the last of these."""
    files: dict[str, bytes | None] = {}
    for step in steps:
        for gone in step.gone:
            for path in [p for p in files if p == gone or p.startswith(f"{gone}/")]:
                del files[path]
        files |= step.files
    return RecordingStep(replace(steps[-1].frame, number=0), files)


class Feed:
    """A recording that grows: the program's clock stands still until it is given a frame."""

    def __init__(self, steps: Iterable[RecordingStep], place: Path) -> None:
        """Begin with no frame; `place` is for a program that needs them as files."""
        self.steps = list(steps)
        self.given = 0
        self._place = place
        self._recorder: Recorder | None = None

    @property
    def directory(self) -> Path:
        """The frames given as a recording on disk, which grows as more are given."""
        if self._recorder is None:
            self._recorder = Recorder(str(self._place), PAGE_SIZE_BYTES)
            self._write(self.steps[: self.given])
        return self._place

    def packed(self) -> str:
        """Return the path of an archive with the frames given."""
        path = f"{self._place}.tar.gz"
        recorder = Recorder(path, PAGE_SIZE_BYTES)
        for step in self.steps[: self.given]:
            recorder.write(step)
        recorder.close()
        return path

    def give(self, count: int | None = None) -> None:
        """Hand out the next frames, or all that are left."""
        end = len(self.steps) if count is None else min(self.given + count, len(self.steps))
        frames, self.given = self.steps[self.given : end], end
        self._write(frames)

    def _write(self, frames: Sequence[RecordingStep]) -> None:
        if self._recorder is not None:
            for step in frames:
                self._recorder.write(step)

    def resumed(self, place: Path) -> Feed:
        """Return a feed that goes on after the last frame given, for another start."""
        feed = Feed([whole(self.steps[: self.given]), *self.steps[self.given :]], place)
        feed.give(1)
        return feed

    def uptime(self) -> float:
        """Return the machine's uptime in the last frame that was given."""
        return self.steps[self.given - 1].frame.monotonic_seconds


class _Written:
    """The configuration of a program, in a directory of its own, and what is asked of it."""

    def __init__(
        self,
        directory: Path,
        feed: Feed,
        *,
        smtp_port: int | None = None,
        settings: str = "",
        initial_report: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Write the configuration. `initial_report`: whether one mail lists what is found first."""
        self.directory = directory
        self.port = free_port()
        self.state = directory / "state"
        self.log = directory / "log"
        self.feed = feed
        self.environment = environment or {}
        server = f"server: 127.0.0.1, port: {smtp_port}, to: ops@example.com, " if smtp_port else ""
        mail = f"mail: {{{server}timeout: 5s, initial_report: {str(initial_report).lower()}}}\n"
        if not (directory / "rules.d").exists():  # a test may have a file there
            (directory / "rules.d").mkdir()
        self.config = directory / "iowarden.yaml"
        self.config.write_text(
            f"host: db1.example.com\nlisten: 127.0.0.1:{self.port}\nstate_directory: {self.state}\n"
            f"rules_directory: {directory}/rules.d\n{mail}{settings}"
        )


def samples(exposition: str) -> dict[str, float]:
    """Return every sample of a scrape by name and labels; these are those of the reference."""
    lines = (line for line in exposition.splitlines() if line and not line.startswith("#"))
    found = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
    assert [series for series in found if not _is_documented(series)] == []
    return found


@functools.cache
def _is_documented(series: str) -> bool:
    name, _, labels = series.partition("{")
    return name not in LABELS or fits(name, _LABEL.findall(labels))


_LABEL = re.compile(r'(\w+)="(?:[^"\\]|\\.)*"')


class _Player:
    """Has the loop read the frames of a feed, in memory."""

    def __init__(self, feed: Feed) -> None:
        self.waits = False
        """Whether the loop has dealt with all that was given."""
        self.taken = 0
        """How many frames it has dealt with, or deals with now."""
        self._feed = feed
        self._roots: list[RecordedMachine] = []

    def root(self) -> RecordedMachine:
        """Return a root of its own for each thread: it remembers what was read last."""
        root = RecordedMachine(PAGE_SIZE_BYTES)
        for step in self._feed.steps[: self.taken]:
            root.apply(step)
        self._roots.append(root)
        return root

    def advance(self) -> Frame | None:
        """Let the next frame be there."""
        self.waits = self.taken >= self._feed.given
        if self.waits:
            return None
        step = self._feed.steps[self.taken]
        self.taken += 1
        for root in self._roots:
            root.apply(step)
        return step.frame


class _Said:
    """The lines of a log, through a pipe, as on standard error."""

    def __init__(self, journal_socket: str, level: str) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        self.log = Log(
            foreground=True, level=level, socket_path=journal_socket, descriptor=self._writer
        )
        self._bytes = b""

    def drain(self) -> None:
        """Take what has come: a pipe that is full would hold the lines back."""
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self._reader, 65_536):
                self._bytes += piece

    def text(self) -> str:
        """Return all that was said by now: a line of ours that follows has come through."""
        mark = f"mark {time.monotonic_ns()}"
        writer = self.log._writer
        assert writer is not None
        assert writer.put(7, mark)
        while f"{mark}\n".encode() not in self._bytes:
            assert select.select([self._reader], [], [], DEADLINE_SECONDS)[0], self._bytes
            self.drain()
        self._bytes = re.sub(rb"[^\n]*%b\n" % mark.encode(), b"", self._bytes)
        return self._bytes.decode(errors="replace")

    def close(self) -> str:
        """End the log; return all that was said."""
        self.drain()
        self.log.close(DEADLINE_SECONDS)
        self.drain()
        os.close(self._reader)
        os.close(self._writer)
        return self._bytes.decode(errors="replace")


@dataclass
class CommandResult:
    """Output of a command of the command line, and its exit status."""

    returncode: int
    stdout: str
    stderr: str


class Played(_Written):
    """The whole service in this process, its loop turned by the test: no time passes of itself.

    Everything is the service's own (threads, state.db, control socket, mail) but where its frames
    come from and where its log goes.
    """

    http = False
    """Whether it serves its metrics."""
    journal_socket = ""
    """Where the journal is; '': there is none."""
    _text = ""
    """What earlier starts said."""
    _said: _Said | None = None
    _service: Service | None = None

    def start(self) -> None:
        """Start it, up to where it waits for a frame."""
        assert self._service is None
        events: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._post = events.put
        with self._zone():
            settings = load_config(str(self.config))
            rules = rule_files.load_for_service(settings)
            self._said = _Said(self.journal_socket, settings.log_level)
            self._said.log.redact = settings.redactor.text
            self._player = _Player(self.feed)
            machine = run_command.WatchedMachine(
                PlayedClock(), self._player.root, PAGE_SIZE_BYTES, self._player
            )
            self._service, self._server = run_command.assembled(
                lambda: load_config(str(self.config)),
                settings,
                rules,
                machine,
                events,
                self._said.log,
            )
            self._service.begin(self._server if self.http else None)

    @contextlib.contextmanager
    def _zone(self) -> Iterator[None]:
        """Run in the environment that the program was given."""
        before = {name: os.environ.get(name) for name in self.environment}
        os.environ.update(self.environment)
        if "TZ" in self.environment:
            local_zone.cache_clear()
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
            if "TZ" in self.environment:
                local_zone.cache_clear()

    def _running(self) -> Service:
        assert self._service is not None, "it does not run"
        return self._service

    def _turn(self) -> None:
        assert self._said is not None
        service = self._running()
        with self._zone():
            service.loop.turn()
        self._said.drain()

    def text(self) -> str:
        """Return what it said so far."""
        return self._text + ("" if self._said is None else self._said.text())

    def metrics(self) -> dict[str, float]:
        """Return every sample of a scrape by name and labels."""
        return samples(self._running()._dependencies.exposition.render().decode())

    def until(self, true: Callable[[], object], what: str) -> None:
        """Let it turn until something is so.

        The deadline, far above what anything takes, begins anew with each frame.
        """
        taken, end = -1, 0.0
        while not true():
            if self._player.taken != taken:
                taken, end = self._player.taken, time.monotonic() + DEADLINE_SECONDS
            assert time.monotonic() < end, f"waited for {what}:\n{self.text()}"
            self._turn()

    def caught_up(self) -> None:
        """Let it deal with every frame that was given, and with what its threads say of that."""
        self._player.waits = False
        self.until(lambda: self._player.waits, f"uptime {self.feed.uptime()}")

    def sent(self) -> bool:
        """Let a mail that is under way arrive, or fail; return whether none waits."""
        mails = self._running()._mails
        self.until(lambda: not mails.busy(), "the mail under way")
        return len(mails) == 0

    def mail(self, answers: Answers) -> Received:
        """Return the next mail that the server takes: it holds no placeholder."""
        self.until(answers.mails.qsize, "a mail")
        mail = answers.next()
        assert PLACEHOLDERS.findall(steps_of(mail.data)) == []
        return mail

    def hang_up(self) -> None:
        """Have it read its configuration anew, as SIGHUP does, after the frames that were given."""
        self.caught_up()
        self._post(Reload())

    def command(self, *words: str) -> CommandResult:
        """Run a command that queries it; return its result."""
        said: list[CommandResult] = []
        thread = threading.Thread(
            target=lambda: said.append(run(*words, "--state-directory", str(self.state)))
        )
        thread.start()
        self.until(lambda: not thread.is_alive(), f"an answer to {words}")
        thread.join()
        return said[0]

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it as by this signal; return the exit status, as of a process.

        SIGKILL: it turns no more, and nothing is written but what it had asked to be written.
        """
        service = self._running()
        killed = number == signal.SIGKILL
        if not killed:
            self._post(Stop(number.name))
            self.until(lambda: service.loop.stopping, "the end")
            with self._zone():
                service.stop()
        self._let_go(killed=killed)
        return -number if killed else 0

    def _let_go(self, *, killed: bool) -> None:
        """End what the end of a process would end."""
        assert self._said is not None
        service, self._service = self._running(), None
        parts = service._dependencies
        if killed:
            if parts.control is not None:
                parts.control._remove = ""  # nobody tidies up behind it
                parts.control.close()
            service._sample_persistence.close(DEADLINE_SECONDS)
            parts.readers.close()
            self._server.close()
        if service._mails.sender is not None:
            service._mails.sender.close(DEADLINE_SECONDS)
        service._mails.use(Receivers({}, {}))
        parts.state.close(DEADLINE_SECONDS)  # type: ignore[attr-defined]  # the real one has it
        self._text += self._said.close()
        self._said = None

    def close(self) -> None:
        """Leave nothing running."""
        if self._service is not None:
            self._let_go(killed=True)


def run(*words: str) -> CommandResult:
    """Run a command of the command line in this process."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    stdout, stderr = streams
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            status = main.main(words)
        except SystemExit as error:  # argparse's
            status = int(error.code or 0)
    texts = []
    for stream in streams:
        stream.flush()
        assert isinstance(stream.buffer, io.BytesIO)
        texts.append(stream.buffer.getvalue().decode())
    return CommandResult(status, *texts)


class Program(_Written):
    """`iowarden run` in a process of its own."""

    prefix: Sequence[str] = ()
    """A command that runs it."""
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; what it says is appended to the log. A recording has a first frame by then."""
        if not self.feed.given:
            self.feed.give(1)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(*self.prefix, str(COMMAND), "run", "--config", str(self.config)),
                    *("--play", str(self.feed.directory)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # What it unpacks a recording to stays behind where it is killed.
                env={**os.environ, "TMPDIR": str(self.directory), **self.environment},
            )

    def text(self) -> str:
        """Return what it said so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def metrics(self) -> dict[str, float]:
        """Return every sample of a scrape by name and labels; none while it does not answer."""
        try:
            with urllib.request.urlopen(  # a fixed local address
                f"http://127.0.0.1:{self.port}/metrics", timeout=DEADLINE_SECONDS
            ) as answer:
                return samples(answer.read().decode())
        except (urllib.error.URLError, OSError):
            return {}

    def until(self, true: Callable[[], object], what: str) -> None:
        """Wait for something with a deadline far above what it takes."""
        end = time.monotonic() + DEADLINE_SECONDS
        while not true():
            assert self.process is not None
            assert self.process.poll() is None, f"it ended, waiting for {what}:\n{self.text()}"
            assert time.monotonic() < end, f"waited for {what}:\n{self.text()}"
            time.sleep(0.02)  # between two looks at another process, which no event tells of

    def caught_up(self) -> None:
        """Wait until it has taken every frame that was given."""
        self.until(
            lambda: (
                self.metrics().get("iowarden_clock_monotonic_seconds", -1)
                >= self.feed.uptime() - 0.01
            ),
            f"uptime {self.feed.uptime()}",
        )

    def sent(self) -> bool:
        """Return whether no mail waits."""
        return self.metrics().get('iowarden_notifications_waiting{receiver="mail"}') == 0.0

    def hang_up(self) -> None:
        """Have it read its configuration anew."""
        assert self.process is not None
        self.process.send_signal(signal.SIGHUP)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_SECONDS)

    def close(self) -> None:
        """Leave nothing running."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(DEADLINE_SECONDS)


@contextlib.contextmanager
def with_hung_disk(directory: Path) -> Iterator[Played]:
    """Run the service on a machine with a hung disk; it has seen the whole recording."""
    feed = Feed(recorded("hung-disk"), directory / "feed")
    program = Played(directory, feed)
    feed.give(1)
    program.start()
    feed.give()
    program.caught_up()
    yield program
    program.close()
