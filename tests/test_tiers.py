"""Which tests run before each commit, and which only before a push."""

from __future__ import annotations

import pytest
from hypothesis import settings
from support import tiers


@pytest.mark.parametrize(
    ("markers", "quick", "system"),
    [
        ("", True, False),
        ("parametrize", True, False),
        ("system", False, True),
        ("system fuzz", False, True),
        ("fuzz", True, True),
        ("hypothesis", True, True),
    ],
)
def test_a_test_runs_in_its_tier(markers: str, quick: bool, system: bool) -> None:
    """Only what is random runs in both, and nothing runs in neither."""
    assert tiers.chosen(set(markers.split()), system=False) is quick
    assert tiers.chosen(set(markers.split()), system=True) is system


@pytest.mark.fuzz
def test_the_second_tier_tries_ten_times_the_examples(pytestconfig: pytest.Config) -> None:
    """Of what hypothesis makes and of what a loop of our own makes, in each process of the run."""
    strength = 10 if pytestconfig.getoption("--system") else 1
    assert settings().max_examples == 100 * strength
    assert tiers.examples(30) == 30 * strength


def test_a_tenth_is_spread_over_the_files() -> None:
    """The same tests on each machine, and of what is parametrized some."""
    for name in ("tests/rules/test_promql.py::test_a", "tests/daemon/test_mail.py::test_b"):
        ids = [f"{name}[{number}]" for number in range(1000)]
        assert 60 <= sum(map(tiers.in_tenth, ids)) <= 140
    chosen = [n for n in range(40) if tiers.in_tenth(f"tests/test_tiers.py::test_{n}")]
    assert chosen == [4, 7, 13, 33, 38, 39]
