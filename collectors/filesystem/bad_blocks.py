"""Bad block lists of ext2, ext3 and ext4: blocks that a check found unreadable; no file uses them.

Source: dumpe2fs(8) 1.47, '-b', tried: one number of a block in each line. 'mke2fs -c' and
'e2fsck -c' write the list. Limits: of a mounted file system it may be the one before a check.
A disk that sleeps may wake up for it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.filesystem.ext4 import DIRECTORY, mounted_names
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import AbsentError, Family, ParseError, ReadError, Sample
from iowarden.collectors.program import run_program
from iowarden.collectors.source import Source
from iowarden.collectors.sysfs import device_name

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.model import Labels

DEADLINE_SECONDS = 60.0
"""It reads a few blocks; the idle I/O priority makes it wait for other programs."""
_BANNER = lazy_pattern(r"dumpe2fs \d\S* \(.*\)")
_NUMBER = lazy_pattern(r"\d{1,20}", re.ASCII)


@dataclass(frozen=True, slots=True)
class BadBlocks:
    """The list of one mounted file system, by its block device."""

    device: str
    blocks: int = 0
    """Length of the list."""
    reason: str = ""
    """Why it could not be read."""


FAMILIES = (
    Family(
        "iowarden_ext4_bad_blocks",
        "gauge",
        "Blocks in the file system's own list of bad blocks, which no file uses.",
    ),
)


def parse_bad_blocks(output: str) -> int:
    """Return the number of blocks that 'dumpe2fs -b' printed. Errors: ParseError."""
    lines = [line.strip() for line in output.splitlines()]
    blocks = [line for line in lines if line and not _BANNER.fullmatch(line)]
    odd = next((line for line in blocks if not _NUMBER.fullmatch(line)), None)
    if odd is not None:
        raise ParseError(f"'dumpe2fs -b': expected a number in each line, got {odd[:120]!r}")
    return len(blocks)


def read_bad_blocks(
    root: Machine, enter: Callable[[Hashable], str] = lambda _: ""
) -> dict[str, BadBlocks]:
    """Read the list of every mounted file system, by device.

    `enter` is called for each before it is read; it returns '', or why it is skipped. Errors:
    AbsentError (no such file system, no probe, no program), ReadError (of the directory).
    """
    found = {}
    for name in mounted_names(root):
        device = device_name(name)
        blocks, reason = 0, enter(device)
        if not reason:
            try:
                blocks = parse_bad_blocks(
                    run_program(root, DEADLINE_SECONDS, "dumpe2fs", "-b", f"/dev/{device}")
                )
            except (ReadError, ParseError) as error:
                reason = str(error)
        found[device] = BadBlocks(device, blocks, reason)
    if not found:
        raise AbsentError(f"'{DIRECTORY}': no file system")
    return found


def emit(value: Mapping[str, BadBlocks]) -> list[Sample]:
    """Return the samples of FAMILIES."""
    return [
        ("iowarden_ext4_bad_blocks", (("device", each.device),), float(each.blocks))
        for each in value.values()
        if not each.reason
    ]


def unreadable(value: Mapping[str, BadBlocks]) -> Iterator[tuple[Labels, str]]:
    """Yield the file systems whose list could not be read, and why."""
    for each in value.values():
        if each.reason:
            yield (("device", each.device),), each.reason


SOURCE: Source[Mapping[str, BadBlocks]] = Source(
    name="bad_blocks",
    period_seconds=86_400,
    may_hang=True,
    read=read_bad_blocks,
    families=FAMILIES,
    emit=emit,
    objects=("device",),
    unreadable=unreadable,
    parts=read_bad_blocks,
)
