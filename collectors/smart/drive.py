"""The words for drives: what smartctl says of one, how it is asked, what came of asking.

Units: bytes, seconds, degrees Celsius, hours (power-on time has no finer unit), ratios of 1.
None: the drive, or smartctl, does not say. Absent is not zero.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping  # noqa: TC003 - to be evaluated
from dataclasses import dataclass, field

from iowarden.collectors.model import Sample  # noqa: TC001 - to be evaluated


class Protocol(enum.StrEnum):
    """The command set of a drive. Source: smartctl's 'device.protocol'."""

    ATA = "ATA"
    SCSI = "SCSI"
    NVME = "NVMe"


@dataclass(frozen=True, slots=True)
class Attribute:
    """One line of an ATA drive's table of SMART attributes. Source: smartctl(8), '-A'.

    Fields: `value`, `worst` and `threshold` are normalised (1 to 253, falling); `raw` is the 48-bit
    number, `raw_text` how smartctl's drive database reads it ('30 (Min/Max 20/45)'), which is what
    to trust where a maker packs several numbers; `failed` is '' or 'now' or 'past'.
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
        """Return the number the drive database reads from the raw value, where it is one."""
        first = self.raw_text.split(" ", 1)[0]
        if first.isascii() and first.isdigit() and len(first) <= 20:
            return int(first)
        return self.raw


@dataclass(frozen=True, slots=True)
class SelfTest:
    """An entry of a drive's self-test log.

    Fields: `kind` is 'short', 'extended', 'conveyance', 'selective', 'background' or the drive's
    word; `passed` None: it neither passed nor found the drive bad (aborted, interrupted, running);
    `hours` is the drive's power-on time at its end; `lba` is the first bad sector.
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
class Scsi:
    """What only SCSI and SAS drives say. Source: SPC and SBC log pages, by smartctl(8)."""

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


@dataclass(frozen=True, slots=True)
class Nvme:
    """The health log of an NVMe drive. Source: NVM Express Base Specification, log page 02h."""

    critical_warning: int | None = None
    """Bits: 0 spare, 1 temperature, 2 reliability, 3 read-only, 4 volatile memory backup, 5 PMR."""
    available_spare_ratio: float | None = None
    available_spare_threshold_ratio: float | None = None
    percentage_used_ratio: float | None = None
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
    """All that one run of smartctl said of a drive. Source: smartctl(8), '--json'.

    Fields: `passed` is the drive's own overall health; `exit_status` is smartctl's bit mask;
    `temperature_limit_celsius` is the drive's own (SCSI trip, NVMe warning, ATA SCT operating
    limit), None where it says 0 or 25, which is no limit; `reported_trip_celsius` is the SCSI
    trip as said; `transport` is smartctl's word ('SAS', 'Fibre channel (FCP-4)'); `refused` are
    self-tests and logs it does not support, in smartctl's words; `disagreements` counts where
    pySMART read another value from the text of the same output.
    """

    protocol: Protocol
    model: str = ""
    vendor: str = ""
    family: str = ""
    serial: str = ""
    firmware: str = ""
    wwn: str = ""
    """As 16 or 32 hexadecimal digits, without '0x'."""
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
    reported_trip_celsius: float | None = None
    power_on_hours: int | None = None
    power_cycles: int | None = None
    attributes: tuple[Attribute, ...] = ()
    errors_logged_total: int | None = None
    """Of the ATA error log."""
    self_tests: tuple[SelfTest, ...] = ()
    """Newest first, as the drive has them."""
    self_test_remaining_ratio: float | None = None
    """While a self-test runs."""
    self_test_kinds: tuple[str, ...] | None = None
    """What it can do: 'short', 'long', 'conveyance'; None: it does not say."""
    self_test_minutes: Mapping[str, int] = field(default_factory=dict)
    """How long the drive says one takes, by kind."""
    pending_sectors: int | None = None
    """ATA pending defects log, SCSI; attribute 197 is beside it."""
    scsi: Scsi | None = None
    nvme: Nvme | None = None
    messages: tuple[str, ...] = ()
    """What smartctl had to say, error and warning, one line each."""
    refused: tuple[str, ...] = ()
    smartctl_version: str = ""
    read_by: str = ""
    """What told it where that was not smartctl: 'cli64 disk smart drv=2'."""
    disagreements: int = 0
    unread: tuple[str, ...] = ()
    """What of its report could not be read, or contradicts itself: what follows from it is not all.
    """
    exported: bytes = field(default=b"", repr=False)
    """What smartctl_exporter shows of it, packed; see collectors/smart/smartctl_exporter.py."""
    memo: dict[tuple[str, str], tuple[Sample, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Series made of it, by what they are and whose name they bear: made once, shown for long."""

    def attribute(self, number: int) -> Attribute | None:
        """Return an attribute by its number."""
        return next((a for a in self.attributes if a.id == number), None)


@dataclass(frozen=True, slots=True)
class Target:
    """How a drive is asked: 'smartctl -d `kind` `path`'.

    Fields: `path` '/dev/sda', '/dev/sg2', '/dev/twa0', '/dev/bus/0'; `kind` 'sat', 'areca,3/1', ''
    where smartctl finds out; `device` is the block device that is this very drive ('sda'), ''
    behind a controller; `controller` is what one program at a time may talk to ('host2', else the
    path); `driver` is that controller's ('arcmsr'); `slot` is for people ('enclosure 1 slot 3');
    `origin` is who says that it exists: 'kernel', 'scan', 'controller', 'configuration'.
    """

    path: str
    kind: str = ""
    device: str = ""
    controller: str = ""
    driver: str = ""
    slot: str = ""
    origin: str = "kernel"
    profile: str = ""
    """How much it is asked: 'full', 'basic', 'minimal'; '': as much as it bears."""

    def __str__(self) -> str:
        """Return it as a person would type it."""
        return f"{self.path} -d {self.kind}" if self.kind else self.path

    def behind_raid(self) -> bool:
        """Whether a RAID controller passes the commands through to a disk it hides."""
        return "," in self.kind and self.kind.split(",")[0].rsplit("+", 1)[-1] in {
            *("areca", "3ware", "megaraid", "aacraid", "cciss", "hpt", "sssraid"),
        }


class Cover(enum.StrEnum):
    """What came of asking a drive; all but `read` are reasons why nothing is known."""

    READ = "read"
    ASLEEP = "asleep"
    """It sleeps and is not woken; what it last said is held."""
    NO_PASS_THROUGH = "no_pass_through"  # noqa: S105 - no password
    """A controller hides it, or a bridge passes no SMART commands."""
    NO_SMART = "no_smart"
    """A virtual disk or a removable medium: there is nothing to read."""
    LUN = "lun"
    """A logical unit of a storage array: health is the array's matter."""
    STUCK = "stuck"
    """Whatever asks it hangs in the kernel."""
    TIMEOUT = "timeout"
    UNTRUSTED = "untrusted"
    """It answered what cannot be true."""
    PERMISSION = "permission"
    UNPARSED = "unparsed"
    """smartctl's output is not what it should be."""
    FAILED = "failed"
    """It does not answer, is gone, or says nothing of its health: SMART is disabled, or lacking."""
    NO_SMARTCTL = "no_smartctl"
    """smartctl is missing or older than 7.0."""
    NO_PROBE = "no_probe"
    NOT_YET = "not_yet"
    MISSING = "missing"
    """Expected, and nowhere to be found."""


@dataclass(frozen=True, slots=True)
class Polled:
    """What is known of one target. Units: seconds of the program's clock.

    Fields: `cover` and `reason` are of the last try at `tried_seconds`; `drive` is what it said
    when it last spoke, at `read_seconds`; held while asleep, else for three `period_seconds`.
    """

    target: Target
    cover: Cover
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
    """A physical disk: one identity, and every way to it.

    Fields: `key` is the label 'disk': its serial number; with something that tells it apart
    where several have that number; its WWN or how it is asked where it has none. `polled` is the
    best of its ways. `duplicate`: why it was told apart from others of its serial number, or ''.
    `others`: the other ways to it. `device`: 'sda', '' behind a controller.
    """

    key: str
    polled: Polled
    device: str = ""
    others: tuple[Target, ...] = ()
    duplicate: str = ""


@dataclass(frozen=True, slots=True)
class Disks:
    """All disks, by key. A new object only when something changed, so `is` tells whether it did."""

    by_key: Mapping[str, Disk]
    problems: tuple[str, ...] = ()
    """Of finding them: 'smartctl --scan' failed, a configured disk that no controller has."""
    found_seconds: float | None = None
    """When the list was made last."""
    volumes: tuple[str, ...] = ()
    """Block devices that RAID controllers make of disks: no disks themselves."""
