"""All parsers, with damaged and with long texts: support.parsers finds them."""

from __future__ import annotations

import gc
import os
import random
import time
from typing import Final

import pytest
from support.parsers import BUILT, Parser, damaged, parsers, pumped

QUICK, SYSTEM = 150, int(os.environ.get("DAMAGED_TEXTS", "500"))
"""How many damaged texts each parser gets before each commit, and in the second tier. 100,000 of
each take ten hours of CPU time."""
SHORT, LONG = 2_000, 8_000
"""Characters that are added to a text, four times as many and a quarter of them."""
MAX_GROWTH: Final = 5.0
"""What is linear in them grows fourfold, what is quadratic sixteenfold."""
MAX_ROUNDS: Final = 30
"""Measurements of a text that seems to grow more: caches that others fill do not last so long."""
MEASURABLE_SECONDS: Final = 0.02
"""What takes less is not quadratic: at 8,000 characters such a pattern takes ten times as long."""
ALL = pytest.mark.parametrize("parser", parsers(), ids=lambda parser: parser.name)


def test_all_parsers_of_all_rooms_are_here() -> None:
    """A new one is tried without a line here; one that no text of the tests fits is refused."""
    rooms = {parser.name.split(".")[0] for parser in parsers()}
    assert rooms >= {"block", "filesystem", "kernel", "kmsg", "md", "procfs", "raid", "smart"}
    assert len(parsers()) > 130
    assert [parser.name for parser in parsers() if not parser.texts] == []
    assert BUILT.keys() <= {parser.name for parser in parsers()}


def fails(parser: Parser, count: int, seed: str) -> str:
    """Return the first damaged text that raises what the parser does not declare, or ''."""
    draw = random.Random(seed)
    for number in range(count):
        text = damaged(parser.texts[number % len(parser.texts)], parser.texts, draw)
        try:
            parser.result(text)
        except Exception as error:  # noqa: BLE001 - whatever it is
            return f"{type(error).__name__}: {error}: {text!r}"
    return ""


@pytest.mark.fuzz
@ALL
def test_no_damaged_text_raises_what_is_not_declared(parser: Parser) -> None:
    """Words replaced, lines lost, doubled and mixed with those of other outputs of the tool."""
    assert fails(parser, QUICK, parser.name) == ""


@pytest.mark.system
@ALL
def test_none_of_many_more_damaged_texts_does(parser: Parser) -> None:
    """The same, with others."""
    assert fails(parser, SYSTEM, f"system {parser.name}") == ""


@pytest.mark.system
@ALL
def test_no_parser_is_quadratic_in_the_length_of_its_text(parser: Parser) -> None:
    """Thousands of blanks, digits, quotes or brackets anywhere, and of each line.

    A ratio of two processor times, each the shortest of several, without the garbage collector,
    which walks more objects the more there are: another program cannot disturb all of them.
    """
    slow = []
    for text in parser.texts[:3]:
        for longer in pumped(text, 200):
            if seconds(parser, longer(LONG)) >= MEASURABLE_SECONDS:
                ratio = growth(parser, longer(SHORT), longer(LONG))
                if ratio > MAX_GROWTH:
                    slow.append((ratio, longer(20)))
    assert slow == []


def growth(parser: Parser, short: str, long: str) -> float:
    """Return how much longer a parser takes for the long text, as soon as that is little enough."""
    shortest = longest = 1e9
    for number in range(MAX_ROUNDS):
        shortest = min(shortest, seconds(parser, short))
        longest = min(longest, seconds(parser, long))
        if number and longest <= MAX_GROWTH * shortest:
            break
        if number > 4 and longest > 2 * MAX_GROWTH * shortest:
            break
    return longest / shortest


def seconds(parser: Parser, text: str) -> float:
    """Return the processor time that a parser takes for a text."""
    gc.disable()
    try:
        begin = time.thread_time()
        parser.result(text)
        return max(time.thread_time() - begin, 1e-6)
    finally:
        gc.enable()
