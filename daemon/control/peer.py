"""Identifies the client of a connection: its groups, and the name of its user.

Sources: unix(7), getpwuid(3), nsswitch.conf(5).
"""

from __future__ import annotations

import grp
import pwd
import queue
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING

from iowarden.daemon.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

NAME_SECONDS = 1.0
"""Timeout of a user's name: a directory service that hangs must not block requests."""
SO_PEERGROUPS = 59
"""asm-generic/socket.h, Linux 4.13; the `socket` module has no name for it."""
MAX_GROUPS_BYTES = 1024
"""The limit of Python's getsockopt: 256 groups."""


def group_id(name: str) -> int | None:
    """Return the number of a group, None if it does not exist."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return None


def groups(connected: socket.socket) -> tuple[int, ...]:
    """Return the groups of the client's process; () if there are more than 256.

    Source: not in unix(7); net/core/sock.c, sk_getsockopt, SO_PEERGROUPS.
    """
    try:
        found = connected.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, MAX_GROUPS_BYTES)
    except OSError:
        return ()
    return tuple(group for (group,) in struct.iter_unpack("I", found))


class Names:
    """Resolves uids to names of users, in a thread: a directory service may hang.

    Source: getpwuid(3), nsswitch.conf(5).
    """

    def __init__(self, on_name: Callable[[], object]) -> None:
        self._on_name = on_name
        self._known: dict[int, str] = {0: "root"}
        self._requested: dict[int, float] = {}
        self._wanted: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="names", daemon=True).start()

    def request(self, uid: int) -> None:
        """Start to resolve a uid, unless its name is known or requested."""
        if uid not in self._requested and uid not in self._known:
            self._requested[uid] = time.monotonic()
            self._wanted.put(uid)

    def who(self, uid: int) -> str:
        """Return 'alice (uid 1000)'; 'uid 1000' after the timeout or a failure; '' before."""
        if name := self._known.get(uid):
            return f"{one_line(name, 64)} (uid {uid})"
        late = time.monotonic() >= self.deadline(uid)
        return f"uid {uid}" if late else ""

    def deadline(self, uid: int) -> float:
        """Return when the look-up of a name times out; a time in the past if none runs."""
        return self._requested.get(uid, float("-inf")) + NAME_SECONDS

    def close(self) -> None:
        """End the thread after its current look-up."""
        self._wanted.put(None)

    def _run(self) -> None:
        while (uid := self._wanted.get()) is not None:
            try:
                name = pwd.getpwuid(uid).pw_name
            except (KeyError, OSError):  # no user has that number
                name = ""
            if name:
                self._known[uid] = name
            else:
                self._requested[uid] = float("-inf")
            self._on_name()
