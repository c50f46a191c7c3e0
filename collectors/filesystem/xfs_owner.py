"""Find the owner of a sector of a mounted XFS with 'xfs_io -c fsmap', and the path of an inode.

Source: xfs_io(8) 6.1, ioctl_getfsmap(2), linux/fsmap.h and xfs_fs.h (XFS_FMR_OWN_*); tried on a
mounted image. Units: sectors of 512 bytes, also the offset in a file.
Limits: the kernel knows owners only if the file system has a reverse map ('rmapbt=1', the default
since xfsprogs 6.5 [unchecked]); otherwise all used space is 'unknown'. XFS before parent pointers
cannot report the path of an inode: find walks the directories until it finds the inode.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError
from iowarden.collectors.program import run_program

if TYPE_CHECKING:
    from iowarden.collectors.machine import Machine

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


def read_fsmap(
    root: Machine, mount_point: str, first: int, last: int, deadline_seconds: float
) -> tuple[XfsExtent, ...]:
    """Query the owners of sectors of the data device.

    Errors: AbsentError, ProgramNotFoundError, StuckError, DeadlineError, ReadError, ParseError.
    """
    command = f"fsmap -d -m {first} {last}"
    text = run_program(root, deadline_seconds, "xfs_io", "-r", "-c", command, mount_point)
    return parse_fsmap(text)


def parse_inode(text: str) -> FoundInode | None:
    r"""Parse the output of 'find -printf' for an inode; None: not found, whatever its errors."""
    if "\0" not in text:
        return None
    row = _FOUND.fullmatch(text.partition("\0")[0])
    if row is None:
        raise ParseError(f"'find': expected '<type>:<size>:<path>', got {text[:120]!r}")
    return FoundInode(row[1], int(row[2]), row[3])


def read_inode(
    root: Machine, mount_point: str, inode: int, deadline_seconds: float
) -> FoundInode | None:
    """Query a path of an inode; None: not found. Errors: as `read_fsmap`.

    Limits: the first path that find finds, of perhaps several; minutes, with millions of files.
    """
    words = ("find", mount_point, "-xdev", "-inum", str(inode), "-printf", FORMAT, "-quit")
    return parse_inode(run_program(root, deadline_seconds, *words))


def _refused(expected: str, got: str) -> ParseError:
    return ParseError(f"'xfs_io fsmap': expected {expected}, got {got[:120]!r}")
