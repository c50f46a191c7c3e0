"""Where an event of a MegaRAID controller happened, by its text; also one in the kernel log. Pure.

Apart from the parser of its log, so that the kernel log is read without it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCE = "megaraid"
_COMMAND = lazy_pattern(r"CDB: ((?:[0-9a-f]{2} ){5,31}[0-9a-f]{2})", re.IGNORECASE | re.ASCII)
_AT = lazy_pattern(r"\bPD \S+ at ([0-9a-f]{1,16})\b", re.IGNORECASE)
_DISK = lazy_pattern(
    r"\bPD ([0-9a-f]{1,4})\((?:e0x([0-9a-f]{1,4})/s(\d{1,3})|([^)]{1,60}))\)", re.IGNORECASE
)
_ARRAY = lazy_pattern(r"\bVDs? ([0-9a-f]{1,3})(?:/([0-9a-f]{1,3}))?\b", re.IGNORECASE)
_ENCLOSURE = lazy_pattern(r"\bEncl(?:osure)?(?: PD)? ([0-9a-f]{1,4})\b", re.IGNORECASE)
_NO_ENCLOSURE = frozenset({0xFF, 0xFFFF})
_COMMANDS = {
    0x08: (1, 4),
    0x0A: (1, 4),
    0x28: (2, 6),
    0x2A: (2, 6),
    0x2E: (2, 6),
    0x2F: (2, 6),
    0xA8: (2, 6),
    0xAA: (2, 6),
    0x88: (2, 10),
    0x8A: (2, 10),
    0x8E: (2, 10),
    0x8F: (2, 10),
}
"""Offset of the block address in a command: reads, writes, verifies. Source: SBC-3."""
_BITS_21 = 0x1FFFFF


def where(description: str) -> tuple[str, int | None]:
    """Return place and block of an event by its text alone: of one from the kernel log."""
    return place(description, {}), block_of(description)


def place(description: str, fields: Mapping[str, str]) -> str:
    """Return the place of a disk or array as in the controller's state; '' if not reported."""
    if found := _DISK.search(description):
        enclosure = int(found[2], 16) if found[2] else None
        if found[3] is None:
            return f"device {int(found[1], 16)}"
        slot = int(found[3])
        if enclosure is None or enclosure in _NO_ENCLOSURE:
            return f"slot {slot}"
        return f"enclosure {enclosure} slot {slot}"
    target = fields.get("target id", "")
    if re.fullmatch(r"\d{1,4}", target, re.ASCII):
        return f"virtual drive {int(target)}"
    if found := _ARRAY.search(description):
        return f"virtual drive {int(found[2] or found[1], 16)}"
    if found := _ENCLOSURE.search(description):
        return f"enclosure {int(found[1], 16)}"
    return ""


def block_of(description: str) -> int | None:
    """Return the disk's block in the text, or the first block of the failed command."""
    if found := _AT.search(description):
        return int(found[1], 16)
    command = _COMMAND.search(description)
    if command is None:
        return None
    data = bytes.fromhex(command[1])
    if data[0] not in _COMMANDS:
        return None
    begin, end = _COMMANDS[data[0]]
    if len(data) < end:
        return None
    address = int.from_bytes(data[begin:end], "big")
    return address & _BITS_21 if begin == 1 else address
