"""Reads what may hang for a reply that is useful without it, too."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from iowarden.collectors.model import trace
from iowarden.collectors.quantity import duration
from iowarden.daemon.storage import sqlite

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_SECONDS = 5.0
"""How long a reply waits before it is sent without what is read: clients wait twice as long."""
_T = TypeVar("_T")


class PatientReader:
    """Reads one place, one read at a time: on a disk that hangs, only one thread waits."""

    def __init__(self, place: str, thread: str, seconds: float) -> None:
        """`place` names what is read in texts, `thread` the thread; a reply waits so long."""
        self.busy_text = f"{place} is being read for another command; try again in a moment"
        self.busy = threading.Lock()
        self._place = place
        self._thread = thread
        self._seconds = seconds

    def read(self, read: Callable[[], list[_T]], then: Callable[[list[_T], str], object]) -> None:
        """Read; never waits.

        `then` is called once, from any thread, with what `read` returns and '', or with nothing and
        the reason; if there is nothing to be read yet, with nothing and ''.
        """
        if not self.busy.acquire(blocking=False):
            then([], self.busy_text)
            return
        once = threading.Lock()

        def done(items: list[_T], why: str) -> None:
            if once.acquire(blocking=False):
                then(items, why)

        late = (
            f"{self._place} could not be read within {duration(self._seconds)}: its disk may hang"
        )
        patience = threading.Timer(self._seconds, done, ([], late))

        def run() -> None:
            items: list[_T] = []
            why = ""
            try:
                items = read()
            except FileNotFoundError:
                pass
            except sqlite.FAULTS as error:
                why = f"{self._place} cannot be read: {error}"
            except Exception as error:  # noqa: BLE001 - the client gets the error, and may try again
                why = f"{self._place}: bug: {trace(error)}"
            finally:
                self.busy.release()
            patience.cancel()
            done(items, why)

        patience.daemon = True
        patience.start()
        threading.Thread(target=run, name=self._thread, daemon=True).start()
