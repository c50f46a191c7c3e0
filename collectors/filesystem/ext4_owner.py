"""Find the file of a block of ext2, ext3 or ext4, with debugfs, which opens it read-only.

Source: debugfs(8) 1.47, tried; e2fsprogs' debugfs/{icheck,ncheck,dump}.c for their output. Units:
blocks of the file system, counted from the device's first byte for any block size.
Limits: 'icheck' reads all inodes and 'ncheck' all directories: minutes on a large file system.
Unwritten changes of a mounted one may be missing; a name is bytes, and may contain a line feed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError
from iowarden.collectors.program import run_program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iowarden.collectors.machine import Machine

MAX_QUERIED = 60
"""Maximum blocks or inodes of one query: the probe's limit."""
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
    links: int
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
    links = re.search(r"^Links: (\d{1,10})\b", text, re.MULTILINE | re.ASCII)
    if head is None or size is None or links is None:
        raise _refused("stat", "'Inode: <n> Type: <type>', 'Size: <n>', 'Links: <n>'", text)
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
        int(links[1]),
        0 if attributes is None else int(attributes[1]),
        tuple(extents),
        frozenset(inner),
    )


def read_superblock(root: Machine, device: str, deadline_seconds: float) -> Ext4Superblock:
    """Query the superblock of the file system. Errors: as `_query`."""
    return parse_superblock(_query(root, device, "stats -h", deadline_seconds))


def read_tested(
    root: Machine, device: str, block: int, count: int, deadline_seconds: float
) -> Mapping[int, bool]:
    """Query which of some blocks are in use; debugfs must read all bitmaps. Errors: as `_query`."""
    text = _query(root, device, f"testb {block} {count}", deadline_seconds, bitmaps=True)
    return parse_tested(text)


def read_owned(
    root: Machine, device: str, blocks: Sequence[int], deadline_seconds: float
) -> Mapping[int, int | None]:
    """Query the inodes that own at most MAX_QUERIED blocks. Errors: as `_query`."""
    return parse_owned(_query(root, device, f"icheck {_numbers(blocks)}", deadline_seconds))


def read_names(
    root: Machine, device: str, inodes: Sequence[int], deadline_seconds: float
) -> Mapping[int, tuple[str, ...]]:
    """Query the names of at most MAX_QUERIED inodes. Errors: as `_query`."""
    return parse_names(_query(root, device, f"ncheck {_numbers(inodes)}", deadline_seconds))


def read_inode(root: Machine, device: str, inode: int, deadline_seconds: float) -> Inode:
    """Query the type and the blocks of an inode. Errors: as `_query`."""
    return parse_inode(_query(root, device, f"stat <{inode}>", deadline_seconds))


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
