"""Chunks: the packed form of samples in history.db, all series of one metric together. Pure.

Format: zlib of a length (4 bytes, little-endian), so many bytes of JSON, then numbers: first the
distinct lists of timestamps (series polled together share theirs), then the values of each series.
The JSON has the lengths of the lists, and for each series its labels and the number of its list. Of
each list, the first bytes of all doubles come first, then all second ones, and so on: they are
similar, and compress well.
Limits: numbers are in this machine's byte order.
"""

from __future__ import annotations

import json
import struct
import zlib
from array import array
from operator import ne
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.rules.promql.history import Labels, Row

_LENGTH = struct.Struct("<I")
_DOUBLE_BYTES = 8
_LEVEL = 1
"""zlib level: higher ones take several times as long for a few percent."""


class ChunkError(Exception):
    """A chunk is damaged."""


def pack(rows: Iterable[Row]) -> bytes:
    """Return series of one metric as a chunk."""
    lists: dict[bytes, int] = {}
    series: list[tuple[Labels, int]] = []
    values: list[bytes] = []
    for _, labels, timestamps, numbers in rows:
        series.append((labels, lists.setdefault(timestamps.tobytes(), len(lists))))
        values.append(_shuffled(numbers.tobytes()))
    text = json.dumps([[len(data) // _DOUBLE_BYTES for data in lists], series]).encode()
    parts = (_LENGTH.pack(len(text)), text, *map(_shuffled, lists), *values)
    return zlib.compress(b"".join(parts), _LEVEL)


def unpack(name: str, chunk: bytes) -> list[Row]:
    """Return the series of a chunk. Errors: ChunkError."""
    try:
        data = memoryview(zlib.decompress(chunk))
        at = _LENGTH.size + _LENGTH.unpack_from(data)[0]
        lengths, series = json.loads(bytes(data[_LENGTH.size : at]))
        lists = []
        for length in lengths:
            lists.append(_numbers(data[at : at + length * _DOUBLE_BYTES]))
            at += length * _DOUBLE_BYTES
        rows: list[Row] = []
        for labels, number in series:
            size = lengths[number] * _DOUBLE_BYTES
            values = _numbers(data[at : at + size])
            if len(values) != lengths[number]:
                raise ChunkError(f"expected {lengths[number]} values, got {len(values)}")
            at += size
            pairs = tuple((str(key), str(text)) for key, text in labels)
            rows.append((name, pairs, lists[number][:], values))
    except (zlib.error, struct.error, ValueError, TypeError, IndexError, RecursionError) as error:
        raise ChunkError(str(error)) from error
    return rows


def size(rows: Iterable[Row]) -> int:
    """Return how many numbers the rows take in memory: runs of equal values, and timestamps."""
    rows = list(rows)
    lists = {timestamps.tobytes() for _, _, timestamps, _ in rows}
    runs: int = sum(1 + sum(map(ne, values, values[1:])) for _, _, _, values in rows)
    return runs + sum(map(len, lists)) // _DOUBLE_BYTES


def moved(rows: Iterable[Row], by_seconds: float) -> list[Row]:
    """Return the same series with shifted times."""
    if not by_seconds:
        return list(rows)
    return [
        (name, labels, array("d", [at + by_seconds for at in timestamps]), values)
        for name, labels, timestamps, values in rows
    ]


def _shuffled(data: bytes) -> bytes:
    return b"".join(data[first::_DOUBLE_BYTES] for first in range(_DOUBLE_BYTES))


def _numbers(data: memoryview) -> array[float]:
    size = len(data) // _DOUBLE_BYTES
    plain = bytearray(len(data))
    for first in range(_DOUBLE_BYTES):
        plain[first::_DOUBLE_BYTES] = data[first * size : (first + 1) * size]
    numbers = array("d")
    numbers.frombytes(plain)
    return numbers
