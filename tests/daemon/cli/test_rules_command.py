"""`iowarden rules check`, `test` and `list`, on realistic files."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.program import Feed, Played, recorded

from iowarden.collectors.packages import documentation
from iowarden.daemon.cli import main
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import (
    MAX_RULE_FILE_BYTES,
    load_events,
    load_files,
    load_rules,
)
from iowarden.daemon.config.rule_notes import catalog
from iowarden.daemon.control import control_socket, listen
from iowarden.daemon.terminal import exit_status
from iowarden.rules.rulefile.rulefile import parse_rule_file
from iowarden.rules.rulefile.unmatched_selectors import unmatched
from iowarden.rules.yaml_nodes import RuleFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
MINE = """\
groups:
  - name: mine
    rules:
      - alert: Mine
        expr: |
          iowarden_vm_laptop_mode
            > 0
        labels: {severity: notice, condition: X1}
      - {record: a:b, expr: up + 1}
"""
TESTS = """\
rule_files: ['*.rules', nothing.yaml]
tests:
  - input_series: [{series: up, values: 1x5}]
    promql_expr_test: [{expr: 'a:b', eval_time: 1m, exp_samples: [{labels: 'a:b', value: 2}]}]
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a directory with a configuration and an administrator's rules."""
    (tmp_path / "rules.d").mkdir()
    (tmp_path / "rules.d" / "mine.yaml").write_text(MINE)
    (tmp_path / "c.yaml").write_text(
        f"rules_directory: {tmp_path}/rules.d\nstate_directory: {tmp_path}\n"
        "overrides:\n  NoSwap: {enabled: false}\n  FilesystemFull/warning: {threshold: 0.85}\n"
    )
    return tmp_path


def config(home: Path) -> tuple[str, ...]:
    """Return the options that name the configuration and the service of a directory."""
    return ("--config", str(home / "c.yaml"), "--state-directory", str(home))


# --- check


def test_what_the_service_would_load_is_counted(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shipped rules without a disabled one, and the administrator's rules."""
    assert main.main(["rules", "check", *config(home)]) == 0
    with_override = capsys.readouterr().out
    (home / "c.yaml").write_text(f"rules_directory: {home}/rules.d")
    assert main.main(["rules", "check", *config(home)]) == 0
    without = capsys.readouterr().out
    assert int(without.split()[0]) == int(with_override.split()[0]) + 1
    assert main.main(["rules", "check", str(home / "rules.d" / "mine.yaml")]) == 0
    assert capsys.readouterr().out == "2 rules in 1 group\n"


def test_what_history_a_long_range_may_need_is_estimated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before a reload: a week of /proc each second is more than of what is read each five minutes.

    A range below an hour needs little.
    """
    file = tmp_path / "mine.yaml"
    file.write_text(
        "groups: [{name: g, rules: ["
        "{alert: A, expr: 'delta(iowarden_vmstat_dirty_bytes[7d]) > 0'},"
        "{alert: B, expr: 'changes(iowarden_backup_files[7d]) < 1'},"
        "{alert: C, expr: 'rate(iowarden_uevents_total[5m]) > 1'}]}]"
    )
    assert main.main(["rules", "check", str(file)]) == 0
    found = [line for line in capsys.readouterr().out.splitlines() if "history" in line]
    assert ["iowarden_vmstat" in line or "iowarden_backup" in line for line in found] == [
        True,
        True,
    ]
    assert "41,180 samples, 643 KiB, for each series" in found[0]
    assert "2,017 samples" in found[1]
    assert "all history: 8,000,000" in found[0]


def test_a_directory_is_no_rule_file_and_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever names the directory of all rules is not told to remove it."""
    assert main.main(["rules", "check", str(tmp_path)]) == exit_status.CONFIG
    told = capsys.readouterr()
    assert "expected a file, got something else" in told.out + told.err
    assert "remove" not in told.out + told.err


ODD = """\
groups:
  - name: odd
    rules:
      - alert: Backup
        expr: |
          absent(mysql_up)
            or iowarden_writeback_queued_byte > 5
      - {alert: Other, expr: 'node_load1{job="node-exporter"} > 5 and on(instance) up'}
      - {alert: Ours, expr: 'rate(iowarden_uevents_total{job=~"iowarden|x", instance!=""}[5m]) > 1'}
      - {alert: Good, expr: 'node_load1{job=~"node|n"} + up{instance="db1"} + a:b{job="x"}'}
      - {alert: Also, expr: 'ALERTS{job="a"} or up{job="node"} < 1 or iowarden_rules{job=""}'}
      - {alert: Any, expr: '{z="y", job="x"} > 1'}
      - {record: 'a:b', expr: 'smartctl_device + iowarden_incidents_open{job!="x"}'}
"""
QUEUED = "iowarden_writeback_queued_byte"
NOTES = (
    "7:18: note: Backup: there is no metric 'mysql_up', so absent() is always true; all names:",
    f"8:16: note: Backup: there is no metric '{QUEUED}', so this never matches; did you mean '",
    "9:31: note: Other: 'node_load1' never has job=\"node-exporter\", so this never matches; here",
    '10:35: note: Ours: \'iowarden_uevents_total\' never has job=~"iowarden|x", instance!="", so ',
)
REMEDIES = (
    f"all names: {documentation()}/metrics.md",
    f"did you mean '{QUEUED}s'?",
    'have instance="db1", job="node"; write that, or set \'targets\' in the configuration',
    "these series have neither 'job' nor 'instance'; leave them out",
)


def test_what_can_never_find_anything_is_noted_where_it_stands(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A typo, another program's metric, a job of another name: a note, not an error."""
    own = home / "rules.d" / "own.yaml"
    own.write_text("# odd\n" + ODD)
    (home / "c.yaml").write_text((home / "c.yaml").read_text() + "host: db1\n")
    for command in (["check"], ["check", str(own)], ["list"]):
        assert main.main(["rules", *command, *config(home)]) == 0
        lines = [line for line in capsys.readouterr().out.splitlines() if ": note: " in line]
        assert len(lines) == len(NOTES)
        for line, expected, cure in zip(lines, NOTES, REMEDIES, strict=True):
            assert line.startswith(f"'{own}':{expected}")
            assert line.endswith(cure)
    (home / "c.yaml").write_text(
        (home / "c.yaml").read_text() + "targets: {node_job: node-exporter}"
    )
    assert main.main(["rules", "check", *config(home)]) == 0
    assert 'node_load1\' never has job="node-exporter"' not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ('iowarden_device_hang_seconds{disk="X"} > 30', "has no label 'disk'"),
        ('iowarden_device_hang_seconds{disk!="X"} > 30', ""),
        ('iowarden_device_hang_seconds{device=~"sd.*"} > 30', ""),
        ('iowarden_smart_attribute_raw{id="5"} > 0', ""),
        (
            "iowarden_device_hang_seconds > 30 and on (disk) iowarden_smart_attribute_raw > 0",
            "the left side of 'and' has no label 'disk', so 'on' never matches; its labels: device",
        ),
        (
            "max by (disk) (iowarden_smart_attribute_raw) < on (device) iowarden_device_read_only",
            "the left side of '<' has no label 'device'",
        ),
        ("iowarden_device_hang_seconds > 30 and on (device) iowarden_device_read_only", ""),
        ("iowarden_device_hang_seconds and on () iowarden_memory_total_bytes", ""),
        ("iowarden_device_hang_seconds or on (disk) iowarden_smart_attribute_raw", ""),
        (
            'label_join(iowarden_device_offline, "disk", "device") * on (disk) iowarden_disk_info',
            "",
        ),
        ("smartctl_device_smart_status == 0", ""),
        ("smartctl_device_status == 0", "did you mean 'smartctl_device_smart_status'?"),
        ('{__name__=~"smartctl_device_a.*"} > 0', ""),
        ('{__name__=~"smartctl_x.*"} > 0', "no metric has __name__"),
        ("node_memory_SReclaimable_bytes > 0", ""),
        ("node_memory_KReclaimable_bytes > 0", "did you mean 'node_memory_SReclaimable_bytes'?"),
        ('node_md_disks{state="failed"} > 0', ""),
        ("node_md_failed > 0", "there is no metric 'node_md_failed'"),
        ("node_vmstat_pgmajfault > 0", ""),
        ("absent(mysql_up)", "there is no metric 'mysql_up', so absent() is always true"),
        ('{__name__=~"iowarden_devise_.+"} > 0', "no metric has __name__=~"),
        ('{__name__=~"iowarden_device_.+"} > 0', ""),
        ('{__name__=~"node_.+"} > 0', ""),
    ],
)
def test_labels_and_joins_that_cannot_be_are_noted(
    expression: str, reason: str, tmp_path: Path
) -> None:
    """Names, labels and 'on' are compared with the labels that each metric has."""
    text = f"groups: [{{name: g, rules: [{{alert: A, expr: {json.dumps(expression)}}}]}}]"
    found = unmatched(
        parse_rule_file(text, "mine.yaml"), catalog(parse_config("", "iowarden.yaml"))
    )
    assert len(found) == bool(reason)
    assert all(reason in each.reason for each in found)


NEVER = "iowarden_memory_swap_total_bytess > 0"


@pytest.mark.parametrize("command", [["rules", "check"], ["config", "check"]])
def test_an_override_that_never_fires_is_noted_where_it_stands(
    home: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistyped metric would switch the alert off unseen; what another rule records is good."""
    place = home / "c.yaml"
    typed = (
        place.read_text().replace("  NoSwap: {enabled: false}\n", "")
        + f"  NoSwap: {{expr: {NEVER}}}\n"
    )
    place.write_text(
        typed + "  MdDegraded/critical: {expr: 'iowarden:write_stall:queued_bytes > 0'}\n"
    )
    assert main.main([*command, *config(home)[:2]]) == 0
    told = capsys.readouterr().out
    assert (
        f"'{place}':5: note: overrides: NoSwap: expr: there is no metric"
        " 'iowarden_memory_swap_total_bytess', so this never matches; did you mean"
        " 'iowarden_memory_swap_total_bytes'?" in told
    )
    assert told.count(": note: ") == 1
    shown = f"  note: expr of '{place}':5: there is no metric 'iowarden_memory_swap_total_bytess'"
    for words in (["explain", "NoSwap"], ["rules", "show", "NoSwap"]):
        assert main.main([*words, *config(home)]) == 0
        assert shown in capsys.readouterr().out
    assert main.main(["explain", "MdDegraded", *config(home)]) == 0
    assert "note" not in capsys.readouterr().out


def test_a_missing_directory_of_rules_is_an_error(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the configuration names it: its rules would never be evaluated. The default may miss."""
    (home / "c.yaml").write_text(f"rules_directory: {home}/rule.d\nstate_directory: {home}\n")
    for command in (["rules", "check"], ["config", "check"]):
        assert main.main([*command, *config(home)[:2]]) == exit_status.CONFIG
        assert capsys.readouterr().err == (
            f"'{home}/rule.d': expected the directory of 'rules_directory', got none; did you mean"
            f" '{home}/rules.d'?; correct 'rules_directory', or create it\n"
        )


def test_a_mistyped_severity_is_an_error_and_a_foreign_one_a_note(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be a warning; a severity of another program's may stay in a file for both."""
    own = home / "rules.d" / "mine.yaml"
    own.write_text(MINE.replace("notice", "critcal"))
    for words in (config(home), (str(own),)):
        assert main.main(["rules", "check", *words]) == exit_status.CONFIG
        assert capsys.readouterr().err == (
            f"'{own}':4: Mine: severity: expected one of info, notice, warning, critical, got"
            " 'critcal'; did you mean 'critical'?\n"
        )
    for foreign in ("page", "none"):
        own.write_text(MINE.replace("notice", foreign))
        assert main.main(["rules", "check", *config(home)]) == 0
        note = f"':4:1: note: Mine: severity '{foreign}' counts as warning here; iowarden has info"
        assert note in capsys.readouterr().out
    own.write_text(MINE.replace("notice", "'{{ $labels.level }}'"))
    assert main.main(["rules", "check", *config(home)]) == 0
    assert "severity" not in capsys.readouterr().out


def test_no_shipped_rule_has_a_selector_or_a_join_that_never_matches() -> None:
    """The check itself: the shipped rules are tested with data that they match."""
    settings = parse_config("", "iowarden.yaml")
    groups = load_rules(dataclasses.replace(settings, rules_directory=""))
    assert [each.reason for each in unmatched(groups, catalog(settings))] == []


def test_the_service_reports_which_rule_can_never_find_anything(home: Path) -> None:
    """The note is in the log, for an alert that never fires; a reload with a fix ends it."""
    own = home / "rules.d" / "own.yaml"
    own.write_text(ODD)
    feed = Feed(recorded("idle"), home / "feed")
    program = Played(home, feed)
    program.start()
    feed.give(2)
    note = "note: Backup: there is no metric 'mysql_up'"
    program.until(lambda: note in program.text(), "the note")
    assert "; and more: see 'iowarden rules check'" in program.text()
    own.unlink()
    program.hang_up()
    feed.give(2)
    program.until(lambda: "configuration reloaded" in program.text(), "the reload")
    program.end()
    assert program.text().count(note) == 2
    assert "notes: works again" in program.text()


def test_the_status_shows_an_override_that_never_fires(home: Path) -> None:
    """Whoever waits for that alert looks there, not at the log of the start."""
    program = Played(home, Feed(recorded("idle"), home / "feed"))
    program.config.write_text(
        program.config.read_text() + f"overrides: {{NoSwap: {{expr: {NEVER}}}}}\n"
    )
    program.start()
    program.feed.give(2)
    reason = f"note: overrides: NoSwap: expr: there is no metric '{NEVER.split(maxsplit=1)[0]}', so"
    program.until(lambda: reason in program.command("status").stdout, "the note")
    program.end()


def test_shipped_rules_find_what_they_name() -> None:
    """A typo in a rule would be an alert that never fires."""
    settings_ = parse_config("", "c.yaml")
    groups = load_rules(dataclasses.replace(settings_, rules_directory=""))
    assert len(groups) > 5
    assert unmatched(groups, catalog(settings_)) == []


def test_an_alert_that_cannot_be_distinguished_from_a_shipped_one_is_refused(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A restored alert is assigned to its rule by name and severity; the error has the remedy."""
    own = home / "rules.d" / "own.yaml"
    text = "groups: [{name: g, rules: [{alert: FilesystemFull, expr: a, labels: {severity: %s}}]}]"
    own.write_text(text % "warning")
    assert main.main(["rules", "check", *config(home)]) == 78
    told = capsys.readouterr().err
    assert (
        f"'{own}':1: expected a name other than that of the alert 'FilesystemFull/warning'" in told
    )
    assert "'FilesystemFull/warning' in shipped filesystem.yaml:" in told
    assert "or disable it there: 'FilesystemFull/warning: {enabled: false}'" in told
    own.write_text(text % "'{{ $labels.level }}'")
    assert main.main(["rules", "check", *config(home)]) == 78
    for good in (text % "notice", text.replace(", labels: {severity: %s}", "")):
        own.write_text(good)
        assert main.main(["rules", "check", *config(home)]) == 0
    own.write_text(text % "warning")
    (home / "c.yaml").write_text(
        f"rules_directory: {home}/rules.d\nstate_directory: {home}\n"
        "overrides: {FilesystemFull/warning: {enabled: false}}\n"
    )
    assert main.main(["rules", "check", *config(home)]) == 0


def test_all_that_is_wrong_with_all_files_is_reported(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """File, line and column of each; the configuration's overrides first."""
    rules = home / "rules.d"
    (rules / "one.yaml").write_text(MINE.replace("> 0", "> 0 0").replace("a:b", "a-b"))
    (rules / "two.yaml").write_text(MINE + "  - {name: mine, rule: 5}\n")
    (home / "c.yaml").write_text(f"rules_directory: {rules}\noverrides: {{A: {{for: 5m}}}}\n")
    assert main.main(["rules", "check", *config(home)]) == exit_status.CONFIG
    told = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[0] for line in told] == [
        f"'{home}/c.yaml':2",
        f"'{rules}/one.yaml':7:17",
        f"'{rules}/one.yaml':9:18",
        f"'{rules}/two.yaml':10:5",
        f"'{rules}/two.yaml':10:18",
    ]
    assert main.main(["rules", "check", str(rules / "two.yaml")]) == exit_status.CONFIG
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert main.main(["config", "check", str(home / "c.yaml")]) == exit_status.CONFIG
    assert capsys.readouterr().err.splitlines() == told


def test_what_is_no_rule_file_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Missing, a directory, 10 MB, not UTF-8."""
    (home / "big").write_text("#" * 10_000_000)
    (home / "latin").write_bytes(b"# \xe9")
    names = ("missing", "rules.d", "big", "latin")
    files = [str(home / name) for name in names]
    assert main.main(["rules", "check", *files]) == exit_status.CONFIG
    lines = capsys.readouterr().err.splitlines()
    for line, file, expected in zip(
        lines,
        files,
        (
            "expected a readable rule file, got 'No such",
            "expected a file",
            "at most 1048576 bytes",
            "in UTF-8, got other data (unexpected end of data at byte 2)",
        ),
        strict=True,
    ):
        assert line.startswith(f"'{file}': ")
        assert expected in line


LABELS = ", ".join(f"l{number}: x" for number in range(1000))
ONE = "groups:\n  - name: g\n    rules:\n      - alert: A\n        "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            ONE
            + f"expr: up\n        labels: &l {{{LABELS}}}\n"
            + "      - {alert: A, expr: up, labels: *l}\n" * 400,
            "'x':6:17: expected at most 4 MB with what aliases repeat",
        ),
        (
            f"{ONE}expr: &e up{' ' * 80_000} + up\n" + "      - {alert: A, expr: *e}\n" * 100,
            "'x':5:15: expected at most 4 MB with what aliases repeat",
        ),
        (
            "a: &a [x, x, x, x, x, x, x, x]\n"
            + "".join(
                f"{b}: &{b} [{', '.join([f'*{a}'] * 8)}]\n"
                for a, b in zip("abcdefghijklmno", "bcdefghijklmnop", strict=True)
            )
            + "groups: *p",
            "'x':1:1: file: unknown key 'a'",
        ),
        ("groups: &g [*g, *g]", "'x':1:9: group: expected a mapping, got a list"),
        (f"groups: {'[' * 100_000}", "'x':1:72: expected at most 64 levels"),
        ("groups: [" + "x, " * 10_000 + "]", "group: expected a mapping, got a text"),
    ],
    ids=["labels", "expressions", "lists", "itself", "deep", "errors"],
)
def test_a_small_file_cannot_ask_for_much(text: str, expected: str) -> None:
    """YAML aliases are refused by line, before they fill memory or take minutes."""
    assert len(text) <= MAX_RULE_FILE_BYTES
    with pytest.raises(RuleFileError) as caught:
        parse_rule_file(text, "x")
    assert expected in caught.value.errors[0]
    assert len(caught.value.errors) <= 200


# --- test


def test_unit_tests_find_their_rules_beside_them(
    home: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By patterns relative to the test file; a pattern that matches no file is reported."""
    monkeypatch.chdir("/")
    (home / "mine.rules").write_text(MINE)
    (home / "t.yaml").write_text(TESTS)
    assert main.main(["rules", "test", str(home / "t.yaml")]) == 0
    said = capfd.readouterr()
    assert said.out == f"Unit Testing:  {home}/t.yaml\n  SUCCESS\n\n"
    assert said.err == "  WARNING: no file match pattern nothing.yaml\n"


def test_a_file_without_tests_has_not_succeeded(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A file that is empty, or whose tests were lost, was 'SUCCESS'."""
    for text in ("", "rule_files: [mine.rules]\n"):
        (home / "mine.rules").write_text(MINE)
        (home / "t.yaml").write_text(text)
        assert main.main(["rules", "test", str(home / "t.yaml")]) == exit_status.FAILED
        assert "expected a list 'tests' of at least one test, got none" in capfd.readouterr().err


@pytest.mark.parametrize("pattern", ["../../{}", "{}"], ids=["relative", "absolute"])
def test_shipped_rules_are_tested_by_their_path(
    pattern: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A rule file of the source tree, or of an installation, by any path."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "iowarden.yaml").write_bytes((ROOT / "rules" / "iowarden.yaml").read_bytes())
    place = pattern.format("iowarden.yaml" if ".." in pattern else tmp_path / "iowarden.yaml")
    tests = tmp_path / "a" / "b" / "t.yaml"
    tests.write_text(
        f"rule_files: ['{place}']\n"
        "tests:\n"
        "  - input_series: [{series: 'iowarden_probe_up', values: '0x9'}]\n"
        "    alert_rule_test: [{eval_time: 9m, alertname: ProbeDown}]\n"
    )
    assert main.main(["rules", "test", str(tests)]) == exit_status.FAILED
    assert 'Labels:{alertname="ProbeDown"' in capfd.readouterr().err


def test_one_bad_file_of_tests_fails_all_and_stops_none(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Bad tests, bad rules, missing tests, and a good one: each is reported."""
    (home / "mine.rules").write_text(MINE)
    (home / "good.yaml").write_text(TESTS)
    (home / "bad.yaml").write_text(TESTS.replace("promql_expr_test", "promql"))
    (home / "rules.yaml").write_text(TESTS.replace("*.rules", "bad.yaml"))
    files = [str(home / f"{name}.yaml") for name in ("bad", "rules", "missing", "good")]
    assert main.main(["rules", "test", *files]) == exit_status.FAILED
    said = capfd.readouterr()
    assert said.out.count("Unit Testing:") == 4
    assert said.out.count("SUCCESS") == 1
    assert said.err.count("FAILED:") == 3
    assert f"'{home}/bad.yaml':4:5: test 1: unknown key 'promql'" in said.err
    assert f"'{home}/bad.yaml':1:1: file: unknown key 'rule_files'" in said.err
    assert f"'{home}/missing.yaml': expected a readable rule file, got 'No such file" in said.err


# --- list


@pytest.fixture
def service(home: Path) -> Iterator[list[dict[str, Any]]]:
    """Return the alerts that a service on the socket of a directory reports."""
    alerts: list[dict[str, Any]] = []

    def answer(command: object) -> None:
        assert isinstance(command, control_socket.ControlCommand)
        command.reply({"answer": {"alerts": alerts}})

    path = str(home / listen.FILE_NAME)
    served = control_socket.Control(listen.bind(path), answer, print, remove=path)
    yield alerts
    served.close()


def listed(home: Path, capsys: pytest.CaptureFixture[str]) -> dict[tuple[str, str], Any]:
    """Return what is listed, by name and severity."""
    assert main.main(["rules", "list", "--json", *config(home)]) == 0
    lines = json.loads(capsys.readouterr().out)
    return {(line["rule"], line["severity"]): line for line in lines}


def test_rules_are_listed_with_what_they_query_and_where_they_are_from(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shipped rules with their overrides; without state, as no service answers."""
    lines = listed(home, capsys)
    mine = lines["Mine", "notice"]
    assert mine == {
        "rule": "Mine",
        "type": "alert",
        "severity": "notice",
        "condition": "X1",
        "state": "-",
        "source": f"'{home}/rules.d/mine.yaml':4",
        "expression": "iowarden_vm_laptop_mode > 0",
        "meaning": "",
        "group": "mine",
        "file": f"{home}/rules.d/mine.yaml",
        "line": 4,
        "overridden": [],
    }
    full = lines["FilesystemFull", "warning"]
    assert full["overridden"] == ["threshold"]
    assert full["source"].startswith("shipped filesystem.yaml:")
    assert full["source"].endswith(", overridden: threshold")
    assert full["expression"].startswith("iowarden_filesystem_sustained_used_ratio > 0.85 ")
    assert not [name for name, _ in lines if name == "NoSwap"]


def test_the_worst_state_of_a_rules_alerts_is_listed(
    home: Path, service: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The state is that of the alerts with the same severity in the service."""
    for severity, state in (("warning", "pending"), ("warning", "firing"), ("critical", "unknown")):
        service.append({"name": "FilesystemFull", "severity": severity, "state": state})
    service += [{"name": "NoSuch", "severity": "info", "state": "firing"}]
    service += [{"name": "DiskSizeIncreased", "severity": "notice", "state": "pending"}] * 2
    lines = listed(home, capsys)
    assert lines["FilesystemFull", "warning"]["state"] == "firing"
    assert lines["FilesystemFull", "critical"]["state"] == "unknown"
    assert lines["DiskSizeIncreased", "notice"]["state"] == "pending (2)"
    assert lines["Mine", "notice"]["state"] == "inactive"
    assert lines["a:b", ""]["state"] == "-"


def test_classes_of_events_are_listed_as_they_are_configured(
    home: Path, service: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Their alerts are mailed like those of rules, and 'explain' knows the same names."""
    place = home / "c.yaml"
    place.write_text(
        place.read_text() + "  md_kicked: {severity: notice}\n  ata_link_down: {enabled: false}\n"
    )
    service += [{"name": "scsi_medium_error", "severity": "critical", "state": "firing"}] * 2
    lines = {name: line for (name, _), line in listed(home, capsys).items()}
    events = {name for name, line in lines.items() if line["type"] == "event"}
    raised = {kind for kind, row in load_events().rows.items() if row.severity is not None}
    assert events == raised - {"ata_link_down"}
    medium = lines["scsi_medium_error"]
    assert medium["source"].startswith("shipped events.yaml:")
    assert (medium["severity"], medium["state"]) == ("warning", "firing (2)")
    assert medium["meaning"] == "the disk could not read or write sectors"
    assert medium["expression"] == medium["group"] == ""
    assert (lines["md_kicked"]["severity"], lines["md_kicked"]["overridden"]) == (
        "notice",
        ["severity"],
    )
    assert main.main(["rules", "list", *config(home)]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"\n +scsi_medium_error +warning +firing \(2\) +shipped events\.yaml:", shown)


def test_a_piped_list_is_columns_with_whole_expressions(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line per rule, nothing cut off."""
    assert main.main(["rules", "list", *config(home)]) == 0
    lines = capsys.readouterr().out.splitlines()
    head = lines[1].split()
    assert head == ["rule", "severity", "state", "source", "expression"]
    (mine,) = [line for line in lines if line.split()[:1] == ["Mine"]]
    assert mine.endswith("iowarden_vm_laptop_mode > 0")
    assert mine.index("notice") == lines[1].index("severity")


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_a_label_cannot_command_the_terminal(
    home: Path, capsys: pytest.CaptureFixture[str], label: str
) -> None:
    """Whatever a rule file contains, each rule is one line of printable text."""
    text = MINE.replace("condition: X1", f"condition: {json.dumps(label)}")
    (home / "rules.d" / "mine.yaml").write_text(text)
    (home / "c.yaml").write_text(f"rules_directory: {home}/rules.d\nshipped_rules: false\n")
    assert main.main(["rules", "list", *config(home)]) == 0
    out = capsys.readouterr().out
    assert all(one.isprintable() or one == "\n" for one in out)


def test_too_many_rules_in_all_files_are_refused(tmp_path: Path) -> None:
    """Each file is within its limit, but all together would exceed the memory of the service."""
    files = [tmp_path / f"{number}.yaml" for number in range(3)]
    for file in files:
        rules = "".join(f"  - {{record: r{number}, expr: up}}\n" for number in range(4000))
        file.write_text(f"groups:\n- name: g\n  rules:\n{rules}")
    assert len(load_files(files[:2])) == 2
    with pytest.raises(RuleFileError, match=r"2\.yaml': expected at most 10000 rules"):
        load_files(files)
