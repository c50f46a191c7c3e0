"""df in a text: which file systems are full, or have no inodes left.

Source: df(1), GNU coreutils: 'df', 'df -h', 'df -T', 'df -i'; the share is the one of what
unprivileged users may use. Headings of some languages. Without '-T' the table has no types: an
image, which is always full, is recognized by its device or mount point.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.parsed_text import (
    DF_HEADINGS,
    Finding,
    Parsed,
    TextObject,
    Tool,
    UnparsedLine,
)
from iowarden.collectors.raid.controller import ComponentHealth

if TYPE_CHECKING:
    from collections.abc import Iterator

NEARLY_FULL_RATIO, FULL_RATIO = 0.8, 0.9
"""Used share of a file system above which it is a warning, and critical: rules/filesystem.yaml."""
AMPLE_BYTES = 1e11
"""Available bytes with which a file system is not full, whatever its share: as in that file."""
_HEADING = lazy_pattern(rf"(?:{DF_HEADINGS})[ \t]+\S.*(?:%|Capacity)[ \t]+\S.*")
_ROW = lazy_pattern(
    r"(?P<device>\S(?:[^\n]*?\S)?)[ \t]+(?:(?P<type>[a-z][\w.-]*)[ \t]+)?(?P<size>[\d.,]+[A-Z]?|-)"
    r"[ \t]+(?P<used>[\d.,]+[A-Z]?|-)[ \t]+(?P<left>-?[\d.,]+[A-Z]?|-)[ \t]+"
    r"(?P<percent>\d{1,3}%|-)[ \t]+(?P<mount_point>/[^\n]*)",
    re.ASCII,
)
_BLOCKS = lazy_pattern(r"[ \t](?P<size>\d{1,9}[A-Z]?)-\S+")
_INODES = lazy_pattern(r"[ \t](?:I[Uu]|I-?[Nn]ode)")
"""In a heading of 'df -i', in any language."""
_SIZE = lazy_pattern(r"(?P<number>\d{1,20}(?:[.,]\d{1,10})?)(?P<unit>[KMGTPEZ]?)(?:i?B)?", re.ASCII)
_PREFIXES = " KMGTPEZ"
_IN_MEMORY = frozenset({"tmpfs", "udev", "devtmpfs", "none", "efivarfs", "shm", "run", "dev"})
"""Of a table without types: what stands in place of a device."""
_NOT_WRITTEN = frozenset({"squashfs", "iso9660", "udf", "erofs", "cramfs", "efivarfs"})
"""Images, and the firmware's variables: they are as full as they were made."""
_IMAGES = lazy_pattern(r"/dev/(?:loop|sr)\d{1,4}|/snap/|/media/cdrom|/cdrom")
_ADVICE = (
    "What uses the space: du -xh --max-depth=2 MOUNTPOINT | sort -h | tail -20; deleted files that"
    " are still open: lsof +L1 MOUNTPOINT"
)
_INODE_ADVICE = (
    "Which directory has the files: du -x --inodes --max-depth=2 MOUNTPOINT | sort -n | tail -20"
)


def size_bytes(text: str) -> float | None:
    """Return what a size such as '1.09TiB', '3,6T' or '512' means, in bytes; None: it is none.

    Units are powers of 1024, as of 'df -h' and btrfs-progs.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    number = float(match["number"].replace(",", "."))
    return number * 1024.0 ** _PREFIXES.index(match["unit"] or " ")


@dataclass(frozen=True, slots=True)
class _Table:
    """The columns of a heading: the unit of a plain number, and whether the rows count inodes."""

    unit_bytes: float
    of_inodes: bool


def parse_df(text: str) -> Parsed:
    """Parse the tables of df; a row that is none is reported."""
    objects: list[TextObject] = []
    findings: list[Finding] = []
    unread: list[UnparsedLine] = []
    table: _Table | None = None
    device = ""
    for number, line in enumerate(text.split("\n"), 1):
        if (heading := _HEADING.fullmatch(line.strip())) is not None:
            table = _table(heading)
            continue
        if table is None or not line.strip() or line.startswith("df: "):
            if line.startswith("df: "):  # '/mnt: Stale file handle', 'Input/output error'
                unread.append(UnparsedLine("df: could not be read", line, number, fault=True))
            continue
        row = _ROW.fullmatch(f"{device} {line}".strip())
        if row is None:
            # A long device has a line of its own, the rest of its row is below it.
            is_device = not device and " " not in line.strip()
            if not is_device:
                unread.append(UnparsedLine("df: expected a row of a file system", line, number))
            device = line.strip() if is_device else ""
            continue
        device = ""
        objects.append(_file_system(row, table))
        findings += _faults(row, table)
    if not objects:
        unread.append(
            UnparsedLine("df: expected a row below 'Filesystem ... Mounted on', got none")
        )
    return Parsed(
        Tool.DF,
        objects=tuple(objects),
        findings=tuple(findings),
        outputs=("df",) if objects else (),
        unparsed=tuple(unread),
    )


def _table(heading: re.Match[str]) -> _Table:
    blocks = _BLOCKS.search(heading[0])
    unit = size_bytes(blocks["size"]) if blocks is not None else 1.0
    return _Table(unit or 1.0, _INODES.search(heading[0]) is not None)


def _used_ratio(row: re.Match[str]) -> float | None:
    """Return the used share; None: it is not in the row, or not of what programs write to."""
    is_memory = row["type"] is None and row["device"] in _IN_MEMORY
    is_image = row["type"] in _NOT_WRITTEN or any(
        _IMAGES.match(row[name]) for name in ("device", "mount_point")
    )
    if row["percent"] == "-" or is_memory or is_image:
        return None
    return int(row["percent"].removesuffix("%")) / 100


def _file_system(row: re.Match[str], table: _Table) -> TextObject:
    ratio = _used_ratio(row)
    health = ComponentHealth.ATTENTION if [*_faults(row, table)] else ComponentHealth.OK
    details: dict[str, str | float] = {"device": row["device"]}
    if ratio is not None:
        details["inodes_used" if table.of_inodes else "used"] = row["percent"]
    return TextObject("file system", row["mount_point"], "", health, "", details)


def _faults(row: re.Match[str], table: _Table) -> Iterator[Finding]:
    ratio = _used_ratio(row)
    if ratio is None or ratio <= NEARLY_FULL_RATIO:
        return
    point = row["mount_point"]
    severity = "critical" if ratio > FULL_RATIO else "warning"
    if table.of_inodes:
        text = f"{point}: {row['percent']} of its inodes are used; no file can be made without one"
        advice = _INODE_ADVICE.replace("MOUNTPOINT", point)
        yield Finding(severity, "FilesystemInodesLow", point, text, advice)
        return
    left = size_bytes(row["left"])
    scale = 1.0 if row["left"][-1:].isalpha() else table.unit_bytes
    if left is not None and left * scale >= AMPLE_BYTES:
        return
    text = f"{point} is {row['percent']} full; programs that write there fail when it is full"
    yield Finding(severity, "FilesystemFull", point, text, _ADVICE.replace("MOUNTPOINT", point))
