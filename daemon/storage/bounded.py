"""Waits for an access to a disk for a limited time: nothing else bounds it when the disk hangs."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, TypeVar

from iowarden.collectors.quantity import duration

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_SECONDS = 5.0
"""A healthy disk answers within a fraction of a second, one that spins up within some seconds."""
_T = TypeVar("_T")


class NoAnswerError(OSError):
    """The access has not returned; its thread still waits, and its result is not used."""


def within(seconds: float, call: Callable[[], _T]) -> _T:
    """Return what a call returns, run in a thread. Errors: NoAnswerError; those of the call."""
    results: queue.SimpleQueue[tuple[_T] | Exception] = queue.SimpleQueue()

    def work() -> None:
        try:
            results.put((call(),))
        except Exception as error:  # noqa: BLE001 - it is raised where the result is awaited
            results.put(error)

    threading.Thread(target=work, name="disk access", daemon=True).start()
    try:
        result = results.get(timeout=seconds)
    except queue.Empty:
        raise NoAnswerError(
            f"no answer within {duration(seconds)}: its disk or server hangs"
        ) from None
    if isinstance(result, Exception):
        raise result
    return result[0]
