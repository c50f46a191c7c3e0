"""Sanitizes text from outside - device names, kernel lines, server answers - for every output.

The one boundary: labels of '/metrics' (`name`), JSON and the control socket (`document`), the
journal (`escaped`), terminals and mails (`one_line`). What is escaped: collectors/printable.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from iowarden.collectors.printable import ELLIPSIS, escape, escaped, name

__all__ = [
    "ELLIPSIS",
    "MAX_NAME_CHARACTERS",
    "document",
    "escaped",
    "json_text",
    "name",
    "one_line",
    "prose",
    "shorten",
]
MAX_NAME_CHARACTERS = 256
"""Of a name or a line that the machine delivered, where it is read: page and events."""
MAX_PROSE_CHARACTERS = 2000
"""Of a text of iowarden, which may contain such names."""
_LONG_WORD = re.compile(rf"\S{{{MAX_NAME_CHARACTERS + 1},}}")

MAX_TEXT_CHARACTERS = 10_000
"""Of a line in JSON: longer than any of iowarden's own."""
_SEVERAL_LINES = frozenset(
    {"advice", "description", "meaning", "problems", "stderr", "text", "traceback", "unknown"}
)
"""Fields of documents whose text may have several lines."""
_LINE_END = re.compile("\r+\n|\r")
"""As a mail (RFC 5322), a terminal and some tools end a line."""


def one_line(text: str, max_characters: int = 1000, *, blanks: bool = False) -> str:
    r"""Return text on one line, with single spaces and control characters escaped.

    A control character becomes its escape ('\x1b'), an undecodable byte the byte ('\xff'), white
    space one space; with `blanks` as many as there were.
    Limits: longer text is cut, with a note by how much.
    """
    cut = text[:max_characters]
    safe = "".join(_visible(character) for character in cut)
    safe = safe if blanks else " ".join(safe.split())
    left_out = len(text) - len(cut)
    return f"{safe}{ELLIPSIS} ({left_out} more characters)" if left_out else safe


def prose(text: str) -> str:
    """Return a text of iowarden on one line; a word longer than a name may be is cut, as names are.

    Such a word is a name that the machine delivered.
    """
    cut = _LONG_WORD.sub(lambda word: one_line(word[0], MAX_NAME_CHARACTERS), text)
    return one_line(cut, MAX_PROSE_CHARACTERS)


def shorten(text: str, max_characters: int) -> str:
    """Return text of at most so many characters, its end replaced by an ellipsis if need be."""
    if len(text) <= max_characters:
        return text
    return (text[: max(max_characters - len(ELLIPSIS), 0)].rstrip() + ELLIPSIS)[:max_characters]


def document(value: object, field: str = "") -> object:
    """Return a JSON document with every text escaped; labels' values and keys as by `name`.

    Only the fields that have several lines keep line ends: each is one newline, however the text
    ended its lines.
    """
    if isinstance(value, str):
        if field == "labels":
            return name(value)
        if field in _SEVERAL_LINES:
            return escaped(_LINE_END.sub("\n", value), "\n\t")
        left_out = len(value) - MAX_TEXT_CHARACTERS
        line = escaped(value[:MAX_TEXT_CHARACTERS])
        return f"{line}{ELLIPSIS} ({left_out} more characters)" if left_out > 0 else line
    if isinstance(value, Mapping):
        inner = field if field == "labels" else ""
        return {name(str(key)): document(each, inner or str(key)) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [document(each, field) for each in value]
    return value


def json_text(value: object, indent: int | None = 2) -> str:
    """Return a document as JSON in ASCII; what is escaped stays so when it is decoded."""
    return json.dumps(document(value), indent=indent)


def _visible(character: str) -> str:
    if character.isspace():
        return " "
    return character if character.isprintable() else escape(character)
