"""A private journald: the real one, in a mount namespace of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

JOURNALD = "/lib/systemd/systemd-journald"
DEADLINE_SECONDS = 20.0
"""Far above anything measured: it ends a test that would hang, and judges nothing."""

# Kernel messages stay where they are: a private journald must not read this machine's.
_SCRIPT = f"""
set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/journal /run/systemd/units /run/log/journal /run/systemd/journald.conf.d
if [ -d /var/log/journal ]; then mount -t tmpfs tmpfs /var/log/journal; fi
if [ ! -s /etc/machine-id ]; then
    echo 0123456789abcdef0123456789abcdef > /run/machine-id
    mount --bind /run/machine-id /etc/machine-id
fi
cat > /run/systemd/journald.conf.d/test.conf <<END
[Journal]
ReadKMsg=no
Audit=no
ForwardToSyslog=no
Storage=volatile
RateLimitBurst=0
END
exec {JOURNALD}
"""


@dataclass(frozen=True)
class Journald:
    """A running journald; a program meets it through `command`, or by `socket_path`."""

    process: subprocess.Popen[bytes]

    @property
    def socket_path(self) -> str:
        """Its native socket, seen from outside its namespace."""
        return f"/proc/{self.process.pid}/root/run/systemd/journal/socket"

    def command(self, *arguments: str) -> list[str]:
        """Return how to start a program for which this is the machine's journald."""
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return [
            "nsenter",
            "--target",
            str(self.process.pid),
            *user,
            "--mount",
            "--wd=.",
            *arguments,
        ]

    def entries(self, *matches: str) -> list[dict[str, object]]:
        """Return the entries that match, oldest first, once all that was sent is written."""
        self._journalctl("--sync")
        lines = self._journalctl("--output=json", "--all", "--quiet", *matches).splitlines()
        return [json.loads(line) for line in lines]

    def _journalctl(self, *arguments: str) -> str:
        return subprocess.run(
            self.command("journalctl", *arguments),
            check=True,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
        ).stdout


@contextlib.contextmanager
def private_journald() -> Iterator[Journald]:
    """Run a journald of our own; skip the test where the machine does not allow it."""
    for program in (JOURNALD, "unshare", "nsenter", "journalctl"):
        if shutil.which(program) is None:
            pytest.skip(f"no '{program}' here")
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    with (
        tempfile.TemporaryDirectory() as directory,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready,
    ):
        ready.bind(f"{directory}/ready")
        ready.settimeout(0.1)
        process = subprocess.Popen(
            ["unshare", *user, "--mount", "sh", "-c", _SCRIPT],
            env={**os.environ, "NOTIFY_SOCKET": f"{directory}/ready"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        try:
            _await_ready(process, ready)
            yield Journald(process)
        finally:
            process.kill()
            process.communicate()


def _await_ready(process: subprocess.Popen[bytes], ready: socket.socket) -> None:
    """Wait until journald says READY (sd_notify(3)); skip if it ended instead."""
    for _ in range(int(DEADLINE_SECONDS / 0.1)):
        with contextlib.suppress(TimeoutError):
            if b"READY=1" in ready.recv(4096).split(b"\n"):
                return
        if process.poll() is not None:
            assert process.stderr is not None
            pytest.skip(f"no private journald here: {process.stderr.read().decode()[:200]}")
    raise AssertionError(f"'{JOURNALD}' did not become ready within {DEADLINE_SECONDS:.0f} s")
