"""A host in one process: files in, mails due out, by the program's own collectors and rules."""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
from typing import TYPE_CHECKING

from support.everything import wrong
from support.idle import IDLE, idle_steps
from support.memory import Memory
from support.recordings import recorded
from support.sources import sources

from iowarden.collectors import registry
from iowarden.collectors.source import Source, collect
from iowarden.daemon.config.rule_files import SHIPPED_INTERVALS_SECONDS
from iowarden.daemon.metric_labels import LABELS, fits
from iowarden.daemon.polling.scheduler import HOTPLUG_SOURCES
from iowarden.daemon.polling.task_polls import TaskPolls
from iowarden.rules.advice import advice, dirty_limits, facts
from iowarden.rules.advice.facts import Facts
from iowarden.rules.engine.engine import Engine
from iowarden.rules.incidents import incidents
from iowarden.rules.incidents.model import DueNotice, Incidents, NotificationPolicy
from iowarden.rules.notices import report
from iowarden.rules.notices.measurements import stored
from iowarden.rules.rulefile.rulefile import SHIPPED, RuleGroup, parse_rule_file
from iowarden.rules.topology.graph import StorageGraph

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.model import Reading
    from iowarden.collectors.recording.recording import Frame, RecordingStep
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.notice import Evidence


IDLE_STEP_SECONDS = 4
"""Where nothing happens; looks further apart than 5 s are a gap to the signals."""


@functools.cache
def shipped_rules() -> tuple[RuleGroup, ...]:
    """Return the rules that come with the program; parsed once, for nothing in them changes."""
    directory = importlib.resources.files("iowarden.rules")
    return tuple(
        dataclasses.replace(group, interval_seconds=SHIPPED_INTERVALS_SECONDS.get(group.name))
        for entry in sorted(directory.iterdir(), key=lambda e: e.name)
        if entry.name.endswith(".yaml")
        for group in parse_rule_file(entry.read_text(), SHIPPED + entry.name)
    )


@dataclasses.dataclass
class Mail:
    """A mail that was due."""

    uptime: float
    due: DueNotice
    advice: str
    """What it says to do."""


class Host:
    """A machine, and everything the program concludes about it."""

    def __init__(
        self,
        root: Machine | None = None,
        *,
        follow: Collection[str] = (),
        groups: Collection[str] = (),
    ) -> None:
        """Take a machine, at first an empty one; the clocks start with the first tick.

        `follow`: metrics whose series `history` has. `groups`: the only groups of rules that run,
        for tests of what these say and of nothing else: never of silence or of a count of mails.
        """
        self.memory = Memory()
        self.root = self.memory if root is None else root
        self.engine: Engine | None = None
        self.incidents = Incidents()
        self.mails: list[Mail] = []
        self.fired: list[tuple[float, str, str]] = []
        """(uptime, alert, severity) of every alert that began to fire."""
        self.history: list[tuple[float, dict[str, float]]] = []
        """(uptime, the series that are followed by name and labels) of every tick."""
        self._follow = frozenset(follow)
        self.rules = [g for g in shipped_rules() if not groups or g.name in groups]
        assert {g.name for g in self.rules} >= set(groups), "no such group of rules"
        self._due: dict[str, float] = {}
        self._now = 0.0
        self._task_polls = TaskPolls()
        found = sources(lambda: self._now, task_polls=self._task_polls)
        self._sources = {source.name: source for source in found}

    def tick(self, uptime: float, now: float, asleep: float = 0.0) -> None:
        """Do what the program does each second; `asleep`: seconds suspended since boot."""
        if self.engine is None:
            self.engine = Engine(self.rules, registry.SOURCES, now)
        readings = []
        for source in registry.SOURCES:
            if now >= self._due.get(source.name, now) - 0.05:
                self._due[source.name] = now + source.period_seconds
                readings.append(self.read(source, now))
        self.engine.observe(readings, now, uptime, asleep)
        due = self._task_polls.step(self.engine, readings, now)
        self._due.update(dict.fromkeys(due, 0.0))
        for change in self.engine.rules.evaluate(now):
            if change.alert.state.value == "firing" and change.before.value != "unknown":
                self.fired.append((uptime, change.alert.name, change.alert.label("severity")))
        self.incidents, dues, _ = incidents.next_incidents(
            self.incidents,
            self.engine.rules.alerts(),
            now,
            incidents.Surroundings(
                install="test",
                policy=NotificationPolicy(),
                observe=self._measured,
                is_observable=self.engine.rules.is_observable,
                graph=StorageGraph(self.engine.devices.dependents.above(now)),
            ),
        )
        self.mails += [Mail(uptime, due, self._advice(due, now)) for due in dues]
        self.history.append((uptime, self.signals(self._follow)))
        if len(self.history).bit_count() == 1:
            self._check_labels()

    def _check_labels(self) -> None:
        """Hold every series against the labels of the reference, now and then: rules read these."""
        assert self.engine is not None
        shown = {
            (family.name, tuple(name for name, _ in labels))
            for chunk in self.engine.hub.chunks()
            for family, samples in chunk.families
            for _, labels, _ in samples
        }
        assert [each for each in shown if each[0] in LABELS and not fits(*each)] == []

    def _advice(self, due: DueNotice, now: float) -> str:
        """Return what a mail says to do; none may name what is not there, whatever it is about."""
        assert self.engine is not None
        places, alerts = self.engine.devices.places(), self.engine.rules.alerts()
        chunks, mounts = self.engine.hub.chunks(), self.engine.devices.mounts()
        unwritten = dirty_limits.backlog(chunks)
        slow = facts.slow(chunks)
        here = Facts(facts.advice_inputs(places, mounts, alerts, slow=slow, unwritten=unwritten))
        said = advice.text_of_member(alerts, lambda: here)
        notice = report.notice(due, report.Sources(float, now, (), places.topology, text_of=said))
        texts = (*notice.sentences, *notice.meaning, *notice.unknown, notice.summary)
        told = "\n".join(advice.combined(notice.advice))
        found = [fault for text in (told, *texts) for fault in wrong(text, here)]
        assert not found, found
        return told

    def announced(self) -> None:
        """Have the devices looked at with the next tick, as after an announcement of the kernel."""
        self._due.update(dict.fromkeys(HOTPLUG_SOURCES, 0.0))

    def read(self, source: Source, now: float) -> Reading:
        """Return what a source says now."""
        self._now = now
        return collect(self._sources[source.name], self.root, lambda: now)

    def _measured(self, alert: Alert) -> tuple[Evidence, ...]:
        assert self.engine is not None
        return stored(self.engine.rules.current(alert), 0.0)

    def signals(self, names: Collection[str] | None = None) -> dict[str, float]:
        """Return the samples of some metrics, or of all on '/metrics', by name and labels."""
        assert self.engine is not None
        return {
            name + ("{" + ",".join(f'{k}="{v}"' for k, v in labels) + "}" if labels else ""): value
            for chunk in self.engine.hub.chunks()
            for family, samples in chunk.families
            if names is None or family.name in names
            for name, labels, value in samples
        }

    def play(self, steps: Iterable[RecordingStep], *, idle: int = 0) -> None:
        """Play a recording to its end, and so many seconds in which the machine does nothing."""
        last: Frame | None = None
        for step in steps:
            last = step.frame
            self._step(step)
        assert last is not None
        quiet = idle_steps(
            last, self.memory.texts(IDLE), idle // IDLE_STEP_SECONDS, IDLE_STEP_SECONDS
        )
        for step in quiet:
            self._step(step)

    def _step(self, step: RecordingStep) -> None:
        self.memory.apply(step)
        self.tick(step.frame.monotonic_seconds, step.frame.realtime_seconds)

    def reasons(self) -> list[str]:
        """Return why each mail was due."""
        return [mail.due.reason.value for mail in self.mails]

    def names(self, severity: str = "") -> set[str]:
        """Return the alerts that fired, of one severity or of all."""
        return {name for _, name, level in self.fired if severity in {"", level}}


def played(recording: str, *, idle: int = 0, follow: Collection[str] = ()) -> Host:
    """Return the host after a whole recording: a directory or an archive."""
    host = Host(follow=follow)
    host.play(recorded(recording), idle=idle)
    return host
