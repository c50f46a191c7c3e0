"""histogram_quantile: the same results as promtool, for histograms as exporters have them."""

from __future__ import annotations

import json
import math
import random
import subprocess
from typing import TYPE_CHECKING

import pytest
from support import promql_fuzz

from iowarden.rules.promql.errors import EvaluationError
from iowarden.rules.promql.evaluator import Sample, compile_expression
from iowarden.rules.promql.histogram import histogram_quantile
from iowarden.rules.promql.store import SeriesStore

if TYPE_CHECKING:
    from pathlib import Path

BOUNDS = ("-1", "0", "0.005", "0.1", "1", "2.5", "1e1", "+Inf")
RANKS = (-0.5, 0.0, 0.001, 0.5, 0.9, 0.99, 1.0, 1.5)
Bucket = tuple[str, tuple[tuple[str, str], ...], float]


def histogram(choose: random.Random, number: int) -> list[Bucket]:
    """Return the buckets of one histogram: some empty, some falling, some without an end."""
    bounds = sorted(choose.sample(BOUNDS[:-1], choose.randint(1, 6)), key=float)
    if choose.random() < 0.9:
        bounds.append(BOUNDS[-1])
    count, buckets = 0, list[Bucket]()
    for bound in bounds:
        count += choose.choice((0, 0, 1, 7, 1000, -3 if count > 3 else 0))
        labels = (("device", f"sd{number}"), ("le", bound))
        buckets.append(("latency_bucket", labels, float(count)))
    return buckets


def test_random_histograms_have_promtool_s_quantiles(tmp_path: Path) -> None:
    """A result of ours that promtool does not compute is an error of its test."""
    program = promql_fuzz.promtool()
    if program is None:
        pytest.skip("promtool is not installed (package prometheus)")
    choose = random.Random(7)
    buckets = [each for number in range(60) for each in histogram(choose, number)]
    tests = []
    for rank in RANKS:
        # NaN equals nothing, not even in promtool's tests.
        found = [each for each in histogram_quantile(rank, buckets) if not math.isnan(each[2])]
        tests.append(
            {
                "expr": f"histogram_quantile({rank}, latency_bucket) == on (device)"
                f" histogram_quantile({rank}, latency_bucket)",
                "exp_samples": [
                    {"labels": f'{{device="{labels[0][1]}"}}', "value": value}
                    for _, labels, value in found
                ],
            }
        )
    assert sum(len(test["exp_samples"]) for test in tests) > 200
    series = [
        {
            "series": f"{name}{{{','.join(f'{key}={json.dumps(text)}' for key, text in labels)}}}",
            "values": str(int(count)),
        }
        for name, labels, count in buckets
    ]
    file = tmp_path / "test.yaml"
    text = json.dumps({"tests": [{"input_series": series, "promql_expr_test": tests}]})
    # YAML's words for what JSON has none for.
    file.write_text(text.replace("-Infinity", "-.inf").replace("Infinity", ".inf"))
    done = subprocess.run(
        [program, "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


@pytest.mark.parametrize(
    ("bounds", "counts"),
    [
        (("1", "2"), (1, 2)),
        (("+Inf",), (5,)),
        (("1", "+Inf"), (0, 0)),
    ],
    ids=["no last bucket", "one bucket", "no observation"],
)
def test_what_is_no_histogram_has_no_quantile(
    bounds: tuple[str, ...], counts: tuple[float, ...]
) -> None:
    """NaN, which no threshold is above or below."""
    buckets = [
        ("x", (("le", bound),), float(count)) for bound, count in zip(bounds, counts, strict=True)
    ]
    ((name, labels, value),) = histogram_quantile(0.5, buckets)
    assert (name, labels) == ("", ())
    assert math.isnan(value)
    ((_, _, value),) = histogram_quantile(math.nan, buckets)
    assert math.isnan(value)


def test_counts_that_differ_by_a_rounding_error_are_equal() -> None:
    """Else a rate of 0.1 + 0.2 would put the quantile into a bucket that nothing fell into."""
    buckets = [
        ("x", (("le", bound),), count)
        for bound, count in (("1", 0.3), ("2", 0.1 + 0.2), ("4", 0.6), ("+Inf", 0.6))
    ]
    ((_, _, value),) = histogram_quantile(0.5, buckets)
    assert value == 1.0


def test_a_rule_may_use_it() -> None:
    """Buckets of two names with equal labels are refused, as by Prometheus."""
    store = SeriesStore()
    for name in ("reads_bucket", "writes_bucket"):
        for bound, count in (("0.1", 90.0), ("1", 100.0), ("+Inf", 100.0), ("none", 7.0)):
            store.append(name, (("device", "sda"), ("le", bound)), 0.0, count)
    compiled = compile_expression("histogram_quantile(0.95, reads_bucket)")
    assert compiled.evaluate(store, 0.0) == [Sample("", (("device", "sda"),), 0.55)]
    compiled = compile_expression('histogram_quantile(0.95, {__name__=~".+_bucket"})')
    with pytest.raises(EvaluationError, match="same labelset"):
        compiled.evaluate(store, 0.0)
