"""Lines of the digest about drives past their years, and about siblings of one that failed. Pure.

No mail of their own: age alone is no fault. Drives of one model and week tend to fail together.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.rules import faults
from iowarden.rules.alerting.alerts import severity
from iowarden.rules.faults import Layer
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from iowarden.collectors.smart.drive import Disks, Drive
    from iowarden.rules.alerting.alerts import Alert

YEARS = 5
"""A usual warranty."""
MAX_YEARS = 30
"""More is a misread counter."""
YEAR_HOURS = 8766
MAX_NAMED = 12
_HEAT = frozenset({"DiskTemperatureHigh", "DiskTemperatureAboveLimit"})
_WEEK = re.compile(r"(19|20)\d\d-W\d{1,2}", re.ASCII)
"""Behind some controllers smartctl prints other texts."""


def failed_disks(alerts: Iterable[Alert]) -> frozenset[str]:
    """Return the disks with a critical alert about themselves, by their label.

    By the severity of its rule: a finding that is only more urgent because of its array is no
    failure. Nor is heat: it is that of the machine.
    """
    return frozenset(
        alert.label("disk")
        for alert in alerts
        if alert.active
        and severity(alert.label("severity")) is Severity.CRITICAL
        and alert.name not in _HEAT
        and faults.meaning(alert.name).layer is Layer.DISK
    ) - {""}


def lines(disks: Disks | None, failed: Container[str]) -> Iterator[str]:
    """Yield the lines, none if there is nothing of the kind.

    Limits: only SCSI drives report their week of manufacture; of others the model counts.
    """
    drives: dict[str, Drive] = {}
    for key, disk in () if disks is None else disks.by_key.items():
        if disk.polled.drive is not None:
            drives[key] = disk.polled.drive
    hours = {
        key: drive.power_on_hours
        for key, drive in drives.items()
        if drive.power_on_hours is not None and drive.power_on_hours <= MAX_YEARS * YEAR_HOURS
    }
    old = {key: value for key, value in hours.items() if value >= YEARS * YEAR_HOURS}
    if old:
        oldest = max(old, key=old.__getitem__)
        yield (
            f"{len(old)} of {len(hours)} drives {'is' if len(old) == 1 else 'are'} past"
            f" {YEARS} years of power-on time; the oldest is {oldest} ({drives[oldest].model},"
            f" {old[oldest] / YEAR_HOURS:.1f} years)"
        )
    for key, drive in drives.items():
        if key not in failed or not drive.model:
            continue
        made = _made(drive)
        same = [
            other
            for other, each in drives.items()
            if other not in failed and (each.model, _made(each)) == (drive.model, made)
        ]
        if same:
            left = f" and {len(same) - MAX_NAMED} more" if len(same) > MAX_NAMED else ""
            week = f" and week of manufacture ({made})" if made else ""
            yield (
                f"of the same model{week} as {key}, which failed or is failing ({drive.model}):"
                f" {', '.join(same[:MAX_NAMED])}{left}"
            )


def _made(drive: Drive) -> str:
    """Return year and week of manufacture; '' if unknown."""
    scsi = drive.scsi
    made = "" if scsi is None else f"{scsi.manufactured_year}-W{scsi.manufactured_week}"
    return made if _WEEK.fullmatch(made) else ""
