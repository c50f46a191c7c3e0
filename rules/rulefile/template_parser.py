"""Lexer and recursive descent parser of templates: compiles `{{ ... }}` to closures.

Source: Go, package text/template, 'Actions', 'Pipelines', 'Variables'. Limits: `MAX_NESTING`;
`MAX_CHARACTERS` of a text that is rendered, and of each value that is made for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.promql.errors import EvaluationError, PromqlError
from iowarden.rules.promql.evaluator import compile_expression
from iowarden.rules.promql.lexer import line_and_column, unquote
from iowarden.rules.rulefile.printf import Struct, Value, plain, type_name
from iowarden.rules.rulefile.template_functions import (
    COPIED_PER_STEP,
    FUNCTIONS,
    MAX_CHARACTERS,
    OTHER_FUNCTIONS,
    Function,
    RenderError,
    checked,
    is_true,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.rules.promql.automaton import Steps
    from iowarden.rules.promql.evaluator import Sample

Query = Callable[[str], "list[Sample]"]
"""Evaluates an expression at the time of the alert."""

MAX_NESTING = 50
MAX_GIVEN = 10 * MAX_CHARACTERS
"""Characters of the arguments of a function together."""


class TemplateError(Exception):
    """A template that cannot be loaded; line and column count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        """Store the error and its position."""
        super().__init__(f"{line}:{column}: {message}")
        self.message = message
        self.line = line
        self.column = column


@dataclass(slots=True)
class Scope:
    """The data that the actions of one rendering can read."""

    dot: Value
    variables: list[Value]
    query: Query | None
    steps: Steps


class Output:
    """The text of a rendering as far as it is written. Limits: MAX_CHARACTERS."""

    __slots__ = ("_left", "_parts")

    def __init__(self) -> None:
        """Start empty."""
        self._parts: list[str] = []
        self._left = MAX_CHARACTERS

    def append(self, text: str) -> None:
        """Add a part, which may be empty. Errors: RenderError."""
        self._left -= 1 + len(text)
        if self._left < 0:
            raise RenderError(f"more than {MAX_CHARACTERS} characters; range over less")
        self._parts.append(text)

    def __str__(self) -> str:
        """Return the text."""
        return "".join(self._parts)

    @property
    def characters(self) -> int:
        """Return how many characters and parts were written."""
        return MAX_CHARACTERS - self._left


_Evaluate = Callable[[Scope], Value]
Write = Callable[[Scope, Output], None]
"""Appends the output of an action or a text."""


_CHARACTERS_EACH = 100
"""Of a sample, a label with its value, a number: about."""

_PREDEFINED = ("$", "$labels", "$externalLabels", "$externalURL", "$value")
"""The first variables, in the order of `Scope.variables`."""


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


def compile_text(text: str, functions: Mapping[str, Function] = FUNCTIONS) -> tuple[Write, int]:
    """Return a function that writes a text, and how many variables it needs in addition.

    Errors: TemplateError.
    """
    parser = _Parser(text, functions)
    return parser.document(), parser.slots


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int
    after_blank: bool


_OTHER_ACTIONS = frozenset({"block", "break", "continue", "define", "template"})
_ACTIONS = frozenset({"else", "end", "if", "range", "with"})


def _run_query(scope: Scope, text: Value) -> list[Struct]:
    expression = checked("query", "string", text)
    if scope.query is None:
        raise RenderError("error calling query: queries are not available here")
    try:
        results = scope.query(str(expression))
    except (PromqlError, EvaluationError) as error:
        raise RenderError(f"error calling query: {error}") from error
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

    def __init__(self, text: str, functions: Mapping[str, Function]) -> None:
        self.slots = 0
        self._functions = functions
        self._text = text
        self._position = 0
        self._token = _Token("close", "", 0, after_blank=False)
        self._names: list[tuple[str, int]] = [(name, slot) for slot, name in enumerate(_PREDEFINED)]
        self._nesting = 0
        self._trim_next = False

    def document(self) -> Write:
        write, word = self._body()
        if word:
            raise self._error(self._token.position, f"unexpected {{{{{word}}}}}")
        return write

    def _error(self, position: int, message: str) -> TemplateError:
        return TemplateError(message, *line_and_column(self._text, position))

    # Text and actions.

    def _body(self) -> tuple[Write, str]:
        """Read up to an action that ends or divides a block; return that as well, or ''."""
        writes: list[Write] = []
        known = len(self._names)
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise self._error(self._position, f"more than {MAX_NESTING} nested blocks")
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

        def write_all(scope: Scope, output: Output) -> None:
            for write in writes:
                write(scope, output)

        return write_all, word

    def _text_before_action(self) -> tuple[str, bool]:
        """Return the text up to the next action, and whether there is one; read its first token."""
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
        """Read the next token of an action."""
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
        """Require the end of the action; the caller reads the text after it."""
        if not self._is("close"):
            raise self._unexpected(where)

    def _action(self) -> Write:
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
            return lambda scope, _output: _discard(evaluate(scope))
        return lambda scope, output: output.append(plain(evaluate(scope)))

    def _block(self, word: str) -> Write:
        self._advance()
        slots: list[int] = []
        if word == "range":
            evaluate, slots = self._range_clause()
        else:
            evaluate, _ = self._pipeline(word)
        self._closed(word)
        body, ended_by = self._body()
        otherwise: Write = _nothing
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

        def write(scope: Scope, output: Output) -> None:
            value = evaluate(scope)
            if not is_true(value):
                otherwise(scope, output)
            elif word == "with":
                body(Scope(value, scope.variables, scope.query, scope.steps), output)
            else:
                body(scope, output)

        return write

    def _end_of_block(self) -> None:
        self._advance()
        self._closed("end")

    def _else(self, word: str) -> tuple[Write, str]:
        """Read what follows {{else}}, `else if` and `else with` included, through {{end}}."""
        self._advance()
        following = self._word()
        if following == word and word in {"if", "with"}:
            # The nested block consumes the {{end}} of both.
            self._nesting += 1
            if self._nesting > MAX_NESTING:
                raise self._error(self._token.position, f"more than {MAX_NESTING} nested blocks")
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
        """Read a pipeline; return whether it only sets a variable."""
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
        if self._nesting > MAX_NESTING:
            raise self._error(opening.position, f"more than {MAX_NESTING} nested parentheses")
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
        if name in self._functions or name in {"and", "or", "query"}:
            return _Operand(_nil, token.position, function=name)
        if name in OTHER_FUNCTIONS:
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
        row = self._functions[name]
        wanted = row.minimum if row.variadic else len(row.parameters)
        enough = len(values) >= wanted if row.variadic else len(values) == wanted
        expected = f"at least {wanted}" if row.variadic else str(wanted)
        self._check_count(function, enough, expected, len(values))
        last = len(row.parameters) - 1
        types = [row.parameters[min(index, last)] for index in range(len(values))]
        call = row.call

        def evaluate(scope: Scope) -> Value:
            ready = [
                checked(name, kind, value(scope)) for kind, value in zip(types, values, strict=True)
            ]
            # Before the call: what it makes is about as long as what it is given.
            given = sum(map(_characters, ready))
            made = None
            if given <= MAX_GIVEN:
                scope.steps.spend(1 + given // COPIED_PER_STEP)
                made = call(scope.steps, *ready) if row.searches else call(*ready)
            if given > MAX_GIVEN or (isinstance(made, str) and len(made) > MAX_CHARACTERS):
                raise RenderError(
                    f"{function.function}: more than {MAX_CHARACTERS} characters; shorten its text"
                )
            return made

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


def _constant_text(text: str) -> Write:
    return lambda _scope, output: output.append(text)


def _nothing(_scope: Scope, _output: Output) -> None:
    """Write nothing: no {{else}}."""


def _nil(_scope: Scope) -> Value:
    return None


def _discard(_value: Value) -> None:
    """A declaration's value is not written."""


def _dot(scope: Scope) -> Value:
    return scope.dot


def _go_number(text: str) -> Value:
    """Return an int or a float: Go decides by the notation."""
    if text.lower().lstrip("+-").startswith("0x"):
        return int(text, 16)
    return float(text) if set(text) & set(".eE") else int(text)


def _field(evaluate: _Evaluate, name: str) -> _Evaluate:
    def get(scope: Scope) -> Value:
        value = evaluate(scope)
        if isinstance(value, dict):
            return value.get(name, "")
        if isinstance(value, Struct) and name in value.fields:
            return value.fields[name]
        raise RenderError(f"can't evaluate field {name} in type {type_name(value)}")

    return get


def _assignment(slot: int, evaluate: _Evaluate) -> _Evaluate:
    def assign(scope: Scope) -> Value:
        value = scope.variables[slot] = evaluate(scope)
        return value

    return assign


def _characters(value: Value) -> int:
    """Return about how long a value is as text."""
    match value:
        case str():
            return len(value)
        case dict() | list():
            return _CHARACTERS_EACH * len(value)
    return _CHARACTERS_EACH


def _lazy(values: list[_Evaluate], *, stops_at: bool) -> _Evaluate:
    """Return `or` (the first true value) or `and` (the first that is not), else the last value."""

    def evaluate(scope: Scope) -> Value:
        value: Value = None
        for one in values:
            value = one(scope)
            if is_true(value) is stops_at:
                break
        return value

    return evaluate


def _range(evaluate: _Evaluate, slots: list[int], body: Write, otherwise: Write) -> Write:
    def write(scope: Scope, output: Output) -> None:
        value = evaluate(scope)
        pairs: list[tuple[Value, Value]]
        match value:
            case dict():
                pairs = [(key, value[key]) for key in sorted(value)]
            case list():
                pairs = list(enumerate(value))
            case _:
                raise RenderError(f"range can't iterate over {type_name(value)}")
        for pair in pairs:
            output.append("")  # an iteration without output takes time as well
            scope.steps.spend(1)
            for slot, element in zip(reversed(slots), reversed(pair), strict=False):
                scope.variables[slot] = element
            body(Scope(pair[1], scope.variables, scope.query, scope.steps), output)
        if not pairs:
            otherwise(scope, output)

    return write
