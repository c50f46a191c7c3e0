"""Output of commands: text, tables, JSON.

On a terminal daemon/terminal/table_layout.py fits them to its width; otherwise they are plain text
in columns, the same whatever TERM and COLUMNS are. Nothing is cut off.
Control characters in text of others (device names, kernel lines, reasons that users typed) are
escaped before it reaches a terminal.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.sanitize import json_text, one_line
from iowarden.daemon.terminal.times import span

if TYPE_CHECKING:
    from rich.progress import Progress

Shown = TypeVar("Shown")
Columns = Mapping[str, Callable[[Shown], str]]
"""Column title -> function that returns a row's cell."""
MAX_CELL_CHARACTERS = 100_000
STYLES = {"critical": "bold red", "warning": "yellow", "unknown": "magenta", "firing": "bold"}
BARS, PLAIN_BARS = "▁▂▃▄▅▆▇█", "_.,-=+*#"
"""Bars of eight heights, and in ASCII."""
_PLAIN = {**dict(zip(BARS, PLAIN_BARS, strict=True)), "·": " ", "µ": "u", "°": ""}
_ENCODABLE = "iowarden.plain"


def encode_all() -> None:
    r"""Have standard output accept every text: what the locale cannot encode is replaced.

    Bars and units by ASCII, other characters by their escape ('\u4e2d').
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        codecs.register_error(_ENCODABLE, _replaced)
        sys.stdout.reconfigure(errors=_ENCODABLE)


def _replaced(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    plain = _PLAIN.get(error.object[error.start])
    if plain is None:
        error.end = error.start + 1
        return codecs.backslashreplace_errors(error)
    return plain, error.start + 1


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a title; every cell is one line of printable text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Sections = list[str | Table]
"""The content of a screen, in order."""


def show(sections: Iterable[str | Table]) -> None:
    """Print text and tables: drawn by rich on a terminal, plain columns otherwise."""
    if sys.stdout.isatty():
        _draw(sections)
        return
    before: str | Table = ""
    for section in sections:
        if Table in (type(section), type(before)) and before:
            print_line("")
        if isinstance(section, str):
            print_raw(printable(section))
        else:
            print_raw("\n".join(columns(section)))
        before = section


def columns(table: Table) -> list[str]:
    """Return the lines of a table in plain text, nothing cut off."""
    lines = [table.columns, *table.rows]
    widths = [max(len(cells) for cells in column) for column in zip(*lines, strict=True)]
    return [
        f"{table.title}:",
        *("  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in lines),
    ]


def watch(
    read: Callable[[], Iterable[str | Table]], seconds: float, pause: Callable[[float], object]
) -> None:
    """Show what `read` returns again and again, until Ctrl-C.

    A terminal shows the last one, cut at its height; a pipe gets one after the other.
    """
    if not sys.stdout.isatty():
        while True:
            show(read())
            print_raw("")
            sys.stdout.flush()
            pause(seconds)
    # Imported only here: it costs 100 ms, and the service does not need it.
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from iowarden.daemon.terminal import table_layout  # noqa: PLC0415

    console = Console(highlight=False, markup=False, emoji=False)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            lines = table_layout.lines(read(), console.width)
            if (more := len(lines) - console.height) > 0:
                rest = f"... {more + 1} more lines; without --watch all are shown"
                lines = [*lines[: console.height - 1], Text(rest)]
            live.update(Text("\n").join(lines), refresh=True)
            pause(seconds)


def _draw(sections: Iterable[str | Table]) -> None:
    # Imported only here: it costs 100 ms, and the service does not need it.
    from rich.console import Console  # noqa: PLC0415

    from iowarden.daemon.terminal import table_layout  # noqa: PLC0415

    console = Console(highlight=False, markup=False, emoji=False)
    for line in table_layout.lines(sections, console.width):
        console.print(line, soft_wrap=True)


def printable(text: str) -> str:
    """Return text on one line, with control characters escaped."""
    indent = len(text) - len(text.lstrip(" "))
    return " " * indent + one_line(text, MAX_CELL_CHARACTERS)


def table_of(
    title: str, rows: Iterable[Shown], columns: Columns[Shown], *chosen: str
) -> list[Table]:
    """Return a table of rows, escaped for a terminal; [] without rows.

    It has the columns with the titles in `chosen`, or all.
    """
    titles = chosen or tuple(columns)
    found = tuple(tuple(printable(columns[each](row)) for each in titles) for row in rows)
    return [Table(title, titles, found)] if found else []


def print_line(text: str) -> None:
    """Print a line, escaped; on a terminal wrapped between words."""
    show([text])


def print_error(text: str) -> None:
    """Print a line on standard error, escaped; on a terminal wrapped between words."""
    if not sys.stderr.isatty():
        sys.stderr.write(f"{printable(text)}\n")
        return
    width = shutil.get_terminal_size().columns
    lines = textwrap.wrap(printable(text), width, break_on_hyphens=False, subsequent_indent="  ")
    sys.stderr.write("".join(f"{line}\n" for line in lines))


def print_raw(text: str) -> None:
    """Print a line without escaping."""
    sys.stdout.write(f"{text.rstrip()}\n")


def print_json(answer: object) -> None:
    """Print an answer as JSON."""
    print_raw(json_text(answer))


@contextlib.contextmanager
def progress(title: str, total: float | None) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on standard error while it is a terminal; yield what takes the progress.

    `total` is what the progress is at the end; None: not known. The bar vanishes at the end.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    began = time.monotonic()
    with progress_bars(stderr=True) as bars:
        task = bars.add_task(title, total=total, left="")

        def advance(done: float) -> None:
            taken = time.monotonic() - began
            left = f"{span(taken)} so far"
            if total is not None and done > 0:
                left = f"about {span(taken * max(total - done, 0.0) / done)} left"
            bars.update(task, completed=done, left=left)

        yield advance


def progress_bars(decimals: int = 0, *, stderr: bool = False) -> Progress:
    """Return progress bars with description, percentage (so many decimals) and field 'left'.

    On standard error they are removed at the end.
    """
    # Imported only here: it costs 100 ms, and the service does not need it.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415

    width = 3 + (decimals + 1 if decimals else 0)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn(f"{{task.percentage:>{width}.{decimals}f}} %"),
        TextColumn("{task.fields[left]}", markup=False),
        console=Console(stderr=stderr),
        transient=stderr,
    )
