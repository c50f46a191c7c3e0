"""Finds the owner of sectors of ext2 to ext4, and of a mounted XFS, through the probe.

Owners are found, never guessed; an unknown owner is reported with the reason.
Units: sectors of 512 bytes on the device of the file system.
"""

from __future__ import annotations

from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.filesystem import ext4_owner, xfs_owner
from iowarden.collectors.model import SECTOR_BYTES
from iowarden.daemon.locate.extents import answer, host_path, unknown
from iowarden.rules.topology import sector_map
from iowarden.rules.topology.file_location import ContentKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from iowarden.collectors.filesystem.ext4_owner import OwnedBlocks
    from iowarden.collectors.filesystem.mountinfo import Mount
    from iowarden.collectors.filesystem.xfs_owner import FoundInode
    from iowarden.collectors.machine import Machine
    from iowarden.daemon.locate.extents import SectorExtent
    from iowarden.rules.topology.file_location import SectorContent

_BAD_BLOCKS_INODE = 1
_RESIZE_INODE = 7
_CONTENT = frozenset({"regular", "f"})
_DIRECTORY = frozenset({"directory", "d"})
_BLOCK_BYTES = 4096
"""Block size to overwrite a damaged part of a file on XFS, whatever its blocks are."""


# --- ext2, ext3, ext4


@dataclass(slots=True)
class Ext4Owners:
    """Locates sectors of an ext2, ext3 or ext4 (`kind`), mounted at `mounts` or nowhere.

    `time_left` returns the timeout of the next program, or raises a DeadlineError.
    """

    machine: Machine
    time_left: Callable[[], float]
    extent: SectorExtent
    kind: str
    mounts: Sequence[Mount]

    def answers(self) -> Iterator[SectorContent]:
        """Yield the owner of each block. Errors: AbsentError, ReadError, ParseError."""
        spot = self.extent
        owned = ext4_owner.read_owned_blocks(
            self.machine, spot.device, spot.sector, spot.count, self.time_left()
        )
        superblock = owned.superblock
        per = superblock.block_bytes // SECTOR_BYTES
        for block in range(spot.sector // per, (spot.sector + spot.count - 1) // per + 1):
            met = sector_map.overlap(spot.sector, spot.count, block * per, per)
            if met is None:
                continue
            part = spot.part(*met)
            if block in owned.late:
                first = min(owned.late) * per - spot.sector + spot.origin
                yield unknown(
                    part,
                    f"limit of {ext4_owner.MAX_BLOCKS} blocks; locate the rest from {first} on",
                )
                continue
            found = self._block(part, block, owned)
            yield replace(
                found,
                chain=(*found.chain, f"{self.kind} block {block}"),
                file_system=self.kind,
                block=block,
                block_bytes=superblock.block_bytes,
                in_place=found.kind is ContentKind.FILE,
            )

    def _block(self, part: SectorExtent, block: int, owned: OwnedBlocks) -> SectorContent:
        superblock = owned.superblock
        inode = owned.owners.get(block)
        if inode is None:
            return self._unowned(part, block, owned)
        if inode == superblock.journal_inode:
            return answer(part, ContentKind.JOURNAL, f"of {self.kind} on {self.extent.device}")
        if inode == _BAD_BLOCKS_INODE:
            text = "on the bad block list of the file system: nothing uses it"
            return answer(part, ContentKind.RESERVED, text)
        if inode not in owned.inodes:
            if inode < superblock.first_inode:
                what = "resize inode" if inode == _RESIZE_INODE else f"internal inode {inode}"
                return answer(part, ContentKind.METADATA, f"of {self.kind}: {what}")
            limit = ext4_owner.MAX_INODES
            text = f"inode {inode}; only {limit} inodes are read: locate fewer sectors"
            return replace(answer(part, ContentKind.FILE, text), inode=inode)
        return self._of_inode(part, block, inode, owned)

    def _unowned(self, part: SectorExtent, block: int, owned: OwnedBlocks) -> SectorContent:
        superblock, used = owned.superblock, owned.used.get(block)
        if block >= superblock.blocks:
            return answer(part, ContentKind.FREE, "beyond the end of the file system")
        if block < superblock.first_block:
            return answer(
                part, ContentKind.RESERVED, "before the start of the file system: a boot sector"
            )
        if block == 0:
            return answer(
                part, ContentKind.METADATA, f"the superblock of {self.kind}, or a boot sector"
            )
        if used is False:
            return answer(
                part, ContentKind.FREE, f"not part of a file: a free block of {self.kind}"
            )
        if used is None:
            text = "no file owns it; unknown whether it is free or metadata: "
            return unknown(part, text + owned.untested)
        text = f"of {self.kind}: superblock, group descriptors, bitmaps or inodes"
        return answer(part, ContentKind.METADATA, text)

    def _of_inode(
        self, part: SectorExtent, block: int, inode: int, owned: OwnedBlocks
    ) -> SectorContent:
        inside = ("/",) if inode == ext4_owner.ROOT_INODE else owned.names.get(inode, ())
        names = [host_path(self.mounts, name) for name in inside]
        path, mounted = names[0] if names else ("", False)
        named = partial(
            replace,
            inode=inode,
            path=path,
            mounted=mounted,
            other_paths=tuple(name for name, _ in names[1:]),
        )
        found = owned.inodes[inode]
        if isinstance(found, str):
            text = f"position in the file unknown: {found}"
            return named(answer(part, ContentKind.FILE, text))
        name = path or f"inode {inode}"
        extent = found.extent_of(block)
        if block in found.inner:
            text = f"block list of {name}; more of the file may be unreadable"
            return named(answer(part, ContentKind.METADATA, text))
        if block == found.attributes_block:
            return named(answer(part, ContentKind.METADATA, f"extended attributes of {name}"))
        if found.kind in _DIRECTORY:
            text = f"directory {name}: its entries may be lost"
            return named(answer(part, ContentKind.METADATA, text))
        if found.kind not in _CONTENT:
            return named(answer(part, ContentKind.METADATA, f"{found.kind} {name}"))
        if extent is None:
            return named(unknown(part, f"{name} owned the block, but no longer does"))
        block_bytes = owned.superblock.block_bytes
        within = part.sector * SECTOR_BYTES - block * block_bytes
        offset = (extent.first + block - extent.physical) * block_bytes + within
        held = max(min(part.count * SECTOR_BYTES, found.size_bytes - offset), 0)
        text = (
            ""
            if names
            else (owned.unnamed or "no name: the file is deleted, and perhaps still open")
        )
        if extent.unwritten:
            text = "reserved but never written: no data is lost"
        elif not held:
            text = "beyond the end of the file: no data is lost"
        return named(
            answer(part, ContentKind.FILE, text),
            offset_bytes=offset,
            bytes=held,
            size_bytes=found.size_bytes,
        )


# --- XFS


@dataclass(slots=True)
class XfsOwners:
    """Locates sectors of an XFS, mounted at `mounts`. `time_left`: as in Ext4Owners."""

    machine: Machine
    time_left: Callable[[], float]
    extent: SectorExtent
    mounts: Sequence[Mount]
    inodes: Mapping[int, FoundInode | str | None] = field(default_factory=dict)

    def answers(self) -> Iterator[SectorContent]:
        """Yield the owners of the sectors. Errors: AbsentError, ReadError, ParseError."""
        spot, mount = self.extent, self.mounts[0]
        if mount.root != "/":
            yield unknown(
                spot,
                f"only a part of XFS on {spot.device} is mounted (bind mount); mount all of it",
            )
            return
        owned = xfs_owner.read_owned_sectors(
            self.machine, mount.mount_point, spot.sector, spot.count, self.time_left()
        )
        self.inodes = owned.inodes
        owners: dict[tuple[int, int], list[xfs_owner.XfsExtent]] = {}
        for extent in owned.extents:
            sectors = extent.last - extent.first + 1
            if met := sector_map.overlap(spot.sector, spot.count, extent.first, sectors):
                owners.setdefault(met, []).append(extent)
        for met, several in owners.items():
            for extent in several:
                found = self._extent(spot.part(*met), extent, shared=len(several) > 1)
                yield replace(found, file_system="xfs")
        for first, count in sector_map.gaps(spot.sector, spot.count, owners):
            text = "beyond the end of the file system, or not listed by the kernel"
            yield unknown(spot.part(first, count), text)

    def _extent(
        self, part: SectorExtent, extent: xfs_owner.XfsExtent, *, shared: bool
    ) -> SectorContent:
        if extent.inode is not None:
            return self._of_inode(part, extent, extent.inode, shared=shared)
        match extent.owner:
            case "free":
                return answer(part, ContentKind.FREE, "not part of a file: free space of XFS")
            case "journal":
                return answer(part, ContentKind.JOURNAL, f"of XFS on {part.device}")
            case "block known to be bad":
                return answer(part, ContentKind.RESERVED, "marked as bad in XFS: nothing uses it")
            case "unknown":
                return unknown(
                    part,
                    "this XFS has no reverse mapping (created without 'rmapbt=1'), which is needed"
                    ' to find the owner; unmounted, use \'xfs_db -r -c "blockget -n" -c "daddr'
                    f' {part.sector}" -c "blockuse -n" /dev/{part.device}\'',
                )
        return answer(part, ContentKind.METADATA, f"of XFS: {extent.owner}")

    def _of_inode(
        self, part: SectorExtent, extent: xfs_owner.XfsExtent, inode: int, *, shared: bool
    ) -> SectorContent:
        point = self.mounts[0].mount_point
        limit = f"only {xfs_owner.MAX_INODES} inodes are named: locate fewer sectors"
        found = self.inodes.get(inode, limit)
        known = None if isinstance(found, str) else found
        path = "" if known is None else known.path
        name = path or f"inode {inode}"
        named = partial(replace, inode=inode, path=path, mounted=bool(path))
        if extent.part != "data":
            what = "extended attributes" if extent.part.startswith("attr") else "list of extents"
            return named(answer(part, ContentKind.METADATA, f"{what} of {name}"))
        if known is not None and known.kind in _DIRECTORY:
            text = f"directory {name}: its entries may be lost"
            return named(answer(part, ContentKind.METADATA, text))
        if known is not None and known.kind not in _CONTENT:
            return named(
                answer(part, ContentKind.METADATA, f"of {name}, which is not a regular file")
            )
        if known is None:
            command = f"'find {point} -xdev -inum {inode}'"
            why = f"{found}; " if isinstance(found, str) else "no name found; "
            return named(answer(part, ContentKind.FILE, f"{why}see {command}"))
        if extent.offset_sectors is None:
            return named(
                answer(
                    part,
                    ContentKind.FILE,
                    "position in the file unknown: not reported by the kernel",
                )
            )
        offset = (extent.offset_sectors + part.sector - extent.first) * SECTOR_BYTES
        held = max(min(part.count * SECTOR_BYTES, known.size_bytes - offset), 0)
        text = "" if held else "beyond the end of the file: no data is lost"
        if shared:
            text = "shared with other files: each of them is affected"
        return named(
            answer(part, ContentKind.FILE, text),
            offset_bytes=offset,
            bytes=held,
            size_bytes=known.size_bytes,
            block_bytes=_BLOCK_BYTES,
            in_place=not shared,
        )
