"""Finds the owner of sectors of ext2 to ext4 by debugfs, of a mounted XFS by xfs_io.

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
from iowarden.daemon.locate.extents import FAILED, HUNG, answer, host_path, unknown
from iowarden.rules.topology import sector_map
from iowarden.rules.topology.file_location import ContentKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from iowarden.collectors.filesystem.ext4_owner import Ext4Superblock, Inode
    from iowarden.collectors.filesystem.mountinfo import Mount
    from iowarden.collectors.filesystem.xfs_owner import FoundInode
    from iowarden.collectors.machine import Machine
    from iowarden.daemon.locate.extents import SectorExtent
    from iowarden.rules.topology.file_location import SectorContent

MAX_BLOCKS = 240
"""Used blocks whose owner is queried: each sixty of them take a pass through all inodes."""
MAX_INODES = 60
"""Inodes of one range that are read."""
_ROOT_INODE = 2
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
    untested: str = ""
    names: dict[int, tuple[str, ...]] = field(default_factory=dict)
    unnamed: str = ""
    inodes: dict[int, Inode | str] = field(default_factory=dict)

    def answers(self) -> Iterator[SectorContent]:
        """Yield the owner of each block. Errors: AbsentError, ReadError, ParseError."""
        spot = self.extent
        root, device, left = self.machine, self.extent.device, self.time_left
        superblock = ext4_owner.read_superblock(root, device, left())
        per = superblock.block_bytes // SECTOR_BYTES
        blocks = range(spot.sector // per, (spot.sector + spot.count - 1) // per + 1)
        # debugfs accepts no block 0; if the file system has one, it contains the superblock.
        inside = [b for b in blocks if max(superblock.first_block, 1) <= b < superblock.blocks]
        used = self._used(inside)
        asked = [block for block in inside if used.get(block, True)]
        asked, late = asked[:MAX_BLOCKS], frozenset(asked[MAX_BLOCKS:])
        owners: dict[int, int | None] = {}
        for at in range(0, len(asked), ext4_owner.MAX_QUERIED):
            some = asked[at : at + ext4_owner.MAX_QUERIED]
            owners.update(ext4_owner.read_owned(root, device, some, left()))
        self._describe(superblock, [inode for inode in owners.values() if inode is not None])
        for block in blocks:
            met = sector_map.overlap(spot.sector, spot.count, block * per, per)
            if met is None:
                continue
            part = spot.part(*met)
            if block in late:
                first = min(late) * per - spot.sector + spot.origin
                yield unknown(
                    part,
                    f"limit of {MAX_BLOCKS} blocks; locate the rest from {first} on",
                )
                continue
            found = self._block(part, block, superblock, used.get(block), owners)
            yield replace(
                found,
                chain=(*found.chain, f"{self.kind} block {block}"),
                file_system=self.kind,
                block=block,
                block_bytes=superblock.block_bytes,
                in_place=found.kind is ContentKind.FILE,
            )

    def _used(self, blocks: Sequence[int]) -> Mapping[int, bool]:
        """Return which blocks are in use; blocks with unknown state are left out.

        Errors: DeadlineError, StuckError.
        """
        if not blocks:
            return {}
        try:
            return ext4_owner.read_tested(
                self.machine, self.extent.device, blocks[0], len(blocks), self.time_left()
            )
        except HUNG:
            raise
        except FAILED as error:  # an unreadable bitmap; the inodes may be readable
            self.untested = str(error)
            return {}

    def _describe(self, superblock: Ext4Superblock, owners: Sequence[int]) -> None:
        """Read the inodes and their names; errors are reported with each of them."""
        root, device, left = self.machine, self.extent.device, self.time_left
        inodes = [
            inode
            for inode in dict.fromkeys(owners)
            if inode >= superblock.first_inode or inode == _ROOT_INODE
        ][:MAX_INODES]
        for inode in inodes:
            try:
                self.inodes[inode] = ext4_owner.read_inode(root, device, inode, left())
            except FAILED as error:
                self.inodes[inode] = str(error)
        if inodes:
            try:
                self.names.update(ext4_owner.read_names(root, device, inodes, left()))
            except FAILED as error:
                self.unnamed = str(error)
        self.names[_ROOT_INODE] = ("/",)

    def _block(
        self,
        part: SectorExtent,
        block: int,
        superblock: Ext4Superblock,
        used: bool | None,  # noqa: FBT001 - None: unknown
        owners: Mapping[int, int | None],
    ) -> SectorContent:
        inode = owners.get(block)
        if inode is None:
            return self._unowned(part, block, superblock, used)
        if inode == superblock.journal_inode:
            return answer(part, ContentKind.JOURNAL, f"of {self.kind} on {self.extent.device}")
        if inode == _BAD_BLOCKS_INODE:
            text = "on the bad block list of the file system: nothing uses it"
            return answer(part, ContentKind.RESERVED, text)
        if inode not in self.inodes:
            if inode < superblock.first_inode:
                what = "resize inode" if inode == _RESIZE_INODE else f"internal inode {inode}"
                return answer(part, ContentKind.METADATA, f"of {self.kind}: {what}")
            text = f"inode {inode}; only {MAX_INODES} inodes are read: locate fewer sectors"
            return replace(answer(part, ContentKind.FILE, text), inode=inode)
        return self._of_inode(part, block, superblock.block_bytes, inode)

    def _unowned(
        self,
        part: SectorExtent,
        block: int,
        superblock: Ext4Superblock,
        used: bool | None,  # noqa: FBT001 - None: unknown
    ) -> SectorContent:
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
            return unknown(part, text + self.untested)
        text = f"of {self.kind}: superblock, group descriptors, bitmaps or inodes"
        return answer(part, ContentKind.METADATA, text)

    def _of_inode(
        self, part: SectorExtent, block: int, block_bytes: int, inode: int
    ) -> SectorContent:
        names = [host_path(self.mounts, name) for name in self.names.get(inode, ())]
        path, mounted = names[0] if names else ("", False)
        named = partial(
            replace,
            inode=inode,
            path=path,
            mounted=mounted,
            other_paths=tuple(name for name, _ in names[1:]),
        )
        found = self.inodes[inode]
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
        within = part.sector * SECTOR_BYTES - block * block_bytes
        offset = (extent.first + block - extent.physical) * block_bytes + within
        held = max(min(part.count * SECTOR_BYTES, found.size_bytes - offset), 0)
        text = (
            ""
            if names
            else (self.unnamed or "no name: the file is deleted, and perhaps still open")
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
    inodes: dict[int, FoundInode | str | None] = field(default_factory=dict)

    def answers(self) -> Iterator[SectorContent]:
        """Yield the owners of the sectors. Errors: AbsentError, ReadError, ParseError."""
        spot, mount = self.extent, self.mounts[0]
        if mount.root != "/":
            yield unknown(
                spot,
                f"only a part of XFS on {spot.device} is mounted (bind mount); mount all of it",
            )
            return
        last = spot.sector + spot.count - 1
        point = mount.mount_point
        extents = xfs_owner.read_fsmap(self.machine, point, spot.sector, last, self.time_left())
        owners: dict[tuple[int, int], list[xfs_owner.XfsExtent]] = {}
        for extent in extents:
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
        if inode not in self.inodes:
            try:
                self.inodes[inode] = xfs_owner.read_inode(
                    self.machine, point, inode, self.time_left()
                )
            except FAILED as error:
                self.inodes[inode] = str(error)
        found = self.inodes[inode]
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
