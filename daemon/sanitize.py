"""Sanitizes text from outside - device names, kernel lines, server answers - for a single line."""

from __future__ import annotations

ELLIPSIS = "..."
"""Plain ASCII, so that a subject does not need encoding because of it."""


def one_line(text: str, max_characters: int = 1000) -> str:
    r"""Return text on one line, with single spaces and control characters escaped.

    A control character becomes its escape ('\x1b'), an undecodable byte the byte ('\xff'), white
    space one space.
    Limits: longer text is cut, with a note by how much.
    """
    cut = text[:max_characters]
    safe = " ".join("".join(_visible(character) for character in cut).split())
    left_out = len(text) - len(cut)
    return f"{safe}{ELLIPSIS} ({left_out} more characters)" if left_out else safe


def shorten(text: str, max_characters: int) -> str:
    """Return text of at most so many characters, its end replaced by an ellipsis if need be."""
    if len(text) <= max_characters:
        return text
    return (text[: max(max_characters - len(ELLIPSIS), 0)].rstrip() + ELLIPSIS)[:max_characters]


def _visible(character: str) -> str:
    if character.isspace():
        return " "
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # surrogateescape, PEP 383: a byte that was not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return (
        f"\\x{code:02x}"
        if code <= 0xFF
        else f"\\u{code:04x}"
        if code <= 0xFFFF
        else f"\\U{code:08x}"
    )
