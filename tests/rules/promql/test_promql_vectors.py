"""Aggregations and functions of vectors: what is computed from many disks, and from odd numbers."""

from __future__ import annotations

import datetime as dt
import math
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iowarden.rules.promql import functions
from iowarden.rules.promql.aggregations import aggregate, decimal, mean, quantile, total
from iowarden.rules.promql.errors import EvaluationError
from iowarden.rules.promql.functions import ELEMENTWISE, clamp, round_to
from iowarden.rules.promql.regex import compile_anchored

if TYPE_CHECKING:
    from iowarden.rules.promql.store import Labels, VectorItem

INF, NAN = math.inf, math.nan
VALUES = st.floats() | st.sampled_from([INF, -INF, NAN, 0.0, -0.0, 1e308, 5e-324])


def labels(**pairs: str) -> Labels:
    """Return labels in the store's order."""
    return tuple(sorted(pairs.items()))


def disks(*values: float) -> list[VectorItem]:
    """Return a value for each of the disks sda, sdb ..., in two bays in turn."""
    return [
        ("reads", labels(bay=str(number % 2), device=f"sd{chr(ord('a') + number)}"), value)
        for number, value in enumerate(values)
    ]


def alone(operator: str, *values: float, parameter: float | None = None) -> float:
    """Return what an aggregation over all disks gives."""
    [(name, found, value)] = aggregate(operator, disks(*values), parameter, (), without=False)
    assert (name, found) == ("", ())
    return value


def bits(value: float) -> bytes:
    """Return a float's representation, in which -0 is not 0; all NaN are one."""
    return struct.pack("<d", NAN if math.isnan(value) else value)


# --- aggregations ---


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("sum", 12.0),
        ("avg", 3.0),
        ("min", 1.0),
        ("max", 6.0),
        ("count", 4.0),
        ("group", 1.0),
        ("stdvar", 3.5),
        ("stddev", math.sqrt(3.5)),
    ],
)
def test_four_disks_become_one_number(operator: str, expected: float) -> None:
    """Each aggregation of 1, 2, 3 and 6 is the number of the textbook."""
    assert alone(operator, 1.0, 2.0, 6.0, 3.0) == expected


def test_disks_are_grouped_by_bay_or_without_device() -> None:
    """`by` retains the labels it names, `without` removes them and always the metric's name."""
    items = disks(1.0, 2.0, 4.0)
    by_bay = [("", labels(bay="0"), 5.0), ("", labels(bay="1"), 2.0)]
    assert aggregate("sum", items, None, ("bay",), without=False) == by_bay
    assert aggregate("sum", items, None, ("device",), without=True) == by_bay
    assert aggregate("sum", items, None, ("__name__",), without=False) == [("reads", (), 7.0)]
    assert aggregate("sum", items, None, ("nothing",), without=False) == [("", (), 7.0)]
    assert aggregate("sum", items, None, (), without=True) == [
        ("", found, value) for _, found, value in items
    ]


@pytest.mark.parametrize("operator", ["sum", "count", "quantile", "topk", "count_values"])
def test_nothing_aggregates_to_nothing(operator: str) -> None:
    """An aggregation of no series has no series: a count of 0 would hide missing disks."""
    parameter = "value" if operator == "count_values" else 1.0
    assert aggregate(operator, [], parameter, ("device",), without=False) == []


def test_a_small_addend_is_not_lost_between_large_ones() -> None:
    """Rounding errors are compensated, so that cancellation leaves the rest."""
    assert total([1e100, 1.0, -1e100]) == 1.0
    assert total([0.1] * 10) == 1.0
    assert mean([1e100, 1.0, -1e100, 3.0]) == 1.0


def test_a_mean_does_not_overflow_where_its_sum_does() -> None:
    """Numbers near the largest float have a mean; only infinities make it infinite or NaN."""
    assert mean([1.5e308, 1.5e308, 1.5e308]) == pytest.approx(1.5e308)
    assert total([1.5e308, 1.5e308]) == INF
    assert mean([INF, 1.0]) == INF
    assert math.isnan(mean([INF, -INF]))
    assert math.isnan(mean([1.0, NAN]))


def test_minimum_and_maximum_pass_over_nan() -> None:
    """A disk without a number does not hide the others' extremes, at any position."""
    for values in ((NAN, 2.0, 3.0), (2.0, NAN, 3.0), (2.0, 3.0, NAN)):
        assert (alone("min", *values), alone("max", *values)) == (2.0, 3.0)
    assert math.isnan(alone("min", NAN))
    assert math.isnan(alone("max", NAN, NAN))


def test_the_deviation_of_an_infinity_is_unknown() -> None:
    """Where one value is infinite or NaN there is no deviation, even if it is the only value."""
    assert math.isnan(alone("stddev", INF))
    assert math.isnan(alone("stdvar", 1.0, -INF))
    assert alone("stddev", 7.0) == 0.0
    assert alone("stddev", 1e300, -1e300) == INF


@pytest.mark.parametrize(
    ("rank", "expected"),
    [
        (0.0, 1.0),
        (0.5, 2.5),
        (1.0, 4.0),
        (1 / 3, 2.0),
        (-0.1, -INF),
        (1.1, INF),
        (INF, INF),
        (-INF, -INF),
    ],
)
def test_a_quantile_lies_between_two_values(rank: float, expected: float) -> None:
    """Between two values it is interpolated; a rank below 0 or above 1 gives an infinity."""
    assert quantile(rank, [4.0, 1.0, 3.0, 2.0]) == pytest.approx(expected)


def test_nan_is_the_smallest_of_a_quantile() -> None:
    """NaN lies below all numbers, and a NaN as rank has no answer."""
    assert quantile(1.0, [NAN, 5.0]) == 5.0
    assert math.isnan(quantile(0.0, [5.0, NAN]))
    assert math.isnan(quantile(NAN, [5.0]))
    assert alone("quantile", 1.0, 2.0, 3.0, parameter=0.5) == 2.0


def test_the_three_hottest_disks_keep_their_names() -> None:
    """topk and bottomk take whole elements, sorted, those without a number last."""
    items = disks(3.0, NAN, 5.0, 4.0)

    def devices(operator: str, count: float) -> list[str]:
        found = aggregate(operator, items, count, (), without=False)
        assert all(name == "reads" for name, _, _ in found)
        return [dict(found_labels)["device"] for _, found_labels, _ in found]

    assert devices("topk", 2.9) == ["sdc", "sdd"]
    assert devices("bottomk", 2.0) == ["sda", "sdd"]
    assert devices("topk", 1e9) == ["sdc", "sdd", "sda", "sdb"]
    assert devices("bottomk", 4.0) == ["sda", "sdd", "sdc", "sdb"]
    assert devices("topk", 0.9) == devices("topk", -INF) == []


def test_each_bay_has_its_own_hottest_disk() -> None:
    """topk counts in each group."""
    found = aggregate("topk", disks(1.0, 2.0, 3.0, 4.0), 1.0, ("bay",), without=False)
    assert [value for _, _, value in found] == [3.0, 4.0]


def test_a_count_that_is_no_number_of_disks_is_refused() -> None:
    """NaN and values beyond integers are errors, with Prometheus's message."""
    with pytest.raises(EvaluationError, match="Parameter value is NaN"):
        aggregate("topk", disks(1.0), NAN, (), without=False)
    with pytest.raises(EvaluationError, match=r"Scalar value 1e\+30 overflows int64"):
        aggregate("bottomk", disks(1.0), 1e30, (), without=False)


def test_disks_are_counted_by_value() -> None:
    """count_values makes a label of the value, and overwrites one of that name."""
    items = disks(1.0, 1e21, 1.0, 0.5)
    assert aggregate("count_values", items, "value", (), without=False) == [
        ("", labels(value="1"), 2.0),
        ("", labels(value="1000000000000000000000"), 1.0),
        ("", labels(value="0.5"), 1.0),
    ]
    assert aggregate("count_values", items, "bay", ("device",), without=True)[0] == (
        "",
        labels(bay="1"),
        2.0,
    )
    by_bay = aggregate("count_values", items, "value", ("bay",), without=False)
    assert by_bay[0] == ("", labels(bay="0", value="1"), 2.0)
    with pytest.raises(EvaluationError, match='invalid label name "no-label"'):
        aggregate("count_values", items, "no-label", (), without=False)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, "1"),
        (-0.0, "-0"),
        (1.5e-7, "0.00000015"),
        (1e22, "10000000000000000000000"),
        (0.1 + 0.2, "0.30000000000000004"),
        (INF, "+Inf"),
        (-INF, "-Inf"),
        (NAN, "NaN"),
    ],
)
def test_a_value_as_a_label_has_no_exponent(value: float, expected: str) -> None:
    """It has the fewest digits that distinguish it from its neighbours."""
    assert decimal(value) == expected


@given(
    st.sampled_from(["sum", "avg", "min", "max", "stddev", "stdvar", "quantile", "topk"]),
    st.lists(VALUES, max_size=9),
    VALUES,
    st.sampled_from([(), ("bay",), ("__name__", "device")]),
    st.booleans(),
)
@example("stddev", [-7.976931348623158e307, 0.0, 1e308], 0.0, ("bay",), False)  # overflows to -Inf
def test_no_number_makes_an_aggregation_raise(
    operator: str, values: list[float], parameter: float, kept: tuple[str, ...], without: bool
) -> None:
    """Whatever disks report, there is a float for each group, or an error with a sentence."""
    try:
        found = aggregate(operator, disks(*values), parameter, kept, without=without)
    except EvaluationError:
        assert operator == "topk"
        return
    assert all(type(value) is float for _, _, value in found)
    assert len({(name, group) for name, group, _ in found}) == len(found)


@given(st.lists(st.integers(-1000, 1000), min_size=1))
def test_the_mean_of_whole_numbers_is_exact_to_the_last_digits(values: list[int]) -> None:
    """It differs from the exact quotient by rounding once or twice."""
    assert mean([float(value) for value in values]) == pytest.approx(sum(values) / len(values))


# --- functions of one value ---


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        ("ceil", -0.3, -0.0),
        ("ceil", 0.3, 1.0),
        ("floor", -0.3, -1.0),
        ("floor", -0.0, -0.0),
        ("floor", 1e300, 1e300),
        ("floor", NAN, NAN),
        ("ceil", -INF, -INF),
        ("sgn", -0.0, -0.0),
        ("sgn", -5.0, -1.0),
        ("sgn", NAN, NAN),
        ("ln", 0.0, -INF),
        ("ln", -1.0, NAN),
        ("log10", 1000.0, 3.0),
        ("log10", 0.0, -INF),
        ("log2", 0.125, -3.0),
        ("log2", -0.0, -INF),
        ("exp", 1000.0, INF),
        ("exp", -1000.0, 0.0),
        ("sqrt", -1.0, NAN),
        ("sin", INF, NAN),
        ("sinh", -1000.0, -INF),
        ("cosh", -1000.0, INF),
        ("acosh", 0.5, NAN),
        ("atanh", -1.0, -INF),
        ("atanh", 1.0, INF),
        ("atanh", 1.5, NAN),
        ("asin", 2.0, NAN),
        ("deg", math.pi, 180.0),
        ("rad", 180.0, math.pi),
        ("abs", -INF, INF),
    ],
)
def test_a_function_of_an_odd_number_is_go_s(function: str, value: float, expected: float) -> None:
    """Outside its domain it is NaN, at a pole or beyond floats an infinity."""
    assert bits(ELEMENTWISE[function](value)) == bits(expected)


@given(st.sampled_from(sorted(ELEMENTWISE)), VALUES)
def test_no_function_raises(function: str, value: float) -> None:
    """Each function of each float is a float."""
    assert type(ELEMENTWISE[function](value)) is float


@given(st.datetimes(), st.floats(0, 0.999))
def test_the_parts_of_a_date_are_those_of_the_calendar(moment: dt.datetime, rest: float) -> None:
    """Minute to year agree with the calendar in UTC, whatever the fraction of a second."""
    whole = moment.replace(microsecond=0, tzinfo=dt.UTC)
    at = whole.timestamp() + (rest if whole.timestamp() >= 0 else -0.0)
    parts = {name: ELEMENTWISE[name](at) for name in ("minute", "hour", "month", "year")}
    assert parts == {name: getattr(whole, name) for name in parts}
    assert ELEMENTWISE["day_of_month"](at) == whole.day
    assert ELEMENTWISE["day_of_week"](at) == int(whole.strftime("%w"))
    assert ELEMENTWISE["day_of_year"](at) == int(whole.strftime("%j"))


@pytest.mark.parametrize(
    ("date", "days"),
    [("2024-02-10", 29), ("2026-02-10", 28), ("1900-02-10", 28), ("2026-12-31", 31)],
)
def test_a_february_has_29_days_in_leap_years(date: str, days: int) -> None:
    """A century is no leap year."""
    at = dt.datetime.fromisoformat(date).replace(tzinfo=dt.UTC).timestamp()
    assert ELEMENTWISE["days_in_month"](at) == days


def test_a_date_may_lie_beyond_all_calendars() -> None:
    """63 bits of seconds are a date, what is more is none."""
    four_hundred_years = 146_097 * 86_400.0
    assert ELEMENTWISE["year"](four_hundred_years * 10**8) == 40_000_001_970
    assert ELEMENTWISE["day_of_week"](-four_hundred_years * 10**8) == 4
    assert math.isnan(ELEMENTWISE["year"](1e19))
    assert math.isnan(ELEMENTWISE["hour"](NAN))


@pytest.mark.parametrize(
    ("value", "nearest", "expected"),
    [
        (2.5, 1.0, 3.0),
        (-2.5, 1.0, -2.0),
        (0.35, 0.1, 0.4),
        (-0.25, 0.5, 0.0),
        (7.0, -5.0, 5.0),
        (7.0, 0.0, NAN),
        (INF, 1.0, INF),
        (NAN, 1.0, NAN),
        (1.0, INF, NAN),
        (1e308, 0.1, INF),
    ],
)
def test_rounding_is_to_a_multiple_ties_up(value: float, nearest: float, expected: float) -> None:
    """Of zero and of infinity nothing is a multiple."""
    assert bits(round_to(value, nearest)) == bits(expected)


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (5.0, 0.0, 3.0, 3.0),
        (-5.0, 0.0, 3.0, 0.0),
        (2.0, 0.0, 3.0, 2.0),
        (NAN, 0.0, 3.0, NAN),
        (1.0, NAN, 3.0, NAN),
        (NAN, -INF, -INF, -INF),
        (NAN, INF, INF, INF),
        (-0.0, 0.0, 1.0, 0.0),
        (0.0, -INF, -0.0, -0.0),
    ],
)
def test_a_clamped_value_stays_within_its_bounds(
    value: float, low: float, high: float, expected: float
) -> None:
    """NaN stays NaN unless a bound is an infinity that decides alone."""
    assert bits(clamp(value, low, high)) == bits(expected)


@given(VALUES, VALUES, VALUES)
def test_no_rounding_and_no_bound_raises(value: float, first: float, second: float) -> None:
    """Whatever the numbers are, there is a float."""
    assert type(round_to(value, first)) is float
    assert type(clamp(value, first, second)) is float


# --- labels and order ---


def test_a_label_is_made_of_another_s_parts() -> None:
    """label_replace takes groups by number and name, where the pattern matches all of the text."""
    item = ("reads", labels(device="nvme0n1"), 1.0)

    def slot(replacement: str, pattern: str) -> str | None:
        [(_, found, _)] = functions.label_replace([item], "slot", replacement, "device", pattern)
        return dict(found).get("slot")

    assert slot("$1-${2}", "nvme([0-9]+)n([0-9]+)") == "0-1"
    assert slot("${controller}", "nvme(?P<controller>[0-9]+).*") == "0"
    assert slot("x", "nvme") is None
    assert slot("", ".*") is None
    assert slot("<$0>", "(?i)NVME.*") == "<nvme0n1>"


@pytest.mark.parametrize(
    ("replacement", "expected"),
    [
        ("$1", "a"),
        ("$1x", ""),
        ("${1}x", "ax"),
        ("$9", ""),
        ("$01", ""),
        ("$$1", "$1"),
        ("$", "$"),
        ("$-", "$-"),
        ("${1", "${1"),
        ("${}", "${}"),
        ("$letter$letter", "aa"),
        ("$nothing", ""),
        ("$2", ""),
        ("$99999999999999999999", ""),
    ],
)
def test_a_replacement_is_read_as_go_reads_it(replacement: str, expected: str) -> None:
    """A name is as long as it can be, and a dollar before no name is a dollar."""
    match = compile_anchored("(?P<letter>a)(b)?").fullmatch("a")
    assert match
    assert match.expanded(replacement) == expected


def test_labels_are_set_and_taken_away() -> None:
    """An empty text takes a label away, and the metric's name is a label like others."""
    items = disks(1.0, 2.0)
    assert functions.label_replace(items, "bay", "", "", "") == [
        ("reads", labels(device="sda"), 1.0),
        ("reads", labels(device="sdb"), 2.0),
    ]
    renamed = functions.label_replace(items, "__name__", "${1}s", "__name__", "(.*)s")
    assert [name for name, _, _ in renamed] == ["reads", "reads"]
    joined = functions.label_join(items, "a_first", "/", ["bay", "nothing", "__name__"])
    assert joined[0] == ("reads", labels(a_first="0//reads", bay="0", device="sda"), 1.0)
    assert functions.label_join(items, "bay", ",", [])[0] == ("reads", labels(device="sda"), 1.0)


def test_two_disks_must_not_become_one() -> None:
    """The labels that distinguish disks cannot be overwritten by one text."""
    with pytest.raises(EvaluationError, match="cannot contain metrics with the same labelset"):
        functions.label_replace(disks(1.0, 2.0, 3.0), "device", "x", "", "")
    with pytest.raises(EvaluationError, match="cannot contain metrics with the same labelset"):
        functions.label_join(disks(1.0, 2.0, 3.0), "device", "", ["bay"])


def test_what_is_no_label_and_what_is_no_pattern_is_refused() -> None:
    """The error names the function and the text."""
    with pytest.raises(EvaluationError, match=r"label name in label_replace\(\): 'a-b'"):
        functions.label_replacer("a-b", "", "", "")
    with pytest.raises(EvaluationError, match=r"expression in label_replace\(\): '\(\.\*'"):
        functions.label_replacer("a", "", "b", "(.*")
    with pytest.raises(EvaluationError, match=r"destination label name in label_join\(\): ''"):
        functions.label_join([], "", "", ["a"])
    with pytest.raises(EvaluationError, match=r"source label name in label_join\(\): 'b c'"):
        functions.label_join([], "a", "", ["b c"])


def test_a_sorted_list_ends_with_what_has_no_number() -> None:
    """NaN is last in both directions, and equal values stay in their order."""
    items = disks(NAN, 2.0, 1.0, 2.0, INF)

    def order(*, descending: bool) -> str:
        found = functions.sort(items, descending=descending)
        return "".join(dict(one)["device"][-1] for _, one, _ in found)

    assert order(descending=False) == "cbdea"
    assert order(descending=True) == "ebdca"
