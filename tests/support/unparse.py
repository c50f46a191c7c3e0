"""Syntax tree in, text out: an expression that reads back as the same tree.

Source: as of the parser. Limits: comments and needless parentheses of the original are gone.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from iowarden.rules.promql.ast import (
    Aggregation,
    Binary,
    Call,
    Negation,
    Number,
    Selector,
    Subquery,
    Text,
)
from iowarden.rules.promql.parser import NOT_A_METRIC, PRECEDENCE, UNARY_PRECEDENCE
from iowarden.rules.promql.signatures import METRIC_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.rules.promql.ast import Matching, Node

_NEVER_A_NAME = NOT_A_METRIC | {"inf", "nan"}
_OPERAND = max(PRECEDENCE.values()) + 1
_UNITS_MILLISECONDS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))
_ESCAPES: Mapping[int, str] = {
    **{code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F)},
    ord("\n"): "\\n",
    ord("\t"): "\\t",
    ord('"'): '\\"',
    ord("\\"): "\\\\",
}


def unparse(node: Node) -> str:
    """Return an expression's text."""
    match node:
        case Number():
            return _number(node.value)
        case Text():
            return quote(node.value)
        case Selector():
            bracket = "" if node.range_seconds is None else f"[{duration(node.range_seconds)}]"
            return f"{_name_and_matchers(node)}{bracket}{_modifiers(node)}"
        case Subquery():
            step = "" if node.step_seconds is None else duration(node.step_seconds)
            inner = _inside(node.expression, _OPERAND)
            return f"{inner}[{duration(node.range_seconds)}:{step}]{_modifiers(node)}"
        case Aggregation():
            grouping = f" {'without' if node.without else 'by'} ({', '.join(node.labels)}) "
            operands = [node.parameter, node.expression]
            inner = ", ".join(unparse(one) for one in operands if one is not None)
            return f"{node.operator}{grouping if node.labels or node.without else ''}({inner})"
        case Negation():
            return f"-{_inside(node.operand, UNARY_PRECEDENCE + 1)}"
        case Call():
            return f"{node.function}({', '.join(map(unparse, node.arguments))})"
    return _binary(node)


def quote(text: str) -> str:
    """Return a string literal, with control characters escaped."""
    return f'"{text.translate(_ESCAPES)}"'


def duration(seconds: float) -> str:
    """Return a duration as people write it: 1h30m."""
    rest = round(abs(seconds) * 1000)
    parts = ["-"] if seconds < 0 else []
    for unit, milliseconds in _UNITS_MILLISECONDS:
        count, rest = divmod(rest, milliseconds)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _number(value: float) -> str:
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(value).removesuffix(".0")


def _name_and_matchers(node: Selector) -> str:
    matchers = [f"{one.label}{one.operator}{quote(one.value)}" for one in node.matchers]
    name = node.name
    is_word = re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", name) is not None
    own_matchers = {one.label for one in node.matchers}
    if name and (not is_word or METRIC_NAME in own_matchers or name.lower() in _NEVER_A_NAME):
        matchers.insert(0, f"{METRIC_NAME}={quote(name)}")
        name = ""
    return f"{name}{{{', '.join(matchers)}}}" if matchers else name


def _modifiers(node: Selector | Subquery) -> str:
    words: list[str] = []
    if node.at is not None:
        words.append(f" @ {node.at}()" if isinstance(node.at, str) else f" @ {_number(node.at)}")
    if node.offset_seconds:
        words.append(f" offset {duration(node.offset_seconds)}")
    return "".join(words)


def _inside(node: Node, lowest: int) -> str:
    """Return an operand, in parentheses where it binds less tightly than `lowest`."""
    match node:
        case Binary():
            binds = PRECEDENCE[node.operator]
        case Negation():
            binds = UNARY_PRECEDENCE
        case Selector() | Subquery():
            # After a bracket or a modifier another one would mean something else.
            plain = isinstance(node, Selector) and node.range_seconds is None
            binds = _OPERAND if plain and not _modifiers(node) else _OPERAND - 1
        case _:
            binds = _OPERAND
    return unparse(node) if binds >= lowest else f"({unparse(node)})"


def _binary(node: Binary) -> str:
    binds = PRECEDENCE[node.operator]
    right_associative = node.operator == "^"
    left = _inside(node.left, binds + right_associative)
    right = _inside(node.right, binds + (not right_associative))
    words = [left, node.operator, *(["bool"] if node.returns_bool else [])]
    return " ".join([*words, *_matching(node.matching), right])


def _matching(matching: Matching) -> list[str]:
    words: list[str] = []
    if matching.on or matching.labels or matching.many:
        word = "on" if matching.on else "ignoring"
        words.append(f"{word} ({', '.join(sorted(matching.labels))})")
    if matching.many:
        words.append(f"group_{matching.many} ({', '.join(matching.include)})")
    return words
