"""packaging/prometheus: what a Prometheus and an Alertmanager of many hosts load."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from support.alertmanager import Alertmanager
from support.expression_labels import LabelInference

from iowarden.daemon.metric_labels import LABELS
from iowarden.rules.alerting import alerts
from iowarden.rules.promql import parser
from iowarden.rules.rulefile.rulefile import Rule, parse_rule_file
from iowarden.rules.rulefile.unmatched_selectors import selectors

FOLDER = Path(__file__).parents[1] / "packaging/prometheus"
RULES = FOLDER / "iowarden-central.rules.yaml"
SHIPPED = Path(__file__).parents[1] / "rules"
NAMES_NO_OBJECT = {"cause", "failure", "fstype", "severity"}
"""Labels of an alert that may be another one when it gets worse."""
OF_PROMETHEUS = {"up", "prometheus_rule_evaluation_failures_total"}
each_promtool = pytest.mark.parametrize(
    "program", ["promtool", pytest.param("promtool-3", marks=pytest.mark.system)]
)


def passes(program: str, *arguments: str | Path) -> str:
    """Return what a program prints; it has to succeed."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed: make build/tools/{program}")
    done = subprocess.run([found, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@each_promtool
def test_two_alerts_of_a_host_a_silent_host_and_an_unknown_alert(program: str) -> None:
    """Each is one alert, and stays the same one; cases and expectations are in the file."""
    text = passes(program, "test", "rules", FOLDER / "iowarden-central.rules_test.yaml")
    assert "no file match" not in text


@each_promtool
def test_prometheus_accepts_the_rules_and_the_scrape_configuration(program: str) -> None:
    """Without the files that only exist where it is installed."""
    passes(program, "check", "rules", RULES)
    passes(program, "check", "config", "--syntax-only", FOLDER / "scrape.yaml")


@pytest.mark.parametrize("program", ["amtool"])
def test_alertmanager_accepts_its_configuration(program: str) -> None:
    """And has both inhibitions."""
    assert "2 inhibit rules" in passes(program, "check-config", FOLDER / "alertmanager.yaml")


def test_an_alert_of_a_host_is_never_inhibited_because_the_host_is_down() -> None:
    """What it had last is why somebody has to go there."""
    file = yaml.safe_load((FOLDER / "alertmanager.yaml").read_text())
    targets = [text for rule in file["inhibit_rules"] for text in rule["target_matchers"]]
    assert not any("IowardenAlert" in text for text in targets)
    assert all({"instance", "job"} <= {*rule["equal"]} for rule in file["inhibit_rules"])


ALERTS = {
    # What an alert is of, and whether it is inhibited.
    ("BackupOld", "critical", "directory=/a"): False,
    ("BackupOld", "warning", "directory=/a"): True,
    ("BackupOld", "warning", "directory=/b"): False,
    ("WriteStall", "critical", "x=1"): False,
    ("WriteStall", "warning", "x=2"): True,
    ("IowardenDown", "critical", ""): False,
    ("IowardenBlind", "warning", ""): True,
}


@pytest.mark.system
def test_alertmanager_itself_inhibits_what_follows_and_nothing_else(tmp_path: Path) -> None:
    """Its own engine, with the shipped rules; the same alerts of another host stay."""
    made = Alertmanager(tmp_path)
    path = tmp_path / "alertmanager.yml"
    shipped = yaml.safe_load((FOLDER / "alertmanager.yaml").read_text())
    own = yaml.safe_load(path.read_text())
    path.write_text(json.dumps({**own, "inhibit_rules": shipped["inhibit_rules"]}))
    made.start()
    try:
        labels = [
            {"instance": "shelf:9748", "job": "iowarden", "severity": severity}
            | ({"alertname": name} if not of else {"alertname": "IowardenAlert", "alert": name})
            | dict([of.split("=")] if of else [])
            for name, severity, of in ALERTS
        ]
        follows = [one for one in labels if one["severity"] == "warning"]
        made.post([*labels, *({**one, "instance": "attic:9748"} for one in follows)])
        found = {tuple(sorted(each["labels"].items())): each for each in made.active()}
        assert len(found) == len(labels) + len(follows)
        for one, inhibited in zip(labels, ALERTS.values(), strict=True):
            status = found[tuple(sorted(one.items()))]["status"]
            assert bool(status["inhibitedBy"]) is inhibited, one
        for one in follows:
            other = {**one, "instance": "attic:9748"}
            assert not found[tuple(sorted(other.items()))]["status"]["inhibitedBy"], other
    finally:
        made.stop()


def severities_and_labels() -> dict[str, tuple[set[str], set[str]]]:
    """Return of each shipped alert its severities, and the labels that name its object."""
    declared = {name: frozenset(one.strip("[]") for one in own) for name, own in LABELS.items()}
    declared = {name: own | {"instance", "job"} for name, own in declared.items()}
    labels, found = LabelInference({**declared, "up": frozenset({"instance", "job"})}), {}
    for path in sorted(SHIPPED.glob("*.yaml")):
        for rule in (
            one for group in parse_rule_file(path.read_text(), path.name) for one in group.rules
        ):
            own = labels.of(parser.parse(rule.expression.text))
            if isinstance(rule, Rule):
                before = found.setdefault(rule.alert, (set(), set()))
                before[0].update(text.text for name, text in rule.labels if name == "severity")
                before[1].update(own - alerts._NOT_IDENTITY - NAMES_NO_OBJECT)
            else:
                labels.declare(rule.record, own)
    return found


def test_a_critical_alert_inhibits_the_same_alert_of_the_same_object_only() -> None:
    """A critical sensor of one controller is no reason to be silent about that of another one."""
    file = yaml.safe_load((FOLDER / "alertmanager.yaml").read_text())
    (rule,) = [one for one in file["inhibit_rules"] if "severity" in one["source_matchers"][0]]
    both = [
        own for given, own in severities_and_labels().values() if given >= {"critical", "warning"}
    ]
    assert {"sensor", "directory", "device", "disk", "object"} <= set().union(*both)
    assert set().union(*both) <= {*rule["equal"]}
    assert {"alert", "object"} <= {*rule["equal"]}


def test_the_central_rules_read_metrics_that_exist() -> None:
    """A name that changed would be an alert that never fires."""
    rules = [
        rule for group in parse_rule_file(RULES.read_text(), RULES.name) for rule in group.rules
    ]
    named = {
        selector.name
        for rule in rules
        for selector in selectors(parser.parse(rule.expression.text))
    }
    assert named <= LABELS.keys() | OF_PROMETHEUS | {"iowarden:alert"}
    assert [rule.alert for rule in rules if isinstance(rule, Rule)] == [
        "IowardenAlert",
        "IowardenDown",
        "IowardenAbsent",
        "IowardenDoesNotNotify",
        "IowardenBlind",
        "IowardenRulesFail",
    ]
