"""Identifies the client of a connection: its groups, and the name of its user.

Sources: unix(7), getpwuid(3), nsswitch.conf(5).
"""

from __future__ import annotations

import ctypes
import errno
import grp
import os
import pwd
import queue
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING

from iowarden.daemon.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NAME_SECONDS = 1.0
"""Timeout of a user's name: a directory service that hangs must not block requests."""
GROUPS_INTERVAL_SECONDS = 10.0
"""Minimum time between two look-ups of the groups."""
_GROUPS = "groups"
SO_PEERGROUPS = 59
"""asm-generic/socket.h, Linux 4.13; the `socket` module has no name for it."""
_PYTHON_BYTES = 1024
"""The limit of Python's getsockopt: 256 groups."""
_ALL_BYTES = 4 * 65_536
"""limits.h, NGROUPS_MAX: a user of a directory service may be in more than 256."""


def group_id(name: str) -> int | None:
    """Return the number of a group, None if it does not exist."""
    try:
        return grp.getgrnam(name).gr_gid
    except (KeyError, OSError):  # not found, or the directory service failed
        return None


def credentials(connected: socket.socket) -> tuple[int, frozenset[int]]:
    """Return uid and all groups of the client's process, as they were when it connected.

    The client may have ended since. Source: unix(7), SO_PEERCRED; SO_PEERGROUPS is not in unix(7):
    net/core/sock.c, sk_getsockopt.
    """
    _, uid, gid = struct.unpack(
        "iII", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    )
    try:
        found = connected.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, _PYTHON_BYTES)
    except OSError as error:
        found = _many_groups(connected) if error.errno == errno.ERANGE else b""
    return uid, frozenset((gid, *(group for (group,) in struct.iter_unpack("I", found))))


def _many_groups(connected: socket.socket) -> bytes:
    buffer = ctypes.create_string_buffer(_ALL_BYTES)
    size = ctypes.c_uint32(_ALL_BYTES)
    getsockopt = ctypes.CDLL(None, use_errno=True).getsockopt
    if getsockopt(connected.fileno(), socket.SOL_SOCKET, SO_PEERGROUPS, buffer, ctypes.byref(size)):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return buffer.raw[: size.value]


class Names:
    """Resolves uids to names of users and groups to numbers, in a thread: a directory may hang.

    Source: getpwuid(3), getgrnam(3), nsswitch.conf(5).
    """

    def __init__(self, groups: tuple[str, ...], on_name: Callable[[], object]) -> None:
        """Start with the groups; `on_name` is called in the thread, after each answer."""
        self._on_name = on_name
        self._groups = groups
        self._gids: Mapping[str, int | None] = {}
        self._groups_requested = time.monotonic()
        self._known: dict[int, str] = {0: "root"}
        self._requested: dict[int, float] = {}
        self._wanted: queue.SimpleQueue[int | str | None] = queue.SimpleQueue()
        self._wanted.put(_GROUPS)
        threading.Thread(target=self._run, name="names", daemon=True).start()

    def gids(self) -> Mapping[str, int | None] | None:
        """Return the numbers of the groups, None of one that does not exist; None while unknown.

        After the timeout, of a directory service that hangs, no group is known to exist.
        """
        if not self._gids and time.monotonic() < self._groups_requested + NAME_SECONDS:
            return None
        return self._gids

    def request_groups(self) -> None:
        """Resolve the groups again, at most every ten seconds: one may have been created."""
        now = time.monotonic()
        if now - self._groups_requested >= GROUPS_INTERVAL_SECONDS:
            self._groups_requested = now
            self._wanted.put(_GROUPS)

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
        """Return when the look-ups for a client time out; a time in the past if none runs."""
        groups = float("-inf") if self._gids else self._groups_requested
        return max(self._requested.get(uid, float("-inf")), groups) + NAME_SECONDS

    def close(self) -> None:
        """End the thread after its current look-up."""
        self._wanted.put(None)

    def _run(self) -> None:
        while (uid := self._wanted.get()) is not None:
            if isinstance(uid, str):
                self._gids = {name: group_id(name) for name in self._groups}
                self._on_name()
                continue
            try:
                name = pwd.getpwuid(uid).pw_name
            except (KeyError, OSError):  # no user has that number
                name = ""
            if name:
                self._known[uid] = name
            else:
                self._requested[uid] = float("-inf")
            self._on_name()
