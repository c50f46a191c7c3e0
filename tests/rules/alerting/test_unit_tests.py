"""Unit tests of rules in promtool's format: the same tests pass in both programs."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.daemon.cli import main
from iowarden.rules.alerting.unit_tests import parse_unit_tests, run
from iowarden.rules.promql import notation
from iowarden.rules.promql.errors import PromqlError
from iowarden.rules.rulefile.rulefile import parse_rule_file
from iowarden.rules.yaml_nodes import RuleFileError

if TYPE_CHECKING:
    from pathlib import Path

RULES = """\
groups:
  - name: late
    rules:
      - alert: TwiceHigh
        expr: twice > 20
        annotations:
          # Sorted: in promtool the order of a query is that of a map.
          summary: '{{ with query "x" }}{{ . | sortByLabel "device" | first | value }}{{ end }}'
  - name: early
    rules:
      - record: twice
        expr: x * 2
        labels: {own: "a\\"b"}
      - alert: High
        expr: twice > 10
        for: 2m
        keep_firing_for: 3m
        labels: {severity: warning, empty: ""}
        annotations:
          summary: "{{ $labels.device }}: {{ $value }} {{ $externalURL }} {{ $externalLabels.a }}"
          none: ""
      - alert: Seen
        expr: ALERTS{alertname="High", alertstate="firing"} == 1
      - alert: Always
        expr: vector(1)
"""
HEAD = """\
rule_files: [rules.yaml]
evaluation_interval: 1m
group_eval_order: [early, late]
tests:
  - name: disks
    interval: 1m
    external_labels: {a: b}
    external_url: http://db1
    input_series:
      - {series: 'x{device="sda"}', values: '1+1x10 stale 5 _x2 -1e1 .5'}
      - {series: 'x{device="sdb"}', values: '20x4 stale _x20'}
"""
SUBQUERY = "    promql_expr_test: [{expr: 'count_over_time(x[4m30s:])', eval_time: 4m45s}]\n"
CASES = {
    "fires after its time": """\
    alert_rule_test:
      - eval_time: 4m
        alertname: High
        exp_alerts:
          - exp_labels: {severity: warning, device: sdb, own: 'a"b'}
            exp_annotations: {summary: 'sdb: 40 http://db1 b', none: ''}
      - {eval_time: 1m59s, alertname: High}
""",
    "asked between two evaluations": """\
    alert_rule_test:
      - {eval_time: 2m30s, alertname: High, exp_alerts: []}
      - {eval_time: 90s, alertname: Seen, exp_alerts: [exp_labels: {severity: warning}]}
""",
    "kept and then resolved": """\
    alert_rule_test:
      - {eval_time: 12m, alertname: High}
      - {eval_time: 13m, alertname: High}
      - {eval_time: 14m, alertname: High}
      - {eval_time: 15m, alertname: High}
""",
    "ALERTS and their end": """\
    alert_rule_test:
      - {eval_time: 10m, alertname: Seen}
      - {eval_time: 16m, alertname: Seen}
    promql_expr_test:
      - {expr: 'ALERTS{alertname="High"}', eval_time: 16m}
      - {expr: ALERTS_FOR_STATE, eval_time: 9m}
""",
    "a query in a template, and the order of groups": """\
    alert_rule_test: [{eval_time: 0m, alertname: TwiceHigh}]
""",
    "an alert that no file has": """\
    alert_rule_test:
      - {eval_time: 3m, alertname: Other}
      - {eval_time: 3m, alertname: Other, exp_alerts: [exp_labels: {a: b}]}
""",
    "an alert without labels": """\
    alert_rule_test: [{eval_time: 0s, alertname: Always, exp_alerts: [{}]}]
""",
    "expressions that are right": """\
    promql_expr_test:
      - {expr: x, eval_time: 90s, exp_samples: [
          {labels: 'x{device="sdb"}', value: 2e1}, {labels: 'x{device="sda"}', value: 2}]}
      - {expr: 'x{device="sda"}', eval_time: 11m, exp_samples: []}
      - {expr: 'sum(x) / 0', eval_time: 2m, exp_samples: [{labels: '{}', value: .inf}]}
      - {expr: '1 + 1', eval_time: 2m, exp_samples: [{labels: '{}', value: 2}]}
      - {expr: twice, eval_time: 10m, exp_samples: [
          {labels: '{__name__="twice", device="sda", own="a\\"b"}', value: 22}]}
""",
    "expressions that are wrong": """\
    promql_expr_test:
      - {expr: 0.1 + 0.2, eval_time: 1h30m, exp_samples: [{labels: '{}', value: 0.3}]}
      - {expr: 'vector(0) / 0', eval_time: 1d, exp_samples: [{labels: '{}', value: .nan}]}
      - {expr: x * -1e-9, eval_time: 1m500ms}
      - {expr: nothing, eval_time: 0s, exp_samples: [
          {labels: 'x{a="b", c=""}', value: 123456789.5}, {labels: 'y', value: -.inf}]}
""",
}


def both(text: str, directory: Path, capfd: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Return the results of promtool and of our command for a file of tests."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (package prometheus)")
    (directory / "rules.yaml").write_text(RULES)
    tests = directory / "tests.yaml"
    tests.write_text(text)
    theirs = subprocess.run(
        [promtool, "test", "rules", str(tests)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    capfd.readouterr()
    status = main.main(["rules", "test", str(tests)])
    ours = capfd.readouterr()
    assert status == theirs.returncode
    return said(theirs.stdout), said(ours.out + ours.err)


def said(text: str) -> str:
    """Return the non-empty lines."""
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


@pytest.mark.parametrize("case", CASES)
def test_promtool_reports_the_same(
    case: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A file of tests passes or fails as in promtool, with the same messages."""
    theirs, ours = both(HEAD + CASES[case], tmp_path, capfd)
    assert ours == theirs


def test_subqueries_step_as_rules_are_evaluated(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A subquery without a step: every 20 s here, in promtool and in iowarden."""
    text = HEAD.replace("evaluation_interval: 1m", "evaluation_interval: 20s") + SUBQUERY
    theirs, ours = both(text, tmp_path, capfd)
    assert 'got: {device="sda"} 1.4E+01, {device="sdb"} 1.4E+01' in ours
    assert ours == theirs


def failures(tests: str, rules: str = RULES) -> list[str]:
    """Return the failures of some tests."""
    return run(parse_unit_tests(tests, "t.yaml"), parse_rule_file(rules, "r.yaml"))


def test_what_is_not_as_expected_is_reported_with_what_was_got() -> None:
    """Names of test and alert, the time, and both sides in full."""
    case = CASES["asked between two evaluations"]
    (failure,) = failures(HEAD + case.partition("      - {eval_time: 90s")[0])
    assert failure == (
        "    name: disks,\n"
        "    alertname: High, time: 2m30s, \n"
        "        exp:[], \n"
        "        got:[\n"
        "            0:\n"
        '              Labels:{alertname="High", device="sdb", own="a\\"b", severity="warning"}\n'
        '              Annotations:{none="", summary="sdb: 40 http://db1 b"}\n'
        "            ]"
    )


def test_a_rule_that_fails_ends_its_test_and_no_other() -> None:
    """As promtool: what follows is of no use, and the next test starts from the beginning."""
    rules = "groups: [{name: g, limit: 1, rules: [{record: y, expr: x}]}]"
    one = "  - {input_series: [{series: 'x{a=\"1\"}', values: 1x5}, {series: x, values: _ 1}],\n"
    asked = "     promql_expr_test: [{expr: x, eval_time: 2m}]}\n"
    found = failures(f"tests:\n{one}{asked}{one}{asked}", rules)
    assert found == ["    rule: y, time: 1m0s, err: exceeded limit of 1 with 2 series"] * 2


def test_fuzzy_comparison_forgives_the_last_bit_only() -> None:
    """Prometheus 3's `fuzzy_compare`: 0.1 + 0.2 is 0.3, and 0.3000000000000002 is not."""
    text = "fuzzy_compare: {}\ntests: [promql_expr_test: [{{expr: 0.1 + 0.2, exp_samples: [{}]}}]]"
    near, far = "{labels: '{}', value: 0.3}", "{labels: '{}', value: 0.3000000000000002}"
    assert failures(text.format("true", near)) == []
    assert len(failures(text.format("true", far))) == 1
    assert len(failures(text.format("false", near))) == 1


@pytest.mark.parametrize(
    "begin", ["1609459200", "'2021-01-01T00:00:00Z'", "2021-01-01T01:00:00+01:00"]
)
def test_a_test_may_begin_at_another_time_than_1970(begin: str) -> None:
    """Prometheus 3's `start_timestamp`, for rules that read a calendar."""
    tests = (
        f"tests:\n  - start_timestamp: {begin}\n"
        "    input_series: [{series: x, values: '0+1x10'}]\n"
        "    promql_expr_test:\n"
        "      - {expr: time(), eval_time: 5m, exp_samples: [{labels: '{}', value: 1609459500}]}\n"
        "      - {expr: x, eval_time: 5m, exp_samples: [{labels: x, value: 5}]}\n"
    )
    assert failures(tests) == []


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("tests: 5", "1:8", "tests: expected a list, got a text"),
        ("tests: [{interva: 1m}]", "1:10", "unknown key 'interva'; known are name, interval"),
        ("evaluation_interval: 1 minute", "1:22", "expected a duration such as 30s"),
        ("group_eval_order: [a, b, a]", "1:26", "group name repeated in evaluation order: 'a'"),
        ("tests: [alert_rule_test: [{eval_time: 5m}]]", "1:27", "expected the alert's name"),
        ("tests: [input_series: [{series: x, values: 1 2 z}]]", "1:24", "got 'z', in column 5"),
        ("tests: [input_series: [{series: x, values: '{{}}'}]]", "1:24", "got a histogram"),
        ("tests: [input_series: [{series: 'x{a>1}'}]]", "1:24", "in column 4"),
        ("tests: [promql_expr_test: [{exp_samples: [{value: x}]}]]", "1:51", "expected a number"),
        ("tests: [promql_expr_test: [{exp_samples: [{labels: 1}]}]]", "1:43", "expected a metric"),
        ("tests: [start_timestamp: yesterday]", "1:26", "expected seconds since 1970"),
        ("fuzzy_compare: perhaps", "1:16", "expected true or false, got 'perhaps'"),
        ("tests: [", "1:9", "not YAML"),
    ],
)
def test_a_mistake_is_reported_at_its_place(text: str, place: str, message: str) -> None:
    """File, line and column, what was expected and what was got."""
    with pytest.raises(RuleFileError) as caught:
        parse_unit_tests(text, "t.yaml")
    (error,) = caught.value.errors
    assert error.startswith(f"'t.yaml':{place}: ")
    assert message in error


def test_tests_that_would_never_end_are_refused() -> None:
    """A year in steps of a millisecond is a mistake."""
    text = "evaluation_interval: 1ms\ntests: [promql_expr_test: [{expr: x, eval_time: 1y}]]"
    (failure,) = failures(text)
    assert "expected at most 1000000 evaluations, got 31536000001" in failure


@given(st.text(max_size=200) | st.text("tesrulfi_:[]{}- \n0123456789'x", max_size=200))
def test_no_text_makes_anything_but_tests_or_their_errors(text: str) -> None:
    """For any content of the file."""
    with contextlib.suppress(RuleFileError):
        parse_unit_tests(text, "t.yaml")


# --- series


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-2+4x3", [-2, 2, 6, 10]),
        (" 1-2x4", [1, -1, -3, -5, -7]),
        ("1x4", [1, 1, 1, 1, 1]),
        ("1 _x3 stale", [1, None, None, None, "stale"]),
        ("_ _x0 stalex1", [None, "stale", "stale"]),
        ("1e+2+1e-1x1 .5 -0.25 2.", [100, 100.1, 0.5, -0.25, 2]),
        ("+Inf -inf", [float("inf"), float("-inf")]),
        ("0+0.1x3", [0, 0.1, 0.2, 0.1 + 0.1 + 0.1]),
        ("", []),
    ],
)
def test_values_are_written_short(text: str, expected: list[notation.SeriesValue]) -> None:
    """The notation of unit tests; a sum grows as Prometheus adds it up."""
    assert notation.values(text) == expected


@pytest.mark.parametrize("text", ["1+1", "x5", "_+1x3", "1x", "0x1F+", "1,2", "1x-3", "1x1e3"])
def test_values_that_are_none_are_refused(text: str) -> None:
    """Reported with the column, not accepted as something else."""
    with pytest.raises(PromqlError) as caught:
        notation.values("1 " + text)
    assert caught.value.column == 3


def test_a_billion_values_are_refused_at_once() -> None:
    """A few characters cannot fill the memory."""
    for text in ("1x1000000000", "1x999990 1x999990", "_x" + "9" * 5000):
        with pytest.raises(PromqlError, match="expected fewer than 1000000 values"):
            notation.values(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("up", ("up", ())),
        ("a:b{}", ("a:b", ())),
        ("{}", ("", ())),
        ("x {b='2', a=\"1\\n\", }", ("x", (("a", "1\n"), ("b", "2")))),
        ('{__name__="x", on="1", e=""}', ("x", (("on", "1"),))),
    ],
)
def test_a_series_is_written_as_a_selector(
    text: str, expected: tuple[str, tuple[tuple[str, str], ...]]
) -> None:
    """Name and labels; a label without a value is none."""
    assert notation.series(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "x{",
        'x{a="1"',
        "x{a}",
        'x{a=~"1"}',
        "x y",
        'x{a="1" b="2"}',
        "x[5m]",
        'x{a="1",a="2"}',
    ],
)
def test_what_is_no_series_is_refused(text: str) -> None:
    """A selector of many series, or a typing error."""
    with pytest.raises(PromqlError):
        notation.series(text)
