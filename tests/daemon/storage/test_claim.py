"""Only one service per state directory."""

from __future__ import annotations

import os
import re
import signal
import threading
from typing import TYPE_CHECKING

import pytest
from support.program import run

from iowarden.daemon.cli import run_command
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.storage import bounded, claim

if TYPE_CHECKING:
    from pathlib import Path

    from iowarden.daemon.service.messages import Trouble


def test_a_second_service_is_refused_with_the_first_ones_number(tmp_path: Path) -> None:
    """Two would send each mail twice. Status 1, not 78: systemd's retry works once this ends."""
    state = tmp_path / "state"
    settings = tmp_path / "iowarden.yaml"
    settings.write_text(f"state_directory: {state}\nlisten: 127.0.0.1:1\n")
    held = claim.claim(str(state))
    before = signal.getsignal(signal.SIGHUP)
    try:
        answer = run("run", "--config", str(settings))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert answer.returncode == 1
    assert answer.stderr == (
        f"'{state}': the state directory is in use by another iowarden (pid {os.getpid()}); stop it"
        " first, or use another directory with --state-directory\n"
    )
    assert [*state.iterdir()] == []  # nothing was started there
    held.close()
    claim.claim(str(state)).close()


def test_who_only_asks_is_not_refused(tmp_path: Path) -> None:
    """While the service runs, `check`, `test-mail` and replays still work."""
    settings = tmp_path / "iowarden.yaml"
    settings.write_text(f"state_directory: {tmp_path}\n")
    held = claim.claim(str(tmp_path))
    mailed = run("test-mail", "--config", str(settings))
    assert mailed.returncode == 2
    assert mailed.stderr.endswith("only in that Maildir; to set one: 'iowarden setup'\n")
    assert run("config", "check", str(settings)).returncode == 0
    held.close()


@pytest.mark.parametrize("broken", ["a file", "no directory can be made"])
def test_a_directory_that_cannot_be_locked_stops_no_watchdog(tmp_path: Path, broken: str) -> None:
    """The disk with the state may be the failing one: the alert about it must still be sent."""
    place = tmp_path / "state"
    place.write_text("")
    path = place if broken == "a file" else place / "below"
    held = claim.claim(str(path))
    assert held.descriptor is None
    held.close()


def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    """A killed service leaves nothing behind that must be removed by hand."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        claim.claim(str(tmp_path))
        os.write(writing, b"x")
        os.read(reading, 0)
        os.kill(os.getpid(), 9)
    os.read(reading, 1)
    os.waitpid(child, 0)
    claim.claim(str(tmp_path)).close()


def test_where_nobody_can_tell_who_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may hide '/proc/locks'; the directory is in use all the same."""
    monkeypatch.setattr(claim, "_LOCKS", str(tmp_path / "absent"))
    held = claim.claim(str(tmp_path))
    with pytest.raises(
        claim.AlreadyClaimedError, match=re.escape("by another iowarden; stop it first")
    ):
        claim.claim(str(tmp_path))
    held.close()


@pytest.mark.parametrize("call", ["makedirs", "open"])
def test_a_directory_that_hangs_does_not_hold_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The disk of the state hangs: the watchdog starts without, and takes the lock when it can."""
    answers, done, real = threading.Event(), threading.Event(), getattr(os, call)

    def hang(*arguments: object, **names: object) -> object:
        if threading.current_thread() is threading.main_thread():
            return real(*arguments, **names)
        answers.wait()
        done.set()
        return real(*arguments, **names)

    state = tmp_path / "state"
    monkeypatch.setattr(os, call, hang)
    held = claim.claim(str(state), 0.02)
    assert held.descriptor is None
    assert f"'{state}': the state directory does not answer" in held.problem
    assert "running without state until it does" in held.problem
    answers.set()
    assert done.wait(60.0)


def test_a_disk_that_fails_is_told_from_one_that_hangs(tmp_path: Path) -> None:
    """The error of the call is the caller's; its thread ends."""
    with pytest.raises(NotADirectoryError):
        bounded.within(60.0, lambda: os.listdir(__file__))
    assert bounded.within(60.0, lambda: os.listdir(tmp_path)) == []


def test_the_socket_in_a_directory_that_hangs_does_not_hold_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run in the foreground has its socket beside its state: it goes on without, and says so."""
    answers = threading.Event()
    monkeypatch.setattr(os, "makedirs", lambda *_, **__: answers.wait())
    monkeypatch.setattr(run_command, "WAIT_SECONDS", 0.02)
    posted: list[Trouble] = []
    settings = parse_config(f"state_directory: {tmp_path / 'state'}\n", "test")
    assert run_command._control(None, settings, posted.append) is None
    (trouble,) = posted
    assert f"'{tmp_path / 'state'}/" in trouble.text
    assert "no commands until the next start: no answer within" in trouble.text
    answers.set()


@pytest.mark.parametrize(
    ("place", "got"),
    [
        ("file", "File exists"),
        ("file/below", "Not a directory"),
        ("loop/below", "Too many levels of symbolic links"),
        ("n" * 300, "File name too long"),
    ],
)
def test_a_state_directory_that_is_none_is_named_with_what_is_expected(
    tmp_path: Path, place: str, got: str
) -> None:
    """'[Errno 17] File exists' alone does not say what exists, nor what to do."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "loop").symlink_to("loop")
    posted: list[Trouble] = []
    settings = parse_config(f"state_directory: {tmp_path}/{place}\n", "test")
    assert run_command._control(None, settings, posted.append) is None
    (trouble,) = posted
    assert trouble.text.startswith(
        f"'{tmp_path}/{place}': expected a state directory, or to create"
    )
    assert f"got '{got}' at '{tmp_path}/" in trouble.text
    assert "name another directory, or move the file away; no commands until" in trouble.text
    assert "Errno" not in trouble.text
