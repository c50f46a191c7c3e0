"""What tracefs reports about its binary data: the header of a page, the fields of an event.

*Source:* kernel, trace/events.rst, 'format'; trace/ring_buffer.c, ring_buffer_print_page_header.
Offsets and sizes differ between kernels (RWBS_LEN was 8, 9 and 10; 'ioprio' came with 6.10).
"""

from __future__ import annotations

import operator
import re
import struct
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import ParseError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MAX_PAGE_BYTES = 4 * 1024 * 1024
_FIELD = re.compile(
    r"\tfield:[^;\n]*?\b(\w+)(\[\w*\])?;\toffset:(\d{1,7});\tsize:(\d{1,7});\tsigned:([01]);"
)
_ID = re.compile(r"^ID: (\d{1,5})$", re.MULTILINE | re.ASCII)
_INTEGERS = {1: "b", 2: "h", 4: "i", 8: "q"}


@dataclass(frozen=True, slots=True)
class Field:
    """Where a field is in an event. Units: bytes."""

    offset: int
    size: int
    signed: bool
    array: bool


@dataclass(frozen=True, slots=True)
class PageHeader:
    """The header of a page of 'trace_pipe_raw'. Units: bytes."""

    commit: struct.Struct
    """Reads time stamp and commit: the length of the data and two flags."""
    count_bytes: int
    """Of the number of lost events that may follow the data: the kernel's long."""
    data: int
    """Where the first event begins."""
    size: int
    """Of the whole page."""


@dataclass(frozen=True, slots=True)
class EventFormat:
    """An event's number and its fields."""

    name: str
    number: int
    fields: Mapping[str, Field]

    def reader(self, names: Sequence[str]) -> Callable[[bytes, int], tuple[Any, ...]]:
        """Return a function of page and offset that returns these fields, arrays as bytes.

        Errors: ParseError, for a field that this kernel's event has not.
        """
        missing = [name for name in names if name not in self.fields]
        if missing:
            raise ParseError(
                f"format of {self.name}: expected field '{missing[0]}', got none; this kernel is"
                " not supported"
            )
        ordered = sorted(names, key=lambda name: self.fields[name].offset)
        code, end = "=", 0
        for name in ordered:
            field = self.fields[name]
            letter = _INTEGERS.get(field.size)
            if field.array:
                letter = f"{field.size}s"
            elif letter is None or field.offset < end:
                raise ParseError(f"format of {self.name}: expected an integer, got '{name}'")
            elif not field.signed:
                letter = letter.upper()
            code += f"{field.offset - end}x{letter}"
            end = field.offset + field.size
        unpack: Callable[[bytes, int], tuple[Any, ...]] = struct.Struct(code).unpack_from
        if ordered == list(names):
            return unpack
        order = operator.itemgetter(*(ordered.index(name) for name in names))
        return lambda page, offset: order(unpack(page, offset))


def parse_event(text: str, name: str) -> EventFormat:
    """Parse 'events/block/NAME/format'. Errors: ParseError."""
    number = _ID.search(text)
    if number is None:
        raise ParseError(f"format of {name}: expected a line 'ID: <number>', got {text[:60]!r}")
    return EventFormat(name, int(number[1]), _fields(text))


def parse_page_header(text: str) -> PageHeader:
    """Parse 'events/header_page'. Errors: ParseError."""
    fields = _fields(text)
    try:
        stamp, commit, data = (fields[name] for name in ("timestamp", "commit", "data"))
    except KeyError as error:
        raise ParseError(f"header_page: expected a field {error}, got {text[:60]!r}") from error
    size = data.offset + data.size
    if (stamp.offset, stamp.size) != (0, 8) or commit.offset != 8 or size > MAX_PAGE_BYTES:
        raise ParseError(f"header_page: expected timestamp, commit and data, got {text[:200]!r}")
    letter = _INTEGERS.get(commit.size, "").upper()
    if not letter:
        raise ParseError(f"header_page: expected an integer 'commit', got {commit.size} bytes")
    return PageHeader(struct.Struct(f"=Q{letter}"), commit.size, data.offset, size)


def _fields(text: str) -> dict[str, Field]:
    return {
        name: Field(int(offset), int(size), signed == "1", bool(array))
        for name, array, offset, size, signed in _FIELD.findall(text)
    }
