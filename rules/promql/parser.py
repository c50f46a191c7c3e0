"""PromQL parser: text in, syntax tree out, types checked.

Source: Prometheus 3, promql grammar; 'Operators', binary operator precedence. Limits:
MAX_LENGTH, MAX_NESTING. Refused by name: histograms, quoted names, and everything that a
Prometheus server accepts only with experimental syntax enabled.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NoReturn

from iowarden.rules.promql.ast import (
    Aggregation,
    Binary,
    Call,
    LabelMatcher,
    Matching,
    Negation,
    Number,
    Selector,
    Subquery,
    Text,
    begin,
)
from iowarden.rules.promql.lexer import Lexer, Token, position_error
from iowarden.rules.promql.signatures import (
    AGGREGATIONS,
    COMPARISONS,
    EXPERIMENTAL_AGGREGATIONS,
    EXPERIMENTAL_FUNCTIONS,
    FUNCTIONS,
    HISTOGRAM_FUNCTIONS,
    METRIC_NAME,
    SET_OPERATORS,
    check,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.rules.promql.ast import Node
    from iowarden.rules.promql.lexer import Kind


MAX_LENGTH = 100_000
"""Characters of an expression."""
MAX_NESTING = 100
"""Nested parentheses, calls, signs and powers: limits the use of Python's stack."""
PRECEDENCE: Mapping[str, int] = {
    "or": 1,
    "and": 2,
    "unless": 2,
    **dict.fromkeys(COMPARISONS, 3),
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
    "%": 5,
    "atan2": 5,
    "^": 6,
}
UNARY_PRECEDENCE = 5
_KEYWORDS = frozenset("bool by group_left group_right ignoring offset on without".split())
NOT_A_METRIC = frozenset("atan2 bool group_left group_right ignoring on".split())
"""Words that cannot be a metric's name outside of braces."""
_NOT_A_FUNCTION = frozenset({*SET_OPERATORS, "by", "offset", "without"})
_FILL = frozenset({"fill", "fill_left", "fill_right"})
_OPERATOR_TEXTS = frozenset({*PRECEDENCE, "=~", "!~", "@"})
_DURATION_LIMIT_SECONDS = 2**63 / 1e9
_TIMESTAMP_LIMIT_SECONDS = 2.0**63


def parse(text: str) -> Node:
    """Return the syntax tree of an expression.

    Errors: PromqlError for what is not valid PromQL, and for what is not supported.
    """
    if len(text) > MAX_LENGTH:
        message = f"expected at most {MAX_LENGTH} characters, got {len(text)}"
        raise position_error(text, 0, f"{message}; split it into several rules")
    node = _Parser(text).expression_alone()
    check(text, node)
    return node


class _Parser:
    """Precedence climbing with one token of look-ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lexer = Lexer(text)
        self._ahead: Token | None = None
        self._nesting = 0

    def expression_alone(self) -> Node:
        if self._is("end"):
            self._fail(0, "no expression found in input")
        node = self._expression(0)
        if not self._is("end"):
            self._unexpected("", "an operator or the end")
        return node

    # --- tokens ---

    def _fail(self, position: int, message: str) -> NoReturn:
        raise position_error(self._text, position, message)

    def _refuse_experimental(self, position: int, what: str) -> NoReturn:
        self._fail(position, f"{what} is experimental in Prometheus and not supported")

    def _unexpected(self, context: str, expected: str) -> NoReturn:
        where = f" in {context}" if context else ""
        self._fail(
            self._token.position, f"unexpected {self._token_text()}{where}, expected {expected}"
        )

    def _token_text(self) -> str:
        """Return the current token as Prometheus names it."""
        kind, text = self._token.kind, self._token.text
        word = text.lower()
        shown = json.dumps(text[:10], ensure_ascii=False) + ("..." if len(text) > 10 else "")
        if kind == "end":
            return "end of input"
        if word in _OPERATOR_TEXTS:
            return f"<op:{text}>"
        if kind == "operator":
            return shown
        if word in _KEYWORDS:
            return f"<{text}>"
        if word in AGGREGATIONS or word in EXPERIMENTAL_AGGREGATIONS:
            return f"<aggr:{text}>"
        return f"{'metric ' if kind == 'identifier' and ':' in text else ''}{kind} {shown}"

    @property
    def _token(self) -> Token:
        """The current token, read on demand: errors are reported in the order of the text."""
        if self._ahead is None:
            self._ahead = self._lexer.next()
        return self._ahead

    def _advance(self) -> Token:
        token = self._token
        self._ahead = None
        return token

    def _is(self, *kinds: Kind) -> bool:
        return self._token.kind in kinds

    def _at(self, operator: str) -> bool:
        return self._token.kind == "operator" and self._token.text == operator

    def _keyword(self) -> str:
        return self._token.text.lower() if self._token.kind == "identifier" else ""

    def _deeper(self) -> None:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            message = f"more than {MAX_NESTING} parentheses, calls and signs inside each other"
            self._fail(self._token.position, f"{message}; split it into several rules")

    # --- operators ---

    def _expression(self, lowest: int) -> Node:
        """Read operands joined by operators that bind at least as tightly as `lowest`."""
        left = self._unary()
        while self._is("operator", "identifier"):
            precedence = PRECEDENCE.get(self._token.text.lower(), -1)
            if precedence < lowest:
                break
            token = self._advance()
            operator = token.text.lower()
            if operator in {"<", ">"} and self._at("/"):
                self._fail(token.position, f"native histograms are not supported: '{operator}/'")
            returns_bool, matching = self._modifiers()
            self._deeper()
            right = self._expression(precedence if operator == "^" else precedence + 1)
            self._nesting -= 1
            left = Binary(
                operator, left, right, returns_bool, matching, token.position, begin(left)
            )
        return left

    def _modifiers(self) -> tuple[bool, Matching]:
        """Read what may follow a binary operator: bool, on or ignoring, and a grouping."""
        returns_bool = self._keyword() == "bool"
        if returns_bool:
            self._advance()
        word = self._keyword()
        if word not in {"on", "ignoring"}:
            if word in {"group_left", "group_right"}:
                self._unexpected("", "'on' or 'ignoring' before it")
            return returns_bool, Matching()
        self._advance()
        labels = self._label_list()
        many: Literal["", "left", "right"] = ""
        include: tuple[str, ...] = ()
        side = self._keyword()
        if side in {"group_left", "group_right"}:
            many = "left" if side == "group_left" else "right"
            self._advance()
            include = self._label_list() if self._at("(") else ()
        return returns_bool, Matching(word == "on", frozenset(labels), many, include)

    def _label_list(self) -> tuple[str, ...]:
        if not self._at("("):
            self._unexpected("grouping opts", '"("')
        self._advance()
        labels: list[str] = []
        while not self._at(")"):
            if self._is("string"):
                self._refuse_quoted_name()
            if not self._is("identifier") or ":" in self._token.text:
                self._unexpected("grouping opts", "label")
            labels.append(self._advance().text)
            if self._at(","):
                self._advance()
            elif not self._at(")"):
                self._unexpected("grouping opts", '"," or ")"')
        self._advance()
        return tuple(labels)

    def _refuse_quoted_name(self) -> NoReturn:
        message = "names in quotes are not supported: all names here consist of a-z, 0-9 and _"
        self._fail(self._token.position, message)

    def _unary(self) -> Node:
        if not self._at("-") and not self._at("+"):
            return self._postfix()
        sign = self._advance()
        self._deeper()
        operand = self._expression(UNARY_PRECEDENCE + 1)
        self._nesting -= 1
        if sign.text == "-":
            return Negation(operand, sign.position)
        # A minus is checked with all types; a plus leaves no node to check.
        got = "string" if isinstance(operand, Text) else ""
        if isinstance(operand, Selector | Subquery) and operand.range_seconds is not None:
            got = "range vector"
        if got:
            message = (
                "unary expression only allowed on expressions of type scalar or instant vector"
            )
            self._fail(sign.position, f'{message}, got "{got}"')
        return _moved(operand, sign.position)

    # --- what follows an operand: [5m], [5m:1m], offset, @ ---

    def _postfix(self) -> Node:
        in_parentheses = self._at("(")
        node = self._primary()
        while True:
            plain = node if not in_parentheses else None
            if self._at("["):
                node = self._range(node, plain)
                in_parentheses = False
            elif self._at("@"):
                node = self._at_modifier(node, plain)
            elif (word := self._keyword()) == "offset":
                node = self._offset(node, plain)
            elif word in {"anchored", "smoothed"}:
                self._refuse_experimental(self._token.position, f"the modifier '{word}'")
            else:
                return node

    def _range(self, node: Node, plain: Node | None) -> Node:
        bracket = self._advance()
        range_seconds = self._positive_duration("subquery or range selector", "number or duration")
        if self._at(":"):
            self._advance()
            step_seconds = None
            if not self._at("]"):
                expected = 'number or duration or "]"'
                step_seconds = self._positive_duration("subquery selector", expected)
            if not self._at("]"):
                self._unexpected("subquery selector", '"]"')
            self._advance()
            return Subquery(node, range_seconds, step_seconds, begin(node))
        if not self._at("]"):
            self._unexpected("subquery or range", '":" or "]"')
        self._advance()
        if not isinstance(plain, Selector) or plain.range_seconds is not None:
            message = "ranges only allowed for vector selectors; write [5m:] for a subquery"
            self._fail(bracket.position, message)
        if plain.offset_seconds:
            message = "no offset modifiers allowed before range; write it after the bracket"
            self._fail(bracket.position, message)
        if plain.at is not None:
            message = "no @ modifiers allowed before range; write it after the bracket"
            self._fail(bracket.position, message)
        return replace(plain, range_seconds=range_seconds)

    def _positive_duration(self, context: str, expected: str) -> float:
        position = self._token.position
        seconds = self._duration(context, expected)
        if self._is("operator") and self._token.text in PRECEDENCE:
            self._refuse_experimental(self._token.position, "arithmetic with durations")
        if seconds <= 0:
            self._fail(position, "duration must be greater than 0")
        return seconds

    def _duration(self, context: str, expected: str) -> float:
        """Read a number or duration with its sign. Units: seconds, in whole milliseconds."""
        position = self._token.position
        sign = -1 if self._at("-") else 1
        if self._at("-") or self._at("+"):
            self._advance()
        if self._at("(") or self._keyword() in {"step", "range", "min", "max", "min_of", "max_of"}:
            self._refuse_experimental(self._token.position, "arithmetic with durations")
        if not self._is("number", "duration"):
            self._unexpected(context, expected)
        seconds = sign * float(self._token.value)
        if not abs(seconds) <= _DURATION_LIMIT_SECONDS:  # NaN, too.
            self._fail(position, "duration out of range")
        self._advance()
        # Truncated to milliseconds, as in Prometheus's engine.
        return sign * (round(abs(seconds) * 1_000_000) // 1000) / 1000

    def _offset(self, node: Node, plain: Node | None) -> Node:
        self._advance()
        seconds = self._duration("offset", "number or duration")
        if not isinstance(plain, Selector | Subquery):
            message = (
                "offset modifier must be preceded by an instant vector selector or range vector"
                " selector or a subquery"
            )
            self._fail(begin(node), message)
        if plain.offset_seconds:
            self._fail(plain.position, "offset may not be set multiple times")
        return replace(plain, offset_seconds=seconds)

    def _at_modifier(self, node: Node, plain: Node | None) -> Node:
        self._advance()
        at: float | Literal["start", "end"]
        if (word := self._keyword()) in {"start", "end"}:
            at = "start" if word == "start" else "end"
            self._advance()
            for parenthesis in "()":
                if not self._at(parenthesis):
                    self._unexpected("@", "timestamp")
                self._advance()
        else:
            at = self._timestamp(begin(node))
        if not isinstance(plain, Selector | Subquery):
            message = (
                "@ modifier must be preceded by an instant vector selector or range vector selector"
                " or a subquery"
            )
            self._fail(begin(node), message)
        if plain.at is not None:
            self._fail(plain.position, "@ <timestamp> may not be set multiple times")
        return replace(plain, at=at)

    def _timestamp(self, position: int) -> float:
        """Read a time. Units: seconds since 1970, in whole milliseconds."""
        sign = -1 if self._at("-") else 1
        if self._at("-") or self._at("+"):
            self._advance()
        if not self._is("number", "duration"):
            self._unexpected("@", "timestamp")
        seconds = sign * float(self._token.value)
        if not abs(seconds) < _TIMESTAMP_LIMIT_SECONDS:  # NaN, too.
            self._fail(position, f"timestamp out of bounds for @ modifier: {self._token.text}")
        self._advance()
        milliseconds = seconds * 1000
        return math.copysign(math.floor(abs(milliseconds) + 0.5), milliseconds) / 1000

    # --- operands ---

    def _primary(self) -> Node:
        token = self._token
        match token.kind:
            case "number" | "duration":
                self._advance()
                return Number(float(token.value), token.position)
            case "string":
                self._advance()
                return Text(str(token.value), token.position)
            case "identifier":
                return self._named()
        if self._at("("):
            self._advance()
            self._deeper()
            node = self._expression(0)
            self._nesting -= 1
            if not self._at(")"):
                self._unexpected("", "an operator or ')'")
            self._advance()
            return _moved(node, token.position)
        if not self._at("{"):
            self._unexpected("", "an expression")
        return self._selector("", token.position)

    def _named(self) -> Node:
        """Read what begins with a name: a metric, a call, an aggregation."""
        word = self._keyword()
        if word in NOT_A_METRIC:
            self._unexpected("", "an expression")
        token = self._advance()
        called = self._at("(")
        if called or self._keyword() in {"by", "without"}:
            if word in AGGREGATIONS:
                return self._aggregation(token, word)
            if word in EXPERIMENTAL_AGGREGATIONS:
                self._refuse_experimental(token.position, f"the aggregation '{word}'")
        if called and word in _FILL:
            self._refuse_experimental(token.position, f"the modifier '{word}'")
        if called and word not in _NOT_A_FUNCTION and ":" not in word:
            return self._call(token)
        return self._selector(token.text, token.position)

    def _arguments(self, context: str) -> list[Node]:
        if not self._at("("):
            self._unexpected(context, '"("')
        self._advance()
        self._deeper()
        arguments: list[Node] = []
        while not self._at(")"):
            arguments.append(self._expression(0))
            comma = self._token
            if self._at(","):
                self._advance()
                if self._at(")"):
                    self._fail(comma.position, "trailing commas not allowed in function call args")
            elif not self._at(")"):
                self._unexpected("", "',' or ')'")
        self._advance()
        self._nesting -= 1
        return arguments

    def _aggregation(self, name: Token, operator: str) -> Aggregation:
        labels: tuple[str, ...] = ()
        modifier = self._keyword()
        if modifier in {"by", "without"}:
            self._advance()
            labels = self._label_list()
        arguments = self._arguments("aggregation")
        if not modifier and (after := self._keyword()) in {"by", "without"}:
            modifier = after
            self._advance()
            labels = self._label_list()
        if not arguments:
            self._fail(name.position, "no arguments for aggregate expression provided")
        expected = 1 if AGGREGATIONS[operator] is None else 2
        if len(arguments) != expected:
            message = "wrong number of arguments for aggregate expression provided"
            self._fail(name.position, f"{message}, expected {expected}, got {len(arguments)}")
        return Aggregation(
            operator=operator,
            expression=arguments[-1],
            parameter=arguments[0] if expected == 2 else None,
            labels=labels,
            without=modifier == "without",
            position=name.position,
        )

    def _call(self, name: Token) -> Call:
        function, position = name.text, name.position
        if function in EXPERIMENTAL_FUNCTIONS:
            self._refuse_experimental(position, f"the function '{function}'")
        if function in HISTOGRAM_FUNCTIONS:
            message = (
                f"the function '{function}' is not supported: there are no native histograms here"
            )
            self._fail(position, f"{message}; leave this rule to a Prometheus server")
        arguments = self._arguments("")
        if function not in FUNCTIONS:
            self._fail(position, f'unknown function with name "{function}"')
        signature = FUNCTIONS[function]
        if signature.last == "optional" and len(arguments) == len(signature.arguments) - 1:
            arguments.append(
                Number(1.0, position)
                if function == "round"
                else Call("vector", (Call("time", (), position),), position)
            )
        return Call(function, tuple(arguments), position)

    # --- selectors ---

    def _selector(self, name: str, position: int) -> Selector:
        matchers = self._matchers() if self._at("{") else []
        if name:
            for matcher in matchers:
                if matcher.label == METRIC_NAME:
                    message = f'metric name must not be set twice: "{name}" or "{matcher.value}"'
                    self._fail(position, message)
            return Selector(name, tuple(matchers), position)
        for matcher in matchers:
            if matcher.label == METRIC_NAME and matcher.operator == "=" and matcher.value:
                rest = tuple(one for one in matchers if one is not matcher)
                return Selector(matcher.value, rest, position)
        return Selector("", tuple(matchers), position)

    def _matchers(self) -> list[LabelMatcher]:
        self._advance()
        if self._at("{"):
            self._fail(self._token.position, "native histograms are not supported")
        matchers: list[LabelMatcher] = []
        while not self._at("}"):
            matchers.append(self._matcher())
            if self._at(","):
                self._advance()
            elif not self._at("}"):
                self._unexpected("label matching", '"," or "}"')
        self._advance()
        return matchers

    def _matcher(self) -> LabelMatcher:
        context = "label matching"
        if self._is("string"):
            self._refuse_quoted_name()
        if not self._is("identifier"):
            self._unexpected(context, 'identifier or "}"')
        label = self._advance()
        operator = self._token.text
        if not self._is("operator") or operator not in {"=", "!=", "=~", "!~"}:
            self._unexpected(context, "label matching operator")
        self._advance()
        if not self._is("string"):
            self._unexpected(context, "string")
        value = str(self._advance().value)
        return LabelMatcher(label.text, operator, value, label.position)


def _moved(node: Node, position: int) -> Node:
    """Return a node that begins at the parenthesis or sign before it."""
    return (
        replace(node, start=position)
        if isinstance(node, Binary)
        else replace(node, position=position)
    )
