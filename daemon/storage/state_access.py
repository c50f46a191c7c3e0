"""Access to a state directory whose disk may hang, in a child process that is abandoned then.

A system call on such a disk is deaf to Ctrl-C and to SIGKILL, and a process with a thread in one
cannot end: neither a limit in this process nor a thread would give the prompt back.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
from typing import TYPE_CHECKING, NoReturn

from iowarden.collectors.quantity import duration
from iowarden.daemon.storage.bounded import WAIT_SECONDS, NoAnswerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NUMBER = struct.Struct("i")
_MAX_BYTES = 4096


def check(directory: str, wait_seconds: float = WAIT_SECONDS) -> None:
    """List a directory, only to see that it answers. Errors: NoAnswerError if it hangs; OSError."""
    with _answers_of(lambda: os.listdir(directory)) as answers:
        _await(answers, wait_seconds)


def connected(path: str, accept_seconds: int, wait_seconds: float = WAIT_SECONDS) -> socket.socket:
    """Return a socket that is connected to one in a directory that may hang.

    Errors: NoAnswerError if the directory hangs, BlockingIOError if the service does not accept it,
    OSError.
    """
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # A blocking connect with this limit: a non-blocking one fails if the queue is full (unix(7)).
    limit = struct.pack("ll", accept_seconds, 0)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    try:
        with _answers_of(lambda: os.path.exists(path), lambda: client.connect(path)) as answers:
            _await(answers, wait_seconds)
            _await(answers, accept_seconds + wait_seconds)
    except BaseException:
        client.close()
        raise
    return client


@contextlib.contextmanager
def _answers_of(*calls: Callable[[], object]) -> Iterator[socket.socket]:
    """Make calls in a child process; it sends number and text of each error, 0 if there is none."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # During a fork, Python's own hooks would swallow Ctrl-C.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    child = os.fork()
    if child == 0:
        _serve(theirs, calls)
    has_answered = False
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        theirs.close()
        yield ours
        has_answered = True
    finally:
        ours.close()
        os.kill(child, signal.SIGKILL)  # not reaped yet, so the number is still its own
        os.waitpid(child, 0 if has_answered else os.WNOHANG)


def _serve(answers: socket.socket, calls: tuple[Callable[[], object], ...]) -> NoReturn:
    """Run in the child process; exit without the parent's clean-up."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        # A reader of this command's output must not wait for a child that hangs.
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
        for call in calls:
            answer = _NUMBER.pack(0)
            try:
                call()
            except OSError as error:  # Python's own have no number: 'AF_UNIX path too long'
                answer = _NUMBER.pack(error.errno or -1) + str(error.strerror or error).encode()
            answers.send(answer)
    finally:
        os._exit(0)


def _await(answers: socket.socket, wait_seconds: float) -> None:
    answers.settimeout(wait_seconds)
    try:
        data = answers.recv(_MAX_BYTES)
    except TimeoutError:
        text = f"no answer within {duration(wait_seconds)}: its disk or server hangs"
        raise NoAnswerError(text) from None
    if len(data) < _NUMBER.size:
        raise NoAnswerError("the process that checked it ended without an answer")
    (number,) = _NUMBER.unpack_from(data)
    if number:
        raise OSError(number, data[_NUMBER.size :].decode())
