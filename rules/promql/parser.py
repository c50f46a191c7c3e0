"""The grammar of expressions: text in, syntax tree out, types checked.

Source: Prometheus 3, promql grammar; 'Operators', binary operator precedence.
Limits: what this version does not evaluate is recognised and refused by name, never approximated:
string expressions, range selectors, subqueries, offset, @, aggregations, most functions, native
histograms, quoted names, and all that a plain Prometheus server refuses as experimental.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NoReturn

from iowarden.rules.promql.ast import Binary, Call, Matcher, Matching, Negation, Number, Selector
from iowarden.rules.promql.lexer import Lexer, PromqlError, Token, position_error
from iowarden.rules.promql.regex import RegexError, compile_anchored

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.rules.promql.ast import Node
    from iowarden.rules.promql.lexer import Kind

METRIC_NAME = "__name__"
COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
SET_OPERATORS = frozenset({"and", "or", "unless"})
MAXIMUM_NESTING = 150
"""Operators, calls and parentheses of one expression: what the tree may need of Python's stack."""

Type = Literal["scalar", "instant vector"]


@dataclass(frozen=True, slots=True)
class Signature:
    """Types of a function's arguments and of its result."""

    arguments: tuple[Type, ...]
    result: Type


_OF_VECTOR = Signature(("instant vector",), "instant vector")
FUNCTIONS: Mapping[str, Signature] = {
    "abs": _OF_VECTOR,
    "absent": _OF_VECTOR,
    "clamp": Signature(("instant vector", "scalar", "scalar"), "instant vector"),
    "clamp_max": Signature(("instant vector", "scalar"), "instant vector"),
    "clamp_min": Signature(("instant vector", "scalar"), "instant vector"),
    "scalar": Signature(("instant vector",), "scalar"),
    "time": Signature((), "scalar"),
    "vector": Signature(("scalar",), "instant vector"),
}
_OTHER_FUNCTIONS = frozenset(
    """absent_over_time acos acosh asin asinh atan atanh avg_over_time ceil changes cos cosh
    count_over_time day_of_month day_of_week day_of_year days_in_month deg delta deriv
    double_exponential_smoothing end exp first_over_time floor histogram_avg histogram_count
    histogram_fraction histogram_quantile histogram_quantiles histogram_stddev histogram_stdvar
    histogram_sum holt_winters hour idelta increase info irate label_join label_replace
    last_over_time ln log10 log2 mad_over_time max_of max_over_time min_of min_over_time minute
    month pi predict_linear present_over_time quantile_over_time rad range rate resets round sgn
    sin sinh sort sort_by_label sort_by_label_desc sort_desc sqrt start stddev_over_time
    stdvar_over_time step sum_over_time tan tanh timestamp ts_of_first_over_time
    ts_of_last_over_time ts_of_max_over_time ts_of_min_over_time year""".split()
)
_AGGREGATIONS = frozenset(
    """avg bottomk count count_values group limit_ratio limitk max min quantile stddev stdvar sum
    topk""".split()
)
_PRECEDENCE: Mapping[str, int] = {
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
_UNARY_PRECEDENCE = 5
_NOT_A_METRIC = frozenset({"bool", "on", "ignoring", "group_left", "group_right", "atan2"})


def parse(text: str) -> Node:
    """Return the tree of an expression.

    Errors: PromqlError for what is not PromQL, and for what this version does not evaluate.
    """
    return _Parser(text).expression_alone()


def result_type(node: Node) -> Type:
    """Return what evaluating a node yields."""
    match node:
        case Number():
            return "scalar"
        case Selector():
            return "instant vector"
        case Negation():
            return result_type(node.operand)
        case Call():
            return FUNCTIONS[node.function].result
    scalars = result_type(node.left) == result_type(node.right) == "scalar"
    return "scalar" if scalars else "instant vector"


def matches_empty(matcher: Matcher) -> bool:
    """Return whether a series without the label matches."""
    match matcher.operator:
        case "=":
            return not matcher.value
        case "!=":
            return bool(matcher.value)
    found = compile_anchored(matcher.value).fullmatch("") is not None
    return found is (matcher.operator == "=~")


class _Parser:
    """Precedence climbing with one token of look-ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lexer = Lexer(text)
        self._token = self._lexer.next()
        self._nesting = 0

    def expression_alone(self) -> Node:
        if self._is("end"):
            self._fail(0, "no expression found in input")
        node = self._expression(0)
        if not self._is("end"):
            self._unexpected("an operator or the end")
        return node

    def _fail(self, position: int, message: str) -> NoReturn:
        raise position_error(self._text, position, message)

    def _refuse(self, position: int, what: str) -> NoReturn:
        self._fail(position, f"{what} not supported by this version")

    def _unexpected(self, expected: str) -> NoReturn:
        token = self._token
        got = "end of input" if token.kind == "end" else f"{token.kind} {token.text!r}"
        self._fail(token.position, f"unexpected {got}; expected {expected}")

    def _advance(self) -> Token:
        token = self._token
        self._token = self._lexer.next()
        return token

    def _is(self, kind: Kind) -> bool:
        return self._token.kind == kind

    def _at(self, operator: str) -> bool:
        return self._token.kind == "operator" and self._token.text == operator

    def _take(self, operator: str, expected: str) -> None:
        if not self._at(operator):
            self._unexpected(expected)
        self._advance()

    def _keyword(self) -> str:
        return self._token.text.lower() if self._token.kind == "identifier" else ""

    def _deeper(self) -> None:
        self._nesting += 1
        if self._nesting > MAXIMUM_NESTING:
            self._fail(
                self._token.position,
                f"more than {MAXIMUM_NESTING} operators, calls and parentheses; split it",
            )

    def _expression(self, lowest: int) -> Node:
        """Read operands joined by operators that bind at least as tightly as `lowest`."""
        left = self._unary()
        while (precedence := _PRECEDENCE.get(self._token.text.lower(), -1)) >= lowest:
            if self._token.kind not in {"operator", "identifier"}:
                break
            self._deeper()
            token = self._advance()
            operator = token.text.lower()
            returns_bool, matching, matching_position = self._modifiers()
            right = self._expression(precedence if operator == "^" else precedence + 1)
            left = Binary(operator, left, right, returns_bool, matching, token.position)
            self._check_binary(left, matching_position)
        return left

    def _unary(self) -> Node:
        if not self._at("-") and not self._at("+"):
            return self._postfix()
        self._deeper()
        sign = self._advance()
        operand = self._expression(_UNARY_PRECEDENCE + 1)
        return Negation(operand, sign.position) if sign.text == "-" else operand

    def _postfix(self) -> Node:
        node = self._primary()
        if self._at("["):
            inside = self._text[self._token.position :].partition("]")[0]
            what = "subqueries are" if ":" in inside else "range selectors are"
            self._refuse(self._token.position, what)
        if self._at("@"):
            self._refuse(self._token.position, "the @ modifier is")
        if self._keyword() in {"offset", "smoothed", "anchored"}:
            self._refuse(self._token.position, f"the modifier '{self._keyword()}' is")
        return node

    def _primary(self) -> Node:
        token = self._token
        match token.kind:
            case "number":
                self._advance()
                return Number(float(token.value), token.position)
            case "string":
                self._refuse(token.position, "strings as expressions are")
            case "identifier":
                return self._named()
        if self._at("("):
            self._deeper()
            self._advance()
            node = self._expression(0)
            if not self._at(")"):
                if self._is("end"):
                    self._fail(token.position, "unclosed left parenthesis")
                self._unexpected("an operator or ')'")
            self._advance()
            return node
        if not self._at("{"):
            self._unexpected("an expression")
        return self._selector("", token.position)

    def _named(self) -> Node:
        """Read what begins with a word: a metric's name, a call, an aggregation."""
        word = self._keyword()
        if word in _NOT_A_METRIC:
            self._unexpected("an expression")
        token = self._advance()
        following = self._keyword()
        if word in _AGGREGATIONS and (self._at("(") or following in {"by", "without"}):
            self._refuse(token.position, f"the aggregation '{word}' is")
        if self._at("("):
            return self._call(token)
        return self._selector(token.text, token.position)

    def _call(self, name: Token) -> Node:
        signature = FUNCTIONS.get(name.text)
        if signature is None:
            if name.text in _OTHER_FUNCTIONS:
                self._refuse(name.position, f"the function '{name.text}' is")
            self._fail(name.position, f"unknown function with name {name.text!r}")
        self._deeper()
        self._advance()
        arguments: list[Node] = []
        while not self._at(")"):
            arguments.append(self._expression(0))
            if not self._at(")"):
                self._take(",", "',' or ')'")
                if self._at(")"):
                    self._unexpected("an argument")
        self._advance()
        expected = signature.arguments
        if len(arguments) != len(expected):
            message = f"expected {len(expected)} argument(s) in call to {name.text!r}"
            self._fail(name.position, f"{message}, got {len(arguments)}")
        for argument, wanted in zip(arguments, expected, strict=True):
            if (got := result_type(argument)) != wanted:
                message = f"expected type {wanted} in call to function {name.text!r}, got {got}"
                self._fail(argument.position, message)
        return Call(name.text, tuple(arguments), name.position)

    def _selector(self, name: str, position: int) -> Selector:
        matchers = self._matchers() if self._at("{") else []
        if name:
            for matcher in matchers:
                if matcher.label == METRIC_NAME:
                    message = f"metric name must not be set twice: {name!r} or {matcher.value!r}"
                    self._fail(matcher.position, message)
            return Selector(name, tuple(matchers), position)
        if all(matches_empty(matcher) for matcher in matchers):
            self._fail(position, "vector selector must contain at least one non-empty matcher")
        for matcher in matchers:
            if matcher.label == METRIC_NAME and matcher.operator == "=" and matcher.value:
                rest = tuple(one for one in matchers if one is not matcher)
                return Selector(matcher.value, rest, position)
        return Selector("", tuple(matchers), position)

    def _matchers(self) -> list[Matcher]:
        self._advance()
        if self._at("{"):
            self._refuse(self._token.position, "native histograms are")
        matchers: list[Matcher] = []
        while not self._at("}"):
            matchers.append(self._matcher())
            if not self._at("}"):
                self._take(",", "',' or '}'")
        self._advance()
        return matchers

    def _matcher(self) -> Matcher:
        label = self._label("a label's name or '}'")
        operator = self._token.text
        if not self._is("operator") or operator not in {"=", "!=", "=~", "!~"}:
            self._unexpected("one of = != =~ !~")
        self._advance()
        if not self._is("string"):
            self._unexpected("a string in quotes")
        value = str(self._token.value)
        if operator in {"=~", "!~"}:
            try:
                compile_anchored(value)
            except RegexError as error:
                self._fail(self._token.position, str(error))
        self._advance()
        return Matcher(label.text, operator, value, label.position)

    def _label(self, expected: str) -> Token:
        token = self._token
        if token.kind == "string":
            self._refuse(token.position, "quoted names are")
        # A number's kind: `inf` and `nan` are names here.
        is_name = token.text[:1].isalpha() or token.text[:1] == "_"
        if token.kind not in {"identifier", "number"} or not is_name or ":" in token.text:
            self._unexpected(expected)
        return self._advance()

    def _modifiers(self) -> tuple[bool, Matching, int]:
        """Read what may follow a binary operator: bool, on or ignoring, and a grouping."""
        returns_bool = self._keyword() == "bool"
        if returns_bool:
            self._advance()
        position = self._token.position
        word = self._keyword()
        if word not in {"on", "ignoring"}:
            if word in {"group_left", "group_right"}:
                self._unexpected("'on' or 'ignoring' before it")
            return returns_bool, Matching(), -1
        self._advance()
        labels = self._label_list()
        many: Literal["", "left", "right"] = ""
        include: tuple[str, ...] = ()
        side = self._keyword()
        if side in {"group_left", "group_right"}:
            many = "left" if side == "group_left" else "right"
            self._advance()
            include = self._label_list() if self._at("(") else ()
        if self._keyword() in {"fill", "fill_left", "fill_right"}:
            self._refuse(self._token.position, f"the modifier '{self._keyword()}' is")
        matching = Matching(word == "on", frozenset(labels), many, include)
        for label in include:
            if matching.on and label in matching.labels:
                message = f"label {label!r} must not occur in ON and GROUP clause at once"
                self._fail(position, message)
        return returns_bool, matching, position

    def _label_list(self) -> tuple[str, ...]:
        self._take("(", "'('")
        labels: list[str] = []
        while not self._at(")"):
            labels.append(self._label("a label's name or ')'").text)
            if not self._at(")"):
                self._take(",", "',' or ')'")
        self._advance()
        return tuple(labels)

    def _check_binary(self, node: Binary, matching_position: int) -> None:
        operator = node.operator
        scalars = [result_type(side) == "scalar" for side in (node.left, node.right)]
        if node.returns_bool and operator not in COMPARISONS:
            self._fail(node.position, "bool modifier can only be used on comparison operators")
        if operator in COMPARISONS and all(scalars) and not node.returns_bool:
            self._fail(node.position, "comparisons between scalars must use BOOL modifier")
        if operator in SET_OPERATORS and any(scalars):
            message = f"set operator {operator!r} not allowed in binary scalar expression"
            self._fail(node.position, message)
        if operator in SET_OPERATORS and node.matching.many:
            self._fail(matching_position, f"no grouping allowed for {operator!r} operation")
        # `1 + on() 2` says nothing that could be lost; Prometheus lets an empty list pass, too.
        if any(scalars) and (node.matching.labels or node.matching.many):
            message = "vector matching only allowed between instant vectors"
            self._fail(matching_position, message)


__all__ = ["PromqlError", "parse", "result_type"]
