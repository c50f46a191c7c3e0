"""The clocks of the machine: uptime, time of day, clock source."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import AbsentError, Family, ParseError, ReadError, Sample
from iowarden.collectors.procfs import stat
from iowarden.collectors.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.machine import Machine

PATH = "/proc/uptime"
CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0"
"""There is only one. Source: kernel, kernel/time/clocksource.c (device_clocksource)."""
_UPTIME = lazy_pattern(r"(\d{1,12}\.\d\d) \d{1,15}\.\d\d\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class ClockReading:
    """Source: kernel, filesystems/proc.rst (uptime includes suspend).

    Limits: no file contains the time of day. For a recorded machine it is boot time plus uptime, up
    to a second behind; its time zone is unknown.
    """

    uptime_seconds: float
    realtime_seconds: float | None
    """Unix time; None: a recorded machine without '/proc/stat'."""
    zone: tuple[str, int] | None
    """Name and seconds east of UTC; None: unknown."""
    clocksource: str | None
    clocksources: tuple[str, ...]
    """Available clock sources."""


FAMILIES = (
    Family("iowarden_clock_uptime_seconds", "gauge", "Time since boot, including suspend."),
    Family("iowarden_clocksource", "gauge", "Clock source of the kernel."),
)


def parse_uptime(text: str) -> float:
    """Return the first number of '/proc/uptime'."""
    found = _UPTIME.fullmatch(text)
    if found is None:
        raise ParseError(f"'{PATH}': expected '<seconds> <seconds>', got {text[:80]!r}")
    return float(found[1])


def emit(value: ClockReading) -> list[Sample]:
    """Return the samples of FAMILIES."""
    samples: list[Sample] = [("iowarden_clock_uptime_seconds", (), value.uptime_seconds)]
    if value.clocksource is not None:
        labels = (("clocksource", value.clocksource),)
        samples.append(("iowarden_clocksource", labels, 1))
    return samples


def node_samples(value: ClockReading) -> Iterator[Sample]:
    """Yield node_exporter's series of its collector 'time'."""
    if value.realtime_seconds is not None:
        yield "node_time_seconds", (), value.realtime_seconds
    if value.zone is not None:
        name, offset_seconds = value.zone
        yield "node_time_zone_offset_seconds", (("time_zone", name),), offset_seconds
    for name in value.clocksources:
        labels = (("clocksource", name), ("device", "0"))
        yield "node_time_clocksource_available_info", labels, 1
    if value.clocksource is not None:
        labels = (("clocksource", value.clocksource), ("device", "0"))
        yield "node_time_clocksource_current_info", labels, 1


def read_clock(root: Machine) -> ClockReading:
    """Read the clocks. Errors: AbsentError (no '/proc/uptime'), ReadError, ParseError."""
    uptime_seconds = parse_uptime(root.read_cached_open(PATH, is_record=True))
    current = _fields(root, "current_clocksource")
    if root.path:
        realtime_seconds, zone = _played(root, uptime_seconds), None
    else:
        realtime_seconds = time.time()
        local = time.localtime(realtime_seconds)
        zone = (local.tm_zone, local.tm_gmtoff)
    return ClockReading(
        uptime_seconds=uptime_seconds,
        realtime_seconds=realtime_seconds,
        zone=zone,
        clocksource=current[0] if current else None,
        clocksources=_fields(root, "available_clocksource"),
    )


def _played(root: Machine, uptime_seconds: float) -> float | None:
    try:
        return stat.read_stat(root).boot_time_seconds + uptime_seconds
    except (AbsentError, ReadError, ParseError):
        return None  # the collector of that file reports why


def _fields(root: Machine, name: str) -> tuple[str, ...]:
    try:
        return tuple(root.read_cached_open(f"{CLOCKSOURCE}/{name}").split())
    except AbsentError:
        return ()


SOURCE: Source[ClockReading] = Source(
    name="clock",
    period_seconds=1,
    period_help="How often '/proc/uptime' is read.",
    paced=True,
    may_hang=False,
    read=read_clock,
    families=FAMILIES,
    emit=emit,
    node=node_samples,
    node_prefixes=("node_time_",),
)
