"""A kernel's trace buffer in memory: format files and pages, written by their grammar.

*Source:* kernel, include/trace/events/block.h (fields), trace/trace_events.c, f_show (the text),
include/linux/ring_buffer.h (types of entries), trace/ring_buffer.c (page header, lost events).
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass, field

from iowarden.daemon.trace.formats import parse_event, parse_page_header
from iowarden.daemon.trace.pages import COMPLETE, ISSUE, NAMES, REQUEUE, Decoder, TraceEvent
from iowarden.daemon.trace.protocol import TraceResult
from iowarden.daemon.trace.requests import Requests

PAGE_BYTES = 4096
SDA = 8 << 20
COMMON = (
    ("unsigned short common_type", 2, 0),
    ("unsigned char common_flags", 1, 0),
    ("unsigned char common_preempt_count", 1, 0),
    ("int common_pid", 4, 1),
)
PADDING, TIME_EXTEND, TIME_STAMP = 29, 30, 31
MISSED_EVENTS, MISSED_STORED = 1 << 31, 1 << 30


@dataclass(frozen=True)
class Kernel:
    """What differs between kernels: 'ioprio' came with 6.10, and rwbs became longer."""

    rwbs: int = 8
    ioprio: bool = False
    commit: int = 8

    def fields(self, kind: int) -> tuple[tuple[str, int, int], ...]:
        """Declaration, size and sign of each field of an event."""
        own = {
            ISSUE: (("unsigned int bytes", 4, 0),),
            COMPLETE: (("int error", 4, 1),),
            REQUEUE: (),
        }
        return (
            *COMMON,
            ("dev_t dev", 4, 0),
            ("sector_t sector", 8, 0),
            ("unsigned int nr_sector", 4, 0),
            *own[kind],
            *((("unsigned short ioprio", 2, 0),) if self.ioprio else ()),
            (f"char rwbs[{self.rwbs}]", self.rwbs, 0),
            *((("char comm[16]", 16, 0),) if kind == ISSUE else ()),
            ("__data_loc char[] cmd", 4, 0),
        )

    def layout(self, kind: int) -> tuple[dict[str, tuple[int, int, str]], int]:
        """Offset, size and declaration of each field by name; where the data of 'cmd' begins."""
        found, place = {}, 0
        for text, size, _ in self.fields(kind):
            step = 1 if text.startswith("char ") else size
            place = -(-place // step) * step
            name = text.split()[-1].partition("[")[0]
            found[name] = place, size, text
            place += size
        return found, place

    def format(self, kind: int, number: int) -> str:
        """The text of 'events/block/NAME/format'."""
        signs = {text: sign for text, _, sign in self.fields(kind)}
        lines = [
            f"\tfield:{text};\toffset:{offset};\tsize:{size};\tsigned:{signs[text]};\n"
            for offset, size, text in self.layout(kind)[0].values()
        ]
        common, own = "".join(lines[: len(COMMON)]), "".join(lines[len(COMMON) :])
        return f'name: {NAMES[kind]}\nID: {number}\nformat:\n{common}\n{own}\nprint fmt: "%d", 0\n'

    def header(self) -> str:
        """The text of 'events/header_page'."""
        data = 8 + self.commit
        return (
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
            f"\tfield: local_t commit;\toffset:8;\tsize:{self.commit};\tsigned:1;\n"
            "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
            f"\tfield: char data;\toffset:{data};\tsize:{PAGE_BYTES - data};\tsigned:1;\n"
        )

    def decoder(self) -> Decoder:
        """What reads this kernel's pages."""
        formats = {
            kind: parse_event(self.format(kind, NUMBERS[kind]), NAMES[kind]) for kind in NAMES
        }
        return Decoder(parse_page_header(self.header()), formats)

    def event(self, kind: int, **values: int | bytes) -> bytes:
        """The data of an event: what is not given is 0, what follows a NUL is old memory."""
        places, end = self.layout(kind)
        data = bytearray(b"\xa5" * end)
        values = {"common_type": NUMBERS[kind], "dev": SDA, **values}
        for name, (offset, size, _) in places.items():
            value = values.get(name, 0)
            if isinstance(value, bytes):
                data[offset : offset + len(value) + 1] = value + b"\0"
            else:
                sign = value < 0
                data[offset : offset + size] = value.to_bytes(size, sys.byteorder, signed=sign)
        return bytes(data) + b"\0"


NUMBERS = {ISSUE: 1001, COMPLETE: 1004, REQUEUE: 1005}
BOOKWORM, TRIXIE, NEWER = Kernel(), Kernel(8, ioprio=True), Kernel(10, ioprio=True)
"""6.1, 6.12, and 6.17 with a longer rwbs."""
NARROW = Kernel(commit=4)
"""Of 32 bits."""


@dataclass
class Page:
    """A page that is written entry by entry."""

    kernel: Kernel = BOOKWORM
    stamp: int = 1_000_000
    data: bytearray = field(default_factory=bytearray)

    def entry(self, kind: int, delta: int, rest: bytes = b"") -> Page:
        """Append an entry: its type, time since the last one, and what follows the first word."""
        little = sys.byteorder == "little"
        word = delta << 5 | kind if little else kind << 27 | delta
        self.data += struct.pack("=I", word) + rest
        return self

    def put(self, data: bytes, delta: int = 1000, *, long: bool = False) -> Page:
        """Append the data of an event; `long`: with its length in a word of its own."""
        padded = data + bytes(-len(data) % 4)
        if long or len(padded) > 28 * 4:
            return self.entry(0, delta, struct.pack("=I", len(padded) + 4) + padded)
        return self.entry(len(padded) // 4, delta, padded)

    def later(self, delta: int) -> Page:
        """Append a time that is too long for 27 bits."""
        return self.entry(TIME_EXTEND, delta & (1 << 27) - 1, struct.pack("=I", delta >> 27))

    def at(self, stamp: int) -> Page:
        """Append an absolute time."""
        low = stamp & (1 << 59) - 1
        return self.entry(TIME_STAMP, low & (1 << 27) - 1, struct.pack("=I", low >> 27))

    def discarded(self, delta: int, length: int = 8) -> Page:
        """Append an event that was withdrawn."""
        return self.entry(PADDING, delta, struct.pack("=I", length + 4) + bytes(length))

    def bytes(self, lost: int | None = 0) -> bytes:
        """The page as it is read; `lost` events before it, None: an unknown number."""
        commit = len(self.data)
        tail = b""
        if lost != 0:
            commit |= MISSED_EVENTS
        if lost:
            commit |= MISSED_STORED
            tail = lost.to_bytes(self.kernel.commit, sys.byteorder)
        letter = {8: "Q", 4: "I"}[self.kernel.commit]
        head = struct.pack(f"=Q{letter}", self.stamp, commit)
        return (head + self.data + tail).ljust(PAGE_BYTES, b"\0")


def issue(
    sector: int,
    rwbs: bytes = b"R",
    *,
    sectors: int = 8,
    comm: bytes = b"postgres",
    kernel: Kernel = BOOKWORM,
    device: int = SDA,
) -> bytes:
    """An issued request."""
    return kernel.event(
        ISSUE,
        dev=device,
        sector=sector,
        nr_sector=sectors,
        bytes=sectors * 512,
        rwbs=rwbs,
        common_pid=812,
        comm=comm.ljust(15, b"\0"),
    )


def complete(
    sector: int,
    rwbs: bytes = b"R",
    *,
    sectors: int = 8,
    error: int = 0,
    kernel: Kernel = BOOKWORM,
    device: int = SDA,
) -> bytes:
    """A completed request, or the first part of one."""
    return kernel.event(
        COMPLETE, dev=device, sector=sector, nr_sector=sectors, error=error, rwbs=rwbs
    )


def requeue(sector: int, rwbs: bytes = b"R", *, kernel: Kernel = BOOKWORM) -> bytes:
    """A request that the driver returned."""
    return kernel.event(REQUEUE, sector=sector, nr_sector=8, rwbs=rwbs)


def sample() -> TraceResult:
    """A trace of sda: a quick read-ahead, a slow write, and one that has not completed."""
    page = Page(stamp=0)
    page.put(issue(2048, b"RA", sectors=256), 0)
    page.put(complete(2048, sectors=256), 1_200_000)
    page.later(100_000_000 - 1_200_000).put(issue(8192, b"WS", comm=b"mysqld"), 0)
    page.put(issue(4096, b"WS", sectors=16), 0)
    page.later(2_500_000_000).put(complete(4096, b"WS", sectors=16), 0)
    events: list[TraceEvent] = []
    BOOKWORM.decoder().decode(page.bytes(), events.append)
    requests = Requests({SDA: "8:0"})
    requests.take(events)
    disks = tuple(requests.result(3_000_000_000, 0))
    return TraceResult(NOW, 3.0, len(events), 0, 0.01, disks)


NOW = 1_800_000_000.0
