"""HTML elements as text: everything is escaped, and text of others is made harmless. Pure.

Source: WHATWG HTML, "Writing HTML documents". Control characters, ANSI escapes and bidi controls
are replaced by their codes, as on the terminal; longer texts are cut with a mark.
"""

from __future__ import annotations

import html

from iowarden.daemon.sanitize import MAX_NAME_CHARACTERS, one_line, prose

MAX_CHARACTERS = MAX_NAME_CHARACTERS
"""Of a name or a line that the machine delivered."""
_VOID = frozenset({"meta", "br", "line", "polyline", "polygon", "rect", "circle"})


class Markup(str):
    """HTML that is complete and escaped."""

    __slots__ = ()


SPACE = Markup(" ")


def text(content: str, max_characters: int = MAX_CHARACTERS) -> Markup:
    """Return a text on one line, harmless and escaped."""
    return Markup(html.escape(one_line(content, max_characters)))


def paragraph(content: str) -> Markup:
    """Return a text of iowarden, harmless and escaped."""
    return Markup(html.escape(prose(content)))


def join(*parts: str | None) -> Markup:
    """Return parts one after the other: markup as it is, other text escaped; None is nothing."""
    return Markup("".join([p if isinstance(p, Markup) else text(p) for p in parts if p]))


def tag(name: str, /, *children: str | None, **attributes: str | float | None) -> Markup:
    """Return an element.

    An attribute's name has '-' for '_', without one at its end ('class_', 'aria_label'); the value
    None leaves it out.
    """
    shown = "".join(
        [
            f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
            for key, value in attributes.items()
            if value is not None
        ]
    )
    if name in _VOID:
        return Markup(f"<{name}{shown}/>" if name in _SVG else f"<{name}{shown}>")
    return Markup(f"<{name}{shown}>{join(*children)}</{name}>")


_SVG = _VOID - {"meta", "br"}


def _value(value: str | float) -> str:
    if isinstance(value, Markup):
        return value
    return text(value) if isinstance(value, str) else f"{value:g}"
