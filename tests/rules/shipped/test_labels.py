"""Every label that a shipped rule, template or unit test names is a label of its metric."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.expression_labels import LabelInference

from iowarden.daemon.metric_labels import LABELS
from iowarden.rules.alerting.unit_tests import parse_unit_tests
from iowarden.rules.promql import parser
from iowarden.rules.rulefile.rulefile import RecordingRule, RuleGroup, parse_rule_file

RULES = Path(__file__).parents[3] / "rules"
UNITS = Path(__file__).parents[1] / "units"
SHIPPED: dict[str, tuple[RuleGroup, ...]] = {
    path.name: parse_rule_file(path.read_text(), path.name) for path in sorted(RULES.glob("*.yaml"))
}
TARGET = frozenset({"instance", "job"})
"""Labels that each series has in a Prometheus, and none in the daemon."""
OWN_ALERT = TARGET | {"alertname", "alertstate", "device"}
"""Of the only alert that reads whether it fires: DmRaidDegraded."""
DECLARED = {
    name: frozenset(each.strip("[]") for each in own) | TARGET for name, own in LABELS.items()
}


def inference() -> LabelInference:
    """Return one that knows the recorded series, too."""
    found = LabelInference({**DECLARED, "up": TARGET, "ALERTS": OWN_ALERT})
    for rule in (r for groups in SHIPPED.values() for g in groups for r in g.rules):
        if isinstance(rule, RecordingRule):
            result = found.of(parser.parse(rule.expression.text))
            found.declare(rule.record, result | {name for name, _ in rule.labels})
    return found


@pytest.mark.parametrize("file", SHIPPED)
def test_expressions_and_templates_of_a_file_name_labels_that_exist(file: str) -> None:
    """A label by a former name compares with '' and renders '': no error says so."""
    labels = inference()
    for rule in (rule for group in SHIPPED[file] for rule in group.rules):
        own = labels.of(parser.parse(rule.expression.text))
        if not isinstance(rule, RecordingRule):
            for _, template in (*rule.labels, *rule.annotations):
                labels.template(template.text, own | {name for name, _ in rule.labels})
        assert labels.problems == [], f"{file}:{rule.line}"


@pytest.mark.parametrize("path", sorted(UNITS.glob("*.yaml")), ids=lambda path: path.name)
def test_the_series_of_unit_tests_have_labels_of_their_metric(path: Path) -> None:
    """Otherwise a unit test passes on a series that no machine has."""
    declared = inference().declared
    for case in parse_unit_tests(path.read_text(), path.name).tests:
        for series in case.series:
            own = declared.get(series.name)
            assert own is not None, (path.name, series.name)
            assert {name for name, _ in series.labels} <= own or "..." in own, series


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ('a{path="x"}', "a: no label 'path'"),
        ("sum by (host) (a)", "sum by or without: no label 'host'"),
        ("a and on(device, host) b", "and on: no label 'host'"),
        ("a * on(device) group_left(serial) b", "group_left: no label 'serial'"),
        ("a / ignoring(host) b", "/ ignoring: no label 'host'"),
        ('label_replace(a, "x", "$1", "host", "(.*)")', "label_replace: no label 'host'"),
        ("missing_total", "no such metric: 'missing_total'"),
    ],
)
def test_a_label_that_no_metric_has_is_found_in_an_expression(
    expression: str, problem: str
) -> None:
    """a{device}, b{device,disk}."""
    labels = LabelInference({"a": frozenset({"device"}), "b": frozenset({"device", "disk"})})
    labels.of(parser.parse(expression))
    assert {each.split(", only")[0] for each in labels.problems} == {problem}


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ('{{ with query (printf `b{device=%q}` $labels.device) }}{{ label "disk" . }}{{ end }}', 0),
        ("{{ $labels.disk }}", 1),
        ('{{ range query "b" | sortByLabel "serial" }}{{ .Labels.disk }}{{ end }}', 1),
        ('{{ range query "b" }}{{ .Labels.serial }}{{ end }}', 1),
        ('{{ range query "b" }}{{ end }}{{ .Labels.disk }}', 1),
        ('{{ with query "b" }}{{ if true }}{{ . | first | label "host" }}{{ end }}{{ end }}', 1),
        ('{{ if query "b{host=`x`}" }}{{ end }}', 1),
    ],
)  # fmt: skip
def test_a_label_that_no_metric_has_is_found_in_a_template(text: str, problems: int) -> None:
    """The alert has {device}, b {device,disk}."""
    labels = LabelInference({"b": frozenset({"device", "disk"})})
    labels.template(text, frozenset({"device"}))
    assert len(labels.problems) == problems, labels.problems
