"""The stack of block devices: whole devices, partitions and holders, from '/sys/block'.

Source: kernel, ABI/stable/sysfs-block and ABI/testing/sysfs-block: 'start' and 'size' are sectors
of 512 bytes on any drive; 'holders' are the devices made of this one (md, device-mapper, bcache).
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.filesystem.btrfs_owner import read_file_systems
from iowarden.collectors.model import AbsentError, ParseError, ReadError
from iowarden.collectors.procfs.swaps import read_swaps
from iowarden.collectors.sysfs import Attributes, attributes, device_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.filesystem.btrfs_owner import FileSystem
    from iowarden.collectors.machine import Machine

DIRECTORY = "/sys/block"


@dataclass(frozen=True, slots=True)
class StackNode:
    """A block device or a partition. Units: sectors of 512 bytes. None: not reported.

    Fields: `number` is '8:17'; `whole` is the device of a partition, '' for a whole one;
    `start_sectors` is the start of a partition on it; `sector_bytes` is the drive's logical sector,
    the unit of its own addresses; `kind` is 'md', 'dm' or ''; `label` is device-mapper's name.
    """

    name: str
    number: str
    whole: str
    start_sectors: int
    sectors: int | None
    holders: tuple[str, ...]
    partitions: tuple[str, ...] = ()
    sector_bytes: int | None = None
    kind: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class KernelStack:
    """All block devices by name, and how the kernel uses them apart from mounts."""

    nodes: Mapping[str, StackNode]
    swaps: frozenset[str] = frozenset()
    btrfs: Mapping[str, FileSystem] = field(default_factory=dict)
    """By device, all devices of its mounted btrfs: the mount table names only one."""


def read_block_stack(root: Machine) -> KernelStack:
    """Read all devices; one that vanishes meanwhile is left out.

    Limits: may hang on a faulty disk. Errors: AbsentError, ReadError, ParseError.
    """
    nodes: dict[str, StackNode] = {}
    for entry in root.names(DIRECTORY):
        found = attributes(root, f"{DIRECTORY}/{entry}")
        if found is None:
            continue
        name = device_name(entry)
        partitions = []
        for inner in found.entries:
            below = found.below(inner) if inner.startswith(entry) else None
            if below is not None and below.text("partition") is not None:
                start = below.count("start")
                if start is not None:
                    partitions.append(device_name(inner))
                    nodes[device_name(inner)] = _node(root, below, inner, name, start)
        nodes[name] = _whole(root, found, entry, tuple(partitions))
    return KernelStack(nodes, _swaps(root), read_file_systems(root))


def _whole(root: Machine, found: Attributes, entry: str, partitions: tuple[str, ...]) -> StackNode:
    queue = found.below("queue")
    return StackNode(
        name=device_name(entry),
        number=found.text("dev") or "",
        whole="",
        start_sectors=0,
        sectors=found.count("size"),
        holders=_holders(root, found),
        partitions=partitions,
        sector_bytes=None if queue is None else queue.count("logical_block_size"),
        kind=next((kind for kind in ("md", "dm") if kind in found.entries), ""),
        label=_label(found),
    )


def _label(found: Attributes) -> str:
    mapped = found.below("dm")
    return "" if mapped is None else mapped.text("name") or ""


def _node(root: Machine, found: Attributes, entry: str, whole: str, start: int) -> StackNode:
    return StackNode(
        name=device_name(entry),
        number=found.text("dev") or "",
        whole=whole,
        start_sectors=start,
        sectors=found.count("size"),
        holders=_holders(root, found),
    )


def _holders(root: Machine, found: Attributes) -> tuple[str, ...]:
    if "holders" not in found.entries:
        return ()
    try:
        return tuple(map(device_name, root.names(f"{found.path}/holders")))
    except AbsentError:
        return ()


def _swaps(root: Machine) -> frozenset[str]:
    """Return the devices that are swap space.

    If it cannot be read, udev's signatures are used instead.
    """
    try:
        areas = read_swaps(root)
    except (AbsentError, ReadError, ParseError):
        return frozenset()
    return frozenset(each.path.removeprefix("/dev/") for each in areas if each.block)
