"""Determines what an expression still proves or excludes while some metrics have no current data.

'a > 1 or b > 1' is true where 'a > 1' is, whatever b may be; 'a unless b' proves nothing without
b. Limits: only 'or', 'and' and 'unless' are looked into. An unclear case counts as no proof.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.rules.promql.ast import Binary, Node, Selector, children

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from iowarden.rules.promql.ast import Matching


def certain_part(
    node: Node,
    missing: AbstractSet[str],
    partial: AbstractSet[str] = frozenset(),
    projection: AbstractSet[str] | None = None,
) -> Node | None:
    """Return the part of an expression whose elements it has whatever the missing metrics are.

    Their values may be others. `missing`: metrics without current data; `partial`: metrics of which
    each series is certain, but there may be more; `projection`: the labels that matter of an
    element, None: all. Returns None if no part is certain.
    """
    names = _names(node)
    if names.isdisjoint(missing) and names.isdisjoint(partial) and "" not in names:
        return node
    match node:
        case Selector(range_seconds=None, at=None, offset_seconds=0.0) if node.name in partial:
            return node
        case Binary(operator="or") if _hides_only_equals(node.matching, projection):
            left = certain_part(node.left, missing, partial, projection)
            right = certain_part(node.right, missing, partial, projection)
            if left is None or right is None:
                return left or right
            return replace(node, left=left, right=right)
        case Binary(operator="and" | "unless"):
            matched = frozenset(node.matching.labels) if node.matching.on else None
            wider = None if projection is None or matched is None else projection | matched
            left = certain_part(node.left, missing, partial, wider)
            right = certain_part(node.right, missing, partial, matched)
            if left is None or right is None:
                return None
            # More elements on the right of 'unless' would remove some of its left.
            if node.operator == "unless" and not _names(node.right).isdisjoint(missing | partial):
                return None
            return replace(node, left=left, right=right)
    return None


def possible_part(node: Node, missing: AbstractSet[str]) -> Node | None:
    """Return an expression with every element that this one may have, whatever is missing.

    What it does not have is certainly false: 'a > 1 and b > 1' where 'a > 1' is. Returns None if
    any element is possible.
    """
    names = _names(node)
    if names.isdisjoint(missing) and "" not in names:
        return node
    match node:
        case Binary(operator="or") if _hides_only_equals(node.matching, None):
            left, right = possible_part(node.left, missing), possible_part(node.right, missing)
            if left is None or right is None:
                return None
            return replace(node, left=left, right=right)
        case Binary(operator="and"):
            left, right = possible_part(node.left, missing), possible_part(node.right, missing)
            if left is None or right is None:
                return left
            return replace(node, left=left, right=right)
        case Binary(operator="unless"):
            left = possible_part(node.left, missing)
            if left is None or not _names(node.right).isdisjoint(missing):
                return left
            return replace(node, left=left)
    return None


def _hides_only_equals(matching: Matching, projection: AbstractSet[str] | None) -> bool:
    """Whether `or` drops an element on its right only for one with equal labels, as they matter.

    'a or on (device) b': that of a may have other labels.
    """
    if projection is None or not matching.on:
        return not matching.on and not matching.labels
    return projection <= matching.labels


def _names(node: Node) -> set[str]:
    """Return the metrics that a node selects; '': not by their names."""
    names = {node.name} if isinstance(node, Selector) else set()
    return names.union(*map(_names, children(node)))
