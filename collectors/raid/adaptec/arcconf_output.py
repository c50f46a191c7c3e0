"""Split the output of arcconf into headings and the '<key> : <value>' lines below them. Pure.

Units: an MB is 2^20 bytes there, whatever the label: 953869 MB is a disk of 1 TB.
Limits: arcconf prints 'Command completed successfully.' also for a card that it cannot reach.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.raid import output

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPLETED = lazy_pattern(r"^[ \t]*Command completed successfully\.", re.MULTILINE | re.IGNORECASE)
CONTROLLERS_FOUND = lazy_pattern(
    r"^[ \t]*Controllers found:? ?(\d{1,3})[ \t]*$", re.MULTILINE | re.IGNORECASE
)
_RULE = lazy_pattern(r"[-=]{10,}")
_SECTIONS = {
    "controller information": "controller",
    "array information": "array",
    "logical device information": "logical",
    "logical drive information": "logical",
    "physical device information": "physical",
}
_MAXCACHE = lazy_pattern(r"maxcache(?: [0-9.]{1,8})? information", re.ASCII)
_CONTINUED = frozenset({"supercap information", "life-time temperature recorded"})
"""Headings within one block."""
DEGREES = lazy_pattern(r"(-?\d{1,3}) (?:deg )?C\b", re.ASCII)
"""Beginning of a temperature: '23 C/ 73 F (Normal)' or '23 deg C'."""


@dataclass(slots=True)
class Block:
    """The lines '<key> : <value>' below a heading. Keys are in lower case."""

    section: str
    title: str
    pairs: list[tuple[str, str]] = field(default_factory=list)

    def get(self, *keys: str) -> str:
        """Return the value of the first of the keys that has one, '' if none has."""
        return next((value for key, value in self.pairs if key in keys and value), "")


def completed(command: str, text: str) -> str:
    """Return an output after checking that it is complete. Errors: ParseError."""
    plain = output.plain(text)
    if COMPLETED.search(plain) is None:
        raise output.refused(
            f"arcconf {command}", "'Command completed successfully.' at its end", plain
        )
    return plain


def blocks_of(plain: str) -> Iterator[Block]:
    """Yield the block below each heading, first the lines before any heading."""
    block = Block("", "")
    for line in plain.splitlines():
        told = " ".join(line.split())
        pair = _pair(line)
        if not told or _RULE.fullmatch(told):
            continue
        title = told.casefold()
        if pair is not None:
            block.pairs.append(pair)
        elif title not in _CONTINUED:
            yield block
            section = "maxcache" if _MAXCACHE.fullmatch(title) else _SECTIONS.get(title)
            block = Block(section or block.section, title)
    yield block


def _pair(line: str) -> tuple[str, str] | None:
    """Parse key and value of a line. A key may have a colon: 'Channel,Device(T:L)   : 0,1(1:0)'."""
    key, colon, value = line.partition(" :")
    if not colon or (value and not value[0].isspace()):
        key, colon, value = line.partition(": ")
    if not colon or not key.strip():
        return None
    return " ".join(key.split()).casefold(), " ".join(value.split())


def titled(blocks: list[Block], title: str) -> Block:
    """Return the first block of a title, an empty one if there is none."""
    return next((block for block in blocks if block.title == title), Block("", ""))


def serial_of(text: str) -> str:
    """Return a serial number, '' for a placeholder such as 'N/A'."""
    return (
        ""
        if text.casefold() in {"not applicable", "not available", "unknown"}
        else output.excerpt(text)
    )


def megabytes(text: str) -> int | None:
    """Return '953869 MB' in bytes, None if it is no size."""
    return output.size_bytes(text, 1024) or None


def switch(word: str) -> bool | None:
    """Return whether 'On' or 'Disabled (write-through)' means enabled, None: unknown value."""
    first = word.casefold().partition(" ")[0]
    return {"on": True, "enabled": True, "off": False, "disabled": False}.get(first)
