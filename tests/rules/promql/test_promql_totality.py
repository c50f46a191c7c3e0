"""Whatever loads can be evaluated: a result or an EvaluationError, and no other exception."""

from __future__ import annotations

import contextlib
import math

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.tiers import examples

from iowarden.rules.promql.errors import EvaluationError
from iowarden.rules.promql.evaluator import Sample, compile_expression
from iowarden.rules.promql.functions import ELEMENTWISE
from iowarden.rules.promql.ranges import FUNCTIONS
from iowarden.rules.promql.store import SeriesStore

HARD = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e308, -1e308, 5e-324, 1e19, -0.3)
NUMBERS = ("0", "-0", "1", "-1", "Inf", "-Inf", "NaN", "1e308", "-1e308", "5e-324", "1e19", "0.5")
OPERATORS = ("+", "-", "*", "/", "%", "^", "atan2")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
MATCHINGS = ("", "on () ", "ignoring (b) ", "on (a) group_left (b) ", "on (a) group_right () ")
SELECTORS = ("x", 'x{a="1"}', '{__name__=~"x|y"}', "y offset 1m", "x @ 30", "none", "y @ end()")
AGGREGATIONS = ("avg", "count", "group", "max", "min", "stddev", "stdvar", "sum")

SCALARS = st.recursive(
    st.sampled_from((*NUMBERS, "time()", "pi()", "scalar(x)", 'scalar(x{a="1"})')),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(OPERATORS), inner)
        | st.builds("({} {} bool {})".format, inner, st.sampled_from(COMPARISONS), inner)
        | st.builds("-({})".format, inner)
    ),
    max_leaves=4,
)


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operation, grouping = st.sampled_from(OPERATORS), st.sampled_from(("by (a)", "without (a)", ""))
    ranges = st.builds("{}[{}]".format, st.sampled_from(("x", "y")), st.sampled_from(("2m", "90s")))
    ranges |= st.builds("({})[{}]".format, inner, st.sampled_from(("1m:20s", "2m:", "5m:1m")))
    return st.one_of(
        st.builds("({} {} {}{})".format, inner, operation, st.sampled_from(MATCHINGS), inner),
        st.builds(
            "({} {} {}{})".format,
            inner,
            st.sampled_from(COMPARISONS),
            st.sampled_from(("", "bool ", "bool on (a) ")),
            inner,
        ),
        st.builds("({} {} {})".format, inner, st.sampled_from(("and", "or", "unless")), inner),
        st.builds("({} {} ({}))".format, inner, operation, SCALARS),
        st.builds("(({}) {} {})".format, SCALARS, operation, inner),
        st.builds("-{}".format, inner),
        st.builds("{}({})".format, st.sampled_from(sorted(ELEMENTWISE)), inner),
        st.builds("{}({})".format, st.sampled_from(("absent", "sort", "timestamp")), inner),
        st.builds("{}({})".format, st.sampled_from((*sorted(FUNCTIONS), "deriv")), ranges),
        st.builds("predict_linear({}, {})".format, ranges, SCALARS),
        st.builds("quantile_over_time({}, {})".format, SCALARS, ranges),
        st.builds("round({}, {})".format, inner, SCALARS),
        st.builds("clamp({}, {}, {})".format, inner, SCALARS, SCALARS),
        st.builds("{} {} ({})".format, st.sampled_from(AGGREGATIONS), grouping, inner),
        st.builds(
            "{} {} ({}, {})".format,
            st.sampled_from(("topk", "bottomk", "quantile")),
            grouping,
            SCALARS,
            inner,
        ),
        st.builds('count_values {} ("b", {})'.format, grouping, inner),
        st.builds('label_replace({}, "b", "$1$2", "a", "(.*)(1)?")'.format, inner),
        st.builds('label_join({}, "__name__", "", "a")'.format, inner),
    )


VECTORS = st.recursive(
    st.sampled_from(SELECTORS) | st.builds("vector({})".format, SCALARS), _larger, max_leaves=5
)


@settings(max_examples=examples(80), suppress_health_check=[HealthCheck.too_slow])
@given(
    text=VECTORS | SCALARS,
    values=st.lists(st.sampled_from(HARD) | st.none(), min_size=1, max_size=8),
    at=st.sampled_from((0.0, 59.5, 120.0, 400.0, -60.0, 1.8e9)),
)
def test_every_expression_over_any_samples_has_an_end(
    text: str, values: list[float | None], at: float
) -> None:
    """Division by zero, overflow, domains, gaps and duplicates: Go's answer, or an error."""
    store = SeriesStore(any_retention_seconds=1e9)
    for number, value in enumerate(values):
        for shift, (name, label) in enumerate((("x", "1"), ("x", "2"), ("y", "1"))):
            labels = (("a", label),)
            if value is None:
                store.mark_stale(name, labels, 20.0 * number + shift)
            else:
                store.append(name, labels, 20.0 * number + shift, value)
    expression = compile_expression(text)
    with contextlib.suppress(EvaluationError):
        result = expression.evaluate(store, at)
        samples = [Sample("", (), result)] if isinstance(result, float) else result
        assert all(isinstance(sample.value, float) for sample in samples)
        assert len({(sample.name, sample.labels) for sample in samples}) == len(samples)
