"""Man pages from the Markdown of the reference: headings, paragraphs, tables, lists, code.

Source: man(7) of groff and of mandoc: only macros and escapes that both have.
Limits: only the Markdown that packaging/doc uses; emphasis in code, nested lists, pictures and
HTML are not converted.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

WIDTH = 79
"""Of a line of roff, so that a change of a word is a change of few lines."""
_MAX_UNBROKEN = 24
"""A longer name may be broken after '_', '/', ',' or '.': in 80 columns it would be cut."""
_MAX_JOINED = 64
"""Characters of the facts of a row that are shown in one line."""
_ESCAPED = {
    "\\": r"\e",
    "-": r"\-",
    "'": r"\(aq",
    "`": r"\(ga",
    "^": r"\(ha",
    "~": r"\(ti",
}
"""What a man page shows as another character otherwise. Source: groff_char(7), 'ASCII'."""
_INLINE = re.compile(r"`([^`]+)`|\*\*(.+?)\*\*|(\()?\[([^\]]+)\]\(([^)\s]+)\)(\))?", re.DOTALL)
_NAME = re.compile(r"[_/=]|[a-z][A-Z]|\w\.\w|iowarden")
_SENTENCE = re.compile(r"(?<=[^.][.?!])\s")
_TARGET = re.compile(r"\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a page: its name and section, what it is about, its version and date."""

    name: str
    section: int
    summary: str
    version: str
    date: str
    synopsis: tuple[str, ...] = ()


def page(head: Head, markdown: str, links: Mapping[str, str], tail: Sequence[str] = ()) -> str:
    """Return a page. `links`: the man page of a file, as 'name(1)', '' for this one.

    `tail` is Markdown that follows, as sections of its own.
    """
    name = plain(head.name)
    lines = [
        '.\\" Generated when iowarden is built: change the code that it is made from.',
        f'.TH "{name.upper()}" {head.section} "{head.date}" "iowarden {head.version}"',
        ".ad l",
        ".SH NAME",
        f"{name} \\- {plain(head.summary)}",
    ]
    if head.synopsis:
        lines += [".SH SYNOPSIS", *_code("\n".join(head.synopsis), spaced=False)]
    lines.append(".SH DESCRIPTION")
    body = re.sub(r"\A(?:<!--.*?-->\s*)?# [^\n]*\n", "", markdown, flags=re.DOTALL)
    for text in (body, *tail):
        lines += _Converter(links).blocks(text)
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """Return roff that shows a text as it is."""
    return "".join(
        _ESCAPED.get(each, each) if each.isascii() else f"\\[u{ord(each):04X}]" for each in text
    ).replace('"', r"\(dq")


class _Converter:
    """Converts the blocks of one text."""

    def __init__(self, links: Mapping[str, str]) -> None:
        self._links = links

    def blocks(self, text: str) -> Iterator[str]:
        """Give the lines of roff."""
        after_heading = True
        for block in _blocks(text):
            first = block[0]
            if heading := re.fullmatch(r"(#{2,}) (.*)", first):
                title = heading[2].replace("`", "")
                upper = len(heading[1]) == 2 and "`" not in heading[2]
                macro = "SH" if len(heading[1]) == 2 else "SS"
                yield f'.{macro} "{plain(title.upper() if upper else title)}"'
                after_heading = True
                continue
            yield from self._block(block, after_heading=after_heading)
            after_heading = False

    def _block(self, block: list[str], *, after_heading: bool) -> Iterator[str]:
        first = block[0]
        if first.startswith("|"):
            yield from self._table(block)
        elif first.startswith("    "):
            yield from _code(textwrap.dedent("\n".join(block)), spaced=not after_heading)
        elif first.startswith("```"):
            yield from _code("\n".join(block[1:-1]), spaced=not after_heading)
        elif first.startswith("- "):
            for item in re.split(r"^- ", "\n".join(block), flags=re.MULTILINE)[1:]:
                yield ".IP \\(bu 2"
                yield from self._filled(item)
        else:
            if not after_heading:
                yield ".PP"
            yield from self._filled("\n".join(block))

    def _table(self, block: list[str]) -> Iterator[str]:
        headings, _, *rows = (
            [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in block
        )
        for tag, *cells in rows:
            yield ".TP"
            yield from self._line(tag)
            facts = [*zip(headings[1:], cells, strict=True)]
            if len(facts) == 1 or facts[-1][0] == "meaning":
                yield from self._filled(facts.pop()[1] or "-")
            shown = [f"{name}: {value}" for name, value in facts if value not in {"", "-"}]
            if sum(len(_TARGET.sub("", each)) for each in shown) <= _MAX_JOINED:
                shown = ["; ".join(shown)] * bool(shown)
            for number, fact in enumerate(shown):
                if number or len(facts) < len(headings) - 1:
                    yield ".br"
                yield from self._filled(fact)

    def _line(self, text: str) -> Iterator[str]:
        """Give one line of roff: a tag must not be wrapped."""
        yield _first(self._inline(text))

    def _filled(self, text: str) -> Iterator[str]:
        for sentence in _SENTENCE.split(self._inline(" ".join(text.split()))):
            for line in textwrap.wrap(
                sentence, WIDTH, break_long_words=False, break_on_hyphens=False
            ):
                yield _first(line)

    def _inline(self, text: str) -> str:
        parts, end = [], 0
        for match in _INLINE.finditer(text):
            parts.append(_prose(text[end : match.start()]))
            end = match.end()
            if match[1]:
                parts.append(_bold(match[1]))
            elif match[2]:
                parts.append(f"\\fB{self._inline(match[2]).replace(chr(92) + 'fR', '')}\\fR")
            else:
                whole = bool(match[3] and match[6])
                opening, closing = ("", "") if whole else (match[3] or "", match[6] or "")
                parts.append(opening + self._link(match[4], match[5], whole=whole) + closing)
        return "".join((*parts, _prose(text[end:])))

    def _link(self, text: str, target: str, *, whole: bool) -> str:
        """Return a link; `whole`: it is all there is between parentheses."""
        file = target.partition("#")[0]
        page = self._links.get(file, "")
        if not page:
            shown = self._inline(text)
            return f"({shown})" if whole else shown
        name, _, section = page.partition("(")
        reference = f"{_bold(name)}({section}"
        if whole:
            return f"(see {reference})"
        alone = text.strip("`") in {file.removesuffix(".md"), name}
        return reference if alone else f"{self._inline(text)} ({reference})"


def _blocks(text: str) -> Iterator[list[str]]:
    """Give the blocks of a Markdown text: lines without an empty one, whole code blocks."""
    block: list[str] = []
    fenced = False
    for line in [*text.strip("\n").split("\n"), ""]:
        if line.startswith("```"):
            fenced = not fenced
            block.append(line)
            if not fenced:
                yield block
                block = []
        elif fenced or line.strip():
            if block and not fenced and _kind(line) != _kind(block[-1]):
                yield block
                block = []
            block.append(line)
        elif block:
            yield block
            block = []


def _kind(line: str) -> str:
    if line.startswith("#"):
        return f"heading {line}"
    if line.startswith("    "):
        return "code"
    return "table" if line.startswith("|") else "text"


def _code(text: str, *, spaced: bool) -> Iterator[str]:
    """Give an example, indented, as it is."""
    if spaced:
        yield ".PP"
    yield ".RS 4"
    yield ".EX"
    for line in text.rstrip().split("\n"):
        yield _first(plain(line.rstrip())) or "\\&"
    yield ".EE"
    yield ".RE"


def _bold(text: str) -> str:
    words = " ".join(_breakable(word) for word in text.split(" "))
    return f"\\fB{words}\\fR"


def _breakable(word: str) -> str:
    """Return a name: not hyphenated, because the reader searches for it or copies it."""
    shown = plain(word)
    if len(word) > _MAX_UNBROKEN:
        shown = re.sub(r"([_/,.])(?=\w)", r"\1\\:", shown)
    return f"\\%{shown}" if len(word) > 4 else shown


def _prose(text: str) -> str:
    """Return text in which '-' is a hyphen, and names are recognized by their form."""
    return re.sub(
        r"\S+",
        lambda word: (
            _breakable(word[0]) if _NAME.search(word[0]) else plain(word[0]).replace(r"\-", "-")
        ),
        text,
    )


def _first(line: str) -> str:
    """Return a line that begins with no control character, and where '...' ends no sentence."""
    line += "\\&" if line.endswith("...") else ""
    return f"\\&{line}" if line[:1] in {".", "'"} else line
