"""Metrics: counters of events by data source and by disk, and offsets of controllers' clocks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from iowarden.collectors.model import Family
from iowarden.rules.conditions.condition import Condition
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.model import Sample
    from iowarden.rules.events.event_state import CorrelationState, EventUpdate
    from iowarden.rules.events.event_table import EventRule

MAX_DISKS = 2000
MEDIUM = frozenset(
    (
        "scan_bad_range",
        "block_medium_error",
        "scsi_medium_error",
        "ata_medium_error",
        "nvme_medium_error",
        "areca_reading_error",
        "areca_ata_ecc_error",
        "3ware_drive_ecc_error_reported",
        "megaraid_medium_error",
        "megaraid_medium_error_uncorrectable",
        "megaraid_rebuild_medium_error",
    )
)
"""Unreadable sectors: SMART data of a drive that counts none of them are implausible."""

TOTAL = Family(
    "iowarden_events_total",
    "counter",
    "Storage events since iowarden started, without noise, by data source and severity.",
)
DISK_TOTAL = Family(
    "iowarden_disk_events_total",
    "counter",
    "Storage events of a disk since iowarden started, by class: unreadable sectors (medium),"
    " command timeouts (timeout), disk missing or offline (lost), others (other).",
)
CLASSES = ("medium", "timeout", "lost", "other")
_OF_CONDITIONS: Mapping[str, str] = {
    Condition.COMMAND_TIMEOUT: "timeout",
    Condition.DEVICE_UNAVAILABLE: "lost",
}
CLOCK = Family(
    "iowarden_controller_clock_offset_seconds",
    "gauge",
    "Offset of a controller's clock from UTC, its time zone included; only verified offsets.",
)
CLOCK_DRIFT = Family(
    "iowarden_controller_clock_drift_seconds",
    "gauge",
    "Deviation of a controller's clock from the nearest quarter-hour offset to UTC, which no time"
    " zone explains.",
)
FAMILIES = (TOTAL, DISK_TOTAL, CLOCK, CLOCK_DRIFT)


def samples(
    state: CorrelationState,
    totals: Mapping[tuple[str, str], int],
    of_disks: Mapping[tuple[str, str], int],
    disks: Iterable[str],
) -> list[Sample]:
    """Return the samples of FAMILIES.

    `totals` are by data source and severity, `of_disks` by disk and class; `disks` are the present
    disks: their counters exist from the start.
    """
    found: list[Sample] = []
    for name, clock in state.clocks.items():
        offset = clock.current()
        if offset.verified and offset.seconds is not None:
            own = (("controller", name),)
            found.append((CLOCK.name, own, offset.seconds))
            found.append((CLOCK_DRIFT.name, own, offset.drift_seconds))
    return [
        *found,
        *(
            (TOTAL.name, (("severity", severity), ("source", source)), float(count))
            for (source, severity), count in totals.items()
        ),
        *(
            (
                DISK_TOTAL.name,
                (("class", name), ("disk", disk)),
                float(of_disks.get((disk, name), 0)),
            )
            for disk in dict.fromkeys((*disks, *(disk for disk, _ in of_disks)))
            for name in CLASSES
        ),
    ]


def counted(
    totals: Mapping[tuple[str, str], int], updates: Iterable[EventUpdate]
) -> dict[tuple[str, str], int]:
    """Return the totals with the new events."""
    after = Counter(totals)
    for each in updates:
        if each.group is not None and not each.group.baseline:
            after[each.event.source, each.severity.name.lower()] += 1
    return dict(after)


def counted_disks(
    totals: Mapping[tuple[str, str], int], updates: Iterable[EventUpdate]
) -> dict[tuple[str, str], int]:
    """Return the totals of disks with the new events; an event in two logs counts once."""
    after = Counter(totals)
    for each in updates:
        if each.disk and not each.twin and each.group and not each.group.baseline:
            key = each.disk, _class(each.row)
            if key in after or len(after) < MAX_DISKS:
                after[key] += 1
    return dict(after)


def _class(row: EventRule) -> str:
    return "medium" if row.kind in MEDIUM else _OF_CONDITIONS.get(row.condition, "other")


def no_totals(sources: Iterable[str]) -> dict[tuple[str, str], int]:
    """Return totals of 0: counters exist from the start."""
    return {(source, each.name.lower()): 0 for source in sources for each in Severity}
