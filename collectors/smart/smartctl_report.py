"""Checked fields of smartctl's JSON: counts, temperatures, texts; invalid ones are reported.

Source: smartctl(8), '--json'; some versions print a number as text, with or without separators.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from iowarden.collectors.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iowarden.collectors.smart.smartctl_text import Document

_MAX_MESSAGE_CHARACTERS = 200
"""Maximum characters of a message or an identity."""
_MAX_UINT64 = 2**64 - 1
MAX_UINT128 = 2**128 - 1
_GIGABYTE = 10**9


class SmartctlReport:
    """smartctl's report, field by field; invalid fields are reported in `messages`."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.messages: list[str] = []

    def at(self, *path: str) -> Any:  # noqa: ANN401 - any JSON
        """Return the value at a path, None if there is none."""
        value: Any = self._document
        for depth, name in enumerate(path):
            if not isinstance(value, dict):
                if value is not None:
                    self._wrong(path[:depth], "an object", value)
                return None
            value = value.get(name)
        return value

    def integer(self, *path: str, maximum: int = _MAX_UINT64) -> int | None:
        """Return a count."""
        return self.as_integer(self.at(*path), *path, maximum=maximum)

    def as_integer(self, value: object, *path: str, maximum: int = _MAX_UINT64) -> int | None:
        """Return a value as a count; some versions print one as text."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        elif isinstance(value, str) and len(value) <= 40 and _DIGITS.fullmatch(value):
            value = int(_SEPARATOR.sub("", value))
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= maximum:
            return value
        if value is not None:
            self._wrong(path, f"a count up to {maximum}", value)
        return None

    def ratio(self, *path: str) -> float | None:
        """Return a percentage as a ratio of 1."""
        percent = self.integer(*path, maximum=255)
        return None if percent is None else percent / 100

    def celsius(self, *path: str) -> float | None:
        """Return a temperature."""
        value = self.at(*path)
        if isinstance(value, int | float) and not isinstance(value, bool) and -100 < value < 250:
            return float(value)
        if value is not None:
            self._wrong(path, "a temperature", value)
        return None

    def gigabytes(self, *path: str) -> float | None:
        """Return bytes for '409777.659' or '10311,154': thousands of millions."""
        value = self.at(*path)
        if isinstance(value, str) and re.fullmatch(r"\d{1,20}[.,]\d{1,9}", value):
            return float(value.replace(",", ".")) * _GIGABYTE
        number = self.as_integer(value, *path)
        return None if number is None else float(number) * _GIGABYTE

    def flag(self, *path: str) -> bool | None:
        """Return a truth value."""
        value = self.at(*path)
        if value is None or isinstance(value, bool):
            return value
        self._wrong(path, "true or false", value)
        return None

    def text(self, *path: str) -> str:
        """Return a text on one line: a drive may report any text."""
        value = self.at(*path)
        if isinstance(value, str):
            return clean(value)
        if value is not None:
            self._wrong(path, "a text", value)
        return ""

    def rows(self, *path: str) -> Iterator[SmartctlReport]:
        """Yield the rows of a table. A row may be null: smartctl skips unused entries."""
        value = self.at(*path)
        if value is None:
            return
        if not isinstance(value, list):
            self._wrong(path, "a list", value)
            return
        for row in value[:_MAX_ROWS]:
            if isinstance(row, dict):
                report = SmartctlReport(row)
                report.messages = self.messages
                yield report

    def strings(self, name: str) -> list[str]:
        """Return the texts of a list."""
        value = self.at(name)
        return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []

    def starts(self, prefix: str) -> bool:
        """Whether a field name begins with a prefix."""
        return any(name.startswith(prefix) for name in self._document)

    def _wrong(self, path: tuple[str, ...], expected: str, got: object) -> None:
        shown = clean(repr(got)[:60])
        self.messages.append(f"smartctl: '{'.'.join(path)}': expected {expected}, got {shown}")


def first(read: Callable[..., _T | None], *paths: tuple[str, ...]) -> _T | None:
    """Return the value of the first of these paths that has one: versions differ."""
    return next((value for path in paths if (value := read(*path)) is not None), None)


_T = TypeVar("_T")
_MAX_ROWS = 512
_DIGITS = lazy_pattern(r"\d{1,3}(?:[,.' \u2019\u00a0\u2009\u202f]\d{3})+|\d+", re.ASCII)
_SEPARATOR = lazy_pattern(r"\D")


def clean(text: str) -> str:
    """Return a text without unprintable characters, in one line of limited length."""
    if text.isascii() and text.isprintable():
        return text.strip()[:_MAX_MESSAGE_CHARACTERS]
    shown = "".join(letter if letter.isprintable() else "?" for letter in text.strip())
    return shown[:_MAX_MESSAGE_CHARACTERS]
