"""Which wrong checksums of btrfs were corrected from another copy. Pure.

The kernel logs that a block is wrong when it has read it, and 'read error corrected' or 'fixed up
error' once it has read another copy and rewritten the block: at once, if the disk can write. Both
name the block: in a file by inode and offset, else by its logical address, in the correction of
metadata as the offset of inode 0 or 1.
Source: kernel, fs/btrfs/bio.c, btrfs_repair_io_failure; disk-io.c, btrfs_read_extent_buffer;
scrub.c, scrub_stripe_report_errors.
Limits: both are rate-limited, so a correction may be missing in a storm; then, and where a file
system that is mounted read-only does not rewrite, the read counts as not corrected.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.collectors.event import StorageEvent

REPAIR_SECONDS = 5.0
"""How long a wrong checksum waits for its correction: a rewrite by a disk that is busy."""
CORRECTED = "fs_checksum_corrected"
KINDS = {CORRECTED: "a block was wrong, and was corrected from another copy"}
_WRONG, _REPAIRED = "fs_checksum_error", "fs_read_corrected"
_METADATA_INODES = frozenset({"0", "1"})
_IN_FILE = re.compile(r"\bino (?P<inode>\d{1,20}) off (?P<offset>\d{1,20})", re.ASCII)
_ADDRESS = re.compile(r"(?:\blogical |\bwant |\bblock[= ])(?P<address>\d{1,20})", re.ASCII)
_SCRUB = re.compile(r"fixed up error .* on (?:dev .* physical|mirror) ", re.ASCII)
_STRIPE = 65_536
"""Bytes. Source: kernel, fs/btrfs/volumes.h, BTRFS_STRIPE_LEN."""
_PREFIX = re.compile(r"btrfs\b", re.IGNORECASE)

Block = tuple[str, str, str]
"""Boot, inode ('' for a logical address), offset or address."""


def awaits_repair(event: StorageEvent) -> bool:
    """Whether an event may be followed by the line that it was corrected."""
    return event.kind == _WRONG and _block(event) is not None


def repairs(events: Iterable[StorageEvent]) -> tuple[StorageEvent, ...]:
    """Return the events that report a repair."""
    return tuple(each for each in events if each.kind == _REPAIRED)


def settled(event: StorageEvent, repaired: Iterable[StorageEvent]) -> StorageEvent:
    """Return a wrong checksum as corrected if one of these repairs is its own, else itself."""
    block = _block(event) if event.kind == _WRONG else None
    if block is None:
        return event
    own = any(_follows(event, other) and _is_of(block, other) for other in repaired)
    return replace(event, kind=CORRECTED) if own else event


def _is_of(block: Block, repair: StorageEvent) -> bool:
    """Whether a repair is that of a block: a scrub reports it by the start of 64 KiB, from 6.4 on.

    What it cannot repair in these 64 KiB has a line of its own.
    """
    repaired = _block(repair)
    if repaired is None or repaired[:2] != block[:2]:
        return False
    distance = int(block[2]) - int(repaired[2])
    return distance == 0 or (_SCRUB.search(repair.text) is not None and 0 < distance < _STRIPE)


def _follows(event: StorageEvent, repair: StorageEvent) -> bool:
    """Whether a repair can be that of an event: an old one does not excuse a new error."""
    for one, other in (
        (event.monotonic_seconds, repair.monotonic_seconds),
        (event.realtime_seconds, repair.realtime_seconds),
    ):
        if one is not None and other is not None:
            return 0.0 <= other - one <= REPAIR_SECONDS
    return True


def _block(event: StorageEvent) -> Block | None:
    if not _PREFIX.match(event.text) or "unable to fixup" in event.text:
        return None
    if found := _IN_FILE.search(event.text):
        inode = "" if found["inode"] in _METADATA_INODES else found["inode"]
        return event.boot_id, inode, found["offset"]
    found = _ADDRESS.search(event.text)
    return (event.boot_id, "", found["address"]) if found else None
