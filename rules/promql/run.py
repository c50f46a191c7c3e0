"""One evaluation of an expression: its input, its cost limit, its intermediate results.

Units: times are seconds of the store's clock; a unit of cost is a sample of a window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from iowarden.rules.promql.automaton import RegexError, Steps
from iowarden.rules.promql.errors import TooExpensiveError
from iowarden.rules.promql.store import Labels, Series, SeriesStore, VectorItem

if TYPE_CHECKING:
    from array import array

    from iowarden.rules.promql.ast import Node

MAX_WORK = 10_000_000
"""Cost limit of one evaluation; a unit takes about 0.1 microseconds on a slow core, so it ends in 2
s.

The loop waits for it. A unit is a sample of a window; the other costs are measured in that:
"""
SERIES_COST, ELEMENT_COST, STEP_COST = 15, 5, 3
"""For finding a series, for an element in an operation, for a node in a step of a subquery."""
GROUPED_COST, RELABELLED_COST, ROW_COST = 10, 25, 50
"""In addition to that of an element: to group it, to change its labels, to begin a subquery's
series."""
STATE_COST = 8
"""For a state of a regular expression's automaton at a position of the text."""


_Found = TypeVar("_Found")


class Budget:
    """Cost limit that several evaluations share, because the same loop waits for all of them."""

    __slots__ = ("left", "maximum")

    def __init__(self, maximum: int = MAX_WORK) -> None:
        """Start with an unused budget."""
        self.left = self.maximum = maximum


class EvaluationRun:
    """One evaluation: its store, the times for `@`, and its remaining budget."""

    __slots__ = (
        "budget_units",
        "empty_by",
        "end",
        "left",
        "selected",
        "shared_with",
        "start",
        "step_seconds",
        "store",
    )

    def __init__(
        self, store: SeriesStore, start: float, end: float, step_seconds: float, budget: Budget
    ) -> None:
        """Start with the remaining budget."""
        self.store = store
        self.start = start
        self.end = end
        self.step_seconds = step_seconds
        self.budget_units = self.left = min(MAX_WORK, max(0, budget.left))
        is_shared = self.left < min(MAX_WORK, budget.maximum)
        self.shared_with = " (after the other expressions due now)" if is_shared else ""
        self.selected: dict[int, NamedSeries] = {}
        """Series by selector, found once for all the steps of a subquery."""
        self.empty_by: tuple[Node, ...] = ()
        """Nodes because of which the last vector is empty; () if it is not."""

    def spend(self, cost: int) -> None:
        """Add a cost, before the work where the cost is known then.

        Errors: EvaluationError if the limit is exceeded.
        """
        self.left -= cost
        if self.left < 0:
            raise TooExpensiveError(
                f"too expensive: one evaluation may read{self.shared_with}"
                f" {self.budget_units:,} samples, or find {self.budget_units // SERIES_COST:,}"
                " series; shorten its ranges, lengthen its steps or select less"
            )

    def relabel(self, labels: Labels, characters: int) -> None:
        """Add the cost of a label of so many characters next to others, before it is made.

        Errors: EvaluationError if the limit is exceeded: each `$1$1` doubles a text.
        """
        self.spend(RELABELLED_COST + len(labels) + characters)

    def searched(self, search: Callable[[Steps], _Found]) -> _Found:
        """Return what a search with regular expressions returns, and add the steps that it took.

        Errors: EvaluationError if the limit is exceeded; the search has ended by then.
        """
        most = self.left // STATE_COST
        steps = Steps(most)
        try:
            found = search(steps)
        except RegexError:
            self.spend(self.left + 1)
            raise
        self.spend(STATE_COST * (most - steps.left))
        return found


NamedSeries = list[tuple[str, Series]]
"""Series, each with its name."""
Vector = list[VectorItem]
Row = tuple[str, Labels, "array[float]", "array[float]"]
"""Name, labels, timestamps and values of a series in a window."""
VectorFunction = Callable[[EvaluationRun, float], Vector]
ScalarFunction = Callable[[EvaluationRun, float], float]
SeriesFunction = Callable[[EvaluationRun], NamedSeries]
RowsFunction = Callable[[EvaluationRun, float], Iterator[Row]]
