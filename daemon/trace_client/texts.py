"""The result of a trace as text: for mails, and for the command."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.quantity import duration, percentage, size
from iowarden.daemon.sanitize import one_line
from iowarden.daemon.trace.protocol import ALL_SIZES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.daemon.trace.protocol import DiskTrace, LatencyLine, TracedRequest, TraceResult

NAMES = {
    "read_ahead": "read-ahead",
    "write": "writeback",
    "sync_write": "sync write",
    "fua_write": "FUA write",
}
"""Operations whose name in texts differs."""
SHARE = 0.01
"""Requests that are not measured are worth a line above this share of the others."""
OF_DATA = ("read", "read_ahead", "write", "sync_write", "fua_write")
"""Operations whose sectors belong to a file, or to the file system."""
LONG_SECONDS = 0.1
"""On a busy disk some requests are always in flight: only an older one is worth a line."""
_UNITS = ((1.0, 1.0, "s"), (1e-3, 1e3, "ms"), (0.0, 1e6, "us"))


def latency(seconds: float) -> str:
    """Return a latency in the unit that leaves at least 1: '64 us', '1.21 ms', '31 s'."""
    factor, unit = next((factor, unit) for least, factor, unit in _UNITS if seconds >= least)
    return f"{seconds * factor:.3g} {unit}"


def count(requests: int) -> str:
    """Return a number of requests."""
    return f"{requests} request{'' if requests == 1 else 's'}"


def operation(name: str) -> str:
    """Return the name of an operation."""
    return NAMES.get(name, name)


def totals(disk: DiskTrace) -> list[LatencyLine]:
    """Return one line for each operation."""
    return [line for line in disk.latencies if line.size == ALL_SIZES]


def unnamed(found: TraceResult) -> TraceResult:
    """Return the result without names of programs."""

    def hidden(requests: tuple[TracedRequest, ...]) -> tuple[TracedRequest, ...]:
        return tuple(replace(each, program="", pid=0) for each in requests)

    disks = (
        replace(each, slowest=hidden(each.slowest), waiting=hidden(each.waiting))
        for each in found.disks
    )
    return replace(found, disks=tuple(disks))


def program(request: TracedRequest) -> str:
    """Return the program that issued a request."""
    if not (request.program or request.pid):
        return "a program"
    return f"{one_line(request.program, 40) or '?'} (pid {request.pid})"


def lines(found: TraceResult, disk: DiskTrace, name: str) -> Iterator[str]:
    """Yield lines of evidence about one disk."""
    yield f"trace of {name} for {duration(found.seconds)}: {summary(found, disk)}"
    for line in totals(disk):
        yield (
            f"{name} {operation(line.operation)}: {count(line.requests)}, p50"
            f" {latency(line.p50_seconds)}, p99 {latency(line.p99_seconds)}, slowest"
            f" {latency(line.max_seconds)}"
        )
    if disk.slowest:
        worst = disk.slowest[0]
        by = program(worst)
        yield (
            f"{name} slowest request: {latency(worst.seconds)}, {operation(worst.operation)} of"
            f" {size(worst.bytes)} at sector {worst.sector}, issued by {by}"
        )
    yield from (f"{name}: {note}" for note in notes(found, disk))


def overdue(disk: DiskTrace) -> tuple[TracedRequest, ...]:
    """Return the requests that were not completed at the end, and not just issued."""
    return tuple(each for each in disk.waiting if each.seconds >= LONG_SECONDS)


def summary(found: TraceResult, disk: DiskTrace) -> str:
    """Return the number of requests, their size, and the share of read-ahead."""
    per_second = disk.requests / found.seconds if found.seconds else 0.0
    text = f"{count(disk.requests)} ({per_second:.0f}/s), {size(disk.bytes)}"
    if disk.read_ahead_bytes_ratio is not None:
        ratio = disk.read_ahead_bytes_ratio
        text += f"; read-ahead is {percentage(ratio)} of the bytes read"
    return text


def notes(found: TraceResult, disk: DiskTrace) -> Iterator[str]:
    """Yield what a reader must know to judge the numbers."""
    if disk.vanished:
        yield "the kernel removed the disk during the trace"
    for oldest in overdue(disk)[:1]:
        by = program(oldest)
        yield (
            f"{count(disk.in_flight or 0)} not completed at the end, the oldest for"
            f" {latency(oldest.seconds)} ({operation(oldest.operation)}, {by})"
        )
    if disk.issued_before > disk.requests * SHARE:
        yield f"{count(disk.issued_before)} completed, issued before the trace"
    if disk.errors:
        yield f"{count(disk.errors)} completed with an error"
    if disk.requeued:
        yield f"{count(disk.requeued)} returned by the driver and issued again"
    if disk.unmatched > disk.requests * SHARE:
        yield f"{count(disk.unmatched)} not measured"
    if found.lost_events:
        yield f"the kernel dropped at least {found.lost_events} events: counts are too low"
    if not (disk.requests or disk.in_flight or disk.issued_before or disk.vanished):
        yield "no request: the disk was idle, or what uses it passes no requests through its queue"
