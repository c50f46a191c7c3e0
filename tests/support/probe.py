"""The real probe in a process of its own, with programs that a test writes."""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from iowarden.daemon.probe.protocol import (
    MAX_REPLY_BYTES,
    Decoder,
    Hello,
    Message,
    ProbeReply,
    Request,
    StuckNow,
    encode,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DEADLINE_SECONDS = 60.0
"""Far above anything measured: it ends a test that would hang, and judges nothing."""

_SCRIPT = """
import os, socket, sys
from iowarden.daemon.journal import Log
from iowarden.daemon.probe.programs import Programs
from iowarden.daemon.probe.server import IdleTimes, ProbeServer
directory, root, kind, descriptor, *idle = sys.argv[1:]
stream = socket.socket(fileno=int(descriptor))
log = Log(foreground=True, socket_path="/nonexistent")
server = ProbeServer(
    directory=directory, users={os.geteuid()}, log=log, find=lambda: Programs(root, os.geteuid()),
    listener=stream if kind == "listener" else None,
    connected=[stream] if kind == "connected" else [], idle=IdleTimes(*map(float, idle)),
)
print("ready", file=sys.stderr, flush=True)
server.run()
log.close()
"""


class Talk:
    """A connection to the probe, as the daemon has one."""

    def __init__(self, stream: socket.socket, *, greet: bool = True) -> None:
        """Greet, unless a test wants to be rude, and keep what the probe answered to it."""
        stream.settimeout(DEADLINE_SECONDS)
        self.stream = stream
        self.descriptors: list[int] = []
        self.stuck: list[StuckNow] = []
        self._decoder = Decoder(MAX_REPLY_BYTES)
        self._messages: list[Message] = []
        if greet:
            self.send(Hello())
            hello = self.receive()
            assert isinstance(hello, Hello)
            self.hello = hello

    def send(self, *messages: Message) -> None:
        """Send messages."""
        self.stream.sendall(b"".join(map(encode, messages)))

    def receive(self) -> Message:
        """Return the next message. Errors: EOFError, when the probe has closed."""
        while not self._messages:
            data, ancillary, _, _ = self.stream.recvmsg(
                65536, socket.CMSG_SPACE(struct.calcsize("i"))
            )
            for _, _, content in ancillary:
                self.descriptors += array.array("i", content)
            if not data:
                raise EOFError
            self._messages += self._decoder.feed(data)
        return self._messages.pop(0)

    def answer(self) -> ProbeReply:
        """Return the next answer, and keep what comes unasked."""
        while not isinstance(message := self.receive(), ProbeReply):
            assert isinstance(message, StuckNow)
            self.stuck.append(message)
        return message

    def told(self) -> StuckNow:
        """Return the next list of what is stuck."""
        while not self.stuck:
            message = self.receive()
            assert isinstance(message, StuckNow)
            self.stuck.append(message)
        return self.stuck.pop(0)

    def run(
        self,
        *arguments: str,
        identifier: int = 1,
        deadline_seconds: float = DEADLINE_SECONDS,
        limit_bytes: int = MAX_REPLY_BYTES,
    ) -> None:
        """Ask for a program to be run."""
        self.send(Request(identifier, "run", arguments, deadline_seconds, limit_bytes))

    def closed(self) -> bool:
        """Wait until the probe has closed."""
        with contextlib.suppress(ConnectionError, EOFError):
            while True:
                self.receive()
        return True


class Probe:
    """`iowarden-probe` in a directory of its own; `root` is where its programs are."""

    def __init__(self, directory: Path) -> None:
        """Make the directories; nothing runs yet."""
        self.root = directory / "root"
        self.runtime = directory / "run"
        self.log = directory / "log"
        for each in (self.root / "usr/sbin", self.runtime):
            each.mkdir(parents=True)
            each.chmod(0o755)
        for each in (self.root, self.root / "usr"):
            each.chmod(0o755)
        self._path = directory / "socket"
        self._listener: socket.socket | None = None
        self._talks: list[Talk] = []
        self.process: subprocess.Popen[bytes] | None = None

    def program(self, name: str, text: str, interpreter: str = "/bin/sh") -> Path:
        """Install a program, whole at once."""
        path = self.root / "usr/sbin" / name
        draft = path.with_name(f".{name}")
        draft.write_text(f"#!{interpreter}\n{text}\n")
        draft.chmod(0o755)
        draft.rename(path)
        return path

    def start(
        self,
        *,
        idle_seconds: float = DEADLINE_SECONDS,
        client_seconds: float = DEADLINE_SECONDS,
        yield_seconds: float = DEADLINE_SECONDS,
        **environment: str,
    ) -> None:
        """Start it on a listening socket, as systemd does."""
        self._path.unlink(missing_ok=True)
        if self._listener is not None:
            self._listener.close()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen(128)
        idle = (idle_seconds, client_seconds, yield_seconds)
        self._start("listener", self._listener, environment, idle)

    def start_connected(
        self, pair: tuple[socket.socket, socket.socket] | None = None, *, greet: bool = True
    ) -> Talk:
        """Start it with a connection, as a foreground run does."""
        mine, theirs = pair or socket.socketpair()
        with theirs:
            self._start("connected", theirs, {})
        talk = Talk(mine, greet=greet)
        self._talks.append(talk)
        return talk

    def _start(
        self,
        kind: str,
        stream: socket.socket,
        environment: dict[str, str],
        idle: tuple[float, ...] = (),
    ) -> None:
        words = [str(self.runtime), str(self.root), kind, str(stream.fileno()), *map(str, idle)]
        said = self.text().count("ready\n")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-c", _SCRIPT, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[stream.fileno()],
                env={**os.environ, **environment},
            )
        self.until(lambda: self.text().count("ready\n") > said, "its start")

    def connect(self, *, greet: bool = True) -> Talk:
        """Return a new connection."""
        stream = socket.socket(socket.AF_UNIX)
        stream.settimeout(DEADLINE_SECONDS)
        stream.connect(str(self._path))
        talk = Talk(stream, greet=greet)
        self._talks.append(talk)
        return talk

    def text(self) -> str:
        """Return what it said so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def register(self) -> list[dict[str, object]]:
        """Return the programs that the register holds now."""
        found: list[dict[str, object]] = json.loads((self.runtime / "stuck.json").read_text())[
            "stuck"
        ]
        return found

    def until(self, true: Callable[[], object], what: str) -> None:
        """Wait for something with a deadline far above what it takes."""
        end = time.monotonic() + DEADLINE_SECONDS
        while not true():
            assert self.process is not None
            assert self.process.poll() is None, f"it ended, waiting for {what}:\n{self.text()}"
            assert time.monotonic() < end, f"waited for {what}:\n{self.text()}"
            time.sleep(0.01)  # between two looks at another process, which no event tells of

    def until_gone(self, true: Callable[[], object]) -> None:
        """Wait for something that follows the end of the probe."""
        end = time.monotonic() + DEADLINE_SECONDS
        while not true():
            assert time.monotonic() < end, self.text()
            time.sleep(0.01)  # as above

    def end(self, number: int) -> int:
        """Send a signal and return the exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_SECONDS)

    def close(self) -> None:
        """Leave nothing running."""
        for talk in self._talks:
            talk.stream.close()
        if self._listener is not None:
            self._listener.close()
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()  # it ends its programs, too
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(DEADLINE_SECONDS)
            self.process.kill()
            self.process.wait(DEADLINE_SECONDS)
