"""Traces the requests of some disks for a few seconds."""

from __future__ import annotations

import bisect
import time
from pathlib import Path
from typing import TYPE_CHECKING

from iowarden.daemon.trace.instance import Instance
from iowarden.daemon.trace.protocol import TraceRequestError, TraceResult, device_number
from iowarden.daemon.trace.requests import Requests

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.daemon.trace.pages import TraceEvent
    from iowarden.daemon.trace.protocol import TraceRequest

ROUND_SECONDS = 0.02
"""Between two reads, and the time by which a trace may end late."""
SYSTEM_DEVICES = "/sys/dev/block"
_WHOLE_SECONDS = 0.5
"""Between two checks whether the disks still exist."""


def capture(request: TraceRequest, wait: Callable[[float], bool]) -> TraceResult:
    """Trace until the time has passed, all disks have vanished, or `wait` returns True.

    `wait` waits for so many seconds. Errors: TraceRequestError (no such disk), ReadError (tracefs
    does not do it), ParseError (of an unknown format).
    """
    devices = {device_number(text): text for text in request.devices}
    if missing := _missing(request.devices):
        raise TraceRequestError(
            f"expected a disk, got {', '.join(missing)}: no such device, or a partition"
        )
    requests = Requests(devices)
    batch: list[TraceEvent] = []
    gone: list[str] = []
    lost = events = 0
    with Instance(devices) as instance:
        cpu_ns = time.thread_time_ns()
        began_ns = time.monotonic_ns()
        end_ns = began_ns + round(request.seconds * 1e9)
        check_ns = began_ns
        ended = False
        while not ended:
            now_ns = time.monotonic_ns()
            left = (end_ns - now_ns) / 1e9
            ended = left <= 0 or wait(min(left, ROUND_SECONDS))
            if now_ns >= check_ns:
                check_ns = now_ns + round(_WHOLE_SECONDS * 1e9)
                gone = _missing(request.devices)
                ended = ended or len(gone) == len(devices)
            if ended:
                instance.stop()
            # Whatever is older than this is read from every processor now, and can be sorted.
            horizon_ns = time.monotonic_ns()
            lost += instance.read(batch.append)
            batch.sort()
            ready = len(batch) if ended else bisect.bisect_left(batch, (horizon_ns,))
            requests.take(batch[:ready])
            events += ready
            del batch[:ready]
        now_ns = time.monotonic_ns()
        reader_seconds = (time.thread_time_ns() - cpu_ns) / 1e9
    ahead_ns = time.time_ns() - time.monotonic_ns()
    return TraceResult(
        started_seconds=(began_ns + ahead_ns) / 1e9,
        seconds=(now_ns - began_ns) / 1e9,
        events=events,
        lost_events=lost,
        reader_seconds=reader_seconds,
        disks=tuple(requests.result(now_ns, ahead_ns, gone)),
    )


def _missing(devices: tuple[str, ...]) -> list[str]:
    """Return the numbers that are no disk: partitions have no 'queue'. Source: ABI, sysfs-block."""
    return [each for each in devices if not Path(SYSTEM_DEVICES, each, "queue").exists()]
