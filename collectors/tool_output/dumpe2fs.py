"""'dumpe2fs -b' and '-h': bad blocks of ext2, ext3 and ext4, and the errors in their superblock.

Source: e2fsprogs, misc/dumpe2fs.c, list_bad_blocks: one number in a line with '-b', else
'Bad blocks: 1, 2, 3'; lib/e2p/ls.c, list_super2: 'Filesystem state', 'FS Error count', 'Last error
time'. e2fsck without errors sets the count to 0.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.parsed_text import Finding, Parsed, TextObject, Tool, UnparsedLine
from iowarden.collectors.raid.controller import ComponentHealth

if TYPE_CHECKING:
    from collections.abc import Mapping

_BANNER = lazy_pattern(r"(?:dumpe2fs|tune2fs) \d\S{0,40}(?: \(.*\))?")
_LIST = lazy_pattern(r"(?:Bad blocks: )?\d{1,20}(?:,? \d{1,20})*,?")
_FIELD = lazy_pattern(r"(?P<name>[A-Z][\w #/()-]{2,40}): *(?P<value>.*)")
"""A field of the superblock; only those of `_ERRORS` are about faults."""
_STATE = "Filesystem state"
"""In each output with '-h'; the banner is on stderr and so in no file."""
_ERRORS = (_STATE, "FS Error count", "Last error time")
_MAX_RANGES = 12


def parse_dumpe2fs(text: str) -> Parsed:
    """Parse the list of bad blocks; lines of another kind are reported."""
    blocks: list[int] = []
    unread: list[UnparsedLine] = []
    has_banner = False
    fields: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        words = " ".join(line.split())
        if not words:
            continue
        if _BANNER.fullmatch(words):
            has_banner = True
        elif _LIST.fullmatch(words):
            blocks += map(int, words.removeprefix("Bad blocks: ").replace(",", " ").split())
        elif (field := _FIELD.fullmatch(words)) is not None:
            fields[field["name"]] = field["value"]
        else:
            unread.append(UnparsedLine("dumpe2fs: expected numbers of blocks", line, number))
    health = ComponentHealth.ATTENTION if blocks else ComponentHealth.OK
    findings: tuple[Finding, ...] = (_finding(sorted(set(blocks))),) if blocks else ()
    findings += _errors(fields)
    known = bool(blocks) or _STATE in fields or (has_banner and not unread)
    objects = (
        TextObject("filesystem", "bad blocks", "", health, counts={"blocks": len(set(blocks))}),
    )
    return Parsed(
        Tool.DUMPE2FS,
        objects=objects if known and (blocks or not fields) else (),
        findings=findings,
        outputs=("dumpe2fs -h" if fields else "dumpe2fs -b",) if known else (),
        unparsed=tuple(unread),
    )


def _errors(fields: Mapping[str, str]) -> tuple[Finding, ...]:
    """Return the errors that the kernel has recorded since the last check."""
    state, count, last = (fields.get(name, "") for name in _ERRORS)
    if "errors" not in state and count in {"", "0"}:
        return ()
    name = fields.get("Last mounted on") or fields.get("Filesystem UUID") or "filesystem"
    text = f"{name}: state '{state or 'not in the text'}'"
    text += f", {count} errors since its last check" if count not in {"", "0"} else ""
    text += f", the last at {last}" if last else ""
    return (
        Finding(
            "warning",
            "Ext4ErrorsRecorded",
            name,
            text,
            "Save the data, check the disk's SMART data and the kernel's messages, then run e2fsck"
            " while it is not mounted.",
        ),
    )


def _finding(blocks: list[int]) -> Finding:
    ranges: list[list[int]] = [[blocks[0], blocks[0]]]
    for before, block in pairwise(blocks):
        if block == before + 1:
            ranges[-1][1] = block
        else:
            ranges.append([block, block])
    shown = ", ".join(
        f"{first}-{last}" if last > first else f"{first}" for first, last in ranges[:_MAX_RANGES]
    )
    more = f" and {len(ranges) - _MAX_RANGES} more ranges" if len(ranges) > _MAX_RANGES else ""
    return Finding(
        "warning",
        "Ext4BadBlocks",
        "filesystem",
        f"{len(blocks)} blocks are in the file system's list of bad blocks: {shown}{more}; no file"
        " uses them, and the disk could not read them once",
        "Check the disk's SMART data and its kernel messages: a disk with unreadable sectors gets"
        " more of them. 'debugfs -R \"icheck BLOCK\"' shows that no file has a block.",
    )
