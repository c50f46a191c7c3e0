"""Notation of series in unit tests: `up{job="node"}` and `0+10x100 _ stale 1x5`. Pure.

Source: Prometheus, 'Unit testing for rules', <series>.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from iowarden.rules.promql.lexer import Lexer, Token, position_error

if TYPE_CHECKING:
    from iowarden.rules.promql.errors import PromqlError
    from iowarden.rules.promql.store import Labels

SeriesValue = float | Literal["stale"] | None
"""A value, the end of the series, or None: no sample."""
MAX_VALUES = 1_000_000
"""Of one series: a few characters can expand to any number."""

_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|(?i:inf|nan)"
_ITEM = re.compile(
    rf"(?P<word>_|stale|[-+]?(?:{_NUMBER}))(?P<step>[-+](?:{_NUMBER}))?(?:x(?P<times>[0-9]+))?",
    re.ASCII,
)


def series(text: str) -> tuple[str, Labels]:
    """Return name ('' for none) and labels of a series.

    Errors: PromqlError.
    """
    lexer = Lexer(text)
    name, labels = "", {}
    token = lexer.next()
    if token.kind == "identifier":
        name, token = token.text, lexer.next()
    elif token.text != "{":
        raise _unexpected(text, token, "a metric's name or '{'")
    if token.text == "{":
        labels = _labels(text, lexer)
        token = lexer.next()
    if token.kind != "end":
        raise _unexpected(text, token, "the end of the series")
    name = labels.pop("__name__", name)
    return name, tuple(sorted((label, value) for label, value in labels.items() if value))


def _labels(text: str, lexer: Lexer) -> dict[str, str]:
    """Return the pairs up to the closing brace."""
    found: dict[str, str] = {}
    token = lexer.next()
    while token.text != "}":
        label, equals, value = token, lexer.next(), lexer.next()
        if label.kind != "identifier" or ":" in label.text:
            raise _unexpected(text, label, "a label's name")
        if equals.text != "=" or value.kind != "string":
            raise _unexpected(text, equals, f'{label.text}="value"')
        if label.text in found:
            raise position_error(text, label.position, f"label {label.text!r} is given twice")
        found[label.text] = str(value.value)
        token = lexer.next()
        if token.text == ",":
            token = lexer.next()
        elif token.text != "}":
            raise _unexpected(text, token, "',' or '}'")
    return found


def _unexpected(text: str, token: Token, expected: str) -> PromqlError:
    got = repr(token.text) if token.kind != "end" else "the end"
    return position_error(text, token.position, f"expected {expected}, got {got}")


def values(text: str) -> list[SeriesValue]:
    """Return the values of a text, the first at the start of the test.

    `a+bxn` is a, a+b ... a+b*n; `axn` is n+1 times a; `_` is no sample, `_xn` n times none; `stale`
    ends the series. Errors: PromqlError, also for histograms, which are not supported.
    """
    found: list[SeriesValue] = []
    for word in re.finditer(r"\S+", text):
        item = _ITEM.fullmatch(word[0])
        if item is None or (item["step"] and not (item["times"] and item["word"] != "_")):
            got = "a histogram, which is not supported" if "{{" in word[0] else repr(word[0])
            message = f"expected values such as 1 0+10x100 _ _x5 stale, got {got}"
            raise position_error(text, word.start(), message)
        times = int(item["times"][:9]) if item["times"] else None
        if len(found) + (times or 0) >= MAX_VALUES:
            message = f"expected fewer than {MAX_VALUES} values, got more; test a shorter time"
            raise position_error(text, word.start(), message)
        if item["word"] == "_":
            found += [None] * (1 if times is None else times)
        elif item["word"] == "stale":
            found += ["stale"] * (1 + (times or 0))
        else:
            value, step = float(item["word"]), float(item["step"] or 0)
            for _ in range(1 + (times or 0)):
                found.append(value)
                value += step  # Not start + n * step: Prometheus adds, and sums up the error, too.
    return found
