"""A real Alertmanager of Debian on loopback, and what it knows."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.smtp import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DEADLINE_SECONDS = 60.0
_TOOLS = Path(__file__).parent.parent.parent / "build" / "tools"


class Alertmanager:
    """A process that can be stopped and started again, with its storage."""

    def __init__(self, directory: Path, notified_port: int | None = None) -> None:
        """Write its configuration; its notifications go to a webhook at a port."""
        name = "prometheus-alertmanager"
        found = shutil.which(name, path=str(_TOOLS)) or shutil.which(name)
        if found is None:
            pytest.skip("no Alertmanager (make build/tools/prometheus-alertmanager)")
        self.port = free_port()
        self._program = _with_templates(Path(found).absolute())
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        url = f"http://127.0.0.1:{notified_port or 9}/"
        directory.mkdir(exist_ok=True)
        (directory / "alertmanager.yml").write_text(
            json.dumps(
                {
                    "route": {
                        "receiver": "test",
                        "group_by": ["..."],
                        "group_wait": "0s",
                        "group_interval": "1s",
                        "repeat_interval": "1h",
                    },
                    "receivers": [
                        {
                            "name": "test",
                            "webhook_configs": [{"url": url, "send_resolved": True}],
                        }
                    ],
                }
            )
        )

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(
            [
                *self._program,
                f"--config.file={self._directory / 'alertmanager.yml'}",
                f"--storage.path={self._directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--cluster.listen-address=",
                "--log.level=error",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + DEADLINE_SECONDS
        while True:
            with contextlib.suppress(OSError):
                self.get("/-/ready")
                return
            assert time.monotonic() < end, "Alertmanager does not answer"
            assert self._process.poll() is None, "Alertmanager ended"
            time.sleep(0.05)

    def await_replies(self, count: int) -> None:
        """Wait until it has read so many replies of its webhook.

        What it had sent and was not replied to when it ends is not in its notification log; an
        alert that is not there gets no notification of its end.
        """
        line = f'alertmanager_notification_latency_seconds_count{{integration="webhook"}} {count}'
        end = time.monotonic() + DEADLINE_SECONDS
        while line not in self.get("/metrics").decode().splitlines():
            assert time.monotonic() < end, "Alertmanager does not notify"
            time.sleep(0.05)

    def stop(self) -> None:
        """End it; SIGTERM makes it store its notification log."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(DEADLINE_SECONDS)
            self._process = None

    def get(self, path: str) -> bytes:
        """Return an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        finally:
            connection.close()

    def post(self, labels: Sequence[dict[str, str]]) -> None:
        """Give it alerts."""
        body = json.dumps([{"labels": each} for each in labels])
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        try:
            kind = {"Content-Type": "application/json"}
            connection.request("POST", "/api/v2/alerts", body, kind)
            assert connection.getresponse().status == 200
        finally:
            connection.close()

    def active(self) -> list[dict[str, Any]]:
        """Return its active alerts."""
        found = json.loads(self.get("/api/v2/alerts"))
        assert isinstance(found, list)
        return found

    def names(self) -> set[str]:
        """Return the names of its active alerts."""
        return {each["labels"]["alertname"] for each in self.active()}


def _with_templates(program: Path) -> tuple[str, ...]:
    """Return the command line of Alertmanager, which reads /usr/share/prometheus as it starts.

    Its package is unpacked, not installed: it sees that directory in a mount namespace of its own.
    """
    share = program.with_suffix(".share")
    if not share.exists():  # it is installed
        return (str(program),)
    overlay = f"mount -t overlay overlay -o lowerdir={share}:/usr/share /usr/share"
    script = f'{overlay} && exec "$0" "$@"'
    return ("unshare", "--map-root-user", "--mount", "sh", "-c", script, str(program))


@contextlib.contextmanager
def alertmanager(directory: Path, notified_port: int | None = None) -> Iterator[Alertmanager]:
    """Run an Alertmanager."""
    made = Alertmanager(directory, notified_port)
    made.start()
    try:
        yield made
    finally:
        made.stop()
