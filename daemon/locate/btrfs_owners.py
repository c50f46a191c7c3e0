"""Finds the owner of sectors of a mounted btrfs: address from its chunks, files from the kernel.

Owners are found, never guessed; an unknown owner is reported with the reason.
Units: bytes of the device, and addresses of the file system; sectors of 512 bytes in answers.
Limits: the size of a file is not queried: the range in its last block may be beyond its end. Space
that was reserved (fallocate) but never written is reported like data, though nothing is lost.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.filesystem import btrfs_owner
from iowarden.collectors.model import SECTOR_BYTES, ParseError, ReadError, without_frames
from iowarden.daemon.locate.extents import FAILED, HUNG, answer, host_path, unknown
from iowarden.rules.topology import btrfs_chunks, sector_map
from iowarden.rules.topology.file_location import SUPERBLOCK, ContentKind
from iowarden.rules.topology.sector_map import LayoutError, Use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iowarden.collectors.filesystem.btrfs_owner import BtrfsSuperblock, FileSystem, Reference
    from iowarden.collectors.filesystem.mountinfo import Mount
    from iowarden.collectors.machine import Machine
    from iowarden.daemon.locate.extents import SectorExtent
    from iowarden.rules.topology.btrfs_chunks import BtrfsPiece
    from iowarden.rules.topology.file_location import SectorContent

MAX_BLOCKS = 240
"""Blocks whose owner is queried: each takes up to four runs of a program."""
MAX_INODES = 60
"""Inodes of one query whose names are resolved."""
MAX_SUBVOLUMES = 32
MAX_NAMES = 16
"""Names that are listed for one block."""
MAX_TRIES = 3
"""Retries while chunks are added or removed, as on a file system that grows."""
MAX_MOUNTS = 16
"""Mounts that are checked for the wanted file system."""
MAX_COMPRESSED_BYTES = 128 << 10
"""Maximum size of data in one compressed extent. Source: kernel, fs/btrfs/compression.h."""
_FIRST_FILE = 256
_UPPERMOST = 5
_FIRST_INTERNAL = 1 << 63
"""Internal trees have negative numbers; subvolumes are 5, and 256 and above."""


@dataclass(slots=True)
class BtrfsOwners:
    """Locates sectors of a device of the mounted btrfs `system`. `mounts`: all mounts of the host.

    `time_left` returns the timeout of the next program, or raises a DeadlineError; `labels` are
    the device-mapper names of its devices.
    """

    machine: Machine
    time_left: Callable[[], float]
    extent: SectorExtent
    system: FileSystem
    mounts: Sequence[Mount]
    labels: frozenset[str] = frozenset()
    present: frozenset[int] = frozenset()
    here: tuple[Mount, ...] = ()
    block_bytes: int = 4096
    references: dict[int, tuple[Reference, ...] | None] = field(default_factory=dict)
    names: dict[tuple[int, int], tuple[str, ...] | str] = field(default_factory=dict)
    subvolumes: dict[int, str] = field(default_factory=dict)
    queried_subvolumes: set[int] = field(default_factory=set)
    inodes: int = 0

    def answers(self) -> list[SectorContent]:
        """Return the sectors' owners. Errors: LayoutError, AbsentError, ReadError, ParseError."""
        device = self.extent.device
        end = (self.extent.sector + self.extent.count) * SECTOR_BYTES
        if end <= btrfs_chunks.RESERVED_BYTES:
            # The same on every device: nothing has to be read, not even an unreadable superblock.
            return list(self._fixed(btrfs_chunks.MAX_BYTES, []))
        superblock = self._superblock()
        for _ in range(MAX_TRIES):
            found: list[SectorContent] | ParseError
            try:
                found = list(self._answers(superblock))
            except ParseError as error:  # the chunk tree may have been rewritten meanwhile
                found = without_frames(error)
            before, superblock = superblock, self._superblock()
            if _tree(superblock) == _tree(before):
                if isinstance(found, ParseError):
                    raise without_frames(found)
                return found
            self.references.clear()
        raise ReadError(f"btrfs moves data on {device} during the query (a balance?); retry later")

    def _superblock(self) -> BtrfsSuperblock:
        superblock = btrfs_owner.read_superblock(self.machine, self.extent.device, self.time_left())
        if superblock.uuid != self.system.uuid:
            raise ReadError(
                f"{self.extent.device}: expected btrfs {self.system.uuid}, as the kernel reports,"
                f" got {superblock.uuid} in its superblock"
            )
        return superblock

    def _answers(self, superblock: BtrfsSuperblock) -> Iterator[SectorContent]:
        spot, system = self.extent, self.system
        self.block_bytes = superblock.sector_bytes
        start, count = spot.sector * SECTOR_BYTES, spot.count * SECTOR_BYTES
        covered: list[tuple[int, int]] = []
        yield from self._fixed(superblock.size_bytes, covered)
        rest = [
            (first, length) for first, length in sector_map.gaps(start, count, covered) if length
        ]
        if not rest:
            return
        if len(system.devices) > btrfs_owner.MAX_DEVICES:
            raise LayoutError(
                f"btrfs of {len(system.devices)} devices: at most {btrfs_owner.MAX_DEVICES} are"
                " supported"
            )
        # The probe treats the last device as the one in question.
        devices = [*(each for each in system.devices if each != spot.device), spot.device]
        chunks = btrfs_owner.read_chunks(self.machine, devices, superblock, self.time_left())
        unfound = self._find()
        asked = 0
        for first, length in rest:
            pieces = btrfs_chunks.reverse(chunks, superblock.device, first, length)
            for piece in pieces:
                if piece.address is None or "DATA" not in piece.chunk.contents:
                    yield self._of_system(piece)
                elif unfound:
                    yield unknown(self._part(piece.start, piece.count), unfound)
                else:
                    for block in self._blocks(piece):
                        if asked == MAX_BLOCKS:
                            yield self._late(block, piece)
                            break
                        asked += 1
                        yield self._block(block)
            taken = [(piece.start, piece.count) for piece in pieces]
            for gap in sector_map.gaps(first, length, taken):
                if gap[1]:
                    text = "not part of a file: btrfs has not allocated it"
                    yield self._answer(self._part(*gap), ContentKind.FREE, text)

    def _fixed(self, size: int, located: list[tuple[int, int]]) -> Iterator[SectorContent]:
        """Yield the owners at fixed positions, such as superblocks, and add them to `located`."""
        start, count = self.extent.sector * SECTOR_BYTES, self.extent.count * SECTOR_BYTES
        for first, length, use, text in btrfs_chunks.fixed(start, count, size):
            located.append((first, length))
            kind = {Use.DATA: ContentKind.METADATA, Use.RESERVED: ContentKind.RESERVED}.get(
                use, ContentKind.FREE
            )
            found = self._answer(self._part(first, length), kind, text)
            yield replace(found, copies=SUPERBLOCK) if kind is ContentKind.METADATA else found

    def _part(self, start: int, count: int) -> SectorExtent:
        """Return bytes of the device as sectors; both ends are at a sector boundary."""
        return self.extent.part(start // SECTOR_BYTES, count // SECTOR_BYTES)

    def _answer(self, part: SectorExtent, kind: ContentKind, text: str) -> SectorContent:
        return replace(answer(part, kind, text), file_system="btrfs", block_bytes=self.block_bytes)

    def _of_piece(self, piece: BtrfsPiece, kind: ContentKind, text: str) -> SectorContent:
        found = self._answer(self._part(piece.start, piece.count), kind, text)
        # A scrub reads only used blocks.
        profile = piece.chunk.profile
        if kind is not ContentKind.FREE and self.present and profile not in {"single", "RAID0"}:
            if btrfs_chunks.redundant(piece.chunk, piece.stripe, self.present):
                found = replace(found, copies=profile)
            else:
                found = replace(found, degraded=f"btrfs ({profile})")
        if piece.address is not None:
            found = replace(found, chain=(*found.chain, f"btrfs address {piece.address}"))
        return found

    def _of_system(self, piece: BtrfsPiece) -> SectorContent:
        profile = piece.chunk.profile
        if piece.address is None:
            text = f"of btrfs ({profile}), on {self.extent.device}"
            return self._of_piece(piece, ContentKind.PARITY, text)
        what = " and ".join(sorted(piece.chunk.contents)).lower()
        text = f"of btrfs: {what} ({profile}), or room for it"
        return self._of_piece(piece, ContentKind.METADATA, text)

    def _late(self, block: BtrfsPiece, piece: BtrfsPiece) -> SectorContent:
        first = self._part(block.start, SECTOR_BYTES).origin
        rest = self._part(block.start, piece.start + piece.count - block.start)
        text = f"limit of {MAX_BLOCKS} blocks; locate the rest from {first} on"
        return unknown(rest, text)

    # --- where it is mounted

    def _find(self) -> str:
        """Find the mount point of the file system; return '', or why it was not found.

        The mount table has the device's name at mount time, and a number that is not a device's.
        Errors: DeadlineError, StuckError.
        """
        by_number: dict[str, list[Mount]] = {}
        for mount in self.mounts:
            if mount.kind == "btrfs":
                by_number.setdefault(mount.device_number, []).append(mount)
        wanted = {*(f"/dev/{name}" for name in self.system.devices)}
        wanted |= {f"/dev/mapper/{label}" for label in self.labels}
        groups = sorted(by_number.values(), key=lambda group: group[0].source not in wanted)
        why: list[str] = []
        for group in groups[:MAX_MOUNTS]:
            point = next((each.mount_point for each in group if _queried(each)), None)
            if point is None:
                name = group[0].mount_point
                why.append(f"it is mounted at '{name}', a path with unsupported characters")
                continue
            try:
                shown = btrfs_owner.read_listing(self.machine, point, self.time_left())
            except HUNG:
                raise
            except FAILED as error:
                why.append(str(error))
                continue
            if shown.uuid == self.system.uuid:
                self.present = shown.present
                self.here = tuple(sorted(group, key=lambda each: len(each.mount_point)))
                return ""
        why.append("no mount of it was found; the kernel log names root and inode")
        return f"btrfs on {self.extent.device} cannot be queried for the owner: {why[0]}"

    @property
    def _point(self) -> str:
        return next(mount.mount_point for mount in self.here if _queried(mount))

    # --- whose a block is

    def _blocks(self, piece: BtrfsPiece) -> Iterator[BtrfsPiece]:
        """Yield a piece of data block by block."""
        at = piece.start
        while at < piece.start + piece.count:
            address = (piece.address or 0) + at - piece.start
            size = self.block_bytes - address % self.block_bytes
            size = min(size, piece.start + piece.count - at)
            yield replace(piece, start=at, count=size, address=address)
            at += size

    def _block(self, piece: BtrfsPiece) -> SectorContent:
        """Return the owner of bytes of one block. Errors: DeadlineError, StuckError."""
        address = piece.address or 0
        block = address - address % self.block_bytes
        try:
            references = self._queried(block)
            if references is None:
                if "METADATA" in piece.chunk.contents:
                    text = "of btrfs: metadata, mixed with data, or free space"
                    return self._of_piece(piece, ContentKind.METADATA, text)
                return self._of_piece(
                    piece, ContentKind.FREE, "not part of a file: free space of btrfs"
                )
            return self._used(piece, block, references)
        except HUNG:
            raise
        except FAILED as error:
            return unknown(self._part(piece.start, piece.count), str(error))

    def _queried(self, block: int) -> tuple[Reference, ...] | None:
        if block not in self.references:
            self.references[block] = btrfs_owner.read_references(
                self.machine, self._point, block, self.time_left()
            )
        return self.references[block]

    def _used(
        self, piece: BtrfsPiece, block: int, references: Sequence[Reference]
    ) -> SectorContent:
        files = [
            each
            for each in references
            if each.inode >= _FIRST_FILE
            and (each.root == _UPPERMOST or _FIRST_FILE <= each.root < _FIRST_INTERNAL)
        ]
        if not references:
            text = "no longer part of a file: unused part of an extent that files still use"
            return self._of_piece(piece, ContentKind.FREE, text)
        if not files:
            moved = any(each.root >= _FIRST_INTERNAL for each in references)
            text = "a copy made by a running balance" if moved else "free space cache"
            return self._of_piece(piece, ContentKind.METADATA, f"of btrfs: {text}")
        named, unnamed = self._named(block, files)
        first, mounted = named[0][1:] if named else ("", False)
        reference = named[0][0] if named else unnamed[0][0]
        compressed = self._compressed(piece, block, references, reference)
        texts = []
        if compressed:
            offset, held = reference.offset, MAX_COMPRESSED_BYTES
            texts.append(
                "compressed: these bytes, up to the end of the file, are unpacked from there"
            )
        else:
            offset, held = reference.offset + (piece.address or 0) - block, piece.count
            if compressed is None:
                texts.append(
                    f"or, if compressed, up to {MAX_COMPRESSED_BYTES} bytes from"
                    f" {reference.offset} on"
                )
        others = [path for _, path, _ in named if path != first][:MAX_NAMES]
        texts += [text for _, text in unnamed[:2]]
        if len(unnamed) > 2:
            texts.append(f"and {len(unnamed) - 2} more without a known name")
        if len(files) > 1:
            texts.append("shared by clones or snapshots: each of them is affected")
        return replace(
            self._of_piece(piece, ContentKind.FILE, "; ".join(texts)),
            inode=reference.inode,
            path=first,
            mounted=mounted,
            other_paths=tuple(dict.fromkeys(others)),
            offset_bytes=offset,
            bytes=held,
        )

    def _compressed(
        self, piece: BtrfsPiece, block: int, references: Sequence[Reference], reference: Reference
    ) -> bool | None:
        """Whether an extent is compressed; None: unknown, for a single block.

        For every block of a compressed extent the kernel reports the file offset of the extent's
        start, whether the whole extent was queried or not; otherwise each has its own offset.
        """
        size, chunk = self.block_bytes, piece.chunk
        here = set(references)
        if block + size < chunk.start + chunk.length:
            after = self._queried(block + size) or ()
            if here.intersection(after):
                return True
            if replace(reference, offset=reference.offset + size) in after:
                return False
        whole = btrfs_owner.read_references(
            self.machine, self._point, block, self.time_left(), extent=True
        )
        if here.difference(whole or ()):
            return False
        if block > chunk.start and here.intersection(self._queried(block - size) or ()):
            return True
        return None

    # --- what it is called

    def _named(
        self, block: int, files: Sequence[Reference]
    ) -> tuple[list[tuple[Reference, str, bool]], list[tuple[Reference, str]]]:
        """Return a block's references with their paths, and those without one with the reason."""
        named: list[tuple[Reference, str, bool]] = []
        unnamed: list[tuple[Reference, str]] = []
        # Mounted subvolumes first: unmounted snapshots must not use up the limits.
        known = {_root_of(mount) for mount in self.here}
        for each in sorted(files, key=lambda each: (each.root not in known, each)):
            paths = self._paths(block, each)
            if isinstance(paths, str):
                unnamed.append((each, f"inode {each.inode} of {paths}"))
                continue
            if not paths:
                text = f"inode {each.inode} has no name: deleted, and perhaps still open"
                unnamed.append((each, text))
            named += [(each, *host_path(self.here, path)) for path in paths]
        return named, list({text: (each, text) for each, text in unnamed}.values())

    def _paths(self, block: int, reference: Reference) -> tuple[str, ...] | str:
        """Return the paths of an inode from the top-level subvolume on, or why there are none.

        Errors: DeadlineError, StuckError.
        """
        key = reference.root, reference.inode
        if key not in self.names:
            try:
                self.names[key] = self._query_paths(block, reference)
            except HUNG:
                raise
            except FAILED as error:
                self.names[key] = f"subvolume {reference.root}, without a name: {error}"
        return self.names[key]

    def _query_paths(self, block: int, reference: Reference) -> tuple[str, ...] | str:
        """Errors: AbsentError, ReadError, ParseError."""
        number = reference.root
        name = self.subvolumes.get(number)
        if name is None:
            self.queried_subvolumes.add(number)
            if len(self.queried_subvolumes) > MAX_SUBVOLUMES:
                return f"subvolume {number}, beyond the limit of {MAX_SUBVOLUMES} names"
        elif btrfs_owner.subvolume_mount(self.here, name) is None:
            return self._unmounted(name, reference)
        if self.inodes >= MAX_INODES:
            return (
                f"subvolume '{name or number}', beyond the limit of {MAX_INODES} names; locate"
                " fewer sectors"
            )
        answered = btrfs_owner.read_names(
            self.machine, self._point, block, reference, self.time_left()
        )
        name = self.subvolumes[number] = answered.subvolume
        if answered.names is None:
            return self._unmounted(name, reference)
        self.inodes += 1
        place = f"/{name}" if name else ""
        return tuple(place + path for path in answered.names)

    def _unmounted(self, name: str, reference: Reference) -> str:
        path, reached = host_path(self.here, f"/{name}")
        text = f"subvolume {reference.root} ('{name}'), which is not mounted by itself"
        if not reached:
            return text
        return f"{text}: see 'btrfs inspect-internal inode-resolve {reference.inode} {path}'"


def _tree(superblock: BtrfsSuperblock) -> tuple[int, int]:
    return superblock.chunk_root, superblock.chunk_root_generation


def _queried(mount: Mount) -> bool:
    return btrfs_owner.MOUNT_POINT.fullmatch(mount.mount_point) is not None


def _root_of(mount: Mount) -> int:
    """Return the id of the mounted subvolume, -1 if the mount options do not name it."""
    found = [option for option in mount.super_options if option.startswith("subvolid=")]
    number = found[0].removeprefix("subvolid=") if found else ""
    return int(number) if number.isdecimal() else -1
