"""The kernel's ring buffer, live: records of '/dev/kmsg', through a descriptor from the probe.

Source: kernel, ABI/testing/dev-kmsg.
"""

from __future__ import annotations

import math
import os
from collections import deque
from typing import TYPE_CHECKING

from iowarden.collectors.model import AbsentError, ReadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Open = Callable[[], int]
    """Return a descriptor of '/dev/kmsg', the caller's. Errors: AbsentError, ReadError."""

RETRY_INTERVAL_SECONDS = 15.0
"""Interval after which the descriptor is requested again if there was none."""
RECORD_BYTES = 16 * 1024
"""A record has at most 8 KiB. Source: kernel/printk (CONSOLE_EXT_LOG_MAX, PRINTK_MESSAGE_MAX)."""
MAX_RECORDS = 200_000
"""Maximum records of one read; more than any ring contains, so that a read ends."""
MAX_READ_SECONDS = 1.0
"""Maximum time of a read even if lines continue: in a storm the lines read so far must be reported
meanwhile. Not for the first read, because the contents of the ring at that time are the baseline.
"""
MAX_RECORDED_BYTES = 256 * 1024
"""Memory limit of the flight recorder: the records of the last read that had some."""
_LAST_RECORDED = 500
"""Beyond these bytes this many more are stored, the last ones."""


class Ring:
    """The records of the ring. For one thread."""

    def __init__(self, open_log: Open | None, clock: Callable[[], float]) -> None:
        """Open nothing yet."""
        self._open_log = open_log
        self._clock = clock
        self._descriptor = -1
        self._refused: tuple[float, AbsentError | ReadError] | None = None
        self.cut = False
        """Whether the last read ended before the records did."""
        self.last_records = b""
        """The records of the last read that had some, for the recorder."""

    def open(self, now: float) -> bool:
        """Return whether it was opened just now: then its oldest record is next.

        Errors: AbsentError (no probe), ReadError.
        """
        if self._descriptor >= 0:
            return False
        if self._refused is not None and now < self._refused[0] + RETRY_INTERVAL_SECONDS:
            raise self._refused[1]
        if self._open_log is None:
            raise AbsentError("'/dev/kmsg': only root may open it, and no probe is running")
        try:
            self._descriptor = self._open_log()
        except (AbsentError, ReadError) as error:
            self._refused = now, error
            raise
        self._refused = None
        os.set_blocking(self._descriptor, False)
        return True

    def records(self, *, all_there: bool) -> Iterator[bytes]:
        """Yield the records, `all_there` or for MAX_READ_SECONDS. Errors: ReadError."""
        first, last, size_bytes = [], deque[bytes](maxlen=_LAST_RECORDED), 0
        end = math.inf if all_there else self._clock() + MAX_READ_SECONDS
        self.cut = True
        for _ in range(MAX_RECORDS):
            if self._clock() > end:
                break
            try:
                record = os.read(self._descriptor, RECORD_BYTES)
            except BlockingIOError:
                self.cut = False
                break
            except BrokenPipeError:
                continue  # records were overwritten: the next record's number shows how many
            except OSError as error:
                self.close()
                raise ReadError(f"'/dev/kmsg': {error.strerror}; will reopen it") from error
            if not record:
                self.close()
                raise ReadError("'/dev/kmsg': expected records, got its end; will reopen it")
            if size_bytes < MAX_RECORDED_BYTES:
                first.append(record)
                size_bytes += len(record)
            else:
                last.append(record)
            yield record
        if first:
            self.last_records = b"".join((*first, *last))

    def close(self) -> None:
        """Close the descriptor; the next read begins at the oldest record."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
