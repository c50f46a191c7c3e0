"""However many rules a user has, and whatever they cost: the shipped ones are in time."""

from __future__ import annotations

import pytest
from support.many_rules import HOSTILE, START, Crowded

from iowarden.rules.engine.engine import Engine
from iowarden.rules.rulefile.rulefile import SHIPPED, parse_rule_file


def late_seconds(machine: Crowded) -> float:
    """Return how late the user's rules are, of their files the latest."""
    delays = machine.engine.hub.last("iowarden_rule_evaluation_delay_seconds")
    return max(value for _, _, value in delays)


@pytest.mark.system  # 9 s of CPU: twenty times the rules that an administrator has
def test_no_rule_of_thousands_starves() -> None:
    """Shipped alerts are on time each second, each short rule has its turn, each bad one fails."""
    machine = Crowded(short=2000, mixed=100, series=4000)
    for second in range(60):
        watched = float(second % 2)
        machine.second(watched)
        firing = {
            each.name for each in machine.engine.rules.alerts() if each.state.value == "firing"
        }
        assert ("Shipped" in firing) is bool(watched), second
    problems = machine.engine.rules.problems
    assert {f"Short{number}" for number in range(2000)} <= machine.evaluated
    assert {"Subquery", "Join", "Texts"} <= set(problems) <= {*HOSTILE, "recorded"}
    assert "shorten the templates" in problems["Texts"]
    assert "shorten its ranges" in problems["Subquery"]
    assert late_seconds(machine) < 15.0


@pytest.mark.system  # 1 s of CPU: the work that one rule may do
def test_a_shipped_rule_pays_for_its_own_alerts_only() -> None:
    """Nine hundred alerts that each query as many series leave the next rules their work."""
    summary = """{{ with query "x" }}{{ . | first | value }}{{ end }}"""
    text = f"""groups:
- name: g
  interval: 1s
  rules:
  - {{alert: Costly, expr: x > 0, annotations: {{summary: '{summary}'}}}}
  - {{alert: Stall, expr: sum(x) > 0}}
"""
    engine = Engine(parse_rule_file(text, f"{SHIPPED}x.yaml"), [], START)
    engine.hub.feed("x", [("x", (("n", str(n)),), 1.0) for n in range(900)], START)
    engine.rules.evaluate(START)
    assert "Stall" not in engine.rules.problems
    assert "Stall" in {each.name for each in engine.rules.alerts()}


def test_a_rule_cannot_render_gigabytes() -> None:
    """Sixty alerts of 60,000 characters each: the rule fails, and says what to do."""
    summary = '{{ range query "x" }}{{ printf "%1000.0f" $value }}{{ end }}'
    text = f"{{alert: Long, expr: 'x > 0', annotations: {{summary: '{summary}'}}}}"
    rules = parse_rule_file(f"groups: [{{name: g, interval: 1s, rules: [{text}]}}]", "mine.yaml")
    engine = Engine(rules, [], START)
    for count, problem in (
        (15, None),
        (60, "500,000 characters and steps of regular expressions"),
    ):
        engine.hub.feed("x", [("x", (("n", str(n)),), 1.0) for n in range(count)], START + count)
        engine.rules.evaluate(START + count)
        assert (problem or "") in engine.rules.problems.get("Long", "")
        assert (problem is None) is (not engine.rules.problems)


def test_texts_that_are_too_long_cost_what_was_written_of_them() -> None:
    """Each ends at 100,000 characters with an error: hundreds of them took 2 s."""
    summary = '{{ range query "x" }}{{ $labels }}{{ end }}'
    text = f"{{alert: Long, expr: 'x > 0', annotations: {{summary: '{summary}'}}}}"
    rules = parse_rule_file(f"groups: [{{name: g, interval: 1s, rules: [{text}]}}]", "mine.yaml")
    engine = Engine(rules, [], START)
    engine.hub.feed("x", [("x", (("n", f"{n:0250}"),), 1.0) for n in range(500)], START)
    engine.rules.evaluate(START)
    assert "shorten the templates" in engine.rules.problems["Long"]


def test_the_regular_expressions_of_all_alerts_of_a_rule_share_one_limit() -> None:
    """Each is cheap enough for one alert; two hundred would block the loop for 13 s."""
    summary = '{{ reReplaceAll "(.*)(.*)(.*)(.*)(.*).{300}x" "" (printf "%400.0f" $value) }}'
    text = f"{{alert: Slow, expr: 'x > 0', annotations: {{summary: '{summary}'}}}}"
    rules = parse_rule_file(f"groups: [{{name: g, interval: 1s, rules: [{text}]}}]", "mine.yaml")
    engine = Engine(rules, [], START)
    for count, problem in (
        (3, None),
        (200, "500,000 characters and steps of regular expressions"),
    ):
        engine.hub.feed("x", [("x", (("n", str(n)),), 1.0) for n in range(count)], START + count)
        engine.rules.evaluate(START + count)
        assert (problem or "") in engine.rules.problems.get("Slow", "")
        assert (problem is None) is (not engine.rules.problems)


def test_a_rule_reads_the_alerts_of_the_rules_before_it() -> None:
    """In the same second, however many there are; they are stored once, not after each rule."""
    lines = [f"{{alert: A{n}, expr: 'x > {n}'}}" for n in range(4)]
    lines.insert(2, "{alert: Two, expr: 'count(ALERTS{alertname=~\"A.*\"}) == 2'}")
    text = f"groups: [{{name: g, interval: 1s, rules: [{', '.join(lines)}]}}]"
    engine = Engine(parse_rule_file(text, "mine.yaml"), [], START)
    engine.hub.feed("x", [("x", (), 9.0)], START)
    engine.rules.evaluate(START)
    assert {each.name for each in engine.rules.alerts()} == {"A0", "A1", "A2", "A3", "Two"}


def test_the_queries_of_all_alerts_of_a_rule_share_one_limit() -> None:
    """A query that finds nothing takes time as well: a million of them blocked the loop for 7 s."""
    summary = '{{ range query "x" }}{{ range query "nothing" }}{{ end }}{{ end }}'
    text = f"{{alert: Slow, expr: 'x > 0', annotations: {{summary: '{summary}'}}}}"
    rules = parse_rule_file(f"groups: [{{name: g, interval: 1s, rules: [{text}]}}]", "mine.yaml")
    engine = Engine(rules, [], START)
    for count, problem in ((10, None), (240, "the queries in the labels and annotations")):
        engine.hub.feed("x", [("x", (("n", str(n)),), 1.0) for n in range(count)], START + count)
        engine.rules.evaluate(START + count)
        assert (problem or "") in engine.rules.problems.get("Slow", "")
        assert (problem is None) is (not engine.rules.problems)
