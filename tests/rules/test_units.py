"""The unit tests of the shipped rules, in promtool's format: they pass, and leave no alert out."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from iowarden.daemon.cli import main
from iowarden.daemon.config.rule_files import load_files
from iowarden.rules.alerting.unit_tests import AlertTest, parse_unit_tests
from iowarden.rules.rulefile.overrides import severity
from iowarden.rules.rulefile.rulefile import Rule

RULES = Path(__file__).parents[2] / "rules"
UNITS = Path(__file__).parent / "units"

FILES = sorted(RULES.glob("*.yaml"))
each_file = pytest.mark.parametrize("rules", FILES, ids=lambda p: p.stem)
LONG = {"controllers", "filesystem", "memory", "writeback"}
"""What takes promtool seconds each."""


def unit_tests(rules: Path) -> Path:
    """Return the file of unit tests of a rule file."""
    return UNITS / f"{rules.stem}_test.yaml"


def alerts(rules: Path) -> list[Rule]:
    """Return the alerting rules of a file."""
    groups = load_files([rules])
    return [rule for group in groups for rule in group.rules if isinstance(rule, Rule)]


def alert_tests(rules: Path) -> list[AlertTest]:
    """Return what the unit tests of a rule file expect of its alerts."""
    path = unit_tests(rules)
    cases = parse_unit_tests(path.read_text(), str(path)).tests
    return [one for case in cases for one in case.alerts]


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(path, marks=[pytest.mark.system] if path.stem in LONG else [], id=path.stem)
        for path in FILES
    ],
)
def test_prometheus_itself_reports_what_an_operator_will_see(rules: Path) -> None:
    """Labels and annotations are exactly those that promtool computes from the rules."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (package prometheus)")
    tested = subprocess.run(
        [promtool, "test", "rules", str(unit_tests(rules))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "no file match" not in tested.stdout + tested.stderr


@each_file
def test_our_own_engine_reports_the_same(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One file of unit tests, two engines, one result."""
    status = main.main(["rules", "test", str(unit_tests(rules))])
    output = capsys.readouterr()
    assert status == 0, output.out + output.err
    assert output.err == ""


@each_file
def test_every_rule_is_seen_to_fire_with_its_severity(rules: Path) -> None:
    """A rule that can no longer fire, or lost a label, does not go unnoticed."""
    expected = {
        (one.name, dict(labels).get("severity"))
        for one in alert_tests(rules)
        for labels, _ in one.expected
    }
    assert {(rule.alert, severity(rule)) for rule in alerts(rules)} - expected == set()


@each_file
def test_every_alert_is_seen_to_keep_silent(rules: Path) -> None:
    """An alert that fires whatever is the matter does not go unnoticed."""
    silent = {one.name for one in alert_tests(rules) if not one.expected}
    assert {rule.alert for rule in alerts(rules)} - silent == set()
