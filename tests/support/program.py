"""The real program, started on a recording whose frames a test hands out."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from support.smtp import DEADLINE_SECONDS, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COMMAND = Path(sys.executable).with_name("iowarden")


class Feed:
    """A recording that grows: the program's clock stands still until it is given a frame."""

    def __init__(self, recording: str, directory: Path) -> None:
        """Begin with no frame of `recording`."""
        self.directory = directory
        self.frames = sorted(p for p in Path(recording).iterdir() if p.is_dir())
        self.given = 0
        directory.mkdir()
        shutil.copy(Path(recording, "recording.json"), directory)

    def give(self, count: int | None = None) -> None:
        """Hand out the next frames, or all that are left."""
        end = len(self.frames) if count is None else self.given + count
        for frame in self.frames[self.given : end]:
            draft = self.directory.with_name(f"{self.directory.name}.{frame.name}")
            shutil.copytree(frame, draft, symlinks=True)
            draft.rename(self.directory / frame.name)
        self.given = min(end, len(self.frames))

    def resumed(self, directory: Path) -> Feed:
        """Return a feed that goes on after the last frame given, for another start."""
        directory.mkdir()
        shutil.copy(self.directory / "recording.json", directory)
        whole = directory / "000000"
        for frame in self.frames[: self.given]:
            shutil.copytree(frame, whole, symlinks=True, dirs_exist_ok=True)
        for number, frame in enumerate(self.frames[self.given :], 1):
            shutil.copytree(frame, directory / f"{number:06}", symlinks=True)
        feed = Feed(str(directory), directory.with_name(f"{directory.name}-feed"))
        feed.give(1)
        return feed

    def uptime(self) -> float:
        """Return the machine's uptime in the last frame that was given."""
        line = (self.frames[self.given - 1] / "clock").read_text().splitlines()[0]
        return float(line.split()[1])


class Program:
    """`iowarden run` in a directory of its own."""

    def __init__(
        self,
        directory: Path,
        feed: Feed,
        *,
        smtp_port: int | None = None,
        settings: str = "",
        arrival: bool = False,
        prefix: Sequence[str] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        """Write the configuration; `prefix` is a command that runs the program.

        `arrival`: whether it mails what it finds at first sight.
        """
        self.directory = directory
        self.port = free_port()
        self.state = directory / "state"
        self.log = directory / "log"
        self.feed = feed
        server = f"server: 127.0.0.1, port: {smtp_port}, to: ops@example.com, " if smtp_port else ""
        mail = f"mail: {{{server}timeout: 5s, arrival: {str(arrival).lower()}}}\n"
        self.config = directory / "iowarden.yaml"
        self.config.write_text(
            f"host: db1.example.com\nlisten: 127.0.0.1:{self.port}\nstate_directory: {self.state}\n"
            f"rules_directory: {directory}/rules.d\n{mail}{settings}"
        )
        self._prefix = tuple(prefix)
        self._environment = environment or {}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; what it says is appended to the log."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *self._prefix,
                    *(str(COMMAND), "run", "--config", str(self.config)),
                    *("--play", str(self.feed.directory)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # What it unpacks a recording to stays behind where it is killed.
                env={**os.environ, "TMPDIR": str(self.directory), **self._environment},
            )

    def text(self) -> str:
        """Return what it said so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def metrics(self) -> dict[str, float]:
        """Return every sample of a scrape by name and labels; none while it does not answer."""
        try:
            with urllib.request.urlopen(  # a fixed local address
                f"http://127.0.0.1:{self.port}/metrics", timeout=DEADLINE_SECONDS
            ) as answer:
                lines = answer.read().decode().splitlines()
        except (urllib.error.URLError, OSError):
            return {}
        pairs = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    def until(self, true: Callable[[], object], what: str) -> None:
        """Wait for something with a deadline far above what it takes."""
        end = time.monotonic() + DEADLINE_SECONDS
        while not true():
            assert self.process is not None
            assert self.process.poll() is None, f"it ended, waiting for {what}:\n{self.text()}"
            assert time.monotonic() < end, f"waited for {what}:\n{self.text()}"
            time.sleep(0.02)  # between two looks at another process, which no event tells of

    def caught_up(self) -> None:
        """Wait until it has taken every frame that was given."""
        self.until(
            lambda: self.metrics().get("iowarden_uptime_seconds", -1) >= self.feed.uptime() - 0.01,
            f"uptime {self.feed.uptime()}",
        )

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_SECONDS)

    def close(self) -> None:
        """Leave nothing running."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(DEADLINE_SECONDS)
