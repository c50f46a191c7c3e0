"""When each disk was last read completely, and by what. Pure.

Counted are surface scans, long self-tests that passed (ATA and SCSI: NVMe does not require that an
extended test reads every block), checks of md arrays, and scrubs of mounted btrfs, although these
read used blocks only. Limits: a scrub of ZFS and the patrol read of a RAID controller are not
known, so that their disks are not reported; nor are NVMe drives that support several paths, which
cannot be scanned; nor is when a btrfs was scrubbed whose last scrub runs
or was interrupted. A self-test in the drive's log is dated by power-on hours: the time when the
drive was off is missing.
Source: smartctl(8), '-t long', '-l selftest'; kernel, admin-guide/md.rst (sync_action);
btrfs-scrub(8); NVM Express Base Specification, 'Device Self-test' (the extent of its media check
was not verified there).
Units: seconds of the program's clock.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from iowarden.collectors.model import Family
from iowarden.collectors.smart.drive import Protocol, ReadStatus
from iowarden.collectors.smart.smart_series import hours_since
from iowarden.rules.scan.guards import MD, reader
from iowarden.rules.topology.stack import has_nvme_paths

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import tzinfo

    from iowarden.collectors.model import Sample
    from iowarden.collectors.smart.drive import Disk
    from iowarden.rules.scan.plan import Scans
    from iowarden.rules.selftest_schedule import Runs
    from iowarden.rules.snapshot import Snapshot

HOUR_SECONDS = 3600.0
_LONG = frozenset({"extended", "long"})
_UNCOUNTED = frozenset({ReadStatus.NO_SMART, ReadStatus.LUN, ReadStatus.MISSING})
LAST_FULL_READ = Family(
    "iowarden_disk_last_full_read_timestamp_seconds",
    "gauge",
    "Unix time in seconds at which a disk was last found to have been read completely: by a surface"
    " scan, a long self-test that passed, a check of its md array, or a scrub of its btrfs.",
)
FULL_READ_AGE = Family(
    "iowarden_disk_full_read_age_seconds",
    "gauge",
    "Seconds since a disk was last read completely, or since iowarden first saw it; not for disks"
    " whose reads are not known (ZFS, RAID controllers, NVMe drives with several paths), or"
    " that are never idle enough.",
)
FAMILIES = (LAST_FULL_READ, FULL_READ_AGE)


class FullRead(enum.StrEnum):
    """What read a disk completely."""

    SCAN = "scan"
    SELF_TEST = "self_test"
    MD_CHECK = "md_check"
    SCRUB = "scrub"
    """Of btrfs."""


FullReads = dict[str, dict[FullRead, float]]
"""By disk."""


def full_reads(
    last: Snapshot,
    scans: Scans,
    runs: Runs,
    checks: Mapping[str, float],
    before: FullReads,
    scrubs: Mapping[str, float],
) -> FullReads:
    """Return when each disk was last read completely.

    `checks` are ends of md checks, by array; `scrubs` of scrubs, by the UUID of a btrfs; `before`
    is the last result: a self-test that is dated again within two hours, because power-on hours are
    whole ones, keeps its time, and a scrub while another one replaces its record.
    """
    by_device = _checked(last, checks)
    found: FullReads = {}
    for disk in () if last.smart is None else last.smart.by_key.values():
        own: dict[FullRead, float] = {}
        scan, known = scans.get(disk.key), before.get(disk.key, {})
        if scan is not None and scan.completed_seconds is not None:
            own[FullRead.SCAN] = scan.completed_seconds
        tested = list(_tested(disk, runs))
        if tested:
            at, old = max(tested), known.get(FullRead.SELF_TEST)
            near = old is not None and abs(at - old) < 2 * HOUR_SECONDS
            own[FullRead.SELF_TEST] = old if near and old is not None else at
        if disk.device in by_device:
            own[FullRead.MD_CHECK] = by_device[disk.device]
        if last.btrfs_scrub is not None and (uuid := _btrfs(disk, last)):
            scrubbed = scrubs.get(uuid, known.get(FullRead.SCRUB))
            if scrubbed is not None:
                own[FullRead.SCRUB] = scrubbed
        if own:
            found[disk.key] = own
    return found


def _tested(disk: Disk, runs: Runs) -> Iterator[float]:
    """Yield when long self-tests of a disk passed."""
    drive = disk.polled.drive
    if drive is None or drive.protocol is Protocol.NVME:
        return
    run = runs.get(disk.key, {}).get("long")
    if run is not None and run.passed_seconds is not None:
        yield run.passed_seconds
    for test in drive.self_tests:
        hours = hours_since(drive, test) if test.passed and test.kind in _LONG else None
        if hours is not None and disk.polled.read_seconds is not None:
            yield disk.polled.read_seconds - hours * HOUR_SECONDS


def _checked(last: Snapshot, checks: Mapping[str, float]) -> dict[str, float]:
    """Return the newest check by disk."""
    found: dict[str, float] = {}
    for name, at in checks.items():
        array = (last.md or {}).get(name)
        for member in () if array is None or last.block is None else array.members:
            device = last.block.whole(member.device) if last.block is not None else None
            if device is not None and "in_sync" in member.states:
                found[device.name] = max(at, found.get(device.name, at))
    return found


def scrub_ends(last: Snapshot, zone: tzinfo, ahead_seconds: float) -> dict[str, float]:
    """Return when each btrfs was scrubbed, by UUID. `zone`: the host's, of the times read."""
    return {
        each.uuid: each.ended.replace(tzinfo=zone).timestamp() - ahead_seconds
        for each in (last.btrfs_scrub or {}).values()
        if each.ended is not None
    }


def _btrfs(disk: Disk, last: Snapshot) -> str:
    """Return the UUID of the mounted btrfs that a disk belongs to, or ''."""
    device = None if last.block is None else last.block.devices.get(disk.device)
    other = None if device is None or last.block is None else reader(device, last.block)
    return "" if other is None else other.uuid


def newest(reads: FullReads, disk: str) -> tuple[float, FullRead] | None:
    """Return when a disk was last read completely, and by what; None: it is not known."""
    return max(((at, by) for by, at in reads.get(disk, {}).items()), default=None)


def is_counted(disk: Disk, last: Snapshot, scans: Scans) -> bool:
    """Whether it is known if a disk is read completely, and it could be."""
    scan = scans.get(disk.key)
    if disk.polled.status in _UNCOUNTED or (scan is not None and scan.too_slow):
        return False
    if last.block is None or disk.polled.target.behind_raid():
        return False
    device = last.block.devices.get(disk.device)
    if device is None:
        return False
    other = reader(device, last.block)
    if other is None:  # of an NVMe drive with several paths nothing is known that reads it
        return not has_nvme_paths(device)
    if other.by == MD:
        return True
    scrubs = (last.btrfs_scrub or {}).values()
    return any(each.uuid == other.uuid and (each.ended or each.never) for each in scrubs)


def samples(
    reads: FullReads, last: Snapshot, scans: Scans, now: float, *, ahead_seconds: float
) -> list[Sample]:
    """Return the samples of FAMILIES."""
    found: list[Sample] = []
    for disk in () if last.smart is None else last.smart.by_key.values():
        for by, at in reads.get(disk.key, {}).items():
            labels = (("by", by.value), ("disk", disk.key))
            found.append((LAST_FULL_READ.name, labels, round(at + ahead_seconds)))
        scan = scans.get(disk.key)
        read = newest(reads, disk.key)
        since = read[0] if read is not None else None if scan is None else scan.seen_seconds
        if since is not None and is_counted(disk, last, scans):
            found.append((FULL_READ_AGE.name, (("disk", disk.key),), round(max(now - since, 0.0))))
    return found
