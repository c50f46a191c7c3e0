"""Finds the file that owns sectors of a device: traces them through partitions, md, LVM, LUKS.

Reads only: sysfs, the mount table, and through the probe dmsetup, debugfs, xfs_io, find and btrfs.
Every step may fail; its reason is then the answer for its sectors.
May block for minutes and hang on a failing array (see Machine): never call it in the main loop.
Limits: the result describes the machine now. If a file was moved, or an array or volume changed,
since the error, another file is found. Units: sectors of 512 bytes, seconds.
"""

from __future__ import annotations

import re
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

from iowarden.collectors.block import udev
from iowarden.collectors.block.block_stack import read_block_stack
from iowarden.collectors.block.dm_table import read_dm_table
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.filesystem import mountinfo
from iowarden.collectors.md.md_layout import read_md_layout
from iowarden.collectors.model import DeadlineError
from iowarden.collectors.quantity import duration
from iowarden.daemon.locate.btrfs_owners import BtrfsOwners
from iowarden.daemon.locate.extents import FAILED, SectorExtent, answer, unknown
from iowarden.daemon.locate.file_owners import Ext4Owners, XfsOwners
from iowarden.rules.topology import dm_map, md_map, sector_map
from iowarden.rules.topology.file_location import (  # stored: read at run time
    ContentKind,
    SectorContent,
    merged,
)
from iowarden.rules.topology.sector_map import LayoutError, Use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iowarden.collectors.block.block_stack import KernelStack, StackNode
    from iowarden.collectors.block.dm_table import DmTarget
    from iowarden.collectors.filesystem.mountinfo import Mount
    from iowarden.collectors.machine import Machine
    from iowarden.collectors.md.md_layout import Geometry

DEADLINE_SECONDS = 300.0
"""Timeout of one query."""
STEP_SECONDS = 240.0
"""Timeout of one program: icheck and ncheck of a large file system take minutes."""
MAX_SECTORS = 65_536
"""Of one query: 32 MiB, far more than one request to a drive can have."""
MAX_DEPTH = 16
SET_UP_SECONDS = 60.0
"""udev may initialize a device this much later than the kernel, which may already have had a read
error on it; and the two clocks differ."""
_REFILLED = re.compile(r"(loop|nbd)[0-9]+")
"""Devices whose backing file or server can change (drivers/block/{loop,nbd}.c): udev's time is that
of their creation, not of their current content."""

_EXT = frozenset({"ext2", "ext3", "ext4"})


class LocateError(ValueError):
    """The queried device or sectors do not exist; the text is shown to the user."""


@dataclass(frozen=True, slots=True)
class Located:
    """The owners of sectors of a device.

    Fields: `disk` is the device if it is a whole disk that may be ATA, and `sector_bytes` its
    logical sector size, both for file_location.steps.
    """

    device: str
    start: int
    count: int
    answers: tuple[SectorContent, ...]
    disk: str = ""
    sector_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ErrorTime:
    """When sectors could not be read: in seconds since boot, and how long ago that is."""

    uptime_seconds: float
    age_seconds: float


def locate(
    root: Machine,
    device: str,
    start: int,
    count: int,
    clock: Callable[[], float],
    deadline_seconds: float = DEADLINE_SECONDS,
    *,
    error: ErrorTime | None = None,
    clipped: bool = False,
) -> Located:
    """Return the owners of `count` sectors from `start` on of a device ('sdb', 'sdb1', 'md0').

    `error` is when they could not be read: a device that was created later is not searched.
    `clipped`: sectors beyond the end of the device are left out.
    Errors: LocateError; AbsentError, ReadError, ParseError (of '/sys/block').
    """
    stack = read_block_stack(root)
    node = stack.nodes.get(device)
    if node is None:
        raise LocateError(
            f"'{device}': expected a block device of this machine, got none; 'lsblk -o"
            " NAME,KNAME,SERIAL,MODEL' lists them. A removed device cannot be queried; plugged in"
            " again, it may have another name"
        )
    if not 0 < count <= MAX_SECTORS:
        raise LocateError(
            f"'{device}': expected 1 to {MAX_SECTORS} sectors, got {count}; locate more in parts"
        )
    if clipped and node.sectors is not None and start < node.sectors:
        count = min(count, node.sectors - start)
    if start < 0 or (node.sectors is not None and start + count > node.sectors):
        raise LocateError(
            f"'{device}': expected sectors of 512 bytes below {node.sectors}, got {start} to"
            f" {start + count - 1}; check that the number is of this device, as in the"
            " kernel log (sectors of an array, or blocks of a file system, are not those of the"
            " disk), and not in bytes"
        )
    end = clock() + deadline_seconds
    walk = _Walk(root, stack, partial(_time_left, clock, end), error)
    answers = merged(walk.climb(SectorExtent(start, count, ((device, start),))))
    disk = device if re.fullmatch(r"sd[a-z]{1,4}", device) else ""
    return Located(device, start, count, tuple(answers), disk, node.sector_bytes)


def _time_left(clock: Callable[[], float], end: float) -> float:
    """Return the timeout of the next program. Errors: DeadlineError."""
    left = min(STEP_SECONDS, end - clock())
    if left <= 0:
        raise DeadlineError("the timeout of the whole query is reached; locate fewer sectors")
    return left


@dataclass(slots=True)
class _Walk:
    """One query. `time_left` returns the timeout of the next program, or raises a DeadlineError.

    `error`: as in `locate`.
    """

    machine: Machine
    stack: KernelStack
    time_left: Callable[[], float]
    error: ErrorTime | None = None
    geometries: dict[str, Geometry | None] = field(default_factory=dict)
    tables: dict[str, tuple[DmTarget, ...]] = field(default_factory=dict)
    mounts: tuple[Mount, ...] | None = None

    def climb(self, extent: SectorExtent) -> Iterator[SectorContent]:
        """Yield the owners of a range of sectors."""
        node = self.stack.nodes.get(extent.device)
        if node is None:
            yield unknown(extent, f"{extent.device} disappeared during the query")
            return
        if len(extent.path) > MAX_DEPTH:
            yield unknown(extent, f"more than {MAX_DEPTH} devices are stacked on each other")
            return
        if later := self._later(node):
            yield unknown(extent, later)
            return
        if node.holders:
            # A holder uses the whole device: partitions that the kernel also finds on it belong
            # to the holder.
            yield from self._via_holders(extent, node)
            return
        covered = []
        for name in node.partitions:
            partition = self.stack.nodes[name]
            first, sectors = partition.start_sectors, partition.sectors or 0
            if met := sector_map.overlap(extent.sector, extent.count, first, sectors):
                covered.append(met)
                yield from self.climb(extent.part(*met).up(name, met[0] - first))
        for first, sectors in sector_map.gaps(extent.sector, extent.count, covered):
            if node.partitions:
                text = f"outside of the partitions of {node.name}: partition table, boot loader,"
                yield answer(extent.part(first, sectors), ContentKind.RESERVED, f"{text} or unused")
            else:
                yield from self._content(extent.part(first, sectors), node)

    # --- devices on top of a device

    def _via_holders(self, extent: SectorExtent, node: StackNode) -> Iterator[SectorContent]:
        covered: list[tuple[int, int]] = []
        for holder in node.holders:
            above = self.stack.nodes.get(holder)
            kind = above.kind if above is not None else ""
            try:
                if above is None or kind not in {"md", "dm"}:
                    raise LayoutError(f"{node.name} is part of {holder}, which is not supported")
                if kind == "md":
                    yield from self._in_array(extent, node, holder)
                    covered.append((extent.sector, extent.count))
                else:
                    yield from self._in_mapped(extent, node, above, covered)
            except (LayoutError, *FAILED) as error:
                covered.append((extent.sector, extent.count))
                yield unknown(extent, str(error))
        for first, sectors in sector_map.gaps(extent.sector, extent.count, covered):
            yield self._between(extent.part(first, sectors), node)

    def _in_array(
        self, extent: SectorExtent, node: StackNode, name: str
    ) -> Iterator[SectorContent]:
        """Errors: LayoutError, ReadError, ParseError."""
        if name not in self.geometries:
            self.geometries[name] = read_md_layout(self.machine, name)
        geometry = self.geometries[name]
        if geometry is None:
            raise LayoutError(f"{name} disappeared during the query")
        known, slot = md_map.of_member(geometry, node.name)
        pieces = md_map.reverse(known, slot, extent.sector, extent.count)
        whole = md_map.redundant(geometry)
        for piece in pieces:
            part = extent.part(piece.start, piece.count)
            if whole and not part.array:
                part = replace(part, array=name)
            elif whole is False and not part.degraded:
                part = replace(part, degraded=name)
            if piece.above is not None:
                yield from self.climb(part.up(name, piece.above))
            elif piece.use is Use.PARITY:
                yield answer(
                    part, ContentKind.PARITY, f"of {name} ({geometry.level}), on {node.name}"
                )
            elif piece.use is Use.RESERVED:
                what = (
                    f"before the data of {name} on {node.name}: superblock, bitmap, bad block list,"
                )
                yield answer(replace(part, array=""), ContentKind.RESERVED, f"{what} or log")
            else:
                what = f"not used by {name}: the end of {node.name}"
                yield answer(replace(part, array=""), ContentKind.FREE, what)

    def _in_mapped(
        self,
        extent: SectorExtent,
        node: StackNode,
        above: StackNode,
        located: list[tuple[int, int]],
    ) -> Iterator[SectorContent]:
        """Errors: LayoutError, AbsentError, ReadError, ParseError."""
        if above.name not in self.tables:
            self.tables[above.name] = read_dm_table(self.machine, above.number, self.time_left())
        table = self.tables[above.name]
        pieces, unknown = dm_map.through_table(table, node.number, extent.sector, extent.count)
        for piece in pieces:
            located.append((piece.start, piece.count))
            if piece.above is not None:
                yield from self.climb(
                    extent.part(piece.start, piece.count).up(above.name, piece.above)
                )
        if unknown:
            kinds = ", ".join(f"'{kind}'" for kind in unknown)
            name = f"{above.name} ({above.label})" if above.label else above.name
            raise LayoutError(
                f"{node.name} is part of {name}, a device-mapper device of type {kinds}, through"
                " which sectors cannot be traced"
            )

    def _between(self, extent: SectorExtent, node: StackNode) -> SectorContent:
        kind = self._kind(node)
        if kind == "crypto_LUKS":
            text = f"the LUKS header of {node.name}: without it all data is lost; back it up"
            return answer(
                extent,
                ContentKind.RESERVED,
                f"{text} now: 'cryptsetup luksHeaderBackup /dev/{node.name}'",
            )
        return unknown(
            extent,
            f"no active volume uses these sectors of {node.name}: LVM metadata, free space, or an"
            " inactive volume ('lvs -a -o +devices')",
        )

    # --- content of a device without holders

    def _content(self, extent: SectorExtent, node: StackNode) -> Iterator[SectorContent]:
        try:
            here = self._mounts(node)
            kind = here[0].kind if here else self._kind(node)
            if node.name in self.stack.btrfs:
                yield from self._of_btrfs(extent)
            elif kind in _EXT:
                yield from Ext4Owners(self.machine, self.time_left, extent, kind, here).answers()
            elif kind == "xfs" and here:
                yield from XfsOwners(self.machine, self.time_left, extent, here).answers()
            elif kind == "swap" or node.name in self.stack.swaps:
                text = "swap space: memory that was swapped out there is lost"
                yield answer(extent, ContentKind.RESERVED, text)
            elif kind == "jbd":
                yield answer(
                    extent, ContentKind.JOURNAL, "of an ext4 file system on another device"
                )
            else:
                yield unknown(extent, _reason(kind, extent))
        except (LayoutError, *FAILED) as error:
            yield unknown(extent, str(error))

    def _of_btrfs(self, extent: SectorExtent) -> list[SectorContent]:
        """Errors: LayoutError, AbsentError, ReadError, ParseError."""
        nodes = self.stack.nodes
        labels = {nodes[name].label for name in self.stack.btrfs if name in nodes} - {""}
        everything = self._read_mounts()
        system = self.stack.btrfs[extent.device]
        return BtrfsOwners(
            self.machine, self.time_left, extent, system, everything, frozenset(labels)
        ).answers()

    def _later(self, node: StackNode) -> str:
        """Return why a device may be a different one than at the time of the error, or ''."""
        error = self.error
        if error is None:
            return ""
        age = error.age_seconds
        if _REFILLED.fullmatch(node.name) and age > SET_UP_SECONDS:
            return (
                f"the error was {duration(age)} ago: {node.name} may have another backing file or"
                " server since then"
            )
        since = udev.parse_set_up_seconds(self._udev(node))
        if since is None or since <= error.uptime_seconds + SET_UP_SECONDS:
            return ""
        return (
            f"{node.name} was created or plugged in {duration(since - error.uptime_seconds)} after"
            " the error: it may be a different device"
        )

    def _kind(self, node: StackNode) -> str:
        """Return the content type that udev found on a device, '' if none or no udev."""
        return udev.parse_properties(self._udev(node)).get("ID_FS_TYPE", "")

    def _udev(self, node: StackNode) -> str:
        return self.machine.try_read(f"{udev.DIRECTORY}/b{node.number}") or ""

    def _mounts(self, node: StackNode) -> list[Mount]:
        """Return where a device is mounted, whole file systems first.

        Errors: AbsentError, ReadError, ParseError.
        """
        here = [mount for mount in self._read_mounts() if mount.device_number == node.number]
        return sorted(here, key=lambda mount: (mount.root != "/", len(mount.mount_point)))

    def _read_mounts(self) -> tuple[Mount, ...]:
        """Return all mounts. Errors: AbsentError, ReadError, ParseError."""
        if self.mounts is None:
            self.mounts = tuple(mountinfo.visible(mountinfo.read_mountinfo(self.machine)))
        return self.mounts


def _reason(kind: str, extent: SectorExtent) -> str:
    """Return why the owner of a sector is unknown."""
    device, sector = extent.device, extent.sector
    match kind:
        case "":
            return f"no file system is mounted from {device}, and udev found none on it"
        case "xfs":
            return (
                f"XFS must be mounted to find the owner, {device} is not; mount it, or use 'xfs_db"
                f' -r -c "blockget -n" -c "daddr {sector}" -c "blockuse -n" /dev/{device}\''
            )
        case "btrfs":
            return (
                f"btrfs must be mounted to find the owner, {device} is not; 'mount -o ro"
                f" /dev/{device} <directory>', then retry"
            )
        case "linux_raid_member":
            return f"{device} is a member of an inactive array ('mdadm --assemble --scan')"
        case "LVM2_member":
            return f"no volume on {device} is active ('vgchange -ay', then retry)"
        case "crypto_LUKS":
            return f"the encrypted (LUKS) device on {device} is not open"
    return f"finding the owner of a sector of '{kind}' (on {device}) is not supported"
