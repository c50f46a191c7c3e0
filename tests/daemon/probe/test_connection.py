"""The limits of a connection, on a clock that the test sets."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from iowarden.daemon.probe import connection, protocol
from iowarden.daemon.probe.connection import Connection
from iowarden.daemon.probe.protocol import Hello, Request

if TYPE_CHECKING:
    from collections.abc import Iterator

FRAME = protocol.encode(Hello())
ANSWER = b"\0\0\1\0" + b"x" * 256


@pytest.fixture
def pair() -> Iterator[tuple[Connection, socket.socket]]:
    """A connection, and the client at its other end."""
    mine, theirs = socket.socketpair()
    one = Connection(mine, 100.0)
    yield one, theirs
    one.close()
    theirs.close()


def fill(one: Connection, now: float) -> int:
    """Send until the socket accepts no more; return the number of bytes."""
    put = 0
    while not one.unsent():
        one.put(ANSWER, now)
        put += len(ANSWER)
    return put


def test_who_sends_nothing_at_all_is_late(pair: tuple[Connection, socket.socket]) -> None:
    """A client that sends no greeting must not occupy one of the few connections."""
    one, _ = pair
    assert one.receive(105.0) == []
    assert one.late_at() == 100.0 + connection.HALF_SECONDS
    assert "greeting" in one.fault()


def test_half_a_frame_is_late_however_slowly_it_grows(
    pair: tuple[Connection, socket.socket],
) -> None:
    """The timeout starts with its first byte; a complete frame ends it, the next starts it."""
    one, theirs = pair
    theirs.sendall(FRAME)
    assert one.receive(101.0) == [Hello()]
    assert one.late_at() == float("inf")
    for at, byte in enumerate(FRAME[:5]):
        theirs.sendall(bytes([byte]))
        assert one.receive(102.0 + at) == []
    assert one.late_at() == 102.0 + connection.HALF_SECONDS
    theirs.sendall(FRAME[5:] + FRAME[:3])
    assert one.receive(110.0) == [Hello()]
    assert one.late_at() == 110.0 + connection.HALF_SECONDS


def test_a_flood_of_requests_is_taken_in_small_parts(
    pair: tuple[Connection, socket.socket],
) -> None:
    """All requests of one read are handled before another connection has its turn."""
    one, theirs = pair
    theirs.sendall(FRAME + protocol.encode(Request(1, "programs")) * 500)
    found = one.receive(101.0)
    assert found is not None
    assert 1 < len(found) < 100
    while len(found) < 501:
        found += one.receive(101.0) or ()
    assert found[-1] == Request(1, "programs")


def test_who_reads_nothing_is_late_and_who_reads_a_little_is_not(
    pair: tuple[Connection, socket.socket],
) -> None:
    """Half a minute without any progress; everything arrives in the end, in order."""
    one, theirs = pair
    theirs.sendall(FRAME)
    one.receive(100.0)
    put = fill(one, 200.0)
    while put < 4 << 20:
        one.put(ANSWER, 200.0)
        put += len(ANSWER)
    assert one.late_at() == 200.0 + connection.UNSENT_SECONDS
    assert "the client does not read" in one.fault()
    received = bytearray()
    while len(received) < 1 << 20:
        received += theirs.recv(1 << 16)
        one.send(210.0)
    assert one.late_at() == 210.0 + connection.UNSENT_SECONDS
    while len(received) < put:
        received += theirs.recv(1 << 20)
        one.send(215.0)
    assert not one.unsent()
    assert bytes(received) == ANSWER * (put // len(ANSWER))
    assert one.late_at() == float("inf")


def test_too_much_that_nobody_reads_is_late_at_once(
    pair: tuple[Connection, socket.socket],
) -> None:
    """Memory is limited, however fast the data grows."""
    one, _ = pair
    fill(one, 100.0)
    one.put(bytes(connection.MAX_UNSENT_BYTES), 100.0)
    assert one.late_at() == float("-inf")


def test_a_descriptor_goes_with_its_own_frame_and_is_never_kept(
    pair: tuple[Connection, socket.socket],
) -> None:
    """It waits behind unsent data, is counted, arrives with its frame, and is closed here."""
    one, theirs = pair
    put = fill(one, 100.0)
    reading, writing = os.pipe()
    one.put(FRAME, 100.0, writing)
    assert one.descriptors() == 1
    rest = put
    while rest:
        data, ancillary, _, _ = theirs.recvmsg(rest, socket.CMSG_SPACE(4))
        assert ancillary == []
        rest -= len(data)
        one.send(100.0)
    data, descriptors, _, _ = socket.recv_fds(theirs, 4096, 1)
    assert data == FRAME
    assert one.descriptors() == 0
    os.write(descriptors[0], b"x")
    os.close(descriptors[0])
    assert os.read(reading, 2) == b"x"
    assert os.read(reading, 2) == b""  # no writing end is open any longer, here neither
    os.close(reading)


def test_a_descriptor_that_is_sent_to_the_probe_is_not_taken(
    pair: tuple[Connection, socket.socket],
) -> None:
    """A client that passes descriptors fills no table: the kernel closes unexpected ones."""
    one, theirs = pair
    before = os.listdir("/proc/self/fd")
    with open("/dev/null", "rb") as file:
        socket.send_fds(theirs, [protocol.encode(Request(1, "tasks"))], [file.fileno()])
    assert one.receive(101.0) == [Request(1, "tasks")]
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_the_end_of_the_other_side_is_reported_in_both_directions(
    pair: tuple[Connection, socket.socket],
) -> None:
    """Reading detects the end; writing a broken connection, without a signal or an error."""
    one, theirs = pair
    theirs.close()
    assert one.receive(101.0) is None
    one.put(ANSWER, 101.0)
    assert one.broken
