"""Parse lines of the kernel log about requests: 'I/O error, dev sda, sector 8' and similar.

Source: kernel, block/blk-core.c, blk_errors, print_req_error, blk_print_req_error.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.kmsg import kernel_drivers
from iowarden.collectors.kmsg.kernel_classifier import Classifier, ScsiCommand, Taken, continues
from iowarden.collectors.kmsg.kernel_patterns import Fields, number
from iowarden.collectors.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from iowarden.collectors.kmsg.kernel_line import KernelLine

_SECTORS_PER_SEGMENT = 8
"""A segment is a page of 4 KiB or more."""
_RAHEAD = 0x80000
"""REQ_RAHEAD of a request's flags (Linux 4.10 and later, which print them only from 5.0 on)."""
_BLOCK_FACTORS = (1, 8)
"""Sectors in a logical block."""


_BLOCK = lazy_pattern(
    r"(?P<device>[^\s,]+)(?: \((?P<name>\w+)\))?, (?:sector|logical block) (?P<sector>[0-9]{1,20})"
    r"(?: op 0x[0-9a-f]+:\((?P<operation>\w+)\))?"
    r"(?: flags (?:0x)?(?P<flags>[0-9a-f]{1,16}))?(?: phys_seg (?P<segments>[0-9]{1,10}))?",
    re.ASCII,
)
_NUMBERS = lazy_pattern(r"([0-9a-f]{1,4}):([0-9a-f]{1,8})", re.ASCII)
_BLOCK_KINDS = {
    "I/O": "block_io_error",
    "critical medium": "block_medium_error",
    "critical target": "block_target_error",
    "timeout": "block_timeout",
    "recoverable transport": "block_transport_error",
    "protection": "block_protection_error",
    "critical space allocation": "block_space_error",
    "critical nexus": "block_reservation_error",
    "reservation conflict": "block_reservation_error",
    "device offline": "block_offline",
    "device offline or changed": "block_offline",
}
"""Source: kernel, block/blk-core.c, blk_errors; any other is 'block_io_error' with its own text."""
_NO_DATA = frozenset({"DISCARD", "SECURE_ERASE", "WRITE_ZEROES"})


def request_error(state: Classifier, line: KernelLine, text: str) -> Taken:
    """Parse 'I/O error, dev sda, sector 8 op 0x0:(READ) ...'."""
    head, _, rest = text.partition(" error, dev ")
    found = _BLOCK.match(rest)
    if found is None:
        return state, None
    word = re.split(r"[:|] ", head)[-1].strip()
    device = _numbered(found["device"], found["name"])
    sector = number(found["sector"])
    kind = _BLOCK_KINDS.get(word, "block_io_error")
    if found["operation"] in _NO_DATA and kind in {"block_target_error", "block_io_error"}:
        kind = "block_discard_error"
    fields: Fields = {
        "device": device,
        "sector": sector,
        "code": word,
        "read_ahead": bool(int(found["flags"] or "0", 16) & _RAHEAD),
    }
    segments = number(found["segments"])
    if segments:
        fields["sectors"] = segments * _SECTORS_PER_SEGMENT
    scsi = state.scsi
    if scsi.device == device and sector is not None and continues(scsi, line):
        rest_sectors = _rest(scsi.command, sector)
        if rest_sectors is not None:
            fields["sectors"] = rest_sectors
            fields |= {"sense_key": scsi.sense_key, "asc": scsi.asc, "ascq": scsi.ascq}
            state = state._replace(scsi=ScsiCommand())
    return state, (kind, fields)


_FIRST = lazy_pattern(
    r"(?P<device>[a-z][\w!.-]*): .*?(?:\b(?:sector|location) (?P<sector>[0-9]{1,20})|$)", re.ASCII
)


def device_first(state: Classifier, _line: KernelLine, text: str) -> Taken:
    """Parse 'dm-3: writeback error on inode 9, offset 0, sector 8': it may begin with any name."""
    found = _FIRST.match(text)
    kind = kernel_drivers.kind_of("block", text)
    if found is None or kind is None:
        return state, None
    return state, (kind, {"device": found["device"], "sector": number(found["sector"])})


def _rest(command: tuple[int, int] | None, sector: int) -> int | None:
    """Return the sectors from this one to the end of the command; None: another command's."""
    if command is not None:
        first, blocks = command
        for factor in _BLOCK_FACTORS:
            if first * factor <= sector < (first + blocks) * factor:
                return (first + blocks) * factor - sector
    return None


def _numbered(device: str, name: str | None) -> str:
    """Return the device of Linux 2.4's '16:41 (hdd)': hexadecimal major and minor, and the disk."""
    found = _NUMBERS.fullmatch(device)
    if found is None or not name:
        return device
    partition = int(found[2], 16) & (0x3F if name.startswith("hd") else 0x0F)
    return f"{name}{partition or ''}"
