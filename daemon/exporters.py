"""Other exporters that answer on this host: with their series on our '/metrics', rules break."""

from __future__ import annotations

import http.client
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PORTS = (9100, 9633)
"""Where node_exporter and smartctl_exporter listen unless told otherwise."""
TIMEOUT_SECONDS = 2.0
"""For one port: for each step, and for its whole answer."""
LIMIT_BYTES = 8 * 1024 * 1024
_CHUNK_BYTES = 65_536
_SIGNS = (("node_exporter", b"\nnode_uname_info{"), ("smartctl_exporter", b"\nsmartctl_"))
"""What only the '/metrics' of each shows."""


@dataclass(frozen=True, slots=True)
class Exporter:
    """Something that answers HTTP on a port of this host."""

    port: int
    program: str | None
    """'node_exporter' or 'smartctl_exporter'; None: it did not show its metrics, or is another."""
    answer: str
    """What it said: '200 OK', '401 Unauthorized' ..., or '200 OK, truncated'."""


def found(ports: Iterable[int] = PORTS, host: str = "127.0.0.1") -> tuple[Exporter, ...]:
    """Return what answers 'GET /metrics' on these ports.

    Limits: one that listens on another address or port only is not seen.
    """
    return tuple(exporter for port in ports if (exporter := _ask(host, port)) is not None)


def _ask(host: str, port: int) -> Exporter | None:
    end = time.monotonic() + TIMEOUT_SECONDS
    # Not urllib: it would ask a proxy that the environment names.
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
    content = b"\n"
    try:
        connection.request("GET", "/metrics", headers={"Accept": "text/plain"})
        response = connection.getresponse()
        answer = f"{response.status} {response.reason}"
        try:
            while chunk := response.read1(_CHUNK_BYTES):
                content += chunk
                if len(content) > LIMIT_BYTES or time.monotonic() > end:
                    answer += ", truncated"
                    break
        except (OSError, http.client.HTTPException):
            answer += ", truncated"
    except (OSError, http.client.HTTPException):
        return None  # nobody, or nobody who speaks HTTP
    finally:
        connection.close()
    program = next((name for name, sign in _SIGNS if sign in content), None)
    return Exporter(port, program, answer)
