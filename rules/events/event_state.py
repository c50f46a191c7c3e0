"""What event correlation takes, keeps over restarts, and reports: batch, bursts, news.

Units: seconds of the program's clock; those of events are their sources' own, or Unix time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iowarden.collectors.event import Event
from iowarden.rules.events.controller_clock import Clock  # noqa: TC001 - stored, so evaluated
from iowarden.rules.events.event_table import Burst  # noqa: TC001 - stored, so evaluated
from iowarden.rules.severity import Severity
from iowarden.rules.topology.slot_map import Slotted  # noqa: TC001 - stored, so evaluated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.kmsg.kernel_log import KernelLog
    from iowarden.collectors.raid.controller import Controllers
    from iowarden.rules.events.event_table import Row

DAY_SECONDS = 86_400.0
OWN = ("kernel", "md")
"""Sources that tell Unix time."""
GAPS = "controller"
"""Source of what we say ourselves of a controller's log."""
AMID_SECONDS = 5.0
"""So near an error, a line of the kernel that names no disk is about that one's."""
KICKED = "md_kicked"
"""A line that names the member and not the array, whose own line follows when it runs.
Source: Linux 6.12, drivers/md: md.c, md_analyze_sbs; raid1.c, raid5.c, raid10.c, 'active with'.
"""


@dataclass(frozen=True, slots=True)
class Happening:
    """A burst and where it happened.

    Fields: `subject` and `object` are those of its incident; `disk` is the label of the disk's
    series; `volumes` are the keys of what a controller makes of the disk; it was so from
    `began_seconds` to `last_seconds`, and at `heard_seconds` iowarden heard of it; `baseline`: it
    was so at first sight.
    """

    source: str
    burst: Burst
    subject: str
    object: str
    adapter: str
    disk: str
    device: str
    controller: str
    slot: str
    volumes: tuple[str, ...]
    began_seconds: float
    last_seconds: float
    heard_seconds: float
    baseline: bool = False
    note: str = ""
    """What is not known of it, for people."""
    smart: str = ""
    """How the disk itself is asked by SMART, where the controller makes up what `device` says."""
    ended_seconds: float | None = None
    """When events told its end, at each place."""
    places: tuple[str, ...] = ()
    """Where it has not ended: the last `MOST_PLACES`."""
    repeats: int = 0
    """Events that are not among those of `burst`: the kernel's log told too many in one look."""

    @property
    def count(self) -> int:
        """How many events it is."""
        return self.burst.count + self.repeats

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return Severity.INFO if self.burst.severity is None else self.burst.severity


@dataclass(frozen=True, slots=True)
class Happened:
    """What is known of what happened. Kept over restarts."""

    happenings: tuple[Happening, ...] = ()
    recent: tuple[Event, ...] = ()
    """Of the kernel's log and of controllers: for twins, and for who failed a member by hand."""
    errors: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Unix times of the kernel's latest disk errors, by host adapter."""
    clocks: dict[str, Clock] = field(default_factory=dict)
    """By controller; who is in it has been seen before."""
    slots: dict[str, Slotted] = field(default_factory=dict)
    media: dict[str, int] = field(default_factory=dict)
    """Medium errors by disk: what SMART says is held against them."""


@dataclass(frozen=True, slots=True)
class News:
    """An event to be told.

    Fields: `happening` is the burst it belongs to, as it is with it, None where it is older than
    first sight; `announced`: it is worth a line in the journal, which is not so of each of many;
    `twin`: another source told it before.
    """

    event: Event
    row: Row
    happening: Happening | None
    severity: Severity
    object: str
    disk: str
    announced: bool = True
    twin: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """What the sources told since the last time.

    Fields: `baseline` was so at first sight; `left_out` counts further events, by kind and device;
    `now_seconds` is the program's clock at `realtime_seconds`; `booted_seconds` is Unix time.
    """

    now_seconds: float
    realtime_seconds: float
    events: tuple[Event, ...] = ()
    baseline: tuple[Event, ...] = ()
    left_out: Mapping[tuple[str, str], int] = field(default_factory=dict)
    booted_seconds: float | None = None


def of_kernel(value: KernelLog, now: float, realtime: float) -> Batch:
    """Return what the kernel's log told."""
    return Batch(now, realtime, value.events, value.baseline, value.left_out)


def of_controllers(value: Controllers, now: float, realtime: float, booted: float | None) -> Batch:
    """Return what controllers told, and where their logs have a gap."""
    gaps = (
        Event(
            GAPS,
            "log_gap",
            f"{gap.controller}: {gap.reason}",
            controller=gap.controller,
            clock_seconds=realtime,
            realtime_seconds=realtime,
        )
        for gap in value.gaps
    )
    told = (*value.events, *gaps)
    return Batch(now, realtime, told, value.baseline, booted_seconds=booted)
