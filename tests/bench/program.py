"""The program as processes on this machine: import, start, cost beside node_exporter, delivery."""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.host import played
from support.program import Feed, Program, recorded
from support.recordings import open_fixture
from support.smtp import smtp_server
from table import free_port, private_megabytes, row

if TYPE_CHECKING:
    from collections.abc import Iterator

TOOLS = Path(__file__).parents[2] / "build" / "tools"
FIRST_SECONDS, SCRAPE_SECONDS = 60, 15
IMPORT = """
import sys, time
def private():
    line = next(each for each in open("/proc/self/status") if each.startswith("RssAnon:"))
    return int(line.split()[1]) / 1024
began = time.process_time()
import iowarden.daemon.cli.main
import iowarden.daemon.cli.run_command
print(time.process_time() - began, private())
"""


@contextlib.contextmanager
def _iowarden(**environment: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run the service as its unit does, of this machine; with the port of its HTTP server."""
    directory, port = tempfile.mkdtemp(prefix="iowarden-bench-"), free_port()
    settings = Path(directory, "iowarden.yaml")
    settings.write_text(f"listen: 127.0.0.1:{port}\nstate_directory: {directory}\n")
    program = str(Path(sys.executable).with_name("iowarden"))
    with _running([program, "run", "--config", str(settings)], **environment) as process:
        yield process, port
    shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def _running(command: list[str], **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    own = {**os.environ, "MALLOC_ARENA_MAX": "1", **environment}
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=own)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


def bench_start(runs: int = 5) -> None:
    """Measure the import of the service with byte code, and a start until it is ready."""
    own = {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", IMPORT]
    taken = []
    for _ in range(runs + 1):  # the first one writes the byte code
        text = subprocess.run(command, env=own, check=True, capture_output=True).stdout
        taken.append([float(word) for word in text.split()])
    seconds, megabytes = (statistics.median(each) for each in zip(*taken[1:], strict=True))
    version = ".".join(str(part) for part in sys.version_info[:2])
    row(f"import of the service, Python {version}, CPU s", f"{seconds:.2f}", "<= 0.30")
    row("  RssAnon with it, MB", f"{megabytes:.1f}", "<= 30")
    ready = []
    for _ in range(runs):
        with (
            tempfile.TemporaryDirectory() as directory,
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening,
        ):
            path = str(Path(directory, "notify"))
            listening.bind(path)
            listening.settimeout(60)
            with _iowarden(NOTIFY_SOCKET=path) as (process, _):
                while b"READY=1" not in listening.recv(4096):
                    pass
                ready.append(_cpu_seconds(process.pid))
    row("start to READY, CPU s", f"{statistics.median(ready):.2f}", "<= 0.6")


class Peers:
    """The service and node_exporter on this machine, scraped while the other rows are measured."""

    def __init__(self) -> None:
        """Start both in a process of their own, which scrapes them."""
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def rows(self) -> None:
        """End them and print what they cost from the first minute until now."""
        output, _ = self._process.communicate()
        found: dict[str, Any] = json.loads(output)
        hours = found["seconds"] / 3600
        own, probe = found["iowarden"] / hours, found["with_probe"] / hours
        age = f"this machine, real time, {found['seconds'] / 60:.0f} min after its first minute"
        row(f"{age}:", "")
        row("  scraped each 15 s, with its probe, CPU s an hour", f"{probe:.1f}", "<= 10")
        row("    of these the service itself", f"{own:.1f}")
        if "node_exporter" in found:
            peer = found["node_exporter"] / hours
            row("  ratio to node_exporter each second", f"{probe / peer:.2f}", "<= 0.25")
            row("    node_exporter, CPU s an hour", f"{peer:.1f}")
            row("    node_exporter: RssAnon, MB", f"{found['node_megabytes']:.1f}")
        row("  1 disk: RssAnon, MB", f"{found['megabytes']:.1f}", "<= 40")
        row(
            "  1 disk: increase of RssAnon, MB an hour", f"{found['growth'] / hours:+.2f}", "<= 0.5"
        )


def _peers() -> None:
    """Scrape both until standard input ends, then print what they took."""
    path = os.pathsep.join((str(TOOLS), os.environ.get("PATH", "")))
    program = shutil.which("prometheus-node-exporter", path=path)
    port = free_port()
    with contextlib.ExitStack() as running:
        own, own_port = running.enter_context(_iowarden())
        peer = None
        if program is not None:
            command = [program, f"--web.listen-address=127.0.0.1:{port}"]
            peer = running.enter_context(_running(command))
        ended: list[bool] = []
        signal.signal(signal.SIGINT, lambda *_: ended.append(True))
        os.set_blocking(0, False)
        second, before, started = 0, {}, time.monotonic()
        while not ended:
            second += 1
            time.sleep(max(0.0, started + second - time.monotonic()))
            if peer is not None:
                _scrape(port)
            if second % SCRAPE_SECONDS == 0:
                _scrape(own_port)
            if second == FIRST_SECONDS:
                before, began = _spent(own.pid, peer), time.monotonic()
            with contextlib.suppress(BlockingIOError):
                if os.read(0, 1) == b"" and second > FIRST_SECONDS:
                    break
        after = _spent(own.pid, peer)
        found = {name: after[name] - value for name, value in before.items()}
        found["growth"] = found.pop("megabytes")
        found |= {"megabytes": after["megabytes"], "seconds": time.monotonic() - began}
        if peer is not None:
            found["node_megabytes"] = private_megabytes(peer.pid)
        print(json.dumps(found))


def _scrape(port: int) -> None:
    with (
        contextlib.suppress(OSError),
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer,
    ):
        answer.read()


def _spent(pid: int, peer: subprocess.Popen[bytes] | None) -> dict[str, float]:
    found = {
        "iowarden": _cpu_seconds(pid),
        "with_probe": sum(_cpu_seconds(each, ended=True) for each in _family(pid)),
        "megabytes": private_megabytes(pid),
    }
    if peer is not None:
        found["node_exporter"] = _cpu_seconds(peer.pid)
    return found


def _family(pid: int) -> list[int]:
    """Return a process and all its children's children."""
    parents = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = each.read_text().rpartition(")")[2].split()
            parents[int(each.parent.name)] = int(words[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def _cpu_seconds(pid: int, *, ended: bool = False) -> float:
    """Return what a process has used, `ended`: with its children that have ended."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(word) for word in words[11 : 15 if ended else 13]) / os.sysconf("SC_CLK_TCK")


def bench_delivery() -> None:
    """Measure from the frame that confirms a condition to the mail at a real SMTP server."""
    for name, severity, budget in (
        ("hung-disk", "critical", "<= 2"),
        ("write-stall", "warning, 60 s of grouping", "<= 62"),
    ):
        directory = Path(tempfile.mkdtemp(prefix="iowarden-bench-"))
        (directory / "recorded").mkdir()
        recording = open_fixture(name, directory / "recorded")
        host, level = played(recording), severity.partition(",")[0]
        due = next(m.uptime for m in host.mails if m.due.incident.severity.name.lower() == level)
        confirmed = min(u for u, _, fired in host.fired if fired == level)
        feed = Feed(recorded(name), directory / "feed")
        before = sum(step.frame.monotonic_seconds < due for step in feed.steps)
        with smtp_server() as (port, answers):
            program = Program(directory, feed, smtp_port=port)
            program.start()
            # Rules are evaluated every 5 s, perhaps at another second than in `played`.
            feed.give(before - 8)
            program.caught_up()
            took = math.nan
            while math.isnan(took) and feed.given < len(feed.steps):
                began = time.perf_counter()
                feed.give(1)
                with contextlib.suppress(queue.Empty):
                    answers.mails.get(timeout=0.5)
                    took = time.perf_counter() - began
            program.end()
        waited = due - confirmed
        row(f"condition confirmed to SMTP, {severity}, s", f"{waited + took:.2f}", budget)
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    _peers()
