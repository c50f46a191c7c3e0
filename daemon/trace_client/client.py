"""Requests a trace: through the systemd unit's socket, or as root from a process of one's own."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from iowarden.daemon import json_codec
from iowarden.daemon.control.roles import OPERATOR_GROUP
from iowarden.daemon.probe_client import connect
from iowarden.daemon.trace.protocol import (
    MAX_ANSWER_BYTES,
    SOCKET,
    TraceResult,
    encode_request,
)

if TYPE_CHECKING:
    from iowarden.daemon.probe_client.connect import Connect
    from iowarden.daemon.trace.protocol import TraceRequest

ANSWER_SECONDS = 10.0
"""Timeout of the answer after the end of the trace; a start on a busy machine is in it."""
_RECEIVE_BYTES = 65_536


class TraceError(Exception):
    """There is no trace; the text is the reason, for the user."""


def trace(request: TraceRequest, connected: Connect | None = None) -> TraceResult:
    """Trace, and return the result. Blocks for as long as the trace takes. Errors: TraceError.

    `connected`: instead of systemd's socket, or a process that root starts where there is none.
    """
    try:
        with (connected or _connection())() as stream:
            stream.settimeout(request.seconds + ANSWER_SECONDS)
            stream.sendall(encode_request(request))
            received = bytearray()
            while not received.endswith(b"\n"):
                part = stream.recv(_RECEIVE_BYTES)
                received += part
                if not part or len(received) > MAX_ANSWER_BYTES:
                    raise TraceError(
                        f"expected the result of a trace, got {bytes(received[:60])!r}; two traces"
                        " may run at a time; see: journalctl -u 'iowarden-trace@*'"
                    )
    except OSError as error:  # also a timeout
        raise TraceError(f"no trace: {error}") from error
    return _result(bytes(received))


def _connection() -> Connect:
    if os.access(SOCKET, os.W_OK):
        return connect.connector(SOCKET)
    if os.geteuid() == 0:
        return connect.spawn_module("iowarden.daemon.trace")
    if not os.path.exists(SOCKET):
        unit = os.path.basename(SOCKET)
        raise TraceError(
            f"trace: expected the socket '{SOCKET}', got none; use sudo, or let root start it:"
            f" systemctl start {unit}; see: systemctl status {unit}"
        )
    raise TraceError(
        f"trace: no access to {SOCKET}: expected root or a member of group '{OPERATOR_GROUP}'; use"
        f" sudo, or let root run: usermod -aG {OPERATOR_GROUP} USER (effective after a new login)"
    )


def _result(line: bytes) -> TraceResult:
    try:
        found: Any = json.loads(line)
        if "error" in found:
            raise TraceError(str(found["error"]))
        return json_codec.decode(TraceResult, json.dumps(found["trace"]))
    except (ValueError, TypeError, KeyError) as error:
        raise TraceError(
            f"expected the result of a trace, got {line[:60]!r}, perhaps of another version:"
            " restart iowarden.service"
        ) from error
