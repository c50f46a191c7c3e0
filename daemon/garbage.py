"""The loop decides when Python's garbage collector walks every object: once an hour.

Such a walk takes 0.1 s with 480 disks and 0.2 s with 1,000. Python would do it several times a
minute, because most of what the loop has read is replaced soon; that is freed by its reference
count. Young objects are collected when there are more of them than a second of 480 disks makes:
each collection before its end would walk what lives just until the next second.
"""

from __future__ import annotations

import gc
import math

COLLECT_SECONDS = 3600.0
YOUNG = 20_000
"""So many objects more than were freed before a collection of young ones."""
NEVER = 1_000_000
"""So many collections of younger objects before one of all."""


class GarbageCollection:
    """Collects all garbage once an hour; one for each process."""

    def __init__(self) -> None:
        """Python decides, until the first second."""
        self._due = math.inf

    def step(self, now: float) -> None:
        """Collect, if it is due; `now` in seconds of any clock."""
        if math.isinf(self._due):
            gc.set_threshold(YOUNG, gc.get_threshold()[1], NEVER)
        elif now >= self._due:
            gc.collect()
        else:
            return
        self._due = now + COLLECT_SECONDS
