"""Matches issued with completed requests, and sums up their latencies in bounded memory.

*Source:* kernel, include/trace/events/block.h; block/blk-mq.c, blk_update_request: a completion may
cover only the first part of a request, the rest then begins at a later sector;
linux/blktrace_api.h, blk_rq_trace_sector: flushes and pass-through commands have sector 0.
Latency is counted from block_rq_issue, when the driver gets the request; what waited in a scheduler
before is not in it.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import defaultdict
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import SECTOR_BYTES
from iowarden.daemon.trace.pages import COMPLETE, ISSUE, LOST
from iowarden.daemon.trace.protocol import ALL_SIZES, DiskTrace, LatencyLine, TracedRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iowarden.daemon.trace.pages import TraceEvent

MAX_IN_FLIGHT = 100_000
SLOWEST = 10
UNIT_NS = 125
"""Latencies are counted in units of an eighth of a microsecond, 32 steps to each doubling."""
_EXACT_BITS = 6
SIZES = (
    (4 << 10, "<= 4 KiB"),
    (16 << 10, "<= 16 KiB"),
    (64 << 10, "<= 64 KiB"),
    (256 << 10, "<= 256 KiB"),
    (1 << 20, "<= 1 MiB"),
)
LARGER, NO_DATA = "> 1 MiB", "none"
_ORDER = (NO_DATA, *(name for _, name in SIZES), LARGER)
OPERATIONS = (
    *("read", "read_ahead", "write", "sync_write", "fua_write", "flush", "discard", "other"),
)
_OF_BITS = tuple(
    next((name for most, name in SIZES if 1 << bits <= most), LARGER) for bits in range(33)
)
"""Size class by the number of bits of the size minus 1."""
_NO_SECTOR = 2**64 - 1
"""Of a completed flush or command, which was issued with sector 0: blk_rq_pos, not the above."""


def operation(rwbs: bytes) -> str:
    """Return the operation that the kernel's letters mean.

    Source: kernel, trace/blktrace.c, blk_fill_rwbs: 'F' (flush before), the operation, then 'F'
    (FUA), 'A' (read-ahead), 'S' (sync), 'M' (metadata). 'ZA' is a zone append; 'WZ', write zeroes.
    """
    first = rwbs.removeprefix(b"F")
    letter, flags = first[:1], first[1:]
    if letter == b"R":
        return "read_ahead" if b"A" in flags else "read"
    if letter == b"D":
        return "discard"
    if (letter == b"W" and flags[:1] != b"Z") or first[:2] == b"ZA":
        return "fua_write" if b"F" in flags else "sync_write" if b"S" in flags else "write"
    return "flush" if rwbs[:1] == b"F" and letter not in {b"N", b"W", b"Z"} else "other"


def size_class(size_bytes: int) -> str:
    """Return the size class of a request."""
    return _OF_BITS[min((size_bytes - 1).bit_length(), 32)] if size_bytes else NO_DATA


def step(latency_ns: int) -> int:
    """Return the number of the histogram's step for a latency."""
    units = latency_ns // UNIT_NS
    shift = units.bit_length() - _EXACT_BITS
    return units if shift <= 0 else (shift << 5) + (units >> shift)


def upper_ns(number: int) -> int:
    """Return the upper limit of a step; a latency is at most 3 % below it."""
    if number < 1 << 5:
        return (number + 1) * UNIT_NS
    return ((number & 31) + 33 << (number >> 5) - 1) * UNIT_NS


@dataclass(slots=True)
class Latencies:
    """Latencies of one operation and size."""

    requests: int = 0
    bytes: int = 0
    max_ns: int = 0
    steps: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def merge(self, other: Latencies) -> None:
        """Add those of another size."""
        self.requests += other.requests
        self.bytes += other.bytes
        self.max_ns = max(self.max_ns, other.max_ns)
        for number, count in other.steps.items():
            self.steps[number] += count

    def line(self, name: str, size: str) -> LatencyLine:
        """Return them as sums."""
        doublings: dict[int, int] = defaultdict(int)
        for number, count in sorted(self.steps.items()):
            doublings[max((upper_ns(number) // UNIT_NS - 1).bit_length() - 3, 0)] += count
        return LatencyLine(
            operation=name,
            size=size,
            requests=self.requests,
            bytes=self.bytes,
            p50_seconds=self._percentile(0.5),
            p90_seconds=self._percentile(0.9),
            p99_seconds=self._percentile(0.99),
            max_seconds=self.max_ns / 1e9,
            histogram=tuple((2**power / 1e6, count) for power, count in doublings.items()),
        )

    def _percentile(self, ratio: float) -> float:
        rank = math.ceil(ratio * self.requests)
        running = itertools.accumulate(self.steps[number] for number in sorted(self.steps))
        found = next(
            number
            for number, count in zip(sorted(self.steps), running, strict=True)
            if count >= rank
        )
        return min(upper_ns(found), self.max_ns) / 1e9


_Timed = list[tuple[int, "TraceEvent"]]
"""Requests with their latency."""


@dataclass(slots=True)
class _Disk:
    number: str
    cells: dict[tuple[str, str], Latencies] = field(default_factory=lambda: defaultdict(Latencies))
    slowest: tuple[_Timed, _Timed] = field(default_factory=lambda: ([], []))
    """Of reads, and of all others: heaps, the least one first."""
    errors: int = 0
    issued_before: int = 0
    requeued: int = 0
    unmatched: int = 0


class Requests:
    """The requests of some disks, from their events in order of time."""

    def __init__(self, devices: dict[int, str]) -> None:
        """Start empty; `devices`: the numbers of the disks as in events, and as text."""
        self._disks = {number: _Disk(text) for number, text in devices.items()}
        self._in_flight: dict[tuple[int, int, int], TraceEvent | int] = {}
        """By device, sector and first letter; a number: so many requests share this key."""
        self._lost = False

    def take(self, events: Iterable[TraceEvent]) -> None:
        """Take events, sorted by time; those of other disks are left out."""
        in_flight, disks = self._in_flight, self._disks
        for event in events:
            kind = event[1]
            if kind == LOST:
                self._forget()
                continue
            if kind == ISSUE:
                _, _, device, sector, _, _, rwbs, _, _ = event
                key = (device, sector, rwbs[0])
                if device not in disks:
                    continue
                if key in in_flight:
                    self._share(key)
                elif len(in_flight) < MAX_IN_FLIGHT:
                    in_flight[key] = event
                else:
                    disks[device].unmatched += 1
                continue
            device, sector, rwbs = event[2], event[3], event[-1]
            disk = disks.get(device)
            if disk is None:
                continue
            key = (device, 0 if sector == _NO_SECTOR else sector, rwbs[0])
            issued = in_flight.pop(key, None)
            if isinstance(issued, int):
                disk.unmatched += 1
                if issued > 1:
                    in_flight[key] = issued - 1
            elif kind != COMPLETE:
                disk.requeued += issued is not None
            elif issued is None:
                self._without_issue(disk)
            else:
                self._completed(disk, issued, event)

    def _share(self, key: tuple[int, int, int]) -> None:
        """Count another request: which completes first is not in the events, none is measured."""
        others = self._in_flight[key]
        self._in_flight[key] = others + 1 if isinstance(others, int) else 2

    def _completed(self, disk: _Disk, issued: TraceEvent, event: TraceEvent) -> None:
        stamp, _, device, sector, sectors, error, rwbs = event
        if error:
            disk.errors += 1
        total = issued[4]
        if 0 < sectors < total:
            # The rest completes later, from the next sector on; it is one request.
            key = (device, sector + sectors, rwbs[0])
            if key in self._in_flight:
                self._share(key)
            else:
                self._in_flight[key] = (*issued[:4], total - sectors, *issued[5:])
            return
        size = issued[5] or total * SECTOR_BYTES
        latency = max(stamp - issued[0], 0)
        letters = issued[6].partition(b"\0")[0]
        cell = disk.cells[operation(letters), size_class(size)]
        cell.requests += 1
        cell.bytes += size
        cell.steps[step(latency)] += 1
        cell.max_ns = max(cell.max_ns, latency)
        slowest = disk.slowest[letters[:1] != b"R"]
        if len(slowest) < SLOWEST:
            heapq.heappush(slowest, (latency, issued))
        elif latency > slowest[0][0]:
            heapq.heapreplace(slowest, (latency, issued))

    def _without_issue(self, disk: _Disk) -> None:
        if self._lost:
            disk.unmatched += 1
        else:
            disk.issued_before += 1

    def _forget(self) -> None:
        """Drop what is in flight: of some of it the completion was among the lost events."""
        for (device, _, _), issued in self._in_flight.items():
            self._disks[device].unmatched += issued if isinstance(issued, int) else 1
        self._in_flight.clear()
        self._lost = True

    def result(self, now_ns: int, ahead_ns: int, gone: Iterable[str] = ()) -> list[DiskTrace]:
        """Return the sums at the end of a trace.

        `now_ns`: by the events' clock; `ahead_ns`: added to it, it is Unix time; `gone`: disks
        that vanished.
        """
        waiting: dict[int, _Timed] = defaultdict(list)
        shared: dict[int, int] = defaultdict(int)
        for (device, _, _), issued in self._in_flight.items():
            if isinstance(issued, int):
                shared[device] += issued
            else:
                waiting[device].append((max(now_ns - issued[0], 0), issued))
        vanished = set(gone)
        return [
            self._disk(
                disk, waiting[number], shared[number], ahead_ns, vanished=disk.number in vanished
            )
            for number, disk in self._disks.items()
        ]

    def _disk(
        self,
        disk: _Disk,
        waiting: _Timed,
        shared: int,
        ahead_ns: int,
        *,
        vanished: bool,
    ) -> DiskTrace:
        lines = list(_lines(disk.cells))
        totals = {line.operation: line for line in lines if line.size == ALL_SIZES}
        own = [totals[name] for name in ("read", "read_ahead") if name in totals]
        ahead = [each for each in own if each.operation == "read_ahead"]
        reads, read = sum(each.requests for each in own), sum(each.bytes for each in own)
        return DiskTrace(
            device_number=disk.number,
            requests=sum(each.requests for each in totals.values()),
            bytes=sum(each.bytes for each in totals.values()),
            errors=disk.errors,
            read_ahead_requests_ratio=sum(e.requests for e in ahead) / reads if reads else None,
            read_ahead_bytes_ratio=sum(e.bytes for e in ahead) / read if read else None,
            in_flight=None if self._lost else len(waiting) + shared,
            waiting=() if self._lost else _requests(waiting, ahead_ns),
            issued_before=disk.issued_before,
            requeued=disk.requeued,
            unmatched=disk.unmatched,
            vanished=vanished,
            latencies=tuple(lines),
            slowest=_requests(_slowest(disk), ahead_ns),
        )


def _lines(cells: dict[tuple[str, str], Latencies]) -> Iterator[LatencyLine]:
    for name in OPERATIONS:
        sizes = [size for size in _ORDER if (name, size) in cells]
        total = Latencies()
        for size in sizes:
            total.merge(cells[name, size])
        if sizes:
            yield total.line(name, ALL_SIZES)
            yield from (cells[name, size].line(name, size) for size in sizes)


def _slowest(disk: _Disk) -> _Timed:
    """Return the slowest requests; half of them are reads, if there are that many of each.

    Programs wait for reads; writeback, for which none waits, is often slower than all of them.
    """
    reads, others = (sorted(each, reverse=True) for each in disk.slowest)
    half = SLOWEST // 2
    found = [*reads[:half], *others[:half]]
    rest = sorted([*reads[half:], *others[half:]], reverse=True)
    return found + rest[: SLOWEST - len(found)]


def _requests(found: _Timed, ahead_ns: int) -> tuple[TracedRequest, ...]:
    """Return the slowest of some requests."""
    worst = heapq.nlargest(SLOWEST, found)
    return tuple(_request(latency, issued, ahead_ns) for latency, issued in worst)


def _request(latency_ns: int, issued: TraceEvent, ahead_ns: int) -> TracedRequest:
    stamp, _, _, sector, sectors, size, rwbs, pid, comm = issued
    letters = rwbs.partition(b"\0")[0]
    return TracedRequest(
        seconds=latency_ns / 1e9,
        at_seconds=(stamp + ahead_ns) / 1e9,
        operation=operation(letters),
        rwbs=letters.decode("ascii", "backslashreplace"),
        sector=sector,
        bytes=size or sectors * SECTOR_BYTES,
        program=comm.partition(b"\0")[0].decode(errors="backslashreplace"),
        pid=pid,
    )
