"""Commands on a state directory whose disk hangs: they end, and the prompt comes back."""

from __future__ import annotations

import os
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from iowarden.daemon.cli.main import main
from iowarden.daemon.storage import state_access

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ENOUGH_SECONDS = 60
"""Of what does not take so long."""


def hang(*_: object, **__: object) -> None:
    """Stand for a system call on a disk that does not answer; it ends with its process only."""
    threading.Event().wait()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the limit of the first answer."""
    for function in (state_access.check, state_access.connected):
        monkeypatch.setattr(function, "__defaults__", (0.05,))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["mail", "list"],
        ["mail", "show", "x"],
        ["ack", "7"],
        ["events"],
        ["query", "up"],
        ["incident", "list"],
        ["silence", "list"],
        ["test-mail"],
        ["unparsed", "list"],
        ["unparsed", "show", "md-1.txt"],
    ],
)
def test_a_command_on_a_directory_that_hangs_ends_and_names_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    """They waited for the disk, deaf to Ctrl-C."""
    real_stat, real_listdir = os.stat, os.listdir

    def on_the_disk(real: Callable[..., object]) -> Callable[..., object]:
        def call(path: object = ".", *arguments: object, **names: object) -> object:
            if str(path).startswith(str(tmp_path)):
                hang()
            return real(path, *arguments, **names)

        return call

    monkeypatch.setattr(os, "stat", on_the_disk(real_stat))
    monkeypatch.setattr(os, "listdir", on_the_disk(real_listdir))
    assert main([*words, "--state-directory", str(tmp_path)]) == 1
    errors = capsys.readouterr().err
    assert str(tmp_path) in errors
    assert "no answer within 50 ms: its disk or server hangs" in errors


def test_a_connection_that_hangs_is_given_up_and_one_that_works_is_used(tmp_path: Path) -> None:
    """The socket of the child is that of the command."""
    path = str(tmp_path / "control.sock")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(1)
        with state_access.connected(path, ENOUGH_SECONDS, ENOUGH_SECONDS) as client:
            accepted, _ = listening.accept()
            with accepted:
                client.sendall(b"ask")
                assert accepted.recv(3) == b"ask"
    with pytest.raises(ConnectionRefusedError):
        state_access.connected(path, ENOUGH_SECONDS, ENOUGH_SECONDS)
    with pytest.raises(FileNotFoundError):
        state_access.connected(path + "x", ENOUGH_SECONDS, ENOUGH_SECONDS)


def test_a_look_reports_the_error_of_the_directory(tmp_path: Path) -> None:
    """It answers, though not as hoped."""
    state_access.check(str(tmp_path), ENOUGH_SECONDS)
    with pytest.raises(FileNotFoundError):
        state_access.check(str(tmp_path / "none"), ENOUGH_SECONDS)


def test_the_reader_of_a_command_does_not_wait_for_what_hangs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """'iowarden status | grep': the child that is abandoned has not the pipe."""
    monkeypatch.setattr(os, "listdir", lambda _: [os.write(number, b"x") for number in (1, 2)])
    reading, writing = os.pipe()
    before = [os.dup(number) for number in (1, 2)]
    try:
        for number in (1, 2):
            os.dup2(writing, number)
        os.close(writing)
        state_access.check(str(tmp_path), ENOUGH_SECONDS)
    finally:
        for number, copy in zip((1, 2), before, strict=True):
            os.dup2(copy, number)
            os.close(copy)
    assert os.read(reading, 9) == b""
    os.close(reading)
