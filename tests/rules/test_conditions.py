"""Conditions: each word is used, and shipped rules and events use no other."""

from __future__ import annotations

import importlib.resources
import re

import pytest
from support.host import shipped_rules

from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_events
from iowarden.daemon.config.rule_notes import catalog
from iowarden.rules import faults
from iowarden.rules.conditions.condition import Condition
from iowarden.rules.conditions.definition import parse_definitions
from iowarden.rules.rulefile.rulefile import Rule
from iowarden.rules.yaml_nodes import RuleFileError

ALERTS = [rule for group in shipped_rules() for rule in group.rules if isinstance(rule, Rule)]
EVENTS = load_events().rows.values()
FILE = importlib.resources.files("iowarden.rules.conditions") / "definitions.yaml"
TEXT = FILE.read_text(encoding="utf-8")
METRICS = catalog(parse_config("", "iowarden.yaml")).names
DEFINITIONS = parse_definitions(TEXT, "definitions.yaml")


def condition_of(rule: Rule) -> str:
    """Return the label of a rule."""
    return {name: text.text for name, text in rule.labels}.get("condition", "")


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: f"{rule.alert}")
def test_each_shipped_rule_has_one_of_the_conditions(rule: Rule) -> None:
    """A word that is misspelt would be a condition that nobody finds."""
    assert condition_of(rule) in set(Condition), rule.alert


def test_each_condition_is_used() -> None:
    """By a rule or by an event; what events may have, faults.py has a meaning for."""
    of_events = {row.condition for row in EVENTS}
    assert {condition_of(rule) for rule in ALERTS} | of_events == set(Condition)
    assert faults.CLASSES.keys() <= set(Condition)


def test_alerts_of_one_name_have_one_condition() -> None:
    """It is what one searches by: 'warning' and 'critical' of an alert are about the same."""
    found: dict[str, set[str]] = {}
    for rule in ALERTS:
        found.setdefault(rule.alert, set()).add(condition_of(rule))
    assert {name: words for name, words in found.items() if len(words) > 1} == {}


def test_each_condition_is_defined_in_the_order_of_the_enum() -> None:
    """Meaning, how it is computed, thresholds, guards, sources, what to do, limits: none empty."""
    assert [*DEFINITIONS] == [*Condition]


@pytest.mark.parametrize("condition", Condition)
def test_a_definition_names_the_severities_of_its_alerts_and_metrics_that_there_are(
    condition: Condition,
) -> None:
    """Who reads that a threshold is critical must find the alert; names follow a rename."""
    found = DEFINITIONS[condition]
    own = [rule for rule in ALERTS if condition_of(rule) == condition]
    severities = {dict(rule.labels)["severity"].text for rule in own}
    named = set(re.findall(r"\b(critical|warning|notice|info)\b[,:]", found.thresholds))
    assert severities <= named, found.thresholds
    text = f"{found.meaning} {found.computed} {found.thresholds} {found.guards} {found.action}"
    assert set(re.findall(r"iowarden_\w+", text)) <= METRICS
    used = {name for rule in own for name in re.findall(r"iowarden_\w+", rule.expression.text)}
    assert not own or used & set(re.findall(r"iowarden_\w+", text)), "none of its rules' metrics"


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("write_stall:\n  meaning:", "write_stal:\n  meaning:", "unknown key 'write_stal'"),
        ("write_stall:\n  meaning:", "write_stall:\n  sense:", "write_stall: unknown key 'sense'"),
        ("write_stall:\n  meaning:", "write_stal:\n  meaning:", "a definition of write_stall; add"),
        ('  limits: "Monitoring and mails continue from memory meanwhile."\n', "",
         "state_storage: expected a text; add 'limits:'"),
        ('    - "netlink(7): ENOBUFS"\n', "", "uevents_lost: expected a list; add 'sources:'"),
    ],
)  # fmt: skip
def test_what_is_missing_or_misspelt_in_the_definitions_is_named(
    old: str, new: str, error: str
) -> None:
    """With its line."""
    assert old in TEXT
    with pytest.raises(RuleFileError, match=r"'d.yaml':\d+:\d+: ") as caught:
        parse_definitions(TEXT.replace(old, new), "d.yaml")
    assert error in str(caught.value)
