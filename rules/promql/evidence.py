"""Determines whether an expression could be true only because history is short.

`increase(x[1h]) > 0` cannot: the recorded history is enough, and more could only add to it.
`absent_over_time(x[1d])`, `min_over_time(x[1h]) > 5` and `rate(x[15m]) / rate(x[1d]) > 2` can.
Limits: metrics and results computed from them are assumed not negative, and extrapolated values as
observed. An unclear case counts as 'could'.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.promql.ast import (
    Aggregation,
    Binary,
    Call,
    Negation,
    Node,
    Number,
    Selector,
    Subquery,
    children,
)
from iowarden.rules.promql.signatures import COMPARISONS, result_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Drift:
    """How more history could change a result: the values of elements, and which elements exist."""

    rises: bool = False
    falls: bool = False
    appears: bool = False
    vanishes: bool = False

    def __or__(self, other: Drift) -> Drift:
        """Return the combination of both changes."""
        return Drift(
            self.rises or other.rises,
            self.falls or other.falls,
            self.appears or other.appears,
            self.vanishes or other.vanishes,
        )

    @property
    def opposite(self) -> Drift:
        """Return the change of the negative or the reciprocal."""
        return replace(self, rises=self.falls, falls=self.rises)

    @property
    def changes(self) -> bool:
        """Whether anything could change."""
        return self != STEADY

    @property
    def unsteady(self) -> Drift:
        """Return the same with values that could change in both directions, if anything changes."""
        return replace(self, rises=self.changes, falls=self.changes)


STEADY = Drift()
_OVER_RANGES: Mapping[str, Drift] = {
    **dict.fromkeys(
        "changes count_over_time increase max_over_time rate resets sum_over_time".split(),
        Drift(rises=True, appears=True),
    ),
    "min_over_time": Drift(falls=True, appears=True),
    # The newest samples, however many there are.
    **dict.fromkeys("idelta irate last_over_time present_over_time".split(), Drift(appears=True)),
}
_EITHER_DIRECTION = Drift(rises=True, falls=True, appears=True)
"""avg_over_time, delta, deriv, predict_linear, quantile_over_time and others."""
_IN_STEP = frozenset(
    """abs ceil clamp clamp_max clamp_min deg exp floor label_join label_replace ln log10 log2 rad
    round sgn sort sort_desc sqrt""".split()
)
"""Functions that increase with their argument, or leave it unchanged."""


def drift(node: Node, recorded: Callable[[str], Drift] = lambda _: STEADY) -> Drift:
    """Return how more history could change a result; `recorded` returns it for metrics by name."""
    match node:
        case Selector():
            looks_back = node.offset_seconds > 0 or node.at is not None
            return recorded(node.name) | Drift(appears=looks_back)
        case Negation():
            return drift(node.operand, recorded).opposite
        case Aggregation():
            return _aggregated(node, drift(node.expression, recorded))
        case Binary():
            return _binary(node, drift(node.left, recorded), drift(node.right, recorded))
        case Call():
            return _called(node, recorded)
    parts = (drift(child, recorded) for child in children(node))
    return reduce(Drift.__or__, parts, STEADY).unsteady


def _called(node: Call, recorded: Callable[[str], Drift]) -> Drift:
    windows = [
        argument
        for argument in node.arguments
        if isinstance(argument, Subquery)
        or (isinstance(argument, Selector) and argument.range_seconds is not None)
    ]
    parts = (
        drift(a.expression if isinstance(a, Subquery) else a, recorded) for a in node.arguments
    )
    inner = reduce(Drift.__or__, parts, STEADY)
    if node.function in {"absent", "absent_over_time"}:
        return Drift(appears=inner.vanishes, vanishes=inner.appears or bool(windows))
    if windows:
        own = _OVER_RANGES.get(node.function, _EITHER_DIRECTION)
        # Elements missing within are missing in what is computed from them.
        return (own | inner) if not inner.vanishes else (own | inner).unsteady
    return inner if node.function in _IN_STEP else inner.unsteady


def _aggregated(node: Aggregation, inner: Drift) -> Drift:
    match node.operator:
        case "sum" | "max":
            return replace(
                inner, rises=inner.rises or inner.appears, falls=inner.falls or inner.vanishes
            )
        case "min":
            return replace(
                inner, rises=inner.rises or inner.vanishes, falls=inner.falls or inner.appears
            )
        case "count":
            return replace(inner, rises=inner.appears, falls=inner.vanishes)
        case "avg" | "group":  # on one host, elements appear together
            return inner
        case "topk" | "bottomk" | "count_values":
            return replace(inner.unsteady, vanishes=inner.changes)
    return inner.unsteady


def _binary(node: Binary, left: Drift, right: Drift) -> Drift:
    both = left | right
    match node.operator:
        case "and":
            return replace(left, appears=both.appears, vanishes=both.vanishes)
        case "or":  # an element of the left replaces one of the right
            return both.unsteady if left.appears or left.vanishes else both
        case "unless":
            return replace(
                left,
                appears=left.appears or right.vanishes,
                vanishes=left.vanishes or right.appears,
            )
        case "+":
            return both
        case "-":
            return left | right.opposite
        case "*" | "/":
            negative = [_is_negative(side) for side in (node.left, node.right)]
            found = left | (right if node.operator == "*" else right.opposite)
            return found.opposite if negative[0] != negative[1] else found
        case operator if operator in COMPARISONS:
            return _compared(node, left, right)
    return both.unsteady


def _is_negative(node: Node) -> bool:
    if isinstance(node, Negation):
        return isinstance(node.operand, Number)
    return isinstance(node, Number) and node.value < 0


def _compared(node: Binary, left: Drift, right: Drift) -> Drift:
    """Return the change of a filter: which elements stay depends on the values of both sides."""
    apart = left | right.opposite  # rises: the left becomes larger than the right
    if node.operator in {"<", "<="}:
        apart = apart.opposite
    elif node.operator in {"==", "!="}:
        apart = apart.unsteady if apart.rises or apart.falls else apart
    both = left | right
    if node.returns_bool:
        return replace(both, rises=apart.rises, falls=apart.falls)
    kept = right if result_type(node.left) == "scalar" else left
    return replace(
        kept,
        appears=both.appears or apart.rises,
        vanishes=both.vanishes or apart.falls,
    )
