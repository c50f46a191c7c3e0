"""Rule files: what an administrator may write, and what they read when it is wrong."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.rules.rulefile.rulefile import RecordingRule, Rule, RuleGroup, parse_rule_file
from iowarden.rules.yaml_nodes import RuleFileError

RULES = Path(__file__).parents[3] / "rules"
SHIPPED = sorted(RULES.glob("*.yaml"))

WHOLE = """\
groups:
  - name: disks
    interval: 15s
    limit: 20
    rules:
      - record: disk:temperature:margin
        expr: limit_celsius - on(device) temperature_celsius
        labels: {origin: "own", level: 1}
      - alert: DiskHot
        expr: |
          # degrees
          disk:temperature:margin < 5
            and on() up
        for: 1h30m
        keep_firing_for: 500ms
        labels:
          severity: warning
        annotations:
          summary: '{{ $labels.device }}: {{ $value }} degrees left'
  - name: empty
    rules:
"""


def one_rule(lines: str) -> str:
    """Return a file with one rule, of which these are the lines."""
    indented = "\n".join("        " + line for line in lines.split("\n"))
    return f"groups:\n  - name: g\n    rules:\n      -{indented[7:]}\n"


def errors(text: str) -> tuple[str, ...]:
    """Return why a file cannot be loaded."""
    with pytest.raises(RuleFileError) as caught:
        parse_rule_file(text, "x.yaml")
    return caught.value.errors


def pointed_at(text: str, error: str) -> str:
    """Return the text of the file at the position of an error."""
    line, column = map(int, error.removeprefix("'x.yaml':").split(":")[:2])
    return text.split("\n")[line - 1][column - 1 :]


def test_a_file_with_all_that_promtool_knows() -> None:
    """Groups, recording and alerting rules, with durations in seconds."""
    disks, empty = parse_rule_file(WHOLE, "x.yaml")
    assert (disks.name, disks.interval_seconds, disks.limit, disks.file) == (
        "disks",
        15.0,
        20,
        "x.yaml",
    )
    margin, hot = disks.rules
    assert isinstance(margin, RecordingRule)
    assert margin.record == "disk:temperature:margin"
    assert margin.labels == (("level", "1"), ("origin", "own"))
    assert margin.expression.names == {"limit_celsius", "temperature_celsius"}
    assert isinstance(hot, Rule)
    assert (hot.alert, hot.line) == ("DiskHot", 9)
    assert (hot.for_seconds, hot.keep_firing_for_seconds) == (5400.0, 0.5)
    (summary,) = hot.annotations
    assert summary[0] == "summary"
    assert summary[1].render({"device": "sda"}, 3.0, None) == "sda: 3 degrees left"
    assert empty == RuleGroup("empty", None, 0, (), "x.yaml")


@pytest.mark.parametrize("text", ["", "# nothing\n", "groups:\n", "groups: []"])
def test_a_file_may_be_empty(text: str) -> None:
    """A package may ship a file with comments only."""
    assert parse_rule_file(text, "x.yaml") == ()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_the_shipped_rules_load(path: Path) -> None:
    """What the package brings is loaded by the package."""
    assert parse_rule_file(path.read_text(), path.name)


@pytest.mark.parametrize(
    ("lines", "pointed", "message"),
    [
        ("alert: A\nexpr: up == info(x[5m])", "info(x", "could not parse expression: the function"),
        ("alert: A\nexpr: 'up{a=\"it''s\"} == info(x[5m])'", "info(x", "the function 'info'"),
        ('alert: A\nexpr: "up{a=\\"\\x41\\"} == info(x[5m])"', "info(x", "the function 'info'"),
        ("alert: A\nexpr: up ==\n  info(x[5m])", "info(x", "the function 'info'"),
        ('alert: A\nexpr: "up\\n ==\n  info(x[5m])"', "info(x", "the function 'info'"),
        ("alert: A\nexpr: |\n  # note\n\n  up ==\n    info(x[5m])", "info(x", "the function"),
        ("alert: A\nexpr: >-\n  up ==\n  info(x[5m])", "info(x", "the function 'info'"),
        ("alert: A\nexpr: up ==", "", "unexpected end of input"),
        ("alert: A\nexpr: up\nlabels: {a: 'x{{ $y }}'}", "$y", "label 'a': undefined variable"),
        ("alert: A\nexpr: up\nannotations:\n  b: |\n    x\n    {{ foo }}", "foo", "annotation 'b'"),
        ("alert: A\nrecord: b\nexpr: up", "alert: A", "only one of 'record' and 'alert'"),
        ("expr: up", "expr", "one of 'record' or 'alert' must be set"),
        ("alert: A", "alert: A", "field 'expr' must be set in rule"),
        ("alert: A\nexpr: ''", "''", "field 'expr' must be set in rule"),
        ("alert: A\nexpr: [up]", "[up]", "expected a text, got a list"),
        ("alert: A\nexpr: up\nfor: 5", "5", "expected a duration such as 30s or 1h30m, got '5'"),
        ("alert: A\nexpr: up\nfor: -5m", "-5m", "expected a duration"),
        ("alert: A\nexpr: up\nlabels: {a-b: c}", "a-b", "invalid label name 'a-b'"),
        ("alert: A\nexpr: up\nlabels: {__name__: c}", "__name__", "invalid label name"),
        ("alert: A\nexpr: up\nlabels: [a]", "[a]", "labels: expected a mapping, got a list"),
        ("alert: A\nexpr: up\nlabels: {a: [b]}", "[b]", "expected a text, got a list"),
        ("alert: A\nexpr: up\nrecipients: x", "recipients", "unknown key 'recipients'; known are"),
        ("alert: A\nexpr: up\nexpr: up", "expr: up", "duplicate key 'expr'"),
        ("record: a-b\nexpr: up", "a-b", "invalid recording rule name"),
        ("record: a\nexpr: up\nfor: 5m", "for: 5m", "invalid field 'for' in recording rule"),
        ("record: a\nexpr: up\nannotations: {a: b}", "annotations", "invalid field 'annotations'"),
        ("? [a]\n: b\nalert: A\nexpr: up", "[a]", "expected a text as key, got a list"),
    ],
)
def test_an_error_is_reported_at_its_place(lines: str, pointed: str, message: str) -> None:
    """The one error of a rule, with line and column in the file, inside texts as well."""
    text = one_rule(lines)
    (error,) = errors(text)
    assert message in error
    assert pointed_at(text, error).startswith(pointed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules: []", "'x.yaml':1:1: file: unknown key 'rules'; known are groups"),
        ("[]", "'x.yaml':1:1: file: expected a mapping, got a list"),
        ("groups: a", "'x.yaml':1:9: groups: expected a list, got a text"),
        ("groups: [{rules: []}]", "'x.yaml':1:10: group: expected a name; add 'name:'"),
        ("groups:\n- name: a\n- name: a", "'x.yaml':3:3: group 'a' is repeated in the same file"),
        ("groups: [{name: a, limit: -1}]", "'x.yaml':1:27: group 'a': limit: expected a number"),
        ("groups: [{name: a, interval: x}]", "'x.yaml':1:30: group 'a': interval: expected"),
        ("groups: [{name: a, rules: 5}]", "'x.yaml':1:27: group 'a': rules: expected a list"),
        ("groups: [", "'x.yaml':1:10: not YAML"),
        ("a: 1\n\tb: 2", "'x.yaml':2:1: not YAML"),
        ("ab\x00", "'x.yaml':1:3: not YAML"),
        ("--- a\n--- b", "'x.yaml':2:1: not YAML"),
        ("groups: *g", "'x.yaml':1:9: not YAML"),
        ("[" * 5000, "'x.yaml':1:65: expected at most 64 levels"),
    ],
)
def test_a_file_of_another_shape_is_refused(text: str, message: str) -> None:
    """Also what is no YAML at all."""
    assert errors(text)[0].startswith(message)


def test_all_errors_of_a_file_are_reported_at_once() -> None:
    """An administrator at night mends a file in one go."""
    text = (
        "groups:\n- name: g\n  rules:\n  - alert: A\n    expr: up +\n    for: x\n"
        "    annotations: {a: '{{ foo }}', b: '{{ end }}'}\n  - record: b\n"
    )
    assert [error.split(": ")[0] for error in errors(text)] == [
        "'x.yaml':5:15",
        "'x.yaml':6:10",
        "'x.yaml':7:26",
        "'x.yaml':7:42",
        "'x.yaml':8:5",
    ]


def test_a_copied_rule_is_an_error_and_a_variant_is_not() -> None:
    """The same rule twice would send each mail twice; another threshold is another rule."""
    rule = "  - {{alert: A, expr: {}, labels: {{severity: {}}}}}\n".format
    head = "groups:\n- name: g\n  rules:\n"
    assert parse_rule_file(head + rule("up", "a") + rule("up", "b"), "x.yaml")
    assert parse_rule_file(head + rule("up", "a") + rule("up > 1", "a"), "x.yaml")
    (error,) = errors(head + rule("up", "a") + rule("up", "a"))
    assert error.startswith("'x.yaml':5:5: group 'g', rule 2, 'A': duplicate rule")


def test_anchors_cannot_multiply_rules() -> None:
    """A file of a few lines must not expand to a million rules."""
    rules = ", ".join(f"{{record: a{number}, expr: up}}" for number in range(200))
    groups = ", ".join(f"{{name: g{number}, rules: *r}}" for number in range(100))
    text = f"groups: [{{name: g, rules: &r [{rules}]}}, {groups}]"
    told = errors(text)
    assert len(told) == 200  # and no more is read
    assert all("duplicate rule; remove one of the two" in error for error in told)


def test_more_than_ten_thousand_rules_are_refused() -> None:
    """Of one file, however different they are."""
    rules = "".join(f"  - {{record: a{number}, expr: up}}\n" for number in range(10_001))
    (error,) = errors(f"groups:\n- name: g\n  rules:\n{rules}")
    assert error == "'x.yaml':10004:5: more than 10000 rules; split the file"


YAML = st.sampled_from(
    [
        *(
            "groups:",
            "- ",
            "name: ",
            "rules:",
            "expr: ",
            "alert: ",
            "for: ",
            "up",
            "5m",
            "\n",
            "  ",
        ),
        *(
            "{",
            "}",
            "[",
            "]",
            "&a ",
            "*a",
            "|",
            ">",
            "'",
            '"',
            ": ",
            "#",
            "<<: ",
            "!!int ",
            "? ",
            ",",
        ),
        *("annotations: ", "{{ $value }}", "---", "~", "limit: ", "\\", "\t"),
    ]
)


@given(st.lists(YAML, max_size=20).map("".join) | st.text())
def test_any_text_is_a_rule_file_or_an_error(text: str) -> None:
    """A reload of any file contents leaves the daemon running."""
    with contextlib.suppress(RuleFileError):
        parse_rule_file(text, "x.yaml")
