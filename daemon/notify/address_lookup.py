"""The addresses of the mail server: looked up in a thread, because a look-up may hang.

Source: getaddrinfo(3).
"""

from __future__ import annotations

import socket
import threading
import time
from typing import NamedTuple

from iowarden.daemon.notify.attempt import FaultError

_LOOK_UP_SECONDS = 5.0
_REFRESH_SECONDS = 1.0
"""How long a look-up is awaited without and with an earlier answer to fall back on."""


class Address(NamedTuple):
    """An address as a socket takes it."""

    family: int
    address: tuple[str | int, ...] | tuple[int, bytes]


class AddressLookup:
    """The addresses of a server: looked up at start, and again after an attempt that failed."""

    def __init__(self, server: str, port: int) -> None:
        """Look them up."""
        self._server = server
        self._port = port
        self._addresses: tuple[Address, ...] = ()
        self._error = ""
        self._answered = threading.Event()
        self._asked_seconds: float | None = None
        self._ask()

    def get(self, timeout_seconds: float) -> tuple[Address, ...]:
        """Return the addresses; wait while there are none or they failed. Errors: FaultError."""
        longest = _REFRESH_SECONDS if self._addresses else _LOOK_UP_SECONDS
        self._answered.wait(min(timeout_seconds / 2, longest))
        if self._addresses:
            return self._addresses
        if self._asked_seconds is not None:
            stuck = time.monotonic() - self._asked_seconds
            raise FaultError(f"no answer from the name look-up for {stuck:.0f} s")
        raise FaultError(self._error)

    def mistrust(self) -> None:
        """Look the name up again, unless a look-up has not come back."""
        if self._asked_seconds is None:
            self._ask()

    def _ask(self) -> None:
        self._answered.clear()
        self._asked_seconds = time.monotonic()
        threading.Thread(target=self._look_up, name="mail name look-up", daemon=True).start()

    def _look_up(self) -> None:
        try:
            found = socket.getaddrinfo(self._server, self._port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            self._error = str(error)
        else:
            self._addresses = tuple(Address(family, address) for family, _, _, _, address in found)
        self._asked_seconds = None
        self._answered.set()
