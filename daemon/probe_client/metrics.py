"""Metrics of the probe as seen by the daemon: requests, and programs that hang."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from iowarden.collectors.block import dm_table
from iowarden.collectors.device_mapper import mapped_targets
from iowarden.collectors.filesystem import btrfs_owner, ext4_owner, xfs_owner
from iowarden.collectors.model import Family, Labels, Sample
from iowarden.daemon.probe.protocol import ReplyStatus

if TYPE_CHECKING:
    from iowarden.daemon.probe.protocol import Stuck

VERBS = (
    *("run", "tasks", "io_sweep", "journal", "newest", "statvfs", "kmsg"),
    *(mapped_targets.VERB, dm_table.VERB, ext4_owner.VERB, xfs_owner.VERB, btrfs_owner.VERB),
)
UNREACHABLE = "unreachable"
"""Used instead of an outcome: there was no connection, or it broke before the answer."""
_MAX_CHARACTERS = 500
_OUTCOMES = (*(outcome.value for outcome in ReplyStatus), UNREACHABLE)

_UP = Family(
    "iowarden_probe_up",
    "gauge",
    "Whether the last attempt to connect to the probe succeeded (1) or failed (0).",
)
_REQUESTS = Family("iowarden_probe_requests_total", "counter", "Requests to the probe, by outcome.")
_SECONDS = Family(
    "iowarden_probe_request_seconds_total",
    "counter",
    "Time from request to answer, including the wait for the controller.",
)
_OPEN = Family(
    "iowarden_probe_open_requests", "gauge", "Requests to the probe without an answer yet."
)
_CONNECTIONS = Family(
    "iowarden_probe_connections_total", "counter", "Connections made to the probe."
)
_STUCK_SECONDS = Family(
    "iowarden_probe_program_stuck_seconds",
    "gauge",
    "Time since a program that hangs in the kernel was killed.",
)
_STUCK_COUNT = Family(
    "iowarden_probe_programs_stuck",
    "gauge",
    "Programs that were killed and still hang in the kernel.",
)
FAMILIES = (_UP, _REQUESTS, _SECONDS, _OPEN, _CONNECTIONS, _STUCK_SECONDS, _STUCK_COUNT)


class ProbeMetrics:
    """Counters, updated by any thread.

    `up`: whether the last attempt to connect succeeded, None before the first.
    """

    def __init__(self) -> None:
        """Start with no requests."""
        self.up: bool | None = None
        self.connections_total = 0
        self._lock = threading.Lock()
        self._counts = {(verb, name): 0 for verb in VERBS for name in _OUTCOMES}
        self._seconds = dict.fromkeys(VERBS, 0.0)

    def count(self, verb: str, outcome: str, seconds: float) -> None:
        """Count a completed request, its outcome and its duration in seconds."""
        with self._lock:
            key = (verb, str(outcome))
            self._counts[key] = self._counts.get(key, 0) + 1
            self._seconds[verb] = self._seconds.get(verb, 0.0) + seconds

    def samples(
        self, open_requests: int, stuck: tuple[Stuck, ...], now_realtime: float
    ) -> list[Sample]:
        """Return the samples of FAMILIES; `now_realtime` is Unix time."""
        with self._lock:
            counts, seconds = dict(self._counts), dict(self._seconds)
        since = {labels: each.since_seconds for each in stuck for labels in _labels(each)}
        return [
            *([] if self.up is None else [(_UP.name, (), float(self.up))]),
            *(
                (_REQUESTS.name, (("outcome", outcome), ("verb", verb)), count)
                for (verb, outcome), count in counts.items()
            ),
            *((_SECONDS.name, (("verb", verb),), total) for verb, total in seconds.items()),
            (_OPEN.name, (), open_requests),
            (_CONNECTIONS.name, (), self.connections_total),
            *(
                (_STUCK_SECONDS.name, labels, max(now_realtime - start, 0.0))
                for labels, start in since.items()
            ),
            (_STUCK_COUNT.name, (), len(stuck)),
        ]


def _labels(stuck: Stuck) -> list[Labels]:
    base = {
        "controller": ",".join(stuck.controllers),
        "pid": str(stuck.pid),
        "program": os.path.basename(stuck.arguments[0]) if stuck.arguments else "",
    }
    return [
        tuple(
            (name, printable(value))
            for name, value in sorted({**base, "device": device}.items())
            if value
        )
        for device in stuck.devices or ("",)
    ]


def printable(text: str) -> str:
    """Return text that is safe to print and not too long: it may come from any source."""
    return text[:_MAX_CHARACTERS].encode(errors="backslashreplace").decode()
