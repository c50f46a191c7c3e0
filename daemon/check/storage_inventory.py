"""What `iowarden check` lists: disks, drives, arrays and file systems, each in a line. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from iowarden.collectors.quantity import percentage, size
from iowarden.daemon.check.findings import NOT_POLLED
from iowarden.daemon.check.report import Item
from iowarden.daemon.sanitize import shorten
from iowarden.rules.topology import device_identity
from iowarden.rules.topology.stack import DeviceStack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.block.queue import Queue
    from iowarden.collectors.filesystem.mountinfo import Mounts
    from iowarden.collectors.filesystem.statfs import Filesystems
    from iowarden.collectors.md.mdstat import MdArray
    from iowarden.collectors.smart.drive import Disks
    from iowarden.rules.engine.engine import Engine

MAX_DISKS = 24
"""Up to this number each has a line of its own; beyond, equal ones share a line."""
MAX_FILE_SYSTEMS = 24
MAX_DRIVES = 100


def items(engine: Engine) -> Iterator[Item]:
    """Return disks, drives, arrays and file systems with their most important properties."""
    last = engine.last
    if last.block is not None:
        yield from _disks(last.block, last.queue or {}, last.mounts)
    yield from _arrays(last.md or {})
    if last.smart is not None:
        yield from _drives(last.smart)
    if last.filesystem is not None:
        yield from _file_systems(last.filesystem)


def _disks(
    topology: Topology, queues: Mapping[str, Queue], mounts: Mounts | None
) -> Iterator[Item]:
    mounted = () if mounts is None else mounts.mounts
    stack = DeviceStack(topology, mounted)
    pools = "".join(f"; ZFS pool {name} is imported" for name in sorted(stack.pools()))
    disks = [topology.devices[name] for name in topology.leaves]
    known = [d for d in disks if d.size_bytes]
    alike: dict[str, list[str]] = defaultdict(list)
    for disk in known:
        own = queues.get(disk.name)
        kind = {True: "rotating", False: "solid state", None: ""}[disk.rotational]
        ahead = None if own is None else own.read_ahead_bytes
        text = _listed(
            size(disk.size_bytes or 0),
            kind,
            None if own is None else own.scheduler,
            None if ahead is None else f"read-ahead {size(ahead)}",
        )
        use = ", ".join(stack.shown_on(disk.name)) or f"no use of it is seen{pools}"
        if len(known) <= MAX_DISKS:
            yield Item(
                "disk", device_identity.identity(topology, disk.name).object, f"{text}; {use}"
            )
        else:
            alike[f"{disk.model or 'unnamed'}, {text}"].append(disk.name)
    for text, names in alike.items():
        yield Item("disks", f"({len(names)})", f"{text}: {shorten(', '.join(names), 300)}")


def _drives(found: Disks) -> Iterator[Item]:
    """Return how the service polls each drive, or why it does not; no drive is polled here."""
    for disk in list(found.by_key.values())[:MAX_DRIVES]:
        polled, target = disk.polled, disk.polled.target
        way = f"polled by 'smartctl -x {f'-d {target.kind} ' if target.kind else ''}{target.path}'"
        if polled.status in NOT_POLLED:
            way = f"not polled: {polled.reason}"
        words = (
            target.slot if target.slot not in disk.key else "",
            way,
            f"also reached by {', '.join(map(str, disk.others))}" if disk.others else "",
            disk.duplicate,
        )
        yield Item("drive", disk.device or disk.key, "; ".join(filter(None, words)))
    if (more := len(found.by_key) - MAX_DRIVES) > 0:
        yield Item("drives", f"({more} more)", "all of them: 'iowarden monitoring'")
    for problem in found.problems:
        yield Item("drives", "", problem)


def _arrays(arrays: Mapping[str, MdArray]) -> Iterator[Item]:
    for name, array in arrays.items():
        done = "" if array.sync_done_ratio is None else f" {percentage(array.sync_done_ratio)}"
        runs = array.sync_action not in {None, "idle"}
        text = _listed(
            array.level or "unknown level",
            None if array.raid_disks is None else f"{array.raid_disks} disks",
            size(array.size_bytes) if array.size_bytes else None,
            array.state or "unknown state",
            f"{array.degraded} missing" if array.degraded else None,
            f"{array.sync_action}{done} {array.sync_wait}".strip() if runs else None,
        )
        yield Item("array", name, text)


def _listed(*values: str | None) -> str:
    """Return the known values, separated by commas."""
    return ", ".join(filter(None, values))


def _file_systems(value: Filesystems) -> Iterator[Item]:
    def used(size_bytes: int, free: int, available: int) -> float:
        """Return the ratio that df shows, of the space for unprivileged users."""
        taken = size_bytes - free
        return taken / (taken + available) if taken + available > 0 else 0.0

    usage = [(used(u.size_bytes, u.free_bytes, u.available_bytes), u) for u in value.usage.values()]
    usage.sort(key=lambda pair: -pair[0])
    for ratio, own in usage[:MAX_FILE_SYSTEMS]:
        text = (
            f"{percentage(ratio)} of {size(own.size_bytes)} used,"
            f" {size(own.available_bytes)} available"
            f" ({own.kind} on {own.device})"
        )
        yield Item("file system", own.mount_point, text)
    if rest := usage[MAX_FILE_SYSTEMS:]:
        yield Item("file systems", f"({len(rest)} more)", f"at most {percentage(rest[0][0])} used")
