"""'dumpe2fs -b', and the list in 'dumpe2fs': blocks of ext2, ext3 and ext4 that no file uses.

Source: e2fsprogs, misc/dumpe2fs.c, list_bad_blocks: one number in a line with '-b', else
'Bad blocks: 1, 2, 3'.
"""

from __future__ import annotations

from itertools import pairwise

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.tool_output.parsed import Finding, Parsed, TextObject, Tool, UnparsedLine

_BANNER = lazy_pattern(r"dumpe2fs \d\S{0,40}(?: \(.*\))?")
_LIST = lazy_pattern(r"(?:Bad blocks: )?\d{1,20}(?:,? \d{1,20})*,?")
_MAX_RANGES = 12


def parse_dumpe2fs(text: str) -> Parsed:
    """Parse the list of bad blocks; lines of another kind are reported."""
    blocks: list[int] = []
    unread: list[UnparsedLine] = []
    has_banner = False
    for number, line in enumerate(text.split("\n"), 1):
        words = " ".join(line.split())
        if not words:
            continue
        if _BANNER.fullmatch(words):
            has_banner = True
        elif _LIST.fullmatch(words):
            blocks += map(int, words.removeprefix("Bad blocks: ").replace(",", " ").split())
        else:
            unread.append(UnparsedLine("dumpe2fs: expected numbers of blocks", line, number))
    health = ComponentHealth.ATTENTION if blocks else ComponentHealth.OK
    findings: tuple[Finding, ...] = ()
    if blocks:
        findings = (_finding(sorted(set(blocks))),)
    known = bool(blocks) or (has_banner and not unread)
    return Parsed(
        Tool.DUMPE2FS,
        objects=(
            TextObject("filesystem", "bad blocks", "", health, counts={"blocks": len(set(blocks))}),
        )
        if known
        else (),
        findings=findings,
        outputs=("dumpe2fs -b",) if known else (),
        unparsed=tuple(unread),
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
