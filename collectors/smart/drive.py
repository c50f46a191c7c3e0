"""Data model of drives: SMART data, access methods, read status, poll results.

Units: bytes, seconds, degrees Celsius, hours (power-on time has no finer unit), ratios of 1.
None: the drive, or smartctl, does not report it. None is not zero.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping  # noqa: TC003 - to be evaluated
from dataclasses import field

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Sample  # noqa: TC001 - to be evaluated


class Protocol(enum.StrEnum):
    """The command set of a drive. Source: smartctl's 'device.protocol'."""

    ATA = "ATA"
    SCSI = "SCSI"
    NVME = "NVMe"


class OfflineCollection(enum.StrEnum):
    """What became of the last off-line data collection of an ATA drive."""

    NEVER_STARTED = "never started"
    COMPLETED = "completed"
    RUNNING = "running"
    SUSPENDED = "suspended"
    """By a command of the host; it continues when the drive is idle."""
    ABORTED = "aborted"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Attribute:
    """One line of an ATA drive's table of SMART attributes. Source: smartctl(8), '-A'.

    Fields: `value`, `worst` and `threshold` are normalized (1 to 253, decreasing); `raw` is the
    48-bit number, `raw_text` is its interpretation by smartctl's drive database ('30 (Min/Max
    20/45)'), which is right where a vendor packs several numbers; `failed` is '' or 'now' or
    'past'.
    """

    id: int
    name: str
    value: int | None
    worst: int | None
    threshold: int | None
    raw: int | None
    raw_text: str
    prefail: bool
    failed: str = ""

    def counted(self) -> int | None:
        """Return the number that the drive database extracts from the raw value, if it does."""
        first = self.raw_text.split(" ", 1)[0]
        if first.isascii() and first.isdigit() and len(first) <= 20:
            return int(first)
        return self.raw


@dataclass(frozen=True, slots=True)
class SelfTest:
    """An entry of a drive's self-test log.

    Fields: `kind` is 'short', 'extended', 'conveyance', 'selective', 'background' or the drive's
    own term; `passed` None: no result (aborted, interrupted, running); `hours` is the drive's
    power-on time at its end; `lba` is the first bad sector.
    """

    kind: str
    status: str
    passed: bool | None
    hours: int | None = None
    lba: int | None = None


@dataclass(frozen=True, slots=True)
class ErrorCounter:
    """A row of a SCSI drive's error counter log. Source: SPC, log pages 02h, 03h, 05h."""

    corrected_total: int | None
    uncorrected_total: int | None
    processed_bytes: float | None


@dataclass(frozen=True, slots=True)
class ScsiHealth:
    """Health data that only SCSI and SAS drives report. Source: SPC and SBC log pages."""

    error_counters: Mapping[str, ErrorCounter] = field(default_factory=dict)
    """By 'read', 'write', 'verify'."""
    grown_defects: int | None = None
    non_medium_errors_total: int | None = None
    pending_defects: int | None = None
    manufactured_year: str | None = None
    """As smartctl prints it: behind some controllers it is no year."""
    manufactured_week: str | None = None
    specified_start_stop_cycles: int | None = None
    start_stop_cycles: int | None = None
    asc: int | None = None
    """Additional sense code of the informational exceptions page; 0x5D: failure predicted."""
    ascq: int | None = None
    endurance_used_ratio: float | None = None
    unreassigned_sectors: int | None = None
    """Sectors that the background scan found bad and that were not reassigned or rewritten since;
    None: the drive reports no background scan.
    """
    scan_halted: str = ""
    """Why the drive stopped its background scan for good, in smartctl's words; '': it did not."""


@dataclass(frozen=True, slots=True)
class NvmeHealth:
    """The health log of an NVMe drive. Source: NVM Express Base Specification, log page 02h."""

    critical_warning: int | None = None
    """Bits: 0 spare, 1 temperature, 2 reliability, 3 read-only, 4 volatile memory backup, 5 PMR."""
    available_spare_ratio: float | None = None
    available_spare_threshold_ratio: float | None = None
    endurance_used_ratio: float | None = None
    """May be more than 1."""
    media_errors_total: int | None = None
    error_log_entries_total: int | None = None
    unsafe_shutdowns_total: int | None = None
    read_bytes_total: float | None = None
    written_bytes_total: float | None = None
    controller_busy_seconds_total: float | None = None
    warning_temperature_seconds_total: float | None = None
    critical_temperature_seconds_total: float | None = None


@dataclass(frozen=True, slots=True)
class Drive:
    """All data of one smartctl run for a drive. Source: smartctl(8), '--json'.

    Fields: `passed` is the drive's own overall health; `exit_status` is smartctl's bit mask;
    `temperature_limit_celsius` is the drive's own limit (SCSI trip, NVMe warning, ATA SCT operating
    limit), None if it is 0 or 25, which is no limit; `reported_trip_celsius` is the SCSI trip as
    reported; `transport` is smartctl's term ('SAS', 'Fibre channel (FCP-4)'); `refused` are
    unsupported self-tests and logs, in smartctl's terms; `disagreements` counts where pySMART
    parsed another value from the text of the same output.
    """

    protocol: Protocol
    model: str = ""
    vendor: str = ""
    family: str = ""
    serial: str = ""
    firmware: str = ""
    wwn: str = ""
    """16 or 32 hexadecimal digits, without '0x'."""
    capacity_bytes: int | None = None
    logical_block_bytes: int | None = None
    physical_block_bytes: int | None = None
    rotation_rpm: int | None = None
    """0: a solid-state drive."""
    transport: str = ""
    smart_available: bool | None = None
    smart_enabled: bool | None = None
    passed: bool | None = None
    exit_status: int = 0
    temperature_celsius: float | None = None
    temperature_limit_celsius: float | None = None
    critical_temperature_celsius: float | None = None
    """The CCTEMP of an NVMe drive: from there on it may stop; None if it reports none."""
    reported_trip_celsius: float | None = None
    power_on_hours: int | None = None
    power_cycles: int | None = None
    attributes: tuple[Attribute, ...] = ()
    errors_logged_total: int | None = None
    """Error count of the ATA error log."""
    self_tests: tuple[SelfTest, ...] = ()
    """Newest first, as in the drive's log."""
    self_test_remaining_ratio: float | None = None
    """While a self-test runs."""
    self_test_kinds: tuple[str, ...] | None = None
    """Supported self-tests: 'short', 'long', 'conveyance', 'offline'; None: not reported."""
    self_test_minutes: Mapping[str, int] = field(default_factory=dict)
    """Duration of a self-test as reported by the drive, by kind."""
    read_recovery_seconds: float | None = None
    """SCT error recovery control: the most that the drive tries to read a sector; None: no limit is
    set, or it is not reported.
    """
    offline_collection: OfflineCollection | None = None
    """ATA off-line data collection; None: not reported."""
    pending_sectors: int | None = None
    """From the ATA pending defects log or SCSI; attribute 197 is separate."""
    endurance_used_ratio: float | None = None
    """From the ATA device statistics; may be more than 1. NVMe and SCSI have their own."""
    transferred_sectors_total: int | None = None
    """Logical sectors read and written by hosts, from the ATA device statistics."""
    scsi: ScsiHealth | None = None
    nvme: NvmeHealth | None = None
    messages: tuple[str, ...] = ()
    """Errors and warnings of smartctl, one line each."""
    refused: tuple[str, ...] = ()
    smartctl_version: str = ""
    read_by: str = ""
    """The command that reported it if that was not smartctl: 'cli64 disk smart drv=2'."""
    disagreements: int = 0
    read_errors: tuple[str, ...] = ()
    """What of its report could not be parsed, or is contradictory: data derived from it are
    incomplete.
    """
    exported: bytes = field(default=b"", repr=False)
    """Its series of smartctl_exporter, packed; see collectors/smart/smartctl_exporter.py."""
    memo: dict[tuple[str, str], tuple[Sample, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Its series by content and disk name: made once, shown until the next poll."""

    def attribute(self, number: int) -> Attribute | None:
        """Return an attribute by its number."""
        return next((a for a in self.attributes if a.id == number), None)


@dataclass(frozen=True, slots=True)
class AccessMethod:
    """How a drive is polled: 'smartctl -d `kind` `path`'.

    Fields: `path` '/dev/sda', '/dev/sg2', '/dev/twa0', '/dev/bus/0'; `kind` 'sat', 'areca,3/1', ''
    if smartctl detects it; `device` is the block device of exactly this drive ('sda'), '' behind a
    controller; `controller` identifies what only one program at a time may query ('host2', else the
    path); `driver` is that controller's ('arcmsr'); `slot` is for users ('enclosure 1 slot 3');
    `origin` is where the drive was found: 'kernel', 'scan', 'controller', 'configuration'.
    """

    path: str
    kind: str = ""
    device: str = ""
    controller: str = ""
    driver: str = ""
    slot: str = ""
    origin: str = "kernel"
    profile: str = ""
    """How much is queried: 'full', 'basic', 'minimal'; '': as much as the drive supports."""

    def __str__(self) -> str:
        """Return the smartctl arguments as a user would type them."""
        return f"{self.path} -d {self.kind}" if self.kind else self.path

    def behind_raid(self) -> bool:
        """Whether a RAID controller passes the commands through to a disk that it hides."""
        return "," in self.kind and self.kind.split(",")[0].rsplit("+", 1)[-1] in {
            *("areca", "3ware", "megaraid", "aacraid", "cciss", "hpt", "sssraid"),
        }


class ReadStatus(enum.StrEnum):
    """Read status of a disk's SMART data; all but `monitored` are reasons why none is available."""

    READ = "monitored"
    ASLEEP = "asleep"
    """In standby and not woken; the last data are still shown."""
    NO_PASS_THROUGH = "no_pass_through"  # noqa: S105 - no password
    """Hidden by a controller, or behind a bridge without pass-through of SMART commands."""
    NO_SMART = "no_smart"
    """A virtual disk or a removable medium: it has no SMART data."""
    LUN = "lun"
    """A logical unit of a storage array, which monitors its own disks."""
    HUNG = "hung"
    """A query hangs in the kernel."""
    TIMEOUT = "timeout"
    IMPLAUSIBLE = "implausible"
    """The SMART data are implausible."""
    PERMISSION = "permission"
    UNPARSED = "unparsed"
    """smartctl's output could not be parsed."""
    UNREADABLE = "unreadable"
    """It does not answer, was removed, or reports no health: SMART is disabled, or missing."""
    NO_SMARTCTL = "no_smartctl"
    """smartctl is missing or older than 7.0."""
    NO_PROBE = "no_probe"
    NOT_POLLED_YET = "not_polled_yet"
    MISSING = "missing"
    """Expected, but not found."""


@dataclass(frozen=True, slots=True)
class PollResult:
    """Poll result of one access method. Units: seconds of the program's clock.

    Fields: `status` and `reason` are of the last try at `tried_seconds`; `drive` is its data of the
    last successful poll at `read_seconds`; valid while in standby, else for three `period_seconds`.
    """

    target: AccessMethod
    status: ReadStatus
    reason: str = ""
    tried_seconds: float | None = None
    drive: Drive | None = None
    read_seconds: float | None = None
    duration_seconds: float = 0.0
    period_seconds: float = 1800.0
    runs_total: int = 0
    failures_total: int = 0


@dataclass(frozen=True, slots=True)
class Disk:
    """A physical disk: one identity, with all its access methods.

    Fields: `key` is the label 'disk': its serial number; extended where several disks have that
    number; its WWN or access method without one. `polled` is the result of its best access method.
    `duplicate`: why it is distinguished from others with its serial number, or ''. `others`: the
    results of its other access methods. `device`: 'sda', '' behind a controller.
    """

    key: str
    polled: PollResult
    device: str = ""
    others: tuple[AccessMethod, ...] = ()
    duplicate: str = ""


@dataclass(frozen=True, slots=True)
class Disks:
    """All disks, by key. A new object only if something changed, so `is` detects changes."""

    by_key: Mapping[str, Disk]
    problems: tuple[str, ...] = ()
    """Problems of discovery: 'smartctl --scan' failed, a configured disk that no controller has."""
    discovered_seconds: float | None = None
    """Time of the last discovery."""
    volumes: tuple[str, ...] = ()
    """Block devices that RAID controllers make from disks: no disks themselves."""
