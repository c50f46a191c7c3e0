"""The table of renamed names: its constraints, and its use."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from iowarden.rules.incidents.silences import Silence, matches
from iowarden.rules.matcher import Matcher
from iowarden.rules.notices.digest import entry_key
from iowarden.rules.rename_table import RENAMES, NameKind, Rename
from iowarden.rules.renames import NAMES, RenameError, Renames
from iowarden.rules.rulefile.overrides import Override, apply, replaced
from iowarden.rules.rulefile.rulefile import Rule, parse_rule_file

if TYPE_CHECKING:
    from iowarden.rules.rulefile.rulefile import RuleGroup

A, M, L, V, E, C = (
    NameKind.ALERT,
    NameKind.METRIC,
    NameKind.LABEL,
    NameKind.VALUE,
    NameKind.EVENT,
    NameKind.CONDITION,
)


def test_the_table_contradicts_nothing() -> None:
    """The table is edited by hand; each entry leads to a current name."""
    for each in RENAMES:
        new = NAMES.current(each.kind, each.old, each.of)
        assert NAMES.current(each.kind, new, each.of) == new


def test_a_name_that_was_replaced_twice_is_the_last_one() -> None:
    """A user who skips a version finds the current name, in both directions."""
    names = Renames((Rename(M, "a", "b"), Rename(M, "b", "c"), Rename(A, "a", "x")))
    assert [names.current(M, each) for each in "abcd"] == ["c", "c", "c", "d"]
    assert names.current(A, "a") == "x"
    assert set(names.before(M, "c")) == {"a", "b"}
    assert names.before(M, "b") == ()


@pytest.mark.parametrize(
    "table",
    [
        (Rename(M, "a", "a"),),
        (Rename(M, "a", "b"), Rename(M, "b", "a")),
        (Rename(M, "a", "b"), Rename(M, "b", "c"), Rename(M, "c", "a")),
        (Rename(M, "a", "b"), Rename(M, "c", "a")),
        (Rename(M, "a", "b"), Rename(M, "a", "c")),
        (Rename(M, "a", "b"), Rename(M, "c", "b")),
        (Rename(M, "", "b"),),
        (Rename(V, "a", "b"),),
        (Rename(L, "a", "b", of="m"), Rename(M, "m", "n")),
        (Rename(V, "a", "b", of="l", series="m"), Rename(M, "m", "n")),
        (Rename(M, "a", "b", labels=(("l", "1"),)), Rename(M, "c", "b")),
        (Rename(M, "a", "b", labels=(("l", "1"),)), Rename(M, "c", "b", labels=(("l", "1"),))),
        (Rename(A, "a", "b", labels=(("l", "1"),)),),
        (Rename(L, "a", "b", series="m"),),
        (Rename(NameKind.CHOICE, "a", "b"),),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(table: tuple[Rename, ...]) -> None:
    """A circle, a name that meant something else, two that became one, a value of no label."""
    with pytest.raises(RenameError, match="expected"):
        Renames(table)


NEW = Renames(
    (
        Rename(A, "Old", "New"),
        Rename(E, "old_error", "new_error"),
        Rename(C, "B1", "device_stall"),
        Rename(L, "device", "disk", of="New"),
        Rename(L, "way", "path"),
        Rename(V, "ata", "sat", of="path"),
        Rename(M, "iowarden_old", "iowarden_new"),
    )
)


def test_labels_follow_their_alert() -> None:
    """Name, condition, a label of this alert only, and a value of a label that was renamed."""
    labels = (("alertname", "Old"), ("condition", "B1"), ("device", "sda"), ("way", "ata"))
    expected = (("alertname", "New"), ("condition", "device_stall"), ("disk", "sda"))
    assert NEW.labels(labels, NEW.alert("Old")) == (*expected, ("path", "sat"))
    assert NEW.labels((*labels[1:], ("alertname", "old_error")), "new_error") == (
        ("alertname", "new_error"), ("condition", "device_stall"), ("device", "sda"),
        ("path", "sat"),
    )  # fmt: skip
    assert NEW.labels(labels, "ALERTS") == (*expected, ("path", "sat"))


def test_what_the_digest_reported_is_reported_under_its_new_name() -> None:
    """Its keys are text: a subject, then labels, whose values may have blanks."""
    key = "setting Old alertname=Old device=sda 1 mountpoint=/a b way=ata"
    expected = "setting New alertname=New disk=sda 1 mountpoint=/a b path=sat"
    assert NEW.entry(key) == expected
    assert NEW.entry(" alertname=Other way=ata") == " alertname=Other path=sat"
    assert NEW.entry("of no label") == "of no label"
    assert NEW.subject("setting Older") == "setting Older"
    assert entry_key.__doc__


@pytest.mark.parametrize(
    ("label", "operator", "text"),
    [
        ("alertname", "=", "Old"),
        ("alertname", "=~", "Old|Other"),
        ("alertname", "=~", "(?i)ol.*"),
        ("alertname", "!~", "Ol.*"),
        ("alertname", "!=", "Old"),
        ("alertname", "=~", "old_.*"),
        ("condition", "=", "B1"),
        ("condition", "!~", "B.*"),
        ("way", "=~", "a.a"),
        ("way", "!=", "ata"),
    ],
)
def test_a_silence_matches_what_it_matched(label: str, operator: str, text: str) -> None:
    """Each alert of before, and what became of it."""
    before = Silence("s", (Matcher(label, operator, text),), 0.0, 1, "x", "root")
    after = replace(before, matchers=NEW.matchers(before.matchers))
    for name in ("Old", "old_error", "Other"):
        for condition in ("B1", "B2"):
            for way in ("ata", "nvme"):
                labels = (("alertname", name), ("condition", condition), ("way", way))
                now = NEW.labels(labels, NEW.alert(name))
                assert matches(after, now) is matches(before, labels), (after, now)


def test_a_silence_of_one_alert_follows_its_label() -> None:
    """'device' of that alert is 'disk' now; of all others it stays."""
    mine = (Matcher("alertname", "=", "Old"), Matcher("device", "=", "sda"))
    assert NEW.matchers(mine) == (Matcher("alertname", "=", "New"), Matcher("disk", "=", "sda"))
    assert NEW.matchers(mine[1:]) == mine[1:]


SPLIT = Renames(
    (
        Rename(M, "old_notice", "threshold", labels=(("severity", "notice"),)),
        Rename(M, "old_warning", "limit", labels=(("severity", "warning"),)),
        Rename(M, "limit", "threshold", labels=(("unit", "s"),)),
        Rename(M, "old_state", "disk_state"),
        Rename(L, "cover", "state"),
        Rename(V, "failed", "unreadable", of="state", series="disk_state"),
        Rename(V, "told", "noted", of="state"),
        Rename(NameKind.KEY, "periods.block", "intervals.block"),
    )
)


def test_several_metrics_become_one_with_a_label_more() -> None:
    """Also where the name was replaced again: what each got is kept."""
    own = (("device", "sda"),)
    assert SPLIT.series("old_notice", own) == ("threshold", (*own, ("severity", "notice")))
    both = (("severity", "warning"), ("unit", "s"))
    assert SPLIT.series("old_warning", own) == ("threshold", (*own, *both))
    assert SPLIT.series("other", own) == ("other", own)
    assert SPLIT.selector("old_notice") == 'threshold{severity="notice"}'
    assert SPLIT.selector("old_warning") == 'threshold{severity="warning",unit="s"}'
    assert [SPLIT.selector(name) for name in ("old_state", "other")] == ["disk_state", "other"]
    assert set(SPLIT.before(M, "threshold")) == {"old_notice", "old_warning", "limit"}


def test_a_value_of_one_metric_only_is_no_other_metrics() -> None:
    """'failed' of a controller's disk stays, in series, messages and regular expressions."""
    failed = (("state", "failed"),)
    assert SPLIT.series("old_state", (("cover", "failed"),)) == (
        "disk_state",
        (("state", "unreadable"),),
    )
    assert SPLIT.labels(failed, "controller_disk_state") == failed
    assert SPLIT.labels((("state", "told"),), "controller_disk_state") == (("state", "noted"),)
    expected = "the label value 'failed' is called 'unreadable' now; write that"
    for operator in ("=", "=~"):
        assert SPLIT.used("state", operator, "failed", "disk_state") == [expected]
        assert SPLIT.used("state", operator, "failed", "controller_disk_state") == []


def test_a_section_of_settings_is_known_by_its_keys() -> None:
    """Of a section that is gone each key is named with its new one."""
    assert SPLIT.section("periods") == "intervals"
    assert SPLIT.section("period") == ""
    assert SPLIT.section("intervals") == ""


RULES = """\
groups:
  - name: shipped
    rules:
      - alert: New
        expr: iowarden_new > 5
        labels: {severity: warning}
      - alert: New
        expr: iowarden_new > 9
        labels: {severity: critical}
"""


def shipped() -> list[RuleGroup]:
    """Return rules with the current names."""
    return parse_rule_file(RULES, "shipped x.yaml")


def test_an_override_names_the_label_that_a_metric_got() -> None:
    """The new name alone would select the limits of all severities."""
    own = (
        Override("New", "'c.yaml':3", thresholds=(("old_notice", 7.0),), column=5),
        Override("New", "'c.yaml':4", expression="rate(old_warning[5m]) > 8", column=5),
    )
    assert [text for _, text in replaced(own, SPLIT)] == [
        "the metric 'old_notice' is called 'threshold{severity=\"notice\"}' now; write that",
        (
            "expr: the metric 'old_warning' is called 'threshold{severity=\"warning\",unit=\"s\"}'"
            " now; write that"
        ),
    ]


def test_overrides_in_old_words_hold_and_the_new_ones_are_named() -> None:
    """An upgrade must not refuse the configuration, and with it the start."""
    overrides = (
        Override("Old/warning", "'c.yaml':3", thresholds=(("iowarden_old", 7.0),), column=5),
        Override("Old/critical", "'c.yaml':4", expression="iowarden_old > 8", column=5),
        Override("New", "'c.yaml':5", for_seconds=60.0),
    )
    (group,) = apply(shipped(), overrides, NEW)
    texts = [rule.expression.text for rule in group.rules]
    assert texts == ["iowarden_new > 7", "iowarden_old > 8"]
    assert all(isinstance(rule, Rule) and rule.for_seconds == 60.0 for rule in group.rules)
    assert replaced(overrides, NEW) == [
        ("'c.yaml':3:5", "the alert 'Old/warning' is called 'New/warning' now; write that"),
        ("'c.yaml':3:5", "the metric 'iowarden_old' is called 'iowarden_new' now; write that"),
        (
            "'c.yaml':4:5",
            "the alert 'Old/critical' is called 'New/critical' now; write that",
        ),
        (
            "'c.yaml':4:5",
            "expr: the metric 'iowarden_old' is called 'iowarden_new' now; write that",
        ),
    ]
