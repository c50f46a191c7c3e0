"""Courses: the values of some metrics over the last 15 minutes, for mails. Pure.

One column of numbers every 30 s, taken from the samples that are exposed anyway; what was not
measured is a gap. Limits: memory is 120 bytes a series, and a reference to its labels; nothing is
stored over a restart.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from typing import TYPE_CHECKING

from iowarden.rules.notice import Course
from iowarden.rules.notices.metric_titles import COURSES, value_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from iowarden.collectors.model import Chunk, Labels

CELLS, CELL_SECONDS = 30, 30.0
MAX_SERIES = 20_000
"""Series with a course; further ones have none."""
_FLAT = 0.05
"""A course that varies by less, relative to its largest value, is flat."""
_SPARE = 256
"""Vanished series that are stored in addition to as many as there are present ones."""


class Courses:
    """The last values of metrics. Units: seconds of the program's clock."""

    def __init__(self, names: Collection[str] = COURSES) -> None:
        """Start without values of these metrics."""
        self._names = frozenset(names)
        self._rows: dict[str, dict[Labels, int]] = {}
        self._count = 0
        self._columns: deque[tuple[int, array[float]]] = deque(maxlen=CELLS)

    @property
    def series(self) -> int:
        """Return how many series are stored."""
        return self._count

    def take(self, chunks: Iterable[Chunk], now: float) -> None:
        """Take the present values, if 30 s began since the last ones."""
        slot = int(now // CELL_SECONDS)
        if self._columns and self._columns[-1][0] == slot:
            return
        if self._columns and self._columns[-1][0] > slot:  # the clock was set back
            self._columns.clear()
        column = array("f", (math.nan,)) * self._count
        live = 0
        for chunk in chunks:
            for family, samples in chunk.of(self._names):
                rows = self._rows.setdefault(family.name, {})
                live += len(samples)
                for _, labels, value in samples:
                    row = rows.get(labels)
                    if row is None:
                        if self._count >= MAX_SERIES:
                            continue
                        row = rows[labels] = self._count
                        self._count += 1
                        column.append(value)
                    else:
                        column[row] = value
        self._columns.append((slot, column))
        if self._count > 2 * live + _SPARE:
            self._compact()

    def _compact(self) -> None:
        """Drop the series without a value in any column."""
        kept: list[int] = []
        for name, rows in list(self._rows.items()):
            found = [
                (labels, row)
                for labels, row in rows.items()
                if any(row < len(c) and not math.isnan(c[row]) for _, c in self._columns)
            ]
            self._rows[name] = {labels: len(kept) + at for at, (labels, _) in enumerate(found)}
            kept += [row for _, row in found]
        columns = [
            (slot, array("f", [c[row] if row < len(c) else math.nan for row in kept]))
            for slot, c in self._columns
        ]
        self._count = len(kept)
        self._columns = deque(columns, maxlen=CELLS)

    def cells(self, name: str, labels: Labels, value: float, now: float) -> list[float | None]:
        """Return the values of the last 15 minutes, oldest first; the last one is the present."""
        cells: list[float | None] = [None] * CELLS
        row, last = self._rows.get(name, {}).get(labels), int(now // CELL_SECONDS)
        for slot, column in self._columns:
            at = CELLS - 1 - (last - slot)
            if row is not None and row < len(column) and 0 <= at < CELLS:
                cells[at] = column[row] if math.isfinite(column[row]) else None
        cells[-1] = value if math.isfinite(value) else None
        return cells

    def course(
        self, name: str, labels: Labels, value: float, now: float, threshold: float | None
    ) -> Course | None:
        """Return the course of a series up to its present value; None: it has none, or is flat."""
        if name not in self._names:
            return None
        cells = self.cells(name, labels, value, now)
        known = [each for each in cells if each is not None]
        if not known or max(known) - min(known) <= _FLAT * max(map(abs, known)):
            return None
        least, most = value_text(name, min(known)), value_text(name, max(known))
        return Course(tuple(cells), least, most, threshold)
