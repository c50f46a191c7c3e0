"""One connection to the probe: frames out, messages and descriptors in; it never blocks."""

from __future__ import annotations

import array
import contextlib
import os
import selectors
import socket
from typing import TYPE_CHECKING

from iowarden.daemon.probe.protocol import MAX_REPLY_BYTES, Decoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iowarden.daemon.probe.protocol import Message

_CHUNK_BYTES = 65_536


class Transport:
    """A connected stream socket, watched by a selector. Errors: OSError.

    Times of the client's clock: when it `began`, when the probe last read data or had nothing left
    to read (`sent_at`), and when data last arrived from it.
    """

    def __init__(
        self, stream: socket.socket, selector: selectors.BaseSelector, clock: Callable[[], float]
    ) -> None:
        """Own the socket."""
        stream.settimeout(0)
        selector.register(stream, selectors.EVENT_READ)
        self._stream = stream
        self._selector = selector
        self._clock = clock
        self._decoder = Decoder(MAX_REPLY_BYTES)
        self._outgoing = bytearray()
        self._descriptor = -1
        self.began_at = self.sent_at = self.received_at = clock()

    def unsent(self) -> bool:
        """Return whether data waits to be sent."""
        return bool(self._outgoing)

    def waiting(self) -> bool:
        """Return whether a partial frame was received: the probe still has to send the rest."""
        return self._decoder.waiting()

    def put(self, frame: bytes) -> None:
        """Queue a frame; `send` sends it."""
        if not self._outgoing:
            self.sent_at = self._clock()
        self._outgoing += frame

    def send(self) -> None:
        """Send as much as the socket accepts."""
        if self._outgoing:
            with contextlib.suppress(BlockingIOError):
                del self._outgoing[: self._stream.send(self._outgoing)]
                self.sent_at = self._clock()
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
        if self._selector.get_key(self._stream).events != events:
            self._selector.modify(self._stream, events)

    def receive(self) -> Iterator[Message]:
        """Yield the messages received. Errors: ProtocolError; EOFError: the probe has ended."""
        try:
            # Room for one descriptor: the kernel closes those that do not fit.
            received, ancillary, _, _ = self._stream.recvmsg(
                _CHUNK_BYTES, socket.CMSG_SPACE(array.array("i").itemsize), socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return
        self._keep_descriptor(ancillary)
        if not received:
            raise EOFError
        self.received_at = self._clock()
        yield from self._decoder.feed(received)
        if not self._decoder.waiting():
            self._forget_descriptor()  # It came without an answer to 'kmsg'.

    def take_descriptor(self) -> int:
        """Return the descriptor received with the message, or -1; the caller closes it."""
        descriptor, self._descriptor = self._descriptor, -1
        return descriptor

    def close(self) -> None:
        """Close it, and a descriptor that was not taken."""
        self._forget_descriptor()
        self._selector.unregister(self._stream)
        self._stream.close()

    def _keep_descriptor(self, ancillary: list[tuple[int, int, bytes]]) -> None:
        """Hold the last descriptor received until the frame that it came with is complete."""
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                found = array.array("i")
                found.frombytes(data[: len(data) - len(data) % found.itemsize])
                for descriptor in found:
                    self._forget_descriptor()
                    self._descriptor = descriptor

    def _forget_descriptor(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
