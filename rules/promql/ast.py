"""Syntax tree of a PromQL expression, with positions.

Source: Prometheus 3, 'Querying basics' and 'Operators'. Parentheses and unary plus have no node.
Units: `position` is an offset into the text, where the node begins with the parentheses around it;
for a binary operation that of its operator.
"""

from __future__ import annotations

from typing import Literal

from iowarden.collectors.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LabelMatcher:
    """One `label operator "value"` of a selector; operator is =, !=, =~ or !~."""

    label: str
    operator: str
    value: str
    position: int


@dataclass(frozen=True, slots=True)
class Number:
    """A number, or a duration as its seconds."""

    value: float
    position: int


@dataclass(frozen=True, slots=True)
class Text:
    """A string literal, unquoted."""

    value: str
    position: int


@dataclass(frozen=True, slots=True)
class Selector:
    """An instant vector selector, or with a range a range vector's.

    `name` is '' where the name is not fixed. Units: seconds; `at` is the time of the modifier `@`,
    as a number or as 'start' or 'end' of the query.
    """

    name: str
    matchers: tuple[LabelMatcher, ...]
    """Without the one that fixes the name."""
    position: int
    range_seconds: float | None = None
    offset_seconds: float = 0.0
    at: float | Literal["start", "end"] | None = None


@dataclass(frozen=True, slots=True)
class Subquery:
    """An expression evaluated at each step of a range: `expression[30m:1m]`. Units as above."""

    expression: Node
    range_seconds: float
    step_seconds: float | None
    """None: the default, a rule group's interval."""
    position: int
    offset_seconds: float = 0.0
    at: float | Literal["start", "end"] | None = None


@dataclass(frozen=True, slots=True)
class Aggregation:
    """`sum by (device) (expression)`, `quantile without (device) (0.9, expression)`."""

    operator: str
    expression: Node
    parameter: Node | None
    """Of count_values, quantile, topk and bottomk."""
    labels: tuple[str, ...]
    without: bool
    """Whether `labels` are removed, not retained."""
    position: int


@dataclass(frozen=True, slots=True)
class Negation:
    """Unary minus."""

    operand: Node
    position: int


@dataclass(frozen=True, slots=True)
class Matching:
    """Vector matching: `on(...)`, `ignoring(...)`, `group_left(...)`."""

    on: bool = False
    labels: frozenset[str] = frozenset()
    """Of `on` or `ignoring`."""
    many: Literal["", "left", "right"] = ""
    """The "many" side of the matching: `group_left` means left."""
    include: tuple[str, ...] = ()
    """Labels that group_left or group_right copies from the other side."""


@dataclass(frozen=True, slots=True)
class Binary:
    """An operation on two operands."""

    operator: str
    left: Node
    right: Node
    returns_bool: bool
    matching: Matching
    position: int
    """Of the operator."""
    start: int
    """Of the left operand."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function call, with default arguments added: `hour()` is `hour(vector(time()))`."""

    function: str
    arguments: tuple[Node, ...]
    position: int


Node = Number | Text | Selector | Subquery | Aggregation | Negation | Binary | Call


def children(node: Node) -> tuple[Node, ...]:
    """Return a node's operands, in the order they were written."""
    match node:
        case Subquery():
            return (node.expression,)
        case Aggregation():
            operands = (node.parameter, node.expression)
            return tuple(operand for operand in operands if operand is not None)
        case Negation():
            return (node.operand,)
        case Binary():
            return (node.left, node.right)
        case Call():
            return node.arguments
    return ()


def begin(node: Node) -> int:
    """Return where a node begins."""
    return node.start if isinstance(node, Binary) else node.position
