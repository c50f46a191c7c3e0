"""The shipped rules in a Prometheus that scrapes many hosts: nothing crosses from host to host.

There each series has the labels of its target, `instance` and `job`, which together name one host;
in the daemon neither exists, and both match as empty. Held for the parsed expressions of every
rule and of every query in a text.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.expression_labels import queries

from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import SHIPPED_INTERVALS_SECONDS, load_shipped
from iowarden.rules.alerting.unit_tests import parse_unit_tests, run
from iowarden.rules.promql import ast, parser
from iowarden.rules.rulefile.rulefile import RecordingRule, Rule, RuleGroup, parse_rule_file
from iowarden.rules.rulefile.unmatched_selectors import selectors

RULES = Path(__file__).parents[3] / "rules"
HOST = {"instance", "job"}
SHIPPED: dict[str, tuple[RuleGroup, ...]] = {
    path.name: parse_rule_file(path.read_text(), path.name) for path in sorted(RULES.glob("*.yaml"))
}
each_file = pytest.mark.parametrize("file", SHIPPED)
OF_NO_HOST = {"absent", "absent_over_time", "scalar", "vector"}
"""Functions whose result has no labels, or those that the expression says."""


def crossings(node: ast.Node) -> list[str]:
    """Return what in an expression joins or adds up series of different hosts, in words."""
    found = [each for child in ast.children(node) for each in crossings(child)]
    match node:
        case ast.Binary(matching=matching) if not is_number(node.left) and not is_number(
            node.right
        ):
            if matching.on and not matching.labels >= HOST:
                found.append(f"{node.operator} on ({', '.join(sorted(matching.labels))})")
            if not matching.on and matching.labels & HOST:
                found.append(f"{node.operator} ignoring ({', '.join(sorted(matching.labels))})")
        case ast.Aggregation(labels=labels):
            if bool({*labels} & HOST) if node.without else not {*labels} >= HOST:
                word = "without" if node.without else "by"
                found.append(f"{node.operator} {word} ({', '.join(labels)})")
        case ast.Call(function=function) if function in OF_NO_HOST:
            found.append(f"{function}()")
    return found


def is_number(node: ast.Node) -> bool:
    """Return whether an operand has no series."""
    return not list(selectors(node)) and not crossings(node)


def of_other_hosts(text: str) -> list[str]:
    """Return the selectors of a query that also select series of other hosts than the alert's."""
    return [
        selector.name
        for selector in selectors(parser.parse(text))
        if {(one.label, one.operator, one.value) for one in selector.matchers if one.label in HOST}
        != {("instance", "=", "$labels.instance"), ("job", "=", "$labels.job")}
    ]


def rules(file: str) -> list[Rule | RecordingRule]:
    """Return the rules of a file."""
    return [rule for group in SHIPPED[file] for rule in group.rules]


def texts(rule: Rule | RecordingRule) -> list[str]:
    """Return a rule's templates."""
    if isinstance(rule, RecordingRule):
        return []
    return [template.text for _, template in (*rule.labels, *rule.annotations)]


@each_file
def test_no_expression_joins_or_adds_up_series_of_different_hosts(file: str) -> None:
    """Two hosts with a disk sda: 'on (device)' fails for both; 'on ()' mixes up all hosts."""
    for rule in rules(file):
        assert crossings(parser.parse(rule.expression.text)) == [], f"{file}:{rule.line}"


@each_file
def test_every_query_of_a_text_selects_the_host_of_its_alert(file: str) -> None:
    """Otherwise the mail about one host has the numbers of another."""
    for rule in rules(file):
        for text in texts(rule):
            for query in queries(text):
                assert of_other_hosts(query) == [], f"{file}:{rule.line}: {query}"
                assert crossings(parser.parse(query)) == [], f"{file}:{rule.line}: {query}"


@each_file
def test_no_query_of_a_text_is_overlooked(file: str) -> None:
    """The test above reads as many queries as the templates have."""
    for rule in rules(file):
        for text in texts(rule):
            actions = " ".join(re.findall(r"\{\{.*?\}\}", text, re.DOTALL))
            assert len(queries(text)) == len(re.findall(r"\bquery\b", actions)), text


@pytest.mark.parametrize(
    ("expression", "crossing"),
    [
        ("a and on () b", ["and on ()"]),
        ("a and on (instance) b", ["and on (instance)"]),
        ("a >= on (device) b", [">= on (device)"]),
        ("a unless ignoring (job, device) b", ["unless ignoring (device, job)"]),
        ("sum(a)", ["sum by ()"]),
        ("sum by (instance) (a)", ["sum by (instance)"]),
        ("max without (job) (a)", ["max without (job)"]),
        ("topk(1, a)", ["topk by ()"]),
        ("a unless absent(b)", ["absent()"]),
        ("a > scalar(b)", ["scalar()"]),
        ("a or vector(1)", ["vector()"]),
        ("a and b", []),
        ("a > 2 * b", []),
        ("a and on (instance, job, device) max without (severity) (b)", []),
        ("a unless ignoring (device) count by (job, instance) (b)", []),
    ],
)
def test_what_crosses_hosts_is_recognised(expression: str, crossing: list[str]) -> None:
    """The check itself."""
    assert crossings(parser.parse(expression)) == crossing


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ('{{ query "a" }}', ["a"]),
        ('{{ query (printf "a{instance=%q}" $labels.instance) }}', ["a"]),
        ('{{ query (printf "a{instance=%q,job=%q}" $labels.job $labels.instance) }}', ["a"]),
        ('{{ query (printf "a{instance=%q,job=%q}" $labels.instance $labels.job) }}', []),
        ('{{ query (printf "a{instance=%q,job=%q} or b" $labels.instance $labels.job) }}', ["b"]),
        ('{{ query (printf "a{x=%q,instance=%q,job=%q}" (.) $labels.instance $labels.job) }}', []),
        ("{{ query (printf `a{instance!=%q,job=%q}` $labels.instance $labels.job) }}", ["a"]),
    ],
)  # fmt: skip
def test_a_query_that_reads_other_hosts_is_recognised(text: str, others: list[str]) -> None:
    """The check itself."""
    assert [name for query in queries(text) for name in of_other_hosts(query)] == others


JOINED = """
groups:
  - name: joined
    rules:
      - alert: Joined
        expr: |
          a and on (instance, job, device) sum by (instance, job, device) (b) > 0
          unless on (instance, job) c == 1
        annotations:
          summary: >-
            {{ with query (printf "b{instance=%q,job=%q}" $labels.instance $labels.job) }}
            {{- . | first | value }}{{ end }}
"""
ALONE = """
evaluation_interval: 1s
tests:
  - interval: 1s
    input_series:
      - {series: 'a{device="sda"}', values: 1x9}
      - {series: 'b{device="sda"}', values: 7x9}
      - {series: 'c', values: 0x4 1x4}
    alert_rule_test:
      - eval_time: 1s
        alertname: Joined
        exp_alerts: [{exp_labels: {device: sda}, exp_annotations: {summary: "7"}}]
      - {eval_time: 6s, alertname: Joined, exp_alerts: []}
"""


def test_in_the_daemon_the_labels_of_the_host_match_as_empty() -> None:
    """No series has them there: joins, sums and queries find the same."""
    assert run(parse_unit_tests(ALONE, "t"), parse_rule_file(JOINED, "r")) == []


def test_no_rule_file_sets_how_often_a_prometheus_evaluates_it() -> None:
    """Once a second for a whole fleet; the daemon's own schedule is by group."""
    groups = [group for file in SHIPPED.values() for group in file]
    assert {group.name for group in groups if group.interval_seconds} == set()
    assert SHIPPED_INTERVALS_SECONDS.keys() <= {group.name for group in groups}


def test_the_daemon_evaluates_hangs_and_stalls_every_second() -> None:
    """A hang of 11 s does not fall between two evaluations."""
    every = {
        group.name: group.interval_seconds for group in load_shipped(parse_config("", "defaults"))
    }
    assert {name for name, seconds in every.items() if seconds == 1} == {
        "device",
        "memory",
        "writeback",
        "zfs_pools",
    }
    assert every["md"] == every["queue"] == every["iowarden"] == 5
    assert every["smart"] == 15
