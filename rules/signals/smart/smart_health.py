"""What a drive says of its own health: its verdict, self-tests, temperature, spare and wear.

Domain conditions H1, H5 to H8. No memory is needed for these, but for a temperature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Labels, Sample
from iowarden.collectors.smart.smart_series import hours_since

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.smart.drive import Drive, Scsi, SelfTest

_FAILURE_PREDICTED, _WARNING = 0x5D, 0x0B
_FALSE_ALARM = 0xFF
"""With 5Dh: a prediction made as a test. Source: SPC, additional sense codes."""
_VENDOR_CODES = 0x80
"""Additional sense code qualifiers from here on are the vendor's own: Oracle's 96h says 'slow'."""
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
_LIFE_LEFT = frozenset(
    {
        *("Wear_Leveling_Count", "Media_Wearout_Indicator", "SSD_Life_Left"),
        *("Percent_Lifetime_Remain", "Remaining_Lifetime_Perc"),
    }
)
"""Attributes of SATA drives whose value goes from 100 to 1 as the flash wears; most have a
threshold of 0 and never fail. Source: smartmontools, drivedb.h and atacmds.cpp, for the names; that
each maker counts down to 1 was seen of 177 and 233, and is unchecked of the others. 0, and above
100, is another scale."""
_NVME_WARNINGS = (
    "spare capacity is below its threshold",
    "temperature is beyond a threshold",
    "reliability is degraded by media or internal errors",
    "all media are read-only",
    "the backup of its volatile memory has failed",
    "its persistent memory region is unreliable or read-only",
)
"""By bit. Source: NVM Express Base Specification, SMART / Health Information log page, byte 0."""

FAMILIES = (
    Family("iowarden_smart_failing", "gauge", "1 while the drive's own verdict is that it fails."),
    Family(
        "iowarden_smart_drive_warning",
        "gauge",
        "Sense code of a warning a SCSI drive gives, by whose it is: 'standard' or 'vendor'.",
    ),
    Family(
        "iowarden_smart_self_test_failures",
        "gauge",
        "Self-tests of a kind that failed since one passed, the newest within a powered year.",
    ),
    Family("iowarden_smart_self_test_old_failures", "gauge", "The same where the newest is older."),
    Family(
        "iowarden_smart_self_test_bad_sector",
        "gauge",
        "First sector (LBA) that the newest failed self-test of a kind could not read.",
    ),
    Family(
        "iowarden_smart_nvme_warning", "gauge", "1 for every critical warning an NVMe drive gives."
    ),
    Family(
        "iowarden_smart_spare_margin_ratio",
        "gauge",
        "Spare capacity above the drive's threshold, once that is little.",
    ),
    Family(
        "iowarden_smart_used_ratio",
        "gauge",
        "Used share of a solid-state drive's endurance, once that is most of it.",
    ),
)


def samples(drive: Drive, own: Labels) -> Iterator[Sample]:
    """Yield what is to be told of a drive; `own` is its label."""
    code = _warning(drive.scsi)
    if _predicts_failure(drive.scsi) or (drive.passed is False and not _is_told(drive)):
        yield "iowarden_smart_failing", own, 1.0
    if code is not None:
        kind = "vendor" if code & 0xFF >= _VENDOR_CODES else "standard"
        yield "iowarden_smart_drive_warning", (*own, ("kind", kind)), float(code)
    yield from _self_tests(drive, own)
    yield from _wear(drive, own)


def _predicts_failure(scsi: Scsi | None) -> bool:
    return scsi is not None and scsi.asc == _FAILURE_PREDICTED and scsi.ascq != _FALSE_ALARM


def _is_told(drive: Drive) -> bool:
    """Whether a bad verdict says no more than a warning of the drive, or is a test."""
    scsi, nvme = drive.scsi, drive.nvme
    if nvme is not None and nvme.critical_warning:
        return True
    return scsi is not None and (
        scsi.asc == _WARNING or (scsi.asc == _FAILURE_PREDICTED and scsi.ascq == _FALSE_ALARM)
    )


def _warning(scsi: Scsi | None) -> int | None:
    """Return both bytes of the code of a warning that a SCSI drive gives, None where it does not.

    Source: SPC, additional sense codes 0B/xx.
    """
    if scsi is None or scsi.asc != _WARNING:
        return None
    return (_WARNING << 8) + (scsi.ascq or 0)


def _self_tests(drive: Drive, own: Labels) -> Iterator[Sample]:
    """Yield what self-tests found that no later one took back: one of its kind, or a whole one."""
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
        old = "old_" if age is not None and age > _OLD_HOURS else ""
        yield f"iowarden_smart_self_test_{old}failures", labels, float(len(tests))
        if tests[0].lba is not None:
            yield "iowarden_smart_self_test_bad_sector", labels, float(tests[0].lba)


def _wear(drive: Drive, own: Labels) -> Iterator[Sample]:
    left = [
        attribute.value
        for attribute in drive.attributes
        if attribute.name in _LIFE_LEFT and attribute.value and attribute.value <= 100
    ]
    used = 1 - min(left) / 100 if left and not spins(drive) else None
    if drive.scsi is not None:
        used = drive.scsi.endurance_used_ratio
    if drive.nvme is not None:
        nvme = drive.nvme
        for bit, text in enumerate(_NVME_WARNINGS):
            if (nvme.critical_warning or 0) & 1 << bit:
                yield "iowarden_smart_nvme_warning", (*own, ("warning", text)), 1.0
        used = nvme.percentage_used_ratio
        spare, threshold = nvme.available_spare_ratio, nvme.available_spare_threshold_ratio
        if spare is not None and threshold and spare < 1.0:
            margin = round(spare - threshold, 4)
            if margin <= _SPARE_MARGIN_RATIO:
                yield "iowarden_smart_spare_margin_ratio", own, margin
    if used is not None and used >= _WORN_RATIO:
        yield "iowarden_smart_used_ratio", own, used


def spins(drive: Drive) -> bool:
    """Whether a drive rotates; one that says nothing of it and has nothing of a disk does not."""
    if drive.rotation_rpm is not None:
        return drive.rotation_rpm > 0
    if drive.scsi is not None and drive.scsi.start_stop_cycles is not None:
        return True
    return any(attribute.id in _SPINS for attribute in drive.attributes)


def excess_celsius(drive: Drive) -> float | None:
    """Return by how much a drive is hotter than it should become; None: it does not say.

    A limit of 0 or 25 degrees is none.
    """
    celsius = drive.temperature_celsius
    if celsius is None or not 0.0 < celsius < _BELIEVED_CELSIUS:
        return None
    limit = drive.temperature_limit_celsius
    if limit is not None and limit > _REAL_LIMIT_CELSIUS:
        return celsius - (limit - _MARGIN_CELSIUS)
    return celsius - (_HOT_DISK_CELSIUS if spins(drive) else _HOT_SOLID_STATE_CELSIUS)
