"""The table that `make bench` prints, of one machine in the same minutes."""

from __future__ import annotations

import socket
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def head() -> None:
    """Print the names of the columns."""
    row("what", "now", "budget")


def row(what: str, now: str, budget: str = "") -> None:
    """Print a line of the table."""
    print(f"{what:<62} {now:>20}   {budget}".rstrip(), flush=True)


def speed() -> None:
    """Print how fast this machine is at this moment: other tenants of it slow it to a half."""

    def additions() -> None:
        total = 0
        for number in range(10_000_000):
            total += number

    row(
        "this machine: 10 million additions in Python, CPU s",
        f"{cpu_milliseconds(additions, 3) / 1e3:.2f}",
    )


def cpu_milliseconds(work: Callable[[], object], count: int) -> float:
    """Return the median processor time of a call, garbage collection included."""
    times = []
    for _ in range(count):
        began = time.process_time_ns()
        work()
        times.append((time.process_time_ns() - began) / 1e6)
    return statistics.median(times)


def private_megabytes(pid: int | str = "self") -> float:
    """Return RssAnon of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def free_port() -> int:
    """Return a port nobody listens to now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
