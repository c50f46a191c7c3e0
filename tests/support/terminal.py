"""Commands of the command line on a terminal of a width, while a played service answers them."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from iowarden.daemon.cli import main

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.program import Played

DEADLINE_SECONDS = 30.0
STYLE = re.compile(r"\x1b\[[0-9;]*m")
"""Colours, bold and underline: what a table may have."""


def shown(played: Played, words: Sequence[str], columns: int, term: str = "xterm-256color") -> str:
    """Return what a command writes to a terminal: both its streams, line ends as in a file."""
    leader, follower = pty.openpty()
    got: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):  # EIO: the last writer has closed it
            while piece := os.read(leader, 65_536):
                got.append(piece)

    def command() -> None:
        with contextlib.suppress(SystemExit):
            main.main(words)

    reader, runner = threading.Thread(target=read), threading.Thread(target=command)
    with pytest.MonkeyPatch.context() as patch, open(follower, "w", encoding="utf-8") as terminal:
        patch.setenv("COLUMNS", str(columns))
        patch.setenv("TERM", term)
        patch.setattr(sys, "stdout", terminal)
        patch.setattr(sys, "stderr", terminal)
        reader.start()
        runner.start()
        played.until(lambda: not runner.is_alive(), f"an answer to {words}")
        runner.join()
    reader.join(DEADLINE_SECONDS)
    os.close(leader)
    return b"".join(got).decode().replace("\r\n", "\n")
