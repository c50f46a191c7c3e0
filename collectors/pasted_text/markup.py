"""What a web page, a forum, a chat or a log put around and before the lines of an output. Pure.

Markup is removed wherever it stands. What stands before each line (a time, a host, a number) is
removed only if a program's output is recognized without it that is not with it. Lines keep their
numbers, but for a web page that has all of them in one.
"""

from __future__ import annotations

import html
import itertools
import re
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.parsed_text import SIGNS, Tool

if TYPE_CHECKING:
    from collections.abc import Sequence

_FORUM = lazy_pattern(
    r"\[/?(?:i?code|quote|spoiler|pre|tt|plain|font|color|list|expand|hr)(?:=[^\]\n]{0,99})?\]"
    r"|\[size=\d{1,3}(?:p[xt])?\]|\[/size\]",
    re.IGNORECASE,
)
"""The size of a map in old multipath, '[size=500G]', is none."""
_FORUM_STYLE = lazy_pattern(
    r"\[(?P<tag>[biu])\](?P<text>[^\n]{0,300}?)\[/(?P=tag)\]", re.IGNORECASE
)
"""Only in pairs: '[U]' of an array with one member is none."""
_PAGE = lazy_pattern(
    r"</?(?:html|body|head|pre|code|p|div|span|tt|samp|blockquote|b|i|u|strong|em|font)"
    r"(?:[ \t][^<>\n]{0,200})?>",
    re.IGNORECASE,
)
_BREAK = lazy_pattern(r"<br[ \t]*/?>(?:[ \t]*\n)?", re.IGNORECASE)
_ENTITY = lazy_pattern(r"&(?:nbsp|gt|lt|amp|quot|apos|#0?39|#160|#x27|#x2F|#47);", re.IGNORECASE)
_ESCAPED = lazy_pattern(r"(?<=\w)\\(?=[_*]\w)")
"""Markdown's backslash before a line within a word."""


def without_markup(text: str) -> str:
    """Return a text without the tags of forums and web pages, and their entities as characters."""
    if "[/" in text:
        text = _FORUM_STYLE.sub(r"\g<text>", _FORUM.sub("", text))
    if "</" in text or "<br" in text.lower():
        text = _PAGE.sub("", _BREAK.sub("\n", text))
    text = _ENTITY.sub(lambda match: html.unescape(match[0]), text)
    return _ESCAPED.sub("", text) if "\\" in text else text


_DAY = r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S{0,20})"
_OF_PROGRAM = lazy_pattern(
    rf"{_DAY} (?P<same>\S{{1,64}} [\w./@-]{{1,40}})(?:\[\d{{1,10}}\])?: ?", re.ASCII
)
_AT_TIME = lazy_pattern(rf"\[?{_DAY}(?P<same>)\]? ", re.ASCII)
_SAME = (
    _OF_PROGRAM,
    _AT_TIME,
    lazy_pattern(r"(?P<same>[|+]) ?", re.ASCII),
    lazy_pattern(r"(?P<same><[\w@+-]{1,32}>) ?", re.ASCII),
    lazy_pattern(r"(?P<same>[\w.-]{1,64}): ?", re.ASCII),
)
"""A log's time, host and program; a time; a mark of quotation; a name in a chat; a loop's host."""
_NUMBERED = lazy_pattern(r"[ \t]{0,8}(?P<number>\d{1,6})(?:\t|:|\. | {1,2}|$)", re.ASCII)
_MIN_LINES = 3
_MAX_LINES = 20_000
"""No report is longer; a log has its times for a reason."""
_MIN_RATIO = 0.9


def without_prefix(text: str) -> str:
    """Return a text without what each of its lines begins with, if that hides a known output."""
    lines = text.split("\n")
    filled = [line for line in lines if line.strip()]
    if not _MIN_LINES <= len(filled) <= _MAX_LINES:
        return text
    shown = signs(text)
    for prefix in _SAME:
        if prefix is _OF_PROGRAM and shown & {Tool.KERNEL, Tool.SERVICES}:
            continue  # the name of the program decides what a line of theirs is
        matches = [match for line in filled if (match := prefix.match(line)) is not None]
        is_same = len({match["same"] for match in matches}) == 1
        if not is_same or len(matches) < _MIN_RATIO * len(filled):
            continue
        bare = signs("\n".join(match.string[match.end() :] for match in matches))
        # The time before rows of a report makes them look like the log of Areca's controllers.
        if bare - shown or (prefix is _AT_TIME and Tool.CLI64 in bare):
            return "\n".join(prefix.sub("", line, count=1) for line in lines)
    if _is_numbered(filled):
        unnumbered = "\n".join(_NUMBERED.sub("", line, count=1) for line in lines)
        return unnumbered if signs(unnumbered) - shown else text
    return text


def _is_numbered(lines: Sequence[str]) -> bool:
    """Whether each line begins with its number, as by 'cat -n' and 'grep -n'."""
    numbers = [match and int(match["number"]) for match in map(_NUMBERED.match, lines)]
    known = [number for number in numbers if number is not None]
    is_rising = all(1 <= later - one <= 3 for one, later in itertools.pairwise(known))
    return len(known) == len(lines) and is_rising


def signs(text: str) -> set[Tool]:
    """Return the programs of which a text has a sign."""
    return {tool for tool, sign in SIGNS.items() if sign.search(text)}
