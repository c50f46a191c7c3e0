"""The syntax tree of an expression: what was written, and where.

Source: Prometheus 3, 'Querying basics' and 'Operators'. `position` is an offset into the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Matcher:
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
class Selector:
    """An instant vector selector; `name` is '' where the name is not fixed."""

    name: str
    matchers: tuple[Matcher, ...]
    """Without the one that fixes the name."""
    position: int


@dataclass(frozen=True, slots=True)
class Negation:
    """Unary minus; unary plus leaves no trace in the tree."""

    operand: Node
    position: int


@dataclass(frozen=True, slots=True)
class Matching:
    """How two vectors find each other: `on(...)`, `ignoring(...)`, `group_left(...)`."""

    on: bool = False
    labels: frozenset[str] = frozenset()
    """Of `on` or `ignoring`."""
    many: Literal["", "left", "right"] = ""
    """The side that may have several series for one of the other: `group_left` says left."""
    include: tuple[str, ...] = ()
    """Labels that group_left or group_right takes over from the other side."""


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


@dataclass(frozen=True, slots=True)
class Call:
    """A function's call."""

    function: str
    arguments: tuple[Node, ...]
    position: int


Node = Number | Selector | Negation | Binary | Call
