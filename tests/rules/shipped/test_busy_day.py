"""A day on a busy host, recorded where it is busy and constant where it is idle: no mail."""

from __future__ import annotations

import itertools
import math
import re
import tarfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.host import Host
from support.recordings import fixture, recorded

from iowarden.collectors.block import diskstats
from iowarden.rules.signals.signal import GAP_SECONDS

if TYPE_CHECKING:
    from collections.abc import Collection

    from iowarden.collectors.model import Reading
    from iowarden.collectors.recording.recording import Frame
    from iowarden.collectors.source import Source

DAY_SECONDS = 86_400.0
STEP_SECONDS = GAP_SECONDS - 0.1
"""Of an idle hour: just short of what signals take for a gap."""
GIBIBYTE = 1024.0**3
GROWN = {
    "iowarden_device_written_bytes_total": 7 * GIBIBYTE,
    "iowarden_device_read_bytes_total": 8 * GIBIBYTE,
    "iowarden_device_discarded_bytes_total": 60 * GIBIBYTE,
    "iowarden_device_flushes_completed_total": 40_000,
}
"""By how much each grows over the day, at least."""
SEEN = ("iowarden_md_sync_action", "iowarden_collector_outcome")
_IN_FLIGHT = re.compile(r"^(\s*\S+ +\S+ \S+(?: \d+){8}) \d+", re.MULTILINE)


class Day(Host):
    """A host that is idle for hours: no file changes in them, so each is read once."""

    def __init__(self, longest_rest: float) -> None:
        """Begin busy; no idle time lasts longer than so many seconds."""
        super().__init__(follow=(*GROWN, *SEEN))
        self.resting = False
        self._longest_rest = longest_rest
        self._at_rest: dict[str, Reading] = {}

    def read(self, source: Source, now: float) -> Reading:
        """Return the data of a data source; in an idle hour always the same."""
        if source.name in self._at_rest:
            return replace(self._at_rest[source.name], monotonic_seconds=now)
        reading = super().read(source, now)
        if self.resting:
            self._at_rest[source.name] = reading
        return reading

    def signals(self, names: Collection[str] | None = None) -> dict[str, float]:
        """Return the samples, or nothing in an idle hour."""
        return {} if self.resting else super().signals(names)

    def play_day(self) -> None:
        """Play each recorded stretch at the hour that it stands for."""
        stretches = _stretches()
        shift = 0.0
        began = last = None
        for step in recorded(fixture("busy-day")):
            frame = step.frame
            if began is None:
                began = frame
            if last is not None and stretches and frame.monotonic_seconds >= stretches[0][0]:
                begins = self._rest(last, shift, began.monotonic_seconds + stretches.pop(0)[1])
                shift = begins - frame.monotonic_seconds
            self.memory.apply(step)
            self.tick(frame.monotonic_seconds + shift, frame.realtime_seconds + shift)
            last = frame
        assert began is not None
        assert last is not None
        self._rest(last, shift, began.monotonic_seconds + DAY_SECONDS)

    def _rest(self, frame: Frame, shift: float, until: float) -> float:
        """Let the machine stay as it is until an uptime; return when it ended."""
        until = min(until, frame.monotonic_seconds + shift + self._longest_rest)
        self.resting = True
        # A request in flight in the last frame has completed long before the hour ends.
        counters = _IN_FLIGHT.sub(r"\1 0", self.memory.read(diskstats.PATH))
        self.memory.write({diskstats.PATH: counters})
        while frame.monotonic_seconds + shift + STEP_SECONDS < until:
            shift += STEP_SECONDS
            self.tick(frame.monotonic_seconds + shift, frame.realtime_seconds + shift)
        self.resting = False
        self._at_rest.clear()
        return until

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


def _stretches() -> list[tuple[float, float]]:
    """Return when each stretch was recorded (uptime) and the second of the day it stands for."""
    with tarfile.open(fixture("busy-day")) as archive:
        file = archive.extractfile("busy-day/events")
        assert file is not None
        events = file.read().decode()
    found = re.findall(r"^(\d+\.\d+) (\d\d):00 ", events, re.MULTILINE)
    return [(float(uptime), int(hour) * 3600.0) for uptime, hour in found]


WHOLE = pytest.param(math.inf, id="whole", marks=pytest.mark.system)
SHORT = pytest.param(300.0, id="with short rests")


@pytest.fixture(scope="module", params=[SHORT, WHOLE])
def day(request: pytest.FixtureRequest) -> Day:
    """Play the day once, and before each commit with what is idle in it cut short."""
    day = Day(request.param)
    day.play_day()
    return day


def test_a_busy_day_sends_no_mail(day: Day) -> None:
    """Backup, check, trim, upgrade, database, restore, copies: nothing to get up for."""
    assert day.mails == []
    assert day.names("critical") | day.names("warning") | day.names("notice") == set()


@pytest.mark.parametrize("day", [WHOLE], indirect=True)
def test_the_day_has_24_hours(day: Day) -> None:
    """Idle hours included."""
    assert DAY_SECONDS - GAP_SECONDS <= day.history[-1][0] - day.history[0][0] <= DAY_SECONDS


def test_the_day_has_no_gap(day: Day) -> None:
    """It is evaluated tick after tick."""
    times = [uptime for uptime, _ in day.history]
    assert max(after - before for before, after in itertools.pairwise(times)) < GAP_SECONDS


def test_the_day_is_as_busy_as_it_reports(day: Day) -> None:
    """Else its silence would prove nothing."""
    assert {name for name, least in GROWN.items() if day.grown_by(name) <= least} == set()
    for array in ("md0", "md1"):
        assert day.seen(f'iowarden_md_sync_action{{action="check",device="{array}"}}')
    assert {"WriteThrottle", "MdSyncRunning"} <= day.names("info")


def test_every_source_reported_all_day(day: Day) -> None:
    """A data source that was never read would have been silent for the wrong reason."""
    silent = {
        series
        for _, signals in day.history
        for series, value in signals.items()
        if series.startswith("iowarden_collector_outcome{") and value
        if 'outcome="ok"' not in series and 'outcome="absent"' not in series
    }
    assert silent == set()
