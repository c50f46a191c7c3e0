"""One evaluation of an expression: what it reads, what it may cost, what its parts return.

Units: times are seconds of the store's clock; a unit of work is a sample of a window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from iowarden.rules.promql.errors import TooExpensiveError
from iowarden.rules.promql.store import Labels, Series, Store, VectorItem

if TYPE_CHECKING:
    from array import array

MOST_WORK = 10_000_000
"""What one evaluation may cost; a unit is about 0.1 microseconds of a slow core, so it ends in 2 s.

The loop waits for it. A unit is a sample of a window; the others are measured in that:
"""
SERIES_COST, ELEMENT_COST, STEP_COST = 15, 5, 3
"""Of finding a series, of an element in an operation, of a node in a step of a subquery."""
GROUPED_COST, RELABELLED_COST, ROW_COST = 10, 25, 50
"""Beside that of an element: to group it, to give it other labels, to begin a subquery's series."""
STATE_COST = 8
"""Of a state of a regular expression's automaton, for each value that it may match."""


class Budget:
    """What some evaluations may cost together, because the same loop waits for all of them."""

    __slots__ = ("left",)

    def __init__(self, most: int = MOST_WORK) -> None:
        """Begin with nothing spent."""
        self.left = most


class Run:
    """One evaluation: where it reads, the times that `@` names, and what it may still cost."""

    __slots__ = ("end", "found", "left", "most", "start", "step_seconds", "store")

    def __init__(
        self, store: Store, start: float, end: float, step_seconds: float, budget: Budget
    ) -> None:
        """Begin; it may cost what is left of the budget."""
        self.store = store
        self.start = start
        self.end = end
        self.step_seconds = step_seconds
        self.most = self.left = min(MOST_WORK, max(0, budget.left))
        self.found: dict[int, Found] = {}
        """Series by selector, found once for all the steps of a subquery."""

    def spend(self, cost: int) -> None:
        """Count work, before it is done where that is known.

        Errors: EvaluationError where it is too much.
        """
        self.left -= cost
        if self.left < 0:
            beside = "" if self.most >= MOST_WORK else " beside what else is asked now"
            raise TooExpensiveError(
                f"too expensive: one evaluation may read{beside} "
                f"{self.most:,} samples, or find {self.most // SERIES_COST:,} series;"
                " shorten its ranges, lengthen its steps or select less"
            )

    def relabel(self, labels: Labels, characters: int) -> None:
        """Count a label of so many characters beside others, before it is made.

        Errors: EvaluationError where it is too much: each `$1$1` doubles a text.
        """
        self.spend(RELABELLED_COST + len(labels) + characters)


Found = list[tuple[str, Series]]
"""Series, each with its name."""
Vector = list[VectorItem]
Row = tuple[str, Labels, "array[float]", "array[float]"]
"""Name, labels, timestamps and values of a series in a window."""
VectorFunction = Callable[[Run, float], Vector]
ScalarFunction = Callable[[Run, float], float]
SeriesFunction = Callable[[Run], Found]
RowsFunction = Callable[[Run, float], Iterator[Row]]
