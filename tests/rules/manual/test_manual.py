"""The manual of every alert: whole sentences about an example object, and valid changes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from support.everything import PLACEHOLDERS

from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_events, load_shipped
from iowarden.rules.manual import manual
from iowarden.rules.rulefile.overrides import adjustable, apply, comparisons
from iowarden.rules.rulefile.rulefile import Rule, parse_rule_file

if TYPE_CHECKING:
    from iowarden.rules.manual.manual import Manual

GROUPS = load_shipped(parse_config("", "defaults"))
OF_RULES = [
    manual.of_rule(group, rule)
    for group in GROUPS
    for rule in group.rules
    if isinstance(rule, Rule)
]
OF_EVENTS = [manual.of_event(row) for row in load_events().rows.values()]
HOLES = re.compile(
    r"""\.\.\.(?!\w) | \(\s*\) | \(\s*[,:;] | \s[,;](?=\s) | (?<!\S)[:](?=\s) | ''(?!')
    | \{\{ | \}\} | %!\w | error\ expanding | \bNaN\b | \bInf\b
    | (?<=\S)\ \ +(?=\w) | ,\s*, | :\s*, | \ \.(?=\s|$)
    | <\w+> | (?<!\w)-\d+\ """,
    re.VERBOSE,
)
"""What a text has where a value, a name or a word is missing."""
COMMAND = re.compile(r"^ {2}.*$", re.MULTILINE)


@pytest.mark.parametrize("of", [OF_RULES, OF_EVENTS], ids=["rules", "events"])
def test_no_text_has_a_hole(of: list[Manual]) -> None:
    """'...B queued' says nothing: each value and name is that of an example object."""
    texts = {
        f"{each.alert}/{each.severity} {name}": text
        for each in of
        for name, text in (
            ("summary", each.summary),
            ("description", each.description),
            ("unknown", each.unknown),
            ("advice", COMMAND.sub("", each.advice)),
        )
    }
    holes = {key: found[0] for key, text in texts.items() if (found := HOLES.search(text))}
    assert holes == {}
    names = {each.alert: found[0] for each in of if (found := PLACEHOLDERS.search(each.advice))}
    assert names == {}


def test_every_alert_has_a_meaning_and_a_source() -> None:
    """Whoever looks one up learns what is wrong, and where that is from."""
    without = [each.alert for each in OF_RULES if not (each.summary and each.description)]
    assert without == []
    assert [each.alert for each in (*OF_RULES, *OF_EVENTS) if not each.source] == []


def test_a_text_for_a_severity_does_not_contradict_it() -> None:
    """An array with redundancy left is a warning: the critical one survives no other failure."""
    texts = {each.severity: each.description for each in OF_RULES if each.alert == "MdDegraded"}
    assert "survives 1 more failure" in texts["warning"]
    assert "another failure may lose all data" in texts["critical"]
    full = {each.severity: each.summary for each in OF_RULES if each.alert == "FilesystemFull"}
    assert full == {"warning": "/srv is 90 % full", "critical": "/srv is 95 % full"}


def test_each_change_that_is_shown_is_accepted_and_changes_nothing_yet() -> None:
    """The line is copied, and then only its number is edited."""
    lines = "\n".join(f"  {each.override}" for each in OF_RULES)
    overrides = parse_config(f"overrides:\n{lines}\n", "changed").overrides
    assert len(overrides) == len(OF_RULES)
    changed = apply(GROUPS, overrides)
    pairs = [
        (before, after)
        for old, new in zip(GROUPS, changed, strict=True)
        for before, after in zip(old.rules, new.rules, strict=True)
        if isinstance(before, Rule) and isinstance(after, Rule)
    ]
    assert [old.alert for old, new in pairs if not new.overridden] == []
    assert [old.alert for old, new in pairs if old.for_seconds != new.for_seconds] == []
    moved = [old.alert for old, new in pairs if _numbers(old) != _numbers(new)]
    assert moved == []


def _numbers(rule: Rule) -> list[float]:
    return [
        float(each.split()[-1]) for each in comparisons(rule.expression.text) if each[-1].isdigit()
    ]


def test_a_limit_is_what_a_person_may_move() -> None:
    """Not a state; not a metric that is compared with two numbers; with its factor."""
    text = "a == 1 and b > 2 unless (c >= 5 or c >= 9) and d > 1.5 * e"
    assert adjustable(text) == [("b", "2")]
    assert comparisons(text) == ["b > 2", "c >= 5", "c >= 9", "d > 1.5 * e"]
    assert comparisons("(x_timestamp_seconds - time()) / 86400 < 365") == [
        "(x_timestamp_seconds - time()) / 86400 < 365"
    ]


def test_a_rule_of_the_administrator_has_a_manual_too() -> None:
    """It may lack each annotation, and select labels that no example has."""
    text = """\
groups:
  - name: mine
    rules:
      - alert: Mine
        expr: sum by (rack) (my_queue_length{rack=~"r[0-9]",site="x"}) > 7
        for: 5m
        labels: {severity: notice}
        annotations: {summary: "{{ $labels.rack }}: {{ $value }} wait"}
"""
    (found,) = manual.of_rules(parse_rule_file(text, "mine.yaml"), "Mine")
    assert found.summary == "rack: 8 wait"
    assert (found.severity, found.for_seconds) == ("notice", 300)
    assert found.override == "Mine/notice: {threshold: {my_queue_length: 7}}"
    assert found.series == ('my_queue_length{rack=~"r[0-9]",site="x"}',)
