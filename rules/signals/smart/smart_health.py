"""The drive's own health data: SMART status, self-tests, temperature, available spare, wear.

Stateless, except for the temperature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Labels, Sample
from iowarden.collectors.smart.smart_series import hours_since
from iowarden.rules.smart import endurance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.smart.drive import Drive, NvmeHealth, ScsiHealth, SelfTest

_FAILURE_PREDICTED, _WARNING = 0x5D, 0x0B
_FALSE_ALARM = 0xFF
"""With 5Dh: a test of failure prediction. Source: SPC, additional sense codes."""
_VENDOR_CODES = 0x80
"""Additional sense code qualifiers from here on are vendor-specific: Oracle's 96h means 'slow'."""
_OLD_HOURS = 365 * 24
_WHOLE = frozenset({"extended", "long"})
_SPINS = frozenset({3, 10})
"""Spin-up time and spin retries: only a rotating disk has them."""
_REAL_LIMIT_CELSIUS = 40.0
_MARGIN_CELSIUS = 5.0
_HOT_DISK_CELSIUS, _HOT_SOLID_STATE_CELSIUS = 55.0, 70.0
_BELIEVED_CELSIUS = 150.0
_SPARE_MARGIN_RATIO = 0.1
_WORN_RATIO = 0.9
_NVME_WARNINGS = (
    "spare capacity is below its threshold",
    "temperature is beyond a threshold",
    "reliability is degraded by media or internal errors",
    "all media are read-only",
    "the backup of its volatile memory has failed",
    "its persistent memory region is unreliable or read-only",
)
"""By bit. Source: NVM Express Base Specification, SMART / Health Information log page, byte 0."""
_WARNING_BITS = 8
_TEMPERATURE, _RELIABILITY_DEGRADED = 0x02, 0x04

FAMILIES = (
    Family("iowarden_smart_failing", "gauge", "1 while the drive's SMART health status is FAILED."),
    Family(
        "iowarden_smart_scsi_warning_sense_code",
        "gauge",
        "Sense code (ASC and ASCQ) of a warning that a SCSI drive reports, by who defines the"
        " code: standard or vendor.",
    ),
    Family(
        "iowarden_smart_background_scan_unreassigned_sectors",
        "gauge",
        "Sectors that a SAS drive's background scan found bad and that were not reassigned since.",
    ),
    Family(
        "iowarden_smart_self_test_failures",
        "gauge",
        "Failed self-tests of a kind since the last one that passed, the newest within the"
        " last 8760 power-on hours.",
    ),
    Family(
        "iowarden_smart_self_test_failures_before_last_year",
        "gauge",
        "Failed self-tests of a kind"
        " since the last one that passed,"
        " the newest more than 8760"
        " power-on hours ago.",
    ),
    Family(
        "iowarden_smart_self_test_first_error_lba",
        "gauge",
        "First unreadable sector (LBA of the first error) of the newest failed self-test of a"
        " kind.",
    ),
    Family(
        "iowarden_smart_nvme_critical_warning_reason",
        "gauge",
        "1 for each bit of the critical warning that an NVMe drive reports.",
    ),
    Family(
        "iowarden_smart_nvme_critical_temperature_excess_celsius",
        "gauge",
        "Degrees Celsius by which an NVMe drive is above its critical temperature, while it warns"
        " of its temperature.",
    ),
    Family(
        "iowarden_smart_nvme_only_worn",
        "gauge",
        "1 while an NVMe drive reports degraded reliability, but only its rated endurance is used"
        " up: its spare capacity is full, and it had no media error.",
    ),
    Family(
        "iowarden_smart_nvme_available_spare_margin_ratio",
        "gauge",
        "Available spare of an NVMe drive less its threshold, as a ratio; only when 0.1 or less.",
    ),
    Family(
        "iowarden_smart_endurance_used_ratio",
        "gauge",
        "Used share of a solid-state drive's endurance; only from 0.9 on.",
    ),
)


def samples(drive: Drive, own: Labels) -> Iterator[Sample]:
    """Yield the health samples of a drive; `own` is its label."""
    code = _warning(drive.scsi)
    if _predicts_failure(drive.scsi) or (drive.passed is False and not is_minor_or_test(drive)):
        yield "iowarden_smart_failing", own, 1.0
    if code is not None:
        kind = "vendor" if code & 0xFF >= _VENDOR_CODES else "standard"
        yield "iowarden_smart_scsi_warning_sense_code", (*own, ("origin", kind)), float(code)
    if drive.scsi is not None and drive.scsi.unreassigned_sectors:
        unreassigned = float(drive.scsi.unreassigned_sectors)
        yield "iowarden_smart_background_scan_unreassigned_sectors", own, unreassigned
    yield from _self_tests(drive, own)
    yield from _wear(drive, own)


def _predicts_failure(scsi: ScsiHealth | None) -> bool:
    return scsi is not None and scsi.asc == _FAILURE_PREDICTED and scsi.ascq != _FALSE_ALARM


def is_minor_or_test(drive: Drive) -> bool:
    """Whether a failed health status is only a warning of the drive, or a test."""
    scsi, nvme = drive.scsi, drive.nvme
    if nvme is not None and nvme.critical_warning:
        return True
    return scsi is not None and (scsi.asc == _WARNING or is_test(drive))


def is_test(drive: Drive) -> bool:
    """Whether the drive predicts a failure only because its TEST bit requests that: 5D/FF.

    Source: SPC, Informational Exceptions Control mode page (1Ch). A real prediction would have
    another code; while the bit is set, it may not be reported.
    """
    scsi = drive.scsi
    return scsi is not None and scsi.asc == _FAILURE_PREDICTED and scsi.ascq == _FALSE_ALARM


def _warning(scsi: ScsiHealth | None) -> int | None:
    """Return both bytes of the sense code of a SCSI drive's warning, None if there is none.

    Source: SPC, additional sense codes 0B/xx.
    """
    if scsi is None or scsi.asc != _WARNING:
        return None
    return (_WARNING << 8) + (scsi.ascq or 0)


def _self_tests(drive: Drive, own: Labels) -> Iterator[Sample]:
    """Yield self-test failures without a later pass: of the same kind, or of an extended test."""
    settled: set[str] = set()
    failures: dict[str, list[SelfTest]] = {}
    for test in drive.self_tests:
        if test.passed and test.kind in _WHOLE:
            break
        if test.passed:
            settled.add(test.kind)
        elif test.passed is False and test.kind not in settled:
            failures.setdefault(test.kind, []).append(test)
    for kind, tests in failures.items():
        labels = (*own, ("kind", kind))
        age = hours_since(drive, tests[0])
        old = "_before_last_year" if age is not None and age > _OLD_HOURS else ""
        yield f"iowarden_smart_self_test_failures{old}", labels, float(len(tests))
        if tests[0].lba is not None:
            yield "iowarden_smart_self_test_first_error_lba", labels, float(tests[0].lba)


def _wear(drive: Drive, own: Labels) -> Iterator[Sample]:
    if drive.nvme is not None:
        nvme = drive.nvme
        yield from _critical_warnings(nvme.critical_warning or 0, own)
        at, limit = drive.temperature_celsius, drive.critical_temperature_celsius
        if at is not None and limit is not None and (nvme.critical_warning or 0) & _TEMPERATURE:
            yield "iowarden_smart_nvme_critical_temperature_excess_celsius", own, at - limit
        if _only_worn(nvme):
            yield "iowarden_smart_nvme_only_worn", own, 1.0
        spare, threshold = nvme.available_spare_ratio, nvme.available_spare_threshold_ratio
        if spare is not None and threshold and spare < 1.0:
            margin = round(spare - threshold, 4)
            if margin <= _SPARE_MARGIN_RATIO:
                yield "iowarden_smart_nvme_available_spare_margin_ratio", own, margin
    used = endurance.used_ratio(drive)
    if used is not None and used >= _WORN_RATIO:
        yield "iowarden_smart_endurance_used_ratio", own, used


def _critical_warnings(byte: int, own: Labels) -> Iterator[Sample]:
    """Yield each set bit of an NVMe drive's critical warning, also one without a meaning so far.

    A drive with any bit set reports FAILED. Source: smartmontools, nvmeprint.cpp,
    print_critical_warning.
    """
    for number in range(_WARNING_BITS):
        mask = 1 << number
        if byte & mask:
            text = f"bit 0x{mask:02x}, whose meaning is not known"
            if number < len(_NVME_WARNINGS):
                text = _NVME_WARNINGS[number]
            labels = (("bit", f"0x{mask:02x}"), *own, ("warning", text))
            yield "iowarden_smart_nvme_critical_warning_reason", labels, 1.0


def _only_worn(nvme: NvmeHealth) -> bool:
    """Whether a drive's degraded reliability means no more than used endurance.

    The specification leaves it to the vendor when the bit is set; some set it at 100 % used. What
    the drive does not report is no proof of that.
    """
    used, spare = nvme.endurance_used_ratio, nvme.available_spare_ratio
    worn = used is not None and used >= 1.0
    full = spare is not None and spare >= 1.0
    degraded = bool((nvme.critical_warning or 0) & _RELIABILITY_DEGRADED)
    return degraded and worn and full and nvme.media_errors_total == 0


def spins(drive: Drive) -> bool:
    """Whether a drive rotates; False if it reports no rotation rate and no data of a spindle."""
    if drive.rotation_rpm is not None:
        return drive.rotation_rpm > 0
    if drive.scsi is not None and drive.scsi.start_stop_cycles is not None:
        return True
    return any(attribute.id in _SPINS for attribute in drive.attributes)


def excess_celsius(drive: Drive) -> float | None:
    """Return the degrees by which a drive exceeds its limit; None without a temperature.

    A limit of 0 or 25 degrees counts as none.
    """
    celsius = drive.temperature_celsius
    if celsius is None or not 0.0 < celsius < _BELIEVED_CELSIUS:
        return None
    limit = drive.temperature_limit_celsius
    if limit is not None and limit > _REAL_LIMIT_CELSIUS:
        return celsius - (limit - _MARGIN_CELSIUS)
    return celsius - (_HOT_DISK_CELSIUS if spins(drive) else _HOT_SOLID_STATE_CELSIUS)
