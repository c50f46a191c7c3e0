"""Whether an alert fires whenever another one of its name does, by their expressions. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeGuard

from iowarden.rules.promql.ast import Binary, Number, Selector
from iowarden.rules.promql.parser import parse
from iowarden.rules.promql.signatures import COMPARISONS

if TYPE_CHECKING:
    from iowarden.rules.promql.ast import Node
    from iowarden.rules.rulefile.rulefile import Rule

_POSITION = re.compile(r"\b(?:position|start)=\d+")


def is_implied(wide: Rule, narrow: Rule) -> bool:
    """Return whether `wide` fires, no later, for all for which `narrow` does.

    Limits: False also where that cannot be seen in the expressions.
    """
    return wide.for_seconds <= narrow.for_seconds and _is_implied(
        parse(wide.expression.text), parse(narrow.expression.text)
    )


def _is_implied(wide: Node, narrow: Node) -> bool:
    if _plain(wide) == _plain(narrow):
        return True
    if isinstance(narrow, Binary):
        if narrow.operator == "or":
            return _is_implied(wide, narrow.left) and _is_implied(wide, narrow.right)
        if narrow.operator in {"and", "unless"} and _is_implied(wide, narrow.left):
            return True
    match wide:
        case Selector():
            return _is_filter(narrow) and _plain(wide) == _plain(narrow.left)
        case Binary(operator="or"):
            either = _is_implied(wide.left, narrow) or _is_implied(wide.right, narrow)
            return either and not wide.matching.on
        case Binary(operator="and" | "unless"):
            return _is_condition_implied(wide, narrow)
    return _is_filter(wide) and _is_filter(narrow) and _has_lower_limit(wide, narrow)


def _is_filter(node: Node) -> TypeGuard[Binary]:
    """Whether a node is a comparison that removes elements."""
    return isinstance(node, Binary) and node.operator in COMPARISONS and not node.returns_bool


def _is_condition_implied(wide: Binary, narrow: Node) -> bool:
    if not isinstance(narrow, Binary) or wide.operator != narrow.operator:
        return False
    sides = (wide.right, narrow.right) if wide.operator == "and" else (narrow.right, wide.right)
    return (
        wide.matching == narrow.matching
        and _is_implied(wide.left, narrow.left)
        and _is_implied(*sides)
    )


def _has_lower_limit(wide: Binary, narrow: Binary) -> bool:
    """Whether two comparisons differ only in their number, which `wide` reaches first."""
    limits = wide.right, narrow.right
    if wide.operator != narrow.operator or _plain(wide.left) != _plain(narrow.left):
        return False
    if not isinstance(limits[0], Number) or not isinstance(limits[1], Number):
        return False
    if wide.operator in {">", ">="}:
        return limits[0].value <= limits[1].value
    return wide.operator in {"<", "<="} and limits[0].value >= limits[1].value


def _plain(node: Node) -> str:
    """Return a node without the positions in its text."""
    return _POSITION.sub("", repr(node))
