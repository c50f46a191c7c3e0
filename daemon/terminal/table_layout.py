"""Layout of text and tables for the width of a terminal: no word is broken, nothing cut off.

A table that is too wide keeps its first columns as a table; the other cells of a row follow below
it. A word longer than a line is not divided: a terminal wraps it, and copies it as a whole. Widths
are in cells: a Chinese letter takes two.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from iowarden.daemon.sanitize import one_line
from iowarden.daemon.terminal.console import MAX_CELL_CHARACTERS, STYLES, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MIN_WIDTH = 40
"""Of a narrower terminal the lines are longer than it, rather than of a word each."""
PROSE = frozenset({"summary", "error", "text", "expression"})
"""Columns whose cells need no title below a row."""
EMPTY = frozenset({"", "-"})
_GAP = 2
_BELOW = 4
"""Indent of what follows below a row."""
_COMMAND_INDENT = 4
"""A line of text with at least so much indent is a command to copy."""
_TITLE = re.compile(r"[a-z ]+: ")
_SPACED = re.compile(r" *[^ ]+")
_ARGUMENTS = re.compile(r"(?:'[^']*'|\"[^\"]*\"|\S)++")


def lines(sections: Iterable[str | Table], width: int) -> list[Text]:
    """Return the lines of a screen; a table has empty lines around it."""
    width = max(width, MIN_WIDTH)
    found: list[Text] = []
    before: str | Table = ""
    for section in sections:
        if Table in (type(section), type(before)) and before:
            found.append(Text())
        found += _table(section, width) if isinstance(section, Table) else _text(section, width)
        before = section
    return found


def wrapped(text: str, width: int, indent: int = 0, hanging: int = 0) -> list[str]:
    """Return the lines of a text of one line; the first one's indent, and that of the others."""
    found: list[str] = []
    line = ""
    for word in _SPACED.findall(text):
        if not line:
            line = " " * (hanging if found else indent) + word.lstrip()
        elif cell_len(line + word) <= width:
            line += word
        else:
            found.append(line)
            line = " " * hanging + word.lstrip()
    return [*found, line]


def _text(section: str, width: int) -> list[Text]:
    text = one_line(section, MAX_CELL_CHARACTERS, blanks=True).rstrip()
    body = text.lstrip(" ")
    indent = len(text) - len(body)
    style = STYLES.get(text.partition(":")[0], "")
    if cell_len(text) <= width:
        return [Text(text, style)]
    if indent >= _COMMAND_INDENT and not _TITLE.match(body):
        return [Text(line, style) for line in command(body, width, indent)]
    return [Text(line, style) for line in wrapped(body, width, indent, indent or _GAP)]


def command(text: str, width: int, indent: int) -> list[str]:
    r"""Return a command on several lines, with '\' at their ends, so that it can be copied."""
    found: list[str] = []
    line = ""
    for word in _ARGUMENTS.findall(text):
        longer = f"{line} {word}".strip()
        room = width - indent - (_GAP if found else 0) - len(" \\")
        if line and cell_len(longer) > room:
            found.append(line + " \\")
            line = word
        else:
            line = longer
    found.append(line)
    return [" " * (indent + (_GAP if number else 0)) + each for number, each in enumerate(found)]


def _table(table: Table, width: int) -> list[Text]:
    shown, below = _divided(table, width)
    widths = [_width(table, column) for column in shown]
    found = [Text(table.title, "bold")] if table.title else []
    header = Text()
    for column, wide in zip(shown, widths, strict=True):
        title = table.columns[column]
        header.append(title, "underline").append(" " * (wide - cell_len(title) + _GAP))
    found.append(header)
    for row in table.rows:
        line = Text()
        for column, wide in zip(shown, widths, strict=True):
            cell = row[column]
            line.append(cell, STYLES.get(cell, "")).append(" " * (wide - cell_len(cell) + _GAP))
        found.append(line)
        for text in _rest(table, row, below):
            found += [Text(each) for each in wrapped(text, width, _BELOW, _BELOW)]
    for line in found:
        line.rstrip()
    return found


def _rest(table: Table, row: Sequence[str], below: Sequence[int]) -> list[str]:
    """Return what follows below a row: prose, then the other cells with their titles."""
    cells = [(table.columns[column], row[column]) for column in below if row[column] not in EMPTY]
    facts = "; ".join(f"{title}: {cell}" for title, cell in cells if title not in PROSE)
    return [*(cell for title, cell in cells if title in PROSE), *([facts] if facts else [])]


def _divided(table: Table, width: int) -> tuple[list[int], list[int]]:
    """Return the columns of the table, and those below its rows, so that it fits."""
    shown = list(range(len(table.columns)))
    below: list[int] = []

    def total() -> int:
        return sum(_width(table, column) for column in shown) + _GAP * (len(shown) - 1)

    if total() > width:  # columns without any content first
        filled = [c for c in shown if not c or any(row[c] not in EMPTY for row in table.rows)]
        shown = filled
    while total() > width and len(shown) > 1:
        # What is prose, then what is on the right; the first column names the row.
        prose = [column for column in shown[1:] if table.columns[column] in PROSE]
        moved = (prose or shown)[-1]
        shown.remove(moved)
        below.append(moved)
    return shown, sorted(below)


def _width(table: Table, column: int) -> int:
    cells = (table.columns[column], *(row[column] for row in table.rows))
    return max(map(cell_len, cells))
