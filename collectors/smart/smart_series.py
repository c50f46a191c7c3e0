"""SMART data of drives as series: 'iowarden_disk_*' and 'iowarden_smart_*'.

Every series has the label 'disk', which persists when a device name changes; what may change
(device, slot, model) is a label of 'iowarden_disk_info' only. What a drive does not report has no
series.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iowarden.collectors.model import Family, Kind, Labels, Sample
from iowarden.collectors.smart import smartctl_exporter
from iowarden.collectors.smart.drive import OfflineCollection, Protocol, ReadStatus
from iowarden.collectors.source import Source, read_by_poller

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from iowarden.collectors.smart.drive import Disk, Disks, Drive, SelfTest

HOUR_SECONDS = 3600
FAILURE_PREDICTED = 0x5D
"""Source: SPC, additional sense code 5Dh: failure prediction threshold exceeded."""
_HOURS_OF_ATA = 1 << 16
"""Source: smartctl(8), '-l selftest': a test's power-on time wraps after 2^16 hours."""
_YEAR_HOURS = 8760
_MAX_HOURS_OF_SCSI = 0xFFFF
"""Source: SPC, self-test results log page: this value, or any larger (its time has two bytes)."""

_INFO = Family(
    "iowarden_disk_info", "gauge", "1; identity of a disk and its access method in labels."
)

_Row = tuple[Family, "Callable[[Any], Any]"]
"""How a family's value is read from a drive, attribute, counter or poll; None: no series."""


def _row(name: str, kind: Kind, text: str, read: Callable[[Any], Any]) -> _Row:
    return Family(f"iowarden_{name}", kind, text), read


_DRIVE = (
    _row("disk_capacity_bytes", "gauge", "Size of a disk.", lambda d: d.capacity_bytes),
    _row(
        "disk_rotation_rpm",
        "gauge",
        "Rotations per minute; 0: a solid-state drive.",
        lambda d: d.rotation_rpm,
    ),
    _row(
        "disk_power_on_seconds",
        "gauge",
        "Power-on time of the disk over its life.",
        lambda d: None if d.power_on_hours is None else d.power_on_hours * HOUR_SECONDS,
    ),
    _row("disk_power_cycles_total", "counter", "Power-on count.", lambda d: d.power_cycles),
    _row(
        "disk_temperature_celsius",
        "gauge",
        "Temperature of a disk.",
        lambda d: d.temperature_celsius,
    ),
    _row(
        "disk_temperature_limit_celsius",
        "gauge",
        "Maximum temperature that the disk specifies.",
        lambda d: d.temperature_limit_celsius,
    ),
    _row(
        "disk_critical_temperature_celsius",
        "gauge",
        "Critical temperature of an NVMe disk: from there on it may stop.",
        lambda d: d.critical_temperature_celsius,
    ),
    _row(
        "smart_enabled", "gauge", "1 when SMART is enabled on the disk.", lambda d: d.smart_enabled
    ),
    _row(
        "smart_passed",
        "gauge",
        "1 when the disk's overall health status is passed, 0 when it is failing.",
        lambda d: d.passed,
    ),
    _row(
        "smart_exit_status",
        "gauge",
        "Exit status of smartctl: a bit mask, see smartctl(8).",
        lambda d: None if d.read_by else d.exit_status,
    ),
    _row(
        "smart_errors_logged_total",
        "counter",
        "Errors that an ATA disk has logged over its life.",
        lambda d: d.errors_logged_total,
    ),
    _row(
        "smart_pending_sectors",
        "gauge",
        "Pending sectors: those that the disk lists as unreadable.",
        lambda d: d.pending_sectors,
    ),
    _row(
        "smart_ata_endurance_used_ratio",
        "gauge",
        "Used share of the endurance in an ATA drive's device statistics; may be more than 1.",
        lambda d: d.endurance_used_ratio,
    ),
    _row(
        "smart_self_test_remaining_ratio",
        "gauge",
        "Remaining part of the running self-test.",
        lambda d: d.self_test_remaining_ratio,
    ),
    _row(
        "smart_offline_collection_started",
        "gauge",
        "0 when a rotating ATA disk never started off-line data collection, else 1.",
        lambda d: (
            None
            if d.offline_collection is None or not d.rotation_rpm
            else d.offline_collection is not OfflineCollection.NEVER_STARTED
        ),
    ),
    _row(
        "smart_pysmart_disagreements",
        "gauge",
        "Values that pySMART parses differently from the same output.",
        lambda d: None if d.read_by else d.disagreements,
    ),
    _row(
        "smart_unreadable_fields",
        "gauge",
        "Fields of the disk's SMART report that cannot be parsed, or contradict each other.",
        lambda d: len(d.read_errors) or None,
    ),
)


def _scsi(name: str, kind: Kind, text: str, field: str = "") -> _Row:
    def read(drive: Drive) -> Any:  # noqa: ANN401 - any field
        return None if drive.scsi is None else getattr(drive.scsi, field or name)

    return _row(f"smart_scsi_{name}", kind, text, read)


def _predicted(drive: Drive) -> bool | None:
    if drive.scsi is None or drive.scsi.asc is None:
        return None
    return drive.scsi.asc == FAILURE_PREDICTED


_SCSI = (
    _scsi("grown_defects", "gauge", "Grown defects: sectors reassigned since the disk was made."),
    _scsi("non_medium_errors_total", "counter", "Non-medium errors (cable, firmware)."),
    _scsi(
        "pending_defects",
        "gauge",
        "Pending defects: sectors that the disk has logged as unreadable.",
    ),
    _scsi(
        "start_stop_cycles_total",
        "counter",
        "Start/stop cycles.",
        "start_stop_cycles",
    ),
    _scsi("endurance_used_ratio", "gauge", "Used share of the endurance of a solid-state drive."),
    _row(
        "smart_scsi_failure_predicted",
        "gauge",
        "1 when the disk predicts its failure (sense code 5Dh).",
        _predicted,
    ),
)


def _nvme(name: str, kind: Kind, text: str) -> _Row:
    def read(drive: Drive) -> Any:  # noqa: ANN401 - any field
        return None if drive.nvme is None else getattr(drive.nvme, name)

    return _row(f"smart_nvme_{name}", kind, text, read)


_NVME = (
    _nvme(
        "critical_warning",
        "gauge",
        "Critical warning: a bit mask, 0 is good (NVMe health log, byte 0).",
    ),
    _nvme("available_spare_ratio", "gauge", "Remaining spare capacity."),
    _nvme(
        "available_spare_threshold_ratio", "gauge", "Spare capacity below which the drive warns."
    ),
    _nvme("endurance_used_ratio", "gauge", "Used share of the endurance; may be more than 1."),
    _nvme(
        "media_errors_total",
        "counter",
        "Media errors: data that the drive could not read or found corrupted.",
    ),
    _nvme("error_log_entries_total", "counter", "Entries of the error log; most are harmless."),
    _nvme("unsafe_shutdowns_total", "counter", "Unsafe shutdowns: power lost without notice."),
    _nvme("read_bytes_total", "counter", "Bytes read by hosts in the drive's life."),
    _nvme("written_bytes_total", "counter", "Bytes written by hosts in the drive's life."),
    _nvme("controller_busy_seconds_total", "counter", "Time the drive was busy with commands."),
    _nvme("warning_temperature_seconds_total", "counter", "Time above the warning temperature."),
    _nvme("critical_temperature_seconds_total", "counter", "Time above the critical temperature."),
)

_ATTRIBUTE = (
    _row(
        "smart_attribute_value",
        "gauge",
        "Normalized value of a SMART attribute; lower is less healthy.",
        lambda a: a.value,
    ),
    _row("smart_attribute_worst", "gauge", "Lowest normalized value so far.", lambda a: a.worst),
    _row(
        "smart_attribute_threshold",
        "gauge",
        "Failure threshold: at this normalized value or below the attribute has failed; 0: never.",
        lambda a: a.threshold,
    ),
    _row(
        "smart_attribute_raw",
        "gauge",
        "Raw value, as smartctl's drive database reads it.",
        lambda a: a.counted(),
    ),
)

_COUNTER = (
    _row(
        "smart_scsi_errors_corrected_total",
        "counter",
        "Errors that the disk corrected, by operation.",
        lambda c: c.corrected_total,
    ),
    _row(
        "smart_scsi_errors_uncorrected_total",
        "counter",
        "Errors that the disk could not correct, by operation.",
        lambda c: c.uncorrected_total,
    ),
    _row(
        "smart_scsi_processed_bytes_total",
        "counter",
        "Bytes the disk has read, written or verified.",
        lambda c: c.processed_bytes,
    ),
)

_SELF_TEST_PASSED = Family(
    "iowarden_smart_self_test_passed",
    "gauge",
    "Result of the newest self-test that has one, by kind: 1 passed, 0 failed.",
)
_SELF_TEST_AGE = Family(
    "iowarden_smart_self_test_age_seconds",
    "gauge",
    "Power-on time since the newest self-test with a result, by kind.",
)

_POLL = (
    _row(
        "smart_poll_duration_seconds",
        "gauge",
        "Duration of the last smartctl run.",
        lambda p: p.duration_seconds,
    ),
    _row("smart_polls_total", "counter", "Runs of smartctl for a disk.", lambda p: p.runs_total),
    _row(
        "smart_poll_failures_total",
        "counter",
        "Runs of smartctl that returned no data of the disk.",
        lambda p: p.failures_total,
    ),
    _row(
        "smart_last_poll_timestamp_seconds",
        "gauge",
        "When the disk last answered, as Unix time.",
        lambda p: p.read_seconds,
    ),
)

_PLAIN = (*_DRIVE, *_SCSI, *_NVME)

FAMILIES = (
    _INFO,
    *(family for family, _ in (*_PLAIN, *_ATTRIBUTE, *_COUNTER)),
    _SELF_TEST_PASSED,
    _SELF_TEST_AGE,
    *(family for family, _ in _POLL),
)


def emit(disks: Disks) -> list[Sample]:
    """Return the samples of FAMILIES. Those of a drive are made once for each poll."""
    samples: list[Sample] = []
    for disk in disks.by_key.values():
        own: Labels = (("disk", disk.key),)
        polled = disk.polled
        samples.append((_INFO.name, _identity(disk), 1.0))
        for family, read in _POLL:
            number = read(polled)
            if number is not None:
                samples.append((family.name, own, float(number)))
        if polled.drive is not None:
            samples += samples_of(polled.drive, disk.key)
    return samples


def samples_of(drive: Drive, key: str) -> tuple[Sample, ...]:
    """Return all series of a drive, under the name of its disk."""
    known = drive.memo.get(("iowarden", key))
    if known is None:
        known = drive.memo["iowarden", key] = tuple(_samples_of(drive, key))
    return known


def _samples_of(drive: Drive, key: str) -> Iterator[Sample]:
    disk = ("disk", key)
    own: Labels = (disk,)
    for family, read in _PLAIN:
        number = read(drive)
        if number is not None:
            yield family.name, own, float(number)
    # A broken table may have a line twice, and a series twice is not valid.
    for attribute in {(a.name, a.id): a for a in reversed(drive.attributes)}.values():
        labels: Labels = (("attribute", attribute.name), disk, ("id", str(attribute.id)))
        for family, read in _ATTRIBUTE:
            number = read(attribute)
            if number is not None:
                yield family.name, labels, float(number)
    if drive.scsi is not None:
        for operation, counter in drive.scsi.error_counters.items():
            labels = (disk, ("operation", operation))
            for family, read in _COUNTER:
                number = read(counter)
                if number is not None:
                    yield family.name, labels, float(number)
    newest: dict[str, SelfTest] = {}
    for test in drive.self_tests:
        if test.passed is not None:
            newest.setdefault(test.kind, test)
    for kind, test in newest.items():
        labels = (disk, ("kind", kind))
        yield _SELF_TEST_PASSED.name, labels, float(test.passed or False)
        hours = hours_since(drive, test)
        if hours is not None:
            yield _SELF_TEST_AGE.name, labels, float(hours * HOUR_SECONDS)


def hours_since(drive: Drive, test: SelfTest) -> int | None:
    """Return the power-on hours of a drive since a self-test of it ended.

    Limits: of an ATA drive modulo 7.5 years, so an older one appears younger. If the drive's own
    hours have 16 bits as well, a test of the year before their end is recognized.
    """
    if test.hours is None or drive.power_on_hours is None:
        return None
    if drive.protocol is Protocol.SCSI and test.hours >= _MAX_HOURS_OF_SCSI:
        return None
    hours = drive.power_on_hours - test.hours
    if drive.protocol is Protocol.ATA and (hours >= 0 or hours % _HOURS_OF_ATA <= _YEAR_HOURS):
        hours %= _HOURS_OF_ATA
    return hours if hours >= 0 else None


def _identity(disk: Disk) -> Labels:
    target, drive = disk.polled.target, disk.polled.drive
    return (
        ("controller", target.controller),
        ("device", disk.device),
        ("disk", disk.key),
        ("firmware", drive.firmware if drive else ""),
        ("model", drive.model if drive else ""),
        ("path", target.path),
        ("protocol", drive.protocol.value if drive else ""),
        ("serial", drive.serial if drive else ""),
        ("slot", target.slot),
        ("type", target.kind),
        ("wwn", drive.wwn if drive else ""),
    )


def unreadable(disks: Disks) -> Iterator[tuple[Labels, str]]:
    """Yield the disks without current data, with the reason.

    Also those that never had data in this run: they may have been read once.
    """
    for disk in disks.by_key.values():
        if disk.polled.drive is None:
            reason = disk.polled.reason or disk.polled.status.value
            not_yet = disk.polled.status is ReadStatus.NOT_POLLED_YET
            text = "" if not_yet else f"disk '{disk.key}' could not be read: {reason}"
            yield (("disk", disk.key),), text
            target = disk.polled.target  # as rules on series of smartctl_exporter name it
            yield (("device", smartctl_exporter.label(target.path, target.kind)),), text


def keys(disks: Disks) -> Container[str]:
    """Return the names of the disks."""
    return disks.by_key


SOURCE: Source[Disks] = Source(
    name="smart",
    period_seconds=15,
    may_hang=True,
    read=read_by_poller,
    families=FAMILIES,
    emit=emit,
    node=smartctl_exporter.samples,
    node_prefixes=smartctl_exporter.PREFIXES,
    node_names=smartctl_exporter.NAMES,
    objects=("disk",),
    lists=("disk", keys),
    unreadable=unreadable,
)
