"""A host in one process: files in, mails due out, by the program's own collectors and rules."""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
from typing import TYPE_CHECKING

from iowarden.collectors import table
from iowarden.collectors.files import Root
from iowarden.collectors.recording import Player
from iowarden.collectors.table import collect
from iowarden.daemon.loop import HOTPLUG_SOURCES
from iowarden.rules import incidents, report
from iowarden.rules.engine import Engine
from iowarden.rules.incidents import Due, Incidents, Policy
from iowarden.rules.rulefile import RuleGroup, parse_rule_file

if TYPE_CHECKING:
    from pathlib import Path

    from iowarden.collectors.vocabulary import Reading
    from iowarden.rules.alerts import Alert


@functools.cache
def shipped_rules() -> tuple[RuleGroup, ...]:
    """Return the rules that come with the program; parsed once, for nothing in them changes."""
    directory = importlib.resources.files("iowarden.rules")
    return tuple(
        group
        for entry in sorted(directory.iterdir(), key=lambda e: e.name)
        if entry.name.endswith(".yaml") and entry.name != "events.yaml"
        for group in parse_rule_file(entry.read_text(), entry.name)
    )


@dataclasses.dataclass
class Mail:
    """A mail that was due."""

    uptime: float
    due: Due


class Host:
    """A machine below a directory, and everything the program concludes about it."""

    def __init__(self, directory: Path) -> None:
        """Take the files below `directory`; the clocks start with the first tick."""
        self.root = Root(str(directory))
        self.engine: Engine | None = None
        self.incidents = Incidents()
        self.mails: list[Mail] = []
        self.fired: list[tuple[float, str, str]] = []
        """(uptime, alert, severity) of every alert that began to fire."""
        self.history: list[tuple[float, dict[str, float]]] = []
        """(uptime, every signal by name and labels) of every tick."""
        self._due: dict[str, float] = {}
        self._now = 0.0
        # As the program's readers do: what remembers from run to run is made once.
        self._started = {
            source.name: dataclasses.replace(source, read=source.start(lambda: self._now))
            for source in table.SOURCES
            if source.start is not None
        }

    def tick(self, uptime: float, now: float) -> None:
        """Do what the program does each second."""
        if self.engine is None:
            self.engine = Engine(shipped_rules(), table.SOURCES, now)
        readings = []
        for source in table.SOURCES:
            if now >= self._due.get(source.name, now) - 0.05:
                self._due[source.name] = now + source.period_seconds
                readings.append(self.read(source, now))
        self.engine.observe(readings, now, uptime)
        for change in self.engine.evaluate(now):
            if change.alert.state.value == "firing" and change.before.value != "unknown":
                self.fired.append((uptime, change.alert.name, change.alert.label("severity")))
        self.incidents, dues, _ = incidents.step(
            self.incidents,
            self.engine.alerts(),
            now,
            install="test",
            policy=Policy(),
            observe=self._measured,
            judged=self.engine.judged,
        )
        self.mails += [Mail(uptime, due) for due in dues]
        self.history.append((uptime, self.signals()))

    def announced(self) -> None:
        """Have the devices looked at with the next tick, as after an announcement of the kernel."""
        self._due.update(dict.fromkeys(HOTPLUG_SOURCES, 0.0))

    def read(self, source: table.Source, now: float) -> Reading:
        """Return what a source says now."""
        self._now = now
        return collect(self._started.get(source.name, source), self.root, lambda: now)

    def _measured(self, alert: Alert) -> tuple[report.Evidence, ...]:
        assert self.engine is not None
        return report.evidence(self.engine.current(alert), 0.0)

    def signals(self) -> dict[str, float]:
        """Return every sample on '/metrics' by name and labels, as a scrape shows them."""
        assert self.engine is not None
        return {
            name + ("{" + ",".join(f'{k}="{v}"' for k, v in labels) + "}" if labels else ""): value
            for chunk in self.engine.chunks()
            for _, samples in chunk.families
            for name, labels, value in samples
        }

    def play(self, recording: str, directory: Path) -> None:
        """Play a whole recording into `directory`, which is this host's root."""
        player = Player(recording, str(directory))
        while (frame := player.advance()) is not None:
            self.tick(frame.monotonic_seconds, frame.realtime_seconds)

    def reasons(self) -> list[str]:
        """Return why each mail was due."""
        return [mail.due.reason.value for mail in self.mails]

    def names(self, severity: str = "") -> set[str]:
        """Return the alerts that fired, of one severity or of all."""
        return {name for _, name, level in self.fired if severity in {"", level}}


def played(recording: str, tmp_path: Path) -> Host:
    """Return the host after a whole recording."""
    directory = tmp_path / "root"
    directory.mkdir()
    host = Host(directory)
    host.play(recording, directory)
    return host
