"""A control socket that answers what a test says, those who ask, and a terminal to look on."""

from __future__ import annotations

import argparse
import contextlib
import os
import pty
import sys
import threading
from typing import TYPE_CHECKING, Any

from iowarden.daemon.cli import disks_command, events_command, status_command
from iowarden.daemon.control import control_socket, listen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pytest

DEADLINE_SECONDS = 30.0


class Service:
    """A control socket with an answer for each command; what was asked is kept."""

    def __init__(self, directory: Path) -> None:
        """Answer nothing yet."""
        self.directory = directory
        self.path = str(directory / listen.FILE_NAME)
        self.answers: dict[str, dict[str, Any]] = {}
        self.asked: list[control_socket.ControlCommand] = []
        self.came = threading.Event()
        self.control = control_socket.Control(
            listen.bind(self.path), self._post, print, remove=self.path
        )

    def _post(self, command: control_socket.ControlCommand) -> None:
        self.asked.append(command)
        command.reply(self.answers.get(command.name, {"error": "not now"}))
        self.came.set()


def at(service: Service) -> Sequence[str]:
    """Return the option that names a service."""
    return "--state-directory", str(service.directory)


def run(*words: str) -> int:
    """Run a command as the command line does; return its exit status."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)

    def add(name: str, command: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        made = commands.add_parser(name)
        made.set_defaults(command=command)
        return made

    for module in (status_command, events_command, disks_command):
        module.add_commands(add)
    parsed = parser.parse_args(words)
    status: int = parsed.command(parsed)
    return status


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, command: Callable[[], object]) -> str:
    """Return what a command writes to a terminal."""
    leader, follower = pty.openpty()
    got: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):  # EIO: the last writer has closed it
            while piece := os.read(leader, 65_536):
                got.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    with open(follower, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        command()
        monkeypatch.undo()
    reader.join(DEADLINE_SECONDS)
    os.close(leader)
    return b"".join(got).decode()
