"""Hotplug thread: waits for uevents of block devices and posts them to the loop."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from iowarden.collectors.block.uevents import UeventBatch, Uevents
from iowarden.collectors.quantity import duration

if TYPE_CHECKING:
    from collections.abc import Callable

RETRY_INTERVAL_SECONDS = 60.0


def listen(post: Callable[[UeventBatch], object]) -> None:
    """Start the thread; `post` gets every batch, including one that only reports an error."""
    threading.Thread(target=_run, args=(post,), name="uevents", daemon=True).start()


def _run(post: Callable[[UeventBatch], object]) -> None:
    pause = threading.Event()
    while True:
        try:
            uevents = Uevents()
            while True:
                post(uevents.wait())
        except (OSError, ImportError) as error:  # pyudev reports a missing libudev only here
            post(
                UeventBatch(
                    (),
                    f"cannot open the uevent socket: {error};"
                    f" will retry in {duration(RETRY_INTERVAL_SECONDS)}",
                )
            )
        pause.wait(RETRY_INTERVAL_SECONDS)
