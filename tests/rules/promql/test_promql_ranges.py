"""Range vectors in rules: the last minutes of a disk, evaluated as in Prometheus."""

from __future__ import annotations

import contextlib
import math
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from iowarden.rules.promql import run
from iowarden.rules.promql import store as store_module
from iowarden.rules.promql.errors import EvaluationError, PromqlError, TooExpensiveError
from iowarden.rules.promql.evaluator import Sample, compile_expression
from iowarden.rules.promql.run import (
    ELEMENT_COST,
    GROUPED_COST,
    RELABELLED_COST,
    ROW_COST,
    SERIES_COST,
    STEP_COST,
    Budget,
)
from iowarden.rules.promql.store import Labels, SeriesStore, Window

SDA, SDB = (("device", "sda"),), (("device", "sdb"),)
NAN, INF = math.nan, math.inf
STALE = None
"""In a list of values: the series ends here."""


def recorded(
    values: dict[tuple[str, Labels], list[float | None]], step_seconds: float = 15.0
) -> SeriesStore:
    """Return a store with values that were read every so many seconds from time 0 on."""
    store = SeriesStore(any_retention_seconds=1e6)
    for number in range(max(len(found) for found in values.values())):
        for (name, labels), found in values.items():
            if number >= len(found):
                continue
            sample = found[number]
            if sample is None:
                store.mark_stale(name, labels, number * step_seconds)
            else:
                store.append(name, labels, number * step_seconds, sample)
    return store


def one(values: list[float | None], step_seconds: float = 15.0) -> SeriesStore:
    """Return a store with a single series, `x`."""
    return recorded({("x", ()): values}, step_seconds)


def vector(text: str, store: SeriesStore, at: float) -> list[Sample]:
    """Evaluate an expression that gives a vector."""
    result = compile_expression(text).evaluate(store, at)
    assert isinstance(result, list)
    return result


def value(text: str, store: SeriesStore, at: float) -> float | None:
    """Evaluate an expression that gives one element or none."""
    found = vector(text, store, at)
    assert len(found) <= 1
    return found[0].value if found else None


def same(got: float | None, expected: float | None) -> bool:
    """Whether two answers are the same number, nothing, or NaN."""
    if got is None or expected is None:
        return got is expected
    return math.isclose(got, expected, rel_tol=1e-12) or (math.isnan(got) and math.isnan(expected))


# --- windows ---


def test_a_window_is_open_on_the_left() -> None:
    """The sample that is exactly as old as the range is long does not count."""
    store = one([1.0, 2.0, 3.0, 4.0, 5.0])
    assert value("count_over_time(x[1m])", store, 60.0) == 4
    assert value("count_over_time(x[1m])", store, 59.5) == 4
    assert value("count_over_time(x[61s])", store, 60.0) == 5


def test_a_window_of_milliseconds_has_no_neighbour_in_it() -> None:
    """4 s - 2.003 s is a float below 1.997, and the sample there is not in the window."""
    store = SeriesStore({"x": 100.0})
    for number in range(4001):
        store.append("x", (), number / 1000, 1.0)
    assert value("sum_over_time(x[2003ms])", store, 4.0) == 2003


def test_what_ended_in_a_window_is_not_counted() -> None:
    """A stale marker is no sample, and the samples on both sides of it are."""
    store = one([1.0, 2.0, STALE, 4.0])
    assert value("count_over_time(x[1m])", store, 45.0) == 3
    assert value("sum_over_time(x[1m])", store, 45.0) == 7
    assert value("x", store, 40.0) is None
    assert value("last_over_time(x[1m])", store, 40.0) == 2


def test_nan_that_was_measured_is_no_end() -> None:
    """A measured NaN is a value; only the marker ends a series."""
    assert value("count_over_time(x[1m])", one([1.0, NAN, 3.0]), 30.0) == 3


def test_nothing_in_a_window_gives_nothing() -> None:
    """A disk that was pulled an hour ago has no rate, and no rate of 0 either."""
    store = one([1.0, 2.0])
    for text in ("rate(x[1m])", "sum_over_time(x[1m])", "deriv(x[1m])", "changes(x[1m])"):
        assert vector(text, store, 3600.0) == []


def test_offset_goes_back_and_forth() -> None:
    """`offset 1m` is a minute ago; with a minus sign it is a minute later."""
    store = one([float(number) for number in range(20)])
    assert value("x offset 1m", store, 120.0) == 4
    assert value("x offset -1m", store, 120.0) == 12
    assert value("sum_over_time(x[30s] offset 1m)", store, 120.0) == 3 + 4


def test_at_fixes_the_time() -> None:
    """`@` sets the time, before `offset`; start() and end() are those of the query."""
    store = one([float(number) for number in range(20)])
    assert value("x @ 60", store, 120.0) == 4
    assert value("x @ 60 offset 15s", store, 120.0) == 3
    assert value("x offset 15s @ 60", store, 120.0) == 3
    assert value("sum_over_time(x[30s] @ 60)", store, 120.0) == 3 + 4
    expression = compile_expression("x @ start() + x @ end()")
    assert expression.evaluate(store, 30.0) == [Sample("", (), 4.0)]
    assert expression.evaluate(store, 30.0, start=15.0, end=60.0) == [Sample("", (), 5.0)]


@pytest.mark.parametrize("at", [1_800_000_000.123_456_7, 1_800_000_000.123_456_2])
def test_the_newest_sample_is_seen_however_odd_the_clock_is(at: float) -> None:
    """A clock has more digits than the microseconds that windows distinguish."""
    store = SeriesStore()
    store.append("x", (), at, 1.0)
    for text in ("x", "x @ end()", "x @ start()", "sum_over_time(x[1m])", "x offset 0s"):
        assert value(text, store, at) == 1, text


def test_the_query_time_inside_a_subquery_is_the_query_s() -> None:
    """`@ end()` does not move with the steps of the subquery around it."""
    store = one([float(number) for number in range(20)])
    assert value("min_over_time((x @ end())[1m:15s])", store, 120.0) == 8


# --- counters ---


@pytest.mark.parametrize(
    ("values", "text", "at", "expected"),
    [
        # The window (0, 60] has 3 in 45 s; the 15 s before are no more than one spacing.
        ([0.0, 1, 2, 3, 4], "increase(x[1m])", 60.0, 4.0),
        ([0.0, 1, 2, 3, 4], "rate(x[1m])", 60.0, 4 / 60),
        # It cannot have been below zero: 1 at 15 s with 1 per 15 s was 0 at 0 s, not before.
        ([0.0, 1, 2, 3, 4], "increase(x[5m])", 60.0, 4.0),
        # A counter that begins at 10 is extrapolated by half a spacing where more is missing.
        ([10.0, 11, 12, 13, 14], "increase(x[5m])", 60.0, 4.5),
        # It restarted after 5: 5 -> 2 is an increase of 2.
        ([3.0, 5, 2, 4], "increase(x[46s])", 45.0, 6 * (45 + 1) / 45),
        # A gauge's delta has no resets, and may be negative.
        ([3.0, 5, 2, 4], "delta(x[46s])", 45.0, 1 * (45 + 1) / 45),
        # 10 s before the first sample, and more than a spacing after the last: half of one.
        ([10.0, 20], "increase(x[1m])", 50.0, 10 * (15 + 10 + 7.5) / 15),
        # Exactly 1.1 spacings away is too far already.
        ([10.0, 20], "increase(x[1m])", 31.5, 10 * (15 + 7.5 + 7.5) / 15),
        ([100.0, 110, 120], "increase(x[46500ms])", 30.0, 20 * (30 + 7.5) / 30),
        ([10.0, 20], "increase(x[1m])", 31.0, 10 * (15 + 7.5 + 16) / 15),
        ([5.0], "rate(x[1m])", 0.0, None),
        ([3.0, 5, 2], "irate(x[1m])", 30.0, 2 / 15),
        ([3.0, 5, 9], "irate(x[1m])", 30.0, 4 / 15),
        ([3.0, 5, 2], "idelta(x[1m])", 30.0, -3.0),
        ([3.0], "idelta(x[1m])", 0.0, None),
        ([1.0, 1, 2, 1, 1, NAN, NAN, 1], "changes(x[5m])", 105.0, 4.0),
        ([NAN, NAN, NAN], "changes(x[5m])", 30.0, 0.0),
        ([1.0, 3, 2, 5, NAN, 1, 0], "resets(x[5m])", 90.0, 2.0),
    ],
)
def test_growth_is_reported_as_prometheus_does(
    values: list[float | None], text: str, at: float, expected: float | None
) -> None:
    """Extrapolation to the window's edges, resets, and the case of one sample."""
    assert same(value(text, one(values), at), expected)


# --- statistics and lines ---


@pytest.mark.parametrize(
    ("values", "function", "expected"),
    [
        ([1.0, 2, 4, 5], "avg", 3.0),
        ([1e308, 1e308, 1e308], "avg", 1e308),
        ([INF, 1], "avg", INF),
        ([INF, -INF], "avg", NAN),
        ([1e308, 1e308], "sum", INF),
        ([0.1] * 10, "sum", 1.0),
        ([1e100, 1, -1e100], "sum", 1.0),
        ([INF, -INF], "sum", NAN),
        ([NAN, 1, 3], "max", 3.0),
        ([1, NAN, 3], "min", 1.0),
        ([NAN, 1, 3], "min", 1.0),
        ([NAN, NAN], "max", NAN),
        ([2.0, 4, 4, 4, 5, 5, 7, 9], "stddev", 2.0),
        ([2.0, 4, 4, 4, 5, 5, 7, 9], "stdvar", 4.0),
        ([0.1, 0.1, 0.1], "stddev", 0.0),
        ([1e150, -1e150], "stddev", 1e150),
        ([1e200, -1e200], "stddev", INF),
        ([INF, INF], "stdvar", NAN),
        ([7.0, 8], "last", 8.0),
        ([7.0, 8], "present", 1.0),
        ([7.0, 8], "count", 2.0),
    ],
)
def test_samples_of_a_window_are_summed_up(
    values: list[float | None], function: str, expected: float
) -> None:
    """Overflow gives an infinity, infinities of both signs NaN, and no exception comes out."""
    assert same(value(f"{function}_over_time(x[10m])", one(values), 300.0), expected)


def test_quantile_of_a_window() -> None:
    """The rank may come from an expression; outside of 0 to 1 it is infinite."""
    store = one([1.0, 2, 3, 4, 5])
    assert value("quantile_over_time(0.5, x[10m])", store, 60.0) == 3
    assert value("quantile_over_time(scalar(x) - 4.75, x[10m])", store, 60.0) == 2
    assert value("quantile_over_time(1.5, x[10m])", store, 60.0) == INF
    assert value("quantile_over_time(-1, x[10m])", store, 60.0) == -INF


def test_a_disk_that_fills_is_full_at_the_time_the_line_reports() -> None:
    """100 GB free that shrink by 1 GB a minute: nothing in 100 minutes, at any age of the host."""
    for begin in (0.0, 1.8e9):
        store = SeriesStore({"free_bytes": 3600.0})
        for minute in range(11):
            store.append("free_bytes", SDA, begin + 60 * minute, (100 - minute) * 1e9)
        found = vector("predict_linear(free_bytes[1h], 90 * 60)", store, begin + 600)
        assert [sample.labels for sample in found] == [SDA]
        assert math.isclose(found[0].value, 0.0, abs_tol=1.0)
        slope = value("deriv(free_bytes[1h])", store, begin + 600)
        assert slope is not None
        assert math.isclose(slope, -1e9 / 60, rel_tol=1e-9)


@pytest.mark.parametrize(
    ("values", "slope"),
    [([5.0, 5, 5], 0.0), ([INF, INF], NAN), ([5.0], None), ([1.0, NAN, 2], NAN)],
)
def test_a_line_through_what_does_not_move(values: list[float | None], slope: float | None) -> None:
    """Equal values have the slope 0 exactly, and one sample has none."""
    assert same(value("deriv(x[10m])", one(values), 60.0), slope)


def test_a_prediction_is_from_now_on_whatever_offset_reports() -> None:
    """The line is drawn through the past, its end is counted from the time of the query."""
    store = one([float(number) for number in range(20)])
    got = value("predict_linear(x[1m] offset 1m, 0)", store, 120.0)
    assert got is not None
    assert math.isclose(got, 8.0)


def test_series_with_other_timestamps_have_their_own_line() -> None:
    """Two data sources are read at different seconds; each has its own times."""
    store = SeriesStore({"x": 3600.0})
    for number in range(5):
        store.append("x", SDA, 60.0 * number, 60.0 * number)
        store.append("x", SDB, 90.0 * number, 2 * (90.0 * number))
    got = {sample.labels: sample.value for sample in vector("deriv(x[1h])", store, 360.0)}
    assert math.isclose(got[SDA], 1.0)
    assert math.isclose(got[SDB], 2.0)


# --- names ---


def test_only_what_is_still_the_sample_keeps_its_name() -> None:
    """last_over_time gives samples back; a rate is another quantity."""
    store = one([1.0, 2.0])
    assert [s.name for s in vector("last_over_time(x[1m])", store, 15.0)] == ["x"]
    assert [s.name for s in vector("max_over_time(x[1m])", store, 15.0)] == [""]


def test_two_metrics_that_become_one_are_refused() -> None:
    """Without their names, reads and writes of one disk could not be distinguished."""
    store = recorded({("read", SDA): [1.0, 2.0], ("write", SDA): [1.0, 2.0]})
    for text in (
        'rate({__name__=~"read|write"}[1m])',
        'deriv({__name__=~"read|write"}[1m])',
        'timestamp({__name__=~"read|write"})',
        'quantile_over_time(0.5, {__name__=~"read|write"}[1m])',
        'sum_over_time({__name__=~"read|write"}[1m:15s])',
    ):
        with pytest.raises(EvaluationError, match="same labelset"):
            vector(text, store, 15.0)
    assert len(vector('last_over_time({__name__=~"read|write"}[1m])', store, 15.0)) == 2


# --- subqueries ---


def test_a_subquery_steps_at_whole_multiples() -> None:
    """At 3:07 the steps of `[3m:1m]` are 1:00, 2:00 and 3:00, not 7 seconds past."""
    store = one([1.0] * 20)
    got = value("sum_over_time(timestamp(vector(0))[3m:1m])", store, 187.0)
    assert got == 60 + 120 + 180
    assert value("sum_over_time(timestamp(vector(0))[3m:1m])", store, 180.0) == 60 + 120 + 180
    assert value("count_over_time(x[1m:7s] offset 7s)", store, 180.0) == 8
    assert value("count_over_time(vector(1)[10m:1m])", store, 60.0) == 10  # before 1970, too


def test_a_subquery_without_a_step_takes_the_group_s() -> None:
    """One minute unless the rule's group has another interval."""
    expression, store = compile_expression("count_over_time(x[2m:])"), one([1.0] * 40)
    assert expression.evaluate(store, 240.0) == [Sample("", (), 2.0)]
    assert expression.evaluate(store, 240.0, step_seconds=5.0) == [Sample("", (), 24.0)]


def test_hot_in_three_of_five_minutes() -> None:
    """`count_over_time((temp > 55)[5m:1m]) >= 3`, as the documentation recommends it."""
    store = one([50.0, 56, 50, 57, 58, 50], step_seconds=60.0)
    assert value("count_over_time((x > 55)[5m:1m])", store, 300.0) == 3
    assert vector("count_over_time((x > 55)[5m:1m]) >= 3", store, 240.0) != []
    assert vector("count_over_time((x > 55)[2m:1m]) >= 3", store, 240.0) == []


def test_subqueries_inside_each_other() -> None:
    """The highest rate of an hour, five minutes by five minutes, twice over."""
    store = one([float(number * number) for number in range(100)])
    inner = "max_over_time(rate(x[1m])[5m:1m])"
    highest = max(
        found
        for minute in range(3, 21)
        if (found := value("rate(x[1m])", store, 60.0 * minute)) is not None
    )
    assert value(f"max_over_time({inner}[10m:1m])", store, 1200.0) == highest


# --- what is not there ---


def test_absent_over_time_reports_what_was_looked_for() -> None:
    """A backup that wrote no metric for an hour is named by the labels of the selector."""
    store = recorded({("x", SDA): [1.0, 2.0]})
    assert vector('absent_over_time(x{device="sda"}[1m])', store, 15.0) == []
    assert vector('absent_over_time(x{device="sda"}[1m])', store, 3600.0) == [Sample("", SDA, 1.0)]
    assert vector("absent_over_time(x[1m:15s])", store, 3600.0) == [Sample("", (), 1.0)]


@pytest.mark.parametrize(
    ("matchers", "labels"),
    [
        ('device="a",device="b"', ()),
        ('device!="a",device="b"', (("device", "b"),)),
        ('device="b",device!="a"', ()),
        ('device=~"b"', ()),
        ('device=""', ()),
    ],
)
def test_absent_reports_only_what_is_certain(matchers: str, labels: Labels) -> None:
    """As in Prometheus: a label's first = counts, and whatever follows it takes it away."""
    assert vector(f"absent(y{{{matchers}}})", one([1.0]), 0.0) == [Sample("", labels, 1.0)]


def test_timestamp_is_the_sample_s_only_of_a_selector() -> None:
    """When a value was written is known of what was written, not of what was computed."""
    store = one([1.0, 2.0])
    assert value("timestamp(x)", store, 40.0) == 15
    assert value("timestamp(x offset 20s)", store, 40.0) == 15
    assert value("timestamp(x @ 3)", store, 40.0) == 0
    assert value("timestamp(x + 0)", store, 40.0) == 40
    assert vector("timestamp(x)", store, 4000.0) == []


# --- what is refused ---


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("x[5m]", 1, "a range vector as result is not supported"),
        ('"text"', 1, "a string as result is not supported"),
        ('1 + label_replace(x, "a", "b", "c", "(")', 37, "invalid regular expression"),
    ],
)
def test_what_no_rule_can_be_is_refused_at_its_place(text: str, column: int, message: str) -> None:
    """It fails when it is loaded, not in the night when it is evaluated."""
    with pytest.raises(PromqlError, match=message) as caught:
        compile_expression(text)
    assert (caught.value.line, caught.value.column) == (1, column)


@pytest.mark.parametrize(
    "text",
    [
        "max_over_time(vector(1)[100y:1s])",
        "max_over_time(max_over_time(vector(1)[1d:1m])[1d:1m])",
        "sum_over_time(x[1h:1ms])",
    ],
)
def test_an_expression_that_would_stall_the_loop_is_refused(text: str) -> None:
    """The error message says what to change."""
    with pytest.raises(EvaluationError, match=r"too expensive.*shorten its ranges"):
        vector(text, one([1.0] * 100), 1.8e9 if "1" in text[-6:] and "x" not in text else 900.0)


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("x", 20 * SERIES_COST + 20 * ELEMENT_COST),
        ("abs(x)", 20 * SERIES_COST + 40 * ELEMENT_COST),
        ('x{device="sd1"}', 20 * SERIES_COST + 1 * ELEMENT_COST),
        (
            'sum by (device) ({device=~"sd.*"})',
            21 * SERIES_COST + 40 * ELEMENT_COST + 20 * GROUPED_COST,
        ),
        (
            'count_values("value", x)',
            20 * SERIES_COST + 21 * ELEMENT_COST + 20 * RELABELLED_COST,
        ),
        # A label next to it, the text, and twice the seventy characters of all devices.
        (
            'label_replace(x, "l", "$1-$1", "device", "(.*)")',
            20 * SERIES_COST + 40 * ELEMENT_COST + 20 * (RELABELLED_COST + 1 + 5) + 2 * 70,
        ),
        (
            'label_join(x, "l", "-", "device", "device")',
            20 * SERIES_COST + 40 * ELEMENT_COST + 20 * (RELABELLED_COST + 1 + 2) + 2 * 70,
        ),
        ("sum_over_time(x[5m])", 20 * SERIES_COST + 20 * 20 + 20 * ELEMENT_COST),
        # 10 steps, and a node in each
        (
            "max_over_time(x[10m:1m])",
            200 * SERIES_COST + 220 * ELEMENT_COST + 10 * STEP_COST + 20 * ROW_COST,
        ),
        (
            "vector(1) and on () count_over_time(vector(1)[5m:1m])",
            8 * ELEMENT_COST + 10 * STEP_COST + ROW_COST,
        ),
        ("timestamp(x)", 20 * SERIES_COST + 20 * ELEMENT_COST),
    ],
)
def test_every_way_to_read_is_counted(
    text: str, cost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one unit less than it costs, each evaluation is refused."""
    store = recorded({("x", (("device", f"sd{n}"),)): [1.0] * 40 for n in range(20)})
    expression = compile_expression(text)
    monkeypatch.setattr(run, "MAX_WORK", cost)
    assert expression.evaluate(store, 585.0)
    monkeypatch.setattr(run, "MAX_WORK", cost - 1)
    with pytest.raises(EvaluationError, match="too expensive"):
        expression.evaluate(store, 585.0)


def grown(times: int) -> str:
    """Return an expression whose label grows tenfold so many times."""
    text = 'label_replace(x, "l", "0123456789", "device", ".*")'
    for _ in range(times):
        text = f'label_replace({text}, "l", "$1$1$1$1$1$1$1$1$1$1", "l", "(.*)")'
    return text


def joined(times: int) -> str:
    """Return the same with label_join."""
    text = 'label_replace(x, "l", "0123456789", "device", ".*")'
    for _ in range(times):
        text = f'label_join({text}, "l", ""' + ', "l"' * 10 + ")"
    return text


@pytest.mark.parametrize("text", [grown(30), joined(30)])
def test_a_label_does_not_grow_for_ever(text: str) -> None:
    """Thirty functions would make a label of 10 to the 31 characters: memory would not do."""
    with pytest.raises(EvaluationError, match="too expensive"):
        vector(text, one([1.0]), 0.0)


@pytest.mark.parametrize("times", [1, 3])
def test_a_label_that_is_made_of_others_is_made(times: int) -> None:
    """A long but bounded result is the same with both methods."""
    (replaced,), (whole,) = (vector(text(times), one([1.0]), 0.0) for text in (grown, joined))
    assert replaced == whole
    assert len(dict(whole.labels)["l"]) == 10 ** (times + 1)


def test_many_ways_through_a_regular_expression_are_counted() -> None:
    """A pattern of a few characters may have 20,000 states, to be followed for each series."""
    store = recorded({("x", (("device", f"sd{n}"),)): [1.0] for n in range(3000)})
    with pytest.raises(EvaluationError, match="too expensive"):
        compile_expression('x{device=~"(a|b|s.*)*(x?){900}y"}').evaluate(store, 0.0)


def test_a_label_that_is_taken_apart_is_counted() -> None:
    """Each of three loops may backtrack at each of ninety letters: 10^5 attempts."""
    name = "sdv" * 30
    store = recorded({("x", (("device", f"{name}{n}"),)): [1.0] for n in range(600)})
    text = 'label_replace(x, "l", "$1$2$3", "device", "(.*)(.*)(.*).{200}x")'
    with pytest.raises(EvaluationError, match="too expensive"):
        compile_expression(text).evaluate(store, 0.0)


STATES = "(a?x?){20}z"
"""An automaton whose states all remain possible at each character."""


@pytest.mark.parametrize(
    "text",
    [
        f'x{{device=~"{STATES}"}}',
        f'{{__name__=~"x|{STATES}", device!~"{STATES}"}}',
        f'label_replace(x, "y", "$1", "device", "({STATES})")',
    ],
    ids=["of a label", "of any metric", "label_replace"],
)
def test_a_regular_expression_costs_its_states_at_each_character(text: str) -> None:
    """Not once for each value: names of 30 characters took 30 times what was counted."""
    for length, enough in ((2, True), (30, False)):
        store = recorded({("x", (("device", "x" * length + str(n)),)): [1.0] for n in range(3)})
        budget = Budget(25_000)
        with contextlib.nullcontext() if enough else pytest.raises(TooExpensiveError):
            compile_expression(text).evaluate(store, 0.0, budget=budget)
        assert (budget.left >= 0) is enough


def test_which_series_have_a_history_is_decided_in_a_bounded_time() -> None:
    """Once a regular expression took a tenth of a second, further series have one as well."""
    (window,) = compile_expression(f'rate(x{{device=~"{STATES}"}}[1h])').windows
    names = ["x" * 30 + str(n) for n in range(100)]
    found = [window.selects("x", (("device", name),)) for name in names]
    assert not any(found[:5])
    assert all(found[-5:])


def test_what_some_evaluations_cost_is_bounded_together() -> None:
    """The second may cost what the first left over, an error costs as well."""
    store = recorded({("x", (("device", f"sd{n}"),)): [1.0] for n in range(20)})
    expression, budget = compile_expression("x"), Budget(500)
    assert expression.evaluate(store, 0.0, budget=budget)
    assert budget.left == 500 - 20 * (SERIES_COST + ELEMENT_COST)
    with pytest.raises(
        TooExpensiveError, match=r"\(after the other expressions due now\) 100 samples"
    ):
        expression.evaluate(store, 0.0, budget=budget)
    assert budget.left < 0


# --- history ---


def a_number(text: str, store: SeriesStore, at: float) -> float | None:
    """Return the value of the only element that an expression gives, or None for none."""
    found = compile_expression(text).evaluate(store, at)
    assert isinstance(found, list)
    return found[0].value if found else None


def test_a_day_of_what_is_read_each_second_is_thinned() -> None:
    """The last quarter of an hour is whole; before, 15 s lie between two samples; ends stay."""
    thinned, whole = (SeriesStore({"x": 86_700.0}, thins=thins) for thins in (True, False))
    for second in range(20_001):
        for store in (thinned, whole):
            if second % 5000 == 4999:
                store.mark_stale("x", SDA, float(second))
            else:
                store.append("x", SDA, float(second), float(second % 7000))
    assert a_number("count_over_time(x[15m])", thinned, 2e4) == 899  # it ended once
    kept = a_number("count_over_time(x[1d])", thinned, 2e4)
    assert kept is not None
    assert kept < 20_000 / 15 + 900 + 300 + 10
    for text in ("increase(x[4h])", "resets(x[4h])", "max_over_time(x[4h])"):
        exact = a_number(text, whole, 2e4)
        assert a_number(text, thinned, 2e4) == pytest.approx(exact, rel=0.003)
    for at in (4998.0, 4999.0, 5010.0, 9999.0):  # an ended series does not hide the current ones
        assert (a_number("x", thinned, at) is None) is (a_number("x", whole, at) is None), at


def test_only_what_is_asked_for_hours_is_thinned() -> None:
    """A rule of an hour reads each second."""
    store = SeriesStore({"x": 3900.0}, thins=True)
    for second in range(5000):
        store.append("x", SDA, float(second), 1.0)
    assert a_number("count_over_time(x[1h])", store, 4999.0) == 3600


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("x", 0.0),
        ("x > 5", 0.0),
        ("rate(x[1h])", 3900.0),
        ("rate(x[1h] offset 1d)", 3900.0 + 86_400),
        ("rate(x[1h] offset -1h)", 0.0),
        ("x offset 5m", 600.0),
        ("max_over_time(rate(x[5m])[1h:1m])", 4200.0),
        ("max_over_time(x[1h:1m] offset 1h)", 7500.0),
        ("max_over_time(rate(x[5m] @ end())[1h:1m])", 600.0),
        ("max_over_time(max_over_time(x[1h:])[1d:])", 90_300.0),
        ("x / x offset 1h", 3900.0),
        ("sum by (device) (rate(x[1h])) > bool on () group_left y", 3900.0),
    ],
)
def test_history_is_kept_for_as_long_as_asked(text: str, seconds: float) -> None:
    """Range, offset and look-back; subqueries add up."""
    expression = compile_expression(text)
    assert max((each.seconds for each in expression.windows), default=0.0) == seconds
    assert not expression.reads_any


def test_a_selector_without_a_name_keeps_everything() -> None:
    """The metrics that `{device="sda"}[1h]` matches are not known beforehand."""
    expression = compile_expression('count_over_time({device="sda"}[1h])')
    (window,) = expression.windows
    assert (expression.reads_any, window.seconds) == (True, 3900.0)
    store = SeriesStore()
    store.retain([Window("rare", "rare", 60.0), window])
    for minute in range(120):
        for name in ("rare", "other"):
            store.append(name, SDA, 60.0 * minute, 1.0)
    assert expression.names == frozenset()
    for name in ("rare", "other"):
        assert value(f"count_over_time({name}[1h])", store, 60.0 * 119) == 60


@given(
    seconds=st.integers(60, 600),
    gaps=st.lists(st.integers(1, 60), min_size=1, max_size=300),
)
def test_trimmed_history_answers_as_all_of_it_would(seconds: int, gaps: list[int]) -> None:
    """However the samples were written, a window within the retention has the same ones."""
    text = f"count_over_time(x[{seconds}s])"
    short = SeriesStore()
    short.retain(compile_expression(text).windows)
    full = SeriesStore({"x": 1e9})
    at = 0.0
    for gap in gaps:
        at += gap
        for store in (short, full):
            store.append("x", (), at, at)
        assert vector(text, short, at) == vector(text, full, at)
    timestamps, _ = short.series("x")[0].window(-INF, INF)
    assert timestamps[0] >= at - (seconds + 300) * 1.125 - 1


def test_a_sample_takes_no_more_than_24_bytes() -> None:
    """An hour of 15 s samples that all differ, room to grow included."""
    tracemalloc.start()
    store = SeriesStore({"x": 3900.0})
    labels = [(("device", f"sd{number}"),) for number in range(50)]
    for number in range(300):
        store.write("w", 15.0 * number, [("x", own, float(number)) for own in labels])
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held <= 24 * 50 * 3900 / 15


def test_other_rules_keep_what_was_seen() -> None:
    """A reload that adds a rule with a longer range does not forget the last minutes."""
    store = SeriesStore({"x": 600.0, "y": 600.0})
    for number in range(20):
        for name in ("x", "y", "z"):
            store.append(name, (), 15.0 * number, float(number))
    store.mark_stale("z", (), 300.0)
    store.retain([Window("x", "x", 6000.0), Window("z", "z", 600.0)])
    assert value("count_over_time(x[10m])", store, 285.0) == 20
    assert value("count_over_time(y[10m])", store, 285.0) == 1
    assert value("count_over_time(z[10m])", store, 300.0) is None
    store.append("z", (), 315.0, 1.0)
    assert value("count_over_time(z[10m])", store, 315.0) == 1


def test_more_history_than_fits_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range of a year does not fill the memory: its rule fails, the others continue."""
    monkeypatch.setattr(store_module, "MAX_SAMPLES", 2000)
    expressions = {
        text: compile_expression(text)
        for text in (
            "sum(count_over_time(x[1y]))",
            'count_over_time(x{device="sdb"}[10m])',
            "count_over_time(y[2y])",
        )
    }
    year, shorter, constant = expressions.values()
    store = SeriesStore()
    store.retain([window for each in expressions.values() for window in each.windows])
    for number in range(1000):
        at = 10.0 * number
        store.write("w", at, [("x", SDA, at), ("x", SDB, at), ("y", SDA, 1.0)])
    assert store.overfull == {"x"}  # not the constant one, although its window is longer
    with pytest.raises(EvaluationError, match=r"no history of 'x' .* longest windows go first"):
        year.evaluate(store, 9990.0)
    assert shorter.evaluate(store, 9990.0) == [Sample("", SDB, 60.0)]
    assert constant.evaluate(store, 9990.0) == [Sample("", SDA, 1000.0)]
    assert len(vector("x", store, 9990.0)) == 2  # the newest sample is no history
    assert [series.history is None for series in store.series("x")] == [True, False]
    store.retain([Window("x", "x", 60.0), *constant.windows])
    assert value("sum(count_over_time(x[1m]))", store, 9990.0) == 7


def test_a_week_of_one_attribute_of_500_disks_fits() -> None:
    """Values that rarely change cost their changes; the other attributes have no history."""
    expression = compile_expression('increase(iowarden_smart_attribute_raw{id="5"}[7d])')
    store = SeriesStore(thins=True)
    store.retain(expression.windows)
    samples = [
        ("iowarden_smart_attribute_raw", (("disk", f"d{disk}"), ("id", f"{attribute}")), 7.0)
        for disk in range(500)
        for attribute in (5, 9)
    ]
    for hour in range(24 * 7 + 1):
        store.write("smart", 3600.0 * hour, samples)
    found = expression.evaluate(store, 3600.0 * 24 * 7)
    assert isinstance(found, list)
    assert [one.value for one in found] == [0.0] * 500
    assert store.numbers <= 500 + 24 * 7 + 1


# --- totality ---

NUMBERS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e308, -1e308, 5e-324, 1e-308]),
    st.floats(),
)
RANGES = st.sampled_from(
    [
        f"x[{window}]{modifier}"
        for window in ("1s", "20s", "5m", "1h")
        for modifier in ("", " offset 1m", " offset -2m", " @ 30")
    ]
    + ["x[2m:20s]", "(x * 2)[5m:]", "rate(x[1m])[5m:30s]", '{__name__=~".+"}[5m]']
)
FUNCTIONS = st.sampled_from(
    [f"{name}_over_time(" for name in "avg count last max min present stddev stdvar sum".split()]
    + [
        f"{name}("
        for name in "absent_over_time changes delta deriv idelta increase irate rate resets".split()
    ]
    + ["quantile_over_time(0.3, ", "quantile_over_time(NaN, "]
)


@settings(max_examples=examples(60))
@given(
    function=FUNCTIONS,
    window=RANGES,
    values=st.lists(st.one_of(NUMBERS, st.none()), min_size=1, max_size=12),
    at=st.floats(-1000, 1000),
)
def test_any_range_of_any_samples_has_an_answer(
    function: str, window: str, values: list[float | None], at: float
) -> None:
    """Overflow, infinities, NaN, gaps: the result is a vector or an EvaluationError."""
    store = recorded({("x", SDA): values, ("y", SDA): values[::-1]}, 20.0)
    text = f"{function}{window})"
    if "__name__" in window:  # x and y become one without their names
        with contextlib.suppress(EvaluationError):
            vector(text, store, at)
        return
    assert all(isinstance(sample.value, float) for sample in vector(text, store, at))


@given(
    values=st.lists(NUMBERS, min_size=2, max_size=8),
    ahead=NUMBERS,
    at=st.floats(-1e9, 1e12),
)
def test_any_prediction_has_an_answer(values: list[float], ahead: float, at: float) -> None:
    """Whatever the line is, and however far ahead."""
    store = recorded({("x", ()): [*values]})
    number = f"({ahead!r})".replace("nan", "NaN").replace("inf", "Inf")
    got = value(f"predict_linear(x[1h] @ 600, {number})", store, at)
    assert isinstance(got, float)


def test_bounds_that_cross_hide_no_error() -> None:
    """clamp with a minimum above its maximum is empty, but what is in it must be possible."""
    store = recorded({("a", SDA): [1.0], ("a", SDB): [1.0]})
    assert vector("clamp(a, 2, 1)", store, 0.0) == []
    with pytest.raises(EvaluationError, match="many-to-many"):
        vector("clamp(a + on () a, 2, 1)", store, 0.0)
