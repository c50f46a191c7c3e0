"""The client's side of a trace: results, errors, answers that are none."""

from __future__ import annotations

import os
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from iowarden.daemon.trace import protocol
from iowarden.daemon.trace.__main__ import Stop, serve
from iowarden.daemon.trace.protocol import DiskTrace, TraceRequest, TraceResult
from iowarden.daemon.trace_client import client
from iowarden.daemon.trace_client.client import TraceError, trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REQUEST = TraceRequest(("999:7",), 1.0)
IDLE = DiskTrace(
    *("8:0", 0, 0, 0, None, None, None, ()),
    *(0, 0, 0, False),
    *((), ()),
)


def answered(reply: Callable[[socket.socket], object]) -> TraceResult:
    """What the client makes of a server."""
    ours, theirs = socket.socketpair()
    server = threading.Thread(target=reply, args=(theirs,))
    server.start()
    try:
        return trace(REQUEST, lambda: ours)
    finally:
        server.join()
        theirs.close()


def sends(line: bytes) -> Callable[[socket.socket], object]:
    """A server that reads the request, sends this and disconnects."""

    def reply(stream: socket.socket) -> None:
        stream.recv(4096)
        stream.sendall(line)
        stream.shutdown(socket.SHUT_RDWR)

    return reply


def test_a_result_arrives_as_it_was_made() -> None:
    """None is not 0."""
    result = TraceResult(1e9, 5.0, 12, 3, 0.25, (IDLE,))
    assert answered(sends(protocol.encode_answer(result))) == result


def test_the_reason_of_the_process_is_that_of_the_client() -> None:
    """No such disk: found by the process that traces."""
    with pytest.raises(TraceError, match="expected a disk, got 999:7: no such device"):
        answered(lambda stream: serve(stream, Stop(stream), {os.geteuid()}))


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"", "expected the result of a trace, got b''; two traces may run at a time"),
        (b"{}\n", "expected the result of a trace, got b'{}\\\\n'"),
        (b"[]\n", "perhaps of another version"),
        (b"x\n", "perhaps of another version"),
        (b'{"trace": {"seconds": "5"}}\n', "perhaps of another version"),
    ],
)
def test_an_answer_that_is_none_is_an_error(line: bytes, error: str) -> None:
    """Of a process of another version, or of none."""
    with pytest.raises(TraceError, match=error):
        answered(sends(line))


def test_a_user_who_may_not_trace_gets_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No socket: it is not installed or not started, and to join a group would not help."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(client, "SOCKET", str(tmp_path / "trace.socket"))
    with pytest.raises(
        TraceError,
        match=r"expected the socket '.*trace.socket', got none; .* systemctl start trace.socket",
    ):
        trace(REQUEST)
