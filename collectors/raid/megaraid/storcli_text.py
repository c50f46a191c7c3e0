"""Parser of storcli's text output, into the tree of its JSON output. Pure.

An answer is 'Status = ...' and 'Description = ...', after 'Controller = N' if it is about one; then
sections ('Name :' and a line of '=' below it) of 'key = value' pairs and of tables between lines of
'-'. Source: published outputs of storcli 1.x and 7.x and perccli2.
Limits: a table with an unknown header is left out; a row that does not fit its table, and a
truncated table, are in `UNREADABLE_ROWS` of the answer, and the other rows are parsed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError
from iowarden.collectors.raid import output

if TYPE_CHECKING:
    from collections.abc import Sequence

Tree = dict[str, Any]

UNREADABLE_ROWS = "unreadable rows"
"""The key of reasons why something could not be read."""
MAX_CHARACTERS = 600
"""Maximum length of a table line: a longer one is none."""
MAX_COLUMNS = 24
_STATUS = lazy_pattern(
    r"^(?:Controller = (?P<controller>\d{1,3})\n)?Status = (?P<status>\w{1,40})[ \t]*\n"
    r"Description = (?P<description>[^\n]*)$",
    re.MULTILINE | re.ASCII,
)
_STRETCHED = lazy_pattern(
    r"^(?:Controller|Status)[ \t]{2,}=|^(?:Controller|Status) =[ \t]{2,}", re.MULTILINE
)
_BLANKS = lazy_pattern(r"(?<=\S)[ \t]{2,}(?=\S)")
_RULE = lazy_pattern(r"-{5,}\s*", re.ASCII)
_UNDERLINE = lazy_pattern(r"=+\s*", re.ASCII)
_HEADING = lazy_pattern(r"(\S[^\n]{0,120}?)\s*:\s*", re.ASCII)
_PAIR = lazy_pattern(r"([^=]{1,120}?)\s*=\s*(|.*\S)\s*")
_PREAMBLE = lazy_pattern(r"\s*(CLI Version|Operating system) = .*")

_SIZE = r"[0-9.]{1,12} [KMGTP]?i?B|-"
_WORD = r"\S{1,80}"
_TEXT = r"\S.*?"
_CELLS = {
    "EID:Slt": r"\d{0,5} ?:\d{1,4}",
    "EID:Slot": r"\d{0,5} ?:\d{1,4}|-",
    "DG/VD": r"(?:\d{1,4}|[-F])/\d{1,4}",
    "DG": r"\d{1,4}|[-F]",
    "Size": _SIZE,
    "SeSz": r"\d{1,5} ?[KM]?i?B|-",
    "Model": _TEXT,
    "Name": r".*?",
    "State": r"\S{1,40}(?: ?\([^)]{1,40}\))?",
    "RetentionTime": r"\d{1,4} hours ?\+?|\S{1,20}",
    "Next Learn": r".*?",
    "Status": _TEXT,
    "Estimated Time Left": r".*?",
    "ProdID": r".*?",
    "VendorSpecific": r".*?",
    "ErrMsg": r".*?",
}
"""Patterns of the columns; any other column is a word."""
_COLUMNS = ("Next Learn", "LU/NS Count", "Estimated Time Left")
"""Columns whose values may contain a blank."""
_KNOWN = frozenset(
    "EID:Slt DG/VD DG EID Model Type VD VD-ID Drive-ID Drive Ctrl Ctl Ctrl_Prop Property".split()
)
"""First columns of the tables that are parsed."""
_PLACES = frozenset({"EID:Slt", "EID:Slot", "DG/VD"})
"""Columns whose tables are parsed wherever the column is."""
_PROPERTIES, _VALUE = frozenset({"Ctrl_Prop", "Property"}), "Value"


def parse_text(text: str) -> list[Tree]:
    """Parse the answers in a text, each as an entry of JSON's 'Controllers'. Errors: ParseError.

    Without any answer it is [].
    """
    plain = output.plain(text)
    if _STRETCHED.search(plain):  # a forum or an editor made two blanks of each
        plain = _BLANKS.sub(" ", plain)
    found = list(_STATUS.finditer(plain))
    ends = [*(match.start() for match in found[1:]), len(plain)][: len(found)]
    answers: list[Tree] = []
    for match, end in zip(found, ends, strict=True):
        body = _body(plain[match.end() : end].split("\n"))
        status: Tree = {"Status": match["status"], "Description": match["description"].strip()}
        if match["controller"] is not None:
            status["Controller"] = int(match["controller"])
        if isinstance(detailed := body.pop("Detailed Status", None), list):
            status["Detailed Status"] = detailed
        answers.append({"Command Status": status, "Response Data": body})
    return answers


def _body(lines: Sequence[str]) -> Tree:
    data: Tree = {}
    heading, section = "", data
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        below = lines[at] if at < len(lines) else ""
        if (found := _HEADING.fullmatch(line)) and _UNDERLINE.fullmatch(below):
            heading, at = found[1], at + 1
            own = data.setdefault(heading, {})
            section = own if isinstance(own, dict) else data  # below a table as well
        elif _RULE.fullmatch(line) and (top := _under_header(lines, at)) is not None:
            end = next((n for n in range(top, len(lines)) if _RULE.fullmatch(lines[n])), None)
            if end is None:
                cut = output.reason("storcli", "a line of '-' below a table", lines[-1])
                data.setdefault(UNREADABLE_ROWS, []).append(cut)
                end = len(lines)
            rows = _rows(below, lines[top:end], data.setdefault(UNREADABLE_ROWS, []))
            data[f"{heading} table" if data.get(heading) else heading] = rows
            section, at = data, end + 1
        elif not _PREAMBLE.fullmatch(line) and (found := _PAIR.fullmatch(line)):
            section[" ".join(found[1].split())] = found[2]
            if " = " in found[2]:
                joined = output.reason("storcli", "one 'key = value' in a line", line)
                data.setdefault(UNREADABLE_ROWS, []).append(joined)
    return data


def _under_header(lines: Sequence[str], header: int) -> int | None:
    """Return where the rows of a table begin; None: the rule below its header is not there.

    A header that a mail broke was joined, and left an empty line.
    """
    under = next((n for n in range(header + 1, len(lines)) if lines[n].strip()), None)
    is_rule = under is not None and _RULE.fullmatch(lines[under])
    return under + 1 if under is not None and is_rule else None


def _rows(header: str, rows: Sequence[str], read_errors: list[str]) -> list[Tree]:
    names = header.split()
    if not names or not (names[0] in _KNOWN or _PLACES & set(names)):
        return []
    if names[0] in _PROPERTIES and _VALUE in header:
        at = header.index(_VALUE)
        return [{names[0]: row[:at].strip(), _VALUE: row[at:].strip()} for row in rows]
    columns, pattern = _pattern(header)

    def read(row: str) -> Tree:
        # With a trailing blank, before an empty last cell.
        cells = pattern.fullmatch(f"{row} ") if len(row) <= MAX_CHARACTERS else None
        if cells is None:
            raise output.refused("storcli", f"a row of '{' '.join(columns)}'", row)
        return dict(zip(columns, cells.groups(), strict=True))

    try:
        return output.readable(filter(str.strip, rows), read, read_errors)
    except ParseError as error:
        read_errors.append(str(error))  # none of them; other tables are
        return []


def _pattern(header: str) -> tuple[tuple[str, ...], re.Pattern[str]]:
    """Return the columns of a header, and the pattern of its rows. Errors: ParseError."""
    joined = header
    for name in _COLUMNS:
        joined = joined.replace(name, name.replace(" ", "\0"))
    columns = tuple(word.replace("\0", " ") for word in joined.split())
    if len(columns) > MAX_COLUMNS or len(set(columns)) < len(columns):
        # Each further column would make it slower to refuse a row that does not fit.
        raise output.refused("storcli", f"at most {MAX_COLUMNS} columns, each once", header)
    cells = [f"({_CELLS.get(column, _WORD)})" for column in columns]
    return columns, re.compile(r"\s*" + r"\s+".join(cells) + r"\s*", re.ASCII)
