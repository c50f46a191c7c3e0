"""Steps of advice about a file system or ZFS pool: space, check, repair, scrub. Pure.

Sources: e2fsck(8), xfs_repair(8), fsck.f2fs(8), btrfs-scrub(8), btrfs-check(8), zpool-status(8).
"""

from __future__ import annotations

from shlex import quote

from iowarden.collectors.printable import name as safe_name
from iowarden.collectors.zfs.pool_state import POOL
from iowarden.rules.advice.facts import DeviceKind
from iowarden.rules.advice.step import StepContext, listed
from iowarden.rules.topology.device_identity import device_of, identity
from iowarden.rules.topology.redundancy import runs
from iowarden.rules.topology.stack import FILE_SYSTEM

_NO_REPLACEMENT = (
    "Replace or remove no disk before these counts show which one has the errors: another may hold"
    " the only good copy."
)


def fsck(step: StepContext) -> list[str]:
    """How to check and repair a file system, once the devices below it are in order."""
    if step.about.subject.startswith(FILE_SYSTEM) and not device_of(step.about.subject):
        return btrfs(step)
    name = step.name or step.own.get("device", "").removeprefix("/dev/")
    if step.device is not None and step.about.part in step.device.partitions:
        name = step.about.part
    if not name:
        return []
    facts, node = step.facts, step.facts.node(name)
    bad = _bad_below(step)
    if bad:
        return [
            (
                f"Do not repair {node} before this is in order: {listed(bad)}. A repair writes,"
                " and on a failing disk or array that destroys data."
            )
        ]
    points = facts.mounts_of(name)
    point = step.own.get("mountpoint") or next((safe_name(m.mount_point) for m in points), "")
    kind = step.own.get("fstype") or next((m.kind for m in points), "")
    if kind == "btrfs":
        return _btrfs_at(point) if point else []
    if point == "/":
        return [
            (
                f"It is the root file system: repair {node} from a rescue system, with a copy of"
                " it; or have it checked at the next boot (kernel option fsck.mode=force)."
            )
        ]
    command = quote(node)
    first = f"  umount {quote(point) if point else command}"
    if kind == "xfs":
        return [
            (
                "Back up what matters, stop what uses it, then see what a repair would do; -n"
                " changes nothing:"
            ),
            first,
            f"  xfs_repair -n {command}",
            (
                "The repair is the same command without -n. It may lose files: have a copy of the"
                " device first. -L discards a log that was not replayed: mount it once before."
            ),
        ]
    if kind == "f2fs":
        return [
            "Back up what matters, stop what uses it, then see what a repair would do:",
            first,
            f"  fsck.f2fs --dry-run {command}",
            "The repair may lose files: have a copy of the device first, then:",
            f"  fsck.f2fs -f {command}",
        ]
    if kind in {"ext2", "ext3", "ext4"}:
        return [
            (
                "Back up what matters, stop what uses it, then see what a repair would do; -n"
                " changes nothing:"
            ),
            first,
            f"  e2fsck -fn {command}",
            "The repair may lose files: have a copy of the device first, then:",
            f"  e2fsck -f {command}",
        ]
    return []


def btrfs(step: StepContext) -> list[str]:
    """How to show the error counts of a btrfs, and scrub it; by its mount point."""
    point = _btrfs_point(step)
    if not point:
        return [
            "Its mount point, for 'btrfs device stats' and 'btrfs scrub start':",
            "  findmnt -t btrfs -o TARGET,SOURCE,UUID",
            _NO_REPLACEMENT,
        ]
    return _btrfs_at(point)


def _btrfs_point(step: StepContext) -> str:
    """Return the mount point of the btrfs that an alert is about, or of the only one; else ''."""
    topology = step.facts.of.map.topology
    uuid = step.about.subject.removeprefix(FILE_SYSTEM)
    systems = {} if topology is None else topology.btrfs
    for name in (part for part, system in systems.items() if system.uuid == uuid):
        for mount in step.facts.mounts_of(name):
            return safe_name(mount.mount_point)
    points = {
        m.source: safe_name(m.mount_point)
        for m in reversed(step.facts.of.mounts)
        if m.kind == "btrfs"
    }
    return next(iter(points.values())) if len(points) == 1 else ""  # sysfs does not show which


def _btrfs_at(point: str) -> list[str]:
    """How to check a mounted btrfs, then repair it from its other copies.

    A scrub needs it mounted. Never 'btrfs check --repair', which its own manual calls dangerous.
    """
    at = quote(point)
    return [
        "The error counts of each of its devices:",
        f"  btrfs device stats {at}",
        f"  btrfs scrub status -d {at}",
        _NO_REPLACEMENT,
        (
            "Read all of it, while it is in use; -r changes nothing. It shows the number of bad"
            " blocks at the end; the kernel log has their files:"
        ),
        f"  btrfs scrub start -r -Bd {at}",
        (
            "If the disk, its cable, its power supply and the host's memory are in order, rewrite"
            " bad blocks from good copies, where there are any:"
        ),
        f"  btrfs scrub start -Bd {at}",
    ]


def pool_status(step: StepContext) -> list[str]:
    """The state of a ZFS pool, or of the pools that have lost a disk.

    Source: zpool-status(8), zpool-online(8).
    """
    known = step.facts.of.map
    key = step.about.subject
    if not key and step.device is not None:
        key = identity(known.topology, step.device.name).key
    if key.startswith(POOL):
        # Not with -v: that reads the list of damaged files from the pool, which may hang.
        pool = quote(key.removeprefix(POOL))
        return ["Its devices, their states and their errors:", f"  zpool status -P {pool}"]
    above = (*known.dependents.now.get(key, ()), *known.dependents.until.get(key, ()))
    names = (each.name.removeprefix(POOL) for each in above if each.name.startswith(POOL))
    pools = [name for name in names if known.topology and name in known.topology.pools]
    lines = [f"  zpool status -v {quote(name)}" for name in dict.fromkeys(pools)]
    if not lines:
        return []
    text = (
        "The state of the pool; a disk that is back is used again automatically, or after"
        " 'zpool online' with the pool and the disk's name there:"
    )
    return [text, *lines]


def _bad_below(step: StepContext) -> list[str]:
    """Return the faults below a file system: of arrays, pools and disks."""
    facts, device = step.facts, step.device
    if device is None:
        return [_absent(step)] if step.name else []
    found: dict[str, None] = {}
    todo, seen = [device], {device.name}
    borne: set[str] = set()
    """What continues without a missing disk."""
    while todo:
        each = todo.pop(0)
        array = facts.of.map.arrays.get(each.name)
        if array is not None and not runs(array):
            found[f"{each.name} does not run"] = None
        elif array is not None and array.level not in {"raid0", "linear"}:
            borne.add(each.name)
        elif facts.kind(each) is DeviceKind.MAP and facts.paths(each).working:
            borne.add(each.dm_name or each.name)
        if each.name in facts.of.full:
            found[f"{each.dm_name or each.name} has no space left"] = None
        if each.name in facts.of.snapshots:
            found[f"{each.dm_name or each.name} is a snapshot that is full or lost"] = None
        for name in each.slaves:
            below = facts.index.whole(name)
            if below is None:
                found[f"{name} is missing"] = None
            elif name not in seen:
                seen.add(name)
                todo.append(below)
        if each.leaf and (each.name in facts.of.in_trouble or each.host in facts.of.adapters):
            found[f"{each.name} has a fault"] = None
    # sysfs drops at once what a removed disk carried
    points = (safe_name(mount.mount_point) for mount in facts.mounts_of(device.name))
    own = {device.name, device.dm_name or "", *points}
    for gone in facts.of.map.devices.gone.values():
        if not own.isdisjoint(gone.carried) and borne.isdisjoint(gone.carried):
            found[f"{gone.name} is missing"] = None
    return list(found)


def _absent(step: StepContext) -> str:
    """Return that a device went away, or that no device of this name was seen."""
    gone = {each.name for each in step.facts.of.map.devices.gone.values()}
    state = "is missing" if step.name in gone else "was not found among the devices of this host"
    return f"{step.name} {state}"


def space(step: StepContext) -> list[str]:
    """What uses the space of a file system; if that is not known, which one is full."""
    points = step.facts.mounts_of(step.about.part or step.name)
    if not points:
        return [
            "Which file systems are full, by bytes and by inodes:",
            "  df -h",
            "  df -i",
        ]
    point = quote(safe_name(points[0].mount_point))
    return [
        "Whether bytes or inodes are used up (if neither, a quota is); what uses the space:",
        f"  df -h {point}",
        f"  df -i {point}",
        f"  du -xh --max-depth=2 {point} | sort -h | tail -20",
    ]
