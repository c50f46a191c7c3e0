"""GA9: a day on a busy machine, recorded where it is busy, held still where it is idle: no mail."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.host import Host
from support.recordings import open_fixture

from iowarden.collectors import diskstats
from iowarden.collectors.recording import Frame, Player, read_frames
from iowarden.rules.signals.writeback import GAP_SECONDS

if TYPE_CHECKING:
    from iowarden.collectors.table import Source
    from iowarden.collectors.vocabulary import Reading

DAY_SECONDS = 86_400.0
STEP_SECONDS = GAP_SECONDS - 0.1
"""Of an idle hour: just short of what signals take for a gap."""
GIBIBYTE = 1024.0**3
_IN_FLIGHT = re.compile(r"^(\s*\S+ +\S+ \S+(?: \d+){8}) \d+", re.MULTILINE)


class Day(Host):
    """A host that is idle for hours: no file changes in them, so each is read once."""

    def __init__(self, directory: Path) -> None:
        """Begin busy."""
        super().__init__(directory)
        self.resting = False
        self._at_rest: dict[str, Reading] = {}

    def read(self, source: Source, now: float) -> Reading:
        """Return what a source says; in an idle hour always the same."""
        if source.name in self._at_rest:
            return replace(self._at_rest[source.name], monotonic_seconds=now)
        reading = super().read(source, now)
        if self.resting:
            self._at_rest[source.name] = reading
        return reading

    def signals(self) -> dict[str, float]:
        """Return every sample, or nothing in an idle hour."""
        return {} if self.resting else super().signals()

    def play(self, recording: str, directory: Path) -> None:
        """Play each recorded stretch at the hour that it stands for."""
        player = Player(recording, str(directory))
        stretches = _stretches(recording)
        shift = 0.0
        began = last = None
        for frame in read_frames(recording):
            if began is None:
                began = frame
            if last is not None and stretches and frame.monotonic_seconds >= stretches[0][0]:
                begins = began.monotonic_seconds + stretches.pop(0)[1]
                self._rest(last, shift, begins)
                shift = begins - frame.monotonic_seconds
            player.advance()
            self.tick(frame.monotonic_seconds + shift, frame.realtime_seconds + shift)
            last = frame
        assert began is not None
        assert last is not None
        self._rest(last, shift, began.monotonic_seconds + DAY_SECONDS)

    def _rest(self, frame: Frame, shift: float, until: float) -> None:
        """Let the machine stay as it is until an uptime."""
        self.resting = True
        # A request that was under way in the last frame has ended long before the hour is over.
        counters = Path(self.root.path + diskstats.PATH)
        counters.write_text(_IN_FLIGHT.sub(r"\1 0", counters.read_text()))
        while frame.monotonic_seconds + shift + STEP_SECONDS < until:
            shift += STEP_SECONDS
            self.tick(frame.monotonic_seconds + shift, frame.realtime_seconds + shift)
        self.resting = False
        self._at_rest.clear()

    def grown_by(self, name: str) -> float:
        """Return by how much a counter grew over the day, its series of all devices together."""
        seen = [signals for _, signals in self.history if signals]
        first, last = (
            sum(value for series, value in signals.items() if series.startswith(name + "{"))
            for signals in (seen[0], seen[-1])
        )
        return last - first

    def seen(self, series: str) -> bool:
        """Whether a series was above 0 at some time."""
        return any(signals.get(series, 0.0) > 0 for _, signals in self.history)


def _stretches(recording: str) -> list[tuple[float, float]]:
    """Return when each stretch was recorded (uptime) and the second of the day it stands for."""
    events = (Path(recording) / "events").read_text()
    found = re.findall(r"^(\d+\.\d+) (\d\d):00 ", events, re.MULTILINE)
    return [(float(uptime), int(hour) * 3600.0) for uptime, hour in found]


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Day:
    """Play the day once."""
    directory = tmp_path_factory.mktemp("busy-day")
    recording = open_fixture("busy-day", directory)
    day = Day(directory / "root")
    day.play(recording, directory / "root")
    return day


def test_a_busy_day_sends_no_mail(day: Day) -> None:
    """GA9: backup, check, trim, upgrade, database, restore, copies: nothing to get up for."""
    assert day.mails == []
    assert day.names("critical") | day.names("warning") | day.names("notice") == set()


def test_the_day_has_24_hours(day: Day) -> None:
    """It is judged tick after tick, idle hours included, without a gap."""
    times = [uptime for uptime, _ in day.history]
    assert DAY_SECONDS - GAP_SECONDS <= times[-1] - times[0] <= DAY_SECONDS
    assert max(after - before for before, after in itertools.pairwise(times)) < GAP_SECONDS


def test_the_day_is_as_busy_as_it_says(day: Day) -> None:
    """Else its silence would prove nothing."""
    assert day.grown_by("iowarden_device_written_bytes_total") > 7 * GIBIBYTE
    assert day.grown_by("iowarden_device_read_bytes_total") > 8 * GIBIBYTE
    assert day.grown_by("iowarden_device_discarded_bytes_total") > 60 * GIBIBYTE
    assert day.grown_by("iowarden_device_flushes_completed_total") > 40_000
    for array in ("md0", "md1"):
        assert day.seen(f'iowarden_md_sync_action{{action="check",device="{array}"}}')
    assert {"WriteThrottle", "ArraySynchronises"} <= day.names("info")


def test_every_source_told_all_day(day: Day) -> None:
    """What no source could read would have been silent for the wrong reason."""
    silent = {
        series
        for _, signals in day.history
        for series, value in signals.items()
        if series.startswith("iowarden_collector_outcome{") and value
        if 'outcome="ok"' not in series and 'outcome="absent"' not in series
    }
    assert silent == set()
