"""'iowarden selftest', and the self-tests that are stored across a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.service import Service, at, on_a_terminal

from iowarden.daemon.cli import main
from iowarden.daemon.service import persisted_state
from iowarden.rules.selftest_schedule import SelfTestRun, SelfTestState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = 1_795_316_400.0
RUNNING = {
    "disk": "S1",
    "device": "sda",
    "kind": "long",
    "outcome": "running",
    "started_seconds": NOW - 3600,
    "remaining_ratio": 0.6,
    "remaining_seconds": 5400.0,
}
FAILED = {**RUNNING, "outcome": "failed", "text": "Completed: read failure", "lba": 4711}


class Sequence(dict[str, dict[str, Any]]):
    """Answers to one command, one after the other; the last one stays."""

    def __init__(self, *runs: dict[str, Any]) -> None:
        """Each answer has one run."""
        super().__init__()
        self.rest = [
            {"answer": {"now_seconds": NOW, "scheduled": True, "runs": [run]}} for run in runs
        ]

    def get(self, _name: str, _default: object = None) -> dict[str, Any]:  # type: ignore[override]
        """Return the next."""
        return self.rest.pop(0) if len(self.rest) > 1 else self.rest[0]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """Return a service with a real socket."""
    found = Service(tmp_path)
    yield found
    found.control.close()


def test_a_pipe_gets_a_line_for_each_step_and_the_end(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """Started, twice 40 % done, which is shown once, failed; exit status 1."""
    starting = {**RUNNING, "outcome": "starting", "remaining_ratio": None}
    service.answers = Sequence(starting, RUNNING, RUNNING, RUNNING, FAILED)
    assert main.main(["selftest", "start", "sda", "long", "--wait", *at(service)]) == 1
    name = "disk S1 (sda): long self-test:"
    assert capsys.readouterr().out.splitlines() == [
        f"{name} running, 40 % done; about 1 h 30 min left",
        f"{name} running, 40 % done; about 1 h 30 min left",
        f"{name} failed, LBA of first error 4711: Completed: read failure",
    ]
    assert service.asked[0].arguments == {"disk": "sda", "kind": "long", "force": False}


def test_a_terminal_gets_a_bar(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress, remaining time, and the table at the end."""
    service.answers = Sequence(RUNNING, RUNNING, FAILED)
    words = ["selftest", "status", "--follow", *at(service)]
    text = on_a_terminal(monkeypatch, lambda: main.main(words))
    assert "S1 long" in text
    assert "40 %" in text
    assert "about 1 h 30 min left" in text
    assert "4711" in text


def test_what_drives_report_reaches_no_terminal_as_a_command(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """A serial number and a reason with escape sequences."""
    nasty = {**RUNNING, "disk": "\x1b[2J", "postponed": "\x1b]0;x\x07", "due_seconds": NOW}
    service.answers = Sequence(nasty)
    assert main.main(["selftest", "status", *at(service)]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_nobody_to_ask_is_no_failed_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2, as for all reasons why a test cannot start."""
    words = ["selftest", "start", "sda", "--wait", "--state-directory", str(tmp_path)]
    assert main.main(words) == 2
    assert "iowarden is not running" in capsys.readouterr().err


def test_what_is_known_of_tests_outlives_a_restart_with_its_times() -> None:
    """A wall clock that jumps an hour ahead shifts the stored times."""
    run = SelfTestRun(
        900.0, SelfTestState.RUNNING, 950.0, minutes=480, tries=1, log=("short passed 9 None",)
    )
    before = persisted_state.PersistedState(
        self_tests={"S1": {"long": run}}, wall_ahead_seconds=3600.0
    )
    after, problems = persisted_state.read(persisted_state.documents(before), 10_000.0)
    assert problems == {}
    found = after.self_tests["S1"]["long"]
    assert (found.seen_seconds, found.begun_seconds) == (4500.0, 4550.0)
    assert (found.outcome, found.minutes, found.log) == (SelfTestState.RUNNING, 480, run.log)
