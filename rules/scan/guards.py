"""Which disks may be scanned, and when: a scan must not break an array. Pure.

A sector that cannot be read keeps a drive without error recovery control busy for up to minutes;
after its timeout the kernel resets the drive, then its whole adapter, whose other disks answer
nothing meanwhile: arrays lose members that are well. So a disk is scanned only where a bad sector
ends in an error soon enough, or nothing uses it; and never where an array of the same adapter
has no reserve. What a check or scrub reads is left to that.
Source: kernel, drivers/scsi/scsi_error.c (scsi_eh_ready_devs: resets of device, target, bus, host;
SHOST_RECOVERY holds all requests of the host); smartctl(8), '-l scterc'.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.block.block_devices import NVME_PATH, ZFS
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.md.mdstat import SYNC_ACTIONS
from iowarden.collectors.quantity import duration
from iowarden.collectors.smart.drive import Protocol, ReadStatus
from iowarden.rules import faults, selftest_schedule
from iowarden.rules.alerting.alerts import AlertState
from iowarden.rules.faults import Fault
from iowarden.rules.severity import Severity
from iowarden.rules.signals.guards import is_exchangeable
from iowarden.rules.signals.smart.smart_health import excess_celsius
from iowarden.rules.topology.stack import DeviceStack, has_nvme_paths, path_maps

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from iowarden.collectors.block.block_devices import Device, Topology
    from iowarden.collectors.md.mdstat import MdArray
    from iowarden.collectors.smart.drive import Disk, Drive
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.snapshot import Snapshot

RECOVERY_SECONDS = 7.0
"""The limit that drives for arrays come with."""
TIMEOUT_SECONDS = 180.0
"""Longer than a desktop drive tries to read one sector."""
_STALLS = frozenset({Fault.HANGS, Fault.STALL, Fault.SUSPENDED})
MD, BTRFS = "md", "btrfs"
_CHECKS = {
    "linux_raid_member": MD,
    "isw_raid_member": MD,
    "ddf_raid_member": MD,
    ZFS: "ZFS",
    BTRFS: BTRFS,
}
"""What reads its members itself, by their signature."""
_WITHOUT_CHECK = frozenset({"raid0", "linear"})
"""Levels of md that have nothing to compare."""


MISSING = "the disk is missing"
"""The hold of a disk that was removed."""


@dataclass(frozen=True, slots=True)
class ScanDisk:
    """A disk, and what speaks against its scan.

    Fields: `port` is its ATA port in the kernel log ('ata3'), or ''; `refused` is why it cannot be
    scanned at all, `left`: because it is no physical disk, or something else reads it, so that a
    schedule for all disks does not mean it; `hold` is why not now, '' if nothing; only one disk of
    each of `shares` is scanned at a time; `rests`: it may be one with shingled tracks, which needs
    time for its own work.
    """

    disk: str
    device: str
    number: str
    port: str
    serial: str
    size_bytes: int
    rotational: bool
    classes: frozenset[str] = frozenset()
    shares: frozenset[str] = frozenset()
    refused: str = ""
    left: bool = False
    hold: str = ""
    rests: bool = False


class Reader(NamedTuple):
    """What reads a disk completely in place of a scan: 'md', 'ZFS', 'btrfs'; and its command.

    Fields: `uuid` is that of a mounted btrfs.
    """

    by: str
    text: str
    uuid: str = ""


def scan_disks(
    last: Snapshot,
    alerts: Iterable[Alert],
    self_tests: Collection[str],
    only: Collection[str] | None = None,
) -> list[ScanDisk]:
    """Return the polled disks, or only some of them, by key.

    `self_tests`: those with a self-test that iowarden started.
    """
    if last.smart is None or last.block is None:
        return []
    disks = last.smart
    if only is not None:
        own = {key: disk for key, disk in disks.by_key.items() if key in only}
        disks = replace(disks, by_key=own)
    paths = {path for each in path_maps(last.block).values() for path in each}
    stack = DeviceStack(last.block, () if last.mounts is None else last.mounts.mounts)
    firing = [alert for alert in alerts if alert.state is AlertState.FIRING]
    stalled = next(
        (
            a.name
            for a in firing
            # A notice counts short waits, which the load of the scan's own pace prevents.
            if a.severity >= Severity.WARNING and faults.meaning(a.name).fault in _STALLS
        ),
        "",
    )
    slow = {
        a.label("disk") or a.label("device"): a.name
        for a in firing
        if faults.meaning(a.name).fault is Fault.SLOW
    }
    # The disks of a pool are not scanned: its scrub reads them.
    candidates = selftest_schedule.candidates(disks, last.block, last.md or {}, None, None)
    known = {each.disk: each for each in candidates}
    found = []
    for disk in disks.by_key.values():
        device = last.block.devices.get(disk.device)
        candidate, drive = known.get(disk.key), disk.polled.drive
        hold = _hold(disk, device, last)
        if last.mounts is None:  # a disk may be in use
            hold = "it is not known yet what is mounted"
        elif stalled:
            hold = f"{stalled} fires: the host stalls"
        elif name := slow.get(disk.key) or slow.get(disk.device):
            hold = f"{name} fires for it"
        elif disk.key in self_tests or (drive and drive.self_test_remaining_ratio is not None):
            hold = "a self-test runs in it"
        shares = set() if candidate is None else set(candidate.shares)
        if device is not None and device.host:
            shares.add(f"adapter {device.host}")
        left = _left(disk, device, last, paths)
        refused = left or _refusal(disk, device, stack)
        found.append(
            ScanDisk(
                disk=disk.key,
                device=disk.device,
                number="" if device is None else device.device_number or "",
                port="" if device is None else device.port or "",
                serial="" if device is None else device.serial or device.wwn or "",
                size_bytes=0 if device is None else device.size_bytes or 0,
                rotational=device is None or device.rotational is not False,
                classes=frozenset() if candidate is None else candidate.classes,
                shares=frozenset(shares),
                refused=refused,
                left=bool(left),
                hold=hold,
                rests=bool(device and device.rotational)
                and (drive is None or drive.protocol is Protocol.ATA),
            )
        )
    return found


def _left(disk: Disk, device: Device | None, last: Snapshot, paths: Collection[str]) -> str:
    """Return what reads a disk in place of a scan, or that it is no disk, and what to do; or ''."""
    what, smart, topology = _named(disk), last.smart, last.block
    if (
        not disk.device
        or disk.polled.target.behind_raid()
        or (smart and disk.device in smart.volumes)
    ):
        return (
            f"{what}: expected a disk that the kernel sees, got one behind a RAID controller: start"
            " its verify, patrol read or consistency check, with the vendor's program"
        )
    if device is None:
        return ""
    if got := _no_disk(disk, device, paths):
        return f"{what}: expected a physical disk, got {got}"
    instead = None if topology is None else reader(device, topology)
    return "" if instead is None else f"{what}: {instead.text}"


def _refusal(disk: Disk, device: Device | None, stack: DeviceStack) -> str:
    """Return why a disk cannot be scanned, with what was expected, and what to do; or ''."""
    if device is None:
        return f"{_named(disk)}: expected a disk that the kernel sees, got none: it was removed"
    if not (device.serial or device.wwn) or not device.size_bytes or not device.device_number:
        return (
            f"{_named(disk)}: expected its serial number and size in /sys/block/{device.name}, got"
            " none: another disk could take its name during the scan; start a self-test instead:"
            f" iowarden selftest start {disk.key} long"
        )
    used = stack.used_on(device.name)
    return _recovery(_named(disk), device, disk.polled.drive, used) if used else ""


def _named(disk: Disk) -> str:
    return f"disk {disk.key}" + (f" ({disk.device})" if disk.device else "")


def _no_disk(disk: Disk, device: Device, paths: Collection[str]) -> str:
    """Return what a device is if it is no physical disk, or ''."""
    if device.name in paths or NVME_PATH.fullmatch(device.name):
        return "a path of a multipath device"
    if disk.polled.status is ReadStatus.LUN:
        return "a LUN: its storage array reads its own disks"
    if has_nvme_paths(device):
        return "an NVMe drive that supports several paths: the kernel hides these"
    if not device.leaf or disk.polled.status is ReadStatus.NO_SMART or is_exchangeable(device):
        return "a virtual disk or removable medium"
    return ""


def reader(device: Device, topology: Topology) -> Reader | None:
    """Return what reads a disk completely in place of a scan, with its command, or None."""
    seen, todo = set(), [device.name]
    while todo:
        name = todo.pop()
        own = topology.devices.get(name)
        if own is None or name in seen:
            continue
        seen.add(name)
        if own.md is not None and own.md.level not in _WITHOUT_CHECK:
            command = f"echo check > /sys/block/{name}/md/sync_action"
            return Reader(MD, f"it is in md array {name}, whose check reads it: {command}")
        for part in (name, *own.partitions):
            signature = topology.signatures.get(part)
            mounted = topology.btrfs.get(part)
            kind = BTRFS if mounted is not None else signature.kind if signature else ""
            if kind in _CHECKS:
                group = "" if signature is None else signature.group
                command = {
                    MD: "start a check when its array runs",
                    "ZFS": f"zpool scrub {group or 'POOL'}",
                    BTRFS: "btrfs scrub start, with its mount point",
                }[_CHECKS[kind]]
                by = _CHECKS[kind]
                text = f"{part} belongs to {by}, which reads it itself: {command}"
                return Reader(by, text, "" if mounted is None else mounted.uuid)
        todo += own.holders
    return None


def _recovery(what: str, device: Device, drive: Drive | None, used: tuple[str, ...]) -> str:
    """Return why a bad sector of a disk in use would take too long, and how to set that; or ''."""
    limit = None if drive is None else drive.read_recovery_seconds
    timeout = device.timeout_seconds
    if (limit is not None and limit <= RECOVERY_SECONDS) or (timeout or 0) >= TIMEOUT_SECONDS:
        return ""
    nvme = device.name.startswith("nvme")
    path = "queue/io_timeout" if nvme else "device/timeout"
    value = int(TIMEOUT_SECONDS) * (1000 if nvme else 1)
    first = f"smartctl -l scterc,70,70 /dev/{device.name}; if the drive refuses that: "
    got = "no limit" if limit is None else duration(limit)
    return (
        f"{what}: expected that the drive gives a bad sector up within"
        f" {duration(RECOVERY_SECONDS)}, or that the kernel waits {duration(TIMEOUT_SECONDS)}, got"
        f" {got} and {'an unknown time' if timeout is None else duration(timeout)}: the kernel"
        f" would reset the drive and its adapter, with {', '.join(used[:3])} on it. Set it (until"
        " the next boot): "
        + ("" if nvme else first)
        + f"echo {value} > /sys/block/{device.name}/{path}"
    )


def _hold(disk: Disk, device: Device | None, last: Snapshot) -> str:
    """Return why a disk must not be read now, or ''."""
    if device is None:
        return MISSING
    if disk.polled.status is ReadStatus.ASLEEP:
        return "it is asleep, and is not woken up for a scan"
    if disk.polled.status is ReadStatus.HUNG:
        return "a query of its SMART data hangs"
    if hot := _hot(disk, last):
        return hot
    if device.host and last.block is not None:
        return weak_array(last.md or {}, device.host, last.block)
    return ""


def _hot(disk: Disk, last: Snapshot) -> str:
    drive = disk.polled.drive
    if drive is None:
        return ""
    sensors = [
        each.celsius
        for each in last.hwmon or ()
        if each.device and each.device == disk.device and each.celsius is not None
    ]
    celsius = max(sensors, default=drive.temperature_celsius)
    excess = excess_celsius(replace(drive, temperature_celsius=celsius))
    return (
        f"it has {celsius:g} C, too near to its limit" if excess is not None and excess >= 0 else ""
    )


def weak_array(arrays: Mapping[str, MdArray], host: str, topology: Topology) -> str:
    """Return an array or pool with a member at an adapter that must lose no member now, or ''.

    Of md and ZFS; whether a volume of LVM or a btrfs has its redundancy is not known.
    """
    for name, array in sorted(arrays.items()):
        building = array.sync_action in SYNC_ACTIONS
        if not array.degraded and not building:
            continue
        members = (topology.whole(member.device) for member in array.members)
        if any(each is not None and each.host == host for each in members):
            state = f"in {array.sync_action}" if building else "degraded"
            return f"md array {name} at the same adapter is {state}"
    for part, signature in sorted(topology.signatures.items()):
        pool = topology.pools.get(signature.group, "") if signature.kind == ZFS else ""
        whole = topology.whole(part)
        if pool not in {"", "ONLINE"} and whole is not None and whole.host == host:
            return f"ZFS pool {signature.group} at the same adapter is {pool}"
    return ""


def busy_share(disk: ScanDisk, others: Iterable[ScanDisk]) -> str:
    """Return which scan of another disk prevents that of a disk, or ''."""
    for other in others:
        shared = disk.shares & other.shares
        if shared and other.disk != disk.disk:
            return f"disk {other.disk} of {min(shared)} is being scanned"
    return ""
