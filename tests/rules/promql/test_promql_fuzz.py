"""Random expressions: this evaluator and promtool give the same results."""

from __future__ import annotations

import random

import pytest
from support import promql_fuzz
from support.promql_fuzz import Difference, Query
from support.tiers import examples

SEED = 20


@pytest.fixture(scope="module")
def outcome() -> promql_fuzz.Outcome:
    """Run the same queries on both."""
    program = promql_fuzz.promtool()
    if program is None:
        pytest.skip("promtool is not installed (package prometheus)")
    return promql_fuzz.run(examples(400), SEED, program)


@pytest.mark.fuzz
def test_random_expressions_give_what_promtool_gives(outcome: promql_fuzz.Outcome) -> None:
    """No expression over disks that come and go has another result, or an error only here."""
    assert not outcome.differences, "\n".join(map(str, outcome.differences))


@pytest.mark.fuzz
def test_the_random_expressions_are_worth_asking(outcome: promql_fuzz.Outcome) -> None:
    """Most expressions have a result, some are errors, and few differ as known."""
    assert outcome.queries == examples(400)
    assert outcome.not_empty > outcome.queries / 2
    assert outcome.errors > 0
    assert outcome.known.total() < outcome.queries / 50


def test_a_wrong_result_is_seen() -> None:
    """A value, a label, a missing series and an error that only one has are differences."""
    row = ("", (("device", "sda"),))
    right = {row: 1.0}
    wrong = [{row: 1.00001}, {("reads", row[1]): 1.0}, {}, "error: x", {row: float("nan")}]
    assert not any(promql_fuzz.same(right, one) for one in wrong)
    assert promql_fuzz.same({row: float("nan")}, {row: float("nan")})
    assert promql_fuzz.known(Difference(Query("gauge", 1.5), right, {row: 2.0})) is None


def test_the_same_seed_asks_the_same() -> None:
    """A difference can be reproduced."""
    asked = [promql_fuzz.query(random.Random(seed)) for seed in (7, 7, 8)]
    assert asked[0] == asked[1] != asked[2]
