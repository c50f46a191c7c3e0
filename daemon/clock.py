"""The program's clock: Unix time that never jumps, or a recording's; and the local time zone."""

from __future__ import annotations

import functools
import os
import time
import zoneinfo
from datetime import UTC, datetime, tzinfo

PLAUSIBLE_SECONDS = 1_577_836_800.0
"""2020-01-01: an earlier clock was not set yet, as after a boot without a hardware clock."""


class SystemClock:
    """The machine's own clock.

    `now` is the wall clock at start plus CLOCK_MONOTONIC: a stepped wall clock neither fires nor
    resolves an alert. `realtime` is the current wall clock, for dates shown to users.
    """

    def __init__(self) -> None:
        """Fix the two clocks to each other."""
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        """Return the program's time in seconds."""
        return time.monotonic() + self._offset

    def realtime(self, at: float) -> float:
        """Return the Unix time, by the current wall clock, of a time on the program's clock."""
        return time.time() - (self.now() - at)

    def uptime(self) -> float:
        """Return seconds since boot, without time suspended (CLOCK_MONOTONIC)."""
        return time.monotonic()

    def date(self, at: float) -> str:
        """Return a time on the program's clock as text for users: 'Mon 23 Nov 05:30'."""
        return f"{self._local(at):%a %d %b %H:%M}"

    def wall_seconds(self, at: float) -> float:
        """Return local time in seconds: Unix time plus the time zone's offset."""
        offset = self._local(at).utcoffset()
        return self.realtime(at) + (offset.total_seconds() if offset else 0.0)

    def _local(self, at: float) -> datetime:
        return datetime.fromtimestamp(self.realtime(at), local_zone())

    def asleep(self) -> float:
        """Return how long the machine has been suspended since boot, in seconds."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()


class PlayedClock(SystemClock):
    """The clock of a recording: it does not advance until the next frame sets it."""

    def __init__(self) -> None:
        """Start before the first frame."""
        self._monotonic = 0.0
        self._realtime = 0.0
        self._offset = 0.0

    def set(self, monotonic_seconds: float, realtime_seconds: float) -> None:
        """Set the clocks of a frame; the first one fixes them to each other."""
        if not self._monotonic:
            self._offset = realtime_seconds - monotonic_seconds
        self._monotonic = monotonic_seconds
        self._realtime = realtime_seconds

    def now(self) -> float:
        """Return the program's time in seconds."""
        return self._monotonic + self._offset

    def realtime(self, at: float) -> float:
        """Return the recording's Unix time of a time on the program's clock."""
        return self._realtime - (self.now() - at)

    def uptime(self) -> float:
        """Return the recorded machine's monotonic clock."""
        return self._monotonic

    def asleep(self) -> float:
        """Return 0: a recording does not contain it."""
        return 0.0


@functools.cache
def local_zone() -> tzinfo:
    """Return this machine's time zone, read once: the C library reads '/etc/localtime' each time.

    The first call reads the file; make it before a disk may hang, best by rendering a mail at
    start.
    Source: tzset(3), TZ. Limits: a TZ that is neither a zone nor a file, or no file at all, is UTC.
    """
    name = os.environ.get("TZ", ":/etc/localtime").removeprefix(":")
    try:
        if not name.startswith("/"):
            return zoneinfo.ZoneInfo(name)
        with open(name, "rb") as file:
            return zoneinfo.ZoneInfo.from_file(file)
    except (OSError, ValueError, zoneinfo.ZoneInfoNotFoundError):
        return UTC
