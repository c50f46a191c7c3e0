"""Texts with `{{ ... }}` in labels and annotations: Prometheus's subset of Go templates.

Source: Prometheus 3, 'Template reference' and 'Template examples'; Go, package text/template.
Limits: no define, template, block, break, continue; no HTML and link functions. `$value`,
`$labels`, `$externalLabels` and `$externalURL` are as in Prometheus; the last two are empty but in
unit tests. What is not supported is refused at load.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iowarden.rules.promql.evaluator import EvaluationError, PromqlError, compile_expression
from iowarden.rules.promql.go_format import Struct, Value, plain, sprint, sprintf, type_name
from iowarden.rules.promql.lexer import unquote
from iowarden.rules.promql.regex import Match, RegexError, Steps, compile_search
from iowarden.rules.rulefile import humanize

if TYPE_CHECKING:
    from iowarden.rules.promql.evaluator import Sample

Query = Callable[[str], "list[Sample]"]
"""Evaluates an expression at the time of the alert."""

MAXIMUM_NESTING = 50
MOST_PARTS = 100_000
"""Of a text; each turn of a 'range' is one. Some in one another could run for hours."""
MOST_STEPS = 1_000_000
"""Of the searches of a text: a second's work."""


class TemplateError(Exception):
    """A template that cannot be loaded; line and column count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        """Keep what is wrong and where."""
        super().__init__(f"{line}:{column}: {message}")
        self.message = message
        self.line = line
        self.column = column


class _RenderError(Exception):
    """A template that has no result for these values."""


@dataclass(slots=True)
class _Scope:
    """What the actions of one rendering see."""

    dot: Value
    variables: list[Value]
    query: Query | None
    steps: Steps


_Evaluate = Callable[[_Scope], Value]
_Write = Callable[[_Scope, list[str]], None]


@dataclass(frozen=True, slots=True)
class Template:
    """A text ready to be filled in."""

    text: str

    def render(
        self,
        labels: Mapping[str, str],
        value: float,
        query: Query | None,
        external_labels: Mapping[str, str] | None = None,
        external_url: str = "",
    ) -> str:
        """Return the text for one alert.

        Errors: none; what cannot be expanded is said in the text, so that no alert is lost.
        """
        own, external = dict(labels), dict(external_labels or {})
        root = Struct(
            "struct",
            {
                "Labels": own,
                "ExternalLabels": external,
                "ExternalURL": external_url,
                "Value": value,
            },
        )
        if "{{" not in self.text:  # Most labels.
            return self.text
        write, slots = _compiled(self.text)
        variables: list[Value] = [root, own, external, external_url, value, *[None] * slots]
        parts: list[str] = []
        try:
            write(_Scope(root, variables, query, Steps(MOST_STEPS)), parts)
        except (_RenderError, RegexError, RecursionError) as error:
            return f"<error expanding template: {error}>"
        return "".join(parts)


_PREDEFINED = ("$", "$labels", "$externalLabels", "$externalURL", "$value")


def compile_template(text: str) -> Template:
    """Compile a text.

    Errors: TemplateError with line and column; also for a constant query that is no PromQL.
    """
    if "{{" in text:
        _compile(text)  # For what is wrong with it: most alerts are never told.
    return Template(text)


def _compile(text: str) -> tuple[_Write, int]:
    parser = _Parser(text)
    return parser.document(), parser.slots


_compiled = functools.lru_cache(maxsize=256)(_compile)
"""Only those that are rendered are kept: all of the shipped rules' together take over 2 MB."""


# --- words ---

_TRIMMED = " \t\r\n"
_WORD = re.compile(
    r"""(?P<blank>[ \t\r\n]+)
    |(?P<close>(?:(?<=[ \t\r\n])-)?\}\})
    |(?P<field>\.[A-Za-z_][A-Za-z0-9_]*)
    |(?P<variable>\$[A-Za-z0-9_]*)
    |(?P<number>[-+]?(?:0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)
        (?![A-Za-z0-9_.]))
    |(?P<identifier>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|`[^`]*`)
    |(?P<symbol>:=|[.()|=,])""",
    re.VERBOSE,
)
_COMMENT = re.compile(r"\{\{(?:-[ \t\r\n]+)?/\*.*?\*/(?:[ \t\r\n]+-)?\}\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int
    after_blank: bool


# --- functions ---


@dataclass(frozen=True, slots=True)
class _Function:
    """How a function is called; `parameters` names Go types, the last one repeats if `variadic`."""

    parameters: tuple[str, ...]
    call: Callable[..., Value]
    variadic: bool = False
    minimum: int = 0
    """Arguments that a variadic function must have."""
    searches: bool = False
    """Whether its first argument is what searches of the text may still cost."""


_GO_FLOAT = re.compile(
    r"[-+]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|inf(?:inity)?|nan)", re.IGNORECASE
)


def _number(value: Value) -> float:
    """Return what the humanize functions take for a number: a string that holds one, too."""
    if isinstance(value, str):
        if _GO_FLOAT.fullmatch(value):
            return float(value)
        raise _RenderError(f'parsing "{value}": invalid syntax')
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _RenderError(f"can't convert {type_name(value)} to float")
    return float(value)


def _true(value: Value) -> bool:
    return True if isinstance(value, Struct) else bool(value)


def _comparable(left: Value, right: Value) -> tuple[object, object]:
    if type(left) is not type(right):
        raise _RenderError(
            f"incompatible types for comparison: {type_name(left)} and {type_name(right)};"
            " compare a float with 1.0, not with 1"
        )
    if isinstance(left, dict | list | Struct):
        raise _RenderError(f"invalid type for comparison: {type_name(left)}")
    return left, right


def _equal(first: Value, *others: Value) -> bool:
    return any(left == right for left, right in (_comparable(first, one) for one in others))


def _less(left: Value, right: Value) -> bool:
    match _comparable(left, right):
        case (bool(), _) | (None, _):
            raise _RenderError(f"invalid type for comparison: {type_name(left)}")
        case (str() as first, str() as second):
            return first.encode() < second.encode()
        case (int() | float() as low, int() | float() as high):
            return low < high
    return False


def _less_or_equal(left: Value, right: Value) -> bool:
    return _less(left, right) or _equal(left, right)


def _length(value: Value) -> int:
    match value:
        case str():
            return len(value.encode("utf-8", "replace"))
        case dict() | list():
            return len(value)
    raise _RenderError(f"len of type {type_name(value)}")


def _index(value: Value, *keys: Value) -> Value:
    for key in keys:
        match value, key:
            case dict(), str():
                value = value.get(key, "")
            case (list() | str(), int()) if not isinstance(key, bool):
                items: list[Value] = (
                    list(value.encode("utf-8", "replace")) if isinstance(value, str) else [*value]
                )
                if not 0 <= key < len(items):
                    raise _RenderError(f"index out of range: {key}")
                value = items[key]
            case _:
                raise _RenderError(f"cannot index {type_name(value)} with {type_name(key)}")
    return value


def _first(results: list[Struct]) -> Struct:
    if not results:
        raise _RenderError("first() called on vector with no elements")
    return results[0]


def _label(name: str, sample: Struct) -> str:
    labels = sample.fields["Labels"]
    return labels.get(name, "") if isinstance(labels, dict) else ""


def _matches(steps: Steps, pattern: str, text: str) -> bool:
    return _search(pattern)(text, 0, steps) is not None


def _replace_all(steps: Steps, pattern: str, replacement: str, text: str) -> str:
    """Return the text with each match replaced; `$1`, `${1}` and `${name}` stand for groups."""
    search = _search(pattern)
    parts: list[str] = []
    position = copied = 0
    while match := search(text, position, steps):
        parts.append(text[copied : match.begin])
        if match.end > copied or match.begin == 0:  # No empty match right after another one.
            parts.append(match.expanded(replacement))
        copied = match.end
        # After an empty match Go does not try for a longer one at the same place.
        position = max(match.end, position + 1)
        if position > len(text):
            break
    return "".join(parts) + text[copied:]


def _search(pattern: str) -> Callable[[str, int, Steps], Match | None]:
    try:
        return compile_search(pattern)
    except RegexError as error:
        raise _RenderError(str(error)) from error


def _timestamp(value: Value) -> str:
    try:
        return humanize.humanize_timestamp(_number(value))
    except ValueError as error:
        raise _RenderError(str(error)) from error


def _by_label(name: str, results: list[Struct]) -> list[Struct]:
    return sorted(results, key=lambda sample: _label(name, sample).encode())


_ANY_NUMBER = ("any",)
_FUNCTIONS: Mapping[str, _Function] = {
    "eq": _Function(("any", "any"), _equal, variadic=True, minimum=2),
    "first": _Function(("list",), _first),
    "ge": _Function(("any", "any"), lambda a, b: not _less(a, b)),  # As Go: of NaN, too.
    "gt": _Function(("any", "any"), lambda a, b: not _less_or_equal(a, b)),
    "humanize": _Function(_ANY_NUMBER, lambda v: humanize.humanize(_number(v))),
    "humanize1024": _Function(_ANY_NUMBER, lambda v: humanize.humanize1024(_number(v))),
    "humanizeDuration": _Function(_ANY_NUMBER, lambda v: humanize.humanize_duration(_number(v))),
    "humanizePercentage": _Function(
        _ANY_NUMBER, lambda v: humanize.humanize_percentage(_number(v))
    ),
    "humanizeTimestamp": _Function(_ANY_NUMBER, _timestamp),
    "index": _Function(("any", "any"), _index, variadic=True, minimum=1),
    "label": _Function(("string", "sample"), _label),
    "le": _Function(("any", "any"), _less_or_equal),
    "len": _Function(("any",), _length),
    "lt": _Function(("any", "any"), _less),
    "match": _Function(("string", "string"), _matches, searches=True),
    "ne": _Function(("any", "any"), lambda a, b: not _equal(a, b)),
    "not": _Function(("any",), lambda value: not _true(value)),
    "print": _Function(("any",), lambda *values: sprint(values), variadic=True),
    "printf": _Function(
        ("string", "any"), lambda text, *values: sprintf(text, values), variadic=True, minimum=1
    ),
    "println": _Function(
        ("any",), lambda *values: " ".join(map(plain, values)) + "\n", variadic=True
    ),
    "reReplaceAll": _Function(("string", "string", "string"), _replace_all, searches=True),
    "sortByLabel": _Function(("string", "list"), _by_label),
    "stripDomain": _Function(("string",), humanize.strip_domain),
    "stripPort": _Function(("string",), humanize.strip_port),
    "strvalue": _Function(("sample",), lambda sample: _label("__value__", sample)),
    "title": _Function(("string",), humanize.title),
    "toLower": _Function(("string",), humanize.lower),
    "toUpper": _Function(("string",), humanize.upper),
    "value": _Function(("sample",), lambda sample: sample.fields["Value"]),
}
_OTHER_FUNCTIONS = frozenset(
    "args call externalURL graphLink html js now parseDuration parseDurationTime pathPrefix"
    " safeHtml slice tableLink tmpl toDuration toTime urlQueryEscape urlquery".split()
)
_OTHER_ACTIONS = frozenset({"block", "break", "continue", "define", "template"})
_ACTIONS = frozenset({"else", "end", "if", "range", "with"})


def _checked(name: str, parameter: str, value: Value) -> Value:
    """Return an argument if it has the parameter's type."""
    match parameter, value:
        case ("any", _) | ("string", str()) | ("list", list()):
            return value
        case ("sample", Struct(type_name="sample")):
            return value
    expected = {"list": "the result of a query", "sample": "one sample"}.get(parameter, parameter)
    raise _RenderError(
        f"error calling {name}: wrong type for value; expected {expected}; got {type_name(value)}"
    )


def _run_query(scope: _Scope, text: Value) -> list[Struct]:
    expression = _checked("query", "string", text)
    if scope.query is None:
        raise _RenderError("error calling query: no metrics to ask here")
    try:
        results = scope.query(str(expression))
    except (PromqlError, EvaluationError) as error:
        raise _RenderError(f"error calling query: {error}") from error
    return [
        Struct(
            "sample",
            {
                "Labels": dict(one.labels) | ({"__name__": one.name} if one.name else {}),
                "Value": one.value,
            },
        )
        for one in results
    ]


@dataclass(frozen=True, slots=True)
class _Operand:
    """Part of a command; `constant` is its value where it is a literal."""

    evaluate: _Evaluate
    position: int
    function: str = ""
    """Name, where the operand is a function without its arguments."""
    literal: bool = False
    constant: Value = None


class _Parser:
    """Recursive descent; it yields closures instead of a tree."""

    def __init__(self, text: str) -> None:
        self.slots = 0
        self._text = text
        self._position = 0
        self._token = _Token("close", "", 0, after_blank=False)
        self._names: list[tuple[str, int]] = [(name, slot) for slot, name in enumerate(_PREDEFINED)]
        self._nesting = 0
        self._trim_next = False

    def document(self) -> _Write:
        write, word = self._body()
        if word:
            raise self._error(self._token.position, f"unexpected {{{{{word}}}}}")
        return write

    def _error(self, position: int, message: str) -> TemplateError:
        before = self._text[:position]
        line, column = before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1
        return TemplateError(message, line, column)

    # Text and actions.

    def _body(self) -> tuple[_Write, str]:
        """Read until an action that ends or divides a block; return it, too ('' at the end)."""
        writes: list[_Write] = []
        known = len(self._names)
        self._nesting += 1
        if self._nesting > MAXIMUM_NESTING:
            raise self._error(self._position, f"more than {MAXIMUM_NESTING} nested blocks")
        word = ""
        while True:
            text, opened = self._text_before_action()
            if text:
                writes.append(_constant_text(text))
            if not opened:
                break
            if self._word() in {"else", "end"}:
                word = self._token.text
                break
            writes.append(self._action())
        self._nesting -= 1
        del self._names[known:]

        def write_all(scope: _Scope, parts: list[str]) -> None:
            for write in writes:
                write(scope, parts)

        return write_all, word

    def _text_before_action(self) -> tuple[str, bool]:
        """Return the text up to the next action, and whether there is one; read its first word."""
        collected = ""
        while True:
            start = self._position
            opening = self._text.find("{{", start)
            piece = self._text[start : opening if opening >= 0 else None]
            if self._trim_next:
                piece = piece.lstrip(_TRIMMED)
                self._trim_next = False
            if opening < 0:
                self._position = len(self._text)
                return collected + piece, False
            trims = bool(re.match(r"-[ \t\r\n]", self._text[opening + 2 : opening + 4]))
            collected += piece.rstrip(_TRIMMED) if trims else piece
            if comment := _COMMENT.match(self._text, opening):
                self._position = comment.end()
                self._trim_next = comment[0].endswith("-}}")
                continue
            self._position = opening + (3 if trims else 2)
            self._advance()
            return collected, True

    def _advance(self) -> None:
        """Read the next word of an action."""
        blank = False
        while True:
            if self._position >= len(self._text):
                raise self._error(self._text.rfind("{{"), "unclosed action; close it with '}}'")
            match = _WORD.match(self._text, self._position)
            if match is None:
                character = self._text[self._position]
                what = "unterminated string" if character in '"`' else "unexpected character"
                raise self._error(self._position, f"{what} {character!r} in action")
            self._position = match.end()
            kind = str(match.lastgroup)
            if kind != "blank":
                break
            blank = True
        self._token = _Token(kind, match[0], match.start(), after_blank=blank)
        if kind == "close":
            self._trim_next = match[0].startswith("-")

    def _word(self) -> str:
        return self._token.text if self._token.kind == "identifier" else ""

    def _is(self, kind: str, text: str = "") -> bool:
        return self._token.kind == kind and text in {"", self._token.text}

    def _unexpected(self, where: str) -> TemplateError:
        return self._error(self._token.position, f"unexpected {self._token.text!r} in {where}")

    def _closed(self, where: str) -> None:
        """The action must end here; the text after it is read by whoever comes next."""
        if not self._is("close"):
            raise self._unexpected(where)

    def _action(self) -> _Write:
        word = self._word()
        if word in _OTHER_ACTIONS:
            raise self._error(self._token.position, f"the action {word!r} is not supported")
        if word in _ACTIONS:
            known = len(self._names)
            write = self._block(word)
            del self._names[known:]
            return write
        evaluate, declares = self._pipeline("command")
        self._closed("command")
        if declares:
            return lambda scope, _parts: _discard(evaluate(scope))
        return lambda scope, parts: parts.append(plain(evaluate(scope)))

    def _block(self, word: str) -> _Write:
        self._advance()
        slots: list[int] = []
        if word == "range":
            evaluate, slots = self._range_clause()
        else:
            evaluate, _ = self._pipeline(word)
        self._closed(word)
        body, ended_by = self._body()
        otherwise: _Write = _nothing
        if ended_by == "else":
            otherwise, ended_by = self._else(word)
        elif ended_by:
            self._end_of_block()
        if not ended_by:
            raise self._error(
                len(self._text), f"unexpected end of text; close '{word}' with {{{{end}}}}"
            )
        if word == "range":
            return _range(evaluate, slots, body, otherwise)

        def write(scope: _Scope, parts: list[str]) -> None:
            value = evaluate(scope)
            if not _true(value):
                otherwise(scope, parts)
            elif word == "with":
                body(_Scope(value, scope.variables, scope.query, scope.steps), parts)
            else:
                body(scope, parts)

        return write

    def _end_of_block(self) -> None:
        self._advance()
        self._closed("end")

    def _else(self, word: str) -> tuple[_Write, str]:
        """Read what follows {{else}}, `else if` and `else with` included, through {{end}}."""
        self._advance()
        following = self._word()
        if following == word and word in {"if", "with"}:
            # The block inside takes the {{end}} for both.
            self._nesting += 1
            if self._nesting > MAXIMUM_NESTING:
                raise self._error(
                    self._token.position, f"more than {MAXIMUM_NESTING} nested blocks"
                )
            write = self._block(word)
            self._nesting -= 1
            return write, "end"
        self._closed("else")
        write, ended_by = self._body()
        if ended_by == "else":
            raise self._error(self._token.position, "expected {{end}}, got {{else}}")
        if ended_by:
            self._end_of_block()
        return write, ended_by

    def _range_clause(self) -> tuple[_Evaluate, list[int]]:
        """Read `pipeline`, `$element := pipeline` or `$index, $element := pipeline`."""
        names: list[str] = []
        start, token = self._position, self._token
        if self._is("variable"):
            names.append(self._token.text)
            self._advance()
            if self._is("symbol", ","):
                self._advance()
                if not self._is("variable"):
                    raise self._unexpected("range")
                names.append(self._token.text)
                self._advance()
            if self._is("symbol", ":="):
                self._advance()
                evaluate, _ = self._pipeline("range")
                return evaluate, [self._declare(name) for name in names]
            if len(names) > 1 or self._is("symbol", "="):
                raise self._unexpected("range")
            self._position, self._token = start, token
        return self._pipeline("range")[0], []

    # Pipelines.

    def _declare(self, name: str) -> int:
        slot = len(_PREDEFINED) + self.slots
        self.slots += 1
        self._names.append((name, slot))
        return slot

    def _slot(self, name: str, position: int) -> int:
        for known, slot in reversed(self._names):
            if known == name:
                return slot
        raise self._error(position, f"undefined variable {name!r}")

    def _pipeline(self, where: str) -> tuple[_Evaluate, bool]:
        """Read a pipeline; say whether it only sets a variable."""
        if self._is("variable"):
            start, token = self._position, self._token
            self._advance()
            if self._is("symbol", ":=") or self._is("symbol", "="):
                declares = self._token.text == ":="
                self._advance()
                evaluate = self._commands(where)
                slot = (
                    self._declare(token.text)
                    if declares
                    else self._slot(token.text, token.position)
                )
                return _assignment(slot, evaluate), True
            self._position, self._token = start, token
        return self._commands(where), False

    def _commands(self, where: str) -> _Evaluate:
        current = self._command(where, None)
        while self._is("symbol", "|"):
            self._advance()
            current = self._command(where, current)
        return current.evaluate

    def _command(self, where: str, piped: _Operand | None) -> _Operand:
        operands: list[_Operand] = []
        while not self._is("close") and not self._is("symbol", "|") and not self._is("symbol", ")"):
            if operands and not self._token.after_blank:
                raise self._unexpected(where)
            operands.append(self._operand(where))
        if not operands:
            raise self._error(self._token.position, f"missing value for {where}")
        first, *arguments = operands
        if first.function:
            return self._call(first, [*arguments, *([piped] if piped else [])])
        if piped:
            raise self._error(
                first.position, "non executable command in pipeline: expected a function"
            )
        if arguments:
            raise self._error(
                arguments[0].position, "can't give argument to what is not a function"
            )
        return first

    def _operand(self, where: str) -> _Operand:
        token = self._token
        self._advance()
        operand: _Operand
        match token.kind:
            case "field":
                operand = _Operand(_field(_dot, token.text[1:]), token.position)
            case "variable":
                slot = self._slot(token.text, token.position)
                operand = _Operand(lambda scope: scope.variables[slot], token.position)
            case "number":
                return self._literal(token, _go_number(token.text))
            case "string":
                value = unquote(token.text)
                if value is None:
                    raise self._error(token.position, f"invalid escape in string {token.text}")
                return self._literal(token, value)
            case "identifier":
                return self._identifier(token)
            case "symbol" if token.text == ".":
                operand = _Operand(_dot, token.position)
            case "symbol" if token.text == "(":
                operand = self._parenthesis(token)
            case _:
                raise self._error(token.position, f"unexpected {token.text!r} in {where}")
        while self._is("field") and not self._token.after_blank:
            operand = _Operand(_field(operand.evaluate, self._token.text[1:]), operand.position)
            self._advance()
        return operand

    def _parenthesis(self, opening: _Token) -> _Operand:
        self._nesting += 1
        if self._nesting > MAXIMUM_NESTING:
            raise self._error(opening.position, f"more than {MAXIMUM_NESTING} nested parentheses")
        evaluate = self._commands("parenthesis")
        self._nesting -= 1
        if not self._is("symbol", ")"):
            raise self._error(opening.position, "unclosed left parenthesis")
        self._advance()
        return _Operand(evaluate, opening.position)

    @staticmethod
    def _literal(token: _Token, value: Value) -> _Operand:
        return _Operand(lambda _scope: value, token.position, literal=True, constant=value)

    def _identifier(self, token: _Token) -> _Operand:
        name = token.text
        if name in {"true", "false"}:
            return self._literal(token, name == "true")
        if name == "nil":
            raise self._error(token.position, "nil is not a command")
        if name in _FUNCTIONS or name in {"and", "or", "query"}:
            return _Operand(_nil, token.position, function=name)
        if name in _OTHER_FUNCTIONS:
            raise self._error(token.position, f"the function {name!r} is not supported")
        raise self._error(token.position, f"function {name!r} not defined")

    def _call(self, function: _Operand, given: list[_Operand]) -> _Operand:
        """Return a function's call; a function among its arguments is called without any."""
        name = function.function
        arguments = [self._call(one, []) if one.function else one for one in given]
        values = [one.evaluate for one in arguments]
        if name in {"and", "or"}:
            self._check_count(function, len(values) >= 1, "at least 1", len(values))
            return _Operand(_lazy(values, stops_at=name == "or"), function.position)
        if name == "query":
            self._check_count(function, len(values) == 1, "1", len(values))
            self._check_query(arguments[0])
            text = values[0]
            return _Operand(lambda scope: _run_query(scope, text(scope)), function.position)
        row = _FUNCTIONS[name]
        wanted = row.minimum if row.variadic else len(row.parameters)
        enough = len(values) >= wanted if row.variadic else len(values) == wanted
        expected = f"at least {wanted}" if row.variadic else str(wanted)
        self._check_count(function, enough, expected, len(values))
        last = len(row.parameters) - 1
        types = [row.parameters[min(index, last)] for index in range(len(values))]
        call = row.call

        def evaluate(scope: _Scope) -> Value:
            ready = [
                _checked(name, kind, value(scope))
                for kind, value in zip(types, values, strict=True)
            ]
            return call(scope.steps, *ready) if row.searches else call(*ready)

        return _Operand(evaluate, function.position)

    def _check_count(self, function: _Operand, fits: bool, expected: str, got: int) -> None:  # noqa: FBT001 - the very check
        if not fits:
            message = f"wrong number of arguments for {function.function}: expected {expected}"
            raise self._error(function.position, f"{message}, got {got}")

    def _check_query(self, argument: _Operand) -> None:
        """Refuse a constant query that could never work."""
        if argument.literal and isinstance(argument.constant, str):
            try:
                compile_expression(argument.constant)
            except PromqlError as error:
                raise self._error(
                    argument.position, f"query {argument.constant!r}: {error}"
                ) from error


# --- closures ---


def _constant_text(text: str) -> _Write:
    return lambda _scope, parts: parts.append(text)


def _nothing(_scope: _Scope, _parts: list[str]) -> None:
    """Write nothing: no {{else}}."""


def _nil(_scope: _Scope) -> Value:
    return None


def _discard(_value: Value) -> None:
    """A declaration's value is not written."""


def _dot(scope: _Scope) -> Value:
    return scope.dot


def _go_number(text: str) -> Value:
    """Return an int or a float: Go decides by the look."""
    if text.lower().lstrip("+-").startswith("0x"):
        return int(text, 16)
    return float(text) if set(text) & set(".eE") else int(text)


def _field(evaluate: _Evaluate, name: str) -> _Evaluate:
    def get(scope: _Scope) -> Value:
        value = evaluate(scope)
        if isinstance(value, dict):
            return value.get(name, "")
        if isinstance(value, Struct) and name in value.fields:
            return value.fields[name]
        raise _RenderError(f"can't evaluate field {name} in type {type_name(value)}")

    return get


def _assignment(slot: int, evaluate: _Evaluate) -> _Evaluate:
    def assign(scope: _Scope) -> Value:
        value = scope.variables[slot] = evaluate(scope)
        return value

    return assign


def _lazy(values: list[_Evaluate], *, stops_at: bool) -> _Evaluate:
    """Return `or` (the first true value) or `and` (the first that is not), else the last value."""

    def evaluate(scope: _Scope) -> Value:
        value: Value = None
        for one in values:
            value = one(scope)
            if _true(value) is stops_at:
                break
        return value

    return evaluate


def _range(evaluate: _Evaluate, slots: list[int], body: _Write, otherwise: _Write) -> _Write:
    def write(scope: _Scope, parts: list[str]) -> None:
        value = evaluate(scope)
        pairs: list[tuple[Value, Value]]
        match value:
            case dict():
                pairs = [(key, value[key]) for key in sorted(value)]
            case list():
                pairs = list(enumerate(value))
            case _:
                raise _RenderError(f"range can't iterate over {type_name(value)}")
        for pair in pairs:
            parts.append("")  # a turn that writes nothing takes time as well
            if len(parts) > MOST_PARTS:
                raise _RenderError(f"more than {MOST_PARTS} parts of text; range over less")
            for slot, element in zip(reversed(slots), reversed(pair), strict=False):
                scope.variables[slot] = element
            body(_Scope(pair[1], scope.variables, scope.query, scope.steps), parts)
        if not pairs:
            otherwise(scope, parts)

    return write
