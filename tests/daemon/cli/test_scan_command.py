"""'iowarden scan', and the scans that are stored across a restart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.service import Service, at, on_a_terminal

from iowarden.daemon.cli import main, scan_command
from iowarden.daemon.service import persisted_state
from iowarden.rules.scan import plan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = 1_795_316_400.0
RUNNING = {
    "disk": "S1",
    "device": "sda",
    "state": "running",
    "who": "alice (uid 7)",
    "started_seconds": NOW - 3600,
    "progress_ratio": 0.25,
    "remaining_seconds": 10_800.0,
    "bytes_per_second": 8e6,
}
WAITING = {**RUNNING, "waits": "it has 60 C, too near to its limit"}
COMPLETE = {
    **RUNNING,
    "state": "complete",
    "progress_ratio": 1.0,
    "completed_seconds": NOW,
    "bad_ranges": [[1_048_576, 4096], [2_097_152, 8192]],
    "slower_zones": [[3, 0.6]],
}


class Sequence(dict[str, dict[str, Any]]):
    """Answers to all commands, one after the other; the last one stays."""

    def __init__(self, *scans: dict[str, Any]) -> None:
        """Each answer has one scan."""
        super().__init__()
        self.rest = [
            {"answer": {"now_seconds": NOW, "scheduled": True, "scans": [scan]}} for scan in scans
        ]

    def get(self, _name: str, _default: object = None) -> dict[str, Any]:  # type: ignore[override]
        """Return the next."""
        return self.rest.pop(0) if len(self.rest) > 1 else self.rest[0]


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """Return a service with a real socket; nobody waits between two queries."""
    monkeypatch.setattr(scan_command, "PAUSE_SECONDS", 0.0)
    found = Service(tmp_path)
    yield found
    found.control.close()


@pytest.mark.parametrize(
    ("words", "scan", "text", "status"),
    [
        (
            ("start", "sda"),
            RUNNING,
            "disk S1 (sda): scan: running, 25 % done; about 3 h left, at most 7.6 MiB/s\n",
            0,
        ),
        (
            ("start", "sda", "--restart", "--follow"),
            COMPLETE,
            "disk S1 (sda): scan: complete; 2 bad ranges\n",
            1,
        ),
        (
            ("stop", "S1"),
            {**RUNNING, "state": "stopped", "text": "stopped by alice (uid 7)"},
            "disk S1 (sda): scan: stopped at 25 %; stopped by alice (uid 7)\n",
            0,
        ),
    ],
)
def test_start_and_stop_print_what_came_of_it(
    service: Service,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    scan: dict[str, Any],
    text: str,
    status: int,
) -> None:
    """One line; with '--follow' the exit status says whether all could be read."""
    service.answers = Sequence(scan)
    assert main.main(["scan", *words, *at(service)]) == status
    assert capsys.readouterr().out.endswith(text)


def test_the_status_shows_why_a_scan_waits_and_what_cannot_be_read(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ranges in bytes and sectors, as the kernel counts them; zones that became slower."""
    service.answers = Sequence(WAITING)
    assert main.main(["scan", "status", *at(service)]) == 0
    assert "about 3 h left, waiting: it has 60 C, too near to its limit" in capsys.readouterr().out
    service.answers = Sequence(COMPLETE)
    assert main.main(["scan", "status", "S1", *at(service)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "disk S1: bytes 1048576 to 1052671 cannot be read (512-byte sector 2048)" in lines
    assert "disk S1: zone 3 of 128 has 60 % of its throughput in the scan before" in lines


def test_a_terminal_gets_a_bar(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress, remaining time, what it waits for, and the table at the end."""
    service.answers = Sequence(RUNNING, WAITING, COMPLETE)
    words = ["scan", "status", "--follow", *at(service)]
    text = on_a_terminal(monkeypatch, lambda: main.main(words))
    assert "25.0 %" in text
    assert "about 3 h left" in text
    assert "512-byte sector 4096" in text


def test_a_service_that_refuses_is_reported_as_it_says(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2: nothing was started."""
    service.answers = {"scan start": {"error": "disk S1 (sda): expected a physical disk"}}
    assert main.main(["scan", "start", "sda", *at(service)]) == 2
    assert capsys.readouterr().err == "disk S1 (sda): expected a physical disk\n"


def test_only_bad_ranges_are_exit_status_1(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script must not take a disk that was not read, or a silent service, for a bad one."""
    service.answers = {"scan status": {"error": "disk: expected a serial number, got 'S2'"}}
    assert main.main(["scan", "status", "S2", *at(service)]) == 2
    assert capsys.readouterr().err == "disk: expected a serial number, got 'S2'\n"
    service.answers = Sequence(RUNNING, {**RUNNING, "state": "refused", "text": "it was resized"})
    assert main.main(["scan", "start", "S1", "--follow", *at(service)]) == 2


def test_what_is_known_of_scans_outlives_a_restart_with_its_times() -> None:
    """A wall clock that jumped an hour ahead shifts times, and no duration or size."""
    scan = replace(
        plan.begun(None, 10**12, 950.0, "alice"),
        next=4711,
        bad=((4096, 4096),),
        parts=((8192, 4096),),
        trouble_seconds=(960.0,),
        troubles=(7.0,),
        tries_seconds=(970.0,),
        paused_seconds=4560.0,
        completed_seconds=900.0,
        zones=(1.5,) * plan.SEGMENTS,
        slower=((3, 0.5),),
    )
    before = persisted_state.PersistedState(scans={"S1": scan}, wall_ahead_seconds=3600.0)
    after, problems = persisted_state.read(persisted_state.documents(before), 10_000.0)
    assert problems == {}
    assert after.scans["S1"] == replace(
        scan,
        seen_seconds=4550.0,
        begun_seconds=4550.0,
        completed_seconds=4500.0,
        trouble_seconds=(4560.0,),
        tries_seconds=(4570.0,),
        paused_seconds=8160.0,
    )
