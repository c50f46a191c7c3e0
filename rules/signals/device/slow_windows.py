"""What a disk did in ten seconds, and how it compares with its peers in the same ten seconds.

All figures are differences of /proc/diskstats. Times are means: the kernel adds up the time of the
requests that completed. Sources: kernel, admin-guide/iostats.rst; block/blk-flush.c: a write with a
cache flush before it is counted once, when both are done, so that its time includes the flush.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.model import SECTOR_BYTES
from iowarden.rules.signals import guards

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from iowarden.collectors.block.diskstats import BlockIo

STEP_SECONDS = 10.0
MIN_REQUESTS = 20
"""The mean of fewer requests in ten seconds is no measure of a direction."""
SIZE_FACTOR = 2.0
"""Mean request sizes further apart are different loads."""
LOAD_FACTOR = 1.25
"""A disk that does more than its peers may be slower."""
_MILLISECOND = 0.001
_new = tuple.__new__
"""Half the time of a named tuple's own, for thousands of them in ten seconds."""


class Direction(NamedTuple):
    """Reads or writes of one disk in ten seconds."""

    requests: int
    latency_seconds: float
    size_bytes: float


class Window(NamedTuple):
    """One disk in ten seconds.

    Fields: `requests` and `bytes` of all kinds; `read`, `write`: None without a request; `whole`:
    the disk as one, where neither has enough requests and one was always in flight.
    """

    requests: int
    bytes: int
    read: Direction | None
    write: Direction | None
    whole: Direction | None
    in_flight: float
    """Mean number, of requests that completed."""
    busy_ratio: float
    discarding: bool

    @property
    def latency_seconds(self) -> float:
        """Mean of its reads and writes; 0 if it completed neither."""
        own = [each for each in (self.read, self.write) if each is not None]
        requests = sum(each.requests for each in own)
        return sum(e.requests * e.latency_seconds for e in own) / requests if requests else 0.0


class Comparison(NamedTuple):
    """A disk against others. `ratio`: its latency over theirs, the floor being the least of it."""

    ratio: float
    latency_seconds: float
    reference_seconds: float
    operation: str
    peers: int


def window(before: BlockIo, after: BlockIo, elapsed: float) -> Window | None:
    """Return what a disk did; None when it completed nothing, or a counter decreased."""
    b, a = before.counters, after.counters
    reads, writes = a[0] - b[0], a[4] - b[4]
    read_ms, write_ms = a[3] - b[3], a[7] - b[7]
    read_sectors, written_sectors = a[2] - b[2], a[6] - b[6]
    requests, discard_ms = reads + writes, 0
    if len(a) > 14 and len(b) == len(a):
        requests += a[11] - b[11]
        discard_ms = a[14] - b[14]
        if len(a) > 15:
            requests += a[15] - b[15]
    counted = reads >= 0 and writes >= 0 and read_ms >= 0 and write_ms >= 0
    if requests <= 0 or not counted or read_sectors < 0 or written_sectors < 0:
        return None
    read = write = None
    if reads:
        latency, size = read_ms * _MILLISECOND / reads, read_sectors * SECTOR_BYTES / reads
        read = _new(Direction, (reads, latency, size))
    if writes:
        latency, size = write_ms * _MILLISECOND / writes, written_sectors * SECTOR_BYTES / writes
        write = _new(Direction, (writes, latency, size))
    own = (
        requests,
        (read_sectors + written_sectors) * SECTOR_BYTES,
        read,
        write,
        None,
        (read_ms + write_ms) * _MILLISECOND / elapsed,
        (a[9] - b[9]) * _MILLISECOND / elapsed,
        guards.discards_explain(discard_ms * _MILLISECOND, elapsed),
    )
    return _new(Window, own)


def few(found: Window) -> bool:
    """Whether neither direction has enough requests for a mean of its own."""
    read, write = found.read, found.write
    if read is not None and read.requests >= MIN_REQUESTS:
        return False
    return write is None or write.requests < MIN_REQUESTS


def with_few_requests(found: Window, in_flight: Sequence[int], elapsed: float) -> Window:
    """Return the window of a disk with few requests, as one figure, by Little's law.

    `in_flight`: requests in flight in each second, without leaked ones. What is in flight cannot be
    divided among the directions: it would be charged to the wrong one.
    """
    if not in_flight or min(in_flight) <= 0:
        return found
    mean = sum(in_flight) / len(in_flight)
    latency = elapsed * mean / found.requests
    size = found.bytes / found.requests
    return found._replace(whole=Direction(found.requests, latency, size))


def as_one(found: Window) -> Direction | None:
    """Return a peer of a disk with few requests: all its requests as one figure."""
    own = [each for each in (found.read, found.write) if each is not None]
    requests = sum(each.requests for each in own)
    if few(found):
        return None
    return Direction(requests, found.latency_seconds, found.bytes / found.requests)


def lower_medians(ordered: Sequence[float]) -> tuple[float, float]:
    """Return the two values of which one is the lower median without an element.

    It is the second one without an element that is at most as large as the first, else the first.
    """
    at = (len(ordered) - 2) // 2
    return ordered[at], ordered[at + 1]


def compared(
    windows: Mapping[str, Window],
    members: Iterable[str],
    operation: str,
    floor_seconds: float,
    least_peers: int,
) -> Iterator[tuple[str, Comparison]]:
    """Yield each disk that can be compared with its peers in one operation, with the result.

    `operation`: 'read', 'write', or 'all' for disks with few requests. Peers are the others whose
    mean request has about the same size. A disk that did more than 1.25 times its peers' median, in
    requests or bytes, is not compared: its load explains it.
    """
    rows = []
    for name in members:
        each = windows.get(name)
        if each is None:
            continue
        if operation == "all":
            own = each.whole or as_one(each)
        else:
            own = each.read if operation == "read" else each.write
        if own is not None and (own.requests >= MIN_REQUESTS or own is each.whole):
            rows.append((own.size_bytes, own.latency_seconds, each.requests, each.bytes, name))
    rows.sort()
    begin = end = 0
    known = False
    times = counts = amounts = (0.0, 0.0)
    for size, latency, count, amount, name in rows:
        while rows[begin][0] * SIZE_FACTOR < size:
            begin, known = begin + 1, False
        while end < len(rows) and rows[end][0] <= size * SIZE_FACTOR:
            end, known = end + 1, False
        peers = end - begin - 1
        if peers < least_peers or (operation == "all" and windows[name].whole is None):
            continue
        if not known:  # the same for all disks whose requests have about one size
            alike = rows[begin:end]
            times = lower_medians(sorted(row[1] for row in alike))
            counts = lower_medians(sorted(row[2] for row in alike))
            amounts = lower_medians(sorted(row[3] for row in alike))
            known = True
        m = times[latency <= times[0]]
        most, most_bytes = counts[count <= counts[0]], amounts[amount <= amounts[0]]
        if count <= LOAD_FACTOR * most and amount <= LOAD_FACTOR * most_bytes:
            ratio = latency / max(floor_seconds, m)
            yield name, _new(Comparison, (ratio, latency, m, operation, peers))
