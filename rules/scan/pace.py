"""Pace of a surface scan: how much is read at once, so that programs do not notice it. Pure.

The idle I/O class is not relied on: it has no effect under the scheduler 'none', the default of
NVMe. What others do sets the pace. While nothing else uses the disk, our one request is in flight
for at most half of the time, at a rate that doubles in about 10 s up to half of what the disk can
do. While others do, it is in flight for at most 0.8 % of the time: one in 125 of their requests
meets one of ours, however few they are. Units: bytes, seconds.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.block.surface import BATCH_SECONDS, MAX_PIECES
from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from iowarden.collectors.block.surface import OtherIo, PieceRead

START_RATE = {True: 8e6, False: 64e6}
"""By whether the disk rotates."""
MIN_RATE = 0.5e6
MAX_OTHERS_PER_SECOND = 5.0
"""More of them also halve the rate that is gone back to when they stop."""
SLOWER_AWAIT = 1.5
"""Others are disturbed when their requests take so many times as long as usual."""
QUIET_SECONDS = 3.0
FASTER, SLOWER = 1.25, 0.5
ALONE_REST, SHARED_REST = 1, 124
"""The disk rests for so many times the duration of a read: in flight for 1/2 and 1/125."""
SHARED_STEP_BYTES = 128 * 1024
"""On a solid-state disk: a larger read delays others for longer."""
MEDIAN_SECONDS = 600.0
_SMOOTHING = 0.2


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace on one disk. Not stored: it is found again within a minute.

    Fields: `others_seconds`: when others were last seen; `raised_seconds`: the last increase;
    `awaits`: time and mean duration of others' requests; `measured`: what the disk can do.
    """

    rotational: bool
    rate: float
    others_seconds: float = float("-inf")
    raised_seconds: float = float("-inf")
    awaits: tuple[tuple[float, float], ...] = ()
    measured: float | None = None
    ready_seconds: float = float("-inf")
    """No batch begins before."""


@dataclass(frozen=True, slots=True)
class BatchPace:
    """Pace of the next batch; fields as in ScanRequest."""

    pieces: int
    step_bytes: int
    gap_seconds: float
    rest: int
    others: int | None


def new_pace(*, rotational: bool) -> Pace:
    """Return the pace of a disk at the start."""
    return Pace(rotational, START_RATE[rotational])


def is_alone(pace: Pace, now: float) -> bool:
    """Whether nothing else has used the disk lately."""
    return now - pace.others_seconds >= QUIET_SECONDS


def observe(pace: Pace, others: OtherIo, now: float) -> Pace:
    """Return the pace after a span of about a second in which others did this."""
    awaits = tuple(each for each in pace.awaits if now - each[0] < MEDIAN_SECONDS)
    disturbed = others.requests > MAX_OTHERS_PER_SECOND * max(others.seconds, 1.0)
    if others.requests:
        mean = others.milliseconds / others.requests
        usual = statistics.median(each for _, each in awaits) if awaits else mean
        disturbed = disturbed or mean > SLOWER_AWAIT * usual > 0
        pace = replace(pace, others_seconds=now, awaits=(*awaits, (now, mean)))
    if disturbed:
        return replace(pace, rate=max(pace.rate * SLOWER, MIN_RATE))
    quiet_since = max(pace.others_seconds, pace.raised_seconds)
    if pace.measured is None or now - quiet_since < QUIET_SECONDS:
        return pace
    rate = max(min(pace.rate * FASTER, pace.measured / 2), MIN_RATE)
    return replace(pace, rate=rate, raised_seconds=now)


def after_batch(pace: Pace, batch: BatchPace, reads: tuple[PieceRead, ...], length: int) -> Pace:
    """Return the pace with what the reads of a batch show of the disk."""
    spent = sum(read.seconds for read in reads if not read.error)
    size = length * sum(not read.error for read in reads)
    if batch.rest != ALONE_REST or spent <= 0:
        return pace
    now_measured = size / spent
    before = pace.measured
    measured = now_measured if before is None else before + _SMOOTHING * (now_measured - before)
    return replace(pace, measured=measured)


def rested(pace: Pace, batch: BatchPace, reads: tuple[PieceRead, ...], now: float) -> Pace:
    """Return the pace with the rest after a batch: the probe rests for at most two seconds."""
    longest = max((read.seconds for read in reads), default=0.0)
    left = batch.rest * longest - BATCH_SECONDS
    return replace(pace, ready_seconds=now + left) if left > 0 else pace


def next_pace(pace: Pace, now: float, piece_bytes: int) -> BatchPace:
    """Return the pace of the next batch, which lasts about two seconds."""
    gap = piece_bytes / pace.rate
    pieces = max(1, min(int(BATCH_SECONDS / gap), MAX_PIECES))
    if is_alone(pace, now):
        return BatchPace(pieces, piece_bytes, gap, ALONE_REST, 0)
    step = piece_bytes if pace.rotational else min(piece_bytes, SHARED_STEP_BYTES)
    return BatchPace(pieces, step, gap, SHARED_REST, None)
