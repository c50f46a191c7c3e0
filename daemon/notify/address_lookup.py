"""A server's addresses: resolved in a thread of their own, because that may hang; connections.

Source: getaddrinfo(3).
"""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.quantity import duration
from iowarden.daemon.notify.attempt import DialogueError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LOOKUP_SECONDS = 5.0
_REFRESH_SECONDS = 1.0
"""Timeouts of name resolution: without and with an earlier result to fall back on."""


class Address(NamedTuple):
    """Address family and address for a socket."""

    family: int
    address: tuple[str | int, ...] | tuple[int, bytes]


def connected(
    addresses: Sequence[Address], limit_seconds: Callable[[], float]
) -> tuple[socket.socket, str]:
    """Return a connection to the first address that responds, and the address.

    `limit_seconds` returns how long one address may take. Errors: DialogueError.
    """
    problems = []
    for family, address in addresses:
        limit = limit_seconds()  # may raise: before there is a socket to close
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.settimeout(limit)
        try:
            connection.connect(address)
        except OSError as error:
            connection.close()
            problems.append(f"'{error.strerror or error}' from {address[0]!s}")
            continue
        return connection, str(address[0])
    raise DialogueError(", ".join(dict.fromkeys(problems)))


class AddressLookup:
    """The addresses of a server: resolved at start, and again after a failed attempt."""

    def __init__(self, server: str, port: int) -> None:
        """Start resolving them."""
        self._server = server
        self._port = port
        self._addresses: tuple[Address, ...] = ()
        self._error = ""
        self._answered = threading.Event()
        self._requested_seconds: float | None = None
        self._request()

    def get(self, timeout_seconds: float) -> tuple[Address, ...]:
        """Return the addresses; wait if there are none or they failed. Errors: DialogueError."""
        longest = _REFRESH_SECONDS if self._addresses else _LOOKUP_SECONDS
        self._answered.wait(min(timeout_seconds / 2, longest))
        if self._addresses:
            return self._addresses
        if self._requested_seconds is not None:
            stuck = time.monotonic() - self._requested_seconds
            raise DialogueError(f"no reply from name resolution for {duration(stuck)}")
        raise DialogueError(self._error)

    def refresh(self) -> None:
        """Resolve the name again, unless a resolution is still running."""
        if self._requested_seconds is None:
            self._request()

    def _request(self) -> None:
        self._answered.clear()
        self._requested_seconds = time.monotonic()
        threading.Thread(target=self._resolve, name="name look-up", daemon=True).start()

    def _resolve(self) -> None:
        try:
            found = socket.getaddrinfo(self._server, self._port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            self._error = str(error)
        else:
            self._addresses = tuple(Address(family, address) for family, _, _, _, address in found)
        self._requested_seconds = None
        self._answered.set()
