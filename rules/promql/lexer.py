"""Lexer of PromQL expressions: text in, tokens out.

Source: Prometheus 3, 'Querying basics', literals; for escapes the Go specification, string
literals.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NoReturn

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.promql.errors import PromqlError

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["identifier", "number", "duration", "string", "operator", "end"]


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `value` is a number, a duration's seconds, or a string's text."""

    kind: Kind
    text: str
    value: float | str
    position: int


_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*+")
_IDENTIFIER = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_WORD = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OPERATOR = re.compile(r"==|!=|<=|>=|=(?!~)|[-+*/%^(){\[\],<>@]")
_OPERATOR_IN_BRACKETS = re.compile(r"[-+*/%^()\[\],:]")
_OPERATOR_IN_BRACES = re.compile(r"=~|!~|!=|[={},]")
_STRINGS: Mapping[str, re.Pattern[str]] = {
    '"': re.compile(r'"(?:[^"\\\n]|\\[^\n])*+"'),
    "'": re.compile(r"'(?:[^'\\\n]|\\[^\n])*+'"),
    "`": re.compile(r"`[^`]*+`"),
}
_NUMERIC = re.compile(
    r"0[xX][0-9a-zA-Z_.]*|(?:[0-9]|\.[0-9])(?:[0-9a-df-zA-DF-Z_.]|[eE](?:[-+](?=[0-9]))?)*"
)
# Possessive: thousands of digits before a wrong character must not be tried in every split.
_DECIMAL = re.compile(
    r"(?:[0-9]++(?:_[0-9]++)*+)?+\.?+(?:[0-9]++(?:_[0-9]++)*+)?+(?:[eE][-+]?[0-9]++)?"
)
_OCTAL = re.compile(r"0_?[0-7]++(?:_[0-7]++)*+")
_HEXADECIMAL = re.compile(r"0[xX](?:_?[0-9a-fA-F]++)++")
_DURATION = re.compile(
    r"(?=[0-9])(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?",
    re.ASCII,
)
_MILLISECONDS = (31_536_000_000, 604_800_000, 86_400_000, 3_600_000, 60_000, 1000, 1)
_DURATION_LIMIT_MILLISECONDS = 2**63 // 1_000_000
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"])|x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))"
)
_ESCAPED: Mapping[str, bytes] = {
    "a": b"\a",
    "b": b"\b",
    "f": b"\f",
    "n": b"\n",
    "r": b"\r",
    "t": b"\t",
    "v": b"\v",
    "\\": b"\\",
    "'": b"'",
    '"': b'"',
}


def position_error(text: str, position: int, message: str) -> PromqlError:
    """Return the error for an offset into a text."""
    return PromqlError(message, *line_and_column(text, position))


def line_and_column(text: str, position: int) -> tuple[int, int]:
    """Return line and column of an offset into a text, both from 1."""
    before = text[:position]
    return before.count("\n") + 1, position - before.rfind("\n")


def duration_seconds(text: str) -> float | None:
    """Return a Prometheus duration's seconds, or None if it is not one.

    Source: Prometheus, 'Querying basics', time durations: units y, w, d, h, m, s, ms, each at most
    once and in this order; years are 365 days. Limits: 63 bits of nanoseconds.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    milliseconds = 0
    for digits, factor in zip(match.groups(), _MILLISECONDS, strict=True):
        if digits:
            # More digits than the limit has: int() may refuse thousands of them.
            milliseconds += int(digits[:20] if len(digits.lstrip("0")) <= 20 else "9" * 20) * factor
    return milliseconds / 1000 if milliseconds < _DURATION_LIMIT_MILLISECONDS else None


def unquote(literal: str) -> str | None:
    r"""Return the text of a quoted string literal, or None if its escapes are invalid.

    Source: the Go specification, string literals; single quotes work like double ones. The bytes of
    `\x` and octal escapes must be UTF-8.
    """
    quote, body = literal[0], literal[1:-1]
    if quote == "`":
        return body.replace("\r", "")
    parts: list[bytes] = []
    end = 0
    try:
        while (start := body.find("\\", end)) >= 0:
            parts.append(body[end:start].encode())
            match = _ESCAPE.match(body, start)
            if match is None:
                return None
            simple, hexadecimal, octal, short, long = match.groups()
            if simple:
                if simple in "'\"" and simple != quote:
                    return None
                parts.append(_ESCAPED[simple])
            elif hexadecimal or octal:
                parts.append(bytes([int(hexadecimal, 16) if hexadecimal else int(octal, 8)]))
            else:
                parts.append(chr(int(short or long, 16)).encode())
            end = match.end()
        return (b"".join(parts) + body[end:].encode()).decode()
    except (ValueError, OverflowError):  # Not a byte, not a character, or not UTF-8.
        return None


class Lexer:
    """Reads one token after the other, so that the first error in the text is reported.

    The meaning of a character depends on the brackets around it: in braces a name is a label, in
    square brackets a colon is an operator and not the beginning of a name.
    """

    def __init__(self, text: str) -> None:
        """Start at the first token of the text."""
        self.text = text
        self._position = 0
        self._parentheses = 0
        self._inside: Literal["", "{", "["] = ""

    def next(self) -> Token:
        """Return the next token; at the end always one of kind 'end'."""
        text = self.text
        blank = _BLANK.match(text, self._position)
        start = self._position = blank.end() if blank else self._position
        if start == len(text):
            return self._end()
        if text[start] in "\"'`":
            return self._string(start)
        match self._inside:
            case "{":
                return self._in_braces(start)
            case "[":
                identifier, operator = _WORD, _OPERATOR_IN_BRACKETS
            case _:
                identifier, operator = _IDENTIFIER, _OPERATOR
        if match := identifier.match(text, start):
            word = match[0]
            if word.lower() in {"inf", "nan"}:
                return self._token("number", word, float(word), start)
            return self._token("identifier", word, word, start)
        if match := _NUMERIC.match(text, start):
            return self._number(match[0], start)
        if match := operator.match(text, start):
            return self._operator(match[0], start)
        return self._unexpected(start)

    def _fail(self, start: int, message: str) -> NoReturn:
        raise position_error(self.text, start, message)

    def _end(self) -> Token:
        if self._inside == "{":
            self._fail(self._position, "unexpected end of input inside braces; close them with }")
        if self._parentheses:
            self._fail(self._position, "unclosed left parenthesis")
        if self._inside == "[":
            self._fail(self._position, "unclosed left bracket")
        return Token("end", "", "", self._position)

    def _unexpected(self, start: int) -> NoReturn:
        character, following = self.text[start], self.text[start + 1 : start + 2]
        if character in "=!" and self._inside != "{":
            what = f"unexpected character after {character!r}: {following!r}"
            if following == "~":
                what += "; regular expressions match labels, in braces"
            self._fail(start, what)
        where = " inside braces" if self._inside == "{" else ""
        self._fail(start, f"unexpected character{where}: {character!r}")

    def _token(self, kind: Kind, word: str, value: float | str, start: int) -> Token:
        self._position = start + len(word)
        return Token(kind, word, value, start)

    def _in_braces(self, start: int) -> Token:
        if match := _WORD.match(self.text, start):
            return self._token("identifier", match[0], match[0], start)
        match = _OPERATOR_IN_BRACES.match(self.text, start)
        if match is None:
            return self._unexpected(start)
        if match[0] == "}":
            self._inside = ""
        return self._token("operator", match[0], match[0], start)

    def _operator(self, word: str, start: int) -> Token:
        match word:
            case "{":
                self._inside = "{"
            case "[" if self._inside:
                self._fail(start, "unexpected left bracket '['")
            case "[":
                self._inside = "["
            case "]" if not self._inside:
                self._fail(start, "unexpected right bracket ']'; expected an operator or the end")
            case "]":
                self._inside = ""
            case "(":
                self._parentheses += 1
            case ")" if not self._parentheses:
                self._fail(
                    start, "unexpected right parenthesis ')'; expected an operator or the end"
                )
            case ")":
                self._parentheses -= 1
        return self._token("operator", word, word, start)

    def _number(self, word: str, start: int) -> Token:
        kind: Kind = "number"
        value: float | None
        try:
            if _HEXADECIMAL.fullmatch(word):
                value = float(int(word.replace("_", ""), 16))
            elif _OCTAL.fullmatch(word):
                value = float(int(word.replace("_", ""), 8))  # As Go treats a leading zero.
            elif _DECIMAL.fullmatch(word):
                value = float(word.replace("_", ""))
            else:
                kind, value = "duration", duration_seconds(word)
        except OverflowError:
            value = float("inf")
        if value is None:
            what = f"bad number or duration syntax: {word!r}; write 0.5, 1e6, 0x1F, 5m or 1h30m"
            self._fail(start, what)
        if value in (float("inf"), float("-inf")):
            self._fail(start, f"number {word!r} is out of range; write Inf for infinity")
        return self._token(kind, word, value, start)

    def _string(self, start: int) -> Token:
        text = self.text
        quote = text[start]
        match = _STRINGS[quote].match(text, start)
        if match is None:
            kind = "raw" if quote == "`" else "quoted"
            self._fail(start, f"unterminated {kind} string; close it with {quote}")
        value = unquote(match[0])
        if value is None:
            what = f"invalid escape in string {match[0]}; write \\\\ for a backslash, or use `...`"
            self._fail(start, what)
        return self._token("string", match[0], value, start)
