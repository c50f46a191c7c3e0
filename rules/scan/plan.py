"""Surface scan of a disk: what is read next, what could not be read, and how far it is. Pure.

The order is staggered: the disk has 128 segments, and of each the first piece is read, then of each
the second one, and so on, so that a cluster of bad sectors is met early in a scan. What was read is
always the beginning of that order: its length is all that a restart needs. A piece that fails is
split until the bad blocks are known; a dying disk is not hammered: tries and time are bounded.
Source: L. Bairavasundaram et al., SIGMETRICS 2007 (latent sector errors come in clusters: half of
them within 10 MB of another); A. Oprea and A. Juels, FAST 2010 (staggered scrubbing).
Units: bytes; seconds of the program's clock.
"""

from __future__ import annotations

import enum
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.block.surface import BLOCK_BYTES, MAX_PIECE_BYTES, SECTOR_ERRORS
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family
from iowarden.collectors.quantity import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.block.surface import PieceRead
    from iowarden.collectors.model import Sample

SEGMENTS = 128
PIECE_BYTES = MAX_PIECE_BYTES
SPLIT = 8
"""A failed part is split into so many: 512 KiB to 4 KiB in three steps of at most 8 tries."""
MAX_TRIES = 64
"""Reads of parts of failed pieces in an hour."""
CLUSTER_BYTES, CLUSTER_RANGES = 10_000_000, 8
MAX_RANGES = 100
TROUBLE_SECONDS = 1.0
"""A read that took longer counts as trouble, as one that failed does."""
TROUBLE_PER_HOUR_SECONDS, TROUBLE_PER_DAY_SECONDS = 30.0, 120.0
HOUR, DAY = 3600.0, 86_400.0
HOLD_SECONDS = HOUR
"""How long no disk of an adapter is scanned after a read that was slow or hung."""
SLOWER_RATIO = 0.7
"""A zone whose throughput fell below this ratio of the last scan's is reported."""
_MIN_ZONE_BYTES = 16 * PIECE_BYTES
"""A zone needs this much, read while nothing else used the disk, for a throughput."""
LONGEST_DAYS = 35.0
"""A scan that would take longer never reads the disk completely in time."""
_MIN_RATE_SECONDS = 600.0


PROGRESS = Family(
    "iowarden_scan_progress_ratio", "gauge", "Progress of the last surface scan of a disk, 0 to 1."
)
RUNNING = Family("iowarden_scan_running", "gauge", "1 while a surface scan runs or waits, else 0.")
READ_BYTES = Family(
    "iowarden_scan_bytes_total", "counter", "Bytes of a disk that surface scans have read."
)
BAD_RANGES = Family(
    "iowarden_scan_bad_ranges",
    "gauge",
    "Ranges of a disk that its last surface scan could not read, in units of 4 KiB; adjacent ones"
    " are one range.",
)
SLOWER_ZONES = Family(
    "iowarden_scan_slower_zones",
    "gauge",
    "Of the 128 zones of a disk those that became slower by 30 % or more since the last scan.",
)
FAMILIES = (PROGRESS, RUNNING, READ_BYTES, BAD_RANGES, SLOWER_ZONES)


class ScanState(enum.StrEnum):
    """State of the scan of a disk."""

    NONE = "none"
    """It was never started."""
    RUNNING = "running"
    """Started, and not ended: it reads, or waits for the reason in its text."""
    COMPLETE = "complete"
    STOPPED = "stopped"
    """On request."""
    FAILED = "failed"
    """It found so many bad ranges that it ended: replace the disk."""
    REFUSED = "refused"
    """The disk cannot be scanned."""


@dataclass(frozen=True, slots=True)
class Scan:
    """The last scan of a disk.

    Fields: iowarden first saw the disk at `seen_seconds`; since `scheduled_seconds` it is in the
    schedule. `next` is the position in the order up to which all is read, except `parts`: extents
    (start and length) of failed pieces, to be read again. `bad` are the extents that cannot be
    read. `trouble_seconds` are when reads failed or were slow, `troubles` how long each took;
    `tries_seconds` are when parts were read. `zone_bytes` and `zone_seconds` are what was read of
    each segment, and how long that took, while nothing else used it; `zones` is the throughput
    of each in the last complete scan, 0: not known; `slower` are those that were slower than in the
    one before, with the ratio. `careful`: pieces that are read one at a time, because a read hung;
    `too_slow`: that it would take more than LONGEST_DAYS was reported.
    """

    seen_seconds: float
    scheduled_seconds: float | None = None
    state: ScanState = ScanState.NONE
    size_bytes: int = 0
    next: int = 0
    begun_seconds: float | None = None
    ended_seconds: float | None = None
    completed_seconds: float | None = None
    text: str = ""
    who: str = ""
    bytes_total: int = 0
    parts: tuple[tuple[int, int], ...] = ()
    bad: tuple[tuple[int, int], ...] = ()
    trouble_seconds: tuple[float, ...] = ()
    troubles: tuple[float, ...] = ()
    tries_seconds: tuple[float, ...] = ()
    paused_seconds: float | None = None
    """Until then it waits, because of a slow read at its adapter."""
    zone_bytes: tuple[int, ...] = ()
    zone_seconds: tuple[float, ...] = ()
    zones: tuple[float, ...] = ()
    slower: tuple[tuple[int, float], ...] = ()
    careful: int = 0
    too_slow: bool = False


Scans = dict[str, Scan]
"""By disk; a document of state.db."""


@dataclass(frozen=True, slots=True)
class ScanBatch:
    """What is read next: pieces of one length, from these offsets."""

    offsets: tuple[int, ...]
    length: int
    parts: bool = False
    """Parts of pieces that failed."""


def is_sound(scan: Scan) -> bool:
    """Whether a stored scan can go on: its lists belong together, and its numbers are finite."""
    lengths = {len(scan.zone_bytes), len(scan.zone_seconds), len(scan.zones), 0, SEGMENTS}
    numbers = (
        *(scan.seen_seconds, *scan.trouble_seconds, *scan.troubles, *scan.tries_seconds),
        *(*scan.zone_seconds, *scan.zones, *(ratio for _, ratio in scan.slower)),
        *(scan.scheduled_seconds or 0.0, scan.begun_seconds or 0.0, scan.ended_seconds or 0.0),
        *(scan.completed_seconds or 0.0, scan.paused_seconds or 0.0),
    )
    counts = (scan.size_bytes, scan.next, scan.bytes_total, scan.careful)
    return (
        lengths == {0, SEGMENTS}
        and len(scan.zone_bytes) == len(scan.zone_seconds)
        and len(scan.trouble_seconds) == len(scan.troubles)
        and all(map(math.isfinite, numbers))
        and min(counts) >= 0
        and all(start >= 0 and length > 0 for start, length in (*scan.parts, *scan.bad))
    )


# --- the order


def positions(size_bytes: int) -> int:
    """Return the number of positions in the order of a disk, of which some last ones are empty."""
    return SEGMENTS * _segment(size_bytes)


def offset_at(position: int, size_bytes: int) -> int | None:
    """Return where the piece at a position begins; None: the last segments are shorter."""
    round_, zone = divmod(position, SEGMENTS)
    offset = (zone * _segment(size_bytes) + round_) * PIECE_BYTES
    return offset if offset < size_bytes else None


def zone_of(offset: int, size_bytes: int) -> int:
    """Return the segment that an offset is in."""
    return offset // PIECE_BYTES // _segment(size_bytes)


def _segment(size_bytes: int) -> int:
    """Return the pieces of a segment."""
    pieces = -(-size_bytes // PIECE_BYTES)
    return -(-pieces // SEGMENTS)


# --- a scan


def begun(scan: Scan | None, size_bytes: int, now: float, who: str) -> Scan:
    """Return the scan started, from the beginning, with what the last complete one measured."""
    before = scan or Scan(now)
    return replace(
        before,
        state=ScanState.RUNNING,
        size_bytes=size_bytes,
        next=0,
        begun_seconds=now,
        ended_seconds=None,
        text="",
        who=who,
        parts=(),
        bad=(),
        zone_bytes=(0,) * SEGMENTS,
        zone_seconds=(0.0,) * SEGMENTS,
        careful=0,
        too_slow=False,
    )


def resumed(scan: Scan, now: float, who: str) -> Scan:
    """Return a stopped scan that goes on where it was.

    Its start is moved, so that its pace does not count the time when it was stopped.
    """
    lasted = (scan.ended_seconds or now) - (scan.begun_seconds or now)
    return replace(
        scan,
        state=ScanState.RUNNING,
        begun_seconds=now - lasted,
        ended_seconds=None,
        text="",
        who=who,
    )


def ended(scan: Scan, state: ScanState, text: str, now: float) -> Scan:
    """Return the scan ended."""
    return replace(scan, state=state, text=text, ended_seconds=now)


def check_size(scan: Scan, disk: str, size_bytes: int) -> str:
    """Return why a scan cannot go on because the disk has another size than at its start, or ''."""
    if size_bytes == scan.size_bytes:
        return ""
    return (
        f"disk {disk}: expected {scan.size_bytes} bytes, as at the start of the scan, got"
        f" {size_bytes}: it was resized, or is another disk; start a new scan: iowarden scan start"
        f" --restart {disk}"
    )


def paused_until(scan: Scan, now: float) -> tuple[float, str] | None:
    """Return until when a scan must not read, and why; None: it may."""
    if scan.paused_seconds is not None and now < scan.paused_seconds:
        return scan.paused_seconds, "a read at its adapter took too long, for an hour"
    for span, limit, name in (
        (HOUR, TROUBLE_PER_HOUR_SECONDS, "hour"),
        (DAY, TROUBLE_PER_DAY_SECONDS, "day"),
    ):
        recent = [at for at in scan.trouble_seconds if now - at < span]
        spent = sum(scan.troubles[len(scan.troubles) - len(recent) :])
        if recent and spent >= limit:
            text = f"{duration(spent)} of the last {name} went into failed and slow reads"
            return recent[0] + span, f"{text}, of at most {duration(limit)}"
    tries = [at for at in scan.tries_seconds if now - at < HOUR]
    if scan.parts and len(tries) >= MAX_TRIES:
        return tries[0] + HOUR, f"{len(tries)} reads of bad areas in the last hour"
    return None


def next_batch(scan: Scan, now: float, max_pieces: int) -> ScanBatch | None:
    """Return what is read next, at most so many pieces; None: all is read."""
    limit = 1 if scan.careful else max_pieces
    if scan.parts:
        tried = sum(now - at < HOUR for at in scan.tries_seconds)
        length = scan.parts[0][1]
        same = [start for start, size in scan.parts if size == length]
        limit = max(min(limit, SPLIT, MAX_TRIES - tried), 1)
        return ScanBatch(tuple(same[:limit]), length, parts=True)
    offsets = []
    for position in range(scan.next, positions(scan.size_bytes)):
        offset = offset_at(position, scan.size_bytes)
        if offset is not None:
            offsets.append(offset)
        if len(offsets) == limit:
            break
    return ScanBatch(tuple(offsets), PIECE_BYTES) if offsets else None


def after_reads(
    scan: Scan, batch: ScanBatch, reads: Iterable[PieceRead], now: float, *, alone: bool
) -> Scan:
    """Return the scan with the result of a batch, of which the last pieces may not be read.

    `alone`: nothing else used the disk, so that the durations are the disk's own.
    """
    for read in reads:
        scan = _after_read(scan, batch, read, now, alone=alone)
    return scan


def _after_read(scan: Scan, batch: ScanBatch, read: PieceRead, now: float, *, alone: bool) -> Scan:
    end = min(read.offset + batch.length, scan.size_bytes)
    if read.error and read.error not in SECTOR_ERRORS:
        return scan  # not the medium's: nothing is known of this piece
    if read.error or read.seconds > TROUBLE_SECONDS:
        scan = _with_trouble(scan, read.seconds, now)
    if batch.parts:
        tries = (*(at for at in scan.tries_seconds if now - at < HOUR), now)
        parts = tuple(each for each in scan.parts if each != (read.offset, batch.length))
        scan = replace(scan, tries_seconds=tries, parts=parts)
    else:
        scan = replace(scan, next=_after(scan, read.offset), careful=max(scan.careful - 1, 0))
    if read.error:
        start = read.offset if read.bad_offset is None else read.bad_offset
        return _with_failed(scan, start, end - start)
    scan = replace(scan, bytes_total=scan.bytes_total + end - read.offset)
    return _with_zone(scan, read, end) if alone and not batch.parts else scan


def after_hang(scan: Scan, batch: ScanBatch, seconds: float, now: float) -> Scan:
    """Return the scan after a batch that did not come back.

    Of several pieces it is not known which one it was, and an adapter may have hung: each is read
    again, alone. One that hangs once more is bad.
    """
    scan = _with_trouble(scan, seconds, now)
    if len(batch.offsets) > 1 or not scan.careful:
        return replace(scan, careful=2 * len(batch.offsets))
    (offset,) = batch.offsets
    if batch.parts:
        parts = tuple(each for each in scan.parts if each != (offset, batch.length))
        scan = replace(scan, parts=parts)
    else:
        scan = replace(scan, next=_after(scan, offset))
    return _with_bad(scan, offset, min(batch.length, scan.size_bytes - offset))


def split(start: int, length: int) -> tuple[tuple[int, int], ...]:
    """Return the parts of an extent; none of one block, which is the smallest."""
    if length <= BLOCK_BYTES:
        return ()
    size = max(-(-length // SPLIT // BLOCK_BYTES) * BLOCK_BYTES, BLOCK_BYTES)
    return tuple((at, min(size, start + length - at)) for at in range(start, start + length, size))


def verdict(scan: Scan) -> str:
    """Return why a scan must end early because of what it found, or ''."""
    starts = [start for start, _ in scan.bad]
    if len(starts) >= MAX_RANGES:
        return f"{len(starts)} ranges cannot be read: replace the disk"
    last = CLUSTER_RANGES - 1
    for first, eighth in zip(starts, starts[last:], strict=False):
        if eighth - first < CLUSTER_BYTES:
            return (
                f"{CLUSTER_RANGES} ranges within 10 MB cannot be read, from byte {first} on: copy"
                " the data and replace the disk"
            )
    return ""


def completed(scan: Scan, now: float) -> Scan:
    """Return a scan that has read everything."""
    return replace(
        ended(scan, ScanState.COMPLETE, "", now),
        next=positions(scan.size_bytes),
        completed_seconds=now,
        zones=throughputs(scan),
        slower=slower_zones(scan, scan.zones),
    )


# --- what it measured


def progress_ratio(scan: Scan) -> float:
    """Return how much of the disk is read."""
    whole = positions(scan.size_bytes) if scan.size_bytes else 0
    return min(scan.next / whole, 1.0) if whole else 0.0


def remaining_seconds(scan: Scan, now: float) -> float | None:
    """Return how long the rest takes at the pace since the start, pauses included, if known."""
    done = progress_ratio(scan)
    if scan.begun_seconds is None or not done or now - scan.begun_seconds < _MIN_RATE_SECONDS:
        return None
    return (now - scan.begun_seconds) * (1 - done) / done


def is_too_slow(scan: Scan, now: float) -> bool:
    """Whether a scan that runs for a day or more would take longer than LONGEST_DAYS."""
    if scan.begun_seconds is None or now - scan.begun_seconds < DAY:
        return False
    left = remaining_seconds(scan, now)
    whole = DAY * LONGEST_DAYS
    return left is None or now - scan.begun_seconds + left > whole


def throughputs(scan: Scan) -> tuple[float, ...]:
    """Return the bytes per second of each zone; 0: too little was read of it."""
    return tuple(
        size / seconds if size >= _MIN_ZONE_BYTES and seconds > 0 else 0.0
        for size, seconds in zip(scan.zone_bytes, scan.zone_seconds, strict=True)
    )


def slower_zones(scan: Scan, before: tuple[float, ...]) -> tuple[tuple[int, float], ...]:
    """Return the zones that are slower than before by 30 % or more, with the ratio."""
    return tuple(
        (zone, new / old)
        for zone, (new, old) in enumerate(zip(throughputs(scan), before, strict=False))
        if new and old and new / old <= SLOWER_RATIO
    )


def samples(scans: Mapping[str, Scan]) -> list[Sample]:
    """Return the samples of FAMILIES, of disks that were scanned."""
    return [
        (family.name, (("disk", disk),), value)
        for disk, scan in scans.items()
        if scan.size_bytes
        for family, value in (
            (PROGRESS, progress_ratio(scan)),
            (RUNNING, float(scan.state is ScanState.RUNNING)),
            (READ_BYTES, float(scan.bytes_total)),
            (BAD_RANGES, float(len(scan.bad))),
            (SLOWER_ZONES, float(len(scan.slower))),
        )
    ]


def _with_trouble(scan: Scan, seconds: float, now: float) -> Scan:
    known = [
        (at, took)
        for at, took in zip(scan.trouble_seconds, scan.troubles, strict=True)
        if now - at < DAY
    ]
    known.append((now, seconds))
    return replace(
        scan,
        trouble_seconds=tuple(at for at, _ in known),
        troubles=tuple(took for _, took in known),
    )


def _after(scan: Scan, offset: int) -> int:
    """Return the position after that of a piece."""
    zone = zone_of(offset, scan.size_bytes)
    round_ = offset // PIECE_BYTES - zone * _segment(scan.size_bytes)
    return round_ * SEGMENTS + zone + 1


def _with_failed(scan: Scan, start: int, length: int) -> Scan:
    parts = split(start, length)
    if not parts:
        return _with_bad(scan, start, length)
    return replace(scan, parts=(*parts, *scan.parts))


def _with_bad(scan: Scan, start: int, length: int) -> Scan:
    """Return the scan with a bad extent; those that touch are one."""
    found: list[tuple[int, int]] = []
    for at, size in sorted((*scan.bad, (start, length))):
        if found and at <= sum(found[-1]):
            before, had = found[-1]
            found[-1] = (before, max(had, at + size - before))
        else:
            found.append((at, size))
    return replace(scan, bad=tuple(found))


def _with_zone(scan: Scan, read: PieceRead, end: int) -> Scan:
    zone = zone_of(read.offset, scan.size_bytes)
    sizes, seconds = list(scan.zone_bytes), list(scan.zone_seconds)
    sizes[zone] += end - read.offset
    seconds[zone] += read.seconds
    return replace(scan, zone_bytes=tuple(sizes), zone_seconds=tuple(seconds))
