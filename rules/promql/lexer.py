"""Words of an expression: text in, tokens out.

Source: Prometheus 3, 'Querying basics', literals; for escapes
the Go specification, string literals.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["identifier", "number", "string", "operator", "end"]


class PromqlError(Exception):
    """An expression that cannot be loaded; line and column count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        """Keep what is wrong and where."""
        super().__init__(f"{line}:{column}: parse error: {message}")
        self.message = message
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class Token:
    """One word; `value` is a float for a number, and a string's text without quotes and escapes."""

    kind: Kind
    text: str
    value: float | str
    position: int


_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_IDENTIFIER = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_OPERATOR = re.compile(r"=~|!~|==|!=|<=|>=|[-+*/%^(){}\[\],=<>@]")
_NUMERIC = re.compile(
    r"0[xX][0-9a-zA-Z_.]*|(?:[0-9]|\.[0-9])(?:[0-9a-df-zA-DF-Z_.]|[eE](?:[-+](?=[0-9]))?)*"
)
_DECIMAL = re.compile(r"(?:[0-9]+(?:_[0-9]+)*)?\.?(?:[0-9]+(?:_[0-9]+)*)?(?:[eE][-+]?[0-9]+)?")
_OCTAL = re.compile(r"0_?[0-7]+(?:_[0-7]+)*")
_HEXADECIMAL = re.compile(r"0[xX](?:_?[0-9a-fA-F]+)+")
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
    before = text[:position]
    return PromqlError(message, before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1)


def duration_seconds(text: str) -> float | None:
    """Return a Prometheus duration's seconds, or None where it is none.

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
    r"""Return the text of a quoted string literal, or None where its escapes are wrong.

    Source: the Go specification, string literals; single quotes work like double ones. The bytes
    that `\x` and octal escapes give must be UTF-8.
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
    """Reads one token after the other, so that an error is the first one in the text."""

    def __init__(self, text: str) -> None:
        """Begin at the text's first word."""
        self.text = text
        self._position = 0

    def next(self) -> Token:
        """Return the next token; at the end, again and again, one of kind 'end'."""
        text = self.text
        blank = _BLANK.match(text, self._position)
        start = self._position = blank.end() if blank else self._position
        if start == len(text):
            return Token("end", "", "", start)
        if match := _IDENTIFIER.match(text, start):
            word = match[0]
            if word.lower() in {"inf", "nan"}:
                return self._token("number", word, float(word), start)
            return self._token("identifier", word, word, start)
        if match := _NUMERIC.match(text, start):
            return self._number(match[0], start)
        if text[start] in "\"'`":
            return self._string(start)
        if match := _OPERATOR.match(text, start):
            return self._token("operator", match[0], match[0], start)
        message = f"unexpected character {text[start]!r}"
        raise position_error(text, start, message)

    def _token(self, kind: Kind, word: str, value: float | str, start: int) -> Token:
        self._position = start + len(word)
        return Token(kind, word, value, start)

    def _number(self, word: str, start: int) -> Token:
        value: float | None
        try:
            if _HEXADECIMAL.fullmatch(word):
                value = float(int(word.replace("_", ""), 16))
            elif _OCTAL.fullmatch(word):
                value = float(int(word.replace("_", ""), 8))  # As Go reads a leading zero.
            elif _DECIMAL.fullmatch(word):
                value = float(word.replace("_", ""))
            else:
                value = duration_seconds(word)
        except OverflowError:
            value = float("inf")
        if value is None:
            message = f"bad number or duration syntax: {word!r}; write 0.5, 1e6, 0x1F, 5m or 1h30m"
            raise position_error(self.text, start, message)
        if value in (float("inf"), float("-inf")):
            message = f"number {word!r} is out of range; write Inf for infinity"
            raise position_error(self.text, start, message)
        return self._token("number", word, value, start)

    def _string(self, start: int) -> Token:
        text = self.text
        quote = text[start]
        end = start + 1
        while end < len(text) and text[end] != quote and (quote == "`" or text[end] != "\n"):
            end += 2 if text[end] == "\\" and quote != "`" else 1
        if end >= len(text) or text[end] != quote:
            raise position_error(text, start, f"unterminated string; close it with {quote}")
        literal = text[start : end + 1]
        value = unquote(literal)
        if value is None:
            message = (
                f"invalid escape in string {literal}; write \\\\ for a backslash, or use `...`"
            )
            raise position_error(text, start, message)
        return self._token("string", literal, value, start)
