"""No pattern of the product can be held by a text: one line of a kernel would hold the daemon."""

from __future__ import annotations

import dataclasses
import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.ambiguity import is_exponential

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?:[A-Z]\w*|over| )+ enabled$",
        r"(a*)*b",
        r"(a+)+b",
        r"(?:a|aa)+b",
        r"(?:\w+ ?)+b",
        r"(?:\w|ab)*!",
        r"(?:a?b?)*c",
        r"(?:x{1,20})+y",
        r"(?=(?:a+)+b)a",
    ],
)
def test_a_repeated_group_that_fits_in_many_ways_is_recognized(pattern: str) -> None:
    """They take more than the age of the world for a text of 100 characters."""
    assert is_exponential(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?:(?:[A-Z]\w*|over|) )+enabled$",
        r"(?:\w+ )+b",
        r"(?:x, )*y",
        r'"(?:[^"\\]|\\.)*"',
        r"(?:over|or)+",
        r"(?:[a-z]+[.:])+",
        r"(?:/[a-z]{1,4}\d*)*",
        r"(?:a+)++b",
        r"\w+\d+",
    ],
)
def test_one_that_fits_in_one_way_is_not(pattern: str) -> None:
    """Some of them take the square of the length: tests with long texts find those."""
    assert not is_exponential(pattern)


def texts(value: object, depth: int = 0) -> Iterator[tuple[str, int]]:
    """Yield the patterns, and the texts that may be a part of one, that a module declares."""
    if isinstance(value, re.Pattern):
        pattern = value.pattern
        yield pattern if isinstance(pattern, str) else pattern.decode("latin-1"), value.flags
    elif isinstance(value, str):
        yield value, 0
    elif depth < 6 and isinstance(value, (tuple, list, set, frozenset)):
        for item in value:
            yield from texts(item, depth + 1)
    elif depth < 6 and isinstance(value, dict):
        yield from texts([*value.items()], depth)
    elif depth < 6 and dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from texts(
            [getattr(value, one.name, None) for one in dataclasses.fields(value)], depth
        )


@pytest.mark.system
def test_no_pattern_of_the_product_fits_in_many_ways() -> None:
    """All that modules declare. A pattern that a function puts together from parts is not seen."""
    declared: dict[tuple[str, int], str] = {}
    for path in (
        file for room in ("collectors", "rules", "daemon") for file in (TOP / room).rglob("*.py")
    ):
        if path.name != "__main__.py":
            parts = path.relative_to(TOP).with_suffix("").parts
            module = importlib.import_module(
                ".".join(["iowarden", *parts]).removesuffix(".__init__")
            )
            declared |= dict.fromkeys(texts([*vars(module).values()]), path.name)
    held = []
    for (text, flags), file in declared.items():
        try:
            if re.search(r"\)[*+{]", text) and is_exponential(text, flags & ~re.UNICODE):
                held.append((file, text))
        except (re.error, OverflowError):  # a text of another kind
            continue
    assert len(declared) > 1000
    assert held == []
