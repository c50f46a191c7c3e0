"""Find the owner of a sector of a mounted XFS with 'xfs_io -c fsmap', and the path of an inode.

Source: xfs_io(8) 6.1, ioctl_getfsmap(2), linux/fsmap.h and xfs_fs.h (XFS_FMR_OWN_*); tried on a
mounted image. Both programs run inside the probe (`query_owned_sectors`), which names only the
owners of the requested sectors; the service reads that (`read_owned_sectors`).
Units: sectors of 512 bytes, also the offset in a file.
Limits: the kernel knows owners only if the file system has a reverse map ('rmapbt=1', the default
since xfsprogs 6.5 [unchecked]); otherwise all used space is 'unknown'. XFS before parent pointers
cannot report the path of an inode: find walks the directories until it finds the inode.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import AbsentError, ParseError, ReadError
from iowarden.collectors.probe_reply import field, optional
from iowarden.collectors.program import run_program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from iowarden.collectors.machine import Machine

VERB = "xfs_owners"
MAX_INODES = 60
"""Inodes of one query that are named: find may take minutes for each."""
MAX_EXTENTS = 100_000
HEADING = "EXT,MAJOR,MINOR,PSTART,PEND,OWNER,OSTART,OEND,LENGTH"
_ROW = lazy_pattern(
    r"\d{1,9},(\d{1,9}),(\d{1,9}),(\d{1,19}),(\d{1,19}),([a-z0-9_:]{1,80}),(\d{0,19}),(\d{0,19}),"
    r"\d{1,19}",
    re.ASCII,
)
_INODE = lazy_pattern(r"inode_(\d{1,20})_(data|data_bmbt|attr|attr_bmbt)", re.ASCII)

FORMAT = r"%y:%s:%p\0"
"""Format of find: type, size, path, and a NUL, which no path has. Source: find(1), -printf."""
_FOUND = lazy_pattern(r"([a-zA-Z]):(\d{1,19}):(/.{0,65535})", re.ASCII | re.DOTALL)

OWNERS = {
    "special_0:1": "free",
    "special_0:2": "unknown",
    "special_88:1": "superblock or another fixed part",
    "special_88:2": "journal",
    "special_88:3": "allocation group",
    "special_88:4": "inode index",
    "special_88:5": "inodes",
    "special_88:6": "reference counts",
    "special_88:7": "copy-on-write in progress",
    "special_88:8": "block known to be bad",
}
"""The kernel's codes, FMR_OWN_* and XFS_FMR_OWN_*. Any other is 'unknown'."""


@dataclass(frozen=True, slots=True)
class XfsExtent:
    """Sectors with one owner; those of cloned files have several extents, one each.

    Fields: `first` and `last` may exceed the queried range; `inode` None: no file's; `part` is
    'data', 'data_bmbt', 'attr', 'attr_bmbt'; `offset_sectors` is where it begins in the file.
    """

    first: int
    last: int
    owner: str
    inode: int | None = None
    part: str = ""
    offset_sectors: int | None = None


@dataclass(frozen=True, slots=True)
class FoundInode:
    """An inode from find. `kind` is find's letter: 'f' a file, 'd' a directory, 'l' a link."""

    kind: str
    size_bytes: int
    path: str


def parse_fsmap(text: str) -> tuple[XfsExtent, ...]:
    """Parse 'fsmap -d -m'. Errors: ParseError, if it is no such table."""
    lines = text.splitlines()
    if HEADING not in lines:
        raise _refused(f"'{HEADING}'", lines[0] if lines else "nothing")
    extents = []
    for line in lines[lines.index(HEADING) + 1 :]:
        row = _ROW.fullmatch(line.strip())
        if row is None:
            raise _refused("'<n>,<major>,<minor>,<first>,<last>,<owner>,...'", line)
        inode = _INODE.fullmatch(row[5])
        extents.append(
            XfsExtent(
                int(row[3]),
                int(row[4]),
                "file" if inode else OWNERS.get(row[5], "unknown"),
                int(inode[1]) if inode else None,
                inode[2] if inode else "",
                int(row[6]) if row[6] else None,
            )
        )
        if len(extents) > MAX_EXTENTS:
            raise _refused(f"at most {MAX_EXTENTS} lines", "more")
    return tuple(extents)


def parse_inode(text: str) -> FoundInode | None:
    r"""Parse the output of 'find -printf' for an inode; None: not found, whatever its errors."""
    if "\0" not in text:
        return None
    row = _FOUND.fullmatch(text.partition("\0")[0])
    if row is None:
        raise ParseError(f"'find': expected '<type>:<size>:<path>', got {text[:120]!r}")
    return FoundInode(row[1], int(row[2]), row[3])


@dataclass(frozen=True, slots=True)
class OwnedSectors:
    """The extents of some sectors, and their inodes by number; None: not found, str: why."""

    extents: tuple[XfsExtent, ...]
    inodes: Mapping[int, FoundInode | str | None]


def query_owned_sectors(
    root: Machine, mount_point: str, sector: int, count: int, time_left: Callable[[], float]
) -> OwnedSectors:
    """Run xfs_io for some sectors of the data device, and find for their inodes. By the probe.

    `time_left` returns the timeout of the next run, or raises a DeadlineError. Limits: of an inode
    the first path that find finds, of perhaps several. Errors: AbsentError, ProgramNotFoundError,
    StuckError, DeadlineError, ReadError, ParseError.
    """
    last = sector + count - 1
    words = ("xfs_io", "-r", "-c", f"fsmap -d -m {sector} {last}", mount_point)
    listed = parse_fsmap(run_program(root, time_left(), *words))
    extents = tuple(each for each in listed if each.first <= last and each.last >= sector)
    inodes: dict[int, FoundInode | str | None] = {}
    numbers = dict.fromkeys(each.inode for each in extents if each.inode is not None)
    for number in [*numbers][:MAX_INODES]:
        find = ("find", mount_point, "-xdev", "-inum", str(number), "-printf", FORMAT, "-quit")
        try:
            inodes[number] = parse_inode(run_program(root, time_left(), *find))
        except (AbsentError, ReadError, ParseError) as error:
            inodes[number] = str(error)
    return OwnedSectors(extents, inodes)


def to_json(owned: OwnedSectors) -> dict[str, Any]:
    """Return the answer to the verb, to be printed as JSON."""
    return {
        "extents": [
            [each.first, each.last, each.owner, each.inode, each.part, each.offset_sectors]
            for each in owned.extents
        ],
        "inodes": [
            [number, *((inode.kind, inode.size_bytes, inode.path) if inode else ("", 0, "")), why]
            for number, found in owned.inodes.items()
            for inode, why in [(None, found) if isinstance(found, str) else (found, "")]
        ],
    }


def from_json(text: str) -> OwnedSectors:
    """Parse the JSON of `to_json`. Errors: ParseError."""
    try:
        found = json.loads(text)
        extents = [dict(zip(_EXTENT, row, strict=True)) for row in field(list, found, "extents")]
        inodes = [dict(zip(_NAMED, row, strict=True)) for row in field(list, found, "inodes")]
        return OwnedSectors(
            tuple(
                XfsExtent(
                    field(int, row, "first"),
                    field(int, row, "last"),
                    field(str, row, "owner"),
                    optional(int, row, "inode"),
                    field(str, row, "part"),
                    optional(int, row, "offset"),
                )
                for row in extents
            ),
            {field(int, row, "number"): _named(row) for row in inodes},
        )
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ParseError(
            f"probe '{VERB}': expected owners of sectors as JSON, got {text[:80]!r}:"
            f" {type(error).__name__}: {error}"
        ) from None


_EXTENT = ("first", "last", "owner", "inode", "part", "offset")
_NAMED = ("number", "kind", "bytes", "path", "problem")


def _named(row: Mapping[str, Any]) -> FoundInode | str | None:
    if problem := field(str, row, "problem"):
        return problem
    kind = field(str, row, "kind")
    return FoundInode(kind, field(int, row, "bytes"), field(str, row, "path")) if kind else None


def read_owned_sectors(
    root: Machine, mount_point: str, sector: int, count: int, deadline_seconds: float
) -> OwnedSectors:
    """Query the probe for the owners of sectors of the data device. Errors: as above."""
    arguments = (mount_point, str(sector), str(count))
    return from_json(root.query_probe(VERB, *arguments, deadline_seconds=deadline_seconds))


def _refused(expected: str, got: str) -> ParseError:
    return ParseError(f"'xfs_io fsmap': expected {expected}, got {got[:120]!r}")
