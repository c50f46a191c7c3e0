"""The two tiers of the tests: 'make test' before each commit, 'make test-system' before a push."""

from __future__ import annotations

import zlib
from typing import Final

from hypothesis import settings

SYSTEM_STRENGTH: Final = 10
"""How many times as many examples the second tier tries."""

_DEFAULT_EXAMPLES: Final = 100


def load(*, system: bool, fresh: bool) -> None:
    """Set how many examples hypothesis tries; before any test is imported.

    They are the same each time, so that a failure is of the change before it; `fresh`: others each
    time ('make fuzz'), which is the search for what no change brought.

    No test here judges time: on a busy machine an example may take as long as it likes. A failing
    example is printed, not kept: the tests also run where the source tree cannot be written.
    """
    strength = SYSTEM_STRENGTH if system else 1
    settings.register_profile(
        "iowarden",
        deadline=None,
        database=None,
        derandomize=not fresh,
        max_examples=_DEFAULT_EXAMPLES * strength,
    )
    settings.load_profile("iowarden")


def examples(count: int) -> int:
    """Return how many examples to try, where the quick tier tries `count`.

    For '@settings(max_examples=examples(30))', and for random tests without hypothesis, which are
    marked 'fuzz'.
    """
    return count * settings().max_examples // _DEFAULT_EXAMPLES


def chosen(markers: set[str], *, system: bool) -> bool:
    """Return whether a test with these markers belongs to the tier that runs."""
    if system:
        return not markers.isdisjoint({"system", "fuzz", "hypothesis"})
    return "system" not in markers


def in_tenth(node_id: str) -> bool:
    """Return whether a test is one of the tenth that runs on another platform.

    By a hash of its name, so that the choice is spread over all files, and a new test moves none.
    """
    return zlib.crc32(node_id.encode()) % 10 == 0
