"""Which rules could be true only because their history is incomplete."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from iowarden.rules.promql.errors import EvaluationError
from iowarden.rules.promql.evaluator import compile_expression
from iowarden.rules.promql.evidence import Drift, drift
from iowarden.rules.promql.parser import parse
from iowarden.rules.promql.store import SeriesStore


@pytest.mark.parametrize(
    "text",
    [
        "x > 5",
        "absent(x)",
        "increase(errors[1h]) > 0",
        "rate(errors[5m]) * 60 > 1",
        "sum by (device) (increase(errors[1h])) >= 3",
        "avg(rate(seconds[5m])) * 100 > 80",
        "max_over_time(x[1h]) > 5",
        "5 < max_over_time(x[1h])",
        "min_over_time(x[1h]) < 5",
        "count_over_time((x > 5)[10m:1m]) >= 3",
        "changes(x[1d]) and on(device) y == 1",
        "irate(seconds[5m]) > 0.5",
        "last_over_time(x[1h]) == 3",
        "max_over_time(rate(x[5m])[1h:1m]) > 9",
        "x > 3 and x offset 1h > 3",
        "x > 1 unless y == 1",
        "-min_over_time(x[1h]) > -5",
        "2 - min_over_time(x[1h]) > 1",
        "round(label_replace(max_over_time(x[1h]), 'a', 'b', 'c', 'd')) > bool 5 > 0 or y",
        "seen >= 100",
    ],
)
def test_what_was_seen_is_enough(text: str) -> None:
    """More history could only make it truer: such an alert need not wait."""
    assert not drift(parse(text), _recorded).vanishes


@pytest.mark.parametrize(
    "text",
    [
        "absent_over_time(x[1d])",
        "absent(x offset 1d)",
        "rate(errors[15m]) / rate(errors[1d]) > 2",
        "min_over_time(x[1h]) > 5",
        "avg_over_time(x[1h]) > 5",
        "increase(backups[1d]) < 1",
        "1 - avg(rate(idle[5m])) > 0.9",
        "predict_linear(free[6h], 4 * 3600) < 0",
        "deriv(x[1h]) > 1",
        "x > 2 * max_over_time(x[1h])",
        "x unless x offset 1h",
        "x @ 1000 unless y or absent_over_time(z[5m])",
        "count(rate(x[5m])) < 3",
        "count(max_over_time(x[5m]) > 3) < 3",
        "max_over_time(x[1h]) == 5",
        "topk(1, max_over_time(x[1h]))",
        "quantile(0.9, rate(x[5m])) > 1",
        "-max_over_time(x[1h]) > -5",
        "max_over_time(x[1h]) * -1 > -5",
        "count_over_time((rate(x[5m]) < 5)[1h:1m]) > 3",
        "sum_over_time(absent(x)[1h:1m]) > 3 and absent_over_time(x[1h])",
        "vector(scalar(max_over_time(x[1h]))) < 5 or vector(scalar(rate(x[5m]))) > 1",
        "(x offset 30s or x) > 5",
        "seen < 100",
    ],
)
def test_what_was_not_seen_could_be_the_reason(text: str) -> None:
    """More history could end it: such an alert waits for its window."""
    assert drift(parse(text), _recorded).vanishes


def _recorded(name: str) -> Drift:
    return drift(parse("count_over_time(x[2m])" if name == "seen" else "y"))


_RANGES = st.builds(
    "{}(x[{}s])".format,
    st.sampled_from(
        """avg_over_time changes count_over_time delta deriv idelta last_over_time max_over_time
        min_over_time present_over_time resets stddev_over_time sum_over_time""".split()
    ),
    st.sampled_from((20, 60)),
)
_VECTORS = st.recursive(
    _RANGES | st.sampled_from(("x", "x offset 30s", "absent(x offset 30s)")),
    lambda parts: st.one_of(
        st.builds("({} {} {})".format, parts, st.sampled_from(("+", "*", "or")), parts),
        st.builds("({} {} {})".format, parts, st.sampled_from(("and", "unless")), parts),
        st.builds(
            "({} {} {})".format,
            parts,
            st.sampled_from((">", "<", ">=", "<=", "==", "!=", "> bool", "< bool")),
            parts | st.integers(0, 8).map(str),
        ),
        st.builds("{}({})".format, st.sampled_from(("sum", "max", "min", "count")), parts),
        st.builds("max_over_time({}[30s:10s])".format, parts),
        st.builds("count_over_time({}[30s:10s])".format, parts),
        st.builds("ceil({})".format, parts),
    ),
    max_leaves=4,
)


@given(text=_VECTORS, values=st.lists(st.integers(0, 6), min_size=8, max_size=8), since=st.data())
def test_nothing_that_is_believed_at_once_is_taken_back(
    text: str, values: list[int], since: st.DataObject
) -> None:
    """What is true of the end of a history, and called certain, is true of all of it."""
    assume(not drift(parse(text)).vanishes)
    first = since.draw(st.integers(1, 7))
    found = []
    for begin in (first, 0):
        store = SeriesStore({"x": 1000.0})
        for number in range(begin, 8):
            store.append("x", (), 1000.0 + 10 * number, float(values[number]))
        try:
            result = compile_expression(text).evaluate(store, 1070.0)
        except EvaluationError:
            reject()
        assert isinstance(result, list)
        found.append({sample.labels for sample in result if not math.isnan(sample.value)})
    assert found[0] <= found[1]
