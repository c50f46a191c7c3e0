"""A process of its own for what may hang: `iowarden check` answers by its deadline.

One with a thread in a hung system call cannot end, and whoever asks at three in the morning must
get an answer.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import select
import signal
import time
from typing import TYPE_CHECKING

from iowarden.collectors.model import trace
from iowarden.daemon.check.report import Finding, Level, Report

if TYPE_CHECKING:
    from collections.abc import Callable


DEADLINE_SECONDS = 75.0
"""After that the whole check is given up, whatever it hangs in."""


def guarded(
    examine: Callable[[Callable[[str], None]], Report],
    deadline_seconds: float = DEADLINE_SECONDS,
) -> Report:
    """Return what `examine` returns in a child process, or that it gave no answer in time.

    `examine` says by its argument what it is about to do. The child is left alone when it hangs:
    not even SIGKILL ends a process in uninterruptible sleep, and nobody waits for it.
    Errors: OSError when no process can be made.
    """
    reading, writing = os.pipe()
    # Amid a fork, Python's own hooks would swallow Ctrl-C.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    child = os.fork()
    if child == 0:
        _serve(examine, reading, writing)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        os.close(writing)
        return _awaited(reading, time.monotonic() + deadline_seconds)
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)  # not reaped yet, so the number is still its own
        os.waitpid(child, os.WNOHANG)


def answered(
    examine: Callable[[Callable[[str], None]], Report], step: Callable[[str], None]
) -> Report:
    """Return what `examine` returns, or the mistake of ours that ended it."""
    try:
        return examine(step)
    except Exception as error:  # noqa: BLE001 - whoever asks gets an answer, not a traceback
        return Report((Finding(Level.UNKNOWN, "check", "", f"bug: {trace(error)}"),))


def _serve(examine: Callable[[Callable[[str], None]], Report], reading: int, writing: int) -> None:
    """Do the child's work and end without the parent's clean-up."""
    try:
        # Silent with the terminal's Ctrl-C, and with the parent's end at the next step.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:

            def step(text: str) -> None:
                pickle.dump(text, pipe)
                pipe.flush()

            pickle.dump(answered(examine, step), pipe)
    finally:
        os._exit(0)


def _awaited(reading: int, end: float) -> Report:
    received, text = b"", "gave no answer in time; the root disk may hang"
    while (left := end - time.monotonic()) > 0 and select.select([reading], [], [], left)[0]:
        chunk = os.read(reading, 1 << 16)
        if not chunk:
            text = "ended without an answer"
            break
        received += chunk
    last = (_unpickled(received) or ["starting"])[-1]
    if isinstance(last, Report):
        return last
    found = Finding(Level.UNKNOWN, "check", "", f"{text}; its last step: {last}")
    return Report((found,))


def _unpickled(received: bytes) -> list[object]:
    stream = io.BytesIO(received)
    found: list[object] = []
    with contextlib.suppress(EOFError, pickle.UnpicklingError):  # the rest has not come
        while True:
            found.append(pickle.load(stream))  # noqa: S301 - from our own child
    return found
