"""Runs `iowarden check` in a child process, so that it answers by its deadline even if I/O hangs.

A process with a thread in a hung system call cannot end, and the user must get an answer anyway.
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
from iowarden.daemon.check.report import CheckReport, Finding, Level

if TYPE_CHECKING:
    from collections.abc import Callable


DEADLINE_SECONDS = 75.0
"""Timeout of the whole check, whatever it hangs in."""


def guarded(
    examine: Callable[[Callable[[str], None]], CheckReport],
    deadline_seconds: float = DEADLINE_SECONDS,
) -> CheckReport:
    """Return the report of `examine`, run in a child process, or a timeout finding.

    `examine` calls its argument with the name of each step. A child that hangs is abandoned: not
    even SIGKILL ends a process in uninterruptible sleep.
    Errors: OSError if no process can be created.
    """
    reading, writing = os.pipe()
    # During a fork, Python's own hooks would swallow Ctrl-C.
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
    examine: Callable[[Callable[[str], None]], CheckReport], step: Callable[[str], None]
) -> CheckReport:
    """Return the report of `examine`, or a finding about the exception that ended it."""
    try:
        return examine(step)
    except Exception as error:  # noqa: BLE001 - the user gets a report, not a traceback
        return CheckReport((Finding(Level.UNKNOWN, "check", "", f"bug: {trace(error)}"),))


def _serve(
    examine: Callable[[Callable[[str], None]], CheckReport], reading: int, writing: int
) -> None:
    """Run in the child process; exit without the parent's clean-up."""
    try:
        # Ends silently on Ctrl-C, and at the next step once the parent has ended.
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


def _awaited(reading: int, end: float) -> CheckReport:
    received, text = b"", "no answer in time; the root disk may hang"
    while (left := end - time.monotonic()) > 0 and select.select([reading], [], [], left)[0]:
        chunk = os.read(reading, 1 << 16)
        if not chunk:
            text = "ended without an answer"
            break
        received += chunk
    last = (_unpickled(received) or ["starting"])[-1]
    if isinstance(last, CheckReport):
        return last
    found = Finding(Level.UNKNOWN, "check", "", f"{text}; its last step: {last}")
    return CheckReport((found,))


def _unpickled(received: bytes) -> list[object]:
    stream = io.BytesIO(received)
    found: list[object] = []
    with contextlib.suppress(EOFError, pickle.UnpicklingError):  # the rest has not come
        while True:
            found.append(pickle.load(stream))  # noqa: S301 - from our own child
    return found
