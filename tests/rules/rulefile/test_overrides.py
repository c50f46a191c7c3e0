"""What an administrator changes of a shipped rule in the configuration."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.daemon.config.keys import example
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_rules, load_shipped
from iowarden.rules.rulefile.overrides import Override, apply, severity
from iowarden.rules.rulefile.rulefile import RecordingRule, Rule, RuleGroup, parse_rule_file
from iowarden.rules.yaml_nodes import RuleFileError

RULES = """\
groups:
  - name: disks
    rules:
      - alert: Full
        expr: used_ratio{kind!="tmp"} > 0.8 unless on(device) (free_bytes >= 1e11)
        for: 1m
        labels: {severity: warning}
      - alert: Full
        expr: 0.9 < used_ratio
        labels: {severity: critical}
      - record: cold
        expr: temperature_celsius < -5 or temperature_celsius{kind="outside"} < -5
  - name: others
    rules:
      - {alert: Both, expr: 'a_seconds > 5 and b_seconds > 5m'}
      - {alert: Either, expr: 'a_seconds > 5 or a_seconds{x="y"} > 10'}
      - {alert: Join, expr: a_seconds > on(device) b_seconds}
"""


def changed(text: str) -> list[RuleGroup]:
    """Return the rules above as a configuration changes them."""
    settings = parse_config(f"overrides:\n  {text}\n", "c.yaml")
    return apply(parse_rule_file(RULES, "r.yaml"), settings.overrides)


def rules(groups: list[RuleGroup]) -> list[Rule | RecordingRule]:
    """Return all rules of some groups."""
    return [rule for group in groups for rule in group.rules]


def refusal(text: str) -> str:
    """Return why an override is refused."""
    with pytest.raises(RuleFileError) as caught:
        changed(text)
    (error,) = caught.value.errors
    return error


@pytest.mark.parametrize(
    ("text", "index", "expected"),
    [
        (
            "Full/warning: {threshold: 0.85}",
            0,
            'used_ratio{kind!="tmp"} > 0.85 unless on(device) (free_bytes >= 1e11)',
        ),
        (
            "Full/warning: {threshold: {free_bytes: 5e10, used_ratio: 90e-2}}",
            0,
            'used_ratio{kind!="tmp"} > 0.9 unless on(device) (free_bytes >= 50000000000)',
        ),
        ("Full/critical: {threshold: .95}", 1, "0.95 < used_ratio"),
        (
            "cold: {threshold: {temperature_celsius: 3}}",
            2,
            'temperature_celsius < 3 or temperature_celsius{kind="outside"} < 3',
        ),
        ("Both: {threshold: 1h}", 3, "a_seconds > 3600 and b_seconds > 5m"),
        ("Both: {threshold: {b_seconds: -1}}", 3, "a_seconds > 5 and b_seconds > -1"),
        ("Join: {expr: a_seconds > 7}", 5, "a_seconds > 7"),
    ],
)
def test_a_threshold_is_changed_where_it_stands(text: str, index: int, expected: str) -> None:
    """The number of the comparison that gives the value, or of the metric that is named."""
    rule = rules(changed(text))[index]
    assert rule.expression.text == expected
    assert rule.overridden == (("expr",) if "expr" in text else ("threshold",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ful: {enabled: false}", "got 'Ful'; did you mean 'Full'"),
        ("Qwertz: {enabled: false}", "got 'Qwertz'; see 'rules list'"),
        (
            "Full: {threshold: 0.9}",
            "2 rules have this name and 'threshold' applies to one only; name it:",
        ),
        ("Full: {severity: info}", "name it: 'Full/warning' or 'Full/critical'"),
        ("Full/warning: {severity: critical}", "'Full/critical' has severity 'critical' as well"),
        ("Either: {threshold: 7}", "got 'a_seconds > 5', 'a_seconds > 10'; override"),
        ("Either: {threshold: {a_seconds: 7}}", "expected one number, got 'a_seconds > 5'"),
        ("Join: {threshold: 7}", "whose value is compared with a number, got none"),
        ("Both: {threshold: {c: 7}}", "a comparison of 'c' with a number, got 'a_seconds > 5'"),
        ("Both: {threshold: 7, expr: a}", "'expr' has its own threshold"),
        ("Both: {expr: a >}", "1:4: parse error:"),
        (
            "Full/warning: {threshold: 85}",
            "expected a ratio, 1 is 100 % ('used_ratio > 0.8'), got 85; did you mean 0.85?",
        ),
        ("Full/critical: {threshold: {used_ratio: 950}}", "('used_ratio < 0.9'), got 950"),
        ("cold: {severity: info, for: 5m}", "a recording rule has no 'for' and 'severity'"),
    ],
)
def test_what_cannot_be_changed_is_reported_with_the_cure(text: str, expected: str) -> None:
    """File, line, rule, and what to write instead."""
    error = refusal(text)
    assert error.startswith(f"'c.yaml':2: overrides: {text.partition(': ')[0]}: ")
    assert expected in error


def test_all_that_is_wrong_is_reported_in_the_order_of_the_file() -> None:
    """Also if the rules are checked in another order."""
    text = "Full/x: {enabled: no}\n  Ful: {enabled: no}\n  Join: {threshold: 1}\n  Both: {for: 5s}"
    with pytest.raises(RuleFileError) as caught:
        changed(text)
    assert [error.split(":")[1] for error in caught.value.errors] == ["2", "3", "4"]


def test_what_is_reported_of_one_of_a_name_goes_before_what_is_reported_of_all() -> None:
    """Times for both, and another for one of them, in any order."""
    text = "Full/critical: {for: 3m}\n  Full: {for: 2m, keep_firing_for: 1h}"
    warning, critical, *_ = rules(changed(text))
    assert isinstance(warning, Rule)
    assert isinstance(critical, Rule)
    assert (warning.for_seconds, warning.keep_firing_for_seconds) == (120, 3600)
    assert (critical.for_seconds, critical.keep_firing_for_seconds) == (180, 3600)
    assert warning.overridden == ("for", "keep_firing_for")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("Full: {enabled: false}", "Full/critical: {enabled: true}"), ["critical"]),
        (("Full: {enabled: true}", "Full/critical: {enabled: false}"), ["warning"]),
        (("Full: {enabled: false}", "Full/critical: {for: 1m}"), []),
    ],
)
def test_one_of_a_name_is_enabled_while_all_others_are_disabled(
    lines: tuple[str, str], expected: list[str]
) -> None:
    """What is written of one alert goes before what is written of all, in any order."""
    for order in (lines, lines[::-1]):
        kept = rules(changed("\n  ".join(order)))
        alerts = [each for each in kept if isinstance(each, Rule) and each.alert == "Full"]
        assert [severity(rule) for rule in alerts] == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("Full/warning: {severity: critical}", "Full/critical: {enabled: false}"), ["critical"]),
        (
            ("Full/warning: {severity: critical}", "Full/critical: {severity: warning}"),
            ["critical", "warning"],
        ),
        (
            ("Full/warning: {severity: critical}", "Full/critical: {severity: notice}"),
            ["critical", "notice"],
        ),
    ],
)
def test_a_severity_that_another_override_frees_is_accepted_in_any_order(
    lines: tuple[str, str], expected: list[str]
) -> None:
    """Only what all overrides leave together counts, not their order in the file."""
    for order in (lines, lines[::-1]):
        kept = rules(changed("\n  ".join(order)))
        alerts = [each for each in kept if isinstance(each, Rule) and each.alert == "Full"]
        assert [severity(rule) for rule in alerts] == expected


def test_the_advice_of_a_refused_severity_loses_no_alert() -> None:
    """For each two shipped alerts of one name: only one that the other covers may be disabled."""
    shipped = load_shipped(parse_config("", "defaults"))
    severities: dict[str, list[str]] = {}
    for rule in rules(shipped):
        if isinstance(rule, Rule):
            severities.setdefault(rule.alert, []).append(severity(rule))
    pairs = [
        (f"{name}/{one}", other)
        for name, own in severities.items()
        for one in own
        for other in own
        if one != other
    ]
    advised = {}
    for name, other in pairs:
        line = f"{name}: {{severity: {other}}}"
        with pytest.raises(RuleFileError) as caught:
            apply(shipped, overrides(line))
        (cure,) = re.findall(r"'(\S+: {enabled: false})'", caught.value.errors[0]) or [""]
        if not cure:
            assert "both must stay" in caught.value.errors[0]
            continue
        advised[name] = cure.partition(":")[0]
        text = cure if cure.startswith(name) else f"{line}\n  {cure}"
        kept = [each for each in rules(apply(shipped, overrides(text))) if is_of(each, name)]
        assert other in map(severity, kept)
        assert len(kept) == len(severities[name.partition("/")[0]]) - 1
    assert len(advised) > 40
    # 1 to 15 sectors are below the limit of the critical one only.
    assert advised["DiskPendingSectors/critical"] == "DiskPendingSectors/critical"
    assert advised["DiskPendingSectors/warning"] == "DiskPendingSectors/critical"
    assert advised["FilesystemFull/warning"] == "FilesystemFull/critical"
    for disjoint in ("MdDegraded/critical", "MdDegraded/warning", "BtrfsErrors/critical"):
        assert disjoint not in advised


def test_what_a_refused_threshold_advises_is_accepted() -> None:
    """The next step has the whole expression; as it stands it changes nothing yet."""
    shipped = load_shipped(parse_config("", "defaults"))
    refused = 0
    for rule in rules(shipped):
        name = f"{rule.alert}/{severity(rule)}" if isinstance(rule, Rule) else rule.record
        try:
            apply(shipped, overrides(f"{name}: {{threshold: 1}}"))
        except RuleFileError as error:
            if "override 'expr'" not in error.errors[0]:
                continue
            cure = error.errors[0].rpartition("it is now: ")[2]
            (after,) = (
                each
                for each in rules(apply(shipped, overrides(f"{name}: {cure}")))
                if each.overridden
            )
            refused += 1
            assert after.expression.text.split() == rule.expression.text.split()
            for step in re.findall(r"'(threshold: {\w+: )NUMBER}'", error.errors[0]):
                apply(shipped, overrides(f"{name}: {{{step}1}}}}"))
    assert refused > 20
    with pytest.raises(RuleFileError, match=r"iowarden_smart_confirmed_pending_sectors >= 16 or"):
        apply(shipped, overrides("DiskPendingSectors/critical: {threshold: 20}"))


def overrides(text: str) -> tuple[Override, ...]:
    """Return the overrides of a configuration."""
    return parse_config(f"overrides:\n  {text}\n", "c.yaml").overrides


def is_of(rule: Rule | RecordingRule, name: str) -> bool:
    """Whether a rule is one of the alerts of 'Name/severity'."""
    return isinstance(rule, Rule) and rule.alert == name.partition("/")[0]


def test_a_severity_takes_the_place_of_the_shipped_one() -> None:
    """And the rest of the labels stays; a rule without a severity gets one."""
    warning, critical, *others = rules(
        changed("Full/warning: {severity: info}\n  Both: {severity: notice}")
    )
    assert [severity(rule) for rule in (warning, critical)] == ["info", "critical"]
    assert [severity(rule) for rule in others] == ["", "notice", "", ""]


def test_who_counts_the_firings_of_another_follows_its_severity(tmp_path: Path) -> None:
    """A stall lowered to a notice is still escalated to critical when it repeats."""
    text = f"rules_directory: {tmp_path}\noverrides: {{ReclaimStall/warning: {{severity: notice}}}}"
    after = rules(load_rules(parse_config(text, "c.yaml")))
    of_name = [r for r in after if isinstance(r, Rule) and r.alert == "ReclaimStall"]
    (rule,) = [r for r in of_name if severity(r) == "critical"]
    texts = [rule.expression.text, dict(rule.annotations)["summary"].text]
    assert all('alertname="ReclaimStall"' in one for one in texts)
    assert all('severity="notice"' in one for one in texts)
    assert not any('severity="warning"' in one for one in texts)


def test_a_rule_that_is_switched_off_is_not_there() -> None:
    """All of a name, or one; then its severity is free for the other."""
    assert len(rules(changed("Full: {enabled: no}"))) == 4
    text = "Full/critical: {enabled: no}\n  Full/warning: {severity: critical}"
    assert [severity(rule) for rule in rules(changed(text))][:2] == ["critical", ""]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_number_is_the_threshold_that_is_evaluated(value: float) -> None:
    """Tiny, huge or negative: the expression has it as it was given."""
    override = Override("Both", "here", thresholds=(("b_seconds", value),))
    rule = rules(apply(parse_rule_file(RULES, "r.yaml"), (override,)))[3]
    rest, _, literal = rule.expression.text.rpartition(" ")
    assert (rest, float(literal)) == ("a_seconds > 5 and b_seconds >", value)


def test_every_shipped_rule_can_be_overridden_by_the_name_that_is_listed(tmp_path: Path) -> None:
    """No two shipped alerts have name and severity in common."""
    shipped = rules(load_rules(parse_config(f"rules_directory: {tmp_path}", "c.yaml")))
    alerts = [rule for rule in shipped if isinstance(rule, Rule)]
    lines = [f"  {rule.alert}/{severity(rule)}: {{for: 17m}}\n" for rule in alerts]
    text = f"rules_directory: {tmp_path}\noverrides:\n{''.join(lines)}"
    after = rules(load_rules(parse_config(text, "c.yaml")))
    assert {rule.for_seconds for rule in after if isinstance(rule, Rule)} == {17 * 60.0}


def test_the_overrides_of_the_example_file_are_good(tmp_path: Path) -> None:
    """Without the '#' each line has the effect that it describes."""
    _, _, section = example().partition("\noverrides:\n")
    text = f"rules_directory: {tmp_path}\noverrides:\n{section.replace('#', '')}"
    after = rules(load_rules(parse_config(text, "c.yaml")))
    assert {rule.overridden for rule in after} == {(), ("severity", "threshold")}
    assert not [rule for rule in after if isinstance(rule, Rule) and rule.alert == "NoSwap"]


def test_the_overrides_of_the_documentation_are_good(tmp_path: Path) -> None:
    """What is shown there can be copied."""
    text = Path(__file__).parents[3].joinpath("packaging/doc/rules.md").read_text()
    _, _, section = text.partition("\noverrides:\n")
    section = section.partition("\n```")[0]
    text = f"rules_directory: {tmp_path}\noverrides:\n{section}"
    after = rules(load_rules(parse_config(text, "c.yaml")))
    assert sum(bool(rule.overridden) for rule in after) == 7


def test_a_users_own_rule_is_changed_in_its_file(tmp_path: Path) -> None:
    """An override applies to shipped rules, and the message says so."""
    Path(tmp_path, "mine.yaml").write_text(RULES)
    text = f"rules_directory: {tmp_path}\noverrides: {{Both: {{for: 5m}}}}"
    with pytest.raises(RuleFileError, match="shipped rule or of a class of events, got 'Both'"):
        load_rules(parse_config(text, "c.yaml"))


def test_without_shipped_rules_there_is_nothing_to_override(tmp_path: Path) -> None:
    """The message names the option that disables them."""
    text = f"rules_directory: {tmp_path}\nshipped_rules: no\noverrides: {{NoSwap: {{for: 5m}}}}"
    with pytest.raises(RuleFileError, match="none is loaded, because 'shipped_rules' is false"):
        load_rules(parse_config(text, "c.yaml"))
