"""Request and result of a trace: one JSON line from each side of a local socket.

The request names the devices by number, so that no path is opened for a client; the answer has
sums, and of the slowest requests the sector and the program: no data.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from typing import Any

from iowarden.collectors.dataclass import dataclass

VERSION = 1
SOCKET = "/run/iowarden-trace.socket"
"""Socket of the systemd unit, which starts one process for each trace."""
MIN_SECONDS, MAX_SECONDS = 0.1, 60.0
MAX_DEVICES = 64
MAX_REQUEST_BYTES = 4096
MAX_ANSWER_BYTES = 4 * 1024 * 1024
ALL_SIZES = "all"
_NUMBER = re.compile(r"(\d{1,4}):(\d{1,7})", re.ASCII)


class TraceRequestError(Exception):
    """A request that is not served; the text is for the user."""


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """Devices by number, '8:0', and for how long."""

    devices: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class LatencyLine:
    """Requests of one operation and size, from their issue to the driver until completion.

    Operations: 'read', 'read_ahead', 'write' (writeback), 'sync_write' (a program waits),
    'fua_write' (on stable storage when it completes), 'flush', 'discard', 'other' (commands such as
    SMART). Percentiles are exact to 3 %. Histogram: upper limit in seconds and number of requests.
    """

    operation: str
    size: str
    """'<= 4 KiB', ... '> 1 MiB'; 'none' has no data; 'all' is the sum over all sizes."""
    requests: int
    bytes: int
    p50_seconds: float
    p90_seconds: float
    p99_seconds: float
    max_seconds: float
    histogram: tuple[tuple[float, int], ...]


@dataclass(frozen=True, slots=True)
class TracedRequest:
    """One request. `program` and `pid` issued it: of buffered writes that is a kernel thread.

    `at_seconds` is when it was issued, as Unix time. `rwbs`: operation and flags in the kernel's
    letters (trace/blktrace.c, blk_fill_rwbs).
    """

    seconds: float
    at_seconds: float
    operation: str
    rwbs: str
    sector: int
    bytes: int
    program: str
    pid: int


@dataclass(frozen=True, slots=True)
class DiskTrace:
    """The requests of one disk."""

    device_number: str
    requests: int
    """Issued and completed during the trace; the others are counted below."""
    bytes: int
    errors: int
    read_ahead_requests_ratio: float | None
    """Of all reads; None: there was none."""
    read_ahead_bytes_ratio: float | None
    in_flight: int | None
    """Not completed at the end; None: events were lost, and it is not known."""
    waiting: tuple[TracedRequest, ...]
    """The oldest of them, with the time since their issue."""
    issued_before: int
    """Completed requests that were issued before the trace."""
    requeued: int
    """Returned by the driver, and issued again: their time counts from the last issue."""
    unmatched: int
    """Not measured: two at one sector at the same time, events that were lost, or too many."""
    vanished: bool
    """The kernel removed the disk during the trace."""
    latencies: tuple[LatencyLine, ...]
    slowest: tuple[TracedRequest, ...]
    """Ten, five of them reads, if there are that many of each."""


@dataclass(frozen=True, slots=True)
class TraceResult:
    """A trace. Units: Unix time, seconds."""

    started_seconds: float
    seconds: float
    events: int
    lost_events: int
    """Events that the kernel dropped because they were not read in time; at least that many."""
    reader_seconds: float
    """Processor time that reading the events took."""
    disks: tuple[DiskTrace, ...]


def device_number(text: str) -> int:
    """Return the kernel's number of a device, as in events (MKDEV). Errors: TraceRequestError."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise TraceRequestError(f"expected a device number such as 8:0, got {text[:40]!r}")
    return int(found[1]) << 20 | int(found[2])


def encode_request(request: TraceRequest) -> bytes:
    """Return a request as a line."""
    body = {"version": VERSION, **dataclasses.asdict(request)}
    return json.dumps(body).encode() + b"\n"


def decode_request(line: bytes) -> TraceRequest:
    """Return the request of a line. Errors: TraceRequestError."""
    try:
        body: Any = json.loads(line)
    except ValueError as error:
        raise TraceRequestError(f"expected JSON, got {line[:60]!r}") from error
    if not isinstance(body, dict) or body.get("version") != VERSION:
        raise TraceRequestError(
            f"expected version {VERSION}, got {line[:60]!r}; restart iowarden.service"
        )
    devices, seconds = body.get("devices"), body.get("seconds")
    if not isinstance(devices, list) or not 0 < len(devices) <= MAX_DEVICES:
        raise TraceRequestError(f"expected 1 to {MAX_DEVICES} devices, got {devices!r:.60}")
    for each in devices:
        device_number(each if isinstance(each, str) else repr(each))
    if (
        not isinstance(seconds, int | float)
        or isinstance(seconds, bool)
        or not math.isfinite(seconds)
        or not MIN_SECONDS <= seconds <= MAX_SECONDS
    ):
        raise TraceRequestError(
            f"expected {MIN_SECONDS:g} to {MAX_SECONDS:g} seconds, got {seconds!r:.60}"
        )
    return TraceRequest(tuple(dict.fromkeys(devices)), float(seconds))


def encode_answer(answer: TraceResult | str) -> bytes:
    """Return the answer as a line: a result, or the reason why there is none."""
    found = {"error": answer} if isinstance(answer, str) else {"trace": dataclasses.asdict(answer)}
    return json.dumps(found).encode() + b"\n"
