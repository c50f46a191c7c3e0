"""`iowarden advise`: settings to be tuned, from the running service, and what a change did."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.program import Feed, Played, recorded, whole
from support.service import Service, at, run

from iowarden.collectors.recording.recording import RecordingStep
from iowarden.daemon.control.documents import SettingChangeLine, SignalEffect, TuningAdvice

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RATIO = "/proc/sys/vm/dirty_ratio"


def host_of_2006() -> list[RecordingStep]:
    """A host with the default of kernels before 2.6.22, which is lowered after 30 s."""
    first = whole(recorded("write-stall")[:1])
    first = replace(first, files={**first.files, RATIO: b"45\n"})

    def later(seconds: int) -> RecordingStep:
        frame = replace(
            first.frame,
            number=seconds,
            monotonic_seconds=first.frame.monotonic_seconds + seconds,
            realtime_seconds=first.frame.realtime_seconds + seconds,
        )
        return RecordingStep(frame, {RATIO: b"20\n"} if seconds == 31 else {})

    return [first, *map(later, range(1, 64))]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Played]:
    """The service on that host."""
    made = Played(tmp_path, Feed(host_of_2006(), tmp_path / "feed"))
    made.start()
    yield made
    made.close()


def advised(program: Played) -> dict[str, object]:
    """The answer as JSON."""
    program.caught_up()
    found = program.command("advise", "--json")
    assert (found.returncode, found.stderr) == (0, "")
    answer: dict[str, object] = json.loads(found.stdout)
    return answer


def test_a_setting_is_shown_with_evidence_command_trade_off_and_source(program: Played) -> None:
    """And when it was changed, the finding is gone and the change is listed, without a claim."""
    program.feed.give(20)
    (found,) = [
        each
        for each in advised(program)["findings"]
        if each["alert"]["name"] == "DirtyRatioTooLarge"  # type: ignore[index]
    ]
    assert found["condition"] == "dirty_ratio_too_large"
    assert "iowarden_vm_dirty_ratio_percent: 45" in found["evidence"]
    assert (
        "  sysctl -w vm.dirty_background_ratio=10 vm.dirty_ratio=20\nTrade-off:" in found["advice"]
    )
    assert found["source"] == "admin-guide/sysctl/vm.rst: dirty_ratio"
    program.feed.give()
    after = advised(program)
    names = [each["alert"]["name"] for each in after["findings"]]  # type: ignore[attr-defined]
    assert "DirtyRatioTooLarge" not in names
    (change,) = after["changes"]  # type: ignore[misc]
    assert (change["setting"], change["old"], change["new"]) == ("vm.dirty_ratio", "45", "20")
    text = program.command("advise").stdout
    assert " vm.dirty_ratio: 45 -> 20\n  not enough data: " in text


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A control socket."""
    made = Service(tmp_path)
    yield made
    made.control.close()


def test_the_effect_of_a_change_is_one_line(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """Verdict first, then signal, means and observed times."""
    effect = SignalEffect(
        "iowarden_device_read_ahead_capped_seconds",
        {"device": "md0"},
        400.0,
        7200,
        0.0,
        3600,
        "lower",
    )
    change = SettingChangeLine(1.8e9, "queue/read_ahead_kb, in bytes", "md0", "1", "2", (effect,))
    service.answers["advise"] = {"answer": TuningAdvice(changes=(change,), observed_seconds=9e4)}
    assert run("advise", *at(service)) == 0
    shown = capsys.readouterr().out
    assert "no settings to be tuned\nobserved for " in shown
    assert " md0 queue/read_ahead_kb, in bytes: 1 -> 2\n" in shown
    assert '  lower: iowarden_device_read_ahead_capped_seconds{device="md0"} before: mean' in shown


def test_an_older_service_says_that_it_cannot(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """A service that was not restarted after an upgrade does not have this command."""
    service.answers["advise"] = {"error": "unknown command 'advise'"}
    assert run("advise", *at(service)) == 1
    assert "unknown command 'advise'" in capsys.readouterr().err
