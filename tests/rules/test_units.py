"""The unit tests of the shipped rules, in promtool's format: they pass, and leave no alert out."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from iowarden.daemon import cli
from iowarden.daemon.rule_files import load_files
from iowarden.rules.overrides import severity
from iowarden.rules.rulefile import Rule
from iowarden.rules.unit_tests import Case, parse_unit_tests

RULES = Path(__file__).parents[2] / "rules"
UNITS = Path(__file__).parent / "units"
FILES = sorted(UNITS.glob("*_test.yaml"))

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)


def rules_of(path: Path) -> list[Rule]:
    """Return the alerting rules that a file of unit tests is about."""
    shipped = RULES / path.name.replace("_test.yaml", ".yaml")
    return [
        rule for group in load_files([shipped]) for rule in group.rules if isinstance(rule, Rule)
    ]


def cases_of(path: Path) -> tuple[Case, ...]:
    """Return the tests of a file."""
    return parse_unit_tests(path.read_text(), str(path)).tests


@each_file
def test_prometheus_itself_says_what_an_operator_will_see(path: Path) -> None:
    """Labels and every word of the annotations are those that promtool gets from the rules."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (package prometheus)")
    tested = subprocess.run(
        [promtool, "test", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "no file match" not in tested.stdout + tested.stderr


@each_file
def test_our_own_engine_says_the_same(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One file of unit tests, two engines, one result."""
    status = cli.main(["rules", "test", str(path)])
    output = capsys.readouterr()
    assert status == 0, output.out + output.err
    assert output.err == ""


@each_file
def test_every_rule_is_seen_to_fire_with_its_severity(path: Path) -> None:
    """A rule that cannot fire any more, or lost a label, does not go unnoticed."""
    expected = {
        (test.name, dict(labels).get("severity"))
        for case in cases_of(path)
        for test in case.alerts
        for labels, _ in test.expected
    }
    assert {(rule.alert, severity(rule)) for rule in rules_of(path)} - expected == set()


@each_file
def test_every_alert_is_seen_to_keep_silent(path: Path) -> None:
    """An alert that fires whatever is the matter does not go unnoticed."""
    silent = {test.name for case in cases_of(path) for test in case.alerts if not test.expected}
    assert {rule.alert for rule in rules_of(path)} - silent == set()
