"""One connection of the probe: frames in and out, without blocking, and the limits of both."""

from __future__ import annotations

import array
import collections
import contextlib
import os
import socket
import struct
from typing import TYPE_CHECKING

from iowarden.daemon.probe import protocol

if TYPE_CHECKING:
    from iowarden.daemon.probe.protocol import Message

HALF_SECONDS = 10.0
"""Timeout for a complete frame, and for the start of the first one."""
MAX_UNSENT_BYTES = 16 * 1024 * 1024
UNSENT_SECONDS = 30.0
"""Timeout for the client to read waiting data."""
MAX_DESCRIPTORS = 4
_RECEIVE_BYTES = 4 * 1024
"""Bytes read at once from one connection: its requests are handled before others get a turn."""


class Connection:
    """A stream socket to a client that may send anything, and read nothing."""

    def __init__(self, stream: socket.socket, now: float) -> None:
        """Own the socket. `now` here and below: monotonic time in seconds."""
        stream.setblocking(False)  # noqa: FBT003 - the library's own signature
        self.stream = stream
        self.greeted = False
        self.closed = False
        self.broken = False
        self._decoder = protocol.Decoder(protocol.MAX_REQUEST_BYTES)
        self._waiting_since: float | None = now
        self._out: collections.deque[tuple[memoryview, int]] = collections.deque()
        self._unsent_bytes = 0
        self._progress_at = now
        self.active_at = now
        """When a message last came or went."""

    def peer(self) -> int:
        """Return the client's user ID, as of its connect. Source: unix(7), SO_PEERCRED."""
        found = self.stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", found)[1])

    def receive(self, now: float) -> list[Message] | None:
        """Return the received messages; None: the client disconnected. Errors: ProtocolError."""
        try:
            received = self.stream.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return []
        except OSError:  # a reset is the same as its end
            return None
        if not received:
            return None
        messages = self._decoder.feed(received)
        self.active_at = now
        if not self._decoder.waiting():
            self._waiting_since = None
        elif messages or self._waiting_since is None:
            self._waiting_since = now
        return messages

    def put(self, frame: bytes, now: float, descriptor: int = -1) -> None:
        """Queue a frame; the descriptor is sent with its first byte, and is owned from now on."""
        self.active_at = now
        if not self._out:
            self._progress_at = now
        self._out.append((memoryview(frame), descriptor))
        self._unsent_bytes += len(frame)
        self.send(now)

    def send(self, now: float) -> None:
        """Send as much as the socket accepts."""
        while self._out:
            rest, descriptor = self._out[0]
            try:
                sent = self._transmit(rest, descriptor)
            except BlockingIOError:
                return
            except OSError:  # The client has disconnected, and what waits for it is useless.
                self.broken = True
                return
            self._progress_at = now
            self._unsent_bytes -= sent
            if descriptor >= 0:
                os.close(descriptor)
            if sent == len(rest):
                self._out.popleft()
            else:
                self._out[0] = (rest[sent:], -1)

    def _transmit(self, data: memoryview, descriptor: int) -> int:
        if descriptor < 0:
            return self.stream.send(data)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        return self.stream.sendmsg([data], rights)

    def unsent(self) -> bool:
        """Return whether data waits to be sent."""
        return bool(self._out)

    def descriptors(self) -> int:
        """Return how many descriptors wait to be sent."""
        return sum(descriptor >= 0 for _, descriptor in self._out)

    def late_at(self) -> float:
        """Return when it is to be closed, unless the client sends or reads before that."""
        if self._unsent_bytes > MAX_UNSENT_BYTES:
            return float("-inf")
        reads = self._progress_at + UNSENT_SECONDS if self._out else float("inf")
        sends = float("inf") if self._waiting_since is None else self._waiting_since + HALF_SECONDS
        return min(reads, sends)

    def fault(self) -> str:
        """Return the fault of a client that is late."""
        if self._out:
            return f"the client does not read; {self._unsent_bytes} bytes wait to be sent"
        return "the client sent an incomplete frame or no greeting, then nothing"

    def close(self) -> None:
        """Close it, and the descriptors that were not passed."""
        self.closed = True
        for _, descriptor in self._out:
            if descriptor >= 0:
                os.close(descriptor)
        self._out.clear()
        with contextlib.suppress(OSError):
            self.stream.close()
