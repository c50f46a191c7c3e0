"""Usual latencies of each disk, by its load: what its siblings and its own past are measured by.

Latency depends on the request size and on the requests in flight. A cell is one direction with
both of these within a factor of four; only windows of the same cell are compared. A disk is
identified by its serial number. What it did today becomes its history at the end of the day (UTC),
so that a disk that became slow is not compared with its own slowness; a restart of the program
loses the current day.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.rules.signals.signal import Pairs

MIN_DAYS, MIN_WINDOWS = 7, 500
MIN_SIBLINGS = 2
RETAINED_RATIO = 6 / 7
"""Share of the windows of the past that a day leaves: seven days weigh more than all before."""
MAX_WINDOWS = 100_000
MAX_DISKS = 2000
BINS_PER_DOUBLING = 4
_BASE_SECONDS = 1e-6
_MAX_BIN = 127
_P50, _P95 = 0.5, 0.95
READ, WRITE = 0, 1 << 10
_CELL_BITS, _WINDOW_BITS, _BIN_BITS = 11, 20, 7

_NO_DISK = (0.0, "", 0.0)

Bins = dict[int, int]
"""Number of windows by latency."""


class Usual(NamedTuple):
    """A cell's earlier: windows, and the bins of its percentiles."""

    windows: float
    p50: float
    p95: float


Cell = tuple[str, int]
"""A disk's key and the load."""


class History(NamedTuple):
    """All disks. Units: days since 1970 (UTC)."""

    day: int = 0
    first: Mapping[str, int] = MappingProxyType({})
    """The first day of each disk."""
    today: Mapping[Cell, Bins] = MappingProxyType({})
    earlier: Mapping[Cell, Usual] = MappingProxyType({})

    usual: Mapping[Cell, float] = MappingProxyType({})
    """The 95th percentiles in seconds that are known well enough on this day."""


NOTHING = History()


class SiblingCell(NamedTuple):
    """A cell of all disks of an adapter or enclosure.

    Fields: `slowest` is the disk with the highest 95th percentile, `highest_seconds`; the next
    lower one is `next_seconds`.
    """

    windows: float
    disks: frozenset[str]
    slowest: str
    highest_seconds: float
    next_seconds: float

    def reference_seconds(self, key: str) -> float | None:
        """Return the highest 95th percentile of the others; None: too little is known.

        The highest is at least the percentile of all of them together.
        """
        if self.windows < MIN_WINDOWS or len(self.disks) - (key in self.disks) < MIN_SIBLINGS:
            return None
        return self.next_seconds if key == self.slowest else self.highest_seconds


UNKNOWN = SiblingCell(0.0, frozenset(), "", 0.0, 0.0)


def depth(in_flight: float) -> int:
    """Return the logarithm (base 4) of the requests in flight."""
    return int(16 * in_flight).bit_length() >> 1


def load(operation: str, size_bytes: float, at_depth: int) -> int:
    """Return the load of a window: direction, logarithm of the request size, depth."""
    return (
        (READ if operation == "read" else WRITE) | int(size_bytes).bit_length() >> 1 << 5 | at_depth
    )


def bin_of(seconds: float) -> int:
    """Return the bin of a latency."""
    if seconds <= _BASE_SECONDS:
        return 0
    return min(int(BINS_PER_DOUBLING * math.log2(seconds / _BASE_SECONDS)) + 1, _MAX_BIN)


def seconds_of(found: float) -> float:
    """Return the upper end of a bin."""
    return float(_BASE_SECONDS * 2 ** (found / BINS_PER_DOUBLING))


def learned(before: History, seen: Iterable[tuple[str, int, float]]) -> History:
    """Return the history with windows of disks: key, load and latency."""
    first, today = dict(before.first), dict(before.today)
    for key, at, seconds in seen:
        cell, found = (key, at), bin_of(seconds)
        bins = today.get(cell)
        today[cell] = {**bins, found: bins.get(found, 0) + 1} if bins else {found: 1}
        if key not in first:
            first[key] = before.day
    return before._replace(first=first, today=today)


def sibling_cell(history: History, keys: Iterable[str], at: int) -> SiblingCell:
    """Return what was observed of disks under a load."""
    known = []
    for key in keys:
        found = _combined(history.earlier.get((key, at)), history.today.get((key, at)))
        if found is not None:
            known.append((found.p95, key, found.windows))
    known.sort(reverse=True)
    (highest, slowest, _), (following, _, _), *_ = (*known, _NO_DISK, _NO_DISK)
    return SiblingCell(
        sum(windows for _, _, windows in known),
        frozenset(key for _, key, _ in known),
        slowest,
        seconds_of(highest),
        seconds_of(following),
    )


def on_day(before: History, day: int) -> History:
    """Return the history on a day: what was seen on the days before is the earlier.

    A day on which a disk was not under a load leaves its past under that load as it is. Of more
    than MAX_DISKS disks those that were first seen are forgotten.
    """
    if day == before.day:
        return before
    latest = sorted(before.first, key=lambda key: (before.first[key], key))[-MAX_DISKS:]
    first = {key: before.first[key] for key in latest}
    earlier = dict(before.earlier)
    for at, bins in before.today.items():
        earlier[at] = _combined(earlier.get(at), bins) or earlier[at]
    earlier = {at: each for at, each in earlier.items() if at[0] in first}
    return _with_usual(History(day, first, {}, earlier))


def _with_usual(history: History) -> History:
    usual = {
        at: seconds_of(each.p95)
        for at, each in history.earlier.items()
        if each.windows >= MIN_WINDOWS and history.day - history.first[at[0]] >= MIN_DAYS
    }
    return history._replace(usual=usual)


def _combined(earlier: Usual | None, today: Bins | None) -> Usual | None:
    if not today:
        return earlier
    windows = sum(today.values())
    ordered = sorted(today.items())
    p50, p95 = (float(_percentile(ordered, share * windows)) for share in (_P50, _P95))
    if earlier is None:
        return Usual(windows, p50, p95)
    old = earlier.windows * RETAINED_RATIO
    total = min(old + windows, MAX_WINDOWS)
    share = windows / (old + windows)
    return Usual(
        total, earlier.p50 + (p50 - earlier.p50) * share, earlier.p95 + (p95 - earlier.p95) * share
    )


def _percentile(ordered: list[tuple[int, int]], rank: float) -> int:
    seen = 0
    for found, count in ordered:
        seen += count
        if seen >= rank:
            return found
    return ordered[-1][0]


def remembered(history: History) -> dict[str, Pairs]:
    """Return what is stored over a restart, by disk: its first day, then each load in one number.

    The current day is lost.
    """
    pairs = {key: [(0.0, float(first))] for key, first in history.first.items()}
    for (key, at), each in history.earlier.items():
        pairs[key].append((0.0, _packed(at, each)))
    return {key: tuple(own) for key, own in pairs.items()}


def recalled(now: History, stored: Mapping[str, Pairs]) -> History:
    """Return the stored history with what was seen since the restart."""
    first, earlier = dict(now.first), dict(now.earlier)
    for key, pairs in stored.items():
        if pairs:
            (_, own), *cells = pairs
            first[key] = int(own)
            for _, each in cells:
                at, usual = _unpacked(int(each))
                earlier[key, at] = usual
    return _with_usual(now._replace(first=first, earlier=earlier))


def _packed(at: int, each: Usual) -> float:
    packed = at
    for number, bits in (
        (each.windows, _WINDOW_BITS),
        (each.p50, _BIN_BITS),
        (each.p95, _BIN_BITS),
    ):
        packed = packed << bits | min(round(number), (1 << bits) - 1)
    return float(packed)


def _unpacked(packed: int) -> tuple[int, Usual]:
    numbers = []
    for bits in (_BIN_BITS, _BIN_BITS, _WINDOW_BITS):
        numbers.append(packed & (1 << bits) - 1)
        packed >>= bits
    p95, p50, windows = map(float, numbers)
    return packed, Usual(windows, p50, p95)
