"""Resource usage of the daemon: CPU time, memory, file descriptors, threads. By psutil."""

from __future__ import annotations

import time

import psutil

from iowarden.collectors.model import Family, Group

REFRESH_SECONDS = 15.0

FAMILIES = (
    Family(
        "iowarden_process_cpu_seconds_total", "counter", "Processor time used, user and system."
    ),
    Family(
        "iowarden_process_resident_memory_bytes", "gauge", "Resident memory, including shared code."
    ),
    Family(
        "iowarden_process_private_memory_bytes", "gauge", "Anonymous resident memory (RssAnon)."
    ),
    Family("iowarden_process_open_fds", "gauge", "Open file descriptors."),
    Family("iowarden_process_threads", "gauge", "Threads."),
    Family(
        "iowarden_process_start_time_seconds", "gauge", "When the process started, as Unix time."
    ),
)

Content = tuple[Group, ...]


class ProcessMetrics:
    """Reads the process's own metrics, at most every 15 s: they cost more than a tick.

    Source: psutil; RssAnon from '/proc/self/status' (proc(5)), which psutil does not provide.
    """

    def __init__(self) -> None:
        """Start without values."""
        self._process = psutil.Process()
        self._read_at = float("-inf")
        self._content: Content = ()

    def __call__(self) -> Content:
        """Return the families with the values last read."""
        now = time.monotonic()
        if now - self._read_at >= REFRESH_SECONDS:
            self._read_at = now
            self._content = self._read()
        return self._content

    def _read(self) -> Content:
        with self._process.oneshot():
            cpu = self._process.cpu_times()
            values = (
                cpu.user + cpu.system,
                self._process.memory_info().rss,
                _private_bytes(),
                self._process.num_fds(),
                self._process.num_threads(),
                self._process.create_time(),
            )
        return tuple(
            (family, () if value is None else ((family.name, (), float(value)),))
            for family, value in zip(FAMILIES, values, strict=True)
        )


def _private_bytes() -> int | None:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return None
