"""When a surface scan is due, and which ones may run now. Pure.

Units: seconds of the program's clock; a schedule is in wall-clock time, which is ahead of it by
`ahead_seconds`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.scan.guards import ScanDisk, busy_share
from iowarden.rules.scan.plan import Scan, ScanState, paused_until
from iowarden.rules.selftest_schedule import EVERY, spread_share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import tzinfo

    from iowarden.rules.scan.plan import Scans
    from iowarden.rules.selftest_schedule import ScheduleGroup

START = "start"
"""The time in a group of 'scans'."""
MAX_RETAINED = 5000
MAX_AT_ONCE = 8
"""Disks: each takes a process of the probe, which polls drives and controllers as well."""
REST_AFTER_SECONDS, REST_SECONDS = 2 * 3600.0, 1800.0
"""A disk with shingled tracks moves its data when it rests; few drives report that they have these,
so each rotating disk that is not SAS rests."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Whether the scan of a disk goes on now: '' or why it waits."""

    disk: ScanDisk
    waits: str = ""


def due_since(
    groups: Sequence[ScheduleGroup],
    disk: ScanDisk,
    scan: Scan | None,
    now: float,
    zone: tzinfo,
    ahead_seconds: float,
) -> float | None:
    """Return since when a scheduled scan is due that has not begun; None if none is."""
    group = group_of(groups, disk)
    if group is None or scan is None or scan.scheduled_seconds is None:
        return None  # nothing is due that was planned before the disk was in the schedule
    own = spread_share(disk.disk) * group.spread_seconds
    at = group.calendars[START].latest(now + ahead_seconds - own, zone)
    if at is None or (at := at + own - ahead_seconds) <= scan.scheduled_seconds:
        return None
    return at if scan.begun_seconds is None or scan.begun_seconds < at else None


def following(
    groups: Sequence[ScheduleGroup], disk: ScanDisk, realtime_seconds: float, zone: tzinfo
) -> float | None:
    """Return when a disk is next due, in Unix time, or None."""
    group = group_of(groups, disk)
    if group is None:
        return None
    own = spread_share(disk.disk) * group.spread_seconds
    at = group.calendars[START].following(realtime_seconds - own, zone)
    return None if at is None else at + own


def group_of(groups: Sequence[ScheduleGroup], disk: ScanDisk) -> ScheduleGroup | None:
    """Return the first group that contains a disk, if it has a time.

    A disk that something else reads is in a group only by its serial number.
    """
    names = {disk.disk} if disk.left else {EVERY, disk.disk, *disk.classes}
    found = next((group for group in groups if not names.isdisjoint(group.disks)), None)
    return found if found is not None and START in found.calendars else None


def turns(disks: Sequence[ScanDisk], scans: Mapping[str, Scan], now: float) -> list[Turn]:
    """Return the running scans, the longest running first: those that go on, and those that wait.

    One that waits for another reason than another scan gives its adapter free.
    """
    running = [
        (scan, disk)
        for disk in disks
        if (scan := scans.get(disk.disk)) is not None and scan.state is ScanState.RUNNING
    ]
    found: list[Turn] = []
    reading: list[ScanDisk] = []
    for scan, disk in sorted(running, key=lambda each: (each[0].begun_seconds or 0, each[1].disk)):
        held = paused_until(scan, now)
        waits = disk.hold or (held[1] if held else "") or _rests(scan, disk, now)
        waits = waits or busy_share(disk, reading)
        if len(reading) == MAX_AT_ONCE and not waits:
            waits = f"{MAX_AT_ONCE} other disks are being scanned"
        if not waits:
            reading.append(disk)
        found.append(Turn(disk, waits))
    return found


def _rests(scan: Scan, disk: ScanDisk, now: float) -> str:
    """Return that a disk rests, or ''."""
    if not disk.rests or scan.begun_seconds is None:
        return ""
    phase = (now - scan.begun_seconds) % (REST_AFTER_SECONDS + REST_SECONDS)
    return "the disk rests for half an hour" if phase >= REST_AFTER_SECONDS else ""


def met(
    scans: Scans, groups: Sequence[ScheduleGroup], disks: Sequence[ScanDisk], now: float
) -> Scans:
    """Return the scans with an entry for each disk, and since when it is in the schedule.

    The same object if nothing changed. Beyond MAX_RETAINED disks the first ones seen are dropped.
    """
    changed: Scans = {}
    for disk in disks:
        scan = scans.get(disk.disk) or Scan(now)
        planned = group_of(groups, disk) is not None
        if planned != (scan.scheduled_seconds is not None):
            scan = replace(scan, scheduled_seconds=now if planned else None)
        if scan is not scans.get(disk.disk):
            changed[disk.disk] = scan
    if not changed:
        return scans
    after = {**scans, **changed}
    oldest = sorted(after, key=lambda each: after[each].seen_seconds)
    for old in oldest[: max(len(after) - MAX_RETAINED, 0)]:
        del after[old]
    return after
