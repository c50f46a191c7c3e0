"""Which tests run before each commit, and which only before a push."""

from __future__ import annotations

import pytest
from hypothesis import settings
from support import tiers


@pytest.mark.parametrize(
    ("markers", "runs"),
    [
        ("", {"quick"}),
        ("parametrize", {"quick"}),
        ("system", {"system"}),
        ("system fuzz", {"system"}),
        ("fuzz", {"quick", "system"}),
        ("hypothesis", {"quick", "system"}),
    ],
)
def test_a_test_runs_in_its_tier(markers: str, runs: set[str]) -> None:
    """Only what is random runs in both, and nothing runs in neither."""
    among = set(markers.split())
    assert {t for t in ("quick", "system") if tiers.chosen(among, system=t == "system")} == runs


@pytest.mark.fuzz
def test_the_second_tier_tries_ten_times_the_examples(pytestconfig: pytest.Config) -> None:
    """Of what hypothesis makes and of what a loop of our own makes, in each process of the run."""
    strength = 10 if pytestconfig.getoption("--system") else 1
    assert settings().max_examples == 100 * strength
    assert tiers.examples(30) == 30 * strength


def test_a_tenth_is_spread_over_the_files() -> None:
    """The same tests on each machine, and of what is parametrized some."""
    for name in (
        "tests/rules/promql/test_promql.py::test_a",
        "tests/daemon/notify/test_smtp.py::test_b",
    ):
        ids = [f"{name}[{number}]" for number in range(1000)]
        assert 60 <= sum(map(tiers.in_tenth, ids)) <= 140
    chosen = [n for n in range(40) if tiers.in_tenth(f"tests/test_tiers.py::test_{n}")]
    assert chosen == [4, 7, 13, 33, 38, 39]
