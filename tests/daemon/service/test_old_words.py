"""Who uses a word that was replaced is told the new one, with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.daemon.cli import exit_status, main
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_rules, notes
from iowarden.daemon.replay import expectation
from iowarden.rules.renames import Kind, Rename, Renames
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

NAMES = Renames(
    (
        Rename(Kind.METRIC, "iowarden_queued", "iowarden_writeback_queued_bytes"),
        Rename(Kind.ALERT, "Stall", "WriteStall"),
        Rename(Kind.LABEL, "disk_name", "device"),
        Rename(Kind.VALUE, "idle_state", "idle", of="sync_action"),
        Rename(Kind.CONDITION, "B9", "B1"),
        Rename(Kind.COMMAND, "tell", "status"),
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
      - alert: Good
        expr: iowarden_md_sync_action_info{sync_action!="idle_state"} > 0
"""


def test_a_rule_file_with_old_words_is_told_the_new_ones(tmp_path: Path) -> None:
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
    assert found[4].startswith(f"{place}9:15: note: Good: the label value 'idle_state' is called")
    assert not [line for line in found if "nothing here is named 'iowarden_queued'" in line]


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
    """A test of a recording that somebody wrote years ago goes on to test."""
    found = expectation.parse(
        "alerts:\n  - {at: 43s, alert: Stall, state: firing}\n", "x.yaml", NAMES
    )
    fields = {"alert": "WriteStall", "state": "firing"}
    told = [expectation.Told("alerts", 43.0, Severity.WARNING, fields, "WriteStall")]
    assert expectation.differences(found, told) == []
    assert found.notes == (
        "'x.yaml':2:22: note: the alert 'Stall' is called 'WriteStall' now; write that",
    )


def test_a_command_that_is_called_otherwise_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2, as of any word that is none."""
    assert main.main(["tell", "--json"], NAMES) == exit_status.USAGE
    expected = "iowarden: the command 'tell' is called 'status' now; write that\n"
    assert capsys.readouterr().err == expected
