"""Decodes pages of the kernel's trace buffer ('per_cpu/cpuN/trace_pipe_raw') into events.

*Source:* kernel, include/linux/ring_buffer.h, enum ring_buffer_type, and
kernel/trace/ring_buffer.c: rb_event_data_length, rb_event_time_stamp, ring_buffer_read_page
(RB_MISSED_EVENTS, RB_MISSED_STORED). Byte order and bit fields are the host's.
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Any

from iowarden.collectors.model import ParseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.daemon.trace.formats import EventFormat, PageHeader

LOST, ISSUE, COMPLETE, REQUEUE = range(4)
"""Kinds of events, the second item of each: after the time stamp, before the fields of FIELDS."""
FIELDS = {
    ISSUE: ("dev", "sector", "nr_sector", "bytes", "rwbs", "common_pid", "comm"),
    COMPLETE: ("dev", "sector", "nr_sector", "error", "rwbs"),
    REQUEUE: ("dev", "sector", "rwbs"),
}
NAMES = {ISSUE: "block_rq_issue", COMPLETE: "block_rq_complete", REQUEUE: "block_rq_requeue"}

_PADDING, _TIME_EXTEND, _TIME_STAMP = 29, 30, 31
_LENGTH_MASK = (1 << 27) - 1
_LOST_EVENTS, _LOST_STORED = 1 << 31, 1 << 30
_STAMP_BITS = 59
"""Of an absolute time stamp; the higher ones are those of the time before it."""
_HEADER_BYTES = 4
_MIN_EVENT_BYTES = 8
_LITTLE = sys.byteorder == "little"
_TYPE_SHIFT, _DELTA_SHIFT = (0, 5) if _LITTLE else (27, 0)
"""Of the bit fields type_len (5 bits) and time_delta (27 bits) in an event's first word."""

TraceEvent = tuple[Any, ...]
"""Time in ns, kind, then the fields of that kind."""


class Decoder:
    """Decodes pages of one kernel, whose formats it was given. Errors: ParseError."""

    def __init__(self, header: PageHeader, formats: dict[int, EventFormat]) -> None:
        """Prepare the readers of events; `formats` by kind."""
        self._header = header
        self._readers = {
            found.number: (kind, found.reader(FIELDS[kind])) for kind, found in formats.items()
        }

    def decode(self, page: bytes, add: Callable[[TraceEvent], object]) -> int:
        """Pass each event of a page to `add`; return how many were lost before it, at least.

        A loss is an event of its own, LOST, at the time of the page. Errors: ParseError.
        """
        header = self._header
        try:
            stamp, commit = header.commit.unpack_from(page)
            end = header.data + (commit & _LENGTH_MASK)
            lost = 0
            if commit & _LOST_EVENTS:
                stored = page[end : end + header.count_bytes] if commit & _LOST_STORED else b""
                lost = int.from_bytes(stored, sys.byteorder) or 1
                add((stamp, LOST))
            if end > len(page):
                raise ParseError(
                    f"page of the trace buffer: expected at most {len(page)} bytes, got {end}"
                )
            self._events(page, header.data, end, stamp, add)
        except struct.error as error:
            raise ParseError(f"page of the trace buffer: {error}") from error
        return lost

    def _events(
        self, page: bytes, place: int, end: int, stamp: int, add: Callable[[TraceEvent], object]
    ) -> None:
        # The loop that 100,000 requests a second pass: no call that is not needed.
        readers, head, number = self._readers, _HEAD, _NUMBER
        while place + _MIN_EVENT_BYTES <= end:
            word, kind = head(page, place)
            length = word >> _TYPE_SHIFT & 31
            delta = word >> _DELTA_SHIFT & _LENGTH_MASK
            if 0 < length < _PADDING:
                at = place + _HEADER_BYTES
                place = at + length * 4
            elif length == _TIME_EXTEND:
                stamp += delta + (number(page, place + 4)[0] << 27)
                place += 8
                continue
            elif length == _TIME_STAMP:
                low = delta + (number(page, place + 4)[0] << 27)
                stamp = stamp >> _STAMP_BITS << _STAMP_BITS | low
                place += 8
                continue
            else:
                if length == _PADDING and not delta:
                    return  # The rest of the page is empty.
                size = number(page, place + 4)[0]
                if size < _HEADER_BYTES:
                    raise ParseError(
                        f"page of the trace buffer: expected an event, got {size} bytes"
                    )
                at = place + 8
                place += _HEADER_BYTES + size
                if length == _PADDING:  # an event that was discarded: its time still counts
                    stamp += delta
                    continue
                kind = _SHORT(page, at)[0]
            stamp += delta
            if place > end:
                raise ParseError(f"page of the trace buffer: an event ends at {place}, not {end}")
            if (known := readers.get(kind)) is not None:
                add((stamp, known[0], *known[1](page, at)))


_HEAD = struct.Struct("=IH").unpack_from
"""First word of an event, and the number of its format if its data follows at once."""
_NUMBER = struct.Struct("=I").unpack_from
_SHORT = struct.Struct("=H").unpack_from
