"""Golden texts: committed texts that the program made, compared with what it makes now.

A test takes the fixture `golden` and gives it a path and the text of today. 'make golden' runs
these tests alone, and they write the texts instead. CONTRIBUTING.md says how a difference is read.
"""

from __future__ import annotations

import difflib
import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TOP = Path(__file__).parents[2]
GOLDEN = TOP / "tests/golden"
"""Texts that no document shows."""
MAX_DIFFERENCE_LINES = 60
LEFT_OUT = "..."
"""The line that stands for lines that a document leaves out."""


class Golden:
    """Compares golden texts, or rewrites them."""

    def __init__(self, *, is_rewriting: bool) -> None:
        """`is_rewriting`: whether 'make golden' runs."""
        self._is_rewriting = is_rewriting

    def __call__(self, path: Path, text: str, compared: Callable[[str], str] = str) -> None:
        """Compare the text of a file; `compared` returns the part of it that counts."""
        committed = path.read_text(encoding="utf-8") if path.exists() else ""
        if compared(committed) == compared(text):
            return
        if self._is_rewriting:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        before, now = (compared(each).splitlines() for each in (committed, text))
        difference = difflib.unified_diff(before, now, "committed", "now", n=1, lineterm="")
        shown = "\n".join(islice(difference, MAX_DIFFERENCE_LINES))
        raise AssertionError(
            f"{path.relative_to(TOP)} is not what the program makes now: if that is intended, run"
            f" 'make golden' and read its diff as CONTRIBUTING.md says\n{shown}"
        )

    def block(self, path: Path, name: str, text: str) -> None:
        """Compare the code block that follows '<!-- NAME -->' in a document."""
        document = path.read_text(encoding="utf-8")
        mark = f"<!-- {name} -->\n\n"
        block = re.compile(rf"(?<={re.escape(mark)})(?:(?:    .*)?\n)+(?=\n|\Z)")
        assert len(block.findall(document)) == 1, f"{path.relative_to(TOP)}: one block '{name}'"
        indented = "".join(f"    {line}".rstrip() + "\n" for line in text.splitlines())
        self(path, block.sub(lambda _: indented, document))


def excerpt(text: str, lines: str) -> str:
    """Return the lines of a text with these numbers, as '1-3 7', with '...' for those left out.

    By number, so that no word of a text is written twice: whoever changes the order of its lines
    changes the numbers.
    """
    every = [line.rstrip() for line in text.splitlines()]
    shown: list[str] = []
    end = 0
    for part in lines.split():
        first, _, last = part.partition("-")
        if int(first) > end + 1:
            shown.append(LEFT_OUT)
        end = int(last or first)
        assert end <= len(every), f"line {end} of a text of {len(every)}"
        shown += every[int(first) - 1 : end]
    return "\n".join([*shown, *[LEFT_OUT] * (end < len(every))]) + "\n"


def uncounted(text: str) -> str:
    """Return a text without the numbers of collectors and rules, which each new one changes."""
    return re.sub(r"\d+ of \d+ (collectors read, .*?)\d+ rules", r"N of N \1N rules", text)
