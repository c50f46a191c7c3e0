"""Users of a renamed word are given the new one, with the place in their file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iowarden.daemon.cli import main
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_rules, notes
from iowarden.daemon.config.schema import ConfigError
from iowarden.daemon.replay import expectation
from iowarden.daemon.terminal import exit_status
from iowarden.rules.rename_table import NameKind, Rename
from iowarden.rules.renames import Renames
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from pathlib import Path

NAMES = Renames(
    (
        Rename(NameKind.METRIC, "iowarden_queued", "iowarden_writeback_queued_bytes"),
        Rename(NameKind.ALERT, "Stall", "WriteStall"),
        Rename(NameKind.LABEL, "disk_name", "device"),
        Rename(NameKind.VALUE, "idle_state", "idle", of="sync_action"),
        Rename(NameKind.CONDITION, "B9", "B1"),
        Rename(NameKind.COMMAND, "tell", "status"),
        Rename(
            NameKind.METRIC, "iowarden_late", "iowarden_limit", labels=(("severity", "warning"),)
        ),
        Rename(
            NameKind.METRIC, "iowarden_dead", "iowarden_limit", labels=(("severity", "critical"),)
        ),
        Rename(NameKind.CHANGE, "worse_now", "escalated"),
        Rename(NameKind.CHOICE, "storcli_log", "storcli", of="explain --as"),
        Rename(NameKind.KEY, "rule_period", "evaluation_interval"),
        Rename(NameKind.KEY, "smart.every", "smart.interval"),
        Rename(NameKind.KEY, "every.block", "intervals.block"),
    )
)
RULES = """\
groups:
  - name: mine
    rules:
      - alert: Mine
        expr: >-
          iowarden_queued{disk_name="sda"} > 5
          and on () ALERTS{alertname=~"Stall|Other", condition="B9"}
      - alert: Late
        expr: iowarden_device_hang_seconds > on (device) iowarden_late
      - alert: Good
        expr: iowarden_md_sync_action_info{sync_action!="idle_state"} > 0
"""


def test_a_message_about_old_names_in_a_rule_file_has_the_new_ones(tmp_path: Path) -> None:
    """A metric, a label and its value, an alert, a condition: each where its selector begins."""
    own = tmp_path / "own.yaml"
    own.write_text(RULES)
    config = parse_config(f"rules_directory: {tmp_path}\n", "iowarden.yaml")
    found = notes(load_rules(config), config, NAMES)
    place = f"'{own}':"
    assert found[:4] == [
        (
            f"{place}6:11: note: Mine: the metric 'iowarden_queued' is called"
            " 'iowarden_writeback_queued_bytes' now; write that"
        ),
        f"{place}6:11: note: Mine: the label 'disk_name' is called 'device' now; write that",
        f"{place}7:21: note: Mine: the alert 'Stall' is called 'WriteStall' now; write that",
        f"{place}7:21: note: Mine: the condition 'B9' is called 'B1' now; write that",
    ]
    assert found[4].startswith(
        f"{place}9:58: note: Late: the metric 'iowarden_late' is called"
        " 'iowarden_limit{severity=\"warning\"}' now"
    )
    assert found[5].startswith(f"{place}11:15: note: Good: the label value 'idle_state' is called")
    assert not [line for line in found if "there is no metric 'iowarden_queued'" in line]


def test_overrides_with_old_words_hold_and_are_told_the_new_ones(tmp_path: Path) -> None:
    """By 'rules check' and 'config check', and by the service in its log."""
    text = (
        f"rules_directory: {tmp_path}\noverrides:\n  Stall/critical: {{enabled: false}}\n"
        "  NoSwap: {enabled: false}\n"
    )
    config = parse_config(text, "iowarden.yaml")
    groups = load_rules(config, NAMES)
    names = [getattr(rule, "alert", "") for group in groups for rule in group.rules]
    assert names.count("WriteStall") == 1, "of two"
    assert notes(groups, config, NAMES) == [
        (
            "'iowarden.yaml':3:3: note: overrides: the alert 'Stall/critical' is called"
            " 'WriteStall/critical' now; write that"
        )
    ]


def test_an_expectation_with_old_words_expects_the_new_ones_and_names_them() -> None:
    """An old test of a recording still works."""
    found = expectation.parse(
        "alerts:\n  - {at: 43s, alert: Stall, state: firing}\n"
        "incidents:\n  - {at: 43s, state: worse_now}\n",
        "x.yaml",
        NAMES,
    )
    fields = {"alert": "WriteStall", "state": "firing"}
    told = [
        expectation.ReplayEvent("alerts", 43.0, Severity.WARNING, fields, "WriteStall"),
        expectation.ReplayEvent(
            "incidents", 43.0, Severity.WARNING, {"state": "escalated"}, "escalated"
        ),
    ]
    assert expectation.differences(found, told) == []
    assert found.notes == (
        "'x.yaml':2:22: note: the alert 'Stall' is called 'WriteStall' now; write that",
        (
            "'x.yaml':4:22: note: the change of an incident 'worse_now' is called 'escalated' now;"
            " write that"
        ),
    )


def test_a_command_that_is_called_otherwise_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2, as for any unknown word."""
    assert main.main(["tell", "--json"], NAMES) == exit_status.USAGE
    expected = "iowarden: the command 'tell' is called 'status' now; write that\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("words", [("--as", "storcli_log"), ("--as=storcli_log",)])
def test_a_value_of_an_option_that_is_called_otherwise_is_named(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """After what argparse makes of it; a value that never was one is no more than refused."""
    with pytest.raises(SystemExit) as stop:
        main.main(["explain", *words], NAMES)
    assert stop.value.code == exit_status.USAGE
    expected = "iowarden: the option value 'storcli_log' is called 'storcli' now; write that"
    assert capsys.readouterr().err.splitlines()[-1] == expected
    with pytest.raises(SystemExit):
        main.main(["explain", "--as", "never"], NAMES)
    assert "is called" not in capsys.readouterr().err


def test_a_setting_that_is_called_otherwise_is_refused_with_the_new_name() -> None:
    """By its line, each key of a section that is gone; the values are not shown."""
    text = (
        "rule_period: 2s\nsmart:\n  every: 30m\nevery:\n  block: 9s\n  blok: 9s\n"
        "never: {block: 9s}\n"
    )
    with pytest.raises(ConfigError) as error:
        parse_config(text, "c.yaml", names=NAMES)
    assert [line for line in error.value.problems if "is called" in line] == [
        "'c.yaml':1: the setting 'rule_period' is called 'evaluation_interval' now; write that",
        "'c.yaml':3: the setting 'smart.every' is called 'smart.interval' now; write that",
        "'c.yaml':5: the setting 'every.block' is called 'intervals.block' now; write that",
    ]
    unknown = [line for line in error.value.problems if "unknown key" in line]
    assert [line.partition(": unknown")[0] for line in unknown] == [
        "'c.yaml':6: every.blok",
        "'c.yaml':7: never",
    ]
