"""One trace as root: `python -I -m iowarden.daemon.trace`, on systemd's connection or a given one.

*Source:* sd_listen_fds(3), systemd.socket(5), Accept=yes. Reads a request, traces, answers, ends.
It ends early when the client disconnects or on SIGTERM. Exit: 0, 64 (command line), 77 (not
permitted); numbers of sysexits.h.
"""

from __future__ import annotations

import argparse
import contextlib
import grp
import os
import pwd
import select
import signal
import socket
import struct
import sys
import time
import traceback
from typing import TYPE_CHECKING

from systemd.daemon import listen_fds

from iowarden.collectors.kernel.tracing import tracing_problem
from iowarden.collectors.machine import Machine
from iowarden.collectors.model import ParseError, ReadError
from iowarden.daemon.trace import protocol
from iowarden.daemon.trace.capture import capture

if TYPE_CHECKING:
    from collections.abc import Collection

USER = "iowarden"
OPERATOR_GROUP = "iowarden-operator"
"""Its members may trace; the same as in daemon/control/roles.py, which root does not import."""
SO_PEERGROUPS = 59
"""asm-generic/socket.h, Linux 4.13."""
_GROUPS_BYTES = 1024
"""The limit of Python's getsockopt, 256 groups; more than that are not read."""
REQUEST_SECONDS = 5.0
"""Timeout of the client's request, and for it to read the answer."""
_USAGE, _PERMISSION = 64, 77


def main(arguments: list[str]) -> int:
    """Serve one connection; return the exit status."""
    parser = argparse.ArgumentParser("iowarden-trace", description="Traces a disk for iowarden.")
    parser.add_argument("--descriptor", type=int, help="connected socket, instead of systemd's")
    options = parser.parse_args(arguments)
    given = [options.descriptor] if options.descriptor is not None else listen_fds()
    if len(given) != 1:
        return _refuse("no connection: give '--descriptor' or start it by systemd", _USAGE)
    users = {0, os.geteuid()}
    with contextlib.suppress(KeyError):  # no such user here: only root may send requests
        users.add(pwd.getpwnam(USER).pw_uid)
    operators = None
    with contextlib.suppress(KeyError):
        operators = grp.getgrnam(OPERATOR_GROUP).gr_gid
    with socket.socket(fileno=given[0]) as client:
        stop = Stop(client)
        signal.signal(signal.SIGTERM, stop.end)
        signal.signal(signal.SIGINT, stop.end)
        return serve(client, stop, users, operators)


def serve(
    client: socket.socket, stop: Stop, users: Collection[int], operators: int | None = None
) -> int:
    """Answer a request of one of these users, or a member of the group; return the exit status."""
    peer = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, group = struct.unpack("3i", peer)  # unix(7), SO_PEERCRED: as of its connect
    groups = [group]
    with contextlib.suppress(OSError):  # more groups than fit: then only the primary one counts
        more = client.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, _GROUPS_BYTES)
        groups += (number for (number,) in struct.iter_unpack("I", more))
    if user not in users and operators not in groups:
        return _refuse(
            f"a connection from user {user}: expected root, {USER} or a member of group"
            f" '{OPERATOR_GROUP}'",
            _PERMISSION,
        )
    try:
        client.settimeout(REQUEST_SECONDS)
        client.sendall(protocol.encode_answer(_answer(_line(client), stop)))
    except OSError as error:  # The client has disconnected, or does not send or read.
        sys.stderr.write(f"iowarden-trace: the client: {error}\n")
    return 0


class Stop:
    """Whether a trace is to end before its time."""

    def __init__(self, client: socket.socket) -> None:
        """Watch a connection: whatever can be read from it is its end."""
        self._client = client
        self._ended = False

    def end(self, *_: object) -> None:
        """End the trace: a signal handler."""
        self._ended = True

    def wait(self, seconds: float) -> bool:
        """Wait; return whether the trace is to end."""
        readable, _, _ = select.select([self._client], [], [], seconds)
        return self._ended or bool(readable)


def _line(client: socket.socket) -> bytes:
    received = b""
    end = time.monotonic() + REQUEST_SECONDS
    while not received.endswith(b"\n"):
        part = client.recv(protocol.MAX_REQUEST_BYTES)
        if not part or len(received) > protocol.MAX_REQUEST_BYTES or time.monotonic() > end:
            raise ConnectionError("expected a line with a request, got none")
        received += part
    return received


def _answer(line: bytes, stop: Stop) -> protocol.TraceResult | str:
    """Return the result of a trace, or why there is none."""
    try:
        return capture(protocol.decode_request(line), stop.wait)
    except ReadError as error:
        return tracing_problem(Machine()) or str(error)
    except (protocol.TraceRequestError, ParseError) as error:
        return str(error)
    except Exception:  # noqa: BLE001 - the client gets an answer
        text = traceback.format_exc()
        sys.stderr.write(f"iowarden-trace: this is a bug of iowarden:\n{text}")
        return "this is a bug of iowarden; see: journalctl -u 'iowarden-trace@*'"


def _refuse(why: str, status: int) -> int:
    sys.stderr.write(f"iowarden-trace: {why}\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
