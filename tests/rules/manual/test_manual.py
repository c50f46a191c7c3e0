"""The manual of every alert: whole sentences about an example object, and valid changes."""

from __future__ import annotations

import re

import pytest
from support.everything import PLACEHOLDERS
from support.unparse import unparse

from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_events, load_shipped
from iowarden.daemon.metric_labels import LABELS
from iowarden.rules.advice import advice
from iowarden.rules.advice.advice_steps import STEPS
from iowarden.rules.manual import manual
from iowarden.rules.manual.example import MODEL, Example
from iowarden.rules.manual.manual import Manual
from iowarden.rules.promql.parser import parse
from iowarden.rules.promql.store import SeriesStore
from iowarden.rules.rulefile.overrides import adjustable, apply, comparisons, exceptions, thresholds
from iowarden.rules.rulefile.rulefile import Rule, parse_rule_file

GROUPS = load_shipped(parse_config("", "defaults"))
RECORDED = manual.recorded_series(GROUPS)
OF_RULES = [
    manual.of_rule(group, rule, RECORDED)
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
OF_ANOTHER_CAUSE = {"replace_slow"}
"""Steps of Freeze, whose example waits for a backlog and not for a slow disk."""
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


def test_every_alert_of_which_somebody_is_notified_has_a_remedy() -> None:
    """Who is woken by it is not left with a description."""
    mailed = [each for each in OF_RULES if each.severity in {"critical", "warning"}]
    assert [f"{each.alert}/{each.severity}" for each in mailed if not each.advice.strip()] == []


def test_of_every_other_alert_the_manual_says_what_to_do_as_well() -> None:
    """That nothing is to be done is an answer; an empty one leaves its reader to search."""
    assert [f"{each.alert}/{each.severity}" for each in OF_RULES if not each.advice.strip()] == []
    texts = {(each.alert, each.severity): each.advice for each in OF_RULES}
    assert texts["WriteThrottle", "info"].startswith("Nothing, for this alone:")
    assert "  lsblk -f" in texts["DiskSizeIncreased", "notice"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("md_member_failed", "Back up important data before a rebuild"),
        ("md_degraded", "Back up important data before a rebuild"),
        ("areca_hotspare_used", "replace the failed disk, and make the new one a spare"),
        ("megaraid_emergency_spare", "replace the failed disk, and make the new one a spare"),
    ],
)
def test_a_notice_of_lost_redundancy_says_what_to_do(kind: str, expected: str) -> None:
    """It is never mailed alone, but somebody has to mend what it leaves."""
    assert expected in manual.of_event(load_events().rows[kind]).advice


def test_each_step_of_advice_stands_in_a_manual() -> None:
    """The example machine has a fault for each: 'zpool status' is in every mail about a pool."""
    shown: dict[str, bool] = {}
    for rule in (each for group in GROUPS for each in group.rules if isinstance(each, Rule)):
        example = Example(rule)
        steps = example.annotations.get(advice.STEPS, "")
        for name in set(steps.split()) & STEPS.keys():
            found = STEPS[name](manual.step_context(steps, example.subject))
            shown[name] = shown.get(name, False) or bool(found)
    assert {"dirty_limits", "pool", "rescan", "take_back"} <= shown.keys()
    assert {name for name, is_shown in shown.items() if not is_shown} <= OF_ANOTHER_CAUSE


def test_the_remedy_of_a_write_stall_is_in_its_manual() -> None:
    """The command that helps, for the speed of the example's disk, with its trade-off."""
    stall = next(each for each in OF_RULES if each.alert == "WriteStall")
    assert "sysctl -w vm.dirty_background_bytes=16777216 vm.dirty_bytes=33554432" in stall.advice
    assert "Trade-off: shorter stalls" in stall.advice
    assert "bdi/max_ratio" in stall.advice


def test_a_freeze_is_one_sentence_and_its_first_step_is_a_command() -> None:
    """Who is woken by it reads what happened, not how often it may happen."""
    (critical,) = (e for e in OF_RULES if (e.alert, e.severity) == ("Freeze", "critical"))
    assert critical.summary == (
        "programs blocked: 593 MiB queued, 4 min 55 s to write it, for 1 min 35 s"
    )
    assert critical.advice.splitlines()[1].strip() == "echo 5 > /sys/block/dm-0/bdi/max_ratio"
    assert "strict_limit" not in critical.advice


def test_the_thresholds_of_a_recorded_series_are_those_of_its_expression() -> None:
    """An alert on it compares nothing itself; which one uses which is read from the rules."""
    users = [each for each in OF_RULES if ":" in " ".join(each.expression.split()[:1])]
    assert {each.alert for each in users} >= {"WriteStall", "DeviceSuspended"}
    for each in OF_RULES:
        names = [
            name for name in RECORDED if re.search(rf"(?<![\w:]){name}(?![\w:])", each.expression)
        ]
        assert [name for name, _ in each.recorded] == names, each.alert
        for name in names:
            assert set(comparisons(RECORDED[name])) <= set(each.thresholds), each.alert
            assert set(exceptions(RECORDED[name])) <= set(each.exceptions), each.alert
    stall = next(each for each in users if each.alert == "WriteStall")
    assert "iowarden_writeback_drain_seconds >= 2 min" in stall.thresholds
    assert "iowarden_writeback_drain_seconds" in stall.series


def test_a_recorded_series_of_a_recorded_series_is_followed() -> None:
    """Once, also if two refer to each other."""
    text = """\
groups:
  - name: mine
    rules:
      - {record: "a:b", expr: "c:d > 1"}
      - {record: "c:d", expr: "a:b unless x > 2"}
      - {alert: Mine, expr: "a:b"}
"""
    (found,) = manual.of_rules(parse_rule_file(text, "mine.yaml"), "Mine")
    assert found.recorded == (("a:b", "c:d > 1"), ("c:d", "a:b unless x > 2"))
    assert (found.thresholds, found.exceptions) == (("c:d > 1",), ("x > 2",))


def test_a_text_for_a_severity_does_not_contradict_it() -> None:
    """An array with redundancy left is a warning: the critical one survives no other failure."""
    texts = {each.severity: each.description for each in OF_RULES if each.alert == "MdDegraded"}
    assert "survives 1 more failure" in texts["warning"]
    assert "another failure may lose all data" in texts["critical"]
    full = {each.severity: each.summary for each in OF_RULES if each.alert == "FilesystemFull"}
    assert full == {"warning": "/srv is 90 % full", "critical": "/srv is 95 % full"}


def test_the_example_of_a_degraded_array_is_one_array() -> None:
    """Its faulty member is not the one that is being rebuilt in the place of itself."""
    for each in OF_RULES:
        if each.alert == "MdDegraded":
            assert each.summary == "1 member of md0 missing"
            assert "No rebuild is running. sda1 is faulty." in each.description
            assert "sdb1 in_sync" in each.advice
            # What survives one more failure is no mirror of two disks that has lost one.
            assert ("sde1 in_sync" in each.advice) == ("survives 1 more" in each.description)
    (running,) = (each for each in OF_RULES if each.alert == "MdSyncRunning")
    assert running.summary == "array md0: check, 42 % done"


def test_the_advice_about_a_missing_device_is_not_that_about_checksums() -> None:
    """The event and the rule are about the same fault, and say the same steps."""
    (event,) = (each for each in OF_EVENTS if each.alert == "fs_device_missing")
    rule = next(each for each in OF_RULES if each.alert == "BtrfsDeviceMissing")
    for step in ("btrfs filesystem show", "btrfs device scan", "'btrfs replace start'"):
        assert step in event.advice
        assert step in rule.advice
    assert "corrupted" not in event.advice
    assert "Another failure may lose data" in event.description


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


def test_each_number_of_a_rule_can_be_changed_by_a_line_that_is_shown() -> None:
    """One at a time, as it is copied: accepted, and the expression stays what it was."""
    lines = [line for each in OF_RULES for line in each.other_overrides]
    assert len(lines) > len({line.partition(": {")[0] for line in lines}) > 20
    for line in dict.fromkeys(lines):
        changed = apply(GROUPS, parse_config(f"overrides:\n  {line}\n", "changed").overrides)
        ((before, after),) = (
            (before.expression.text, after.expression.text)
            for old, new in zip(GROUPS, changed, strict=True)
            for before, after in zip(old.rules, new.rules, strict=True)
            if after.overridden
        )
        assert unparse(parse(after)) == unparse(parse(before)), line


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a > 1", ["X/warning: {threshold: {a: 1}, for: 0s, severity: warning}"]),
        (
            "a > 1 and b > 2 unless c > 3",
            [
                "X/warning: {threshold: {a: 1}, for: 0s, severity: warning}",
                "X/warning: {threshold: {b: 2, c: 3}}",
            ],
        ),
        (
            "a > 1 or a > 9",
            [
                "X/warning: {for: 0s, severity: warning}",
                "X/warning: {expr: 'a > 1 or a > 9'}",
            ],
        ),
        (
            "a{x='y'} < 0.5 * b",
            [
                "X/warning: {for: 0s, severity: warning}",
                "X/warning: {expr: 'a{x=''y''} < 0.5 * b'}",
            ],
        ),
        ("a - b > -5", ["X/warning: {threshold: {a: -5}, for: 0s, severity: warning}"]),
        ("a == 1 and b != 2", ["X/warning: {for: 0s, severity: warning}"]),
        ("a == 1 and b > 2", ["X/warning: {threshold: {b: 2}, for: 0s, severity: warning}"]),
    ],
)
def test_a_number_among_several_is_changed_by_name_or_with_the_expression(
    expression: str, expected: list[str]
) -> None:
    """A state is no number to change; a factor and one of two limits of a metric have no name."""
    text = f"""\
groups:
  - name: mine
    rules:
      - {{alert: X, expr: "{expression}", labels: {{severity: warning}}}}
"""
    (found,) = manual.of_rules(parse_rule_file(text, "mine.yaml"), "X")
    assert [found.override, *found.other_overrides] == expected


def test_each_change_of_an_event_that_is_shown_is_accepted() -> None:
    """Also of those that are not recorded, and whose severity the controller sends."""
    lines = "\n".join(f"  {each.override}" for each in OF_EVENTS)
    rows = load_events(parse_config(f"overrides:\n{lines}\n", "changed").overrides).rows
    assert [row.kind for row in rows.values() if row.severity_here is None] == []
    assert [r.kind for r in rows.values() if r.severity not in {None, r.severity_here}] == []


def _numbers(rule: Rule) -> list[float]:
    return [
        float(each.split()[-1]) for each in thresholds(rule.expression.text) if each[-1].isdigit()
    ]


def test_a_limit_is_what_a_person_may_move() -> None:
    """Not a state; not a metric that is compared with two numbers; with its factor."""
    text = "a == 1 and b > 2 unless (c >= 5 or c >= 9) and d > 1.5 * e"
    assert adjustable(text) == [("b", "2")]
    assert comparisons(text) == ["b > 2", "d > 1.5 * e"]
    assert exceptions(text) == ["c >= 5", "c >= 9"]
    assert comparisons("(x_timestamp_seconds - time()) / 86400 < 365") == [
        "(x_timestamp_seconds - time()) / 86400 < 365"
    ]


def test_an_exception_is_told_with_what_cancels_it() -> None:
    """A full file system is none while 100 GB are free, unless they are gone within 30 days."""
    text = "full > 0.8 unless (free >= 100 unless (days < 30 or growth > 9)) unless old == 1"
    assert comparisons(text) == ["full > 0.8"]
    assert exceptions(text) == ["free >= 100 unless days < 30 or growth > 9"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("free_bytes >= 1e11", "free_bytes >= 93.1 GiB"),
        ("avg_over_time(used_ratio[5m]) > 0.9", "used_ratio > 90 %"),
        ("max by (device) (wait_seconds) > 2592000", "wait_seconds > 30 d"),
        ("age_seconds - usual_seconds >= 900", "age_seconds - usual_seconds >= 15 min"),
        ("1e9 < free_bytes", "954 MiB < free_bytes"),
        ("read_bytes_per_second > -1024", "read_bytes_per_second > -1 KiB/s"),
        ("rate(read_bytes_total[5m]) > 1000", "read_bytes_total > 1000"),
        ("a_bytes / b_bytes > 0.9", "a_bytes / b_bytes > 0.9"),
        ("time() - x_timestamp_seconds > 300", "time() - x_timestamp_seconds > 300"),
        ("temperature_celsius >= 60", "temperature_celsius >= 60"),
    ],
)
def test_a_limit_has_the_unit_of_what_it_limits(text: str, expected: str) -> None:
    """As in a mail; a number whose unit is not that of a metric is shown as it is written."""
    assert comparisons(text) == [expected]


def test_what_keeps_an_alert_from_firing_is_not_its_threshold() -> None:
    """The line that changes it names the limit by which it fires, or its time."""
    full = next(e for e in OF_RULES if (e.alert, e.severity) == ("ZfsPoolFull", "warning"))
    (exception,) = full.exceptions
    assert exception.startswith("iowarden_zfs_pool_free_bytes >= 93.1 GiB unless ")
    assert [each for each in full.thresholds if "free_bytes" in each] == []
    assert "free_bytes" not in full.override
    off = next(each for each in OF_RULES if each.alert == "DirtyWritebackDisabled")
    assert (off.thresholds, off.exceptions) == ((), ("iowarden_vm_laptop_mode > 0",))
    assert off.override == "DirtyWritebackDisabled/info: {for: 0s, severity: info}"


def test_a_limit_for_one_disk_model_is_another_one_for_its_disks_alone() -> None:
    """The line as it is shown, with a second number: 61 C are too hot, but not for that model."""
    of = next(e for e in OF_RULES if (e.alert, e.severity) == ("DiskTemperatureHigh", "warning"))
    begin, _, end = of.model_override.rpartition(">= 0")
    line = f"{begin}>= 10{end}"
    groups = apply(GROUPS, parse_config(f"overrides:\n  {line}\n", "changed").overrides)
    (rule,) = (
        rule
        for group in groups
        for rule in group.rules
        if isinstance(rule, Rule) and rule.overridden and rule.alert == of.alert
    )
    excess, drive = "iowarden_smart_temperature_excess_celsius", "iowarden_disk_info"
    disks = {"a": (9.0, MODEL), "b": (11.0, MODEL), "c": (1.0, "OTHER")}
    store = SeriesStore()
    store.append_many(
        0.0,
        [
            *((excess, (("disk", disk),), hot) for disk, (hot, _) in disks.items()),
            *((drive, (("disk", d), ("model", m)), 1.0) for d, (_, m) in disks.items()),
        ],
    )
    fires = rule.expression.evaluate(store, 0.0)
    assert isinstance(fires, list)
    assert sorted(dict(each.labels)["disk"] for each in fires) == ["b", "c"]


def test_only_a_rule_that_compares_a_series_of_drives_has_a_line_for_a_model() -> None:
    """The others have not the label that names the model, or more than one condition."""
    lines = [each.model_override for each in OF_RULES if each.model_override]
    assert len(lines) > 10
    for line in lines:
        apply(GROUPS, parse_config(f"overrides:\n  {line}\n", "changed").overrides)
    metrics = {word for line in lines for word in re.findall(r"iowarden_smart_\w+", line)}
    assert {each for each in metrics if "disk" not in LABELS[each]} == set()
    of = {f"{each.alert}/{each.severity}": each.model_override for each in OF_RULES}
    assert of["DiskPendingSectors/critical"] == of["DeviceHang/critical"] == ""


def test_what_severities_have_in_common_is_said_once() -> None:
    """Steps of which only some differ were printed twice, for each severity from the first on."""
    first, last, own = "Look:\n  lsblk", "Then wait.", "Back up."
    found = manual.shared_advice(
        [
            Manual("X", "critical", "", "", advice=f"{first}\n{own}\n{last}"),
            Manual("X", "warning", "", "", advice=f"{first}\n{last}"),
        ]
    )
    assert found == [((), first), (("critical",), own), ((), last)]
    alike = [Manual("X", severity, "", "", advice=first) for severity in ("critical", "warning")]
    assert manual.shared_advice(alike) == [((), first)]
    steps = {(e.alert, e.severity): e.advice for e in OF_RULES}
    for alert in {each.alert for each in OF_RULES}:
        of = [each for each in OF_RULES if each.alert == alert]
        parts = manual.shared_advice(of)
        for each in of:
            whole = "\n".join(t for who, t in parts if not who or each.severity in who)
            assert whole == steps[alert, each.severity]


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
    assert found.override == (
        "Mine/notice: {threshold: {my_queue_length: 7}, for: 300s, severity: notice}"
    )
    assert found.series == ('my_queue_length{rack=~"r[0-9]",site="x"}',)
