"""Documents of the status page, in addition to those of the control socket. Pure.

Units: bytes, seconds, ratios from 0 to 1; times are Unix time. None: not known.
"""

from __future__ import annotations

from dataclasses import field

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.control.documents import (
    DiskDetail,
    DiskList,
    EventLine,
    IncidentDetail,
    ScanLine,
    SelfTestRunLine,
    Status,
)
from iowarden.daemon.control.storage_document import (
    StorageNode,  # noqa: TC001 - the codec needs it at run time
)


@dataclass(frozen=True, slots=True)
class DeviceLine:
    """The I/O of a disk, volume or path in the last minute."""

    device: str = ""
    disk: str = ""
    """Label of its disk; '' if it is none."""
    read_bytes_per_second: float | None = None
    written_bytes_per_second: float | None = None
    utilization_ratio: float | None = None
    in_flight: float | None = None
    """Requests in flight now."""
    read_latency_seconds: float | None = None
    write_latency_seconds: float | None = None
    hang_seconds: float | None = None
    """Time with requests in flight and none completed."""


@dataclass(frozen=True, slots=True)
class ArrayLine:
    """An md array, a controller, or a component of a controller."""

    name: str = ""
    kind: str = ""
    """'md raid6', 'controller', 'array raid5', 'battery' ..."""
    state: str = ""
    """In the kernel's or the vendor's words."""
    health: str = ""
    """Of raid.controller.ComponentHealth; of an md array 'ok', 'degraded' or 'failed'."""
    members: str = ""
    """'5 of 6'."""
    activity: str = ""
    """'recover'; '': none."""
    done_ratio: float | None = None
    speed_bytes_per_second: float | None = None
    size_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class SourceState:
    """A data source: its last run and its last valid data."""

    name: str = ""
    outcome: str = ""
    age_seconds: float | None = None
    """Since its last valid data; None: there never were any."""
    period_seconds: float = 0.0
    silent: bool = False
    """It should deliver data and does not."""


@dataclass(frozen=True, slots=True)
class RuleGroupLine:
    """A group of rules."""

    name: str = ""
    rules: int = 0
    interval_seconds: float = 0.0
    firing: int = 0
    pending: int = 0
    unknown: int = 0
    failing: int = 0
    """Number of its rules whose last evaluation ended in an error."""


@dataclass(frozen=True, slots=True)
class WritebackLine:
    """Unwritten data against the kernel's limits; the course is of the last 15 minutes."""

    queued_bytes: float | None = None
    freerun_bytes: float | None = None
    """From here on writers are paused."""
    threshold_bytes: float | None = None
    """Here writers stop."""
    bandwidth_bytes_per_second: float | None = None
    drain_seconds: float | None = None
    course: tuple[tuple[float, float], ...] = ()
    """Time and queued bytes."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The storage of the host, and what reads it."""

    tree: tuple[StorageNode, ...] = ()
    omitted: int = 0
    """Rows of the tree that were left out."""
    devices: tuple[DeviceLine, ...] = ()
    arrays: tuple[ArrayLine, ...] = ()
    problems: tuple[str, ...] = ()
    """Why a controller could not be read."""
    sources: tuple[SourceState, ...] = ()
    rules: tuple[RuleGroupLine, ...] = ()
    writeback: WritebackLine = field(default_factory=WritebackLine)


@dataclass(frozen=True, slots=True)
class IndexPage:
    """Everything of the page '/'."""

    status: Status = field(default_factory=Status)
    incidents: tuple[IncidentDetail, ...] = ()
    """Details of the open incidents, the most severe first; not of all if there are many."""
    disks: DiskList = field(default_factory=DiskList)
    machine: Machine = field(default_factory=Machine)
    events: tuple[EventLine, ...] = ()
    """The latest, the newest first."""


@dataclass(frozen=True, slots=True)
class IncidentPage:
    """Everything of the page of an incident."""

    host: str = ""
    version: str = ""
    detail: IncidentDetail = field(default_factory=IncidentDetail)


@dataclass(frozen=True, slots=True)
class DrivePage:
    """Everything of the page of a drive."""

    host: str = ""
    version: str = ""
    detail: DiskDetail = field(default_factory=DiskDetail)
    self_tests: tuple[SelfTestRunLine, ...] = ()
    scan: ScanLine | None = None
    events: tuple[EventLine, ...] = ()
    """Recent ones, the oldest first."""
    devices: tuple[str, ...] = ()
    """Its device names, for events that name no disk."""
