"""`iowarden replay A B`: one machine, whose iowarden was restarted between the two recordings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support.live import Live

from iowarden.daemon.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    Captured = pytest.CaptureFixture[str]

WATCHED_SECONDS = 60
RULES = """\
groups:
  - name: mine
    interval: 5s
    rules:
      - alert: Worked
        expr: sum_over_time(iowarden_vm_laptop_mode[2m]) > 5
        labels: {severity: warning}
        annotations: {summary: was kept asleep}
"""
"""Needs two minutes of history, more than the second recording has."""


def degraded_before_and_after(tmp_path: Path) -> tuple[str, str]:
    """Return two recordings of a mirror that loses a disk in the first, a minute apart."""
    live = Live(tmp_path)
    live.wait(WATCHED_SECONDS)
    live.degrade()
    live.wait(WATCHED_SECONDS)
    first = live.packed()
    live.restarted()
    live.leap(60.0, 60.0)
    live.restarted()
    live.wait(WATCHED_SECONDS)
    return first, live.packed()


def replayed(capsys: Captured, *arguments: str) -> dict[str, Any]:
    """Return what a replay says as JSON."""
    assert main(["replay", *arguments, "--json"]) == 0
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


def subjects(outcome: dict[str, Any]) -> list[str]:
    """Return the subjects of a replay's mails."""
    return [mail["subject"] for mail in outcome["mails"]]


def test_what_was_mailed_before_a_restart_is_not_mailed_again(
    tmp_path: Path, capsys: Captured
) -> None:
    """A mirror has lost a disk; alone, the second recording would report it as new."""
    first, second = degraded_before_and_after(tmp_path)
    both = replayed(capsys, first, second)
    assert subjects(both) == subjects(replayed(capsys, first))
    assert len(subjects(both)) == 1
    assert subjects(replayed(capsys, second)) != []


def test_a_mirror_that_is_whole_again_after_the_restart_is_resolved(
    tmp_path: Path, capsys: Captured
) -> None:
    """The mail that it is over belongs to the incident of before the restart."""
    live = Live(tmp_path)
    live.degrade()
    live.wait(WATCHED_SECONDS)
    first = live.packed()
    live.leap(30.0, 30.0)
    live.degrade(0)
    live.restarted()
    live.wait(900)
    outcome = replayed(capsys, first, live.packed())
    assert [subject.split("]")[0] for subject in subjects(outcome)] == ["[CRITICAL", "[OK"]
    begins = [entry for entry in outcome["timeline"] if "iowarden starts again" in entry["text"]]
    assert [round(entry["at_seconds"]) for entry in begins] == [WATCHED_SECONDS + 32]
    assert outcome["seconds"] == WATCHED_SECONDS + 32 + 900


def test_a_boot_in_between_is_a_gap_by_the_wall_clock(tmp_path: Path, capsys: Captured) -> None:
    """The monotonic clock begins again at 0."""
    live = Live(tmp_path)
    live.wait(WATCHED_SECONDS)
    first = live.packed()
    live.boot(wall=live.wall + 300)
    live.restarted()
    live.wait(20)
    outcome = replayed(capsys, first, live.packed())
    assert outcome["seconds"] == WATCHED_SECONDS + 300 + 20
    assert outcome["frames"] == WATCHED_SECONDS // 4 + 1 + 20 // 4 + 1


def test_recordings_in_the_wrong_order_are_refused(tmp_path: Path, capsys: Captured) -> None:
    """The second begins before the first ended: state would be of the future."""
    first, second = degraded_before_and_after(tmp_path)
    assert main(["replay", second, first]) == 78
    assert "name recordings in the order of time" in capsys.readouterr().err


def test_rules_with_a_range_have_their_history_after_a_restart(
    tmp_path: Path, capsys: Captured
) -> None:
    """Two minutes of history, of which the second recording has one."""
    rules = tmp_path / "mine.yaml"
    rules.write_text(RULES)
    live = Live(tmp_path)
    live.change({"/proc/sys/vm/laptop_mode": "1\n"})
    live.wait(130)
    first = live.packed()
    live.change({"/proc/sys/vm/laptop_mode": "0\n"})
    live.restarted()
    live.wait(WATCHED_SECONDS)
    second = live.packed()

    def says(*recordings: str) -> list[str]:
        outcome = replayed(capsys, *recordings, "--rules", str(rules))
        begins = [e["at_seconds"] for e in outcome["timeline"] if "starts again" in e["text"]]
        return [
            entry["state"]
            for entry in outcome["timeline"]
            if entry.get("alert") == "Worked" and entry["at_seconds"] > max(begins, default=-1)
        ]

    assert says(second) == []
    assert says(first) == ["pending", "firing"] or says(first) == ["firing"]
    assert says(first, second) == []  # it still fires: neither resolved nor unknown


def test_from_the_start_there_is_an_initial_report(tmp_path: Path, capsys: Captured) -> None:
    """As on the day of installation, and only once, also over a restart."""
    first, second = degraded_before_and_after(tmp_path)
    outcome = replayed(capsys, first, second, "--from-start")
    reports = [subject for subject in subjects(outcome) if "INITIAL REPORT" in subject]
    assert len(reports) == 1
    assert not [subject for subject in subjects(replayed(capsys, first)) if "INITIAL" in subject]
