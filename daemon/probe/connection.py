"""One connection of the probe: frames in and out, never waiting, and the limits of both."""

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
"""So long a frame may take to arrive, and the first one to begin."""
MOST_UNSENT_BYTES = 16 * 1024 * 1024
UNSENT_SECONDS = 30.0
"""So long the other side may read nothing of what waits."""
MOST_DESCRIPTORS = 4
_RECEIVE_BYTES = 4 * 1024
"""At once, of one: the requests in them are looked at before anybody else has a turn."""


class Connection:
    """A stream socket to somebody who may send anything, and read nothing."""

    def __init__(self, stream: socket.socket, now: float) -> None:
        """Own the socket. `now` here and below: a clock in seconds that only grows."""
        stream.setblocking(False)  # noqa: FBT003 - the library's own signature
        self.stream = stream
        self.greeted = False
        self.closed = False
        self.broken = False
        self._decoder = protocol.Decoder(protocol.MOST_REQUEST_BYTES)
        self._waiting_since: float | None = now
        self._out: collections.deque[tuple[memoryview, int]] = collections.deque()
        self._unsent_bytes = 0
        self._progress_at = now

    def peer(self) -> int:
        """Return the user at the other end, when it connected. Source: unix(7), SO_PEERCRED."""
        found = self.stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", found)[1])

    def receive(self, now: float) -> list[Message] | None:
        """Return the messages that came; None: the other side has ended. Errors: ProtocolError."""
        try:
            received = self.stream.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return []
        except OSError:  # reset: as good as its end
            return None
        if not received:
            return None
        messages = self._decoder.feed(received)
        if not self._decoder.waiting():
            self._waiting_since = None
        elif messages or self._waiting_since is None:
            self._waiting_since = now
        return messages

    def put(self, frame: bytes, now: float, descriptor: int = -1) -> None:
        """Have a frame sent; the descriptor goes with its first byte, and is owned from here."""
        if not self._out:
            self._progress_at = now
        self._out.append((memoryview(frame), descriptor))
        self._unsent_bytes += len(frame)
        self.send(now)

    def send(self, now: float) -> None:
        """Send as much as the socket takes."""
        while self._out:
            rest, descriptor = self._out[0]
            try:
                sent = self._transmit(rest, descriptor)
            except BlockingIOError:
                return
            except OSError:  # the other side is gone, and what waits for it of no more use
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
        """Whether something waits to be sent."""
        return bool(self._out)

    def descriptors(self) -> int:
        """Return how many descriptors wait to be sent."""
        return sum(descriptor >= 0 for _, descriptor in self._out)

    def late_at(self) -> float:
        """Return when it is to be closed, if until then the other side neither sends nor reads."""
        if self._unsent_bytes > MOST_UNSENT_BYTES:
            return float("-inf")
        reads = self._progress_at + UNSENT_SECONDS if self._out else float("inf")
        sends = float("inf") if self._waiting_since is None else self._waiting_since + HALF_SECONDS
        return min(reads, sends)

    def fault(self) -> str:
        """Return what is wrong with the other side once it is late."""
        if self._out:
            return f"the client does not read; {self._unsent_bytes} bytes wait to be sent"
        return "the client sent an incomplete frame or no greeting, then nothing"

    def close(self) -> None:
        """Close it, and the descriptors that it should have passed."""
        self.closed = True
        for _, descriptor in self._out:
            if descriptor >= 0:
                os.close(descriptor)
        self._out.clear()
        with contextlib.suppress(OSError):
            self.stream.close()
