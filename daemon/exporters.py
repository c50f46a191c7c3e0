"""Finds other exporters on this host: with their series on our '/metrics', their rules break."""

from __future__ import annotations

import http.client
import time
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

PORTS = (9100, 9633)
"""Default ports of node_exporter and smartctl_exporter."""
TIMEOUT_SECONDS = 2.0
"""Timeout per port: for each step, and for the whole answer."""
MAX_BYTES = 8 * 1024 * 1024
_CHUNK_BYTES = 65_536
_SIGNS = (("node_exporter", b"\nnode_uname_info{"), ("smartctl_exporter", b"\nsmartctl_"))
"""Metrics that only the '/metrics' of each has."""


@dataclass(frozen=True, slots=True)
class Exporter:
    """An HTTP server on a port of this host."""

    port: int
    program: str | None
    """'node_exporter' or 'smartctl_exporter'; None: it showed no metrics, or is something else."""
    answer: str
    """Its answer: '200 OK', '401 Unauthorized' ..., or '200 OK, truncated'."""


def find_exporters(ports: Iterable[int] = PORTS, host: str = "127.0.0.1") -> tuple[Exporter, ...]:
    """Return the servers that answer 'GET /metrics' on these ports.

    Limits: one that listens only on another address or port is not found.
    """
    return tuple(exporter for port in ports if (exporter := _fetch(host, port)) is not None)


def _fetch(host: str, port: int) -> Exporter | None:
    end = time.monotonic() + TIMEOUT_SECONDS
    # Not urllib: it would use a proxy of the environment.
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
    content = b"\n"
    try:
        connection.request("GET", "/metrics", headers={"Accept": "text/plain"})
        response = connection.getresponse()
        answer = f"{response.status} {response.reason}"
        try:
            while chunk := response.read1(_CHUNK_BYTES):
                content += chunk
                if len(content) > MAX_BYTES or time.monotonic() > end:
                    answer += ", truncated"
                    break
        except (OSError, http.client.HTTPException):
            answer += ", truncated"
    except (OSError, http.client.HTTPException):
        return None  # nothing listens, or it does not speak HTTP
    finally:
        connection.close()
    program = next((name for name, sign in _SIGNS if sign in content), None)
    return Exporter(port, program, answer)
