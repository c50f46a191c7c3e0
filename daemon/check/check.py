"""One look at everything for `iowarden check`: what the rules say now, and what they stand on.

The daemon's own readers, engine and rules look for a few seconds; nothing is written or mailed.
`guarded` does it in a process of its own, because one with a thread in a hung system call cannot
end, and whoever asks at three in the morning must get an answer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import http.client
import io
import json
import os
import pickle
import queue
import re
import select
import signal
import textwrap
import time
from collections import Counter, defaultdict
from datetime import datetime
from typing import TYPE_CHECKING

from iowarden.collectors.block.block_devices import Topology
from iowarden.collectors.model import AbsentError, Outcome, ReadError, Reading, trace
from iowarden.collectors.smart.drive import Cover
from iowarden.daemon import exporters
from iowarden.daemon.clock import local_zone
from iowarden.daemon.config import config as configuration
from iowarden.daemon.polling import pollers
from iowarden.daemon.polling.scheduler import Readers
from iowarden.daemon.sanitize import one_line, shorten
from iowarden.rules.advice import last_copies
from iowarden.rules.advice.advice import advice_of
from iowarden.rules.advice.facts import Facts, known, multipath, slow
from iowarden.rules.alerting.alerts import State
from iowarden.rules.engine.engine import Engine
from iowarden.rules.faults import meaning
from iowarden.rules.quantity import duration, size
from iowarden.rules.rulefile.rulefile import RecordingRule, Rule
from iowarden.rules.severity import Severity
from iowarden.rules.signals import table as signals
from iowarden.rules.topology import device_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from iowarden.collectors.block.queue import Queue
    from iowarden.collectors.filesystem.mountinfo import Mounts
    from iowarden.collectors.filesystem.statfs import Filesystems
    from iowarden.collectors.machine import Root
    from iowarden.collectors.md.mdstat import Array
    from iowarden.collectors.recording.recording import Player
    from iowarden.collectors.smart.drive import Disks
    from iowarden.daemon.clock import PlayedClock, SystemClock
    from iowarden.daemon.config.config import Config
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.rulefile.rulefile import RuleGroup

LOOK_SECONDS = 4.0
"""How long a look takes at least: signals of a second need a few."""
MOST_LOOK_SECONDS = 45.0
"""And at most, while a source has not answered or a device completes nothing."""
STANDING_SECONDS = 2.0
"""A device without completions for so long is looked at until it is judged."""
DEADLINE_SECONDS = 75.0
"""After that the whole check is given up, whatever it hangs in."""
SERVICE_TIMEOUT_SECONDS = 2.0
LIMIT_BYTES = 32 * 1024 * 1024
"""Of the service's '/metrics'; 480 disks need 3 MB."""
SETTLE_SECONDS = 2.0
"""How long a frame of a recording waits for threads, in real time."""
WIDTH = 100
"""Of lines that go to no terminal."""
LEAST_WIDTH = 40
MOST_OBJECTS = 5
"""Of one alert, each in a line of its own; the others are named in one."""
MOST_DISKS = 24
"""Each in a line of its own; beyond, equal ones share a line."""
MOST_FILE_SYSTEMS = 24
MOST_DRIVES = 100
SELF_TESTS = 'self_tests: [{disks: "*", short: "02:00", long: "Sat *-*-1..7 03:00"}]'
"""A schedule to begin with: short ones each night, a long one a month."""
_NOT_ASKED = frozenset({Cover.NO_PASS_THROUGH, Cover.NO_SMART, Cover.LUN, Cover.MISSING})

LONGER_LOOK = frozenset(
    "bandwidth lull reclaim_stall swap activity phantom_reads read_ahead request_split"
    " request_chunk starvation timeouts hung_task".split()
)
"""Groups of signals that tell something only after minutes, or by what changes in them."""


class Level(enum.StrEnum):
    """How bad a line is. `status` is the exit status it asks for; the order is the report's."""

    CRITICAL = "CRITICAL"
    WARNING = "WARNING"
    UNKNOWN = "UNKNOWN"
    INFO = "INFO"
    OK = "OK"

    @property
    def status(self) -> int:
        """Return the exit status. Source: Monitoring Plugins guidelines, return codes."""
        return {"CRITICAL": 2, "WARNING": 1, "UNKNOWN": 3}.get(self.value, 0)


_LEVELS = tuple(Level)
_LEVEL = {
    Severity.CRITICAL: Level.CRITICAL,
    Severity.WARNING: Level.WARNING,
    Severity.NOTICE: Level.INFO,
    Severity.INFO: Level.INFO,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One line; `topic` is an alert's name or what of iowarden it is about.

    `description` is what it means, `advice` what to do about it.
    """

    level: Level
    topic: str
    object: str
    text: str
    advice: str = ""
    description: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """Something that was looked at: a disk, an array, a file system."""

    kind: str
    name: str
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What one look came to."""

    findings: tuple[Finding, ...]
    items: tuple[Item, ...] = ()

    @property
    def status(self) -> int:
        """Return the exit status: the worst of critical, warning, could not tell, ok."""
        worst = min((f.level for f in self.findings), key=_LEVELS.index, default=Level.OK)
        return worst.status

    def summary(self) -> str:
        """Return the last line."""
        counts = Counter(f.level for f in self.findings)
        sources = sum(f.level is Level.UNKNOWN and f.topic == "source" for f in self.findings)
        words = [
            _count(counts[Level.CRITICAL], "critical", ""),
            _count(counts[Level.WARNING], "warning"),
            _count(sources, "source", "s", " could not be read"),
            _count(counts[Level.UNKNOWN] - sources, "unknown", ""),
            _count(counts[Level.INFO], "info"),
        ]
        return f"check: {', '.join(word for word in words if word) or 'all is well'}"

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        """Return the report as text, worst first, in lines of about so many characters."""
        told: set[str] = set()
        for finding in sorted(self.findings, key=lambda f: _LEVELS.index(f.level)):
            place = f" {finding.object}" if finding.object else ""
            yield from _wrapped(finding.level, f"{finding.topic}{place}: {finding.text}", width)
            if finding.level is not Level.INFO and finding.topic not in told:
                told.add(finding.topic)
                for line in (finding.description, *finding.advice.strip("\n").splitlines()):
                    yield from _advice(line, width) if line else ()
        for item in self.items:
            yield from _wrapped(Level.INFO, f"{item.kind} {item.name}: {item.text}", width)
        yield self.summary()

    def json(self) -> str:
        """Return the same as data."""
        found = sorted(self.findings, key=lambda f: _LEVELS.index(f.level))
        return json.dumps(
            {
                "status": self.status,
                "summary": self.summary(),
                "findings": [dataclasses.asdict(f) for f in found],
                "items": [dataclasses.asdict(i) for i in self.items],
            },
            indent=1,
        )


def _count(number: int, word: str, plural: str = "s", more: str = "") -> str:
    return f"{number} {word}{plural if number != 1 else ''}{more}" if number else ""


_QUOTED = re.compile(r"(?<!\w)'[^']{1,80}'(?!\w)")


def _wrapped(level: Level, text: str, width: int) -> list[str]:
    """Return the lines of a text; what is quoted stays together: it may be a command to copy."""
    lines = textwrap.wrap(
        _QUOTED.sub(lambda found: found[0].replace(" ", "\0"), one_line(text)),
        max(width, LEAST_WIDTH),
        initial_indent=f"{level.value:<9}",
        subsequent_indent=" " * 9,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in lines]


def _advice(line: str, width: int) -> list[str]:
    shown = one_line(line)
    if line.startswith(" "):  # a command: to be copied as it is
        return [" " * 13 + shown]
    indent = " " * 11
    return textwrap.wrap(
        shown,
        max(width, LEAST_WIDTH),
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


# --- a process of its own


def guarded(
    examine: Callable[[Callable[[str], None]], Report],
    deadline_seconds: float = DEADLINE_SECONDS,
) -> Report:
    """Return what `examine` returns in a child process, or that it gave no answer in time.

    `examine` says by its argument what it is about to do. The child is left alone when it hangs:
    not even SIGKILL ends a process in uninterruptible sleep, and nobody waits for it.
    Errors: OSError when no process can be made.
    """
    reading, writing = os.pipe()
    # Amid a fork, Python's own hooks would swallow Ctrl-C.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    child = os.fork()
    if child == 0:
        _serve(examine, reading, writing)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        os.close(writing)
        return _awaited(reading, time.monotonic() + deadline_seconds)
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)  # not reaped yet, so the number is still its own
        os.waitpid(child, os.WNOHANG)


def answered(
    examine: Callable[[Callable[[str], None]], Report], step: Callable[[str], None]
) -> Report:
    """Return what `examine` returns, or the mistake of ours that ended it."""
    try:
        return examine(step)
    except Exception as error:  # noqa: BLE001 - whoever asks gets an answer, not a traceback
        return Report((Finding(Level.UNKNOWN, "check", "", f"bug: {trace(error)}"),))


def _serve(examine: Callable[[Callable[[str], None]], Report], reading: int, writing: int) -> None:
    """Do the child's work and end without the parent's clean-up."""
    try:
        # Silent with the terminal's Ctrl-C, and with the parent's end at the next step.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:

            def step(text: str) -> None:
                pickle.dump(text, pipe)
                pipe.flush()

            pickle.dump(answered(examine, step), pipe)
    finally:
        os._exit(0)


def _awaited(reading: int, end: float) -> Report:
    received, text = b"", "gave no answer in time; the root disk may hang"
    while (left := end - time.monotonic()) > 0 and select.select([reading], [], [], left)[0]:
        chunk = os.read(reading, 1 << 16)
        if not chunk:
            text = "ended without an answer"
            break
        received += chunk
    last = (_unpickled(received) or ["starting"])[-1]
    if isinstance(last, Report):
        return last
    found = Finding(Level.UNKNOWN, "check", "", f"{text}; its last step: {last}")
    return Report((found,))


def _unpickled(received: bytes) -> list[object]:
    stream = io.BytesIO(received)
    found: list[object] = []
    with contextlib.suppress(EOFError, pickle.UnpicklingError):  # the rest has not come
        while True:
            found.append(pickle.load(stream))  # noqa: S301 - from our own child
    return found


# --- the look


def look(
    engine: Engine,
    readers: Readers,
    events: queue.SimpleQueue[object],
    clock: SystemClock,
    look_seconds: float,
    step: Callable[[str], None] = lambda _: None,
) -> None:
    """Let the engine see and judge this machine for a few seconds."""
    began = clock.now()
    tick = began
    pending: list[Reading[object]] = []
    while True:
        step(f"looking at the machine, for {tick - began:.0f} s now")
        now = clock.now()
        engine.observe([*pending, *readers.run(now)], now, clock.uptime())
        engine.evaluate(now)
        # What was asked in this very turn is waited for in the first: some are asked in each.
        waits = readers.waiting(now) if tick > began else readers.waiting()
        busy = waits or _standing(engine)
        if now - began >= (MOST_LOOK_SECONDS if busy else look_seconds):
            return
        tick += 1.0
        pending = _answers(readers, events, clock.now, tick)


def play(
    engine: Engine,
    readers: Readers,
    events: queue.SimpleQueue[object],
    clock: PlayedClock,
    player: Player,
) -> None:
    """Let the engine see and judge a whole recording. Errors: RecordingError."""
    while (frame := player.advance()) is not None:
        clock.set(frame.monotonic_seconds, frame.realtime_seconds)
        now = clock.now()
        readings = readers.run(now)
        end = time.monotonic() + SETTLE_SECONDS

        if readers.waiting():
            readings += _answers(readers, events, time.monotonic, end, while_waiting=True)
        engine.observe(readings, now, clock.uptime())
        engine.evaluate(now)


def _answers(
    readers: Readers,
    events: queue.SimpleQueue[object],
    clock: Callable[[], float],
    end: float,
    *,
    while_waiting: bool = False,
) -> list[Reading[object]]:
    """Return what the threads answer until the clock says `end`."""
    found = []
    while (left := end - clock()) > 0 and (readers.waiting() or not while_waiting):
        try:
            event = events.get(timeout=left)
        except queue.Empty:
            break
        if isinstance(event, Reading):
            readers.finished(event)
            found.append(event)
    return found


def _standing(engine: Engine) -> bool:
    """Whether a device completes nothing and nobody can say yet what that is."""
    firing = {a.label("device") for a in engine.alerts() if a.active}
    return any(
        metric == "iowarden_device_stalled_seconds"
        and value >= STANDING_SECONDS
        and dict(labels)["device"] not in firing
        for chunk in engine.chunks()
        for _, samples in chunk.families
        for metric, labels, value in samples
    )


def examine(
    settings: Config,
    groups: Sequence[RuleGroup],
    clock: SystemClock,
    root: Callable[[], Root],
    *,
    player: Player | None = None,
    look_seconds: float = LOOK_SECONDS,
    step: Callable[[str], None] = lambda _: None,
) -> Report:
    """Return the report on this machine, or on what a recording has at its end.

    Errors: RecordingError.
    """
    events: queue.SimpleQueue[object] = queue.SimpleQueue()
    asked = pollers.make(settings.smart, clock).sources()
    # That the service asks drives, and nobody here does, leaves nothing unknown.
    sources = [dataclasses.replace(s, unread=None) if s.name == "smart" else s for s in asked]
    readers = Readers(sources, settings.period_seconds, root, clock.now, events.put)
    each_tick = [dataclasses.replace(group, interval_seconds=1.0) for group in groups]
    engine = Engine(each_tick, readers.sources, clock.now(), targets=settings.targets)
    if player is None:
        look(engine, readers, events, clock, look_seconds, step)
    else:
        play(engine, readers, events, clock, player)  # type: ignore[arg-type]  # comes with it
    readers.close()
    alerts = last_copies.marked(engine.alerts(), engine.places())
    own = [a for a in alerts if a.state in _TOLD and not about_iowarden(a)]
    findings = [
        *_mail(settings),
        *_alerts(own, groups, _facts(engine, own)),
        *_problems(engine),
        *source_findings(engine, clock.now()),
    ]
    if player is None:  # a recording is of another machine
        step("asking the service and other exporters")
        fired = {a.labels for a in own if a.active}
        findings += service(settings.listen[0], fired, unit(root()))
        findings += others(exporters.found(), settings)
        step(f"looking at '{settings.state_directory}'")
        findings += _state_directory(settings.state_directory)
        findings += _self_tests(settings, engine)
    findings += _longer(groups)
    return Report(tuple(findings), tuple(inventory(engine)))


def _facts(engine: Engine, alerts: Iterable[Alert]) -> Facts:
    """Return what advice is made from."""
    chunks = engine.chunks()
    where, mounts = engine.places(), engine.mounts()
    return Facts(known(where, mounts, alerts, slow(chunks), multipath(chunks)))


# --- findings

_TOLD = (State.FIRING, State.PENDING, State.UNKNOWN)


def about_iowarden(alert: Alert) -> bool:
    """Whether it judges the running service, which is not what looks here."""
    return meaning(alert.name).of_itself


def _alerts(
    alerts: Sequence[Alert], groups: Sequence[RuleGroup], facts: Facts
) -> Iterator[Finding]:
    """Return the alerts, worst first; of many of one name most are only named."""
    waits = holds(groups)
    told: set[tuple[tuple[str, str], ...]] = set()
    by_name: dict[tuple[Level, str], list[Finding]] = defaultdict(list)
    ranked = sorted(alerts, key=lambda a: (not a.active, -a.severity, a.name, a.labels))
    for alert in ranked:
        same = tuple(pair for pair in alert.labels if pair[0] != "severity")
        if same in told:  # by a rule of a worse severity
            continue
        told.add(same)
        level, text = _LEVEL[alert.severity], alert.annotation("summary")
        if alert.state is State.PENDING:
            level = Level.WARNING if level is Level.CRITICAL else Level.INFO
            text += pending(alert, waits)
        elif alert.state is State.UNKNOWN:
            level, text = Level.UNKNOWN, f"{text} - can no longer be told: {alert.unknown_reason}"
        advice = advice_of(alert, facts)
        description = alert.annotation("description").strip()
        finding = Finding(level, alert.name, place(alert), text, advice, description)
        by_name[level, alert.name].append(finding)
    for (level, name), found in by_name.items():
        yield from found[:MOST_OBJECTS]
        if rest := [f.object for f in found[MOST_OBJECTS:]]:
            yield Finding(level, name, f"and {len(rest)} more", shorten(", ".join(rest), 300))


def holds(groups: Sequence[RuleGroup]) -> dict[str, float]:
    """Return how long what an alert is about must hold before it fires, in seconds."""
    return {r.alert: r.for_seconds for g in groups for r in g.rules if isinstance(r, Rule)}


def pending(alert: Alert, waits: Mapping[str, float]) -> str:
    """Return what follows the summary of an alert that does not fire yet; `waits` as of `holds`."""
    wait = duration(waits.get(alert.name, 0.0))
    return f" - seen just now; {alert.severity.name.lower()} once it has held for {wait}"


def place(alert: Alert) -> str:
    """Return what an alert is about, as people call it."""
    shown = alert.label("mountpoint") or alert.object
    device = alert.label("device")
    return shown or device or "host"


def _problems(engine: Engine) -> Iterator[Finding]:
    for problem in engine.problems():
        yield Finding(Level.UNKNOWN, "rule", problem.rule, problem.text)


def source_findings(engine: Engine, now: float) -> Iterator[Finding]:
    """Return which sources could not be read and why, and how many could."""
    absent = []
    good = 0
    for status in engine.statuses():
        name, outcome = status.source.name, status.outcome()
        if outcome is Outcome.OK:
            good += 1
            unread = status.source.unread
            parts = [p for p in unread(status.value) if p[1]] if unread is not None else []
            for labels, reason in parts[:MOST_OBJECTS]:
                place = ", ".join(value for _, value in labels)
                yield Finding(Level.UNKNOWN, "source", f"{name} {place}", reason)
            if len(parts) > MOST_OBJECTS:
                text = f"{len(parts) - MOST_OBJECTS} more parts could not be read"
                yield Finding(Level.UNKNOWN, "source", name, text)
        elif outcome is Outcome.ABSENT:
            absent.append(name)
        elif status.reading is None:
            yield Finding(Level.UNKNOWN, "source", name, "not answered while this check looked")
        else:
            since = status.reading.monotonic_seconds - status.reading.duration_seconds
            stuck = outcome is Outcome.STUCK
            text = f"silent for {now - since:.0f} s" if stuck else status.reading.error
            yield Finding(Level.UNKNOWN, "source", name, f"{outcome}: {text}")
    offered = [name for name in absent if name != "kernel_log"]
    there = f"; not offered here: {', '.join(offered)}" if offered else ""
    if len(offered) < len(absent):
        there += "; the kernel's log is read by the service alone: 'dmesg | iowarden explain'"
    yield Finding(Level.OK, "sources", "", f"{good} of {len(engine.statuses())} read{there}")


def _self_tests(settings: Config, engine: Engine) -> Iterator[Finding]:
    """Advise to have drives test themselves, with the line to write."""
    smart = engine.status("smart")
    disks: Disks | None = None if smart is None else smart.value
    if settings.self_tests or disks is None:
        return
    count = sum(disk.polled.cover not in _NOT_ASKED for disk in disks.by_key.values())
    if count:
        text = (
            f"none is scheduled for {_count(count, 'drive')}; sectors nobody reads go bad unseen;"
            f" in the configuration: '{SELF_TESTS}' (see 'man systemd.time')"
        )
        yield Finding(Level.INFO, "self-tests", "", text)


def _longer(groups: Sequence[RuleGroup]) -> Iterator[Finding]:
    """Say once which alerts only the running service can tell."""
    slow = {f.name for g in signals.GROUPS if g.name in LONGER_LOOK for f in g.families}
    rules = [rule for group in groups for rule in group.rules]
    records = {r.record for r in rules if isinstance(r, RecordingRule)}
    slow |= {
        r.record for r in rules if isinstance(r, RecordingRule) and r.expression.names & slow
    } & records
    names = {
        rule.alert for rule in rules if isinstance(rule, Rule) and rule.expression.names & slow
    }
    if names:
        text = f"{', '.join(sorted(names))}: told by the running service, in minutes or hours"
        yield Finding(Level.OK, "needs a longer look", "", text)


def mail_path(settings: Config) -> str:
    """Return what is to be said about where mail goes, or ''."""
    server = settings.mail.server
    if server is None:
        return (
            "no mail server configured ('mail.server'): mails stay in the Maildir of the state"
            " directory, where nobody sees them"
        )
    if configuration.is_loopback(server):
        return (
            f"mail goes to this machine's own server '{server}':"
            " with the root disk hung it may not leave; a remote server keeps that promise"
        )
    return ""


def _mail(settings: Config) -> Iterator[Finding]:
    if said := mail_path(settings):
        yield Finding(Level.INFO, "mail", "", said)
    if settings.mail.server is not None:
        text = f"{', '.join(settings.mail.to)} by '{settings.mail.server}':{settings.mail.port}"
        yield Finding(Level.OK, "mail", "", f"{text}; 'iowarden test-mail' tries it")


def others(found: Iterable[exporters.Exporter], settings: Config) -> Iterator[Finding]:
    """Return what is to be said about other exporters on this host."""
    shared = {
        "node_exporter": (
            "expose.node",
            settings.expose_node,
            "two 'node_uname_info' of one host break rules",
        ),
        "smartctl_exporter": (
            "expose.smartctl",
            settings.expose_smartctl,
            "two 'smartctl_device' of one drive break rules",
        ),
    }
    for exporter in found:
        text = f"port {exporter.port} answers {exporter.answer}"
        key, shown, harm = shared.get(exporter.program or "", ("", False, ""))
        if shown:
            text += f"; {harm}: set '{key}: false'"
            yield Finding(Level.WARNING, "exporter", exporter.program or "", text)
        else:
            clash = f"; leave '{key}' off" if key else ""
            yield Finding(Level.INFO, "exporter", exporter.program or "unknown", text + clash)


def _state_directory(directory: str) -> Iterator[Finding]:
    topic, place = "state", f"'{directory}'"
    if not os.path.isdir(directory):
        text = "is not there yet: the service makes it when it first starts"
        yield Finding(Level.INFO, topic, place, text)
    elif os.geteuid() == 0 and not os.access(directory, os.W_OK | os.X_OK):
        text = "cannot be written, not even by root: see 'findmnt -T' and the kernel's log"
        yield Finding(Level.WARNING, topic, place, text)


# --- the running service

_SAMPLE = re.compile(r"(iowarden_\w+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

_Metrics = list[tuple[str, dict[str, str], float]]


class Unit(enum.Enum):
    """How the service's unit stands with systemd."""

    ABSENT = enum.auto()
    """It is not installed: iowarden is run by hand, or not at all."""
    INACTIVE = enum.auto()
    ACTIVE = enum.auto()


UNIT = "iowarden.service"
_UNIT_DIRECTORIES = (
    *("/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system"),
    *("/usr/lib/systemd/system", "/lib/systemd/system"),
)
"""Source: systemd.unit(5), 'System Unit Search Path'."""
_CGROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified")
"""Where systemd's own hierarchy is: of version 2, 1, and of both."""


def unit(root: Root) -> Unit:
    """Return how the unit stands: one that is active has processes in its control group.

    No program is run for it: systemctl waits for systemd, which may wait for a disk that hangs.
    """
    if not any(_has(root, directory, UNIT) for directory in _UNIT_DIRECTORIES):
        return Unit.ABSENT
    for cgroup in _CGROUPS:
        try:
            if root.read(f"{cgroup}/system.slice/{UNIT}/cgroup.procs").strip():
                return Unit.ACTIVE
        except (AbsentError, ReadError):
            continue
    return Unit.INACTIVE


def _has(root: Root, directory: str, name: str) -> bool:
    try:
        return name in root.names(directory)
    except (AbsentError, ReadError):
        return False


_START = (
    "the service is not running ({}): nobody watches this machine; 'systemctl status iowarden' says"
    " why, 'systemctl start iowarden' starts it"
)
_NOT_RUNNING = {
    Unit.ABSENT: (Level.INFO, "the service is not running ({}); it is not installed here"),
    Unit.INACTIVE: (Level.CRITICAL, _START),
    Unit.ACTIVE: (
        Level.WARNING,
        "the service runs and does not answer ({}); see 'systemctl status iowarden'",
    ),
}


def service(
    address: tuple[str, int],
    known: set[tuple[tuple[str, str], ...]],
    installed: Unit = Unit.ABSENT,
) -> list[Finding]:
    """Return what the running service says; `known` are alerts that need not be said again."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address[0], address[0])  # noqa: S104
    shown = f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
    status, text = _get(host, address[1], "/metrics")
    samples = parse_metrics(text) if status == 200 else []
    if not any(name == "iowarden_rules" for name, _, _ in samples):
        answer = f"something else answers, status {status}" if status else "no answer"
        level, text = _NOT_RUNNING[installed]
        return [Finding(level, "service", "", text.format(f"{shown}: {answer}"))]
    findings = [*_service_alerts(samples, known), *_unresolved(samples)]
    status, text = _get(host, address[1], "/-/healthy")
    if status != 200:
        said = text.strip() or "no answer"
        findings.append(Finding(Level.WARNING, "service", "", f"not healthy: {said}"))
    findings.append(
        Finding(Level.OK, "service", "", f"answers at {shown}; {_standing_of(samples)}")
    )
    return findings


def _service_alerts(
    samples: _Metrics, known: set[tuple[tuple[str, str], ...]]
) -> Iterator[Finding]:
    levels = {"critical": Level.CRITICAL, "warning": Level.WARNING}
    for name, shown, _ in samples:
        labels = dict(shown)
        state = labels.pop("alertstate", "") if name == "iowarden_alerts" else ""
        if state not in {"firing", "unknown"} or tuple(sorted(labels.items())) in known:
            continue
        alert = labels.pop("alertname", "?")
        severity = labels.pop("severity", "warning")
        quiet = {"notice": Level.INFO, "info": Level.INFO, "none": Level.INFO}
        level = {**levels, **quiet}.get(severity.lower(), Level.WARNING)
        place = labels.get("mountpoint") or labels.get("device") or "host"
        text = f"{state} in the running service ({severity})"
        text += "; its mail and 'journalctl -t iowarden' say more"
        yield Finding(Level.UNKNOWN if state == "unknown" else level, alert, place, text)


def _unresolved(samples: _Metrics) -> Iterator[Finding]:
    """Yield that incidents are open: what the kernel's or a controller's log told is no metric."""
    open_now = {
        dict(labels).get("severity", ""): int(value)
        for name, labels, value in samples
        if name == "iowarden_incidents_unresolved"
    }
    for word, level in (("critical", Level.CRITICAL), ("warning", Level.WARNING)):
        if count := open_now.get(word, 0):
            text = f"{count} {word} in the running service; 'iowarden incident list' shows them"
            yield Finding(level, "open incidents", "", text)


def _standing_of(samples: _Metrics) -> str:
    values = {name: value for name, labels, value in samples if not labels}
    ages = [v for name, _, v in samples if name == "iowarden_collector_age_seconds"]
    firing = sum(
        n == "iowarden_alerts" and labels.get("alertstate") == "firing" for n, labels, _ in samples
    )
    words = [f"alerts firing: {firing}"]
    if ages:
        words.append(f"data from {duration(min(ages))} to {duration(max(ages))} old")
    words.append(f"mails waiting: {values.get('iowarden_mails_waiting', 0.0):.0f}")
    if unwritten := values.get("iowarden_state_unwritten_seconds"):
        words.append(f"state not written for {duration(unwritten)}")
    if at := values.get("iowarden_config_last_reload_success_timestamp_seconds"):
        when = datetime.fromtimestamp(at, local_zone())
        words.append(f"configuration of {when:%Y-%m-%d %H:%M}")
    return ", ".join(words)


def parse_metrics(text: str) -> _Metrics:
    """Return the samples of iowarden's own metrics. Source: Prometheus text format 0.0.4."""
    found = []
    for line in text.splitlines():
        match = _SAMPLE.fullmatch(line)
        if match is None:
            continue
        labels = {
            name: re.sub(r"\\.", lambda m: _ESCAPES.get(m[0], m[0]), value)
            for name, value in _LABEL.findall(match[2] or "")
        }
        with contextlib.suppress(ValueError):  # of another program under our names
            found.append((match[1], labels, float(match[3])))
    return found


def _get(host: str, port: int, path: str) -> tuple[int, str]:
    """Return status and text of an answer; 0 is none."""
    end = time.monotonic() + 2 * SERVICE_TIMEOUT_SECONDS
    connection = http.client.HTTPConnection(host, port, timeout=SERVICE_TIMEOUT_SECONDS)
    content = b""
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        while chunk := response.read1(1 << 16):
            content += chunk
            if len(content) > LIMIT_BYTES or time.monotonic() > end:
                return 0, ""
        return response.status, content.decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        connection.close()


# --- what is there


def inventory(engine: Engine) -> Iterator[Item]:
    """Return disks, arrays and file systems, with what an administrator asks about them first."""
    values = {s.source.name: s.value for s in engine.statuses() if s.value is not None}
    if "block" in values:
        yield from _disks(values["block"], values.get("queue", {}), values.get("mounts"))
    yield from _arrays(values.get("md", {}))
    if "smart" in values:
        yield from _drives(values["smart"])
    if "filesystem" in values:
        yield from _file_systems(values["filesystem"])


def _disks(
    topology: Topology, queues: Mapping[str, Queue], mounts: Mounts | None
) -> Iterator[Item]:
    mounted = () if mounts is None else mounts.mounts
    # What would be carried away if every disk vanished is what each is used for.
    gone = device_identity.changes(topology, Topology({}), mounted)
    carried = {event.name: event.carried for event in gone}
    disks = [topology.devices[name] for name in topology.leaves]
    known = [d for d in disks if d.size_bytes]
    alike: dict[str, list[str]] = defaultdict(list)
    for disk in known:
        own = queues.get(disk.name)
        kind = {True: "rotating", False: "solid state", None: ""}[disk.rotational]
        words = [size(disk.size_bytes or 0), kind]
        if own is not None:
            words.append(own.scheduler or "")
            if own.read_ahead_bytes is not None:
                words.append(f"read-ahead {size(own.read_ahead_bytes)}")
        text = ", ".join(word for word in words if word)
        use = ", ".join(carried.get(disk.name, ())) or "nothing mounted or built on it"
        if len(known) <= MOST_DISKS:
            yield Item(
                "disk", device_identity.identity(topology, disk.name).object, f"{text}; {use}"
            )
        else:
            alike[f"{disk.model or 'unnamed'}, {text}"].append(disk.name)
    for text, names in alike.items():
        yield Item("disks", f"({len(names)})", f"{text}: {shorten(', '.join(names), 300)}")


def _drives(found: Disks) -> Iterator[Item]:
    """Return how each drive is asked, or why it is not. Here none is: that is the service's."""
    for disk in list(found.by_key.values())[:MOST_DRIVES]:
        polled, target = disk.polled, disk.polled.target
        way = f"asked by 'smartctl -x {f'-d {target.kind} ' if target.kind else ''}{target.path}'"
        if polled.cover in _NOT_ASKED:
            way = f"not asked: {polled.reason}"
        words = [
            target.slot if target.slot not in disk.key else "",
            way,
            f"also {', '.join(map(str, disk.others))}" if disk.others else "",
            disk.duplicate,
        ]
        name = disk.device or disk.key
        yield Item("drive", name, "; ".join(word for word in words if word))
    if (more := len(found.by_key) - MOST_DRIVES) > 0:
        yield Item("drives", f"({more} more)", "'iowarden coverage' lists them all")
    for problem in found.problems:
        yield Item("drives", "", problem)


def _arrays(arrays: Mapping[str, Array]) -> Iterator[Item]:
    for name, array in arrays.items():
        words = [array.level or "unknown level"]
        if array.raid_disks is not None:
            words.append(f"{array.raid_disks} disks")
        if array.size_bytes:
            words.append(size(array.size_bytes))
        words.append(array.state or "unknown state")
        if array.degraded:
            words.append(f"{array.degraded} missing")
        if array.sync_action not in {None, "idle"}:
            done = array.sync_done_ratio
            words.append(f"{array.sync_action}" + ("" if done is None else f" {done * 100:.0f} %"))
        yield Item("array", name, ", ".join(words))


def _file_systems(value: Filesystems) -> Iterator[Item]:
    def used(size_bytes: int, free: int, available: int) -> float:
        """As df: of what programs without privilege may use."""
        taken = size_bytes - free
        return taken / (taken + available) if taken + available > 0 else 0.0

    usage = [(used(u.size_bytes, u.free_bytes, u.available_bytes), u) for u in value.usage.values()]
    usage.sort(key=lambda pair: -pair[0])
    for ratio, own in usage[:MOST_FILE_SYSTEMS]:
        text = (
            f"{ratio * 100:.0f} % of {size(own.size_bytes)} used, {size(own.available_bytes)} left"
            f" ({own.kind} on {own.device})"
        )
        yield Item("file system", own.mount_point, text)
    if rest := usage[MOST_FILE_SYSTEMS:]:
        yield Item("file systems", f"({len(rest)} more)", f"at most {rest[0][0] * 100:.0f} % used")
