"""Data of event correlation: the input batch, the persisted bursts, the reported updates.

Units: seconds of the program's clock; times of events are by their data source's clock, or Unix.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.event import StorageEvent
from iowarden.collectors.kernel import oom_kill
from iowarden.collectors.kmsg.kernel_kinds import UNRECOGNIZED
from iowarden.collectors.kmsg.kernel_log import shape_of
from iowarden.rules.events.controller_clock import ControllerClock  # noqa: TC001 - stored, so evaluated
from iowarden.rules.events.event_table import Burst  # noqa: TC001 - stored, so evaluated
from iowarden.rules.severity import Severity
from iowarden.rules.topology.slot_map import SlotContent  # noqa: TC001 - stored, so evaluated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.kmsg.kernel_log import KernelLog
    from iowarden.collectors.raid.controller import Controllers
    from iowarden.rules.events.event_table import EventRule

DAY_SECONDS = 86_400.0
OWN = ("kernel", "md", "scan", oom_kill.COUNTED)
"""Data sources whose events have Unix time."""
GAPS = "controller"
"""Data source of events that iowarden itself derives about a controller's log."""
AMID_SECONDS = 5.0
"""A kernel line that names no disk is attributed to the disk of an error within this time."""
KICKED = "md_kicked"
"""A line that names the member but not the array; the array's own line follows when it starts.
Source: Linux 6.12, drivers/md: md.c, md_analyze_sbs; raid1.c, raid5.c, raid10.c, 'active with'.
"""


@dataclass(frozen=True, slots=True)
class EventGroup:
    """A burst of events (event group) and its location.

    Fields: `subject` and `object` are those of its incident; `disk` is the label of the disk's
    series; `volumes` are the keys of the RAID volumes that a controller builds on the disk; the
    events occurred from `began_seconds` to `last_seconds`, and iowarden received the last one at
    `received_seconds`; `baseline`: it existed when the data source was first read.
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
    received_seconds: float
    baseline: bool = False
    note: str = ""
    """What is unknown, as a text for the mail."""
    smart: str = ""
    """How to query SMART of the disk itself, if the controller synthesises that of `device`."""
    ended_seconds: float | None = None
    """When events reported its end at all places."""
    places: tuple[str, ...] = ()
    """Places where it has not ended: at most `MAX_PLACES`, the latest."""
    repeats: int = 0
    """Events that `burst` does not count: the kernel log had too many in one poll."""

    @property
    def count(self) -> int:
        """Number of events."""
        return self.burst.count + self.repeats

    @property
    def is_mixed(self) -> bool:
        """Whether its last line is not the first one again: unrecognized lines differ."""
        first, last = self.burst.first, self.burst.last
        return last.kind in UNRECOGNIZED and line_shape(first) != line_shape(last)

    @property
    def severity(self) -> Severity:
        """Severity of the burst; INFO for noise."""
        return Severity.INFO if self.burst.severity is None else self.burst.severity


def line_shape(line: StorageEvent) -> str:
    """Return an unrecognized line without the object that it names, and without its numbers."""
    text = line.text
    for name in filter(None, (line.device, line.controller)):
        text = text.replace(name, "")
    return shape_of(replace(line, text=text))


@dataclass(frozen=True, slots=True)
class CorrelationState:
    """State of event correlation. Persisted over restarts."""

    groups: tuple[EventGroup, ...] = ()
    recent: tuple[StorageEvent, ...] = ()
    """Events of the kernel log and of controllers: for duplicates and members failed by hand."""
    errors: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Unix times of the kernel's latest disk errors, by host adapter."""
    clocks: dict[str, ControllerClock] = field(default_factory=dict)
    """By controller; a controller that is in it was seen before."""
    slots: dict[str, SlotContent] = field(default_factory=dict)
    media: dict[str, int] = field(default_factory=dict)
    """Medium errors by disk: SMART data that count none are implausible."""


@dataclass(frozen=True, slots=True)
class EventUpdate:
    """An update: an event to report.

    Fields: `group` is its burst, this event included, None if the event is a duplicate or older
    than the baseline; `announced`: it gets a line in the journal, which of many events not each
    does; `twin`: another data source reported it before.
    """

    event: StorageEvent
    row: EventRule
    group: EventGroup | None
    severity: Severity
    object: str
    disk: str
    announced: bool = True
    twin: bool = False


@dataclass(frozen=True, slots=True)
class EventBatch:
    """The new events of the data sources since the last step.

    Fields: `baseline` are the events of the first read; `left_out` counts further events that were
    not passed on, by kind and device; `late` are the keys of those that a counter had reported;
    `now_seconds` is the program's clock at `realtime_seconds`; `booted_seconds` is Unix time.
    """

    now_seconds: float
    realtime_seconds: float
    events: tuple[StorageEvent, ...] = ()
    baseline: tuple[StorageEvent, ...] = ()
    left_out: Mapping[tuple[str, str], int] = field(default_factory=dict)
    late: frozenset[str] = frozenset()
    booted_seconds: float | None = None


def of_kernel(value: KernelLog, now: float, realtime: float) -> EventBatch:
    """Return the new events of the kernel log."""
    return EventBatch(now, realtime, value.events, value.baseline, value.left_out)


def of_controllers(
    value: Controllers, now: float, realtime: float, booted: float | None
) -> EventBatch:
    """Return the new events of controllers, and an event for each gap of their logs."""
    gaps = (
        StorageEvent(
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
    return EventBatch(now, realtime, told, value.baseline, booted_seconds=booted)
