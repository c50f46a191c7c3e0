"""Find the files of blocks of ext2, ext3 or ext4, with debugfs, which opens it read-only.

debugfs prints more than is needed: values of extended attributes, targets of links. It runs inside
the probe (`query_owned_blocks`), which returns the parsed owners of the requested blocks and their
names; the service reads that (`read_owned_blocks`).

Source: debugfs(8) 1.47, tried; e2fsprogs' debugfs/{icheck,ncheck,dump}.c for their output. Units:
blocks of the file system, counted from the device's first byte for any block size.
Limits: 'icheck' reads all inodes and 'ncheck' all directories: minutes on a large file system.
Unwritten changes of a mounted one may be missing; a name is bytes, and may contain a line feed.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import (
    SECTOR_BYTES,
    AbsentError,
    DeadlineError,
    ParseError,
    ReadError,
    StuckError,
)
from iowarden.collectors.probe_reply import field
from iowarden.collectors.program import run_program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iowarden.collectors.machine import Machine

VERB = "ext4_owners"
MAX_BLOCKS = 240
"""Used blocks whose owner is queried: each sixty of them take a pass through all inodes."""
MAX_INODES = 60
"""Inodes of one query that are read and named."""
ROOT_INODE = 2
MAX_QUERIED = 60
"""Maximum blocks or inodes of one run of debugfs: the probe's limit."""
MAX_EXTENTS = 1_000_000

_PAIR = lazy_pattern(r"([A-Z][A-Za-z #]{1,40}):\s+(.*)")
_BANNER = lazy_pattern(r"debugfs \d\S* \(.*\)")
_TESTED = lazy_pattern(r"Block (\d{1,18}) (marked in|not in) use", re.ASCII)
_OWNED = lazy_pattern(r"(\d{1,18})\t(\d{1,10}|<block not found>)", re.ASCII)
_NAMED = lazy_pattern(r"(\d{1,10})\t(/.*)", re.ASCII)
_UNWRITTEN = r"(?:\[u(?:ninit)?\])"
_EXTENT = lazy_pattern(
    rf"\((\d{{1,18}}){_UNWRITTEN}?(?:-(\d{{1,18}}){_UNWRITTEN}?)?\):(\d{{1,18}})(?:-(\d{{1,18}}))?",
    re.ASCII,
)
_INNER = lazy_pattern(r"\((ETB\d|IND|DIND|TIND)\):(\d{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Ext4Superblock:
    """Parsed 'stats -h'. `journal_inode` 0: it has none, or one on another device."""

    block_bytes: int
    blocks: int
    first_block: int
    journal_inode: int
    first_inode: int


@dataclass(frozen=True, slots=True)
class Ext4Extent:
    """Consecutive blocks of a file. `unwritten`: allocated without data."""

    first: int
    last: int
    physical: int
    unwritten: bool = False


@dataclass(frozen=True, slots=True)
class Inode:
    """Parsed 'stat' of an inode. `inner`: blocks that only map its other blocks."""

    number: int
    kind: str
    """'regular', 'directory', 'symlink' ..."""
    size_bytes: int
    attributes_block: int
    extents: tuple[Ext4Extent, ...]
    inner: frozenset[int]

    def extent_of(self, block: int) -> Ext4Extent | None:
        """Return the extent that contains a block of the file system, if the block has content."""
        for extent in self.extents:
            if extent.physical <= block <= extent.physical + extent.last - extent.first:
                return extent
        return None


def parse_superblock(text: str) -> Ext4Superblock:
    """Parse 'stats -h'. Errors: ParseError."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if pair := _PAIR.fullmatch(line.strip()):
            found.setdefault(pair[1], pair[2])

    def number(key: str, otherwise: str = "") -> int:
        value = found.get(key, otherwise)
        if not re.fullmatch(r"\d{1,18}", value, re.ASCII):
            raise _refused("stats -h", f"'{key}: <number>'", value or _complaint(text))
        return int(value)

    read = Ext4Superblock(
        number("Block size"),
        number("Block count"),
        number("First block"),
        number("Journal inode", "0"),
        number("First inode", "11"),
    )
    if read.block_bytes not in {1 << power for power in range(10, 17)}:
        raise _refused("stats -h", "a block size from 1 to 64 KiB", str(read.block_bytes))
    return read


def parse_tested(text: str) -> dict[int, bool]:
    """Parse which blocks are in use from 'testb'. Errors: ParseError, if a block is missing."""
    found = {
        int(row[1]): row[2] == "marked in"
        for line in text.splitlines()
        if (row := _TESTED.fullmatch(line.strip()))
    }
    if not found:
        raise _refused("testb", "'Block <n> marked in use' or '... not in use'", _complaint(text))
    return found


def parse_owned(text: str) -> dict[int, int | None]:
    """Parse the inodes that own blocks from 'icheck'; None: no owner. Errors: ParseError."""
    found = {
        int(row[1]): int(row[2]) if row[2].isdigit() else None
        for line in text.splitlines()
        if (row := _OWNED.fullmatch(line))
    }
    if not found:
        raise _refused("icheck", "'<block> <inode>'", _complaint(text))
    return found


def parse_names(text: str) -> dict[int, tuple[str, ...]]:
    r"""Parse the paths of inodes from 'ncheck'. Errors: ParseError, without its heading.

    An inode may have several names, and none: a deleted file that is still open. The text after a
    line feed in a name is lost, or looks like another name.
    """
    if not re.search(r"^Inode\tPathname$", text, re.MULTILINE):
        raise _refused("ncheck", "'Inode Pathname'", _complaint(text))
    found: dict[int, tuple[str, ...]] = {}
    for line in text.split("\n"):
        if row := _NAMED.fullmatch(line):
            # debugfs begins names in the root directory with two slashes.
            path = "/" + row[2].lstrip("/")
            found[int(row[1])] = (*found.get(int(row[1]), ()), path)
    return found


def parse_inode(text: str) -> Inode:
    """Parse an inode from 'stat'. Errors: ParseError."""
    head = re.search(r"^Inode: (\d{1,10})\s+Type: (.{1,30}?)\s+Mode:", text, re.MULTILINE)
    size = re.search(r"\bSize: (\d{1,20})\s*$", text, re.MULTILINE | re.ASCII)
    if head is None or size is None:
        raise _refused("stat", "'Inode: <n> Type: <type>', 'Size: <n>'", text)
    attributes = re.search(r"^File ACL: (\d{1,18})\b", text, re.MULTILINE | re.ASCII)
    marker = re.search(r"^(EXTENTS|BLOCKS):$", text, re.MULTILINE)
    listing = "" if marker is None else text[marker.end() :].partition("\nTOTAL:")[0]
    extents = []
    inner = set()
    for item in re.split(r",\s*|\n", listing):
        if row := _EXTENT.fullmatch(item.strip()):
            first, physical = int(row[1]), int(row[3])
            last = int(row[2] or first)
            if last - first != int(row[4] or physical) - physical:
                raise _refused("stat", "as many blocks as the extent has", item)
            extents.append(Ext4Extent(first, last, physical, "[u" in item))
        elif row := _INNER.fullmatch(item.strip()):
            inner.add(int(row[2]))
        if len(extents) > MAX_EXTENTS:
            raise _refused("stat", f"at most {MAX_EXTENTS} extents", "more")
    return Inode(
        int(head[1]),
        head[2],
        int(size[1]),
        0 if attributes is None else int(attributes[1]),
        tuple(extents),
        frozenset(inner),
    )


@dataclass(frozen=True, slots=True)
class OwnedBlocks:
    """The owners of some blocks; of an inode only its extents that contain one of them.

    Fields: `used` by block, without those whose state is unknown because of `untested`; `owners`
    by block, None: no inode's; without `late`, blocks beyond the limit. `inodes`: or why one could
    not be read. `names` by inode; `unnamed`: why they could not be read.
    """

    superblock: Ext4Superblock
    used: Mapping[int, bool]
    untested: str
    owners: Mapping[int, int | None]
    late: frozenset[int]
    inodes: Mapping[int, Inode | str]
    names: Mapping[int, tuple[str, ...]]
    unnamed: str


def query_owned_blocks(
    root: Machine, device: str, sector: int, count: int, time_left: Callable[[], float]
) -> OwnedBlocks:
    """Run debugfs for the blocks that contain some sectors of the device. Called by the probe.

    `time_left` returns the timeout of the next run, or raises a DeadlineError. A bitmap, an inode
    or names that cannot be read are reported as such. Errors: as `_query`, for all else.
    """
    superblock = parse_superblock(_query(root, device, "stats -h", time_left()))
    per = superblock.block_bytes // SECTOR_BYTES
    blocks = range(sector // per, (sector + count - 1) // per + 1)
    # debugfs accepts no block 0; if the file system has one, it contains the superblock.
    inside = [b for b in blocks if max(superblock.first_block, 1) <= b < superblock.blocks]
    used, untested = _used(root, device, inside, time_left)
    queried = [block for block in inside if used.get(block, True)]
    queried, late = queried[:MAX_BLOCKS], frozenset(queried[MAX_BLOCKS:])
    owners: dict[int, int | None] = {}
    for at in range(0, len(queried), MAX_QUERIED):
        numbers = _numbers(queried[at : at + MAX_QUERIED])
        owners.update(parse_owned(_query(root, device, f"icheck {numbers}", time_left())))
    owners = {block: owners.get(block) for block in queried}
    wanted = [
        inode
        for inode in dict.fromkeys(owners.values())
        if inode is not None and (inode >= superblock.first_inode or inode == ROOT_INODE)
    ][:MAX_INODES]
    inodes: dict[int, Inode | str] = {}
    for number in wanted:
        try:
            inode = parse_inode(_query(root, device, f"stat <{number}>", time_left()))
            inodes[number] = _of_blocks(inode, [b for b in queried if owners[b] == number])
        except (AbsentError, ReadError, ParseError) as error:
            inodes[number] = str(error)
    names, unnamed = _named(root, device, wanted, time_left)
    return OwnedBlocks(superblock, used, untested, owners, late, inodes, names, unnamed)


def _used(
    root: Machine, device: str, blocks: Sequence[int], time_left: Callable[[], float]
) -> tuple[Mapping[int, bool], str]:
    """Return which blocks are in use, or why that is unknown. Errors: DeadlineError, StuckError."""
    if not blocks:
        return {}, ""
    try:
        request = f"testb {blocks[0]} {len(blocks)}"
        tested = parse_tested(_query(root, device, request, time_left(), bitmaps=True))
    except (DeadlineError, StuckError):
        raise
    except (AbsentError, ReadError, ParseError) as error:
        return {}, str(error)  # an unreadable bitmap; the inodes may be readable
    return {block: tested[block] for block in blocks if block in tested}, ""


def _of_blocks(inode: Inode, blocks: Sequence[int]) -> Inode:
    """Return an inode with what it has of its own in some blocks, and no more."""
    extents = dict.fromkeys(
        extent for block in blocks if (extent := inode.extent_of(block)) is not None
    )
    return Inode(
        inode.number,
        inode.kind,
        inode.size_bytes,
        inode.attributes_block if inode.attributes_block in blocks else 0,
        tuple(extents),
        inode.inner & frozenset(blocks),
    )


def _named(
    root: Machine, device: str, inodes: Sequence[int], time_left: Callable[[], float]
) -> tuple[Mapping[int, tuple[str, ...]], str]:
    """Return the names of inodes, or why they are unknown."""
    if not inodes:
        return {}, ""
    try:
        names = parse_names(_query(root, device, f"ncheck {_numbers(inodes)}", time_left()))
    except (AbsentError, ReadError, ParseError) as error:
        return {}, str(error)
    return {inode: names[inode] for inode in inodes if inode in names}, ""


def to_json(owned: OwnedBlocks) -> dict[str, Any]:
    """Return the answer to the verb, to be printed as JSON."""
    block = owned.superblock
    return {
        "superblock": [
            *(block.block_bytes, block.blocks, block.first_block),
            *(block.journal_inode, block.first_inode),
        ],
        "used": list(owned.used.items()),
        "untested": owned.untested,
        "owners": list(owned.owners.items()),
        "late": sorted(owned.late),
        "inodes": [
            {"number": number, "problem": inode}
            if isinstance(inode, str)
            else {
                "number": number,
                "problem": "",
                "kind": inode.kind,
                "bytes": inode.size_bytes,
                "attributes_block": inode.attributes_block,
                "extents": [[e.first, e.last, e.physical, e.unwritten] for e in inode.extents],
                "inner": sorted(inode.inner),
            }
            for number, inode in owned.inodes.items()
        ],
        "names": list(owned.names.items()),
        "unnamed": owned.unnamed,
    }


def from_json(text: str) -> OwnedBlocks:
    """Parse the JSON of `to_json`. Errors: ParseError."""
    try:
        found = json.loads(text)
        return OwnedBlocks(
            Ext4Superblock(*map(_count, field(list, found, "superblock"))),
            {_count(block): bool(used) for block, used in field(list, found, "used")},
            field(str, found, "untested"),
            {
                _count(block): None if inode is None else _count(inode)
                for block, inode in field(list, found, "owners")
            },
            frozenset(map(_count, field(list, found, "late"))),
            {_count(row["number"]): _inode(row) for row in field(list, found, "inodes")},
            {
                _count(inode): tuple(map(_path, paths))
                for inode, paths in field(list, found, "names")
            },
            field(str, found, "unnamed"),
        )
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ParseError(
            f"probe '{VERB}': expected owners of blocks as JSON, got {text[:80]!r}:"
            f" {type(error).__name__}: {error}"
        ) from None


def _inode(row: Any) -> Inode | str:  # noqa: ANN401 - whatever the probe sent
    if problem := field(str, row, "problem"):
        return problem
    return Inode(
        _count(row["number"]),
        field(str, row, "kind"),
        _count(row["bytes"]),
        _count(row["attributes_block"]),
        tuple(
            Ext4Extent(_count(first), _count(last), _count(physical), bool(unwritten))
            for first, last, physical, unwritten in field(list, row, "extents")
        ),
        frozenset(map(_count, field(list, row, "inner"))),
    )


def _count(value: Any) -> int:  # noqa: ANN401 - whatever the probe sent
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"expected an unsigned number, got {value!r:.60}")
    return value


def _path(value: Any) -> str:  # noqa: ANN401 - whatever the probe sent
    if not isinstance(value, str) or not value.startswith("/"):
        raise TypeError(f"expected a path, got {value!r:.60}")
    return value


def read_owned_blocks(
    root: Machine, device: str, sector: int, count: int, deadline_seconds: float
) -> OwnedBlocks:
    """Query the probe for the owners of some sectors of the device.

    Errors: AbsentError, ProgramNotFoundError, StuckError, DeadlineError, ReadError, ParseError.
    """
    arguments = (f"/dev/{device}", str(sector), str(count))
    return from_json(root.query_probe(VERB, *arguments, deadline_seconds=deadline_seconds))


def _query(
    root: Machine, device: str, request: str, deadline_seconds: float, *, bitmaps: bool = False
) -> str:
    """Run debugfs.

    Errors: AbsentError, ProgramNotFoundError, StuckError, DeadlineError, ReadError, ParseError.
    """
    # '-c' needs no bitmaps: an unreadable one must not prevent finding the file.
    options = () if bitmaps else ("-c",)
    return run_program(root, deadline_seconds, "debugfs", *options, "-R", request, f"/dev/{device}")


def _numbers(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))


def _complaint(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if not _BANNER.fullmatch(line)), "nothing")


def _refused(request: str, expected: str, got: str) -> ParseError:
    return ParseError(f"'debugfs {request}': expected {expected}, got {got[:120]!r}")
