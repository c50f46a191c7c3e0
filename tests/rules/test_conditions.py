"""Conditions: each word is used, and shipped rules and events use no other."""

from __future__ import annotations

import pytest
from support.host import shipped_rules

from iowarden.daemon.config.rule_files import load_events
from iowarden.rules import faults
from iowarden.rules.conditions.condition import Condition
from iowarden.rules.renames import RENAMES, Kind
from iowarden.rules.rulefile.rulefile import Rule

ALERTS = [rule for group in shipped_rules() for rule in group.rules if isinstance(rule, Rule)]
EVENTS = load_events().rows.values()


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


def test_each_condition_has_its_code_of_before_in_the_table_of_renames() -> None:
    """One code, one word, else silences of stored state could not be read."""
    words = [each.new for each in RENAMES if each.kind is Kind.CONDITION]
    assert sorted(words) == sorted(Condition)
